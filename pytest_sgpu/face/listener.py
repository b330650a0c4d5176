"""What the session tells, turned into pytest reports and lines on the screen."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import pytest

from pytest_sgpu.core.text import duration, one_line
from pytest_sgpu.engine.events import ItemSlow
from pytest_sgpu.engine.store import RunDirectory
from pytest_sgpu.face.collect import SgpuItem
from pytest_sgpu.face.news import device_line, hurried_line, stopping_line
from pytest_sgpu.face.reports import Crash, Failure, WorkerNode, reports
from pytest_sgpu.face.terminal import Terminal
from pytest_sgpu.listener import Progress
from pytest_sgpu.model import Ending, Outcome, PlanEntry, Status, Suite, Worker
from pytest_sgpu.report.clean import clean_outcome
from pytest_sgpu.report.console import failure_block
from pytest_sgpu.report.pieces import plain


class Listener:
    """Feeds pytest's report hooks. Items that never ran get no report, as in any pytest run that stops."""

    def __init__(
        self,
        session: pytest.Session,
        items: Sequence[SgpuItem],
        terminal: Terminal,
        directory: RunDirectory,
        rerun: Callable[[str], str],
        *,
        clean: Callable[[str], str],
        stepwise: bool,
    ) -> None:
        self._session = session
        self._items = {item.entry.key: item for item in items}
        self._place = {item.entry.key: number for number, item in enumerate(items)}
        self._terminal = terminal
        self._directory = directory
        self._rerun = rerun
        self._clean = clean
        self._nodes: dict[Worker, WorkerNode] = {}
        self._workers: dict[str, Worker] = {}
        self._held: list[Outcome] = []
        self._hold = stepwise
        self._pardoned = not session.config.getoption("stepwise_skip", False)
        self._epoch = 0.0
        # The terminal's own start and end of a test would print paths between our lines.
        manager = session.config.pluginmanager
        quiet = [plugin for plugin in [manager.get_plugin("terminalreporter")] if plugin is not None]
        self._logstart = manager.subset_hook_caller("pytest_runtest_logstart", quiet)
        self._logfinish = manager.subset_hook_caller("pytest_runtest_logfinish", quiet)

    def open(self, epoch: float) -> None:
        """Begin the display. ``epoch`` is when the clock of the run was at 0, in epoch seconds."""
        self._epoch = epoch
        self._terminal.open()

    def replay(self, outcomes: Iterable[Outcome], zero: Callable[[Outcome], float]) -> None:
        """Report what an earlier part of a resumed run has brought to its end; ``zero`` says when its clock began.

        pytest counts it as if it had run now, except that --maxfail stops nothing any more.
        """
        option = self._session.config.option
        epoch, most = self._epoch, option.maxfail
        option.maxfail = 0
        for outcome in outcomes:
            if outcome.key in self._items:
                self._epoch = zero(outcome)
                self._report(outcome)
        self._epoch, option.maxfail = epoch, most

    def close(self) -> None:
        """Report what was held back, and end the display."""
        for outcome in sorted(self._held, key=lambda one: self._place[one.key], reverse=True):
            self._report(outcome)
        self._held.clear()
        self._terminal.close()

    def setup(self, suite: Suite, ending: Ending | None) -> None:
        """Show a suite's setup."""
        self._terminal.setup(suite, ending, "setup")

    def started(self, entry: PlanEntry, worker: Worker, progress: Progress) -> None:
        """Tell pytest and the screen that an item began."""
        self._workers[worker.id] = worker
        item = self._items[entry.item.key]
        self._logstart(nodeid=item.nodeid, location=item.location)
        self._terminal.started(entry, worker, progress)

    def slow(self, event: ItemSlow) -> None:
        """Show that half of an item's time is over."""
        self._terminal.slow(event)

    def attempted(self, outcome: Outcome, why: str, progress: Progress) -> None:
        """Show that an attempt is over. pytest hears of the last one only."""
        self._terminal.attempted(outcome, why, progress)

    def device(self, text: str) -> None:
        """Show news of a device."""
        self._terminal.tell(device_line(self._clean(text)))

    def finished(self, outcome: Outcome, progress: Progress) -> str:
        """Tell pytest and the screen how an item ended. Gives pytest's reason to stop, or ""."""
        if outcome.status is not Status.NOT_RUN:
            self._terminal.finished(outcome, progress)
            if self._hold and outcome.failed and self._pardoned:
                # --stepwise continues at the failure that was reported last. Several devices fail in any
                # order, so failures are reported at the end, the first of the listing last: nothing that
                # has not passed is skipped next time.
                self._held.append(outcome)
                return "stepwise: an item failed"
            self._pardoned = self._pardoned or outcome.failed
            self._report(outcome)
        reason = self._session.shouldfail or self._session.shouldstop
        return str(reason) if reason else ""

    def stopping(self, reason: str, grace: float, progress: Progress) -> None:
        """Say that the run is being ended, how long that takes, and how it takes no time."""
        self._terminal.say(stopping_line(self._clean(reason), grace, len(progress.running)))

    def hurried(self, reason: str, progress: Progress) -> None:
        """Say that the grace is over."""
        self._terminal.say(hurried_line(self._clean(reason), len(progress.running)))

    def incomplete(self, reason: str) -> None:
        """Say that not everything will run."""
        self._terminal.say(
            f"sgpu: {one_line(self._clean(reason), 400)}: the rest is not run, --sgpu-resume goes on from here", "warn"
        )

    def paused(self) -> None:
        """Leave the terminal to the shell."""
        self._terminal.say("sgpu: paused, with all running items; fg or SIGCONT goes on", "warn")
        self._terminal.close()

    def continued(self, seconds: float) -> None:
        """Take the terminal back."""
        self._terminal.open()
        self._terminal.say(f"sgpu: goes on after a pause of {duration(seconds)}", "warn")

    def tick(self, progress: Progress) -> None:
        """Draw again."""
        self._terminal.update(progress)

    def _report(self, outcome: Outcome) -> None:
        item = self._items[outcome.key]
        log = self._log(outcome)
        made = reports(
            item,
            outcome,
            node=self._node(outcome.worker),
            epoch=self._epoch,
            log=log,
            failure=lambda: self._failure(item, outcome, log),
        )
        for report in made:
            item.ihook.pytest_runtest_logreport(report=report)
        if outcome.start is not None:
            self._logfinish(nodeid=item.nodeid, location=item.location)

    def _failure(self, item: SgpuItem, outcome: Outcome, log: str) -> Failure:
        refused = outcome.status is Status.SETUP_FAILED
        end = self._directory.setup_tail(outcome.key.suite) if refused else self._directory.tail(outcome.key)
        tail = self._clean(end.decode("utf-8", "surrogateescape"))
        lines = failure_block(
            clean_outcome(outcome, self._clean), tail, log, self._rerun(item.nodeid), self._terminal.width
        )
        message = outcome.reason
        if outcome.junit.failing:
            message += f"; {outcome.junit.failing[0][0]}"
        block = [self._clean(plain(line)) for line in lines]
        return Failure(block, Crash(item.suite.conf, item.suite.line, self._clean(message)))

    def _log(self, outcome: Outcome) -> str:
        if outcome.status is Status.SETUP_FAILED:
            return self._directory.shown(self._directory.setup_log(outcome.key.suite))
        return self._directory.shown(self._directory.item_log(outcome.key)) if outcome.start is not None else ""

    def _node(self, worker_id: str) -> WorkerNode | None:
        worker = self._workers.get(worker_id)
        if worker is None:
            return None
        return self._nodes.setdefault(worker, WorkerNode(worker))
