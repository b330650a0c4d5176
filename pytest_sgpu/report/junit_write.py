"""Writes the tests that ran inside the items as one JUnit file, in a stream.

One ``testsuite`` per item, named ``suite/tag``; a case keeps its name and has the class name
``suite/tag.<its own>``, so that a pair of both occurs once in the file and tells suite and tag. No nesting.
All totals are counted while writing: the head of the file and of each suite is written with room to spare,
and filled in afterwards. Attempts before the last one count in none (``junit_past``). Memory: what
``junit_read`` needs for one item.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Sequence
from typing import IO, Any
from xml.etree.ElementTree import Element

from pytest_sgpu.core.redact import Clean, unchanged
from pytest_sgpu.core.text import printable
from pytest_sgpu.model import Tests
from pytest_sgpu.report.junit_case import printable_name
from pytest_sgpu.report.junit_item import Earlier, ItemXml, case_properties, own_case, properties
from pytest_sgpu.report.junit_past import Past
from pytest_sgpu.report.junit_read import Case, Cases, Opener, open_file
from pytest_sgpu.report.words import utc

__all__ = ["Earlier", "ItemXml", "write"]

ROOM = 160  # for the totals of an element: five numbers and their names
ATTRIBUTE_LIMIT = 1 << 16
_BATCH = 1000
_WRITTEN = (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;"), ("\n", "&#10;"), ("\t", "&#9;"))
_SPECIAL = re.compile(r'[&<>"\n\t]')
# Inside a case these would be counted, or change its result, for readers that search the whole tree.
_OURS = frozenset(("part", "commit"))  # of a resumed run; a case's own property of that name gives way
_ELSEWHERE = frozenset(("testsuites", "testsuite", "testcase", "failure", "error", "skipped"))


def write(
    stream: IO[Any],
    items: Iterable[ItemXml],
    *,
    started: float | None = None,
    open_xml: Opener = open_file,
    name: str = "pytest-sgpu",
    clean: Clean = unchanged,
) -> Tests:
    """Write the aggregate of the items, in their order, and give its totals.

    ``stream`` is seekable, text in UTF-8 or binary; ``started`` is epoch seconds, without which no suite has
    a time stamp. ``clean`` goes over every text that comes from elsewhere. Never raises for what the files hold.
    What the stream raises is passed on.
    """
    known = tuple(items)
    out = _Out(stream)
    suites = _suite_names(known, clean)
    shared = _shared_names(suites)
    out.text('<?xml version="1.0" encoding="utf-8"?>\n')
    head = out.head(f'<testsuites name="{_attribute(clean(name))}"')
    total, seconds = Tests(), 0.0
    for item, suite in zip(known, suites, strict=True):
        tests = _Suite(out, item, suite, shared.get(suite), clean).write(started, open_xml)
        total = Tests(*(getattr(total, key) + getattr(tests, key) for key in Tests.__slots__))
        seconds += item.outcome.seconds
    out.text("</testsuites>\n")
    out.fill(head, total, seconds)
    out.flush()
    return total


def _suite_names(items: Sequence[ItemXml], clean: Clean) -> list[str]:
    """Give one printable name per item. Names that look the same once printable are told apart."""
    used: set[str] = set()
    names = []
    for item in items:
        base = name = printable_name(clean(str(item.outcome.key)))
        number = 1
        while name in used:
            number += 1
            name = f"{base} [{number}]"
        used.add(name)
        names.append(name)
    return names


def _shared_names(suites: Sequence[str]) -> dict[str, set[int]]:
    """Give one set of used names for all suites whose class names may meet, as in ``a.b`` + ``c``, ``a`` + ``b.c``."""
    known = set(suites)
    shared: dict[str, set[int]] = {}
    for suite in sorted(suites, key=len):
        for at, character in enumerate(suite):
            if character == "." and suite[:at] in known:
                shared[suite] = shared.setdefault(suite[:at], set())
                break  # the shortest one: what begins with the others begins with it as well
    return shared


class _Out:
    """A stream with places that are filled in later."""

    def __init__(self, stream: IO[Any]) -> None:
        self._stream: IO[Any] = stream
        self._binary = not isinstance(stream, io.TextIOBase)
        if isinstance(stream, io.TextIOWrapper):
            stream.flush()
            self._stream, self._binary = stream.buffer, True  # text streams seek slowly

    def text(self, text: str) -> None:
        self._stream.write(text.encode() if self._binary else text)

    def head(self, start: str) -> int:
        """Begin an element, leave room for its totals, and give the place of that room."""
        self.text(start)
        place = self._stream.tell()
        self.text(" " * ROOM + ">\n")
        return place

    def fill(self, place: int, tests: Tests, seconds: float) -> None:
        """Write the totals into the room."""
        numbers = f'tests="{tests.cases}" failures="{tests.failures}" errors="{tests.errors}" skipped="{tests.skipped}"'
        end = self._stream.tell()
        self._stream.seek(place)
        self.text(f' {numbers} time="{seconds:.3f}"')
        self._stream.seek(end)

    def flush(self) -> None:
        self._stream.flush()


class _Suite:
    """Writes the suite of one item."""

    def __init__(self, out: _Out, item: ItemXml, name: str, used: set[int] | None, clean: Clean) -> None:
        self._out = out
        self._item = item
        self._name = name
        self._used = used
        self._clean = clean
        self._own = printable_name(clean(item.outcome.key.tag or item.outcome.key.suite))
        self._own_names: set[int] = set()  # those that the item's own case must avoid
        self._more = [(key, clean(value)) for key, value in case_properties(item).items()]

    def write(self, started: float | None, open_xml: Opener) -> Tests:
        """Write it whole and give its counts."""
        outcome, out = self._item.outcome, self._out
        stamp = ""
        if started is not None and outcome.start is not None and (when := utc(started + outcome.start)):
            stamp = f' timestamp="{when}"'
        head = out.head(f'<testsuite name="{_attribute(self._name)}"{stamp}')
        out.text(_properties(properties(self._item, self._clean).items()) + "\n")
        past = Past(self._item.earlier, open_xml, self._clean)
        cases = Cases(self._item.sources, open_xml, self._clean)
        self._write_cases(cases, past)
        tests = cases.tests
        own = past.told_last(own_case(self._item, cases, self._clean, past=past.waits))
        if own is not None:
            out.text(self._case(own._replace(name=self._own_name())))
            tests = _plus(tests, own.kind)
        out.text("</testsuite>\n")
        out.fill(head, tests, outcome.seconds)
        return tests

    def _write_cases(self, cases: Cases, past: Past) -> None:
        lines: list[str] = []
        prefix, last, place, special = _attribute(self._name), None, "", _SPECIAL.search
        more = bool(self._more)
        for case in cases:
            if past:
                case = past.told(case)  # noqa: PLW2901 - the same case with what it said before
            if self._used is not None:
                case = self._told_apart(case)  # noqa: PLW2901 - the same case under the name it gets here
            classname, name, seconds, kind, _, _, _, attributes, children = case
            if not classname and name.startswith(self._own):
                self._own_names.add(hash(name))
            if kind or attributes or children or more:
                lines.append(self._case(case))
            else:  # nearly all of them
                if classname != last:
                    last, place = classname, f"{prefix}.{_attribute(classname)}" if classname else prefix
                time = "" if seconds is None else f' time="{seconds:.3f}"'
                shown = _attribute(name) if special(name) else name
                lines.append(f'<testcase classname="{place}" name="{shown}"{time}/>\n')
            if len(lines) >= _BATCH:
                self._out.text("".join(lines))
                lines.clear()
        self._out.text("".join(lines))

    def _told_apart(self, case: Case) -> Case:
        assert self._used is not None
        place = f"{self._name}.{case.classname}" if case.classname else self._name
        name, number = case.name, 1
        while (key := hash((place, name))) in self._used:
            number += 1
            name = f"{case.name} [{number}]"
        self._used.add(key)
        return case if number == 1 else case._replace(name=name)

    def _own_name(self) -> str:
        base = name = self._own
        number = 1
        while hash(name) in self._own_names or (self._used is not None and hash((self._name, name)) in self._used):
            name = f"{base} (item)" if number == 1 else f"{base} (item {number})"
            number += 1
        if self._used is not None:
            self._used.add(hash((self._name, name)))
        return name

    def _case(self, case: Case) -> str:
        place = f"{self._name}.{case.classname}" if case.classname else self._name
        attributes = [("classname", place), ("name", case.name)]
        if case.seconds is not None:
            attributes.append(("time", f"{case.seconds:.3f}"))
        children = case.children
        if self._more:
            children = tuple(child for child in children if child.tag != "properties")
            known = (one for child in case.children if child.tag == "properties" for one in child)
            pairs = [(one.get("name", ""), one.get("value", one.text or "")) for one in known]
            told = _properties([*(pair for pair in pairs if pair[0] not in _OURS), *self._more])
        else:
            told = ""
        inner = _result(case) + told + "".join(map(_element, children))
        return _tag("testcase", (*attributes, *case.attributes), inner) + "\n"


def _plus(tests: Tests, kind: str) -> Tests:
    return Tests(
        tests.cases + 1,
        tests.failures + (kind == "failure"),
        tests.errors + (kind == "error"),
        tests.skipped + (kind == "skipped"),
    )


def _properties(pairs: Iterable[tuple[str, str]]) -> str:
    inner = "".join(_tag("property", (("name", name), ("value", value)), "") for name, value in pairs)
    return f"<properties>{inner}</properties>"


# -- XML as text --------------------------------------------------------------------------------------


def _result(case: Case) -> str:
    if not case.kind:
        return ""
    attributes = [("message", case.message)] + ([("type", case.type)] if case.type else [])
    return _tag(case.kind, attributes, _content(case.text))


def _element(element: Element) -> str:
    """Write an element as it was read. Its names have no prefix any more, so no namespace is missed."""
    if element.tag in _ELSEWHERE:
        return ""
    inner = _content(element.text or "") + "".join(_element(child) + _content(child.tail or "") for child in element)
    return _tag(element.tag, element.attrib.items(), inner)


def _tag(tag: str, attributes: Iterable[tuple[str, str]], inner: str) -> str:
    pairs = "".join(f' {name}="{_attribute(value)}"' for name, value in attributes)
    return f"<{tag}{pairs}>{inner}</{tag}>" if inner else f"<{tag}{pairs}/>"


def _attribute(value: str) -> str:
    if not (value.isascii() and value.isprintable() and len(value) <= ATTRIBUTE_LIMIT):
        value = printable(value[:ATTRIBUTE_LIMIT], multiline=True)
    if _SPECIAL.search(value):
        for character, written in _WRITTEN:
            value = value.replace(character, written)
    return value


def _content(text: str) -> str:
    """Write text between tags: printable, the lines kept."""
    if not text:
        return ""
    return printable(text, multiline=True).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
