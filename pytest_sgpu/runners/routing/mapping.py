"""Labels of one scheme to labels of another: the mapping file, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

from pytest_sgpu.runners.lint import yaml_text
from pytest_sgpu.runners.lint.yaml_text import Sequence, Text, Value
from pytest_sgpu.runners.routing import scalars
from pytest_sgpu.runners.routing.fleets import Fleets
from pytest_sgpu.runners.routing.problems import Problem, Severity, shown, suggest
from pytest_sgpu.runners.wording import controls

TABLE = "runner_mapping"
"""The key of the table in a mapping file."""

Rule = Literal["translated", "pinned", "passed-through", "already-translated"]

_LONGEST = 256


@dataclass(frozen=True)
class LabelMap:
    """A mapping file. ``targets``: label to target; the two are equal for what is not to be translated (Q72).

    ``pinned``: labels that stay with one fleet (Q73). ``lines``, ``pin_lines``: where each stands, from 1. Only entries
    that are right are in ``targets``. When it is not ``usable``, there is no table, and ``problems`` say why.
    """

    source: str
    targets: Mapping[str, str] = field(default_factory=dict)
    pinned: frozenset[str] = frozenset()
    lines: Mapping[str, int] = field(default_factory=dict)
    pin_lines: Mapping[str, int] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()
    usable: bool = True
    rest: LabelMap | None = None

    @cached_property
    def is_target(self) -> frozenset[str]:
        """Give every target, those of labels that are passed through too."""
        return frozenset(self.targets.values())

    @cached_property
    def target_pins(self) -> Mapping[str, frozenset[bool]]:
        """Give of every target whether its labels are pinned: all, none, or some of them."""
        found: dict[str, frozenset[bool]] = {}
        for label, target in self.targets.items():
            found[target] = found.get(target, frozenset()) | {label in self.pinned}
        return found


@dataclass(frozen=True, slots=True)
class Resolution:
    """What became of one label. ``text`` says why, on one line.

    ``bare``: the label of the table that it was, "" where it was a target already, and stays. ``replaced``: the known
    prefix of another fleet that it came with, and lost. ``is_moved``: it was a target already, with another prefix or
    without one; ``bare`` is then the first label of the table with that target.
    """

    label: str
    rule: Rule
    text: str
    bare: str = ""
    replaced: str = ""
    is_moved: bool = False


def parse_mapping(text: str, source: str, pins_key: str) -> LabelMap:
    """Read a mapping file; ``pins_key`` is the key of its list of pinned labels, "" for none.

    Raises nothing for its content: an entry that is wrong costs itself, and is a problem (Q70). Raises SgpuError when
    ruamel.yaml is not installed.
    """
    try:
        root = yaml_text.parse(text, source)
    except yaml_text.TwiceError:
        return _with_keys_twice(text, source, pins_key)
    except yaml_text.PlacedError as error:
        return _unusable(source, Problem(source, error.line, "error", str(error), "", error.column))
    if not isinstance(root, yaml_text.Mapping):
        what = "nothing" if root is None else str(root)
        return _unusable(source, Problem(source, 1, "error", f"found {what}, expected a mapping with {TABLE}:"))
    return _Reader(source, pins_key).read(root)


def check_mapping(label_map: LabelMap, fleets: Fleets) -> tuple[Problem, ...]:
    """Check a table, for lint: the form of its targets (Q79), prefixes in it, pins that are no use.

    In the order of the lines, and without the problems that the table has already.
    """
    shared = {label_map.targets[label]: label for label in label_map.pinned if label in label_map.targets}
    found = [
        Problem(label_map.source, label_map.lines[label], severity, message, hint)
        for label, target in label_map.targets.items()
        for severity, message, hint in _flaws(label, target, shared, label_map, fleets)
    ]
    return tuple(sorted(found, key=lambda problem: problem.line))


def known_prefixes(fleets: Fleets, *, translating: bool = False) -> tuple[str, ...]:
    """Give every prefix that a label may come with, the longest first; only those of translated labels if so asked."""
    places = [place for place in fleets.places if place.translates or not translating]
    prefixes = {prefix for place in places for prefix in (place.prefix, place.canary_prefix)}
    if fleets.pins:
        prefixes.add(fleets.pins.prefix)
    return tuple(sorted(prefixes - {""}, key=lambda prefix: (-len(prefix), prefix)))


def resolve(label: str, prefix: str, label_map: LabelMap, fleets: Fleets) -> Resolution | None:
    """Translate one label for ``prefix``; None when the table has nothing for it (Q75).

    A label may come bare, with ``prefix`` or with another known one (Q71, Q77), or translated already (Q76).
    """
    label = label.strip()
    moved: dict[str, Resolution] = {}
    for one in dict.fromkeys(("", prefix, *known_prefixes(fleets, translating=True))):
        made = _target(label, one, prefix, label_map, fleets)
        if made and made.rule == "already-translated":
            return made
        if made:
            moved.setdefault(made.label, made)
    if moved and label not in label_map.targets:
        why = f"{shown(label)} is translated already, in more than one way, and stays as it is"
        return moved.popitem()[1] if len(moved) == 1 else Resolution(label, "already-translated", why)
    bare, came_with = _bare(label, prefix, label_map, fleets)
    return _looked_up(bare, came_with, prefix, label_map, fleets) if bare in label_map.targets else None


def _looked_up(bare: str, came_with: str, prefix: str, label_map: LabelMap, fleets: Fleets) -> Resolution:
    replaced = came_with if came_with != prefix else ""
    target = label_map.targets[bare]
    place = f"{label_map.source}:{label_map.lines.get(bare, 0)}"
    if bare in label_map.pinned and fleets.pins:
        why = f"{shown(bare)} is pinned to {shown(fleets.pins.prefix)}, whatever the prefix; {place}"
        return Resolution(fleets.pins.prefix + target, "pinned", why, bare, replaced)
    if target == bare:
        why = f"{shown(bare)} maps to itself: passed through without a prefix; {place}"
        return Resolution(bare, "passed-through", why, bare, replaced)
    why = f"{shown(bare)} is {shown(target)}, with the prefix {shown(prefix)} in front; {place}"
    return Resolution(prefix + target, "translated", why, bare, replaced)


def _target(label: str, one: str, prefix: str, label_map: LabelMap, fleets: Fleets) -> Resolution | None:
    """Take ``label`` as a target behind the prefix ``one``: it stays, or gets the prefix that its target has now.

    The prefix is that of the pin where every label with the target is pinned, else ``prefix``. Where only some are,
    a target behind another prefix than these two could be either, and stays.
    """
    target = label[len(one) :]
    if not label.startswith(one) or target not in label_map.is_target:
        return None
    pin = fleets.pins.prefix if fleets.pins else ""
    pins = label_map.target_pins.get(target, frozenset()) if fleets.pins else frozenset()
    if target in label_map.targets and not (True in pins and one == pin):
        return None
    right = pin if pins == {True} else prefix
    if one == right or len(pins) > 1:
        return Resolution(label, "already-translated", f"{shown(label)} is translated already, and stays as it is")
    bare = next(name for name, value in label_map.targets.items() if value == target)
    place = f"{label_map.source}:{label_map.lines.get(bare, 0)}"
    what = f"{shown(label)} is translated already"
    if pins == {True}:
        why = f"{what}, but pinned to {shown(pin)}; {place}"
        return Resolution(pin + target, "pinned", why, bare, one, is_moved=True)
    why = f"{what}, and gets the prefix {shown(prefix)}; {place}"
    return Resolution(prefix + target, "translated", why, bare, one, is_moved=True)


def _bare(label: str, prefix: str, label_map: LabelMap, fleets: Fleets) -> tuple[str, str]:
    """Give the label of the table and the prefix it came with. What stands in the table as it is has no prefix."""
    for one in ("", prefix, *known_prefixes(fleets)):
        if label.startswith(one) and label[len(one) :] in label_map.targets:
            return label[len(one) :], one
    return label, ""


def _flaws(
    label: str, target: str, shared: Mapping[str, str], label_map: LabelMap, fleets: Fleets
) -> Iterator[tuple[Severity, str, str]]:
    prefixes = known_prefixes(fleets)
    for what, name in (("label", label), ("target", target)):
        if put := next((one for one in prefixes if name.startswith(one)), ""):
            yield "error", f"the {what} {shown(name)} has the prefix {shown(put)}", "the translation puts prefixes on"
            return
    is_pinned = label in label_map.pinned
    if label == target:
        if is_pinned and fleets.pins:
            made = shown(fleets.pins.prefix + label)
            yield "warning", f"{shown(label)} maps to itself, but is pinned: it becomes {made}", "give it a target"
    elif fleets.target_grammar and not fleets.target_grammar.fullmatch(target):
        pattern = f"the grammar is target-grammar in {fleets.source}"
        yield "error", f"the target {shown(target)} of {shown(label)} does not fit the grammar", pattern
    elif target in shared and not is_pinned:
        message = f"{shown(label)} has the target of {shown(shared[target])}, which is pinned, but is not"
        yield "warning", message, "pin it too, or give it another target"


def _with_keys_twice(text: str, source: str, pins_key: str) -> LabelMap:
    """Refuse a file with keys that are there twice, and give a check the rest, where the first of them counts."""
    try:
        root = yaml_text.parse(text, source, lenient=True)
    except yaml_text.PlacedError as error:
        return _unusable(source, Problem(source, error.line, "error", str(error), "", error.column))
    assert root is not None
    hint = "write each key once"
    twice = [
        Problem(
            source, key.line, "error", f"the key {key} is there twice, first in line {first.line}", hint, key.column
        )
        for first, key in sorted(_twice(root), key=lambda pair: (pair[1].line, pair[1].column))
    ]
    made = _Reader(source, pins_key).read(root) if isinstance(root, yaml_text.Mapping) else LabelMap(source)
    problems = tuple(sorted((*twice, *made.problems), key=lambda problem: (problem.line, problem.column)))
    return LabelMap(source, problems=tuple(twice), usable=False, rest=replace(made, problems=problems))


def _twice(root: Value) -> Iterator[tuple[Text, Text]]:
    """Give each key that is there again, behind the first of its name, wherever in the file."""
    waiting, seen = [root], {id(root)}
    while waiting:
        value = waiting.pop()
        entries = _in_order(value) if isinstance(value, yaml_text.Mapping) else ()
        firsts: dict[str, Text] = {}
        for key, _ in entries:
            if firsts.setdefault(key.text, key) is not key:
                yield firsts[key.text], key
        inner = value.items if isinstance(value, Sequence) else tuple(child for _, child in entries)
        waiting += [child for child in inner if id(child) not in seen]  # an alias once
        seen.update(map(id, inner))


def _in_order(mapping: yaml_text.Mapping) -> tuple[tuple[Text, Value], ...]:
    """Give every entry in the order of the file, also those that a later one of the name replaced."""
    return tuple(sorted((*mapping.replaced, *mapping), key=lambda entry: (entry[0].line, entry[0].column)))


def _unusable(source: str, problem: Problem) -> LabelMap:
    return LabelMap(source, problems=(problem,), usable=False)


class _Reader:
    def __init__(self, source: str, pins_key: str) -> None:
        self._source = source
        self._pins_key = pins_key
        self._problems: list[Problem] = []

    def read(self, root: yaml_text.Mapping) -> LabelMap:
        keys = (TABLE, self._pins_key) if self._pins_key else (TABLE,)
        found: dict[str, list[Value]] = {key: [] for key in keys}
        for key, value in _in_order(root):
            if key.text in found:
                found[key.text].append(value)
            else:
                self._tell(key, f"unknown key {key}, not used", suggest(key.text, keys), severity="warning")
        tables = [value for value in found[TABLE] if isinstance(value, yaml_text.Mapping)]
        if not tables:
            what = f"{TABLE}: found {found[TABLE][0]}, expected a mapping of labels" if found[TABLE] else ""
            self._tell((*found[TABLE], root)[0], what or f"no {TABLE}: at the top", "label: target, one a line")
            return LabelMap(self._source, problems=tuple(self._problems), usable=False)
        targets, lines = self._table([entry for table in tables for entry in _in_order(table)])
        pin_lines: dict[str, int] = {}
        for pins in found.get(self._pins_key, ()):
            self._pins(pins, pin_lines)
        for label, line in pin_lines.items():
            if label not in targets:
                hint = "; ".join(filter(None, (f"add it to {TABLE} first", suggest(label, targets))))
                message = f"{self._pins_key}: {shown(label)} has no mapping"
                self._problems.append(Problem(self._source, line, "error", message, hint))
        problems = tuple(sorted(self._problems, key=lambda problem: problem.line))
        return LabelMap(self._source, targets, frozenset(pin_lines), lines, pin_lines, problems)

    def _table(self, entries: list[tuple[Text, Value]]) -> tuple[dict[str, str], dict[str, int]]:
        names = {key.text for key, _ in entries}
        targets: dict[str, str] = {}
        lines: dict[str, int] = {}
        for key, value in entries:
            target = self._label(value, f"the target of {key}", key) if self._label(key, "a label") else None
            if not target:
                continue
            if target != key.text and target in names:
                message = f"the target {shown(target)} of {key} is a label of the table itself"
                self._tell(value, message, "map each label to where it ends")  # else translating twice goes on
                continue
            targets.setdefault(key.text, target)
            lines.setdefault(key.text, key.line)
        return targets, lines

    def _pins(self, value: Value, lines: dict[str, int]) -> None:
        if isinstance(value, Text) and scalars.resolve(value) is None:
            return
        if not isinstance(value, Sequence):
            self._tell(value, f"{self._pins_key}: found {value}, expected a list of labels")
            return
        for item in value.items:
            label = self._label(item, f"an entry of {self._pins_key}")
            if label in lines:
                message = f"{self._pins_key}: {shown(label)} is there twice, first in line {lines[label]}"
                self._tell(item, message, severity="warning")
            elif label:
                lines[label] = item.line

    def _label(self, value: Value, what: str, key: Text | None = None) -> str | None:
        if not isinstance(value, Text):
            self._tell(value, f"{what}: found {value}, expected a label")
            return None
        if not isinstance(scalars.resolve(value), str):
            written = value if value.text else "nothing"
            hint = "put a label of digits, or of such a word, in quotes"
            if not value.text:
                hint = f"a target is missing: {key.text}: TARGET" if key else "a label is missing"
            self._tell(value, f"{what}: found {written}, expected a label", hint)
            return None
        label = value.text
        if not label or label != label.strip() or controls(label) or len(label) > _LONGEST:
            expected = f"expected one of 1 to {_LONGEST} characters, all printable, without blanks around it"
            self._tell(value, f"{what}: {value} is no label, {expected}")
            return None
        return label

    def _tell(self, place: Value, message: str, hint: str = "", *, severity: Severity = "error") -> None:
        self._problems.append(Problem(self._source, place.line, severity, message, hint, place.column))
