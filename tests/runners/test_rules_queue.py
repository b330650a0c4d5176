"""The rules R73 to R91: looks in the queue, evidence, the queue clock, its deadline, cancellation, races, exhaustion.

A child is dispatched at 0, first looked at after 15 s and then seen queued, so its ten minutes are over at 615 s.
"""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.runners.fake import FakeGitHub

CPU = "nv-cpu-general"
ONE = json.dumps([{"group": CPU, "labels": "linux-amd64-cpu16"}])
TWO = json.dumps([{"group": CPU, "labels": f"linux-amd64-cpu{cores}"} for cores in (16, 8)])
DUE = 615.0  # the end of the first child's time in the queue
BY = DUE + 120.0  # the end of its confirmation

STEP = {"name": "Set up job", "number": 1}
BEGUN = "2026-11-30T00:00:00Z"
EVIDENCE = {
    "runner id": {"runner_id": 7},
    "runner name": {"runner_name": "runner-7"},
    "job in progress": {"status": "in_progress"},
    "step in progress": {"steps": [{**STEP, "status": "in_progress", "conclusion": None}]},
    "step completed": {"steps": [{**STEP, "status": "completed", "conclusion": "success"}]},
    "second step in progress": {"steps": [{**STEP, "status": "queued"}, {**STEP, "status": "in_progress"}]},
    "queued step with a start": {"steps": [{**STEP, "status": "queued", "started_at": BEGUN}]},
    "pending step with a start": {"steps": [{**STEP, "status": "pending", "started_at": BEGUN}]},
    "step with a start alone": {"steps": [{**STEP, "status": None, "started_at": BEGUN}]},
    "second step with a start": {"steps": [{**STEP, "status": "queued"}, {**STEP, "started_at": BEGUN}]},
}
NO_EVIDENCE = {
    "zero and blank": {"runner_id": 0, "runner_name": "", "runner_group_id": 0, "runner_group_name": ""},
    "null": {"runner_id": None, "runner_name": None, "runner_group_id": None, "runner_group_name": None},
    "left out": {"runner_id": ..., "runner_name": ..., "runner_group_id": ..., "runner_group_name": ...},
    "mixed": {"runner_id": None, "runner_name": ""},
    "group id": {"runner_group_id": 9},
    "group name": {"runner_group_name": "GitHub Actions"},
    "group nought": {"runner_group_id": 0, "runner_group_name": "GitHub Actions"},
    "labels": {"labels": ["self-hosted", "gpu"]},
    "started_at": {"started_at": "2026-11-30T00:00:00Z"},
    "steps null": {"steps": None},
    "steps left out": {"steps": ...},
    "queued step": {"steps": [{**STEP, "status": "queued", "conclusion": None}]},
    "pending step": {"steps": [{**STEP, "status": "pending", "conclusion": None}]},
    "step with a start of null": {"steps": [{**STEP, "status": "queued", "started_at": None}]},
    "step with a blank start": {"steps": [{**STEP, "status": "pending", "started_at": ""}]},
    "false": {"runner_id": False},
}
CONCLUSIONS = (
    "success",
    "cancelled",
    "failure",
    "skipped",
    "neutral",
    "timed_out",
    "action_required",
    "stale",
    "startup_failure",
    None,
    "",
    "made_up",
)
OTHER_IDENTITY = {
    "head_sha": "d" * 40,
    "display_title": "somebody else's",
    "path": ".github/workflows/other.yml",
    "event": "push",
    "run_attempt": 2,
    "id": 999,
}

evidence = pytest.mark.parametrize("fields", EVIDENCE.values(), ids=EVIDENCE)
no_evidence = pytest.mark.parametrize("fields", NO_EVIDENCE.values(), ids=NO_EVIDENCE)


def at(records) -> list[float]:
    return [record.at for record in records]


def busiest_hour(records) -> int:
    times = at(records)
    return max(sum(begin <= time < begin + 3600 for time in times) for begin in times)


def given_up_at(github: FakeGitHub) -> list[float]:
    """When the first child was cancelled."""
    return at(github.cancels(1001))


# -- looks ---------------------------------------------------------------------------------------------------


def test_r73_one_look_a_minute_while_queued(github, go):
    github.never()
    go(runners=ONE)
    assert at(github.gets("jobs")) == [15.0 + 60 * number for number in range(11)] + [DUE, DUE + 5]


def test_r73_one_look_a_minute_while_executing(github, go):
    github.plan(runner_after=5, runs_for=1200)
    assert go().ok
    looks = [15.0 + 60 * number for number in range(21)]
    assert at(github.gets("jobs")) == looks
    assert at(github.gets("run")) == looks


@pytest.mark.parametrize("runner_after", [20, 80, 140])
def test_r73_one_round_is_enough_to_see_runner_and_end(github, go, clock, runner_after):
    github.plan(runner_after=runner_after, runs_for=10)
    assert go().ok
    assert clock.elapsed == runner_after + 55


def test_r73_a_minute_lies_between_the_end_of_a_round_and_the_next(github, go):
    github.latency = 2.0
    github.plan(runner_after=None)
    go(runners=ONE)
    looks = github.gets("jobs")[:9]
    for before, look in itertools.pairwise(looks):
        assert 60 <= look.at - before.ended <= 60 + 4 * 2


@pytest.mark.parametrize("seconds", [1, 30, 59, 60, 61, 90, 119, 121])
def test_r73_the_last_look_is_at_the_deadline(github, go, seconds):
    github.never()
    go(runners=ONE, queue_timeout_seconds=str(seconds))
    looks = [float(time) for time in range(15, 15 + seconds, 60)] + [15.0 + seconds]
    assert at(github.gets("jobs"))[: len(looks)] == looks
    assert given_up_at(github) == [15.0 + seconds]


