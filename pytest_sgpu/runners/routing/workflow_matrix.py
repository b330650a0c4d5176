"""Matrices in a workflow: what an axis may be, and what of a matrix that is a text `route matrix` would refuse."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_sgpu.runners.lint.yaml_text import Mapping, PlacedError, Sequence, Text, TwiceError, Value
from pytest_sgpu.runners.routing import matrix_text, missing_blanks, scalars
from pytest_sgpu.runners.routing.expressions import is_covered
from pytest_sgpu.runners.routing.placed_table import named

_LISTS = ("include", "exclude")

Finding = tuple[int, int, str, str]
"""Line and column (from 1) in the text, what is wrong, a hint."""


def of_job(job: Mapping) -> Mapping | None:
    """Give the matrix of a job, None without one, or when it comes from elsewhere."""
    strategy = job.get("strategy")
    matrix = strategy.get("matrix") if isinstance(strategy, Mapping) else job.get("matrix")
    return matrix if isinstance(matrix, Mapping) else None


def values(matrix: Mapping, path: list[str]) -> Iterator[Value]:
    """Give what ``matrix.A.B`` may be, as far as it is written out: items of the axis, fields of the entries."""
    axis = _field(matrix, path[0]) if path[0] not in _LISTS else None
    include = matrix.get("include")
    entries = include.items if isinstance(include, Sequence) else ()
    found: list[Value | None] = list(axis.items) if isinstance(axis, Sequence) else []
    found += [_field(entry, path[0]) for entry in entries if isinstance(entry, Mapping)]
    for value in found:
        inner = value
        for name in path[1:]:
            inner = _field(inner, name) if isinstance(inner, Mapping) else None
        if inner is not None:
            yield inner


def tight_entries(matrix: Mapping) -> Iterator[Text]:
    """Give the entries of ``include`` that are texts, since a blank is missing."""
    include = matrix.get("include")
    for item in include.items if isinstance(include, Sequence) else ():
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


def wrong_entries(root: Value | None, *, is_test_matrix: bool) -> Iterator[Finding]:
    """Look at the entries of a matrix that is a text. Another text than a test matrix may have another form."""
    if isinstance(root, Mapping):
        include = root.get("include")
        if isinstance(include, Sequence) and include.items:
            for other, _ in root if is_test_matrix else ():
                if other.text != "include" and not missing_blanks.is_tight_entry(other):
                    what = f"found {other} beside include, and only include is translated"
                    yield *_at(other), what, "write each combination as an entry of include"
            for item in include.items:
                yield from _entry(item)
        elif is_test_matrix and not _is_nothing(include):
            assert include is not None
            yield *_at(include), f"include: found {named(include)}, expected a list", ""
    elif is_test_matrix and not _is_nothing(root):
        assert root is not None
        yield *_at(root), f"found {named(root)}, expected a mapping with include", "{ include: [ ... ] }"


def _entry(item: Value) -> Iterator[Finding]:
    if isinstance(item, Mapping):
        label = item.get("runner")
        if label is None or (isinstance(label, Text) and label.text.strip() and isinstance(_typed(label), str)):
            return
        hint = "one label, not a list of them" if isinstance(label, Sequence) else "the name of a runner's label"
        yield *_at(label), f"runner: found {named(label)}, expected a label", hint
    elif not isinstance(item, Text) or not (is_covered(item.text) or missing_blanks.is_tight_entry(item)):
        yield *_at(item), f"found {named(item)}, expected an entry such as {{ runner: NAME }}", ""


def _typed(label: Text) -> object:
    return scalars.resolve(label)


def _is_nothing(value: Value | None) -> bool:
    if isinstance(value, Text):
        return not value.text or scalars.resolve(value) is None or is_covered(value.text)
    return value is None or (isinstance(value, Sequence) and not value.items)


def _placed(text: str, error: matrix_text.MatrixError) -> Finding:
    lines = text.split("\n")
    line = lines[error.line - 1] if error.line <= len(lines) else ""
    return error.line, missing_blanks.column_in(line), error.message, error.hint


def _at(value: Value) -> tuple[int, int]:
    return value.line, value.column


def _field(mapping: Mapping, name: str) -> Value | None:
    """Give the value of a key; GitHub looks names of an expression up in whatever case."""
    return next((value for key, value in mapping if key.text.lower() == name), None)
