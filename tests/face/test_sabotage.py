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


class TestTheJournal:
    END = (
        '{"event":"outcome","key":"s/%s","status":"%s","exit_code":%d,"start":0.1,"stop":0.2,"worker":"gpu0",'
        '"devices":["gpu0"],"attempt":1}'
    )
    JOURNAL = "test-results/logs/queue/journal.jsonl"

    def test_a_folder_in_its_place_is_moved_aside(self, repo):
        repo.suite("s", {"a": f"ran; rm {self.JOURNAL}; mkdir -p {self.JOURNAL}/deep", "b": "ran; exit 3"})
        done = repo.run(gpus=1)
        assert done.code == 1
        assert repo.status() == {"s/a": "PASSED", "s/b": "FAILED"}
        assert "queue/journal.jsonl: the journal was removed or replaced while the run went on; it is back" in done.out
        (moved,) = (repo.logs / "queue").glob("journal.jsonl.aside-*")
        assert (moved / "deep").is_dir()

    def test_so_it_is_after_the_last_item(self, repo):
        repo.suite("s", {"a": f"ran; rm {self.JOURNAL}; mkdir {self.JOURNAL}"})
        done = repo.run(gpus=1)
        assert done.code == 0
        assert repo.status() == {"s/a": "PASSED"}
        assert "queue/journal.jsonl: the journal was removed or replaced" in done.out

    @pytest.mark.parametrize(
        ("forged", "told"),
        [
            (("b", "PASSED", 0), "s/b (passed with exit code 0 at attempt 1 there, failed with exit code 3 at"),
            (("b", "FAILED", 4), "s/b (failed with exit code 4 at attempt 1 there, failed with exit code 3 at"),
            (("x", "PASSED", 0), "s/x (passed with exit code 0 at attempt 1 there, nothing seen)"),
        ],
    )
    def test_an_end_that_nobody_has_seen_is_never_believed(self, repo, forged, told):
        repo.weights("s/b 100.0\ns/a 1.0\n")
        repo.suite("s", {"a": f"ran; echo '{self.END % forged}' >>{self.JOURNAL}", "b": "ran; exit 3"})
        done = repo.run(gpus=1)
        assert done.code == 4
        assert told in done.text
        assert "another end than was seen for 1 item" in done.text

    def test_what_was_forged_before_the_item_ended_changes_nothing(self, repo):
        repo.weights("s/a 100.0\ns/b 1.0\n")
        forged = self.END % ("b", "PASSED", 0)
        repo.suite("s", {"a": f"ran; echo '{forged}' >>{self.JOURNAL}", "b": "ran; exit 3"})
        done = repo.run(gpus=1)
        assert done.code == 1
        assert "1 failed, 1 passed" in done.out
        assert [case.result for case in repo.junit().of("s/b")] == ["failure"]


class TestThePlacesOfALaterItem:
    @pytest.mark.parametrize("name", ["items/s.b.log", "items/s.b.log.rc", "junit/s/b.xml"])
    @pytest.mark.parametrize("how", ["ln -s $top/canary", "ln $top/canary", "mkfifo", "mkdir"])
    def test_nothing_that_another_item_put_there_is_used(self, repo, how, name):
        repo.weights("s/a 100.0\ns/b 1.0\n")
        canary = repo.file("canary", "canary")
        repo.suite("s", {"a": f"ran; {how} $top/test-results/logs/{name}", "b": "cases 2; echo said"})
        done = repo.run(gpus=1)
        assert done.code == 0
        assert repo.status() == {"s/a": "PASSED", "s/b": "PASSED"}
        assert canary.read_text() == "canary"
        assert "said" in repo.read("test-results/logs/items/s.b.log")
        assert len(repo.junit().of("s/b")) == 2
        assert f"warning: {name}: a " in done.out
        assert " was in this place; it " in done.out

    def test_what_an_opaque_item_finds_is_its_own(self, repo):
        repo.weights("s/a 100.0\nw 1.0\n")
        repo.suite("s", {"a": "ran; mkdir $top/test-results/logs/junit/w; touch $top/test-results/logs/junit/w/x.xml"})
        repo.opaque("w", "exit 0")
        done = repo.run(gpus=1)
        assert done.code == 0
        assert list((repo.logs / "junit" / "w").iterdir()) == []
        assert "warning: junit/w: a folder was in this place" in done.out


def test_a_log_that_is_gone_is_not_that_of_the_setup(repo):
    repo.suite("s", {"a": "rm $top/test-results/logs/items/s.a.log; exit 3"}, head="setup='echo the setup said so'")
    done = repo.run()
    assert done.code == 1
    assert "the setup said so" in repo.read("test-results/logs/setup/s.log")
    assert "the setup said so" not in done.out + repo.read("test-results/logs/report/junit.xml")


def test_a_lock_that_is_gone_is_told_and_lets_nobody_in(repo, until):
    body = "ran; rm test-results/logs/.sgpu.lock; : >$top/gone; while [ ! -e $top/go ]; do sleep 0.1; done"
    repo.suite("s", {"a": body})
    process = repo.start(*repo.words())
    until((repo.path / "gone").exists)
    second = repo.run()
    (repo.path / "go").touch()
    first = repo.end(process)
    assert (second.code, first.code) == (4, 0)
    assert "another run uses this log directory (pid " in second.text
    assert "warning: .sgpu.lock: the lock of this run was removed or replaced while it went on" in first.out
    assert repo.status() == {"s/a": "PASSED"}


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
