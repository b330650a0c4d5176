"""``sgpu route ...``: decide which runner label to ask for, translate labels, trace, check, simulate.

Exit codes: 0 done, also by a fallback; 1 failed; 4 wrong usage or configuration; 130 interrupted. ``main`` is the one
place that turns an expected error into a line and a hint. The token comes from GITHUB_TOKEN alone.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence

from pytest_sgpu.errors import SgpuError
from pytest_sgpu.runners.face import options
from pytest_sgpu.runners.route import arguments
from pytest_sgpu.runners.route.arguments import LABEL, LINT, MATRIX, PREFIX, SIMULATE
from pytest_sgpu.runners.route.decision import Tools
from pytest_sgpu.runners.route.run import FAILED, INTERRUPTED, PROG, USAGE, Commands
from pytest_sgpu.runners.route.screen import RouteScreen
from pytest_sgpu.runners.text import one_line

_CODES = """\
exit codes: 0 {ok}, 1 {failed},
4 wrong usage or configuration, 130 interrupted"""
_ABOUT = """\
Decides which runner label a job asks for: from a rollout text (experiments,
percentages, users), a fleets file (prefixes, precedence, pins) and a label
mapping. Fleets and mapping that are not named are conf/runner_routing.yaml and
.github/arc.yaml of the working directory, or else those of this package. How
they are written: docs/reference/routing.md in the repository of pytest-sgpu.
Needs the extra: pip install "pytest-sgpu[runners]"
"""
_PREFIX = """\
The determinator: prints key=value for the prefix of labels, whether labels are
translated, each separate output, and decision-source, and appends them to the
file that GITHUB_OUTPUT names. What cannot be read or understood is a fallback:
the default fleet, all outputs, decision-source=fallback: WHY, a warning, exit
code 0. Needs the extra: pip install "pytest-sgpu[runners]"
"""
_ASKED = """\
exclude each other: --config and --github-issue, --draw and --rollout-key,
  --pr and --label"""
_READS = """\
GITHUB_TOKEN for --github-issue and --pr;
  GITHUB_REPOSITORY for --pr without --repo; GITHUB_API_URL (else github.com)"""
_PREFIX_MORE = f"""\
needed: --config or --github-issue
{_ASKED}
environment: {_READS}

{{codes}}

Write --name="$VALUE", so that a value that begins with a dash is no option.

examples:
  sgpu route prefix --config=rollout.txt --actor="$ACTOR" --author="$AUTHOR" \\
    --branch="$BRANCH" --explain
  sgpu route prefix --check-experiments=arc,lf --rollout-key="$NUMBER" \\
    --github-issue=OWNER/REPO#12 --pr="$NUMBER"
"""
_MATRIX = """\
Translates the runners of a test matrix (YAML or JSON with include: a list of
entries; the text itself, - or @FILE), prints test-matrix=JSON and appends the
same to the file that GITHUB_OUTPUT names. An unknown label or a matrix that
cannot be read is an error, and nothing is written.
Needs the extra: pip install "pytest-sgpu[runners]"
"""
_MATRIX_MORE = """\
needed: MATRIX

{codes}

example:
  sgpu route matrix --prefix=mt- \\
    '{{include: [{{config: default, runner: linux.2xlarge}}]}}'
"""
_LABEL = """\
Says what label a job will run on: traced in six steps for a rollout text and
what is asked, or without one a table of every state that a prefix can be in
(exit code 1 there: a label without a translation). Writes nothing.
Needs the extra: pip install "pytest-sgpu[runners]"
"""
_LABEL_MORE = f"""\
needed: LABEL; for a trace --config or --github-issue too
{_ASKED}
environment: {_READS}

{{codes}}

examples:
  sgpu route label linux.2xlarge linux.aws.h100
  sgpu route label linux.2xlarge --check-experiments=arc --actor=alice \\
    --config=rollout.txt
