"""Inputs as they come from a CI service: all text, a blank one left out, no name that nobody knows."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pytest_sgpu.errors import OptionError
from pytest_sgpu.runners.strict_json import JsonError, elements, loads
from pytest_sgpu.runners.wording import controls, found, nearest

_WHOLE = re.compile(r"[0-9]+")
_DIGITS = 19  # enough for every id of the API
_LONGEST_TEXT = 4096
_SURROGATES = re.compile("[\ud800-\udfff\0]")
MOST_WORKLOADS = 256
LONGEST_JSON = 1_000_000


@dataclass(frozen=True, slots=True)
class Values:
    """Named texts: inputs, or the environment. All methods raise OptionError."""

    given: Mapping[str, str]

    def only(self, known: Sequence[str]) -> None:
        """Refuse every name but ``known``."""
        for name in self.given:
            if name not in known:
                raise OptionError(f"unknown input {found(name)}", nearest(str(name), known))

    def raw(self, name: str) -> str:
        """Give the text as it came, "" when it is blank or not there."""
        value = self.given.get(name, "")
        if not isinstance(value, str):
            raise OptionError(f"{name}: found {found(value)}, expected a text")
        if _SURROGATES.search(value):
            raise OptionError(f"{name}: it holds a NUL, or bytes that are not UTF-8", "write it as plain UTF-8")
        return value if value.strip() else ""

    def text(self, name: str) -> str:
        """Give the text without blanks around it: one line, "" when it is not there."""
        value = self.raw(name).strip()
        if len(value) > _LONGEST_TEXT:
            raise OptionError(f"{name}: {len(value)} characters, expected at most {_LONGEST_TEXT}")
        if controls(value):
            raise OptionError(f"{name}: found {found(value)}, expected one line without control characters")
        return value

    def needed(self, name: str, expected: str, hint: str = "") -> str:
        """Give the text, which has to be there."""
        value = self.text(name)
        if not value:
            raise OptionError(f"{name}: missing, expected {expected}", hint)
        return value

    def whole(self, name: str, low: int, high: int) -> int | None:
        """Give a whole number from ``low`` to ``high``, None when it is not there."""
        text = self.text(name)
        if not text:
            return None
        number = int(text) if _WHOLE.fullmatch(text) and len(text) <= _DIGITS else -1
        if not low <= number <= high:
            hint = "digits alone: no sign, no fraction, no exponent" if not _WHOLE.fullmatch(text) else ""
            raise OptionError(f"{name}: found {found(text)}, expected a whole number from {low} to {high}", hint)
        return number

    def number(self, name: str) -> int:
        """Give an id or an attempt: a positive whole number, which has to be there."""
        expected = "a positive whole number"
        text = self.needed(name, expected)
        number = int(text) if _WHOLE.fullmatch(text) and len(text) <= _DIGITS else 0
        if number < 1:
            raise OptionError(f"{name}: found {found(text)}, expected {expected}")
        return number

    def choice(self, name: str, choices: Sequence[str]) -> str:
        """Give one of ``choices``, the first when it is not there."""
        text = self.text(name) or choices[0]
        if text not in choices:
            raise OptionError(f"{name}: found {found(text)}, expected {' or '.join(choices)}", nearest(text, choices))
        return text

    def flag(self, name: str) -> bool:
        """Give true or false, in any case; false when it is not there."""
        text = self.text(name).lower() or "false"
        if text not in {"true", "false"}:
            raise OptionError(f"{name}: found {found(text)}, expected true or false")
        return text == "true"

    def seconds(self, stem: str, most_minutes: int) -> float | None:
        """Give a duration in seconds from ``STEM-minutes`` or ``STEM-seconds``, None when neither is there."""
        names = (f"{stem}-minutes", f"{stem}-seconds")
        minutes, seconds = self.whole(names[0], 1, most_minutes), self.whole(names[1], 1, most_minutes * 60)
        if minutes is not None and seconds is not None:
            raise OptionError(f"{names[0]} and {names[1]}: both are given, expected one of them", "leave one out")
        if minutes is not None:
            return minutes * 60.0
        return None if seconds is None else float(seconds)

    def json_object(self, name: str) -> str:
        """Give the text of a JSON object as it came, "{}" when it is not there. No error shows any of it."""
        text = self.raw(name)
        if not text:
            return "{}"
        value = self._json(name, text, "a JSON object")
        if not isinstance(value, dict):
            raise OptionError(f"{name}: found {_kind(value)}, expected a JSON object", 'such as {"shard": 1}')
        return text

    def json_objects(self, name: str) -> tuple[str, ...]:
        """Give the texts of the objects in a JSON list, as they stand there; none when it is not there."""
        text = self.raw(name)
        if not text:
            return ()
        expected = f"a JSON list of 1 to {MOST_WORKLOADS} objects"
        value = self._json(name, text, expected)
        if not isinstance(value, list) or not 1 <= len(value) <= MOST_WORKLOADS:
            raise OptionError(f"{name}: found {_kind(value)}, expected {expected}", 'such as [{"shard": 1}]')
        for place, one in enumerate(value, 1):
            if not isinstance(one, dict):
                raise OptionError(f"{name}: element {place}: found {_kind(one)}, expected a JSON object")
        return elements(text)

    @staticmethod
    def _json(name: str, text: str, expected: str) -> object:
        if len(text) > LONGEST_JSON:
            raise OptionError(f"{name}: {len(text)} characters, expected at most {LONGEST_JSON}")
        try:
            return loads(text)
        except JsonError as error:
            raise OptionError(f"{name}: {error.message}, expected {expected}", "check the quotes") from None


def _kind(value: object) -> str:
    if isinstance(value, list):
        return found(value)
    return {str: "a text", bool: "true or false", int: "a number", float: "a number", dict: "an object"}.get(
        type(value), "null"
    )
