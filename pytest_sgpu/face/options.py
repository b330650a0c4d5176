"""The options of a queue, read once; and the command line that runs one of its items again."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import pytest

from pytest_sgpu.core.verdict import Policy
from pytest_sgpu.prepare import Options

_REPEATED_ENV = ("TEST_LEVEL", "TEST_SGPU", "TEST_MGPU")
_RERUN_LOG_DIR = "test-results/rerun"  # of its own, so that trying one item again keeps the logs of the run


def plan_format(config: pytest.Config) -> str:
    """Give the format of ``--sgpu-plan``, "" when no plan was asked for."""
    text = config.getoption("sgpu_plan") or config.getini("sgpu_plan")
    if text not in ("", "text", "json"):
        raise pytest.UsageError(f"sgpu_plan = {text}: text or json is expected")
    return str(text)


def _setting(config: pytest.Config, name: str) -> str | None:
    """Give an option, or its ini twin when it was not given. "" from an ini-file means not set."""
    value = config.getoption(name)
    return value if value is not None else (config.getini(name) or None)


def read_options(config: pytest.Config) -> Options:
    """Read all options. Paths on the command line are relative to where pytest was called, others to the root."""
    here, root = config.invocation_params.dir, config.rootpath
    names = tuple(config.getoption("sgpu_conf") or ())
    if not names:
        base = config.inipath.parent if config.inipath else root
        names = tuple(os.path.relpath(base / name, here) for name in config.getini("sgpu_conf"))
    suites = _setting(config, "sgpu_suites")
    junit_failures = config.getini("sgpu_junit_failures")
    if junit_failures not in ("warn", "fail"):
        raise pytest.UsageError(f"sgpu_junit_failures = {junit_failures}: warn or fail is expected")

    def path(name: str, default: str) -> Path:
        option = config.getoption(name)
        return here / option if option else root / (config.getini(name) or default)

    return Options(
        confs=tuple(here / name for name in names),
        conf_names=names,
        root=root,
        log_dir=path("sgpu_log_dir", "test-results/logs"),
        weights=path("sgpu_weights", "ci-weights"),
        env=dict(os.environ),
        gpus=_setting(config, "sgpu_gpus"),
        suites=tuple(suites.split(",")) if suites is not None else None,
        policy=Policy(
            allow_empty=tuple(config.getini("sgpu_allow_empty")),
            junit_failures_fail=junit_failures == "fail",
        ),
        writes=not (plan_format(config) or config.option.collectonly),
    )


def rerun_command(config: pytest.Config, chosen: Options, nodeid: str) -> str:
    """Give the command that runs exactly one item again, with a run directory of its own.

    It repeats what decides how the item runs; device masks are left to the shell that it is pasted into.
    """
    given = [f"{name}={shlex.quote(chosen.env[name])}" for name in _REPEATED_ENV if name in chosen.env]
    words = ["pytest", "-p", "sgpu", *(f"--sgpu-conf={name}" for name in chosen.conf_names)]
    if chosen.gpus:
        words.append(f"--sgpu-gpus={chosen.gpus}")
    for option, name in (("--sgpu-weights", "sgpu_weights"), ("-c", "inifilename"), ("--rootdir", "rootdir")):
        value = config.getoption(name, None)
        if value:
            words += [option, str(value)] if option == "-c" else [f"{option}={value}"]
    for override in config.getoption("override_ini", None) or ():
        words += ["-o", override]
    words += [f"--sgpu-log-dir={_RERUN_LOG_DIR}", nodeid]
    return " ".join([*given, *map(shlex.quote, words)])
