"""What goes to the workers and what comes back: one order, and the events of one queue.

Times are seconds since the run began, from the controller's monotonic clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pytest_sgpu.model import Ending, Worker


@dataclass(frozen=True, slots=True)
class ItemRun:
    """What a worker is to run.

    ``env`` goes on top of the base environment; a value of None unsets the name. ``cwd`` "" means that of
    the gateways. ``log`` (an absolute path) is appended to; its folder must exist. ``log_root``: a folder
    above it that is trusted; the folders between the two are opened one by one and no link in place of
    one is followed. "" for not. ``ran_line``: look for this line in the output afterwards, "" for not.
    ``partial_glob``: look for such a file afterwards, "" for not; the caller escapes what is no wildcard.

    ``timeout``: seconds that the item may take. ``stall``: seconds that it may be without output. 0 for
    no limit. At the end of one its whole tree gets SIGTERM, and SIGKILL after ``grace`` seconds.
    """

    id: str
    argv: tuple[str, ...]
    log: str
    env: Mapping[str, str | None] = field(default_factory=dict)
    cwd: str = ""
    ran_line: str = ""
    partial_glob: str = ""
    timeout: float = 0.0
    stall: float = 0.0
    grace: float = 4.0
    log_root: str = ""


@dataclass(frozen=True, slots=True)
class WorkerReady:
    """A gateway is up and its worker waits for its first item."""

    worker: Worker
    pid: int
    at: float


@dataclass(frozen=True, slots=True)
class ItemStarted:
    """The first process of an item runs."""

    worker: Worker
    run_id: str
    pid: int
    at: float


@dataclass(frozen=True, slots=True)
class ItemSlow:
    """Half of the timeout of an item is over. Comes once at most.

    ``seconds`` it runs by now, ``limit`` is its timeout, ``quiet`` the seconds since its last output;
    ``last_line`` is what it wrote last (a line that has no end yet, too), at most 200 characters, raw.
    """

    worker: Worker
    run_id: str
    seconds: float
    limit: float
    quiet: float
    last_line: str
    at: float


@dataclass(frozen=True, slots=True)
class ItemEnded:
    """An item ended, and what it left (``ending.left``) was killed. The worker is free."""

    worker: Worker
    run_id: str
    ending: Ending
    at: float


@dataclass(frozen=True, slots=True)
class WorkerGone:
    """A gateway could not be started, or ended without being told to. What it ran is lost."""

    worker: Worker
    reason: str
    at: float


@dataclass(frozen=True, slots=True)
class Posted:
    """Something that the controller sent to itself, from a signal handler for instance."""

    what: object


Event = WorkerReady | ItemStarted | ItemSlow | ItemEnded | WorkerGone | Posted
