"""The parts of a fleets file, each read strictly: outputs, fleets, combinations, the kill switch, pins, bots."""

from __future__ import annotations

import re
import warnings
from collections.abc import Collection, Mapping

from pytest_sgpu.runners.lint.yaml_text import Text
from pytest_sgpu.runners.routing.placed_table import Table, named
from pytest_sgpu.runners.routing.places import Bot, KillSwitch, Pins, Place, Separate
from pytest_sgpu.runners.wording import found, nearest

SOURCE_OUTPUT = "decision-source"
"""The output that says where a decision comes from; no other may have its name."""

NUMBER = "number"
"""The group of a bot's tag that is the number of the pull request."""

ALL = "all"

_OUTPUT = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_PREFIX = re.compile(r"[A-Za-z0-9._-]*")
_EXPERIMENT = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_-]*[A-Za-z0-9])?")
_REPOSITORY = re.compile(r"[A-Za-z0-9._-]+/[A-Za-z0-9._-]+")


def outputs(root: Table) -> tuple[str, str]:
    """Give the names of the outputs for the prefix and for whether labels are translated."""
    table = root.table("outputs", "a mapping of outputs")
    if table is None:
        raise root.error("outputs", "missing, expected the names of two outputs: label, translates")
    table.only("label", "translates")
    names = tuple(_output(table, key) for key in ("label", "translates"))
    if names[0].casefold() == names[1].casefold():  # GitHub tells outputs apart without case
        raise table.error("translates", f"{found(names[1])} is the name of two outputs")
    return names[0], names[1]


def _output(table: Table, key: str) -> str:
    name = table.text(key, "the name of an output")
    is_taken = name.casefold() == SOURCE_OUTPUT.casefold()
    if not _OUTPUT.fullmatch(name) or is_taken:
        hint = f"{SOURCE_OUTPUT} is always written" if is_taken else "letters, digits, - and _"
        raise table.error(key, f"found {found(name)}, expected the name of an output", hint)
    return name


def prefix_of(table: Table, key: str, default: str | None = None, *, blank: bool = True) -> str:
    """Give what stands before a label: no character in it that a label or an output cannot have."""
    value = table.text(key, 'a prefix, "" for none' if blank else "a text", default, blank=blank)
    if not _PREFIX.fullmatch(value):
        raise table.error(key, f"found {found(value)}, expected letters, digits, '.', '-' and '_'")
    return value


def fleet(table: Table, name: str) -> Place:
    """Give a fleet, which is on with one experiment."""
    table.only("experiment", "prefix", "canary-prefix", "translates", "serves", "lacks")
    return _place(table, (name,), translates=table.flag("translates", default=False))


def _place(table: Table, fleets: tuple[str, ...], *, translates: bool) -> Place:
    prefix = prefix_of(table, "prefix")
    canary = prefix_of(table, "canary-prefix", prefix)
    serves = table.texts("serves", "a list of patterns", ("*",))
    lacks = table.texts("lacks", "a list of patterns")
    return Place(fleets, prefix, canary, translates, serves, lacks)


def experiments(tables: Mapping[str, Table]) -> dict[str, str]:
    """Give which experiment turns on which fleet: that of its own name, unless another is stated."""
    names: dict[str, str] = {}
    for fleet, table in tables.items():
        name = table.text("experiment", "the name of an experiment", fleet)
        if not _EXPERIMENT.fullmatch(name):
            raise table.error("experiment", f"found {found(name)}, which no experiment can be called")
        if name in names:
            raise table.error("experiment", f"{found(name)} turns on two fleets: {names[name]} and {fleet}")
        names[name] = fleet
    return names


def precedence(root: Table, fleets: Collection[str]) -> tuple[str, ...]:
    """Give the fleets, the one that wins first: in the order of the file, unless another is stated."""
    order = root.texts("precedence", "a list of fleets", tuple(fleets))
    for name in order:
        if name not in fleets:
            raise root.error("precedence", f"no fleet {found(name)}", nearest(name, fleets))
    for name in fleets:
        if name not in order:
            raise root.error("precedence", f"the fleet {found(name)} is not in it", "list every fleet once")
    return order


