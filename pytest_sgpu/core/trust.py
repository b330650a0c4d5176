"""How far a device is trusted, from what items did on it and elsewhere; holds and quarantines.

Two ways to tell a bad device from bad items. *Evidence*: two different items failed there and passed
elsewhere. *A streak*: a bad device that fails fast would eat the queue before there is such evidence, so
three failures in a row, each in far less time than is known of the item, while others do better, are reason
enough to hold it and to try the last of these items elsewhere at once: the probe. Others do better when
something has passed since, or when one of them, without such failures, has been at its item for longer than
the failures took: the queue begins with its longest items, and would be eaten before the first one passes. A
device that a probe has cleared is held again only for the first of these reasons.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from pytest_sgpu.core.crew import Crew
from pytest_sgpu.core.evidence import Suspicion, place, suspects
from pytest_sgpu.core.lines import Memory
from pytest_sgpu.core.messages import Command, Held, Quarantined, Released
from pytest_sgpu.model import Key, Outcome, Quarantine, Worker

ENOUGH = 2  # different items that failed there and passed elsewhere
STREAK = 3  # failures in a row
FAR_LESS = 0.25  # of the estimate


class Runs(Protocol):
    """What is asked of something that runs: where, and since when."""

    @property
    def worker(self) -> Worker:
        """Give the worker that has it."""

    @property
    def since(self) -> float:
        """Give when it started, or was handed out."""


class Streak:
    """Fast failures in a row: how many, the seconds they took, and how many passes there were before them."""

    __slots__ = ("count", "passes", "seconds")

    def __init__(self, passes: int) -> None:
        self.count = 0
        self.seconds = 0.0
        self.passes = passes


class Trust:
    """What is known for and against each worker's device, and what follows from it. ``active`` False: nothing.

    ``running`` is what each worker runs now, by its id; the dispatcher changes it. What holds and
    quarantines change, they change in the crew. Each call costs O(1), except that a quarantine asks who else
    is up, and a third failure in a row what the others run.
    """

    def __init__(self, crew: Crew, running: Mapping[str, Runs], *, active: bool) -> None:
        self._crew = crew
        self._running = running
        self._active = active
        self._passes = 0
        self._streaks: dict[str, Streak] = {}
        self._cleared: set[str] = set()  # a probe from there failed elsewhere too
        self._suspicions: dict[str, dict[Key, Suspicion]] = {}
        self._due: dict[str, str] = {}  # to be quarantined as soon as another worker is there, and why

    def passed(self, worker_id: str) -> None:
        """Take note that an item passed."""
        self._passes += 1
        if self._streaks:
            self._streaks.pop(worker_id, None)

    def proves(self, memory: Memory, outcome: Outcome, at: float) -> list[Command]:
        """Draw the conclusions from an item that passed after other attempts."""
        commands: list[Command] = []
        if memory.probe and memory.probe != outcome.worker:
            reason = f"{STREAK} items in a row failed there in far less than their time; the last of them,"
            reason += f" {outcome.key}, passed on {place(outcome)}"
            commands += self.bar(memory.probe, at, reason)
        for suspicion in suspects({outcome.key: memory.failures}, [outcome]):
            against = self._suspicions.setdefault(suspicion.worker, {})
            against[suspicion.key] = suspicion
            if len(against) >= ENOUGH:
                items = ", ".join(f"{one.key} (on {one.passed_on})" for one in against.values())
                reason = f"{len(against)} items failed there and passed elsewhere: {items}"
                commands += self.bar(suspicion.worker, at, reason)
        return commands

    def doubts(self, memory: Memory, outcome: Outcome) -> bool:
        """Take note of an item's failure, before the item remembers it. Gives whether its device is to be held.

        A failure that took its time ends a streak. One of an item whose time is not known neither counts
        nor ends it, nor does one of an item that failed elsewhere too: that is the item's own.
        """
        worker_id, estimate = outcome.worker, memory.entry.estimate
        if not self._active or estimate.seconds is None or not estimate.known:
            return False
        if any(failure.worker != worker_id for failure in memory.failures):
            return False
        if outcome.seconds >= FAR_LESS * estimate.seconds:
            self._streaks.pop(worker_id, None)
            return False
        streak = self._streaks.setdefault(worker_id, Streak(self._passes))
        streak.count += 1
        streak.seconds += outcome.seconds
        return streak.count >= STREAK and self._crew.others(worker_id) > 0 and self._others_do_better(outcome, streak)

    def _others_do_better(self, outcome: Outcome, streak: Streak) -> bool:
        if self._passes > streak.passes:
            return True
        if outcome.worker in self._cleared or outcome.stop is None:
            return False
        began = outcome.stop - streak.seconds
        return any(
            one.since <= began and name not in self._streaks and name not in self._crew.out
            for name, one in self._running.items()
        )

    def hold(self, memory: Memory) -> list[Command]:
        """Give a worker nothing until its probe has ended elsewhere."""
        self._crew.hold(memory.probe)
        key = memory.entry.item.key
        reason = f"{STREAK} items in a row failed in far less than their time; {key} is tried elsewhere"
        return [Held(self._crew[memory.probe], reason)]

    def release(self, worker_id: str, reason: str) -> list[Command]:
        """Let a worker have items again, and begin anew with it. Nothing when it is not held."""
        if worker_id not in self._crew.held:
            return []
        self._crew.release(worker_id)
        self._streaks.pop(worker_id, None)
        self._cleared.add(worker_id)
        return [Released(self._crew[worker_id], reason)]

    def release_the_last(self) -> list[Command]:
        """Let all that are held have items again when nobody else may."""
        if self._crew.usable:
            return []
        return [command for one in tuple(self._crew.held) for command in self.release(one, "no other device is left")]

    def bar(self, worker_id: str, at: float, reason: str) -> list[Command]:
        """Quarantine the devices of a worker; while no other one is up, that has to wait."""
        if not self._active or self._crew.is_barred(worker_id):
            return []
        if not self._crew.can_spare(worker_id):
            self._due.setdefault(worker_id, reason)
            return []
        self._due.pop(worker_id, None)
        self._crew.bar(worker_id)
        names = tuple(device.name for device in self._crew[worker_id].devices)
        return [Quarantined(Quarantine(worker_id, names, at, reason))]

    def overdue(self, at: float) -> list[Command]:
        """Carry out the quarantines that waited for another worker, now that one came up."""
        return [command for one, reason in tuple(self._due.items()) for command in self.bar(one, at, reason)]
