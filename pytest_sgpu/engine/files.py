"""Files that somebody else may have put there, or that others read: regular ones only, whole or not at all.

An item may leave a pipe where its log was, and a caller may name a device as a table. Opening such a thing
waits for ever, and reading it never ends.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, TextIO

_PART = (".sgpu-", ".part")  # nothing of the file's own name between: that may fill all that a file system takes


def open_regular(path: Path | str, *, follow: bool = True, within: int | None = None) -> BinaryIO:
    """Open a regular file to read its bytes, without ever waiting. ``follow``: through a link as well.

    ``within``: an open folder that the path is relative to. Raises OSError, also for anything that is no
    regular file.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    handle = os.open(path, flags, dir_fd=within)
    mode = os.fstat(handle).st_mode
    if not stat.S_ISREG(mode):
        os.close(handle)
        code = errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL
        raise OSError(code, os.strerror(code) if stat.S_ISDIR(mode) else "It is no regular file", str(path))
    return os.fdopen(handle, "rb")


def read_regular(path: Path, *, most: int) -> bytes:
    """Read a regular file of at most ``most`` bytes. Raises OSError, also for a larger one."""
    with open_regular(path) as stream:
        data = stream.read(most + 1)
    if len(data) > most:
        raise OSError(errno.EFBIG, f"It is larger than {most >> 20} MiB", str(path))
    return data


@contextlib.contextmanager
def replacing(name: str, within: int, *, durable: bool = False) -> Iterator[TextIO]:
    """Open a seekable file that takes the place of ``name`` in the open folder ``within`` when it is whole.

    So a reader sees the old or the new text and nothing between, and a link or a pipe of that name is
    replaced, not written through. ``durable``: it is on the disk before it takes the place. An error leaves
    all as it was. Raises OSError.
    """
    part = secrets.token_hex(8).join(_PART)
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    handle = os.open(part, flags, 0o666, dir_fd=within)
    try:
        with os.fdopen(handle, "w+", encoding="utf-8", errors="backslashreplace", newline="\n") as stream:
            yield stream
            if durable:
                stream.flush()
                os.fsync(stream.fileno())
        os.rename(part, name, src_dir_fd=within, dst_dir_fd=within)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(part, dir_fd=within)
        raise


def aside(name: str) -> str:
    """Give a name beside another one for what stands in its place and is not ours; nothing has it yet."""
    return f"{name}.aside-{secrets.token_hex(4)}"


def is_part(name: object) -> bool:
    """Whether this names a file that was about to take the place of another one."""
    return isinstance(name, str) and name.startswith(_PART[0]) and name.endswith(_PART[1])


def replace(path: Path, text: str) -> None:
    """Replace a file in one step, and for good: what it says is on the disk when this returns."""
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with replacing(path.name, folder, durable=True) as stream:
            stream.write(text)
    finally:
        os.close(folder)


def why(error: Exception) -> str:
    """Give what the system said, without the number and the path."""
    return getattr(error, "strerror", None) or str(error)
