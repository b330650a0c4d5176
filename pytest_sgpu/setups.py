"""Phase 3: each suite's setup once, one after another, on the first device that has a worker."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pytest_sgpu.core.verdict import NO_WORKER, SIGNAL_BASE, TIMED_OUT_CODE, signal_text
from pytest_sgpu.endings import Endings
from pytest_sgpu.engine import environment
from pytest_sgpu.engine.gateways import Event, Gateways, ItemEnded, ItemRun, Posted, WorkerGone, WorkerReady
from pytest_sgpu.engine.store import RunDirectory
from pytest_sgpu.ledger import Ledger
from pytest_sgpu.model import UNKNOWN, Ending, Mode, Outcome, Plan, PlanEntry, Status, Suite, Worker
from pytest_sgpu.prepare import Prepared

TICK = 0.25  # seconds between two looks at the screen when nothing happens


class SuiteSetups:
    """Runs setups on the workers of the run, and keeps what else happens meanwhile.

    ``hear`` is told the name of each signal. ``deferred`` then holds the events of workers that came up,
    or went, during setup: they belong to the run's own loop, in this order.
    """

    def __init__(
        self,
        gates: Gateways,
        workers: Sequence[Worker],
        endings: Endings,
        clock: Callable[[], float],
        *,
        hear: Callable[[str], None],
        tick: Callable[[], None],
    ) -> None:
        self._gates = gates
        self._alive = list(workers)
        self._endings = endings
        self._hear = hear
        self._tick = tick
        self.clock = clock
        self.deferred: list[Event] = []

    @property
    def stopped(self) -> str:
        """Say why the run ends, "" when it does not; takes what has happened so far, so that no signal is missed."""
        while (event := self._gates.next_event(0.0)) is not None:
            self._take(event)
        return self._endings.reason

    def run(self, label: str, item: Callable[[Worker], ItemRun]) -> Ending:
        """Run one setup to its end. When its worker is lost, it starts again on the next device.

        A signal that ends the run ends the setup, by the rule for items.
        """
        while self._alive and not self._endings.reason:
            worker = self._alive[0]
            run = item(worker)
            self._gates.run(worker, run)
            ending = self._wait(worker, run.id)
            if ending is not None:
                return ending
        now = self.clock()
        why = self._endings.reason or f"{NO_WORKER} is left to set up {label}"
        return Ending(None, None, now, now, reason=why)

    def _wait(self, worker: Worker, run_id: str) -> Ending | None:
        began = self.clock()
        while worker in self._alive:
            event = self._gates.next_event(TICK)
            if isinstance(event, ItemEnded) and event.run_id == run_id:
                self._endings.ended(worker)
                return event.ending
            self._take(event)
            if isinstance(event, Posted) and self._endings.reason:
                self._endings.kill(worker, self._endings.reason)
            if self._endings.overdue(worker):
                self._endings.abandon(worker)
                return Ending(None, None, began, self.clock(), reason="it could not be ended and was given up")
            self._tick()
        self._endings.ended(worker)
        return None

    def _take(self, event: Event | None) -> None:
        if isinstance(event, Posted):
            self._hear(str(event.what))
        elif isinstance(event, WorkerReady):
            self.deferred.append(event)
        elif isinstance(event, WorkerGone):
            self._drop(event)

    def _drop(self, event: WorkerGone) -> None:
        """Forget a worker that is gone, and that it was ready: else the run would hand it an item first."""
        self.deferred = [one for one in self.deferred if not isinstance(one, WorkerReady) or one.worker != event.worker]
        self.deferred.append(event)
        self._alive.remove(event.worker)


def set_up(
    prepared: Prepared,
    todo: Plan,
    setups: SuiteSetups,
    ledger: Ledger,
    *,
    budget: float | None,
    stop: Callable[[str], None],
) -> frozenset[str]:
    """Set up each list suite that has queued items. Gives the labels of those that failed; their items have ended.

    ``budget`` is when the run must be over. What is cut off by it, or by a signal, is no failure of the
    setup: those items are left to the Dispatcher, which starts none of them. ``stop`` is told the
    listener's reason to stop the run.
    """
    queued = {entry.item.key.suite for entry in todo.entries}
    refused = set()
    for suite in prepared.suites:
        if suite.label not in queued or suite.mode is Mode.OPAQUE:
            continue
        left = None if budget is None else budget - setups.clock()
        if setups.stopped or (left is not None and left <= 0):
            break
        ledger.listener.setup(suite, None)
        ending = setups.run(suite.label, _order(prepared, suite, ledger.directory, left))
        ledger.set_up(suite, ending)
        spent = budget is not None and setups.clock() >= budget
        if (ending.exit_code != 0 or ending.timed_out) and not spent and not setups.stopped:
            refused.add(suite.label)
            _refuse(todo, suite, ending, ledger, setups, stop)
    return frozenset(refused)


def _order(
    prepared: Prepared, suite: Suite, directory: RunDirectory, left: float | None
) -> Callable[[Worker], ItemRun]:
    """Give what sets a suite up. Nobody knows how long it takes, so its limit is that of an unknown item."""
    options = prepared.options
    limits = [limit for limit in (options.limits.deadline(UNKNOWN), left) if limit is not None]

    def on(worker: Worker) -> ItemRun:
        return ItemRun(
            id=f"setup {suite.label}",
            argv=prepared.argv[suite.label],
            env=environment.setup_overlay(worker.devices[0]),
            log=str(directory.setup_log(suite.label)),
            log_root=str(directory.path),
            timeout=min(limits, default=0.0),
            grace=options.grace,
        )

    return on


def _refuse(  # noqa: PLR0917 - all of a kind
    todo: Plan, suite: Suite, ending: Ending, ledger: Ledger, setups: SuiteSetups, stop: Callable[[str], None]
) -> None:
    """End all items of a suite whose setup failed. They have not run when nobody was there, or the run was stopped."""
    missing = ending.reason if ending.reason.startswith(NO_WORKER) else ""
    if missing:
        ledger.incomplete(missing)
    for entry in todo.entries:
        if entry.item.key.suite != suite.label:
            continue
        reason = setups.stopped or missing
        if reason:
            outcome = Outcome(entry.item.key, Status.NOT_RUN, reason=reason, estimate=entry.estimate)
        else:
            outcome = setup_failed(entry, ending)
        wish = ledger.ended(outcome)
        if wish:
            stop(wish)


def setup_failed(entry: PlanEntry, ending: Ending) -> Outcome:
    """Give the outcome of an item whose suite could not be set up: it has the setup's exit code."""
    if ending.timed_out:
        code, how = TIMED_OUT_CODE, ending.killed
    elif ending.signal is not None:
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
