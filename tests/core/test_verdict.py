"""From the end of a process to an outcome, and from outcomes to the verdict of a suite."""

from __future__ import annotations

import signal
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_sgpu.core import verdict
from pytest_sgpu.core.verdict import (
    NO_WORKER,
    Policy,
    exit_code,
    infrastructure,
    judge,
    signal_of,
    signal_text,
    verdicts,
)
from pytest_sgpu.model import (
    UNKNOWN,
    Ending,
    Estimate,
    JUnitFacts,
    Key,
    Leftover,
    Outcome,
    Quarantine,
    Status,
    Tests,
)

KEY = Key("torch", "test_numerics.ck")
NOTHING = JUnitFacts()
GOOD = JUnitFacts(1, Tests(3))


def end(code: int | None = 0, **more) -> Ending:
    return Ending(code, more.pop("signal", None), 1.0, 4.5, **more)


def ruled(
    ending: Ending, facts: JUnitFacts = NOTHING, policy: Policy | None = None, *, opaque: bool = False
) -> Outcome:
    return judge(KEY, ending, facts, policy or Policy(), opaque=opaque, estimate=UNKNOWN)


# ---------------------------------------------------------------- what one item is told


@pytest.mark.parametrize(
    ("ending", "facts", "expected"),
    [
        (end(), GOOD, (Status.PASSED, "junit", True, "")),
        (end(ran=True), NOTHING, (Status.PASSED, "ran", True, "")),
        (end(), NOTHING, (Status.NO_TESTS, "", False, "ran nothing: no JUnit case, no line `TE_CI_RAN ")),
        (end(), JUnitFacts(1), (Status.NO_TESTS, "", False, "TE_CI_RAN test_numerics.ck")),
        (end(), JUnitFacts(1, damage="cut off"), (Status.NO_TESTS, "", False, "; JUnit file: cut off")),
        (end(), JUnitFacts(1, Tests(2), damage="cut off"), (Status.FAILED, "junit", False, "cut off")),
        (end(ran=True), JUnitFacts(1, damage="cut off"), (Status.FAILED, "ran", False, "cut off")),
        (end(), JUnitFacts(1, Tests(3, skipped=3)), (Status.PASSED, "junit", True, "every test was skipped (3)")),
        (end(), JUnitFacts(1, Tests(3, 1)), (Status.PASSED, "junit", True, "exit code 0, but 1 test of 3 failed")),
        (end(partial=True), GOOD, (None, "junit", False, "")),
        (end(1), NOTHING, (Status.FAILED, "", True, "exit code 1")),
        (end(1), JUnitFacts(1, Tests(9, 2, 1)), (Status.FAILED, "junit", True, "exit code 1, 3 tests of 9 failed")),
        (end(1), JUnitFacts(1, damage="cut off"), (Status.FAILED, "", False, "exit code 1; JUnit file: cut off")),
        (end(5), NOTHING, (Status.NO_TESTS, "", False, "no test was selected (exit code 5)")),
        (end(5), JUnitFacts(1, damage="x"), (Status.NO_TESTS, "", False, "(exit code 5); JUnit file: x")),
        (end(5), GOOD, (Status.FAILED, "junit", True, "exit code 5")),
        (end(126), NOTHING, (Status.FAILED, "", True, "not executable (exit code 126)")),
        (end(127), NOTHING, (Status.FAILED, "", True, "command not found (exit code 127)")),
        (end(127, reason="no such file"), NOTHING, (Status.FAILED, "", True, "no such file")),
        (
            end(139),
            GOOD,
            (Status.CRASHED, "junit", False, "signal 11 (SIGSEGV) inside the suite script (exit code 139)"),
        ),
        (end(145), GOOD, (Status.FAILED, "junit", True, "exit code 145")),  # 128 + SIGCHLD: nobody dies of that
        (end(None, signal=9), GOOD, (Status.CRASHED, "junit", False, "signal 9 (SIGKILL)")),
        (end(None), GOOD, (Status.CRASHED, "junit", False, "no exit code")),
        (end(None, reason="gone"), GOOD, (Status.CRASHED, "junit", False, "gone")),
        (end(killed="stopped by SIGINT"), GOOD, (Status.STOPPED, "junit", False, "stopped by SIGINT")),
        (end(None, signal=15, killed="-x"), GOOD, (Status.STOPPED, "junit", False, "-x")),
        (
            end(None, signal=15, killed='deadline: 3 s passed; last output 2 s ago: "x"', timed_out=True),
            GOOD,
            (Status.TIMED_OUT, "junit", False, 'deadline: 3 s passed; last output 2 s ago: "x"'),
        ),
        (end(0, killed="stall", timed_out=True), GOOD, (Status.TIMED_OUT, "junit", False, "stall")),
        (
            end(killed='stall: no output for 3 s; last line: "\x1b[2J"', timed_out=True),
            GOOD,
            (Status.TIMED_OUT, "junit", False, 'stall: no output for 3 s; last line: "\\x1b[2J"'),
        ),
        (end(139, timed_out=True), GOOD, (Status.TIMED_OUT, "junit", False, "it ran for too long")),
    ],
)
def test_each_end_has_its_status(ending, facts, expected):
    status, proof, complete, reason = expected
    outcome = ruled(ending, facts)
    assert status in (outcome.status, None)
    assert (outcome.proof, outcome.complete) == (proof, complete)
    assert outcome.reason.endswith(reason) if reason.startswith(("; ", "(")) else reason in outcome.reason
    assert (outcome.start, outcome.stop, outcome.exit_code) == (1.0, 4.5, ending.exit_code)


