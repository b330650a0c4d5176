"""Runs and jobs as the REST API shows them at a given time, with its delays and its odd habits."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone

from .children import Child

SERVER = "https://github.com"
Json = dict[str, object]


def stamp(epoch: float) -> str:
    """Give seconds since the epoch as the API writes a time."""
    return datetime.fromtimestamp(int(epoch), tz=timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


class View:
    """One child at one moment; ``epoch`` is the time of the server at the clock's start."""

    def __init__(self, child: Child, now: float, epoch: float, repository: str) -> None:
        self._child = child
        self._now = now
        self._epoch = epoch
        self._repository = repository

    def _since(self, after: float) -> bool:
        return self._now >= self._child.created + after

    @property
    def visible(self) -> bool:
        """Whether the run can be read."""
        return self._since(self._child.plan.visible_after)

    @property
    def listed(self) -> bool:
        """Whether the run is in the list of runs."""
        return self.visible and self._since(self._child.plan.listed_after)

    @property
    def queued(self) -> bool:
        """Whether it has come as far as a queue; before, there is no job and nothing to cancel."""
        return self._since(self._child.plan.queued_after)

    @property
    def jobs_visible(self) -> bool:
        """Whether its jobs can be read."""
        return self.visible and self._since(self._child.plan.jobs_after)

    def _begun(self) -> float | None:
        """Give when the first step starts."""
        runner, ended = self._child.runner_at(), self._child.ended()
        begun = None if runner is None else runner + self._child.plan.starts_after
        return None if begun is None or (ended is not None and ended < begun) else begun

    def _status(self, now: float, lag: float = 0.0) -> str:
        begun = self._begun()
        if self._child.completed(now):
            return "completed"
        if begun is not None and begun + lag <= now:
            return "in_progress"
        return self._child.plan.queued_status

    def _concluded(self, lag: float) -> bool:
        ended = self._child.ended()
        return ended is not None and ended + lag + self._child.plan.conclusion_lag <= self._now

    def _page(self) -> str:
        return f"{SERVER}/{self._repository}/actions/runs/{self._child.run_id}"

    def _time(self, at: float | None) -> str | None:
        return None if at is None or at > self._now else stamp(self._epoch + at)

    def run(self, path_suffix: str, workflow: str) -> Json:
        """Give the run."""
        child, plan = self._child, self._child.plan
        status = self._status(max(self._now - plan.run_lag, child.created)) if self.queued else "requested"
        served: Json = {
            "id": child.run_id,
            "name": "Runner worker",
            "display_title": child.request_id,
            "head_branch": child.ref.removeprefix("refs/heads/").removeprefix("refs/tags/"),
            "head_sha": child.head_sha,
            "path": f".github/workflows/{workflow}{path_suffix}",
            "run_number": child.number,
            "run_attempt": 1,
            "event": "workflow_dispatch",
            "status": status,
            "conclusion": child.run_conclusion() if self._concluded(plan.run_lag) else None,
            "workflow_id": 77,
            "url": f"https://api.github.com/repos/{self._repository}/actions/runs/{child.run_id}",
            "html_url": self._page(),
            "created_at": stamp(self._epoch + child.created),
            "run_started_at": stamp(self._epoch + child.created),
            "updated_at": stamp(self._epoch + self._now),
        }
        return child.run_drift.onto(served, self._now)

    def jobs(self) -> list[Json]:
        """Give its jobs: one, unless the plan says otherwise."""
        return list(self._jobs()) if self.queued else []

    def _jobs(self) -> Iterator[Json]:
        worker = self._job()
        for extra in range(self._child.plan.jobs):
            name = {} if extra == 0 else {"id": self._child.job_id + extra, "name": f"job-{extra + 1}"}
            yield {**worker, **name}

    def _job(self) -> Json:
        child, plan = self._child, self._child.plan
        begun = self._begun()
        served: Json = {
            "id": child.job_id,
            "run_id": child.run_id,
            "run_attempt": 1,
            "head_sha": child.head_sha,
            "head_branch": child.ref.removeprefix("refs/heads/").removeprefix("refs/tags/"),
            "workflow_name": "Runner worker",
            "name": plan.job_name,
            "status": self._status(self._now, plan.job_lag),
            "conclusion": child.conclusion() if self._concluded(0.0) else None,
            "created_at": stamp(self._epoch + child.created),
            # Never null, also while it is queued.
            "started_at": self._time(begun) or stamp(self._epoch + child.created),
            "completed_at": self._time(child.ended()),
            "steps": [] if begun is None or begun > self._now else self._steps(begun),
            "labels": [child.labels],
            "url": f"https://api.github.com/repos/{self._repository}/actions/jobs/{child.job_id}",
            "html_url": f"{self._page()}/job/{child.job_id}",
            **self._runner(),
        }
        return child.job_drift.onto(served, self._now)

    def _runner(self) -> Json:
        child, plan = self._child, self._child.plan
        if child.allocated(self._now - plan.runner_lag):
            group = child.runner.get("group", "")
            name = f"runner-{child.number}"
            return {
                "runner_id": 4000 + child.number,
                "runner_name": name,
                "runner_group_id": 9,
                "runner_group_name": group,
            }
        number, text = (None, None) if plan.null_runner else (0, "")
        return {"runner_id": number, "runner_name": text, "runner_group_id": number, "runner_group_name": text}

    def _steps(self, begun: float) -> list[Json]:
        child = self._child
        over = child.completed(self._now)
        first: Json = {"name": "Set up job", "number": 1, "status": "completed", "conclusion": "success"}
        second: Json = {"name": "Workload", "number": 2, "status": "completed" if over else "in_progress"}
        second["conclusion"] = child.conclusion() if over else None
        for step in (first, second):
            step["started_at"] = self._time(begun)
            step["completed_at"] = self._time(begun if step is first else child.ended())
        return [first, second]
