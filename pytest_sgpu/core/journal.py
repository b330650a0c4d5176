"""The one source of truth of a run: event records, their lines, and the fold to the state of the run.

Format (version 1, docs/reference/formats.md): one JSON object per line, with ``event`` saying which
kind. Readers skip kinds and fields that they do not know, and tolerate a torn last line.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pytest_sgpu.model import (
    UNKNOWN,
    Census,
    Device,
    Estimate,
    Item,
    JUnitFacts,
    Key,
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

VERSION = 1
Record = dict[str, Any]


@dataclass(frozen=True, slots=True)
class RunState:
    """What is known of a run, folded from its records.

    ``outcomes`` follow the plan; ``device_ids`` maps the names of ``devices`` to their entries in the mask.
    """

    started: float = 0.0
    scope: Scope = field(default_factory=lambda: Scope("", ""))
    devices: tuple[str, ...] = ()
    device_ids: Mapping[str, str] = field(default_factory=dict)
    suites: tuple[Suite, ...] = ()
    labels: tuple[str, ...] = ()
    plan: Plan = field(default_factory=lambda: Plan((), 1))
    predicted: float = 0.0
    census: Census = field(default_factory=lambda: Census(frozenset(), frozenset(), frozenset()))
    notices: tuple[Notice, ...] = ()
    outcomes: tuple[Outcome, ...] = ()
    running: tuple[tuple[Key, str, float], ...] = ()
    interrupted: str = ""
    wall: float = 0.0
    ended: bool = False


def line(record: Mapping[str, Any]) -> str:
    """Write one record as its line. Text that is no Unicode is escaped, so the line is always ASCII."""
    return json.dumps(record, separators=(",", ":"), ensure_ascii=True) + "\n"


def parse(text: str) -> tuple[list[Record], tuple[Notice, ...]]:
    """Read records. A torn last line is dropped; any other line that is none is dropped with a notice."""
    records: list[Record] = []
    notices: list[Notice] = []
    lines = text.split("\n")
    for number, one in enumerate(lines, start=1):
        if not one.strip():
            continue
        try:
            record = json.loads(one)
        except ValueError:
            record = None
        if isinstance(record, dict) and isinstance(record.get("event"), str):
            records.append(record)
        elif number != len(lines):
            notices.append(Notice("no journal record, skipped", f"journal.jsonl:{number}"))
    return records, tuple(notices)


def run_record(
    *,
    started: float,
    scope: Scope,
    devices: Iterable[Device],
    suites: Iterable[Suite],
    labels: Iterable[str],
    **more: str | float,
) -> Record:
    """Give the first record of a run. ``started`` is epoch seconds; ``labels`` are all suites of the conf."""
    return {
        "event": "run",
        "version": VERSION,
        "started": started,
        "arch": scope.arch,
        "level": scope.level,
        "devices": [[device.name, device.id, device.variable, device.arch] for device in devices],
        "suites": [
            [suite.label, suite.log_name, suite.mode.value, list(suite.command), suite.conf, suite.line]
            for suite in suites
        ],
        "labels": list(labels),
        **more,
    }


def plan_record(plan: Plan, predicted: float, census: Census) -> Record:
    """Give the record of the plan, in its order, and of the census that goes with it."""
    return {
        "event": "plan",
        "devices": plan.devices,
        "predicted": predicted,
        "entries": [
            [str(e.item.key), list(e.item.command), e.item.gpus, e.item.position, e.estimate.seconds, e.estimate.known]
            for e in plan.entries
        ],
        "runnable": sorted(str(key) for key in census.runnable),
        "known": sorted(str(key) for key in census.known),
        "listed": sorted(census.listed),
    }


def outcome_record(outcome: Outcome) -> Record:
    """Give the record of the end of an item."""
    facts = outcome.junit
    return {
        "event": "outcome",
        "key": str(outcome.key),
        "status": outcome.status.name,
        "exit_code": outcome.exit_code,
        "start": outcome.start,
        "stop": outcome.stop,
        "worker": outcome.worker,
        "devices": list(outcome.devices),
        "attempt": outcome.attempt,
        "complete": outcome.complete,
        "reason": outcome.reason,
        "proof": outcome.proof,
        "estimate": [outcome.estimate.seconds, outcome.estimate.known],
        "junit": {
            "files": facts.files,
            "tests": [facts.tests.cases, facts.tests.failures, facts.tests.errors, facts.tests.skipped],
            "failing": [list(pair) for pair in facts.failing],
            "damage": facts.damage,
            "warnings": list(facts.warnings),
        },
    }


def notice_record(notice: Notice) -> Record:
    """Give the record of something that was said aloud."""
    return {"event": "notice", "text": notice.text, "where": notice.where}


def fold(records: Iterable[Record]) -> RunState:
    """Give the state of the run after these records. Later records of one key replace earlier ones."""
    first: Record = {}
    plan: Record = {}
    outcomes: dict[Key, Outcome] = {}
    running: dict[Key, tuple[Key, str, float]] = {}
    notices: list[Notice] = []
    interrupted, wall, ended = "", 0.0, False
    for record in records:
        event = record["event"]
        wall = max(wall, float(record.get("at") or record.get("stop") or 0.0))
        if event == "run":
            first = record
        elif event == "plan":
            plan = record
        elif event == "assign":
            key = Key.parse(record["key"])
            running[key] = (key, record.get("worker", ""), float(record["at"]))
        elif event == "outcome":
            outcome = _outcome(record)
            outcomes[outcome.key] = outcome
            running.pop(outcome.key, None)
        elif event == "notice":
            notices.append(Notice(record["text"], record.get("where", "")))
        elif event == "stop":
            interrupted = interrupted or record["reason"]
        elif event == "end":
            ended = True
    entries = _entries(plan)
    known = [entry.item.key for entry in entries]
    return RunState(
        started=float(first.get("started", 0.0)),
        scope=Scope(first.get("arch", ""), first.get("level", "")),
        devices=tuple(name for name, *_ in first.get("devices", ())),
        device_ids={name: id_ for name, id_, *_ in first.get("devices", ())},
        suites=tuple(
            Suite(label, log, Mode(mode), tuple(command), conf, number)
            for label, log, mode, command, conf, number in first.get("suites", ())
        ),
        labels=tuple(first.get("labels", ())),
        plan=Plan(entries, int(plan.get("devices", 1))),
        predicted=float(plan.get("predicted", 0.0)),
        census=_census(plan),
        notices=tuple(notices),
        outcomes=tuple(outcomes[key] for key in known if key in outcomes),
        running=tuple(running.values()),
        interrupted=interrupted,
        wall=wall,
        ended=ended,
    )


def _entries(plan: Record) -> tuple[PlanEntry, ...]:
    return tuple(
        PlanEntry(rank, Item(Key.parse(key), tuple(command), gpus, position), Estimate(seconds, known))
        for rank, (key, command, gpus, position, seconds, known) in enumerate(plan.get("entries", ()), start=1)
    )


def _census(plan: Record) -> Census:
    def keys(name: str) -> frozenset[Key]:
        return frozenset(Key.parse(text) for text in plan.get(name, ()))

    return Census(keys("runnable"), keys("known"), frozenset(plan.get("listed", ())))


def _outcome(record: Record) -> Outcome:
    junit = record.get("junit") or {}
    estimate = record.get("estimate")
    return Outcome(
        key=Key.parse(record["key"]),
        status=Status[record["status"]],
        exit_code=record.get("exit_code"),
        start=record.get("start"),
        stop=record.get("stop"),
        worker=record.get("worker", ""),
        devices=tuple(record.get("devices", ())),
        attempt=int(record.get("attempt", 1)),
        complete=bool(record.get("complete", False)),
        reason=record.get("reason", ""),
        proof=record.get("proof", ""),
        estimate=Estimate(estimate[0], known=bool(estimate[1])) if estimate else UNKNOWN,
        junit=JUnitFacts(
            files=int(junit.get("files", 0)),
            tests=Tests(*junit.get("tests", ())),
            failing=tuple((name, message) for name, message in junit.get("failing", ())),
            damage=junit.get("damage", ""),
            warnings=tuple(junit.get("warnings", ())),
        ),
    )
