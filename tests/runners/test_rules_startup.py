"""The rules R58 to R72: the parent before the first dispatch, and a child until it is visible; what drifts later."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from pytest_sgpu.runners import coordinator

WANTED = "expected run 1, attempt 1, in_progress"
RUN_PATH = "/repos/o/r/actions/runs/1001"


def times(asked) -> list[float]:
    return [one.at for one in asked]


def every(first: float, last: float, step: float = 5) -> list[float]:
    return [first + step * n for n in range(int((last - first) // step) + 1)]


# -- the parent: what is waited for ---------------------------------------------------------------------------

COMING: dict[str, dict[str, Any]] = {
    "404": {"missing": True},
    "queued": {"status": "queued"},
    "requested": {"status": "requested"},
    "pending": {"status": "pending"},
}


@pytest.mark.parametrize("coming", COMING.values(), ids=COMING)
@pytest.mark.parametrize(("active_at", "seen_at"), [(0.5, 5), (5, 5), (61, 65), (119, 120), (120, 120)])
def test_r58_r59_a_parent_that_is_coming_is_waited_for(go, github, coming, active_at, seen_at):
    github.parent(0, **coming)
    github.parent(active_at, missing=False, status="in_progress")
    assert go().ok
    assert times(github.gets("parent"))[: seen_at // 5 + 1] == every(0, seen_at)
    assert times(github.dispatches()) == [seen_at]


@pytest.mark.parametrize("coming", COMING.values(), ids=COMING)
@pytest.mark.parametrize("active_at", [120.5, 125, 10_000])
def test_r58_r60_after_120_seconds_nothing_is_dispatched(go, github, clock, files, kept, *, coming, active_at):
    github.parent(0, **coming)
    github.parent(active_at, missing=False, status="in_progress")
    result = go()
    assert result.kind == "parent_not_active"
    assert clock.elapsed == 120
    assert times(github.requests) == every(0, 120)
    assert {asked.endpoint for asked in github.requests} == {"parent"}
    assert result.outputs == {"run-id": "", "run-url": "", "runner": "", "attempts": "0"}
    assert files.output()["attempts"] == "0"
    assert not result.state
    assert not kept()


def test_r58_the_states_may_change_while_it_is_waited_for(go, github):
    for at, fields in enumerate([{"missing": True}, *COMING.values(), {"status": "in_progress"}]):
        github.parent(at * 20, **{"missing": False, **fields})
    assert go().ok
    assert times(github.dispatches()) == [100]


def test_r59_no_wait_for_a_parent_that_is_active(go, github):
    assert go().ok
    assert times(github.dispatches()) == [0]


# -- the parent: what fails at once ---------------------------------------------------------------------------

WRONG: dict[str, dict[str, Any]] = {
    "completed": {"status": "completed", "conclusion": "success"},
    "cancelled": {"status": "completed", "conclusion": "cancelled"},
    "waiting": {"status": "waiting"},  # P8
    "action_required": {"status": "action_required"},
    "unknown": {"status": "running"},
    "other case": {"status": "In_Progress"},
    "no status": {"status": None},
    "empty status": {"status": ""},
    "status left out": {"status": ...},
    "status is a number": {"status": 1},
    "next attempt": {"run_attempt": 2},
    "attempt 0": {"run_attempt": 0},
    "attempt as text": {"run_attempt": "1"},
    "attempt as truth": {"run_attempt": True},
    "attempt left out": {"run_attempt": ...},
    "other id": {"id": 2},
    "queued with the next attempt": {"status": "queued", "run_attempt": 2},
    "requested with another id": {"status": "requested", "id": 2},
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
@pytest.mark.parametrize("at", [0, 60])
def test_r61_anything_else_fails_at_once(go, github, clock, lines, *, wrong, at):
    github.parent(0, status="queued")
    github.parent(at, **{"status": "in_progress", **wrong})
    result = go()
    assert result.kind == "parent_not_active"
    assert clock.elapsed == at
    assert not github.posts()
    assert WANTED in result.message
    assert any(WANTED in line and "found run " in line for line in lines)


@pytest.mark.parametrize(("status", "kind"), [(401, "auth"), (403, "auth"), (400, "api_error"), (410, "api_error")])
def test_r61_a_refusal_is_not_waited_for(go, github, clock, status, kind):
    github.fail("parent", status=status)
    result = go()
    assert result.kind == kind
    assert f"GET /repos/o/r/actions/runs/1: {status}" in result.message
    assert clock.elapsed == 0
    assert not github.posts()


@pytest.mark.parametrize(
    "fault",
    [{"status": 502}, {"status": 408}, {"error": "reset"}, {"status": 200, "body": b"{oops"}]
    + [{"status": 200, "body": body} for body in (b"null", b"[]", b"{}", b'{"id": null}', b'{"id": "1"}')],
)
def test_r61_a_parent_that_cannot_be_read_is_not_active(go, github, clock, fault):
    github.fail("parent", times=None, **fault)
    assert go().kind == "api_error"
    assert clock.elapsed == 15  # R105: after 5 s and 10 s more
    assert not github.posts()


# -- the parent: one grace ------------------------------------------------------------------------------------


@pytest.mark.parametrize("after", [1, 2])
def test_r62_a_404_after_confirmation_is_not_waited_for(go, github, clock, after):
    """``after`` 1: between confirmation and dispatch; 2: while the child is queued."""
    github.plan_all(runner_after=None)
    github.fail("parent", skip=after, status=404, times=None)
    result = go()
    assert result.kind == "parent_changed"
    assert "404" in result.message
    assert len(github.dispatches()) == after - 1
    assert clock.elapsed <= 80
    github.assert_all_ended()


@pytest.mark.parametrize("coming", COMING.values(), ids=COMING)
def test_r62_no_further_dispatch_renews_the_grace(go, github, coming):
    github.plan_all(runner_after=None)
    github.parent(617, **coming)
    result = go()
    assert result.kind == "parent_changed"
    assert len(github.dispatches()) == 1
    github.assert_all_ended()


@pytest.mark.parametrize("status", ["completed", "unknown", "", None, "queued", "requested", "pending", "waiting"])
def test_r62_an_end_between_confirmation_and_dispatch_blocks_it(go, github, status):
    github.fail("parent", takes=2)
    github.parent(1, status=status)
    assert go().kind == "parent_changed"
    assert not github.posts()


@pytest.mark.parametrize("takes", [0.5, 10, 29])
def test_r63_an_answer_after_the_deadline_confirms_nothing(go, github, clock, takes):
    github.parent(0, status="queued")
    github.parent(119, status="in_progress")
    github.fail("parent", since=119, takes=takes, times=None)
    result = go()
    assert result.kind == "parent_not_active"
    assert not github.posts()
    assert clock.elapsed <= 121


def test_r63_a_late_answer_is_told_as_late(go, github):
    github.parent(0, status="queued")
    github.parent(119, status="in_progress")
    github.fail("parent", since=119, takes=0.9, times=None)
    result = go()
    assert result.kind == "parent_not_active"
    assert "found run 1, attempt 1, in_progress, and that 0.9 s too late" in result.message


def test_r63_a_slow_answer_within_the_deadline_counts(go, github):
    github.parent(0, status="queued")
    github.parent(90, status="in_progress")
    github.fail("parent", since=90, takes=29)
    assert go().ok
    assert times(github.dispatches()) == [119]


@pytest.mark.parametrize("latency", [0.5, 7, 25])
def test_r63_requests_share_the_deadline(go, github, clock, latency):
    github.latency = latency
    github.parent(0, status="queued")
    assert go().kind == "parent_not_active"
    assert 120 <= clock.elapsed <= 121
    asked = github.gets("parent")
    assert all(one.timeout <= max(1.0, 120 - one.at) for one in asked)
    assert all(later.at - sooner.ended == 5 for sooner, later in pairwise(asked[:-1]))


@pytest.mark.parametrize(
    "fault",
    [
        {"status": 500},
        {"status": 408},
        {"error": "reset"},
        {"status": 200, "body": b"{oops"},
        {"status": 200, "body": b"{}"},
    ],
)
def test_r63_retries_share_the_deadline(go, github, clock, lines, fault):
    github.parent(0, missing=True)
    github.fail("parent", since=110, times=None, **fault)
    result = go()
    assert result.kind == "parent_not_active"
    assert times(github.gets("parent"))[-2:] == [110, 115]  # the next retry would come at 125
    assert clock.elapsed <= 120
    assert not github.posts()
    assert any(WANTED in line and "within 120 s" in line for line in lines)


def test_r63_a_retry_may_come_at_the_very_end(go, github):
    github.parent(0, status="queued")
    github.fail("parent", since=105, until=120, times=None, status=502)
    github.parent(119, status="in_progress")
    assert go().ok
    assert times(github.gets("parent"))[20:24] == [100, 105, 110, 120]
    assert times(github.dispatches()) == [120]


def test_r63_retries_inside_the_grace_do_not_end_it(go, github):
    github.parent(0, status="queued")
    github.fail("parent", times=2, status=503)
    github.fail("parent", since=40, times=2, error="reset")
    github.parent(70, status="in_progress")
    assert go().ok
    assert times(github.dispatches()) == [70]


@pytest.mark.parametrize(
    ("after", "since", "dispatched_at"),
    [("30", 0, 30), ("60", 0, 60), ("30", 90, 120), ("1", 119, None), ("30", 95, None)],
)
def test_r63_a_rate_limit_wait_is_inside_the_grace(go, github, clock, after, *, since, dispatched_at):
    github.parent(0, status="queued")
    github.parent(since, status="in_progress")
    github.fail("parent", since=since, status=403, headers={"Retry-After": after})
    result = go()
    if dispatched_at is None:
        assert result.kind == "parent_not_active"
        assert not github.posts()
        assert clock.elapsed <= 121
    else:
        assert result.ok
        assert times(github.dispatches()) == [dispatched_at]


def test_r63_the_wall_clock_does_not_matter(go, github, clock):
    clock.jump(7200, at=10)
    clock.jump(-20_000, at=50)
    github.parent(0, status="queued")
    github.parent(100, status="in_progress")
    assert go().ok
    assert times(github.dispatches()) == [100]


@pytest.mark.parametrize("coming", COMING.values(), ids=COMING)
def test_r64_every_look_says_what_was_expected_and_what_was_seen(go, github, lines, coming):
    github.parent(0, **coming)
    result = go()
    seen = "404" if "missing" in coming else f"run 1, attempt 1, {coming['status']}"
    assert sum(WANTED in line and f"observed {seen}" in line for line in lines) == 25
    assert WANTED in result.message
    assert seen in result.message
    assert "120 s" in result.message


@pytest.mark.parametrize(
    "fault",
    [
        {"status": 502, "times": None},
        {"error": "reset", "times": None},
        {"status": 429, "headers": {"Retry-After": "55"}, "times": None},
    ],
)
def test_r64_expiry_by_an_api_error_says_what_was_expected(go, github, lines, fault):
    github.parent(0, status="queued")
    github.fail("parent", since=110, **fault)
    result = go()
    assert result.kind == "parent_not_active"
    assert WANTED in result.message
    assert "GET /repos/o/r/actions/runs/1" in result.message
    assert "reset" in result.message if "error" in fault else str(fault["status"]) in result.message


def test_r64_observed_text_cannot_forge_lines(go, github, lines):
    github.parent(0, status="x\n::error::forged\x1b[31m")
    result = go()
    assert all("\n" not in text and "\x1b" not in text for text in (*lines, result.message))


# -- the child becomes visible --------------------------------------------------------------------------------

MISSING: dict[str, dict[str, Any]] = {
    "run 404": {"visible_after": None},
    "jobs 404": {"jobs_after": None, "jobs_missing": "404"},
    "jobs empty": {"jobs_after": None, "jobs_missing": "empty"},
    "not queued yet": {"queued_after": None},
}


def missing(name: str, until: float) -> dict[str, Any]:
    return {field: until if value is None else value for field, value in MISSING[name].items()}


@pytest.mark.parametrize("name", MISSING)
@pytest.mark.parametrize(
    ("visible_after", "seen_at"), [(0, 15), (15, 15), (15.1, 20), (60, 60), (64, 65), (119, 120), (120, 120)]
)
def test_r65_r66_r68_first_look_after_15_seconds_then_every_5(go, github, name, visible_after, seen_at):
    github.plan_all(runner_after=200, **missing(name, visible_after))
    assert go().ok
    looks = [at for at in times(github.gets("run", 1001)) if at <= 120]
    jobs = [at for at in times(github.gets("jobs", 1001)) if at <= 120]
    assert [at for at in looks if at <= seen_at] == every(15, seen_at)
    assert seen_at in jobs
    assert not [at for at in looks + jobs if seen_at < at < seen_at + 60]
    assert not github.cancels()


@pytest.mark.parametrize("name", MISSING)
@pytest.mark.parametrize("visible_after", [120.1, 125, 3000])
def test_r65_r70_after_120_seconds_it_is_cleaned_up_and_nothing_else_is_dispatched(
    go, github, kept, name, visible_after
):
    github.plan_all(runner_after=None, **missing(name, visible_after))
    result = go()
    assert result.kind == "startup_timeout"
    assert "120 s" in result.message
    assert result.outputs["run-id"] == "1001"
    assert result.attempts[0].outcome == "startup_timeout"
    assert [at for at in times(github.gets("run", 1001)) if at < 120] == every(15, 115)
    assert github.cancels(1001)[0].at == 120
    assert len(github.dispatches()) == 1
    if visible_after < 130 or name.startswith("jobs"):
        github.assert_all_ended()
        assert "cleanup of 1001: confirmed" in result.message
        assert not kept()
    else:
        assert "cleanup of 1001: unconfirmed" in result.message
        assert kept()["run-id"] == "1001"


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("run 404", f"GET {RUN_PATH}: 404 (request id FA7E:"),
        ("jobs 404", f"GET {RUN_PATH}/jobs?filter=latest&per_page=100: 404 (request id FA7E:"),
        ("jobs empty", "no job"),
        ("not queued yet", "run requested, no job"),
    ],
)
def test_r70_expiry_reports_the_last_that_was_seen(go, github, name, told):
    github.plan_all(runner_after=None, **missing(name, 3000))
    assert told in go().message


def test_r70_expiry_reports_the_last_error_not_an_earlier_one(go, github):
    github.plan_all(runner_after=None, jobs_after=3000)
    github.fail("run", times=3, status=404)
    message = go().message
    assert "/jobs" in message
    assert f"GET {RUN_PATH}: 404" not in message


def test_r66_the_window_begins_with_the_answer_to_the_dispatch(go, github):
    github.plan_all(visible_after=130, runner_after=140)
    github.fail("dispatch", takes=10)
    assert go().ok
    assert github.gets("run", 1001)[0].at == 25
    assert 130 in times(github.gets("run", 1001))


def test_r65_a_later_child_has_a_window_of_its_own(go, github):
    github.never()
    github.plan(visible_after=100)
    assert go().ok
    second = github.children[1].created
    assert times(github.gets("run", 1002))[:2] == [second + 15, second + 20]


def test_r65_a_later_child_that_does_not_become_visible_ends_the_sequence(go, github):
    github.never()
    github.plan(visible_after=121, runner_after=None)
    result = go()
    assert result.kind == "startup_timeout"
    assert result.outputs["run-id"] == "1002"
    assert len(github.dispatches()) == 2
    github.assert_all_ended()


@pytest.mark.parametrize("endpoint", ["run", "jobs"])
@pytest.mark.parametrize("runner_after", [None, 5])
@pytest.mark.parametrize("since", [70, 140])
def test_r67_a_404_after_the_window_is_not_waited_for(go, github, endpoint, runner_after, since):
    github.plan_all(runner_after=runner_after, runs_for=3000)
    github.fail(endpoint, since=since, run_id=1001, status=404)
    result = go()
    assert result.kind == "api_error"
    assert "404" in result.message
    assert since <= github.cancels(1001)[0].at <= since + 125
    assert len(github.dispatches()) == 1
    assert "cleanup of 1001: confirmed" in result.message
    github.assert_all_ended()


def test_r67_a_404_after_it_was_visible_is_final_also_within_the_first_120_seconds(go, github):
    github.plan_all(runner_after=None)
    github.fail("jobs", skip=1, status=404)
    assert go().kind == "api_error"
    assert github.cancels(1001)[0].at == 75
    github.assert_all_ended()


@pytest.mark.parametrize(("status", "kind"), [(401, "auth"), (403, "auth"), (410, "api_error"), (422, "api_error")])
@pytest.mark.parametrize("endpoint", ["run", "jobs"])
def test_r67_any_other_refusal_ends_the_start_at_once(go, github, endpoint, status, kind):
    github.plan_all(runner_after=None)
    github.fail(endpoint, status=status, run_id=1001)
    result = go()
    assert result.kind == kind
    assert str(status) in result.message
    assert github.cancels(1001)[0].at == 15
    assert len(github.dispatches()) == 1
    github.assert_all_ended()


@pytest.mark.parametrize("endpoint", ["run", "jobs"])
@pytest.mark.parametrize("fault", [{"status": 502}, {"error": "reset"}, {"status": 200, "body": b"{oops"}])
def test_r67_outages_in_the_start_are_retried_twice(go, github, endpoint, fault):
    github.plan_all(runner_after=200)
    github.fail(endpoint, times=2, run_id=1001, **fault)
    assert go().ok
    assert times(github.gets(endpoint, 1001))[:3] == [15, 20, 30]


@pytest.mark.parametrize("endpoint", ["run", "jobs"])
def test_r67_outages_that_last_are_an_api_error(go, github, endpoint):
    github.plan_all(runner_after=None)
    github.fail(endpoint, times=3, run_id=1001, status=502)
    result = go()
    assert result.kind == "api_error"
    assert "502" in result.message
    assert "tried 3 times" in result.message
    assert github.cancels(1001)[0].at == 30
    github.assert_all_ended()


@pytest.mark.parametrize("endpoint", ["run", "jobs"])
def test_r65_retries_share_the_window(go, github, endpoint):
    github.plan_all(runner_after=None, visible_after=118)
    github.fail(endpoint, since=115, until=140, times=None, run_id=1001, status=502)
    result = go()
    assert result.kind == "startup_timeout"
    assert github.cancels(1001)[0].at <= 125
    github.assert_all_ended()


def test_r65_a_rate_limit_wait_shares_the_window(go, github):
    github.plan_all(runner_after=None)
    github.fail("run", times=None, until=130, run_id=1001, status=429, headers={"Retry-After": "60"})
    result = go()
    assert result.kind == "startup_timeout"
    assert "429" in result.message
    assert times(github.gets("run", 1001))[:2] == [15, 75]
    assert github.cancels(1001)[0].at <= 120
    github.assert_all_ended()


# -- the identity of the child --------------------------------------------------------------------------------

RUN_FIELDS: dict[str, dict[str, Any]] = {
    "id": {"id": 1002},
    "attempt 2": {"run_attempt": 2},
    "attempt 0": {"run_attempt": 0},
    "attempt as text": {"run_attempt": "1"},
    "attempt left out": {"run_attempt": ...},
    "event": {"event": "push"},
    "event null": {"event": None},
    "event left out": {"event": ...},
    "path": {"path": ".github/workflows/other.yml"},
    "path in another place": {"path": "x/.github/workflows/runner-worker.yml"},
    "path case": {"path": ".github/workflows/Runner-worker.yml"},
    "path longer": {"path": ".github/workflows/runner-worker.yml.yml"},
    "path left out": {"path": ...},
    "path empty": {"path": ""},
    "sha": {"head_sha": "d" * 40},
    "sha short": {"head_sha": "c" * 39},
    "sha null": {"head_sha": None},
    "sha left out": {"head_sha": ...},
    "title": {"display_title": "another"},
    "title of the workflow": {"display_title": "Runner worker"},
    "title null": {"display_title": None},
    "title left out": {"display_title": ...},
}
NAMED = [(fields, next(iter(fields))) for fields in RUN_FIELDS.values()]


@pytest.mark.parametrize(("fields", "name"), NAMED, ids=RUN_FIELDS)
def test_r69_r70_a_run_that_is_not_the_one_is_never_accepted(go, github, fields, name):
    """Not even when it has ended well."""
    github.plan_all(runner_after=1, runs_for=20)
    github.drift(None, 0, run=fields)
    result = go()
    assert result.kind == "startup_timeout"
    assert f"{name}: expected " in result.message
    assert "found " in result.message
    assert times(github.gets("run", 1001))[:22] == every(15, 120)
    assert len(github.dispatches()) == 1


@pytest.mark.parametrize("fields", RUN_FIELDS.values(), ids=RUN_FIELDS)
@pytest.mark.parametrize("good_at", [30, 120])
def test_r69_fields_may_come_late(go, github, fields, good_at):
    github.plan_all(runner_after=200)
    github.drift(None, 0, run=fields)
    good = {
        "id": 1001,
        "run_attempt": 1,
        "event": "workflow_dispatch",
        "path": ".github/workflows/runner-worker.yml",
        "head_sha": github.main_sha,
    }

    def come() -> None:
        title = github.children[0].request_id
        github.drift(1, run={**good, "display_title": title})

    github.clock.at(good_at, come)
    assert go().ok
    assert times(github.gets("jobs", 1001))[0] == good_at


def test_r69_a_wrong_run_is_cleaned_up(go, github):
    github.plan_all(runner_after=None)
    github.drift(None, 0, run={"head_sha": "d" * 40})
    result = go()
    assert f"head_sha: expected {'c' * 40}, found {'d' * 40}" in result.message
    assert "cleanup of 1001: confirmed" in result.message
    github.assert_all_ended()


@pytest.mark.parametrize("suffix", ["@main", "@refs/heads/main", "@v1"])
def test_r69_a_path_may_end_in_the_ref(go, github, suffix):
    github.path_suffix = suffix
    assert go().ok


def test_r69_several_differences_are_all_told(go, github):
    github.plan_all(runner_after=None)
    github.drift(None, 0, run={"event": "push", "run_attempt": 3, "display_title": "x\n::error::y"})
    message = go().message
    for part in ("event: expected workflow_dispatch, found push", "run_attempt: expected 1, found 3", "display_title:"):
        assert part in message
    assert "\n" not in message


JOB_FIELDS: dict[str, dict[str, Any]] = {
    "run_id": {"run_id": 1002},
    "run_id as text": {"run_id": "1001"},
    "run_id left out": {"run_id": ...},
    "attempt": {"run_attempt": 2},
    "id null": {"id": None},
    "id left out": {"id": ...},
    "name": {"name": "other"},
    "name null": {"name": None},
    "name left out": {"name": ...},
}


@pytest.mark.parametrize("fields", JOB_FIELDS.values(), ids=JOB_FIELDS)
@pytest.mark.parametrize("runs_for", [5, 3000])
def test_r69_a_job_that_is_not_the_one_is_never_accepted(go, github, fields, runs_for):
    github.plan_all(runner_after=1, runs_for=runs_for)
    github.drift(None, 0, job=fields)
    result = go()
    assert result.kind in ("identity_mismatch", "contract", "startup_timeout")
    assert len(github.dispatches()) == 1
    assert "cleanup of 1001: confirmed" in result.message
    github.assert_all_ended()


@pytest.mark.parametrize("fields", [{"id": None}, {"run_id": 0}, {"run_id": ...}], ids=str)
@pytest.mark.parametrize("good_at", [16, 60, 119])
def test_r65_r68_a_job_without_its_numbers_is_waited_for(go, github, fields, good_at):
    github.plan(runner_after=200, runs_for=5)
    github.drift(None, 0, job=fields)
    github.clock.at(good_at, lambda: github.drift(1, job={"id": 2001, "run_id": 1001}))
    assert go().ok


def test_r70_expiry_says_that_the_job_had_no_number(go, github):
    github.plan_all(runner_after=None)
    github.drift(None, 0, job={"run_id": None})
    result = go()
    assert result.kind == "startup_timeout"
    assert "a job without its number or that of its run" in result.message


# -- later drift ----------------------------------------------------------------------------------------------

STAGES: dict[str, dict[str, Any]] = {"queued": {"runner_after": None}, "running": {"runner_after": 5, "runs_for": 3000}}


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize(("fields", "name"), NAMED, ids=RUN_FIELDS)
def test_r71_a_run_that_changes_later_fails_at_once(go, github, kept, stage, *, fields, name):
    github.plan_all(**STAGES[stage])
    github.drift(None, 200, run=fields)
    github.clock.at(340, lambda: github.drift(1, run={"id": 1001}))
    result = go()
    assert result.kind == "identity_mismatch"
    assert f"{name}: expected " in result.message
    assert 200 <= github.cancels(1001)[0].at <= 200 + 121
    assert len(github.dispatches()) == 1
    assert "cleanup of 1001: confirmed" in result.message
    assert not kept()
    github.assert_all_ended()


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("fields", [*JOB_FIELDS.values(), {"id": 99}], ids=[*JOB_FIELDS, "other id"])
def test_r71_a_job_that_changes_later_fails_at_once(go, github, stage, fields):
    github.plan_all(**STAGES[stage])
    github.drift(None, 200, job=fields)
    result = go()
    assert result.kind in ("identity_mismatch", "contract")
    assert 200 <= github.cancels(1001)[0].at <= 260
    assert len(github.dispatches()) == 1
    github.assert_all_ended()


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("field", ["run", "job"])
def test_r71_a_rerun_of_the_child_is_not_its_result(go, github, stage, field):
    github.plan_all(**STAGES[stage])
    github.drift(None, 200, **{field: {"run_attempt": 2, "status": "completed", "conclusion": "success"}})
    assert go().kind == "identity_mismatch"
    assert len(github.dispatches()) == 1


@pytest.mark.parametrize("fields", RUN_FIELDS.values(), ids=RUN_FIELDS)
def test_r71_r85_confirmation_of_a_cancellation_relaxes_no_identity(go, github, fields):
    github.plan_all(runner_after=None)
    github.drift(None, 616, run=fields)
    github.clock.at(640, lambda: github.drift(1, run={"id": 1001}))
    result = go()
    assert result.kind == "identity_mismatch"
    assert len(github.dispatches()) == 1
    github.assert_all_ended()


@pytest.mark.parametrize("fields", JOB_FIELDS.values(), ids=JOB_FIELDS)
def test_r71_r85_nor_that_of_the_job(go, github, fields):
    github.plan_all(runner_after=None)
    github.drift(None, 616, job=fields)
    assert go().kind in ("identity_mismatch", "contract")
    assert len(github.dispatches()) == 1
    github.assert_all_ended()


# -- answers in flight ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("takes", [1, 10, 29])
@pytest.mark.parametrize("began", [116, 120])
def test_r72_an_answer_in_flight_may_come_after_the_window(go, github, began, takes):
    """The look at the jobs begins within the window; what it tells is accepted."""
    github.plan_all(runner_after=200, jobs_after=began)
    github.fail("jobs", since=began, takes=takes)
    assert go().ok
    assert not github.cancels()
    (last,) = [look for look in github.gets("jobs", 1001) if 116 <= look.at <= 120]
    assert last.ended == 120 + takes


@pytest.mark.parametrize("takes", [1, 10, 29])
def test_r72_a_look_whose_run_comes_after_the_window_is_finished(go, github, takes):
    """A look is the run and its jobs; it began within the window."""
    github.plan_all(runner_after=200, visible_after=118)
    github.fail("run", since=118, takes=takes)
    assert go().ok
    assert not github.cancels()


@pytest.mark.parametrize("began", [115, 120])
@pytest.mark.parametrize("endpoint", ["run", "jobs"])
def test_r72_an_answer_in_flight_that_shows_nothing_is_the_end(go, github, endpoint, began):
    github.plan_all(runner_after=None, **({"visible_after": 121} if endpoint == "run" else {"jobs_after": 121}))
    github.fail(endpoint, since=began, takes=20, run_id=1001)
    result = go()
    assert result.kind == "startup_timeout"
    assert github.cancels(1001)[0].at == began + 20
    assert not [at for at in times(github.gets(endpoint, 1001)) if began < at < began + 20]
    assert "404 (request id" in result.message  # what that answer showed
    github.assert_all_ended()


def test_r72_an_answer_that_never_comes_is_the_end(go, github):
    github.plan_all(runner_after=None)
    github.fail("run", since=115, until=121, times=None, takes=1000, run_id=1001)
    github.fail("jobs", until=115, times=None, status=404, run_id=1001)
    result = go()
    assert result.kind == "startup_timeout"
    assert github.cancels(1001)[0].at <= 150
    github.assert_all_ended()


# -- cleaned up after each ------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", [{"status": 500}, {"error": "reset"}, {"status": 404}, {"status": 409}])
def test_r70_a_cleanup_that_fails_at_first_is_tried_again(go, github, kept, fault):
    github.plan_all(runner_after=None, jobs_after=3000)
    github.fail("cancel", times=3, **fault)
    result = go()
    assert result.kind == "startup_timeout"
    assert "cleanup of 1001: confirmed" in result.message
    assert not kept()
    github.assert_all_ended()


def test_r70_a_cleanup_that_is_not_confirmed_says_so_and_keeps_the_run(go, github, kept):
    github.plan_all(runner_after=None, jobs_after=3000, cancel_after=None)
    result = go()
    assert result.kind == "startup_timeout"
    assert "cleanup of 1001: unconfirmed" in result.message
    assert kept()["run-id"] == "1001"
    assert result.state["run-id"] == "1001"
    assert len(github.dispatches()) == 1


@pytest.mark.parametrize("at", [7, 15, 63])
def test_r70_a_cancelled_parent_leaves_the_run_to_the_post_step(go, github, clock, env, *, files, lines, at):
    github.plan_all(runner_after=None, visible_after=62)
    clock.interrupt(at)
    result = go()
    assert result.kind == "parent_cancelled"
    assert result.state["run-id"] == "1001"
    clock.advance(60)
    assert coordinator.cleanup(files.state(), env, github, clock, lines.append).ok
    github.assert_all_ended()
