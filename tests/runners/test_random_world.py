"""The coordinator and its cleanup in a world where anything goes wrong: judged by what the fake GitHub saw.

The world lies about nothing that nobody could find out: what it serves may be late, lost, damaged or of another run,
but a run that it shows as completed has ended, and no runner takes a job without a trace.
"""

from __future__ import annotations

import json
import tempfile
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import event, example, given, settings
from hypothesis import strategies as st

from pytest_sgpu.runners import coordinator
from pytest_sgpu.runners.ports import Kind

# A world takes some 25 ms.
MORE = settings(max_examples=8 * settings().max_examples)
HALF = settings(max_examples=4 * settings().max_examples)
POOLS = ("linux-amd64-cpu16", "linux-amd64-cpu8", "linux-amd64-cpu32")
LONGEST_ANSWER = 40.0  # seconds
KINDS = frozenset(get_args(Kind))


# -- worlds --------------------------------------------------------------------------------------------------


def _some(**choices):
    """Give keywords, most of the time few of them."""
    drawn = {name: st.sampled_from(values) for name, values in choices.items()}
    names = st.lists(st.sampled_from(sorted(drawn)), max_size=3, unique=True)
    return names.flatmap(lambda chosen: st.fixed_dictionaries({name: drawn[name] for name in chosen}))


BASES = st.sampled_from(
    [
        {"runner_after": None},
        {"runner_after": None},
        {"runner_after": None, "runner_after_cancel": 1.0},
        {"runner_after": None, "runner_after_cancel": 2.0, "cancel_after": 60.0},
        {"runner_after": None, "ends_after": 50.0, "conclusion": "cancelled"},
        {"runner_after": 20.0},
        {"runner_after": 70.0},
        {"runner_after": 61.0, "finishes_despite_cancel": True},
        {"runner_after": 40.0, "runs_for": None},
        {"runner_after": 5.0, "conclusion": "failure"},
    ]
)
ODD = _some(
    starts_after=[0.0, 30.0],
    runs_for=[1.0, 60.0, 400.0],
    conclusion=["success", "failure", "cancelled", "skipped", "neutral", "timed_out", "action_required"],
    run_conclusion=["", "failure", "success"],
    visible_after=[1.0, 40.0, 130.0],
    listed_after=[1.0, 70.0, 130.0],
    jobs_after=[1.0, 40.0, 130.0],
    jobs_missing=["404", "empty"],
    queued_after=[10.0, 100.0, 1000.0],
    queued_status=["queued", "pending", "waiting", "requested"],
    cancel_after=[0.0, 3.0, 118.0, 200.0, None],
    force_after=[1.0, 100.0, None],
    run_lag=[10.0, 100.0],
    conclusion_lag=[10.0, 150.0],
    job_lag=[10.0, 200.0],
    null_runner=[True],
    jobs=[1, 2],
    job_name=["worker", "worker", "other"],
)
PLANS = st.builds(lambda base, odd: base | odd, BASES, ODD)
FAULTS = st.one_of(
    st.fixed_dictionaries({"status": st.sampled_from([401, 403, 404, 409, 422, 500, 502, 301, 304])}),
    # What may have been done although the answer says nothing about it.
    st.fixed_dictionaries({"status": st.sampled_from([204, 408, 500, 502]), "done": st.booleans()}),
    st.fixed_dictionaries({"error": st.just("reset"), "done": st.booleans()}),
    st.fixed_dictionaries({"status": st.just(200), "body": st.sampled_from([b"", b"{oops", b"[]", b"{}", b"null"])}),
    st.fixed_dictionaries(
        {
            "status": st.just(200),
            "body": st.sampled_from([b"\xff\xfe", b'{"workflow_run_id": "x"}']),
            "done": st.just(True),
        }
    ),
    st.fixed_dictionaries({"takes": st.sampled_from([1.0, 29.0, LONGEST_ANSWER])}),
    st.fixed_dictionaries(
        {
            "status": st.sampled_from([403, 429]),
            "headers": st.sampled_from([{"Retry-After": "30"}, {"retry-after": "90"}]),
        }
    ),
    st.fixed_dictionaries({"status": st.just(500), "body": st.just("TOKEN")}),
    st.fixed_dictionaries({"error": st.just("TOKEN")}),
)
ENDPOINTS = ["run", "jobs", "cancel", "force-cancel", "dispatch", "runs", "parent", "ref", "commit", "GET", "POST", "*"]
FAILURES = st.lists(
    st.tuples(
        st.sampled_from(ENDPOINTS),
        st.sampled_from([1, 1, 2, 3, 10, None]),
        st.sampled_from([0, 0, 1, 2, 5, 12]),
        FAULTS,
    ),
    max_size=3,
)
# Not the id: it is what a search by name goes by.
RUN_DRIFTS = [
    {"run_attempt": 2},
    {"event": "push"},
    {"path": ".github/workflows/other.yml"},
    {"head_sha": "f" * 40},
    {"display_title": "other"},
    {"display_title": ...},
    {"status": "in_progress"},
    {"status": None},
    {"conclusion": "success"},
    {"html_url": "javascript:x"},
]
JOB_DRIFTS = [
    {"id": 4},
    {"run_id": 4},
    {"run_attempt": 2},
    {"name": "other"},
    {"status": "in_progress"},
    {"status": None},
    {"conclusion": "success"},
    {"runner_name": "false"},
    {"runner_id": ...},
    {"runner_name": ...},
    {"steps": None},
    {"html_url": "::error::x\n"},
]
EVENTS = st.lists(
    st.tuples(
        st.sampled_from(
            [
                "cancelled",
                "rerun",
                "done",
                "source",
                "gone",
                "main",
                "outage",
                "jump",
                "back",
                "rate",
                "quota",
                "waiting",
            ]
        ),
        st.sampled_from([0.0, 3.0, 20.0, 70.0, 100.0, 150.0, 300.0]),
    ),
    max_size=2,
)
DRIFTS = st.lists(
    st.tuples(
        st.sampled_from([0.0, 16.0, 50.0, 90.0, 200.0]), st.sampled_from(RUN_DRIFTS), st.sampled_from(JOB_DRIFTS)
    ),
    max_size=1,
)
OPTIONS = _some(
    **{
        "polling": ["adaptive"],
        "conditional-requests": ["true"],
        "force-cancel": ["true"],
        "source-policy": ["pinned-after-start"],
        "history": ["true"],
        "execution-timeout-seconds": ["60", "600"],
    }
)
QUEUES = st.lists(st.sampled_from([60, 60, 1, 90, 300]), min_size=1, max_size=3)
INTERRUPTS = st.one_of(
    st.none(), st.none(), st.floats(0.0, 600.0), st.sampled_from([0.5, 1.5, 2.0, 18.0, 78.5, 79.0, 80.0])
)
LATENCIES = st.sampled_from([0.0, 0.0, 0.3, 2.0, 20.0])


