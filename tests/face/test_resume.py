"""`--sgpu-resume`: a run that was cut off goes on, and in the end all is as if it had not been."""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ITEMS = {
    "good": "note; cases 2",
    "bad": "note; cases 1 1; exit 3",
    "slow": 'note; ran; echo start of slow; [ -e "$top/go" ] || sleep 300',
    "more": 'note; ran; [ -e "$top/go" ] || sleep 300',
    "late": "note; cases 3",
}
WEIGHTS = "s/good 100.0\ns/bad 90.0\ns/slow 50.0\ns/more 40.0\ns/late 30.0\n"
FIRST = {"good", "bad", "slow", "more"}


def cut(repo, until, number=signal.SIGKILL, *, env=None):
    """Run until two items have ended and two others run, then end it; what it ran must be gone."""
    repo.suite("s", ITEMS)
    repo.weights(WEIGHTS)
    process = repo.start(*repo.words(), env=env)
    until(lambda: set(repo.seen) >= FIRST)
    process.send_signal(number)
    done = repo.end(process)
    until(lambda: not repo.survivors())
    return done


def finalize(repo):
    return repo.command(sys.executable, "-m", "pytest_sgpu.cli", "finalize", "test-results/logs")


def results(repo, name="test-results/logs"):
    """Give what a reader finds, without what depends on the clock and the device."""
    junit = repo.junit(f"{name}/report/junit.xml")
    cases = sorted((case.suite, case.classname, case.name, case.result, case.message) for case in junit.cases)
    index = repo.read(f"{name}/suites/s.log").splitlines()
    rows = sorted((row.split("\t")[0], *row.split("\t")[3:]) for row in index)
    return cases, rows, repo.read(f"{name}/suites/s.log.rc")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_the_end_is_as_if_it_had_not_been_cut_off(repo, until, number):
    cut(repo, until, number)
    (repo.path / "go").touch()
    done = repo.run("--sgpu-resume")
    assert done.code == 1
    assert sorted(repo.seen) == sorted([*ITEMS, "slow", "more"])
    last = {record["key"]: record["status"] for record in repo.records() if record["event"] == "outcome"}
    assert last == {f"s/{tag}": "FAILED" if tag == "bad" else "PASSED" for tag in ITEMS}

    # Times and devices apart, every file says what it would have said.
    weights = repo.learned()
    repo.weights(WEIGHTS)
    assert repo.run("--sgpu-log-dir=whole").code == 1
    assert results(repo) == results(repo, "whole")
    there = {path.relative_to(repo.logs).as_posix() for path in repo.logs.rglob("*") if path.is_file()}
    uncut = {path.relative_to(repo.path / "whole").as_posix() for path in (repo.path / "whole").rglob("*.*")}
    assert {name for name in uncut if (repo.path / "whole" / name).is_file()} <= there
    assert weights.keys() == repo.learned().keys()
    for key, old in {"s/good": 100.0, "s/bad": 90.0, "s/slow": 50.0, "s/more": 40.0, "s/late": 30.0}.items():
        assert old * 0.9 <= weights[key] + 0.05 <= old * 0.9 + 2, f"{key} was not taught once"

    # What an earlier attempt has left is kept.
    (log,) = (repo.logs / "attempts" / "1").rglob("s.slow.log")
    assert "start of slow\n" in log.read_text()
    assert repo.left("items/s.slow.log").count("start of slow") == 1
    again = finalize(repo)
    assert again.code == 1
    assert results(repo) == results(repo, "whole")


def test_nothing_is_taught_twice(repo, until):
    cut(repo, until)
    assert finalize(repo).code == 2
    once = repo.learned()
    assert 89 < once["s/good"] <= 90.1
    (repo.path / "go").touch()
    assert repo.run("--sgpu-resume").code == 1
    weights = repo.learned()
    assert {key: weights[key] for key in ("s/good", "s/bad")} == {key: once[key] for key in ("s/good", "s/bad")}
    assert 44 < weights["s/slow"] <= 46
    assert finalize(repo).code == 1
    assert repo.learned() == weights


