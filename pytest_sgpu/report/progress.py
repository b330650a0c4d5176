"""What is going on right now, as lines: one per device, then the count, the failures and the time left.

Pure: ``screen`` puts the lines on a terminal. Seconds are since the run began.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pytest_sgpu.core import text
from pytest_sgpu.model import UNKNOWN, Estimate, Key
from pytest_sgpu.report.pieces import Line, Piece, estimate_text, key_text, line, seconds_text, shorten

_BAR = 12
_WIDE_ENOUGH_FOR_BAR = 60
_NAME_LIMIT = 14
_OVER = 1.1  # an item counts as late from a tenth above its estimate


@dataclass(frozen=True, slots=True)
class Lane:
    """One device and what it runs: ``key`` None when it is free, ``since`` when the item began."""

    device: str
    key: Key | None = None
    since: float = 0.0
    estimate: Estimate = UNKNOWN


@dataclass(frozen=True, slots=True)
class ScreenState:
    """All that the live display shows.

    ``remaining_known``: seconds of the known items that wait. ``unknown_left``: unknown items that wait
    or run. ``now``: seconds since the run began.
    """

    lanes: tuple[Lane, ...]
    done: int
    total: int
    failed: int
    now: float
    remaining_known: float = 0.0
    unknown_left: int = 0
    flaky: int = 0


def eta(state: ScreenState) -> float | None:
    """Give the seconds that are probably left; None when nothing tells.

    The work that is left spread over the devices, and never less than what is left of the longest running
    item. A running item that is over its estimate has nothing left. Unknown items without a guess add
    nothing, so the figure is a lower one while ``unknown_left`` is not 0.
    """
    if state.done >= state.total:
        return 0.0
    running = [left for lane in state.lanes if (left := _left(lane, state.now)) is not None]
    if not running and not state.remaining_known:
        return None
    work = state.remaining_known + sum(running)
    return max(work / max(1, len(state.lanes)), max(running, default=0.0))


def _left(lane: Lane, now: float) -> float | None:
    if lane.key is None or lane.estimate.seconds is None:
        return None
    return max(0.0, lane.estimate.seconds - max(0.0, now - lane.since))


def lines(state: ScreenState, width: int, height: int, *, ascii_only: bool = False) -> list[Line]:
    """Give the live region: at most ``height`` lines (at least 2), each at most ``width`` wide.

    Devices keep their order and their row; where there are more of them than rows, the last row says how
    many are not shown.
    """
    rows = max(1, height - 1)
    shown: Sequence[Lane] = state.lanes
    rest = 0
    if len(state.lanes) > rows:
        shown = state.lanes[: rows - 1]
        rest = len(state.lanes) - len(shown)
    name_width = min(_NAME_LIMIT, max((len(lane.device) for lane in shown), default=0))
    made = [_lane(lane, state.now, width, name_width, ascii_only=ascii_only) for lane in shown]
    if rest:
        busy = sum(lane.key is not None for lane in state.lanes[len(shown) :])
        made.append(_cut(line((f"... and {rest} more, {busy} of them busy", "dim")), width))
    return [*made, _cut(_summary(state), width)]


def _summary(state: ScreenState) -> Line:
    pieces: list[Piece | str] = [(f"{state.done}/{state.total} done", "bold"), ", "]
    pieces.append((f"{state.failed} failed", "fail") if state.failed else "0 failed")
    if state.flaky:
        pieces.append((f", {state.flaky} flaky", "warn"))
    left = eta(state)
    pieces.append(", ETA ?" if left is None else f", ETA {text.duration(left)}")
    if state.unknown_left:
        pieces.append((f" + {text.counted(state.unknown_left, 'unknown item')}", "warn"))
    pieces.append((f", {text.duration(state.now)} so far", "dim"))
    return line(*pieces)


def _lane(lane: Lane, now: float, width: int, name_width: int, *, ascii_only: bool) -> Line:
    name = shorten(text.printable(lane.device), name_width).ljust(name_width) + " "
    if lane.key is None:
        return _cut(line((name, "bold"), ("-", "dim")), width)
    ran = max(0.0, now - lane.since)
    tail = _against(ran, lane.estimate)
    bar = _bar(ran, lane.estimate, ascii_only=ascii_only) if width >= _WIDE_ENOUGH_FOR_BAR else ()
    taken = len(name) + sum(len(words) for words, _ in (*bar, *tail)) + 1
    room = max(4, width - taken)
    key = shorten(key_text(lane.key), room).ljust(room) + " "
    return _cut(line((name, "bold"), key, *bar, *tail), width)


def _against(ran: float, estimate: Estimate) -> tuple[Piece, ...]:
    """Say how long it has run against its estimate, in a column of constant width as long as figures allow."""
    expected = estimate.seconds
    head = f"{seconds_text(ran):>7} / {estimate_text(estimate):<7}"
    if expected is None:
        return ((head, ""), ("     ", ""))
    if ran > expected * _OVER:
        return ((head, "warn"), (f"{'OVER':>5}", "warn"))
    percent = 100 if expected <= 0 else min(100, int(100 * ran / expected))
    return ((head, ""), (f"{percent:>4}%", ""))


def _bar(ran: float, estimate: Estimate, *, ascii_only: bool) -> tuple[Piece, ...]:
    full, empty = (
        ("#", "-") if ascii_only else ("\N{BOX DRAWINGS HEAVY HORIZONTAL}", "\N{BOX DRAWINGS LIGHT HORIZONTAL}")
    )
    if estimate.seconds is None:
        return ((empty * _BAR, "dim"), (" ", ""))
    share = 1.0 if estimate.seconds <= 0 else min(1.0, ran / estimate.seconds)
    filled = int(share * _BAR)
    style = "warn" if ran > estimate.seconds * _OVER else "pass"
    return ((full * filled, style), (empty * (_BAR - filled), "dim"), (" ", ""))


def _cut(one: Line, width: int) -> Line:
    """Cut a line at ``width``: a line that wraps would break the live region."""
    kept: list[Piece] = []
    room = max(1, width)
    for words, style in one:
        if room <= 0:
            break
        kept.append((words[:room], style))
        room -= len(words)
    return line(*kept)
