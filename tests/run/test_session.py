"""The run itself: real gateways and tiny suites; a scripted fleet only for what a real one cannot be made to do."""

from __future__ import annotations

import os
import signal

import pytest

from pytest_sgpu.engine.gateways import Gateways, Posted
from pytest_sgpu.errors import StoreError, WorkerError
from pytest_sgpu.model import Estimate, Key, Status
from tests.run.conftest import Fleet, Kit, Recorder

LONG = "trap '' TERM; echo here; while :; do sleep 0.05; done"


def log_has(kit, key, text):
    path = kit.runs[-1].directory.item_log(Key.parse(key))
    return path.exists() and text in path.read_text()


# ---------------------------------------------------------------- a whole run


@pytest.mark.parametrize("gateways", [Gateways, Fleet])
def test_every_item_has_its_outcome_in_the_journal(kit, gateways):
    kit.suite("one", {"a": "ran a", "b": "ran b", "c": "ran c"}, setup="echo setting up")
    kit.opaque("two", "echo whole")
    run = kit.run(gateways=gateways)
    assert run.statuses == dict.fromkeys(("one/a", "one/b", "one/c", "two"), Status.PASSED)
    state = run.state
    assert (state.ended, state.interrupted, state.running, state.notices) == (True, "", (), ())
    assert (state.plan, state.started) == (run.session.plan, run.session.started)
    assert {o.worker for o in state.outcomes} == {"gpu0", "gpu1"}
    assert run.events[:3] == ["run", "plan", "setup"]
    assert run.events[-1] == "end"
    for kind in ("assign", "started", "outcome"):
        assert run.events.count(kind) == 4
    assert sorted(map(str, run.session.outcomes)) == ["one/a", "one/b", "one/c", "two"]
    told = run.listener.told
    assert told[:2] == ["setup one", "setup one = 0"]
    assert sum(line.startswith("started") for line in told) == 4
    progress = run.listener.progress
    assert (progress.total, progress.done, progress.failed, progress.unknown, progress.running) == (4, 4, 0, 0, {})


def test_the_journal_knows_of_an_item_before_anything_else_does(kit):
    kit.passing("one", "a")
    listener = Recorder()
    seen: dict[str, str] = {}

    def look(what):
        seen.setdefault(what, kit.runs[-1].events[-1])

    listener.on = look
    kit.run(listener, devices=1)
    assert seen["started one/a on gpu0"] == "assign"
    assert seen["finished one/a: passed"] == "outcome"


def test_each_item_has_its_environment(kit):
    kit.suite("one", {"a": 'ran a; echo "$HIP_VISIBLE_DEVICES|$TEST_FILTER|$TE_CI_SKIP_SETUP|$JUNITXML_PREFIX|$PWD"'})
    kit.opaque("two", 'echo "$HIP_VISIBLE_DEVICES|$TEST_FILTER|$TE_CI_SKIP_SETUP|$JUNITXML_PREFIX"')
    kit.run(only=["one/a", "two"])
    devices = {kit.log("one/a").splitlines()[1].split("|")[0], kit.log("two").split("|")[0]}
    assert devices == {"0", "1"}
    assert kit.log("one/a").splitlines()[1].split("|", 1)[1] == f"a|1|{kit.logs}/junit/one/|{kit.folder}"
    assert kit.log("two").strip().split("|", 1)[1] == f"||{kit.logs}/junit/two/"


def test_known_items_count_as_seconds_and_unknown_ones_apart(kit):
    kit.passing("one", "a", "b", "c")
    kit.weights.write_text("one/a 5.0\none/b 7.0\n")
    listener = Recorder()
    left = []

    def look(outcome):
        left.append((listener.progress.remaining, listener.progress.unknown))
        return ""

    listener.stop_at = look
    run = kit.run(listener, devices=1, only=["one/a", "one/c", "one/b"])
    assert left == [(7.0, 1), (7.0, 0), (0.0, 0)]
    assert run.outcome("one/a").estimate == Estimate(5.0, known=True)


