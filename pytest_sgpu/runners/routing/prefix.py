"""From the experiments that are on to the prefix of labels, and to the outputs that are apart from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pytest_sgpu.runners.routing.decision import Step
from pytest_sgpu.runners.routing.fleets import Fleets
from pytest_sgpu.runners.routing.places import Place
from pytest_sgpu.runners.wording import found


@dataclass(frozen=True, slots=True)
class Combined:
    """What the experiments that are on come to; ``dropped`` are those without effect."""

    label_type: str
    translates: bool
    separate: Mapping[str, str]
    dropped: tuple[str, ...]
    steps: tuple[Step, ...]
    warnings: tuple[str, ...]


def combine(enabled: Sequence[str], fleets: Fleets, *, canary: bool) -> Combined:
    """Give the prefix for the experiments that are on, in the order of the rollout (Q57-Q62)."""
    place = fleets.place_of(enabled)
    apart = {one.experiment for one in fleets.separate}
    others = [name for name in enabled if name not in fleets.experiments and name not in apart]
    kept = [] if place.translates else others[:1]
    dropped = {name: _without_effect(place, kept) for name in others if name not in kept}
    for name in enabled:
        if name in fleets.experiments and fleets.experiments[name] not in place.fleets:
            dropped[name] = f"{place} comes before {fleets.experiments[name]}, and no combination has both"
    prefix = place.prefix_for(canary=canary) + "".join(name + fleets.other_end for name in kept)
    ordered = tuple(name for name in enabled if name in dropped)
    return Combined(
        prefix,
        place.translates,
        {one.output: one.prefix if one.experiment in enabled else "" for one in fleets.separate},
        ordered,
        (
            *(Step(name, "dropped", "off", dropped[name]) for name in ordered),
            *_separate(enabled, fleets),
            Step("", "prefix", "on", _told(prefix, place, kept, canary=canary)),
        ),
        tuple(f"the experiment {found(name)} is on but has no effect: {dropped[name]}" for name in ordered),
    )


def _without_effect(place: Place, kept: Sequence[str]) -> str:
    if place.translates:
        return f"{place} translates labels, which leaves no room for another experiment"
    return f"one other experiment is the most, and {found(kept[0])} comes first in the rollout"


def _separate(enabled: Sequence[str], fleets: Fleets) -> tuple[Step, ...]:
    return tuple(
        Step(one.experiment, "separate", "on", f"{one.output} is {found(one.prefix)}; no part of the label's prefix")
        for one in fleets.separate
        if one.experiment in enabled
    )


def _told(prefix: str, place: Place, kept: Sequence[str], *, canary: bool) -> str:
    parts = [f"{place} in the canary form" if canary and place.canary_prefix != place.prefix else f"{place}"]
    parts += [f"with {found(name)}" for name in kept]
    shown = found(prefix) if prefix else "empty"
    return f"{' '.join(parts)}: the prefix is {shown}, labels are {'' if place.translates else 'not '}translated"
