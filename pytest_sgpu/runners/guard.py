"""The guard: the first step of a child, before checkout and workload.

Public and stable: ``run``. It only reads. Whatever the coordinator knew when it dispatched may be over when a runner
comes, hours later: the parent may have been cancelled, the source may have moved.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping

from pytest_sgpu.errors import SgpuError
from pytest_sgpu.runners.github import Client
from pytest_sgpu.runners.loop import alone, follow
from pytest_sgpu.runners.machine.actions import Action, Observation, ReadSource, Stopped
from pytest_sgpu.runners.machine.parent import check_source, parent_start
from pytest_sgpu.runners.ports import Clock, Result, Transport
from pytest_sgpu.runners.record import Log, Recorder, say
from pytest_sgpu.runners.settings.inputs import GuardSettings, guard_settings, no_secret, token

__all__ = ["refused", "run"]


def run(
    inputs: Mapping[str, str], env: Mapping[str, str], transport: Transport, clock: Clock, log: Log = say
) -> Result:
    """Tell whether the workload may run: the parent is active, nothing is stale, nothing is a rerun (R130-R135).

    ``inputs`` are request-id, parent-run-id, parent-run-attempt, source-ref and source-sha, as they were dispatched.
    Kinds: config, identity_mismatch (the child itself was rerun), parent_not_active, source_changed, auth, api_error,
    parent_cancelled (a KeyboardInterrupt). A failure makes the worker fail, which is no reason to fall back.
    """
    try:
        secret = token(inputs, env)
        no_secret(inputs, secret)
        settings = guard_settings(inputs, env)
    except SgpuError as error:
        return refused(error)
    recorder = Recorder(env, clock, log, secret)
    client = Client(transport, clock, secret, settings.repository)
    try:
        alone(follow(_steps(settings, clock.monotonic()), client, recorder.remark(1, several=False)), clock)
    except Stopped as stop:
        recorder.tell(f"{stop.kind}: {stop.message}; the workload does not run")
        return Result(ok=False, kind=stop.kind, message=stop.message)
    except KeyboardInterrupt:
        return Result(ok=False, kind="parent_cancelled", message="the job is being cancelled")
    message = f"{settings.request_id}: the parent is active and the source is current"
    recorder.tell(message)
    return Result(ok=True, message=message)


def refused(error: SgpuError) -> Result:
    """Give the result of wrong inputs: nothing was asked of the API."""
    return Result(ok=False, kind="config", message=str(error))


def _steps(settings: GuardSettings, now: float) -> Generator[Action, Observation, None]:
    # A rerun child would run under a parent that has long ended with its result (R119).
    if settings.own_attempt != 1:
        found = f"expected attempt 1, found {settings.own_attempt}"
        raise Stopped("identity_mismatch", f"this child was rerun ({found}); rerun its parent instead")
    yield from parent_start(settings.parent, now)
    check_source(settings.source_ref, settings.source_sha, (yield ReadSource(settings.source_ref)))
