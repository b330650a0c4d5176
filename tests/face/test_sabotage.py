"""Items and callers that put something else where a file was: no hang, no false green, nothing taken away."""

from __future__ import annotations

import os
import signal

import pytest


class TestPipes:
    """Opening a pipe without a writer waits for ever."""

    def test_in_place_of_a_log(self, repo):
        repo.suite("s", {"a": "rm -f test-results/logs/items/*; mkfifo test-results/logs/items/s.a.log; exit 3"})
        assert repo.run().code == 1
        assert repo.status() == {"s/a": "FAILED"}

    def test_in_place_of_a_weight_table(self, repo):
        repo.suite("s", {"a": "ran"})
        os.mkfifo(repo.path / "table.txt")
        done = repo.run("--sgpu-weights=table.txt")
        assert done.code == 0
        assert "table.txt: the weight table cannot be read: It is no regular file" in done.out
        assert (repo.path / "table.txt").is_fifo()

    def test_in_place_of_a_conf(self, repo):
        os.mkfifo(repo.path / "suite.conf")
        done = repo.run()
        assert done.code == 4
        assert "suite.conf: the conf file cannot be read: It is no regular file" in done.text

    def test_devices_that_never_end(self, repo):
        done = repo.run(conf="/dev/zero")
        assert done.code == 4
        assert "It is no regular file" in done.text


class TestARunDirectoryThatIsRemoved:
    def test_is_never_green(self, repo):
        repo.suite("s", {"a": "ran; rm -rf test-results"})
        done = repo.run()
        assert done.code == 4
        assert "something removed or replaced this run directory while the run went on" in done.text

    def test_a_journal_that_is_removed_is_put_back(self, repo):
        repo.suite("s", {"a": "ran; rm test-results/logs/queue/journal.jsonl", "b": "ran; exit 3"})
        done = repo.run(gpus=1)
        assert done.code == 1
        assert repo.status() == {"s/a": "PASSED", "s/b": "FAILED"}
        assert "queue/journal.jsonl: the journal was removed or replaced while the run went on" in done.out

    def test_a_journal_that_is_emptied_is_never_green(self, repo):
        repo.suite("s", {"a": "ran; : >test-results/logs/queue/journal.jsonl", "b": "ran"})
        done = repo.run(gpus=1)
        assert done.code == 4
        assert "something cut off the journal while the run went on, so results are lost" in done.text


class TestForeignTables:
    def test_a_file_that_is_no_table_stays(self, repo):
        repo.suite("s", {"a": "ran"})
        repo.file("notes.txt", "my notes\n")
        done = repo.run("--sgpu-weights=notes.txt")
        assert done.code == 0
        assert "this is no weight table, so nothing was learned" in done.out
        assert repo.read("notes.txt") == "my notes\n"

    def test_a_table_without_a_readable_line_is_set_aside(self, repo):
        repo.suite("s", {"a": "ran"})
        table = repo.weights(b"\xff\xfe\x00garbage\n")
        assert repo.run().code == 0
        assert repo.learned().keys() == {"s/a"}
        assert table.with_name(table.name + ".damaged").read_bytes() == b"\xff\xfe\x00garbage\n"


class TestListings:
    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
    def test_a_signal_leaves_nothing(self, repo, until, number):
        repo.suite("s", {"a": "ran"}, head='[ "$TE_CI_LIST_ITEMS" != 1 ] || { : >listing; sleep 300; }')
        process = repo.start(*repo.words())
        until((repo.path / "listing").exists)
        process.send_signal(number)
        assert repo.end(process).code == 2  # the fixture looks for what is left

    def test_a_daemon_of_a_listing_does_not_outlive_it(self, repo):
        repo.suite("s", {"a": "ran"}, head='[ "$TE_CI_LIST_ITEMS" != 1 ] || setsid sleep 300 &')
        assert repo.run().code == 0  # the fixture looks for what is left


def test_without_a_terminal_plugin(repo):
    repo.suite("s", {"a": "ran", "b": "exit 1"})
    done = repo.run("-p", "no:terminal")
    assert (done.code, done.out) == (1, "")
    assert repo.status() == {"s/a": "PASSED", "s/b": "FAILED"}
