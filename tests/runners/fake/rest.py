"""The REST API of the modelled repository, strict about what it is asked: whatever is odd is a 400, and noted."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from urllib.parse import unquote

from .children import Child
from .repository import Repository
from .served import SERVER, Json

VERSION = "2026-03-10"
INPUTS = {
    "request-id",
    "parent-run-id",
    "parent-run-attempt",
    "source-ref",
    "source-sha",
    "runner",
    "workload",
}
_HEADERS = {
    "authorization",
    "accept",
    "x-github-api-version",
    "user-agent",
    "if-none-match",
    "content-type",
    "content-length",
    "host",
    "accept-encoding",
    "connection",
}
_MOST_INPUT = 65_535
_SHA = re.compile(r"[0-9a-f]{40}")
_LIST = "event created status branch head_sha actor exclude_pull_requests per_page page"
# Method, endpoint, the path after /repos/OWNER/NAME, the query names that it knows.
_ROUTES = (
    ("GET", "run", r"/actions/runs/(?P<run>\d+)", "exclude_pull_requests"),
    ("GET", "attempt", r"/actions/runs/(?P<run>\d+)/attempts/(?P<attempt>\d+)", "exclude_pull_requests"),
    ("GET", "jobs", r"/actions/runs/(?P<run>\d+)/jobs", "filter per_page page"),
    ("GET", "jobs", r"/actions/runs/(?P<run>\d+)/attempts/(?P<attempt>\d+)/jobs", "per_page page"),
    ("POST", "cancel", r"/actions/runs/(?P<run>\d+)/cancel", ""),
    ("POST", "force-cancel", r"/actions/runs/(?P<run>\d+)/force-cancel", ""),
    ("POST", "dispatch", r"/actions/workflows/(?P<workflow>[^/]+)/dispatches", ""),
    ("GET", "runs", r"/actions/workflows/(?P<workflow>[^/]+)/runs", _LIST),
    ("GET", "ref", r"/git/ref/(?P<ref>.+)", ""),
    ("GET", "commit", r"/commits/(?P<ref>.+)", "per_page page"),
)


class OddError(Exception):
    """A request that a correct client does not make."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request, its endpoint found; header names in lower case."""

    method: str
    path: str
    query: Mapping[str, str]
    body: Mapping[str, object] | None
    headers: Mapping[str, str]
    endpoint: str = ""
    found: Mapping[str, str] = field(default_factory=dict)
    known: frozenset[str] = frozenset()

    @property
    def run_id(self) -> int:
        """The run that it is about; 0 for none."""
        return int(self.found.get("run", 0))


Answer = tuple[int, "Json | str"]


def find(repository: Repository, method: str, path: str) -> tuple[str, dict[str, str], frozenset[str]]:
    """Give the endpoint, what its path names, and the query names that it knows; an unknown one has no name."""
    prefix = f"/repos/{repository.repository}"
    for wanted, endpoint, pattern, known in _ROUTES:
        match = re.fullmatch(re.escape(prefix) + pattern, path)
        if match and method == wanted:
            found = {name: unquote(value) for name, value in match.groupdict().items()}
            parent = endpoint == "run" and int(found["run"]) == repository.parent_id
            return ("parent" if parent else endpoint), found, frozenset(known.split())
    return "", {}, frozenset()


def check(request: Request, timeout: float) -> None:
    """Raise OddError for a request that no correct client makes."""
    if not request.endpoint:
        raise OddError("no such path")
    if not timeout > 0:
        raise OddError(f"a time-out of {timeout} s")
    unknown = [*sorted(set(request.headers) - _HEADERS), *sorted(set(request.query) - request.known)]
    if unknown:
        raise OddError(f"unknown: {unknown}")
    if request.headers.get("x-github-api-version") != VERSION:
        raise OddError("X-GitHub-Api-Version")
    if not request.headers.get("accept", "").startswith("application/vnd.github"):
        raise OddError("Accept")
    if not request.headers.get("user-agent"):
        raise OddError("no User-Agent")
    if not request.headers.get("authorization"):
        raise OddError("no Authorization")
    if request.method == "GET" and request.body is not None:
        raise OddError("a body with GET")
    if request.method != "GET" and "if-none-match" in request.headers:
        raise OddError("If-None-Match with a write")
    _number(request, "page", 1000)
    _number(request, "per_page", 100)


