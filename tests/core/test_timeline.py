from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_sgpu.core.timeline import Idle, build
from pytest_sgpu.model import UNKNOWN, Estimate, Key, Outcome, Status


def ran(tag, start, stop, *devices, estimate=UNKNOWN, status=Status.PASSED, **more):
    more = {"complete": True, "proof": "junit", "exit_code": 0, "worker": "w", **more}
    return Outcome(Key("t", tag), status, start=start, stop=stop, devices=devices, estimate=estimate, **more)


def test_lanes_idle_time_and_figures():
    line = build(
        [ran("c", 6.0, 8.0, "gpu0"), ran("b", 2.0, 10.0, "gpu1"), ran("a", 1.0, 5.0, "gpu0")], ["gpu0", "gpu1", "gpu2"]
    )
    assert [(lane.device, [span.key.tag for span in lane.spans], lane.busy) for lane in line.lanes] == [
        ("gpu0", ["a", "c"], 6.0),
        ("gpu1", ["b"], 8.0),
        ("gpu2", [], 0.0),
    ]
    assert [lane.idle for lane in line.lanes] == [Idle(1.0, 1.0, 2.0), Idle(2.0, 0.0, 0.0), Idle(0.0, 0.0, 10.0)]
    assert line.idle == Idle(3.0, 1.0, 12.0)
    assert (line.wall, line.busy, line.longest, line.bound) == (10.0, 14.0, 8.0, 8.0)
    assert line.utilisation == pytest.approx(14 / 30)
    assert line.efficiency == pytest.approx(0.8)


def test_nothing_ran():
    for line in (build([]), build([], ["gpu0"]), build([Outcome(Key("t", "a"), Status.NOT_RUN)], ["gpu0"])):
        assert (line.wall, line.busy, line.bound, line.utilisation, line.efficiency) == (0.0, 0.0, 0.0, 0.0, 0.0)
        assert line.idle.total == 0.0
        assert line.estimate_errors == ()
    assert build([ran("a", 0.0, 0.0, "gpu0")]).utilisation == 0.0


def test_the_clock_may_start_later_than_the_run():
    line = build([ran("a", 5.0, 9.0, "gpu0")], ["gpu0"], begin=4.0)
    assert (line.wall, line.idle, line.efficiency) == (5.0, Idle(1.0, 0.0, 0.0), 0.8)
    assert build([], ["gpu0"], begin=4.0).wall == 0.0


def test_devices_that_only_outcomes_name_follow_in_order():
    line = build([ran("a", 0.0, 1.0, "z"), ran("b", 0.0, 1.0, "y"), ran("c", 0.0, 1.0)], ["gpu0", "gpu0"])
    assert [lane.device for lane in line.lanes] == ["gpu0", "w", "y", "z"]


def test_an_item_on_two_devices_keeps_both_busy():
    line = build([ran("a", 0.0, 4.0, "gpu0", "gpu1")])
    assert (line.busy, line.utilisation, line.bound, line.efficiency) == (8.0, 1.0, 4.0, 1.0)


def test_items_that_overlap_or_run_backwards_give_no_idle_time_below_zero():
    line = build([ran("a", 0.0, 5.0, "gpu0"), ran("b", 1.0, 3.0, "gpu0"), ran("c", 4.0, 2.0, "gpu0")])
    assert line.idle == Idle()


def test_estimate_errors_come_largest_first_and_only_from_whole_runs():
    line = build(
        [
            ran("exact", 0.0, 3.0, "g", estimate=Estimate(3.0, known=True)),
            ran("short", 0.0, 1.0, "g", estimate=Estimate(6.0, known=True)),
            ran("long", 0.0, 9.0, "g", estimate=Estimate(3.0, known=False)),
            ran("zero", 0.0, 1.0, "g", estimate=Estimate(0.0, known=True)),
            ran("unknown", 0.0, 7.0, "g"),
            ran("cut", 0.0, 7.0, "g", estimate=Estimate(90.0, known=True), status=Status.TIMED_OUT, complete=False),
        ]
    )
    found = [(e.key.tag, e.estimate, e.actual, e.ratio, e.known, e.error) for e in line.estimate_errors]
    assert found == [
        ("long", 3.0, 9.0, 3.0, False, 6.0),
        ("short", 6.0, 1.0, 1 / 6, True, -5.0),
        ("zero", 0.0, 1.0, None, True, 1.0),
        ("exact", 3.0, 3.0, 1.0, True, 0.0),
    ]


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 50), st.integers(0, 50)), max_size=20),
    st.integers(4, 6),
)
def test_busy_and_idle_fill_the_wall(gaps, devices):
    clocks = [0.0] * devices
    outcomes = []
    for number, (device, gap, length) in enumerate(gaps):
        start = clocks[device] + gap
        clocks[device] = start + length
        outcomes.append(ran(str(number), start, clocks[device], f"gpu{device}"))
    line = build(outcomes, [f"gpu{n}" for n in range(devices)])
    assert line.busy + line.idle.total == pytest.approx(line.wall * devices)
    assert 0.0 <= line.utilisation <= 1.0
    assert line.bound <= line.wall + 1e-9
    for lane in line.lanes:
        assert lane.busy + lane.idle.total == pytest.approx(line.wall)


def test_attempts_before_the_last_one_take_device_time_and_say_nothing_of_estimates():
    known = Estimate(1.0, known=True)
    last = ran("a", 4.0, 6.0, "gpu0", estimate=known)
    before = ran("a", 0.0, 3.0, "gpu1", estimate=known, status=Status.FAILED)
    lost = Outcome(Key("t", "b"), Status.LOST)
    line = build([last], ["gpu0", "gpu1"], attempts=[before, lost])
    assert [(lane.device, lane.busy) for lane in line.lanes] == [("gpu0", 2.0), ("gpu1", 3.0)]
    assert (line.wall, line.busy, line.longest) == (6.0, 5.0, 3.0)
    assert [(error.key.tag, error.actual) for error in line.estimate_errors] == [("a", 2.0)]
