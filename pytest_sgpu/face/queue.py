"""The plugin object of an active queue: pytest's hooks on one side, the session on the other."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence

import pytest

from pytest_sgpu.core import simulate
from pytest_sgpu.core.redact import Redactor
from pytest_sgpu.engine import output, signals
from pytest_sgpu.errors import SgpuError
from pytest_sgpu.face import collect
from pytest_sgpu.face.options import plan_format, read_options
from pytest_sgpu.face.reports import SHOWN_AS
from pytest_sgpu.face.resumed import left_of
from pytest_sgpu.face.terminal import Terminal
from pytest_sgpu.model import Key, Plan
from pytest_sgpu.prepare import Prepared, make_plan, prepare
from pytest_sgpu.report import budget_text, plan_text


class Queue:
    """Collects the queue's items, shows the plan, runs it, and reports."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.shows = plan_format(config)
        self.options = read_options(config)
        self._clean = Redactor(self.options.env).text
        self.prepared: Prepared | None = None
        self.plan: Plan | None = None
        self.terminal = Terminal(config, self.options)
        self._keep_order = False
        self._ranked: list[str] = []
        self._running = False
        self._hearing = contextlib.ExitStack()
        if self.shows == "json":
            _move_terminal_to_stderr(config)

    # -- collection -------------------------------------------------------------------------------

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self, session: pytest.Session) -> bool:
        """List and order everything; the errors of conf, devices and listings are usage errors."""
        try:
            with signals.raised():
                self.prepared = prepared = prepare(self.options)
        except SgpuError as error:
            raise pytest.UsageError(str(error)) from None
        paths = dict(zip(self.options.conf_names, self.options.confs, strict=True))
        session.items = []
        try:
            for node in collect.build(session, prepared.suites, prepared.items, paths):
                session.items.extend(session.genitems(node))
            self.config.pluginmanager.check_pending()
            self.config.hook.pytest_collection_modifyitems(session=session, config=self.config, items=session.items)
        finally:
            self.config.hook.pytest_collection_finish(session=session)
        session.testscollected = len(session.items)
        return True

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Apply arguments and TEST_FILTER, and put the items in the order of the plan.

        Runs before every other plugin, so that -k, --lf and the like select from what is left, and --ff
        has the last word on the order.
        """
        prepared = self._prepared()
        mine = [item for item in items if isinstance(item, collect.SgpuItem)]
        kept = mine
        if self.config.args_source is pytest.Config.ArgsSource.ARGS:
            kept = collect.chosen_by_arguments(kept, self.config.args)
        kept = [item for item in kept if prepared.wanted_by_filter(item.entry)]
        names = {item.nodeid for item in kept}
        dropped = [item for item in mine if item.nodeid not in names]
        if dropped:
            self.config.hook.pytest_deselected(items=dropped)
        if self._stepwise():
            self._keep_order = True  # "continue from there" needs an order that is the same in every run
        else:
            ranks = {e.item.key: e.rank for e in make_plan(prepared, [i.entry for i in kept], keep_order=False).entries}
            kept.sort(key=lambda item: ranks[item.entry.key])
        self._ranked = [item.nodeid for item in kept]
        items[:] = kept

    def _prepared(self) -> Prepared:
        assert self.prepared is not None
        return self.prepared

    def _stepwise(self) -> bool:
        return bool(self.config.getoption("stepwise", False))

    @pytest.hookimpl
    def pytest_report_header(self) -> list[str]:
        """Say that this run is a queue."""
        return [self._clean(f"sgpu: queue of {', '.join(self.options.conf_names)}")]

    @pytest.hookimpl
    def pytest_report_collectionfinish(self) -> list[str]:
        """Say what is there: devices, scope, table; and every notice so far."""
        return [] if self.prepared is None else list(map(self._clean, self.terminal.found(self.prepared)))

    # -- run --------------------------------------------------------------------------------------

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Print the plan and run it, instead of pytest's own loop."""
        if session.testsfailed and not session.config.option.continue_on_collection_errors:
            raise session.Interrupted(f"{session.testsfailed} errors during collection")
        if session.config.option.collectonly and not self.shows:
            return True
        prepared = self._prepared()
        chosen = [item for item in session.items if isinstance(item, collect.SgpuItem)]
        remaining = {item.nodeid for item in chosen}
        in_rank = [nodeid for nodeid in self._ranked if nodeid in remaining]
        keep_order = self._keep_order or [item.nodeid for item in chosen] != in_rank
        self.plan = make_plan(prepared, [item.entry for item in chosen], keep_order=keep_order)
        if self.shows and self.options.resume:
            self.plan = left_of(self.options.log_dir, self.plan)
        predicted = simulate.predict(self.plan)
        if self.shows:
            kept = {item.entry.key for item in chosen}
            self._show_plan(predicted, [item.key for item in prepared.items if item.key not in kept])
            return True
        if not chosen:
            return True
        self._run(session, chosen, predicted, reorder=not keep_order)
        return True

    def _run(
        self, session: pytest.Session, chosen: Sequence[collect.SgpuItem], predicted: float, *, reorder: bool
    ) -> None:
        from pytest_sgpu.face.run import Run

        assert self.plan is not None
        run = Run(self.config, self._prepared(), self.plan, self.terminal, self._hearing)
        self._running = True
        try:
            reason = run.carry_out(session, chosen, predicted, reorder=reorder, stepwise=self._stepwise())
        except SgpuError as error:
            raise pytest.UsageError(str(error)) from None
        finally:
            self._running = False
        _end(session, self._clean(reason))

    def _show_plan(self, predicted: float, deselected: Sequence[Key]) -> None:
        prepared, plan = self._prepared(), self.plan
        assert plan is not None
        if self.shows == "json":
            text = plan_text.json(
                plan,
                predicted,
                prepared.scope,
                prepared.devices,
                prepared.notices,
                deselected=deselected,
                clean=self._clean,
            )
            _write_out(text)
        else:
            self.terminal.lines(plan_text.text(plan, predicted, self.terminal.width))
            if self.options.budget is not None:
                self.terminal.lines(budget_text.lines(plan, self.options.budget))

    # -- reports ----------------------------------------------------------------------------------

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report: pytest.CollectReport | pytest.TestReport) -> tuple[str, str, str] | None:
        """Count our reports, but leave the progress lines to our own screen: no letter, no word.

        After the run, pytest's own words are right: they head the lines of the short summary.
        """
        outcome = getattr(report, "sgpu_outcome", None)
        if outcome is None or not self._running:
            return None
        decisive = report.failed or report.when == "call"
        return (SHOWN_AS.get(outcome.status, "failed") if decisive else ""), "", ""

    @pytest.hookimpl
    def pytest_terminal_summary(self) -> None:
        """Print the table of suites, utilisation and what to do next, and the annotations of a CI system."""
        self.terminal.flaky_failures()
        self.terminal.summary()

    @pytest.hookimpl
    def pytest_unconfigure(self) -> None:
        """Let signals do again what they did: by now pytest has written its own files too."""
        self._hearing.close()

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, exitstatus: int) -> None:
        """Keep pytest from writing its own records of what was collected: a plan and a refusal write nothing."""
        cache = getattr(self.config, "cache", None)
        if cache is not None and (self.shows or exitstatus == pytest.ExitCode.USAGE_ERROR):
            cache.set = _forget
        if self.shows:
            self.config.option.collectonly = True


