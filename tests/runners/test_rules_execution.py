"""The rules R92 to R104: no fallback after evidence, the result, the execution budget, drift, contract errors.

A child is dispatched at 0 and first looked at after 15 s; its further looks are a minute apart.
"""

from __future__ import annotations

import json

import pytest

from pytest_sgpu.runners.ports import Result

DUE = 615.0  # the end of the first child's time in the queue
OTHER_SHA = "e" * 40
STEP = {"name": "Set up job", "number": 1}
EVIDENCE = {
    "runner id": {"runner_id": 7},
    "runner name": {"runner_name": "runner-7"},
    "job in progress": {"status": "in_progress"},
    "step in progress": {"steps": [{**STEP, "status": "in_progress", "conclusion": None}]},
    "step completed": {"steps": [{**STEP, "status": "completed", "conclusion": "success"}]},
    "step with a start": {"steps": [{**STEP, "status": "queued", "started_at": "2026-11-30T00:00:00Z"}]},
}
GONE = {"runner_id": 0, "runner_name": "", "steps": [], "status": "queued"}
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
    "made_up",
)
POLICIES = ("current", "pinned-after-start")

evidence = pytest.mark.parametrize("fields", EVIDENCE.values(), ids=EVIDENCE)
policies = pytest.mark.parametrize("policy", POLICIES)


def at(records) -> list[float]:
    return [record.at for record in records]


def stopped(github, result: Result, kind: str) -> None:
    """One dispatch, of the kind that is expected, and its child cleaned up."""
    assert result.kind == kind
    assert not result.ok
    assert len(github.dispatches()) == 1
    assert len(github.cancels(1001)) == 1
    github.assert_all_ended()
    assert "cleanup of 1001: confirmed" in result.message
    assert not result.state


# -- after evidence ------------------------------------------------------------------------------------------


@evidence
@pytest.mark.parametrize("gone", [100, 400, 560])
def test_r92_no_fallback_even_when_the_runner_is_gone_again(github, go, fields, gone):
    github.plan(runner_after=None)
    github.drift(None, at=40, job=fields)
    github.drift(None, at=gone, job=GONE)
    result = go(execution_timeout_minutes="30")
    stopped(github, result, "execution_timeout")
    assert at(github.cancels()) == [75.0 + 1800]


@evidence
def test_r92_a_cancelled_end_after_evidence_is_no_fallback(github, go, fields):
    github.plan(ends_after=500, conclusion="cancelled")
    github.drift(None, at=40, job=fields)
    github.drift(None, at=100, job={**GONE, "status": "completed"})
    assert go().kind == "worker_failed"
    assert len(github.dispatches()) == 1
    assert not github.cancels()


@evidence
def test_r92_the_work_can_still_succeed_when_the_runner_is_gone_again(github, go, fields):
    github.plan(ends_after=900, conclusion="success")
    github.drift(None, at=40, job=fields)
    github.drift(None, at=100, job=GONE)
    github.drift(None, at=900, job={"status": "completed"})
    result = go()
    assert result.ok
    assert result.attempts[0].queued_seconds == 60


@pytest.mark.parametrize("status", ["queued", "pending", "waiting", "requested"])
def test_r92_a_job_that_is_queued_again_does_not_start_the_queue_clock(github, go, status):
    github.plan(runner_after=20, runs_for=2000)
    github.drift(None, at=100, job={"status": status, "runner_id": 0, "runner_name": "", "steps": []})
    github.drift(None, at=2020, job={"status": "completed"})
    assert go().ok
    assert not github.cancels()


@pytest.mark.parametrize("earlier", [0, 1, 2])
def test_r92_a_runner_at_any_candidate_ends_the_sequence(github, go, earlier):
    github.never(earlier)
    github.plan(conclusion="failure")
    assert go().kind == "worker_failed"
    assert len(github.dispatches()) == earlier + 1
    github.assert_no_dispatch_after_allocation()


@pytest.mark.parametrize("when", [5, 14, 60, 100, 540, 610])
def test_r93_a_child_that_others_cancelled_in_the_queue_is_a_failure(github, go, files, when):
    github.plan(ends_after=when, conclusion="cancelled")
    result = go()
    assert result.kind == "worker_failed"
    assert "completed/cancelled" in result.message
    assert len(github.dispatches()) == 1
    assert not github.cancels()
    assert files.state()["run-id"] == ""