"""
_LINT = """\
Checks the fleets file, the label mapping, a rollout text and workflows, each by
itself and against the others. One line a finding, FILE:LINE:COLUMN: error:
WHAT, and a hint.
Needs the extra: pip install "pytest-sgpu[runners]"
"""
_LINT_MORE = """\
needed: nothing; without options fleets file and mapping are checked

{codes}

example:
  sgpu route lint --config=rollout.txt --workflows=.github/workflows
"""
_SIMULATE = """\
Tries a rollout text on many users, and compares the shares that come out with
the percentages that are written there. Users times days are 2,000,000 at most,
which takes minutes.
Needs the extra: pip install "pytest-sgpu[runners]"
"""
_SIMULATE_MORE = """\
needed: --config

{codes}

example:
  sgpu route simulate --config=rollout.txt --users=10000 --days=7 \\
    --workflow=pull
"""
_UNSERVED = "no runner for it, or a fallback with --strict"
_TEXTS = {
    PREFIX: (
        "decide: the prefix of labels, and why",
        _PREFIX,
        _PREFIX_MORE,
        "done (also by a fallback)",
        "a fallback with --strict",
    ),
    MATRIX: ("translate the labels of a test matrix", _MATRIX, _MATRIX_MORE, "written", "errors in it"),
    LABEL: ("say what label a job will run on", _LABEL, _LABEL_MORE, "done", _UNSERVED),
    LINT: ("check rollout text, fleets, mapping, workflows", _LINT, _LINT_MORE, "no errors", "errors"),
    SIMULATE: ("try a rollout text on many users", _SIMULATE, _SIMULATE_MORE, "as configured", "not as configured"),
}


def main(argv: Sequence[str], env: Mapping[str, str] | None = None, tools: Tools | None = None) -> int:
    """Run one command and give its exit code; never raises for what a user can cause.

    ``env``: the environment; ``tools``: API, clock and chance, the real ones by default.
    """
    known = os.environ if env is None else env
    screen = RouteScreen(known)
    try:
        args = _parsed(list(argv), known)
        return screen.flushed() if args is None else _run(args, known, tools or Tools(), screen)
    except SgpuError as error:
        screen.complain(f"{PROG}: error: {one_line(error.message, 2000)}")
        if error.hint:
            screen.complain(f"  hint: {one_line(error.hint, 2000)}")
        screen.note("error", PROG, error.message)
        return USAGE
    except OSError as error:
        screen.complain(f"{PROG}: error: {one_line(error)}")
        screen.note("error", PROG, one_line(error))
        return FAILED
    except KeyboardInterrupt:
        return INTERRUPTED


def _parsed(argv: list[str], env: Mapping[str, str]) -> argparse.Namespace | None:
    """Give the arguments; None after the help was printed."""
    options.refuse_token(argv[: argv.index("--")] if "--" in argv else argv, env)
    try:
        return parser().parse_args(argv)
    except (SystemExit, BrokenPipeError):  # who asked for help may have left
        return None


def _run(args: argparse.Namespace, env: Mapping[str, str], tools: Tools, screen: RouteScreen) -> int:
    command = Commands(env, tools, screen)
    run = {
        PREFIX: command.prefix,
        MATRIX: command.matrix,
        LABEL: command.label,
        LINT: command.lint,
        SIMULATE: command.simulate,
    }
    return run[args.command](args)


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
    for name, (short, about, more, ok, failed) in _TEXTS.items():
        one = commands.add_parser(
            name,
            help=short,
            description=about,
            epilog=more.format(codes=_CODES.format(ok=ok, failed=failed)),
            formatter_class=options.Help,
            allow_abbrev=False,
        )
        arguments.add(one, name)
        if name == MATRIX:
            one.add_argument("matrix", metavar="MATRIX", help="the matrix: its text, - for standard input, or @FILE")
        if name == LABEL:
            named = "label as a workflow names it"
            one.add_argument("labels", nargs="+", metavar="LABEL", type=arguments.label, help=named)
    return top


if __name__ == "__main__":
    import sys

    raise SystemExit(main(sys.argv[1:]))
