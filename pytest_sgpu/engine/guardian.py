"""sgpu guardian: waits until its worker is gone, then kills what the worker's item left running.

Stands alone: each worker starts it from its source text, with the read end of a pipe as standard input.
Its last two arguments are the cookie of the worker and the controller's process (``<number>:<start>``, ""
when that cannot be seen from here). The kernel closes the write end however the worker dies, also by
SIGKILL, so end of file is the one message that cannot be lost.

While an item runs it looks at the worker's tree a few times a second and remembers it, so that a process
is known again that has dropped its environment and left the session of the item; only one that is
younger than that look is not. A worker that is still there a second after its controller has ended (it
was stopped, say) is killed.

Guarantees: it touches only a process that has ``SGPU_COOKIE=...<cookie>...`` in the environment it was
started with, that belongs to the session of the item that was running (the last line on the pipe is that
session's number, ``0`` for none), that it saw below the worker, or that descends from one of these. It
ends at most about five seconds after its worker. It holds no other descriptor of the worker. Standard
library only, Python 3.8 or newer.
"""

# Neither pathlib nor contextlib is worth its start-up time in here.
# ruff: noqa: PTH123, PTH208

from __future__ import annotations

import os
import select
import signal
import sys
import time

LIMIT = 5.0  # seconds after the worker's end in which it kills what it finds
QUIET_ROUNDS = 4  # so many looks without a find mean that nothing is left
PAUSE = 0.02  # seconds between two looks
LOOK = 0.25  # seconds between two looks at the tree of a running item, or more when a look takes long:
SHARE = 50  # one part in so many of the time is spent on it
IDLE_LOOK = 1.0  # seconds between two looks at a worker without an item
ORPHAN_LIMIT = 1.0  # seconds that a worker may outlive the controller
PF_EXITING = 4


class Seen:
    """One process as /proc shows it; number and start together name it for ever."""

    __slots__ = ("parent", "session", "start")

    def __init__(self, parent: int, session: int, start: bytes) -> None:
        self.parent, self.session, self.start = parent, session, start


def _read(path: str) -> bytes:
    """Read a file under /proc whole; empty when the process is gone or belongs to somebody else."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def look(pid: int) -> Seen | None:
    """Look at one process; None when it is gone, a zombie, or about to be one."""
    fields = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    # One whose first thread has ended looks like a zombie as long as the others run.
    if not fields or (int(fields[17]) <= 1 and (fields[0] in b"ZX" or int(fields[6]) & PF_EXITING)):
        return None
    return Seen(int(fields[1]), int(fields[3]), fields[19])


def carries(environ: bytes, cookie: bytes) -> bool:
    """Say whether an environment holds the cookie. Runs inside runs join theirs with a colon."""
    if cookie not in environ:
        return False
    marks = (entry[12:] for entry in environ.split(b"\0") if entry.startswith(b"SGPU_COOKIE="))
    return any(cookie in mark.split(b":") for mark in marks)


# ---------------------------------------------------------------- killing


def _kill(pid: int, seen: Seen) -> None:
    """Kill exactly the process that was looked at: the descriptor keeps its number from being reused."""
    try:
        descriptor = os.pidfd_open(pid) if hasattr(os, "pidfd_open") else None
    except OSError:
        descriptor = None
    try:
        now = look(pid)
        if now is None or now.start != seen.start:
            return
        if descriptor is None:
            os.kill(pid, signal.SIGKILL)
        else:
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
    except OSError:
        pass  # it ended by itself
    finally:
        if descriptor is not None:
            os.close(descriptor)


class Mark:
    """By what a process is known to be one of the item's."""

    def __init__(self, cookie: bytes) -> None:
        self.cookie = cookie
        self.sessions: set[int] = set()
        self.known: dict[int, bytes] = {}

    def find(self) -> dict[int, Seen]:
        """Find all living processes that are the item's, by any of the signs, and their descendants."""
        pids = (int(name) for name in os.listdir("/proc") if name.isdigit())
        processes = {pid: seen for pid in pids if (seen := look(pid)) is not None and pid != os.getpid()}
        below: dict[int, list[int]] = {}
        open_ = []
        for pid, seen in processes.items():
            below.setdefault(seen.parent, []).append(pid)
            if (
                seen.session in self.sessions
                or self.known.get(pid) == seen.start
                or carries(_read(f"/proc/{pid}/environ"), self.cookie)
            ):
                open_.append(pid)
        found: dict[int, Seen] = {}
        while open_:
            pid = open_.pop()
            if pid not in found:
                found[pid] = processes[pid]
                open_.extend(below.get(pid, ()))
        return found

    def sweep(self) -> int:
        """Look once and kill what is found. Gives how many that were."""
        found = self.find()
        for pid, seen in found.items():
            _kill(pid, seen)
        return len(found)

    def clean(self) -> None:
        """Kill until a few looks in a row find nothing, at most for LIMIT seconds."""
        deadline = time.monotonic() + LIMIT
        quiet = 0
        while quiet < QUIET_ROUNDS and time.monotonic() < deadline:
            quiet = 0 if self.sweep() else quiet + 1
            time.sleep(PAUSE)


