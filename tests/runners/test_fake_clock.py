"""The virtual clock itself."""

from __future__ import annotations

import math

import pytest


def test_time_passes_only_when_asked_to(clock, fake):
    assert (clock.elapsed, clock.monotonic(), clock.time()) == (0.0, fake.START, fake.EPOCH)
    clock.sleep(5)
    clock.advance(2.5)
    clock.sleep(0)
    assert (clock.elapsed, clock.monotonic(), clock.time()) == (7.5, fake.START + 7.5, fake.EPOCH + 7.5)
    assert clock.sleeps == [5, 0]
    assert clock.slept == [(0.0, 5), (7.5, 0)]


@pytest.mark.parametrize("seconds", [-1, math.nan])
def test_it_refuses_a_sleep_into_the_past(clock, seconds):
    with pytest.raises(ValueError):
        clock.sleep(seconds)
    assert clock.sleeps == []


def test_what_is_scheduled_happens_on_the_way_and_in_order(clock):
    seen = []
    clock.at(7, lambda: seen.append(("b", clock.elapsed)))
    clock.at(3, lambda: seen.append(("a", clock.elapsed)))
    clock.at(7, lambda: seen.append(("c", clock.elapsed)))
    clock.at(10.5, lambda: seen.append(("d", clock.elapsed)))
    clock.sleep(10)
    assert seen == [("a", 3), ("b", 7), ("c", 7)]
    assert clock.elapsed == 10
    clock.advance(1)
    assert seen[-1] == ("d", 10.5)


def test_an_action_may_let_time_pass(clock):
    clock.at(3, lambda: clock.advance(20))
    clock.sleep(10)
    assert clock.elapsed == 23


def test_an_interrupt_comes_out_of_the_sleep_under_way(clock):
    clock.interrupt(at=12)
    clock.sleep(10)
    with pytest.raises(KeyboardInterrupt):
        clock.sleep(10)
    assert clock.elapsed == 12
    assert clock.sleeps == [10, 10]
    clock.sleep(10)
    assert clock.elapsed == 22


def test_the_wall_clock_may_jump_and_the_monotonic_one_does_not(clock, fake):
    clock.jump(3600)
    clock.jump(-7200, at=5)
    assert clock.time() == fake.EPOCH + 3600
    clock.sleep(10)
    assert clock.time() == fake.EPOCH - 3600 + 10
    assert clock.monotonic() == fake.START + 10


def test_an_endless_loop_ends(clock):
    for _ in range(12 * 24):
        clock.sleep(3600)
    with pytest.raises(RuntimeError, match="endless"):
        clock.sleep(1)


def test_a_real_clock_may_run_faster(fake):
    clock = fake.RealClock(speed=1000.0)
    clock.advance(5)
    assert 5 <= clock.elapsed < 60_000
    assert clock.time() > clock.elapsed
