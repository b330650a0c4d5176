"""Expressions in a workflow: put out of sight before its YAML is read, and what each may come to."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Container, Iterator
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
_COVERED = re.compile(rf"({_NUMBER})[{_OTHER}{_PREFIX}{_APART}]*(?:\s+[{_OTHER}{_PREFIX}{_APART}]+)*")
_DEEPEST = 32  # brackets within brackets
_OR, _AND, _COMPARED = frozenset(("||",)), frozenset(("&&",)), frozenset(("==", "!=", "<", ">", "<=", ">=", "!"))
_ASKED = ("contains", "startswith", "endswith")  # what they are given is looked at, and comes to yes or no

_Token = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Result:
    """What an expression may come to, and where that stands in the file, from 1.

    ``text``: a literal. ``path``: else the parts of a name, in small letters.
    """

    text: str
    line: int
    column: int
    path: tuple[str, ...] = ()


class Covered:
    """A workflow file whose expressions are out of sight; all that is left is where it was."""

    def __init__(self, text: str) -> None:
        self._expressions: list[tuple[str, int]] = []
        self._starts = [0, *(found.end() for found in re.finditer("\n", text))]
        self.text = _EXPRESSION.sub(self._cover, _ANY.sub("?", text))
        self.lines = self.text.split("\n")

    def _cover(self, found: re.Match[str]) -> str:
        names = " ".join(name for one in _results(_tokens(found[0])) for name in _names(one))
        apart = _APART if "label-type" in names else _OTHER  # the output of one experiment, such as x-label-type
        kind = _PREFIX if _LABEL_TYPE.search(names) else apart
        cover = _SEEN.sub(lambda seen: seen[0] if seen[0][0] == "\n" else kind, found[0])
        if len(self._expressions) == _MOST:
            return cover
        self._expressions.append((found[0], found.start()))
        return chr(_FIRST + len(self._expressions) - 1) + cover[1:]

    def shown(self, text: str) -> str:
        """Give a text with its expressions, for a message."""
        return _COVERED.sub(lambda found: self._expressions[ord(found[1]) - _FIRST][0], text)

    def takes(self, text: str, fields: Container[str]) -> bool:
        """Tell whether one of the fields of a matrix, or all of it, is in what a text may come to."""
        found = (self._expressions[ord(one) - _FIRST][0] for one in re.findall(_NUMBER, text))
        return any(_takes(one, fields) for expression in found for one in _results(_tokens(expression)))

    def results(self, text: str) -> Iterator[Result]:
        """Give what a text may come to that is one expression in whole; nothing for any other."""
        whole = _WHOLE.fullmatch(text.strip())
        if not whole:
            return
        expression, start = self._expressions[ord(whole[1]) - _FIRST]
        for result in _results(_tokens(expression)):
            tokens = _read_as_json(result)
            token, offset = tokens[0]
            line = bisect_right(self._starts, start + offset)
            column = start + offset - self._starts[line - 1] + 1
            path, end = _path(tokens, 0)
            if end == len(tokens):
                is_literal = token.startswith("'")
                literal = token[1:-1].replace("''", "'") if is_literal else ""
                yield Result(literal, line, column, () if is_literal else path)


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


def _tokens(expression: str) -> list[_Token]:
    return [(found[0], found.start()) for found in _TOKEN.finditer(expression[:-2], 3)]


def _results(tokens: list[_Token], depth: int = 0) -> Iterator[list[_Token]]:
    """Give what is a result: all that ``||`` chooses from, the last behind ``&&``, what brackets hold.

    What is compared is no result.
    """
    for one in _split(tokens, _OR):
        last = _split(one, _AND)[-1]
        if len(last) > 1 and _is_bracket(last):
            yield from _results(last[1:-1], depth + 1) if depth < _DEEPEST else ()
        elif last and len(_split(last, _COMPARED)) == 1:
            yield last


def _read_as_json(tokens: list[_Token]) -> list[_Token]:
    """Give what `fromJSON` reads when that is a name, else what is given."""
    is_read = len(tokens) > len("(x)") and tokens[0][0].lower() == "fromjson" and _is_bracket(tokens[1:])
    return tokens[2:-1] if is_read and not tokens[2][0].startswith("'") else tokens


def _names(tokens: list[_Token]) -> Iterator[str]:
    """Give the names in a result, those in brackets too; not its literals."""
    if tokens[0][0].lower() in _ASKED:
        return
    before = ""
    for token, _ in tokens:
        if before == "[" or not token.startswith("'"):
            yield token.lower()
        before = token


def _path(tokens: list[_Token], at: int) -> tuple[tuple[str, ...], int]:
    """Give the parts of the name that begins at a token, as in ``a.b['c'].d``, and the token behind it."""
    parts = tokens[at][0].lower().split(".")
    at += 1
    while at < len(tokens):
        sign = tokens[at][0]
        inner = [one for one, _ in tokens[at + 1 : at + 3]]
        if sign == "[" and inner[1:] == ["]"] and inner[0].startswith("'"):
            parts.append(inner[0][1:-1].lower())
            at += 3
        elif sign[0] == "." and sign != "." and tokens[at - 1][0] == "]":
            parts += sign[1:].lower().split(".")
            at += 1
        else:
            break
    return tuple(parts), at


def _takes(tokens: list[_Token], fields: Container[str]) -> bool:
    if tokens[0][0].lower() in _ASKED:
        return False
    paths = (_path(tokens, at)[0] for at, (token, _) in enumerate(tokens) if token.lower().split(".")[0] == "matrix")
    return any(path == ("matrix",) or any(part in fields for part in path[1:]) for path in paths)


def _split(tokens: list[_Token], operators: frozenset[str]) -> list[list[_Token]]:
    parts: list[list[_Token]] = [[]]
    depth = 0
    for token in tokens:
        depth += (token[0] in {"(", "["}) - (token[0] in {")", "]"})
        if token[0] in operators and depth == 0:
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
