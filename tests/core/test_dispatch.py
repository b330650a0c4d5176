from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_sgpu.core import hints, plan
from pytest_sgpu.core.dispatch import (
    Assign,
    Dispatcher,
    Finished,
    Incomplete,
    Kill,
    Lost,
    Ready,
    Record,
    Requeue,
    Respawn,
    Retire,
    Started,
    Stop,
    Tick,
)
from pytest_sgpu.model import Device, Estimate, Item, Key, Outcome, Plan, Scope, Status, WeightTable, Worker

W0 = Worker("gpu0", (Device("gpu0", "0", "HIP_VISIBLE_DEVICES", "amd", "gfx950"),))
W1 = Worker("gpu1", (Device("gpu1", "1", "HIP_VISIBLE_DEVICES", "amd", "gfx950"),))
W0_AGAIN = Worker("gpu0", W0.devices, 1)
W1_AGAIN = Worker("gpu1", W1.devices, 1)


def made(count, devices=2, known=None):
    items = [Item(Key("t", f"test_{n // 3}.b{n % 3}"), ("x",), 1, n) for n in range(count)]
    return plan.order(items, WeightTable(Scope("cpu", "1"), known or {}), devices)


def passed(command, start=0.0, stop=1.0):
    key = command.entry.item.key
    return Outcome(key, Status.PASSED, 0, start, stop, worker=command.worker.id, complete=True, proof="junit")


def failed(command, start=0.0, stop=1.0):
    return replace(passed(command, start, stop), status=Status.FAILED, exit_code=1, reason="exit code 1")


def told(dispatcher, event):
    return dispatcher.handle(event)


def assigned(dispatcher, worker, at=0.0):
    (command,) = dispatcher.handle(Ready(worker, at))
    assert isinstance(command, Assign)
    return command


def outcomes(commands):
    return [command.outcome for command in commands if isinstance(command, Record)]


def keys(commands):
    return [outcome.key.tag for outcome in outcomes(commands)]


def test_a_run_from_start_to_end():
    dispatcher = Dispatcher(made(2, devices=1))
    assert (dispatcher.done, dispatcher.waits, dispatcher.running) == (False, 2, ())
    one = assigned(dispatcher, W0, 1.0)
    assert (one.worker, one.attempt, dispatcher.running[0].since) == (W0, 1, 1.0)
    assert dispatcher.handle(Started(W0, one.entry.item.key, 1, 2.5)) == []
    (running,) = dispatcher.running
    assert (running.worker, running.entry, running.attempt, running.since) == (W0, one.entry, 1, 2.5)
    outcome = passed(one)
    assert dispatcher.handle(Finished(W0, outcome, 3.0)) == [Record(outcome)]
    assert dispatcher.running == ()
    assert [entry.item.key.tag for entry in dispatcher.waiting] == ["test_0.b1"]
    two = assigned(dispatcher, W0)
    assert dispatcher.handle(Tick(4.0)) == []
    dispatcher.handle(Finished(W0, passed(two), 5.0))
    assert dispatcher.done
    assert dispatcher.handle(Ready(W0, 6.0)) == [Retire(W0)]
    assert dispatcher.handle(Lost(W0, "closed", 7.0)) == []


def test_an_empty_plan_is_done():
    assert Dispatcher(Plan((), 1)).done


def test_what_this_run_measures_re_ranks_what_is_unknown():
    dispatcher = Dispatcher(made(6, devices=1))
    seen = []
    for _ in range(6):
        command = assigned(dispatcher, W0)
        seen.append(command.entry.item.key.tag)
        dispatcher.handle(Finished(W0, passed(command, stop=50.0 if seen[-1] == "test_1.b0" else 5.0), 1.0))
    assert dispatcher.done
    assert seen == ["test_0.b0", "test_1.b0", "test_1.b1", "test_1.b2", "test_0.b1", "test_0.b2"]


@pytest.mark.parametrize(
    ("outcome", "then"),
    [
        ({"status": Status.PASSED, "complete": True, "proof": "junit"}, "test_1.b0"),
        ({"status": Status.TIMED_OUT, "complete": False, "proof": "junit"}, "test_0.b1"),
        ({"status": Status.PASSED, "complete": True, "proof": "allowed"}, "test_0.b1"),
    ],
)
def test_only_whole_runs_are_taken_for_measurements(outcome, then):
    dispatcher = Dispatcher(made(6, devices=1))
    command = assigned(dispatcher, W0)
    dispatcher.handle(
        Finished(W0, Outcome(command.entry.item.key, worker="gpu0", start=0.0, stop=5.0, exit_code=0, **outcome), 5.0)
    )
    assert assigned(dispatcher, W0).entry.item.key.tag == then  # its twins are known now, others are not


