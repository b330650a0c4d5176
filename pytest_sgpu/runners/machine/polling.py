"""How long to wait until the next look at a child.

Steady is one look a minute (R73). Adaptive looks often while a runner is likely to come soon (a free pool answers
within a minute) and shortly before the deadline, where a runner that came late is not to be cancelled; between, a
look every few minutes is enough, since nothing depends on the exact time. Whatever the queue, that is no more looks
than steady ones (R74): the distance grows with the time since the begin and the time that is left.
"""

from __future__ import annotations

STEADY = 60.0
_NEAR = 15.0  # the least distance of looks
_SPARSE = 180.0  # the largest
_SHARE = 0.75  # of the time since the begin, or of what is left; with less, ten minutes cost more than steadily
_WORTH = 600.0  # seconds; a shorter queue has no middle in which the looks of its ends could be saved


def next_look(now: float, since: float, due: float, *, adaptive: bool, waiting: bool) -> float:
    """Give the time of the next look, never after ``due`` and never before ``now``.

    ``since`` is when the phase began, ``waiting`` whether it is the queue; only the queue has a deadline that
    deserves dense looks: an execution budget is far longer than any honest execution.
    """
    distance = STEADY
    if adaptive and (not waiting or due - since >= _WORTH):
        near = min(now - since, due - now) if waiting else now - since
        distance = min(max(_NEAR, float(round(_SHARE * near))), _SPARSE)
    return max(now, min(now + distance, due))