def test_junit_files_and_exit_codes_decide(kit):
    bad = '<testsuite><testcase name="t"><failure message="boom"/></testcase></testsuite>'
    kit.suite(
        "one",
        {
            "good": "junit good '<testsuite><testcase name=\"t\"/></testsuite>'",
            "bad": f"junit bad '{bad}'; exit 1",
            "nothing": "echo nothing",
            "partial": 'ran partial; : > "${JUNITXML_PREFIX}partial.xml.partial"',
            "crash": "kill -SEGV $$",
            "missing": "exit 127",
        },
    )
    run = kit.run()
    assert run.statuses == {
        "one/good": Status.PASSED,
        "one/bad": Status.FAILED,
        "one/nothing": Status.NO_TESTS,
        "one/partial": Status.PASSED,
        "one/crash": Status.CRASHED,
        "one/missing": Status.FAILED,
    }
    assert run.outcome("one/bad").junit.failing == (("t", "boom"),)
    assert run.outcome("one/good").complete
    assert not run.outcome("one/partial").complete
    codes = {path.name: path.read_text() for path in (kit.logs / "items").glob("*.rc")}
    assert codes == {
        "one.good.log.rc": "0\n",
        "one.bad.log.rc": "1\n",
        "one.nothing.log.rc": "5\n",
        "one.partial.log.rc": "0\n",
        "one.crash.log.rc": "139\n",
        "one.missing.log.rc": "127\n",
    }
    assert run.listener.progress.failed == 4


def test_more_workers_than_items_are_let_go(kit):
    kit.passing("one", "a")
    run = kit.run(devices=4, gateways=Fleet)
    assert run.statuses == {"one/a": Status.PASSED}
    assert run.fleets[0].calls[-1] == "close"


# ---------------------------------------------------------------- setup


def test_a_setup_that_fails_costs_its_own_suite(kit):
    kit.passing("bad", "a", "b", setup="echo no wheel; exit 3")
    kit.passing("good", "a", setup="echo ok")
    run = kit.run()
    assert run.statuses == {"bad/a": Status.SETUP_FAILED, "bad/b": Status.SETUP_FAILED, "good/a": Status.PASSED}
    outcome = run.outcome("bad/a")
    assert (outcome.exit_code, outcome.start, outcome.reason) == (3, None, "the suite's setup failed: exit code 3")
    assert run.directory.setup_tail("bad") == b"no wheel\n"
    assert not list((kit.logs / "items").glob("bad.*"))
    assert run.listener.told[:3] == ["setup bad", "setup bad = 3", "finished bad/a: setup failed"]


def test_a_run_of_nothing_but_failed_setups_ends(kit):
    kit.passing("bad", "a", setup="kill -9 $$")
    run = kit.run()
    assert run.statuses == {"bad/a": Status.SETUP_FAILED}
    assert run.outcome("bad/a").exit_code == 137
    assert run.state.ended


def test_a_suite_without_queued_items_is_not_set_up(kit):
    kit.passing("one", "a")
    kit.passing("two", "a", setup="echo never")
    run = kit.run(only=["one/a"])
    assert "setup two" not in run.listener.told
    assert not run.directory.setup_log("two").exists()


def test_a_failed_setup_stops_the_run_when_the_listener_says_so(kit):
    kit.passing("bad", "a", "b", setup="exit 3")
    kit.passing("good", "a")
    listener = Recorder()
    listener.stop_at = lambda outcome: "stopping after 1 failures" if outcome.status.failed else ""
    run = kit.run(listener)
    assert run.statuses == {"bad/a": Status.SETUP_FAILED, "bad/b": Status.NOT_RUN, "good/a": Status.NOT_RUN}
    assert run.state.interrupted == run.session.interrupted == "stopping after 1 failures"
    assert [line for line in listener.told if line.startswith("stopping")] == ["stopping: stopping after 1 failures"]
    assert "setup good" not in listener.told


# ---------------------------------------------------------------- endings


def test_a_listener_stops_the_run_and_running_items_end_at_once(kit):
    kit.settings["grace"] = 0.1
    kit.suite(
        "one",
        {
            "long": LONG,
            "fails": f"until grep -q here {kit.logs}/items/one.long.log; do sleep 0.01; done; exit 1",
            "waits": "ran waits",
        },
    )
    listener = Recorder()
    listener.stop_at = lambda outcome: "enough" if outcome.status.failed else ""
    run = kit.run(listener, only=["one/long", "one/fails", "one/waits"])
    assert run.statuses == {"one/long": Status.STOPPED, "one/fails": Status.FAILED, "one/waits": Status.NOT_RUN}
    assert run.outcome("one/long").reason == run.outcome("one/waits").reason == "enough"
    assert (run.outcome("one/waits").start, run.outcome("one/long").complete) == (None, False)
    assert run.session.interrupted == "enough"
    assert (kit.logs / "items" / "one.long.log.rc").read_text() == "130\n"
    assert run.state.ended


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_run_in_good_order(kit, number):
    kit.suite("one", {"long": "echo here; sleep 60", "waits": "ran waits"})
    before = signal.getsignal(number)
    listener = Recorder()
    sent: list[object] = []

    def send(what):
        if what == "tick" and not sent and log_has(kit, "one/long", "here"):
            sent.append(number)
            os.kill(os.getpid(), number)

    listener.on = send
    run = kit.run(listener, devices=1, only=["one/long", "one/waits"])
    reason = f"stopped by {number.name}"
    assert run.statuses == {"one/long": Status.STOPPED, "one/waits": Status.NOT_RUN}
    assert (run.outcome("one/long").reason, run.session.interrupted) == (reason, reason)
    assert listener.told.count(f"stopping: {reason}") == 1
    assert signal.getsignal(number) is before


