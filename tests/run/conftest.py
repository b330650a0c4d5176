"""A queue without pytest: tiny suites, everything prepared for real, a listener that remembers, a scripted fleet."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from pytest_sgpu.core import journal, simulate
from pytest_sgpu.core.journal import RunState
from pytest_sgpu.core.verdict import Policy
from pytest_sgpu.engine.events import Event, ItemEnded, ItemRun, ItemSlow, ItemStarted, Posted, WorkerGone, WorkerReady
from pytest_sgpu.engine.gateways import Gateways
from pytest_sgpu.engine.signals import Inbox
from pytest_sgpu.engine.store import RunDirectory
from pytest_sgpu.listener import Progress
from pytest_sgpu.model import Device, Ending, Key, Outcome, Plan, PlanEntry, Scope, Status, Suite, Worker
from pytest_sgpu.prepare import Options, Prepared, make_plan, prepare
from pytest_sgpu.session import Session

PATH = os.environ.get("PATH", os.defpath)

SCRIPT = """\
#!/bin/sh
# The suite protocol in a few lines: list mode, setup, one tag at a time.
if [ -n "$TE_CI_LIST_ITEMS" ]; then
  for tag in {tags}; do echo "TE_CI_ITEM $tag"; done
  [ -z "$TE_CI_SKIP_CHECK_SUPPORTED" ] || for tag in {elsewhere}; do echo "TE_CI_ITEM $tag"; done
  exit 0
fi
ran() {{ echo "TE_CI_RAN $1"; }}
junit() {{ printf '%s' "$2" > "$JUNITXML_PREFIX$1$JUNITXML_SUFFIX"; }}
if [ -n "$TE_CI_SETUP_ONLY" ]; then
:
{setup}
exit 0
fi
case "$TEST_FILTER" in
{cases}
esac
"""


class Recorder:
    """A listener that remembers what it is told, and says what a test lets it say."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.outcomes: list[Outcome] = []
        self.attempts: list[Outcome] = []
        self.progress = Progress(0)
        self.grace = -1.0
        self.stop_at: Callable[[Outcome], str] = lambda _: ""
        self.on: Callable[[str], None] = lambda _: None
        self.ticks = 0

    def setup(self, suite: Suite, ending: Ending | None) -> None:
        """Remember."""
        self._tell(f"setup {suite.label}" + ("" if ending is None else f" = {ending.exit_code}"))

    def started(self, entry: PlanEntry, worker: Worker, progress: Progress) -> None:
        """Remember."""
        assert progress.running[worker.id].entry == entry
        self._tell(f"started {entry.item.key} on {worker.id}")

    def slow(self, event: ItemSlow) -> None:
        """Remember."""
        self._tell(f"slow {event.run_id}: {event.seconds:g} of {event.limit:g}, {event.last_line}")

    def attempted(self, outcome: Outcome, why: str, progress: Progress) -> None:
        """Remember."""
        self.attempts.append(outcome)
        assert outcome.key not in {running.entry.item.key for running in progress.running.values()}
        self._tell(f"attempted {outcome.key} on {outcome.worker}: {outcome.status.value}, {why}")

    def device(self, text: str) -> None:
        """Remember."""
        self._tell(text)

    def incomplete(self, reason: str) -> None:
        """Remember."""
        self._tell(f"incomplete: {reason}")

    def paused(self) -> None:
        """Remember."""
        self._tell("paused")

    def continued(self, seconds: float) -> None:
        """Remember."""
        self._tell("continued")

    def finished(self, outcome: Outcome, progress: Progress) -> str:
        """Remember, and stop the run when the test says so."""
        self.outcomes.append(outcome)
        self.progress = progress
        assert outcome.key not in {running.entry.item.key for running in progress.running.values()}
        self._tell(f"finished {outcome.key}: {outcome.status.value}")
        return self.stop_at(outcome)

    def stopping(self, reason: str, grace: float, progress: Progress) -> None:
        """Remember."""
        self.grace = grace
        self._tell(f"stopping: {reason}")

    def hurried(self, reason: str, progress: Progress) -> None:
        """Remember."""
        self._tell(f"hurried: {reason}")

    def tick(self, progress: Progress) -> None:
        """Count."""
        self.ticks += 1
        self.on("tick")

    def _tell(self, what: str) -> None:
        self.told.append(what)
        self.on(what)


