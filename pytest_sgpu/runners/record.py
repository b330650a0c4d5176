"""What a coordinator leaves behind: the log, the timeline, the state of the post step, outputs and summary."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from pytest_sgpu.errors import OptionError, SgpuError
from pytest_sgpu.runners.candidates import Candidate
from pytest_sgpu.runners.machine.actions import Note, Save
from pytest_sgpu.runners.ports import Attempt, Clock, Result
from pytest_sgpu.runners.report import files
from pytest_sgpu.runners.report.summary import render
from pytest_sgpu.runners.report.timeline import Timeline
from pytest_sgpu.runners.text import encodable, one_line, without

Log = Callable[[str], None]
_LINE = 2000  # characters of one line of the log


def say(text: str) -> None:
    """Write a line to standard output at once: a job log is read while the job waits.

    A reader that has left, or a locale that cannot say it, ends no watch: a child may be active.
    """
    if sys.stdout is None:  # it was closed before this began
        return
    with contextlib.suppress(OSError, ValueError):  # ValueError: it was closed meanwhile
        sys.stdout.write(encodable(text, sys.stdout.encoding) + "\n")
        sys.stdout.flush()


class Recorder:
    """Takes the remarks of machines. Nothing that it writes holds ``secret``.

    What cannot be written later is told in the log and stops nothing: a child has to be watched to its end. Whether
    it can be written at all is looked at before anything is dispatched (``check``).
    """

    def __init__(self, env: Mapping[str, str], clock: Clock, log: Log, secret: str = "") -> None:
        self._env = env
        self._clock = clock
        self._log = log
        self._secret = secret
        self._timeline = Timeline(clock.monotonic(), secret)
        self._states: dict[int, Mapping[str, str]] = {}
        self._attempts: dict[int, int] = {}

    def check(self) -> None:
        """Raise OptionError when the state of the step cannot be written: without it no cleanup is possible.

        A blank entry is written, which means nothing: a full disk can be opened all the same.
        """
        try:
            files.check(self._env, files.OUTPUT)
            files.append(self._env, files.STATE, {"request-id": ""})
        except SgpuError as error:
            raise OptionError(error.message, error.hint) from None

    def tell(self, text: str) -> None:
        """Write one line to the log; a log that cannot be written stops nothing."""
        with contextlib.suppress(OSError, ValueError):
            self._log(one_line(without(self._secret, text), _LINE))

    def remark(self, worker: int, *, several: bool) -> Callable[[Note | Save], None]:
        """Give what takes the remarks of one worker; with several their lines say whose they are."""

        def take(one: Note | Save) -> None:
            if isinstance(one, Save):
                self.save(worker, one.state)
                return
            if one.event == "dispatch":
                self._attempts[worker] = self._attempts.get(worker, 0) + 1
            if one.text:
                self.tell(f"worker {worker}: {one.text}" if several else one.text)
            fields = dict(one.fields) | ({"text": one.text} if one.text else {})
            now, epoch = self._clock.monotonic(), self._clock.time()
            self._timeline.add(now, epoch, one.event, worker, self._attempts.get(worker, 0), **fields)

        return take

    def save(self, worker: int, state: Mapping[str, str]) -> None:
        """Keep what a cleanup of this worker needs, in place of what was kept; names that are gone become blank."""
        values = dict.fromkeys(self._states.get(worker, {}), "") | dict(state)
        self._states[worker] = dict(state)
        suffix = "" if worker == 1 else f"-{worker}"
        self._write(files.STATE, {f"{name}{suffix}": value for name, value in values.items()})

    @property
    def state(self) -> dict[str, str]:
        """Everything that is kept, under the names that the file has."""
        return {
            name if worker == 1 else f"{name}-{worker}": value
            for worker, state in sorted(self._states.items())
            for name, value in state.items()
        }

    def finish(self, result: Result) -> Result:
        """Write the outputs."""
        self._write(files.OUTPUT, result.outputs)
        return result

    def keep_timeline(self, result: Result, path: str) -> Result:
        """Write the timeline to a file and as an output, when there is a path for it; give the result with it."""
        if not path:
            return result
        text = self._timeline.to_json()
        self._write(files.OUTPUT, {"timeline": text})
        try:
            files.replace(path, text + "\n")
        except SgpuError as error:
            self.tell(f"warning: timeline: {error.message}")
        return replace(result, outputs={**result.outputs, "timeline": text})

    def summarise(
        self,
        result: Result,
        candidates: Sequence[Candidate],
        *,
        repository: str,
        server_url: str,
        cleanup: str,
        workers: int,
    ) -> None:
        """Add to the summary of the job."""
        text = render(
            result, candidates, repository=repository, server_url=server_url, cleanup=cleanup, workers=workers
        )
        self.append_summary(text)

    def append_summary(self, text: str) -> None:
        """Add Markdown to the summary of the job; a summary that cannot be written hides no result."""
        try:
            files.summary(self._env, without(self._secret, text))
        except SgpuError as error:
            self.tell(f"warning: {error.message}")

    def _write(self, variable: str, values: Mapping[str, str]) -> None:
        try:
            files.append(self._env, variable, {name: without(self._secret, value) for name, value in values.items()})
        except SgpuError as error:
            self.tell(f"warning: {error.message}")


def outputs_of(attempts: Sequence[Attempt]) -> dict[str, str]:
    """Give the outputs: what the last dispatch was, also after a failure, and how many there were (R120, R129)."""
    last = attempts[-1] if attempts else Attempt(0, {}, "")
    return {
        "run-id": str(last.run_id or ""),
        "run-url": last.run_url,
        "runner": json.dumps(last.runner, separators=(",", ":"), ensure_ascii=False) if last.runner else "",
        "attempts": str(len(attempts)),
    }
