"""JUnit files without their words: the same tests with the same results, and nothing that they said."""

from __future__ import annotations

import io

import pytest

from pytest_sgpu.core.redact import Redactor, unchanged
from pytest_sgpu.report import junit_bare
from pytest_sgpu.report.junit_read import Cases

BODY = """<testsuites><testsuite name="canary">
<properties><property name="canary" value="canary"/></properties>
<testcase classname="m&lt;1&gt;" name="a &amp; &quot;b&quot;" time="0.5"><system-out>canary</system-out></testcase>
<testcase classname="m" name="c" file="canary"><failure message="canary" type="canary">canary</failure></testcase>
<testcase classname="m" name="d"><error message="canary">canary</error></testcase>
<testcase classname="m" name="d"><skipped message="canary"/><properties><property name="canary" value="canary"/>
</properties></testcase>
</testsuite></testsuites>"""


def bare(body: str, clean=unchanged) -> bytes:
    with junit_bare.opener(lambda _: io.BytesIO(body.encode()), clean)("x.xml") as stream:
        return stream.read()


def rows(body: str | bytes) -> tuple[list[tuple[object, ...]], Cases]:
    reader = Cases([io.BytesIO(body.encode() if isinstance(body, str) else body)])
    return [(case.classname, case.name, case.seconds, case.kind) for case in reader], reader


def test_tests_times_and_results_are_the_same_and_no_word_is_left():
    made = bare(BODY)
    assert b"canary" not in made
    (before, whole), (after, less) = rows(BODY), rows(made)
    assert len(before) == 4
    assert after == before
    assert less.tests == whole.tests
    assert less.damage == ""


def test_what_is_damaged_is_so_still():
    cut = BODY[: BODY.index('<testcase classname="m" name="d"')]
    (before, whole), (after, less) = rows(cut), rows(bare(cut))
    assert after == before
    assert len(after) == 2
    assert whole.damage
    assert less.damage


def test_known_secrets_are_out_of_the_names():
    clean = Redactor({"A_TOKEN": "hunter22"}).text
    assert b'name="t[***]"' in bare('<testsuite><testcase classname="m" name="t[hunter22]"/></testsuite>', clean)


def test_it_is_read_in_pieces_of_any_size():
    opened = junit_bare.opener(lambda _: io.BytesIO(BODY.encode()), unchanged)("x.xml")
    with opened:
        pieces = list(iter(lambda: opened.read(7), b""))
    assert b"".join(pieces) == bare(BODY)
    assert {len(piece) for piece in pieces[:-1]} == {7}


def test_what_cannot_be_opened_is_told_as_ever():
    def refuse(_):
        raise PermissionError(13, "Permission denied")

    with pytest.raises(PermissionError):
        junit_bare.opener(refuse, unchanged)("x.xml")
