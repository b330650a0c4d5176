from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_sgpu.core import hints, plan
from pytest_sgpu.core.dispatch import (
    Assign,
    Dispatcher,
    Finished,
    Kill,
    Lost,
    Ready,
    Record,
    Respawn,
    Retire,
    Started,
    Stop,
    Tick,
    Unhealthy,
)
from pytest_sgpu.model import Device, Estimate, Item, Key, Outcome, Plan, Scope, Status, WeightTable, Worker

W0 = Worker("gpu0", (Device("gpu0", "0", "HIP_VISIBLE_DEVICES", "amd", "gfx950"),))
W1 = Worker("gpu1", (Device("gpu1", "1", "HIP_VISIBLE_DEVICES", "amd", "gfx950"),))
W0_AGAIN = Worker("gpu0", W0.devices, 1)


def made(count, devices=2, known=None):
    items = [Item(Key("t", f"test_{n // 3}.b{n % 3}"), ("x",), 1, n) for n in range(count)]
    return plan.order(items, WeightTable(Scope("cpu", "1"), known or {}), devices)


def passed(command, start=0.0, stop=1.0):
    key = command.entry.item.key
    return Outcome(key, Status.PASSED, 0, start, stop, worker=command.worker.id, complete=True, proof="junit")


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
    dispatcher.handle(Finished(W0, Outcome(command.entry.item.key, start=0.0, stop=5.0, exit_code=0, **outcome), 5.0))
    assert assigned(dispatcher, W0).entry.item.key.tag == then  # its twins are known now, others are not


def test_a_lost_worker_takes_its_item_along_and_comes_back():
    dispatcher = Dispatcher(made(3, known={Key("t", "test_0.b0"): 9.0}), max_respawns=1)
    command = assigned(dispatcher, W0, 1.0)
    lost, respawn = dispatcher.handle(Lost(W0, "gateway closed", 4.0))
    assert isinstance(lost, Record)
    assert lost.outcome == Outcome(
        command.entry.item.key,
        Status.LOST,
        start=1.0,
        stop=4.0,
        worker="gpu0",
        devices=("gpu0",),
        reason="gateway closed",
        estimate=command.entry.estimate,
    )
    assert respawn == Respawn(W0_AGAIN)
    assert dispatcher.handle(Ready(W0, 5.0)) == []
    assert dispatcher.handle(Finished(W0, passed(command), 5.0)) == []
    assert dispatcher.handle(Lost(W0, "again", 5.0)) == []
    assert assigned(dispatcher, W0_AGAIN).worker == W0_AGAIN


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


def test_a_worker_that_is_lost_when_nothing_waits_is_not_respawned():
    dispatcher = Dispatcher(made(1, devices=1))
    assigned(dispatcher, W0)
    commands = dispatcher.handle(Lost(W0, "gone", 1.0))
    assert [type(command) for command in commands] == [Record, Retire]
    assert dispatcher.done


def test_the_rest_is_given_up_only_when_every_expected_worker_is_gone():
    dispatcher = Dispatcher(made(3, devices=2), max_respawns=0)
    assert dispatcher.handle(Lost(W0, "x", 0.0)) == [Retire(W0)]
    command = assigned(dispatcher, W1)
    commands = dispatcher.handle(Lost(W1, "y", 1.0))
    assert commands[1] == Retire(W1)
    assert keys(commands) == [command.entry.item.key.tag, "test_0.b1", "test_0.b2"]
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


def test_stop_kills_each_running_item_once():
    dispatcher = Dispatcher(made(3))
    one, two = assigned(dispatcher, W0), assigned(dispatcher, W1)
    dispatcher.handle(Stop("first", kill=False, at=1.0))
    assert dispatcher.handle(Stop("^C", kill=True, at=1.0)) == [Kill(W0, "^C"), Kill(W1, "^C")]
    assert dispatcher.handle(Stop("^C", kill=True, at=1.0)) == []
    stopped = Outcome(one.entry.item.key, Status.STOPPED)
    assert dispatcher.handle(Finished(W0, stopped, 2.0)) == [Record(stopped)]
    assert [type(c) for c in dispatcher.handle(Lost(W1, "z", 2.0))] == [Record, Retire]
    assert two.entry.item.key.tag == "test_0.b1"
    assert dispatcher.done


