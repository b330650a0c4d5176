"""From any text to a file name that cannot leave its directory, hide, or meet the name of another; and node ids."""

from __future__ import annotations

import hashlib
import posixpath
import re

from pytest_sgpu.model import Key

LIMIT = 180
"""Bytes of a name. 255 is what file systems take; the rest is for ``.log.rc``, ``.part`` and the like."""

WHOLE = "whole"
"""Stands for the tag of an opaque suite, which has none."""

_FOREIGN = re.compile(r"[^A-Za-z0-9._+=,@-]")
_DIGEST = 20
# Behind a percent sign come two hex digits in every name that is not cut, and nothing else.
_EMPTY = "%"
_CUT = "%-"
_TORN = re.compile(r"%[0-9A-F]?\Z")


def file_name(text: str) -> str:
    """Give the file name of a text: percent-encoded UTF-8, at most 180 ASCII characters.

    Different texts have different names. A name that would be longer is cut, and a hash of the whole text
    takes the end. The name is never empty, has no slash, and never starts with a dot.
    """
    encoded = _encode(text)
    return _fit("%2E" + encoded[1:] if encoded.startswith(".") else encoded, text)


def item_stem(key: Key) -> str:
    """Give the first part of the names of an item's files: ``<label>.<tag>``, or ``<label>.whole``.

    Dots of the label are encoded, so that the first dot divides. ``whole`` as the tag of a list suite
    is the same name, but one label never belongs to two suites.
    """
    stem = f"{_encode(key.suite).replace('.', '%2E') or _EMPTY}.{_encode(key.tag or WHOLE)}"
    return _fit(stem, str(key))


def node_id(conf: str, key: Key) -> str:
    """Give the pytest name of an item: the file name of its conf, its label and, in a list suite, its tag."""
    return "::".join((posixpath.basename(conf), key.suite, *([key.tag] if key.tag else [])))


def _encode(text: str) -> str:
    return _FOREIGN.sub(_percent, text)


def _percent(match: re.Match[str]) -> str:
    # A lone surrogate has no UTF-8; its own three bytes keep it apart from everything else.
    return "".join(f"%{byte:02X}" for byte in match[0].encode("utf-8", "surrogatepass"))


def _fit(encoded: str, text: str) -> str:
    if len(encoded) <= LIMIT:
        return encoded or _EMPTY
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST]
    head = _TORN.sub("", encoded[: LIMIT - len(_CUT) - _DIGEST])
    return head + _CUT + digest
