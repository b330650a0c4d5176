"""What workflow files ask for: labels and names of experiments, each with its place in the file."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

from pytest_sgpu.runners.lint import yaml_text
from pytest_sgpu.runners.lint.yaml_text import Mapping, PlacedError, Sequence, Text, Value
from pytest_sgpu.runners.routing import expressions, missing_blanks, workflow_matrix
from pytest_sgpu.runners.routing.expressions import Covered, is_covered
from pytest_sgpu.runners.routing.matrix_text import SPACE
from pytest_sgpu.runners.routing.placed_table import named
from pytest_sgpu.runners.routing.problems import Problem
from pytest_sgpu.runners.routing.text_places import TextPlaces

Kind = Literal["runs-on", "runner", "check", "opt-out"]

_LABELS: dict[str, Kind] = {"runs-on": "runs-on", "runner": "runner"}
_KINDS: dict[str, Kind] = {
    **_LABELS,
    "check_experiments": "check",
    "check-experiments": "check",
    "opt_out_experiments": "opt-out",
    "opt-out-experiments": "opt-out",
}
_MATRICES = ("matrix", "test-matrix")
_OPTION = re.compile(r"""--(check|opt-out)-experiments(?:=|[ \t]+)["']?([\w,-]+)""")
_BESIDE = re.compile(r"(?:(?:runner|label|fleet)s?[-_](?:label[-_])?)?prefix", re.IGNORECASE)
_TAKES_RUNNER = re.compile(r"(?<![\w.-])matrix\b(?:(?!\s*\.)|[^&|]*\b(?:runner|runs-on)\b)", re.IGNORECASE)
_IN_TEXT = " (somewhere in this text)"


@dataclass(frozen=True, slots=True)
class Use:
    """One label or name of an experiment: as what, and where (from 1).

    ``prefixed``: the output of the routing is put before it, or is given beside it to be put there.
    ``given``: what is written out beside it as its prefix; the routing then decides nothing for it.
    ``note``: what to say of the place, when it is only that of a text with the label somewhere in it.
    """

    kind: Kind
    name: str
    line: int
    column: int
    prefixed: bool = False
    given: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Workflow:
    """A workflow file: its name as the routing knows it, what it asks for line by line, what is wrong with its text.

    ``prefixes_matrix``: a job puts the output of the routing before what comes from elsewhere, such as its matrix.
    """

    source: str
    name: str
    uses: tuple[Use, ...]
    problems: tuple[Problem, ...] = ()
    prefixes_matrix: bool = False


def read_workflow(text: str, source: str) -> Workflow:
    """Read one workflow file. Raises SgpuError without ruamel.yaml.

    Of an expression only the literal labels that it may come to are looked at, and those of the matrix that it names.
    """
    covered = Covered(text)
    try:
        root = yaml_text.parse(covered.text, source)
    except PlacedError as error:
        broken = Problem(source, error.line, "error", str(error), "correct the file first", error.column)
        return Workflow(source, "", (), (broken,))
    if not isinstance(root, Mapping):
        what = f"found {named(root) if root else 'nothing'}, expected a workflow: a mapping with on: and jobs:"
        return Workflow(source, "", (), (Problem(source, root.line if root else 1, "error", what),))
    reader = _Reader(covered, covered.lines, lambda line, column: (line, column, ""))
    uses = tuple(sorted(reader.walk(root, _Where()), key=lambda use: (use.line, use.column)))
    reader.jobs(root)
    title = root.get("name")
    name = title.text if isinstance(title, Text) and not is_covered(title.text) else ""
    problems = tuple(Problem(source, line, "error", what, hint, at) for line, at, what, hint in reader.problems)
    return Workflow(source, name, uses, problems, reader.prefixes_matrix)


@dataclass(frozen=True, slots=True)
class _Where:
    """Where a value stands. ``labels``: a `runner` there is that of a job, not an input or a variable of a step.

    ``axes``: the matrix that an expression there may name.
    """

    in_matrix: bool = False
    in_steps: bool = False
    labels: bool = True
    axes: Mapping | None = None


