"""Conf text to suites, with the place and the nearest right word in each error.

One suite a line (spec: queue, 2)::

    <label> <logfile> <mode> <command> [args...]

Words are divided by blanks and quoted as in a shell. ``#`` starts a comment where a word could start.
"""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pytest_sgpu.core.text import printable, shown
from pytest_sgpu.errors import ConfError, OptionError
from pytest_sgpu.model import Mode, Suite

COLUMNS = ("label", "log file", "mode", "command")
MODES = tuple(mode.value for mode in Mode)

_FORM = "a line is: <label> <logfile> <mode> <command> [args...], and <mode> is list or opaque"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]*")
_NAME_RULE = "letters, digits and _ . + - are allowed, the first one a letter or a digit, at most 200 in all"
_LONGEST_NAME = 200  # with .rc and a temporary ending it must stay a file name
_LONGEST_LINE = 10_000
_RC = ".rc"
_CLOSE = 0.5
_WORD = re.compile(r"""[ \t\r]*(?!#)(?:[^ \t\r'"\\]|\\.|'[^']*'|"(?:[^"\\]|\\.)*")+""")


@dataclass(frozen=True, slots=True)
class _Line:
    """A line that says something, and where it stands."""

    conf: str
    number: int
    words: tuple[str, ...]

    def error(self, message: str, hint: str = _FORM) -> ConfError:
        return ConfError(f"{_at(self.conf, self.number)}: {message}", hint)


def parse_all(sources: Iterable[tuple[str, str]]) -> tuple[Suite, ...]:
    """Read conf files, given as (name, text), into the suites of one queue, in order.

    Raises ConfError that starts with ``name:line:``: a missing column, an unknown mode, a label or log
    name with odd characters or used twice in all the files together, quotes that do not close, NUL
    bytes; without a line when no file holds a suite. Whether commands exist is not looked at.
    """
    suites: list[Suite] = []
    labels: dict[str, Suite] = {}
    files: dict[str, Suite] = {}
    confs = []
    for conf, text in sources:
        confs.append(printable(conf))
        for line in _lines(conf, text):
            suite = _suite(line)
            _claim(line, suite, labels, files)
            suites.append(suite)
    if not suites:
        raise ConfError(f"{', '.join(confs) or 'conf'}: no suite at all", _FORM)
    return tuple(suites)


def select(suites: Sequence[Suite], labels: Sequence[str]) -> tuple[Suite, ...]:
    """Keep the suites with these labels (``--sgpu-suites=a,b``), in the order of the conf.

    Raises OptionError for a label that is unknown, empty or there twice, and for no label at all.
    """
    known = [suite.label for suite in suites]
    wanted: set[str] = set()
    for label in (one.strip() for one in labels):
        if label in wanted:
            raise OptionError(f"--sgpu-suites: {shown(label)} is named twice", "name each suite once")
        if not label:
            raise OptionError("--sgpu-suites: an empty label", f"the suites are: {', '.join(known)}")
        if label not in known:
            near = _near(label, known)
            hint = f"did you mean {near}? " if near else ""
            raise OptionError(f"--sgpu-suites: no suite {shown(label)}", f"{hint}the suites are: {', '.join(known)}")
        wanted.add(label)
    if not wanted:
        raise OptionError("--sgpu-suites names no suite", f"the suites are: {', '.join(known)}")
    return tuple(suite for suite in suites if suite.label in wanted)


def place(suite: Suite) -> str:
    """Give where a suite stands, as ``file:line``."""
    return _at(suite.conf, suite.line)


def command_error(suite: Suite, reason: str) -> ConfError:
    """Make the error for a command that cannot be run: not found, not executable."""
    return ConfError(
        f"{place(suite)}: suite {suite.label}: command {shown(suite.command[0])}: {reason}",
        "the command is relative to the pytest root directory, and must be executable (chmod +x)",
    )


def _at(conf: str, number: int) -> str:
    return f"{printable(conf)}:{number}"


