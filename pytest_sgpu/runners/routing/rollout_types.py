"""What a rollout text says: experiments, users, and what is wrong with it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from pytest_sgpu.runners.routing.problems import Problem

NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_-]*[A-Za-z0-9])?")  # of an experiment; to be matched in full
NAME_EXPECTED = "letters and digits, and within them also - and _"


@dataclass(frozen=True, slots=True)
class Experiment:
    """What the settings say of one experiment. ``line`` counts from 1, and is no part of what it says."""

    name: str
    rollout_perc: float = 0.0  # 0 to 100
    all_branches: bool = False
    default: bool = True
    workflows: tuple[str, ...] = ()  # as written; "-name" excludes
    line: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class User:
    """One user line: the percentage of each experiment opted in, and what was opted out of; never both."""

    login: str
    percent: Mapping[str, float]  # 0 to 100
    out: frozenset[str] = frozenset()
    out_of_all: bool = False
    line: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Rollout:
    """A whole rollout text. When it is not ``usable``, ``why`` says so in one line, and there are no experiments."""

    experiments: Mapping[str, Experiment]
    users: Mapping[str, User]  # by login.casefold()
    problems: tuple[Problem, ...] = ()
    usable: bool = True
    why: str = ""
