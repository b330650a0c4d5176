"""The rules R46 to R57: one dispatch after the other, what it carries, and what becomes of an unclear answer."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from pytest_sgpu.runners import coordinator
from pytest_sgpu.runners.ports import Response

LABELS = ["linux-amd64-cpu16", "linux-amd64-cpu8", "linux-amd64-cpu32"]
SEVEN = {
    "request-id",
    "parent-run-id",
    "parent-run-attempt",
    "source-ref",
    "source-sha",
    "runner",
    "workload",
}
PATH = "/repos/o/r/actions/workflows/runner-worker.yml/dispatches"
RUN_URL = "https://github.com/o/r/actions/runs/1001"


def runners(*labels: str) -> str:
    return json.dumps([{"group": "nv-cpu-general", "labels": label} for label in labels])


# -- order, and what is dispatched --------------------------------------------------------------------------


def test_r46_candidates_are_asked_in_order_one_at_a_time(go, github):
    github.plan_all(runner_after=None)
    result = go()
    assert result.kind == "queue_exhausted"
    assert [child.labels for child in github.children] == LABELS
    for before, after in zip(github.children, github.children[1:], strict=False):
        assert before.ended() <= after.created
    assert [attempt.number for attempt in result.attempts] == [1, 2, 3]
    github.assert_all_ended()


def test_r46_an_explicit_order_is_kept(go, github):
    github.never(2)
    result = go(runners=runners(*reversed(LABELS)))
    assert result.ok
    assert [child.labels for child in github.children] == LABELS[::-1]
    assert result.outputs["attempts"] == "3"


def test_r46_no_further_candidate_after_the_first_that_has_a_runner(go, github):
    github.plan_all(conclusion="failure")
    assert go().kind == "worker_failed"
    assert [child.labels for child in github.children] == LABELS[:1]


def test_r47_every_dispatch_has_a_name_that_no_other_run_has(go, github, env, tmp_path):
    github.plan_all(runner_after=None)
    go()
    go(workloads='[{"shard":1},{"shard":2}]', max_parallel="1")
    names = [asked.inputs["request-id"] for asked in github.dispatches()]
    assert len(names) == len(set(names)) == 9
    assert all(name.isprintable() and 0 < len(name) <= 100 and " " not in name for name in names)


def test_r47_the_name_of_the_run_is_the_request_id(go, github):
    go()
    (child,) = github.children
    assert github.view(child).run("", github.workflow)["display_title"] == github.dispatches()[0].inputs["request-id"]


def test_r48_r49_exactly_the_seven_inputs_all_strings(go, github, env):
    env["GITHUB_RUN_ATTEMPT"] = "3"
    github.parent(run_attempt=3)
    workload = ' {"shard": 2,  "name": "ünï\\u00e9"}'
    go(workload=workload)
    (asked,) = github.dispatches()
    assert set(asked.body) == {"ref", "inputs"}
    assert asked.body["ref"] == "main"
    assert set(asked.inputs) == SEVEN
    assert all(type(value) is str for value in asked.inputs.values())
    assert asked.inputs["parent-run-id"] == str(github.parent_id)
    assert asked.inputs["parent-run-attempt"] == "3"
    assert asked.inputs["source-ref"] == github.source_ref
    assert asked.inputs["source-sha"] == github.source_sha
    assert asked.inputs["workload"].strip() == workload.strip()


def test_r48_no_workload_is_an_empty_object(go, github):
    go()
    assert github.dispatches()[0].inputs["workload"] == "{}"


@pytest.mark.parametrize("ref", ["main", "refs/heads/main", "refs/heads/release/1", "v1", "refs/tags/v1"])
def test_r48_the_definition_is_dispatched_at_the_given_ref(go, github, ref):
    github.move("refs/heads/release/1", "d" * 40)
    github.move("refs/tags/v1", "e" * 40)
    assert go(workflow_ref=ref).ok
    assert github.dispatches()[0].body["ref"] == ref


def test_r50_the_token_is_in_no_input_and_in_no_line(go, github, lines, files):
    result = go()
    sent = json.dumps(github.dispatches()[0].body)
    for text in (sent, *lines, files.summary(), str(files.output()), str(files.state()), str(result)):
        assert github.token not in text


def test_r51_runner_is_what_runs_on_takes_and_nothing_more(go, github):
    runner = {"group": "nv-cpu-general", "labels": "linux-amd64-cpu8"}
    github.plan_all(runner_after=None)
    result = go(runners=json.dumps([{**runner, "queue-timeout-minutes": 1}]))
    assert json.loads(github.dispatches()[0].inputs["runner"]) == runner
    assert json.loads(result.outputs["runner"]) == runner
    assert result.attempts[0].runner == runner


# -- the child's one job --------------------------------------------------------------------------------------


@pytest.mark.parametrize("jobs", [2, 3, 101])
def test_r52_more_than_one_job_stops_at_once(go, github, clock, jobs):
    github.plan_all(jobs=jobs, runner_after=None)
    result = go()
    assert result.kind == "contract"
    assert "worker" in result.message
    assert github.cancels(1001)[0].at == 15
    assert len(github.dispatches()) == 1
    github.assert_all_ended()


@pytest.mark.parametrize("name", ["Worker", "worker ", "worker (1)", "test / worker", "build", "", "wörker"])
def test_r52_a_job_of_another_name_stops_at_once(go, github, name):
    github.plan_all(job_name=name, runner_after=5)
    result = go()
    assert result.kind == "contract"
    assert len(github.dispatches()) == 1
    assert github.cancels(1001)[0].at == 15
    github.assert_all_ended()


def test_r52_a_second_job_that_the_page_does_not_show_counts(go, github):
    github.plan_all(runner_after=None)
    job = {"id": 10010, "run_id": 1001, "run_attempt": 1, "name": "worker", "status": "queued", "steps": []}
    github.fail("jobs", times=None, status=200, body={"total_count": 2, "jobs": [job]})
    assert go().kind == "contract"
    github.assert_all_ended()


@pytest.mark.parametrize("runner_after", [None, 20])
@pytest.mark.parametrize("jobs", [[], ["worker", "extra"], ["other"]])
def test_r52_holds_for_as_long_as_the_child_is_watched(go, github, runner_after, jobs):
    github.plan_all(runner_after=runner_after, runs_for=3000)
    shown = [{"id": 10010 + n, "run_id": 1001, "name": name, "status": "queued"} for n, name in enumerate(jobs)]
    github.fail("jobs", times=None, since=100, status=200, body={"total_count": len(shown), "jobs": shown})
    assert go().kind == "contract"
    assert len(github.dispatches()) == 1
    assert github.cancels(1001)[0].at <= 180
    github.assert_all_ended()


@pytest.mark.parametrize("status", ["waiting", "pending", "requested"])
def test_r53_a_child_behind_an_approval_or_a_concurrency_group_does_not_hold_up_the_sequence(go, github, status):
    github.plan(runner_after=None, queued_status=status)
    assert go().ok
    assert [child.labels for child in github.children] == LABELS[:2]
    assert 600 <= github.children[0].cancel_asked[0] <= 600 + 15 + 60


# -- the definition -------------------------------------------------------------------------------------------


def test_r54_the_definition_is_read_before_every_dispatch(go, github):
    github.plan_all(runner_after=None)
    go()
    reads, dispatches = github.gets("commit"), github.dispatches()
    assert len(reads) == len(dispatches) == 3
    for read, dispatch in zip(reads, dispatches, strict=True):
        assert read.number < dispatch.number
        assert dispatch.at - read.at <= 1


@pytest.mark.parametrize("dispatched", [1, 2])
def test_r54_a_definition_that_moved_stops_the_sequence(go, github, dispatched):
    github.plan_all(runner_after=None)
    moved = 300 + 620 * (dispatched - 1)
    github.move("refs/heads/main", "d" * 40, at=moved)
    result = go()
    assert result.kind == "workflow_changed"
    assert "c" * 40 in result.message
    assert "d" * 40 in result.message
    assert len(github.dispatches()) == dispatched
    github.assert_all_ended()


@pytest.mark.parametrize("status", [404, 422])
def test_r54_a_definition_that_is_gone_stops_the_sequence(go, github, status):
    github.plan_all(runner_after=None)
    github.fail("commit", times=None, skip=1, status=status)
    assert go().kind == "workflow_changed"
    assert len(github.dispatches()) == 1
    github.assert_all_ended()


@pytest.mark.parametrize("status", [401, 403, 404, 422, 500, 502])
def test_r54_without_a_definition_nothing_is_dispatched(go, github, status):
    github.fail("commit", times=None, status=status)
    result = go()
    assert result.kind == ("auth" if status in (401, 403) else "api_error")
    named = result.message.startswith("workflow-ref: no branch or tag main, ")
    assert named == (status in (404, 422))
    assert f"/repos/o/r/commits/main: {status}" in result.message
    assert not github.posts()
    assert result.outputs["attempts"] == "0"


@pytest.mark.parametrize("ref", ["no-such-branch", "refs/heads/gone", "refs/tags/v0"])
def test_r54_a_ref_that_does_not_exist_is_named_as_the_input(go, github, ref):
    result = go(workflow_ref=ref)
    assert result.kind == "api_error"
    assert result.message.startswith(f"workflow-ref: no branch or tag {ref}, ")
    assert not github.posts()


@pytest.mark.parametrize("body", [b"{}", b"null", b"[]", b'{"sha": ""}', b'{"sha": null}', b'{"sha": 5}', b"{oops"])
def test_r54_a_definition_that_cannot_be_read_is_no_definition(go, github, body):
    github.fail("commit", times=None, status=200, body=body)
    assert go().kind == "api_error"
    assert not github.posts()


def test_r54_a_definition_that_moves_under_the_dispatch_is_found_by_the_child(go, github):
    github.plan_all(runner_after=None)
    github.fail("commit", takes=10)
    github.move("refs/heads/main", "d" * 40, at=5)
    result = go()
    assert not result.ok
    assert result.kind in ("startup_timeout", "identity_mismatch")
    assert f"head_sha: expected {'c' * 40}, found {'d' * 40}" in result.message
    assert len(github.dispatches()) == 1
    github.assert_all_ended()


@pytest.mark.parametrize("policy", ["current", "pinned-after-start"])
@pytest.mark.parametrize(("moved", "dispatched"), [(0, 0), (616, 1)])
def test_r98_a_source_that_moved_is_not_dispatched(go, github, policy, moved, dispatched):
    """The second time it moves after the last look of the queue."""
    github.plan_all(runner_after=None)
    github.move(github.source_ref, "d" * 40, at=moved)
    assert go(source_policy=policy).kind == "source_changed"
    assert len(github.dispatches()) == dispatched
    github.assert_all_ended()


# -- the answer -----------------------------------------------------------------------------------------------


def test_r55_the_run_id_comes_from_the_answer_and_is_saved_at_once(go, github, clock, files, kept):
    seen: list[dict[str, str]] = []
    clock.at(1, lambda: seen.append(files.state()))
    github.plan_all(visible_after=60)
    result = go()
    assert result.ok
    assert not github.gets("runs")
    assert seen[0]["run-id"] == "1001"
    assert result.outputs["run-id"] == "1001"
    assert not kept()


@pytest.mark.parametrize("more", [{}, {"html_url": None}, {"html_url": RUN_URL, "new_field": [1]}, {"run_url": 5}])
def test_r55_an_answer_needs_no_more_than_the_id(go, github, more):
    github.fail("dispatch", status=200, body={"workflow_run_id": 1001, **more}, done=True)
    result = go()
    assert result.ok
    assert result.outputs["run-url"] == RUN_URL


def test_r55_the_state_names_the_dispatch_before_it_is_made(go, github, files):
    states = []

    class Watching:
        def request(self, method, path, **rest) -> Response:
            if path.endswith("/dispatches"):
                states.append((files.state(), rest["body"]["inputs"]["request-id"]))
            answer: Response = github.request(method, path, **rest)
            return answer

    assert go(Watching()).ok
    ((state, request_id),) = states
    assert state["request-id"] == request_id
    assert state["workflow"] == "runner-worker.yml"
    assert not state["run-id"]


LIMIT = {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1790000030"}
REFUSALS: dict[str, tuple[dict[str, Any], str]] = {
    "300": ({"status": 300}, "dispatch_failed"),
    "301": ({"status": 301, "headers": {"Location": "/elsewhere"}}, "dispatch_failed"),
    "302": ({"status": 302}, "dispatch_failed"),
    "307": ({"status": 307, "headers": {"Location": "/elsewhere"}}, "dispatch_failed"),
    "304": ({"status": 304}, "dispatch_failed"),
    "400": ({"status": 400}, "dispatch_failed"),
    "401": ({"status": 401}, "auth"),
    "403": ({"status": 403}, "auth"),
    "403 primary limit": ({"status": 403, "headers": LIMIT}, "dispatch_failed"),
    "403 secondary limit": ({"status": 403, "headers": {"Retry-After": "1"}}, "dispatch_failed"),
    "403 limit by its text": (
        {"status": 403, "body": {"message": "You have exceeded a secondary rate limit"}},
        "dispatch_failed",
    ),
    "404": ({"status": 404}, "dispatch_failed"),
    "405": ({"status": 405}, "dispatch_failed"),
    "409": ({"status": 409}, "dispatch_failed"),
    "410": ({"status": 410}, "dispatch_failed"),
    "413": ({"status": 413}, "dispatch_failed"),
    "422": ({"status": 422, "body": {"message": "Unexpected inputs provided"}}, "dispatch_failed"),
    "429": ({"status": 429}, "dispatch_failed"),
    "429 with a time": ({"status": 429, "headers": {"Retry-After": "1"}}, "dispatch_failed"),
    "451": ({"status": 451}, "dispatch_failed"),
}


@pytest.mark.parametrize("earlier", [0, 1])
@pytest.mark.parametrize("name", REFUSALS)
def test_r56_a_refused_dispatch_is_never_retried(go, github, clock, kept, *, name, earlier):
    fault, kind = REFUSALS[name]
    github.never(earlier)
    github.fail("dispatch", skip=earlier, **fault)
    result = go()
    assert result.kind == kind
    assert len(github.dispatches()) == 1 + earlier
    assert result.outputs["attempts"] == str(1 + earlier)
    assert result.outputs["run-id"] == ""
    assert f"POST {PATH}: {fault['status']}" in result.message
    assert f"FA7E:{github.dispatches()[-1].number:04d}" in result.message
    assert not github.gets("runs")
    assert len(github.cancels()) == earlier
    assert result.attempts[-1].outcome == kind
    assert not result.state
    assert not kept()
    assert clock.elapsed == github.dispatches()[-1].ended
    github.assert_all_ended()


def test_r56_the_message_of_a_refusal_is_reported(go, github):
    github.fail("dispatch", status=422, body={"message": 'Unexpected inputs provided: ["x"]\n::error::forged'})
    message = go().message
    assert "Unexpected inputs provided" in message
    assert "\n" not in message


def ok(body: object) -> dict[str, Any]:
    return {"status": 200, "body": body}


AMBIGUOUS: dict[str, dict[str, Any]] = {
    "reset": {"error": "reset"},
    "reset late": {"error": "reset", "takes": 12},
    "no answer": {"takes": 1000},
    "no answer within the limit": {"takes": 30},
    "200 empty": ok(b""),
    "200 null": ok(b"null"),
    "200 true": ok(b"true"),
    "200 list": ok(b"[]"),
    "200 list with the id": ok(b'[{"workflow_run_id": 1001}]'),
    "200 number": ok(b"1001"),
    "200 text": ok(b'"1001"'),
    "200 no JSON": ok(b"{oops"),
    "200 cut off": ok(b'{"workflow_run_id": 1001'),
    "200 page": ok(b"<html>ok</html>"),
    "200 not UTF-8": ok(b'{"workflow_run_id": 1001, "x": "\xff"}'),
    "200 deep": ok(b"[" * 100_000),
    "200 no id": ok({}),
    "200 other name": ok({"id": 1001}),
    "200 id null": ok({"workflow_run_id": None}),
    "200 id text": ok({"workflow_run_id": "1001"}),
    "200 id nought": ok({"workflow_run_id": 0}),
    "200 id negative": ok({"workflow_run_id": -1001}),
    "200 id fraction": ok({"workflow_run_id": 1001.5}),
    "200 id true": ok({"workflow_run_id": True}),
    "200 id list": ok({"workflow_run_id": [1001]}),
    "201": {"status": 201, "body": {"workflow_run_id": 1001}},
    "202": {"status": 202, "body": {}},
    "204": {"status": 204, "body": b""},
    "206": {"status": 206},
    "408": {"status": 408},
    "500": {"status": 500},
    "501": {"status": 501},
    "502": {"status": 502, "body": b"<html>Bad gateway</html>"},
    "503": {"status": 503, "headers": {"Retry-After": "1"}},
    "504": {"status": 504},
    "599": {"status": 599},
}


@pytest.mark.parametrize("runner_after", [None, 1])
@pytest.mark.parametrize("name", AMBIGUOUS)
def test_r56_r57_a_dispatch_without_a_clear_answer_is_found_and_cancelled(
    go, github, files, kept, *, name, runner_after
):
    github.plan_all(runner_after=runner_after, runs_for=3000)
    github.fail("dispatch", **{"done": True, **AMBIGUOUS[name]})
    result = go()
    assert result.kind == "dispatch_ambiguous"
    assert f"POST {PATH}" in result.message
    assert len(github.dispatches()) == 1
    (child,) = github.children
    assert len(child.cancel_asked) == 1
    assert child.completed(github.clock.elapsed)
    assert child.conclusion() == "cancelled"
    assert "confirmed" in result.message
    assert "unconfirmed" not in result.message
    assert "unconfirmed" not in files.summary()
    assert result.outputs["run-id"] == "1001"
    assert result.outputs["run-url"] == RUN_URL
    assert result.outputs["attempts"] == "1"
    assert result.attempts[0].outcome == "dispatch_ambiguous"
    assert not result.state
    assert not kept()
    assert all(read.query["event"] == "workflow_dispatch" for read in github.gets("runs"))


@pytest.mark.parametrize("name", [name for name, fault in AMBIGUOUS.items() if len(fault) == 1 or "status" in fault])
def test_r56_r57_a_dispatch_that_never_arrived_is_not_made_again(go, github, clock, files, kept, *, name):
    fault = AMBIGUOUS[name]
    if "takes" in fault:  # the fake carries out what is only late
        fault = {**fault, "error": "no answer"}
    github.fail("dispatch", **fault)
    result = go()
    assert result.kind == "dispatch_ambiguous"
    assert len(github.dispatches()) == 1
    assert not github.children
    looks = [read.at for read in github.gets("runs")]
    asked = github.dispatches()[0].ended
    assert looks == [asked + 5 * n for n in range(25)]  # P13: 120 s
    assert clock.elapsed == asked + 120
    name_of_it = github.dispatches()[0].inputs["request-id"]
    assert name_of_it in result.message
    assert result.outputs["run-id"] == ""
    assert result.state["request-id"] == name_of_it
    assert kept() == {"request-id": name_of_it, "workflow": "runner-worker.yml"}
    assert "unconfirmed" in files.summary()
    assert not github.cancels()


@pytest.mark.parametrize("name", ["reset", "200 no JSON", "204", "500"])
def test_r57_an_unclear_answer_to_a_later_dispatch_is_the_end_too(go, github, name):
    github.plan_all(runner_after=None)
    github.fail("dispatch", skip=1, **{"done": True, **AMBIGUOUS[name]})
    result = go()
    assert result.kind == "dispatch_ambiguous"
    assert [child.labels for child in github.children] == LABELS[:2]
    assert [attempt.outcome for attempt in result.attempts] == ["no_runner", "dispatch_ambiguous"]
    assert result.outputs["run-id"] == "1002"
    github.assert_all_ended()


@pytest.mark.parametrize("takes", [1, 14, 29.9])
def test_r56_a_slow_answer_is_an_answer(go, github, takes):
    github.fail("dispatch", takes=takes)
    assert go().ok
    assert len(github.dispatches()) == 1
    assert not github.gets("runs")
    assert github.gets("run", 1001)[0].at == takes + 15


def test_r57_success_of_a_child_that_was_found_by_its_name_is_not_accepted(go, github):
    github.plan_all(runner_after=1, runs_for=1, listed_after=30)
    github.fail("dispatch", status=500, done=True)
    result = go()
    assert result.kind == "dispatch_ambiguous"
    assert github.children[0].conclusion() == "success"
    assert len(github.dispatches()) == 1


# -- the search by name ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("listed_after", "found_at"), [(0, 0), (1, 5), (60, 60), (117, 120), (120, 120)])
def test_r57_a_list_that_lags_is_read_again(go, github, kept, listed_after, found_at):
    github.plan_all(runner_after=None, listed_after=listed_after)
    github.fail("dispatch", error="reset", done=True)
    result = go()
    assert result.kind == "dispatch_ambiguous"
    assert github.gets("runs")[-1].at == found_at
    assert github.cancels(1001)[0].at == found_at
    assert not kept()
    github.assert_all_ended()


def test_r57_what_is_listed_too_late_is_left_to_the_post_step(go, github, clock, env, *, files, kept, lines):
    github.plan_all(runner_after=None, listed_after=121)
    github.fail("dispatch", error="reset", done=True)
    result = go()
    assert result.kind == "dispatch_ambiguous"
    assert "unconfirmed" in result.message
    assert not github.cancels()
    assert kept() == {name: value for name, value in result.state.items() if value}
    clock.advance(10)
    assert coordinator.cleanup(files.state(), env, github, clock, lines.append).ok
    assert len(github.dispatches()) == 1
    github.assert_all_ended()


@pytest.mark.parametrize(
    "fault",
    [
        {"status": 500},
        {"status": 502},
        {"status": 404},
        {"status": 422},
        {"error": "reset"},
        {"status": 200, "body": b"{oops"},
        {"status": 200, "body": b"null"},
        {"status": 200, "body": b'{"workflow_runs": 5}'},
        {"status": 200, "body": b'{"workflow_runs": [null, 5, {}, {"id": "x"}]}'},
        {"status": 429, "headers": {"Retry-After": "7"}},
        {"status": 403, "headers": {"Retry-After": "20"}},
    ],
)
@pytest.mark.parametrize("until", [1, 40, 90])
def test_r57_a_list_that_fails_is_read_again(go, github, fault, until):
    github.plan_all(runner_after=None)
    github.fail("dispatch", error="reset", done=True)
    github.fail("runs", times=None, until=until, **fault)
    result = go()
    assert result.kind == "dispatch_ambiguous"
    assert "reset" in result.message
    assert result.outputs["run-id"] == "1001"
    github.assert_all_ended()


@pytest.mark.parametrize("fault", [{"status": 500}, {"error": "no route"}, {"status": 401}, {"status": 403}])
def test_r57_a_list_that_never_comes_leaves_the_name_and_hides_no_error(go, github, clock, kept, *, lines, fault):
    github.plan_all(runner_after=None)
    github.fail("dispatch", status=502, done=True)
    github.fail("runs", times=None, **fault)
    result = go()
    assert result.kind == "dispatch_ambiguous"
    assert f"POST {PATH}: 502" in result.message
    assert "unconfirmed" in result.message
    assert clock.elapsed <= 120
    assert kept()["request-id"] == github.children[0].request_id
    assert any("/actions/workflows/runner-worker.yml/runs" in line for line in lines)
    assert len(github.dispatches()) == 1


@pytest.mark.parametrize("status", [401, 403])
def test_r57_a_search_that_was_given_up_says_so(go, github, status):
    github.fail("dispatch", status=502, done=True)
    github.fail("runs", times=None, status=status)
    result = go()
    assert github.clock.elapsed == 0
    assert "within 120 s" not in result.message


SIMILAR: list[Callable[[str], str]] = [
    lambda name: name + "0",
    lambda name: name[:-1],
    lambda name: name.upper(),
    lambda name: f" {name}",
    lambda name: f"{name} ",
    lambda name: f"Re: {name}",
    lambda name: name[:-1] + ("0" if name[-1] != "0" else "1"),
]


@pytest.mark.parametrize("change", SIMILAR)
@pytest.mark.parametrize("made", [True, False])
def test_r57_a_run_of_a_similar_name_is_nobody_of_ours(go, github, clock, change, made):
    github.max_live = 2
    github.plan_all(runner_after=None)
    github.fail("dispatch", error="reset", takes=5, done=made)

    def other() -> None:
        inputs = github.dispatches()[0].inputs
        github.start_child({**inputs, "request-id": change(inputs["request-id"])})

    clock.at(2, other)
    assert go().kind == "dispatch_ambiguous"
    assert [asked.run_id for asked in github.cancels()] == ([1001] if made else [])
    assert [child.run_id for child in github.live()] == [1002 if made else 1001]


@pytest.mark.parametrize("event", ["push", "pull_request", "schedule", "repository_dispatch"])
@pytest.mark.parametrize("filtered", [True, False])
def test_r57_a_run_of_the_same_name_from_another_event_is_nobody_of_ours(go, github, clock, event, filtered):
    github.max_live = 2
    github.plan_all(runner_after=None)
    github.fail("dispatch", error="reset", takes=5, done=True)

    def other() -> None:
        github.start_child(github.dispatches()[0].inputs)
        github.drift(2, run={"event": event})

    class Unfiltered:
        """A list that does not heed what it is asked for."""

        def request(self, method, path, **rest) -> Response:
            if not filtered and "/workflows/runner-worker.yml/runs" in path:
                path = urlsplit(path).path
            answer: Response = github.request(method, path, **rest)
            return answer

    clock.at(2, other)
    result = go(Unfiltered())
    assert result.kind == "dispatch_ambiguous"
    assert result.outputs["run-id"] == "1001"
    assert [asked.run_id for asked in github.cancels()] == [1001]
    assert [child.run_id for child in github.live()] == [1002]


@pytest.mark.parametrize("event", ["", None, ...])
def test_r57_a_list_that_was_asked_for_by_event_need_not_repeat_it(go, github, event):
    """The name is unique, and the list holds dispatches alone: the child must not be left alive for a field."""
    github.plan_all(runner_after=None)
    github.fail("dispatch", error="reset", done=True)
    github.drift(None, 0, run={"event": event})

    class Unfiltered:
        """The fake's own list heeds the event by what it serves."""

        def request(self, method, path, **rest) -> Response:
            asked = urlsplit(path).path if "/workflows/runner-worker.yml/runs" in path else path
            answer: Response = github.request(method, asked, **rest)
            return answer

    assert go(Unfiltered()).kind == "dispatch_ambiguous"
    assert [asked.run_id for asked in github.cancels()] == [1001]
    assert github.live() == []


