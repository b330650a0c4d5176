"""Everything the queue prints, through pytest's own writer or, while items run, the live display."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from pytest_sgpu.core import text
from pytest_sgpu.core.redact import Redactor
from pytest_sgpu.engine.events import ItemSlow
from pytest_sgpu.face import news
from pytest_sgpu.model import Ending, Notice, Outcome, PlanEntry, Status, Suite, Worker
from pytest_sgpu.report import console, screen, summary
from pytest_sgpu.report.annotations import lines as annotation_lines
from pytest_sgpu.report.clean import clean_outcome
from pytest_sgpu.report.pieces import Line
from pytest_sgpu.report.progress import Lane, ScreenState

if TYPE_CHECKING:
    from pytest_sgpu.listener import Progress
    from pytest_sgpu.prepare import Options, Prepared
    from pytest_sgpu.results import Finished

_MARKUP: Mapping[str, dict[str, bool]] = {
    "pass": {"green": True},
    "fail": {"red": True, "bold": True},
    "warn": {"yellow": True},
    "dim": {"light": True},
    "bold": {"bold": True},
}

_NOTICES_SHOWN = 10
_SILENT = -2  # as with -qq


class TerminalWriter(Protocol):
    """What is used of pytest's terminal writer."""

    hasmarkup: bool

    @property
    def fullwidth(self) -> int:
        """Give the columns of the terminal."""

    def write(self, msg: str, **markup: bool) -> None:
        """Write without a line end."""

    def line(self, s: str = "", **markup: bool) -> None:
        """Write one line."""

    def sep(self, sepchar: str, title: str | None = None) -> None:
        """Write a line of separators around a title."""


