"""Deadlines, stalls, the budget and leaks, on real runs."""

from __future__ import annotations

import json

import pytest

TREE = "setsid sh -c 'trap \"\" TERM HUP; while :; do sleep 0.2; done' & "


class TestDeadlines:
    def test_an_item_over_its_deadline_is_ended_with_all_it_started(self, repo):
        hang = f"{TREE} echo 'waiting for the server'; note; sleep 600"
        repo.suite("s", {"hang": hang, "fine": "note; cases 1"})
        repo.weights("s/hang 0.5\ns/fine 0.4\n")
        done = repo.run("--sgpu-timeout=2", "--sgpu-grace=0.5")
        assert done.code == 1
        assert repo.survivors() == []
        assert repo.status() == {"s/hang": "TIMED_OUT", "s/fine": "PASSED"}
        outcome = repo.outcomes()["s/hang"]
        assert outcome["reason"].startswith("deadline: 2 s passed; last output ")
        assert '"waiting for the server"' in outcome["reason"]
        (slow,) = [line for line in done.out.splitlines() if line.startswith("SLOW ")]
        assert slow.startswith("SLOW s/hang runs for 1.")
        assert " of 2 s on gpu" in slow
        assert slow.endswith(' s ago: "waiting for the server"')
        assert done.out.index("SLOW s/hang") < done.out.index("TIMED OUT s/hang")
        assert [record["key"] for record in repo.records() if record["event"] == "slow"] == ["s/hang"]
        assert repo.learned()["s/hang"] == 0.5
        assert repo.left("items/s.hang.log.rc") == "124\n"

    def test_auto_goes_by_the_weight(self, repo):
        """Five minutes at least for what is known; what is not known gets what was said."""
        repo.suite("s", {"known": "note; sleep 2; cases 1", "new": "note; sleep 600"})
        repo.weights("s/known 0.1\n")
        done = repo.run("--sgpu-timeout=auto,1", "--sgpu-grace=0.5")
        assert done.code == 1
        assert repo.status() == {"s/known": "PASSED", "s/new": "TIMED_OUT"}

    def test_what_an_item_says_at_its_end_is_kept(self, repo):
        """Python children dump their stacks where the item asked for it: that is what SIGTERM first is for."""
        code = "import faulthandler, signal, time; faulthandler.register(signal.SIGTERM, chain=True); "
        code += "print(1, flush=True); time.sleep(600)"
        repo.suite("s", {"python": f"exec python3 -c '{code}'"})
        assert repo.run("--sgpu-timeout=2").code == 1
        assert "most recent call first" in repo.left("items/s.python.log")
        assert repo.status() == {"s/python": "TIMED_OUT"}

    def test_a_stall_is_silence_and_a_dot_is_none(self, repo):
        repo.suite(
            "s",
            {
                "silent": "echo 'all-reduce, waiting'; sleep 600",
                "dots": "n=0; while [ $n -lt 16 ]; do printf .; sleep 0.25; n=$((n + 1)); done; cases 1",
            },
        )
        done = repo.run("--sgpu-stall=2", "--sgpu-grace=0.5")
        assert done.code == 1
        assert repo.status() == {"s/silent": "TIMED_OUT", "s/dots": "PASSED"}
        reason = repo.outcomes()["s/silent"]["reason"]
        assert reason.startswith("stall: no output for 2 s")
        assert '"all-reduce, waiting"' in reason
        assert repo.learned().keys() == {"s/dots"}

    def test_without_a_limit_there_is_none(self, repo):
        repo.suite("s", {"a": "sleep 1; cases 1"})
        done = repo.run()
        assert done.code == 0
        assert "SLOW" not in done.out

    def test_no_output_gives_orders_to_the_terminal(self, repo):
        repo.suite("s", {"a": "printf 'a\\033]0;title\\007b\\n::error::x\\r'; sleep 600"})
        done = repo.run("--sgpu-timeout=2", "--sgpu-grace=0.2")
        assert "\x1b" not in done.out
        assert "\x07" not in done.out
        assert not any(line.startswith("::") for line in done.out.replace("\r", "\n").splitlines())

    def test_no_secret_is_told(self, repo):
        repo.suite("s", {"a": 'echo "with $API_TOKEN"; sleep 600'})
        done = repo.run(
            "--sgpu-timeout=2", "--sgpu-grace=0.2", "--junitxml=own.xml", env={"API_TOKEN": "hunter2hunter2"}
        )
        assert "hunter2" not in done.text
        assert "SLOW s/a" in done.out
        assert "with ***" in done.out
        for name in ("own.xml", "test-results/logs/queue/journal.jsonl", "test-results/logs/report/schedule.md"):
            assert "hunter2" not in repo.read(name), name
        assert "hunter2" in repo.left("items/s.a.log")  # the log is the item's own


