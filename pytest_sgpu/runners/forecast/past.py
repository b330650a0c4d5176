"""Past child runs, read from the API: what the pools did lately. Only for ``history``."""

from __future__ import annotations

from collections.abc import Generator

from pytest_sgpu.errors import SgpuError
from pytest_sgpu.runners.forecast import history
from pytest_sgpu.runners.forecast.history import Past
from pytest_sgpu.runners.github import Client
from pytest_sgpu.runners.loop import alone
from pytest_sgpu.runners.ports import Clock, Transport

LIMIT = 20  # runs; each costs one request, of a quota that the whole repository shares (R111)
_HINT = "the token needs actions: read, and the workflow has to be in this repository; without --history it is not read"

Reading = Generator[float, None, tuple[tuple[Past, ...], str]]


def read(
    repository: str, workflow: str, transport: Transport, token: str, clock: Clock, *, limit: int = LIMIT
) -> tuple[Past, ...]:
    """Read the last ``limit`` dispatched runs of ``workflow``. Raises SgpuError when they cannot be read."""
    pasts, problem = alone(reading(Client(transport, clock, token, repository), workflow, limit), clock)
    if problem:
        raise SgpuError(f"past runs of {workflow} cannot be read: {problem}", _HINT)
    return pasts


def reading(client: Client, workflow: str, limit: int = LIMIT) -> Reading:
    """Do the same beside other work; yields monotonic times to wait for."""
    path = f"/actions/workflows/{workflow}/runs?event=workflow_dispatch&status=completed&per_page={limit}"
    runs, problem = yield from client.read(path)
    found = runs.get("workflow_runs") if isinstance(runs, dict) else None
    if not isinstance(found, list):
        return (), problem or "the list of runs has another form"
    known: list[Past] = []
    for run in found[:limit]:
        number = run.get("id") if isinstance(run, dict) else None
        if not isinstance(number, int) or isinstance(number, bool) or number <= 0:
            continue
        jobs, problem = yield from client.read(f"/actions/runs/{number}/jobs?filter=latest&per_page=100")
        if problem:
            return tuple(known), problem
        one = history.past(run, jobs)
        if one:
            known.append(one)
    return tuple(known), ""
