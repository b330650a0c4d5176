"""Reading of files that somebody else may have put there: regular ones only, and only so much of them.

An item may leave a pipe where its log was, and a caller may name a device as a table. Opening such a thing
waits for ever, and reading it never ends.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO


def open_regular(path: Path, *, follow: bool = True) -> BinaryIO:
    """Open a regular file to read its bytes, without ever waiting. ``follow``: through a link as well.

    Raises OSError, also for anything that is no regular file.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    handle = os.open(path, flags)
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
