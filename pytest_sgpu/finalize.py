"""``sgpu finalize``: from the journal of a run that was killed to everything that a normal end leaves."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from pytest_sgpu.core import resume
from pytest_sgpu.core.fold import KILLED, RunState
from pytest_sgpu.core.names import node_id
from pytest_sgpu.core.redact import MASK, Redactor
from pytest_sgpu.core.text import counted, one_line
from pytest_sgpu.core.verdict import exit_code
from pytest_sgpu.engine.store import RunDirectory
from pytest_sgpu.engine.weight_file import WeightPlace, weight_place
from pytest_sgpu.model import Key, Notice, Status
from pytest_sgpu.report import console, summary
from pytest_sgpu.report.closing import closing_lines
from pytest_sgpu.report.pieces import Line, line
from pytest_sgpu.results import Finished, finish, write_plan

FAILED = 1
INCOMPLETE = 2
_CUT_OFF = (Status.STOPPED, Status.NOT_RUN)
_BLOCKS = 20  # failed items with their last lines
_NOTICES = 10
_WEIGHTS = "ci-weights"  # where weights are when nobody names a place


def finalize(path: Path, env: Mapping[str, str], weights: Path | None = None) -> tuple[Finished, int]:
    """Write the results of the run in this directory, from its journal; give them, and the exit code.

    Items that ran when the controller was killed are LOST, those that had not begun are not run. The journal
    itself says nothing of that, so that ``--sgpu-resume`` runs them all the same. ``weights``: a table, or the
    folder of tables; without one those of the run itself. Once more gives the same, and teaches nothing; so
    does a run that had ended. Exit code: 0 all passed, 1 failures, 2 interrupted or incomplete.

    Raises StoreError where no run has left its journal, where it goes on still, and where nothing can be written.
    """
    directory = RunDirectory(path.absolute(), Redactor(env))
    directory.hold()
    try:
        state = _state(directory)
        place, notices = _place(state, weights)
        notices = (*notices, *_codes(directory, state))
        finished = finish(directory, place, rerun=_rerun(state), env=env, state=state)
        finished.late_notices[:0] = notices
        # pytest writes its cache at its own end: after a kill --lf knows nothing of this run.
        finished.view = replace(finished.view, remembered=state.ended)
        return finished, _exit_code(state)
    finally:
        directory.close()


def _state(directory: RunDirectory) -> RunState:
    state, notices = directory.state()
    sign = directory.last_sign()
    how = KILLED if sign is not None else "the run broke off"
    if state.ended:
        how = "damaged journal, last record"
    if not state.plan.entries:
        lost = "the plan of this run cannot be read, so nothing shows what it should have run"
        notices = (*notices, Notice(lost, "queue/journal.jsonl"))
    complete = resume.complete(state, resume.ended_at(state, sign), how)
    return replace(complete, notices=(*complete.notices, *notices))


def _place(state: RunState, option: Path | None) -> tuple[WeightPlace, tuple[Notice, ...]]:
    read, write = state.weights
    if option is None and read and write and MASK not in read + write:
        return WeightPlace(Path(state.root, read), Path(state.root, write)), ()
    return weight_place(option if option is not None else Path(state.root, _WEIGHTS), state.scope)


def _codes(directory: RunDirectory, state: RunState) -> list[Notice]:
    """Write what a run writes while it goes on: the plan, and the exit code of each item that was started."""
    lost = []
    try:
        if state.plan.entries:
            write_plan(directory, state.plan, state.census)
        for outcome in state.outcomes:
            if outcome.start is not None:
                directory.write_code(outcome.key, exit_code(outcome))
    except OSError as error:
        lost.append(Notice(f"plan and exit codes could not be written: {error.strerror}", str(error.filename or "")))
    return lost


def _rerun(state: RunState) -> Callable[[Key], str]:
    confs = {suite.label: suite.conf for suite in state.suites}

    def command(key: Key) -> str:
        conf = confs.get(key.suite)
        return f"{state.rerun} {shlex.quote(node_id(conf, key))}" if state.rerun and conf else ""

    return command


def _exit_code(state: RunState) -> int:
    unfinished = not state.plan.entries or any(outcome.status in _CUT_OFF for outcome in state.outcomes)
    if unfinished or state.interrupted or state.incomplete:
        return INCOMPLETE
    return FAILED if any(outcome.failed for outcome in state.outcomes) else 0


def screen(finished: Finished, width: int) -> list[Line]:
    """Give the last screen of a run: what failed, the suites, the devices, and where everything is."""
    view = finished.view
    failed = [one for one in view.outcomes if one.failed and one.status is not Status.NOT_RUN]
    made: list[Line] = []
    for outcome in failed[:_BLOCKS]:
        key = str(outcome.key)
        rerun, log = view.rerun_of.get(key, ""), view.log_of.get(key, "")
        made += [*console.failure_block(outcome, view.tail_of.get(key, ""), log, rerun, width), ()]
    if len(failed) > _BLOCKS:
        made += [line((f"... and {counted(len(failed) - _BLOCKS, 'more failed item')}, in the report", "dim")), ()]
    made.append(line((" sgpu ".center(width, "="), "bold")))
    made += summary.suites_table(view.verdicts, width)
    made += console.utilisation_lines(view.timeline)
    notices = (*view.notices, *finished.late_notices)
    made += [line((f"warning: {one_line(str(notice), 400)}", "warn")) for notice in notices[:_NOTICES]]
    if len(notices) > _NOTICES:
        made.append(line(f"... and {counted(len(notices) - _NOTICES, 'more warning')}, in the report"))
    return made + closing_lines(
        view.outcomes,
        report=finished.report,
        logs=finished.logs,
        junit=finished.junit,
        weights=finished.weights,
        interrupted=view.interrupted,
        view=view,
    )