def combinations(root: Table, fleets: Mapping[str, Place]) -> tuple[Place, ...]:
    """Give the combinations of fleets; one translates when one of its fleets does."""
    made: list[Place] = []
    for table in root.array("combinations", "a list of combinations"):
        table.only("fleets", "prefix", "canary-prefix", "serves", "lacks")
        names = table.texts("fleets", "a list of fleets")
        for name in names:
            if name not in fleets:
                raise table.error("fleets", f"no fleet {found(name)}", nearest(name, fleets))
        if len(names) < 2:  # noqa: PLR2004
            raise table.error("fleets", "expected two fleets or more")
        if any(set(names) == set(one.fleets) for one in made):
            raise table.error("fleets", f"{' + '.join(names)} is there twice")
        made.append(_place(table, names, translates=any(fleets[name].translates for name in names)))
    return tuple(made)


def separate(root: Table, experiments: Mapping[str, str], outputs: tuple[str, str]) -> tuple[Separate, ...]:
    """Give the experiments that have an output of their own."""
    taken = {name.casefold() for name in outputs}
    made = []
    for name, table in root.tables("separate", "a mapping of experiments").items():
        table.only("output", "prefix")
        if name in experiments or not _EXPERIMENT.fullmatch(name):
            why = "turns on a fleet already" if name in experiments else "is a name that no experiment can have"
            raise root.error("separate", f"{found(name)} {why}")
        output = _output(table, "output")
        if output.casefold() in taken:
            raise table.error("output", f"{found(output)} is the name of two outputs")
        taken.add(output.casefold())
        made.append(Separate(name, output, prefix_of(table, "prefix", blank=False)))
    return tuple(made)


def branches(root: Table) -> tuple[str, ...]:
    """Give the first parts of branches where experiments do not reach."""
    names = root.texts("exception-branches", "a list of branches")
    for name in names:
        if "/" in name:
            raise root.error("exception-branches", f"found {found(name)}, expected the part before the first slash")
    return names


def repositories(root: Table) -> tuple[str, ...]:
    """Give the canary repositories."""
    names = root.texts("canary-repositories", "a list of OWNER/NAME")
    for name in names:
        if not _REPOSITORY.fullmatch(name):
            raise root.error("canary-repositories", f"found {found(name)}, expected OWNER/NAME")
    return names


def kill_switch(root: Table) -> KillSwitch | None:
    """Give the label that turns experiments off: all of them, unless a list is stated."""
    table = root.table("kill-switch", "a mapping with label and experiments")
    if table is None:
        return None
    table.only("label", "experiments")
    label = table.text("label", "a label of pull requests")
    value = table.mapping.get("experiments")
    if value is None or (isinstance(value, Text) and value.text == ALL):
        return KillSwitch(label)
    names = table.texts("experiments", f"{ALL}, or a list of experiments")
    if not names:
        raise table.error("experiments", f"found {named(value)}, expected {ALL}, or a list of experiments")
    return KillSwitch(label, frozenset(names))


def excluded(root: Table) -> dict[str, str]:
    """Give the configs that are left out of a translated matrix, with the reason of each."""
    table = root.table("excluded-configs", "a mapping of configs to reasons")
    return {key.text: table.text(key.text, "the reason") for key, _ in table.mapping} if table else {}


def pins(root: Table) -> Pins | None:
    """Give where the pinned labels are listed, and their prefix."""
    table = root.table("pins", "a mapping with list and prefix")
    if table is None:
        return None
    table.only("list", "prefix")
    key = table.text("list", "a key of the mapping file")
    return Pins(key, prefix_of(table, "prefix", blank=False))


def grammar(root: Table) -> re.Pattern[str] | None:
    """Give the form of translated labels."""
    return _pattern(root, "target-grammar") if root.has("target-grammar") else None


def _pattern(table: Table, key: str) -> re.Pattern[str]:
    text = table.text(key, "a regular expression")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what a later Python may read in another way is the file's own matter
            return re.compile(text)
    except (re.error, OverflowError, RecursionError, ValueError) as error:
        raise table.error(key, f"no regular expression: {error}") from None


def bot(table: Table) -> Bot:
    """Give an account that acts for others."""
    table.only("actor", "ref-type", "tag")
    actor, ref_type = table.text("actor", "a login"), table.text("ref-type", "a kind of ref, such as tag")
    tag = _pattern(table, "tag")
    if NUMBER not in tag.groupindex:
        hint = f"put (?P<{NUMBER}>[0-9]+) where the number of the pull request stands"
        raise table.error("tag", f"it has no group {NUMBER}", hint)
    return Bot(actor, ref_type, tag)
