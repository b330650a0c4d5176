"""Signals as events of the run, so that nothing is torn in the middle and everything finished is kept."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator, Sequence
from types import FrameType

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
PAUSE = signal.SIGTSTP
"""What ^Z sends."""


@contextlib.contextmanager
def raised() -> Iterator[None]:
    """Let every ending signal raise KeyboardInterrupt meanwhile, as SIGINT does, so that all is cleaned up."""

    def handler(number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt(f"stopped by {signal.Signals(number).name}")

    with _handled_by(handler, ENDING):
        yield


@contextlib.contextmanager
def posted_to(post: Callable[[str], None]) -> Iterator[None]:
    """Hand the names of ending signals, and of ^Z, to ``post`` meanwhile; the handlers of before come back afterwards.

    A hang-up that is ignored, as nohup has it, stays ignored, and so does an ignored ^Z. For the main
    thread only.
    """

    def handler(number: int, _frame: FrameType | None) -> None:
        post(signal.Signals(number).name)

    with _handled_by(handler, (*ENDING, PAUSE)):
        yield


class Inbox:
    """Where signals go while they are events: to the queue of a run while it has one, else into memory.

    ^Z is no event while there is no queue: nothing runs yet, or nothing any more, so this process just stops.
    """

    def __init__(self) -> None:
        self.called = False
        """Whether any ending signal has come so far."""
        self.unheard: list[str] = []
        self._post: Callable[[str], None] | None = None

    @contextlib.contextmanager
    def hearing(self) -> Iterator[None]:
        """Let signals come here meanwhile, and never be exceptions. May be nested. For the main thread only."""
        with posted_to(self._take):
            yield

    def _take(self, name: str) -> None:
        self.called = self.called or name != PAUSE.name
        if self._post is not None:
            self._post(name)
        elif name == PAUSE.name:
            stand_still()
        else:
            self.unheard.append(name)

    def attach(self, post: Callable[[str], None]) -> list[str]:
        """Let signals go to a queue from now on. Gives those that came before."""
        self._post = post
        early, self.unheard = self.unheard, []
        return early

    def detach(self) -> None:
        """Only remember signals from now on: what is being written must not be torn."""
        self._post = None


def stand_still() -> None:
    """Stop this process until it gets SIGCONT."""
    signal.raise_signal(signal.SIGSTOP)  # to this thread itself, so that the next line runs only afterwards


@contextlib.contextmanager
def _handled_by(handler: Callable[[int, FrameType | None], None], numbers: Sequence[signal.Signals]) -> Iterator[None]:
    optional = (signal.SIGHUP, PAUSE)
    ignored = {number for number in optional if signal.getsignal(number) is signal.SIG_IGN}
    before = {number: signal.signal(number, handler) for number in numbers if number not in ignored}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, signal.SIG_DFL if old is None else old)  # None: it was not set from Python
