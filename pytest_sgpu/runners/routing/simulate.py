"""A rollout tried out on many: whether shares come out as configured, and whether a key keeps its decision."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal, get_args

from pytest_sgpu.errors import OptionError
from pytest_sgpu.runners.routing import chance
from pytest_sgpu.runners.routing.decide import decide
from pytest_sgpu.runners.routing.decision import Decision, Request
from pytest_sgpu.runners.routing.fleets import Fleets
from pytest_sgpu.runners.routing.rollout import Rollout
from pytest_sgpu.runners.text import one_line

Key = Literal["user", "run", "none"]
"""What a draw hangs on: the user, the user's run of a day, or chance alone."""

MOST_RUNS = 2_000_000
"""The most users times days: each is decided, which takes its time."""

_ERRORS = 4.0  # so many standard errors off: once in 16,000 shares
_MOST_DRAWN = 8  # experiments; every subset of them is a case
_NEVER = math.nextafter(100.0, 0.0)
_NAME = 24  # columns


@dataclass(frozen=True, slots=True)
class Share:
    """How often something was so among ``samples``. All but ``samples`` in percent."""

    name: str
    expected: float
    observed: float
    standard_error: float
    samples: int

    @property
    def is_as_expected(self) -> bool:
        """Tell whether the difference is a statistical one: at most four standard errors and one sample."""
        spare = 100 / self.samples if self.standard_error else 0.0
        return abs(self.observed - self.expected) <= _ERRORS * self.standard_error + spare + 1e-9


@dataclass(frozen=True, slots=True)
class Report:
    """What a simulation found.

    ``changed``: users who were not decided alike on all days. On the first day, ``rerun_changed``: users whose run was
    decided in another way when done again; ``moved_back``: users who lost an experiment when all percentages were
    raised, half of the way to 100 and then to 100.
    """

    users: int
    days: int
    seed: int
    key: Key
    experiments: tuple[Share, ...]
    prefixes: tuple[Share, ...]
    changed: int
    rerun_changed: int
    moved_back: int

    @property
    def is_ok(self) -> bool:
        """Tell whether shares are as configured, and whatever the key promises is kept."""
        is_stable = self.key == "none" or not (self.rerun_changed or self.moved_back)
        is_kept = self.key != "user" or not self.changed
        return is_stable and is_kept and all(one.is_as_expected for one in (*self.experiments, *self.prefixes))


def simulate(
    rollout: Rollout,
    fleets: Fleets,
    users: int,
    days: int,
    seed: int,
    *,
    key: Key = "user",
    request: Request | None = None,
) -> Report:
    """Decide for ``users`` who are not in the rollout's list, each once a day for ``days`` days (Q97 to Q99).

    ``request``: what they all ask, but for the names of actor and author. Equal arguments give an equal report. Raises
    OptionError for numbers that make no sense.
    """
    _check(users, days, key)
    run = _Run(rollout, fleets, seed, key, request or Request())
    enabled: Counter[str] = Counter()
    prefixes: Counter[str] = Counter()
    changed = rerun_changed = moved_back = 0
    raised = [_raised(rollout, part) for part in (0.5, 1.0)]
    for login in itertools.islice(run.logins(), users):
        seen = set()
        for day in range(days):
            decision = run.decide(rollout, login, day)
            seen.add((decision.enabled, decision.label_type))
            if key != "user" or day == 0:
                enabled.update(decision.enabled)
                prefixes[decision.label_type] += 1
            if day == 0:
                again = run.decide(rollout, login, day)
                rerun_changed += (again.enabled, again.label_type) != (decision.enabled, decision.label_type)
                levels = [decision, *(run.decide(one, login, day) for one in raised)]
                moved_back += any(set(low.enabled) - set(high.enabled) for low, high in itertools.pairwise(levels))
        changed += len(seen) > 1
    samples = users if key == "user" else users * days
    expected = run.expected()
    return Report(
        users,
        days,
        seed,
        key,
        _shares({name: expected.get(name, 0.0) for name in rollout.experiments}, enabled, samples),
        _shares(run.expected_prefixes(expected), prefixes, samples),
        changed,
        rerun_changed,
        moved_back,
    )


