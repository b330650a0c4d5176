"""The file of the journal: appended to line by line, on the disk when it matters, and read back from its own handle."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from io import TextIOWrapper
from typing import BinaryIO, TextIO

from pytest_sgpu.core import journal
from pytest_sgpu.engine.folder import Folder

NAME = f"queue/{journal.NAME}"
_BLOCK = 1 << 16
_NO_SYNC = frozenset((errno.EINVAL, errno.ENOSYS, errno.EROFS))  # a file system that knows nothing of it


class JournalFile:
    """While it is open, what an item does to the name of the file costs nothing: it is put back at the next sync.

    Where that cannot be, what is held is whole still, and the next sync tries again; ``confirm`` is the last one.

    Everything raises OSError.
    """

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._handle = -1
        self._torn = False
        self._size = 0  # of all whole lines

    @property
    def was_cut(self) -> bool:
        """Whether somebody has shortened the file while it was open: lines are lost for good."""
        return self._handle >= 0 and os.fstat(self._handle).st_size < self._size

    @property
    def is_open(self) -> bool:
        """Whether it can be appended to."""
        return self._handle >= 0

    def create(self) -> None:
        """Begin a new one. There must be none."""
        self._handle = self._folder.open_to_append(NAME, new=True)

    def reopen(self) -> None:
        """Go on with the one that is there. A torn last line is taken away, or ended if only its end is missing."""
        self._handle = self._folder.open_to_append(NAME)
        self._torn = False
        self._mend()

    def close(self) -> None:
        """Let go of it."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def append(self, line: str) -> None:
        """Append one line, and hand it to the kernel before anything else happens."""
        data = line.encode("ascii")
        if self._torn:
            self._mend()
        self._torn = True  # until all of it is there
        rest = data
        while rest:
            rest = rest[os.write(self._handle, rest) :]
        self._torn = False
        self._size += len(data)

    def sync(self) -> None:
        """Bring what was appended to the disk, and the file to its place if somebody took it away."""
        with contextlib.suppress(OSError):
            self._put_back()
        try:
            os.fdatasync(self._handle)
        except OSError as error:
            if error.errno not in _NO_SYNC:
                raise

    def confirm(self) -> None:
        """Bring it to the disk and to its place, or fail."""
        self._put_back()
        self.sync()
        if not self._folder.is_there() or not self._is_there():
            raise OSError(errno.ENOENT, "It was taken away and cannot be put back", NAME)

    @contextlib.contextmanager
    def lines(self) -> Iterator[TextIO]:
        """Open it to read: what this run has written while it is open, else the file."""
        if self._handle >= 0:
            with contextlib.suppress(OSError):
                self._put_back()
            stream: BinaryIO = os.fdopen(os.dup(self._handle), "rb")
            stream.seek(0)
        else:
            stream = self._folder.open(NAME)
        with TextIOWrapper(stream, encoding="utf-8", errors="replace", newline="\n") as text:
            yield text

    def _is_there(self) -> bool:
        try:
            there = self._folder.stat(NAME)
        except OSError:
            return False
        mine = os.fstat(self._handle)
        return (there.st_dev, there.st_ino) == (mine.st_dev, mine.st_ino)

    def _put_back(self) -> None:
        """Write what was written so far to a new file of the right name, if it is not there, and go on there."""
        if self._is_there() or not self._folder.is_there():
            return  # there is no place for it in a folder that is gone; reading it back tells
        self._folder.make_way(NAME, folders_only=True)
        with self._folder.writing(NAME) as stream:
            at = 0
            while block := os.pread(self._handle, _BLOCK, at):
                stream.buffer.write(block)
                at += len(block)
        handle = self._folder.open_to_append(NAME)
        os.close(self._handle)
        self._handle = handle
        self._folder.tell("the journal was removed or replaced while the run went on; it is back", NAME)

    def _mend(self) -> None:
        size = os.fstat(self._handle).st_size
        tail, start = b"", size
        while start and b"\n" not in tail:
            step = min(_BLOCK, start)
            start -= step
            tail = os.pread(self._handle, step, start) + tail
        torn = tail.rpartition(b"\n")[2]
        if torn and journal.whole(torn.decode("utf-8", "replace")):
            os.write(self._handle, b"\n")
        elif torn:
            os.ftruncate(self._handle, size - len(torn))
        self._torn = False
        if not self._size:
            self._size = os.fstat(self._handle).st_size
