"""A TOML table read strictly: each key has a type, a key that nobody knows is an error, and each error has the place.

Places are written as keys (``profiles.gpu-amd64.order[2]``); lists are counted from 1.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pytest_sgpu.errors import ConfError
from pytest_sgpu.runners.text import one_line
from pytest_sgpu.runners.wording import controls, found, nearest

LONGEST = 256
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@dataclass(frozen=True, slots=True)
class Table:
    """One table, and where it stands: the name of the file and the keys that lead there."""

    source: str
    path: str
    values: Mapping[str, object]

    def error(self, key: str, message: str, hint: str = "") -> ConfError:
        """Make the error for ``key``, "" for the table itself."""
        place = self.place(key) if key else self.path
        return ConfError(f"{self.source}: {place}: {message}" if place else f"{self.source}: {message}", hint)

    def place(self, key: str) -> str:
        """Give the whole key of ``key`` as it is written in the file."""
        name = key if _BARE.fullmatch(key) else f'"{one_line(key, 60)}"'
        return f"{self.path}.{name}" if self.path else name

    def only(self, *known: str) -> None:
        """Refuse every key but ``known``."""
        for key in self.values:
            if key not in known:
                raise self.error(key, "unknown key", nearest(key, known))

    def wrong(self, key: str, value: object, expected: str, hint: str = "") -> ConfError:
        """Make the error for a value that is not what was expected."""
        return self.error(key, f"found {found(value)}, expected {expected}", hint)

    def value(self, key: str, expected: str) -> object:
        """Give what stands at ``key``, which has to be there."""
        if key not in self.values:
            raise self.error(key, f"missing, expected {expected}")
        return self.values[key]

    def text(self, key: str, expected: str, default: str | None = None, longest: int = LONGEST) -> str:
        """Give a text of one line that is not blank; ``default`` when the key is not there and may be missing."""
        if default is not None and key not in self.values:
            return default
        return self._text(key, self.value(key, expected), expected, longest)

    def _text(self, key: str, value: object, expected: str, longest: int = LONGEST) -> str:
        if not isinstance(value, str) or not value.strip():
            raise self.wrong(key, value, expected)
        if controls(value):
            raise self.wrong(key, value, f"{expected}, on one line and without control characters")
        if len(value) > longest:
            raise self.error(key, f"{len(value)} characters, expected at most {longest}")
        return value

    def one_of(self, key: str, known: Sequence[str]) -> str:
        """Give one of the words in ``known``."""
        expected = f"one of {', '.join(known)}"
        value = self.text(key, expected)
        if value not in known:
            raise self.wrong(key, value, expected, nearest(value, known))
        return value

    def texts(self, key: str, expected: str, *, needed: bool = False) -> tuple[str, ...]:
        """Give a list of texts; without the key an empty one, unless it is ``needed``."""
        if not needed and key not in self.values:
            return ()
        value = self.value(key, expected)
        if not isinstance(value, list) or not value:
            raise self.wrong(key, value, expected)
        return tuple(self._element(key, place, one) for place, one in enumerate(value, 1))

    def _element(self, key: str, place: int, value: object) -> str:
        if isinstance(value, str) and value.strip() and not controls(value) and len(value) <= LONGEST:
            return value
        raise ConfError(f"{self.source}: {self.place(key)}[{place}]: found {found(value)}, expected a text of one line")

    def whole(self, key: str, low: int, high: int, default: int | None = None) -> int:
        """Give a whole number from ``low`` to ``high``; ``default`` when the key is not there and may be missing."""
        expected = f"a whole number from {low} to {high}"
        if default is not None and key not in self.values:
            return default
        value = self.value(key, expected)
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise self.wrong(key, value, expected)
        return value

    def flag(self, key: str, *, default: bool) -> bool:
        """Give true or false."""
        value = self.values.get(key, default)
        if not isinstance(value, bool):
            raise self.wrong(key, value, "true or false")
        return value

    def tables(self, key: str, expected: str) -> dict[str, Table]:
        """Give the tables by their names (``[pools.NAME]``), at least one."""
        value = self.value(key, expected)
        if not isinstance(value, dict) or not value:
            raise self.wrong(key, value, expected)
        inner = Table(self.source, self.place(key), value)
        for name, one in value.items():
            if not _NAME.fullmatch(name):
                raise self.error(key, f"{found(name)} is no name", "letters, digits and . _ - only, 100 at most")
            if not isinstance(one, dict):
                raise inner.wrong(name, one, "a table", f"write [{inner.place(name)}], and its keys below")
        return {name: Table(self.source, inner.place(name), one) for name, one in value.items()}

    def array(self, key: str, expected: str) -> tuple[Table, ...]:
        """Give the tables of a list (``[[grammar]]``), at least one."""
        value = self.value(key, expected)
        if not isinstance(value, list) or not value or not all(isinstance(one, dict) for one in value):
            raise self.wrong(key, value, expected)
        return tuple(Table(self.source, f"{self.place(key)}[{place}]", one) for place, one in enumerate(value, 1))
