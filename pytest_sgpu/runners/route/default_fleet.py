"""The default fleet, with all outputs: what every failure comes to, even that of the fleets file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pytest_sgpu.errors import SgpuError
from pytest_sgpu.runners.lint import yaml_text
from pytest_sgpu.runners.route import sources
from pytest_sgpu.runners.routing.decision import Decision
from pytest_sgpu.runners.routing.fleets import LONGEST_FILE, SOURCE_OUTPUT, Fleets
from pytest_sgpu.runners.text import one_line

_COMMENT = re.compile(r"(?:^|[ \t])#.*")
_TOP = re.compile(r"['\"]?([A-Za-z][\w-]*)['\"]?:(.*)")
_ENTRY = re.compile(
    r"(?:^|[{,\s])['\"]?(label|translates|output)['\"]?:[ \t]*['\"]?([\w-]+)['\"]?(?=[ \t]*(?:[,}]|$))", re.ASCII
)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_PREFIX = re.compile(r"['\"]?([A-Za-z0-9._-]*)['\"]?")


@dataclass(frozen=True, slots=True)
class Outputs:
    """How the outputs are called, and the prefix of the default fleet."""

    label: str = ""
    translates: str = ""
    separate: tuple[str, ...] = ()
    prefix: str = ""

    def of(self, made: Decision) -> dict[str, str]:
        """Give every output of a decision, in the order in which they are told."""
        values = {self.label: made.label_type} if self.label else {}
        values |= {self.translates: "true" if made.use_arc else "false"} if self.translates else {}
        values |= {name: made.separate.get(name, "") for name in self.separate}
        return {name: one_line(text) for name, text in values.items()} | {SOURCE_OUTPUT: one_line(made.source)}


def outputs_of(fleets: Fleets) -> Outputs:
    """Give those of a fleets file that was read."""
    separate = tuple(dict.fromkeys(one.output for one in fleets.separate))
    return Outputs(fleets.label_output, fleets.translates_output, separate, fleets.default.prefix)


def outputs_without(path: str) -> Outputs:
    """Give them from a file that is wrong somewhere: as YAML has them, or without that as far as its lines show them.

    What the file does not show is taken from the one of this package, so that no step waits for an output.
    """
    own = _shown(sources.default(sources.FLEETS)) or Outputs()
    shown = _shown(sources.fleets(path))
    if shown is None:
        return own
    label = shown.label or own.label
    taken = {"", label.casefold()}  # GitHub tells outputs apart without case
    translates = next((one for one in (shown.translates, own.translates) if one.casefold() not in taken), "")
    separate = shown.separate if shown.label or shown.translates else shown.separate or own.separate
    apart = {one.casefold(): one for one in reversed(separate) if one.casefold() not in taken | {translates.casefold()}}
    return Outputs(label, translates, tuple(one for one in separate if one in apart.values()), shown.prefix)


def decision(outputs: Outputs, why: str) -> Decision:
    """Give the decision without a fleets file: the default fleet, untranslated, every separate output empty (Q110)."""
    source = f"fallback: {one_line(why) or 'unknown'}"
    return Decision(
        outputs.prefix,
        use_arc=False,
        separate=dict.fromkeys(outputs.separate, ""),
        enabled=(),
        dropped=(),
        source=source,
    )


def _shown(file: Path) -> Outputs | None:
    """Give what a file shows, None for one that cannot be read."""
    try:
        text = sources.read(file)
    except SgpuError:
        return None
    found = _Found()
    if not found.in_tree(text):
        for line in text.splitlines():
            found.in_line(line)
    return Outputs(found.names.get("label", ""), found.names.get("translates", ""), tuple(found.separate), found.prefix)


@dataclass(slots=True)
class _Found:
    """What was found so far, of the forms that a fleets file without mistakes has."""

    names: dict[str, str] = field(default_factory=dict)
    separate: dict[str, None] = field(default_factory=dict)
    prefix: str = ""
    section: str = ""

    def in_tree(self, text: str) -> bool:
        """Look into the YAML that ``text`` is; False when it is none, or nobody here can read it."""
        try:
            root = yaml_text.parse(text, "", lenient=True) if len(text) <= LONGEST_FILE else None
        except Exception:  # noqa: BLE001 - whatever stopped the first reading may stop this one, and no job
            return False
        if not isinstance(root, yaml_text.Mapping):
            return False
        self._default_prefix(_text(root.get("default-prefix")))
        outputs = root.get("outputs")
        for key, value in outputs if isinstance(outputs, yaml_text.Mapping) else ():
            self._output("outputs", key.text, _text(value))
        apart = root.get("separate")
        for _, one in apart if isinstance(apart, yaml_text.Mapping) else ():
            if isinstance(one, yaml_text.Mapping):
                self._output("separate", "output", _text(one.get("output")))
        return True

    def in_line(self, line: str) -> None:
        """Look at one line, in block or flow style."""
        bare = _COMMENT.sub("", line).rstrip()
        if top := _TOP.fullmatch(bare):
            self.section, bare = top[1], top[2].strip()
            if self.section == "default-prefix":
                self._default_prefix(bare)
        for key, name in _ENTRY.findall(bare):
            self._output(self.section, key, name)

    def _output(self, section: str, key: str, name: str) -> None:
        if not _NAME.fullmatch(name) or name.casefold() == SOURCE_OUTPUT.casefold():
            return
        if section == "outputs" and key in {"label", "translates"}:
            self.names.setdefault(key, name)
        elif section == "separate" and key == "output":
            self.separate[name] = None

    def _default_prefix(self, text: str) -> None:
        if value := _PREFIX.fullmatch(text):
            self.prefix = value[1]


def _text(value: yaml_text.Value | None) -> str:
    return value.text if isinstance(value, yaml_text.Text) else ""


def as_json(outputs: Mapping[str, str]) -> dict[str, object]:
    """Give outputs as a JSON document has them: what is true or false is no text there."""
    return {name: {"true": True, "false": False}.get(text, text) for name, text in outputs.items()}
