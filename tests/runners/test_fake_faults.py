"""The fake GitHub: scripted faults, the rate limit, what it holds to be odd, and its records."""

from __future__ import annotations

import json

import pytest

from pytest_sgpu.runners import TransportError

RUNS = "/repos/o/r/actions/runs"
DISPATCH = "/repos/o/r/actions/workflows/runner-worker.yml/dispatches"


def test_a_status_for_the_next_requests_of_an_endpoint(github, dispatch, ask):
    run_id = dispatch()
    github.fail("jobs", status=502, times=2)
    statuses = [ask("GET", f"{RUNS}/{run_id}/jobs").status for _ in range(3)]
    assert statuses == [502, 502, 200]
    assert ask("GET", f"{RUNS}/{run_id}").status == 200
    assert [asked.status for asked in github.gets("jobs", run_id)] == [502, 502, 200]
    assert len(github.gets()) == 4


def test_which_requests_a_fault_is_for(clock, github, dispatch, ask):
    github.max_live = 2
    one, two = dispatch(), dispatch()
    github.fail("run", status=500, skip=1, run_id=two)
    github.fail("GET", status=503, times=None, since=10, until=20)
    github.fail("POST", status=504)
    read = [ask("GET", f"{RUNS}/{run_id}").status for run_id in (one, two, one, two, two)]
    assert read == [200, 200, 200, 500, 200]
    clock.sleep(10)
    assert ask("GET", f"{RUNS}/1").status == ask("GET", "/repos/o/r/commits/main").status == 503
    assert ask("POST", f"{RUNS}/{one}/cancel").status == 504
    clock.sleep(10)
    assert ask("GET", f"{RUNS}/1").status == 200


@pytest.mark.parametrize("done", [False, True])
@pytest.mark.parametrize("fault", [{"status": 500}, {"status": 204, "body": b""}, {"status": 200, "body": b"{oops"}])
def test_a_dispatch_that_is_answered_wrongly(github, ask, fake, fault, done):
    github.fail("dispatch", done=done, **fault)
    body = {"ref": "main", "inputs": fake.child_inputs(github)}
    response = ask("POST", DISPATCH, body)
    assert response.status == fault["status"]
    assert response.body == fault.get("body", response.body)
    assert len(github.children) == done
    assert [asked.status for asked in github.dispatches()] == [fault["status"]]


@pytest.mark.parametrize("done", [False, True])
def test_a_dispatch_without_an_answer(github, ask, fake, done):
    github.fail("dispatch", error="connection reset", done=done)
    with pytest.raises(TransportError, match="connection reset"):
        ask("POST", DISPATCH, {"ref": "main", "inputs": fake.child_inputs(github)})
    assert len(github.children) == done
    assert [asked.status for asked in github.dispatches()] == [0]


def test_a_late_answer_tells_the_state_at_the_arrival(clock, github, dispatch, get):
    run_id = dispatch()
    github.fail("run", takes=25)
    github.latency = 1
    assert get(f"{RUNS}/{run_id}")[1]["status"] == "queued"
    assert clock.elapsed == 26
    assert clock.sleeps == []
    assert get(f"{RUNS}/{run_id}")[1]["status"] == "in_progress"
    assert [(asked.at, asked.ended) for asked in github.gets("run")] == [(0, 26), (26, 27)]


def test_an_answer_that_is_too_late_is_none(clock, github, dispatch, ask):
    run_id = dispatch()
    github.fail("cancel", takes=300)
    with pytest.raises(TransportError, match="30 s"):
        ask("POST", f"{RUNS}/{run_id}/cancel")
    assert clock.elapsed == 30
    assert github.children[0].cancel_asked == [0]
    github.fail("cancel", takes=300, error="reset")
    with pytest.raises(TransportError, match="30 s"):
        ask("POST", f"{RUNS}/{run_id}/cancel")


def test_an_interrupt_may_come_during_a_request(clock, github, ask):
    github.fail("parent", takes=10)
    clock.interrupt(at=4)
    with pytest.raises(KeyboardInterrupt):
        ask("GET", f"{RUNS}/1")
    assert github.requests[0].ended == 4


