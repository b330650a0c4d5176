"""Finds where the blank after a colon is missing: YAML then takes name and value together as one name, or one text."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pytest_sgpu.runners.lint.yaml_text import Text, Value
from pytest_sgpu.runners.routing.problems import shown

_TIGHT = re.compile(r"([A-Za-z_][\w-]*):(?!//)\S")
_OPENED = re.compile(r"""[\w-]+:["'\[{]""")
_IN_LINE = re.compile(r"""(?<![\w"'-])["']?[A-Za-z_][\w-]*["']?:(?!//)["'\[{\w]""")
_GLUED = re.compile(r"""((?:^[ \t]*(?:-[ \t]+)*|[{,][ \t]*)([A-Za-z_][\w-]*):)(?!//)(?=\S)""")
_FIELDS = frozenset((
    *("runner", "runs-on", "check_experiments", "check-experiments", "opt_out_experiments", "opt-out-experiments"),
    *("config", "shard", "num_shards", "num-shards", "runner_prefix", "runner-prefix", "test-matrix", "test_matrix"),
    *("strategy", "matrix", "include", "uses", "with", "steps"),
))  # fmt: skip
_KEYS = _FIELDS | {
    *("on", "jobs", "name", "needs", "if", "env", "permissions", "outputs", "secrets", "concurrency", "container"),
    *("services", "timeout-minutes", "continue-on-error", "fail-fast", "max-parallel", "exclude", "group", "labels"),
    *("id", "run", "shell", "working-directory", "type", "required", "default", "description", "options"),
}
_PROSE = frozenset(("description", "args", "if", "run", "name", "query"))
_FIELD_IN_TEXT = re.compile(rf"(?:^|\s)({'|'.join(map(re.escape, sorted(_FIELDS)))}):(?!//)\S")


def told(found: str) -> str:
    """Give the message."""
    return f"there is no space after the colon of {shown(found)}"


def is_tight_key(key: Text, value: Value, *, in_matrix: bool) -> bool:
    """Tell whether a key has its value in it. In a matrix each name is one of a field; elsewhere it has to be known.

    ``http://x: y`` is a key with a colon, and right.
    """
    if not key.plain:
        return False
    is_empty = isinstance(value, Text) and value.plain and not value.text
    found = _TIGHT.match(key.text)
    if in_matrix:
        return bool(_OPENED.match(key.text) or (is_empty and found))
    return is_empty and bool(found) and found is not None and found[1] in _KEYS


def is_tight_entry(item: Value) -> bool:
    """Tell whether an entry of a matrix is the text that a field without the blank is."""
    return isinstance(item, Text) and item.plain and bool(_TIGHT.match(item.text))


def fields_in(key: Text, text: Text) -> list[int]:
    """Give where in the plain text of a key fields without the blank are. Whether they begin a line, the file says.

    A text that begins beside its key goes on over lines, and nobody means a field in prose.
    """
    if not text.plain or text.line <= key.line or key.text.lower() in _PROSE:
        return []
    return [found.start(1) for found in _FIELD_IN_TEXT.finditer(text.text)]


def column_in(line: str) -> int:
    """Give the column, from 1, of the first name in a line that has no blank behind its colon."""
    found = _IN_LINE.search(line)
    return found.start() + 1 if found else 1 + len(line) - len(line.lstrip())


def glued_in(line: str) -> Iterator[tuple[int, int, str]]:
    """Give what in a line may lack the blank: where it begins, where the blank would be (from 0), and its text."""
    for found in _GLUED.finditer(line):
        what = line[found.start(2) :].split(maxsplit=1)[0]
        yield found.start(2), found.end(1), what.rstrip("},")
