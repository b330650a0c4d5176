"""The run directory: whose it is, who holds it, what is cleared, and what may be read from it."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_sgpu.core import journal
from pytest_sgpu.core.redact import Redactor
from pytest_sgpu.engine import store
from pytest_sgpu.engine.folder import Folder
from pytest_sgpu.engine.store import FOLDERS, RunDirectory, replace
from pytest_sgpu.errors import StoreError
from pytest_sgpu.model import Key, Outcome, Status

ROOT = Path(store.__file__).parents[2]
KEY = Key("torch", "a.b")

HOLD = """
import sys, time
from pathlib import Path
from pytest_sgpu.engine.store import RunDirectory
directory = RunDirectory(Path(sys.argv[1]))
directory.open(1700000000.0)
print("held", flush=True)
time.sleep(60)
"""


@pytest.fixture
def place(tmp_path):
    return tmp_path / "deep" / "logs"


@pytest.fixture
def directory(place):
    one = RunDirectory(place)
    one.open(1.0)
    yield one
    one.close()


def tree(place: Path) -> set[str]:
    return {path.relative_to(place).as_posix() for path in place.rglob("*")}


def holder(place: Path) -> subprocess.Popen[str]:
    argv = [sys.executable, "-c", HOLD, str(place)]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()
    assert process.stdout is not None
    process.stdout.close()


@contextlib.contextmanager
def nobody() -> Iterator[None]:
    """Be somebody for whom a read-only directory is one, for a moment: root writes everywhere."""
    if os.geteuid():
        yield
        return
    os.setresuid(65534, 65534, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)


# ---------------------------------------------------------------- check


def test_a_place_that_does_not_exist_is_fine_and_is_not_made(tmp_path):
    RunDirectory(tmp_path / "a" / "b").check()
    assert tree(tmp_path) == set()


def test_a_foreign_directory_with_other_names_in_it_is_fine(tmp_path):
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "x.py").touch()
    (tmp_path / "report").mkdir()  # empty: nothing can be lost
    RunDirectory(tmp_path).check()


@pytest.mark.parametrize("name", FOLDERS)
def test_a_folder_that_no_run_has_left_is_refused(tmp_path, name):
    (tmp_path / name).mkdir()
    (tmp_path / name / "thesis.tex").touch()
    with pytest.raises(StoreError, match=f"{name}: no run of pytest-sgpu has left this") as caught:
        RunDirectory(tmp_path).check()
    assert "--sgpu-log-dir" in caught.value.hint
    assert (tmp_path / name / "thesis.tex").exists()


def test_a_file_or_a_link_of_such_a_name_is_refused_too(tmp_path):
    (tmp_path / "report").write_text("mine")
    with pytest.raises(StoreError, match="report: no run"):
        RunDirectory(tmp_path).check()
    (tmp_path / "report").unlink()
    (tmp_path / "report").symlink_to("/nowhere")
    with pytest.raises(StoreError, match="report: no run"):
        RunDirectory(tmp_path).check()


@pytest.mark.parametrize("mark", ["journal.jsonl", "queue.tsv"])
def test_what_a_run_has_left_is_known_by_its_journal_or_its_plan(tmp_path, mark):
    for name in FOLDERS:
        (tmp_path / name).mkdir()
        (tmp_path / name / "old").touch()
    (tmp_path / "queue" / mark).touch()
    RunDirectory(tmp_path).check()


def test_a_file_in_the_way_is_an_error_that_names_it(tmp_path):
    (tmp_path / "file").touch()
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(StoreError, match=f"{place}: no log directory can be made here: .*file is no directory"):
            RunDirectory(place).check()


def test_a_link_to_nowhere_is_no_directory(tmp_path):
    (tmp_path / "link").symlink_to("nowhere")
    with pytest.raises(StoreError, match="is no directory"):
        RunDirectory(tmp_path / "link").check()


def test_a_name_that_is_too_long_is_an_error_and_no_traceback(tmp_path):
    with pytest.raises(StoreError, match="name too long"):
        RunDirectory(tmp_path / ("x" * 300)).check()


def test_a_read_only_place_is_an_error_before_anything_runs(open_folder):
    (open_folder / "shut").mkdir(mode=0o700)
    if os.geteuid():
        (open_folder / "shut").chmod(0)
    open_folder.chmod(0o555)
    for place in (open_folder, open_folder / "new", open_folder / "shut" / "new"):
        for act in (RunDirectory.check, lambda one: one.open(1.0)):
            with nobody(), pytest.raises(StoreError, match="the log directory cannot be written"):
                act(RunDirectory(place))
    assert tree(open_folder) == {"shut"}


@pytest.fixture
def open_folder():
    """Give a folder that other users can reach."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    folder.chmod(0o700)
    for path in folder.iterdir():
        if path.is_dir():
            path.chmod(0o700)
    shutil.rmtree(folder)


