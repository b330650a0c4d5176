"""Inputs and environment to settings: everything is checked here, before any request is made (R12)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from pytest_sgpu.errors import OptionError
from pytest_sgpu.runners.candidates import Candidate
from pytest_sgpu.runners.pools import Pools
from pytest_sgpu.runners.settings import refs
from pytest_sgpu.runners.settings.values import Values
from pytest_sgpu.runners.text import LEAST_TOKEN, one_line, without
from pytest_sgpu.runners.wording import found

COORDINATOR_INPUTS = (
    "workflow",
    "workflow-ref",
    "source-ref",
    "source-sha",
    "runner-type",
    "runners",
    "queue-policy",
    "queue-timeout-minutes",
    "queue-timeout-seconds",
    "execution-timeout-minutes",
    "execution-timeout-seconds",
    "source-policy",
    "workload",
    "workloads",
    "max-parallel",
    "pools",
    "history",
    "conditional-requests",
    "polling",
    "force-cancel",
    "timeline",
    "token",
)
GUARD_INPUTS = ("request-id", "parent-run-id", "parent-run-attempt", "source-ref", "source-sha", "token")

DEFAULT_EXECUTION_SECONDS = 180 * 60.0
MOST_QUEUE_MINUTES = 60
MOST_EXECUTION_MINUTES = 5 * 24 * 60  # a self-hosted job runs five days at most
DEFAULT_PARALLEL = 2
MOST_PARALLEL = 20
MOST_DISPATCH_CHARACTERS = 65_535
LONGEST_REQUEST_ID = 100
"""Characters that the size of a dispatch keeps free for the request id."""

_REPOSITORY = re.compile(r"[A-Za-z0-9_-]{1,100}/(?!\.{1,2}$)[A-Za-z0-9._-]{1,100}")
_SERVER = re.compile(r"https?://[A-Za-z0-9._~\[\]:-]+(/[A-Za-z0-9._~/-]*)?")
_TOKEN = re.compile(r"[!-~]{1,10000}")
_JOB = "every job of GitHub has it: run this in a step, or set the variable"


@dataclass(frozen=True, slots=True)
class Parent:
    """The coordinator's own run, which every dispatch names (R49)."""

    run_id: int
    attempt: int


@dataclass(frozen=True, slots=True)
class Settings:
    """What a coordinator is to do. Times are seconds.

    ``source_sha`` stands as it was given (compare it without case), ``workloads`` too: one JSON text per worker,
    forwarded unchanged (R17). ``runner_type`` is the profile, not its alias. ``pinned``: the source policy is
    pinned-after-start. ``server_url`` has no slash at its end, and is "" when nothing tells it.
    ``timeline`` is the path of a file, "" for none.
    """

    repository: str
    server_url: str
    parent: Parent
    workflow: str
    workflow_ref: str
    source_ref: str
    source_sha: str
    runner_type: str
    candidates: tuple[Candidate, ...]
    execution_seconds: float
    pinned: bool
    workloads: tuple[str, ...]
    max_parallel: int
    history: bool
    conditional: bool
    adaptive: bool
    force_cancel: bool
    timeline: str


@dataclass(frozen=True, slots=True)
class GuardSettings:
    """What a guard is to compare with the world: what the coordinator dispatched, and its own attempt (R130, R132)."""

    repository: str
    request_id: str
    parent: Parent
    source_ref: str
    source_sha: str
    own_attempt: int


def coordinator_settings(inputs: Mapping[str, str], env: Mapping[str, str], pools: Pools) -> Settings:
    """Check the inputs of a coordinator and GitHub's environment. Makes no request.

    Raises OptionError: an unknown name, something missing, anything that is not what it has to be.
    """
    values, around = Values(inputs), Values(env)
    values.only(COORDINATOR_INPUTS)
    profile = pools.profile(values.text("runner-type"))
    workloads, parallel = _workloads(values)
    settings = Settings(
        repository=_repository(around),
        server_url=_server(around),
        parent=Parent(_from_job(around, "GITHUB_RUN_ID"), _from_job(around, "GITHUB_RUN_ATTEMPT")),
        workflow=refs.workflow("workflow", values.needed("workflow", "the file name of the child workflow")),
        workflow_ref=refs.workflow_ref("workflow-ref", values.needed("workflow-ref", "a branch or a tag")),
        source_ref=refs.source_ref("source-ref", values.needed("source-ref", "a full ref (refs/...)")),
        source_sha=refs.source_sha("source-sha", values.needed("source-sha", "the full SHA of source-ref")),
        runner_type=profile.name,
        candidates=_candidates(values, profile.name, pools),
        execution_seconds=values.seconds("execution-timeout", MOST_EXECUTION_MINUTES) or DEFAULT_EXECUTION_SECONDS,
        pinned=values.choice("source-policy", ("current", "pinned-after-start")) != "current",
        workloads=workloads,
        max_parallel=parallel,
        history=values.flag("history"),
        conditional=values.flag("conditional-requests"),
        adaptive=values.choice("polling", ("steady", "adaptive")) == "adaptive",
        force_cancel=values.flag("force-cancel"),
        timeline=values.text("timeline"),
    )
    _dispatch_fits(settings)
    return settings