def test_r74_a_queue_costs_240_reads_an_hour(github, go):
    github.plan_all(runner_after=None)
    go(runners=TWO, queue_timeout_minutes="60")
    assert len(github.dispatches()) == 2
    assert busiest_hour(github.gets()) <= 240
    assert busiest_hour(github.requests) <= 240


def test_r74_an_execution_costs_about_240_reads_an_hour(github, go):
    github.plan(runner_after=5, runs_for=3 * 3600 - 60)
    assert go().ok
    assert busiest_hour(github.gets()) <= 244  # 240, and what comes before the first round
    assert sum(3600 <= time < 7200 for time in at(github.gets())) == 240


def test_r74_conditional_and_adaptive_reads_cost_40_an_hour(github, go):
    github.plan_all(runner_after=None)
    go(runners=TWO, queue_timeout_minutes="60", conditional_requests="true", polling="adaptive")
    assert busiest_hour([record for record in github.requests if record.counted]) <= 40
    assert busiest_hour(github.gets()) <= 240


# -- evidence ------------------------------------------------------------------------------------------------


@evidence
def test_r75_each_kind_of_evidence_alone_ends_the_queue(github, go, fields):
    github.plan(runner_after=None)
    github.drift(None, at=30, job=fields)
    result = go(execution_timeout_minutes="20")
    assert result.kind == "execution_timeout"
    assert given_up_at(github) == [75.0 + 1200]
    assert len(github.dispatches()) == 1


@evidence
def test_r75_evidence_at_the_first_look_counts(github, go, fields):
    github.plan(runner_after=None)
    github.drift(None, at=0, job=fields)
    result = go(execution_timeout_minutes="20")
    assert result.kind == "execution_timeout"
    assert given_up_at(github) == [15.0 + 1200]


@no_evidence
def test_r75_what_is_no_evidence_leads_to_the_next_pool(github, go, fields):
    github.never()
    github.drift(None, at=30, job=fields)
    result = go()
    assert result.ok
    assert [attempt.outcome for attempt in result.attempts] == ["no_runner", "success"]
    assert given_up_at(github) == [DUE]


@pytest.mark.parametrize("status", ["queued", "pending", "waiting", "requested"])
def test_r75_a_runner_that_was_null_is_one_when_it_comes(github, go, status):
    github.plan(runner_after=300, runs_for=600, null_runner=True, queued_status=status)
    assert go().ok
    assert not github.cancels()


@pytest.mark.parametrize("status", ["in_progress", "pending", "waiting", "requested", "made_up", None])
def test_r76_a_run_status_alone_is_no_evidence(github, go, status):
    github.never()
    github.drift(None, at=30, run={"status": status})
    github.drift(None, at=DUE + 1, run={"status": "completed"})
    result = go()
    assert result.ok
    assert given_up_at(github) == [DUE]
    assert len(github.dispatches()) == 2


@pytest.mark.parametrize("status", ["queued", "pending", "waiting"])
def test_r76_a_run_that_looks_queued_does_not_undo_the_job(github, go, status):
    github.plan(runner_after=20, runs_for=1000)
    github.drift(None, at=0, run={"status": status})
    github.drift(None, at=1020, run={"status": "completed"})
    assert go().ok
    assert not github.cancels()


def test_r76_a_run_that_trails_its_job_is_waited_for(github, go):
    github.plan(runner_after=20, runs_for=100, run_lag=700)
    result = go()
    assert result.ok
    assert not github.cancels()
    assert github.gets("run")[-1].at >= 820


def test_r77_a_look_that_ends_after_the_deadline_is_not_the_fresh_one(github, go):
    github.plan(runner_after=100, runs_for=600)
    github.fail("jobs", since=75, until=76, takes=29)
    github.fail("parent", since=104, takes=5)
    result = go(queue_timeout_seconds="90")  # over at 105, while the round of 75 still goes on
    assert result.ok
    assert not github.cancels()
    assert 109.0 in at(github.gets("jobs"))


def test_r77_a_look_across_the_deadline_is_followed_by_a_fresh_one_before_the_cancel(github, go):
    github.never()
    github.fail("jobs", since=75, until=76, takes=29)
    github.fail("parent", since=104, takes=5)
    go(queue_timeout_seconds="90")
    assert given_up_at(github) == [109.0]
    assert 109.0 in at(github.gets("run", 1001))


# -- the queue clock -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("before", ["pending", "waiting", "requested"])
def test_r78_the_clock_starts_when_the_job_is_first_seen_queued(github, go, before):
    github.plan(runner_after=None, queued_status=before)
    github.drift(None, at=300, job={"status": "queued"})
    github.drift(None, at=918, job={"status": "completed"})
    result = go()
    assert given_up_at(github) == [315.0 + 600]
    assert result.attempts[0].queued_seconds == 600
    assert len(github.dispatches()) == 2


@pytest.mark.parametrize("before", ["pending", "waiting", "requested"])
def test_r78_a_job_that_is_queued_just_in_time_gets_its_whole_time(github, go, before):
    github.plan(runner_after=DUE + 590, queued_status=before)
    github.drift(None, at=DUE - 1, job={"status": "queued"})
    github.drift(None, at=DUE + 590, job={"status": "in_progress"})
    github.drift(None, at=DUE + 650, job={"status": "completed"})
    assert go().ok
    assert not github.cancels()


@pytest.mark.parametrize("before", ["pending", "waiting", "requested"])
def test_r78_a_job_that_never_gets_queued_is_given_up_too(github, go, before):
    github.plan(runner_after=None, queued_status=before)
    assert go().ok
    assert given_up_at(github) == [DUE]


