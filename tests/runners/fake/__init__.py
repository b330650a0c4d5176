"""A fake GitHub and a virtual clock, for the tests of the runner tools.

Imports in here are relative: the tests load this folder under a name of its own, since no name of a test folder can be
imported in every way in which the tests are run.
"""

from __future__ import annotations

from .children import Child, Plan
from .clock import EPOCH, START, FakeClock, RealClock, VirtualClock
from .environment import Files, child_inputs, default_inputs, entries, github_env, guard_inputs
from .faults import Fault
from .github import TOKEN, FakeGitHub
from .records import Recorded
from .repository import MAIN_SHA, SOURCE_REF, SOURCE_SHA, WORKFLOW
from .rest import INPUTS, VERSION
from .stand_in import StandIn

__all__ = [
    "EPOCH",
    "INPUTS",
    "MAIN_SHA",
    "SOURCE_REF",
    "SOURCE_SHA",
    "START",
    "TOKEN",
    "VERSION",
    "WORKFLOW",
    "Child",
    "FakeClock",
    "FakeGitHub",
    "Fault",
    "Files",
    "Plan",
    "RealClock",
    "Recorded",
    "StandIn",
    "VirtualClock",
    "child_inputs",
    "default_inputs",
    "entries",
    "github_env",
    "guard_inputs",
]
