"""What the Dispatcher commands, carried out: orders to the workers, records, and what the listener hears."""

from __future__ import annotations

import glob
from collections.abc import Callable, Mapping
from typing import Any

from pytest_sgpu.core.messages import (
    Assign,
    Command,
    Held,
    Incomplete,
    Kill,
    Quarantined,
    Record,
    Released,
    Requeue,
    Respawn,
    Retire,
)
from pytest_sgpu.endings import Endings
from pytest_sgpu.engine import environment
from pytest_sgpu.engine.gateways import Gateways, ItemRun
from pytest_sgpu.ledger import Ledger
from pytest_sgpu.model import Mode
from pytest_sgpu.prepare import Prepared


class Effects:
    """Carries out commands, one at a time and in their order.

    ``attempts`` says, by the text of a key, which attempt at an item was handed out last. ``wish`` is the
    listener's reason to stop the run, "" when there is none: the caller heeds it when it has carried out
    all commands of an event. ``banned`` are the ids of workers whose device is quarantined.
    """

    def __init__(
        self,
        prepared: Prepared,
        gates: Gateways,
        ledger: Ledger,
        endings: Endings,
    ) -> None:
        self._prepared = prepared
        self._gates = gates
        self._ledger = ledger
        self.attempts: dict[str, int] = {}
        self.banned: set[str] = set()
        self.wish = ""
        self._opaque = {suite.label: suite.mode is Mode.OPAQUE for suite in prepared.suites}
        self._how: Mapping[type, Callable[[Any], None]] = {
            Assign: self._assign,
            Record: self._record,
            Requeue: lambda command: ledger.attempted(command.outcome, command.why),
            Kill: lambda command: endings.kill(command.worker, command.reason),
            Respawn: lambda command: gates.respawn(command.worker),
            Retire: lambda command: gates.retire(command.worker),
            Quarantined: self._quarantined,
            Held: lambda command: ledger.held(command.worker, command.reason),
            Released: lambda command: ledger.released(command.worker, command.reason),
            Incomplete: lambda command: ledger.incomplete(command.reason),
        }

    def execute(self, command: Command) -> None:
        """Carry out one command."""
        self._how[type(command)](command)

    def opaque(self, label: str) -> bool:
        """Whether a suite is one item as a whole."""
        return self._opaque[label]

    def _assign(self, command: Assign) -> None:
        entry, worker = command.entry, command.worker
        key = entry.item.key
        text = str(key)
        directory, options = self._ledger.directory, self._prepared.options
        directory.make_way(key, command.attempt)
        self.attempts[text] = command.attempt
        prefix, _ = directory.junit_place(key)
        opaque = self._opaque[key.suite]
        env = environment.item_overlay(key, worker.devices[0], junit_prefix=prefix, junit_suffix=".xml", opaque=opaque)
        at = self._ledger.assigned(entry, worker, command.attempt)
        self._gates.run(
            worker,
            ItemRun(
                id=text,
                argv=self._prepared.argv[key.suite],
                env=env,
                log=str(directory.item_log(key)),
                log_root=str(directory.path),
                ran_line="" if opaque else f"TE_CI_RAN {key.tag}",
                partial_glob=f"{glob.escape(prefix + key.tag)}*.partial",
                timeout=options.limits.deadline(entry.estimate) or 0.0,
                stall=options.limits.stall or 0.0,
                grace=options.grace,
            ),
        )
        self._ledger.began(entry, worker, at)

    def _record(self, command: Record) -> None:
        self.wish = self._ledger.ended(command.outcome) or self.wish

    def _quarantined(self, command: Quarantined) -> None:
        self.banned.add(command.quarantine.worker)
        self._ledger.quarantined(command.quarantine)
