"""Pools, the profiles that put them in order, and the policies that say how long to wait."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pytest_sgpu.runners.candidates import Candidate
from pytest_sgpu.runners.grammar.labels import Label

MOST_CANDIDATES = 7
"""At most so many candidates in one sequence (R20)."""


@dataclass(frozen=True, slots=True)
class Pool:
    """A runner group and one label in it. Not ``confirmed``: group or label is a guess, to be checked before use."""

    name: str
    group: str
    label: Label
    confirmed: bool = True
    description: str = ""

    @property
    def labels(self) -> str:
        """The label as text, as it is dispatched."""
        return self.label.text


@dataclass(frozen=True, slots=True)
class Profile:
    """What a ``runner-type`` stands for: a kind of runner, and the pools to ask in order (R31-R36).

    ``rewait`` is the pool that a policy with a re-wait asks once more at the end, None where there is none (R41).
    """

    name: str
    family: str
    arch: str
    gpus: int
    order: tuple[Pool, ...]
    rewait: Pool | None = None
    aliases: tuple[str, ...] = ()

    def differs(self, label: Label) -> str:
        """Say what ``label`` would have to be to fit this profile, "" when it fits (R22, R24, R25, R44)."""
        if label.family != self.family:
            return f"a {self.family.upper()} label"
        if label.arch != self.arch:
            return f"the architecture {self.arch}"
        if label.gpus != self.gpus:
            return f"{self.gpus} GPU{'s' if self.gpus > 1 else ''}"
        return ""


@dataclass(frozen=True, slots=True)
class Policy:
    """How long to wait where nothing says it nearer (seconds by family), and for the re-wait, None without one."""

    name: str
    queue_seconds: Mapping[str, float]
    rewait_seconds: float | None = None


def sequence(profile: Profile, policy: Policy, action_seconds: float | None) -> tuple[Candidate, ...]:
    """Give the candidates of a profile: its order, then the re-wait of the policy where the profile has one.

    ``action_seconds`` goes before the policy's default (R29), but leaves the re-wait alone (R39).
    """
    wait = policy.queue_seconds[profile.family] if action_seconds is None else action_seconds
    chosen = [Candidate(pool.group, pool.labels, wait, pool=pool.name) for pool in profile.order]
    last = profile.rewait
    if last is not None and policy.rewait_seconds is not None:
        chosen.append(
            Candidate(last.group, last.labels, policy.rewait_seconds, own_deadline=True, rewait=True, pool=last.name)
        )
    return tuple(chosen)
