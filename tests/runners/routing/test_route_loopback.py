"""What the routing reads from GitHub, over a real socket, and what it does when that cannot be had."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from pytest_sgpu.runners.route import command
from pytest_sgpu.runners.route.decision import Tools

ROOT = Path(__file__).resolve().parents[3]
TOKEN = "ghs_0123456789abcdef"
ROLLOUT = "experiments:\n  lf:\n    rollout_perc: 0\n---\n@alice,lf\n"
ISSUE = "/repos/o/r/issues/5132"
COMMENTS = f"{ISSUE}/comments?per_page=1"
PULL = "/repos/o/r/issues/12"


class Api:
    """Answers on this machine: each path gives its answers in turn, the last one for ever."""

    def __init__(self):
        self.answers: dict[str, list[tuple[int, object, dict[str, str]]]] = {}
        self.asked: list[str] = []
        self.tokens: set[str] = set()
        api = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                api.asked.append(self.path)
                api.tokens.add(self.headers.get("Authorization", ""))
                waiting = api.answers.get(self.path, [(404, {"message": "Not Found"}, {})])
                status, body, headers = waiting.pop(0) if len(waiting) > 1 else waiting[0]
                data = body if isinstance(body, bytes) else json.dumps(body).encode()
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self.thread.start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def gives(self, path, *bodies, status=200, **headers):
        named = {name.replace("_", "-"): text for name, text in headers.items()}
        self.answers.setdefault(path, []).extend((status, body, named) for body in bodies)
        return self

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture
def api():
    made = Api()
    yield made
    made.close()


@pytest.fixture
def shell(api, clock, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the checkout has a conf/ of its own

    def run(*words, **env):
        known = {"GITHUB_API_URL": api.url, "GITHUB_TOKEN": TOKEN, "GITHUB_OUTPUT": str(tmp_path / "output")} | env
        code = command.main(["prefix", *words], known, Tools(clock=lambda: clock))
        out, err = capsys.readouterr()
        assert TOKEN not in out + err
        return code, dict(line.split("=", 1) for line in out.splitlines() if not line.startswith("# ")), err

    return run


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "rollout.txt"
    path.write_text(ROLLOUT, encoding="utf-8")
    return f"--config={path}"


def test_q105_the_rollout_text_is_the_first_comment(api, shell):
    api.gives(COMMENTS, [{"id": 1, "body": ROLLOUT}])
    code, values, err = shell("--github-issue=o/r#5132", "--actor=alice")
    assert (code, values["label-type"], values["decision-source"], err) == (0, "lf.", "rollout", "")
    assert api.asked == [COMMENTS]
    assert api.tokens == {f"Bearer {TOKEN}"}


@pytest.mark.parametrize("body", [[], [{"id": 1}], [{"body": None}], ["text"], [{"body": 7}]])
def test_q105_no_first_comment_is_a_fallback(api, shell, body):
    api.gives(COMMENTS, body)
    code, values, _ = shell("--github-issue=o/r#5132", "--actor=alice")
    assert code == 0
    assert re.match("fallback: o/r#5132: ", values["decision-source"])


@pytest.mark.parametrize(
    "text", ["o/r", "o/r#", "o/r#0", "o/r#x", "o#1", "../..#1", "o/..#1", "o/r#1?x", "a b/c#1", "o/r/s#1"]
)
def test_q105_what_names_no_issue_is_asked_of_nobody(api, shell, text):
    code, values, _ = shell(f"--github-issue={text}")
    assert code == 0
    assert values["decision-source"].startswith("fallback: --github-issue: ")
    assert api.asked == []


def test_q106_labels_are_read_as_they_are_now(api, shell, config):
    api.gives(f"{PULL}/labels?per_page=100&page=1", [{"name": "ciflow/x"}, {"name": "No-Runner-Experiments"}])
    code, values, _ = shell(config, "--pr=12", "--repo=o/r", "--actor=alice")
    assert (code, values["label-type"]) == (0, "")
    assert values["decision-source"] == "kill-switch: no-runner-experiments"


def test_q106_the_repository_of_the_step_is_the_default(api, shell, config):
    api.gives(f"{PULL}/labels?per_page=100&page=1", [])
    assert shell(config, "--pr= 12 ", "--actor=alice", GITHUB_REPOSITORY="o/r")[1]["label-type"] == "lf."


def labels(page):
    return f"{PULL}/labels?per_page=100&page={page}"


def test_q106_further_pages_are_read_up_to_ten(api, shell, config):
    for page in range(1, 12):
        api.gives(labels(page), [{"name": f"{page}-{n}"} for n in range(100)])
    assert shell(config, "--pr=12", "--repo=o/r")[1]["decision-source"] == "rollout"
    assert api.asked == [labels(page) for page in range(1, 11)]


@pytest.mark.parametrize(
    ("link", "pages"),
    [
        ('<https://evil.example.org/labels?page=9>; rel="next"', 2),
        ('<{url}/x?page=1>; rel="prev", <{url}/x?page=2>; rel="next", <{url}/x?page=7>; rel="last"', 2),
        ("<{url}/x>;rel=next", 2),
        ('<{url}/x>; title="a"; REL="last Next"', 2),
        ('<{url}/x>; rel="prev"', 1),
        ('<{url}/x;rel=next>; rel="last"', 1),
        ('<{url}/x>; rel="nextish"', 1),
        ("", 1),
    ],
)
def test_q106_a_page_that_is_not_full_has_another_where_the_link_says_so(api, shell, config, link, pages):
    api.gives(labels(1), [{"name": "a"}], Link=link.format(url=api.url))
    api.gives(labels(2), [{"name": "No-Runner-Experiments"}])
    code, values, _ = shell(config, "--pr=12", "--repo=o/r", "--actor=alice")
    assert code == 0
    assert api.asked == [labels(page) for page in range(1, pages + 1)]
    assert (values["decision-source"] == "rollout") == (pages == 1)


def test_q106_links_without_end_are_followed_up_to_ten(api, shell, config):
    for page in range(1, 12):
        api.gives(labels(page), [], LINK='<x>; rel="next"')
    assert shell(config, "--pr=12", "--repo=o/r")[1]["decision-source"] == "rollout"
    assert len(api.asked) == 10


def test_q106_a_failed_try_says_nothing_about_pages(api, shell, config):
    api.gives(labels(1), {}, status=502, Link='<x>; rel="next"')
    api.gives(labels(1), [{"name": "a"}])
    assert shell(config, "--pr=12", "--repo=o/r")[1]["decision-source"] == "rollout"
    assert len(api.asked) == 2


@pytest.mark.parametrize("number", ["abc", "0", "-1", "1.0", "12 13", "\uff11\uff12", "1" * 30, "1/../../x"])
def test_q106_what_is_no_number_is_a_fallback(api, shell, config, number):
    code, values, _ = shell(config, f"--pr={number}", "--repo=o/r")
    assert code == 0
    assert values["decision-source"].startswith("fallback: --pr: found ")
    assert api.asked == []


def test_q106_labels_that_cannot_be_read_are_a_fallback_not_no_labels(api, shell, config):
    code, values, err = shell(config, "--pr=12", "--repo=o/r", "--actor=alice")
    assert (code, values["label-type"]) == (0, "")
    assert values["decision-source"].startswith("fallback: the labels of o/r#12 cannot be read: ")
    assert "404" in values["decision-source"]
    assert "issues: read" in err


@pytest.mark.parametrize("labels", [[{"name": 5}, "x"], ["x"], [{}], [None], [{"name": "x"}, {"name": None}]])
def test_q106_labels_that_are_none_are_a_fallback(api, shell, config, labels):
    api.gives(f"{PULL}/labels?per_page=100&page=1", labels)
    code, values, err = shell(config, "--pr=12", "--repo=o/r", "--actor=alice")
    assert (code, values["label-type"]) == (0, "")
    assert values["decision-source"].startswith("fallback: the labels of o/r#12 cannot be read: found ")
    assert "issues: read" not in err


def test_q107_reads_are_tried_again(api, shell, clock):
    api.gives(COMMENTS, {"message": "oh"}, status=502).gives(COMMENTS, b"<html>", status=200)
    api.gives(COMMENTS, [{"body": ROLLOUT}])
    began = clock.monotonic()
    assert shell("--github-issue=o/r#5132", "--actor=alice")[1]["label-type"] == "lf."
    assert len(api.asked) == 3
    assert clock.monotonic() - began == 15.0


@pytest.mark.parametrize(
    ("status", "headers", "times"),
    [(500, {}, 3), (401, {}, 1), (403, {}, 1), (404, {}, 1), (410, {}, 1), (429, {"Retry_After": "600"}, 1)],
)
def test_q107_what_goes_on_failing_is_a_fallback(api, shell, status, headers, times):
    api.gives(COMMENTS, {"message": "no\n::error::x"}, status=status, **headers)
    code, values, err = shell("--github-issue=o/r#5132", "--actor=alice", GITHUB_ACTIONS="true")
    assert code == 0
    assert values["decision-source"].startswith("fallback: the first comment of o/r#5132 cannot be read: ")
    assert len(api.asked) == times
    assert ("issues: read" in err) == (status in {401, 403, 404})
    assert all(line.startswith("::warning title=") for line in err.strip().split("\n"))


def test_q107_all_reads_together_end_in_time(api, shell, clock):
    api.gives(COMMENTS, {}, status=429, Retry_After="50")
    began = clock.monotonic()
    assert shell("--github-issue=o/r#5132")[1]["decision-source"].startswith("fallback: ")
    assert clock.monotonic() - began <= 90.0


def test_q107_nobody_who_answers_is_a_fallback(api, shell, config):
    api.close()
    code, values, _ = shell(config, "--pr=12", "--repo=o/r", "--strict")
    assert code == 1
    assert values["decision-source"].startswith("fallback: the labels of o/r#12 cannot be read: ")


def test_q108_the_author_counts_for_a_bot(api, shell, config):
    api.gives(PULL, {"number": 12, "user": {"login": "Alice"}})
    bot = ("--actor=pytorch-bot[bot]", "--ref-type=tag", "--branch=refs/tags/ciflow/trunk/12", "--repo=o/r")
    assert shell(config, *bot)[1]["label-type"] == "lf."
    assert api.asked == [PULL]
    assert shell(config, *bot, "--author=alice")[1]["label-type"] == "lf."
    assert len(api.asked) == 1, "who is given is not looked up"


@pytest.mark.parametrize("body", [{"user": None}, {"user": {}}, {}, {"user": {"login": ""}}])
def test_q108_an_author_who_is_not_known_is_a_fallback(api, shell, config, body):
    api.gives(PULL, body)
    bot = ("--actor=pytorch-bot[bot]", "--ref-type=tag", "--branch=ciflow/trunk/12", "--repo=o/r")
    assert shell(config, *bot)[1]["decision-source"].startswith("fallback: the author of o/r#12 ")


@pytest.mark.parametrize(
    ("env", "text"),
    [
        ({"GITHUB_TOKEN": " "}, "no token"),
        ({"GITHUB_TOKEN": "a b"}, "without blanks"),
        ({"GITHUB_API_URL": "http://api.example.org"}, "use https|would show the token"),
        ({"GITHUB_TOKEN": "", "INPUT_TOKEN": "ghs_other"}, "no token"),
    ],
)
def test_q104_the_token_comes_from_one_variable(api, shell, env, text):
    code, values, err = shell("--github-issue=o/r#5132", **env)
    assert code == 0
    assert re.search(text, values["decision-source"] + err)
    assert api.asked == []


def test_q101_hostile_answers_stay_in_their_line(api, shell):
    hostile = "x\n::error::forged\u2028\x1b##[y"
    api.gives(COMMENTS, [{"body": f"experiments:\n  lf: {{rollout_perc: {json.dumps(hostile)}}}\n---\n@alice,lf\n"}])
    api.gives(f"{PULL}/labels?per_page=100&page=1", [{"name": hostile}])
    words = ["--github-issue=o/r#5132", "--pr=12", "--repo=o/r", "--actor=alice"]
    code, values, err = shell(*words, "--explain", GITHUB_ACTIONS="true")
    assert (code, values["label-type"]) == (0, "lf.")
    assert not [line for line in err.split("\n") if line.lstrip().startswith("::error")]
    assert "##[" not in err


def test_q100_as_a_process_of_its_own(api, tmp_path):
    api.gives(COMMENTS, [{"body": ROLLOUT}]).gives(f"{PULL}/labels?per_page=100&page=1", [{"name": "x"}])
    output = tmp_path / "output"
    env = {"GITHUB_API_URL": api.url, "GITHUB_TOKEN": TOKEN, "GITHUB_OUTPUT": str(output), "PYTHONPATH": str(ROOT)}
    words = ["--github-issue=o/r#5132", "--pr=12", "--repo=o/r", "--actor=alice"]
    made = subprocess.run(
        [sys.executable, "-m", "pytest_sgpu.cli", "route", "prefix", *words],
        env=os.environ | env,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (made.returncode, made.stderr) == (0, "")
    assert made.stdout == "label-type=lf.\nuse-arc=false\namd-do-label-type=\ndecision-source=rollout\n"
    assert output.read_text(encoding="utf-8") == made.stdout
