r"""Text that came from elsewhere, made fit for terminals, CI logs and XML.

Everything that an item, a script or a file says goes through here before it is shown. Control
characters, what changes the direction of text, what nobody can see (zero-width characters, fillers,
variation selectors, tags), and bytes that are no UTF-8 become visible escapes such as ``\x1b`` and
``\u202e``, so that two texts that differ never look the same for that alone; an emoji that asks for its
colours shows it, too. A backslash of the text itself stays as it is: the result is for reading, not for
reading back. Letters that look like others, and marks piled on a letter, stay as they are. So that no CI
service finds an order in the middle of a line, where a sign before the line does not help, ``##[`` and
``##vso[`` become ``#\x23[`` and ``#\x23vso[``.
"""

from __future__ import annotations

import math
import re

LIMIT = 2000
QUOTE = "  | "

# C0 without the tab, DEL, C1; soft hyphen, marks of direction, zero-width and line separators, overrides
# and isolates, the byte order mark, interlinear marks; joiners, fillers and selectors that show nothing;
# what XML 1.0 refuses; format marks of other scripts; the invisible tag alphabet.
_HIDDEN = re.compile(
    "[\x00-\x08\x0a-\x1f\x7f-\x9f\xad\u034f\u061c\u070f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    "\u2028-\u202e\u2060-\u206f\u3164\ud800-\udfff\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff"
    "\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
# GitHub's runner takes "##[error]" for an order wherever it stands in a line; others have "##vso[", "##teamcity[".
_ORDER = re.compile(r"##(?=[A-Za-z]{0,20}\[)")
_BLANKS = re.compile(r"[ \t\r\n]+")
_BYTE = 0x100
_BMP = 0x10000
# Python keeps a byte that is no UTF-8 as U+DC80 to U+DCFF ("surrogateescape").
_STRAY_BYTES = range(0xDC80, 0xDD00)
_MINUTE = 60
_HOUR = 3600


def decoded(text: str | bytes) -> str:
    """Give text for bytes; those that are no UTF-8 are kept as stray ones, which ``printable`` shows as such."""
    return text.decode("utf-8", "surrogateescape") if isinstance(text, bytes) else text


def printable(text: str | bytes, limit: int = LIMIT, *, multiline: bool = False) -> str:
    r"""Make a text safe to show. With ``multiline`` line ends stay (``\r\n`` as ``\n``), else they are escaped.

    A line of more than ``limit`` characters is cut, and a note behind it says how many of its characters
    are gone; the note counts, so no line is longer than ``limit`` (from 40 on). The result is valid in XML 1.0, can be
    encoded as UTF-8, and is left as it is by a second call.
    """
    words = _without_orders(decoded(text))
    if not multiline:
        return _line(words, limit)
    return "\n".join(_line(line, limit) for line in words.replace("\r\n", "\n").split("\n"))


def one_line(text: str | bytes, limit: int = 200) -> str:
    """Make a text safe to show in one line: line ends and blanks become single blanks."""
    return _line(_without_orders(_BLANKS.sub(" ", decoded(text)).strip(" ")), limit)


def shown(text: str | bytes, limit: int = 200) -> str:
    """Give a text between quotes, as error messages name what was written or printed."""
    return f"'{printable(text, limit)}'"


def quoted(text: str | bytes, limit: int = LIMIT) -> str:
    """Put every line of an item's output behind a sign, so that none of them can give orders to a CI service.

    The sign counts towards ``limit``. No text gives no line.
    """
    words = printable(text, limit - len(QUOTE), multiline=True).removesuffix("\n")
    return "\n".join(QUOTE + line for line in words.split("\n")) if words else ""


def is_plain(text: str) -> bool:
    """Whether a text can be shown as it is, however long."""
    return _HIDDEN.search(text) is None and _ORDER.search(text) is None


def counted(count: int, noun: str) -> str:
    """Give ``1 item`` or ``3 items``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def duration(seconds: float) -> str:
    """Give seconds as people read them: ``12.3s``, ``4m03s``, ``1h55m35s``; ``?`` for what is no number."""
    if not math.isfinite(seconds):
        return "?"
    sign = "-" if seconds <= -0.05 else ""  # noqa: PLR2004 - what rounds to 0.0 has no sign
    if abs(seconds) < _MINUTE - 0.05:
        return f"{sign}{abs(seconds):.1f}s"
    whole = round(abs(seconds))
    hours, rest = divmod(whole, _HOUR)
    minutes, rest = divmod(rest, _MINUTE)
    return f"{sign}{hours}h{minutes:02}m{rest:02}s" if hours else f"{sign}{minutes}m{rest:02}s"


def _without_orders(text: str) -> str:
    return _ORDER.sub(r"#\\x23", text) if "##" in text else text


def _line(line: str, limit: int) -> str:
    if len(line) <= limit:  # escapes only lengthen
        escaped = _HIDDEN.sub(_escape, line)
        if len(escaped) <= limit:
            return escaped
    room = max(0, limit - len(_note(len(line))))
    kept: list[str] = []
    for piece in (_HIDDEN.sub(_escape, character) for character in line[:room]):
        room -= len(piece)
        if room < 0:  # never in the middle of an escape
            break
        kept.append(piece)
    return "".join(kept) + _note(len(line) - len(kept))


def _note(count: int) -> str:
    return f" ... [{count} characters cut]"


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code in _STRAY_BYTES:
        code -= _STRAY_BYTES.start - 0x80
    if code < _BYTE:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < _BMP else f"\\U{code:08x}"
