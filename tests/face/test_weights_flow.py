"""The weight table over whole runs: damaged, of other tests, of another machine; what is learned and pruned."""

from __future__ import annotations

import fcntl
import os
import re

import pytest


def ranks(plan) -> list[str]:
    return [entry["tag"] for entry in plan["entries"]]


class TestDamagedTable:
    DAMAGED = (
        b"s/c 30.0\n"  # 1
        b"\n"
        b"# said by a person\n"
        b"12.5\n"  # 4: no key
        b"s/a\n"  # 5: no value
        b"s/a nan\n"  # 6
        b"s/b inf\n"  # 7
        b"s/d -3\n"  # 8
        b"s/e 1e3\n"
        b"s/f 1,5\n"  # 10
        b"s/f 10.0\r\n"
        b"s/c 31.0\n"  # 12: a second time
        b"\0\1\2\n"  # 13
        b"\xff\xfe 9.0\n"  # 14
        b"z/unknown 7.0\n"
        b"s/x\x1b]0;owned\x07 3.0\n"  # 16
        b"s/b"  # 17: torn
    )
    BAD = (4, 5, 6, 7, 8, 10, 12, 13, 14, 16, 17)

    @pytest.fixture
    def six(self, repo):
        repo.suite("s", dict.fromkeys("abcdef", "cases 1"))
        self.table = repo.weights(self.DAMAGED)
        return repo

    def test_the_plan(self, six):
        plan = six.plan()
        assert self.table.read_bytes() == self.DAMAGED
        unknown = {entry["tag"] for entry in plan["entries"] if not entry["estimate"]["known"]}
        assert unknown == {"a", "b", "d"}
        assert ranks(plan)[3:] == ["e", "c", "f"]
        assert plan["totals"]["unknown"] == 3
        assert plan["totals"]["work"] == pytest.approx(1000 + 31 + 10)

    def test_one_warning_for_each_bad_line_and_nothing_raw(self, six):
        done = six.run("--sgpu-plan")
        assert done.code == 0
        numbers = [int(number) for number in re.findall(r"test_weights\.cpu\.l1\.txt:(\d+)", done.out)]
        assert numbers == list(self.BAD)
        assert not set(done.text) & set("\0\1\2\x1b\x07")

    def test_the_run(self, six):
        done = six.run()
        assert done.code == 0
        lines = self.table.read_text().splitlines()
        values = [float(line.rpartition(" ")[2]) for line in lines]
        assert {line.rpartition(" ")[0] for line in lines} == {f"s/{tag}" for tag in "abcdef"}
        assert values == sorted(values, reverse=True)
        assert all(re.fullmatch(r"\S+ \d+\.\d", line) for line in lines)
        assert 0 < six.learned()["s/c"] < 31

    @pytest.mark.parametrize("content", [b"\0" * 5000, b"\x80\x81" * 999, b"{}", b"s/a 1.0" * 4000])
    def test_a_file_of_something_else(self, repo, content):
        repo.suite("s", {"a": "cases 1"})
        repo.weights(content)
        assert repo.run().code == 0
        assert repo.learned().keys() == {"s/a"}

    def test_a_table_of_a_newer_version_is_set_aside(self, repo):
        repo.suite("s", {"a": "cases 1"})
        text = "# pytest-sgpu weights 999\nsomething new\n"
        table = repo.weights(text)
        assert repo.run().code == 0
        assert table.with_name(table.name + ".newer").read_text() == text
        assert repo.learned().keys() == {"s/a"}

    def test_the_place_is_no_directory(self, repo):
        repo.suite("s", {"a": "cases 1"})
        repo.file("ci-weights", "a file")
        done = repo.run("--sgpu-weights=ci-weights/sub")
        assert done.code == 0
        assert "warning: " in done.out
        assert "weight table" in done.out
        assert (repo.logs / "report" / "junit.xml").exists()

    def test_a_table_that_is_a_directory(self, repo):
        repo.suite("s", {"a": "cases 1"})
        (repo.path / "ci-weights" / "test_weights.cpu.l1.txt").mkdir(parents=True)
        done = repo.run()
        assert done.code == 0
        assert "cannot be read" in done.out


