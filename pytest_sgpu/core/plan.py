"""The order in which items are handed out: longest first, unknown before known (spec: queue, phase 2).

Unknown items may be the longest of all, so none of them may start last. Among themselves:

1. opaque suites, which are a whole suite in one item;
2. items without a guess, those of the file with the longest measured item first (see ``hints``);
3. items with a guess from a twin, longest guess first.

Ties go by listing order. Cold, with nothing measured, that is: opaque suites first, the rest as listed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from pytest_sgpu.core import weights
from pytest_sgpu.core.hints import Hints, Kin, kin
from pytest_sgpu.model import UNKNOWN, Estimate, Item, Key, Plan, PlanEntry, WeightTable

Estimates = Callable[[Key], Estimate] | WeightTable
_Ranked = tuple[tuple[int, float, int], Item, Estimate]

OPAQUE, UNGUESSED, GUESSED, KNOWN = range(4)


def order(items: Sequence[Item], estimates: Estimates, devices: int) -> Plan:
    """Put items in order, longest first. Equal input, in any order, gives an equal plan.

    With a weight table, siblings that are not among the items give guesses too; with a function, only the
    items themselves do. A guess stands in the plan as ``Estimate(seconds, known=False)``. Costs n log n.
    Raises ValueError for less than one device.
    """
    return _plan(sorted(_ranked(items, estimates), key=lambda one: one[0]), devices)


def fixed(items: Sequence[Item], estimates: Estimates, devices: int) -> Plan:
    """Keep the order of the items (``--ff`` or another plugin made it), with the same estimates and guesses.

    Give such a plan to ``Dispatcher(plan, reorder=False)``. Raises ValueError for less than one device.
    """
    return _plan(_ranked(items, estimates), devices)


def _plan(ranked: Iterable[_Ranked], devices: int) -> Plan:
    if devices < 1:
        raise ValueError(f"a plan for {devices} devices")
    return Plan(
        tuple(PlanEntry(rank, item, estimate) for rank, (_, item, estimate) in enumerate(ranked, start=1)), devices
    )


def _ranked(items: Sequence[Item], estimates: Estimates) -> list[_Ranked]:
    if isinstance(estimates, WeightTable):
        table = estimates
        looked_up = [weights.estimate(table, item.key) for item in items]
        hints = Hints(table.entries.items())
    else:
        looked_up = [estimates(item.key) for item in items]
        hints = Hints(
            (item.key, estimate.seconds)
            for item, estimate in zip(items, looked_up, strict=True)
            if estimate.known and estimate.seconds is not None
        )
    return [_rank(item, estimate, hints) for item, estimate in zip(items, looked_up, strict=True)]


def _rank(item: Item, estimate: Estimate, hints: Hints) -> _Ranked:
    if estimate.known:
        return (KNOWN, -(estimate.seconds or 0.0), item.position), item, estimate
    of: Kin | None = kin(item.key)
    if of is None:
        return (OPAQUE, 0.0, item.position), item, UNKNOWN
    guess = hints.guess(of)
    if guess is None:
        return (UNGUESSED, -hints.longest(of), item.position), item, UNKNOWN
    return (GUESSED, -guess, item.position), item, Estimate(guess, known=False)
