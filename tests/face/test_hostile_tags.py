"""Tags are data: they neither run, nor leave the run directory, nor select another item."""

from __future__ import annotations

import json
import re

import pytest

TAGS = (
    "$(touch$IFS'owned')",
    "`touch${IFS}owned`",
    "a;touch${IFS}owned",
    "a&&false|true>owned<x",
    "../../../../escape",
    "/absolute",
    "..",
    ".",
    ".hidden",
    "-rf",
    "--help",
    "it's",
    '"quoted"',
    "*",
    "?",
    "[a]",
    "[!a]",
    "a",
    "ab",
    "a*",
    "back\\slash",
    "\\*",
    "a/b",
    "a%2Fb",
    "ünï™",
    "x" * 200,
    "x" * 201,
    "TE_CI_ITEM",
    "whole",
    "<b>&amp;</b>",
    "a::b",
    "{{7*7}}",
    "a=b",
    "~",
    "#x",
    "!x",
    "a|b|c",
    "::error::x",
)


@pytest.fixture
def hostile(repo):
    repo.suite("s", dict.fromkeys(TAGS, 'ran; note "$tag"; [ "$tag" != a ] || exit 3'))
    return repo


def test_each_runs_exactly_once_and_stays_inside(hostile):
    outside = set(hostile.path.iterdir()) | {hostile.logs.parent, hostile.path / "seen", hostile.path / "ci-weights"}
    around = set(hostile.path.parent.iterdir())
    done = hostile.run("-v", "--junitxml=own.xml", env={"GITHUB_ACTIONS": "true"})
    assert done.code == 1
    assert sorted(hostile.seen) == sorted(TAGS)
    status = hostile.status()
    assert status.pop("s/a") == "FAILED"
    assert set(status.values()) == {"PASSED"}
    left = set(hostile.path.iterdir()) - outside
    assert {path.name for path in left} <= {"own.xml", ".pytest_cache"}
    assert set(hostile.path.parent.iterdir()) == around
    assert not list(hostile.path.rglob("owned"))
    logs = [path.name for path in (hostile.logs / "items").iterdir() if path.name.endswith(".log")]
    assert len(logs) == len(set(logs)) == len(TAGS)
    assert all(re.fullmatch(r"s\.[A-Za-z0-9._+=,@%-]+\.log", name) for name in logs)
    junit = hostile.junit()
    assert {case.suite for case in junit.cases} == {f"s/{tag}" for tag in TAGS}
    assert hostile.learned().keys() == {f"s/{tag}" for tag in TAGS}
    commands = [line for line in done.out.splitlines() if line.lstrip().startswith("::")]
    assert all(line.startswith("::error title=s/a") for line in commands)


def test_each_is_chosen_by_its_id_alone(hostile):
    for tag in ("*", "[a]", "a::b"):
        plan = hostile.plan(f"suite.conf::s::{tag}")
        assert [entry["tag"] for entry in plan["entries"]] == [tag]


def test_junit_files_of_hostile_tags(repo):
    tags = ("a", "[a]", "sub/x", "it's", "$(x)", "*", "-n")
    repo.suite("s", dict.fromkeys(tags, "cases 1"))
    repo.suite("up", {"../../../out": "cases 1", "../s/a": "cases 0 1; exit 1"})
    done = repo.run()
    assert done.code == 1
    status = repo.status()
    assert {status[f"s/{tag}"] for tag in tags} == {"PASSED"}
    assert not list(repo.path.parent.glob("out*"))
    assert not list(repo.path.glob("out*"))
    assert not list(repo.path.glob("test-results/out*"))
    assert [case.result for case in repo.junit().of("s/a")] == ["passed"], "another item wrote its file"


def test_an_item_of_another_suite_has_the_same_tag(repo):
    repo.suite("one", {"x": "note one; cases 1"})
    repo.suite("two", {"x": "note two; cases 0 1; exit 1"})
    assert repo.run("suite.conf::two::x").code == 1
    assert repo.seen == ["two"]


class TestNamesThatAreMarkup:
    TAGS = (
        "plain",
        "<img/src=x/onerror=document.title='owned'>",
        "a|b|c",
        "`tick`",
        "</script><script>document.title='owned'</script>",
        "<!--",
        "**bold**_it_[link](javascript:alert(1))",
    )

    @pytest.fixture
    def schedule(self, repo):
        repo.file(
            "names.xml",
            '<testsuite name="x" tests="2">'
            '<testcase classname="m" name="t[&lt;b&gt;a|b&lt;/b&gt;]"><failure message="&lt;/td&gt;`x`">]]&gt;'
            '</failure></testcase><testcase classname="m" name="u[&#x2028;]"><failure message="&#x2028;"/></testcase>'
            "</testsuite>",
        )
        say = "printf '%s\\n' '</pre></details><script>x</script>' '```' '| a | b |' '### head' '## Suites'"
        repo.suite("h", dict.fromkeys(self.TAGS, f'cp "$top/names.xml" "$xml"; {say}; exit 1'))
        assert repo.run().code == 1
        return repo.left("report/schedule.md")

    def test_the_report(self, repo, schedule):
        """Names stand in code spans, or in cells where each sign is escaped; output stands behind a sign in fences."""
        outside = []
        fence = ""
        for line in schedule.splitlines():
            mark = re.match(r"`{3,}", line)
            if mark and not fence:
                fence = mark[0]
            elif fence and line.strip() == fence:
                fence = ""
            elif not fence:
                outside.append(line)
            else:
                assert not line.startswith(("#", "`", "|")), line
        assert not fence, "a fence does not close"
        for line in outside:
            bare = re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", line)
            assert not re.search(r"(?<!\\)<(?!br>)[a-zA-Z/!]", bare), line
            assert "](javascript" not in bare, line
        assert len([line for line in outside if line.startswith("## Suites")]) == 1
        assert "\u2028" not in schedule

    def test_tables_keep_their_columns(self, schedule):
        width = None
        for line in schedule.splitlines():
            if not line.startswith("|"):
                width = None
                continue
            count = len(re.findall(r"(?<!\\)\|", line))
            assert width in (None, count), line
            width = count

    def test_the_journal_parses(self, repo, schedule):
        for line in repo.left("queue/journal.jsonl").splitlines():
            json.loads(line)
        assert {case.suite for case in repo.junit().cases} == {f"h/{tag}" for tag in self.TAGS}
