"""One test case of a JUnit file: what its element says, with one result at most and names that can be shown."""

from __future__ import annotations

import re
from typing import NamedTuple
from xml.etree.ElementTree import Element

from junitparser import Error, Failure, Skipped, TestCase

from pytest_sgpu.core.redact import Clean, unchanged
from pytest_sgpu.core.text import counted, one_line, printable

NO_NAME = "(no name)"
NAME_LIMIT = 2000
_TIME_LIMIT = 100  # characters
MAX_SECONDS = 1e8  # three years: a longer time is a date or a mistake

_FINAL = (Failure, Error, Skipped)
_RANK = {"failure": 0, "error": 1, "skipped": 2}  # one result per case: the first of these that it has
_OWN_ATTRIBUTES = frozenset(("classname", "name", "time", "xmlns"))  # the rest is passed on
# A comma divides thousands only where nothing else can be meant: "1,234" may be a decimal comma.
_THOUSANDS = re.compile(r"[1-9][0-9]{0,2}(,[0-9]{3})+\.[0-9]+|[1-9][0-9]{0,2}(,[0-9]{3}){2,}")
_TEARDOWN = re.compile(r"\bteardown\b", re.IGNORECASE)


class Case(NamedTuple):
    """One test case. ``kind`` is "" (passed), ``failure``, ``error`` or ``skipped``.

    ``classname`` and ``name`` are printable, and unique within the item. ``seconds`` None: no time that
    means anything. ``attributes`` and ``children`` are what else it has, as it was written.
    """

    classname: str
    name: str
    seconds: float | None = None
    kind: str = ""
    message: str = ""
    type: str = ""
    text: str = ""
    attributes: tuple[tuple[str, str], ...] = ()
    children: tuple[Element, ...] = ()

    @property
    def bad(self) -> bool:
        """Whether it failed or had an error."""
        return self.kind in {"failure", "error"}


_new_case = tuple.__new__  # what Case() calls in the end


class Oddities:
    """What is odd in the cases of one file but costs nothing."""

    def __init__(self) -> None:
        self.times = 0
        self.first_time = ""
        self.nameless = 0

    def time(self, text: str) -> None:
        """Take a time that cannot be read."""
        self.first_time = self.first_time or text[:200]
        self.times += 1

    def warnings(self, clean: Clean = unchanged) -> list[str]:
        """Give one line per kind."""
        told = []
        if self.times:
            first = f"'{one_line(clean(self.first_time), 40)}'"
            told.append(f"{counted(self.times, 'time')} that cannot be read left out, first {first}")
        if self.nameless:
            told.append(f"{counted(self.nameless, 'case')} without a name, shown as {NO_NAME}")
        return told


def read_case(attrs: dict[str, str], element: Element | None, oddities: Oddities, clean: Clean = unchanged) -> Case:
    """Read one case. Half a million of them must not take seconds: the plain ones take the short way.

    ``clean`` goes over every text of it, before anything is cut.
    """
    name, classname, time = attrs.get("name", ""), attrs.get("classname", ""), attrs.get("time")
    if not name or name.isspace():
        oddities.nameless += 1
        name = NO_NAME
    seconds = None
    if time is not None:
        seconds = seconds_of(time)
        if seconds is None:
            oddities.time(time)
    if clean is not unchanged:
        name, classname = clean(name), clean(classname)
    if not (name.isascii() and classname.isascii() and name.isprintable() and classname.isprintable()) or (
        len(name) > NAME_LIMIT or len(classname) > NAME_LIMIT
    ):
        name, classname = printable(name, NAME_LIMIT), printable(classname, NAME_LIMIT)
    case = _new_case(Case, (classname, name, seconds, "", "", "", "", (), ()))
    if element is None and attrs.keys() <= _OWN_ATTRIBUTES:
        return case
    return _with_more(case, attrs, element, clean)


def _with_more(case: Case, attrs: dict[str, str], element: Element | None, clean: Clean) -> Case:
    """Add what else a case has: attributes, results, children."""
    rest = tuple((key, clean(said)) for key, said in attrs.items() if key not in _OWN_ATTRIBUTES and ":" not in key)
    if rest:
        case = case._replace(attributes=rest)
    if element is not None:
        if clean is not unchanged:
            _clean_element(element, clean)
        results = _results(element)
        case = with_result(case, results, tuple(child for child in element if child.tag not in _RANK))
    if not case.kind and attrs.get("status", "").lower() in {"notrun", "disabled"}:
        case = case._replace(kind="skipped", message=f"not run (status {attrs['status']})")  # as googletest writes
    return case


def _clean_element(element: Element, clean: Clean) -> None:
    for one in element.iter():
        one.text = clean(one.text) if one.text else one.text
        one.tail = clean(one.tail) if one.tail else one.tail
        for key, value in one.attrib.items():
            one.attrib[key] = clean(value)


def _results(element: Element) -> list[tuple[str, str, str, str]]:
    """Give kind, message, type and text of each result that junitparser finds in a case."""
    if not any(child.tag in _RANK for child in element):
        return []
    return [
        (result._tag, result.message or "", result.type or "", result.text or "")  # noqa: SLF001 - its name for the kind
        for result in TestCase.fromelem(element)  # type: ignore[no-untyped-call]
        if isinstance(result, _FINAL)
    ]


def with_result(case: Case, results: list[tuple[str, str, str, str]], children: tuple[Element, ...]) -> Case:
    """Add results to a case so that it still has one: the worst. The others are told in its text."""
    own = [(case.kind, case.message, case.type, case.text)] if case.kind else []
    ordered = sorted([*own, *results], key=lambda result: _RANK[result[0]])
    if not ordered:
        return case._replace(children=case.children + children) if children else case
    (kind, message, type_, text), *others = ordered
    also = (f"\n\nalso {other}: {said}\n{more}".rstrip() for other, said, _, more in others)
    text = "".join((text, *also)).lstrip("\n")
    return case._replace(kind=kind, message=message, type=type_, text=text, children=case.children + children)


def is_teardown_error(case: Case) -> bool:
    """Whether an element only says that the teardown of a test failed."""
    return case.kind == "error" and _TEARDOWN.search(f"{case.message[:1000]} {case.type[:1000]}") is not None


def size_of(case: Case) -> int:
    """Give the characters that a case holds beside its names, with something for each element."""
    size = len(case.message) + len(case.type) + len(case.text)
    size += sum(len(key) + len(value) for key, value in case.attributes)
    for child in case.children:
        for one in child.iter():
            size += 100 + len(one.text or "") + len(one.tail or "") + sum(map(len, one.attrib.values()))
    return size


def printable_name(text: str) -> str:
    """Make a name printable. Most are already."""
    plain = text.isascii() and text.isprintable() and len(text) <= NAME_LIMIT
    return text if plain else printable(text, NAME_LIMIT)


def seconds_of(text: str) -> float | None:
    """Read a duration. None for what is no number from 0 to 1e8: clocks, decimal commas, NaN, negative ones."""
    if len(text) > _TIME_LIMIT:
        return None
    try:
        seconds = float(text)
    except ValueError:
        if not _THOUSANDS.fullmatch(text.strip()):
            return None
        seconds = float(text.replace(",", ""))
    return seconds if 0.0 <= seconds < MAX_SECONDS and "_" not in text else None
