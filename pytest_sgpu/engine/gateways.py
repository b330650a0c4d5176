"""The workers' gateways: start, order, end, and one queue of events.

Guarantees: an order waits for no answer and never raises because a worker is gone; its end comes as a
``WorkerGone`` event, once per incarnation that was not told to leave. Messages of an older generation
carry their own ``Worker``, so that they can be told apart. After a ``WorkerGone`` nothing that the worker
ran is left that carries its cookie. A worker that does not answer for ``silence`` seconds is killed. A gateway
runs in a session of its own, so a ^C on the terminal does not reach it; its standard error is kept in memory
and quoted when it dies, so nothing of it reaches the terminal. ``close`` leaves no child behind.

Times are seconds since the run began, from the clock that is passed in. (engine facts, parts 3 and 4)
"""

from __future__ import annotations

import os
import queue
import shlex
import sys
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from pytest_sgpu.engine.events import Event, ItemEnded, ItemRun, ItemSlow, ItemStarted, Posted, WorkerGone, WorkerReady
from pytest_sgpu.engine.gate import Gate, source
from pytest_sgpu.engine.heart import Heart
from pytest_sgpu.errors import WorkerError
from pytest_sgpu.model import Worker

__all__ = [
    "Event",
    "Gateways",
    "ItemEnded",
    "ItemRun",
    "ItemSlow",
    "ItemStarted",
    "Posted",
    "WorkerGone",
    "WorkerReady",
]

_START_LOOK = 0.1  # seconds between two looks whether a start that takes its time is still wanted
_CLOSE_MARGIN = 2.0  # seconds beyond the grace that a worker gets to clean up and leave
_PAUSE_LIMIT = 1.0  # seconds after which a pause is called one, whoever has not said that it stands still


def _bytes(text: str) -> bytes:
    """Give text as the suite scripts wrote it: UTF-8, whatever the controller's own locale says of files."""
    return text.encode("utf-8", "surrogateescape")


def _pack(env: Mapping[str, str]) -> bytes:
    """Give an environment as one string of bytes: execnet sends text only when it is UTF-8."""
    return b"\0".join(_bytes(f"{name}={value}") for name, value in env.items())


def _identity() -> str:
    """Give this process as its number and start, so that nobody takes another one for it."""
    return f"{os.getpid()}:{Path('/proc/self/stat').read_text('utf-8', 'replace').rpartition(')')[2].split()[19]}"