def test_an_outcome_says_who_ran_it():
    estimate = Estimate(7.0, known=True)
    outcome = judge(
        KEY, end(), GOOD, Policy(), opaque=False, worker="w1", devices=("gpu1",), attempt=2, estimate=estimate
    )
    assert (outcome.worker, outcome.devices, outcome.attempt, outcome.estimate) == ("w1", ("gpu1",), 2, estimate)
    assert (outcome.key, outcome.junit) == (KEY, GOOD)


def test_an_opaque_item_needs_no_proof():
    assert ruled(end(), opaque=True).proof == "opaque"
    assert ruled(end(), opaque=True).status is Status.PASSED
    assert ruled(end(5), opaque=True).status is Status.FAILED


@pytest.mark.parametrize("glob", ["torch/test_numerics.ck", "torch/*", "*"])
def test_an_excuse_goes_by_the_whole_key_and_for_nothing_but_the_missing_proof(glob):
    policy = Policy(allow_empty=("other/*", glob))
    outcome = ruled(end(), policy=policy)
    assert (outcome.status, outcome.proof) == (Status.PASSED, "allowed")
    assert ruled(end(5), policy=policy).status is Status.NO_TESTS
    assert ruled(end(1), policy=policy).status is Status.FAILED
    assert ruled(end(), JUnitFacts(1, damage="cut off"), policy).status is Status.NO_TESTS


@pytest.mark.parametrize("glob", ["test_numerics.ck", "torch", "torch/", "TORCH/*"])
def test_a_glob_that_is_about_something_else_excuses_nothing(glob):
    assert ruled(end(), policy=Policy(allow_empty=(glob,))).status is Status.NO_TESTS


LEFT = (Leftover(4711, "python server.py"), Leftover(4712, "sleep 9"))


@pytest.mark.parametrize("fail", [False, True])
def test_what_was_left_behind_is_kept_and_fails_on_demand(fail):
    policy = Policy(leaks_fail=fail)
    one = ruled(end(left=LEFT[:1], late=0.5), GOOD, policy)
    assert (one.left, one.late) == (LEFT[:1], 0.5)
    assert (one.status, one.reason) == ((Status.FAILED, "left 1 process behind") if fail else (Status.PASSED, ""))
    assert (exit_code(one), one.failed, one.complete) == (int(fail), fail, True)
    doubtful = ruled(end(left=LEFT), JUnitFacts(1, Tests(1, skipped=1)), policy).reason
    assert doubtful == ("left 2 processes behind; " if fail else "") + "every test was skipped (1)"
    assert ruled(end(3, left=LEFT), GOOD, policy).reason == "exit code 3"
    assert ruled(end(), GOOD, policy).status is Status.PASSED


def test_failing_cases_behind_exit_code_0_fail_on_demand():
    outcome = ruled(end(), JUnitFacts(1, Tests(3, 1, 1)), Policy(junit_failures_fail=True))
    assert (outcome.status, exit_code(outcome)) == (Status.FAILED, 1)
    assert "2 tests of 3 failed" in outcome.reason


# ---------------------------------------------------------------- codes


