"""Reads what the JUnit files of one item say: the same cases for the facts, the verdict and the aggregate.

``cases`` is the one reader; ``facts`` only counts what it gives, so a total and the cases behind it agree.
Each result is counted from its element, never copied from an attribute.

Who does what: ``junit_xml`` cuts the stream into whole cases, and junitparser reads the results inside a
case. Whole files are not given to junitparser: it needs a tree per file (an item with a million cases would
take gigabytes), 1.8 s instead of 0.7 s for 500 files of 1,000 cases, all of a file or nothing of it, and with
lxml it refuses a text over 10 MB. One case at a time it is as good as on a whole file, with lxml and without.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from os import PathLike
from typing import BinaryIO, NamedTuple
from xml.etree.ElementTree import Element

from junitparser import Error, Failure, Skipped, TestCase

from pytest_sgpu.core.text import counted, one_line, printable
from pytest_sgpu.model import JUnitFacts, Tests
from pytest_sgpu.report.junit_xml import WholeCases

Source = str | PathLike[str] | BinaryIO
Opener = Callable[["str | PathLike[str]"], BinaryIO]

FAILING_NAMED = 20
NO_NAME = "(no name)"
NAME_LIMIT = 2000
MAX_SECONDS = 1e8  # three years: a longer time is a date or a mistake
WINDOW = 256  # cases held back, so that a teardown error finds its test when others report in between

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


def open_file(path: str | PathLike[str]) -> BinaryIO:
    """Open a path for reading bytes."""
    return open(path, "rb")  # noqa: PTH123 - a path may be of any kind


def facts(sources: Iterable[Source], open_xml: Opener = open_file) -> JUnitFacts:
    """Read what all JUnit files of one item say together. Never raises for what they hold."""
    reader = Cases(sources, open_xml)
    failing: list[tuple[str, str]] = []
    for case in reader:
        if case.kind and case.bad and len(failing) < FAILING_NAMED:
            failing.append((full_name(case), _headline(case)))
    return JUnitFacts(reader.files, reader.tests, tuple(failing), reader.damage, reader.warnings)


def full_name(case: Case) -> str:
    """Give ``classname::name``."""
    return f"{case.classname}::{case.name}" if case.classname else case.name


def _headline(case: Case) -> str:
    said = case.message.strip() or case.text.strip()
    return one_line(said.splitlines()[0]) if said else ""


class Cases:
    """Iterates over the cases of all files of one item, once. What is wrong with them is known afterwards.

    ``damage`` names what was lost ("" when nothing), ``warnings`` oddities that lost nothing (one per
    kind and file), ``tests`` the counts. Damage and warnings name the file when there are several.
    Memory: 256 cases, and some 70 bytes per case of the item to know the names that were used.
    """

    def __init__(self, sources: Iterable[Source], open_xml: Opener = open_file) -> None:
        self._sources = tuple(sources)
        self._open = open_xml
        self._names = _Names()
        self._damages: list[str] = []
        self._warnings: list[str] = []
        self._count = {"": 0, "failure": 0, "error": 0, "skipped": 0}
        self.files = len(self._sources)

    @property
    def damage(self) -> str:
        """Say what is wrong with the files, "" when they are whole."""
        return "; ".join(self._damages)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Give the oddities. That there is no case at all is one, unless damage says so already."""
        if self.files and not self._damages and not any(self._count.values()):
            return (*self._warnings, "no test case in it" if self.files == 1 else "no test case in any file")
        return tuple(self._warnings)

    @property
    def tests(self) -> Tests:
        """Give the counts of the cases so far."""
        count = self._count
        return Tests(sum(count.values()), count["failure"], count["error"], count["skipped"])

    def __iter__(self) -> Iterator[Case]:
        """Give each case, with one result at most."""
        count = self._count
        for source in self._sources:
            for case in self._file(source):
                count[case.kind] += 1
                yield case

    def _file(self, source: Source) -> Iterator[Case]:
        name = _short_name(source) if self.files > 1 else ""
        if not isinstance(source, (str, PathLike)):
            yield from self._read(source, name)
            return
        try:
            stream = self._open(source)
        except OSError as error:
            self._damages.append(f"{name}cannot be read: {error.strerror or error}")
            return
        with stream:
            yield from self._read(stream, name)

    def _read(self, stream: BinaryIO, name: str) -> Iterator[Case]:
        whole = WholeCases(stream)
        oddities = _Oddities()
        yield from self._names.unique(_case(attrs, element, oddities) for attrs, element in whole)
        if whole.damage:
            self._damages.append(name + whole.damage)
        self._warnings += [name + warning for warning in oddities.warnings()]


def _short_name(source: Source) -> str:
    """Give the last part of a path with a colon; files of one item differ there."""
    path = source if isinstance(source, (str, PathLike)) else getattr(source, "name", "")
    last = str(path).rpartition("/")[2]
    return f"{one_line(last, 120)}: " if last else ""


class _Oddities:
    """What is odd in the cases of one file but costs nothing."""

    def __init__(self) -> None:
        self.times = 0
        self.first_time = ""
        self.nameless = 0

    def time(self, text: str) -> None:
        self.first_time = self.first_time or f"'{one_line(text, 40)}'"
        self.times += 1

    def warnings(self) -> list[str]:
        """Give one line per kind."""
        told = []
        if self.times:
            told.append(f"{counted(self.times, 'time')} that cannot be read left out, first {self.first_time}")
        if self.nameless:
            told.append(f"{counted(self.nameless, 'case')} without a name, shown as {NO_NAME}")
        return told


