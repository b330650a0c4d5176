"""Who uses a run directory, and until when it was alive: a file beside the lock, which decides nothing."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
from datetime import datetime, timezone

from pytest_sgpu.engine.folder import Folder

NAME = ".sgpu.owner.json"
_BEAT = 1.0  # seconds between two signs of life
_LARGEST = 4096  # bytes
_FRESH = 10.0  # seconds since the last sign of life of a run that goes on; one that writes its reports gives none
_ROUGH = 2.0  # seconds by which the start of a process may be wrong


class Owner:
    """The owner file: pid, host and start of who holds the directory; its time of change is the sign of life.

    A run removes it when it ends. One that was killed leaves it behind, and so tells when that was; whoever
    only looks at such a run borrows the file, and gives it back as it was.
    """

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._before: tuple[str, int] | None = None  # text and time of a borrowed one, None: there was none
        self._borrowed = False
        self._handle = -1
        self._started = 0.0
        self._beaten = 0.0

    def text(self) -> str:
        """Say who it is, for a message."""
        try:
            owner = json.loads(self._read()[0])
            return f"pid {int(owner['pid'])} on {str(owner['host'])[:100]}, started {_clock(float(owner['started']))}"
        except (OSError, ValueError, KeyError, TypeError, OverflowError):
            return "its owner is not known"

    def is_alive(self) -> bool:
        """Whether another process of this host, as old as the file says, has given a sign of life just now.

        The lock says so too, as long as nobody has replaced its file.
        """
        try:
            text, when = self._read()
            owner = json.loads(text)
            pid, host, started = int(owner["pid"]), owner["host"], float(owner["started"])
        except (OSError, ValueError, KeyError, TypeError, OverflowError):
            return False
        if host != socket.gethostname() or pid == os.getpid() or abs(time.time() - when / 1e9) > _FRESH:
            return False
        began = _began(pid)
        return began is not None and began <= started + _ROUGH

    def last_sign(self) -> float | None:
        """Give the epoch seconds of the last sign of life, None when the run has ended by itself."""
        if self._borrowed:
            return self._before[1] / 1e9 if self._before else None
        try:
            return self._folder.stat(NAME).st_mtime
        except OSError:
            return None

    def take(self, started: float) -> None:
        """Say that the directory is ours from now on. Raises OSError."""
        self._write(started, None)
        self._borrowed = False

    def borrow(self, started: float) -> None:
        """Say that we hold the directory for a moment, and keep what the file says of the run. Raises OSError."""
        try:
            self._before = self._read()
        except OSError:
            self._before = None
        self._borrowed = True
        self._write(started, self._before[1] if self._before else None)

    def beat(self) -> bool:
        """Give a sign of life, at most once a second; says whether it was time. A file that was removed comes back."""
        now = time.monotonic()
        if self._handle < 0 or self._borrowed or now - self._beaten < _BEAT:
            return False
        self._beaten = now
        with contextlib.suppress(OSError):
            os.utime(self._handle)
            if not os.fstat(self._handle).st_nlink:
                self._restore()
        return True

    def _restore(self) -> None:
        try:
            self._folder.stat(NAME)  # of somebody else by now, or put there by an item: it stays
        except FileNotFoundError:
            self._write(self._started, None)

    def leave(self) -> None:
        """Remove the file, or give it back as it was."""
        if self._handle < 0:
            return
        os.close(self._handle)
        self._handle = -1
        with contextlib.suppress(OSError):
            if self._borrowed and self._before is not None:
                self._put(*self._before)
            else:
                self._folder.clear(NAME)
        self._borrowed = False

    def _write(self, started: float, when: int | None) -> None:
        self._started = started
        owner = {"pid": os.getpid(), "host": socket.gethostname(), "started": started}
        handle = self._put(json.dumps(owner), when, keep=True)
        if self._handle >= 0:
            os.close(self._handle)
        self._handle = handle

    def _put(self, text: str, when: int | None, *, keep: bool = False) -> int:
        """Replace the file; its time is right before anybody can see it. ``keep``: give a handle of it."""
        with self._folder.writing(NAME) as stream:
            stream.write(text)
            stream.flush()
            if when is not None:
                os.utime(stream.fileno(), ns=(when, when))
            return os.dup(stream.fileno()) if keep else -1

    def _read(self) -> tuple[str, int]:
        with self._folder.open(NAME) as stream:
            text = stream.read(_LARGEST).decode("utf-8", "replace")
            return text, os.fstat(stream.fileno()).st_mtime_ns


def _began(pid: int) -> float | None:
    """Give the epoch seconds at which a process began, None when there is none or it is dead already."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as stream:  # noqa: PTH123 - no file of ours
            state, *fields = stream.read().rpartition(")")[2].split()
        since_boot = int(fields[18]) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return None
    return None if state in "ZX" else time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + since_boot


def _clock(epoch: float) -> str:
    return datetime.fromtimestamp(epoch, tz=timezone.utc).astimezone().isoformat(timespec="seconds")
