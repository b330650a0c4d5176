"""A run of the product with items of five shapes, and honest ways to see what of it is alive and what it left."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import pytest

SCRIPT = Path(__file__).with_name("items.sh")
SLEEPER = "sleep 86477"  # the work of every process below an item
PATIENCE = 90.0  # seconds; only a hang takes that long

# The processes of each shape once it is complete, its own shell counted.
SHAPES = {"plain": 2, "deaf": 2, "session": 3, "daemon": 2, "many": 201}
WEIGHTS = {
    "early/good": 90.0, "early/bad": 80.0, "early/said": 70.0, "whole": 60.0,
    "shape/plain": 50.0, "shape/deaf": 40.0, "shape/session": 30.0, "shape/daemon": 20.0, "shape/many": 10.0,
    "late/one": 2.0, "late/two": 1.0,
}  # fmt: skip

Record: TypeAlias = "dict[str, Any]"
Case: TypeAlias = "tuple[str, ...]"


# ---------------------------------------------------------------- processes


@dataclass(frozen=True)
class Process:
    """A process for ever: its number is used again one day, number and start together are not."""

    pid: int
    start: bytes


def stat(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return []


def look(pid: int) -> Process | None:
    """Give the process of this number; None when there is none, or only its zombie."""
    fields = stat(pid)
    return Process(pid, fields[19]) if fields and fields[0] not in (b"Z", b"X") else None


def alive(process: Process) -> bool:
    return look(process.pid) == process


def environ(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def command(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")
    except OSError:
        return "(gone)"
    return words.decode("utf-8", "replace").strip()[:120] or "(no command line)"


def chain(pid: int) -> str:
    """Say what a process is and from whom it descends, up to the test: ``4711 sleep 600 <- 4700 sh items.sh``."""
    found = []
    while pid > 0:
        found.append("this test" if pid == os.getpid() else f"{pid} {command(pid)}" if pid > 1 else "1")
        if pid == os.getpid():
            break
        fields = stat(pid)
        pid = int(fields[1]) if fields else 0
    return " <- ".join(found)


def carriers(mark: str) -> set[Process]:
    """Find every living process that was started with the mark."""
    wanted = f"KILL_MARK={mark}".encode()
    pids = (int(entry) for entry in os.listdir("/proc") if entry.isdigit())  # noqa: PTH208 - asked very often
    found = (look(pid) for pid in pids if wanted in environ(pid))
    return {process for process in found if process is not None}


def until(true: Callable[[], object], what: Callable[[], str]) -> None:
    """Wait for something in other processes, which have no clock of ours."""
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end, f"it never happened: {what()}"
        time.sleep(0.02)


# ---------------------------------------------------------------- a repository, and what a run leaves there


@dataclass(frozen=True)
class Results:
    """What a run left for its readers, without what differs from run to run (seconds, devices)."""

    statuses: Mapping[str, str]
    codes: Mapping[str, str]  # the <log>.rc of items and suites
    indexes: Mapping[str, list[str]]  # the log of each suite
    cases: Mapping[str, list[Case]]  # JUnit: class, name, result, message and text of each test, by key

    def of(self, keys: tuple[str, ...]) -> Results:
        """Give what it says of some items, and of the suites that consist of nothing else."""
        suites = {key.partition("/")[0] for key in keys}
        names = {f"suites/{suite}.log.rc" for suite in suites}
        names |= {f"items/{key.replace('/', '.') if '/' in key else f'{key}.{key}'}.log.rc" for key in keys}
        return Results(
            {key: self.statuses.get(key, "no outcome") for key in keys},
            {name: code for name, code in self.codes.items() if name in names},
            {suite: self.indexes[suite] for suite in suites},
            {key: self.cases.get(key, []) for key in keys},
        )


def read_cases(path: Path) -> dict[str, list[Case]]:
    found: dict[str, list[Case]] = {}
    for suite in ET.parse(path).getroot():
        for case in suite.iter("testcase"):
            bad = [child for child in case if child.tag in ("failure", "error", "skipped")]
            assert len(bad) <= 1, "two results in one case"
            how = (bad[0].tag, bad[0].get("message", ""), bad[0].text or "") if bad else ("passed", "", "")
            found.setdefault(suite.get("name", ""), []).append((case.get("classname", ""), case.get("name", ""), *how))
    return found


class Repository:
    """A folder with the suites, their weights, and whatever runs leave."""

    weights: Mapping[str, float] = WEIGHTS

    def __init__(self, path: Path) -> None:
        self.path = path
        for folder in ("pids", "workers", "begun", "gate", "ci-weights"):
            (path / folder).mkdir(parents=True)
        for tag in SHAPES:
            os.mkfifo(path / "gate" / tag)
        (path / "pytest.ini").write_text("[pytest]\n")
        (path / "items.sh").write_bytes(SCRIPT.read_bytes())
        (path / "items.sh").chmod(0o755)
        modes = {"early": "list", "shape": "list", "late": "list", "whole": "opaque"}
        lines = (f"{label} {label}.log {mode} ./items.sh {label}\n" for label, mode in modes.items())
        (path / "suite.conf").write_text("".join(lines))
        table = "".join(f"{key} {seconds}\n" for key, seconds in WEIGHTS.items())
        (path / "ci-weights" / "test_weights.cpu.l1.txt").write_text(table)

    def pids(self, tag: str) -> list[int]:
        """Give the numbers that the processes of a shape have noted so far, its own shell first."""
        path = self.path / "pids" / tag
        return [int(line) for line in path.read_text().splitlines() if line] if path.exists() else []

    @property
    def logs(self) -> Path:
        return self.path / "test-results" / "logs"

    def outcomes(self) -> dict[str, Record]:
        """Give the final outcomes in the journal, exactly one for each key. The last line may be torn."""
        path = self.logs / "queue" / "journal.jsonl"
        lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
        found = [record for record in map(json.loads, lines) if record["event"] == "outcome"]
        by_key = {record["key"]: record for record in found}
        assert len(by_key) == len(found), "an item has two outcomes"
        return by_key

    def learned(self) -> dict[str, float]:
        lines = (self.path / "ci-weights" / "test_weights.cpu.l1.txt").read_text().splitlines()
        pairs = (line.rpartition(" ") for line in lines if not line.startswith("#"))
        return {key: float(seconds) for key, _, seconds in pairs}

    def results(self) -> Results:
        """Read the files that a run leaves at its end, as their readers do."""
        codes = {
            str(path.relative_to(self.logs)): path.read_text()
            for folder in ("items", "suites")
            for path in (self.logs / folder).glob("*.rc")
        }
        statuses, indexes = {}, {}
        for path in (self.logs / "suites").glob("*.log"):
            rows = [line.split("\t") for line in path.read_text().splitlines()]
            indexes[path.stem] = sorted(" ".join((row[0], *row[3:])) for row in rows)
            for row in rows:
                statuses[path.stem if row[4] == "whole" else f"{path.stem}/{row[4]}"] = row[3]
        return Results(statuses, codes, indexes, read_cases(self.logs / "report" / "junit.xml"))


# ---------------------------------------------------------------- a run


class Run(Repository):
    """One run on five virtual devices, and its processes."""

    until = staticmethod(until)

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.mark = f"{os.getpid()}-{time.monotonic_ns()}"
        self.ended = 0.0
        self._process: subprocess.Popen[bytes] | None = None
        # Open for both: an item that comes to its gate finds somebody there, and waits for a line.
        self._gates = [os.open(path / "gate" / tag, os.O_RDWR | os.O_CLOEXEC) for tag in SHAPES]

    @property
    def env(self) -> dict[str, str]:
        # No coverage in here: most of these processes are killed, and would only be slower.
        return {
            "PATH": f"{Path(sys.executable).parent}:{os.environ.get('PATH', os.defpath)}",
            "HOME": str(self.path),
            "LANG": "C.UTF-8",
            "TEST_LEVEL": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "KILL_MARK": self.mark,
        }

    def start(self, *options: str, conf: str = "suite.conf") -> None:
        """Start the controller. It has a child that is the caller's: its process was a shell's before."""
        words = [sys.executable, "-m", "pytest", "-p", "sgpu", f"--sgpu-conf={conf}", "--sgpu-gpus=5", *options]
        script = f'env -u KILL_MARK {SLEEPER} & echo $! >child; exec "$@"'
        with (self.path / "out").open("wb") as out:
            self._process = subprocess.Popen(
                ["sh", "-c", script, "sh", *words],
                cwd=self.path,
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )

    def open_gates(self) -> None:
        """Let the shapes end; also those that are not there yet."""
        for gate in self._gates:
            os.write(gate, b"go\n")

    def wait(self) -> int:
        """Wait for the controller's own end."""
        assert self._process is not None
        try:
            code = self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running after {PATIENCE:g} s\n{self.out}") from None
        self.ended = time.monotonic()
        return code

    def finalize(self) -> int:
        words = [sys.executable, "-m", "pytest_sgpu.cli", "finalize", "test-results/logs"]
        with (self.path / "out").open("ab") as out:
            return subprocess.run(
                words, cwd=self.path, env=self.env, stdout=out, stderr=out, timeout=PATIENCE, check=False
            ).returncode

    def clear(self) -> None:
        """End whatever is left of it, and its child that was the caller's."""
        for gate in self._gates:
            os.close(gate)
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            end(self.child)
        for process in carriers(self.mark):
            end(process.pid)

    @property
    def out(self) -> str:
        return (self.path / "out").read_text(encoding="utf-8", errors="replace")

    # -- who is there ---------------------------------------------------------------------------------

    def up(self, many: int) -> bool:
        """Whether every shape is complete; of the one with the many children, so many are enough."""
        wanted = {**SHAPES, "many": many + 1}
        return all(len(self.pids(tag)) >= count for tag, count in wanted.items())

    def carriers(self) -> set[Process]:
        return carriers(self.mark)

    @property
    def controller(self) -> Process | None:
        return None if self._process is None else look(self._process.pid)

    @property
    def child(self) -> int:
        return int((self.path / "child").read_text())

    def guardians(self) -> set[Process]:
        return {one for one in carriers(self.mark) if "sgpu-guardian" in command(one.pid)}

    def targets(self, what: str) -> set[Process]:
        """Give the processes of a kind that are there now: the controller, or one of each device.

        ``worker+guardian`` are both.
        """
        if "+" in what:
            return set().union(*(self.targets(one) for one in what.split("+")))
        if what == "guardian":
            found: set[Process | None] = {*self.guardians()}
        elif what == "worker":
            found = {look(int((self.path / "workers" / tag).read_text())) for tag in SHAPES}
        elif what == "item":
            found = {look(self.pids(tag)[0]) for tag in SHAPES}
        else:
            found = {self.controller}
        return {one for one in found if one is not None}

    def cookie(self) -> str:
        """Give the mark by which a worker knows the processes of its item again."""
        mine = [entry for entry in environ(self.pids("plain")[0]) if entry.startswith(b"SGPU_COOKIE=")]
        assert len(mine) == 1
        return mine[0].decode().partition("=")[2]

    def strike(self, target: str, number: signal.Signals) -> Strike:
        return Strike(self, target, number)


