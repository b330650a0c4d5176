"""The journal: records to lines and back, and the state that any of it folds to."""

from __future__ import annotations

import json
from dataclasses import fields as fields_of

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_sgpu.core import journal
from pytest_sgpu.core.fields import DamageError, Fields
from pytest_sgpu.model import (
    UNKNOWN,
    Census,
    Device,
    Estimate,
    Item,
    JUnitFacts,
    Key,
    Leftover,
    Mode,
    Notice,
    Outcome,
    Plan,
    PlanEntry,
    Scope,
    Status,
    Suite,
    Tests,
)

SUITES = (
    Suite("torch", "torch.log", Mode.LIST, ("./torch.sh", "-v"), "q.conf", 1),
    Suite("whole", "whole.log", Mode.OPAQUE, ("./whole.sh",), "q.conf", 2),
)
DEVICES = (Device("gpu0", "GPU-5f", "V", "amd", "gfx950"), Device("gpu1", "1", "V", "amd", "gfx950"))
A, B, C, WHOLE = Key("torch", "a"), Key("torch", "b"), Key("torch", "c"), Key("whole")
PLAN = Plan(
    tuple(
        PlanEntry(rank, Item(key, ("./x.sh",), 1, rank - 1), estimate)
        for rank, (key, estimate) in enumerate(
            [(WHOLE, UNKNOWN), (B, Estimate(3.5, known=False)), (A, Estimate(9.0, known=True))], start=1
        )
    ),
    2,
)
CENSUS = Census(frozenset({A, B, WHOLE}), frozenset({A, B, C, WHOLE}), frozenset({"torch"}))
PASSED = Outcome(
    A,
    Status.PASSED,
    0,
    1.5,
    3.25,
    "gpu0",
    ("gpu0",),
    complete=True,
    proof="junit",
    estimate=Estimate(9.0, known=True),
    junit=JUnitFacts(1, Tests(4, 1, 1, 1), (("m::t", "boom \udc80"),), "", ("odd",)),
)
LOST = Outcome(B, Status.LOST, None, 1.0, 6.0, "gpu1", ("gpu1",), 2, reason="worker gpu1 was killed by SIGKILL")


def a_run() -> list[journal.Record]:
    return [
        journal.run_record(
            started=1700000000.5,
            scope=Scope("gfx950", "3"),
            devices=DEVICES,
            suites=SUITES,
            labels=["torch", "left-out", "whole"],
            program="0.1",
        ),
        journal.plan_record(PLAN, 12.5, CENSUS),
        journal.notice_record(Notice("a broken line", "w.txt:3")),
        {"event": "assign", "at": 1.0, "key": "torch/a", "worker": "gpu0", "attempt": 1},
        {"event": "started", "at": 1.5, "key": "torch/a"},
        {"event": "assign", "at": 1.0, "key": "torch/b", "worker": "gpu1", "attempt": 1},
        {"event": "lost", "at": 6.0, "worker": "gpu1", "reason": "?"},
        journal.outcome_record(LOST),
        journal.outcome_record(PASSED),
        {"event": "assign", "at": 7.0, "key": "whole", "worker": "gpu0", "attempt": 1},
        {"event": "stop", "at": 8.0, "reason": "stopped by SIGINT"},
        {"event": "stop", "at": 8.5, "reason": "again"},
        {"event": "from the future", "data": [1]},
    ]


def test_a_whole_run_folds_to_its_state():
    records = a_run()
    state = journal.fold(records)
    assert (state.started, state.scope, state.predicted) == (1700000000.5, Scope("gfx950", "3"), 12.5)
    assert (state.devices, dict(state.device_ids)) == (("gpu0", "gpu1"), {"gpu0": "GPU-5f", "gpu1": "1"})
    assert (state.suites, state.labels) == (SUITES, ("torch", "left-out", "whole"))
    assert (state.plan, state.census) == (PLAN, CENSUS)
    assert state.notices == (Notice("a broken line", "w.txt:3"),)
    assert state.outcomes == (LOST, PASSED)  # in the order of the plan
    assert state.running == ((WHOLE, "gpu0", 7.0),)
    assert (state.interrupted, state.wall, state.ended) == ("stopped by SIGINT", 8.5, False)
    last = journal.outcome_record(Outcome(WHOLE, Status.STOPPED, start=7.0, stop=8.75))
    ended = journal.fold([*records, last, {"event": "end", "at": 9.0}])
    assert (ended.running, ended.wall, ended.ended, len(ended.outcomes)) == ((), 9.0, True, 3)