class Terminal:
    """The queue's voice. Quiet as ``-q`` asks, coloured as ``--color`` and NO_COLOR say; it tells no secrets."""

    def __init__(self, config: pytest.Config, options: Options) -> None:
        self._config = config
        self._options = options
        self._clean = Redactor(options.env).text
        self._display: screen.Display | None = None
        self._devices: tuple[str, ...] = ()
        self.view: Finished | None = None

    @property
    def verbosity(self) -> int:
        """Give the balance of -v and -q; silence under ``-p no:terminal``, which has no such options."""
        return self._config.get_verbosity() if self._writer is not None else _SILENT

    @property
    def width(self) -> int:
        """Give the columns of the terminal; 80 where there is none."""
        writer = self._writer
        return writer.fullwidth if writer is not None and sys.stdout.isatty() else 80

    @property
    def _writer(self) -> TerminalWriter | None:
        """Give pytest's own writer; None under ``-p no:terminal``, which asks for silence."""
        if not self._config.pluginmanager.has_plugin("terminalreporter"):
            return None
        writer: TerminalWriter = self._config.get_terminal_writer()
        return writer

    def lines(self, lines: Iterable[Line | str]) -> None:
        """Print lines that stay."""
        writer = self._writer
        if writer is None:
            return
        for line in lines:
            pieces: Line = ((line, ""),) if isinstance(line, str) else line
            for words, style in pieces:
                writer.write(self._clean(words), **_MARKUP.get(style, {}))
            writer.line()

    def found(self, prepared: Prepared) -> list[str]:
        """Say what was found: devices, scope, notices. One line each."""
        names = [device.name for device in prepared.devices]
        virtual = " (virtual)" if all(device.vendor == "virtual" for device in prepared.devices) else ""
        shown = names if len(names) <= 8 else [*names[:3], "...", names[-1]]  # noqa: PLR2004 - a line's worth
        self._devices = tuple(names)
        head = f"sgpu: {len(names)} device{'s' * (len(names) != 1)}{virtual}: {' '.join(shown)}; "
        head += f"arch {prepared.scope.arch}, level {prepared.scope.level}, {len(prepared.table.entries)} known weights"
        notices = (text.one_line(self._clean(str(notice)), 400) for notice in prepared.notices)
        left_out = Counter(key.suite for key in prepared.census.known - prepared.census.runnable)
        named = ", ".join(f"{count} of {text.printable(suite)}" for suite, count in sorted(left_out.items()))
        lines = [head, *([f"sgpu: lines that the suites' probes leave out here: {named}"] if named else [])]
        return [*lines, *(f"sgpu: warning: {notice}" for notice in notices)]

    def plan(self, lines: Iterable[str]) -> None:
        """Print the plan before a run, unless -q."""
        if self.verbosity >= 0:
            self.lines(lines)

    # -- while items run ---------------------------------------------------------------------------

    def open(self) -> None:
        """Start the display: live on a terminal, plain lines elsewhere."""
        writer = self._writer
        if writer is None:
            return
        self._display = screen.open_display(
            sys.stdout, environ=os.environ, color=writer.hasmarkup, live=self.verbosity >= 0
        )
        self._display.start()

    def close(self) -> None:
        """Take the live region away."""
        if self._display is not None:
            self._display.stop()
            self._display = None

    def say(self, line: Line | str, style: str = "") -> None:
        """Print a line above the live region."""
        if self._display is not None:
            pieces: Line = ((line, style),) if isinstance(line, str) else line
            self._display.print(tuple((self._clean(words), one) for words, one in pieces))

    def tell(self, line: Line) -> None:
        """Print a line of news, unless -qq."""
        if self.verbosity > _SILENT:
            self.say(line)

    def setup(self, suite: Suite, ending: Ending | None, place: str) -> None:
        """Say that a suite's setup ended; a failed one also under -q."""
        if ending is None:
            return
        if self.verbosity >= 0 or ending.exit_code != 0:
            self.say(console.setup_line(suite.label, place, ending.seconds, ending.exit_code, _clock()))
        for line in news.leak_lines(f"setup of {suite.label}", ending.left, ending.late, self._clean):
            self.tell(line)

    def slow(self, event: ItemSlow) -> None:
        """Say that half of an item's time is over."""
        self.tell(news.slow_line(event, self._clean))

    def attempted(self, outcome: Outcome, why: str, progress: Progress) -> None:
        """Say that an attempt is over and its item waits again."""
        self.tell(news.attempt_line(outcome, why, len(self._devices), self._clean))
        self._leaks(outcome)
        self.update(progress)

    def _leaks(self, outcome: Outcome) -> None:
        for line in news.leak_lines(str(outcome.key), outcome.left, outcome.late, self._clean):
            self.tell(line)

    def started(self, entry: PlanEntry, worker: Worker, progress: Progress) -> None:
        """Say that an item began, under -v."""
        if self.verbosity > 0:
            self.say(
                console.started_line(
                    entry.item.key, worker.place, progress.now, entry.estimate, _clock(), progress.done, progress.total
                )
            )
        self.update(progress)

    def finished(self, outcome: Outcome, progress: Progress) -> None:
        """Print the line of an item that ended: all of them, under -q those that did not just pass."""
        if self.verbosity >= 0 or (self.verbosity == -1 and outcome.status is not Status.PASSED):
            outcome = clean_outcome(outcome, self._clean)  # whole, before the line cuts its reason
            self.say(console.finished_line(outcome, _clock(), progress.done, progress.total, self.width))
        self._leaks(outcome)
        self.update(progress)

    def update(self, progress: Progress) -> None:
        """Draw the live region."""
        if self._display is None:
            return
        lanes = []
        for device in self._devices:
            running = progress.running.get(device)
            if running is None:
                lanes.append(Lane(device))
            else:
                lanes.append(Lane(device, running.entry.item.key, running.since, running.entry.estimate))
        state = ScreenState(
            lanes=tuple(lanes),
            done=progress.done,
            total=progress.total,
            failed=progress.failed,
            flaky=progress.flaky,
            now=progress.now,
            remaining_known=max(0.0, progress.remaining - _running_known(progress)),
            unknown_left=progress.unknown,
        )
        self._display.update(state)

    # -- at the end --------------------------------------------------------------------------------

    def flaky_failures(self) -> None:
        """Print the blocks of FLAKY items that fail the run: pytest prints those of what it calls failed."""
        reporter: Any = self._config.pluginmanager.get_plugin("terminalreporter")
        writer = self._writer
        if reporter is None or writer is None or self.verbosity <= _SILENT:
            return
        for report in reporter.stats.get("flaky", ()):
            if report.failed:
                writer.sep("_", text.one_line(self._clean(report.nodeid)))
                report.longrepr.toterminal(writer)

    def summary(self) -> None:
        """Print the last screen, and what a CI system shows beside the code."""
        finished = self.view
        if finished is None:
            return
        view = replace(finished.view, remembered=hasattr(self._config, "cache"))
        writer = self._writer
        if writer is None:
            return
        if self.verbosity > _SILENT:
            writer.sep("=", "sgpu")
            self.lines(summary.suites_table(view.verdicts, self.width))
            self.lines(console.utilisation_lines(view.timeline))
            self._notices((*view.notices, *finished.late_notices))
            self.lines(
                console.closing_lines(
                    view.outcomes,
                    report=finished.report,
                    logs=finished.logs,
                    junit=finished.junit,
                    weights=finished.weights,
                    interrupted=view.interrupted,
                    view=view,
                    clean=self._clean,
                )
            )
        if os.environ.get("GITHUB_ACTIONS") == "true":
            for line in annotation_lines(view):
                writer.line(self._clean(line))

    def _notices(self, notices: Sequence[Notice]) -> None:
        """Say again what was said before the run: by now it has scrolled away."""
        self.lines(
            ((f"warning: {text.one_line(self._clean(str(notice)), 400)}", "warn"),)
            for notice in notices[:_NOTICES_SHOWN]
        )
        if len(notices) > _NOTICES_SHOWN:
            self.lines([f"... and {text.counted(len(notices) - _NOTICES_SHOWN, 'more warning')}, in the report"])


def _clock() -> str:
    return time.strftime("%H:%M:%S")


def _running_known(progress: Progress) -> float:
    estimates = (running.entry.estimate for running in progress.running.values())
    return sum(estimate.seconds or 0.0 for estimate in estimates if estimate.known)
