"""How a wrong value is told: what was found, in one short line, and the nearest right word."""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Iterable, Mapping, Sequence

from pytest_sgpu.runners.text import one_line

_SHOWN = 60
_LARGE = 10**_SHOWN  # Python does not write numbers of any length


def found(value: object) -> str:
    """Name ``value`` as it is read in JSON and TOML, at most 60 characters of it."""
    if isinstance(value, str):
        return f'"{one_line(value, _SHOWN)}"' if value.strip() else "a blank text"
    if value is None or isinstance(value, bool):
        return str(value).lower() if value is not None else "null"
    if isinstance(value, (int, float)):
        return f"the number {value}" if abs(value) < _LARGE or isinstance(value, float) else "a very large number"
    return _collection(value)


def _collection(value: object) -> str:
    if isinstance(value, Mapping):
        return "an object" if value else "an empty object"
    if isinstance(value, Sequence):
        return f"a list of {len(value)}" if value else "an empty list"
    return one_line(value, _SHOWN)


def nearest(word: str, known: Iterable[str]) -> str:
    """Give the hint for a word that is not known: the nearest one, or all of them."""
    names = list(known)
    close = difflib.get_close_matches(word[:_SHOWN].lower(), names, n=1, cutoff=0.6)
    return f'did you mean "{close[0]}"?' if close else f"known are: {', '.join(names)}"


def controls(text: str) -> bool:
    """Tell whether there is a character in ``text`` that does not print: control, format, surrogate, unassigned."""
    return any(unicodedata.category(character)[0] == "C" for character in text)
