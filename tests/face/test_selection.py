"""Items are pytest items: everything that selects, orders or stops means what it always means."""

from __future__ import annotations

import sys

import pytest


@pytest.fixture
def abc(repo):
    """One suite of three, an opaque one, and weights that order them: b, whole, c, a."""
    repo.suite("s", {"a": "cases 1; note", "b": "cases 1; note", "c": "cases 1; note"})
    repo.opaque("whole", "echo whole >>seen")
    repo.weights("s/b 40.0\nwhole 30.0\ns/c 20.0\ns/a 10.0\n")
    return repo


@pytest.fixture
def prefixes(repo):
    """Tags of which one is the beginning of another, or a pattern that would match it."""
    repo.suite("s", dict.fromkeys(("ab", "abc", "ab.c", "a*", "a?", "[a]b"), "cases 1; note"))
    repo.suite("s2", dict.fromkeys(("ab", "x"), "cases 1; note s2.$tag"))
    return repo


class TestArguments:
    @pytest.mark.parametrize(
        ("nodeid", "ran"),
        [
            ("suite.conf::s::ab", ["ab"]),
            ("suite.conf::s::a*", ["a*"]),
            ("suite.conf::s::[a]b", ["[a]b"]),
            ("suite.conf::s2::", ["s2.ab", "s2.x"]),
        ],
    )
    def test_an_id_is_exact(self, prefixes, nodeid, ran):
        assert prefixes.run(nodeid).code == 0
        assert sorted(prefixes.seen) == ran

    def test_several_and_everything(self, prefixes):
        assert prefixes.run("suite.conf::s::abc", "suite.conf::s2::x", "suite.conf::s::abc").code == 0
        assert sorted(prefixes.seen) == ["abc", "s2.x"]
        assert prefixes.plan("suite.conf")["totals"]["items"] == 8

    def test_an_opaque_suite(self, abc):
        assert abc.run("suite.conf::whole").code == 0
        assert abc.seen == ["whole"]

    @pytest.mark.parametrize("argument", ["suite.conf::s::abcd", "suite.conf::s::*", "suite.con"])
    def test_one_that_names_nothing(self, prefixes, argument):
        done = prefixes.run(argument)
        assert done.code == 4
        assert f"not found: {argument}" in done.errors
        assert prefixes.seen == []

    def test_ids_do_not_depend_on_the_root(self, abc):
        done = abc.run("--rootdir=/", "--collect-only", "-q", "-c", "pytest.ini")
        assert done.code in (0, 4)  # the commands are relative to the root, so nothing may be found there
        below = abc.run("--collect-only", "-q", f"--rootdir={abc.path}")
        assert "suite.conf::s::a" in below.out.splitlines()


class TestKeywords:
    @pytest.mark.parametrize(
        ("expression", "ran"),
        [("alpha or whole", ["alpha", "whole"]), ("not mine", ["whole"]), ("mine and not beta", ["alpha"])],
    )
    def test_k(self, repo, expression, ran):
        repo.suite("mine", {"alpha": "cases 1; note", "beta": "cases 1; note"})
        repo.opaque("whole", "echo whole >>seen")
        done = repo.run("-k", expression)
        assert done.code == 0
        assert sorted(repo.seen) == ran
        assert f"{3 - len(ran)} deselected" in done.out

    def test_k_that_selects_nothing(self, abc):
        done = abc.run("-k", "nothing_like_this")
        assert done.code == 5
        assert not abc.logs.exists()

    def test_deselect(self, abc):
        assert abc.run("--deselect", "suite.conf::s::a", "--deselect=suite.conf::whole").code == 0
        assert sorted(abc.seen) == ["b", "c"]

    def test_deselect_is_as_in_pytest(self, prefixes):
        """pytest goes by the beginning of an id here, also for its own tests."""
        assert prefixes.run("--deselect", "suite.conf::s").code == 5

    def test_a_marker_selects_nothing(self, abc):
        assert abc.run("-m", "gpu").code == 5


class TestFilterOfTheCaller:
    """TEST_FILTER: white-space separated globs over whole tags, as the suite scripts read it."""

    @pytest.mark.parametrize(
        ("words", "ran"),
        [
            ("a", ["a"]),
            ("[ab]  nothing c?", ["a", "b"]),
            ("", ["a", "b", "c", "whole"]),
        ],
    )
    def test_over_the_plan(self, abc, words, ran):
        done = abc.run(env={"TEST_FILTER": words})
        assert done.code == 0
        assert sorted(set(abc.seen) - {"whole"}) == [tag for tag in ran if tag != "whole"]
        # Nothing is forgotten that was not selected.
        assert abc.learned().keys() == {"s/a", "s/b", "s/c", "whole"}
        assert abc.left("queue/items.tsv").count("\n") == 4

    def test_together_with_k_and_an_argument(self, abc):
        assert abc.run("-k", "not b", "suite.conf::s", env={"TEST_FILTER": "[ab]"}).code == 0
        assert abc.seen == ["a"]

    def test_one_that_matches_nothing(self, abc):
        assert abc.run(env={"TEST_FILTER": "nothing*"}).code == 5


