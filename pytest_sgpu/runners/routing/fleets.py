"""The fleets file: YAML text to the fleets, prefixes, branches, repositories and pins of an organisation."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from pytest_sgpu.runners.routing import fleet_parts
from pytest_sgpu.runners.routing.fleet_parts import NUMBER, SOURCE_OUTPUT
from pytest_sgpu.runners.routing.placed_table import Table, read
from pytest_sgpu.runners.routing.places import Bot, KillSwitch, Pins, Place, Separate
from pytest_sgpu.runners.wording import found

__all__ = ["SOURCE_OUTPUT", "Bot", "Fleets", "KillSwitch", "Pins", "Place", "Separate", "parse_fleets"]

VERSION = 1
LONGEST_FILE = 256 * 1024  # characters
_MOST_DIGITS = 18
_KEYS = (
    "version",
    "outputs",
    "fleets",
    "default-prefix",
    "precedence",
    "combinations",
    "other-end",
    "separate",
    "exception-branches",
    "canary-repositories",
    "kill-switch",
    "excluded-configs",
    "pins",
    "target-grammar",
    "bots",
    "other-labels",
)


@dataclass(frozen=True, slots=True)
class Fleets:
    """A fleets file that was checked as a whole. ``source`` is its name in errors.

    ``fleets``: name to place, the one that wins first (precedence). ``experiments``: experiment to name of its fleet.
    ``excluded_configs``: config of a test matrix to the reason why it is left out of translation.
    ``other_labels``: shell patterns of labels that belong to somebody else, for lint alone. ``lines``: where a fleet
    (by ``fleets.NAME``) and ``kill-switch`` stand.
    """

    source: str
    default: Place
    fleets: Mapping[str, Place]
    experiments: Mapping[str, str]
    combinations: tuple[Place, ...]
    separate: tuple[Separate, ...]
    exception_branches: tuple[str, ...]
    canary_repositories: tuple[str, ...]
    kill_switch: KillSwitch | None
    excluded_configs: Mapping[str, str]
    pins: Pins | None
    target_grammar: re.Pattern[str] | None
    bots: tuple[Bot, ...]
    label_output: str
    translates_output: str
    other_end: str
    other_labels: tuple[str, ...] = ()
    lines: Mapping[str, int] = field(default_factory=dict)

    @property
    def places(self) -> tuple[Place, ...]:
        """Every place that a label can lead to: the default fleet, each fleet, each combination."""
        return (self.default, *self.fleets.values(), *self.combinations)

    @property
    def prefixes(self) -> Mapping[str, Place]:
        """Every prefix that is not empty, with canary forms, pins and separate outputs; the longest first."""
        known: dict[str, Place] = {}
        for place in self.places:
            known.setdefault(place.prefix, place)
            known.setdefault(place.canary_prefix, place)
        if self.pins:
            known.setdefault(self.pins.prefix, Place((self.pins.key,), self.pins.prefix, self.pins.prefix, True))
        for one in self.separate:
            known.setdefault(one.prefix, Place((one.experiment,), one.prefix, one.prefix))
        known.pop("", None)
        return dict(sorted(known.items(), key=lambda item: -len(item[0])))

    def place(self, names: Collection[str]) -> Place:
        """Give the place for the fleets (by name) that are on (Q57, Q58).

        The first one in precedence wins; the largest combination of it with others that are on, if one is stated.
        """
        on = [name for name in self.fleets if name in names]
        if not on:
            return self.default
        fitting = [one for one in self.combinations if on[0] in one.fleets and set(one.fleets) <= set(on)]
        return max(fitting, key=lambda one: len(one.fleets), default=self.fleets[on[0]])

    def place_of(self, experiments: Iterable[str]) -> Place:
        """Give the place for the experiments that are on."""
        return self.place([self.experiments[name] for name in experiments if name in self.experiments])

    def is_canary(self, repository: str) -> bool:
        """Tell whether ``repository`` (owner/name, any case) is a canary one (Q59)."""
        wanted = repository.strip().casefold()
        return any(wanted == one.casefold() for one in self.canary_repositories)

    def pull_request(self, actor: str, ref_type: str, ref: str) -> int | None:
        """Give the number of the pull request whose author counts in place of ``actor``, None where it counts (Q49)."""
        name = actor.strip().casefold()
        for bot in self.bots:
            if name == bot.actor.casefold() and ref_type == bot.ref_type:
                match = bot.tag.fullmatch(ref.removeprefix("refs/tags/"))
                number = match[NUMBER] if match else None
                if number and number.isascii() and number.isdigit() and len(number) <= _MOST_DIGITS:
                    return int(number)
        return None


def parse_fleets(text: str, source: str) -> Fleets:
    """Read a fleets file (Q30-Q33). Raises ConfError that starts with ``source:line``; SgpuError without YAML."""
    root = read(text, source, LONGEST_FILE)
    root.only(*_KEYS)
    root.version("version", VERSION)
    default = fleet_parts.prefix_of(root, "default-prefix", "")
    tables = root.tables("fleets", "a mapping of fleets by name")
    fleets = {name: fleet_parts.fleet(table, name) for name, table in tables.items()}
    experiments = fleet_parts.experiments(tables)
    outputs = fleet_parts.outputs(root)
    read_fleets = Fleets(
        source=source,
        default=Place((), default, default),
        fleets={name: fleets[name] for name in fleet_parts.precedence(root, fleets)},
        experiments=experiments,
        combinations=fleet_parts.combinations(root, fleets),
        separate=fleet_parts.separate(root, experiments, outputs),
        exception_branches=fleet_parts.branches(root),
        canary_repositories=fleet_parts.repositories(root),
        kill_switch=fleet_parts.kill_switch(root),
        excluded_configs=fleet_parts.excluded(root),
        pins=fleet_parts.pins(root),
        target_grammar=fleet_parts.grammar(root),
        bots=tuple(fleet_parts.bot(table) for table in root.array("bots", "a list of bots")),
        label_output=outputs[0],
        translates_output=outputs[1],
        other_end=fleet_parts.prefix_of(root, "other-end", ".", blank=False),
        other_labels=root.texts("other-labels", "a list of patterns"),
        lines=_lines(root),
    )
    _clear(root, read_fleets)
    return read_fleets


def _lines(root: Table) -> dict[str, int]:
    outer = root.table("fleets", "a mapping of fleets by name")
    lines = {f"fleets.{key.text}": key.line for key, _ in outer.mapping} if outer else {}
    return lines | {key.text: key.line for key, _ in root.mapping}


def _clear(root: Table, fleets: Fleets) -> None:
    """Refuse a prefix of translated and of untranslated labels: nobody could tell them apart (Q33)."""
    known = fleets.prefixes
    for place in fleets.places:
        key = "combinations" if len(place.fleets) > 1 else "fleets"
        for prefix in (place.prefix, place.canary_prefix):
            other = known.get(prefix, place)
            if other.translates != place.translates:
                message = (
                    f"the prefix {found(prefix)} is that of {other} and of {place}, but only one of them translates"
                )
                raise root.error(key, message)
    if fleets.pins and fleets.pins.prefix in known and not known[fleets.pins.prefix].translates:
        message = (
            f"the prefix {found(fleets.pins.prefix)} is that of {known[fleets.pins.prefix]}, which does not translate"
        )
        raise root.error("pins", message)
