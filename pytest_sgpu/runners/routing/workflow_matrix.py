"""Matrices in a workflow: what an axis may be, and what of a matrix that is a text `route matrix` would refuse."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pytest_sgpu.runners.lint.yaml_text import Mapping, PlacedError, Text, TwiceError, Value
from pytest_sgpu.runners.lint.yaml_text import Sequence as List
from pytest_sgpu.runners.routing import matrix_text, missing_blanks, scalars
from pytest_sgpu.runners.routing.expressions import is_covered
from pytest_sgpu.runners.routing.placed_table import named

_LISTS = ("include", "exclude")

Finding = tuple[int, int, str, str]
"""Line and column (from 1) in the text, what is wrong, a hint."""

_Entry = tuple[Text, Value]


def of_job(job: Mapping) -> Mapping | None:
    """Give the matrix of a job, None without one, or when it comes from elsewhere."""
    strategy = job.get("strategy")
    matrix = strategy.get("matrix") if isinstance(strategy, Mapping) else job.get("matrix")
    return matrix if isinstance(matrix, Mapping) else None


def values(matrix: Mapping, path: Sequence[str]) -> Iterator[_Entry]:
    """Give what ``matrix.A.B`` may be, as far as it is written out: items of the axis, fields of the entries.

    Each comes with the key that leads to it.
    """
    axis = _field(matrix, path[0]) if path[0] not in _LISTS else None
    include = matrix.get("include")
    entries = include.items if isinstance(include, List) else ()
    found: list[_Entry | None] = (
        [(axis[0], item) for item in axis[1].items] if axis and isinstance(axis[1], List) else []
    )
    found += [_field(entry, path[0]) for entry in entries if isinstance(entry, Mapping)]
    for entry in found:
        inner = entry
        for name in path[1:]:
            inner = _field(inner[1], name) if inner and isinstance(inner[1], Mapping) else None
        if inner:
            yield inner


def tight_entries(matrix: Mapping) -> Iterator[Text]:
    """Give the entries of ``include`` and ``exclude``, or all of them, that are texts, since a blank is missing."""
    for value in map(matrix.get, _LISTS):
        for item in value.items if isinstance(value, List) else (value,):
            if isinstance(item, Text) and missing_blanks.is_tight_entry(item):
                yield item


def no_yaml(text: str, error: PlacedError) -> Finding:
    """Say what is wrong with a matrix that is no YAML, as `route matrix` says it."""
    try:
        matrix_text.read(text, "")
    except matrix_text.MatrixError as refused:
        if refused.hint:
            return _placed(text, refused)
    hint = "write each key once" if isinstance(error, TwiceError) else "quote what has special characters"
    return error.line, error.column, f"the matrix: {error}", hint


def refused(text: str) -> Finding | None:
    """Say what `route matrix` refuses when it reads a text, None when it takes it."""
    try:
        matrix_text.read(text, "")
    except matrix_text.MatrixError as error:
        return _placed(text, error)
    return None


def wrong_entries(root: Value | None) -> Iterator[Finding]:
    """Look at the entries of a test matrix that is a text."""
    if isinstance(root, Mapping):
        include = root.get("include")
        if isinstance(include, List) and include.items:
            for other, _ in root:
                if other.text != "include" and not missing_blanks.is_tight_entry(other):
                    what = f"found {other} beside include, and only include is translated"
                    yield *_at(other), what, "write each combination as an entry of include"
            for item in include.items:
                yield from _entry(item)
        elif not _is_nothing(include):
            assert include is not None
            yield *_at(include), f"include: found {named(include)}, expected a list", ""
    elif not _is_nothing(root):
        assert root is not None
        yield *_at(root), f"found {named(root)}, expected a mapping with include", "{ include: [ ... ] }"


def _entry(item: Value) -> Iterator[Finding]:
    if isinstance(item, Mapping):
        label = item.get("runner")
        is_label = isinstance(label, Text) and label.text.strip() and isinstance(scalars.resolve(label), str)
        if label is None or is_label:
            return
        hint = "one label, not a list of them" if isinstance(label, List) else "the name of a runner's label"
        yield *_at(label), f"runner: found {named(label)}, expected a label", hint
    elif not isinstance(item, Text) or not (is_covered(item.text) or missing_blanks.is_tight_entry(item)):
        yield *_at(item), f"found {named(item)}, expected an entry such as {{ runner: NAME }}", ""


def _is_nothing(value: Value | None) -> bool:
    if isinstance(value, Text):
        return not value.text or scalars.resolve(value) is None or is_covered(value.text)
    return value is None or (isinstance(value, List) and not value.items)


def _placed(text: str, error: matrix_text.MatrixError) -> Finding:
    lines = text.split("\n")
    line = lines[error.line - 1] if error.line <= len(lines) else ""
    return error.line, missing_blanks.column_in(line), error.message, error.hint


def _at(value: Value) -> tuple[int, int]:
    return value.line, value.column


def _field(mapping: Mapping, name: str) -> _Entry | None:
    """Give a key and its value; GitHub looks names of an expression up in whatever case."""
    return next((entry for entry in mapping if entry[0].text.lower() == name), None)
