"""How it ended: of a process, an attempt, an item, a suite, a part of a run."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import ClassVar

from pytest_sgpu.model.work import UNKNOWN, Estimate, Key


class Status(Enum):
    """How an item ended."""

    PASSED = "passed"
    FAILED = "failed"
    NO_TESTS = "no tests"
    TIMED_OUT = "timed out"
    CRASHED = "crashed"
    FLAKY = "flaky"
    LOST = "lost"
    SETUP_FAILED = "setup failed"
    STOPPED = "stopped"
    NOT_RUN = "not run"

    @property
    def failed(self) -> bool:
        """Everything but a pass is a failure: a green run must have run.

        FLAKY (failed first, passed later) is neither; ``Outcome.failed`` says what it counts as.
        """
        return self not in (Status.PASSED, Status.FLAKY)

    @property
    def teaches(self) -> bool:
        """Whether an item that ended so can tell how long it takes. Only whole runs can."""
        return self in (Status.PASSED, Status.FAILED, Status.FLAKY)


@dataclass(frozen=True, slots=True)
class Leftover:
    """A process that an item left running after its end, and that was killed. ``pid`` was its number."""

    pid: int
    command: str


@dataclass(frozen=True, slots=True)
class Ending:
    """How the process of an item ended, as the worker saw it; nothing is judged yet.

    Exactly one of ``exit_code`` and ``signal`` is set, except when the process could not be started
    (``reason`` says why; exit code 126 or 127, as a shell gives). ``start`` and ``stop`` are seconds
    since the run began, on the controller's monotonic clock. ``ran``: a line ``TE_CI_RAN <tag>`` was
    seen. ``partial``: a ``.partial`` side file outlived the process. ``killed``: why the worker ended it,
    "" when it did not; ``timed_out``: that was a deadline or a stall. ``left``: what it left behind,
    ``late`` seconds after its end.
    """

    exit_code: int | None
    signal: int | None
    start: float
    stop: float
    ran: bool = False
    partial: bool = False
    killed: str = ""
    reason: str = ""
    timed_out: bool = False
    left: tuple[Leftover, ...] = ()
    late: float = 0.0

    @property
    def seconds(self) -> float:
        """Give the wall time of the item."""
        return max(0.0, self.stop - self.start)


@dataclass(frozen=True, slots=True)
class Tests:
    """Counts over the test cases inside an item, counted case by case, never copied from attributes."""

    __test__: ClassVar[bool] = False  # its name looks like one of pytest's test classes

    cases: int = 0
    failures: int = 0
    errors: int = 0
    skipped: int = 0

    @property
    def bad(self) -> int:
        """Give the number of cases that failed or had an error."""
        return self.failures + self.errors


@dataclass(frozen=True, slots=True)
class JUnitFacts:
    """What the JUnit files of an item say. ``files`` 0: there is none.

    ``damage`` says what is wrong with them ("" when whole), ``failing`` names at most 20 bad cases as
    (``classname::name``, first line of the message), ``warnings`` are oddities that cost nothing.
    """

    files: int = 0
    tests: Tests = field(default_factory=Tests)
    failing: tuple[tuple[str, str], ...] = ()
    damage: str = ""
    warnings: tuple[str, ...] = ()

    @property
    def only_skips(self) -> bool:
        """Whether there are test cases, and every one was skipped: nothing was tested."""
        return bool(self.tests.cases) and self.tests.cases == self.tests.skipped


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of one attempt at a planned item. There is exactly one final one per item.

    ``exit_code`` None: the item has none, which is a failure. ``start`` and ``stop`` are seconds since
    the run began, None when it never started. ``proof`` says what shows that it ran: ``junit``,
    ``ran`` (the TE_CI_RAN line), ``opaque`` (none is asked for), ``allowed`` (excused by
    ``sgpu_allow_empty``) or "". ``complete``: it ran to its own end, so its time means something.
    ``left`` was found and killed ``late`` seconds after the end. ``flaky_fails``: a FLAKY one fails the
    run (``--sgpu-flaky=fail``). ``part``: which part of a resumed run it is from, from 1.
    """

    key: Key
    status: Status
    exit_code: int | None = None
    start: float | None = None
    stop: float | None = None
    worker: str = ""
    devices: tuple[str, ...] = ()
    attempt: int = 1
    complete: bool = False
    reason: str = ""
    proof: str = ""
    estimate: Estimate = UNKNOWN
    junit: JUnitFacts = field(default_factory=JUnitFacts)
    left: tuple[Leftover, ...] = ()
    late: float = 0.0
    flaky_fails: bool = False
    part: int = 1

    @property
    def failed(self) -> bool:
        """Whether it makes the run fail."""
        return self.status.failed or (self.status is Status.FLAKY and self.flaky_fails)

    @property
    def final(self) -> bool:
        """Whether a resumed run leaves it as it is: it came to an end that more time would not change."""
        return self.status not in (Status.STOPPED, Status.NOT_RUN, Status.LOST)

    @property
    def seconds(self) -> float:
        """Give the wall time, 0.0 when the item never started."""
        return 0.0 if self.start is None or self.stop is None else max(0.0, self.stop - self.start)


@dataclass(frozen=True, slots=True)
class Verdict:
    """One per suite: the worst item decides."""

    suite: str
    exit_code: int
    outcomes: tuple[Outcome, ...]

    @property
    def passed(self) -> bool:
        """Whether every item of the suite passed."""
        return self.exit_code == 0


@dataclass(frozen=True, slots=True)
class Part:
    """One of the runs that a resumed run consists of.

    ``number`` counts from 1; ``started`` is epoch seconds; ``at`` is where it begins on the clock of the
    whole, whose outcomes never overlap; ``commit`` is "" when nothing is known of one, and ends in
    ``+changes`` when the checkout had uncommitted changes.
    """

    number: int
    started: float
    at: float
    commit: str = ""


@dataclass(frozen=True, slots=True)
class Notice:
    """Something to say aloud that stops nothing: a damaged table, a damaged JUnit file, a lost file.

    ``where`` is ``file:line``, a key, or "".
    """

    text: str
    where: str = ""

    def __str__(self) -> str:
        """Give one line."""
        return f"{self.where}: {self.text}" if self.where else self.text
