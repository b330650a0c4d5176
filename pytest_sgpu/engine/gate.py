"""One incarnation of a worker: its gateway's process and channel, from start to burial.

The only module, with ``gateways``, that knows execnet. It starts the gateway through execnet's own parts
instead of ``makegateway``, for three reasons: a session of its own (a ^C on the terminal does not reach
it), standard error kept in memory and quoted when it dies, and a start that cannot hang.
"""

from __future__ import annotations

import contextlib
import os
import pkgutil
import select
import signal
import subprocess
import sys
import threading
import time
import types
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import execnet
from execnet.gateway_base import ThreadExecModel
from execnet.gateway_bootstrap import bootstrap
from execnet.gateway_io import create_io
from execnet.xspec import XSpec

from pytest_sgpu.engine import messages
from pytest_sgpu.engine.events import Event, ItemStarted, WorkerGone, WorkerReady
from pytest_sgpu.errors import WorkerError
from pytest_sgpu.model import Worker

_END = ("end",)
_EXIT_WAIT = 2.0  # seconds from the end of a channel to the end of its process, then it is killed
_FAIL_WAIT = 0.3  # the same when it never came up
_CLEAN_WAIT = 7.0  # seconds that the cleaning behind a dead worker may take; the guardian takes five
_SEND_WAIT = 0.5  # seconds that a full pipe to a worker is waited for
_KILL_WAIT = 2.0  # seconds from SIGKILL to the end of the process, then it is left alone: its driver holds it
_QUOTE = 2000  # bytes of a dead gateway's standard error that are read for its last line


def source(name: str) -> str:
    """Give the text of a module of this package, as it is sent to where it runs."""
    data = pkgutil.get_data(__package__, name)
    assert data is not None
    return data.decode()


class _Model(ThreadExecModel):
    """execnet's way to start things, changed: processes in sessions of their own, threads that can be seen."""

    def __init__(self, stderr: int) -> None:
        self._popen = partial(subprocess.Popen, stderr=stderr, start_new_session=True)

    @property
    def subprocess(self) -> types.SimpleNamespace:
        return types.SimpleNamespace(PIPE=subprocess.PIPE, Popen=self._popen)

    def start(self, func: Callable[..., object], args: tuple[object, ...] = ()) -> None:
        threading.Thread(target=func, args=args, name="sgpu-gateway", daemon=True).start()


