"""More than one attempt at an item: retries, health checks, quarantine, what a resumed run keeps."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import pytest

from pytest_sgpu.core.limits import Limits
from pytest_sgpu.engine.events import ItemSlow
from pytest_sgpu.model import Key, Leftover, Status
from tests.run.conftest import Fleet, Recorder

KEY = Key("one", "a")


def log(run, key, attempt):
    return run.directory.attempt_log(key, attempt).read_text()


# ---------------------------------------------------------------- retries


def test_a_failed_item_runs_again_elsewhere_and_every_attempt_keeps_its_files(kit):
    kit.settings["retries"] = 1
    junit = "junit a '<testsuite><testcase name=\"t\"/></testsuite>'"
    once = f"[ -e {kit.folder}/once ] || {{ : > {kit.folder}/once; exit 1; }}"
    kit.suite("one", {"a": f'echo "on $HIP_VISIBLE_DEVICES"; {junit}; {once}', "b": "ran b", "c": "ran c"})
    run = kit.run(devices=2, only=["one/a", "one/b", "one/c"])
    outcome = run.outcome("one/a")
    (failed,) = run.state.attempts[KEY]
    assert (outcome.status, outcome.attempt, outcome.exit_code, outcome.failed) == (Status.FLAKY, 2, 0, False)
    assert (failed.status, failed.attempt, failed.exit_code) == (Status.FAILED, 1, 1)
    assert {outcome.worker, failed.worker} == {"gpu0", "gpu1"}
    assert outcome.reason == f"failed on {failed.worker} (exit code 1), passed on {outcome.worker}"
    assert log(run, KEY, 1) == f"on {failed.worker[3:]}\n"
    assert kit.log("one/a") == f"on {outcome.worker[3:]}\n"
    assert [path.is_file() for path in run.directory.attempt_junit_files(KEY, 1)] == [True]
    assert [path.is_file() for path in run.directory.junit_files(KEY)] == [True]
    assert (kit.logs / "attempts/1/items/one.a.log.rc").read_text() == "1\n"
    assert (kit.logs / "items/one.a.log.rc").read_text() == "0\n"
    progress = run.listener.progress
    assert (progress.done, progress.failed, progress.flaky, progress.running) == (3, 0, 1, {})


class FirstFails(Fleet):
    """What an item of this name does fails at its first attempt."""

    first = "one/a"

    def answer(self, worker, item):
        again = self.calls.count(f"run {item.id} on {worker.id}.{worker.generation}") > 1
        others = [call for call in self.calls if call.startswith(f"run {item.id} on ")]
        if item.id == self.first and len(others) == 1 and not again:
            self.end(worker, item.id, exit_code=1)
        else:
            self.end(worker, item.id)


@pytest.mark.parametrize("fails", [False, True])
def test_flaky_is_counted_and_fails_only_when_asked_for(kit, fails):
    kit.settings.update(retries=1, flaky_fails=fails)
    kit.passing("one", "a", "b", "c")
    run = kit.run(devices=2, only=["one/a", "one/b", "one/c"], gateways=FirstFails)
    outcome = run.outcome("one/a")
    assert (outcome.status, outcome.flaky_fails, outcome.failed) == (Status.FLAKY, fails, fails)
    progress = run.listener.progress
    assert (progress.failed, progress.flaky) == (int(fails), 1)
    ran = [call.split()[1] for call in run.fleets[0].calls if call.startswith("run one")]
    assert ran[-1] == "one/a"  # at the end of the queue
    places = [call.split()[-1] for call in run.fleets[0].calls if call.startswith("run one/a")]
    assert len(set(places)) == 2
    assert run.listener.told.index("attempted one/a on gpu0: failed, retry") < run.listener.told.index(
        "finished one/a: flaky"
    )


def test_without_retries_a_failure_is_final(kit):
    kit.passing("one", "a", "b")
    run = kit.run(devices=2, only=["one/a", "one/b"], gateways=FirstFails)
    assert run.statuses == {"one/a": Status.FAILED, "one/b": Status.PASSED}
    assert run.state.attempts == {}


def test_the_listener_may_stop_the_run_at_an_end_that_also_hands_out_work(kit):
    """What is handed out beside the outcome that stops the run is ended too."""
    kit.settings["retries"] = 1
    kit.passing("one", "a", "b", "c", "d")
    listener = Recorder()
    listener.stop_at = lambda outcome: "enough"
    run = kit.run(listener, devices=2, gateways=FirstFails)
    assert len(run.statuses) == 4
    assert run.session.interrupted == "enough"
    assert run.state.running == ()


# ---------------------------------------------------------------- deadlines and leaks


class Slow(Fleet):
    """Tells that an item is slow, and of one that nobody knows."""

    def answer(self, worker, item):
        for run_id in (item.id, "one/nobody"):
            self.events.append(ItemSlow(worker, run_id, 1.5, 3.0, 1.25, "waiting", self.clock()))
        ended = {"timed_out": True, "killed": "deadline: 3 s passed", "exit_code": None, "signal": 15}
        if item.id == "one/b":
            ended = {"left": (Leftover(7, "python server.py"),), "late": 0.5}
        self.end(worker, item.id, **ended)


def test_deadlines_reach_the_worker_and_their_news_the_journal(kit):
    kit.settings.update(limits=Limits(timeout=3.0, stall=2.0), grace=1.0)
    kit.passing("one", "a", "b")
    orders = []

    class Noting(Slow):
        def run(self, worker, item):
            orders.append((item.id, item.timeout, item.stall, item.grace, item.log_root))
            super().run(worker, item)

        def answer(self, worker, item):
            if item.id.startswith("setup"):
                self.end(worker, item.id)
            else:
                super().answer(worker, item)

    run = kit.run(devices=1, only=["one/a", "one/b"], gateways=Noting)
    assert orders == [
        ("setup one", 3.0, 0.0, 1.0, str(kit.logs)),  # a setup may be quiet for long
        ("one/a", 3.0, 2.0, 1.0, str(kit.logs)),
        ("one/b", 3.0, 2.0, 1.0, str(kit.logs)),
    ]
    assert run.statuses == {"one/a": Status.TIMED_OUT, "one/b": Status.PASSED}
    assert run.outcome("one/a").reason == "deadline: 3 s passed"
    assert run.outcome("one/b").left == (Leftover(7, "python server.py"),)
    slow = [record for record in run.directory.records()[0] if record["event"] == "slow"]
    assert [record["key"] for record in slow] == ["one/a", "one/b"]
    assert {name: slow[0][name] for name in ("worker", "seconds", "limit", "quiet", "last_line")} == {
        "worker": "gpu0",
        "seconds": 1.5,
        "limit": 3.0,
        "quiet": 1.25,
        "last_line": "waiting",
    }
    assert run.listener.told.count("slow one/a: 1.5 of 3, waiting") == 1


def test_without_limits_nothing_is_limited(kit):
    kit.passing("one", "a")
    limits = []

    class Noting(Fleet):
        def run(self, worker, item):
            limits.append((item.timeout, item.stall))
            super().run(worker, item)

    kit.run(devices=1, gateways=Noting)
    assert limits == [(0.0, 0.0), (0.0, 0.0)]


def test_a_setup_that_takes_too_long_fails_its_suite(kit):
    kit.settings.update(limits=Limits(timeout=0.3), grace=0.1)
    kit.passing("one", "a", setup="sleep 60")
    kit.passing("two", "a")
    run = kit.run()
    assert run.statuses == {"one/a": Status.SETUP_FAILED, "two/a": Status.PASSED}
    assert "deadline" in run.outcome("one/a").reason
    assert run.outcome("one/a").exit_code == 124


# ---------------------------------------------------------------- health


class Ward(Fleet):
    """The first device fails everything; what its health command says is up to the test."""

    health: Mapping[str, object] = MappingProxyType({"exit_code": 1})
    dies = False

    def __init__(self, *args, **more):
        super().__init__(*args, **more)
        self.orders = []

    def answer(self, worker, item):
        self.orders.append(item)
        if item.id.startswith("health"):
            if self.dies:
                self.gone(worker)
            else:
                self.end(worker, item.id, ran=False, **self.health)
        else:
            self.end(worker, item.id, exit_code=int(worker.id == "gpu0" and item.id.startswith("one/")))


@pytest.fixture
def ward(kit):
    kit.settings["health_cmd"] = ("check", "-x")
    kit.passing("one", *"abcdef")
    return kit


def test_a_device_whose_health_command_fails_gets_no_more_items(ward):
    run = ward.run(devices=2, gateways=Ward)
    assert run.statuses["one/a"] is Status.FAILED
    failed = [outcome for outcome in run.state.outcomes if outcome.failed]
    assert [(outcome.worker, outcome.status) for outcome in failed] == [("gpu0", Status.FAILED)]
    (quarantine,) = run.state.quarantines
    assert (quarantine.worker, quarantine.devices) == ("gpu0", ("gpu0",))
    assert "the health command failed with exit code 1" in quarantine.reason
    (order,) = [item for item in run.fleets[0].orders if item.id == "health gpu0"]
    assert (order.argv, order.env, order.timeout) == (("check", "-x"), {"HIP_VISIBLE_DEVICES": "0"}, 60.0)
    assert order.log == str(run.directory.health_log("gpu0"))
    (record,) = [record for record in run.directory.records()[0] if record["event"] == "health"]
    assert (record["worker"], record["exit_code"]) == ("gpu0", 1)
    told = run.listener.told
    log = run.directory.shown(run.directory.health_log("gpu0"))
    assert told.index(f"UNHEALTHY gpu0: the health command failed with exit code 1; log: {log}") < next(
        place for place, line in enumerate(told) if line.startswith("QUARANTINE gpu0: ")
    )
    # It was asked before it could get its next item.
    mine = [call for call in run.fleets[0].calls if "gpu0" in call and call.startswith("run")]
    assert [call.split()[1] for call in mine[-2:]] == [str(failed[0].key), "health"]


class Well(Ward):
    health = MappingProxyType({"exit_code": 0})


def test_a_healthy_device_goes_on(ward):
    run = ward.run(devices=2, gateways=Well)
    assert run.state.quarantines == ()
    failed = [outcome for outcome in run.state.outcomes if outcome.failed]
    assert {outcome.worker for outcome in failed} == {"gpu0"}
    asked = [item for item in run.fleets[0].orders if item.id.startswith("health")]
    assert len(asked) == len(failed) > 1


class NeverAnswers(Ward):
    health = MappingProxyType({"exit_code": None, "signal": 15, "timed_out": True, "killed": "deadline: 60 s passed"})


class Crashes(Ward):
    health = MappingProxyType({"exit_code": None, "signal": 11})


class DiesOfIt(Ward):
    dies = True


@pytest.mark.parametrize(
    ("fleet", "why"),
    [
        (NeverAnswers, "the health command did not end within 60 s"),
        (Crashes, "the health command died by signal 11 (SIGSEGV)"),
        (DiesOfIt, "the worker was lost while the health command ran"),
    ],
)
def test_no_good_answer_is_a_bad_one(ward, fleet, why):
    run = ward.run(devices=2, gateways=fleet)
    (quarantine,) = run.state.quarantines
    assert why in quarantine.reason
    assert len([outcome for outcome in run.state.outcomes if outcome.failed]) == 1
    assert not any(call.startswith("respawn") for call in run.fleets[0].calls)


class NotThere(Ward):
    health = MappingProxyType({"exit_code": 127, "reason": "cannot run check: No such file or directory"})


def test_a_health_command_that_cannot_run_says_nothing_of_the_device(ward):
    run = ward.run(devices=2, gateways=NotThere)
    assert run.state.quarantines == ()
    assert "the health command did not run on gpu0: cannot run check" in str(run.state.notices[0])


def test_the_last_device_is_never_quarantined(ward):
    run = ward.run(devices=1, gateways=Ward)
    assert set(run.statuses.values()) == {Status.FAILED}
    assert run.state.quarantines == ()


def test_the_device_of_the_last_item_is_still_examined(ward):
    """It tells whether the red run is one of infrastructure."""
    run = ward.run(devices=2, only=["one/b", "one/a"], gateways=Ward)
    assert [item.id for item in run.fleets[0].orders][-1] == "health gpu0"
    assert len(run.state.quarantines) == 1


def test_nothing_is_examined_without_a_command_or_once_the_run_is_stopped(kit):
    kit.passing("one", *"abc")
    run = kit.run(devices=2, gateways=Ward)
    assert not any(item.id.startswith("health") for item in run.fleets[0].orders)
    kit.settings["health_cmd"] = ("check",)
    listener = Recorder()
    listener.stop_at = lambda outcome: "enough" if outcome.failed else ""
    run = kit.run(listener, devices=2, gateways=Ward)
    assert not any(item.id.startswith("health") for item in run.fleets[0].orders)


# ---------------------------------------------------------------- quarantine by evidence


def test_two_items_that_failed_there_and_passed_elsewhere_are_enough(kit):
    kit.settings["retries"] = 1
    kit.passing("one", *"abcdefgh")
    run = kit.run(devices=3, gateways=Ward)
    (quarantine,) = run.state.quarantines
    assert quarantine.worker == "gpu0"
    assert not any(outcome.failed for outcome in run.state.outcomes)
    assert sum(outcome.status is Status.FLAKY for outcome in run.state.outcomes) == len(run.state.attempts) >= 2


def test_off_is_off(kit):
    kit.settings.update(retries=1, quarantine=False)
    kit.passing("one", *"abcdefgh")
    run = kit.run(devices=3, gateways=Ward)
    assert run.state.quarantines == ()
    assert not {"held", "released", "quarantine"} & set(run.events)


def test_a_device_that_fails_fast_is_held_until_a_probe_tells(kit):
    kit.passing("one", *"abcdefgh")
    kit.weights.write_text("".join(f"one/{tag} 100.0\n" for tag in "abcdefgh"))
    run = kit.run(devices=2, gateways=Ward)
    told = run.listener.told
    assert any(line.startswith("HELD gpu0: 3 items in a row failed") for line in told)
    assert any(line.startswith("attempted ") and line.endswith(": failed, probe") for line in told)
    assert [quarantine.worker for quarantine in run.state.quarantines] == ["gpu0"]
    assert sum(outcome.status is Status.FLAKY for outcome in run.state.outcomes) == 1
    assert {"held", "attempt", "quarantine"} <= set(run.events)


class BadItems(Fleet):
    """Most items are bad, on any device."""

    def answer(self, worker, item):
        self.end(worker, item.id, exit_code=int(item.id.startswith("one/") and item.id[-1] in "abcdef"))


def test_a_probe_that_fails_too_releases_the_device(kit):
    kit.passing("one", *"abcdefgh")
    kit.weights.write_text("".join(f"one/{tag} 100.0\n" for tag in "abcdefgh"))
    run = kit.run(devices=2, only=["one/g", *(f"one/{tag}" for tag in "abcdefh")], gateways=BadItems)
    assert run.state.quarantines == ()
    failed = {key[-1] for key, status in run.statuses.items() if status is Status.FAILED}
    assert failed == set("abcdef")
    assert run.events.count("held") == run.events.count("released")


# ---------------------------------------------------------------- a resumed run


def interrupted(kit, fleet=Fleet):
    """Run three items, and stop after the first."""
    kit.passing("one", "a", "b", "c", setup=":")
    listener = Recorder()
    listener.stop_at = lambda outcome: "stopped by SIGINT"
    return kit.run(listener, devices=1, only=["one/a", "one/b", "one/c"], gateways=fleet)


def test_a_resumed_run_does_what_is_left_and_its_clock_goes_on(kit):
    first = interrupted(kit)
    assert list(first.statuses.values()) == [Status.PASSED, Status.NOT_RUN, Status.NOT_RUN]
    wall = first.state.wall
    run = kit.run(devices=1, only=["one/a", "one/b", "one/c"], gateways=Fleet, resume=True)
    calls = [call.split(" on ")[0] for call in run.fleets[0].calls if call.startswith("run")]
    assert calls == ["run setup one", "run one/b", "run one/c"]  # its suite is set up again
    state = run.state
    assert set(run.statuses.values()) == {Status.PASSED}
    assert [outcome.part for outcome in state.outcomes] == [1, 2, 2]
    assert all((outcome.start or 0.0) >= wall for outcome in state.outcomes[1:])
    assert [part.number for part in state.parts] == [1, 2]
    assert (state.interrupted, state.ended) == ("", True)
    assert sorted(map(str, run.session.outcomes)) == ["one/b", "one/c"]
    progress = run.listener.progress
    assert (progress.total, progress.done, progress.unknown) == (3, 3, 0)


def test_what_is_kept_whole_is_not_set_up_again(kit):
    kit.passing("two", "x", setup="exit 9")
    kit.passing("one", "a", "b", setup=":")
    listener = Recorder()
    listener.stop_at = lambda outcome: "enough" if outcome.key.suite == "one" else ""
    kit.run(listener, devices=1, only=["two/x", "one/a", "one/b"])
    run = kit.run(devices=1, only=["two/x", "one/a", "one/b"], gateways=Fleet, resume=True)
    assert [call for call in run.fleets[0].calls if "setup" in call] == ["run setup one on gpu0.0"]
    assert run.statuses["two/x"] is Status.SETUP_FAILED
    assert run.listener.progress.failed == 1


def test_an_item_that_was_cut_off_runs_as_its_next_attempt(kit):
    said = kit.folder / "said"
    wait = f"until [ -e '{said}' ]; do sleep 0.02; done"
    kit.suite("one", {"a": f"echo first; : > '{said}'; sleep 60", "b": f"{wait}; ran b"})
    listener = Recorder()
    listener.stop_at = lambda outcome: "enough"
    first = kit.run(listener, devices=2, only=["one/a", "one/b"])
    assert first.statuses == {"one/a": Status.STOPPED, "one/b": Status.PASSED}
    kit.suite("one", {"a": "echo second; ran a", "b": "ran b"})
    kit.conf = kit.conf.splitlines(keepends=True)[0]
    (kit.folder / "queue.conf").write_text(kit.conf)
    run = kit.run(devices=2, only=["one/a", "one/b"], resume=True)
    assert run.statuses == {"one/a": Status.PASSED, "one/b": Status.PASSED}
    assert run.outcome("one/a").attempt == 2
    assert log(run, KEY, 1).startswith("first\n")
    assert kit.log("one/a").startswith("second\n")
    assert [outcome.status for outcome in run.state.attempts[KEY]] == [Status.STOPPED]


class Cut(FirstFails):
    """Fails the first attempt, and then the controller is killed."""

    def answer(self, worker, item):
        if item.id == "one/b":
            raise KeyboardInterrupt
        super().answer(worker, item)


@pytest.mark.parametrize("fails", [False, True])
def test_a_failure_of_an_earlier_part_makes_the_pass_of_a_later_one_flaky(kit, fails):
    kit.settings.update(retries=1, flaky_fails=fails)
    kit.passing("one", "a", "b", "c")
    run = kit.make(devices=1, only=["one/a", "one/b", "one/c"], gateways=Cut)
    with pytest.raises(KeyboardInterrupt):
        run.session.run()
    run = kit.run(devices=1, only=["one/a", "one/b", "one/c"], gateways=Fleet, resume=True)
    outcome = run.outcome("one/a")
    assert (outcome.status, outcome.attempt, outcome.failed) == (Status.FLAKY, 2, fails)
    assert outcome.reason == "failed on gpu0 (exit code 1), passed on gpu0"
    assert run.statuses["one/b"] is Status.PASSED  # it ran when the run was cut off: an attempt of its own
    assert [one.status for one in run.state.attempts[Key("one", "b")]] == [Status.LOST]


def test_nothing_is_done_twice_when_nothing_is_left(kit):
    kit.passing("one", "a")
    kit.run(devices=1, gateways=Fleet)
    run = kit.make(devices=1, gateways=Fleet, resume=True)
    assert run.session.todo.entries == ()
