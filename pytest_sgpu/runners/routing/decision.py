"""What the determinator is asked and what it answers, with every rule that it looked at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Outcome = Literal["on", "off", "skip"]


@dataclass(frozen=True, slots=True)
class Request:
    """One run of a workflow that asks for its prefix. Texts are as they came; nothing here is trusted.

    ``branch``: a branch, or a tag where ``ref_type`` is "tag", with or without ``refs/heads/`` or ``refs/tags/``.
    ``check``, ``opt_out``: names of experiments, from the workflow. ``labels``: those of the pull request.
    """

    actor: str = ""
    author: str = ""
    branch: str = ""
    ref_type: str = ""
    repository: str = ""
    workflow: str = ""
    check: tuple[str, ...] = ()
    opt_out: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Step:
    """One rule that was looked at. ``on`` and ``off`` decide; ``skip``: it had nothing to say, and the next one was.

    ``experiment`` is "" for what concerns the whole decision. ``detail`` is one printable line. ``draw`` is set where
    chance was asked, ``threshold`` where a percentage counted; it is on when the draw is not above the threshold.
    """

    experiment: str
    rule: str
    outcome: Outcome
    detail: str
    draw: float | None = None
    threshold: float | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """The prefix for labels, whether labels are translated, and why.

    ``separate``: every output of its own that the fleets file names, "" where its experiment is off. ``enabled``: the
    experiments that are on, in the order of the rollout; ``dropped``: those of them without effect. ``source``:
    "rollout", "kill-switch: LABEL" or "fallback: WHY".
    """

    label_type: str
    use_arc: bool
    separate: Mapping[str, str]
    enabled: tuple[str, ...]
    dropped: tuple[str, ...]
    source: str
    steps: tuple[Step, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def is_fallback(self) -> bool:
        """Tell whether the rollout could not be used."""
        return self.source.startswith("fallback")
