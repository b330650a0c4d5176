"""The parent run: whether it is the active run that it says it is, before anything is dispatched or run.

The same check for the coordinator and for the guard in the child (R131): one grace of two minutes, never renewed.
"""

from __future__ import annotations

from collections.abc import Generator

from pytest_sgpu.runners.machine.actions import Action, Note, Observation, ReadRun, Stopped, Trouble, Wait, stopped_by
from pytest_sgpu.runners.machine.sightings import CANCELLED, COMPLETED, RunSeen
from pytest_sgpu.runners.settings.inputs import Parent
from pytest_sgpu.runners.text import one_line

GRACE = 120.0  # R58
EVERY = 5.0  # R59
ACTIVE = "in_progress"
_COMING = frozenset(("queued", "requested", "pending"))


def parent_start(parent: Parent, now: float) -> Generator[Action, Observation, float]:
    """Wait until the parent is seen active; give the time of that. Raises ``Stopped(parent_not_active)``.

    Requests and their retries share the grace (R63): an answer that comes after it confirms nothing.
    """
    by = now + GRACE
    wanted = f"expected run {parent.run_id}, attempt {parent.attempt}, {ACTIVE}"
    while True:
        seen = yield ReadRun(parent.run_id, by)
        found = _found(parent, seen, wanted)
        yield Note("parent", f"parent: {wanted}; observed {found}", {"observed": found})
        run = seen.answer
        if isinstance(run, RunSeen) and run.status == ACTIVE and seen.ended <= by:
            return seen.ended
        if seen.ended >= by:
            if isinstance(run, RunSeen) and run.status == ACTIVE:
                found += f", and that {seen.ended - by:.1f} s too late"
            raise Stopped("parent_not_active", f"parent not active within {GRACE:.0f} s: {wanted}, found {found}")
        yield Wait(min(seen.ended + EVERY, by))


def _found(parent: Parent, seen: Observation, wanted: str) -> str:
    """Say what was observed while it may still become active; raise when it cannot."""
    if seen.failure:
        if seen.failure.trouble is Trouble.LATE:
            raise Stopped("parent_not_active", f"parent not active within {GRACE:.0f} s: {wanted}; {seen.failure.text}")
        if seen.failure.trouble is not Trouble.MISSING:
            raise stopped_by(seen.failure)
        return "404, not visible"
    run = seen.answer
    assert isinstance(run, RunSeen)
    found = shown(run)
    if (run.id, run.attempt) != (parent.run_id, parent.attempt) or run.status not in _COMING | {ACTIVE}:
        raise Stopped("parent_not_active", f"parent not active: {wanted}, found {found}")
    return found


def shown(run: RunSeen) -> str:
    """Give the fields that were compared, for a log or an error."""
    return f"run {run.id}, attempt {run.attempt}, {run.shown}"


def check_parent(parent: Parent, seen: Observation) -> None:
    """Raise ``Stopped`` unless the parent, seen active before, is still active in the same attempt (R102).

    The grace of the start is not renewed (R62): what was tolerated then is an end now.
    """
    if seen.failure:
        if seen.failure.trouble is Trouble.MISSING:
            raise Stopped("parent_changed", f"the parent is gone: {seen.failure.text}")
        raise stopped_by(seen.failure)
    run = seen.answer
    assert isinstance(run, RunSeen)
    if (run.id, run.attempt) != (parent.run_id, parent.attempt):
        wanted = f"expected run {parent.run_id}, attempt {parent.attempt}"
        raise Stopped("parent_changed", f"the parent changed: {wanted}; found {shown(run)}")
    if run.status == COMPLETED and run.conclusion == CANCELLED:
        raise Stopped("parent_cancelled", f"the parent was cancelled: {shown(run)}")
    if run.status != ACTIVE:
        raise Stopped("parent_changed", f"the parent is no longer active: {shown(run)}")


def check_source(ref: str, sha: str, seen: Observation) -> None:
    """Raise ``Stopped(source_changed)`` unless ``ref`` still points at ``sha`` (R97, R132)."""
    if seen.failure:
        if seen.failure.trouble is Trouble.MISSING:  # a merged or closed pull request loses its merge ref
            raise Stopped("source_changed", f"{ref} is gone, or the token cannot read it; expected {sha}")
        raise stopped_by(seen.failure)
    if not isinstance(seen.answer, str) or seen.answer.lower() != sha.lower():
        raise Stopped("source_changed", f"{ref} moved: expected {sha}, found {one_line(seen.answer, 80)}")