def lines(report: Report) -> list[str]:
    """Give a report as text, at most 80 columns wide."""
    text = [f"{report.users} users, {report.days} days, seed {report.seed}, key: {report.key}", ""]
    for title, shares in (("experiment", report.experiments), ("prefix", report.prefixes)):
        if shares:
            text.append(f"{title:<{_NAME}} {'expected':>9} {'observed':>9} {'std error':>9} {'samples':>8}  verdict")
        for one in shares:
            verdict = "as configured" if one.is_as_expected else "NOT as configured"
            name = one_line(one.name, _NAME) or '""'
            numbers = f"{one.expected:>8.3f}% {one.observed:>8.3f}% {one.standard_error:>8.3f}% {one.samples:>8}"
            text.append(f"{name:<{_NAME}} {numbers}  {verdict}")
        text += [""] if shares else []
    text += [
        f"users decided in another way on another day: {report.changed} of {report.users}",
        f"users decided in another way by a re-run: {report.rerun_changed} of {report.users}",
        f"users who lose an experiment when percentages rise: {report.moved_back} of {report.users}",
        "",
        "as configured" if report.is_ok else "NOT as configured",
    ]
    return text


def _check(users: int, days: int, key: str) -> None:
    if key not in get_args(Key):
        raise OptionError(f"key: found {one_line(key, 60)!r}, expected one of {', '.join(get_args(Key))}")
    for name, value in (("users", users), ("days", days)):
        if value < 1:
            raise OptionError(f"{name}: found {value}, expected at least 1")
    if users * days > MOST_RUNS:
        what = f"users times days: found {users * days:,} runs, expected at most {MOST_RUNS:,}"
        raise OptionError(what, "more take minutes; try fewer days")


def _raised(rollout: Rollout, part: float) -> Rollout:
    """Raise every percentage by ``part`` of what it lacks to 100."""
    experiments = {
        name: replace(one, rollout_perc=one.rollout_perc + part * (100 - one.rollout_perc))
        for name, one in rollout.experiments.items()
    }
    return replace(rollout, experiments=experiments)


def _shares(expected: Mapping[str, float], counts: Mapping[str, int], samples: int) -> tuple[Share, ...]:
    unexpected = dict.fromkeys((name for name in counts if name not in expected), 0.0) if expected else {}
    return tuple(
        Share(
            name,
            percent,
            100 * counts.get(name, 0) / samples,
            math.sqrt(max(percent * (100 - percent), 0) / samples),
            samples,
        )
        for name, percent in {**expected, **unexpected}.items()
    )


class _Run:
    def __init__(self, rollout: Rollout, fleets: Fleets, seed: int, key: Key, request: Request) -> None:
        self._rollout = rollout
        self._fleets = fleets
        self._seed = seed
        self._key = key
        self._request = request
        self._serial = itertools.count()

    def logins(self) -> Iterator[str]:
        """Give names that nobody in the list has."""
        names = (f"simulated-{number}" for number in itertools.count(1))
        return (name for name in names if name not in self._rollout.users)

    def decide(self, rollout: Rollout, login: str, day: int) -> Decision:
        text = f"{self._seed}/{login}"
        if self._key == "run":
            text += f"/{day}"
        elif self._key == "none":
            text = f"{self._seed}/{next(self._serial)}"  # never the same again, as chance is
        return self._decide(rollout, login, chance.keyed(text))

    def expected(self) -> dict[str, float]:
        """Give the percentage of each experiment that nothing but the draw holds back."""
        reached = self._stranger(lambda _: 0.0).enabled
        return {name: min(max(self._rollout.experiments[name].rollout_perc, 0.0), 100.0) for name in reached}

    def expected_prefixes(self, expected: Mapping[str, float]) -> dict[str, float]:
        """Give the share of each prefix, from draws that do not hang together; nothing when that takes too long."""
        open_ = [name for name, percent in expected.items() if percent < 100]  # noqa: PLR2004
        if len(open_) > _MOST_DRAWN:
            return {}
        shares: dict[str, float] = {}
        for picks in itertools.product((True, False), repeat=len(open_)):
            off = {name for name, is_on in zip(open_, picks, strict=True) if not is_on}
            weight = math.prod(1 - expected[name] / 100 if name in off else expected[name] / 100 for name in open_)
            prefix = self._stranger(lambda name, off=off: _NEVER if name in off else 0.0).label_type  # type: ignore[misc]
            shares[prefix] = shares.get(prefix, 0.0) + 100 * weight
        return shares

    def _stranger(self, draw: Callable[[str], float]) -> Decision:
        return self._decide(self._rollout, next(self.logins()), draw)

    def _decide(self, rollout: Rollout, login: str, draw: chance.Chance) -> Decision:
        return decide(rollout, self._fleets, replace(self._request, actor=login, author=login), draw)