def test_an_outage(clock, github, ask):
    github.outage(5, 10)
    assert ask("GET", f"{RUNS}/1").status == 200
    clock.sleep(5)
    with pytest.raises(TransportError, match="no route"):
        ask("GET", f"{RUNS}/1")
    clock.sleep(10)
    assert ask("GET", f"{RUNS}/1").status == 200


def test_headers_of_a_fault(github, ask):
    github.fail("ref", status=429, headers={"Retry-After": "30"}, body={"message": "secondary"})
    response = ask("GET", "/repos/o/r/git/ref/pull/7/merge")
    assert response.headers["Retry-After"] == "30"
    assert response.headers["X-GitHub-Request-Id"] == "FA7E:0001"
    assert json.loads(response.body) == {"message": "secondary"}


@pytest.mark.parametrize("status", [403, 429])
def test_the_primary_limit(clock, github, ask, status):
    github.rate(1, reset_in=45, status=status)
    first, second = ask("GET", f"{RUNS}/1"), ask("GET", f"{RUNS}/1")
    assert (first.status, first.headers["X-RateLimit-Remaining"]) == (200, "0")
    assert (second.status, second.headers["X-RateLimit-Remaining"]) == (status, "0")
    assert float(second.headers["X-RateLimit-Reset"]) == github.server_time() + 45
    clock.sleep(45)
    third = ask("GET", f"{RUNS}/1")
    assert (third.status, third.headers["X-RateLimit-Remaining"]) == (200, "999")
    github.rate_limit = 15_000
    assert ask("GET", f"{RUNS}/1").headers["X-RateLimit-Limit"] == "15000"


def test_an_answer_that_is_known_costs_nothing(github, dispatch, ask, clock):
    run_id = dispatch()
    first = ask("GET", f"{RUNS}/{run_id}/jobs")
    tag = first.headers["ETag"]
    second = ask("GET", f"{RUNS}/{run_id}/jobs", If_None_Match=tag)
    assert (second.status, second.body) == (304, b"")
    assert second.headers["X-RateLimit-Remaining"] == first.headers["X-RateLimit-Remaining"]
    assert [asked.counted for asked in github.gets()] == [True, False]
    clock.sleep(20)
    third = ask("GET", f"{RUNS}/{run_id}/jobs", If_None_Match=tag)
    assert third.status == 200
    assert third.headers["ETag"] != tag


ODD: dict[str, tuple[str, str, dict[str, str | None]]] = {
    "a path": ("GET", "/repos/o/r/actions/jobs/1", {}),
    "another repository": ("GET", "/repos/o/other/actions/runs/1", {}),
    "another method": ("DELETE", f"{RUNS}/1", {}),
    "a query name": ("GET", f"{RUNS}/1?return_run_details=true", {}),
    "a page size": ("GET", "/repos/o/r/actions/workflows/runner-worker.yml/runs?per_page=101", {}),
    "a search": ("GET", "/repos/o/r/actions/workflows/runner-worker.yml/runs?created=yesterday", {}),
    "a filter": ("GET", f"{RUNS}/9/jobs?filter=newest", {}),
    "a full ref": ("GET", "/repos/o/r/git/ref/refs/heads/main", {}),
    "the parent's jobs": ("GET", f"{RUNS}/1/jobs", {}),
    "no token": ("GET", f"{RUNS}/1", {"Authorization": None}),
    "no version": ("GET", f"{RUNS}/1", {"X_GitHub_Api_Version": None}),
    "an old version": ("GET", f"{RUNS}/1", {"X_GitHub_Api_Version": "2022-11-28"}),
    "another type": ("GET", f"{RUNS}/1", {"Accept": "*/*"}),
    "no name": ("GET", f"{RUNS}/1", {"User_Agent": None}),
    "a header": ("GET", f"{RUNS}/1", {"Cookie": "a=b"}),
    "a conditional write": ("POST", f"{RUNS}/9/cancel", {"If_None_Match": '"x"'}),
}


@pytest.mark.parametrize("case", ODD)
def test_what_is_odd(github, ask, case):
    method, path, headers = ODD[case]
    github.allow_odd = True
    assert ask(method, path, **headers).status == 400
    assert len(github.odd) == 1
    github.requests.clear()  # a strange cancellation would fail the check at the end, rightly


