"""From the records of a journal to the state of the run. Lenient: what is damaged is left out, and told."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pytest_sgpu.core import record_read
from pytest_sgpu.core.cells import capped
from pytest_sgpu.core.fields import DamageError, Fields
from pytest_sgpu.core.records import VERSION, Record
from pytest_sgpu.core.text import counted
from pytest_sgpu.model import (
    UNKNOWN,
    Census,
    Estimate,
    Key,
    Notice,
    Outcome,
    Part,
    Plan,
    Quarantine,
    Scope,
    Status,
    Suite,
)

NAME = "journal.jsonl"
KILLED = "controller killed"
"""How a run ended whose journal has no end."""

Running = tuple[Key, str, float]
"""An item that runs: its key, the id of its worker, and since when on the clock of the run."""


@dataclass(frozen=True, slots=True)
class RunState:
    """What is known of a run, folded from its records.

    ``outcomes`` follow the plan, and ``attempts`` holds those before the final ones, in their order.
    ``device_ids`` maps the names of ``devices`` to their entries in the mask. ``taught``: keys whose times are
    in the weight table already. ``weights``: the tables that the run reads and writes. ``interrupted`` says
    why the last part of the run was ended early, ``incomplete`` why something of it was not started.
    ``secrets`` are the variables whose values were taken out of everything in any of its parts.
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
    running: tuple[Running, ...] = ()
    interrupted: str = ""
    wall: float = 0.0
    ended: bool = False
    attempts: Mapping[Key, tuple[Outcome, ...]] = field(default_factory=dict)
    quarantines: tuple[Quarantine, ...] = ()
    parts: tuple[Part, ...] = ()
    taught: frozenset[Key] = frozenset()
    digest: str = ""
    commit: str = ""
    weights: tuple[str, str] = ("", "")
    rerun: str = ""
    root: str = ""
    incomplete: str = ""
    version: int = VERSION
    secrets: tuple[str, ...] = ()


