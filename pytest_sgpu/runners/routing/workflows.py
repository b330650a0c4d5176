"""What workflow files ask for: labels and names of experiments, each with its place in the file."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

from pytest_sgpu.runners.lint import yaml_text
from pytest_sgpu.runners.lint.yaml_text import Mapping, PlacedError, Sequence, Text, Value
from pytest_sgpu.runners.routing import broken_yaml, expressions, label_texts, missing_blanks, workflow_matrix
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
_TEST_MATRICES = ("test-matrix", "test_matrix")
_MATRICES = ("matrix", *_TEST_MATRICES)
_OTHERS = ("env", "outputs")  # a `runner` there is a variable, or an output
_OPTION = re.compile(r"""--(check|opt-out)-experiments(?:=|[ \t]+)["']?([\w,-]+)""")
_BESIDE = re.compile(r"(?:(?:runner|label|fleet)s?[-_](?:label[-_])?)?prefix", re.IGNORECASE)
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
        return Workflow(source, "", (), (_broken(covered, source, error),))
    if not isinstance(root, Mapping):
        what = f"found {named(root) if root else 'nothing'}, expected a workflow: a mapping with on: and jobs:"
        return Workflow(source, "", (), (Problem(source, root.line if root else 1, "error", what),))
    reader = _Reader(covered, covered.lines, lambda line, column: (line, column, ""))
    found = dict.fromkeys(reader.walk(root, _Where()))
    uses = tuple(sorted(found, key=lambda use: (use.line, use.column)))
    reader.jobs(root)
    title = root.get("name")
    name = title.text if isinstance(title, Text) and not is_covered(title.text) else ""
    findings = dict.fromkeys(reader.problems)
    problems = tuple(Problem(source, line, "error", what, hint, at) for line, at, what, hint in findings)
    return Workflow(source, name, uses, problems, reader.prefixes_matrix)


def _broken(covered: Covered, source: str, error: PlacedError) -> Problem:
    """Say what is wrong with a file that is no YAML."""
    if found := broken_yaml.glued(covered.text, error):
        line, column, what = found
        return Problem(source, line, "error", missing_blanks.told(covered.shown(what)), SPACE, column)
    line, column = broken_yaml.within(covered.text, error)
    return Problem(source, line, "error", str(error), "correct the file first", column)


@dataclass(frozen=True, slots=True)
class _Where:
    """Where a value stands. ``labels``: a `runner` there is that of a job, not an input or a variable of a step.

    ``axes``: the matrix that an expression there may name. ``under``: the key whose value it is.
    """

    in_matrix: bool = False
    in_steps: bool = False
    labels: bool = True
    axes: Mapping | None = None
    under: str = ""


