"""What becomes of an item when an attempt at it has ended: its record, or another place in the queue."""

from __future__ import annotations

from typing import NamedTuple

from pytest_sgpu.core.evidence import FAILURES, flaky, place
from pytest_sgpu.core.lines import Memory
from pytest_sgpu.core.messages import LOST, PROBE, QUARANTINE, RETRY, Command, Lost, Record, Requeue
from pytest_sgpu.core.trust import Trust
from pytest_sgpu.core.waiting import Queue
from pytest_sgpu.model import Outcome, PlanEntry, Status, Worker


class Running(NamedTuple):
    """An item and the worker that has it. ``since``: when it started or, until that is known, was assigned.

    ``memory`` is what is known of its attempts before, None when this is the first.
    """

    worker: Worker
    entry: PlanEntry
    attempt: int
    since: float
    memory: Memory | None

    def remembered(self) -> Memory:
        """Give the memory, a new one for a first attempt."""
        return self.memory or Memory(self.entry, self.attempt)

    def lost(self, event: Lost) -> Outcome:
        """Give the outcome of an attempt whose worker is gone."""
        return Outcome(
            self.entry.item.key,
            Status.LOST,
            start=self.since,
            stop=event.at,
            worker=self.worker.id,
            devices=tuple(device.name for device in self.worker.devices),
            attempt=self.attempt,
            reason=event.reason,
            estimate=self.entry.estimate,
        )


class Attempts:
    """The rules of further attempts.

    A failed item is tried at most ``retries`` times more, at the end of the queue; as a probe, at its head,
    it is tried once even without retries. A lost one is tried once more, at the head. One whose device was
    quarantined under it is tried again, at the head. ``open`` counts the items without a record.
    """

    def __init__(self, queue: Queue, trust: Trust, *, retries: int, flaky_fails: bool) -> None:
        self._queue = queue
        self._trust = trust
        self._retries = retries
        self._flaky_fails = flaky_fails
        self.open = len(queue)

    def record(self, outcome: Outcome) -> Record:
        """Count an item as done."""
        self.open -= 1
        return Record(outcome)

    def passed(self, memory: Memory, outcome: Outcome, at: float) -> list[Command]:
        """End an item that passed after other attempts. After a failure it is FLAKY, after a loss it is not."""
        if memory.failures:
            outcome = flaky(memory.failures, outcome, fails=self._flaky_fails)
        commands = self._trust.proves(memory, outcome, at)
        return commands + self._end(memory, outcome, f"{outcome.key} passed on {place(outcome)}")

    def failed(self, memory: Memory, outcome: Outcome) -> list[Command]:
        """Try an item again that came to any end but a pass, or end it."""
        if outcome.status not in FAILURES:
            return self._end(memory, outcome, f"{outcome.key} came to no end elsewhere")
        doubtful = self._trust.doubts(memory, outcome)
        memory.failed(outcome)
        if doubtful:
            memory.probe = outcome.worker
            return self._again(memory, outcome, PROBE) + self._trust.hold(memory)
        reason = f"{outcome.key} failed on {place(outcome)} too"
        if len(memory.failures) > self._retries:
            return self._end(memory, outcome, reason)
        return self._release(memory, reason) + self._again(memory, outcome, RETRY)

    def lost(self, memory: Memory, outcome: Outcome) -> list[Command]:
        """Try an item again whose worker died, or end it when that happened before."""
        if memory.lost:
            return self._end(memory, outcome, f"{outcome.key} was lost elsewhere")
        memory.was_lost(outcome)
        return self._again(memory, outcome, LOST)

    def displaced(self, memory: Memory, outcome: Outcome) -> list[Command]:
        """Try an item again that was ended only because its device is quarantined."""
        return self._again(memory, outcome, QUARANTINE)

    def cut(self, entry: PlanEntry, memory: Memory | None, reason: str) -> list[Command]:
        """End an item that waits: with what it came to before, or as not run."""
        if memory is None:
            return [self.record(Outcome(entry.item.key, Status.NOT_RUN, reason=reason, estimate=entry.estimate))]
        outcome = memory.stands or Outcome(
            entry.item.key, Status.NOT_RUN, attempt=memory.tried + 1, reason=reason, estimate=entry.estimate
        )
        return self._end(memory, outcome, f"{outcome.key} is not tried elsewhere: {reason}")

    def _again(self, memory: Memory, outcome: Outcome, why: str) -> list[Command]:
        self._queue.add(memory, why)
        return [Requeue(outcome, why)]

    def _end(self, memory: Memory, outcome: Outcome, reason: str) -> list[Command]:
        return [*self._release(memory, reason), self.record(outcome)]

    def _release(self, memory: Memory, reason: str) -> list[Command]:
        probe, memory.probe = memory.probe, ""
        return self._trust.release(probe, reason) if probe else []