def _happens(github, clock, what, at):
    """Let something befall the parent, the source, the network, or the clock."""
    if what == "cancelled":
        github.parent_cancelled(at)
    elif what == "rerun":
        github.parent_rerun(at)
    elif what in ("done", "waiting"):
        github.parent(at, **({"status": "completed", "conclusion": "success"} if what == "done" else {"status": what}))
    elif what in ("source", "gone"):
        github.move(github.source_ref, "b" * 40 if what == "source" else None, at)
    elif what == "main":
        github.move("refs/heads/main", "b" * 40, at)
    elif what == "outage":
        github.outage(at, 200.0)
    elif what in ("jump", "back"):
        clock.jump(7200.0 if what == "jump" else -7200.0, at)
    elif what == "rate":
        clock.at(at, lambda: github.rate(2, reset_in=50.0))
    else:
        clock.at(at, lambda: github.rate(1, reset_in=3000.0, status=429))


def _runners(queues):
    return json.dumps(
        [
            {"group": "nv-cpu-general", "labels": label, "queue-timeout-seconds": seconds}
            for label, seconds in zip(POOLS, queues, strict=False)
        ]
    )


def cut_off(result):
    """Whether a signal ended it: then nothing was asked any more, and its error, if it had met one, stays (R118)."""
    told = "the job is being cancelled; " in result.message
    assert told or result.kind != "parent_cancelled" or "the parent was cancelled" in result.message
    return told


