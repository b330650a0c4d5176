"""Which commit is checked out, and whether files of it were changed since."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

CHANGES = "+changes"
_PATIENCE = 5.0  # seconds for both questions together; a file system that hangs must not hold up a run
# Looking must change nothing, start nothing, and be the same for everybody.
_GIT = ("git", "-c", "core.fsmonitor=false", "-c", "core.untrackedCache=false", "--no-optional-locks")


def head(root: Path, env: Mapping[str, str]) -> str:
    """Give the commit that is checked out in ``root``: 12 digits, and ``+changes`` when tracked files differ.

    "" where there is no git, no repository, or no answer within 5 s. Never fails.
    """
    end = time.monotonic() + _PATIENCE
    commit = _ask(root, env, end, "rev-parse", "--short=12", "--verify", "HEAD")
    if not commit:
        return ""
    changes = _ask(root, env, end, "status", "--porcelain", "--untracked-files=no")
    return commit.strip() + (CHANGES if changes is None or changes.strip() else "")


def _ask(root: Path, env: Mapping[str, str], end: float, *words: str) -> str | None:
    """Give what git says, None when it says nothing of use."""
    with contextlib.suppress(OSError, ValueError, subprocess.SubprocessError):
        done = subprocess.run(
            [*_GIT, *words],
            cwd=root,
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=max(0.1, end - time.monotonic()),
            check=False,
        )
        if done.returncode == 0:
            return done.stdout.decode("utf-8", "replace")
    return None
