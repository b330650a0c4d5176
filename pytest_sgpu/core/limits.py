"""How long things may take: durations as people write them, and the deadline of each item.

Seconds throughout. There is no limit by default; 0 is never one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from pytest_sgpu.core.text import shown
from pytest_sgpu.model import Estimate

UNKNOWN_DEADLINE = 3600.0
"""What ``auto`` gives an item that is in no weight table."""

_LEAST_AUTO = 300.0  # a short item may meet a cold cache; five minutes still end a hang
_FACTOR = 3.0
_NUMBER = r"[0-9]{1,9}(?:\.[0-9]{1,3})?"
_DURATION = re.compile(rf"(?:({_NUMBER})h)?(?:({_NUMBER})m)?(?:({_NUMBER})s?)?")
_MOST = 366 * 24 * 3600.0
_FORMS = "seconds (90 or 0.5), or 90s, 15m, 1h30m"


@dataclass(frozen=True, slots=True)
class Limits:
    """The deadlines of items.

    ``timeout``: seconds for every item. ``auto``: max(300, 3 x weight) instead, and ``unknown`` seconds
    for an item without a weight. ``stall``: seconds without output. None: no limit.
    """

    timeout: float | None = None
    auto: bool = False
    unknown: float = UNKNOWN_DEADLINE
    stall: float | None = None

    def deadline(self, estimate: Estimate) -> float | None:
        """Give the seconds that an item with this estimate may take. A guess is no weight."""
        if not self.auto:
            return self.timeout
        if not estimate.known or estimate.seconds is None:
            return self.unknown
        return max(_LEAST_AUTO, _FACTOR * estimate.seconds)


def parse_duration(text: str) -> float:
    """Read ``90``, ``90s``, ``15m``, ``1h30m`` as seconds. Raises ValueError with a sentence for anything else."""
    match = _DURATION.fullmatch(text)
    if match is None or not any(match.groups()):
        raise ValueError(f"{shown(text, 80)} is no duration; expected {_FORMS}")
    hours, minutes, seconds = (float(part or 0) for part in match.groups())
    total = hours * 3600 + minutes * 60 + seconds
    if total > _MOST:
        raise ValueError(f"{shown(text, 80)} is more than a year; expected {_FORMS}")
    return total


def parse_limit(text: str) -> float:
    """Read a duration that ends something. Raises ValueError for 0 too: it would end everything at once."""
    seconds = parse_duration(text)
    if not seconds:
        raise ValueError(f"{shown(text, 80)} would end it before it begins; expected more than 0 s")
    return seconds


def parse_timeout(text: str) -> Limits:
    """Read ``SECONDS``, ``auto`` or ``auto,SECONDS`` (the second for items without a weight), without a stall.

    Raises ValueError with a sentence for anything else.
    """
    head, comma, rest = text.partition(",")
    if head != "auto":
        try:
            return Limits(timeout=parse_limit(text))
        except ValueError as error:
            raise ValueError(f"{error}, or auto, or auto,SECONDS") from None
    return Limits(auto=True, unknown=parse_limit(rest) if comma else UNKNOWN_DEADLINE)
