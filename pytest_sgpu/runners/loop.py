"""The loop: carries out what machines ask for, several of them side by side in one thread.

A machine that waits costs nothing, so many workers share one thread, one token and one clock; what one machine does
while another waits is at most a few requests.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from pytest_sgpu.runners.github import Client
from pytest_sgpu.runners.machine.actions import Action, Note, Observation, Save
from pytest_sgpu.runners.ports import Clock

if TYPE_CHECKING:
    from pytest_sgpu.runners.acquire import Acquisition

T = TypeVar("T")
Remark = Callable[[Note | Save], None]
Waiting = Generator[float, None, T]


def drive(machine: Acquisition, client: Client, clock: Clock, remark: Remark) -> Waiting[None]:
    """Run a machine to its end; yields the monotonic times until which it waits."""
    actions = machine.start(clock.monotonic())
    while machine.end is None:
        seen: Observation | None = None
        for action in actions:
            if isinstance(action, Note | Save):
                remark(action)
            else:
                seen = yield from client.perform(action)
        assert seen is not None
        actions = machine.handle(seen)
    for action in actions:
        assert isinstance(action, Note | Save)
        remark(action)


def follow(steps: Generator[Action, Observation, T], client: Client, remark: Remark) -> Waiting[T]:
    """Run a plain sequence of actions to its end and give what it returns; yields times like ``drive``."""
    try:
        action = next(steps)
        while True:
            if isinstance(action, Note | Save):
                remark(action)
                action = next(steps)
            else:
                action = steps.send((yield from client.perform(action)))
    except StopIteration as stop:
        end: T = stop.value
        return end


def alone(waiting: Waiting[T], clock: Clock) -> T:
    """Run one generator of times to its end and give what it returns."""
    try:
        while True:
            _sleep_until(next(waiting), clock)
    except StopIteration as stop:
        end: T = stop.value
        return end


def together(workers: Sequence[Waiting[None]], most: int, clock: Clock, may_begin: Callable[[], bool]) -> None:
    """Run all, at most ``most`` at once, in their order; no further one begins once ``may_begin`` says no."""
    coming: Iterator[Waiting[None]] = iter(workers)
    running: list[tuple[float, int, Waiting[None]]] = []
    number = 0
    while True:
        while len(running) < most and may_begin() and (worker := next(coming, None)) is not None:
            number += 1
            running.append((clock.monotonic(), number, worker))
        if not running:
            return
        running.sort(key=lambda one: one[:2])
        until, mine, worker = running.pop(0)
        _sleep_until(until, clock)
        try:
            running.append((next(worker), mine, worker))
        except StopIteration:
            continue


def _sleep_until(until: float, clock: Clock) -> None:
    left = until - clock.monotonic()
    if left > 0:
        clock.sleep(left)
