"""^Z and fg: the items and their clocks stop with the queue, and go on with it."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

# Counts for as long as nobody says go.
COUNTS = 'note; while [ ! -e "$top/go" ]; do echo . >>"$top/ticks"; sleep 0.05; done; cases 1'


def state(pid):
    return (Path("/proc") / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()[0]


def ticks(repo):
    path = repo.path / "ticks"
    return path.stat().st_size if path.exists() else 0


def stands_still(repo, until, process):
    """Wait until the queue has stopped, and the item with it."""
    until(lambda: state(process.pid) == b"T")
    seen = [-1]

    def same():
        before, seen[0] = seen[0], ticks(repo)
        time.sleep(0.3)  # several ticks would fit
        return before == seen[0] == ticks(repo)

    until(same)


def go_on(repo, until, process):
    count = ticks(repo)
    process.send_signal(signal.SIGCONT)
    until(lambda: ticks(repo) > count)


def test_the_items_stop_with_the_queue_and_go_on_with_it(repo, until):
    repo.suite("s", {"a": COUNTS})
    process = repo.start(*repo.words(gpus=1))
    until(lambda: ticks(repo) > 0)
    process.send_signal(signal.SIGTSTP)
    stands_still(repo, until, process)
    began = time.monotonic()
    time.sleep(1.0)
    paused = time.monotonic() - began
    go_on(repo, until, process)
    repo.file("go", "")
    done = repo.end(process)
    assert done.code == 0
    assert repo.status() == {"s/a": "PASSED"}
    assert "sgpu: paused, with all running items" in done.out
    assert "sgpu: goes on after a pause of " in done.out
    by = {record["event"]: record for record in repo.records()}
    assert by["resumed"]["seconds"] >= paused
    assert by["resumed"]["at"] - by["paused"]["at"] < by["resumed"]["seconds"]
    assert by["outcome"]["stop"] - by["outcome"]["start"] < by["end"]["at"]


def test_a_signal_to_a_queue_that_stands_still_ends_it_when_it_goes_on(repo, until):
    repo.suite("s", {"a": COUNTS})
    process = repo.start(*repo.words(gpus=1))
    until(lambda: ticks(repo) > 0)
    process.send_signal(signal.SIGTSTP)
    stands_still(repo, until, process)
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGCONT)
    assert repo.end(process).code == 2
    assert repo.status() == {"s/a": "STOPPED"}
    assert repo.survivors() == []


def test_a_queue_that_is_killed_while_it_stands_still_leaves_nothing(repo, until):
    repo.suite("s", {"a": COUNTS})
    process = repo.start(*repo.words(gpus=1))
    until(lambda: ticks(repo) > 0)
    process.send_signal(signal.SIGTSTP)
    stands_still(repo, until, process)
    process.kill()
    repo.end(process)
    until(lambda: repo.survivors() == [])


def test_a_setup_stops_too(repo, until):
    repo.suite("s", {"a": "cases 1"}, head=f"tag=setup; setup='{COUNTS.replace('cases 1', ':')}'")
    process = repo.start(*repo.words(gpus=1))
    until(lambda: ticks(repo) > 0)
    process.send_signal(signal.SIGTSTP)
    stands_still(repo, until, process)
    go_on(repo, until, process)
    repo.file("go", "")
    assert repo.end(process).code == 0


@pytest.mark.slow
def test_a_pause_counts_for_no_deadline(repo, until):
    repo.suite("s", {"a": COUNTS})
    process = repo.start(*repo.words("--sgpu-timeout=10", "--sgpu-stall=9", gpus=1))
    until(lambda: ticks(repo) > 0)
    process.send_signal(signal.SIGTSTP)
    stands_still(repo, until, process)
    time.sleep(11.0)
    go_on(repo, until, process)
    repo.file("go", "")
    assert repo.end(process).code == 0
    assert repo.outcomes()["s/a"]["status"] == "PASSED"
