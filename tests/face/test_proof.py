"""An item that ran nothing is never green: proof, its one exception, and JUnit files that are none."""

from __future__ import annotations

import pytest

TWO_TESTS = "def test_first():\n    pass\n\n\ndef test_second():\n    pass\n"
INNER = 'inner() { python3 -m pytest -q -p no:cacheprovider --junitxml="$xml" "$top/inner_two.py" "$@"; }'


class TestEmptySelections:
    """A line whose selection is empty, with the exit code that its pytest gave or without."""

    @pytest.fixture
    def four_ways(self, repo):
        repo.file("inner_two.py", TWO_TESTS)
        lines = {
            "full": "inner",
            "none5": "inner -k nothing_has_this_name",
            "none0": "inner -k nothing_has_this_name; [ $? -eq 5 ]",
            "quiet": "echo nothing to do here",
        }
        repo.suite("e", lines, head=INNER)
        return repo

    def test_they_fail(self, four_ways):
        done = four_ways.run()
        assert done.code == 1
        assert four_ways.status() == {
            "e/full": "PASSED",
            "e/none5": "NO_TESTS",
            "e/none0": "NO_TESTS",
            "e/quiet": "NO_TESTS",
        }
        reasons = {key: one["reason"] for key, one in four_ways.outcomes().items()}
        assert "no test was selected" in reasons["e/none5"]
        assert "ran nothing" in reasons["e/none0"]
        assert "TE_CI_RAN quiet" in reasons["e/quiet"]
        assert four_ways.left("suites/e.log.rc") == "5\n"
        assert four_ways.learned().keys() == {"e/full"}
        junit = four_ways.junit()
        assert [case.result for case in junit.of("e/full")] == ["passed", "passed"]
        for key in ("e/none5", "e/none0", "e/quiet"):
            assert [case.result for case in junit.of(key)] == ["error"], key
        line = next(line for line in done.out.splitlines() if "e/none5" in line and "rc=5" in line)
        assert "NO TESTS" in line
        assert "failed" not in line.lower()

    def test_the_exception(self, four_ways):
        done = four_ways.run("-o", "sgpu_allow_empty=e/*")
        # Documented: it excuses exit code 0 only. An exit code 5 is the script's own word that it failed.
        assert done.code == 1
        status = four_ways.status()
        assert (status["e/none0"], status["e/quiet"], status["e/none5"]) == ("PASSED", "PASSED", "NO_TESTS")
        assert "passed without proof" in done.out
        schedule = four_ways.left("report/schedule.md")
        assert "## Passed without proof (2)" in schedule
        assert four_ways.learned().keys() == {"e/full"}

    def test_all_tests_skipped_is_said(self, repo):
        case = '<testcase classname="m" name="t"><skipped message="no device"/></testcase>'
        repo.suite("s", {"a": f'printf \'%s\' \'<testsuite name="x" tests="1">{case}</testsuite>\' >"$xml"'})
        done = repo.run("-rA")
        assert done.code == 0
        assert repo.outcomes()["s/a"]["reason"] == "every test was skipped (1)"
        assert "PASSED, EVERY TEST SKIPPED s/a" in done.out
        assert "1 item passed, but every test inside was skipped:" in done.out
        assert "## Passed, but every test was skipped (1)" in repo.left("report/schedule.md")
        assert not repo.learned()
        assert repo.junit().results == {"skipped": 1}


class TestTheProgramIsNotThere:
    """``sgpu_allow_empty`` goes by the whole key, and what it excuses teaches nothing."""

    @pytest.fixture
    def bench(self, repo):
        missing = 'if [ ! -f "$top/attention.py" ]; then echo "attention.py is not there"; exit 0; fi; note'
        repo.suite("torch", {"benchmark": missing, "unit": "cases 3"})
        repo.weights("torch/benchmark 200.0\ntorch/unit 5.0\n")
        return repo

    def test_it_fails(self, bench):
        assert bench.run().code == 1
        assert bench.status()["torch/benchmark"] == "NO_TESTS"
        assert bench.learned()["torch/benchmark"] == 200.0

    def test_the_glob_excuses_it(self, bench):
        done = bench.run("-o", "sgpu_allow_empty=torch/benchmark")
        assert done.code == 0
        assert "PASSED WITHOUT PROOF" in done.out
        assert "- `torch/benchmark`" in bench.left("report/schedule.md").split("## Passed without proof")[1]
        assert bench.learned()["torch/benchmark"] == 200.0  # 0 s of nothing must not drag it down
        assert bench.learned()["torch/unit"] < 5.0

    @pytest.mark.parametrize("glob", ["benchmark", "torch/bench", "torch", "*/bench"])
    def test_another_glob_does_not(self, bench, glob):
        done = bench.run("-o", f"sgpu_allow_empty={glob}")
        assert done.code == 1
        assert bench.status()["torch/benchmark"] == "NO_TESTS"
        assert f"matches no key: '{glob}'" in done.out


