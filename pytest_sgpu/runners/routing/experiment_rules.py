"""Whether one experiment is on: the rules in their order, of which the first that says on or off decides."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pytest_sgpu.runners.routing.chance import Chance
from pytest_sgpu.runners.routing.decision import Outcome, Step
from pytest_sgpu.runners.routing.fleets import Fleets
from pytest_sgpu.runners.routing.requestors import Requestor
from pytest_sgpu.runners.routing.rollout import Experiment, Rollout
from pytest_sgpu.runners.routing.rollout_types import ALL
from pytest_sgpu.runners.text import one_line
from pytest_sgpu.runners.wording import found

_ALWAYS = 100.0


@dataclass(frozen=True, slots=True)
class Case:
    """What the rules look at, apart from the experiment itself. ``killed``: experiments that the label turned off."""

    rollout: Rollout
    fleets: Fleets
    branch: str
    workflow: str
    check: tuple[str, ...]
    opt_out: tuple[str, ...]
    people: tuple[Requestor, ...]
    killed: frozenset[str]
    chance: Chance


def evaluate(name: str, case: Case) -> list[Step]:
    """Give the rules that were looked at for one experiment; the last one decided (Q38)."""
    steps: list[Step] = []
    for rule in _RULES:
        step = rule(case.rollout.experiments[name], name, case)
        steps.append(step)
        if step.outcome != "skip":
            break
    return steps


def _kill_switch(_experiment: Experiment, name: str, case: Case) -> Step:
    if name in case.killed:
        return Step(name, "kill-switch", "off", "the label turns it off")
    return Step(name, "kill-switch", "skip", "no label turns it off")


def _exception_branch(experiment: Experiment, name: str, case: Case) -> Step:
    first = case.branch.split("/", 1)[0]
    if first not in case.fleets.exception_branches:
        return _step(name, "exception-branch", "skip", f"{_ref(case.branch)} is no exception branch")
    if experiment.all_branches:
        return _step(name, "exception-branch", "skip", f"{_ref(case.branch)} is one, but all_branches is true")
    return _step(name, "exception-branch", "off", f"{_ref(case.branch)} is one, and all_branches is false")


def _opt_out(_experiment: Experiment, name: str, case: Case) -> Step:
    if name in case.opt_out:
        return Step(name, "opt-out", "off", "the workflow opts out of it")
    return Step(name, "opt-out", "skip", "the workflow does not opt out of it")


def _check(experiment: Experiment, name: str, case: Case) -> Step:
    if case.check:
        listed = ", ".join(one_line(one, 60) for one in case.check)
        if name in case.check:
            return _step(name, "check", "skip", f"the workflow asks for {listed}")
        return _step(name, "check", "off", f"the workflow asks for {listed} only")
    if experiment.default:
        return Step(name, "default", "skip", "the workflow asks for none by name, and default is true")
    return Step(name, "default", "off", "the workflow asks for none by name, and default is false")


def _user_out(_experiment: Experiment, name: str, case: Case) -> Step:
    for person in case.people:
        if person.user and person.user.out_of_all:
            return _step(name, "user-opt-out", "off", f"{found(person.login)} is out of everything{_line(person)}")
    for person in case.people:
        if person.user and name in person.user.out:
            return _step(name, "user-opt-out", "off", f"{found(person.login)} opted out{_line(person)}")
    return _step(name, "user-opt-out", "skip", "no requestor opted out")


def _user_in(_experiment: Experiment, name: str, case: Case) -> Step:
    shares = [(one.user.percent[name], one) for one in case.people if one.user and name in one.user.percent]
    if not shares:
        return Step(name, "user-opt-in", "skip", "no requestor opted in")
    lowest = min(share for share, _ in shares)
    told = ", ".join(f"{found(person.login)} at {_number(share)}%{_line(person)}" for share, person in shares)
    if any(share > lowest for share, _ in shares):
        told += f"; the lower one, {_number(lowest)}%, counts"
    return _drawn(name, "user-opt-in", f"opted in: {told}", lowest, case)


def _workflow(experiment: Experiment, name: str, case: Case) -> Step:
    entries = [entry.strip() for entry in experiment.workflows]
    excluded = {entry[1:].strip() for entry in entries if entry.startswith("-")}
    listed = [entry for entry in entries if entry and not entry.startswith("-")]
    this = f"the workflow {found(case.workflow)}" if case.workflow else "the workflow, which has no name,"
    if case.workflow and case.workflow in excluded:
        return _step(name, "workflow", "off", f"{this} is excluded")
    if not listed:
        return _step(name, "workflow", "skip", f"{this} is not excluded, and none is listed")
    if ALL in listed:
        return _step(name, "workflow", "skip", f"{this} is not excluded, and all are listed")
    if case.workflow in listed:
        return _step(name, "workflow", "skip", f"{this} is listed")
    near = next((entry for entry in listed if entry.casefold() == case.workflow.casefold()), None)
    hint = f", only {found(near)}, in another case" if near else ""
    return _step(name, "workflow", "off", f"{this} is not listed{hint}")


def _rollout(experiment: Experiment, name: str, case: Case) -> Step:
    percent = experiment.rollout_perc
    return _drawn(name, "rollout", f"rolled out to {_number(percent)}%", percent, case)


_RULES: tuple[Callable[[Experiment, str, Case], Step], ...] = (
    _kill_switch,
    _exception_branch,
    _opt_out,
    _check,
    _user_out,
    _user_in,
    _workflow,
    _rollout,
)


def _drawn(name: str, rule: str, told: str, percent: float, case: Case) -> Step:
    """Decide by a percentage (Q37): always from 100 on, never at 0, else when the draw is not above it."""
    if percent >= _ALWAYS:
        return _step(name, rule, "on", f"{told}: always", threshold=percent)
    if not percent > 0:
        return _step(name, rule, "off", f"{told}: never", threshold=percent)
    draw = case.chance(name)
    outcome: Outcome = "on" if draw <= percent else "off"
    above = "is not" if outcome == "on" else "is"
    return _step(
        name, rule, outcome, f"{told}: the draw {_number(draw)} {above} above it", draw=draw, threshold=percent
    )


def _step(
    name: str, rule: str, outcome: Outcome, detail: str, *, draw: float | None = None, threshold: float | None = None
) -> Step:
    return Step(name, rule, outcome, one_line(detail, 1000), draw, threshold)


def _number(value: float) -> str:
    return f"{value:.12g}"


def _line(person: Requestor) -> str:
    return f" (line {person.user.line})" if person.user and person.user.line else ""


def _ref(branch: str) -> str:
    return found(branch) if branch else "no branch"
