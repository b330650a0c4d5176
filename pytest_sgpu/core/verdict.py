"""From how a process ended to what that means: one outcome per item, one verdict per suite."""

from __future__ import annotations

import signal
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from pytest_sgpu.core.text import counted, printable
from pytest_sgpu.model import Ending, Estimate, JUnitFacts, Key, Outcome, Quarantine, Status, Verdict

NO_TESTS_CODE = 5  # pytest's own exit code for "no tests were collected"
TIMED_OUT_CODE = 124  # as timeout(1)
LOST_CODE = 125
SIGNAL_BASE = 128  # a shell reports a death by signal N as 128 + N
NO_WORKER = "no worker"
"""The reason of an item that was not run for want of workers begins so."""
NOT_STARTED_CODES = {126: "not executable", 127: "command not found"}

_OWN_CODES: dict[Status, int] = {
    Status.PASSED: 0,
    Status.TIMED_OUT: TIMED_OUT_CODE,
    Status.LOST: LOST_CODE,
    Status.STOPPED: SIGNAL_BASE + signal.SIGINT,
}

# Ends that say nothing about the device they happened on.
_NO_EVIDENCE = frozenset((Status.STOPPED, Status.SETUP_FAILED))

# A suite script passes on 128+N when something inside it died by signal N. Only signals that end a
# process on their own are read so; 128 + another number is a plain exit code.
_DEADLY = frozenset((2, 3, 4, 5, 6, 7, 8, 9, 11, 13, 14, 15, 24, 25, 31))


@dataclass(frozen=True, slots=True)
class Policy:
    """What the user decides about doubtful ends.

    ``allow_empty``: globs over whole keys that are excused from proof (``sgpu_allow_empty``).
    ``junit_failures_fail``: exit code 0 with failing cases fails (``sgpu_junit_failures``).
    ``leaks_fail``: an item that leaves a process behind fails (``--sgpu-leaks=fail``).
    """

    allow_empty: tuple[str, ...] = ()
    junit_failures_fail: bool = False
    leaks_fail: bool = False

    def excuses(self, key: Key) -> bool:
        """Whether an item of this key may end without proof that it ran."""
        return any(fnmatchcase(str(key), glob) for glob in self.allow_empty)


def judge(
    key: Key,
    ending: Ending,
    facts: JUnitFacts,
    policy: Policy,
    *,
    opaque: bool,
    worker: str = "",
    devices: tuple[str, ...] = (),
    attempt: int = 1,
    estimate: Estimate,
) -> Outcome:
    """Say how an item ended. The exit code is the verdict, and a tagged item needs proof that it ran.

    Rule: spec "queue", 5. Never a pass without an exit code 0; never a pass of a tagged item that
    left no proof, unless the policy excuses it.
    """
    status, reason, proof = _status(key, ending, facts, policy, opaque=opaque)
    if ending.left and policy.leaks_fail and status is Status.PASSED:
        left = f"left {_processes(len(ending.left))} behind"
        status, reason = Status.FAILED, f"{left}; {reason}" if reason else left
    return Outcome(
        key=key,
        status=status,
        exit_code=ending.exit_code,
        start=ending.start,
        stop=ending.stop,
        worker=worker,
        devices=devices,
        attempt=attempt,
        complete=status.teaches and not ending.partial and not facts.damage,
        reason=printable(reason),  # the worker quotes what the item printed last
        proof=proof,
        estimate=estimate,
        junit=facts,
        left=ending.left,
        late=ending.late,
    )


def _processes(count: int) -> str:
    return "1 process" if count == 1 else f"{count} processes"


def _status(key: Key, ending: Ending, facts: JUnitFacts, policy: Policy, *, opaque: bool) -> tuple[Status, str, str]:
    proof = _proof(ending, facts, opaque=opaque)
    violent = _violent_end(ending)
    if violent is not None:
        return *violent, proof
    code = ending.exit_code or 0
    if code in NOT_STARTED_CODES:
        return Status.FAILED, ending.reason or f"{NOT_STARTED_CODES[code]} (exit code {code})", proof
    return _nonzero(code, facts, proof) if code else _zero(key, facts, policy, proof)


def _violent_end(ending: Ending) -> tuple[Status, str] | None:
    """Say how an item ended that did not come to its own end, None for one that did."""
    code = ending.exit_code
    if ending.killed or ending.timed_out:
        if ending.timed_out:
            return Status.TIMED_OUT, ending.killed or "it ran for too long"
        return Status.STOPPED, ending.killed
    if ending.signal is not None:
        return Status.CRASHED, signal_text(ending.signal)
    if code is None:
        return Status.CRASHED, ending.reason or "no exit code"
    if code - SIGNAL_BASE in _DEADLY:
        return Status.CRASHED, f"{signal_text(code - SIGNAL_BASE)} inside the suite script (exit code {code})"
    return None


def _proof(ending: Ending, facts: JUnitFacts, *, opaque: bool) -> str:
    if facts.tests.cases:
        return "junit"
    if ending.ran:
        return "ran"
    return "opaque" if opaque else ""


