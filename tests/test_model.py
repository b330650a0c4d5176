"""The nouns: what little they know of themselves."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_sgpu.errors import ConfError, SgpuError
from pytest_sgpu.model import (
    Device,
    Ending,
    Estimate,
    Item,
    Key,
    Notice,
    Outcome,
    Plan,
    PlanEntry,
    Status,
    Tests,
    Verdict,
    Worker,
)

LABELS = st.text(st.characters(exclude_characters="/"), min_size=1)


@given(LABELS, st.text())
def test_a_key_reads_back_from_its_text(suite, tag):
    assert Key.parse(str(Key(suite, tag))) == Key(suite, tag)


def test_a_key_is_text():
    assert str(Key("torch", "a/b.c")) == "torch/a/b.c"
    assert str(Key("whole")) == "whole"
    assert sorted([Key("b"), Key("a", "z"), Key("a")]) == [Key("a"), Key("a", "z"), Key("b")]


def plan(*estimates, devices=2):
    entries = enumerate(estimates, start=1)
    return Plan(tuple(PlanEntry(n, Item(Key("s", str(n)), ("x",), 1, n), one) for n, one in entries), devices)


def test_a_plan_counts_unknown_items_apart_and_never_as_seconds():
    one = plan(
        Estimate(99.0, known=False), Estimate(None, known=False), Estimate(6.0, known=True), Estimate(1.0, known=True)
    )
    assert (one.total, one.longest, one.unknown, one.lower_bound) == (7.0, 6.0, 2, 6.0)
    nothing = plan()
    assert (nothing.total, nothing.longest, nothing.unknown, nothing.lower_bound) == (0.0, 0.0, 0, 0.0)


@given(st.lists(st.floats(0, 1e6)), st.integers(1, 64))
def test_the_bound_is_the_work_shared_out_or_the_longest(seconds, devices):
    one = plan(*(Estimate(value, known=True) for value in seconds), devices=devices)
    assert one.lower_bound >= one.longest
    assert one.lower_bound >= one.total / devices
    assert one.lower_bound in (one.longest, one.total / devices)


def test_a_device_is_pinned_by_its_mask_and_what_goes_with_it():
    device = Device("gpu3", "3", "CUDA_VISIBLE_DEVICES", "nvidia", "sm_90", also={"CUDA_DEVICE_ORDER": "PCI_BUS_ID"})
    assert device.pin() == {"CUDA_VISIBLE_DEVICES": "3", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    assert hash(device) == hash(device)
    other = Device("gpu0", "0", "HIP_VISIBLE_DEVICES", "amd", "gfx950")
    assert Worker("w", (other, device)).place == "gpu0,gpu3"


def test_nothing_but_a_pass_is_good_and_only_whole_runs_teach():
    assert [status for status in Status if not status.failed] == [Status.PASSED, Status.FLAKY]
    assert [status for status in Status if status.teaches] == [Status.PASSED, Status.FAILED, Status.FLAKY]


@pytest.mark.parametrize(
    ("start", "stop", "seconds"), [(1.0, 3.5, 2.5), (3.0, 1.0, 0.0), (None, 1.0, 0.0), (1.0, None, 0.0)]
)
def test_seconds_are_never_negative(start, stop, seconds):
    assert Outcome(Key("a"), Status.PASSED, start=start, stop=stop).seconds == seconds
    if start is not None and stop is not None:
        assert Ending(0, None, start, stop).seconds == seconds


def test_bad_cases_are_failures_and_errors():
    assert Tests(9, 2, 1, 3).bad == 3


def test_a_verdict_passed_when_its_code_is_0():
    assert Verdict("s", 0, ()).passed
    assert not Verdict("s", 5, ()).passed


def test_a_notice_is_one_line_with_its_place():
    assert str(Notice("text", "w.txt:3")) == "w.txt:3: text"
    assert str(Notice("text")) == "text"


def test_an_error_shows_its_hint_on_a_line_of_its_own():
    assert str(ConfError("q.conf:1: bad", "do this")) == "q.conf:1: bad\n  hint: do this"
    assert str(SgpuError("bad")) == "bad"
    assert issubclass(ConfError, SgpuError)