@pytest.mark.parametrize("lag", ["run_lag", "conclusion_lag"])
def test_r93_also_when_its_end_shows_late(github, go, lag):
    github.plan(ends_after=100, conclusion="cancelled", **{lag: 130})
    assert go().kind == "worker_failed"
    assert len(github.dispatches()) == 1


def test_r93_a_child_that_others_cancelled_while_it_ran_is_a_failure(github, go, clock):
    github.plan(runner_after=20, runs_for=None)
    clock.at(300, lambda: github.children[0].cancel_asked.append(300.0))
    assert go().kind == "worker_failed"
    assert len(github.dispatches()) == 1
    assert not github.cancels()


@pytest.mark.parametrize("earlier", [1, 2])
def test_r93_also_at_a_later_candidate(github, go, earlier):
    github.never(earlier)
    github.plan(ends_after=100, conclusion="cancelled")
    result = go()
    assert result.kind == "worker_failed"
    assert len(github.dispatches()) == earlier + 1


# -- the execution budget ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        ({"execution_timeout_minutes": "1"}, 60),
        ({"execution_timeout_minutes": "10"}, 600),
        ({"execution_timeout_seconds": "90"}, 90),
        ({"execution_timeout_seconds": "601"}, 601),
        ({}, 180 * 60),
    ],
)
@pytest.mark.parametrize("runner", [(5, 15), (20, 75), (300, 315), (615, 615)])
def test_r94_the_budget_counts_from_the_first_look_that_shows_the_runner(github, go, given, seconds, runner):
    runner_after, seen = runner
    github.plan(runner_after=runner_after, runs_for=None)
    result = go(**given)
    stopped(github, result, "execution_timeout")
    assert at(github.cancels()) == [seen + seconds]
    assert result.attempts[0].executed_seconds >= seconds


@pytest.mark.parametrize("seconds", [1, 59, 60, 61, 90, 600, 630])
@pytest.mark.parametrize(("late", "ok"), [(-1, True), (0, True), (0.001, False), (1, False)])
def test_r94_the_last_look_is_at_the_end_of_the_budget(github, go, seconds, late, ok):
    github.plan(runner_after=5, runs_for=10 + seconds + late)
    result = go(execution_timeout_seconds=str(seconds))
    if ok:
        assert result.ok
        assert not github.cancels()
    else:
        stopped(github, result, "execution_timeout")
        assert at(github.cancels()) == [15.0 + seconds]


def test_r94_a_child_that_does_not_end_is_reported(github, go, files):
    github.plan(runner_after=5, runs_for=None, cancel_after=None)
    result = go(execution_timeout_minutes="5")
    assert result.kind == "execution_timeout"
    assert "cleanup of 1001: unconfirmed" in result.message
    assert result.state["run-id"] == "1001"
    assert files.state()["run-id"] == "1001"
    assert len(github.dispatches()) == 1


def test_r94_a_run_that_never_shows_its_end_spends_the_budget(github, go):
    github.plan(runner_after=5, runs_for=60, run_lag=9000)
    assert go(execution_timeout_minutes="20").kind == "execution_timeout"
    assert len(github.dispatches()) == 1


def test_r94_the_queue_does_not_count(github, go):
    github.plan(runner_after=540, runs_for=580)
    assert go(execution_timeout_minutes="10").ok


# -- the result ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("run", CONCLUSIONS)
@pytest.mark.parametrize("job", CONCLUSIONS)
def test_r96_only_success_of_both_run_and_job_is_success(github, go, files, run, job):
    github.plan(runner_after=20, runs_for=60, conclusion=job, run_conclusion=run)
    result = go()
    assert result.ok is (run == job == "success")
    assert result.kind == ("" if result.ok else "worker_failed")
    assert len(github.dispatches()) == 1
    assert not github.cancels()
    assert result.attempts[0].outcome == ("success" if result.ok else "worker_failed")
    assert files.state()["run-id"] == ""


@pytest.mark.parametrize("conclusion", [one for one in CONCLUSIONS if one != "success"])
@pytest.mark.parametrize("when", [10, 100, 600])
def test_r96_a_job_that_ends_without_a_runner_is_no_success_and_no_fallback(github, go, conclusion, when):
    github.plan(ends_after=when, conclusion=conclusion)
    result = go()
    assert result.kind == "worker_failed"
    assert f"completed/{conclusion}" in result.message
    assert len(github.dispatches()) == 1