def test_a_second_signal_takes_the_grace_away(kit):
    kit.suite("one", {"deaf": LONG})
    listener = Recorder()
    sent: list[object] = []

    def send(what):
        if what == "tick" and len(sent) < 2 and log_has(kit, "one/deaf", "here"):
            sent.append(what)
            os.kill(os.getpid(), signal.SIGINT)

    listener.on = send
    run = kit.run(listener, devices=1)
    assert run.statuses == {"one/deaf": Status.STOPPED}
    assert len(sent) == 2
    assert run.state.wall < 3.5  # the grace is four seconds
    assert run.events.count("stop") == 1


def test_a_signal_during_setup_ends_it_and_nothing_starts(kit):
    kit.passing("one", "a", setup="echo here; sleep 60")
    kit.passing("two", "a")
    listener = Recorder()
    sent: list[object] = []

    def send(what):
        path = kit.logs / "setup" / "one.log"
        if what == "tick" and not sent and path.exists() and "here" in path.read_text():
            sent.append(what)
            os.kill(os.getpid(), signal.SIGTERM)

    listener.on = send
    run = kit.run(listener)
    assert run.statuses == {"one/a": Status.NOT_RUN, "two/a": Status.NOT_RUN}
    assert run.outcome("one/a").reason == "stopped by SIGTERM"
    assert "setup two" not in listener.told
    assert run.events.count("assign") == 0
    assert run.state.ended


def test_a_second_signal_during_setup_takes_the_grace_away(kit):
    kit.passing("one", "a", setup=LONG)
    listener = Recorder()
    sent: list[object] = []

    def send(what):
        path = kit.logs / "setup" / "one.log"
        if what == "tick" and len(sent) < 2 and path.exists() and "here" in path.read_text():
            sent.append(what)
            os.kill(os.getpid(), signal.SIGINT)

    listener.on = send
    run = kit.run(listener)
    assert run.statuses == {"one/a": Status.NOT_RUN}
    assert run.state.wall < 3.5


def test_a_listener_that_raises_leaves_no_process(kit):
    kit.suite("one", {"long": "echo here; sleep 60", "short": "ran short"})
    listener = Recorder()

    def burst(what):
        if what.startswith("finished"):
            raise ZeroDivisionError

    listener.on = burst
    run = kit.make(listener, only=["one/long", "one/short"])
    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(ZeroDivisionError):
        run.session.run()
    assert kit.survivors() == []
    assert signal.getsignal(signal.SIGINT) is handler
    # What had ended is in the journal, and that the run did not is there too.
    assert run.statuses == {"one/short": Status.PASSED}
    assert [str(key) for key, *_ in run.state.running] == ["one/long"]
    assert not run.state.ended


def test_no_worker_is_an_error(kit):
    kit.passing("one", "a")

    def broken(workers, **more):
        return Gateways(workers, **more, python="/no/such/python")

    run = kit.make(gateways=broken)
    with pytest.raises(WorkerError, match="no worker could be started"):
        run.session.run()


def test_a_hang_up_that_is_ignored_stays_ignored(kit):
    kit.passing("one", "a")
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    listener = Recorder()

    def hang_up(what):
        if what.startswith("started"):
            os.kill(os.getpid(), signal.SIGHUP)

    listener.on = hang_up
    try:
        run = kit.run(listener)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
    assert run.statuses == {"one/a": Status.PASSED}


# ---------------------------------------------------------------- lost workers


KILLS_ONCE = "[ -e $PWD/killed ] || {{ : > $PWD/killed; kill -9 $PPID; sleep 60; }}; ran {0}"


