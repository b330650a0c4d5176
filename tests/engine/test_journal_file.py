"""The file of the journal: whole lines whatever happens to it, and back in its place when somebody takes it away."""

from __future__ import annotations

import errno
import os
import resource
import signal

import pytest

from pytest_sgpu.engine.folder import Folder
from pytest_sgpu.engine.journal_file import NAME, JournalFile

ONE, TWO = '{"event":"one"}\n', '{"event":"two"}\n'


@pytest.fixture
def folder(tmp_path):
    one = Folder(tmp_path)
    one.hold()
    yield one
    one.close()


@pytest.fixture
def file(folder):
    one = JournalFile(folder)
    one.create()
    yield one
    one.close()


@pytest.fixture
def path(folder):
    return folder.path / NAME


def lines(file: JournalFile) -> list[str]:
    with file.lines() as stream:
        return list(stream)


def test_lines_are_in_the_file_at_once(file, path):
    file.append(ONE)
    assert path.read_text() == ONE
    file.append(TWO)
    assert path.read_text() == ONE + TWO
    file.sync()
    assert lines(file) == [ONE, TWO]
    file.append(ONE)  # reading has not moved the end
    assert path.read_text() == ONE + TWO + ONE


def test_after_it_was_closed_the_file_is_read(file, path):
    file.append(ONE)
    file.close()
    file.close()
    assert not file.is_open
    path.write_text(TWO)
    assert lines(file) == [TWO]
    path.unlink()
    with pytest.raises(FileNotFoundError):
        lines(file)


@pytest.mark.parametrize(
    ("torn", "whole"),
    [
        ("", ""),
        (ONE, ONE),
        (ONE + '{"event":"tw', ONE),
        (ONE + '{"event":"two"}', ONE + TWO),  # it lacks nothing but its end
        ('{"event":"on', ""),
        (ONE + "\0" * 5000, ONE),  # what a file system may leave after a power cut
        (ONE + '{"event":"' + "x" * 200_000, ONE),
        (ONE * 10_000 + "{", ONE * 10_000),
    ],
)
def test_a_torn_last_line_is_mended(file, folder, path, torn, whole):
    file.close()
    path.write_text(torn)
    again = JournalFile(folder)
    again.reopen()
    assert path.read_text() == whole
    again.append(TWO)
    assert path.read_text() == whole + TWO
    again.close()


def test_a_line_that_could_not_be_written_spoils_no_other(file, path):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    file.append(ONE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(OSError, match="File too large"):
            file.append('{"event":"' + "x" * 2000 + '"}\n')
        assert path.stat().st_size == 1000  # as much as there was room for
        file.append(TWO)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)
    assert path.read_text() == ONE + TWO


@pytest.mark.parametrize("how", ["removed", "link", "another file", "folder", "folder replaced"])
@pytest.mark.parametrize("act", ["sync", "lines"])
def test_what_an_item_took_away_is_put_back(file, folder, how, act):
    path, tmp_path = folder.path / NAME, folder.path
    file.append(ONE)
    if how == "folder replaced":
        path.parent.rename(tmp_path / "elsewhere")
        path.parent.symlink_to("elsewhere")
    else:
        path.unlink()
    if how == "link":
        (tmp_path / "precious").write_text("x")
        path.symlink_to(tmp_path / "precious")
    elif how == "another file":
        path.write_text("mine")
    elif how == "folder":
        path.parent.rmdir()
    file.sync() if act == "sync" else lines(file)
    file.append(TWO)
    assert not path.is_symlink()
    assert not path.parent.is_symlink()
    assert path.read_text() == ONE + TWO
    assert lines(file) == [ONE, TWO]
    assert "the journal was removed or replaced while the run went on; it is back" in [n.text for n in folder.notices]
    if how == "link":
        assert (tmp_path / "precious").read_text() == "x"


@pytest.mark.parametrize("act", ["sync", "lines", "confirm"])
def test_a_folder_in_its_place_is_moved_aside_with_all_that_is_in_it(file, folder, path, act):
    file.append(ONE)
    for round_ in (1, 2):
        path.unlink()
        (path / "deep").mkdir(parents=True)
        (path / "deep" / "x").write_text("mine")
        {"sync": file.sync, "lines": lambda: lines(file), "confirm": file.confirm}[act]()
        assert path.read_text() == ONE
        moved = sorted(path.parent.glob("journal.jsonl.aside-*"))
        assert [(one / "deep" / "x").read_text() for one in moved] == ["mine"] * round_
    told = [notice.text for notice in folder.notices]
    assert told.count("the journal was removed or replaced while the run went on; it is back") == 1
    assert f"a folder was in this place; it is {moved[0].name} now" in told
    file.append(TWO)
    assert path.read_text() == ONE + TWO


def test_what_cannot_be_put_back_is_not_lost_to_us(file, folder, path, monkeypatch):
    def rename(*_, **__):
        raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))

    file.append(ONE)
    path.unlink()
    path.mkdir()
    with monkeypatch.context() as patch:
        patch.setattr("pytest_sgpu.engine.folder.os.rename", rename)
        file.sync()
        file.append(TWO)
        assert lines(file) == [ONE, TWO]
        with pytest.raises(OSError, match="busy"):
            file.confirm()
    assert path.is_dir()
    file.confirm()
    assert path.read_text() == ONE + TWO
    file.confirm()


def test_a_file_that_is_gone_with_its_directory_is_not_confirmed(file, tmp_path):
    file.append(ONE)
    moved = tmp_path.with_name("moved")
    tmp_path.rename(moved)
    with pytest.raises(OSError, match="cannot be put back"):
        file.confirm()
    moved.rename(tmp_path)
    file.confirm()


def test_a_directory_that_is_gone_is_not_made_again(file, folder, tmp_path):
    file.append(ONE)
    moved = tmp_path.with_name("moved")
    tmp_path.rename(moved)
    file.sync()
    file.append(TWO)
    assert lines(file) == [ONE, TWO]
    assert not tmp_path.exists()
    moved.rename(tmp_path)


@pytest.mark.parametrize("code", [errno.EINVAL, errno.EIO])
def test_a_disk_that_fails_is_an_error_and_one_that_cannot_sync_is_none(file, monkeypatch, code):
    def fdatasync(_):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr("pytest_sgpu.engine.journal_file.os.fdatasync", fdatasync)
    file.append(ONE)
    if code == errno.EINVAL:
        file.sync()
    else:
        with pytest.raises(OSError, match="Input/output error"):
            file.sync()
