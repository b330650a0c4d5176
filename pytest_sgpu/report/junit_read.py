"""Reads what the JUnit files of one item say: the same cases for the facts, the verdict and the aggregate.

``cases`` is the one reader; ``facts`` only counts what it gives, so a total and the cases behind it agree.
Each result is counted from its element, never copied from an attribute.

Who does what: ``junit_xml`` cuts the stream into whole cases, and junitparser reads the results inside a
case. Whole files are not given to junitparser: it needs a tree per file (an item with a million cases would
take gigabytes), 1.8 s instead of 0.7 s for 500 files of 1,000 cases, all of a file or nothing of it, and with
lxml it refuses a text over 10 MB. One case at a time it is as good as on a whole file, with lxml and without.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from os import PathLike
from typing import BinaryIO

from pytest_sgpu.core.redact import Clean, unchanged
from pytest_sgpu.core.text import counted, one_line, printable
from pytest_sgpu.model import JUnitFacts, Tests
from pytest_sgpu.report.junit_case import (
    Case,
    Oddities,
    is_teardown_error,
    read_case,
    seconds_of,
    size_of,
    with_result,
)
from pytest_sgpu.report.junit_xml import WholeCases

__all__ = ["Case", "Cases", "Opener", "Source", "facts", "full_name", "open_file", "seconds_of"]

Source = str | PathLike[str] | BinaryIO
Opener = Callable[["str | PathLike[str]"], BinaryIO]

FAILING_NAMED = 20
WINDOW = 256  # cases held back, so that a teardown error finds its test when others report in between
HELD = 1 << 22  # characters of the cases held back; when they have more, the window is shorter
MAX_CASES = 2_000_000  # of one item
MAX_FILES = 10_000
_TOLD = 10  # damages and warnings that are told of the files of an item; further ones are counted


def open_file(path: str | PathLike[str]) -> BinaryIO:
    """Open a path for reading bytes."""
    return open(path, "rb")  # noqa: PTH123 - a path may be of any kind


def facts(sources: Iterable[Source], open_xml: Opener = open_file, clean: Clean = unchanged) -> JUnitFacts:
    """Read what all JUnit files of one item say together. Never raises for what they hold."""
    reader = Cases(sources, open_xml, clean)
    failing: list[tuple[str, str]] = []
    for case in reader:
        if case.kind and case.bad and len(failing) < FAILING_NAMED:
            failing.append((printable(full_name(case)), _headline(case)))
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
    ``clean`` goes over every text of a case before names are compared, so they are unique as they are given.
    Memory: 256 cases, some megabytes at most, and some 70 bytes per case of the item to know the names that
    were used; an item has at most 2,000,000 cases in 10,000 files, more is damage.
    """

    def __init__(self, sources: Iterable[Source], open_xml: Opener = open_file, clean: Clean = unchanged) -> None:
        self._sources = tuple(sources)
        self._open = open_xml
        self._clean = clean
        self._names = _Names()
        self._damages: list[str] = []
        self._warnings: list[str] = []
        self._count = {"": 0, "failure": 0, "error": 0, "skipped": 0}
        self.files = len(self._sources)

    @property
    def damage(self) -> str:
        """Say what is wrong with the files, "" when they are whole."""
        return "; ".join(_few(self._damages, "damaged file"))

    @property
    def warnings(self) -> tuple[str, ...]:
        """Give the oddities. That there is no case at all is one, unless damage says so already."""
        told = _few(self._warnings, "warning")
        if self.files and not self._damages and not any(self._count.values()):
            told.append("no test case in it" if self.files == 1 else "no test case in any file")
        return tuple(told)

    @property
    def tests(self) -> Tests:
        """Give the counts of the cases so far."""
        count = self._count
        return Tests(sum(count.values()), count["failure"], count["error"], count["skipped"])

    def __iter__(self) -> Iterator[Case]:
        """Give each case, with one result at most."""
        count = self._count
        for source in self._sources[:MAX_FILES]:
            for case in self._file(source):
                count[case.kind] += 1
                yield case
        if self.files > MAX_FILES:
            self._damages.insert(0, f"{self.files} files, of which only {MAX_FILES} are read")

    def _file(self, source: Source) -> Iterator[Case]:
        name = self._short_name(source) if self.files > 1 else ""
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
        whole = WholeCases(stream, most=MAX_CASES - self.tests.cases)
        oddities, clean = Oddities(), self._clean
        yield from self._names.unique(read_case(attrs, element, oddities, clean) for attrs, element in whole)
        if whole.damage:
            self._damages.append(name + whole.damage)
        self._warnings += [name + warning for warning in oddities.warnings(clean)]

    def _short_name(self, source: Source) -> str:
        """Give the last part of a path with a colon; files of one item differ there."""
        path = source if isinstance(source, (str, PathLike)) else getattr(source, "name", "")
        last = str(path).rpartition("/")[2]
        return f"{one_line(self._clean(last), 120)}: " if last else ""


def _few(told: list[str], what: str) -> list[str]:
    if len(told) <= _TOLD:
        return list(told)
    return [*told[:_TOLD], f"and {counted(len(told) - _TOLD, f'more {what}')}"]


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
        size = 0
        for case in cases:
            key = hash((case[0], case[1]))
            if key not in seen:
                seen.add(key)
                held.append(case)
            elif key in self._last or not self._joined(held, case):
                held.append(case._replace(name=self._numbered(key, case)))
            if case[3] or case[7] or case[8]:
                size += size_of(case)
            if size > HELD:
                yield from held
                held.clear()
                size = 0
            elif len(held) >= 2 * WINDOW:
                yield from held[:WINDOW]
                del held[:WINDOW]
                size = 0  # of what is left no more than this can be held: that bound is enough
        yield from held

    def _joined(self, held: list[Case], case: Case) -> bool:
        if not is_teardown_error(case):
            return False
        for at in range(len(held) - 1, max(-1, len(held) - 1 - WINDOW), -1):
            first = held[at]
            if first[:2] == case[:2]:
                if is_teardown_error(first):
                    return False
                held[at] = with_result(first, [(case.kind, case.message, case.type, case.text)], case.children)
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