def _number(request: Request, name: str, most: int) -> int:
    text = request.query.get(name, "1" if name == "page" else "30")
    if not text.isdecimal() or not 1 <= int(text) <= most:
        raise OddError(f"{name}={text}")
    return int(text)


class Rest:
    """Answers for one repository."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self._answers: dict[str, Callable[[Request], Answer]] = {
            "parent": self._run,
            "run": self._run,
            "attempt": self._run,
            "jobs": self._jobs,
            "cancel": self._cancel,
            "force-cancel": self._cancel,
            "dispatch": self._dispatch,
            "runs": self._runs,
            "ref": self._ref,
            "commit": self._commit,
        }

    def answer(self, request: Request) -> Answer:
        """Carry out a request that is not odd; raise OddError where its content is."""
        return self._answers[request.endpoint](request)

    def _child(self, request: Request) -> Child | None:
        child = self._repository.child(request.run_id)
        return child if child and self._repository.view(child).visible else None

    def _run(self, request: Request) -> Answer:
        repository, child = self._repository, self._child(request)
        if request.run_id == repository.parent_id:
            served = repository.parent_run()
        else:
            view = repository.view(child) if child else None
            served = view.run(repository.path_suffix, repository.workflow) if view else None
        attempt = request.found.get("attempt")
        if served is None or (attempt and int(attempt) != served["run_attempt"]):
            return _NOT_FOUND
        return 200, served

    def _jobs(self, request: Request) -> Answer:
        if request.query.get("filter", "latest") not in ("latest", "all"):
            raise OddError("filter")
        if request.run_id == self._repository.parent_id:
            raise OddError("the jobs of the parent are nobody's business")
        child = self._child(request)
        view = self._repository.view(child) if child else None
        if child is None or view is None:
            return _NOT_FOUND
        if not view.jobs_visible:
            return _NOT_FOUND if child.plan.jobs_missing == "404" else (200, {"total_count": 0, "jobs": []})
        jobs = view.jobs()
        return 200, {"total_count": len(jobs), "jobs": _page(request, jobs)}

    def _cancel(self, request: Request) -> Answer:
        repository, child = self._repository, self._child(request)
        if request.body:
            raise OddError("a cancellation takes no body")
        if request.run_id == repository.parent_id:
            raise OddError("the parent is being cancelled")
        if child is None:
            return _NOT_FOUND
        if child.completed(repository.clock.elapsed):
            return 409, {"message": "Cannot cancel a workflow run that is completed."}
        if not repository.view(child).queued:
            return 409, {"message": "Cannot cancel a workflow run that has not been queued yet."}
        asked = child.force_asked if request.endpoint == "force-cancel" else child.cancel_asked
        asked.append(repository.clock.elapsed)
        return 202, {}

    def _dispatch(self, request: Request) -> Answer:
        repository = self._repository
        ref, inputs = dispatched(request.body)
        if request.found["workflow"] != repository.workflow:
            return _NOT_FOUND
        if sum(len(name) + len(value) for name, value in inputs.items()) > _MOST_INPUT:
            return 422, {"message": "inputs are too large."}
        full = None if _SHA.fullmatch(ref) else repository.full_ref(ref)
        if full is None or not full.startswith(("refs/heads/", "refs/tags/")):
            return 422, {"message": f"No ref found for: {ref}"}
        child = repository.start_child(inputs, full)
        page = f"{repository.repository}/actions/runs/{child.run_id}"
        return 200, {
            "workflow_run_id": child.run_id,
            "run_url": f"https://api.github.com/repos/{page}",
            "html_url": f"{SERVER}/{page}",
        }

    def _runs(self, request: Request) -> Answer:
        repository, query = self._repository, request.query
        if request.found["workflow"] != repository.workflow:
            return _NOT_FOUND
        wanted = created_in(query.get("created", "*..*"))
        runs = []
        for child in sorted(repository.children + repository.earlier, key=lambda child: -child.created):
            view = repository.view(child)
            run = view.run(repository.path_suffix, repository.workflow)
            if view.listed and _listed(run, query) and wanted(float(int(repository.epoch + child.created))):
                runs.append(run)
        return 200, {"total_count": len(runs), "workflow_runs": _page(request, runs)}

    def _ref(self, request: Request) -> Answer:
        name = request.found["ref"]
        if name.startswith("refs/"):
            raise OddError("the path of a ref leaves refs/ out")
        full = f"refs/{name}"
        sha = self._repository.sha(full)
        if sha is None:
            return _NOT_FOUND
        tag = self._repository.tag_object(full)
        return 200, {"ref": full, "object": {"type": "tag" if tag else "commit", "sha": tag or sha}}

    def _commit(self, request: Request) -> Answer:
        name = request.found["ref"]
        sha = (
            name if self._repository.knows_commit(name) else self._repository.sha(self._repository.full_ref(name) or "")
        )
        if sha is None:
            return 422, {"message": f"No commit found for SHA: {name}"}
        return 200, (sha if "vnd.github.sha" in request.headers["accept"] else {"sha": sha})


_NOT_FOUND: Answer = (404, {"message": "Not Found", "status": "404"})


def _page(request: Request, items: list[Json]) -> list[Json]:
    size, page = _number(request, "per_page", 100), _number(request, "page", 1000)
    return items[(page - 1) * size : page * size]


def _listed(run: Json, query: Mapping[str, str]) -> bool:
    fields = {"event": "event", "branch": "head_branch", "head_sha": "head_sha"}
    same = all(run.get(name) == query[key] for key, name in fields.items() if key in query)
    return same and query.get("status", run["status"]) in (run["status"], run["conclusion"])


def created_in(pattern: str) -> Callable[[float], bool]:
    """Read a ``created`` search: ``>=T``, ``>T``, ``<=T``, ``<T``, ``T..T`` with ``*`` for open, or a day."""
    match = re.fullmatch(r"(>=|<=|>|<)?([^.]+)(?:\.\.([^.]+))?", pattern)
    if not match or (match[1] and match[3]):
        raise OddError(f"created={pattern}")
    first = _seconds(match[2], pattern, -math.inf)
    if match[3]:
        last = _seconds(match[3], pattern, math.inf)
        return lambda created: first <= created <= last
    signs: dict[str | None, Callable[[float], bool]] = {
        ">=": lambda created: created >= first,
        ">": lambda created: created > first,
        "<=": lambda created: created <= first,
        "<": lambda created: created < first,
        None: lambda created: first <= created < first + 86_400,
    }
    return signs[match[1]]


def _seconds(text: str, pattern: str, unbounded: float) -> float:
    if text == "*":
        return unbounded
    try:
        moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        raise OddError(f"created={pattern}") from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)).timestamp()


def dispatched(body: Mapping[str, object] | None) -> tuple[str, dict[str, str]]:
    """Give the ref and the inputs of a dispatch, if they are what the child's contract says."""
    if body is None or set(body) != {"ref", "inputs"}:
        raise OddError(f"the keys of a dispatch: {sorted(body or {})}")
    ref, inputs = body["ref"], body["inputs"]
    if not isinstance(ref, str) or not ref or not isinstance(inputs, dict):
        raise OddError("ref or inputs")
    if set(inputs) != INPUTS or not all(isinstance(value, str) for value in inputs.values()):
        raise OddError(f"not the seven inputs, each a string: {inputs}")
    try:
        runner, workload = json.loads(inputs["runner"]), json.loads(inputs["workload"])
    except ValueError:
        raise OddError("runner or workload is no JSON") from None
    strings = isinstance(runner, dict) and all(isinstance(value, str) for value in runner.values())
    if not strings or set(runner) != {"group", "labels"} or not isinstance(workload, dict):
        raise OddError("runner or workload")
    return ref, inputs
