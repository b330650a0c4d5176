"""What goes beyond the seed, off unless asked for; and R136 to R139: budgets, and several coordinators at once."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_sgpu.runners import coordinator
from pytest_sgpu.runners.ports import Result

if TYPE_CHECKING:
    from tests.runners.fake import Files, Recorded, VirtualClock

GROUP = "nv-cpu-general"
LABELS = ("linux-amd64-cpu16", "linux-amd64-cpu8", "linux-amd64-cpu32")
NEVER = {"runner_after": None}
HOUR = 3600.0


def shards(count) -> str:
    return json.dumps([{"shard": number} for number in range(1, count + 1)])


def shard(child) -> int:
    return int(json.loads(child.inputs["workload"])["shard"])


def runners(*labels) -> str:
    return json.dumps([{"group": GROUP, "labels": label} for label in labels])


def most_at_once(github) -> int:
    return max(len(github.live(child.created)) for child in github.children)


def blank(state) -> bool:
    return not any(state.values())


# -- many workers from one coordinator -----------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 3, 7, 20])
@pytest.mark.parametrize("parallel", [1, 2, 5, 20])
def test_workloads_are_all_done_and_never_more_than_so_many_at_once(count, parallel, github, job):
    github.max_live = parallel
    result = job.go(workloads=shards(count), max_parallel=str(parallel))
    assert result.ok, result.message
    assert sorted(shard(child) for child in github.children) == list(range(1, count + 1))
    assert most_at_once(github) == min(count, parallel)
    assert len({child.request_id for child in github.children}) == count
    assert result.outputs["attempts"] == str(count)
    assert blank(job.files.state())
    github.assert_all_ended()


def test_workloads_are_two_at_once_unless_said_otherwise(github, job):
    github.max_live = 2
    assert job.go(workloads=shards(5)).ok
    assert most_at_once(github) == 2


@pytest.mark.parametrize("parallel", [1, 2, 3, 4])
@pytest.mark.parametrize("seed", range(6))
def test_workloads_fall_back_each_for_itself(parallel, seed, github, job):
    """Every one of them asks its candidates in order, one at a time, whatever the others do."""
    github.max_live = parallel
    fates = [NEVER, {"runner_after": 40, "runs_for": 90}, {"runner_after": 80}, {"runner_after": 5, "runs_for": 400}]
    for number in range(24):
        github.plan(**fates[(number * 7 + seed * 5 + number // 3) % 4])
    job.go(workloads=shards(6), max_parallel=str(parallel), queue_timeout_seconds="100")
    for number in range(1, 7):
        mine = [child for child in github.children if shard(child) == number]
        assert [child.labels for child in mine] == list(LABELS[: len(mine)])
        for earlier, later in pairwise(mine):
            assert earlier.completed(later.created)
            assert not earlier.allocated()
    assert most_at_once(github) <= parallel
    github.assert_all_ended()


def test_workloads_each_have_their_own_names_in_the_state(github, clock, job):
    github.max_live = 3
    github.plan_all(runs_for=None)
    clock.interrupt(200)
    result = job.go(workloads=shards(3), max_parallel="3")
    assert result.kind == "parent_cancelled"
    state = job.files.state()
    for child, suffix in zip(github.children, ("", "-2", "-3"), strict=True):
        assert state[f"run-id{suffix}"] == str(child.run_id)
        assert state[f"request-id{suffix}"] == child.request_id
        assert state[f"workflow{suffix}"] == github.workflow
    assert {name: value for name, value in state.items() if value} == result.state


@pytest.mark.parametrize("at", range(1, 300, 13))
def test_workloads_are_all_ended_by_the_post_step(at, github, clock, job):
    github.max_live = 3
    github.latency = 0.5
    for runs_for in (60, None, 30, None, 90):
        github.plan(runs_for=runs_for)
    clock.interrupt(at)
    result = job.go(workloads=shards(5), max_parallel="3")
    assert result.kind == "parent_cancelled"
    done = job.post()
    assert done.ok, done
    github.assert_all_ended()
    assert clock.elapsed - at <= 60, "side by side, not one after the other"


@pytest.mark.parametrize("bad", [1, 2, 3])
def test_workloads_one_that_fails_stops_no_other(bad, github, job):
    github.max_live = 2
    for number in range(1, 4):
        github.plan(conclusion="failure" if number == bad else "success")
    result = job.go(workloads=shards(3))
    assert (result.ok, result.kind) == (False, "worker_failed")
    assert f"worker {bad}: " in result.message
    assert len(github.dispatches()) == 3, "and none is run again"
    workers = json.loads(job.files.output()["workers"])
    assert [worker["worker"] for worker in workers] == [1, 2, 3]
    assert [worker["ok"] for worker in workers] == [number != bad for number in (1, 2, 3)]
    assert [worker["kind"] for worker in workers] == ["worker_failed" if number == bad else "" for number in (1, 2, 3)]


@pytest.mark.parametrize("parallel", [1, 2])
def test_workloads_none_begins_after_one_that_may_still_be_active(parallel, github, job):
    github.max_live = 2
    github.plan(**NEVER, cancel_after=None)
    github.plan_all(runner_after=10, runs_for=100)
    result = job.go(
        workloads=shards(6), max_parallel=str(parallel), runners=runners(*LABELS[:2]), queue_timeout_seconds="60"
    )
    assert (result.ok, result.kind) == (False, "cancel_unconfirmed")
    # The first is asked to end at 75 s and given up at 195 s; with two at once, the others have come to the third.
    assert len(github.dispatches()) == (1 if parallel == 1 else 3)
    workers = json.loads(job.files.output()["workers"])
    assert len(workers) == 6
    assert [worker["attempts"] for worker in workers[parallel + 1 :]] == ["0"] * (5 - parallel)
    assert all(not worker["ok"] for worker in workers if worker["attempts"] == "0")
    assert result.state["run-id"] == job.files.state()["run-id"] == "1001"
    assert "unconfirmed" in job.files.summary()


def test_workloads_output_says_for_each_what_the_outputs_say_for_one(github, job):
    github.max_live = 2
    github.plan(**NEVER)
    result = job.go(workloads=shards(3), queue_timeout_seconds="100")
    assert result.ok
    assert job.files.output() == dict(result.outputs)
    workers = json.loads(result.outputs["workers"])
    for worker in workers:
        mine = [child for child in github.children if shard(child) == worker["worker"]]
        assert worker["run-id"] == str(mine[-1].run_id)
        assert worker["run-url"] == f"https://github.com/o/r/actions/runs/{mine[-1].run_id}"
        assert worker["runner"] == mine[-1].inputs["runner"]
        assert worker["attempts"] == str(len(mine))
        assert (worker["ok"], worker["kind"]) == (True, "")
    assert [attempt.worker for attempt in result.attempts] == [1, 2, 1, 3], "as they were dispatched"
    assert [attempt.run_id for attempt in result.attempts] == [child.run_id for child in github.children]
    assert result.outputs["attempts"] == "4"
    assert result.outputs["run-id"] == "1004"


@pytest.mark.parametrize("parallel", [1, 2, 3, 4])
@pytest.mark.parametrize("interrupted", [True, False])
def test_r120_the_outputs_are_those_of_the_last_dispatch_of_all_workers(parallel, interrupted, github, clock, job):
    github.max_live = parallel
    github.latency = 0.3
    fates: list[dict[str, Any]] = [
        NEVER,
        {"runner_after": 40, "runs_for": 90},
        {"runner_after": 5, "runs_for": 400},
    ]
    for number in range(20):
        github.plan(**fates[number * 5 % 7 % 3])
    if interrupted:
        clock.interrupt(700)
    result = job.go(workloads=shards(6), max_parallel=str(parallel), queue_timeout_seconds="100")
    last = github.children[-1]
    assert [attempt.run_id for attempt in result.attempts] == [child.run_id for child in github.children]
    assert len({attempt.worker for attempt in result.attempts}) > 1
    assert result.outputs["run-id"] == str(last.run_id)
    assert result.outputs["runner"] == last.inputs["runner"]
    assert job.files.output() == dict(result.outputs)


def test_r118_workloads_a_signal_after_one_failed_hides_no_error(github, clock, job):
    github.max_live = 2
    github.plan(runner_after=5, runs_for=40, conclusion="failure")
    github.plan(runs_for=None)
    clock.interrupt(200)
    result = job.go(workloads=shards(2))
    assert (result.ok, result.kind) == (False, "worker_failed")
    assert result.message.startswith("child 1001 did not succeed: run completed/failure")
    assert "; the job is being cancelled; its child is left to the cleanup" in result.message
    assert {name: value for name, value in result.state.items() if name.startswith("run-id")} == {"run-id-2": "1002"}
    assert not github.cancels()
    assert coordinator.cleanup(result.state, job.env, github, clock, job.lines.append).ok
    github.assert_all_ended()


def test_workloads_lines_and_summary_say_whose_they_are(github, job):
    github.max_live = 2
    github.plan(conclusion="failure")
    job.go(workloads=shards(2))
    assert all(line.startswith("worker ") for line in job.lines)
    text = job.files.summary()
    assert "2 workers" in text
    assert (
        "- Worker 1, worker failed: [View worker job logs here](https://github.com/o/r/actions/runs/1001/job/10010)"
        in text
    )
    assert (
        "- Worker 2, success: [View worker job logs here](https://github.com/o/r/actions/runs/1002/job/10020)" in text
    )


@pytest.mark.parametrize(
    ("setup", "kind"),
    [
        (lambda g: g.parent_cancelled(150), "parent_cancelled"),
        (lambda g: g.parent_rerun(150), "parent_changed"),
        (lambda g: g.move(g.source_ref, None, at=150), "source_changed"),
        (lambda g: g.outage(150, 65), "api_error"),
    ],
    ids=["cancelled", "rerun", "source", "outage"],
)
def test_workloads_what_is_wrong_for_all_stops_and_ends_all(setup, kind, github, job):
    github.max_live = 3
    github.plan_all(runs_for=None)
    setup(github)
    result = job.go(workloads=shards(5), max_parallel="3")
    assert result.kind == kind
    github.assert_all_ended()
    assert len(github.children) == (5 if kind == "api_error" else 3), (
        "when the outage is over, the others have their turn"
    )
    assert blank(job.files.state())


def test_workloads_keep_the_invariants_under_a_rate_limit_and_slow_answers(github, job):
    github.max_live = 4
    github.latency = 2.0
    github.fail("GET", skip=20, times=2, status=429, headers={"Retry-After": "20"})
    assert job.go(workloads=shards(8), max_parallel="4").ok
    assert most_at_once(github) == 4


# -- conditional requests ------------------------------------------------------------------------------------------

TWO_HOURS = {"runners": runners(*LABELS[:2]), "queue_timeout_minutes": "60"}


def in_any_hour(requests: Iterable[Recorded]) -> int:
    """Give the most of them in one hour, wherever it begins."""
    times = [asked.at for asked in requests]
    return max(sum(start <= at < start + HOUR for at in times) for start in times)


@pytest.mark.parametrize("polling", ["steady", "adaptive"])
def test_conditional_requests_count_at_most_40_an_hour_in_a_queue_of_two_hours(polling, github, clock, job):
    github.plan_all(**NEVER)
    result = job.go(conditional_requests="true", polling=polling, **TWO_HOURS)
    assert result.kind == "queue_exhausted"
    assert clock.elapsed > 2 * HOUR
    assert in_any_hour(asked for asked in github.requests if asked.counted) <= 40


@pytest.mark.parametrize("conditional", ["true", "false"])
@pytest.mark.parametrize("polling", ["steady", "adaptive"])
def test_r74_at_most_240_requests_an_hour_in_a_queue_of_two_hours(conditional, polling, github, job):
    github.plan_all(**NEVER)
    job.go(conditional_requests=conditional, polling=polling, **TWO_HOURS)
    assert in_any_hour(github.requests) <= 240


@pytest.mark.parametrize("polling", ["steady", "adaptive"])
@pytest.mark.parametrize(
    "case",
    [
        ({"runner_after": 700, "runs_for": 900}, lambda g: None, ""),
        ({"runner_after": 700, "runs_for": 900, "conclusion": "failure"}, lambda g: None, "worker_failed"),
        (NEVER, lambda g: None, "queue_exhausted"),
        (NEVER, lambda g: g.move(g.source_ref, "b" * 40, at=1000), "source_changed"),
        (NEVER, lambda g: g.move(g.source_ref, None, at=1000), "source_changed"),
        (NEVER, lambda g: g.parent_rerun(1000), "parent_changed"),
        (NEVER, lambda g: g.parent_cancelled(1000), "parent_cancelled"),
        (NEVER, lambda g: g.drift(None, 1000, run={"run_attempt": 2}), "identity_mismatch"),
        ({**NEVER, "runner_after_cancel": 2}, lambda g: None, "race"),
        ({"runner_after": 700, "runs_for": None}, lambda g: None, "execution_timeout"),
        (NEVER, lambda g: g.move("refs/heads/main", "b" * 40, at=1000), "workflow_changed"),
    ],
)
def test_conditional_requests_see_the_same_as_others(case, polling, github, job):
    plan, setup, kind = case
    github.plan_all(**plan)
    setup(github)
    result = job.go(
        conditional_requests="true", polling=polling, queue_timeout_minutes="30", execution_timeout_minutes="20"
    )
    assert result.kind == kind
    statuses = Counter(asked.status for asked in github.requests)
    assert statuses[304] > 5
    assert all("if-none-match" in asked.headers for asked in github.requests if asked.status == 304)
    assert all("if-none-match" not in asked.headers for asked in github.posts())


def test_conditional_requests_are_off_unless_asked_for(github, job):
    job.go()
    assert not [asked for asked in github.requests if "if-none-match" in asked.headers]
    assert 304 not in {asked.status for asked in github.requests}


def test_conditional_requests_survive_a_304_to_what_was_never_read(github, job):
    github.fail("parent", status=304, body=b"")
    result = job.go(conditional_requests="true")
    assert result.kind in ("api_error", "")
    assert bool(github.dispatches()) == result.ok


# -- polling -------------------------------------------------------------------------------------------------------


def looks(github, run_id=1001) -> list[float]:
    return [asked.at for asked in github.gets("jobs", run_id)]


def test_adaptive_polling_is_dense_at_the_start_and_near_the_deadline_and_sparse_between(github, job):
    github.plan_all(**NEVER)
    job.go(polling="adaptive", runners=runners(LABELS[0]), queue_timeout_minutes="60")
    times = looks(github)
    queue = sorted({at for at in times if at <= 15 + HOUR})
    gaps = [(at, later - at) for at, later in pairwise(queue)]
    assert all(gap <= 23 for at, gap in gaps if at < 60)
    assert all(gap <= 60 for at, gap in gaps if at >= 15 + HOUR - 60)
    assert gaps[-1][1] <= 30
    assert max(gap for _, gap in gaps) > 60
    assert all(gap >= 15 for at, gap in gaps[:-1])
    assert queue[-1] == 15 + HOUR, "the deadline is kept to the second"
    assert len(queue) < 30, "half of one a minute"


@pytest.mark.parametrize("polling", ["steady", ""])
def test_r73_steady_polling_is_one_look_a_minute(polling, github, job):
    github.plan_all(runner_after=300, runs_for=600)
    assert job.go(polling=polling).ok
    assert {later - at for at, later in pairwise(looks(github))} == {60.0}


@pytest.mark.parametrize("late", [1, 10, 14, 40, 100])
def test_adaptive_polling_does_not_cancel_what_came_shortly_before_the_deadline(late, github, job):
    github.plan_all(runner_after=15 + 1800 - late)
    assert job.go(polling="adaptive", queue_timeout_minutes="30").ok
    assert not github.cancels()
    assert len(github.dispatches()) == 1


# -- seconds -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seconds", [1, 7, 59, 60, 61, 90, 601])
def test_a_queue_deadline_in_seconds_is_kept(seconds, github, job):
    github.plan_all(**NEVER)
    result = job.go(runners=runners(LABELS[0]), queue_timeout_seconds=str(seconds))
    assert result.kind == "queue_exhausted"
    assert github.cancels()[0].at == 15 + seconds


@pytest.mark.parametrize("seconds", [1, 45, 60, 100])
def test_an_execution_budget_in_seconds_is_kept(seconds, github, job):
    github.plan_all(runner_after=0, runs_for=None)
    result = job.go(execution_timeout_seconds=str(seconds))
    assert result.kind == "execution_timeout"
    assert github.cancels()[0].at == 15 + seconds


def test_a_deadline_of_one_candidate_in_seconds_goes_before_the_others(github, job):
    github.plan_all(**NEVER)
    own = json.dumps([{"group": GROUP, "labels": LABELS[0], "queue-timeout-seconds": 33}])
    job.go(runners=own, queue_timeout_seconds="500")
    assert github.cancels()[0].at == 15 + 33


@pytest.mark.parametrize("kind", ["queue", "execution"])
def test_minutes_and_seconds_exclude_each_other(kind, github, job):
    result = job.go(**{f"{kind}_timeout_minutes": "1", f"{kind}_timeout_seconds": "60"})
    assert result.kind == "config"
    assert f"{kind}-timeout" in result.message
    assert not github.requests


# -- learned waits -------------------------------------------------------------------------------------------------


def asked(github) -> list[str]:
    return [child.labels for child in github.children]


def waited(github) -> dict[str, float]:
    """Give how long each pool was waited for, from the first look to the cancellation."""
    return {child.labels: child.cancel_asked[0] - child.created - 15 for child in github.children if child.cancel_asked}


def exhausted(github, label, minutes) -> None:
    github.past(label, None, ago=minutes * 60 + 600)  # it was cancelled after ten minutes


def test_history_a_pool_that_was_exhausted_lately_is_tried_later_and_shorter(github, job):
    exhausted(github, LABELS[0], minutes=5)
    github.plan_all(**NEVER)
    result = job.go(history="true")
    assert result.kind == "queue_exhausted"
    assert asked(github) == [LABELS[1], LABELS[2], LABELS[0]]
    assert waited(github) == {LABELS[1]: 600, LABELS[2]: 600, LABELS[0]: 300}
    assert any(line.startswith("history: ") and LABELS[0] in line and "exhausted" in line for line in job.lines)
    order = [LABELS[1], LABELS[2], LABELS[0]]
    assert sorted(order, key=job.files.summary().rindex) == order, "the summary lists what was asked, in that order"


@pytest.mark.parametrize("setup", ["long ago", "got a runner since", "all of them", "another pool", "none"])
def test_history_that_says_nothing_for_certain_changes_nothing(setup, github, job):
    if setup == "long ago":
        exhausted(github, LABELS[0], minutes=31)
    elif setup == "got a runner since":
        exhausted(github, LABELS[0], minutes=20)
        github.past(LABELS[0], 30, ago=300)
    elif setup == "all of them":
        for label in LABELS:
            exhausted(github, label, minutes=5)
    elif setup == "another pool":
        exhausted(github, "linux-amd64-cpu64", minutes=5)
    github.plan_all(**NEVER)
    job.go(history="true")
    assert asked(github) == list(LABELS)
    assert waited(github) == dict.fromkeys(LABELS, 600)


@pytest.mark.parametrize(
    ("endpoint", "fault"),
    [
        ("runs", {"status": 500}),
        ("runs", {"status": 403}),
        ("runs", {"status": 404}),
        ("runs", {"error": "reset"}),
        ("runs", {"status": 200, "body": b"{oops"}),
        ("runs", {"status": 200, "body": b"[]"}),
        ("runs", {"status": 200, "body": {"workflow_runs": 7}}),
        ("runs", {"status": 200, "body": {"workflow_runs": [None, 7, {}, {"id": "x"}, {"id": True}, {"id": -1}]}}),
        ("runs", {"status": 403, "headers": {"Retry-After": "3600"}}),
        ("jobs", {"status": 500}),
        ("jobs", {"status": 200, "body": {"jobs": [{"labels": [["x"]], "name": ["worker"]}]}}),
        ("jobs", {"status": 200, "body": {"jobs": "none"}}),
        ("jobs", {"error": "reset"}),
    ],
    ids=str,
)
def test_history_that_cannot_be_read_changes_nothing(endpoint, fault, github, clock, job):
    exhausted(github, LABELS[0], minutes=5)
    github.fail(endpoint, times=None, until=60, run_id=501 if endpoint == "jobs" else None, **fault)
    result = job.go(history="true")
    assert result.ok, result.message
    assert asked(github) == [LABELS[0]]
    if fault.get("status") != 200 or not isinstance(fault["body"], dict):
        assert any("past waits cannot be read" in line for line in job.lines)


def test_history_is_not_read_unless_asked_for(github, job):
    exhausted(github, LABELS[0], minutes=5)
    assert job.go().ok
    assert asked(github) == [LABELS[0]]
    assert not github.gets("runs")


def test_history_reads_at_most_twenty_runs(github, job):
    for number in range(60):
        github.past(LABELS[number % 3], 10, ago=7200 + number)
    assert job.go(history="true").ok
    assert len([read for read in github.gets("jobs") if read.run_id < 1000]) == 20


def test_history_a_rewait_stays_last_with_its_own_deadline(github, job):
    exhausted(github, LABELS[0], minutes=5)
    exhausted(github, LABELS[2], minutes=5)
    github.plan_all(**NEVER)
    job.go(history="true", queue_policy="extended", queue_timeout_minutes="4")
    assert asked(github) == [LABELS[1], LABELS[0], LABELS[2], LABELS[2]]
    last = github.children[-1]
    assert last.cancel_asked[0] - last.created == 15 + HOUR


def test_history_what_a_pool_did_is_learned_from_what_a_coordinator_did(fake, github, clock, job, tmp_path):
    """The first coordinator exhausts a pool; one after it, told to learn, asks that pool last."""
    github.plan(**NEVER)
    assert job.go().ok
    assert asked(github) == [LABELS[0], LABELS[1]]
    directory = tmp_path / "second"
    directory.mkdir()
    env = fake.github_env(directory, github)
    given = {**job.inputs, "history": "true"}
    github.plan_all(runner_after=1)
    result = coordinator.run(given, env, github, clock, job.lines.append)
    assert result.ok
    assert asked(github)[2:] == [LABELS[1]]


@pytest.mark.parametrize("at", [1, 3])
def test_history_a_signal_while_it_is_read_ends_at_once(at, github, clock, job):
    for number in range(5):
        github.past(LABELS[0], 10, ago=7200 + number)
    github.latency = 0.9
    clock.interrupt(at)
    result = job.go(history="true")
    assert result.kind == "parent_cancelled"
    assert blank(job.files.state())
    assert not github.posts()


# -- the timeline --------------------------------------------------------------------------------------------------


def test_timeline_has_everything_in_order_as_a_file_and_as_an_output(github, job, tmp_path):
    path = tmp_path / "timeline.json"
    github.plan(**NEVER)
    result = job.go(timeline=str(path))
    assert result.ok
    document = json.loads(path.read_text())
    assert json.loads(job.files.output()["timeline"]) == document
    assert json.loads(result.outputs["timeline"]) == document, "the result has what the file of outputs has"
    assert document["version"] == 1
    events = document["events"]
    kinds = Counter(event["event"] for event in events)
    assert kinds["parent"] == 1
    assert kinds["preflight"] == kinds["dispatch"] == kinds["dispatched"] == 2
    assert kinds["deadline"] == kinds["cancel"] == kinds["allocated"] == kinds["end"] == 1
    assert kinds["confirm"] == 2
    assert kinds["look"] == sum(line.startswith("round ") for line in job.lines)
    assert [event["at"] for event in events] == sorted(event["at"] for event in events)
    assert events[0]["at"] == 0
    assert all(event["time"].endswith("Z") and event["worker"] == 1 for event in events)
    assert [event["attempt"] for event in events if event["event"] == "dispatched"] == [1, 2]
    assert [event["run_id"] for event in events if event["event"] == "dispatched"] == [1001, 1002]
    last = [event for event in events if event["event"] == "look"][-1]
    assert (last["run"], last["job"], last["runner"]) == ("completed/success", "completed/success", "runner-2")


@pytest.mark.parametrize("runner_after", [5, 15, 20, 75, 80, 300])
@pytest.mark.parametrize("runs_for", [5, 300])
def test_timeline_and_log_say_once_that_a_runner_took_the_child(runner_after, runs_for, github, job, tmp_path):
    """Also when the first look shows it already, and when the look that shows it shows the end as well."""
    path = tmp_path / "timeline.json"
    github.plan(runner_after=runner_after, runs_for=runs_for)
    assert job.go(timeline=str(path)).ok
    events = json.loads(path.read_text())["events"]
    (taken,) = [event for event in events if event["event"] == "allocated"]
    seen = 15 if runner_after <= 15 else 15 + -(-(runner_after - 15) // 60) * 60
    assert taken["at"] == seen
    assert taken["runner"] == "runner-1"
    (line,) = [line for line in job.lines if "a runner took child 1001" in line]
    first = next(index for index, line in enumerate(job.lines) if "runner runner-1" in line)
    assert job.lines.index(line) == first - 1, "before the look that showed it"


def test_timeline_says_nothing_of_a_runner_when_none_came(github, job, tmp_path):
    path = tmp_path / "timeline.json"
    github.plan_all(**NEVER)
    job.go(timeline=str(path))
    assert "allocated" not in {event["event"] for event in json.loads(path.read_text())["events"]}
    assert not [line for line in job.lines if "a runner took" in line]


@pytest.mark.parametrize(
    ("setup", "wanted"),
    [
        (lambda g: g.move(g.source_ref, None, at=100), {"error", "cleanup", "end"}),
        (lambda g: g.parent(0, status="completed"), {"error", "end"}),
        (lambda g: g.fail("dispatch", error="reset", done=True), {"recover", "error", "cleanup", "end"}),
    ],
    ids=["source", "parent", "ambiguous"],
)
def test_timeline_has_what_went_wrong_too(setup, wanted, github, job, tmp_path):
    path = tmp_path / "timeline.json"
    github.plan_all(runs_for=None)
    setup(github)
    assert not job.go(timeline=str(path)).ok
    assert wanted <= {event["event"] for event in json.loads(path.read_text())["events"]}


def test_timeline_is_written_after_a_signal_too(github, clock, job, tmp_path):
    path = tmp_path / "timeline.json"
    clock.interrupt(50)
    assert job.go(timeline=str(path)).kind == "parent_cancelled"
    assert {"dispatched", "look"} <= {event["event"] for event in json.loads(path.read_text())["events"]}


def test_timeline_says_of_which_worker_an_event_is(github, job, tmp_path):
    path = tmp_path / "timeline.json"
    github.max_live = 2
    job.go(timeline=str(path), workloads=shards(3))
    events = json.loads(path.read_text())["events"]
    assert {event["worker"] for event in events} == {1, 2, 3}
    assert [event["at"] for event in events] == sorted(event["at"] for event in events)


def test_timeline_follows_the_monotonic_clock(github, clock, job, tmp_path):
    path = tmp_path / "timeline.json"
    clock.jump(-7200, at=50)
    assert job.go(timeline=str(path)).ok
    events = json.loads(path.read_text())["events"]
    assert [event["at"] for event in events] == sorted(event["at"] for event in events)


def test_timeline_is_neither_a_file_nor_an_output_unless_asked_for(job, tmp_path):
    result = job.go()
    assert "timeline" not in job.files.output()
    assert "timeline" not in result.outputs
    assert not list(tmp_path.glob("*.json"))


# -- R136 and R137: budgets ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("runner_type", "minutes"),
    [("cpu", 135), ("gpu", 195)],
)
def test_r136_the_longest_sequence_that_succeeds_fits_into_the_parent_timeout(runner_type, minutes, github, clock, job):
    """Every pool but the last is exhausted, everything is as late as it may be, and the work takes its whole time."""
    github.latency = 0.2
    github.parent(0, status="queued")
    github.parent(114, status="in_progress")
    github.plan_all(**NEVER, jobs_after=112, cancel_after=108)
    changes = {"queue_timeout_minutes": "10"} if runner_type == "cpu" else {}
    candidates = 4 if runner_type == "cpu" else 7
    for _ in range(candidates - 1):
        github.plan(**NEVER, jobs_after=112, cancel_after=108)
    github.plan(jobs_after=112, runner_after=100 + HOUR, runs_for=14 * 60)
    result = job.go(runner_type=runner_type, queue_policy="extended", execution_timeout_minutes="15", **changes)
    assert result.ok, result.message
    assert len(github.dispatches()) == candidates
    assert clock.elapsed <= minutes * 60


def test_r136_the_longest_sequence_that_fails_fits_too(github, clock, job):
    github.plan_all(**NEVER)
    result = job.go(runner_type="gpu", queue_policy="extended", execution_timeout_minutes="15")
    assert result.kind == "queue_exhausted"
    assert 150 * 60 <= clock.elapsed <= 195 * 60


WARNING = "warning: this may take {} min, and a job on a hosted runner ends after 360"


@pytest.mark.parametrize(
    ("changes", "minutes"),
    [
        ({"queue_policy": "extended", "execution_timeout_minutes": "300"}, 408),
        ({"execution_timeout_minutes": "600"}, 644),
        ({"execution_timeout_minutes": "317"}, 361),
        ({"runner_type": "gpu", "queue_policy": "extended", "execution_timeout_minutes": "181"}, 361),
        ({"workloads": shards(6), "max_parallel": "2", "execution_timeout_minutes": "120"}, 488),
    ],
    ids=str,
)
def test_r137_a_budget_beyond_a_hosted_job_is_the_first_line_of_the_log(changes, minutes, github, job):
    github.max_live = 2
    assert job.go(**changes).ok
    assert job.lines[0].startswith(WARNING.format(minutes))
    assert sum(line.startswith("warning: ") for line in job.lines) == 1


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"execution_timeout_minutes": "316"},
        {"runner_type": "gpu", "queue_policy": "extended", "execution_timeout_minutes": "180"},
        {"workloads": shards(6), "max_parallel": "6", "execution_timeout_minutes": "120"},
    ],
    ids=str,
)
def test_r137_a_budget_that_fits_is_no_warning(changes, github, job):
    github.max_live = 6
    assert job.go(**changes).ok
    assert not [line for line in job.lines if "warning" in line]


# -- R138 and R139: several coordinators ---------------------------------------------------------------------------


class Turns:
    """One virtual clock for several threads: whoever wakes next runs, and never two at once."""

    def __init__(self, clock: VirtualClock, count: int) -> None:
        self._clock = clock
        self._changed = threading.Condition()
        self._wakes: dict[int, tuple[float, int]] = {}
        self._left = count
        self._awake: int | None = None

    def monotonic(self) -> float:
        return self._clock.monotonic()

    def time(self) -> float:
        return self._clock.time()

    def sleep(self, seconds: float) -> None:
        self._wait(self._clock.elapsed + seconds)

    def begin(self, number: int) -> None:
        """Wait until all have begun."""
        self._numbers()[threading.get_ident()] = number
        self._wait(0.0)

    def end(self) -> None:
        with self._changed:
            self._left -= 1
            self._awake = None
            self._changed.notify_all()

    def _numbers(self) -> dict[int, int]:
        return self.__dict__.setdefault("_idents", {})  # type: ignore[no-any-return]

    def _wait(self, until: float) -> None:
        me = self._numbers()[threading.get_ident()]
        with self._changed:
            self._wakes[me] = (until, me)
            self._awake = None if self._awake == me else self._awake
            self._changed.notify_all()
            while not self._mine(me):
                assert self._changed.wait(60), "the others do not go on"
            self._awake = me
            del self._wakes[me]
            self._clock.advance(max(0.0, until - self._clock.elapsed))

    def _mine(self, me: int) -> bool:
        ready = self._awake is None and len(self._wakes) == self._left
        return ready and min(self._wakes.values()) == self._wakes[me]


@pytest.fixture
def side_by_side(fake, github, clock, inputs, tmp_path) -> Callable[..., list[tuple[Result, Files]]]:
    """Run several coordinators at once on one repository, each with changed inputs; files of their own."""

    def run(*changes) -> list[tuple[Result, Files]]:
        turns = Turns(clock, len(changes))
        done: dict[int, tuple[Result, Files]] = {}

        def one(number: int) -> None:
            directory = Path(tmp_path, f"job-{number}")
            directory.mkdir()
            env = fake.github_env(directory, github)
            turns.begin(number)
            try:
                done[number] = (
                    coordinator.run({**inputs, **changes[number]}, env, github, turns, lambda _: None),
                    fake.Files(env),
                )
            finally:
                turns.end()

        threads = [threading.Thread(target=one, args=(number,), daemon=True) for number in range(len(changes))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
        return [done[number] for number in range(len(changes))]

    return run


def work(number) -> dict[str, str]:
    return {"workload": json.dumps({"shard": number})}


@pytest.mark.parametrize("count", [2, 3, 5])
def test_r138_coordinators_of_one_matrix_do_not_disturb_each_other(count, github, side_by_side):
    """They have the same parent run, and the same pools."""
    github.max_live = count
    github.plan_all(**NEVER)
    github.pool(LABELS[1], runner_after=100, runs_for=200)
    for number, (result, files) in enumerate(side_by_side(*map(work, range(count)))):
        assert result.ok
        mine = [child for child in github.children if shard(child) == number]
        assert [child.labels for child in mine] == list(LABELS[:2])
        assert [attempt.run_id for attempt in result.attempts] == [child.run_id for child in mine]
        assert files.output()["run-id"] == str(mine[-1].run_id)
        assert blank(files.state())
    assert most_at_once(github) == count
    github.assert_request_ids_unique()
    github.assert_all_ended()


def test_r138_one_that_fails_leaves_the_others_alone(github, side_by_side):
    github.max_live = 2
    github.plan_all(runner_after=30, runs_for=400)
    late = {**work(0), "execution-timeout-seconds": "90"}
    (first, _), (second, _) = side_by_side(late, work(1))
    assert first.kind == "execution_timeout"
    assert second.ok
    (cancelled,) = {asked.run_id for asked in github.cancels()}
    assert shard(next(child for child in github.children if child.run_id == cancelled)) == 0


def test_r138_a_dispatch_that_is_lost_is_told_from_that_of_another_coordinator(github, side_by_side):
    github.max_live = 2
    github.fail("dispatch", error="reset", done=True)
    results = side_by_side(work(0), work(1))
    kinds = [result.kind for result, _ in results]
    assert sorted(kinds) == ["", "dispatch_ambiguous"]
    lost = kinds.index("dispatch_ambiguous")
    assert {asked.run_id for asked in github.cancels()} == {int(results[lost][0].outputs["run-id"])}
    assert shard(github.child(github.cancels()[0].run_id)) == lost


def test_r138_the_post_step_of_one_ends_only_its_own_child(fake, github, clock, job, dispatch):
    github.max_live = 2
    github.plan_all(runs_for=None)
    other = dispatch(request_id="another", parent_run_id="1")
    clock.interrupt(100)
    job.go()
    assert job.post().ok
    assert [child.run_id for child in github.live()] == [other]


def test_r139_nothing_is_claimed_and_nothing_is_capped_between_coordinators(github, side_by_side):
    """All ask the preferred pool at the same moment, and the same work twice is done twice."""
    github.max_live = 4
    results = side_by_side(*[work(0)] * 4)
    assert all(result.ok for result, _ in results)
    assert [child.labels for child in github.children] == [LABELS[0]] * 4
    assert {child.created for child in github.children} == {0.0}
    assert {asked.endpoint for asked in github.requests} == {"parent", "ref", "commit", "dispatch", "run", "jobs"}
