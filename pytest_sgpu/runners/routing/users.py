"""The user lines of a rollout text: who opted in to what, and how far, and who opted out."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from pytest_sgpu.runners.routing.problems import Problem, Severity, shown, suggest
from pytest_sgpu.runners.routing.rollout_types import NAME, NAME_EXPECTED, User
from pytest_sgpu.runners.routing.sections import SEPARATOR, is_fence

MOST_PROBLEMS = 1000
MOST_ITEMS = 1000  # of one user
MOST_FAULTS = 150_000  # each costs some microseconds

_LOGIN = re.compile(r"[A-Za-z0-9_-]{1,39}(?:\[bot\])?")
_BULLET = re.compile(r"(?:-[- \t]*|[*+][ \t]+)(?=#?@)")
_PLAIN_ITEM = rf"[ \t]*(?:-?{NAME.pattern}(?::(?:100|[0-9]{{1,2}}(?:\.[0-9]{{1,9}})?))?[ \t]*)?"
_PLAIN = re.compile(rf"{_PLAIN_ITEM}(?:,{_PLAIN_ITEM})*")  # items of which none can be a fault
_COMMENT = re.compile(r"\s#.*", re.DOTALL)
_COMMENTED_USER = re.compile(r"#+\s+@[\w-]+(\[bot\])?\s*(,.*)?")
_NO_SIGN = re.compile(r"[\w-]+(?:,[^\s,]+)+")
_MOST_HINTS = 20
_MOST_CLEAN = 10_000
_OUT = -1.0
_NONE: frozenset[str] = frozenset()
_DASHES = "-\u2010\u2011\u2012\u2013\u2014\u2015\u2212"  # editors make others of a hyphen
_PLAIN_LINE = re.compile(rf"@({_LOGIN.pattern}),({_PLAIN.pattern})")
_LONGEST_PLAIN = 2 * MOST_ITEMS  # so that there are no more items in it
_IN = re.compile(r"(?:^|,)[ \t]*([^-,: \t][^,: \t]*)(?::([0-9.]+))?")  # of plain items
_OUT_OF = re.compile(r"(?:^|,)[ \t]*-([^,: \t]+)")
_BARE = frozenset(": \t-")  # the signs that a list of names alone does not have
_MOST_AMOUNTS = 1000

Users = dict[str, User]


class UsersError(Exception):
    """The user lines have faults without end: why, in one line, and in which line they were given up."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.line = line


def users(lines: Sequence[str], first: int, known: Collection[str], source: str) -> tuple[Users, list[Problem]]:
    """Read the lines, the first of which has the number ``first``. Raises UsersError when there are MOST_FAULTS.

    Experiments that are not ``known`` are kept, and told once.
    """
    reader = _Users(source, frozenset(known))
    for number, line in enumerate(lines, first):
        stripped = line.strip()
        if stripped:
            reader.line(stripped, number)
    return reader.found, reader.end(known)


class _Amounts(dict[str, float]):
    """Percentages as written, to numbers."""

    def __missing__(self, text: str) -> float:
        """Make a new one."""
        made = float(text) if text else 100.0
        if len(self) < _MOST_AMOUNTS:
            self[text] = made
        return made