def sweep(cookie: bytes) -> int:
    """Look once for what carries a cookie, and kill it. Gives how many that were."""
    return Mark(cookie).sweep()


# ---------------------------------------------------------------- watching


def _children(pid: int) -> list[int]:
    """Give the direct children of a process: those of each of its threads. None on a kernel that does not list them."""
    found: list[int] = []
    try:
        tasks = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return found
    for task in tasks:
        found.extend(map(int, _read(f"/proc/{pid}/task/{task}/children").split()))
    return found


class Watch:
    """Remembers the tree below a worker as long as that lives. The worker is the parent of this process."""

    def __init__(self, mark: Mark, controller: str) -> None:
        self.mark = mark
        self.item = 0
        self._me = os.getpid()
        self._worker = os.getppid()
        pid, _, self._controller_start = controller.partition(":")
        self._controller = int(pid or 0)
        self._orphaned = 0.0
        self._due = 0.0

    def _controller_lives(self) -> bool:
        seen = look(self._controller)
        return seen is not None and seen.start == self._controller_start.encode()

    def hear(self, item: int) -> None:
        """Take the number of the running item's first process, which is that of its session; 0 for none."""
        self.item = item
        self.mark.sessions = {item} - {0}
        self.mark.known = {}
        self._due = time.monotonic() + (LOOK if item else IDLE_LOOK)

    def wait(self) -> float:
        """Give the seconds until the next look."""
        return max(0.0, self._due - time.monotonic())

    def look(self) -> None:
        """Look at the worker, and at the tree of the item that runs, when it is time to."""
        began = time.monotonic()
        if began < self._due:
            return
        if self.item:
            self._remember()
        if self._controller and not self._controller_lives():
            self._orphaned = self._orphaned or began
            worker = look(self._worker)
            if began - self._orphaned >= ORPHAN_LIMIT and worker is not None and self._has_worker():
                _kill(self._worker, worker)
        spent = time.monotonic() - began
        pause = max(LOOK if self.item or self._orphaned else IDLE_LOOK, spent * SHARE)
        self._due = time.monotonic() + pause

    def _has_worker(self) -> bool:
        return os.getppid() == self._worker

    def _remember(self) -> None:
        """Add what is below the worker now. A process that was seen once stays there until it ends."""
        known = {pid: start for pid, start in self.mark.known.items() if (seen := look(pid)) and seen.start == start}
        sessions = {self.item}
        open_ = [self._worker]
        while open_:
            for pid in _children(open_.pop()):
                seen = look(pid)
                if seen is not None and pid != self._me:
                    known[pid] = seen.start
                    sessions.add(seen.session)
                    open_.append(pid)
        sessions -= {os.getsid(0), _session(self._worker)}  # a child that has just been forked has none of its own yet
        if self._has_worker():  # else its children have left it already
            self.mark.known, self.mark.sessions = known, sessions


def _session(pid: int) -> int:
    seen = look(pid)
    return seen.session if seen else 0


def main() -> None:
    """Wait for the end of the worker, then clean up behind it."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # its worker decides when it ends
    with open("/proc/self/comm", "wb") as name:  # who kills every ``python`` in sight does not mean this one
        name.write(b"sgpu-guardian")
    mark = Mark(os.fsencode(sys.argv[-2]))
    watch = Watch(mark, sys.argv[-1])
    poller = select.poll()
    poller.register(0, select.POLLIN)
    heard = b""
    while True:
        if not poller.poll(int(watch.wait() * 1000) + 1):
            watch.look()
            continue
        chunk = os.read(0, 4096)
        if not chunk:
            break
        *lines, heard = (heard + chunk).split(b"\n")
        if lines:
            watch.hear(int(lines[-1]))
    mark.clean()


if __name__ == "__main__":
    main()
