"""What the installed plugin adds to the start of a pytest run that does not use
it.

    python bench/startup.py [--runs 15]

Each run is a pair, one command directly after the other, the first one in turn
with and without:

  without  the plugin is blocked: -p no:sgpu
  with     pytest finds it by its entry point, as wherever it is installed

All other plugins of the environment are loaded in both. "collection" is `pytest
--collect-only` in an empty directory; "version" is `pytest --version
--version`, which loads the plugins too. A negative number is noise. One more
pair before each series writes the byte code, and is not counted. Then the share
of the import alone, as `python -X importtime` gives it: pytest_sgpu.plugin with
all that pytest has not imported yet.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

TARGET_MS = 50.0
COMMANDS = {"collection": (["--collect-only", "-q"], 5), "version": (["--version", "--version"], 0)}
OWN = re.compile(r"(SGPU_|PYTEST_|PYTHONDONTWRITEBYTECODE$)")


def seconds(options: Sequence[str], code: int, cwd: Path, env: Mapping[str, str]) -> float:
    argv = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options]
    begin = time.perf_counter()
    done = subprocess.run(argv, cwd=cwd, env=env, capture_output=True, text=True, check=False)
    took = time.perf_counter() - begin
    if done.returncode != code:
        raise RuntimeError(f"pytest ended with exit code {done.returncode}\n{done.stdout}{done.stderr}"[-2000:])
    return took


def pairs(name: str, runs: int, cwd: Path, env: Mapping[str, str]) -> list[tuple[float, float]]:
    """Give the seconds without and with the plugin. The order changes from pair to pair."""
    options, code = COMMANDS[name]
    found = []
    for number in range(runs + 1):
        both = {}
        for blocked in (True, False) if number % 2 else (False, True):
            both[blocked] = seconds([*options, "-p", "no:sgpu"] if blocked else options, code, cwd, env)
        found.append((both[True], both[False]))
    return found[1:]


def import_times(cwd: Path, env: Mapping[str, str]) -> dict[str, float]:
    """Give the ms of each module that importing the plugin adds to pytest: all of them under its own total."""
    argv = [sys.executable, "-X", "importtime", "-c", "import pytest, pytest_sgpu.plugin"]
    text = subprocess.run(argv, cwd=cwd, env=env, capture_output=True, text=True, check=True).stderr
    rows = [line.removeprefix("import time:").split("|") for line in text.splitlines() if line.count("|") == 2]
    names = [row[2].strip() for row in rows]
    start = max(index for index, name in enumerate(names) if name == "pytest") + 1
    return {row[2].rstrip(): int(row[0]) / 1000 for row in rows[start:]}


def show_imports(cwd: Path, env: Mapping[str, str], runs: int) -> None:
    tries = [import_times(cwd, env) for _ in range(runs)]
    totals = [sum(one.values()) for one in tries]
    modules = ", ".join(name.strip() for name in tries[-1])
    print(f"\nimport of pytest_sgpu.plugin: median {statistics.median(totals):.2f} ms, min {min(totals):.2f} ms")
    print(f"modules that it adds to pytest's own: {modules}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=15, help="counted pairs per command (default 15)")
    chosen = parser.parse_args()
    env = {name: value for name, value in os.environ.items() if not OWN.match(name)}
    print(f"{chosen.runs} pairs, milliseconds\n")
    print(f"{'':11} {'without':^15}  {'with':^15}  {'the plugin adds':^24}")
    print(f"{'command':11} {'median':>7} {'min':>7}  {'median':>7} {'min':>7}  {'median of pairs':>15} {'of mins':>8}")
    added = {}
    with tempfile.TemporaryDirectory(prefix="sgpu-startup-") as folder:
        cwd = Path(folder)
        (cwd / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
        for name in COMMANDS:
            found = pairs(name, chosen.runs, cwd, env)
            without, with_ = ([value * 1000 for value in side] for side in zip(*found, strict=True))
            added[name] = statistics.median(b - a for a, b in zip(without, with_, strict=True))
            print(
                f"{name:11} {statistics.median(without):7.1f} {min(without):7.1f}"
                f"  {statistics.median(with_):7.1f} {min(with_):7.1f}"
                f"  {added[name]:15.1f} {min(with_) - min(without):8.1f}"
            )
        show_imports(cwd, env, 5)
    worst = max(added.values())
    print(f"\nadded: {worst:.1f} ms, target {TARGET_MS:.0f} ms: {'PASS' if worst <= TARGET_MS else 'over'}")


if __name__ == "__main__":
    main()
