"""Situations that people have reported from their CI, as they happen to whole runs: cancelled, hung, leaking, lost.

C16 and so on are their numbers in the list of cases. Limits are short here; what is promised by default is tried with
the defaults.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

CHILD = "sleep 86497"  # what nothing may leave behind


def running(repo, *tags):
    return lambda: set(tags) <= set(repo.seen)


def ended(repo, *keys):
    """Whether the journal has an outcome of each, which may be the last thing in it that is whole."""

    def true():
        lines = repo.left("queue/journal.jsonl").splitlines()
        return all(any('"event":"outcome"' in line and f'"key":"{key}"' in line for line in lines) for key in keys)

    return true


def errors(repo, key):
    """The message and text of each error or failure of an item's cases."""
    return [f"{case.message}\n{case.text}" for case in repo.junit().of(key) if case.result in ("error", "failure")]


def lines_with(text, *words):
    return [line for line in text.splitlines() if all(word in line for word in words)]


class TestCancelled:
    """C16: the runner sends a signal to the step's process, SIGTERM 7.5 s later, SIGKILL 2.5 s after that."""

    @pytest.fixture
    def busy(self, repo, until):
        """Two items have passed; three hear no polite signal, one of them has a daemon that hears none."""
        repo.suite(
            "c",
            {
                "quick.1": "note; cases 2",
                "quick.2": "note; cases 2",
                "deaf.1": f"ran; {CHILD} & note; wait; {CHILD}",
                "deaf.2": f"ran; {CHILD} & note; wait; {CHILD}",
                "daemon": f"ran; setsid sh -c 'trap \"\" TERM; {CHILD}' </dev/null >/dev/null 2>&1 & note; {CHILD}",
            },
            head="trap '' INT TERM HUP",
        )
        repo.weights("c/quick.1 9.0\nc/quick.2 8.0\nc/deaf.1 3.0\nc/deaf.2 2.0\nc/daemon 1.0\n")

        def wait():
            until(running(repo, "quick.1", "quick.2", "deaf.1", "deaf.2", "daemon"))
            until(ended(repo, "c/quick.1", "c/quick.2"))

        return wait

    @staticmethod
    def check(repo, how):
        assert repo.survivors() == []
        junit = repo.junit()
        assert [case.result for key in ("c/quick.1", "c/quick.2") for case in junit.of(key)] == ["passed"] * 4
        for key in ("c/deaf.1", "c/deaf.2", "c/daemon"):
            (told,) = errors(repo, key)
            assert re.search(how, told), told
        assert repo.left("suites/c.log.rc") != "0\n"
        assert repo.left("report/schedule.md")
        table = repo.learned()
        assert (table["c/deaf.1"], table["c/deaf.2"], table["c/daemon"]) == (3.0, 2.0, 1.0)
        assert table["c/quick.1"] < 9.0
        assert table["c/quick.2"] < 8.0

    @pytest.mark.parametrize(
        "number", [signal.SIGINT, pytest.param(signal.SIGHUP, marks=pytest.mark.slow)], ids=["SIGINT", "SIGHUP"]
    )
    def test_by_a_signal_to_pytest(self, repo, busy, number):
        """With the default grace all is written before the second signal would come."""
        process = repo.start(*repo.words(gpus=5))
        busy()
        process.send_signal(number)
        began = time.monotonic()
        assert repo.end(process).code == 2
        assert time.monotonic() - began < 7.0, "then comes SIGTERM, and SIGKILL soon after"
        self.check(repo, number.name)
        assert {repo.status()[key] for key in ("c/deaf.1", "c/deaf.2", "c/daemon")} == {"STOPPED"}

    def test_behind_a_shell_that_swallows_the_signals(self, repo, busy, until):
        """Then pytest hears nothing before SIGKILL, and only `sgpu finalize` can tell what was."""
        words = repo.words(gpus=5)
        entry = repo.start("sh", "-c", 'trap : INT TERM; "$@"; wait; echo over', "sh", *words)
        busy()
        (inner,) = Path(f"/proc/{entry.pid}/task/{entry.pid}/children").read_text().split()
        for number in (signal.SIGINT, signal.SIGTERM):
            entry.send_signal(number)
        os.kill(int(inner), signal.SIGKILL)
        began = time.monotonic()
        repo.end(entry)
        until(lambda: repo.survivors() == [])
        assert time.monotonic() - began < 5.0
        assert not (repo.logs / "report/junit.xml").exists()
        done = repo.command("sgpu", "finalize", "test-results/logs")
        assert done.code == 2, done.text
        self.check(repo, r"did not finish: controller killed at \+\d+ s on gpu\d")


