"""Cuts a rollout text into settings and user lines, and takes off what Markdown puts around them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pytest_sgpu.runners.routing.problems import Problem, shown

SEPARATOR = "---"
MOST_LINES = 1_000_000
"""Of a rollout text. As many users or comments in 10 MB are read within 2 s, and so are fewer lines of that size with
anything in them; more take longer than a job should wait for a decision."""
_MOST_TOLD = 100

_FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})[ \t]*([^\s`]*)[ \t]*")
_LONGEST_FENCE = 200  # characters; a line of one sign without end is none, and slow to look at
_FENCE_WORDS = ("", "yaml", "yml", "json")
_MARK = re.compile(r"\A\s*\ufeff+")  # a byte order mark; behind empty lines it comes from texts put together
_EXPERIMENTS = re.compile(r"""["']?experiments["']?[ \t]*:""", re.IGNORECASE)  # in another case it is told
_ENDS = " \t`"  # what may stand around the settings
_ALONE = f"only a line that is '{SEPARATOR}' alone ends the settings"


@dataclass(frozen=True, slots=True)
class Sections:
    """The parts of a rollout text: the settings keep their line numbers, the users begin at ``users_line``."""

    settings: str
    users: list[str]
    users_line: int
    problems: list[Problem]


def count_lines(text: str) -> int:
    """Count the lines of a text, whichever way they end."""
    return text.count("\n") + text.count("\r") - text.count("\r\n") + 1


def cut(text: str, source: str) -> Sections:
    """Cut at the first line that is ``---`` alone. Without one it is all settings, or all users; raises nothing."""
    text = _MARK.sub(lambda found: found[0].rstrip("\ufeff"), text)
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    problems: list[Problem] = []

    def warn(line: int, message: str, hint: str = "", *, mistake: bool = False) -> None:
        problems.append(Problem(source, line, "warning", message, hint, mistake=mistake))

    begin = _document_start(lines)
    if begin:
        what = f"{shown(lines[begin - 1].strip())} before the settings is taken as the start of a YAML document"
        warn(begin, what, "leave it out")
        lines[begin - 1] = ""
    end = next((place for place, line in enumerate(lines) if is_separator(line)), -1)
    if end >= 0 and lines[end].strip() != SEPARATOR:
        warn(end + 1, f"{shown(lines[end].strip())} is taken as the line '{SEPARATOR}'", f"write '{SEPARATOR}'")
    elif end < 0 and any(map(_EXPERIMENTS.match, lines)):
        end = len(lines)
        warn(0, f"there is no line '{SEPARATOR}': all of it is taken as settings, and there are no users")
    elif end < 0 and text.strip():
        warn(0, f"there is no line '{SEPARATOR}': all of it is taken as user lines, and there are no experiments")
    settings = lines[: max(end, 0)]
    for place, line in enumerate(settings, 1):
        if SEPARATOR in line and len(problems) < _MOST_TOLD:
            where = "in a comment" if "#" in line.partition(SEPARATOR)[0] else "within a line"
            warn(place, f"'{SEPARATOR}' {where} does not end the settings", _ALONE, mistake=True)
    for place, message, hint in _unfence(settings):
        warn(place, message, hint)
    _strip(settings)
    return Sections("\n".join(settings), lines[end + 1 :], end + 2, problems)


def is_separator(line: str) -> bool:
    """Tell whether a line is three dashes or more and nothing else, as some write it."""
    return SEPARATOR in line and not line.strip().strip("-")


def is_fence(line: str) -> bool:
    """Tell whether a line opens or closes a fenced block of Markdown."""
    return len(line) <= _LONGEST_FENCE and bool(_FENCE.fullmatch(line))


def _document_start(lines: list[str]) -> int:
    """Give the line, from 1, of a ``---`` that has nothing before it and the settings behind it, else 0."""
    for place, line in enumerate(lines):
        if is_separator(line):
            return place + 1 if any(map(_EXPERIMENTS.match, lines[place + 1 :])) else 0
        if line.strip() and not line.lstrip().startswith("#") and not is_fence(line):
            return 0
    return 0


def _unfence(lines: list[str]) -> list[tuple[int, str, str]]:
    """Blank all but what the first fence holds; give what to say of that: line, message, hint."""
    opened = next((place for place, line in enumerate(lines) if is_fence(line)), -1)
    if opened < 0:
        return []
    if not any(line.strip(_ENDS) for line in lines[opened + 1 :]):  # the end of one that begins nowhere
        lines[opened] = ""
        return []
    said: list[tuple[int, str, str]] = []
    match = _FENCE.fullmatch(lines[opened])
    assert match
    sign, word = match.groups()
    if word.casefold() not in _FENCE_WORDS:
        said.append((opened + 1, f"the fence says {shown(word)}; it is read as YAML", ""))
    close = re.compile(rf"[ \t]*{re.escape(sign)}{re.escape(sign[0])}*[ \t]*")
    closed = next((place for place in range(opened + 1, len(lines)) if close.fullmatch(lines[place])), len(lines))
    for start, end, where in ((0, opened, "before"), (closed + 1, len(lines), "after")):
        prose = [place for place in range(start, end) if lines[place].strip()]
        if prose:
            said.append((prose[0] + 1, f"text {where} the fence is passed over: {shown(lines[prose[0]])}", ""))
    for place in (*range(opened + 1), *range(closed, len(lines))):
        lines[place] = ""
    return said


def _strip(lines: list[str]) -> None:
    """Take blanks and backticks from both ends of the settings, and blanks from lines of nothing else.

    A reader of YAML takes a tab in a line of blanks as a fault of all that there is.
    """
    lines[:] = [line if line.strip() else "" for line in lines]
    full = [place for place, line in enumerate(lines) if line.strip(_ENDS)]
    if not full:
        lines[:] = [""] * len(lines)
        return
    first, last = full[0], full[-1]
    lines[:first] = [""] * first
    lines[last + 1 :] = [""] * (len(lines) - last - 1)
    lines[last] = lines[last].rstrip(_ENDS)
    line = lines[first]
    bare = line.lstrip(_ENDS)
    if not line.startswith(" " * (len(line) - len(bare))) or _hangs(bare, len(line) - len(bare), lines[first + 1 :]):
        lines[first] = bare


def _hangs(first: str, depth: int, others: list[str]) -> bool:
    """Tell whether the first line alone has blanks before it, and not all of them."""
    depths = [len(line) - len(line.lstrip(" ")) for line in others if line and not line.lstrip().startswith("#")]
    is_key = bool(_EXPERIMENTS.fullmatch(first.rstrip()))
    return bool(depths) and (min(depths) < depth or (is_key and depths[0] == depth))