@pytest.mark.parametrize(
    ("outcome", "code"),
    [
        (Outcome(KEY, Status.PASSED, 0), 0),
        (Outcome(KEY, Status.PASSED), 0),
        (Outcome(KEY, Status.FAILED, 3), 3),
        (Outcome(KEY, Status.FAILED, 0), 1),
        (Outcome(KEY, Status.FAILED), 1),
        (Outcome(KEY, Status.FAILED, -7), 1),
        (Outcome(KEY, Status.NO_TESTS, 0), 5),
        (Outcome(KEY, Status.NO_TESTS, 5), 5),
        (Outcome(KEY, Status.NO_TESTS), 5),
        (Outcome(KEY, Status.TIMED_OUT, 0), 124),
        (Outcome(KEY, Status.CRASHED, reason="signal 11 (SIGSEGV)"), 139),
        (Outcome(KEY, Status.CRASHED, 134, reason="whatever"), 134),
        (Outcome(KEY, Status.CRASHED, reason="no exit code"), 137),
        (Outcome(KEY, Status.LOST), 125),
        (Outcome(KEY, Status.SETUP_FAILED, 4), 4),
        (Outcome(KEY, Status.SETUP_FAILED), 1),
        (Outcome(KEY, Status.STOPPED, 0), 130),
        (Outcome(KEY, Status.NOT_RUN), 1),
        (Outcome(KEY, Status.FLAKY, 0), 0),
        (Outcome(KEY, Status.FLAKY, 3), 0),
        (Outcome(KEY, Status.FLAKY, 0, flaky_fails=True), 1),
    ],
    ids=str,
)
def test_each_status_has_its_code(outcome, code):
    assert exit_code(outcome) == code


def test_a_signal_is_known_by_number_and_name():
    assert signal_text(signal.SIGSEGV) == "signal 11 (SIGSEGV)"
    assert signal_text(99) == "signal 99"
    assert signal_of(Outcome(KEY, Status.FAILED, 139)) is None
    assert signal_of(Outcome(KEY, Status.CRASHED, 139)) == 11
    assert signal_of(ruled(end(None, signal=6))) == 6
    assert signal_of(Outcome(KEY, Status.CRASHED, reason="no exit code")) is None


# ---------------------------------------------------------------- properties

signals = st.sampled_from([1, 2, 6, 9, 11, 15, 35])
tests = st.builds(Tests, st.integers(0, 3), st.integers(0, 2), st.integers(0, 2), st.integers(0, 3))
facts = st.builds(JUnitFacts, st.integers(0, 2), tests, damage=st.sampled_from(["", "cut off"]))
endings = st.builds(
    Ending,
    st.one_of(st.none(), st.integers(0, 255)),
    st.one_of(st.none(), st.none(), signals),
    st.just(0.0),
    st.floats(0, 1e6),
    ran=st.booleans(),
    partial=st.booleans(),
    killed=st.sampled_from(["", "", "stopped"]),
    timed_out=st.sampled_from([False, False, True]),
    left=st.sampled_from([(), (), LEFT]),
    reason=st.sampled_from(["", "why"]),
)
policies = st.builds(Policy, st.sampled_from([(), ("*",), ("other",)]), st.booleans(), st.booleans())
keys = st.builds(Key, st.sampled_from(["a", "b", "c"]), st.sampled_from(["", "x", "y"]))
outcomes = st.builds(
    Outcome,
    keys,
    st.sampled_from(Status),
    st.one_of(st.none(), st.integers(-5, 255)),
    reason=st.just("signal 6 (x)"),
    flaky_fails=st.booleans(),
)


@given(endings, facts, policies, st.booleans())
def test_a_pass_has_exit_code_0_and_proof(ending, found, policy, opaque):
    outcome = judge(KEY, ending, found, policy, opaque=opaque, estimate=UNKNOWN)
    if outcome.status is Status.PASSED:
        assert ending.exit_code == 0
        assert not ending.killed
        assert ending.signal is None
        assert not found.damage
        assert outcome.proof
        assert outcome.proof != "allowed" or policy.excuses(KEY)
        assert outcome.proof != "opaque" or opaque
    else:
        assert outcome.reason
        assert exit_code(outcome) > 0
    assert not outcome.complete or outcome.status.teaches


@given(endings, facts, policies, st.booleans())
def test_less_proof_never_makes_a_pass(ending, found, policy, opaque):
    better = judge(KEY, ending, found, policy, opaque=opaque, estimate=UNKNOWN)
    worse = judge(KEY, replace(ending, ran=False), NOTHING, Policy(), opaque=opaque, estimate=UNKNOWN)
    doubt = found.damage or found.tests.bad or (policy.leaks_fail and ending.left)
    assert better.status is Status.PASSED or worse.status is not Status.PASSED or doubt


