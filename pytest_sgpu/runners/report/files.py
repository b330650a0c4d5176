"""The files through which a step speaks to GitHub: outputs, state of the post step, summary."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Mapping
from pathlib import Path

from pytest_sgpu.errors import SgpuError
from pytest_sgpu.runners.text import one_line

OUTPUT = "GITHUB_OUTPUT"
STATE = "GITHUB_STATE"
SUMMARY = "GITHUB_STEP_SUMMARY"
SUMMARY_LIMIT = (1 << 20) - 1024  # bytes for all that one step writes; GitHub drops one of 1 MiB whole

_CUT = "\n\n... cut here: a summary holds at most 1 MiB.\n"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_PLAIN = re.compile(r"[^\x00-\x1f\x7f-\x9f\u2028\u2029]*")  # nothing that any reader could take for a line end


def append(env: Mapping[str, str], variable: str, values: Mapping[str, str]) -> None:
    """Append ``values`` to the file that ``env[variable]`` names; without the variable do nothing.

    All of them go in one write, so a process that is killed leaves all or none. A last line of somebody else's that
    has no end gets one. A later value of the same name replaces an earlier one. Raises SgpuError when the file cannot
    be written.
    """
    path = env.get(variable, "")
    if path and values:
        _write(
            variable, path, "".join(_entry(name, value) for name, value in values.items()).encode("utf-8", "replace")
        )


def dashed(state: Mapping[str, str]) -> dict[str, str]:
    """Give the names with dashes, as a shell cannot; of two forms of one name what is not blank, or has dashes."""
    made: dict[str, str] = {}
    for name in sorted(state, key=lambda name: "-" in name):
        known = name.replace("_", "-")
        if state[name].strip() or known not in made:
            made[known] = state[name]
    return made


def summary(env: Mapping[str, str], markdown: str) -> None:
    """Append ``markdown`` to the job summary, cut at a line where GitHub's limit is reached.

    Without ``GITHUB_STEP_SUMMARY`` do nothing. Raises SgpuError when the file cannot be written: a caller who has
    a result must report that first.
    """
    path = env.get(SUMMARY, "")
    if path and markdown:
        text = markdown if markdown.endswith("\n") else markdown + "\n"
        _write(SUMMARY, path, text.encode("utf-8", "replace"), limit=SUMMARY_LIMIT)


def check(env: Mapping[str, str], variable: str) -> None:
    """Raise SgpuError unless the file that ``env[variable]`` names, if any, can be opened to be appended to."""
    path = env.get(variable, "")
    if path:
        _write(variable, path, b"")


def replace(path: str, text: str) -> None:
    """Write ``text`` to a file of the user's, in place of what is there. Raises SgpuError when that is not possible."""
    _write("file", path, text.encode("utf-8", "replace"), flags=os.O_TRUNC)


def _entry(name: str, value: str) -> str:
    assert _NAME.fullmatch(name), "names of outputs and state are ours"
    if _PLAIN.fullmatch(value):
        return f"{name}={value}\n"
    delimiter = _delimiter(value)
    return f"{name}<<{delimiter}\n{value}\n{delimiter}\n"


def _delimiter(value: str) -> str:
    """Give a line that cannot be guessed by who wrote the value, and is not in it."""
    while True:
        delimiter = f"end_{secrets.token_hex(16)}"
        if delimiter not in value:
            return delimiter


def _write(variable: str, path: str, data: bytes, limit: int = 0, flags: int = os.O_APPEND) -> None:
    try:
        # O_NONBLOCK: a pipe that nobody reads is an error at once, not a wait without end.
        handle = os.open(path, os.O_WRONLY | flags | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC, 0o644)
        try:
            size = os.fstat(handle).st_size
            data = b"\n" + data if data and size and _ends_open(path) else data
            data = _cut(data, limit - size) if limit else data
            while data:
                data = data[os.write(handle, data) :]
        finally:
            os.close(handle)
    except (OSError, ValueError) as error:
        reason = one_line(getattr(error, "strerror", None) or error)
        raise SgpuError(f"{variable}: {one_line(path)} cannot be written: {reason}") from None


def _ends_open(path: str) -> bool:
    """Tell whether somebody's last line has no end: what is written next would be glued to it."""
    try:
        with Path(path).open("rb") as stream:
            stream.seek(-1, os.SEEK_END)
            return stream.read(1) != b"\n"
    except OSError:  # it can be written and not read
        return False


def _cut(data: bytes, room: int) -> bytes:
    if len(data) <= room:
        return data
    kept = data[: max(0, room - len(_CUT))]
    kept = kept[: kept.rfind(b"\n") + 1]
    return kept + _CUT.encode() if room >= len(_CUT) else b""
