"""JSON read strictly: no key twice in an object, no NaN, and an error that shows none of the text."""

from __future__ import annotations

import json

_BLANKS = " \t\n\r"


class JsonError(ValueError):
    """The text is no JSON, or JSON that two readers may understand in two ways.

    The message says what and where and quotes nothing: a workload stays out of the logs. ``key`` is the key that
    stands twice, for texts that may be shown.
    """

    def __init__(self, message: str, key: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.key = key


def loads(text: str) -> object:
    """Read one JSON value. Raises JsonError."""
    try:
        return json.loads(text, object_pairs_hook=_object, parse_constant=_constant)
    except JsonError:
        raise
    except json.JSONDecodeError as error:
        raise JsonError(f"no JSON at line {error.lineno}, column {error.colno}: {error.msg}") from None
    except ValueError:
        raise JsonError("a number in it has too many digits") from None
    except RecursionError:
        raise JsonError("it is nested too deeply") from None


def elements(text: str) -> tuple[str, ...]:
    """Cut a JSON list, one that ``loads`` has taken, into the texts of its elements as they stand there."""
    decoder = json.JSONDecoder()
    cut = []
    at = _skip(text, text.index("[") + 1)
    while text[at] != "]":
        _, end = decoder.raw_decode(text, at)
        cut.append(text[at:end])
        at = _skip(text, end)
        if text[at] == ",":
            at = _skip(text, at + 1)
    return tuple(cut)


def _skip(text: str, at: int) -> int:
    while text[at] in _BLANKS:
        at += 1
    return at


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    made: dict[str, object] = {}
    for key, value in pairs:
        if key in made:
            raise JsonError("a key stands twice in one object", key)
        made[key] = value
    return made


def _constant(name: str) -> object:
    raise JsonError(f"{name} is no number of JSON")
