"""What is said of attempts, parts and leftovers, in the same words wherever it is said.

Plain text, not yet printable: whoever writes it to a screen or a file makes it fit for that.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone

from pytest_sgpu.core.evidence import Suspicion, suspects
from pytest_sgpu.core.names import item_stem
from pytest_sgpu.core.text import counted, decoded, duration
from pytest_sgpu.model import Key, Leftover, Outcome, Part, Status
from pytest_sgpu.report.view import RunView

_LEFT_NAMED = 3
_COMMAND = 200


def utc(seconds: float) -> str:
    """Give a time in epoch seconds as ``2024-05-01T12:00:00+00:00``, "" for one that is none."""
    try:
        return datetime.fromtimestamp(seconds, timezone.utc).isoformat(timespec="seconds") if seconds > 0 else ""
    except (OverflowError, ValueError, OSError):  # a journal may hold any number
        return ""


def where_text(outcome: Outcome) -> str:
    """Give ``on gpu1 (worker w1), attempt 2``."""
    said = f"on {','.join(outcome.devices)}" if outcome.devices else "on no device"
    if outcome.worker and (outcome.status is Status.LOST or outcome.worker != ",".join(outcome.devices)):
        said += f" (worker {outcome.worker})"
    return said + (f", attempt {outcome.attempt}" if outcome.attempt > 1 else "")


def leftover_text(one: Leftover) -> str:
    """Give ``pid 4711 "python server.py"``."""
    command = one.command if len(one.command) <= _COMMAND else f"{one.command[:_COMMAND]}..."
    return f'pid {one.pid} "{command}"' if command else f"pid {one.pid}"


def left_text(outcome: Outcome) -> str:
    """Give what an item left behind in one sentence: ``left 2 processes behind: pid ... , 0.5 s after its end``."""
    count = len(outcome.left)
    said = f"left {count} {'process' if count == 1 else 'processes'} behind: "
    said += ", ".join(leftover_text(one) for one in outcome.left[:_LEFT_NAMED])
    if count > _LEFT_NAMED:
        said += f" and {count - _LEFT_NAMED} more"
    return f"{said}; killed {outcome.late:.1f} s after its end"


def attempt_text(outcome: Outcome) -> str:
    """Give an attempt in one line: ``attempt 1 failed on gpu2 after 3.0s: exit code 1``."""
    said = f"attempt {outcome.attempt} {_ENDS.get(outcome.status, outcome.status.value)}"
    if outcome.devices:
        said += f" on {','.join(outcome.devices)}"
    if outcome.status is Status.LOST and outcome.worker:
        said += f" (worker {outcome.worker})"
    if outcome.start is not None:
        said += f" after {duration(outcome.seconds)}"
    return f"{said}: {outcome.reason}" if outcome.reason else said


_ENDS = {Status.LOST: "was lost", Status.STOPPED: "was stopped", Status.NO_TESTS: "ran no tests"}


def attempt_log(view: RunView, outcome: Outcome) -> str:
    """Give the path of the log of an attempt before the last one, "" when it never had one."""
    known = view.attempt_log_of.get((str(outcome.key), outcome.attempt))
    if known is None and outcome.start is not None:
        return f"attempts/{outcome.attempt}/items/{item_stem(outcome.key)}.log"
    return known or ""


def earlier(view: RunView, outcome: Outcome) -> tuple[Outcome, ...]:
    """Give the attempts before the last one."""
    return view.attempts.get(str(outcome.key), ())


def part_text(outcome: Outcome, parts: Sequence[Part]) -> str:
    """Give ``part 2, commit 1a2b3c4``, "" for a run of one part."""
    if len(parts) <= 1:
        return ""
    commit = next((part.commit for part in parts if part.number == outcome.part), "")
    return f"part {outcome.part}" + (f", commit {commit}" if commit else "")


def parts_text(parts: Sequence[Part]) -> str:
    """Say that a run was resumed, and which commits it covers; "" for a run of one part."""
    if len(parts) <= 1:
        return ""
    commits = list(dict.fromkeys(part.commit for part in parts if part.commit))
    said = f"resumed {counted(len(parts) - 1, 'time')}: {len(parts)} parts"
    if len(commits) > 1:
        return f"{said}, and the run covers {len(commits)} commits: {', '.join(commits)}"
    return f"{said}, all of commit {commits[0]}" if commits else said


def suspicions(view: RunView) -> tuple[Suspicion, ...]:
    """Give what attempts prove against devices that are not in quarantine."""
    known = {device for one in view.quarantines for device in one.devices}
    found = suspects({one.key: earlier(view, one) for one in view.outcomes}, view.outcomes)
    return tuple(one for one in found if not known.issuperset(one.device.split(",")))


def infrastructure_text(view: RunView) -> str:
    """Say what was seen of each failure: a worker that was lost, or a device that was quarantined."""
    bad = [outcome for outcome in view.outcomes if outcome.failed]
    lost = sum(outcome.status is Status.LOST for outcome in bad)
    unrun = sum(outcome.status is Status.NOT_RUN for outcome in bad)
    said = [f"{counted(lost, 'item')} lost with {'its worker' if lost == 1 else 'their workers'}"] if lost else []
    if unrun:
        said.append(f"{counted(unrun, 'item')} not run for want of workers")
    if len(bad) - lost - unrun:
        places = ", ".join(",".join(one.devices) for one in view.quarantines)
        said.append(f"{counted(len(bad) - lost - unrun, 'item')} failed only on quarantined devices ({places})")
    return f"no final failure was seen on a device that is not quarantined: {'; '.join(said)}"


def without_proof(tail: str | bytes, key: Key) -> str:
    """Give the end of a log without the lines ``TE_CI_RAN <tag>`` of its item: they are for the queue."""
    said = f"TE_CI_RAN {key.tag}"
    return "\n".join(one for one in decoded(tail).split("\n") if one.rstrip() != said)


def next_text(view: RunView) -> str:
    """Say how to go on with a run that ended before its end, "" for one that is whole."""
    waiting = sum(not outcome.final for outcome in view.outcomes)
    if not waiting:
        return ""
    return f"the same command with `--sgpu-resume` runs the {counted(waiting, 'item')} without a final outcome."