class TestTheTableKnowsOtherTests:
    @pytest.fixture
    def two(self, repo):
        new = ("new.three", "new.four", "new.five")
        repo.suite("a", dict.fromkeys(("kept.one", "kept.two", *new), "cases 1; note"))
        repo.suite("b", {"only": "cases 1; note"})
        repo.weights(
            "gone/x 900.0\na/renamed.long.ago 500.0\na/kept.two 40.0\nb/only 30.0\nb/dropped 20.0\na/kept.one 10.0\n"
        )
        return repo

    def test_the_plan_has_everything_that_exists_and_nothing_else(self, two):
        plan = two.plan()
        assert sorted(ranks(plan)) == sorted(["kept.one", "kept.two", "new.three", "new.four", "new.five", "only"])
        assert plan["totals"]["unknown"] == 3
        assert plan["totals"]["work"] == pytest.approx(80.0)
        assert plan["totals"]["bound"] == pytest.approx(40.0)
        assert [entry["estimate"]["known"] for entry in plan["entries"]] == [False] * 3 + [True] * 3

    def test_one_suite_then_all(self, two):
        assert two.run("--sgpu-suites=a").code == 0
        assert sorted(two.seen) == ["kept.one", "kept.two", "new.five", "new.four", "new.three"]
        assert sorted(row[1] for row in two.timings()) == sorted(two.seen)
        table = two.learned()
        assert "a/renamed.long.ago" not in table
        assert "gone/x" not in table
        assert (table["b/only"], table["b/dropped"]) == (30.0, 20.0)
        assert {"a/new.three", "a/new.four", "a/new.five"} <= table.keys()

        assert two.run().code == 0
        assert two.learned().keys() == {
            "a/kept.one", "a/kept.two", "a/new.three", "a/new.four", "a/new.five", "b/only",
        }  # fmt: skip

    def test_deselected_items_keep_their_weights(self, two):
        assert two.run("-k", "kept").code == 0
        table = two.learned()
        assert table["b/only"] == 30.0
        assert "a/kept.one" in table
        assert "b/dropped" not in table  # b was listed, and has no such line any more

    def test_what_cannot_run_here_but_exists_is_kept(self, repo):
        lines = {"here": "cases 1", "elsewhere.one": "cases 1", "elsewhere.two": "cases 1"}
        repo.suite("s", lines, head="missing='elsewhere.*'")
        repo.weights("s/here 3.0\ns/elsewhere.one 50.0\ns/dropped 9.0\n")
        assert repo.run().code == 0
        assert repo.learned().keys() == {"s/here", "s/elsewhere.one"}
        assert repo.learned()["s/elsewhere.one"] == 50.0
        assert "s\telsewhere.two\n" in repo.left("queue/items.tsv")

    def test_a_second_listing_that_fails_prunes_nothing(self, repo):
        repo.suite("s", {"a": "cases 1"}, head='[ "${TE_CI_SKIP_CHECK_SUPPORTED:-}" != 1 ] || exit 3')
        repo.weights("s/a 3.0\ns/dropped 9.0\n")
        done = repo.run()
        assert done.code == 0
        assert "second listing" in done.out
        assert repo.learned()["s/dropped"] == 9.0

    def test_nothing_to_run_here_is_a_warning(self, repo):
        repo.suite("s", {"a": "cases 1", "b": "cases 1"}, head="missing='*'")
        repo.suite("t", {"c": "cases 1"})
        repo.weights("s/a 3.0\n")
        done = repo.run()
        assert done.code == 0
        assert "suite s has nothing to run here" in done.out
        assert repo.learned()["s/a"] == 3.0
        assert repo.left("suites/s.log.rc") == "0\n"


class TestTheTableOfSomethingElse:
    @pytest.fixture
    def elsewhere(self, repo):
        repo.suite("q", dict.fromkeys(("slow", "quick", "other"), "cases 1"))
        self.files = [
            repo.weights("q/quick 700.0\nq/slow 1.0\n", "test_weights.cpu.l3.txt"),
            repo.weights("q/slow 900.0\nq/quick 2.0\n", "test_weights.gfx942.l3.txt"),
        ]
        self.before = [path.read_bytes() for path in self.files]
        return repo

    def test_it_is_not_used_and_not_touched(self, elsewhere):
        plan = elsewhere.plan()
        assert plan["totals"]["unknown"] == 3
        (notice,) = [notice for notice in map(str, plan["notices"]) if "no weight table" in notice]
        for word in ("cpu", "level 1", "test_weights.cpu.l3.txt", "test_weights.gfx942.l3.txt"):
            assert word in notice
        assert elsewhere.run().code == 0
        assert elsewhere.learned().keys() == {"q/slow", "q/quick", "q/other"}
        assert [path.read_bytes() for path in self.files] == self.before

    def test_named_by_hand(self, elsewhere):
        given = "--sgpu-weights=ci-weights/test_weights.gfx942.l3.txt"
        plan = elsewhere.plan(given)
        assert ranks(plan) == ["other", "slow", "quick"]
        assert any("gfx942" in str(notice) for notice in plan["notices"])
        done = elsewhere.run(given)
        assert done.code == 0
        assert "gfx942" in done.out
        assert [path.read_bytes() for path in self.files] == self.before
        assert elsewhere.learned().keys() == {"q/slow", "q/quick", "q/other"}

    def test_a_file_of_any_other_name_is_used_as_it_is(self, repo):
        repo.suite("q", {"a": "cases 1"})
        table = repo.file("mine.txt", "q/a 50.0\n")
        assert repo.run("--sgpu-weights=mine.txt").code == 0
        assert 40 < float(table.read_text().split()[1]) < 50
        assert not (repo.path / "ci-weights").exists()

    @pytest.mark.parametrize(("level", "name"), [("3", "l3"), ("", "l99"), (None, "l99"), ("03", "l3")])
    def test_the_level_names_the_file(self, repo, level, name):
        repo.suite("q", {"a": "cases 1"})
        assert repo.run(env={"TEST_LEVEL": level}).code == 0
        assert [path.name for path in (repo.path / "ci-weights").glob("t*")] == [f"test_weights.cpu.{name}.txt"]


