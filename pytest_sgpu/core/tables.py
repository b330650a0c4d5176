"""The text formats of a run: weights, ``queue.tsv``, ``items.tsv``, ``timings.tsv`` (spec: queue, 2).

All of them are one record a line, in UTF-8, and never end a run: a line that cannot be read is left out,
with a Notice that names it. Readers skip blank lines and ``#`` lines, and columns that they do not know.

In the three tables with tabs, an opaque suite has the tag ``whole``; how cells are written: ``core.cells``.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pytest_sgpu.core.cells import (
    NONE,
    BadLineError,
    capped,
    escaped,
    is_number,
    key_cells,
    key_of,
    optional_seconds,
    rows,
    seconds_of,
    tsv,
    unescaped,
    whole_number,
)
from pytest_sgpu.core.redact import Clean, unchanged
from pytest_sgpu.core.text import is_plain, printable, shown
from pytest_sgpu.core.verdict import exit_code
from pytest_sgpu.model import UNKNOWN, Census, Estimate, Key, Notice, Outcome, PlanEntry, Scope, WeightTable

WEIGHTS_VERSION = 1
UNKNOWN_WEIGHT = "999999"

_VERSION = re.compile(r"#\s*pytest-sgpu weights ([0-9]{1,9})\s*")


# Weights


def parse_weights(data: bytes, name: str, scope: Scope) -> tuple[WeightTable, tuple[Notice, ...], bool]:
    """Read a weight table: ``<suite>/<tag> <seconds>`` or ``<suite> <seconds>``, split at the last blank.

    Never fails. Left out with a Notice at ``name:line``: no key, no value, no number, ``nan``, ``inf``,
    negative or more than 1e9 seconds, control characters, bytes that are no UTF-8. Of two lines of one
    key the last one counts, with a Notice. After 50 notices the others are counted in one more.

    A first line ``# pytest-sgpu weights N`` gives the version of the format; without one it is 1. The flag
    is True when that is newer than this reader: the table is then empty, and is not to be overwritten.
    """
    lines = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    version = _VERSION.fullmatch(lines[0].decode("ascii", "replace"))
    if version and int(version[1]) > WEIGHTS_VERSION:
        text = f"a weight table of version {version[1]}, from a newer pytest-sgpu; not used"
        return WeightTable(scope), (Notice(text, f"{printable(name)}:1"),), True
    entries: dict[Key, float] = {}
    first: dict[Key, int] = {}
    notices: list[Notice] = []
    for number, raw in enumerate(lines, start=1):
        try:
            found = _weight(raw)
        except BadLineError as error:
            notices.append(Notice(f"{error}; this weight is left out", f"{printable(name)}:{number}"))
            continue
        if found is None:
            continue
        key, seconds = found
        if key in entries:
            text = f"{printable(str(key))} was in line {first[key]} already; the last one counts, {seconds:.1f}"
            notices.append(Notice(text, f"{printable(name)}:{number}"))
        entries[key] = seconds
        first.setdefault(key, number)
    return WeightTable(scope, entries), capped(notices, name), False


def _weight(raw: bytes) -> tuple[Key, float] | None:
    line = raw.replace(b"\t", b" ").strip(b" \r")
    if not line or line.startswith(b"#"):
        return None
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError:
        raise BadLineError(f"not UTF-8: {shown(line, 80)}") from None
    if not is_plain(text):
        raise BadLineError(f"control characters, or invisible ones: {shown(text, 80)}")
    words, blank, value = text.rpartition(" ")
    if not blank:
        missing = "no key, only a number" if is_number(text) else "no seconds behind the key"
        raise BadLineError(f"{missing}: {shown(text, 80)}")
    return _key(words.rstrip(" ")), seconds_of(value)


def _key(words: str) -> Key:
    key = Key.parse(words)
    if not key.suite or str(key) != words:
        raise BadLineError(f"no key: {shown(words, 80)} (expected <suite>/<tag> or <suite>)")
    return key


def format_weights(table: WeightTable) -> str:
    """Write a weight table: seconds with one decimal, falling; equal ones by key.

    No line of its own tells the version: the published form has none, and this is it. A key or seconds
    that could not be read back are left out.
    """
    lines = []
    for key, seconds in table.entries.items():
        if math.isfinite(seconds):
            rounded = round(max(0.0, seconds), 1)
            lines.append((-rounded, str(key), f"{key} {rounded:.1f}", key))
    return "".join(f"{line}\n" for _, _, line, key in sorted(lines) if _reads_back(line, key))


def _reads_back(line: str, key: Key) -> bool:
    try:
        found = _weight(line.encode())
    except (BadLineError, UnicodeEncodeError):
        return False
    return found is not None and found[0] == key


# queue.tsv


@dataclass(frozen=True, slots=True)
class QueueRow:
    """One line of ``queue.tsv``: ``weight label cmd tag rest gpus``. A guess is as unknown as no estimate."""

    key: Key
    command: tuple[str, ...]
    gpus: int
    estimate: Estimate


def format_queue(entries: Iterable[PlanEntry], clean: Clean = unchanged) -> str:
    """Write the plan, in its order. Unknown items have the weight 999999, known ones have a decimal.

    ``clean`` takes the secrets out of the words of the commands, as it does in the journal.
    """
    lines = []
    for entry in entries:
        item, seconds = entry.item, entry.estimate.seconds
        weight = f"{seconds:.1f}" if entry.estimate.known and seconds is not None else UNKNOWN_WEIGHT
        command, *rest = map(clean, item.command)
        label, tag = key_cells(item.key)
        lines.append(tsv((weight, label, escaped(command), tag, escaped(shlex.join(rest)), str(item.gpus))))
    return "".join(lines)


def parse_queue(text: str, name: str = "queue.tsv") -> tuple[tuple[QueueRow, ...], tuple[Notice, ...]]:
    """Read what ``format_queue`` writes."""
    return rows(text, name, 6, _queue_row)


def _queue_row(cells: Sequence[str]) -> QueueRow:
    weight, label, command, tag, rest, gpus = cells
    try:
        words = shlex.split(unescaped(rest))
    except ValueError:
        raise BadLineError(f"{shown(rest, 80)} is no list of arguments") from None
    estimate = UNKNOWN if weight == UNKNOWN_WEIGHT else Estimate(seconds_of(weight), known=True)
    return QueueRow(key_of(label, tag), (unescaped(command), *words), whole_number(gpus), estimate)


# items.tsv


def format_items(census: Census) -> str:
    """Write what exists as ``label tag`` lines, in order."""
    return "".join(tsv(key_cells(key)) for key in sorted(census.known | census.runnable))


def parse_items(text: str, name: str = "items.tsv") -> tuple[frozenset[Key], tuple[Notice, ...]]:
    """Read what ``format_items`` writes."""
    keys, notices = rows(text, name, 2, lambda cells: key_of(cells[0], cells[1]))
    return frozenset(keys), notices


# timings.tsv


@dataclass(frozen=True, slots=True)
class Timing:
    """One line of ``timings.tsv``: ``label tag|whole devices seconds rc start stop estimate incomplete``.

    ``devices`` are entries of the mask; ``start`` and ``stop`` are seconds since the run began, None for
    an item that never started; ``incomplete``: its time says nothing about how long it takes.
    """

    key: Key
    devices: tuple[str, ...]
    seconds: float
    rc: int | None
    start: float | None
    stop: float | None
    estimate: Estimate
    incomplete: bool


def timing(outcome: Outcome, device_ids: Mapping[str, str] | None = None) -> Timing:
    """Make the row of an outcome. ``rc`` is the code with which it counts in the verdict of its suite."""
    ids = device_ids or {}
    return Timing(
        key=outcome.key,
        devices=tuple(ids.get(device, device) for device in outcome.devices),
        seconds=outcome.seconds,
        rc=exit_code(outcome),
        start=outcome.start,
        stop=outcome.stop,
        estimate=outcome.estimate,
        incomplete=not outcome.complete,
    )


def format_timing(row: Timing) -> str:
    """Write one line, times in seconds with three decimals; ``-`` for what there is not. A guess is not written."""
    known = row.estimate.seconds if row.estimate.known else None
    cells = (
        *key_cells(row.key),
        escaped(",".join(row.devices)) or NONE,
        f"{row.seconds:.3f}",
        NONE if row.rc is None else str(row.rc),
        *(NONE if value is None else f"{value:.3f}" for value in (row.start, row.stop)),
        NONE if known is None else f"{known:.1f}",
        "1" if row.incomplete else "0",
    )
    return tsv(cells)


def parse_timings(text: str, name: str = "timings.tsv") -> tuple[tuple[Timing, ...], tuple[Notice, ...]]:
    """Read the lines that ``format_timing`` writes."""
    return rows(text, name, 9, _timing_row)


def _timing_row(cells: Sequence[str]) -> Timing:
    label, tag, devices, seconds, rc, start, stop, estimate, incomplete = cells
    known = optional_seconds(estimate)
    if incomplete not in {"0", "1"}:
        raise BadLineError(f"{shown(incomplete, 80)} is neither 0 nor 1")
    return Timing(
        key=key_of(label, tag),
        devices=tuple(name for name in unescaped(devices).split(",") if name not in {"", NONE}),
        seconds=seconds_of(seconds),
        rc=None if rc == NONE else whole_number(rc),
        start=optional_seconds(start),
        stop=optional_seconds(stop),
        estimate=UNKNOWN if known is None else Estimate(known, known=True),
        incomplete=incomplete == "1",
    )
