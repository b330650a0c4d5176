"""The default fleet, with all outputs: what every failure comes to, even that of the fleets file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from pytest_sgpu.errors import SgpuError
from pytest_sgpu.runners.route import sources
from pytest_sgpu.runners.routing.decision import Decision
from pytest_sgpu.runners.routing.fleets import SOURCE_OUTPUT, Fleets
from pytest_sgpu.runners.text import one_line

_TOP = re.compile(r"([A-Za-z][\w-]*):[ \t]*(.*)")
_NAME = re.compile(r"[ \t]+(label|translates|output):[ \t]*['\"]?([A-Za-z_][A-Za-z0-9_-]*)['\"]?[ \t]*(?:#.*)?")
_PREFIX = re.compile(r"['\"]?([A-Za-z0-9._-]*)['\"]?[ \t]*(?:#.*)?")


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
    """Give them without YAML, or from a file that is wrong somewhere: as far as its lines show them.

    What the named file does not show is taken from the one of this package, so that no step waits for an output.
    """
    named = _scanned(path) if path else Outputs()
    own = _scanned("")
    return Outputs(
        named.label or own.label,
        named.translates or own.translates,
        named.separate or own.separate,
        named.prefix or own.prefix,
    )


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


def _scanned(path: str) -> Outputs:
    try:
        text = sources.read(sources.fleets(path))
    except SgpuError:
        return Outputs()
    found = _Scan()
    for line in text.splitlines():
        found.look(line)
    return Outputs(found.names.get("label", ""), found.names.get("translates", ""), tuple(found.separate), found.prefix)


@dataclass(slots=True)
class _Scan:
    names: dict[str, str] = field(default_factory=dict)
    separate: dict[str, None] = field(default_factory=dict)
    prefix: str = ""
    section: str = ""

    def look(self, line: str) -> None:
        if top := _TOP.fullmatch(line.rstrip()):
            self.section = top[1]
            if top[1] == "default-prefix" and (value := _PREFIX.fullmatch(top[2])):
                self.prefix = value[1]
        elif name := _NAME.fullmatch(line.rstrip()):
            if self.section == "outputs" and name[1] != "output":
                self.names.setdefault(name[1], name[2])
            elif self.section == "separate" and name[1] == "output":
                self.separate[name[2]] = None


def as_json(outputs: Mapping[str, str]) -> dict[str, object]:
    """Give outputs as a JSON document has them: what is true or false is no text there."""
    return {name: {"true": True, "false": False}.get(text, text) for name, text in outputs.items()}
