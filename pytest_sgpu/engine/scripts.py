"""Run suite scripts in list mode: what each would run here, and what exists.

The suites are asked side by side, each twice and never more (spec: queue, phase 1).
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

from pytest_sgpu.core import conf
from pytest_sgpu.core.items import MARK, Listing, parse_listing
from pytest_sgpu.core.text import one_line, quoted, shown
from pytest_sgpu.engine import environment, guardian
from pytest_sgpu.engine.processes import Command, Ended, side_by_side
from pytest_sgpu.errors import ListingError
from pytest_sgpu.model import Mode, Suite

_ITEM = MARK.encode()
# A line longer than this is read in pieces; no tag is that long.
_LONGEST_LINE = 1 << 16
_HINT = "with TE_CI_LIST_ITEMS=1 a script prints its item lines, runs nothing, and ends with 0"
_SHELL_ERROR = re.compile(rb"^.*: (?:command )?not found$|^.*\bsyntax error\b.*$", re.IGNORECASE | re.MULTILINE)
_LAST_LINES = 20
_LAST_BYTES = 1 << 16


def resolve(suite: Suite, root: str | Path, env: Mapping[str, str]) -> tuple[str, ...]:
    """Give the command line of a suite with the full path of its program.

    A command with a slash, or one that names a program in ``root``, is relative to ``root``; any other is
    looked up in ``env["PATH"]``. A text file without ``#!`` gets /bin/sh in front of it, as a shell would
    run it. Raises ConfError, with the line of the conf, for what is not there or cannot be run.
    """
    program, fault = _find(suite.command[0], Path(root), env)
    if fault:
        raise conf.command_error(suite, fault)
    return _argv(program, suite.command[1:])


def command(words: Sequence[str], root: str | Path, env: Mapping[str, str]) -> tuple[str, ...]:
    """Give the command line of any other program, by the same rules. Raises ValueError with what is wrong."""
    if not words:
        raise ValueError("no command")
    program, fault = _find(words[0], Path(root), env)
    if fault:
        raise ValueError(f"{shown(words[0])}: {fault}")
    return _argv(program, words[1:])


def _argv(program: Path, arguments: Sequence[str]) -> tuple[str, ...]:
    shell = ("/bin/sh",) if _is_plain_script(program) else ()
    return (*shell, str(program), *arguments)


def _find(name: str, root: Path, env: Mapping[str, str]) -> tuple[Path, str]:
    """Give where a program is, and what is wrong with it, "" when it can be run."""
    here = root / name
    fault = _fault(here)
    if fault and "/" not in name:
        for folder in env.get("PATH", os.defpath).split(os.pathsep):
            there = root / folder / name
            if not _fault(there):
                return there, ""
        if fault == "not found":
            fault = "not found, neither beside the tests nor on PATH"
    return here, fault


def _fault(program: Path) -> str:
    """Say why a path is no program; "" when it is one."""
    try:
        mode = program.stat().st_mode
    except (OSError, ValueError):  # ValueError: a NUL in the name
        return "not found"
    if stat.S_ISDIR(mode):
        return "is a directory"
    return "" if stat.S_ISREG(mode) and os.access(program, os.X_OK) else "not executable"


def _is_plain_script(program: Path) -> bool:
    """Whether the kernel will refuse a file that a shell would run: a text without a first line for it."""
    try:
        with program.open("rb") as file:
            head = file.read(256)
    except OSError:
        return False  # it may be run but not read; so let the kernel look
    return not head.startswith(b"#!") and b"\0" not in head.partition(b"\n")[0]


def list_all(
    suites: Sequence[Suite],
    root: str | Path,
    env: Mapping[str, str],
    *,
    time_limit: float = 600.0,
    parallel: int | None = None,
) -> dict[str, Listing]:
    """List every ``list`` suite twice and give a Listing for each label, in the order of ``suites``.

    ``env`` is the caller's environment, ``time_limit`` is in seconds for one listing, ``parallel`` bounds how
    many run at once (default: twice the number of CPUs). ``known`` is None where the second listing failed.
    Raises ConfError for a script that cannot be run, before any is started, and ListingError that names
    every suite whose first listing failed. Whatever was started has ended then.
    """
    asked = [suite for suite in suites if suite.mode is Mode.LIST]
    cookie = uuid.uuid4().hex
    mark = {"SGPU_COOKIE": ":".join(filter(None, (env.get("SGPU_COOKIE"), cookie)))}
    commands = [
        Command(argv, environment.listing(env, known=known) | mark, Path(root))
        for argv in [resolve(suite, root, env) for suite in asked]
        for known in (False, True)
    ]
    texts: dict[int, str] = {}
    failures: dict[int, str] = {}
    complaints: dict[int, str] = {}
    accounts: dict[int, str] = {}
    running = side_by_side(commands, time_limit=time_limit, parallel=parallel or 2 * (os.cpu_count() or 1))
    with _swept(cookie), contextlib.closing(running):
        for ended in running:
            suite = asked[ended.position // 2]
            if not ended.failure:
                texts[ended.position] = _item_lines(ended.stdout, suite)
                complaints[ended.position] = _complaint(ended.stderr)
                continue
            failures[ended.position] = ended.failure
            if ended.position % 2 == 0:
                accounts[ended.position] = _account(suite, ended)
    if accounts:
        raise ListingError("\n".join(text for _, text in sorted(accounts.items())), _HINT)
    return {
        suite.label: Listing(
            parse_listing(texts[first], suite),
            parse_listing(texts[first + 1], suite) if first + 1 in texts else None,
            failures.get(first + 1, ""),
            complaints.get(first, ""),
        )
        for first, suite in zip(range(0, 2 * len(asked), 2), asked, strict=True)
    }


@contextlib.contextmanager
def _swept(cookie: str) -> Iterator[None]:
    """Kill at the end what a listing left in sessions of its own; what ended with its group costs one look.

    A guardian does the same if this process is killed meanwhile.
    """
    reading, lifeline = os.pipe()
    words = [sys.executable, "-I", "-S", guardian.__file__, cookie, ""]
    null = subprocess.DEVNULL
    watch = subprocess.Popen(words, stdin=reading, stdout=null, stderr=null, cwd="/", start_new_session=True)
    os.close(reading)
    try:
        yield
    finally:
        watch.kill()
        watch.wait()
        os.close(lifeline)
        until = time.monotonic() + guardian.LIMIT
        while guardian.sweep(cookie.encode()) and time.monotonic() < until:
            time.sleep(guardian.PAUSE)


def _item_lines(stdout: IO[bytes], suite: Suite) -> str:
    """Give the lines that begin as item lines do. All else is noise, of any length, and is never held."""
    kept: list[bytes] = []
    for line in _lines(stdout):
        if line.startswith(_ITEM):
            if len(line) >= _LONGEST_LINE:
                raise ListingError(f"{_where(suite)} printed an item line of more than {_LONGEST_LINE} bytes", _HINT)
            kept.append(line)
    return b"".join(kept).decode("utf-8", "surrogateescape")


def _lines(file: IO[bytes]) -> Iterator[bytes]:
    """Give every line, cut at the longest length; what follows in a longer one is passed over."""
    inside = False
    while piece := file.readline(_LONGEST_LINE):
        if not inside:
            yield piece
        inside = not piece.endswith(b"\n")


def _where(suite: Suite) -> str:
    return f"{conf.place(suite)}: suite {suite.label}: {one_line(' '.join(suite.command))}"


def _account(suite: Suite, ended: Ended) -> str:
    """Tell how a listing failed, with the last lines that it printed."""
    parts = [f"{_where(suite)} did not list its items: {ended.failure}"]
    for name, file in (("standard output", ended.stdout), ("standard error", ended.stderr)):
        last = quoted(_tail(file))
        if last:
            parts += [f"  the end of its {name}:", last]
    return "\n".join(parts)


def _complaint(stderr: IO[bytes]) -> str:
    """Give the last thing that a shell said of the script itself: a line that it could not run lists no item."""
    found = _SHELL_ERROR.findall(_tail(stderr))
    return one_line(found[-1].decode("utf-8", "replace"), 200) if found else ""


def _tail(file: IO[bytes]) -> bytes:
    """Give the last lines of a file, or as much of its end as anybody wants to see."""
    end = file.seek(0, os.SEEK_END)
    file.seek(max(0, end - _LAST_BYTES))
    return b"\n".join(file.read(_LAST_BYTES).rstrip().split(b"\n")[-_LAST_LINES:])
