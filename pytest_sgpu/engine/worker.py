# Neither pathlib nor contextlib is worth its start-up time in here; a message may hold anything.
# ruff: noqa: PTH110, PTH112, PTH118, PTH123, PTH207, PTH208, SIM105, ANN401
"""Runs inside a gateway, on the machine of the device: one item at a time, and nothing of it stays.

Its source text is sent through the gateway and runs in the main thread there. It stands alone, and is
one long file for that reason: standard library only, Python 3.8 or newer, builtin types in its messages.

Messages in: ``("start", {env, cookie, guardian})`` once, then ``("run", {...})``,
``("kill", {id, reason, grace})``, ``("ping", n)``, ``("exit", {grace})``.
Messages out: ``("hello", {pid, python, host})``, ``("started", {id, pid})``, ``("finished", {...})``,
``("pong", n)``, and ``("broken", text)`` before it gives up on an error of its own.

Guarantees. An item has its own session, an empty standard input, and its log file as output, never a
descriptor of the gateway. When its first process ends, whatever it left is found (this process is the
subreaper of all that descends from it; a cookie in the environment shows the rest), killed and named.
A tidy item pays nothing for that. If the controller goes, the item is killed at once; if this process
goes, the kernel kills the item's first process and the guardian kills the rest. Only processes proven
to descend from here, or to carry the cookie, are ever touched. A bad order is a reason in its
``finished`` message, never the end of the worker. Times are seconds. (engine facts, part 3)
"""

from __future__ import annotations

import collections
import ctypes
import errno
import gc
import os
import select
import signal
import stat
import subprocess
import sys
import time
import warnings
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import NamedTuple

    channel: Any

    class Seen(NamedTuple):
        """One process as /proc shows it; number and start time together name it for ever."""

        parent: int
        state: bytes
        start: bytes
else:
    Seen = collections.namedtuple("Seen", "parent state start")  # noqa: PYI024 - typing costs 5 ms

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
PATIENCE = 0.05  # seconds in which leftovers may still end by themselves
STRIKE_PAUSE = 0.01  # seconds between two rounds of SIGKILL
CLEAN_LOOKS = 3  # looks in a row that must find nothing
SWEEP_LIMIT = 5.0  # seconds after which a process that SIGKILL does not end is given up
MAX_GUARDIANS = 10  # a guardian that always dies is not started for ever
GUARDIAN = "import os; exec(os.environ['SGPU_GUARDIAN'])"  # a source text as argument would fill every ``ps``
CHUNK = 1 << 20
BLANKS = 256  # bytes of white space allowed behind the line that proves a run


