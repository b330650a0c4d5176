"""The run directory and the weight file: locks, atomic replacement, append."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from filelock import FileLock, Timeout

from pytest_sgpu.core import journal, tables, weights
from pytest_sgpu.core.junit_place import junit_place
from pytest_sgpu.core.names import file_name, item_stem
from pytest_sgpu.errors import StoreError
from pytest_sgpu.model import Key, Notice, Scope, WeightTable

# What a run writes, and so what the next run in the same directory clears. Nothing else is touched.
FOLDERS = ("items", "suites", "queue", "junit", "report", "setup")
_MARKS = ("queue/journal.jsonl", "queue/queue.tsv")
_LOCK = ".sgpu.lock"
_OWNER = ".sgpu.owner.json"
_WEIGHT_LOCK_SECONDS = 30.0


class RunDirectory:
    """The place where one run leaves everything. Paths are absolute; names are safe for any tag."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = FileLock(str(path / _LOCK), blocking=False)
        self._journal: TextIO | None = None

    def check(self) -> None:
        """Refuse a place that cannot be a run directory. Looks only; creates nothing.

        Raises StoreError when it is no directory, cannot be written, or holds folders of these names
        that no run has left.
        """
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
            if folder.is_dir() and any(folder.iterdir()):
                raise StoreError(
                    f"{folder}: this folder holds files that no run of pytest-sgpu has left; they would be cleared",
                    _LOG_DIR_HINT,
                )

    def open(self, started: float) -> None:
        """Take the directory for this run: lock it, clear what the last run left, make the folders.

        ``started`` is epoch seconds. Raises StoreError when another run holds it or it cannot be written.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock.acquire()
        except Timeout:
            raise StoreError(f"{self.path}: another run uses this log directory ({self._owner()})", _LOG_DIR_HINT) from None
        except OSError as error:
            raise StoreError(f"{self.path}: the log directory cannot be written: {error.strerror}", _LOG_DIR_HINT) from None
        try:
            owner = {"pid": os.getpid(), "host": socket.gethostname(), "started": started}
            (self.path / _OWNER).write_text(json.dumps(owner), encoding="utf-8")
            for name in FOLDERS:
                _clear(self.path / name)
                (self.path / name).mkdir()
            self._journal = (self.path / "queue" / "journal.jsonl").open("a", encoding="utf-8")
        except OSError as error:
            self.close()
            raise StoreError(f"{error.filename}: cannot be written: {error.strerror}", _LOG_DIR_HINT) from None

    def close(self) -> None:
        """Give the directory free."""
        if self._journal is not None:
            self._journal.close()
            self._journal = None
        with contextlib.suppress(OSError):
            (self.path / _OWNER).unlink()
        self._lock.release()

    def append(self, record: Mapping[str, Any]) -> None:
        """Append one record to the journal, and hand it to the kernel before anything else happens."""
        if self._journal is None:
            raise ValueError("the run directory is not open")
        self._journal.write(journal.line(record))
        self._journal.flush()

    def records(self) -> tuple[list[journal.Record], tuple[Notice, ...]]:
        """Read the journal back."""
        path = self.path / "queue" / "journal.jsonl"
        return journal.parse(path.read_text(encoding="utf-8", errors="replace"))

    def item_log(self, key: Key) -> Path:
        """Give the log of an item."""
        return self.path / "items" / f"{item_stem(key)}.log"

    def setup_log(self, label: str) -> Path:
        """Give the log of a suite's setup."""
        return self.path / "setup" / f"{file_name(label)}.log"

    def junit_place(self, key: Key) -> tuple[str, Path | None]:
        """Give the JUNITXML_PREFIX of an item and the file that its script will write.

        The file is None for an opaque item, which may write any file below the prefix. Makes the
        directories that the script expects.
        """
        folder = self.path / "junit" / file_name(key.suite)
        if not key.tag:
            folder.mkdir(exist_ok=True)
            return f"{folder}/", None
        prefix, file, needed = junit_place(str(folder), key.tag)
        Path(needed).mkdir(parents=True, exist_ok=True)
        return prefix, Path(file)

    def junit_files(self, key: Key) -> tuple[Path, ...]:
        """Give the JUnit files that an item has left: regular files inside the run directory only."""
        _, file = self.junit_place(key)
        found = [file] if file else sorted((self.path / "junit" / file_name(key.suite)).rglob("*.xml"))
        inside = self.path.resolve() / "junit"
        return tuple(path for path in found if path.is_file() and inside in path.resolve().parents)

    def shown(self, path: Path) -> str:
        """Give a path as people read it: relative to the working directory when it lies below."""
        try:
            return str(path.relative_to(Path.cwd()))
        except ValueError:
            return str(path)

    def tail(self, key: Key, limit: int = 65_536) -> bytes:
        """Give the last bytes of an item's log, or of its suite's setup when the item has none."""
        for path in (self.item_log(key), self.setup_log(key.suite)):
            with contextlib.suppress(OSError), path.open("rb") as stream:
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
        with part.open("w+", encoding="utf-8", newline="\n") as stream:
            yield stream
        part.replace(path)

    def _owner(self) -> str:
        try:
            owner = json.loads((self.path / _OWNER).read_text(encoding="utf-8"))
            return f"pid {owner['pid']} on {owner['host']}, started {_clock(float(owner['started']))}"
        except (OSError, ValueError, KeyError, TypeError):
            return "its owner is not known"


