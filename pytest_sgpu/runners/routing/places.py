"""What a fleets file speaks of: fleets, combinations of them, outputs of their own, bots, the kill switch."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase


@dataclass(frozen=True, slots=True)
class Place:
    """Where labels with one prefix lead: a fleet, a combination, or the default fleet (no name).

    ``fleets``: the names of the fleets that are on. ``translates``: labels become those of the other scheme.
    ``serves``, ``lacks``: shell patterns over the label behind the prefix, as the runners carry it.
    """

    fleets: tuple[str, ...]
    prefix: str
    canary_prefix: str
    translates: bool = False
    serves: tuple[str, ...] = ("*",)
    lacks: tuple[str, ...] = ()

    def prefix_for(self, *, canary: bool) -> str:
        """Give the prefix of the label, in the canary repository or elsewhere."""
        return self.canary_prefix if canary else self.prefix

    def can_serve(self, label: str) -> bool:
        """Tell whether a runner for ``label`` (without the prefix) is there, as far as the file says."""
        return _fits(label, self.serves) and not _fits(label, self.lacks)

    def __str__(self) -> str:
        """Name it in a message."""
        return " + ".join(self.fleets) if self.fleets else "the default fleet"


def _fits(label: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(label, pattern) for pattern in patterns)


@dataclass(frozen=True, slots=True)
class Separate:
    """An experiment that has an output of its own and no part in the prefix."""

    experiment: str
    output: str
    prefix: str


@dataclass(frozen=True, slots=True)
class KillSwitch:
    """The label of a pull request that turns experiments off: ``experiments``, or all of them (None)."""

    label: str
    experiments: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class Bot:
    """An account that acts for others: on a tag that fits, the author of that pull request counts in its place.

    The group ``number`` of ``tag`` is the number of the pull request.
    """

    actor: str
    ref_type: str
    tag: re.Pattern[str]


@dataclass(frozen=True, slots=True)
class Pins:
    """Labels that stay with one fleet: the key of their list in the mapping file, and the prefix they always have."""

    key: str
    prefix: str