class NotStartedError(Exception):
    """The item's process could not be started: exit code as a shell gives it, and why."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


# ---------------------------------------------------------------- looking at processes


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def _text(data: bytes) -> str:
    """Give bytes as text that can always be sent."""
    return data.decode("utf-8", "backslashreplace")


def _look(pid: int) -> Seen | None:
    """Look at one process; None when it is gone."""
    data = _read(f"/proc/{pid}/stat")
    if not data:
        return None
    fields = data.rpartition(b")")[2].split()
    return Seen(int(fields[1]), fields[0], fields[19])


def _all_processes() -> dict[int, Seen]:
    found = ((int(name), _look(int(name))) for name in os.listdir("/proc") if name.isdigit())
    return {pid: seen for pid, seen in found if seen is not None}


def _children() -> list[int]:
    """Give the direct children, zombies too. Threads may end while this looks."""
    me = os.getpid()
    if not os.path.exists(f"/proc/self/task/{me}/children"):  # a kernel without CONFIG_PROC_CHILDREN
        return [pid for pid, seen in _all_processes().items() if seen.parent == me]
    lists = (_read(f"/proc/self/task/{task}/children") for task in os.listdir("/proc/self/task"))
    return [int(pid) for pids in lists for pid in pids.split()]


def _command_line(pid: int) -> str:
    words = _read(f"/proc/{pid}/cmdline").rstrip(b"\0").replace(b"\0", b" ")
    return _text((words or b"[" + _read(f"/proc/{pid}/comm").strip() + b"]")[:500])


def _carries(pid: int, cookie: bytes) -> bool:
    """Say whether a process was started with the cookie. Runs inside runs join theirs with a colon."""
    environ = _read(f"/proc/{pid}/environ")
    if cookie not in environ:
        return False
    marks = (entry[12:] for entry in environ.split(b"\0") if entry.startswith(b"SGPU_COOKIE="))
    return any(cookie in mark.split(b":") for mark in marks)


def _send_signal(pid: int, seen: Seen, number: int) -> None:
    """Signal exactly the process that was seen: a reused number is noticed, and left alone."""
    try:
        descriptor = os.pidfd_open(pid) if hasattr(os, "pidfd_open") else None
    except ProcessLookupError:
        return
    except OSError:  # a kernel or a container without it
        descriptor = None
    try:
        now = _look(pid)
        if now is None or now.start != seen.start:
            return
        if descriptor is None:
            os.kill(pid, number)
        else:
            signal.pidfd_send_signal(descriptor, number)
    except OSError:
        pass  # it ended by itself
    finally:
        if descriptor is not None:
            os.close(descriptor)


# ---------------------------------------------------------------- starting one


def _open_log(path: bytes) -> int:
    """Open a log for appending, and only a plain file: an item may have put a link or a pipe there."""
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags, 0o666)
    except OSError as error:
        raise NotStartedError(126, f"cannot write the log {_text(path)}: {error.strerror}") from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise NotStartedError(126, f"cannot write the log {_text(path)}: not a regular file")
    os.set_blocking(descriptor, True)
    return descriptor


def _find_script(name: bytes, cwd: bytes, env: dict[bytes, bytes]) -> bytes:
    """Find the file that the kernel could not run, where it looked for it."""
    if b"/" in name:
        return name
    folders = env.get(b"PATH", os.fsencode(os.defpath)).split(b":")
    paths = (os.path.join(folder, name) for folder in folders)
    return next((path for path in paths if os.access(os.path.join(cwd, path), os.X_OK)), name)


def _why(error: Exception, name: bytes, cwd: bytes) -> NotStartedError:
    """Turn what the kernel said into the exit code of a shell and a sentence."""
    if not isinstance(error, OSError):
        return NotStartedError(126, f"cannot run {_text(name)}: {error}")
    if not os.path.isdir(cwd):
        return NotStartedError(126, f"the working directory {_text(cwd)} is missing or no directory")
    if error.errno == errno.ENOENT and b"/" in name and os.path.exists(os.path.join(cwd, name)):
        return NotStartedError(127, f"cannot run {_text(name)}: the interpreter in its first line does not exist")
    missing = error.errno in (errno.ENOENT, errno.ENOTDIR)
    return NotStartedError(127 if missing else 126, f"cannot run {_text(name)}: {os.strerror(error.errno or 0)}")


# ---------------------------------------------------------------- looking at what it wrote


def _has_line(log: int, line: bytes, offset: int) -> bool:
    """Search a log, from where this item began, for a line that is exactly this one.

    Blanks and a carriage return behind it do not count. Reads 1 MiB at a time and stops at the first.
    """
    if not line:
        return False
    needle = b"\n" + line
    tail = b"\n"  # the item's output begins a line
    while True:
        chunk = os.pread(log, CHUNK, offset)
        offset += len(chunk)
        data = tail + chunk
        at = data.find(needle)
        while at >= 0:
            after = data[at + len(needle) : at + len(needle) + BLANKS]
            rest, newline, _ = after.partition(b"\n")
            if not rest.strip() and (newline or (not chunk and len(after) < BLANKS)):
                return True
            at = data.find(needle, at + 1)
        if not chunk:
            return False
        tail = data[-(len(needle) + BLANKS) :]  # a line may lie across two chunks


def _has_partial(pattern: bytes) -> bool:
    if not pattern:
        return False
    import glob

    return any(True for _ in glob.iglob(pattern))


# ---------------------------------------------------------------- the worker


class Worker:
    """The loop: sleep until a message, a signal or the end of a child; then act."""

    def __init__(self, lane: Any, setup: dict[str, Any]) -> None:
        self.channel = lane
        self.cookie: bytes = setup["cookie"]
        self.guardian_source: str = setup["guardian"]
        self.env = dict(entry.split(b"=", 1) for entry in setup["env"].split(b"\0") if entry)
        self.pid = os.getpid()
        self.inbox: collections.deque[tuple[Any, ...]] = collections.deque()
        self.waiting: collections.deque[dict[str, Any]] = collections.deque()
        self.leaving = False
        self.last_signal = 0
        self.item = 0  # process number, 0 for none
        self.item_id = ""
        self.status: int | None = None
        self.ended = 0.0
        self.killed = ""
        self.deadline = 0.0
        self.given_up: dict[int, bytes] = {}
        self.guardian = 0
        self.guardians = 0
        self.lifeline = -1
        self._prepare()

    def _prepare(self) -> None:
        """Take the role of a subreaper, and let every signal wake the main thread and nothing else."""
        self.prctl = ctypes.PyDLL(None).prctl
        self.prctl.argtypes = [ctypes.c_int] + [ctypes.c_ulong] * 4
        self.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self.null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        self.wake, self.waker = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self.poller = select.poll()
        self.poller.register(self.wake, select.POLLIN)
        signal.set_wakeup_fd(self.waker, warn_on_full_buffer=False)
        # Handlers, not SIG_IGN: an item starts with the default for each. SIGINT is the controller's business.
        for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGQUIT):
            signal.signal(number, lambda *_: None)
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda n, _: self.inbox.append(("signal", n)))
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        warnings.simplefilter("ignore")  # a fork beside threads: the child only calls prctl and exec
        gc.freeze()  # fewer pages to copy in each fork

    def serve(self) -> None:
        """Work until told to leave."""
        self.channel.setcallback(self._arrived, endmarker=("gone",))
        self.send("hello", {"pid": self.pid, "python": sys.version.split()[0], "host": os.uname().nodename})
        self._guard()
        while not self.leaving:
            if self.waiting:
                self._run(self.waiting.popleft())
            else:
                self._sleep(None)
            self._obey()
        self._dismiss_guardian()

    def send(self, kind: str, content: Any) -> None:
        """Send a message; when the controller is gone its endmarker says so, not this."""
        try:
            self.channel.send((kind, content))
        except OSError:
            pass

    def _arrived(self, message: tuple[Any, ...]) -> None:
        """Take a message; called in the gateway's receiver thread."""
        self.inbox.append(message)
        try:
            os.write(self.waker, b"\0")
        except BlockingIOError:
            pass  # it is awake already

    def _sleep(self, timeout: float | None) -> None:
        """Sleep until something happens, then reap what has ended."""
        self.poller.poll(None if timeout is None else max(0, int(timeout * 1000) + 1))
        try:
            os.read(self.wake, 65536)
        except BlockingIOError:
            pass
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            self.given_up.pop(pid, None)
            if pid == self.item:
                self.status, self.ended = status, time.monotonic()
            elif pid == self.guardian:
                self._guard()

    def _obey(self) -> None:
        while self.inbox:
            kind, *rest = self.inbox.popleft()
            if kind == "run":
                self.waiting.append(rest[0])
            elif kind == "kill":
                self._condemn(rest[0]["reason"], rest[0]["grace"], rest[0]["id"])
            elif kind == "ping":
                self.send("pong", rest[0])
            elif kind == "exit":
                self.leaving = True
                self._condemn("the run is over", rest[0]["grace"])
            elif kind == "gone":
                self.leaving = True
                self._condemn("the controller is gone", 0.0)
            else:
                self.leaving, self.last_signal = True, rest[0]
                self._condemn("the worker got " + signal.Signals(rest[0]).name, 0.0)

    # ------------------------------------------------------------ one item

    def _run(self, order: dict[str, Any]) -> None:
        """Run one item from its start to the last process of it, and report."""
        self.item_id, self.status, self.killed = order["id"], None, ""
        report = {"id": order["id"], "exit_code": None, "signal": None, "ran": False, "partial": False}
        began, log, reason = time.monotonic(), -1, ""
        left: list[tuple[int, str]] = []
        try:
            log = _open_log(order["log"])
            offset = os.fstat(log).st_size
            self.item = self._spawn(order, log)
            self._tell_guardian(self.item)
            self.send("started", {"id": order["id"], "pid": self.item})
            status, left = self._attend()
            report["signal"] = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
            report["exit_code"] = os.WEXITSTATUS(status) if os.WIFEXITED(status) else None
            report["ran"] = _has_line(log, order["ran_line"], offset)
            report["partial"] = _has_partial(order["partial"])
        except NotStartedError as error:
            report["exit_code"], reason, self.ended = error.code, error.reason, time.monotonic()
        finally:
            self.item = 0
            if log >= 0:
                os.close(log)
        self._tell_guardian(0)
        report.update(seconds=self.ended - began, late=time.monotonic() - self.ended)
        report.update(killed=self.killed, reason=reason, left=left)
        self.send("finished", report)

    def _spawn(self, order: dict[str, Any], log: int) -> int:
        argv, cwd = list(order["argv"]), order["cwd"]
        env = {**self.env, **order["env"]}
        for name in order["unset"]:
            env.pop(name, None)
        outer = env.get(b"SGPU_COOKIE")
        env[b"SGPU_COOKIE"] = outer + b":" + self.cookie if outer else self.cookie
        try:
            try:
                return self._popen(argv, cwd, env, log)
            except OSError as error:
                if error.errno != errno.ENOEXEC:
                    raise
                # A script without a first line for the kernel: a shell runs it itself.
                return self._popen([b"/bin/sh", _find_script(argv[0], cwd, env), *argv[1:]], cwd, env, log)
        except (OSError, ValueError, IndexError, subprocess.SubprocessError) as error:
            raise _why(error, argv[0] if argv else b"", cwd) from None

    def _popen(self, argv: list[bytes], cwd: bytes, env: dict[bytes, bytes], log: int) -> int:
        process = subprocess.Popen(
            argv,
            cwd=cwd,
            env=env,
            stdin=self.null,
            stdout=log,
            stderr=log,
            start_new_session=True,
            preexec_fn=self._in_child,  # noqa: PLW1509 - see the warning filter above
        )
        process.returncode = 0  # reaped in _sleep, not there
        return process.pid

    def _in_child(self) -> None:
        """Die with the worker. It may have died before this was asked for."""
        self.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != self.pid:
            os._exit(1)

    def _attend(self) -> tuple[int, list[tuple[int, str]]]:
        """Wait for the end of the item, then for the end of all that it started. Give its status and what it left."""
        while self.status is None or (self.killed and time.monotonic() < self.deadline and self._own_children()):
            pause = None
            if self.killed:
                pause = self.deadline - time.monotonic()
                if pause <= 0:
                    self._strike(signal.SIGKILL)
                    pause = STRIKE_PAUSE
            self._sleep(pause)
            self._obey()
        left = self._sweep(0.0 if self.killed else PATIENCE)
        return self.status, [] if self.killed else left

    def _condemn(self, reason: str, grace: float, item_id: str | None = None) -> None:
        """Ask the item's whole tree to end; what is there after the grace is killed by _attend."""
        if not self.item or item_id not in (None, self.item_id):
            return
        deadline = time.monotonic() + grace
        if self.killed:  # also when the item itself has ended: its children may still have their grace
            self.deadline = min(self.deadline, deadline)
            return
        if self.status is not None:
            return
        self.killed, self.deadline = reason or "killed", deadline
        if grace > 0:
            self._strike(signal.SIGTERM)

    # ------------------------------------------------------------ what it leaves

    def _own_children(self) -> list[int]:
        return [pid for pid in _children() if pid != self.guardian and pid not in self.given_up]

    def _ours(self) -> dict[int, Seen]:
        """Find all living processes that descend from here, and all that carry the cookie."""
        processes = _all_processes()
        below: dict[int, list[int]] = {}
        for pid, seen in processes.items():
            below.setdefault(seen.parent, []).append(pid)
        ours, open_ = set(), [self.pid]
        while open_:
            young = [pid for pid in below.get(open_.pop(), ()) if pid != self.guardian]
            ours.update(young)
            open_.extend(young)
        ours.update(pid for pid in processes if pid not in ours and _carries(pid, self.cookie))
        ours.discard(self.pid)
        return {
            pid: processes[pid]
            for pid in ours
            if processes[pid].state not in b"ZX" and self.given_up.get(pid) != processes[pid].start
        }

    def _strike(self, number: int) -> dict[int, Seen]:
        found = self._ours()
        for pid, seen in found.items():
            _send_signal(pid, seen, number)
            if seen.state == b"T" and number != signal.SIGKILL:
                _send_signal(pid, seen, signal.SIGCONT)  # a stopped process hears nothing else
        return found

    def _sweep(self, patience: float) -> list[tuple[int, str]]:
        """Kill what the ended item left, and say what that was.

        Everything that descends from an ended process is a direct child by now, so an empty list of
        children is proof enough that nothing descends from the item, and costs a few microseconds.
        """
        until = time.monotonic() + patience
        while self._own_children() and time.monotonic() < until:
            self._sleep(until - time.monotonic())
        if not self._own_children() and not self.killed:
            return []
        # A process in the middle of an exec shows no environment for a moment, so one clean look is not enough.
        looks = CLEAN_LOOKS
        named: dict[int, str] = {}
        until = time.monotonic() + SWEEP_LIMIT
        while True:
            found = self._ours()
            for pid, seen in found.items():
                named.setdefault(pid, _command_line(pid))
                _send_signal(pid, seen, signal.SIGKILL)
            looks = CLEAN_LOOKS if found or self._own_children() else looks - 1
            if not looks:
                return sorted(named.items())
            if time.monotonic() > until:
                self.given_up.update((pid, seen.start) for pid, seen in found.items())
                return sorted(named.items())
            self._sleep(STRIKE_PAUSE)

    # ------------------------------------------------------------ the guardian

    def _guard(self) -> None:
        """Start a guardian, the first one or the next after one that was killed."""
        if self.lifeline >= 0:
            os.close(self.lifeline)
            self.lifeline = -1
        self.guardian = 0
        if self.guardians >= MAX_GUARDIANS:
            return
        self.guardians += 1
        reading, self.lifeline = os.pipe2(os.O_CLOEXEC)
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", GUARDIAN, "sgpu-guardian", os.fsdecode(self.cookie)],
            env={**os.environ, "SGPU_GUARDIAN": self.guardian_source},
            stdin=reading,
            stdout=self.null,
            stderr=self.null,
            cwd="/",
            start_new_session=True,
        )
        process.returncode = 0  # reaped in _sleep, not there
        os.close(reading)
        self.guardian = process.pid
        if self.item:
            self._tell_guardian(self.item)

    def _tell_guardian(self, session: int) -> None:
        if self.lifeline >= 0:
            try:
                os.write(self.lifeline, b"%d\n" % session)
            except OSError:
                pass  # it is gone; _sleep notices

    def _dismiss_guardian(self) -> None:
        """End the guardian: nothing is left to guard. It is a child, so its number is still its own."""
        if self.guardian:
            os.kill(self.guardian, signal.SIGKILL)
            os.waitpid(self.guardian, 0)


def main(lane: Any) -> None:
    """Serve, and leave the process: the gateway's own end would wait for its threads."""
    try:
        _, setup = lane.receive()
    except EOFError:
        os._exit(0)
    worker = Worker(lane, setup)
    try:
        worker.serve()
    except BaseException:
        import traceback

        worker.send("broken", traceback.format_exc())
        worker._strike(signal.SIGKILL)  # noqa: SLF001
        os._exit(70)
    if worker.last_signal:
        signal.signal(worker.last_signal, signal.SIG_DFL)
        os.kill(worker.pid, worker.last_signal)
    os._exit(0)


if __name__ == "__channelexec__":
    main(channel)  # noqa: F821 - the gateway puts it there
