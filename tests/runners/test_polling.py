"""How long to wait until the next look."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_sgpu.runners.machine.polling import STEADY, next_look

TIMES = st.floats(0.0, 10_000.0)


def _looks(since, due, *, adaptive, waiting, takes=0.0):
    """Give the times of all looks of a phase."""
    now, looks = since, []
    while now < due:
        now = next_look(now, since, due, adaptive=adaptive, waiting=waiting)
        looks.append(now)
        now += takes
        assert len(looks) < 2000
    return looks


def test_r73_steady_is_one_look_a_minute():
    looks = _looks(100.0, 700.0, adaptive=False, waiting=True)
    assert looks == [100.0 + 60 * n for n in range(1, 11)]


def test_the_last_wait_is_shortened_to_the_deadline():
    assert next_look(690.0, 100.0, 700.0, adaptive=False, waiting=True) == 700.0
    assert next_look(640.0, 100.0, 700.0, adaptive=False, waiting=True) == 700.0
    assert next_look(639.0, 100.0, 700.0, adaptive=False, waiting=True) == 639.0 + STEADY


@pytest.mark.parametrize("waiting", [True, False])
@pytest.mark.parametrize("adaptive", [True, False])
def test_after_the_deadline_there_is_nothing_to_wait_for(adaptive, waiting):
    assert next_look(705.0, 100.0, 700.0, adaptive=adaptive, waiting=waiting) == 705.0


def test_adaptive_is_dense_first_and_before_the_deadline_and_sparse_between():
    looks = _looks(0.0, 3600.0, adaptive=True, waiting=True)
    gaps = [b - a for a, b in zip([0.0, *looks], looks, strict=False)]
    assert gaps[:3] == [15.0, 15.0, 22.0]
    assert max(gaps) == 180.0
    assert gaps == [*sorted(gaps[:10]), *gaps[10:]], "further and further from the begin"
    assert gaps[10:] == sorted(gaps[10:], reverse=True), "nearer and nearer to the deadline"
    assert len([look for look in looks if look >= 3480.0]) >= 4
    assert looks[-1] == 3600.0


def test_adaptive_execution_has_no_dense_end():
    looks = _looks(0.0, 10_800.0, adaptive=True, waiting=False)
    assert looks[-1] - looks[-2] > 60.0


def test_adaptive_costs_less_than_steady_in_a_long_queue():
    steady = _looks(0.0, 3600.0, adaptive=False, waiting=True)
    adaptive = _looks(0.0, 3600.0, adaptive=True, waiting=True)
    assert len(steady) == 60
    assert len(adaptive) <= 30


@given(st.floats(1.0, 7200.0), st.floats(0.0, 20.0))
def test_r74_adaptive_never_costs_more_than_steady(queue, takes):
    steady = _looks(50.0, 50.0 + queue, adaptive=False, waiting=True, takes=takes)
    adaptive = _looks(50.0, 50.0 + queue, adaptive=True, waiting=True, takes=takes)
    assert len(adaptive) <= len(steady)


@given(st.floats(1.0, 7200.0), st.floats(0.0, 20.0))
def test_r74_adaptive_costs_hardly_more_in_a_short_execution(length, takes):
    steady = _looks(50.0, 50.0 + length, adaptive=False, waiting=False, takes=takes)
    adaptive = _looks(50.0, 50.0 + length, adaptive=True, waiting=False, takes=takes)
    assert len(adaptive) <= len(steady) + 3


@given(TIMES, TIMES, TIMES, st.booleans(), st.booleans())
def test_never_in_the_past_and_never_after_the_deadline(since, elapsed, queue, adaptive, waiting):
    now, due = since + elapsed, since + queue
    look = next_look(now, since, due, adaptive=adaptive, waiting=waiting)
    assert look >= now
    assert look <= max(now, due)
    # Except for the last one there is a least distance, so the number of looks is bounded.
    assert look == max(now, due) or look - now >= 14.999
    assert look - now <= 180.001  # the difference of two floats


@given(st.floats(1.0, 3600.0), st.booleans(), st.booleans(), st.floats(0.0, 20.0))
def test_a_phase_has_a_bounded_number_of_looks(queue, adaptive, waiting, takes):
    looks = _looks(50.0, 50.0 + queue, adaptive=adaptive, waiting=waiting, takes=takes)
    assert len(looks) <= queue / (15.0 if adaptive else 60.0) + 2
