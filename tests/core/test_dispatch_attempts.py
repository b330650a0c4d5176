"""Further attempts, devices that are not trusted, and a run that has only so much time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pytest_sgpu.core import plan
from pytest_sgpu.core.dispatch import (
    Assign,
    Dispatcher,
    Finished,
    Held,
    Incomplete,
    Kill,
    Lost,
    Quarantined,
    Ready,
    Record,
    Released,
    Requeue,
    Respawn,
    Retire,
    Stop,
    Tick,
    Unhealthy,
)
from pytest_sgpu.model import Device, Estimate, Item, Key, Outcome, Quarantine, Scope, Status, WeightTable, Worker


def worker(name, generation=0):
    return Worker(name, (Device(name, name[-1], "HIP_VISIBLE_DEVICES", "amd", "gfx950"),), generation)


G0, G1, G2 = (worker(f"gpu{n}") for n in range(3))


class Run:
    """A dispatcher with items a, b, c, ..., handed out in this order, and what it was told so far."""

    def __init__(self, tags, devices=2, seconds=100.0, **rules):
        items = [Item(Key("t", tag), ("x",), 1, n) for n, tag in enumerate(tags)]
        known = dict.fromkeys(tags, seconds) if not isinstance(seconds, dict) else seconds
        table = {Key("t", tag): value for tag, value in known.items() if value is not None}
        made = plan.order(items, WeightTable(Scope("cpu", "1"), table), devices)
        self.dispatcher = Dispatcher(made, reorder=False, **rules)
        self.handle: Any = self.dispatcher.handle
        self.at = 0.0

    def ready(self, *workers):
        """Let them ask; gives the tags that they got, "" for none."""
        found = []
        for one in workers:
            commands = self.handle(Ready(one, self.at))
            found.append("".join(c.entry.item.key.tag for c in commands if isinstance(c, Assign)))
        return found

    def end(self, one, status=Status.PASSED, seconds=50.0, **more):
        """End what a worker runs."""
        (running,) = [r for r in self.dispatcher.running if r.worker.id == one.id]
        code = 0 if status is Status.PASSED else 1
        outcome = Outcome(
            running.entry.item.key,
            status,
            code,
            self.at,
            self.at + seconds,
            one.id,
            (one.place,),
            running.attempt,
            complete=True,
            reason="" if code == 0 else f"exit code {code}",
            proof="junit",
            estimate=running.entry.estimate,
        )
        self.at += 1.0
        return self.handle(Finished(one, replace(outcome, **more), self.at))

    def fail(self, one, **more):
        return self.end(one, Status.FAILED, **more)

    def fail_fast(self, one):
        return self.fail(one, seconds=1.0)


def the(kind, commands):
    (found,) = [command for command in commands if isinstance(command, kind)]
    return found


def recorded(commands):
    return the(Record, commands).outcome


def kinds(commands):
    return [type(command) for command in commands]


# -- retries ------------------------------------------------------------------------------------------


def test_a_failed_item_runs_again_at_the_end_of_the_queue_on_another_device():
    run = Run("abc", retries=1)
    assert run.ready(G0, G1) == ["a", "b"]
    requeue = the(Requeue, run.fail(G0))
    assert (requeue.why, requeue.outcome.status, requeue.outcome.attempt) == ("retry", Status.FAILED, 1)
    assert [entry.item.key.tag for entry in run.dispatcher.waiting] == ["c", "a"]
    assert run.ready(G0) == ["c"]
    run.end(G0)
    assert run.ready(G0) == [""]  # parked: only `a` waits, which failed here
    assert recorded(run.end(G1)).key.tag == "b"
    assign = the(Assign, run.handle(Ready(G1, 9.0)))
    assert (assign.worker, assign.entry.item.key, assign.attempt) == (G1, requeue.outcome.key, 2)
    outcome = recorded(run.end(G1))
    assert (outcome.status, outcome.attempt, outcome.exit_code) == (Status.FLAKY, 2, 0)
    assert outcome.reason == "failed on gpu0 (exit code 1), passed on gpu1"
    assert not outcome.failed
    assert run.dispatcher.done


def test_a_parked_worker_gets_the_retry_at_once():
    run = Run("a", retries=1)
    assert run.ready(G1, G0) == ["a", ""]
    assert kinds(run.fail(G1)) == [Requeue, Assign]


def test_a_retry_waits_for_another_device_even_for_one_that_has_not_come_up():
    run = Run("a", devices=2, retries=1)
    run.ready(G0)
    run.fail(G0)
    assert run.ready(G0) == [""]
    assert run.ready(G1) == ["a"]


def test_a_retry_stays_where_it_failed_when_the_other_device_is_gone():
    run = Run("a", devices=2, retries=1, max_respawns=0)
    run.ready(G0)
    run.fail(G0)
    assert run.ready(G0) == [""]
    commands = run.handle(Lost(G1, "no start", 1.0))
    assert kinds(commands) == [Retire, Assign]
    outcome = recorded(run.end(G0))
    assert outcome.status is Status.FLAKY
    assert outcome.reason == "failed on gpu0 (exit code 1), passed on gpu0"


def test_a_third_attempt_goes_to_a_third_device_and_a_fourth_to_any_but_the_last():
    run = Run("a", devices=3, retries=3)
    assert run.ready(G0, G1, G2) == ["a", "", ""]
    order = ["gpu0"]
    workers = {one.id: one for one in (G0, G1, G2)}
    for _ in range(3):
        before = order[-1]
        order += [c.worker.id for c in run.fail(workers[before]) if isinstance(c, Assign)]
        order += [c.worker.id for c in run.handle(Ready(workers[before], 1.0)) if isinstance(c, Assign)]
    assert sorted(order[:3]) == ["gpu0", "gpu1", "gpu2"]
    assert order[3] in order[:2]
    outcome = recorded(run.fail(workers[order[3]]))
    assert (outcome.status, outcome.attempt) == (Status.FAILED, 4)


def test_an_item_that_failed_on_two_of_three_devices_waits_for_the_third():
    run = Run("ab", devices=3, retries=3)
    assert run.ready(G0) == ["a"]
    run.fail(G0)
    assert run.ready(G0) == ["b"]
    assert run.ready(G1) == ["a"]
    run.fail(G1)
    run.end(G0)
    assert run.ready(G0, G1) == ["", ""]  # gpu0 is not the latest, but gpu2 did not have it at all
    assert run.ready(G2) == ["a"]


def test_an_item_that_failed_everywhere_goes_to_any_device_but_the_latest():
    run = Run("a", devices=2, retries=2)
    assert run.ready(G0, G1) == ["a", ""]
    assert the(Assign, run.fail(G0)).worker == G1
    run.fail(G1)
    assert run.ready(G1) == [""]
    assert run.ready(G0) == ["a"]


@pytest.mark.parametrize(
    ("status", "again"),
    [
        (Status.FAILED, True),
        (Status.CRASHED, True),
        (Status.TIMED_OUT, True),
        (Status.NO_TESTS, True),
        (Status.PASSED, False),
        (Status.STOPPED, False),
        (Status.SETUP_FAILED, False),
        (Status.NOT_RUN, False),
    ],
)
def test_what_is_retried(status, again):
    run = Run("a", devices=1, retries=1)
    run.ready(G0)
    assert kinds(run.end(G0, status)) == [Requeue if again else Record]


def test_a_flaky_item_may_fail_the_run_and_keeps_what_was_said_of_its_pass():
    run = Run("a", devices=1, retries=2, flaky_fails=True)
    for _ in range(2):
        run.ready(G0)
        run.fail(G0, reason="")
    run.ready(G0)
    outcome = recorded(run.end(G0, reason="every test was skipped (3)"))
    assert outcome.failed
    assert outcome.attempt == 3
    assert outcome.reason == (
        "failed on gpu0 (failed) and on gpu0 (failed), passed on gpu0: every test was skipped (3)"
    )


def test_attempts_count_on_from_earlier_parts():
    failed_before = Outcome(Key("t", "a"), Status.FAILED, 1, 0.0, 1.0, "gpu0", ("gpu0",), 1, reason="exit code 3")
    run = Run("abc", retries=1, attempts={Key("t", "a"): 2, Key("t", "c"): 1}, earlier={Key("t", "a"): [failed_before]})
    run.ready(G1)
    assert run.dispatcher.running[0].attempt == 3
    outcome = recorded(run.end(G1))
    assert outcome.reason == "failed on gpu0 (exit code 3), passed on gpu1"  # never silently a pass
    run.ready(G0, G1)
    assert [running.attempt for running in run.dispatcher.running] == [1, 2]
    stopped = [c.outcome for c in run.handle(Stop("^C", kill=False, at=1.0)) if isinstance(c, Record)]
    assert stopped == []


def test_an_item_that_used_up_its_retries_in_an_earlier_part_has_none_left():
    failure = Outcome(Key("t", "a"), Status.FAILED, 1, 0.0, 1.0, "gpu0", ("gpu0",), 1)
    run = Run("a", retries=1, attempts={Key("t", "a"): 2}, earlier={Key("t", "a"): [failure]})
    run.ready(G1)
    outcome = recorded(run.fail(G1))
    assert (outcome.status, outcome.attempt) == (Status.FAILED, 3)


def test_what_never_ran_in_this_part_is_not_run():
    run = Run("a", attempts={Key("t", "a"): 2})
    outcome = recorded(run.handle(Stop("^C", kill=True, at=1.0)))
    assert (outcome.status, outcome.attempt, outcome.reason) == (Status.NOT_RUN, 3, "^C")


# -- losses -------------------------------------------------------------------------------------------


def test_a_lost_item_goes_first_and_then_has_its_retries():
    run = Run("abc", retries=1)
    assert run.ready(G0, G1) == ["a", "b"]
    assert kinds(run.handle(Lost(G0, "gone", 1.0))) == [Requeue, Respawn]
    run.end(G1)
    assert run.ready(G1) == ["a"]
    assert the(Requeue, run.fail(G1)).why == "retry"
    assert run.ready(G1) == ["c"]
    assert run.ready(worker("gpu0", 1)) == ["a"]  # it came to grief on both; this is not the latest
    outcome = recorded(run.fail(worker("gpu0", 1)))
    assert (outcome.status, outcome.attempt) == (Status.FAILED, 3)


def test_a_retry_that_is_lost_is_tried_once_more_and_then_lost():
    run = Run("a", devices=1, retries=1)
    run.ready(G0)
    run.fail(G0)
    run.ready(G0)
    assert the(Requeue, run.handle(Lost(G0, "x", 2.0))).why == "lost"
    run.ready(worker("gpu0", 1))
    outcome = recorded(run.handle(Lost(worker("gpu0", 1), "y", 3.0)))
    assert (outcome.status, outcome.attempt, outcome.reason) == (Status.LOST, 3, "y")


# -- stop ---------------------------------------------------------------------------------------------


def test_a_stop_leaves_what_waits_for_another_attempt_with_what_it_came_to():
    run = Run("abcdef", devices=3, retries=1)
    assert run.ready(G0, G1, G2) == ["a", "b", "c"]
    failed = the(Requeue, run.fail(G0)).outcome
    lost = the(Requeue, run.handle(Lost(G1, "gone", 1.0))).outcome
    assert run.ready(G0) == ["b"]
    run.handle(Lost(G0, "gone", 2.0))  # b for the second time: final
    assert kinds(run.handle(Unhealthy(G2, "ECC", 2.0))) == []  # the last one that is up
    commands = run.handle(Stop("^C", kill=True, at=3.0))
    found = {c.outcome.key.tag: c.outcome for c in commands if isinstance(c, Record)}
    assert lost.key.tag == "b"
    assert found["a"] == failed
    assert [found[tag].status for tag in "def"] == [Status.NOT_RUN] * 3
    assert the(Kill, commands) == Kill(G2, "^C")


def test_an_item_that_waits_because_of_a_quarantine_was_not_run_unless_it_failed_before():
    run = Run("abcd", devices=2, retries=1, quarantine=True)
    assert run.ready(G0, G1) == ["a", "b"]
    run.handle(Unhealthy(G0, "ECC", 1.0))
    displaced = the(Requeue, run.end(G0, Status.STOPPED))
    assert displaced.why == "quarantine"
    run.ready(G0)
    commands = run.handle(Stop("-x", kill=False, at=2.0))
    a = next(c.outcome for c in commands if isinstance(c, Record) and c.outcome.key.tag == "a")
    assert (a.status, a.attempt, a.reason, a.start) == (Status.NOT_RUN, 2, "-x", None)


# -- quarantine ---------------------------------------------------------------------------------------


def test_an_unhealthy_device_gets_no_more_and_its_item_runs_again_at_the_head():
    run = Run("abcd")
    assert run.ready(G0, G1) == ["a", "b"]
    quarantined, kill = run.handle(Unhealthy(G0, "health check failed (exit code 1)", 1.5))
    reason = "health check failed (exit code 1)"
    assert quarantined == Quarantined(Quarantine("gpu0", ("gpu0",), 1.5, reason))
    assert kill == Kill(G0, f"gpu0 is quarantined: {reason}")
    assert run.handle(Unhealthy(G0, "again", 1.6)) == []
    run.end(G1)
    assert kinds(run.end(G0, Status.STOPPED)) == [Requeue]
    assert run.handle(Ready(G0, 2.0)) == [Retire(G0)]
    assert run.ready(G1) == ["a"]
    assert run.dispatcher.running[0].attempt == 2
    outcome = recorded(run.end(G1))
    assert (outcome.status, outcome.attempt) == (Status.PASSED, 2)


@pytest.mark.parametrize(
    ("status", "then"), [(Status.PASSED, Record), (Status.FAILED, Requeue), (Status.TIMED_OUT, Requeue)]
)
def test_what_ends_by_itself_before_the_kill_counts_only_when_it_passed(status, then):
    run = Run("abcd")
    run.ready(G0, G1)
    run.handle(Unhealthy(G0, "ECC", 1.0))
    assert kinds(run.end(G0, status)) == [then]


def test_a_quarantined_worker_that_dies_is_not_respawned_and_its_item_is_not_lost():
    run = Run("abcd")
    run.ready(G0, G1)
    run.handle(Unhealthy(G0, "ECC", 1.0))
    requeue, retire = run.handle(Lost(G0, "killed", 2.0))
    assert (requeue.why, requeue.outcome.status, retire) == ("quarantine", Status.LOST, Retire(G0))
    run.end(G1)
    assert run.ready(G1) == ["a"]
    assert the(Requeue, run.handle(Lost(G1, "gone", 3.0))).why == "lost"  # its one loss was not used up


def test_a_parked_worker_that_is_quarantined_retires():
    run = Run("a", devices=3)
    run.ready(G0, G1, G2)
    assert kinds(run.handle(Unhealthy(G1, "ECC", 1.0))) == [Quarantined, Retire]


def test_the_last_device_is_quarantined_only_when_another_one_comes_up():
    run = Run("abcd")
    assert run.ready(G0) == ["a"]
    assert run.handle(Unhealthy(G0, "ECC", 1.0)) == []
    run.end(G0)
    assert run.ready(G0) == ["b"]
    commands = run.handle(Ready(G1, 5.0))
    assert kinds(commands) == [Quarantined, Kill, Assign]
    assert commands[0].quarantine == Quarantine("gpu0", ("gpu0",), 5.0, "ECC")
    assert run.handle(Unhealthy(G1, "ECC", 6.0)) == []  # and now this one is the last


def test_nobody_is_left_when_the_last_device_is_lost_while_a_quarantined_one_ends_its_item():
    run = Run("a", max_respawns=0)
    assert run.ready(G0, G1) == ["a", ""]
    run.handle(Unhealthy(G0, "ECC", 1.0))
    incomplete = Incomplete("no worker is left; the last one, gpu1, was lost: gone")
    assert run.handle(Lost(G1, "gone", 2.0)) == [Retire(G1), incomplete]
    assert recorded(run.end(G0, Status.STOPPED)).status is Status.STOPPED
    assert run.dispatcher.done


def test_a_worker_that_starts_anew_does_not_count_as_another_device():
    run = Run("abcd")
    run.ready(G0, G1)
    run.handle(Lost(G1, "gone", 1.0))
    assert run.handle(Unhealthy(G0, "ECC", 1.0)) == []
    assert kinds(run.handle(Ready(worker("gpu1", 1), 2.0))) == [Quarantined, Kill, Assign]


def test_two_items_that_failed_there_and_passed_elsewhere_are_evidence():
    run = Run("abcd", retries=1)
    assert run.ready(G0, G1) == ["a", "b"]
    run.fail(G0)
    assert run.ready(G0) == ["c"]
    run.fail(G0)
    run.end(G1)
    assert run.ready(G1) == ["d"]
    run.end(G1)
    assert run.ready(G1) == ["a"]
    run.end(G1)
    assert run.ready(G1) == ["c"]
    run.ready(G0)
    quarantined, retire, record = run.end(G1)
    assert quarantined.quarantine.reason == "2 items failed there and passed elsewhere: t/a (on gpu1), t/c (on gpu1)"
    assert retire == Retire(G0)
    assert record.outcome.status is Status.FLAKY


def test_one_item_that_fails_twice_there_is_one_piece_of_evidence():
    run = Run("ab", retries=3)
    run.ready(G0)
    run.fail(G0)
    assert run.ready(G1) == ["b"]
    run.end(G1)
    assert run.ready(G1) == ["a"]
    assert kinds(run.end(G1)) == [Record]


def test_quarantine_off_knows_neither_holds_nor_quarantines():
    run = Run("abcdefgh", quarantine=False, retries=1)
    run.ready(G0, G1)
    assert run.handle(Unhealthy(G0, "ECC", 1.0)) == []
    run.end(G1)
    for _ in range(4):
        assert kinds(run.fail_fast(G0)) == [Requeue]
        run.ready(G0)
    while run.ready(G1) != [""]:
        assert kinds(run.end(G1)) == [Record]
    assert not run.dispatcher.done  # gpu0 runs still


def test_after_the_end_of_the_queue_evidence_is_told_and_nothing_is_killed():
    run = Run("abcd", retries=1)
    run.ready(G0, G1)
    run.fail(G0)
    run.ready(G0)
    run.handle(Stop("-x", kill=False, at=5.0))
    assert kinds(run.handle(Unhealthy(G0, "ECC", 6.0))) == [Quarantined]
    assert kinds(run.end(G0, Status.FAILED)) == [Record]


# -- holds --------------------------------------------------------------------------------------------


def held(**rules):
    """Three fast failures on gpu0 while gpu1 passed something: a, c, d failed; gpu1 runs e."""
    run = Run("abcdefgh", **rules)
    assert run.ready(G0, G1) == ["a", "b"]
    assert kinds(run.fail_fast(G0)) == [Record]
    assert run.ready(G0) == ["c"]
    assert kinds(run.fail_fast(G0)) == [Record]
    assert run.ready(G0) == ["d"]
    run.end(G1)
    assert run.ready(G1) == ["e"]
    return run, run.fail_fast(G0)


def test_a_device_that_fails_three_items_fast_is_held_and_the_third_is_tried_elsewhere():
    run, commands = held()
    requeue, hold = commands
    assert (requeue.why, requeue.outcome.key.tag) == ("probe", "d")
    assert hold == Held(G0, "3 items in a row failed in far less than their time; t/d is tried elsewhere")
    assert run.ready(G0) == [""]
    run.end(G1)
    assert run.ready(G1) == ["d"]  # at the head
    quarantined, retire, record = run.end(G1)
    assert record.outcome.status is Status.FLAKY
    assert record.outcome.reason == "failed on gpu0 (exit code 1), passed on gpu1"
    assert retire == Retire(G0)
    assert quarantined.quarantine.reason == (
        "3 items in a row failed there in far less than their time; the last of them, t/d, passed on gpu1"
    )
    assert run.ready(G1) == ["f"]


def test_a_probe_that_fails_elsewhere_too_clears_the_device():
    run, _ = held()
    run.ready(G0)
    run.end(G1)
    run.ready(G1)
    released, assign, record = run.fail_fast(G1)
    assert released == Released(G0, "t/d failed on gpu1 too")
    assert (assign.worker, assign.entry.item.key.tag) == (G0, "f")
    assert (record.outcome.status, record.outcome.attempt) == (Status.FAILED, 2)
    assert kinds(run.fail_fast(G0)) == [Record]  # it begins anew
    run.ready(G0)
    assert kinds(run.fail_fast(G0)) == [Record]


def test_a_held_worker_that_has_not_asked_yet_is_released_all_the_same():
    run, _ = held()
    run.end(G1)
    run.ready(G1)
    assert kinds(run.fail_fast(G1)) == [Released, Record]
    assert run.ready(G0) == ["f"]


def test_a_probe_that_failed_twice_is_retried_only_if_retries_are_left():
    run = Run("abcdefgh", retries=2)
    run.ready(G0, G1)
    run.fail_fast(G0)
    run.ready(G0)
    run.fail_fast(G0)
    run.ready(G0)
    run.end(G1)
    run.ready(G1)
    assert the(Requeue, run.fail_fast(G0)).why == "probe"
    run.end(G1)
    run.ready(G1)
    assert kinds(run.fail_fast(G1)) == [Released, Requeue]


def test_a_probe_that_is_lost_is_tried_once_more_and_then_the_device_is_released():
    run, _ = held()
    run.ready(G0)
    run.end(G1)
    assert run.ready(G1) == ["d"]
    again, respawn = run.handle(Lost(G1, "gone", 50.0))
    assert (again.why, respawn.worker) == ("lost", worker("gpu1", 1))
    assert run.ready(respawn.worker) == ["d"]
    commands = run.handle(Lost(respawn.worker, "gone", 51.0))
    assert kinds(commands) == [Released, Respawn, Assign, Record]
    assert commands[0].reason == "t/d was lost elsewhere"


def test_a_hold_ends_when_no_other_device_is_left():
    run, _ = held()
    run.ready(G0)
    gpu1 = G1
    for _ in range(2):
        (respawn,) = [c for c in run.handle(Lost(gpu1, "gone", 50.0)) if isinstance(c, Respawn)]
        gpu1 = respawn.worker
    retire, released, assign = run.handle(Lost(gpu1, "gone", 52.0))
    assert (retire, released) == (Retire(gpu1), Released(G0, "no other device is left"))
    assert (assign.worker, assign.entry.item.key.tag) == (G0, "d")
    outcome = recorded(run.end(G0))
    assert outcome.reason == "failed on gpu0 (exit code 1), passed on gpu0"


def test_a_held_worker_that_dies_comes_back_held():
    run, _ = held()
    run.ready(G0)
    assert run.handle(Lost(G0, "gone", 50.0)) == [Respawn(worker("gpu0", 1))]
    assert run.ready(worker("gpu0", 1)) == [""]
    run.end(G1)
    run.ready(G1)
    assert kinds(run.fail_fast(G1)) == [Released, Assign, Record]


def test_a_held_worker_that_dies_gets_nothing_before_it_is_there_again():
    run, _ = held()
    run.ready(G0)
    run.handle(Lost(G0, "gone", 50.0))
    run.end(G1)
    run.ready(G1)
    assert kinds(run.fail_fast(G1)) == [Released, Record]
    assert run.ready(worker("gpu0", 1)) == ["f"]


def test_a_held_worker_that_is_given_up_leaves_its_probe_to_run():
    run, _ = held()
    again = worker("gpu0", 1)
    run.handle(Lost(G0, "gone", 50.0))
    run.handle(Lost(again, "gone", 51.0))
    assert run.handle(Lost(worker("gpu0", 2), "gone", 52.0)) == [Retire(worker("gpu0", 2))]
    run.end(G1)
    assert run.ready(G1) == ["d"]
    assert kinds(run.end(G1)) == [Record]


def test_a_stop_retires_a_held_worker():
    run, _ = held()
    run.ready(G0)
    commands = run.handle(Stop("^C", kill=False, at=60.0))
    assert commands[0] == Retire(G0)
    d = next(c.outcome for c in commands if isinstance(c, Record) and c.outcome.key.tag == "d")
    assert (d.status, d.attempt) == (Status.FAILED, 1)


def test_an_unhealthy_device_that_is_held_is_quarantined_and_its_probe_runs_on():
    run, _ = held()
    run.ready(G0)
    assert kinds(run.handle(Unhealthy(G0, "ECC", 50.0))) == [Quarantined, Retire]
    run.end(G1)
    assert run.ready(G1) == ["d"]
    assert kinds(run.fail(G1)) == [Record]


def test_a_failing_device_is_held_when_another_one_has_been_at_its_item_for_longer():
    run = Run("abcdefgh")
    assert run.ready(G1, G0) == ["a", "b"]
    run.at = 10.0
    for _ in range(2):
        assert kinds(run.fail_fast(G0)) == [Record]
        run.ready(G0)
    assert kinds(run.fail_fast(G0)) == [Requeue, Held]
    assert run.ready(G0) == [""]
    assert kinds(run.end(G1)) == [Record]
    assert run.ready(G1) == ["d"]
    assert kinds(run.fail(G1)) == [Released, Assign, Record]  # it was the item's fault
    run.ready(G1)
    run.at = 100.0
    for _ in range(3):  # a device that was cleared is held only when something passed elsewhere since
        assert kinds(run.fail_fast(G0)) == [Record]
        run.ready(G0)


def test_devices_that_all_fail_fast_are_not_held():
    run = Run("abcdefgh")
    run.ready(G0, G1)
    for _ in range(3):
        for one in (G0, G1):
            assert kinds(run.fail_fast(one)) == [Record]
            run.ready(one)


def test_a_failing_device_is_not_held_when_nothing_did_better_elsewhere_since():
    run = Run("abcdefgh")
    run.ready(G0, G1)
    run.end(G1)  # before the first failure
    run.at = 3.0
    run.ready(G1)  # it began less than three seconds before the third failure ended
    run.at = 0.0
    for _ in range(3):
        assert kinds(run.fail_fast(G0)) == [Record]
        run.ready(G0)
    run.end(G1)
    assert kinds(run.fail_fast(G0)) == [Requeue, Held]  # the fourth in a row


def test_a_single_device_is_never_held():
    run = Run("abcdefgh", devices=1)
    for _ in range(5):
        run.ready(G0)
        assert kinds(run.fail_fast(G0)) == [Record]


def test_a_device_is_not_held_when_the_other_one_is_gone():
    run = Run("abcdefgh", max_respawns=0)
    run.ready(G0, G1)
    run.fail_fast(G0)
    run.ready(G0)
    run.fail_fast(G0)
    run.end(G1)
    run.handle(Lost(G1, "gone", 50.0))
    run.ready(G0)
    assert kinds(run.fail_fast(G0)) == [Record]


@pytest.mark.parametrize("between", ["slow failure", "pass"])
def test_a_streak_ends_with(between):
    run = Run("abcdefgh")
    run.ready(G0, G1)
    for _ in range(2):
        run.fail_fast(G0)
        run.ready(G0)
    run.end(G1)
    run.ready(G1)
    run.end(G0, Status.PASSED if between == "pass" else Status.FAILED, seconds=25.0)
    run.ready(G0)
    assert kinds(run.fail_fast(G0)) == [Record]


def test_a_failure_of_an_item_whose_time_is_not_known_says_nothing():
    run = Run("abcdefgh", seconds=None)
    run.ready(G0, G1)
    run.end(G1)
    run.ready(G1)
    for _ in range(5):
        assert kinds(run.fail_fast(G0)) == [Record]
        run.ready(G0)


def test_failures_of_items_that_failed_elsewhere_say_nothing_of_the_device():
    run = Run("abcde", devices=2, retries=1)
    run.ready(G0)
    for tag in "bcd":
        run.fail(G0)  # slow ones: they are no streak here
        assert run.ready(G0) == [tag]
    assert run.ready(G1) == ["e"]
    run.end(G1)
    assert run.ready(G1) == ["a"]
    assert kinds(run.fail_fast(G1)) == [Record]
    assert recorded(run.end(G0)).key.tag == "d"  # somebody passes meanwhile
    for tag in "bc":
        assert run.ready(G1) == [tag]
        assert kinds(run.fail_fast(G1)) == [Record]


# -- budget -------------------------------------------------------------------------------------------


def test_what_takes_longer_than_the_budget_has_left_is_not_started():
    run = Run("ab", devices=1, budget=150.0)
    assert run.ready(G0) == ["a"]
    run.at = 60.0
    run.end(G0)
    commands = run.handle(Ready(G0, 61.0))
    incomplete, retire, record = commands
    assert incomplete == Incomplete("not every item fits into the budget of 2m30s")
    assert retire == Retire(G0)
    assert record.outcome.status is Status.NOT_RUN
    assert record.outcome.reason == "not started: it takes about 1m40s, and 1m29s of the budget are left"
    assert run.dispatcher.done


def test_shorter_items_go_on_and_it_is_told_once():
    items = [Item(Key("t", tag), ("x",), 1, n) for n, tag in enumerate("abcd")]
    table = {Key("t", "a"): 90.0, Key("t", "b"): 80.0, Key("t", "c"): 5.0}
    made = plan.fixed(items, WeightTable(Scope("cpu", "1"), table), 1)
    dispatcher: Any = Dispatcher(made, reorder=False, budget=60.0)
    commands = dispatcher.handle(Ready(G0, 0.0))
    assert kinds(commands) == [Incomplete, Assign, Record, Record]
    assert commands[1].entry.item.key.tag == "c"
    outcome = Outcome(Key("t", "c"), Status.PASSED, 0, 0.0, 5.0, "gpu0")
    dispatcher.handle(Finished(G0, outcome, 59.0))
    (assign,) = dispatcher.handle(Ready(G0, 59.5))  # unknown: started while there is time
    assert assign.entry.estimate == Estimate(None, known=False)
    assert dispatcher.handle(Tick(59.9)) == []
    assert dispatcher.handle(Tick(60.0)) == [Kill(G0, "the budget of 1m00s is spent")]
    assert dispatcher.handle(Tick(61.0)) == []


def test_a_spent_budget_ends_everything():
    run = Run("abc", seconds=None, budget=100.0, retries=1)
    assert run.ready(G0, G1) == ["a", "b"]
    failed = the(Requeue, run.fail(G1)).outcome
    incomplete, kill, *records = run.handle(Tick(100.0))
    reason = "the budget of 1m40s is spent"
    assert (incomplete, kill) == (Incomplete(reason), Kill(G0, reason))
    assert [record.outcome.reason for record in records] == [reason, failed.reason]
    assert records[1].outcome == failed
    assert run.handle(Ready(G1, 100.5)) == [Retire(G1)]
    stopped = recorded(run.end(G0, Status.STOPPED, reason=reason))
    assert stopped.status is Status.STOPPED
    assert run.dispatcher.done


def test_a_budget_that_ends_only_what_runs_leaves_the_run_incomplete():
    run = Run("a", seconds=None, devices=1, budget=100.0)
    run.ready(G0)
    reason = "the budget of 1m40s is spent"
    assert run.handle(Tick(100.0)) == [Incomplete(reason), Kill(G0, reason)]


def test_the_event_that_finds_the_budget_spent_still_counts():
    run = Run("ab", seconds=None, devices=1, budget=100.0, retries=1)
    run.ready(G0)
    run.at = 99.0
    incomplete, *records = run.fail(G0)
    assert isinstance(incomplete, Incomplete)
    assert {r.outcome.key.tag: r.outcome.status for r in records} == {"a": Status.FAILED, "b": Status.NOT_RUN}


def test_a_run_that_ends_with_its_budget_is_complete():
    run = Run("a", seconds=None, devices=1, budget=100.0)
    run.ready(G0)
    run.at = 99.0
    assert kinds(run.end(G0)) == [Record]


def test_a_stopped_run_that_goes_on_too_long_is_ended_by_its_budget():
    run = Run("ab", seconds=None, devices=1, budget=100.0)
    run.ready(G0)
    run.handle(Stop("-x", kill=False, at=1.0))
    assert run.handle(Tick(100.0)) == [Kill(G0, "the budget of 1m40s is spent")]


def test_a_probe_that_the_budget_has_no_time_for_ends_the_hold():
    run, _ = held(budget=400.0)
    run.at = 350.0
    run.ready(G0)
    run.end(G1)
    commands = run.handle(Ready(G1, 351.0))
    assert the(Released, commands).reason.startswith("t/d is not tried elsewhere: not started: it takes about 1m40s")
    assert run.dispatcher.done


def test_a_probe_is_cut_off_at_once_when_an_idle_worker_has_no_time_for_it():
    run = Run("abcde", budget=130.0)
    assert run.ready(G0, G1) == ["a", "b"]
    run.fail_fast(G0)
    assert run.ready(G0) == ["c"]
    run.fail_fast(G0)
    assert run.ready(G0) == ["d"]
    run.end(G1)
    run.at = 31.0
    assert run.ready(G1) == [""]  # e takes longer than what is left
    commands = run.fail_fast(G0)
    assert kinds(commands) == [Requeue, Held, Released, Retire, Record]
    assert (recorded(commands).key.tag, recorded(commands).status) == ("d", Status.FAILED)
    assert run.dispatcher.done


def test_a_device_that_is_released_for_want_of_time_gets_what_waits_for_it_at_once():
    seconds = {**dict.fromkeys("abcde", 100.0), "x": 5.0}
    run = Run("abcdex", devices=3, seconds=seconds, retries=1, budget=400.0)
    assert run.ready(G0, G1, G2) == ["a", "b", "c"]
    run.fail_fast(G0)
    assert run.ready(G0) == ["d"]
    run.fail_fast(G0)
    assert run.ready(G0) == ["e"]
    run.end(G1)
    assert kinds(run.fail_fast(G0)) == [Requeue, Held]
    assert run.ready(G0, G1) == ["", "e"]
    run.end(G2)
    for tag in "xad":
        assert run.ready(G2) == [tag]
        run.fail(G2)
    assert run.ready(G2) == [""]  # x failed here
    run.at = 350.0
    commands = run.handle(Lost(G1, "gone", 350.0))
    assert kinds(commands) == [Requeue, Respawn, Incomplete, Released, Assign, Record]
    assign = the(Assign, commands)
    assert (assign.worker, assign.entry.item.key.tag) == (G0, "x")
    assert recorded(commands).status is Status.LOST


def test_the_budget_of_a_later_part_counts_from_where_it_begins():
    run = Run("a", seconds=100.0, devices=1, budget=100.0, begins=1000.0)
    run.at = 1000.0
    assert run.ready(G0) == ["a"]
    assert run.handle(Tick(1099.0)) == []
    assert the(Kill, run.handle(Tick(1100.0))).reason == "the budget of 1m40s is spent"


def test_a_worker_that_ended_an_item_has_its_respawns_again():
    run = Run("abcdef", devices=1, max_respawns=1)
    one = G0
    for _ in range(3):
        run.ready(one)
        run.end(one)
        one = the(Respawn, run.handle(Lost(one, "gone", 1.0))).worker
    assert one == worker("gpu0", 3)
    assert the(Retire, run.handle(Lost(one, "gone", 2.0))).worker == one  # twice in a row
