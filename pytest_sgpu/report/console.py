"""What a run says on the console: a line per item, a block per failure, and what to do next.

Pure: values in, lines of (text, style) pieces out; whoever prints them applies the colours. Everything that
comes from an item (tags, messages, output) is made printable, and its output stands behind ``  | ``, so that
no line of it can give orders to a terminal or a CI service.
"""

from __future__ import annotations

from collections.abc import Sequence

from pytest_sgpu.core import text
from pytest_sgpu.core.redact import Clean, unchanged
from pytest_sgpu.core.timeline import Lane, Timeline
from pytest_sgpu.core.verdict import NO_TESTS_CODE, signal_of
from pytest_sgpu.model import Estimate, Key, Outcome, Status
from pytest_sgpu.report.clean import clean_outcome
from pytest_sgpu.report.closing import closing_lines
from pytest_sgpu.report.pieces import GAP, Line, estimate_text, key_text, line, shorten, style_of, table
from pytest_sgpu.report.words import leftover_text, without_proof

__all__ = [
    "closing_lines",
    "failure_block",
    "finished_line",
    "setup_line",
    "started_line",
    "utilisation_lines",
]

TAIL_LINES = 12
_FAILING_SHOWN = 10
_LEAKS_SHOWN = 5
_REASON_LEAST = 60  # a reason is never cut shorter than this, whatever the width
_LANES = 16
_NAME_LIMIT = 14
_TENTH = 0.05  # what would be shown as 0.0s is not shown
_TAIL_BYTES = 200_000  # more of a log than twelve lines need is not even looked at
_SELECTION_HINT = "check what its line selects: -k, the name of the test file"
_PROOF_HINT = "if it is no test: te_ci_program, `TE_CI_RAN <tag>` or sgpu_allow_empty"


def finished_line(outcome: Outcome, clock_text: str, done: int, total: int, width: int) -> Line:
    """Give the line of an item that ended: one line, the key in full, so that logs can be searched.

    Time, place in the run, device, start offset, duration, exit code, estimate, a word for any end that
    is not a plain pass, key, reason. Only the reason is ever cut to ``width``.
    """
    return _ended(outcome, _stamp(clock_text, done, total), *_word(outcome), width)


def _ended(outcome: Outcome, stamp: str, word: str, style: str, width: int) -> Line:
    start = "t+?" if outcome.start is None else f"t+{outcome.start:.0f}s"
    lead = f"{stamp} {_place(outcome.devices)} {start} {outcome.seconds:.1f}s"
    figures = f"rc={_code(outcome)} est={estimate_text(outcome.estimate)}"
    key = key_text(outcome.key)
    used = len(f"{lead} {figures} {word} {key}")
    reason = ""
    if outcome.reason:
        reason = GAP + text.one_line(outcome.reason, max(_REASON_LEAST, width - used - len(GAP)))
    return line((lead + " ", "dim"), figures, " ", (word + " " if word else "", style), (key, style), (reason, "dim"))


def started_line(  # noqa: PLR0917 - a line has that many columns
    key: Key, place: str, at: float, estimate: Estimate, clock_text: str, done: int, total: int
) -> Line:
    """Give the line of an item that begins (``-v``). ``place``: its devices, ``at``: seconds since the run began."""
    lead = f"{_stamp(clock_text, done, total)} {text.printable(place)} t+{at:.0f}s "
    return line((lead, "dim"), f"start est={estimate_text(estimate)} ", key_text(key))


def setup_line(suite: str, place: str, seconds: float, exit_code: int | None, clock_text: str) -> Line:
    """Give the line of a suite's setup that ended. ``exit_code`` None: it was killed."""
    lead = f"[{clock_text}] {text.printable(place)} {seconds:.1f}s "
    code = "-" if exit_code is None else str(exit_code)
    word, style = ("", "") if exit_code == 0 else ("SETUP FAILED ", "fail")
    return line((lead, "dim"), f"rc={code} ", (word, style), (f"setup of {text.printable(suite)}", style))


def _leak_lines(outcome: Outcome) -> list[Line]:
    """Give a line for each process that an item left behind, five at most and a count."""
    key, after = key_text(outcome.key), f", {outcome.late:.1f} s after its end; killed"
    made = [
        line(("LEAK ", "warn"), key, f" left {text.one_line(leftover_text(one), 400)}{after}")
        for one in outcome.left[:_LEAKS_SHOWN]
    ]
    rest = len(outcome.left) - _LEAKS_SHOWN
    if rest > 0:
        made.append(line(("LEAK ", "warn"), key, f" left {rest} more{after}"))
    return made


def _stamp(clock_text: str, done: int, total: int) -> str:
    return f"[{clock_text}] {done:>{len(str(total))}}/{total}"


def _place(devices: Sequence[str]) -> str:
    return text.printable(",".join(devices)) or "-"


def _code(outcome: Outcome) -> str:
    return "-" if outcome.exit_code is None else str(outcome.exit_code)


def _word(outcome: Outcome) -> tuple[str, str]:
    """Give the word for an end that is not a plain pass at the first attempt, with its style."""
    word, style = _end_word(outcome)
    if outcome.attempt > 1:
        return f"{word or 'PASSED'} AT ATTEMPT {outcome.attempt}", style if style != "pass" else "warn"
    return word, style


