"""Who runs what, and when: events in, commands out. No clock, no I/O; the caller brings both.

Guarantees, in any order of events: every planned item gets exactly one ``Record``; a worker that is free
never waits while an item does; assignments follow the plan, except that waiting *unknown* items are re-ranked
by what this run measures (``waiting``); a worker is respawned at most ``max_respawns`` times; the last worker
is never retired while an item waits. Messages of an older generation of a worker, or of one that was retired
or given up, are ignored.

A caller that breaks the protocol (``Started`` or ``Finished`` for what is not running there, ``Ready`` of a
worker that runs something, a generation from the future) gets a ValueError: that is a mistake in the program,
and nothing has changed. Each event costs O(log n), except those that end everything that waits.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from pytest_sgpu.core import weights
from pytest_sgpu.core.waiting import Waiting
from pytest_sgpu.model import Key, Outcome, Plan, PlanEntry, Status, Worker

MAX_RESPAWNS = 2  # a worker that dies three times will not live the fourth time


@dataclass(frozen=True, slots=True)
class Ready:
    """A worker asks for its next item. ``at``, here and below: seconds since the run began."""

    worker: Worker
    at: float


@dataclass(frozen=True, slots=True)
class Started:
    """The process of an item runs."""

    worker: Worker
    key: Key
    attempt: int
    at: float


@dataclass(frozen=True, slots=True)
class Finished:
    """An item ended and was judged. Its worker is free only when it says ``Ready``."""

    worker: Worker
    outcome: Outcome
    at: float


@dataclass(frozen=True, slots=True)
class Lost:
    """A gateway is gone, or never came up; whatever it ran is lost."""

    worker: Worker
    reason: str
    at: float


@dataclass(frozen=True, slots=True)
class Unhealthy:
    """A worker is to take no more items. What it runs may end."""

    worker: Worker
    reason: str
    at: float


@dataclass(frozen=True, slots=True)
class Stop:
    """No new items. ``kill``: end the running ones too."""

    reason: str
    kill: bool
    at: float


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed. Nothing depends on it yet."""

    at: float


@dataclass(frozen=True, slots=True)
class Assign:
    """Run this item on this worker."""

    worker: Worker
    entry: PlanEntry
    attempt: int


@dataclass(frozen=True, slots=True)
class Kill:
    """End what this worker runs. Its ``Finished`` or ``Lost`` is still to come."""

    worker: Worker
    reason: str


@dataclass(frozen=True, slots=True)
class Respawn:
    """Start this worker anew; it has its next generation already."""

    worker: Worker


@dataclass(frozen=True, slots=True)
class Retire:
    """This worker is not needed any more, or is given up."""

    worker: Worker


@dataclass(frozen=True, slots=True)
class Record:
    """The outcome of an item, its one and final one."""

    outcome: Outcome


Event = Ready | Started | Finished | Lost | Unhealthy | Stop | Tick
Command = Assign | Kill | Respawn | Retire | Record


@dataclass(frozen=True, slots=True)
class Running:
    """An item and the worker that has it. ``since``: when it started or, until that is known, was assigned."""

    worker: Worker
    entry: PlanEntry
    attempt: int
    since: float