def _nonzero(code: int, facts: JUnitFacts, proof: str) -> tuple[Status, str, str]:
    if code == NO_TESTS_CODE and not proof:
        return Status.NO_TESTS, _because(f"no test was selected (exit code {code})", facts.damage), proof
    reason = f"exit code {code}"
    if facts.tests.bad:
        reason += f", {counted(facts.tests.bad, 'test')} of {facts.tests.cases} failed"
    return Status.FAILED, _because(reason, facts.damage), proof


def _zero(key: Key, facts: JUnitFacts, policy: Policy, proof: str) -> tuple[Status, str, str]:
    if not proof:
        if policy.excuses(key) and not facts.damage:
            return Status.PASSED, "ran without proof, as sgpu_allow_empty allows", "allowed"
        nothing = f"ran nothing: no JUnit case, no line `TE_CI_RAN {key.tag}`"
        return Status.NO_TESTS, _because(nothing, facts.damage), proof
    if facts.damage:
        return Status.FAILED, f"exit code 0, but its JUnit file is damaged: {facts.damage}", proof
    if facts.tests.bad:
        bad = f"exit code 0, but {counted(facts.tests.bad, 'test')} of {facts.tests.cases} failed in its JUnit file"
        return (Status.FAILED if policy.junit_failures_fail else Status.PASSED), bad, proof
    if facts.only_skips:
        return Status.PASSED, f"every test was skipped ({facts.tests.cases})", proof
    return Status.PASSED, "", proof


def _because(reason: str, damage: str) -> str:
    return f"{reason}; JUnit file: {damage}" if damage else reason


def signal_text(number: int) -> str:
    """Give ``signal 11 (SIGSEGV)``."""
    try:
        return f"signal {number} ({signal.Signals(number).name})"
    except ValueError:
        return f"signal {number}"


def signal_of(outcome: Outcome) -> int | None:
    """Give the number of the signal that ended a crashed item, None when it was none."""
    if outcome.status is not Status.CRASHED:
        return None
    if outcome.exit_code is not None:
        return outcome.exit_code - SIGNAL_BASE
    digits = outcome.reason.removeprefix("signal ").split(" ", 1)[0]
    return int(digits) if digits.isdigit() else None


def exit_code(outcome: Outcome) -> int:
    """Give the code with which an outcome counts in its suite's verdict: 0 for what does not fail the run."""
    code = outcome.exit_code
    if outcome.status is Status.FLAKY:
        return int(outcome.flaky_fails)
    if outcome.status in _OWN_CODES:
        return _OWN_CODES[outcome.status]
    if outcome.status is Status.NO_TESTS:
        return _positive(code, NO_TESTS_CODE)
    if outcome.status is Status.CRASHED and code is None:
        return SIGNAL_BASE + (signal_of(outcome) or signal.SIGKILL)
    return _positive(code, 1)  # a missing exit code is a failure


def _positive(code: int | None, otherwise: int) -> int:
    return code if code is not None and code > 0 else otherwise


def verdicts(labels: Sequence[str], outcomes: Iterable[Outcome]) -> tuple[Verdict, ...]:
    """Give one verdict per suite that has outcomes, in the order of ``labels``: the highest code decides.

    Adding an outcome never improves a verdict, since the highest of more numbers is not lower.
    """
    by_suite: dict[str, list[Outcome]] = {label: [] for label in labels}
    for outcome in outcomes:
        by_suite.setdefault(outcome.key.suite, []).append(outcome)
    return tuple(
        Verdict(label, max(exit_code(outcome) for outcome in some), tuple(some))
        for label, some in by_suite.items()
        if some
    )


def infrastructure(
    outcomes: Iterable[Outcome],
    quarantines: Iterable[Quarantine] = (),
    attempts: Mapping[Key, Sequence[Outcome]] | None = None,
) -> bool:
    """Whether a run failed, and no test did: each failure is a lost worker, or happened on bad devices alone.

    ``attempts`` are those before the final ones. An item that a person, a budget or a failed setup kept
    from ending says nothing about workers, so a run with one is not of this kind.
    """
    bad = {device for quarantine in quarantines for device in quarantine.devices}
    earlier = attempts or {}
    failed = [outcome for outcome in outcomes if outcome.failed]
    return bool(failed) and all(
        _blameless(one, bad)
        and all(_blameless(before, bad) or before.status is Status.STOPPED for before in earlier.get(one.key, ()))
        for one in failed
    )


def _blameless(one: Outcome, bad: set[str]) -> bool:
    """Whether the end of an attempt is the doing of a worker or a bad device, or no failure at all."""
    if one.status is Status.NOT_RUN:
        return one.reason.startswith(NO_WORKER)
    if one.status is Status.LOST or not one.status.failed:
        return True  # also FLAKY: it passed here, and its attempts say where it failed
    return one.status not in _NO_EVIDENCE and bool(one.devices) and bad.issuperset(one.devices)
