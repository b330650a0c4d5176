"""Watch one child: until it is visible, until a runner takes it or its time in the queue is over, until it ends.

Generators of actions, driven by ``acquire``.
"""

from __future__ import annotations

from collections.abc import Generator

from pytest_sgpu.runners.machine.actions import (
    Action,
    Cancel,
    Failure,
    Note,
    Observation,
    ReadJobs,
    ReadRun,
    ReadSource,
    Save,
    Stopped,
    Trouble,
    Wait,
    stopped_by,
)
from pytest_sgpu.runners.machine.child import Child, Moment, worker_job
from pytest_sgpu.runners.machine.cleaning import ASK_AGAIN, EVERY, WINDOW
from pytest_sgpu.runners.machine.parent import check_parent, check_source
from pytest_sgpu.runners.machine.polling import next_look
from pytest_sgpu.runners.machine.sightings import JobsSeen, RunSeen
from pytest_sgpu.runners.settings.inputs import Settings
from pytest_sgpu.runners.text import duration

STARTUP = 120.0  # R65
FIRST_LOOK = 15.0  # R66
STARTUP_EVERY = 5.0  # R68

Steps = Generator[Action, Observation, None]


def drift(settings: Settings, *, source: bool) -> Steps:
    """Check that the parent is still this attempt, and that the source ref has not moved (R97-R102)."""
    check_parent(settings.parent, (yield ReadRun(settings.parent.run_id)))
    if source:
        check_source(settings.source_ref, settings.source_sha, (yield ReadSource(settings.source_ref)))