# ---------------------------------------------------------------- open, hold, clear


def test_opening_makes_the_folders_and_the_journal(directory, place):
    assert {name for name in tree(place) if "/" not in name} == {*FOLDERS, ".sgpu.lock", ".sgpu.owner.json"}
    directory.append({"event": "end", "at": 1.0})
    # It is in the file at once: whoever is killed now has lost nothing.
    assert (place / "queue" / "journal.jsonl").read_text() == '{"event":"end","at":1.0}\n'
    assert directory.records() == ([{"event": "end", "at": 1.0}], ())


def test_the_next_run_clears_what_a_run_has_left_and_nothing_else(directory, place):
    for name in FOLDERS:
        (place / name / "old").mkdir()
        (place / name / "old" / "file").write_text("x")
    (place / "mine.txt").write_text("x")
    (place / "other").mkdir()
    directory.append({"event": "end"})
    directory.close()
    again = RunDirectory(place)
    again.check()
    again.open(2.0)
    again.close()
    assert tree(place) == {*FOLDERS, "queue/journal.jsonl", "mine.txt", "other", ".sgpu.lock"}
    assert (place / "queue" / "journal.jsonl").read_text() == ""


def test_clearing_removes_links_and_follows_none(directory, place, tmp_path):
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "data").write_text("x")
    directory.close()
    (place / "items" / "link").symlink_to(precious)
    (place / "setup").rmdir()
    (place / "setup").symlink_to(precious)
    (place / "report").rmdir()
    (place / "report").write_text("a file where a folder was")
    again = RunDirectory(place)
    again.open(2.0)
    again.close()
    assert (precious / "data").read_text() == "x"
    assert list(precious.iterdir()) == [precious / "data"]
    assert not (place / "setup").is_symlink()
    assert (place / "report").is_dir()


def test_whoever_is_killed_while_it_clears_leaves_a_directory_that_is_known(directory, place, monkeypatch):
    (place / "junit" / "x.xml").touch()
    directory.close()

    class KilledError(BaseException):
        pass

    real, seen = Folder.clear, []

    def clear(self, name):
        seen.append(name)
        if name == "junit":
            raise KilledError
        real(self, name)

    monkeypatch.setattr(Folder, "clear", clear)
    victim = RunDirectory(place)
    with pytest.raises(KilledError):
        victim.open(1.0)
    victim.close()
    assert "queue" not in seen
    RunDirectory(place).check()


def test_a_second_process_is_refused_by_name(place):
    process = holder(place)
    try:
        (place / "items" / "running.log").write_text("x")
        ours = RunDirectory(place)
        for act in (ours.check, ours.hold, lambda: ours.open(1.0), lambda: ours.resume(1.0)):
            with pytest.raises(
                StoreError, match=rf"another run uses this log directory \(pid {process.pid} on .*2023-11-1"
            ):
                act()
        ours.close()  # of what it never had: the other one keeps all it has
        assert (place / "items" / "running.log").exists()
        assert json.loads((place / ".sgpu.owner.json").read_text())["pid"] == process.pid
    finally:
        end(process)
    # It died with the lock; a file of a dead process holds nobody up.
    began = time.monotonic()
    after = RunDirectory(place)
    after.open(2.0)
    assert time.monotonic() - began < 5
    after.close()
    assert not (place / ".sgpu.owner.json").exists()


@pytest.mark.parametrize("owner", ["", "{", "[]", '{"pid":1}', '{"pid":1,"host":"h","started":"x"}', "\udc80"])
def test_an_owner_that_cannot_be_told_is_said_so(directory, place, owner):
    (place / ".sgpu.owner.json").write_bytes(owner.encode("utf-8", "surrogateescape"))
    with pytest.raises(StoreError, match="its owner is not known"):
        RunDirectory(place).open(1.0)


def test_a_directory_that_cannot_be_made_is_an_error(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match=r"file.*: the log directory cannot be written: (Not a directory|File exists)"):
        RunDirectory(tmp_path / "file" / "x").open(1.0)


def test_an_error_on_the_way_gives_the_lock_back(place, tmp_path):
    place.mkdir(parents=True)
    (place / ".sgpu.owner.json").mkdir()
    with pytest.raises(StoreError, match=r"\.sgpu\.owner\.json: the log directory cannot be written: Is a directory"):
        RunDirectory(place).open(1.0)
    (place / ".sgpu.owner.json").rmdir()
    one = RunDirectory(place)
    one.open(1.0)
    one.close()


def test_a_file_system_without_locks_is_an_error(place, monkeypatch):
    def acquire(*_args, **_more):
        raise NotImplementedError("no flock here")

    monkeypatch.setattr("filelock.FileLock.acquire", acquire)
    with pytest.raises(StoreError, match=r"logs/\.sgpu\.lock: the log directory cannot be written: No locks available"):
        RunDirectory(place).open(1.0)


