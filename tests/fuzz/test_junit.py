"""JUnit files that are damaged: no case lost before the damage, no pass from nowhere, and an aggregate that counts."""

from __future__ import annotations

import io
import math
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from pytest_sgpu.core.text import is_plain
from pytest_sgpu.model import Estimate, JUnitFacts, Key, Outcome, Status, Tests
from pytest_sgpu.report.junit_read import Cases, facts
from pytest_sgpu.report.junit_write import ItemXml, write
from tests.fuzz.conftest import COUNTS, Dice, fuzz

HEAD = b'<?xml version="1.0" encoding="utf-8"?>\n'
CASES = (
    b'<testcase classname="m.n" name="plain" time="0.5"/>',
    (
        b'<testcase classname="m.n" name="caf\xc3\xa9[a&lt;b]" time="1,234.5">'
        b"<system-out>out &#27; <![CDATA[<x>]]></system-out></testcase>"
    ),
    (
        b'<testcase classname="m" name="fails" file="t.py" line="3">'
        b'<failure message="assert 1 == 2&#10;x" type="T">text</failure></testcase>'
    ),
    b'<testcase classname="m" name="errs"><error message="boom"/><failure message="also"/></testcase>',
    b'<testcase classname="m" name="skips" time="-1"><skipped message="no GPU"/></testcase>',
    b'<testcase classname="m" name="plain" time="0.1"><properties><property name="p"/></properties></testcase>',
    b'<testcase classname="m" name="plain"><error message="failed on teardown with &quot;x&quot;"/></testcase>',
    b'<testcase name="" status="notrun"/>',
    b'<testcase classname="m" name="plain" time="nan"></testcase>',
)
SEEDS = (
    HEAD
    + b'<testsuites><testsuite name="pytest" tests="9" failures="1" errors="2">\n'
    + b"\n".join(CASES)
    + b"\n</testsuite></testsuites>\n",
    b"<testsuite>" + b"".join(CASES[:3]) + b"<testsuite name='inner'>" + CASES[3] + b"</testsuite></testsuite>",
    '<?xml version="1.0" encoding="iso-8859-1"?><testsuite><testcase name="caf\xe9"/></testsuite>'.encode("latin-1"),
    '<testsuite tests="1"><testcase name="wide"/></testsuite>'.encode("utf-16"),
    b'<j:testsuite xmlns:j="u"><j:testcase name="a"/><j:testcase name="b"><j:failure/></j:testcase></j:testsuite>',
)
OTHERS = (
    *CASES,
    b'<!DOCTYPE x [<!ENTITY a "aaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]><testsuite><testcase name="&b;"/></testsuite>',
    b'<!DOCTYPE x SYSTEM "http://localhost/x.dtd"><testsuite/>',
    b'<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]><testsuite><testcase name="&e;"/></testsuite>',
    b'<!DOCTYPE x [<!ENTITY % p SYSTEM "file:///etc/passwd"> %p;]><testsuite/>',
    b'<?xml version="1.0" encoding="utf-7"?><testsuite/>',
    b'<?xml version="1.1"?><testsuite><testcase name="&#1;"/></testsuite>',
    b"<testcase>" * 150,
    b"<testsuite>" * 150,
    b"<testcase name='x'>" + b"<a>" * 150,
    b"<html><body>502 Bad Gateway</body></html>",
    b"Traceback (most recent call last):\n",
)
TAGS = (
    "testsuites",
    "testsuite",
    "testcase",
    "failure",
    "error",
    "skipped",
    "system-out",
    "properties",
    "x:y",
    "rerunFailure",
)
ATTRIBUTES = (
    "name",
    "classname",
    "time",
    "tests",
    "failures",
    "message",
    "type",
    "status",
    "xmlns",
    "xmlns:j",
    "xml:lang",
)


def _tree(dice: Dice, depth: int = 0) -> str:
    """Make XML that is well-formed more often than not, of the elements of JUnit in any order."""
    tag = dice.one(TAGS if depth else TAGS[:2] * 4 + TAGS)
    names = dice.random.sample(ATTRIBUTES, dice.random.randint(0, 4))
    values = (
        "",
        "a",
        "a",
        "1",
        "1e9",
        "nan",
        "0.5",
        "1,000.5",
        "teardown",
        "&lt;",
        "&#133;",
        "&#x202E;",
        "notrun",
        "u",
        "9" * 30,
    )
    attributes = "".join(f' {name}="{dice.one(values)}"' for name in names)
    count = 0 if depth > 5 else dice.one((0, 1, 2, 3))
    inner = "".join(
        dice.one(("", " text ", "<![CDATA[]]>", "&amp;", "<!-- c -->")) + _tree(dice, depth + 1) for _ in range(count)
    )
    return f"<{tag}{attributes}>{inner}</{tag}>"


def _source(dice: Dice) -> tuple[bytes, bytes]:
    """Give a document and what it was made from."""
    seed = dice.one((*SEEDS[:2], *SEEDS)) if not dice.chance(3) else _tree(dice).encode()
    return dice.mutated(seed, OTHERS) if not dice.chance(10) else seed, seed


def _read(data: bytes) -> tuple[list[Any], JUnitFacts]:
    reader = Cases([io.BytesIO(data)])
    cases = list(reader)
    found = facts([io.BytesIO(data)])
    assert (found.tests, found.damage, found.warnings) == (reader.tests, reader.damage, reader.warnings)
    return cases, found


@pytest.mark.parametrize("count", COUNTS)
def test_facts(count):
    fuzz("junit", count, _check_facts)


