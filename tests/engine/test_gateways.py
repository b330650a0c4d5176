"""Gateways as the controller sees them: starting, dying, killing, closing. Everything here is real."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_sgpu.engine.gateways import (
    Gateways,
    ItemEnded,
    ItemRun,
    ItemStarted,
    Posted,
    WorkerGone,
    WorkerReady,
)
from pytest_sgpu.errors import WorkerError
from pytest_sgpu.model import Worker
from tests.engine.conftest import guardian_of, guardians_of

# Leaves a plain child, one in a session of its own, and a double fork with closed streams; then stays, deaf.
FAMILY = """
trap '' TERM INT HUP
echo $$ >> pids
sh -c 'echo $$ >> pids; exec sleep 60' &
setsid sh -c 'trap "" TERM; echo $$ >> pids; sleep 60; sleep 60' &
( setsid sh -c 'echo $$ >> pids; exec sleep 60' < /dev/null > /dev/null 2>&1 & ) &
while :; do sleep 0.1; done
"""
FAMILY_SIZE = 4

CONTROLLER = """
import os, sys, time
from pytest_sgpu.engine.gateways import Gateways, ItemRun
from pytest_sgpu.model import Worker

folder, mark, family = sys.argv[1:]
workers = [Worker("gpu0", ()), Worker("gpu1", ())]
gateways = Gateways(workers, env={**os.environ, "SGPU_TEST_MARK": mark}, cwd=folder, clock=time.monotonic)
gateways.start()
for worker in workers:
    while (ready := gateways.next_event(30)) is None:  # the heart has beaten meanwhile
        pass
    print(ready.pid, flush=True)
gateways.run(workers[0], ItemRun("a", ("/bin/sh", "-c", family), folder + "/a.log"))
if "wait" in os.environ.get("HOW", ""):
    time.sleep(60)
while not os.path.exists(folder + "/leave"):
    time.sleep(0.005)
if "close" in os.environ.get("HOW", ""):
    gateways.close()