def test_a_worker_that_dies_loses_its_item_which_then_runs_once_more_elsewhere(kit):
    kit.suite("one", {"kills": KILLS_ONCE.format("kills"), "then": "ran then"})
    run = kit.run(devices=2, only=["one/kills", "one/then"])
    assert run.statuses == {"one/kills": Status.PASSED, "one/then": Status.PASSED}
    (lost,) = run.state.attempts[Key("one", "kills")]
    assert "was killed by SIGKILL" in lost.reason
    assert (lost.status, lost.attempt, lost.exit_code) == (Status.LOST, 1, None)
    final = run.outcome("one/kills")
    assert (final.attempt, {final.worker, lost.worker}) == (2, {"gpu0", "gpu1"})
    assert run.directory.attempt_log(Key("one", "kills"), 1).exists()
    assert (kit.logs / "attempts/1/items/one.kills.log.rc").read_text() == "125\n"
    assert (kit.logs / "items/one.kills.log.rc").read_text() == "0\n"
    assert [event for event in run.events if event in ("lost", "attempt", "outcome")].count("attempt") == 1
    assert f"attempted one/kills on {lost.worker}: lost, lost" in run.listener.told


def test_an_item_that_is_lost_twice_is_lost(kit):
    kit.suite("one", {"kills": "echo $PPID; kill -9 $PPID; sleep 60", "then": "ran then"})
    run = kit.run(devices=1, only=["one/kills", "one/then"])
    assert run.statuses == {"one/kills": Status.LOST, "one/then": Status.PASSED}
    lost = run.outcome("one/kills")
    assert "worker gpu0 was killed by SIGKILL" in lost.reason
    assert (lost.worker, lost.devices, lost.exit_code, lost.attempt) == ("gpu0", ("gpu0",), None, 2)
    assert (kit.logs / "items" / "one.kills.log.rc").read_text() == "125\n"
    assert run.events.count("lost") == 2
    assert run.session.unfinished == ""


def test_a_worker_that_is_lost_at_the_last_item_ends_the_run(kit):
    kit.suite("one", {"a": "ran a", "kills": "kill -9 $PPID; sleep 60"})
    run = kit.run(devices=1, only=["one/a", "one/kills"])
    assert run.statuses == {"one/a": Status.PASSED, "one/kills": Status.LOST}
    assert run.state.ended


def test_when_all_workers_are_gone_the_rest_is_not_run(kit):
    kit.suite("one", {f"kills{n}": "kill -9 $PPID; sleep 60" for n in range(2)} | {"rest": "ran rest"})
    run = kit.run(devices=1, only=["one/kills0", "one/kills1", "one/rest"])
    assert list(run.statuses.values()) == [Status.LOST] * 2 + [Status.NOT_RUN]
    assert run.outcome("one/rest").reason.startswith("no worker is left")
    assert run.session.unfinished == run.state.incomplete
    assert "no worker is left" in run.session.unfinished
    assert run.session.interrupted == ""


class GoneAtStart(Fleet):
    """The second worker never comes up."""

    def start(self, cancelled=None):
        first, second = self.workers
        self.ready(first)
        self.gone(second, "not started")

    def respawn(self, worker):
        self.calls.append(f"respawn {worker.id}.{worker.generation}")
        self.gone(worker, "not started")


def test_a_worker_that_never_comes_up_is_tried_again_and_given_up(kit):
    kit.passing("one", "a", "b", "c", "d", "e", "f")
    run = kit.run(gateways=GoneAtStart)
    assert set(run.statuses.values()) == {Status.PASSED}
    assert {o.worker for o in run.state.outcomes} == {"gpu0"}
    assert [call for call in run.fleets[0].calls if call.startswith("respawn")] == ["respawn gpu1.1", "respawn gpu1.2"]


class LostInSetup(Fleet):
    """The first worker dies in the first setup, after it was ready."""

    def answer(self, worker, item):
        if item.id == "setup one" and worker.id == "gpu0":
            self.gone(worker)
        else:
            self.end(worker, item.id)


def test_a_setup_whose_worker_is_lost_runs_again_on_the_next_device(kit):
    kit.passing("one", "a", "b")
    kit.passing("two", "a")
    run = kit.run(gateways=LostInSetup)
    assert set(run.statuses.values()) == {Status.PASSED}
    calls = run.fleets[0].calls
    assert calls[:3] == ["run setup one on gpu0.0", "run setup one on gpu1.0", "run setup two on gpu1.0"]
    assert "respawn gpu0.1" in calls
    assert not any(call.endswith("on gpu0.0") for call in calls[1:])  # nothing is handed to the dead


class LateMessages(Fleet):
    """The first generation is given up for dead, and then tells of its item all the same."""

    def answer(self, worker, item):
        if item.id == "one/a" and worker.generation == 0:
            self.gone(worker, "silent")
            self.events.append(self.events[-2])  # the start, again
            self.end(worker, item.id)
            self.ready(worker)
        else:
            self.end(worker, item.id)


