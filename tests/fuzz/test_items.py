"""Listings that are damaged: each item line is an item or the one error, and every tag that comes out is safe."""

from __future__ import annotations

import pytest

from pytest_sgpu.core.globs import filter_matches, glob_escape
from pytest_sgpu.core.items import Listing, build, parse_listing
from pytest_sgpu.core.names import item_stem
from pytest_sgpu.core.text import is_plain
from pytest_sgpu.errors import ListingError
from pytest_sgpu.model import Key, Mode, Suite
from tests.fuzz.conftest import COUNTS, Dice, fuzz

SUITE = Suite("torch", "torch.log", Mode.LIST, ("ci/py\x1btorch.sh",), "ci/queue.conf", 3)
SEED = """probing the device... gfx950
TE_CI_ITEM test_numerics.ck
TE_CI_ITEM test_numerics.flash 1
TE_CI_ITEMS are listed here, this is noise
  TE_CI_ITEM indented, noise too
TE_CI_ITEM\t$(reboot)/../`x`'"[a-z]*?\\ 01
TE_CI_ITEM caf\u00e9.ref \t
TE_CI_ITEM whole\r
done
""".encode()
OTHERS = (
    b"TE_CI_ITEM\n",
    b"TE_CI_ITEM a 0\n",
    b"TE_CI_ITEM a b c\n",
    b"TE_CI_ITEM big 8\n",
    b"TE_CI_ITEM " + b"t" * 300 + b"\n",
)
MARKS = ("TE_CI_ITEM ", "TE_CI_ITEM\t")
WHOLE = {line: tags[0] for line in SEED.decode().split("\n") if (tags := parse_listing(line, SUITE))}


@pytest.mark.parametrize("count", COUNTS)
def test_item_lines(count):
    fuzz("items", count, _check)


def _check_error(error: ListingError) -> None:
    assert error.message.startswith("ci/queue.conf:3: suite torch: 'ci/py\\x1btorch.sh'")
    assert is_plain(error.message)
    assert is_plain(error.hint)


def _check(dice: Dice) -> None:
    text = dice.mutated(SEED, OTHERS).decode("utf-8", "surrogateescape")
    dice.told = text
    lines = text.split("\n")
    marked = [line for line in lines if line.startswith(MARKS) or line.rstrip("\r") == "TE_CI_ITEM"]
    try:
        tags = parse_listing(text, SUITE)
    except ListingError as error:
        _check_error(error)
        assert marked
        return
    assert len(tags) == len(marked)  # neither noise that became an item, nor a line that was passed over
    assert [tag for line, tag in WHOLE.items() if line in lines and tag not in tags] == []
    assert len({tag for tag, _ in tags}) == len(tags)
    for tag, gpus in tags:
        assert gpus >= 1
        assert is_plain(tag)
        assert tag.split() == [tag]
        assert [other for other, _ in tags if filter_matches(glob_escape(tag), other)] == [tag]
    stems = {item_stem(Key("torch", tag)) for tag, _ in tags}
    assert len(stems) == len(tags)
    assert all(stem.isascii() and "/" not in stem and not stem.startswith(".") and len(stem) <= 180 for stem in stems)
    assert parse_listing("".join(f"TE_CI_ITEM {tag} {gpus}\n" for tag, gpus in tags), SUITE) == tags
    _check_census(dice, tags)


def _check_census(dice: Dice, tags: tuple[tuple[str, int], ...]) -> None:
    """Put the tags together with a second listing: all of them exist, none of them twice, or one error by name."""
    known = dice.one((None, tags, tags[1:], (), (("other", 1), *tags)))
    try:
        items, census, notices = build([SUITE], {"torch": Listing(tags, known, dice.one(("", "exit code \x1b")))})
    except ListingError as error:
        _check_error(error)
        assert not tags or any(gpus > 1 for _, gpus in tags)
        return
    assert [(item.key.tag, item.gpus, item.position) for item in items] == [(t, g, n) for n, (t, g) in enumerate(tags)]
    assert census.runnable == {item.key for item in items}
    assert census.known == census.runnable | {Key("torch", tag) for tag, _ in known or ()}
    assert (census.listed == frozenset()) == (known is None)
    assert all(is_plain(str(notice)) for notice in notices)
