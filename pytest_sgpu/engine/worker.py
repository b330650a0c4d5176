# Neither pathlib nor contextlib is worth its start-up time in here; a message may hold anything.
# ruff: noqa: PTH110, PTH112, PTH118, PTH123, PTH207, PTH208, SIM105, ANN401
"""Runs inside a gateway, on the machine of the device: one item at a time, and nothing of it stays.

Its source text is sent through the gateway and runs in the main thread there. It stands alone, and is
one long file for that reason: standard library only, Python 3.8 or newer, builtin types in its messages.

Messages in: ``("start", {env, cookie, guardian, controller, deadman})`` once, then ``("run", {...})``,
``("kill", {id, reason, grace})``, ``("pause", None)``, ``("resume", None)``, ``("ping", n)``,
``("exit", {grace})``.
Messages out: ``("hello", {pid, python, host})``, ``("started", {id, pid})``, ``("slow", {...})``,
``("finished", {...})``, ``("paused", None)``, ``("pong", n)``, ``("leaving", why)`` before it leaves
unasked, and ``("broken", text)`` before it gives up on an error of its own.

Guarantees. An item has its own session, an empty standard input, and its log file as output, never a
descriptor of the gateway. When its first process ends, whatever it left is found (this process is the
subreaper of all that descends from it; a cookie in the environment shows the rest), killed and named,
after half a second to end by itself. A tidy item pays nothing for that. An item that takes longer than
its ``timeout``, or is without output for longer than its ``stall``, is ended as a kill would end it.
While paused, nothing of the item runs and its clock stands still. If the controller goes, the item is
killed at once; if it is silent for ``deadman`` seconds, too; if this process goes, the kernel kills the
item's first process and the guardian kills the rest. Only processes proven to descend from here, or to
carry the cookie, are ever touched. A ping is answered whatever else is being done. A bad order is a
reason in its ``finished`` message, never the end of the worker. Times are seconds. (engine facts, part 3)
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
    from collections.abc import Callable

    channel: Any

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
PF_EXITING = 4
PATIENCE = 0.5  # seconds in which leftovers may still end by themselves
SLICE = 0.1  # seconds that one wait may take of them: when all stood still, that was no time to end
STRIKE_PAUSE = 0.01  # seconds between the first two rounds of SIGKILL; later ones come less often
LONG_PAUSE = 0.2
CLEAN_LOOKS = 3  # looks in a row that must find nothing
SWEEP_LIMIT = 5.0  # seconds after which a process that SIGKILL does not end is given up
HALT_PAUSE = 0.005  # seconds between two rounds of SIGSTOP
HALT_LOOKS = 2  # looks in a row that must find nothing running
HALT_LIMIT = 0.8  # seconds after which a pause is called one whatever still runs
LOOK = 1.0  # seconds between two looks at the log for output, at most
GAP = 2.0  # seconds by which a sleep that is late shows that this process itself stood still
TAIL = 4096  # bytes at the end of a log that are searched for its last line
NEVER = (float("inf"), "")
LINE = 200  # characters of that line that are told
MAX_GUARDIANS = 10  # a guardian that always dies is not started for ever
GUARDIAN = "import os; exec(os.environ['SGPU_GUARDIAN'])"  # a source text as argument would fill every ``ps``
CHUNK = 1 << 20
BLANKS = 256  # bytes of white space allowed behind the line that proves a run


class Seen:
    """One process as /proc shows it; number and start time together name it for ever.

    ``over``: it is a zombie. ``ending``: that, or on its way there, and needs nobody to end it.
    """

    __slots__ = ("ending", "over", "parent", "start", "state")

    def __init__(self, parent: int, state: bytes, start: bytes, *, over: bool, ending: bool) -> None:
        self.parent, self.state, self.start, self.over, self.ending = parent, state, start, over, ending


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
    alone, ending = int(fields[17]) <= 1, _ends(fields)
    if ending and not alone:  # a process whose first thread has ended looks like a zombie, and may be none
        tasks = (_read(f"/proc/{pid}/task/{task}/stat") for task in _names(f"/proc/{pid}/task"))
        ending = all(_ends(task.rpartition(b")")[2].split()) for task in tasks if task)
    return Seen(int(fields[1]), fields[0], fields[19], over=alone and fields[0] in b"ZX", ending=ending)


def _ends(fields: list[bytes]) -> bool:
    return fields[0] in b"ZX" or bool(int(fields[6]) & PF_EXITING)


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _is(process: str) -> bool:
    """Say whether a process, given as number and start, is one that can be seen from here."""
    pid, _, start = process.partition(":")
    seen = _look(int(pid))
    return seen is not None and seen.start == start.encode()


def _all_processes() -> dict[int, Seen]:
    found = ((int(name), _look(int(name))) for name in os.listdir("/proc") if name.isdigit())
    return {pid: seen for pid, seen in found if seen is not None}


def _children() -> list[int]:
    """Give the direct children, zombies too. Threads may end while this looks."""
    me = os.getpid()
    if not os.path.exists(f"/proc/self/task/{me}/children"):  # a kernel without CONFIG_PROC_CHILDREN
        return [pid for pid, seen in _all_processes().items() if seen.parent == me]
    lists = (_read(f"/proc/self/task/{task}/children") for task in _names("/proc/self/task"))
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


def _open_log(path: bytes, root: bytes) -> int:
    """Open a log for appending, and only a plain file: an item may have put a link or a pipe there.

    Below ``root`` (unless that is empty) no link is followed in place of a folder either.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    folder = None
    try:
        name = path
        if root:
            folder, name = _open_folder(path, root)
        descriptor = os.open(name, flags, 0o666, dir_fd=folder)
    except OSError as error:
        raise NotStartedError(126, f"cannot write the log {_text(path)}: {error.strerror}") from None
    finally:
        if folder is not None:
            os.close(folder)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise NotStartedError(126, f"cannot write the log {_text(path)}: not a regular file")
    os.set_blocking(descriptor, True)
    return descriptor


