"""What a worker says, as events: builtin types become nouns here, and its seconds become the controller's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_sgpu.engine.events import ItemEnded, ItemSlow
from pytest_sgpu.model import Ending, Leftover, Worker


def slow(worker: Worker, report: Mapping[str, Any], at: float) -> ItemSlow:
    """Translate that half of a timeout is over."""
    seconds, limit, quiet, line = (report[name] for name in ("seconds", "limit", "quiet", "line"))
    return ItemSlow(worker, report["id"], seconds, limit, quiet, line, at)


def ended(worker: Worker, report: Mapping[str, Any], at: float) -> ItemEnded:
    """Translate an end. It was ``late`` seconds ago, before the worker cleaned up."""
    stop = at - report["late"]
    ending = Ending(
        exit_code=report["exit_code"],
        signal=report["signal"],
        start=stop - report["seconds"],
        stop=stop,
        ran=report["ran"],
        partial=report["partial"],
        killed=report["killed"],
        reason=report["reason"],
        timed_out=report["timed_out"],
        left=tuple(Leftover(pid, command) for pid, command in report["left"]),
        late=report["left_late"],
    )
    return ItemEnded(worker, report["id"], ending, at)
