"""The items that wait, in the order of the plan, with the unknown ones re-ranked by what this run measures.

``Waiting`` is the plan; ``Queue`` is all that waits, with the items that wait for a further attempt.

The plan says at which places unknown items stand (first, unless the caller made the order); which of them
takes such a place is decided when it comes up, by the rules of ``hints`` over this run's own measurements.
Known items keep their places. Before the first measurement the order is exactly the plan's.

Nothing is re-sorted when a measurement comes in. All items of a file share its longest time, so a file has
two entries in one heap, for its items without and with a guess; a measurement changes at most these two.
Entries that no longer hold are found out when they come up. Each operation costs O(log n), amortised.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from heapq import heappop, heappush

from pytest_sgpu.core import hints
from pytest_sgpu.core.crew import Crew
from pytest_sgpu.core.lines import Line, Memory
from pytest_sgpu.core.messages import RETRY
from pytest_sgpu.core.plan import GUESSED, OPAQUE, UNGUESSED
from pytest_sgpu.model import Key, PlanEntry

_UNGUESSED, _GUESSED, _TAKEN = range(3)  # what has become of an unknown entry
_Top = tuple[int, float, int, "_File"]  # rank as in ``plan``, minus seconds, place in the plan


class _File:
    """The unknown entries of one file that wait, by their places in the plan."""

    __slots__ = ("first", "guess", "guessed", "longest", "twins", "unguessed")

    def __init__(self, first: int) -> None:
        self.first = first  # OPAQUE or UNGUESSED: how its items without a guess rank
        self.unguessed: deque[int] = deque()
        self.guessed: list[int] = []  # a heap
        self.twins: dict[str, list[int]] = {}  # label: entries that get a guess when one of them is measured
        self.longest = 0.0  # measured in this run
        self.guess = 0.0  # from the table, through the plan

    def top(self, rank: int, state: bytearray) -> _Top | None:
        """Give what stands for the items of this rank in the heap of all files, None when there is none."""
        if rank == GUESSED:
            if not self.guessed:
                return None
            return (rank, -max(self.guess, self.longest), self.guessed[0], self)
        while self.unguessed and state[self.unguessed[0]] != _UNGUESSED:
            self.unguessed.popleft()
        if not self.unguessed:
            return None
        return (rank, -self.longest, self.unguessed[0], self)


class _Unknown:
    """The unknown entries that wait, best first."""

    def __init__(self, entries: Sequence[PlanEntry]) -> None:
        self._state = bytearray(len(entries))
        self._files: dict[hints.File, _File] = {}
        self._kin_of: dict[Key, tuple[_File, str]] = {}  # looked up faster than found out
        self._heap: list[_Top] = []
        opaque = _File(OPAQUE)
        for place, entry in enumerate(entries):
            if not entry.estimate.known:
                self._add(place, entry, opaque)
        for file in (opaque, *self._files.values()):
            self._push(file, file.first)
            self._push(file, GUESSED)

    def _add(self, place: int, entry: PlanEntry, opaque: _File) -> None:
        of = hints.kin(entry.item.key)
        if of is None:
            opaque.unguessed.append(place)
            return
        file = self._files.get(of.file)
        if file is None:
            file = self._files[of.file] = _File(UNGUESSED)
        self._kin_of[entry.item.key] = file, of.label
        if entry.estimate.seconds is None:
            file.unguessed.append(place)
            file.twins.setdefault(of.label, []).append(place)
        else:
            heappush(file.guessed, place)
            file.guess = max(file.guess, entry.estimate.seconds)
            self._state[place] = _GUESSED

    def _push(self, file: _File, rank: int) -> None:
        top = file.top(rank, self._state)
        if top is not None:
            heappush(self._heap, top)

    def pop(self) -> int:
        """Take the place of the best entry. Only called while there is one."""
        while True:
            found = heappop(self._heap)
            rank, _, place, file = found
            holds = file.top(rank, self._state)
            if holds == found:
                break
            if holds is not None:
                heappush(self._heap, holds)
        if rank == GUESSED:
            heappop(file.guessed)
        self._state[place] = _TAKEN
        self._push(file, rank)
        return place

    def learn(self, key: Key, seconds: float) -> None:
        found = self._kin_of.get(key) or self._kin(key)
        if found is None:
            return
        file, label = found
        grown = seconds > file.longest
        if grown:
            file.longest = seconds
            self._push(file, file.first)
        twins = file.twins.pop(label, ())
        for place in twins:
            if self._state[place] == _UNGUESSED:
                self._state[place] = _GUESSED
                heappush(file.guessed, place)
        if grown or twins:
            self._push(file, GUESSED)

    def _kin(self, key: Key) -> tuple[_File, str] | None:
        of = hints.kin(key)
        file = None if of is None else self._files.get(of.file)
        return None if of is None or file is None else (file, of.label)


class Waiting:
    """The entries that wait. ``reorder`` False: exactly the plan's order."""

    def __init__(self, entries: Sequence[PlanEntry], *, reorder: bool) -> None:
        self._entries = entries
        self._taken = bytearray(len(entries))
        self._next = 0
        self._unknown = _Unknown(entries) if reorder else None

    def __len__(self) -> int:
        """Give how many entries wait."""
        return len(self._entries) - self._next

    def pop(self) -> PlanEntry:
        """Take the entry that is to run next. Only called while one waits."""
        place = self._next
        self._next += 1
        if self._unknown is not None and not self._entries[place].estimate.known:
            place = self._unknown.pop()
        self._taken[place] = True
        return self._entries[place]

    def learn(self, key: Key, seconds: float) -> None:
        """Take in the time that an item of this run took."""
        if self._unknown is not None:
            self._unknown.learn(key, seconds)

    def rest(self) -> tuple[PlanEntry, ...]:
        """Give all entries that wait, in the order of the plan. Costs O(n)."""
        return tuple(entry for entry, taken in zip(self._entries, self._taken, strict=True) if not taken)

    def clear(self) -> tuple[PlanEntry, ...]:
        """Take all entries, in the order of the plan."""
        rest = self.rest()
        self._next = len(self._entries)
        self._taken = bytearray(b"\1") * self._next
        return rest


