"""``sgpu runner ...``: get a CI runner with fallback, guard the child, clean up, plan, check a child workflow.

Exit codes: 0 done; 1 failed; 4 wrong usage or configuration; 130 interrupted. ``main`` is the one place that turns
an expected error into a line and a hint. Tokens come from the environment alone, and are never shown.
"""

from __future__ import annotations

import argparse
import contextlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_sgpu.errors import ConfError, OptionError, SgpuError
from pytest_sgpu.runners.face import options, planning, signals
from pytest_sgpu.runners.face.screen import Screen
from pytest_sgpu.runners.face.tools import Tools
from pytest_sgpu.runners.forecast.budget import refusal
from pytest_sgpu.runners.ports import Result
from pytest_sgpu.runners.report import files
from pytest_sgpu.runners.text import one_line

if TYPE_CHECKING:
    from pytest_sgpu.runners.lint.findings import Finding

PROG = "sgpu runner"
FAILED, USAGE, INTERRUPTED = 1, 4, 130
_POST_STEP = "SGPU_POST_STEP"
_HINT = "\n  hint: "
_LONGEST = 1_000_000  # characters of a workflow file; GitHub takes half of that

_CODES = """\
exit codes: 0 {ok}, 1 {failed},
4 wrong usage or configuration, 130 interrupted"""
_ABOUT = """\
Gets a CI runner: a coordinator starts a child workflow with one job on a
preferred pool, waits for a runner, and asks the next pool only when none came
in time and the cancellation is confirmed. The work never runs twice.
"""
_ACQUIRE = """\
Runs the coordinator, in a job on a hosted runner: starts the child, watches it,
falls back, and ends as the worker ended. Writes the outputs run-id, run-url,
runner and attempts, the state for a cleanup, and the summary, to the files that
GITHUB_OUTPUT, GITHUB_STATE and GITHUB_STEP_SUMMARY name. The token comes from
the variable GITHUB_TOKEN (or INPUT_TOKEN) and needs contents: read and
actions: write. A child that is left at the end, after a signal say, is cleaned
up at once, unless SGPU_POST_STEP=1 says that a post step will do it. What may
take more than the 360 minutes of a hosted job is only warned of; see plan.
"""
_ACQUIRE_MORE = f"""\
{_CODES.format(ok="the worker succeeded", failed="it did not, or none was got")}
(or the parent was cancelled)

example, in a step of bash (exec, so that signals arrive):
  exec sgpu runner acquire --workflow runner-worker.yml --workflow-ref main \\
    --source-ref refs/pull/123/merge --source-sha "$SHA" --runner-type cpu \\
    --queue-policy extended --execution-timeout-minutes 15
"""
_GUARD = """\
The first step of the child: fails unless its parent runs in this very attempt,
the source ref still has the approved SHA, and nobody has rerun the child. The
token comes from GITHUB_TOKEN (or INPUT_TOKEN) and only reads.
"""
_GUARD_MORE = f"""\
{_CODES.format(ok="the workload may run", failed="it must not run")}

example, in a step:
  sgpu runner guard --request-id "$ID" --parent-run-id "$RUN" \\
    --parent-run-attempt "$ATTEMPT" --source-ref refs/pull/123/merge \\
    --source-sha "$SHA"
"""
_CLEANUP = """\
The post step of the coordinator: cancels a child that is still active, and
confirms it. Which one, the options say, else the variables STATE_* that GitHub
makes of the state the coordinator saved (STATE_run-id or STATE_run_id); without
either there is nothing to do. In GitHub Actions signals do not stop it. The
token comes from GITHUB_TOKEN (or INPUT_TOKEN).
"""
_CLEANUP_MORE = f"""\
{_CODES.format(ok="no child is left", failed="that is not confirmed")}

examples:
  sgpu runner cleanup --run-id 123456
  sgpu runner cleanup --request-id "$ID" --workflow runner-worker.yml
"""
_PLAN = """\
Says what acquire would do, without doing it: the candidates in order, their
deadlines, the longest total, and the time-out that the parent's job needs. More
than the 360 minutes of a hosted job are refused here (acquire only warns, since
a job on a machine of your own has more), and less than 10 left of them are
warned of. Needs no source, no token and no network, but for --history, which
reads past child runs: then --workflow, GITHUB_REPOSITORY and GITHUB_TOKEN are
needed, also at a prompt.
"""
_PLAN_MORE = f"""\
{_CODES.format(ok="a hosted job can hold it", failed="it cannot")}

examples:
  sgpu runner plan --runner-type gpu --queue-policy extended \\
    --execution-timeout-minutes 60
  sgpu runner plan --runner-type cpu --explain
  sgpu runner plan --runner-type cpu --workflow runner-worker.yml --history
"""
_LINT = """\
Checks child workflows from their files: one job named worker, the seven inputs,
run-name, permissions, and nothing that could hold the job back or hide a
failure. Needs the extra: pip install "pytest-sgpu[runners]"
"""
_LINT_MORE = f"""\
{_CODES.format(ok="no errors (there may be warnings)", failed="errors")}
(also when a file cannot be read)

example:
  sgpu runner lint .github/workflows/runner-worker.yml
"""


