"""What stands behind the login in a user line: which experiments, how far, and what is wrong with that."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from pytest_sgpu.runners.routing.problems import Severity, shown
from pytest_sgpu.runners.routing.rollout_types import NAME, NAME_EXPECTED, visible

MOST_ITEMS = 1000  # of one user
DASHES = "-\u2010\u2011\u2012\u2013\u2014\u2015\u2212"  # editors make others of a hyphen
COMMENT = re.compile(r"\s#.*", re.DOTALL)
WHOLE = 100.0

_NONE: frozenset[str] = frozenset()
_MOST_AMOUNTS = 1000
_NAMES = re.compile(rf"(?:{NAME.pattern})?(?:,(?:{NAME.pattern})?)*")
_ONE = rf"\s*(?:([{DASHES}]+)\s*)?({NAME.pattern})\s*(:[^,]*)?"
_ITEM = re.compile(_ONE)
_ITEMS = re.compile(rf",{_ONE}(?![^,])")  # each with the comma before it, with which it is found sooner


class Items(NamedTuple):
    """What the items say; ``wrong`` is how many faults there are."""

    percent: Mapping[str, float]
    out: frozenset[str]
    wrong: int = 0


class Fault(NamedTuple):
    """One thing that is wrong."""

    severity: Severity
    message: str
    hint: str = ""
    mistake: bool = False


class Amounts(dict[str, float]):
    """Percentages as they are written, with the colon before them, to numbers; infinity is what is none."""

    def __missing__(self, text: str) -> float:
        """Make a new one."""
        made = _number(text[1:]) if text else WHOLE
        if math.isnan(made):
            made = math.inf
        if len(self) < _MOST_AMOUNTS:
            self[text] = made
        return made


def read(rest: str, amounts: Amounts) -> Items:
    """Read the items. What is wrong is only counted, which takes no longer than what is right."""
    if "#" in rest:
        rest = COMMENT.sub("", rest)
    wrong = 0
    if rest.count(",") >= MOST_ITEMS:
        wrong = 1
        rest = rest[: -1 - len(rest.split(",", MOST_ITEMS).pop())]
    if ":" not in rest and _NAMES.fullmatch(rest):
        names = list(filter(None, rest.split(",")))
        percent = dict.fromkeys(names, WHOLE)
        return Items(percent, _NONE, wrong + len(names) - len(percent) + (not names))
    found = _ITEMS.findall(f",{rest}")
    if len(found) <= rest.count(","):
        wrong += len(list(filter(None, map(str.strip, rest.split(","))))) - len(found)
    return _collected(found, wrong, amounts)


def _collected(found: Iterable[tuple[str, str, str]], wrong: int, amounts: Amounts) -> Items:
    percent: dict[str, float] = {}
    outs = []
    for dash, name, text in found:
        if dash:
            outs.append(name)
            continue
        value = amounts[text]
        if not 0 <= value <= WHOLE:
            wrong += 1
            value = min(max(value, 0.0), WHOLE)
        if name in percent:
            wrong += 1
        else:
            percent[name] = value
    if not percent and not outs:
        return Items(percent, _NONE, wrong + 1)
    out = frozenset(outs) if outs else _NONE
    for name in out & percent.keys() if out and percent else ():
        wrong += 1
        del percent[name]
    return Items(percent, out, wrong)


def faults(login: str, rest: str) -> Iterator[Fault]:
    """Say one by one what is wrong; only for as many lines as are told, since it takes its time."""
    parts = COMMENT.sub("", rest).split(",", MOST_ITEMS)
    if len(parts) > MOST_ITEMS:
        del parts[MOST_ITEMS:]
        yield Fault("error", f"{login}: more than {MOST_ITEMS} items; the others are left out")
    named: set[str] = set()
    out: set[str] = set()
    for part in parts:
        match = _ITEM.fullmatch(part)
        if not match:
            if part.strip():
                what = f"{login}: {shown(visible(part.strip()))} names no experiment; it is left out"
                yield Fault("error", what, f"expected {NAME_EXPECTED}")
            continue
        dash, name, amount = match.groups()
        if dash:
            out.add(name)
            continue
        if amount:
            yield from _wrong_amount(login, name, amount[1:].strip())
        if name in named:
            yield Fault("warning", f"{login}: {name} is there twice; the first one counts")
        named.add(name)
    for name in sorted(out & named):
        yield Fault("warning", f"{login}: {name} is opted in and out; out counts")
    if not named and not out:
        yield Fault("warning", f"the line of {login} names no experiment")


def _wrong_amount(login: str, name: str, text: str) -> Iterator[Fault]:
    value = _number(text)
    if math.isnan(value):
        what = f"{login}: {shown(text)} is no percentage; 100 is taken"
        yield Fault("warning", what, f"a number alone, as in {name}:25", mistake=True)
    elif not 0 <= value <= WHOLE:
        taken = min(max(value, 0.0), WHOLE)
        yield Fault("warning", f"{login}: {name} is outside 0 to 100; {taken:g} is taken", mistake=True)


def is_number(text: str) -> bool:
    """Tell whether a percentage is written as one: float() takes digits of any script, and signs between them."""
    return text.isascii() and "_" not in text


def _number(text: str) -> float:
    try:
        return float(text) + 0.0 if is_number(text) else math.nan  # no negative zero
    except ValueError:
        return math.nan
