"""What failed where and passed elsewhere: what several attempts at an item prove about test and device.

An item that failed on one device and passed on another is FLAKY, and the first device is suspect. An item
that failed on the very device on which it passed is FLAKY by its own doing: that speaks against no device.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from pytest_sgpu.model import Key, Outcome, Status

# The ends for which an item or its device may be to blame, so that another attempt would tell something.
FAILURES = frozenset((Status.FAILED, Status.NO_TESTS, Status.TIMED_OUT, Status.CRASHED))


@dataclass(frozen=True, slots=True)
class Suspicion:
    """An item failed on ``device`` and passed on ``passed_on``; both as people read them. ``worker`` had it."""

    device: str
    key: Key
    passed_on: str
    worker: str = ""


def place(outcome: Outcome) -> str:
    """Give where an attempt ran, as people read it: ``gpu0``, or ``gpu0,gpu1``."""
    return ",".join(outcome.devices) or outcome.worker


def suspects(attempts: Mapping[Key, Sequence[Outcome]], finals: Iterable[Outcome]) -> tuple[Suspicion, ...]:
    """Give what is known against devices: one entry per device and item, in the order of the finals.

    ``attempts`` are those before the final one; those that were lost, stopped or cut off prove nothing.
    """
    found: dict[tuple[str, Key], Suspicion] = {}
    for final in finals:
        if final.status.failed:
            continue
        here = place(final)
        failures = [attempt for attempt in attempts.get(final.key, ()) if attempt.status in FAILURES]
        if any(place(attempt) == here for attempt in failures):
            continue
        for attempt in failures:
            there = place(attempt)
            found.setdefault((there, final.key), Suspicion(there, final.key, here, attempt.worker))
    return tuple(found.values())


def flaky(failures: Sequence[Outcome], outcome: Outcome, *, fails: bool) -> Outcome:
    """Make a FLAKY outcome of a pass after failures: ``failed on gpu2 (exit code 1), passed on gpu0``.

    What was to be said of the pass itself stays. ``fails``: it makes the run fail.
    """
    before = " and ".join(f"on {place(one)} ({cause(one)})" for one in failures)
    reason = f"failed {before}, passed on {place(outcome)}"
    if outcome.reason:
        reason += f": {outcome.reason}"
    return replace(outcome, status=Status.FLAKY, reason=reason, flaky_fails=fails)


def cause(outcome: Outcome) -> str:
    """Say in short why an attempt failed."""
    return outcome.reason or outcome.status.value