def test_an_unhealthy_worker_ends_its_item_and_retires():
    dispatcher = Dispatcher(made(4))
    one = assigned(dispatcher, W0)
    assigned(dispatcher, W1)
    assert dispatcher.handle(Unhealthy(W0, "ECC", 1.0)) == []
    dispatcher.handle(Finished(W0, passed(one), 2.0))
    assert dispatcher.handle(Ready(W0, 2.0)) == [Retire(W0)]
    assert dispatcher.handle(Unhealthy(W1, "ECC", 3.0)) == []
    dispatcher.handle(Lost(W1, "gone", 3.0))
    assert assigned(dispatcher, Worker("gpu1", W1.devices, 1)).entry.item.key.tag == "test_1.b0"  # the last one


def test_an_unhealthy_worker_that_is_lost_is_not_respawned_while_there_is_another():
    dispatcher = Dispatcher(made(4))
    assigned(dispatcher, W0)
    assigned(dispatcher, W1)
    dispatcher.handle(Unhealthy(W0, "ECC", 1.0))
    assert [type(c) for c in dispatcher.handle(Lost(W0, "gone", 2.0))] == [Record, Retire]


@pytest.mark.parametrize(
    ("event", "message"),
    [
        (Ready(W0, 1.0), "worker gpu0 asks for an item while it runs t/test_0.b0"),
        (Started(W0, Key("t", "other"), 1, 1.0), "worker gpu0 tells of t/other, but it runs t/test_0.b0"),
        (Finished(W1, Outcome(Key("t", "a"), Status.PASSED), 1.0), "worker gpu1 tells of t/a, but it runs nothing"),
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


class World:
    """Workers that do anything a worker may do, and the invariants after each event."""

    def __init__(self, data, count, devices, known):
        self.data = data
        self.plan = made(count, devices, known)
        self.max_respawns = data.draw(st.integers(0, 2))
        self.dispatcher = Dispatcher(self.plan, max_respawns=self.max_respawns)
        self.workers = {f"gpu{n}": Worker(f"gpu{n}", ()) for n in range(devices)}
        self.busy: dict[str, Assign] = {}
        self.heard: set[str] = set()
        self.unhealthy: set[str] = set()
        self.gone: set[str] = set()
        self.old: list[Worker] = []
        self.stopped = False
        self.assigned: list[Assign] = []
        self.recorded: Counter[Key] = Counter()
        self.respawned: Counter[str] = Counter()
        self.now = 0.0

    def handle(self, event):
        self.now += 1.0
        waits = self.dispatcher.waits
        commands = self.dispatcher.handle(event)
        if hasattr(event, "worker"):
            self.heard.add(event.worker.id)
        for command in commands:
            self.follow(command, waits)
        assert max(self.recorded.values(), default=0) <= 1
        assert all(count <= self.max_respawns for count in self.respawned.values())
        assert self.dispatcher.done == (len(self.recorded) == len(self.plan.entries))
        running = {r.worker.id: r.entry for r in self.dispatcher.running}
        assert running == {name: command.entry for name, command in self.busy.items()}
        known = set(self.recorded) | {entry.item.key for entry in running.values()}
        waiting = {entry.item.key for entry in self.dispatcher.waiting}
        assert len(waiting) == self.dispatcher.waits
        assert not known & waiting
        assert known | waiting == {entry.item.key for entry in self.plan.entries}
        return commands

    def follow(self, command, waits):
        if isinstance(command, Assign):
            assert command.worker == self.workers[command.worker.id]
            assert command.worker.id not in self.busy
            assert not self.stopped
            self.busy[command.worker.id] = command
            self.assigned.append(command)
        elif isinstance(command, Record):
            self.recorded[command.outcome.key] += 1
        elif isinstance(command, Respawn):
            assert waits
            old = self.workers[command.worker.id]
            assert command.worker.generation == old.generation + 1
            self.old.append(old)
            self.workers[old.id] = command.worker
            self.respawned[old.id] += 1
        elif isinstance(command, Retire):
            self.gone.add(command.worker.id)
            self.old.append(command.worker)
            assert not self.dispatcher.waits or len(self.gone) < len(self.workers)  # never the last one
        else:
            assert isinstance(command, Kill)
            assert self.stopped
            assert command.worker.id in self.busy

    def ready(self, name):
        waits = self.dispatcher.waits
        spared = name in self.unhealthy and len(self.heard - self.gone - {name}) > 0
        (command,) = self.handle(Ready(self.workers[name], self.now))
        assert isinstance(command, Assign if waits and not spared else Retire)  # no worker idles

    def end(self, name):
        command = self.busy.pop(name)
        status = self.data.draw(st.sampled_from([Status.PASSED, Status.FAILED, Status.TIMED_OUT]))
        length = self.data.draw(st.sampled_from([1.0, 2.0, 40.0]))
        outcome = Outcome(
            command.entry.item.key,
            status,
            0,
            self.now,
            self.now + length,
            complete=status is not Status.TIMED_OUT,
            proof="junit",
        )
        assert self.handle(Finished(command.worker, outcome, self.now)) == [Record(outcome)]

    def lose(self, name):
        self.busy.pop(name, None)
        self.handle(Lost(self.workers[name], "gone", self.now))

    def late(self, worker):
        key = self.data.draw(st.sampled_from(self.plan.entries)).item.key
        events = [
            Ready(worker, self.now),
            Started(worker, key, 1, self.now),
            Finished(worker, Outcome(key, Status.PASSED), self.now),
            Lost(worker, "late", self.now),
            Unhealthy(worker, "late", self.now),
        ]
        assert self.handle(self.data.draw(st.sampled_from(events))) == []

    def act(self):
        live = sorted(set(self.workers) - self.gone)
        actions = [("tick", ""), ("stop", "")]
        actions += [(kind, name) for name in live for kind in ("lose", "sick")]
        actions += [("end" if name in self.busy else "ready", name) for name in live for _ in range(4)]
        actions += [("started", name) for name in self.busy]
        actions += [("late", str(n)) for n in range(len(self.old))]
        kind, name = self.data.draw(st.sampled_from(actions))
        if kind == "stop":
            self.stopped = True
            self.handle(Stop("stop", kill=self.data.draw(st.booleans()), at=self.now))
        elif kind == "tick":
            assert self.handle(Tick(self.now)) == []
        elif kind == "sick":
            self.unhealthy.add(name)
            assert self.handle(Unhealthy(self.workers[name], "sick", self.now)) == []
        elif kind == "started":
            command = self.busy[name]
            assert self.handle(Started(command.worker, command.entry.item.key, 1, self.now)) == []
        elif kind == "late":
            self.late(self.old[int(name)])
        else:
            {"ready": self.ready, "end": self.end, "lose": self.lose}[kind](name)

    def finish(self):
        """Let all that live do their work."""
        for _ in range(3 * len(self.plan.entries) + 3 * len(self.workers)):
            for name in sorted(set(self.workers) - self.gone):
                (self.end if name in self.busy else self.ready)(name)
        assert self.dispatcher.done
        assert set(self.recorded) == {entry.item.key for entry in self.plan.entries}
        assert not self.busy


@settings(max_examples=200)
@given(st.data(), st.integers(1, 12), st.integers(1, 4), st.booleans())
def test_every_item_has_exactly_one_record_whatever_happens(data, count, devices, some_known):
    known = {Key("t", f"test_{n // 3}.b{n % 3}"): float(n) for n in range(0, count, 2)} if some_known else {}
    world = World(data, count, devices, known)
    for _ in range(data.draw(st.integers(0, 40))):
        world.act()
    world.finish()
    entries = [command.entry for command in world.assigned]
    flags = [entry.estimate.known for entry in entries]
    assert flags == sorted(flags)  # unknown before known
    ranks = [entry.rank for entry in entries if entry.estimate.known]
    assert ranks == sorted(ranks)


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
        dispatcher.handle(Finished(worker, Outcome(command.entry.item.key, Status.CRASHED), 1.0))
    assert seen == list(range(1, count + 1))


def test_the_types_leave_guesses_to_the_plan():
    known = {Key("t", "test_0.b0"): 9.0}
    dispatcher = Dispatcher(made(2, devices=1, known=known))
    command = assigned(dispatcher, W0)
    assert command.entry.estimate == Estimate(hints.guess(Key("t", "test_0.b1"), known), known=False)
