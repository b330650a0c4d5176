"""The fake GitHub: its REST API by time, and how strict it is."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

RUNS = "/repos/o/r/actions/runs"
WORKFLOW = "/repos/o/r/actions/workflows/runner-worker.yml"


@pytest.fixture
def seen(get):
    """Read a child's run and job: (run status, run conclusion, job status, job conclusion, runner, steps)."""

    def read(run_id):
        _, run = get(f"{RUNS}/{run_id}")
        _, jobs = get(f"{RUNS}/{run_id}/jobs?filter=latest&per_page=100")
        (job,) = jobs["jobs"]
        status = (run["status"], run["conclusion"], job["status"], job["conclusion"])
        return (*status, job["runner_id"], len(job["steps"]))

    return read


def test_the_life_of_a_child(clock, github, dispatch, seen):
    github.plan(runner_after=200, starts_after=5, runs_for=300)
    run_id = dispatch()
    assert seen(run_id) == ("queued", None, "queued", None, 0, 0)
    clock.sleep(199)
    assert seen(run_id) == ("queued", None, "queued", None, 0, 0)
    clock.sleep(1)
    assert seen(run_id) == ("queued", None, "queued", None, 4001, 0)
    clock.sleep(5)
    assert seen(run_id) == ("in_progress", None, "in_progress", None, 4001, 2)
    assert github.live() == github.children
    clock.sleep(295)
    assert seen(run_id) == ("completed", "success", "completed", "success", 4001, 2)
    assert github.live() == []
    assert github.live(at=499) == github.children
    github.assert_all_ended()
    assert github.children[0].runner_at() == 200
    assert github.children[0].ended() == 500


