"""The determinator: which experiments are on for one request, and the prefix that they come to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pytest_sgpu.runners.routing import requestors
from pytest_sgpu.runners.routing.chance import Chance
from pytest_sgpu.runners.routing.decision import Decision, Outcome, Request, Step
from pytest_sgpu.runners.routing.experiment_rules import Case, evaluate
from pytest_sgpu.runners.routing.fleets import Fleets
from pytest_sgpu.runners.routing.prefix import combine
from pytest_sgpu.runners.routing.problems import suggest
from pytest_sgpu.runners.routing.rollout import Rollout
from pytest_sgpu.runners.text import one_line
from pytest_sgpu.runners.wording import found

__all__ = ["Decision", "Outcome", "Request", "Step", "decide", "fallback"]


CHECK = "check_experiments"
OPT_OUT = "opt_out_experiments"


def decide(rollout: Rollout, fleets: Fleets, request: Request, chance: Chance) -> Decision:
    """Decide for one request, with every rule that was looked at (Q34-Q69). Raises nothing that ``chance`` does not.

    ``chance`` is asked at most once for an experiment, and only where a percentage is above 0 and below 100.
    """
    switched = _kill_switch(fleets, request)
    if switched.outcome == "off" and fleets.kill_switch and fleets.kill_switch.experiments is None:
        return _all_off(rollout, fleets, switched)
    if not rollout.usable:
        return fallback(fleets, rollout.why)
    people = requestors.find(rollout, fleets, request)
    check, opt_out = _names(request.check), _names(request.opt_out)
    unknown = [*_unknown(check, CHECK, "check", rollout), *_unknown(opt_out, OPT_OUT, "opt-out", rollout)]
    case = Case(
        rollout=rollout,
        fleets=fleets,
        branch=requestors.short(request.branch),
        workflow=request.workflow.strip(),
        check=check,
        opt_out=opt_out,
        people=people.found,
        killed=_killed(fleets, switched),
        chance=chance,
    )
    steps = [switched, *people.steps, *unknown]
    enabled = []
    for name in rollout.experiments:
        looked = evaluate(name, case)
        steps += looked
        if looked[-1].outcome == "on":
            enabled.append(name)
    steps += _unconfigured(rollout, fleets)
    combined = combine(enabled, fleets, canary=fleets.is_canary(request.repository))
    return Decision(
        label_type=combined.label_type,
        use_arc=combined.translates,
        separate=combined.separate,
        enabled=tuple(enabled),
        dropped=combined.dropped,
        source="rollout",
        steps=(*steps, *combined.steps),
        warnings=(*people.warnings, *(step.detail for step in unknown), *combined.warnings),
    )


def fallback(fleets: Fleets, why: str) -> Decision:
    """Decide without a rollout, since it cannot be had or understood: the default fleet, every output (Q64)."""
    reason = one_line(why) or "for a reason that is not known"
    step = Step("", "fallback", "off", f"no experiment is on, since the rollout cannot be used: {reason}")
    return _nothing_on(fleets, f"fallback: {reason}", (step,), (f"the default fleet is asked: {reason}",))


def _nothing_on(fleets: Fleets, source: str, steps: tuple[Step, ...], warnings: tuple[str, ...]) -> Decision:
    combined = combine((), fleets, canary=False)
    return Decision(
        label_type=combined.label_type,
        use_arc=combined.translates,
        separate=combined.separate,
        enabled=(),
        dropped=(),
        source=source,
        steps=(*steps, *combined.steps),
        warnings=warnings,
    )


def _kill_switch(fleets: Fleets, request: Request) -> Step:
    switch = fleets.kill_switch
    if switch is None:
        return Step("", "kill-switch", "skip", "the fleets file names no label for it")
    wanted = switch.label.strip().casefold()
    for label in request.labels:
        if label.strip().casefold() == wanted:
            which = "all experiments" if switch.experiments is None else ", ".join(sorted(switch.experiments))
            return Step("", "kill-switch", "off", f"the label {found(label)} is set, which turns off {which}")
    return Step("", "kill-switch", "skip", f"the label {found(switch.label)} is not set")


def _killed(fleets: Fleets, switched: Step) -> frozenset[str]:
    if switched.outcome != "off" or fleets.kill_switch is None:
        return frozenset()
    return fleets.kill_switch.experiments or frozenset()


def _all_off(rollout: Rollout, fleets: Fleets, switched: Step) -> Decision:
    label = fleets.kill_switch.label if fleets.kill_switch else ""
    each = tuple(Step(name, "kill-switch", "off", "all experiments are off") for name in rollout.experiments)
    return _nothing_on(fleets, f"kill-switch: {one_line(label)}", (switched, *each), ())


def _names(given: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name.strip() for name in given if name.strip()))


def _unknown(names: Iterable[str], option: str, rule: str, rollout: Rollout) -> list[Step]:
    """Tell the names that stand for nothing (Q63); they still count: a list with nothing else in it is no empty one."""
    return [
        Step(one_line(name), rule, "skip", _sentence(f"{option} names {found(name)}", name, rollout.experiments))
        for name in names
        if name not in rollout.experiments
    ]


def _sentence(start: str, name: str, known: Mapping[str, object]) -> str:
    hint = suggest(name, known)
    return f"{start}, which is no experiment of the rollout{f': {hint}' if hint else ''}"


def _unconfigured(rollout: Rollout, fleets: Fleets) -> list[Step]:
    special = (*fleets.experiments, *(one.experiment for one in fleets.separate))
    return [
        Step(name, "missing", "off", "the rollout has no such experiment")
        for name in special
        if name not in rollout.experiments
    ]