class TestCollectOnly:
    def test_lists_and_runs_nothing(self, abc):
        done = abc.run("--collect-only", "-q")
        assert done.code == 0
        ids = [line for line in done.out.splitlines() if "::" in line]
        assert ids == ["suite.conf::s::b", "suite.conf::whole", "suite.conf::s::c", "suite.conf::s::a"]
        assert abc.seen == []
        assert not abc.logs.exists()

    def test_as_a_tree(self, abc):
        done = abc.run("--collect-only")
        assert done.code == 0
        assert "suite.conf" in done.out
        assert not abc.logs.exists()

    def test_what_it_lists_can_be_run(self, prefixes):
        ids = [line for line in prefixes.run("--collect-only", "-q").out.splitlines() if "::" in line]
        assert len(ids) == 8
        assert prefixes.run(*ids[2:5]).code == 0
        assert len(prefixes.seen) == 3


class TestStopping:
    @pytest.fixture
    def first_fails(self, repo):
        repo.suite("s", {"bad": "note; cases 0 1; exit 1", "two": "note; exit 3", "three": "note; cases 1"})
        repo.weights("s/bad 9.0\ns/two 8.0\ns/three 7.0\n")
        return repo

    @pytest.mark.parametrize("words", [("-x",), ("--maxfail=1",), ("--exitfirst",)])
    def test_after_the_first(self, first_fails, words):
        done = first_fails.run(*words, gpus=1)
        assert done.code == 1
        assert first_fails.seen == ["bad"]
        assert first_fails.status() == {"s/bad": "FAILED", "s/two": "NOT_RUN", "s/three": "NOT_RUN"}
        assert "stopping after 1 failures" in done.out
        assert first_fails.learned()["s/two"] == 8.0

    def test_after_two(self, first_fails):
        assert first_fails.run("--maxfail=2", gpus=1).code == 1
        assert first_fails.seen == ["bad", "two"]

    def test_never(self, first_fails):
        assert first_fails.run("--maxfail=5", gpus=1).code == 1
        assert first_fails.seen == ["bad", "two", "three"]


class TestLastFailed:
    @pytest.fixture
    def flaky(self, repo):
        """The items named in the file `bad` fail. Their tags have what ids and globs trip over."""
        body = 'note; if grep -Fqx -- "$tag" "$top/bad"; then cases 0 1; exit 1; else cases 1; fi'
        repo.suite("s", dict.fromkeys(("a", "a[1]", "a[1].more", "b*", "c::d", "e-[x-y]"), body))
        repo.file("bad", "a[1]\nb*\nc::d\n")
        return repo

    def rerun(self, repo, *words):
        repo.file("seen", "")
        done = repo.run(*words, gpus=1)
        return done.code, repo.seen

    def test_lf(self, flaky):
        assert flaky.run().code == 1
        flaky.file("bad", "b*\n")
        code, seen = self.rerun(flaky, "--lf")
        assert (code, sorted(seen)) == (1, ["a[1]", "b*", "c::d"])
        flaky.file("bad", "")
        assert self.rerun(flaky, "--lf") == (0, ["b*"])

    def test_ff_comes_before_the_plan(self, flaky):
        assert flaky.run().code == 1
        flaky.weights("s/a 90.0\ns/a[1] 1.0\ns/a[1].more 80.0\ns/b* 2.0\ns/c::d 3.0\ns/e-[x-y] 70.0\n")
        code, seen = self.rerun(flaky, "--ff")
        assert code == 1
        assert seen == ["c::d", "b*", "a[1]", "a", "a[1].more", "e-[x-y]"]

    def test_what_was_not_run_is_not_forgotten(self, flaky):
        """A stopped run: what was killed runs again with --lf."""
        assert flaky.run(gpus=1).code == 1
        code, seen = self.rerun(flaky, "--lf", "-x")
        assert (code, len(seen)) == (1, 1)
        code, seen = self.rerun(flaky, "--lf")
        assert (code, sorted(seen)) == (1, ["a[1]", "b*", "c::d"])

    def test_a_local_second_run_is_a_whole_one(self, flaky):
        assert flaky.run().code == 1
        code, seen = self.rerun(flaky)
        assert (code, len(seen)) == (1, 6)

    def test_lfnf_and_cache_clear(self, flaky):
        flaky.file("bad", "")
        assert flaky.run("--lf", "--lfnf=none").code == 5
        assert flaky.run("--lf", "--cache-clear").code == 0

    def test_without_the_cache(self, flaky):
        done = flaky.run("-p", "no:cacheprovider")
        assert done.code == 1
        assert not (flaky.path / ".pytest_cache").exists()


