"""What a run tells while it runs, and how far it is: the border between the session and its faces."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from pytest_sgpu.model import Ending, Outcome, PlanEntry, Suite, Worker


@dataclass(frozen=True, slots=True)
class Running:
    """One item that runs now. ``since`` is seconds since the run began."""

    entry: PlanEntry
    worker: Worker
    since: float


@dataclass(slots=True)
class Progress:
    """How far the run is; the session changes it, listeners read it.

    ``remaining`` are seconds of known items without an outcome, ``unknown`` is how many others there are.
    ``running`` goes by the id of the worker.
    """

    total: int
    now: float = 0.0
    done: int = 0
    failed: int = 0
    remaining: float = 0.0
    unknown: int = 0
    running: dict[str, Running] = field(default_factory=dict)

    def began(self, entry: PlanEntry, worker: Worker, at: float) -> None:
        """Count an item that was handed to a worker."""
        self.running[worker.id] = Running(entry, worker, at)

    def ended(self, outcome: Outcome, now: float) -> None:
        """Count an item that has its outcome."""
        self.now = now
        self.done += 1
        self.failed += outcome.failed
        if outcome.estimate.known:
            self.remaining = max(0.0, self.remaining - (outcome.estimate.seconds or 0.0))
        else:
            self.unknown -= 1
        self.running.pop(outcome.worker, None)


class Listener(Protocol):
    """Who is told what happens. ``finished`` may answer with a reason to stop the run, or ""."""

    def setup(self, suite: Suite, ending: Ending | None) -> None:
        """Hear that the setup of a suite begins (None) or has ended."""

    def started(self, entry: PlanEntry, worker: Worker, progress: Progress) -> None:
        """Hear that an item began."""

    def finished(self, outcome: Outcome, progress: Progress) -> str:
        """Hear that an item has its outcome."""

    def stopping(self, reason: str, progress: Progress) -> None:
        """Hear that no new items start from here on, and running ones are being ended."""

    def tick(self, progress: Progress) -> None:
        """Hear that time has passed."""
