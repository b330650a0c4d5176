"""sgpu guardian: waits until its worker is gone, then kills what the worker's item left running.

Stands alone: each worker starts it from its source text, with the cookie of the worker as the last
argument and the read end of a pipe as standard input. The kernel closes the write end however the
worker dies, also by SIGKILL, so end of file is the one message that cannot be lost.

Guarantees: it touches only a process that has ``SGPU_COOKIE=...<cookie>...`` in the environment it
was started with, or that belongs to the session of the item that was running (the last line on the
pipe is that session's number, ``0`` for none). It ends at most about two seconds after its worker.
It holds no other descriptor of the worker. Standard library only, Python 3.8 or newer.
"""

from __future__ import annotations

import os
import signal
import sys
import time

LIMIT = 2.0  # seconds after the worker's end in which it kills what it finds
QUIET_ROUNDS = 4  # so many looks without a find mean that nothing is left
PAUSE = 0.02  # seconds between two looks


def _read(path: str) -> bytes:
    """Read a file under /proc whole; empty when the process is gone or belongs to somebody else."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - pathlib costs 10 ms of start-up
            return file.read()
    except OSError:
        return b""


def carries(environ: bytes, cookie: bytes) -> bool:
    """Say whether an environment holds the cookie. Runs inside runs join theirs with a colon."""
    if cookie not in environ:
        return False
    marks = (entry[12:] for entry in environ.split(b"\0") if entry.startswith(b"SGPU_COOKIE="))
    return any(cookie in mark.split(b":") for mark in marks)


def _session(pid: int) -> int:
    """Give the session of a living process, -1 when it is gone or a zombie."""
    state, _, _, session, *_ = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split() or (b"X", b"", b"", b"")
    return -1 if state in b"ZX" else int(session)


def _is_ours(pid: int, cookie: bytes, session: int) -> bool:
    return carries(_read(f"/proc/{pid}/environ"), cookie) or (session > 0 and _session(pid) == session)


def _kill(pid: int, cookie: bytes, session: int) -> None:
    """Kill exactly the process that was looked at: the descriptor keeps its number from being reused."""
    try:
        descriptor = os.pidfd_open(pid) if hasattr(os, "pidfd_open") else None
    except OSError:
        descriptor = None
    try:
        if not _is_ours(pid, cookie, session):
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


def sweep(cookie: bytes, session: int) -> int:
    """Look once and kill what is found. Gives how many that were."""
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208
    found = [pid for pid in pids if pid != os.getpid() and _is_ours(pid, cookie, session)]
    for pid in found:
        _kill(pid, cookie, session)
    return len(found)


def clean(cookie: bytes, session: int) -> None:
    """Kill until a few looks in a row find nothing, at most for LIMIT seconds."""
    deadline = time.monotonic() + LIMIT
    quiet = 0
    while quiet < QUIET_ROUNDS and time.monotonic() < deadline:
        quiet = 0 if sweep(cookie, session) else quiet + 1
        time.sleep(PAUSE)


def main() -> None:
    """Wait for the end of the worker, then clean up behind it."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # its worker decides when it ends
    heard = b"0\n"
    while True:
        chunk = os.read(0, 4096)
        if not chunk:
            break
        heard = (heard + chunk)[-64:]
    clean(os.fsencode(sys.argv[-1]), int(heard.split(b"\n")[-2]))


if __name__ == "__main__":
    main()
