"""Ends before the time, pauses, the budget: on a scripted fleet, which can be made to hang."""

from __future__ import annotations

import os
import signal
import time

import pytest

from pytest_sgpu.engine import signals
from pytest_sgpu.engine.clock import RunClock
from pytest_sgpu.engine.signals import Inbox
from pytest_sgpu.model import Status
from tests.run.conftest import Fleet, Recorder


class Stuck(Fleet):
    """Items never end, and killing them does not help."""

    def answer(self, worker, item):
        if item.id.startswith("setup"):
            self.end(worker, item.id)

    def kill(self, worker, reason, grace):
        self.calls.append(f"kill {worker.id} {grace:g}")

    def next_event(self, timeout):
        if not self.events:
            time.sleep(0.05)
        return super().next_event(timeout)


def signalled(kit, fleet, *names, grace=0.0, at="started one/a on gpu0"):
    """Run two items, and post these signals as soon as the first one has begun."""
    kit.settings["grace"] = grace
    kit.passing("one", "a", "b")
    listener = Recorder()

    def send(what):
        if what == at:
            for name in names:
                kit.runs[-1].fleets[0].post(name)

    listener.on = send
    return kit.run(listener, devices=1, only=["one/a", "one/b"], gateways=fleet)


# ---------------------------------------------------------------- what cannot be ended


def test_an_item_that_cannot_be_ended_is_given_up_after_the_grace(kit):
    run = signalled(kit, Stuck, "SIGTERM")
    assert run.statuses == {"one/a": Status.STOPPED, "one/b": Status.NOT_RUN}
    outcome = run.outcome("one/a")
    assert outcome.reason == "stopped by SIGTERM; it could not be ended and was given up"
    assert (outcome.worker, outcome.devices, outcome.attempt) == ("gpu0", ("gpu0",), 1)
    assert 1.5 <= outcome.seconds < 20
    assert run.fleets[0].calls[-2:] == ["abandon gpu0", "close"]
    assert run.state.ended


def test_a_second_signal_takes_the_grace_away_from_what_cannot_be_ended_too(kit):
    run = signalled(kit, Stuck, "SIGTERM", "SIGTERM", grace=60.0)
    assert run.statuses["one/a"] is Status.STOPPED
    assert [call for call in run.fleets[0].calls if call.startswith("kill")] == ["kill gpu0 60", "kill gpu0 0"]
    assert run.session.interrupted == "stopped by SIGTERM"
    assert run.events.count("stop") == 1
    assert run.listener.grace == 60.0
    told = [one for one in run.listener.told if "SIGTERM" in one]
    assert told == ["stopping: stopped by SIGTERM", "hurried: SIGTERM"]


def test_what_never_started_is_not_done(kit):
    run = signalled(kit, Waits, "SIGINT")
    assert set(run.statuses.values()) == {Status.STOPPED, Status.NOT_RUN}
    progress = run.listener.progress
    assert (progress.done, progress.failed, progress.total) == (1, 1, 2)


class Waits(Stuck):
    """Items never end by themselves."""

    def kill(self, worker, reason, grace):
        Fleet.kill(self, worker, reason, grace)


class LateAnswer(Stuck):
    """Ends an item after it was given up for good."""

    def abandon(self, worker, why):
        self.end(worker, "one/a")
        super().abandon(worker, why)


def test_what_comes_after_it_was_given_up_changes_nothing(kit):
    run = signalled(kit, LateAnswer, "SIGTERM")
    assert run.statuses["one/a"] is Status.STOPPED
    assert run.events.count("outcome") == 2


# ---------------------------------------------------------------- signals before and after


