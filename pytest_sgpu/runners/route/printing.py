"""What the routing commands print: every line made harmless, and JSON that no reader can take for a command."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace

from pytest_sgpu.runners.route import default_fleet
from pytest_sgpu.runners.route.decision import Decided
from pytest_sgpu.runners.routing import explain
from pytest_sgpu.runners.routing.decision import Request
from pytest_sgpu.runners.routing.matrix import Translation, untranslated
from pytest_sgpu.runners.routing.problems import Problem
from pytest_sgpu.runners.text import command_property, command_value, one_line

LONG = 1000  # characters of one line
LONGEST_NOTE = 4000  # characters of an annotation, which GitHub cuts at 4096

_COMMAND = re.compile(r"^(\s*)(?=::|##)", re.MULTILINE)


def harmless(text: str) -> str:
    """Put ``./`` before what would begin a line as a command of the CI service does, also behind blanks."""
    return _COMMAND.sub(r"\1./", text).replace("##[", "## [")


def pairs(outputs: Mapping[str, str]) -> list[str]:
    """Give outputs as lines ``key=value``."""
    return [f"{name}={one_line(text, LONG)}" for name, text in outputs.items()]


def explained(made: Decided) -> list[str]:
    """Give the request and every rule that was looked at, as lines that begin with ``# ``."""
    told = [f"fleets file: {one_line(made.file)}"]
    told += [f"rollout text: {one_line(made.source)}"] if made.source else []
    told += [f"{name}: {one_line(text)}" for name, text in _asked(made.request).items()]
    return [f"# {line}".rstrip() for line in (*told, *explain.lines(made.decision))]


def decision_json(made: Decided, *, explained: bool) -> dict[str, object]:
    """Give the document of a decision; with ``explained`` its request and steps too."""
    decision = made.decision
    document = default_fleet.as_json(made.outputs.of(decision))
    document |= {"enabled": list(decision.enabled), "dropped": list(decision.dropped)}
    document |= {"warnings": list(decision.warnings)}
    if explained:
        document |= {"fleets": made.file, "rollout": made.source}
        document |= {"request": _asked(made.request), "steps": explain.values(decision)}
    return document


def document(value: object) -> str:
    """Give JSON over several lines, in ASCII."""
    return _disarmed(json.dumps(value, indent=2))


def armoured(text: str) -> str:
    """Give a line of JSON with everything escaped that does not print; other characters stay. Its value is the same."""
    escaped = "".join(
        json.dumps(c)[1:-1] if unicodedata.category(c)[0] == "C" or unicodedata.category(c) in {"Zl", "Zp"} else c
        for c in text
    )
    return _disarmed(escaped)


def matrix_lines(made: Translation) -> list[str]:
    """Say what became of every entry, as lines that begin with ``# ``."""
    told = [(one.line, f"{one.before} -> {one.resolution.label} ({one.resolution.text})") for one in made.changed]
    told += [(one.line, f"config {one.config}: left out: {one.reason}") for one in made.dropped]
    return [f"# line {line}: {one_line(text, LONG)}" for line, text in sorted(told)]


def matrix_errors(made: Translation) -> list[tuple[Problem, str]]:
    """Give each error with its text: of unknown labels all, each in a line of its own where there are several."""
    errors = [problem for problem in made.problems if problem.severity == "error"]
    return [(one, _refused(made) if one is made.refused else problem_line(one)) for one in errors]


def problem_line(problem: Problem) -> str:
    """Give a problem with its place and its hint, on one line or two."""
    place = ":".join(str(part) for part in (one_line(problem.source), problem.line or 1, problem.column or 1))
    line = f"{place}: {problem.severity}: {one_line(problem.message, LONG)}"
    return f"{line}\n  hint: {one_line(problem.hint, LONG)}" if problem.hint else line


def problem_json(problem: Problem) -> dict[str, object]:
    """Give a problem as an object, with the place that the text has: line and column from 1."""
    told = asdict(problem) | {"line": problem.line or 1, "column": problem.column or 1}
    del told["mistake"]  # the severity says it
    return told


def annotation(severity: str, title: str, message: str, place: Problem | None = None) -> str:
    """Give a workflow command that shows ``message`` on the page of the run, or at a line of a file."""
    named = {"file": place.source, "line": str(place.line or 1), "col": str(place.column or 1)} if place else {}
    named |= {"title": title}
    properties = ",".join(f"{name}={command_property(one_line(text))}" for name, text in named.items())
    return f"::{severity} {properties}::{command_value(one_line(message, LONGEST_NOTE))}"


def counted(problems: Iterable[Problem], checked: int) -> str:
    """Say how many texts were checked, and what was found."""
    counts: dict[str, int] = {}
    for problem in problems:
        counts[problem.severity] = counts.get(problem.severity, 0) + 1
    shown = ", ".join(f"{count} {word}{'s' * (count != 1)}" for word, count in sorted(counts.items()))
    return f"{checked} text{'s' * (checked != 1)} checked: {shown or 'nothing found'}"


def _refused(made: Translation) -> str:
    assert made.refused
    first, hint = problem_line(replace(made.refused, message=f"{untranslated(made.unknown)}:")).split("\n")
    named = [one.told(len(one.lines)) for one in made.unknown]
    if len(named) == 1:
        return f"{first} {named[0]}\n{hint}"
    return "\n".join([first, *(f"    {one}" for one in named), hint])


def _asked(request: Request) -> dict[str, str]:
    values = {
        "actor": request.actor,
        "author": request.author,
        "branch": request.branch,
        "ref-type": request.ref_type,
        "repo": request.repository,
        "workflow": request.workflow,
        "check-experiments": ", ".join(request.check),
        "opt-out-experiments": ", ".join(request.opt_out),
        "labels": ", ".join(request.labels),
    }
    return {name: text for name, text in values.items() if text}


def _disarmed(text: str) -> str:
    """Break up the old form of a workflow command, which is heard anywhere in a line; the value stays the same."""
    return re.sub(r"##\[", r"#\\u0023[", text)
