"""What the devices did in a run: lanes, utilisation, idle time and its cause, estimate against actual."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pytest_sgpu.core import weights
from pytest_sgpu.model import Key, Outcome, Status


@dataclass(frozen=True, slots=True)
class Span:
    """One item on a device. Seconds since the run began."""

    key: Key
    status: Status
    start: float
    stop: float


@dataclass(frozen=True, slots=True)
class Idle:
    """Seconds in which devices ran nothing, by cause.

    ``start``: before a device's first item (setup, start-up of workers). ``between``: from the end of an
    item to the start of the next. ``tail``: after a device's last item until the end of the run, or all
    the time for a device that got none.
    """

    start: float = 0.0
    between: float = 0.0
    tail: float = 0.0

    @property
    def total(self) -> float:
        """Give all of it."""
        return self.start + self.between + self.tail


@dataclass(frozen=True, slots=True)
class Lane:
    """One device: its items in order of start, the seconds it was busy and idle."""

    device: str
    spans: tuple[Span, ...]
    busy: float
    idle: Idle


@dataclass(frozen=True, slots=True)
class EstimateError:
    """How far an estimate was off. ``ratio`` is actual / estimate, None when the estimate was 0 s."""

    key: Key
    estimate: float
    actual: float
    ratio: float | None
    known: bool

    @property
    def error(self) -> float:
        """Give the seconds by which the item was longer (above 0) or shorter than thought."""
        return self.actual - self.estimate


@dataclass(frozen=True, slots=True)
class Timeline:
    """A run as a whole, in seconds.

    ``busy`` are device-seconds. ``bound`` is max(busy / devices, longest item) over the actual durations: no
    schedule of what ran could have been shorter. ``utilisation`` is busy / (wall x devices) and
    ``efficiency`` is bound / wall; both are 0.0 when nothing ran. ``estimate_errors``: largest error first.
    """

    lanes: tuple[Lane, ...]
    wall: float
    busy: float
    longest: float
    bound: float
    utilisation: float
    efficiency: float
    idle: Idle
    estimate_errors: tuple[EstimateError, ...]


def build(
    outcomes: Iterable[Outcome],
    devices: Sequence[str] = (),
    *,
    begin: float = 0.0,
    attempts: Iterable[Outcome] = (),
) -> Timeline:
    """Draw the lanes of a run.

    ``devices`` are those of the run, so that one that got no item counts as idle; others that outcomes
    name follow in order of name. ``begin`` is when the clock of the wall time starts: 0.0 counts setup
    in, the start of the queue leaves it out. Items that never started appear nowhere. ``attempts`` before the
    last ones took their time, too; nothing is learned of estimates from them.
    """
    last = [outcome for outcome in outcomes if outcome.start is not None and outcome.stop is not None]
    ran = [*last, *(one for one in attempts if one.start is not None and one.stop is not None)]
    spans: dict[str, list[Span]] = {device: [] for device in devices}
    for outcome in ran:
        span = Span(outcome.key, outcome.status, outcome.start or 0.0, (outcome.start or 0.0) + outcome.seconds)
        for device in outcome.devices or (outcome.worker,):
            spans.setdefault(device, []).append(span)
    names = (*dict.fromkeys(devices), *sorted(set(spans) - set(devices)))
    end = max((span.stop for lane in spans.values() for span in lane), default=begin)
    lanes = tuple(_lane(name, spans[name], begin, end) for name in names)
    wall = max(0.0, end - begin)
    busy = sum(lane.busy for lane in lanes)
    longest = max((outcome.seconds for outcome in ran), default=0.0)
    bound = max(busy / len(lanes), longest) if lanes else 0.0
    return Timeline(
        lanes=lanes,
        wall=wall,
        busy=busy,
        longest=longest,
        bound=bound,
        utilisation=busy / (wall * len(lanes)) if wall else 0.0,
        efficiency=bound / wall if wall else 0.0,
        idle=Idle(
            sum(lane.idle.start for lane in lanes),
            sum(lane.idle.between for lane in lanes),
            sum(lane.idle.tail for lane in lanes),
        ),
        estimate_errors=_errors(last),
    )


def _lane(device: str, spans: Iterable[Span], begin: float, end: float) -> Lane:
    ordered = tuple(sorted(spans, key=lambda span: (span.start, span.stop, span.key)))
    before, between, last = 0.0, 0.0, begin
    for index, span in enumerate(ordered):
        gap = max(0.0, span.start - last)
        if index:
            between += gap
        else:
            before = gap
        last = max(last, span.stop)
    return Lane(device, ordered, sum(s.stop - s.start for s in ordered), Idle(before, between, end - last))


def _errors(ran: Iterable[Outcome]) -> tuple[EstimateError, ...]:
    """Compare only what ran to its own end: the time of anything else says nothing about an estimate."""
    errors = [
        EstimateError(
            outcome.key,
            outcome.estimate.seconds,
            outcome.seconds,
            outcome.seconds / outcome.estimate.seconds if outcome.estimate.seconds else None,
            outcome.estimate.known,
        )
        for outcome in ran
        if outcome.estimate.seconds is not None and weights.teaches(outcome)
    ]
    return tuple(sorted(errors, key=lambda error: (-abs(error.error), error.key)))