@given(st.lists(outcomes, max_size=8), outcomes)
def test_a_verdict_never_improves_when_an_outcome_is_added(some, one):
    before = {v.suite: v.exit_code for v in verdicts("abc", some)}
    after = {v.suite: v.exit_code for v in verdicts("abc", [*some, one])}
    assert all(after[suite] >= code for suite, code in before.items())
    assert after[one.key.suite] >= exit_code(one)


@given(st.lists(outcomes, max_size=8))
def test_exit_code_0_if_and_only_if_all_passed(some):
    ruling = verdicts(["b", "a", "unused"], some)
    assert sum(len(v.outcomes) for v in ruling) == len(some)
    for one in ruling:
        assert one.passed == (one.exit_code == 0) == (not any(o.failed for o in one.outcomes))
        assert [o for o in some if o.key.suite == one.suite] == list(one.outcomes)


def test_verdicts_follow_the_conf_and_leave_out_who_has_no_outcome():
    some = [Outcome(Key(suite, "x"), Status.PASSED, 0) for suite in ("z", "a", "b")]
    assert [v.suite for v in verdicts(["b", "unused", "a"], some)] == ["b", "a", "z"]


def test_every_status_has_a_code():
    assert {exit_code(Outcome(KEY, status)) for status in Status if status.failed} == {1, 5, 124, 125, 130, 137}
    assert verdict.LOST_CODE == 125


# ---------------------------------------------------------------- whose fault it was

BAD = (Quarantine("w2", ("gpu2",), 9.0, "two items failed there and passed elsewhere"),)


def ended(status: Status, device: str = "gpu2", tag: str = "a", reason: str = "", **more) -> Outcome:
    return Outcome(Key("s", tag), status, 1, 0.0, 1.0, "w", (device,) if device else (), reason=reason, **more)


@pytest.mark.parametrize(
    ("outcome", "earlier", "yes"),
    [
        (ended(Status.LOST, "gpu0"), (), True),
        (ended(Status.LOST, "gpu0"), (ended(Status.LOST, "gpu1"),), True),
        (ended(Status.LOST, "gpu0"), (ended(Status.FAILED, "gpu1"),), False),
        (ended(Status.NOT_RUN, "", reason=f"{NO_WORKER} is left"), (), True),
        (ended(Status.NOT_RUN, "", reason="the budget is spent"), (), False),
        (ended(Status.FAILED), (), True),
        (ended(Status.TIMED_OUT), (), True),
        (ended(Status.CRASHED), (ended(Status.FAILED),), True),
        (ended(Status.FAILED), (ended(Status.STOPPED, "gpu0"),), True),
        (ended(Status.FAILED, "gpu0"), (), False),
        (ended(Status.FAILED), (ended(Status.FAILED, "gpu0"),), False),
        (ended(Status.FAILED, ""), (), False),
        (ended(Status.SETUP_FAILED), (), False),
        (ended(Status.STOPPED), (), False),
        (ended(Status.FLAKY, "gpu0", flaky_fails=True), (ended(Status.FAILED),), True),
        (ended(Status.FLAKY, "gpu2", flaky_fails=True), (ended(Status.FAILED, "gpu0"),), False),
        (ended(Status.FLAKY, "gpu0"), (ended(Status.FAILED),), False),
        (ended(Status.PASSED), (), False),
    ],
)
def test_a_run_fails_through_infrastructure_alone(outcome, earlier, yes):
    passed = ended(Status.PASSED, "gpu0", "b")
    assert infrastructure([passed, outcome], BAD, {outcome.key: earlier}) is yes
    failed = ended(Status.FAILED, "gpu0", "c")
    assert not infrastructure([outcome, failed], BAD, {outcome.key: earlier})


def test_without_quarantine_a_failure_is_that_of_a_test():
    assert not infrastructure([ended(Status.FAILED)])
    assert infrastructure([ended(Status.LOST)])
    assert not infrastructure([])


def test_an_item_on_two_devices_needs_both_to_be_bad():
    wide = Outcome(KEY, Status.FAILED, 1, 0.0, 1.0, "w", ("gpu1", "gpu2"))
    assert not infrastructure([wide], BAD)
    assert infrastructure([wide], (*BAD, Quarantine("w1", ("gpu1",), 1.0, "")))
