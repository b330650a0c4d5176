"""Items that stand still: whole trees are stopped, clocks too; what ends meanwhile ends all the same."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pytest_sgpu.engine.events import ItemEnded, ItemStarted, WorkerGone, WorkerReady
from pytest_sgpu.model import Worker
from tests.engine.conftest import until

# Two processes, one of them in a session of its own, that count.
BUSY = """
echo $$ >> pids
setsid sh -c 'echo $$ >> pids; while :; do echo >> far; sleep 0.01; done' < /dev/null > /dev/null 2>&1 &
while ! [ -e go ]; do echo >> near; sleep 0.01; done
kill $!
exit 3
"""
BREEDER = "echo $$ >> pids; while :; do (setsid sh -c 'echo >> near; echo >> near' &) ; done"
# posix_spawn(3) is vfork and exec; what it opens for the child, the child opens between the two.
VFORK = """
import os
print(os.getpid(), file=open("pids", "a"))
gate = (os.POSIX_SPAWN_OPEN, 0, "gate", os.O_RDONLY, 0)
os.waitpid(os.posix_spawn("/bin/sh", ["sh", "-c", "echo through >> pids"], os.environ, file_actions=[gate]), 0)
"""
FAMILY = "setsid sh -c 'trap \"\" TERM; echo $$ >> pids; sleep 60' & echo $$ >> pids; sleep 60"


def _state(pid):
    return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0]


def _all_stand(pids):
    """Say whether all are stopped. A shell that is starting a command sleeps in vfork(2), D, and stops behind that."""
    return {_state(pid) for pid in pids} <= {b"T", b"D"}


def _grows(fleet, *names):
    """Say whether something goes on writing into these files, soon."""
    before = [(fleet.folder / name).stat().st_size for name in names]
    return until(
        lambda: all((fleet.folder / name).stat().st_size > size for name, size in zip(names, before, strict=True)), 10.0
    )


def _stands_still(fleet, *names, seconds=0.5):
    before = [(fleet.folder / name).stat().st_size for name in names]
    time.sleep(seconds)
    return before == [(fleet.folder / name).stat().st_size for name in names]


def test_the_whole_tree_stands_still_and_goes_on(fleet):
    fleet.order("/bin/sh", "-c", BUSY)
    pids = fleet.pids(count=2)
    assert until(lambda: (fleet.folder / "near").exists() and (fleet.folder / "far").exists(), 10.0)
    fleet.gateways.pause()
    assert until(lambda: _all_stand(pids), 10.0)
    assert _stands_still(fleet, "near", "far")
    fleet.gateways.resume()
    assert _grows(fleet, "near", "far")
    (fleet.folder / "go").touch()
    assert fleet.next(ItemEnded).ending.exit_code == 3


def test_what_starts_others_all_the_time_stands_still_too(fleet):
    fleet.order("/bin/sh", "-c", BREEDER)
    fleet.pids()
    assert until((fleet.folder / "near").exists, 10.0)
    fleet.gateways.pause()
    assert _stands_still(fleet, "near")
    fleet.gateways.resume()
    assert _grows(fleet, "near")
    fleet.gateways.kill(fleet.workers[0], "enough", 0.0)
    fleet.next(ItemEnded)
    assert fleet.gone([])


def test_who_waits_in_vfork_for_a_stopped_child_stands_still_too(fleet):
    os.mkfifo(fleet.folder / "gate")  # the child stays before its exec until somebody opens this
    fleet.order(sys.executable, "-c", VFORK)
    parent = fleet.pids()[0]
    assert until(lambda: _state(parent) == b"D", 10.0)
    (child,) = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    fleet.gateways.pause()
    assert until(lambda: _state(child) == b"T", 10.0)
    opened = os.open(fleet.folder / "gate", os.O_RDWR)  # the gate is open, and nobody goes through
    assert _stands_still(fleet, "pids")
    fleet.gateways.resume()
    assert fleet.next(ItemEnded).ending.exit_code == 0
    os.close(opened)
    assert (fleet.folder / "pids").read_text().split() == [str(parent), "through"]


def test_the_clock_of_an_item_stands_still(fleet):
    fleet.order("/bin/sh", "-c", "echo $$ > pids; until [ -e go ]; do sleep 0.05; done", timeout=4.0, stall=4.0)
    fleet.pids()
    fleet.gateways.pause()
    time.sleep(5.0)  # longer than it may take, and be silent
    (fleet.folder / "go").touch()
    fleet.gateways.resume()
    ending = fleet.next(ItemEnded).ending
    assert (ending.exit_code, ending.killed) == (0, "")
    assert ending.seconds < 4.0


def test_what_had_stopped_itself_stays_so(fleet):
    fleet.order("/bin/sh", "-c", "sh -c 'echo $$ >> pids; kill -STOP $$; echo woken' & wait")
    pid = fleet.pids()[0]
    assert until(lambda: _state(pid) == b"T", 10.0)
    for _ in range(2):
        fleet.gateways.pause()
        fleet.gateways.resume()
    assert _state(pid) == b"T"
    os.kill(pid, signal.SIGCONT)
    assert fleet.next(ItemEnded).ending.exit_code == 0
    assert (fleet.folder / "1.log").read_bytes() == b"woken\n"


@pytest.mark.parametrize(("grace", "number"), [(0.0, signal.SIGKILL), (10.0, signal.SIGTERM)])
def test_a_kill_works_while_it_stands_still(fleet, grace, number):
    fleet.order("/bin/sh", "-c", FAMILY, timeout=60.0)
    pids = fleet.pids(count=2)
    fleet.gateways.pause()
    fleet.gateways.kill(fleet.workers[0], "stopped", grace)
    ending = fleet.next(ItemEnded).ending
    assert (ending.killed, ending.signal, ending.left) == ("stopped", number, ())
    assert fleet.gone(pids, 0.0)
    fleet.gateways.resume()
    assert fleet.run("true")[0].ending.exit_code == 0


def test_close_works_while_it_stands_still(fleet):
    fleet.order("/bin/sh", "-c", FAMILY)
    pids = fleet.pids(count=2)
    fleet.gateways.pause()
    fleet.gateways.close()
    assert fleet.gone(pids, 0.0)


def test_what_is_handed_out_meanwhile_waits(fleet):
    fleet.gateways.pause()
    fleet.order("/bin/sh", "-c", "echo ran")
    assert fleet.gateways.next_event(0.5) is None
    fleet.gateways.resume()
    fleet.next(ItemStarted)
    assert fleet.next(ItemEnded).ending.exit_code == 0


def test_a_worker_that_starts_meanwhile_stands_still_too(make_fleet):
    fleet = make_fleet()
    fleet.start()
    fleet.gateways.pause()
    late = Worker("late", ())
    fleet.gateways.respawn(late)
    fleet.next(WorkerReady)
    fleet.order("true", worker=late)
    assert fleet.gateways.next_event(0.5) is None
    fleet.gateways.resume()
    assert fleet.next(ItemEnded).worker == late


def test_nobody_is_missed_while_all_stands_still(make_fleet):
    fleet = make_fleet(2, beat=0.1, silence=1.0, deadman=1.5)
    fleet.start()
    fleet.order("/bin/sh", "-c", FAMILY)
    fleet.pids(count=2)
    fleet.gateways.pause()
    time.sleep(4.0)  # longer than anybody may be silent
    fleet.gateways.resume()
    fleet.gateways.kill(fleet.workers[0], "enough", 0.0)
    while not isinstance(event := fleet.gateways.next_event(15), ItemEnded):
        assert not isinstance(event, WorkerGone)
    assert event.ending.killed == "enough"
    assert fleet.run("true", worker=fleet.workers[1])[0].ending.exit_code == 0


def test_a_second_pause_is_none(fleet):
    fleet.order("/bin/sh", "-c", BUSY)
    fleet.pids(count=2)
    fleet.gateways.pause()
    fleet.gateways.pause()
    fleet.gateways.resume()
    fleet.gateways.resume()
    (fleet.folder / "go").touch()
    assert fleet.next(ItemEnded).ending.exit_code == 3


CONTROLLER = """
import os, sys, time
from pytest_sgpu.engine.gateways import Gateways, ItemRun
from pytest_sgpu.model import Worker

folder, mark, family = sys.argv[1:]
worker = Worker("gpu0", ())
gateways = Gateways([worker], env={**os.environ, "SGPU_TEST_MARK": mark}, cwd=folder, clock=time.monotonic)
gateways.start()
gateways.run(worker, ItemRun("a", ("/bin/sh", "-c", family), folder + "/a.log"))
while not os.path.exists(folder + "/pause"):
    time.sleep(0.005)
gateways.pause()
print("paused", flush=True)
os.kill(os.getpid(), 19)
"""


def test_a_controller_that_ends_while_all_stands_still_leaves_nothing(make_fleet):
    fleet = make_fleet(0)
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    argv = [sys.executable, "-c", CONTROLLER, str(fleet.folder), fleet.mark, FAMILY]
    with subprocess.Popen(argv, env=env, stdout=subprocess.PIPE) as controller:
        try:
            pids = fleet.pids(count=2)
            (fleet.folder / "pause").touch()
            assert controller.stdout is not None
            assert controller.stdout.readline() == b"paused\n"
            assert until(lambda: _state(controller.pid) == b"T", 10.0)
            assert until(lambda: _all_stand(pids), 10.0)
            controller.kill()
            assert fleet.gone(pids)
        finally:
            controller.kill()
