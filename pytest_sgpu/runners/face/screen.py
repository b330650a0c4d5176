"""What the runner commands print: without tokens, never a traceback, and with annotations in a step of GitHub."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Mapping
from typing import TextIO

from pytest_sgpu.runners.text import command_property, command_value, encodable, one_line, without

_SHORTEST = 4  # a shorter "token" is none, and would tear holes into every line


class Screen:
    """Prints to the two standard streams. A stream that nobody takes any more is no error: the work goes on."""

    def __init__(self, env: Mapping[str, str]) -> None:
        tokens = {env.get(name, "").strip() for name in ("GITHUB_TOKEN", "INPUT_TOKEN")}
        self._secrets = sorted((token for token in tokens if len(token) >= _SHORTEST), key=len, reverse=True)
        self._lost = ""
        self._annotates = env.get("GITHUB_ACTIONS") == "true"

    def say(self, text: str) -> None:
        """Print ``text`` and a line end."""
        self._lost = _write(sys.stdout, self._clean(text)) or self._lost

    def flushed(self) -> int:
        """Write what argparse has printed, and give the exit code of that."""
        if sys.stdout is not None:  # else argparse has printed it where errors go
            try:
                sys.stdout.flush()
            except (OSError, ValueError) as error:
                self._lost = _given_up(sys.stdout, error)
        return self.delivered(0)

    def complain(self, text: str) -> None:
        """Print ``text`` and a line end where errors go."""
        _write(sys.stderr, self._clean(text))

    def annotate(self, title: str, message: str, *, level: str = "error", **place: str) -> None:
        """Add an error or a warning to the page of the run, in a step of GitHub; elsewhere nothing.

        ``place``: file, line and col, where there is one.
        """
        if self._annotates:
            known = {**place, "title": title}
            said = ",".join(f"{name}={command_property(self._clean(one_line(text)))}" for name, text in known.items())
            self.say(f"::{level} {said}::{command_value(self._clean(one_line(message, 2000)))}")

    def delivered(self, code: int) -> int:
        """Give the exit code of a command whose work is what it prints: 1 in place of 0 when that was lost."""
        if not self._lost:
            return code
        self.complain(f"output: cannot be written: {self._lost}")
        return code or 1

    def _clean(self, text: str) -> str:
        for secret in self._secrets:
            text = without(secret, text)
        return text


def _write(stream: TextIO | None, text: str) -> str:
    """Write a line; give why it is lost, "" when it is not, or when nobody wants it any more."""
    if stream is None:  # closed before this began
        return "it is closed"
    try:
        stream.write(encodable(text, stream.encoding) + "\n")
        stream.flush()
    except (OSError, ValueError) as error:
        return _given_up(stream, error)
    return ""


def _given_up(stream: TextIO, error: OSError | ValueError) -> str:
    """Let nothing more be written there; give why what was is lost, "" when nobody wants it any more."""
    _silence(stream)
    left = isinstance(error, BrokenPipeError)
    return "" if left else one_line(getattr(error, "strerror", None) or error)


def _silence(stream: TextIO) -> None:
    """Send what waits in the buffer nowhere; else the interpreter fails at its own end."""
    with contextlib.suppress(OSError, ValueError):
        shown = stream.fileno()
        nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        os.dup2(nowhere, shown)
        os.close(nowhere)
        stream.flush()
