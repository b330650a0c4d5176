"""A YAML mapping read strictly: each key has a type, a key that nobody knows is an error, and each error has the line.

Every scalar is the text that is written: a config named ``on`` or ``010`` needs no quotes.
"""

from __future__ import annotations

from dataclasses import dataclass

from pytest_sgpu.errors import ConfError
from pytest_sgpu.runners.lint.yaml_text import Mapping, PlacedError, Sequence, Text, Value, parse
from pytest_sgpu.runners.text import one_line
from pytest_sgpu.runners.wording import controls, found, nearest

LONGEST = 1000  # characters of a text
_FLAGS = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class Table:
    """One mapping, and where it stands: the name of the file and the keys that lead there."""

    source: str
    path: str
    mapping: Mapping

    def error(self, key: str, message: str, hint: str = "") -> ConfError:
        """Make the error for ``key``, "" for the mapping itself."""
        at = self.mapping.key(key) if key else None
        return error_at(self.source, at or self.mapping, self.place(key), message, hint)

    def place(self, key: str) -> str:
        """Give the whole key of ``key``."""
        return ".".join(part for part in (self.path, one_line(key, 60)) if part)

    def only(self, *known: str) -> None:
        """Refuse every key but ``known``."""
        for key, _ in self.mapping:
            if key.text not in known:
                raise self.error(key.text, "unknown key", nearest(key.text, known))

    def has(self, key: str) -> bool:
        """Tell whether ``key`` is there."""
        return self.mapping.get(key) is not None

    def value(self, key: str, expected: str) -> Value:
        """Give what stands at ``key``, which has to be there."""
        value = self.mapping.get(key)
        if value is None:
            raise self.error(key, f"missing, expected {expected}")
        return value

    def text(self, key: str, expected: str, default: str | None = None, *, blank: bool = False) -> str:
        """Give a text of one line; ``default`` without the key, if it may be missing. ``blank``: it may be empty."""
        if default is not None and not self.has(key):
            return default
        return text_of(self, self.place(key), self.value(key, expected), expected, blank=blank)

    def flag(self, key: str, *, default: bool) -> bool:
        """Give true or false."""
        if not self.has(key):
            return default
        value = self.value(key, "true or false")
        if not isinstance(value, Text) or not value.plain or value.text not in _FLAGS:
            raise self.error(key, f"found {named(value)}, expected true or false, without quotes")
        return _FLAGS[value.text]

    def texts(self, key: str, expected: str, default: tuple[str, ...] = ()) -> tuple[str, ...]:
        """Give a list of different texts; ``default`` without the key."""
        if not self.has(key):
            return default
        value = self.value(key, expected)
        if not isinstance(value, Sequence):
            raise self.error(key, f"found {named(value)}, expected {expected}")
        texts: list[str] = []
        for number, item in enumerate(value.items, 1):
            place = f"{self.place(key)}[{number}]"
            one = text_of(self, place, item, "a text of one line")
            if one in texts:
                raise error_at(self.source, item, place, f"{found(one)} is there twice")
            texts.append(one)
        return tuple(texts)

    def table(self, key: str, expected: str) -> Table | None:
        """Give the mapping at ``key``, None without the key."""
        if not self.has(key):
            return None
        value = self.value(key, expected)
        if not isinstance(value, Mapping):
            raise self.error(key, f"found {named(value)}, expected {expected}")
        return Table(self.source, self.place(key), value)

    def version(self, key: str, known: int) -> None:
        """Refuse every version of the format but ``known``."""
        value = self.value(key, f"the number {known}")
        if not isinstance(value, Text) or not value.plain or value.text != str(known):
            hint = "a newer pytest-sgpu may read it"
            raise self.error(key, f"found {named(value)}, expected the number {known}", hint)

    def tables(self, key: str, expected: str) -> dict[str, Table]:
        """Give the mappings by their names; none without the key."""
        outer = self.table(key, expected)
        if outer is None:
            return {}
        inner = {name.text: outer.table(name.text, "a mapping") for name, _ in outer.mapping}
        return {name: table for name, table in inner.items() if table is not None}

    def array(self, key: str, expected: str) -> tuple[Table, ...]:
        """Give the mappings of a list; none without the key."""
        if not self.has(key):
            return ()
        value = self.value(key, expected)
        if not isinstance(value, Sequence):
            raise self.error(key, f"found {named(value)}, expected {expected}")
        tables = []
        for number, item in enumerate(value.items, 1):
            place = f"{self.place(key)}[{number}]"
            if not isinstance(item, Mapping):
                raise error_at(self.source, item, place, f"found {named(item)}, expected a mapping")
            tables.append(Table(self.source, place, item))
        return tuple(tables)


def read(text: str, source: str, longest: int) -> Table:
    """Give the mapping that a YAML text is. Raises ConfError."""
    if len(text) > longest:
        raise ConfError(f"{source}: {len(text)} characters, expected at most {longest}")
    try:
        value = parse(text, source)
    except PlacedError as error:
        raise ConfError(f"{source}:{error.line}: {error}") from None
    if not isinstance(value, Mapping):
        line = value.line if value else 1
        what = named(value) if value else "nothing"
        raise ConfError(f"{source}:{line}: found {what}, expected a mapping of keys", "start with version: 1")
    return Table(source, "", value)


def error_at(source: str, at: Value, place: str, message: str, hint: str = "") -> ConfError:
    """Make the error for a value at a place."""
    return ConfError(f"{source}:{at.line}: {place}: {message}" if place else f"{source}:{at.line}: {message}", hint)


def named(value: Value) -> str:
    """Name what was found, in a message."""
    if isinstance(value, Text):
        return found(value.text) if value.text else "an empty text" if not value.plain else "nothing"
    return f"a list of {len(value.items)}" if isinstance(value, Sequence) else "a mapping"


def text_of(table: Table, place: str, value: Value, expected: str, *, blank: bool = False) -> str:
    """Give the text that ``value`` is: one line without control characters or blanks around it."""
    if isinstance(value, Text) and blank and not value.text and not value.plain:
        return ""
    if not isinstance(value, Text) or not value.text.strip():
        hint = 'write "" if it is meant to be empty' if blank else ""
        raise error_at(table.source, value, place, f"found {named(value)}, expected {expected}", hint)
    if controls(value.text) or value.text != value.text.strip():
        message = f"found {named(value)}, expected {expected}, without control characters or blanks around it"
        raise error_at(table.source, value, place, message)
    if len(value.text) > LONGEST:
        message = f"{len(value.text)} characters, expected at most {LONGEST}"
        raise error_at(table.source, value, place, message)
    return value.text
