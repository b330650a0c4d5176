"""Runs suite scripts as a person and as the scheduler would, under every shell that is here."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = ROOT / "pytest_sgpu" / "suite" / "te_ci.sh"
SHELLS = {"dash": ["dash"], "bash": ["bash"], "busybox": ["busybox", "sh"]}


@dataclass(frozen=True)
class Done:
    """What a script printed and how it ended."""

    code: int
    out: str
    err: str

    @property
    def items(self) -> list[str]:
        return [line.removeprefix("TE_CI_ITEM ") for line in self.out.splitlines() if line.startswith("TE_CI_ITEM ")]

    @property
    def proofs(self) -> list[str]:
        return [line.removeprefix("TE_CI_RAN ") for line in self.out.splitlines() if line.startswith("TE_CI_RAN ")]


def clean_environment(**extra: str) -> dict[str, str]:
    keep = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ}
    return keep | {"TE_CI_PYTHON": sys.executable, "PYTHONDONTWRITEBYTECODE": "1"} | extra


def run(command: list[str], where: Path, **env: str) -> Done:
    done = subprocess.run(
        command,
        cwd=where,
        env=clean_environment(**env),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return Done(done.returncode, done.stdout, done.stderr)


@pytest.fixture(name="run")
def run_fixture() -> Callable[..., Done]:
    """Give the function that runs a command in a folder, in an environment of its own."""
    return run


@pytest.fixture(name="root")
def root_fixture() -> Path:
    """Give the checkout."""
    return ROOT


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest) -> list[str]:
    command = SHELLS[request.param]
    if shutil.which(command[0]) is None:
        pytest.skip(f"no {command[0]} here")
    return command


Suite = Callable[..., Done]


@pytest.fixture
def suite(shell: list[str], tmp_path: Path) -> Suite:
    """Give a function that runs the lines of a suite script under ``set -eu``, with variables of the protocol."""

    def run_suite(lines: str, *, options: str = "set -eu", **env: str) -> Done:
        script = tmp_path / "demo.sh"
        script.write_text(f"{options}\n. {LIBRARY}\n{lines}\n", encoding="utf-8")
        return run([*shell, str(script)], tmp_path, **env)

    return run_suite
