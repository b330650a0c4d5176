"""The user lines of a rollout text: who opted in to what, and how far, and who opted out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pytest_sgpu.runners.routing import user_items
from pytest_sgpu.runners.routing.problems import Problem, shown, suggest
from pytest_sgpu.runners.routing.rollout_types import User, visible
from pytest_sgpu.runners.routing.sections import is_fence, is_separator
from pytest_sgpu.runners.routing.user_items import COMMENT, DASHES, MOST_ITEMS, Amounts, Fault, Items

MOST_PROBLEMS = 1000

_BOT = r"(?:\[[Bb][Oo][Tt]\])?"
_LONGEST_PLAIN = 39
_LOGIN = re.compile(rf"[A-Za-z0-9_-]{{1,{_LONGEST_PLAIN}}}{_BOT}")
_DASHED = re.compile(r"-[- \t]*(?=#?@)")
_COMMENTED_USER = re.compile(rf"#+\s*@[\w-]+{_BOT}\s*(,.*)?")
_MARKED = re.compile(r"(?:(?:[^\w\s@#<(\[]|\d{1,9}[.)]|\[[ xX]?\])\s*)+#?@")  # a list, a quote, code, but no prose
_LONGEST_MARK = 100
_NO_SIGN = re.compile(r"[\w-]+(?:,[^\s,]+)+")
_MOST_HINTS = 20
_MOST_TOLD = 200_000  # items of lines in which each fault is told, which takes a microsecond an item
_MOST_KEPT = 10_000  # texts of items that may come again
_LONGEST_KEPT = 200
_LONGEST_LINE = 10_000  # of what may have been meant as a user line

_WRITE = "write @LOGIN for a user, #@LOGIN to opt one out of everything"
_DASH = Fault("warning", "the bullet '-' before a user is passed over")
_BULLET = Fault("warning", "no user line, since a bullet or another sign stands before it: {}", _WRITE, mistake=True)
_OTHER_DASH = Fault("error", "neither opted in nor out: {}; the line is left out", _WRITE)
_SECOND = Fault("warning", "a second line {}: what follows is still read as user lines")
_COMMENT = Fault(
    "warning", "a comment, though it looks like a user: {}", "write #@LOGIN to opt somebody out of everything"
)
_NO_USER = Fault("error", "no user line, since it begins without @: {}")
_PROSE = Fault("warning", "no user line: {}", "one begins with @ or #@")
_NO_LOGIN = Fault("error", "{} is no login; the line is left out")
_NO_COMMA = _NO_LOGIN._replace(hint="a comma stands after the login")
_UNKNOWN = Fault("warning", "{} is named, and no experiment of the settings", mistake=True)


class Users(Mapping[str, User]):
    """The users by login without case, in the order of the lines; of two lines for one the last.

    A line is read again when its user is asked for: to make all users takes a microsecond each, and a decision asks
    for two of them.
    """

    def __init__(self, lines: Sequence[str], first: int, numbers: Mapping[str, int]) -> None:
        """Take the lines, the number of the first one, and that of each user's."""
        self._lines = lines
        self._first = first
        self._numbers = numbers
        self._amounts = Amounts()

    def __contains__(self, key: object) -> bool:
        """Tell whether there is a line of this user."""
        return key in self._numbers

    def __getitem__(self, key: str) -> User:
        """Read the line of a user."""
        number = self._numbers[key]
        text = _undashed(self._lines[number - self._first].strip())
        if text[0] == "#":
            return User(_parts(text[2:])[0], {}, out_of_all=True, line=number)
        login, rest = _parts(text[1:])
        items = user_items.read(rest, self._amounts)
        return User(login, items.percent, items.out, line=number)

    def __iter__(self) -> Iterator[str]:
        """Give the logins."""
        return iter(self._numbers)

    def __len__(self) -> int:
        """Count the users."""
        return len(self._numbers)


def users(lines: Sequence[str], first: int, known: Iterable[str], source: str) -> tuple[Users, list[Problem]]:
    """Read the lines, the first of which has the number ``first``.

    Experiments that are not ``known`` are kept, and told once. MOST_PROBLEMS are told, all further ones counted.
    """
    numbers: dict[str, int] = {}
    reader = _Reader(source, frozenset(known), numbers, Users(lines, first, numbers))
    for number, line in enumerate(lines, first):
        text = line.strip()
        if text:
            reader.line(text, number)
    return reader.users, reader.end(known)


def _undashed(text: str) -> str:
    match = _DASHED.match(text)
    return text[match.end() :] if match else text


def _parts(text: str) -> tuple[str, str]:
    """Give the login and the items of a user line, without the sign before them."""
    login, _, rest = text.partition(",")
    if "#" in login:
        login, _, rest = COMMENT.sub("", text).partition(",")
    return login.strip(), rest


def _is_plain(login: str) -> bool:
    """Tell of most logins quickly that they are one."""
    return login.isalnum() and login.isascii() and len(login) <= _LONGEST_PLAIN