def test_it_may_be_cut_off_as_often_as_it_likes(repo, until):
    cut(repo, until)
    for times in (2, 3):
        process = repo.start(*repo.words("--sgpu-resume"))
        until(lambda times=times: repo.seen.count("slow") == repo.seen.count("more") == times)
        process.send_signal(signal.SIGKILL)
        repo.end(process)
        until(lambda: not repo.survivors())
    (repo.path / "go").touch()
    done = repo.run("--sgpu-resume")
    assert done.code == 1
    assert [record["event"] for record in repo.records()].count("resume") == 3
    outcomes = repo.outcomes()
    assert outcomes["s/slow"]["attempt"] == 4
    assert sorted(path.parts[-3] for path in (repo.logs / "attempts").rglob("s.slow.log")) == ["1", "2", "3"]
    # The clock of the whole goes on: nothing on a device overlaps.
    spans: dict[str, list[tuple[float, float]]] = {}
    for row in repo.timings():
        spans.setdefault(row[2], []).append((float(row[5]), float(row[6])))
    for some in spans.values():
        some.sort()
        assert all(first[1] <= second[0] for first, second in itertools.pairwise(some))


def test_the_parts_and_what_is_from_which_are_told(repo, until):
    cut(repo, until)
    (repo.path / "go").touch()
    done = repo.run("--sgpu-resume")
    assert re.search(r"part 2 of this run.*2 items kept, 3 items to run", done.out)
    assert "from part 1" in done.out
    report = repo.left("report/schedule.md")
    assert "## Parts (2)" in report
    for tag, number in {"good": 1, "bad": 1, "slow": 2, "more": 2, "late": 2}.items():
        assert re.search(rf"^\| `s/{tag}` \| \w+ \| {number} \|", report, re.MULTILINE)
    part = {case.suite: case.properties.get("part") for case in repo.junit().cases}
    assert {part["s/good"], part["s/bad"]} == {"1"}
    assert {part["s/slow"], part["s/more"], part["s/late"]} == {"2"}


def test_all_of_it_counts_for_the_exit_code_and_in_pytests_own_file(repo, until):
    cut(repo, until)
    (repo.path / "go").touch()
    done = repo.run("--sgpu-resume", "--junitxml=own.xml")
    assert done.code == 1
    assert "1 failed, 4 passed" in done.out
    text = repo.read("own.xml")
    assert {f'name="{tag}"' in text for tag in ITEMS} == {True}


# ---------------------------------------------------------------- nothing to run, nothing there


@pytest.mark.parametrize(("bodies", "code"), [({"a": "note; ran"}, 0), ({"a": "note; exit 3"}, 1)])
def test_a_run_with_nothing_left_says_so(repo, bodies, code):
    repo.suite("s", bodies)
    assert repo.run().code == code
    weights = repo.learned()
    done = repo.run("--sgpu-resume")
    assert done.code == code
    assert "nothing is left to run" in done.out
    assert (repo.seen, repo.learned()) == (["a"], weights)


def test_where_there_is_nothing_to_resume(repo):
    repo.suite("s", {"a": "note; ran"})
    for args in (["--sgpu-resume"], ["--sgpu-resume=nowhere"], ["--sgpu-resume=force"]):
        done = repo.run(*args)
        assert done.code == 4
        assert "no run has left its journal here" in done.errors
    assert repo.seen == []
    assert not (repo.path / "nowhere").exists()


def test_a_directory_of_another_name(repo, until):
    repo.suite("s", ITEMS)
    process = repo.start(*repo.words("--sgpu-log-dir=here"))
    until(lambda: set(repo.seen) >= FIRST)
    process.send_signal(signal.SIGKILL)
    repo.end(process)
    (repo.path / "go").touch()
    done = repo.run("--sgpu-resume=here")
    assert done.code == 1
    assert len(repo.outcomes(repo.path / "here")) == len(ITEMS)
    assert not repo.logs.exists()


# ---------------------------------------------------------------- not the same run


def git(repo, *words):
    env = {"GIT_CONFIG_NOSYSTEM": "1", "HOME": str(repo.path), "PATH": os.environ["PATH"]}
    who = ["-c", "user.name=tester", "-c", "user.email=tester@example.invalid"]
    subprocess.run(["git", *who, *words], cwd=repo.path, env=env, check=True, capture_output=True)


