"""The weight file: where it is, and that what runs learn gets into it whatever else goes on."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_sgpu.core import tables, weights
from pytest_sgpu.engine import weight_file
from pytest_sgpu.engine.weight_file import WeightPlace, read_weights, update_weights, weight_place
from pytest_sgpu.model import Key, Scope, WeightTable

ROOT = Path(weight_file.__file__).parents[2]
SCOPE = Scope("cpu", "1")
NAME = "test_weights.cpu.l1.txt"
OTHER = "test_weights.gfx942.l3.txt"
A, B = Key("torch", "a"), Key("torch", "b")


def learned(**seconds):
    def change(table):
        return weights.learn(table, {Key("torch", tag): value for tag, value in seconds.items()})

    return change


def nothing(table):
    return table


def at(path: Path) -> WeightPlace:
    return WeightPlace(path, path)


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


# ---------------------------------------------------------------- where


def test_a_directory_holds_one_table_per_architecture_and_level(tmp_path):
    for option in (tmp_path, tmp_path / "not-there"):
        assert weight_place(option, SCOPE) == (at(option / NAME), ())
    assert names(tmp_path) == set()


def test_a_path_that_ends_in_txt_is_a_file(tmp_path):
    mine = tmp_path / "mine.txt"
    assert weight_place(mine, SCOPE) == (at(mine), ())
    named = tmp_path / "sub" / NAME
    assert weight_place(named, SCOPE) == (at(named), ())
    (tmp_path / "table").touch()  # and so is one that is there
    assert weight_place(tmp_path / "table", SCOPE) == (at(tmp_path / "table"), ())


def test_tables_of_something_else_are_named_and_not_used(tmp_path):
    for name in (OTHER, "test_weights.cpu.l3.txt", "notes.txt"):
        (tmp_path / name).touch()
    place, (notice,) = weight_place(tmp_path, SCOPE)
    assert place == at(tmp_path / NAME)
    assert notice.text == f"no weight table for cpu, level 1; not used: test_weights.cpu.l3.txt, {OTHER}"
    (tmp_path / NAME).touch()
    assert weight_place(tmp_path, SCOPE)[1] == ()


def test_an_explicit_table_of_something_else_is_a_hint_and_is_never_written(tmp_path):
    option = tmp_path / OTHER
    option.write_text("torch/a 7.0\ntorch/b 8.0\n")
    place, (notice,) = weight_place(option, SCOPE)
    assert place == WeightPlace(option, tmp_path / NAME)
    assert "this table is for gfx942, level 3; the run is cpu, level 1" in notice.text
    assert NAME in notice.text
    assert read_weights(place.read, SCOPE)[0].entries == {A: 7.0, B: 8.0}
    table, notices = update_weights(place, SCOPE, learned(a=1.0))
    assert (table.entries, notices) == ({A: 1.0}, ())  # seconds of another GPU have no part in it
    assert option.read_text() == "torch/a 7.0\ntorch/b 8.0\n"
    assert (tmp_path / NAME).read_text() == "torch/a 1.0\n"


def test_a_place_that_may_not_be_looked_at_is_told_when_it_is_read(tmp_path):
    (tmp_path / "file").touch()
    place, notices = weight_place(tmp_path / "file" / "below", SCOPE)
    assert (place, notices) == (at(tmp_path / "file" / "below" / NAME), ())
    table, (notice,), newer = read_weights(place.read, SCOPE)
    assert (table, newer) == (WeightTable(SCOPE), False)
    assert "the weight table cannot be read: Not a directory" in notice.text


# ---------------------------------------------------------------- what


def test_learning_makes_the_file_and_its_folder(tmp_path):
    path = tmp_path / "ci-weights" / NAME
    table, notices = update_weights(at(path), SCOPE, learned(a=2.0, b=4.0))
    assert (table.entries, notices) == ({A: 2.0, B: 4.0}, ())
    assert path.read_text() == "torch/b 4.0\ntorch/a 2.0\n"
    table, _ = update_weights(at(path), SCOPE, learned(a=4.0))
    assert table.entries == {A: 3.0, B: 4.0}
    assert names(path.parent) <= {NAME, f".{NAME}.lock"}


def test_nothing_learned_makes_nothing(tmp_path):
    path = tmp_path / "ci-weights" / NAME
    assert update_weights(at(path), SCOPE, nothing) == (WeightTable(SCOPE), ())
    assert names(tmp_path) == set()


@pytest.mark.parametrize(
    "text",
    [
        "# by hand\n\ntorch/b 4.00\r\ntorch/a 2.04\n",
        "torch/a nonsense\ntorch/b 1\n",
        "torch/b 1.0\ntorch/b 2.0",
        "# pytest-sgpu weights 99\nwhatever it says there",
        "",
    ],
)
def test_a_file_in_which_nothing_changes_stays_byte_for_byte(tmp_path, text):
    path = tmp_path / NAME
    path.write_bytes(text.encode())
    before = path.stat()
    table, _ = update_weights(at(path), SCOPE, nothing)
    assert path.read_bytes() == text.encode()
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert table == read_weights(path, SCOPE)[0]


def test_broken_lines_cost_themselves_and_are_told(tmp_path):
    path = tmp_path / NAME
    path.write_text("torch/b nan\nother/x 3.0\n")
    table, (notice, aside) = update_weights(at(path), SCOPE, learned(a=2.0))
    assert table.entries == {A: 2.0, Key("other", "x"): 3.0}
    assert notice.where == f"{path}:1"
    assert path.read_text() == "other/x 3.0\ntorch/a 2.0\n"
    assert aside.text == f"set aside as {NAME}.damaged"
    assert (tmp_path / f"{NAME}.damaged").read_text() == "torch/b nan\nother/x 3.0\n"


def test_what_was_set_aside_before_stays(tmp_path):
    path = tmp_path / NAME
    for number, name in enumerate([f"{NAME}.damaged", f"{NAME}.damaged.2", f"{NAME}.damaged.3"]):
        path.write_text(f"torch/b nan{number}\n")
        _, notices = update_weights(at(path), SCOPE, learned(a=2.0))
        assert notices[-1].text == f"set aside as {name}"
    kept = {one.name: one.read_text() for one in tmp_path.glob("*.damaged*")}
    assert kept == {
        f"{NAME}.damaged": "torch/b nan0\n",
        f"{NAME}.damaged.2": "torch/b nan1\n",
        f"{NAME}.damaged.3": "torch/b nan2\n",
    }


def test_a_table_that_cannot_be_set_aside_is_not_replaced(tmp_path, monkeypatch):
    monkeypatch.setattr(weight_file, "_ASIDE", 2)
    path = tmp_path / NAME
    for name in (f"{NAME}.damaged", f"{NAME}.damaged.2"):
        (tmp_path / name).symlink_to("nowhere")
    path.write_text("torch/b nan\n")
    _, notices = update_weights(at(path), SCOPE, learned(a=2.0))
    assert "nothing was learned: 2 tables were set aside already" in notices[-1].text
    assert path.read_text() == "torch/b nan\n"
    assert not (tmp_path / "nowhere").exists()


def test_a_full_disk_leaves_the_table_and_no_crumbs(tmp_path, small_files):
    path = tmp_path / NAME
    text = "torch/b nan\n" + "".join(f"torch/x{number} 1.0\n" for number in range(1000))
    path.write_text(text)
    with small_files:
        _, notices = update_weights(at(path), SCOPE, learned(a=2.0))
    assert notices[-1].text == "the weight table cannot be written, nothing was learned: File too large"
    assert path.read_text() == text
    assert names(tmp_path) == {NAME, f".{NAME}.lock"}


@pytest.fixture
def small_files():
    """Let no file of this process grow beyond 4 kB meanwhile: the honest way to run out of space."""

    @contextlib.contextmanager
    def limited():
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
            signal.signal(signal.SIGXFSZ, before)

    return limited()


def test_a_table_of_a_newer_version_is_set_aside_and_not_lost(tmp_path):
    path = tmp_path / NAME
    newer = "# pytest-sgpu weights 2\ntorch/a 3.0 0.1\n"
    path.write_text(newer)
    assert read_weights(path, SCOPE)[2] is True
    table, notices = update_weights(at(path), SCOPE, learned(a=2.0))
    assert table.entries == {A: 2.0}
    assert [notice.text for notice in notices][1:] == [f"set aside as {NAME}.newer"]
    assert (tmp_path / f"{NAME}.newer").read_text() == newer
    assert path.read_text() == "torch/a 2.0\n"


def test_a_link_stays_a_link(tmp_path):
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / NAME).write_text("torch/b 4.0\n")
    (tmp_path / NAME).symlink_to(Path("shared") / NAME)
    update_weights(at(tmp_path / NAME), SCOPE, learned(a=2.0))
    assert (tmp_path / NAME).is_symlink()
    assert (shared / NAME).read_text() == "torch/b 4.0\ntorch/a 2.0\n"


# ---------------------------------------------------------------- who else

LEARNER = """
import sys, time
from pathlib import Path
from pytest_sgpu.core import weights
from pytest_sgpu.engine.weight_file import WeightPlace, update_weights
from pytest_sgpu.model import Key, Scope

