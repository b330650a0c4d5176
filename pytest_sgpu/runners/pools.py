"""The pools file: TOML text to the pools, profiles, policies and forms of labels of an organisation.

Pools are kept by hand; nothing looks for them, and no grant is checked (R45). Format: docs/reference/runner-pools.md.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from pytest_sgpu.errors import ConfError, OptionError
from pytest_sgpu.runners.candidates import Candidate
from pytest_sgpu.runners.grammar import explicit, labels, profiles
from pytest_sgpu.runners.grammar.conf_table import Table
from pytest_sgpu.runners.grammar.labels import FAMILIES, Form, Label
from pytest_sgpu.runners.grammar.profiles import MOST_CANDIDATES, Policy, Pool, Profile
from pytest_sgpu.runners.text import one_line
from pytest_sgpu.runners.wording import found, nearest

VERSION = 1
STANDARD = "standard"
LONGEST_FILE = 100_000  # characters
LONGEST_LINE = 4_000
_LONGEST_PATTERN = 1000
_TOP = ("version", "grammar", "pools", "profiles", "policies")
_PARTS = "a pools file has version = 1, [[grammar]], [pools.NAME], [profiles.NAME] and [policies.standard]"


@dataclass(frozen=True, slots=True)
class Pools:
    """A pools file that was checked as a whole. ``source`` is its name in errors."""

    source: str
    forms: tuple[Form, ...]
    pools: Mapping[str, Pool]
    profiles: Mapping[str, Profile]
    policies: Mapping[str, Policy]

    @property
    def runner_types(self) -> tuple[str, ...]:
        """All names that ``runner-type`` may have, aliases after the profiles."""
        return (*self.profiles, *(alias for profile in self.profiles.values() for alias in profile.aliases))

    def profile(self, name: str) -> Profile:
        """Give the profile of a ``runner-type`` or of its alias. Raises OptionError: blank or unknown (R10-R12)."""
        wanted = name.strip()
        if not wanted:
            raise OptionError("runner-type: missing", f"say which kind of runner: {', '.join(self.runner_types)}")
        for profile in self.profiles.values():
            if wanted in (profile.name, *profile.aliases):
                return profile
        raise OptionError(
            f"runner-type: found {found(name)}, expected one of {', '.join(self.runner_types)}",
            nearest(wanted, self.runner_types),
        )

    def policy(self, name: str) -> Policy:
        """Give the policy of a ``queue-policy``, ``standard`` for a blank one (R15). Raises OptionError: unknown."""
        wanted = name.strip() or STANDARD
        if wanted not in self.policies:
            raise OptionError(
                f"queue-policy: found {found(name)}, expected one of {', '.join(self.policies)}",
                nearest(wanted, self.policies),
            )
        return self.policies[wanted]

    def classify(self, label: str) -> Label | None:
        """Say what ``label`` is, None when it has no form that the file states."""
        return labels.classify(label, self.forms)

    def candidates(self, runner_type: str, policy: str, action_seconds: float | None) -> tuple[Candidate, ...]:
        """Give the shared defaults of a ``runner-type``, with their deadlines (R21, R29, R37-R41).

        ``action_seconds``: the action-level deadline, None when it was left out. Raises OptionError.
        """
        return profiles.sequence(self.profile(runner_type), self.policy(policy), action_seconds)

    def explicit(self, text: str, runner_type: str, policy: str, action_seconds: float | None) -> tuple[Candidate, ...]:
        """Read the input ``runners``, which replaces the defaults and is never added to (R18-R30, R42).

        Where neither a candidate nor the action has a deadline, the policy's holds here too. Raises OptionError.
        """
        profile = self.profile(runner_type)
        seconds = self.policy(policy).queue_seconds[profile.family]
        wait = seconds if action_seconds is None else action_seconds
        return explicit.candidates(text, profile, self.classify, wait)


def parse_pools(text: str, source: str) -> Pools:
    """Read a pools file. Raises ConfError that starts with ``source`` and the key that is wrong."""
    root = Table(source, "", _toml(text, source))
    root.only(*_TOP)
    version = root.value("version", str(VERSION))
    if type(version) is not int or version != VERSION:  # neither true nor 1.0
        newer = isinstance(version, int) and version > VERSION
        hint = "a newer pytest-sgpu may read it" if newer else f"write version = {VERSION}"
        raise root.wrong("version", version, str(VERSION), hint)
    forms = tuple(_form(table) for table in root.array("grammar", "at least one [[grammar]]"))
    pools = {name: _pool(name, table, forms) for name, table in root.tables("pools", "tables [pools.NAME]").items()}
    tables = root.tables("profiles", "tables [profiles.NAME]")
    read = {name: _profile(name, table, pools) for name, table in tables.items()}
    _names_once(tables, read)
    policies = {name: _policy(name, table) for name, table in root.tables("policies", "[policies.standard]").items()}
    if STANDARD not in policies:
        raise root.error("policies", f"no [policies.{STANDARD}], which is the default", nearest(STANDARD, policies))
    return Pools(source, forms, pools, read, policies)


def _toml(text: str, source: str) -> Mapping[str, object]:
    if len(text) > LONGEST_FILE:
        raise ConfError(f"{source}: {len(text)} characters, expected at most {LONGEST_FILE}")
    if any(len(line) > LONGEST_LINE for line in text.splitlines()):  # a key of a thousand parts takes minutes
        raise ConfError(f"{source}: a line of more than {LONGEST_LINE} characters")
    try:  # imported only here: a guard reads no pools, and may have a bare Python 3.10
        reader = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
        values: dict[str, object] = reader.loads(text)
    except ModuleNotFoundError:
        raise ConfError(f"{source}: Python 3.10 cannot read it alone", "use Python 3.11, or install tomli") from None
    except RecursionError:
        raise ConfError(f"{source}: nested too deeply to be read") from None
    except (ValueError, OverflowError) as error:
        message = one_line(error)  # it may quote the text
        raise ConfError(f"{source}: no TOML: {message}", _PARTS) from None
    return values


def _form(table: Table) -> Form:
    table.only("family", "pattern", "groups", *labels.PARTS)
    family = table.one_of("family", FAMILIES)
    try:
        pattern = labels.compiled(table.text("pattern", "a regular expression", longest=_LONGEST_PATTERN))
    except ValueError as error:
        raise table.error("pattern", f"no regular expression: {error}") from None
    for name in pattern.groupindex:
        if name not in labels.PARTS:
            raise table.error("pattern", f"unknown group {found(name)}", nearest(name, labels.PARTS))
    constants = {name: table.text(name, "a text") for name in ("os", "arch", "model", "driver") if name in table.values}
    if "cores" in table.values:
        constants["cores"] = str(table.whole("cores", 1, 10_000))
    if "gpus" in table.values:
        constants["gpus"] = str(table.whole("gpus", 1, labels.MOST_GPUS))
    stated = {*constants, *pattern.groupindex}
    for name in ("os", "arch", "gpus") if family == "gpu" else ("os", "arch"):
        if name not in stated:
            hint = f"put (?P<{name}>...) into the pattern, or give the key {name} for all labels of this form"
            raise table.error("pattern", f"it does not say {name}", hint)
    if family == "cpu" and "gpus" in stated:
        raise table.error("gpus" if "gpus" in constants else "pattern", "gpus in a CPU label", 'write family = "gpu"')
    return Form(family, pattern, constants, table.texts("groups", "a list of runner groups"))


def _pool(name: str, table: Table, forms: tuple[Form, ...]) -> Pool:
    table.only("group", "labels", "confirmed", "description")
    group, text = table.text("group", "a runner group"), table.text("labels", "one label as a text")
    for key, value in (("group", group), ("labels", text)):
        if value != value.strip():
            raise table.wrong(key, value, "no blanks around it")
    label = labels.classify(text, forms)
    if label is None:
        raise table.wrong("labels", text, "a label that fits a [[grammar]] of this file", "add its form, or correct it")
    if label.groups and group not in label.groups:
        raise table.wrong("group", group, f"{' or '.join(label.groups)}, as the [[grammar]] of {found(text)} says")
    return Pool(name, group, label, table.flag("confirmed", default=True), table.text("description", "a text", ""))


def _profile(name: str, table: Table, pools: Mapping[str, Pool]) -> Profile:
    table.only("family", "arch", "gpus", "order", "rewait", "aliases")
    family = table.one_of("family", FAMILIES)
    arch = table.text("arch", "an architecture such as amd64")
    gpus = table.whole("gpus", 0, 0, default=0) if family == "cpu" else table.whole("gpus", 1, labels.MOST_GPUS)
    named = table.texts("order", "a list of pool names, the first one preferred", needed=True)
    bare = Profile(name, family, arch, gpus, ())
    order: list[Pool] = []
    for place, pool_name in enumerate(named, 1):
        where = f"{table.source}: {table.path}.order[{place}]"
        order.append(_member(where, pool_name, bare, pools, order))
    rewait = _rewait(table, order)
    if len(order) + (rewait is not None) > MOST_CANDIDATES:
        raise table.error("order", f"more than {MOST_CANDIDATES} candidates, the re-wait included")
    aliases = table.texts("aliases", "a list of other names")
    return Profile(name, family, arch, gpus, tuple(order), rewait, aliases)


def _member(where: str, name: str, profile: Profile, pools: Mapping[str, Pool], before: list[Pool]) -> Pool:
    if name not in pools:
        raise ConfError(f"{where}: no pool {found(name)}", nearest(name, pools))
    pool = pools[name]
    wanted = profile.differs(pool.label)
    if wanted:
        raise ConfError(f"{where}: {found(name)} has the label {found(pool.labels)}, expected {wanted}")
    if before and before[0].label.os != pool.label.os:
        raise ConfError(f"{where}: {found(name)} is {pool.label.os}, expected {before[0].label.os} as before it")
    if any(pool.labels.casefold() == one.labels.casefold() for one in before):
        hint = "only the re-wait asks again: rewait = NAME"
        raise ConfError(f"{where}: the label {found(pool.labels)} is there twice", hint)
    return pool


def _rewait(table: Table, order: list[Pool]) -> Pool | None:
    if "rewait" not in table.values:
        return None
    name = table.text("rewait", "the name of a pool in order")
    for pool in order:
        if pool.name == name:
            return pool
    raise table.wrong("rewait", name, "a pool of order, to be asked once more", nearest(name, (p.name for p in order)))


def _names_once(tables: Mapping[str, Table], read: Mapping[str, Profile]) -> None:
    seen = set(read)
    for name, profile in read.items():
        for alias in profile.aliases:
            if alias in seen:
                raise tables[name].error("aliases", f"{found(alias)} names two profiles", "each name stands for one")
            seen.add(alias)


def _policy(name: str, table: Table) -> Policy:
    table.only("cpu-minutes", "gpu-minutes", "rewait-minutes")
    waits = {family: table.whole(f"{family}-minutes", 1, 60) * 60.0 for family in FAMILIES}
    rewait = table.whole("rewait-minutes", 1, 60) * 60.0 if "rewait-minutes" in table.values else None
    return Policy(name, waits, rewait)
