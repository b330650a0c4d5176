"""Access below a folder in which an item may have put anything: no link is followed, whatever is in the way goes."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from pytest_sgpu.engine.folder import Folder
from pytest_sgpu.model import Notice


@pytest.fixture
def outside(tmp_path):
    """Give a folder that nothing may reach, with a file in it."""
    place = tmp_path / "outside"
    place.mkdir()
    (place / "precious").write_text("x")
    yield place
    assert {path.name: path.read_text() for path in place.iterdir()} == {"precious": "x"}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "run").mkdir()
    one = Folder(tmp_path / "run")
    one.hold()
    yield one
    one.close()


def write(folder: Folder, name: str, text: str) -> None:
    with folder.writing(name) as stream:
        stream.write(text)


def read(folder: Folder, name: str) -> bytes:
    with folder.open(name) as stream:
        return stream.read()


def test_names_lead_down_and_back_the_way_they_came(folder):
    write(folder, "a/b/../c/x.txt", "text")
    assert (folder.path / "a" / "b").is_dir()
    assert (folder.path / "a" / "c" / "x.txt").read_text() == "text"
    assert read(folder, "a/c/x.txt") == read(folder, "./a//b/../c/x.txt") == b"text"
    assert folder.notices == []


@pytest.mark.parametrize("name", ["../outside/precious", "a/../../outside/precious", "..", "a/..", "", "."])
def test_no_name_leads_out(folder, outside, name):
    folder.make("a")
    for act in (folder.open, folder.stat, folder.clear, folder.open_to_append):
        with pytest.raises(OSError, match="It leads out of the folder"):
            act(name)
    with pytest.raises(OSError, match="It leads out of the folder"):
        write(folder, name, "mine")
    assert not folder.is_file(name)
    assert folder.path.is_dir()


def test_a_link_in_place_of_a_folder_is_replaced_and_told(folder, outside):
    (folder.path / "suites").symlink_to(outside)
    (folder.path / "report").mkdir()
    (folder.path / "report" / "deep").symlink_to("/")
    write(folder, "suites/precious", "mine")
    write(folder, "report/deep/a/b", "mine")
    assert read(folder, "suites/precious") == read(folder, "report/deep/a/b") == b"mine"
    told = "a link was in the place of this folder; it is a folder again"
    assert folder.notices == [Notice(told, "suites"), Notice(told, "report/deep")]


@pytest.mark.parametrize(("kind", "said"), [("file", "a file"), ("pipe", "a pipe"), ("socket", "a socket")])
def test_whatever_is_in_place_of_a_folder_is_replaced(folder, kind, said, monkeypatch):
    monkeypatch.chdir(folder.path)
    if kind == "socket":
        with socket.socket(socket.AF_UNIX) as one:
            one.bind("items")
    else:
        (folder.path / "items").touch() if kind == "file" else os.mkfifo("items")
    folder.make("items")
    assert (folder.path / "items").is_dir()
    assert folder.notices == [Notice(f"{said} was in the place of this folder; it is a folder again", "items")]


def test_a_folder_that_was_removed_is_made_again(folder):
    folder.make("items/deep")
    folder.make("items/deep")
    assert (folder.path / "items" / "deep").is_dir()
    assert folder.notices == []


@pytest.mark.parametrize("above", ["", "sub/"])
def test_nothing_is_read_through_a_link(folder, outside, above):
    (folder.path / "link").symlink_to(outside / "precious")
    (folder.path / "sub").symlink_to(outside)
    name = f"{above}precious" if above else "link"
    with pytest.raises(OSError, match=r"Too many levels|Not a directory"):
        folder.open(name)
    with pytest.raises(OSError, match=r"Too many levels|Not a directory|It is no"):
        os.close(folder.open_to_append(name) if not above else folder.open_to_append("link"))
    assert not folder.is_file(name)
    assert (folder.path / "link").is_symlink()


def test_a_link_is_told_once(folder, outside):
    (folder.path / "link").symlink_to(outside / "precious")
    assert not folder.is_file("link")
    assert not folder.is_file("link")
    assert folder.notices == [Notice("a link is in the place of this file; it is not followed", "link")]
    assert not folder.is_file("nothing")
    assert len(folder.notices) == 1


def test_writing_replaces_a_link_and_never_writes_through_it(folder, outside):
    (folder.path / "a.rc").symlink_to(outside / "precious")
    os.link(outside / "precious", folder.path / "b.rc")  # another name of the same file
    os.mkfifo(folder.path / "c.rc")
    for name in ("a.rc", "b.rc", "c.rc"):
        write(folder, name, "0\n")
        assert (folder.path / name).read_text() == "0\n"
        assert not (folder.path / name).is_symlink()
    assert folder.notices == [
        Notice("a link was in the place of this file; it was replaced", "a.rc"),
        Notice("a pipe was in the place of this file; it was replaced", "c.rc"),
    ]


def test_a_part_cannot_be_guessed_and_is_never_left(folder):
    with folder.writing("x") as stream:
        stream.write("one")
        (part,) = folder.path.iterdir()
        assert part.name.startswith(".sgpu-")
        assert len(part.name) < 60
    with pytest.raises(ZeroDivisionError), folder.writing("x") as stream:
        stream.write(f"two {1 / 0}")
    assert {path.name: path.read_text() for path in folder.path.iterdir()} == {"x": "one"}


def test_a_file_that_cannot_be_replaced_is_named(folder):
    folder.make("x")
    with pytest.raises(IsADirectoryError) as caught:
        write(folder, "x", "text")
    assert caught.value.filename == str(folder.path / "x")
    assert [path.name for path in folder.path.iterdir()] == ["x"]


def test_a_small_file_is_put_in_one_piece_and_only_when_it_says_something_else(folder, outside):
    folder.put("items/a.rc", b"0\n")
    path = folder.path / "items" / "a.rc"
    first = path.stat().st_ino
    folder.put("items/a.rc", b"0\n")
    assert (path.stat().st_ino, path.read_text()) == (first, "0\n")
    for code in (b"17\n", b"1\n"):
        folder.put("items/a.rc", code)
        assert path.read_bytes() == code
    path.unlink()
    path.symlink_to(outside / "precious")
    folder.put("items/a.rc", b"x")
    assert (path.is_symlink(), path.read_text()) == (False, "x")
    assert [notice.where for notice in folder.notices] == ["items/a.rc"]


def test_only_regular_files_are_found_below(folder, outside):
    for name in ("j/b.xml", "j/deep/er/a.xml", "j/c.txt"):
        write(folder, name, "<x/>")
    (folder.path / "j" / "link.xml").symlink_to("b.xml")
    (folder.path / "j" / "away").symlink_to(outside)
    os.mkfifo(folder.path / "j" / "pipe.xml")
    (folder.path / "j" / "folder.xml").mkdir()
    assert folder.files("j", ".xml") == ["j/b.xml", "j/deep/er/a.xml"]
    assert folder.files("j/away", "precious") == folder.files("nothing", "") == []


def test_moving_takes_what_is_there_as_it_is(folder, outside):
    write(folder, "items/a.log", "first")
    (folder.path / "items" / "link").symlink_to(outside / "precious")
    folder.make("junit/whole/deep")
    assert folder.move("items/a.log", "attempts/1/items/a.log")
    assert folder.move("items/link", "attempts/1/items/link")
    assert folder.move("junit/whole", "attempts/1/junit/whole")
    assert not folder.move("items/a.log", "attempts/2/items/a.log")
    assert not folder.move("nowhere/a.log", "attempts/2/items/a.log")
    assert read(folder, "attempts/1/items/a.log") == b"first"
    assert (folder.path / "attempts" / "1" / "items" / "link").is_symlink()
    assert (folder.path / "attempts" / "1" / "junit" / "whole" / "deep").is_dir()
    assert not (folder.path / "junit" / "whole").exists()


def test_moving_replaces_what_an_item_put_at_the_new_place(folder, outside):
    (folder.path / "attempts").symlink_to(outside)
    write(folder, "a", "first")
    assert folder.move("a", "attempts/1/a")
    folder.make("b/full")
    folder.make("attempts/1/b/of/something")
    assert folder.move("b", "attempts/1/b")
    assert (folder.path / "attempts" / "1" / "b" / "full").is_dir()
    assert not (folder.path / "attempts" / "1" / "b" / "of").exists()


def test_clearing_removes_a_link_and_never_what_it_leads_to(folder, outside):
    (folder.path / "link").symlink_to(outside)
    folder.make("full/of")
    (folder.path / "full" / "link").symlink_to(outside)
    write(folder, "file", "x")
    for name in ("link", "full", "file", "nothing"):
        folder.clear(name)
    assert list(folder.path.iterdir()) == []


def test_a_new_file_to_append_to_must_be_new_and_regular(folder):
    handle = folder.open_to_append("queue/j", new=True)
    os.write(handle, b"one")
    os.close(handle)
    with pytest.raises(FileExistsError):
        folder.open_to_append("queue/j", new=True)
    handle = folder.open_to_append("queue/j")
    os.write(handle, b"two")
    os.close(handle)
    assert read(folder, "queue/j") == b"onetwo"
    os.mkfifo(folder.path / "pipe")
    with pytest.raises(OSError, match="It is no regular file"):
        folder.open_to_append("pipe")


def test_a_folder_that_is_held_stays_the_same_one(folder, outside):
    assert folder.is_there()
    moved = folder.path.with_name("moved")
    folder.path.rename(moved)
    assert not folder.is_there()
    folder.path.symlink_to(outside)
    write(folder, "x", "text")
    assert (moved / "x").read_text() == "text"
    assert not folder.is_there()


def test_a_folder_that_is_not_held_may_be_behind_a_link(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    one = Folder(tmp_path / "link")
    write(one, "a/x", "text")
    assert (tmp_path / "real" / "a" / "x").read_text() == "text"
    assert not one.is_there()
    one.close()


def handles() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_no_handle_is_left_open(folder):
    before = handles()
    write(folder, "a/b/x", "text")
    read(folder, "a/b/x")
    folder.files("a", "x")
    folder.move("a/b/x", "c/d/x")
    for name in ("../x", "nothing/x"):
        with pytest.raises(OSError, match=r"out of|No such"):
            folder.open(name)
    assert handles() == before