def main(argv: Sequence[str], env: Mapping[str, str] | None = None, tools: Tools | None = None) -> int:
    """Run one command and give its exit code; never raises for what a user can cause.

    ``env``: the environment; ``tools``: what the commands start, the real ones by default.
    """
    known = os.environ if env is None else env
    screen = Screen(known)
    try:
        args = _parsed(list(argv), known)
        return screen.flushed() if args is None else _Command(known, tools or Tools(), screen).run(args)
    except SgpuError as error:
        return _told(screen, str(error), error.message, USAGE if isinstance(error, OptionError | ConfError) else FAILED)
    except OSError as error:
        return _told(screen, one_line(error), one_line(error), FAILED)
    except KeyboardInterrupt:
        return INTERRUPTED


def _parsed(argv: list[str], env: Mapping[str, str]) -> argparse.Namespace | None:
    """Give the arguments; None after the help was printed."""
    options.refuse_token(argv, env)
    try:
        return parser().parse_args(argv)
    except (SystemExit, BrokenPipeError):  # who asked for help may have left
        return None


def _told(screen: Screen, text: str, message: str, code: int) -> int:
    screen.complain(f"{PROG}: error: {text}")
    screen.annotate(PROG, message)
    return code


def parser() -> argparse.ArgumentParser:
    """Give the parser of all commands; wrong usage raises OptionError."""
    top = options.Parser(
        prog=PROG,
        description=_ABOUT,
        epilog=f"{PROG} COMMAND --help says more.\n{_CODES.format(ok='done', failed='failed')}",
        formatter_class=options.Help,
        allow_abbrev=False,
    )
    commands = top.add_subparsers(metavar="COMMAND", dest="command", required=True)
    texts = {
        "acquire": ("start a child on the first pool that has a runner, and wait for it", _ACQUIRE, _ACQUIRE_MORE),
        "guard": ("first step of the child: may the workload run?", _GUARD, _GUARD_MORE),
        "cleanup": ("post step of the coordinator: cancel a child that is left", _CLEANUP, _CLEANUP_MORE),
        "plan": ("show candidates, deadlines and the time-out that the parent needs", _PLAN, _PLAN_MORE),
        "lint": ("check child workflows", _LINT, _LINT_MORE),
    }
    for name, (short, description, more) in texts.items():
        one = commands.add_parser(
            name,
            help=short,
            description=description,
            epilog=more,
            formatter_class=options.Help,
            allow_abbrev=False,
        )
        if name in (options.ACQUIRE, options.GUARD, options.PLAN):
            options.add_inputs(one, name)
        if name == options.PLAN:
            one.add_argument("--explain", action="store_true", help="say where each deadline comes from")
            one.add_argument("--json", action="store_true", help="print a JSON document in place of the table")
        if name == "cleanup":
            options.add_state(one)
        if name == "lint":
            one.add_argument("files", nargs="+", metavar="FILE", help="workflow file")
    return top


