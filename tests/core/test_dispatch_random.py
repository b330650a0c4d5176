"""Workers and items that do anything they may do, against a reference that knows the rules the slow way."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from pytest_sgpu.core import plan
from pytest_sgpu.core.dispatch import (
    Dispatcher,
    Finished,
    Held,
    Lost,
    Ready,
    Record,
    Requeue,
    Started,
    Stop,
    Tick,
    Unhealthy,
)
from pytest_sgpu.model import Item, Key, Outcome, Scope, Status, WeightTable, Worker

FAILURES = (Status.FAILED, Status.CRASHED, Status.TIMED_OUT, Status.NO_TESTS)
PROBE, HEAD, PLAN, TAIL = range(4)


class Case:
    """What the reference knows of an item."""

    def __init__(self, entry, earlier):
        self.entry = entry
        self.key = entry.item.key
        self.place: tuple[int, int] | None = (PLAN, 0)  # where it waits; None while it runs and when it is done
        self.starts = 0
        self.before = earlier
        self.failures: list[Outcome] = []
        self.griefs: list[str] = []  # workers, the latest last
        self.lost = False
        self.displaced = 0
        self.probe = ""
        self.probed = False
        self.stands: Outcome | None = None
        self.record: Outcome | None = None

    def grieve(self, name, outcome):
        self.griefs = [one for one in self.griefs if one != name] + [name]
        self.stands = outcome


class World:
    def __init__(self, data, plan_, rules, *, bad_device):
        self.data = data
        self.rules = rules
        self.bad_device = bad_device
        self.budget = rules["budget"]
        self.attempts = {}
        for entry in plan_.entries:
            if data.draw(st.integers(0, 9)) == 0:
                self.attempts[entry.item.key] = data.draw(st.integers(1, 3))
        self.dispatcher = Dispatcher(plan_, attempts=self.attempts, **rules)
        self.cases = {e.item.key: Case(e, self.attempts.get(e.item.key, 0)) for e in plan_.entries}
        self.workers = {f"gpu{n}": Worker(f"gpu{n}", ()) for n in range(plan_.devices)}
        self.old: list[Worker] = []
        self.up: set[str] = set()
        self.gone: set[str] = set()
        self.held: set[str] = set()
        self.quarantined: set[str] = set()
        self.parked: set[str] = set()
        self.running: dict[str, Case] = {}
        self.killed: set[str] = set()
        self.respawned: Counter[str] = Counter()
        # What items did on which worker, as far as it says anything, and how long that took.
        self.log: list[tuple[str, str, float]] = []
        self.cleared: set[str] = set()
        self.evidence: dict[str, set[Key]] = defaultdict(set)
        self.grounds: set[str] = set()  # workers that ought to be in quarantine
        self.stopped = False
        self.spent = False
        self.told = 0
        self.number = 0
        self.now = 0.0

    # -- the rules, the slow way

    @property
    def closed(self):
        return self.stopped or self.spent or not (set(self.workers) - self.gone - self.quarantined)

    @property
    def usable(self):
        return set(self.workers) - self.gone - self.quarantined - self.held

    def fits(self, case, name):
        fresh = self.usable - set(case.griefs)
        if fresh:
            return name in fresh
        others = self.usable - set(case.griefs[-1:])
        return name in (others or self.usable)

    def affordable(self, case):
        known = case.entry.estimate.known
        return self.budget is None or not known or self.now + case.entry.estimate.seconds <= self.budget

    def waiting(self):
        return [case for case in self.cases.values() if case.place is not None]

    def first_for(self, name):
        found = [case for case in self.waiting() if self.fits(case, name) and self.affordable(case)]
        return min((case.place for case in found), default=None)

    def fast(self, name):
        """Give the fast failures in a row at the end of what happened on a worker: when, and how long."""
        own = [(at, what, seconds) for at, (who, what, seconds) in enumerate(self.log) if who == name]
        found = []
        for at, what, seconds in reversed(own):
            if what != "fast":
                break
            found.append((at, seconds))
        return found

    def streak(self, name, outcome):
        """Whether the last things that happened on a worker are three fast failures, while others do better."""
        fast = self.fast(name)
        if len(fast) < 3 or not self.rules["quarantine"] or not self.usable - {name}:
            return False
        if any(what == "pass" and at > fast[-1][0] for at, (_, what, _) in enumerate(self.log)):
            return True
        began = outcome.stop - sum(seconds for _, seconds in reversed(fast))
        others = [r for r in self.dispatcher.running if r.worker.id in self.usable - {name}]
        return name not in self.cleared and any(r.since <= began and not self.fast(r.worker.id) for r in others)

    def note(self, case, name, outcome):
        """Write down what an end says of its device, before the item remembers it."""
        estimate = case.entry.estimate
        if outcome.status is Status.PASSED:
            self.log.append((name, "pass", 0.0))
        elif estimate.known and all(failure.worker == name for failure in case.failures):
            what = "fast" if outcome.seconds < estimate.seconds / 4 else "slow"
            self.log.append((name, what, outcome.seconds))

    # -- events

    def handle(self, message, *, expected=None):
        """Give an event; ``expected`` is what must become of the attempt that it ends."""
        was_spent = self.spent
        if self.budget is not None and message.at >= self.budget:
            self.spent = True
        told, cut = self.told, not was_spent and self.spent and (self.waiting() or len(self.running) > 0)
        commands = self.dispatcher.handle(message)
        kinds = [isinstance(command, Record) for command in commands]
        assert kinds == sorted(kinds)  # records last
        if expected is not None:
            found = [c for c in commands if isinstance(c, (Record, Requeue)) and c.outcome.key == expected[1].key]
            assert (type(found[0]), found[0].outcome, getattr(found[0], "why", "")) == expected
            assert len(found) == 1 or expected[0] is Requeue  # and then cut off at once, see on_record
        for command in commands:
            getattr(self, "on_" + type(command).__name__.lower())(command)
            event(getattr(command, "why", type(command).__name__))
        if cut and not self.stopped:
            assert self.told
        if any(c.outcome.status is Status.NOT_RUN for c in commands if isinstance(c, Record)) and not self.stopped:
            assert self.told
        assert self.told in (0, 1)
        assert self.told == told or not self.stopped
        self.check()
        return commands

    def check(self):
        assert self.dispatcher.done == all(case.record for case in self.cases.values())
        assert {r.worker.id: r.entry for r in self.dispatcher.running} == {
            name: case.entry for name, case in self.running.items()
        }
        waiting = [case.entry for case in self.waiting()]
        assert len(waiting) == self.dispatcher.waits
        assert sorted(e.rank for e in self.dispatcher.waiting) == sorted(e.rank for e in waiting)
        if self.closed or self.dispatcher.done:
            assert not waiting
            assert not self.parked
        for name in self.parked - self.held:
            assert not [case.key for case in self.waiting() if self.fits(case, name)]  # nobody idles
        if not self.closed:
            for name in self.held:  # a hold has an end: its probe's, or that nobody else is left
                assert self.usable
                assert any(case.probe == name and not case.record for case in self.cases.values())
        for name in self.grounds - self.gone if self.rules["quarantine"] else ():
            assert name in self.quarantined or not self.up - self.quarantined - {name}
        if self.spent:
            assert set(self.running) <= self.killed

    def ready(self, name):
        self.up.add(name)
        self.parked.add(name)
        self.handle(Ready(self.workers[name], self.now))
        assert name in self.running or name in self.parked or name in self.gone

    def started(self, name):
        case = self.running[name]
        assert self.handle(Started(self.workers[name], case.key, 1, self.now)) == [] or self.spent

    def end(self, name, status, length):
        case = self.running.pop(name)
        killed = name in self.killed
        self.killed.discard(name)
        if killed and self.data.draw(st.booleans()):
            status = Status.STOPPED
        outcome = Outcome(
            case.key,
            status,
            0 if status is Status.PASSED else 1,
            self.now,
            self.now + length,
            worker=name,
            attempt=case.before + case.starts,
            complete=True,
            proof="junit",
            estimate=case.entry.estimate,
        )
        closed = self.closed or (self.budget is not None and self.now >= self.budget)
        event = Finished(self.workers[name], outcome, self.now)
        self.respawned.pop(name, None)  # it works
        if status is Status.PASSED:
            self.note(case, name, outcome)
            self.handle(event, expected=(Record, self.pass_of(case, outcome), ""))
        elif closed or (status is Status.STOPPED and not killed):
            self.handle(event, expected=(Record, outcome, ""))
        elif killed:
            case.displaced += 1
            self.handle(event, expected=(Requeue, outcome, "quarantine"))
        else:
            self.fail(case, name, outcome, event)

    def pass_of(self, case, outcome):
        name = outcome.worker
        if case.probe and case.probe != name:
            self.grounds.add(case.probe)
        if not case.failures:
            return outcome
        there = [failure.worker for failure in case.failures]
        for one in there if name not in there else ():
            self.evidence[one].add(case.key)
            if len(self.evidence[one]) >= 2:
                self.grounds.add(one)
        reason = "failed " + " and ".join(
            f"on {one} ({f.status.value})" for one, f in zip(there, case.failures, strict=True)
        )
        return replace(
            outcome,
            status=Status.FLAKY,
            reason=f"{reason}, passed on {name}",
            flaky_fails=self.rules["flaky_fails"],
        )

    def fail(self, case, name, outcome, event):
        self.note(case, name, outcome)
        elsewhere = any(failure.worker != name for failure in case.failures)
        hold = not elsewhere and case.entry.estimate.known and self.log[-1][1] == "fast"
        hold = hold and self.streak(name, outcome)
        case.failures.append(outcome)
        case.grieve(name, outcome)
        if hold:
            case.probed = True
            case.probe = name
            commands = self.handle(event, expected=(Requeue, outcome, "probe"))
            assert [c.worker.id for c in commands if isinstance(c, Held)] == [name]
            if name not in self.held:  # the probe is cut off at once, and with it ends the hold
                assert case.record == outcome
                assert not self.affordable(case)
            return
        case.probe = ""
        if len(case.failures) <= self.rules["retries"]:
            self.handle(event, expected=(Requeue, outcome, "retry"))
        else:
            self.handle(event, expected=(Record, outcome, ""))

    def lose(self, name):
        worker = self.workers[name]
        self.up.discard(name)
        self.parked.discard(name)
        case = self.running.pop(name, None)
        killed = name in self.killed
        self.killed.discard(name)
        expected: tuple[type, Outcome, str] | None = None
        if case is not None:
            outcome = Outcome(
                case.key,
                Status.LOST,
                start=next(r.since for r in self.dispatcher.running if r.worker.id == name),
                stop=self.now,
                worker=name,
                attempt=case.before + case.starts,
                reason="gone",
                estimate=case.entry.estimate,
            )
            respawns = self.respawned[name] < self.rules["max_respawns"] and name not in self.quarantined
            left = respawns or set(self.workers) - self.gone - self.quarantined - {name}
            closed = self.closed or (self.budget is not None and self.now >= self.budget)
            if closed or (case.lost and not killed):
                expected = (Record, outcome, "")
            elif killed:
                case.displaced += 1
                expected = (Requeue, outcome, "quarantine")
            else:
                case.lost = True
                case.grieve(name, outcome)
                expected = (Requeue, outcome, "lost") if left else (Record, outcome, "")
        self.handle(Lost(worker, "gone", self.now), expected=expected)

    def sick(self, name):
        self.grounds.add(name)
        self.handle(Unhealthy(self.workers[name], "sick", self.now))

    def stop(self):
        self.stopped = True
        self.handle(Stop("stop", kill=self.data.draw(st.booleans()), at=self.now))

    def tick(self):
        commands = self.handle(Tick(self.now))
        assert commands == [] or self.spent

    def late(self, worker):
        key = self.data.draw(st.sampled_from(sorted(self.cases)))
        events = [
            Ready(worker, self.now),
            Started(worker, key, 1, self.now),
            Finished(worker, Outcome(key, Status.PASSED, worker=worker.id), self.now),
            Lost(worker, "late", self.now),
            Unhealthy(worker, "late", self.now),
        ]
        assert self.handle(self.data.draw(st.sampled_from(events))) == [] or self.spent

    # -- commands

    def on_assign(self, command):
        name, case = command.worker.id, self.cases[command.entry.item.key]
        assert command.worker == self.workers[name]
        assert name in self.parked
        assert name in self.usable
        assert not self.stopped
        assert not self.spent
        assert self.affordable(case)
        assert case.place is not None
        assert self.fits(case, name)
        first = self.first_for(name)
        assert case.place == first
        self.parked.discard(name)
        self.running[name] = case
        case.place = None
        case.starts += 1
        assert command.attempt == case.before + case.starts

    def on_requeue(self, command):
        case = self.cases[command.outcome.key]
        self.number += 1
        line = TAIL if command.why == "retry" else PROBE if case.probe else HEAD
        case.place = (line, self.number)
        assert not self.stopped
        assert not self.spent

    def on_record(self, command):
        outcome, case = command.outcome, self.cases[command.outcome.key]
        assert case.record is None
        if case.place is not None:  # it waited, and was cut off
            if case.stands is not None:
                assert outcome == case.stands
            else:
                assert (outcome.status, outcome.worker, outcome.start) == (Status.NOT_RUN, "", None)
                assert outcome.attempt == case.before + case.starts + 1
                assert outcome.reason
            assert self.closed or not self.affordable(case)
        case.place = None
        case.record = outcome

    def on_kill(self, command):
        name = command.worker.id
        assert command.worker == self.workers[name]
        assert name in self.running
        assert name not in self.killed
        assert self.stopped or self.spent or name in self.quarantined
        self.killed.add(name)

    def on_respawn(self, command):
        old = self.workers[command.worker.id]
        assert command.worker.generation == old.generation + 1
        assert old.id not in self.quarantined
        assert not self.stopped
        assert not self.spent
        self.old.append(old)
        self.workers[old.id] = command.worker
        self.respawned[old.id] += 1
        assert self.respawned[old.id] <= self.rules["max_respawns"]

    def on_retire(self, command):
        name = command.worker.id
        assert name not in self.running
        assert name not in self.gone
        self.gone.add(name)
        self.held.discard(name)
        self.parked.discard(name)
        self.up.discard(name)
        self.old.append(command.worker)

    def on_quarantined(self, command):
        name = command.quarantine.worker
        assert self.rules["quarantine"]
        assert name in self.grounds
        assert name not in self.quarantined
        assert self.up - self.quarantined - {name}  # never the last one
        assert command.quarantine.at == self.now
        self.quarantined.add(name)
        self.held.discard(name)

    def on_held(self, command):
        name = command.worker.id
        assert name in self.usable
        assert self.usable - {name}
        self.held.add(name)

    def on_released(self, command):
        name = command.worker.id
        assert name in self.held
        self.held.discard(name)
        self.log.append((name, "reset", 0.0))
        self.cleared.add(name)

    def on_incomplete(self, command):
        assert command.reason
        self.told += 1

    # -- what happens

    def act(self):
        self.now += self.data.draw(st.sampled_from([0.0, 1.0, 1.0, 3.0]))
        live = sorted(set(self.workers) - self.gone)
        actions = [("tick", "")]
        actions += [("stop", "")] if self.data.draw(st.integers(0, 15)) == 0 else []
        actions += [
            (kind, name) for name in live for kind in ("lose", "sick") if self.data.draw(st.integers(0, 4)) == 0
        ]
        actions += [(("end" if name in self.running else "ready"), name) for name in live for _ in range(3)]
        actions += [("started", name) for name in self.running]
        actions += [("late", str(n)) for n in range(len(self.old))]
        kind, name = self.data.draw(st.sampled_from(actions))
        if kind in ("tick", "stop"):
            getattr(self, kind)()
        elif kind == "late":
            self.late(self.old[int(name)])
        elif kind == "end":
            self.some_end(name)
        else:
            getattr(self, kind)(name)

    def some_end(self, name):
        if self.bad_device and name == "gpu0":
            status = self.data.draw(st.sampled_from(FAILURES))
            length = 0.5
        elif self.bad_device:
            broken = self.running[name].entry.item.position % 4 == 3
            status = (
                Status.FAILED if broken else self.data.draw(st.sampled_from([Status.PASSED] * 9 + [Status.CRASHED]))
            )
            length = 0.5
        else:
            passes = [Status.PASSED] * 5
            status = self.data.draw(st.sampled_from([*passes, *FAILURES, Status.STOPPED]))
            length = self.data.draw(st.sampled_from([0.5, 0.5, 30.0]))
        self.end(name, status, length)

    def finish(self):
        """Let all that live do their work. It comes to an end."""
        attempts = len(self.cases) * (self.rules["retries"] + 4) + 2 * len(self.workers)
        for _ in range(2 * attempts):
            if self.dispatcher.done:
                break
            for name in sorted(set(self.workers) - self.gone - self.parked):
                if name in self.running:
                    self.some_end(name)
                elif name not in self.gone | self.parked:  # which the events before may have changed
                    self.ready(name)
        assert self.dispatcher.done
        assert not self.running
        for case in self.cases.values():
            assert case.record
            assert len(case.failures) <= max(self.rules["retries"], case.probed) + 1
            assert case.starts <= self.rules["retries"] + 1 + case.lost + case.probed + case.displaced


def made(count, devices, known):
    items = [Item(Key("t", f"test_{n // 3}.b{n % 3}"), ("x",), 1, n) for n in range(count)]
    table = {items[n].key: seconds for n, seconds in known.items() if n < count}
    return plan.order(items, WeightTable(Scope("cpu", "1"), table), devices)


rules = st.fixed_dictionaries(
    {
        "max_respawns": st.integers(0, 2),
        "retries": st.integers(0, 2),
        "quarantine": st.sampled_from([True, True, False]),
        "budget": st.sampled_from([None, None, 30.0, 130.0]),
        "flaky_fails": st.booleans(),
    }
)
tables = st.dictionaries(st.integers(0, 11), st.sampled_from([4.0, 20.0, 100.0]), max_size=12)
lenient = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


def play(world, acts):
    for _ in range(acts):
        world.act()
    world.finish()


@settings(lenient, max_examples=3 * settings().max_examples)
@given(st.data(), st.tuples(st.integers(1, 12), st.integers(1, 4), tables), rules)
def test_the_rules_hold_whatever_happens(data, size, rules):
    play(World(data, made(*size), rules, bad_device=False), data.draw(st.integers(0, 60)))


@settings(lenient, max_examples=3 * settings().max_examples)
@given(st.data(), st.integers(6, 20), st.integers(2, 4), rules)
def test_the_rules_hold_when_a_device_fails_everything_fast(data, count, devices, rules):
    known = dict.fromkeys(range(1, count), 100.0)
    play(World(data, made(count, devices, known), rules, bad_device=True), data.draw(st.integers(0, 40)))
