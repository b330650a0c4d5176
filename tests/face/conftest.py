"""A repository of its own for each test: suites of a few lines, the real pytest in a process, what it left."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import pytest

SHIM = Path(__file__).with_name("shim.sh")
PATIENCE = 120.0  # seconds; only a hang takes that long

Lines = Mapping[str, str]
Process: TypeAlias = "subprocess.Popen[bytes]"
Record = dict[str, Any]  # of the journal, or a plan: as JSON has them


@dataclass(frozen=True)
class Done:
    """How a run ended and what it printed."""

    code: int
    out: str
    err: str

    @property
    def text(self) -> str:
        return self.out + self.err

    @property
    def errors(self) -> str:
        """What stands on standard error from the first usage error on."""
        return self.err[self.err.find("ERROR: ") :] if "ERROR: " in self.err else ""


@dataclass(frozen=True)
class Case:
    """One test case of a JUnit file."""

    suite: str
    classname: str
    name: str
    result: str  # passed, or failure, error, skipped
    message: str
    text: str
    time: str | None
    properties: dict[str, str]


@dataclass(frozen=True)
class Junit:
    """A JUnit file as a reader sees it, counted."""

    root: ET.Element
    cases: list[Case]

    @property
    def results(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for case in self.cases:
            found[case.result] = found.get(case.result, 0) + 1
        return found

    def of(self, key: str) -> list[Case]:
        return [case for case in self.cases if case.suite == key]


class Repository:
    """A folder with suites, confs and what runs leave there."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.mark = f"{os.getpid()}-{time.monotonic_ns()}"
        path.mkdir()
        (path / "pytest.ini").write_text("[pytest]\n")
        (path / "shim.sh").write_bytes(SHIM.read_bytes())

    # -- what is there before a run ---------------------------------------------------------------

    def file(self, name: str, content: str | bytes, *, executable: bool = False) -> Path:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8", "surrogateescape"))
        if executable:
            path.chmod(0o755)
        return path

    def script(self, name: str, lines: Lines | str, *, shell: str = "/bin/sh", head: str = "") -> Path:
        """Write a suite script: bodies by tag (``tag`` or ``tag gpus``), or text between the shim and its end."""
        if not isinstance(lines, str):
            words = ((tag.partition(" "), body) for tag, body in lines.items())
            lines = "\n".join(
                f"line {shlex.quote(tag)} {shlex.quote(body)} {shlex.quote(gpus) if gpus else ''}".rstrip()
                for (tag, _, gpus), body in words
            )
        text = f'#!{shell}\n{head}\n. "$(dirname -- "$0")/shim.sh"\n{lines}\nclose\n'
        return self.file(name, text, executable=True)

    def suite(self, label: str, lines: Lines | str, *, conf: str = "suite.conf", head: str = "") -> None:
        """Write a list suite and add it to a conf file."""
        self.script(f"{label}.sh", lines, head=head)
        self.conf_line(f"{label} {label}.log list ./{label}.sh", conf)

    def opaque(self, label: str, script: str, *, conf: str = "suite.conf") -> None:
        """Write an opaque suite, which knows nothing of the protocol, and add it to a conf file."""
        self.file(f"{label}.sh", f"#!/bin/sh\n{script}\n", executable=True)
        self.conf_line(f"{label} {label}.log opaque ./{label}.sh", conf)

    def conf_line(self, line: str, conf: str = "suite.conf") -> None:
        with (self.path / conf).open("a", encoding="utf-8") as stream:
            stream.write(line + "\n")

    def ini(self, *lines: str) -> None:
        self.file("pytest.ini", "\n".join(("[pytest]", *lines, "")))

    def weights(self, content: str | bytes, name: str = "test_weights.cpu.l1.txt") -> Path:
        return self.file(f"ci-weights/{name}", content)

    # -- runs -------------------------------------------------------------------------------------

    def env(self, **more: str) -> dict[str, str]:
        keep = {name: value for name, value in os.environ.items() if name.startswith("COVERAGE_") or name == "TMPDIR"}
        return keep | {
            "PATH": f"{Path(sys.executable).parent}:{os.environ.get('PATH', os.defpath)}",
            "HOME": str(self.path),
            "LANG": "C.UTF-8",
            "TEST_LEVEL": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "FACE_MARK": self.mark,
            **more,
        }

    def start(self, *words: str, env: Mapping[str, str | None] | None = None, **options: object) -> Process:
        """Start a command in a session of its own. A variable that is None is not there."""
        full = {name: value for name, value in {**self.env(), **(env or {})}.items() if value is not None}
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL} | options
        made: Process = subprocess.Popen(words, cwd=self.path, env=full, start_new_session=True, **options)  # type: ignore[call-overload]
        return made

    def end(self, process: Process, patience: float = PATIENCE) -> Done:
        """Wait for a process, and for all of its output; a hang is a failure of the test, with what it printed."""
        try:
            out, err = process.communicate(timeout=patience)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
            raise AssertionError(f"still running after {patience:g} s\n{_text(out)}\n{_text(err)}") from None
        return Done(process.returncode, _text(out), _text(err))

    def end_with_open_input(self, process: Process) -> Done:
        """Wait for a process while its standard input stays open."""
        with ThreadPoolExecutor(2) as readers:
            out, err = (readers.submit(stream.read) for stream in (process.stdout, process.stderr))  # type: ignore[union-attr]
            try:
                code = process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                raise
            finally:
                process.stdin.close()  # type: ignore[union-attr]
            texts = _text(out.result()), _text(err.result())
        for stream in (process.stdout, process.stderr):
            stream.close()  # type: ignore[union-attr]
        return Done(code, *texts)

    def command(self, *words: str, env: Mapping[str, str | None] | None = None, **options: object) -> Done:
        return self.end(self.start(*words, env=env, **options))

    def pytest(self, *args: str, env: Mapping[str, str | None] | None = None) -> Done:
        """Run pytest with these arguments and no other."""
        return self.command(sys.executable, "-m", "pytest", *args, env=env)

    def words(self, *args: str, conf: str | None = "suite.conf", gpus: int | str | None = 2) -> list[str]:
        words = [sys.executable, "-m", "pytest", "-p", "sgpu"]
        words += [f"--sgpu-conf={conf}"] if conf else []
        words += [f"--sgpu-gpus={gpus}"] if gpus is not None else []
        return [*words, *args]

    def run(
        self,
        *args: str,
        conf: str | None = "suite.conf",
        gpus: int | str | None = 2,
        env: Mapping[str, str | None] | None = None,
    ) -> Done:
        """Run the queue. No bad input and no failing item may end in a traceback of ours."""
        done = self.command(*self.words(*args, conf=conf, gpus=gpus), env=env)
        assert "Traceback" not in done.text, done.text
        assert "INTERNALERROR" not in done.text, done.text
        return done

    def plan(self, *args: str, **options: object) -> Record:
        """Give the plan as ``--sgpu-plan=json`` prints it."""
        done = self.run("--sgpu-plan=json", *args, **options)  # type: ignore[arg-type]
        assert done.code == 0, done.text
        made: Record = json.loads(done.out)
        return made

    # -- what a run left --------------------------------------------------------------------------

    @property
    def logs(self) -> Path:
        return self.path / "test-results" / "logs"

    def read(self, name: str) -> str:
        return (self.path / name).read_text(encoding="utf-8")

    def left(self, name: str) -> str:
        """Read a file of the run directory."""
        return (self.logs / name).read_text(encoding="utf-8")

    @property
    def seen(self) -> list[str]:
        """What the bodies of items noted, in order of time."""
        path = self.path / "seen"
        return path.read_text(encoding="utf-8", errors="surrogateescape").splitlines() if path.exists() else []

    def records(self, logs: Path | None = None) -> list[Record]:
        """The journal."""
        text = ((logs or self.logs) / "queue" / "journal.jsonl").read_text(encoding="ascii")
        return [json.loads(line) for line in text.splitlines()]

    def outcomes(self, logs: Path | None = None) -> dict[str, Record]:
        """The outcome records of the journal, by key. Exactly one for each key."""
        found = [record for record in self.records(logs) if record["event"] == "outcome"]
        by_key = {record["key"]: record for record in found}
        assert len(by_key) == len(found), "an item has two outcomes"
        return by_key

    def status(self) -> dict[str, str]:
        return {key: record["status"] for key, record in self.outcomes().items()}

    def junit(self, name: str = "test-results/logs/report/junit.xml") -> Junit:
        """Read a JUnit file, and check what holds for every one: names, totals, times."""
        return read_junit(self.path / name)

    def learned(self, name: str = "test_weights.cpu.l1.txt") -> dict[str, float]:
        path = self.path / "ci-weights" / name
        if not path.exists():
            return {}
        lines = [line.rpartition(" ") for line in path.read_text(encoding="utf-8").splitlines()]
        return {key: float(value) for key, _, value in lines}

    def timings(self) -> list[list[str]]:
        return [line.split("\t") for line in self.left("queue/timings.tsv").splitlines()]

    def tree(self) -> dict[str, tuple[int, bytes]]:
        """Every file and folder with its time of change and content; to see that nothing was written."""
        found = {}
        for path in sorted(self.path.rglob("*")):
            content = path.read_bytes() if path.is_file() else b""
            found[str(path.relative_to(self.path))] = (path.lstat().st_mtime_ns, content)
        return found

    def survivors(self) -> list[int]:
        """Living processes that this repository's runs have started."""
        found = []
        wanted = f"FACE_MARK={self.mark}".encode()
        for process in Path("/proc").glob("[0-9]*"):
            try:
                environ = (process / "environ").read_bytes()
                state = (process / "stat").read_bytes().rpartition(b")")[2].split()[0]
            except (OSError, IndexError):
                continue
            if wanted in environ.split(b"\0") and state not in (b"Z", b"X"):
                found.append(int(process.name))
        return found


