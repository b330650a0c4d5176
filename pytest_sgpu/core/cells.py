r"""Lines and cells that the tables of a run share, and what is wrong with one that cannot be read.

A tab, a line end or a backslash inside a cell is written as ``\t``, ``\n``, ``\r`` or ``\\``. The tag cell of
an opaque suite is ``whole``; a tag of that very name is written ``\whole``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from pytest_sgpu.core.names import WHOLE
from pytest_sgpu.core.text import printable, shown
from pytest_sgpu.model import Key, Notice

NONE = "-"
"""Stands for a value that there is not."""

_MOST_NOTICES = 50
_MOST_SECONDS = 1e9  # thirty years; sums of such numbers stay finite
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_WHOLE_NUMBER = re.compile(r"-?[0-9]{1,9}")
_UNESCAPE = re.compile(r"\\(.)")
_ESCAPES = str.maketrans({"\\": r"\\", "\t": r"\t", "\n": r"\n", "\r": r"\r"})
_LETTERS = {"t": "\t", "n": "\n", "r": "\r"}
_Row = TypeVar("_Row")


class BadLineError(ValueError):
    """Why a line cannot be read. Never leaves the readers: they turn it into a Notice."""


def rows(
    text: str, name: str, columns: int, read: Callable[[Sequence[str]], _Row]
) -> tuple[tuple[_Row, ...], tuple[Notice, ...]]:
    """Read a table with tabs. A line that ``read`` cannot take is left out, with a Notice at ``name:line``.

    Blank lines and ``#`` lines are skipped, and so are columns behind the last one that is known.
    """
    found: list[_Row] = []
    notices: list[Notice] = []
    for number, line in _lines(text):
        cells = line.split("\t")
        try:
            if len(cells) < columns:
                raise BadLineError(f"{len(cells)} columns where {columns} are expected")  # noqa: TRY301
            found.append(read(cells[:columns]))
        except BadLineError as error:
            notices.append(Notice(f"{error}; this line is left out", f"{printable(name)}:{number}"))
    return tuple(found), capped(notices, name)


def _lines(text: str) -> Iterator[tuple[int, str]]:
    for number, raw in enumerate(text.split("\n"), start=1):
        line = raw.rstrip("\r")
        if line and not line.startswith("#"):
            yield number, line


def capped(notices: Sequence[Notice], name: str) -> tuple[Notice, ...]:
    """Keep the first 50 notices about a file, and count the others in one more."""
    if len(notices) <= _MOST_NOTICES:
        return tuple(notices)
    more = Notice(f"and {len(notices) - _MOST_NOTICES} more lines with something wrong", printable(name))
    return (*notices[:_MOST_NOTICES], more)


def tsv(cells: Iterable[str]) -> str:
    """Write one line of cells that are escaped already."""
    line = "\t".join(cells) + "\n"
    return "\\" + line if line.startswith("#") else line  # it is no comment


def escaped(text: str) -> str:
    """Write a text as a cell."""
    return text.translate(_ESCAPES)


def unescaped(cell: str) -> str:
    """Read what a cell says."""
    return _UNESCAPE.sub(lambda match: _LETTERS.get(match[1], match[1]), cell)


def key_cells(key: Key) -> tuple[str, str]:
    """Write a key as two cells, label and tag."""
    tag = "\\" + WHOLE if key.tag == WHOLE else escaped(key.tag or WHOLE)
    return escaped(key.suite), tag


def key_of(label: str, tag: str) -> Key:
    """Read a key from its two cells. Raises BadLineError where one is empty."""
    if not label or not tag:
        raise BadLineError("no label or no tag")
    return Key(unescaped(label), "" if tag == WHOLE else unescaped(tag))


def is_number(text: str) -> bool:
    """Whether a text is a decimal number, as all of these tables write them."""
    return _NUMBER.fullmatch(text) is not None


def seconds_of(text: str) -> float:
    """Read seconds. Raises BadLineError for what is no number from 0 to 1e9; ``nan`` and ``inf`` are none."""
    if not is_number(text):
        raise BadLineError(f"{shown(text, 80)} is no number of seconds")
    seconds = float(text)
    if seconds < 0:
        raise BadLineError(f"{shown(text, 80)} is negative")
    if seconds > _MOST_SECONDS:
        raise BadLineError(f"{shown(text, 80)} is more seconds than any item takes")
    return abs(seconds)  # -0.0 is 0.0


def optional_seconds(text: str) -> float | None:
    """Read seconds, or ``-`` for None."""
    return None if text == NONE else seconds_of(text)


def whole_number(text: str) -> int:
    """Read a whole number. Raises BadLineError for anything else."""
    if not _WHOLE_NUMBER.fullmatch(text):
        raise BadLineError(f"{shown(text, 80)} is no whole number")
    return int(text)
