"""Dispatched runs: what is to become of one (Plan), and what it is at a given time (Child)."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field

# The names of the fields that both a run and a job have are GitHub's.
Fields = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Plan:
    """What happens to a child. Seconds after its dispatch, unless said otherwise; None is never."""

    runner_after: float | None = 20.0
    starts_after: float = 0.0  # the first step, after the runner
    runs_for: float | None = 60.0  # after the runner
    conclusion: str = "success"
    run_conclusion: str = ""
    ends_after: float | None = None  # completes with `conclusion` and without a runner
    visible_after: float = 0.0
    listed_after: float = 0.0
    jobs_after: float = 0.0
    jobs_missing: str = "404"
    queued_after: float = 0.0
    queued_status: str = "queued"
    cancel_after: float | None = 3.0  # after the cancellation was accepted; so are the next two
    force_after: float | None = 1.0
    runner_after_cancel: float | None = None
    finishes_despite_cancel: bool = False
    run_lag: float = 0.0
    conclusion_lag: float = 0.0
    job_lag: float = 0.0
    runner_lag: float = 0.0
    null_runner: bool = False
    jobs: int = 1
    job_name: str = "worker"


class Overlay:
    """Fields that change at given times."""

    def __init__(self) -> None:
        self._changes: list[tuple[float, Fields]] = []

    def set(self, at: float, fields: Fields) -> None:
        """Change ``fields`` from that time on."""
        self._changes.append((at, fields))
        self._changes.sort(key=lambda change: change[0])

    def at(self, now: float) -> dict[str, object]:
        """Give all that has changed until ``now``, later changes before earlier ones."""
        fields: dict[str, object] = {}
        for at, change in self._changes:
            if at <= now:
                fields.update(change)
        return fields

    def onto(self, served: dict[str, object], now: float) -> dict[str, object]:
        """Give ``served`` with the changes made; ``...`` as a value takes the field out."""
        merged = {**served, **self.at(now)}
        return {name: value for name, value in merged.items() if value is not ...}


@dataclass(slots=True)
class Child:
    """A dispatched run. Times are those of the clock; the fake alone says what of it can be seen."""

    number: int
    run_id: int
    inputs: Mapping[str, str]
    ref: str
    head_sha: str
    created: float
    plan: Plan
    own: bool = True
    cancel_asked: list[float] = field(default_factory=list)
    force_asked: list[float] = field(default_factory=list)
    run_drift: Overlay = field(default_factory=Overlay)
    job_drift: Overlay = field(default_factory=Overlay)

    @property
    def job_id(self) -> int:
        """The worker job's id."""
        return self.run_id * 10

    @property
    def request_id(self) -> str:
        """The name that the coordinator gave it."""
        return self.inputs.get("request-id", "")

    @property
    def runner(self) -> dict[str, str]:
        """What it asked for."""
        return dict(json.loads(self.inputs.get("runner", "{}")))

    @property
    def labels(self) -> str:
        """The label it asked for."""
        return self.runner.get("labels", "")

    def _killed(self) -> float | None:
        """Give when a cancellation takes effect."""
        plan = self.plan
        if plan.finishes_despite_cancel:
            return None
        times = [asked + plan.cancel_after for asked in self.cancel_asked[:1] if plan.cancel_after is not None]
        times += [asked + plan.force_after for asked in self.force_asked[:1] if plan.force_after is not None]
        return min(times, default=None)

    def runner_at(self) -> float | None:
        """Give when it gets a runner; None when it never does."""
        plan = self.plan
        times = [] if plan.runner_after is None or plan.ends_after is not None else [self.created + plan.runner_after]
        if plan.runner_after_cancel is not None and self.cancel_asked:
            times.append(self.cancel_asked[0] + plan.runner_after_cancel)
        at, killed = min(times, default=None), self._killed()
        return None if at is None or (killed is not None and killed <= at) else at

    def natural_end(self) -> float | None:
        """Give when it would end if nobody cancelled it."""
        plan = self.plan
        if plan.ends_after is not None:
            return self.created + plan.ends_after
        at = self.runner_at()
        return None if at is None or plan.runs_for is None else at + plan.runs_for

    def ended(self) -> float | None:
        """Give when its job ends, as far as is known; None when it never does."""
        return min((at for at in (self.natural_end(), self._killed()) if at is not None), default=None)

    def conclusion(self) -> str:
        """Give how its job ends: "cancelled" when a cancellation came first."""
        killed, natural = self._killed(), self.natural_end()
        cancelled = killed is not None and (natural is None or killed < natural)
        return "cancelled" if cancelled else self.plan.conclusion

    def run_conclusion(self) -> str:
        """Give how the run ends."""
        natural = self.conclusion() == self.plan.conclusion
        return (self.plan.run_conclusion if natural else "") or self.conclusion()

    def allocated(self, at: float = math.inf) -> bool:
        """Say whether it has, or had, a runner at that time; without one, whether it ever gets one."""
        runner = self.runner_at()
        return runner is not None and runner <= at

    def completed(self, at: float = math.inf) -> bool:
        """Say whether its job was over at that time, whatever the API still says; without one, whether it ever is."""
        ended = self.ended()
        return ended is not None and ended <= at