def twin(github) -> Callable[[], None]:
    """Let something on the way send the dispatch twice."""
    return lambda: github.start_child(github.dispatches()[0].inputs)


def test_r57_both_of_two_runs_with_the_name_are_cancelled(go, github, clock, kept):
    github.max_live = 2
    github.plan_all(runner_after=None)
    github.fail("dispatch", status=502, takes=5, done=True)
    clock.at(2, twin(github))
    result = go()
    assert result.kind == "dispatch_ambiguous"
    assert {asked.run_id for asked in github.cancels()} == {1001, 1002}
    assert len(github.dispatches()) == 1
    assert not github.live()
    assert not kept()


@pytest.mark.parametrize("stubborn", [1, 2])
def test_r57_r116_one_of_two_that_does_not_end_is_no_confirmed_cleanup(go, github, clock, files, kept, *, stubborn):
    github.max_live = 2
    for number in (1, 2):
        github.plan(runner_after=None, cancel_after=None if number == stubborn else 3)
    github.fail("dispatch", status=502, takes=5, done=True)
    clock.at(2, twin(github))
    result = go()
    assert [child.number for child in github.live()] == [stubborn]
    assert "unconfirmed" in result.message
    assert "unconfirmed" in files.summary()
    assert str(1000 + stubborn) in result.message
    assert kept()


