"""The pytest plugin ``sgpu``: its options, and the one place where it becomes active.

Importing this module must stay cheap: pytest imports it in every run where the package is installed.
Everything else is imported only when a conf file was given.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from typing import Any

import pytest

# Set for every script that the queue starts. A pytest inside an item must never start a queue of its own,
# whatever options or ini-file it inherits.
ITEM_MARKER = "PYTEST_SGPU_ITEM"

# ruff: noqa: ISC004 - each help is the last of its row, and may take two lines
# Option, metavar, help. The ini key of each has the same name, with underscores.
_STRINGS = (
    (
        "--sgpu-gpus",
        "N|LIST",
        "use the first N devices, or the listed ones (0,2); on a machine without GPUs: N virtual devices",
    ),
    (
        "--sgpu-log-dir",
        "DIR",
        "run directory for logs, verdicts, JUnit files and reports (default: test-results/logs)",
    ),
    (
        "--sgpu-weights",
        "FILE|DIR",
        "weight table, or the directory that holds one per architecture and level (default: ci-weights/)",
    ),
    ("--sgpu-suites", "a,b", "only these suites of the conf; the others keep their weights"),
    (
        "--sgpu-timeout",
        "SECONDS|auto|auto,SECONDS",
        "end an item that takes longer (90, or 15m, 1h30m); auto: longer than 300 s and than 3 x its weight, or than "
        "SECONDS (default: 1h) without a weight. Half way, SLOW shows its last output (default: no limit)",
    ),
    (
        "--sgpu-stall",
        "SECONDS",
        "end an item that writes nothing for this long; a dot without a line end is output too (default: no limit)",
    ),
    (
        "--sgpu-grace",
        "SECONDS",
        "time between SIGTERM and SIGKILL for an item that is ended, by a limit or with the run (default: 4)",
    ),
    (
        "--sgpu-budget",
        "DURATION",
        "time for the whole run (45m): nothing is started that cannot end in time, what runs at the end is ended, "
        "exit code 2; --sgpu-resume goes on from there (default: no limit)",
    ),
    (
        "--sgpu-retries",
        "N",
        "run a failed item again, at most N times: at the end of the queue, on another device when there is one; "
        "if it passes then it is FLAKY (default: 0)",
    ),
    (
        "--sgpu-flaky",
        "pass|fail",
        "whether an item that failed first and passed later fails the run; it is counted and listed either way "
        "(default: pass)",
    ),
    (
        "--sgpu-quarantine",
        "auto|off",
        "auto: a device on which two items failed that passed elsewhere gets no more items, and three fast "
        "failures in a row there are looked into at once; never the last device (default: auto)",
    ),
    (
        "--sgpu-health-cmd",
        "COMMAND",
        "run this where an item has failed, with that device alone visible; unless it ends with exit code 0 within "
        "60 s, the device gets no more items. Words as in a shell, without expansions (default: nothing is run)",
    ),
    (
        "--sgpu-leaks",
        "report|fail",
        "what to make of an item that leaves processes behind: only report it, or fail it; they are killed either way "
        "(default: report)",
    ),
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the group "sgpu", each with an ini key of the same name."""
    group = parser.getgroup("sgpu", "sgpu: one queue for all GPU suites, packed over the devices longest first")
    group.addoption(
        "--sgpu-conf",
        action="append",
        metavar="FILE",
        help="conf file that names the suites; turns the queue on. Repeat it to make one queue of several. "
        "Write it with '=': with a space pytest takes the file for a place to look for its ini-file",
    )
    group.addoption(
        "--sgpu-plan",
        nargs="?",
        const="text",
        metavar="text|json",
        help="list and order everything, print the plan, run nothing and write nothing",
    )
    group.addoption(
        "--sgpu-resume",
        action="append",
        nargs="?",
        metavar="DIR|force",
        help="go on with a run that was interrupted, in its run directory DIR (default: that of --sgpu-log-dir): only "
        "what has no final outcome runs, and the report covers both parts. Refused when conf, plan or commit have "
        "changed, unless force is given too: --sgpu-resume=force. Write it with '='",
    )
    parser.addini("sgpu_conf", "conf files of the queue, see --sgpu-conf", type="args", default=[])
    parser.addini("sgpu_plan", "text or json: as --sgpu-plan", default="")
    for option, metavar, text in _STRINGS:
        group.addoption(option, metavar=metavar, help=text)
        parser.addini(_dest(option), f"as {option}", default="")
    parser.addini(
        "sgpu_allow_empty",
        "globs over keys (suite/tag) of items that may end with exit code 0 without proof that a test ran",
        type="args",
        default=[],
    )
    parser.addini(
        "sgpu_junit_failures",
        "warn or fail: what an item is whose exit code is 0 while its JUnit file has failed tests",
        default="warn",
    )


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> Generator[None, object, object]:
    """Say what to do when a conftest stops a queue before it begins: items do not need it, pytest loads it."""
    try:
        return (yield)
    except Exception:
        if not os.environ.get(ITEM_MARKER) and getattr(early_config.known_args_namespace, "sgpu_conf", None):
            sys.stderr.write("sgpu: pytest could not load a conftest.py; the queue needs none: --noconftest\n")
        raise


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> Generator[None, object, object]:
    """Show no usage error with a secret in it: all of them pass here, from the options to the end of the run.

    Where only a plan is asked for, leave the file of ``--junitxml`` alone: it would tell of a run without tests.
    """
    if _inert(config) or not _confs(config):
        return (yield)
    try:
        _refuse_looponfail(config)
        from pytest_sgpu.face.options import plan_format

        if plan_format(config):
            config.option.xmlpath = None
        return (yield)
    except pytest.UsageError as error:
        from pytest_sgpu.core.redact import Redactor

        clean = Redactor(os.environ).text
        raise pytest.UsageError(*(clean(str(one)) for one in error.args)) from None


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Become active when there is a conf file, and never inside an item.

    Last, so that pytest's own terminal reporter is there and can be moved.
    """
    if _inert(config):
        return
    if not _confs(config):
        _refuse_lonely_options(config)
        return
    _refuse_foreign_loops(config)
    from pytest_sgpu.face.queue import Queue

    config.pluginmanager.register(Queue(config), "sgpu-queue")


def _inert(config: pytest.Config) -> bool:
    return bool(os.environ.get(ITEM_MARKER)) or hasattr(config, "workerinput")


def _confs(config: pytest.Config) -> bool:
    try:
        return bool(config.getoption("sgpu_conf") or config.getini("sgpu_conf"))
    except (TypeError, ValueError, pytest.UsageError):
        return True  # something was given; who reads it says what is wrong with it


def _dest(option: str) -> str:
    return option.lstrip("-").replace("-", "_")


def _refuse_lonely_options(config: pytest.Config) -> None:
    """Refuse an option of ours without a conf file: that is a slip, and a run of something else."""
    names = ["--sgpu-plan", "--sgpu-resume", *(name for name, *_ in _STRINGS)]
    given = [name for name in names if config.getoption(_dest(name)) not in (None, [])]
    if given:
        raise pytest.UsageError(f"{given[0]} does nothing without --sgpu-conf=FILE")


def _refuse_foreign_loops(config: pytest.Config) -> None:
    """Refuse what brings a loop of its own: the queue has one over its own workers, and two cannot share a run."""
    options: Any = config.option
    distributed = getattr(options, "numprocesses", None) or getattr(options, "tx", None)
    if distributed or getattr(options, "dist", "no") not in ("no", None):
        raise pytest.UsageError(
            "-n/--dist cannot be used with --sgpu-conf: the queue already runs one item per device on workers "
            "of its own; choose the devices with --sgpu-gpus, or use xdist inside a suite script"
        )
    if getattr(options, "usepdb", False) or getattr(options, "trace", False):
        raise pytest.UsageError(
            "--pdb/--trace cannot be used with --sgpu-conf: items run in other processes without a terminal; "
            "run the item's script by hand with TEST_FILTER=<tag> to debug it"
        )


def _refuse_looponfail(config: pytest.Config) -> None:
    """Refuse the one loop that begins before any plugin is configured."""
    if getattr(config.option, "looponfail", False):
        raise pytest.UsageError(
            "-f/--looponfail cannot be used with --sgpu-conf: it starts pytest again and again, each time without "
            "the queue; start the queue again with --lf to run what failed"
        )
