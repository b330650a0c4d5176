"""The options of the routing commands, each described once, and what is asked with them."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from pytest_sgpu.errors import OptionError
from pytest_sgpu.runners.routing.decision import Request
from pytest_sgpu.runners.routing.simulate import Key
from pytest_sgpu.runners.routing.user_items import is_number
from pytest_sgpu.runners.wording import found, nearest

PREFIX, MATRIX, LABEL, LINT, SIMULATE = "prefix", "matrix", "label", "lint", "simulate"
COMMANDS = (PREFIX, MATRIX, LABEL, LINT, SIMULATE)
KEYS: tuple[Key, ...] = ("user", "run", "none")
MOST_USERS, MOST_DAYS = 1_000_000, 3650

_DECIDING = (PREFIX, LABEL)
_REQUEST = (PREFIX, LABEL, SIMULATE)
_DIGITS = 18


@dataclass(frozen=True, slots=True)
class Option:
    """One option: its name, the form of its value ("" for a flag), what it means, and who takes it.

    A name that means something else elsewhere is there once for each meaning.
    ``many``: it may come again. ``default``: as text, "" for none; None where blank is not the same as left out.
    """

    name: str
    form: str
    meaning: str
    commands: tuple[str, ...]
    default: str | None = ""
    many: bool = False


OPTIONS = (
    Option("config", "FILE", "the rollout text: settings, a line ---, users", (PREFIX, LABEL, LINT, SIMULATE), None),
    Option("github-issue", "OWNER/REPO#N", "the rollout text is the first comment of this issue", _DECIDING, None),
    Option(
        "fleets",
        "FILE",
        "the fleets file; default: conf/runner_routing.yaml of the working directory, else the one of this package",
        COMMANDS,
    ),
    Option(
        "arc",
        "FILE",
        "the label mapping; default: .github/arc.yaml of the working directory, else the one of this package",
        (MATRIX, LABEL, LINT),
    ),
    Option("workflows", "DIR", "check the workflows in DIR too: *.yml and *.yaml", (LINT,), None),
    Option("actor", "LOGIN", "who started the workflow", _DECIDING),
    Option("author", "LOGIN", "who wrote the pull request or issue", _DECIDING),
    Option("branch", "REF", "branch or tag, with or without refs/heads/", _REQUEST),
    Option("ref-type", "TYPE", "branch or tag", _REQUEST),
    Option("repo", "OWNER/REPO", "the repository; for --pr GITHUB_REPOSITORY when left out", _DECIDING),
    Option("repo", "OWNER/REPO", "the repository, which may be one with labels of its own (canary)", (SIMULATE,)),
    Option("workflow", "NAME", "name of the workflow", _REQUEST),
    Option("check-experiments", "A,B", "only these experiments, in place of the default ones", _REQUEST),
    Option("opt-out-experiments", "A,B", "never these experiments", _REQUEST),
    Option("label", "LABEL", "a label of the pull request; may come again", _DECIDING, many=True),
    Option("pr", "N", "number of the pull request, whose labels are read as they are now", _DECIDING),
    Option("draw", "PERCENT", "this draw for every experiment, 0 to 100, in place of chance", _DECIDING),
    Option("rollout-key", "TEXT", "draws from a hash of experiment and TEXT: the same every time", _DECIDING),
    Option("prefix", "P", "the prefix, which is the output label-type of sgpu route prefix", (MATRIX,)),
    Option("users", "N", f"how many users, 1 to {MOST_USERS:,}", (SIMULATE,), "1000"),
    Option("days", "D", f"how many days, 1 to {MOST_DAYS:,}; each user runs once a day", (SIMULATE,), "7"),
    Option("seed", "N", "seed of chance: the same seed gives the same report", (SIMULATE,), "0"),
    Option("key", "WHAT", "what a draw hangs on: user, run, or none (chance alone)", (SIMULATE,), KEYS[0]),
    Option("json", "", "print a JSON document", COMMANDS),
    Option("explain", "", "say which rules were looked at, and what decided", (PREFIX,)),
    Option("explain", "", "say which files were used, and what became of each label", (MATRIX,)),
    Option("strict", "", "exit code 1 for a fallback; the outputs are written all the same", (PREFIX,)),
    Option("strict", "", "exit code 1 for a fallback too; the trace is shown all the same", (LABEL,)),
)


def of(command: str) -> tuple[Option, ...]:
    """Give the options that ``command`` takes."""
    return tuple(one for one in OPTIONS if command in one.commands)


def add(parser: argparse.ArgumentParser, command: str) -> None:
    """Add the options of ``command`` to its parser."""
    for one in of(command):
        text = (one.meaning + (f" (default: {one.default})" if one.default else "")).replace("%", "%%")
        if not one.form:
            parser.add_argument(f"--{one.name}", action="store_true", help=text)
        elif one.many:
            parser.add_argument(f"--{one.name}", action="append", default=[], metavar=one.form, help=text)
        else:
            parser.add_argument(f"--{one.name}", default=one.default, metavar=one.form, help=text)


@dataclass(frozen=True, slots=True)
class Asked:
    """What ``prefix`` and ``label`` are asked. Texts are as they came. ``draw``: percent, None for chance.

    ``labels`` and ``author`` of ``request`` are completed from the API where that is asked for. ``blank``: why there is
    no rollout text though an option for one is there. An unset variable must not stop a job, so that is no wrong usage.
    """

    config: str
    issue: str
    blank: str
    fleets: str
    request: Request
    pr: str
    draw: float | None
    key: str

    @property
    def has_source(self) -> bool:
        """Tell whether a rollout text is asked for, be there one or not."""
        return bool(self.config or self.issue or self.blank)


def asked(args: argparse.Namespace, *, needs_source: bool) -> Asked:
    """Read the options of ``prefix`` and ``label``. Raises OptionError for what excludes each other."""
    labels = tuple(label for label in args.label if label)
    named = {"--config": args.config, "--github-issue": args.github_issue}
    config, issue = (text if text and text.strip() else "" for text in named.values())
    _one_of("--config", config, "--github-issue", issue)
    _one_of("--draw", args.draw, "--rollout-key", args.rollout_key)
    _one_of("--pr", args.pr.strip(), "--label", labels)
    blank = "" if config or issue else " and ".join(f"{name} is blank" for name in named if named[name] is not None)
    if needs_source and not (config or issue or blank):
        hint = "--config FILE, or --github-issue OWNER/REPO#N"
        raise OptionError("no rollout text: neither --config nor --github-issue is given", hint)
    return Asked(
        config=config,
        issue=issue,
        blank=blank,
        fleets=args.fleets,
        request=request(args, labels),
        pr=args.pr.strip(),
        draw=_draw(args.draw),
        key=args.rollout_key,
    )


def request(args: argparse.Namespace, labels: tuple[str, ...] = ()) -> Request:
    """Give what the determinator is asked; who asks is nobody where the command has no options for that."""
    return Request(
        actor=getattr(args, "actor", ""),
        author=getattr(args, "author", ""),
        branch=args.branch,
        ref_type=args.ref_type,
        repository=args.repo,
        workflow=args.workflow,
        check=names(args.check_experiments),
        opt_out=names(args.opt_out_experiments),
        labels=labels,
    )


def names(text: str) -> tuple[str, ...]:
    """Cut a list with commas; blanks around a name are dropped, and so is a blank name."""
    return tuple(name for part in text.split(",") if (name := part.strip()))


def whole(option: str, text: str, low: int, high: int) -> int:
    """Read a whole number. Raises OptionError."""
    number = int(text) if text.isascii() and text.isdigit() and len(text) <= _DIGITS else low - 1
    if not low <= number <= high:
        raise OptionError(f"{option}: found {found(text)}, expected a whole number from {low} to {high}")
    return number


def label(text: str) -> str:
    """Take a label that is to be looked up. Raises OptionError for a blank one."""
    if not text.strip():
        raise OptionError(f"LABEL: found {found(text)}, expected a label", "most likely a variable that is not set")
    return text


def key(text: str) -> Key:
    """Read what a draw hangs on in a simulation. Raises OptionError."""
    for known in KEYS:
        if text == known:
            return known
    raise OptionError(f"--key: found {found(text)}, expected {', '.join(KEYS)}", nearest(text, KEYS))


def _one_of(first: str, one: object, second: str, other: object) -> None:
    if one and other:
        raise OptionError(f"{first} and {second}: both are given, expected one of them", "leave one out")


def _draw(text: str) -> float | None:
    if not text:
        return None
    try:
        number = float(text) if is_number(text) else -1.0
    except ValueError:
        number = -1.0
    if not 0.0 <= number <= 100.0:  # noqa: PLR2004 - percent; not a number is in no range
        raise OptionError(f"--draw: found {found(text)}, expected a number from 0 to 100", "such as --draw 12.5")
    return number
