"""A long, bad day: many items of which some crash, hang or leave something behind, while workers are killed under
theirs.

    python bench/soak.py                 2,000 items on 8 workers, about a minute
    python bench/soak.py --items 200     a short one

5 % of the items crash, 2 % hang (a deadline ends them), 2 % leave a process behind, and every 50th waits until its
worker is killed from outside; at its second attempt it passes. The kinds stand in the tags, and no item knows of
another. Meanwhile the file descriptors, threads and memory of the controller are read from /proc.

First table: how many items of each kind ended as they must, and how many did not. Second table: the controller in the
first and in the last part of the run (medians), and the most that was seen. What comes out wrong is named below, and
then the exit code is 1: unlike the speed of a busy machine this is a failure.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

LIMIT_S = 3  # deadline of an item
GRACE_S = 0.5
GONE_S = 2.0  # after the end of the run, nothing of it may live for longer
GROWTH = {"file descriptors": 3, "threads": 2}
PATIENCE_S = 900
OWN = re.compile(r"(TE_CI_|TEST_|JUNITXML_|SGPU_|PYTEST_|(HIP|ROCR|CUDA)_VISIBLE_DEVICES$)")
SLEEPER = "sleep 86487"
SHOWN = 10  # wrong items that are named

Record = dict[str, Any]

SCRIPT = f"""\
#!/bin/sh
# A suite on a bad day. A filtered entry does not walk the list.
if [ "${{TE_CI_SETUP_ONLY:-}}" = 1 ]; then exit 0; fi
if [ "${{TE_CI_LIST_ITEMS:-}}" = 1 ]; then exec cat items; fi
ulimit -c 0
echo "TE_CI_RAN $TEST_FILTER"
case $TEST_FILTER in
    crash.segv.*) kill -SEGV $$ ;;
    crash.abrt.*) kill -ABRT $$ ;;
    crash.kill.*) kill -KILL $$ ;;
    hang.plain.*) {SLEEPER} ;;
    hang.deaf.*) trap '' TERM HUP; while :; do {SLEEPER}; done ;;
    hang.session.*) setsid {SLEEPER} & {SLEEPER} ;;
    leak.plain.*) {SLEEPER} & ;;
    leak.session.*) setsid {SLEEPER} & ;;
    leak.daemon.*) (setsid sh -c 'trap "" TERM; exec {SLEEPER}' <&- >&- 2>&- &) ;;
    victim.*)
        if [ ! -e "victims/$TEST_FILTER" ]; then
            setsid {SLEEPER} &
            echo "$PPID" >"victims/.$TEST_FILTER"
            mv "victims/.$TEST_FILTER" "victims/$TEST_FILTER"
            {SLEEPER}
        fi
        ;;
