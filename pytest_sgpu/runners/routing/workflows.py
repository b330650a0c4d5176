"""What workflow files ask for: labels and names of experiments, each with its place in the file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from pytest_sgpu.runners.lint import yaml_text
from pytest_sgpu.runners.lint.yaml_text import Mapping, PlacedError, Sequence, Text, Value
from pytest_sgpu.runners.routing.problems import Problem, shown

Kind = Literal["runs-on", "runner", "check", "opt-out"]

_KINDS: dict[str, Kind] = {
    "runs-on": "runs-on",
    "runner": "runner",
    "check_experiments": "check",
    "check-experiments": "check",
    "opt_out_experiments": "opt-out",
    "opt-out-experiments": "opt-out",
}
_MATRICES = ("matrix", "test-matrix")
_EXPRESSION = re.compile(r"\$\{\{(?:'[^'\n]*'|\$(?!\{\{)|[^'$}]|\}(?!\}))*\}\}")
_OPTION = re.compile(r"""--(check|opt-out)-experiments(?:=|[ \t]+)["']?([\w,-]+)""")
_GLUED = re.compile(r"""([\w-]+):["'\[{]""")
_BLOCK = re.compile(r"\|[-+0-9]*\s*(#.*)?")
# What an expression becomes before the text is read: characters for private use, which no label has. In their place
# `${{ x }}` would be a mapping, and columns would move.
_OTHER, _PREFIX, _APART = "\ue000", "\ue001", "\ue002"
_COVERS = _OTHER + _PREFIX + _APART
_LABEL_TYPE = re.compile(r"(?<![\w-])label-type(?![\w-])|prefix")
_BESIDE = re.compile(r"(?:(?:runner|label|fleet)s?[-_](?:label[-_])?)?prefix", re.IGNORECASE)
_PREFIXED = re.compile(f"{_PREFIX}+{_OTHER}+")


@dataclass(frozen=True, slots=True)
class Use:
    """One label or name of an experiment: as what, and where (from 1).

    ``prefixed``: the output of the routing is put before it, or is given beside it to be put there.
    ``given``: what is written out beside it as its prefix; the routing then decides nothing for it.
    """

    kind: Kind
    name: str
    line: int
    column: int
    prefixed: bool = False
    given: str = ""


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
    """Read one workflow file. What is an expression in whole is passed over. Raises SgpuError without ruamel.yaml."""
    covered = _covered(text)
    try:
        root = yaml_text.parse(covered, source)
    except PlacedError as error:
        broken = Problem(source, error.line, "error", str(error), "correct the file first", error.column)
        return Workflow(source, "", (), (broken,))
    reader = _Reader(source, covered.split("\n"))
    uses = tuple(sorted(reader.walk(root), key=lambda use: (use.line, use.column))) if root else ()
    title = root.get("name") if isinstance(root, Mapping) else None
    name = title.text if isinstance(title, Text) and not _is_covered(title.text) else ""
    return Workflow(source, name, uses, tuple(reader.problems), reader.prefixes_matrix)


def _covered(text: str) -> str:
    def cover(found: re.Match[str]) -> str:
        inside = found[0].lower()
        apart = _APART if "label-type" in inside else _OTHER  # the output of one experiment, such as x-label-type
        return re.sub(r"[^\n]", _PREFIX if _LABEL_TYPE.search(inside) else apart, found[0])

    return _EXPRESSION.sub(cover, re.sub(f"[{_COVERS}]", "?", text))


def _is_covered(text: str) -> bool:
    return any(one in text for one in _COVERS)


