"""A run as every report and the console see it: one value, folded from the journal, with nothing to look up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pytest_sgpu.core.timeline import Timeline
from pytest_sgpu.model import Notice, Outcome, Part, Quarantine, Scope, Verdict


@dataclass(frozen=True, slots=True)
class RunView:
    """Everything that is said of a run at its end.

    ``outcomes`` follow the plan. ``wall``, ``bound`` and ``predicted`` are seconds; ``started`` is epoch
    seconds. The three mappings go by the text form of a key and may lack any key: ``log_of`` the path of
    its log, ``tail_of`` the raw end of that log, ``rerun_of`` the command that runs it again.
    ``interrupted`` says why the run ended early, "" when it did not. ``attempts`` holds, by key, the
    attempts before the final one, in their order, and ``attempt_log_of`` the paths of their logs by key and
    number of the attempt. ``parts`` has one entry unless the run was resumed.
    ``infrastructure``: it failed, and every failure is one of workers and devices, none of a test.
    ``health_log_of``: by the id of a worker, the log of the health command on its device, where there is one.
    ``remembered``: pytest's own cache knows what failed, so that ``--lf`` does.
    """

    outcomes: tuple[Outcome, ...]
    verdicts: tuple[Verdict, ...]
    devices: tuple[str, ...]
    timeline: Timeline
    scope: Scope
    wall: float
    bound: float
    predicted: float
    notices: tuple[Notice, ...] = ()
    log_of: Mapping[str, str] = field(default_factory=dict)
    tail_of: Mapping[str, str | bytes] = field(default_factory=dict)
    rerun_of: Mapping[str, str] = field(default_factory=dict)
    started: float = 0.0
    interrupted: str = ""
    attempts: Mapping[str, tuple[Outcome, ...]] = field(default_factory=dict)
    attempt_log_of: Mapping[tuple[str, int], str] = field(default_factory=dict)
    quarantines: tuple[Quarantine, ...] = ()
    parts: tuple[Part, ...] = ()
    infrastructure: bool = False
    health_log_of: Mapping[str, str] = field(default_factory=dict)
    remembered: bool = True
    title: str = "pytest-sgpu"
