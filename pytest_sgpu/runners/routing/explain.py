"""A decision told rule by rule: as text, and as values for JSON."""

from __future__ import annotations

from itertools import groupby

from pytest_sgpu.runners.routing.decision import Decision, Step
from pytest_sgpu.runners.text import one_line

_WIDTH = len("exception-branch")
_WHOLE = "all experiments"
_RESULTS = ("prefix", "fallback")


def lines(decision: Decision) -> list[str]:
    """Give the rules in the order in which they were looked at, below a heading for each experiment (Q65).

    Each line is printable and ends nowhere in itself.
    """
    told = []
    for heading, group in groupby(decision.steps, key=_heading):
        steps = list(group)
        told.append(one_line(heading if steps[0].experiment == "" else f"{heading}: {_verdict(steps)}"))
        told += [_line(step) for step in steps]
    told += [one_line(f"warning: {warning}", 1000) for warning in decision.warnings]
    return [*told, one_line(f"decided by: {decision.source}")]


def values(decision: Decision) -> list[dict[str, object]]:
    """Give the same as values: an object for each rule, always with all its keys."""
    return [
        {
            "experiment": step.experiment,
            "rule": step.rule,
            "outcome": step.outcome,
            "detail": step.detail,
            "draw": step.draw,
            "threshold": step.threshold,
        }
        for step in decision.steps
    ]


def deciding(decision: Decision, experiment: str) -> Step | None:
    """Give the rule that turned ``experiment`` on or off, None when there is no such experiment."""
    steps = (step for step in decision.steps if step.experiment == experiment and step.rule not in _AFTERWARDS)
    return next((step for step in steps if step.outcome != "skip"), None)


_AFTERWARDS = ("dropped", "separate")


def _heading(step: Step) -> str:
    if step.experiment:
        return one_line(step.experiment, 60)
    return "result" if step.rule in _RESULTS else _WHOLE


def _verdict(steps: list[Step]) -> str:
    last = steps[-1]
    if last.outcome == "skip":
        return "unknown"
    return f"{'no effect' if last.rule == 'dropped' else last.outcome}, by {last.rule}"


def _line(step: Step) -> str:
    outcome = "-" if step.outcome == "skip" else step.outcome
    return f"  {step.rule:{_WIDTH}}  {outcome:3}  {one_line(step.detail, 1000)}"