def test_what_a_lost_worker_says_later_changes_nothing(kit):
    kit.passing("one", "a", "b")
    run = kit.run(devices=1, only=["one/a", "one/b"], gateways=LateMessages)
    assert run.statuses == {"one/a": Status.PASSED, "one/b": Status.PASSED}
    assert [(str(o.key), o.attempt) for o in run.listener.outcomes] == [("one/a", 2), ("one/b", 1)]
    assert [(str(o.key), o.status) for o in run.listener.attempts] == [("one/a", Status.LOST)]
    assert (run.events.count("outcome"), run.events.count("attempt")) == (2, 1)


class Strangers(Fleet):
    """Tells of an item that nobody has handed out."""

    def answer(self, worker, item):
        self.end(worker, "one/nobody-knows")
        self.end(worker, item.id)


def test_an_item_that_nobody_handed_out_is_no_outcome(kit):
    kit.passing("one", "a")
    run = kit.run(devices=1, gateways=Strangers)
    assert run.statuses == {"one/a": Status.PASSED}


# ---------------------------------------------------------------- disks


def test_a_code_that_cannot_be_written_is_a_notice(kit):
    kit.suite("one", {"a": f"ran a; mkdir {kit.logs}/items/one.a.log.rc"})
    run = kit.run()
    assert run.statuses == {"one/a": Status.PASSED}
    (notice,) = run.state.notices
    assert notice.text.startswith("the exit code of an item could not be written: ")
    assert notice.where.endswith("items/one.a.log.rc")


@pytest.mark.parametrize("there", ["ln -s ../precious", "mkfifo"])
def test_what_an_item_puts_in_the_place_of_its_code_is_not_followed(kit, there):
    kit.suite("one", {"a": f"ran a; {there} {kit.logs}/items/one.a.log.rc"})
    run = kit.run()
    assert run.statuses == {"one/a": Status.PASSED}
    code = kit.logs / "items" / "one.a.log.rc"
    assert (code.read_text(), code.is_symlink()) == ("0\n", False)
    assert not (kit.logs / "precious").exists()


def test_a_folder_that_an_item_replaces_is_told_in_the_journal(kit, tmp_path):
    away = tmp_path / "away"
    away.mkdir()
    swap = f"ran a; mv {kit.logs}/junit {kit.logs}/old; ln -s {away} {kit.logs}/junit"
    kit.suite("one", {"a": swap, "b": "ran b"})
    run = kit.run(devices=1, only=["one/a", "one/b"])
    assert set(run.statuses.values()) == {Status.PASSED}
    assert any("junit" in f"{notice}" for notice in run.state.notices)
    assert list(away.iterdir()) == []


def test_a_plan_that_cannot_be_written_is_a_notice(kit):
    kit.passing("one", "a")
    run = kit.make()
    (kit.logs / "queue" / "queue.tsv").mkdir()
    run.session.run()
    assert run.statuses == {"one/a": Status.PASSED}
    (notice,) = run.state.notices
    assert notice.text.startswith("the plan could not be written: Is a directory")


def test_a_journal_that_cannot_be_written_ends_the_run_without_a_trace_of_a_process(kit, monkeypatch):
    kit.suite("one", {"a": "sleep 60"})
    run = kit.make()
    append = run.directory.append

    def full(record):
        if record["event"] == "started":
            raise StoreError("journal.jsonl: cannot be written: No space left on device")
        append(record)

    monkeypatch.setattr(run.directory, "append", full)
    with pytest.raises(StoreError, match="No space left"):
        run.session.run()
    assert not run.state.ended
    assert kit.survivors() == []


# ---------------------------------------------------------------- the scripted fleet is like the real one


def tell(kit, gateways):
    kit.suite("one", {"a": "ran a", "b": "ran b"}, setup=":")
    run = kit.run(devices=1, only=["one/a", "one/b"], gateways=gateways)
    return run.events, run.listener.told, run.statuses


def test_a_scripted_fleet_makes_the_same_run_as_a_real_one(tmp_path):
    runs = []
    for number, gateways in enumerate((Gateways, Fleet)):
        folder = tmp_path / str(number)
        folder.mkdir()
        kit = Kit(folder)
        runs.append(tell(kit, gateways))
        kit.runs[-1].directory.close()
    assert runs[0] == runs[1]


def test_a_fleet_says_what_it_is_told_to_say():
    fleet = Fleet([], env={}, cwd="/", clock=lambda: 1.0)
    fleet.post("x")
    assert fleet.next_event(0) == Posted("x")
    assert [fleet.next_event(0) for _ in range(99)] == [None] * 99
    with pytest.raises(AssertionError, match="will never come"):
        fleet.next_event(0)
