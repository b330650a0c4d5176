"""Pieces of Markdown from text of strangers: code spans, fences and tables that no name can break out of.

Whatever comes from an item stands in a code span or a fence, where GitHub's Markdown knows no HTML, no
link, no mention and no emphasis. Everything else is our own words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from pytest_sgpu.core.text import printable, quoted

LIMIT = 300
NAME_LIMIT = 500  # of a key, a test, a reason
LINE = 1800  # a line of output in a fence, so that no line of the report is longer than 2,000
_TICKS = re.compile(r"`+")
_BACKSLASH_BAR = re.compile(r"(?<=\\)\|")


def code(text: str, limit: int = LIMIT) -> str:
    """Give a text as one code span, in one line, between more back-ticks than it has in a row.

    Blanks are kept, since a command must stay what it is.
    """
    text = printable(text, limit)
    if not text:
        return ""
    ticks = "`" * (_longest_ticks(text) + 1)
    pad = " " if text[0] in "` " or text[-1] in "` " else ""
    return f"{ticks}{pad}{text}{pad}{ticks}"


def cell(text: str, limit: int = LIMIT) -> str:
    r"""Give a text as code for a table, where a bar divides cells even within a code span.

    ``\|`` is a bar that does not divide. A backslash of the text itself before a bar would be read
    differently by different programs, so the span is closed there and opened again behind the bar.
    """
    parts = _BACKSLASH_BAR.split(printable(text, limit))
    return r"\|".join(code(part, limit).replace("|", r"\|") for part in parts)


def fence(text: str | bytes) -> str:
    """Give lines of output as a code block, each behind a sign, between more back-ticks than any run in it."""
    shown = quoted(text, LINE)
    ticks = "`" * max(3, _longest_ticks(shown) + 1)
    return f"{ticks}text\n{shown}\n{ticks}"


def table(header: Sequence[str], rows: Iterable[Sequence[str]], right: Iterable[int] = ()) -> str:
    """Give a table; the columns in ``right`` are aligned there. Cells are Markdown already."""
    aligned = frozenset(right)
    rule = ["---:" if column in aligned else "---" for column in range(len(header))]
    return "\n".join(f"| {' | '.join(row)} |" for row in (header, rule, *rows))


def _longest_ticks(text: str) -> int:
    return max(map(len, _TICKS.findall(text)), default=0)
