"""The report of a run as Markdown: ``report/schedule.md``, and the part of it that a job summary can hold.

Built from sections, each beginning with a line ``## ``, and in the section of failed items one block per
item, beginning with ``### ``. Output of items stands behind a sign in every line, so no other line begins
so, and ``summary`` can cut at these lines alone.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from pytest_sgpu.core.redact import Clean, unchanged
from pytest_sgpu.core.text import counted, duration, one_line, printable
from pytest_sgpu.core.timeline import EstimateError
from pytest_sgpu.model import Estimate, Outcome, Status, Verdict
from pytest_sgpu.report import md_trouble as trouble
from pytest_sgpu.report.clean import cleaned
from pytest_sgpu.report.job_summary import FAILED_HEAD, SUITES_HEAD, summary
from pytest_sgpu.report.md_text import NAME_LIMIT, cell, code, fence, table
from pytest_sgpu.report.view import RunView
from pytest_sgpu.report.words import left_text, parts_text, without_proof

__all__ = ["headline", "schedule", "summary"]

TAIL_LINES = 20
WORST = 20
_COMMAND_LIMIT = 1800
_TAIL_LIMIT = 1 << 16
_PLAIN_TITLE = re.compile(r"[A-Za-z0-9]+([ -][A-Za-z0-9]+)*")


def schedule(view: RunView, clean: Clean = unchanged) -> str:
    """Give the whole report. Equal views give equal text, which ends with a line end.

    ``clean`` goes over every text of the view before anything is cut.
    """
    view = cleaned(view, clean)
    sections = [
        f"# {_heading(view.title)}",
        headline(view),
        *trouble.beginning(view),
        _suites(view.verdicts),
        _failed(view),
        trouble.flaky(view),
        trouble.tried_again(view),
        *_doubtful(view.outcomes),
        trouble.leftovers(view),
        _devices(view),
        trouble.bad_devices(view),
        _estimates(view.timeline.estimate_errors),
        _listed("Not run", "Never started:", _of(view, Status.NOT_RUN)),
        trouble.parts(view),
        _notices(view),
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def _heading(title: str) -> str:
    return title if _PLAIN_TITLE.fullmatch(title) else code(title)


def headline(view: RunView) -> str:
    """Say in one sentence how the run went."""
    counts = Counter(outcome.status for outcome in view.outcomes)
    skipped = sum(outcome.status is Status.PASSED and outcome.junit.only_skips for outcome in view.outcomes)
    doubt = {Status.PASSED: f" ({skipped} with every test skipped)" if skipped else ""}
    ends = ", ".join(f"{counts[status]} {status.value}{doubt.get(status, '')}" for status in Status if counts[status])
    line = view.timeline
    said = [f"utilisation {line.utilisation:.0%} of {counted(len(view.devices), 'device')}"]
    said.append(
        f"bound {duration(view.bound)}" + (f" (wall / bound {view.wall / view.bound:.2f})" if view.bound else "")
    )
    if view.predicted:
        said.append(f"predicted {duration(view.predicted)}")
    items = counted(len(view.outcomes), "item")
    whole = f"**{ends or 'nothing ran'}** of {items} in {duration(view.wall)}: {', '.join(said)}."
    resumed = parts_text(view.parts)
    return f"{whole} {code(resumed, NAME_LIMIT)}" if resumed else whole


def _of(view: RunView, *statuses: Status) -> list[Outcome]:
    return [outcome for outcome in view.outcomes if outcome.status in statuses]


# -- suites -------------------------------------------------------------------------------------------


def _suites(verdicts: Sequence[Verdict]) -> str:
    if not verdicts:
        return ""
    ends = Counter(outcome.status for verdict in verdicts for outcome in verdict.outcomes)
    shown = [status for status in Status if ends[status] or status in {Status.PASSED, Status.FAILED}]
    skips = any(outcome.junit.tests.skipped for verdict in verdicts for outcome in verdict.outcomes)
    tests = ["tests", "skipped"] if skips else ["tests"]
    header = ["suite", "items", *(status.value for status in shown), *tests, "work", "verdict"]
    rows = [_suite_row(verdict, shown, skips=skips) for verdict in verdicts]
    return f"{SUITES_HEAD}\n\n" + table(header, rows, range(1, len(header) - 1))


def _suite_row(verdict: Verdict, shown: Sequence[Status], *, skips: bool) -> list[str]:
    counts = Counter(outcome.status for outcome in verdict.outcomes)
    tests = sum(outcome.junit.tests.cases for outcome in verdict.outcomes)
    skipped = sum(outcome.junit.tests.skipped for outcome in verdict.outcomes)
    work = sum(outcome.seconds for outcome in verdict.outcomes)
    return [
        cell(verdict.suite),
        str(len(verdict.outcomes)),
        *(str(counts[status] or "-") for status in shown),
        str(tests or "-"),
        *([str(skipped or "-")] if skips else []),
        duration(work),
        "passed" if verdict.passed else f"exit code {verdict.exit_code}",
    ]


# -- failed items -------------------------------------------------------------------------------------


def _failed(view: RunView) -> str:
    """Describe each item that did not pass, in plan order; those that never started have a list of their own."""
    failed = [outcome for outcome in view.outcomes if outcome.failed and outcome.status is not Status.NOT_RUN]
    if not failed:
        return ""
    return "\n\n".join([f"{FAILED_HEAD} ({len(failed)})", *(_block(view, outcome) for outcome in failed)])


def _block(view: RunView, outcome: Outcome) -> str:
    key = str(outcome.key)
    lines = [f"- **{outcome.status.value}**{_ran(outcome)}"]
    lines += trouble.part_lines(view, outcome)
    if outcome.reason:
        lines.append(f"- reason: {code(one_line(outcome.reason, NAME_LIMIT), NAME_LIMIT)}")
    lines += _failing(outcome)
    if key in view.log_of:
        lines.append(f"- log: {code(view.log_of[key], _COMMAND_LIMIT)}")
    if outcome.left:
        lines.append(f"- {code(left_text(outcome), _COMMAND_LIMIT)}")
    lines += trouble.attempt_lines(view, outcome)
    if key in view.rerun_of:
        lines.append(f"- again: {code(view.rerun_of[key], _COMMAND_LIMIT)}")
    tail = _last_lines(view.tail_of.get(key, ""), outcome)
    block = f"### {code(key, NAME_LIMIT)}\n\n" + "\n".join(lines)
    return f"{block}\n\n{fence(tail)}" if tail else block


def _ran(outcome: Outcome) -> str:
    if outcome.start is None:
        return ""
    place = f" on {code(','.join(outcome.devices))}" if outcome.devices else ""
    if outcome.status is Status.LOST and outcome.worker:
        place += f" (worker {code(outcome.worker)})"
    if outcome.attempt > 1:
        place += f", attempt {outcome.attempt}"
    ended = "" if outcome.exit_code is None else f", exit code {outcome.exit_code}"
    return f"{place} after {duration(outcome.seconds)} (estimate {_estimate(outcome.estimate)}){ended}"


def _estimate(estimate: Estimate) -> str:
    if estimate.seconds is None:
        return "none"
    return duration(estimate.seconds) if estimate.known else f"none, guess {duration(estimate.seconds)}"


def _failing(outcome: Outcome) -> list[str]:
    named = outcome.junit.failing
    lines = []
    for name, message in named:
        said = f": {code(one_line(message))}" if message else ""
        lines.append(f"- test {code(name, NAME_LIMIT)}{said}")
    more = outcome.junit.tests.bad - len(named)
    if named and more > 0:
        lines.append(f"- and {counted(more, 'more failing test')}")
    return lines


def _last_lines(tail: str | bytes, outcome: Outcome) -> str:
    shown = printable(without_proof(tail[-_TAIL_LIMIT:], outcome.key), multiline=True).rstrip()
    return "\n".join(shown.split("\n")[-TAIL_LINES:])


# -- what a green or red count does not say -----------------------------------------------------------


def _doubtful(outcomes: Iterable[Outcome]) -> list[str]:
    passed = [outcome for outcome in outcomes if outcome.status is Status.PASSED]
    return [
        _listed(
            "Exit code 0, but tests failed inside",
            "Counted as passed, since an item's exit code is its verdict (`sgpu_junit_failures = fail` changes that):",
            [outcome for outcome in passed if outcome.junit.tests.bad],
            failing=True,
        ),
        _listed(
            "Passed without proof",
            "Nothing shows that these ran anything; `sgpu_allow_empty` excuses them:",
            [outcome for outcome in passed if outcome.proof == "allowed"],
        ),
        _listed(
            "Passed, but every test was skipped",
            "Their exit code is 0 and their JUnit files hold test cases, none of which ran:",
            [outcome for outcome in passed if outcome.junit.only_skips],
        ),
    ]


def _listed(title: str, words: str, some: Sequence[Outcome], *, failing: bool = False) -> str:
    if not some:
        return ""
    lines = [_listed_line(outcome, failing=failing) for outcome in some]
    return f"## {title} ({len(some)})\n\n{words}\n\n" + "\n".join(lines)


def _listed_line(outcome: Outcome, *, failing: bool) -> str:
    said = f"- {code(str(outcome.key), NAME_LIMIT)}"
    if outcome.reason:
        said += f": {code(one_line(outcome.reason, NAME_LIMIT), NAME_LIMIT)}"
    if failing:
        said += "".join(f"\n  - test {code(name, NAME_LIMIT)}" for name, _ in outcome.junit.failing[:3])
    return said


# -- devices and estimates ----------------------------------------------------------------------------


def _devices(view: RunView) -> str:
    line = view.timeline
    if not line.lanes:
        return ""
    header = ["device", "items", "busy", "utilisation", "idle at start", "idle between", "idle at the end"]
    rows = []
    for lane in line.lanes:
        idle = [duration(part) for part in (lane.idle.start, lane.idle.between, lane.idle.tail)]
        share = f"{lane.busy / line.wall:.0%}" if line.wall else "-"
        rows.append([cell(lane.device), str(len(lane.spans)), duration(lane.busy), share, *idle])
    made = "## Devices\n\n" + table(header, rows, range(1, len(header)))
    return f"{made}\n\n{_idle(view)}" if line.idle.total > 0 else made


def _idle(view: RunView) -> str:
    """Say where the idle time comes from, and what could be done about the largest part."""
    idle = view.timeline.idle
    causes = (
        (idle.start, "before the first item of a device (setup, start of the workers)"),
        (idle.between, "between two items (handing out the next one)"),
        (idle.tail, "after the last item of a device, while others still ran"),
    )
    most, cause = max(causes)
    said = f"Idle: {duration(idle.total)} in all, most of it ({duration(most)}) {cause}."
    if most == idle.tail and view.timeline.longest >= view.bound > 0:
        longest = max(view.outcomes, key=lambda outcome: outcome.seconds)
        said += f" The longest item, {code(str(longest.key))} with {duration(longest.seconds)}, sets the bound: "
        said += "more devices do not shorten this run, dividing that item does."
    return said


def _estimates(errors: Sequence[EstimateError]) -> str:
    if not errors:
        return ""
    header = ["item", "estimate", "actual", "difference", "actual / estimate"]
    rows = [
        [
            cell(str(error.key)),
            ("" if error.known else "guess ") + duration(error.estimate),
            duration(error.actual),
            ("+" if error.error >= 0 else "") + duration(error.error),
            "-" if error.ratio is None else f"{error.ratio:.2f}",
        ]
        for error in errors[:WORST]
    ]
    of = f"the worst {len(rows)} of {len(errors)}" if len(errors) > len(rows) else str(len(rows))
    return f"## Estimate against actual ({of})\n\n" + table(header, rows, range(1, len(header)))


def _notices(view: RunView) -> str:
    lines = [f"- {code(str(notice), _COMMAND_LIMIT)}" for notice in view.notices]
    for outcome in view.outcomes:
        lines += [f"- {code(f'{outcome.key}: {said}', NAME_LIMIT)}" for said in outcome.junit.warnings]
    return f"## Notices ({len(lines)})\n\n" + "\n".join(lines) if lines else ""