@pytest.mark.parametrize("between", ["pending", "waiting", "requested"])
def test_r78_the_clock_is_not_started_again(github, go, between):
    github.never()
    github.drift(None, at=100, job={"status": between})
    github.drift(None, at=400, job={"status": "queued"})
    github.drift(None, at=DUE + 3, job={"status": "completed"})
    go()
    assert given_up_at(github) == [DUE]


@pytest.mark.parametrize(
    ("plan", "seen"),
    [
        ({"visible_after": 60}, 60),
        ({"queued_after": 40}, 40),
        ({"jobs_after": 100}, 100),
        ({"jobs_after": 100, "jobs_missing": "empty"}, 100),
        ({"visible_after": 16}, 20),
        ({"visible_after": 120}, 120),
    ],
)
def test_r78_preparation_does_not_count(github, go, plan, seen):
    github.plan(runner_after=None, **plan)
    go()
    assert given_up_at(github) == [seen + 600.0]


def test_r78_the_clock_starts_with_the_answer_that_shows_it(github, go):
    github.never()
    github.latency = 3.0
    go(runners=ONE)
    assert github.cancels()[0].at - github.gets("jobs")[0].ended >= 600


def test_r78_the_wall_clock_does_not_matter(github, go, clock):
    github.never()
    clock.jump(7200, at=100)
    clock.jump(-90_000, at=300)
    go()
    assert given_up_at(github) == [DUE]


def test_r29_the_deadline_in_effect_is_the_candidates_own_then_the_actions(github, go):
    runners = json.loads(TWO)
    runners[0]["queue-timeout-minutes"] = 2
    github.plan_all(runner_after=None)
    go(runners=json.dumps(runners), queue_timeout_minutes="3")
    second = github.children[1]
    assert given_up_at(github) == [15.0 + 120]
    assert at(github.cancels(1002)) == [second.created + 15 + 180]


@pytest.mark.parametrize(
    ("given", "minutes"),
    [
        ({}, 10),
        ({"queue_timeout_minutes": "1"}, 1),
        ({"queue_timeout_minutes": "60"}, 60),
        ({"queue_policy": "extended"}, 10),
        ({"queue_policy": "extended", "queue_timeout_minutes": "4"}, 4),
        ({"queue_policy": "extended", "runner_type": "gpu"}, 15),
        ({"queue_policy": "standard", "runner_type": "gpu"}, 10),
        ({"queue_timeout_seconds": "45"}, 0.75),
    ],
)
def test_r29_the_deadline_in_effect_comes_from_input_or_policy(github, go, given, minutes):
    github.never()
    go(**given)
    assert given_up_at(github) == [15.0 + 60 * minutes]


# -- the deadline --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seconds", [1, 60, 61, 120, 121, 540, 600])
def test_r79_a_fresh_look_at_run_and_job_comes_before_the_cancel(github, go, seconds):
    github.never()
    go(runners=ONE, queue_timeout_seconds=str(seconds))
    cancel = github.cancels()[0]
    before = [asked for asked in github.requests if asked.at == 15 + seconds and asked.number < cancel.number]
    assert [asked.endpoint for asked in before] == ["run", "jobs"]


@pytest.mark.parametrize("runner_after", [556, 600, 614, 614.999, 615])
def test_r79_a_runner_that_just_came_is_not_cancelled(github, go, runner_after):
    github.plan(runner_after=runner_after, runs_for=600)
    result = go()
    assert result.ok
    assert result.attempts[0].queued_seconds == 600
    assert not github.cancels()
    assert len(github.dispatches()) == 1


@evidence
def test_r79_any_evidence_at_the_fresh_look_stops_the_cancel(github, go, fields):
    github.never()
    github.drift(None, at=DUE, job=fields)
    result = go(execution_timeout_minutes="5")
    assert result.kind == "execution_timeout"
    assert given_up_at(github) == [DUE + 300]


@pytest.mark.parametrize(
    ("conclusion", "kind"), [("success", ""), ("failure", "worker_failed"), ("cancelled", "worker_failed")]
)
def test_r79_a_job_that_just_ended_is_not_cancelled(github, go, conclusion, kind):
    github.plan(ends_after=610, conclusion=conclusion)
    assert go().kind == kind
    assert not github.cancels()
    assert len(github.dispatches()) == 1


HALVES = {
    "run": {"run": {"status": "completed"}},
    "run with a conclusion": {"run": {"status": "completed", "conclusion": "cancelled"}},
    "job": {"job": {"status": "completed"}},
    "job with a conclusion": {"job": {"status": "completed", "conclusion": "cancelled"}},
    "both without a conclusion": {"run": {"status": "completed"}, "job": {"status": "completed"}},
    "both, the run without a conclusion": {
        "run": {"status": "completed"},
        "job": {"status": "completed", "conclusion": "cancelled"},
    },
    "both, the job without a conclusion": {
        "run": {"status": "completed", "conclusion": "failure"},
        "job": {"status": "completed"},
    },
}
WHOLE = {"status": "completed", "conclusion": "cancelled"}
halves = pytest.mark.parametrize("shown", HALVES.values(), ids=HALVES)


@halves
@pytest.mark.parametrize("when", [30, 556, DUE])
def test_r79_r93_what_has_half_ended_at_the_deadline_is_over_and_no_fallback(github, go, clock, lines, *, shown, when):
    """For two minutes it is looked at every five seconds; only the cleanup of the failure asks to cancel."""
    github.never()
    github.drift(None, at=when, **shown)
    result = go()
    assert result.kind == "worker_failed"
    assert "child 1001 ended by itself, and not in both its run and its job: run " in result.message
    assert len(github.dispatches()) == 1
    asked = [cancel.number for cancel in github.cancels()]
    looks = [time for time in at(github.gets("jobs")) if time >= DUE]
    assert looks == [DUE + 5 * number for number in range(25)]
    assert [time for time in at(github.gets("run", 1001)) if time >= DUE][:25] == looks
    assert all(number > github.gets("jobs")[-1].number for number in asked)
    assert BY <= clock.elapsed <= BY + 120
    assert result.attempts[0].outcome == "worker_failed"
    assert not any("cancelling" in line for line in lines)