def end(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


class Strike:
    """A signal to some processes of a run; afterwards it says who outlived it."""

    def __init__(self, run: Run, target: str, number: signal.Signals) -> None:
        self.run, self.target, self.number = run, target, number
        self.targets = run.targets(target)
        count = sum(1 if one == "controller" else len(SHAPES) for one in target.split("+"))
        assert len(self.targets) == count, f"{self}: {self.targets}"
        self.controller = run.controller
        self.before = carriers(run.mark)
        self._chains = {process: chain(process.pid) for process in self.before}
        self.at = time.monotonic()
        for process in self.targets:
            os.kill(process.pid, number)

    def __str__(self) -> str:
        return f"{self.number.name} to the {self.target}"

    def doomed(self) -> set[Process]:
        """Give those that must not live on, and do: the targets, what descends from them, and all of the items."""
        sleepers = {one for one in carriers(self.run.mark) if command(one.pid) == SLEEPER}
        here = {one for one in self.before if alive(one)}
        if self.target == "item":
            return sleepers | (here & self.targets)
        if "controller" in self.target:
            return sleepers | here
        return sleepers | (here - {self.controller})

    def nothing_left(self, left: Callable[[], set[Process]], since: float, limit: float) -> None:
        """Wait until none of these is left; name whoever is when the time is over, with all that is known."""
        while True:
            looked = time.monotonic()
            survivors = left()
            if not survivors:
                return
            if looked - since > limit:
                raise AssertionError(
                    f"{self}: {len(survivors)} left {looked - since:.2f} s later{self._told(survivors)}"
                )
            time.sleep(0.02)

    def _told(self, survivors: set[Process]) -> str:
        some = sorted(survivors, key=lambda one: one.pid)[:20]
        return "".join(
            f"\n  pid {one.pid}: {command(one.pid)}\n    now:  {chain(one.pid)}"
            f"\n    then: {self._chains.get(one, 'it was not there')}"
            for one in some
        )


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    """Give a run that has not started; whatever becomes of it, nothing of it outlives the test."""
    one = Run(tmp_path / "run")
    yield one
    one.clear()


@pytest.fixture(scope="session")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Results]:
    """Give what the same conf leaves when nobody kills anything."""
    run = Run(tmp_path_factory.mktemp("untouched") / "run")
    try:
        run.start()
        run.open_gates()
        assert run.wait() == 1, run.out
        assert carriers(run.mark) == set()
        yield run.results()
    finally:
        run.clear()


