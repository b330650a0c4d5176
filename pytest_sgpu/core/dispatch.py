"""Who runs what, and when: events in, commands out. No clock, no I/O; the caller brings both.

Guarantees, in any order of events:

- Every planned item gets exactly one ``Record``. Attempts before the final one are told by ``Requeue``.
- A worker that is free never waits while an item that fits it does. With nothing that fits it, it is parked
  until every item has its outcome: a lost or failed one may still need it.
- The plan's order, except that waiting *unknown* items are re-ranked by what this run measures (``waiting``),
  that what was cut off by no fault of its own goes first, and that retries go last.
- A further attempt goes to another device while there is one. An item is retried at most ``retries`` times
  after a failure, tried once more after a loss, and again whenever its device was quarantined under it.
- A worker is respawned at most ``max_respawns`` times in a row, with no item that it ended in between. The last
  usable device is never quarantined or held.
- Nothing is handed out after a ``Stop``, or from the end of the budget on.

Messages of an older generation of a worker, or of one that was retired or given up, are ignored. A caller that
breaks the protocol (``Started`` or ``Finished`` for what is not running there, ``Ready`` of a worker that runs
something, a generation from the future) gets a ValueError, and nothing has changed. In every list of commands the
Records come last, so a caller that is led to a ``Stop`` by one of them has carried out the rest. Each event costs
O(log n), except those that end everything that waits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from pytest_sgpu.core import weights
from pytest_sgpu.core.attempts import Attempts, Running
from pytest_sgpu.core.crew import Crew
from pytest_sgpu.core.lines import Memory, remember
from pytest_sgpu.core.messages import (
    Assign,
    Command,
    Event,
    Finished,
    Held,
    Incomplete,
    Kill,
    Lost,
    Quarantined,
    Ready,
    Record,
    Released,
    Requeue,
    Respawn,
    Retire,
    Started,
    Stop,
    Tick,
    Unhealthy,
    is_calm,
    is_record,
)
from pytest_sgpu.core.text import duration
from pytest_sgpu.core.trust import Trust
from pytest_sgpu.core.waiting import Queue
from pytest_sgpu.model import Key, Outcome, Plan, PlanEntry, Status, Worker

__all__ = [
    "Assign",
    "Command",
    "Dispatcher",
    "Event",
    "Finished",
    "Held",
    "Incomplete",
    "Kill",
    "Lost",
    "Quarantined",
    "Ready",
    "Record",
    "Released",
    "Requeue",
    "Respawn",
    "Retire",
    "Running",
    "Started",
    "Stop",
    "Tick",
    "Unhealthy",
]

MAX_RESPAWNS = 2  # a worker that dies three times in a row will not live the fourth time


class Dispatcher:
    """One run of a plan, as a state machine.

    ``workers`` is how many workers the caller starts, each of which will say ``Ready`` or be ``Lost``; one
    per device of the plan when it is not given. ``budget``: seconds that the run may take from ``begins`` on, which
    is where it begins on its clock. ``attempts``: how many each item has had in earlier parts of a resumed run.
    ``earlier``: those of them that failed, so that a pass is seen to be FLAKY, and a retry as one.
    """

    def __init__(
        self,
        plan: Plan,
        *,
        reorder: bool = True,
        max_respawns: int = MAX_RESPAWNS,
        workers: int | None = None,
        retries: int = 0,
        quarantine: bool = True,
        budget: float | None = None,
        begins: float = 0.0,
        flaky_fails: bool = False,
        attempts: Mapping[Key, int] = MappingProxyType({}),
        earlier: Mapping[Key, Sequence[Outcome]] = MappingProxyType({}),
    ) -> None:
        self._crew = Crew(plan.devices if workers is None else workers, max_respawns)
        self._queue = Queue(plan.entries, remember(plan.entries, attempts, earlier), reorder=reorder)
        self._running: dict[str, Running] = {}
        self._trust = Trust(self._crew, self._running, active=quarantine)
        self._attempts = Attempts(self._queue, self._trust, retries=retries, flaky_fails=flaky_fails)
        self._limited = budget is not None
        self._budget = math.inf if budget is None else budget
        self._deadline = self._over = begins + self._budget  # the first is forgotten when it has passed
        self._killed: set[str] = set()  # workers whose items are being ended
        self._closed = False  # nothing is handed out any more
        self._stopped = False
        self._told = False  # Incomplete was given

    @property
    def done(self) -> bool:
        """Whether every item has its ``Record``."""
        return not self._attempts.open

    @property
    def waiting(self) -> tuple[PlanEntry, ...]:
        """What waits, in the order in which it would be handed out. Costs O(n log n)."""
        return self._queue.rest()

    @property
    def waits(self) -> int:
        """How many items wait."""
        return len(self._queue)

    @property
    def running(self) -> tuple[Running, ...]:
        """What runs, longest assigned first."""
        return tuple(self._running.values())

    def handle(self, event: Event) -> list[Command]:
        """Take an event and give the commands that follow from it, to be executed in their order."""
        commands = self._take(event) if event.at < self._deadline else self._spend(event)
        if self._crew.idle or self._crew.held:
            if not self._closed:
                self._feed(event.at, commands)
            if self._closed or not self._attempts.open:
                commands += [self._retire(worker) for worker in self._crew.all_parked()]
        if len(commands) > 1:
            commands.sort(key=is_record)
        return commands

    def _take(self, event: Event) -> list[Command]:
        if isinstance(event, Stop):
            return self._stop(event)
        if isinstance(event, Tick) or self._crew.is_late(event.worker):
            return []
        if isinstance(event, Ready):
            return self._ready(event)
        return self._finished(event) if isinstance(event, Finished) else self._heard(event)

    def _heard(self, event: Started | Lost | Unhealthy) -> list[Command]:
        if isinstance(event, Started):
            return self._started(event)
        if isinstance(event, Lost):
            return self._lost(event)
        return self._ended(self._trust.bar(event.worker.id, event.at, event.reason))

    # -- handing out ------------------------------------------------------------------------------

    def _ready(self, event: Ready) -> list[Command]:
        worker = event.worker
        if worker.id in self._running:
            key = self._running[worker.id].entry.item.key
            raise ValueError(f"worker {worker.id} asks for an item while it runs {key}")
        commands: list[Command] = []
        if worker.id not in self._crew.up:
            self._crew.up.add(worker.id)
            commands += self._ended(self._trust.overdue(event.at))
        if self._closed or not self._attempts.open:
            commands.append(self._retire(worker))
        elif worker.id not in self._crew.out:
            self._hand_out(worker, event.at, commands)
        elif self._crew.is_barred(worker.id):
            commands.append(self._retire(worker))
        else:
            self._crew.park(worker)
        return commands

    def _hand_out(self, worker: Worker, at: float, commands: list[Command]) -> None:
        """Give a usable worker its next item, or park it."""
        while found := self._queue.take(worker.id, self._crew):
            entry, memory = found
            if self._limited and entry.estimate.known and at + (entry.estimate.seconds or 0.0) > self._over:
                commands += self._unaffordable(entry, memory, at)
                continue
            attempt = 1
            if memory is not None:
                attempt = memory.tried = memory.tried + 1
            self._running[worker.id] = Running(worker, entry, attempt, at, memory)
            if self._crew.idle:
                self._crew.idle.pop(worker.id, None)
            commands.append(Assign(worker, entry, attempt))
            return
        self._crew.park(worker)

    def _unaffordable(self, entry: PlanEntry, memory: Memory | None, at: float) -> list[Command]:
        seconds, left = duration(entry.estimate.seconds or 0.0), duration(self._over - at)
        reason = f"not started: it takes about {seconds}, and {left} of the budget are left"
        told = self._incomplete(f"not every item fits into the budget of {duration(self._budget)}")
        return told + self._attempts.cut(entry, memory, reason)

    def _feed(self, at: float, commands: list[Command]) -> None:
        """Give idle workers what fits them now. While anything waits, few are idle: the ones that it avoids."""
        seen = 0
        while not all(map(is_calm, commands[seen:])):
            seen = len(commands)
            commands += self._trust.release_the_last()
            for worker in tuple(self._crew.idle.values()):
                if not self._queue:
                    break
                self._hand_out(worker, at, commands)

    def _retire(self, worker: Worker) -> Retire:
        self._crew.leave(worker)
        return Retire(worker)

    # -- ends of attempts -------------------------------------------------------------------------

    def _started(self, event: Started) -> list[Command]:
        running = self._expect(event.worker, event.key)
        self._running[event.worker.id] = running._replace(since=event.at)
        return []

    def _expect(self, worker: Worker, key: Key) -> Running:
        running = self._running.get(worker.id)
        if running is None or (running.entry.item.key is not key and running.entry.item.key != key):
            what = "nothing" if running is None else str(running.entry.item.key)
            raise ValueError(f"worker {worker.id} tells of {key}, but it runs {what}")
        return running

    def _finished(self, event: Finished) -> list[Command]:
        outcome = event.outcome
        running = self._expect(event.worker, outcome.key)
        if outcome.worker != event.worker.id:
            raise ValueError(f"worker {event.worker.id} tells of {outcome.key} on {outcome.worker or 'no worker'}")
        del self._running[event.worker.id]
        self._crew.prove(event.worker)
        killed = event.worker.id in self._killed
        self._killed.discard(event.worker.id)
        if self._queue.learns and weights.teaches(outcome):
            self._queue.learn(outcome.key, outcome.seconds)
        if outcome.status is Status.PASSED:
            self._trust.passed(event.worker.id)
            if running.memory is None:
                return [self._attempts.record(outcome)]
            return self._ended(self._attempts.passed(running.memory, outcome, event.at))
        if self._closed:
            return [self._attempts.record(outcome)]
        then = self._attempts.displaced if killed else self._attempts.failed
        return then(running.remembered(), outcome)

    def _lost(self, event: Lost) -> list[Command]:
        worker = event.worker
        respawns = self._crew.lose(worker) and not self._closed
        running = self._running.pop(worker.id, None)
        killed = worker.id in self._killed
        self._killed.discard(worker.id)
        commands: list[Command] = []
        if running is not None:
            outcome = running.lost(event)
            then = self._attempts.displaced if killed else self._attempts.lost
            commands = [self._attempts.record(outcome)] if self._closed else then(running.remembered(), outcome)
        if respawns and self._attempts.open:
            return [*commands, Respawn(self._crew.respawn(worker))]
        commands.append(self._retire(worker))
        if not self._crew.left and self._attempts.open and not self._closed:
            reason = f"no worker is left; the last one, {worker.id}, was lost: {event.reason}"
            told = [one for one in commands if not isinstance(one, Requeue)]  # it is not tried again
            commands = told + self._incomplete(reason) + self._close(reason)
        return commands

    def _ended(self, commands: list[Command]) -> list[Command]:
        """Add to quarantines what they mean for the workers: the idle ones leave, what the others run is ended."""
        for quarantine in [command.quarantine for command in commands if isinstance(command, Quarantined)]:
            worker = self._crew[quarantine.worker]
            if worker.id in self._crew.idle:
                commands.append(self._retire(worker))
            elif worker.id in self._running and not self._closed:
                self._killed.add(worker.id)
                commands.append(Kill(worker, f"{worker.place or worker.id} is quarantined: {quarantine.reason}"))
        return commands

    # -- ends of the run --------------------------------------------------------------------------

    def _stop(self, event: Stop) -> list[Command]:
        self._stopped = True
        return self._close(event.reason) + (self._kill(event.reason) if event.kill else [])

    def _spend(self, event: Event) -> list[Command]:
        """End the run: its time is up. Nothing is handed out, but what the event itself ended has ended."""
        self._deadline = math.inf
        reason = f"the budget of {duration(self._budget)} is spent"
        commands = self._close(reason)
        cut = bool(commands)
        commands += self._take(event)
        if (cut or self._running) and not self._stopped:
            commands += self._incomplete(reason)
        return commands + self._kill(reason)

    def _close(self, reason: str) -> list[Command]:
        self._closed = True
        for worker_id in tuple(self._crew.held):
            self._crew.release(worker_id)  # there is nothing left to keep from it
        return [one for entry, memory in self._queue.clear() for one in self._attempts.cut(entry, memory, reason)]

    def _kill(self, reason: str) -> list[Command]:
        found = [running.worker for running in self._running.values() if running.worker.id not in self._killed]
        self._killed.update(worker.id for worker in found)
        return [Kill(worker, reason) for worker in found]

    def _incomplete(self, reason: str) -> list[Command]:
        told, self._told = self._told, True
        return [] if told else [Incomplete(reason)]
