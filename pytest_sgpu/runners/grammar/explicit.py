"""The input ``runners``: a JSON list that replaces the whole list of a profile (R18-R30)."""

from __future__ import annotations

import json
from collections.abc import Callable

from pytest_sgpu.errors import OptionError
from pytest_sgpu.runners.candidates import Candidate
from pytest_sgpu.runners.grammar.labels import Label
from pytest_sgpu.runners.grammar.profiles import MOST_CANDIDATES, Profile
from pytest_sgpu.runners.strict_json import JsonError, loads
from pytest_sgpu.runners.text import one_line
from pytest_sgpu.runners.wording import controls, found, nearest

NAME = "runners"
MINUTES = "queue-timeout-minutes"
SECONDS = "queue-timeout-seconds"
_KEYS = ("group", "labels", MINUTES, SECONDS)
_LIMITS = {MINUTES: (60, 60.0), SECONDS: (3600, 1.0)}
_LONGEST = 256


def candidates(
    text: str, profile: Profile, classify: Callable[[str], Label | None], default_seconds: float
) -> tuple[Candidate, ...]:
    """Read the list. Nothing is added to it, and no mistake in it leads to the defaults (R19, R42).

    ``default_seconds`` is for candidates without a deadline of their own. Raises OptionError.
    """
    example = _example(profile)
    entries = _entries(text, example)
    chosen: list[Candidate] = []
    system = ""
    for number, entry in enumerate(entries, 1):
        candidate = _candidate(number, entry, default_seconds, example)
        label = _label(number, candidate, profile, classify)
        system = system or label.os
        if label.os != system:
            raise _error(
                number,
                f'the operating system of "{label.text}" is {label.os}, expected {system} as before it',
                "one list has one operating system: use a coordinator for each",
            )
        chosen.append(_repeated(number, candidate, chosen, last=number == len(entries)))
    return tuple(chosen)


def _example(profile: Profile) -> str:
    """Give the hint with what the pools file in use has."""
    shown = [{"group": pool.group, "labels": pool.labels} for pool in profile.order[:1]]
    form = one_line(json.dumps(shown, ensure_ascii=False))
    return f"write a JSON list such as {form}, or leave the input out for the pools of the runner-type"


def _entries(text: str, example: str) -> list[object]:
    try:
        value = loads(text)
    except JsonError as error:
        key = f" ({found(error.key)})" if error.key else ""
        raise OptionError(f"{NAME}: {error.message}{key}, expected a JSON list", example) from None
    if not isinstance(value, list):
        raise OptionError(f"{NAME}: found {found(value)}, expected a JSON list", example)
    if not 1 <= len(value) <= MOST_CANDIDATES:
        raise OptionError(f"{NAME}: {len(value)} candidates, expected 1 to {MOST_CANDIDATES}", example)
    return value


def _error(number: int, message: str, hint: str = "") -> OptionError:
    return OptionError(f"{NAME}: candidate {number}: {message}", hint)


def _candidate(number: int, entry: object, default_seconds: float, example: str) -> Candidate:
    if not isinstance(entry, dict):
        raise _error(number, f"found {found(entry)}, expected an object with group and labels", example)
    for key in entry:
        if key not in _KEYS:
            raise _error(number, f"unknown key {found(key)}", nearest(key, _KEYS))
    group, labels = (_text(number, entry, key, example) for key in ("group", "labels"))
    own = _deadline(number, entry)
    return Candidate(group, labels, default_seconds if own is None else own, own_deadline=own is not None)


def _text(number: int, entry: dict[str, object], key: str, example: str) -> str:
    value = entry.get(key)
    expected = f"expected one text of at most {_LONGEST} characters"
    if key not in entry:
        raise _error(number, f"{key}: missing, {expected}", example)
    if not isinstance(value, str) or not value.strip():
        hint = "give one label as a text, not a list" if key == "labels" and isinstance(value, list) else example
        raise _error(number, f"{key}: found {found(value)}, {expected}", hint)
    if controls(value) or value != value.strip() or len(value) > _LONGEST:
        wrong = f"{len(value)} characters" if len(value) > _LONGEST else found(value)
        raise _error(number, f"{key}: found {wrong}, {expected}, without control characters or blanks around it")
    return value


def _deadline(number: int, entry: dict[str, object]) -> float | None:
    given = [key for key in (MINUTES, SECONDS) if key in entry]
    if not given:
        return None
    if len(given) > 1:
        raise _error(number, f"both {MINUTES} and {SECONDS}, expected one of them", "leave one out")
    most, factor = _LIMITS[given[0]]
    value = entry[given[0]]
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
        hint = "write the number without quotes" if isinstance(value, str) else ""
        raise _error(number, f"{given[0]}: found {found(value)}, expected a whole number from 1 to {most}", hint)
    return value * factor


def _label(number: int, candidate: Candidate, profile: Profile, classify: Callable[[str], Label | None]) -> Label:
    label = classify(candidate.labels)
    if label is None:
        raise _error(
            number,
            f"labels: found {found(candidate.labels)}, expected a label of a form that the pools file knows",
            "check the spelling, or state this form of label as a [[grammar]] of a pools file of your own",
        )
    wanted = profile.differs(label)
    if wanted:
        raise _error(
            number,
            f"labels: found {found(label.text)}, expected {wanted} (runner-type {profile.name})",
            "every candidate keeps the family, architecture and GPU count of the runner-type",
        )
    if label.groups and candidate.group not in label.groups:
        raise _error(
            number,
            f"group: found {found(candidate.group)}, expected {' or '.join(label.groups)} for {found(label.text)}",
            "labels of this form are in that group only, and it needs a grant of its own",
        )
    return label


def _repeated(number: int, candidate: Candidate, before: list[Candidate], *, last: bool) -> Candidate:
    same = [one for one in before if one.labels.casefold() == candidate.labels.casefold()]
    if not same:
        return candidate
    hint = "a label may come again only as the last candidate, with a deadline of its own, in the same group"
    if not last:
        raise _error(number, f"labels: {found(candidate.labels)} is there twice and this is not the last one", hint)
    if not candidate.own_deadline:
        raise _error(number, f"{MINUTES}: missing, expected one since {found(candidate.labels)} is there twice", hint)
    if same[0].group != candidate.group:
        raise _error(number, f"group: found {found(candidate.group)}, expected {found(same[0].group)}", hint)
    return Candidate(candidate.group, candidate.labels, candidate.queue_seconds, own_deadline=True, rewait=True)
