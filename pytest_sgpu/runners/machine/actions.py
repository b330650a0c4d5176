"""What the state machines ask for, and what they are told: actions out, observations in.

An action is either an effect that is answered by one ``Observation`` (a request, or waiting), or a remark
(``Note``, ``Save``) that is not answered. Times are seconds of a monotonic clock. ``by`` is a deadline that a
request shares with its retries; without it a request has only its own limit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

from pytest_sgpu.runners.machine.sightings import JobsSeen, RunSeen
from pytest_sgpu.runners.ports import Kind


@dataclass(frozen=True, slots=True)
class ReadRun:
    """Look at a run: answered by ``RunSeen``. ``patient``: a request in flight may outlive ``by`` (R72)."""

    run_id: int
    by: float | None = None
    patient: bool = False


@dataclass(frozen=True, slots=True)
class ReadJobs:
    """Look at the jobs of a run: answered by ``JobsSeen``."""

    run_id: int
    by: float | None = None
    patient: bool = False


@dataclass(frozen=True, slots=True)
class ReadSource:
    """Ask where a full ref points: answered by a SHA."""

    ref: str
    by: float | None = None


@dataclass(frozen=True, slots=True)
class ReadDefinition:
    """Ask where the ref of the workflow points: answered by a SHA."""

    ref: str


@dataclass(frozen=True, slots=True)
class Dispatch:
    """Start a child, once, whatever comes back (R56): answered by ``Dispatched``."""

    workflow: str
    ref: str
    inputs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class FindRuns:
    """List recent dispatched runs: answered by a tuple of ``RunSeen`` with that very title (R57)."""

    workflow: str
    title: str
    by: float


@dataclass(frozen=True, slots=True)
class Cancel:
    """Ask for the end of a run; ``force`` past its ``always()`` steps. Answered by None."""

    run_id: int
    by: float
    force: bool = False


@dataclass(frozen=True, slots=True)
class Wait:
    """Wait until a time."""

    until: float


@dataclass(frozen=True, slots=True)
class Save:
    """Keep this for a later cleanup, in place of what was kept before; empty: there is nothing to clean up (R114)."""

    state: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Note:
    """Say something: ``text`` for the log ("" for none), event and fields for the timeline."""

    event: str
    text: str = ""
    fields: Mapping[str, object] = field(default_factory=dict)


Effect: TypeAlias = ReadRun | ReadJobs | ReadSource | ReadDefinition | Dispatch | FindRuns | Cancel | Wait
Action: TypeAlias = Effect | Save | Note


@dataclass(frozen=True, slots=True)
class Dispatched:
    """What the answer to a dispatch says (R55)."""

    run_id: int
    url: str


class Trouble(Enum):
    """Why a request has no answer that can be used."""

    MISSING = "missing"  # 404
    CONFLICT = "conflict"  # 409
    AUTH = "auth"  # the token is refused
    REFUSED = "refused"  # any other definite refusal
    OUTAGE = "outage"  # no answer, or none that makes sense, and no retry left
    LIMITED = "limited"  # the rate limit, and no retry left, or too long to wait
    LATE = "late"  # the deadline that it shares has passed
    AMBIGUOUS = "ambiguous"  # of a dispatch: it may have been carried out


@dataclass(frozen=True, slots=True)
class Failure:
    """A request that failed for good. ``text``: method, path, tries, and what came back (R109); safe to show."""

    trouble: Trouble
    text: str
    tried: bool = True
    status: int = 0  # of the last answer, 0 when there was none


Answer: TypeAlias = RunSeen | JobsSeen | str | Dispatched | tuple[RunSeen, ...] | None


@dataclass(frozen=True, slots=True)
class Observation:
    """The answer to an effect: when its request began and ended (its last try), and what came back."""

    began: float
    ended: float
    answer: Answer = None
    failure: Failure | None = None


class Stopped(Exception):  # noqa: N818 - an end that was foreseen
    """A sequence ends without success. ``kind`` as in ``Result``."""

    def __init__(self, kind: Kind, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message


def stopped_by(failure: Failure, late: Kind = "api_error") -> Stopped:
    """Give the end that a failed request means; ``late`` is the kind when its shared deadline has passed."""
    kinds: dict[Trouble, Kind] = {Trouble.AUTH: "auth", Trouble.LATE: late}
    return Stopped(kinds.get(failure.trouble, "api_error"), failure.text)
