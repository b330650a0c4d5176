"""Small rules of the house that a check can hold: sizes, names, docstrings, spelling of the commands."""

from __future__ import annotations

import ast
import os
from pathlib import Path

import pytest

import pytest_sgpu

PACKAGE = Path(pytest_sgpu.__file__).parent
ROOT = Path(__file__).parents[2]
MODULES = sorted(PACKAGE.rglob("*.py"))
IDS = [path.relative_to(PACKAGE).as_posix() for path in MODULES]
# "About 300" and "about 40": a tenth above is still about.
MODULE_LINES = 330
# The worker travels as one source text, so it cannot be two.
LONGER = {"engine/worker.py": 850}
FUNCTION_LINES = 50


def _module(path: Path) -> ast.Module:
    return ast.parse(path.read_bytes(), str(path))


@pytest.mark.parametrize("path", MODULES, ids=IDS)
def test_a_module_is_small_and_says_its_role(path):
    limit = LONGER.get(path.relative_to(PACKAGE).as_posix(), MODULE_LINES)
    size = len(path.read_text(encoding="utf-8").splitlines())
    assert size <= limit, f"{path.name} asks to be two"
    role = ast.get_docstring(_module(path))
    assert role, f"{path.name} does not say what it is for"
    assert role.splitlines()[0].rstrip().endswith((".", ":", ",", ")")), "the first line is a sentence"


@pytest.mark.parametrize("path", MODULES, ids=IDS)
def test_a_function_is_small(path):
    functions = [n for n in ast.walk(_module(path)) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))]
    long = {f.name: size for f in functions if (size := (f.end_lineno or f.lineno) - f.lineno + 1) > FUNCTION_LINES}
    assert long == {}


def test_no_drawer_for_odds_and_ends():
    names = {path.stem for path in MODULES}
    assert not names & {"utils", "util", "helpers", "misc", "common"}


@pytest.mark.parametrize("path", MODULES, ids=IDS)
def test_nothing_exits_but_the_boundaries(path):
    """Errors are raised; one boundary in the plugin and one in the command line turn them into a line."""
    # What is under suite/ runs inside an item. The engine ends processes that it forked itself (os._exit).
    relative = path.relative_to(PACKAGE).as_posix()
    if relative in ("plugin.py", "cli.py", "__main__.py") or relative.startswith("suite/"):
        return
    forbidden = ("sys.exit",) if relative.startswith("engine/") else ("sys.exit", "os._exit")
    calls = [
        f"{relative}:{node.lineno}"
        for node in ast.walk(_module(path))
        if isinstance(node, ast.Attribute) and ast.unparse(node) in forbidden
    ]
    assert calls == []


@pytest.mark.parametrize("script", ["ci/test.sh", ".ci/run"])
def test_the_commands_people_type_can_be_run(script):
    path = ROOT / script
    assert os.access(path, os.X_OK)
    assert path.read_text(encoding="utf-8").startswith("#!")


def test_ci_runs_the_command_of_the_readme():
    assert "./ci/test.sh --all" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def test_the_readme_fits():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 120
