"""What a check of a workflow file finds, with its place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pytest_sgpu.runners.lint.yaml_text import Value


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """One thing to change: where (from 1), how bad, what is there and was expected, what to do."""

    line: int
    column: int
    severity: Literal["error", "warning"]
    message: str
    hint: str = ""


class Findings:
    """Collects findings at the place of a value."""

    def __init__(self) -> None:
        self._found: list[Finding] = []

    def error(self, place: Value, message: str, hint: str = "") -> None:
        """Add what the coordinator or the guard cannot work with, or must not."""
        self._found.append(Finding(place.line, place.column, "error", message, hint))

    def warning(self, place: Value, message: str, hint: str = "") -> None:
        """Add advice."""
        self._found.append(Finding(place.line, place.column, "warning", message, hint))

    def sorted(self) -> tuple[Finding, ...]:
        """Give all of them in the order of the text."""
        return tuple(sorted(self._found))
