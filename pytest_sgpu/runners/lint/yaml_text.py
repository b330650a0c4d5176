"""YAML text to values that know their place, so that whoever checks them can say where. Needs ruamel.yaml."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pytest_sgpu.errors import SgpuError
from pytest_sgpu.runners.text import one_line

EXTRA = 'pip install "pytest-sgpu[runners]"'

_LONGEST_VALUE = 60
_TAGGED = re.compile(r"(?:&\S+\s+)?!")  # where a scalar starts: an anchor may stand before the tag
_TAG_BEFORE = re.compile(r"(?:^|\s)!\S*\s+$")  # or behind it, and then ruamel.yaml says that the scalar starts there
_LONGEST_TAG = 200
_CORE = "tag:yaml.org,2002:"
_TYPES = frozenset(("str", "int", "float", "bool", "null", "seq", "map", "merge", "timestamp", "value"))
"""What ruamel.yaml says of its own accord, the last three too; the text counts, whatever it says."""
_LINE_END = re.compile(r"\r\n?|\n")
_LAST_BYTE = 0xFF
_DEEPEST = 32  # brackets within brackets; ruamel.yaml takes seconds over a thousand of them, and then gives up


class PlacedError(Exception):
    """The text is no YAML that GitHub would take: why, and where (both from 1)."""

    def __init__(self, message: str, line: int, column: int) -> None:
        super().__init__(message)
        self.line = line
        self.column = column


class TwiceError(PlacedError):
    """A mapping has a key twice."""


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """A value and its place, from 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True, eq=False)
class Text(Value):
    """A scalar, as it is written: ``true`` is the text "true", and nothing at all is "".

    ``plain``: without quotes, block sign or tag, so that it may stand for a number, a flag or null.
    """

    text: str
    plain: bool = False

    def __str__(self) -> str:
        """Give it on one line, for a message."""
        return f"'{one_line(self.text, _LONGEST_VALUE)}'"


@dataclass(frozen=True, slots=True, eq=False)
class Sequence(Value):
    """A list."""

    items: tuple[Value, ...]

    def __str__(self) -> str:
        """Name it in a message."""
        return "a list"


@dataclass(frozen=True, slots=True, eq=False)
class Tagged(Value):
    """A value whose tag is not read, and so neither is the value. Only where ``parse`` is local."""

    tag: str

    def __str__(self) -> str:
        """Name it in a message."""
        return f"a value with the tag {self.tag}"


@dataclass(frozen=True, slots=True, eq=False)
class Mapping(Value):
    """A mapping; its keys are texts, each there once. ``replaced``: entries that a later one of the name replaced."""

    entries: tuple[tuple[Text, Value], ...]
    replaced: tuple[tuple[Text, Value], ...] = ()

    @property
    def repeated(self) -> tuple[Text, ...]:
        """Give the keys that a later one of the name replaced."""
        return tuple(key for key, _ in self.replaced)

    def __str__(self) -> str:
        """Name it in a message."""
        return "a mapping"

    def get(self, name: str) -> Value | None:
        """Give the value of a key, or None."""
        return next((value for key, value in self.entries if key.text == name), None)

    def key(self, name: str) -> Text | None:
        """Give the key itself, for its place."""
        return next((key for key, _ in self.entries if key.text == name), None)

    def __iter__(self) -> Iterator[tuple[Text, Value]]:
        """Give keys and values in the order of the text."""
        return iter(self.entries)


def parse(text: str, name: str, *, lenient: bool = False, local: bool = False) -> Value | None:
    """Give the one document of a YAML text, or None when there is nothing in it.

    Aliases are followed. Raises PlacedError for what is no YAML, has a key twice, a key that is no text, a merge key
    (GitHub knows none) or an alias that contains itself; SgpuError, which names the file ``name``, when ruamel.yaml
    is not installed. ``lenient``: the last of equal keys counts, and ``<<`` is a key like any other. ``local``: what
    cannot be read costs only itself, so a key that is no text is the text as written, and what has a tag is Tagged.
    """
    try:
        from ruamel.yaml import YAML  # noqa: PLC0415 # an extra: only this module needs it
        from ruamel.yaml.error import MarkedYAMLError, YAMLError  # noqa: PLC0415
        from ruamel.yaml.reader import ReaderError  # noqa: PLC0415
        from ruamel.yaml.scanner import Scanner  # noqa: PLC0415
    except ImportError:
        raise SgpuError(f"{name}: cannot be checked, since ruamel.yaml is not installed", EXTRA) from None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an anchor may be used again
            reader = YAML(typ="safe", pure=True)
            reader.Scanner = _shallow(Scanner)
            root = reader.compose(text)
            return None if root is None else _Reader(text, lenient=lenient, local=local).read(root)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        problem = one_line(error.problem or error.context or error)
        problem = "found a tab, expected spaces" if "'\\t'" in problem else problem
        raise PlacedError(f"no valid YAML: {problem}", *place) from None
    except ReaderError as error:
        raise _unprintable(text, error.position) from None
    except RecursionError:
        raise PlacedError("nested too deeply", 1, 1) from None
    except (YAMLError, ValueError, ArithmeticError, LookupError) as error:  # the last ones: odd escapes in a text
        raise PlacedError(f"no valid YAML: {one_line(error)}", 1, 1) from None


