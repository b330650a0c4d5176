"""How many requests one coordinator makes in a two-hour queue, and how long the
start of its post step takes.

    python bench/runner_requests.py [--virtual | --socket] [--speed 400]

Two candidates, an hour of queue each, and a runner for neither: dispatch,
polling, cancellation and confirmation twice. Against the fake GitHub of the
tests (tests/runners/fake), once with its virtual clock, and once over real
sockets, where both sides have a clock that runs --speed times as fast, the
three rows side by side. Columns:

  total    requests of the whole acquisition, of whatever kind
  mean     total, per hour
  worst    most requests that fell into any one hour; the limit is for this one
  counted  most requests in any one hour that count against the rate limit: an
           answer 304 to a conditional request does not

Limits per hour: 240 requests, and with conditional requests 40 that count.
Ends with exit code 1 when one is exceeded, or when the acquisition does not end
as it has to (queue_exhausted, every child cancelled).

At the end the start of `python -I ci/actions/run.py cleanup` without anything
to clean up, beside that of an interpreter that does nothing: what every post
step costs, and what passes before a cancellation is sent.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from pytest_sgpu.runners import coordinator  # noqa: E402 - the checkout, not what is installed
from pytest_sgpu.runners.ports import Clock, Result, Transport  # noqa: E402
from pytest_sgpu.runners.wire import HttpTransport  # noqa: E402
from tests.runners import fake  # noqa: E402

HOUR = 3600.0
MOST, MOST_COUNTED = 240, 40  # per hour
RUNNERS = json.dumps([{"group": "g", "labels": label} for label in ("linux-amd64-cpu16", "linux-amd64-cpu8")])
CONDITIONAL = {"conditional-requests": "true"}
CASES: dict[str, dict[str, str]] = {
    "defaults": {},
    "conditional-requests": CONDITIONAL,
    "conditional-requests, adaptive": CONDITIONAL | {"polling": "adaptive"},
}


class FastClock:
    """A ``Clock`` that runs ``speed`` times as fast as the real one."""

    def __init__(self, speed: float) -> None:
        self._speed = speed
        self._epoch = time.time()
        self._begun = time.monotonic()

    def monotonic(self) -> float:
        return (time.monotonic() - self._begun) * self._speed

    def time(self) -> float:
        return self._epoch + self.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(max(0.0, seconds) / self._speed)


@dataclass(frozen=True)
class Row:
    name: str
    result: Result
    hours: float
    total: int
    worst: int
    counted: int
    left: int

    @property
    def bad(self) -> list[str]:
        """Say what is not as it has to be."""
        found = [f"{self.worst} > {MOST} requests"] if self.worst > MOST else []
        if self.name != "defaults" and self.counted > MOST_COUNTED:
            found.append(f"{self.counted} > {MOST_COUNTED} that count")
        if self.result.kind != "queue_exhausted" or self.left:
            found.append(f"ended as {self.result.kind or 'success'}: {self.result.message}; {self.left} children left")
        return found


def most_in_an_hour(times: Sequence[float]) -> int:
    """Give the most of ``times`` (in order) that lie within any one hour."""
    most = first = 0
    for last, at in enumerate(times):
        while at - times[first] >= HOUR:
            first += 1
        most = max(most, last - first + 1)
    return most


def measured(name: str, github: fake.FakeGitHub, acquire: Callable[[Mapping[str, str]], Result]) -> Row:
    github.plan_all(runner_after=None)
    inputs = fake.default_inputs(github) | {"runners": RUNNERS, "queue-timeout-minutes": "60"} | CASES[name]
    result = acquire(inputs)
    github.check()
    assert len(github.dispatches()) == 2, len(github.dispatches())
    times = [asked.at for asked in github.requests]
    counted = [asked.at for asked in github.requests if asked.counted]
    hours = (times[-1] - times[0]) / HOUR
    return Row(name, result, hours, len(times), most_in_an_hour(times), most_in_an_hour(counted), len(github.live()))


def acquired(github: fake.FakeGitHub, transport: Transport, clock: Clock, inputs: Mapping[str, str]) -> Result:
    with tempfile.TemporaryDirectory(prefix="sgpu-requests-") as folder:
        env = fake.github_env(Path(folder), github)
        return coordinator.run(inputs, env, transport, clock, lambda _: None)


def virtual(name: str) -> Row:
    clock = fake.VirtualClock()
    github = fake.FakeGitHub(clock)
    github.latency = 0.2
    return measured(name, github, lambda inputs: acquired(github, github, clock, inputs))


def over_a_socket(name: str, speed: float) -> Row:
    with fake.StandIn(speed=speed) as server:
        github, transport, clock = server.github, HttpTransport(server.url), FastClock(speed)
        return measured(name, github, lambda inputs: acquired(github, transport, clock, inputs))


def show(title: str, rows: Sequence[Row]) -> bool:
    """Print a table; give whether all is as it has to be."""
    print(f"{title}\n\n{'':30}  hours  total   mean  worst  counted")
    for row in rows:
        figures = f"{row.hours:5.2f}  {row.total:5}  {row.total / row.hours:5.0f}  {row.worst:5}  {row.counted:7}"
        print(f"{row.name:30}  {figures}  {'OVER: ' + '; '.join(row.bad) if row.bad else 'ok'}")
    print(f"{'limit per hour':30}  {'':5}  {'':5}  {'':5}  {MOST:5}  {MOST_COUNTED:7}\n")
    return not any(row.bad for row in rows)


def starts(words: Sequence[str], runs: int) -> list[float]:
    """Give the ms of so many isolated interpreters, one after the other."""
    env = {"PATH": os.environ.get("PATH", os.defpath), "GITHUB_ACTIONS": "true"}
    took = []
    for _ in range(runs + 1):  # the first writes the byte code
        begin = time.perf_counter()
        subprocess.run([sys.executable, "-I", *words], env=env, stdout=subprocess.DEVNULL, check=True)
        took.append((time.perf_counter() - begin) * 1000)
    return took[1:]


def show_starts(runs: int) -> None:
    print(f"{runs} starts each, milliseconds{'':13} median    min")
    for name, words in (
        ("cleanup of nothing", [str(ROOT / "ci" / "actions" / "run.py"), "cleanup"]),
        ("interpreter alone", ["-c", "pass"]),
    ):
        took = starts(words, runs)
        print(f"{name:38} {statistics.median(took):6.0f} {min(took):6.0f}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--virtual", action="store_true", help="only with the virtual clock")
    only.add_argument("--socket", action="store_true", help="only over real sockets")
    parser.add_argument("--speed", type=float, default=400.0, help="of the clocks, over sockets (default 400)")
    parser.add_argument("--runs", type=int, default=9, help="starts of a cleanup that are counted (default 9)")
    chosen = parser.parse_args()
    good = True
    if not chosen.socket:
        good &= show("virtual clock, 0.2 s per request", [virtual(name) for name in CASES])
    if not chosen.virtual:
        with ThreadPoolExecutor(len(CASES)) as side_by_side:
            rows = list(side_by_side.map(lambda name: over_a_socket(name, chosen.speed), CASES))
        good &= show(f"real sockets, clocks {chosen.speed:g} times as fast", rows)
    show_starts(chosen.runs)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