class TestProofByALine:
    def test_which_lines_count(self, repo):
        lines = {
            "a": "echo TE_CI_RAN a",
            "b": "echo TE_CI_RAN a",
            "c": "echo ' TE_CI_RAN c'",
            "d": "echo TE_CI_RAN d.more",
            "e": "echo TE_CI_RAN",
            "f": "printf 'TE_CI_RAN f'",
            "g": "printf 'x\\377\\nTE_CI_RAN g\\r\\nmore\\n'",
            "h": "echo TE_CI_RAN h >&2",
        }
        repo.suite("s", lines)
        assert repo.run().code == 1
        passed = {key for key, status in repo.status().items() if status == "PASSED"}
        assert {"s/a", "s/f", "s/g"} <= passed
        assert not passed & {"s/b", "s/c", "s/d", "s/e"}

    def test_behind_a_flood_of_output(self, repo):
        repo.suite("s", {"a": "head -c 3000000 /dev/zero | tr '\\0' x; echo; ran; head -c 3000000 /dev/zero; echo"})
        assert repo.run().code == 0

    def test_a_file_of_another_tag_is_no_proof(self, repo):
        repo.suite("s", {"a": 'xml=$JUNITXML_PREFIX"a2.xml"; cases 1', "a2": "cases 1"})
        assert repo.run(gpus=1).code == 1
        assert repo.status() == {"s/a": "NO_TESTS", "s/a2": "PASSED"}


class TestHollowAndCutFiles:
    """No proof, nothing counted that was not whole, and always a case that says what is wrong."""

    WHOLE = (
        '<testcase classname="mod" name="test_one" time="0.5"/>'
        '<testcase classname="mod" name="test_two" time="0.5"><failure message="wrong sum">1 == 2</failure></testcase>'
        '<testcase classname="mod" name="test_three" time="0.5"/>'
    )
    FILES = {  # noqa: RUF012
        "good.xml": '<testsuites><testsuite name="x" tests="2"><testcase classname="m" name="a" time="0.1"/>'
        '<testcase classname="m" name="b" time="0.1"/></testsuite></testsuites>',
        "counts.xml": '<testsuites tests="25" failures="3"><testsuite name="x" tests="25" failures="3"/></testsuites>',
        "bare.xml": "<testsuites/>",
        "zero.xml": "",
        "text.xml": "3 passed in 0.1s\n",
        "cut.xml": f'<testsuites><testsuite name="x" tests="9" failures="1">{WHOLE}<testcase classname="mod" name="te',
    }

    @pytest.fixture
    def hollow(self, repo):
        for name, content in self.FILES.items():
            repo.file(f"files/{name}", content)
        lines = {name.removesuffix(".xml"): f'cp "$top/files/{name}" "$xml"' for name in self.FILES}
        lines["cutcrash"] = 'cp "$top/files/cut.xml" "$xml"; kill -SEGV $$'
        repo.suite("h", lines)
        return repo

    def test_them_all(self, hollow):
        done = hollow.run(gpus=3)
        assert done.code == 1
        assert hollow.status() == {
            "h/good": "PASSED",
            "h/counts": "NO_TESTS",
            "h/bare": "NO_TESTS",
            "h/zero": "NO_TESTS",
            "h/text": "NO_TESTS",
            "h/cut": "FAILED",
            "h/cutcrash": "CRASHED",
        }
        assert "SIGSEGV" in hollow.outcomes()["h/cutcrash"]["reason"]
        junit = hollow.junit()
        # good 2; four hollow ones 1 each; the two cut ones 3 and an error each
        assert len(junit.cases) == 2 + 4 + 2 * 4
        assert junit.results == {"passed": 2 + 2 * 2, "failure": 2, "error": 4 + 2}
        assert all(case.name for case in junit.cases)
        for name in ("counts", "bare", "zero", "text", "cut", "cutcrash"):
            (error,) = [case for case in junit.of(f"h/{name}") if case.result == "error"]
            assert error.message, name
        assert "SIGSEGV" in junit.of("h/cutcrash")[-1].message
        assert junit.root.get("tests") == "14"
        assert hollow.learned().keys() == {"h/good"}

    def test_a_cut_file_with_a_failing_exit_code(self, repo):
        repo.file("cut.xml", self.FILES["cut.xml"])
        repo.suite("h", {"a": 'cp "$top/cut.xml" "$xml"; exit 3'})
        assert repo.run().code == 1
        outcome = repo.outcomes()["h/a"]
        assert (outcome["status"], outcome["exit_code"], outcome["complete"]) == ("FAILED", 3, False)
        assert repo.learned() == {}


