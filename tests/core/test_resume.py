"""A run that was cut off: what it comes to, whether it can go on, and what is left."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_sgpu.core import resume
from pytest_sgpu.core.fold import RunState
from pytest_sgpu.model import UNKNOWN, Estimate, Item, Key, Outcome, Part, Plan, PlanEntry, Scope, Status

A, B, C = (Key("torch", tag) for tag in "abc")
KNOWN = Estimate(9.0, known=True)
KEYS = [A, B, C]
THREE_GONE = (
    "the plan: 3 items of then gone ('torch/a', 'torch/b', 'torch/c'), 5 items of now not in it "
    "('z/v', 'z/w', 'z/x' and 2 more)"
)


def plan(*keys: Key) -> Plan:
    entries = [PlanEntry(rank, Item(key, ("./x.sh",), 1, rank), KNOWN) for rank, key in enumerate(keys, start=1)]
    return Plan(tuple(entries), 2)


def state(**more: object) -> RunState:
    fields = {
        "plan": plan(A, B, C),
        "digest": "d" * 64,
        "commit": "c1",
        "scope": Scope("gfx950", "3"),
        "parts": (Part(1, 1000.0, 0.0, "c1"),),
        **more,
    }
    return RunState(**fields)  # type: ignore[arg-type]


DONE = Outcome(A, Status.PASSED, 0, 1.0, 4.0, "gpu0", ("gpu0",))


# ---------------------------------------------------------------- what it comes to


def test_what_ran_is_lost_and_what_had_not_begun_is_not_run():
    cut = state(outcomes=(DONE,), running=((B, "gpu1", 3.0),), wall=4.0)
    whole = resume.complete(cut, 1204.4)
    assert whole.outcomes == (
        DONE,
        Outcome(
            B,
            Status.LOST,
            start=3.0,
            stop=1204.4,
            worker="gpu1",
            devices=("gpu1",),
            reason="did not finish: controller killed at +1204 s on gpu1",
            estimate=KNOWN,
        ),
        Outcome(C, Status.NOT_RUN, reason="not started: controller killed at +1204 s", estimate=KNOWN),
    )
    assert (whole.running, whole.wall, whole.interrupted) == ((), 1204.4, "controller killed at +1204 s")


def test_the_number_of_the_attempt_and_the_part_go_on():
    before = (replace(DONE, key=B, status=Status.FAILED), replace(DONE, key=B, status=Status.LOST, attempt=2))
    parts = (Part(1, 1000.0, 0.0), Part(2, 5000.0, 20.0))
    cut = state(attempts={B: before}, running=((B, "gpu1", 30.0),), parts=parts)
    whole = resume.complete(cut, 40.0, "the run broke off")
    lost = next(outcome for outcome in whole.outcomes if outcome.key == B)
    assert (lost.attempt, lost.part) == (3, 2)
    assert lost.reason == "did not finish: the run broke off at +40 s on gpu1"
    assert {outcome.part for outcome in whole.outcomes} == {2}


def test_a_run_with_all_its_outcomes_and_its_end_stays_as_it_is():
    ended = state(plan=plan(A), outcomes=(DONE,), ended=True, wall=5.0)
    assert resume.complete(ended, 5.0) == ended
    assert resume.complete(replace(ended, interrupted="stopped by SIGINT"), 5.0).interrupted == "stopped by SIGINT"


def test_a_run_that_had_all_its_outcomes_and_no_end_was_cut_off():
    whole = resume.complete(state(plan=plan(A), outcomes=(DONE,)), 5.0)
    assert (whole.outcomes, whole.interrupted) == ((DONE,), "controller killed at +5 s")


def test_without_a_plan_what_ran_is_lost_all_the_same():
    whole = resume.complete(state(plan=Plan((), 1), running=((B, "", 3.0),), parts=()), 2.0)
    (lost,) = whole.outcomes
    assert (lost.estimate, lost.stop, lost.part) == (UNKNOWN, 3.0, 1)
    assert (lost.devices, lost.reason) == ((), "did not finish: controller killed at +3 s")


def test_an_item_that_has_its_outcome_runs_no_more():
    odd = state(outcomes=(DONE,), running=((A, "gpu0", 9.0),), plan=plan(A))
    assert resume.complete(odd, 10.0).outcomes == (DONE,)


@given(st.sets(st.sampled_from(KEYS)), st.sets(st.sampled_from(KEYS)), st.booleans())
def test_every_planned_item_has_one_outcome_in_the_order_of_the_plan(done, running, ended):
    outcomes = tuple(replace(DONE, key=key) for key in KEYS if key in done)
    cut = state(outcomes=outcomes, running=tuple((key, "gpu0", 1.0) for key in sorted(running)), ended=ended)
    whole = resume.complete(cut, 9.0)
    assert [outcome.key for outcome in whole.outcomes] == KEYS
    assert {outcome.key for outcome in whole.outcomes if outcome.status is Status.PASSED} == done
    assert {outcome.key for outcome in whole.outcomes if outcome.status is Status.LOST} == running - done
    assert bool(whole.interrupted) == (not ended or len(done) < len(KEYS))
    assert resume.complete(whole, 9.0) == whole


# ---------------------------------------------------------------- when it ended


def test_a_run_ended_with_its_last_record_or_its_last_sign_of_life():
    cut = state(wall=7.0)
    assert resume.ended_at(cut) == 7.0
    assert resume.ended_at(cut, 1005.0) == 7.0
    assert resume.ended_at(cut, 2204.0) == 1204.0
    parts = (Part(1, 1000.0, 0.0), Part(2, 5000.0, 20.0))
    assert resume.ended_at(replace(cut, parts=parts), 5010.0) == 30.0
    assert resume.ended_at(replace(cut, ended=True), 2204.0) == 7.0
    assert resume.ended_at(replace(cut, parts=()), 2204.0) == 7.0
    assert resume.ended_at(replace(cut, parts=(Part(1, 0.0, 0.0),)), 2204.0) == 7.0


# ---------------------------------------------------------------- whether it can go on


def differences(**more: object) -> tuple[str, ...]:
    now = {"digest": "d" * 64, "commit": "c1", "keys": KEYS, "scope": Scope("gfx950", "3"), **more}
    return resume.differences(state(), **now)  # type: ignore[arg-type]


def test_the_same_run_may_go_on():
    assert differences() == ()
    assert differences(scope=None, keys=list(reversed(KEYS))) == ()


@pytest.mark.parametrize(
    ("now", "said"),
    [
        ({"digest": "e" * 64}, "the conf files: 'dddddddddddd' then, 'eeeeeeeeeeee' now"),
        ({"commit": "c2+changes"}, "the commit: 'c1' then, 'c2+changes' now"),
        ({"commit": ""}, "the commit: 'c1' then, none known now"),
        ({"scope": Scope("cpu", "1")}, "what it runs on: gfx950, level 3 then, cpu, level 1 now"),
        ({"keys": [A, B]}, "the plan: 1 item of then gone ('torch/c')"),
        ({"keys": [*KEYS, Key("z")]}, "the plan: 1 item of now not in it ('z')"),
        (
            {"keys": [Key("z", tag) for tag in "vwxyz"]},
            THREE_GONE,
        ),
    ],
)
def test_each_difference_names_both_sides(now, said):
    assert differences(**now) == (said,)


def test_a_journal_of_a_newer_version_is_not_gone_on_with():
    said = resume.differences(state(version=2), digest="d" * 64, commit="c1", keys=[A, B, C])
    assert said == ("the journal: version 2 then, 1 now",)


@pytest.mark.parametrize(
    ("status", "stands"),
    [(Status.FAILED, True), (Status.TIMED_OUT, True), (Status.LOST, True), (Status.STOPPED, False)],
)
def test_what_waited_for_a_further_attempt_comes_to_what_it_had(status, stands):
    first, last = replace(DONE, status=Status.LOST), replace(DONE, status=status, attempt=2)
    before = state(plan=plan(A), attempts={A: (first, last)})
    made = resume.complete(before, 10.0)
    (outcome,) = made.outcomes
    assert outcome == last if stands else outcome.status is Status.NOT_RUN
    assert made.attempts == {A: (first,) if stands else (first, last)}
    alone = resume.complete(state(plan=plan(A), attempts={A: (last,)}), 10.0)
    assert alone.attempts == ({} if stands else {A: (last,)})


def test_all_differences_are_named():
    assert len(differences(digest="x", commit="y", keys=[], scope=Scope("cpu", "1"))) == 4


def test_a_run_of_which_nothing_is_known_differs():
    said = resume.differences(RunState(), digest="x", commit="", keys=[A], scope=Scope("cpu", "1"))
    assert said == (
        "the conf files: none known then, 'x' now",
        "what it runs on: ?, level ? then, cpu, level 1 now",
        "the plan: 1 item of now not in it ('torch/a')",
    )


# ---------------------------------------------------------------- what is left


@pytest.mark.parametrize("status", Status)
def test_what_has_a_final_outcome_is_not_run_again(status):
    left = resume.pending(plan(A, B, C), state(outcomes=(replace(DONE, status=status),)))
    again = status in (Status.STOPPED, Status.NOT_RUN, Status.LOST)
    assert [entry.item.key for entry in left.entries] == ([A, B, C] if again else [B, C])
    assert left.devices == 2
    assert [entry.rank for entry in left.entries] == ([1, 2, 3] if again else [2, 3])
