"""One run of a queue under pytest: from the opening of its run directory to the last file that it leaves."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence

import pytest

from pytest_sgpu import results
from pytest_sgpu.core import resume, simulate
from pytest_sgpu.core.names import node_id
from pytest_sgpu.core.redact import Redactor
from pytest_sgpu.core.text import counted, one_line
from pytest_sgpu.engine import commit, signals
from pytest_sgpu.engine.store import RunDirectory
from pytest_sgpu.engine.weight_file import LOCK_SECONDS
from pytest_sgpu.errors import StoreError
from pytest_sgpu.face.collect import SgpuItem
from pytest_sgpu.face.listener import Listener
from pytest_sgpu.face.options import rerun_command, rerun_head
from pytest_sgpu.face.resumed import Earlier, examine, kept_lines
from pytest_sgpu.face.terminal import Terminal
from pytest_sgpu.model import Key, Outcome, Plan
from pytest_sgpu.prepare import Prepared
from pytest_sgpu.report import budget_text, plan_text
from pytest_sgpu.session import Session

_BROKE_OFF = "the run broke off"  # an error of a plugin, or of ours
_NAMED = 5  # items in an error
_IMPATIENT = 1.0  # seconds to wait for the weight table when somebody waits for the end


class Run:
    """Carries out a plan, or what is left of it.

    ``hearing`` takes a context in which signals are events: from before the run directory is opened until
    the caller closes it, when pytest has written its own files too.
    """

    def __init__(
        self,
        config: pytest.Config,
        prepared: Prepared,
        plan: Plan,
        terminal: Terminal,
        hearing: contextlib.ExitStack,
    ) -> None:
        self._prepared = prepared
        self._options = prepared.options
        self._plan = plan
        self._terminal = terminal
        self._hearing = hearing
        self._redactor = Redactor(self._options.env)
        self._rerun = self._redactor.text(rerun_head(config, self._options))
        self._directory = RunDirectory(self._options.log_dir, self._redactor)

    def carry_out(
        self, session: pytest.Session, chosen: Sequence[SgpuItem], predicted: float, *, reorder: bool, stepwise: bool
    ) -> str:
        """Run, report, and write everything. Gives why not all of it ran, "" when it did.

        Raises SgpuError, and UsageError for a run that cannot be gone on with.
        """
        with signals.raised():
            here = commit.head(self._options.root, self._options.env)
        inbox = signals.Inbox()
        self._hearing.enter_context(inbox.hearing())
        try:
            earlier = self._take(here)
            listener = Listener(
                session,
                chosen,
                self._terminal,
                self._directory,
                lambda nodeid: rerun_command(self._rerun, nodeid),
                clean=self._redactor.text,
                stepwise=stepwise,
            )
            run = Session(
                self._prepared,
                self._plan,
                self._directory,
                listener,
                predicted=predicted,
                reorder=reorder,
                commit=here,
                rerun=self._rerun,
                earlier=earlier.state if earlier else None,
                begins=earlier.begins if earlier else 0.0,
                inbox=inbox,
            )
            if earlier:
                self._terminal.lines(kept_lines(earlier, run.todo, here, self._terminal.width))
                predicted = simulate.predict(run.todo)
            self._announce(run.todo, predicted)
            self._run(run, listener, earlier, inbox)
        finally:
            self._directory.close()
        return run.interrupted or run.unfinished

    def _announce(self, todo: Plan, predicted: float) -> None:
        """Show what will run now, and whether it fits into the budget."""
        if todo.entries:
            width = self._terminal.width
            self._terminal.plan(plan_text.text(todo, predicted, width, limit=plan_text.LIMIT))
            if self._options.budget is not None:
                self._terminal.lines(budget_text.lines(todo, self._options.budget))

    def _take(self, here: str) -> Earlier | None:
        """Take the run directory: for a new run, or to go on with the one that it holds."""
        if not self._options.resume:
            self._directory.open(time.time())
            return None
        self._directory.resume(time.time())
        earlier = examine(self._directory, self._prepared, self._plan, here, force=self._options.force)
        results.veil(self._directory, earlier.state, self._options.env)  # told with the other notices at the end
        return earlier

    def _run(self, run: Session, listener: Listener, earlier: Earlier | None, inbox: signals.Inbox) -> None:
        kept = earlier.kept if earlier else ()
        listener.open(run.started - run.begins)
        whole = False
        try:
            try:
                if run.todo.entries:
                    run.run()
                whole = True
            finally:
                listener.close()
                if earlier:
                    listener.replay(kept, earlier.zero)
        finally:
            state, notices = self._directory.state()
            if not whole:
                state = resume.complete(state, run.clock(), _BROKE_OFF)
            self._terminal.view = finished = results.finish(
                self._directory,
                self._prepared.place,
                rerun=self._rerun_of,
                env=self._options.env,
                state=state,
                lock_wait=_IMPATIENT if inbox.called else LOCK_SECONDS,
            )
            finished.late_notices[:0] = notices
        known = len(self._directory.notices)
        self._directory.confirm()
        finished.late_notices.extend(self._directory.notices[known:])
        seen = {**{outcome.key: outcome for outcome in kept}, **run.outcomes}
        self._check_nothing_lost(seen, state.outcomes, all_planned=bool(run.todo.entries))

    def _rerun_of(self, key: Key) -> str:
        """Give the command for one item; a suite that is gone since an earlier part stands below the first conf."""
        confs = {suite.label: suite.conf for suite in self._prepared.suites}
        return rerun_command(self._rerun, node_id(confs.get(key.suite, self._options.conf_names[0]), key))

    def _check_nothing_lost(self, seen: Mapping[Key, Outcome], found: Sequence[Outcome], *, all_planned: bool) -> None:
        """Refuse to end when the journal does not hold what was seen: everything written comes from it.

        ``all_planned``: nothing else can be in it; else it holds an earlier part that was not gone on with.
        """
        there = {outcome.key: outcome for outcome in found}
        keys = dict.fromkeys((*seen, *there)) if all_planned else seen
        differ = [key for key in keys if _end_of(seen.get(key)) != _end_of(there.get(key))]
        if differ:
            named = ", ".join(
                f"{one_line(str(key), 200)} ({_said(seen.get(key), there.get(key))})" for key in differ[:_NAMED]
            )
            more = f" and {len(differ) - _NAMED} more" if len(differ) > _NAMED else ""
            raise StoreError(
                f"{self._directory.path}: the journal of this run has another end than was seen for "
                f"{counted(len(differ), 'item')}, so verdicts, report and weights are wrong: {named}{more}",
                "something removed or changed files of the run directory while the run went on; did an item?",
            )


def _end_of(outcome: Outcome | None) -> tuple[object, ...]:
    return (outcome.status, outcome.exit_code, outcome.attempt) if outcome else ()


def _said(seen: Outcome | None, there: Outcome | None) -> str:
    return f"{_text(there)} there, {_text(seen)} seen"


def _text(outcome: Outcome | None) -> str:
    if outcome is None:
        return "nothing"
    code = "" if outcome.exit_code is None else f" with exit code {outcome.exit_code}"
    return f"{outcome.status.value}{code} at attempt {outcome.attempt}"
