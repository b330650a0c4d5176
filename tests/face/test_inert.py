"""When the plugin is there, when it does nothing, and what of the caller reaches an item."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

TWO_TESTS = "def test_first():\n    pass\n\n\ndef test_second():\n    pass\n"
INNER = '"${ITEM_PYTHON:-python3}" -m pytest -q -p no:cacheprovider --junitxml="$xml" "$top/inner_two.py"'


class TestEntryPoint:
    @pytest.mark.parametrize("autoload", [None, "1"])
    def test_by_name(self, repo, autoload):
        repo.suite("s", {"a": "cases 1; note"})
        env = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": autoload}
        done = repo.pytest("-p", "sgpu", "--sgpu-conf=suite.conf", "--sgpu-gpus=1", env=env)
        assert (done.code, repo.seen) == (0, ["a"]), done.text

    def test_by_autoload(self, repo):
        repo.suite("s", {"a": "cases 1; note"})
        env = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": None}
        done = repo.pytest("--sgpu-conf=suite.conf", "--sgpu-gpus=1", env=env)
        assert (done.code, repo.seen) == (0, ["a"]), done.text

    def test_by_pytest_plugins(self, repo):
        repo.suite("s", {"a": "cases 1; note"})
        done = repo.pytest("--sgpu-conf=suite.conf", "--sgpu-gpus=1", env={"PYTEST_PLUGINS": "pytest_sgpu.plugin"})
        assert (done.code, repo.seen) == (0, ["a"]), done.text

    def test_help_has_every_option_with_its_twin(self, repo):
        done = repo.pytest("-p", "sgpu", "--help")
        for name in ("conf", "plan", "gpus", "log-dir", "weights", "suites"):
            assert f"--sgpu-{name}" in done.out
            assert f"sgpu_{name.replace('-', '_')} (" in done.out
        for name in ("allow_empty", "junit_failures"):
            assert f"sgpu_{name} (" in done.out


class TestWithoutConf:
    def test_a_plain_run_is_a_plain_run(self, repo):
        repo.file("test_plain.py", TWO_TESTS)
        with_it = repo.pytest("-p", "sgpu", "-q")
        without = repo.pytest("-p", "no:sgpu", "-q")
        assert with_it.code == without.code == 0
        assert with_it.out.splitlines()[0] == without.out.splitlines()[0]
        assert not (repo.path / "test-results").exists()

    def test_nothing_heavy_is_imported(self, repo):
        code = (
            "import json, sys, pytest; before = set(sys.modules); import pytest_sgpu.plugin; "
            "print(json.dumps(sorted(set(sys.modules) - before)))"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=repo.path)
        added = json.loads(done.stdout)
        assert {name for name in added if name.startswith("pytest_sgpu")} == {"pytest_sgpu", "pytest_sgpu.plugin"}
        assert not {"execnet", "rich", "junitparser", "filelock", "xml.etree", "json"} & set(added)


class TestTwins:
    """Each option can stand in the ini-file; the command line wins."""

    def test_all_of_them(self, repo):
        repo.suite("a", {"one": "cases 1; note"})
        repo.suite("b", {"two": "cases 1; note"})
        repo.ini(
            "sgpu_conf = suite.conf",
            "sgpu_gpus = 3",
            "sgpu_log_dir = out/here",
            "sgpu_weights = learned",
            "sgpu_suites = a",
        )
        done = repo.run(conf=None, gpus=None)
        assert done.code == 0
        assert "3 devices" in done.out
        assert repo.seen == ["one"]
        assert (repo.path / "out/here/report/junit.xml").exists()
        assert (repo.path / "learned/test_weights.cpu.l1.txt").exists()
        assert not (repo.path / "test-results").exists()

        done = repo.run("--sgpu-suites=b", "--sgpu-log-dir=other", conf=None, gpus=1)
        assert done.code == 0
        assert "1 device (" in done.out
        assert repo.seen == ["one", "two"]
        assert (repo.path / "other/report/junit.xml").exists()

    def test_the_plan(self, repo):
        repo.suite("a", {"one": "cases 1; note"})
        repo.ini("sgpu_plan = json")
        done = repo.run()
        assert json.loads(done.out)["totals"]["items"] == 1
        assert repo.seen == []
        repo.ini("sgpu_plan = sideways")
        assert repo.run().code == 4

    def test_paths_are_relative_to_where_they_were_said(self, repo):
        """In an ini-file: to the root. On the command line: to where the caller stands. Commands: to the root."""
        repo.suite("a", {"one": "cases 1; note"})
        repo.ini("sgpu_conf = suite.conf", "sgpu_gpus = 1")
        (repo.path / "below").mkdir()
        words = [sys.executable, "-m", "pytest", "-p", "sgpu", "--rootdir=..", "-c", "../pytest.ini"]
        done = subprocess.run(
            [*words, "--sgpu-log-dir=mine"],
            cwd=repo.path / "below",
            env=repo.env(),
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert (repo.path / "below/mine/report/junit.xml").exists()
        assert (repo.path / "ci-weights").exists()

    def test_several_conf_files_make_one_queue(self, repo):
        repo.suite("a", {"one": "cases 1; note"}, conf="first.conf")
        repo.suite("b", {"two": "cases 1; note"}, conf="second.conf")
        repo.weights("b/two 9.0\na/one 1.0\n")
        done = repo.run("--sgpu-conf=second.conf", conf="first.conf", gpus=1)
        assert done.code == 0
        assert repo.seen == ["two", "one"]
        assert [e["key"] for e in repo.plan("--sgpu-conf=second.conf", conf="first.conf")["entries"]] == [
            "b/two",
            "a/one",
        ]

    def test_two_conf_files_of_one_name(self, repo):
        repo.suite("a", {"one": "cases 1; note"}, conf="suite.conf")
        (repo.path / "sub").mkdir()
        repo.suite("b", {"two": "cases 1; note"}, conf="sub/suite.conf")
        done = repo.run("--sgpu-conf=sub/suite.conf", "suite.conf::b::two")
        assert done.code == 0, done.text
        assert repo.seen == ["two"]


class TestForeignLoops:
    @pytest.mark.parametrize(
        ("words", "named"),
        [
            (("-n", "2"), "-n/--dist"),
            (("--dist=load",), "-n/--dist"),
            (("--tx=popen", "--dist=each"), "-n/--dist"),
            (("--pdb",), "--pdb"),
            (("--trace",), "--pdb"),
        ],
    )
    def test_are_refused_with_the_reason(self, repo, words, named):
        pytest.importorskip("xdist")
        repo.suite("s", {"a": "note"})
        before = repo.tree()
        done = repo.run("-p", "xdist", *words)
        assert done.code == 4
        assert named in done.errors
        assert "--sgpu-conf" in done.errors
        assert "\n" not in done.errors.strip()
        assert repo.tree() == before

    def test_xdist_that_is_only_there(self, repo):
        pytest.importorskip("xdist")
        repo.suite("s", {"a": "cases 1"})
        assert repo.run("-p", "xdist").code == 0
        assert repo.run("-p", "xdist", "-n", "0").code == 0


class TestInsideAnItem:
    """No queue starts a queue, and what the caller said to his own pytest stays with it."""

    @pytest.fixture
    def nest(self, repo):
        repo.file("inner_two.py", TWO_TESTS)
        repo.suite("n", {"inner": INNER, "stdin": "read -r words || words=; echo \"read: '$words'\"; ran"}, head="cat")
        return repo

    def test_addopts_from_the_environment(self, nest):
        env = {"PYTEST_ADDOPTS": "-p sgpu --sgpu-conf=suite.conf"}
        done = nest.pytest("--sgpu-gpus=2", env=env)
        assert done.code == 0, done.text
        assert len(nest.junit().of("n/inner")) == 2
        assert not (nest.path / "test-results/logs/items/test-results").exists()
        assert len(list(nest.path.rglob("journal.jsonl"))) == 1

    @pytest.mark.parametrize("twin", ["addopts = -p sgpu --sgpu-conf=suite.conf", "sgpu_conf = suite.conf"])
    def test_options_from_the_ini_file(self, nest, twin):
        nest.ini(twin)
        done = nest.run(conf=None)
        assert done.code == 0, done.text
        assert len(nest.junit().of("n/inner")) == 2
        assert len(list(nest.path.rglob("journal.jsonl"))) == 1

    def test_an_interpreter_without_this_package(self, nest):
        """It has pytest, but would stumble over `-p sgpu` in PYTEST_ADDOPTS."""
        blind = nest.file(
            "blind.py",
            "import sys, importlib.metadata as md\n"
            "sys.modules['pytest_sgpu'] = None\n"
            "real = md.distributions\n"
            "md.distributions = lambda **k: [d for d in real(**k) if d.metadata['Name'] != 'pytest-sgpu']\n"
            "import pytest\n"
            "sys.exit(pytest.main(sys.argv[3:]))\n",
        )
        python = nest.file("python-of-the-item", f'#!/bin/sh\nexec {sys.executable} {blind} "$@"\n', executable=True)
        env = {"PYTEST_ADDOPTS": "-p sgpu --sgpu-conf=suite.conf", "ITEM_PYTHON": str(python)}
        alone = nest.command(str(python), "-m", "pytest", "--collect-only", env=env)
        assert alone.code not in (0, 5), "this interpreter should not know sgpu"
        done = nest.pytest("--sgpu-gpus=2", env=env)
        assert done.code == 0, done.text + (nest.logs / "items/n.inner.log").read_text()
        assert len(nest.junit().of("n/inner")) == 2

    def test_a_selection_of_the_caller(self, nest):
        done = nest.run(env={"PYTEST_ADDOPTS": "-k inner"})
        assert done.code == 0, done.text
        assert nest.outcomes().keys() == {"n/inner"}
        assert len(nest.junit().of("n/inner")) == 2  # documented: the inner pytest does not see it

    def test_options_for_items(self, nest):
        done = nest.run(env={"SGPU_ITEM_ADDOPTS": "-k first"})
        assert done.code == 0, done.text
        assert [case.name for case in nest.junit().of("n/inner")] == ["test_first"]

    def test_standard_input_is_closed(self, nest):
        """An open pipe at the caller's end holds up neither a listing nor an item."""
        process = nest.start(*nest.words(), stdin=subprocess.PIPE)
        done = nest.end_with_open_input(process)
        assert done.code == 0, done.text
        assert "read: ''" in (nest.logs / "items/n.stdin.log").read_text()


