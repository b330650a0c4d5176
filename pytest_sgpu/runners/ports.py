"""What the runner tools are given and what they give back: Transport, Clock, Result.

Public and stable. ``Transport`` and ``Clock`` are all that the tools know of the network and of time, so a test
passes fakes and needs neither.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

Kind: TypeAlias = Literal[
    "",
    "config",
    "parent_not_active",
    "parent_changed",
    "parent_cancelled",
    "source_changed",
    "workflow_changed",
    "dispatch_failed",
    "dispatch_ambiguous",
    "auth",
    "api_error",
    "startup_timeout",
    "identity_mismatch",
    "contract",
    "queue_exhausted",
    "race",
    "cancel_unconfirmed",
    "execution_timeout",
    "worker_failed",
]
"""How it failed, "" when it did not; docs/reference/runners.md says what happened and what to do."""


class TransportError(Exception):
    """A request got no answer: name resolution, connection, TLS, a time-out. Whether it arrived is unknown."""


@dataclass(frozen=True, slots=True)
class Response:
    """An HTTP answer as it came: status, headers (names in any case), the undecoded body."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Transport(Protocol):
    """One request, one answer; no retry, no redirect to another host, no interpretation of the status."""

    def request(
        self, method: str, path: str, *, body: Mapping[str, object] | None, headers: Mapping[str, str], timeout: float
    ) -> Response:
        """Send ``body`` as JSON to ``path`` (from ``/repos/`` on, with its query) and give the answer.

        ``timeout`` is in seconds, for the whole request. Raises ``TransportError`` when no answer came.
        """
        ...


class Clock(Protocol):
    """Time in seconds."""

    def monotonic(self) -> float:
        """Seconds of a clock that never jumps; every deadline is measured with it."""
        ...

    def time(self) -> float:
        """Seconds since the epoch; only for what is compared with GitHub's times, and for people."""
        ...

    def sleep(self, seconds: float) -> None:
        """Come back after ``seconds``, or raise KeyboardInterrupt when the job is being cancelled."""
        ...


@dataclass(frozen=True, slots=True)
class Attempt:
    """One dispatch: where it asked, how long it waited (seconds), how it ended.

    ``outcome`` is one of: success, worker_failed, no_runner (cancelled before a runner came, and confirmed), or
    the ``kind`` of the failure that ended it.
    """

    number: int
    runner: Mapping[str, str]
    request_id: str
    run_id: int = 0
    run_url: str = ""
    job_id: int = 0
    job_url: str = ""
    queued_seconds: float = 0.0
    executed_seconds: float = 0.0
    outcome: str = ""
    worker: int = 1


@dataclass(frozen=True, slots=True)
class Result:
    """How it ended.

    ``outputs`` are those of the action: run-id, run-url, runner, attempts. ``state`` is what a later cleanup needs:
    empty unless a child may still be active.
    """

    ok: bool
    kind: Kind = ""
    message: str = ""
    outputs: Mapping[str, str] = field(default_factory=dict)
    state: Mapping[str, str] = field(default_factory=dict)
    attempts: tuple[Attempt, ...] = ()
