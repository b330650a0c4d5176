"""The cleanup of a step: end the children that its state names."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Generator, Mapping
from dataclasses import dataclass

from pytest_sgpu.errors import OptionError, SgpuError
from pytest_sgpu.runners.github import Client
from pytest_sgpu.runners.links import PUBLIC, logs_line
from pytest_sgpu.runners.loop import Remark, Waiting, follow, together
from pytest_sgpu.runners.machine.actions import Action, Note, Observation, ReadJobs, ReadRun, Wait
from pytest_sgpu.runners.machine.child import foreign
from pytest_sgpu.runners.machine.cleaning import clean, find
from pytest_sgpu.runners.machine.sightings import JobsSeen, RunSeen
from pytest_sgpu.runners.ports import Attempt, Clock, Result, Transport
from pytest_sgpu.runners.record import Log, Recorder
from pytest_sgpu.runners.report import files
from pytest_sgpu.runners.settings.inputs import repository, server_url, token
from pytest_sgpu.runners.text import markdown, one_line, without
from pytest_sgpu.runners.wording import found

_SEARCH = 60.0  # seconds; a cancelled job ends five minutes after it was cancelled, whatever its post steps do
_JOB_WINDOW = 4.0  # seconds; less than the pause before a second try
_NAME = re.compile(r"(run-id|request-id|workflow|force-cancel)(?:-([2-9]|[1-9][0-9]{1,5}))?")
_CHILD = re.compile(r"(?:run|request)-?id(?:[-\s].*)?", re.IGNORECASE | re.DOTALL)
_RUN_ID = re.compile(r"[0-9]{1,19}")
_WORKFLOW = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
_MOST_AT_ONCE = 50


@dataclass(slots=True)
class _Left:
    """One child that may be active: its run, or only its name when the dispatch was cut off."""

    worker: int
    run_id: int
    request_id: str
    workflow: str
    force: bool
    parent: int
    ended: bool = False
    twins: tuple[int, ...] = ()
    job_id: int = 0

    @property
    def shown(self) -> str:
        return f"run {self.run_id}" if self.run_id else f"the run named {one_line(self.request_id, 120)}"

    @property
    def state(self) -> dict[str, str]:
        """Give what a further cleanup needs, under the names that the step's state has."""
        values = {"run-id": str(self.run_id or ""), "request-id": self.request_id, "workflow": self.workflow}
        values |= {"force-cancel": "true"} if self.force else {}
        return {name if self.worker == 1 else f"{name}-{self.worker}": value for name, value in values.items()}


def clean_up(state: Mapping[str, str], env: Mapping[str, str], transport: Transport, clock: Clock, log: Log) -> Result:
    """End what ``state`` names; see ``coordinator.cleanup``."""
    given: Mapping[str, object] = state  # by hand it may hold a number
    for name, value in given.items():
        if not isinstance(value, str):
            error = OptionError(f"state {one_line(name, 40)}: found {found(value)}, expected a text")
            return refused(error, {name: str(value) for name, value in given.items()}, env)
    state = files.dashed(state)
    try:
        children = _left(state, env)
        if not children:
            return Result(ok=True, message="nothing to clean up")
        secret = token({"token": env.get("INPUT_TOKEN", "")}, env)
        client = Client(transport, clock, secret, repository(env))
    except SgpuError as error:
        return refused(error, state, env)
    recorder = Recorder(env, clock, log, secret)
    several = len(children) > 1
    workers = [_work(one, client, clock, recorder.remark(one.worker, several=several)) for one in children]
    try:
        together(workers, _MOST_AT_ONCE, clock, lambda: True)
    except KeyboardInterrupt:
        recorder.tell("the cleanup itself is being cancelled")
    return _result(children, recorder, env)


def refused(error: SgpuError, state: Mapping[str, str], env: Mapping[str, str]) -> Result:
    """Say what is wrong, and what is therefore left as it is (R116)."""
    secret = (env.get("GITHUB_TOKEN", "").strip() or env.get("INPUT_TOKEN", "")).strip()
    known = {name: value for name, value in state.items() if _NAME.fullmatch(name) and value.strip()}
    if not any(value.strip() for value in state.values()):
        return Result(ok=True, message="nothing to clean up")
    names_child = any(name.startswith(("run-id", "request-id")) for name in known)
    kept = ", ".join(one_line(without(secret, value), 120) for value in known.values()) if names_child else ""
    left = f"this child may still be active: {kept}" if kept else "a child may still be active"
    message = f"{without(secret, error.message)}; the cleanup was not tried, {left}"
    with contextlib.suppress(SgpuError):  # the result says it too
        files.summary(env, f"### Runner: cleanup\n\n**Error:** {markdown(message, 1000)}\n")
    return Result(ok=False, kind="config", message=str(SgpuError(message, error.hint)), state=dict(state))


def _work(one: _Left, client: Client, clock: Clock, remark: Remark) -> Waiting[None]:
    one.ended = yield from follow(_steps(one, clock.monotonic()), client, remark)
    yield from follow(_job(one, clock.monotonic()), client, remark)


