"""The shell library, run for real: what a script lists, what it runs, and how it ends."""

from __future__ import annotations

import shlex
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from pytest_sgpu.core.items import glob_escape

SHOW = 'show() { printf "args:"; printf "<%s>" "$@"; echo; te_ci_ran; }\n'
THREE = f"""{SHOW}
te_ci_line 1 one show a
te_ci_line 2 two show b
te_ci_line 3 three show c
te_ci_finish"""


class TestLevels:
    @pytest.mark.parametrize(
        ("level", "tags"),
        [
            ("1", ["one"]),
            ("2", ["one", "two"]),
            ("0", []),
            ("", ["one", "two", "three"]),
            ("all", ["one", "two", "three"]),
            ("-1", ["one", "two", "three"]),
            ("02", ["one", "two"]),
            ("99999999999999999999", ["one", "two", "three"]),
        ],
    )
    def test_a_line_runs_up_to_the_level(self, suite, level, tags):
        assert suite(THREE, TE_CI_LIST_ITEMS="1", TEST_LEVEL=level).items == tags
        assert suite(THREE, TEST_LEVEL=level).proofs == tags

    def test_unset_is_everything(self, suite):
        assert suite(THREE, TE_CI_LIST_ITEMS="1").items == ["one", "two", "three"]

    @pytest.mark.parametrize("line", ["x tag", "'' tag", "1 ''", "1 'a b'", "1 'a\tb'", "1 'a\rb'", "1"])
    def test_a_line_without_level_or_tag_is_an_error(self, suite, line):
        for mode in ({}, {"TE_CI_LIST_ITEMS": "1"}):
            done = suite(f"te_ci_line {line} true\nte_ci_finish", **mode)
            assert done.code == 2
            assert done.err.startswith("te_ci: demo: ")
            assert not done.items


class TestListing:
    def test_runs_nothing_and_sets_nothing_up(self, suite, tmp_path):
        lines = "prep() { touch setup; }\nrun() { touch ran; }\nte_ci_setup prep\nte_ci_line 1 a run\nte_ci_finish"
        done = suite(lines, TE_CI_LIST_ITEMS="1")
        assert (done.code, done.out, done.err) == (0, "TE_CI_ITEM a\n", "")
        assert {path.name for path in tmp_path.iterdir()} == {"demo.sh"}

    def test_listing_wins_over_setup(self, suite):
        done = suite("te_ci_setup false\nte_ci_line 1 a true\nte_ci_finish", TE_CI_LIST_ITEMS="1", TE_CI_SETUP_ONLY="1")
        assert (done.code, done.items) == (0, ["a"])

    def test_zero_and_empty_switches_are_off(self, suite):
        done = suite(THREE, TE_CI_LIST_ITEMS="0", TE_CI_SETUP_ONLY="", TE_CI_SKIP_SETUP="0", TEST_LEVEL="1")
        assert (done.items, done.proofs) == ([], ["one"])

    def test_a_tag_used_twice_fails_it(self, suite):
        done = suite(
            "te_ci_line 1 a true\nte_ci_line 1 a true\nte_ci_line 1 b true\nte_ci_finish", TE_CI_LIST_ITEMS="1"
        )
        assert done.code == 2
        assert "tag 'a' is used twice" in done.err

    def test_many_lines(self, suite):
        lines = "\n".join(f"te_ci_line 1 tag{n} true" for n in range(300))
        assert suite(f"{lines}\nte_ci_finish", TE_CI_LIST_ITEMS="1").items == [f"tag{n}" for n in range(300)]


class TestFamilies:
    LINES = "te_ci_line 1 s true\nte_ci_family mgpu 4\nte_ci_line 1 m true\nte_ci_family sgpu\nte_ci_line 1 t true\n"

    @pytest.mark.parametrize(
        ("env", "items"),
        [
            ({}, ["s", "t"]),
            ({"TEST_SGPU": "1", "TEST_MGPU": ""}, ["s", "t"]),
            ({"TEST_SGPU": "", "TEST_MGPU": "1"}, ["m 4"]),
            ({"TEST_MGPU": "1"}, ["m 4"]),
            ({"TEST_SGPU": "1", "TEST_MGPU": "1"}, ["s", "m 4", "t"]),
            ({"TEST_SGPU": "0"}, []),
        ],
    )
    def test_which_lines_are_on(self, suite, env, items):
        assert suite(self.LINES + "te_ci_finish", TE_CI_LIST_ITEMS="1", **env).items == items

    @pytest.mark.parametrize("words", ["", "mgpu", "mgpu 0", "mgpu two", "mgpu -1", "sgpu 2", "both"])
    def test_anything_else_is_an_error(self, suite, words):
        done = suite(f"te_ci_family {words}\nte_ci_finish", TE_CI_LIST_ITEMS="1")
        assert done.code == 2
        assert "te_ci_family" in done.err


