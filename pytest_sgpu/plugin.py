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

# option, ini key, ini type, metavar, help
_STRINGS = (
    (
        "--sgpu-gpus",
        "sgpu_gpus",
        "N|LIST",
        "use the first N devices, or the listed ones (0,2); on a machine without GPUs: N virtual devices",
    ),
    (
        "--sgpu-log-dir",
        "sgpu_log_dir",
        "DIR",
        "run directory for logs, verdicts, JUnit files and reports (default: test-results/logs)",
    ),
    (
        "--sgpu-weights",
        "sgpu_weights",
        "FILE|DIR",
        "weight table, or the directory that holds one per architecture and level (default: ci-weights/)",
    ),
    ("--sgpu-suites", "sgpu_suites", "a,b", "only these suites of the conf; the others keep their weights"),
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
        choices=("text", "json"),
        metavar="text|json",
        help="list and order everything, print the plan, run nothing and write nothing",
    )
    parser.addini("sgpu_conf", "conf files of the queue, see --sgpu-conf", type="args", default=[])
    parser.addini("sgpu_plan", "text or json: as --sgpu-plan", default="")
    for option, ini, metavar, text in _STRINGS:
        group.addoption(option, metavar=metavar, help=text)
        parser.addini(ini, f"as {option}", default="")
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


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Leave the file of ``--junitxml`` alone when only a plan is asked for: it would tell of a run without tests."""
    if not _inert(config) and _confs(config) and (config.getoption("sgpu_plan") or config.getini("sgpu_plan")):
        config.option.xmlpath = None


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
    return bool(config.getoption("sgpu_conf") or config.getini("sgpu_conf"))


def _refuse_lonely_options(config: pytest.Config) -> None:
    """Refuse an option of ours without a conf file: that is a slip, and a run of something else."""
    names = ["--sgpu-plan", *(name for name, *_ in _STRINGS)]
    given = [name for name in names if config.getoption(name.lstrip("-").replace("-", "_"))]
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
