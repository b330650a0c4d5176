from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pytest_sgpu.core.evidence import FAILURES, Suspicion, flaky, place, suspects
from pytest_sgpu.model import Key, Outcome, Status

A, B = Key("t", "a"), Key("t", "b")


def attempt(key, status, device, number=1, reason=""):
    return Outcome(key, status, 1, 0.0, 1.0, device, (device,), number, reason=reason)


def test_failed_there_and_passed_elsewhere():
    attempts = {A: [attempt(A, Status.CRASHED, "gpu2")], B: [attempt(B, Status.FAILED, "gpu2")]}
    finals = [attempt(A, Status.FLAKY, "gpu0", 2), attempt(B, Status.FAILED, "gpu0", 2)]
    assert suspects(attempts, finals) == (Suspicion("gpu2", A, "gpu0", "gpu2"),)
    assert suspects({}, finals) == ()


def test_an_item_that_failed_where_it_passed_speaks_against_no_device():
    attempts = {A: [attempt(A, Status.FAILED, "gpu2"), attempt(A, Status.FAILED, "gpu0", 2)]}
    assert suspects(attempts, [attempt(A, Status.FLAKY, "gpu0", 3)]) == ()


def test_two_failures_on_one_device_are_one_suspicion_and_two_devices_are_two():
    attempts = {A: [attempt(A, Status.FAILED, name) for name in ("gpu2", "gpu2", "gpu1")]}
    found = suspects(attempts, [attempt(A, Status.FLAKY, "gpu0", 4)])
    assert [(one.device, one.passed_on) for one in found] == [("gpu2", "gpu0"), ("gpu1", "gpu0")]


@given(st.sampled_from(sorted(set(Status) - FAILURES, key=str)))
def test_what_was_lost_or_cut_off_proves_nothing(status):
    assert suspects({A: [attempt(A, status, "gpu2")]}, [attempt(A, Status.PASSED, "gpu0", 2)]) == ()


def test_a_flaky_outcome_says_what_happened_where():
    failures = [attempt(A, Status.FAILED, "gpu2", reason="exit code 1"), attempt(A, Status.TIMED_OUT, "gpu1", 2)]
    outcome = flaky(failures, attempt(A, Status.PASSED, "gpu0", 3), fails=True)
    assert outcome.status is Status.FLAKY
    assert outcome.reason == "failed on gpu2 (exit code 1) and on gpu1 (timed out), passed on gpu0"
    assert outcome.failed
    assert outcome.attempt == 3
    assert not flaky(failures, attempt(A, Status.PASSED, "gpu0", 3, "1 skipped"), fails=False).failed


def test_a_place_is_named_by_its_devices_or_its_worker():
    assert place(Outcome(A, Status.PASSED, worker="w", devices=("gpu0", "gpu1"))) == "gpu0,gpu1"
    assert place(Outcome(A, Status.PASSED, worker="w")) == "w"
