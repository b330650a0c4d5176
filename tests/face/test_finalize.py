"""`sgpu finalize`: from the journal of a run whose controller was killed to everything that a normal end leaves."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sys
from pathlib import Path

import pytest

ITEMS = {
    "good": "note; cases 2",
    "bad": "note; cases 1 1; exit 3",
    "slow": 'note slow; ran; echo last words; [ -e "$top/go" ] || sleep 300',
    "more": 'note more; ran; [ -e "$top/go" ] || sleep 300',
    "late": "note; ran",
}
WEIGHTS = "s/good 100.0\ns/bad 90.0\ns/slow 50.0\ns/more 40.0\ns/late 30.0\n"


def finalize(repo, *args, env=None, logs="test-results/logs"):
    done = repo.command(sys.executable, "-m", "pytest_sgpu.cli", "finalize", logs, *args, env=env)
    assert "Traceback" not in done.text, done.text
    return done


def kill(repo, until, *args):
    """Run until two items have ended and two others run, then kill the controller; what it ran must be gone."""
    repo.suite("s", ITEMS)
    repo.weights(WEIGHTS)
    process = repo.start(*repo.words(*args))
    until(lambda: {"good", "bad", "slow", "more"} <= set(repo.seen))
    process.send_signal(signal.SIGKILL)
    repo.end(process)
    until(lambda: not repo.survivors())


def files(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# ---------------------------------------------------------------- a run that was killed


def test_everything_that_a_normal_end_leaves(repo, until):
    kill(repo, until)
    assert not (repo.logs / "report" / "junit.xml").exists()
    before = (repo.logs / "queue" / "journal.jsonl").read_text()
    summary = repo.path / "summary.md"
    done = finalize(repo, env={"GITHUB_STEP_SUMMARY": str(summary)})
    assert done.code == 2
    weights = repo.learned()

    # The same files with the same meaning as those of a run that nobody killed.
    left = {name for name in files(repo.logs) if not name.startswith(".sgpu")}
    (repo.path / "go").touch()
    assert repo.run("--sgpu-log-dir=whole").code == 1
    whole = {name for name in files(repo.path / "whole") if not name.startswith(".sgpu")}
    assert left == {name for name in whole if not name.startswith("items/s.late.")}

    # What had ended is as without the kill.
    cut, uncut = repo.junit(), repo.junit("whole/report/junit.xml")
    for key in ("s/good", "s/bad"):
        assert [(case.name, case.result, case.message) for case in cut.of(key)] == [
            (case.name, case.result, case.message) for case in uncut.of(key)
        ]

    # What ran is an error that names device and second; what had not begun is not run.
    for key in ("s/slow", "s/more"):
        (case,) = cut.of(key)
        assert case.result == "error"
        assert re.search(r"did not finish: controller killed at \+\d+ s on gpu[01]", case.message)
    (late,) = cut.of("s/late")
    assert late.result in ("error", "skipped")
    assert "last words" in cut.of("s/slow")[0].text

    assert repo.left("suites/s.log.rc") == "125\n"
    index = {row.split("\t")[4]: row.split("\t")[3] for row in repo.left("suites/s.log").splitlines()}
    assert index == {"good": "passed", "bad": "failed", "slow": "lost", "more": "lost", "late": "not-run"}
    assert repo.left("items/s.slow.log.rc") == "125\n"
    assert {row[1] for row in repo.timings()} == {"good", "bad", "slow", "more"}
    assert 89 < weights["s/good"] <= 90.1
    assert 80 < weights["s/bad"] <= 81.1
    assert {key: weights[key] for key in ("s/slow", "s/more", "s/late")} == {
        "s/slow": 50.0,
        "s/more": 40.0,
        "s/late": 30.0,
    }

    # Only what was learned is new in the journal: a run that goes on still runs the rest.
    after = (repo.logs / "queue" / "journal.jsonl").read_text()
    assert after.startswith(before)
    assert [json.loads(line)["event"] for line in after[len(before) :].splitlines()] == ["learned"]

    for text in (done.out, repo.left("report/schedule.md"), summary.read_text()):
        assert re.search(r"did not finish: controller killed at \+\d+ s on gpu[01]", text)
        assert "s/late" in text
    for words in ("report/schedule.md", "report/junit.xml", "test_weights.cpu.l1.txt", "--sgpu-resume", "last words"):
        assert words in done.out
    assert "again: TEST_LEVEL=1 pytest -p sgpu --sgpu-conf=suite.conf" in done.out
    assert "suite.conf::s::slow" in done.out
    # It has just been finalized, and pytest, which was killed, has no cache of what failed.
    (step,) = [line for line in done.out.splitlines() if line.startswith("next:")]
    assert "--sgpu-resume" in step
    assert "sgpu finalize" not in done.out + repo.left("report/schedule.md")


def test_once_more_gives_the_same(repo, until):
    kill(repo, until)
    summary = repo.path / "summary.md"
    first = finalize(repo, env={"GITHUB_STEP_SUMMARY": str(summary)})
    before, weights, told = files(repo.logs), repo.learned(), summary.read_text()
    again = finalize(repo, env={"GITHUB_STEP_SUMMARY": str(summary)})
    assert (again.code, again.out) == (first.code, first.out)
    assert files(repo.logs) == before
    assert repo.learned() == weights
    assert summary.read_text() == told


def test_the_time_of_the_kill_is_that_of_the_last_sign_of_life(repo, until):
    kill(repo, until)
    started = repo.records()[0]["started"]
    os.utime(repo.logs / ".sgpu.owner.json", (started + 1204.4,) * 2)
    for _ in range(2):  # looking at it hides nothing
        finalize(repo)
        (case,) = repo.junit().of("s/slow")
        assert "did not finish: controller killed at +1204 s on gpu" in case.message


def test_the_weights_go_where_the_run_would_have_written_them(repo, until):
    kill(repo, until)
    elsewhere = repo.path / "sub"
    elsewhere.mkdir()
    words = [sys.executable, "-m", "pytest_sgpu.cli", "finalize", str(repo.logs)]
    done = repo.end(repo.start("sh", "-c", 'cd sub && exec "$@"', "sh", *words))
    assert done.code == 2
    assert repo.learned()["s/good"] < 91
    assert list(elsewhere.iterdir()) == []
    assert str(repo.logs / "report" / "schedule.md") in done.out


@pytest.mark.parametrize("option", ["other", "other/table.txt"])
def test_another_place_for_weights(repo, until, option):
    kill(repo, until)
    assert finalize(repo, f"--weights={option}").code == 2
    assert repo.learned() == {"s/good": 100.0, "s/bad": 90.0, "s/slow": 50.0, "s/more": 40.0, "s/late": 30.0}
    name = option if option.endswith(".txt") else f"{option}/test_weights.cpu.l1.txt"
    assert {line.split()[0] for line in repo.read(name).splitlines()} == {"s/good", "s/bad"}
    # These times are taught now; they go nowhere else.
    assert finalize(repo).code == 2
    assert repo.learned()["s/good"] == 100.0


def test_annotations_of_a_ci_system(repo, until):
    kill(repo, until)
    plain = finalize(repo)
    assert "::error" not in plain.out
    done = finalize(repo, env={"GITHUB_ACTIONS": "true"})
    assert done.out.startswith(plain.out)
    assert re.search(r"^::error .*s/bad", done.out[len(plain.out) :], re.MULTILINE)


def test_the_next_run_may_have_the_directory_and_sets_aside_what_was_not_finished(repo, until):
    kill(repo, until)
    (repo.path / "go").touch()
    done = repo.run()
    assert done.code == 1
    assert len(repo.outcomes()) == len(ITEMS)
    assert not (repo.logs / ".sgpu.owner.json").exists()
    place = "test-results/logs/unfinished"
    told = f"the last run in this directory was killed; it was moved to {place}, where `sgpu finalize {place}`"
    assert told in " ".join(done.out.split())
    finalized = finalize(repo, logs=place)
    assert finalized.code == 2
    assert "did not finish: controller killed" in finalized.out
    assert (repo.path / place / "report" / "schedule.md").is_file()
    assert repo.run().code == 1
    assert (repo.path / place / "report" / "schedule.md").is_file()  # a run that ended is not set aside


# ---------------------------------------------------------------- a run that had ended


@pytest.mark.parametrize(("bodies", "code"), [({"a": "ran", "b": "ran"}, 0), ({"a": "ran", "b": "exit 3"}, 1)])
def test_a_run_that_had_ended_is_drawn_again_and_teaches_nothing(repo, bodies, code):
    repo.suite("s", bodies)
    repo.weights("s/a 100.0\ns/b 100.0\n")
    run = repo.run()
    assert run.code == code
    before, weights = files(repo.logs), repo.learned()
    for name in ("report", "suites"):
        shutil.rmtree(repo.logs / name)
    done = finalize(repo)
    assert done.code == code
    assert files(repo.logs) == before
    assert repo.learned() == weights
    last = run.out[run.out.index("= sgpu =") :].splitlines()
    assert last[1] in done.out.splitlines()
    assert "controller killed" not in done.out


def test_a_run_that_was_stopped_is_incomplete(repo, until):
    repo.suite("s", ITEMS)
    process = repo.start(*repo.words())
    until(lambda: "slow" in repo.seen)
    process.send_signal(signal.SIGINT)
    assert repo.end(process).code == 2
    done = finalize(repo)
    assert done.code == 2
    assert "stopped early: stopped by SIGINT" in done.out


# ---------------------------------------------------------------- refusals


def test_a_run_that_goes_on_is_left_alone(repo, until):
    repo.suite("s", ITEMS)
    process = repo.start(*repo.words())
    until(lambda: "slow" in repo.seen)
    done = finalize(repo)
    assert done.code == 4
    assert re.search(
        rf"sgpu: error: .*logs: another run uses this log directory \(pid {process.pid} on \S+, started \d{{4}}-",
        done.err,
    )
    assert "hint: wait until that run has ended" in done.err
    second = repo.run()
    assert second.code == 4
    assert f"another run uses this log directory (pid {process.pid} on " in second.errors
    assert repo.run("--sgpu-resume").code == 4
    (repo.path / "go").touch()
    process.send_signal(signal.SIGINT)
    repo.end(process)


@pytest.mark.parametrize("place", ["nowhere", "suite.conf", "empty", "linked"])
def test_where_no_run_is(repo, place):
    repo.suite("s", {"a": "ran"})
    (repo.path / "empty").mkdir()
    (repo.path / "linked" / "queue").mkdir(parents=True)
    (repo.path / "linked" / "queue" / "journal.jsonl").symlink_to(repo.path / "suite.conf")
    before = repo.tree()
    done = finalize(repo, logs=place)
    assert done.code == 4
    assert "no run has left its journal here (queue/journal.jsonl)" in done.err
    assert repo.tree() == before


@pytest.mark.parametrize("words", [[], ["a", "b"], ["a", "--wights=x"]])
def test_wrong_usage(repo, words):
    done = repo.command(sys.executable, "-m", "pytest_sgpu.cli", "finalize", *words)
    assert done.code == 4
    assert "sgpu finalize --help" in done.err or "sgpu --help" in done.err


# ---------------------------------------------------------------- damaged journals


def journal(repo, text):
    path = repo.logs / "queue" / "journal.jsonl"
    path.write_text(text(path.read_text()))


@pytest.fixture
def finished(repo):
    repo.suite("s", {"a": "ran", "b": "ran", "c": "ran"})
    assert repo.run(gpus=1).code == 0
    return repo


def test_a_torn_journal(finished):
    def torn(text):
        return text[: text.rindex('"key":"s/c"')]  # in the middle of the last outcome

    journal(finished, torn)
    done = finalize(finished)
    assert done.code == 2
    (case,) = finished.junit().of("s/c")
    assert re.search(r"did not finish: the run broke off at \+\d+ s on gpu0", case.message)
    assert finished.left("suites/s.log.rc") == "125\n"


def test_an_empty_journal(finished):
    journal(finished, lambda _: "")
    done = finalize(finished)
    assert done.code == 2
    assert "the plan of this run cannot be read, so nothing shows what it should have run" in done.out
    assert finished.junit().cases == []
    assert finished.learned().keys() == {"s/a", "s/b", "s/c"}


@pytest.mark.parametrize("what", ["run", "plan", "outcome", "all"])
def test_a_damaged_journal_is_never_green_and_says_so(finished, what):
    weights = finished.learned()

    def damaged(text):
        lines = text.splitlines(keepends=True)
        return "".join(
            "\0" * 20 + "\n" if what == "all" or line.startswith(f'{{"event":"{what}"') else line for line in lines
        )

    journal(finished, damaged)
    done = finalize(finished)
    # The head proves nothing: plan, outcomes and end are there.
    assert done.code == (0 if what == "run" else 2)
    assert "no journal record, skipped" in done.out
    assert finished.learned() == weights
    if what == "outcome":
        assert finished.junit().results == {"error": 3}
        assert "did not finish: damaged journal, last record at +" in done.out


def test_a_journal_with_one_damaged_outcome_loses_only_that(finished):
    journal(finished, lambda text: text.replace('"key":"s/b","status":"PASSED"', '"key":"s/b","status":7'))
    done = finalize(finished)
    assert done.code == 2
    assert "a damaged record is left out: status is no text" in done.out
    results = {case.suite: case.result for case in finished.junit().cases}
    assert results == {"s/a": "passed", "s/b": "error", "s/c": "passed"}


def test_what_cannot_be_written_is_told_and_the_rest_is_there(finished):
    for name in ("queue/queue.tsv", "report/schedule.md"):
        (finished.logs / name).unlink()
        (finished.logs / name).mkdir()
    done = finalize(finished)
    assert done.code == 0
    assert "queue.tsv: plan and exit codes could not be written: Is a directory" in done.out
    assert "report/schedule.md could not be written: Is a directory" in done.out
    assert len(finished.junit().cases) == 3


def test_of_many_failures_the_first_are_shown(repo):
    repo.suite("s", {f"t{number:02}": "exit 3" for number in range(25)})
    assert repo.run(gpus=4).code == 1
    done = finalize(repo)
    assert done.out.count("FAILED s/t") == 20
    assert "... and 5 more failed items, in the report" in done.out


# ---------------------------------------------------------------- what an item may have put there


def test_nothing_is_written_through_links(repo, until):
    precious = repo.path / "precious"
    precious.mkdir()
    (precious / "s.log.rc").write_text("mine")
    repo.suite(
        "s",
        {
            "a": 'cd test-results/logs && rm -rf suites report && ln -s "$top/precious" suites && '
            'ln -s "$top/precious" report && ln -sf "$top/precious/s.log.rc" items/s.a.log.rc; '
            'cd "$top"; ran; note; sleep 300'
        },
    )
    process = repo.start(*repo.words())
    until(lambda: repo.seen == ["a"])
    process.send_signal(signal.SIGKILL)
    repo.end(process)
    done = finalize(repo)
    assert done.code == 2
    assert files(precious) == {"s.log.rc": b"mine"}
    assert repo.left("suites/s.log.rc") == "125\n"
    assert (repo.logs / "report" / "junit.xml").is_file()
    for name in ("suites", "report", "items/s.a.log.rc"):
        assert not (repo.logs / name).is_symlink()
        assert f"{name}: a link was in the place of this" in done.out


def test_secrets_are_in_nothing_that_is_written(repo, until):
    secret = "correct-horse-battery-staple"
    repo.suite("s", {"a": "echo the token is $API_TOKEN; ran; note; sleep 300"})
    process = repo.start(*repo.words(), env={"API_TOKEN": secret})
    until(lambda: repo.seen == ["a"])
    process.send_signal(signal.SIGKILL)
    repo.end(process)
    done = finalize(repo, env={"API_TOKEN": secret})
    assert "the token is ***" in done.out
    assert secret not in done.text
    holding = [name for name, data in files(repo.logs).items() if secret.encode() in data]
    assert holding == ["items/s.a.log"]


def test_without_the_secrets_of_the_run_log_tails_are_left_out(repo, until):
    secret = "correct-horse-battery-staple"
    repo.weights("s/a 100.0\ns/b 1.0\n")
    repo.suite("s", {"a": "echo the token is $API_TOKEN; exit 3", "b": "ran; note; sleep 300"})
    process = repo.start(*repo.words("--sgpu-gpus=1"), env={"API_TOKEN": secret})
    until(lambda: repo.seen == ["b"])
    process.send_signal(signal.SIGKILL)
    repo.end(process)
    head = json.loads((repo.logs / "queue" / "journal.jsonl").read_text().splitlines()[0])
    assert "API_TOKEN" in head["secrets"]
    assert head["secrets"] == sorted(head["secrets"])
    told = "API_TOKEN was secret in this run and is not set here, so it cannot be masked: log tails are left out"
    done = finalize(repo)
    assert done.code == 2
    assert told in done.out
    assert secret not in done.text
    assert "the token is" not in done.out + repo.read("test-results/logs/report/junit.xml")

    again = repo.run("--sgpu-resume", "--sgpu-budget=0.1")
    assert told in again.out
    assert secret not in again.text
    holding = [name for name, data in files(repo.logs).items() if secret.encode() in data]
    assert holding == ["items/s.a.log"]

    known = finalize(repo, env={"API_TOKEN": secret})
    assert told not in known.out
    assert "the token is ***" in known.out