class _Reader:
    """Reads a workflow, or a matrix that is a text in it; ``place`` leads from there to the file."""

    def __init__(self, covered: Covered, lines: list[str], place: Callable[[int, int], tuple[int, int, str]]) -> None:
        self.problems: list[workflow_matrix.Finding] = []
        self.prefixes_matrix = False
        self._covered = covered
        self._lines = lines
        self._place = place
        self._seen: set[tuple[int, bool, bool]] = set()

    def jobs(self, root: Mapping) -> None:
        """Look for jobs whose `runs-on` has nothing in it."""
        jobs = root.get("jobs")
        for _, job in jobs if isinstance(jobs, Mapping) else ():
            runs_on = job.get("runs-on") if isinstance(job, Mapping) else None
            if runs_on and label_texts.is_nothing(runs_on):
                self._error(
                    runs_on, f"runs-on: found {label_texts.nothing(runs_on)}, expected a label", "runs-on: LABEL"
                )

    def walk(self, value: Value, where: _Where) -> Iterator[Use]:
        seen = (id(value), where.labels, where.in_matrix)
        if seen in self._seen:  # an alias: told where it is written
            return
        self._seen.add(seen)
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
                for use in self._entry(key, child, self._inner(value, key, where), where.under):
                    prefixed = use.prefixed or (bool(is_output or given) and _KINDS.get(key.text) == "runner")
                    yield replace(use, prefixed=prefixed, given=use.given or given)

    def _inner(self, mapping: Mapping, key: Text, where: _Where) -> _Where:
        """Say where the value of a key stands."""
        is_job = where.under == "jobs"  # of whatever name, also `matrix`
        where = replace(where, under=key.text)
        if where.in_matrix or is_job:
            return where
        if key.text == "steps":
            return replace(where, in_steps=True)
        if key.text in _OTHERS or (key.text == "with" and where.in_steps):
            return replace(where, labels=False)
        if key.text == "strategy" and mapping.get("runs-on"):
            return replace(where, labels=self._takes_runner(mapping))
        return replace(where, in_matrix=True, axes=None) if key.text == "matrix" else where

    def _takes_runner(self, job: Mapping) -> bool:
        """Tell whether the field `runner` of a job's matrix may be a label: of `runs-on`, or of a called workflow."""
        if job.get("uses") or job.get("with"):
            return True
        runs_on = job.get("runs-on")
        texts = label_texts.labels(runs_on) if runs_on else ()
        return any(self._covered.takes(text.text, _LABELS) for text in texts)

    def _entry(self, key: Text, child: Value, where: _Where, under: str) -> Iterator[Use]:
        kind = _KINDS.get(key.text)
        if kind and (where.labels or key.text not in _LABELS):
            is_json = kind == "runner" or where.in_matrix or under in {"with", "inputs"}  # not what a job itself has
            yield from self._named(kind, child, where.axes, is_json=is_json)
        elif key.text.lower() in _MATRICES:
            yield from self._matrices(key, child, under)
        elif key.text == "run" and isinstance(child, Text):
            yield from self._script(child)
        elif missing_blanks.is_tight_key(key, child, in_matrix=where.in_matrix):
            self._error(key, self._told(key.text), SPACE)
        if key.text == "matrix":
            self.tight_entries(child)
        if isinstance(child, Text):
            self._tight_lines(key, child)
        yield from self.walk(child, where)

    def tell(self, line: int, column: int, message: str, hint: str) -> None:
        """Add what is wrong at a place in what is read here."""
        line, column, note = self._place(line, column)
        self.problems.append((line, column, message + note, hint))

    def _error(self, at: Value, message: str, hint: str) -> None:
        self.tell(at.line, at.column, message, hint)

    def _told(self, found: str) -> str:
        return missing_blanks.told(self._covered.shown(found))

    def tight_entries(self, matrix: Value) -> None:
        """Look for entries of a matrix that are texts, since a blank is missing."""
        for item in workflow_matrix.tight_entries(matrix) if isinstance(matrix, Mapping) else ():
            self._error(item, self._told(item.text), SPACE)

    def _tight_lines(self, key: Text, text: Text) -> None:
        """Look for lines that are meant as fields, but went on with the text before for want of a blank."""
        places = TextPlaces(self._lines, text)
        for offset in missing_blanks.fields_in(key, text):
            place = places.at(offset)
            if place and places.begins_line(place):
                end = text.text.find(" ", offset)
                what = text.text[offset : end if end > 0 else None]
                self._error(Value(*place), self._told(what), SPACE)

    def _named(
        self, kind: Kind, value: Value, axes: Mapping | None, *, is_json: bool, prefixed: bool = False
    ) -> Iterator[Use]:
        """Give labels or experiments. ``is_json``: a text may be a list of labels as JSON, for `fromJSON`."""
        for text in label_texts.labels(value, is_input=kind != "runs-on"):
            self.prefixes_matrix |= kind == "runs-on" and expressions.is_prefixed(text.text)
            if kind in _LABELS.values():
                yield from self._label(kind, text, axes, is_json=is_json, prefixed=prefixed)
            else:
                yield from self._names(kind, text)

    def _label(self, kind: Kind, text: Text, axes: Mapping | None, *, is_json: bool, prefixed: bool) -> Iterator[Use]:
        rest, is_behind = expressions.without_prefix(text.text.strip())
        prefixed |= is_behind
        if rest and not is_covered(rest):
            yield from self._written(kind, text, rest, is_json=is_json, prefixed=prefixed)
        for result in self._covered.results(rest):
            if result.text.strip() and result.text[0] not in "[{":  # JSON, for somebody else
                yield Use(kind, result.text.strip(), result.line, result.column, prefixed)
            elif result.path[:1] == ("matrix",) and result.path[1:] and axes:
                for key, value in workflow_matrix.values(axes, result.path[1:]):
                    if key.text not in _LABELS:  # those are looked at where they are written
                        yield from self._named(kind, value, None, is_json=True, prefixed=prefixed)

    def _written(self, kind: Kind, text: Text, label: str, *, is_json: bool, prefixed: bool) -> Iterator[Use]:
        """Give a label that is written out, or those of a list that is JSON."""
        names = label_texts.in_json(label) if is_json else None
        if names is None:
            line, column, note = self._place(text.line, text.column)
            yield Use(kind, label, line, column, prefixed, note=note)
            return
        places = TextPlaces(self._lines, text)
        offset = 0
        for name in names:
            offset = max(offset, text.text.find(f'"{name}"', offset) + 1)
            line, column, note = self._inside(text, places.at(offset))
            yield Use(kind, name.strip(), line, column, prefixed, note=note)

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

    def _matrices(self, key: Text, value: Value, under: str) -> Iterator[Use]:
        """Look at a matrix that is a text: the value of an input, or its default where it is declared."""
        is_test_matrix = key.text in _TEST_MATRICES
        text = value.get("default") if is_test_matrix and isinstance(value, Mapping) else value
        if not isinstance(text, Text):
            return
        if key.text == "matrix" and under in {"strategy", "with"} and missing_blanks.is_tight_entry(text):
            self._error(text, self._told(text.text), SPACE)
        elif text.text.strip() and not expressions.is_all_covered(text.text):
            yield from self._matrix(text, is_test_matrix=is_test_matrix)

    def _matrix(self, text: Text, *, is_test_matrix: bool) -> Iterator[Use]:
        places = TextPlaces(self._lines, text)
        lines = text.text.split("\n")
        inner = _Reader(self._covered, lines, lambda line, column: self._inside(text, places.inside(line, column)))
        try:
            root = yaml_text.parse(text.text, "")
        except PlacedError as error:
            if is_test_matrix:
                inner.tell(*workflow_matrix.no_yaml(text.text, error))
        else:
            has_entries = isinstance(root, Mapping) and isinstance(root.get("include"), Sequence)
            if root and (is_test_matrix or has_entries):  # another text of the name may be anything
                yield from inner.walk(root, _Where(in_matrix=True))
                inner.tight_entries(root)
            if is_test_matrix:
                inner.form(root, text.text)
        self.problems += inner.problems

    def form(self, root: Value | None, text: str) -> None:
        """Look at the form of a test matrix that is a text."""
        for finding in workflow_matrix.wrong_entries(root):
            self.tell(*finding)
        if not self.problems and (found := workflow_matrix.refused(text)):
            self.tell(*found)