def test_the_lines_of_a_run_are_ascii_and_read_back():
    records = a_run()
    text = "".join(map(journal.line, records))
    assert text.isascii()
    assert journal.parse(text) == (records, ())
    assert journal.fold(journal.parse(text)[0]) == journal.fold(records)


def test_later_records_of_a_key_replace_earlier_ones():
    again = Outcome(A, Status.FAILED, 1)
    assert journal.fold([*a_run(), journal.outcome_record(again)]).outcomes == (LOST, again)


def test_old_records_lack_fields():
    state = journal.fold([{"event": "run"}, {"event": "plan"}, {"event": "outcome", "key": "a/b", "status": "PASSED"}])
    assert state.outcomes == (Outcome(Key("a", "b"), Status.PASSED),)
    assert (state.plan, state.notices) == (Plan((), 1), ())


def test_more_columns_are_passed_over():
    run, plan, *_ = a_run()
    run["suites"] = [[*row, "new"] for row in run["suites"]]
    run["devices"] = [[*row, "new"] for row in run["devices"]]
    plan["entries"] = [[*row, "new"] for row in plan["entries"]]
    state = journal.fold([run, plan])
    assert (state.suites, state.plan, state.devices) == (SUITES, PLAN, ("gpu0", "gpu1"))


def test_no_outcome_is_lost_with_a_damaged_plan():
    run, _, *rest = a_run()
    state = journal.fold([run, {"event": "plan", "entries": [["torch/a", []]]}, *rest])
    assert state.outcomes == (LOST, PASSED)
    assert state.plan == Plan((), 1)
    assert state.notices[-1] == Notice(
        "a damaged record is left out: entries is no list of lists of 6", "journal.jsonl, record 2"
    )


# ---------------------------------------------------------------- damaged text


def test_a_torn_last_line_is_no_news():
    text = "".join(map(journal.line, a_run()))
    for cut in range(len(text)):
        whole = text.count("\n", 0, cut)
        records, notices = journal.parse(text[:cut])
        assert notices == ()
        assert len(records) in (whole, whole + 1)  # a last line may lack nothing but its end


@pytest.mark.parametrize("bad", ["{", "[]", "1", '"event"', "{}", '{"event":1}', "\x00", "[" * 50_000, "nul", '{"a":'])
def test_another_line_that_is_no_record_is_told(bad):
    good = journal.line({"event": "end", "at": 1.0})
    records, notices = journal.parse(f"\n{good}  \n{bad}\n{good}")
    assert len(records) == 2
    assert notices == (Notice("no journal record, skipped", "journal.jsonl:4"),)


def test_a_file_of_garbage_is_told_in_a_few_words():
    records, notices = journal.parse("garbage\n" * 10_000)
    assert records == []
    assert len(notices) == 51
    assert "9950 more" in notices[-1].text
    assert len(journal.fold([{"event": "outcome"}] * 10_000).notices) == 51


@pytest.mark.parametrize(("text", "is_whole"), [('{"event":"end"}', True), ('{"event":"en', False), ("[]", False)])
def test_a_line_may_lack_nothing_but_its_end(text, is_whole):
    assert journal.whole(text) is is_whole


def test_an_empty_journal_is_a_run_of_nothing():
    assert journal.parse("") == ([], ())
    assert journal.fold([]) == journal.RunState()


# ---------------------------------------------------------------- damaged values


