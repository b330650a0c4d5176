"""Durations as people write them, and the deadline of each item."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_sgpu.core.limits import UNKNOWN_DEADLINE, Limits, parse_duration, parse_limit, parse_timeout
from pytest_sgpu.model import UNKNOWN, Estimate


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90.0),
        ("0", 0.0),
        ("0.5", 0.5),
        ("90s", 90.0),
        ("15m", 900.0),
        ("1h30m", 5400.0),
        ("1h", 3600.0),
        ("2m30", 150.0),
        ("1h1s", 3601.0),
        ("1.5h", 5400.0),
        ("8784h", 366 * 86400.0),
    ],
)
def test_durations(text, seconds):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "x", "-1", "+1", "1 m", "m", "h", "1m1h", "1hh", "1d", "1e3", "nan", "inf", "0x10", "1_000", "1,5"),
        *(".5", "5.", "\u0663", "\u00b2", "1\n", "1h30m20s5", "9" * 400, "0.00000001", "1" * 10),
    ],
)
def test_what_is_no_duration_is_named_with_what_is_expected(text):
    with pytest.raises(ValueError, match="expected seconds") as caught:
        parse_duration(text)
    assert "'" in str(caught.value)
    assert len(str(caught.value)) < 250


def test_more_than_a_year_is_a_slip():
    with pytest.raises(ValueError, match="'8785h' is more than a year"):
        parse_duration("8785h")


def test_a_limit_is_never_nothing():
    assert parse_limit("0.001") == 0.001
    for text in ("0", "0s", "0h0m0s", "0.0"):
        with pytest.raises(ValueError, match="more than 0 s"):
            parse_limit(text)


@pytest.mark.parametrize(
    ("text", "limits"),
    [
        ("300", Limits(timeout=300.0)),
        ("5m", Limits(timeout=300.0)),
        ("auto", Limits(auto=True, unknown=UNKNOWN_DEADLINE)),
        ("auto,900", Limits(auto=True, unknown=900.0)),
        ("auto,1h", Limits(auto=True, unknown=3600.0)),
    ],
)
def test_timeouts(text, limits):
    assert parse_timeout(text) == limits


@pytest.mark.parametrize(
    "text", ["", "Auto", "auto,", "auto,0", "auto,x", "auto,auto", "900,auto", "1,2", "autoo", "0"]
)
def test_what_is_no_timeout(text):
    with pytest.raises(ValueError, match="expected"):
        parse_timeout(text)


def test_the_other_forms_of_a_timeout_are_named():
    with pytest.raises(ValueError, match="or auto, or auto,SECONDS"):
        parse_timeout("soon")


KNOWN = Estimate(200.0, known=True)


@pytest.mark.parametrize(
    ("limits", "estimate", "deadline"),
    [
        (Limits(), KNOWN, None),
        (Limits(), UNKNOWN, None),
        (Limits(timeout=7.0), KNOWN, 7.0),
        (Limits(timeout=7.0), UNKNOWN, 7.0),
        (Limits(auto=True), KNOWN, 600.0),
        (Limits(auto=True), Estimate(5.0, known=True), 300.0),
        (Limits(auto=True), UNKNOWN, UNKNOWN_DEADLINE),
        (Limits(auto=True, unknown=60.0), UNKNOWN, 60.0),
        (Limits(auto=True, unknown=60.0), Estimate(500.0, known=False), 60.0),  # a guess is no weight
        (Limits(auto=True, unknown=60.0), Estimate(None, known=True), 60.0),
    ],
)
def test_deadlines(limits, estimate, deadline):
    assert limits.deadline(estimate) == deadline


@given(st.text())
def test_any_text_is_a_duration_or_a_sentence(text):
    try:
        seconds = parse_duration(text)
    except ValueError as error:
        told = str(error)
    else:
        told, within = "expected seconds", 0 <= seconds <= 366 * 86400
        assert within
    assert "expected seconds" in told


@given(st.integers(0, 99), st.integers(0, 59), st.integers(0, 59))
def test_parts_add_up(hours, minutes, seconds):
    assert parse_duration(f"{hours}h{minutes}m{seconds}s") == hours * 3600 + minutes * 60 + seconds