def test_oddities_of_a_call(github, ask):
    github.allow_odd = True
    assert ask("GET", f"{RUNS}/1", timeout=0).status == 400
    assert ask("GET", f"{RUNS}/1", body={}).status == 400
    assert ask("POST", f"{RUNS}/1/cancel").status == 400
    assert ask("POST", f"{RUNS}/9/cancel", body={"a": 1}).status == 400
    github.requests.clear()
    github.allow_odd = False
    with pytest.raises(AssertionError, match="time-out of 0"):
        github.check()
    github.odd.clear()


@pytest.mark.parametrize(
    "change",
    [
        {"eighth": "x"},
        {"runner": "16 cores"},
        {"runner": '{"group":"g","labels":"l","queue-timeout-minutes":5}'},
        {"runner": '{"group":"g","labels":["l"]}'},
        {"workload": "[]"},
        {"workload": 1},
        {"request-id": None},
    ],
)
def test_odd_inputs_of_a_dispatch(github, ask, fake, change):
    github.allow_odd = True
    inputs = {name: text for name, text in {**fake.child_inputs(github), **change}.items() if text is not None}
    assert ask("POST", DISPATCH, {"ref": "main", "inputs": inputs}).status == 400
    assert github.children == []
    github.requests.clear()  # without a request-id it would fail the check at the end, rightly


def test_an_odd_dispatch(github, ask, fake):
    github.allow_odd = True
    body = {"ref": "main", "inputs": fake.child_inputs(github)}
    assert ask("POST", DISPATCH, {**body, "return_run_details": True}).status == 400
    github.requests.clear()
    assert ask("POST", DISPATCH, {**body, "ref": ""}).status == 400
    github.requests.clear()
    assert ask("POST", DISPATCH).status == 400
    github.requests.clear()


def test_a_dispatch_that_is_refused(github, ask, fake):
    def status(ref="main", path=DISPATCH, **inputs):
        number = len(github.requests)
        changed = fake.child_inputs(github, request_id=f"r-{number}", **inputs)
        return ask("POST", path, {"ref": ref, "inputs": changed}).status

    assert status(ref="nothing") == 422
    assert status(ref=fake.MAIN_SHA) == 422
    assert status(ref="refs/pull/7/merge") == 422
    assert status(path=DISPATCH.replace("worker", "other")) == 404
    assert status(workload=json.dumps({"a": "x" * 65_535})) == 422
    assert github.children == []
    assert status(ref="refs/heads/main") == 200


def test_a_wrong_token(github, ask):
    assert ask("GET", f"{RUNS}/1", Authorization="Bearer other").status == 401
    assert ask("GET", f"{RUNS}/1", Authorization=f"token {github.token}").status == 200
    assert [asked.headers["authorization"] for asked in github.requests] == ["Bearer ***", "token ***"]


def test_it_notices_two_live_children(clock, github, dispatch):
    dispatch()
    clock.sleep(79)
    dispatch()
    with pytest.raises(AssertionError, match="live at once"):
        github.check()
    github.assert_never_two_live(limit=2)
    with pytest.raises(AssertionError, match="got a runner"):
        github.assert_no_dispatch_after_allocation()
    with pytest.raises(AssertionError, match="not over"):
        github.assert_all_ended()
    github.max_live = 2


def test_it_notices_a_foreign_cancellation(github, ask):
    assert ask("POST", f"{RUNS}/501/cancel").status == 404
    assert [asked.run_id for asked in github.foreign()] == [501]
    with pytest.raises(AssertionError):
        github.check()
    github.requests.clear()


def test_it_notices_a_repeated_dispatch(github, dispatch):
    github.max_live = 2
    dispatch(request_id="same")
    dispatch(request_id="same")
    with pytest.raises(AssertionError, match="came twice"):
        github.check()
    github.requests.clear()


def test_it_notices_a_token_where_it_should_not_be(github, dispatch):
    dispatch(workload=json.dumps({"token": github.token}))
    with pytest.raises(AssertionError, match="the token is in it"):
        github.check()
    github.requests.clear()


def test_an_endless_loop_of_requests_ends(github, ask, fake):
    github.requests.extend([None] * 20_000)
    with pytest.raises(RuntimeError, match="endless"):
        ask("GET", f"{RUNS}/1")
    github.requests.clear()
