"""How planning and dispatching grow with the number of items, and how well a plan packs.

Prints two tables: seconds per plan and decisions per second for three sizes, and the simulated wall time over
its lower bound for the measured table in bench/data, warm and cold. Runs nothing: the clock is virtual.

    python bench/scale.py            python bench/scale.py --shuffles 20 --sizes 1000x16
"""

from __future__ import annotations

import argparse
import gc
import math
import random
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from pytest_sgpu.core import hints, plan, simulate
from pytest_sgpu.model import UNKNOWN, Estimate, Item, Key, Plan, Scope, WeightTable

DATA = Path(__file__).parent / "data" / "te_gfx950_l3_weights.txt"
SUITES = ("torch", "jax", "core", "examples")  # in the order of the conf file
LIMIT = 1.15


def durations(path: Path = DATA) -> dict[Key, float]:
    """Read the measured seconds."""
    pairs = (line.rsplit(" ", 1) for line in path.read_text("utf-8").splitlines() if line and line[0] != "#")
    return {Key.parse(name): float(seconds) for name, seconds in pairs}


def listed(keys: Iterable[Key]) -> list[Item]:
    """Give the items as they are listed: suite by suite, as the tags come."""
    keys = list(keys)
    ordered = [key for suite in SUITES for key in keys if key.suite == suite]
    return [Item(key, ("./suite.sh",), 1, position) for position, key in enumerate(ordered)]


def listings(keys: Sequence[Key], shuffles: int) -> list[tuple[str, list[Item]]]:
    """Give listing orders of many kinds: how a script is written must not decide how a cold run goes."""

    def parts(key: Key) -> tuple[str, str, str]:
        of = hints.kin(key)
        if of is None:
            return "", "", ""
        tail = key.tag[len(of.file[1]) + 1 :]
        return of.file[1], tail.split(".")[0], of.label

    found = [
        ("alphabetical", listed(sorted(keys))),
        ("alphabetical, reversed", listed(sorted(keys, reverse=True))),
        ("longest first", listed(keys)),
        ("shortest first", listed(reversed(keys))),
        ("by stem, backend", listed(sorted(keys, key=parts))),
        ("by stem, label", listed(sorted(keys, key=lambda key: (parts(key)[0], parts(key)[2], parts(key)[1])))),
        ("by backend, stem", listed(sorted(keys, key=lambda key: (parts(key)[1], parts(key)[0], parts(key)[2])))),
        ("by label, backend", listed(sorted(keys, key=lambda key: parts(key)[::-1]))),
    ]
    for seed in range(shuffles):
        shuffled = list(keys)
        random.Random(seed).shuffle(shuffled)
        found.append((f"shuffle {seed}", listed(shuffled)))
    return found


def bound(seconds: dict[Key, float], devices: int) -> float:
    """Give the seconds that no schedule can beat."""
    return max(sum(seconds.values()) / devices, *seconds.values())


def ratio(made: Plan, seconds: dict[Key, float], devices: int, *, reorder: bool = True) -> float:
    """Give the simulated wall time over the bound."""
    return simulate.simulate(made, seconds, devices, reorder=reorder).wall / bound(seconds, devices)


def warm_ratio(seconds: dict[Key, float], devices: int) -> float:
    """Give the ratio when every item is known, and exactly."""
    items = listed(sorted(seconds))
    return ratio(plan.order(items, lambda key: Estimate(seconds[key], known=True), devices), seconds, devices)


def cold_ratio(items: Sequence[Item], seconds: dict[Key, float], devices: int) -> float:
    """Give the ratio when nothing is known at the start."""
    return ratio(plan.order(items, lambda _: UNKNOWN, devices), seconds, devices)


def as_listed_ratio(items: Sequence[Item], seconds: dict[Key, float], devices: int) -> float:
    """Give the ratio of the queue without rules: items start as they are listed."""
    made = plan.fixed(items, lambda _: UNKNOWN, devices)
    return ratio(made, seconds, devices, reorder=False)


