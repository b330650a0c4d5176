"""The suites of this repository: what they list, and those that need nothing are run."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from pytest_sgpu.core import conf
from pytest_sgpu.model import Mode

HAS_NUMPY = bool(importlib.util.find_spec("numpy"))
NEEDED = ("sh", "dirname", "mktemp", "mkdir", "rm", "cat")


@pytest.fixture
def listing(run, root):
    def list_items(name: str, **env: str) -> list[str]:
        done = run([str(root / "ci" / "suites" / f"{name}.sh")], root, TE_CI_LIST_ITEMS="1", **env)
        assert (done.code, done.err) == (0, "")
        return list(done.items)

    return list_items


def cases(path: Path) -> dict[str | None, list[str]]:
    return {case.get("name"): [child.tag for child in case] for case in ET.parse(path).iter("testcase")}


def test_the_conf_names_the_five_suites(root):
    path = root / "conf" / "ci_sgpu_queue.conf"
    suites = conf.parse_all([(str(path), path.read_text())])
    assert [suite.label for suite in suites] == ["numpy", "torch", "jax", "core", "examples"]
    assert [suite.mode for suite in suites] == [Mode.LIST] * 3 + [Mode.OPAQUE] * 2
    for suite in suites:
        assert os.access(root / suite.command[0], os.X_OK), suite


@pytest.mark.parametrize("name", ["numpy", "torch", "jax"])
def test_levels_add_items_and_take_none_away(listing, name):
    levels = [listing(name, TEST_LEVEL=level, TE_CI_SKIP_CHECK_SUPPORTED="1") for level in "123"]
    assert 3 < len(levels[0]) < len(levels[1]) < len(levels[2])
    assert set(levels[0]) < set(levels[1]) < set(levels[2])
    assert len(set(levels[2])) == len(levels[2])


def test_numpy_has_at_least_twenty_items(listing):
    assert len(listing("numpy", TEST_LEVEL="1", TE_CI_SKIP_CHECK_SUPPORTED="1")) >= 20


@pytest.mark.skipif(not HAS_NUMPY, reason="needs numpy")
def test_numpy_is_listed_where_it_imports(listing):
    everything = listing("numpy", TEST_LEVEL="3", TE_CI_SKIP_CHECK_SUPPORTED="1")
    assert listing("numpy", TEST_LEVEL="3") == everything


@pytest.mark.skipif(not HAS_NUMPY, reason="needs numpy")
def test_every_numpy_module_is_there():
    spec = importlib.util.find_spec("numpy")
    assert spec
    assert spec.origin
    package_folder = Path(spec.origin).parent
    text = (Path(__file__).resolve().parents[2] / "ci" / "suites" / "numpy.sh").read_text()
    names = {word for word in text.split() if ".test_" in word and not word.startswith(("#", "$", '"'))}
    assert len(names) > 50
    for name in names:
        package, module = name.split(".")
        assert (package_folder / package / "tests" / f"{module}.py").is_file(), name


@pytest.mark.skipif(not HAS_NUMPY, reason="needs numpy")
def test_one_numpy_item_runs(run, root, tmp_path):
    tag = "polynomial.test_classes.cpu"
    env = {"TEST_FILTER": tag, "TE_CI_SKIP_SETUP": "1", "JUNITXML_PREFIX": f"{tmp_path}/", "JUNITXML_SUFFIX": ".xml"}
    done = run([str(root / "ci" / "suites" / "numpy.sh")], root, **env)
    assert done.code == 0, done.out
    assert len(cases(tmp_path / f"{tag}.xml")) > 50


@pytest.mark.parametrize("name", ["numpy", "torch", "jax"])
def test_known_but_not_here(listing, tmp_path, name):
    bare = tmp_path / "python3"
    bare.write_text("#!/bin/sh\nexit 1\n")
    bare.chmod(0o755)
    assert listing(name, TE_CI_PYTHON=str(bare)) == []
    assert listing(name, TE_CI_PYTHON=str(bare), TE_CI_SKIP_CHECK_SUPPORTED="1")


@pytest.mark.skipif(not any(map(shutil.which, ("c++", "g++", "clang++"))), reason="needs a C++ compiler")
def test_core_builds_and_runs(run, root, tmp_path):
    done = run([str(root / "ci" / "suites" / "core.sh")], root, JUNITXML_PREFIX=f"{tmp_path}/j/")
    assert done.code == 0, done.out + done.err
    found = cases(tmp_path / "j" / "core.xml")
    assert len(found) >= 5
    assert not any(found.values())


@pytest.fixture
def bare_env(tmp_path):
    """Give an environment whose PATH has what the script needs and no compiler."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in NEEDED:
        (folder / name).symlink_to(str(shutil.which(name)))
    return {"PATH": str(folder), "JUNITXML_PREFIX": f"{tmp_path}/j/"}


