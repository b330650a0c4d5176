"""One outcome as the three reports (setup, call, teardown) that every report-based plugin expects."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import pytest

from pytest_sgpu.model import Estimate, Outcome, Status, Worker

SHOWN_AS = {Status.PASSED: "passed", Status.FLAKY: "flaky", Status.SETUP_FAILED: "error", Status.STOPPED: "stopped"}


@dataclass(frozen=True)
class Gateway:
    """What report consumers read of a worker: its id."""

    id: str


class WorkerNode:
    """Stands for a worker in ``report.node``, as xdist's does. One per incarnation of a worker."""

    def __init__(self, worker: Worker) -> None:
        self.gateway = Gateway(worker.id)
        self.workerinfo = {"id": worker.id, "workerid": worker.id}
        self._workerinfocache = f"[{worker.id}]"


@dataclass(frozen=True)
class Crash:
    """The place and message of a failure, as exception reports have them."""

    path: str
    lineno: int
    message: str


class Writer(Protocol):
    """What a report writes itself to: pytest's terminal writer."""

    def line(self, s: str = "", **markup: bool) -> None:
        """Write one line."""


class Failure:
    """What is shown of a failed item: the block, and one line for the short summary."""

    def __init__(self, block: list[str], crash: Crash) -> None:
        self.block = block
        self.reprcrash = crash

    def toterminal(self, writer: Writer) -> None:
        """Write the block; the reason stands out."""
        for number, line in enumerate(self.block):
            writer.line(line, red=number == 0, bold=number == 0)

    def __str__(self) -> str:
        return "\n".join(self.block)


def properties(outcome: Outcome, log: str) -> list[tuple[str, object]]:
    """Give the properties of an item's case in ``--junitxml``; ``attempt`` only where there was more than one."""
    made: list[tuple[str, object]] = [
        ("gpu", ",".join(outcome.devices)),
        ("estimate", estimate_text(outcome.estimate)),
        ("exit_code", "none" if outcome.exit_code is None else outcome.exit_code),
        ("status", outcome.status.value),
        ("log", log),
    ]
    if outcome.attempt > 1:
        made.append(("attempt", outcome.attempt))
    return made


def estimate_text(estimate: Estimate) -> str:
    """Give the estimate as a number, as the aggregate ``report/junit.xml`` does."""
    return f"{estimate.seconds:.1f}" if estimate.known and estimate.seconds is not None else "unknown"


def reports(
    item: pytest.Item,
    outcome: Outcome,
    *,
    node: WorkerNode | None,
    epoch: float,
    log: str,
    failure: Callable[[], Failure],
) -> list[pytest.TestReport]:
    """Make the reports of one item. ``epoch`` is when the run began, in epoch seconds.

    A failed setup of the suite is an error in the item's setup; everything else happens in its call.
    """
    start = epoch + (outcome.start or 0.0)
    stop = epoch + (outcome.stop or outcome.start or 0.0)
    phases = [("setup", 0.0), ("call", outcome.seconds), ("teardown", 0.0)]
    if outcome.status is Status.SETUP_FAILED:
        phases.remove(("call", outcome.seconds))
    bad_phase = "setup" if outcome.status is Status.SETUP_FAILED else "call"
    made = []
    for when, seconds in phases:
        bad = outcome.failed and when == bad_phase
        report = pytest.TestReport(
            nodeid=item.nodeid,
            location=item.location,
            keywords=dict.fromkeys(item.keywords, 1),
            outcome="failed" if bad else "passed",
            longrepr=failure() if bad else None,  # type: ignore[arg-type]
            when=when,  # type: ignore[arg-type]
            sections=[],
            duration=seconds,
            start=start,
            stop=stop,
            user_properties=properties(outcome, log),
            sgpu_outcome=outcome,
        )
        if node is not None:
            report.node = node  # type: ignore[attr-defined]
        made.append(report)
    return made