def test_closing_twice_or_unopened_does_nothing(directory, place):
    RunDirectory(place).close()
    assert (place / ".sgpu.owner.json").exists()
    directory.close()
    directory.close()
    with pytest.raises(ValueError, match="not open"):
        directory.append({"event": "end"})


# ---------------------------------------------------------------- the journal


@pytest.fixture
def full_disk():
    """Let no file of this process grow beyond 4 kB: the honest way to run out of space."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    def fill():
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))

    yield fill
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    signal.signal(signal.SIGXFSZ, before)


def test_a_journal_on_a_full_disk_is_an_error_and_closes_all_the_same(directory, place, full_disk):
    full_disk()
    with pytest.raises(StoreError, match=r"journal\.jsonl: cannot be written: File too large"):
        _write_much(directory)
    directory.close()
    records, notices = directory.records()
    assert records
    assert notices == ()
    one = RunDirectory(place)
    one.open(1.0)
    one.close()


def _write_much(directory):
    for _ in range(100):
        directory.append({"event": "notice", "text": "x" * 100})


def test_a_journal_that_was_removed_later_is_told(directory, place):
    directory.close()
    (place / "queue" / "journal.jsonl").unlink()
    records, (notice,) = directory.records()
    assert records == []
    assert "the journal of this run cannot be read: No such file" in notice.text
    state, notices = directory.state()
    assert (state, notices) == (journal.RunState(), (notice,))


def test_a_journal_of_any_bytes_is_read(directory, place):
    (place / "queue" / "journal.jsonl").write_bytes(b"\xff\xfe\n" + journal.line({"event": "end"}).encode())
    assert len(directory.records()[0]) == 1


# ---------------------------------------------------------------- places


def test_names_are_safe_for_any_tag(directory, place):
    assert directory.item_log(KEY) == place / "items" / "torch.a.b.log"
    assert directory.item_log(Key("whole")) == place / "items" / "whole.whole.log"
    assert directory.item_log(Key("x", "../../etc/passwd")).parent == place / "items"
    assert directory.setup_log("../x").parent == place / "setup"


def test_an_item_finds_the_folders_that_it_writes_to(directory, place):
    prefix, file = directory.junit_place(KEY)
    assert (prefix, file) == (f"{place}/junit/torch/", place / "junit" / "torch" / "a.b.xml")
    deep_prefix, deep = directory.junit_place(Key("torch", "../x/y"))
    assert deep is not None
    Path(f"{deep_prefix}../x/y.xml").write_text("<a/>")  # as a script does
    assert deep.is_file()
    assert place / "junit" / "torch" in deep.parents
    assert directory.junit_place(Key("whole")) == (f"{place}/junit/whole/", None)
    assert (place / "junit" / "whole").is_dir()
    assert directory.junit_place(KEY)[1] == file


def test_a_folder_that_cannot_be_made_costs_the_item_its_file_and_nothing_else(directory, place):
    (place / "junit" / "torch").write_text("in the way")
    assert directory.junit_place(KEY)[0] == f"{place}/junit/torch/"
    assert directory.junit_files(KEY) == ()


def test_junit_files_are_regular_files_inside(directory, place, tmp_path):
    outside = tmp_path / "outside.xml"
    outside.write_text("<testsuite/>")
    _, file = directory.junit_place(KEY)
    assert file is not None
    assert directory.junit_files(KEY) == ()
    file.symlink_to(outside)
    assert directory.junit_files(KEY) == ()
    file.unlink()
    os.mkfifo(file)
    assert directory.junit_files(KEY) == ()
    file.unlink()
    file.symlink_to(file)
    assert directory.junit_files(KEY) == ()
    file.unlink()
    file.mkdir()
    assert directory.junit_files(KEY) == ()
    file.rmdir()
    file.write_text("<testsuite/>")
    assert directory.junit_files(KEY) == (file,)


def test_an_opaque_item_may_leave_many(directory, place):
    folder = place / "junit" / "whole"
    directory.junit_place(Key("whole"))
    (folder / "sub").mkdir()
    wanted = [folder / "b.xml", folder / "sub" / "a.xml"]
    for path in (*wanted, folder / "c.txt"):
        path.write_text("<testsuite/>")
    (folder / "link.xml").symlink_to("/etc/passwd")
    (folder / "inner.xml").symlink_to(wanted[0])  # a link is none of the item's files, wherever it leads
    (folder / "away").symlink_to("sub")
    assert directory.junit_files(Key("whole")) == tuple(wanted)


def test_a_run_directory_may_itself_be_behind_a_link(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    one = RunDirectory(tmp_path / "link")
    one.check()
    one.open(1.0)
    _, file = one.junit_place(KEY)
    assert file is not None
    file.write_text("<testsuite/>")
    assert one.junit_files(KEY) == (file,)
    one.close()
    assert (tmp_path / "real" / "queue").is_dir()


def test_paths_are_shown_as_people_read_them(directory, place, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert directory.shown(place / "items") == "deep/logs/items"
    assert directory.shown(Path("/etc/passwd")) == "/etc/passwd"
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert directory.shown(place) == str(place)
    os.chdir(tmp_path)


def test_a_tail_is_the_end_of_the_item_and_never_of_its_setup(directory):
    assert directory.tail(KEY) == b""
    assert directory.setup_tail("torch") == b""
    directory.setup_log("torch").write_bytes(b"pip says no\n")
    assert directory.tail(KEY) == b""
    assert directory.setup_tail("torch") == b"pip says no\n"
    assert directory.setup_tail("torch", 3) == b"no\n"
    directory.item_log(KEY).write_bytes(b"x" * 100 + b"end")
    assert directory.tail(KEY, 5) == b"xxend"
    assert directory.tail(KEY).startswith(b"xxx")


def test_a_veil_stands_for_the_end_of_every_log(directory):
    directory.item_log(KEY).write_bytes(b"secret")
    assert not directory.is_veiled
    directory.veil("(left out)")
    assert directory.is_veiled
    assert {directory.tail(KEY), directory.setup_tail("torch"), directory.attempt_tail(KEY, 1)} == {b"(left out)"}


# ---------------------------------------------------------------- replacing


def test_a_replaced_file_is_whole_and_as_readable_as_any_other(directory, place):
    path = directory.write("report/schedule.md", "ä\udc80\n")
    assert path.read_bytes() == "ä".encode() + b"\\udc80\n"
    (place / "plain").write_text("")
    assert path.stat().st_mode == (place / "plain").stat().st_mode
    replace(path, "new")
    assert path.read_text() == "new"
    assert [one.name for one in path.parent.iterdir()] == ["schedule.md"]


def test_a_file_that_cannot_be_replaced_leaves_no_crumbs(directory, place, full_disk):
    (place / "report" / "x").mkdir()
    with pytest.raises(IsADirectoryError):
        directory.write("report/x", "text")
    full_disk()
    with pytest.raises(OSError, match="File too large"):
        directory.write("report/y", "text" * 5000)
    assert [one.name for one in (place / "report").iterdir()] == ["x"]


def test_a_stream_takes_its_place_only_when_it_is_whole(directory, place):
    with directory.writing("report/a.xml") as stream:
        stream.write("one\udc80")
        stream.seek(0)
        assert not (place / "report" / "a.xml").exists()
    assert (place / "report" / "a.xml").read_text() == "one\\udc80"
    with pytest.raises(ZeroDivisionError), directory.writing("report/a.xml") as stream:
        stream.write(f"two {1 / 0}")
    (place / "report" / "b.xml").mkdir()
    with pytest.raises(IsADirectoryError), directory.writing("report/b.xml"):
        pass
    assert sorted(one.name for one in (place / "report").iterdir()) == ["a.xml", "b.xml"]
    assert (place / "report" / "a.xml").read_text() == "one\\udc80"


# ---------------------------------------------------------------- a lock that an item took away


@pytest.fixture
def going_on(place):
    """Give the place of a run that goes on in another process, and that process."""
    argv = [sys.executable, "-c", HOLD.replace("1700000000.0", "time.time()"), str(place)]
    process = subprocess.Popen(argv, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    (place / "queue" / "journal.jsonl").write_text('{"event":"run"}\n')
    yield process
    end(process)


def steal(place: Path, how: str) -> None:
    (place / ".sgpu.lock").unlink()
    if how == "another file":
        (place / ".sgpu.lock").touch()
    elif how == "folder":
        (place / ".sgpu.lock").mkdir()
    elif how == "link":
        (place / ".sgpu.lock").symlink_to("zz")


def freshen(place: Path) -> None:
    os.utime(place / ".sgpu.owner.json")  # as a run does: no test depends on how fast this machine is


@pytest.mark.parametrize("how", ["removed", "another file", "folder", "link"])
def test_nobody_is_let_in_while_the_owner_lives(place, going_on, how):
    steal(place, how)
    for act in (RunDirectory.check, lambda one: one.open(5.0), lambda one: one.resume(5.0), RunDirectory.hold):
        freshen(place)
        one = RunDirectory(place)
        with pytest.raises(StoreError, match=f"another run uses this log directory .pid {going_on.pid} on "):
            act(one)
        assert not one.is_held
    assert (place / "queue" / "journal.jsonl").read_text() == '{"event":"run"}\n'
    assert json.loads((place / ".sgpu.owner.json").read_text())["pid"] == going_on.pid


@pytest.mark.parametrize("change", ["dead", "zombie", "old sign", "another host", "a younger process", "ourselves"])
def test_an_owner_that_is_none_keeps_nobody_out(place, going_on, change):
    steal(place, "removed")
    text = json.loads((place / ".sgpu.owner.json").read_text())
    if change == "another host":
        text["host"] = "elsewhere.invalid"
    elif change == "a younger process":  # it has the number of one that is gone
        text["started"] -= 60.0
    elif change == "ourselves":
        text |= {"pid": os.getpid(), "started": time.time()}
    elif change == "dead":
        going_on.kill()
        going_on.wait()
    elif change == "zombie":
        going_on.kill()
        os.waitid(os.P_PID, going_on.pid, os.WEXITED | os.WNOWAIT)
    (place / ".sgpu.owner.json").write_text(json.dumps(text))
    if change == "old sign":
        os.utime(place / ".sgpu.owner.json", (time.time() - 60.0,) * 2)
    RunDirectory(place).check()
    with contextlib.closing(RunDirectory(place)) as one:
        one.open(5.0)
        assert one.is_held


def test_a_folder_in_the_place_of_the_lock_is_moved_away_by_a_later_run(place):
    place.mkdir(parents=True)
    (place / ".sgpu.lock").mkdir()
    (place / ".sgpu.lock" / "x").write_text("mine")
    RunDirectory(place).check()
    with contextlib.closing(RunDirectory(place)) as one:
        one.open(5.0)
        (notice,) = one.notices
        (moved,) = place.glob(".sgpu.lock.aside-*")
        assert str(notice) == f".sgpu.lock: a folder was in this place; it is {moved.name} now"
        assert (moved / "x").read_text() == "mine"
        assert not RunDirectory(place)._lock.free()


@pytest.mark.parametrize("when", ["beat", "state", "confirm"])
def test_a_run_says_once_that_its_lock_is_gone(directory, place, when):
    directory.append({"event": "run", "started": time.time()})
    directory._owner._beaten -= 1.0
    directory.beat()
    directory.state()
    directory.confirm()
    assert directory.notices == []
    steal(place, "another file")
    for _ in range(2):
        directory._owner._beaten -= 1.0
        {"beat": directory.beat, "state": directory.state, "confirm": directory.confirm}[when]()
    (notice,) = directory.notices
    assert str(notice).startswith(".sgpu.lock: the lock of this run was removed or replaced while it went on")


def test_an_owner_file_that_was_removed_comes_back_with_the_next_sign(directory, place):
    before = (place / ".sgpu.owner.json").read_text()
    (place / ".sgpu.owner.json").unlink()
    directory._owner._beaten -= 1.0
    directory.beat()
    assert (place / ".sgpu.owner.json").read_text() == before
    (place / ".sgpu.owner.json").unlink()
    (place / ".sgpu.owner.json").write_text("of another run")
    directory._owner._beaten -= 1.0
    directory.beat()
    assert (place / ".sgpu.owner.json").read_text() == "of another run"


# ---------------------------------------------------------------- a run that was cut off


def owner(place: Path) -> tuple[str, float]:
    path = place / ".sgpu.owner.json"
    return path.read_text(), path.stat().st_mtime


@pytest.fixture
def killed(place):
    """Give the place of a run whose process was killed, a while ago."""
    process = holder(place)
    (place / "queue" / "journal.jsonl").write_text('{"event":"run"}\n{"event":"notice","te')
    (place / "items" / "torch.a.b.log").write_text("x")
    end(process)
    os.utime(place / ".sgpu.owner.json", (1_700_001_204.0, 1_700_001_204.0))
    return place


def test_a_sign_of_life_is_given_at_most_once_a_second(directory, place):
    long_ago = 1_700_000_000.0
    directory.beat()
    first = directory.last_sign()
    assert first is not None
    assert abs(first - time.time()) < 60
    os.utime(place / ".sgpu.owner.json", (long_ago, long_ago))
    directory.beat()
    assert directory.last_sign() == long_ago
    directory._owner._beaten -= 1.0
    directory.beat()
    assert directory.last_sign() != long_ago


def test_a_sign_of_life_follows_no_link(directory, place, tmp_path):
    precious = tmp_path / "precious"
    precious.write_text("x")
    os.utime(precious, (1.0, 1.0))
    (place / ".sgpu.owner.json").unlink()
    (place / ".sgpu.owner.json").symlink_to(precious)
    directory.beat()
    assert precious.stat().st_mtime == 1.0
    directory.close()
    assert precious.read_text() == "x"


def test_a_run_that_ended_gives_no_sign(directory):
    directory.close()
    assert directory.last_sign() is None
    assert RunDirectory(directory.path).last_sign() is None


def test_where_no_run_is_there_is_nothing_to_hold(place):
    one = RunDirectory(place)
    assert not one.holds_run
    for act in (one.hold, lambda: one.resume(1.0)):
        with pytest.raises(StoreError, match=r"no run has left its journal here \(queue/journal\.jsonl\)"):
            act()
    assert not place.exists()
    (place / "queue").mkdir(parents=True)
    (place / "queue" / "journal.jsonl").symlink_to("/etc/passwd")
    assert not one.holds_run


@pytest.mark.parametrize("act", [RunDirectory.hold, lambda one: one.resume(5.0)])
def test_who_only_looks_leaves_all_as_it_was(killed, act):
    before = {path: path.read_bytes() for path in killed.rglob("*") if path.is_file()}
    was = owner(killed)
    one = RunDirectory(killed)
    act(one)
    assert one.is_held
    assert one.last_sign() == 1_700_001_204.0
    assert json.loads(owner(killed)[0])["pid"] == os.getpid()
    assert owner(killed)[1] == 1_700_001_204.0  # whoever is killed here has not hidden when the run was
    one.beat()
    assert one.state()[0].ended is False
    one.close()
    assert owner(killed) == was
    assert {path: path.read_bytes() for path in killed.rglob("*") if path.is_file()} == before
    assert not one.is_held


def test_a_run_goes_on_where_it_was_cut_off(killed):
    one = RunDirectory(killed)
    one.resume(5.0)
    one.append(journal.resume_record(started=5.0, at=1204.0))
    text = (killed / "queue" / "journal.jsonl").read_text()
    assert text.startswith('{"event":"run"}\n{"event":"resume",')
    assert json.loads(owner(killed)[0]) == {"pid": os.getpid(), "host": socket.gethostname(), "started": 5.0}
    assert owner(killed)[1] > 1_700_001_204.0
    assert (killed / "items" / "torch.a.b.log").exists()
    assert len(one.state()[0].parts) == 2
    with pytest.raises(StoreError, match=f"another run uses this log directory .pid {os.getpid()} on "):
        RunDirectory(killed).resume(6.0)
    one.close()
    assert not (killed / ".sgpu.owner.json").exists()


def test_a_record_of_who_only_looks_does_not_make_it_his(killed):
    was = owner(killed)
    one = RunDirectory(killed)
    one.hold()
    one.append(journal.learned_record([KEY]))
    one.sync()
    one.close()
    assert owner(killed) == was
    assert (killed / "queue" / "journal.jsonl").read_text().endswith('\n{"event":"learned","keys":["torch/a.b"]}\n')


def test_a_run_that_ended_by_itself_can_be_looked_at(directory, place):
    directory.append({"event": "end", "at": 1.0})
    directory.close()
    one = RunDirectory(place)
    one.hold()
    assert one.last_sign() is None
    one.close()
    assert not (place / ".sgpu.owner.json").exists()


def test_a_directory_that_was_taken_away_is_an_error(directory, place):
    directory.append({"event": "run"})
    shutil.rmtree(place)
    with pytest.raises(StoreError, match="something removed or replaced this run directory while the run went on"):
        directory.state()
    directory.sync()
    directory.close()


def test_a_journal_that_an_item_removed_comes_back(directory, place):
    directory.append({"event": "run"})
    (place / "queue" / "journal.jsonl").unlink()
    state, notices = directory.state()
    assert (len(state.parts), notices) == (1, ())
    assert (place / "queue" / "journal.jsonl").read_text() == '{"event":"run"}\n'
    assert [notice.where for notice in directory.notices] == ["queue/journal.jsonl"]


def test_a_journal_that_was_shortened_is_an_error(directory, place):
    directory.append({"event": "run"})
    (place / "queue" / "journal.jsonl").write_text("")
    directory.append({"event": "end", "at": 1.0})
    with pytest.raises(StoreError, match="something cut off the journal while the run went on"):
        directory.state()
    directory.close()
    assert directory.state()[0].ended


def test_a_run_that_goes_on_knows_when_its_journal_is_shortened(killed):
    one = RunDirectory(killed)
    one.resume(5.0)
    one.append(journal.resume_record(started=5.0, at=1204.0))
    assert len(one.state()[0].parts) == 2
    (killed / "queue" / "journal.jsonl").write_text('{"event":"run"}\n')
    with pytest.raises(StoreError, match="something cut off the journal"):
        one.state()
    one.close()


def test_a_journal_that_cannot_be_synced_is_an_error(directory, monkeypatch):
    def fdatasync(_):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    directory.sync()
    monkeypatch.setattr("pytest_sgpu.engine.journal_file.os.fdatasync", fdatasync)
    with pytest.raises(StoreError, match=r"journal\.jsonl: cannot be written: Input/output error"):
        directory.sync()


def test_secrets_are_in_no_record(place):
    one = RunDirectory(place, Redactor({"API_TOKEN": "correct-horse-battery"}))
    one.open(1.0)
    outcome = Outcome(KEY, Status.FAILED, 1, 0.0, 1.0, reason="said correct-horse-battery")
    one.append(journal.outcome_record(outcome))
    one.append({"event": "stop", "reason": "x", "more": [{"a": ["correct-horse-battery"]}]})
    one.close()
    text = (place / "queue" / "journal.jsonl").read_text()
    assert "horse" not in text
    assert "said ***" in text


# ---------------------------------------------------------------- attempts


def test_an_attempt_keeps_its_files_and_leaves_the_place_to_the_next(directory, place):
    _, file = directory.junit_place(KEY)
    for number in (1, 2):
        directory.item_log(KEY).write_text(f"log {number}")
        directory.write_code(KEY, number)
        file.write_text(f"<testsuite name='{number}'/>")
        Path(f"{file}.partial").touch()
        (place / "junit" / "torch" / "a.b.c.xml").write_text("of another item")
        directory.archive(KEY, number)
        assert not directory.item_log(KEY).exists()
        assert not file.exists()
    directory.item_log(KEY).write_text("log 3")
    for number in (1, 2):
        log = place / "attempts" / str(number) / "items" / "torch.a.b.log"
        assert directory.attempt_log(KEY, number) == log
        assert log.read_text() == f"log {number}"
        assert Path(f"{log}.rc").read_text() == f"{number}\n"
        xml = place / "attempts" / str(number) / "junit" / "torch" / "a.b.xml"
        assert directory.attempt_junit_files(KEY, number) == (xml,)
        assert xml.read_text() == f"<testsuite name='{number}'/>"
        assert directory.attempt_tail(KEY, number, 1) == str(number).encode()
    assert (place / "junit" / "torch" / "a.b.c.xml").exists()
    assert directory.item_log(KEY).read_text() == "log 3"
    assert directory.notices == []


def test_an_attempt_at_an_opaque_suite_keeps_its_folder(directory, place):
    key = Key("whole")
    directory.junit_place(key)
    (place / "junit" / "whole" / "deep").mkdir()
    (place / "junit" / "whole" / "deep" / "x.xml").write_text("<testsuite/>")
    directory.archive(key, 1)
    assert directory.junit_files(key) == ()
    assert directory.attempt_junit_files(key, 1) == (place / "attempts" / "1" / "junit" / "whole" / "deep" / "x.xml",)
    directory.junit_place(key)
    assert (place / "junit" / "whole").is_dir()


def test_an_attempt_whose_tag_looks_like_a_path_keeps_its_file(directory, place):
    key = Key("torch", "../x/y")
    prefix, file = directory.junit_place(key)
    Path(f"{prefix}../x/y.xml").write_text("<testsuite/>")
    inside = file.relative_to(place)
    directory.archive(key, 1)
    assert not file.exists()
    assert directory.attempt_junit_files(key, 1) == (place / "attempts" / "1" / inside,)


def test_an_attempt_that_left_nothing_is_no_trouble(directory, place):
    directory.archive(KEY, 1)
    assert list((place / "attempts").iterdir()) == []
    assert (directory.attempt_junit_files(KEY, 1), directory.attempt_tail(KEY, 1)) == ((), b"")


def test_what_cannot_be_kept_is_told_and_stops_nothing(directory, place, tmp_path):
    directory.item_log(KEY).write_text("x")
    directory.write_code(KEY, 1)
    shutil.rmtree(place / "items")
    (place / "items").symlink_to(tmp_path)
    directory.archive(KEY, 1)
    assert [notice.where for notice in directory.notices] == ["items/torch.a.b.log", "items/torch.a.b.log.rc"]
    assert "could not be kept as attempts/1/items/torch.a.b.log: Not a directory" in directory.notices[0].text


# ---------------------------------------------------------------- the places of an attempt


def plant(path: Path, what: str, outside: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if what == "link":
        path.symlink_to(outside)
    elif what == "dangling link":
        path.symlink_to(outside.with_name("nowhere"))
    elif what == "pipe":
        os.mkfifo(path)
    elif what == "folder":
        (path / "deep").mkdir(parents=True)
    elif what == "hard link":
        os.link(outside, path)
    else:
        path.write_text("planted")


PLANTED = ("link", "dangling link", "pipe", "folder", "hard link", "file")
PLACES = [
    (KEY, "items/torch.a.b.log"),
    (KEY, "items/torch.a.b.log.rc"),
    (KEY, "junit/torch/a.b.xml"),
    (KEY, "junit/torch/a.b.xml.partial"),
    (KEY, "junit/torch/a.b.partial"),
    (Key("torch", "x/y"), "junit/torch/x%2Fy.d"),
    (Key("whole"), "junit/whole"),
    (Key("whole"), "items/whole.whole.log"),
]


@pytest.mark.parametrize("where", PLACES, ids=[name for _, name in PLACES])
@pytest.mark.parametrize("what", PLANTED)
def test_what_stands_in_the_places_of_a_first_attempt_is_taken_away(directory, place, tmp_path, where, what):
    key, name = where
    outside = tmp_path / "outside"
    outside.write_text("canary")
    plant(place / name, what, outside)
    directory.make_way(key, 1)
    assert not os.path.lexists(place / name)
    (notice,) = directory.notices
    assert (notice.where, "was in this place; it " in notice.text) == (name, True)
    assert outside.read_text() == "canary"
    directory.make_way(key, 1)
    assert directory.notices == [notice]


@pytest.mark.parametrize("what", PLANTED)
def test_a_further_attempt_finds_its_places_free_too(directory, place, tmp_path, what):
    outside = tmp_path / "outside"
    outside.write_text("canary")
    directory.item_log(KEY).write_text("first")
    plant(place / "junit" / "torch" / "a.b.xml", what, outside)
    (place / "attempts").rmdir()
    (place / "attempts").mkdir()
    (place / "attempts" / "1").mkdir()
    (place / "attempts" / "1" / "junit").mkdir()
    directory.make_way(KEY, 2)
    assert directory.attempt_tail(KEY, 1) == b"first"
    assert not os.path.lexists(place / "junit" / "torch" / "a.b.xml")
    assert not directory.item_log(KEY).exists()
    assert outside.read_text() == "canary"
    assert directory.notices == []


def test_what_could_not_be_archived_is_kept_unless_it_leads_elsewhere(directory, place, tmp_path, monkeypatch):
    def move(*_):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    outside = tmp_path / "outside"
    outside.write_text("canary")
    directory.item_log(KEY).write_text("first")
    plant(place / "junit" / "torch" / "a.b.xml", "hard link", outside)
    os.mkfifo(place / "items" / "torch.a.b.log.rc")
    monkeypatch.setattr(Folder, "move", move)
    directory.make_way(KEY, 2)
    assert directory.item_log(KEY).read_text() == "first"
    assert not (place / "junit" / "torch" / "a.b.xml").exists()
    assert not (place / "items" / "torch.a.b.log.rc").exists()


def test_a_place_behind_a_link_is_not_touched(directory, place, tmp_path):
    (tmp_path / "torch.a.b.log").write_text("precious")
    (place / "items").rmdir()
    (place / "items").symlink_to(tmp_path)
    directory.make_way(KEY, 1)
    assert (tmp_path / "torch.a.b.log").read_text() == "precious"
    assert directory.notices == []  # the folder is put right by whoever writes to it


def test_what_cannot_be_taken_away_is_told_and_stops_nothing(directory, place, monkeypatch):
    def unlink(*_, **__):
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    directory.item_log(KEY).write_text("x")
    monkeypatch.setattr("pytest_sgpu.engine.folder.os.unlink", unlink)
    directory.make_way(KEY, 1)
    (notice,) = directory.notices
    assert str(notice) == (
        "items/torch.a.b.log: this is in the way of an item and cannot be removed: Operation not permitted"
    )


# ---------------------------------------------------------------- links


@pytest.mark.parametrize("name", ["suites", "report", "queue", "items"])
def test_no_file_is_written_through_a_link_of_an_item(directory, place, tmp_path, name):
    precious = tmp_path / "precious"
    precious.mkdir()
    shutil.rmtree(place / name)
    (place / name).symlink_to(precious)
    directory.write(f"{name}/x", "text")
    with directory.writing(f"{name}/y") as stream:
        stream.write("more")
    directory.write_code(KEY, 3)
    assert list(precious.iterdir()) == []
    assert not (place / name).is_symlink()
    assert (place / name / "x").read_text() == "text"
    assert (place / "items" / "torch.a.b.log.rc").read_text() == "3\n"
    assert [str(notice) for notice in directory.notices] == [
        f"{name}: a link was in the place of this folder; it is a folder again"
    ]


def test_a_place_for_junit_files_is_put_right_before_an_item_uses_it(directory, place, tmp_path):
    (place / "junit" / "torch").symlink_to(tmp_path)
    prefix, _ = directory.junit_place(KEY)
    assert not (place / "junit" / "torch").is_symlink()
    Path(f"{prefix}a.b.xml").write_text("<testsuite/>")
    assert not (tmp_path / "a.b.xml").exists()


def test_nothing_outside_is_opened(directory, place, tmp_path):
    (tmp_path / "x").write_text("secret")
    (place / "items" / "torch.a.b.log").symlink_to(tmp_path / "x")
    assert directory.tail(KEY) == b""
    for path in (tmp_path / "x", place / "items" / "torch.a.b.log", place / ".." / "x", "/etc/passwd"):
        with pytest.raises(OSError, match=r"not in the run directory|Too many levels|It leads out"):
            directory.open_file(path)


def test_logs_have_names_of_their_own(directory, place):
    assert directory.health_log("gpu0,gpu1").parent == place / "health"
    assert directory.health_log("../x").parent == place / "health"
    assert directory.attempt_log(Key("x", "1/items"), 2).parent == place / "attempts" / "2" / "items"
