"""A folder in which others may have put links, and access to what is below it that follows none of them.

An item runs as the same user as the controller, so it can put a link to anywhere in the place of a folder
or a file of the run directory. Below the folder itself, which may be behind a link of the user's own, every
step is taken from an open folder to a name in it, and never through a link.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, TextIO

from pytest_sgpu.engine.files import aside, is_part, open_regular, replacing
from pytest_sgpu.model import Notice

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_BELOW = _FOLDER | os.O_NOFOLLOW
_IN_THE_WAY = (errno.ELOOP, errno.ENOTDIR)


class Folder:
    """Names are relative, with ``/`` between their parts; ``..`` goes back the way that was come.

    What was in the way of something to be written is taken away, never what it leads to, and told in
    ``notices``. Everything raises OSError.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.notices: list[Notice] = []
        self._root = -1

    def hold(self) -> None:
        """Keep the folder itself open from now on: whatever takes its place later is not used."""
        self._root = os.open(self.path, _FOLDER)

    def close(self) -> None:
        """Let go of it."""
        if self._root >= 0:
            os.close(self._root)
            self._root = -1

    def is_there(self) -> bool:
        """Whether the folder that is held is still the one at its path."""
        try:
            there, mine = self.path.stat(), os.fstat(self._root)
        except OSError:
            return False
        return (there.st_dev, there.st_ino) == (mine.st_dev, mine.st_ino)

    @contextlib.contextmanager
    def _opened(self, parts: list[str], *, make: bool) -> Iterator[int]:
        """Give a handle of the folder that these parts lead to. ``make``: with what is missing or in the way."""
        handles = [os.dup(self._root) if self._root >= 0 else os.open(self.path, _FOLDER)]
        try:
            for number, part in enumerate(parts, start=1):
                if part != "..":
                    handles.append(self._step(handles[-1], parts[:number], make=make))
                elif len(handles) > 1:
                    os.close(handles.pop())
                else:
                    raise _leads_out("/".join(parts))
            yield handles[-1]
        finally:
            for handle in handles:
                os.close(handle)

    def _step(self, within: int, parts: list[str], *, make: bool) -> int:
        name = parts[-1]
        try:
            return os.open(name, _BELOW, dir_fd=within)
        except OSError as error:
            if not make or error.errno not in (errno.ENOENT, *_IN_THE_WAY):
                raise
            if error.errno in _IN_THE_WAY:
                self._take_away(within, name, "/".join(parts))
        with contextlib.suppress(FileExistsError):  # an item may be as quick
            os.mkdir(name, dir_fd=within)
        return os.open(name, _BELOW, dir_fd=within)

    def _take_away(self, within: int, name: str, shown: str) -> None:
        what = _kind(os.stat(name, dir_fd=within, follow_symlinks=False).st_mode)
        os.unlink(name, dir_fd=within)
        self.tell(f"{what} was in the place of this folder; it is a folder again", shown)

    def tell(self, text: str, where: str) -> None:
        """Add a notice, once."""
        notice = Notice(text, where)
        if notice not in self.notices:
            self.notices.append(notice)

    def make(self, name: str) -> None:
        """Make a folder and those above it."""
        with self._opened(_parts(name), make=True):
            pass

    def open(self, name: str) -> BinaryIO:
        """Open a regular file to read its bytes."""
        above, last = _split(name)
        with self._opened(above, make=False) as within:
            return open_regular(last, follow=False, within=within)

    def open_to_append(self, name: str, *, new: bool = False) -> int:
        """Open a file to append to and to read; give its handle. ``new``: it must not be there yet."""
        above, last = _split(name)
        flags = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
        with self._opened(above, make=True) as within:
            handle = os.open(last, flags | (os.O_CREAT | os.O_EXCL if new else 0), 0o666, dir_fd=within)
            if new:
                os.fsync(within)
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            os.close(handle)
            raise OSError(errno.EINVAL, "It is no regular file", str(self.path / name))
        return handle

    def stat(self, name: str) -> os.stat_result:
        """Look at a name, not at what it leads to."""
        above, last = _split(name)
        with self._opened(above, make=False) as within:
            return os.stat(last, dir_fd=within, follow_symlinks=False)

    def is_file(self, name: str) -> bool:
        """Whether this is a regular file, and no link leads to it. A link in its place is told."""
        try:
            mode = self.stat(name).st_mode
        except OSError:
            return False
        if stat.S_ISLNK(mode):
            self.tell("a link is in the place of this file; it is not followed", name)
        return stat.S_ISREG(mode)

    def files(self, name: str, suffix: str) -> list[str]:
        """Give the names of all regular files below a folder that end so, in order."""
        found: list[str] = []
        with contextlib.suppress(OSError), self._opened(_parts(name), make=False) as within:
            for above, _, names, handle in os.fwalk(".", dir_fd=within):
                found += [
                    os.path.normpath(f"{name}/{above}/{one}")
                    for one in names
                    if one.endswith(suffix) and _is_regular(one, handle)
                ]
        return sorted(found)

    def put(self, name: str, data: bytes) -> None:
        """Write a small file in one piece. One that says this already stays as it is: renaming waits for the disk."""
        above, last = _split(name)
        with self._opened(above, make=True) as within:
            try:
                handle = os.open(last, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666, dir_fd=within)
            except FileExistsError:
                handle = -1
        if handle >= 0:
            with os.fdopen(handle, "wb") as stream:
                stream.write(data)
        elif not self._holds(name, data):
            with self.writing(name) as text:
                text.write(data.decode())

    def _holds(self, name: str, data: bytes) -> bool:
        try:
            with self.open(name) as stream:
                return stream.read(len(data) + 1) == data
        except OSError:
            return False

    @contextlib.contextmanager
    def writing(self, name: str) -> Iterator[TextIO]:
        """Open a seekable file that takes its place only when it was written whole."""
        above, last = _split(name)
        with self._opened(above, make=True) as within:
            try:
                mode = os.stat(last, dir_fd=within, follow_symlinks=False).st_mode
            except FileNotFoundError:
                mode = stat.S_IFREG
            try:
                with replacing(last, within) as stream:
                    yield stream
            except OSError as error:
                if is_part(error.filename):
                    error.filename = str(self.path / name)
                raise
        if not stat.S_ISREG(mode):
            self.tell(f"{_kind(mode)} was in the place of this file; it was replaced", name)

    def move(self, name: str, to: str) -> bool:
        """Move a file, a folder or whatever else is there; what stood at the new place goes. False: it is not there."""
        above, last = _split(name)
        above_it, new = _split(to)
        try:
            with self._opened(above, make=False) as source:
                os.stat(last, dir_fd=source, follow_symlinks=False)
                with self._opened(above_it, make=True) as target:
                    self._remove(new, target)
                    os.rename(last, new, src_dir_fd=source, dst_dir_fd=target)
        except FileNotFoundError:
            return False
        return True

    def make_way(self, name: str, *, folders_only: bool = False) -> None:
        """Take away what stands in a place, and tell. What is in a folder is not looked at: it is moved aside.

        So this takes no time, whatever is there. ``folders_only``: the rest will be replaced.
        """
        above, last = _split(name)
        try:
            with self._opened(above, make=False) as within:
                mode = os.stat(last, dir_fd=within, follow_symlinks=False).st_mode
                if stat.S_ISDIR(mode):
                    new = aside(last)
                    os.rename(last, new, src_dir_fd=within, dst_dir_fd=within)
                    self.tell(f"a folder was in this place; it is {new} now", name)
                elif not folders_only:
                    os.unlink(last, dir_fd=within)
                    self.tell(f"{_kind(mode)} was in this place; it was removed", name)
        except OSError as error:
            if error.errno not in (errno.ENOENT, *_IN_THE_WAY):  # else it is not there, or behind a link
                raise

    def clear(self, name: str) -> None:
        """Remove something, whatever it is. A link is removed, never followed."""
        above, last = _split(name)
        with self._opened(above, make=False) as within:
            self._remove(last, within)

    def _remove(self, name: str, within: int) -> None:
        try:
            os.unlink(name, dir_fd=within)
        except FileNotFoundError:
            return
        except OSError as error:
            if error.errno not in (errno.EISDIR, errno.EPERM):
                raise
            shutil.rmtree(f"/proc/self/fd/{within}/{name}")


def _parts(name: str) -> list[str]:
    return [part for part in name.split("/") if part not in ("", ".")]


def _split(name: str) -> tuple[list[str], str]:
    *above, last = _parts(name) or [".."]
    if last == "..":
        raise _leads_out(name)
    return above, last


def _leads_out(name: str) -> OSError:
    return OSError(errno.EXDEV, "It leads out of the folder", name)


def _is_regular(name: str, within: int) -> bool:
    try:
        return stat.S_ISREG(os.stat(name, dir_fd=within, follow_symlinks=False).st_mode)
    except OSError:
        return False


def _kind(mode: int) -> str:
    kinds = {stat.S_IFLNK: "a link", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket", stat.S_IFREG: "a file"}
    return kinds.get(stat.S_IFMT(mode), "a folder" if stat.S_ISDIR(mode) else "a device")
