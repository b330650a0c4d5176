"""What the built wheel holds. Runs where `ci/test.sh --all` names one in SGPU_WHEEL."""

from __future__ import annotations

import os
import sys
import zipfile
from email import message_from_bytes
from importlib.metadata import version
from pathlib import Path

import pytest

import pytest_sgpu

WHEEL = os.environ.get("SGPU_WHEEL", "")
ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(not WHEEL, reason="no built wheel to look at (SGPU_WHEEL)")


@pytest.fixture(scope="module")
def files() -> dict[str, bytes]:
    with zipfile.ZipFile(WHEEL) as wheel:
        return {name: wheel.read(name) for name in wheel.namelist()}


def _one(files: dict[str, bytes], end: str) -> bytes:
    (name,) = [name for name in files if name.endswith(end)]
    return files[name]


def test_the_tests_run_against_the_wheel():
    assert Path(pytest_sgpu.__file__).is_relative_to(Path(sys.prefix))


def test_it_holds_the_whole_package(files):
    source = ROOT / "pytest_sgpu"
    wanted = {
        path.relative_to(ROOT).as_posix()
        for path in source.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert wanted <= files.keys()
    assert "pytest_sgpu/py.typed" in wanted


def test_it_holds_nothing_else(files):
    assert {name.split("/")[0] for name in files if ".dist-info/" not in name} == {"pytest_sgpu"}
    assert not [name for name in files if name.endswith((".pyc", ".so"))]


def test_its_entry_points(files):
    text = _one(files, ".dist-info/entry_points.txt").decode()
    assert "[pytest11]\nsgpu = pytest_sgpu.plugin" in text
    assert "[console_scripts]\nsgpu = pytest_sgpu.cli:main" in text


def test_its_metadata(files):
    meta = message_from_bytes(_one(files, ".dist-info/METADATA"))
    assert meta["Version"] == pytest_sgpu.__version__ == version("pytest-sgpu")
    assert meta["Requires-Python"] == ">=3.10"
    assert meta["License-Expression"] == "MIT"
    assert _one(files, "/LICENSE")
    needed = {
        line.split(";")[0].split(">")[0].strip() for line in meta.get_all("Requires-Dist", []) if "extra ==" not in line
    }
    assert needed == {"pytest", "execnet", "filelock", "junitparser", "rich", "tomli"}  # the last one on 3.10 alone