def test_what_a_dispatch_answers_and_a_run_shows(github, dispatch, get, fake):
    run_id = dispatch(request_id="r-1")
    _, run = get(f"{RUNS}/{run_id}")
    wanted = {
        "id": run_id,
        "display_title": "r-1",
        "head_sha": fake.MAIN_SHA,
        "head_branch": "main",
        "path": ".github/workflows/runner-worker.yml",
        "event": "workflow_dispatch",
        "run_attempt": 1,
        "html_url": f"https://github.com/o/r/actions/runs/{run_id}",
        "created_at": datetime.fromtimestamp(fake.EPOCH, tz=timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    assert wanted.items() <= run.items()
    _, jobs = get(f"{RUNS}/{run_id}/jobs")
    (job,) = jobs["jobs"]
    assert jobs["total_count"] == 1
    wanted = {
        "id": run_id * 10,
        "name": "worker",
        "run_id": run_id,
        "run_attempt": 1,
        "runner_name": "",
        "labels": ["linux-amd64-cpu16"],
    }
    assert wanted.items() <= job.items()
    # In the schema this is never null, so it says nothing about a start.
    assert job["started_at"] == job["created_at"]
    assert job["html_url"] == f"https://github.com/o/r/actions/runs/{run_id}/job/{run_id * 10}"
    github.path_suffix = "@main"
    assert get(f"{RUNS}/{run_id}")[1]["path"] == ".github/workflows/runner-worker.yml@main"
    (asked,) = github.dispatches()
    assert (asked.number, asked.at, asked.status, asked.inputs["request-id"]) == (1, 0.0, 200, "r-1")
    assert github.children[0].request_id == "r-1"


def test_each_dispatch_gets_its_plan(clock, github, dispatch, seen):
    github.pool("linux-amd64-cpu8", runner_after=1, runs_for=1)
    github.plan_all(runner_after=2, runs_for=1)
    github.never(times=2)
    github.max_live = 2
    both = dispatch(), dispatch(runner='{"group":"g","labels":"linux-amd64-cpu8"}')
    clock.sleep(5000)
    assert [seen(run_id)[0] for run_id in both] == ["queued", "queued"]
    for child in github.children:
        child.force_asked.append(clock.elapsed)
    clock.sleep(1)
    eight, other = dispatch(runner='{"group":"g","labels":"linux-amd64-cpu8"}'), dispatch()
    clock.sleep(2)
    assert seen(eight)[0] == "completed"
    assert seen(other)[0] == "in_progress"


def test_things_become_visible_one_after_the_other(clock, github, dispatch, get):
    github.plan(visible_after=10, jobs_after=20, queued_after=30, listed_after=40, runner_after=None)
    run_id = dispatch()
    assert get(f"{RUNS}/{run_id}")[0] == get(f"{RUNS}/{run_id}/jobs")[0] == 404
    clock.sleep(10)
    assert get(f"{RUNS}/{run_id}")[1]["status"] == "requested"
    assert get(f"{RUNS}/{run_id}/jobs")[0] == 404
    clock.sleep(10)
    assert get(f"{RUNS}/{run_id}/jobs") == (200, {"total_count": 0, "jobs": []})
    clock.sleep(10)
    assert get(f"{RUNS}/{run_id}")[1]["status"] == "queued"
    assert get(f"{RUNS}/{run_id}/jobs")[1]["total_count"] == 1
    assert get(f"{WORKFLOW}/runs")[1]["total_count"] == 0
    clock.sleep(10)
    assert get(f"{WORKFLOW}/runs")[1]["total_count"] == 1


def test_statuses_lag(clock, github, dispatch, seen):
    github.plan(runner_after=10, runs_for=50, run_lag=20, job_lag=5, runner_lag=8, conclusion_lag=4)
    run_id = dispatch()
    lines: dict[tuple[object, ...], float] = {}
    while clock.elapsed < 90:
        lines.setdefault(seen(run_id), clock.elapsed)
        clock.sleep(1)
    assert lines == {
        ("queued", None, "queued", None, 0, 0): 0,
        ("queued", None, "queued", None, 0, 2): 10,
        ("queued", None, "in_progress", None, 0, 2): 15,
        ("queued", None, "in_progress", None, 4001, 2): 18,
        ("in_progress", None, "in_progress", None, 4001, 2): 30,
        ("in_progress", None, "completed", None, 4001, 2): 60,
        ("in_progress", None, "completed", "success", 4001, 2): 64,
        ("completed", None, "completed", "success", 4001, 2): 80,
        ("completed", "success", "completed", "success", 4001, 2): 84,
    }


def test_odd_jobs(github, dispatch, get, clock):
    github.plan(jobs=2, job_name="other", null_runner=True, queued_status="waiting")
    run_id = dispatch()
    _, jobs = get(f"{RUNS}/{run_id}/jobs")
    assert jobs["total_count"] == 2
    assert [(job["name"], job["status"], job["runner_id"]) for job in jobs["jobs"]] == [
        ("other", "waiting", None),
        ("job-2", "waiting", None),
    ]
    assert get(f"{RUNS}/{run_id}/jobs?per_page=1&page=2")[1]["jobs"][0]["name"] == "job-2"
    clock.sleep(100)
    github.plan(ends_after=7, conclusion="failure", run_conclusion="startup_failure")
    run_id = dispatch()
    clock.sleep(7)
    assert get(f"{RUNS}/{run_id}")[1]["conclusion"] == "startup_failure"
    (job,) = get(f"{RUNS}/{run_id}/jobs")[1]["jobs"]
    assert (job["status"], job["conclusion"], job["runner_name"], job["steps"]) == ("completed", "failure", "", [])


def test_a_cancelled_child(clock, github, dispatch, ask, seen):
    github.plan(runner_after=600, cancel_after=30)
    run_id = dispatch()
    clock.sleep(10)
    response = ask("POST", f"{RUNS}/{run_id}/cancel")
    assert (response.status, response.body) == (202, b"{}")
    clock.sleep(29)
    assert seen(run_id) == ("queued", None, "queued", None, 0, 0)
    clock.sleep(1)
    assert seen(run_id) == ("completed", "cancelled", "completed", "cancelled", 0, 0)
    assert ask("POST", f"{RUNS}/{run_id}/cancel").status == 409
    assert [asked.status for asked in github.cancels(run_id)] == [202, 409]
    assert github.children[0].cancel_asked == [10]
    assert not github.children[0].allocated()
    assert ask("POST", f"{RUNS}/{run_id}/force-cancel").status == 409


def test_a_cancelled_child_that_ran_keeps_its_runner(clock, github, dispatch, ask, seen):
    run_id = dispatch()
    clock.sleep(30)
    ask("POST", f"{RUNS}/{run_id}/cancel")
    clock.sleep(3)
    assert seen(run_id) == ("completed", "cancelled", "completed", "cancelled", 4001, 2)


def test_a_runner_may_come_after_the_cancellation_was_asked_for(clock, github, dispatch, ask, seen):
    github.plan(runner_after=None, runner_after_cancel=10, cancel_after=15)
    run_id = dispatch()
    ask("POST", f"{RUNS}/{run_id}/cancel")
    clock.sleep(10)
    assert seen(run_id) == ("in_progress", None, "in_progress", None, 4001, 2)
    clock.sleep(5)
    assert seen(run_id) == ("completed", "cancelled", "completed", "cancelled", 4001, 2)


def test_a_child_may_finish_all_the_same(clock, github, dispatch, ask, seen):
    github.plan(runner_after=None, runner_after_cancel=1, runs_for=5, finishes_despite_cancel=True)
    run_id = dispatch()
    ask("POST", f"{RUNS}/{run_id}/cancel")
    clock.sleep(6)
    assert seen(run_id)[:4] == ("completed", "success", "completed", "success")


def test_a_cancellation_may_have_no_effect_until_it_is_forced(clock, github, dispatch, ask, seen):
    github.plan(runner_after=None, cancel_after=None, force_after=2)
    run_id = dispatch()
    assert ask("POST", f"{RUNS}/{run_id}/cancel").status == 202
    clock.sleep(5000)
    assert seen(run_id)[0] == "queued"
    assert ask("POST", f"{RUNS}/{run_id}/force-cancel").status == 202
    clock.sleep(2)
    assert seen(run_id)[:2] == ("completed", "cancelled")
    assert len(github.force_cancels(run_id)) == 1


def test_what_is_not_queued_yet_cannot_be_cancelled(clock, github, dispatch, ask):
    github.plan(queued_after=10, visible_after=5)
    run_id = dispatch()
    assert ask("POST", f"{RUNS}/{run_id}/cancel").status == 404
    clock.sleep(5)
    for verb in ("cancel", "force-cancel"):
        response = ask("POST", f"{RUNS}/{run_id}/{verb}")
        assert response.status == 409
        assert b"has not been queued yet" in response.body


def test_the_parent_by_time(clock, github, get):
    github.parent(at=0, missing=True)
    github.parent(at=20, missing=False, status="queued")
    github.parent(at=40, status="in_progress")
    github.parent_rerun(at=60)
    github.parent_cancelled(at=80)
    states = []
    for _ in range(5):
        status, run = get(f"{RUNS}/1")
        states.append((status, run.get("run_attempt"), run["status"] if status == 200 else "", run.get("conclusion")))
        clock.sleep(20)
    assert states == [
        (404, None, "", None),
        (200, 1, "queued", None),
        (200, 1, "in_progress", None),
        (200, 2, "in_progress", None),
        (200, 2, "completed", "cancelled"),
    ]
    assert [asked.endpoint for asked in github.requests] == ["parent"] * 5
    assert get(f"{RUNS}/1/attempts/2")[0] == 200
    assert get(f"{RUNS}/1/attempts/1")[0] == 404


def test_refs_move_and_vanish(clock, github, get, ask, fake):
    github.move("refs/pull/7/merge", "d" * 40, at=10)
    github.move("refs/pull/7/merge", None, at=20)
    github.move("refs/tags/v1", "e" * 40, tag_object="f" * 40)
    path = "/repos/o/r/git/ref/pull/7/merge"
    assert get(path)[1]["object"] == {"type": "commit", "sha": fake.SOURCE_SHA}
    clock.sleep(10)
    assert get(path)[1]["object"]["sha"] == "d" * 40
    clock.sleep(10)
    assert get(path)[0] == 404
    assert get("/repos/o/r/git/ref/tags/v1")[1]["object"] == {"type": "tag", "sha": "f" * 40}
    for name in ("v1", "tags/v1", "refs/tags/v1", "e" * 40):
        assert get(f"/repos/o/r/commits/{name}") == (200, {"sha": "e" * 40})
    assert get("/repos/o/r/commits/nothing")[0] == 422
    bare = ask("GET", "/repos/o/r/commits/main", Accept="application/vnd.github.sha")
    assert bare.body.decode() == fake.MAIN_SHA


def test_fields_drift(clock, github, dispatch, get):
    github.drift(None, at=5, job={"name": "stranger"})
    run_id = dispatch()
    github.drift(1, at=10, run={"run_attempt": 2, "html_url": ...})
    clock.sleep(5)
    assert get(f"{RUNS}/{run_id}/jobs")[1]["jobs"][0]["name"] == "stranger"
    assert get(f"{RUNS}/{run_id}")[1]["run_attempt"] == 1
    clock.sleep(5)
    _, run = get(f"{RUNS}/{run_id}")
    assert run["run_attempt"] == 2
    assert "html_url" not in run


def test_the_list_of_runs(clock, github, dispatch, get):
    old = github.past("linux-amd64-cpu8", waited=90, ran=30, ago=7200)
    exhausted = github.past("linux-amd64-cpu8", waited=None, ago=3600, group="other")
    clock.sleep(10)
    run_id = dispatch(request_id="mine")
    _, page = get(f"{WORKFLOW}/runs?event=workflow_dispatch&per_page=2")
    assert page["total_count"] == 3
    assert [run["id"] for run in page["workflow_runs"]] == [run_id, exhausted.run_id]
    assert [run["display_title"] for run in page["workflow_runs"]] == ["mine", "earlier-2"]
    assert get(f"{WORKFLOW}/runs?event=push")[1]["total_count"] == 0
    assert get(f"{WORKFLOW}/runs?status=success&branch=main")[1]["workflow_runs"][0]["id"] == old.run_id
    (job,) = get(f"{RUNS}/{exhausted.run_id}/jobs")[1]["jobs"]
    assert (job["conclusion"], job["runner_name"], job["steps"]) == ("cancelled", "", [])
    (job,) = get(f"{RUNS}/{old.run_id}/jobs")[1]["jobs"]
    assert (job["conclusion"], job["runner_group_name"]) == ("success", "g")

    def since(seconds):
        return datetime.fromtimestamp(github.epoch + seconds, tz=timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")

    counts = {
        f">={since(10)}": 1,
        f">{since(10)}": 0,
        f"<={since(-3600)}": 2,
        f"<{since(-3600)}": 1,
        f"{since(-3600)}..{since(10)}": 2,
        f"*..{since(-3600)}": 2,
        f"{since(-3600)}..*": 2,
        since(0)[:10]: 3,
        "*..*": 3,
    }
    for pattern, count in counts.items():
        assert get(f"{WORKFLOW}/runs?created={pattern.replace('+', '%2B')}")[1]["total_count"] == count, pattern