class Queue:
    """All that waits: what is to be tried elsewhere at once, what was cut off, the plan, the retries.

    ``memories`` are of earlier parts of a resumed run, by key.
    """

    def __init__(self, entries: Sequence[PlanEntry], memories: Mapping[Key, Memory], *, reorder: bool) -> None:
        self._plan = Waiting(entries, reorder=reorder)
        self._memories = memories
        self._probes, self._head, self._tail = self._lines = Line(), Line(), Line()
        self._ahead = 0  # how many wait before the plan
        self.learns = reorder and not all(entry.estimate.known for entry in entries)
        self.learn = self._plan.learn

    def __len__(self) -> int:
        """Give how many items wait."""
        return len(self._plan) + sum(map(len, self._lines))

    def add(self, memory: Memory, why: str) -> None:
        """Let an item wait for a further attempt: a retry behind all others, what else there is ahead of them."""
        if why == RETRY:
            self._tail.add(memory)
            return
        self._ahead += 1
        (self._probes if memory.probe else self._head).add(memory)

    def take(self, worker_id: str, crew: Crew) -> tuple[PlanEntry, Memory | None] | None:
        """Take what this worker is to run next, None when nothing that waits fits it."""
        if self._ahead and (
            memory := self._take(self._probes, worker_id, crew) or self._take(self._head, worker_id, crew)
        ):
            self._ahead -= 1
            return memory.entry, memory
        if self._plan:
            entry = self._plan.pop()
            return entry, self._memories.get(entry.item.key) if self._memories else None
        if memory := self._take(self._tail, worker_id, crew):
            return memory.entry, memory
        return None

    def rest(self) -> tuple[PlanEntry, ...]:
        """Give all that waits: probes, what was cut off, the plan in its order, retries. Costs O(n log n)."""
        probes, head, tail = ([memory.entry for memory in line.all()] for line in self._lines)
        return (*probes, *head, *self._plan.rest(), *tail)

    def clear(self) -> list[tuple[PlanEntry, Memory | None]]:
        """Take all that waits, in the order of ``rest``."""
        self._ahead = 0
        probes, head, tail = ([(memory.entry, memory) for memory in line.clear()] for line in self._lines)
        plan = [(entry, self._memories.get(entry.item.key)) for entry in self._plan.clear()]
        return [*probes, *head, *plan, *tail]

    def _take(self, line: Line, worker_id: str, crew: Crew) -> Memory | None:
        return line.take(lambda avoid: crew.fits(worker_id, avoid)) if line else None
