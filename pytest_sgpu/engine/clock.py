"""The clock of a run: monotonic, and standing still while the run is paused."""

from __future__ import annotations

import time
from collections.abc import Callable


class RunClock:
    """Gives the seconds since the run began, without its pauses.

    ``offset``: where a resumed run goes on, so that its times never overlap with those of earlier parts.
    May be read in any thread; only the main thread stops it.
    """

    def __init__(self, offset: float = 0.0, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._zero = now() - offset
        self._stopped: float | None = None

    def __call__(self) -> float:
        """Give the seconds since the run began."""
        stopped = self._stopped
        return (self._now() if stopped is None else stopped) - self._zero

    def stop(self) -> None:
        """Stand still."""
        self._stopped = self._now()

    def go_on(self) -> float:
        """Go on from where it stood, and give the seconds that are left out. Does nothing while it goes."""
        if self._stopped is None:
            return 0.0
        paused = self._now() - self._stopped
        self._zero += paused  # before the next line: in no thread may it jump ahead and back
        self._stopped = None
        return paused
