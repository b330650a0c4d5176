"""Which value a YAML scalar is: the core types of YAML 1.2 without its surprises, and all else the text as written."""

from __future__ import annotations

import re

from pytest_sgpu.runners.lint.yaml_text import Text

_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
# Each is a number of JSON too. No sign "+", no leading zero, no "_", no exponent: versions and names look like that.
# With more digits before the point a decimal is infinite, and Python refuses to read an integer.
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,299})")
_DECIMAL = re.compile(rf"{_INTEGER.pattern}\.[0-9]+")
_NUMBER = re.compile(r"[-+]?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")


def resolve(scalar: Text) -> str | int | float | bool | None:
    """Give the value of a scalar: null, a flag, a decimal number, or its text as written.

    Only a plain scalar is anything but text. ``on``, ``yes``, ``010``, ``0x10``, ``1_000``, ``1:30``, ``1e3``, ``.5``,
    ``.inf`` and dates are texts.
    """
    text = scalar.text
    if not scalar.plain:
        return text
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _DECIMAL.fullmatch(text) else text


def number(scalar: Text) -> float | None:
    """Give the number that a plain scalar is, or None, where nothing but a number makes sense.

    Then an exponent, a sign ``+`` and a missing digit beside the point are what YAML 1.2 says, so ``1e2`` is 100. A
    leading zero is still none, since it may be meant as octal.
    """
    return float(scalar.text) if scalar.plain and _NUMBER.fullmatch(scalar.text) else None


def kind(value: object) -> str:
    """Name the type of a resolved value in a message."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "a flag"
    return "a number" if isinstance(value, (int, float)) else "a text"