class TestFilter:
    @pytest.mark.parametrize(
        ("text", "tags"),
        [
            ("two", ["two"]),
            ("t*", ["two", "three"]),
            ("one three", ["one", "three"]),
            ("  three\n\tone ", ["one", "three"]),
            ("[ot]??", ["one", "two"]),
            ("", ["one", "two", "three"]),
        ],
    )
    def test_globs_over_the_whole_tag(self, suite, text, tags):
        assert suite(THREE, TEST_FILTER=text).proofs == tags
        assert suite(THREE, TEST_FILTER=text, TE_CI_LIST_ITEMS="1").items == tags

    def test_a_glob_is_never_a_file_name(self, suite, tmp_path):
        (tmp_path / "one.txt").touch()
        (tmp_path / "two").touch()
        assert suite(THREE, TEST_FILTER="t* o*").proofs == ["one", "two", "three"]

    @pytest.mark.parametrize("text", ["wo", "tw", "TWO", "two.x"])
    def test_no_line_is_exit_code_5(self, suite, text):
        done = suite(THREE, TEST_FILTER=text)
        assert (done.code, done.proofs) == (5, [])
        assert f"TEST_FILTER selects no line: {text}" in done.err

    def test_the_callers_ifs_and_noglob_survive(self, suite):
        lines = f"{SHOW}IFS=:\nset -f\nte_ci_line 1 a.b show x:y\ncase $- in *f*) echo noglob ;; esac\nset +f\n"
        lines += 'te_ci_line 1 c show\ncase $- in *f*) ;; *) echo glob ;; esac\necho "<$IFS>"\nte_ci_finish'
        done = suite(lines, TEST_FILTER="a* c")
        assert done.proofs == ["a.b", "c"]
        assert "args:<x:y>" in done.out
        assert {"noglob", "glob", "<:>"} <= set(done.out.splitlines())


HOSTILE = [
    "$(touch${IFS}pwned)",
    "`touch${IFS}pwned`",
    ";touch${IFS}pwned;",
    "a*b",
    "[a]",
    "a?",
    "back\\slash",
    "'single'",
    '"double"',
    "../up",
    "a/b",
    "100%d",
    "-n",
    "&&",
    "#x",
    "~",
    "!x",
    "ümlaut",
]


class TestTagsAreData:
    LINES = SHOW + "\n".join(f"te_ci_line 1 {shlex.quote(tag)} show" for tag in [*HOSTILE, "axb", "a", "ab"])

    def test_listed_as_they_are(self, suite, tmp_path):
        done = suite(self.LINES + "\nte_ci_finish", TE_CI_LIST_ITEMS="1")
        assert done.items == [*HOSTILE, "axb", "a", "ab"]
        assert not (tmp_path / "pwned").exists()

    @pytest.mark.parametrize("tag", HOSTILE)
    def test_the_escaped_tag_selects_its_line_only(self, suite, tmp_path, tag):
        done = suite(self.LINES + "\nte_ci_finish", TEST_FILTER=glob_escape(tag), TE_CI_SKIP_SETUP="1")
        assert (done.code, done.proofs) == (0, [tag])
        assert not (tmp_path / "pwned").exists()

    def test_a_plain_run_leaves_its_folder_alone(self, suite, tmp_path):
        xml = 'xml() { echo "<x/>" >"$TE_CI_JUNITXML"; }\n'
        assert suite(xml + "te_ci_line 1 ../../../up xml\nte_ci_line 1 a%2F xml\nte_ci_finish").code == 0
        folder = tmp_path / "test-results" / "plain" / "demo"
        assert {path.name for path in folder.iterdir()} == {"..%2F..%2F..%2Fup.xml", "a%252F.xml"}


