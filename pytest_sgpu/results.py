"""What a run leaves: every file written at the end, each a function of the journal and the items' own files."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from pytest_sgpu.core import journal, tables, timeline, verdict, weights
from pytest_sgpu.core.journal import RunState
from pytest_sgpu.core.names import file_name, item_stem
from pytest_sgpu.core.redact import Redactor, secret_names
from pytest_sgpu.core.text import counted
from pytest_sgpu.engine.store import RunDirectory, why
from pytest_sgpu.engine.weight_file import LOCK_SECONDS, WeightPlace, update_weights
from pytest_sgpu.errors import StoreError
from pytest_sgpu.model import Census, Key, Notice, Outcome, Part, Plan, Status, Verdict, WeightTable
from pytest_sgpu.report import job_summary, junit_bare, junit_write, markdown
from pytest_sgpu.report.clean import cleaned
from pytest_sgpu.report.view import RunView

SUMMARY_LIMIT = 1024 * 1024  # bytes that GitHub takes for one step's summary; a longer one is dropped whole
_SUMMARY_MARGIN = 16 * 1024
_NAMED = 10  # items in one notice
_TAIL = 16_384  # bytes of a log that a report looks at


@dataclass(slots=True)
class Finished:
    """The end of a run as people see it: the view, what could not be written, and where everything is."""

    view: RunView
    late_notices: list[Notice] = field(default_factory=list)
    report: str = ""
    logs: str = ""
    junit: str = ""
    weights: str = ""


class _Losses:
    """Collects what could not be written. The verdict of a run stands whatever is lost on the way."""

    def __init__(self) -> None:
        self.notices: list[Notice] = []

    @contextlib.contextmanager
    def around(self, what: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self.notices.append(Notice(f"{what} could not be written: {why(error)}", str(error.filename or "")))


def write_plan(directory: RunDirectory, plan: Plan, census: Census) -> None:
    """Leave the plan and the census before the run, as ``queue/queue.tsv`` and ``queue/items.tsv``."""
    directory.write("queue/queue.tsv", tables.format_queue(plan.entries, directory.clean))
    directory.write("queue/items.tsv", tables.format_items(census))


def finish(
    directory: RunDirectory,
    place: WeightPlace,
    *,
    rerun: Callable[[Key], str],
    env: Mapping[str, str],
    state: RunState | None = None,
    lock_wait: float = LOCK_SECONDS,
) -> Finished:
    """Write everything that a run leaves: phases 5 to 7 of the queue. Once more gives the same, and teaches nothing.

    ``state``: that of the journal, unless one is given. ``env``: that of the caller, whose secrets are in no
    report. ``lock_wait``: seconds to wait for the weight table. Raises StoreError when the run directory was
    taken away.
    """
    losses = _Losses()
    if state is None:
        state, notices = directory.state()
        losses.notices.extend(notices)
    losses.notices.extend(veil(directory, state, env))
    clean = Redactor(env).text
    verdicts = verdict.verdicts([suite.label for suite in state.suites], state.outcomes)
    _write_verdicts(directory, state, verdicts, losses)
    with losses.around("queue/timings.tsv"):
        directory.write("queue/timings.tsv", _timings(state))
    table = _teach(directory, place, state, losses, lock_wait)
    view = _view(directory, state, verdicts, rerun)
    finished = Finished(cleaned(view, clean), losses.notices, logs=directory.shown(directory.path))
    if table.entries:
        finished.weights = directory.shown(place.write)
    finished.junit = _write_junit(directory, state, view, losses, clean)
    text = markdown.schedule(finished.view)
    with losses.around("report/schedule.md"):
        finished.report = directory.shown(directory.write("report/schedule.md", text))
    summary = env.get("GITHUB_STEP_SUMMARY")
    if summary:
        with losses.around("the job summary"):
            _append_summary(Path(summary), text, finished.report)
    losses.notices.extend(notice for notice in directory.notices if notice not in state.notices)
    finished.late_notices = [Notice(clean(one.text), clean(one.where)) for one in losses.notices]
    return finished


def veil(directory: RunDirectory, state: RunState, env: Mapping[str, str]) -> tuple[Notice, ...]:
    """Quote no logs when this environment lacks secrets that the run had, since nothing can mask them; and say so."""
    known = set(secret_names(env))
    lacking = [name for name in state.secrets if name not in known]
    if not lacking:
        return ()
    directory.veil("(left out: secrets of this run are not known here)")
    more = f" and {len(lacking) - _NAMED} more" if len(lacking) > _NAMED else ""
    were, are, they = ("was", "is", "it") if len(lacking) == 1 else ("were", "are", "they")
    text = f"{', '.join(lacking[:_NAMED])}{more} {were} secret in this run and {are} not set here, so {they} cannot be "
    return (Notice(f"{text}masked: log tails are left out, and what tests inside the items said"),)


def _teach(
    directory: RunDirectory, place: WeightPlace, state: RunState, losses: _Losses, lock_wait: float
) -> WeightTable:
    """Bring what this run measured into the weight table, once. Gives the table as it is then."""
    measured = {key: seconds for key, seconds in weights.measured(state.outcomes).items() if key not in state.taught}
    if not state.scope.arch:  # a journal without its head: nothing tells which table this is about
        lost = "the head of the journal is missing, so nothing was learned"
        losses.notices.extend([Notice(lost, "queue/journal.jsonl")] if measured else [])
        return WeightTable(state.scope)
    before: list[Key] = []

    def change(known: WeightTable) -> WeightTable:
        before[:] = known.entries
        table = weights.learn(known, measured)
        # Without labels nothing tells what is in the conf; then all would seem to have left it.
        return weights.prune(table, state.census, state.labels) if state.labels else table

    table, notices = update_weights(place, state.scope, change, patience=lock_wait)
    losses.notices.extend(notice for notice in notices if notice not in state.notices)
    losses.notices.extend(_gone(before, table, state.labels, place) if state.labels else ())
    taught = measured.keys() & table.entries.keys()  # nothing, when it could not be written
    if taught and directory.is_held:
        _remember(directory, taught, losses)
    return table


def _remember(directory: RunDirectory, taught: Iterable[Key], losses: _Losses) -> None:
    """Write down what is in the weight table now, so that nothing is taught twice."""
    try:
        directory.append(journal.learned_record(taught))
        directory.sync()
    except StoreError as error:
        losses.notices.append(Notice(f"what was learned may be learned again: {error.message}"))


def _write_verdicts(directory: RunDirectory, state: RunState, verdicts: tuple[Verdict, ...], losses: _Losses) -> None:
    log_names = {suite.label: suite.log_name for suite in state.suites}
    with_items = {key.suite for key in state.census.runnable}
    for label, log_name in log_names.items():
        # Nothing to run here, which a notice has said; readers expect the two files.
        if state.plan.entries and label not in with_items:
            _write_verdict(directory, losses, log_name, (), 0)
    for one in verdicts:
        log_name = log_names.get(one.suite, f"{file_name(one.suite)}.log")  # in a damaged journal it may be missing
        _write_verdict(directory, losses, log_name, one.outcomes, one.exit_code)


def _write_verdict(
    directory: RunDirectory, losses: _Losses, log_name: str, outcomes: tuple[Outcome, ...], code: int
) -> None:
    with losses.around(f"suites/{log_name}"):
        directory.write(f"suites/{log_name}.rc", f"{code}\n")
        directory.write(f"suites/{log_name}", "".join(_index_line(outcome) for outcome in outcomes))


def _index_line(outcome: Outcome) -> str:
    parts = [
        f"rc={verdict.exit_code(outcome)}",
        f"{outcome.seconds:.1f}s",
        ",".join(outcome.devices) or "-",
        outcome.status.value.replace(" ", "-"),
        outcome.key.tag or "whole",
        f"items/{item_stem(outcome.key)}.log" if outcome.start is not None else "-",
    ]
    return "\t".join(parts) + "\n"


def _timings(state: RunState) -> str:
    """Give a line for each attempt that was started: devices were busy with all of them."""
    ran = [outcome for outcome in _all_attempts(state) if outcome.start is not None]
    ran.sort(key=lambda outcome: outcome.stop or 0.0)
    return "".join(tables.format_timing(tables.timing(outcome, state.device_ids)) for outcome in ran)


def _all_attempts(state: RunState) -> tuple[Outcome, ...]:
    return (*(outcome for some in state.attempts.values() for outcome in some), *state.outcomes)


def _view(
    directory: RunDirectory,
    state: RunState,
    verdicts: tuple[Verdict, ...],
    rerun: Callable[[Key], str],
) -> RunView:
    told = [outcome for outcome in state.outcomes if outcome.failed or outcome.status is Status.FLAKY]
    before = [outcome for some in state.attempts.values() for outcome in some]
    lanes = timeline.build(state.outcomes, state.devices, attempts=before)
    return RunView(
        outcomes=state.outcomes,
        verdicts=verdicts,
        devices=state.devices,
        timeline=lanes,
        scope=state.scope,
        wall=lanes.wall,
        bound=lanes.bound,
        predicted=state.predicted,
        notices=state.notices,
        log_of={str(o.key): directory.shown(_log(directory, o)) for o in state.outcomes if _has_log(o)},
        tail_of={str(o.key): _tail(directory, o) for o in told if _has_log(o)},
        rerun_of={str(o.key): rerun(o.key) for o in told},
        started=state.started,
        interrupted=state.interrupted or state.incomplete,
        attempts={str(key): some for key, some in state.attempts.items()},
        attempt_log_of={
            (str(one.key), one.attempt): directory.shown(_attempt_log(directory, one))
            for some in state.attempts.values()
            for one in some
            if one.start is not None
        },
        quarantines=state.quarantines,
        health_log_of={
            one.worker: directory.shown(path)
            for one in state.quarantines
            if (path := directory.health_log(",".join(one.devices))).is_file()
        },
        parts=state.parts,
        infrastructure=verdict.infrastructure(state.outcomes, state.quarantines, state.attempts),
    )


def _gone(before: Sequence[Key], table: WeightTable, labels: Sequence[str], place: WeightPlace) -> list[Notice]:
    """Say what lost its weights: suites, a surprise when two confs share a table, and items that are not there now."""
    if not table.entries:  # it could not be written
        return []
    suites = sorted({key.suite for key in before} - set(labels))
    count = sum(key.suite in suites for key in before)
    items = [str(key) for key in before if key.suite in labels and key not in table.entries]
    notices = []
    if suites:
        text = f"dropped {counted(count, 'weight')} of suites that are in no conf file of this run: {', '.join(suites)}"
        notices.append(Notice(text, str(place.write)))
    if items:
        more = f" and {len(items) - _NAMED} more" if len(items) > _NAMED else ""
        text = f"{counted(len(items), 'item')} of earlier runs exist no more: {', '.join(items[:_NAMED])}{more}"
        notices.append(Notice(text, str(place.write)))
    return notices


def _attempt_log(directory: RunDirectory, outcome: Outcome) -> Path:
    """Give where the log of an earlier attempt is: it moves when a further attempt begins."""
    moved = directory.attempt_log(outcome.key, outcome.attempt)
    return moved if moved.exists() else directory.item_log(outcome.key)


def _has_log(outcome: Outcome) -> bool:
    return outcome.start is not None or outcome.status is Status.SETUP_FAILED


def _log(directory: RunDirectory, outcome: Outcome) -> Path:
    if outcome.status is Status.SETUP_FAILED:
        return directory.setup_log(outcome.key.suite)
    return directory.item_log(outcome.key)


def _tail(directory: RunDirectory, outcome: Outcome) -> bytes:
    if outcome.status is Status.SETUP_FAILED:
        return directory.setup_tail(outcome.key.suite, _TAIL)
    return directory.tail(outcome.key, _TAIL)


def _write_junit(
    directory: RunDirectory, state: RunState, view: RunView, losses: _Losses, clean: Callable[[str], str]
) -> str:
    """Write the tests inside the items: of all suites in one file, whose path it gives, and of each in its own."""
    parts = {part.number: part for part in state.parts} if len(state.parts) > 1 else {}
    items = [_item_xml(directory, view, outcome, parts.get(outcome.part)) for outcome in state.outcomes]
    opener = junit_bare.opener(directory.open_file, clean) if directory.is_veiled else directory.open_file
    write = partial(junit_write.write, started=state.started, open_xml=opener, clean=clean)
    path = ""
    with losses.around("report/junit.xml"):
        with directory.writing("report/junit.xml") as stream:
            write(stream, items)
        path = directory.shown(directory.path / "report" / "junit.xml")
    taken = {name for suite in state.suites for name in (suite.log_name, f"{suite.log_name}.rc")}
    for name, one in ((f"{file_name(each.suite)}.xml", each) for each in view.verdicts):
        if name in taken:
            continue
        mine = [item for item in items if item.outcome.key.suite == one.suite]
        with losses.around(f"suites/{name}"), directory.writing(f"suites/{name}") as stream:
            write(stream, mine)
    return path


def _item_xml(directory: RunDirectory, view: RunView, outcome: Outcome, part: Part | None) -> junit_write.ItemXml:
    earlier = view.attempts.get(str(outcome.key), ())
    return junit_write.ItemXml(
        outcome,
        sources=directory.junit_files(outcome.key) if outcome.start is not None else (),
        tail=partial(_tail, directory, outcome),
        log=view.log_of.get(str(outcome.key), ""),
        earlier=tuple(_earlier(directory, view, one) for one in earlier),
        part=part,
    )


def _earlier(directory: RunDirectory, view: RunView, outcome: Outcome) -> junit_write.Earlier:
    return junit_write.Earlier(
        outcome,
        sources=directory.attempt_junit_files(outcome.key, outcome.attempt),
        tail=partial(directory.attempt_tail, outcome.key, outcome.attempt, _TAIL),
        log=view.attempt_log_of.get((str(outcome.key), outcome.attempt), ""),
    )


def _append_summary(path: Path, text: str, report: str) -> None:
    """Append the report to the summary of a CI step, cut to what fits, unless it stands there already."""
    held = path.stat().st_size if path.exists() else 0
    room = SUMMARY_LIMIT - _SUMMARY_MARGIN - held
    cut = job_summary.summary(text, room, report).encode("utf-8", "backslashreplace")
    if held and cut in path.read_bytes():
        return
    with path.open("ab") as stream:
        stream.write(cut)
