"""The run itself: setup, the loop event -> Dispatcher -> command, and the ways in which it ends."""

from __future__ import annotations

import contextlib
import glob
import time
from collections.abc import Callable, Iterator, Sequence

from pytest_sgpu.core import journal
from pytest_sgpu.core.dispatch import (
    Assign,
    Command,
    Dispatcher,
    Event,
    Finished,
    Kill,
    Lost,
    Ready,
    Respawn,
    Retire,
    Started,
    Stop,
)
from pytest_sgpu.core.verdict import exit_code, judge
from pytest_sgpu.engine import environment
from pytest_sgpu.engine.gateways import Event as GatewayEvent
from pytest_sgpu.engine.gateways import Gateways, ItemEnded, ItemRun, ItemStarted, Posted, WorkerGone, WorkerReady
from pytest_sgpu.engine.signals import posted_to
from pytest_sgpu.engine.store import RunDirectory, why
from pytest_sgpu.listener import Listener, Progress
from pytest_sgpu.model import Ending, JUnitFacts, Key, Mode, Notice, Outcome, Plan, Status, Suite, Worker
from pytest_sgpu.prepare import Prepared
from pytest_sgpu.report import junit_read
from pytest_sgpu.results import write_plan
from pytest_sgpu.setups import GRACE, TICK, SuiteSetups, setup_failed, setup_record

__all__ = ["Listener", "Progress", "Session"]