def _open_folder(path: bytes, root: bytes) -> tuple[int, bytes]:
    """Open the folder of a file below a root, step by step; give it and the name of the file in it."""
    root = root.rstrip(b"/") + b"/"
    *folders, name = path[len(root) :].split(b"/")
    if not path.startswith(root) or not name or b".." in (*folders, name):
        raise NotStartedError(126, f"cannot write the log {_text(path)}: it is not below {_text(root)}")
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    folder = os.open(root, flags)
    for step in folders:
        above = folder
        try:
            folder = os.open(step or b".", flags | os.O_NOFOLLOW, dir_fd=above)
        except OSError as error:
            where, why = _text(step), error.strerror
            if error.errno in (errno.ELOOP, errno.ENOTDIR):
                why = "something else was put in the place of this folder"
            raise NotStartedError(126, f"cannot write the log {_text(path)}: {where}: {why}") from None
        finally:
            os.close(above)
    return folder, name


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


def _has_line(log: int, line: bytes, offset: int, go_on: Callable[[], bool]) -> bool:
    """Search a log, from where this item began, for a line that is exactly this one.

    Blanks and a carriage return behind it do not count. Reads 1 MiB at a time, stops at the first, at the
    end that the log has now, and when ``go_on`` says no.
    """
    if not line:
        return False
    needle = b"\n" + line
    tail = b"\n"  # the item's output begins a line
    end = os.fstat(log).st_size
    while go_on():
        chunk = os.pread(log, min(CHUNK, max(0, end - offset)), offset)
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
    return False


def _last_line(log: int, offset: int) -> str:
    """Give the last line with something in it that was written behind an offset; it need not have an end."""
    size = os.fstat(log).st_size
    start = max(offset if offset <= size else 0, size - TAIL)
    lines = os.pread(log, TAIL, start).replace(b"\r", b"\n").split(b"\n")
    last = next((line for line in reversed(lines) if line.strip()), b"")
    text = "".join(c for c in _text(last) if c.isprintable()).strip()
    more = len(text) - LINE  # the note is that of the controller, which hides a secret that is cut there
    return text if more <= 0 else f"{text[:LINE]} ... [{more} characters cut]"


