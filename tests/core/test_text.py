"""Text from elsewhere, made safe to show."""

from __future__ import annotations

import sys
import time
import unicodedata
import xml.etree.ElementTree as ET
from xml.sax.saxutils import escape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_sgpu.core import text

ANY = st.text(alphabet=st.characters()) | st.binary() | st.text(alphabet="a\\\x1b\r\n\t\x85\u2028\ud800\udcff\ufffe")


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("plain\ttext é 漢 🙂", "plain\ttext é 漢 🙂"),
        ("\x1b[31mred\x07", r"\x1b[31mred\x07"),
        ("a\nb\r", r"a\x0ab\x0d"),
        ("\x00\x7f\x85\x9b", r"\x00\x7f\x85\x9b"),
        ("\u2028\u2029\u202e\u2066\ufeff\u200b\ufffe\uffff", r"\u2028\u2029\u202e\u2066\ufeff\u200b\ufffe\uffff"),
        ("\ud800\udfff", r"\ud800\udfff"),
        ("\udc80\udcff", r"\x80\xff"),
        ("\U000e0041", r"\U000e0041"),
        (b"ok \xff\xc3\xa9 \x9b", r"ok \xffé \x9b"),
        (b"\xed\xa0\x80", r"\xed\xa0\x80"),
        ("C:\\x1b", "C:\\x1b"),
    ],
)
def test_what_is_hidden_becomes_visible(raw, shown):
    assert text.printable(raw) == shown


def test_multiline_keeps_line_ends_only():
    assert text.printable("a\r\nb\rc\n\u2028\n", multiline=True) == "a\nb\\x0dc\n\\u2028\n"


def test_long_lines_are_cut_with_a_note():
    cut = text.printable("x" * 200_030)
    assert len(cut) == 2000
    assert cut.endswith(" characters cut]")
    kept = cut.count("x")
    assert f" ... [{200_030 - kept} characters cut]" in cut
    assert text.printable("x" * 2000) == "x" * 2000


def test_no_escape_is_cut_in_two():
    cut = text.printable("\x1b" * 100, 41)
    assert cut == r"\x1b\x1b\x1b\x1b" + " ... [96 characters cut]"
    assert text.printable("\x1b" * 10, 40) == r"\x1b" * 10
    assert text.printable("ab" * 50, 3) == " ... [100 characters cut]"


def test_a_long_hostile_text_is_fast():
    start = time.perf_counter()
    text.printable("\x1b" * 1_000_000)
    text.printable("x" * 5_000_000)
    text.printable(b"\xff" * 200_000, multiline=True)
    text.printable("line\n" * 200_000, multiline=True)
    assert time.perf_counter() - start < 5  # a quarter of a second; linear is what counts


def test_one_line():
    assert text.one_line("  two\r\n  lines \t\x1b ") == r"two lines \x1b"
    assert len(text.one_line("word " * 1000)) == 200


def test_shown():
    assert text.shown("a\x1b") == r"'a\x1b'"


def test_quoted_lines_give_no_orders():
    assert text.quoted("::error::x\n\r::add-mask::y\n") == "  | ::error::x\n  | \\x0d::add-mask::y"
    assert text.quoted("a\n\nb\n\n") == "  | a\n  | \n  | b\n  | "
    assert text.quoted("") == ""
    assert len(text.quoted("x" * 9999)) == 2000


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("a ##[error]b", r"a #\x23[error]b"),
        ("###[error]", r"##\x23[error]"),
        ("##[error]##[group]", r"#\x23[error]#\x23[group]"),
        ("##vso[task.x]y ##teamcity[z", r"#\x23vso[task.x]y #\x23teamcity[z"),
        ("## [x] ##a b[ ## head", "## [x] ##a b[ ## head"),
    ],
)
def test_no_order_in_the_middle_of_a_line(raw, shown):
    assert text.printable(raw) == text.one_line(raw) == shown
    assert text.quoted(raw) == f"  | {shown}"
    assert text.printable(shown) == shown
    assert text.is_plain(raw) == (raw == shown)


def test_is_plain():
    assert text.is_plain("test_numerics.ck\t" * 1000)
    assert not text.is_plain("a\x85")


def test_nothing_that_nobody_sees_stays():
    """All of Unicode: controls, what steers the direction, what has no width, fillers and selectors."""
    seen = frozenset(range(0x600, 0x606)) | {0x6DD, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD}  # signs before numbers
    unseen = {0x34F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x180B, 0x180F, 0x3164, 0xFFA0, 0xFE00, 0xFE0F, 0xE0100, 0xE01EF}
    hidden = {ord("\n"), *unseen}
    for code in range(sys.maxunicode + 1):
        if unicodedata.category(chr(code)) in ("Cc", "Cf", "Cs", "Zl", "Zp"):
            hidden.add(code)
    for code in hidden - seen - {ord("\t")}:
        assert not text.is_plain(chr(code)), hex(code)
    for code in (*seen, ord("\t"), 0x20, 0xE9, 0x300, 0x4E00, 0x1F600):
        assert text.is_plain(chr(code)), hex(code)


def test_bytes_and_text_become_text():
    assert text.decoded(b"a\xff") == "a\udcff"
    assert text.decoded("a") == "a"


def test_counted():
    assert [text.counted(count, "item") for count in (0, 1, 2)] == ["0 items", "1 item", "2 items"]


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0.0, "0.0s"),
        (0.04, "0.0s"),
        (-0.04, "0.0s"),
        (-2.0, "-2.0s"),
        (12.34, "12.3s"),
        (59.94, "59.9s"),
        (59.96, "1m00s"),
        (243.4, "4m03s"),
        (3599.6, "1h00m00s"),
        (6935.0, "1h55m35s"),
        (-90.0, "-1m30s"),
        (360000.0, "100h00m00s"),
        (float("nan"), "?"),
        (float("inf"), "?"),
    ],
)
def test_duration(seconds, shown):
    assert text.duration(seconds) == shown


@given(ANY, st.integers(40, 200), st.booleans())
def test_printable_is_valid_everywhere_and_settles(raw, limit, multiline):
    shown = text.printable(raw, limit, multiline=multiline)
    assert text.printable(shown, limit, multiline=multiline) == shown
    assert shown.isprintable() or text.is_plain(shown.replace("\n", ""))
    assert multiline or "\n" not in shown
    assert max(map(len, shown.split("\n"))) <= limit
    root = ET.fromstring(f"<a>{escape(shown)}</a>".encode())
    assert (root.text or "") == shown


@given(ANY)
def test_quoted_puts_the_sign_before_every_line(raw):
    quoted = text.quoted(raw)
    assert all(line.startswith("  | ") for line in quoted.splitlines())


@given(st.floats())
def test_duration_takes_any_number(seconds):
    assert text.duration(seconds)


@given(ANY)
def test_one_line_is_one_line(raw):
    assert len(text.one_line(raw).splitlines()) <= 1
