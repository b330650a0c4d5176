"""What the runner commands start, each part imported only when it is needed: the real network and the real clock."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_sgpu.errors import OptionError
from pytest_sgpu.runners.forecast.history import Past
from pytest_sgpu.runners.ports import Result
from pytest_sgpu.runners.settings.inputs import Settings

if TYPE_CHECKING:
    from pytest_sgpu.runners.lint.findings import Finding

# ruff: noqa: PLC0415 - `plan` and `lint` need no network, and `acquire` runs where nothing is installed

_API = "https://api.github.com"
_Values = Mapping[str, str]


def _acquire(inputs: _Values, env: _Values) -> Result:
    from pytest_sgpu.runners import coordinator, wire

    clock = wire.SystemClock()
    try:
        transport = wire.HttpTransport(api_url(env))
    except OptionError as error:
        return coordinator.refused(error, env, clock)
    return coordinator.run(inputs, env, transport, clock)


def _guard(inputs: _Values, env: _Values) -> Result:
    from pytest_sgpu.runners import guard, wire

    try:
        transport = wire.HttpTransport(api_url(env))
    except OptionError as error:
        return guard.refused(error)
    return guard.run(inputs, env, transport, wire.SystemClock())


def _cleanup(state: _Values, env: _Values) -> Result:
    from pytest_sgpu.runners import coordinator, post, wire

    try:
        transport = wire.HttpTransport(api_url(env))
    except OptionError as error:
        return post.refused(error, state, env)
    return coordinator.cleanup(state, env, transport, wire.SystemClock())


def _past(settings: Settings, inputs: _Values, env: _Values) -> tuple[Past, ...]:
    from pytest_sgpu.runners import wire
    from pytest_sgpu.runners.forecast import past
    from pytest_sgpu.runners.settings.inputs import token

    transport, clock = wire.HttpTransport(api_url(env)), wire.SystemClock()
    return past.read(settings.repository, settings.workflow, transport, token(inputs, env), clock)


def _lint(text: str, name: str) -> tuple[Finding, ...]:
    from pytest_sgpu.runners.lint import workflow

    return workflow.lint(text, name)


def api_url(env: _Values) -> str:
    """Give the address of the API: GITHUB_API_URL, or that of github.com."""
    return env.get("GITHUB_API_URL", "").strip() or _API


@dataclass(frozen=True, slots=True)
class Tools:
    """The parts behind the commands. ``past`` reads the child runs that ``plan --history`` learns from."""

    acquire: Callable[[_Values, _Values], Result] = _acquire
    guard: Callable[[_Values, _Values], Result] = _guard
    cleanup: Callable[[_Values, _Values], Result] = _cleanup
    past: Callable[[Settings, _Values, _Values], tuple[Past, ...]] = _past
    lint: Callable[[str, str], tuple[Finding, ...]] = _lint
    now: Callable[[], float] = time.time