def test_a_lost_worker_comes_back_and_its_item_runs_once_more_elsewhere():
    dispatcher = Dispatcher(made(3, known={Key("t", "test_0.b0"): 9.0}), max_respawns=1)
    command = assigned(dispatcher, W0, 1.0)
    lost = Outcome(
        command.entry.item.key,
        Status.LOST,
        start=1.0,
        stop=4.0,
        worker="gpu0",
        devices=("gpu0",),
        reason="gateway closed",
        estimate=command.entry.estimate,
    )
    assert dispatcher.handle(Lost(W0, "gateway closed", 4.0)) == [Requeue(lost, "lost"), Respawn(W0_AGAIN)]
    assert dispatcher.handle(Ready(W0, 5.0)) == []
    assert dispatcher.handle(Finished(W0, passed(command), 5.0)) == []
    assert dispatcher.handle(Lost(W0, "again", 5.0)) == []
    other = assigned(dispatcher, W0_AGAIN)  # not the lost one: there is another device, which has not come up yet
    assert (other.worker, other.entry.item.key.tag, other.attempt) == (W0_AGAIN, "test_0.b2", 1)
    again = assigned(dispatcher, W1)
    assert again == Assign(W1, command.entry, 2)
    assert dispatcher.handle(Finished(W1, passed(again), 6.0)) == [Record(passed(again))]  # no FLAKY one


def test_a_worker_that_is_lost_while_idle_is_respawned_within_the_same_budget():
    dispatcher = Dispatcher(made(1, devices=1))
    assert dispatcher.handle(Lost(W0, "no start", 0.0)) == [Respawn(W0_AGAIN)]
    third = Worker("gpu0", W0.devices, 2)
    assert dispatcher.handle(Lost(W0_AGAIN, "no start", 0.0)) == [Respawn(third)]
    commands = dispatcher.handle(Lost(third, "no start", 0.0))
    (outcome,) = outcomes(commands)
    assert commands[0] == Retire(third)
    assert outcome.status is Status.NOT_RUN
    assert outcome.reason == "no worker is left; the last one, gpu0, was lost: no start"
    assert dispatcher.done


def test_an_item_that_is_lost_twice_stays_lost_and_its_worker_is_not_needed_any_more():
    dispatcher = Dispatcher(made(1, devices=1))
    assigned(dispatcher, W0)
    assert [type(c) for c in dispatcher.handle(Lost(W0, "gone", 1.0))] == [Requeue, Respawn]
    assert assigned(dispatcher, W0_AGAIN).attempt == 2  # on the same device: there is no other
    retire, record = told(dispatcher, Lost(W0_AGAIN, "gone again", 2.0))
    assert retire == Retire(W0_AGAIN)
    assert (record.outcome.status, record.outcome.attempt, record.outcome.reason) == (Status.LOST, 2, "gone again")
    assert dispatcher.done


def test_a_worker_that_is_lost_while_others_run_comes_back_for_what_they_may_leave():
    dispatcher = Dispatcher(made(1, devices=2))
    command = assigned(dispatcher, W0)
    assert dispatcher.handle(Ready(W1, 0.0)) == []
    assert dispatcher.handle(Lost(W1, "gone", 1.0)) == [Respawn(W1_AGAIN)]
    assert dispatcher.handle(Ready(W1_AGAIN, 1.0)) == []
    assert dispatcher.handle(Finished(W0, passed(command), 2.0)) == [Retire(W1_AGAIN), Record(passed(command))]


def test_a_parked_worker_gets_what_another_one_lost():
    dispatcher = Dispatcher(made(1, devices=2))
    command = assigned(dispatcher, W0)
    assert dispatcher.handle(Ready(W1, 0.0)) == []
    requeue, respawn, assign = told(dispatcher, Lost(W0, "frozen", 1.0))
    assert (requeue.why, requeue.outcome.status, requeue.outcome.attempt) == ("lost", Status.LOST, 1)
    assert respawn == Respawn(W0_AGAIN)
    assert assign == Assign(W1, command.entry, 2)


def test_the_rest_is_given_up_only_when_every_expected_worker_is_gone():
    dispatcher = Dispatcher(made(3, devices=2), max_respawns=0)
    assert dispatcher.handle(Lost(W0, "x", 0.0)) == [Retire(W0)]
    command = assigned(dispatcher, W1)
    commands = dispatcher.handle(Lost(W1, "y", 1.0))
    reason = "no worker is left; the last one, gpu1, was lost: y"
    assert commands[:2] == [Retire(W1), Incomplete(reason)]
    assert keys(commands) == [command.entry.item.key.tag, "test_0.b1", "test_0.b2"]
    assert [outcome.reason for outcome in outcomes(commands)] == ["y", reason, reason]
    assert [outcome.status for outcome in outcomes(commands)] == [Status.LOST, Status.NOT_RUN, Status.NOT_RUN]
    fewer = Dispatcher(made(3, devices=2), max_respawns=0, workers=1)
    assert len(keys(fewer.handle(Lost(W0, "x", 0.0)))) == 3