esac
"""

# How an item of each kind must end: its status, the statuses of the attempts before, whether it left something.
EXPECTED: Mapping[str, tuple[str, tuple[str, ...], bool]] = {
    "pass": ("PASSED", (), False),
    "crash": ("CRASHED", (), False),
    "hang": ("TIMED_OUT", (), False),
    "leak": ("PASSED", (), True),
    "victim": ("PASSED", ("LOST",), False),
}
VARIANTS = {
    "crash": ("segv", "abrt", "kill"),
    "hang": ("plain", "deaf", "session"),
    "leak": ("plain", "session", "daemon"),
}


def tag(number: int) -> str:
    """Give the kind of an item and its number: the same in every run."""
    if number % 50 == 25:
        return f"victim.{number:05}"
    kind = "crash" if number % 20 == 3 else {11: "hang", 37: "leak"}.get(number % 50, "pass")
    variants = VARIANTS.get(kind, ("plain",))
    return f"{kind}.{variants[number // 20 % len(variants)]}.{number:05}"


@dataclass
class Sampled:
    """The controller at some moments of the run. Progress is the share of items that have their outcome."""

    rows: list[tuple[float, dict[str, float]]] = field(default_factory=list)

    def take(self, pid: int, progress: float) -> None:
        """Read /proc once; a process that has just ended gives nothing."""
        with contextlib.suppress(OSError, StopIteration, ValueError):
            status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
            numbers = {
                name: next(line.split()[1] for line in status if line.startswith(name)) for name in ("Threads", "VmRSS")
            }
            row = {
                "file descriptors": float(sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())),
                "threads": float(numbers["Threads"]),
                "memory, MB": float(numbers["VmRSS"]) * 1024 / 1e6,
            }
            self.rows.append((progress, row))

    def between(self, low: float, high: float) -> dict[str, float]:
        """Give the medians of a part of the run."""
        rows = [row for progress, row in self.rows if low <= progress < high]
        return {name: statistics.median(row[name] for row in rows) for name in rows[0]} if rows else {}

    def most(self) -> dict[str, float]:
        return {name: max(row[name] for _, row in self.rows) for name in self.rows[0][1]}


@dataclass
class Soak:
    """One run in a folder of its own."""

    folder: Path
    tags: Sequence[str]
    workers: int
    mark: str = field(default_factory=lambda: f"{os.getpid()}-{time.monotonic_ns()}")
    killed: set[str] = field(default_factory=set)
    sampled: Sampled = field(default_factory=Sampled)
    wall: float = 0.0
    code: int = 0

    def make(self) -> None:
        (self.folder / "victims").mkdir()
        (self.folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
        (self.folder / "queue.conf").write_text("soak soak.log list ./suite.sh\n", encoding="utf-8")
        (self.folder / "items").write_text("".join(f"TE_CI_ITEM {one}\n" for one in self.tags), encoding="utf-8")
        (self.folder / "suite.sh").write_text(SCRIPT, encoding="utf-8")
        (self.folder / "suite.sh").chmod(0o755)

    @property
    def journal(self) -> Path:
        return self.folder / "test-results" / "logs" / "queue" / "journal.jsonl"

    def run(self) -> None:
        """Run it; kill and look on meanwhile. Whatever happens, nothing of it is left behind."""
        options = ["-p", "no:cacheprovider", "-p", "sgpu", "--sgpu-conf=queue.conf", f"--sgpu-gpus={self.workers}"]
        options += [f"--sgpu-timeout={LIMIT_S}", f"--sgpu-grace={GRACE_S}", "-q"]
        env = {name: value for name, value in os.environ.items() if not OWN.match(name)}
        env |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "SOAK_MARK": self.mark}
        began = time.monotonic()
        with (self.folder / "out").open("wb") as out:
            process = subprocess.Popen(
                [sys.executable, "-m", "pytest", *options],
                cwd=self.folder, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True,
            )  # fmt: skip
        try:
            self._watch(process, began + PATIENCE_S)
        finally:
            process.kill()
            self.code = process.wait()
            self.wall = time.monotonic() - began
        if not self.journal.exists():
            raise RuntimeError(f"it ended with exit code {self.code} and ran nothing\n{self.out[-2000:]}")

    def _watch(self, process: subprocess.Popen[bytes], until: float) -> None:
        done = 0
        with contextlib.ExitStack() as stack:
            stream = None
            while process.poll() is None:
                if time.monotonic() > until:
                    raise RuntimeError(f"still running after {PATIENCE_S} s\n{self.out[-2000:]}")
                if stream is None and self.journal.exists():
                    stream = stack.enter_context(self.journal.open("rb"))
                done += stream.read().count(b'"event":"outcome"') if stream else 0
                self.sampled.take(process.pid, done / len(self.tags))
                self._kill_workers(process.pid)
                time.sleep(0.02)

    def _kill_workers(self, controller: int) -> None:
        """Kill each worker whose item waits for that, once. Its number is the item's parent's."""
        for path in (self.folder / "victims").glob("victim.*"):
            if path.name in self.killed:
                continue
            self.killed.add(path.name)
            worker = int(path.read_text(encoding="ascii"))
            if parent_of(worker) != controller:
                raise RuntimeError(f"{path.name}: process {worker} is no worker of this run")
            os.kill(worker, signal.SIGKILL)

    @property
    def out(self) -> str:
        return (self.folder / "out").read_text(encoding="utf-8", errors="replace")

    def records(self) -> list[Record]:
        return [json.loads(line) for line in self.journal.read_text(encoding="utf-8").splitlines()]

    def survivors(self) -> list[str]:
        """Give the living processes that this run has started, when they had their time to go."""
        until = time.monotonic() + GONE_S
        while (found := list(carriers(self.mark))) and time.monotonic() < until:
            time.sleep(0.02)
        for pid, _ in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return [f"pid {pid} {command!r}" for pid, command in found]


def stat(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return []


def parent_of(pid: int) -> int:
    fields = stat(pid)
    return int(fields[1]) if fields else 0


def carriers(mark: str) -> Iterator[tuple[int, str]]:
    """Find every living process that was started with the mark."""
    wanted = f"SOAK_MARK={mark}".encode()
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if wanted in (entry / "environ").read_bytes().split(b"\0") and stat(int(entry.name))[:1] not in (
                [b"Z"],
                [b"X"],
            ):
                words = (entry / "cmdline").read_bytes().replace(b"\0", b" ")
                yield int(entry.name), words.decode("utf-8", "replace").strip()


# ---------------------------------------------------------------- what came out


def ends(records: Sequence[Record]) -> dict[str, list[tuple[str, tuple[str, ...], bool]]]:
    """Give how each item ended, in the form of EXPECTED; one entry for each final outcome in the journal."""
    before: dict[str, tuple[str, ...]] = {}
    found: dict[str, list[tuple[str, tuple[str, ...], bool]]] = {}
    for record in records:
        key = record.get("key", "").removeprefix("soak/")
        if record["event"] == "attempt":
            before[key] = (*before.get(key, ()), record["status"])
        elif record["event"] == "outcome":
            found.setdefault(key, []).append((record["status"], before.get(key, ()), bool(record.get("left"))))
    return found


def verdicts(soak: Soak) -> list[str]:
    """Print how the items ended, by kind. Gives what is wrong."""
    ended = ends(soak.records())
    wrong: dict[str, list[str]] = {kind: [] for kind in EXPECTED}
    for one in soak.tags:
        kind = one.partition(".")[0]
        if ended.get(one) != [EXPECTED[kind]]:
            wrong[kind].append(f"{one}: {ended.get(one, 'no outcome')} instead of {EXPECTED[kind]}")
    print(f"{'kind':8} {'must end':28} {'items':>6} {'right':>6} {'wrong':>6}")
    for kind, (status, attempts, left) in EXPECTED.items():
        how = status + "".join(f", {attempt} before" for attempt in attempts) + ", LEAK" * left
        count = sum(one.startswith(f"{kind}.") for one in soak.tags)
        print(f"{kind:8} {how:28} {count:6} {count - len(wrong[kind]):6} {len(wrong[kind]):6}")
    strangers = sorted(set(ended) - set(soak.tags))
    return [line for lines in wrong.values() for line in lines] + [f"{one}: was never listed" for one in strangers]


def growth(soak: Soak) -> list[str]:
    """Print the controller over time. Gives what has grown."""
    first, last, most = soak.sampled.between(0.05, 0.25), soak.sampled.between(0.85, 1.0), soak.sampled.most()
    if not first or not last:
        return ["the run was over before the controller could be looked at"]
    print(f"\n{'controller':18} {'first':>8} {'last':>8} {'most':>8}")
    for name, value in most.items():
        print(f"{name:18} {first[name]:8.1f} {last[name]:8.1f} {value:8.1f}")
    return [
        f"{name} of the controller grew from {first[name]:.0f} to {last[name]:.0f}"
        for name, allowed in GROWTH.items()
        if last[name] > first[name] + allowed
    ]


def files(soak: Soak) -> list[str]:
    """Check what the run left for its readers: every item among the tests, and only whole runs in the weights."""
    logs = soak.folder / "test-results" / "logs"
    named = {suite.get("name", "") for suite in ET.parse(logs / "report" / "junit.xml").getroot()}
    missing = {f"soak/{one}" for one in soak.tags} - named
    table = "".join(path.read_text(encoding="utf-8") for path in (soak.folder / "ci-weights").glob("*.txt"))
    learned = {line.rpartition(" ")[0] for line in table.splitlines() if line.startswith("soak/")}
    teach = {f"soak/{one}" for one in soak.tags if EXPECTED[one.partition(".")[0]][0] == "PASSED"}
    problems = [f"{key} has no test case" for key in sorted(missing)]
    problems += [f"{key} was learned" for key in sorted(learned - teach)]
    return problems + [f"{key} was not learned" for key in sorted(teach - learned)]


def judge(soak: Soak) -> list[str]:
    """Print the tables. Gives what is wrong."""
    left = soak.survivors()
    problems = [f"left running: {one}" for one in left]
    problems += [f"exit code {soak.code} instead of 1\n{soak.out[-2000:]}"] if soak.code != 1 else []
    problems += ["a traceback in the output"] if "Traceback" in soak.out or "INTERNALERROR" in soak.out else []
    problems += verdicts(soak)
    problems += growth(soak)
    problems += files(soak)
    print(f"\n{len(soak.killed)} workers killed, {len(left)} processes left running, {soak.wall:.1f} s")
    return problems


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=2000, help="number of items (default 2000)")
    parser.add_argument("--workers", type=int, default=8, help="number of workers (default 8)")
    chosen = parser.parse_args()
    tags = [tag(number) for number in range(chosen.items)]
    print(f"{chosen.items} items, {chosen.workers} workers, {os.cpu_count()} CPUs\n")
    with tempfile.TemporaryDirectory(prefix="sgpu-soak-") as folder:
        soak = Soak(Path(folder), tags, chosen.workers)
        soak.make()
        soak.run()
        problems = judge(soak)
    for problem in problems[:SHOWN]:
        print("  " + problem)
    if len(problems) > SHOWN:
        print(f"  and {len(problems) - SHOWN} more")
    print(f"soak: {f'{len(problems)} WRONG' if problems else 'PASS'}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