@pytest.mark.parametrize(
    ("record", "complaint"),
    [
        ({"event": "outcome"}, "status is missing"),
        ({"event": "outcome", "status": "FINE", "key": "a"}, "status is none that there is"),
        ({"event": "outcome", "status": "PASSED"}, "key is missing"),
        ({"event": "outcome", "status": "PASSED", "key": 1}, "key is no text"),
        ({"event": "outcome", "status": ["PASSED"], "key": "a"}, "status is no text"),
        ({"event": "outcome", "status": "PASSED", "key": "a", "start": "1"}, "start is no number"),
        ({"event": "outcome", "status": "PASSED", "key": "a", "start": True}, "start is no number"),
        ({"event": "outcome", "status": "PASSED", "key": "a", "start": 10**400}, "start is no number"),
        ({"event": "outcome", "status": "PASSED", "key": "a", "stop": float("nan")}, "stop is no number"),
        ({"event": "outcome", "status": "PASSED", "key": "a", "stop": float("inf")}, "stop is no number"),
        ({"event": "outcome", "status": "PASSED", "key": "a", "exit_code": 1.5}, "exit_code is no whole number"),
        ({"event": "outcome", "status": "PASSED", "key": "a", "exit_code": False}, "exit_code is no whole number"),
        ({"event": "outcome", "status": "PASSED", "key": "a", "devices": "gpu0"}, "devices is no list"),
        ({"event": "outcome", "status": "PASSED", "key": "a", "devices": [0]}, "devices is no list of texts"),
        ({"event": "outcome", "status": "PASSED", "key": "a", "complete": 1}, "complete is no true or false"),
        ({"event": "outcome", "status": "PASSED", "key": "a", "estimate": [1]}, "estimate.known is missing"),
        ({"event": "outcome", "status": "PASSED", "key": "a", "estimate": 1}, "estimate is no list"),
        ({"event": "outcome", "status": "PASSED", "key": "a", "junit": [1]}, "junit is no object"),
        (
            {"event": "outcome", "status": "PASSED", "key": "a", "junit": {"tests": [-1]}},
            "junit.tests.cases is no whole",
        ),
        (
            {"event": "outcome", "status": "PASSED", "key": "a", "junit": {"failing": ["x"]}},
            "junit.failing is no list of",
        ),
        (
            {"event": "outcome", "status": "PASSED", "key": "a", "junit": {"failing": [["x", 1]]}},
            "junit.failing[1].message is no text",
        ),
        ({"event": "assign"}, "key is missing"),
        ({"event": "assign", "key": "a", "worker": None}, "worker is no text"),
        ({"event": "notice"}, "text is missing"),
        ({"event": "stop"}, "reason is missing"),
        ({"event": "end", "at": []}, "at is no number"),
        ({"event": "run", "suites": [["a", "a.log", "opaque?", [], "c", 1]]}, "neither list nor opaque"),
        ({"event": "run", "suites": [["a", "a.log", "list", "x.sh", "c", 1]]}, "suites[1].command is no list"),
        ({"event": "run", "suites": {"a": 1}}, "suites is no list"),
        ({"event": "run", "devices": [["gpu0", None]]}, "devices[1].id is no text"),
        ({"event": "run", "labels": [["a"]]}, "labels is no list of texts"),
        ({"event": "plan", "devices": 0}, "devices is no whole number from 1"),
        ({"event": "plan", "entries": [["a", ["x"], 0, 0, None, False]]}, "entries[1].gpus is no whole number from 1"),
        ({"event": "plan", "entries": [["a", ["x"], 1, 0, None, None]]}, "entries[1].known is no true or false"),
        ({"event": "plan", "predicted": None}, "predicted is no number"),
        ({"event": "run", "weights": ["a", 1]}, "weights.write is no text"),
        ({"event": "run", "commit": 1}, "commit is no text"),
        ({"event": "attempt", "key": "a"}, "status is missing"),
        ({"event": "outcome", "status": "PASSED", "key": "a", "left": [[-1, "x"]]}, "left[1].pid is no whole number"),
        ({"event": "outcome", "status": "PASSED", "key": "a", "late": "x"}, "late is no number"),
        ({"event": "outcome", "status": "FLAKY", "key": "a", "flaky_fails": 1}, "flaky_fails is no true or false"),
        ({"event": "quarantine"}, "worker is missing"),
        ({"event": "quarantine", "worker": "gpu0", "at": "x"}, "at is no number"),
        ({"event": "incomplete"}, "reason is missing"),
        ({"event": "learned", "keys": "torch/a"}, "keys is no list"),
        ({"event": "resume", "started": "x"}, "started is no number"),
        ({"event": "resume", "suites": [["a"]]}, "suites is no list of lists of 6"),
    ],
)
def test_a_damaged_record_is_left_out_and_told(record, complaint):
    # Through text first: what can stand in a file is what counts.
    (read,), _ = journal.parse(journal.line(record))
    state = journal.fold([*a_run(), read])
    before = journal.fold(a_run())
    assert complaint in state.notices[-1].text
    assert state.notices[-1].where == "journal.jsonl, record 14"
    for name in (field.name for field in fields_of(state) if field.name != "notices"):
        assert getattr(state, name) == getattr(before, name)


