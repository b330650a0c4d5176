"""What a rollout text says: experiments, users, and what is wrong with it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from pytest_sgpu.runners.routing.problems import Problem

NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_-]*[A-Za-z0-9])?")  # of an experiment; to be matched in full
NAME_EXPECTED = "letters and digits, and within them also - and _"
ALL = "ALL"
"""Every workflow, in a list of them. In another case it is the name of one, as all names are exact (Q54)."""

_MOST_VISIBLE = 240  # characters; less is shown of a text


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


def visible(text: str) -> str:
    """Give a name with what cannot be seen in it written as an escape, so that a message shows what is wrong."""
    start = text[:_MOST_VISIBLE]
    if start.isprintable():
        return text
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in start)


@dataclass(frozen=True, slots=True)
class Rollout:
    """A whole rollout text. When it is not ``usable``, ``why`` says so in one line, and there are no experiments."""

    experiments: Mapping[str, Experiment]
    users: Mapping[str, User]  # by login.casefold()
    problems: tuple[Problem, ...] = ()
    usable: bool = True
    why: str = ""
