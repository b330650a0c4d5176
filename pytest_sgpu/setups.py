"""Phase 3: each suite's setup once, one after another, on the first device that has a worker."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pytest_sgpu.core.journal import Record
from pytest_sgpu.core.verdict import SIGNAL_BASE, signal_text
from pytest_sgpu.engine.gateways import Event, Gateways, ItemEnded, ItemRun, Posted, WorkerGone, WorkerReady
from pytest_sgpu.model import Ending, Outcome, PlanEntry, Status, Suite, Worker

GRACE = 4.0  # seconds between SIGTERM and SIGKILL
TICK = 0.25  # seconds between two looks at the screen when nothing happens


class SuiteSetups:
    """Runs setups on the workers of the run, and keeps what else happens meanwhile.

    ``deferred`` then holds the events of workers that came up, or went, during setup: they belong to the
    run's own loop, in this order.
    """

    def __init__(
        self, gates: Gateways, workers: Sequence[Worker], *, clock: Callable[[], float], tick: Callable[[], None]
    ) -> None:
        self._gates = gates
        self._alive = list(workers)
        self._clock = clock
        self._tick = tick
        self._signals = 0
        self.deferred: list[Event] = []

    def run(self, label: str, item: Callable[[Worker], ItemRun], interrupt: Callable[[str], None]) -> Ending:
        """Run one setup to its end. When its worker is lost, it starts again on the next device.

        ``interrupt`` is told the name of a signal; the setup then gets its grace, and with a second signal none.
        """
        while self._alive and not self._signals:
            worker = self._alive[0]
            run = item(worker)
            self._gates.run(worker, run)
            ending = self._wait(worker, run.id, interrupt)
            if ending is not None:
                return ending
        now = self._clock()
        why = "the run was stopped" if self._signals else f"no worker was left to set up {label}"
        return Ending(None, None, now, now, reason=why)

    def _wait(self, worker: Worker, run_id: str, interrupt: Callable[[str], None]) -> Ending | None:
        while True:
            event = self._gates.next_event(TICK)
            if isinstance(event, ItemEnded) and event.run_id == run_id:
                return event.ending
            if isinstance(event, Posted):
                interrupt(str(event.what))
                self._gates.kill(worker, f"stopped by {event.what}", 0.0 if self._signals else GRACE)
                self._signals += 1
            elif isinstance(event, WorkerReady):
                self.deferred.append(event)
            elif isinstance(event, WorkerGone):
                self._drop(event)
                if event.worker == worker:
                    return None
            self._tick()

    def _drop(self, event: WorkerGone) -> None:
        """Forget a worker that is gone, and that it was ready: else the run would hand it an item first."""
        self.deferred = [one for one in self.deferred if not isinstance(one, WorkerReady) or one.worker != event.worker]
        self.deferred.append(event)
        self._alive.remove(event.worker)


def setup_record(suite: Suite, ending: Ending) -> Record:
    """Give the journal's record of a setup."""
    return {
        "event": "setup",
        "suite": suite.label,
        "exit_code": ending.exit_code,
        "signal": ending.signal,
        "start": ending.start,
        "stop": ending.stop,
    }


def setup_failed(entry: PlanEntry, ending: Ending) -> Outcome:
    """Give the outcome of an item whose suite could not be set up: it has the setup's exit code."""
    if ending.signal is not None:
        code, how = SIGNAL_BASE + ending.signal, signal_text(ending.signal)
    elif ending.exit_code is not None:
        code, how = ending.exit_code, ending.reason or f"exit code {ending.exit_code}"
    else:
        code, how = 1, ending.reason
    return Outcome(
        entry.item.key,
        Status.SETUP_FAILED,
        exit_code=code,
        reason=f"the suite's setup failed: {how}",
        estimate=entry.estimate,
    )
