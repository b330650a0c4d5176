"""A run of a plan under a virtual clock, by the very Dispatcher that runs the real ones.

Draws the predicted wall time, the what-if at another number of devices, and the packing figures.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import NamedTuple

from pytest_sgpu.core.dispatch import Assign, Dispatcher, Finished, Ready
from pytest_sgpu.model import JUnitFacts, Key, Outcome, Plan, Status, Worker

_NO_JUNIT = JUnitFacts()  # one for all: making them costs more than the rest of a simulated item


class Span(NamedTuple):
    """One item on one device (counted from 0). Seconds since the run began."""

    key: Key
    device: int
    start: float
    stop: float


@dataclass(frozen=True, slots=True)
class Simulation:
    """What happened. ``lanes`` in the order in which items started, ``busy`` in device-seconds."""

    wall: float
    busy: float
    lanes: tuple[Span, ...]
    utilisation: float


def simulate(
    plan: Plan,
    durations: Mapping[Key, float] | Callable[[Key], float],
    devices: int,
    *,
    overhead: float = 0.0,
    reorder: bool = True,
    default: float = 0.0,
) -> Simulation:
    """Run a plan on so many devices, whatever the plan says itself. Nothing fails, every item teaches.

    ``overhead`` seconds pass between a device's asking for an item and the item's start. ``default`` is
    the duration of items that a mapping does not hold. Equal input gives an equal result. Raises
    ValueError for less than one device.
    """
    if devices < 1:
        raise ValueError(f"a simulation on {devices} devices")
    seconds = durations if callable(durations) else lambda key: durations.get(key, default)
    dispatcher = Dispatcher(plan, reorder=reorder, workers=devices)
    workers = [Worker(str(index), ()) for index in range(devices)]
    ends: list[tuple[float, int, Outcome]] = []
    lanes: list[Span] = []

    def ask(device: int, at: float) -> None:
        for command in dispatcher.handle(Ready(workers[device], at)):
            if isinstance(command, Assign):
                key = command.entry.item.key
                start, stop = at + overhead, at + overhead + seconds(key)
                lanes.append(Span(key, device, start, stop))
                outcome = Outcome(
                    key, Status.PASSED, 0, start, stop, str(device), complete=True, proof="ran", junit=_NO_JUNIT
                )
                heappush(ends, (stop, device, outcome))

    for device in range(devices):
        ask(device, 0.0)
    wall = 0.0
    while ends:
        wall, device, outcome = heappop(ends)
        dispatcher.handle(Finished(workers[device], outcome, wall))
        ask(device, wall)
    busy = sum(span.stop - span.start for span in lanes)
    return Simulation(wall, busy, tuple(lanes), busy / (wall * devices) if wall else 0.0)


def predict(plan: Plan) -> float:
    """Give the wall time in seconds if every item takes its estimate.

    An unknown item counts with its guess, and with 0 s when it has none: what nobody knows is counted
    apart (``plan.unknown``), never as seconds.
    """
    seconds = {entry.item.key: entry.estimate.seconds or 0.0 for entry in plan.entries}
    return simulate(plan, seconds, plan.devices, reorder=False).wall