class World:
    """One coordinator, its GitHub, its files, and what was said."""

    def __init__(self, fake, directory, queues, options, latency):
        self.clock = fake.VirtualClock()
        self.github = fake.FakeGitHub(self.clock)
        self.github.latency = latency
        for label in POOLS:
            self.github.past(label, 10.0, ago=100.0)  # somebody else's, and to be left alone
        self.env = fake.github_env(directory, self.github)
        self.files = fake.Files(self.env)
        self.inputs = {**fake.default_inputs(self.github), "runners": _runners(queues), **options}
        self.queues = queues
        self.lines: list[str] = []
        self.results = []
        self.claimed = False  # the API says success of run and job, whatever is true

    def script(self, plans, failures, drifts, happenings):
        github = self.github
        for plan in plans:
            github.plan(**plan)
        github.plan_all(runner_after=None)
        for endpoint, times, skip, fault in failures:
            echoed = {name: f"bad {github.token}!" for name, value in fault.items() if value == "TOKEN"}
            body = {"body": json.dumps({"message": echoed["body"]}).encode()} if "body" in echoed else {}
            github.fail(endpoint, times=times, skip=skip, **{**fault, **echoed, **body})
        for at, run, job in drifts:
            self.claimed |= run.get("conclusion") == job.get("conclusion") == "success"
            github.drift(None, at, run=run)
            github.drift(None, at, job=job)
        for what, at in happenings:
            _happens(github, self.clock, what, at)

    def run(self):
        result = coordinator.run(self.inputs, self.env, self.github, self.clock, self.lines.append)
        self.results.append(result)
        return result

    def clean(self):
        """Do what the post step does: from the file that the step has written."""
        state = self.files.state() if "GITHUB_STATE" in self.env else self.results[-1].state
        result = coordinator.cleanup(state, self.env, self.github, self.clock, self.lines.append)
        self.results.append(result)
        return result

    def most_seconds(self):
        """Give how long a coordinator takes at most, one worker after the other.

        An effect takes a request of 30 s three times, twice more for rate limits, and 5 + 10 + 60 + 60 s of pauses:
        285 s. The terms are those of tests/runners/test_random_machine.py; history reads 21 times before.
        """
        effect = 285.0
        queues = sum(10 * effect + 240 + 2 * (seconds + 6 * effect) for seconds in self.queues)
        execution = float(self.inputs.get("execution-timeout-seconds", 10_800))
        ends = 3 * (165 + 4 * effect) + 120 + effect
        one = 120 + effect + queues + execution + 6 * effect + ends
        one += (len(self.results) - 1) * (60 + effect + ends)  # the cleanup, and its search
        workers = len(json.loads(self.inputs.get("workloads", "[{}]")))
        return workers * one + (21 * effect if "history" in self.inputs else 0.0)

    def most_requests(self):
        """Give how many requests that is: one for each 15 s of adaptive looks is far above what a loop would need.

        In a window of 120 s a look of two comes every 5 s, each with up to five tries; else four reads a look.
        """
        looks = 3 * 26 * (2 * len(self.queues) + 6) + 8 * sum(seconds / 15 + 2 for seconds in self.queues)
        execution = float(self.inputs.get("execution-timeout-seconds", 10_800))
        workers = len(json.loads(self.inputs.get("workloads", "[{}]")))
        return 5 * workers * (looks + 4 * (execution / 15 + 2)) + 105

    # -- what must hold -----------------------------------------------------------------------------------

    def check(self):
        github, first = self.github, self.results[0]
        github.check()
        assert self.clock.elapsed <= self.most_seconds()
        assert len(github.requests) <= self.most_requests()
        assert first.kind in KINDS
        assert first.ok == (first.kind == "")
        self._no_dispatch_after_allocation()
        self._nothing_live_or_said()
        self._honest_success()
        self._files()
        self._no_token()

    def worker_of(self, child):
        return int(child.request_id.split("-")[3])

    def _no_dispatch_after_allocation(self):
        mine = defaultdict(list)
        for child in self.github.children:
            mine[self.worker_of(child)].append(child)
        for children in mine.values():
            for child, later in pairwise(children):
                assert not child.allocated(), f"{child.run_id} had a runner, and there was another dispatch"
                assert child.completed(later.created), f"{child.run_id} was live, and there was another dispatch"
                assert child.conclusion() == "cancelled"
                self._ended_by_us(child)

    def _ended_by_us(self, child):
        """What was seen to have ended before its cancellation was asked for has failed, and is no fallback (R93)."""
        first = self.github.cancels(child.run_id)[0]
        looks = [asked.at for asked in self.github.gets("jobs", child.run_id) if asked.number < first.number]
        assert looks[-1] <= child.ended(), f"{child.run_id} was over at {child.ended()} already, seen at {looks[-1]}"

    def _nothing_live_or_said(self):
        """Hold for every result, at its end."""
        result = self.results[-1]
        live = self.github.live()
        told = " ".join(result.state.values())
        for child in live:
            assert not result.ok
            assert child.request_id in told or str(child.run_id) in told.split(), f"{child.run_id} is live: {result}"
        if result.state and not cut_off(result):
            assert "unconfirmed" in result.message
        if result.ok:
            assert not result.state

    def _honest_success(self):
        result = self.results[0]
        if result.ok:
            assert self.github.children
            last = {self.worker_of(child): child for child in self.github.children}
            for child in last.values():
                assert child.completed(self.clock.elapsed)
                # An API that says so of both is believed: there is nobody else to ask.
                assert self.claimed or (child.conclusion(), child.run_conclusion()) == ("success", "success")
        for one in self.results[1:]:
            assert one.kind in ("", "cancel_unconfirmed", "config")

    def _files(self):
        first = self.results[0]
        outputs = self.files.output()
        assert outputs == dict(first.outputs)
        assert outputs["attempts"] == str(len(first.attempts)) == str(len(self.github.dispatches()))
        assert set(outputs) >= {"run-id", "run-url", "runner", "attempts"}
        for attempt in first.attempts:
            assert attempt.request_id in [asked.inputs["request-id"] for asked in self.github.dispatches()]
        if first.attempts:
            assert json.loads(outputs["runner"]).keys() == {"group", "labels"}
        if "GITHUB_STATE" in self.env:
            kept = {name: value for name, value in self.files.state().items() if value}
            assert kept == {name: value for name, value in first.state.items() if value}
        assert self.files.summary()

    def _no_token(self):
        texts = [*self.lines, *(repr(result) for result in self.results), self.files.summary()]
        texts += [Path(self.env[name]).read_text() for name in ("GITHUB_OUTPUT",)]
        texts += [Path(self.env["GITHUB_STATE"]).read_text()] if "GITHUB_STATE" in self.env else []
        assert not [text for text in texts if self.github.token in text]


