"""How a run ends before its time, and how it pauses: signals, the grace of items, and what is given up.

The rule (docs/explanation/process-control.md): the first signal lets nothing new start and gives running
items SIGTERM, their grace, then SIGKILL; a second one takes the grace away. What cannot be ended is given
up ``PATIENCE`` seconds after the grace, so that everything is written while the caller still waits.
"""

from __future__ import annotations

from pytest_sgpu.engine import signals
from pytest_sgpu.engine.clock import RunClock
from pytest_sgpu.engine.gateways import Gateways
from pytest_sgpu.ledger import Ledger
from pytest_sgpu.listener import Running
from pytest_sgpu.model import Outcome, Status, Worker

PATIENCE = 1.5
"""Seconds after the grace in which SIGKILL must have ended an item."""


class Endings:
    """Why and how this run ends. ``reason`` is "" as long as nothing ends it; ``grace`` is what items get now."""

    def __init__(self, gates: Gateways, ledger: Ledger, clock: RunClock, grace: float) -> None:
        self.reason = ""
        self.grace = grace
        self._hurried = False
        self._gates = gates
        self._ledger = ledger
        self._clock = clock
        self._due: dict[Worker, tuple[float, str]] = {}

    # -- the end ----------------------------------------------------------------------------------

    def begin(self, reason: str) -> None:
        """End the run, for this reason. Only the first one counts."""
        if not self.reason:
            self.reason = reason
            self._ledger.stopping(reason, self.grace)

    def hurry(self, name: str) -> None:
        """Take the grace away, also from what is being ended now, for a signal of this name."""
        if not self._hurried:
            self._hurried = True
            self._ledger.hurried(name)
        self.grace = 0.0
        for worker, (_, reason) in list(self._due.items()):
            self.kill(worker, reason)

    def kill(self, worker: Worker, reason: str) -> None:
        """End what runs on a worker. A second call can only make it faster."""
        self._gates.kill(worker, reason, self.grace)
        until = self._clock() + self.grace + PATIENCE
        known, first = self._due.get(worker, (until, reason))
        self._due[worker] = min(known, until), first

    def ended(self, worker: Worker) -> None:
        """Hear that a worker has ended what it ran, or is gone."""
        self._due.pop(worker, None)

    @property
    def killing(self) -> bool:
        """Whether some worker is ending what it runs."""
        return bool(self._due)

    def overdue(self, worker: Worker) -> bool:
        """Whether a worker should have ended its item by now."""
        return worker in self._due and self._clock() >= self._due[worker][0]

    def abandon(self, worker: Worker) -> str:
        """Let go of a worker that cannot end what it runs. Gives why that should have ended."""
        _, reason = self._due.pop(worker)
        self._gates.abandon(worker, "what it ran could not be ended")
        return reason

    def given_up(self, running: Running, attempt: int) -> Outcome:
        """Give the outcome of an item whose worker is abandoned."""
        worker = running.worker
        reason = self.abandon(worker)
        return Outcome(
            running.entry.item.key,
            Status.STOPPED,
            start=running.since,
            stop=self._clock(),
            worker=worker.id,
            devices=tuple(device.name for device in worker.devices),
            attempt=attempt,
            reason=f"{reason}; it could not be ended and was given up",
            estimate=running.entry.estimate,
        )

    # -- the pause --------------------------------------------------------------------------------

    def pause(self) -> None:
        """Stop the items, their clocks and this process, as ^Z asks; returns when all go on."""
        self._ledger.paused()
        self._clock.stop()
        self._gates.pause()
        signals.stand_still()
        seconds = self._clock.go_on()
        self._gates.resume()
        self._ledger.continued(seconds)
