"""A run that goes on: whether it may, what of it is kept, and how that is said."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from pytest_sgpu.core import resume
from pytest_sgpu.core.journal import RunState
from pytest_sgpu.core.text import counted, one_line
from pytest_sgpu.engine.store import RunDirectory
from pytest_sgpu.model import Outcome, Part, Plan
from pytest_sgpu.prepare import Prepared
from pytest_sgpu.report.pieces import key_text

_KEYS_SHOWN = 20  # per part
_DIFFERENCES_SHOWN = 10


@dataclass(frozen=True, slots=True)
class Earlier:
    """The parts of a run that have been. ``begins``: where on the clock of the whole the next one does."""

    state: RunState
    begins: float
    kept: tuple[Outcome, ...]

    def zero(self, outcome: Outcome) -> float:
        """Give the epoch seconds at which the clock of an outcome's part would have been at 0."""
        part = next((one for one in self.state.parts if one.number == outcome.part), Part(1, 0.0, 0.0))
        return part.started - part.at


def examine(directory: RunDirectory, prepared: Prepared, plan: Plan, commit: str, *, force: bool) -> Earlier:
    """Look at the run in a directory that is held, and say what is kept of it.

    Raises UsageError when it is not the same run any more, unless ``force``: then the plan is the one of now,
    and what has its outcome keeps it.
    """
    state, _ = directory.state()
    keys = {entry.item.key for entry in plan.entries}
    found = resume.differences(state, digest=prepared.digest, commit=commit, keys=keys, scope=prepared.scope)
    if found and not force:
        raise pytest.UsageError(_refusal(directory, found))
    kept = tuple(outcome for outcome in state.outcomes if outcome.final and outcome.key in keys)
    return Earlier(state, resume.ended_at(state, directory.last_sign()), kept)


def left_of(path: Path, plan: Plan) -> Plan:
    """Give what a resumed run would run, for those who only look. Raises UsageError where there is no run."""
    directory = RunDirectory(path)
    if not directory.holds_run:
        raise pytest.UsageError(f"{path}: no run has left its journal here, so there is none to go on with")
    return resume.pending(plan, directory.state()[0])


def _refusal(directory: RunDirectory, found: Sequence[str]) -> str:
    differ = [f"  {one_line(one, 1000)}" for one in found[:_DIFFERENCES_SHOWN]]
    return "\n".join(
        (
            f"{directory.shown(directory.path)}: this is not the run that was interrupted:",
            *differ,
            "  hint: --sgpu-resume=force goes on all the same: what has an outcome keeps it; or start a new run",
        )
    )


def kept_lines(earlier: Earlier, todo: Plan, commit: str, width: int) -> Iterator[str]:
    """Say how much is kept and how much runs now, then for each part what is kept of it."""
    number = len(earlier.state.parts) + 1
    what = f"{counted(len(todo.entries), 'item')} to run" if todo.entries else "nothing is left to run"
    yield f"sgpu: part {number} of this run{_at(commit)}: {counted(len(earlier.kept), 'item')} kept, {what}"
    for part in earlier.state.parts:
        mine = [key_text(outcome.key) for outcome in earlier.kept if outcome.part == part.number]
        if not mine:
            continue
        began = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(part.started))
        more = f" and {len(mine) - _KEYS_SHOWN} more" if len(mine) > _KEYS_SHOWN else ""
        text = f"from part {part.number}{_at(part.commit)}, {began}: {', '.join(mine[:_KEYS_SHOWN])}{more}"
        yield from textwrap.wrap(
            text,
            max(40, width),
            initial_indent="  ",
            subsequent_indent="    ",
            break_long_words=False,
            break_on_hyphens=False,
        )
    commits = list(dict.fromkeys([*(part.commit for part in earlier.state.parts), commit]))
    if len(commits) > 1:
        names = ", ".join(one_line(one, 80) if one else "none known" for one in commits)
        yield f"sgpu: warning: this run covers {len(commits)} commits: {names}"


def _at(commit: str) -> str:
    return f" (commit {one_line(commit, 80)})" if commit else ""