@halves
@pytest.mark.parametrize("end", [DUE + 1, DUE + 60, BY])
@pytest.mark.parametrize("conclusion", ["cancelled", "failure", "skipped"])
def test_r79_r93_the_other_half_is_waited_for(github, go, clock, files, *, shown, end, conclusion):
    github.never()
    github.drift(None, at=DUE, **shown)
    github.drift(None, at=end, run={**WHOLE, "conclusion": conclusion}, job={**WHOLE, "conclusion": conclusion})
    result = go()
    assert result.kind == "worker_failed"
    assert f"completed/{conclusion}" in result.message
    assert "not in both" not in result.message
    assert len(github.dispatches()) == 1
    assert clock.elapsed == DUE + -(-(end - DUE) // 5) * 5
    assert not [cancel for cancel in github.cancels() if cancel.at < end], "nothing is cancelled"
    assert files.state()["run-id"] == ""


@halves
def test_r79_r93_the_other_half_that_comes_after_two_minutes_comes_too_late(github, go, shown):
    github.never()
    github.drift(None, at=DUE, **shown)
    github.drift(None, at=BY + 0.5, run=WHOLE, job=WHOLE)
    result = go()
    assert result.kind == "worker_failed"
    assert "not in both its run and its job" in result.message
    assert len(github.dispatches()) == 1


@pytest.mark.parametrize("run", [True, False])
@pytest.mark.parametrize("job", [True, False])
def test_r93_a_child_whose_other_half_says_success_has_succeeded(github, go, run, job):
    """A job that lagged behind may have run: then its end is the result, and no reason to fall back either way."""
    github.plan(ends_after=DUE - 1, conclusion="success")
    hidden = {"status": "queued", "conclusion": None}
    github.drift(None, at=0, run={} if run else hidden, job={} if job else hidden)
    github.drift(None, at=DUE + 31, run={"status": "completed", "conclusion": "success"})
    github.drift(None, at=DUE + 31, job={"status": "completed", "conclusion": "success"})
    result = go()
    assert len(github.dispatches()) == 1
    if run or job:
        assert result.ok
        assert not github.cancels()
    else:  # nothing showed an end, so it was cancelled, and then it turned out to have succeeded
        assert result.kind == "race"


@pytest.mark.parametrize("which", ["run", "job"])
def test_r94_a_half_ended_child_that_had_a_runner_spends_its_budget(github, go, which):
    github.plan(runner_after=20, runs_for=None)
    github.drift(None, at=100, **{which: {"status": "completed"}})
    result = go(execution_timeout_minutes="10")
    assert result.kind == "execution_timeout"
    assert len(github.dispatches()) == 1
    assert given_up_at(github) == [75.0 + 600]


@pytest.mark.parametrize("which", ["run", "job"])
def test_r79_a_half_end_that_is_first_seen_after_the_cancellation_is_waited_for_as_ever(github, go, which):
    github.never()
    github.drift(None, at=DUE + 1, **{which: {"status": "completed"}})
    assert go().ok
    assert given_up_at(github) == [DUE]
    assert len(github.dispatches()) == 2


@pytest.mark.parametrize("count", [1, 2, 3])
def test_r80_each_child_that_nobody_took_is_cancelled_once(github, go, count):
    github.never(count)
    go()
    assert [asked.run_id for asked in github.cancels()] == [1001, 1002, 1003][:count]
    assert not github.force_cancels()


@pytest.mark.parametrize("force", ["true", "false"])
def test_r80_a_child_is_never_forced_to_make_way_for_the_next(github, go, force):
    github.plan(runner_after=None, cancel_after=None)
    assert go(force_cancel=force).kind == "cancel_unconfirmed"
    assert not github.force_cancels()


@pytest.mark.parametrize("cancel_after", [0, 3, 5, 6, 60, 114, 117, 119, 120])
def test_r81_the_next_dispatch_comes_after_the_confirmation(github, go, cancel_after):
    github.plan(runner_after=None, cancel_after=cancel_after)
    assert go().ok
    first, second = github.children
    assert second.created == DUE + -(-cancel_after // 5) * 5
    last = [github.gets(endpoint, first.run_id)[-1] for endpoint in ("run", "jobs")]
    assert all(first.ended() <= look.at <= second.created for look in last)


# -- confirmation --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cancel_after", "confirmed"),
    [(119.5, True), (120, True), (120.001, False), (121, False), (300, False), (None, False)],
)
def test_r82_the_window_is_two_minutes(github, go, clock, cancel_after, confirmed):
    github.plan(runner_after=None, cancel_after=cancel_after)
    result = go()
    assert result.ok is confirmed
    assert result.kind == ("" if confirmed else "cancel_unconfirmed")
    assert len(github.dispatches()) == 1 + confirmed
    if not confirmed:
        assert clock.elapsed == BY


def test_r82_the_window_starts_with_the_cancellation_not_with_its_answer(github, go, clock):
    github.plan(runner_after=None, cancel_after=None)
    github.fail("cancel", takes=25)
    assert go().kind == "cancel_unconfirmed"
    assert clock.elapsed == BY


def test_r82_each_candidate_has_a_window_of_its_own(github, go):
    for _ in range(3):
        github.plan(runner_after=None, cancel_after=118)
    assert go().kind == "queue_exhausted"


def test_r83_run_and_job_are_read_together_every_five_seconds(github, go):
    github.plan(runner_after=None, cancel_after=None)
    go()
    expected = [DUE + 5 * number for number in range(25)]
    for endpoint in ("run", "jobs"):
        assert [time for time in at(github.gets(endpoint)) if time >= DUE][1:] == expected  # [0]: the fresh look
    ends = [asked.endpoint for asked in github.gets() if asked.at > DUE]
    assert ends == ["run", "jobs"] * 24


def test_r84_run_and_job_cancelled_without_evidence_lead_on(github, go, files):
    github.never()
    result = go()
    assert result.ok
    assert [attempt.outcome for attempt in result.attempts] == ["no_runner", "success"]
    assert files.output()["attempts"] == "2"


@pytest.mark.parametrize(("run", "job"), [(True, False), (False, True), (False, False)])
@pytest.mark.parametrize("status", ["queued", "pending", "waiting", "requested", "in_progress", "made_up", None])
def test_r84_run_and_job_have_to_be_completed_both(github, go, status, run, job):
    github.never()
    fields = {"status": status, "conclusion": "cancelled"}
    github.drift(None, at=DUE + 1, run={} if run else fields, job={} if job else fields)
    result = go()
    assert result.kind == ("race" if status == "in_progress" and not job else "cancel_unconfirmed")
    assert len(github.dispatches()) == 1


@pytest.mark.parametrize("job", CONCLUSIONS)
@pytest.mark.parametrize("run", CONCLUSIONS)
def test_r84_run_and_job_have_to_be_cancelled_both(github, go, run, job):
    github.never()
    github.drift(None, at=DUE + 3, run={"conclusion": run}, job={"conclusion": job})
    result = go()
    if run == job == "cancelled":
        assert result.ok
    else:
        assert result.kind == ("race" if job == "success" else "cancel_unconfirmed")
        assert len(github.dispatches()) == 1


@pytest.mark.parametrize("lag", [0, 4, 30, 110])
@pytest.mark.parametrize("names", [("run_lag",), ("conclusion_lag",), ("run_lag", "conclusion_lag")])
def test_r85_late_updates_are_waited_for(github, go, names, lag):
    parts = dict.fromkeys(names, lag / len(names))
    github.plan(runner_after=None, **parts)
    assert go().ok
    assert github.children[1].created == DUE + -(-(3 + lag) // 5) * 5


@pytest.mark.parametrize("names", [("run_lag",), ("conclusion_lag",)])
def test_r85_not_for_ever(github, go, names):
    github.plan(runner_after=None, **dict.fromkeys(names, 118))
    assert go().kind == "cancel_unconfirmed"


@pytest.mark.parametrize(("field", "value"), OTHER_IDENTITY.items())
def test_r85_the_identity_of_the_run_is_not_relaxed(github, go, field, value):
    github.never()
    github.drift(None, at=DUE + 1, run={field: value})
    assert go().kind == "identity_mismatch"
    assert len(github.dispatches()) == 1


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({"id": 4711}, "identity_mismatch"),
        ({"run_id": 999}, "identity_mismatch"),
        ({"run_attempt": 2}, "identity_mismatch"),
        ({"name": "other"}, "contract"),
    ],
)
def test_r85_the_identity_of_the_job_is_not_relaxed(github, go, fields, kind):
    github.never()
    github.drift(None, at=DUE + 1, job=fields)
    assert go().kind == kind
    assert len(github.dispatches()) == 1


