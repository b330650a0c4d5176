"""Both JUnit files: pytest's own ``--junitxml`` over the items, and the aggregate of the tests inside them."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import pytest


class TestOfPytest:
    """One case per item, with its true duration and where it ran."""

    @pytest.fixture
    def cases(self, repo):
        repo.suite("s", {"a": "sleep 0.4; cases 3", "b": "cases 1 1; exit 3", "c": "exit 0"}, head="setup=:")
        repo.suite("t", {"d": "cases 1"}, head="setup='exit 9'")
        repo.weights("s/a 12.5\n")
        done = repo.run("--junitxml=own.xml", "--durations=3")
        assert done.code == 1
        self.done = done
        root = ET.parse(repo.path / "own.xml").getroot()
        found = {}
        for case in root.iter("testcase"):
            properties = {p.get("name"): p.get("value") for p in case.iter("property")}
            found[case.get("name")] = (case, properties)
        assert len(list(root.iter("testcase"))) == 4
        return found

    def test_them(self, cases):
        assert sorted(cases) == ["a", "b", "c", "d"]
        case, properties = cases["a"]
        assert 0.4 <= float(case.get("time")) < 30
        assert properties["gpu"] in ("gpu0", "gpu1")
        assert (properties["estimate"], properties["exit_code"]) == ("12.5", "0")
        assert properties["log"] == "test-results/logs/items/s.a.log"
        case, properties = cases["b"]
        failure = case.find("failure")
        assert failure is not None
        assert "mod::test_bad_1" in (failure.text or "")
        assert (properties["estimate"], properties["exit_code"]) == ("unknown", "3")
        assert cases["c"][0].find("failure") is not None
        assert cases["d"][0].find("error") is not None
        assert cases["d"][1]["exit_code"] == "9"
        assert re.search(r"0\.\d+s call +suite\.conf::s::a", self.done.out)

    def test_a_stopped_run_has_no_case_for_what_never_began(self, repo):
        repo.suite("s", {"a": "exit 1", "b": "cases 1"})
        assert repo.run("-x", "--junitxml=own.xml", gpus=1).code == 1
        names = [case.get("name") for case in ET.parse(repo.path / "own.xml").getroot().iter("testcase")]
        assert names == ["a"]


class TestNames:
    """Readers go by classname and name, some by the suite's name: none may be there twice."""

    def test_the_same_tests_in_four_items(self, repo):
        body = '[ "$name.$tag" = torch.numerics.flash ] && { cases 1 1; exit 1; }; cases 2'
        for label in ("torch", "jax"):
            lines = {"numerics.ck": body, "numerics.flash": body}
            repo.suite(label, lines, head=f"name={label}")
        assert repo.run().code == 1
        junit = repo.junit()
        assert junit.results == {"passed": 7, "failure": 1}
        suites = [suite.get("name") for suite in junit.root]
        assert sorted(suites) == ["jax/numerics.ck", "jax/numerics.flash", "torch/numerics.ck", "torch/numerics.flash"]
        names = [(case.classname, case.name) for case in junit.cases]
        assert len(set(names)) == 8
        (failed,) = [case for case in junit.cases if case.result == "failure"]
        assert "torch" in failed.classname + failed.name
        assert "flash" in failed.classname + failed.name
        assert (junit.root.get("tests"), junit.root.get("failures")) == ("8", "1")
        for label in ("torch", "jax"):
            assert len(repo.junit(f"test-results/logs/suites/{label}.xml").cases) == 4


class TestValues:
    """Times, control bytes and counts that readers choke on."""

    TIMES = ("2,345.678", "0,250", "-1.5", "NaN", "inf", "", None, "0:00:01.250000", "2.5E8", "0.1234567")

    def test_times(self, repo):
        cases = "".join(
            f'<testcase classname="t" name="n{number}"' + (f' time="{time}"' if time is not None else "") + "/>"
            for number, time in enumerate(self.TIMES)
        )
        repo.file(
            "times.xml", f'<testsuites><testsuite name="x" tests="3" time="2,400.0">{cases}</testsuite></testsuites>'
        )
        repo.suite("v", {"times": 'cp "$top/times.xml" "$xml"'})
        assert repo.run().code == 0
        text = repo.left("report/junit.xml")
        junit = repo.junit()
        assert len(junit.cases) == len(self.TIMES)
        for time in re.findall(r' time="([^"]*)"', text):
            assert re.fullmatch(r"\d+(\.\d{1,3})?", time), time
        assert next(case.time for case in junit.cases if case.name.endswith("n0")) == "2345.678"
        assert repo.learned()["v/times"] < 100

    def test_a_control_byte(self, repo):
        body = (
            '<testsuite name="x" tests="4"><testcase classname="c" name="before_1"/>'
            '<testcase classname="c" name="before_2"/><testcase classname="c" name="bad"><failure message="m">'
            'here \x12 it is</failure></testcase><testcase classname="c" name="after"/></testsuite>'
        )
        repo.file("control.xml", body)
        repo.suite("v", {"a": 'cp "$top/control.xml" "$xml"; exit 1'})
        assert repo.run().code == 1
        junit = repo.junit()
        names = [case.name for case in junit.cases if case.result == "passed"]
        assert ["before_1" in name or "before_2" in name for name in names[:2]] == [True, True]
        assert junit.results["error"] == 1
        assert repo.outcomes()["v/a"]["junit"]["damage"]

    def test_counts_that_do_not_fit(self, repo):
        """As an older pytest writes it: four elements for three tests, and says five."""
        body = (
            '<testsuites><testsuite name="pytest" errors="2" failures="1" tests="5">'
            '<testcase classname="t" name="passes"><error message="failed on teardown">boom</error></testcase>'
            '<testcase classname="t" name="fails"><failure message="assert 0">x</failure></testcase>'
            '<testcase classname="t" name="fails"><error message="failed on teardown">boom</error></testcase>'
            '<testcase classname="t" name="fine"/></testsuite></testsuites>'
        )
        repo.file("teardown.xml", body)
        repo.suite("v", {"a": 'cp "$top/teardown.xml" "$xml"; exit 1'})
        assert repo.run().code == 1
        junit = repo.junit()
        assert junit.root.get("tests") != "5"
        assert junit.results["passed"] == 1
        assert junit.results["failure"] == 1
        names = [(case.classname, case.name) for case in junit.cases]
        assert len(set(names)) == len(names)

    def test_an_attack_by_entities(self, repo):
        bomb = '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]><testsuite name="&b;"/>'
        repo.file("bomb.xml", bomb)
        secret = repo.file("secret", "do not tell")
        repo.file(
            "file.xml",
            f'<!DOCTYPE x [<!ENTITY f SYSTEM "file://{secret}">]><testsuite name="x" tests="1">'
            '<testcase classname="c" name="n"><failure message="m">&f;</failure></testcase></testsuite>',
        )
        repo.suite("v", {"bomb": 'cp "$top/bomb.xml" "$xml"', "file": 'cp "$top/file.xml" "$xml"'})
        assert repo.run().code == 1
        assert "do not tell" not in repo.left("report/junit.xml")
        assert repo.status()["v/bomb"] == "NO_TESTS"

    def test_a_link_out_of_the_run_directory_is_not_read(self, repo):
        repo.file("elsewhere.xml", '<testsuite name="x" tests="1"><testcase classname="c" name="other"/></testsuite>')
        repo.suite("v", {"a": 'ln -s "$top/elsewhere.xml" "$xml"', "fifo": 'mkfifo "$xml"; ran'})
        assert repo.run().code == 1
        assert repo.status() == {"v/a": "NO_TESTS", "v/fifo": "PASSED"}