class Fleet:
    """Gateways without processes: each order is answered as the script of a test says, at once."""

    def __init__(
        self, workers: Sequence[Worker], *, env: Mapping[str, str], cwd: str, clock: Callable[[], float]
    ) -> None:
        self.workers = tuple(workers)
        self.clock = clock
        self.calls: list[str] = []
        self.events: deque[Event] = deque()
        self.running: dict[str, ItemRun] = {}
        self.silence = 0

    def start(self, cancelled: Callable[[], bool] = lambda: False) -> None:
        """Let all workers be ready."""
        for worker in self.workers:
            self.ready(worker)

    def run(self, worker: Worker, item: ItemRun) -> None:
        """Answer as the subclass says."""
        self.calls.append(f"run {item.id} on {worker.id}.{worker.generation}")
        self.running[worker.id] = item
        self.events.append(ItemStarted(worker, item.id, 1, self.clock()))
        self.answer(worker, item)

    def answer(self, worker: Worker, item: ItemRun) -> None:
        """End every item well."""
        self.end(worker, item.id)

    def kill(self, worker: Worker, reason: str, grace: float) -> None:
        """End what runs there."""
        self.calls.append(f"kill {worker.id} {grace:g}")
        item = self.running.get(worker.id)
        if item is not None:
            self.end(worker, item.id, killed=reason, exit_code=None, signal=15)

    def respawn(self, worker: Worker) -> None:
        """Let the new generation be ready."""
        self.calls.append(f"respawn {worker.id}.{worker.generation}")
        self.ready(worker)

    def retire(self, worker: Worker) -> None:
        """Let it go."""
        self.calls.append(f"retire {worker.id}.{worker.generation}")

    def abandon(self, worker: Worker, why: str) -> None:
        """Kill a worker."""
        self.calls.append(f"abandon {worker.id}")
        self.gone(worker, why)

    def pause(self) -> None:
        """Stop all items."""
        self.calls.append("pause")

    def resume(self) -> None:
        """Let them go on."""
        self.calls.append("resume")

    def close(self, grace: float = 0.0, margin: float = 2.0) -> None:
        """Let all go."""
        self.calls.append("close")

    def post(self, what: object) -> None:
        """Put something into the queue."""
        self.events.append(Posted(what))

    def next_event(self, timeout: float) -> Event | None:
        """Give the next event; a silence that nothing could end fails the test."""
        if self.events:
            self.silence = 0
            return self.events.popleft()
        self.silence += 1
        assert self.silence < 100, "the run waits for something that will never come"
        return None

    def ready(self, worker: Worker) -> None:
        """Say that a worker is up."""
        self.events.append(WorkerReady(worker, 1, self.clock()))

    def gone(self, worker: Worker, reason: str = "killed by SIGKILL") -> None:
        """Say that a worker is gone."""
        self.running.pop(worker.id, None)
        self.events.append(WorkerGone(worker, f"worker {worker.id} was {reason}", self.clock()))

    def end(self, worker: Worker, run_id: str, **fields: Any) -> None:
        """Say that an item ended."""
        self.running.pop(worker.id, None)
        now = self.clock()
        ending = Ending(**{"exit_code": 0, "signal": None, "start": now, "stop": now, "ran": True, **fields})
        self.events.append(ItemEnded(worker, run_id, ending, now))


@dataclass
class Run:
    """One run: what was given, what was told, what it left."""

    session: Session
    directory: RunDirectory
    listener: Recorder
    fleets: list[Any] = field(default_factory=list)

    @property
    def state(self) -> RunState:
        """Fold the journal, as everything that comes after a run does."""
        records, notices = self.directory.records()
        assert notices == ()
        return journal.fold(records)

    @property
    def statuses(self) -> dict[str, Status]:
        """Give how each item ended."""
        return {str(outcome.key): outcome.status for outcome in self.state.outcomes}

    @property
    def events(self) -> list[str]:
        """Give the kinds of all records."""
        return [record["event"] for record in self.directory.records()[0]]

    def outcome(self, key: str) -> Outcome:
        """Give one outcome."""
        (found,) = (outcome for outcome in self.state.outcomes if str(outcome.key) == key)
        return found


