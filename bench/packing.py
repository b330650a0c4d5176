"""How close real runs come to the shortest possible wall time: 80 measured
durations, as sleeps.

    python bench/packing.py                   everything, in about five minutes
    python bench/packing.py --only plugin --devices 4 --warm

Makes four suites that follow the suite protocol (torch and jax list their
items, core and examples are opaque) and whose items sleep for the durations in
bench/data, scaled down. Runs them on virtual devices:

  plugin  this plugin, as users run it
  flock   a bash loop per device that takes the next line of a queue under
          flock, as published schedulers of this kind do: longest first when
          warm, in conf order when cold
  xargs   xargs -P, in conf order
  xdist   pytest-xdist --dist worksteal, one test per item, in conf order (when
          it is installed)

All of them start the same scripts with the same filters. Warm: all durations
are known before the run. Cold: none is; xargs and xdist never know any. Only
the plugin re-orders while it runs.

Columns: "wall" goes from the start of the first item to the end of the last
one, in seconds; "bound" is what no schedule beats, max(work / devices, longest
item); "command" is the whole command, with start and report. For flock and
xargs the two are the same. The targets are for the default scale: the shorter
the sleeps, the more the cost of an item shows.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import random
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

DATA = Path(__file__).parent / "data" / "te_gfx950_l3_weights.txt"
SUITES = {"torch": "list", "jax": "list", "core": "opaque", "examples": "opaque"}  # in the order of the conf
TARGETS = {("warm", 4): 1.03, ("warm", 8): 1.03, ("cold", 4): 1.15}
BOUND = 30.0  # seconds on four devices, by default
OWN = re.compile(r"(TE_CI_|TEST_|JUNITXML_|SGPU_|PYTEST_|(HIP|ROCR|CUDA)_VISIBLE_DEVICES$)")

LIST_SCRIPT = """\
#!/bin/sh
# A list suite of the benchmark: each line of the table at the end sleeps for its seconds.
set -f
if [ "${TE_CI_SETUP_ONLY:-}" = 1 ]; then exit 0; fi
wanted() {
    [ -n "${TEST_FILTER:-}" ] || return 0
    for glob in $TEST_FILTER; do case $1 in $glob) return 0 ;; esac; done
    return 1
}
while read -r tag seconds; do
    wanted "$tag" || continue
    if [ "${TE_CI_LIST_ITEMS:-}" = 1 ]; then echo "TE_CI_ITEM $tag"; continue; fi
    echo "TE_CI_RAN $tag"
    [ "${TEST_FILTER:-}" != "$tag" ] || exec sleep "$seconds"
    sleep "$seconds"
done <<'TABLE'
"""

FLOCK_SCRIPT = r"""#!/bin/bash
# flock.sh QUEUE DEVICES DIRECTORY: a line of the queue is "label tag script", tag "whole" for an opaque suite.
mapfile -t lines <"$1"
devices=$2 dir=$3
echo 0 >"$dir/next"
worker() {
    local gpu=$1 n label tag script log
    export HIP_VISIBLE_DEVICES=$gpu TE_CI_SKIP_SETUP=1
    while :; do
        { flock 9; read -r n <"$dir/next"; echo $((n + 1)) >"$dir/next"; } 9>"$dir/lock"
        [ "$n" -lt "${#lines[@]}" ] || return 0
        read -r label tag script <<<"${lines[n]}"
        log=$dir/$label.$tag.log
        if [ "$tag" = whole ]; then "$script" >"$log" 2>&1; else TEST_FILTER=$tag "$script" >"$log" 2>&1; fi
        echo $? >"$log.rc"
    done
}
for ((gpu = 0; gpu < devices; gpu++)); do worker "$gpu" & done
wait
"""

XDIST_TESTS = """\
import os, subprocess, time
import pytest

@pytest.mark.parametrize("line", open(os.environ["BENCH_QUEUE"]).read().splitlines())
def test_item(line):
    label, tag, script = line.split()
    env = dict(os.environ, **({} if tag == "whole" else {"TEST_FILTER": tag}))
    start = time.time()
    with open(f"{label}.{tag}.log", "wb") as log:
        code = subprocess.run([script], env=env, stdout=log, stderr=log, check=False).returncode
    with open("spans", "a") as spans:
        spans.write(f"{start} {time.time()}\\n")
    assert code == 0
