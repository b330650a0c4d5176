"""Which answers are tried again, and after how long: the only retries there are (R105-R108).

For reads and cancellation. A dispatch is never tried again, so it never comes here (R56).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

from pytest_sgpu.runners.instants import utc
from pytest_sgpu.runners.machine.actions import Trouble

PAUSES = (5.0, 10.0)  # before the second and the third try (R105)
LIMIT_TRIES = 2  # R107
LIMIT_WAIT = 60.0  # R107; also what a limit that does not say how long is worth
_LONGEST = 1e9  # seconds; what is longer is told as this

_CLIENT_ERROR, _SERVER_ERROR = 400, 500
_UNAUTHORISED, _FORBIDDEN, _NOT_FOUND, _TIMED_OUT, _CONFLICT, _TOO_MANY = 401, 403, 404, 408, 409, 429
_OK = range(200, 300)


@dataclass(frozen=True, slots=True)
class Again:
    """Try again after ``seconds``."""

    seconds: float


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Do not try again. ``why`` is "" when the status says it all."""

    trouble: Trouble
    why: str = ""


class Tries:
    """The retries of one request. Outages and rate limits have a budget each."""

    def __init__(self) -> None:
        self.made = 0
        self._outages = 0
        self._limits = 0

    def outage(self) -> Again | GiveUp:
        """After no answer, or one that makes no sense."""
        if self._outages == len(PAUSES):
            return GiveUp(Trouble.OUTAGE)
        self._outages += 1
        return Again(PAUSES[self._outages - 1])

    def limited(self, headers: Mapping[str, str], now: float) -> Again | GiveUp:
        """After a refusal by the rate limit. ``now`` is in seconds since the epoch."""
        wait = limit_wait(headers, now)
        if wait > LIMIT_WAIT:  # waiting less would be refused again, and waiting so long helps no queue
            when = f"in {wait:.0f} s, at {utc(_date(headers, now) + wait)}"
            return GiveUp(Trouble.LIMITED, f"the rate limit is lifted {when}, which is too long to wait")
        if self._limits == LIMIT_TRIES:
            return GiveUp(Trouble.LIMITED)
        self._limits += 1
        return Again(wait)

    def status(self, status: int, headers: Mapping[str, str], message: str, now: float) -> Again | GiveUp | None:
        """After an answer; None when its body can be read."""
        if status in _OK:
            return None
        if is_limited(status, headers, message):
            return self.limited(headers, now)
        if status == _TIMED_OUT or status >= _SERVER_ERROR:
            return self.outage()
        return GiveUp(trouble_of(status))


def trouble_of(status: int) -> Trouble:
    """Name a definite refusal."""
    named = {
        _UNAUTHORISED: Trouble.AUTH,
        _FORBIDDEN: Trouble.AUTH,
        _NOT_FOUND: Trouble.MISSING,
        _CONFLICT: Trouble.CONFLICT,
    }
    return named.get(status, Trouble.REFUSED)


def is_limited(status: int, headers: Mapping[str, str], message: str) -> bool:
    """Tell whether a refusal is by a rate limit; GitHub answers 403 or 429 to that."""
    if status == _TOO_MANY:
        return True
    if status != _FORBIDDEN:
        return False
    spent = headers.get("x-ratelimit-remaining", "").strip() == "0"
    return spent or "retry-after" in headers or "rate limit" in message.lower()


def limit_wait(headers: Mapping[str, str], now: float) -> float:
    """Give the seconds to wait: Retry-After, else until the reset, else a minute (R106).

    The reset is compared with the answer's own ``Date``, since the clock of a runner may be off. Names are lower case.
    """
    after = headers.get("retry-after", "").strip()
    if after.isdecimal() and after.isascii():
        return max(1.0, min(float(after), _LONGEST))
    reset = headers.get("x-ratelimit-reset", "").strip()
    spent = headers.get("x-ratelimit-remaining", "0").strip() == "0"
    if spent and reset.isdecimal() and reset.isascii():
        return max(1.0, min(float(reset) - _date(headers, now), _LONGEST))
    return LIMIT_WAIT


def _date(headers: Mapping[str, str], now: float) -> float:
    try:
        return parsedate_to_datetime(headers.get("date", "")).timestamp()
    except (TypeError, ValueError, OverflowError, IndexError):
        return now