def many(count: int) -> list[Item]:
    """Make items of a big repository, nine to a file: three backends, three labels."""
    tails = [f"{backend}{label}" for backend in ("ck", "flash", "unfused") for label in ("", ".fp8", ".long")]
    found = []
    for position in range(count):
        file, tail = divmod(position, len(tails))
        tag = f"dir{file % 13}.test_f{file}.{tails[tail]}"
        found.append(Item(Key(f"suite{file % 7}", tag), ("./suite.sh",), 1, position))
    return found


def clocked(run: Callable[[], object]) -> float:
    """Give the seconds of the best of three calls: the others were disturbed."""
    found = []
    for _ in range(3):
        gc.collect()
        start = time.perf_counter()
        run()
        found.append(time.perf_counter() - start)
    return min(found)


def growth(items: Sequence[Item], devices: int, seconds: dict[Key, float], table: WeightTable) -> tuple[float, float]:
    """Give the seconds of one plan, and of one simulated run of it."""
    made = plan.order(items, table, devices)
    planning = clocked(lambda: plan.order(items, table, devices))
    return planning, clocked(lambda: simulate.simulate(made, seconds, devices))


def scale(sizes: Sequence[tuple[int, int]]) -> None:
    print("items x devices   table     plan s  decisions/s   us per item and log2(items)   against the first size")
    first: dict[str, float] = {}
    for count, devices in sizes:
        items = many(count)
        rng = random.Random(0)
        seconds = {item.key: rng.lognormvariate(3.5, 1.0) for item in items}
        half = {key: value for n, (key, value) in enumerate(seconds.items()) if n % 2}
        for name, entries in (("warm", seconds), ("half", half), ("cold", {})):
            table = WeightTable(Scope("bench", "1"), entries)
            planning, running = growth(items, devices, seconds, table)
            unit = (planning + running) / (count * math.log2(count)) * 1e6
            against = unit / first.setdefault(name, unit)
            text = f"{count:,} x {devices:,}"
            print(f"{text:16}  {name:6} {planning:9.3f} {count / running:12,.0f} {unit:29.3f} {against:24.2f}")


def packing(shuffles: int) -> None:
    seconds = durations()
    orders = listings(tuple(seconds), shuffles)
    print(f"\n{len(seconds)} measured items, {sum(seconds.values()):,.0f} s; simulated wall / bound")
    print(
        f"devices   bound s    warm   cold: median    p95    max   <= {LIMIT}"
        "   worst order             as listed: median    max"
    )
    for devices in (2, 4, 6, 8, 16):
        cold = sorted((cold_ratio(items, seconds, devices), name) for name, items in orders)
        values = [value for value, _ in cold]
        plain = [as_listed_ratio(items, seconds, devices) for _, items in orders]
        share = sum(value <= LIMIT for value in values) / len(values)
        limit, warm = bound(seconds, devices), warm_ratio(seconds, devices)
        p95 = values[int(0.95 * (len(values) - 1))]
        print(
            f"{devices:7} {limit:9.0f} {warm:7.3f} {statistics.median(values):14.3f} {p95:6.3f} {values[-1]:6.3f}"
            f" {share:9.1%}   {cold[-1][1]:23} {statistics.median(plain):17.3f} {max(plain):6.3f}"
        )
    print("\ncold, by listing order, at 4 and 8 devices")
    for name, items in orders[: len(orders) - shuffles]:
        print(f"  {name:23} {cold_ratio(items, seconds, 4):6.3f} {cold_ratio(items, seconds, 8):6.3f}")


def size(text: str) -> tuple[int, int]:
    """Read ``ITEMSxDEVICES``."""
    count, _, devices = text.partition("x")
    return int(count), int(devices)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="*", type=size, default=[(1_000, 16), (10_000, 128), (100_000, 1024)])
    parser.add_argument("--shuffles", type=int, default=200, help="random listing orders for the packing table")
    options = parser.parse_args()
    if options.sizes:
        scale(options.sizes)
    packing(options.shuffles)


if __name__ == "__main__":
    main()
