"""The plan for people (a table and its totals) and for programs (JSON, docs/reference/plan.schema.json).

Seconds throughout. Unknown items are counted apart and never as seconds: an estimate is ``?``, or ``~73.0``
where sibling items give a guess, and no total holds either.
"""

from __future__ import annotations

import json as jsonlib
from collections.abc import Iterable, Sequence

from pytest_sgpu.core import text as texts
from pytest_sgpu.core.redact import Clean, unchanged
from pytest_sgpu.model import Device, Estimate, Key, Notice, Plan, PlanEntry, Scope
from pytest_sgpu.report.pieces import key_text, plain, table

SCHEMA = "pytest-sgpu/plan"
VERSION = 1
LIMIT = 200  # entries of a plan that is shown before a run; --sgpu-plan shows all
_HEADER = (("rank", ""), ("estimate", ""), ("GPUs", ""), ("key", ""))

_MINUTE = 60


def text(plan: Plan, predicted: float, width: int, *, limit: int | None = None) -> list[str]:
    """Give the plan as lines: rank, estimate, GPUs, key, then the totals.

    ``predicted``: the simulated wall time. ``limit``: at most so many entries are shown, the longest
    part of them from the front. Keys are never cut, so a line may be wider than ``width``; the totals
    are broken at commas to fit it.
    """
    head, tail, left_out = _elide(plan.entries, limit)
    rows = [_HEADER, *map(_row, head), *map(_row, tail)]
    lines = [plain(one).rstrip() for one in table(rows, left=(3,))]
    if left_out:
        note = f"  ... {texts.counted(left_out, 'item')} not shown here, --sgpu-plan shows all of them"
        lines.insert(1 + len(head), note)
    return [*lines, "", *_totals(plan, predicted, width)]


def _elide(entries: Sequence[PlanEntry], limit: int | None) -> tuple[Sequence[PlanEntry], Sequence[PlanEntry], int]:
    if limit is None or len(entries) <= limit:
        return entries, (), 0
    behind = limit // 4
    ahead = limit - behind
    return entries[:ahead], entries[len(entries) - behind :], len(entries) - limit


def _row(entry: PlanEntry) -> tuple[tuple[str, str], ...]:
    item = entry.item
    return (str(entry.rank), ""), (_estimate(entry.estimate), ""), (str(item.gpus), ""), (key_text(item.key), "")


def _estimate(estimate: Estimate) -> str:
    if estimate.seconds is None:
        return "?"
    return f"{estimate.seconds:.1f}" if estimate.known else f"~{estimate.seconds:.1f}"


def _totals(plan: Plan, predicted: float, width: int) -> list[str]:
    devices = texts.counted(plan.devices, "device")
    known = len(plan.entries) - plan.unknown
    lines = _fit(
        [texts.counted(len(plan.entries), "item"), f"{known} of known duration", f"{plan.unknown} unknown"], width
    )
    if known:
        longest = max((e for e in plan.entries if e.estimate.known), key=lambda e: e.estimate.seconds or 0.0)
        lines += _fit(
            [f"work {_seconds(plan.total)}", f"longest item {_seconds(plan.longest)}: {key_text(longest.item.key)}"],
            width,
        )
        lines += _fit(
            [f"bound on {devices} {_seconds(plan.lower_bound)} = max(work / {plan.devices}", "longest)"], width
        )
    if not plan.entries:
        return lines
    guessed = any(e.estimate.seconds is not None for e in plan.entries)
    figure = _seconds(predicted) if guessed else "not known: every item is new"
    if guessed and plan.unknown:
        figure = f"at least {figure}"
    lines += _fit([f"predicted wall on {devices} {figure}"], width)
    if plan.unknown and known:
        lines += _fit(["unknown items count as 0 s, or as their guess (~)"], width)
    return lines


def _seconds(seconds: float) -> str:
    """Give seconds, and how a person reads them where that differs."""
    return f"{seconds:.1f}s ({texts.duration(seconds)})" if seconds >= _MINUTE else f"{seconds:.1f}s"


def _fit(parts: Sequence[str], width: int) -> list[str]:
    """Join parts with commas, on a new line wherever the next part does not fit."""
    lines: list[str] = []
    for position, part in enumerate(parts):
        piece = part + ("," if position < len(parts) - 1 else "")
        if lines and len(lines[-1]) + 1 + len(piece) <= width:
            lines[-1] += " " + piece
        else:
            lines.append(piece if not lines else "  " + piece)
    return lines


def json(  # noqa: PLR0917 - as the document has them
    plan: Plan,
    predicted: float,
    scope: Scope,
    devices: Iterable[Device],
    notices: Iterable[Notice] = (),
    deselected: Iterable[Key] = (),
    clean: Clean = unchanged,
) -> str:
    """Give the plan as JSON, schema ``pytest-sgpu/plan`` version 1: pure ASCII, ends with a line end.

    Within version 1 fields are only ever added. ``deselected``: what the caller's filters left out.
    ``clean`` takes the secrets out of commands and notices.
    """
    document = {
        "schema": SCHEMA,
        "version": VERSION,
        "scope": {"arch": scope.arch, "level": scope.level},
        "devices": [{"name": d.name, "id": d.id, "variable": d.variable, "arch": d.arch} for d in devices],
        "entries": [_entry(entry, clean) for entry in plan.entries],
        "totals": {
            "items": len(plan.entries),
            "unknown": plan.unknown,
            "work": round(plan.total, 3),
            "longest": round(plan.longest, 3),
            "bound": round(plan.lower_bound, 3),
            "predicted": round(predicted, 3),
        },
        "deselected": [str(key) for key in deselected],
        "notices": [{"where": clean(notice.where), "text": clean(notice.text)} for notice in notices],
    }
    return jsonlib.dumps(document, indent=1, ensure_ascii=True, allow_nan=False) + "\n"


def _entry(entry: PlanEntry, clean: Clean) -> dict[str, object]:
    item, estimate = entry.item, entry.estimate
    return {
        "rank": entry.rank,
        "key": str(item.key),
        "suite": item.key.suite,
        "tag": item.key.tag,
        "gpus": item.gpus,
        "estimate": {"seconds": estimate.seconds, "known": estimate.known},
        "command": list(map(clean, item.command)),
    }