@pytest.mark.parametrize(("required", "code"), [("", 0), ("0", 0), ("1", 77)])
def test_core_without_a_compiler_says_so(run, root, bare_env, required, code):
    done = run([str(root / "ci" / "suites" / "core.sh")], root, **bare_env, CORE_REQUIRE_COMPILER=required)
    assert done.code == code
    assert "NOT TESTED: no C++ compiler" in done.out
    assert cases(Path(bare_env["JUNITXML_PREFIX"]) / "core.xml") == {"build": ["skipped"]}


@pytest.fixture
def copy(root, tmp_path):
    """Give a repository with our examples suite and nothing to run yet."""
    place = tmp_path / "copy"
    (place / "ci" / "suites").mkdir(parents=True)
    (place / "docs" / "examples").mkdir(parents=True)
    shutil.copy(root / "ci" / "suites" / "examples.sh", place / "ci" / "suites")
    return place


def test_examples_run_each_in_an_empty_folder_of_its_own(run, copy, tmp_path):
    examples = copy / "docs" / "examples"
    (examples / "a.sh").write_text('set -eu\n[ -z "$(ls)" ]\ntouch left\n[ -z "${PYTEST_SGPU_ITEM-}" ]\n')
    (examples / "b.py").write_text("import os\nassert os.listdir() == []\nassert 'TEST_FILTER' not in os.environ\n")
    env = {"JUNITXML_PREFIX": f"{tmp_path}/j/", "PYTEST_SGPU_ITEM": "1", "TEST_FILTER": "x"}
    done = run([str(copy / "ci" / "suites" / "examples.sh")], copy, **env)
    assert done.code == 0, done.out + done.err
    assert cases(tmp_path / "j" / "examples.xml") == {"a.sh": [], "b.py": []}


def test_an_example_that_fails_fails_the_suite_and_the_others_run(run, copy, tmp_path):
    examples = copy / "docs" / "examples"
    (examples / "a.sh").write_text("exit 3\n")
    (examples / "b.py").write_text("print('fine')\n")
    done = run([str(copy / "ci" / "suites" / "examples.sh")], copy, JUNITXML_PREFIX=f"{tmp_path}/j/")
    assert done.code == 1
    assert "a.sh failed with exit code 3" in done.out
    assert cases(tmp_path / "j" / "examples.xml") == {"a.sh": ["failure"], "b.py": []}


def test_no_example_at_all_is_a_failure(run, copy):
    assert run([str(copy / "ci" / "suites" / "examples.sh")], copy).code == 1


def test_a_suite_away_from_the_checkout_uses_the_installed_library(run, root, tmp_path):
    place = tmp_path / "elsewhere"
    place.mkdir()
    shutil.copy(root / "ci" / "_utils.sh", place)
    (place / "s.sh").write_text('. "$(dirname -- "$0")/_utils.sh"\nte_ci_line 1 a true\n')
    fake = tmp_path / "bin"
    fake.mkdir()
    (fake / "sgpu").write_text(f'#!/bin/sh\nexec {sys.executable} -m pytest_sgpu.cli "$@"\n')
    (fake / "sgpu").chmod(0o755)
    env = {"TE_CI_LIST_ITEMS": "1", "PYTHONPATH": str(root)}
    found = run(["sh", str(place / "s.sh")], place, PATH=f"{fake}:{os.environ['PATH']}", **env)
    assert (found.code, found.items) == (0, ["a"])
    (fake / "sgpu").write_text("#!/bin/sh\nexit 127\n")
    missing = run(["sh", str(place / "s.sh")], place, PATH=f"{fake}:{os.environ['PATH']}", **env)
    assert missing.code == 2
    assert "pip install pytest-sgpu" in missing.err
