"""Clocks for tests: a virtual one that never waits, and a real one that may run faster."""

from __future__ import annotations

import heapq
import itertools
import time
from collections.abc import Callable
from typing import Protocol

EPOCH = 1_790_000_000.0
# A clock that starts at nought hides the mistake of taking its reading for a duration.
START = 5000.0
_LIMIT = 12 * 86_400.0


class FakeClock(Protocol):
    """What the fake asks of a clock beyond ``ports.Clock``."""

    @property
    def elapsed(self) -> float:
        """Seconds since the clock's start."""
        ...

    def time(self) -> float:
        """Seconds since the epoch."""
        ...

    def advance(self, seconds: float) -> None:
        """Let ``seconds`` pass without anybody having asked to sleep."""
        ...


def _interrupt() -> None:
    raise KeyboardInterrupt


class VirtualClock:
    """A ``ports.Clock`` that moves by ``sleep`` and ``advance`` alone; what is scheduled happens on its way."""

    def __init__(self, epoch: float = EPOCH) -> None:
        self.elapsed = 0.0
        self.offset = 0.0
        self.slept: list[tuple[float, float]] = []
        self._epoch = epoch
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()

    @property
    def sleeps(self) -> list[float]:
        """The seconds of every sleep, in order."""
        return [seconds for _, seconds in self.slept]

    def monotonic(self) -> float:
        """Seconds of a clock that never jumps."""
        return START + self.elapsed

    def time(self) -> float:
        """Seconds since the epoch, wrong by ``offset``."""
        return self._epoch + self.elapsed + self.offset

    def sleep(self, seconds: float) -> None:
        """Note it, then let that time pass."""
        if not seconds >= 0:
            raise ValueError(f"a sleep of {seconds} s")
        self.slept.append((self.elapsed, seconds))
        self.advance(seconds)

    def advance(self, seconds: float) -> None:
        """Let time pass; actions that are due happen at their own moment, in order."""
        until = self.elapsed + seconds
        if until > _LIMIT:
            raise RuntimeError("12 virtual days have passed: this looks like an endless loop")
        while self._due and self._due[0][0] <= until:
            at, _, action = heapq.heappop(self._due)
            self.elapsed = max(self.elapsed, at)
            action()
        # An action may itself let time pass.
        self.elapsed = max(self.elapsed, until)

    def at(self, elapsed: float, action: Callable[[], None]) -> None:
        """Call ``action`` at that time; what it raises comes out of the sleep that is under way."""
        heapq.heappush(self._due, (elapsed, next(self._order), action))

    def interrupt(self, at: float) -> None:
        """Raise KeyboardInterrupt at that time, as a job that is being cancelled does."""
        self.at(at, _interrupt)

    def jump(self, seconds: float, at: float | None = None) -> None:
        """Set the wall clock forward, or back; the monotonic one does not notice."""

        def adjust() -> None:
            self.offset += seconds

        if at is None:
            adjust()
        else:
            self.at(at, adjust)


class RealClock:
    """Real time, ``speed`` times as fast."""

    def __init__(self, speed: float = 1.0) -> None:
        self._speed = speed
        self._epoch = time.time()
        self._begun = time.monotonic()

    @property
    def elapsed(self) -> float:
        """Seconds since the clock's start, after ``speed``."""
        return (time.monotonic() - self._begun) * self._speed

    def time(self) -> float:
        """Seconds since the epoch, after ``speed``."""
        return self._epoch + self.elapsed

    def advance(self, seconds: float) -> None:
        """Wait, ``speed`` times shorter."""
        time.sleep(max(0.0, seconds) / self._speed)
