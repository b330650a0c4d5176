"""What is to be done: suites, items, what is known of their durations, and the plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum


class Mode(Enum):
    """How a suite is expanded: it lists its items, or it is one item as a whole."""

    LIST = "list"
    OPAQUE = "opaque"


@dataclass(frozen=True, slots=True, order=True)
class Key:
    """The name of an item across runs: ``suite/tag``, or ``suite`` for an opaque suite (tag "")."""

    suite: str
    tag: str = ""

    def __str__(self) -> str:
        """Give the text form, which the weight table uses."""
        return f"{self.suite}/{self.tag}" if self.tag else self.suite

    @classmethod
    def parse(cls, text: str) -> Key:
        """Read the text form. Labels hold no slash, so the first one divides."""
        suite, _, tag = text.partition("/")
        return cls(suite, tag)


@dataclass(frozen=True, slots=True)
class Suite:
    """One line of a conf file. ``command`` is as written there; ``conf`` and ``line`` say where."""

    label: str
    log_name: str
    mode: Mode
    command: tuple[str, ...]
    conf: str
    line: int


@dataclass(frozen=True, slots=True)
class Item:
    """What one device runs at a time. ``position`` is its place in the listing of all suites, from 0."""

    key: Key
    command: tuple[str, ...]
    gpus: int
    position: int


@dataclass(frozen=True, slots=True)
class Census:
    """What exists. ``listed`` names the suites of which both listings are known: only those are pruned."""

    runnable: frozenset[Key]
    known: frozenset[Key]
    listed: frozenset[str]


@dataclass(frozen=True, slots=True)
class Scope:
    """What a weight table is about: an architecture (``gfx950``, ``sm_90``, ``cpu``) and a level."""

    arch: str
    level: str


@dataclass(frozen=True, slots=True)
class WeightTable:
    """Learned seconds per key."""

    scope: Scope
    entries: Mapping[Key, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Estimate:
    """Seconds that an item will probably take.

    ``known``: it stands in the weight table. Unknown is this flag and no magic number; ``seconds``
    may then hold a guess from sibling items, or None.
    """

    seconds: float | None
    known: bool


UNKNOWN = Estimate(None, known=False)


@dataclass(frozen=True, slots=True)
class PlanEntry:
    """One line of the plan. ``rank`` counts from 1."""

    rank: int
    item: Item
    estimate: Estimate


@dataclass(frozen=True, slots=True)
class Plan:
    """The items in the order in which they are handed out, and the number of devices for them."""

    entries: tuple[PlanEntry, ...]
    devices: int

    @property
    def total(self) -> float:
        """Seconds of all known items together."""
        return sum(e.estimate.seconds or 0.0 for e in self.entries if e.estimate.known)

    @property
    def longest(self) -> float:
        """Seconds of the longest known item, 0.0 when none is known."""
        return max((e.estimate.seconds or 0.0 for e in self.entries if e.estimate.known), default=0.0)

    @property
    def unknown(self) -> int:
        """How many items are in no table. They are counted apart, never as seconds."""
        return sum(not e.estimate.known for e in self.entries)

    @property
    def lower_bound(self) -> float:
        """Seconds that no schedule of the known items can beat: max(work / devices, longest)."""
        return max(self.total / self.devices, self.longest)
