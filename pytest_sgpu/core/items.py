"""What scripts list, as items and census; and the globs that pick one of them (spec: queue, 1 and 3)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pytest_sgpu.core.conf import place
from pytest_sgpu.core.globs import filter_matches, glob_escape, glob_match
from pytest_sgpu.core.text import is_plain, printable, shown
from pytest_sgpu.errors import ListingError
from pytest_sgpu.model import Census, Item, Key, Mode, Notice, Suite

__all__ = ["Listing", "build", "filter_matches", "glob_escape", "glob_match", "parse_listing"]

MARK = "TE_CI_ITEM"
Tags = tuple[tuple[str, int], ...]
"""Tags with the number of GPUs that each asks for, in the order in which they were printed."""

_GPUS = re.compile(r"0*[1-9][0-9]{0,8}")
_PROTOCOL = f"{MARK} <tag>[ <gpus>]"
_ODD = "a control character, an invisible one, a blank, a byte that is no UTF-8, or an order to a CI service"
_FORM = f"an item line is: {_PROTOCOL}; a tag has no blanks and nothing invisible, <gpus> is a whole number from 1"


@dataclass(frozen=True, slots=True)
class Listing:
    """What the two listings of a suite printed. ``known`` None: the second one failed, ``problem`` says how.

    ``complaint``: what a shell said of the script itself during the first one, though it ended well.
    """

    runnable: Tags
    known: Tags | None
    problem: str = ""
    complaint: str = ""


def parse_listing(stdout: str, suite: Suite) -> Tags:
    """Read the item lines that a script printed in list mode; everything else on its stdout is noise.

    A line counts when it starts with TE_CI_ITEM and a blank (or nothing) follows; carriage returns at its
    end do not count. Raises ListingError, with the place of the suite and the line as printed, for one
    without a tag, with a number of GPUs that is none, with more words, or with a tag that cannot be shown;
    and for a tag that was printed twice.
    """
    found: dict[str, int] = {}
    for line in stdout.split("\n"):
        if not line.startswith(MARK):
            continue
        rest = line[len(MARK) :].rstrip("\r")
        if rest and rest[0] not in " \t":
            continue
        tag, gpus = _words(rest, line, suite)
        if tag in found:
            raise ListingError(
                f"{_who(suite)} printed the tag {shown(tag)} twice in list mode",
                "each call line needs a tag of its own: give one of the two a label",
            )
        found[tag] = gpus
    return tuple(found.items())


def _words(rest: str, line: str, suite: Suite) -> tuple[str, int]:
    words = [word for word in rest.replace("\t", " ").split(" ") if word]
    if not words:
        problem = "it has no tag"
    elif not is_plain(words[0]) or words[0].split() != [words[0]]:
        problem = f"its tag holds {_ODD}"
    elif len(words) == 1:
        return words[0], 1
    elif len(words) > 2:  # noqa: PLR2004 - tag and gpus
        problem = "it has more than a tag and a number of GPUs"
    elif _GPUS.fullmatch(words[1]):
        return words[0], int(words[1])
    else:
        problem = f"{shown(words[1], 60)} is no number of GPUs"
    raise ListingError(f"{_who(suite)} printed a malformed item line, {problem}: {shown(line)}", _FORM)


def build(
    suites: Sequence[Suite], listings: Mapping[str, Listing]
) -> tuple[tuple[Item, ...], Census, tuple[Notice, ...]]:
    """Make the items of these suites, in listing order, the census, and what is to be said about them.

    ``listings`` holds one for each ``list`` suite, by label. An opaque suite is one item, and always
    listed. What can run exists, also when the second listing lacks it. A suite with nothing to run here is
    a notice when it is known to have items elsewhere, and else a ListingError: a script that does not know
    list mode must not be left out in silence. Items for several GPUs are refused with a ListingError, by
    name, until they can be run.
    """
    items: list[Item] = []
    known: set[Key] = set()
    listed: set[str] = set()
    notices: list[Notice] = []
    for suite in suites:
        listing = _WHOLE if suite.mode is Mode.OPAQUE else listings[suite.label]
        notices += _notices(suite, listing)
        for tag, gpus in listing.runnable:
            items.append(_item(suite, tag, gpus, len(items)))
        known.update(Key(suite.label, tag) for tag, _ in listing.known or ())
        if listing.known is not None:
            listed.add(suite.label)
    runnable = frozenset(item.key for item in items)
    return tuple(items), Census(runnable, runnable | known, frozenset(listed)), tuple(notices)


_WHOLE = Listing(runnable=(("", 1),), known=(("", 1),))


def _item(suite: Suite, tag: str, gpus: int, position: int) -> Item:
    key = Key(suite.label, tag)
    if gpus > 1:
        raise ListingError(
            f"{_who(suite)}: item {printable(str(key))} asks for {gpus} GPUs: "
            "items wider than one device cannot run yet",
            "leave this line out of list mode (as TEST_MGPU= does), or run it outside the queue",
        )
    return Item(key, suite.command, gpus, position)


def _notices(suite: Suite, listing: Listing) -> list[Notice]:
    cause = f": {printable(listing.problem)}" if listing.problem else ""
    if not listing.runnable and not listing.known:
        also = "" if listing.known is not None else f", and its second listing failed{cause}"
        raise ListingError(
            f"{_who(suite)} printed no item line in list mode{also}",
            f"with TE_CI_LIST_ITEMS=1 it is to print a line '{_PROTOCOL}' for each call line, and run nothing; "
            f"if it knows no list mode, write '{Mode.OPAQUE.value}' as its mode",
        )
    notices = []
    if listing.complaint:
        text = f"suite {suite.label}: while it listed its items its shell said '{printable(listing.complaint)}'"
        notices = [Notice(f"{text}; a line that it cannot run is missing from the plan", place(suite))]
    if listing.known is None:
        text = f"suite {suite.label}: its second listing (TE_CI_SKIP_CHECK_SUPPORTED=1) failed{cause}"
        return [*notices, Notice(f"{text}; none of its weights are pruned", place(suite))]
    if not listing.runnable:
        count = len(listing.known)
        text = f"suite {suite.label} has nothing to run here: its probes leave out all of its items ({count})"
        return [*notices, Notice(text, place(suite))]
    return notices


def _who(suite: Suite) -> str:
    return f"{place(suite)}: suite {suite.label}: {shown(suite.command[0])}"
