"""The places of a run directory: logs, JUnit files, exit codes. No link that an item has put there is followed."""

from __future__ import annotations

import contextlib
import os
import stat
from os import PathLike
from pathlib import Path
from typing import BinaryIO, TextIO

from pytest_sgpu.core.junit_place import JunitPlace, junit_place
from pytest_sgpu.core.names import file_name, item_stem
from pytest_sgpu.engine.files import why
from pytest_sgpu.engine.folder import Folder
from pytest_sgpu.model import Key, Notice


class Places:
    """Where everything is. Paths are absolute; names are safe for any tag."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._folder = Folder(path)
        self._veil = b""

    @property
    def notices(self) -> list[Notice]:
        """What was found in the place of something else, and put right."""
        return self._folder.notices

    def item_log(self, key: Key) -> Path:
        """Give the log of the last attempt at an item."""
        return self.path / _item_log(key)

    def attempt_log(self, key: Key, attempt: int) -> Path:
        """Give the log of an attempt that was not the last one."""
        return self.path / _archived(attempt, _item_log(key))

    def setup_log(self, label: str) -> Path:
        """Give the log of a suite's setup."""
        return self.path / "setup" / f"{file_name(label)}.log"

    def health_log(self, device: str) -> Path:
        """Give the log of the health checks of a device."""
        return self.path / "health" / f"{file_name(device)}.log"

    def junit_place(self, key: Key) -> tuple[str, Path | None]:
        """Give the JUNITXML_PREFIX of an item and the file that its script will write.

        The file is None for an opaque item, which may write any file below the prefix. Makes the
        directories that the script expects; where one cannot be made, the item will leave no file.
        """
        place = _junit(key)
        with contextlib.suppress(OSError):
            self._folder.make(place.folder)
        return f"{self.path}/{place.prefix}", self.path / place.file if place.file else None

    def junit_files(self, key: Key) -> tuple[Path, ...]:
        """Give the JUnit files that an item has left: regular files, to which no link leads."""
        place = _junit(key)
        return self._files(place.file, place.folder)

    def attempt_junit_files(self, key: Key, attempt: int) -> tuple[Path, ...]:
        """Give the JUnit files of an attempt that was not the last one."""
        place = _junit(key)
        return self._files(place.file and _archived(attempt, place.file), _archived(attempt, place.folder))

    def _files(self, file: str, folder: str) -> tuple[Path, ...]:
        if not file:
            return tuple(self.path / name for name in self._folder.files(folder, ".xml"))
        return (self.path / file,) if self._folder.is_file(file) else ()

    def archive(self, key: Key, attempt: int) -> None:
        """Move what an attempt has left out of the way of the next one, to ``attempts/<attempt>/``.

        Log, exit code and JUnit files. What is not there is passed over; what cannot be moved is told in a
        notice, and the next attempt appends to the log or replaces the file.
        """
        log = _item_log(key)
        for name in (log, f"{log}.rc", *_junit_names(key)):
            self._archive(name, _archived(attempt, name))

    def make_way(self, key: Key, attempt: int) -> None:
        """Free the places that an attempt will write to. What the one before it has left is archived.

        Whatever else is there is of another item, which may have put a link or a pipe there: it is taken away and
        told. Where that cannot be done the attempt fails for it.
        """
        if attempt > 1:
            self.archive(key, attempt - 1)
        log = _item_log(key)
        for name in (log, f"{log}.rc", *_junit_names(key)):
            try:  # a look at most is wasted on what a link leads to
                found = os.lstat(f"{self.path}/{name}")
            except OSError:
                continue
            if attempt == 1 or not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:  # else it could not be kept
                self._make_way(name)

    def _make_way(self, name: str) -> None:
        try:
            self._folder.make_way(name)
        except OSError as error:
            self._folder.tell(f"this is in the way of an item and cannot be removed: {why(error)}", name)

    def _archive(self, name: str, to: str) -> None:
        try:
            self._folder.move(name, to)
        except OSError as error:
            self.notices.append(Notice(f"this could not be kept as {to}: {why(error)}", name))

    def write_code(self, key: Key, code: int) -> None:
        """Leave ``<log>.rc`` of an item. Raises OSError."""
        self._folder.put(f"{_item_log(key)}.rc", b"%d\n" % code)

    def shown(self, path: Path) -> str:
        """Give a path as people read it: relative to the working directory when it lies below."""
        try:
            return str(path.relative_to(Path.cwd()))
        except (ValueError, OSError):  # OSError: the working directory is gone
            return str(path)

    @property
    def is_veiled(self) -> bool:
        """Whether no log is quoted."""
        return bool(self._veil)

    def veil(self, text: str) -> None:
        """Quote no log from now on: this text stands for the last bytes of each."""
        self._veil = text.encode()

    def tail(self, key: Key, limit: int = 65_536) -> bytes:
        """Give the last bytes of an item's log."""
        return self._end(self.item_log(key), limit)

    def setup_tail(self, label: str, limit: int = 65_536) -> bytes:
        """Give the last bytes of the log of a suite's setup."""
        return self._end(self.setup_log(label), limit)

    def attempt_tail(self, key: Key, attempt: int, limit: int = 65_536) -> bytes:
        """Give the last bytes of the log of an attempt that was not the last one."""
        return self._end(self.attempt_log(key, attempt), limit)

    def _end(self, path: Path, limit: int) -> bytes:
        if self._veil:
            return self._veil
        with contextlib.suppress(OSError), self.open_file(path) as stream:
            stream.seek(0, os.SEEK_END)
            stream.seek(max(0, stream.tell() - limit))
            return stream.read()
        return b""

    def open_file(self, path: str | PathLike[str]) -> BinaryIO:
        """Open a regular file of the run directory for reading bytes. Raises OSError, also where a link leads to it."""
        try:
            return self._folder.open(str(Path(path).relative_to(self.path)))
        except ValueError:
            raise PermissionError(f"{path} is not in the run directory") from None

    def write(self, name: str, text: str) -> Path:
        """Write one file of the run directory in one piece. Raises OSError."""
        with self.writing(name) as stream:
            stream.write(text)
        return self.path / name

    def writing(self, name: str) -> contextlib.AbstractContextManager[TextIO]:
        """Open a seekable file that takes its place only when it was written whole. Raises OSError."""
        return self._folder.writing(name)


def _item_log(key: Key) -> str:
    return f"items/{item_stem(key)}.log"


def _archived(attempt: int, name: str) -> str:
    return f"attempts/{attempt}/{name}"


def _junit(key: Key) -> JunitPlace:
    folder = f"junit/{file_name(key.suite)}"
    return junit_place(folder, key.tag) if key.tag else JunitPlace(f"{folder}/", "", folder)


def _junit_names(key: Key) -> tuple[str, ...]:
    """Name what an item may have left among the JUnit files: its file and side files, or its own folder."""
    place = _junit(key)
    if not key.tag:
        return (place.folder,)
    top, private = f"junit/{file_name(key.suite)}", f"{file_name(key.tag)}.d"
    if "/" in key.tag:
        return (f"{top}/{private}",)
    return (place.file, f"{place.file}.partial", f"{top}/{key.tag}.partial")