def _lines(conf: str, text: str) -> Iterator[_Line]:
    for number, raw in enumerate(text.removeprefix("\ufeff").split("\n"), start=1):
        if "\0" in raw:
            raise _Line(conf, number, ()).error("a NUL byte", "a conf file is plain text")
        if len(raw) > _LONGEST_LINE:
            raise _Line(conf, number, ()).error(f"a line of {len(raw)} characters", f"{_LONGEST_LINE} are the most")
        try:
            words = tuple(shlex.split(_uncommented(raw)))
        except ValueError:
            message = f"a quote that does not close, or a backslash at the end: {shown(raw.rstrip())}"
            raise _Line(conf, number, ()).error(
                message, "each suite stands on one line, quoted as in a shell"
            ) from None
        if raw.rstrip("\r").count("\r") > sum(word.count("\r") for word in words):
            raise _Line(conf, number, ()).error("a carriage return inside the line", "end lines with a line feed")
        if words:
            yield _Line(conf, number, words)


def _uncommented(line: str) -> str:
    """Cut a comment off as a shell does: ``a#b`` and ``'#'`` hold none; that of shlex eats ``#b``."""
    at = 0
    while word := _WORD.match(line, at):
        at = word.end()
    return line[:at] if line[at:].lstrip(" \t\r").startswith("#") else line


def _suite(line: _Line) -> Suite:
    words = line.words
    if len(words) < len(COLUMNS):
        missing = COLUMNS[len(words) :]
        if len(words) == len(COLUMNS) - 1 and words[2] not in MODES and not _near(words[2], MODES):
            missing = ("mode",)  # what stands in its place is a command
        found = " ".join(words)
        raise line.error(f"missing column: {' and '.join(missing)} (found {shown(found)})")
    label, log_name, mode, *command = words
    _check_name(line, "label", label)
    _check_name(line, "log name", log_name)
    if mode not in MODES:
        near = _near(mode, MODES)
        nearest = f", did you mean {near}?" if near else ""
        raise line.error(f"unknown mode {shown(mode)}{nearest}", f"expected {' or '.join(MODES)}; {_FORM}")
    if not command[0]:
        raise line.error("the command is empty")
    return Suite(label, log_name, Mode(mode), tuple(command), line.conf, line.number)


def _check_name(line: _Line, what: str, name: str) -> None:
    if _NAME.fullmatch(name) and len(name) <= _LONGEST_NAME:
        return
    if len(name) > _LONGEST_NAME:
        raise line.error(f"{what} {shown(name)} has {len(name)} characters", _NAME_RULE)
    if what == "label":
        raise line.error(f"label {shown(name)} has characters that a label cannot have", _NAME_RULE)
    rule = f"it becomes suites/<log name> in the log directory: {_NAME_RULE}"
    if "/" in name:
        raise line.error(f"log name {shown(name)} is a path, a bare name is expected", rule)
    raise line.error(f"log name {shown(name)} has characters that it cannot have", rule)


def _claim(line: _Line, suite: Suite, labels: dict[str, Suite], files: dict[str, Suite]) -> None:
    """Take the label and the two files of a suite, unless an earlier suite has them."""
    first = labels.setdefault(suite.label, suite)
    if first is not suite:
        twice = place(first) == place(suite)
        hint = (
            "the same conf file is named twice" if twice else "labels name weights and files: give each suite its own"
        )
        raise line.error(f"label {shown(suite.label)} is used twice, first at {place(first)}", hint)
    for file in (suite.log_name, suite.log_name + _RC):
        first = files.setdefault(file, suite)
        if first is suite:
            continue
        if first.log_name == suite.log_name:
            message = f"log name {shown(suite.log_name)} is used twice, first at {place(first)}"
        else:
            message = (
                f"log name {shown(suite.log_name)} and {shown(first.log_name)} at {place(first)} both need the file "
                f"{shown(file)}: exit codes are kept as <log name>{_RC}"
            )
        raise line.error(message, "give each suite a log name of its own")


def _near(word: str, known: Sequence[str]) -> str:
    return next(iter(difflib.get_close_matches(word.lower(), known, 1, _CLOSE)), "")