# -- the race ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "plan",
    [
        {"runner_after": None, "runner_after_cancel": 0},
        {"runner_after": None, "runner_after_cancel": 1},
        {"runner_after": None, "runner_after_cancel": 2.9},
        {"runner_after": None, "runner_after_cancel": 60, "cancel_after": 90},
        {"runner_after": None, "runner_after_cancel": 119, "cancel_after": None},
        {"runner_after": 615.001, "runs_for": 600},
        {"runner_after": 616, "runs_for": 1, "finishes_despite_cancel": True},
        {"runner_after": 616, "runs_for": 1, "finishes_despite_cancel": True, "conclusion": "failure"},
        {"runner_after": 616, "runs_for": 1, "finishes_despite_cancel": True, "conclusion": "cancelled"},
        {"runner_after": 616, "runs_for": 20, "finishes_despite_cancel": True},
        {"runner_after": 700, "runs_for": 20, "finishes_despite_cancel": True},
        {"runner_after": 616, "runs_for": 1, "finishes_despite_cancel": True, "runner_lag": 9000},
        {"ends_after": 617, "conclusion": "success", "finishes_despite_cancel": True},
        {"runner_after": 616, "starts_after": 600, "runs_for": 1000},
    ],
)
def test_r86_a_runner_during_the_cancellation_is_a_race(github, go, lines, plan):
    github.plan(**plan)
    result = go()
    assert result.kind == "race"
    assert not result.ok
    assert len(github.dispatches()) == 1
    assert len(github.cancels()) == 1
    assert "1001" in result.message
    assert any(line.startswith("race: ") for line in lines)
    assert result.attempts[0].outcome == "race"


@evidence
@pytest.mark.parametrize("after", [0.5, 3, 100])
def test_r86_every_kind_of_evidence_is_a_race(github, go, fields, after):
    github.plan(runner_after=None, cancel_after=100)
    github.drift(None, at=DUE + after, job=fields)
    assert go().kind == "race"
    assert len(github.dispatches()) == 1


@evidence
def test_r86_evidence_that_vanishes_again_is_still_a_race(github, go, fields):
    github.plan(runner_after=None, cancel_after=20)
    github.drift(None, at=DUE + 9, job=fields)
    github.drift(None, at=DUE + 11, job={"runner_id": 0, "runner_name": "", "steps": [], "status": "completed"})
    assert go().kind == "race"
    assert len(github.dispatches()) == 1


@no_evidence
def test_r86_what_is_no_evidence_is_no_race(github, go, fields):
    github.never()
    github.drift(None, at=DUE + 1, job=fields)
    assert go().ok
    assert len(github.dispatches()) == 2


