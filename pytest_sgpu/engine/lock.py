"""A lock that its holder cannot leave behind: the kernel gives it back when the process ends, however it ends."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from filelock import FileLock, Timeout

from pytest_sgpu.engine.files import aside

_STEP = 0.02  # seconds between two tries


class Lock:
    """An exclusive ``flock`` on a file of its own. What is in the file decides nothing.

    No link is followed: nobody of ours has made one, and what it leads to is not ours, so one is removed.
    A folder in its place is moved aside; ``aside`` is then where to.
    Programs that are started meanwhile do not keep it, and every user may lock it. Not for threads.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.aside: Path | None = None
        self._lock = FileLock(str(path), mode=0o666)
        self._file = (0, 0)  # device and inode of what is held

    @property
    def held(self) -> bool:
        """Whether this object holds it."""
        return self._lock.is_locked

    @property
    def in_place(self) -> bool:
        """Whether what is held is the file of this name still: if not, somebody else may hold another one."""
        try:
            return self.held and self._file == self._there()
        except OSError:
            return False

    def _there(self) -> tuple[int, int]:
        found = self.path.lstat()
        return found.st_dev, found.st_ino

    def take(self, patience: float = 0.0) -> bool:
        """Take the lock, waiting at most ``patience`` seconds. Gives False when another one still holds it.

        Raises OSError when the file cannot be made, or the file system has no locks.
        """
        if self.path.is_symlink():
            self.path.unlink()
        if self.path.is_dir():
            self.aside = self.path.rename(self.path.with_name(aside(self.path.name)))
        try:
            self._lock.acquire(timeout=max(0.0, patience), poll_interval=_STEP)
        except Timeout:
            return False
        except NotImplementedError as error:
            raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK), str(self.path)) from error
        self._file = self._there()
        return True

    def free(self) -> bool:
        """Whether nobody holds it now. Makes nothing. Raises OSError as ``take`` does."""
        if not self.path.exists() or self.path.is_symlink() or self.path.is_dir():
            return True
        taken = self.take()
        self.release()
        return taken

    def release(self) -> None:
        """Give it back. Does nothing when it is not held."""
        if self.held:
            self._lock.release()
