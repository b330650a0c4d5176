"""How long to wait until the next look at a child.

Steady is one look a minute (R73). Adaptive looks often while a runner is likely to come soon (a free pool answers
within a minute) and shortly before the deadline, where a runner that came late is not to be cancelled; between, a
look every few minutes is enough, since nothing depends on the exact time.
"""

from __future__ import annotations

STEADY = 60.0
_NEAR = 15.0  # the least distance of looks
# (seconds since the phase began, distance of looks until then); the last holds from there on
_STAGES = ((60.0, 15.0), (300.0, 30.0), (900.0, 60.0))
_SPARSE = 180.0
_DENSE_BEFORE = 120.0  # seconds before a queue deadline


def next_look(now: float, since: float, due: float, *, adaptive: bool, waiting: bool) -> float:
    """Give the time of the next look, never after ``due`` (P10) and never before ``now``.

    ``since`` is when the phase began, ``waiting`` whether it is the queue; only the queue has a deadline that
    deserves dense looks: an execution budget is far longer than any honest execution.
    """
    distance = _adaptive(now - since) if adaptive else STEADY
    if adaptive and waiting and distance > _NEAR:
        dense = due - _DENSE_BEFORE
        distance = _NEAR if now >= dense else max(_NEAR, min(distance, dense - now))
    return max(now, min(now + distance, due))


def _adaptive(elapsed: float) -> float:
    return next((distance for until, distance in _STAGES if elapsed < until), _SPARSE)
