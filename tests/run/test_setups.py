"""Setups on the workers of a run: what is kept for the run meanwhile, and what a failed one means."""

from __future__ import annotations

import pytest

from pytest_sgpu.endings import Endings
from pytest_sgpu.engine.clock import RunClock
from pytest_sgpu.engine.events import ItemRun, WorkerGone, WorkerReady
from pytest_sgpu.ledger import Ledger
from pytest_sgpu.listener import Progress
from pytest_sgpu.model import UNKNOWN, Ending, Item, Key, Mode, PlanEntry, Status, Suite, Worker
from pytest_sgpu.setups import SuiteSetups, setup_failed
from tests.run.conftest import Fleet, Recorder

WORKERS = (Worker("gpu0", ()), Worker("gpu1", ()))
ENTRY = PlanEntry(1, Item(Key("one", "a"), ("x",), 1, 0), UNKNOWN)


class Scripted(Fleet):
    """Answers nothing by itself."""

    def answer(self, worker, item):
        pass


class Journal:
    """A run directory that keeps its journal in memory."""

    def __init__(self):
        self.records = []

    def append(self, record):
        self.records.append(record)


class Stage:
    """Setups on a scripted fleet, on a clock that a test moves."""

    def __init__(self):
        self.now = 7.0
        self.clock = RunClock(now=lambda: self.now)
        self.fleet = Scripted(WORKERS, env={}, cwd="/", clock=self.clock)
        self.journal = Journal()
        self.listener = Recorder()
        ledger = Ledger(self.journal, self.listener, Progress(1), self.clock)  # type: ignore[arg-type]
        self.endings = Endings(self.fleet, ledger, self.clock, 4.0)  # type: ignore[arg-type]
        self.ticks = 0
        self.on_tick = lambda: None
        self.setups = SuiteSetups(
            self.fleet,  # type: ignore[arg-type]
            WORKERS,
            self.endings,
            self.clock,
            hear=self.hear,
            tick=self.tick,
        )

    def hear(self, name):
        """Do with a signal what a session does."""
        if self.endings.reason:
            self.endings.hurry(name)
        else:
            self.endings.begin(f"stopped by {name}")

    def tick(self):
        self.ticks += 1
        self.on_tick()

    def run(self, label="one"):
        return self.setups.run(label, lambda _worker: ItemRun(f"setup {label}", (f"./{label}.sh",), "log"))


@pytest.fixture
def stage():
    return Stage()


def test_a_setup_runs_on_the_first_device_and_the_news_of_others_is_kept(stage):
    stage.fleet.start()
    stage.fleet.answer = lambda worker, item: stage.fleet.end(worker, item.id, exit_code=3)
    assert stage.run().exit_code == 3
    assert stage.fleet.calls == ["run setup one on gpu0.0"]
    assert [type(event) for event in stage.setups.deferred] == [WorkerReady, WorkerReady]


def test_a_worker_that_was_ready_and_is_gone_is_only_gone(stage):
    stage.fleet.start()
    stage.fleet.gone(WORKERS[1])
    stage.fleet.answer = lambda worker, item: stage.fleet.end(worker, item.id)
    stage.run()
    assert [(type(event), event.worker.id) for event in stage.setups.deferred] == [
        (WorkerReady, "gpu0"),
        (WorkerGone, "gpu1"),
    ]
    stage.run("two")
    assert len(stage.setups.deferred) == 2


def test_without_any_worker_it_fails_and_says_so(stage):
    stage.fleet.answer = lambda worker, item: stage.fleet.gone(worker)
    ending = stage.run()
    assert stage.fleet.calls == ["run setup one on gpu0.0", "run setup one on gpu1.0"]
    assert (ending.exit_code, ending.reason) == (None, "no worker is left to set up one")
    assert stage.run("two").reason == "no worker is left to set up two"
    assert [type(event) for event in stage.setups.deferred] == [WorkerGone, WorkerGone]