class TestDeadline:
    """C17: after the time limit a server that the item has started keeps the job open."""

    def test_it(self, repo):
        repo.suite(
            "d",
            {
                "hang": f"echo starting; setsid sh -c 'trap \"\" TERM HUP; {CHILD}' & echo 'waiting for it'; {CHILD}",
                "selfterm": "cases 1; kill -TERM $$; sleep 5",
                "fine.1": "cases 1",
                "fine.2": "cases 1",
            },
        )
        repo.weights("d/hang 1.0\nd/selfterm 1.0\n")
        done = repo.run("--sgpu-timeout=2", "--sgpu-grace=0.5")
        assert done.code == 1
        assert repo.survivors() == []
        assert repo.status() == {
            "d/hang": "TIMED_OUT",
            "d/selfterm": "CRASHED",
            "d/fine.1": "PASSED",
            "d/fine.2": "PASSED",
        }
        assert lines_with(done.out, "SLOW", "d/hang", "waiting for it")
        (told,) = errors(repo, "d/hang")
        assert "deadline" in told
        assert "waiting for it" in told
        assert "SIGTERM" in repo.outcomes()["d/selfterm"]["reason"]
        assert repo.learned()["d/hang"] == 1.0
        # Two or more blanks divide the columns of the summary.
        head, row = (re.split("  +", line) for line in done.out.split("= sgpu =")[1].splitlines()[1:3])
        counts = dict(zip(head, row, strict=True))
        assert (counts["timed out"], counts["crashed"], counts["passed"]) == ("1", "1", "2")


LEAKING = {
    "holder": f"cases 1; {CHILD} &",
    "quiet": f"cases 1; setsid {CHILD} </dev/null >/dev/null 2>&1 &",
    "helper": "cases 1; (sleep 0.1; echo helper done) &",
    "tidy": "cases 1; sleep 0.1",
}


class TestLeaks:
    """C18: what an item leaves behind, and what only looks like it."""

    @staticmethod
    def check(repo, done):
        assert repo.survivors() == []
        left = {key: outcome["left"] for key, outcome in repo.outcomes().items() if outcome.get("left")}
        assert left.keys() == {"l/holder", "l/quiet"}
        for key, ((pid, command),) in left.items():
            assert CHILD in command
            assert lines_with(done.out, "LEAK", key, str(pid), CHILD)
        assert len(lines_with(done.out, "LEAK")) >= 2
        assert not lines_with(done.out, "LEAK", "l/tidy")
        assert not lines_with(done.out, "LEAK", "l/helper")
        assert CHILD in repo.left("report/schedule.md")

    def test_they_are_named_and_ended(self, repo):
        repo.suite("l", LEAKING)
        done = repo.run()
        assert done.code == 0, done.text
        self.check(repo, done)
        assert set(repo.status().values()) == {"PASSED"}
        assert max(repo.learned().values()) < 60

    def test_they_fail_the_run_when_asked(self, repo):
        repo.suite("l", LEAKING)
        done = repo.run("--sgpu-leaks=fail")
        assert done.code == 1
        self.check(repo, done)
        assert repo.status() == {"l/holder": "FAILED", "l/quiet": "FAILED", "l/helper": "PASSED", "l/tidy": "PASSED"}
        assert "left 1 process behind" in errors(repo, "l/holder")[0]

    @pytest.mark.slow
    def test_on_a_loaded_machine(self, repo):
        """Nothing that ends by itself is called a leak because it was slow to be looked at."""
        repo.suite("l", LEAKING)
        spin = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(3 * (os.cpu_count() or 1))]
        try:
            for _ in range(5):
                done = repo.run("--sgpu-leaks=fail")
                assert done.code == 1
                self.check(repo, done)
        finally:
            for process in spin:
                process.kill()
                process.wait()


NAMESPACE = ("unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc")


def namespaces():
    """Whether this machine lets its users make process namespaces."""
    if shutil.which(NAMESPACE[0]) is None:
        return False
    return subprocess.run([*NAMESPACE, "true"], capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not namespaces(), reason="no process namespaces here")
