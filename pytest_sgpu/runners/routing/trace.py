"""Which label a job will really run on: six steps for given options, or every prefix state beside the others."""

from __future__ import annotations

import difflib
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from pytest_sgpu.runners.routing import explain
from pytest_sgpu.runners.routing.decision import Decision, Request
from pytest_sgpu.runners.routing.fleets import Fleets
from pytest_sgpu.runners.routing.mapping import TABLE, LabelMap, known_prefixes, resolve
from pytest_sgpu.runners.routing.places import Place
from pytest_sgpu.runners.routing.problems import shown
from pytest_sgpu.runners.text import one_line

_NONE = "none"
_TITLE = 11  # columns
_WIDE = 80  # columns
_LEAST = 30  # columns of a text, also where names of states are long
_NEAR = 0.8  # of the characters, in order
_MOST_COMPARED = 500  # as for every suggestion


@dataclass(frozen=True, slots=True)
class Final:
    """The label that a runner is asked for in one state, "" when the translation has nothing for it.

    ``rule``: one of the table's (translated, pinned, passed-through, already-translated), ``prefixed`` where nothing is
    translated, ``unknown``. ``text``: why. ``warnings``: that no runner can serve it, and such. All on one line each.
    ``is_served``: there is a label, and as far as the fleets file says a runner for it.
    """

    label: str
    rule: str
    text: str
    warnings: tuple[str, ...] = ()
    is_served: bool = True


@dataclass(frozen=True, slots=True)
class TraceStep:
    """One of the six steps, from 1: what it looks at, what it found, and the details of that."""

    number: int
    title: str
    text: str
    details: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LabelTrace:
    """One label traced: where it ends, and the steps that lead there."""

    label: str
    final: Final
    steps: tuple[TraceStep, ...]


def final(label: str, place: Place, label_map: LabelMap, fleets: Fleets, *, canary: bool = False) -> Final:
    """Give what ``label`` becomes in one prefix state (Q93)."""
    return _final(label.strip(), place.prefix_for(canary=canary), place, label_map, fleets)


def trace(label: str, request: Request, decision: Decision, label_map: LabelMap, fleets: Fleets) -> LabelTrace:
    """Trace ``label`` through the six steps for what was asked and decided (Q94)."""
    label = label.strip()
    on = [fleets.experiments[name] for name in decision.enabled if name in fleets.experiments]
    place = fleets.place(on)
    found = _final(label, decision.label_type, place, label_map, fleets, is_translated=decision.use_arc)
    if not decision.use_arc:
        found = replace(found, warnings=(*found.warnings, *_elsewhere(label, label_map, fleets)))
    workflow = f"workflow {shown(request.workflow)}" if request.workflow else "no workflow named"
    steps = (
        TraceStep(1, "workflow", f"the label is {shown(label)}; {workflow}"),
        TraceStep(2, "experiments", f"check: {_names(request.check)}; opt out: {_names(request.opt_out)}"),
        TraceStep(3, "rollout", *_rollout(decision)),
        TraceStep(4, "prefix", _prefix(label, decision, found)),
        TraceStep(5, "translation", _translation(label, decision, label_map, fleets, found)),
        TraceStep(6, "pin", _pin(label, decision, label_map, fleets, found)),
    )
    return LabelTrace(label, found, steps)


def unknown(labels: Sequence[str], label_map: LabelMap, fleets: Fleets) -> list[tuple[str, str]]:
    """Give for every label that the mapping does not have what is wrong, and a hint."""
    found = []
    for label in dict.fromkeys(one.strip() for one in labels):
        if resolve(label, "", label_map, fleets) is None:
            message = f"no translation for a label: {shown(label)} is not in {TABLE} of {label_map.source}"
            found.append((message, _meant(label, label_map, fleets)))
    return found