class _Names:
    """Makes each pair of classname and name unique: most readers of JUnit drop all but one of a pair.

    An element that only says that the teardown of a test failed joins that test's case, if it is among
    the last 256 (pytest writes it right behind, and other workers of xdist may come between). Any other
    repetition gets " [2]", " [3]"...
    """

    def __init__(self) -> None:
        self._seen: set[int] = set()
        self._last: dict[int, int] = {}

    def unique(self, cases: Iterable[Case]) -> Iterator[Case]:
        """Give the cases of one file, each with a pair of names that the item has not had yet."""
        held: list[Case] = []
        seen = self._seen
        for case in cases:
            key = hash((case[0], case[1]))
            if key not in seen:
                seen.add(key)
                held.append(case)
            elif not self._joined(held, case):
                held.append(case._replace(name=self._numbered(key, case)))
            if len(held) >= 2 * WINDOW:
                yield from held[:WINDOW]
                del held[:WINDOW]
        yield from held

    def _joined(self, held: list[Case], case: Case) -> bool:
        if not _is_teardown_error(case):
            return False
        for at in range(len(held) - 1, max(-1, len(held) - 1 - WINDOW), -1):
            first = held[at]
            if first[:2] == case[:2]:
                if _is_teardown_error(first):
                    return False
                held[at] = _with_result(first, [(case.kind, case.message, case.type, case.text)], case.children)
                return True
        return False

    def _numbered(self, key: int, case: Case) -> str:
        number = self._last.get(key, 1)
        while True:
            number += 1
            name = f"{case.name} [{number}]"
            new = hash((case.classname, name))
            if new not in self._seen:
                self._seen.add(new)
                self._last[key] = number
                return name


def _is_teardown_error(case: Case) -> bool:
    return case.kind == "error" and _TEARDOWN.search(f"{case.message} {case.type}") is not None


def _case(attrs: dict[str, str], element: Element | None, oddities: _Oddities) -> Case:
    """Read one case. Half a million of them must not take seconds: the plain ones take the short way."""
    name, classname, time = attrs.get("name", ""), attrs.get("classname", ""), attrs.get("time")
    if not name or name.isspace():
        oddities.nameless += 1
        name = NO_NAME
    seconds = None
    if time is not None:
        seconds = seconds_of(time)
        if seconds is None:
            oddities.time(time)
    if len(name) > NAME_LIMIT or len(classname) > NAME_LIMIT or not (name.isprintable() and classname.isprintable()):
        name, classname = clean(name), clean(classname)
    case = _new_case(Case, (classname, name, seconds, "", "", "", "", (), ()))
    if element is None and attrs.keys() <= _OWN_ATTRIBUTES:
        return case
    return _with_more(case, attrs, element)


def _with_more(case: Case, attrs: dict[str, str], element: Element | None) -> Case:
    """Add what else a case has: attributes, results, children."""
    rest = tuple(pair for pair in attrs.items() if pair[0] not in _OWN_ATTRIBUTES and ":" not in pair[0])
    if rest:
        case = case._replace(attributes=rest)
    if element is not None:
        case = _with_result(case, _results(element), tuple(child for child in element if child.tag not in _RANK))
    if not case.kind and attrs.get("status", "").lower() in {"notrun", "disabled"}:
        case = case._replace(kind="skipped", message=f"not run (status {attrs['status']})")  # as googletest writes
    return case


def _results(element: Element) -> list[tuple[str, str, str, str]]:
    """Give kind, message, type and text of each result that junitparser finds in a case."""
    if not any(child.tag in _RANK for child in element):
        return []
    return [
        (result._tag, result.message or "", result.type or "", result.text or "")  # noqa: SLF001 - its name for the kind
        for result in TestCase.fromelem(element)  # type: ignore[no-untyped-call]
        if isinstance(result, _FINAL)
    ]


def _with_result(case: Case, results: list[tuple[str, str, str, str]], children: tuple[Element, ...]) -> Case:
    """Add results to a case so that it still has one: the worst. The others are told in its text."""
    own = [(case.kind, case.message, case.type, case.text)] if case.kind else []
    ordered = sorted([*own, *results], key=lambda result: _RANK[result[0]])
    if not ordered:
        return case._replace(children=case.children + children) if children else case
    (kind, message, type_, text), *others = ordered
    for other, said, _, more in others:
        text += f"\n\nalso {other}: {said}\n{more}".rstrip()
    return case._replace(
        kind=kind, message=message, type=type_, text=text.lstrip("\n"), children=case.children + children
    )


def clean(text: str) -> str:
    """Make a name printable. Most are already."""
    return text if text.isprintable() and len(text) <= NAME_LIMIT else printable(text, NAME_LIMIT)


def seconds_of(text: str) -> float | None:
    """Read a duration. None for what is no number from 0 to 1e8: clocks, decimal commas, NaN, negative ones."""
    try:
        seconds = float(text)
    except ValueError:
        if not _THOUSANDS.fullmatch(text.strip()):
            return None
        seconds = float(text.replace(",", ""))
    return seconds if 0.0 <= seconds < MAX_SECONDS and "_" not in text else None
