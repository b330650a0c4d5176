"""The run directory: who holds it, its journal, and (from ``places``) where everything in it is."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pytest_sgpu.core import journal
from pytest_sgpu.core.cells import capped
from pytest_sgpu.core.redact import Clean, Redactor, unchanged
from pytest_sgpu.engine import journal_file, owner
from pytest_sgpu.engine.files import replace, why
from pytest_sgpu.engine.journal_file import JournalFile
from pytest_sgpu.engine.lock import Lock
from pytest_sgpu.engine.owner import Owner
from pytest_sgpu.engine.places import Places
from pytest_sgpu.errors import StoreError
from pytest_sgpu.model import Notice

__all__ = ["FOLDERS", "RunDirectory", "replace", "why"]

# What a run writes, and so what the next run in the same directory clears. Nothing else is touched.
# The folder of the marks goes last: whoever is killed while it clears leaves a directory that is still known.
FOLDERS = ("items", "suites", "junit", "report", "setup", "health", "attempts", "queue")
_MARKS = (journal_file.NAME, "queue/queue.tsv")
_ASIDE = "unfinished"
_LOCK = ".sgpu.lock"
_LOCK_PATIENCE = 0.2  # seconds; who only looks whether it is free holds it for less
_OUR_TURN = frozenset(("run", "resume"))


class RunDirectory(Places):
    """The place where one run leaves everything.

    ``redactor`` takes the secrets out of all words that go into the journal; where a run or a part of it begins,
    the journal names the variables that hold them.
    """

    def __init__(self, path: Path, redactor: Redactor | None = None) -> None:
        super().__init__(path)
        self._redactor = redactor
        self._lock = Lock(path / _LOCK)
        self._owner = Owner(self._folder)
        self._journal = JournalFile(self._folder)

    @property
    def clean(self) -> Clean:
        """Give what takes the secrets out of a text that is written here."""
        return self._redactor.text if self._redactor else unchanged

    # -- whose it is ------------------------------------------------------------------------------

    @property
    def is_held(self) -> bool:
        """Whether this process holds the directory."""
        return self._lock.held

    @property
    def holds_run(self) -> bool:
        """Whether a run has left its journal here."""
        return self._folder.is_file(journal_file.NAME)

    def check(self) -> None:
        """Refuse a place that cannot be a run directory. Looks only; creates nothing.

        Raises StoreError when it is no directory, cannot be written, is in use, or holds folders or files of
        these names that no run has left.
        """
        try:
            self._check()
            free = self._lock.free()
        except OSError as error:
            raise _unusable(self.path, error) from None
        if not free or self._owner.is_alive():
            raise self._in_use()

    def _check(self) -> None:
        place = self.path
        while not place.exists():
            if place.is_symlink() or place.parent == place:
                break
            place = place.parent
        if not place.is_dir():
            raise StoreError(f"{self.path}: no log directory can be made here: {place} is no directory", _LOG_DIR_HINT)
        if not os.access(place, os.W_OK | os.X_OK):
            raise StoreError(f"{self.path}: the log directory cannot be written", _LOG_DIR_HINT)
        if any((self.path / mark).exists() for mark in _MARKS):
            return
        for name in FOLDERS:
            folder = self.path / name
            if folder.is_symlink() or folder.is_file() or (folder.is_dir() and any(folder.iterdir())):
                raise StoreError(
                    f"{folder}: no run of pytest-sgpu has left this, and it would be cleared",
                    _LOG_DIR_HINT,
                )

    def open(self, started: float) -> None:
        """Take the directory for this run: lock it, clear what the last run left, make the folders.

        A run that was killed, and so wrote nothing of what it did, is not cleared but set aside, one of them.
        ``started`` is epoch seconds. Raises StoreError when another run holds it or it cannot be written.
        """
        with self._taking():
            if self.holds_run and self._owner.last_sign() is not None:
                self._set_aside()
            self._owner.take(started)
            for name in FOLDERS:
                self._folder.clear(name)
                self._folder.make(name)
            self._journal.create()

    def _set_aside(self) -> None:
        self._folder.clear(_ASIDE)
        for name in (*FOLDERS, owner.NAME):
            self._folder.move(name, f"{_ASIDE}/{name}")
        place = self.shown(self.path / _ASIDE)
        text = f"the last run in this directory was killed; it was moved to {place}"
        self.notices.append(Notice(f"{text}, where `sgpu finalize {place}` writes its results"))

    def resume(self, started: float) -> None:
        """Take the directory to go on with the run that it holds: lock it, and keep everything.

        Until the first record is appended, nothing has changed, and ``close`` gives it back as it was.
        ``started`` is epoch seconds. Raises StoreError as ``open`` does, and when there is no run.
        """
        self._hold(started)

    def hold(self) -> None:
        """Take the directory for a moment, to look at the run that it holds, or to write its results again.

        Raises StoreError as ``resume`` does.
        """
        self._hold(time.time())

    def _hold(self, started: float) -> None:
        if not self.holds_run:
            raise StoreError(f"{self.path}: no run has left its journal here ({journal_file.NAME})", _RUN_HINT)
        with self._taking(_WAIT_HINT):
            self._owner.borrow(started)

    @contextlib.contextmanager
    def _taking(self, hint: str = "") -> Iterator[None]:
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._take_lock(hint)
            self._folder.hold()
            yield
        except OSError as error:
            self.close()
            raise _unusable(self.path, error) from None
        except BaseException:
            self.close()
            raise

    def _take_lock(self, hint: str) -> None:
        if not self._lock.take(_LOCK_PATIENCE) or self._owner.is_alive():  # alive: its lock was taken away from it
            raise self._in_use(hint)
        if self._lock.aside:
            self._folder.tell(f"a folder was in this place; it is {self._lock.aside.name} now", _LOCK)

    def _in_use(self, hint: str = "") -> StoreError:
        holder = self._owner.text()
        return StoreError(f"{self.path}: another run uses this log directory ({holder})", hint or _OTHER_HINT)

    def close(self) -> None:
        """Give the directory free. Does nothing when this process does not hold it."""
        self._journal.close()
        if self._lock.held:
            self._owner.leave()
            self._lock.release()
        self._folder.close()

    def beat(self) -> None:
        """Give a sign of life, at most once a second: of a run that is killed it tells when that was."""
        if self._owner.beat():
            self._look_at_lock()

    def _look_at_lock(self) -> None:
        if self._lock.held and not self._lock.in_place:
            lost = "the lock of this run was removed or replaced while it went on; another run may have come in between"
            self._folder.tell(lost, _LOCK)

    def last_sign(self) -> float | None:
        """Give the epoch seconds of the last sign of life of a run that was killed, None when it ended by itself."""
        return self._owner.last_sign()

    # -- the journal ------------------------------------------------------------------------------

    def append(self, record: Mapping[str, Any]) -> None:
        """Append one record to the journal, and hand it to the kernel before anything else happens.

        Raises StoreError when that fails: a run whose journal has holes proves nothing.
        """
        if not self._lock.held:
            raise ValueError("the run directory is not open")
        cleaned = journal.redacted(dict(record), self._redactor.text) if self._redactor else record
        with self._writing_the_journal():
            if not self._journal.is_open:
                self._journal.reopen()
            if record.get("event") in _OUR_TURN:
                self._owner.take(float(record.get("started", 0.0)))
                if self._redactor:
                    cleaned = {**cleaned, "secrets": list(self._redactor.names)}
            self._journal.append(journal.line(cleaned))

    def sync(self) -> None:
        """Bring the journal to the disk. Raises StoreError when that fails."""
        if self._journal.is_open:
            with self._writing_the_journal():
                self._journal.sync()

    def confirm(self) -> None:
        """See to it that the journal is where readers look for it, and that the lock was ours to the end.

        Raises StoreError when the journal was taken away and cannot be put back.
        """
        self._look_at_lock()
        if self._journal.is_open:
            with self._writing_the_journal():
                self._journal.confirm()

    @contextlib.contextmanager
    def _writing_the_journal(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            where = self.path / journal_file.NAME
            raise StoreError(f"{where}: cannot be written: {why(error)}", _LOG_DIR_HINT) from None

    def records(self) -> tuple[list[journal.Record], tuple[Notice, ...]]:
        """Read the journal back. One that cannot be read has no records, and a notice says so."""
        try:
            with self._journal.lines() as stream:
                return journal.parse(stream.read())
        except OSError as error:
            return [], (self._unreadable(error),)

    def state(self) -> tuple[journal.RunState, tuple[Notice, ...]]:
        """Fold the journal to the state of the run, line by line. One that cannot be read gives an empty state.

        Raises StoreError when the directory was taken away, or the journal shortened, while it was written.
        """
        gone = "" if not self._journal.is_open or self._folder.is_there() else "removed or replaced this run directory"
        if gone or self._journal.was_cut:
            raise StoreError(
                f"{self.path}: something {gone or 'cut off the journal'} while the run went on, so results are lost",
                "did an item do it?",
            )
        self._look_at_lock()
        notices: list[Notice] = []
        try:
            with self._journal.lines() as stream:
                state = journal.fold(journal.read(stream, notices))
        except OSError as error:
            return journal.RunState(), (self._unreadable(error),)
        return state, capped(notices, journal.NAME)

    def _unreadable(self, error: OSError) -> Notice:
        where = str(self.path / journal_file.NAME)
        return Notice(f"the journal of this run cannot be read: {why(error)}", where)


_LOG_DIR_HINT = "name another one with --sgpu-log-dir=DIR"
_RUN_HINT = "name the log directory of a run"
_OTHER_HINT = "wait until that run has ended, or name another log directory with --sgpu-log-dir=DIR"
_WAIT_HINT = "wait until that run has ended, or end it"


def _unusable(path: Path, error: OSError) -> StoreError:
    where = getattr(error, "filename", None) or path
    return StoreError(f"{where}: the log directory cannot be written: {why(error)}", _LOG_DIR_HINT)