def _text(data: bytes | None) -> str:
    return (data or b"").decode("utf-8", "surrogateescape")


def read_junit(path: Path) -> Junit:
    root = ET.parse(path).getroot()
    assert root.tag == "testsuites"
    cases = []
    suites = list(root)
    assert all(suite.tag == "testsuite" for suite in suites)
    for suite in suites:
        own = []
        for element in suite.iter("testcase"):
            bad = [child for child in element if child.tag in ("failure", "error", "skipped")]
            assert len(bad) <= 1, "two results in one case"
            what = bad[0] if bad else None
            own.append(
                Case(
                    suite.get("name", ""),
                    element.get("classname", ""),
                    element.get("name", ""),
                    what.tag if what is not None else "passed",
                    what.get("message", "") if what is not None else "",
                    (what.text or "") if what is not None else "",
                    element.get("time"),
                    {p.get("name", ""): p.get("value", "") for p in element.iter("property")},
                )
            )
        kinds = [case.result for case in own]
        told = {name: suite.get(name) for name in ("tests", "failures", "errors", "skipped")}
        counted = (len(own), kinds.count("failure"), kinds.count("error"), kinds.count("skipped"))
        assert told == dict(zip(told, map(str, counted), strict=True)), suite.get("name")
        cases += own
    return Junit(root, cases)


def until(true: Callable[[], bool], patience: float = PATIENCE) -> None:
    """Wait for something in another process, which has no clock of ours."""
    end = time.monotonic() + patience
    while not true():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.01)


@pytest.fixture(name="until")
def until_fixture() -> Callable[..., None]:
    return until


@dataclass
class _Made:
    some: list[Repository] = field(default_factory=list)


@pytest.fixture
def repo(tmp_path: Path) -> Iterator[Repository]:
    """Give an empty repository. At the end nothing that its runs have started may live."""
    one = Repository(tmp_path / "repo")
    yield one
    end = time.monotonic() + 15.0
    while left := one.survivors():
        if time.monotonic() > end:
            for pid in left:
                os.kill(pid, signal.SIGKILL)
            raise AssertionError(f"left running: {left}")
        time.sleep(0.02)
