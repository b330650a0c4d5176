"""The options of a queue, read once; and the command line that runs one of its items again."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import pytest

from pytest_sgpu.core.limits import Limits, parse_duration, parse_limit, parse_timeout
from pytest_sgpu.core.text import printable, shown
from pytest_sgpu.core.verdict import Policy
from pytest_sgpu.engine import scripts
from pytest_sgpu.face import ini
from pytest_sgpu.prepare import GRACE, Options

_REPEATED_ENV = ("TEST_LEVEL", "TEST_SGPU", "TEST_MGPU")
# What ends an item or makes it a failure: without it, what hung would hang again.
_REPEATED = ("sgpu_timeout", "sgpu_stall", "sgpu_grace", "sgpu_leaks")
_RERUN_LOG_DIR = "test-results/rerun"  # of its own, so that trying one item again keeps the logs of the run
_FORCE = "force"
_MOST_RETRIES = 100
_Value = TypeVar("_Value")


def plan_format(config: pytest.Config) -> str:
    """Give the format of ``--sgpu-plan``, "" when no plan was asked for."""
    given = config.getoption("sgpu_plan")
    text: str = given or ini.text(config, "sgpu_plan")
    if text not in ("", "text", "json") or given == "":
        where = "--sgpu-plan" if given is not None else "sgpu_plan in the ini-file"
        raise pytest.UsageError(f"{where}: {shown(text, 80)} is neither; expected text or json")
    return text


def _setting(config: pytest.Config, name: str) -> str | None:
    """Give an option, or its ini twin when it was not given. "" from an ini-file means not set."""
    value = config.getoption(name)
    return value if value is not None else (ini.text(config, name) or None)


def _read(config: pytest.Config, name: str, read: Callable[[str], _Value], default: _Value) -> _Value:
    """Read a setting. What ``read`` refuses is a usage error that names the place where it was written."""
    text = _setting(config, name)
    if text is None:
        return default
    try:
        return read(text)
    except ValueError as error:
        where = "--" + name.replace("_", "-") if config.getoption(name) is not None else f"{name} in the ini-file"
        raise pytest.UsageError(f"{where}: {error}") from None


def _choice(first: str, second: str) -> Callable[[str], bool]:
    """Read one of two words: whether it is the second."""

    def read(text: str) -> bool:
        if text not in (first, second):
            raise ValueError(f"{shown(text, 80)} is neither; expected {first} or {second}")
        return text == second

    return read


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > len(str(_MOST_RETRIES)) or int(text) > _MOST_RETRIES:
        raise ValueError(f"{shown(text, 80)} is no such number; expected a whole number from 0 to {_MOST_RETRIES}")
    return int(text)


def _limits(config: pytest.Config) -> Limits:
    limits = _read(config, "sgpu_timeout", parse_timeout, Limits())
    stall: float | None = _read(config, "sgpu_stall", parse_limit, None)
    return replace(limits, stall=stall)


def _resume(config: pytest.Config) -> tuple[bool, bool, str]:
    """Read ``--sgpu-resume``, which may be given twice: whether to resume, whether by force, and where."""
    given: list[str | None] = config.getoption("sgpu_resume") or []
    folders = [word for word in given if word not in (None, _FORCE)]
    if "" in folders:
        raise pytest.UsageError("--sgpu-resume=: nothing is named; expected a run directory, or force")
    if len(set(folders)) > 1:
        named = ", ".join(f"--sgpu-resume={shown(str(word), 80)}" for word in folders)
        raise pytest.UsageError(f"{named}: one run directory is expected, and force beside it if need be")
    return bool(given), _FORCE in given, str(folders[0]) if folders else ""


def _path(config: pytest.Config, name: str, default: str) -> Path:
    option: str | None = config.getoption(name)
    if option == "":
        raise pytest.UsageError(f"--{name.replace('_', '-')}: nothing is named; expected a path")
    if option:
        return config.invocation_params.dir / option
    return config.rootpath / (ini.text(config, name) or default)


def _command(text: str, root: Path) -> tuple[str, ...]:
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise ValueError(f"{shown(text, 80)} is no command line: {error}") from None
    if not any(words[:1]):
        raise ValueError("no command; expected a program and its arguments")
    return scripts.command(words, root, os.environ)


def read_options(config: pytest.Config) -> Options:
    """Read all options. Paths on the command line are relative to where pytest was called, others to the root."""
    here, root = config.invocation_params.dir, config.rootpath
    names = tuple(config.getoption("sgpu_conf") or ())
    if not names:
        base = config.inipath.parent if config.inipath else root
        names = tuple(os.path.relpath(base / name, here) for name in ini.words(config, "sgpu_conf"))
    suites = _setting(config, "sgpu_suites")
    junit_failures = ini.text(config, "sgpu_junit_failures")
    if junit_failures not in ("warn", "fail"):
        raise pytest.UsageError(f"sgpu_junit_failures = {printable(junit_failures, 80)}: warn or fail is expected")
    resumes, force, folder = _resume(config)
    budget: float | None = _read(config, "sgpu_budget", parse_limit, None)

    return Options(
        confs=tuple(here / name for name in names),
        conf_names=names,
        root=root,
        log_dir=here / folder if folder else _path(config, "sgpu_log_dir", "test-results/logs"),
        weights=_path(config, "sgpu_weights", "ci-weights"),
        env=dict(os.environ),
        gpus=_setting(config, "sgpu_gpus"),
        suites=tuple(suites.split(",")) if suites is not None else None,
        policy=Policy(
            allow_empty=ini.words(config, "sgpu_allow_empty"),
            junit_failures_fail=junit_failures == "fail",
            leaks_fail=_read(config, "sgpu_leaks", _choice("report", "fail"), default=False),
        ),
        writes=not (plan_format(config) or config.option.collectonly),
        limits=_limits(config),
        grace=_read(config, "sgpu_grace", parse_duration, GRACE),
        retries=_read(config, "sgpu_retries", _count, 0),
        flaky_fails=_read(config, "sgpu_flaky", _choice("pass", "fail"), default=False),
        quarantine=not _read(config, "sgpu_quarantine", _choice("auto", "off"), default=False),
        health_cmd=_read(config, "sgpu_health_cmd", lambda text: _command(text, root), ()),
        budget=budget,
        resume=resumes,
        force=force,
    )


def rerun_head(config: pytest.Config, chosen: Options) -> str:
    """Give the command that runs exactly one item again, with a run directory of its own, up to its node id.

    It repeats what decides how the item runs; device masks are left to the shell that it is pasted into.
    """
    given = [f"{name}={shlex.quote(chosen.env[name])}" for name in _REPEATED_ENV if name in chosen.env]
    words = ["pytest", "-p", "sgpu", *(f"--sgpu-conf={name}" for name in chosen.conf_names)]
    if chosen.gpus:
        words.append(f"--sgpu-gpus={chosen.gpus}")
    for name in _REPEATED:
        value = config.getoption(name)  # its ini twin is read again
        if value is not None:
            words.append(f"--{name.replace('_', '-')}={value}")
    for option, name in (("--sgpu-weights", "sgpu_weights"), ("-c", "inifilename"), ("--rootdir", "rootdir")):
        value = config.getoption(name, None)
        if value:
            words += [option, str(value)] if option == "-c" else [f"{option}={value}"]
    for override in config.getoption("override_ini", None) or ():
        words += ["-o", override]
    words.append(f"--sgpu-log-dir={_RERUN_LOG_DIR}")
    return " ".join([*given, *map(shlex.quote, words)])


def rerun_command(head: str, nodeid: str) -> str:
    """Give the whole command for one item."""
    return f"{head} {shlex.quote(nodeid)}"
