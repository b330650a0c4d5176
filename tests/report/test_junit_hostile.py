"""JUnit files that were made to do harm: told as damage, in bounded memory and time, and nothing else is opened."""

from __future__ import annotations

import encodings.aliases
import io
import subprocess
import sys
import time
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_sgpu.core.redact import Redactor
from pytest_sgpu.model import Key, Outcome, Status, Tests
from pytest_sgpu.report import junit_read, junit_xml
from pytest_sgpu.report.junit_read import Cases, facts
from pytest_sgpu.report.junit_write import ItemXml, write

ONE = b'<testcase classname="m" name="a"/>'
MIB = 1 << 20
ROOT = str(Path(__file__).parents[2])


def of(*bodies: bytes):
    return facts([io.BytesIO(body) for body in bodies])


# ---------------------------------------------------------------- entities and document types

BOMB = b"".join(b'<!ENTITY l%d "%s">' % (n, b"&l%d;" % (n - 1) * 10) for n in range(1, 10))
REFUSED = {
    "a billion laughs": b'<!DOCTYPE x [<!ENTITY l0 "ha">' + BOMB + b"]><testsuite><testcase name='&l9;'/></testsuite>",
    "one long entity": b'<!DOCTYPE x [<!ENTITY a "' + b"a" * 60_000 + b'">]><testsuite>' + b"&a;" * 60_000,
    "an external entity": b'<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]><testsuite><testcase name="&e;"/>',
    "a parameter entity": b"<!DOCTYPE x [<!ENTITY % p \"<!ENTITY q 'r'>\"> %p;]><testsuite/>",
    "an external parameter entity": b'<!DOCTYPE x [<!ENTITY % p SYSTEM "http://127.0.0.1:1/x"> %p;]><testsuite/>',
    "an unparsed entity": b'<!DOCTYPE x [<!NOTATION n SYSTEM "n"><!ENTITY e SYSTEM "f" NDATA n>]><testsuite/>',
    "an external document type": b'<!DOCTYPE testsuite SYSTEM "http://127.0.0.1:1/x.dtd"><testsuite/>',
    "a public document type": b'<!DOCTYPE testsuite PUBLIC "-//a" "file:///etc/passwd"><testsuite/>',
    "a large default": b'<!DOCTYPE x [<!ATTLIST testcase z CDATA "' + b"z" * MIB + b'">]><testsuite>' + ONE * 9,
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_would_grow_or_open_something_is_refused_and_opens_nothing(name):
    """In a process that says so whenever a file or a socket is opened."""
    script = (
        "import sys\n"
        "from pytest_sgpu.report.junit_read import facts\n"
        "body = sys.stdin.buffer\n"
        "opened = []\n"
        "sys.addaudithook(lambda event, args: event in ('open', 'socket.connect', 'socket.getaddrinfo',"
        " 'subprocess.Popen') and opened.append((event, args)))\n"
        "found = facts([body])\n"
        "assert not opened, opened\n"
        "print(found.tests.cases, found.damage)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], input=REFUSED[name], capture_output=True, cwd=ROOT, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout.decode().startswith("0 ")
    assert "which is not read" in done.stdout.decode() or "which are not read" in done.stdout.decode()


def test_an_entity_that_nobody_declared_is_damage():
    assert "undefined entity" in of(b"<testsuite>" + ONE + b"<testcase name='&x;'/></testsuite>").damage
    outside = b"<!DOCTYPE testsuite [ %undeclared; ]><testsuite>" + ONE + b"</testsuite>"
    assert (of(outside).tests.cases, of(outside).damage) == (1, "")


# ---------------------------------------------------------------- encodings


def encoded(name: str, encoding: str, declared: str | None = None) -> bytes:
    declared = declared if declared is not None else encoding
    text = f'<?xml version="1.0" encoding="{declared}"?><testsuite><testcase name="{name}"/></testsuite>'
    return text.encode(encoding)


def test_encodings_that_are_what_they_say():
    for encoding, name in (
        ("utf-16", "caf\xe9 \u221e"),
        ("iso-8859-1", "caf\xe9"),
        ("koi8-r", "\u0442\u0435\u0441\u0442"),
    ):
        (case,) = Cases([io.BytesIO(encoded(name, encoding))])
        assert case.name == name
    (case,) = Cases([io.BytesIO(encoded("\u221e", "utf-16-le", "utf-16").join((b"\xff\xfe", b"")))])
    assert case.name == "\u221e"


@pytest.mark.parametrize(
    ("body", "damage"),
    [
        (encoded("caf\xe9", "iso-8859-1", "utf-8"), "byte 0xe9, which is no UTF-8"),
        (encoded("cafe", "ascii", "utf-16"), "not XML: encoding specified in XML declaration is incorrect"),
        (encoded("cafe", "utf-16", "utf-8"), "not XML: encoding specified in XML declaration is incorrect"),
        (encoded("cafe", "utf-16")[:61], "cut off before the first whole case"),
        (encoded("cafe", "ascii", "zlib_codec"), "not XML: it names an encoding that cannot be read"),
        (encoded("cafe", "ascii", "utf-7"), "not XML: it names an encoding that cannot be read"),
        (encoded("cafe", "ascii", "x" * 5000), "not XML: it names an encoding that cannot be read"),
        (encoded("cafe", "utf-32"), "not XML: control byte 0x00"),
    ],
)
def test_a_wrong_declaration_is_damage(body, damage):
    found = of(body)
    assert found.tests.cases == 0
    assert found.damage.startswith(damage)


def test_no_name_of_an_encoding_raises():
    for name in {*encodings.aliases.aliases, *encodings.aliases.aliases.values(), "idna", "undefined", "mbcs", "oem"}:
        of(encoded("a", "ascii", name))


# ---------------------------------------------------------------- broken, mixed, repeated

WHOLE = (
    b"<testsuites><testsuite>" + ONE + b'<testcase name="b"><failure message="no">t</failure></testcase></testsuite>'
)


@given(st.lists(st.integers(1, 40), min_size=1, max_size=20))
def test_two_writers_in_one_file(sizes):
    """Pieces of two files take turns, as when two processes write at once."""
    pieces, sides = [], [WHOLE + b"</testsuites>", WHOLE.replace(b'"a"', b'"c"') + b"</testsuites>"]
    for at, size in enumerate(sizes * 10):
        pieces.append(sides[at % 2][:size])
        sides[at % 2] = sides[at % 2][size:]
    found = of(b"".join(pieces) + sides[0] + sides[1])
    assert found.damage


@given(st.integers(0, len(WHOLE)), st.binary(min_size=1, max_size=8))
def test_any_bytes_in_the_middle(at, junk):
    body = WHOLE[:at] + junk + WHOLE[at:] + b"</testsuites>"
    found = of(body)
    assert found.tests.cases <= 4
    out = io.BytesIO()
    write(out, [ItemXml(Outcome(Key("a", "b"), Status.FAILED, 1), [io.BytesIO(body)])])
    ET.fromstring(out.getvalue())


@pytest.mark.parametrize("byte", [b"\0", b"\x1b[31m", b"\x7f", b"\xc2\x9b", "\u202e".encode(), "\u200b".encode()])
def test_control_bytes_are_damage_or_shown_as_signs(byte):
    name = (
        b"<testsuite><testcase name='a"
        + byte
        + b"'><failure message='m"
        + byte
        + b"'>t"
        + byte
        + b"</failure></testcase>"
    )
    out = io.BytesIO()
    write(out, [ItemXml(Outcome(Key("a", "b"), Status.FAILED, 1), [io.BytesIO(name + b"</testsuite>")])])
    raw = byte.strip(b"[31m") or byte
    assert raw not in out.getvalue()
    found = of(name + b"</testsuite>")
    assert found.damage or all("\\" in said for pair in found.failing for said in pair)


def test_the_signs_for_references_to_characters_nobody_may_write():
    assert "reference to invalid character number" in of(b"<testsuite><testcase name='&#0;'/></testsuite>").damage
    assert "invalid character number" in of(b"<testsuite><testcase name='&#x1b;'/></testsuite>").damage


# ---------------------------------------------------------------- limits


def test_a_tag_that_is_too_large_is_damage_and_what_stood_before_it_is_kept():
    for start in (b"<testcase name='", b"<!--", b"<?p ", b"<testcase "):
        found = of(b"<testsuite>" + ONE + start + b"x" * (junit_xml.MAX_TAG + MIB))
        assert found.tests.cases == 1
        assert found.damage == "a tag, comment or declaration is larger than 4 MiB, after 1 whole case"
    assert of(b"<testsuite>" + ONE + b"<!--" + b"x" * 3 * MIB + b"--></testsuite>").damage == ""


def test_a_tag_below_the_limit_is_read_and_cut():
    body = b'<testsuite><testcase name="' + b"n" * 3 * MIB + b'" k="v"><failure message="' + b"m" * 3 * MIB + b'"/>'
    (case,) = Cases([io.BytesIO(body + b"</testcase></testsuite>")])
    assert len(case.name) <= 2000
    assert len(case.message) == junit_xml.MAX_TEXT
    assert case.attributes == (("k", "v"),)


def test_what_attributes_and_texts_of_one_case_hold_together_is_limited():
    inner = b"".join(b'<a x="' + b"y" * 300_000 + b'" z="w">' + b"t" * 300_000 + b"</a>" for _ in range(20))
    (case,) = Cases([io.BytesIO(b"<testsuite><testcase name='n'>" + inner + b"</testcase></testsuite>")])
    kept = sum(len(child.text or "") + sum(map(len, child.attrib.values())) for child in case.children)
    assert kept < junit_xml.MAX_TEXT + 20 * 100
    assert "more character" in ET.tostring(case.children[2]).decode() + ET.tostring(case.children[3]).decode()


def test_too_many_elements_in_one_case_are_damage():
    found = of(b"<testsuite>" + ONE + b"<testcase name='b'>" + b"<a/>" * 10_001 + b"</testcase></testsuite>")
    assert (found.tests.cases, found.damage) == (1, "a test case has more than 10000 elements, after 1 whole case")


@pytest.mark.parametrize("start", [b"<testsuite>", b"<testsuite><testcase name='a'>"])
def test_a_hundred_thousand_levels(start):
    assert of(start + b"<testsuite>" * 100_000).damage == "elements are nested deeper than 100"
    assert of(start + b"<properties>" * 100_000).damage == "elements are nested deeper than 100"


def test_too_many_cases_and_too_many_bytes_are_damage(monkeypatch):
    monkeypatch.setattr(junit_read, "MAX_CASES", 1000)
    body = b"<testsuite>" + b"".join(b'<testcase name="%d"/>' % n for n in range(9000)) + b"</testsuite>"
    found = of(body, body)
    assert 1000 < found.tests.cases < 9000
    assert found.damage.count("test cases, what follows is not read") == 2
    monkeypatch.setattr(junit_xml, "MAX_BYTES", MIB)
    assert "larger than 1 MiB, what follows is not read" in of(b"<testsuite>" + b" " * 2 * MIB).damage


def test_too_many_files_are_damage_and_only_some_damages_are_told(monkeypatch):
    monkeypatch.setattr(junit_read, "MAX_FILES", 50)
    found = of(*[b""] * 60)
    assert found.files == 60
    assert found.damage.startswith("60 files, of which only 50 are read; empty file")
    assert found.damage.endswith("; and 41 more damaged files")
    odd = of(*[b"<testsuite><testcase/></testsuite>"] * 40).warnings
    assert (len(odd), odd[-1]) == (11, "and 30 more warnings")


def test_heavy_cases_are_not_held_back():
    """Two hundred cases of a mebibyte each: only some of them are in memory at a time."""

    def body():
        yield b"<testsuite>"
        for n in range(200):
            yield b'<testcase name="%d"><system-out>' % n + b"x" * (MIB - 100) + b"</system-out></testcase>"
        yield b"</testsuite>"

    class Pieces(io.BytesIO):
        left = iter(body())
        given = 0

        def read(self, _size: int | None = -1, /) -> bytes:
            Pieces.given += 1
            return next(self.left, b"")

    ahead = 0
    for number, _ in enumerate(Cases([Pieces()])):
        ahead = max(ahead, Pieces.given - number)
    assert ahead < 20


def test_a_million_errors_in_teardown_take_linear_time():
    again = b'<testcase name="t"><error message="failed on teardown"/></testcase>'
    many = b"".join(b'<testcase name="n%d"/>' % n for n in range(600))
    start = time.perf_counter()
    found = of(b"<testsuite>" + again + many + again * 20_000 + b"</testsuite>")
    assert found.tests == Tests(20_601, 0, 20_001)
    assert time.perf_counter() - start < 20  # half a second; linear is what counts


# ---------------------------------------------------------------- secrets


def test_secrets_leave_the_cases_before_names_are_compared_and_texts_are_cut():
    secret = "s3cr3t-s3cr3t"
    clean = Redactor({"A_TOKEN": secret, "B_TOKEN": "0ther-0ther-0ther"}).text
    body = (
        f'<testsuite><testcase classname="{secret}" name="t[{secret}]" k="{secret}"/>'
        f'<testcase classname="{secret}" name="t[0ther-0ther-0ther]"><failure message="{"x" * 195}{secret}">{secret}'
        f'</failure><system-out a="{secret}">{secret}<b/>{secret}</system-out></testcase></testsuite>'
    ).encode()
    cases = list(Cases([io.BytesIO(body)], clean=clean))
    assert [(case.classname, case.name) for case in cases] == [("***", "t[***]"), ("***", "t[***] [2]")]
    found = facts([io.BytesIO(body)], clean=clean)
    assert "s3cr" not in str(found)
    out = io.BytesIO()
    outcome = Outcome(Key("a", "b"), Status.CRASHED, 1, reason=f"died of {secret}")
    more = {"log": f"items/{secret}.log", "properties": {"p": secret}, "tail": f"end {secret}\n".encode()}
    write(out, [ItemXml(outcome, [io.BytesIO(body)], **more)], clean=clean)  # type: ignore[arg-type]
    text = out.getvalue().decode()
    assert secret not in text
    assert text.count("***") >= 10
    assert len({(case.get("classname"), case.get("name")) for case in ET.fromstring(text).iter("testcase")}) == 3


# ---------------------------------------------------------------- memory, measured

MEASURE = """
import io, resource, sys, time

from pytest_sgpu.model import Key, Outcome, Status
from pytest_sgpu.report.junit_read import facts
from pytest_sgpu.report.junit_write import ItemXml, write

class Made(io.RawIOBase):
    def __init__(self, pieces):
        self.pieces, self.rest = pieces, b""
    def read(self, size=-1):
        while len(self.rest) < size:
            piece = next(self.pieces, None)
            if piece is None:
                break
            self.rest += piece
        given, self.rest = self.rest[:size], self.rest[size:]
        return given

M = b"x" * (1 << 20)
W = chr(0x1F600).encode() * (1 << 18)

def text():
    yield b"<testsuite><testcase name='a'><system-out>"
    yield from [M] * 100
    yield b"</system-out></testcase><testcase name='b'/></testsuite>"

def cdata():
    yield b"<testsuite><testcase name='a'><failure message='m'><![CDATA["
    yield from [M] * 100
    yield b"]]></failure></testcase><testcase name='b'/></testsuite>"

def attribute():
    yield b"<testsuite><testcase name='b'/><testcase name='"
    yield from [M] * 50
    yield b"'/></testsuite>"

def message():
    yield b"<testsuite><testcase name='b'><failure message='"
    yield from [M] * 50
    yield b"'/></testcase></testsuite>"

def heavy():
    yield b"<testsuite>"
    for n in range(400):
        yield b"<testcase name='%d' k='" % n + W[:400000] + b"'><system-out>" + W[:800000] + b"</system-out></testcase>"
    yield b"</testsuite>"

def deep():
    yield from [b"<testsuite>" * 1000] * 100

def elements():
    yield b"<testsuite><testcase name='a'>"
    yield from [b"<a/>" * 10000] * 100

def million():
    yield b"<testsuite>"
    for n in range(1000):
        yield b"".join(b"<testcase classname='m%d' name='t%d' time='0.1'/>" % (n, k) for k in range(1000))
    yield b"</testsuite>"

shape = globals()[sys.argv[1]]
item = ItemXml(Outcome(Key("a", "b"), Status.FAILED, 1, 0.0, 1.0), [Made(shape())])
write(io.BytesIO(), [])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
begin = time.process_time()
found = facts([Made(shape())])
with open(sys.argv[2], "wb") as stream:
    write(stream, [item])
grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
print(found.tests.cases, grown // 1024, round(time.process_time() - begin, 1), found.damage)
"""

# shape: whole cases, mebibytes that the process may grow by. The file is up to 500 MB each.
SHAPES = {
    "text": (2, 60),
    "cdata": (2, 60),
    "attribute": (1, 60),
    "message": (0, 60),
    "heavy": (400, 120),
    "deep": (0, 30),
    "elements": (0, 60),
    "million": (1_000_000, 200),
}


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_memory_and_time_are_bounded(shape, tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, shape, str(tmp_path / "out.xml")],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    cases, grown, seconds, *_ = done.stdout.split(" ", 3)
    assert int(cases) == SHAPES[shape][0]
    assert int(grown) < SHAPES[shape][1], "mebibytes"
    assert float(seconds) < 120
