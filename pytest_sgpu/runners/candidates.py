"""A candidate: one pool to ask for a runner, and how long to wait there."""

from __future__ import annotations

import json
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Candidate:
    """One request for a runner. ``queue_seconds`` is the deadline after all precedence (R29).

    ``own_deadline``: the deadline was set for this very candidate. ``rewait``: the final, repeated request to a
    pool that was asked before (R28, R39). ``pool``: its name in the pools file, "" for an explicit one.
    """

    group: str
    labels: str
    queue_seconds: float
    own_deadline: bool = False
    rewait: bool = False
    pool: str = ""

    @property
    def runner(self) -> dict[str, str]:
        """What is dispatched and reported: group and labels, never the deadline (R30)."""
        return {"group": self.group, "labels": self.labels}

    @property
    def runner_json(self) -> str:
        """Give ``runner`` as the one-line JSON that ``fromJSON(inputs.runner)`` reads (R51)."""
        return json.dumps(self.runner, separators=(",", ":"), ensure_ascii=False)