class TestProcessOne:
    """C21: in a container without an init, pytest is process 1. Orphans become its children."""

    def test_it_has_no_zombies(self, repo):
        orphans = "n=0; while [ $n -lt 20 ]; do (sleep 0.05 &) ; n=$((n + 1)); done; sleep 0.2; cases 1"
        count = "ran; cat /proc/[0-9]*/stat 2>/dev/null | grep -c ') Z ' >\"$top/zombies\"; :"
        repo.suite("i", {**{f"orphans.{n}": orphans for n in range(6)}, "last": count})
        repo.weights("".join(f"i/orphans.{n} 9.0\n" for n in range(6)) + "i/last 1.0\n")
        done = repo.command(*NAMESPACE, *repo.words())
        assert done.code == 0, done.text
        assert not lines_with(done.out, "LEAK")
        assert int(repo.read("zombies")) < 10

    def test_it_hears_sigterm(self, repo, until):
        repo.suite("i", {"quick": "note; cases 1", "long": f"note; ran; {CHILD}"})
        repo.weights("i/quick 9.0\ni/long 1.0\n")
        outside = repo.start(*NAMESPACE, *repo.words("--sgpu-grace=1"))
        until(running(repo, "quick", "long"))
        until(ended(repo, "i/quick"))
        (inside,) = Path(f"/proc/{outside.pid}/task/{outside.pid}/children").read_text().split()
        os.kill(int(inside), signal.SIGTERM)
        assert repo.end(outside).code == 2
        assert repo.status() == {"i/quick": "PASSED", "i/long": "STOPPED"}
        assert repo.junit().results == {"passed": 1, "error": 1}


class TestLastItem:
    """C22: the worker dies, or freezes, under the last item, when the others have nothing more to do."""

    @pytest.fixture
    def last(self, repo):
        first = (
            '[ -e "$top/worker" ] && again=1; echo "$HIP_VISIBLE_DEVICES" >>"$top/starts"; echo "$PPID" >"$top/worker"'
        )
        body = f'if [ "${{again:-}}" ]; then cases 1; else ran; note; {CHILD}; fi'
        shorts = {f"short.{n}": "cases 1" for n in range(4)}
        # The body of a line runs in a subshell; the parent of the script is the worker.
        repo.suite("w", {**shorts, "lastone": f"{first}; {body}"})
        repo.weights("".join(f"w/short.{n} 5.0\n" for n in range(4)) + "w/lastone 1.0\n")
        return repo

    @pytest.mark.parametrize(
        "number", [signal.SIGKILL, pytest.param(signal.SIGSTOP, marks=pytest.mark.slow)], ids=["SIGKILL", "SIGSTOP"]
    )
    def test_it_runs_again_elsewhere(self, last, until, number):
        process = last.start(*last.words())
        until(running(last, "lastone"))
        worker = int(last.read("worker"))
        os.kill(worker, number)
        done = last.end(process)
        assert done.code == 0, done.text
        assert last.survivors() == []
        assert not Path(f"/proc/{worker}").exists()
        assert sorted(last.read("starts").split()) == ["0", "1"], "it ran on the same device again"
        assert last.status()["w/lastone"] == "PASSED"
        assert last.outcomes()["w/lastone"]["attempt"] == 2
        (lost,) = [record for record in last.records() if record["event"] == "attempt"]
        assert (lost["key"], lost["status"], lost["why"]) == ("w/lastone", "LOST", "lost")
        assert ("SIGKILL" if number is signal.SIGKILL else "silent for 10 s") in lost["reason"]
        assert lost["reason"] in last.left("report/schedule.md")


class TestSilence:
    """C24: nothing is printed for a long time, and nobody says which item it is."""

    def test_it(self, repo):
        dots = "n=0; while [ $n -lt 20 ]; do printf . {}; sleep 0.2; n=$((n + 1)); done; cases 1"
        repo.file(
            "wait_for_peer.py",
            "import faulthandler, signal, time\n"
            "faulthandler.register(signal.SIGTERM, chain=True)\n"
            "def wait_for_a_peer_that_is_gone():\n    time.sleep(600)\n"
            "print('python waits', flush=True)\nwait_for_a_peer_that_is_gone()\n",
        )
        repo.suite(
            "q",
            {
                "silent": f"echo 'all-reduce of 8 ranks, waiting'; {CHILD}",
                "dots": dots.format(""),
                "errs": dots.format(">&2"),
                "python": f'"{sys.executable}" "$top/wait_for_peer.py"',
            },
        )
        repo.weights("q/silent 1.0\nq/python 1.0\n")
        done = repo.run("--sgpu-stall=2", "--sgpu-grace=1", gpus=4)
        assert done.code == 1
        assert repo.survivors() == []
        assert repo.status() == {
            "q/silent": "TIMED_OUT",
            "q/python": "TIMED_OUT",
            "q/dots": "PASSED",
            "q/errs": "PASSED",
        }
        reason = repo.outcomes()["q/silent"]["reason"]
        assert "stall" in reason
        assert "2 s" in reason
        assert "all-reduce of 8 ranks, waiting" in reason
        assert reason in done.out
        assert "wait_for_a_peer_that_is_gone" in repo.left("items/q.python.log")
        assert (repo.learned()["q/silent"], repo.learned()["q/python"]) == (1.0, 1.0)
