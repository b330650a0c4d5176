"""One dispatched child, as the machine that dispatched it knows it."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field

from pytest_sgpu.runners.candidates import Candidate
from pytest_sgpu.runners.links import trusted
from pytest_sgpu.runners.machine.actions import Stopped
from pytest_sgpu.runners.machine.sightings import (
    CANCELLED,
    COMPLETED,
    DISPATCHED,
    WORKER,
    Identity,
    JobSeen,
    JobsSeen,
    RunSeen,
)
from pytest_sgpu.runners.ports import Attempt
from pytest_sgpu.runners.settings.inputs import Parent
from pytest_sgpu.runners.text import one_line

QUEUED = "queued"
SUCCESS = "success"
REQUEST_ID = re.compile(r"sgpu-[0-9]+-[0-9]+-[0-9]+-[0-9]+-[0-9a-f]{16}")


def request_id(parent: Parent, worker: int, number: int, nonce: str) -> str:
    """Name a dispatch as no other one is named (R47); ``nonce`` is 16 hexadecimal digits."""
    return f"sgpu-{parent.run_id}-{parent.attempt}-{worker}-{number}-{nonce}"


@dataclass(slots=True)
class Moment:
    """The present, in monotonic seconds, shared by the parts of one machine."""

    now: float = 0.0


@dataclass(slots=True)
class Child:
    """What is known of it. Times are monotonic seconds of the look that showed it first; None: not seen yet."""

    number: int
    worker: int
    candidate: Candidate
    request_id: str
    head_sha: str
    workflow: str
    server_url: str = ""  # links of the API that lead elsewhere are not followed
    sent_at: float = math.inf  # the dispatch; as long as it is on its way it is the last of all workers
    dispatched_at: float = 0.0
    run_id: int = 0
    run_url: str = ""
    run: RunSeen | None = None
    job: JobSeen | None = None
    seen_at: float | None = None
    queued_at: float | None = None
    allocated_at: float | None = None
    given_up_at: float | None = None
    ended_at: float | None = None
    look_began: float = 0.0
    cancelling: bool = False  # its cancellation was accepted
    done: bool = False  # seen to have ended: nothing is left to clean up
    outcome: str = ""
    stranger: str = ""  # what the run turned out to be, when it is certainly not the one that was dispatched
    twins: tuple[int, ...] = ()  # runs of the same name that were not seen to end
    problems: tuple[str, ...] = field(default=("nothing seen",))

    @property
    def identity(self) -> Identity:
        """What its run has to be."""
        return Identity(self.run_id, self.request_id, self.workflow, self.head_sha)

    def due(self, execution_seconds: float) -> float:
        """Give when its time is over: in the queue counted from the first look that showed it queued (R78).

        A job that is not even queued (its run is pending, say) has as long to get there, so that every wait ends.
        """
        if self.allocated_at is not None:
            return self.allocated_at + execution_seconds
        since = self.queued_at if self.queued_at is not None else self.seen_at
        return (since if since is not None else self.dispatched_at) + self.candidate.queue_seconds

    @property
    def shown(self) -> str:
        """Give both states and the runner, for a log."""
        if not self.run or not self.job:
            return "nothing"
        return f"run {self.run.shown}, job {self.job.shown}, runner {self.job.runner or 'none'}"

    @property
    def fields(self) -> dict[str, object]:
        """Give the same for the timeline."""
        if not self.run or not self.job:
            return {}
        return {"run_id": self.run_id, "run": self.run.shown, "job": self.job.shown, "runner": self.job.runner}

    @property
    def phase_began(self) -> float:
        """When the present phase began, for the distance of looks."""
        known = (self.allocated_at, self.queued_at, self.seen_at, self.dispatched_at)
        return next(time for time in known if time is not None)

    @property
    def ended(self) -> bool:
        """Whether both its run and its job are completed and say how."""
        return bool(self.run and self.run.ended and self.job and self.job.ended)

    @property
    def over(self) -> bool:
        """Whether its run or its job is completed, even if it does not say how yet, or the other lags behind."""
        return any(seen and seen.status == COMPLETED for seen in (self.run, self.job))

    @property
    def succeeded(self) -> bool:
        """Only success of both is success (R96)."""
        return bool(self.run and self.run.conclusion == SUCCESS and self.job and self.job.conclusion == SUCCESS)

    @property
    def cancelled_unexecuted(self) -> bool:
        """Whether it is proven that the work never began and never will (R84)."""
        if not self.ended or self.allocated_at is not None or not self.run or not self.job:
            return False
        return self.run.conclusion == self.job.conclusion == CANCELLED and not self.job.evidence

    def see_run(self, run: RunSeen) -> None:
        """Take a look at the run; raises ``Stopped(identity_mismatch)`` when it is no longer the same (R71)."""
        problems = self.identity.differences(run)
        if problems:
            raise Stopped(
                "identity_mismatch",
                f"run {self.run_id} is no longer what was dispatched: {one_line('; '.join(problems))}",
            )
        self.run = run
        self.run_url = trusted(run.url, self.server_url) or self.run_url

    def see_jobs(self, seen: JobsSeen, now: float) -> None:
        """Take a look at the jobs; raises ``Stopped`` when they are not the one job that was seen before."""
        job = worker_job(self.run_id, seen)
        if job is None:
            raise Stopped("contract", f"run {self.run_id}: its job {WORKER!r} is no longer listed")
        if self.job and job.id != self.job.id:
            raise Stopped("identity_mismatch", f"run {self.run_id}: job {self.job.id} became job {job.id}")
        self.job = job
        self.seen_at = now if self.seen_at is None else self.seen_at
        if job.status == QUEUED and self.queued_at is None:
            self.queued_at = now
        if job.evidence and self.allocated_at is None:
            self.allocated_at = now  # for good: no later look takes it back (R92)

    @property
    def state(self) -> dict[str, str]:
        """What a cleanup needs to end it; with twins the name alone, by which all are found."""
        run_id = "" if self.twins else str(self.run_id or "")
        return {"run-id": run_id, "request-id": self.request_id, "workflow": self.workflow}

    @property
    def named(self) -> str:
        """What to look for by hand."""
        return ", ".join(map(str, filter(None, (self.run_id, *self.twins)))) or self.request_id

    def unlike(self, run: RunSeen) -> bool:
        """Tell whether a run is not what was dispatched, and keep in what it differs."""
        self.problems = self.identity.differences(run)
        self.stranger = "" if run.title == self.request_id else foreign(run, self.workflow)
        return bool(self.problems)

    def attempt(self, now: float) -> Attempt:
        """Give the public record of this dispatch; ``now`` ends what is still going on."""
        end = self.ended_at if self.ended_at is not None else now
        queued = self.queued_at if self.queued_at is not None else self.seen_at
        until = next((time for time in (self.allocated_at, self.given_up_at) if time is not None), end)
        return Attempt(
            number=self.number,
            runner=self.candidate.runner,
            request_id=self.request_id,
            run_id=self.run_id,
            run_url=self.run_url,
            job_id=self.job.id if self.job else 0,
            job_url=trusted(self.job.url, self.server_url) if self.job else "",
            queued_seconds=max(0.0, until - queued) if queued is not None else 0.0,
            executed_seconds=max(0.0, end - self.allocated_at) if self.allocated_at is not None else 0.0,
            outcome=self.outcome,
            worker=self.worker,
        )


def foreign(run: RunSeen, workflow: str) -> str:
    """Say what a run with another name certainly is, when that is none of ours; "" when it may be ours.

    Without a run-name the title of our own child is that of its workflow; the name of another request is not.
    """
    path = run.path.partition("@")[0]
    if REQUEST_ID.fullmatch(run.title):
        return f"the child of another coordinator, {run.title}"
    if run.event not in ("", DISPATCHED):
        return f"a run for the event {one_line(run.event, 40)}"
    if path and workflow and path != f".github/workflows/{workflow}":
        return f"a run of {one_line(path, 120)}"
    return ""


def worker_job(run_id: int, seen: JobsSeen) -> JobSeen | None:
    """Give the one job of a child; None while it has none. Raises ``Stopped(contract)`` for any other (R52)."""
    if seen.total > 1 or len(seen.jobs) > 1:
        names = ", ".join(one_line(job.name, 40) for job in seen.jobs[:5])
        raise Stopped(
            "contract", f"run {run_id} has {seen.total} jobs ({names}); a child has one job, named {WORKER!r}"
        )
    if not seen.jobs:
        return None
    (job,) = seen.jobs
    if job.name != WORKER:
        blanks = " with blanks around it" if job.name.strip() == WORKER else ""
        name = f"{one_line(job.name, 80)!r}{blanks}"
        raise Stopped("contract", f"run {run_id}: its job is named {name}, expected {WORKER!r}")
    if job.run_id != run_id or job.attempt not in (0, 1) or not job.id:
        found = f"job {job.id} of run {job.run_id}, attempt {job.attempt}"
        raise Stopped("identity_mismatch", f"expected a job of run {run_id}, attempt 1; found {found}")
    return job