def _end_word(outcome: Outcome) -> tuple[str, str]:
    tests = outcome.junit.tests
    if outcome.status is Status.PASSED:
        if tests.bad:
            return f"PASSED, BUT {text.counted(tests.bad, 'TEST').upper()} FAILED", "warn"
        if outcome.proof == "allowed":
            return "PASSED WITHOUT PROOF", "warn"
        if outcome.junit.only_skips:
            return "PASSED, EVERY TEST SKIPPED", "warn"
        return "", "pass" if not outcome.reason else "warn"
    word = outcome.status.value.upper()
    number = signal_of(outcome)
    if number is not None:
        word += f" signal {number}"
    return word, "fail" if outcome.failed and outcome.status is Status.FLAKY else style_of(outcome.status)


def failure_block(
    outcome: Outcome,
    tail: bytes | str,
    log_path: str,
    rerun: str,
    width: int = 80,
    *,
    clean: Clean = unchanged,
) -> list[Line]:
    """Give what a person needs of an item that did not pass.

    Its end and reason, its failing tests where JUnit names them, the last lines of its output (``tail``:
    the end of its log, as much of it as there is at hand), the log's path, the command that runs exactly
    this item again. ``log_path`` or ``rerun`` "" leaves that line out. ``clean`` goes over every text, before
    it is cut.
    """
    if clean is not unchanged:
        outcome, tail = clean_outcome(outcome, clean), clean(text.decoded(tail))
        log_path, rerun = clean(log_path), clean(rerun)
    word, style = _word(outcome)
    made = [line((f"{word or 'PASSED'} ", style), (key_text(outcome.key), "bold"))]
    if outcome.start is not None:
        ran = f"  {_place(outcome.devices)}, rc={_code(outcome)}, {outcome.seconds:.1f}s"
        if outcome.status is Status.LOST and outcome.worker:
            ran = f"  {_place(outcome.devices)}, worker {text.printable(outcome.worker)}, {outcome.seconds:.1f}s"
        made.append(line((f"{ran}, estimate {estimate_text(outcome.estimate)}", "dim")))
    if outcome.reason:
        made.append(line("  ", text.one_line(outcome.reason, max(_REASON_LEAST, 4 * width))))
    made += _failing(outcome, width)
    made += _tail(tail, outcome.key, log_path)
    if outcome.status is Status.NO_TESTS and not outcome.junit.damage:
        selected_nothing = outcome.exit_code == NO_TESTS_CODE
        made.append(line(("  hint: ", "dim"), _SELECTION_HINT if selected_nothing else _PROOF_HINT))
    made += [line("  ", *one) for one in _leak_lines(outcome)]
    if log_path:
        made.append(line(("  log: ", "dim"), text.printable(log_path)))
    if rerun:
        made.append(line(("  again: ", "dim"), text.printable(rerun)))
    return made


def _failing(outcome: Outcome, width: int) -> list[Line]:
    shown = outcome.junit.failing[:_FAILING_SHOWN]
    made = []
    for name, message in shown:
        said = text.one_line(message, max(_REASON_LEAST, 2 * width)) if message else ""
        made.append(line("  ", (text.printable(name), "fail"), (f" - {said}" if said else "", "")))
    rest = outcome.junit.tests.bad - len(shown)
    if shown and rest > 0:
        made.append(line((f"  ... and {text.counted(rest, 'more failing test')}", "dim")))
    return made


def _tail(tail: bytes | str, key: Key, log_path: str) -> list[Line]:
    whole = len(tail) <= _TAIL_BYTES
    lines = text.quoted(without_proof(tail[-_TAIL_BYTES:], key).rstrip()).split("\n")[-TAIL_LINES:]
    if lines == [""]:
        return [line(("  it printed nothing", "dim"))] if log_path and whole else []
    return [line((one[: len(text.QUOTE)], "dim"), one[len(text.QUOTE) :]) for one in lines]


def utilisation_lines(timeline: Timeline) -> list[Line]:
    """Say how well the devices were used: wall against the bound, then a row per device.

    The idle columns are seconds before a device's first item, between items, and after its last one.
    """
    if not timeline.wall:
        return []
    idle = timeline.idle
    made = [
        line(
            ("wall ", "dim"),
            text.duration(timeline.wall),
            (", bound ", "dim"),
            text.duration(timeline.bound),
            (", efficiency ", "dim"),
            (f"{timeline.efficiency:.1%}", "bold"),
            (", devices busy ", "dim"),
            f"{timeline.utilisation:.1%}",
        )
    ]
    causes = _idle_text(idle.start, idle.between, idle.tail)
    if causes:
        made.append(line(("idle ", "dim"), text.duration(idle.total), (f": {causes}", "dim")))
    shown = timeline.lanes if len(timeline.lanes) <= _LANES else timeline.lanes[: _LANES - 1]
    header = tuple((name, "bold") for name in ("device", "busy", "items", "idle: first", "between", "last"))
    made += table([header, *(_lane_row(lane, timeline.wall) for lane in shown)])
    if len(shown) < len(timeline.lanes):
        made.append(line((f"  ... and {len(timeline.lanes) - len(shown)} more devices, in the report", "dim")))
    return made


def _lane_row(lane: Lane, wall: float) -> tuple[tuple[str, str], ...]:
    idle = lane.idle
    seconds = [text.duration(one) if one >= _TENTH else "-" for one in (idle.start, idle.between, idle.tail)]
    name = shorten(text.printable(lane.device), _NAME_LIMIT)
    return ((name, ""), (f"{lane.busy / wall:.1%}", ""), (str(len(lane.spans)), ""), *((one, "dim") for one in seconds))


def _idle_text(start: float, between: float, tail: float) -> str:
    causes = ((start, "before the first item"), (between, "between items"), (tail, "after the last"))
    return ", ".join(f"{text.duration(seconds)} {what}" for seconds, what in causes if seconds >= _TENTH)
