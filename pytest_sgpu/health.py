"""Whether a device is well: the caller's own command, run there after an item has failed."""

from __future__ import annotations

from pytest_sgpu.core.verdict import signal_text
from pytest_sgpu.engine import environment
from pytest_sgpu.engine.gateways import Gateways, ItemRun
from pytest_sgpu.ledger import Ledger
from pytest_sgpu.model import Ending, Outcome, Status, Worker

TIME_LIMIT = 60.0
"""Seconds. A device that has not answered by then is not well."""

_GRACE = 1.0
# How items end that say nothing about the device: nobody let them run, or they were ended from outside.
_NO_REASON = (Status.STOPPED, Status.NOT_RUN, Status.SETUP_FAILED, Status.LOST)


class HealthChecks:
    """The health command of a run, at most one at a time on each worker. An empty command never runs."""

    def __init__(self, command: tuple[str, ...], gates: Gateways, ledger: Ledger) -> None:
        self._command = command
        self._gates = gates
        self._ledger = ledger
        self._running: set[Worker] = set()

    @property
    def pending(self) -> bool:
        """Whether some device is being examined."""
        return bool(self._running)

    def wanted(self, outcome: Outcome) -> bool:
        """Whether the end of an item is a reason to look at its device."""
        return bool(self._command) and outcome.status.failed and outcome.status not in _NO_REASON

    def begin(self, worker: Worker) -> None:
        """Examine the device of a worker that is free. ``ended`` or ``lost`` follows."""
        self._running.add(worker)
        directory = self._ledger.directory
        self._gates.run(
            worker,
            ItemRun(
                id=_run_id(worker),
                argv=self._command,
                env=environment.health_overlay(worker.devices[0]),
                log=str(directory.health_log(worker.place)),
                log_root=str(directory.path),
                timeout=TIME_LIMIT,
                grace=_GRACE,
            ),
        )

    def concerns(self, worker: Worker, run_id: str) -> bool:
        """Whether a message is about an examination that is under way."""
        return worker in self._running and run_id == _run_id(worker)

    def ended(self, worker: Worker, ending: Ending) -> str:
        """Take the end of an examination. Says what is wrong with the device, "" when it is well."""
        self._running.discard(worker)
        if ending.reason:  # it could not be started: that tells nothing of the device
            self._ledger.notice(f"the health command did not run on {worker.place}: {ending.reason}")
            return ""
        verdict = _complaint(ending)
        self._ledger.examined(worker, ending, verdict)
        return verdict

    def lost(self, worker: Worker) -> str:
        """Hear that a worker is gone. Says what that means for its device, "" when it was not being examined."""
        if worker not in self._running:
            return ""
        self._running.discard(worker)
        return "the worker was lost while the health command ran"


def _run_id(worker: Worker) -> str:
    return f"health {worker.id}"  # no key of an item holds a blank before its first slash


def _complaint(ending: Ending) -> str:
    if ending.timed_out:
        return f"the health command did not end within {TIME_LIMIT:g} s"
    if ending.signal is not None:
        return f"the health command died by {signal_text(ending.signal)}"
    return f"the health command failed with exit code {ending.exit_code}" if ending.exit_code else ""