path, number = Path(sys.argv[1]), int(sys.argv[2])
print("ready", flush=True)
sys.stdin.readline()
for step in range(5):
    keys = {Key("torch", f"t{number}.{step}"): float(number + 1)}
    table, notices = update_weights(WeightPlace(path, path), Scope("cpu", "1"), lambda old: weights.learn(old, keys))
    assert not notices, notices
"""


def test_ten_runs_that_end_together_lose_nothing(tmp_path):
    path = tmp_path / NAME
    path.write_text("torch/old 9.0\n")
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", LEARNER, str(path), str(number)],
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(10)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    assert [process.communicate(timeout=60) and process.returncode for process in processes] == [0] * 10
    table, notices, _ = tables.parse_weights(path.read_bytes(), NAME, SCOPE)
    assert notices == ()
    expected = {Key("torch", f"t{number}.{step}"): number + 1.0 for number in range(10) for step in range(5)}
    assert table.entries == {**expected, Key("torch", "old"): 9.0}
    assert names(tmp_path) <= {NAME, f".{NAME}.lock"}


def test_a_lock_that_somebody_keeps_is_waited_for_and_then_told(tmp_path):
    path = tmp_path / NAME
    path.write_text("torch/b 4.0\n")
    # Another process holds it with a tool that knows nothing of us.
    words = ["flock", str(tmp_path / f".{NAME}.lock"), "sh", "-c", "echo; read x"]
    held = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert held.stdout is not None
    assert held.stdout.read(1) == b"\n"
    table, (notice,) = update_weights(at(path), SCOPE, learned(a=2.0), patience=0.05)
    held.communicate(timeout=60)
    assert table == WeightTable(SCOPE)
    assert notice.text == "the weight table stayed locked for 0.05 s, nothing was learned"
    assert notice.where == str(path)
    assert path.read_text() == "torch/b 4.0\n"


def test_the_lock_file_of_a_dead_process_holds_nobody_up(tmp_path):
    path = tmp_path / NAME
    lock = str(tmp_path / f".{NAME}.lock")
    script = f"import os, fcntl\nf = open({lock!r}, 'w')\nfcntl.flock(f, fcntl.LOCK_EX)\nos._exit(9)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 9
    (tmp_path / f".{NAME}.lock").write_text(f"{os.getppid()}\n")  # what a lock file holds decides nothing
    table, notices = update_weights(at(path), SCOPE, learned(a=2.0), patience=0.0)
    assert (table.entries, notices) == ({A: 2.0}, ())


@pytest.mark.parametrize("state", ["a file where the folder belongs", "a folder where the file belongs", "no lock"])
def test_a_place_that_cannot_be_written_is_told_and_stops_nothing(tmp_path, state, monkeypatch):
    path = tmp_path / "place" / NAME
    if state.startswith("a file"):
        path.parent.touch()
    elif state.startswith("a folder"):
        path.mkdir(parents=True)
    else:

        def acquire(*_args, **_more):
            raise NotImplementedError("no flock here")

        monkeypatch.setattr("filelock.FileLock.acquire", acquire)
    table, (notice,) = update_weights(at(path), SCOPE, learned(a=2.0), patience=0.5)
    assert table == WeightTable(SCOPE)
    assert notice.text.startswith("the weight table cannot be written, nothing was learned: ")
    assert notice.where == str(path)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
@pytest.mark.parametrize("unreadable", [False, True])
def test_a_read_only_folder_and_an_unreadable_table_are_left_alone(unreadable):
    import shutil
    import tempfile

    folder = Path(tempfile.mkdtemp())
    path = folder / NAME
    try:
        path.write_text("torch/b 4.0\n")
        folder.chmod(0o777 if unreadable else 0o755)
        path.chmod(0o600 if unreadable else 0o644)
        os.setresuid(65534, 65534, 0)
        try:
            table, _, _ = read_weights(path, SCOPE)
            _, (notice,) = update_weights(at(path), SCOPE, learned(a=2.0), patience=0.5)
        finally:
            os.setresuid(0, 0, 0)
        assert table.entries == ({} if unreadable else {B: 4.0})
        assert "nothing was learned" in notice.text
        assert path.read_text() == "torch/b 4.0\n"
    finally:
        shutil.rmtree(folder)


def test_what_is_no_regular_file_is_never_replaced(tmp_path):
    pipe = tmp_path / "pipe.txt"
    os.mkfifo(pipe)
    place = weight_file.WeightPlace(pipe, pipe)
    _, notices = weight_file.update_weights(place, SCOPE, lambda table: weights.learn(table, {Key("s", "a"): 1.0}))
    assert [notice.text for notice in notices] == ["no regular file, so nothing was learned"]
    assert pipe.is_fifo()
    assert list(tmp_path.iterdir()) == [pipe]
