"""Setups on the workers of a run: what is kept for the run meanwhile, and what a failed one means."""

from __future__ import annotations

import pytest

from pytest_sgpu.engine.events import ItemRun, WorkerGone, WorkerReady
from pytest_sgpu.model import UNKNOWN, Ending, Item, Key, Mode, PlanEntry, Status, Suite, Worker
from pytest_sgpu.setups import SuiteSetups, setup_failed, setup_record
from tests.run.conftest import Fleet

WORKERS = (Worker("gpu0", ()), Worker("gpu1", ()))
ENTRY = PlanEntry(1, Item(Key("one", "a"), ("x",), 1, 0), UNKNOWN)


class Scripted(Fleet):
    """Answers nothing by itself."""

    def answer(self, worker, item):
        pass


@pytest.fixture
def fleet():
    return Scripted(WORKERS, env={}, cwd="/", clock=lambda: 7.0)


@pytest.fixture
def setups(fleet):
    return SuiteSetups(fleet, WORKERS, clock=fleet.clock, tick=lambda: None)


def order(_worker):
    return ItemRun("setup one", ("./one.sh",), "log")


def never(name):
    raise AssertionError(name)


def test_a_setup_runs_on_the_first_device_and_the_news_of_others_is_kept(fleet, setups):
    fleet.start()
    fleet.answer = lambda worker, item: fleet.end(worker, item.id, exit_code=3)
    ending = setups.run("one", order, never)
    assert ending.exit_code == 3
    assert fleet.calls == ["run setup one on gpu0.0"]
    assert [type(event) for event in setups.deferred] == [WorkerReady, WorkerReady]


def test_a_worker_that_was_ready_and_is_gone_is_only_gone(fleet, setups):
    fleet.start()
    fleet.gone(WORKERS[1])
    fleet.answer = lambda worker, item: fleet.end(worker, item.id)
    setups.run("one", order, never)
    assert [(type(event), event.worker.id) for event in setups.deferred] == [
        (WorkerReady, "gpu0"),
        (WorkerGone, "gpu1"),
    ]
    setups.run("two", order, never)
    assert len(setups.deferred) == 2


def test_without_any_worker_it_fails_and_says_so(fleet, setups):
    fleet.answer = lambda worker, item: fleet.gone(worker)
    ending = setups.run("one", order, never)
    assert fleet.calls == ["run setup one on gpu0.0", "run setup one on gpu1.0"]
    assert (ending.exit_code, ending.reason) == (None, "no worker was left to set up one")
    assert setups.run("two", order, never).reason == "no worker was left to set up two"
    assert [type(event) for event in setups.deferred] == [WorkerGone, WorkerGone]


def test_signals_end_it_the_second_one_at_once(fleet, setups):
    heard: list[str] = []
    fleet.kill = lambda worker, reason, grace: fleet.calls.append(f"kill {worker.id} {grace:g}: {reason}")

    def answer(worker, item):
        fleet.post("SIGINT")
        fleet.post("SIGTERM")
        fleet.end(worker, item.id, exit_code=None, signal=9)

    fleet.answer = answer
    ending = setups.run("one", order, heard.append)
    assert ending.signal == 9
    assert heard == ["SIGINT", "SIGTERM"]
    assert fleet.calls[1:] == ["kill gpu0 4: stopped by SIGINT", "kill gpu0 0: stopped by SIGTERM"]


def test_after_a_signal_no_setup_starts_again_elsewhere(fleet, setups):
    def answer(worker, item):
        fleet.post("SIGINT")
        fleet.gone(worker)

    fleet.answer = answer
    fleet.kill = lambda *_: None
    heard: list[str] = []
    ending = setups.run("one", order, heard.append)
    assert (ending.exit_code, ending.reason) == (None, "the run was stopped")
    assert fleet.calls == ["run setup one on gpu0.0"]


def test_the_screen_is_drawn_while_a_setup_takes_its_time(fleet):
    ticks = []

    def tick():
        ticks.append(1)
        if len(ticks) == 3:
            fleet.end(WORKERS[0], "setup one")

    assert SuiteSetups(fleet, WORKERS, clock=fleet.clock, tick=tick).run("one", order, never).exit_code == 0
    assert len(ticks) == 3


@pytest.mark.parametrize(
    ("ending", "code", "reason"),
    [
        (Ending(3, None, 1.0, 2.0), 3, "exit code 3"),
        (Ending(127, None, 1.0, 1.0, reason="no such file: ./one.sh"), 127, "no such file: ./one.sh"),
        (Ending(None, 11, 1.0, 2.0), 139, "signal 11 (SIGSEGV)"),
        (Ending(None, None, 1.0, 1.0, reason="no worker was left"), 1, "no worker was left"),
    ],
)
def test_the_items_of_a_suite_have_the_code_of_its_setup(ending, code, reason):
    outcome = setup_failed(ENTRY, ending)
    assert (outcome.status, outcome.exit_code, outcome.start) == (Status.SETUP_FAILED, code, None)
    assert outcome.reason == f"the suite's setup failed: {reason}"
    assert (outcome.key, outcome.estimate) == (ENTRY.item.key, UNKNOWN)


def test_the_journal_has_the_setup():
    suite = Suite("one", "one.log", Mode.LIST, ("x",), "q.conf", 1)
    assert setup_record(suite, Ending(None, 9, 1.0, 2.5)) == {
        "event": "setup",
        "suite": "one",
        "exit_code": None,
        "signal": 9,
        "start": 1.0,
        "stop": 2.5,
    }
