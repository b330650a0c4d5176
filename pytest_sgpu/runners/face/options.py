"""The inputs of the runner commands, each described once; where a command takes their values from; how help looks."""

from __future__ import annotations

import argparse
import re
import sys
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn, TextIO

from pytest_sgpu.errors import OptionError
from pytest_sgpu.runners.report import files
from pytest_sgpu.runners.settings import refs
from pytest_sgpu.runners.text import LEAST_TOKEN

_PREFIX = "INPUT_"
_STATE = "STATE_"
_NAMES = ("run-id", "request-id", "workflow")  # of a child, as the state of a step has them
_FORCE = "force-cancel"
ACQUIRE, GUARD, PLAN = "acquire", "guard", "plan"
_GROUP = """\
each may also be a variable, such as {variable}; options win
needed: {needed}
environment: {env}"""
_GROUPS = {
    ACQUIRE: _GROUP.format(
        variable="INPUT_RUNNER_TYPE",
        needed="workflow, workflow-ref, source-ref, source-sha, runner-type",
        env="GITHUB_TOKEN (or INPUT_TOKEN); GITHUB_REPOSITORY,\n"
        "  GITHUB_RUN_ID, GITHUB_RUN_ATTEMPT, which GitHub sets in every job",
    ),
    GUARD: _GROUP.format(
        variable="INPUT_REQUEST_ID",
        needed="all of them",
        env="GITHUB_TOKEN (or INPUT_TOKEN); GITHUB_REPOSITORY,\n  GITHUB_RUN_ATTEMPT, which GitHub sets in every job",
    ),
    PLAN: _GROUP.format(
        variable="INPUT_RUNNER_TYPE",
        needed="runner-type; with history workflow too",
        env="nothing; with history GITHUB_TOKEN, GITHUB_REPOSITORY",
    ),
}
_CHILD = """\
in place of the variables STATE_*; one of --run-id and --request-id is enough
environment: GITHUB_TOKEN (or INPUT_TOKEN); GITHUB_REPOSITORY"""


@dataclass(frozen=True, slots=True)
class Input:
    """One input: its name, as in ``action.yml``; the form of its value; its default, "" for none; what it means.

    ``commands``: who takes it. ``secret``: it is no option, only a variable of the environment. ``flag``: the option
    without a value means ``true``.
    """

    name: str
    form: str
    default: str
    meaning: str
    commands: tuple[str, ...] = (ACQUIRE,)
    secret: bool = False
    flag: bool = False


