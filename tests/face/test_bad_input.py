"""Bad input: one clear line with its place and a hint, exit code 4, nothing written, nothing run."""

from __future__ import annotations

import os

import pytest


def refused(repo, *args, **options):
    """Run, and check what holds for every refusal. Gives the error lines."""
    before = repo.tree()
    done = repo.run(*args, **options)
    assert done.code == 4, done.text
    assert done.errors.startswith("ERROR: "), done.text
    assert "hint: " in done.errors, done.text
    assert repo.tree() == before, "something was written"
    assert repo.seen == [], "something ran"
    return done.errors


@pytest.fixture
def good(repo):
    repo.suite("good", {"a": "cases 1; note", "b": "cases 1; note"})
    return repo


class TestConf:
    @pytest.mark.parametrize(
        ("line", "words"),
        [
            ("x", ["log file"]),
            ("x x.log list", ["command"]),
            ("x x.log lst ./good.sh", ["unknown mode 'lst'", "list"]),
            ("good x.log list ./good.sh", ["label 'good'", "twice", "suite.conf:1"]),
            ("x good.log list ./good.sh", ["log name 'good.log'", "twice", "suite.conf:1"]),
            ("../x x.log list ./good.sh", ["label '../x'"]),
            ("ü x.log list ./good.sh", ["label 'ü'"]),
            ("x ../x.log list ./good.sh", ["log name '../x.log'"]),
            ("x x.log list './good.sh", ["quote"]),
            ("x x.log list ./not_there.sh", ["./not_there.sh", "not found"]),
            ("x x.log opaque no-such-program-4711", ["no-such-program-4711", "not found"]),
            ("x x.log list ./shim.sh", ["./shim.sh", "not executable"]),
            ("x x.log list ./folder", ["./folder", "directory"]),
            ("x x.log list ./good\0.sh", ["NUL"]),
        ],
    )
    def test_a_line(self, good, line, words):
        good.file("folder/inside", "")
        good.conf_line("\n# the next line is wrong")
        good.conf_line(line)
        error = refused(good)
        assert "suite.conf:4: " in error
        for word in words:
            assert word in error, error
        assert "\0" not in error

    @pytest.mark.parametrize("content", ["", "# only words\n"])
    def test_no_suite_at_all(self, repo, content):
        repo.file("suite.conf", content)
        assert "suite.conf: no suite at all" in refused(repo)

    def test_bytes_that_are_no_text(self, good):
        good.file("suite.conf", b"good good.log list ./good.sh\nx x.log list ./\xff.sh\n")
        assert "suite.conf:2: not UTF-8" in refused(good)

    def test_not_there(self, repo):
        assert "missing.conf: the conf file cannot be read: No such file" in refused(repo, conf="missing.conf")

    def test_a_directory(self, repo):
        (repo.path / "folder").mkdir()
        assert "folder: the conf file cannot be read" in refused(repo, conf="folder")

    @pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
    def test_may_not_be_read(self, good):
        (good.path / "suite.conf").chmod(0)
        before = sorted(path.name for path in good.path.iterdir())
        done = good.run()
        assert done.code == 4
        assert "suite.conf: the conf file cannot be read" in done.errors
        assert sorted(path.name for path in good.path.iterdir()) == before

    def test_across_files(self, good):
        good.conf_line("other good.log list ./good.sh", "second.conf")
        error = refused(good, "--sgpu-conf=second.conf")
        assert "second.conf:1: " in error
        assert "suite.conf:1" in error
        assert "label 'good' is used twice" in refused(good, "--sgpu-conf=suite.conf")

    def test_the_next_good_conf_is_no_excuse(self, good):
        good.file("empty.conf", "x\n")
        assert "empty.conf:1: " in refused(good, "--sgpu-conf=empty.conf")


class TestOptions:
    @pytest.mark.parametrize("gpus", ["0", "x", "0,0", "-1", "1.5", "", "0,,1", "99999999999"])
    def test_gpus(self, good, gpus):
        error = refused(good, gpus=gpus)
        assert "--sgpu-gpus" in error

    @pytest.mark.parametrize(
        ("suites", "words"),
        [
            ("god", ["no suite 'god'", "did you mean good?"]),
            ("good,nothing-like-it", ["no suite 'nothing-like-it'", "good"]),
            ("", ["empty label"]),
            ("good,", ["empty label"]),
            ("good,good", ["'good' is named twice"]),
        ],
    )
    def test_suites(self, good, suites, words):
        error = refused(good, f"--sgpu-suites={suites}")
        assert "--sgpu-suites" in error
        for word in words:
            assert word in error

    @pytest.mark.parametrize("option", ["--sgpu-plan", "--sgpu-gpus=2", "--sgpu-log-dir=x", "--sgpu-suites=a"])
    def test_an_option_without_a_conf(self, repo, option):
        done = repo.pytest("-p", "sgpu", option)
        assert done.code == 4
        assert "without --sgpu-conf=FILE" in done.err

    @pytest.mark.parametrize("level", ["x", "-1"])
    def test_level(self, good, level):
        assert f"TEST_LEVEL='{level}'" in refused(good, env={"TEST_LEVEL": level})

    def test_a_plan_of_another_form(self, good):
        done = good.run("--sgpu-plan=yaml")
        assert done.code == 4
        assert "json" in done.err

    def test_an_argument_that_is_no_item(self, good):
        error = refused(good, "suite.conf::good::aa")
        assert "not found: suite.conf::good::aa" in error
        assert "did you mean 'suite.conf::good::a'" in error