def _check_facts(dice: Dice) -> None:
    data, seed = _source(dice)
    dice.told = data
    cases, found = _read(data)
    assert found.files == 1
    assert found.tests == _counted(cases)
    assert is_plain(found.damage)
    assert all(is_plain(warning) for warning in found.warnings)
    assert len({(case.classname, case.name) for case in cases}) == len(cases)
    for case in cases:
        assert is_plain(case.classname)
        assert is_plain(case.name)
        assert case.name
        assert case.kind in {"", "failure", "error", "skipped"}
        assert case.seconds is None or (math.isfinite(case.seconds) and 0 <= case.seconds < 1e8)
    bad = [case for case in cases if case.bad]
    assert len(found.failing) == min(20, len(bad))
    assert all(is_plain(name) and is_plain(message) for name, message in found.failing)
    if cases or not found.damage:
        _check_prefix(data, seed, cases)


def _counted(cases: list[Any]) -> Tests:
    kinds = [case.kind for case in cases]
    return Tests(len(kinds), kinds.count("failure"), kinds.count("error"), kinds.count("skipped"))


def _check_prefix(data: bytes, seed: bytes, cases: list[Any]) -> None:
    """What stood whole before the first byte that changed is there, and a failure there is still one."""
    same = next((at for at, (one, other) in enumerate(zip(data, seed, strict=False)) if one != other), len(data))
    whole = seed[: min(same, len(seed))]
    if b"</testsuite>" in whole or not whole.isascii():
        return  # the rest may have become part of something else; other encodings have other ends
    before = _read(whole)[0]
    assert [case[:2] for case in cases[: len(before)]] == [case[:2] for case in before]
    for case, first in zip(cases, before, strict=False):
        assert case.kind or not first.kind


def test_a_name_that_is_none_without_its_prefix():
    """Found by these mutations: what is left of ``j:1x`` without its prefix cannot be written again."""
    odd = b'<testsuite><testcase name="a"><j:1x/><j:-/><j:\xe3\x80\x85/><j:ok/></testcase></testsuite>'
    stream = io.BytesIO()
    write(stream, [ItemXml(Outcome(Key("s", "t"), Status.PASSED, 0, 0.0, 1.0, proof="junit"), [io.BytesIO(odd)])])
    (case,) = ET.fromstring(stream.getvalue()).iter("testcase")
    assert [child.tag for child in case] == ["_1x", "_-", "_\u3005", "ok"]


@pytest.mark.parametrize("count", COUNTS)
def test_aggregate(count):
    fuzz("aggregate", count, _check_aggregate)


def _outcome(dice: Dice, key: Key, found: JUnitFacts) -> Outcome:
    status = dice.one(tuple(Status))
    started = status not in {Status.NOT_RUN, Status.SETUP_FAILED}
    return Outcome(
        key,
        status,
        dice.one((0, 1, -9, None)),
        0.5 if started else None,
        dice.one((0.5, 2.0, 1e9)) if started else None,
        devices=dice.one(((), ("gpu0",), ("gpu\x1b0", "gpu1"))),
        reason=dice.one(("", "exit code 1", "]]> & \x00 \udc80 <a>\n\n", "x" * 3000)),
        proof=dice.one(("", "junit", "ran", "allowed")),
        estimate=dice.one((Estimate(None, known=False), Estimate(2.5, known=True))),
        junit=found,
        flaky_fails=dice.chance(2),
    )


def _check_aggregate(dice: Dice) -> None:
    tags = dice.one((("a",), ("a", "a.b", ""), ("\x1b", "\\x1b", "caf\u00e9 \udc80")))
    items, passes = [], 0
    for tag in tags:
        sources = [_source(dice)[0] for _ in range(dice.one((0, 1, 1, 2)))]
        found = facts([io.BytesIO(data) for data in sources])
        outcome = _outcome(dice, Key("torch", tag), found if dice.chance(2) else JUnitFacts())
        tail = dice.mutated(b"last words\n", OTHERS)
        items.append(ItemXml(outcome, [io.BytesIO(data) for data in sources], tail=tail, log=dice.one(("", "l\x00og"))))
        tests = found.tests
        passes += tests.cases - tests.bad - tests.skipped + (not tests.cases and not outcome.failed)
    dice.told = [(item.outcome, [source.getvalue() for source in item.sources], item.tail) for item in items]  # type: ignore[union-attr]
    stream = io.BytesIO()
    total = write(stream, items, started=dice.one((None, 1.7e9)))
    root = ET.fromstring(stream.getvalue())
    suites = list(root)
    assert [suite.tag for suite in suites] == ["testsuite"] * len(items)
    assert len({suite.get("name") for suite in suites}) == len(items)
    assert _claimed(root) == _elements(root) == total
    for suite, item in zip(suites, items, strict=True):
        assert _claimed(suite) == _elements(suite)
        assert _claimed(suite).bad or not item.outcome.failed
        assert suite.findall("testcase") == list(suite.iter("testcase"))  # none inside another
    named = [(case.get("classname"), case.get("name")) for case in root.iter("testcase")]
    assert len(set(named)) == len(named)
    assert total.cases - total.bad - total.skipped <= passes
    assert total.cases >= len(items)


def _claimed(element: ET.Element) -> Tests:
    return Tests(*(int(element.attrib[name]) for name in ("tests", "failures", "errors", "skipped")))


def _elements(element: ET.Element) -> Tests:
    """Count anew, with a reader that shares no code with the writer."""
    results = [
        [child.tag for child in case if child.tag in {"failure", "error", "skipped"}]
        for case in element.iter("testcase")
    ]
    assert all(len(one) <= 1 for one in results)
    kinds = [one[0] for one in results if one]
    assert len(kinds) == sum(1 for child in element.iter() if child.tag in {"failure", "error", "skipped"})
    return Tests(len(results), kinds.count("failure"), kinds.count("error"), kinds.count("skipped"))
