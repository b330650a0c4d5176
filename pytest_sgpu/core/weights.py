"""What an item will probably take, and what a run teaches about it (spec: queue, 4)."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping
from urllib.parse import unquote

from pytest_sgpu.core import names
from pytest_sgpu.model import UNKNOWN, Census, Estimate, Key, Outcome, Scope, WeightTable

# Quick to believe that an item is long, slow to believe that it is short: a long item that starts late
# costs everybody, a short one that starts early costs nothing.
UP = 0.5
DOWN = 0.1

NOT_STARTED = (126, 127)  # what a shell gives when it could not start a command
_FILE_NAME = re.compile(r"test_weights\.(?P<arch>.+)\.l(?P<level>[^.]+)\.txt")


def estimate(table: WeightTable, key: Key) -> Estimate:
    """Look a key up. What the table does not hold is unknown; guesses are the plan's business."""
    seconds = table.entries.get(key)
    return UNKNOWN if seconds is None else Estimate(seconds, known=True)


def learn(table: WeightTable, measured: Mapping[Key, float]) -> WeightTable:
    """Move each measured key towards its seconds: half the way up, a tenth of the way down; first seen: all of it.

    The new weight lies between the old and the measured one. Keys that were not measured stay as they
    are. Raises ValueError for a measurement that is no finite number of seconds from 0.
    """
    entries = dict(table.entries)
    for key, seconds in measured.items():
        if not (math.isfinite(seconds) and seconds >= 0):
            raise ValueError(f"{key}: {seconds} is no measured time")
        old = entries.get(key)
        entries[key] = seconds if old is None else _towards(old, seconds)
    return WeightTable(table.scope, entries)


def _towards(old: float, seconds: float) -> float:
    step = UP if seconds > old else DOWN
    new = old + step * (seconds - old)
    return min(max(new, min(old, seconds)), max(old, seconds))  # rounding must not leave the interval


def teaches(outcome: Outcome) -> bool:
    """Whether the time of an outcome says how long its item takes.

    Only a whole run that is known to have run does: passed or failed, to its own end, with proof (an
    opaque item counts as its own). Not a run that was excused from proof, none that only skipped its
    tests, and none that never started.
    """
    return (
        outcome.status.teaches
        and outcome.complete
        and outcome.exit_code not in NOT_STARTED
        and outcome.proof not in {"", "allowed"}
        and not outcome.junit.only_skips
        and outcome.start is not None
        and outcome.stop is not None
    )


def measured(outcomes: Iterable[Outcome]) -> dict[Key, float]:
    """Give the seconds that these outcomes teach. Of two outcomes of one key the later one counts."""
    return {outcome.key: outcome.seconds for outcome in outcomes if teaches(outcome)}


def prune(table: WeightTable, census: Census, labels: Collection[str]) -> WeightTable:
    """Drop the keys of what is no more. ``labels`` are all suites of the conf, whatever was selected.

    A key goes when its suite left the conf, or when both listings of its suite are known and it is in
    neither. A suite that was filtered out, or whose second listing failed, keeps all its keys.
    """
    exists = census.known | census.runnable
    entries = {
        key: seconds
        for key, seconds in table.entries.items()
        if key.suite in labels and (key in exists or key.suite not in census.listed)
    }
    return WeightTable(table.scope, entries)


def file_name(scope: Scope) -> str:
    """Name the table of an architecture and a level: ``test_weights.gfx950.l3.txt``."""
    return f"test_weights.{names.file_name(scope.arch)}.l{names.file_name(scope.level).replace('.', '%2E')}.txt"


def parse_file_name(name: str) -> Scope | None:
    """Tell what the table of this name is about. None: the name follows another rule, and tells nothing."""
    match = _FILE_NAME.fullmatch(name)
    if match is None:
        return None
    scope = Scope(unquote(match["arch"]), unquote(match["level"]))
    return scope if file_name(scope) == name else None
