"""A run that was cut off: what it comes to, whether it can go on, and what is left to do."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from pytest_sgpu.core.evidence import FAILURES
from pytest_sgpu.core.fold import KILLED, RunState, lost
from pytest_sgpu.core.records import VERSION
from pytest_sgpu.core.text import counted, shown
from pytest_sgpu.model import UNKNOWN, Key, Outcome, Plan, PlanEntry, Scope, Status

_NAMED = 3  # keys in a sentence
_DIGITS = 12  # of a digest


def ended_at(state: RunState, last_sign: float | None = None) -> float:
    """Give the seconds on the clock of the run at which it ended.

    That of its last record, or of the last sign of life of its controller (epoch seconds), whichever is later:
    a run that was killed may have been silent for an hour, with an item that ran all the time.
    """
    part = state.parts[-1] if state.parts else None
    if state.ended or last_sign is None or part is None or not part.started:
        return state.wall
    return max(state.wall, part.at + (last_sign - part.started))


def complete(state: RunState, at: float, how: str = KILLED) -> RunState:
    """Give each planned item an outcome: what was running is LOST, what had not begun is NOT_RUN.

    One that waited for a further attempt comes to what it had come to, as in a run that is stopped.
    ``at`` is when the run ended and ``how`` it did. In a run that has all its outcomes and its end, nothing
    changes. Keys of the plan that ended are left as they are, whatever else the journal lacks.
    """
    known = {outcome.key for outcome in state.outcomes}
    running = {one[0]: one for one in state.running if one[0] not in known}
    estimates = {entry.item.key: entry.estimate for entry in state.plan.entries}
    part = max(1, len(state.parts))
    made: dict[Key, Outcome] = {outcome.key: outcome for outcome in state.outcomes}
    for key, one in running.items():
        outcome = lost(one, state.attempts.get(key, ()), estimates.get(key, UNKNOWN), at, how)
        made[key] = replace(outcome, part=part)
    attempts = dict(state.attempts)
    for key, estimate in estimates.items():
        last = attempts.get(key, ())[-1:]
        if key not in made and last and last[0].status in (*FAILURES, Status.LOST):
            made[key] = last[0]
            attempts[key] = attempts[key][:-1]
        elif key not in made:
            made[key] = Outcome(
                key, Status.NOT_RUN, reason=f"not started: {how} at +{at:.0f} s", estimate=estimate, part=part
            )
    cut_off = len(made) > len(known) or not state.ended
    order = dict.fromkeys((*estimates, *made))
    return replace(
        state,
        outcomes=tuple(made[key] for key in order),
        running=(),
        attempts={key: some for key, some in attempts.items() if some},
        interrupted=state.interrupted or (f"{how} at +{at:.0f} s" if cut_off else ""),
        wall=max(state.wall, at),
    )


def differences(
    state: RunState, *, digest: str, commit: str, keys: Collection[Key], scope: Scope | None = None
) -> tuple[str, ...]:
    """Say in what a run that wants to go on differs from the one that was cut off; nothing: it may.

    ``digest`` stands for the text of the conf files, ``keys`` are those that are chosen now. Each sentence
    names both sides.
    """
    made = []
    if state.version > VERSION:
        made.append(f"the journal: version {state.version} then, {VERSION} now")
    if state.digest != digest:
        made.append(f"the conf files: {_named(state.digest[:_DIGITS])} then, {_named(digest[:_DIGITS])} now")
    if state.commit != commit:
        made.append(f"the commit: {_named(state.commit)} then, {_named(commit)} now")
    if scope is not None and state.scope != scope:
        then = f"{state.scope.arch or '?'}, level {state.scope.level or '?'}"
        made.append(f"what it runs on: {then} then, {scope.arch}, level {scope.level} now")
    planned = {entry.item.key for entry in state.plan.entries}
    gone, new = sorted(planned - set(keys)), sorted(set(keys) - planned)
    if gone or new:
        parts = []
        if gone:
            parts.append(f"{counted(len(gone), 'item')} of then gone ({_listed(gone)})")
        if new:
            parts.append(f"{counted(len(new), 'item')} of now not in it ({_listed(new)})")
        made.append(f"the plan: {', '.join(parts)}")
    return tuple(made)


def _named(text: str) -> str:
    return shown(text, 80) if text else "none known"


def _listed(keys: Iterable[Key]) -> str:
    names = [shown(str(key), 80) for key in keys]
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def pending(plan: Plan, state: RunState) -> Plan:
    """Give what is left of a plan: the entries whose items have no final outcome, in its order."""
    final = {outcome.key for outcome in state.outcomes if outcome.final}
    entries: tuple[PlanEntry, ...] = tuple(entry for entry in plan.entries if entry.item.key not in final)
    return Plan(entries, plan.devices)