@pytest.mark.parametrize("last", [1, 2, 3])
def test_r89_no_race_is_ever_followed_by_a_second_run(github, go, last):
    github.never(last - 1)
    github.plan(runner_after=None, runner_after_cancel=1)
    result = go()
    assert result.kind == "race"
    assert len(github.dispatches()) == last
    github.assert_no_dispatch_after_allocation()


# -- the end of the window -----------------------------------------------------------------------------------


def test_r87_the_end_reports_what_was_seen_last_and_stops(github, go, files, lines):
    github.plan(runner_after=None, cancel_after=None)
    result = go()
    assert result.kind == "cancel_unconfirmed"
    for text in ("child 1001", "120 s", "run queued", "job queued", "runner none", "unconfirmed"):
        assert text in result.message
    assert result.state["run-id"] == "1001"
    assert files.state()["run-id"] == "1001"
    assert github.requests[-1].at == BY
    assert len(github.cancels()) == 1
    assert any("cancelling child 1001, look 25" in line for line in lines)


@pytest.mark.parametrize(
    ("run", "job"),
    [
        ("cancelled", "failure"),
        ("cancelled", "skipped"),
        ("failure", "cancelled"),
        ("failure", "failure"),
        ("success", "cancelled"),
        ("success", "skipped"),
    ],
)
def test_r87_of_a_child_that_was_seen_to_have_ended_nothing_is_left(github, go, files, lines, *, run, job):
    """It ended, but not as a cancellation before any execution: no fallback, and nothing to clean up either."""
    github.plan(runner_after=None)
    github.drift(None, at=DUE + 3, run={"conclusion": run}, job={"conclusion": job})
    result = go()
    assert result.kind == "cancel_unconfirmed"
    assert len(github.dispatches()) == 1
    assert len(github.cancels()) == 1
    assert github.requests[-1].at == BY, "and it is not looked at again"
    assert result.state == {}
    assert not any(files.state().values())
    assert "cleanup" not in result.message
    assert "Cleanup" not in files.summary()
    assert lines[-1].startswith("cancel_unconfirmed; polling has finished. View worker job logs here: ")


@pytest.mark.parametrize(("run", "job"), [("cancelled", None), (None, "cancelled"), (None, None), ("failure", None)])
def test_r87_of_a_child_whose_end_does_not_say_how_something_is_left(github, go, files, run, job):
    github.plan(runner_after=None)
    github.drift(None, at=DUE + 3, run={"conclusion": run}, job={"conclusion": job})
    result = go()
    assert result.kind == "cancel_unconfirmed"
    assert result.state["run-id"] == files.state()["run-id"] == "1001"
    assert "cleanup of 1001: unconfirmed" in result.message


@pytest.mark.parametrize(("plan", "kind"), [({"cancel_after": None}, "cancel_unconfirmed"), ({"cancel_after": 90}, "")])
def test_r127_the_wait_ends_when_the_candidate_is_given_up(github, go, files, plan, kind):
    github.plan(runner_after=None, **plan)
    result = go(runners=TWO)
    assert result.kind == kind
    assert result.attempts[0].queued_seconds == 600
    assert "| linux-amd64-cpu16 | 10 min |" in files.summary()


def test_r127_a_runner_that_came_while_it_was_cancelled_ends_the_wait(github, go):
    github.plan(runner_after=None, runner_after_cancel=1)
    (attempt,) = go().attempts
    assert 600 <= attempt.queued_seconds <= 605


def test_r87_the_last_observation_is_the_last_one(github, go):
    github.plan(runner_after=None, cancel_after=50, run_lag=9000)
    result = go()
    assert "run queued" in result.message
    assert "job completed/cancelled" in result.message


@pytest.mark.parametrize("endpoint", ["run", "jobs"])
def test_r88_an_answer_after_the_window_leads_nowhere(github, go, endpoint):
    github.plan(runner_after=None, cancel_after=117)
    github.fail(endpoint, since=BY, takes=0.5)
    assert go().kind == "cancel_unconfirmed"
    assert len(github.dispatches()) == 1
    assert max(at(github.requests)) == BY


@pytest.mark.parametrize("endpoint", ["run", "jobs"])
def test_r88_an_answer_that_comes_in_the_last_moment_counts(github, go, endpoint):
    github.plan(runner_after=None, cancel_after=110)
    github.fail(endpoint, since=BY - 10, until=BY - 9, takes=9)
    assert go().ok
    assert github.children[1].created == BY - 1


@pytest.mark.parametrize("endpoint", ["run", "jobs"])
@pytest.mark.parametrize("fault", [{"status": 500}, {"error": "reset"}, {"status": 200, "body": b"{"}], ids=str)
def test_r88_retries_share_the_window(github, go, clock, endpoint, fault):
    github.plan(runner_after=None, cancel_after=116)
    github.fail(endpoint, since=BY - 4, times=None, **fault)
    result = go()
    assert result.kind == "cancel_unconfirmed"
    assert len(github.dispatches()) == 1
    assert clock.elapsed == BY
    assert f"/actions/runs/1001{'/jobs' if endpoint == 'jobs' else ''}" in result.message


@pytest.mark.parametrize("endpoint", ["run", "jobs"])
def test_r88_a_request_has_only_the_rest_of_the_window(github, go, clock, endpoint):
    github.plan(runner_after=None, cancel_after=112)
    github.fail(endpoint, since=BY - 6, times=None, takes=28)
    assert go().kind == "cancel_unconfirmed"
    assert clock.elapsed == BY
    assert len(github.dispatches()) == 1


