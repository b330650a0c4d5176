"""What the Dispatcher is told, and what it orders: events and commands.

``at`` is always seconds since the run began. ``reason`` is a text for people, without a full stop.
"""

from __future__ import annotations

from dataclasses import dataclass

from pytest_sgpu.model import Key, Outcome, PlanEntry, Quarantine, Worker

# Why an attempt was not the last one (``Requeue.why``).
RETRY = "retry"
LOST = "lost"
QUARANTINE = "quarantine"
PROBE = "probe"


@dataclass(frozen=True, slots=True)
class Ready:
    """A worker asks for its next item."""

    worker: Worker
    at: float


@dataclass(frozen=True, slots=True)
class Started:
    """The process of an item runs."""

    worker: Worker
    key: Key
    attempt: int
    at: float


@dataclass(frozen=True, slots=True)
class Finished:
    """An attempt ended and was judged. Its worker is free only when it says ``Ready``."""

    worker: Worker
    outcome: Outcome
    at: float


@dataclass(frozen=True, slots=True)
class Lost:
    """A gateway is gone, or never came up; whatever it ran is lost."""

    worker: Worker
    reason: str
    at: float


@dataclass(frozen=True, slots=True)
class Unhealthy:
    """The device of a worker is not to be trusted: its health command failed."""

    worker: Worker
    reason: str
    at: float


@dataclass(frozen=True, slots=True)
class Stop:
    """No new items. ``kill``: end the running ones too."""

    reason: str
    kill: bool
    at: float


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed: the budget may be spent."""

    at: float


@dataclass(frozen=True, slots=True)
class Assign:
    """Run this item on this worker. ``attempt`` counts from 1, through all parts of a resumed run."""

    worker: Worker
    entry: PlanEntry
    attempt: int


@dataclass(frozen=True, slots=True)
class Kill:
    """End what this worker runs. Its ``Finished`` or ``Lost`` is still to come."""

    worker: Worker
    reason: str


@dataclass(frozen=True, slots=True)
class Respawn:
    """Start this worker anew; it has its next generation already."""

    worker: Worker


@dataclass(frozen=True, slots=True)
class Retire:
    """This worker is not needed any more, or is given up."""

    worker: Worker


@dataclass(frozen=True, slots=True)
class Record:
    """The outcome of an item, its one and final one."""

    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Requeue:
    """An attempt is over, and its item waits again. ``why``: retry, lost, quarantine or probe."""

    outcome: Outcome
    why: str


@dataclass(frozen=True, slots=True)
class Quarantined:
    """A device gets no more items."""

    quarantine: Quarantine


@dataclass(frozen=True, slots=True)
class Held:
    """A worker gets nothing until it is known whether its device or its items are bad."""

    worker: Worker
    reason: str


@dataclass(frozen=True, slots=True)
class Released:
    """A worker that was held gets items again."""

    worker: Worker
    reason: str


@dataclass(frozen=True, slots=True)
class Incomplete:
    """Something will not run, for want of time or of workers. Given once; never because of a ``Stop``."""

    reason: str


OfWorker = Ready | Started | Finished | Lost | Unhealthy
Event = OfWorker | Stop | Tick
Command = Assign | Kill | Respawn | Retire | Record | Requeue | Quarantined | Held | Released | Incomplete


def is_calm(command: Command) -> bool:
    """Whether nothing more fits an idle worker after this than before."""
    return isinstance(command, (Assign, Record))


def is_record(command: Command) -> bool:
    """Whether this is the end of an item."""
    return isinstance(command, Record)
