"""What one item costs on top of its own work: many items that do nothing, on four
workers.

    python bench/overhead.py                 200 items, three interleaved rounds
    python bench/overhead.py --items 10000   this plugin only: peak memory

Each item is one entry into the same sh script, which prints that its item ran
and ends:

  plugin  this plugin, as users run it
  flock   a bash loop per worker that takes the next line of a queue under flock
  xargs   xargs -P
  xdist   pytest-xdist --dist worksteal, one test per item that starts the
          script (when it is installed)

Columns, medians over the rounds: "ms/item" is the time from the start of the
first item to the end of the last one, divided by the items; "before" and
"after" are the rest of the command, in seconds: start and listing, then
verdicts, report and end. For flock and xargs the whole command counts as run.
"best" is the least ms/item of all rounds: on a busy machine it says more than
the median.

With 1,000 items or more, peers are left out unless --only names them, and a
table of memory is printed. The peak is what the kernel counted for the pytest
process, or for the biggest process that it started, if that is more (resident
set, in MB of 1,000,000 bytes).
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import re
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

TARGET_MS = 4.0
TARGET_MB = 200.0
MANY = 1000  # items; from here on memory is the question
OWN = re.compile(r"(TE_CI_|TEST_|JUNITXML_|SGPU_|PYTEST_|(HIP|ROCR|CUDA)_VISIBLE_DEVICES$)")

SCRIPT = """\
#!/bin/sh
# A suite of ITEMS items that do nothing. A filtered entry does not walk the list: it is to cost nothing.
if [ "${TE_CI_SETUP_ONLY:-}" = 1 ]; then exit 0; fi
if [ "${TE_CI_LIST_ITEMS:-}" != 1 ]; then echo "TE_CI_RAN $TEST_FILTER"; exit 0; fi
n=0
while [ "$n" -lt ITEMS ]; do
    echo "TE_CI_ITEM dir.test_$((n / 8)).part$((n % 8))"
    n=$((n + 1))
done
"""

FLOCK_SCRIPT = r"""#!/bin/bash
# flock.sh QUEUE WORKERS DIRECTORY: a line of the queue is a tag.
mapfile -t tags <"$1"
workers=$2 dir=$3
echo 0 >"$dir/next"
worker() {
    local n log
    export HIP_VISIBLE_DEVICES=$1 TE_CI_SKIP_SETUP=1
    while :; do
        { flock 9; read -r n <"$dir/next"; echo $((n + 1)) >"$dir/next"; } 9>"$dir/lock"
        [ "$n" -lt "${#tags[@]}" ] || return 0
        log=$dir/${tags[n]}.log
        TEST_FILTER=${tags[n]} ./suite.sh >"$log" 2>&1
        echo $? >"$log.rc"
    done
}
for ((worker = 0; worker < workers; worker++)); do worker "$worker" & done
wait
"""

XDIST_TESTS = """\
import os, subprocess, time
import pytest

@pytest.mark.parametrize("tag", open(os.environ["BENCH_QUEUE"]).read().split())
def test_item(tag):
    start = time.time()
    with open(tag + ".log", "wb") as log:
        env = dict(os.environ, TEST_FILTER=tag)
        done = subprocess.run([os.environ["BENCH_SUITE"]], env=env, stdout=log, stderr=log, check=False)
    with open("spans", "a") as spans:
        spans.write(f"{start} {time.time()}\\n")
    assert done.returncode == 0
