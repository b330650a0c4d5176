"""The timeline of an acquisition: everything that was observed and done, as one JSON document.

Format, version 1 (fields are only ever added): docs/reference/runners.md.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping

from pytest_sgpu.runners.instants import utc
from pytest_sgpu.runners.text import one_line, without

VERSION = 1
LOOKS = 600_000
"""Characters that the events ``look`` may take; an output holds 1 MB, and a worker may run for days."""

_DEPTH = 3  # of objects and lists inside each other


class Timeline:
    """Collects events in the order in which they are added.

    ``zero`` is the value of ``at`` that is shown as 0, for a caller whose clock does not begin there. ``secret`` is
    taken out of every text.
    """

    def __init__(self, zero: float = 0.0, secret: str = "") -> None:
        self._zero = zero
        self._secret = secret
        self._events: list[dict[str, object]] = []
        self._looks = 0
        self.left_out = 0

    def add(self, at: float, epoch: float, event: str, worker: int, attempt: int, **fields: object) -> None:
        """Add an event. ``at``: seconds of the monotonic clock; ``epoch``: the same moment for people.

        ``worker`` and ``attempt`` count from 1; 0 when the event belongs to none. Fields may be what JSON has;
        each text in them becomes one line. An event ``look`` beyond ``LOOKS`` is only counted, any other one is kept.
        """
        own: dict[str, object] = {
            "at": _number(round(at - self._zero, 3)) if math.isfinite(at) else None,
            "time": utc(epoch) if math.isfinite(epoch) else "",
            "event": self._text(event),
            "worker": worker,
            "attempt": attempt,
        }
        rest = {name: self._plain(value) for name, value in fields.items() if name not in own}
        whole = own | rest
        if event == "look":
            self._looks += len(_line(whole))
            if self._looks > LOOKS:
                self.left_out += 1
                return
        self._events.append(whole)

    def to_json(self) -> str:
        """Give the document, on one line, so that it can be an output of a step."""
        return _line({"version": VERSION, "left_out": self.left_out, "events": self._events})

    def _plain(self, value: object, depth: int = 0) -> object:
        if isinstance(value, float):
            return _number(value)
        if depth < _DEPTH and isinstance(value, Mapping):
            return {self._text(str(key)): self._plain(inner, depth + 1) for key, inner in value.items()}
        if depth < _DEPTH and isinstance(value, list | tuple):
            return [self._plain(inner, depth + 1) for inner in value]
        return value if value is None or isinstance(value, int) else self._text(str(value))

    def _text(self, value: str) -> str:
        return one_line(without(self._secret, value))


def _line(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def _number(value: float) -> float | None:
    return round(value, 3) if math.isfinite(value) else None
