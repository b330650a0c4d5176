"""What is wrong with a text of the routing, where, and what was likely meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Literal

from pytest_sgpu.runners.text import one_line

Severity = Literal["error", "warning"]

_LONGEST_NAME = 60
_MOST_KNOWN = 12
_MOST_COMPARED = 500  # each costs some 20 microseconds


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong: ``line`` and ``column`` count from 1, and 0 is "no certain place".

    ``mistake``: a decision goes on with it, so it is a warning there; but nobody means it: a lint calls it an error.
    """

    source: str
    line: int
    severity: Severity
    message: str
    hint: str = ""
    column: int = 0
    mistake: bool = False

    def __str__(self) -> str:
        """Give it on one line, with its place as compilers write it."""
        place = f"{self.source}:{self.line}" if self.line else self.source
        tip = f" ({self.hint})" if self.hint else ""
        return f"{place}: {self.severity}: {self.message}{tip}"


def shown(value: object) -> str:
    """Quote what was found, on one short line without control characters."""
    return f"'{one_line(value, _LONGEST_NAME)}'"


def suggest(name: str, known: Iterable[str]) -> str:
    """Give a hint that names what was likely meant, or what there is; "" when there is nothing."""
    names = [one_line(each, _LONGEST_NAME) for each in islice(known, _MOST_COMPARED)]
    if not names:
        return ""
    folded = {each.casefold(): each for each in reversed(names)}
    close = difflib.get_close_matches(one_line(name, _LONGEST_NAME).casefold(), list(folded), 1, 0.5)
    if close:
        return f'did you mean "{folded[close[0]]}"?'
    more = ", ..." if len(names) > _MOST_KNOWN else ""
    return f"known are: {', '.join(names[:_MOST_KNOWN])}{more}"
