"""The parts of the report on what went wrong around the tests: attempts, devices, leftovers, parts of a resumed run."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_sgpu.core.text import duration, one_line
from pytest_sgpu.model import Outcome, Status
from pytest_sgpu.report.md_text import NAME_LIMIT, cell, code, table
from pytest_sgpu.report.view import RunView
from pytest_sgpu.report.words import (
    attempt_log,
    attempt_text,
    earlier,
    infrastructure_text,
    left_text,
    next_text,
    part_text,
    suspicions,
    utc,
)

_PATH_LIMIT = 1800


def beginning(view: RunView) -> list[str]:
    """Give what stands right below the head line: no test failed, why the run ended early, what to do next."""
    said = []
    if view.infrastructure:
        said.append(f"**Infrastructure**: {code(infrastructure_text(view), NAME_LIMIT)}")
    if view.interrupted:
        said.append(f"Stopped early: {code(one_line(view.interrupted))}")
    step = next_text(view)
    return [*said, f"Next: {step}"] if step else said


def flaky(view: RunView) -> str:
    """List the items that failed first and passed later, with every attempt."""
    some = [outcome for outcome in view.outcomes if outcome.status is Status.FLAKY]
    words = "They failed first and passed later, which is no pass"
    words += ", and fails this run (`--sgpu-flaky=fail`):" if any(one.failed for one in some) else ":"
    return _listed(view, "Flaky items", words, some)


def tried_again(view: RunView) -> str:
    """List the other items that passed at a later attempt."""
    some = [one for one in view.outcomes if one.status is Status.PASSED and earlier(view, one)]
    return _listed(view, "Tried again", "An attempt was lost or cut off through no fault of the test:", some)


def _listed(view: RunView, title: str, words: str, some: Sequence[Outcome]) -> str:
    if not some:
        return ""
    lines = []
    for outcome in some:
        reason = f": {code(one_line(outcome.reason, NAME_LIMIT), NAME_LIMIT)}" if outcome.reason else ""
        lines.append(f"- {code(str(outcome.key), NAME_LIMIT)}{reason}")
        lines += [f"  {line}" for line in attempt_lines(view, outcome)]
        log = view.log_of.get(str(outcome.key))
        if log:
            lines.append(f"  - attempt {outcome.attempt}: log {code(log, _PATH_LIMIT)}")
    return f"## {title} ({len(some)})\n\n{words}\n\n" + "\n".join(lines)


def attempt_lines(view: RunView, outcome: Outcome) -> list[str]:
    """Give a line per attempt before the last one: how it ended, where, and its log."""
    lines = []
    for one in earlier(view, outcome):
        log = attempt_log(view, one)
        where = f", log {code(log, _PATH_LIMIT)}" if log else ""
        lines.append(f"- {code(one_line(attempt_text(one), NAME_LIMIT), NAME_LIMIT)}{where}")
    return lines


def part_lines(view: RunView, outcome: Outcome) -> list[str]:
    """Say which part of a resumed run an outcome is from."""
    said = part_text(outcome, view.parts)
    return [f"- {code(said)}"] if said else []


def leftovers(view: RunView) -> str:
    """List what items left running behind them."""
    some = [one for outcome in view.outcomes for one in (*earlier(view, outcome), outcome) if one.left]
    if not some:
        return ""
    count = sum(len(one.left) for one in some)
    lines = [f"- {code(str(one.key), NAME_LIMIT)} {code(left_text(one), _PATH_LIMIT)}" for one in some]
    head = f"## Processes left behind ({count})\n\nFound after the end of their item, and killed:\n\n"
    return head + "\n".join(lines)


def bad_devices(view: RunView) -> str:
    """Say which devices got no more items, and which are suspect."""
    logs = view.health_log_of
    lines = [
        f"- quarantined at {duration(one.at)}: {code(','.join(one.devices) or one.worker)}: "
        f"{code(one_line(one.reason, NAME_LIMIT), NAME_LIMIT)}"
        + (f", log of the health command {code(logs[one.worker], _PATH_LIMIT)}" if one.worker in logs else "")
        for one in view.quarantines
    ]
    lines += [
        f"- suspect: {code(one.device)}: {code(str(one.key), NAME_LIMIT)} failed there, passed on {code(one.passed_on)}"
        for one in suspicions(view)
    ]
    return "## Suspect devices\n\n" + "\n".join(lines) if lines else ""


def parts(view: RunView) -> str:
    """Say of a resumed run what its parts are, and of each result which part it is from."""
    if len(view.parts) <= 1:
        return ""
    rows = [
        [
            str(part.number),
            utc(part.started) or "-",
            duration(part.at),
            cell(part.commit) or "-",
            str(sum(outcome.part == part.number for outcome in view.outcomes)),
        ]
        for part in view.parts
    ]
    commits = {part.number: part.commit for part in view.parts}
    results = [
        [cell(str(one.key)), one.status.value, str(one.part), cell(commits.get(one.part, "")) or "-"]
        for one in view.outcomes
    ]
    made = table(["part", "started", "at", "commit", "results"], rows, (0, 2, 4))
    return f"## Parts ({len(rows)})\n\n{made}\n\n" + table(["item", "status", "part", "commit"], results, (2,))
