"""Signals as events of the run, so that nothing is torn in the middle and everything finished is kept."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator
from types import FrameType

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def raised() -> Iterator[None]:
    """Let every ending signal raise KeyboardInterrupt meanwhile, as SIGINT does, so that all is cleaned up."""

    def handler(number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt(f"stopped by {signal.Signals(number).name}")

    with _handled_by(handler):
        yield


@contextlib.contextmanager
def posted_to(post: Callable[[str], None]) -> Iterator[None]:
    """Hand the names of ending signals to ``post`` meanwhile; the handlers of before come back afterwards.

    A hang-up that is ignored, as nohup has it, stays ignored. For the main thread only.
    """

    def handler(number: int, _frame: FrameType | None) -> None:
        post(signal.Signals(number).name)

    with _handled_by(handler):
        yield


@contextlib.contextmanager
def _handled_by(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    before = {number: signal.signal(number, handler) for number in ENDING if not (ignored and number is signal.SIGHUP)}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, signal.SIG_DFL if old is None else old)  # None: it was not set from Python