_LOG_DIR_HINT = "name another one with --sgpu-log-dir=DIR"


def _clock(epoch: float) -> str:
    import datetime

    return datetime.datetime.fromtimestamp(epoch).astimezone().isoformat(timespec="seconds")


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
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as stream:
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


@dataclass(frozen=True, slots=True)
class WeightPlace:
    """Where weights are read from, and where this run writes what it learned.

    The two differ when an explicit file is named after another architecture or level: seconds of one
    must not drift into the table of the other.
    """

    read: Path
    write: Path


def weight_place(option: Path, scope: Scope) -> tuple[WeightPlace, tuple[Notice, ...]]:
    """Turn ``--sgpu-weights=FILE|DIR`` into files. A path that does not exist is a file if it ends in .txt."""
    if option.is_dir() or (not option.exists() and option.suffix != ".txt"):
        path = option / weights.file_name(scope)
        return WeightPlace(path, path), _others(path, scope)
    named = weights.parse_file_name(option.name)
    if named is None or named == scope:
        return WeightPlace(option, option), ()
    own = option.with_name(weights.file_name(scope))
    notice = Notice(
        f"this table is for {named.arch}, level {named.level}; the run is {scope.arch}, level {scope.level}: "
        f"it orders the plan, and what is learned goes to {own.name}",
        str(option),
    )
    return WeightPlace(option, own), (notice,)


def _others(path: Path, scope: Scope) -> tuple[Notice, ...]:
    if path.exists() or not path.parent.is_dir():
        return ()
    there = sorted(p.name for p in path.parent.iterdir() if weights.parse_file_name(p.name))
    if not there:
        return ()
    text = f"no weight table for {scope.arch}, level {scope.level}; not used: {', '.join(there)}"
    return (Notice(text, str(path.parent)),)


def read_weights(path: Path, scope: Scope) -> tuple[WeightTable, tuple[Notice, ...], bool]:
    """Read a weight table. Never fails: a table that cannot be read is empty, with a notice.

    The last value is True when the table is of a newer version and must not be overwritten.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return WeightTable(scope), (), False
    except OSError as error:
        return WeightTable(scope), (Notice(f"the weight table cannot be read: {error.strerror}", str(path)),), False
    return tables.parse_weights(data, str(path), scope)


def update_weights(
    place: WeightPlace, scope: Scope, change: Callable[[WeightTable], WeightTable]
) -> tuple[WeightTable, tuple[Notice, ...]]:
    """Lock, read, change, replace: two runs that end together lose nothing.

    Never fails: what cannot be written is told in a notice, and the verdict of the run stands.
    """
    path = place.write
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(str(path.with_name(f".{path.name}.lock")), timeout=_WEIGHT_LOCK_SECONDS):
            table, notices, newer = read_weights(path, scope)
            if not path.exists() and place.read != path:
                table = WeightTable(scope)
            if newer:
                aside = path.with_name(path.name + ".newer")
                path.replace(aside)
                notices = (*notices, Notice(f"set aside as {aside.name}", str(path)))
                table = WeightTable(scope)
            changed = change(table)
            replace(path, tables.format_weights(changed))
    except Timeout:
        return WeightTable(scope), (Notice("the weight table stayed locked; nothing was learned", str(path)),)
    except OSError as error:
        lost = Notice(f"the weight table cannot be written, nothing was learned: {error.strerror}", str(path))
        return WeightTable(scope), (lost,)
    return changed, notices