class TestLeaks:
    LEAKS = "cases 1; setsid sleep 600 </dev/null >/dev/null 2>&1 &"

    @pytest.fixture
    def leaky(self, repo):
        repo.suite("s", {"server": self.LEAKS, "tidy": "cases 1", "helper": "cases 1; sleep 0.1 &"})
        return repo

    def test_they_are_named_killed_and_counted_and_fail_nothing(self, leaky):
        done = leaky.run()
        assert done.code == 0
        assert leaky.survivors() == []
        (line,) = [line for line in done.out.splitlines() if line.startswith("LEAK ")]
        assert line.startswith("LEAK s/server left pid ")
        assert ' "sleep 600", ' in line
        assert line.endswith(" s after its end; killed")
        (left,) = leaky.outcomes()["s/server"]["left"]
        assert f"pid {left[0]} " in line
        assert leaky.outcomes()["s/tidy"]["left"] == []
        assert "LEAK s/server left pid" in leaky.run("-q").out

    def test_they_fail_the_item_when_asked_to(self, leaky):
        done = leaky.run("--sgpu-leaks=fail")
        assert done.code == 1
        assert leaky.status() == {"s/server": "FAILED", "s/tidy": "PASSED", "s/helper": "PASSED"}
        assert leaky.outcomes()["s/server"]["reason"] == "left 1 process behind"
        assert "FAILED suite.conf::s::server - left 1 process behind" in done.out

    def test_what_a_setup_leaves_is_named_too(self, repo):
        repo.suite("s", {"a": "cases 1"}, head="setup='setsid sleep 600 </dev/null >/dev/null 2>&1 &'")
        done = repo.run()
        assert done.code == 0
        assert "LEAK setup of s left pid " in done.out
        assert repo.survivors() == []


class TestBudget:
    def test_it_is_said_before_what_will_not_run(self, repo):
        repo.suite("s", {"long": "note; cases 1", "short": "note; cases 1"})
        repo.weights("s/long 500.0\ns/short 0.1\n")
        done = repo.run("--sgpu-budget=1m", gpus=1)
        assert done.code == 2
        assert repo.seen == ["short"]
        assert repo.status() == {"s/long": "NOT_RUN", "s/short": "PASSED"}
        warning = done.out.index(
            "sgpu: the plan needs 8m20s, 7m20s more than the budget of 1m00s; 2 items will probably"
        )
        assert warning < done.out.index("setup of s")
        assert "  s/long (500s)" in done.out
        assert "--sgpu-resume" in done.out
        assert repo.learned()["s/long"] == 500.0
        for name in ("report/junit.xml", "report/schedule.md", "suites/s.log.rc"):
            assert repo.left(name)

    def test_a_plan_that_fits_says_nothing(self, repo):
        repo.suite("s", {"a": "cases 1"})
        repo.weights("s/a 5.0\n")
        done = repo.run("--sgpu-budget=1m")
        assert done.code == 0
        assert "budget" not in done.out

    def test_the_plan_alone_tells_it_too(self, repo):
        repo.suite("s", {"a": "cases 1"})
        repo.weights("s/a 500.0\n")
        done = repo.run("--sgpu-budget=1m", "--sgpu-plan")
        assert "more than the budget of 1m00s; 1 item will probably not run:" in done.out

    def test_what_runs_when_it_is_spent_is_stopped_and_can_be_resumed(self, repo):
        hangs = 'note; [ -e "$top/go" ] || sleep 600; cases 1'
        repo.suite("s", {"a": hangs, "b": "note; cases 1", "c": "note; cases 1"})
        repo.weights("s/c 0.3\ns/a 0.2\ns/b 0.1\n")
        done = repo.run("--sgpu-budget=6", "--sgpu-grace=0.5", gpus=1)
        assert done.code == 2
        assert repo.status() == {"s/c": "PASSED", "s/a": "STOPPED", "s/b": "NOT_RUN"}
        assert "budget" in repo.outcomes()["s/a"]["reason"]
        before = repo.tree()
        plan = repo.run("--sgpu-resume", "--sgpu-plan=json", gpus=1)
        assert [entry["key"] for entry in json.loads(plan.out)["entries"]] == ["s/a", "s/b"]
        assert repo.tree() == before
        repo.file("go", "")
        done = repo.run("--sgpu-resume", "--junitxml=own.xml", gpus=1)
        assert done.code == 0
        assert repo.seen == ["c", "a", "a", "b"]
        assert "3 passed" in done.out
        assert "sgpu: part 2 of this run: 1 item kept, 2 items to run" in done.out
        assert 'tests="3"' in repo.read("own.xml")
        done = repo.run("--sgpu-resume", gpus=1)
        assert done.code == 0
        assert "3 items kept, nothing is left to run" in done.out
        assert "3 passed" in done.out
        assert repo.seen == ["c", "a", "a", "b"]


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("--sgpu-timeout=soon", "--sgpu-timeout: 'soon' is no duration; expected seconds"),
        ("--sgpu-retries=-1", "--sgpu-retries: '-1' is no such number; expected a whole number"),
        ("--sgpu-flaky=x", "--sgpu-flaky: 'x' is neither; expected pass or fail"),
        ("--sgpu-health-cmd=no-such-thing", "--sgpu-health-cmd: 'no-such-thing': not found"),
    ],
)
def test_a_slip_in_an_option_is_a_usage_error(repo, word, told):
    repo.suite("s", {"a": "note"})
    before = repo.tree()
    done = repo.run(word)
    assert done.code == 4
    assert told in done.errors
    assert (repo.seen, repo.tree()) == ([], before)


def test_a_run_that_is_not_there_cannot_be_gone_on_with(repo):
    repo.suite("s", {"a": "note"})
    for words in (["--sgpu-resume"], ["--sgpu-resume=elsewhere"], ["--sgpu-resume", "--sgpu-plan"]):
        done = repo.run(*words)
        assert done.code == 4
        assert "no run has left its journal here, so there is none to go on with" in done.errors
    assert repo.seen == []
    assert not repo.logs.exists()
