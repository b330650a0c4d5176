"""The modelled repository: its refs, the parent run, its children; and the scripts that tests write for them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from .children import Child, Fields, Overlay, Plan
from .clock import FakeClock
from .faults import Fault, Faults, RateLimit
from .served import SERVER, Json, View

SOURCE_REF = "refs/pull/7/merge"
SOURCE_SHA = "5" * 39 + "a"
MAIN_SHA = "c" * 40
WORKFLOW = "runner-worker.yml"


class Repository:
    """State by time. Nothing is scheduled: what is true at a moment follows from the scripts and the moment."""

    def __init__(self, clock: FakeClock, repository: str = "o/r") -> None:
        self.clock = clock
        self.repository = repository
        self.workflow = WORKFLOW
        self.path_suffix = ""
        self.parent_id = 1
        self.source_ref, self.source_sha, self.main_sha = SOURCE_REF, SOURCE_SHA, MAIN_SHA
        self.max_live = 1
        self.children: list[Child] = []
        self.earlier: list[Child] = []
        self.faults = Faults()
        self.limit = RateLimit()
        self._epoch = clock.time() - clock.elapsed
        self._parent = Overlay()
        self._refs: dict[str, Overlay] = {}
        self._plans: list[Plan] = []
        self._pools: dict[str, Plan] = {}
        self._usual = Plan()
        self._next_drift: tuple[Overlay, Overlay] = (Overlay(), Overlay())
        self.move(self.source_ref, self.source_sha)
        self.move("refs/heads/main", self.main_sha)

    def server_time(self) -> float:
        """Seconds since the epoch by the server, which the client's wall clock need not agree with."""
        return self._epoch + self.clock.elapsed

    @property
    def epoch(self) -> float:
        """The server's time at the clock's start."""
        return self._epoch

    def plan(self, **plan: Any) -> None:
        """Say what becomes of the next dispatch; further calls are for the ones after it."""
        self._plans.append(Plan(**plan))

    def plan_all(self, **plan: Any) -> None:
        """Say what becomes of every dispatch that has no plan of its own."""
        self._usual = Plan(**plan)

    def pool(self, labels: str, **plan: Any) -> None:
        """Say what becomes of every dispatch to this label that has no plan of its own."""
        self._pools[labels] = Plan(**plan)

    def never(self, times: int = 1) -> None:
        """Let the next ``times`` dispatches wait for a runner that does not come."""
        for _ in range(times):
            self.plan(runner_after=None)

    def drift(
        self, number: int | None, at: float | None = None, *, run: Fields | None = None, job: Fields | None = None
    ) -> None:
        """Change what is served of child ``number``, None being the next to come, from that time on."""
        overlays = self._next_drift
        if number is not None:
            child = self.children[number - 1]
            overlays = (child.run_drift, child.job_drift)
        for overlay, fields in zip(overlays, (run, job), strict=True):
            if fields:
                overlay.set(self._at(at), fields)

    def parent(self, at: float | None = None, **fields: Any) -> None:
        """Change what is served of the parent run; ``missing=True`` is a 404."""
        self._parent.set(self._at(at), fields)

    def parent_cancelled(self, at: float | None = None) -> None:
        """Let somebody cancel the parent run."""
        self.parent(at, status="completed", conclusion="cancelled")

    def parent_rerun(self, at: float | None = None) -> None:
        """Let somebody rerun the parent run."""
        self.parent(at, status="in_progress", conclusion=None, run_attempt=2)

    def move(self, ref: str, sha: str | None, at: float | None = None, tag_object: str = "") -> None:
        """Let a full ref point at ``sha`` (None: be gone), through an annotated tag where one is given."""
        self._refs.setdefault(ref, Overlay()).set(self._at(at), {"sha": sha, "tag": tag_object})

    def past(
        self,
        labels: str,
        waited: float | None,
        *,
        ran: float = 60.0,
        ago: float = 3600.0,
        conclusion: str = "success",
        group: str = "g",
    ) -> Child:
        """Add a run of the same workflow that was dispatched ``ago``; without ``waited``, no runner came in 600 s."""
        plan = Plan(runner_after=None, ends_after=600.0, conclusion="cancelled")
        if waited is not None:
            plan = Plan(runner_after=waited, runs_for=ran, conclusion=conclusion)
        number = len(self.earlier) + 1
        inputs = {"request-id": f"earlier-{number}", "runner": json.dumps({"group": group, "labels": labels})}
        created = self.clock.elapsed - ago
        child = Child(number, 500 + number, inputs, "refs/heads/main", self.main_sha, created, plan, own=False)
        self.earlier.append(child)
        return child

    def fail(
        self,
        endpoint: str,
        *,
        times: int | None = 1,
        skip: int = 0,
        run_id: int | None = None,
        since: float = 0.0,
        until: float = math.inf,
        **fault: Any,
    ) -> None:
        """Let requests go wrong: see ``Fault`` for what goes wrong, ``Rule`` for which."""
        rule = self.faults.add(endpoint, Fault(**fault), times=times, skip=skip, run_id=run_id)
        rule.since, rule.until = since, until

    def outage(self, at: float, seconds: float, error: str = "no route to host") -> None:
        """Let every request of that time get no answer."""
        self.fail("*", times=None, since=at, until=at + seconds, error=error)

    def rate(self, remaining: int, reset_in: float = 3600.0, status: int = 403) -> None:
        """Leave so many requests until the limit is reset."""
        self.limit.spend_all_but(remaining, self.server_time() + reset_in, status)

    def start_child(self, inputs: Mapping[str, str], ref: str = "main") -> Child:
        """Dispatch, without asking whether the request is right."""
        full = self.full_ref(ref) or ref
        child = Child(
            number=len(self.children) + 1,
            run_id=1001 + len(self.children),
            inputs=dict(inputs),
            ref=full,
            head_sha=self.sha(full) or "",
            created=self.clock.elapsed,
            plan=Plan(),
        )
        usual = self._pools.get(child.labels, self._usual)
        child.plan = self._plans.pop(0) if self._plans else usual
        child.run_drift, child.job_drift = self._next_drift
        self._next_drift = (Overlay(), Overlay())
        self.children.append(child)
        return child

    def child(self, run_id: int) -> Child | None:
        """Give the child with that id."""
        return next((child for child in self.children + self.earlier if child.run_id == run_id), None)

    def view(self, child: Child) -> View:
        """Give what can be seen of a child now."""
        return View(child, self.clock.elapsed, self._epoch, self.repository)

    def live(self, at: float | None = None) -> list[Child]:
        """Give the children that are dispatched and not over at that time."""
        now = self._at(at)
        return [child for child in self.children if child.created <= now and not child.completed(now)]

    def parent_run(self) -> Json | None:
        """Give the parent run; None while it cannot be seen."""
        served: Json = {
            "id": self.parent_id,
            "name": "Runner check",
            "display_title": "Runner check",
            "head_sha": self.main_sha,
            "path": ".github/workflows/runner-check.yml",
            "run_attempt": 1,
            "event": "pull_request",
            "status": "in_progress",
            "conclusion": None,
            "html_url": f"{SERVER}/{self.repository}/actions/runs/{self.parent_id}",
        }
        served = self._parent.onto(served, self.clock.elapsed)
        return None if served.pop("missing", False) else served

    def sha(self, full_ref: str) -> str | None:
        """Give the commit that a full ref points at now."""
        overlay = self._refs.get(full_ref)
        sha = overlay.at(self.clock.elapsed).get("sha") if overlay else None
        return sha if isinstance(sha, str) else None

    def tag_object(self, full_ref: str) -> str:
        """Give the annotated tag that stands between a ref and its commit."""
        return str(self._refs[full_ref].at(self.clock.elapsed).get("tag", ""))

    def full_ref(self, name: str) -> str | None:
        """Give the full ref of a branch or a tag."""
        names = (name, f"refs/heads/{name}", f"refs/tags/{name}", f"refs/{name}")
        return next((full for full in names if self.sha(full)), None)

    def knows_commit(self, sha: str) -> bool:
        """Say whether a ref points at it now."""
        return any(self.sha(ref) == sha for ref in self._refs)

    def _at(self, at: float | None) -> float:
        return self.clock.elapsed if at is None else at