class Session:
    """One run of a plan. ``run`` returns when every planned item has its outcome in the journal."""

    def __init__(
        self,
        prepared: Prepared,
        plan: Plan,
        directory: RunDirectory,
        listener: Listener,
        *,
        predicted: float,
        reorder: bool,
        gateways: Callable[..., Gateways] = Gateways,
    ) -> None:
        self.prepared = prepared
        self.plan = plan
        self.directory = directory
        self.listener = listener
        self.predicted = predicted
        self.reorder = reorder
        self._open_gateways = gateways
        self.interrupted = ""
        self.outcomes: dict[Key, Outcome] = {}
        self._zero = time.monotonic()
        self._epoch = time.time()
        self._progress = Progress(total=len(plan.entries), remaining=plan.total, unknown=plan.unknown)
        self._opaque = {suite.label: suite.mode is Mode.OPAQUE for suite in prepared.suites}
        self._entries = {str(entry.item.key): entry for entry in plan.entries}
        self._attempts: dict[str, int] = {}
        self._deferred: Sequence[GatewayEvent] = ()
        self._dispatcher: Dispatcher | None = None

    @property
    def started(self) -> float:
        """Give the epoch seconds at which the run began."""
        return self._epoch

    def clock(self) -> float:
        """Give the seconds since the run began."""
        return time.monotonic() - self._zero

    def run(self) -> None:
        """Run the plan. The run directory is open; whatever happens, no item process is left behind.

        Raises WorkerError when no worker could be started.
        """
        self._write_head()
        workers = [Worker(device.name, (device,)) for device in self.prepared.devices]
        env = environment.base(self.prepared.options.env)
        gates = self._open_gateways(workers, env=env, cwd=str(self.prepared.options.root), clock=self.clock)
        self._gates = gates
        with posted_to(gates.post):  # to the end of close: an impatient signal must not cut it short
            try:
                gates.start()
                refused = self._set_up(gates, workers)
                self._loop(gates, refused)
            finally:
                gates.close(0.0)
        self._append({"event": "end", "at": self.clock()})

    def _write_head(self) -> None:
        prepared = self.prepared
        self._append(
            journal.run_record(
                started=self._epoch,
                scope=prepared.scope,
                devices=prepared.devices,
                suites=prepared.suites,
                labels=prepared.labels,
            )
        )
        self._append(journal.plan_record(self.plan, self.predicted, prepared.census))
        for notice in prepared.notices:
            self._append(journal.notice_record(notice))
        with self._telling("the plan"):
            write_plan(self.directory, self.plan, prepared.census)

    def _append(self, record: journal.Record) -> None:
        self.directory.append(record)

    @contextlib.contextmanager
    def _telling(self, what: str) -> Iterator[None]:
        """Go on without a file that cannot be written: the journal holds what was in it."""
        try:
            yield
        except OSError as error:
            notice = Notice(f"{what} could not be written: {why(error)}", str(error.filename or ""))
            self._append(journal.notice_record(notice))

    # -- phase 3: setup ---------------------------------------------------------------------------

    def _set_up(self, gates: Gateways, workers: Sequence[Worker]) -> frozenset[str]:
        """Set up each list suite that has queued items. Gives the labels of those that failed."""
        queued = {entry.item.key.suite for entry in self.plan.entries}
        setups = SuiteSetups(gates, workers, clock=self.clock, tick=self._tick)
        refused = set()
        for suite in self.prepared.suites:
            if suite.label not in queued or suite.mode is Mode.OPAQUE or self.interrupted:
                continue
            self.listener.setup(suite, None)
            ending = setups.run(suite.label, self._setup_item(suite), self._interrupt)
            self._append(setup_record(suite, ending))
            self.listener.setup(suite, ending)
            if ending.exit_code != 0:
                refused.add(suite.label)
                self._refuse(suite, ending)
        self._deferred = setups.deferred
        return frozenset(refused)

    def _setup_item(self, suite: Suite) -> Callable[[Worker], ItemRun]:
        def on(worker: Worker) -> ItemRun:
            return ItemRun(
                id=f"setup {suite.label}",
                argv=self.prepared.argv[suite.label],
                env=environment.setup_overlay(worker.devices[0]),
                log=str(self.directory.setup_log(suite.label)),
            )

        return on

    def _tick(self) -> None:
        self._progress.now = self.clock()
        self.listener.tick(self._progress)

    def _refuse(self, suite: Suite, ending: Ending) -> None:
        """End all items of a suite whose setup failed, or was cut off because the run ends."""
        for entry in self.plan.entries:
            if entry.item.key.suite != suite.label:
                continue
            if self.interrupted:
                outcome = Outcome(entry.item.key, Status.NOT_RUN, reason=self.interrupted, estimate=entry.estimate)
            else:
                outcome = setup_failed(entry, ending)
            reason = self._record(outcome)
            if reason and not self.interrupted:
                self._stop(reason)

    # -- phase 4: run -----------------------------------------------------------------------------

    def _loop(self, gates: Gateways, refused: frozenset[str]) -> None:
        entries = tuple(entry for entry in self.plan.entries if entry.item.key.suite not in refused)
        todo = Plan(entries, self.plan.devices)
        self._dispatcher = Dispatcher(todo, reorder=self.reorder)
        if self.interrupted:
            self._handle(Stop(self.interrupted, kill=True, at=self.clock()))
        pending = list(self._deferred)
        while not self._dispatcher.done:
            event = pending.pop(0) if pending else gates.next_event(TICK)
            self._progress.now = self.clock()
            if isinstance(event, WorkerReady):
                self._handle(Ready(event.worker, self.clock()))
            elif isinstance(event, ItemStarted):
                key = Key.parse(event.run_id)
                self._append({"event": "started", "at": event.at, "key": event.run_id})
                self._handle(Started(event.worker, key, self._attempts[event.run_id], event.at))
            elif isinstance(event, ItemEnded):
                self._ended(event)
            elif isinstance(event, WorkerGone):
                self._append({"event": "lost", "at": event.at, "worker": event.worker.id, "reason": event.reason})
                self._handle(Lost(event.worker, event.reason, event.at))
            elif isinstance(event, Posted):
                self._interrupt(str(event.what))
            else:
                self._tick()

    def _ended(self, event: ItemEnded) -> None:
        entry = self._entries.get(event.run_id)
        if entry is None or entry.item.key in self.outcomes:
            return  # setup, or a late message of a worker that was given up
        key = entry.item.key
        facts = self._facts(key)
        outcome = judge(
            key,
            event.ending,
            facts,
            self.prepared.options.policy,
            opaque=self._opaque[key.suite],
            worker=event.worker.id,
            devices=tuple(device.name for device in event.worker.devices),
            attempt=self._attempts[event.run_id],
            estimate=entry.estimate,
        )
        self._handle(Finished(event.worker, outcome, event.at))
        self._handle(Ready(event.worker, self.clock()))

    def _facts(self, key: Key) -> JUnitFacts:
        paths = self.directory.junit_files(key)
        return junit_read.facts(paths) if paths else JUnitFacts()

    def _handle(self, event: Event) -> None:
        assert self._dispatcher is not None
        for command in self._dispatcher.handle(event):
            self._execute(command)

    def _execute(self, command: Command) -> None:
        if isinstance(command, Assign):
            self._assign(command)
        elif isinstance(command, Kill):
            self._gates.kill(command.worker, command.reason, GRACE)
        elif isinstance(command, Respawn):
            self._gates.respawn(command.worker)
        elif isinstance(command, Retire):
            self._gates.retire(command.worker)
        else:
            reason = self._record(command.outcome)
            if reason and not self.interrupted:
                self._stop(reason)

    def _assign(self, command: Assign) -> None:
        entry, worker = command.entry, command.worker
        key = entry.item.key
        text = str(key)
        self._attempts[text] = command.attempt
        prefix, _ = self.directory.junit_place(key)
        opaque = self._opaque[key.suite]
        env = environment.item_overlay(key, worker.devices[0], junit_prefix=prefix, junit_suffix=".xml", opaque=opaque)
        at = self.clock()
        self._append({"event": "assign", "at": at, "key": text, "worker": worker.id, "attempt": command.attempt})
        self._gates.run(
            worker,
            ItemRun(
                id=text,
                argv=self.prepared.argv[key.suite],
                env=env,
                log=str(self.directory.item_log(key)),
                ran_line="" if opaque else f"TE_CI_RAN {key.tag}",
                partial_glob=f"{glob.escape(prefix + key.tag)}*.partial",
            ),
        )
        self._progress.began(entry, worker, at)
        self.listener.started(entry, worker, self._progress)

    def _record(self, outcome: Outcome) -> str:
        """Write an outcome down, then tell it. Gives the listener's reason to stop, or ""."""
        self._append(journal.outcome_record(outcome))
        self._write_code(outcome)
        self.outcomes[outcome.key] = outcome
        self._progress.ended(outcome, self.clock())
        return self.listener.finished(outcome, self._progress)

    def _write_code(self, outcome: Outcome) -> None:
        """Leave ``<log>.rc`` as soon as an item has ended, as published consumers of the run directory expect."""
        if outcome.start is None:
            return
        with self._telling("the exit code of an item"):
            self.directory.write_code(outcome.key, exit_code(outcome))

    # -- endings ----------------------------------------------------------------------------------

    def _stop(self, reason: str) -> None:
        self.interrupted = reason
        self._append({"event": "stop", "at": self.clock(), "reason": reason})
        self.listener.stopping(reason, self._progress)
        if self._dispatcher is not None:
            self._handle(Stop(reason, kill=True, at=self.clock()))

    def _interrupt(self, name: str) -> None:
        """End the run: the first signal gives running items their grace, a second one takes it away."""
        reason = f"stopped by {name}"
        if not self.interrupted:
            self._stop(reason)
        else:
            for running in list(self._progress.running.values()):
                self._gates.kill(running.worker, self.interrupted, 0.0)