def test_a_signal_before_the_workers_are_there_starts_none(kit):
    kit.passing("one", "a", "b", setup="exit 9")
    inbox = Inbox()
    inbox.unheard.append("SIGHUP")

    class Never(Fleet):
        def start(self, cancelled=None):
            raise AssertionError

    run = kit.run(devices=1, gateways=Never, inbox=inbox)
    assert run.statuses == {"one/a": Status.NOT_RUN, "one/b": Status.NOT_RUN}
    assert run.session.interrupted == "stopped by SIGHUP"
    assert run.events.count("setup") == 0
    assert run.listener.told[0] == "stopping: stopped by SIGHUP"


def test_a_signal_while_the_workers_start_does_not_wait_for_them(kit):
    kit.passing("one", "a", setup="exit 9")

    class NeverUp(Fleet):
        def start(self, cancelled=lambda: True):
            assert not cancelled()
            os.kill(os.getpid(), signal.SIGTERM)
            assert cancelled()

    run = kit.run(devices=1, gateways=NeverUp)
    assert run.statuses == {"one/a": Status.NOT_RUN}
    assert run.session.interrupted == "stopped by SIGTERM"


def test_a_signal_while_the_run_is_closed_is_remembered_and_raises_nothing(kit):
    kit.passing("one", "a")
    inbox = Inbox()

    class Slow(Fleet):
        def close(self, grace=0.0, margin=2.0):
            os.kill(os.getpid(), signal.SIGINT)
            super().close(grace)

    with inbox.hearing():
        run = kit.run(devices=1, gateways=Slow, inbox=inbox)
        os.kill(os.getpid(), signal.SIGTERM)
    assert run.statuses == {"one/a": Status.PASSED}
    assert run.session.interrupted == ""
    assert inbox.unheard == ["SIGINT", "SIGTERM"]


def test_handlers_of_before_come_back_however_hearing_is_nested():
    before = {number: signal.getsignal(number) for number in (*signals.ENDING, signals.PAUSE)}
    inbox = Inbox()
    with inbox.hearing():
        within = signal.getsignal(signal.SIGTERM)
        with inbox.hearing():
            pass
        assert signal.getsignal(signal.SIGTERM) is within
    assert {number: signal.getsignal(number) for number in before} == before


# ---------------------------------------------------------------- the pause


@pytest.fixture
def stills(monkeypatch):
    """Note when this process would stop itself, instead of stopping it."""
    made: list[str] = []
    monkeypatch.setattr(signals, "stand_still", lambda: made.append("still"))
    return made


def test_a_pause_stops_the_items_first_and_this_process_then(kit, stills):
    kit.passing("one", "a")
    listener = Recorder()
    order: list[str] = []

    class Noting(Fleet):
        def pause(self):
            order.append(f"pause after {listener.told[-1]}")

        def resume(self):
            order.append(f"resume, {len(stills)} times still")

        def answer(self, worker, item):
            if item.id == "one/a":
                self.post("SIGTSTP")
            self.end(worker, item.id)

    run = kit.run(listener, devices=1, gateways=Noting)
    assert order == ["pause after paused", "resume, 1 times still"]
    assert run.statuses == {"one/a": Status.PASSED}
    assert run.session.interrupted == ""
    assert listener.told[-3:-1] == ["paused", "continued"]
    kinds = [event for event in run.events if event in ("paused", "resumed", "outcome")]
    assert kinds == ["paused", "resumed", "outcome"]


def test_a_setup_can_be_paused_too_and_goes_on(kit, stills):
    kit.passing("one", "a", setup=":")

    class InSetup(Fleet):
        def answer(self, worker, item):
            if item.id.startswith("setup"):
                self.post("SIGTSTP")
            self.end(worker, item.id)

    run = kit.run(devices=1, gateways=InSetup)
    assert run.statuses == {"one/a": Status.PASSED}
    assert [call for call in run.fleets[0].calls if call in ("pause", "resume")] == ["pause", "resume"]
    assert not any(call.startswith("kill") for call in run.fleets[0].calls)
    assert stills == ["still"]


def test_without_a_queue_the_process_just_stops(stills):
    inbox = Inbox()
    with inbox.hearing():
        os.kill(os.getpid(), signal.SIGTSTP)
    assert (stills, inbox.unheard) == (["still"], [])


