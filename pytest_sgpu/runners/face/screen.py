"""What the runner commands print: without tokens, never a traceback, and with annotations in a step of GitHub."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Mapping
from typing import TextIO

from pytest_sgpu.runners.text import command_property, command_value, one_line, without

_SHORTEST = 4  # a shorter "token" is none, and would tear holes into every line


class Screen:
    """Prints to the two standard streams. A stream that nobody takes any more is no error: the work goes on."""

    def __init__(self, env: Mapping[str, str]) -> None:
        tokens = {env.get(name, "").strip() for name in ("GITHUB_TOKEN", "INPUT_TOKEN")}
        self._secrets = sorted((token for token in tokens if len(token) >= _SHORTEST), key=len, reverse=True)
        self._annotates = env.get("GITHUB_ACTIONS") == "true"

    def say(self, text: str) -> None:
        """Print ``text`` and a line end."""
        _write(sys.stdout, self._clean(text))

    def flushed(self) -> int:
        """Write what argparse has printed, and give the exit code of that."""
        if sys.stdout is not None:
            try:
                sys.stdout.flush()
            except (OSError, ValueError):
                _silence(sys.stdout)
        return 0

    def complain(self, text: str) -> None:
        """Print ``text`` and a line end where errors go."""
        _write(sys.stderr, self._clean(text))

    def annotate(self, title: str, message: str) -> None:
        """Add an error to the page of the run, in a step of GitHub; elsewhere nothing."""
        if self._annotates:
            shown = command_value(self._clean(one_line(message, 2000)))
            self.say(f"::error title={command_property(self._clean(one_line(title)))}::{shown}")

    def _clean(self, text: str) -> str:
        for secret in self._secrets:
            text = without(secret, text)
        return text


def _write(stream: TextIO | None, text: str) -> None:
    if stream is None:  # closed before this began
        return
    encoding = stream.encoding or "utf-8"
    try:
        stream.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")
        stream.flush()
    except (OSError, ValueError):
        _silence(stream)


def _silence(stream: TextIO) -> None:
    """Send what waits in the buffer nowhere; else the interpreter fails at its own end."""
    with contextlib.suppress(OSError, ValueError):
        shown = stream.fileno()
        nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        os.dup2(nowhere, shown)
        os.close(nowhere)
        stream.flush()
