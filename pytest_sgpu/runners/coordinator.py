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

from pytest_sgpu.errors import SgpuError
from pytest_sgpu.runners.acquire import Acquisition, End
from pytest_sgpu.runners.forecast import history, past
from pytest_sgpu.runners.forecast.budget import HOSTED_MINUTES, budget
from pytest_sgpu.runners.github import Client
from pytest_sgpu.runners.links import logs_line
from pytest_sgpu.runners.loop import alone, drive, together
from pytest_sgpu.runners.machine.actions import Note
from pytest_sgpu.runners.machine.child import request_id
from pytest_sgpu.runners.pools_file import load
from pytest_sgpu.runners.ports import Attempt, Clock, Result, Transport
from pytest_sgpu.runners.post import clean_up
from pytest_sgpu.runners.record import Log, Recorder, outputs_of, say
from pytest_sgpu.runners.settings.inputs import Settings, coordinator_settings, no_secret, token
from pytest_sgpu.runners.text import without

__all__ = ["cleanup", "refused", "run"]


def run(
    inputs: Mapping[str, str], env: Mapping[str, str], transport: Transport, clock: Clock, log: Log = say
) -> Result:
    """Get a runner and see the work to its end.

    ``inputs`` and ``env`` are read as docs/reference/runners.md says; files that ``env`` names are written. Every end
    is a ``Result``: a KeyboardInterrupt (the job is being cancelled) too, of kind parent_cancelled unless something
    else went wrong before. Nothing is asked of the API after that: whoever calls passes ``Result.state``, which is
    also in GITHUB_STATE, to ``cleanup``.
    """
    secret = ""
    try:
        secret = token(inputs, env)
        no_secret(inputs, secret)
        settings = coordinator_settings(inputs, env, load(inputs.get("pools", "")))
        recorder = Recorder(env, clock, log, secret)
        recorder.check()
    except SgpuError as error:
        return refused(error, env, clock, log, secret)
    crew = _Crew(settings, Client(transport, clock, secret, settings.repository, conditional=settings.conditional))
    interrupted = False
    try:
        _warn(settings, recorder)
        crew.work(clock, recorder)
    except KeyboardInterrupt:
        interrupted = True
    except Exception:  # a defect, here or in the transport; it is told in full, after what it would leave is ended
        _leave_nothing(recorder, env, transport, clock, log)
        raise
    try:
        return _told(crew, recorder, interrupted=interrupted)
    except KeyboardInterrupt:  # another signal: nothing is left half told for that
        return _told(crew, recorder, interrupted=interrupted)


def cleanup(
    state: Mapping[str, str], env: Mapping[str, str], transport: Transport, clock: Clock, log: Log = say
) -> Result:
    """End the children that ``state`` names (R113): the post step, or a step that always runs.

    ``state`` is that of a ``Result``, or what the step wrote to GITHUB_STATE. Only these children are cancelled
    (R115). ``ok`` says that each was seen to have ended; else ``kind`` is cancel_unconfirmed and ``state`` is what is
    left.
    """
    return clean_up(state, env, transport, clock, log)


def _told(crew: _Crew, recorder: Recorder, *, interrupted: bool) -> Result:
    settings = crew.settings
    result = crew.interrupted(recorder.state) if interrupted else crew.result(recorder.state)
    if interrupted:
        recorder.tell(f"{result.kind}: {result.message}")
    result = recorder.finish(result)
    recorder.summarise(
        result,
        settings.candidates,
        repository=settings.repository,
        server_url=settings.server_url,
        cleanup="" if result.state and not crew.ended else crew.cleanup,
        workers=len(settings.workloads),
    )
    return recorder.keep_timeline(result, settings.timeline)


def _leave_nothing(recorder: Recorder, env: Mapping[str, str], transport: Transport, clock: Clock, log: Log) -> None:
    recorder.tell("internal error, a report is welcome; the traceback follows")
    if recorder.state:
        clean_up(recorder.state, env, transport, clock, log)


def _warn(settings: Settings, recorder: Recorder) -> None:
    spent = budget(
        settings.candidates,
        settings.execution_seconds,
        workers=len(settings.workloads),
        max_parallel=settings.max_parallel,
    )
    if spent.parent_minutes > HOSTED_MINUTES:
        long = f"this may take {spent.parent_minutes} min, and a job on a hosted runner ends after {HOSTED_MINUTES}"
        recorder.tell(f"warning: {long}; see sgpu runner plan")


def refused(error: SgpuError, env: Mapping[str, str], clock: Clock, log: Log = say, secret: str = "") -> Result:
    """Give the result of wrong inputs: nothing was asked of the API (R12)."""
    recorder = Recorder(env, clock, log, secret)
    text = without(secret, str(error))
    result = Result(ok=False, kind="config", message=text, outputs=outputs_of(()))
    recorder.summarise(result, (), repository="", server_url="", cleanup="", workers=1)
    return recorder.finish(result)


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
    def settings(self) -> Settings:
        """Give the settings; ``history`` may have arranged the candidates."""
        return self._settings

    @property
    def ended(self) -> bool:
        """Whether every worker came to an end of its own."""
        return all(machine.end for machine in self._machines)

    def _cleanups(self) -> list[str]:
        return [machine.end.cleanup for machine in self._machines if machine.end]

    @property
    def cleanup(self) -> str:
        """Give the worst state of a cleanup; "" when there was none."""
        states = self._cleanups()
        return next((state for state in ("unconfirmed", "confirmed") if state in states), "")

    def _attempts(self) -> tuple[Attempt, ...]:
        """Give all dispatches in the order in which they were made."""
        made = [one for machine in self._machines for one in machine.dispatches()]
        return tuple(attempt for _, attempt in sorted(made, key=lambda one: one[0]))

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
            outputs=self._outputs(known),
            state=state,
            attempts=self._attempts(),
        )

    def _link(self, attempt: Attempt) -> str:
        settings = self._settings
        return logs_line(attempt, repository=settings.repository, server_url=settings.server_url)

    def _outputs(self, ends: list[End]) -> dict[str, str]:
        outputs = outputs_of(self._attempts())
        if len(ends) > 1:
            workers = [
                {"worker": worker, "ok": not end.kind, "kind": end.kind, **outputs_of(end.attempts)}
                for worker, end in enumerate(ends, 1)
            ]
            outputs["workers"] = json.dumps(workers, separators=(",", ":"), ensure_ascii=False)
        return outputs

    def interrupted(self, state: Mapping[str, str]) -> Result:
        """Give the result of a job that is being cancelled; an error that was met before stays the error (R118)."""
        left = "its child is left to the cleanup" if state else "no child is active"
        stop = next((machine.stop for machine in self._machines if machine.stop and machine.stop.kind), None)
        message = f"the job is being cancelled; {left}"
        ends = [
            one.end or End(one.stop.kind if one.stop else "parent_cancelled", message, "", one.attempts(), {})
            for one in self._machines
        ]
        links = [self._link(one) for one in {one.worker: one for one in self._attempts()}.values()] if state else []
        return Result(
            ok=False,
            kind=stop.kind if stop else "parent_cancelled",
            message=". ".join([f"{stop.message}; {message}" if stop else message, *filter(None, links)]),
            outputs=self._outputs(ends),
            state=state,
            attempts=tuple(replace(one, outcome=one.outcome or "parent_cancelled") for one in self._attempts()),
        )