class TestStepwise:
    @pytest.fixture
    def steps(self, repo):
        body = 'note; if grep -Fqx -- "$tag" "$top/bad"; then exit 1; else cases 1; fi'
        repo.suite("s", dict.fromkeys(("a", "b", "c", "d"), body))
        repo.weights("s/d 9.0\ns/c 8.0\ns/b 7.0\ns/a 6.0\n")
        repo.file("bad", "b\n")
        return repo

    def test_goes_on_where_it_failed(self, steps):
        assert steps.run("--sw", gpus=1).code in (1, 2)
        assert steps.seen == ["a", "b"]
        steps.file("bad", "d\n")
        steps.file("seen", "")
        assert steps.run("--sw", gpus=1).code in (1, 2)
        assert steps.seen == ["b", "c", "d"]

    def test_skips_nothing_that_has_not_passed(self, steps):
        """On several devices items fail in any order; the next run begins at the first that has not passed."""
        steps.file("bad", "b\nc\n")
        assert steps.run("--sw", gpus=3).code in (1, 2)
        status = steps.status()
        first = min(tag for tag in "abcd" if status[f"s/{tag}"] != "PASSED")
        steps.file("bad", "")
        steps.file("seen", "")
        assert steps.run("--sw", gpus=1).code == 0
        assert steps.seen == [tag for tag in "abcd" if tag >= first]

    def test_one_failure_may_be_skipped(self, steps):
        assert steps.run("--sw", "--sw-skip", gpus=1).code == 1
        assert steps.seen == ["a", "b", "c", "d"]


class TestOrder:
    def test_longest_first_unknown_before_known(self, repo):
        repo.suite("s", dict.fromkeys(("short", "new", "long", "middle"), "cases 1; note"))
        repo.weights("s/short 1.0\ns/long 100.0\ns/middle 10.0\n")
        assert repo.run(gpus=1).code == 0
        assert repo.seen == ["new", "long", "middle", "short"]

    def test_ties_in_listing_order(self, repo):
        tags = ["z", "a", "m", "b"]
        repo.suite("s", dict.fromkeys(tags, "cases 1; note"))
        repo.weights("".join(f"s/{tag} 5.0\n" for tag in sorted(tags)))
        assert repo.run(gpus=1).code == 0
        assert repo.seen == tags

    def test_two_devices_share_one_queue(self, repo):
        """While one is held by the long item, the other takes all the rest."""
        body = {"long": 'note "$tag"; until [ "$(wc -l <"$top/seen")" -ge 6 ]; do sleep 0.02; done; cases 1'}
        repo.suite("s", body | dict.fromkeys("abcde", 'cases 1; note "$tag"'))
        repo.weights("s/long 9.0\n" + "".join(f"s/{tag} 1.0\n" for tag in "abcde"))
        assert repo.run().code == 0
        outcomes = repo.outcomes()
        held = outcomes["s/long"]["devices"]
        assert all(outcomes[f"s/{tag}"]["devices"] != held for tag in "abcde")


def test_the_command_of_a_failed_item_runs_exactly_it(repo):
    """The line that is printed, pasted into a shell, for tags that a shell would love to read."""
    tags = ["plain", "two'quotes", '"double"', "$(touch$IFS.gotcha)", "a;b", "a&b", "back`tick`", "*", "[p]lain", "#x"]
    repo.suite("s", dict.fromkeys(tags, 'note "$tag"; exit 1'))
    done = repo.run()
    assert done.code == 1
    commands = [line.split("again: ", 1)[1] for line in done.out.splitlines() if line.startswith("  again: ")]
    assert len(commands) == len(tags)
    bin_ = repo.file("bin/pytest", f'#!/bin/sh\nexec {sys.executable} -m pytest "$@"\n', executable=True).parent
    before = repo.left("queue/journal.jsonl")
    bad = [command for command in commands if any(sign in command for sign in ("'", "$", "*", "`"))]
    for command in bad[:4]:
        repo.file("seen", "")
        again = repo.command("sh", "-c", command, env={"PATH": f"{bin_}:{repo.env()['PATH']}"})
        assert again.code == 1, again.text
        assert len(repo.seen) == 1
        assert repo.outcomes(repo.path / "test-results" / "rerun").keys() == {f"s/{repo.seen[0]}"}
    assert repo.left("queue/journal.jsonl") == before
    assert not list(repo.path.rglob(".gotcha"))