@pytest.fixture(scope="module")
def make(fake):
    """Make a world; there is one at a time, and its files are new."""
    with tempfile.TemporaryDirectory() as directory:

        def made(queues, options, latency):
            for path in Path(directory).iterdir():
                path.unlink()
            return World(fake, Path(directory), queues, options, latency)

        yield made


def _interrupted(world, at, *, post):
    world.clock.interrupt(at)
    if not post:
        del world.env["GITHUB_STATE"]


def _nothing_after_a_signal(world, at):
    """After a signal the coordinator asks nothing: it only says what is left."""
    if cut_off(world.results[0]):
        assert world.clock.elapsed == at
        assert not [asked for asked in world.github.requests if asked.at > at]


@MORE
@given(
    queues=QUEUES,
    options=OPTIONS,
    latency=LATENCIES,
    plans=st.lists(PLANS, max_size=3),
    failures=FAILURES,
    drifts=DRIFTS,
    happenings=EVENTS,
)
def test_the_rules_hold_whatever_happens(make, *, queues, options, latency, plans, failures, drifts, happenings):
    world = make(queues, options, latency)
    world.script(plans, failures, drifts, happenings)
    result = world.run()
    event(f"{result.kind or 'success'} {'left' if result.state else ''}")
    event(f"dispatches: {len(result.attempts)}")
    world.check()


