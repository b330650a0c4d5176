"""Signals while a runner command works: GitHub ends a step with SIGINT, 7.5 s later SIGTERM, 2.5 s later SIGKILL."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType

_ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_TOGETHER = 1.0  # seconds
_Handler = Callable[[int, FrameType | None], None] | signal.Handlers


class _Interrupt:
    """Raises KeyboardInterrupt for a signal, once for those that come together.

    Ctrl-C reaches a whole process group, and a parent that passes it on makes two of it.
    """

    def __init__(self) -> None:
        self._last = -_TOGETHER

    def __call__(self, _number: int, _frame: FrameType | None) -> None:
        now = time.monotonic()
        if now - self._last >= _TOGETHER:
            self._last = now
            raise KeyboardInterrupt


_interrupt = _Interrupt()  # one for the process: a cleanup inside of an acquisition hears the same signals


@contextlib.contextmanager
def interrupting() -> Iterator[None]:
    """Make every signal that asks for an end a KeyboardInterrupt of the main thread, the second one too."""
    with _handled(_interrupt):
        yield


@contextlib.contextmanager
def ignored() -> Iterator[None]:
    """Let no signal that asks for an end stop a cleanup; SIGKILL ends it in any case."""
    with _handled(signal.SIG_IGN):
        yield


@contextlib.contextmanager
def _handled(handler: _Handler) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():  # only there can handlers be set
        yield
        return
    before = {number: signal.getsignal(number) for number in _ENDS}
    try:
        for number in _ENDS:
            signal.signal(number, handler)
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, signal.SIG_DFL if old is None else old)