class TestLogDirectory:
    def test_a_file_is_in_the_way(self, good):
        good.file("taken", "")
        assert "taken" in refused(good, "--sgpu-log-dir=taken")
        assert "taken" in refused(good, "--sgpu-log-dir=taken/below")

    @pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
    def test_may_not_be_written(self, good):
        (good.path / "locked").mkdir(mode=0o555)
        error = refused(good, "--sgpu-log-dir=locked/logs")
        assert "cannot be written" in error

    def test_no_place_for_anybody(self, good):
        assert "/proc/self/logs" in refused(good, "--sgpu-log-dir=/proc/self/logs")

    @pytest.mark.parametrize("folder", ["items", "junit", "report"])
    def test_a_directory_that_no_run_has_left(self, good, folder):
        precious = good.file(f"mine/{folder}/thesis.txt", "years of work")
        error = refused(good, "--sgpu-log-dir=mine")
        assert f"mine/{folder}" in error
        assert "--sgpu-log-dir" in error
        assert precious.read_text() == "years of work"

    def test_other_files_in_it_are_left_alone(self, good):
        good.file("mine/notes.txt", "keep")
        assert good.run("--sgpu-log-dir=mine").code == 0
        assert good.run("--sgpu-log-dir=mine").code == 0
        assert good.read("mine/notes.txt") == "keep"