def test_a_record_that_is_no_object_is_damaged_too():
    with pytest.raises(DamageError, match="the record is no object"):
        Fields([])
    with pytest.raises(DamageError, match=r"^inner is no object"):
        Fields({}, "inner").inner("x").row("y") or Fields(None, "inner")


# ---------------------------------------------------------------- properties

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats(allow_nan=False)
    | st.text(st.characters(codec=None), max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
KINDS = [
    *("run", "plan", "assign", "started", "lost", "outcome", "attempt", "notice", "stop", "end", "setup", "slow"),
    *("quarantine", "held", "released", "incomplete", "paused", "resumed", "resume", "learned", "x"),
]
NAMES = sorted({name for record in a_run() for name in record} - {"event"})
hostile = st.builds(
    lambda event, more: {**more, "event": event},
    st.sampled_from(KINDS),
    st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=4), json_values, max_size=6),
)
seconds = st.floats(0, 1e9)
texts = st.text(st.characters(codec=None), max_size=10)
labels = st.text(st.characters(codec="utf-8", exclude_characters="/"), min_size=1, max_size=6)
keys = st.builds(Key, labels, texts)
estimates = st.builds(Estimate, st.none() | seconds, known=st.booleans())
counts = st.integers(0, 10**6)
outcomes = st.builds(
    Outcome,
    keys,
    st.sampled_from(Status),
    st.none() | st.integers(0, 255),
    st.none() | seconds,
    st.none() | seconds,
    texts,
    st.lists(texts, max_size=3).map(tuple),
    st.integers(1, 9),
    st.booleans(),
    texts,
    st.sampled_from(["", "junit", "ran", "opaque", "allowed"]),
    estimates,
    st.builds(
        JUnitFacts,
        counts,
        st.builds(Tests, counts, counts, counts, counts),
        st.lists(st.tuples(texts, texts), max_size=3).map(tuple),
        texts,
        st.lists(texts, max_size=3).map(tuple),
    ),
    st.lists(st.builds(Leftover, counts, texts), max_size=3).map(tuple),
    seconds,
    st.booleans(),
)


@given(hostile)
def test_a_line_reads_back_as_its_record(record):
    text = journal.line(record)
    assert text.isascii()
    assert text.count("\n") == 1
    assert journal.parse(text) == ([record], ())


@given(outcomes)
def test_an_outcome_survives_the_journal(outcome):
    records, notices = journal.parse(journal.line(journal.outcome_record(outcome)))
    state = journal.fold(records)
    assert (state.outcomes, notices, state.notices) == ((outcome,), (), ())


@given(st.lists(hostile, max_size=6), st.integers(0, 20))
def test_hostile_records_never_raise_and_never_hide_an_outcome(some, place):
    records = a_run()
    # A further part begins with what is left of the ones before, and says so in its outcomes.
    records[place:place] = [record for record in some if record["event"] not in ("outcome", "resume")]
    state = journal.fold(records)
    assert set(state.outcomes) == {LOST, PASSED}
    journal.fold([*a_run(), *some])


@given(st.data())
def test_any_value_of_a_record_may_be_damaged(data):
    records = json.loads(json.dumps(a_run()))
    at = data.draw(st.integers(0, len(records) - 1))
    name = data.draw(st.sampled_from(sorted(set(records[at]) - {"event"})))
    records[at][name] = data.draw(json_values)
    state = journal.fold(records)
    assert len(state.outcomes) + sum("damaged" in notice.text for notice in state.notices) >= 2


@given(st.integers(0, 5000), st.binary(max_size=40))
def test_every_cut_and_every_splinter_folds(cut, garbage):
    text = "".join(map(journal.line, a_run()))
    spoilt = text[:cut] + garbage.decode("utf-8", "replace") + text[cut:]
    for one in (text[:cut], spoilt):
        records, _ = journal.parse(one)
        state = journal.fold(records)
        assert set(state.outcomes) <= {LOST, PASSED} or "outcome" in one


def test_every_prefix_folds_and_knows_no_more_than_the_whole():
    records = a_run()
    count = 0
    for end in range(len(records) + 1):
        state = journal.fold(records[:end])
        assert state.notices in ((), (Notice("a broken line", "w.txt:3"),))
        assert len(state.outcomes) >= count
        count = len(state.outcomes)
