"""What the API shows of a run and its jobs: decoded, compared with what is expected, and read as evidence.

Shapes are those of REST version 2026-03-10. A field that is missing or of another type becomes 0 or "": it then
equals nothing that is expected, so no identity is ever accepted on a hollow answer.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from pytest_sgpu.runners.text import one_line

COMPLETED = "completed"
CANCELLED = "cancelled"
DISPATCHED = "workflow_dispatch"  # the event of every child
WORKER = "worker"  # the name of the child's one job (R52)
MOST_ID = 1 << 63  # ids are int64
_SHA = re.compile(r"[A-Za-z0-9]{1,128}")  # a name that is compared and shown, whatever the hash of the day is
_BEGUN_STEP = frozenset(("in_progress", COMPLETED))


class _Seen:
    """What a run and a job have in common: how far they are."""

    __slots__ = ()
    status: str
    conclusion: str

    @property
    def ended(self) -> bool:
        """Whether it is completed and says how; a conclusion may come later than the status (R85)."""
        return self.status == COMPLETED and bool(self.conclusion)

    @property
    def shown(self) -> str:
        """Give the status, and the conclusion when there is one, for a log."""
        return one_line("/".join(part for part in (self.status or "unknown", self.conclusion) if part), 60)


@dataclass(frozen=True, slots=True)
class RunSeen(_Seen):
    """One look at a workflow run."""

    id: int
    attempt: int
    event: str
    path: str
    head_sha: str
    title: str
    status: str
    conclusion: str
    url: str


@dataclass(frozen=True, slots=True)
class JobSeen(_Seen):
    """One look at a job. ``runner`` is its name, or its number, or "" when none was assigned."""

    id: int
    run_id: int
    attempt: int
    name: str
    status: str
    conclusion: str
    runner: str
    begun: bool
    url: str

    @property
    def hollow(self) -> bool:
        """Whether it does not say yet which job of which run it is: metadata that is still to come (R65)."""
        return not self.id or not self.run_id

    @property
    def evidence(self) -> bool:
        """Whether a runner took it: assigned, a step begun, in progress, or passed without leaving a trace (R75)."""
        return bool(self.runner) or self.begun or self.status == "in_progress" or self.conclusion == "success"


@dataclass(frozen=True, slots=True)
class JobsSeen:
    """The jobs of a run. ``total`` is what the API counts, which one page need not hold."""

    total: int
    jobs: tuple[JobSeen, ...]


@dataclass(frozen=True, slots=True)
class Identity:
    """What the dispatched run has to be (R69)."""

    run_id: int
    title: str
    workflow: str
    head_sha: str

    def differences(self, run: RunSeen) -> tuple[str, ...]:
        """Give each field that differs as ``field: expected X, found Y``; none when it is the run."""
        pairs: tuple[tuple[str, object, object], ...] = (
            ("id", self.run_id, run.id),
            ("run_attempt", 1, run.attempt),
            ("event", DISPATCHED, run.event),
            ("path", f".github/workflows/{self.workflow}", run.path.partition("@")[0]),  # some answers add @ref
            ("head_sha", self.head_sha.lower(), run.head_sha.lower()),
            ("display_title", self.title, run.title),
        )
        return tuple(
            f"{name}: expected {wanted}, found {one_line(found, 80) or 'nothing'}"
            for name, wanted, found in pairs
            if wanted != found
        )


def run_seen(body: object) -> RunSeen | None:
    """Decode a run; None when ``body`` is no run at all."""
    if not isinstance(body, Mapping) or not 0 < _number(body.get("id")) < MOST_ID:
        return None
    return RunSeen(
        id=_number(body.get("id")),
        attempt=_number(body.get("run_attempt")),
        event=_text(body.get("event")),
        path=_text(body.get("path")),
        head_sha=_text(body.get("head_sha")),
        title=_text(body.get("display_title")),
        status=_text(body.get("status")),
        conclusion=_text(body.get("conclusion")),
        url=link(body.get("html_url")),
    )


def runs_seen(body: object) -> tuple[RunSeen, ...] | None:
    """Decode a list of runs; None when ``body`` is no such list."""
    runs = body.get("workflow_runs") if isinstance(body, Mapping) else None
    if not isinstance(runs, list):
        return None
    return tuple(seen for run in runs if (seen := run_seen(run)))


def jobs_seen(body: object) -> JobsSeen | None:
    """Decode the jobs of a run; None when ``body`` is no list of jobs."""
    jobs = body.get("jobs") if isinstance(body, Mapping) else None
    if not isinstance(body, Mapping) or not isinstance(jobs, list) or not all(isinstance(job, Mapping) for job in jobs):
        return None
    total = body.get("total_count", len(jobs))
    return JobsSeen(max(_number(total), len(jobs)), tuple(_job(job) for job in jobs))


def sha_seen(body: object) -> str | None:
    """Decode a commit, or a ref that points at one, to its SHA; None when it is neither."""
    if not isinstance(body, Mapping):
        return None
    thing = body.get("object")
    sha = _text(thing.get("sha") if isinstance(thing, Mapping) else body.get("sha"))
    return sha if _SHA.fullmatch(sha) else None


def _job(job: Mapping[str, object]) -> JobSeen:
    steps = job.get("steps")
    begun = isinstance(steps, list) and any(_begun(step) for step in steps)
    number = _number(job.get("runner_id"))
    # Unassigned is null by the schema and 0 and "" in life; the group says nothing: a hosted runner may have group 0.
    runner = one_line(_text(job.get("runner_name")), 100) or (str(number) if number else "")
    return JobSeen(
        id=_number(job.get("id")),
        run_id=_number(job.get("run_id")),
        attempt=_number(job.get("run_attempt")),
        name=_text(job.get("name")),
        status=_text(job.get("status")),
        conclusion=_text(job.get("conclusion")),
        runner=runner,
        begun=begun,
        url=link(job.get("html_url")),
    )


def _begun(step: object) -> bool:
    return isinstance(step, Mapping) and (
        _text(step.get("status")) in _BEGUN_STEP or bool(_text(step.get("started_at")))
    )


def _number(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def link(value: object) -> str:
    """Give a link that can be printed and clicked, or nothing."""
    text = _text(value)
    return text if text.startswith(("https://", "http://")) and one_line(text, 2000) == text and " " not in text else ""
