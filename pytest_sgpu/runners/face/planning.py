"""``sgpu runner plan``: from inputs to a plan, with exactly the checks that ``acquire`` makes."""

from __future__ import annotations

from collections.abc import Mapping

from pytest_sgpu.errors import OptionError
from pytest_sgpu.runners import pools_file
from pytest_sgpu.runners.candidates import Candidate
from pytest_sgpu.runners.face.tools import Tools
from pytest_sgpu.runners.forecast import history
from pytest_sgpu.runners.forecast.budget import budget
from pytest_sgpu.runners.forecast.plan import Plan, document, text
from pytest_sgpu.runners.pools import STANDARD, Pools
from pytest_sgpu.runners.settings.inputs import coordinator_settings

__all__ = ["document", "make", "text"]

# A plan is made before there is a source or a run; what stands here is never shown.
_SOURCE = {
    "workflow": "child.yml",
    "workflow-ref": "main",
    "source-ref": "refs/heads/main",
    "source-sha": "0" * 40,
}
_RUN = {"GITHUB_REPOSITORY": "owner/name", "GITHUB_RUN_ID": "1", "GITHUB_RUN_ATTEMPT": "1"}
_NEEDED_BY_HISTORY = ("workflow", "GITHUB_REPOSITORY")
_TIMEOUTS = ("queue-timeout-minutes", "queue-timeout-seconds")


def make(inputs: Mapping[str, str], env: Mapping[str, str], tools: Tools) -> Plan:
    """Give the plan for ``inputs``; reads past runs only with ``history``.

    Raises OptionError and ConfError as ``acquire`` would find them, and SgpuError when past runs cannot be read.
    """
    pools = pools_file.load(inputs.get("pools", ""))
    learns = inputs.get("history", "").strip().lower() == "true"
    if learns:
        _check_history(inputs, env)
    stand_in = {name: text for name, text in (_SOURCE | _RUN).items() if not (learns and name in _NEEDED_BY_HISTORY)}
    checked = {name: text for name, text in stand_in.items() if name in _SOURCE} | dict(inputs)
    world = {name: text for name, text in stand_in.items() if name in _RUN}
    if learns:
        world |= {"GITHUB_REPOSITORY": env.get("GITHUB_REPOSITORY", "")}
    settings = coordinator_settings(checked, world, pools)
    candidates = settings.candidates
    reasons: tuple[str, ...] = ()
    learned = None
    if settings.history:
        learned = history.learn(tools.past(settings, inputs, env))
        candidates, reasons = history.arrange(settings.candidates, learned, tools.now())
    workers = len(settings.workloads)
    spent = budget(candidates, settings.execution_seconds, workers=workers, max_parallel=settings.max_parallel)
    return Plan(
        runner_type=settings.runner_type,
        policy=inputs.get("queue-policy", "").strip() or STANDARD,
        candidates=candidates,
        before=settings.candidates,
        budget=spent,
        timeout=next((name for name in _TIMEOUTS if inputs.get(name, "").strip()), ""),
        workers=workers,
        max_parallel=settings.max_parallel,
        unconfirmed=_unconfirmed(candidates, pools),
        explicit=bool(inputs.get("runners", "").strip()),
        learned=learned,
        reasons=reasons,
    )


def _check_history(inputs: Mapping[str, str], env: Mapping[str, str]) -> None:
    """Say what reading past runs needs, also to who is at a prompt."""
    if not inputs.get("workflow", "").strip():
        hint = "--history reads its past runs: add --workflow FILE"
        raise OptionError("workflow: missing, expected the file name of the child workflow", hint)
    if not env.get("GITHUB_REPOSITORY", "").strip():
        hint = "--history reads past runs: set the variables GITHUB_REPOSITORY and GITHUB_TOKEN, or leave it out"
        raise OptionError("GITHUB_REPOSITORY: missing, expected owner/name", hint)


def _unconfirmed(candidates: tuple[Candidate, ...], pools: Pools) -> frozenset[tuple[str, str]]:
    guesses = {name for name, pool in pools.pools.items() if not pool.confirmed}
    return frozenset((one.group, one.labels) for one in candidates if one.pool in guesses)