class Gateways:
    """All workers of a run. Methods are called from the controller's main thread; ``post`` from anywhere.

    ``env`` is the base environment of the items, ``cwd`` their working directory, ``python`` the command
    that starts a worker's interpreter (shell quoting, 3.8 or newer; default: the one that runs this).
    Every ``beat`` seconds each worker is asked for a sign of life; ``silence``: seconds without an answer after
    which it is killed; ``deadman``: seconds without a question after which it kills its item and leaves.
    """

    def __init__(
        self,
        workers: Sequence[Worker],
        *,
        env: Mapping[str, str],
        cwd: str,
        clock: Callable[[], float],
        python: str | None = None,
        start_timeout: float = 30.0,
        beat: float = 2.0,
        silence: float = 10.0,
        deadman: float = 30.0,
    ) -> None:
        self._workers = tuple(workers)
        self._env = _pack(env)
        self._cwd = cwd
        self._clock = clock
        # Isolated and without site: nothing of the user's working directory or packages is imported or paid for.
        # An interpreter that needs PYTHONHOME must be let read it.
        plain = "-S -s" if "PYTHONHOME" in os.environ else "-I -S"
        self._python = f"{python or shlex.quote(sys.executable)} {plain}"
        self._start_timeout = start_timeout
        self._run = uuid.uuid4().hex
        self._deadman = float(deadman)
        self._guardian = source("guardian.py")
        self._events: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
        self._gates: dict[tuple[str, int], Gate] = {}
        self._threads: list[threading.Thread] = []
        self._paused = False
        self._heart = Heart(lambda: list(self._gates.values()), beat=beat, silence=silence, wake=self._wake)

    def start(self, cancelled: Callable[[], bool] = lambda: False) -> None:
        """Start all workers side by side and wait until each answered or failed, or until ``cancelled`` says true.

        Failures are ``WorkerGone`` events; when none could be started, a ``WorkerError`` tells the first.
        """
        gates = [self._open(worker) for worker in self._workers]
        for gate in gates:
            while not gate.up.wait(_START_LOOK):
                if cancelled():
                    return
        if gates and all(gate.failure for gate in gates):
            raise WorkerError(f"no worker could be started: {gates[0].failure}", "it runs " + self._python)

    def _open(self, worker: Worker) -> Gate:
        cookie = f"{self._run}-{worker.id}-{worker.generation}".encode()
        setup = {
            "env": self._env,
            "cookie": cookie,
            "guardian": self._guardian,
            "controller": _identity(),
            "deadman": self._deadman,
        }
        gate = self._gates[worker.id, worker.generation] = Gate(worker, setup, self._events.put, self._clock)
        if self._paused:
            gate.pause()
        self._heart.start()
        thread = threading.Thread(target=gate.open, args=(self._python, self._start_timeout), daemon=True)
        self._threads.append(thread)
        thread.start()
        return gate

    def run(self, worker: Worker, item: ItemRun) -> None:
        """Hand an item to a worker."""
        gate = self._gates.get((worker.id, worker.generation))
        if gate is None:
            return
        gate.running = item.id
        gate.send(
            "run",
            {
                "id": item.id,
                "argv": [_bytes(word) for word in item.argv],
                "cwd": _bytes(item.cwd or self._cwd),
                "env": {_bytes(name): _bytes(text) for name, text in item.env.items() if text is not None},
                "unset": [_bytes(name) for name, text in item.env.items() if text is None],
                "log": _bytes(item.log),
                "log_root": _bytes(item.log_root),
                "timeout": float(item.timeout),
                "stall": float(item.stall),
                "grace": float(item.grace),
                "ran_line": _bytes(item.ran_line),
                "partial": _bytes(item.partial_glob),
            },
        )

    def kill(self, worker: Worker, reason: str, grace: float) -> None:
        """End the item that a worker was handed last, if it still runs: SIGTERM, ``grace`` seconds, SIGKILL.

        A second call can only shorten the grace.
        """
        gate = self._gates.get((worker.id, worker.generation))
        if gate is not None:
            gate.try_send("kill", {"id": gate.running, "reason": reason, "grace": float(grace)})

    def respawn(self, worker: Worker) -> None:
        """Start a worker anew, with the generation it has now. A ``WorkerReady`` or ``WorkerGone`` follows."""
        self._open(worker)

    def retire(self, worker: Worker) -> None:
        """Let an idle worker go. No event follows."""
        gate = self._gates.get((worker.id, worker.generation))
        if gate is not None:
            gate.leave(0.0)

    def pause(self) -> None:
        """Stop all items and their clocks. Returns when nothing of them runs, after a second at most.

        The heartbeats rest until ``resume``, so the controller may stop itself for as long as it likes. When it
        ends instead, all items end.
        """
        self._paused = True
        self._heart.rest()
        until = time.monotonic() + _PAUSE_LIMIT
        for gate in self._gates.values():
            gate.pause()
        for gate in self._gates.values():
            gate.halted.wait(max(0.0, until - time.monotonic()))

    def resume(self) -> None:
        """Let all items go on, and the heartbeats."""
        self._paused = False
        for gate in self._gates.values():
            gate.resume()
        self._heart.go_on()

    def abandon(self, worker: Worker, why: str) -> None:
        """Kill a worker that cannot end what it runs; its guardian does what can be done. ``WorkerGone`` follows."""
        gate = self._gates.get((worker.id, worker.generation))
        if gate is not None:
            gate.kill(why)

    def close(self, grace: float = 0.0, margin: float = _CLOSE_MARGIN) -> None:
        """End all workers, and before that their items: SIGTERM, ``grace`` seconds, SIGKILL.

        Waits ``grace`` and ``margin`` seconds for them at most, then kills the workers themselves; their
        guardians end the rest. No event follows for a worker that was alive.
        """
        for gate in self._gates.values():
            gate.leave(grace)
        until = time.monotonic() + grace + margin
        late = [gate for gate in self._gates.values() if not gate.wait(until - time.monotonic())]
        for gate in late:
            gate.kill("it did not leave")
        for gate in late:
            gate.wait(1.0)
        self._heart.stop()
        for thread in self._threads:
            thread.join(1.0)
        self._gates.clear()
        self._threads.clear()

    def _wake(self) -> None:
        self._events.put(None)

    def post(self, what: object) -> None:
        """Put something into the queue of events. Safe in a signal handler and in any thread."""
        self._events.put(Posted(what))

    def next_event(self, timeout: float) -> Event | None:
        """Give the next event, or None when none came for ``timeout`` seconds, or the heart beat meanwhile.

        A ``get`` whose time is over at an unlucky moment can wait for ever on Python 3.10, most of all one
        with no time at all. So that one does not wait, and the heart wakes the others.
        """
        try:
            if timeout > 0:
                return self._events.get(timeout=timeout)
            while (event := self._events.get_nowait()) is None:
                pass
        except queue.Empty:
            return None
        return event
