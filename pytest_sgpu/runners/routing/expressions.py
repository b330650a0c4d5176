"""Expressions in a workflow: put out of sight before its YAML is read, and what each may come to."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

# What an expression becomes before the text is read: characters for private use, which no label has. In their place
# `${{ x }}` would be a mapping, and columns would move. The first one says which expression it was.
_OTHER, _PREFIX, _APART = "\ue000", "\ue001", "\ue002"
_FIRST, _MOST = 0xF0000, 0xFFFE
_NUMBER = f"[{chr(_FIRST)}-{chr(_FIRST + _MOST - 1)}]"
_ANY = re.compile(f"{_NUMBER}|[{_OTHER}{_PREFIX}{_APART}]")
_ALL = re.compile(rf"(?:{_ANY.pattern}|\s)+")
_IS_PREFIX = re.compile(rf"(?:\s*{_NUMBER}?{_PREFIX})+")
_PREFIXED = re.compile(rf"{_IS_PREFIX.pattern}(?:\s*{_NUMBER}?{_OTHER})+")
_BEFORE = re.compile(rf"(?:\s*{_NUMBER}?[{_PREFIX}{_APART}])+")
_WHOLE = re.compile(rf"({_NUMBER})[{_OTHER}\s]+")

_EXPRESSION = re.compile(r"\$\{\{(?:'[^'\n]*'|\$(?!\{\{)|[^'$}]|\}(?!\}))*\}\}")
_SEEN = re.compile(r"\n[ \t]*|[^\n]")  # how deep a line begins is still to be seen
_LABEL_TYPE = re.compile(r"(?<![\w-])label-type(?![\w-])|prefix")
_TOKEN = re.compile(r"'(?:[^']|'')*'|\|\||&&|[!=<>]=|[^\s'()\[\],!=<>&|]+|\S")
_DEEPEST = 32  # brackets within brackets

_Token = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Result:
    """What an expression may come to: a literal text, or the value of a name; where that stands in the file, from 1."""

    text: str
    is_literal: bool
    line: int
    column: int


class Covered:
    """A workflow file whose expressions are out of sight; all that is left is where it was."""

    def __init__(self, text: str) -> None:
        self._expressions: list[tuple[str, int]] = []
        self._starts = [0, *(found.end() for found in re.finditer("\n", text))]
        self.text = _EXPRESSION.sub(self._cover, _ANY.sub("?", text))
        self.lines = self.text.split("\n")

    def _cover(self, found: re.Match[str]) -> str:
        inside = found[0].lower()
        apart = _APART if "label-type" in inside else _OTHER  # the output of one experiment, such as x-label-type
        kind = _PREFIX if _LABEL_TYPE.search(inside) else apart
        cover = _SEEN.sub(lambda seen: seen[0] if seen[0][0] == "\n" else kind, found[0])
        if len(self._expressions) == _MOST:
            return cover
        self._expressions.append((found[0], found.start()))
        return chr(_FIRST + len(self._expressions) - 1) + cover[1:]

    def within(self, text: str) -> tuple[str, ...]:
        """Give the expressions in a text."""
        return tuple(self._expressions[ord(one) - _FIRST][0] for one in re.findall(_NUMBER, text))

    def results(self, text: str) -> Iterator[Result]:
        """Give what a text may come to that is one expression in whole; nothing for any other."""
        whole = _WHOLE.fullmatch(text.strip())
        if not whole:
            return
        expression, start = self._expressions[ord(whole[1]) - _FIRST]
        tokens = [(found[0], found.start()) for found in _TOKEN.finditer(expression[:-2], 3)]
        for token, offset in _results(tokens):
            line = bisect_right(self._starts, start + offset)
            column = start + offset - self._starts[line - 1] + 1
            is_literal = token.startswith("'")
            yield Result(token[1:-1].replace("''", "'") if is_literal else token.lower(), is_literal, line, column)


def is_covered(text: str) -> bool:
    """Tell whether there is an expression in a text."""
    return bool(_ANY.search(text))


def is_all_covered(text: str) -> bool:
    """Tell whether a text is expressions and nothing else."""
    return bool(_ALL.fullmatch(text))


def is_prefix(text: str) -> bool:
    """Tell whether a text is the output of the routing: the prefix of labels."""
    return bool(_IS_PREFIX.fullmatch(text.strip()))


def is_prefixed(text: str) -> bool:
    """Tell whether a text is the output of the routing before what comes from elsewhere, such as a matrix."""
    return bool(_PREFIXED.fullmatch(text.strip()))


def without_prefix(text: str) -> tuple[str, bool]:
    """Take the outputs of the routing off that a text begins with, and tell whether the prefix was among them."""
    found = _BEFORE.match(text)
    return (text[found.end() :], _PREFIX in found[0]) if found else (text, False)


def _results(tokens: list[_Token], depth: int = 0) -> Iterator[_Token]:
    """Give the tokens that are results: all that ``||`` chooses from, the last behind ``&&``, what brackets hold.

    What is compared, and what a function is given, is no result.
    """
    for one in _split(tokens, "||"):
        last = _split(one, "&&")[-1]
        if len(last) == 1:
            yield last[0]
        elif [token for token, _ in last[:2]] + [token for token, _ in last[3:]] == ["matrix", "[", "]"]:
            yield f"matrix.{last[2][0][1:-1]}", last[0][1]
        elif depth < _DEEPEST and len(last) > 1 and _is_bracket(last):
            yield from _results(last[1:-1], depth + 1)


def _split(tokens: list[_Token], operator: str) -> list[list[_Token]]:
    parts: list[list[_Token]] = [[]]
    depth = 0
    for token in tokens:
        depth += (token[0] in {"(", "["}) - (token[0] in {")", "]"})
        if token[0] == operator and depth == 0:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def _is_bracket(tokens: list[_Token]) -> bool:
    """Tell whether the first bracket is closed by the last token, and not before."""
    depth = 0
    for place, (sign, _) in enumerate(tokens, 1):
        depth += (sign == "(") - (sign == ")")
        if depth == 0:
            return place == len(tokens) and sign == ")"
    return False