@dataclass(slots=True)
class _Reader:
    source: str
    known: frozenset[str]
    numbers: dict[str, int]
    users: Users
    problems: list[Problem] = field(default_factory=list)
    told: int = 0  # items
    untold: int = 0
    unknown: dict[str, int] = field(default_factory=dict)
    kept: dict[str, int] = field(default_factory=dict)  # how many faults are in a text of items
    amounts: Amounts = field(default_factory=Amounts)
    separated: bool = False

    def tell(self, line: int, fault: Fault, text: str = "") -> None:
        """Tell what is wrong, with the text in which it is; or only count it, which is quick."""
        if len(self.problems) >= MOST_PROBLEMS:
            self.untold += 1
            return
        message = fault.message.replace("{}", shown(visible(text))) if text else fault.message
        self.problems.append(Problem(self.source, line, fault.severity, message, fault.hint, mistake=fault.mistake))

    def line(self, text: str, number: int) -> None:
        if text[0] == "-" and (bare := _undashed(text)) != text:
            self.tell(number, _DASH)
            text = bare
        if text[0] == "@":
            self.opted(text, number)
        elif text.startswith("#@"):
            login, _ = _parts(text[2:])
            if _is_plain(login) or self.is_login(login, number):
                self.user(login, number)
        elif text[0] != "#":
            self.other(text, number)
        elif "@" in text and _COMMENTED_USER.fullmatch(text):
            self.tell(number, _COMMENT, text)

    def opted(self, text: str, number: int) -> None:
        login, _, rest = text[1:].partition(",")
        if not _is_plain(login):
            login, rest = _parts(text[1:])
            if not self.is_login(login, number):
                return
        wrong = self.kept.get(rest)
        if wrong is None:
            wrong = self.items(rest, number)
        if wrong:
            self.wrong(login, rest, wrong, number)
        self.user(login, number)

    def other(self, text: str, number: int) -> None:
        """Pass over what is no user line, and tell what may have been meant as one."""
        if len(text) <= _LONGEST_LINE and _NO_SIGN.fullmatch(text):
            self.tell(number, _NO_USER, text)
        elif "@" in text:
            if text[0] in DASHES and text[1:].lstrip().startswith(("@", "#@")):
                self.tell(number, _OTHER_DASH, text)
            elif _MARKED.match(text, 0, _LONGEST_MARK):
                self.tell(number, _BULLET, text)
            elif not is_fence(text):
                self.tell(number, _PROSE, text)
        elif is_separator(text):
            if not self.separated:
                self.tell(number, _SECOND, text)
            self.separated = True

    def is_login(self, login: str, number: int) -> bool:
        if _LOGIN.fullmatch(login):
            return True
        self.tell(number, _NO_COMMA if " " in login else _NO_LOGIN, login or " ")
        return False

    def user(self, login: str, number: int) -> None:
        key = login.casefold()
        if key in self.numbers:
            if len(self.problems) < MOST_PROBLEMS:
                before = self.users[key]
                case = "" if before.login == login else f" as {before.login}"
                message = f"{login} is there twice, before in line {before.line}{case}; the last line counts"
                self.tell(number, Fault("warning", message, mistake=True))
            else:
                self.untold += 1
            del self.numbers[key]  # so that the order is that of the lines that count
        self.numbers[key] = number

    def items(self, rest: str, number: int) -> int:
        """Look what the items say; give how many faults are in them."""
        is_short = len(rest) <= _LONGEST_KEPT
        wrong = self.quick(rest) if is_short else None
        if wrong is None:
            items = user_items.read(rest, self.amounts)
            self.look(items, number)
            wrong = items.wrong
        if is_short and len(self.kept) < _MOST_KEPT:
            self.kept[rest] = wrong
        return wrong

    def quick(self, rest: str) -> int | None:
        """Count what ``read`` counts, sooner: of opt-ins to experiments that were there already; else give None."""
        names = set()
        wrong = 0
        for item in rest.split(","):
            name, colon, amount = item.partition(":")
            if name in names or (name not in self.known and name not in self.unknown):
                return None
            names.add(name)
            if colon:
                try:
                    if not user_items.is_number(amount):
                        return None
                    wrong += not 0 <= float(amount) <= user_items.WHOLE
                except ValueError:
                    return None
        return wrong

    def wrong(self, login: str, rest: str, count: int, number: int) -> None:
        if len(self.problems) >= MOST_PROBLEMS or self.told > _MOST_TOLD:
            self.untold += count
            return
        self.told += min(rest.count(",") + 1, MOST_ITEMS)
        for fault in user_items.faults(login, rest):
            self.tell(number, fault)

    def look(self, items: Items, number: int) -> None:
        """Remember the unknown ones among the experiments, as many as are told."""
        known, unknown = self.known, self.unknown
        if len(unknown) > MOST_PROBLEMS or (known.issuperset(items.percent) and known.issuperset(items.out)):
            return
        for name in (*items.percent, *sorted(items.out)):
            if name not in known:
                unknown.setdefault(name, number)

    def end(self, known: Iterable[str]) -> list[Problem]:
        """Give all problems, with the experiments that nobody defined: each once, however many name it."""
        more = 0
        for place, (name, number) in enumerate(self.unknown.items()):
            if place >= MOST_PROBLEMS:
                more = number
                break
            hint = suggest(name, known) if place < _MOST_HINTS else ""
            self.tell(number, _UNKNOWN._replace(hint=hint), name)
        if more:
            message = f"there are more than {MOST_PROBLEMS} names that no experiment of the settings has"
            self.problems.append(Problem(self.source, more, "warning", message, mistake=True))
        if self.untold:
            message = f"{self.untold} more problems of user lines"
            self.problems.append(Problem(self.source, 0, "warning", message, mistake=True))
        return self.problems