class Dispatcher:
    """One run of a plan, as a state machine.

    ``workers`` is how many workers the caller starts, each of which will say ``Ready`` or be ``Lost``; one
    per device of the plan when it is not given. Only when all of them are gone is the rest given up.
    """

    def __init__(
        self, plan: Plan, *, reorder: bool = True, max_respawns: int = MAX_RESPAWNS, workers: int | None = None
    ) -> None:
        self._waiting = Waiting(plan.entries, reorder=reorder)
        self._open = len(plan.entries)
        self._max_respawns = max_respawns
        self._expected = plan.devices if workers is None else workers
        self._generations: dict[str, int] = {}
        self._running: dict[str, Running] = {}
        self._respawns: Counter[str] = Counter()
        self._gone: set[str] = set()
        self._unhealthy: set[str] = set()
        self._killed: set[str] = set()

    @property
    def done(self) -> bool:
        """Whether every item has its ``Record``."""
        return not self._open

    @property
    def waiting(self) -> tuple[PlanEntry, ...]:
        """What waits, in the order of the plan. Costs O(n)."""
        return self._waiting.rest()

    @property
    def waits(self) -> int:
        """How many items wait."""
        return len(self._waiting)

    @property
    def running(self) -> tuple[Running, ...]:
        """What runs, longest assigned first."""
        return tuple(self._running.values())

    def handle(self, event: Event) -> list[Command]:
        """Take an event and give the commands that follow from it, to be executed in their order."""
        if isinstance(event, Stop):
            return self._stop(event)
        if isinstance(event, Tick) or self._is_late(event.worker):
            return []
        return self._of_worker(event)

    def _of_worker(self, event: Ready | Started | Finished | Lost | Unhealthy) -> list[Command]:
        if isinstance(event, Ready):
            return self._ready(event)
        if isinstance(event, Finished):
            return self._finished(event)
        if isinstance(event, Started):
            return self._started(event)
        if isinstance(event, Lost):
            return self._lost(event)
        self._unhealthy.add(event.worker.id)
        return []

    def _is_late(self, worker: Worker) -> bool:
        generation = self._generations.setdefault(worker.id, worker.generation)
        if worker.generation > generation:
            raise ValueError(f"worker {worker.id} says it has generation {worker.generation}, not {generation}")
        return worker.generation < generation or worker.id in self._gone

    def _ready(self, event: Ready) -> list[Command]:
        worker = event.worker
        running = self._running.get(worker.id)
        if running is not None:
            raise ValueError(f"worker {worker.id} asks for an item while it runs {running.entry.item.key}")
        if not self._waiting or self._is_spared(worker):
            self._gone.add(worker.id)
            return [Retire(worker)]
        entry = self._waiting.pop()
        self._running[worker.id] = Running(worker, entry, 1, event.at)
        return [Assign(worker, entry, 1)]

    def _is_spared(self, worker: Worker) -> bool:
        """Whether an unhealthy worker can be done without: there is another that is known to live."""
        return worker.id in self._unhealthy and len(self._generations) - len(self._gone) > 1

    def _started(self, event: Started) -> list[Command]:
        running = self._expect(event.worker, event.key)
        self._running[event.worker.id] = Running(event.worker, running.entry, running.attempt, event.at)
        return []

    def _finished(self, event: Finished) -> list[Command]:
        outcome = event.outcome
        self._expect(event.worker, outcome.key)
        self._free(event.worker)
        if weights.teaches(outcome):
            self._waiting.learn(outcome.key, outcome.seconds)
        return [self._record(outcome)]

    def _expect(self, worker: Worker, key: Key) -> Running:
        running = self._running.get(worker.id)
        if running is None or running.entry.item.key != key:
            what = "nothing" if running is None else str(running.entry.item.key)
            raise ValueError(f"worker {worker.id} tells of {key}, but it runs {what}")
        return running

    def _free(self, worker: Worker) -> Running | None:
        self._killed.discard(worker.id)
        return self._running.pop(worker.id, None)

    def _lost(self, event: Lost) -> list[Command]:
        worker = event.worker
        commands: list[Command] = []
        running = self._free(worker)
        if running is not None:
            commands.append(self._record(_lost_outcome(running, event)))
        if self._waiting and self._respawns[worker.id] < self._max_respawns and not self._is_spared(worker):
            self._respawns[worker.id] += 1
            self._generations[worker.id] = worker.generation + 1
            return [*commands, Respawn(Worker(worker.id, worker.devices, worker.generation + 1))]
        self._gone.add(worker.id)
        commands.append(Retire(worker))
        if max(self._expected, len(self._generations)) == len(self._gone):
            commands += self._give_up(f"no worker is left; the last one, {worker.id}, was lost: {event.reason}")
        return commands

    def _stop(self, event: Stop) -> list[Command]:
        commands = self._give_up(event.reason)
        if event.kill:
            for running in self._running.values():
                if running.worker.id not in self._killed:
                    self._killed.add(running.worker.id)
                    commands.append(Kill(running.worker, event.reason))
        return commands

    def _give_up(self, reason: str) -> list[Command]:
        return [
            self._record(Outcome(entry.item.key, Status.NOT_RUN, reason=reason, estimate=entry.estimate))
            for entry in self._waiting.clear()
        ]

    def _record(self, outcome: Outcome) -> Record:
        self._open -= 1
        return Record(outcome)


def _lost_outcome(running: Running, event: Lost) -> Outcome:
    return Outcome(
        running.entry.item.key,
        Status.LOST,
        start=running.since,
        stop=event.at,
        worker=event.worker.id,
        devices=tuple(device.name for device in event.worker.devices),
        attempt=running.attempt,
        reason=event.reason,
        estimate=running.entry.estimate,
    )
