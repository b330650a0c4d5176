"""What items print: no text, terminal orders, CI commands, lines without end. The logs keep every byte."""

from __future__ import annotations

import re

import pytest

ORDERS = (
    "echo '::error file=evil.py,line=1::planted'; echo '  ::warning::planted, indented'; "
    "echo '##[error]planted'; echo '::stop-commands::planted-token'; echo '::add-mask::a'; "
    "echo '::group::planted'; echo '::endgroup::'; echo '::set-output name=x::planted'; "
    "printf 'progress\\r::error::planted after a carriage return\\n'"
)


def commands(text: str) -> list[str]:
    return [line for line in re.split(r"[\r\n]", text) if re.match(r"\s*(::|##\[)", line)]


class TestOrdersToTheService:
    @pytest.fixture
    def planted(self, repo):
        repo.file(
            "bad.xml",
            '<testsuite name="x" tests="1"><testcase classname="m" name="test_100%[a,b:c]">'
            '<failure message="first&#10;::error::planted in a message">50% off&#10;::error::more</failure>'
            "</testcase></testsuite>",
        )
        fails = f'{ORDERS}; cp "$top/bad.xml" "$xml"; exit 1'
        repo.suite("a", {"passes": f"{ORDERS}; cases 1"} | {f"fails.{n}": fails for n in range(12)})
        return repo

    @pytest.mark.parametrize("words", [(), ("-s", "-v", "-rA")])
    def test_every_command_is_our_own(self, planted, words):
        done = planted.run(*words, env={"GITHUB_ACTIONS": "true"})
        assert done.code == 1
        found = commands(done.text)
        assert 1 <= len(found) <= 10
        assert all(re.match(r"::error title=[^:,]*::", line) for line in found)
        assert "%0A" in found[0]
        assert "100%25" in found[0]
        assert "a%2Cb%3Ac" in found[0]
        assert sum("more items" in line or "more item" in line for line in found) == 1
        log = (planted.logs / "items/a.passes.log").read_bytes()
        assert b"::error file=evil.py,line=1::planted\n" in log
        assert b"progress\r::error::planted" in log

    def test_without_the_service_there_are_none(self, planted):
        assert commands(planted.run().text) == []

    def test_a_listing_and_a_setup_that_give_orders(self, repo):
        repo.suite("s", {"a": "cases 1"}, head="setup='echo \"::error::planted\"; exit 1'")
        assert all("title=" in line for line in commands(repo.run(env={"GITHUB_ACTIONS": "true"}).text))
        repo.script("s.sh", "echo '::error::planted'; echo '::error::planted' >&2; exit 1")
        assert commands(repo.run(env={"GITHUB_ACTIONS": "true"}).text) == []


class TestNoText:
    LINES = {  # noqa: RUF012
        "bad": "printf 'bad: \\377\\376 \\300\\257 lone \\233 31m\\n'",
        "terminal": "printf 'title \\033]0;owned\\007 clear \\033[2J\\033[H colour \\033[31mred\\n'",
        "nul": "printf 'a\\000b\\000c\\n'",
        "giant": "echo before; head -c 200000 /dev/zero | tr '\\0' x; echo; echo after",
        "accents": "printf 'infini \\342\\210\\236, caf\\303\\251\\n'",
    }
    SIZES = {"bad": 27, "terminal": 50, "nul": 6, "giant": 200_000 + 14, "accents": 20}  # noqa: RUF012

    @pytest.mark.parametrize("locale", [{"LC_ALL": "C", "LANG": None}, {"LANG": "C.UTF-8"}])
    def test_it_is_shown_and_kept(self, repo, locale):
        repo.suite("b", {tag: f"ran; {body}; exit 1" for tag, body in self.LINES.items()})
        summary = repo.path / "summary.md"
        done = repo.run("-rA", env=locale | {"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(summary)})
        assert done.code == 1
        proof = {tag: len(f"TE_CI_RAN {tag}\n") for tag in self.LINES}
        for tag in self.LINES:
            log = (repo.logs / f"items/b.{tag}.log").read_bytes()
            assert log.startswith(b"TE_CI_RAN ")
            printed = log[proof[tag] :]
            if tag in ("giant", "nul"):
                assert len(printed) == self.SIZES[tag]
        assert b"\xff\xfe \xc0\xaf lone \x9b" in (repo.logs / "items/b.bad.log").read_bytes()
        texts = [done.text, repo.left("report/schedule.md"), repo.left("report/junit.xml"), summary.read_text()]
        for text in texts:
            assert not re.search("[\0\x07\x1b\x80-\x9f]", text)
        for text in texts[:2]:
            assert max(map(len, text.splitlines())) <= 2100
        assert "characters cut]" in done.out
        assert "test-results/logs/items/b.giant.log" in done.out
        assert len(repo.junit().cases) == 5

    def test_under_an_ascii_locale_nothing_ends(self, repo):
        """Labels are plain, tags are not: the whole screen under a terminal that knows no accents."""
        repo.suite("b", {"caf\u00e9.\u221e": "ran; exit 1"})
        for encoding in ("ascii", "latin-1"):
            done = repo.run("-v", env={"LC_ALL": "C", "LANG": None, "PYTHONIOENCODING": encoding})
            assert done.code == 1, done.text


class TestHugeSummary:
    def test_the_summary_stays_under_the_limit(self, repo):
        """What others wrote stays; ours gets what room there is, and says what is missing."""
        limit = 1024 * 1024
        before = b"e" * (limit - 60 * 1024) + b"\n"
        summary = repo.file("summary.md", before)
        say = f"n=0; while [ $n -lt 25 ]; do echo {'y' * 65}; n=$((n+1)); done"
        repo.suite("big", {f"some_module.backend_{n}": f"ran; {say}; exit 1" for n in range(60)})
        done = repo.run("-q", gpus=3, env={"GITHUB_STEP_SUMMARY": str(summary)})
        assert done.code == 1
        after = summary.read_bytes()
        assert after.startswith(before)
        assert len(after) < limit - 1000
        own = after[len(before) :].decode()
        assert "60 failed" in own
        assert "schedule.md" in own
        assert "again: " in own
        schedule = repo.left("report/schedule.md")
        assert schedule.count("\n### ") == 60
        assert own.count("\n### ") < 60

    def test_nothing_fits_any_more(self, repo):
        summary = repo.file("summary.md", b"e" * (1024 * 1024 - 10))
        repo.suite("s", {"a": "cases 1"})
        assert repo.run(env={"GITHUB_STEP_SUMMARY": str(summary)}).code == 0
        assert summary.stat().st_size <= 1024 * 1024

    @pytest.mark.parametrize("place", ["/proc/self/no_such_summary", "/dev/null/x", "no/such/folder/summary.md"])
    def test_it_cannot_be_written(self, repo, place):
        repo.suite("s", {"a": "cases 1", "b": "exit 3"})
        done = repo.run(env={"GITHUB_STEP_SUMMARY": place})
        assert done.code == 1
        assert done.out.count("the job summary could not be written") == 1
        assert (repo.logs / "report/schedule.md").exists()
        assert repo.status()["s/a"] == "PASSED"