@pytest.mark.parametrize("fault", [{"status": 500}, {"error": "reset"}, {"status": 403}])
def test_r57_r118_a_cancellation_that_fails_is_told_beside_the_error(go, github, kept, fault):
    github.plan_all(runner_after=None)
    github.fail("dispatch", status=502, done=True)
    github.fail("cancel", times=None, **fault)
    result = go()
    assert result.kind == "dispatch_ambiguous"
    assert "unconfirmed" in result.message
    assert "1001" in result.message
    assert kept()["run-id"] == "1001"
    assert result.state["run-id"] == "1001"
    assert len(github.dispatches()) == 1


@pytest.mark.parametrize("minutes", [-9, 9, 30])
def test_r57_the_search_does_not_depend_on_the_wall_clock(go, github, clock, minutes):
    clock.jump(60 * minutes)
    github.plan_all(runner_after=None)
    github.fail("dispatch", error="reset", done=True)
    assert go().outputs["run-id"] == "1001"
    github.assert_all_ended()


@pytest.mark.parametrize("at", [0.5, 3, 50])
def test_r57_a_cancelled_parent_leaves_the_name_to_the_post_step(go, github, clock, env, *, files, kept, lines, at):
    github.plan_all(runner_after=None, listed_after=60)
    github.fail("dispatch", error="reset", takes=2, done=True)
    clock.interrupt(at)
    result = go()
    assert result.kind == "parent_cancelled"
    assert result.state["request-id"] == github.children[0].request_id
    assert kept() == {name: value for name, value in result.state.items() if value}
    clock.advance(60)
    assert coordinator.cleanup(files.state(), env, github, clock, lines.append).ok
    github.assert_all_ended()


