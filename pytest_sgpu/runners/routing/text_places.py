"""Where in a YAML file the characters of a scalar stand, however it is written: plain, quoted, folded or literal."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cached_property

from pytest_sgpu.runners.lint.yaml_text import Text

_BEFORE = re.compile(r"(?:[&!]\S*\s+)*")  # an anchor, a tag
_BLANK = re.compile(r"\s*")
_BLOCK = re.compile(r"[|>][-+0-9]*\s*(#.*)?")
_BLANKS = dict.fromkeys("nrtNLP_ \t", " ")
_ESCAPED = _BLANKS | {"0": "\0", "a": "\a", "b": "\b", "e": "\x1b", "f": "\f", "v": "\v"}
_DIGITS = {"x": 2, "u": 4, "U": 8}
_LAST = 0x10FFFF

_Ink = tuple[str, int, int]


class TextPlaces:
    """Leads from a character of a scalar's text to its place in the file. ``lines``: those of the file.

    Each character that is no blank is looked up, so a place is right, or is said not to be known. That is done when a
    place is asked for.
    """

    def __init__(self, lines: Sequence[str], text: Text) -> None:
        self._lines = lines
        self._scalar = text
        self._text = text.text

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *(found.end() for found in re.finditer("\n", self._text))]

    @cached_property
    def _places(self) -> list[tuple[int, int] | None]:
        return _places(self._lines, self._scalar)

    def inside(self, line: int, column: int) -> tuple[int, int] | None:
        """Give the place of a place in the text (from 1 both), None when it cannot be told."""
        if not 1 <= line <= len(self._starts):
            return None
        end = self._starts[line] - 1 if line < len(self._starts) else len(self._text)
        return self.at(min(self._starts[line - 1] + column - 1, end))

    def at(self, offset: int) -> tuple[int, int] | None:
        """Give the place of a character of the text, None when it cannot be told."""
        if not self._places:
            return None
        before = min(offset, len(self._places) - 1)
        while before >= 0:
            if place := self._places[before]:
                return place[0], place[1] + offset - before
            before -= 1
        return next(place for place in self._places if place)

    def begins_line(self, place: tuple[int, int]) -> bool:
        """Tell whether only blanks are before a place in its line."""
        found = _BLANK.match(self._lines[place[0] - 1])
        return bool(found and found.end() == place[1] - 1)


def _places(lines: Sequence[str], text: Text) -> list[tuple[int, int] | None]:
    """Give the place of each character, None for a blank; an empty list when the file has another text there."""
    row = lines[text.line - 1] if text.line <= len(lines) else ""
    found = _BEFORE.match(row, text.column - 1)
    column = found.end() if found else text.column - 1
    quote = row[column : column + 1]
    if _BLOCK.fullmatch(row[column:].rstrip()):
        ink = _ink(lines, text.line, 0, "")
    else:
        is_quoted = quote in {'"', "'"} and not text.plain
        ink = _ink(lines, text.line - 1, column + is_quoted, quote if is_quoted else "")
    places: list[tuple[int, int] | None] = []
    for one in text.text:
        if one.isspace():
            places.append(None)
            continue
        char, *place = next(ink, ("", 0, 0))
        if char != one:
            return []
        places.append((place[0], place[1]))
    return places if any(places) else []


def _ink(lines: Sequence[str], line: int, column: int, quote: str) -> Iterator[_Ink]:
    """Give what is no blank from a place (from 0) on, each character with its place; in quotes up to their end."""
    for number in range(line, len(lines)):
        row = lines[number]
        while column < len(row):
            char, size = row[column], 1
            if char == quote == "'" and row.startswith("''", column):
                size = 2
            elif quote and char == quote:
                return
            elif char == "\\" and quote == '"':
                char, size = _unescaped(row, column + 1)
            if char and not char.isspace():
                yield char, number + 1, column + 1
            column += size
        column = 0


def _unescaped(row: str, column: int) -> tuple[str, int]:
    """Give the character that an escape stands for, "" for the end of a line, and how long the escape is."""
    code = row[column : column + 1]
    if code not in _DIGITS:
        return _ESCAPED.get(code, code), 1 + len(code)
    digits = row[column + 1 : column + 1 + _DIGITS[code]]
    number = int(digits, 16) if re.fullmatch("[0-9A-Fa-f]+", digits) else 0
    return chr(min(number, _LAST)), 2 + len(digits)
