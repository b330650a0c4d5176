"""Text from outside made harmless: one line, no control characters, no command of the CI service, no token."""

from __future__ import annotations

import re
import unicodedata

_LIMIT = 300
_MASK = "***"
LEAST_TOKEN = 8  # characters; as an input a shorter one is a word, that may be in anything
_LEAST_SECRET = 3  # characters


def one_line(value: object, limit: int = _LIMIT) -> str:
    """Give ``value`` as one printable line of at most ``limit`` characters.

    Titles, statuses and error bodies come from the API, and from whoever can name a branch: line ends would let them
    forge workflow commands (``::error::``), control characters would drive the terminal.
    """
    text = str(value)[: 4 * limit]
    if not text.isprintable():
        text = "".join(c if unicodedata.category(c)[0] != "C" else " " for c in text)
    text = " ".join(text.split()).replace("##[", "## [")  # an old form of command, heard anywhere in a line
    return text if len(text) <= limit else text[: limit - 3] + "..."


def encodable(text: str, encoding: str | None) -> str:
    """Give ``text`` as a stream of this encoding can take it: what it has no letters for becomes an escape."""
    encoding = encoding or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


def command_value(text: str) -> str:
    """Escape the message of a workflow command (``::error::MESSAGE``)."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def command_property(text: str) -> str:
    """Escape a property of a workflow command (``::error title=PROPERTY::``)."""
    return command_value(text).replace(":", "%3A").replace(",", "%2C")


def markdown(value: object, limit: int = _LIMIT) -> str:
    """Give ``value`` as one line that is plain text in Markdown, also inside a table."""
    text = one_line(value, limit).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_{}\[\]()#+!|~@$])", r"\\\1", text)


def without(secret: str, text: str) -> str:
    """Take ``secret`` out of ``text``. One shorter than any token is a word, and stays."""
    return text.replace(secret, _MASK) if len(secret) >= _LEAST_SECRET else text


def duration(seconds: float) -> str:
    """Give seconds as people read them: ``45 s``, ``12 min``, ``12 min 5 s``, ``2 h 5 min``."""
    whole = round(seconds)
    minutes, rest = divmod(whole, 60)
    hours, minutes_left = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes_left} min" if minutes_left else f"{hours} h"
    if minutes:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    return f"{rest} s"