def test_an_ignored_pause_stays_ignored(stills):
    before = signal.signal(signal.SIGTSTP, signal.SIG_IGN)
    try:
        with Inbox().hearing():
            os.kill(os.getpid(), signal.SIGTSTP)
        assert stills == []
    finally:
        signal.signal(signal.SIGTSTP, before)


def test_the_clock_of_a_run_has_no_pauses():
    now = [100.0]
    clock = RunClock(7.0, now=lambda: now[0])
    assert clock() == 7.0
    now[0] += 5
    assert clock() == 12.0
    clock.stop()
    now[0] += 1000
    assert clock() == 12.0
    assert clock.go_on() == 1000.0
    now[0] += 1
    assert clock() == 13.0
    assert clock.go_on() == 0.0
    assert clock() == 13.0


# ---------------------------------------------------------------- the budget


def test_what_cannot_end_in_time_is_not_started(kit):
    kit.settings["budget"] = 60.0
    kit.passing("one", "a", "b")
    kit.weights.write_text("one/a 100.0\none/b 5.0\n")
    run = kit.run(devices=1, gateways=Fleet)
    assert run.statuses == {"one/a": Status.NOT_RUN, "one/b": Status.PASSED}
    assert "1m40s" in run.outcome("one/a").reason
    assert run.session.interrupted == ""
    assert run.session.unfinished == run.state.incomplete
    assert run.session.unfinished
    assert sum(line.startswith("incomplete: ") for line in run.listener.told) == 1


def test_what_runs_when_the_budget_is_spent_is_ended_and_what_waits_is_not_run(kit):
    kit.settings["budget"] = 1.5
    run = signalled(kit, Waits)
    assert run.statuses == {"one/a": Status.STOPPED, "one/b": Status.NOT_RUN}
    assert "budget" in run.outcome("one/a").reason
    assert "budget" in run.session.unfinished
    assert run.state.ended


def test_what_cannot_be_ended_at_the_end_of_the_budget_is_given_up(kit):
    kit.settings["budget"] = 1.5
    run = signalled(kit, Stuck)
    assert run.statuses["one/a"] is Status.STOPPED
    assert run.outcome("one/a").reason.endswith("it could not be ended and was given up")
    assert run.session.unfinished


def test_a_setup_is_ended_with_the_budget_and_is_no_failure(kit):
    kit.settings.update(budget=0.4, grace=0.1)
    kit.passing("one", "a", setup="sleep 60")
    kit.passing("two", "a", setup="echo never")
    run = kit.run(devices=1)
    assert run.statuses == {"one/a": Status.NOT_RUN, "two/a": Status.NOT_RUN}
    assert "budget" in run.outcome("one/a").reason
    assert "setup two" not in run.listener.told
    assert run.session.unfinished


def test_the_budget_of_a_resumed_run_is_its_own(kit):
    kit.settings["budget"] = 60.0
    kit.passing("one", "a", "b")
    kit.weights.write_text("one/a 100.0\none/b 5.0\n")
    kit.run(devices=1, gateways=Fleet)
    kit.settings["budget"] = 120.0
    run = kit.run(devices=1, gateways=Fleet, resume=True)
    assert set(run.statuses.values()) == {Status.PASSED}
    assert (run.session.unfinished, run.state.incomplete) == ("", "")


# ---------------------------------------------------------------- no workers


def test_a_suite_that_nobody_could_set_up_has_not_run(kit):
    kit.passing("one", "a", setup=":")

    class AllGone(Fleet):
        def answer(self, worker, item):
            self.gone(worker)

    run = kit.run(devices=2, gateways=AllGone)
    assert run.statuses == {"one/a": Status.NOT_RUN}
    assert run.outcome("one/a").reason == "no worker is left to set up one"
    assert run.session.unfinished == run.state.incomplete == "no worker is left to set up one"
