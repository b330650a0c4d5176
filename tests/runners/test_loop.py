"""The loop: several generators of times side by side in one thread."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_sgpu.runners.github import Client
from pytest_sgpu.runners.loop import alone, drive, follow, together
from pytest_sgpu.runners.machine.actions import Failure, Note, Observation, ReadRun, Save, Trouble, Wait


def _worker(clock, log, name, *waits, takes=0.0):
    """Wait again and again; note when it is woken; each turn takes a while, as a request does."""
    log.append((name, "begins", clock.elapsed))
    for wait in waits:
        yield clock.monotonic() + wait
        log.append((name, "wakes", clock.elapsed))
        clock.advance(takes)
    log.append((name, "ends", clock.elapsed))


def _yes():
    return True


def test_one_alone_waits_and_gives_what_it_returns(clock):
    def steps():
        yield clock.monotonic() + 5.0
        yield clock.monotonic() - 1.0  # that time is over
        yield clock.monotonic() + 2.5
        return "done"

    assert alone(steps(), clock) == "done"
    assert clock.sleeps == [5.0, 2.5]


def test_each_is_woken_at_its_own_time(clock):
    log: list[tuple[object, str, float]] = []
    workers = [_worker(clock, log, "a", 10, 10), _worker(clock, log, "b", 4, 4, 4)]
    together(workers, 2, clock, _yes)
    wakes = [(name, at) for name, what, at in log if what == "wakes"]
    assert wakes == [("b", 4), ("b", 8), ("a", 10), ("b", 12), ("a", 20)]
    assert clock.elapsed == 20


def test_who_came_first_goes_first_at_the_same_time(clock):
    log: list[tuple[object, str, float]] = []
    together([_worker(clock, log, name, 5, 5) for name in "abc"], 3, clock, _yes)
    assert [name for name, what, _ in log if what == "wakes"] == list("abcabc")


def test_who_takes_long_makes_others_late_but_none_is_forgotten(clock):
    log: list[tuple[object, str, float]] = []
    workers = [_worker(clock, log, "a", 5, 5, takes=100.0), _worker(clock, log, "b", 6, 1)]
    together(workers, 2, clock, _yes)
    wakes = [(name, at) for name, what, at in log if what == "wakes"]
    assert wakes == [("a", 5), ("b", 105), ("b", 106), ("a", 110)]


def test_at_most_so_many_at_once_in_their_order(clock):
    log: list[tuple[object, str, float]] = []
    workers = [_worker(clock, log, name, wait) for name, wait in (("a", 30), ("b", 10), ("c", 10), ("d", 1))]
    together(workers, 2, clock, _yes)
    begins = [(name, at) for name, what, at in log if what == "begins"]
    assert begins == [("a", 0), ("b", 0), ("c", 10), ("d", 20)]
    assert clock.elapsed == 30


def test_no_further_one_begins_once_that_is_forbidden(clock):
    log: list[tuple[object, str, float]] = []
    open_ = [True]

    def closing():
        yield clock.monotonic() + 10
        open_[0] = False

    workers = [closing(), _worker(clock, log, "b", 20, 20), _worker(clock, log, "c", 1)]
    together(workers, 2, clock, lambda: open_[0])
    assert [name for name, what, _ in log if what == "begins"] == ["b"]
    assert log[-1] == ("b", "ends", 40), "what runs is seen to its end"


def test_nothing_to_do_takes_no_time(clock):
    together([], 3, clock, _yes)
    together([_worker(clock, [], "a")], 3, clock, lambda: False)
    assert clock.sleeps == []


def test_what_ends_at_once_makes_room_at_once(clock):
    log: list[tuple[object, str, float]] = []
    together([_worker(clock, log, name) for name in "abc"], 1, clock, _yes)
    assert [name for name, what, _ in log if what == "ends"] == list("abc")
    assert clock.elapsed == 0


def test_an_interrupt_comes_out(clock):
    clock.interrupt(7.0)
    with pytest.raises(KeyboardInterrupt):
        together([_worker(clock, [], "a", 30)], 1, clock, _yes)
    assert clock.elapsed == 7.0


@given(
    st.lists(st.lists(st.integers(0, 50), max_size=5), max_size=6),
    st.integers(1, 4),
    st.sampled_from([0.0, 0.0, 3.0]),
)
def test_all_are_seen_to_their_end_and_never_too_many_at_once(fake, waits, most, takes):
    clock = fake.VirtualClock()
    log: list[tuple[object, str, float]] = []
    workers = [_worker(clock, log, n, *one, takes=takes) for n, one in enumerate(waits)]
    together(workers, most, clock, _yes)
    assert [name for name, what, _ in log if what == "begins"] == list(range(len(waits)))
    running = most_seen = 0
    for _, what, _ in log:
        running += {"begins": 1, "ends": -1}.get(what, 0)
        most_seen = max(most_seen, running)
    assert running == 0
    assert most_seen <= most
    times = [at for *_, at in log]
    assert times == sorted(times)
    for n, one in enumerate(waits):
        wakes = [at for name, what, at in log if name == n and what == "wakes"]
        assert len(wakes) == len(one)
    if not takes and waits and most >= len(waits):
        assert clock.elapsed == max(sum(one) for one in waits)


# -- machines and sequences ----------------------------------------------------------------------------------


class Machine:
    """What ``drive`` knows of an ``Acquisition``: two reads, with remarks before, between and after."""

    def __init__(self):
        self.end = None
        self.seen = []

    def start(self, now):
        self.began = now
        return (Note("begin"), ReadRun(1))

    def handle(self, seen):
        self.seen.append(seen)
        if len(self.seen) == 1:
            return (Save({"run-id": "1"}), Wait(self.began + 10))
        self.end = "end"
        return (Note("over"), Save({}))


def test_a_machine_is_driven_and_its_remarks_come_in_order(clock, github):
    client = Client(github, clock, github.token, "o/r")
    machine = Machine()
    remarks: list[Note | Save] = []
    alone(drive(machine, client, clock, remarks.append), clock)  # type: ignore[arg-type]
    assert remarks == [Note("begin"), Save({"run-id": "1"}), Note("over"), Save({})]
    assert machine.seen[0].answer.id == 1
    assert machine.seen[1] == Observation(machine.began + 10, machine.began + 10)
    assert [asked.endpoint for asked in github.requests] == ["parent"]


def test_a_remark_is_made_before_the_effect_that_follows_it(clock, github):
    """What a cleanup needs is kept before the dispatch goes out."""
    client = Client(github, clock, github.token, "o/r")
    made = []
    alone(
        drive(Machine(), client, clock, lambda one: made.append((one, len(github.requests)))),  # type: ignore[arg-type]
        clock,
    )
    assert [requests for _, requests in made] == [0, 1, 1, 1]


def test_a_sequence_is_followed_and_gives_what_it_returns(clock, github):
    def steps():
        yield Note("one")
        seen = yield ReadRun(404)
        yield Note("two")
        return seen.failure

    client = Client(github, clock, github.token, "o/r")
    remarks: list[Note | Save] = []
    failure = alone(follow(steps(), client, remarks.append), clock)
    assert isinstance(failure, Failure)
    assert failure.trouble is Trouble.MISSING
    assert remarks == [Note("one"), Note("two")]


def test_a_sequence_without_any_step_is_over_at_once(clock, github):
    def steps():
        yield from ()
        return 5

    client = Client(github, clock, github.token, "o/r")
    assert alone(follow(steps(), client, print), clock) == 5
