"""Frozen nouns that two layers or more share. No behaviour beyond what a value knows of itself."""

from __future__ import annotations

from pytest_sgpu.model.ends import (
    Ending,
    JUnitFacts,
    Leftover,
    Notice,
    Outcome,
    Part,
    Status,
    Tests,
    Verdict,
)
from pytest_sgpu.model.places import (
    Device,
    Quarantine,
    Worker,
)
from pytest_sgpu.model.work import (
    UNKNOWN,
    Census,
    Estimate,
    Item,
    Key,
    Mode,
    Plan,
    PlanEntry,
    Scope,
    Suite,
    WeightTable,
)

__all__ = [
    "UNKNOWN",
    "Census",
    "Device",
    "Ending",
    "Estimate",
    "Item",
    "JUnitFacts",
    "Key",
    "Leftover",
    "Mode",
    "Notice",
    "Outcome",
    "Part",
    "Plan",
    "PlanEntry",
    "Quarantine",
    "Scope",
    "Status",
    "Suite",
    "Tests",
    "Verdict",
    "WeightTable",
    "Worker",
]