@pytest.mark.parametrize("conclusion", [None, "", 0, ...])
@pytest.mark.parametrize("which", ["run", "job"])
def test_r96_an_end_without_a_conclusion_is_no_success(github, go, which, conclusion):
    github.plan(runner_after=20, runs_for=60)
    github.drift(None, at=0, **{which: {"conclusion": conclusion}})
    assert go(execution_timeout_minutes="5").kind == "execution_timeout"


@pytest.mark.parametrize("status", ["queued", "in_progress", "waiting", "made_up", None, ...])
@pytest.mark.parametrize("which", ["run", "job"])
def test_r96_success_without_an_end_is_no_success(github, go, which, status):
    github.plan(runner_after=20, runs_for=60)
    github.drift(None, at=0, **{which: {"status": status, "conclusion": "success"}})
    assert go(execution_timeout_minutes="5").kind == "execution_timeout"


@pytest.mark.parametrize("body", [{"total_count": 0, "jobs": []}, {"jobs": []}])
@pytest.mark.parametrize("run_status", ["in_progress", "completed"])
def test_r96_a_job_that_is_missing_is_no_success(github, go, run_status, body):
    github.plan(runner_after=20, runs_for=30 if run_status == "completed" else 900)
    github.fail("jobs", since=75, times=None, status=200, body=body)
    result = go()
    assert result.kind == "contract"
    assert len(github.dispatches()) == 1


@pytest.mark.parametrize("conclusion", ["failure", "timed_out", "startup_failure", "cancelled"])
@pytest.mark.parametrize("times", [(0, 1), (100, 50), (0, 3000), (30, 3000)])
@pytest.mark.parametrize("queue_policy", ["standard", "extended"])
def test_r95_no_failure_is_tried_again(github, go, conclusion, times, queue_policy):
    starts_after, runs_for = times
    github.plan(runner_after=20, starts_after=starts_after, runs_for=runs_for, conclusion=conclusion)
    assert go(queue_policy=queue_policy).kind == "worker_failed"
    assert len(github.dispatches()) == 1


# -- the source ----------------------------------------------------------------------------------------------


def source_moves(github, when, sha) -> None:
    github.move(github.source_ref, sha, at=when)


@policies
@pytest.mark.parametrize("sha", [OTHER_SHA, None])
def test_r98_a_moved_source_blocks_the_first_dispatch(github, go, policy, sha):
    source_moves(github, 0, sha)
    result = go(source_policy=policy)
    assert result.kind == "source_changed"
    assert not github.dispatches()
    assert not github.posts()


@policies
@pytest.mark.parametrize("sha", [OTHER_SHA, None])
@pytest.mark.parametrize("earlier", [1, 2])
def test_r98_the_source_is_checked_before_each_dispatch(github, go, policy, sha, earlier):
    github.never(3)
    source_moves(github, DUE + (earlier - 1) * 620 + 1, sha)  # while a child is being cancelled
    result = go(source_policy=policy)
    assert result.kind == "source_changed"
    assert len(github.dispatches()) == earlier
    assert len(github.cancels()) == earlier
    github.assert_all_ended()


@policies
@pytest.mark.parametrize("sha", [OTHER_SHA, None])
@pytest.mark.parametrize("times", [(1, 75), (100, 135), (500, 555)])
def test_r99_a_source_that_moves_in_the_queue_stops_under_both_policies(github, go, policy, sha, times):
    when, seen = times
    github.never()
    source_moves(github, when, sha)
    result = go(source_policy=policy)
    stopped(github, result, "source_changed")
    assert at(github.cancels()) == [seen]
    assert github.source_ref in result.message
    assert github.source_sha in result.message


@pytest.mark.parametrize("sha", [OTHER_SHA, None])
@pytest.mark.parametrize(("when", "seen"), [(80, 135), (1000, 1035)])
def test_r97_a_source_that_moves_while_running_stops_under_current(github, go, sha, when, seen):
    github.plan(runner_after=20, runs_for=3000)
    source_moves(github, when, sha)
    result = go()
    stopped(github, result, "source_changed")
    assert at(github.cancels()) == [seen]


def test_r97_a_source_that_moves_back_was_not_the_same(github, go):
    github.plan(runner_after=20, runs_for=3000)
    source_moves(github, 100, OTHER_SHA)
    source_moves(github, 140, github.source_sha)
    stopped(github, go(), "source_changed")


def test_r97_the_spelling_of_a_sha_does_not_matter(github, go, inputs):
    assert go(source_sha=inputs["source-sha"].upper()).ok


