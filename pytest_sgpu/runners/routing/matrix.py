"""A test matrix translated: each ``runner`` of its ``include`` becomes a label of the other scheme, or nothing does."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pytest_sgpu.runners.routing import matrix_text
from pytest_sgpu.runners.routing.fleets import Fleets
from pytest_sgpu.runners.routing.mapping import TABLE, LabelMap, Resolution, known_prefixes, resolve
from pytest_sgpu.runners.routing.matrix_text import MatrixError, MatrixText
from pytest_sgpu.runners.routing.places import Place
from pytest_sgpu.runners.routing.problems import Problem, Severity, shown, suggest
from pytest_sgpu.runners.wording import found

MOST_JOBS = 256
"""So many jobs GitHub makes of one matrix."""

_LONGEST_NAMED = 3500  # characters of unknown labels in one line: GitHub cuts an annotation at 4096
_NOTHING: tuple[object, ...] = (None, [], {}, "")
"""What an ``include`` without entries may be. No number and no flag: those are mistakes."""
_CLOSE = 0.8  # includes, but not exclude
_AFTERWARDS = "an expression: translate after GitHub has put a label in its place"


@dataclass(frozen=True, slots=True)
class Changed:
    """One entry with a runner: its line, the label that it had, and what became of it (which may be the same)."""

    line: int
    before: str
    resolution: Resolution


@dataclass(frozen=True, slots=True)
class Dropped:
    """One entry left out: its line, its config and the reason that the fleets file gives (Q85)."""

    line: int
    config: str
    reason: str


@dataclass(frozen=True, slots=True)
class Unknown:
    """A label without a translation: every line where it stands, and what may have been meant (Q86)."""

    label: str
    lines: tuple[int, ...]
    suggestion: str = ""

    def __str__(self) -> str:
        """Give it as part of a message."""
        return self.told(5)

    def told(self, most: int) -> str:
        """Give it with at most so many of its lines."""
        place = f"line{'s' if len(self.lines) > 1 else ''} {', '.join(map(str, self.lines[:most]))}"
        more = ", ..." if len(self.lines) > most else ""
        return f"{shown(self.label)} ({place}{more}{'; ' if self.suggestion else ''}{self.suggestion})"


@dataclass(frozen=True, slots=True)
class Translation:
    """A matrix rewritten. ``text``: one line of JSON, "" for an input without anything; None when there are errors.

    ``refused``: the one of ``problems`` that tells of ``unknown``, with as many of them as one line holds.
    """

    text: str | None
    changed: tuple[Changed, ...] = ()
    dropped: tuple[Dropped, ...] = ()
    unknown: tuple[Unknown, ...] = ()
    problems: tuple[Problem, ...] = ()
    refused: Problem | None = None


def translate(text: str, source: str, prefix: str, label_map: LabelMap, fleets: Fleets) -> Translation:
    """Rewrite a matrix for ``prefix``; ``source`` names the text in problems, whose lines count within it.

    Raises nothing for its content: problems of severity "error" leave nothing to emit. Raises SgpuError when
    ruamel.yaml is not installed.
    """
    work = _Work(source, prefix, label_map, fleets)
    work.refuse_prefix()
    made = None
    try:
        made = work.matrix(matrix_text.read(text, source))
    except MatrixError as error:
        work.tell(error.line, error.message, error.hint)
    except RecursionError:
        work.tell(1, "nested too deeply")
    return work.end(made)


class _Work:
    def __init__(self, source: str, prefix: str, label_map: LabelMap, fleets: Fleets) -> None:
        self._source = source
        self._prefix = prefix
        self._map = label_map
        self._fleets = fleets
        self._changed: list[Changed] = []
        self._dropped: list[Dropped] = []
        self._resolved: dict[str, Resolution | None] = {}
        self._unknown: dict[str, list[int]] = {}
        self._problems: list[Problem] = [] if label_map.usable else list(label_map.problems)

    def tell(self, line: int, message: str, hint: str = "", *, severity: Severity = "error") -> None:
        self._problems.append(Problem(self._source, line, severity, message, hint))

    def refuse_prefix(self) -> None:
        known = known_prefixes(self._fleets, translating=True)
        if self._prefix and self._prefix not in known:
            message = f"the prefix {shown(self._prefix)} is none of translated labels"
            self.tell(0, message, f"translate for {', '.join(map(shown, known))}, or leave the matrix as it is")

    def matrix(self, read: MatrixText) -> str:
        if read.is_blank:
            return ""
        value = read.value
        if value is None or value in ({}, [], ""):
            return matrix_text.one_line_json(value)
        if not isinstance(value, dict):
            hint = matrix_text.SPACE if isinstance(value, str) and ":" in value else "{ include: [ ... ] }"
            raise MatrixError(f"found {_found(value)}, expected a mapping with include", 1, hint)
        if others := [key for key in value if key != "include"]:
            self._tell_axes(others, read, is_filled=value.get("include") not in _NOTHING)
            return matrix_text.one_line_json(value)
        return matrix_text.one_line_json({"include": self._include(value["include"], read)})

    def _tell_axes(self, keys: list[str], read: MatrixText, *, is_filled: bool) -> None:
        """Tell keys beside ``include``: with entries there half of the matrix would be translated, else nothing is."""
        line, named = read.key_lines.get(keys[0], 1), ", ".join(map(shown, keys[:5]))
        hint = "write each combination as an entry of include"
        if is_filled:
            raise MatrixError(f"found {named} beside include, and only include is translated", line, hint)
        if meant := difflib.get_close_matches("include", keys, 1, _CLOSE):
            hint = f"{shown(meant[0])} is not include"
        message = f"no entries in include: nothing is translated, {named} passed on as written"
        self.tell(line, message, hint, severity="warning")

    def _include(self, value: object, read: MatrixText) -> object:
        if value in _NOTHING:
            return value
        if not isinstance(value, list):
            raise MatrixError(f"include: found {_found(value)}, expected a list", read.key_lines.get("include", 1))
        kept = []
        for line, entry in zip(read.entry_lines, value, strict=True):
            if not isinstance(entry, dict):
                hint = matrix_text.SPACE if isinstance(entry, str) and ":" in entry else ""
                self.tell(line, f"found {_found(entry)}, expected an entry such as {{ runner: NAME }}", hint)
                continue
            config = entry.get("config")
            if isinstance(config, str) and config in self._fleets.excluded_configs:
                self._dropped.append(Dropped(line, config, self._fleets.excluded_configs[config]))
            else:
                kept.append(self._entry(line, entry))
        if value and len(self._dropped) == len(value):
            self.tell(1, "no entry is left, and GitHub makes no matrix of none", severity="warning")
        if len(kept) > MOST_JOBS:
            self.tell(1, f"{len(kept)} entries: GitHub makes at most {MOST_JOBS} jobs of a matrix", severity="warning")
        return kept

    def _entry(self, line: int, entry: dict[str, object]) -> dict[str, object]:
        if "runner" not in entry:
            self.tell(line, "an entry without a runner, passed on as it is", severity="warning")
            return entry
        label = entry["runner"]
        if not isinstance(label, str) or not label.strip():
            hint = "one label, not a list of them" if isinstance(label, list) else "the name of a runner's label"
            self.tell(line, f"runner: found {_found(label)}, expected a label", hint)
            return entry
        made = self._resolve(line, label)
        if made is None:
            self._unknown.setdefault(label, []).append(line)
            return entry
        self._changed.append(Changed(line, label, made))
        return {**entry, "runner": made.label}

    def _resolve(self, line: int, label: str) -> Resolution | None:
        if label in self._resolved:
            return self._resolved[label]
        made = self._resolved[label] = resolve(label, self._prefix, self._map, self._fleets)
        if made and made.is_moved:
            why = "is pinned" if made.rule == "pinned" else "another prefix is given"
            message = f"{shown(label)} is translated already, but {why}: it becomes {shown(made.label)}"
            self.tell(line, message, "write the label that the table translates", severity="warning")
        elif made and made.replaced:
            message = f"{shown(label)} came with the prefix {shown(made.replaced)}, and becomes {shown(made.label)}"
            self.tell(line, message, "write the label without a prefix", severity="warning")
        if made and made.rule == "already-translated":
            is_right = made.label.startswith(self._prefix) and (bool(self._prefix) or made.label in self._map.is_target)
            told = "" if is_right else f", though not for the prefix {shown(self._prefix)}"
            message = f"{shown(label)} is translated already, and stays{told}"
            self.tell(line, message, "write the label that the table translates", severity="warning")
        if made and (place := self._place_without(made.label)):
            self.tell(line, f"no runner can serve {shown(made.label)}: {place} has none", severity="warning")
        return made

    def _place_without(self, label: str) -> Place | None:
        """Give the place that ``label`` leads to, when the fleets file says that it has no such runner."""
        for prefix in known_prefixes(self._fleets, translating=True):
            target = label[len(prefix) :]
            if label.startswith(prefix) and target in self._map.is_target:
                place = self._fleets.prefixes.get(prefix)
                return None if place is None or place.can_serve(target) else place
        return None

    def end(self, made: str | None) -> Translation:
        unknown = self._unknown_labels() if self._map.usable else ()
        refused = self._refused(unknown) if unknown else None
        self._problems += [refused] if refused else []
        is_bare = not self._prefix and any(one.resolution.rule == "translated" for one in self._changed)
        if is_bare:
            self.tell(0, "without a prefix labels name no fleet, and perhaps no runner", severity="warning")
        is_wrong = any(problem.severity == "error" for problem in self._problems)
        text = None if is_wrong else made
        problems = tuple(sorted(self._problems, key=lambda problem: (problem.severity, problem.line)))
        return Translation(text, tuple(self._changed), tuple(self._dropped), unknown, problems, refused)

    def _refused(self, unknown: Sequence[Unknown]) -> Problem:
        named = [str(unknown[0])]
        room = _LONGEST_NAMED - len(named[0])
        for told in map(str, unknown[1:]):
            room -= len(told) + 2
            if room < 0:
                break
            named.append(told)
        left = len(unknown) - len(named)
        message = f"{untranslated(unknown)}: {', '.join(named)}{f' and {left} more' if left else ''}"
        hint = f"add to {TABLE} in {self._map.source}; what is not to be translated maps to itself"
        return Problem(self._source, unknown[0].lines[0], "error", message, hint)

    def _unknown_labels(self) -> tuple[Unknown, ...]:
        entries = enumerate(self._unknown.items())
        return tuple(
            Unknown(label, tuple(dict.fromkeys(lines)), self._suggestion(label) if place < MOST_JOBS else "")
            for place, (label, lines) in entries
        )

    def _suggestion(self, label: str) -> str:
        if "${{" in label:
            return _AFTERWARDS
        bare = next((label[len(one) :] for one in known_prefixes(self._fleets) if label.startswith(one)), label)
        hint = suggest(bare, self._map.targets)
        return hint if hint.startswith("did you mean") else ""


def untranslated(unknown: Sequence[Unknown]) -> str:
    """Begin the message that tells of unknown labels."""
    return f"no translation for {f'{len(unknown)} labels' if len(unknown) > 1 else 'a label'}"


def _found(value: object) -> str:
    if isinstance(value, matrix_text.Number):
        return f"the number {value.text[:60]}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return f"a list of {len(value)}" if value else "an empty list"
    return "a mapping" if isinstance(value, Mapping) else found(value)
