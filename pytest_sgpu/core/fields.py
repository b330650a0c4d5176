"""Reading values of a JSON object that may be damaged: of the right kind, or a DamageError that says what is wrong.

A journal outlives its run, its disk and its version. So nothing of it is taken as it comes: a text where a
number belongs would end as a traceback far from here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

_HUGE = 1e15  # counts and codes are far smaller; an int beyond this may not even fit a float
_EARLIEST, _LATEST = -1e9, 1e11  # seconds, of a run or of the epoch; what is further away is in no calendar
_MISSING = object()


class DamageError(ValueError):
    """A value is missing, or is not of the kind that belongs there."""


class Fields:
    """The fields of one object. ``where`` is put before the name of a field in errors."""

    def __init__(self, values: object, where: str = "") -> None:
        if not isinstance(values, Mapping):
            raise DamageError(f"{where or 'the record'} is no object")
        self._values: Mapping[str, Any] = values
        self._where = f"{where}." if where else ""

    def text(self, name: str, default: str | None = None) -> str:
        """Give a text. Without a default the field must be there, here and below."""
        value = self._get(name, default)
        return value if isinstance(value, str) else self._wrong(name, "text")

    def flag(self, name: str, *, default: bool | None = None) -> bool:
        """Give true or false."""
        value = self._get(name, default)
        return value if isinstance(value, bool) else self._wrong(name, "true or false")

    def number(self, name: str, default: float | None = None) -> float:
        """Give a number of seconds."""
        value = self._get(name, default)
        if isinstance(value, (int, float)) and not isinstance(value, bool) and _EARLIEST < value < _LATEST:
            return float(value)
        return self._wrong(name, "number")  # nan is no less than anything

    def whole(self, name: str, default: int | None = None, *, least: int = 0) -> int:
        """Give a whole number, ``least`` or more."""
        value = self._get(name, default)
        if isinstance(value, int) and not isinstance(value, bool) and least <= value < _HUGE:
            return value
        return self._wrong(name, f"whole number from {least}")

    def maybe_number(self, name: str) -> float | None:
        """Give a number of seconds, None when there is none."""
        return None if self._values.get(name) is None else self.number(name)

    def maybe_whole(self, name: str, *, least: int = 0) -> int | None:
        """Give a whole number, None when there is none."""
        return None if self._values.get(name) is None else self.whole(name, least=least)

    def texts(self, name: str) -> tuple[str, ...]:
        """Give a list of texts, empty when the field is missing."""
        values = self._list(name)
        return tuple(values) if all(isinstance(value, str) for value in values) else self._wrong(name, "list of texts")

    def rows(self, name: str, *columns: str) -> tuple[Fields, ...]:
        """Give a list of lists, each as an object with these columns; more columns than these are passed over."""
        rows = self._list(name)
        if not all(isinstance(row, list) and len(row) >= len(columns) for row in rows):
            self._wrong(name, f"list of lists of {len(columns)}")
        return tuple(self._row(name, number, row, columns) for number, row in enumerate(rows, start=1))

    def row(self, name: str, *columns: str) -> Fields | None:
        """Give one list as an object with these columns, None when there is none. Columns at its end may be missing."""
        if self._values.get(name) is None:
            return None
        return Fields(dict(zip(columns, self._list(name), strict=False)), f"{self._where}{name}")

    def inner(self, name: str) -> Fields:
        """Give an object inside, empty when the field is missing."""
        return Fields(self._values.get(name) or {}, f"{self._where}{name}")

    def _row(self, name: str, number: int, row: list[Any], columns: tuple[str, ...]) -> Fields:
        return Fields(dict(zip(columns, row, strict=False)), f"{self._where}{name}[{number}]")

    def _list(self, name: str) -> list[Any]:
        value = self._get(name, [])
        return value if isinstance(value, list) else self._wrong(name, "list")

    def _get(self, name: str, default: object) -> object:
        value: object = self._values.get(name, _MISSING)
        if value is not _MISSING:
            return value
        if default is None:
            raise DamageError(f"{self._where}{name} is missing")
        return default

    def _wrong(self, name: str, kind: str) -> NoReturn:
        raise DamageError(f"{self._where}{name} is no {kind}")
