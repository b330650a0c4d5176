"""Tables that are damaged: every line that says something is an entry or a notice, and what is written reads back."""

from __future__ import annotations

import math
import re

import pytest

from pytest_sgpu.core import tables
from pytest_sgpu.core.text import is_plain
from pytest_sgpu.model import Census, Item, Key, Notice, PlanEntry, Scope, WeightTable
from tests.fuzz.conftest import COUNTS, Dice, fuzz

SCOPE = Scope("gfx950", "3")
WEIGHTS = b"""# pytest-sgpu weights 1
# by hand
torch/test_numerics.ck 412.6
torch/test_numerics.flash 388.0
torch/$(x)/`y`'"#* 12.5

core 311.4
jax/whole 7.0
jax/caf\xc3\xa9 0.0
"""
OTHER_WEIGHTS = (
    b"a/b 1e9\r\n",
    b"# pytest-sgpu weights 2\na 1\n",
    b"12.5\n",
    b"a\n",
    b"torch/test_numerics.ck 1\n",
    b"a/ 1\n",
)
ENTRIES = {line: tables.parse_weights(line, "", SCOPE)[0].entries for line in WEIGHTS.split(b"\n")}


@pytest.mark.parametrize("count", COUNTS)
def test_weights(count):
    fuzz("weights", count, _check_weights)


def _check_weights(dice: Dice) -> None:
    dice.told = data = dice.mutated(WEIGHTS, OTHER_WEIGHTS)
    table, notices, newer = tables.parse_weights(data, "w\x1b.txt", SCOPE)
    lines = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    if newer:
        assert re.match(rb"#\s*pytest-sgpu weights 0*([2-9]|[1-9][0-9])", lines[0])
        assert (len(table.entries), len(notices)) == (0, 1)
        return
    saying = [number for number, line in enumerate(lines, start=1) if _says_something(line)]
    assert len(saying) == len(table.entries) + _told(notices, saying)
    assert all(math.isfinite(value) and 0 <= value <= 1e9 for value in table.entries.values())
    assert all(is_plain(str(key)) and key.suite and str(key) == str(Key.parse(str(key))) for key in table.entries)
    for (
        line,
        entries,
    ) in ENTRIES.items():  # what was not touched means what it meant, unless a later line says otherwise
        for key, seconds in entries.items():
            if line in lines and table.entries[key] != seconds:
                at = len(lines) - lines[::-1].index(line)
                assert any(key in tables.parse_weights(later, "", SCOPE)[0].entries for later in lines[at:])
    text = tables.format_weights(table)
    again, none, _ = tables.parse_weights(text.encode(), "again", SCOPE)
    assert none == ()
    assert again.entries == {key: round(value, 1) for key, value in table.entries.items()}
    assert tables.format_weights(WeightTable(SCOPE, again.entries)) == text


def _says_something(line: bytes) -> bool:
    bare = line.strip(b" \t\r")
    return bool(bare) and not bare.startswith(b"#")


def _told(notices: tuple[Notice, ...], saying: list[int]) -> int:
    """Give how many lines the notices tell of; each names one that says something."""
    count = 0
    for notice in notices:
        assert is_plain(str(notice))
        if more := re.fullmatch(r"and (\d+) more lines with something wrong", notice.text):
            count += int(more[1])
            continue
        place = re.search(r":(\d+)\Z", notice.where)
        assert place, notice
        assert int(place[1]) in saying
        count += 1
    return count


# -- the three tables with tabs ----------------------------------------------------------------------------

QUEUE = (
    b"999999\ttorch\tci/pytorch.sh\ttest_new.ck\t\t1\n"
    b"412.6\ttorch\tci/pytorch.sh\ttest_numerics.ck\t-v 'two words' \\\\x\t1\n"
    b"311.4\tcore\tci/core.sh\twhole\t\t1\n"
    b"7.0\tjax\tci\\t.sh\t\\whole\t--level 3\t2\n"
    b"\\#1.0\tx\ty\tz\t\t1\n"
)
ITEMS = "core\twhole\njax\t\\whole\ntorch\ttest_new.ck\ntorch\t$(x)\\tcaf\u00e9\n\\#a\tb\n".encode()
TIMINGS = (
    b"torch\ttest_numerics.ck\t0\t412.100\t0\t0.012\t412.112\t400.0\t0\n"
    b"core\twhole\tGPU-5f\t3.000\t139\t1.000\t4.000\t-\t1\n"
    b"jax\t\\whole\t0,1\t0.000\t-\t-\t-\t12.5\t1\n"
)


@pytest.mark.parametrize("count", COUNTS)
def test_tables_with_tabs(count):
    fuzz("tables", count, _check_tables)


def test_devices_that_have_no_name():
    """Found by these mutations: an empty cell was one device without a name, which could not be written again."""
    row = "s\tt\t{}\t1.000\t0\t0.000\t1.000\t-\t0\n"
    found = [tables.parse_timings(row.format(cell))[0][0].devices for cell in ("-", "", "\\-", "0,,1", "0,-")]
    assert found == [(), (), (), ("0", "1"), ("0",)]


def _check_tables(dice: Dice) -> None:
    reader = dice.one((_queue, _items, _timings))
    reader(dice)


def _text(dice: Dice, data: bytes) -> tuple[str, list[str], int]:
    """Give a mutated text, its lines, and how many of them say something."""
    text = dice.mutated(data, (QUEUE, ITEMS, TIMINGS)).decode("utf-8", "surrogateescape")
    dice.told = text
    lines = text.split("\n")
    return text, lines, sum(bool(line.rstrip("\r")) and not line.startswith("#") for line in lines)


def _lost(notices: tuple[Notice, ...], lines: list[str]) -> int:
    return _told(notices, list(range(1, len(lines) + 1)))


def _queue(dice: Dice) -> None:
    text, lines, saying = _text(dice, QUEUE)
    found, notices = tables.parse_queue(text)
    assert len(found) + _lost(notices, lines) == saying
    for line in QUEUE.decode().split("\n"):
        if line in lines:
            assert set(tables.parse_queue(line)[0]) <= set(found)
    entries = [PlanEntry(1, Item(row.key, row.command, row.gpus, 0), row.estimate) for row in found]
    written = tables.format_queue(entries)
    again, none = tables.parse_queue(written)
    assert none == ()
    assert [(row.key, row.command, row.gpus) for row in again] == [(row.key, row.command, row.gpus) for row in found]
    assert [row.estimate.known for row in again] == [row.estimate.known for row in found]


def _items(dice: Dice) -> None:
    text, lines, saying = _text(dice, ITEMS)
    found, notices = tables.parse_items(text)
    assert len(found) + _lost(notices, lines) <= saying  # a key may be there twice
    for line in ITEMS.decode().split("\n"):
        if line in lines:
            assert tables.parse_items(line)[0] <= found
    assert tables.parse_items(tables.format_items(Census(found, found, frozenset()))) == (found, ())


def _timings(dice: Dice) -> None:
    text, lines, saying = _text(dice, TIMINGS)
    found, notices = tables.parse_timings(text)
    assert len(found) + _lost(notices, lines) == saying
    for line in TIMINGS.decode().split("\n"):
        if line in lines:
            assert set(tables.parse_timings(line)[0]) <= set(found)
    written = "".join(map(tables.format_timing, found))
    again, none = tables.parse_timings(written)
    assert none == ()
    assert [(row.key, row.devices, row.rc) for row in again] == [(row.key, row.devices, row.rc) for row in found]
    assert "".join(map(tables.format_timing, again)) == written
