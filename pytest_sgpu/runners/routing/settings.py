"""The settings of a rollout text: YAML to experiments, where a fault costs the field or the experiment it is in."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from pytest_sgpu.runners.lint import yaml_text
from pytest_sgpu.runners.lint.yaml_text import Mapping, Sequence, Text, Value
from pytest_sgpu.runners.routing.problems import Problem, Severity, shown, suggest
from pytest_sgpu.runners.routing.rollout_types import ALL, NAME, NAME_EXPECTED, Experiment, visible
from pytest_sgpu.runners.routing.scalars import kind, number, resolve

LARGEST = 96 * 1024
"""Characters of settings, such as 1,600 experiments of 60, for which a reader of YAML in Python takes 0.4 s. Whatever
they are made of, a decision takes less than 2 s; also with 100,000 users in 10 MB behind settings that people write."""

_KEY = "experiments"
_FIELDS = ("rollout_perc", "all_branches", "default", "workflows")
_PERCENT_TWINS = ("rollout_percent", "rollout_percentage", "percent", "percentage")
_WHOLE = 100.0
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?\s*%?")


class SettingsError(Exception):
    """The settings cannot be understood: why, in one line, and where (from 1, or 0)."""

    def __init__(self, message: str, line: int = 0, hint: str = "", column: int = 0) -> None:
        super().__init__(message)
        self.line = line
        self.hint = hint
        self.column = column


def experiments(text: str, source: str) -> tuple[dict[str, Experiment], list[Problem]]:
    """Read the settings. Raises SettingsError when nothing of them can be used; SgpuError without ruamel.yaml."""
    if len(text) > LARGEST:
        raise SettingsError(f"the settings have {len(text)} characters, at most {LARGEST} are read")
    try:
        root = yaml_text.parse(text, source, lenient=True, local=True)
    except yaml_text.PlacedError as error:
        raise SettingsError(str(error), error.line, _hint(text, error.line), error.column) from None
    reader = _Settings(source)
    return reader.all(root), reader.problems


def _hint(text: str, line: int) -> str:
    lines = text.split("\n")
    here = lines[line - 1] if line <= len(lines) else ""
    if here.lstrip().startswith("@"):
        return "a line '---' stands between the settings and the users"
    if "\t" in here[: len(here) - len(here.lstrip())]:
        return "YAML is indented with spaces, never with tabs"
    if not re.search(r":(\s|$)", here):
        return "only YAML is read here: begin prose with #, or put the settings in a fence"
    return ""


@dataclass(slots=True)
class _Settings:
    source: str
    problems: list[Problem] = field(default_factory=list)

    def tell(self, severity: Severity, place: Value, message: str, hint: str = "", *, mistake: bool = False) -> None:
        self.problems.append(Problem(self.source, place.line, severity, message, hint, place.column, mistake))

    def all(self, root: Value | None) -> dict[str, Experiment]:
        if root is None:
            self.problems.append(Problem(self.source, 0, "warning", "there are no settings, so no experiments"))
            return {}
        if not isinstance(root, Mapping):
            raise SettingsError(f"the settings are {_named(root)}, expected a mapping with the key {_KEY}", root.line)
        found = root.get(_KEY)
        if found is None:
            raise self.missing(root)
        self.repeats(root)
        for key, _ in root:
            if key.text != _KEY:
                self.tell("warning", key, f"the key {key} is not read", suggest(key.text, [_KEY]))
        if isinstance(found, Text) and resolve(found) is None:
            self.tell("warning", found, f"{_KEY} is empty")
            return {}
        if not isinstance(found, Mapping):
            raise SettingsError(f"{_KEY} is {_named(found)}, expected a mapping of experiments", found.line)
        if not found.entries:
            self.tell("warning", found, f"{_KEY} is empty")
        self.repeats(found)
        self.twins(found)
        made = (self.one(key, body) for key, body in found)
        return {each.name: each for each in made if each}

    def missing(self, root: Mapping) -> SettingsError:
        """Say that the one key is not there, at the place of the one that was likely meant as it."""
        for key, _ in root:
            hint = suggest(key.text, [_KEY])
            if hint.startswith("did"):
                message = f"the settings have no key {_KEY}, only {_seen(key)}"
                return SettingsError(message, key.line, hint, key.column)
        return SettingsError(f"the settings have no key {_KEY}", root.line)

    def repeats(self, mapping: Mapping) -> None:
        for key in mapping.repeated:
            self.tell("error", key, f"{key} is there again further down; the last one counts", "keep one of them")

    def twins(self, mapping: Mapping) -> None:
        """Tell names that differ in case only: they are exact, so a user line or a workflow may mean the other one."""
        first: dict[str, Text] = {}
        for key, _ in mapping:
            other = first.setdefault(key.text.casefold(), key)
            if other is not key:
                message = f"{_seen(key)} and {_seen(other)} of line {other.line} differ in case only, and are two"
                self.tell("warning", key, message, "names are exact: give one of them another name")

    def one(self, key: Text, body: Value) -> Experiment | None:
        name = key.text
        if not isinstance(resolve(key), str):
            self.tell(
                "error",
                key,
                f"the name {key} reads as {kind(resolve(key))}; the experiment is left out",
                f'write "{name}" in quotes' if NAME.fullmatch(name) else "",
            )
            return None
        if not NAME.fullmatch(name):
            message = f"{_seen(key)} is no name of an experiment; it is left out"
            self.tell("error", key, message, f"expected {NAME_EXPECTED}")
            return None
        if isinstance(body, Text) and resolve(body) is None:
            return Experiment(name, line=key.line)
        if not isinstance(body, Mapping):
            self.tell("error", body, f"{name} is {_named(body)}, expected a mapping of fields; it is left out")
            return None
        self.repeats(body)
        for other, _ in body:
            if other.text not in _FIELDS:
                self.unknown(name, other)
        return Experiment(
            name,
            self.percent(name, body),
            self.flag(name, body, "all_branches", default=False),
            self.flag(name, body, "default", default=True),
            self.workflows(name, body.get("workflows")),
            key.line,
        )

    def unknown(self, name: str, key: Text) -> None:
        if key.text.casefold().replace("-", "_") in _PERCENT_TWINS:
            hint = 'the percentage is "rollout_perc"; as it stands nobody is rolled out'
            self.tell("error", key, f"{name}: unknown field {_seen(key)} is not read", hint)
            return
        hint = suggest(key.text, _FIELDS)
        severity: Severity = "error" if hint.startswith("did") else "warning"
        self.tell(severity, key, f"{name}: unknown field {_seen(key)} is not read", hint)

    def wrong(self, name: str, what: str, place: Value, wanted: tuple[str, str], hint: str = "") -> None:
        message = f"{name}: {what} is {_named(place)}, expected {wanted[0]}; {wanted[1]}"
        self.tell("error", place, message, hint)

    def percent(self, name: str, body: Mapping) -> float:
        found = body.get("rollout_perc")
        if found is None or self.blank(name, "rollout_perc", found):
            return 0.0
        value = number(found) if isinstance(found, Text) else None
        if value is None:
            is_number = isinstance(found, Text) and _NUMBER.fullmatch(found.text.strip())
            hint = "write it plainly, as in 25 or 0.5: no quotes, leading zero or %" if is_number else ""
            self.wrong(name, "rollout_perc", found, ("a number from 0 to 100", "0 is taken"), hint)
            return 0.0
        taken = min(max(value, 0.0), _WHOLE) + 0.0
        if not 0 <= value <= _WHOLE:
            message = f"{name}: rollout_perc is outside 0 to 100; {taken:g} is taken"
            self.tell("warning", found, message, mistake=True)
        return taken

    def flag(self, name: str, body: Mapping, what: str, *, default: bool) -> bool:
        found = body.get(what)
        if found is None or self.blank(name, what, found):
            return default
        value = resolve(found) if isinstance(found, Text) else None
        if isinstance(value, bool):
            return value
        self.wrong(name, what, found, ("true or false", f"{str(default).lower()} is taken"), _flag_hint(found))
        return default

    def blank(self, name: str, what: str, found: Value) -> bool:
        if not isinstance(found, Text) or resolve(found) is not None:
            return False
        self.tell("warning", found, f"{name}: {what} is empty; its default is taken")
        return True

    def workflows(self, name: str, found: Value | None) -> tuple[str, ...]:
        if found is None or self.blank(name, "workflows", found):
            return ()
        texts: list[tuple[str, Value]] = []
        if isinstance(found, Sequence):
            for item in found.items:
                if isinstance(item, Text) and not isinstance(resolve(item), (bool, type(None))):
                    texts.append((item.text, item))
                else:
                    wanted = ("the name of a workflow", "it is left out")
                    self.wrong(name, "an entry of workflows", item, wanted)
        elif isinstance(found, Text) and not isinstance(resolve(found), bool):
            texts = [(part, found) for part in re.split(r"[,\n]", found.text)]
        else:
            wanted = ("names with commas between, or a list", "every workflow is taken")
            self.wrong(name, "workflows", found, wanted)
        entries = (self.workflow(name, text.strip(), place) for text, place in texts)
        return tuple(entry for entry in entries if entry)

    def workflow(self, name: str, entry: str, place: Value) -> str:
        if not entry.startswith("-"):
            if entry != ALL and entry.casefold() == ALL.casefold():
                message = f"{name}: {shown(entry)} names a workflow; every workflow is {ALL}"
                self.tell("warning", place, message, f"write {ALL}, or leave workflows out")
            return entry
        bare = entry[1:].strip()
        if not bare:
            self.tell("warning", place, f"{name}: workflows holds '-' without a name; it is left out")
        return f"-{bare}" if bare else ""


def _flag_hint(found: Value) -> str:
    if not isinstance(found, Text):
        return ""
    word = found.text.strip().casefold()
    if word in {"yes", "on", "y", "1", "true"}:
        return "write true, without quotes"
    return "write false, without quotes" if word in {"no", "off", "n", "0", "false"} else ""


def _seen(key: Text) -> str:
    return shown(visible(key.text))


def _named(value: Value) -> str:
    if not isinstance(value, Text):
        return str(value)
    typed = resolve(value)
    return f"{kind(typed)}, {shown(value.text)}" if typed is not None else "empty"
