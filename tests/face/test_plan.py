"""``--sgpu-plan``: lists and orders, runs nothing, writes nothing; and the same plan before a run."""

from __future__ import annotations

import json
import re

import pytest


@pytest.fixture
def five(repo):
    repo.suite("s", {"a": "note", "b": "note", "c": "note", "d": "note"})
    repo.opaque("whole", "echo whole >>seen")
    repo.weights("s/a 10.0\ns/b 30.0\ns/c 20.0\nwhole 90.0\n")
    return repo


class TestJson:
    def test_it_is_all_there_is_on_standard_output(self, five):
        done = five.run("--sgpu-plan=json", "-v")
        assert done.code == 0
        plan = json.loads(done.out)
        assert done.out.endswith("}\n")
        assert (plan["schema"], plan["version"]) == ("pytest-sgpu/plan", 1)
        assert plan["scope"] == {"arch": "cpu", "level": "1"}
        assert [device["name"] for device in plan["devices"]] == ["gpu0", "gpu1"]
        assert [entry["key"] for entry in plan["entries"]] == ["s/d", "whole", "s/b", "s/c", "s/a"]
        assert [entry["rank"] for entry in plan["entries"]] == [1, 2, 3, 4, 5]
        assert {entry["gpus"] for entry in plan["entries"]} == {1}
        totals = plan["totals"]
        assert (totals["items"], totals["unknown"]) == (5, 1)
        assert (totals["work"], totals["longest"], totals["bound"]) == (150.0, 90.0, 90.0)
        assert totals["predicted"] >= 90.0

    def test_it_follows_its_schema(self, five, request):
        """The words of docs/reference/plan.schema.json, without a validator: required fields and no type by chance."""
        place = request.config.rootpath / "docs" / "reference" / "plan.schema.json"
        schema = json.loads(place.read_text(encoding="utf-8"))
        plan = five.plan()
        assert set(schema["required"]) <= plan.keys()
        assert set(schema["properties"]) >= plan.keys()
        for name in ("entries", "devices"):
            for entry in plan[name]:
                assert set(schema["properties"][name]["items"]["required"]) <= entry.keys()
        assert set(schema["properties"]["totals"]["required"]) <= plan["totals"].keys()

    def test_an_error_leaves_it_empty(self, five):
        done = five.run("--sgpu-plan=json", "--sgpu-suites=nothing")
        assert (done.code, done.out) == (4, "")
        assert "no suite 'nothing'" in done.err

    def test_what_selections_leave_out(self, five):
        plan = five.plan("-k", "not whole", "--deselect=suite.conf::s::d", env={"TEST_FILTER": "[a-c] d"})
        assert [entry["key"] for entry in plan["entries"]] == ["s/b", "s/c", "s/a"]
        assert sorted(plan["deselected"]) == ["s/d", "whole"]
        assert plan["totals"]["bound"] == 30.0

    def test_of_nothing(self, five):
        done = five.run("--sgpu-plan=json", "-k", "nothing_like_it")
        assert json.loads(done.out)["entries"] == []
        assert done.code in (0, 5)

    def test_the_wall_that_more_devices_give(self, repo):
        repo.suite("s", dict.fromkeys(("a", "b", "c", "d"), "note"))
        repo.weights("".join(f"s/{tag} 100.0\n" for tag in "abcd"))
        walls = [repo.plan(gpus=count)["totals"]["predicted"] for count in (1, 4, 8)]
        assert walls == pytest.approx([400, 100, 100], rel=0.02)


class TestText:
    def test_the_table_and_the_totals(self, five):
        done = five.run("--sgpu-plan")
        assert done.code == 0
        rows = [line.split() for line in done.out.splitlines() if re.match(r" +\d+ ", line)]
        assert rows[0][0] == "1"
        assert rows[0][1].startswith(("?", "~"))
        assert [(row[1], row[2], row[3]) for row in rows[1:]] == [
            ("90.0", "1", "whole"),
            ("30.0", "1", "s/b"),
            ("20.0", "1", "s/c"),
            ("10.0", "1", "s/a"),
        ]
        assert "5 items, 4 of known duration, 1 unknown" in done.out
        assert "longest item 90.0s (1m30s): whole" in done.out
        assert "bound on 2 devices 90.0s" in done.out
        assert "predicted wall on 2 devices" in done.out

    def test_it_is_shown_before_a_run(self, five):
        done = five.run()
        plan, _, run = done.out.partition("predicted wall")
        assert "4 of known duration" in plan
        assert "rc=" not in plan
        assert "rc=" in run

    def test_quiet_runs_do_not_show_it(self, five):
        assert "predicted wall" not in five.run("-q").out


class TestNothingIsWritten:
    @pytest.mark.parametrize("words", [("--sgpu-plan",), ("--sgpu-plan=json", "--lf"), ("--sgpu-plan", "--sw")])
    def test_in_a_fresh_place(self, five, words):
        before = five.tree()
        assert five.run(*words).code == 0
        assert five.tree() == before
        assert five.seen == []

    def test_after_a_run(self, repo):
        repo.suite("s", {"a": "cases 1", "b": "exit 1"})
        assert repo.run().code == 1
        before = repo.tree()
        for words in (("--sgpu-plan", "--ff"), ("--sgpu-plan=json", "--sw", "--lf")):
            assert repo.run(*words).code == 0
            assert repo.tree() == before

    def test_nor_a_report_of_nothing(self, five):
        """A plan in a repository whose addopts have --junitxml must not replace the report of the last run."""
        five.file("junit.xml", "the last run's")
        five.run("--sgpu-plan", "--junitxml=junit.xml", env={"GITHUB_STEP_SUMMARY": str(five.path / "summary.md")})
        assert not (five.path / "summary.md").exists()
        assert five.read("junit.xml") == "the last run's"

    def test_where_nothing_could_be_written(self, five):
        """It looks only, so a log directory that could not be used is no error for it."""
        five.file("test-results", "a file")
        assert five.run("--sgpu-plan").code == 0
        assert five.run().code == 4


class TestPlanAndRun:
    def test_the_run_starts_items_in_the_order_of_the_plan(self, repo):
        repo.suite("s", dict.fromkeys("abcdef", "note; cases 1"))
        repo.weights("s/a 1.0\ns/b 6.0\ns/c 2.0\ns/d 5.0\ns/e 3.0\ns/f 4.0\n")
        planned = [entry["tag"] for entry in repo.plan(gpus=1)["entries"]]
        assert repo.run(gpus=1).code == 0
        assert repo.seen == planned == list("bdfeca")
        rows = [line.split("\t") for line in repo.left("queue/queue.tsv").splitlines()]
        assert [(row[0], row[1], row[3], row[5]) for row in rows[:2]] == [
            ("6.0", "s", "b", "1"),
            ("5.0", "s", "d", "1"),
        ]

    def test_unknown_items_have_their_old_number_in_the_file(self, repo):
        repo.suite("s", {"a": "cases 1"})
        assert repo.run(gpus=1).code == 0
        assert repo.left("queue/queue.tsv").split("\t")[0] == "999999"
