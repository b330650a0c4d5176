"""The rules R112 to R119: what is left of a child when something goes wrong, and what the post step makes of it."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_sgpu.runners import coordinator
from pytest_sgpu.runners.ports import Response, Result

if TYPE_CHECKING:
    from tests.runners.fake import FakeGitHub

OTHER = "b" * 40
TWO = json.dumps(
    [
        {"group": "nv-cpu-general", "labels": "linux-amd64-cpu16"},
        {"group": "nv-cpu-general", "labels": "linux-amd64-cpu8"},
    ]
)
NEVER = {"runner_after": None}
FOR_EVER = {"runs_for": None}
POST_LIMIT = 300.0  # GitHub ends the post steps of a cancelled job after five minutes


def blank(state) -> bool:
    return not any(state.values())


# -- R112: every error cleans up at once --------------------------------------------------------------------------

ERRORS = {
    "source moved in the queue": ("source_changed", NEVER, lambda g: g.move(g.source_ref, OTHER, at=200), {}),
    "source gone in the queue": ("source_changed", NEVER, lambda g: g.move(g.source_ref, None, at=200), {}),
    "source moved while running": ("source_changed", FOR_EVER, lambda g: g.move(g.source_ref, OTHER, at=200), {}),
    "source moved in the queue, pinned": (
        "source_changed",
        NEVER,
        lambda g: g.move(g.source_ref, OTHER, at=200),
        {"source_policy": "pinned-after-start"},
    ),
    "parent rerun": ("parent_changed", NEVER, lambda g: g.parent_rerun(200), {}),
    "parent over": ("parent_changed", NEVER, lambda g: g.parent(200, status="completed", conclusion="success"), {}),
    "parent rerun while running": ("parent_changed", FOR_EVER, lambda g: g.parent_rerun(200), {}),
    "parent cancelled in the queue": ("parent_cancelled", NEVER, lambda g: g.parent_cancelled(200), {}),
    "parent cancelled while running": ("parent_cancelled", FOR_EVER, lambda g: g.parent_cancelled(200), {}),
    "parent gone": ("parent_changed", NEVER, lambda g: g.parent(200, missing=True), {}),
    "parent queued again": ("parent_changed", NEVER, lambda g: g.parent(200, status="queued"), {}),
    "parent waiting while running": ("parent_changed", FOR_EVER, lambda g: g.parent(200, status="waiting"), {}),
    "jobs fail": ("api_error", NEVER, lambda g: g.fail("jobs", times=None, since=100, status=502), {}),
    "jobs are no JSON": (
        "api_error",
        NEVER,
        lambda g: g.fail("jobs", times=None, since=100, status=200, body=b"{"),
        {},
    ),
    "jobs answer late": ("api_error", NEVER, lambda g: g.fail("jobs", times=None, since=100, takes=40), {}),
    "jobs gone": ("api_error", NEVER, lambda g: g.fail("jobs", skip=1, status=404), {}),
    "run gone": ("api_error", FOR_EVER, lambda g: g.fail("run", skip=1, status=404), {}),
    "rate limit for long": (
        "api_error",
        NEVER,
        lambda g: g.fail("jobs", skip=1, status=403, headers={"Retry-After": "3600"}),
        {},
    ),
    "token refused": ("auth", NEVER, lambda g: g.fail("jobs", skip=1, status=401), {}),
    "permission refused": ("auth", FOR_EVER, lambda g: g.fail("ref", skip=1, status=403), {}),
    "two jobs": ("contract", {**NEVER, "jobs": 2}, lambda g: None, {}),
    "another job": ("contract", {**NEVER, "job_name": "test"}, lambda g: None, {}),
    "no job any more": (
        "contract",
        NEVER,
        lambda g: g.fail("jobs", skip=2, status=200, body={"total_count": 0, "jobs": []}),
        {},
    ),
    "another definition": ("identity_mismatch", NEVER, lambda g: g.drift(None, 200, run={"head_sha": OTHER}), {}),
    "another title": ("identity_mismatch", FOR_EVER, lambda g: g.drift(None, 200, run={"display_title": "x"}), {}),
    "a rerun of the child": ("identity_mismatch", NEVER, lambda g: g.drift(None, 200, run={"run_attempt": 2}), {}),
    "another job id": ("identity_mismatch", NEVER, lambda g: g.drift(None, 200, job={"id": 77}), {}),
    "jobs never visible": ("startup_timeout", {**NEVER, "jobs_after": 1e6}, lambda g: None, {}),
    "jobs always empty": ("startup_timeout", {**NEVER, "jobs_after": 1e6, "jobs_missing": "empty"}, lambda g: None, {}),
    "never the right run": ("startup_timeout", NEVER, lambda g: g.drift(None, 0, run={"event": "push"}), {}),
    "runs too long": ("execution_timeout", FOR_EVER, lambda g: None, {"execution_timeout_minutes": "2"}),
    "dispatch lost": ("dispatch_ambiguous", NEVER, lambda g: g.fail("dispatch", error="reset", done=True), {}),
    "dispatch answered 500": ("dispatch_ambiguous", NEVER, lambda g: g.fail("dispatch", status=500, done=True), {}),
    "dispatch without an id": ("dispatch_ambiguous", NEVER, lambda g: g.fail("dispatch", status=204, done=True), {}),
    "cancel fails": ("api_error", NEVER, lambda g: g.fail("cancel", times=3, status=500), {}),
    "cancel not allowed": ("auth", NEVER, lambda g: g.fail("cancel", status=403), {}),
}
errors = pytest.mark.parametrize("case", ERRORS.values(), ids=ERRORS.keys())


@errors
def test_r112_every_error_cancels_the_child_at_once_and_confirms_it(case, github, job):
    kind, plan, setup, changes = case
    github.plan_all(**plan)
    setup(github)
    result = job.go(**changes)
    assert (result.ok, result.kind) == (False, kind)
    assert len(github.dispatches()) == 1
    cancelled = github.cancels(1001)[0]
    before = github.requests[cancelled.number - 2]
    assert cancelled.at == before.ended, "no time passes between what is wrong and the cancellation"
    github.assert_all_ended()
    assert blank(result.state)
    assert blank(job.files.state())
    assert "cleanup of 1001: confirmed" in result.message


def test_r112_a_race_is_cleaned_up_too_without_a_second_cancellation(github, job):
    github.plan_all(**NEVER, runner_after_cancel=1)
    result = job.go()
    assert result.kind == "race"
    assert "cleanup of 1001: confirmed" in result.message
    assert len(github.cancels()) == len(github.dispatches()) == 1
    github.assert_all_ended()
    assert blank(job.files.state())


@pytest.mark.parametrize("status", [401, 403, 404, 409, 422, 429])
def test_r112_a_refused_dispatch_leaves_nothing_to_clean_up(status, github, job):
    github.fail("dispatch", status=status)
    result = job.go()
    assert result.kind == ("auth" if status in (401, 403) else "dispatch_failed")
    assert blank(result.state)
    assert blank(job.files.state())
    before = len(github.requests)
    assert job.post().ok
    assert len(github.requests) == before
    assert not github.cancels()


@pytest.mark.parametrize("plan", [{}, {"conclusion": "failure"}, {"ends_after": 30, "conclusion": "cancelled"}])
def test_r112_a_child_that_has_ended_is_not_cancelled(plan, github, job):
    github.plan_all(**plan)
    result = job.go()
    assert result.kind in ("", "worker_failed")
    assert not github.cancels()
    assert blank(job.files.state())
    assert "cleanup" not in result.message


def test_r112_a_moved_definition_between_two_children_needs_no_cleanup(github, job):
    github.plan_all(**NEVER)
    github.move("refs/heads/main", OTHER, at=300)
    result = job.go()
    assert result.kind == "workflow_changed"
    assert (len(github.dispatches()), len(github.cancels())) == (1, 1)
    github.assert_all_ended()
    assert blank(job.files.state())


# -- R113: the job is being cancelled ------------------------------------------------------------------------------


class Cut:
    """A transport on which a signal arrives: before or after the ``number``-th request that fits."""

    def __init__(self, github: FakeGitHub, fits, number: int, *, before: bool) -> None:
        self._github, self._fits, self._left, self._before = github, fits, number, before

    def request(self, method, path, **rest) -> Response:
        mine = self._fits(method, path)
        self._left -= mine
        if mine and self._left == 0 and self._before:
            raise KeyboardInterrupt
        answer = self._github.request(method, path, **rest)
        if mine and self._left == 0:
            raise KeyboardInterrupt
        return answer


SHORT = {"runners": TWO, "queue_timeout_seconds": "100"}  # two candidates: the first gives no runner, the second does


def fallback(github) -> None:
    github.plan(**NEVER)
    github.plan(runner_after=20, runs_for=100)


def interrupted(result, files) -> None:
    assert (result.ok, result.kind) == (False, "parent_cancelled")
    assert {name: value for name, value in files.state().items() if value} == {
        name: value for name, value in result.state.items() if value
    }
    assert files.output() == dict(result.outputs)
    assert "parent_cancelled" in files.summary().replace("\\", "")


def was_ended(result, github, clock, begun) -> None:
    assert result.ok, result
    assert result.kind == ""
    assert blank(result.state)
    github.assert_all_ended()
    assert clock.elapsed - begun <= POST_LIMIT


def as_far_as_it_came(github, clock, files, post) -> None:
    """Run the post step. Whether a dispatch that was cut off has arrived cannot be told, so it is not called ended."""
    name, begun = files.state().get("request-id", ""), clock.elapsed
    result = post()
    if not name or name in [child.request_id for child in github.children]:
        was_ended(result, github, clock, begun)
        return
    assert result.kind == "cancel_unconfirmed"
    assert result.state["request-id"] == name
    github.assert_all_ended()
    assert clock.elapsed - begun <= POST_LIMIT


def survives(step):
    """Call ``step``; a signal that comes out of it would end the tests."""
    try:
        return step()
    except KeyboardInterrupt:
        pytest.fail("KeyboardInterrupt instead of a Result")


PHASES = {
    "before the first look at the parent": 0.2,
    "in the preflight": 1.0,
    "in the start-up wait": 8,
    "in the queue": 50,
    "shortly before the deadline": 117,
    "in the cancellation": 122.7,
    "in the confirmation": 125,
    "between two candidates": 129,
    "in the second start-up": 140,
    "while running": 190,
    "shortly before its end": 240,
}


@pytest.mark.parametrize("at", PHASES.values(), ids=PHASES.keys())
def test_r113_interrupted_at_any_phase_the_post_step_ends_the_child(at, github, clock, job):
    github.latency = 0.4
    fallback(github)
    clock.interrupt(at)
    result = job.go(**SHORT)
    interrupted(result, job.files)
    assert clock.elapsed == at, "the main step ends at once"
    was_ended(job.post(), github, clock, at)


@pytest.mark.parametrize("at", [step / 2 for step in range(1, 560, 7)])
def test_r113_interrupted_at_any_time_the_post_step_ends_the_child(at, github, clock, job):
    github.latency = 0.3
    fallback(github)
    clock.interrupt(at)
    result = job.go(**SHORT)
    if result.kind == "":
        assert result.ok
        assert clock.elapsed < at, "it was over before"
        assert at > 260, "not earlier than a run takes that is not interrupted"
        return
    interrupted(result, job.files)
    was_ended(job.post(), github, clock, at)


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("number", range(1, 33))
def test_r113_interrupted_at_any_request_the_post_step_ends_the_child(number, before, github, clock, job):
    fallback(github)
    result = job.go(Cut(github, lambda *_: True, number, before=before), **SHORT)
    if result.kind == "":
        assert number > 25, "it was over before"
        return
    interrupted(result, job.files)
    as_far_as_it_came(github, clock, job.files, job.post)


@pytest.mark.parametrize("number", range(1, 17))
def test_r113_interrupted_at_any_line_of_the_log_the_post_step_ends_the_child(number, github, clock, job):
    fallback(github)
    written = []

    def log(text) -> None:
        written.append(text)
        if len(written) == number:
            raise KeyboardInterrupt

    given = {**job.inputs, "runners": TWO, "queue-timeout-seconds": "100"}
    result = coordinator.run(given, job.env, github, clock, log)
    interrupted(result, job.files)
    as_far_as_it_came(github, clock, job.files, job.post)


def is_dispatch(method, path) -> bool:
    return str(path).endswith("/dispatches")


@pytest.mark.parametrize("number", [1, 2])
def test_r113_a_dispatch_that_was_cut_off_after_it_arrived_is_found_by_its_name(number, github, clock, job):
    fallback(github)
    job.go(Cut(github, is_dispatch, number, before=False), **SHORT)
    assert len(github.children) == number
    state, begun = job.files.state(), clock.elapsed
    assert (state["run-id"], state["request-id"]) == ("", github.children[-1].request_id)
    result = job.post()
    was_ended(result, github, clock, begun)
    assert str(github.children[-1].run_id) in result.message
    assert len(github.dispatches()) == number, "the post step dispatches nothing"


@pytest.mark.parametrize("listed_after", [0, 5, 20, 50])
def test_r113_a_dispatch_that_was_cut_off_is_looked_for_until_it_is_listed(listed_after, github, clock, job):
    github.plan_all(**NEVER, listed_after=listed_after)
    job.go(Cut(github, is_dispatch, 1, before=False))
    was_ended(job.post(), github, clock, 0)


def test_r113_a_dispatch_that_never_arrived_is_reported_as_unconfirmed_with_its_name(github, clock, job):
    job.go(Cut(github, is_dispatch, 1, before=True))
    name = job.files.state()["request-id"]
    result = job.post()
    assert (result.ok, result.kind) == (False, "cancel_unconfirmed")
    assert name in result.message
    assert result.state["request-id"] == name
    assert not github.cancels()
    assert clock.elapsed <= POST_LIMIT


def test_r113_a_dispatch_in_flight_is_cut_off_by_a_signal(github, clock, job):
    github.fail("dispatch", takes=10)
    clock.interrupt(5)
    interrupted(job.go(), job.files)
    assert clock.elapsed == 5
    was_ended(job.post(), github, clock, 5)


@pytest.mark.parametrize("at", [60, 130])
def test_r113_a_second_signal_does_not_take_the_result_away(at, github, clock, job):
    """The first one ends the wait in the queue, the second one the cleanup that the caller begins after it."""
    github.plan_all(**NEVER, cancel_after=None)
    clock.interrupt(50)
    clock.interrupt(at)
    del job.env["GITHUB_STATE"]
    first = survives(job.go)
    assert (first.ok, first.kind) == (False, "parent_cancelled")
    assert clock.elapsed == 50
    assert job.files.output() == dict(first.outputs)
    result = survives(lambda: job.post(first.state))
    assert (result.ok, result.kind) == (False, "cancel_unconfirmed")
    assert result.state == first.state
    assert result.state["run-id"] == "1001"
    assert "1001" in result.message
    assert clock.elapsed == at
    assert job.files.output() == dict(first.outputs)
    assert "unconfirmed" in job.files.summary()


def test_r113_a_signal_in_the_post_step_leaves_a_result_with_what_is_left(github, clock, job):
    github.plan_all(**NEVER, cancel_after=None)
    clock.interrupt(50)
    clock.interrupt(100)
    interrupted(job.go(), job.files)
    result = survives(job.post)
    assert (result.ok, result.kind) == (False, "cancel_unconfirmed")
    assert result.state["run-id"] == "1001"
    assert "1001" in result.message
    assert clock.elapsed == 100
    assert len(github.cancels()) == 1


@pytest.mark.parametrize(
    "plan", [NEVER, FOR_EVER, {**NEVER, "cancel_after": 60}, {**NEVER, "cancel_after": 118}], ids=str
)
@pytest.mark.parametrize("post", [True, False], ids=["post step", "no post step"])
def test_r113_the_child_is_ended_by_whoever_passes_the_state_on(post, plan, github, clock, job):
    """With or without a place for the state, nothing is asked of the API any more: the caller does the cleanup."""
    if not post:
        del job.env["GITHUB_STATE"]
    github.plan_all(**plan)
    clock.interrupt(100)
    result = job.go()
    assert (result.ok, result.kind) == (False, "parent_cancelled")
    assert clock.elapsed == 100
    assert github.requests[-1].at < 100
    assert not github.cancels()
    child = github.children[0]
    assert {**result.state} == {
        "run-id": "1001",
        "request-id": child.request_id,
        "workflow": github.workflow,
    }
    assert "the job is being cancelled; its child is left to the cleanup" in result.message
    assert job.lines[-1] == f"parent_cancelled: {result.message}"
    assert [attempt.outcome for attempt in result.attempts] == ["parent_cancelled"]
    assert "Cleanup" not in job.files.summary(), "there was none yet"
    cleaned = job.post(result.state)
    was_ended(cleaned, github, clock, 100)
    assert "cleanup of run 1001: confirmed" in cleaned.message
    assert "confirmed" in job.files.summary()


def test_r113_without_a_post_step_and_without_a_child_nothing_is_done(github, clock, job):
    del job.env["GITHUB_STATE"]
    github.parent(status="queued")
    clock.interrupt(30)
    result = job.go()
    assert result.kind == "parent_cancelled"
    assert blank(result.state)
    assert not github.posts()
    assert "no child is active" in result.message
    before = len(github.requests)
    assert job.post(result.state) == Result(ok=True, message="nothing to clean up")
    assert len(github.requests) == before


# -- R114: what is saved, and when ---------------------------------------------------------------------------------


class Watching:
    """A transport that notes what the state file holds whenever a request is made."""

    def __init__(self, github: FakeGitHub, files) -> None:
        self._github, self._files = github, files
        self.seen: list[tuple[str, str, dict[str, str], dict[str, str]]] = []

    def request(self, method, path, *, body, **rest) -> Response:
        inputs = body["inputs"] if body and "inputs" in body else {}
        self.seen.append((method, path, self._files.state(), inputs))
        return self._github.request(method, path, body=body, **rest)

    def dispatches(self) -> list[int]:
        return [number for number, (_, path, *_) in enumerate(self.seen) if path.endswith("/dispatches")]


@pytest.mark.parametrize("force", ["true", "false"])
def test_r114_the_name_is_saved_before_the_dispatch_and_the_id_right_after(force, github, job):
    fallback(github)
    watching = Watching(github, job.files)
    assert job.go(watching, **SHORT, force_cancel=force).ok
    assert blank(watching.seen[0][2])
    assert len(watching.dispatches()) == 2
    for child, number in zip(github.children, watching.dispatches(), strict=True):
        _, _, state, inputs = watching.seen[number]
        assert state["request-id"] == inputs["request-id"] == child.request_id
        assert state["workflow"] == github.workflow
        assert state["run-id"] == "", "not that of the child before"
        assert state.get("force-cancel", "") == ("true" if force == "true" else "")
        _, _, state, _ = watching.seen[number + 1]
        assert (state["run-id"], state["request-id"]) == (str(child.run_id), child.request_id)
    preflight = watching.dispatches()[1] - 1
    assert blank(watching.seen[preflight][2]), "the first child was done"
    assert blank(job.files.state())


@pytest.mark.parametrize("plan", [{}, {"conclusion": "failure"}, NEVER], ids=str)
def test_r114_what_was_saved_is_dropped_when_the_child_is_done(plan, github, job):
    github.plan_all(**plan)
    result = job.go(**SHORT)
    assert blank(result.state)
    assert set(job.files.state()) >= {"run-id", "request-id", "workflow"}
    assert blank(job.files.state())
    before = len(github.requests)
    assert job.post().ok
    assert len(github.requests) == before


# -- R115: only its own child --------------------------------------------------------------------------------------

FOREIGN = [
    {},
    {"run-id": "", "request-id": "", "workflow": ""},
    {"run-id": "  "},
    {"cache-hit": "true", "other-run-id": "9", "run-id": ""},
    {"cache-hit": "", "run_id": " "},
    {"force-cancel": "true"},
    {"workflow": "runner-worker.yml"},
    {"workflow": "../../../../user/repos"},
    {"workflow": "runner-worker.yml", "force-cancel": "true"},
    {"run-id": "0"},
    {"run-id": "0", "workflow": "runner-worker.yml"},
    {"run-id-2": "0", "request-id-2": " "},
]
NAMELESS = [
    {"request-id": "sgpu-1"},
    {"request-id": "sgpu-1", "workflow": ""},
    {"request-id": "sgpu-1", "workflow": "  "},
    {"request-id": "sgpu-1", "workflow": "../../../../user/repos"},
    {"request-id": "sgpu-1", "workflow": "a b.yml"},
    {"run-id": "", "request-id": "sgpu-1", "force-cancel": "true"},
    {"run-id": "0", "request-id": "sgpu-1"},
    {"request-id-2": "sgpu-1", "workflow": "runner-worker.yml"},
    {"run-id": "1001", "request-id-2": "sgpu-1", "workflow": "runner-worker.yml"},
]


@pytest.mark.parametrize("state", FOREIGN, ids=str)
def test_r115_state_of_others_cancels_nothing(state, github, job):
    result = job.post(state)
    assert (result.ok, result.kind) == (True, "")
    assert not github.requests


@pytest.mark.parametrize(
    "state",
    [
        {"cache-hit": "true", "runid": "9", "RUN-ID": "9", "other-run-id": "9", "run-id-": "9"},
        {"run-id-0": "9", "run-id-01": "9", "run-id-x": "9", "run-id-1-2": "9", "run-id\n": "9"},
        {"cache-hit": "true", "force-cancel-3": "true"},
        {"workflow": "runner-worker.yml", "runid": "9"},
        {"run-id": "", "runid": "9"},
    ],
    ids=str,
)
def test_r116_state_in_which_no_name_is_known_is_refused(state, github, job):
    """A name that was mistyped would pass for a child that was ended."""
    result = job.post(state)
    assert (result.ok, result.kind, result.state) == (False, "config", state)
    assert "a child may still be active" in result.message
    assert not github.requests


@pytest.mark.parametrize(
    "state", [{"run_id": "1001"}, {"run_id": "9", "run-id": "1001"}, {"run_id": "1001", "run-id": " "}], ids=str
)
def test_r113_names_may_have_underscores_and_dashes_win(state, github, dispatch, job):
    dispatch()
    assert job.post(state).ok
    assert [asked.run_id for asked in github.cancels()] == [1001]


@pytest.mark.parametrize("name", ["run-id-1", "run-id-1000000", "request-id-0", "Run-Id"])
def test_r116_a_name_of_a_child_that_is_never_written_is_refused_beside_others_too(name, github, job):
    result = job.post({"run-id": "1001", name: "9"})
    assert (result.ok, result.kind) == (False, "config")
    assert name in result.message
    assert "run-id" in result.state
    assert not github.requests


@pytest.mark.parametrize("value", [1001, None, ["1001"], 1.5], ids=str)
def test_r116_a_value_that_is_no_text_is_refused_and_kept(value, github, job):
    result = job.post({"run-id": value})
    assert (result.ok, result.kind) == (False, "config")
    assert result.message.startswith("state run-id: found ")
    assert "expected a text" in result.message
    assert result.state == {"run-id": str(value)}
    assert not github.requests


@pytest.mark.parametrize("state", NAMELESS, ids=str)
def test_r116_a_name_without_the_workflow_to_look_in_is_refused_and_kept(state, github, job):
    """That would be a child that nobody looks for: it is no state of others, and nothing is done by halves."""
    result = job.post(state)
    assert (result.ok, result.kind) == (False, "config")
    assert "request-id" in result.message
    assert "sgpu-1" in result.message
    assert "may still be active" in result.message
    assert result.state == state
    assert "sgpu-1" in job.files.summary().partition("**Error:**")[2]
    assert not job.lines  # whoever asked has the result, and tells it
    assert not github.requests


@pytest.mark.parametrize(
    "value", ["x", "-1", "1.5", "1001/../../1002", "1" * 30, "1001?x=1", "1001\n1002", "\u0661\u0660"]
)
def test_r115_a_run_id_that_is_none_is_refused_before_any_request(value, github, job):
    result = job.post({"run-id": value})
    assert (result.ok, result.kind) == (False, "config")
    assert "run-id" in result.message
    assert not github.requests


def test_r115_another_coordinators_child_is_left_alone(github, clock, dispatch, job):
    github.max_live = 2
    other = dispatch(request_id="another-coordinator")
    github.children[0].plan = github.children[0].plan.__class__(runner_after=None)
    github.plan_all(**NEVER)
    clock.interrupt(100)
    job.go()
    assert job.post().ok
    assert {asked.run_id for asked in github.cancels()} == {1002}
    assert [child.run_id for child in github.live()] == [other]


def test_r115_a_run_with_a_name_that_only_begins_the_same_is_not_taken_for_the_child(github, dispatch, job):
    github.max_live = 3
    github.plan_all(**NEVER)
    job.go(Cut(github, is_dispatch, 1, before=False))
    name = job.files.state()["request-id"]
    for other in (f"{name}0", name[:-1]):
        dispatch(request_id=other)
    assert job.post().ok
    assert {asked.run_id for asked in github.cancels()} == {1001}


# -- R116 to R118: confirmed, unconfirmed, and the primary error ---------------------------------------------------

BROKEN = {
    "it does not end": ({"cancel_after": None}, lambda g: None),
    "cancel refused": ({}, lambda g: g.fail("cancel", times=None, status=403)),
    "cancel fails": ({}, lambda g: g.fail("cancel", times=None, status=500)),
    "cancel unanswered": ({}, lambda g: g.fail("cancel", times=None, error="reset")),
    "run unreadable": ({}, lambda g: g.fail("run", times=None, since=200, status=500)),
    "outage": ({}, lambda g: g.outage(301, 1e6)),
}


@pytest.mark.parametrize("case", BROKEN.values(), ids=BROKEN.keys())
def test_r118_a_cleanup_that_fails_does_not_hide_the_error(case, github, clock, job):
    plan, setup = case
    github.plan_all(**NEVER, **plan)
    github.parent_rerun(300)
    setup(github)
    result = job.go()
    assert result.kind in ("parent_changed", "api_error")
    if result.kind == "api_error":  # the parent could no longer be looked at
        assert "tried 3 times" in result.message
    assert "cleanup of 1001: unconfirmed" in result.message
    assert result.state["run-id"] == job.files.state()["run-id"] == "1001"
    assert any(line.startswith(f"{result.kind}: ") for line in job.lines), "the error is told before the cleanup"
    assert "unconfirmed" in job.files.summary()
    assert "1001" in job.files.summary()
    assert clock.elapsed <= 330 + POST_LIMIT
    assert len(github.dispatches()) == 1


LONG = {"cancel_after": 60}
MET = {
    "parent rerun": ("parent_changed", {**NEVER, **LONG}, lambda g: g.parent_rerun(300), {}, 330),
    "parent cancelled": ("parent_cancelled", {**NEVER, **LONG}, lambda g: g.parent_cancelled(300), {}, 330),
    "source moved": ("source_changed", {**FOR_EVER, **LONG}, lambda g: g.move(g.source_ref, OTHER, at=300), {}, 330),
    "race": ("race", {**NEVER, **LONG, "runner_after_cancel": 1}, lambda g: None, {}, 640),
    "too long": ("execution_timeout", {**FOR_EVER, **LONG}, lambda g: None, {"execution_timeout_minutes": "2"}, 200),
    "identity": (
        "identity_mismatch",
        {**NEVER, **LONG},
        lambda g: g.drift(None, 200, run={"head_sha": OTHER}),
        {},
        270,
    ),
    "dispatch lost": (
        "dispatch_ambiguous",
        {**NEVER, **LONG},
        lambda g: g.fail("dispatch", error="reset", done=True),
        {},
        20,
    ),
}


@pytest.mark.parametrize("post", [True, False], ids=["post step", "no post step"])
@pytest.mark.parametrize("case", MET.values(), ids=MET.keys())
def test_r118_a_signal_during_the_cleanup_of_an_error_does_not_hide_it(case, post, github, clock, job):
    kind, plan, setup, changes, at = case
    if not post:
        del job.env["GITHUB_STATE"]
    github.plan_all(**plan)
    setup(github)
    clock.interrupt(at)
    result = survives(lambda: job.go(**changes))
    assert clock.elapsed == at
    assert (result.ok, result.kind) == (False, kind)
    told = next(line for line in job.lines if line.startswith(f"{kind}: "))
    assert result.message.startswith(
        f"{told.removeprefix(f'{kind}: ')}; the job is being cancelled; its child is left to the cleanup. View worker"
    )
    assert job.lines[-1] == f"{kind}: {result.message}"
    assert result.state["run-id"] == "1001"
    assert result.attempts[-1].outcome == kind
    assert job.files.output() == dict(result.outputs)
    assert f"Runner: failed ({kind})" in job.files.summary().replace("\\", "")
    assert len(github.cancels()) == 1
    asked = len(github.requests)
    cleaned = job.post(job.files.state() if post else result.state)
    assert len(github.requests) > asked
    was_ended(cleaned, github, clock, at)
    assert len(github.dispatches()) == 1


@pytest.mark.parametrize("case", BROKEN.values(), ids=BROKEN.keys())
def test_r116_the_post_step_reports_a_child_that_may_go_on_with_its_id(case, github, clock, job):
    plan, setup = case
    github.plan_all(**NEVER, **plan)
    setup(github)
    clock.interrupt(301)
    job.go()
    state, before = job.files.state(), len(job.lines)
    result = job.post()
    assert (result.ok, result.kind) == (False, "cancel_unconfirmed")
    assert "run 1001: unconfirmed" in result.message
    assert result.state == {name: value for name, value in state.items() if value}
    assert any("1001: unconfirmed" in line for line in job.lines[before:])
    assert "1001: unconfirmed" in job.files.summary()
    assert clock.elapsed - 301 <= POST_LIMIT


def test_r116_a_confirmed_cleanup_is_reported_with_the_id(github, clock, job):
    github.plan_all(**NEVER)
    clock.interrupt(100)
    job.go()
    result = job.post()
    assert "run 1001: confirmed" in result.message
    assert "run 1001: confirmed" in job.lines[-1]
    assert "1001: confirmed" in job.files.summary()


def test_r116_an_unconfirmed_cancellation_stops_and_is_left_to_the_post_step(github, clock, job):
    github.plan_all(**NEVER, cancel_after=200)
    result = job.go(**SHORT)
    assert result.kind == "cancel_unconfirmed"
    assert "1001" in result.message
    assert result.state["run-id"] == job.files.state()["run-id"] == "1001"
    assert len(github.dispatches()) == 1
    was_ended(job.post(), github, clock, clock.elapsed)


def test_r117_after_an_outage_the_post_step_ends_the_child(github, clock, job):
    github.plan_all(**FOR_EVER)
    github.outage(150, 200)
    result = job.go()
    assert result.kind == "api_error"
    assert "unconfirmed" in result.message
    clock.advance(400)
    was_ended(job.post(), github, clock, clock.elapsed)


@pytest.mark.parametrize("missing", ["GITHUB_TOKEN", "GITHUB_REPOSITORY"])
def test_r116_a_post_step_that_lacks_what_it_needs_still_names_the_child(missing, github, job):
    del job.env[missing]
    result = job.post({"run-id": "1001", "request-id": "r", "workflow": github.workflow})
    assert (result.ok, result.kind) == (False, "config")
    assert missing in result.message
    assert "1001" in result.message
    assert result.state["run-id"] == "1001"
    assert not github.requests


@pytest.mark.parametrize("server", ["", "no url", "ftp://x", "https://x y"])
def test_r116_a_post_step_ends_the_child_whatever_the_address_for_links_is(server, github, clock, job):
    github.plan_all(**NEVER)
    clock.interrupt(100)
    job.go()
    job.env["GITHUB_SERVER_URL"] = server
    was_ended(job.post(), github, clock, 100)


@pytest.mark.parametrize("variable", ["GITHUB_STEP_SUMMARY", "GITHUB_STATE", "GITHUB_OUTPUT"])
def test_r116_a_post_step_needs_none_of_the_files(variable, github, clock, tmp_path, job):
    github.plan_all(**NEVER)
    clock.interrupt(100)
    job.go()
    state = job.files.state()
    job.env[variable] = str(tmp_path)  # a directory
    was_ended(job.post(state), github, clock, 100)


# -- refusals, and force -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("queued_after", [4, 29, 45, 90])
def test_r113_a_child_that_is_not_queued_yet_is_cancelled_as_soon_as_it_can_be(queued_after, github, clock, job):
    github.plan_all(**NEVER, queued_after=queued_after)
    clock.interrupt(3)
    job.go()
    was_ended(job.post(), github, clock, 3)
    asked = github.cancels(1001)
    assert asked[0].status == 409
    assert asked[-1].status == 202
    assert all(later.at - earlier.at >= 30 for earlier, later in pairwise(asked))


def test_r113_a_child_that_cannot_be_seen_yet_is_cancelled_as_soon_as_it_can_be(github, clock, job):
    github.plan_all(**NEVER, visible_after=40)
    clock.interrupt(3)
    job.go()
    was_ended(job.post(), github, clock, 3)
    assert [asked.status for asked in github.cancels()] == [404, 404, 202]


@pytest.mark.parametrize("plan", [{}, {"conclusion": "failure"}])
def test_r113_a_child_that_ended_by_itself_counts_as_ended(plan, github, clock, job):
    github.plan_all(runner_after=10, runs_for=85, **plan)
    clock.interrupt(80)
    job.go()
    clock.advance(20)
    was_ended(job.post(), github, clock, 80)
    assert [asked.status for asked in github.cancels()] == [409]


@pytest.mark.parametrize("force", ["true", "false", ""])
def test_r113_force_is_the_last_step_of_the_post_step_and_only_where_asked_for(force, github, clock, job):
    github.plan_all(**FOR_EVER, cancel_after=None)
    clock.interrupt(100)
    job.go(force_cancel=force)
    result = job.post()
    if force != "true":
        assert result.kind == "cancel_unconfirmed"
        assert not github.force_cancels()
        return
    was_ended(result, github, clock, 100)
    (forced,) = github.force_cancels()
    assert forced.at - github.cancels()[0].at >= 120


@pytest.mark.parametrize("force", ["true", "false"])
def test_r112_force_is_the_last_step_of_a_cleanup_in_process_too(force, github, job):
    github.plan_all(**FOR_EVER, cancel_after=None)
    github.move(github.source_ref, OTHER, at=200)
    result = job.go(force_cancel=force)
    assert result.kind == "source_changed"
    assert len(github.force_cancels()) == (force == "true")
    assert f"cleanup of 1001: {'confirmed' if force == 'true' else 'unconfirmed'}" in result.message
    assert blank(job.files.state()) == (force == "true")


@pytest.mark.parametrize("plan", [{"cancel_after": None}, {"cancel_after": 100}, {"runner_after_cancel": 2}], ids=str)
def test_r89_force_is_never_part_of_a_fallback(plan, github, job):
    github.plan_all(**NEVER, **plan)
    job.go(**SHORT, force_cancel="true")
    assert not github.force_cancels()
    assert len(github.dispatches()) == (2 if plan == {"cancel_after": 100} else 1)
    if plan == {"cancel_after": None}:
        assert job.post().ok
        assert len(github.force_cancels()) == 1


def test_r116_a_child_that_even_force_does_not_end_is_reported_in_time(github, clock, job):
    github.plan_all(**NEVER, cancel_after=None, force_after=None, listed_after=50)
    job.go(Cut(github, is_dispatch, 1, before=False), force_cancel="true")
    result = job.post()
    assert result.kind == "cancel_unconfirmed"
    assert result.state["run-id"] == "1001"
    assert result.state["force-cancel"] == "true"
    assert clock.elapsed <= POST_LIMIT


@pytest.mark.parametrize("takes", [1, 20, 40])
def test_r116_slow_answers_do_not_make_the_post_step_longer_than_it_may_be(takes, github, clock, job):
    github.plan_all(**NEVER, cancel_after=None, force_after=None)
    job.go(Cut(github, is_dispatch, 1, before=False), force_cancel="true")
    github.fail("*", times=None, takes=takes)
    result = job.post()
    assert result.kind == "cancel_unconfirmed"
    assert clock.elapsed <= POST_LIMIT


def test_r119_a_child_is_never_run_again(github, job):
    github.plan_all(conclusion="failure")
    job.go()
    assert not [asked for asked in github.requests if "rerun" in asked.path]


def test_r114_state_is_written_by_lines_that_the_runner_takes(github, clock, job):
    clock.interrupt(100)
    job.go()
    text = Path(job.env["GITHUB_STATE"]).read_text()
    assert "run-id=1001\n" in text


@pytest.mark.parametrize("event", ["push", "workflow_dispatch"])
def test_r115_an_id_that_is_not_that_of_the_child_is_left_alone_and_the_child_found(event, github, job):
    """As after a write of the state that was cut off: the name beside the id tells."""
    github.plan_all(runner_after=None)
    github.clock.interrupt(100)
    left = dict(job.go().state)
    other = github.past("linux-amd64-cpu16", 5).run_id
    path = ".github/workflows/other.yml"
    run = {"id": other, "event": event, "path": path, "display_title": "Release", "status": "in_progress"}
    github.fail("run", run_id=other, times=None, status=200, body=run)
    result = job.post(left | {"run-id": str(other)})
    assert result.ok
    assert not github.cancels(other)
    assert not github.live()


def test_r116_a_token_in_the_state_is_not_told(github, job):
    said: list[str] = []
    result = coordinator.cleanup({"run-id": github.token}, job.env, github, github.clock, said.append)
    assert result.kind == "config"
    assert github.token not in result.message + "".join(said)