class TestSetup:
    LINES = "prep() { echo prepared; cd /; }\nte_ci_setup prep\n"
    TWO = "where() { pwd; te_ci_ran; }\nte_ci_line 1 a where\nte_ci_line 1 b where\nte_ci_finish"

    def test_once_before_the_first_line(self, suite, tmp_path):
        done = suite(self.LINES + self.TWO)
        assert done.out.count("prepared") == 1
        assert done.out.index("prepared") < done.out.index("TE_CI_RAN a")
        assert done.out.count(f"\n{tmp_path}\n") == 2, "the setup's cd must not reach the lines"

    def test_only(self, suite):
        done = suite(self.LINES + self.TWO, TE_CI_SETUP_ONLY="1")
        assert (done.code, done.proofs) == (0, [])
        assert "prepared" in done.out

    def test_only_without_a_setup(self, suite):
        done = suite(self.TWO, TE_CI_SETUP_ONLY="1")
        assert (done.code, done.out, done.err) == (0, "", "")

    def test_skipped(self, suite):
        assert "prepared" not in suite(self.LINES + self.TWO, TE_CI_SKIP_SETUP="1").out

    def test_not_when_nothing_runs(self, suite):
        assert "prepared" not in suite(self.LINES + self.TWO, TEST_LEVEL="0").out

    @pytest.mark.parametrize("env", [{}, {"TE_CI_SETUP_ONLY": "1"}])
    def test_its_failure_is_the_exit_code_and_runs_nothing(self, suite, env):
        done = suite("prep() { exit 41; }\nte_ci_setup prep\n" + self.TWO, **env)
        assert (done.code, done.proofs) == (41, [])
        assert "the setup failed with exit code 41" in done.err

    def test_set_e_holds_inside(self, suite):
        assert suite("prep() { false; true; }\nte_ci_setup prep\n" + self.TWO).code == 1

    @pytest.mark.parametrize("lines", ["te_ci_setup", "te_ci_setup a b", "te_ci_setup true\nte_ci_setup true"])
    def test_misuse(self, suite, lines):
        assert suite(lines, TE_CI_LIST_ITEMS="1").code == 2


class TestProbes:
    YES = "yes_() { echo asked >>asked; echo chatter; }\nno_() { echo asked >>asked; return 1; }\n"

    @staticmethod
    def asked(folder: Path) -> int:
        return len((folder / "asked").read_text().splitlines()) if (folder / "asked").exists() else 0

    def test_asked_once_and_remembered(self, suite, tmp_path):
        lines = self.YES + "for t in a b c; do\nif te_ci_probe yes_ $t; then te_ci_line 1 y.$t true; fi\n"
        lines += "if te_ci_probe yes_ 1; then te_ci_line 1 z.$t true; fi\n"
        lines += "if te_ci_probe no_; then te_ci_line 1 n.$t true; fi\ndone\nte_ci_finish"
        done = suite(lines, TE_CI_LIST_ITEMS="1")
        assert done.items == ["y.a", "z.a", "y.b", "z.b", "y.c", "z.c"]
        assert done.out.count("chatter") == 0
        assert self.asked(tmp_path) == 5

    def test_what_exists(self, suite, tmp_path):
        lines = self.YES + "te_ci_requires no_\nte_ci_line 1 a true\nif te_ci_probe no_; then te_ci_line 1 b true; fi\n"
        assert suite(lines, TE_CI_LIST_ITEMS="1").items == []
        assert self.asked(tmp_path) == 1
        assert suite(lines, TE_CI_LIST_ITEMS="1", TE_CI_SKIP_CHECK_SUPPORTED="1").items == ["a", "b"]
        assert self.asked(tmp_path) == 1

    def test_a_requirement_is_asked_only_for_a_line_that_would_run(self, suite, tmp_path):
        lines = self.YES + SHOW + "te_ci_requires yes_ with words\nte_ci_line 3 high show\nte_ci_requires no_\n"
        lines += "te_ci_line 1 low show\nte_ci_requires\nte_ci_line 1 free show\nte_ci_finish"
        assert suite(lines, TEST_LEVEL="1", TEST_FILTER="free").proofs == ["free"]
        assert self.asked(tmp_path) == 0
        done = suite(lines, TEST_LEVEL="1")
        assert (done.code, done.proofs) == (0, ["free"])
        assert "te_ci: low: skipped, not here: no_" in done.out
        assert "1 run, 1 skipped here" in done.out

    def test_an_item_was_asked_when_it_was_listed(self, suite, tmp_path):
        lines = self.YES + SHOW + "te_ci_requires no_\nte_ci_line 1 a show\nte_ci_finish"
        assert suite(lines, TEST_FILTER="a", TE_CI_SKIP_SETUP="1").proofs == ["a"]
        assert self.asked(tmp_path) == 0

    def test_modules(self, suite):
        lines = "te_ci_requires te_ci_module json\nte_ci_line 1 a true\nte_ci_requires te_ci_module no.such.module\n"
        done = suite(lines + "te_ci_line 1 b true\nte_ci_finish", TE_CI_LIST_ITEMS="1")
        assert (done.items, done.err) == (["a"], "")