def _unprintable(text: str, position: int) -> PlacedError:
    """Say which character cannot stand in YAML, and where; never with the character itself."""
    ends = list(_LINE_END.finditer(text, 0, position))
    start = ends[-1].end() if ends else 0
    code = ord(text[position])
    hint = "leave it out" + (f', or write it as "\\x{code:02x}" in double quotes' if code <= _LAST_BYTE else "")
    message = f"no valid YAML: a character that YAML does not allow, U+{code:04X}; {hint}"
    return PlacedError(message, len(ends) + 1, position - start + 1)


def _shallow(scanner: type) -> type:
    """Give a scanner that refuses brackets which nest deeper than anybody writes them."""

    class Shallow(scanner):  # type: ignore[misc]
        def fetch_flow_collection_start(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401
            if len(self.flow_context) >= _DEEPEST:
                raise PlacedError("nested too deeply", self.reader.line + 1, self.reader.column + 1)
            super().fetch_flow_collection_start(*args, **kwargs)

    return Shallow


class _Reader:
    """Turns the nodes of ruamel.yaml into values; each node once, however often an alias leads there."""

    def __init__(self, text: str, *, lenient: bool, local: bool) -> None:
        self._text = text
        self._lenient = lenient
        self._local = local
        self._done: dict[int, Value] = {}
        self._begun: set[int] = set()

    def read(self, node: Any) -> Value:  # noqa: ANN401 # a class of an optional package
        key = id(node)
        if key in self._done:
            return self._done[key]
        place = (node.start_mark.line + 1, node.start_mark.column + 1)
        if key in self._begun:
            raise PlacedError("an alias contains itself", *place)
        self._begun.add(key)
        self._done[key] = made = self._made(node, place)
        return made

    def _made(self, node: Any, place: tuple[int, int]) -> Value:  # noqa: ANN401
        tag = str(node.tag or "")
        if tag and tag.removeprefix(_CORE) not in _TYPES:
            if self._local:
                return Tagged(*place, one_line(tag.replace(_CORE, "!!"), _LONGEST_VALUE))
            raise PlacedError(f"the tag {one_line(tag, _LONGEST_VALUE)} is not read", *place)
        if isinstance(node.value, str):
            return Text(*place, node.value, node.style is None and not self._tagged(node.start_mark.index))
        if not node.value or not isinstance(node.value[0], tuple):
            children = tuple(self.read(child) for child in node.value)
            is_mapping = node.id == "mapping"
            return Mapping(*place, ()) if is_mapping else Sequence(*place, children)
        entries: dict[str, tuple[Text, Value]] = {}
        replaced: list[tuple[Text, Value]] = []
        for key, child in node.value:
            name = self._key(key)
            if name.text in entries:
                first = entries[name.text][0]
                if not self._lenient:
                    raise TwiceError(f"the key {name} is there twice, first in line {first.line}", *_place(name))
                replaced.append(entries[name.text])
            value = self.read(child)
            if isinstance(value, Text) and not value.text:  # nothing is there: its place would be that of what follows
                value = Text(*_place(name), "", value.plain)
            entries[name.text] = (name, value)
        return Mapping(*place, tuple(entries.values()), tuple(replaced))

    def _tagged(self, start: int) -> bool:
        if _TAGGED.match(self._text, start):
            return True
        before = self._text[max(start - _LONGEST_TAG, 0) : start]
        return self._text.startswith("&", start) and bool(_TAG_BEFORE.search(before))

    def _key(self, node: Any) -> Text:  # noqa: ANN401
        name = self.read(node)
        if not isinstance(name, Text):
            if self._local:
                written = one_line(self._text[node.start_mark.index : node.end_mark.index], _LONGEST_VALUE)
                is_told = not isinstance(name, Tagged) or name.tag in written
                return Text(*_place(name), written if is_told else f"{name} {written}")
            raise PlacedError("a key is no text", *_place(name))
        if name.text == "<<" and not self._lenient:
            raise PlacedError("merge keys ('<<') are not read", *_place(name))
        return name


def _place(value: Value) -> tuple[int, int]:
    return value.line, value.column