@pytest.mark.parametrize("sha", [OTHER_SHA, None])
@pytest.mark.parametrize("when", [75.5, 80, 1000])
def test_r100_a_pinned_worker_goes_on_with_its_own_source(github, go, sha, when):
    github.plan(runner_after=20, runs_for=3000)
    source_moves(github, when, sha)
    assert go(source_policy="pinned-after-start").ok
    assert not github.cancels()
    assert max(at(github.gets("ref"))) <= 75


@pytest.mark.parametrize("sha", [OTHER_SHA, None])
def test_r100_a_worker_is_pinned_from_the_look_that_shows_the_runner(github, go, sha):
    github.plan(runner_after=20, runs_for=3000)
    source_moves(github, 30, sha)
    assert go(source_policy="pinned-after-start").ok


def test_r100_the_same_is_an_end_under_current(github, go):
    github.plan(runner_after=20, runs_for=3000)
    source_moves(github, 30, OTHER_SHA)
    stopped(github, go(), "source_changed")


def test_r100_a_source_that_cannot_be_read_does_not_matter_to_a_pinned_worker(github, go):
    github.plan(runner_after=20, runs_for=3000)
    github.fail("ref", since=76, times=None, status=500)
    assert go(source_policy="pinned-after-start").ok


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({"run_attempt": 2}, "parent_changed"),
        ({"status": "completed", "conclusion": "cancelled"}, "parent_cancelled"),
        ({"status": "completed", "conclusion": "success"}, "parent_changed"),
    ],
)
def test_r101_pinned_does_not_change_the_parent_check(github, go, fields, kind):
    github.plan(runner_after=20, runs_for=3000)
    github.parent(at=500, **fields)
    stopped(github, go(source_policy="pinned-after-start"), kind)
    assert at(github.cancels()) == [555]


def test_r101_pinned_does_not_change_the_definition_check(github, go):
    github.never()
    github.move("refs/heads/main", OTHER_SHA, at=300)
    assert go(source_policy="pinned-after-start").kind == "workflow_changed"


def test_r101_pinned_does_not_change_the_queue_deadline(github, go):
    github.never()
    assert go(source_policy="pinned-after-start").ok
    assert at(github.cancels()) == [DUE]


def test_r101_pinned_does_not_change_budget_and_cleanup(github, go):
    github.plan(runner_after=20, runs_for=None)
    stopped(github, go(source_policy="pinned-after-start", execution_timeout_minutes="5"), "execution_timeout")
    assert at(github.cancels()) == [375]


def test_r101_pinned_does_not_change_the_identity_check(github, go):
    github.plan(runner_after=20, runs_for=3000)
    github.drift(None, at=500, run={"head_sha": OTHER_SHA})
    stopped(github, go(source_policy="pinned-after-start"), "identity_mismatch")


# -- the parent ----------------------------------------------------------------------------------------------

PARENTS = [
    ({"run_attempt": 2}, "parent_changed"),
    ({"run_attempt": 2, "status": "queued"}, "parent_changed"),
    ({"run_attempt": 2, "status": "completed", "conclusion": "cancelled"}, "parent_changed"),
    ({"run_attempt": ...}, "parent_changed"),
    ({"id": 2}, "parent_changed"),
    ({"status": "completed", "conclusion": "cancelled"}, "parent_cancelled"),
    ({"status": "completed", "conclusion": "success"}, "parent_changed"),
    ({"status": "completed", "conclusion": "failure"}, "parent_changed"),
    ({"status": "completed", "conclusion": "timed_out"}, "parent_changed"),
    ({"status": "completed", "conclusion": None}, "parent_changed"),
    ({"status": "made_up"}, "parent_changed"),
    ({"status": None}, "parent_changed"),
    ({"status": ...}, "parent_changed"),
    ({"missing": True}, "parent_changed"),
    ({"status": "queued"}, "parent_changed"),
    ({"status": "pending"}, "parent_changed"),
    ({"status": "waiting"}, "parent_changed"),
    ({"status": "requested"}, "parent_changed"),
    ({"status": "action_required"}, "parent_changed"),
    ({"status": ""}, "parent_changed"),
]
parents = pytest.mark.parametrize(("fields", "kind"), PARENTS, ids=str)


@parents
def test_r102_a_parent_that_is_not_the_same_ends_a_queued_child(github, go, fields, kind):
    github.never()
    github.parent(at=300, **fields)
    stopped(github, go(), kind)
    assert at(github.cancels()) == [315]