def _job(one: _Left, now: float) -> Generator[Action, Observation, None]:
    """Ask once, for a short time, for the job: its logs are what people are led to (R124)."""
    if one.run_id:
        seen = (yield ReadJobs(one.run_id, now + _JOB_WINDOW)).answer
        jobs = [job.id for job in seen.jobs if job.run_id == one.run_id] if isinstance(seen, JobsSeen) else []
        one.job_id = jobs[0] if len(jobs) == 1 else 0


def _steps(one: _Left, now: float) -> Generator[Action, Observation, bool]:
    if one.run_id and one.request_id:
        yield from _checked(one, now)
        now = (yield Wait(now)).ended
    if not one.run_id:
        yield Note("recover", f"looking for {one.shown}")
        found, problem = yield from find(one.workflow, one.request_id, one.parent, now, _SEARCH)
        if not found:
            yield Note("recover", f"{one.shown} was not found{problem}")
            return False
        one.run_id = found[0].id
        for twin in found[1:]:  # something on the way has sent the dispatch twice
            now = (yield Wait(now)).ended
            one.twins += () if (yield from clean(twin.id, now, force=one.force)) else (twin.id,)
        now = (yield Wait(now)).ended
    return (yield from clean(one.run_id, now, force=one.force)) and not one.twins


def _checked(one: _Left, now: float) -> Generator[Action, Observation, None]:
    """Look once whether the run is the child (R115): what it turns out not to be is looked for by its name.

    One that cannot be looked at is taken for what the state says.
    """
    run = (yield ReadRun(one.run_id, now + _JOB_WINDOW)).answer
    if isinstance(run, RunSeen) and run.title != one.request_id:
        what = "the parent" if run.id == one.parent else foreign(run, one.workflow)
        if what:
            yield Note("recover", f"run {one.run_id} is left alone, it is {what}")
            one.run_id = 0


def _result(children: list[_Left], recorder: Recorder, env: Mapping[str, str]) -> Result:
    left = [one for one in children if not one.ended]
    for one in children:
        recorder.tell(_told(one, env))
    lines = "".join(f"- {markdown(_told(one, env), 1000)}\n" for one in children)
    recorder.append_summary(f"### Runner: cleanup\n\n{lines}")
    return Result(
        ok=not left,
        kind="cancel_unconfirmed" if left else "",
        message="; ".join(_told(one, env) for one in children),
        state={name: value for one in left for name, value in one.state.items()},
    )


def _told(one: _Left, env: Mapping[str, str]) -> str:
    """Say how it ended, and where to look (R116, R124)."""
    text = f"cleanup of {one.shown}: {'confirmed' if one.ended else 'unconfirmed'}"
    attempt = Attempt(0, {}, one.request_id, one.run_id, job_id=one.job_id)
    link = logs_line(attempt, repository=repository(env), server_url=_server(env))
    return f"{text}. {link}" if link else f"{text}; it may still be active, look for it and cancel it"


def _server(env: Mapping[str, str]) -> str:
    """Give where links lead; a wrong address is no reason to leave a child alone."""
    try:
        return server_url(env)
    except OptionError:
        return PUBLIC


def _left(state: Mapping[str, str], env: Mapping[str, str]) -> list[_Left]:
    """Read what a step kept; names of anybody else are passed over. Raises OptionError for a value that is not ours."""
    known: dict[int, dict[str, str]] = {}
    matched = {name: _NAME.fullmatch(name) for name in state}
    matches = [match for match in matched.values() if match]
    names = [name for name, match in matched.items() if not match and state[name].strip()]
    is_ours = any(match[1] in ("run-id", "request-id") for match in matches)
    if any(map(_CHILD.fullmatch, names)) or (names and not is_ours):  # what is mistyped must not pass for ended
        others = one_line(", ".join(names), 120)
        raise OptionError(f"state: found {others}, which name no child", "expected run-id, or request-id and workflow")
    for match in matches:
        if value := state[match[0]].strip():
            known.setdefault(int(match[2] or 1), {})[match[1]] = value
    children = []
    for worker, values in sorted(known.items()):
        run_id = values.get("run-id", "0")
        if not _RUN_ID.fullmatch(run_id):
            raise OptionError("state run-id: expected the digits of a run id", "a number, as in the address of the run")
        request_id, workflow = values.get("request-id", ""), values.get("workflow", "")
        if not int(run_id) and not request_id:
            continue  # what is left names no child
        if not int(run_id) and not _WORKFLOW.fullmatch(workflow):
            found = f"{one_line(request_id, 120)} without the workflow to look in"
            raise OptionError(f"state request-id: {found}", "expected run-id, or request-id and workflow")
        force = values.get("force-cancel") == "true"
        parent = env.get("GITHUB_RUN_ID", "")
        children.append(
            _Left(worker, int(run_id), request_id, workflow, force, int(parent) if parent.isdecimal() else 0)
        )
    return children
