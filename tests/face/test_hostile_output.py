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
    """Give the lines that a runner takes for a command: it wants ``::`` first, but ``##[`` anywhere."""
    return [line for line in re.split(r"[\r\n]", text) if line.lstrip().startswith("::") or "##[" in line]


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

    @pytest.mark.parametrize("words", [(), ("-v", "-rA")])
    def test_names_and_messages_that_are_commands(self, repo, words):
        """A test without a class whose name begins with an order, and the old form in the middle of everything."""
        repo.file(
            "names.xml",
            '<testsuite><testcase name="::error::planted"><failure message="::warning::planted ##[error]planted">'
            '##[group]planted</failure></testcase><testcase classname="##[add-mask]a" name="##vso[x]y">'
            '<error message="##[error]planted"/></testcase></testsuite>',
        )
        repo.suite("a", {"x": 'echo "##[error]planted"; cp "$top/names.xml" "$xml"; exit 1', "y": "exit 0"})
        done = repo.run(*words, env={"GITHUB_ACTIONS": "true"})
        assert done.code == 1
        assert all(re.match(r"::error title=[^:,]*::", line) for line in commands(done.text)), commands(done.text)
        assert commands(repo.left("report/schedule.md")) == []
        assert len(commands(done.text)) == 2
        assert r"\x3a:error::planted" in done.out

    def test_a_tag_that_is_a_command_is_no_item(self, repo):
        repo.script("s.sh", {"a": "cases 1"}, head="[ -z \"$TE_CI_LIST_ITEMS\" ] || echo 'TE_CI_ITEM ##[error]b'")
        repo.conf_line("s s.log list ./s.sh")
        done = repo.run("-v", env={"GITHUB_ACTIONS": "true"})
        assert all("title=" in line for line in commands(done.text))

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

    def test_nothing_hides_and_nothing_turns_around(self, repo):
        """What has no width and what changes the direction of text, in output, names and messages."""
        hidden = "\u202e\u2066\u200b\u00ad\ufeff\U000e0041\ufe0f\u3164"
        repo.file(
            "x.xml",
            f'<testsuite><testcase classname="m" name="t{hidden}"><failure message="m{hidden}">t</failure></testcase>'
            "</testsuite>",
        )
        repo.file("say", f"said {hidden}\n")
        repo.suite("h", {"a": 'cat "$top/say"; cp "$top/x.xml" "$xml"; exit 1'})
        done = repo.run("-v", "-rA", env={"GITHUB_ACTIONS": "true"})
        for text in (done.text, repo.left("report/schedule.md"), repo.left("report/junit.xml")):
            assert not set(hidden) & set(text)
            assert r"\u202e\u2066\u200b\xad\ufeff\U000e0041\ufe0f\u3164" in text

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


SECRETS = {
    "DEPLOY_TOKEN": "tok-0123456789abcdef",
    "my_password": 'it\'s a "pass"',
    "SSH_KEY": "-----BEGIN KEY-----\nMIIEvQIBADANBgkq\n-----END KEY-----",
    "INDEX": "https://me:hunter2hunter2@host.example/simple",
}
PLAIN = ("tok-0123456789", "it's a", "MIIEvQIBADANBgkq", "hunter2hunter2", "querytoken1")


class TestSecrets:
    def test_they_are_in_the_raw_log_alone(self, repo):
        """Printed, in names and messages of tests, in a URL; seen in every file that the run writes."""
        repo.suite(
            "s",
            {
                "says": "env; echo https://u:hunter2hunter2@h/?sig=querytoken1; ran; exit 1",
                "names": 'printf \'<testsuite><testcase classname="%s" name="t[%s]"><failure message="m %s">f %s'
                '</failure></testcase></testsuite>\' $DEPLOY_TOKEN $DEPLOY_TOKEN $DEPLOY_TOKEN $INDEX >"$xml"; exit 1',
            },
        )
        summary = repo.path / "summary.md"
        env = {**SECRETS, "GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(summary)}
        done = repo.run("-v", "-rA", "--junitxml=own.xml", env=env)
        assert done.code == 1
        texts = {"the screen": done.text, "the summary": summary.read_text(), "own.xml": repo.read("own.xml")}
        for path in (*repo.logs.glob("queue/*"), *repo.logs.glob("report/*"), *repo.logs.glob("suites/*")):
            texts[path.name] = path.read_text(encoding="utf-8")
        assert len(texts) > 8
        for name, text in texts.items():
            assert [secret for secret in PLAIN if secret in text] == [], name
        assert "***" in done.out
        log = repo.left("items/s.says.log")
        assert [secret for secret in PLAIN if secret not in log] == []


HOSTILE_XML = {
    "bomb": '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;">]><testsuite><testcase name="&b;"/></testsuite>',
    "outside": '<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]><testsuite><testcase name="&e;"/></testsuite>',
    "dtd": '<!DOCTYPE testsuite SYSTEM "http://127.0.0.1:1/x.dtd"><testsuite><testcase name="a"/></testsuite>',
    "default": '<!DOCTYPE x [<!ATTLIST testcase z CDATA "zz">]><testsuite><testcase name="a"/></testsuite>',
    "deep": "<testsuite>" * 100_000,
    "mixed": '<testsuite><testcase name="a"/><testcase<testsuite> name="b"/></testsuite>',
    "code": '<?xml version="1.0" encoding="zlib_codec"?><testsuite><testcase name="a"/></testsuite>',
}


class TestHostileFiles:
    def test_they_are_told_as_damage_and_fail_their_item(self, repo):
        for name, body in HOSTILE_XML.items():
            repo.file(f"{name}.xml", body)
        repo.suite("h", {name: f'ran; cp "$top/{name}.xml" "$xml"' for name in HOSTILE_XML} | {"good": "cases 1"})
        done = repo.run("-v")
        assert done.code == 1
        assert repo.status() == {f"h/{name}": "FAILED" for name in HOSTILE_XML} | {"h/good": "PASSED"}
        reasons = {key: record["reason"] for key, record in repo.outcomes().items()}
        for name, said in {
            "bomb": "declares entities, which are not read",
            "outside": "declares entities, which are not read",
            "dtd": "refers to an external document type (DTD), which is not read",
            "default": "declares attributes, which are not read",
            "deep": "elements are nested deeper than 100",
            "mixed": "after 1 whole case",
            "code": "names an encoding that cannot be read",
        }.items():
            assert said in reasons[f"h/{name}"]
            assert said in repo.left("report/schedule.md")
        assert "root:" not in done.text + repo.left("report/junit.xml")
        assert repo.junit().results == {"passed": 2, "failure": 6, "error": 1}