_CHOICE = (ACQUIRE, PLAN)
INPUTS = (
    Input("workflow", "FILE", "", "file name of the child workflow, such as runner-worker.yml", _CHOICE),
    Input("workflow-ref", "REF", "", "trusted branch or tag at which the child is dispatched; keep it stable"),
    Input("source-ref", "REF", "", "full ref of the approved source, such as refs/pull/123/merge", (ACQUIRE, GUARD)),
    Input("source-sha", "SHA", "", "full SHA that was approved and that source-ref has to match", (ACQUIRE, GUARD)),
    Input(
        "runner-type",
        "TYPE",
        "",
        "profile of the pools file: cpu, gpu, cpu-amd64, cpu-arm64, gpu-amd64, gpu-arm64, gpu-amd64-2gpu, "
        "gpu-arm64-2gpu, or one of your own; needed beside runners too",
        _CHOICE,
    ),
    Input(
        "runners",
        "JSON",
        "",
        'list of one to seven {"group":..., "labels":...}, in place of the whole profile; each may have its own '
        '"queue-timeout-minutes" or "queue-timeout-seconds"',
        _CHOICE,
    ),
    Input(
        "queue-policy",
        "NAME",
        "standard",
        "standard, extended (longer queues, a re-wait at the end), or one of your own pools file",
        _CHOICE,
    ),
    Input(
        "queue-timeout-minutes",
        "N",
        "",
        "1 to 60: how long each candidate may let wait that has no deadline of its own; default: that of the policy",
        _CHOICE,
    ),
    Input("queue-timeout-seconds", "N", "", "1 to 3600: the same in seconds, in place of the minutes", _CHOICE),
    Input("execution-timeout-minutes", "N", "180", "1 to 7200: how long the worker may run once it began", _CHOICE),
    Input("execution-timeout-seconds", "N", "", "the same in seconds, in place of the minutes", _CHOICE),
    Input(
        "source-policy",
        "NAME",
        "current",
        "current: a source ref that moves ends the worker; pinned-after-start: only while it has no runner",
    ),
    Input("workload", "JSON", "{}", "object that the child gets unchanged; no secrets, and nothing in it is run"),
    Input(
        "workloads",
        "JSON",
        "",
        "list of such objects, a worker for each, in place of workload",
        _CHOICE,
    ),
    Input("max-parallel", "N", "2", "1 to 20: so many workers at once, with workloads", _CHOICE),
    Input("pools", "FILE", "", "pools file; default: the one of this package", _CHOICE),
    Input(
        "history",
        "BOOL",
        "false",
        "learn from the last 20 child runs: a pool that was exhausted within 30 minutes is tried later and shorter",
        _CHOICE,
        flag=True,
    ),
    Input(
        "conditional-requests", "BOOL", "false", "ask with ETags: an unchanged answer is free of the limit", flag=True
    ),
    Input("polling", "NAME", "steady", "steady: one look a minute; adaptive: dense at the start and near a deadline"),
    Input("force-cancel", "BOOL", "false", "as the last step of a cleanup, force the end of a child", flag=True),
    Input("timeline", "FILE", "", "write everything that was observed there, as JSON"),
    Input("request-id", "ID", "", "the child's input of that name", (GUARD,)),
    Input("parent-run-id", "ID", "", "the child's input of that name", (GUARD,)),
    Input("parent-run-attempt", "N", "", "the child's input of that name", (GUARD,)),
    Input(
        "token",
        "TOKEN",
        "",
        "token of the repository, when the variable GITHUB_TOKEN has none; never an option",
        (ACQUIRE, GUARD),
        secret=True,
    ),
)


def of(command: str) -> tuple[Input, ...]:
    """Give the inputs that ``command`` takes."""
    return tuple(one for one in INPUTS if command in one.commands)


def add_inputs(parser: argparse.ArgumentParser, command: str) -> None:
    """Add an option for each input of ``command`` that is no secret."""
    group = parser.add_argument_group("inputs", _GROUPS[command])
    for one in of(command):
        if one.secret:
            continue
        text = one.meaning + (f" (default: {one.default})" if one.default else "")
        shown = text.replace("%", "%%")
        name = f"--{one.name}"
        if one.flag:
            group.add_argument(name, dest=one.name, nargs="?", const="true", metavar=one.form, help=shown)
        else:
            group.add_argument(name, dest=one.name, metavar=one.form, help=shown)


def collect(command: str, args: argparse.Namespace, env: Mapping[str, str]) -> dict[str, str]:
    """Give the inputs of ``command``: options first, then variables ``INPUT_*``; blank variables are none.

    ``acquire`` and ``guard`` pass on variables with unknown names, which are mistakes in the step; ``plan`` may run
    in any step, and takes only its own.
    """
    inputs: dict[str, str] = {}
    known = {one.name for one in of(command)}
    # Dashes are what GitHub itself sets, so they are taken last and win.
    for variable in sorted(env, key=lambda name: "-" in name):
        if variable.startswith(_PREFIX) and env[variable].strip():
            name = variable.removeprefix(_PREFIX).lower().replace("_", "-")
            if name in known or command != PLAN:
                inputs[name] = env[variable]
    given = {one.name: getattr(args, one.name, None) for one in of(command)}
    return inputs | {name: value for name, value in given.items() if value is not None}


def add_state(parser: argparse.ArgumentParser) -> None:
    """Add the options that name the child to be cleaned up."""
    group = parser.add_argument_group("the child", _CHILD)
    group.add_argument("--run-id", dest="run-id", metavar="ID", help="number of its run")
    group.add_argument("--request-id", dest="request-id", metavar="ID", help="its name; needs --workflow")
    group.add_argument("--workflow", dest="workflow", metavar="FILE", help="file name of its workflow")
    text = "as the last step, force its end (default: false)"
    group.add_argument(f"--{_FORCE}", dest=_FORCE, nargs="?", const="true", metavar="BOOL", help=text)


