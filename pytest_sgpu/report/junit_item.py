"""What an item says of itself in the aggregate, beside the cases in its files.

An item without any case has one case of its own, whose result is the item's; an item with cases has an
extra error case when something went wrong that no case shows: damage, a crash, a kill, or an exit code
that no failing case explains (spec: the queue issue, "CI output").
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from pytest_sgpu.core.redact import Clean, unchanged
from pytest_sgpu.core.text import counted, decoded, one_line, printable
from pytest_sgpu.model import Outcome, Part, Status
from pytest_sgpu.report.junit_read import Case, Cases, Source
from pytest_sgpu.report.words import left_text, where_text, without_proof

TAIL_LIMIT = 1 << 16
MESSAGE_LIMIT = 1000

Tail = str | bytes | Callable[[], str | bytes]


@dataclass(frozen=True, slots=True)
class Earlier:
    """An attempt at an item before its last one: its outcome, its JUnit files, the end of its log, its log."""

    outcome: Outcome
    sources: Sequence[Source] = ()
    tail: Tail = ""
    log: str = ""


@dataclass(frozen=True, slots=True)
class ItemXml:
    """One item for the aggregate: its outcome, its JUnit files, the end of its log, where the log is.

    ``tail`` may be a function, which is called only when it is needed. ``properties`` go beside gpu,
    estimate, exit_code, status, attempt and log. ``earlier``: the attempts before this one, in their order.
    ``part``: which part of a resumed run it is from, None when there is one part only.
    """

    outcome: Outcome
    sources: Sequence[Source] = ()
    tail: Tail = ""
    log: str = ""
    properties: Mapping[str, str] = field(default_factory=dict)
    earlier: Sequence[Earlier] = ()
    part: Part | None = None


def own_case(item: ItemXml, cases: Cases, clean: Clean = unchanged, *, past: bool = False) -> Case | None:
    """Give the case that stands for the item itself, None when its cases say everything.

    ``past``: there are earlier attempts of which no case tells; a failed item then has a case that can.
    """
    outcome, damage, tests = item.outcome, cases.damage, cases.tests
    if not tests.cases:
        return _only_case(item, cases, clean)
    explained = not outcome.failed or (outcome.status is Status.FAILED and tests.bad and not past)
    if explained and not damage:
        return None
    again = outcome.status is Status.FAILED and past and not damage
    kind = "failure" if again or (outcome.status is Status.FLAKY and outcome.failed) else "error"
    return _bad_case(item, cases, kind, clean, "" if outcome.failed else f"JUnit file: {damage}")


def _only_case(item: ItemXml, cases: Cases, clean: Clean) -> Case:
    outcome = item.outcome
    case = Case("", "", seconds=outcome.seconds)
    if not outcome.failed:
        if outcome.proof == "allowed":
            said = clean(outcome.reason) or "passed without proof that anything ran"
            return case._replace(kind="skipped", message=said)
        if outcome.junit.tests.cases:
            what = counted(outcome.junit.tests.cases, "test")
            return case._replace(kind="skipped", message=f"passed, but its JUnit file is gone: {what} not shown")
        return case
    return _bad_case(item, cases, "failure" if outcome.status in (Status.FAILED, Status.FLAKY) else "error", clean)


def _bad_case(item: ItemXml, cases: Cases, kind: str, clean: Clean, message: str = "") -> Case:
    """Give a case with what is known of an item that went wrong: reason, place, files, the last lines of its log."""
    outcome = item.outcome
    said = message or clean(f"{outcome.status.value}: {outcome.reason}".removesuffix(": "))
    if cases.damage and cases.damage not in said:
        said += f"; JUnit file: {cases.damage}"
    text = described(said, outcome, clean, item.tail, item.log, cases.warnings)
    seconds = None if cases.tests.cases else outcome.seconds
    return Case("", "", seconds, kind, one_line(said, MESSAGE_LIMIT), outcome.status.name, text)


def described(  # noqa: PLR0917 - what there is to say of an attempt
    said: str, outcome: Outcome, clean: Clean, tail: Tail, log: str, warnings: Sequence[str] = ()
) -> str:
    """Give the text of an attempt that went wrong: what happened, where, its log and the end of it."""
    lines = [printable(said), *(f"JUnit file: {warning}" for warning in warnings)]
    if outcome.devices or outcome.worker:
        lines.append(clean(where_text(outcome)))
    if outcome.left:
        lines.append(clean(left_text(outcome)))
    if log:
        lines.append(f"log: {clean(log)}")
    end = clean(decoded(tail() if callable(tail) else tail))[-TAIL_LIMIT:]
    shown = printable(without_proof(end, outcome.key), multiline=True).strip("\n")
    if shown:
        lines += ["last lines:", shown]
    return "\n".join(lines)


def properties(item: ItemXml, clean: Clean = unchanged) -> dict[str, str]:
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
    values |= {f"log_of_attempt_{one.outcome.attempt}": one.log for one in item.earlier if one.log}
    if not outcome.failed and outcome.reason:
        values["warning"] = outcome.reason
    if outcome.left:
        values["left_processes"] = left_text(outcome)
    values |= {**case_properties(item), **item.properties}
    return {clean(name): clean(value) for name, value in values.items()}


def case_properties(item: ItemXml) -> dict[str, str]:
    """Give the properties of every case of an item of a resumed run: which part it is from, and of which commit."""
    if item.part is None:
        return {}
    values = {"part": str(item.part.number)}
    if item.part.commit:
        values["commit"] = item.part.commit
    return values