# -- an id that is not that of the child ----------------------------------------------------------------------


def test_r115_an_answer_with_the_id_of_the_parent_does_not_cancel_the_parent(go, github):
    github.plan_all(runner_after=None)
    github.fail("dispatch", status=200, body={"workflow_run_id": github.parent_id}, done=True)
    result = go()
    assert not result.ok
    assert len(github.dispatches()) == 1
    assert not github.cancels(github.parent_id)


def test_r115_an_answer_with_the_id_of_another_run_does_not_cancel_that_run(go, github, fake):
    github.max_live = 2
    github.plan_all(runner_after=None)
    github.start_child(fake.child_inputs(github, request_id="sgpu-7-1-1-1-0123456789abcdef"))
    github.fail("dispatch", status=200, body={"workflow_run_id": 1001}, done=True)
    result = go()
    assert not result.ok
    assert len(github.dispatches()) == 1
    assert not github.cancels(1001)


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({"event": "push"}, "a run for the event push"),
        ({"path": ".github/workflows/ci.yml"}, "a run of .github/workflows/ci.yml"),
    ],
)
def test_r112_r115_an_answer_with_the_id_of_something_else_ends_our_child_and_not_that(go, github, fields, what, lines):
    github.plan_all(runner_after=None)
    other = github.past("linux-amd64-cpu16", 5).run_id
    body = {"id": other, "run_attempt": 1, "event": "workflow_dispatch", "display_title": "Release", "status": "queued"}
    github.fail("run", run_id=other, times=None, status=200, body=body | fields)
    github.fail("dispatch", status=200, body={"workflow_run_id": other}, done=True)
    result = go()
    assert result.kind == "startup_timeout"
    assert not github.cancels(other)
    assert any(f"run {other} is left alone, it is {what}; found as run" in line for line in lines)
    github.assert_all_ended()


@pytest.mark.parametrize(
    "link", ["https://evil.example/x", "https://github.com@evil.example/x", "https://github.com/x)]("]
)
def test_r124_a_link_that_leads_elsewhere_is_not_given_on(go, github, link, lines):
    github.plan_all(runner_after=5, runs_for=5)
    github.drift(None, 0, run={"html_url": link}, job={"html_url": link})
    github.fail("dispatch", status=200, body={"workflow_run_id": 1001, "html_url": link}, done=True)
    result = go()
    assert result.ok
    assert result.outputs["run-url"] == "https://github.com/o/r/actions/runs/1001"
    assert "evil" not in "".join([*lines, result.message, *[one.run_url + one.job_url for one in result.attempts]])


def test_r114_nothing_is_kept_of_a_run_that_ended_well(go, kept, env):
    assert go().ok
    assert not kept()
    assert "run-id=1001" in Path(env["GITHUB_STATE"]).read_text(encoding="utf-8")