@MORE
@given(
    queues=QUEUES,
    options=OPTIONS,
    latency=LATENCIES,
    plans=st.lists(PLANS, max_size=3),
    failures=FAILURES,
    happenings=EVENTS,
    at=INTERRUPTS,
    post=st.booleans(),
    healed=st.booleans(),
)
def test_what_is_cut_off_is_cleaned_up_or_named(
    make, *, queues, options, latency, plans, failures, happenings, at, post, healed
):
    """The job is cancelled at any moment; a post step follows, or, where none can, whoever called the coordinator."""
    world = make(queues, options, latency)
    world.script(plans, failures, [], happenings)
    if at is not None:
        _interrupted(world, at, post=post)
    result = world.run()
    event(f"{result.kind or 'success'} {'left' if result.state else ''}")
    world.check()
    _nothing_after_a_signal(world, at)
    if healed:
        world.github.faults = type(world.github.faults)()
    cleaned = world.clean()
    event(f"post: {cleaned.kind or 'confirmed'}")
    world.check()
    if not result.state:
        assert cleaned.ok
    if cleaned.ok:
        world.github.assert_all_ended()


@HALF
@example(  # the first worker's dispatch is sent at the moment in which the second one's late answer comes
    queues=[60],
    workers=2,
    most=2,
    latency=0.0,
    plans=[],
    failures=[("parent", 1, 0, {"error": "TOKEN"}), ("dispatch", 1, 0, {"takes": 29.0})],
    happenings=[],
    at=None,
)
@given(
    queues=st.lists(st.sampled_from([60, 1, 90]), min_size=1, max_size=2),
    workers=st.integers(2, 5),
    most=st.integers(1, 3),
    latency=LATENCIES,
    plans=st.lists(PLANS, max_size=6),
    failures=FAILURES,
    happenings=EVENTS,
    at=INTERRUPTS,
)
def test_many_workers_keep_the_rules_each(make, *, queues, workers, most, latency, plans, failures, happenings, at):
    options = {"workloads": json.dumps([{"n": n} for n in range(workers)]), "max-parallel": str(most)}
    options["execution-timeout-seconds"] = "600"
    world = make(queues, options, latency)
    world.github.max_live = most
    world.script(plans, failures, [], happenings)
    if at is not None:
        _interrupted(world, at, post=True)
    result = world.run()
    event(f"{result.kind or 'success'} {'left' if result.state else ''}")
    world.check()
    _nothing_after_a_signal(world, at)
    created = {child.request_id: child.created for child in world.github.children}
    times = [created[attempt.request_id] for attempt in result.attempts if attempt.request_id in created]
    assert times == sorted(times), "in the order of dispatch, over all workers"
    if not cut_off(result):
        rows = json.loads(world.files.output()["workers"])
        assert [row["worker"] for row in rows] == list(range(1, workers + 1))
        assert all(row["ok"] == (row["kind"] == "") for row in rows)
        assert result.ok == all(row["ok"] for row in rows)
    for child in world.github.children:
        assert json.loads(child.inputs["workload"]) == {"n": world.worker_of(child) - 1}
    cleaned = world.clean()
    world.check()
    if cleaned.ok:
        world.github.assert_all_ended()


@MORE
@given(
    queues=QUEUES,
    latency=LATENCIES,
    plans=st.lists(PLANS, max_size=2),
    at=st.floats(0.0, 300.0),
    post=st.booleans(),
)
def test_a_second_signal_soon_after_the_first_changes_nothing(make, *, queues, latency, plans, at, post):
    """GitHub sends SIGTERM 7.5 s after SIGINT: whatever is under way then, there is a result, and it is honest.

    What is under way is the cleanup that the caller has begun, unless the coordinator was done before.
    """
    world = make(queues, {}, latency)
    world.script(plans, [], [], [])
    _interrupted(world, at, post=post)
    world.clock.interrupt(at + 7.5)
    result = world.run()
    event(f"{result.kind or 'success'} {'left' if result.state else ''}")
    world.check()
    _nothing_after_a_signal(world, at)
    cleaned = world.clean()
    event(f"cleanup: {cleaned.kind or 'confirmed'}")
    world.check()
    if cleaned.kind == "cancel_unconfirmed":  # cut off too: then a third call finds what is left
        assert cleaned.state["request-id"] == result.state["request-id"]
        world.env.pop("GITHUB_STATE", None)
        world.clean()
        world.check()


