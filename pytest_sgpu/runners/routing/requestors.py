"""Whose lines in the user list count for a request: the author's and the actor's, unless a bot acts for another."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_sgpu.runners.routing.decision import Request, Step
from pytest_sgpu.runners.routing.fleets import Fleets
from pytest_sgpu.runners.routing.problems import suggest
from pytest_sgpu.runners.routing.rollout import Rollout, User
from pytest_sgpu.runners.text import one_line
from pytest_sgpu.runners.wording import found

_MOST_UNKNOWN = 20  # more of them are no typing errors, and suggestions take time


@dataclass(frozen=True, slots=True)
class Requestor:
    """One login, as it came, and its line in the user list, if there is one."""

    login: str
    user: User | None


@dataclass(frozen=True, slots=True)
class Found:
    """All requestors, each once, the author first; and how they were found."""

    found: tuple[Requestor, ...]
    steps: tuple[Step, ...]
    warnings: tuple[str, ...] = ()


def find(rollout: Rollout, fleets: Fleets, request: Request) -> Found:
    """Find the requestors (Q48, Q49). Logins compare without case."""
    number = fleets.pull_request(request.actor, request.ref_type, request.branch)
    warnings: list[str] = []
    roles = {"author": request.author, "actor": request.actor}
    if number is not None:
        del roles["actor"]
        if not request.author.strip():
            warnings.append(
                f"{found(request.actor)} acts for the author of pull request {number}, who is not known: "
                "no line of the user list counts"
            )
    logins: dict[str, tuple[str, str]] = {}
    for role, given in roles.items():
        login = given.strip().removeprefix("@")
        if login:
            logins.setdefault(login.casefold(), (login, role))
    people = tuple(Requestor(login, rollout.users.get(key)) for key, (login, _) in logins.items())
    told = ", ".join(f"{found(login)} ({role})" for login, role in logins.values()) or "nobody"
    if number is not None:
        told += f"; {found(request.actor)} acts for the author of pull request {number}"
    steps = (Step("", "requestors", "skip", told), *_unknown(people, rollout))
    return Found(people, steps, tuple(warnings))


def short(branch: str) -> str:
    """Give a branch or tag by its own name, without ``refs/heads/`` or ``refs/tags/``."""
    name = branch.strip()
    for start in ("refs/heads/", "refs/tags/"):
        if name.startswith(start):
            return name.removeprefix(start)
    return name


def _unknown(people: tuple[Requestor, ...], rollout: Rollout) -> list[Step]:
    """Tell which experiments of their lines stand for nothing (Q63)."""
    steps = []
    for person in people:
        named = (*person.user.percent, *sorted(person.user.out)) if person.user else ()
        for name in [name for name in named if name not in rollout.experiments][:_MOST_UNKNOWN]:
            hint = suggest(name, rollout.experiments)
            detail = f"the line of {found(person.login)} names {found(name)}, which is no experiment of the rollout"
            steps.append(Step(one_line(name), "user", "skip", f"{detail}: {hint}" if hint else detail))
    return steps