@parents
def test_r102_a_parent_that_is_not_the_same_ends_a_running_child(github, go, fields, kind):
    github.plan(runner_after=20, runs_for=3000)
    github.parent(at=300, **fields)
    stopped(github, go(), kind)
    assert at(github.cancels()) == [315]


@parents
@pytest.mark.parametrize("earlier", [0, 1, 2])
def test_r102_a_parent_that_is_not_the_same_blocks_the_next_dispatch(github, go, fields, kind, earlier):
    github.never(3)
    github.latency = 0.5 if earlier == 0 else 0.0
    github.parent(at=0.3 if earlier == 0 else DUE + (earlier - 1) * 620 + 1, **fields)
    result = go()
    assert result.kind == kind
    assert len(github.dispatches()) == earlier
    assert len(github.cancels()) == earlier
    github.assert_all_ended()


def test_r102_a_parent_that_stays_in_progress_is_the_same(github, go):
    github.never()
    github.plan(runner_after=20, runs_for=3000)
    github.parent(at=60, status="in_progress", updated_at="2026-11-30T00:00:00Z")
    assert go().ok


@pytest.mark.parametrize("fields", [{"status": status} for status in ("queued", "requested", "pending", "waiting")])
@pytest.mark.parametrize("plan", [{"runner_after": None}, {"runner_after": 20, "runs_for": 3000}], ids=str)
def test_r102_a_parent_that_is_active_again_soon_was_not_the_same(github, go, fields, plan):
    """The grace is that of the start (R62): one look is enough, however soon it would be active again."""
    github.plan(**plan)
    github.parent(at=60, **fields)
    github.parent(at=76, status="in_progress")
    result = go()
    stopped(github, result, "parent_changed")
    assert at(github.cancels()) == [75]
    assert f"run 1, attempt 1, {fields['status']}" in result.message


def test_r102_a_parent_that_is_cancelled_while_its_child_runs_cancels_it(github, go, clock):
    github.plan(runner_after=20, runs_for=None)
    github.parent_cancelled(at=1000)
    stopped(github, go(), "parent_cancelled")
    assert clock.elapsed == 1040


def test_r102_the_end_of_the_work_comes_before_the_end_of_the_parent(github, go):
    github.plan(runner_after=20, runs_for=60)
    github.parent_cancelled(at=120)
    assert go().ok  # the look at 135 shows success


# -- the definition ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sha", [OTHER_SHA, None])
@pytest.mark.parametrize("earlier", [1, 2])
def test_r103_a_definition_that_moves_stops_before_the_next_dispatch(github, go, sha, earlier):
    github.never(3)
    github.move("refs/heads/main", sha, at=(earlier - 1) * 620 + 100)
    result = go()
    assert result.kind == "workflow_changed"  # GitHub answers 422 for a ref that is gone
    assert "main" in result.message
    assert len(github.dispatches()) == earlier
    assert len(github.cancels()) == earlier
    github.assert_all_ended()


def test_r103_a_definition_that_moves_after_the_last_dispatch_does_not_matter(github, go):
    github.never()
    github.plan(runner_after=20, runs_for=2000)
    github.move("refs/heads/main", OTHER_SHA, at=700)
    assert go().ok


def test_r103_a_tag_is_not_touched_by_a_change_of_main(github, go):
    github.never()
    github.move("refs/tags/v1", github.main_sha)
    github.move("refs/heads/main", OTHER_SHA, at=100)
    assert go(workflow_ref="v1").ok
    assert len(github.dispatches()) == 2


def test_r103_an_annotated_tag_stands_for_its_commit(github, go):
    github.never()
    github.move("refs/tags/v1", github.main_sha, tag_object="7" * 40)
    assert go(workflow_ref="v1").ok


def test_r103_a_tag_that_is_moved_stops(github, go):
    github.never()
    github.move("refs/tags/v1", github.main_sha)
    github.move("refs/tags/v1", OTHER_SHA, at=100)
    assert go(workflow_ref="v1").kind == "workflow_changed"


def test_r103_a_child_of_another_definition_is_never_accepted(github, go):
    github.latency = 1.0  # parent, parent, source, definition: the answers come at 1, 2, 3, 4 s
    github.move("refs/heads/main", OTHER_SHA, at=3.5)
    github.plan(runner_after=20, runs_for=60)
    result = go()
    assert result.kind == "startup_timeout"
    assert f"expected {github.main_sha}, found {OTHER_SHA}" in result.message
    assert len(github.dispatches()) == 1


# -- contract ------------------------------------------------------------------------------------------------

