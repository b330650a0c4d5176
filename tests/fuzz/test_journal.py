"""Journals that are damaged: a state without an error, a damaged record left out whole, no pass from nowhere."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from pytest_sgpu.core import journal, resume, tables, timeline, verdict, weights
from pytest_sgpu.core.journal import RunState
from pytest_sgpu.core.text import is_plain
from pytest_sgpu.model import Key, Status, WeightTable
from pytest_sgpu.report import junit_write
from tests.fuzz.conftest import COUNTS, JOURNAL, OTHERS, RECORDS, WHOLE, Dice, fuzz

PASSES = ("PASSED", "FLAKY")


def test_the_seed_is_whole():
    """What the mutations start from has no damage, and one item at least of each kind of end."""
    assert {record["event"] for record in RECORDS} >= {"run", "plan", "attempt", "outcome", "resume", "learned", "end"}
    records, notices = journal.parse(JOURNAL.decode())
    state = journal.fold(records)
    assert (records, notices) == (list(RECORDS), ())
    assert [notice.text for notice in state.notices] == ["a broken line"]
    assert {str(outcome.key): outcome.status for outcome in state.outcomes if outcome.status.name in PASSES} == {
        "torch/a": Status.PASSED,
        "torch/b": Status.FLAKY,
        "torch/d": Status.PASSED,
    }


@pytest.mark.parametrize("count", COUNTS)
def test_journal_lines(count):
    fuzz("journal lines", count, _check_lines)


def _check_lines(dice: Dice) -> None:
    """Damage the text: whole lines keep their meaning, others are a record or a notice that names the line."""
    data = dice.mutated(JOURNAL, OTHERS)
    dice.told = data
    text = data.decode("utf-8", "replace")
    records, notices = journal.parse(text)
    lines = text.split("\n")
    saying = [number for number, line in enumerate(lines, start=1) if line.strip()]
    told = [int(notice.where.rpartition(":")[2]) for notice in notices[:50]]
    assert set(told) <= set(saying)
    if len(notices) <= 50:
        torn = bool(lines[-1].strip()) and len(saying) == len(records) + len(told) + 1
        assert len(saying) == len(records) + len(told) + torn
    written = [journal.line(record) for record in records]
    rest = iter(written)
    assert all(line in rest for line in (f"{line}\n" for line in lines) if line in WHOLE)  # untouched, in their order
    state = journal.fold(records)
    _check_state(dice, state, records)
    assert all(line.isascii() for line in written)
    assert list(map(journal.line, journal.parse("".join(written))[0])) == written


@pytest.mark.parametrize("count", COUNTS)
def test_journal_records(count):
    fuzz("journal records", count, _check_records)


def _check_records(dice: Dice) -> None:
    """Damage one record, field by field, and move records about: it is taken, or left out whole and told."""
    records = list(RECORDS)
    for _ in range(dice.one((0, 0, 0, 1, 3))):
        _moved(dice, records)
    at = dice.random.randrange(len(records))
    without = [*records[:at], *records[at + 1 :]]
    damaged = records[at]
    for _ in range(dice.count()):
        damaged = dice.confused(damaged)
    dice.told = (at, damaged, [record["event"] for record in records])
    made = [*records[:at], damaged, *records[at + 1 :]]
    lines = "".join(map(json.dumps, made)).encode() if dice.chance(50) else b"".join(_line(record) for record in made)
    read, notices = journal.parse(lines.decode())
    if not (isinstance(damaged, dict) and isinstance(damaged.get("event"), str)):
        assert not read or (_same(read, without) and len(notices) == 1)
        return
    if not read:
        return
    state = journal.fold(read)
    _check_state(dice, state, read)
    told = [notice for notice in state.notices if notice.where == f"journal.jsonl, record {at + 1}"]
    if told:  # whole or not at all
        kept = tuple(notice for notice in state.notices if notice not in told)
        assert replace(state, notices=kept) == journal.fold(without)
    else:
        untouched = {outcome.key: outcome for outcome in journal.fold(without).outcomes}
        if damaged["event"] not in {"run", "plan", "resume", "outcome", "attempt"}:
            assert {outcome.key: outcome for outcome in state.outcomes} == untouched


def test_a_time_that_is_in_no_calendar():
    """Such a start passed for a number, and ended the report with an error when it became a date."""
    state = journal.fold([{**RECORDS[0], "started": 1e14}, *RECORDS[1:]])
    assert state.notices[-1].text == "a damaged record is left out: started is no number"
    _check_completed(state)


def _check_completed(state: RunState) -> None:
    """Complete it as ``sgpu finalize`` does, and write it: one outcome per planned item, and no new pass."""
    done = resume.complete(state, state.wall + 1.0, "controller killed")
    assert not done.running
    keys = [outcome.key for outcome in done.outcomes]
    planned = {entry.item.key for entry in state.plan.entries}
    assert len(set(keys)) == len(keys)
    assert {*planned, *(outcome.key for outcome in state.outcomes)} <= set(keys)
    assert [outcome for outcome in done.outcomes if not outcome.failed] == [o for o in state.outcomes if not o.failed]
    assert {outcome.key: outcome for outcome in state.outcomes}.items() <= {o.key: o for o in done.outcomes}.items()
    left = resume.pending(state.plan, state)
    assert {entry.item.key for entry in left.entries} == planned - {o.key for o in state.outcomes if o.final}
    told = resume.differences(state, digest="5f1e", commit="\x1b", keys=planned)
    assert all(is_plain(sentence) for sentence in told)
    assert any("commit" in sentence for sentence in told)
    stream = io.BytesIO()
    total = junit_write.write(stream, map(junit_write.ItemXml, done.outcomes), started=state.started)
    assert (total.bad > 0) == any(outcome.failed for outcome in done.outcomes)
    assert len(list(ET.fromstring(stream.getvalue()).iter("testcase"))) == total.cases


def _line(record: Any) -> bytes:
    return (json.dumps(record) + "\n").encode()


def _moved(dice: Dice, records: list[dict[str, Any]]) -> None:
    at, to = dice.random.randrange(len(records)), dice.random.randrange(len(records))
    if dice.chance(3):
        records.insert(to, records[at])
    elif dice.chance(2) and len(records) > 2:
        del records[at]
    else:
        records[at], records[to] = records[to], records[at]


def _same(one: object, other: object) -> bool:
    """Whether two JSON values are the same, NaN and the sign of zero included."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def _check_state(dice: Dice, state: RunState, records: list[dict[str, Any]]) -> None:
    """Hold what is true of the state of any journal, however damaged."""
    keys = [outcome.key for outcome in state.outcomes]
    assert len(set(keys)) == len(keys)
    claimed = {
        Key.parse(record["key"])
        for record in records
        if record["event"] == "outcome" and record.get("status") in PASSES and isinstance(record.get("key"), str)
    }
    assert {outcome.key for outcome in state.outcomes if not outcome.status.failed} <= claimed
    last: dict[str, dict[str, Any]] = {}
    for record in records:
        if record["event"] == "resume":  # what was stopped, lost or not run is done again
            last = {key: one for key, one in last.items() if one.get("status") not in ("STOPPED", "LOST", "NOT_RUN")}
        elif record["event"] == "outcome" and isinstance(record.get("key"), str):
            last[record["key"]] = record
    found = {str(outcome.key): outcome for outcome in state.outcomes}
    for key, record in last.items():
        if journal.line(record) in WHOLE:
            assert (found[key].status.name, found[key].stop) == (record["status"], record["stop"])
    assert all(is_plain(notice.text) for notice in state.notices if notice.where.startswith("journal.jsonl"))
    labels = [suite.label for suite in state.suites]
    verdicts = verdict.verdicts(labels, state.outcomes)
    for one in verdicts:
        assert one.passed == (not any(outcome.failed for outcome in one.outcomes))
    timeline.build(state.outcomes, state.devices)
    if dice.chance(4):
        _check_completed(state)
    table = weights.learn(WeightTable(state.scope), weights.measured(state.outcomes))
    tables.format_weights(table)
    rows = "".join(tables.format_timing(tables.timing(outcome, state.device_ids)) for outcome in state.outcomes)
    tables.parse_timings(rows)
