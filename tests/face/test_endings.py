"""How a run ends early, or badly: -x, signals, setups that fail, directories that are taken."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

# A body that says it is there, then waits for longer than any test; the shell goes, and with it the rest.
HANG = "note; ran; sleep 600"


def running(repo, *tags):
    return lambda: set(tags) <= set(repo.seen)


class TestExitFirst:
    """-x ends what runs; nothing new starts; everything is still reported."""

    @pytest.fixture
    def four(self, repo):
        """On three devices: one fails when the two long ones have begun; two more would follow."""
        wait = 'note; until [ "$(wc -l <"$top/seen")" -ge 3 ]; do sleep 0.02; done; cases 0 1; exit 1'
        repo.suite("x", {"early": wait, "long.1": HANG, "long.2": HANG, "later.1": HANG, "later.2": HANG})
        repo.weights("x/early 90.0\nx/long.1 80.0\nx/long.2 70.0\nx/later.1 2.0\nx/later.2 1.0\n")
        return repo

    def test_it(self, four):
        done = four.run("-x", gpus=3)
        assert done.code == 1
        assert sorted(four.seen) == ["early", "long.1", "long.2"]
        assert four.status() == {
            "x/early": "FAILED",
            "x/long.1": "STOPPED",
            "x/long.2": "STOPPED",
            "x/later.1": "NOT_RUN",
            "x/later.2": "NOT_RUN",
        }
        junit = four.junit()
        assert {case.suite for case in junit.cases} == set(four.status())
        assert all(case.result == "error" for case in junit.of("x/long.1") if "test_" not in case.name)
        assert all(junit.of(f"x/later.{n}")[0].result in ("error", "skipped") for n in (1, 2))
        table = four.learned()
        assert (table["x/long.1"], table["x/long.2"], table["x/later.1"], table["x/later.2"]) == (80.0, 70.0, 2.0, 1.0)
        assert "later.1" in done.out.split("= sgpu =")[1]
        assert four.left("suites/x.log.rc") != "0\n"
        assert "## Not run (2)" in four.left("report/schedule.md")


class TestSignals:
    @pytest.fixture
    def half_way(self, repo):
        """One item has passed, one runs on each of two devices, one waits."""
        repo.suite("s", {"quick": "note; cases 1", "one": HANG, "two": HANG, "waiting": "note; ran"})
        repo.weights("s/quick 9.0\ns/one 8.0\ns/two 7.0\ns/waiting 6.0\n")
        return repo

    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
    def test_to_pytest(self, half_way, until, number):
        process = half_way.start(*half_way.words("--junitxml=own.xml"))
        until(running(half_way, "quick", "one", "two"))
        process.send_signal(number)
        done = half_way.end(process)
        assert done.code == 2
        assert half_way.survivors() == []
        assert half_way.status() == {
            "s/quick": "PASSED",
            "s/one": "STOPPED",
            "s/two": "STOPPED",
            "s/waiting": "NOT_RUN",
        }
        name = signal.Signals(number).name
        assert name in half_way.outcomes()["s/one"]["reason"]
        assert name in done.out
        assert "waiting" not in half_way.seen
        junit = half_way.junit()
        assert [case.result for case in junit.of("s/quick")] == ["passed"]
        assert {case.suite for case in junit.cases} == set(half_way.status())
        for name in ("suites/s.log", "suites/s.log.rc", "queue/timings.tsv", "report/schedule.md"):
            assert half_way.left(name)
        assert half_way.left("suites/s.log.rc") != "0\n"
        table = half_way.learned()
        assert (table["s/one"], table["s/two"], table["s/waiting"]) == (8.0, 7.0, 6.0)
        assert table["s/quick"] < 9.0
        assert (half_way.path / "own.xml").exists()

    def test_the_screen_says_what_is_done_and_what_to_do_next(self, half_way, until):
        process = half_way.start(*half_way.words("--sgpu-grace=3"))
        until(running(half_way, "quick", "one", "two"))
        process.send_signal(signal.SIGINT)
        done = half_way.end(process)
        assert "sgpu: stopped by SIGINT: no new items, ending 2 running (up to 3 s; ^C again ends them now)" in done.out
        assert "killing" not in done.out
        ended = [line.split()[1] for line in done.out.splitlines() if line.startswith("[") and " est=" in line]
        assert ended == ["1/4", "2/4", "3/4"]
        last = done.out.split("= sgpu =")[1]
        assert "1 item not run:\n  s/waiting\n" in last
        steps = [line for line in last.splitlines() if line.startswith("next:")]
        assert [("--sgpu-resume" in step, "--lf" in step) for step in steps] == [(True, False), (False, True)]
        assert "finalize" not in last
        assert "| TE_CI_RAN" not in done.out

    def test_to_the_group_as_a_terminal_does_it(self, half_way, until):
        """Ctrl-C reaches every process of the terminal; the items have sessions of their own."""
        process = half_way.start(*half_way.words())
        until(running(half_way, "quick", "one", "two"))
        os.killpg(process.pid, signal.SIGINT)
        done = half_way.end(process)
        assert done.code == 2
        assert half_way.status()["s/one"] == "STOPPED"

    @pytest.mark.parametrize("head", ["trap '' TERM INT HUP", ""], ids=["the script is deaf", "only its child is"])
    def test_a_second_one_takes_the_grace_away(self, repo, until, head):
        repo.suite("s", {"deaf": "trap '' TERM INT HUP; note; ran; while :; do sleep 0.2; done"}, head=head)
        process = repo.start(*repo.words(gpus=1))
        until(running(repo, "deaf"))
        process.send_signal(signal.SIGTERM)
        until(lambda: '"event":"stop"' in repo.left("queue/journal.jsonl"))
        process.send_signal(signal.SIGTERM)
        done = repo.end(process)
        assert done.code == 2
        assert "sgpu: SIGTERM: killing 1 running now, without grace\n" in done.out
        assert repo.outcomes()["s/deaf"]["status"] == "STOPPED"
        at = {record["event"]: record["at"] for record in repo.records() if "at" in record}
        assert at["end"] - at["stop"] < 3.5, "it had its whole grace of 4 s"

    def test_what_was_stopped_runs_again_with_lf(self, half_way, until):
        process = half_way.start(*half_way.words())
        until(running(half_way, "quick", "one", "two"))
        process.send_signal(signal.SIGINT)
        assert half_way.end(process).code == 2
        plan = half_way.plan("--lf")
        assert {"s/one", "s/two"} <= {entry["key"] for entry in plan["entries"]}
        assert "s/quick" not in {entry["key"] for entry in plan["entries"]}

    def test_during_setup(self, repo, until):
        repo.suite("s", {"a": "note; cases 1"}, head="setup='note setting.up; sleep 600'")
        process = repo.start(*repo.words())
        until(running(repo, "setting.up"))
        process.send_signal(signal.SIGINT)
        done = repo.end(process)
        assert done.code == 2
        assert repo.status() == {"s/a": "NOT_RUN"}
        assert "a" not in repo.seen
        assert (repo.logs / "report/junit.xml").exists()

    def test_during_the_listing(self, repo, until):
        repo.suite("s", "note listing; [ $mode != list ] || sleep 600\nline a note")
        process = repo.start(*repo.words())
        until(running(repo, "listing"))
        process.send_signal(signal.SIGINT)
        assert repo.end(process).code == 2
        assert not repo.logs.exists()

    def test_a_worker_that_is_killed_loses_its_item_which_runs_once_more(self, repo, until):
        """Killed with its worker, so nobody can say how it ended. The others go on, on a new worker."""
        body = 'echo "$(ps -o ppid= -p $$)" >>"$top/parents"; note; ran; sleep 600'
        repo.suite("s", {"lost": body, "after": "note; cases 1"})
        repo.weights("s/lost 9.0\ns/after 1.0\n")
        process = repo.start(*repo.words(gpus=1))
        for time in (1, 2):
            until(lambda time=time: repo.seen.count("lost") == time)
            worker = int(repo.read("parents").split()[-1])
            assert b"FACE_MARK=" + repo.mark.encode() in Path(f"/proc/{worker}/environ").read_bytes()
            os.kill(worker, signal.SIGKILL)
        done = repo.end(process)
        assert done.code == 1
        assert repo.status() == {"s/lost": "LOST", "s/after": "PASSED"}
        assert repo.seen == ["lost", "lost", "after"]
        assert repo.learned()["s/lost"] == 9.0
        assert [case.result for case in repo.junit().of("s/lost")] == ["error"]
        assert "LOST s/lost was lost on gpu0 (worker gpu0 was killed by SIGKILL); again at once" in done.out


class TestSetup:
    def test_once_per_suite_and_before_its_items(self, repo):
        repo.suite("s", {"a": "note; cases 1", "b": "note; cases 1"}, head="setup='note setup.s'")
        repo.suite("t", {"c": "note; cases 1"}, head="setup='note setup.t'")
        assert repo.run("-k", "a or b").code == 0
        assert repo.seen[0] == "setup.s"
        assert sorted(repo.seen) == ["a", "b", "setup.s"]  # t has nothing queued

    @pytest.mark.parametrize(("how", "code"), [("exit 3", 3), ("kill -TERM $$", 143), ("exit 127", 127)])
    def test_failing(self, repo, how, code):
        repo.suite("s", {"a": "note; cases 1", "b": "note; cases 1"}, head=f"setup='echo no compiler here; {how}'")
        repo.suite("t", {"c": "note; cases 1"})
        repo.weights("s/a 9.0\n")
        done = repo.run()
        assert done.code == 1
        assert repo.status() == {"s/a": "SETUP_FAILED", "s/b": "SETUP_FAILED", "t/c": "PASSED"}
        assert repo.seen == ["c"]
        assert repo.left("suites/s.log.rc") == f"{code}\n"
        assert repo.left("suites/t.log.rc") == "0\n"
        assert repo.learned().keys() == {"s/a", "t/c"}
        assert repo.learned()["s/a"] == 9.0
        assert "no compiler here" in done.out
        assert "test-results/logs/setup/s.log" in done.out
        assert {case.result for case in repo.junit().of("s/a")} == {"error"}
        assert done.out.count("ERROR suite.conf::s::") == 2

    def test_with_x(self, repo):
        repo.suite("s", {"a": "note", "b": "note"}, head="setup='exit 1'")
        repo.suite("t", {"c": "note; cases 1"})
        assert repo.run("-x").code == 1
        assert repo.seen == []
        assert repo.status()["t/c"] == "NOT_RUN"


class TestRunDirectory:
    def test_a_second_run_at_the_same_time_is_refused(self, repo, until):
        repo.suite("s", {"a": 'note; until [ -f "$top/go" ]; do sleep 0.02; done; cases 1'})
        first = repo.start(*repo.words())
        until(running(repo, "a"))
        before = repo.left("queue/journal.jsonl")
        second = repo.run()
        assert second.code == 4
        assert "another run uses this log directory" in second.errors
        assert f"pid {first.pid}" in second.errors
        assert "--sgpu-log-dir" in second.errors
        assert repo.left("queue/journal.jsonl") == before
        repo.file("go", "")
        assert repo.end(first).code == 0
        assert repo.seen == ["a"]

    def test_in_another_directory_it_may_run(self, repo, until):
        repo.suite("s", {"a": 'note; until [ -f "$top/go" ]; do sleep 0.02; done; cases 1', "b": "note; cases 1"})
        first = repo.start(*repo.words("-k", "a"))
        until(running(repo, "a"))
        assert repo.run("-k", "b", "--sgpu-log-dir=elsewhere").code == 0
        repo.file("go", "")
        assert repo.end(first).code == 0
        assert repo.learned().keys() == {"s/a", "s/b"}

    def test_the_next_run_clears_what_the_last_one_left(self, repo):
        repo.suite("s", {"a": "cases 1", "b": "cases 1"})
        assert repo.run().code == 0
        assert repo.run("-k", "a").code == 0
        assert not (repo.logs / "items/s.b.log").exists()
        assert not (repo.logs / "junit/s/b.xml").exists()
        assert repo.outcomes().keys() == {"s/a"}

    def test_a_run_that_was_killed_does_not_hold_it(self, repo, until):
        repo.suite("s", {"a": 'note; [ -f "$top/go" ] || sleep 600; cases 1'})
        process = repo.start(*repo.words())
        until(running(repo, "a"))
        process.kill()
        repo.end(process)
        until(lambda: repo.survivors() == [])
        repo.file("go", "")
        assert repo.run().code == 0

    def test_everything_that_the_format_names_is_there(self, repo):
        repo.suite("s", {"a": "cases 1", "b": "exit 3"}, head="setup='echo setting up'")
        repo.opaque("whole", "echo words")
        assert repo.run().code == 1
        for name in (
            "items/s.a.log", "items/s.a.log.rc", "items/s.b.log.rc", "items/whole.whole.log", "suites/s.log",
            "suites/s.log.rc", "suites/whole.log", "suites/whole.log.rc", "suites/s.xml", "queue/queue.tsv",
            "queue/items.tsv", "queue/timings.tsv", "queue/journal.jsonl", "junit/s/a.xml", "report/schedule.md",
            "report/junit.xml", "setup/s.log",
        ):  # fmt: skip
            assert (repo.logs / name).is_file(), name
        assert repo.left("items/s.b.log.rc") == "3\n"
        assert repo.left("items/whole.whole.log") == "words\n"
        assert repo.left("suites/s.log").count("\n") == 2
        assert {row[1] for row in repo.timings()} == {"a", "b", "whole"}
        assert all(len(row) == 9 for row in repo.timings())


@pytest.mark.parametrize("how", ["raise RuntimeError('no')", "pytest.exit('enough', returncode=0)"])
def test_a_run_that_a_plugin_breaks_off_is_never_a_green_report(repo, how):
    repo.suite("s", dict.fromkeys("abcd", "ran"))
    lines = "import pytest\nseen = []\n\ndef pytest_runtest_logreport(report):\n    if report.when == 'call':\n"
    lines += f"        seen.append(1)\n        if len(seen) == 2:\n            {how}\n"
    (repo.path / "conftest.py").write_text(lines)
    repo.command(*repo.words(gpus=1))
    assert (repo.logs / "suites" / "s.log.rc").read_text() != "0\n"
    report = (repo.logs / "report" / "schedule.md").read_text()
    assert "the run broke off" in report
    assert report.count("s/c") >= 1
