"""The globs of TEST_FILTER, as POSIX shells read them in ``case``."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

_SPECIAL = re.compile(r"[*?\[\\]")
_CLASSES = {
    "alnum": r"[^\W_]",
    "alpha": r"[^\W\d_]",
    "blank": r"[ \t]",
    "cntrl": r"[\x00-\x1f\x7f]",
    "digit": r"[0-9]",
    "graph": r"[^\s\x00-\x20\x7f]",
    "lower": r"[a-z]",
    "print": r"[^\x00-\x1f\x7f]",
    "punct": r"[!-/:-@\[-`{-~]",
    "space": r"[ \t\n\r\f\v]",
    "upper": r"[A-Z]",
    "xdigit": r"[0-9A-Fa-f]",
}
_CLASS = re.compile(r"\[:([a-z]*):\]")


def glob_escape(tag: str) -> str:
    r"""Write a tag as a glob that matches this tag only.

    Brackets do it, as in ``[*]``: shells take ``\*`` as well, but Python's fnmatch, with which a suite
    may read TEST_FILTER just as well, does not.
    """
    return _SPECIAL.sub(lambda match: r"[\\]" if match[0] == "\\" else f"[{match[0]}]", tag)


def filter_matches(filter_text: str, tag: str) -> bool:
    """Whether the caller's TEST_FILTER selects a tag: any of its globs does, or there is none.

    Globs are divided as a shell divides words. No text selects all; a text of blanks has no glob and
    selects nothing, as in the scripts, which loop over its words.
    """
    return not filter_text or any(glob_match(glob, tag) for glob in re.split(r"[ \t\n]+", filter_text) if glob)


def glob_match(pattern: str, text: str) -> bool:
    r"""Whether a glob matches the whole text, as in the shell's ``case``.

    ``*`` matches slashes and leading dots too; ``[!a]`` and ``[^a]`` are what is not in the set (dash takes
    the second one literally, bash does not); ``\`` takes the next character as it is, in brackets too;
    a bracket that does not close is itself. Takes len(pattern) * len(text) steps at most.
    """
    first, *rest = _parts(pattern)
    if not rest:
        return first.regex.fullmatch(text) is not None
    if not first.regex.match(text):
        return False
    at = first.width
    *middle, last = rest
    for part in middle:  # the leftmost place for each part leaves most room for the next
        found = part.regex.search(text, at)
        if found is None:
            return False
        at = found.end()
    end = len(text) - last.width
    return end >= at and last.regex.match(text, end) is not None


class _Part(NamedTuple):
    """What stands between two stars: so many characters, one after another."""

    regex: re.Pattern[str]
    width: int


@lru_cache(maxsize=256)
def _parts(pattern: str) -> tuple[_Part, ...]:
    parts: list[list[str]] = [[]]
    at = 0
    while at < len(pattern):
        character = pattern[at]
        at += 1
        if character == "*":
            parts.append([])
        elif character == "?":
            parts[-1].append(".")
        elif character == "[":
            regex, at = _bracket(pattern, at)
            parts[-1].append(regex)
        else:
            literal, at = _literal(pattern, at - 1)
            parts[-1].append(re.escape(literal))
    return tuple(_Part(re.compile("".join(part), re.DOTALL), len(part)) for part in parts)


def _literal(pattern: str, at: int) -> tuple[str, int]:
    """Give the character at a place, or behind a backslash there, and the place after it."""
    if pattern[at] == "\\" and at + 1 < len(pattern):
        at += 1
    return pattern[at], at + 1


def _bracket(pattern: str, start: int) -> tuple[str, int]:
    """Read what follows an opening bracket: a regex for one character, and the place behind it."""
    negated = pattern.startswith(("!", "^"), start)
    at = first = start + negated
    choices: list[str] = []
    while at < len(pattern):
        if pattern[at] == "]" and at > first:
            return _set(choices, negated=negated), at + 1
        named = _CLASS.match(pattern, at)
        if named and named[1] in _CLASSES:
            choices.append(_CLASSES[named[1]])
            at = named.end()
            continue
        low, at = _literal(pattern, at)
        high = low
        if pattern.startswith("-", at) and at + 1 < len(pattern) and pattern[at + 1] != "]":
            high, at = _literal(pattern, at + 1)
        if low <= high:  # a range that runs backwards is empty
            choices.append(f"[{re.escape(low)}-{re.escape(high)}]")
    return re.escape("["), start


def _set(choices: list[str], *, negated: bool) -> str:
    any_of = "|".join(choices) or "(?!)"
    return f"(?!{any_of})." if negated else f"(?:{any_of})"
