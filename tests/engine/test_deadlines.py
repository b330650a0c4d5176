"""Deadlines and stalls, as a worker keeps them: what it says on the way, how it ends the item, what it says then."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from pathlib import Path

import pytest

from pytest_sgpu.engine.events import ItemEnded, ItemSlow
from pytest_sgpu.engine.worker import LOOK, Watch
from tests.engine.conftest import until

HANGS = "echo one; printf 'waiting for the server'; exec sleep 60"
DEAF = "trap '' TERM; echo $$ >> pids; while :; do sleep 0.1; done"
STACK = """
import faulthandler, signal, time
faulthandler.register(signal.SIGTERM, chain=True)

def wait_for_a_peer_that_is_gone():
    print("all-reduce of 8 ranks", flush=True)
    time.sleep(60)

wait_for_a_peer_that_is_gone()
"""


def test_at_half_of_the_timeout_it_is_slow_and_at_the_end_it_is_ended(fleet):
    item = fleet.order("/bin/sh", "-c", HANGS, timeout=4.0, grace=10.0)
    slow = fleet.next(ItemSlow)
    assert (slow.worker, slow.run_id, slow.limit) == (fleet.workers[0], item.id, 4.0)
    assert slow.last_line == "waiting for the server"  # it has no end yet
    assert slow.seconds >= 2.0
    assert 0.0 <= slow.quiet <= slow.seconds
    ending = fleet.next(ItemEnded).ending
    assert (ending.timed_out, ending.signal, ending.left) == (True, signal.SIGTERM, ())
    said = r'deadline: 4 s passed; last output (\d+(\.\d)?) s ago: "waiting for the server"'
    assert (match := re.fullmatch(said, ending.killed))
    assert float(match[1]) <= ending.seconds
    assert ending.seconds >= 4.0


def test_slow_is_not_said_of_a_quick_one(fleet):
    fleet.order("true", timeout=60.0, stall=60.0)
    while not isinstance(event := fleet.gateways.next_event(15), ItemEnded):
        assert not isinstance(event, ItemSlow)


def _watch(tmp_path, **limits):
    log = os.open(tmp_path / "x.log", os.O_RDWR | os.O_CREAT | os.O_APPEND)
    return Watch({"timeout": 0.0, "stall": 0.0, "grace": 4.0, **limits}, log, 0), log


def test_slow_is_said_once_and_the_time_of_a_pause_is_taken_out(tmp_path):
    watch, log = _watch(tmp_path, timeout=100.0)
    began = watch.began
    os.write(log, b"so far\n")
    assert watch.look(began + 10.0) == ("", LOOK)
    assert watch.slow(began + 49.9) is None
    watch.move(20.0)  # it stood still from the 10th to the 30th second
    assert watch.slow(began + 69.9) is None
    slow = watch.slow(began + 70.1)
    assert slow == {
        "seconds": pytest.approx(50.1),
        "limit": 100.0,
        "quiet": pytest.approx(40.1, abs=5.0),
        "line": "so far",
    }
    assert watch.slow(began + 71.0) is None
    assert watch.look(began + 119.5) == ("", pytest.approx(0.5))
    said = watch.look(began + 120.01)[0]
    assert re.fullmatch(r'deadline: 100 s passed; last output 9\d(\.\d)? s ago: "so far"', said)
    os.close(log)


def test_silence_is_counted_from_the_last_output_and_not_through_a_pause(tmp_path):
    watch, log = _watch(tmp_path, stall=10.0)
    began = watch.began
    assert watch.look(began + 9.9) == ("", LOOK)
    os.write(log, b".")
    assert watch.look(began + 10.1) == ("", LOOK)
    watch.move(100.0)
    assert watch.look(began + 119.0) == ("", LOOK)
    assert watch.look(began + 120.2)[0] == 'stall: no output for 10 s; last line: "."'
    os.close(log)


def test_when_the_last_output_was_is_told_by_the_file(tmp_path):
    watch, log = _watch(tmp_path, timeout=100.0)
    began, second = watch.began, time.time()
    assert watch.look(began + 10.0) == ("", LOOK)
    os.write(log, b"so far")
    os.utime(tmp_path / "x.log", (second - 4.0, second - 4.0))
    watch.look(began + 50.0)
    assert watch.output_at == pytest.approx(began + 46.0, abs=3.0)
    os.utime(tmp_path / "x.log", (second - 4000.0, second - 4000.0))  # another host's clock: not before the last look
    watch.look(began + 60.0)
    assert watch.output_at == pytest.approx(began + 50.0)
    os.utime(tmp_path / "x.log", (second + 4000.0, second + 4000.0))
    watch.look(began + 70.0)
    assert watch.output_at == pytest.approx(began + 70.0)
    os.close(log)


def test_an_item_without_limits_is_not_looked_at(tmp_path):
    watch, log = _watch(tmp_path)
    assert watch.look(watch.began + 1e6) == ("", None)
    assert watch.slow(watch.began + 1e6) is None
    os.close(log)


def test_the_whole_tree_is_asked_to_end_and_what_ignores_it_is_killed(fleet):
    polite = "trap 'echo asked; exit' TERM; echo $$ >> pids; while :; do sleep 0.05; done"
    script = f'(setsid sh -c "{DEAF}") & (setsid sh -c "{polite}") & {DEAF}'
    fleet.order("/bin/sh", "-c", script, timeout=5.0, grace=0.5)
    pids = fleet.pids(count=3)
    ended = fleet.next(ItemEnded)
    assert (ended.ending.timed_out, ended.ending.signal) == (True, signal.SIGKILL)
    assert b"asked\n" in (fleet.folder / "1.log").read_bytes()
    assert ended.ending.left == ()  # it was ended, so nothing was left behind
    assert fleet.gone(pids, 0.0)


def test_a_grace_of_zero_asks_nobody(fleet):
    fleet.order("/bin/sh", "-c", "trap 'echo asked' TERM; while :; do sleep 0.05; done", timeout=0.5, grace=0.0)
    assert fleet.next(ItemEnded).ending.signal == signal.SIGKILL
    assert b"asked" not in (fleet.folder / "1.log").read_bytes()


def test_what_wrote_nothing_is_said_to_have_written_nothing(fleet):
    fleet.order("sleep", "60", timeout=0.5)
    assert fleet.next(ItemSlow).last_line == ""
    assert fleet.next(ItemEnded).ending.killed == "deadline: 0.5 s passed; it wrote nothing"
    fleet.order("sleep", "60", stall=0.5)
    assert fleet.next(ItemEnded).ending.killed == "stall: no output for 0.5 s; it wrote nothing"


@pytest.mark.parametrize("stream", ["", ">&2"])
def test_output_without_a_line_end_is_output(fleet, stream):
    ended, log = fleet.sh(f"for n in $(seq 30); do printf . {stream}; sleep 0.1; done", stall=2.0)
    assert (ended.ending.exit_code, ended.ending.killed, log) == (0, "", b"." * 30)
    assert ended.ending.seconds > 2.0  # or this proves nothing


def test_silence_is_a_stall(fleet):
    ended, _ = fleet.sh(r"printf 'all-reduce \033[1mof 8\033[0m ranks, waiting\n\n \n'; exec sleep 60", stall=2.0)
    assert (ended.ending.timed_out, ended.ending.signal) == (True, signal.SIGTERM)
    assert ended.ending.killed == 'stall: no output for 2 s; last line: "all-reduce [1mof 8[0m ranks, waiting"'
    assert ended.ending.seconds >= 2.0


def test_output_of_earlier_attempts_is_not_quoted(fleet):
    log = fleet.folder / "both.log"
    log.write_text("from before\n")
    ended, _ = fleet.sh("exec sleep 60", stall=0.3, log=str(log))
    assert ended.ending.killed == "stall: no output for 0.3 s; it wrote nothing"


def test_an_item_may_empty_its_own_log(fleet):
    script = "echo first; sleep 0.3; : > 1.log; sleep 0.3; echo second; exec sleep 60"
    ended, log = fleet.sh(script, stall=2.0)
    assert log == b"second\n"
    assert ended.ending.killed == 'stall: no output for 2 s; last line: "second"'
    assert ended.ending.seconds >= 2.0  # what it wrote was no silence


def test_progress_on_one_line_is_quoted_by_its_last_state(fleet):
    ended, _ = fleet.sh(r"printf '10%%\r50%%\r90%%\r'; exec sleep 60", stall=2.0)
    assert ended.ending.killed == 'stall: no output for 2 s; last line: "90%"'


def test_a_giant_line_is_quoted_in_part(fleet):
    ended, _ = fleet.sh("head -c 100000 /dev/zero | tr '\\0' x; exec sleep 60", stall=2.0)
    assert ended.ending.killed == f'stall: no output for 2 s; last line: "{"x" * 200} ... [3896 characters cut]"'


def test_python_dumps_its_stack_where_it_asked_for_that(fleet):
    ended, log = fleet.run(sys.executable, "-c", STACK, stall=4.0, grace=10.0)
    assert ended.ending.timed_out
    assert b"wait_for_a_peer_that_is_gone" in log


def test_a_kill_by_the_controller_is_no_deadline(fleet):
    fleet.order("/bin/sh", "-c", DEAF, timeout=60.0, grace=60.0)
    pids = fleet.pids()
    fleet.gateways.kill(fleet.workers[0], "stopped by ^C", 0.0)
    ending = fleet.next(ItemEnded).ending
    assert (ending.killed, ending.timed_out) == ("stopped by ^C", False)
    assert fleet.gone(pids, 0.0)


def test_a_second_kill_shortens_the_grace_of_a_deadline(fleet):
    fleet.order("/bin/sh", "-c", f'trap "echo asked" TERM; {DEAF.partition("; ")[2]}', timeout=3.0, grace=600.0)
    fleet.pids()
    assert until(lambda: b"asked" in (fleet.folder / "1.log").read_bytes(), 15.0)
    fleet.gateways.kill(fleet.workers[0], "stopped by ^C", 0.0)
    ending = fleet.next(ItemEnded).ending
    assert (ending.timed_out, ending.signal) == (True, signal.SIGKILL)
    assert ending.killed.startswith("deadline: 3 s passed")


def test_the_next_item_has_a_clock_of_its_own(fleet):
    assert fleet.run("sleep", "60", timeout=0.3)[0].ending.timed_out
    ending = fleet.sh("sleep 0.6; exit 3", timeout=30.0)[0].ending
    assert (ending.exit_code, ending.killed, ending.timed_out) == (3, "", False)


def _peak_kb(pid):
    line = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert line is not None
    return int(line[1])


def test_a_log_of_many_gigabytes_costs_no_memory(make_fleet):
    fleet = make_fleet()
    worker = fleet.start()["gpu0"]
    before = _peak_kb(worker)
    script = "truncate -s 64M 1.log; printf '\\nTE_CI_RAN a.b\\n'; truncate -s 40G 1.log; printf '\\nlast'; "
    wait = "while ! [ -e go ]; do sleep 0.05; done"
    fleet.order("/bin/sh", "-c", script + wait, timeout=8.0, ran_line="TE_CI_RAN a.b")
    assert fleet.next(ItemSlow).last_line == "last"
    (fleet.folder / "go").touch()
    ending = fleet.next(ItemEnded).ending
    assert (ending.exit_code, ending.killed, ending.ran) == (0, "", True)
    assert (fleet.folder / "1.log").stat().st_size > 40 << 30
    assert _peak_kb(worker) - before < 32 << 10


def test_a_kill_ends_the_search_of_a_log_after_its_grace(make_fleet):
    fleet = make_fleet()
    fleet.start()
    # Hundreds of gigabytes take minutes.
    fleet.order("/bin/sh", "-c", "echo $$ > pids; truncate -s 400G 1.log", ran_line="TE_CI_RAN a.b")
    pid = fleet.pids()[0]
    assert until(lambda: not Path(f"/proc/{pid}").exists(), 15.0)
    began = time.monotonic()
    fleet.gateways.kill(fleet.workers[0], "stopped", 0.2)
    ending = fleet.next(ItemEnded).ending
    assert (ending.exit_code, ending.killed) == (0, "stopped")
    assert 0.2 <= time.monotonic() - began < 10


def test_what_is_known_in_time_is_kept_in_spite_of_a_kill(make_fleet):
    fleet = make_fleet()
    fleet.start()
    fleet.order("/bin/sh", "-c", "echo $$ > pids; echo TE_CI_RAN a.b; truncate -s 64M 1.log", ran_line="TE_CI_RAN a.c")
    pid = fleet.pids()[0]
    assert until(lambda: not Path(f"/proc/{pid}").exists(), 15.0)
    fleet.gateways.kill(fleet.workers[0], "stopped", 60.0)
    ending = fleet.next(ItemEnded).ending
    assert (ending.exit_code, ending.killed, ending.ran) == (0, "", False)
