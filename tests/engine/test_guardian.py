"""What a guardian finds behind a worker that was killed, and what it leaves alone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

from pytest_sgpu.engine import guardian
from pytest_sgpu.engine.events import WorkerGone
from tests.engine.conftest import alive, guardian_of, until

# Drops its environment and leaves the session, twice: nothing marks it but from whom it descends.
UNMARKED = """
env -i setsid sh -c 'echo $$ >> pids; (setsid sh -c "echo \\$\\$ >> pids; exec sleep 60" &) ; sleep 60; :' \\
    < /dev/null > /dev/null 2>&1 &
sleep 60
"""


def _looks(pid):
    """Count how often a process has gone to sleep by itself."""
    text = Path(f"/proc/{pid}/status").read_text()
    return int(text.partition("voluntary_ctxt_switches:")[2].split()[0])


def _looked(pid, times=4):
    """Wait until a guardian that has been told of an item has looked at it a few times."""
    before = _looks(pid)
    return until(lambda: _looks(pid) >= before + times, 15.0)


@pytest.fixture
def family(make_fleet):
    """Give a fleet with an item that leaves nothing to be recognised by; a kill is the test's own."""
    fleet = make_fleet()
    worker = fleet.start()["gpu0"]
    fleet.order("/bin/sh", "-c", UNMARKED)
    pids = fleet.pids(count=2)
    yield fleet, worker, pids
    for pid in pids:
        if alive(pid):
            os.kill(pid, signal.SIGKILL)


def test_what_dropped_its_environment_and_left_the_session_is_found(family):
    fleet, worker, pids = family
    assert _looked(guardian_of(worker))
    os.kill(worker, signal.SIGKILL)
    assert fleet.gone([worker, *pids])
    fleet.next(WorkerGone)


def test_a_guardian_that_was_replaced_knows_it_too(family):
    fleet, worker, pids = family
    first = guardian_of(worker)
    os.kill(first, signal.SIGKILL)
    assert _looked(guardian_of(worker, first))
    os.kill(worker, signal.SIGKILL)
    assert fleet.gone([worker, *pids])


def test_names_say_who_is_who(make_fleet):
    fleet = make_fleet()
    worker = fleet.start()["gpu0"]
    assert Path(f"/proc/{worker}/comm").read_text() == "sgpu-worker\n"
    assert until(lambda: Path(f"/proc/{guardian_of(worker)}/comm").read_text() == "sgpu-guardian\n", 10.0)


@pytest.fixture
def spawn():
    """Start processes of the test's own, and end them."""
    started = []

    def start(env, *argv, **options):
        started.append(subprocess.Popen(argv or ("sleep", "60"), env=env, **options))
        pid = started[-1].pid
        # Until its exec is done it shows the environment of its parent.
        assert until(lambda: Path(f"/proc/{pid}/comm").read_text() in ("sleep\n", "sh\n"), 10.0)
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


@pytest.fixture
def cookie():
    """Give a cookie that no other test of this moment has."""
    return f"{uuid.uuid4().hex}-gpu0-0"


def test_only_a_whole_cookie_counts(spawn, cookie):
    path = {"PATH": os.environ["PATH"]}
    for env in (
        {"SGPU_COOKIE": cookie + "0"},
        {"SGPU_COOKIE": "x" + cookie},
        {"SGPU_COOKIE": cookie[:-1]},
        {"SGPU_COOKIE": f"{cookie}-1:x{cookie}"},
        {"NOTE": f"SGPU_COOKIE={cookie}"},
        {"XSGPU_COOKIE": cookie},
    ):
        spawn({**env, **path})
    ours = [spawn({**env, **path}) for env in ({"SGPU_COOKIE": cookie}, {"SGPU_COOKIE": f"outer:{cookie}:inner"})]
    assert set(guardian.Mark(cookie.encode()).find()) == {process.pid for process in ours}


def test_descendants_of_what_is_found_are_found(spawn, cookie):
    child = "env -i setsid sleep 60 & echo $!; wait"
    parent = spawn({"SGPU_COOKIE": cookie}, "/bin/sh", "-c", child, stdout=subprocess.PIPE)
    pid = int(parent.stdout.readline())
    assert until(lambda: Path(f"/proc/{pid}/comm").read_text() == "sleep\n", 10.0)
    assert set(guardian.Mark(cookie.encode()).find()) == {parent.pid, pid}
    assert guardian.sweep(cookie.encode()) == 2
    assert parent.wait(5) == -signal.SIGKILL
    assert until(lambda: not alive(pid), 5.0)
    parent.stdout.close()


def test_what_was_seen_is_known_again_and_its_number_alone_is_not(spawn, cookie):
    seen, other, leader = (spawn({}, "/bin/sleep", "60", start_new_session=True) for _ in range(3))
    mark = guardian.Mark(cookie.encode())
    look = guardian.look(seen.pid)
    assert look is not None
    mark.known = {seen.pid: look.start, other.pid: b"1"}
    assert set(mark.find()) == {seen.pid}
    mark.sessions = {leader.pid}
    assert set(mark.find()) == {seen.pid, leader.pid}


def test_a_zombie_is_nobody(spawn, cookie):
    process = spawn({"SGPU_COOKIE": cookie}, "/bin/sleep", "60")
    process.kill()
    assert until(lambda: not alive(process.pid), 5.0)
    assert guardian.look(process.pid) is None
    assert guardian.sweep(cookie.encode()) == 0


def test_one_that_is_not_a_child_of_a_worker_ends_at_once(cookie):
    """As the controller calls it, behind a worker whose guardian was killed too."""
    argv = [sys.executable, "-I", "-S", guardian.__file__, "sgpu-guardian", cookie, ""]
    began = time.monotonic()
    assert subprocess.run(argv, stdin=subprocess.DEVNULL, timeout=30, check=False).returncode == 0
    assert time.monotonic() - began < guardian.LIMIT
