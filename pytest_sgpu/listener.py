"""What a run tells while it runs, and how far it is: the border between the session and its faces."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from pytest_sgpu.engine.events import ItemSlow
from pytest_sgpu.model import Ending, Outcome, PlanEntry, Status, Suite, Worker


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
    ``running`` goes by the id of the worker. ``failed`` counts what fails the run, ``flaky`` what failed
    first and passed later; what was never started is in none of them. What a resumed run keeps of its earlier
    parts counts as done.
    """

    total: int
    now: float = 0.0
    done: int = 0
    failed: int = 0
    flaky: int = 0
    remaining: float = 0.0
    unknown: int = 0
    running: dict[str, Running] = field(default_factory=dict)

    def began(self, entry: PlanEntry, worker: Worker, at: float) -> None:
        """Count an item that was handed to a worker."""
        self.running[worker.id] = Running(entry, worker, at)

    def attempted(self, outcome: Outcome, now: float) -> None:
        """Count an attempt that is over while its item waits again: nothing is done, a worker is free."""
        self.now = now
        self._freed(outcome)

    def ended(self, outcome: Outcome, now: float) -> None:
        """Count an item that has its outcome."""
        self.now = now
        self.kept(outcome)
        if outcome.estimate.known:
            self.remaining = max(0.0, self.remaining - (outcome.estimate.seconds or 0.0))
        else:
            self.unknown -= 1
        self._freed(outcome)

    def _freed(self, outcome: Outcome) -> None:
        """Free the worker, unless it has something else by now: an attempt may become the outcome much later."""
        running = self.running.get(outcome.worker)
        if running is not None and running.entry.item.key == outcome.key:
            del self.running[outcome.worker]

    def kept(self, outcome: Outcome) -> None:
        """Count an item that has its outcome, perhaps since before this run began. One that never began is not done."""
        if outcome.status is Status.NOT_RUN:
            return
        self.done += 1
        self.failed += outcome.failed
        self.flaky += outcome.status is Status.FLAKY


class Listener(Protocol):
    """Who is told what happens. ``finished`` may answer with a reason to stop the run, or ""."""

    def setup(self, suite: Suite, ending: Ending | None) -> None:
        """Hear that the setup of a suite begins (None) or has ended."""

    def started(self, entry: PlanEntry, worker: Worker, progress: Progress) -> None:
        """Hear that an item began."""

    def slow(self, event: ItemSlow) -> None:
        """Hear that half of the time limit of an item is over."""

    def attempted(self, outcome: Outcome, why: str, progress: Progress) -> None:
        """Hear that an attempt is over and its item waits again; ``why``: retry, lost, quarantine or probe."""

    def finished(self, outcome: Outcome, progress: Progress) -> str:
        """Hear that an item has its outcome."""

    def device(self, text: str) -> None:
        """Hear one line about a device: quarantined, held, released, or unwell."""

    def stopping(self, reason: str, grace: float, progress: Progress) -> None:
        """Hear that no new items start from here on, and running ones are being ended: ``grace`` seconds at most."""

    def hurried(self, reason: str, progress: Progress) -> None:
        """Hear that the grace is over: what runs is being killed."""

    def incomplete(self, reason: str) -> None:
        """Hear that something will not run though nobody has stopped the run."""

    def paused(self) -> None:
        """Hear that the run stops here, until ``continued``."""

    def continued(self, seconds: float) -> None:
        """Hear that the run goes on after so many seconds."""

    def tick(self, progress: Progress) -> None:
        """Hear that time has passed."""