class TestLearning:
    def test_up_by_half_down_by_a_tenth(self, repo):
        repo.suite("s", {"longer": "sleep 0.3; cases 1", "shorter": "cases 1", "new": "sleep 0.2; cases 1"})
        repo.weights("s/longer 0.0\ns/shorter 100.0\n")
        assert repo.run(gpus=3).code == 0
        seconds = {row[1]: float(row[3]) for row in repo.timings()}
        table = repo.learned()
        assert table["s/longer"] == pytest.approx(seconds["longer"] / 2, abs=0.051)
        assert table["s/shorter"] == pytest.approx(100 - 0.1 * (100 - seconds["shorter"]), abs=0.051)
        assert table["s/new"] == pytest.approx(seconds["new"], abs=0.051)

    def test_what_teaches_and_what_does_not(self, repo):
        lines = {
            "failed": "cases 0 1; exit 1",
            "nothing": "exit 1",
            "missing": "cases 1; exit 127",
            "forbidden": "cases 1; exit 126",
            "crashed": "cases 1; kill -KILL $$",
            "inside": "cases 1; exit 139",
            "partial": 'cases 1; : >"${xml%.xml}.partial"',
            "empty": "exit 0",
        }
        repo.suite("s", lines)
        repo.weights("".join(f"s/{tag} 80.0\n" for tag in lines))
        assert repo.run().code == 1
        changed = {key for key, seconds in repo.learned().items() if seconds != 80.0}
        assert changed == {"s/failed"}

    def test_the_second_run_uses_what_the_first_learned(self, repo):
        repo.suite("s", {"a": "cases 1", "b": "sleep 0.4; cases 1"})
        assert repo.run().code == 0
        assert ranks(repo.plan()) == ["b", "a"]
        assert repo.plan()["totals"]["unknown"] == 0

    def test_weights_do_not_depend_on_the_number_of_devices(self, repo):
        repo.suite("s", {"a": "cases 1", "b": "cases 1"})
        assert repo.run(gpus=1).code == 0
        assert repo.plan(gpus=8)["totals"]["unknown"] == 0

    def test_a_suite_that_left_the_conf_loses_its_keys(self, repo):
        repo.suite("s", {"a": "cases 1"})
        repo.weights("old/a 5.0\nold 7.0\n")
        assert repo.run().code == 0
        assert repo.learned().keys() == {"s/a"}

    def test_the_setup_is_not_in_it(self, repo):
        repo.suite("s", {"a": "cases 1"}, head="setup='sleep 0.6'")
        assert repo.run().code == 0
        assert repo.learned()["s/a"] < 0.6

    def test_a_lock_file_without_a_holder_means_nothing(self, repo):
        repo.suite("s", {"a": "cases 1"})
        repo.weights("")
        repo.file("ci-weights/.test_weights.cpu.l1.txt.lock", "4711\nsome.host\n")
        assert repo.run().code == 0
        assert repo.learned().keys() == {"s/a"}

    def test_two_runs_that_end_together_lose_nothing(self, repo):
        repo.suite("a", dict.fromkeys(("one", "two"), "cases 1"), conf="both.conf")
        repo.suite("b", dict.fromkeys(("one", "two"), "cases 1"), conf="both.conf")
        runs = [
            repo.start(*repo.words(f"--sgpu-suites={label}", f"--sgpu-log-dir=logs.{label}", conf="both.conf"))
            for label in ("a", "b")
        ]
        assert [repo.end(run).code for run in runs] == [0, 0]
        assert repo.learned().keys() == {"a/one", "a/two", "b/one", "b/two"}

    def test_the_table_is_read_only(self, repo):
        if os.geteuid() == 0:
            pytest.skip("root writes everywhere")
        repo.suite("s", {"a": "cases 1"})
        repo.weights("s/a 50.0\n")
        (repo.path / "ci-weights").chmod(0o555)
        done = repo.run()
        (repo.path / "ci-weights").chmod(0o755)
        assert done.code == 0
        assert "nothing was learned" in done.out
        assert repo.learned() == {"s/a": 50.0}

    def test_the_table_is_read_while_another_run_holds_its_lock(self, repo):
        """A plan takes no lock: it must not wait for anybody."""
        repo.suite("s", {"a": "cases 1"})
        repo.weights("s/a 50.0\n")
        lock = repo.file("ci-weights/.test_weights.cpu.l1.txt.lock", "")
        with lock.open("r+") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX)
            assert repo.plan()["totals"]["work"] == 50.0
