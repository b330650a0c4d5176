"""From the end of a process to an outcome, and from outcomes to the verdict of a suite."""

from __future__ import annotations

import signal
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_sgpu.core import verdict
from pytest_sgpu.core.verdict import Policy, exit_code, judge, signal_of, signal_text, verdicts
from pytest_sgpu.model import UNKNOWN, Ending, Estimate, JUnitFacts, Key, Outcome, Status, Tests

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
    reason=st.sampled_from(["", "why"]),
)
policies = st.builds(Policy, st.sampled_from([(), ("*",), ("other",)]), st.booleans())
keys = st.builds(Key, st.sampled_from(["a", "b", "c"]), st.sampled_from(["", "x", "y"]))
outcomes = st.builds(
    Outcome, keys, st.sampled_from(Status), st.one_of(st.none(), st.integers(-5, 255)), reason=st.just("signal 6 (x)")
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
    assert better.status is Status.PASSED or worse.status is not Status.PASSED or found.damage or found.tests.bad


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
        assert one.passed == (one.exit_code == 0) == (not any(o.status.failed for o in one.outcomes))
        assert [o for o in some if o.key.suite == one.suite] == list(one.outcomes)


def test_verdicts_follow_the_conf_and_leave_out_who_has_no_outcome():
    some = [Outcome(Key(suite, "x"), Status.PASSED, 0) for suite in ("z", "a", "b")]
    assert [v.suite for v in verdicts(["b", "unused", "a"], some)] == ["b", "a", "z"]


def test_every_status_has_a_code():
    assert {exit_code(Outcome(KEY, status)) for status in Status if status.failed} == {1, 5, 124, 125, 130, 137}
    assert verdict.LOST_CODE == 125
