"""What the texts of the routing say about each other: names and labels that nobody knows, fleets that cannot serve."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from pytest_sgpu.runners.routing.fleets import Fleets
from pytest_sgpu.runners.routing.mapping import LabelMap, check_mapping
from pytest_sgpu.runners.routing.places import Place
from pytest_sgpu.runners.routing.problems import Problem, shown, suggest
from pytest_sgpu.runners.routing.rollout import Rollout
from pytest_sgpu.runners.routing.workflows import Use, Workflow

EVERY_WORKFLOW = "all"
# Labels that GitHub itself gives to runners: those of its hosted ones, and those of every self-hosted one.
GITHUBS_LABELS = (
    *("ubuntu-*", "windows-*", "macos-*"),
    *("self-hosted", "linux", "windows", "macos", "x64", "arm", "arm64"),
)


@dataclass(frozen=True, slots=True)
class Texts:
    """What a check is given, read already. None: not given, so nothing is said about it."""

    fleets: Fleets
    label_map: LabelMap | None = None
    rollout: Rollout | None = None
    rollout_source: str = ""
    workflows: tuple[Workflow, ...] = ()


def check(texts: Texts) -> tuple[Problem, ...]:
    """Check each text by itself and against the others. One problem is told once, in the order of texts and lines."""
    problems: list[Problem] = []
    if texts.label_map and texts.label_map.rest:
        texts = replace(texts, label_map=texts.label_map.rest)
    if texts.rollout:
        problems += _rollout(texts.rollout, texts.rollout_source)
        problems += _names(texts.rollout, texts)
    if texts.label_map:
        problems += texts.label_map.problems
        problems += check_mapping(texts.label_map, texts.fleets)
        problems += _pinned(texts.fleets)
        problems += _served(texts.label_map, texts.fleets)
    for workflow in texts.workflows:
        problems += workflow.problems
        problems += _workflow(workflow, texts)
    order = {source: place for place, source in enumerate(dict.fromkeys(problem.source for problem in problems))}
    return tuple(
        sorted(dict.fromkeys(problems), key=lambda problem: (order[problem.source], problem.line, problem.column))
    )


def placed(message: str, source: str, hint: str = "") -> Problem:
    """Make an error of a message that begins with ``source`` and perhaps a line and a column."""
    found = re.match(r":(\d+)(?::(\d+))?: ", message.removeprefix(source)) if message.startswith(source) else None
    if found:
        text = message.removeprefix(source)[found.end() :]
        return Problem(source, int(found[1]), "error", text, hint, int(found[2] or 0))
    return Problem(source, 0, "error", message.removeprefix(f"{source}: "), hint)


def _rollout(rollout: Rollout, source: str) -> Iterator[Problem]:
    for problem in rollout.problems:
        yield replace(problem, severity="error") if problem.mistake else problem
    if not rollout.usable and not any(problem.severity == "error" for problem in rollout.problems):
        yield Problem(source, 0, "error", rollout.why, "every workflow gets the default fleet")


def _names(rollout: Rollout, texts: Texts) -> Iterator[Problem]:
    """Look for names in the fleets file and the rollout text that the other side does not know (Q117)."""
    fleets, known = texts.fleets, rollout.experiments
    if not rollout.usable:
        return
    for experiment, fleet in fleets.experiments.items():
        if experiment not in known:
            what = f"the experiment {shown(experiment)} of fleet {shown(fleet)} is not in {texts.rollout_source}"
            line = fleets.lines.get(f"fleets.{fleet}", 0)
            yield Problem(fleets.source, line, "warning", f"{what}: it is never on", suggest(experiment, known))
    switch = fleets.kill_switch
    for experiment in sorted(switch.experiments or ()) if switch else ():
        if experiment not in known:
            what = f"the kill switch names the experiment {shown(experiment)}, which nobody knows"
            line = fleets.lines.get("kill-switch", 0)
            yield Problem(fleets.source, line, "warning", what, suggest(experiment, known))
    names = [workflow.name for workflow in texts.workflows if workflow.name]
    for one in known.values() if names else ():
        for entry in one.workflows:
            name = entry.removeprefix("-").strip()
            if name and name not in names and name.casefold() != EVERY_WORKFLOW:
                what = f"experiment {one.name}: no workflow is named {shown(name)}"
                yield Problem(texts.rollout_source, one.line, "warning", what, suggest(name, names))


def _pinned(fleets: Fleets) -> Iterator[Problem]:
    """Look whether a pinned label would get a prefix of no fleet (Q116): runners of its own there may be."""
    known = [prefix for one in fleets.places for prefix in (one.prefix, one.canary_prefix) if one.translates]
    if fleets.pins and fleets.pins.prefix not in known:
        what = f"pins: no fleet has the prefix {shown(fleets.pins.prefix)}, which every pinned label gets"
        yield Problem(fleets.source, fleets.lines.get("pins", 0), "warning", what, suggest(fleets.pins.prefix, known))


def _served(label_map: LabelMap, fleets: Fleets) -> Iterator[Problem]:
    """Look for targets that a fleet has no runner for, though labels lead there (Q116)."""
    pins = fleets.pins
    for label, target in label_map.targets.items():
        if target == label:
            continue  # it goes out as it is, to whom it belongs
        if label in label_map.pinned and pins:
            place = fleets.prefixes.get(pins.prefix)
            if place and not place.can_serve(target):
                what = f"{shown(label)} is pinned to {place}, which has no runner for {shown(target)}"
                line = label_map.pin_lines.get(label, 0)
                yield Problem(label_map.source, line, "error", what, "take it out of the list, or correct the target")
            continue
        for place in fleets.places:
            if place.translates and not place.can_serve(target):
                what = f"{place} has no runner for {shown(target)}, to which {shown(label)} leads"
                hint = f"add {label} to {pins.key}" if pins else "take it out of what the fleet lacks"
                yield Problem(label_map.source, label_map.lines.get(label, 0), "error", what, hint)


def _workflow(workflow: Workflow, texts: Texts) -> Iterator[Problem]:
    asked = _places(workflow, texts)
    untranslated = _untranslated(workflow, texts)
    for use in workflow.uses:
        place = texts.fleets.prefixes.get(use.given)
        places = (place,) if place else asked  # who writes a prefix out asks for nothing else
        if use.kind in {"check", "opt-out"}:
            known = texts.rollout.experiments if texts.rollout and texts.rollout.usable else None
            if known is not None and use.name not in known:
                what = f"unknown experiment {shown(use.name)}"
                yield _at(workflow, use, what, suggest(use.name, known))
        elif texts.label_map and texts.label_map.usable:
            if use.prefixed and use.given and not place:
                what = f"no fleet has the prefix {shown(use.given)} that is given beside {shown(use.name)}"
                yield _at(workflow, use, what, suggest(use.given, texts.fleets.prefixes))
            yield from _label(workflow, use, texts.label_map, texts.fleets)
            yield from _asked(workflow, use, texts.label_map, places)
            yield from _identity(workflow, use, texts.label_map, untranslated)


def _label(workflow: Workflow, use: Use, label_map: LabelMap, fleets: Fleets) -> Iterator[Problem]:
    """Judge one label: known, of somebody else, with a prefix already, or unknown (Q115)."""
    known = label_map.targets
    if use.name in known or _is_others(use.name, fleets):
        return
    ends = ((one, use.name[len(one) :]) for one in ("", *fleets.prefixes) if use.name.startswith(one))
    made = next(((one, bare) for one, bare in ends if bare in known or bare in label_map.is_target), None)
    if made is not None:
        bare = made[1]
        if why := _no_runner(*made, use, label_map, fleets):
            yield _at(workflow, use, f"no runner for {shown(use.name)}: {why}", "name the label of the mapping")
        elif use.kind == "runner" or use.prefixed:
            label = next((label for label, target in known.items() if target == bare), bare)
            what = f"{shown(use.name)} is a label that the routing makes, not one that it is given"
            yield _at(workflow, use, what, f"{label}: prefix and translation come from the decision", warning=True)
        return
    source = label_map.source
    yield _at(workflow, use, f"unknown label {shown(use.name)}: not in {source}", suggest(use.name, known))


def _no_runner(prefix: str, bare: str, use: Use, label_map: LabelMap, fleets: Fleets) -> str:
    """Say why nobody serves a label that is written out with its prefix, or translated; "" when somebody may (Q116)."""
    if prefix in {one.prefix for one in fleets.separate}:
        return ""
    place = fleets.prefixes.get(prefix, fleets.default)
    target = label_map.targets.get(bare)
    if target == bare and bare not in label_map.pinned:
        return f"{shown(bare)} maps to itself, and has no prefix"
    if target is not None and place.translates:  # a matrix is translated once more
        return f"{place} has translated labels only, here {shown(target)}" if use.kind == "runs-on" else ""
    if target is None and not place.translates:
        return f"{shown(bare)} is a translated label, and {place} has no such labels"
    leading = [label for label, one in label_map.targets.items() if one == bare]
    pins = fleets.pins
    if target is None and pins and pins.prefix != prefix and label_map.pinned.issuperset(leading):
        return f"{shown(leading[0])} is pinned to {shown(pins.prefix)}"
    return "" if place.can_serve(bare) else f"{place} has none for {shown(bare)}"


def _identity(workflow: Workflow, use: Use, label_map: LabelMap, prefixes: Sequence[str]) -> Iterator[Problem]:
    """Look for a prefix before a label that belongs to no fleet, and so has none (Q116).

    ``prefixes``: those of untranslated labels that the workflow may get.
    """
    if label_map.targets.get(use.name) != use.name or use.name in label_map.pinned:
        return
    if use.prefixed or (use.kind == "runner" and workflow.prefixes_matrix):
        for prefix in [use.given] if use.given else prefixes[:1]:
            what = f"{shown(use.name)} maps to itself, and has no prefix: this workflow may ask for "
            what += f"{shown(prefix + use.name)}, which no runner has"
            yield _at(workflow, use, what, "name it in a job of its own, without the prefix")


def _untranslated(workflow: Workflow, texts: Texts) -> list[str]:
    """Give the prefixes of labels that are not translated, as far as the experiments of this workflow lead to them."""
    fleets, known = texts.fleets, texts.rollout.experiments if texts.rollout else {}
    apart = {*fleets.experiments, *(one.experiment for one in fleets.separate)}
    considered = _considered(workflow, texts)
    others = [name for name in known if name in considered and name not in apart]
    prefixes = [place.prefix for place in _places(workflow, texts) if not place.translates and place.prefix]
    return [*prefixes, *(fleets.default.prefix + name + fleets.other_end for name in others)]


def _asked(workflow: Workflow, use: Use, label_map: LabelMap, places: Sequence[Place]) -> Iterator[Problem]:
    """Look whether the fleets that this workflow may get have a runner for the label (Q116)."""
    target = label_map.targets.get(use.name, use.name)
    if target == use.name:
        return
    for place in places if use.kind == "runner" or use.prefixed else places[:1]:
        if not place.translates and not place.can_serve(use.name):
            what = f"{place} has no runner for {shown(place.prefix + use.name)}, which this workflow may ask for"
            yield _at(workflow, use, what, "opt out of the experiment in this workflow, or name another label")


def _places(workflow: Workflow, texts: Texts) -> tuple[Place, ...]:
    """Give the places that a workflow may be sent to, the default fleet first."""
    fleets = texts.fleets
    names = {fleets.experiments[name] for name in _considered(workflow, texts) if name in fleets.experiments}
    return (fleets.default, *(place for place in fleets.places if place.fleets and names.issuperset(place.fleets)))


def _considered(workflow: Workflow, texts: Texts) -> set[str]:
    """Give the experiments that can be on for a workflow."""
    checked = {use.name for use in workflow.uses if use.kind == "check"}
    out = {use.name for use in workflow.uses if use.kind == "opt-out"}
    if not checked:
        known = texts.rollout.experiments.values() if texts.rollout else ()
        checked = {one.name for one in known if one.default}
    return checked - out


def _is_others(label: str, fleets: Fleets) -> bool:
    patterns: Iterable[str] = (*GITHUBS_LABELS, *fleets.other_labels)
    return any(fnmatchcase(label.lower(), pattern.lower()) for pattern in patterns)


def _at(workflow: Workflow, use: Use, message: str, hint: str, *, warning: bool = False) -> Problem:
    return Problem(workflow.source, use.line, "warning" if warning else "error", message + use.note, hint, use.column)