# ---------------------------------------------------------------- the others


@dataclass
class Bystanders:
    """Processes of the same user that the run did not start, though they look as if it had. None may be touched."""

    repository: Repository
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def join(self, cookie: str) -> None:
        """Start them, once the run is up and the mark of one of its workers is known."""
        env = {"PATH": os.environ.get("PATH", os.defpath)}
        item = {"TEST_FILTER": "plain", "JUNITXML_PREFIX": "./", "JUNITXML_SUFFIX": ".xml"}
        self._start("./items.sh", "shape", env=env | item, start_new_session=True)  # an item, to look at
        self._start(*SLEEPER.split(), env=env)  # in the session of this test
        almost = {"SGPU_COOKIE": f"{cookie}0:x{cookie}", "NOTE": f"SGPU_COOKIE={cookie}", "XSGPU_COOKIE": cookie}
        self._start(*SLEEPER.split(), env=env | almost, start_new_session=True)
        until(lambda: len(self.repository.pids("plain")) == 2, lambda: "the look-alike is up")

    def _start(self, *words: str, env: Mapping[str, str], **options: Any) -> None:
        null = subprocess.DEVNULL
        where = self.repository.path
        self.processes.append(
            subprocess.Popen(words, stdin=null, stdout=null, stderr=null, cwd=where, env=env, **options)
        )

    def fallen(self, *more: int) -> list[str]:
        """Name those that are gone, with what ended them."""
        found = [f"{one.args!r}: {one.returncode}" for one in self.processes if one.poll() is not None]
        return found + [f"pid {pid}" for pid in (*self.repository.pids("plain"), *more) if look(pid) is None]


@pytest.fixture
def bystanders(tmp_path: Path) -> Iterator[Bystanders]:
    made = Bystanders(Repository(tmp_path / "bystanders"))
    yield made
    for pid in made.repository.pids("plain"):
        end(pid)
    for process in made.processes:
        process.kill()
        process.wait()