@dataclass(slots=True)
class _Users:
    source: str
    known: frozenset[str]
    found: dict[str, User] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    untold: int = 0
    unknown: dict[str, int] = field(default_factory=dict)
    clean: dict[str, tuple[str, float]] = field(default_factory=dict)  # what items say, of those without a problem
    amounts: _Amounts = field(default_factory=_Amounts)
    separated: bool = False

    def tell(self, severity: Severity, line: int, message: str, hint: str = "", *, mistake: bool = False) -> None:
        if len(self.problems) < MOST_PROBLEMS:
            self.problems.append(Problem(self.source, line, severity, message, hint, mistake=mistake))
            return
        self.more(1, line)

    def more(self, count: int, line: int) -> None:
        """Count faults that are not told."""
        self.untold += count
        if self.untold >= MOST_FAULTS:
            raise UsersError(f"the user lines have more than {MOST_FAULTS} faults", line)

    def shown(self, text: str) -> str:
        """Quote what was found, if anybody is going to see it."""
        return shown(text) if len(self.problems) < MOST_PROBLEMS else ""

    def line(self, text: str, number: int) -> None:
        if len(text) < _LONGEST_PLAIN and (match := _PLAIN_LINE.fullmatch(text)):
            login, rest = match.groups()
            percent, out = self.plain(login, rest, number) or self.each(login, rest.split(","), number)
            self.keep(User(login, percent, out, False, number))
            return
        if text[0] in "-*+" and (bullet := _BULLET.match(text)):
            self.tell("warning", number, f"the bullet '{text[0]}' before a user is passed over")
            text = text[bullet.end() :]
        if text.startswith("#@"):
            self.user(text[2:].partition(",")[0], "", number, out_of_all=True)
        elif text[0] == "@":
            login, _, rest = (_COMMENT.sub("", text[1:]) if "#" in text else text[1:]).partition(",")
            self.user(login, rest, number, out_of_all=False)
        else:
            self.other(text, number)

    def other(self, text: str, number: int) -> None:
        """Pass over what is no user line, and tell what may have been meant as one."""
        if text == SEPARATOR:
            if not self.separated:
                self.tell("warning", number, f"a second line '{SEPARATOR}': what follows is still read as user lines")
            self.separated = True
        elif text.startswith("#"):
            if _COMMENTED_USER.fullmatch(text):
                hint = "write #@LOGIN to opt somebody out of everything"
                self.tell("warning", number, f"a comment, though it looks like a user: {self.shown(text)}", hint)
        elif text[0] in _DASHES and text[1:].lstrip().startswith("@"):
            hint = "write @LOGIN for a user, #@LOGIN to opt one out of everything"
            self.tell("error", number, f"neither opted in nor out: {self.shown(text)}; the line is left out", hint)
        elif _NO_SIGN.fullmatch(text):
            self.tell("error", number, f"no user line, since it begins without @: {self.shown(text)}")
        elif "@" in text and not is_fence(text):
            self.tell("warning", number, f"no user line: {self.shown(text)}", "one begins with @ or #@")

    def user(self, login: str, rest: str, number: int, *, out_of_all: bool) -> None:
        login = (_COMMENT.sub("", login) if out_of_all else login).strip()
        if not _LOGIN.fullmatch(login):
            hint = "a comma stands after the login" if " " in login else ""
            self.tell("error", number, f"{self.shown(login)} is no login; the line is left out", hint)
            return
        percent, out = self.items(login, rest, number) if rest else ({}, _NONE)
        self.keep(User(login, percent, out, out_of_all, number))

    def keep(self, user: User) -> None:
        login = user.login
        if not user.percent and not user.out and not user.out_of_all:
            self.tell("warning", user.line, f"the line of {login} names no experiment")
        key = login.casefold()
        if key in self.found:
            before = self.found.pop(key)  # so that the order is that of the lines that count
            case = "" if before.login == login else f" as {before.login}"
            message = f"{login} is there twice, before in line {before.line}{case}; the last line counts"
            self.tell("warning", user.line, message, mistake=True)
        self.found[key] = user

    def items(self, login: str, rest: str, number: int) -> tuple[dict[str, float], frozenset[str]]:
        parts = rest.split(",", MOST_ITEMS)
        if len(parts) > MOST_ITEMS:
            self.tell("error", number, f"{login}: more than {MOST_ITEMS} items; the others are left out")
            rest = rest[: -1 - len(parts.pop())]
        return (_PLAIN.fullmatch(rest) and self.plain(login, rest, number)) or self.each(login, parts, number)

    def plain(self, login: str, rest: str, number: int) -> tuple[dict[str, float], frozenset[str]] | None:
        """Give what ``each`` gives, for items of ``_PLAIN``; None when an experiment is opted in and out."""
        if _BARE.isdisjoint(rest):
            names = list(filter(None, rest.split(",")))
            percent = dict.fromkeys(names, 100.0)
            if len(percent) == len(names):
                self.look(percent, number)
                return percent, _NONE
        amounts = self.amounts
        pairs = _IN.findall(rest)
        percent = {name: amounts[text] for name, text in pairs}
        outs = _OUT_OF.findall(rest) if "-" in rest else None
        out = frozenset(outs) if outs else _NONE
        if not out.isdisjoint(percent):
            return None
        if len(percent) < len(pairs):
            self.twice(login, pairs, number, len(pairs) - len(percent))
            for name, text in reversed(pairs):
                percent[name] = amounts[text]
        self.look(percent, number)
        self.look(out, number)
        return percent, out

    def twice(self, login: str, pairs: list[tuple[str, str]], number: int, count: int) -> None:
        if len(self.problems) >= MOST_PROBLEMS:
            self.more(count, number)
            return
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                self.tell("warning", number, f"{login}: {name} is there twice; the first one counts")
            seen.add(name)

    def each(self, login: str, parts: list[str], number: int) -> tuple[dict[str, float], frozenset[str]]:
        percent: dict[str, float] = {}
        out: set[str] = set()
        clean = self.clean
        for part in parts:
            name, amount = clean.get(part) or self.item(login, part, number)
            if not name:
                continue
            if amount < 0:
                out.add(name)
            elif name in percent:
                self.tell("warning", number, f"{login}: {name} is there twice; the first one counts")
            else:
                percent[name] = amount
        for name in out & percent.keys():
            self.tell("warning", number, f"{login}: {name} is opted in and out; out counts")
            del percent[name]
        self.look(percent, number)
        self.look(out, number)
        return percent, frozenset(out)

    def look(self, names: Iterable[str], number: int) -> None:
        """Remember the unknown ones among the names, as many as are told."""
        unknown = self.unknown
        if len(unknown) > MOST_PROBLEMS or self.known.issuperset(names):
            return
        for name in names:
            if name not in self.known:
                unknown.setdefault(name, number)

    def item(self, login: str, part: str, number: int) -> tuple[str, float]:
        """Give the experiment and its percentage, ``_OUT`` when opted out, or ("", 0) for nothing."""
        item = part.strip()
        if not item:
            return "", 0.0
        problems = len(self.problems) + self.untold
        before, colon, text = item.partition(":")
        name = before.lstrip(_DASHES).strip()
        if not NAME.fullmatch(name):
            hint = f"expected {NAME_EXPECTED}"
            self.tell("error", number, f"{login}: {self.shown(item)} names no experiment; it is left out", hint)
            return "", 0.0
        if before[0] in _DASHES:
            made = (name, _OUT)
        else:
            made = (name, self.amount(login, name, text, number) if colon else 100.0)
        if problems == len(self.problems) + self.untold and len(self.clean) < _MOST_CLEAN:
            self.clean[part] = made
        return made

    def amount(self, login: str, name: str, text: str, number: int) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if math.isnan(value):
            hint = f"a number alone, as in {name}:25"
            self.tell("warning", number, f"{login}: {self.shown(text.strip())} is no percentage; 100 is taken", hint)
            return 100.0
        taken = min(max(value, 0.0), 100.0) + 0.0
        if taken != value:
            self.tell("warning", number, f"{login}: {name} is outside 0 to 100; {taken:g} is taken", mistake=True)
        return taken

    def end(self, known: Collection[str]) -> list[Problem]:
        """Give all problems, with the experiments that nobody defined: each once, however many name it."""
        more = 0
        for place, (name, number) in enumerate(self.unknown.items()):
            if place >= MOST_PROBLEMS:
                more = number
                break
            hint = suggest(name, known) if place < _MOST_HINTS else ""
            message = f"{self.shown(name)} is named, and no experiment of the settings"
            self.tell("warning", number, message, hint, mistake=True)
        if more:
            message = f"there are more than {MOST_PROBLEMS} names that no experiment of the settings has"
            self.problems.append(Problem(self.source, more, "warning", message))
        if self.untold:
            self.problems.append(Problem(self.source, 0, "warning", f"{self.untold} more problems of user lines"))
        return self.problems
