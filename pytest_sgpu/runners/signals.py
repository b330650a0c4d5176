"""Signals while a runner command works: GitHub ends a step with SIGINT, 7.5 s later SIGTERM, 2.5 s later SIGKILL."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType

_ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_Handler = Callable[[int, FrameType | None], None] | signal.Handlers


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


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