class Watch:
    """The watch of one child; ``moment`` is kept at the present by who drives it."""

    def __init__(self, child: Child, settings: Settings, moment: Moment) -> None:
        self._child = child
        self._settings = settings
        self._moment = moment

    # -- start-up ------------------------------------------------------------------------------------------

    def startup(self) -> Steps:
        """Come back when run and job are visible and are exactly what was dispatched (R65-R70)."""
        child = self._child
        by = child.dispatched_at + STARTUP
        yield Wait(child.dispatched_at + FIRST_LOOK)
        while True:
            began = self._moment.now
            if (yield from self._visible(by)):
                yield from self._allocated()
                yield self._looked(0, self._next() - self._moment.now)
                return
            text = f"child {child.run_id} is not visible yet: {'; '.join(child.problems)}"
            if began >= by or self._moment.now >= by:
                raise Stopped("startup_timeout", f"not within {STARTUP:.0f} s: {text}")
            yield Note("startup", text)
            yield Wait(min(self._moment.now + STARTUP_EVERY, by))

    def _visible(self, by: float) -> Generator[Action, Observation, bool]:
        child = self._child
        seen = yield ReadRun(child.run_id, by, patient=True)
        child.look_began = seen.began
        if not self._answered(seen):
            return False
        run = seen.answer
        assert isinstance(run, RunSeen)
        if child.unlike(run):
            return False
        # The second half of a look that began in time is asked for, even when the first took long (R72).
        seen = yield ReadJobs(child.run_id, by if self._moment.now <= by else None, patient=True)
        if not self._answered(seen):
            return False
        jobs = seen.answer
        assert isinstance(jobs, JobsSeen)
        if jobs.total == 1 and jobs.jobs and jobs.jobs[0].hollow:
            child.problems = (f"run {run.shown}, a job without its number or that of its run",)
            return False
        if worker_job(child.run_id, jobs) is None:
            child.problems = (f"run {run.shown}, no job yet",)
            return False
        child.see_run(run)
        child.see_jobs(jobs, seen.ended)
        return True

    def _answered(self, seen: Observation) -> bool:
        child = self._child
        if seen.failure is None:
            return True
        if seen.failure.trouble not in (Trouble.MISSING, Trouble.LATE):
            raise stopped_by(seen.failure)
        child.problems = (seen.failure.text,)
        return False

    # -- queue and execution -------------------------------------------------------------------------------

    def watched(self) -> Generator[Action, Observation, bool]:
        """Watch a child to its end; give False when it was proven that no runner ever took it."""
        child, settings, rounds = self._child, self._settings, 0
        while not child.ended:
            due = child.due(settings.execution_seconds)
            if child.look_began >= due:  # that look was the fresh one (R79)
                if child.allocated_at is None and child.over:
                    yield from self._settled(rounds)
                    break
                if child.allocated_at is None:
                    yield from self._given_up()
                    return False
                budget = duration(settings.execution_seconds)
                raise Stopped("execution_timeout", f"child {child.run_id} did not end within its {budget} of execution")
            if self._moment.now < due:
                yield Wait(self._next())
            rounds += 1
            waiting = child.allocated_at is None
            yield from self._look(rounds)
            if waiting:
                yield from self._allocated()
            yield self._looked(rounds, self._next() - self._moment.now)
            if not child.ended and child.look_began < child.due(settings.execution_seconds):
                yield from drift(settings, source=child.allocated_at is None or not settings.pinned)
        child.ended_at = self._moment.now
        child.done = True
        yield Save({})
        if child.succeeded:
            child.outcome = "success"
            return True
        raise Stopped("worker_failed", f"child {child.run_id} did not succeed: {child.shown}")

    def _allocated(self) -> Steps:
        """Say that a runner took the child, when one did: from here on its end is the result (R92)."""
        child = self._child
        if child.allocated_at is not None:
            text = f"a runner took child {child.run_id}; no fallback from here on"
            yield Note("allocated", text, child.fields)

    def _settled(self, rounds: int) -> Steps:
        """Wait for the other half of a child that ended by itself in the queue: nothing is cancelled (R79, R93)."""
        child, by = self._child, self._moment.now + WINDOW
        while not child.ended:
            if self._moment.now >= by:
                text = f"child {child.run_id} ended by itself, and not in both its run and its job: {child.shown}"
                raise Stopped("worker_failed", text)
            yield Wait(min(self._moment.now + EVERY, by))
            yield from self._look(rounds)
            yield self._looked(rounds, EVERY)

    def _look(self, rounds: int) -> Steps:
        """Look at the jobs, and at the run whenever that can matter.

        In the queue the job decides (R76) and its look tells the attempt, so the run is read every other round:
        three or four reads a round stay below 240 an hour, dispatch and cleanup included (R74).
        """
        child = self._child
        due = child.due(self._settings.execution_seconds)
        calm = child.allocated_at is None and not child.over and rounds % 2 == 1 and self._moment.now < due
        if not calm:
            yield from self._look_at_run()
        seen = yield ReadJobs(child.run_id)
        if seen.failure:
            raise stopped_by(seen.failure)
        assert isinstance(seen.answer, JobsSeen)
        if calm:
            child.look_began = seen.began
        child.see_jobs(seen.answer, seen.ended)
        assert child.job
        if calm and (child.allocated_at is not None or child.job.ended):
            yield from self._look_at_run()

    def _look_at_run(self) -> Steps:
        child = self._child
        seen = yield ReadRun(child.run_id)
        if seen.failure:
            raise stopped_by(seen.failure)
        assert isinstance(seen.answer, RunSeen)
        child.look_began = seen.began
        child.see_run(seen.answer)

    def _next(self) -> float:
        child = self._child
        due = child.due(self._settings.execution_seconds)
        waiting = child.allocated_at is None
        return next_look(self._moment.now, child.phase_began, due, adaptive=self._settings.adaptive, waiting=waiting)

    def _looked(self, rounds: int, pause: float) -> Note:
        """Say what a look showed (R121, R122)."""
        child = self._child
        then = (
            "polling has finished"
            if child.ended
            else f"next look in {pause:.0f} s"
            if pause > 0
            else "its time is over"
        )
        since = f"{self._moment.now - child.dispatched_at:.0f} s since its dispatch"
        return Note(
            "look",
            f"round {rounds}, child {child.run_id}: {child.shown}; {since}; {then}",
            child.fields | {"round": rounds},
        )

    # -- giving a candidate up -----------------------------------------------------------------------------

    def _given_up(self) -> Steps:
        """Cancel a child that no runner took, and come back only when that is proven (R80-R89)."""
        child = self._child
        asked_at = self._moment.now
        by = asked_at + WINDOW
        waited = f"no runner within {duration(child.candidate.queue_seconds)}"
        child.given_up_at = asked_at
        yield Note("deadline", f"child {child.run_id}: {waited} at {child.candidate.labels}; cancelling it")
        yield from self._cancelling(by)
        answered, looks = self._moment.now, 0
        while True:
            looks += 1
            for effect in (ReadRun(child.run_id, by), ReadJobs(child.run_id, by)):
                yield from self._confirming(effect)
            yield self._confirmation(looks)
            if child.allocated_at is not None:
                raise Stopped(
                    "race",
                    f"a runner took child {child.run_id} while it was being cancelled; the work is not run again",
                )
            if child.cancelled_unexecuted and self._moment.now <= by:
                child.outcome, child.done, child.ended_at = "no_runner", True, self._moment.now
                yield Save({})
                return
            if self._moment.now >= by:
                raise self._unconfirmed()
            yield Wait(min(self._moment.now + EVERY, by))
            if not child.cancelling and not child.over and answered + ASK_AGAIN <= self._moment.now < by:
                yield from self._cancelling(by)
                answered = self._moment.now

    def _cancelling(self, by: float) -> Steps:
        """Ask for its end. A refusal since it has ended, or is not queued yet, tells less than the next looks."""
        child = self._child
        said = yield Cancel(child.run_id, by)
        child.cancelling = said.failure is None
        if said.failure and said.failure.trouble is not Trouble.CONFLICT:
            raise stopped_by(said.failure, late="cancel_unconfirmed")
        yield Note("cancel", f"child {child.run_id}: {said.failure.text}" if said.failure else "")

    def _confirming(self, effect: ReadRun | ReadJobs) -> Steps:
        child = self._child
        seen = yield effect
        if seen.failure:
            if seen.failure.trouble is Trouble.LATE:
                raise self._unconfirmed(seen.failure)
            raise stopped_by(seen.failure)
        if isinstance(seen.answer, RunSeen):
            child.see_run(seen.answer)
        else:
            assert isinstance(seen.answer, JobsSeen)
            child.see_jobs(seen.answer, seen.ended)

    def _confirmation(self, looks: int) -> Note:
        """Say what a look during cancellation showed: both states and the runner (R123)."""
        child = self._child
        return Note(
            "confirm", f"cancelling child {child.run_id}, look {looks}: {child.shown}", child.fields | {"round": looks}
        )

    def _unconfirmed(self, failure: Failure | None = None) -> Stopped:
        child = self._child
        child.done = child.ended  # it did end, but not as a cancellation that came before any execution
        text = f"the cancellation of child {child.run_id} is not confirmed within {WINDOW:.0f} s"
        tried = f"; {failure.text}" if failure and failure.tried else ""
        return Stopped("cancel_unconfirmed", f"{text}; last seen: {child.shown}{tried}")
