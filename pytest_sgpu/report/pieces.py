"""Lines as pieces of text with a style name, and the few ways in which a line is made to fit.

A style is one of ``pass``, ``fail``, ``warn``, ``dim``, ``bold`` and "". Whoever writes the line turns the
name into a colour or leaves it. Nothing here prints, and every text comes out printable, on one line.
"""

from __future__ import annotations

from collections.abc import Sequence

from pytest_sgpu.core import text
from pytest_sgpu.model import Estimate, Status

Piece = tuple[str, str]
Line = tuple[Piece, ...]

GAP = "  "
_ELLIPSIS = "..."
_KEY_LIMIT = 1000
_WHOLE_FROM = 100.0  # from here on, tenths of a second say nothing

STYLES = {Status.PASSED: "pass", Status.FLAKY: "warn", Status.STOPPED: "warn", Status.NOT_RUN: "warn"}


def line(*pieces: Piece | str) -> Line:
    r"""Make a line; a bare text has no style, an empty one is left out.

    A line that would begin with ``::``, whatever blanks stand before it, is an order to GitHub's runner, so
    it begins with ``\x3a:``.
    """
    made = tuple(pair for pair in ((one, "") if isinstance(one, str) else one for one in pieces) if pair[0])
    for at, (words, style) in enumerate(made):
        start = words.lstrip()
        if start:
            rest = start + "".join(more for more, _ in made[at + 1 :])
            if rest.startswith("::"):
                words = words[: len(words) - len(start)] + r"\x3a" + start[1:]  # noqa: PLW2901
                return (*made[:at], (words, style), *made[at + 1 :])
            break
    return made


def plain(one: Line) -> str:
    """Give the text of a line without its styles."""
    return "".join(words for words, _ in one)


def style_of(status: Status) -> str:
    """Give the style of a status: what neither passed nor was flaky nor left undone is a failure."""
    return STYLES.get(status, "fail")


def shorten(words: str, width: int) -> str:
    """Cut the middle out of a text that is wider than ``width``: both ends of a key tell something."""
    if len(words) <= width:
        return words
    if width <= len(_ELLIPSIS):
        return words[: max(0, width)]
    kept = width - len(_ELLIPSIS)
    head = (kept + 1) // 2
    return words[:head] + _ELLIPSIS + words[len(words) - (kept - head) :]


def seconds_text(seconds: float) -> str:
    """Give ``245s`` or ``2.1s``."""
    return f"{seconds:.0f}s" if seconds >= _WHOLE_FROM else f"{seconds:.1f}s"


def estimate_text(estimate: Estimate) -> str:
    """Give ``245s``, ``~73.0s`` for a guess from sibling items, ``?`` where there is not even that."""
    if estimate.seconds is None:
        return "?"
    return seconds_text(estimate.seconds) if estimate.known else "~" + seconds_text(estimate.seconds)


def key_text(key: object) -> str:
    """Give a key in full, printable: keys are searched for, so they are never cut short of 1,000 characters."""
    return text.printable(str(key), _KEY_LIMIT)


def table(rows: Sequence[Sequence[Piece]], *, left: Sequence[int] = (0,)) -> list[Line]:
    """Lay out rows of equal length, at least one, in columns: those in ``left`` aligned left, the others right."""
    widths = [max(len(row[column][0]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for row in rows:
        pieces: list[Piece] = []
        for column, (words, style) in enumerate(row):
            last = column == len(row) - 1
            padded = words.ljust(0 if last else widths[column]) if column in left else words.rjust(widths[column])
            pieces.append((padded + ("" if last else GAP), style))
        lines.append(line(*pieces))
    return lines