def guard_settings(inputs: Mapping[str, str], env: Mapping[str, str]) -> GuardSettings:
    """Check the inputs of a guard and GitHub's environment. Makes no request. Raises OptionError."""
    values, around = Values(inputs), Values(env)
    # A child may hand on all that it was dispatched with, and the source policy spares no guard (R133).
    values.only((*GUARD_INPUTS, "runner", "workload", "source-policy"))
    return GuardSettings(
        repository=_repository(around),
        request_id=values.needed("request-id", "the request id of the dispatch"),
        parent=Parent(values.number("parent-run-id"), values.number("parent-run-attempt")),
        source_ref=refs.source_ref("source-ref", values.needed("source-ref", "a full ref (refs/...)")),
        source_sha=refs.source_sha("source-sha", values.needed("source-sha", "the full SHA of source-ref")),
        own_attempt=_from_job(around, "GITHUB_RUN_ATTEMPT"),
    )


def token(inputs: Mapping[str, str], env: Mapping[str, str]) -> str:
    """Give the token: ``GITHUB_TOKEN``, else the input ``token`` (R3). Raises OptionError, which never shows it."""
    for name, values in (("GITHUB_TOKEN", env), ("token", inputs)):
        text = values.get(name, "")
        if not isinstance(text, str) or (text.strip() and not _TOKEN.fullmatch(text.strip())):
            raise OptionError(
                f"{name}: a token of printable ASCII characters was expected, without blanks in it",
                "it is not shown here; pass ${{ github.token }} as it is",
            )
        if text.strip():
            return text.strip()
    raise OptionError("no token: neither GITHUB_TOKEN nor the input token is set", "pass ${{ github.token }}")


def no_secret(inputs: Mapping[str, str], secret: str) -> None:
    """Refuse the token as another input: it would be shown, or dispatched (R50). Raises OptionError."""
    if len(secret) < LEAST_TOKEN:
        return
    for name, value in inputs.items():
        shown = str(name).replace("_", "-")  # as a name may be written too
        if without(secret.replace("_", "-"), shown) != shown:
            raise OptionError("the name of an input holds the token; it is not shown here", "take it out")
        if name != "token" and any(without(secret, text) != text for text in _spellings(value)):
            raise OptionError(f"{one_line(name, 40)}: the token is in it; it is not shown here", "take it out")


def _spellings(value: object) -> tuple[str, ...]:
    """Give a text as it is, and without the escapes of JSON."""
    text = value if isinstance(value, str) else ""
    try:
        return text, json.dumps(json.loads(text), ensure_ascii=False)
    except (ValueError, RecursionError):
        return (text,)


def _candidates(values: Values, runner_type: str, pools: Pools) -> tuple[Candidate, ...]:
    policy = values.text("queue-policy")
    deadline = values.seconds("queue-timeout", MOST_QUEUE_MINUTES)
    text = values.raw("runners")
    if text:
        return pools.explicit(text, runner_type, policy, deadline)
    return pools.candidates(runner_type, policy, deadline)


def _workloads(values: Values) -> tuple[tuple[str, ...], int]:
    many = values.json_objects("workloads")
    if many and values.raw("workload"):
        raise OptionError("workload and workloads: both are given, expected one of them", "leave one out")
    parallel = values.whole("max-parallel", 1, MOST_PARALLEL)
    if parallel is not None and not many:
        raise OptionError("max-parallel: given without workloads", "it says how many of the workloads run at once")
    if many:
        return many, DEFAULT_PARALLEL if parallel is None else parallel
    return (values.json_object("workload"),), 1


def _dispatch_fits(settings: Settings) -> None:
    """Refuse what the API would refuse: all seven inputs of a dispatch (R48) share one limit."""
    runner = max((candidate.runner_json for candidate in settings.candidates), key=len)
    for number, workload in enumerate(settings.workloads, 1):
        dispatched = {
            "request-id": "-" * LONGEST_REQUEST_ID,
            "parent-run-id": str(settings.parent.run_id),
            "parent-run-attempt": str(settings.parent.attempt),
            "source-ref": settings.source_ref,
            "source-sha": settings.source_sha,
            "runner": runner,
            "workload": workload,
        }
        size = len(json.dumps(dispatched, ensure_ascii=False))
        if size > MOST_DISPATCH_CHARACTERS:
            name = f"workloads: element {number}" if len(settings.workloads) > 1 else "workload"
            raise OptionError(
                f"{name}: a dispatch with it has {size} characters, expected at most {MOST_DISPATCH_CHARACTERS}",
                "pass the name of an artifact or of a file instead of its content",
            )


def _repository(env: Values) -> str:
    text = env.needed("GITHUB_REPOSITORY", "owner/name", _JOB)
    if not _REPOSITORY.fullmatch(text):
        raise OptionError(f"GITHUB_REPOSITORY: found {found(text)}, expected owner/name", _JOB)
    return text


def _server(env: Values) -> str:
    text = env.text("GITHUB_SERVER_URL")
    if not text:
        beside = _beside(env.text("GITHUB_API_URL") or "https://api.github.com")
        return beside if _SERVER.fullmatch(beside) else ""
    if not _SERVER.fullmatch(text):
        raise OptionError(f"GITHUB_SERVER_URL: found {found(text)}, expected a URL such as https://github.com", _JOB)
    return text.rstrip("/")


def _beside(api_url: str) -> str:
    """Give the server whose API has this address, "" when its form does not tell."""
    form = re.fullmatch(r"(https?://)(?:api\.([^/@\s]+)|([^/@\s]+)/api/v3)/?", api_url)
    return f"{form[1]}{form[2] or form[3]}" if form else ""


def _from_job(env: Values, name: str) -> int:
    env.needed(name, "a positive whole number", _JOB)
    return env.number(name)


def repository(env: Mapping[str, str]) -> str:
    """Give the repository of the job, owner/name. Raises OptionError."""
    return _repository(Values(env))


def server_url(env: Mapping[str, str]) -> str:
    """Give the address of the server that people use, no slash at its end; "" for not known. Raises OptionError."""
    return _server(Values(env))