class _Command:
    """The commands, with what they share."""

    def __init__(self, env: Mapping[str, str], tools: Tools, screen: Screen) -> None:
        self._env = env
        self._tools = tools
        self._screen = screen

    def run(self, args: argparse.Namespace) -> int:
        name: str = args.command
        if name == "plan":
            return self._plan(args)
        if name == "lint":
            return self._lint(args.files)
        if name == "cleanup":
            return self._ended(name, self._cleanup(options.state(args, self._env)))
        inputs = options.collect(name, args, self._env)
        if name == options.ACQUIRE:
            return self._acquire(inputs)
        with signals.interrupting():
            result = self._tools.guard(inputs, self._env)
        return self._ended(name, result)

    def _acquire(self, inputs: Mapping[str, str]) -> int:
        """Run the coordinator; where no post step comes, end at once what it leaves (R113)."""
        left = None
        with signals.interrupting():
            result = self._tools.acquire(inputs, self._env)
            # GITHUB_STATE tells nothing: it is set in every step, whether or not anybody reads it later.
            if result.state and self._env.get(_POST_STEP) != "1":
                left = self._cleanup(result.state)
                self._forget(result.state, left.state)
        if left is not None:
            self._ended("cleanup", left)
        return self._ended(options.ACQUIRE, result)

    def _forget(self, state: Mapping[str, str], left: Mapping[str, str]) -> None:
        """Blank in the state of the step what was cleaned up (R114); a later step then has nothing to look for."""
        with contextlib.suppress(SgpuError):  # it was written a moment ago, and nothing is lost without it
            files.append(self._env, files.STATE, {name: "" for name in state if name not in left})

    def _cleanup(self, state: Mapping[str, str]) -> Result:
        env = dict(self._env)
        if not env.get("GITHUB_TOKEN", "").strip() and env.get("INPUT_TOKEN", "").strip():
            env["GITHUB_TOKEN"] = env["INPUT_TOKEN"]  # a cleanup has no inputs
        # In a post step nobody else will do this work; at a prompt Ctrl-C means what it always means.
        held = signals.ignored() if env.get("GITHUB_ACTIONS") == "true" else signals.interrupting()
        with held:
            return self._tools.cleanup(state, env)

    def _ended(self, name: str, result: Result) -> int:
        text, _, hint = result.message.partition(_HINT) if result.kind == "config" else (result.message, "", "")
        message = one_line("; ".join(line.strip() for line in text.splitlines()), 2000)
        if result.ok:
            self._screen.say(f"{PROG} {name}: ok{': ' + message if message else ''}")
            return 0
        kind = one_line(result.kind) or "failed"
        self._screen.say(f"{PROG} {name}: failed ({kind}): {message}{_HINT if hint else ''}{one_line(hint, 2000)}")
        self._screen.annotate(f"{PROG} {name}: {kind}", f"{message}; hint: {hint}" if hint else message)
        return {"config": USAGE, "parent_cancelled": INTERRUPTED}.get(result.kind, FAILED)

    def _plan(self, args: argparse.Namespace) -> int:
        inputs = options.collect(options.PLAN, args, self._env)
        made = planning.make(inputs, self._env, self._tools)
        self._screen.say(planning.document(made) if args.json else planning.text(made, explain=args.explain))
        refused = refusal(made.budget, made.candidates)
        if refused and not args.json:  # on the same stream it would be no JSON any more
            self._screen.annotate(f"{PROG} plan", "; ".join((refused[0], *refused[1])))
        return self._screen.delivered(FAILED if refused else 0)

    def _lint(self, files: Sequence[str]) -> int:
        counts: dict[str, int] = {}
        unread = 0
        for name in files:
            try:
                text = _read(name)
            except OptionError as error:
                unread += 1
                _told(self._screen, str(error), error.message, USAGE)
                continue
            for finding in self._tools.lint(text, name):
                counts[finding.severity] = counts.get(finding.severity, 0) + 1
                self._screen.say(_shown(name, finding))
                place = {"file": name, "line": str(finding.line), "col": str(finding.column)}
                told = f"{finding.message}; hint: {finding.hint}" if finding.hint else finding.message
                self._screen.annotate(f"{PROG} lint", told, level=finding.severity, **place)
        found = ", ".join(_count(count, word) for word, count in sorted(counts.items())) or "nothing found"
        checked = len(files) - unread
        parts = [f"{_count(checked, 'file')} checked: {found}"] if checked else []
        parts += [f"{_count(unread, 'file')} not read"] if unread else []
        self._screen.say("; ".join(parts))
        return self._screen.delivered(USAGE if unread else FAILED if counts.get("error") else 0)


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'s' * (number != 1)}"


def _shown(name: str, finding: Finding) -> str:
    shown = one_line(name)
    # A name at the beginning of a line must not look like a command of the CI service.
    place = f"{'./' if shown.startswith(('::', '##')) else ''}{shown}:{finding.line}:{finding.column}"
    line = f"{place}: {finding.severity}: {one_line(finding.message, 1000)}"
    return f"{line}\n  hint: {one_line(finding.hint, 1000)}" if finding.hint else line


def _read(name: str) -> str:
    shown = one_line(name)
    try:
        path = Path(name)
        if path.exists() and not path.is_file():  # a pipe would be waited for
            raise OptionError(f"{shown}: not a file", "name the workflow files, such as .github/workflows/worker.yml")
        with path.open(encoding="utf-8") as stream:
            text = stream.read(_LONGEST + 1)
    except UnicodeDecodeError as error:
        raise OptionError(f"{shown}: not UTF-8 at byte {error.start}", "save it as UTF-8") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise OptionError(f"{shown}: cannot be read: {reason}") from None
    if len(text) > _LONGEST:
        raise OptionError(f"{shown}: expected at most {_LONGEST} characters")
    return text


if __name__ == "__main__":
    import sys

    raise SystemExit(main(sys.argv[1:]))
