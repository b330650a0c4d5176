"""What happens in a run, written down and then told: always in this order, so the journal knows of it first."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from pytest_sgpu.core import journal
from pytest_sgpu.core.verdict import exit_code
from pytest_sgpu.engine.events import ItemSlow, ItemStarted, WorkerGone
from pytest_sgpu.engine.store import RunDirectory, why
from pytest_sgpu.listener import Listener, Progress
from pytest_sgpu.model import Ending, Key, Notice, Outcome, PlanEntry, Quarantine, Suite, Worker


class Ledger:
    """The journal and the listener of one run. ``outcomes`` holds what this run itself has brought to its end."""

    def __init__(
        self, directory: RunDirectory, listener: Listener, progress: Progress, clock: Callable[[], float]
    ) -> None:
        self.directory = directory
        self.listener = listener
        self.progress = progress
        self.clock = clock
        self.outcomes: dict[Key, Outcome] = {}
        self.unfinished = ""  # why something will not run though nobody has stopped the run
        self._unsynced = False
        self._noticed = 0

    def append(self, record: journal.Record) -> None:
        """Write a record. Raises StoreError when that fails: a run whose journal has holes proves nothing."""
        self.directory.append(record)

    def settle(self) -> None:
        """Bring ends to the disk, after the orders that followed from them were sent; and show that this lives."""
        found = self.directory.notices
        while self._noticed < len(found):  # what an item has put in the place of a folder or file of ours
            self._noticed += 1
            self.append(journal.notice_record(found[self._noticed - 1]))
        if self._unsynced:
            self._unsynced = False
            self.directory.sync()
        self.directory.beat()

    def notice(self, text: str, where: str = "") -> None:
        """Write down something that stops nothing; the report says it."""
        self.append(journal.notice_record(Notice(text, where)))

    @contextlib.contextmanager
    def telling(self, what: str) -> Iterator[None]:
        """Go on without a file that cannot be written: the journal holds what was in it."""
        try:
            yield
        except OSError as error:
            self.notice(f"{what} could not be written: {why(error)}", str(error.filename or ""))

    def tick(self) -> None:
        """Tell that time has passed."""
        self.progress.now = self.clock()
        self.listener.tick(self.progress)

    # -- items ------------------------------------------------------------------------------------

    def assigned(self, entry: PlanEntry, worker: Worker, attempt: int) -> float:
        """Write down that an item goes to a worker, before it does. Gives the time that was written."""
        at = self.clock()
        key = str(entry.item.key)
        self.append({"event": "assign", "at": at, "key": key, "worker": worker.id, "attempt": attempt})
        return at

    def began(self, entry: PlanEntry, worker: Worker, at: float) -> None:
        """Tell that an item was handed to a worker."""
        self.progress.began(entry, worker, at)
        self.listener.started(entry, worker, self.progress)

    def started(self, event: ItemStarted) -> None:
        """Write down that the first process of an item runs."""
        self.append({"event": "started", "at": event.at, "key": event.run_id})

    def slow(self, event: ItemSlow) -> None:
        """Write down and tell that half of an item's time is over."""
        self.append(
            {
                "event": "slow",
                "at": event.at,
                "key": event.run_id,
                "worker": event.worker.id,
                "seconds": event.seconds,
                "limit": event.limit,
                "quiet": event.quiet,
                "last_line": event.last_line,
            }
        )
        self.listener.slow(event)

    def attempted(self, outcome: Outcome, why_again: str) -> None:
        """Write down and tell the end of an attempt whose item waits again."""
        self.append(journal.attempt_record(outcome, why_again))
        self._unsynced = True
        self._write_code(outcome)
        self.progress.attempted(outcome, self.clock())
        self.listener.attempted(outcome, why_again, self.progress)

    def ended(self, outcome: Outcome) -> str:
        """Write down and tell the final outcome of an item. Gives the listener's reason to stop, or ""."""
        self.append(journal.outcome_record(outcome))
        self._unsynced = True
        self._write_code(outcome)
        self.outcomes[outcome.key] = outcome
        self.progress.ended(outcome, self.clock())
        return self.listener.finished(outcome, self.progress)

    def _write_code(self, outcome: Outcome) -> None:
        """Leave ``<log>.rc`` as soon as an item has ended, as published consumers of the run directory expect."""
        if outcome.start is not None:
            with self.telling("the exit code of an item"):
                self.directory.write_code(outcome.key, exit_code(outcome))

    # -- suites, workers and devices ----------------------------------------------------------------

    def set_up(self, suite: Suite, ending: Ending) -> None:
        """Write down and tell how a setup ended."""
        self.append(
            {
                "event": "setup",
                "suite": suite.label,
                "exit_code": ending.exit_code,
                "signal": ending.signal,
                "start": ending.start,
                "stop": ending.stop,
            }
        )
        self.listener.setup(suite, ending)

    def lost(self, event: WorkerGone) -> None:
        """Write down that a worker is gone."""
        self.append({"event": "lost", "at": event.at, "worker": event.worker.id, "reason": event.reason})

    def examined(self, worker: Worker, ending: Ending, verdict: str) -> None:
        """Write down what the health command said, and tell what is wrong; ``verdict`` "" is a healthy device."""
        self.append(
            {
                "event": "health",
                "worker": worker.id,
                "exit_code": ending.exit_code,
                "signal": ending.signal,
                "start": ending.start,
                "stop": ending.stop,
                "reason": verdict,
            }
        )
        if verdict:
            log = self.directory.shown(self.directory.health_log(worker.place))
            self.listener.device(f"UNHEALTHY {worker.place}: {verdict}; log: {log}")

    def quarantined(self, quarantine: Quarantine) -> None:
        """Write down and tell that a device gets no more items."""
        self.append(journal.quarantine_record(quarantine))
        self.listener.device(f"QUARANTINE {','.join(quarantine.devices)}: no more items; {quarantine.reason}")

    def held(self, worker: Worker, reason: str) -> None:
        """Write down and tell that a device waits for what a failure there means."""
        self.append({"event": "held", "at": self.clock(), "worker": worker.id, "reason": reason})
        self.listener.device(f"HELD {worker.place}: {reason}")

    def released(self, worker: Worker, reason: str) -> None:
        """Write down and tell that a device that was held gets items again."""
        self.append({"event": "released", "at": self.clock(), "worker": worker.id, "reason": reason})
        self.listener.device(f"RELEASED {worker.place}: {reason}")

    # -- endings ----------------------------------------------------------------------------------

    def stopping(self, reason: str, grace: float) -> None:
        """Write down and tell that the run is being ended. ``grace``: seconds that running items have."""
        self.append({"event": "stop", "at": self.clock(), "reason": reason})
        self.listener.stopping(reason, grace, self.progress)

    def hurried(self, reason: str) -> None:
        """Tell that running items have no more time. The journal has why they end, and when they do."""
        self.listener.hurried(reason, self.progress)

    def incomplete(self, reason: str) -> None:
        """Write down and tell, once, that something will not run."""
        if not self.unfinished:
            self.unfinished = reason
            self.append({"event": "incomplete", "at": self.clock(), "reason": reason})
            self.listener.incomplete(reason)

    def paused(self) -> None:
        """Write down and tell that the run stops here for a while."""
        self.append({"event": "paused", "at": self.clock()})
        self.listener.paused()

    def continued(self, seconds: float) -> None:
        """Write down and tell that it goes on; its clock stood still for so many seconds."""
        self.append({"event": "resumed", "at": self.clock(), "seconds": seconds})
        self.listener.continued(seconds)
