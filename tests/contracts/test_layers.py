"""Imports point down, and a few modules are held apart: the house, checked on the source itself.

The import linter checks the same layers in `ci/test.sh --all`. This needs nothing installed, knows the standard
library too, and names the file and line.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import pytest_sgpu

PACKAGE = Path(pytest_sgpu.__file__).parent
MODULES = sorted(PACKAGE.rglob("*.py"))
# Lower numbers know nothing of higher ones. `report` and `engine` stand side by side and know nothing of each other.
LAYERS = {
    "errors": 0,
    "model": 0,
    "core": 1,
    "runners": 1,
    "report": 2,
    "engine": 2,
    "prepare": 3,
    "listener": 4,
    "results": 4,
    "finalize": 5,
    "ledger": 5,
    "endings": 6,
    "setups": 7,
    "effects": 7,
    "health": 7,
    "session": 8,
    "face": 9,
    "plugin": 10,
    "cli": 10,
}
OUR_NAME = "pytest_sgpu"
# What a pure module may import: nothing here reads a clock, a file, the environment, or starts anything.
PURE = frozenset(
    """__future__ bisect collections collections.abc dataclasses difflib enum fnmatch fractions functools hashlib
    heapq itertools json math operator posixpath re shlex signal statistics string textwrap types typing
    unicodedata urllib.parse""".split()  # noqa: SIM905 - a list that is read, not typed
)
HEAVY = frozenset(("execnet", "filelock", "junitparser", "rich"))


def _area(path: Path) -> str:
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def _imports(path: Path, *, top_only: bool = False) -> Iterator[tuple[int, str]]:
    """Give line and name of each import; `from a import b` gives `a.b` when that is one of our modules."""
    tree = ast.parse(path.read_bytes(), str(path))
    nodes = _at_import(tree) if top_only else ast.walk(tree)
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            if module.split(".")[0] == OUR_NAME:
                yield from ((node.lineno, f"{module}.{alias.name}") for alias in node.names)
            else:
                yield node.lineno, module


def _at_import(tree: ast.AST) -> Iterator[ast.AST]:
    """Walk what runs when the module is imported: not the functions, not what only a type checker sees."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            continue
        yield node
        yield from _at_import(node)


def _broken(*, allowed) -> list[str]:
    return [
        f"{path.relative_to(PACKAGE)}:{line}: {name}"
        for path in MODULES
        for line, name in _imports(path)
        if not allowed(path, name)
    ]


def _root(name: str) -> str:
    return name.partition(".")[0]


def test_every_module_has_a_layer():
    assert len(MODULES) > 10
    assert {_area(path) for path in MODULES} - LAYERS.keys() <= {"__init__", "__main__", "suite"}


def test_imports_point_down():
    def allowed(path: Path, name: str) -> bool:
        parts = name.split(".")
        if parts[0] != OUR_NAME or len(parts) < 2 or parts[1] not in LAYERS or _area(path) not in LAYERS:
            return True
        return parts[1] == _area(path) or LAYERS[parts[1]] < LAYERS[_area(path)]

    assert _broken(allowed=allowed) == []


def test_the_core_is_pure():
    def allowed(path: Path, name: str) -> bool:
        if _area(path) not in ("core", "model", "errors") or _root(name) == OUR_NAME:
            return True
        return name in PURE

    assert _broken(allowed=allowed) == []


@pytest.mark.parametrize(
    ("library", "owners"),
    [
        ("pytest", {"plugin", "face"}),
        ("_pytest", set()),
        ("pluggy", {"plugin", "face"}),
        ("execnet", {"engine/gate.py"}),
        ("rich", {"report/screen.py"}),
    ],
)
def test_few_know_each_library(library, owners):
    def allowed(path: Path, name: str) -> bool:
        return _root(name) != library or bool({_area(path), path.relative_to(PACKAGE).as_posix()} & owners)

    # What is under suite/ runs inside an item, in another pytest, and is no part of the queue.
    assert [one for one in _broken(allowed=allowed) if not one.startswith("suite/")] == []


def test_the_runner_tools_are_a_slice_of_their_own():
    """They know `errors` and nothing else of the queue, and of the queue only the command line knows them."""

    def allowed(path: Path, name: str) -> bool:
        if _area(path) == "runners":
            return _root(name) != OUR_NAME or name.split(".")[1] in ("runners", "errors", "__version__")
        return not name.startswith(f"{OUR_NAME}.runners") or path.name == "cli.py"

    assert _broken(allowed=allowed) == []


def test_what_holds_a_token_needs_the_standard_library_alone():
    """Acquire, guard and cleanup start in a job that has nothing installed, with Python 3.11 or newer."""

    def allowed(path: Path, name: str) -> bool:
        if _area(path) != "runners" or _root(name) in sys.stdlib_module_names | {OUR_NAME, "tomllib"}:
            return True
        late = path.name in ("lint.py", "yaml_text.py") and _root(name) == "ruamel"
        return late or name == "tomli"  # where the standard library has no reader of TOML yet

    assert _broken(allowed=allowed) == []
    top = {_root(name) for path in MODULES if _area(path) == "runners" for _, name in _imports(path, top_only=True)}
    assert "ruamel" not in top


def test_the_worker_stands_alone():
    """It is sent as source to a machine that may have neither this package nor its dependencies."""
    worker = PACKAGE / "engine" / "worker.py"
    foreign = [(line, name) for line, name in _imports(worker) if _root(name) not in sys.stdlib_module_names]
    assert foreign == []


def test_nothing_heavy_is_loaded_with_the_plugin():
    """A plain pytest run in the same environment pays for the plugin's import, so that one must be small."""
    code = (
        "import sys, pytest; before = set(sys.modules); import pytest_sgpu.plugin; print(*(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert not {_root(name) for name in loaded} & (HEAVY | {"asyncio", "multiprocessing", "xml"})


def test_rich_is_imported_only_when_a_display_starts():
    top = [(path.name, name) for path in MODULES for _, name in _imports(path, top_only=True) if _root(name) == "rich"]
    assert top == []
