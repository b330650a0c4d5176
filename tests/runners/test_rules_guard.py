"""The rules R130 to R135: the guard, which decides in the child whether the workload may run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_sgpu.runners import coordinator, guard
from pytest_sgpu.runners.ports import Result

WANTED = "expected run 1, attempt 1, in_progress"
FIVE = ["request-id", "parent-run-id", "parent-run-attempt", "source-ref", "source-sha"]
COMING = {
    "404": {"missing": True},
    "queued": {"status": "queued"},
    "requested": {"status": "requested"},
    "pending": {"status": "pending"},
}


@pytest.fixture
def check(guard_inputs, guard_env, github, clock, lines) -> Callable[..., Result]:
    """Run the guard; keywords change its inputs (``_`` for ``-``), None leaves one out; ``env`` changes variables."""

    def run(env=(), **changes: str | None) -> Result:
        given = {**guard_inputs, **{name.replace("_", "-"): value for name, value in changes.items()}}
        around = {**guard_env, **dict(env)}
        return guard.run(
            {name: value for name, value in given.items() if value is not None},
            {name: value for name, value in around.items() if value is not None},
            github,
            clock,
            lines.append,
        )

    return run


def times(asked) -> list[float]:
    return [one.at for one in asked]


# -- inputs ---------------------------------------------------------------------------------------------------


def test_r130_it_takes_what_was_dispatched(check, github, guard_inputs, clock):
    assert sorted(guard_inputs) == sorted(FIVE)
    result = check()
    assert result == Result(ok=True, message=result.message)
    assert guard_inputs["request-id"] in result.message
    assert [(asked.endpoint, asked.path) for asked in github.requests] == [
        ("parent", "/repos/o/r/actions/runs/1"),
        ("ref", "/repos/o/r/git/ref/pull/7/merge"),
    ]
    assert clock.elapsed == 0


@pytest.mark.parametrize("value", [None, "", "  "])
@pytest.mark.parametrize("name", FIVE)
def test_r130_every_input_is_needed(check, github, lines, name, value):
    result = check(**{name: value})
    assert (result.ok, result.kind) == (False, "config")
    assert name in result.message
    assert lines == [], "who calls it tells what is wrong, once"
    assert not github.requests


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("parent-run-id", "0"),
        ("parent-run-id", "-1"),
        ("parent-run-id", "1.0"),
        ("parent-run-id", "one"),
        ("parent-run-id", "1/../2"),
        ("parent-run-id", "9" * 400),
        ("parent-run-attempt", "0"),
        ("parent-run-attempt", "x"),
        ("source-ref", "main"),
        ("source-ref", "refs/heads/../x"),
        ("source-sha", "5" * 39),
        ("source-sha", "main"),
        ("request", "typo"),
        ("workloads", "[{}]"),
        ("runners", "[]"),
        ("runner-type", "cpu"),
        ("source-polic", "current"),
        ("queue-policy", "standard"),
    ],
)
def test_r130_a_wrong_or_unknown_input_is_refused_before_any_request(check, github, lines, name, value):
    result = check(**{name: value})
    assert result.kind == "config"
    assert name in result.message
    assert lines == []
    assert not github.requests


HANDED_ON = [
    {"source_policy": "pinned-after-start"},
    {"source_policy": "current"},
    {"source_policy": "no such policy"},
    {"runner": '{"group":"g","labels":"l"}'},
    {"runner": "{oops"},
    {"workload": "{}"},
    {"workload": "no JSON"},
    {"runner": "", "workload": "", "source_policy": ""},
    {"runner": "{}", "workload": '{"n":1}', "source_policy": "pinned-after-start"},
]


@pytest.mark.parametrize("more", HANDED_ON, ids=str)
def test_r133_what_else_a_child_was_dispatched_with_is_ignored(check, github, more):
    assert check(**more).ok
    assert [asked.endpoint for asked in github.requests] == ["parent", "ref"]


@pytest.mark.parametrize("more", HANDED_ON, ids=str)
def test_r133_it_changes_nothing_about_a_source_that_moved(check, github, more):
    github.move(github.source_ref, "b" * 40)
    assert check(**more).kind == "source_changed"


@pytest.mark.parametrize("value", [None, "", "x", "0"])
@pytest.mark.parametrize("name", ["GITHUB_REPOSITORY", "GITHUB_RUN_ATTEMPT"])
def test_r130_the_variables_of_the_job_are_needed(check, github, name, value):
    result = check(env={name: value})
    assert result.kind == "config"
    assert name in result.message
    assert not github.requests


@pytest.mark.parametrize("value", [None, "", "two words", "line\nbreak"])
def test_r130_the_token_is_needed_and_never_shown(check, github, lines, value):
    result = check(env={"GITHUB_TOKEN": value})
    assert result.kind == "config"
    assert "oken" in result.message
    if value:
        assert value not in result.message
        assert all(value not in line for line in lines)
    assert not github.requests


def test_r130_the_token_may_be_an_input(check, github):
    assert check(env={"GITHUB_TOKEN": None}, token=github.token).ok


# -- the parent -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("coming", COMING.values(), ids=COMING)
@pytest.mark.parametrize(("active_at", "seen_at"), [(1, 5), (60, 60), (119, 120), (120, 120)])
def test_r131_a_parent_that_is_coming_is_waited_for(check, github, clock, coming, *, active_at, seen_at):
    github.parent(0, **coming)
    github.parent(active_at, missing=False, status="in_progress")
    assert check().ok
    assert times(github.gets("parent")) == list(range(0, seen_at + 1, 5))
    assert clock.elapsed == seen_at


@pytest.mark.parametrize("coming", COMING.values(), ids=COMING)
@pytest.mark.parametrize("active_at", [120.5, 200])
def test_r131_after_120_seconds_the_workload_does_not_run(check, github, clock, lines, *, coming, active_at):
    github.parent(0, **coming)
    github.parent(active_at, missing=False, status="in_progress")
    result = check()
    assert (result.ok, result.kind) == (False, "parent_not_active")
    assert clock.elapsed == 120
    assert times(github.requests) == list(range(0, 121, 5))
    seen = "404" if "missing" in coming else coming["status"]
    assert sum(WANTED in line and seen in line for line in lines) >= 25
    assert WANTED in result.message
    assert any("the workload does not run" in line for line in lines)


@pytest.mark.parametrize("takes", [0.5, 20])
def test_r131_an_answer_after_the_deadline_confirms_nothing(check, github, takes):
    github.parent(0, status="queued")
    github.parent(119, status="in_progress")
    github.fail("parent", since=119, times=None, takes=takes)
    assert check().kind == "parent_not_active"


@pytest.mark.parametrize("fault", [{"status": 500}, {"status": 408}, {"error": "reset"}, {"status": 200, "body": b"["}])
def test_r131_retries_share_the_deadline(check, github, clock, fault):
    github.parent(0, status="queued")
    github.fail("parent", since=110, times=None, **fault)
    result = check()
    assert result.kind == "parent_not_active"
    assert WANTED in result.message
    assert clock.elapsed <= 120


def test_r131_outages_are_retried_twice(check, github):
    github.fail("parent", times=2, status=502)
    assert check().ok
    assert times(github.gets("parent")) == [0, 5, 15]


@pytest.mark.parametrize("fault", [{"status": 502}, {"error": "no route"}, {"status": 200, "body": b"{}"}])
def test_r131_an_outage_that_lasts_blocks_the_workload(check, github, clock, fault):
    github.fail("parent", times=None, **fault)
    result = check()
    assert (result.ok, result.kind) == (False, "api_error")
    assert "GET /repos/o/r/actions/runs/1" in result.message
    assert "tried 3 times" in result.message
    assert clock.elapsed == 15


def test_r131_a_rate_limit_is_waited_out_within_the_deadline(check, github, clock):
    github.fail("parent", status=403, headers={"Retry-After": "30"})
    assert check().ok
    assert clock.elapsed == 30


# -- what is stale --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("conclusion", ["success", "failure", "cancelled", "timed_out", "skipped", "neutral", None])
@pytest.mark.parametrize("at", [0, 60])
def test_r132_a_parent_that_has_ended_is_refused_at_once(check, github, clock, conclusion, at):
    github.parent(0, status="queued")
    github.parent(at, status="completed", conclusion=conclusion)
    result = check()
    assert (result.ok, result.kind) == (False, "parent_not_active")
    assert "completed" in result.message
    assert clock.elapsed == at
    assert not github.gets("ref")


@pytest.mark.parametrize(
    "fields",
    [
        {"run_attempt": 2},
        {"run_attempt": 2, "status": "queued"},
        {"run_attempt": ...},
        {"run_attempt": "1"},
        {"id": 2},
        {"status": "waiting"},
        {"status": "unknown"},
        {"status": None},
        {"status": ...},
    ],
)
def test_r132_a_parent_that_is_another_or_unknown_is_refused_at_once(check, github, clock, fields):
    github.parent(**fields)
    result = check()
    assert result.kind == "parent_not_active"
    assert WANTED in result.message
    assert clock.elapsed == 0


@pytest.mark.parametrize("dispatched", ["2", "3"])
def test_r132_the_attempt_is_that_of_the_dispatch(check, github, dispatched):
    assert check(parent_run_attempt=dispatched).kind == "parent_not_active"
    github.parent(run_attempt=int(dispatched))
    assert check(parent_run_attempt=dispatched).ok


@pytest.mark.parametrize("attempt", ["2", "3", "17"])
def test_r132_r119_a_child_that_was_rerun_is_refused(check, github, attempt):
    result = check(env={"GITHUB_RUN_ATTEMPT": attempt})
    assert (result.ok, result.kind) == (False, "identity_mismatch")
    assert "rerun" in result.message
    assert "parent" in result.message
    assert not github.gets("ref")


@pytest.mark.parametrize("sha", ["d" * 40, "5" * 40, None])
def test_r132_a_source_that_moved_or_is_gone_is_refused(check, github, sha):
    github.move(github.source_ref, sha)
    result = check()
    assert (result.ok, result.kind) == (False, "source_changed")
    assert github.source_sha in result.message
    assert github.source_ref in result.message
    if sha:
        assert sha in result.message


def test_r132_the_source_is_looked_at_after_the_parent_is_active(check, github):
    github.parent(0, status="queued")
    github.parent(60, status="in_progress")
    github.move(github.source_ref, "d" * 40, at=30)
    assert check().kind == "source_changed"


def test_r132_case_of_the_sha_does_not_matter(check, github):
    assert check(source_sha=github.source_sha.upper()).ok


def test_r132_an_annotated_tag_is_looked_through(check, github):
    github.move("refs/tags/v1", "e" * 40, tag_object="f" * 40)
    assert check(source_ref="refs/tags/v1", source_sha="e" * 40).ok
    assert check(source_ref="refs/tags/v1", source_sha="f" * 40).kind == "source_changed"


def test_r132_a_ref_is_quoted_in_the_path(check, github):
    github.move("refs/heads/a b#1%2F?x", "e" * 40)
    result = check(source_ref="refs/heads/a#1%2F", source_sha="e" * 40)
    assert result.kind == "source_changed"
    github.move("refs/heads/a#1%2F", "e" * 40)
    assert check(source_ref="refs/heads/a#1%2F", source_sha="e" * 40).ok


@pytest.mark.parametrize("body", [b"{}", b"null", b'{"object": {}}', b'{"object": {"sha": null}}', b"[]", b"{oops"])
def test_r132_a_source_that_cannot_be_read_is_not_current(check, github, clock, body):
    github.fail("ref", times=None, status=200, body=body)
    assert check().kind == "api_error"
    assert clock.elapsed == 15


@pytest.mark.parametrize("status", [500, 502, 408])
def test_r132_an_outage_in_the_look_at_the_source_is_retried(check, github, status):
    github.fail("ref", times=2, status=status)
    assert check().ok
    assert times(github.gets("ref")) == [0, 5, 15]
    github.fail("ref", times=None, status=status)
    assert check().kind == "api_error"


@pytest.mark.parametrize("endpoint", ["parent", "ref"])
@pytest.mark.parametrize(("status", "kind"), [(401, "auth"), (403, "auth"), (400, "api_error"), (409, "api_error")])
def test_r132_a_refusal_blocks_the_workload_at_once(check, github, clock, endpoint, *, status, kind):
    github.fail(endpoint, status=status)
    result = check()
    assert (result.ok, result.kind) == (False, kind)
    assert str(status) in result.message
    assert clock.elapsed == 0


def test_r132_a_wrong_token_is_refused(check, github):
    result = check(env={"GITHUB_TOKEN": "ghs_another"})
    assert result.kind == "auth"
    assert "ghs_another" not in result.message


# -- policy, permissions, place -------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["current", "pinned-after-start"])
def test_r133_r135_its_refusal_is_a_failure_of_the_worker_and_no_reason_to_fall_back(
    inputs, env, github, clock, *, fake, lines, policy
):
    """The source moves after the runner was there and before the guard looks, which no policy exempts."""
    results: list[Result] = []
    said: list[str] = []
    github.plan(runner_after=62, runs_for=8, conclusion="failure")
    github.move(github.source_ref, "d" * 40, at=68)

    def first_step() -> None:
        (child,) = github.children
        around = {**env, "GITHUB_RUN_ID": str(child.run_id)}
        results.append(guard.run(fake.guard_inputs(child), around, github, clock, said.append))

    clock.at(69, first_step)
    result = coordinator.run({**inputs, "source-policy": policy}, env, github, clock, lines.append)
    assert [one.kind for one in results] == ["source_changed"]
    assert result.kind == "worker_failed"
    assert len(github.dispatches()) == 1


def test_r130_it_accepts_what_the_coordinator_dispatches(inputs, env, github, clock, *, fake, lines):
    results: list[Result] = []
    github.plan(runner_after=62, runs_for=8)

    def first_step() -> None:
        (child,) = github.children
        around = {**env, "GITHUB_RUN_ID": str(child.run_id)}
        results.append(guard.run(fake.guard_inputs(child), around, github, clock, lines.append))

    clock.at(65, first_step)
    assert coordinator.run(inputs, env, github, clock, lines.append).ok
    assert [one.ok for one in results] == [True]


def test_r134_it_only_reads_and_only_what_read_permissions_show(check, github):
    github.parent(0, missing=True)
    github.parent(30, missing=False, status="queued")
    github.parent(60, status="in_progress")
    assert check().ok
    assert not github.posts()
    assert {asked.method for asked in github.requests} == {"GET"}
    assert {asked.endpoint for asked in github.requests} == {"parent", "ref"}
    assert all(asked.body is None for asked in github.requests)


@pytest.mark.parametrize("moved", [True, False])
def test_r135_it_leaves_no_outputs_and_no_state(check, github, guard_env, moved):
    """A state would let the post step of the child cancel something."""
    github.move(github.source_ref, "d" * 40 if moved else github.source_sha)
    assert check().ok is not moved
    assert not Path(guard_env["GITHUB_STATE"]).read_text(encoding="utf-8")
    assert not Path(guard_env["GITHUB_OUTPUT"]).read_text(encoding="utf-8")


# -- interrupts, and what is said -----------------------------------------------------------------------------


@pytest.mark.parametrize("at", [2, 60, 119])
def test_r135_interrupted_while_waiting_the_workload_does_not_run(check, github, clock, at):
    github.parent(0, status="queued")
    clock.interrupt(at)
    result = check()
    assert (result.ok, result.kind) == (False, "parent_cancelled")
    assert clock.elapsed == at
    assert not github.posts()


@pytest.mark.parametrize("endpoint", ["parent", "ref"])
def test_r135_interrupted_in_a_request_the_workload_does_not_run(check, github, clock, endpoint):
    github.fail(endpoint, takes=10)
    clock.interrupt(4)
    result = check()
    assert (result.ok, result.kind) == (False, "parent_cancelled")
    assert result.message


def test_r135_what_the_api_says_cannot_forge_a_line_or_show_the_token(check, github, lines):
    github.fail("parent", status=403, body={"message": f"no\n::set-output name=x::y\x1b[2J {github.token}"})
    result = check()
    for text in (*lines, result.message):
        assert github.token not in text
        assert "\n" not in text
        assert "\x1b" not in text


def test_r135_the_end_is_said(check, github, lines):
    result = check()
    assert any(result.message in line for line in lines)
    github.move(github.source_ref, None)
    result = check()
    assert any(result.kind in line and "the workload does not run" in line for line in lines)