print("end", flush=True)
"""


def _controller(fleet, how, **options):
    env = {**os.environ, "HOW": how, "PYTHONPATH": str(Path(__file__).parents[2])}
    argv = [sys.executable, "-W", "error", "-c", CONTROLLER, str(fleet.folder), fleet.mark, FAMILY]
    return subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)


# ---------------------------------------------------------------- starting


def test_four_start_and_each_runs_items(make_fleet):
    fleet = make_fleet(4)
    pids = fleet.start()
    assert sorted(pids) == ["gpu0", "gpu1", "gpu2", "gpu3"]
    assert len(set(pids.values())) == 4
    for worker in fleet.workers:
        item = fleet.order("true", worker=worker)
        started, ended = fleet.next(ItemStarted), fleet.next(ItemEnded)
        assert (started.worker, started.run_id, ended.worker, ended.run_id) == (worker, item.id, worker, item.id)
        assert started.at <= ended.at


def test_two_hundred_items_through_four_workers(make_fleet, capsys):
    fleet = make_fleet(4)
    fleet.start()
    began, started = time.monotonic(), fleet.clock()
    for worker in fleet.workers:
        fleet.order("true", worker=worker)
    seen: set[str] = set()
    while len(seen) < 200:
        ended = fleet.next(ItemEnded)
        assert ended.run_id not in seen
        assert (ended.ending.exit_code, ended.ending.left) == (0, ())
        seen.add(ended.run_id)
        if fleet.items < 200:
            fleet.order("true", worker=ended.worker)
    with capsys.disabled():
        print(f"\n  4 gateways up in {started * 1000:.0f} ms; {(time.monotonic() - began) * 5:.2f} ms per item")


def test_no_interpreter_is_an_error_with_a_reason(make_fleet):
    fleet = make_fleet(2, python="/no/such/python")
    with pytest.raises(WorkerError, match=r"no worker could be started: worker gpu0 .*/no/such/python"):
        fleet.gateways.start()
    assert "could not be started" in fleet.next(WorkerGone).reason


def test_an_interpreter_that_fails_is_quoted_and_silent(make_fleet, capfd):
    fleet = make_fleet(python="sh -c 'echo first >&2; echo the license has expired >&2; exit 3'")
    with pytest.raises(WorkerError, match="ended with exit code 3: the license has expired"):
        fleet.gateways.start()
    assert capfd.readouterr() == ("", "")


def test_a_gateway_that_never_answers_is_given_up(make_fleet):
    fleet = make_fleet(python="sh -c 'exec sleep 60'", start_timeout=0.3)
    began = time.monotonic()
    with pytest.raises(WorkerError, match=r"killed by SIGKILL: it did not answer within 0\.3 s"):
        fleet.gateways.start()
    assert time.monotonic() - began < 5


def test_a_banner_in_the_answer_is_no_crash(make_fleet):
    fleet = make_fleet(python="sh -c 'echo Welcome; exec sleep 60'", start_timeout=5.0)
    with pytest.raises(WorkerError, match="AssertionError"):
        fleet.gateways.start()


def test_one_that_fails_does_not_stop_the_others(make_fleet, tmp_path):
    # The first of two makes the folder and starts, the second finds it made.
    script = f'mkdir {tmp_path}/first 2>/dev/null || exit 7; exec "$0" "$@"'
    fleet = make_fleet(2, python=f"sh -c '{script}' {sys.executable}")
    fleet.gateways.start()
    events = [fleet.gateways.next_event(5) for _ in range(2)]
    assert {type(event) for event in events} == {WorkerReady, WorkerGone}
    gone = next(event for event in events if isinstance(event, WorkerGone))
    assert gone.reason == f"worker {gone.worker.id} ended with exit code 7"
    ready = next(event for event in events if isinstance(event, WorkerReady))
    fleet.order("true", worker=ready.worker)
    assert fleet.next(ItemEnded).ending.exit_code == 0


def test_the_users_folder_shadows_no_module(make_fleet, monkeypatch):
    fleet = make_fleet()
    for name in ("struct", "signal", "queue", "sitecustomize"):
        (fleet.folder / f"{name}.py").write_text("raise SystemExit(9)\n")
    monkeypatch.chdir(fleet.folder)
    monkeypatch.setenv("PYTHONPATH", str(fleet.folder))
    assert fleet.start()


# ---------------------------------------------------------------- the queue


def test_posting_wakes_the_one_who_waits(make_fleet):
    gateways = make_fleet(0).gateways
    assert gateways.next_event(0.0) is None
    threading.Timer(0.05, gateways.post, ("hello",)).start()
    assert gateways.next_event(10) == Posted("hello")


def test_a_signal_handler_may_post(make_fleet):
    fleet = make_fleet()
    fleet.start()
    before = signal.signal(signal.SIGUSR1, lambda number, _: fleet.gateways.post(number))
    try:
        threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGUSR1)).start()
        began = time.monotonic()
        assert fleet.gateways.next_event(10) == Posted(signal.SIGUSR1)
        assert time.monotonic() - began < 2
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_orders_to_a_worker_that_is_unknown_or_gone_are_harmless(fleet):
    fleet.gateways.retire(fleet.workers[0])
    stranger = Worker("gpu7", ())
    for worker in (stranger, fleet.workers[0]):
        fleet.gateways.run(worker, ItemRun("x", ("true",), "/dev/null"))
        fleet.gateways.kill(worker, "why", 0.0)
        fleet.gateways.retire(worker)
    assert fleet.gateways.next_event(0.3) is None  # told to leave, so no word of its end


# ---------------------------------------------------------------- dying


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
def test_a_worker_that_dies_takes_its_item_along(make_fleet, number):
    fleet = make_fleet()
    pid = fleet.start()["gpu0"]
    fleet.order("/bin/sh", "-c", FAMILY)
    pids = fleet.pids(count=FAMILY_SIZE)
    os.kill(pid, number)
    assert fleet.gone([pid, *pids])
    gone = fleet.next(WorkerGone)
    assert (gone.worker, gone.reason) == (fleet.workers[0], f"worker gpu0 was killed by {number.name}")


def test_a_dead_worker_is_respawned(make_fleet):
    fleet = make_fleet()
    os.kill(fleet.start()["gpu0"], signal.SIGKILL)
    old = fleet.next(WorkerGone).worker
    new = replace(old, generation=1)
    fleet.gateways.respawn(new)
    assert fleet.next(WorkerReady).worker == new
    fleet.order("true", worker=new)
    ended = fleet.next(ItemEnded)
    assert (ended.worker, ended.ending.exit_code) == (new, 0)


def test_a_worker_ignores_the_terminals_interrupt(make_fleet):
    fleet = make_fleet()
    pid = fleet.start()["gpu0"]
    assert os.getsid(pid) == pid
    os.kill(pid, signal.SIGINT)
    assert fleet.run("true")[0].ending.exit_code == 0


def test_a_guardian_that_dies_is_replaced(make_fleet):
    fleet = make_fleet()
    worker = fleet.start()["gpu0"]
    fleet.order("/bin/sh", "-c", FAMILY)
    pids = fleet.pids(count=FAMILY_SIZE)
    first = guardian_of(worker)
    assert guardians_of(worker) == [first]
    os.kill(first, signal.SIGKILL)
    second = guardian_of(worker, first)
    os.kill(worker, signal.SIGKILL)
    assert fleet.gone([worker, *pids, second])


def test_worker_and_guardian_killed_together(make_fleet):
    fleet = make_fleet()
    worker = fleet.start()["gpu0"]
    fleet.order("/bin/sh", "-c", FAMILY)
    pids = fleet.pids(count=FAMILY_SIZE)
    for pid in (*guardians_of(worker), worker):
        os.kill(pid, signal.SIGKILL)
    fleet.next(WorkerGone)
    assert fleet.gone(pids, 0.0)


def test_a_guardian_holds_nothing_of_its_worker(make_fleet):
    fleet = make_fleet()
    worker = fleet.start()["gpu0"]
    fleet.run("true")
    guardian = guardian_of(worker)
    links: dict[str, str] = {}
    until = time.monotonic() + 5  # while it starts, it reads modules
    while set(links) != {"0", "1", "2"} and time.monotonic() < until:
        with contextlib.suppress(OSError):
            links = {file.name: str(file.readlink()) for file in Path(f"/proc/{guardian}/fd").iterdir()}
    assert links.pop("0").startswith("pipe:")
    assert links == {"1": "/dev/null", "2": "/dev/null"}


def test_the_guardian_leaves_others_alone(make_fleet):
    fleet = make_fleet()
    mine = subprocess.Popen(["sleep", "60"], env={"SGPU_COOKIE": "x-gpu0-0", "A": fleet.mark[::-1]})
    try:
        worker = fleet.start()["gpu0"]
        fleet.order("/bin/sh", "-c", FAMILY)
        pids = fleet.pids(count=FAMILY_SIZE)
        os.kill(worker, signal.SIGKILL)
        assert fleet.gone(pids)
        assert mine.poll() is None
    finally:
        mine.kill()
        mine.wait()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_controller_that_dies_leaves_nothing(make_fleet, number):
    fleet = make_fleet(0)
    controller = _controller(fleet, "wait")
    workers = [int(controller.stdout.readline()) for _ in range(2)]
    pids = fleet.pids(count=FAMILY_SIZE)
    guardians = [pid for worker in workers for pid in guardians_of(worker)]
    controller.send_signal(number)
    try:
        assert fleet.gone([*workers, *pids, *guardians])
    finally:
        controller.kill()
        controller.communicate()


@pytest.mark.parametrize("how", ["", "close"])
def test_a_controller_ends_without_a_word(make_fleet, how):
    fleet = make_fleet(0)
    controller = _controller(fleet, how)
    workers = [int(controller.stdout.readline()) for _ in range(2)]
    pids = fleet.pids(count=FAMILY_SIZE)
    (fleet.folder / "leave").touch()
    out, err = controller.communicate(timeout=20)
    assert (controller.returncode, out, err) == (0, b"end\n", b"")
    assert fleet.gone([*workers, *pids])


def test_a_controller_without_standard_streams(make_fleet):
    fleet = make_fleet(0)
    env = {**os.environ, "HOW": "close", "PYTHONPATH": str(Path(__file__).parents[2])}
    shell = 'exec "$0" "$@" <&- >&- 2>&-'
    argv = ["sh", "-c", shell, sys.executable, "-c", CONTROLLER, str(fleet.folder), fleet.mark, FAMILY]
    controller = subprocess.Popen(argv, env=env)
    try:
        pids = fleet.pids(count=FAMILY_SIZE)
        (fleet.folder / "leave").touch()
        assert controller.wait(20) == 0
    finally:
        controller.kill()
        controller.wait()
    assert fleet.gone(pids)


# ---------------------------------------------------------------- closing


def test_close_ends_items_and_children(make_fleet):
    fleet = make_fleet(2)
    workers = fleet.start()
    fleet.order("/bin/sh", "-c", FAMILY)
    pids = fleet.pids(count=FAMILY_SIZE)
    guardians = [pid for worker in workers.values() for pid in guardians_of(worker)]
    began = time.monotonic()
    fleet.gateways.close(grace=0.2)
    assert time.monotonic() - began < 3
    assert fleet.gone([*workers.values(), *pids, *guardians], 0.0)
    fleet.gateways.close()  # a second time is nothing


def test_close_gives_the_grace(make_fleet):
    fleet = make_fleet()
    fleet.start()
    fleet.order("/bin/sh", "-c", "trap 'echo bye; exit' TERM; echo $$ > pids; while :; do sleep 0.01; done")
    fleet.pids()
    fleet.gateways.close(grace=10.0)
    assert (fleet.folder / "1.log").read_bytes().endswith(b"bye\n")


def test_close_does_not_wait_for_a_stopped_worker(make_fleet):
    fleet = make_fleet()
    worker = fleet.start()["gpu0"]
    fleet.order("/bin/sh", "-c", FAMILY)
    pids = fleet.pids(count=FAMILY_SIZE)
    os.kill(worker, signal.SIGSTOP)
    began = time.monotonic()
    fleet.gateways.close()
    assert time.monotonic() - began < 5
    assert fleet.gone([worker, *pids])


def test_close_while_one_is_starting(make_fleet):
    fleet = make_fleet(python="sh -c 'exec sleep 60'")
    fleet.gateways.respawn(fleet.workers[0])
    fleet.gateways.close()
    assert fleet.gateways.next_event(0.1) is None


def test_nothing_leaks_over_many_generations(make_fleet):
    fleet = make_fleet()
    fleet.start()
    fleet.gateways.close()
    before = len(list(Path("/proc/self/fd").iterdir())), threading.active_count()
    for generation in range(5):
        worker = Worker("gpu0", (), generation + 1)
        fleet.gateways.respawn(worker)
        fleet.next(WorkerReady)
        fleet.run("true", worker=worker)
        fleet.gateways.close()
    assert (len(list(Path("/proc/self/fd").iterdir())), threading.active_count()) == before


def test_gateways_need_no_device(make_fleet):
    assert isinstance(make_fleet(0).gateways, Gateways)
    make_fleet(0).gateways.start()