class _Reader:
    def __init__(self, source: str, lines: list[str]) -> None:
        self.problems: list[Problem] = []
        self.prefixes_matrix = False
        self._source = source
        self._lines = lines
        self._seen: set[int] = set()

    def walk(self, value: Value, *, in_matrix: bool = False) -> Iterator[Use]:
        if id(value) in self._seen:  # an alias: told where it is written
            return
        self._seen.add(id(value))
        if isinstance(value, Sequence):
            for item in value.items:
                yield from self.walk(item, in_matrix=in_matrix)
        elif isinstance(value, Mapping):
            beside = [child for key, child in value if _BESIDE.fullmatch(key.text) and isinstance(child, Text)]
            is_output = any(map(_is_prefix, beside))
            given = next((text.text.strip() for text in beside if not _is_covered(text.text)), "")
            for key, child in value:
                for use in self._entry(key, child, in_matrix=in_matrix):
                    prefixed = use.prefixed or (bool(is_output or given) and _KINDS.get(key.text) == "runner")
                    yield replace(use, prefixed=prefixed, given=use.given or given)

    def _entry(self, key: Text, child: Value, *, in_matrix: bool) -> Iterator[Use]:
        if kind := _KINDS.get(key.text):
            yield from self._named(kind, child)
        elif key.text.lower().replace("_", "-") in _MATRICES and isinstance(child, Text):
            yield from self._matrix(child)
        elif key.text == "run" and isinstance(child, Text):
            yield from self._script(child)
        elif in_matrix and (glued := _GLUED.match(key.text)):
            what = f"{shown(key.text)} is one long name: no blank after the colon"
            self._error(key.line, key.column, what, f"{glued[1]}: VALUE")
        yield from self.walk(child, in_matrix=in_matrix)

    def _error(self, line: int, column: int, message: str, hint: str) -> None:
        self.problems.append(Problem(self._source, line, "error", message, hint, column))

    def _named(self, kind: Kind, value: Value) -> Iterator[Use]:
        if isinstance(value, Mapping):  # of an input: its default; of runs-on: its labels
            inner = value.get("default") if kind != "runs-on" else value.get("labels")
            value = inner or Text(value.line, value.column, "")
        texts = value.items if isinstance(value, Sequence) else (value,)
        for text in texts:
            if not isinstance(text, Text):
                continue
            self.prefixes_matrix |= kind == "runs-on" and bool(_PREFIXED.fullmatch(text.text.strip()))
            if kind in {"runs-on", "runner"}:
                yield from _label(kind, text)
            else:
                yield from self._names(kind, text)

    def _names(self, kind: Kind, text: Text) -> Iterator[Use]:
        column = text.column + (self._at(text.line, text.column) in {'"', "'"})
        for part in text.text.split(","):
            name = part.strip()
            if name and not _is_covered(name):
                yield Use(kind, name, text.line, column + len(part) - len(part.lstrip()))
            column += len(part) + 1

    def _script(self, text: Text) -> Iterator[Use]:
        for offset, line in enumerate(text.text.split("\n")):
            for found in _OPTION.finditer(line):
                place = self._inside(text, offset, found.start(2))
                kind: Kind = "check" if found[1] == "check" else "opt-out"
                yield from self._names(kind, Text(*place, found[2]))

    def _matrix(self, text: Text) -> Iterator[Use]:
        if not text.text.strip() or not text.text.strip(_COVERS + " \n"):
            return
        try:
            root = yaml_text.parse(text.text, self._source)
        except PlacedError as error:
            place = self._inside(text, error.line - 1, error.column - 1)
            self._error(*place, f"the matrix: {error}", "quote what has special characters")
            return
        before = len(self.problems)
        for use in self.walk(root, in_matrix=True) if root else ():
            line, column = self._inside(text, use.line - 1, use.column - 1)
            yield replace(use, line=line, column=column)
        for position, problem in enumerate(self.problems[before:], before):
            line, column = self._inside(text, problem.line - 1, problem.column - 1)
            self.problems[position] = replace(problem, line=line, column=column)

    def _inside(self, text: Text, line: int, column: int) -> tuple[int, int]:
        """Give the place in the file of a place (from 0) in a text: exact in a literal block, else near it."""
        head = self._lines[text.line - 1][text.column - 1 :] if text.line <= len(self._lines) else ""
        if not _BLOCK.fullmatch(head.rstrip()):
            quoted = head[:1] in {'"', "'"}
            return (text.line, text.column + column + quoted) if line == 0 else (text.line, text.column)
        there = text.line + 1 + line
        own = text.text.split("\n")
        raw = self._lines[there - 1] if there <= len(self._lines) else ""
        mine = own[line] if line < len(own) else ""
        return there, column + 1 + max(0, len(raw.rstrip()) - len(mine.rstrip()))

    def _at(self, line: int, column: int) -> str:
        return self._lines[line - 1][column - 1 : column] if 1 <= line <= len(self._lines) else ""


def _is_prefix(text: Text) -> bool:
    return set(text.text.strip()) == {_PREFIX}


def _label(kind: Kind, text: Text) -> Iterator[Use]:
    name = text.text.strip()
    rest = name.lstrip(_PREFIX + _APART)
    if rest and not _is_covered(rest):
        yield Use(kind, rest, text.line, text.column, prefixed=_PREFIX in name)
