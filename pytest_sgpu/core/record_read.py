"""The records of a journal as they are read: values of the right kind, or a DamageError that says what is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pytest_sgpu.core.fields import DamageError, Fields
from pytest_sgpu.model import (
    UNKNOWN,
    Census,
    Estimate,
    Item,
    JUnitFacts,
    Key,
    Leftover,
    Mode,
    Outcome,
    Plan,
    PlanEntry,
    Scope,
    Status,
    Suite,
    Tests,
)

_MODES = frozenset(mode.value for mode in Mode)
_LEAST_CODE = -(1 << 32)  # an exit code below 0 is nothing that this program writes, but it is a number


def run(fields: Fields) -> dict[str, Any]:
    """Read what a run begins with, as fields of the state."""
    devices, suites = _devices(fields), _suites(fields)
    weights = fields.row("weights", "read", "write")
    return {
        "started": fields.number("started", 0.0),
        "scope": Scope(fields.text("arch", ""), fields.text("level", "")),
        "devices": tuple(devices),
        "device_ids": devices,
        "suites": suites,
        "labels": fields.texts("labels"),
        "digest": fields.text("digest", ""),
        "commit": fields.text("commit", ""),
        "weights": (weights.text("read", ""), weights.text("write", "")) if weights else ("", ""),
        "rerun": fields.text("rerun", ""),
        "root": fields.text("root", ""),
        "version": fields.whole("version", 1),
        "secrets": fields.texts("secrets"),
    }


@dataclass(frozen=True, slots=True)
class Resume:
    """What a further part begins with. ``over`` lays it over the fields of the state so far."""

    started: float
    digest: str
    commit: str
    devices: Mapping[str, str]
    suites: tuple[Suite, ...]
    labels: tuple[str, ...]
    secrets: tuple[str, ...]

    def over(self, head: Mapping[str, Any]) -> dict[str, Any]:
        """Give the fields of the state that are other ones now."""
        ids = {**head.get("device_ids", {}), **self.devices}
        new = {suite.label for suite in self.suites}
        old = [suite for suite in head.get("suites", ()) if suite.label not in new]
        return {
            "digest": self.digest,
            "commit": self.commit,
            "devices": tuple(ids),
            "device_ids": ids,
            "suites": (*old, *self.suites),
            "labels": self.labels or head.get("labels", ()),
            "secrets": tuple(sorted({*head.get("secrets", ()), *self.secrets})),
        }


def resume(fields: Fields) -> Resume:
    """Read what a further part begins with."""
    return Resume(
        fields.number("started", 0.0),
        fields.text("digest", ""),
        fields.text("commit", ""),
        _devices(fields),
        _suites(fields),
        fields.texts("labels"),
        fields.texts("secrets"),
    )


def _devices(fields: Fields) -> dict[str, str]:
    return {row.text("name"): row.text("id") for row in fields.rows("devices", "name", "id")}


def _suites(fields: Fields) -> tuple[Suite, ...]:
    rows = fields.rows("suites", "label", "log", "mode", "command", "conf", "line")
    return tuple(_suite(row) for row in rows)


def _suite(row: Fields) -> Suite:
    mode = row.text("mode")
    if mode not in _MODES:
        raise DamageError("the mode of a suite is neither list nor opaque")
    return Suite(
        row.text("label"), row.text("log"), Mode(mode), row.texts("command"), row.text("conf"), row.whole("line")
    )


def plan(fields: Fields) -> dict[str, Any]:
    """Read a plan and its census, as fields of the state."""
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


def outcome(fields: Fields) -> Outcome:
    """Read the end of an attempt."""
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
        left=tuple(Leftover(row.whole("pid"), row.text("command")) for row in fields.rows("left", "pid", "command")),
        late=fields.number("late", 0.0),
        flaky_fails=fields.flag("flaky_fails", default=False),
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