class _Reader:
    """Reads a workflow, or a matrix that is a text in it; ``place`` leads from there to the file."""

    def __init__(self, covered: Covered, lines: list[str], place: Callable[[int, int], tuple[int, int, str]]) -> None:
        self.problems: list[workflow_matrix.Finding] = []
        self.prefixes_matrix = False
        self._covered = covered
        self._lines = lines
        self._place = place
        self._seen: set[int] = set()

    def jobs(self, root: Mapping) -> None:
        """Look for jobs whose `runs-on` has nothing in it."""
        jobs = root.get("jobs")
        for _, job in jobs if isinstance(jobs, Mapping) else ():
            runs_on = job.get("runs-on") if isinstance(job, Mapping) else None
            is_empty = isinstance(runs_on, Sequence) and not runs_on.items
            if runs_on and (is_empty or (isinstance(runs_on, Text) and not runs_on.text.strip())):
                what = "an empty list" if is_empty else named(runs_on)
                self._error(runs_on, f"runs-on: found {what}, expected a label", "runs-on: LABEL")

    def walk(self, value: Value, where: _Where) -> Iterator[Use]:
        if id(value) in self._seen:  # an alias: told where it is written
            return
        self._seen.add(id(value))
        if isinstance(value, Sequence):
            for item in value.items:
                yield from self.walk(item, where)
        elif isinstance(value, Mapping):
            beside = [child for key, child in value if _BESIDE.fullmatch(key.text) and isinstance(child, Text)]
            is_output = any(expressions.is_prefix(text.text) for text in beside)
            given = next((text.text.strip() for text in beside if not is_covered(text.text)), "")
            if not where.in_matrix and (matrix := workflow_matrix.of_job(value)):
                where = replace(where, axes=matrix)
            for key, child in value:
                for use in self._entry(key, child, self._inner(value, key, where)):
                    prefixed = use.prefixed or (bool(is_output or given) and _KINDS.get(key.text) == "runner")
                    yield replace(use, prefixed=prefixed, given=use.given or given)

    def _inner(self, mapping: Mapping, key: Text, where: _Where) -> _Where:
        """Say where the value of a key stands."""
        if where.in_matrix:
            return where
        if key.text == "steps":
            return replace(where, in_steps=True)
        if key.text == "env" or (key.text == "with" and where.in_steps):
            return replace(where, labels=False)
        if key.text == "strategy" and mapping.get("runs-on"):
            return replace(where, labels=self._takes_runner(mapping))
        return replace(where, in_matrix=True, axes=None) if key.text == "matrix" else where

    def _takes_runner(self, job: Mapping) -> bool:
        """Tell whether the field `runner` of a job's matrix may be a label: of `runs-on`, or of a called workflow."""
        if job.get("uses") or job.get("with"):
            return True
        runs_on = job.get("runs-on")
        texts = _labels(runs_on) if runs_on else ()
        return any(_TAKES_RUNNER.search(one) for text in texts for one in self._covered.within(text.text))

    def _entry(self, key: Text, child: Value, where: _Where) -> Iterator[Use]:
        kind = _KINDS.get(key.text)
        if kind and (where.labels or key.text not in _LABELS):
            yield from self._named(kind, child, where.axes)
        elif key.text.lower().replace("_", "-") in _MATRICES and isinstance(child, Text):
            yield from self._matrix(child, is_test_matrix=key.text.lower() != "matrix")
        elif key.text == "run" and isinstance(child, Text):
            yield from self._script(child)
        elif missing_blanks.is_tight_key(key, child, in_matrix=where.in_matrix):
            self._error(key, missing_blanks.told(key.text), SPACE)
        if key.text == "matrix" and isinstance(child, Mapping):
            self._tight_entries(child)
        if key.text != "run" and isinstance(child, Text):
            self._tight_lines(child)
        yield from self.walk(child, where)

    def tell(self, line: int, column: int, message: str, hint: str) -> None:
        """Add what is wrong at a place in what is read here."""
        line, column, note = self._place(line, column)
        self.problems.append((line, column, message + note, hint))

    def _error(self, at: Value, message: str, hint: str) -> None:
        self.tell(at.line, at.column, message, hint)

    def _tight_entries(self, matrix: Mapping) -> None:
        for item in workflow_matrix.tight_entries(matrix):
            self._error(item, missing_blanks.told(item.text), SPACE)

    def _tight_lines(self, text: Text) -> None:
        """Look for lines that are meant as fields, but went on with the text before for want of a blank."""
        places = TextPlaces(self._lines, text)
        for offset in missing_blanks.fields_in(text):
            place = places.at(offset)
            if place and not self._lines[place[0] - 1][: place[1] - 1].strip():
                self._error(Value(*place), missing_blanks.told(text.text[offset:].split()[0]), SPACE)

    def _named(self, kind: Kind, value: Value, axes: Mapping | None, *, prefixed: bool = False) -> Iterator[Use]:
        for text in _labels(value, is_input=kind != "runs-on"):
            self.prefixes_matrix |= kind == "runs-on" and expressions.is_prefixed(text.text)
            if kind in _LABELS.values():
                yield from self._label(kind, text, axes, prefixed=prefixed)
            else:
                yield from self._names(kind, text)

    def _label(self, kind: Kind, text: Text, axes: Mapping | None, *, prefixed: bool) -> Iterator[Use]:
        rest, is_behind = expressions.without_prefix(text.text.strip())
        prefixed |= is_behind
        if rest and not is_covered(rest):
            line, column, note = self._place(text.line, text.column)
            yield Use(kind, rest, line, column, prefixed, note=note)
        for result in self._covered.results(rest):
            path = result.text.split(".")
            if result.is_literal and result.text.strip() and result.text[0] not in "[{":  # JSON, for somebody else
                yield Use(kind, result.text.strip(), result.line, result.column, prefixed)
            elif not result.is_literal and path[0] == "matrix" and path[1:] and axes and path[-1] not in _LABELS:
                for value in workflow_matrix.values(axes, path[1:]):
                    yield from self._named(kind, value, None, prefixed=prefixed)

    def _names(self, kind: Kind, text: Text) -> Iterator[Use]:
        yield from self._listed(kind, text, text.text, 0, TextPlaces(self._lines, text))

    def _script(self, text: Text) -> Iterator[Use]:
        places = TextPlaces(self._lines, text)
        for option in _OPTION.finditer(text.text):
            kind: Kind = "check" if option[1] == "check" else "opt-out"
            yield from self._listed(kind, text, option[2], option.start(2), places)

    def _listed(self, kind: Kind, text: Text, names: str, offset: int, places: TextPlaces) -> Iterator[Use]:
        """Give names with commas between them, which begin at ``offset`` of a text."""
        for part in names.split(","):
            name = part.strip()
            if name and not is_covered(name):
                line, column, note = self._inside(text, places.at(offset + part.index(name)))
                yield Use(kind, name, line, column, note=note)
            offset += len(part) + 1

    def _inside(self, text: Text, place: tuple[int, int] | None) -> tuple[int, int, str]:
        """Give the place in the file of a place in a text, that of the text when it cannot be told."""
        line, column, note = self._place(*place) if place else self._place(text.line, text.column)
        return line, column, note if place else _IN_TEXT

    def _matrix(self, text: Text, *, is_test_matrix: bool) -> Iterator[Use]:
        if not text.text.strip() or expressions.is_all_covered(text.text):
            return
        places = TextPlaces(self._lines, text)
        lines = text.text.split("\n")
        inner = _Reader(self._covered, lines, lambda line, column: self._inside(text, places.inside(line, column)))
        try:
            root = yaml_text.parse(text.text, "")
        except PlacedError as error:
            inner.tell(*workflow_matrix.no_yaml(text.text, error))
        else:
            yield from inner.walk(root, _Where(in_matrix=True)) if root else ()
            inner.entries(root, is_test_matrix=is_test_matrix)
            if not inner.problems and (found := workflow_matrix.refused(text.text)):
                inner.tell(*found)
        self.problems += inner.problems

    def entries(self, root: Value | None, *, is_test_matrix: bool) -> None:
        """Look at the entries of a matrix that is a text."""
        if isinstance(root, Mapping):
            self._tight_entries(root)
        for finding in workflow_matrix.wrong_entries(root, is_test_matrix=is_test_matrix):
            self.tell(*finding)


def _labels(value: Value, *, is_input: bool = False) -> Iterator[Text]:
    """Give the texts of `runs-on`, or of an input: its value, or where it is declared its default."""
    if isinstance(value, Mapping):
        inner = value.get("default") if is_input else value.get("labels")
        yield from _labels(inner, is_input=is_input) if inner and not isinstance(inner, Mapping) else ()
    elif isinstance(value, Sequence):
        yield from (item for item in value.items if isinstance(item, Text))
    elif isinstance(value, Text):
        yield value
