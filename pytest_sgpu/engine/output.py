"""Standard output that nobody takes any more: a closed pipe, a full disk."""

from __future__ import annotations

import contextlib
import os
import sys


def silence() -> None:
    """Send what is still to come, and what waits in the buffer, nowhere; else the interpreter fails at its own end."""
    with contextlib.suppress(OSError, ValueError):
        shown = sys.stdout.fileno()
        nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        os.dup2(nowhere, shown)
        os.close(nowhere)
        sys.stdout.flush()
