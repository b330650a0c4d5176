"""What a run comes to that tried items more than once, and what one that was cut off goes on with."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_sgpu.core import journal
from pytest_sgpu.model import (
    UNKNOWN,
    Census,
    Device,
    Estimate,
    Item,
    Key,
    Leftover,
    Mode,
    Outcome,
    Part,
    Plan,
    PlanEntry,
    Quarantine,
    Scope,
    Status,
    Suite,
)

A, B, C, D = (Key("torch", tag) for tag in "abcd")
TORCH = Suite("torch", "torch.log", Mode.LIST, ("./torch.sh",), "q.conf", 1)
JAX = Suite("jax", "jax.log", Mode.LIST, ("./jax.sh",), "q.conf", 2)
GPU0, GPU1, GPU2 = (Device(f"gpu{number}", str(number), "V", "amd", "gfx950") for number in range(3))
KNOWN = Estimate(9.0, known=True)


def plan(*keys: Key) -> Plan:
    items = [Item(key, ("./torch.sh",), 1, position) for position, key in enumerate(keys)]
    return Plan(tuple(PlanEntry(rank, item, KNOWN) for rank, item in enumerate(items, start=1)), 2)


def head(*keys: Key) -> list[journal.Record]:
    run = journal.run_record(
        started=1000.0,
        scope=Scope("gfx950", "3"),
        devices=[GPU0, GPU1],
        suites=[TORCH],
        labels=["torch"],
        digest="d1",
        commit="c1",
        weights=("w/read.txt", "w/write.txt"),
        rerun="pytest -p sgpu",
        root="/repo",
    )
    census = Census(frozenset(keys), frozenset(keys), frozenset({"torch"}))
    return [run, journal.plan_record(plan(*keys), 12.5, census)]


def assign(key: Key, worker: str, at: float, attempt: int = 1) -> journal.Record:
    return {"event": "assign", "at": at, "key": str(key), "worker": worker, "attempt": attempt}


def ended(key: Key, status: Status, start: float, stop: float, **more: object) -> Outcome:
    fields = {"worker": "gpu0", "devices": ("gpu0",), "estimate": KNOWN, **more}
    return Outcome(key, status, 0 if status is Status.PASSED else None, start, stop, **fields)  # type: ignore[arg-type]


def resume(at: float, **more: object) -> journal.Record:
    return journal.resume_record(started=5000.0, at=at, digest="d2", commit="c2", **more)  # type: ignore[arg-type]


def test_a_run_names_its_conf_commit_tables_and_command():
    state = journal.fold(head(A))
    assert (state.digest, state.commit, state.root) == ("d1", "c1", "/repo")
    assert (state.weights, state.rerun) == (("w/read.txt", "w/write.txt"), "pytest -p sgpu")
    assert state.parts == (Part(1, 1000.0, 0.0, "c1"),)


def test_attempts_stand_beside_the_outcome_in_their_order():
    first = ended(A, Status.FAILED, 1.0, 2.0)
    second = ended(A, Status.LOST, 3.0, 4.0, attempt=2, worker="gpu1", devices=("gpu1",))
    last = ended(A, Status.FLAKY, 5.0, 6.0, attempt=3, reason="failed on gpu0, passed on gpu1", flaky_fails=True)
    records = [
        *head(A, B),
        assign(A, "gpu0", 1.0),
        journal.attempt_record(first, "retry"),
        assign(A, "gpu1", 3.0, 2),
        {"event": "lost", "at": 4.0, "worker": "gpu1", "reason": "killed"},
        journal.attempt_record(second, "lost"),
        assign(A, "gpu1", 5.0, 3),
    ]
    state = journal.fold(records)
    assert (state.attempts, state.outcomes, state.running) == ({A: (first, second)}, (), ((A, "gpu1", 5.0),))
    state = journal.fold([*records, journal.outcome_record(last)])
    assert (state.attempts, state.outcomes, state.running) == ({A: (first, second)}, (last,), ())
    assert records[3]["why"] == "retry"


def test_what_an_item_left_behind_survives():
    outcome = ended(A, Status.PASSED, 1.0, 2.0, left=(Leftover(4711, "python server.py"),), late=0.5)
    assert journal.fold([*head(A), journal.outcome_record(outcome)]).outcomes == (outcome,)


def test_devices_that_get_no_more_items_are_kept():
    quarantine = Quarantine("gpu1", ("gpu1",), 7.5, "failed there, passed on gpu0: torch/a, torch/b")
    records = [*head(A), journal.quarantine_record(quarantine), {"event": "held", "at": 8.0, "worker": "gpu0"}]
    state = journal.fold(records)
    assert (state.quarantines, state.wall) == ((quarantine,), 8.0)


def test_what_is_taught_adds_up():
    state = journal.fold([*head(A, B, C), journal.learned_record([B, A]), journal.learned_record([C])])
    assert state.taught == {A, B, C}
    assert journal.learned_record([B, A])["keys"] == ["torch/a", "torch/b"]


def test_the_first_reason_to_start_nothing_more_counts():
    records = [{"event": "incomplete", "at": 1.0, "reason": reason} for reason in ("no worker is left", "budget")]
    assert journal.fold([*head(A), *records]).incomplete == "no worker is left"


# ---------------------------------------------------------------- a further part


def cut_off() -> list[journal.Record]:
    """A passed, B was stopped by a signal, C never began, D still ran."""
    return [
        *head(A, B, C, D),
        assign(A, "gpu0", 1.0),
        assign(D, "gpu1", 1.5),
        journal.outcome_record(ended(A, Status.PASSED, 1.0, 4.0)),
        assign(B, "gpu0", 4.0),
        {"event": "stop", "at": 6.0, "reason": "stopped by SIGINT"},
        {"event": "incomplete", "at": 6.0, "reason": "budget"},
        journal.outcome_record(ended(B, Status.STOPPED, 4.0, 7.0)),
        journal.outcome_record(Outcome(C, Status.NOT_RUN, reason="stopped by SIGINT")),
    ]


def test_a_further_part_keeps_what_is_final_and_tries_the_rest_again():
    state = journal.fold([*cut_off(), {"event": "end", "at": 7.5}, resume(20.0)])
    assert [outcome.key for outcome in state.outcomes] == [A]
    assert (state.running, state.interrupted, state.incomplete, state.ended) == ((), "", "", False)
    (stopped,) = state.attempts[B]
    assert (stopped.status, stopped.attempt) == (Status.STOPPED, 1)
    assert C not in state.attempts
    (lost,) = state.attempts[D]
    assert lost == Outcome(
        D,
        Status.LOST,
        start=1.5,
        stop=20.0,
        worker="gpu1",
        devices=("gpu1",),
        reason="did not finish: controller killed at +20 s on gpu1",
        estimate=KNOWN,
    )
    assert state.parts == (Part(1, 1000.0, 0.0, "c1"), Part(2, 5000.0, 20.0, "c2"))
    assert (state.started, state.digest, state.commit, state.wall) == (1000.0, "d2", "c2", 20.0)


def test_outcomes_tell_which_part_they_are_from():
    later = [ended(B, Status.PASSED, 21.0, 22.0, attempt=2), ended(D, Status.FAILED, 21.0, 25.0, attempt=2)]
    state = journal.fold([*cut_off(), resume(20.0), *map(journal.outcome_record, later)])
    assert {outcome.key: outcome.part for outcome in state.outcomes} == {A: 1, B: 2, D: 2}
    assert [outcome.part for outcome in state.attempts[D]] == [1]
    third = [resume(30.0), journal.attempt_record(ended(C, Status.FAILED, 31.0, 32.0), "retry"), assign(C, "", 33.0)]
    state = journal.fold([*cut_off(), resume(20.0), *map(journal.outcome_record, later), *third, resume(40.0)])
    assert [(outcome.part, outcome.attempt, outcome.status) for outcome in state.attempts[C]] == [
        (3, 1, Status.FAILED),
        (3, 2, Status.LOST),
    ]
    assert state.attempts[C][1].reason == "did not finish: controller killed at +40 s"
    assert [part.number for part in state.parts] == [1, 2, 3, 4]


def test_a_further_part_may_have_other_devices_suites_and_plan():
    new = Key("jax", "z")
    more = {"devices": [GPU1, GPU2], "suites": [JAX, replace(TORCH, line=7)], "labels": ["jax", "torch"]}
    census = Census(frozenset({A, new}), frozenset({A, new}), frozenset({"jax", "torch"}))
    state = journal.fold([*cut_off(), resume(20.0, **more), journal.plan_record(plan(A, new), 1.0, census)])
    assert (state.devices, state.device_ids["gpu2"]) == (("gpu0", "gpu1", "gpu2"), "2")
    assert state.suites == (JAX, replace(TORCH, line=7))
    assert (state.labels, state.census) == (("jax", "torch"), census)
    assert [entry.item.key for entry in state.plan.entries] == [A, new]
    same = journal.fold([*cut_off(), resume(20.0)])
    assert (same.devices, same.suites, same.labels) == (("gpu0", "gpu1"), (TORCH,), ("torch",))


def test_every_part_adds_the_names_of_its_secrets():
    first = {
        **journal.run_record(started=1.0, scope=Scope("", ""), devices=(), suites=(), labels=()),
        "secrets": ["B", "D"],
    }
    assert journal.fold([first]).secrets == ("B", "D")
    assert journal.fold([first, resume(1.0)]).secrets == ("B", "D")
    assert journal.fold([first, resume(1.0) | {"secrets": ["A", "B"]}]).secrets == ("A", "B", "D")
    assert journal.fold([resume(1.0) | {"secrets": ["A"]}]).secrets == ("A",)
    assert journal.fold(head(A)).secrets == ()


def test_an_outcome_of_an_item_that_a_further_part_does_not_plan_is_dropped_aloud():
    census = Census(frozenset({B}), frozenset({B}), frozenset({"torch"}))
    state = journal.fold([*cut_off(), resume(20.0), journal.plan_record(plan(B), 1.0, census)])
    assert state.outcomes == ()
    assert set(state.attempts) <= {B}
    (notice,) = state.notices
    assert notice.text == "1 item of an earlier part not in the plan of part 2 and dropped: torch/a (passed)"


def test_a_journal_of_a_newer_version_says_so():
    first, *others = head(A)
    state = journal.fold([{**first, "version": 2}, *others])
    assert state.version == 2
    assert [notice.text[:22] for notice in state.notices] == ["a journal of version 2"]


@pytest.mark.parametrize("status", [Status.FAILED, Status.LOST])
def test_an_attempt_that_waited_for_another_and_was_cut_off_is_told_once(status):
    outcome = ended(A, status, 1.0, 2.0, attempt=1)
    records = [*head(A), journal.attempt_record(outcome, "retry"), journal.outcome_record(outcome)]
    state = journal.fold(records)
    assert (state.outcomes, state.attempts) == ((outcome,), {})
    further = journal.fold([*records, resume(20.0)])
    assert further.attempts == ({} if outcome.final else {A: (outcome,)})


def test_a_further_part_of_a_journal_without_its_head():
    state = journal.fold([assign(A, "gpu0", 1.0), resume(20.0)])
    assert state.parts == (Part(1, 0.0, 0.0), Part(2, 5000.0, 20.0, "c2"))
    assert (state.attempts[A][0].estimate, state.devices) == (UNKNOWN, ())
    # The head may also come late.
    assert journal.fold([resume(20.0), head(A)[0]]).parts[0] == Part(1, 1000.0, 0.0, "c1")


def test_a_damaged_beginning_of_a_part_changes_nothing():
    damaged = {**resume(20.0), "devices": [["gpu0", 1]]}
    state, before = journal.fold([*cut_off(), damaged]), journal.fold(cut_off())
    assert "devices[1].id is no text" in state.notices[-1].text
    assert replace(state, notices=()) == before


@given(
    st.lists(st.tuples(st.sampled_from([A, B, C, D]), st.sampled_from(Status), st.sampled_from("xoar")), max_size=12)
)
def test_however_often_it_is_cut_off_nothing_final_is_lost(steps):
    """x: an outcome, o: an attempt, a: handed out, r: a further part begins."""
    records, at = head(A, B, C, D), 0.0
    final: dict[Key, Status] = {}
    for key, status, step in steps:
        at += 1.0
        outcome = ended(key, status, at - 1.0, at)
        if step == "x":
            records.append(journal.outcome_record(outcome))
            final[key] = status
        elif step == "o":
            records.append(journal.attempt_record(outcome, "retry"))
        elif step == "a" and key not in final:
            records.append(assign(key, "gpu0", at))
        elif step == "r":
            records.append(resume(at))
            again = (Status.STOPPED, Status.NOT_RUN, Status.LOST)
            final = {key: one for key, one in final.items() if one not in again}
    state = journal.fold(records)
    assert {outcome.key: outcome.status for outcome in state.outcomes} == final
    assert state.notices == ()
    assert not {key for key, _, _ in state.running} & final.keys()
    for key, some in state.attempts.items():
        assert {outcome.key for outcome in some} == {key}
        assert all(outcome.start is not None for outcome in some)


def test_the_words_of_a_record_are_cleaned_and_its_names_are_not():
    def clean(text: str) -> str:
        return text.replace("torch", "***")

    records = [*cut_off(), journal.quarantine_record(Quarantine("gpu1", ("gpu1",), 1.0, "torch/a failed"))]
    cleaned = [journal.redacted(record, clean) for record in records]
    assert cleaned[0]["suites"] == [["torch", "torch.log", "list", ["./***.sh"], "q.conf", 1]]
    assert cleaned[0]["labels"] == ["torch"]
    assert cleaned[1]["entries"][0][:2] == ["torch/a", ["./***.sh"]]
    assert cleaned[-1]["reason"] == "***/a failed"
    before, after = journal.fold(records), journal.fold(cleaned)
    assert {o.key for o in after.outcomes} == {o.key for o in before.outcomes}
    assert after.census == before.census
    outcome = ended(A, Status.FAILED, 1.0, 2.0, reason="torch", left=(Leftover(1, "torch.py"),))
    record = journal.redacted(journal.outcome_record(outcome), clean)
    assert (record["key"], record["reason"], record["left"]) == ("torch/a", "***", [[1, "***.py"]])
    assert record["junit"]["tests"] == [0, 0, 0, 0]


@pytest.mark.parametrize("why", ["retry", "lost", "quarantine", "probe", "resumed"])
def test_an_attempt_is_an_outcome_and_why_there_was_another(why):
    outcome = ended(A, Status.FAILED, 1.0, 2.0)
    assert journal.attempt_record(outcome, why) == {
        **journal.outcome_record(outcome),
        "event": "attempt",
        "why": why,
    }