def state(args: argparse.Namespace, env: Mapping[str, str]) -> dict[str, str]:
    """Give the state for a cleanup: that of the options, else that of the variables ``STATE_*``.

    Names may have underscores for dashes, which no shell takes; dashes win unless they are blank. A blank run id is no
    child: a step that dispatched nothing has such an output. Raises OptionError.
    """
    options = {name: getattr(args, name) for name in _NAMES if getattr(args, name, None) is not None}
    known = _named(options) if options else _kept(env)
    force = (getattr(args, _FORCE, None) or "").strip().lower()
    if force not in {"", "true", "false"}:
        raise OptionError(f"{_FORCE}: expected true or false", f"--{_FORCE} alone means true")
    if force:
        suffixes = [name.removeprefix(first) for first in _NAMES[:2] for name in known if name.startswith(first)]
        known |= {f"{_FORCE}{suffix}": force for suffix in suffixes}
    return known


def _named(options: Mapping[str, str]) -> dict[str, str]:
    given = {name: text.strip() for name, text in options.items()}
    if "run-id" not in given and "request-id" not in given:
        raise OptionError("workflow: expected --run-id or --request-id too", "a workflow alone names no child")
    if not given.get("run-id") and not given.get("request-id"):
        return {}
    if not given.get("run-id") and not given.get("workflow"):
        raise OptionError("request-id: expected --workflow too", "a run is looked up by its name in one workflow")
    if given.get("workflow"):
        refs.workflow("workflow", given["workflow"])
    return {name: text for name, text in given.items() if text}


def _kept(env: Mapping[str, str]) -> dict[str, str]:
    return files.dashed({name.removeprefix(_STATE): env[name] for name in env if name.startswith(_STATE)})


def refuse_token(argv: list[str], env: Mapping[str, str]) -> None:
    """Raise OptionError for a token among the arguments, without showing it: other processes can read them."""
    tokens = {env.get(name, "").strip() for name in ("GITHUB_TOKEN", "INPUT_TOKEN")}
    words = [token for token in tokens if len(token) >= LEAST_TOKEN]
    named = any(re.match(r"--?(?:github[-_])?token(?:=|$)", word, re.IGNORECASE) for word in argv)
    if named or any(token in word for token in words for word in argv):
        raise OptionError(
            "a token is never an option: everybody on the machine can read a command line",
            "set the variable GITHUB_TOKEN (or INPUT_TOKEN)",
        )


class Help(argparse.RawDescriptionHelpFormatter):
    """Keeps the lines of descriptions as they are written, and breaks no option or file name at a hyphen."""

    def _split_lines(self, text: str, width: int) -> list[str]:
        return textwrap.wrap(" ".join(text.split()), width, break_on_hyphens=False, break_long_words=False)


class Parser(argparse.ArgumentParser):
    """Raises OptionError for wrong usage, and shows no values that it does not know."""

    def print_help(self, file: TextIO | None = None) -> None:  # type: ignore[override]  # any stream would do
        """Print the help; that it cannot be written is an error, which argparse would pass over."""
        stream = file or sys.stdout or sys.stderr
        if stream is not None:
            stream.write(self.format_help())

    def error(self, message: str) -> NoReturn:
        """Raise OptionError in place of ending the process."""
        raise OptionError(_without_values(message), f"{self.prog} --help")

    def parse_known_args(  # type: ignore[override]  # of its three forms the one that is used
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Raise OptionError for what is not known; of a command here, where its own help can be named."""
        known, rest = super().parse_known_args(args, namespace)
        if rest:
            self.error(f"unrecognized arguments: {' '.join(rest)}")
        return known, rest


def _without_values(message: str) -> str:
    head, sign, rest = message.partition("unrecognized arguments: ")
    if not sign:
        return message
    names = [word.partition("=")[0] for word in rest.split() if word.startswith("--")]
    return f"{head}unknown: {', '.join(names)}" if names else f"{head}an argument that is no option"
