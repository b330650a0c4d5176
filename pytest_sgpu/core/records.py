"""The records of a journal as they are written: one function per kind that holds more than a line can show."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from pytest_sgpu.model import Census, Device, Key, Notice, Outcome, Plan, Quarantine, Scope, Suite

VERSION = 1
Record = dict[str, Any]

# What names a thing stays as it is: changed, it would name another one, or none. Everything else is words.
_NAMES = frozenset(
    """event key keys status worker devices suite labels runnable known listed digest commit arch level proof
    why secrets""".split()  # noqa: SIM905 - a list that is read, not typed
)
_WORDS_IN_ROWS = {"entries": 1, "suites": 3}  # the one column that is no name: the command


def run_record(
    *,
    started: float,
    scope: Scope,
    devices: Iterable[Device],
    suites: Iterable[Suite],
    labels: Iterable[str],
    digest: str = "",
    commit: str = "",
    weights: tuple[str, str] = ("", ""),
    rerun: str = "",
    root: str = "",
    **more: str | float,
) -> Record:
    """Give the first record of a run.

    ``started`` is epoch seconds; ``labels`` are all suites of the conf; ``digest`` stands for the text of the
    conf files; ``weights`` are the tables that are read and written; ``rerun`` is the command line that runs
    an item again, quoted, up to the node id; ``root`` is the folder that suite commands are relative to.
    """
    return {
        "event": "run",
        "version": VERSION,
        "started": started,
        "arch": scope.arch,
        "level": scope.level,
        "devices": _devices(devices),
        "suites": _suites(suites),
        "labels": list(labels),
        "digest": digest,
        "commit": commit,
        "weights": list(weights),
        "rerun": rerun,
        "root": root,
        **more,
    }


def resume_record(
    *,
    started: float,
    at: float,
    digest: str = "",
    commit: str = "",
    devices: Iterable[Device] = (),
    suites: Iterable[Suite] = (),
    labels: Iterable[str] = (),
) -> Record:
    """Give the record that begins a further part of a run, ``at`` seconds on the clock of the whole.

    ``devices`` and ``suites`` are added to those of the parts before; ``labels``, when there are any, take
    the place of the old ones. A plan record may follow: that of the whole, in its new order.
    """
    return {
        "event": "resume",
        "started": started,
        "at": at,
        "digest": digest,
        "commit": commit,
        "devices": _devices(devices),
        "suites": _suites(suites),
        "labels": list(labels),
    }


def _devices(devices: Iterable[Device]) -> list[list[str]]:
    return [[device.name, device.id, device.variable, device.arch] for device in devices]


def _suites(suites: Iterable[Suite]) -> list[list[object]]:
    return [
        [suite.label, suite.log_name, suite.mode.value, list(suite.command), suite.conf, suite.line] for suite in suites
    ]


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
        "left": [[process.pid, process.command] for process in outcome.left],
        "late": outcome.late,
        "flaky_fails": outcome.flaky_fails,
    }


def attempt_record(outcome: Outcome, why: str) -> Record:
    """Give the record of an attempt that is not the last one of its item.

    ``why``: ``retry``, ``lost``, ``quarantine``, ``probe`` or ``resumed``.
    """
    return {**outcome_record(outcome), "event": "attempt", "why": why}


def notice_record(notice: Notice) -> Record:
    """Give the record of something that was said aloud."""
    return {"event": "notice", "text": notice.text, "where": notice.where}


def quarantine_record(quarantine: Quarantine) -> Record:
    """Give the record of a device that gets no more items."""
    return {
        "event": "quarantine",
        "worker": quarantine.worker,
        "devices": list(quarantine.devices),
        "at": quarantine.at,
        "reason": quarantine.reason,
    }


def learned_record(keys: Iterable[Key] = ()) -> Record:
    """Give the record of the keys whose times are in the weight table by now: they teach nothing again."""
    return {"event": "learned", "keys": sorted(str(key) for key in keys)}


def redacted(record: Record, clean: Callable[[str], str]) -> Record:
    """Give the record with ``clean`` applied to all its words; what names a thing stays as it is."""
    return {name: value if name in _NAMES else _clean(value, clean, name) for name, value in record.items()}


def _clean(value: object, clean: Callable[[str], str], name: str = "") -> object:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {key: _clean(inner, clean) for key, inner in value.items()}
    if not isinstance(value, list):
        return value
    if name in _WORDS_IN_ROWS:
        column = _WORDS_IN_ROWS[name]
        return [[*row[:column], _clean(row[column], clean), *row[column + 1 :]] for row in value]
    return [_clean(inner, clean) for inner in value]
