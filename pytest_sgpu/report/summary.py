"""The tables at the end of a run: one row per suite, and how well the devices were used. Pure lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from pytest_sgpu.core import text
from pytest_sgpu.model import Status, Verdict
from pytest_sgpu.report.pieces import GAP, Line, Piece, line, plain, shorten, style_of, table

_ALWAYS = (Status.PASSED, Status.FAILED)
_LABEL_LEAST = 8


def suites_table(verdicts: Sequence[Verdict], width: int) -> list[Line]:
    """Give a row per suite: items, how they ended, work, verdict; a row of sums when there are several.

    A column beside passed and failed stands only where some suite needs it. Columns that do not fit
    ``width`` are folded into one, ``other``, and each suite says below its row what these are.
    """
    counts = [Counter(outcome.status for outcome in verdict.outcomes) for verdict in verdicts]
    extra = [status for status in Status if status not in _ALWAYS and any(count[status] for count in counts)]
    made = _lay_out(verdicts, counts, extra, width, folded=False)
    if extra and max(map(_length, made)) > width:
        made = _lay_out(verdicts, counts, extra, width, folded=True)
    return made


def _length(one: Line) -> int:
    return len(plain(one))


def _lay_out(
    verdicts: Sequence[Verdict], counts: Sequence[Counter[Status]], extra: Sequence[Status], width: int, *, folded: bool
) -> list[Line]:
    names = ["other"] if folded else [status.value for status in extra]
    header = ["suite", "items", "passed", "failed", *names, "work", "verdict"]
    labels = [text.printable(verdict.suite) for verdict in verdicts]
    rows = [_row(verdict, count, extra, folded=folded) for verdict, count in zip(verdicts, counts, strict=True)]
    if len(verdicts) > 1:
        rows.append(_sums(verdicts, extra, folded=folded))
        labels.append("all")
    rest = sum(
        max(len(row[at][0]) for row in ([(name, "") for name in header[1:]], *rows)) for at in range(len(header) - 1)
    )
    room = max(_LABEL_LEAST, width - rest - len(GAP) * (len(header) - 1))
    body = [((shorten(label, room), ""), *row) for label, row in zip(labels, rows, strict=True)]
    lines = table([tuple((name, "bold") for name in header), *body], left=(0, len(header) - 1))
    if not folded:
        return lines
    made = lines[:1]
    for position, one in enumerate(lines[1:]):
        made.append(one)
        if position < len(verdicts):
            made += _fold_note(counts[position], extra, width)
    return made


def _row(verdict: Verdict, count: Counter[Status], extra: Sequence[Status], *, folded: bool) -> tuple[Piece, ...]:
    numbers = [sum(count[status] for status in extra)] if folded else [count[status] for status in extra]
    styles = ["fail"] if folded else [style_of(status) for status in extra]
    work = sum(outcome.seconds for outcome in verdict.outcomes)
    return (
        (str(len(verdict.outcomes)), ""),
        _number(count[Status.PASSED], "pass"),
        _number(count[Status.FAILED], "fail"),
        *(_number(number, style) for number, style in zip(numbers, styles, strict=True)),
        (text.duration(work), ""),
        ("passed", "pass") if verdict.passed else (f"exit {verdict.exit_code}", "fail"),
    )


def _sums(verdicts: Sequence[Verdict], extra: Sequence[Status], *, folded: bool) -> tuple[Piece, ...]:
    outcomes = tuple(outcome for verdict in verdicts for outcome in verdict.outcomes)
    whole = Verdict("", max(verdict.exit_code for verdict in verdicts), outcomes)
    return _row(whole, Counter(outcome.status for outcome in outcomes), extra, folded=folded)


def _number(number: int, style: str) -> Piece:
    return (str(number), style) if number else ("-", "dim")


def _fold_note(count: Counter[Status], extra: Sequence[Status], width: int) -> list[Line]:
    parts = [f"{count[status]} {status.value}" for status in extra if count[status]]
    return [line(("  other: " + shorten(", ".join(parts), max(1, width - 9)), "dim"))] if parts else []