"""


@dataclass(frozen=True)
class Job:
    """One item: its suite, its tag ("" for an opaque suite) and its seconds of sleep."""

    suite: str
    tag: str
    seconds: float

    @property
    def key(self) -> str:
        return f"{self.suite}/{self.tag}" if self.tag else self.suite


@dataclass(frozen=True)
class Bench:
    """What all schedulers share: the folder with the suites and the jobs in conf order."""

    folder: Path
    jobs: Sequence[Job]
    env: Mapping[str, str]

    def bound(self, devices: int) -> float:
        seconds = [job.seconds for job in self.jobs]
        return max(sum(seconds) / devices, *seconds)

    def script(self, suite: str) -> Path:
        return self.folder / f"{suite}.sh"


def read_jobs(path: Path, order: str, bound: float | None, scale: float | None) -> list[Job]:
    """Give the jobs in conf order, scaled by a factor or so that four devices have the wanted bound."""
    pairs = [line.rsplit(" ", 1) for line in path.read_text("utf-8").splitlines() if line and line[0] != "#"]
    if order == "alphabetical":
        pairs.sort()
    elif order != "table":
        random.Random(int(order)).shuffle(pairs)
    seconds = [float(text) for _, text in pairs]
    factor = scale or (bound or BOUND) / max(sum(seconds) / 4, *seconds)
    jobs = []
    for name, text in pairs:
        suite, _, tag = name.partition("/")
        jobs.append(Job(suite, tag, round(float(text) * factor, 3)))
    return [job for suite in SUITES for job in jobs if job.suite == suite]


def write_executable(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)


def make_suites(folder: Path, jobs: Sequence[Job]) -> Bench:
    conf = ""
    for suite, mode in SUITES.items():
        mine = [job for job in jobs if job.suite == suite]
        if mode == "list":
            text = LIST_SCRIPT + "".join(f"{job.tag} {job.seconds:.3f}\n" for job in mine) + "TABLE\n"
        else:
            text = f"#!/bin/sh\nexec sleep {mine[0].seconds:.3f}\n"
        write_executable(folder / f"{suite}.sh", text)
        conf += f"{suite} {suite}.log {mode} ./{suite}.sh\n"
    (folder / "queue.conf").write_text(conf, encoding="utf-8")
    (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    write_executable(folder / "flock.sh", FLOCK_SCRIPT)
    (folder / "xdist").mkdir()
    (folder / "xdist" / "test_items.py").write_text(XDIST_TESTS, encoding="utf-8")
    env = {name: value for name, value in os.environ.items() if not OWN.match(name)}
    return Bench(folder, jobs, env)


def order_of(bench: Bench, *, warm: bool) -> list[Job]:
    """Give the order of a scheduler that plans once: longest first, or as listed when nothing is known."""
    return sorted(bench.jobs, key=lambda job: -job.seconds) if warm else list(bench.jobs)


def write_queue(bench: Bench, *, warm: bool) -> Path:
    path = bench.folder / "queue.txt"
    lines = [f"{job.suite} {job.tag or 'whole'} {bench.script(job.suite)}\n" for job in order_of(bench, warm=warm)]
    path.write_text("".join(lines), encoding="utf-8")
    return path


def call(argv: Sequence[str], cwd: Path, env: Mapping[str, str], stdin: str = "") -> tuple[float, float]:
    """Run a command. Gives when it began (epoch) and its seconds; raises when it failed."""
    epoch, begin = time.time(), time.perf_counter()
    done = subprocess.run(argv, cwd=cwd, env=env, input=stdin, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - begin
    if done.returncode:
        tail = (done.stdout + done.stderr)[-2000:]
        raise RuntimeError(f"{shlex.join(argv)} ended with exit code {done.returncode}\n{tail}")
    return epoch, seconds


def run_plugin(bench: Bench, devices: int, out: Path, *, warm: bool) -> tuple[float, float]:
    weights = out / "weights.txt"
    if warm:
        weights.write_text("".join(f"{job.key} {job.seconds:.3f}\n" for job in bench.jobs), encoding="utf-8")
    argv = [sys.executable, "-m", "pytest", "-p", "sgpu", "--sgpu-conf=queue.conf", f"--sgpu-gpus={devices}"]
    argv += [f"--sgpu-weights={weights}", f"--sgpu-log-dir={out / 'logs'}", "-p", "no:cacheprovider"]
    _, seconds = call(argv, bench.folder, {**bench.env, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"})
    rows = [line.split("\t") for line in (out / "logs/queue/timings.tsv").read_text("utf-8").splitlines()]
    if len(rows) != len(bench.jobs):
        raise RuntimeError(f"{len(rows)} of {len(bench.jobs)} items are in timings.tsv")
    return max(float(row[6]) for row in rows) - min(float(row[5]) for row in rows), seconds


def run_flock(bench: Bench, devices: int, out: Path, *, warm: bool) -> tuple[float, float]:
    queue = write_queue(bench, warm=warm)
    _, seconds = call(["bash", "flock.sh", str(queue), str(devices), str(out)], bench.folder, bench.env)
    codes = [path.read_text("utf-8").strip() for path in out.glob("*.rc")]
    if codes != ["0"] * len(bench.jobs):
        raise RuntimeError(f"the flock loop ran {len(codes)} items with exit codes {set(codes)}")
    return seconds, seconds


def run_xargs(bench: Bench, devices: int, out: Path, *, warm: bool) -> tuple[float, float]:
    jobs = order_of(bench, warm=warm)
    words = [(f"TEST_FILTER={job.tag} " if job.tag else "", bench.script(job.suite)) for job in jobs]
    stdin = "".join(f"{filter_}{script}\n" for filter_, script in words)
    _, seconds = call(["xargs", "-P", str(devices), "-L", "1", "env"], out, bench.env, stdin)
    return seconds, seconds


def run_xdist(bench: Bench, devices: int, out: Path, *, warm: bool) -> tuple[float, float]:
    tests = bench.folder / "xdist" / "test_items.py"
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "xdist", "-n", str(devices), "--dist", "worksteal"]
    argv += ["-p", "no:cacheprovider", "-p", "no:sgpu", f"--rootdir={out}", str(tests)]
    env = {**bench.env, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "BENCH_QUEUE": str(write_queue(bench, warm=warm))}
    _, seconds = call(argv, out, env)
    spans = [line.split() for line in (out / "spans").read_text("utf-8").splitlines()]
    return max(float(stop) for _, stop in spans) - min(float(start) for start, _ in spans), seconds


Runner = Callable[..., tuple[float, float]]
RUNNERS: dict[str, Runner] = {"plugin": run_plugin, "flock": run_flock, "xargs": run_xargs, "xdist": run_xdist}
PLANS_AHEAD = ("plugin", "flock")  # the others know nothing of durations and run once, in conf order


def judged(ratio: float, kind: str, devices: int) -> str:
    target = TARGETS.get((kind, devices))
    if target is None:
        return f"{kind}, {devices} devices: {ratio:.3f} of the bound (no target)"
    return (
        f"{kind}, {devices} devices: {ratio:.3f} of the bound, target {target}: {'PASS' if ratio <= target else 'over'}"
    )


def compare(bench: Bench, names: Sequence[str], kinds: Sequence[str], counts: Sequence[int]) -> list[str]:
    """Run and print the table. Gives one line per run of the plugin: whether it met its target."""
    print(f"{'scheduler':10} {'weights':7} {'devices':>7} {'wall s':>7} {'bound':>8} {'wall/bound':>10} {'command':>8}")
    lines = []
    for devices in counts:
        bound = bench.bound(devices)
        for kind in kinds:
            for name in names:
                if name not in PLANS_AHEAD and kind == "warm" and "cold" in kinds:
                    continue
                with tempfile.TemporaryDirectory(dir=bench.folder) as out:
                    warm = kind == "warm" and name in PLANS_AHEAD
                    wall, command = RUNNERS[name](bench, devices, Path(out), warm=warm)
                weights = kind if name in PLANS_AHEAD else "never"
                text = f"{name:10} {weights:7} {devices:7} {wall:7.2f} {bound:8.2f} {wall / bound:10.3f} {command:8.2f}"
                print(text, flush=True)
                if name == "plugin":
                    lines.append(judged(wall / bound, kind, devices))
    return lines


def order(text: str) -> str:
    if text not in {"alphabetical", "table"} and not text.isdigit():
        raise argparse.ArgumentTypeError("alphabetical, table or a number is expected")
    return text


def numbers(text: str) -> list[int]:
    try:
        found = [int(part) for part in text.split(",")]
    except ValueError:
        found = []
    if not found or min(found) < 1:
        raise argparse.ArgumentTypeError("numbers of devices are expected, such as 4,8")
    return found


def names_of(text: str) -> list[str]:
    found = text.split(",")
    if not set(found) <= set(RUNNERS):
        raise argparse.ArgumentTypeError(f"names out of {', '.join(RUNNERS)} are expected")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", type=numbers, default=[4, 8], metavar="4,8", help="numbers of virtual devices")
    parser.add_argument("--only", type=names_of, metavar="A,B", help=f"only these of {', '.join(RUNNERS)}")
    parser.add_argument("--warm", action="store_true", help="warm runs only")
    parser.add_argument("--cold", action="store_true", help="cold runs only")
    parser.add_argument("--scale", type=float, help="seconds of sleep per measured second (default: by --bound)")
    parser.add_argument("--bound", type=float, help=f"scale so that 4 devices have this bound (default {BOUND:.0f} s)")
    help_ = "how the list suites list: alphabetical (default), table (longest first), or the seed of a shuffle"
    parser.add_argument("--order", type=order, default="alphabetical", help=help_)
    chosen = parser.parse_args()
    kinds = [kind for kind in ("warm", "cold") if getattr(chosen, kind)] or ["warm", "cold"]
    names = chosen.only or list(RUNNERS)
    if "xdist" in names and importlib.util.find_spec("xdist") is None:
        print("xdist is left out: pytest-xdist is not installed")
        names = [name for name in names if name != "xdist"]
    jobs = read_jobs(DATA, chosen.order, chosen.bound, chosen.scale)
    work = sum(job.seconds for job in jobs)
    print(f"{len(jobs)} items, {work:.1f} s of sleep, listed in {chosen.order} order; {os.cpu_count()} CPUs\n")
    with tempfile.TemporaryDirectory(prefix="sgpu-packing-") as folder:
        lines = compare(make_suites(Path(folder), jobs), names, kinds, chosen.devices)
    print("\n" + "\n".join(lines) if lines else "")


if __name__ == "__main__":
    main()