class TestListings:
    """Everything on stdout but whole item lines is noise; a listing that is none is never left out in silence."""

    def test_noise(self, repo):
        noise = (
            'if [ "$mode" = list ]; then\n'
            "  trap 'echo good bye' EXIT\n"
            "  echo loading things ... done\n"
            "  echo 'one TE_CI_ITEM in a sentence'\n"
            "  echo '  TE_CI_ITEM indented'\n"
            "  printf '\\033[32mTE_CI_ITEM coloured\\033[0m\\n'\n"
            "  echo TE_CI_ITEMS\n"
            "  echo 'TE_CI_ITEMS follow'\n"
            "  echo 'TE_CI_ITEM stderr' >&2\n"
            "  printf '\\377\\376 \\000\\n\\n'\n"
            "  head -c 300000 /dev/zero | tr '\\0' x; echo ' TE_CI_ITEM far'\n"
            "fi"
        )
        repo.suite("s", f"{noise}\nline alpha 'cases 1; note'\nline beta 'cases 1; note'")
        assert repo.run().code == 0
        assert sorted(repo.seen) == ["alpha", "beta"]
        assert repo.left("queue/items.tsv") == "s\talpha\ns\tbeta\n"

    def test_carriage_returns(self, repo):
        listing = "if [ $mode = list ]; then printf 'TE_CI_ITEM alpha\\r\\nTE_CI_ITEM beta 1\\r\\n'; exit; fi"
        repo.suite("s", f"{listing}\nline alpha 'cases 1; note'\nline beta 'cases 1; note'")
        repo.file("crlf.conf", b"# words\r\ns s.log list ./s.sh\r\n")
        assert repo.run(conf="crlf.conf").code == 0
        assert sorted(repo.seen) == ["alpha", "beta"]
        assert b"\r" not in (repo.logs / "queue" / "items.tsv").read_bytes()
        assert not [path for path in repo.logs.rglob("*") if "\r" in path.name or "%0D" in path.name]

    @pytest.mark.parametrize(
        ("rest", "words"),
        [
            ("", "no tag"),
            ("alpha 0", "'0' is no number of GPUs"),
            ("alpha two", "'two' is no number of GPUs"),
            ("alpha -1", "'-1' is no number of GPUs"),
            ("alpha 1 extra", "more than a tag"),
            ("al\\033[31mpha", "control character"),
            ("al\\377pha", "UTF-8"),
        ],
    )
    def test_a_malformed_item_line(self, repo, rest, words):
        repo.suite("s", f"line good 'cases 1; note'\nif [ $mode = list ]; then printf 'TE_CI_ITEM {rest}\\n'; fi")
        error = refused(repo)
        assert "suite.conf:1: suite s: './s.sh'" in error
        assert words in error
        assert "TE_CI_ITEM" in error
        assert "\x1b" not in error

    def test_the_same_tag_twice(self, repo):
        repo.suite("s", "line a note\nline b note\nline a note")
        error = refused(repo)
        assert "the tag 'a' twice" in error
        assert "./s.sh" in error

    def test_the_same_tag_twice_in_the_second_listing(self, repo):
        repo.suite("s", 'line a note\nif [ -n "${TE_CI_SKIP_CHECK_SUPPORTED:-}" ]; then line a note; fi')
        assert "the tag 'a' twice" in refused(repo)

    def test_a_script_that_ignores_list_mode(self, repo):
        count = repo.path.parent / "starts"
        repo.file("s.sh", f"#!/bin/sh\necho start >>{count}\necho 2 passed\n", executable=True)
        repo.conf_line("s s.log list ./s.sh")
        error = refused(repo)
        assert "./s.sh" in error
        assert "no item line in list mode" in error
        assert "opaque" in error
        assert count.read_text().count("start") == 2

    def test_one_that_lists_nothing_beside_a_good_one(self, good):
        good.script("none.sh", "")
        good.conf_line("none none.log list ./none.sh")
        assert "suite none" in refused(good)

    def test_failing_with_its_last_lines(self, repo):
        words = "for n in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25; do echo said $n; done"
        repo.suite("s", f"if [ $mode = list ]; then {words}; echo no compiler here >&2; exit 3; fi\nline a note")
        error = refused(repo)
        assert "suite.conf:1: suite s: ./s.sh" in error
        assert "exit code 3" in error or "code 3" in error
        assert "no compiler here" in error
        assert "said 25" in error
        assert "said 5\n" not in error

    def test_all_that_fail_are_named(self, repo):
        for label in ("one", "two"):
            repo.suite(label, "exit 1")
        error = refused(repo)
        assert "suite one" in error
        assert "suite two" in error

    def test_ended_by_a_signal(self, repo):
        repo.suite("s", "line a note; kill -SEGV $$")
        assert "SIGSEGV" in refused(repo)

    def test_wide_items_are_refused_by_name(self, good):
        good.suite("wide", {"two.gpus 2": "note", "narrow": "note"})
        error = refused(good)
        assert "suite.conf:2" in error
        assert "wide/two.gpus asks for 2 GPUs" in error

    def test_no_interpreter(self, repo):
        repo.file("s.sh", "#!/no/such/interpreter\n", executable=True)
        repo.conf_line("s s.log list ./s.sh")
        assert "./s.sh" in refused(repo)

    def test_a_script_without_a_first_line_is_run_by_sh(self, repo):
        repo.file("s.sh", '. "$(dirname -- "$0")/shim.sh"\nline a "cases 1; note"\nclose\n', executable=True)
        repo.conf_line("s s.log list ./s.sh")
        assert repo.run().code == 0
        assert repo.seen == ["a"]


class TestNeverFatal:
    def test_a_log_that_is_huge(self, repo):
        """The log is the item's own file: neither memory nor the screen knows its size."""
        repo.suite("s", {"a": "head -c 50000000 /dev/zero | tr '\\0' '\\n'; ran; exit 1", "b": "ran"})
        done = repo.run("-rA")
        assert done.code == 1
        assert (repo.logs / "items" / "s.a.log").stat().st_size > 50_000_000
        assert len(done.out) < 20_000
        assert (repo.logs / "report" / "junit.xml").stat().st_size < 100_000
        assert (repo.logs / "report" / "schedule.md").stat().st_size < 100_000

    def test_a_sparse_log_of_many_gigabytes(self, repo):
        """A file of 4 GB costs nothing here, and would cost the controller all its memory if it read it."""
        repo.suite("s", {"a": 'ran; truncate -s 4G "$top/test-results/logs/items/s.a.log"; exit 1'})
        assert repo.run().code == 1
        assert repo.status() == {"s/a": "FAILED"}
        assert "\0" not in repo.left("report/schedule.md")

    def test_an_item_that_removes_the_files_of_the_run(self, repo):
        repo.suite("s", {"a": 'ran; rm -rf "$top/test-results/logs/items" "$top/test-results/logs/junit"', "b": "ran"})
        done = repo.run(gpus=1)
        assert done.code in (0, 1)
        assert repo.status().keys() == {"s/a", "s/b"}

    def test_a_script_that_goes_away_after_it_was_listed(self, repo):
        repo.suite("s", {"a": 'ran; rm "$top/t.sh"', "b": "ran"})
        repo.suite("t", {"c": "ran"})
        repo.weights("s/a 9.0\nt/c 1.0\ns/b 5.0\n")
        done = repo.run(gpus=1)
        assert done.code == 1
        assert repo.status() == {"s/a": "PASSED", "s/b": "PASSED", "t/c": "FAILED"}
