"""The workers of a run: who there is, who may get an item, who is idle."""

from __future__ import annotations

from collections import Counter

from pytest_sgpu.core.lines import Avoid
from pytest_sgpu.model import Worker


class Crew:
    """All workers, by id. ``expected`` is how many are started: one that is not heard of yet counts as there.

    *usable*: may get items, is not ``out`` (gone, quarantined or held). *left*: not gone or quarantined.
    ``up``: said ``Ready`` in its present generation. ``idle``: said so, and nothing fits it. ``held``: gets
    nothing for the time being; with its worker when it said so, else None.
    """

    def __init__(self, expected: int, max_respawns: int) -> None:
        self._expected = expected
        self._max_respawns = max_respawns
        self._workers: dict[str, Worker] = {}
        self._respawns: Counter[str] = Counter()
        self.up: set[str] = set()
        self._gone: set[str] = set()
        self._barred: set[str] = set()  # gone or quarantined
        self.out: set[str] = set()
        self.held: dict[str, Worker | None] = {}
        self.idle: dict[str, Worker] = {}

    def is_late(self, worker: Worker) -> bool:
        """Whether a message comes from an older generation, or from one that is gone.

        Raises ValueError for a generation from the future.
        """
        current = self._workers.get(worker.id)
        if current is worker:
            return worker.id in self._gone
        if current is None:
            self._workers[worker.id] = worker
            return False
        if worker.generation > current.generation:
            raise ValueError(f"worker {worker.id} says it has generation {worker.generation}, not {current.generation}")
        return worker.generation < current.generation or worker.id in self._gone

    def __getitem__(self, worker_id: str) -> Worker:
        """Give a worker that was heard of, in its present generation."""
        return self._workers[worker_id]

    @property
    def usable(self) -> int:
        """How many may get items, now or when they have started."""
        return max(self._expected, len(self._workers)) - len(self.out)

    @property
    def left(self) -> int:
        """How many are neither gone nor quarantined."""
        return max(self._expected, len(self._workers)) - len(self._barred)

    def is_barred(self, worker_id: str) -> bool:
        """Whether this worker is gone or quarantined."""
        return worker_id in self._barred

    def others(self, worker_id: str) -> int:
        """How many workers are usable beside this one."""
        return self.usable - (worker_id not in self.out)

    def fits(self, worker_id: str, avoid: Avoid) -> bool:
        """Whether a usable worker may get an item that came to grief on these, the latest last.

        It goes to a worker that did not have it, if one is usable; else to any but the latest, if one is.
        """
        if worker_id not in avoid:
            return True
        if self.usable > sum(one not in self.out for one in avoid):
            return False
        return worker_id != avoid[-1] or not self.others(worker_id)

    def can_spare(self, worker_id: str) -> bool:
        """Whether another worker is up and not quarantined: the last one is never given up."""
        return bool(self.up - self._barred - {worker_id})

    def park(self, worker: Worker) -> None:
        """Let a worker wait."""
        if worker.id in self.held:
            self.held[worker.id] = worker
        else:
            self.idle[worker.id] = worker

    def all_parked(self) -> list[Worker]:
        """Give all that wait, those that are held too."""
        return [*self.idle.values(), *(worker for worker in self.held.values() if worker)]

    def lose(self, worker: Worker) -> bool:
        """Take note that a worker was lost. Gives whether it may start anew."""
        self.up.discard(worker.id)
        self.idle.pop(worker.id, None)
        if worker.id in self.held:
            self.held[worker.id] = None
        return self._respawns[worker.id] < self._max_respawns and worker.id not in self._barred

    def prove(self, worker: Worker) -> None:
        """Take note that a worker brought an item to its end: it works, so its deaths before count no more."""
        self._respawns.pop(worker.id, None)

    def respawn(self, worker: Worker) -> Worker:
        """Give the next generation of a worker."""
        self._respawns[worker.id] += 1
        new = self._workers[worker.id] = Worker(worker.id, worker.devices, worker.generation + 1)
        return new

    def leave(self, worker: Worker) -> None:
        """Be done with a worker."""
        self.idle.pop(worker.id, None)
        self.held.pop(worker.id, None)
        self.up.discard(worker.id)
        for group in (self._gone, self._barred, self.out):
            group.add(worker.id)

    def bar(self, worker_id: str) -> None:
        """Put a worker in quarantine: it stays, to end what it runs, and gets nothing more."""
        self.release(worker_id)
        self._barred.add(worker_id)
        self.out.add(worker_id)

    def hold(self, worker_id: str) -> None:
        """Give a worker nothing for the time being."""
        self.held[worker_id] = None
        self.out.add(worker_id)

    def release(self, worker_id: str) -> None:
        """Let a worker have items again, if it was held."""
        worker = self.held.pop(worker_id, None)
        if worker is not None:
            self.idle[worker_id] = worker
        self.out.discard(worker_id)