class TestRunning:
    def test_the_worst_exit_code_and_a_summary(self, suite):
        lines = (
            SHOW
            + "te_ci_line 1 a show\nte_ci_line 1 b exit 3\nte_ci_line 1 c exit 7\nte_ci_line 1 d exit 4\nte_ci_finish"
        )
        done = suite(lines)
        assert done.code == 7
        assert done.out.endswith(
            "te_ci: demo: 4 run, 0 skipped here, worst exit code 7\n"
            "te_ci:   exit code 3: b\nte_ci:   exit code 7: c\nte_ci:   exit code 4: d\n"
        )

    @pytest.mark.parametrize("options", ["", "set -e", "set -u", "set -eu"])
    def test_the_callers_set_e_holds_in_a_line_and_no_further(self, suite, options):
        lines = "fail() { false; echo went on; }\nte_ci_line 1 a fail\necho after\nte_ci_line 1 b exit 1\nte_ci_finish"
        done = suite(lines, options=options)
        assert ("went on" in done.out) == ("e" not in options.removeprefix("set"))
        assert "after" in done.out
        assert done.code == 1

    def test_a_tag_used_twice_fails_but_the_rest_runs(self, suite):
        done = suite(SHOW + "te_ci_line 1 a show\nte_ci_line 1 a show again\nte_ci_line 1 b show\nte_ci_finish")
        assert (done.code, done.proofs) == (2, ["a", "b"])
        assert "tag 'a' is used twice" in done.err

    def test_a_tag_used_twice_fails_every_item(self, suite):
        lines = SHOW + "te_ci_line 1 a show\nte_ci_line 1 b show\nte_ci_line 1 a show\nte_ci_finish"
        done = suite(lines, TEST_FILTER="b", TE_CI_SKIP_SETUP="1")
        assert (done.code, done.proofs) == (2, ["b"])

    def test_nothing_to_run_is_said(self, suite):
        done = suite(THREE, TEST_LEVEL="0")
        assert done.code == 0
        assert "0 run" in done.out

    def test_assignments_before_a_line_reach_its_command_only(self, suite):
        lines = "show() { printenv FUSED || echo unset; te_ci_ran; }\n"
        lines += "FUSED='1 2' te_ci_line 1 a show\nte_ci_line 1 b show\nte_ci_finish"
        done = suite(lines)
        assert [line for line in done.out.splitlines() if line in ("1 2", "unset")] == ["1 2", "unset"]

    def test_lines_do_not_touch_each_other(self, suite, tmp_path):
        lines = 'mess() { cd /; export X=1; te_ci_ran; }\nlook() { echo "${X-none} $PWD"; te_ci_ran; }\n'
        done = suite(lines + "te_ci_line 1 a mess\nte_ci_line 1 b look\nte_ci_finish")
        assert f"none {tmp_path}" in done.out

    def test_arguments_survive(self, suite):
        done = suite(SHOW + "te_ci_line 1 a show 'a b' '*' '' \"it's\" '$x'\nte_ci_finish")
        assert "args:<a b><*><><it's><$x>" in done.out

    def test_without_finish_failures_still_count(self, suite):
        done = suite("te_ci_line 1 a exit 3\ntrue")
        assert done.code == 3
        assert "worst exit code 3" in done.out

    def test_ending_early_keeps_the_code(self, suite):
        assert suite("te_ci_line 1 a exit 3\nexit 9").code == 9
        assert suite("te_ci_line 1 a exit 3\nexit 0").code == 3

    def test_what_a_script_knows_of_itself(self, suite, tmp_path):
        assert suite('echo "$te_ci_name $te_ci_dir"\nte_ci_finish').out.startswith(f"demo {tmp_path}\n")

    def test_an_item_prints_nothing_of_its_own(self, suite):
        done = suite("quiet() { :; }\nte_ci_line 1 a quiet\nte_ci_finish", TEST_FILTER="a", TE_CI_SKIP_SETUP="1")
        assert (done.code, done.out, done.err) == (0, "", "")


