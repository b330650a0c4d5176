"""Lines that GitHub shows at the top of a job: at most ten, the most useful first.

GitHub takes ten annotations of a kind per step and drops the rest in silence, so the tenth says what is
missing. Every text is escaped: nothing that an item says can end a line, a property or the command.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pytest_sgpu.core.redact import Clean, unchanged
from pytest_sgpu.core.text import counted, one_line, printable
from pytest_sgpu.model import Outcome, Quarantine, Status
from pytest_sgpu.report.clean import cleaned
from pytest_sgpu.report.view import RunView
from pytest_sgpu.report.words import attempt_log, attempt_text, earlier, infrastructure_text, left_text, where_text

LIMIT = 10
_NAMED = 3  # failing tests in one annotation
_KEY_LIMIT = 150
_SAID_LIMIT = 300

# What tells a person most about a broken run comes first. Ends that many items share (one setup, one stop)
# are one annotation for all of them.
_ORDER = (
    Status.CRASHED,
    Status.TIMED_OUT,
    Status.LOST,
    Status.SETUP_FAILED,
    Status.FAILED,
    Status.FLAKY,
    Status.NO_TESTS,
    Status.STOPPED,
    Status.NOT_RUN,
)
_SHARED = frozenset((Status.SETUP_FAILED, Status.STOPPED, Status.NOT_RUN))
_WARNING_RANK = _ORDER.index(Status.NO_TESTS) - 0.5  # exit code 0 with failing tests: after all that failed


@dataclass(frozen=True, slots=True)
class _Note:
    rank: tuple[float, bool]
    level: str
    title: str
    lines: tuple[str, ...]
    items: int = 1


def lines(view: RunView, clean: Clean = unchanged) -> list[str]:
    """Give the commands, one per line, at most ten. A run without anything to say gives none."""
    view = cleaned(view, clean)
    notes = sorted(_notes(view), key=lambda note: note.rank)
    if len(notes) > LIMIT:
        notes = [*notes[: LIMIT - 1], _rest(notes[LIMIT - 1 :])]
    return [command(note.level, note.title, "\n".join(note.lines)) for note in notes]


def command(level: str, title: str, message: str) -> str:
    """Write one workflow command: ``level`` is ``error``, ``warning`` or ``notice``."""
    return f"::{level} title={_property(title)}::{_data(message)}"


def _data(text: str) -> str:
    text = printable(text, multiline=True)
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(one_line(text, 2 * _KEY_LIMIT)).replace(":", "%3A").replace(",", "%2C")


def _notes(view: RunView) -> Iterable[_Note]:
    shared: dict[tuple[Status, str, str], list[Outcome]] = {}
    for outcome in view.outcomes:
        if outcome.status in _SHARED:
            suite = outcome.key.suite if outcome.status is Status.SETUP_FAILED else ""
            shared.setdefault((outcome.status, suite, outcome.reason), []).append(outcome)
        elif outcome.failed or _doubtful(view, outcome):
            yield _item_note(view, outcome)
    if view.infrastructure:
        yield _Note((-1, False), "error", "infrastructure", (one_line(infrastructure_text(view), _SAID_LIMIT),), 0)
    for quarantine in view.quarantines:
        yield _quarantine_note(quarantine)
    for same in shared.values():
        yield _shared_note(same)


def _doubtful(view: RunView, outcome: Outcome) -> bool:
    """Whether an item that did not fail is worth a look."""
    facts = outcome.junit
    odd = outcome.status is Status.FLAKY or outcome.left or earlier(view, outcome)
    return bool(facts.tests.bad or facts.only_skips or odd)


def _quarantine_note(quarantine: Quarantine) -> _Note:
    place = ",".join(quarantine.devices) or quarantine.worker
    return _Note((-0.5, False), "warning", f"{place}: quarantined", (one_line(quarantine.reason, _SAID_LIMIT),))


def _item_note(view: RunView, outcome: Outcome) -> _Note:
    failing = outcome.junit.failing
    key = one_line(str(outcome.key), _KEY_LIMIT)
    title = f"{key}: {one_line(failing[0][0], _KEY_LIMIT)}" if failing else f"{key}: {outcome.status.value}"
    said = [one_line(f"{outcome.status.value}: {outcome.reason}".removesuffix(": "), _SAID_LIMIT)]
    for name, message in failing[:_NAMED]:
        said.append(one_line(f"{name}: {message}".removesuffix(": "), _SAID_LIMIT))
    more = outcome.junit.tests.bad - min(_NAMED, len(failing))
    if failing and more > 0:
        said.append(f"and {counted(more, 'more failing test')}")
    if outcome.status is Status.LOST:
        said.append(one_line(where_text(outcome), _SAID_LIMIT))
    if outcome.left:
        said.append(one_line(left_text(outcome), _SAID_LIMIT))
    for before in earlier(view, outcome)[-_NAMED:]:
        log = attempt_log(view, before)
        said.append(one_line(attempt_text(before), _SAID_LIMIT) + (f", log {printable(log)}" if log else ""))
    for label, where in (("log", view.log_of), ("again", view.rerun_of)):
        if str(outcome.key) in where:
            said.append(f"{label}: {printable(where[str(outcome.key)])}")
    if not outcome.failed:
        return _Note((_WARNING_RANK, False), "warning", title, tuple(said))
    return _Note((_ORDER.index(outcome.status), not failing), "error", title, tuple(said))


def _shared_note(same: list[Outcome]) -> _Note:
    first, number = same[0], len(same)
    where = one_line(str(first.key), _KEY_LIMIT)
    if number > 1:
        where = f"{first.key.suite}, {number} items" if first.status is Status.SETUP_FAILED else f"{number} items"
    said = [one_line(first.reason or first.status.value, _SAID_LIMIT)]
    said += [one_line(str(outcome.key), _KEY_LIMIT) for outcome in same[:_NAMED]]
    if number > _NAMED:
        said.append(f"and {counted(number - _NAMED, 'more item')}")
    rank = (_ORDER.index(first.status), False)
    return _Note(rank, "error", f"{where}: {first.status.value}", tuple(said), number)


def _rest(notes: list[_Note]) -> _Note:
    errors = sum(note.items for note in notes if note.level == "error")
    warnings = len(notes) - sum(note.level == "error" for note in notes)
    parts = [f"{counted(errors, 'more item')} did not pass"] if errors else []
    if warnings:
        parts.append(counted(warnings, "more warning"))
    said = (", ".join(parts), "all of them are in report/schedule.md and report/junit.xml of the run directory")
    return _Note(notes[0].rank, "error" if errors else "warning", parts[0], said)
