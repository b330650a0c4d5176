"""The commands of the routing, each from its arguments to what is printed, written, and its exit code."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TypeVar

from pytest_sgpu.errors import ConfError, OptionError, SgpuError
from pytest_sgpu.runners.report import files
from pytest_sgpu.runners.route import arguments, decision, printing, sources
from pytest_sgpu.runners.route.decision import Decided, Tools
from pytest_sgpu.runners.route.screen import RouteScreen
from pytest_sgpu.runners.routing import check, mapping, matrix, simulate, trace, workflows
from pytest_sgpu.runners.routing.check import Texts, placed
from pytest_sgpu.runners.routing.fleets import Fleets
from pytest_sgpu.runners.routing.mapping import LabelMap
from pytest_sgpu.runners.routing.problems import Problem
from pytest_sgpu.runners.routing.workflows import Workflow
from pytest_sgpu.runners.text import one_line

PROG = "sgpu route"
FAILED, USAGE, INTERRUPTED = 1, 4, 130
MATRIX_OUTPUT = "test-matrix"
_Read = TypeVar("_Read")


class Commands:
    """The five commands, with what they share."""

    def __init__(self, env: Mapping[str, str], tools: Tools, screen: RouteScreen) -> None:
        self._env = env
        self._tools = tools
        self._screen = screen

    def prefix(self, args: argparse.Namespace) -> int:
        """Decide, print, and append to GITHUB_OUTPUT; every failure of that is a fallback (Q110, Q111)."""
        asked = arguments.asked(args, needs_source=True)
        made = decision.decided(asked, self._env, self._tools)
        outputs = made.outputs.of(made.decision)
        written = True
        try:
            files.append(self._env, files.OUTPUT, outputs)
        except SgpuError as error:  # a step without outputs is one with the default fleet
            written = False
            self._screen.warn(f"{PROG} prefix", error.message, error.hint)
        self._told(made)
        if args.json:
            self._screen.say(printing.document(printing.decision_json(made, explained=args.explain)))
        else:
            self._screen.lines(printing.pairs(outputs) + (printing.explained(made) if args.explain else []))
        code = FAILED if args.strict and (made.decision.is_fallback or not written) else 0
        told = self._screen.delivered(code)
        return code if written and self._env.get(files.OUTPUT) else told  # a step has its outputs from the file

    def _told(self, made: Decided) -> None:
        title = f"{PROG} {arguments.PREFIX}"
        self._screen.problems(made.problems)
        if made.decision.is_fallback:
            self._screen.warn(title, f"the default fleet is asked: {made.decision.source}", made.hint)
            return
        for warning in made.decision.warnings:
            self._screen.warn(title, warning)

    def matrix(self, args: argparse.Namespace) -> int:
        """Translate a matrix; with an error nothing is printed or written (Q113)."""
        fleets = decision.read_fleets(args.fleets)
        label_map = self._mapping(args.arc, fleets)
        text, source = sources.argument(args.matrix)
        made = matrix.translate(text, source, args.prefix, label_map, fleets)
        if label_map.usable:  # else they are problems of the matrix already
            self._screen.problems(label_map.problems)
        self._screen.problems(made.problems, "warning")
        errors = printing.matrix_errors(made)
        if errors or made.text is None:
            for problem, told in errors:
                self._screen.complain(told)
                self._screen.note("error", f"{PROG} matrix", f"{problem.message} ({problem.hint})".replace(" ()", ""))
            return FAILED
        answer = printing.armoured(made.text)
        files.append(self._env, files.OUTPUT, {MATRIX_OUTPUT: answer})
        if args.json:
            self._screen.say(answer)
            return self._screen.delivered(0)
        more = [*(f"# {line}" for line in _used(args)), *printing.matrix_lines(made)] if args.explain else []
        for one in made.dropped:
            self._screen.complain(f"left out: config {one_line(one.config)}: {one_line(one.reason)}")
        self._screen.lines([f"{MATRIX_OUTPUT}={answer}", *more])
        return self._screen.delivered(0)

    def label(self, args: argparse.Namespace) -> int:
        """Trace labels for what is asked, or show them in every state."""
        asked = arguments.asked(args, needs_source=False)
        fleets = decision.read_fleets(args.fleets)
        label_map = self._mapping(args.arc, fleets)
        if not label_map.usable:
            raise ConfError(str(label_map.problems[0]) if label_map.problems else f"{label_map.source}: no table in it")
        if not asked.has_source:
            return self._states(args, label_map, fleets)
        made = decision.decided(asked, self._env, self._tools)
        self._told(made)
        traced = [trace.trace(label, made.request, made.decision, label_map, fleets) for label in args.labels]
        if args.json:
            self._screen.say(printing.document([asdict(one) for one in traced]))
        else:
            self._screen.lines([line for one in traced for line in trace.lines(one)])
        code = self._complained(trace.unserved(traced, label_map, fleets))
        return self._screen.delivered(FAILED if args.strict and made.decision.is_fallback else code)

    def _complained(self, errors: Sequence[tuple[str, str]]) -> int:
        """Tell errors with their hints, and give the exit code."""
        for message, hint in errors:
            self._screen.complain(f"{PROG}: error: {message}")
            if hint:
                self._screen.complain(f"  hint: {hint}")
            self._screen.note("error", f"{PROG} label", f"{message} ({hint})" if hint else message)
        return FAILED if errors else 0

    def _states(self, args: argparse.Namespace, label_map: LabelMap, fleets: Fleets) -> int:
        given = [name for name in _NEEDS_ROLLOUT if getattr(args, name.replace("-", "_"))]
        if given:
            raise OptionError(f"--{given[0]} says nothing without a rollout text", "--config FILE")
        canary = fleets.is_canary(args.repo)
        if not args.json:
            self._screen.lines(trace.table(args.labels, label_map, fleets, canary=canary))
            return self._screen.delivered(self._complained(trace.unknown(args.labels, label_map, fleets)))
        found = [
            {"label": label, "state": str(place), "prefix": place.prefix_for(canary=canary)}
            | {"final": asdict(trace.final(label, place, label_map, fleets, canary=canary))}
            for label in args.labels
            for place in fleets.places
        ]
        self._screen.say(printing.document(found))
        return self._screen.delivered(self._complained(trace.unknown(args.labels, label_map, fleets)))

    def lint(self, args: argparse.Namespace) -> int:
        """Check everything that is given, and what is used by default."""
        problems, checked = self._linted(args)
        if args.json:
            self._screen.say(printing.document([printing.problem_json(problem) for problem in problems]))
        else:
            self._screen.lines([*map(printing.problem_line, problems), printing.counted(problems, checked)])
        for problem in problems:
            self._screen.note(problem.severity, f"{PROG} lint", problem.message, problem)
        self._screen.complain(f"checked with {', '.join(_used(args))}")
        return self._screen.delivered(FAILED if any(problem.severity == "error" for problem in problems) else 0)

    def _linted(self, args: argparse.Namespace) -> tuple[tuple[Problem, ...], int]:
        """Give what is wrong with each text that is there, be it its bytes, and how many were checked."""
        sources.need_yaml()
        problems: list[Problem] = []
        made = None
        if args.config is not None:
            config = _named("--config", args.config)
            made = _readable(partial(decision.read_rollout, config), config, problems)
        rollout, source = made or (None, "")
        found = sources.workflows(_named("--workflows", args.workflows)) if args.workflows is not None else ()
        flows = [flow for path in found if (flow := _readable(partial(_workflow, path), path, problems))]
        checked = 2 + (args.config is not None) + len(found)
        path = sources.fleets(args.fleets)
        try:
            fleets = _readable(partial(decision.read_fleets, args.fleets), path, problems)
        except ConfError as error:
            fleets = None
            problems.append(placed(error.message, sources.short(path), error.hint))
        if fleets is None:  # what depends on it cannot be checked
            others = (*(rollout.problems if rollout else ()), *(one for flow in flows for one in flow.problems))
            return (*problems, *others), checked - 1
        label_map = _readable(partial(self._mapping, args.arc, fleets), sources.mapping(args.arc), problems)
        return (*problems, *check.check(Texts(fleets, label_map, rollout, source, tuple(flows)))), checked

    def simulate(self, args: argparse.Namespace) -> int:
        """Try a rollout text on many users."""
        if args.config is None:
            raise OptionError("no rollout text: --config is not given", "--config FILE")
        users = arguments.whole("--users", args.users, 1, arguments.MOST_USERS)
        days = arguments.whole("--days", args.days, 1, arguments.MOST_DAYS)
        seed = arguments.whole("--seed", args.seed, 0, 10**18)
        fleets = decision.read_fleets(args.fleets)
        rollout, source = decision.read_rollout(_named("--config", args.config))
        self._screen.problems(rollout.problems)
        if not rollout.usable:
            self._screen.complain(f"{PROG}: error: {one_line(f'{source}: {rollout.why}', 1000)}")
            return FAILED
        asked = arguments.request(args)
        report = simulate.simulate(rollout, fleets, users, days, seed, key=arguments.key(args.key), request=asked)
        if args.json:
            self._screen.say(printing.document(asdict(report) | {"is_ok": report.is_ok}))
        else:
            self._screen.lines(simulate.lines(report))
        return self._screen.delivered(0 if report.is_ok else FAILED)

    @staticmethod
    def _mapping(path: str, fleets: Fleets) -> LabelMap:
        file = sources.mapping(path)
        return mapping.parse_mapping(sources.read(file), sources.short(file), fleets.pins.key if fleets.pins else "")


def _named(option: str, name: str) -> str:
    """Give the file or folder that was named. Raises OptionError for none: a check of nothing would pass."""
    if not name.strip():
        raise OptionError(f"{option} is blank", "most likely a variable that is not set")
    return name


def _readable(read: Callable[[], _Read], path: str | Path, problems: list[Problem]) -> _Read | None:
    """Give what was read; of what is there and no text only a problem. What is not there is wrong usage."""
    try:
        return read()
    except sources.NoTextError as error:
        problems.append(placed(error.message, one_line(path), error.hint))
        return None


def _workflow(path: Path) -> Workflow:
    return workflows.read_workflow(sources.read(path), one_line(path))


def _used(args: argparse.Namespace) -> tuple[str, str]:
    """Say which files were used, since they may lie about in the working directory."""
    fleets, label_map = sources.fleets(args.fleets), sources.mapping(args.arc)
    return f"fleets file: {sources.told(fleets)}", f"mapping: {sources.told(label_map)}"


_NEEDS_ROLLOUT = (
    *("actor", "author", "branch", "ref-type", "workflow", "check-experiments", "opt-out-experiments"),
    *("label", "pr", "draw", "rollout-key", "strict"),
)
