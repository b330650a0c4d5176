"""Estimates, learning and pruning."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_sgpu.core import weights
from pytest_sgpu.model import UNKNOWN, Census, Estimate, Key, Outcome, Scope, Status, WeightTable

SCOPE = Scope("cpu", "1")
SECONDS = st.floats(0, 1e9)
KEYS = st.builds(Key, st.sampled_from("abc"), st.sampled_from(["", "x", "y", "z"]))
GOOD = Outcome(Key("a", "x"), Status.PASSED, 0, 1.0, 3.5, complete=True, proof="junit")


def table(**entries: float) -> WeightTable:
    return WeightTable(SCOPE, {Key("a", tag): seconds for tag, seconds in entries.items()})


def test_estimate():
    assert weights.estimate(table(x=2.0), Key("a", "x")) == Estimate(2.0, known=True)
    assert weights.estimate(table(x=0.0), Key("a", "x")) == Estimate(0.0, known=True)
    assert weights.estimate(table(), Key("a", "x")) is UNKNOWN


def test_learning_is_quick_upwards_and_slow_downwards():
    old = table(up=10.0, down=10.0, same=10.0, other=7.0)
    measured = {Key("a", "up"): 20.0, Key("a", "down"): 0.0, Key("a", "same"): 10.0, Key("a", "new"): 3.0}
    new = weights.learn(old, measured)
    assert new == table(up=15.0, down=9.0, same=10.0, other=7.0, new=3.0)
    assert old == table(up=10.0, down=10.0, same=10.0, other=7.0)


@pytest.mark.parametrize("seconds", [math.nan, math.inf, -math.inf, -0.1])
def test_what_is_no_measurement_is_refused(seconds):
    with pytest.raises(ValueError, match="a/x"):
        weights.learn(table(), {Key("a", "x"): seconds})


@given(st.floats(0, 1.7e308), st.floats(0, 1.7e308))
def test_a_weight_lies_between_old_and_measured(old, measured):
    new = weights.learn(table(x=old), {Key("a", "x"): measured}).entries[Key("a", "x")]
    assert min(old, measured) <= new <= max(old, measured)


@given(st.dictionaries(KEYS, SECONDS), st.dictionaries(KEYS, SECONDS))
def test_learning_touches_measured_keys_only(old, measured):
    new = weights.learn(WeightTable(SCOPE, old), measured).entries
    assert new.keys() == old.keys() | measured.keys()
    assert all(new[key] == old[key] for key in old.keys() - measured.keys())
    assert all(new[key] == measured[key] for key in measured.keys() - old.keys())


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"status": Status.FAILED, "exit_code": 1},
        {"proof": "ran"},
        {"proof": "opaque", "key": Key("a")},
        {"exit_code": 0, "status": Status.FAILED},
        {"status": Status.FLAKY, "attempt": 2},
        {"status": Status.FLAKY, "attempt": 2, "flaky_fails": True},
    ],
)
def test_what_teaches(change):
    assert weights.teaches(replace(GOOD, **change))


@pytest.mark.parametrize(
    "change",
    [
        *({"status": status} for status in Status if status not in {Status.PASSED, Status.FAILED, Status.FLAKY}),
        {"complete": False},
        {"exit_code": 126, "status": Status.FAILED},
        {"exit_code": 127, "status": Status.FAILED},
        {"proof": "allowed"},
        {"proof": "", "status": Status.FAILED, "exit_code": 3},
        {"start": None},
        {"stop": None},
    ],
    ids=str,
)
def test_what_does_not_teach(change):
    assert not weights.teaches(replace(GOOD, **change))


def test_measured():
    outcomes = [
        GOOD,
        replace(GOOD, key=Key("b"), status=Status.CRASHED),
        replace(GOOD, key=Key("c"), stop=1.0),
        replace(GOOD, stop=2.0),
    ]
    assert weights.measured(outcomes) == {Key("a", "x"): 1.0, Key("c"): 0.0}


def test_pruning_of_a_selected_suite():
    """The second and the third run of the case of the table that knows other tests."""
    here = WeightTable(
        SCOPE,
        {
            Key("gone", "x"): 900.0,
            Key("a", "renamed.long.ago"): 500.0,
            Key("a", "kept"): 40.0,
            Key("a", "skipped.here"): 4.0,
            Key("b", "only"): 30.0,
            Key("b", "dropped"): 20.0,
        },
    )
    runnable = frozenset({Key("a", "kept")})
    known = runnable | {Key("a", "skipped.here")}
    only_a = weights.prune(here, Census(runnable, known, frozenset("a")), ("a", "b"))
    assert {str(key) for key in only_a.entries} == {"a/kept", "a/skipped.here", "b/only", "b/dropped"}
    both = Census(runnable | {Key("b", "only")}, known | {Key("b", "only")}, frozenset("ab"))
    assert {str(key) for key in weights.prune(here, both, ("a", "b")).entries} == {"a/kept", "a/skipped.here", "b/only"}


def test_a_suite_that_became_opaque_loses_its_tags():
    old = WeightTable(SCOPE, {Key("a", "x"): 1.0, Key("a"): 2.0})
    census = Census(frozenset({Key("a")}), frozenset({Key("a")}), frozenset("a"))
    assert weights.prune(old, census, {"a"}).entries == {Key("a"): 2.0}


@given(
    st.dictionaries(KEYS, SECONDS),
    st.frozensets(KEYS),
    st.frozensets(KEYS),
    st.frozensets(st.sampled_from("abc")),
    st.frozensets(st.sampled_from("abc")),
)
def test_only_what_may_be_pruned_is_pruned(entries, runnable, known, listed, labels):
    census = Census(runnable, known, listed)
    left = weights.prune(WeightTable(SCOPE, entries), census, labels).entries
    for key, seconds in entries.items():
        may_go = key.suite not in labels or (key.suite in listed and key not in runnable and key not in known)
        assert (key not in left) == may_go
        assert may_go or left[key] == seconds


def test_file_names():
    assert weights.file_name(Scope("gfx950", "3")) == "test_weights.gfx950.l3.txt"
    assert weights.parse_file_name("test_weights.sm_90.l1.txt") == Scope("sm_90", "1")
    assert weights.parse_file_name("test_weights.gfx90a+gfx942.l99.txt") == Scope("gfx90a+gfx942", "99")
    assert weights.file_name(Scope("../x", "../y")) == "test_weights.%2E.%2Fx.l%2E%2E%2Fy.txt"


@pytest.mark.parametrize(
    "name",
    [
        "",
        "weights.txt",
        "test_weights.cpu.txt",
        "test_weights..l1.txt",
        "test_weights.cpu.l1.txt.newer",
        "test_weights.gfx950.l3.g4.txt",
        "test_weights.%63pu.l1.txt",
        "test_weights.cpu.l1.txt\n",
        "test_weights.%.l1.txt",
    ],
)
def test_names_that_tell_nothing(name):
    assert weights.parse_file_name(name) is None


@given(st.text(min_size=1, max_size=20), st.text(min_size=1, max_size=20))
def test_file_names_come_back(arch, level):
    scope = Scope(arch, level)
    name = weights.file_name(scope)
    assert "/" not in name
    assert weights.parse_file_name(name) == scope


@given(st.text() | st.text(alphabet="test_wighs.cpul1x%E2"))
def test_any_name_can_be_asked_about(name):
    assert weights.parse_file_name(name) is None
    scope = weights.parse_file_name(f"test_weights.{name}.l1.txt")
    assert scope is None or weights.file_name(scope) == f"test_weights.{name}.l1.txt"