"""


@dataclass(frozen=True)
class Cost:
    """One run: seconds before the first item, from first to last, after it; peak memory in MB."""

    before: float
    run: float
    after: float
    peak: float


@dataclass(frozen=True)
class Bench:
    """What all schedulers share."""

    folder: Path
    tags: Sequence[str]
    workers: int
    env: Mapping[str, str]

    def pytest(self, *options: str) -> list[str]:
        return [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options]


def make(folder: Path, items: int, workers: int) -> Bench:
    for name, text in (
        ("suite.sh", SCRIPT.replace("ITEMS items", f"{items} items").replace("ITEMS ]", f"{items} ]")),
        ("flock.sh", FLOCK_SCRIPT),
    ):
        (folder / name).write_text(text, encoding="utf-8")
        (folder / name).chmod(0o755)
    (folder / "queue.conf").write_text("noop noop.log list ./suite.sh\n", encoding="utf-8")
    (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    (folder / "test_items.py").write_text(XDIST_TESTS, encoding="utf-8")
    tags = [f"dir.test_{n // 8}.part{n % 8}" for n in range(items)]
    (folder / "queue.txt").write_text("".join(f"{tag}\n" for tag in tags), encoding="utf-8")
    env = {name: value for name, value in os.environ.items() if not OWN.match(name)}
    return Bench(folder, tags, workers, {**env, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"})


@dataclass(frozen=True)
class Called:
    """One command: when it began and ended (epoch seconds), and its peak memory in MB."""

    began: float
    ended: float
    peak: float


def call(argv: Sequence[str], cwd: Path, env: Mapping[str, str], stdin: Path | None = None) -> Called:
    """Run a command; raises when it failed. Its output goes to a file, as in CI: a pipe would cost us time."""
    with (cwd / "out").open("wb") as out, (stdin or Path(os.devnull)).open("rb") as source:
        began = time.time()
        process = subprocess.Popen(argv, cwd=cwd, env=env, stdin=source, stdout=out, stderr=out)
        _, status, usage = os.wait4(process.pid, 0)
        ended = time.time()
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        tail = (cwd / "out").read_text("utf-8", "replace")[-2000:]
        raise RuntimeError(f"{shlex.join(argv)} ended with exit code {process.returncode}\n{tail}")
    return Called(began, ended, usage.ru_maxrss * 1024 / 1e6)


def between(called: Called, first: float, last: float) -> Cost:
    return Cost(first - called.began, last - first, called.ended - last, called.peak)


def run_plugin(bench: Bench, out: Path) -> Cost:
    options = ["-p", "sgpu", "--sgpu-conf=queue.conf", f"--sgpu-gpus={bench.workers}"]
    options += [f"--sgpu-weights={out / 'weights.txt'}", f"--sgpu-log-dir={out / 'logs'}"]
    called = call(bench.pytest(*options), bench.folder, bench.env)
    queue = out / "logs" / "queue"
    rows = [line.split("\t") for line in (queue / "timings.tsv").read_text("utf-8").splitlines()]
    if len(rows) != len(bench.tags):
        raise RuntimeError(f"{len(rows)} of {len(bench.tags)} items are in timings.tsv")
    with (queue / "journal.jsonl").open(encoding="utf-8") as journal:
        zero = float(json.loads(journal.readline())["started"])
    return between(called, zero + min(float(row[5]) for row in rows), zero + max(float(row[6]) for row in rows))


def run_flock(bench: Bench, out: Path) -> Cost:
    called = call(["bash", "flock.sh", "queue.txt", str(bench.workers), str(out)], bench.folder, bench.env)
    ran = len(list(out.glob("*.rc")))
    if ran != len(bench.tags):
        raise RuntimeError(f"the flock loop ran {ran} of {len(bench.tags)} items")
    return between(called, called.began, called.ended)


def run_xargs(bench: Bench, out: Path) -> Cost:
    argv = ["xargs", "-P", str(bench.workers), "-I", "{}", "env", "TEST_FILTER={}", str(bench.folder / "suite.sh")]
    called = call(argv, out, bench.env, bench.folder / "queue.txt")
    return between(called, called.began, called.ended)


def run_xdist(bench: Bench, out: Path) -> Cost:
    options = ["-q", "-p", "xdist", "-n", str(bench.workers), "--dist", "worksteal", f"--rootdir={out}"]
    env = {**bench.env, "BENCH_QUEUE": str(bench.folder / "queue.txt"), "BENCH_SUITE": str(bench.folder / "suite.sh")}
    called = call(bench.pytest(*options, str(bench.folder / "test_items.py")), out, env)
    spans = [line.split() for line in (out / "spans").read_text("utf-8").splitlines()]
    return between(called, min(float(start) for start, _ in spans), max(float(stop) for _, stop in spans))


RUNNERS: dict[str, Callable[[Bench, Path], Cost]] = {
    "plugin": run_plugin,
    "flock": run_flock,
    "xargs": run_xargs,
    "xdist": run_xdist,
}


def measured(bench: Bench, name: str) -> Cost:
    with tempfile.TemporaryDirectory(dir=bench.folder) as out:
        return RUNNERS[name](bench, Path(out))


def compare(bench: Bench, names: Sequence[str], rounds: int) -> dict[str, list[Cost]]:
    """Print the table of times. Rounds are interleaved, so that a busy moment meets everybody."""
    costs: dict[str, list[Cost]] = {name: [] for name in names}
    for _ in range(rounds):
        for name in names:
            costs[name].append(measured(bench, name))
    print(f"{'scheduler':10} {'ms/item':>8} {'best':>7} {'run s':>8} {'before s':>9} {'after s':>9}")
    for name, found in costs.items():
        each = [cost.run / len(bench.tags) * 1000 for cost in found]
        run, before, after = (
            statistics.median(values)
            for values in zip(*((cost.run, cost.before, cost.after) for cost in found), strict=True)
        )
        print(f"{name:10} {statistics.median(each):8.2f} {min(each):7.2f} {run:8.2f} {before:9.2f} {after:9.2f}")
    return costs


def memory(bench: Bench, run: Sequence[Cost]) -> float:
    """Print the table of memory; gives the peak of the runs."""
    empty = bench.folder / "empty"
    empty.mkdir()
    (empty / "test_nothing.py").write_text("def test_nothing(): pass\n", encoding="utf-8")
    plain = call(bench.pytest("-q", f"--rootdir={empty}", str(empty)), empty, bench.env)
    options = ["-p", "sgpu", "--sgpu-conf=queue.conf", f"--sgpu-gpus={bench.workers}", "--sgpu-plan"]
    plan = call(bench.pytest(*options, f"--sgpu-weights={bench.folder / 'none.txt'}"), bench.folder, bench.env)
    print(f"\n{'pytest process':24} {'peak MB':>8} {'command s':>10}")
    peak = max(cost.peak for cost in run)
    seconds = statistics.median(cost.before + cost.run + cost.after for cost in run)
    rows = (
        ("plain, one empty test", plain.peak, plain.ended - plain.began),
        ("plan (--sgpu-plan)", plan.peak, plan.ended - plan.began),
        ("run", peak, seconds),
    )
    for name, megabytes, took in rows:
        print(f"{name:24} {megabytes:8.1f} {took:10.2f}")
    return max(peak, plan.peak)


def names_of(text: str) -> list[str]:
    found = text.split(",")
    if not set(found) <= set(RUNNERS):
        raise argparse.ArgumentTypeError(f"names out of {', '.join(RUNNERS)} are expected")
    return found


def judged(what: str, value: float, target: float, unit: str) -> str:
    return f"{what}: {value:.2f} {unit}, target {target:.0f} {unit}: {'PASS' if value <= target else 'over'}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=200, help="number of items (default 200)")
    parser.add_argument("--workers", type=int, default=4, help="number of workers (default 4)")
    parser.add_argument("--rounds", type=int, help="rounds (default 3; 1 with 1,000 items or more)")
    parser.add_argument("--only", type=names_of, metavar="A,B", help=f"only these of {', '.join(RUNNERS)}")
    chosen = parser.parse_args()
    many = chosen.items >= MANY
    names = chosen.only or (["plugin"] if many else list(RUNNERS))
    if "xdist" in names and importlib.util.find_spec("xdist") is None:
        print("xdist is left out: pytest-xdist is not installed")
        names = [name for name in names if name != "xdist"]
    rounds = chosen.rounds or (1 if many else 3)
    print(f"{chosen.items} items that do nothing, {chosen.workers} workers, {os.cpu_count()} CPUs, rounds: {rounds}\n")
    with tempfile.TemporaryDirectory(prefix="sgpu-overhead-") as folder:
        bench = make(Path(folder), chosen.items, chosen.workers)
        costs = compare(bench, names, rounds)
        peak = memory(bench, costs["plugin"]) if many and "plugin" in costs else None
    print()
    if "plugin" in costs:
        each = statistics.median(cost.run for cost in costs["plugin"]) / chosen.items * 1000
        print(judged("plugin, per item", each, TARGET_MS, "ms"))
    if peak is not None:
        print(judged(f"plugin, peak memory with {chosen.items} items", peak, TARGET_MB, "MB"))


if __name__ == "__main__":
    main()