def unserved(traced: Iterable[LabelTrace], label_map: LabelMap, fleets: Fleets) -> list[tuple[str, str]]:
    """Give for every traced label that no runner can serve where it ends what is wrong, and a hint."""
    told = []
    for one in traced:
        if one.final.rule == "unknown":
            told += unknown([one.label], label_map, fleets)
        elif not one.final.is_served:
            message = f"no runner can serve {shown(one.final.label)}, which {shown(one.label)} becomes there"
            told.append((message, "without a rollout text every state is shown"))
    return list(dict.fromkeys(told))


def lines(traced: LabelTrace) -> list[str]:
    """Give a trace as text, at most 80 columns wide: the label, its steps, where it ends, warnings."""
    text = [f"label {one_line(traced.label)}"]
    for step in traced.steps:
        text += _wrapped(f"  {step.number} {step.title:<{_TITLE}} ", step.text)
        for detail in step.details:
            text += _wrapped(f"    {'':<{_TITLE}} ", detail, deeper=2)
    ends = one_line(traced.final.label)
    text += [f"  = {ends}"] if ends else _wrapped("  = ", f"no label: {traced.final.text}")
    for warning in traced.final.warnings:
        text += _wrapped("  ! ", warning)
    return text


def table(labels: Sequence[str], label_map: LabelMap, fleets: Fleets, *, canary: bool = False) -> list[str]:
    """Give every label in every prefix state as text, a line for each state; what is long goes on below, indented."""
    states = [(str(place), place.prefix_for(canary=canary) or '""', place) for place in fleets.places]
    wide = max(len(name) for name, _, _ in states)
    prefix_wide = max(len(prefix) for _, prefix, _ in states)
    text = []
    for label in labels:
        text.append(f"label {one_line(label)}")
        for name, prefix, place in states:
            found = final(label, place, label_map, fleets, canary=canary)
            head, ends = f"  {name:<{wide}}  {prefix:<{prefix_wide}}  ", one_line(found.label)
            text += [f"{head}{ends}"] if ends else _wrapped(head, found.text)
            for warning in found.warnings:
                text += _wrapped(f"{'':<{len(head)}}! ", warning)
    return text


def _wrapped(head: str, text: str, deeper: int = 0) -> list[str]:
    """Give ``text`` behind ``head``, and what is long below, indented as far and ``deeper``; words stay whole.

    No further line begins with what a CI service would hear as a command.
    """
    held = text.replace(" ::", "\xa0::").replace(" ##", "\xa0##")
    made = textwrap.wrap(
        held,
        max(_WIDE, len(head) + _LEAST),
        initial_indent=head,
        subsequent_indent=" " * (len(head) + deeper),
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace("\xa0", " ") for line in made]


def _final(
    label: str,
    prefix: str,
    place: Place,
    label_map: LabelMap,
    fleets: Fleets,
    *,
    is_translated: bool | None = None,
) -> Final:
    if not (place.translates if is_translated is None else is_translated):
        return _untranslated(label, prefix, place, label_map, fleets)
    made = resolve(label, prefix, label_map, fleets)
    if made is None:
        tip = _meant(label, label_map, fleets)
        text = f"{shown(label)} is not in {TABLE} of {label_map.source}{'; ' if tip else ''}{tip}"
        return Final("", "unknown", text, is_served=False)
    warnings = _given_prefix(label, fleets) if made.replaced else ()
    lacks: tuple[str, ...] = ()
    if made.rule in ("translated", "pinned"):
        bare = label_map.targets[made.bare]
        at = fleets.prefixes.get(made.label.removesuffix(bare), place) if made.rule == "pinned" else place
        lacks = _lacks(bare, at)
    return Final(made.label, made.rule, made.text, warnings + lacks, is_served=not lacks)


def _untranslated(label: str, prefix: str, place: Place, label_map: LabelMap, fleets: Fleets) -> Final:
    if prefix and label_map.targets.get(label) == label and label not in label_map.pinned:
        text = f"{shown(label)} maps to itself: it is bare only where the workflow leaves the prefix off"
        told = f"a workflow that puts the prefix before it asks for {shown(prefix + label)}, which no runner has"
        return Final(label, "passed-through", text, (told,))
    warnings = _given_prefix(label, fleets)
    if label in label_map.is_target and label not in label_map.targets:
        warnings += (f"{shown(label)} is a translated label, and nothing is translated here",)
    text = f"not translated: the prefix {shown(prefix)} and the label" if prefix else "not translated, without a prefix"
    lacks = _lacks(label, place)
    return Final(prefix + label, "prefixed", text, warnings + lacks, is_served=not lacks)


