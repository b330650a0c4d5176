"""What ``sgpu runner plan`` says: candidates, deadlines, budget, and where each comes from; as text or as JSON."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass

from pytest_sgpu.runners.candidates import Candidate
from pytest_sgpu.runners.forecast.budget import HOSTED_MINUTES, Budget, refusal, warning
from pytest_sgpu.runners.forecast.history import PoolHistory
from pytest_sgpu.runners.text import duration, one_line

VERSION = 1
WIDTH = 80
_POOL = 20


@dataclass(frozen=True, slots=True)
class Plan:
    """What an acquisition with these inputs would do.

    ``candidates`` are in the order in which they are tried, ``before`` is that order before history changed it.
    ``unconfirmed``: the candidates whose label or group nobody has checked yet. ``timeout``: the input that sets the
    deadlines, "" for none. ``learned`` and ``reasons`` are those of history, None and empty without it.
    """

    runner_type: str
    policy: str
    candidates: tuple[Candidate, ...]
    before: tuple[Candidate, ...]
    budget: Budget
    timeout: str = ""
    workers: int = 1
    max_parallel: int = 1
    unconfirmed: frozenset[tuple[str, str]] = frozenset()
    explicit: bool = False
    learned: Mapping[str, PoolHistory] | None = None
    reasons: tuple[str, ...] = ()

    def origin(self, one: Candidate) -> str:
        """Say where the deadline of a candidate comes from (R29, R39)."""
        old = next((o for o in self.before if (o.labels, o.rewait) == (one.labels, one.rewait)), one)
        text = self._origin(old)
        return text if old.queue_seconds == one.queue_seconds else f"{text}, shortened by history"

    def _origin(self, one: Candidate) -> str:
        if one.own_deadline and self.explicit:
            return "candidate: its own deadline"
        if one.rewait or one.own_deadline:
            return f"policy {self.policy}: re-wait"
        return f"input {self.timeout}" if self.timeout else f"policy {self.policy}"

    def note(self, one: Candidate) -> str:
        """Say in a few words what is special about a candidate."""
        notes = ["re-wait"] if one.rewait else []
        if (one.group, one.labels) in self.unconfirmed:
            notes.append("unconfirmed")
        return ", ".join(notes)


def text(plan: Plan, *, explain: bool = False) -> str:
    """Give the plan for people, at most 80 columns wide; ``explain`` adds where each deadline comes from."""
    policy = f", queue-policy {plan.policy}"
    many = f", {plan.workers} workers, {plan.max_parallel} at once" if plan.workers > 1 else ""
    lines = [_cut(f"runner-type {plan.runner_type}{policy}{many}"), "", *_table(plan), "", *_amounts(plan)]
    if explain:
        lines += ["", *_explained(plan)]
    if plan.learned is not None:
        lines += ["", *_learned(plan.learned)]
        lines += [line for reason in plan.reasons for line in _wrapped(f"  {one_line(reason, 1000)}")]
    if any((one.group, one.labels) in plan.unconfirmed for one in plan.candidates):
        lines += ["", "unconfirmed: the pools file marks label or group as a guess; check before use."]
    if (refused := refusal(plan.budget, plan.candidates)) is not None:
        message, ways = refused
        lines += ["", *_wrapped(f"refused: {message}")]
        lines += [line for way in ways for line in _wrapped(f"  hint: {way}")]
    if said := warning(plan.budget):
        lines += ["", *_wrapped(f"warning: {said}")]
    return "\n".join(line.rstrip() for line in lines)


def _table(plan: Plan) -> list[str]:
    pools = [one_line(one.pool or "(given)", _POOL) for one in plan.candidates]
    wide = max(map(len, pools), default=0)
    edge = " " * (wide + 18)
    lines = [f"{'#':>2}  {'pool':<{wide}}  {'deadline':<10}  labels, and the group below"]
    for number, (one, pool) in enumerate(zip(plan.candidates, pools, strict=True), 1):
        lines.append(_cut(f"{number:>2}  {pool:<{wide}}  {duration(one.queue_seconds):<10}  {one_line(one.labels)}"))
        note, below = plan.note(one), f"{edge}{one_line(one.group)}"
        if len(f"{below} ({note})") <= WIDTH:
            lines.append(f"{below} ({note})" if note else below)
        else:
            lines += [_cut(below), _cut(f"{edge}({note})")] if note else [_cut(below)]
    return lines


def _amounts(plan: Plan) -> list[str]:
    spent = plan.budget
    count = len(plan.candidates)
    times = f" x {spent.rounds} in turn" if spent.rounds > 1 else ""
    rows = [
        ("queueing", duration(spent.queue_seconds), f"{count} candidate{'s' * (count != 1)}{times}"),
        ("execution", duration(spent.execution_seconds), f"one worker's limit{times}"),
        ("overhead", duration(spent.overhead_seconds), "parent start, start-up and cancellation of each child"),
        ("parent", f"{spent.parent_minutes} min", "timeout-minutes of the coordinator's job, at least"),
        ("hosted job", f"{HOSTED_MINUTES} min", "the limit" + ("" if spent.fits else ": not enough")),
    ]
    return [_cut(f"{name:<10}  {amount:<12}  {why}") for name, amount, why in rows]


def _explained(plan: Plan) -> list[str]:
    lines = ["Where the deadlines come from (candidate before input before policy):"]
    for number, one in enumerate(plan.candidates, 1):
        lines.append(_cut(f"{number:>2}  {duration(one.queue_seconds):<10}  {plan.origin(one)}"))
    return lines


def _learned(learned: Mapping[str, PoolHistory]) -> list[str]:
    lines = ["What past runs say (waits of jobs that got a runner):"]
    if not learned:
        lines.append("  nothing yet: no past run of this workflow tells a wait")
    for labels, pool in learned.items():
        waits = "none got a runner"
        if pool.p50 is not None and pool.p90 is not None:
            count = len(pool.samples)
            waits = f"{count} wait{'s' * (count != 1)}, p50 {duration(pool.p50)}, p90 {duration(pool.p90)}"
        lines += [_cut(f"  {one_line(labels)}"), _cut(f"      {waits}")]
    return lines


def _wrapped(line: str) -> list[str]:
    """Give one line as several that fit, the later ones further to the right."""
    edge = " " * (len(line) - len(line.lstrip()) + 2)
    parts = textwrap.wrap(line, WIDTH, subsequent_indent=edge, break_on_hyphens=False, break_long_words=False)
    return [_cut(part) for part in parts]


def _cut(line: str) -> str:
    return line if len(line) <= WIDTH else line[: WIDTH - 3] + "..."


def document(plan: Plan) -> str:
    """Give the plan for programs: JSON, version 1; fields are only ever added."""
    spent = plan.budget
    refused = refusal(spent, plan.candidates)
    return json.dumps(
        {
            "version": VERSION,
            "runner_type": plan.runner_type,
            "queue_policy": plan.policy,
            "workers": plan.workers,
            "max_parallel": plan.max_parallel,
            "candidates": [_candidate(plan, number, one) for number, one in enumerate(plan.candidates, 1)],
            "budget": {
                "queue_seconds": spent.queue_seconds,
                "execution_seconds": spent.execution_seconds,
                "overhead_seconds": spent.overhead_seconds,
                "parent_minutes": spent.parent_minutes,
                "hosted_minutes": HOSTED_MINUTES,
                "rounds": spent.rounds,
                "fits": spent.fits,
            },
            "refused": None if refused is None else {"message": refused[0], "hints": list(refused[1])},
            "warning": warning(spent) or None,
            "history": None if plan.learned is None else {name: _pool(one) for name, one in plan.learned.items()},
            "reasons": list(plan.reasons),
        },
        indent=2,
        ensure_ascii=True,
        allow_nan=False,
    )


def _candidate(plan: Plan, number: int, one: Candidate) -> dict[str, object]:
    return {
        "number": number,
        "pool": one.pool,
        "group": one.group,
        "labels": one.labels,
        "queue_seconds": one.queue_seconds,
        "origin": plan.origin(one),
        "rewait": one.rewait,
        "confirmed": (one.group, one.labels) not in plan.unconfirmed,
    }


def _pool(one: PoolHistory) -> dict[str, object]:
    return {
        "samples": len(one.samples),
        "p50": one.p50,
        "p90": one.p90,
        "last_exhausted_at": one.last_exhausted_at,
        "last_allocated_at": one.last_allocated_at,
    }
