"""No secret of the environment on the screen: in usage errors, in the errors of ``sgpu``, in plans, in live lines."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

TOKEN = "Tok en  4711<&>\tx\x1b[1m'q'\udcff.end"
PLAIN = "plainToken8877"
ENV = {"FOO_TOKEN": TOKEN, "BAR_TOKEN": PLAIN}
URL = "https://u:pwpwpw9@h/?token=tttttt1"
PARTS = ("Tok en", "4711", "plainTok", "Token88", "pwpwpw9", "tttttt1")


def without_secrets(*texts):
    for text in texts:
        for part in PARTS:
            assert part not in text, text
    assert any("***" in text for text in texts), texts


def refused(repo, *words, conf="suite.conf", **env):
    done = repo.run(*words, conf=conf, env=ENV | env)
    assert done.code == 4, done.text
    assert "ERROR: " in done.err
    without_secrets(done.out, done.err)
    return done.errors


@pytest.mark.parametrize(
    "listing",
    [
        'printf "boom %s %s\\n" "$FOO_TOKEN" "$URL" >&2; exit 3',
        'printf "boom %s %s\\n" "$FOO_TOKEN" "$URL"; exit 3',
        'printf "TE_CI_ITEM x %s\\n" "$FOO_TOKEN"',
        'printf "TE_CI_ITEM x %s\\n" "$BAR_TOKEN$BAR_TOKEN$BAR_TOKEN"',
        'printf "TE_CI_ITEM %s\\nTE_CI_ITEM %s\\n" "$BAR_TOKEN" "$BAR_TOKEN"',
        'printf "TE_CI_ITEM %s 99\\n" "$BAR_TOKEN"',
        'printf "TE_CI_ITEM %0150d x %s\\n" 1 "$BAR_TOKEN"',
        'printf "TE_CI_ITEM %0190d%s\\n" x "$FOO_TOKEN"',
    ],
)
def test_what_a_listing_said(repo, listing):
    repo.file("s.sh", f"#!/bin/sh\n{listing}\n", executable=True)
    repo.conf_line("s s.log list ./s.sh")
    refused(repo, URL=URL)


@pytest.mark.parametrize(
    "line",
    [
        f"s s.log list ./{PLAIN}",
        f"s s.log {PLAIN} ./s.sh",
        f"{PLAIN}/ s.log list ./s.sh",
        f"s {PLAIN}",
        f"s s.log list '{URL}",
    ],
    ids=range(5),
)
def test_what_a_conf_says(repo, line):
    repo.conf_line(line)
    refused(repo)


@pytest.mark.parametrize(
    "word",
    [
        f"--sgpu-health-cmd=./{PLAIN}",
        f"--sgpu-health-cmd='{URL}",
        f"--sgpu-timeout={PLAIN}",
        f"--sgpu-timeout={42 * '1'}{PLAIN}",
        f"--sgpu-stall={URL}",
        f"--sgpu-suites={PLAIN}",
        f"--sgpu-gpus={PLAIN}",
        f"--sgpu-plan={PLAIN}",
        f"--sgpu-resume={PLAIN}",
        f"--sgpu-log-dir=suite.conf/{PLAIN}",
        f"-osgpu_retries={PLAIN}",
        f"-osgpu_plan={PLAIN}",
        f"-osgpu_junit_failures={PLAIN}",
        f"suite.conf::s::{PLAIN}",
    ],
)
def test_what_an_option_has(repo, word):
    repo.suite("s", {"a": "ran"})
    refused(repo, word)


def test_a_level_and_two_run_directories(repo):
    repo.suite("s", {"a": "ran"})
    refused(repo, TEST_LEVEL=PLAIN)
    refused(repo, f"--sgpu-resume={PLAIN}", "--sgpu-resume=b")


def test_the_command(repo):
    for words in (["finalize", PLAIN], ["init", "--dir", PLAIN], ["shell-lib", PLAIN], [PLAIN]):
        done = repo.command(sys.executable, "-m", "pytest_sgpu.cli", *words, env=ENV)
        assert done.code == 4
        without_secrets(done.text)


def test_the_plan_and_the_header(repo):
    repo.suite("s", {"a": "ran"})
    repo.file("q.conf", f"s s.log list ./s.sh --t {PLAIN} {URL}\n")
    done = repo.run("--sgpu-plan=json", conf="q.conf", env=ENV)
    assert done.code == 0
    assert json.loads(done.out)["entries"][0]["command"][-2:] == ["***", "https://***@h/?token=***"]
    assert repo.run(conf="q.conf", env=ENV).code == 0
    for name in ("queue/queue.tsv", "queue/journal.jsonl"):
        without_secrets(repo.left(name))
    (repo.path / "q.conf").rename(repo.path / f"{PLAIN}.conf")
    done = repo.run("--sgpu-plan", conf=f"{PLAIN}.conf", env=ENV)
    assert "sgpu: queue of ***.conf" in done.out.splitlines()


def test_what_an_item_left_behind(repo):
    body = 'ran; setsid python3 -c "import time; time.sleep(600)" "$FOO_TOKEN" "$BAR_TOKEN" & sleep 0.5'
    repo.suite("s", {"a": body})
    done = repo.run(env=ENV)
    assert done.code == 0, done.text
    leaks = [line for line in done.out.splitlines() if "LEAK" in line]
    assert leaks
    for line in leaks:
        assert "*** ***" in line
    without_secrets(done.text, repo.left("queue/journal.jsonl"), repo.left("report/schedule.md"))


def test_a_plan_that_nobody_takes(repo):
    word = "--sgpu-plan=json"
    repo.suite("s", {"a": "ran"})
    with Path("/dev/full").open("wb") as full:
        done = repo.end(repo.start(*repo.words(word), stdout=full))
    assert done.code == 4
    assert "ERROR: standard output cannot be written: No space left on device" in done.err
    assert "INTERNALERROR" not in done.err
    assert "Exception ignored" not in done.err
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as gone:
        done = repo.end(repo.start(*repo.words(word), stdout=gone))
    assert done.code == 0
    assert "rror" not in done.err


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_of_the_command_that_has_left(repo, unbuffered):
    repo.suite("s", {"a": "ran", "b": "exit 1"})
    assert repo.run().code == 1
    words = {"finalize test-results/logs": 1, "shell-lib": 0, "init --dir .": 0, "--version": 0, "init --help": 0}
    for line, code in words.items():
        reader, writer = os.pipe()
        os.close(reader)
        command = [sys.executable, "-m", "pytest_sgpu.cli", *line.split()]
        with os.fdopen(writer, "wb") as gone:
            done = repo.end(repo.start(*command, stdout=gone, env={"PYTHONUNBUFFERED": unbuffered}))
        assert (done.code, done.err) == (code, ""), line
    assert (repo.path / "ci/suites/example.sh").exists()
    with Path("/dev/full").open("wb") as full:
        done = repo.end(repo.start(sys.executable, "-m", "pytest_sgpu.cli", "shell-lib", stdout=full))
    assert done.code == 4
    assert done.err == "sgpu: error: standard output cannot be written: No space left on device\n"


@pytest.mark.parametrize("flag", ["-f", "--looponfail"])
def test_the_loop_of_xdist_is_refused(repo, flag):
    repo.suite("s", {"a": "ran"})
    done = repo.run("-p", "xdist", "-p", "xdist.looponfail", flag)
    assert done.code == 4
    assert "ERROR: -f/--looponfail cannot be used with --sgpu-conf" in done.errors


def test_a_run_that_is_not_there_is_refused_by_those_who_only_look_too(repo):
    repo.suite("s", {"a": "ran"})
    done = repo.run("--collect-only", "--sgpu-resume=nothing-here")
    assert done.code == 4
    assert "no run has left its journal here, so there is none to go on with" in done.errors
    assert "suite.conf::s::a" not in done.out
    assert not (repo.path / "nothing-here").exists()
