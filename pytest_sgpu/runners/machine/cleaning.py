"""End a child that may still be active: cancel it, and look until it has ended (R112, R113).

Used where a sequence stops, and by the post step. It never stops for an error while there is time: what was asked
for twice may be heard the second time, and an unconfirmed end is told as such, with the run.
"""

from __future__ import annotations

from collections.abc import Generator

from pytest_sgpu.runners.machine.actions import Action, Cancel, FindRuns, Note, Observation, ReadRun, Trouble, Wait
from pytest_sgpu.runners.machine.sightings import COMPLETED, RunSeen

WINDOW = 120.0  # seconds (R82), also for a search by name
EVERY = 5.0  # R83
ASK_AGAIN = 30.0  # a run that is just being made refuses its cancellation ("not queued yet"), also with 404
_FORCED = 45.0  # a cancelled job's post steps have five minutes in all, so there is no room for another whole window

Steps = Generator[Action, Observation, bool]
Search = Generator[Action, Observation, tuple[tuple[RunSeen, ...], str]]


def clean(run_id: int, now: float, *, force: bool, accepted: bool = False) -> Steps:
    """Cancel a run and look until it has ended; give whether it was seen to end.

    ``accepted``: its cancellation was asked for and accepted before. ``force``: at the end of the window, force it.
    """
    if (yield from _cancelled(run_id, now, WINDOW, force=False, accepted=accepted)):
        return True
    if not force:
        return False
    yield Note("cleanup", f"run {run_id} has not ended after {WINDOW:.0f} s: forcing it", {"run_id": run_id})
    now = (yield Wait(now)).ended
    return (yield from _cancelled(run_id, now, _FORCED, force=True, accepted=False))


def _cancelled(run_id: int, now: float, window: float, *, force: bool, accepted: bool) -> Steps:
    by = now + window
    asked = -ASK_AGAIN + now
    while True:
        if not accepted and now - asked >= ASK_AGAIN:
            asked = now
            said = yield Cancel(run_id, by, force)
            accepted = said.failure is None
            now = said.ended
            if said.failure:
                yield Note("cleanup", f"cleanup of run {run_id}: {said.failure.text}", {"run_id": run_id})
                if said.failure.trouble is Trouble.AUTH:
                    return False
        seen = yield ReadRun(run_id, by)
        now = seen.ended
        run = seen.answer
        if isinstance(run, RunSeen) and run.id == run_id:
            yield Note("cleanup", f"cleanup of run {run_id}: {run.shown}", {"run_id": run_id, "run": run.shown})
            if run.status == COMPLETED:
                return True
        elif seen.failure:
            yield Note("cleanup", f"cleanup of run {run_id}: {seen.failure.text}", {"run_id": run_id})
            if seen.failure.trouble is Trouble.AUTH:
                return False
        if now >= by:
            return False
        now = (yield Wait(min(now + EVERY, by))).ended


def find(workflow: str, title: str, parent: int, now: float, window: float) -> Search:
    """Look for runs by their unique name, after a dispatch whose answer does not tell (R57).

    Gives the runs, and without any what to add to "not found".
    """
    by = now + window
    while True:
        seen = yield FindRuns(workflow, title, by)
        now = seen.ended
        # To cancel the parent would be to cancel ourselves, whatever its title says.
        runs = [run for run in seen.answer if run.id != parent] if isinstance(seen.answer, tuple) else []
        if runs:
            return tuple(runs), ""
        if seen.failure:
            yield Note("recover", f"looking for {title}: {seen.failure.text}")
            if seen.failure.trouble is Trouble.AUTH:
                return (), f", the search was given up: {seen.failure.text}"
        if now >= by:
            return (), f" within {window:.0f} s"
        now = (yield Wait(min(now + EVERY, by))).ended
