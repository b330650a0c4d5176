"""Who is silent is found, on both sides; who only looks like it is left alone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from pytest_sgpu.engine.events import ItemEnded, ItemStarted, WorkerGone, WorkerReady
from pytest_sgpu.engine.heart import Heart
from tests.engine.conftest import alive, until

FAMILY = """
trap '' TERM
echo $$ >> pids
setsid sh -c 'trap "" TERM; echo $$ >> pids; sleep 60; sleep 60' < /dev/null > /dev/null 2>&1 &
while :; do sleep 0.1; done
"""


# ---------------------------------------------------------------- the heart itself


@dataclass
class Someone:
    """Answers at once as long as it is well."""

    well: bool = True
    asked_at: float | None = None
    silences: list[tuple[float, float]] = field(default_factory=list)

    def ask(self, now):
        self.asked_at = None if self.well else now if self.asked_at is None else self.asked_at

    def silent(self, limit, now):
        self.silences.append((limit, now))


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


def _heart(*patients):
    clock = Clock()
    return Heart(lambda: patients, beat=2.0, silence=10.0, clock=clock), clock


def _beats(heart, clock, count, beat=2.0):
    for _ in range(count):
        clock.now += beat
        heart.step()


def test_who_does_not_answer_for_ten_seconds_is_silent():
    well, ill = Someone(), Someone(well=False)
    heart, clock = _heart(well, ill)
    _beats(heart, clock, 5)
    assert ill.silences == []
    _beats(heart, clock, 2)
    assert (ill.silences, well.silences) == ([(10.0, 112.0), (10.0, 114.0)], [])


def test_an_answer_begins_the_count_anew():
    one = Someone(well=False)
    heart, clock = _heart(one)
    _beats(heart, clock, 5)
    one.well, one.asked_at = True, None
    _beats(heart, clock, 1)
    one.well = False
    _beats(heart, clock, 5)
    assert one.silences == []
    _beats(heart, clock, 1)
    assert one.silences == [(10.0, clock.now)]


@pytest.mark.parametrize("gap", [3.1, 3600.0])
def test_time_in_which_the_controller_stood_still_is_no_silence(gap):
    one = Someone(well=False)
    heart, clock = _heart(one)
    _beats(heart, clock, 4)
    _beats(heart, clock, 1, gap)
    _beats(heart, clock, 4)
    assert one.silences == []
    _beats(heart, clock, 1)
    assert one.silences == [(10.0, clock.now)]


def test_a_heart_at_rest_asks_nobody():
    one = Someone(well=False)
    heart, clock = _heart(one)
    _beats(heart, clock, 4)
    heart.rest()
    _beats(heart, clock, 20)
    assert one.silences == []
    clock.now += 500.0  # it was stopped; its own next step would be too late to notice
    heart.go_on()
    assert one.asked_at is None
    _beats(heart, clock, 5)
    assert one.silences == []
    _beats(heart, clock, 1)
    assert one.silences == [(10.0, clock.now)]


# ---------------------------------------------------------------- workers that are silent


def test_a_frozen_worker_is_found_and_its_item_cleaned_up(make_fleet):
    fleet = make_fleet(2, beat=0.1, silence=1.0)
    workers = fleet.start()
    fleet.order("/bin/sh", "-c", FAMILY)
    pids = fleet.pids(count=2)
    os.kill(workers["gpu0"], signal.SIGSTOP)
    gone = fleet.next(WorkerGone)
    assert gone.worker == fleet.workers[0]
    assert gone.reason == "worker gpu0 was killed by SIGKILL: it was silent for 1 s"
    assert fleet.gone([workers["gpu0"], *pids], 0.0)
    new = replace(gone.worker, generation=1)
    fleet.gateways.respawn(new)
    fleet.next(WorkerReady)
    for worker in (new, fleet.workers[1]):
        assert fleet.run("true", worker=worker)[0].ending.exit_code == 0


def test_a_frozen_worker_that_is_told_something_holds_nobody_up(make_fleet):
    fleet = make_fleet(beat=0.1, silence=1.0)
    worker = fleet.start()["gpu0"]
    os.kill(worker, signal.SIGSTOP)
    for _ in range(3):  # more than its pipe takes
        fleet.order("true", env={"BIG": "x" * 100_000})
    fleet.gateways.kill(fleet.workers[0], "stopped", 0.0)
    assert "it was silent for" in fleet.next(WorkerGone).reason


def test_a_worker_that_searches_a_log_is_not_silent(make_fleet):
    fleet = make_fleet(beat=0.1, silence=2.0)
    worker = fleet.start()["gpu0"]
    fleet.order("/bin/sh", "-c", "echo $$ > pids; truncate -s 400G 1.log", ran_line="TE_CI_RAN a.b")
    pid = fleet.pids()[0]
    assert until(lambda: not alive(pid), 15.0)
    fleet.next(ItemStarted)
    assert fleet.gateways.next_event(5.0) is None
    assert alive(worker)
    fleet.gateways.kill(fleet.workers[0], "enough", 0.0)
    assert fleet.next(ItemEnded).ending.killed == "enough"


def test_a_worker_that_sweeps_is_not_silent(make_fleet):
    fleet = make_fleet(beat=0.1, silence=2.0)
    fleet.start()
    # Five hundred deaf processes, each killed by name.
    script = "trap '' TERM; for n in $(seq 500); do sleep 60 & done; echo $$ > pids; wait"
    fleet.order("/bin/sh", "-c", script)
    fleet.pids()
    fleet.gateways.kill(fleet.workers[0], "enough", 3.0)
    assert fleet.next(ItemEnded).ending.killed == "enough"
    assert fleet.gone([])


# ---------------------------------------------------------------- controllers that are silent

CONTROLLER = """
import os, sys, time
from pytest_sgpu.engine.gateways import Gateways, ItemRun, WorkerGone
from pytest_sgpu.model import Worker

