"""How long an acquisition may take: queues, execution, overhead, and the time-out that its parent job needs (R136)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_sgpu.runners.candidates import Candidate
from pytest_sgpu.runners.machine import cleaning, parent, watch

PARENT_START_SECONDS = parent.GRACE
"""The parent becomes visible as active (R58)."""
STARTUP_SECONDS = watch.STARTUP
"""A dispatched child becomes visible (R65)."""
CONFIRMATION_SECONDS = cleaning.WINDOW
"""A cancellation is confirmed (R82)."""
HOSTED_MINUTES = 360
"""A job on a hosted runner is ended after six hours."""
SPARE_MINUTES = 10
"""With less than this left of them a plan warns: the other steps of the job take time too."""

_CANDIDATE_SECONDS = STARTUP_SECONDS + CONFIRMATION_SECONDS


@dataclass(frozen=True, slots=True)
class Budget:
    """The longest that every deadline together allows; seconds, and minutes for the parent.

    ``rounds``: how many workers come one after the other in the same place, 1 for a single worker. The three
    amounts are those of all rounds.
    """

    queue_seconds: float
    execution_seconds: float
    overhead_seconds: float
    parent_minutes: int
    rounds: int = 1

    @property
    def fits(self) -> bool:
        """Say whether the job of a hosted runner can hold it."""
        return self.parent_minutes <= HOSTED_MINUTES


def budget(
    candidates: Sequence[Candidate], execution_seconds: float, *, workers: int = 1, max_parallel: int = 1
) -> Budget:
    """Add up what one coordinator may need for ``workers`` workers, at most ``max_parallel`` at once (R136).

    The overhead is the parent's start, once, and for each dispatch the child's start-up and the confirmation of its
    cancellation. The action cannot extend the parent's time-out (R137), so this is what to set there, at least.
    """
    rounds = math.ceil(workers / max(1, max_parallel))
    queues = rounds * sum(candidate.queue_seconds for candidate in candidates)
    execution = rounds * execution_seconds
    overhead = PARENT_START_SECONDS + rounds * len(candidates) * _CANDIDATE_SECONDS
    return Budget(queues, execution, overhead, math.ceil((queues + execution + overhead) / 60), rounds)


def refusal(spent: Budget, candidates: Sequence[Candidate]) -> tuple[str, tuple[str, ...]] | None:
    """Say why a hosted job cannot hold it, and what would help, one way a line; None when it can."""
    if spent.fits:
        return None
    message = f"it may take {spent.parent_minutes} minutes, and a job on a hosted runner ends after {HOSTED_MINUTES}"
    return message, tuple(_ways(spent, candidates))


def warning(spent: Budget) -> str:
    """Say that a hosted job can only just hold it, "" when it holds it well or not at all."""
    left = HOSTED_MINUTES - spent.parent_minutes
    if not 0 <= left < SPARE_MINUTES:
        return ""
    of = f"{left} of the {HOSTED_MINUTES} minutes of a hosted job {'is' if left == 1 else 'are'} left"
    return f"{of}, and its other steps take time too"


def _ways(spent: Budget, candidates: Sequence[Candidate]) -> list[str]:
    over = spent.queue_seconds + spent.execution_seconds + spent.overhead_seconds - HOSTED_MINUTES * 60
    ways = []
    if (left := math.floor((spent.execution_seconds - over) / spent.rounds / 60)) >= 1:
        ways.append(f"execution-timeout-minutes: at most {left}")
    shared = [candidate for candidate in candidates if not candidate.own_deadline and not candidate.rewait]
    if shared:
        spare = sum(candidate.queue_seconds for candidate in shared) - over / spent.rounds
        if (left := math.floor(spare / len(shared) / 60)) >= 1:
            ways.append(f"queue-timeout-minutes: at most {left} (it counts for {len(shared)} of the candidates)")
    if any(candidate.rewait for candidate in candidates):
        ways.append("queue-policy: standard, or a list in runners, has no final re-wait")
    if spent.rounds > 1:
        ways.append("workloads: fewer, a larger max-parallel, or several coordinators (a matrix of the parent)")
    ways.append("runners: a list with fewer candidates, or deadlines of their own")
    return ways