WHEN = 300.0
PHASES = [{"runner_after": None}, {"runner_after": 20, "runs_for": 3000}]
phases = pytest.mark.parametrize("plan", PHASES, ids=["queued", "running"])


@phases
@pytest.mark.parametrize(
    "fields",
    [
        {"run_attempt": 2},
        {"run_attempt": ...},
        {"head_sha": OTHER_SHA},
        {"head_sha": None},
        {"display_title": "other"},
        {"display_title": ...},
        {"path": ".github/workflows/other.yml"},
        {"path": ""},
        {"event": "push"},
        {"event": None},
    ],
    ids=str,
)
def test_r104_a_run_that_becomes_another_one_stops(github, go, plan, fields):
    github.plan(**plan)
    github.drift(None, at=WHEN, run=fields)
    stopped(github, go(), "identity_mismatch")
    assert github.cancels()[0].at in (315, 375)  # in the queue the run is read every other minute


@phases
def test_r104_a_run_with_another_id_stops_and_is_never_taken_as_ended(github, go, plan):
    github.plan(**plan)
    github.drift(None, at=WHEN, run={"id": 999})
    result = go()
    assert result.kind == "identity_mismatch"
    assert "cleanup of 1001: unconfirmed" in result.message
    assert result.state["run-id"] == "1001"
    assert len(github.dispatches()) == 1
    github.assert_all_ended()


@phases
@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({"id": 4711}, "identity_mismatch"),
        ({"id": 0}, "identity_mismatch"),
        ({"run_id": 999}, "identity_mismatch"),
        ({"run_id": ...}, "identity_mismatch"),
        ({"run_attempt": 2}, "identity_mismatch"),
        ({"name": "other"}, "contract"),
        ({"name": "Worker"}, "contract"),
        ({"name": None}, "contract"),
    ],
    ids=str,
)
def test_r104_a_job_that_becomes_another_one_stops(github, go, plan, fields, kind):
    github.plan(**plan)
    github.drift(None, at=WHEN, job=fields)
    stopped(github, go(), kind)
    assert at(github.cancels()) == [315]


JOB = {"id": 10010, "run_id": 1001, "run_attempt": 1, "name": "worker", "status": "queued", "steps": []}


@phases
@pytest.mark.parametrize(
    "body",
    [
        {"total_count": 2, "jobs": [JOB, {**JOB, "id": 10011, "name": "other"}]},
        {"total_count": 2, "jobs": [JOB]},
        {"total_count": 101, "jobs": [JOB]},
        {"total_count": 1, "jobs": [JOB, JOB]},
        {"total_count": 0, "jobs": []},
    ],
    ids=str,
)
def test_r104_other_jobs_than_the_one_stop(github, go, plan, body):
    github.plan(**plan)
    github.fail("jobs", since=WHEN, status=200, body=body)
    stopped(github, go(), "contract")
    assert at(github.cancels()) == [315]


@pytest.mark.parametrize(("plan", "named"), [({"jobs": 2}, "job-2"), ({"job_name": "build"}, "build")])
def test_r104_a_child_that_is_not_one_worker_stops_at_the_first_look(github, go, plan, named):
    github.plan(runner_after=None, **plan)
    result = go()
    stopped(github, result, "contract")
    assert at(github.cancels()) == [15]
    assert named in result.message


@phases
@pytest.mark.parametrize("endpoint", ["run", "jobs", "parent"])
@pytest.mark.parametrize("status", [301, 400, 404, 409, 410, 418, 422, 451])
def test_r104_a_definite_refusal_stops_at_once(github, go, plan, endpoint, status):
    github.plan(**plan)
    github.fail(endpoint, since=WHEN, status=status)
    result = go()
    stopped(github, result, "parent_changed" if (endpoint, status) == ("parent", 404) else "api_error")
    assert f"{status}" in result.message
    assert github.cancels()[0].at in (315, 375)


@phases
def test_r104_the_path_may_name_the_ref(github, go, plan):
    github.path_suffix = "@main"
    github.plan(**plan)
    assert go().ok


@pytest.mark.parametrize(
    "shape", [[], "text", 3, None, True, {}, {"jobs": {}}, {"jobs": None}, {"jobs": ["x"]}], ids=str
)
def test_r104_an_answer_of_another_shape_for_good_stops(github, go, shape):
    github.plan(runner_after=20, runs_for=3000)
    github.fail("jobs", since=300, times=None, status=200, body=json.dumps(shape).encode())
    stopped(github, go(), "api_error")