class TestFailingTestsUnderExitCodeZero:
    """An item's exit code is its verdict, but the failing tests inside are said aloud everywhere."""

    @pytest.fixture
    def lenient(self, repo):
        repo.suite("s", {"soft": "cases 2 3; exit 0", "fine": "cases 1"})
        return repo

    def test_warn(self, lenient):
        done = lenient.run(env={"GITHUB_ACTIONS": "true"})
        assert done.code == 0
        assert lenient.status() == {"s/soft": "PASSED", "s/fine": "PASSED"}
        assert "PASSED, BUT 3 TESTS FAILED" in done.out
        assert "exit code 0, but tests failed inside" in done.out.split("= sgpu =")[1]
        assert "Exit code 0, but tests failed inside (1)" in lenient.left("report/schedule.md")
        annotations = [line for line in done.out.splitlines() if line.startswith("::")]
        assert len(annotations) == 1
        assert annotations[0].startswith("::warning ")
        assert "s/soft" in annotations[0]
        assert lenient.junit().results == {"passed": 3, "failure": 3}
        assert lenient.left("suites/s.log.rc") == "0\n"

    def test_fail(self, lenient):
        done = lenient.run("-o", "sgpu_junit_failures=fail", env={"GITHUB_ACTIONS": "true"})
        assert done.code == 1
        assert lenient.status() == {"s/soft": "FAILED", "s/fine": "PASSED"}
        assert lenient.left("suites/s.log.rc") == "1\n"
        assert "mod::test_bad_1" in done.out
        assert any(line.startswith("::error ") for line in done.out.splitlines())
        assert lenient.learned().keys() == {"s/soft", "s/fine"}  # it really ran

    def test_anything_else_is_refused(self, lenient):
        done = lenient.run("-o", "sgpu_junit_failures=ignore")
        assert done.code == 4
        assert "sgpu_junit_failures" in done.errors
        assert "warn or fail" in done.errors
        assert not lenient.logs.exists()


class TestOpaqueSuites:
    """A script that knows nothing of the protocol is one item; its exit code is what there is."""

    def test_with_and_without_files(self, repo):
        case = '<testcase classname="m" name="%s"/>'
        suite = f'<testsuite name="x" tests="1">{case}</testsuite>'
        repo.opaque(
            "two",
            f"printf '{suite}' one >\"${{JUNITXML_PREFIX}}one$JUNITXML_SUFFIX\"\n"
            f"printf '{suite}' two >\"${{JUNITXML_PREFIX}}two$JUNITXML_SUFFIX\"",
        )
        repo.opaque("plain", "echo did its work")
        repo.opaque("broken", "echo it broke; exit 7")
        repo.opaque("shot", "kill -ABRT $$")
        done = repo.run()
        assert done.code == 1
        assert repo.status() == {"two": "PASSED", "plain": "PASSED", "broken": "FAILED", "shot": "CRASHED"}
        assert repo.outcomes()["plain"]["proof"] == "opaque"
        junit = repo.junit()
        assert sorted(case.name for case in junit.of("two")) == ["one", "two"]
        assert [case.result for case in junit.of("plain")] == ["passed"]
        (broken,) = junit.of("broken")
        assert broken.result in ("failure", "error")
        assert "7" in broken.message
        (shot,) = junit.of("shot")
        assert (shot.result, "SIGABRT" in shot.message) == ("error", True)
        assert repo.left("suites/broken.log.rc") == "7\n"
        assert repo.left("suites/shot.log.rc") == "134\n"
        assert repo.learned().keys() == {"two", "plain", "broken"}
        assert (repo.logs / "items" / "broken.whole.log").read_text() == "it broke\n"

    def test_it_is_one_item_whatever_it_prints(self, repo):
        repo.opaque("o", 'echo TE_CI_ITEM a; echo "list=${TE_CI_LIST_ITEMS-no} filter=${TEST_FILTER-no}" >>seen')
        repo.opaque("never", "echo started >>seen; exit 0")
        assert repo.run().code == 0
        assert sorted(repo.seen) == ["list=no filter=no", "started"]
        assert repo.status() == {"o": "PASSED", "never": "PASSED"}
