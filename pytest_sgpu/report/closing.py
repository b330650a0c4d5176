"""The last lines of a run on the screen: what a green or red count does not say, and where everything is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pytest_sgpu.core import text
from pytest_sgpu.core.redact import Clean, unchanged
from pytest_sgpu.model import Key, Outcome, Part, Status
from pytest_sgpu.report.clean import cleaned
from pytest_sgpu.report.pieces import Line, key_text, line
from pytest_sgpu.report.view import RunView
from pytest_sgpu.report.words import (
    attempt_log,
    attempt_text,
    earlier,
    infrastructure_text,
    left_text,
    next_text,
    parts_text,
    suspicions,
)

_LISTED = 10
_SAID = 400
_RESULTS = 40  # results of a resumed run that are named with their part


def closing_lines(
    outcomes: Iterable[Outcome],
    *,
    report: str = "",
    logs: str = "",
    junit: str = "",
    weights: str = "",
    interrupted: str = "",
    view: RunView | None = None,
    clean: Clean = unchanged,
) -> list[Line]:
    """Say what a green or red count does not: passes to look at, what never ran, and where everything is.

    The four paths are left out where "". ``interrupted``: why the run ended early. ``view`` adds what only it
    knows: attempts, devices, parts.
    """
    known = tuple(outcomes)
    made: list[Line] = []
    if interrupted:
        made.append(line(("stopped early: ", "warn"), text.one_line(clean(interrupted), _SAID)))
    if view is not None:
        view = cleaned(view, clean)
        known = view.outcomes
        made = [*_head(view), *made, *_attempts(view), *_devices(view)]
    made += _doubtful(known)
    made += _named("not run", [o for o in known if o.status is Status.NOT_RUN])
    for label, path in (("report", report), ("logs", logs), ("junit", junit), ("weights", weights)):
        if path:
            made.append(line((f"{label + ':':<9}", "dim"), text.printable(clean(path))))
    return [*made, *_next(known, view)]


def _next(known: Sequence[Outcome], view: RunView | None) -> list[Line]:
    """Say what to type now: first what brings the run to its end, then what tries failures again."""
    steps = []
    if view is not None and (step := next_text(view)):
        steps.append(step.replace("`", "").rstrip("."))
    failed = any(outcome.failed and outcome.status is not Status.NOT_RUN for outcome in known)
    if failed and (view is None or view.remembered):
        again = "is a new run of what failed or was stopped" if steps else "runs only what did not pass"
        steps.append(f"the same command with --lf {again}")
    return [line(("next:    ", "dim"), text.one_line(step, _SAID)) for step in steps]


def _head(view: RunView) -> list[Line]:
    made = []
    if view.infrastructure:
        made.append(line(("infrastructure: ", "fail"), text.one_line(infrastructure_text(view), _SAID)))
    if len(view.parts) > 1:
        made.append(line(("resumed: ", "warn"), text.one_line(parts_text(view.parts).partition(": ")[2], _SAID)))
        for part in view.parts:
            made += _part(view, part)
    return made


def _part(view: RunView, part: Part) -> list[Line]:
    some = [outcome for outcome in view.outcomes if outcome.part == part.number]
    of = f"part {part.number}" + (f", commit {text.printable(part.commit)}" if part.commit else "")
    made = [line(f"  {of}: {text.counted(len(some), 'result')}")]
    made += [line("    ", key_text(one.key), (f" {one.status.value}", "dim")) for one in some[:_RESULTS]]
    if len(some) > _RESULTS:
        made.append(line((f"    ... and {len(some) - _RESULTS} more, in the report", "dim")))
    return made


def _attempts(view: RunView) -> list[Line]:
    """Say what was flaky, what was lost on the way, and what was left behind."""
    flaky = [one for one in view.outcomes if one.status is Status.FLAKY]
    again = [one for one in view.outcomes if one.status is Status.PASSED and earlier(view, one)]
    failed = [one for one in view.outcomes if one.failed and one.status is not Status.FLAKY and earlier(view, one)]
    left: dict[Key, list[Outcome]] = {}
    for one in [one for outcome in view.outcomes for one in (*earlier(view, outcome), outcome) if one.left]:
        left.setdefault(one.key, []).append(one)
    count = sum(len(one.left) for some in left.values() for one in some)
    fails = " (sgpu-flaky=fail: it fails the run)" if any(one.failed for one in flaky) else ""
    return [
        *_tried(view, f"flaky: failed first, passed later{fails}", flaky),
        *_tried(view, "passed after an attempt that was lost or cut off", again),
        *_tried(view, "did not pass at any attempt", failed),
        *_told(
            f"left {count} {'process' if count == 1 else 'processes'} behind",
            [(key, "; ".join(map(left_text, some))) for key, some in left.items()],
        ),
    ]


def _tried(view: RunView, what: str, some: Sequence[Outcome]) -> list[Line]:
    """List items, each with every attempt and its log."""
    rows = _told(what, [(one.key, one.reason) for one in some])
    made = rows[:1]
    for one, row in zip(some[:_LISTED], rows[1:], strict=False):
        made.append(row)
        made += [_attempt(attempt_text(before), attempt_log(view, before)) for before in earlier(view, one)]
        log = view.log_of.get(str(one.key), "")
        made += [_attempt(f"attempt {one.attempt}", log)] if log else []
    return made + rows[1 + _LISTED :]


def _attempt(said: str, log: str) -> Line:
    return line(("    ", ""), text.one_line(said, _SAID), (f", log {text.printable(log)}" if log else "", "dim"))


def _devices(view: RunView) -> list[Line]:
    made = []
    for one in view.quarantines:
        place = ",".join(one.devices) or one.worker
        said = text.one_line(f"{place} at t+{one.at:.0f}s: {one.reason}", _SAID)
        log = view.health_log_of.get(one.worker, "")
        more = f", log of the health command {text.printable(log)}" if log else ""
        made.append(line(("quarantined: ", "fail"), said, (more, "dim")))
    for found in suspicions(view)[:_LISTED]:
        said = f"{found.device}: {found.key} failed there and passed on {found.passed_on}"
        made.append(line(("suspect: ", "warn"), text.one_line(said, _SAID)))
    return made


def _doubtful(known: Sequence[Outcome]) -> list[Line]:
    passed = [one for one in known if not one.status.failed]
    return [
        *_named(
            "exit code 0, but tests failed inside (sgpu_junit_failures=fail makes it a failure)",
            [one for one in passed if one.junit.tests.bad],
        ),
        *_named(
            "passed without proof that anything ran (sgpu_allow_empty)",
            [one for one in passed if one.proof == "allowed"],
        ),
        *_named("passed, but every test inside was skipped", [one for one in passed if one.junit.only_skips]),
    ]


def _named(what: str, some: Sequence[Outcome]) -> list[Line]:
    return _told(what, [(one.key, "") for one in some])


def _told(what: str, some: Sequence[tuple[object, str]]) -> list[Line]:
    if not some:
        return []
    made = [line((f"{text.counted(len(some), 'item')} {what}:", "warn"))]
    for key, said in some[:_LISTED]:
        made.append(line("  ", key_text(key), (f"  {text.one_line(said, _SAID)}" if said else "", "dim")))
    if len(some) > _LISTED:
        made.append(line((f"  ... and {len(some) - _LISTED} more, in the report", "dim")))
    return made
