"""Learned waits: what past child runs say about how long a pool lets wait, and when it was exhausted.

Only jobs that got a runner are waits; one that was cancelled without a runner says that its pool was exhausted.
What is read comes from the API and may have any shape: it is then no evidence, and never an error.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from pytest_sgpu.runners.candidates import Candidate
from pytest_sgpu.runners.instants import epoch
from pytest_sgpu.runners.machine.sightings import CANCELLED, COMPLETED, WORKER, jobs_seen
from pytest_sgpu.runners.text import duration

RECENT_SECONDS = 30 * 60
"""For so long an exhausted pool is tried later."""
SHORTEST_SECONDS = 60
"""No deadline is made shorter than this."""


@dataclass(frozen=True, slots=True)
class Past:
    """One worker job of a past child run. Times are seconds since the epoch.

    ``started``: when a runner took it, None when none did. ``ended``: None while it goes on.
    ``group``: where it ran, "" when no runner came: a job does not say which group it asked.
    """

    labels: str
    created: float
    started: float | None = None
    ended: float | None = None
    allocated: bool = False
    cancelled: bool = False
    group: str = ""

    @property
    def wait(self) -> float | None:
        """Give the seconds until a runner took it; None when none did. Clocks of two machines may differ a little."""
        return None if not self.allocated or self.started is None else max(0.0, self.started - self.created)

    @property
    def exhausted(self) -> bool:
        """Say whether it was cancelled before any runner came."""
        return self.cancelled and not self.allocated and self.ended is not None


@dataclass(frozen=True, slots=True)
class PoolHistory:
    """What is known of one pool: its waits in seconds, by size, and when it last gave or refused a runner."""

    samples: tuple[float, ...] = ()
    p50: float | None = None
    p90: float | None = None
    last_exhausted_at: float | None = None
    last_allocated_at: float | None = None


def past(run: object, jobs: object) -> Past | None:
    """Read one child run: the JSON of the run and that of its jobs; None when they tell nothing for certain.

    A rerun tells nothing: its first wait is lost. Whether a runner came is read as the coordinator reads it (R75).
    """
    if not isinstance(run, Mapping) or run.get("run_attempt", 1) != 1:
        return None
    listed = jobs.get("jobs") if isinstance(jobs, Mapping) else None
    seen = jobs_seen(jobs)
    if not isinstance(listed, list) or len(listed) != 1 or seen is None or seen.total != 1:
        return None
    (job,), (shown,) = listed, seen.jobs
    labels = job.get("labels")
    if shown.name != WORKER or job.get("run_id", run.get("id")) != run.get("id"):
        return None
    if not isinstance(labels, list) or len(labels) != 1 or not isinstance(labels[0], str) or not labels[0]:
        return None
    created = epoch(job.get("created_at")) or epoch(run.get("created_at"))
    if created is None:
        return None
    allocated = shown.evidence
    bare = not allocated and not job.get("steps")
    done = run.get("status") == COMPLETED == shown.status
    group = job.get("runner_group_name")
    return Past(
        labels=labels[0],
        created=created,
        started=epoch(job.get("started_at")) if allocated else None,
        ended=epoch(job.get("completed_at")) or epoch(run.get("updated_at")) if done else None,
        allocated=allocated,
        cancelled=done and bare and shown.conclusion == CANCELLED,
        group=group if allocated and isinstance(group, str) else "",
    )


def learn(pasts: Iterable[Past]) -> dict[str, PoolHistory]:
    """Give what the past says, by label. Percentiles are nearest-rank, so each is one of the samples."""
    grouped: dict[str, list[Past]] = {}
    for one in pasts:
        grouped.setdefault(one.labels, []).append(one)
    return {labels: _pool(ones) for labels, ones in sorted(grouped.items())}


def _pool(ones: Sequence[Past]) -> PoolHistory:
    samples = tuple(sorted(one.wait for one in ones if one.wait is not None))
    return PoolHistory(
        samples=samples,
        p50=_percentile(samples, 50),
        p90=_percentile(samples, 90),
        last_exhausted_at=max((one.ended for one in ones if one.exhausted and one.ended is not None), default=None),
        last_allocated_at=max((one.started for one in ones if one.started is not None), default=None),
    )


def _percentile(samples: Sequence[float], percent: int) -> float | None:
    return samples[max(0, math.ceil(percent * len(samples) / 100) - 1)] if samples else None


def arrange(
    candidates: Sequence[Candidate], history: Mapping[str, PoolHistory], now_epoch: float
) -> tuple[tuple[Candidate, ...], tuple[str, ...]]:
    """Try pools that were exhausted a short while ago later, and shorter; say why, a line for each.

    No candidate is added or dropped, and no deadline grows. A final repeat of a pool stays last, with its deadline;
    a deadline that was set for one candidate stays. When every pool was exhausted there is none to prefer, and
    nothing is changed.
    """
    repeated = len(candidates) > 1 and (
        candidates[-1].rewait or candidates[-1].labels.casefold() in {one.labels.casefold() for one in candidates[:-1]}
    )
    body, tail = (candidates[:-1], candidates[-1:]) if repeated else (candidates, candidates[:0])
    ages = {one.labels: _age(history.get(one.labels), now_epoch) for one in body}
    busy = [one for one in body if ages[one.labels] is not None]
    if not busy:
        return tuple(candidates), ()
    if len(busy) == len(body):
        return tuple(candidates), ("every pool was exhausted a short while ago: order and deadlines stay",)
    free = [one for one in body if ages[one.labels] is None]
    later = [_shorter(one) for one in busy]
    reasons = [_reason(old, new, ages[old.labels] or 0.0) for old, new in zip(busy, later, strict=True)]
    return (*free, *later, *tail), tuple(reasons)


def _age(known: PoolHistory | None, now: float) -> float | None:
    """Give the seconds since the pool was exhausted; None when that does not count (any more)."""
    if known is None or known.last_exhausted_at is None:
        return None
    if known.last_allocated_at is not None and known.last_allocated_at >= known.last_exhausted_at:
        return None
    age = now - known.last_exhausted_at
    # The other clock may be ahead of this one.
    return max(0.0, age) if -RECENT_SECONDS <= age <= RECENT_SECONDS else None


def _shorter(one: Candidate) -> Candidate:
    if one.own_deadline or one.rewait:
        return one
    return replace(one, queue_seconds=min(one.queue_seconds, max(float(SHORTEST_SECONDS), one.queue_seconds / 2)))


def _reason(old: Candidate, new: Candidate, age: float) -> str:
    minutes = math.floor(age / 60)
    since = f"{minutes} minute{'s' * (minutes != 1)} ago" if minutes else "just now"
    text = f"{old.labels}: exhausted {since}, and no runner came since: tried after the others"
    if new.queue_seconds == old.queue_seconds:
        return f"{text}, its deadline stays"
    return f"{text}, for {duration(new.queue_seconds)} instead of {duration(old.queue_seconds)}"
