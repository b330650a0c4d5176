"""Why a workflow is no valid YAML: most often a blank is missing behind a colon, and the error is told far off."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from pytest_sgpu.runners.lint import yaml_text
from pytest_sgpu.runners.lint.yaml_text import PlacedError, TwiceError
from pytest_sgpu.runners.routing import missing_blanks

_MOST_TRIED = 6  # each is a parse of all that goes before the error
_MOST_READ = 600_000  # characters, in all of them; some seconds
_FARTHEST = 100  # lines before the error


def glued(text: str, error: PlacedError) -> tuple[int, int, str] | None:
    """Give the place of what lacks the blank, and what is glued together there; None when that is not why.

    With the blank the error has to be gone, or one behind it: `runner:x` may be in a script, and right.
    """
    if isinstance(error, TwiceError):
        return None
    lines = text.split("\n")[: error.line + 1]
    tries = min(_MOST_TRIED, 1 + _MOST_READ // (1 + sum(map(len, lines))))
    for number, start, end, what in islice(_candidates(lines, error), tries):
        row = lines[number - 1]
        made = [*lines[: number - 1], f"{row[:end]} {row[end:]}", *lines[number:]]
        moved = error.column + 1 if number == error.line else error.column
        if _is_behind("\n".join(made), error.line, moved):
            return number, start + 1, what
    return None


def within(text: str, error: PlacedError) -> tuple[int, int]:
    """Give the place of an error, that of the last character when it is behind the end of the file."""
    lines = text.rstrip().split("\n")
    if error.line <= len(lines):
        return error.line, error.column
    return len(lines), max(1, len(lines[-1].rstrip()))


def _candidates(lines: list[str], error: PlacedError) -> Iterator[tuple[int, int, int, str]]:
    """Give what may lack the blank, the next to the error first: its line, where it and the blank go, its text."""
    last = min(error.line, len(lines))
    for number in range(last, max(last - _FARTHEST, 0), -1):
        for found in missing_blanks.glued_in(lines[number - 1]):
            yield number, *found


def _is_behind(text: str, line: int, column: int) -> bool:
    """Tell whether a text has no error up to a place."""
    try:
        yaml_text.parse(text, "")
    except PlacedError as error:
        return (error.line, error.column) > (line, column)
    return True