class Gate:
    """One incarnation of a worker: the process, the channel, and what is known of its end.

    ``open`` runs in a thread of its own, ``_hear`` in execnet's receiver thread, ``ask`` and ``silent`` in
    the heart's, the rest in the controller's. Whoever sets ``gone`` first reports the end.
    """

    def __init__(
        self, worker: Worker, setup: Mapping[str, Any], put: Callable[[Event], None], clock: Callable[[], float]
    ) -> None:
        self.worker = worker
        self._setup = setup
        self.running = ""
        self.failure = ""  # how it ended
        self.up = threading.Event()  # it answered, or never will
        self.halted = threading.Event()  # it says that its item stands still, or it is gone
        self.asked_at: float | None = None
        self._put = put
        self._clock = clock
        self._lock = threading.Lock()
        self._pipe = threading.Lock()  # whoever sends
        self._paused = False
        self._killed_at: float | None = None  # for its silence
        self._quiet = False
        self._was_up = False
        self._gone = False
        self._why = ""
        self._stderr = os.memfd_create("sgpu-worker-stderr")
        self._process: subprocess.Popen[bytes] | None = None
        self._gateway: execnet.Gateway | None = None
        self._channel: Any = None

    def open(self, python: str, timeout: float) -> None:
        """Start the gateway and wait for its greeting. Every failure ends as a ``WorkerGone``."""
        # Signals are for the main thread, which this wakes from its queue; the worker unblocks them for itself.
        signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
        alarm = threading.Timer(timeout, self._give_up, (f"it did not answer within {timeout:g} s",))
        alarm.daemon = True
        alarm.start()
        try:
            self._connect(python)
            self.up.wait()
        except Exception as error:  # noqa: BLE001 - execnet raises many kinds here, AssertionError among them
            self._bury(f"{type(error).__name__}: {error}", _FAIL_WAIT)
        finally:
            alarm.cancel()
            alarm.join(_KILL_WAIT)  # so that whoever joins this thread leaves none behind

    def _connect(self, python: str) -> None:
        spec = XSpec(f"popen//id={self.worker.id}-{self.worker.generation}//execmodel=thread")
        spec.python = python
        with self._lock:
            if self._quiet:
                raise WorkerError("the run is over")
            io = create_io(spec, execmodel=_Model(self._stderr))
            self._process = io.popen
        self._gateway = bootstrap(io, spec)
        self._channel = self._gateway.remote_exec(source("worker.py"))
        self._channel.setcallback(self._hear, endmarker=_END)
        self._channel.send(("start", self._setup))

    @property
    def alive(self) -> bool:
        """Whether it has answered, and has neither ended nor been told to."""
        return self._was_up and not self._gone and not self._quiet

    def send(self, kind: str, content: object) -> None:
        """Send an order. When the worker is gone, its event is on the way already."""
        if self._channel is not None:
            with contextlib.suppress(OSError), self._pipe:
                self._channel.send((kind, content))

    def try_send(self, kind: str, content: object, wait: float = _SEND_WAIT) -> None:
        """Send something short, unless the worker has read nothing for a while: then it would hear nothing either."""
        if not self._pipe.acquire(timeout=wait):
            return
        try:
            if self._channel is not None and self._writable(wait):
                self._channel.send((kind, content))
        except (OSError, ValueError):
            pass
        finally:
            self._pipe.release()

    def _writable(self, wait: float) -> bool:
        """Say whether the pipe takes a page at once."""
        if self._process is None or self._process.stdin is None:
            return False
        poller = select.poll()
        poller.register(self._process.stdin, select.POLLOUT)
        return bool(poller.poll(wait * 1000))

    def ask(self, now: float) -> None:
        """Ask for a sign of life; whatever it says next is one."""
        if self.alive:
            if self.asked_at is None:
                self.asked_at = now
            self.try_send("ping", 0, wait=0.0)

    def silent(self, limit: float, now: float) -> None:
        """Kill it for its silence; let go of it if even that does not end it."""
        if self._killed_at is None:
            self._killed_at = now
            self.kill(f"it was silent for {limit:g} s")
        elif now >= self._killed_at + _KILL_WAIT and not self._gone:
            self._bury("")

    def pause(self) -> None:
        """Have the item stand still; ``halted`` says when it does."""
        self._paused = True
        self.halted.clear()
        if self.alive:
            self.try_send("pause", None)
        else:
            self.halted.set()

    def resume(self) -> None:
        """Let the item go on."""
        self._paused = False
        if self.alive:
            self.send("resume", None)

    def leave(self, grace: float) -> None:
        """Tell the worker to end, its item first. No ``WorkerGone`` comes for it."""
        with self._lock:
            self._quiet = True
        if self.up.is_set():
            self.try_send("exit", {"grace": grace})
        else:
            self.kill("it was told to leave before it was up")

    def kill(self, why: str) -> None:
        """Kill the gateway's process. The guardian of the worker does the rest."""
        self._why = self._why or why
        if self._process is not None:
            with contextlib.suppress(OSError):
                self._process.kill()

    def wait(self, timeout: float) -> bool:
        """Wait for the end of the process and of the threads around it. Say whether all is over."""
        until = time.monotonic() + timeout
        if self._process is not None:
            try:
                self._process.wait(max(0.0, timeout))
            except subprocess.TimeoutExpired:
                return False
        if self._gateway is not None:
            self._gateway.join(max(0.1, until - time.monotonic()))
        return True

    def _hear(self, message: tuple[Any, ...]) -> None:
        kind, *rest = message
        self.asked_at = None
        if kind == "hello":
            self._was_up = True
            if self._paused:
                self.try_send("pause", None)
            self._put(WorkerReady(self.worker, rest[0]["pid"], self._clock()))
            self.up.set()
        elif kind == "started":
            self._put(ItemStarted(self.worker, rest[0]["id"], rest[0]["pid"], self._clock()))
        elif kind == "slow":
            self._put(messages.slow(self.worker, rest[0], self._clock()))
        elif kind == "finished":
            self._put(messages.ended(self.worker, rest[0], self._clock()))
        elif kind == "paused":
            self.halted.set()
        elif kind == "leaving":
            self._why = self._why or rest[0]
        elif kind == "broken":
            self._why = "an error of its own: " + rest[0].strip().splitlines()[-1]
        elif kind == "end":
            self._bury("")

    def _give_up(self, why: str) -> None:
        """Kill a gateway that is not up in time; something else may keep its pipe open, so wait for nothing."""
        self.kill(why)
        self._bury("")

    def _bury(self, error: str, patience: float = _EXIT_WAIT) -> None:
        """Learn how the process ended, let go of it, and say so once."""
        status = self._last_status(patience)
        with self._lock:
            if self._gone:
                return
            self._gone = True
            quiet = self._quiet
        reason = self._why or self._complaint(status) or ("" if status is not None and status >= 0 else error)
        os.close(self._stderr)
        if status != 0 and self._was_up:
            self._clean_up()
        how = _how(status) if status is not None else "could not be " + ("killed" if self._process else "started")
        self.failure = f"worker {self.worker.id} {how}" + (f": {reason}" if reason else "")
        if not quiet:
            self._put(WorkerGone(self.worker, self.failure, self._clock()))
        self.up.set()
        self.halted.set()
        if self._process is not None and self._gateway is None:  # else execnet closes them
            for file in (self._process.stdin, self._process.stdout):
                with contextlib.suppress(OSError):
                    assert file is not None
                    file.close()

    def _clean_up(self) -> None:
        """Kill what a dead worker's item left, as its guardian does at the same time unless that was killed too.

        When this is over the device is free, so that ``WorkerGone`` may lead to the next item there.
        """
        words = [sys.executable, "-I", "-S", "-c", self._setup["guardian"], "sgpu-guardian", self._setup["cookie"], ""]
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            null = subprocess.DEVNULL
            subprocess.run(
                words,
                stdin=null,
                stdout=null,
                stderr=null,
                cwd="/",
                timeout=_CLEAN_WAIT,
                start_new_session=True,
                check=False,
            )

    def _last_status(self, patience: float) -> int | None:
        """Give the exit status of the process, None when there was none or it does not end."""
        if self._process is None:
            return None
        try:
            return self._process.wait(patience)
        except subprocess.TimeoutExpired:
            self._process.kill()
        try:
            return self._process.wait(_KILL_WAIT)
        except subprocess.TimeoutExpired:
            return None  # not even that ends it

    def _complaint(self, status: int | None) -> str:
        """Give the last line that the gateway wrote to its standard error."""
        if status is None or status < 0:
            return ""
        size = os.fstat(self._stderr).st_size
        lines = os.pread(self._stderr, _QUOTE, max(0, size - _QUOTE)).decode("utf-8", "replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "")


def _how(status: int) -> str:
    if status >= 0:
        return f"ended with exit code {status}"
    try:
        return f"was killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"was killed by signal {-status}"
