"""The controller's heartbeat: asks every worker for a sign of life, and ends the one that gives none.

It runs in a thread of its own, so that a controller that is busy with something else goes on asking; a
worker takes the question itself for a sign of life of the controller. Silence is counted from the oldest
question without an answer. Time in which the controller itself stood still (it was stopped, or had no
processor) is no silence: it is seen in the thread's own steps, and begins the count anew. Times are seconds.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterable
from typing import Protocol

_SLACK = 1.0  # seconds by which a step may be late before that counts as standing still


class Patient(Protocol):
    """Who is asked. ``asked_at`` is when the oldest question without an answer was put, None when there is none."""

    asked_at: float | None

    def ask(self, now: float) -> None:
        """Put a question. Must not wait for anything."""

    def silent(self, limit: float, now: float) -> None:
        """Learn that it gave no sign of life for longer than it may. Called at each step from then on."""


class Heart:
    """Asks all ``patients`` every ``beat`` seconds; ``silence`` seconds without an answer are the end of one.

    ``wake`` is called after each beat, whoever was asked.
    """

    def __init__(
        self,
        patients: Callable[[], Iterable[Patient]],
        *,
        beat: float,
        silence: float,
        wake: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._patients = patients
        self._beat = beat
        self._silence = silence
        self._wake = wake
        self._clock = clock
        self._lock = threading.Lock()
        self._end = threading.Event()
        self._resting = False
        self._last = clock()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread, unless it runs."""
        if self._thread is None:
            self._end.clear()
            self._last = self._clock()
            self._thread = threading.Thread(target=self._run, name="sgpu-heart", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """End the thread. It can be started again."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._end.set()
            thread.join(self._beat + 5.0)

    def rest(self) -> None:
        """Ask nobody until ``go_on``: the workers do not expect it either."""
        with self._lock:
            self._resting = True

    def go_on(self) -> None:
        """Ask again. What was not answered before is forgotten."""
        with self._lock:
            self._resting = False
            self._forget()

    def _run(self) -> None:
        # Signals are for the main thread, which this wakes from its queue.
        signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
        while not self._end.wait(self._beat):
            self.step()
            self._wake()

    def step(self) -> None:
        """Do what is due every ``beat`` seconds."""
        with self._lock:
            now = self._clock()
            if now - self._last > self._beat + _SLACK:
                self._forget()
            self._last = now
            if self._resting:
                return
            for patient in self._patients():
                if patient.asked_at is not None and now - patient.asked_at >= self._silence:
                    patient.silent(self._silence, now)
                else:
                    patient.ask(now)

    def _forget(self) -> None:
        self._last = self._clock()
        for patient in self._patients():
            patient.asked_at = None