class TestProof:
    def test_a_program_proves_that_it_ran_also_when_it_fails(self, suite):
        done = suite("te_ci_program 1 good printf partial\nte_ci_program 1 bad sh -c 'exit 3'\nte_ci_finish")
        assert (done.code, done.proofs) == (3, ["good", "bad"])

    def test_a_program_that_is_not_there_fails_without_proof(self, suite):
        done = suite("te_ci_program 1 gone ./no-such-program --quick\nte_ci_finish")
        assert (done.code, done.proofs) == (127, [])
        assert "te_ci: gone: program not found: ./no-such-program" in done.err

    def test_outside_a_line_there_is_none(self, suite):
        assert suite("te_ci_ran").code != 0


class TestJUnit:
    LINES = 'echo_() { echo "xml=$TE_CI_JUNITXML tag=$TE_CI_TAG"; te_ci_ran; }\nte_ci_line 1 a.b echo_\nte_ci_finish'

    def test_prefix_tag_suffix(self, suite, tmp_path):
        done = suite(self.LINES, JUNITXML_PREFIX=f"{tmp_path}/x/y-", JUNITXML_SUFFIX=".1.xml")
        assert f"xml={tmp_path}/x/y-a.b.1.xml tag=a.b\n" in done.out
        assert (tmp_path / "x").is_dir()

    def test_relative_becomes_absolute(self, suite, tmp_path):
        assert f"xml={tmp_path}/out/a.b.xml " in suite(self.LINES, JUNITXML_PREFIX="out/").out

    def test_a_plain_run_has_its_own_folder(self, suite, tmp_path):
        assert f"xml={tmp_path}/test-results/plain/demo/a.b.xml " in suite(self.LINES).out

    def test_an_old_file_proves_nothing(self, suite, tmp_path):
        (tmp_path / "a.b.xml").write_text("old")
        suite(self.LINES, JUNITXML_PREFIX=f"{tmp_path}/")
        assert not (tmp_path / "a.b.xml").exists()


class TestPytest:
    @pytest.fixture(autouse=True)
    def tests(self, tmp_path):
        (tmp_path / "pytest.ini").write_text("[pytest]\n")
        (tmp_path / "ops").mkdir()
        (tmp_path / "ops" / "test_two.py").write_text("def test_a(): pass\ndef test_b(): pass\n")

    def cases(self, path: Path) -> list[str | None]:
        return [case.get("name") for case in ET.parse(path).iter("testcase")]

    def test_tags_come_from_files(self, suite):
        lines = "te_ci_test 1 ck ops/test_two.py\nte_ci_test 1 ck.amax+triton ops/test_two.py -k a\n"
        lines += "te_ci_test 1 ck.a ops/test_two.py::test_a\nte_ci_tests ops\nte_ci_test 1 ck test_two.py\nte_ci_finish"
        tags = ["ops.test_two.ck", "ops.test_two.ck.amax+triton", "ops.test_two.ck.a", "test_two.ck"]
        assert suite(lines, TE_CI_LIST_ITEMS="1").items == tags

    def test_runs_and_leaves_its_junit_file(self, suite, tmp_path):
        lines = "te_ci_test 1 cpu ops/test_two.py\nte_ci_test 1 cpu.a ops/test_two.py -k 'test_a or none'\nte_ci_finish"
        assert suite(lines, JUNITXML_PREFIX=f"{tmp_path}/j/").code == 0
        assert self.cases(tmp_path / "j" / "ops.test_two.cpu.xml") == ["test_a", "test_b"]
        assert self.cases(tmp_path / "j" / "ops.test_two.cpu.a.xml") == ["test_a"]
        assert not (tmp_path / ".pytest_cache").exists()

    def test_an_empty_selection_is_exit_code_5(self, suite):
        assert suite("te_ci_pytest 1 none ops -k no_such_test\nte_ci_finish").code == 5

    def test_another_interpreter(self, suite, tmp_path):
        fake = tmp_path / "my python"
        fake.write_text('#!/bin/sh\nprintf "<%s>" "$@"\n')
        fake.chmod(0o755)
        done = suite("te_ci_pytest 1 t x.py\nte_ci_finish", TE_CI_PYTHON=str(fake), JUNITXML_PREFIX="/tmp/")
        assert "<-m><pytest><-p><no:cacheprovider><--junitxml=/tmp/t.xml><x.py>" in done.out
