"""The run directory: its lock, its places, the journal; and how a file is replaced in one step."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import tempfile
from collections.abc import Iterator, Mapping
from datetime import datetime, timezone
from functools import cached_property
from io import TextIOWrapper
from pathlib import Path
from typing import Any, TextIO

from filelock import FileLock, Timeout

from pytest_sgpu.core import journal
from pytest_sgpu.core.cells import capped
from pytest_sgpu.core.junit_place import junit_place
from pytest_sgpu.core.names import file_name, item_stem
from pytest_sgpu.engine.files import open_regular
from pytest_sgpu.errors import StoreError
from pytest_sgpu.model import Key, Notice

# What a run writes, and so what the next run in the same directory clears. Nothing else is touched.
# The folder of the marks goes last: whoever is killed while it clears leaves a directory that is still known.
FOLDERS = ("items", "suites", "junit", "report", "setup", "queue")
_MARKS = ("queue/journal.jsonl", "queue/queue.tsv")
_LOCK = ".sgpu.lock"
_OWNER = ".sgpu.owner.json"


class RunDirectory:
    """The place where one run leaves everything. Paths are absolute; names are safe for any tag."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = FileLock(str(path / _LOCK))
        self._journal: TextIO | None = None

    def check(self) -> None:
        """Refuse a place that cannot be a run directory. Looks only; creates nothing.

        Raises StoreError when it is no directory, cannot be written, or holds folders or files of these
        names that no run has left.
        """
        try:
            self._check()
        except OSError as error:
            raise _unusable(self.path, error) from None

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

        ``started`` is epoch seconds. Raises StoreError when another run holds it or it cannot be written.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock.acquire(blocking=False)
        except Timeout:
            raise StoreError(
                f"{self.path}: another run uses this log directory ({self._owner()})", _LOG_DIR_HINT
            ) from None
        except (OSError, NotImplementedError) as error:  # the second: a file system without locks
            raise _unusable(self.path, error) from None
        try:
            owner = {"pid": os.getpid(), "host": socket.gethostname(), "started": started}
            (self.path / _OWNER).write_text(json.dumps(owner), encoding="utf-8")
            for name in FOLDERS:
                _clear(self.path / name)
                (self.path / name).mkdir()
            self._journal = (self.path / "queue" / "journal.jsonl").open("a", encoding="utf-8")
        except OSError as error:
            self.close()
            raise _unusable(self.path, error) from None

    def close(self) -> None:
        """Give the directory free. Does nothing when this process does not hold it."""
        if self._journal is not None:
            with contextlib.suppress(OSError):  # what could not be written was told when it happened
                self._journal.close()
            self._journal = None
        if self._lock.is_locked:
            with contextlib.suppress(OSError):
                (self.path / _OWNER).unlink()
            self._lock.release()

    def append(self, record: Mapping[str, Any]) -> None:
        """Append one record to the journal, and hand it to the kernel before anything else happens.

        Raises StoreError when that fails: a run whose journal has holes proves nothing.
        """
        if self._journal is None:
            raise ValueError("the run directory is not open")
        try:
            self._journal.write(journal.line(record))
            self._journal.flush()
        except OSError as error:
            raise StoreError(f"{self._journal.name}: cannot be written: {why(error)}", _LOG_DIR_HINT) from None

    def records(self) -> tuple[list[journal.Record], tuple[Notice, ...]]:
        """Read the journal back. One that cannot be read has no records, and a notice says so."""
        path = self.path / "queue" / "journal.jsonl"
        try:
            text = path.read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            return [], (Notice(f"the journal of this run cannot be read: {why(error)}", str(path)),)
        return journal.parse(text)

    def state(self) -> tuple[journal.RunState, tuple[Notice, ...]]:
        """Fold the journal to the state of the run, line by line. One that cannot be read gives an empty state."""
        path = self.path / "queue" / "journal.jsonl"
        notices: list[Notice] = []
        try:
            with TextIOWrapper(open_regular(path), encoding="utf-8", errors="replace", newline="\n") as stream:
                state = journal.fold(journal.read(stream, notices))
        except OSError as error:
            lost = Notice(f"the journal of this run cannot be read: {why(error)}", str(path))
            return journal.RunState(), (lost,)
        return state, capped(notices, "journal.jsonl")

    def item_log(self, key: Key) -> Path:
        """Give the log of an item."""
        return self.path / "items" / f"{item_stem(key)}.log"

    def setup_log(self, label: str) -> Path:
        """Give the log of a suite's setup."""
        return self.path / "setup" / f"{file_name(label)}.log"

    def junit_place(self, key: Key) -> tuple[str, Path | None]:
        """Give the JUNITXML_PREFIX of an item and the file that its script will write.

        The file is None for an opaque item, which may write any file below the prefix. Makes the
        directories that the script expects; where one cannot be made, the item will leave no file.
        """
        prefix, file, needed = self._junit_place(key)
        if not os.path.isdir(needed):  # noqa: PTH112 - asked for every item
            with contextlib.suppress(OSError):
                Path(needed).mkdir(parents=True, exist_ok=True)
        return prefix, Path(file) if file else None

    def _junit_place(self, key: Key) -> tuple[str, str, str]:
        folder = f"{self.path}/junit/{file_name(key.suite)}"
        return junit_place(folder, key.tag) if key.tag else (f"{folder}/", "", folder)

    def junit_files(self, key: Key) -> tuple[Path, ...]:
        """Give the JUnit files that an item has left: regular files inside the run directory only."""
        prefix, file, _ = self._junit_place(key)
        found = [Path(file)] if file else sorted(Path(prefix).rglob("*.xml"))
        return tuple(path for path in found if os.path.isfile(path) and self._junit_root in path.resolve().parents)  # noqa: PTH113 - Path's raises

    @cached_property
    def _junit_root(self) -> Path:
        return self.path.resolve() / "junit"

    def write_code(self, key: Key, code: int) -> None:
        """Leave ``<log>.rc`` of an item. Written in place: two bytes are there whole or not at all.

        Raises OSError for a link or a pipe that an item has put there: nothing follows or waits for it.
        """
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK
        handle = os.open(f"{self.item_log(key)}.rc", flags, 0o666)
        try:
            os.write(handle, b"%d\n" % code)
        finally:
            os.close(handle)

    def shown(self, path: Path) -> str:
        """Give a path as people read it: relative to the working directory when it lies below."""
        try:
            return str(path.relative_to(Path.cwd()))
        except (ValueError, OSError):  # OSError: the working directory is gone
            return str(path)

    def tail(self, key: Key, limit: int = 65_536) -> bytes:
        """Give the last bytes of an item's log, or of its suite's setup when the item has none."""
        for path in (self.item_log(key), self.setup_log(key.suite)):
            with contextlib.suppress(OSError), open_regular(path, follow=False) as stream:
                stream.seek(0, os.SEEK_END)
                stream.seek(max(0, stream.tell() - limit))
                return stream.read()
        return b""

    def write(self, name: str, text: str) -> Path:
        """Write one file of the run directory in one piece; the folder exists."""
        path = self.path / name
        replace(path, text)
        return path

    @contextlib.contextmanager
    def writing(self, name: str) -> Iterator[TextIO]:
        """Open a seekable file that takes its place only when it was written whole."""
        path = self.path / name
        part = path.with_name(path.name + ".part")
        try:
            with part.open("w+", encoding="utf-8", errors="backslashreplace", newline="\n") as stream:
                yield stream
            part.replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                part.unlink()
            raise

    def _owner(self) -> str:
        try:
            owner = json.loads((self.path / _OWNER).read_text(encoding="utf-8"))
            return f"pid {owner['pid']} on {owner['host']}, started {_clock(float(owner['started']))}"
        except (OSError, ValueError, KeyError, TypeError):
            return "its owner is not known"


_LOG_DIR_HINT = "name another one with --sgpu-log-dir=DIR"


def _unusable(path: Path, error: OSError | NotImplementedError) -> StoreError:
    where = getattr(error, "filename", None) or path
    return StoreError(f"{where}: the log directory cannot be written: {why(error)}", _LOG_DIR_HINT)


def why(error: Exception) -> str:
    """Give what the system said, without the number and the path."""
    return getattr(error, "strerror", None) or str(error)


def _clock(epoch: float) -> str:
    return datetime.fromtimestamp(epoch, tz=timezone.utc).astimezone().isoformat(timespec="seconds")


def _clear(folder: Path) -> None:
    """Remove what an earlier run left. A link is removed, never followed."""
    if folder.is_symlink() or folder.is_file():
        folder.unlink()
    elif folder.exists():
        shutil.rmtree(folder)


def replace(path: Path, text: str) -> None:
    """Replace a file in one step, so that a reader sees the old or the new text and nothing between."""
    handle, part = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace", newline="\n") as stream:
            stream.write(text)
        Path(part).chmod(0o666 & ~_umask())
        Path(part).replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(part).unlink()
        raise


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