def change_conf(repo):
    repo.conf_line("# a remark")
    return [], "the conf files: '"


def change_plan(repo):
    script = repo.path / "s.sh"
    script.write_text(script.read_text().replace("line late", "line later"))
    return [], r"the plan: 1 item of then gone \('s/late'\), 1 item of now not in it \('s/later'\)"


def change_selection(repo):
    return ["-k", "good or slow"], r"the plan: 3 items of then gone \('s/bad', 's/late', 's/more'\)"


@pytest.mark.parametrize("change", [change_conf, change_plan, change_selection])
def test_another_conf_or_plan_is_refused(repo, until, change):
    cut(repo, until)
    args, said = change(repo)
    (repo.path / "go").touch()
    seen, weights = list(repo.seen), repo.learned()
    left = {path: path.read_bytes() for path in repo.logs.rglob("*") if path.is_file()}
    done = repo.run("--sgpu-resume", *args)
    assert done.code == 4
    assert re.search(said, done.errors)
    assert "--sgpu-resume=force" in done.errors
    assert (repo.seen, repo.learned()) == (seen, weights)
    assert {path: path.read_bytes() for path in repo.logs.rglob("*") if path.is_file()} == left
    assert finalize(repo).code == 2  # a refusal takes nothing away

    done = repo.run("--sgpu-resume=force", *args)
    assert done.code == (0 if change is change_selection else 1)
    ran = repo.seen[len(seen) :]
    expected = {"slow", "more", "later" if change is change_plan else "late"}
    assert set(ran) == ({"slow"} if change is change_selection else expected)
    assert len(ran) == len(set(ran))


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_another_commit_is_refused_and_told(repo, until):
    git(repo, "init", "-q")
    repo.file(".gitignore", "*\n!source.txt\n!.gitignore\n")
    repo.file("source.txt", "1")
    git(repo, "add", "-A")
    git(repo, "commit", "-qm", "first")
    first = head(repo)
    cut(repo, until)
    repo.file("source.txt", "2")
    changed = repo.run("--sgpu-resume")
    assert changed.code == 4
    assert f"the commit: '{first}' then, '{first}+changes' now" in changed.errors
    git(repo, "commit", "-qam", "a fix")
    second = head(repo)
    (repo.path / "go").touch()
    seen = list(repo.seen)
    done = repo.run("--sgpu-resume")
    assert done.code == 4
    assert f"the commit: '{first}' then, '{second}' now" in done.errors
    assert repo.seen == seen
    done = repo.run("--sgpu-resume=force")
    assert done.code == 1
    assert sorted(repo.seen[len(seen) :]) == ["late", "more", "slow"]
    report = repo.left("report/schedule.md")
    for text in (done.out, report):
        assert first in text
        assert second in text
        assert "2 commits" in text
    commits = {case.suite: case.properties.get("commit") for case in repo.junit().cases}
    assert (commits["s/good"], commits["s/slow"]) == (first, second)


def head(repo) -> str:
    words = ["git", "rev-parse", "--short=12", "HEAD"]
    return subprocess.run(words, cwd=repo.path, capture_output=True, text=True, check=True).stdout.strip()


# ---------------------------------------------------------------- damage


def test_a_torn_last_line_is_mended(repo, until):
    cut(repo, until)
    path = repo.logs / "queue" / "journal.jsonl"
    with path.open("a") as stream:
        stream.write('{"event":"started","at":1')
    (repo.path / "go").touch()
    done = repo.run("--sgpu-resume")
    assert done.code == 1
    assert "skipped" not in done.out
    assert all(json.loads(line) for line in path.read_text().splitlines())


@pytest.mark.parametrize("what", ["plan", "run"])
def test_a_damaged_head_is_refused(repo, until, what):
    cut(repo, until)
    path = repo.logs / "queue" / "journal.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(line for line in lines if not line.startswith(f'{{"event":"{what}"')))
    (repo.path / "go").touch()
    done = repo.run("--sgpu-resume")
    assert done.code == 4
    assert ("the plan: " if what == "plan" else "the conf files: none known then") in done.errors
    done = repo.run("--sgpu-resume=force")
    assert done.code == 1
    assert results(repo)[2] == "3\n"
    assert Path(repo.logs / "report" / "junit.xml").is_file()