class Kit:
    """Makes suites, prepares and runs them below one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.mark = f"{os.getpid()}-{time.monotonic_ns()}"
        self.env = {"PATH": PATH, "HOME": str(folder), "SGPU_TEST_MARK": self.mark}
        self.conf = ""
        self.logs = folder / "logs"
        self.weights = folder / "weights.txt"
        self.policy = Policy()
        self.settings: dict[str, Any] = {}
        self.runs: list[Run] = []

    def suite(self, label: str, items: Mapping[str, str], *, setup: str = "", elsewhere: Sequence[str] = ()) -> None:
        """Add a list suite whose items are pieces of shell; ``ran TAG`` is the proof."""
        cases = "\n".join(f"{tag})\n{body}\n;;" for tag, body in items.items()) or "*) ;;"
        text = SCRIPT.format(tags=" ".join(items), elsewhere=" ".join(elsewhere), setup=setup, cases=cases)
        self._script(label, "list", text)

    def opaque(self, label: str, body: str) -> None:
        """Add an opaque suite."""
        self._script(label, "opaque", f"#!/bin/sh\n{body}\n")

    def passing(self, label: str, *tags: str, **more: Any) -> None:
        """Add a suite of items that pass."""
        self.suite(label, {tag: f"ran {tag}" for tag in tags}, **more)

    def _script(self, label: str, mode: str, text: str) -> None:
        path = self.folder / f"{label}.sh"
        path.write_text(text)
        path.chmod(0o755)
        self.conf += f"{label} {label}.log {mode} ./{label}.sh\n"
        (self.folder / "queue.conf").write_text(self.conf)

    @property
    def options(self) -> Options:
        """Give the options of a caller."""
        return Options(
            confs=(self.folder / "queue.conf",),
            conf_names=("queue.conf",),
            root=self.folder,
            log_dir=self.logs,
            weights=self.weights,
            env=self.env,
            gpus="1",
            policy=self.policy,
            **self.settings,
        )

    def prepare(self, devices: int = 2) -> Prepared:
        """Prepare for real, then on virtual devices, whatever this machine has."""
        names = [f"gpu{number}" for number in range(devices)]
        pool = tuple(Device(name, name[3:], "HIP_VISIBLE_DEVICES", "virtual", "cpu") for name in names)
        return replace(prepare(self.options), devices=pool, scope=Scope("cpu", "99"), notices=())

    def run(
        self,
        listener: Recorder | None = None,
        *,
        devices: int = 2,
        only: Sequence[str] | None = None,
        gateways: Callable[..., Any] = Gateways,
        **more: Any,
    ) -> Run:
        """Run everything, or some keys in the order that is given."""
        one = self.make(listener, devices=devices, only=only, gateways=gateways, **more)
        one.session.run()
        return one

    def make(
        self,
        listener: Recorder | None = None,
        *,
        devices: int = 2,
        only: Sequence[str] | None = None,
        gateways: Callable[..., Any] = Gateways,
        resume: bool = False,
        inbox: Inbox | None = None,
    ) -> Run:
        """Make a run that is ready to run; ``resume``: one that goes on with the last one."""
        for run in self.runs:
            run.directory.close()
        prepared = self.prepare(devices)
        by_key = {str(item.key): item for item in prepared.items}
        chosen = prepared.items if only is None else [by_key[key] for key in only]
        plan: Plan = make_plan(prepared, chosen, keep_order=only is not None)
        directory = RunDirectory(self.logs)
        earlier = None
        if resume:
            directory.resume(time.time())
            earlier, _ = directory.state()
        else:
            directory.open(time.time())
        fleets: list[Any] = []

        def open_gateways(*args: Any, **more: Any) -> Any:
            fleets.append(gateways(*args, **more))
            return fleets[-1]

        recorder = listener or Recorder()
        session = Session(
            prepared,
            plan,
            directory,
            recorder,
            predicted=simulate.predict(plan),
            reorder=only is None,
            earlier=earlier,
            begins=earlier.wall if earlier else 0.0,
            inbox=inbox,
            gateways=open_gateways,
        )
        self.runs.append(Run(session, directory, recorder, fleets))
        return self.runs[-1]

    def log(self, key: str) -> str:
        """Give the log of an item."""
        return self.runs[-1].directory.item_log(Key.parse(key)).read_text()

    def survivors(self) -> list[int]:
        """Find every living process that carries the mark of this kit's items."""
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                held = self.mark.encode() in (process / "environ").read_bytes()
                dead = (process / "stat").read_bytes().rpartition(b")")[2].split()[0] in (b"Z", b"X")
            except OSError:
                continue
            if held and not dead:
                found.append(int(process.name))
        return found


@pytest.fixture
def kit(tmp_path: Path) -> Iterator[Kit]:
    """Make a kit; whatever a test does, no process of an item may be left when a run is over."""
    one = Kit(tmp_path)
    yield one
    for run in one.runs:
        run.directory.close()
    end = time.monotonic() + 2
    while one.survivors() and time.monotonic() < end:
        time.sleep(0.01)
    assert one.survivors() == []