class TestEnvironment:
    """The variables of the protocol, as an item, a setup and a listing find them."""

    SHOW = 'env | grep -E "^(TE_CI|TEST|JUNITXML|PYTEST|SGPU|HIP|ROCR|CUDA|MINE)" | sort'
    FOREIGN = {  # noqa: RUF012
        "TE_CI_LIST_ITEMS": "1",
        "TE_CI_SETUP_ONLY": "1",
        "TE_CI_SKIP_SETUP": "0",
        "TE_CI_SKIP_CHECK_SUPPORTED": "1",
        "JUNITXML_PREFIX": "/nowhere/",
        "JUNITXML_SUFFIX": ".caller.xml",
        "PYTEST_TIMEOUT": "77",
        "MINE": "kept",
    }

    def test_an_item(self, repo):
        repo.suite("s", {"a": f"{self.SHOW}; cases 1"})
        repo.opaque("o", self.SHOW)
        assert repo.run(env=self.FOREIGN).code == 0
        item = dict(line.split("=", 1) for line in (repo.logs / "items/s.a.log").read_text().splitlines())
        whole = dict(line.split("=", 1) for line in (repo.logs / "items/o.whole.log").read_text().splitlines())
        assert item["TEST_FILTER"] == "a"
        assert item["TE_CI_SKIP_SETUP"] == "1"
        assert item["JUNITXML_PREFIX"] == str(repo.logs / "junit" / "s") + "/"
        assert "TEST_FILTER" not in whole
        assert "TE_CI_SKIP_SETUP" not in whole
        assert whole["JUNITXML_PREFIX"] == str(repo.logs / "junit" / "o") + "/"
        for found in (item, whole):
            assert found["JUNITXML_SUFFIX"] == ".xml"
            assert found["PYTEST_TIMEOUT"] == "77"
            assert found["MINE"] == "kept"
            assert (found["TEST_LEVEL"], found["TEST_SGPU"], found["TEST_MGPU"]) == ("1", "1", "")
            assert not {"TE_CI_LIST_ITEMS", "TE_CI_SETUP_ONLY", "TE_CI_SKIP_CHECK_SUPPORTED"} & found.keys()

    def test_listings(self, repo):
        repo.suite("s", {"a": "cases 1"}, head=f'[ "$TE_CI_LIST_ITEMS" != 1 ] || {{ {self.SHOW}; }} >"seen.$$"')
        assert repo.run(env=self.FOREIGN | {"TEST_FILTER": "a"}).code == 0
        texts = [path.read_text(encoding="utf-8") for path in repo.path.glob("seen.*")]  # the two run side by side
        both = [dict(line.split("=", 1) for line in text.splitlines()) for text in texts]
        assert len(both) == 2
        assert sorted(found.get("TE_CI_SKIP_CHECK_SUPPORTED", "") for found in both) == ["", "1"]
        for found in both:
            assert found["TE_CI_LIST_ITEMS"] == "1"
            assert not {"TEST_FILTER", "TE_CI_SETUP_ONLY", "TE_CI_SKIP_SETUP", "JUNITXML_PREFIX"} & found.keys()

    def test_setup(self, repo):
        repo.suite("s", {"a": "cases 1"}, head=f"setup={self.SHOW!r}")
        assert repo.run(env=self.FOREIGN).code == 0
        found = dict(line.split("=", 1) for line in (repo.logs / "setup/s.log").read_text().splitlines())
        assert found["TE_CI_SETUP_ONLY"] == "1"
        assert not {"TEST_FILTER", "TE_CI_LIST_ITEMS", "TE_CI_SKIP_SETUP"} & found.keys()
        assert [name for name in found if name.endswith("VISIBLE_DEVICES")], "a setup has a device"

    def test_families_that_the_caller_chose(self, repo):
        repo.suite("s", {"a": f"{self.SHOW}; cases 1"})
        assert repo.run(env={"TEST_MGPU": "1"}).code == 0
        found = (repo.logs / "items/s.a.log").read_text().splitlines()
        assert "TEST_MGPU=1" in found
        assert not [line for line in found if line.startswith("TEST_SGPU")]
