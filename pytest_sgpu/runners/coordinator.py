"""The coordinator: dispatch a job to a preferred pool, fall back when no runner comes, report; and its cleanup.

Public and stable: ``run`` and ``cleanup``. Neither raises for anything that the world does; both need the standard
library alone, since they hold a token that may write and start where nothing is installed.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from pytest_sgpu.errors import OptionError, SgpuError
from pytest_sgpu.runners import history, past
from pytest_sgpu.runners.acquire import Acquisition, End
from pytest_sgpu.runners.actions import Note
from pytest_sgpu.runners.candidates import Candidate
from pytest_sgpu.runners.child import request_id
from pytest_sgpu.runners.github import Client
from pytest_sgpu.runners.inputs import Settings, coordinator_settings, token
from pytest_sgpu.runners.loop import alone, drive, together
from pytest_sgpu.runners.pools_file import load
from pytest_sgpu.runners.ports import Attempt, Clock, Result, Transport
from pytest_sgpu.runners.post import clean_up
from pytest_sgpu.runners.record import Log, Recorder, outputs_of, say
from pytest_sgpu.runners.summary import logs_line
from pytest_sgpu.runners.text import without

__all__ = ["cleanup", "run"]


def run(
    inputs: Mapping[str, str], env: Mapping[str, str], transport: Transport, clock: Clock, log: Log = say
) -> Result:
    """Get a runner and see the work to its end.

    ``inputs`` and ``env`` are read as docs/reference/runners.md says; files that ``env`` names are written. Every end
    is a ``Result``: a KeyboardInterrupt (the job is being cancelled) too, of kind parent_cancelled, with the state
    that the post step needs. Where no post step comes (no GITHUB_STATE), the child is ended right away.
    """
    secret = ""
    try:
        secret = token(inputs, env)
        settings = coordinator_settings(inputs, env, load(inputs.get("pools", "")))
        _no_secret(settings, secret)
        recorder = Recorder(env, clock, log, secret)
        recorder.check()
    except SgpuError as error:
        return _misconfigured(error, env, clock, log, secret)
    crew = _Crew(settings, Client(transport, clock, secret, settings.repository, conditional=settings.conditional))
    cleaned: Result | None = None
    try:
        crew.work(clock, recorder)
        result = crew.result(recorder.state)
    except KeyboardInterrupt:
        result = crew.interrupted(recorder.state)
        recorder.tell(f"parent_cancelled: {result.message}")
        if result.state and not env.get("GITHUB_STATE"):
            cleaned = cleanup(result.state, {**env, "GITHUB_TOKEN": secret}, transport, clock, log)
            result = replace(result, state=cleaned.state, message=f"{result.message}; {cleaned.message}")
    state = crew.cleanup if cleaned is None else ("confirmed" if cleaned.ok else "unconfirmed")
    result = recorder.finish(result, settings.timeline)
    recorder.summarise(
        result,
        crew.candidates,
        repository=settings.repository,
        server_url=settings.server_url,
        cleanup=state,
        workers=len(settings.workloads),
    )
    return result


def cleanup(
    state: Mapping[str, str], env: Mapping[str, str], transport: Transport, clock: Clock, log: Log = say
) -> Result:
    """End the children that ``state`` names (R113): the post step, or a step that always runs.

    ``state`` is that of a ``Result``, or what the step wrote to GITHUB_STATE. Only these children are cancelled
    (R115). ``ok`` says that each was seen to have ended; else ``kind`` is cancel_unconfirmed and ``state`` is what is
    left.
    """
    return clean_up(state, env, transport, clock, log)


def _no_secret(settings: Settings, secret: str) -> None:
    """Refuse to dispatch the token: inputs of a run can be read by everybody who can read the repository (R50)."""
    for dispatched in (*settings.workloads, *(candidate.runner_json for candidate in settings.candidates)):
        if without(secret, dispatched) != dispatched:
            raise OptionError("the token is in what would be dispatched", "workload, workloads and runners are public")


def _misconfigured(error: SgpuError, env: Mapping[str, str], clock: Clock, log: Log, secret: str) -> Result:
    """Give the result of wrong inputs: nothing was asked of the API (R12)."""
    recorder = Recorder(env, clock, log, secret)
    text = without(secret, str(error))
    result = Result(ok=False, kind="config", message=text, outputs=outputs_of(()))
    recorder.summarise(result, (), repository="", server_url="", cleanup="", workers=1)
    for line in f"config: {text}".splitlines():
        recorder.tell(line)
    recorder.finish(result, "")
    return result


class _Crew:
    """The workers of one coordinator: one for a ``workload``, several for ``workloads``."""

    def __init__(self, settings: Settings, client: Client) -> None:
        self._settings = settings
        self._client = client
        self._machines: list[Acquisition] = []

    def work(self, clock: Clock, recorder: Recorder) -> None:
        """See all work to its end."""
        settings = self._settings
        if settings.history:
            settings = self._settings = self._arranged(settings, clock, recorder)
        several, nonce = len(settings.workloads) > 1, secrets.token_hex(8)
        self._machines = [
            Acquisition(settings, workload, partial(request_id, settings.parent, worker, nonce=nonce), worker=worker)
            for worker, workload in enumerate(settings.workloads, 1)
        ]
        remarks = [recorder.remark(worker, several=several) for worker in range(1, len(self._machines) + 1)]
        workers = [drive(one, self._client, clock, remark) for one, remark in zip(self._machines, remarks, strict=True)]
        together(workers, settings.max_parallel, clock, lambda: "unconfirmed" not in self._cleanups())

    def _arranged(self, settings: Settings, clock: Clock, recorder: Recorder) -> Settings:
        """Arrange the candidates by past waits; when these cannot be read, as they are."""
        remark = recorder.remark(0, several=False)
        seen, problem = alone(past.reading(self._client, settings.workflow), clock)
        if problem:
            remark(Note("history", f"past waits cannot be read, pools are asked as configured: {problem}"))
            return settings
        candidates, reasons = history.arrange(settings.candidates, history.learn(seen), clock.time())
        for reason in reasons:
            remark(Note("history", f"history: {reason}"))
        return replace(settings, candidates=candidates)

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        """Give the candidates as they were asked: ``history`` may have arranged them."""
        return self._settings.candidates

    def _cleanups(self) -> list[str]:
        return [machine.end.cleanup for machine in self._machines if machine.end]

    @property
    def cleanup(self) -> str:
        """Give the worst state of a cleanup; "" when there was none."""
        states = self._cleanups()
        return next((state for state in ("unconfirmed", "confirmed") if state in states), "")

    def _attempts(self) -> tuple[Attempt, ...]:
        return tuple(attempt for machine in self._machines for attempt in machine.attempts())

    def result(self, state: Mapping[str, str]) -> Result:
        """Sum up: the first worker that failed gives the kind."""
        ends = [machine.end for machine in self._machines]
        several = len(ends) > 1
        not_begun = End("cancel_unconfirmed", "not begun: an earlier child may still be active", "", (), {})
        known = [end or not_begun for end in ends]
        failed = [(worker, end) for worker, end in enumerate(known, 1) if end.kind]
        told = failed or list(enumerate(known, 1))
        message = "; ".join(f"worker {worker}: {end.message}" if several else end.message for worker, end in told)
        return Result(
            ok=not failed,
            kind=failed[0][1].kind if failed else "",
            message=message,
            outputs=self._outputs(known if several else []),
            state=state,
            attempts=self._attempts(),
        )

    def _link(self, attempt: Attempt) -> str:
        settings = self._settings
        return logs_line(attempt, repository=settings.repository, server_url=settings.server_url)

    def _outputs(self, ends: list[End]) -> dict[str, str]:
        outputs = outputs_of(self._attempts())
        if ends:
            workers = [
                {"worker": worker, "ok": not end.kind, "kind": end.kind, **outputs_of(end.attempts)}
                for worker, end in enumerate(ends, 1)
            ]
            outputs["workers"] = json.dumps(workers, separators=(",", ":"), ensure_ascii=False)
        return outputs

    def interrupted(self, state: Mapping[str, str]) -> Result:
        """Give the result of a job that is being cancelled."""
        left = "its child is ended by the cleanup" if state else "no child is active"
        links = [self._link(one) for one in {one.worker: one for one in self._attempts()}.values()] if state else []
        return Result(
            ok=False,
            kind="parent_cancelled",
            message=". ".join([f"the job is being cancelled; {left}", *filter(None, links)]),
            outputs=self._outputs([]),
            state=state,
            attempts=self._attempts(),
        )
