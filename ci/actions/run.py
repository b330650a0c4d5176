"""What both actions start: ``python3 -I run.py acquire|guard|cleanup``, from a plain checkout, nothing installed."""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))


def _end_with_parent() -> None:
    """Wait for the end of standard input, which the shim holds open while it lives, and stop as for a signal."""
    try:
        while os.read(0, 4096):
            pass
    except OSError:  # there is none
        return
    os.kill(os.getpid(), signal.SIGTERM)


try:
    from pytest_sgpu.runners.command import main  # found through the line above

    if __name__ == "__main__":
        words = sys.argv[1:]
        if words[-1:] == ["--held"]:  # said by the shim alone
            words.pop()
            threading.Thread(target=_end_with_parent, daemon=True).start()
        sys.exit(main(words))
except KeyboardInterrupt:  # the job is cancelled before anything has begun
    sys.exit(130)
