"""The one source of truth of a run: event records, their lines, and the fold to the state of the run.

Format (version 1, docs/reference/formats.md): one JSON object per line, with ``event`` saying which
kind. Readers skip kinds and fields that they do not know, tolerate a torn last line, and leave out
with a notice whatever else is damaged. ``records`` writes them, ``record_read`` and ``fold`` read them;
this module has the lines, and the names of all three.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pytest_sgpu.core.cells import capped
from pytest_sgpu.core.fold import NAME, RunState, fold
from pytest_sgpu.core.records import (
    VERSION,
    Record,
    attempt_record,
    learned_record,
    notice_record,
    outcome_record,
    plan_record,
    quarantine_record,
    redacted,
    resume_record,
    run_record,
)
from pytest_sgpu.model import Notice

__all__ = [
    "NAME",
    "VERSION",
    "Record",
    "RunState",
    "attempt_record",
    "fold",
    "learned_record",
    "line",
    "notice_record",
    "outcome_record",
    "parse",
    "plan_record",
    "quarantine_record",
    "read",
    "redacted",
    "resume_record",
    "run_record",
    "whole",
]


def line(record: Mapping[str, Any]) -> str:
    """Write one record as its line. Text that is no Unicode is escaped, so the line is always ASCII."""
    return json.dumps(record, separators=(",", ":"), ensure_ascii=True) + "\n"


def parse(text: str) -> tuple[list[Record], tuple[Notice, ...]]:
    """Read the records of a whole text, as ``read`` does, and the notices."""
    notices: list[Notice] = []
    *ended, last = text.split("\n")
    records = list(read([*(f"{one}\n" for one in ended), last], notices))
    return records, capped(notices, NAME)


def read(lines: Iterable[str], notices: list[Notice]) -> Iterator[Record]:
    """Give the records of these lines, one at a time, so that a long journal never stands in memory.

    A torn last line (one without its end) is dropped; any other line that is no record is dropped with a
    notice, which is added to ``notices``.
    """
    for number, one in enumerate(lines, start=1):
        if not one.strip():
            continue
        record = _record(one)
        if record is not None:
            yield record
        elif one.endswith("\n"):
            notices.append(Notice("no journal record, skipped", f"{NAME}:{number}"))


def whole(one: str) -> bool:
    """Whether a line that lacks its end lacks nothing else."""
    return _record(one) is not None


def _record(one: str) -> Record | None:
    try:
        record = json.loads(one)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) and isinstance(record.get("event"), str) else None
