"""One decision, with everything that has to be read for it; whatever goes wrong on the way is a fallback."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from pytest_sgpu.errors import OptionError, SgpuError
from pytest_sgpu.runners.ports import Clock, Transport, TransportError
from pytest_sgpu.runners.route import default_fleet, github, sources
from pytest_sgpu.runners.route.arguments import Asked
from pytest_sgpu.runners.route.default_fleet import Outputs
from pytest_sgpu.runners.routing import chance
from pytest_sgpu.runners.routing.decide import decide, fallback
from pytest_sgpu.runners.routing.decision import Decision, Request
from pytest_sgpu.runners.routing.fleets import Fleets, parse_fleets
from pytest_sgpu.runners.routing.problems import Problem
from pytest_sgpu.runners.routing.rollout import Rollout, parse_rollout
from pytest_sgpu.runners.text import one_line


def _connect(env: Mapping[str, str]) -> Transport:
    from pytest_sgpu.runners import wire  # noqa: PLC0415 - most commands need no network
    from pytest_sgpu.runners.face import tools  # noqa: PLC0415 - most commands need no network

    return wire.HttpTransport(tools.api_url(env))


def _clock() -> Clock:
    from pytest_sgpu.runners import wire  # noqa: PLC0415 - as above

    return wire.SystemClock()


@dataclass(frozen=True, slots=True)
class Tools:
    """The world of the routing commands: the API, the clock, chance (at least 0, less than 1)."""

    connect: Callable[[Mapping[str, str]], Transport] = _connect
    clock: Callable[[], Clock] = _clock
    random: Callable[[], float] = field(default_factory=lambda: random.SystemRandom().random)


@dataclass(frozen=True, slots=True)
class Decided:
    """A decision and what it was made from. ``fleets`` is None when that file could not be read; ``file`` names it."""

    decision: Decision
    outputs: Outputs
    request: Request
    fleets: Fleets | None = None
    source: str = ""
    problems: tuple[Problem, ...] = ()
    hint: str = ""
    file: str = ""


def decided(asked: Asked, env: Mapping[str, str], tools: Tools) -> Decided:
    """Read and decide. Raises nothing: jobs wait for the answer, and every failure is the default fleet (Q110)."""
    known: Fleets | None = None
    outputs = Outputs()
    file = sources.told(sources.fleets(asked.fleets))
    try:
        known = read_fleets(asked.fleets)
        outputs = default_fleet.outputs_of(known)
        return replace(_Deciding(asked, known, env, tools).run(), file=file)
    except SgpuError as error:
        why, hint = error.message, error.hint
    except (TransportError, OSError) as error:
        why, hint = one_line(error), ""
    except Exception as error:  # noqa: BLE001 - also for what nobody thought of, a job gets its default fleet
        why, hint = f"internal error: {type(error).__name__}: {error}", "please report it"
    if known:
        return Decided(fallback(known, why), outputs, asked.request, known, hint=one_line(hint), file=file)
    outputs = default_fleet.outputs_without(asked.fleets)
    return Decided(default_fleet.decision(outputs, why), outputs, asked.request, None, hint=one_line(hint), file=file)


def read_fleets(path: str) -> Fleets:
    """Read the fleets file. Raises SgpuError."""
    sources.need_yaml()
    file = sources.fleets(path)
    return parse_fleets(sources.read(file), sources.short(file))


def read_rollout(path: str) -> tuple[Rollout, str]:
    """Read a rollout text from a file, and give its name too. Raises SgpuError."""
    source = one_line(path)
    return parse_rollout(sources.read(Path(path), sources.LONGEST_CONFIG), source), source


class _Deciding:
    def __init__(self, asked: Asked, fleets: Fleets, env: Mapping[str, str], tools: Tools) -> None:
        self._asked = asked
        self._fleets = fleets
        self._env = env
        self._tools = tools
        self._opened: github.Api | None = None

    def run(self) -> Decided:
        rollout, source = self._rollout()
        request = self._request()
        decision = decide(rollout, self._fleets, request, self._chance())
        outputs = default_fleet.outputs_of(self._fleets)
        hint = "" if rollout.usable else f"{source}: sgpu route lint says where"
        return Decided(decision, outputs, request, self._fleets, source, rollout.problems, hint)

    def _rollout(self) -> tuple[Rollout, str]:
        if self._asked.blank:
            raise OptionError(self._asked.blank, "most likely a variable that is not set")
        if self._asked.config:
            return read_rollout(self._asked.config)
        where = github.issue(self._asked.issue)
        source = f"{where.repository}#{where.number}"
        return parse_rollout(self._api().first_comment(where), source), source

    def _request(self) -> Request:
        request = self._asked.request
        repository = request.repository or self._env.get("GITHUB_REPOSITORY", "")
        if self._asked.pr:
            labels = self._api().labels(github.pull_request(repository, self._asked.pr))
            request = replace(request, labels=labels)
        pull = self._fleets.pull_request(request.actor, request.ref_type, request.branch)
        if pull is not None and not request.author:
            author = self._api().author(github.pull_request(repository, str(pull)))
            request = replace(request, author=author)
        return request

    def _chance(self) -> chance.Chance:
        if self._asked.draw is not None:
            return chance.fixed(self._asked.draw)
        return chance.keyed(self._asked.key) if self._asked.key else chance.drawn(self._tools.random)

    def _api(self) -> github.Api:
        if self._opened is None:
            self._opened = github.Api(lambda: self._tools.connect(self._env), self._tools.clock(), self._env)
        return self._opened
