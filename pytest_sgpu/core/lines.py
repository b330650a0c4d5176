"""Items that wait for a further attempt, and what is remembered of the attempts before.

Few items have a memory; those that ran once and passed never get one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import heappop, heappush

from pytest_sgpu.model import Key, Outcome, PlanEntry

Avoid = tuple[str, ...]  # ids of workers, the latest last


class Memory:
    """What is known of one item.

    ``tried``: attempts so far, in all parts of a resumed run. ``failures``: those that failed. ``avoid``: the
    workers on which it failed or was lost. ``lost``: it was lost once, and that is the end of its
    patience. ``stands``: what is recorded when there is no further attempt; None: it did not run.
    ``probe``: the worker that is held until this item has ended elsewhere, "" for none.
    """

    __slots__ = ("avoid", "entry", "failures", "lost", "probe", "stands", "tried")

    def __init__(self, entry: PlanEntry, tried: int = 0, failures: Sequence[Outcome] = ()) -> None:
        self.entry = entry
        self.tried = tried
        self.failures = list(failures)
        self.avoid: Avoid = ()
        self.lost = False
        self.stands: Outcome | None = None
        self.probe = ""
        for failure in failures:
            self._shun(failure.worker)

    def failed(self, outcome: Outcome) -> None:
        """Remember a failure."""
        self.failures.append(outcome)
        self.stands = outcome
        self._shun(outcome.worker)

    def was_lost(self, outcome: Outcome) -> None:
        """Remember a loss."""
        self.lost = True
        self.stands = outcome
        self._shun(outcome.worker)

    def _shun(self, worker_id: str) -> None:
        self.avoid = (*(one for one in self.avoid if one != worker_id), worker_id)


def remember(
    entries: Iterable[PlanEntry], attempts: Mapping[Key, int], failures: Mapping[Key, Sequence[Outcome]]
) -> dict[Key, Memory]:
    """Give the memories of items that had attempts in earlier parts of a resumed run."""
    if not attempts and not failures:
        return {}
    return {
        key: Memory(entry, attempts.get(key, 0), failures.get(key, ()))
        for entry in entries
        if (key := entry.item.key) in attempts or key in failures
    }


class Line:
    """First come, first served, except that an item waits until a worker comes that fits it.

    Items that avoid the same workers wait in one group, and whoever comes looks at the first of each group
    at most: O(log n) for an item, and for a retry that avoids one worker there is one group to skip.
    """

    def __init__(self) -> None:
        self._groups: dict[Avoid, deque[tuple[int, Memory]]] = {}
        self._heap: list[tuple[int, Avoid]] = []  # the number of the first of each group
        self._count = 0
        self._number = 0

    def __len__(self) -> int:
        """Give how many items wait."""
        return self._count

    def add(self, memory: Memory) -> None:
        """Let an item wait, behind all others."""
        group = self._groups.get(memory.avoid)
        if group is None:
            group = self._groups[memory.avoid] = deque()
            heappush(self._heap, (self._number, memory.avoid))
        group.append((self._number, memory))
        self._number += 1
        self._count += 1

    def take(self, fits: Callable[[Avoid], bool]) -> Memory | None:
        """Take the first item that fits, None when there is none."""
        skipped = []
        found = None
        while self._heap and found is None:
            number, avoid = heappop(self._heap)
            if fits(avoid):
                found = self._pop(avoid)
            else:
                skipped.append((number, avoid))
        for top in skipped:
            heappush(self._heap, top)
        return found

    def _pop(self, avoid: Avoid) -> Memory:
        group = self._groups[avoid]
        _, memory = group.popleft()
        if group:
            heappush(self._heap, (group[0][0], avoid))
        else:
            del self._groups[avoid]
        self._count -= 1
        return memory

    def all(self) -> tuple[Memory, ...]:
        """Give all that wait, in their order."""
        return tuple(memory for _, memory in sorted(one for group in self._groups.values() for one in group))

    def clear(self) -> tuple[Memory, ...]:
        """Take all that wait, in their order."""
        found = self.all()
        self._groups.clear()
        self._heap.clear()
        self._count = 0
        return found
