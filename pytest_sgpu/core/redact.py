"""Secrets out of text: values of the environment that look like some, and what URLs carry of them.

A secret becomes ``***``. What counts as one is decided by names, never by how a value looks: the value of a
variable whose name has TOKEN, SECRET, PASSWORD or KEY in it; in a URL the part before ``@`` and the values
of query parameters with such names; and what a URL in the environment carries so, wherever else it appears.
A secret is found in the forms that a shell, a URL, a decoder and ``core.text`` give it, and where a text was cut
in the middle of it. A program that prints it in another form (base64, one letter per line) is beyond this.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from urllib.parse import quote

from pytest_sgpu.core.text import one_line, printable

Clean = Callable[[str], str]
"""Takes the secrets out of a text. ``unchanged`` where there are none to take."""

MASK = "***"
LEAST = 6
"""Characters of a value from which on it counts: a shorter one is in every other word."""
ANYWHERE = 12
"""Characters from which on a value is hidden within words too; a shorter one only as a word of its own."""

_NAMES = re.compile("TOKEN|SECRET|PASSWORD|KEY", re.IGNORECASE)
# What ``core.text`` puts behind a line that it has cut.
_CUT = re.compile(r" \.\.\. \[[0-9]+ characters cut\]")
_MAYBE_CUT = 160  # characters from which on a text may have been cut without a note, as a worker cuts
_LONGEST_ESCAPE = 10  # characters that one becomes
# The end of what a browser calls the authority; greedy, since a password may hold an @ that nobody escaped.
_USER = re.compile(r'[^\s/?#"<>]*@')
# A password with a slash in it. A port is none, and neither is an address in brackets.
_ODD_USER = re.compile(r'[^\s/?#@:\["<>]*:(?![0-9]+(?:[/?#]|$))[^\s"<>@]*@')
_QUERY = re.compile(r"""([?&;#])([^\s=&;?#"'<>`]{1,128})=([^\s&;#"'<>`]+)""")
_QUERY_NAME = re.compile(
    "token|secret|passw|pwd|credential|signature|authorization|(?:api|access|auth)[_-]?key"
    "|(?<![a-z])(?:key|sig|auth)(?![a-z])",
    re.IGNORECASE,
)


def unchanged(text: str) -> str:
    """Give the text as it is."""
    return text


class Redactor:
    """Knows the secrets of an environment. Cheap where a text holds none: it is only searched for them.

    ``names`` are the variables that hold them.
    """

    def __init__(self, env: Mapping[str, str]) -> None:
        self.names = secret_names(env)
        forms = {form for value in _secrets(env) for form in _forms(value) if _counts(form)}
        self._known = tuple(sorted(forms, key=lambda form: (-len(form), form)))  # the longest first
        self._pattern = re.compile("|".join(map(_wanted, self._known)))

    def text(self, text: str) -> str:
        """Give the text with ``***`` in the place of every secret. A second call changes nothing."""
        for form in self._known:
            if form in text:
                text = self._pattern.sub(MASK, text)
                break
        text = self._without_beginnings(text)
        if "://" in text:
            text = _without_users(text)
        if "=" in text and ("?" in text or "&" in text or ";" in text or "#" in text):
            text = _QUERY.sub(_without_value, text)
        return text

    def _without_beginnings(self, text: str) -> str:
        """Mask the first part of a secret where a text ends in it: somebody has cut it there."""
        if "characters cut]" in text:
            at = 0
            pieces = []
            for note in _CUT.finditer(text):
                pieces += [self._without_beginning(text[at : note.start()], LEAST), note[0]]
                at = note.end()
            return "".join(pieces) + text[at:]
        # A shorter one ends where it ends: the folder that a secret path begins with is no secret.
        return self._without_beginning(text, ANYWHERE) if len(text) >= _MAYBE_CUT else text

    def _without_beginning(self, text: str, least: int) -> str:
        """Mask a beginning of ``least`` characters or more at the end of a text."""
        for form in self._known:
            head = form[:least]
            at = text.find(head, max(0, len(text) - len(form) + 1))
            while at >= 0:
                if form.startswith(text[at:]):
                    return text[:at] + MASK
                at = text.find(head, at + 1)
        return text


def secret_names(env: Mapping[str, str]) -> tuple[str, ...]:
    """Give the names of the variables whose values, or parts of them, are taken out; in order."""
    return tuple(sorted(name for name, value in env.items() if any(_secrets({name: value}))))


def _secrets(env: Mapping[str, str]) -> Iterator[str]:
    """Give the values that count, and of those with several lines, such as private keys, each long line."""
    for name, value in env.items():
        if _NAMES.search(name):
            whole = value.strip()
            if len(whole) >= LEAST:
                yield whole
            lines = whole.splitlines()
            if len(lines) > 1:
                yield from (line.strip() for line in lines if len(line.strip()) >= ANYWHERE)
        elif "://" in value:
            yield from (part for part in _carried(value) if len(part) >= LEAST)


def _carried(value: str) -> Iterator[str]:
    """Give the passwords and the query tokens of the URLs in a value."""
    for rest in value.split("://")[1:]:
        found = _USER.match(rest) or _ODD_USER.match(rest)
        if found:
            yield found[0][:-1].partition(":")[2]
    yield from (found[3] for found in _QUERY.finditer(value) if _QUERY_NAME.search(found[2]))


def _forms(value: str) -> Iterator[str]:
    """Give a value as it is, and as a shell, a URL, a quoting program and whoever shows it write it."""
    raw = _raw(value)
    readings = (raw.decode("utf-8", "backslashreplace"), raw.decode("utf-8", "replace"))
    for text in (value, *readings, value.encode("utf-8", "replace").decode("utf-8")):
        longest = _LONGEST_ESCAPE * len(text)
        yield text
        yield text.replace("'", "'\"'\"'")
        yield text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
        yield printable(text, longest)
        yield one_line(text, longest)
        yield repr(text)[1:-1]
        yield "".join(letter for letter in text if letter.isprintable())
    yield quote(raw, safe="")


def _raw(value: str) -> bytes:
    """Give the bytes that the system has for a value. A half of a pair that is none of those is kept somehow."""
    try:
        return value.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return value.encode("utf-8", "surrogatepass")


def _counts(form: str) -> bool:
    """Whether enough is left of a value in this form to look for it."""
    return len(form) >= LEAST and bool(form.strip("* ?\ufffd"))


def _wanted(form: str) -> str:
    """Give the pattern for a form: a short one must not go on as a word on either side."""
    pattern = re.escape(form)
    if len(form) >= ANYWHERE:
        return pattern
    before = r"(?<!\w)" if re.match(r"\w", form) else ""
    return before + pattern + (r"(?!\w)" if re.search(r"\w\Z", form) else "")


def _without_users(text: str) -> str:
    """Mask who a URL names before its host: user and password, in a web address also a user alone."""
    pieces = text.split("://")
    for at in range(1, len(pieces)):
        found = _USER.match(pieces[at]) or _ODD_USER.match(pieces[at])
        if found and (":" in found[0] or pieces[at - 1][-5:].lower().endswith(("http", "https"))):
            pieces[at] = f"{MASK}@{pieces[at][found.end() :]}"
    return "://".join(pieces)


def _without_value(found: re.Match[str]) -> str:
    return f"{found[1]}{found[2]}={MASK}" if _QUERY_NAME.search(found[2]) else found[0]
