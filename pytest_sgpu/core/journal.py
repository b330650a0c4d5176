"""The one source of truth of a run: event records, their lines, and the fold to the state of the run.

Format (version 1, docs/reference/formats.md): one JSON object per line, with ``event`` saying which
kind. Readers skip kinds and fields that they do not know, tolerate a torn last line, and leave out
with a notice whatever else is damaged.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pytest_sgpu.core.cells import capped
from pytest_sgpu.core.fields import DamageError, Fields
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
_NAME = "journal.jsonl"
Record = dict[str, Any]

_MODES = frozenset(mode.value for mode in Mode)
_LEAST_CODE = -(1 << 32)  # an exit code below 0 is nothing that this program writes, but it is a number


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
    """Read the records of a whole text, as ``read`` does, and the notices."""
    notices: list[Notice] = []
    *whole, last = text.split("\n")
    records = list(read([*(f"{one}\n" for one in whole), last], notices))
    return records, capped(notices, _NAME)


def read(lines: Iterable[str], notices: list[Notice]) -> Iterator[Record]:
    """Give the records of these lines, one at a time, so that a long journal never stands in memory.

    A torn last line (one without its end) is dropped; any other line that is no record is dropped with a
    notice, which is added to ``notices``.
    """
    for number, one in enumerate(lines, start=1):
        if not one.strip():
            continue
        try:
            record = json.loads(one)
        except (ValueError, RecursionError):
            record = None
        if isinstance(record, dict) and isinstance(record.get("event"), str):
            yield record
        elif one.endswith("\n"):
            notices.append(Notice("no journal record, skipped", f"{_NAME}:{number}"))


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
    """Give the state of the run after these records. Later records of one key replace earlier ones.

    Never fails: a record that does not hold what its kind holds is left out, with a notice that says so.
    Outcomes are never lost with a damaged plan: those of keys that it does not name follow in their order.
    """
    state = _Folding()
    for number, record in enumerate(records, start=1):
        state.take(record, number)
    return state.result()


@dataclass(slots=True)
class _Folding:
    """What ``fold`` has so far."""

    run: dict[str, Any] = field(default_factory=dict)
    plan: dict[str, Any] = field(default_factory=dict)
    outcomes: dict[Key, Outcome] = field(default_factory=dict)
    running: dict[Key, tuple[Key, str, float]] = field(default_factory=dict)
    notices: list[Notice] = field(default_factory=list)
    damage: list[Notice] = field(default_factory=list)
    interrupted: str = ""
    wall: float = 0.0
    ended: bool = False

    def take(self, record: Record, number: int) -> None:
        """Take one record, whole or not at all."""
        try:
            self._take(Fields(record))
        except DamageError as error:
            self.damage.append(Notice(f"a damaged record is left out: {error}", f"{_NAME}, record {number}"))

    def _take(self, fields: Fields) -> None:
        event = fields.text("event")
        at = fields.maybe_number("at") or fields.maybe_number("stop") or 0.0
        if event == "run":
            self.run = _run(fields)
        elif event == "plan":
            self.plan = _plan(fields)
        elif event == "assign":
            key = Key.parse(fields.text("key"))
            self.running[key] = (key, fields.text("worker", ""), at)
        elif event == "outcome":
            outcome = _outcome(fields)
            self.outcomes[outcome.key] = outcome
            self.running.pop(outcome.key, None)
        elif event == "notice":
            self.notices.append(Notice(fields.text("text"), fields.text("where", "")))
        elif event == "stop":
            reason = fields.text("reason")
            self.interrupted = self.interrupted or reason
        elif event == "end":
            self.ended = True
        self.wall = max(self.wall, at)

    def result(self) -> RunState:
        """Give the state of the run."""
        plan: Plan | None = self.plan.get("plan")
        planned = [entry.item.key for entry in plan.entries] if plan else []
        order = dict.fromkeys((*planned, *self.outcomes))
        return RunState(
            **self.run,
            **self.plan,
            notices=(*self.notices, *capped(self.damage, _NAME)),
            outcomes=tuple(self.outcomes[key] for key in order if key in self.outcomes),
            running=tuple(self.running.values()),
            interrupted=self.interrupted,
            wall=self.wall,
            ended=self.ended,
        )


def _run(fields: Fields) -> dict[str, Any]:
    devices = [(row.text("name"), row.text("id")) for row in fields.rows("devices", "name", "id")]
    suites = fields.rows("suites", "label", "log", "mode", "command", "conf", "line")
    return {
        "started": fields.number("started", 0.0),
        "scope": Scope(fields.text("arch", ""), fields.text("level", "")),
        "devices": tuple(name for name, _ in devices),
        "device_ids": dict(devices),
        "suites": tuple(_suite(row) for row in suites),
        "labels": fields.texts("labels"),
    }


def _suite(row: Fields) -> Suite:
    mode = row.text("mode")
    if mode not in _MODES:
        raise DamageError("the mode of a suite is neither list nor opaque")
    return Suite(
        row.text("label"), row.text("log"), Mode(mode), row.texts("command"), row.text("conf"), row.whole("line")
    )


def _plan(fields: Fields) -> dict[str, Any]:
    rows = fields.rows("entries", "key", "command", "gpus", "position", "seconds", "known")
    entries = tuple(
        PlanEntry(
            rank,
            Item(Key.parse(row.text("key")), row.texts("command"), row.whole("gpus", least=1), row.whole("position")),
            Estimate(row.maybe_number("seconds"), known=row.flag("known")),
        )
        for rank, row in enumerate(rows, start=1)
    )

    def keys(name: str) -> frozenset[Key]:
        return frozenset(Key.parse(text) for text in fields.texts(name))

    return {
        "plan": Plan(entries, fields.whole("devices", 1, least=1)),
        "predicted": fields.number("predicted", 0.0),
        "census": Census(keys("runnable"), keys("known"), frozenset(fields.texts("listed"))),
    }


def _outcome(fields: Fields) -> Outcome:
    status = fields.text("status")
    if status not in Status.__members__:
        raise DamageError("status is none that there is")
    estimate = fields.row("estimate", "seconds", "known")
    return Outcome(
        key=Key.parse(fields.text("key")),
        status=Status[status],
        exit_code=fields.maybe_whole("exit_code", least=_LEAST_CODE),
        start=fields.maybe_number("start"),
        stop=fields.maybe_number("stop"),
        worker=fields.text("worker", ""),
        devices=fields.texts("devices"),
        attempt=fields.whole("attempt", 1),
        complete=fields.flag("complete", default=False),
        reason=fields.text("reason", ""),
        proof=fields.text("proof", ""),
        estimate=Estimate(estimate.maybe_number("seconds"), known=estimate.flag("known")) if estimate else UNKNOWN,
        junit=_facts(fields.inner("junit")),
    )


def _facts(fields: Fields) -> JUnitFacts:
    tests = fields.row("tests", "cases", "failures", "errors", "skipped")
    counts = [tests.whole(name, 0) for name in ("cases", "failures", "errors", "skipped")] if tests else []
    failing = fields.rows("failing", "name", "message")
    return JUnitFacts(
        files=fields.whole("files", 0),
        tests=Tests(*counts),
        failing=tuple((row.text("name"), row.text("message")) for row in failing),
        damage=fields.text("damage", ""),
        warnings=fields.texts("warnings"),
    )