def _has_partial(pattern: bytes) -> bool:
    if not pattern:
        return False
    import glob

    return any(True for _ in glob.iglob(pattern))


# ---------------------------------------------------------------- the limits of an item


class Watch:
    """The clock of one item: how long it runs, and since when it is without output. It can be moved on."""

    def __init__(self, order: dict[str, Any], log: int, offset: int) -> None:
        self.timeout: float = order["timeout"]
        self.stall: float = order["stall"]
        self.grace: float = order["grace"]
        self.log, self.offset = log, offset
        self.began = self.output_at = self.looked_at = time.monotonic()
        self.mark = self._mark()
        self.slow_at = self.timeout / 2  # 0: it was told, or there is nothing to tell
        self.step = min(LOOK, max(0.02, self.stall / 10)) if self.stall else LOOK

    def _mark(self) -> tuple[int, int]:
        seen = os.fstat(self.log)
        return seen.st_size, seen.st_mtime_ns

    def move(self, seconds: float) -> None:
        """Take out a time in which the item stood still."""
        self.began += seconds
        self.output_at += seconds
        self.looked_at += seconds

    def look(self, now: float) -> tuple[str, float | None]:
        """Say why the item is to be ended now, "" for not, and after how many seconds to look again."""
        if not self.timeout and not self.stall:
            return "", None
        mark = self._mark()
        if mark != self.mark:
            # When exactly says the file's own clock, which is believed as far as it is between the two looks.
            age = min(max(0.0, time.time() - mark[1] / 1e9), now - self.looked_at)
            self.mark, self.output_at = mark, now - age
        self.looked_at = now
        runs, quiet = now - self.began, now - self.output_at
        if self.timeout and runs >= self.timeout:
            said = self._quoted(f"last output {round(quiet, 1):g} s ago")
            return f"deadline: {self.timeout:g} s passed; {said}", 0.0
        if self.stall and quiet >= self.stall:
            return f"stall: no output for {self.stall:g} s; {self._quoted('last line')}", 0.0
        waits = [self.step]
        if self.timeout:
            waits.append(self.timeout - runs)
        if self.slow_at:
            waits.append(max(0.0, self.slow_at - runs))
        return "", min(waits)

    def _quoted(self, what: str) -> str:
        line = _last_line(self.log, self.offset)
        return f'{what}: "{line}"' if line else "it wrote nothing"

    def slow(self, now: float) -> dict[str, Any] | None:
        """Give what is to be told at half of the timeout, once."""
        runs = now - self.began
        if not self.slow_at or runs < self.slow_at:
            return None
        self.slow_at = 0.0
        line = _last_line(self.log, self.offset)
        return {"seconds": runs, "limit": self.timeout, "quiet": now - self.output_at, "line": line}


# ---------------------------------------------------------------- the worker