def test_signals_end_it_the_second_one_at_once(stage):
    fleet = stage.fleet
    fleet.kill = lambda worker, reason, grace: fleet.calls.append(f"kill {worker.id} {grace:g}: {reason}")

    def answer(worker, item):
        fleet.post("SIGINT")
        fleet.post("SIGTERM")
        fleet.end(worker, item.id, exit_code=None, signal=9)

    fleet.answer = answer
    assert stage.run().signal == 9
    assert stage.listener.told == ["stopping: stopped by SIGINT", "hurried: SIGTERM"]
    assert stage.listener.grace == 4.0
    assert [record["event"] for record in stage.journal.records] == ["stop"]
    assert fleet.calls[1] == "kill gpu0 4: stopped by SIGINT"
    assert set(fleet.calls[2:]) == {"kill gpu0 0: stopped by SIGINT"}


def test_a_setup_that_cannot_be_ended_is_given_up_and_so_is_its_worker(stage):
    """After the grace and a second and a half nobody waits for it any more."""
    stage.fleet.kill = lambda *_: None
    stage.fleet.answer = lambda worker, item: stage.fleet.post("SIGINT")

    def tick():
        stage.now += 1.0

    stage.on_tick = tick
    ending = stage.run()
    assert (ending.exit_code, ending.signal) == (None, None)
    assert ending.reason == "it could not be ended and was given up"
    assert (ending.start, ending.stop) == (0.0, 7.0)  # a second a look, one of them before the signal
    assert stage.fleet.calls == ["run setup one on gpu0.0", "abandon gpu0"]


def test_after_a_signal_no_setup_starts_again_elsewhere(stage):
    def answer(worker, item):
        stage.fleet.post("SIGINT")
        stage.fleet.gone(worker)

    stage.fleet.answer = answer
    stage.fleet.kill = lambda *_: None
    ending = stage.run()
    assert (ending.exit_code, ending.reason) == (None, "stopped by SIGINT")
    assert stage.fleet.calls == ["run setup one on gpu0.0"]


def test_a_signal_that_came_before_is_heard_before_anything_begins(stage):
    stage.fleet.start()
    assert stage.setups.stopped == ""
    stage.fleet.post("SIGHUP")
    assert stage.setups.stopped == "stopped by SIGHUP"
    assert len(stage.setups.deferred) == 2


def test_the_screen_is_drawn_while_a_setup_takes_its_time(stage):
    def tick():
        if stage.ticks == 3:
            stage.fleet.end(WORKERS[0], "setup one")

    stage.on_tick = tick
    assert stage.run().exit_code == 0
    assert stage.ticks == 3


@pytest.mark.parametrize(
    ("ending", "code", "reason"),
    [
        (Ending(3, None, 1.0, 2.0), 3, "exit code 3"),
        (Ending(127, None, 1.0, 1.0, reason="no such file: ./one.sh"), 127, "no such file: ./one.sh"),
        (Ending(None, 11, 1.0, 2.0), 139, "signal 11 (SIGSEGV)"),
        (Ending(None, None, 1.0, 1.0, reason="it was given up"), 1, "it was given up"),
        (Ending(None, 15, 1.0, 3.0, killed="deadline: 2 s passed", timed_out=True), 124, "deadline: 2 s passed"),
        (Ending(0, None, 1.0, 3.0, killed="deadline: 2 s passed", timed_out=True), 124, "deadline: 2 s passed"),
    ],
)
def test_the_items_of_a_suite_have_the_code_of_its_setup(ending, code, reason):
    outcome = setup_failed(ENTRY, ending)
    assert (outcome.status, outcome.exit_code, outcome.start) == (Status.SETUP_FAILED, code, None)
    assert outcome.reason == f"the suite's setup failed: {reason}"
    assert (outcome.key, outcome.estimate) == (ENTRY.item.key, UNKNOWN)


def test_the_journal_has_the_setup(stage):
    suite = Suite("one", "one.log", Mode.LIST, ("x",), "q.conf", 1)
    stage.endings._ledger.set_up(suite, Ending(None, 9, 1.0, 2.5))
    assert stage.journal.records == [
        {"event": "setup", "suite": "one", "exit_code": None, "signal": 9, "start": 1.0, "stop": 2.5}
    ]
    assert stage.listener.told == ["setup one = None"]
