"""Whether a plan fits into the time that a run has, said before the run."""

from __future__ import annotations

from pytest_sgpu.core import text
from pytest_sgpu.core.simulate import simulate
from pytest_sgpu.model import Plan
from pytest_sgpu.report.pieces import estimate_text, key_text

_NAMED = 10


def lines(plan: Plan, budget: float) -> list[str]:
    """Say by how much the plan needs more than ``budget`` seconds, and what will probably not start.

    Nothing when it fits, as far as anything is known: an unknown item counts with its guess, or as 0 s.
    """
    seconds = {entry.item.key: entry.estimate.seconds or 0.0 for entry in plan.entries}
    run = simulate(plan, seconds, plan.devices, reorder=False)
    if run.wall <= budget:
        return []
    late = {span.key for span in run.lanes if span.stop > budget}
    some = [entry for entry in plan.entries if entry.item.key in late]
    least = "at least " if plan.unknown else ""
    needs = f"sgpu: the plan needs {least}{text.duration(run.wall)}, {text.duration(run.wall - budget)} more than the"
    made = [f"{needs} budget of {text.duration(budget)}; {text.counted(len(some), 'item')} will probably not run:"]
    made += [f"  {key_text(entry.item.key)} ({estimate_text(entry.estimate)})" for entry in some[:_NAMED]]
    if len(some) > _NAMED:
        made.append(f"  ... and {len(some) - _NAMED} more")
    return made
