"""The report of a run as Markdown: ``report/schedule.md``, and the part of it that a job summary can hold.

Built from sections, each beginning with a line ``## ``, and in the section of failed items one block per
item, beginning with ``### ``. Output of items stands behind a sign in every line, so no other line begins
so, and ``summary`` can cut at these lines alone.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from pytest_sgpu.core.text import counted, duration, one_line, printable
from pytest_sgpu.core.timeline import EstimateError
from pytest_sgpu.model import Estimate, Outcome, Status, Verdict
from pytest_sgpu.report.md_text import cell, code, fence, table
from pytest_sgpu.report.view import RunView

TAIL_LINES = 20
WORST = 20
_SUITES_HEAD = "## Suites"
_FAILED_HEAD = "## Failed items"
_NAME_LIMIT = 500
_COMMAND_LIMIT = 1800
_TAIL_LIMIT = 1 << 16
_PLAIN_TITLE = re.compile(r"[A-Za-z0-9]+([ -][A-Za-z0-9]+)*")


def schedule(view: RunView) -> str:
    """Give the whole report. Equal views give equal text, which ends with a line end."""
    sections = [
        f"# {_heading(view.title)}\n\n{headline(view)}{_stopped(view)}",
        _suites(view.verdicts),
        _failed(view),
        *_doubtful(view.outcomes),
        _devices(view),
        _estimates(view.timeline.estimate_errors),
        _listed("Not run", "Never started:", _of(view, Status.NOT_RUN)),
        _notices(view),
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def _heading(title: str) -> str:
    return title if _PLAIN_TITLE.fullmatch(title) else code(title)


def headline(view: RunView) -> str:
    """Say in one sentence how the run went."""
    counts = Counter(outcome.status for outcome in view.outcomes)
    ends = ", ".join(f"{counts[status]} {status.value}" for status in Status if counts[status]) or "nothing ran"
    line = view.timeline
    said = [f"utilisation {line.utilisation:.0%} of {counted(len(view.devices), 'device')}"]
    said.append(
        f"bound {duration(view.bound)}" + (f" (wall / bound {view.wall / view.bound:.2f})" if view.bound else "")
    )
    if view.predicted:
        said.append(f"predicted {duration(view.predicted)}")
    return f"**{ends}** of {counted(len(view.outcomes), 'item')} in {duration(view.wall)}: {', '.join(said)}."


def _stopped(view: RunView) -> str:
    return f"\n\nStopped early: {code(one_line(view.interrupted))}" if view.interrupted else ""


def _of(view: RunView, *statuses: Status) -> list[Outcome]:
    return [outcome for outcome in view.outcomes if outcome.status in statuses]


# -- suites -------------------------------------------------------------------------------------------


def _suites(verdicts: Sequence[Verdict]) -> str:
    if not verdicts:
        return ""
    ends = Counter(outcome.status for verdict in verdicts for outcome in verdict.outcomes)
    shown = [status for status in Status if ends[status] or status in {Status.PASSED, Status.FAILED}]
    header = ["suite", "items", *(status.value for status in shown), "tests", "work", "verdict"]
    rows = [_suite_row(verdict, shown) for verdict in verdicts]
    return f"{_SUITES_HEAD}\n\n" + table(header, rows, range(1, len(header) - 1))


def _suite_row(verdict: Verdict, shown: Sequence[Status]) -> list[str]:
    counts = Counter(outcome.status for outcome in verdict.outcomes)
    tests = sum(outcome.junit.tests.cases for outcome in verdict.outcomes)
    work = sum(outcome.seconds for outcome in verdict.outcomes)
    return [
        cell(verdict.suite),
        str(len(verdict.outcomes)),
        *(str(counts[status] or "-") for status in shown),
        str(tests or "-"),
        duration(work),
        "passed" if verdict.passed else f"exit code {verdict.exit_code}",
    ]


# -- failed items -------------------------------------------------------------------------------------


def _failed(view: RunView) -> str:
    """Describe each item that did not pass, in plan order; those that never started have a list of their own."""
    failed = [outcome for outcome in view.outcomes if outcome.failed and outcome.status is not Status.NOT_RUN]
    if not failed:
        return ""
    return "\n\n".join([f"{_FAILED_HEAD} ({len(failed)})", *(_block(view, outcome) for outcome in failed)])


def _block(view: RunView, outcome: Outcome) -> str:
    key = str(outcome.key)
    lines = [f"- **{outcome.status.value}**{_ran(outcome)}"]
    if outcome.reason:
        lines.append(f"- reason: {code(one_line(outcome.reason, _NAME_LIMIT), _NAME_LIMIT)}")
    lines += _failing(outcome)
    if key in view.log_of:
        lines.append(f"- log: {code(view.log_of[key], _COMMAND_LIMIT)}")
    if key in view.rerun_of:
        lines.append(f"- again: {code(view.rerun_of[key], _COMMAND_LIMIT)}")
    tail = _last_lines(view.tail_of.get(key, ""))
    block = f"### {code(key, _NAME_LIMIT)}\n\n" + "\n".join(lines)
    return f"{block}\n\n{fence(tail)}" if tail else block


def _ran(outcome: Outcome) -> str:
    if outcome.start is None:
        return ""
    place = f" on {code(','.join(outcome.devices))}" if outcome.devices else ""
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
        lines.append(f"- test {code(name, _NAME_LIMIT)}{said}")
    more = outcome.junit.tests.bad - len(named)
    if named and more > 0:
        lines.append(f"- and {counted(more, 'more failing test')}")
    return lines


def _last_lines(tail: str | bytes) -> str:
    shown = printable(tail[-_TAIL_LIMIT:], multiline=True).rstrip()
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
    said = f"- {code(str(outcome.key), _NAME_LIMIT)}"
    if outcome.reason:
        said += f": {code(one_line(outcome.reason, _NAME_LIMIT), _NAME_LIMIT)}"
    if failing:
        said += "".join(f"\n  - test {code(name, _NAME_LIMIT)}" for name, _ in outcome.junit.failing[:3])
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
        lines += [f"- {code(f'{outcome.key}: {said}', _NAME_LIMIT)}" for said in outcome.junit.warnings]
    return f"## Notices ({len(lines)})\n\n" + "\n".join(lines) if lines else ""


# -- the part for a job summary -----------------------------------------------------------------------

_SECTION = re.compile(r"^(?=## )", re.MULTILINE)
_FENCE = re.compile(r"^(?=```)", re.MULTILINE)
_BLOCK = re.compile(r"^(?=### )", re.MULTILINE)


def summary(text: str, room: int, where: str = "report/schedule.md of the run directory") -> str:
    """Give as much of a report as ``room`` bytes of UTF-8 hold: whole blocks only, in their order.

    The head line always comes first; then the suites, as long as that leaves most of the room; then the
    failed items, at first with their last lines and then without; then whatever other section fits. What
    is missing is counted, with ``where`` all of it is. Room for not even the head line gives "".
    """
    if _size(text) <= room:
        return text
    head, *sections = _SECTION.split(text)
    left = room - _size(head) - _size(_cut_note(len(text), len(text), where))
    if left < 0:
        return ""
    kept = [""] * len(sections)
    missing = 0
    for at in sorted(range(len(sections)), key=lambda at: _urgency(sections[at], left)):
        if sections[at].startswith(_FAILED_HEAD):
            kept[at], missing = _fitting_blocks(sections[at], left)
        elif _size(sections[at]) <= left:
            kept[at] = sections[at]
        left -= _size(kept[at])
    dropped = sum(
        not part and not section.startswith(_FAILED_HEAD) for part, section in zip(kept, sections, strict=True)
    )
    return (head + "".join(kept)).rstrip("\n") + _cut_note(missing, dropped, where)


def _urgency(section: str, room: int) -> int:
    if section.startswith(_SUITES_HEAD) and _size(section) * 4 <= room:
        return 0
    return 1 if section.startswith(_FAILED_HEAD) else 2


def _fitting_blocks(section: str, room: int) -> tuple[str, int]:
    """Give the beginning of the section of failed items, and how many of its blocks are missing."""
    title, *blocks = _BLOCK.split(section)
    kept, left = [title], room - _size(title)
    for block in blocks:
        for form in (block, _FENCE.split(block, maxsplit=1)[0]):
            if _size(form) <= left:
                kept.append(form)
                left -= _size(form)
                break
        else:
            break
    return ("".join(kept) if len(kept) > 1 else ""), len(blocks) - len(kept) + 1


def _cut_note(blocks: int, sections: int, where: str) -> str:
    parts = [f"{counted(blocks, 'more failed item')}"] if blocks else []
    if sections:
        parts.append(f"{counted(sections, 'section')}")
    return f"\n\n**Not shown here: {' and '.join(parts)}, for want of room.** All of it is in {code(where)}.\n"


def _size(text: str) -> int:
    return len(text.encode())