class Worker:
    """The loop: sleep until a message, a signal or the end of a child; then act."""

    def __init__(self, lane: Any, setup: dict[str, Any]) -> None:
        self.channel = lane
        self.cookie: bytes = setup["cookie"]
        self.guardian_source: str = setup["guardian"]
        self.controller: str = setup["controller"] if _is(setup["controller"]) else ""
        self.deadman: float = setup["deadman"]
        self.env = dict(entry.split(b"=", 1) for entry in setup["env"].split(b"\0") if entry)
        self.pid = os.getpid()
        self.inbox: collections.deque[tuple[Any, ...]] = collections.deque()
        self.waiting: collections.deque[dict[str, Any]] = collections.deque()
        self.heard = time.monotonic()
        self.leaving = False
        self.last_signal = 0
        self.deserted = False  # it left on its own account, with an item
        self.item, self.item_id = 0, ""  # process number, 0 for none
        self.status: int | None = None
        self.killed, self.timed_out = "", False
        self.ended = self.deadline = 0.0
        self.cut = NEVER
        self.watch: Watch | None = None
        self.paused = False
        self.paused_at = 0.0  # 0: the item's clock goes
        self.halted: dict[int, Seen] = {}
        self.given_up: dict[int, bytes] = {}
        self.guardian, self.guardians, self.lifeline = 0, 0, -1
        self._prepare()

    def _prepare(self) -> None:
        """Take the role of a subreaper, and let every signal wake the main thread and nothing else."""
        with open("/proc/self/comm", "wb") as name:  # who kills every ``python`` in sight does not mean this one
            name.write(b"sgpu-worker")
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
            if self.waiting and not self.paused:
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
        """Take a message; called in the gateway's receiver thread, which also answers to a ping."""
        self.heard = time.monotonic()
        if message[0] == "ping":
            self.send("pong", message[1])
            return
        self.inbox.append(message)
        try:
            os.write(self.waker, b"\0")
        except BlockingIOError:
            pass  # it is awake already

    def _sleep(self, timeout: float | None) -> None:
        """Sleep until something happens, then reap what has ended."""
        began, wait = time.monotonic(), timeout
        if self.deadman and not self.paused and not self.leaving:
            rest = self.heard + self.deadman - began
            wait = rest if timeout is None else min(timeout, rest)
        self.poller.poll(None if wait is None else max(0, int(wait * 1000) + 1))
        try:
            os.read(self.wake, 65536)
        except BlockingIOError:
            pass
        self._reap()
        if not self.deadman or self.paused or self.leaving:
            return
        now = time.monotonic()
        if wait is not None and now - began > max(0.0, wait) + GAP:
            self.heard = max(self.heard, now - self.deadman + GAP)  # what was said meanwhile is not read yet
        elif now >= self.heard + self.deadman:
            self.inbox.append(("silent",))

    def _reap(self) -> None:
        """Collect every child that has ended: all that descends from here and lost its parent is one."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            self.given_up.pop(pid, None)
            if pid == self.item and self.status is None:
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
            elif kind == "pause":
                self._pause()
            elif kind == "resume":
                self._resume()
            elif kind == "exit":
                self.leaving = True
                self._condemn("the run is over", rest[0]["grace"])
            elif kind == "gone":
                self.leaving = True
                self._condemn("the controller is gone", 0.0)
            elif kind == "silent":
                self.leaving = True
                why = f"it heard nothing from the controller for {self.deadman:g} s"
                self.send("leaving", why)
                self._desert(why)
            else:
                self.leaving, self.last_signal = True, rest[0]
                self._desert("the worker got " + signal.Signals(rest[0]).name)

    def _desert(self, why: str) -> None:
        """Leave without an order. An item that this cuts off is lost with the worker: it gets no report."""
        self.deserted = bool(self.item) and self.status is None and not self.killed
        self._condemn(why, 0.0)

    # ------------------------------------------------------------ one item

    def _run(self, order: dict[str, Any]) -> None:
        """Run one item from its start to the last process of it, and report."""
        self.item_id, self.status, self.killed = order["id"], None, ""
        self.timed_out, self.cut = False, NEVER
        report = {"id": order["id"], "exit_code": None, "signal": None, "ran": False, "partial": False}
        began, log, reason = time.monotonic(), -1, ""
        left: list[tuple[int, str]] = []
        left_late = 0.0
        try:
            log = _open_log(order["log"], order["log_root"])
            offset = os.fstat(log).st_size
            self.watch = Watch(order, log, offset)
            self.item = self._spawn(order, log)
            self._tell_guardian(self.item)
            self.send("started", {"id": order["id"], "pid": self.item})
            status = self._attend(self.watch)
            self._move_clock(self.ended)
            began = self.watch.began
            left, left_late = self._sweep(0.0 if self.killed else PATIENCE)
            report["signal"] = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
            report["exit_code"] = os.WEXITSTATUS(status) if os.WIFEXITED(status) else None
            report["ran"] = not self.killed and _has_line(log, order["ran_line"], offset, self._goes_on)
            report["partial"] = _has_partial(order["partial"])
        except NotStartedError as error:
            report["exit_code"], reason, self.ended = error.code, error.reason, time.monotonic()
        finally:
            self.item, self.watch = 0, None
            if log >= 0:
                os.close(log)
        self._tell_guardian(0)
        report.update(seconds=self.ended - began, late=time.monotonic() - self.ended, reason=reason)
        report.update(killed=self.killed, timed_out=self.timed_out, left=left, left_late=left_late)
        if not self.deserted:
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
        process.returncode = 0  # reaped in _reap, not there
        return process.pid

    def _in_child(self) -> None:
        """Die with the worker. It may have died before this was asked for."""
        self.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != self.pid:
            os._exit(1)

    def _attend(self, watch: Watch) -> int:
        """Wait for the end of the item, and of its whole tree if it was killed. Gives its status."""
        strike_pause = STRIKE_PAUSE
        while self.status is None or (self.killed and time.monotonic() < self.deadline and self._own_children()):
            pause, now = None, time.monotonic()
            if self.killed:
                pause = self.deadline - now
                if pause <= 0:
                    self._strike(signal.SIGKILL)
                    pause = strike_pause = min(LONG_PAUSE, strike_pause * 1.2)
                    if now > self.deadline + SWEEP_LIMIT:
                        self._abandon()
                        break
            elif not self.paused:
                reason, pause = watch.look(now)
                if reason:
                    self._condemn(reason, watch.grace)
                    self.timed_out = True
                    continue
                slow = watch.slow(now)
                if slow:
                    self.send("slow", {"id": self.item_id, **slow})
            self._sleep(pause)
            self._obey()
        return self.status or 0

    def _condemn(self, reason: str, grace: float, item_id: str | None = None) -> None:
        """Ask the item's whole tree to end; what is there after the grace is killed by _attend."""
        if not self.item or item_id not in (None, self.item_id):
            return
        deadline = time.monotonic() + grace
        if self.killed:  # also when the item itself has ended: its children may still have their grace
            self.deadline = min(self.deadline, deadline)
            return
        if self.status is not None:  # it ended by itself, and that is kept if the rest is known in time
            self.cut = min(self.cut, (deadline, reason))
            return
        self.killed, self.deadline = reason or "killed", deadline
        self._move_clock(time.monotonic())
        self.halted.clear()
        if grace > 0:
            self._strike(signal.SIGTERM)

    def _goes_on(self) -> bool:
        """Say whether there is time to find out more of the ended item; a kill ends that after its grace."""
        self._obey()
        deadline, reason = self.cut
        if time.monotonic() >= deadline:
            self.killed = reason or "killed"
        return not self.killed

    def _abandon(self) -> None:
        """Take for ended an item that SIGKILL does not end."""
        self._let_go([self.item])
        self.status, self.ended = int(signal.SIGKILL), time.monotonic()
        self.killed += f"; process {self.item} did not end, not even by SIGKILL"

    # ------------------------------------------------------------ standing still

    def _pause(self) -> None:
        """Stop the item's whole tree and its clock; a kill still works. Says when nothing runs any more."""
        if not self.paused:
            self.paused = True
            if self.item and self.status is None and not self.killed:
                self.paused_at = time.monotonic()
                self._halt()
        self.send("paused", None)

    def _halt(self) -> None:
        """Stop in rounds: who was not stopped yet may have started another one meanwhile."""
        until, quiet = time.monotonic() + HALT_LIMIT, 0
        while quiet < HALT_LOOKS and time.monotonic() < until:
            running = {pid: seen for pid, seen in self._ours().items() if not self._stands(pid, seen)}
            for pid, seen in running.items():
                _send_signal(pid, seen, signal.SIGSTOP)
            self.halted.update(running)
            quiet = 0 if running else quiet + 1
            if running:
                self._sleep(HALT_PAUSE)

    def _stands(self, pid: int, seen: Seen) -> bool:
        """Say whether a process runs no more code: it is stopped, or will be before it leaves the kernel.

        That one is a parent in vfork(2), say: it sleeps there until its child, stopped too, calls exec.
        """
        sent = self.halted.get(pid)
        return seen.state in b"Tt" or (seen.state == b"D" and sent is not None and sent.start == seen.start)

    def _resume(self) -> None:
        """Let go on what was stopped here, and only that."""
        self._move_clock(time.monotonic())
        self.paused, self.heard = False, time.monotonic()
        for pid, seen in self.halted.items():
            _send_signal(pid, seen, signal.SIGCONT)
        self.halted.clear()

    def _move_clock(self, until: float) -> None:
        """Take the time of a pause out of the item's clock."""
        if self.paused_at and self.watch:
            self.watch.move(max(0.0, until - self.paused_at))
        self.paused_at = 0.0

    # ------------------------------------------------------------ what it leaves

    def _own_children(self) -> list[int]:
        """Give the children that are no zombies; a zombie that somebody traces cannot even be reaped."""
        pids = [pid for pid in _children() if pid != self.guardian and pid not in self.given_up]
        return [pid for pid in pids if (seen := _look(pid)) is not None and not seen.over]

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
            if not processes[pid].ending and self.given_up.get(pid) != processes[pid].start
        }

    def _let_go(self, pids: list[int]) -> None:
        """Forget about what SIGKILL does not end, as in a broken driver: the run must not wait for it."""
        looks = ((pid, _look(pid)) for pid in pids)
        self.given_up.update((pid, seen.start) for pid, seen in looks if seen is not None)

    def _strike(self, number: int) -> None:
        for pid, seen in self._ours().items():
            _send_signal(pid, seen, number)
            if seen.state == b"T" and number != signal.SIGKILL:
                _send_signal(pid, seen, signal.SIGCONT)  # a stopped process hears nothing else

    def _sweep(self, patience: float) -> tuple[list[tuple[int, str]], float]:
        """Kill what the ended item left. Say what that was, and how long after the item's end it was still there.

        Everything that descends from an ended process is a direct child by now, so an empty list of
        children is proof enough that nothing descends from the item, and costs a few microseconds.
        What was there only because the item was killed is not called left.
        """
        while patience > 0 and self._own_children():
            began = time.monotonic()
            self._sleep(min(SLICE, patience))
            patience -= min(SLICE, time.monotonic() - began)
        late = time.monotonic() - self.ended
        if not self._own_children() and not self.killed:
            return [], 0.0
        # A process in the middle of an exec shows no environment for a moment, so one clean look is not enough.
        looks, pause = CLEAN_LOOKS, STRIKE_PAUSE
        named: dict[int, str] = {}
        until = time.monotonic() + SWEEP_LIMIT
        while looks:
            found = self._ours()
            for pid, seen in found.items():
                if pid not in named:
                    named[pid] = _command_line(pid)
                _send_signal(pid, seen, signal.SIGKILL)
            children = self._own_children()
            looks = CLEAN_LOOKS if found or children else looks - 1
            if looks and time.monotonic() > until:
                self._let_go([*found, *children])
                break
            if looks:
                self._sleep(pause)
                pause = min(LONG_PAUSE, pause * 1.2)
        return ([], 0.0) if self.killed or not named else (sorted(named.items()), late)

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
        os.set_blocking(self.lifeline, False)
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", GUARDIAN, "sgpu-guardian", os.fsdecode(self.cookie), self.controller],
            env={**os.environ, "SGPU_GUARDIAN": self.guardian_source},
            stdin=reading,
            stdout=self.null,
            stderr=self.null,
            cwd="/",
            start_new_session=True,
        )
        process.returncode = 0  # reaped in _reap, not there
        os.close(reading)
        self.guardian = process.pid
        if self.item:
            self._tell_guardian(self.item)

    def _tell_guardian(self, session: int) -> None:
        if self.lifeline >= 0:
            try:
                os.write(self.lifeline, b"%d\n" % session)
            except BlockingIOError:
                os.kill(self.guardian, signal.SIGKILL)  # it has not read for thousands of items: the next one will
            except OSError:
                pass  # it is gone; _reap notices

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
