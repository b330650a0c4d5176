"""The run itself: setup, and the loop event -> Dispatcher -> commands, to its end."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pytest_sgpu.core import journal, resume
from pytest_sgpu.core.dispatch import Dispatcher
from pytest_sgpu.core.evidence import FAILURES
from pytest_sgpu.core.journal import RunState
from pytest_sgpu.core.messages import Event, Finished, Lost, Quarantined, Ready, Started, Stop, Tick, Unhealthy
from pytest_sgpu.core.redact import Redactor
from pytest_sgpu.core.verdict import judge
from pytest_sgpu.effects import Effects
from pytest_sgpu.endings import Endings
from pytest_sgpu.engine import environment, signals
from pytest_sgpu.engine.clock import RunClock
from pytest_sgpu.engine.gateways import Event as GatewayEvent
from pytest_sgpu.engine.gateways import (
    Gateways,
    ItemEnded,
    ItemSlow,
    ItemStarted,
    Posted,
    WorkerGone,
    WorkerReady,
)
from pytest_sgpu.engine.store import RunDirectory
from pytest_sgpu.health import HealthChecks
from pytest_sgpu.ledger import Ledger
from pytest_sgpu.listener import Listener, Progress, Running
from pytest_sgpu.model import Ending, JUnitFacts, Key, Outcome, Plan, Quarantine, Worker
from pytest_sgpu.prepare import Prepared
from pytest_sgpu.report import junit_read
from pytest_sgpu.results import write_plan
from pytest_sgpu.setups import TICK, SuiteSetups, set_up

_PATIENCE = 2.0  # seconds that workers have to leave by themselves
_HASTE = 0.5  # the same when somebody waits for the end


class Session:
    """One run of a plan. ``run`` returns when every planned item has its outcome in the journal.

    ``earlier`` is the state of a run that is resumed, and ``begins`` where on its clock this part begins: then only
    what has no final outcome yet is run. ``rerun`` is the command that runs one item again, up to its node id.
    """

    def __init__(
        self,
        prepared: Prepared,
        plan: Plan,
        directory: RunDirectory,
        listener: Listener,
        *,
        predicted: float,
        reorder: bool,
        commit: str = "",
        rerun: str = "",
        earlier: RunState | None = None,
        begins: float = 0.0,
        inbox: signals.Inbox | None = None,
        gateways: Callable[..., Gateways] = Gateways,
    ) -> None:
        self.prepared = prepared
        self.plan = plan
        self.todo = plan if earlier is None else resume.pending(plan, earlier)
        self.predicted = predicted
        self.reorder = reorder
        self.commit = commit
        self.rerun = rerun
        self._earlier = earlier
        self.begins = begins
        self.started = time.time()
        """Epoch seconds at which this part of the run began."""
        self.clock = RunClock(begins)
        todo = self.todo
        self.progress = Progress(len(plan.entries), now=begins, remaining=todo.total, unknown=todo.unknown)
        self.ledger = Ledger(directory, listener, self.progress, self.clock)
        self._inbox = inbox or signals.Inbox()
        options = prepared.options
        self._workers = [Worker(device.name, (device,)) for device in prepared.devices]
        base = environment.base(options.env)
        self._gates = gateways(self._workers, env=base, cwd=str(options.root), clock=self.clock)
        self._endings = Endings(self._gates, self.ledger, self.clock, options.grace)
        self._effects = Effects(prepared, self._gates, self.ledger, self._endings)
        self._health = HealthChecks(options.health_cmd, self._gates, self.ledger)
        self._clean = Redactor(options.env).text
        self._budget = None if options.budget is None else begins + options.budget
        self._dispatcher: Dispatcher | None = None
        self._ticked = begins

    @property
    def outcomes(self) -> Mapping[Key, Outcome]:
        """Give what this run has brought to its end so far."""
        return self.ledger.outcomes

    @property
    def interrupted(self) -> str:
        """Say why the run was ended before its time, "" when it was not."""
        return self._endings.reason

    @property
    def unfinished(self) -> str:
        """Say why something did not run though nobody stopped the run, "" when everything ran."""
        return self.ledger.unfinished

    def run(self) -> None:
        """Run the plan. The run directory is open; whatever happens, no item process is left behind.

        Raises WorkerError when no worker could be started.
        """
        with self._inbox.hearing():  # to the end of close: an impatient signal must not cut it short
            self._run(self._write_head())
        self.ledger.append({"event": "end", "at": self.clock()})

    def _run(self, earlier: Mapping[Key, Sequence[Outcome]]) -> None:
        gates = self._gates
        try:
            for name in self._inbox.attach(gates.post):
                self._signal(name)
            setups = SuiteSetups(
                gates, self._workers, self._endings, self.clock, hear=self._signal, tick=self._look_around
            )
            refused: frozenset[str] = frozenset()
            if not self._endings.reason:
                gates.start(cancelled=lambda: self._inbox.called)
                refused = set_up(self.prepared, self.todo, setups, self.ledger, budget=self._budget, stop=self._stop)
            self._loop(refused, setups.deferred, earlier)
        finally:
            self._inbox.detach()
            gates.close(0.0, margin=_HASTE if self._inbox.called else _PATIENCE)

    def _write_head(self) -> Mapping[Key, Sequence[Outcome]]:
        """Begin the journal, or its next part. Gives the attempts of earlier parts."""
        prepared, directory = self.prepared, self.ledger.directory
        head: dict[str, Any] = {
            "started": self.started,
            "digest": prepared.digest,
            "commit": self.commit,
            "devices": prepared.devices,
            "suites": prepared.suites,
            "labels": prepared.labels,
        }
        if self._earlier is None:
            place, root = prepared.place, str(prepared.options.root)
            tables = (str(place.read), str(place.write))
            self.ledger.append(
                journal.run_record(**head, scope=prepared.scope, weights=tables, rerun=self.rerun, root=root)
            )
        else:
            self.ledger.append(journal.resume_record(at=self.begins, **head))
        self.ledger.append(journal.plan_record(self.plan, self.predicted, prepared.census))
        for notice in prepared.notices:
            self.ledger.append(journal.notice_record(notice))
        with self.ledger.telling("the plan"):
            write_plan(directory, self.plan, prepared.census)
        if self._earlier is None:
            return {}
        state, _ = directory.state()
        planned = {entry.item.key for entry in self.plan.entries}
        for outcome in state.outcomes:
            if outcome.key in planned:
                self.progress.kept(outcome)
        return state.attempts

    # -- phase 4: run -----------------------------------------------------------------------------

    def _loop(
        self, refused: frozenset[str], deferred: Sequence[GatewayEvent], earlier: Mapping[Key, Sequence[Outcome]]
    ) -> None:
        entries = tuple(entry for entry in self.todo.entries if entry.item.key.suite not in refused)
        options = self.prepared.options
        self._dispatcher = Dispatcher(
            Plan(entries, self.plan.devices),
            reorder=self.reorder,
            retries=options.retries,
            quarantine=options.quarantine,
            budget=options.budget,
            begins=self.begins,
            flaky_fails=options.flaky_fails,
            attempts={key: len(some) for key, some in earlier.items()},
            earlier={key: [one for one in some if one.status in FAILURES] for key, some in earlier.items()},
        )
        if self._endings.reason:
            self._handle(Stop(self._endings.reason, kill=True, at=self.clock()))
        else:
            self._handle(Tick(self.clock()))
        pending = list(deferred)
        while not self._is_over:
            event = pending.pop(0) if pending else self._gates.next_event(TICK)
            self.progress.now = self.clock()
            self._take(event)
            if event is None or self.clock() - self._ticked >= TICK:
                self._ticked = self.clock()
                self._handle(Tick(self._ticked))
                self._look_around()
            if self._endings.killing:
                self._give_up()
            self.ledger.settle()
        self.ledger.settle()

    @property
    def _is_over(self) -> bool:
        """Whether all is said: every item has its outcome, and no device is being examined that matters still."""
        return self._is_done and bool(self._endings.reason or self.ledger.unfinished or not self._health.pending)

    def _take(self, event: GatewayEvent | None) -> None:
        """Take one event of the workers, or of a signal."""
        if isinstance(event, WorkerReady):
            self._handle(Ready(event.worker, self.clock()))
        elif isinstance(event, ItemStarted):
            if self._runs(event.worker, event.run_id):
                self.ledger.started(event)
                attempt = self._effects.attempts[event.run_id]
                self._handle(Started(event.worker, Key.parse(event.run_id), attempt, event.at))
        elif isinstance(event, ItemSlow):
            if self._runs(event.worker, event.run_id):
                self.ledger.slow(event)
        elif isinstance(event, ItemEnded):
            self._ended(event)
        elif isinstance(event, WorkerGone):
            self._gone(event)
        elif isinstance(event, Posted):
            self._signal(str(event.what))

    def _runs(self, worker: Worker, run_id: str) -> Running | None:
        """Give the item that a message is about; None when it is none, or a late one of what was given up."""
        running = self.progress.running.get(worker.id)
        if running is None or running.worker != worker or str(running.entry.item.key) != run_id:
            return None
        return running

    def _ended(self, event: ItemEnded) -> None:
        worker = event.worker
        if self._health.concerns(worker, event.run_id):
            self._examined(worker, self._health.ended(worker, event.ending))
            self._handle(Ready(worker, self.clock()))
            return
        running = self._runs(worker, event.run_id)
        if running is None:
            return
        self._endings.ended(worker)
        outcome = self._judged(running, event.ending)
        self._handle(Finished(worker, outcome, event.at))
        # A device that is quarantined needs no more evidence, and nobody waits for one at the end of a run.
        idle_talk = self._endings.reason or self.ledger.unfinished or worker.id in self._effects.banned
        if self._health.wanted(outcome) and not idle_talk:
            self._health.begin(worker)
        else:
            self._handle(Ready(worker, self.clock()))

    def _judged(self, running: Running, ending: Ending) -> Outcome:
        key = running.entry.item.key
        directory = self.ledger.directory
        paths = directory.junit_files(key)
        return judge(
            key,
            ending,
            junit_read.facts(paths, directory.open_file, self._clean) if paths else JUnitFacts(),
            self.prepared.options.policy,
            opaque=self._effects.opaque(key.suite),
            worker=running.worker.id,
            devices=tuple(device.name for device in running.worker.devices),
            attempt=self._effects.attempts[str(key)],
            estimate=running.entry.estimate,
        )

    def _gone(self, event: WorkerGone) -> None:
        self.ledger.lost(event)
        self._endings.ended(event.worker)
        self._examined(event.worker, self._health.lost(event.worker))
        self._handle(Lost(event.worker, event.reason, event.at))

    def _examined(self, worker: Worker, complaint: str) -> None:
        """Draw the conclusion from what the health command said of a device, "" when it is well."""
        if not complaint:
            return
        self._handle(Unhealthy(worker, complaint, self.clock()))
        others = {one.id for one in self._workers} - self._effects.banned - {worker.id}
        if self._is_done and self.prepared.options.quarantine and worker.id not in self._effects.banned and others:
            # Nothing will run there any more, and the Dispatcher has let all workers go. The report must know.
            names = tuple(device.name for device in worker.devices)
            self._effects.execute(Quarantined(Quarantine(worker.id, names, self.clock(), complaint)))

    @property
    def _is_done(self) -> bool:
        return self._dispatcher is not None and self._dispatcher.done

    def _handle(self, event: Event) -> None:
        assert self._dispatcher is not None
        for command in self._dispatcher.handle(event):
            self._effects.execute(command)
        if self._effects.wish:
            self._stop(self._effects.wish)

    def _look_around(self) -> None:
        """Draw the screen, and show that this process lives."""
        self.ledger.tick()
        self.ledger.settle()

    # -- endings ----------------------------------------------------------------------------------

    def _signal(self, name: str) -> None:
        """Heed a signal: ^Z pauses, the first other one ends the run, a second one takes the grace away."""
        if name == signals.PAUSE.name:
            self._endings.pause()
        elif self._endings.reason:
            self._endings.hurry(name)
        else:
            self._stop(f"stopped by {name}")

    def _stop(self, reason: str) -> None:
        if self._endings.reason:
            return
        self._endings.begin(reason)
        if self._dispatcher is not None:
            self._handle(Stop(reason, kill=True, at=self.clock()))

    def _give_up(self) -> None:
        """Let go of workers that cannot end their item: nothing may hold up the end of a run, or a queue."""
        ending = bool(self._endings.reason or self.ledger.unfinished)
        for running in list(self.progress.running.values()):
            if not self._endings.overdue(running.worker):
                continue
            outcome = self._endings.given_up(running, self._effects.attempts[str(running.entry.item.key)])
            if ending:  # else it is lost when the worker is gone, and waits again
                self._handle(Finished(running.worker, outcome, self.clock()))
