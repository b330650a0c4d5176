"""Run helper processes side by side, with a time limit, and leave none behind.

Used where the controller itself runs something short: suite scripts that list, and vendor tools. Items run
under workers, which have their own process control.

Every process gets a session of its own, a closed standard input, and temporary files for its output: a
grandchild that keeps a pipe open could make the reader wait for ever, a file cannot. A process group is
killed when its time is over, when its leader has ended, and when the caller stops looking for any reason.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from pytest_sgpu.core.text import printable
from pytest_sgpu.errors import SgpuError

# How often to look, in seconds: the first is the shortest, listings and probes that take longer are asked less often.
_LOOK = (0.002, 0.02)
# A process in an uninterruptible call of a sick driver outlives SIGKILL. It is left alone after this time.
_DEATH = 0.5
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True)
class Command:
    """What to run. ``argv[0]`` is a path; ``env`` is the whole environment."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: Path | None = None


@dataclass(frozen=True, slots=True)
class Ended:
    """How the command at ``position`` ended, and its output, which is readable until the next one is asked for.

    ``exit_code`` is negative for a signal, as subprocess has it, and None when there is none; ``failure``
    says then why in words: it could not be started, or gave no answer in its time. ``failure`` is also set
    for a bad exit code, and empty only for 0.
    """

    position: int
    exit_code: int | None
    failure: str
    stdout: IO[bytes]
    stderr: IO[bytes]
    timed_out: bool = False


@dataclass(slots=True)
class _Child:
    position: int
    stdout: IO[bytes]
    stderr: IO[bytes]
    deadline: float
    process: subprocess.Popen[bytes] | None = None
    failure: str = ""
    exit_code: int | None = None
    abandoned: bool = False

    def ended(self) -> bool:
        """Whether it is over. Its group is killed before its leader is reaped, while the number is surely its own."""
        if self.process is None:
            return True
        with contextlib.suppress(ChildProcessError):  # somebody ignores SIGCHLD: the kernel has reaped it
            if os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                return False
        self.kill()
        return True

    def kill(self) -> None:
        if self.process is None or self.process.returncode is not None or self.abandoned:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        try:
            self.exit_code = self.process.wait(_DEATH)
        except subprocess.TimeoutExpired:
            self.abandoned = True

    def close(self) -> None:
        self.kill()
        self.stdout.close()
        self.stderr.close()


def side_by_side(commands: Sequence[Command], *, time_limit: float, parallel: int) -> Generator[Ended, None, None]:
    """Run all commands, at most ``parallel`` at once, and give each as it ends.

    ``time_limit`` is in seconds, for each command from its own start. Close the iterator (a ``with
    contextlib.closing``) to kill what still runs; an exception and a KeyboardInterrupt do the same. Nothing
    is started twice.
    """
    running: list[_Child] = []
    waiting = list(enumerate(commands))[::-1]
    try:
        while running or waiting:
            while waiting and len(running) < parallel:
                position, command = waiting.pop()
                _start(position, command, time_limit, running)
            child, timed_out = _next(running)
            running.remove(child)
            try:
                yield _as_ended(child, time_limit, timed_out=timed_out)
            finally:
                child.close()
    finally:
        for child in running:
            child.close()


def _next(running: Sequence[_Child]) -> tuple[_Child, bool]:
    """Wait for the first to end or to run out of its time, and kill its group then."""
    pause, longest = _LOOK
    while True:
        for child in running:
            if child.ended():
                return child, False
        now = time.monotonic()
        for child in running:
            if now >= child.deadline:
                child.kill()
                return child, True
        time.sleep(pause)
        pause = min(longest, pause * 1.5)


def _as_ended(child: _Child, time_limit: float, *, timed_out: bool) -> Ended:
    code = None if timed_out else child.exit_code
    failure = child.failure
    if timed_out:
        failure = f"no answer in {round(time_limit, 1):g} s"
    elif code is not None and code < 0:
        failure = f"killed by signal {-code} ({_signal_name(-code)})"
    elif code:
        failure = f"exit code {code}"
    child.stdout.seek(0)
    child.stderr.seek(0)
    return Ended(child.position, code, failure, child.stdout, child.stderr, timed_out)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unnamed"


def _start(position: int, command: Command, time_limit: float, running: list[_Child]) -> None:
    """Start a command and note it in ``running``; a command that cannot be started ends at once, with the reason."""
    # Files, one per stream: the item lines are to be told from what stderr says.
    child = _Child(position, _temporary(), _temporary(), time.monotonic() + time_limit)
    running.append(child)
    with _interrupts_held() as mask:
        try:
            child.process = subprocess.Popen(
                command.argv,
                env=dict(command.env),
                cwd=command.cwd,
                stdin=subprocess.DEVNULL,
                stdout=child.stdout,
                stderr=child.stderr,
                start_new_session=True,
                preexec_fn=_before_exec(mask),  # noqa: PLW1509 - it makes system calls only, and takes no lock
            )
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            child.failure = f"cannot be started: {printable(_reason(error))}"


def _temporary() -> IO[bytes]:
    try:
        return tempfile.TemporaryFile()
    except OSError as error:
        reason = printable(str(error))
        raise SgpuError(f"no temporary file can be made: {reason}", "name a place with TMPDIR") from error


def _reason(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return "not found, or the interpreter in its first line is not (Windows line ends?)"
    return (error.strerror if isinstance(error, OSError) else "") or str(error)


@contextlib.contextmanager
def _interrupts_held() -> Iterator[set[int]]:
    """Hold back Ctrl-C between the fork and the note of it, so that no process is started and forgotten.

    Gives the signals that were blocked before.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM, signal.SIGHUP})
    try:
        yield {int(number) for number in before}
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _before_exec(mask: set[int]) -> Callable[[], None]:
    """Give what runs in the child before it becomes the command: it gets back the blocked signals ``mask``.

    The kernel kills it when the thread that forked it ends, so that is asked for in the main thread only.
    """
    dies_with = threading.current_thread() is threading.main_thread() and sys.platform == "linux"
    prctl = ctypes.CDLL(None).prctl if dies_with else None
    parent = os.getpid()

    def prepare() -> None:  # pragma: no cover - runs in the forked child
        if prctl is not None:
            prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != parent:
                os._exit(1)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    return prepare
