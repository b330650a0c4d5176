"""A lock that its holder cannot leave behind: the kernel gives it back when the process ends, however it ends."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from filelock import FileLock, Timeout

_STEP = 0.02  # seconds between two tries


class Lock:
    """An exclusive ``flock`` on a file of its own. What is in the file decides nothing.

    No link is followed: nobody of ours has made one, and what it leads to is not ours, so one is removed.
    Programs that are started meanwhile do not keep it, and every user may lock it. Not for threads.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = FileLock(str(path), mode=0o666)

    @property
    def held(self) -> bool:
        """Whether this object holds it."""
        return self._lock.is_locked

    def take(self, patience: float = 0.0) -> bool:
        """Take the lock, waiting at most ``patience`` seconds. Gives False when another one still holds it.

        Raises OSError when the file cannot be made, or the file system has no locks.
        """
        if self.path.is_symlink():
            self.path.unlink()
        if self.path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(self.path))
        try:
            self._lock.acquire(timeout=max(0.0, patience), poll_interval=_STEP)
        except Timeout:
            return False
        except NotImplementedError as error:
            raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK), str(self.path)) from error
        return True

    def free(self) -> bool:
        """Whether nobody holds it now. Makes nothing. Raises OSError as ``take`` does."""
        if not self.path.exists() or self.path.is_symlink():
            return True
        taken = self.take()
        self.release()
        return taken

    def release(self) -> None:
        """Give it back. Does nothing when it is not held."""
        if self.held:
            self._lock.release()
