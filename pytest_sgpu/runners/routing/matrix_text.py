"""A test matrix as text: YAML or JSON to values that keep what was written, and values to one line of JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from pytest_sgpu.runners.lint import yaml_text
from pytest_sgpu.runners.lint.yaml_text import Sequence, Text, Value
from pytest_sgpu.runners.routing import missing_blanks, scalars
from pytest_sgpu.runners.routing.problems import shown

LIMIT = 1024 * 1024
"""The most characters of a matrix, read or written: GitHub takes no larger output of a job."""

SPACE = "write a space after each colon (runner: NAME)"

_TIGHT = re.compile(r"(?:^|[{,\[]|\s)[\"']?[A-Za-z_][\w-]*[\"']?:(?=[\"'\[{\w])(?!//)")
_OPENED = re.compile(r""":[\[{"']""")
_RUNNER_INSIDE = re.compile(r"(?:^|\s)runner:")
_COLON = re.compile(r"\s*:")
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{},]|\n|[^\s\[\]{},"]+')


class MatrixError(Exception):
    """The text is no matrix: why, in which line (from 1), and what to do."""

    def __init__(self, message: str, line: int = 1, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.line = line
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Number:
    """A number as it was written, which is how JSON writes it too."""

    text: str


@dataclass(frozen=True, slots=True)
class MatrixText:
    """What was read: mappings, lists, texts, flags, None and Numbers.

    ``is_blank``: there was nothing at all. ``key_lines``: the lines of the keys at the top; ``entry_lines``: of the
    elements of ``include``. From JSON, ``key_lines`` is empty.
    """

    value: object
    is_blank: bool = False
    key_lines: Mapping[str, int] = field(default_factory=dict)
    entry_lines: tuple[int, ...] = ()


def read(text: str, source: str) -> MatrixText:
    """Read a matrix. Raises MatrixError; SgpuError when ruamel.yaml is needed and not installed."""
    if len(text) > LIMIT:
        raise MatrixError(f"{len(text)} characters, expected at most {LIMIT}")
    if not text.strip():
        return MatrixText(None, is_blank=True)
    try:
        return MatrixText(_json(text), entry_lines=_entry_lines(text))
    except _TwiceError:
        raise _twice(text) from None
    except ValueError:  # YAML then, or wrong in both
        pass
    except RecursionError:
        raise MatrixError("nested too deeply") from None
    try:
        root = yaml_text.parse(text, source)
    except yaml_text.PlacedError as error:
        raise _no_yaml(text, error) from None
    if root is None:
        return MatrixText(None, is_blank=True)
    return _from_yaml(root)


def one_line_json(value: object) -> str:
    """Write a value as one line of JSON. Raises MatrixError when that is longer than GitHub takes.

    What does not print is escaped: some readers of lines see a line end in it, and half of a pair is no UTF-8.
    """
    out: list[str] = []
    _write(value, out, [LIMIT])
    return "".join(out)


def _json(text: str) -> object:
    return json.loads(
        text, object_pairs_hook=_object, parse_int=Number, parse_float=Number, parse_constant=_no_constant
    )


class _TwiceError(Exception):
    """A mapping of the JSON text has a key twice."""


def _twice(text: str) -> MatrixError:
    """Say which key of a JSON text is there twice, and where."""
    line = 1
    keys: list[dict[str, int]] = []
    for match in _TOKEN.finditer(text):
        part = match[0]
        if part == "\n":
            line += 1
        elif part in ("{", "["):
            keys.append({})
        elif part in ("}", "]"):
            keys.pop()
        elif part[0] == '"' and keys and _COLON.match(text, match.end()):
            key = json.loads(part)
            if key in keys[-1]:
                return MatrixError(f"the key {shown(key)} is there twice, first in line {keys[-1][key]}", line)
            keys[-1][key] = line
    return MatrixError("a key is there twice")


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise _TwiceError
    return made


def _no_constant(name: str) -> object:
    raise ValueError(name)


def _entry_lines(text: str) -> tuple[int, ...]:
    """Give the line of each element at the second level of a JSON text."""
    lines: list[int] = []
    line, depth, is_next = 1, 0, False
    for match in _TOKEN.finditer(text):
        part = match[0]
        if part == "\n":
            line += 1
            continue
        if part in ("]", "}"):
            depth -= 1
            is_next = False
        elif part == ",":
            is_next = depth == 2  # noqa: PLR2004 # in the mapping, and in its list
        else:
            if is_next:
                lines.append(line)
            depth += part in ("[", "{")
            is_next = part == "[" and depth == 2  # noqa: PLR2004
    return tuple(lines)


def _no_yaml(text: str, error: yaml_text.PlacedError) -> MatrixError:
    for number, line in enumerate(text.splitlines(), 1):
        if number <= error.line and (tight := _TIGHT.search(line)):
            message = missing_blanks.told(tight[0].strip(" {[,"))
            return MatrixError(f"neither YAML nor JSON: {message}", number, SPACE)
    return MatrixError(str(error), error.line)


def _from_yaml(root: Value) -> MatrixText:
    value = _Plain().value(root)
    if not isinstance(root, yaml_text.Mapping):
        return MatrixText(value)
    include = root.get("include")
    lines = tuple(item.line for item in include.items) if isinstance(include, Sequence) else ()
    return MatrixText(value, False, {key.text: key.line for key, _ in root}, lines)


class _Plain:
    """Takes the places off; each value once, however often an alias leads there."""

    def __init__(self) -> None:
        self._done: dict[int, object] = {}

    def value(self, value: Value) -> object:
        if id(value) not in self._done:
            self._done[id(value)] = self._made(value)
        return self._done[id(value)]

    def _made(self, value: Value) -> object:
        if isinstance(value, Text):
            typed = scalars.resolve(value)
            return typed if typed is None or isinstance(typed, (bool, str)) else Number(value.text)
        if isinstance(value, Sequence):
            return [self.value(item) for item in value.items]
        assert isinstance(value, yaml_text.Mapping)
        for key, inner in value:
            self._refuse_tight(key, inner, value)
        return {key.text: self.value(inner) for key, inner in value}

    def _refuse_tight(self, key: Text, inner: Value, mapping: yaml_text.Mapping) -> None:
        """Refuse what a missing space makes: a key with all of the entry in it, or a value with the next one."""
        is_empty = isinstance(inner, Text) and inner.plain and not inner.text
        if key.plain and (_OPENED.search(key.text) or (is_empty and ":" in key.text)):
            raise MatrixError(missing_blanks.told(key.text), key.line, SPACE)
        if not isinstance(inner, Text) or not inner.plain:
            return
        if mapping.get("runner") is None and _RUNNER_INSIDE.search(inner.text):
            message = f"{key} is {inner}: the runner is inside, so a comma, a line end or a space is missing"
            raise MatrixError(message, key.line, SPACE)


def _write(value: object, out: list[str], left: list[int]) -> None:
    if isinstance(value, dict):
        _add("{", out, left)
        for place, (key, inner) in enumerate(value.items()):
            _add(f"{', ' if place else ''}{_text(key)}: ", out, left)
            _write(inner, out, left)
        _add("}", out, left)
    elif isinstance(value, list):
        _add("[", out, left)
        for place, inner in enumerate(value):
            _add(", " if place else "", out, left)
            _write(inner, out, left)
        _add("]", out, left)
    elif isinstance(value, str):
        _add(_text(value), out, left)
    else:
        _add(value.text if isinstance(value, Number) else json.dumps(value), out, left)


def _add(text: str, out: list[str], left: list[int]) -> None:
    left[0] -= len(text)
    if left[0] < 0:
        raise MatrixError(f"the result has more than {LIMIT} characters, and GitHub takes no such output")
    out.append(text)


def _text(text: str) -> str:
    written = json.dumps(text, ensure_ascii=False)
    return "".join(one if one.isprintable() else json.dumps(one)[1:-1] for one in written)
