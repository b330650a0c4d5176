"""The texts that stand for labels: in lists within lists, as JSON in a text, and where nothing stands."""

from __future__ import annotations

import json
from collections.abc import Iterator

from pytest_sgpu.runners.lint.yaml_text import Mapping, Sequence, Text, Value
from pytest_sgpu.runners.routing import scalars
from pytest_sgpu.runners.routing.placed_table import named


def labels(value: Value, *, is_input: bool = False) -> Iterator[Text]:
    """Give the texts of `runs-on`, or of an input: its value, or where it is declared its default. Null is no text."""
    left = [value]
    seen: set[int] = set()  # aliases could lead through lists of lists without end
    while left:
        one = left.pop()
        if isinstance(one, Text):
            if scalars.resolve(one) is not None:
                yield one
        elif id(one) not in seen:
            seen.add(id(one))
            left += reversed(_within(one, is_input=is_input))


def _within(value: Value, *, is_input: bool) -> list[Value]:
    if isinstance(value, Sequence):
        return list(value.items)
    if not isinstance(value, Mapping):
        return []
    found = (value.get("default") if is_input else None) or value.get("labels")
    return [found] if found and not isinstance(found, Mapping) else []


def is_nothing(value: Value) -> bool:
    """Tell whether no text is in a value."""
    left = [value]
    seen: set[int] = set()
    while left:
        one = left.pop()
        if isinstance(one, Text):
            if scalars.resolve(one) is not None and one.text.strip():
                return False
        elif id(one) not in seen:
            seen.add(id(one))
            left += one.items if isinstance(one, Sequence) else ()
            left += [inner for _, inner in one] if isinstance(one, Mapping) else ()
    return True


def nothing(value: Value) -> str:
    """Name a value with nothing in it, in a message."""
    if isinstance(value, Sequence):
        return "a list with nothing in it" if value.items else "an empty list"
    if isinstance(value, Mapping):
        return "a mapping with nothing in it" if value.entries else "an empty mapping"
    return "nothing" if isinstance(value, Text) and scalars.resolve(value) is None else named(value)


def in_json(text: str) -> list[str] | None:
    """Give the labels in a text that is JSON, which `fromJSON` reads: a text, a list of them. None: it is no JSON."""
    if text[:1] not in {"[", "{", '"'}:
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    items = value if isinstance(value, list) else [value]
    return [item for item in items if isinstance(item, str) and item.strip()]
