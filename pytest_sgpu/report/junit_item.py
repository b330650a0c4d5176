"""What an item says of itself in the aggregate, beside the cases in its files.

An item without any case has one case of its own, whose result is the item's; an item with cases has an
extra error case when something went wrong that no case shows: damage, a crash, a kill, or an exit code
that no failing case explains (spec: the queue issue, "CI output").
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from pytest_sgpu.core.text import counted, one_line, printable
from pytest_sgpu.model import Outcome, Status, Tests
from pytest_sgpu.report.junit_read import Case, Cases, Source

TAIL_LIMIT = 1 << 16
MESSAGE_LIMIT = 1000


@dataclass(frozen=True, slots=True)
class ItemXml:
    """One item for the aggregate: its outcome, its JUnit files, the end of its log, where the log is.

    ``tail`` may be a function, which is called only when it is needed. ``properties`` go beside gpu,
    estimate, exit_code, status, attempt and log.
    """

    outcome: Outcome
    sources: Sequence[Source] = ()
    tail: str | bytes | Callable[[], str | bytes] = ""
    log: str = ""
    properties: Mapping[str, str] = field(default_factory=dict)


def own_case(item: ItemXml, cases: Cases, tests: Tests) -> Case | None:
    """Give the case that stands for the item itself, None when its cases say everything."""
    outcome, damage = item.outcome, cases.damage
    if not tests.cases:
        return _only_case(item, cases)
    explained = outcome.status is Status.PASSED or (outcome.status is Status.FAILED and tests.bad)
    if explained and not damage:
        return None
    return _bad_case(item, cases, "error", "" if outcome.failed else f"JUnit file: {damage}")


def _only_case(item: ItemXml, cases: Cases) -> Case:
    outcome = item.outcome
    case = Case("", "", seconds=outcome.seconds)
    if outcome.status is Status.PASSED:
        if outcome.proof == "allowed":
            return case._replace(kind="skipped", message=outcome.reason or "passed without proof that anything ran")
        if outcome.junit.tests.cases:
            what = counted(outcome.junit.tests.cases, "test")
            return case._replace(kind="skipped", message=f"passed, but its JUnit file is gone: {what} not shown")
        return case
    return _bad_case(item, cases, "failure" if outcome.status is Status.FAILED else "error")


def _bad_case(item: ItemXml, cases: Cases, kind: str, message: str = "") -> Case:
    """Give a case with what is known of an item that went wrong: reason, files, the last lines of its log."""
    outcome = item.outcome
    said = message or f"{outcome.status.value}: {outcome.reason}".removesuffix(": ")
    if cases.damage and cases.damage not in said:
        said += f"; JUnit file: {cases.damage}"
    lines = [said, *(f"JUnit file: {warning}" for warning in cases.warnings)]
    if item.log:
        lines.append(f"log: {item.log}")
    tail = item.tail() if callable(item.tail) else item.tail
    shown = printable(tail[-TAIL_LIMIT:], multiline=True).strip("\n")
    if shown:
        lines += ["last lines:", shown]
    seconds = None if cases.tests.cases else outcome.seconds
    return Case("", "", seconds, kind, one_line(said, MESSAGE_LIMIT), outcome.status.name, "\n".join(lines))


def properties(item: ItemXml) -> dict[str, str]:
    """Give the properties of an item's suite."""
    outcome = item.outcome
    guess, known = outcome.estimate.seconds, outcome.estimate.known
    values = {
        "gpu": ",".join(outcome.devices) or "none",
        "estimate": f"{guess:.1f}" if known and guess is not None else "unknown",
        "exit_code": "none" if outcome.exit_code is None else str(outcome.exit_code),
        "status": outcome.status.value,
        "attempt": str(outcome.attempt),
    }
    if item.log:
        values["log"] = item.log
    if outcome.status is Status.PASSED and outcome.reason:
        values["warning"] = outcome.reason
    return {**values, **item.properties}