def test_r88_a_retry_within_the_window_can_confirm(github, go):
    github.plan(runner_after=None, cancel_after=95)
    github.fail("jobs", since=DUE + 95, status=503, times=2)
    assert go().ok
    assert github.children[1].created == DUE + 95 + 15


@pytest.mark.parametrize("wait", [10, 30, 60])
def test_r88_rate_limits_share_the_window(github, go, wait):
    github.plan(runner_after=None, cancel_after=100)
    github.fail("jobs", since=DUE + 100, status=429, headers={"Retry-After": str(wait)})
    assert go().kind == ("" if wait <= 20 else "cancel_unconfirmed")
    assert len(github.dispatches()) == 1 + (wait <= 20)


# -- answers to the cancellation -----------------------------------------------------------------------------

COMPLETED = {"message": "Cannot cancel a workflow run that is completed."}
NOT_QUEUED = {"message": "Cannot cancel a workflow run that has not been queued yet."}


@pytest.mark.parametrize("body", [COMPLETED, NOT_QUEUED])
def test_r84_a_409_is_not_an_error_when_the_run_is_seen_cancelled(github, go, body):
    github.never()
    github.fail("cancel", status=409, body=body, done=True)
    result = go()
    assert result.ok
    assert len(github.cancels(1001)) == 1
    assert github.children[1].created == DUE + 5


@pytest.mark.parametrize("body", [COMPLETED, NOT_QUEUED])
def test_r87_a_409_confirms_nothing_by_itself(github, go, clock, body):
    github.never()
    github.fail("cancel", status=409, body=body, times=9)
    result = go()
    assert result.kind == "cancel_unconfirmed"
    assert len(github.dispatches()) == 1
    assert clock.elapsed == BY
    assert result.state["run-id"] == "1001"


@pytest.mark.parametrize("refusals", [1, 2])
def test_r82_a_cancellation_that_was_refused_is_asked_for_again_in_the_same_window(github, go, refusals):
    github.never()
    github.fail("cancel", status=409, body=NOT_QUEUED, times=refusals)
    assert go().ok
    assert at(github.cancels(1001)) == [DUE + 30 * n for n in range(refusals + 1)]
    assert github.children[1].created == DUE + 30 * refusals + 5


def test_r82_a_cancellation_that_was_accepted_is_asked_for_once(github, go):
    github.plan(runner_after=None, cancel_after=100)
    assert go().ok
    assert len(github.cancels(1001)) == 1


@pytest.mark.parametrize(("conclusion", "kind"), [("success", "race"), ("failure", "race"), ("cancelled", "race")])
def test_r86_a_409_because_it_ended_with_a_runner_is_a_race(github, go, conclusion, kind):
    github.plan(runner_after=DUE + 0.5, runs_for=0.5, conclusion=conclusion, finishes_despite_cancel=True)
    github.fail("cancel", status=409, body=COMPLETED, takes=2)
    assert go().kind == kind
    assert len(github.dispatches()) == 1


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ({"status": 404}, "api_error"),
        ({"status": 400}, "api_error"),
        ({"status": 422}, "api_error"),
        ({"status": 401}, "auth"),
        ({"status": 403}, "auth"),
        ({"status": 500, "times": 3}, "api_error"),
        ({"status": 502, "times": 3}, "api_error"),
        ({"error": "reset", "times": 3}, "api_error"),
        ({"error": "reset", "times": 3, "done": True}, "api_error"),
        ({"takes": 31, "times": 3}, "api_error"),
    ],
    ids=str,
)
def test_r80_a_cancellation_that_fails_stops_the_sequence(github, go, fault, kind):
    github.never()
    github.fail("cancel", **fault)
    result = go()
    assert result.kind == kind
    assert "POST /repos/o/r/actions/runs/1001/cancel" in result.message
    assert len(github.dispatches()) == 1
    github.assert_all_ended()
    assert "cleanup of 1001: confirmed" in result.message
    assert not result.state


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize(
    "fault",
    [
        {"status": 500},
        {"status": 502, "done": True},
        {"error": "reset"},
        {"error": "reset", "done": True},
        {"takes": 31},
    ],
    ids=str,
)
def test_r84_a_cancellation_that_needs_retries_leads_on_all_the_same(github, go, fault, times):
    github.never()
    github.fail("cancel", times=times, **fault)
    result = go()
    assert result.ok
    assert len(github.cancels(1001)) == times + 1
    assert len(github.dispatches()) == 2


def test_r88_a_cancellation_shares_the_window_with_its_retries(github, go, clock):
    github.never()
    github.fail("cancel", status=429, headers={"Retry-After": "60"}, times=None)
    result = go()
    assert result.kind in ("api_error", "cancel_unconfirmed")
    assert given_up_at(github)[:3] == [DUE, DUE + 60, BY]  # what follows is the cleanup
    assert len(github.dispatches()) == 1


def test_r88_no_cancellation_is_asked_for_after_the_window(github, go):
    github.never()
    for fault in ({"status": 429, "headers": {"Retry-After": "60"}}, {"status": 500}) * 2:
        github.fail("cancel", **fault)
    result = go()
    assert result.kind == "cancel_unconfirmed"
    assert given_up_at(github) == [DUE, DUE + 60, DUE + 65]
    assert "429" in result.message
    assert result.state["run-id"] == "1001"


# -- exhaustion ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", range(1, 8))
def test_r90_all_queues_exhausted_is_a_failure(github, go, files, count):
    sizes = (2, 4, 8, 16, 32, 64, 128)[:count]
    runners = json.dumps([{"group": CPU, "labels": f"linux-amd64-cpu{size}"} for size in sizes])
    github.plan_all(runner_after=None)
    result = go(runners=runners, queue_timeout_minutes="1")
    assert not result.ok
    assert result.kind == "queue_exhausted"
    assert [attempt.outcome for attempt in result.attempts] == ["no_runner"] * count
    assert [child.labels for child in github.children] == [f"linux-amd64-cpu{size}" for size in sizes]
    assert files.output()["attempts"] == str(count)
    assert files.output()["run-id"] == str(1000 + count)
    assert all(f"linux-amd64-cpu{size}" in result.message for size in sizes)