folder, mark, family, silence, deadman = sys.argv[1:]
worker = Worker("gpu0", ())
env = {**os.environ, "SGPU_TEST_MARK": mark}
options = {"beat": 0.1, "silence": float(silence), "deadman": float(deadman)}
gateways = Gateways([worker], env=env, cwd=folder, clock=time.monotonic, **options)
gateways.start()
while (ready := gateways.next_event(30)) is None:  # the heart has beaten meanwhile
    pass
print(ready.pid, flush=True)
gateways.run(worker, ItemRun("a", ("/bin/sh", "-c", family), folder + "/a.log"))
while not os.path.exists(folder + "/leave"):
    event = gateways.next_event(0.05)
    if isinstance(event, WorkerGone):
        print(event.reason, flush=True)
gateways.close()
print("end", flush=True)
"""


@pytest.fixture
def start_controller(make_fleet):
    """Start a controller of its own with one worker and a family for an item."""
    fleet = make_fleet(0)
    started = []

    def start(silence, deadman):
        env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
        argv = [sys.executable, "-c", CONTROLLER, str(fleet.folder), fleet.mark, FAMILY, str(silence), str(deadman)]
        controller = subprocess.Popen(argv, env=env, stdout=subprocess.PIPE)
        started.append(controller)
        assert controller.stdout is not None
        worker = int(controller.stdout.readline())
        return fleet, controller, worker, fleet.pids(count=2)

    yield start
    for controller in started:
        controller.kill()
        controller.communicate()


def test_a_worker_that_hears_nothing_kills_its_item_and_leaves(start_controller):
    fleet, controller, worker, pids = start_controller(60.0, 4.0)  # longer than a controller on a busy machine is away
    controller.send_signal(signal.SIGSTOP)
    assert fleet.gone([worker, *pids], 20.0)
    controller.send_signal(signal.SIGCONT)
    reason = controller.stdout.readline()
    assert reason == b"worker gpu0 ended with exit code 0: it heard nothing from the controller for 4 s\n"
    (fleet.folder / "leave").touch()
    assert controller.communicate(timeout=20)[0] == b"end\n"


def test_a_controller_that_was_away_for_a_while_accuses_nobody(start_controller):
    fleet, controller, worker, pids = start_controller(1.0, 60.0)
    controller.send_signal(signal.SIGSTOP)
    time.sleep(3.0)  # longer than a worker may be silent
    controller.send_signal(signal.SIGCONT)
    time.sleep(1.5)
    assert all(alive(pid) for pid in (worker, *pids))
    (fleet.folder / "leave").touch()
    assert controller.communicate(timeout=20)[0] == b"end\n"
    assert fleet.gone([worker, *pids])


def test_a_frozen_worker_does_not_outlive_its_controller(start_controller):
    fleet, controller, worker, pids = start_controller(60.0, 60.0)
    os.kill(worker, signal.SIGSTOP)
    controller.kill()
    assert fleet.gone([worker, *pids], 10.0)