def _elsewhere(label: str, label_map: LabelMap, fleets: Fleets) -> tuple[str, ...]:
    """Tell of a label that is fine where nothing is translated, and nowhere else."""
    if resolve(label, "", label_map, fleets) or not any(place.translates for place in fleets.places):
        return ()
    tip = _meant(label, label_map, fleets)
    told = f"where labels are translated no runner would be there for it: {shown(label)} is not in {TABLE} of"
    return (f"{told} {label_map.source}{'; ' if tip else ''}{tip}",)


def _meant(label: str, label_map: LabelMap, fleets: Fleets) -> str:
    """Name the label that was likely meant, if one is near: half of the characters are the same in all of them."""
    bare = label.removeprefix(next((one for one in known_prefixes(fleets) if label.startswith(one)), ""))
    names = {one.casefold(): one for one in islice(label_map.targets, _MOST_COMPARED)}
    close = difflib.get_close_matches(one_line(bare, 60).casefold(), names, 1, _NEAR)
    return f'did you mean "{one_line(names[close[0]], 60)}"?' if close else ""


def _given_prefix(label: str, fleets: Fleets) -> tuple[str, ...]:
    put = next((one for one in known_prefixes(fleets) if label.startswith(one)), "")
    return (f"{shown(label)} has the prefix {shown(put)} already: write it without",) if put else ()


def _lacks(label: str, place: Place) -> tuple[str, ...]:
    return () if place.can_serve(label) else (f"no runner can serve it: {place} has none for {shown(label)}",)


def _names(names: Sequence[str]) -> str:
    return ", ".join(shown(name) for name in names) or _NONE


def _rollout(decision: Decision) -> tuple[str, tuple[str, ...]]:
    dropped = f"; without effect: {_names(decision.dropped)}" if decision.dropped else ""
    text = f"{one_line(decision.source)}; on: {_names(decision.enabled)}{dropped}"
    return text, tuple(_decided(decision))


def _decided(decision: Decision) -> Iterator[str]:
    for step in decision.steps:
        if not step.experiment and step.outcome == "off" and step.rule != "prefix":
            yield f"all: off, by {step.rule}: {step.detail}"
    for name in dict.fromkeys(step.experiment for step in decision.steps if step.experiment):
        if decided := explain.deciding(decision, name):
            yield f"{one_line(name, 60)}: {decided.outcome}, by {decided.rule}: {decided.detail}"


def _prefix(label: str, decision: Decision, found: Final) -> str:
    if not decision.label_type:
        return f"none: {shown(label)}"
    if found.rule == "passed-through" and not decision.use_arc:
        return f"{shown(decision.label_type)}, but {found.text}"
    return f"{shown(decision.label_type)}: {shown(decision.label_type + label)}"


def _translation(label: str, decision: Decision, label_map: LabelMap, fleets: Fleets, found: Final) -> str:
    if not decision.use_arc:
        return "off: the label stays as it is"
    if found.rule != "pinned":
        return f"on: {found.text}"
    made = resolve(label, decision.label_type, label_map, fleets)
    target = label_map.targets[made.bare] if made else ""
    return f"on: the target is {shown(target)} in {label_map.source}"


def _pin(label: str, decision: Decision, label_map: LabelMap, fleets: Fleets, found: Final) -> str:
    key = fleets.pins.key if fleets.pins else ""
    if found.rule == "pinned":
        return f"in {key}: {found.text}"
    if label not in label_map.pinned:
        return f"not in {key}" if key else "the fleets file has no pins"
    if not decision.use_arc:
        return f"in {key}, but without effect: pins are part of the translation, and that is off"
    return f"in {key}, but there is no translation for it"