@HALF
@given(QUEUES, st.lists(BASES, max_size=3), st.booleans())
def test_in_a_fair_world_the_plans_decide(make, queues, plans, several):
    """Where nothing goes wrong but queues and work, the first runner that comes decides."""
    options = {"workloads": '[{"n":0}]'} if several else {}
    world = make(queues, options, 0.0)
    world.script(plans, [], [], [])
    result = world.run()
    world.check()
    last = world.github.children[-1]
    assert result.kind in ("", "worker_failed", "race", "queue_exhausted", "execution_timeout")
    assert result.ok == (last.completed() and last.conclusion() == "success" and result.kind != "race")
    assert not result.state
    world.github.assert_all_ended(world.clock.elapsed)
    # R74: four reads a minute, and what a dispatch and its end need.
    assert len(world.github.requests) <= 4 * world.clock.elapsed / 60 + 70 * len(world.github.children) + 10


@pytest.mark.parametrize("listed_after", [0.0, 30.0, 300.0])
def test_a_dispatch_that_was_cut_off_is_found_by_its_name_or_named(make, listed_after):
    """The interrupt comes while the dispatch is under way: nobody knows its run."""
    world = make([60], {}, 1.0)
    world.script([{"runner_after": None, "listed_after": listed_after}], [], [], [])
    world.clock.interrupt(4.5)
    result = world.run()
    (child,) = world.github.children
    assert result.state["request-id"] == child.request_id
    assert not result.state["run-id"]
    cleaned = world.clean()
    world.check()
    assert cleaned.ok == child.completed() == (listed_after < 60)


TWINS = st.lists(st.sampled_from([0.0, 3.0, 118.0, None]), min_size=1, max_size=3)


@given(TWINS, st.booleans())
def test_runs_of_the_same_name_are_each_ended_or_the_cleanup_is_unconfirmed(make, cancel_after, forced):
    """What sent a dispatch twice was not the coordinator; the runs are its own all the same."""
    world = make([60], {}, 0.0)
    github = world.github
    github.max_live = len(cancel_after)
    inputs = {**world.inputs, "request-id": "one-name", "runner": "{}"}
    for seconds in cancel_after:
        github.plan(runner_after=None, cancel_after=seconds, force_after=None)
        github.start_child(inputs)
    force = {"force-cancel": "true"} if forced else {}
    state = {"run-id": "", "request-id": "one-name", "workflow": github.workflow, **force}
    result = coordinator.cleanup(state, world.env, github, world.clock, world.lines.append)
    assert [child for child in github.children if not child.cancel_asked] == [], "not even asked to end"
    live = [child.run_id for child in github.live()]
    assert len(live) == cancel_after.count(None)
    assert result.ok == (not live), result
    assert bool(result.state) == bool(live)


EVIDENCE = st.sampled_from(
    [
        ({"runner_name": "r1"}, {"runner_name": ""}),
        ({"runner_id": 7}, {"runner_id": 0}),
        ({"status": "in_progress"}, {"status": ...}),
        ({"steps": [{"status": "in_progress"}]}, {"steps": []}),
    ]
)


@HALF
@given(evidence=EVIDENCE, at=st.floats(0.0, 80.0), lasts=st.floats(0.0, 40.0), null=st.booleans())
def test_r92_a_runner_that_was_seen_and_went_away_again_is_no_reason_to_fall_back(make, *, evidence, at, lasts, null):
    """A job that its runner does not claim goes back to the queue; by then the work may have begun."""
    world = make([60, 60], {"execution-timeout-seconds": "60"}, 0.0)
    github = world.github
    world.script([{"runner_after": None, "null_runner": null}], [], [], [])
    shown, hidden = evidence
    github.drift(None, at, job=shown)
    # What is served once it is over is not known here; the end of the window takes back what was shown.
    hide = {name: value for name, value in hidden.items() if value is not ...}
    if hide:
        github.drift(None, at + lasts, job=hide)
    result = world.run()
    first = github.children[0]
    seen = [one for one in github.gets("jobs", first.run_id) if one.at >= at and (one.at < at + lasts or not hide)]
    event(f"{result.kind} seen: {bool(seen)}")
    assert len(github.children) == (1 if seen else 2)
    assert not result.ok
    world.github.assert_all_ended(world.clock.elapsed)