def test_stop_ends_what_waits_and_lets_run_what_runs():
    dispatcher = Dispatcher(made(3))
    command = assigned(dispatcher, W0)
    commands = dispatcher.handle(Stop("-x", kill=False, at=1.0))
    assert keys(commands) == ["test_0.b1", "test_0.b2"]
    assert {outcome.status for outcome in outcomes(commands)} == {Status.NOT_RUN}
    assert {outcome.reason for outcome in outcomes(commands)} == {"-x"}
    assert dispatcher.waiting == ()
    assert not dispatcher.done
    assert dispatcher.handle(Ready(W1, 1.0)) == [Retire(W1)]
    dispatcher.handle(Finished(W0, passed(command), 2.0))
    assert dispatcher.done


def test_a_worker_that_is_lost_after_a_stop_does_not_come_back():
    dispatcher = Dispatcher(made(3))
    assigned(dispatcher, W0)
    dispatcher.handle(Stop("-x", kill=False, at=1.0))
    assert dispatcher.handle(Lost(W1, "z", 2.0)) == [Retire(W1)]


def test_stop_retires_what_is_parked():
    dispatcher = Dispatcher(made(1))
    assigned(dispatcher, W0)
    assert dispatcher.handle(Ready(W1, 0.0)) == []
    assert dispatcher.handle(Stop("-x", kill=False, at=1.0)) == [Retire(W1)]


def test_stop_kills_each_running_item_once():
    dispatcher = Dispatcher(made(3))
    one, two = assigned(dispatcher, W0), assigned(dispatcher, W1)
    dispatcher.handle(Stop("first", kill=False, at=1.0))
    assert dispatcher.handle(Stop("^C", kill=True, at=1.0)) == [Kill(W0, "^C"), Kill(W1, "^C")]
    assert dispatcher.handle(Stop("^C", kill=True, at=1.0)) == []
    stopped = Outcome(one.entry.item.key, Status.STOPPED, worker="gpu0")
    assert dispatcher.handle(Finished(W0, stopped, 2.0)) == [Record(stopped)]
    retire, record = told(dispatcher, Lost(W1, "z", 2.0))
    assert retire == Retire(W1)
    assert record.outcome.status is Status.LOST  # and not tried again
    assert two.entry.item.key.tag == "test_0.b1"
    assert dispatcher.done


@pytest.mark.parametrize(
    ("event", "message"),
    [
        (Ready(W0, 1.0), "worker gpu0 asks for an item while it runs t/test_0.b0"),
        (Started(W0, Key("t", "other"), 1, 1.0), "worker gpu0 tells of t/other, but it runs t/test_0.b0"),
        (Finished(W1, Outcome(Key("t", "a"), Status.PASSED), 1.0), "worker gpu1 tells of t/a, but it runs nothing"),
        (
            Finished(W0, Outcome(Key("t", "test_0.b0"), Status.PASSED, worker="gpu1"), 1.0),
            "worker gpu0 tells of t/test_0.b0 on gpu1",
        ),
        (
            Finished(W0, Outcome(Key("t", "test_0.b0"), Status.PASSED), 1.0),
            "worker gpu0 tells of t/test_0.b0 on no worker",
        ),
        (Ready(W0_AGAIN, 1.0), "worker gpu0 says it has generation 1, not 0"),
    ],
)
def test_a_broken_protocol_is_a_mistake_and_changes_nothing(event, message):
    dispatcher = Dispatcher(made(3))
    assigned(dispatcher, W0)
    with pytest.raises(ValueError) as raised:
        dispatcher.handle(event)
    assert str(raised.value) == message
    assert (dispatcher.waits, len(dispatcher.running)) == (2, 1)


@given(st.integers(0, 12), st.integers(1, 4), st.sets(st.integers(0, 11)), st.randoms(use_true_random=False))
def test_without_measurements_assignments_follow_the_plan(count, devices, known, random):
    table = {Key("t", f"test_{n // 3}.b{n % 3}"): float(n % 5) for n in known}
    dispatcher = Dispatcher(made(count, devices, table))
    workers = [Worker(str(n), ()) for n in range(devices)]
    seen = []
    for _ in range(count):
        worker = random.choice(workers)
        command = assigned(dispatcher, worker)
        seen.append(command.entry.rank)
        dispatcher.handle(Finished(worker, Outcome(command.entry.item.key, Status.CRASHED, worker=worker.id), 1.0))
    assert seen == list(range(1, count + 1))


def test_the_types_leave_guesses_to_the_plan():
    known = {Key("t", "test_0.b0"): 9.0}
    dispatcher = Dispatcher(made(2, devices=1, known=known))
    command = assigned(dispatcher, W0)
    assert command.entry.estimate == Estimate(hints.guess(Key("t", "test_0.b1"), known), known=False)