@pytest.mark.parametrize("runners", [ONE, TWO, ""])
def test_r91_the_last_child_is_cancelled_and_confirmed_too(github, go, files, clock, runners):
    github.plan_all(runner_after=None)
    result = go(runners=runners)
    last = github.children[-1]
    assert len(github.cancels(last.run_id)) == 1
    github.assert_all_ended()
    for endpoint in ("run", "jobs"):
        assert github.gets(endpoint, last.run_id)[-1].at >= last.ended()
    assert not result.state
    assert files.state()["run-id"] == ""


def test_r91_the_last_child_that_does_not_end_is_reported_so(github, go, files):
    github.plan(runner_after=None, cancel_after=None)
    result = go(runners=ONE)
    assert result.kind == "cancel_unconfirmed"
    assert files.state()["run-id"] == "1001"


def test_r91_the_last_child_that_gets_a_runner_while_cancelled_is_a_race(github, go):
    github.plan(runner_after=None, runner_after_cancel=1)
    assert go(runners=ONE).kind == "race"


@pytest.mark.parametrize(
    ("runner_type", "waits"),
    [
        ("cpu", [600, 600, 600, 3600]),
        ("cpu-arm64", [600, 600, 600, 3600]),
        ("gpu", [900] * 6 + [3600]),
        ("gpu-arm64", [900] * 4),
        ("gpu-amd64-2gpu", [900] * 3 + [3600]),
        ("gpu-arm64-2gpu", [900]),
    ],
)
def test_r40_the_last_wait_is_a_dispatch_like_every_other(github, go, runner_type, waits):
    github.plan_all(runner_after=None)
    result = go(runner_type=runner_type, queue_policy="extended")
    assert result.kind == "queue_exhausted"
    children = github.children
    assert [at(github.cancels(child.run_id))[0] - child.created - 15 for child in children] == waits
    assert len({child.request_id for child in children}) == len(waits)
    for asked, before in zip(github.dispatches()[1:], children, strict=False):
        assert before.ended() <= asked.at
        checks = [other.endpoint for other in github.requests if other.number in range(asked.number - 3, asked.number)]
        assert checks == ["parent", "ref", "commit"]


def test_r40_the_last_wait_asks_a_pool_of_before_again(github, go):
    github.never(3)
    github.plan(runner_after=3000, runs_for=60)
    result = go(queue_policy="extended")
    assert result.ok
    labels = [child.labels for child in github.children]
    assert labels[-1] == "linux-amd64-cpu32"
    assert labels[-1] in labels[:-1]
    assert [attempt.outcome for attempt in result.attempts] == ["no_runner"] * 3 + ["success"]


@pytest.mark.parametrize("bad", [{"cancel_after": None}, {"runner_after_cancel": 1}])
def test_r40_the_last_wait_comes_only_when_every_earlier_child_is_over(github, go, bad):
    github.never(2)
    github.plan(runner_after=None, **bad)
    assert go(queue_policy="extended").kind in ("race", "cancel_unconfirmed")
    assert len(github.dispatches()) == 3


# -- options that must not change what is decided ------------------------------------------------------------

OPTIONS = [
    {"conditional_requests": "true"},
    {"polling": "adaptive"},
    {"conditional_requests": "true", "polling": "adaptive"},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize(
    ("plan", "end"),
    [
        ({"runner_after": None}, ("", 2)),
        ({"runner_after": 614}, ("", 1)),
        ({"runner_after": None, "null_runner": True}, ("", 2)),
        ({"runner_after": None, "cancel_after": 119}, ("", 2)),
        ({"runner_after": None, "cancel_after": 121}, ("cancel_unconfirmed", 1)),
        ({"runner_after": None, "runner_after_cancel": 1}, ("race", 1)),
        ({"runner_after": None, "run_lag": 30}, ("", 2)),
        ({"runner_after": 400, "conclusion": "failure"}, ("worker_failed", 1)),
        ({"ends_after": 400, "conclusion": "cancelled"}, ("worker_failed", 1)),
    ],
    ids=str,
)
def test_r79_ways_of_polling_do_not_change_what_is_decided(github, go, options, plan, end):
    kind, dispatches = end
    github.plan(**plan)
    assert go(**options).kind == kind
    assert len(github.dispatches()) == dispatches
    assert given_up_at(github) in ([], [DUE])


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_r97_ways_of_polling_do_not_hide_a_change(github, go, options):
    github.never()
    github.move(github.source_ref, "e" * 40, at=300)
    assert go(**options).kind == "source_changed"
    assert github.cancels()[0].at <= 300 + (180 if "polling" in options else 60), "at the next look"


@pytest.mark.parametrize("seconds", [30, 60, 90, 600, 3600])
def test_r73_adaptive_looks_are_denser_near_the_deadline_and_never_after_it(github, go, seconds):
    github.never()
    go(runners=ONE, queue_timeout_seconds=str(seconds), polling="adaptive")
    looks = sorted({time for time in at(github.gets("jobs")) if time <= 15 + seconds})
    assert looks[0] == 15
    assert looks[-1] == 15 + seconds
    gaps = [later - before for before, later in itertools.pairwise(looks)]
    assert all(15 <= gap <= 180 for gap in gaps[:-1])
    if seconds < 600:
        assert all(gap == 60 for gap in gaps[:-1]), "too short for any saving: as steadily"
    else:
        last = gaps[gaps.index(max(gaps)) :]
        assert last == sorted(last, reverse=True)
        assert last[-1] <= 30
