"""What the routing commands say beside their answer: on standard error, so that a program can read the answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from pytest_sgpu.runners.face.screen import Screen
from pytest_sgpu.runners.route import printing
from pytest_sgpu.runners.routing.problems import Problem, Severity
from pytest_sgpu.runners.text import one_line

MOST_PROBLEMS = 10  # GitHub shows no more annotations of one step


class RouteScreen(Screen):
    """Answers go to standard output; warnings and errors to standard error, in a step of GitHub as annotations too."""

    def __init__(self, env: Mapping[str, str]) -> None:
        super().__init__(env)
        # A step of GitHub has both; what stands in for one often sets the one that it reads.
        self._in_step = env.get("GITHUB_ACTIONS") == "true" or bool(env.get("GITHUB_OUTPUT"))

    def say(self, text: str) -> None:
        """Print ``text`` and a line end; none of its lines is heard as a command of the CI service."""
        super().say(printing.harmless(text))

    def complain(self, text: str) -> None:
        """Print ``text`` and a line end where errors go, as ``say`` does."""
        super().complain(printing.harmless(text))

    def lines(self, lines: Sequence[str]) -> None:
        """Print an answer."""
        if lines:
            self.say("\n".join(lines))

    def note(self, severity: Severity, title: str, message: str, place: Problem | None = None) -> None:
        """Add an annotation to the page of the run, in a step of GitHub; elsewhere nothing."""
        if self._in_step:
            told = self._clean(one_line(message, printing.LONGEST_NOTE))
            super().complain(printing.annotation(severity, title, told, place))

    def warn(self, title: str, message: str, hint: str = "") -> None:
        """Tell what went wrong though the command goes on."""
        if self._in_step:
            self.note("warning", title, f"{message} ({hint})" if hint else message)
            return
        self.complain(f"warning: {one_line(message, 2000)}")
        if hint:
            self.complain(f"  hint: {one_line(hint, 2000)}")

    def problems(self, problems: Sequence[Problem], severity: Literal["error", "warning", ""] = "") -> None:
        """Tell problems of a text that is used all the same; of ``severity`` alone, if one is given."""
        told = [problem for problem in problems if severity in {"", problem.severity}]
        for problem in told[:MOST_PROBLEMS]:
            self.complain(printing.problem_line(problem))
        if len(told) > MOST_PROBLEMS:
            self.complain(f"and {len(told) - MOST_PROBLEMS} more: sgpu route lint shows all")