def lost(running: Running, attempts: Iterable[Outcome], estimate: Estimate, at: float, how: str) -> Outcome:
    """Give the outcome of an attempt of which the journal has no end, because the run had none either.

    ``attempts`` are those of the item before this one; ``at`` is when the run ended, and ``how`` it did.
    """
    key, worker, since = running
    return Outcome(
        key,
        Status.LOST,
        start=since,
        stop=max(since, at),
        worker=worker,
        devices=(worker,) if worker else (),
        attempt=1 + max((outcome.attempt for outcome in attempts), default=0),
        reason=f"did not finish: {how} at +{max(since, at):.0f} s" + (f" on {worker}" if worker else ""),
        estimate=estimate,
    )


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
    """What ``fold`` has so far. ``head`` holds fields of the state as the records give them."""

    head: dict[str, Any] = field(default_factory=dict)
    outcomes: dict[Key, Outcome] = field(default_factory=dict)
    attempts: dict[Key, tuple[Outcome, ...]] = field(default_factory=dict)
    running: dict[Key, Running] = field(default_factory=dict)
    notices: list[Notice] = field(default_factory=list)
    damage: list[Notice] = field(default_factory=list)
    quarantines: list[Quarantine] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)
    taught: frozenset[Key] = frozenset()
    interrupted: str = ""
    incomplete: str = ""
    wall: float = 0.0
    ended: bool = False

    def take(self, record: Record, number: int) -> None:
        """Take one record, whole or not at all."""
        try:
            fields = Fields(record)
            take = _TAKERS.get(fields.text("event"))
            at = fields.maybe_number("at") or fields.maybe_number("stop") or 0.0
            if take is not None:
                take(self, fields, at)
            self.wall = max(self.wall, at)
        except DamageError as error:
            self.damage.append(Notice(f"a damaged record is left out: {error}", f"{NAME}, record {number}"))

    def _run(self, fields: Fields, _at: float) -> None:
        self.head |= record_read.run(fields)
        self.parts[:1] = [Part(1, self.head["started"], 0.0, self.head["commit"])]
        if self.head["version"] > VERSION:
            text = f"a journal of version {self.head['version']}, from a newer pytest-sgpu; what it adds is not read"
            self.damage.append(Notice(text, NAME))

    def _plan(self, fields: Fields, _at: float) -> None:
        self.head |= record_read.plan(fields)
        if len(self.parts) > 1:
            self._drop_unplanned()

    def _drop_unplanned(self) -> None:
        """Forget what a further part has no more in its plan, so that all tell of the same items; and say so."""
        planned = self._estimates()
        gone = [f"{key} ({outcome.status.value})" for key, outcome in self.outcomes.items() if key not in planned]
        if gone:
            text = f"{counted(len(gone), 'item')} of an earlier part not in the plan of part {self._part} and dropped: "
            self.notices.append(Notice(text + ", ".join(gone)))
        self.outcomes = {key: outcome for key, outcome in self.outcomes.items() if key in planned}
        self.attempts = {key: some for key, some in self.attempts.items() if key in planned}

    def _resume(self, fields: Fields, at: float) -> None:
        """Begin a further part: what came to no end of its own is an attempt now, and will run again."""
        more = record_read.resume(fields)
        estimates = self._estimates()
        for running in self.running.values():
            key = running[0]
            outcome = lost(running, self.attempts.get(key, ()), estimates.get(key, UNKNOWN), at, KILLED)
            self._attempted(replace(outcome, part=self._part))
        for outcome in [outcome for outcome in self.outcomes.values() if not outcome.final]:
            del self.outcomes[outcome.key]
            if outcome.status is not Status.NOT_RUN:
                self._attempted(outcome)
        self.running.clear()
        self.parts = self.parts or [Part(1, 0.0, 0.0)]
        self.parts.append(Part(len(self.parts) + 1, more.started, at, more.commit))
        self.head |= more.over(self.head)
        self.interrupted = self.incomplete = ""
        self.ended = False

    def _assign(self, fields: Fields, at: float) -> None:
        key = Key.parse(fields.text("key"))
        self.running[key] = (key, fields.text("worker", ""), at)

    def _outcome(self, fields: Fields, _at: float) -> None:
        outcome = replace(record_read.outcome(fields), part=self._part)
        self.outcomes[outcome.key] = outcome
        self.running.pop(outcome.key, None)

    def _attempt(self, fields: Fields, _at: float) -> None:
        outcome = replace(record_read.outcome(fields), part=self._part)
        self._attempted(outcome)
        self.running.pop(outcome.key, None)

    def _notice(self, fields: Fields, _at: float) -> None:
        self.notices.append(Notice(fields.text("text"), fields.text("where", "")))

    def _quarantine(self, fields: Fields, at: float) -> None:
        self.quarantines.append(
            Quarantine(fields.text("worker"), fields.texts("devices"), at, fields.text("reason", ""))
        )

    def _learned(self, fields: Fields, _at: float) -> None:
        self.taught |= {Key.parse(text) for text in fields.texts("keys")}

    def _stop(self, fields: Fields, _at: float) -> None:
        reason = fields.text("reason")
        self.interrupted = self.interrupted or reason

    def _incomplete(self, fields: Fields, _at: float) -> None:
        reason = fields.text("reason")
        self.incomplete = self.incomplete or reason

    def _end(self, _fields: Fields, _at: float) -> None:
        self.ended = True

    @property
    def _part(self) -> int:
        return max(1, len(self.parts))

    def _attempted(self, outcome: Outcome) -> None:
        self.attempts[outcome.key] = (*self._before(outcome), outcome)

    def _before(self, outcome: Outcome) -> tuple[Outcome, ...]:
        """Give the other attempts at an item. One that waited and was cut off ends with the outcome it had."""
        return tuple(one for one in self.attempts.get(outcome.key, ()) if one.attempt != outcome.attempt)

    def _estimates(self) -> dict[Key, Estimate]:
        plan: Plan | None = self.head.get("plan")
        return {entry.item.key: entry.estimate for entry in plan.entries} if plan else {}

    def result(self) -> RunState:
        """Give the state of the run."""
        order = dict.fromkeys((*self._estimates(), *self.outcomes))
        for key, outcome in self.outcomes.items():
            if key in self.attempts:
                self.attempts[key] = self._before(outcome)
        return RunState(
            **self.head,
            notices=(*self.notices, *capped(self.damage, NAME)),
            outcomes=tuple(self.outcomes[key] for key in order if key in self.outcomes),
            running=tuple(self.running.values()),
            interrupted=self.interrupted,
            wall=self.wall,
            ended=self.ended,
            attempts={key: some for key, some in self.attempts.items() if some},
            quarantines=tuple(self.quarantines),
            parts=tuple(self.parts),
            taught=self.taught,
            incomplete=self.incomplete,
        )


_TAKERS: Mapping[str, Callable[[_Folding, Fields, float], None]] = {
    "run": _Folding._run,  # noqa: SLF001 - one table instead of a ladder of ifs
    "plan": _Folding._plan,  # noqa: SLF001
    "resume": _Folding._resume,  # noqa: SLF001
    "assign": _Folding._assign,  # noqa: SLF001
    "outcome": _Folding._outcome,  # noqa: SLF001
    "attempt": _Folding._attempt,  # noqa: SLF001
    "notice": _Folding._notice,  # noqa: SLF001
    "quarantine": _Folding._quarantine,  # noqa: SLF001
    "learned": _Folding._learned,  # noqa: SLF001
    "stop": _Folding._stop,  # noqa: SLF001
    "incomplete": _Folding._incomplete,  # noqa: SLF001
    "end": _Folding._end,  # noqa: SLF001
}
