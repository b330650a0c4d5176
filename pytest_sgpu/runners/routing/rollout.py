"""The rollout text, settings and users, to values and back; a fault costs only what it is in."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal

from pytest_sgpu.runners.lint.yaml_text import Text
from pytest_sgpu.runners.routing import settings
from pytest_sgpu.runners.routing.problems import Problem
from pytest_sgpu.runners.routing.rollout_types import Experiment, Rollout, User
from pytest_sgpu.runners.routing.scalars import resolve
from pytest_sgpu.runners.routing.sections import MOST_LINES, SEPARATOR, count_lines, cut
from pytest_sgpu.runners.routing.settings import SettingsError
from pytest_sgpu.runners.routing.users import users

__all__ = ["Experiment", "Rollout", "User", "format_rollout", "parse_rollout"]


_NEITHER = "there are neither settings nor user lines in it"
_EXPECTED = f"settings begin with a line experiments: and end with a line '{SEPARATOR}'; a user line begins with @"


def parse_rollout(text: str, source: str) -> Rollout:
    """Read a rollout text; ``source`` names it in problems.

    Raises nothing for its content: a text that cannot be understood is not ``usable``. SgpuError only when there are
    settings to read and ruamel.yaml is not installed.
    """
    count = count_lines(text)
    if count > MOST_LINES:
        return _unusable(SettingsError(f"it has {count} lines, at most {MOST_LINES} are read"), {}, [], source)
    sections = cut(text, source)
    problems = sections.problems
    experiments: dict[str, Experiment] = {}
    error = None
    try:
        experiments, found = settings.experiments(sections.settings, source)
        problems += found
    except SettingsError as caught:
        error = caught
    people, found = users(sections.users, sections.users_line, experiments, source)
    problems += found
    if not error and not sections.settings.strip() and not people:
        error = SettingsError(_NEITHER, hint=_EXPECTED) if text.strip() else SettingsError("it is empty")
    if error:
        return _unusable(error, people, problems, source)
    return Rollout(experiments, people, _ordered(problems))


def _unusable(error: SettingsError, people: Mapping[str, User], problems: list[Problem], source: str) -> Rollout:
    why = f"{error} (line {error.line})" if error.line else str(error)
    told = Problem(source, error.line, "error", str(error), error.hint, error.column)
    return Rollout({}, people, _ordered([*problems, told]), usable=False, why=why)


def _ordered(problems: list[Problem]) -> tuple[Problem, ...]:
    return tuple(sorted(problems, key=lambda one: (one.line, one.column)))


def format_rollout(rollout: Rollout) -> str:
    """Write experiments and users as a rollout text that reads as the same again; problems are not written."""
    lines = ["experiments:" if rollout.experiments else "experiments: {}"]
    for one in rollout.experiments.values():
        lines.append(f"  {_key(one.name)}:")
        lines.append(f"    rollout_perc: {_number(one.rollout_perc)}")
        if one.all_branches:
            lines.append("    all_branches: true")
        if not one.default:
            lines.append("    default: false")
        if one.workflows:
            lines.append(f"    workflows: {_workflows(one.workflows)}")
    lines += [SEPARATOR, *map(_user, rollout.users.values())]
    return "\n".join(lines) + "\n"


def _user(user: User) -> str:
    if user.out_of_all:
        return f"#@{user.login}"
    items = [name if value >= 100 else f"{name}:{_number(value)}" for name, value in user.percent.items()]  # noqa: PLR2004
    return ",".join([f"@{user.login}", *items, *(f"-{name}" for name in sorted(user.out))])


def _number(value: float) -> str:
    """Write a number without an exponent, which would read as text."""
    return str(int(value)) if value == int(value) else format(Decimal(repr(value)), "f")


def _key(name: str) -> str:
    return name if resolve(Text(0, 0, name, plain=True)) == name else json.dumps(name)


def _workflows(names: tuple[str, ...]) -> str:
    if any("," in name or "\n" in name for name in names):
        return f"[{', '.join(map(_quoted, names))}]"
    return _quoted(", ".join(names))


def _quoted(text: str) -> str:
    """Write a text in double quotes, what does not print as YAML escapes it (JSON's pairs would not do)."""
    escaped = ("\\" + sign if sign in '"\\' else sign if sign.isprintable() else f"\\U{ord(sign):08x}" for sign in text)
    return f'"{"".join(escaped)}"'