def _forget(_key: str, _value: object) -> None:
    """Stand in for ``Cache.set``: --lf, --ff and --sw of every pytest version write through it, some always."""


def _end(session: pytest.Session, interrupted: str) -> None:
    """End the loop as pytest's own does: by its exceptions, which settle the exit code.

    The words are those that stopped the run; pytest's own count the stopped items as failures by now.
    """
    if session.shouldfail:
        session.shouldfail = interrupted or session.shouldfail
        raise session.Failed(session.shouldfail)
    if session.shouldstop:
        session.shouldstop = interrupted or session.shouldstop
        raise session.Interrupted(session.shouldstop)
    if interrupted:
        raise session.Interrupted(interrupted)


def _write_out(text: str) -> None:
    """Write to standard output. Raises UsageError when it takes nothing; a reader that has left is no error."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        output.silence()
        if not isinstance(error, BrokenPipeError):
            raise pytest.UsageError(f"standard output cannot be written: {error.strerror}") from None


def _move_terminal_to_stderr(config: pytest.Config) -> None:
    """Keep standard output for the JSON alone."""
    old = config.pluginmanager.get_plugin("terminalreporter")
    if old is not None:
        config.pluginmanager.unregister(old)
        config.pluginmanager.register(type(old)(config, sys.stderr), "terminalreporter")
