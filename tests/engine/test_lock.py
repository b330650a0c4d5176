"""The lock: one holder at a time, whoever it is, and none that is dead."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from pytest_sgpu.engine.lock import Lock

HOLD = "import fcntl, os, sys, time; f = open(sys.argv[1], 'a'); fcntl.flock(f, fcntl.LOCK_EX); print(flush=True); "


@pytest.fixture
def path(tmp_path):
    return tmp_path / "x.lock"


@pytest.fixture
def other(path) -> Iterator[subprocess.Popen[str]]:
    """Give another process that holds the lock, and knows nothing of us."""
    argv = [sys.executable, "-c", HOLD + "time.sleep(60)", str(path)]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.readline()
    yield process
    process.kill()
    process.communicate()


def test_one_holds_it_and_gives_it_back(path):
    one, two = Lock(path), Lock(path)
    assert two.free()
    assert not path.exists()  # who only looks makes nothing
    assert one.take()
    assert one.held
    assert not two.free()
    assert not two.take()
    assert not two.take(0.05)
    one.release()
    one.release()
    assert (one.held, two.free(), two.take()) == (False, True, True)
    two.release()
    assert path.exists()


def test_another_process_is_waited_for(path, other):
    lock = Lock(path)
    assert not lock.take()
    began = time.monotonic()
    assert not lock.take(0.3)
    assert time.monotonic() - began >= 0.3
    other.kill()
    assert lock.take(60.0)


def test_a_frozen_holder_holds_it(path, other):
    os.kill(other.pid, signal.SIGSTOP)
    assert not Lock(path).free()
    assert not Lock(path).take()


def test_what_is_in_the_file_decides_nothing(path):
    path.write_text(f'{{"pid": {os.getppid()}}}\n')
    lock = Lock(path)
    assert lock.free()
    assert lock.take()


def test_a_lock_of_a_file_that_was_removed_is_no_lock(path):
    one, two = Lock(path), Lock(path)
    assert one.take()
    path.unlink()
    assert two.take()  # the file of that name is another one now
    assert not Lock(path).take()
    one.release()
    assert not Lock(path).take()


def test_a_link_is_removed_and_what_it_leads_to_stays(path, tmp_path):
    precious = tmp_path / "precious"
    precious.write_text("x")
    path.symlink_to(precious)
    lock = Lock(path)
    assert lock.free()
    assert path.is_symlink()
    assert lock.take()
    assert not path.is_symlink()
    assert precious.read_text() == "x"


def test_a_folder_is_no_lock_and_is_moved_aside(path):
    path.mkdir()
    (path / "x").write_text("mine")
    lock = Lock(path)
    assert lock.free()
    assert path.is_dir()  # who only looks changes nothing
    assert lock.take()
    assert path.is_file()
    assert lock.aside is not None
    assert lock.aside.parent == path.parent
    assert (lock.aside / "x").read_text() == "mine"
    assert not Lock(path).take()


@pytest.mark.parametrize("how", ["removed", "another file", "link", "folder"])
def test_whoever_holds_it_sees_that_its_file_is_gone(path, how):
    lock = Lock(path)
    assert (lock.in_place, lock.take(), lock.in_place) == (False, True, True)
    path.rename(path.with_name("old"))
    if how == "another file":
        path.touch()
    elif how == "link":
        path.symlink_to("old")
    elif how == "folder":
        path.mkdir()
    assert (lock.held, lock.in_place) == (True, False)
    lock.release()
    assert (lock.held, lock.in_place) == (False, False)


def test_programs_that_are_started_do_not_keep_it(path):
    lock = Lock(path)
    assert lock.take()
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, close_fds=False)
    lock.release()
    assert Lock(path).take()
    child.communicate(b"\n", timeout=60)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_the_file_of_another_user_can_be_locked(tmp_path_factory):
    import shutil
    import tempfile
    from pathlib import Path

    place = Path(tempfile.mkdtemp())
    place.chmod(0o755)
    path = place / "x.lock"
    mine = Lock(path)
    assert mine.take()
    mine.release()
    try:
        os.setresuid(65534, 65534, 0)
        try:
            lock, again = Lock(path), Lock(path)
            assert lock.take()
            assert not again.take()
            lock.release()
            with pytest.raises(PermissionError):
                Lock(place / "new.lock").take()
        finally:
            os.setresuid(0, 0, 0)
    finally:
        shutil.rmtree(place)
