"""The REST calls as they go over the wire, and what becomes of odd answers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from pytest_sgpu.runners.github import REQUEST_TIMEOUT, Client
from pytest_sgpu.runners.loop import alone
from pytest_sgpu.runners.machine.actions import (
    Cancel,
    Dispatch,
    Dispatched,
    FindRuns,
    Observation,
    ReadDefinition,
    ReadJobs,
    ReadRun,
    ReadSource,
    Trouble,
    Wait,
)
from pytest_sgpu.runners.machine.sightings import JobsSeen, RunSeen
from pytest_sgpu.runners.ports import Response, TransportError

if TYPE_CHECKING:
    from tests.runners.fake import VirtualClock

TOKEN = "ghs_" + "s3cret" * 6
RUN = {"id": 5, "run_attempt": 1, "status": "queued", "event": "workflow_dispatch", "display_title": "id-1"}
SENT = Dispatch("c.yml", "main", {"request-id": "id-1"})


class Wire:
    """Answers from a list, and then for ever with the last of them; notes what was asked."""

    def __init__(self, clock, *answers, takes=0.0):
        self.clock = clock
        self.answers = list(answers)
        self.takes = takes
        self.asked = []

    def request(self, method, path, *, body, headers, timeout):
        self.asked.append((method, path, body, dict(headers), timeout))
        self.clock.advance(self.takes)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


def _answer(content, status=200, **headers):
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    return Response(status, {name.replace("_", "-"): value for name, value in headers.items()}, body)


@pytest.fixture
def perform(clock: VirtualClock):
    """Carry out one effect against these answers: the wire, and the observation."""

    def carried_out(effect, *answers, takes=0.0, conditional=False, repository="o/r"):
        wire = Wire(clock, *answers, takes=takes)
        client = Client(wire, clock, TOKEN, repository, conditional=conditional)
        return wire, alone(client.perform(effect), clock)

    return carried_out


# -- paths, bodies, headers ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("effect", "method", "path"),
    [
        (ReadRun(5), "GET", "/actions/runs/5"),
        (ReadJobs(5), "GET", "/actions/runs/5/jobs?filter=latest&per_page=100"),
        (Cancel(5, 1e9), "POST", "/actions/runs/5/cancel"),
        (Cancel(5, 1e9, force=True), "POST", "/actions/runs/5/force-cancel"),
        (SENT, "POST", "/actions/workflows/c.yml/dispatches"),
        (ReadSource("refs/heads/a/b"), "GET", "/git/ref/heads/a/b"),
        (ReadSource("refs/pull/7/merge"), "GET", "/git/ref/pull/7/merge"),
        (ReadSource("refs/tags/v1"), "GET", "/commits/tags/v1"),
        (ReadSource("refs/heads/refs/heads/x"), "GET", "/git/ref/heads/refs/heads/x"),
        (ReadSource("refs/heads/50%#?&+ü"), "GET", "/git/ref/heads/50%25%23%3F%26%2B%C3%BC"),
        (ReadSource("refs/heads/%2e%2e"), "GET", "/git/ref/heads/%252e%252e"),
        (ReadDefinition("main"), "GET", "/commits/main"),
        (ReadDefinition("a#b/c"), "GET", "/commits/a%23b/c"),
        (ReadDefinition("refs/tags/v1"), "GET", "/commits/tags/v1"),
    ],
)
def test_paths(perform, effect, method, path):
    wire, _ = perform(effect, _answer({}, 422))
    ((asked, found, *_),) = wire.asked
    assert (asked, found) == (method, f"/repos/o/r{path}")


def test_an_annotated_tag_is_looked_through(perform, github, clock):
    """What the ref of a tag points at is the tag, not the commit that was approved."""
    github.move("refs/tags/v1", "a" * 40, tag_object="b" * 40)
    client = Client(github, clock, github.token, "o/r")
    assert alone(client.perform(ReadSource("refs/tags/v1")), clock).answer == "a" * 40
    assert alone(client.perform(ReadDefinition("v1")), clock).answer == "a" * 40
    assert alone(client.perform(ReadDefinition("refs/tags/v1")), clock).answer == "a" * 40


def test_r7_headers_of_every_request(perform):
    for effect in (ReadRun(5), SENT, Cancel(5, 1e9)):
        wire, _ = perform(effect, _answer({}, 404))
        ((_, _, _, headers, _),) = wire.asked
        assert headers["Authorization"] == f"Bearer {TOKEN}"
        assert headers["Accept"] == "application/vnd.github+json"
        assert headers["X-GitHub-Api-Version"] == "2026-03-10"
        assert headers["User-Agent"].startswith("pytest-sgpu/")
        assert len(headers) == 4


def test_the_body_of_a_dispatch_and_of_nothing_else(perform):
    wire, _ = perform(SENT, _answer({}, 404))
    assert wire.asked[0][2] == {"ref": "main", "inputs": {"request-id": "id-1"}}
    for effect in (ReadRun(5), Cancel(5, 1e9)):
        wire, _ = perform(effect, _answer({}, 404))
        assert wire.asked[0][2] is None


def test_r57_runs_are_found_by_their_exact_title(perform, clock):
    others = [{**RUN, "display_title": "id-10"}, {**RUN, "event": "push"}, {"id": None}, {**RUN, "display_title": None}]
    found = _answer({"total_count": 5, "workflow_runs": [*others, RUN]})
    wire, seen = perform(FindRuns("c.yml", "id-1", 1e9), found)
    ((_, path, *_),) = wire.asked
    assert [run.id for run in seen.answer] == [5]
    assert seen.answer[0].title == "id-1"
    start = "/repos/o/r/actions/workflows/c.yml/runs?event=workflow_dispatch&created=%3E%3D20"
    assert path.startswith(start)
    assert path.endswith("%3A00%3A00Z&per_page=100")  # a whole hour: the same search for an hour
    assert ":" not in path


def test_a_search_that_finds_nothing_is_an_answer(perform):
    _, seen = perform(FindRuns("c.yml", "id-1", 1e9), _answer({"workflow_runs": []}))
    assert seen.answer == ()
    assert seen.failure is None


def test_a_search_works_with_a_clock_before_the_epoch(fake):
    clock = fake.VirtualClock(epoch=-5000.0)
    wire = Wire(clock, _answer({"workflow_runs": []}))
    client = Client(wire, clock, TOKEN, "o/r")
    assert alone(client.perform(FindRuns("c.yml", "x", 1e9)), clock).answer == ()
    assert "1970-01-01" in wire.asked[0][1]


# -- answers -------------------------------------------------------------------------------------------------


def test_reads_are_decoded_with_their_times(perform, clock):
    begun = clock.monotonic()
    _, seen = perform(ReadRun(5), _answer(RUN), takes=2.0)
    assert seen == Observation(begun, begun + 2.0, seen.answer)
    assert isinstance(seen.answer, RunSeen)
    _, seen = perform(ReadJobs(5), _answer({"total_count": 0, "jobs": []}))
    assert seen.answer == JobsSeen(0, ())


@pytest.mark.parametrize("body", [b"", b"{oops", b"[]", b"null", b"\xff\xfe\x00", b'{"id": "5"}', b"[" * 100_000, b"5"])
def test_r105_a_body_that_makes_no_sense_is_asked_for_again(perform, clock, body):
    wire, seen = perform(ReadRun(5), _answer(body), _answer(body), _answer(RUN))
    assert isinstance(seen.answer, RunSeen)
    assert len(wire.asked) == 3
    assert clock.sleeps == [5.0, 10.0]


def test_r109_a_persistent_error_says_all(perform):
    _, seen = perform(ReadRun(5), _answer({"message": "boom\n::error::"}, 502, X_GitHub_Request_Id="AB:12"))
    assert seen.failure.trouble is Trouble.OUTAGE
    wanted = "GET /repos/o/r/actions/runs/5: 502 (request id AB:12) boom ::error::, tried 3 times"
    assert seen.failure.text == wanted
    _, seen = perform(ReadRun(5), TransportError("no route to host"))
    assert seen.failure.text == "GET /repos/o/r/actions/runs/5: no route to host, tried 3 times"
    _, seen = perform(ReadRun(5), _answer(b"<html>", X_GitHub_Request_Id="AB:12"))
    assert "200 (request id AB:12) with a body that is no JSON, tried 3 times" in seen.failure.text
    _, seen = perform(ReadRun(5), _answer([]))
    assert "200 with an unexpected body, tried 3 times" in seen.failure.text
    _, seen = perform(ReadRun(5), TransportError(""))
    assert "no answer, tried 3 times" in seen.failure.text
    _, seen = perform(ReadRun(5), _answer({}, 404))
    assert seen.failure.text.endswith("404, tried 1 time")


@pytest.mark.parametrize("name", ["Retry-After", "retry-after", "RETRY-AFTER"])
def test_names_of_headers_are_read_in_any_case(perform, clock, name):
    limited = Response(403, {name: "20"}, b"{}")
    _, seen = perform(ReadRun(5), limited, _answer(RUN))
    assert isinstance(seen.answer, RunSeen)
    assert clock.sleeps == [20.0]


def test_the_time_of_a_look_is_that_of_its_last_try(perform, clock):
    begun = clock.monotonic()
    _, seen = perform(ReadRun(5), _answer({}, 500), _answer(RUN), takes=1.0)
    assert (seen.began, seen.ended) == (begun + 6.0, begun + 7.0)


def test_r63_retries_share_the_deadline(perform, clock):
    begun = clock.monotonic()
    wire, seen = perform(ReadRun(5, by=begun + 12.0), _answer({}, 500), takes=1.0)
    assert len(wire.asked) == 2
    assert seen.failure.trouble is Trouble.LATE
    assert "500" in seen.failure.text
    assert seen.ended <= begun + 12.0
    # The time-out of each try is what is left of it.
    assert [timeout for *_, timeout in wire.asked] == [12.0, 6.0]


def test_r63_after_the_deadline_nothing_is_asked(perform, clock):
    wire, seen = perform(ReadRun(5, by=clock.monotonic() - 0.1), _answer(RUN))
    assert wire.asked == []
    assert seen.failure.trouble is Trouble.LATE
    wire, seen = perform(Cancel(5, by=clock.monotonic() - 0.1), _answer({}, 202))
    assert wire.asked == []
    wire, seen = perform(ReadRun(5, by=clock.monotonic()), _answer(RUN))
    assert seen.answer


def test_r72_a_patient_request_may_outlive_its_deadline(perform, clock):
    wire, _ = perform(ReadRun(5, by=clock.monotonic() + 2.0, patient=True), _answer(RUN))
    assert wire.asked[0][-1] == REQUEST_TIMEOUT
    wire, _ = perform(ReadRun(5, by=clock.monotonic() + 0.2), _answer(RUN))
    assert wire.asked[0][-1] == 1.0
    wire, _ = perform(ReadRun(5), _answer(RUN))
    assert wire.asked[0][-1] == REQUEST_TIMEOUT


@pytest.mark.parametrize("body", [b"", b"{}", b"<html>", b"null"])
def test_a_cancellation_needs_no_body(perform, body):
    _, seen = perform(Cancel(5, 1e9), Response(202, {}, body))
    assert seen.failure is None
    assert seen.answer is None


@pytest.mark.parametrize(
    ("status", "trouble", "tries"),
    [(409, Trouble.CONFLICT, 1), (404, Trouble.MISSING, 1), (403, Trouble.AUTH, 1), (500, Trouble.OUTAGE, 3)],
)
def test_a_cancellation_that_is_refused(perform, status, trouble, tries):
    wire, seen = perform(Cancel(5, 1e9), _answer({}, status))
    assert seen.failure.trouble is trouble
    assert len(wire.asked) == tries


def test_waiting_ends_at_its_time(perform, clock):
    until = clock.monotonic() + 30.0
    _, seen = perform(Wait(until), _answer({}))
    assert seen == Observation(until, until)
    perform(Wait(until - 10.0), _answer({}))
    assert clock.sleeps == [30.0]


# -- dispatch ------------------------------------------------------------------------------------------------


def test_r55_the_run_id_comes_from_the_answer(perform):
    wire, seen = perform(SENT, _answer({"workflow_run_id": 5, "html_url": "https://x"}))
    assert seen.answer == Dispatched(5, "https://x")
    _, seen = perform(SENT, _answer({"workflow_run_id": 5, "html_url": None}))
    assert seen.answer == Dispatched(5, "")
    assert wire.asked[0][-1] == REQUEST_TIMEOUT


@pytest.mark.parametrize(
    "answer",
    [
        TransportError("reset"),
        _answer({}, 204),
        _answer(b"", 204),
        _answer({"workflow_run_id": 5}, 202),
        _answer({}),
        _answer(b""),
        _answer(b"{oops"),
        _answer([5]),
        _answer({"workflow_run_id": 0}),
        _answer({"workflow_run_id": -5}),
        _answer({"workflow_run_id": "5"}),
        _answer({"workflow_run_id": True}),
        _answer({"workflow_run_id": 5.0}),
        _answer({}, 408),
        _answer({}, 500),
        _answer({}, 503, Retry_After="1"),
    ],
)
def test_r56_r57_a_dispatch_is_never_sent_again_whatever_comes_back(perform, clock, answer):
    wire, seen = perform(SENT, answer, _answer({"workflow_run_id": 5}))
    assert seen.failure.trouble is Trouble.AMBIGUOUS
    assert len(wire.asked) == 1
    assert clock.sleeps == []


@pytest.mark.parametrize(
    ("status", "headers", "trouble"),
    [
        (401, {}, Trouble.AUTH),
        (403, {}, Trouble.AUTH),
        (403, {"Retry_After": "1"}, Trouble.LIMITED),
        (429, {}, Trouble.LIMITED),
        (404, {}, Trouble.MISSING),
        (409, {}, Trouble.CONFLICT),
        (422, {}, Trouble.REFUSED),
        (307, {}, Trouble.REFUSED),
    ],
)
def test_r56_a_definite_refusal_is_not_sent_again_either(perform, clock, status, headers, trouble):
    wire, seen = perform(SENT, _answer({"message": "No"}, status, **headers), _answer({"workflow_run_id": 5}))
    assert seen.failure.trouble is trouble
    assert "No" in seen.failure.text
    assert len(wire.asked) == 1
    assert clock.sleeps == []


# -- conditional requests ------------------------------------------------------------------------------------


def test_what_did_not_change_is_answered_from_what_was_kept(clock):
    new = _answer({**RUN, "status": "completed"}, ETag='"two"')
    wire = Wire(clock, _answer(RUN, etag='W/"one"'), Response(304, {}, b""), new, Response(304, {}, b""))
    client = Client(wire, clock, TOKEN, "o/r", conditional=True)
    seen = [alone(client.perform(ReadRun(5)), clock).answer for _ in range(4)]
    assert [run.status for run in seen if isinstance(run, RunSeen)] == ["queued", "queued", "completed", "completed"]
    assert [asked[3].get("If-None-Match") for asked in wire.asked] == [None, 'W/"one"', 'W/"one"', '"two"']
    assert clock.sleeps == []


def test_each_path_has_its_own_tag_and_writes_have_none(clock):
    wire = Wire(clock, _answer(RUN, ETag='"one"'))
    client = Client(wire, clock, TOKEN, "o/r", conditional=True)
    for effect in (ReadRun(5), ReadRun(6), Cancel(5, 1e9)):
        alone(client.perform(effect), clock)
    assert not [asked for asked in wire.asked if "If-None-Match" in asked[3]]


def test_a_damaged_body_is_not_kept(clock):
    wire = Wire(clock, _answer(b"{oops", ETag='"bad"'), _answer(RUN, ETag='"good"'))
    client = Client(wire, clock, TOKEN, "o/r", conditional=True)
    assert alone(client.perform(ReadRun(5)), clock).answer
    assert [asked[3].get("If-None-Match") for asked in wire.asked] == [None, None]


def test_only_so_many_answers_are_kept_and_the_oldest_go(clock):
    wire = Wire(clock, *[_answer(RUN | {"id": number}, ETag=f'"{number}"') for number in (*range(1, 131), 1, 130)])
    client = Client(wire, clock, TOKEN, "o/r", conditional=True)
    for number in (*range(1, 131), 1, 130):
        alone(client.perform(ReadRun(number)), clock)
    assert [asked[3].get("If-None-Match") for asked in wire.asked[-2:]] == [None, '"130"']


def test_without_the_option_nothing_is_kept(clock):
    wire = Wire(clock, _answer(RUN, ETag='"one"'), Response(304, {}, b""))
    client = Client(wire, clock, TOKEN, "o/r")
    alone(client.perform(ReadRun(5)), clock)
    seen = alone(client.perform(ReadRun(5)), clock)
    assert "If-None-Match" not in wire.asked[1][3]
    assert seen.failure
    assert seen.failure.trouble is Trouble.REFUSED


# -- free reads, and the token -------------------------------------------------------------------------------


def test_anything_of_the_repository_can_be_read(clock):
    wire = Wire(clock, _answer({"a": 1}), _answer([1]), _answer([1]), _answer([1]), _answer({"message": "Gone"}, 404))
    client = Client(wire, clock, TOKEN, "o/r")
    assert alone(client.read("/x?y=z"), clock) == ({"a": 1}, "")
    assert wire.asked[0][1] == "/repos/o/r/x?y=z"
    body, problem = alone(client.read("/x"), clock)
    assert body is None
    assert "unexpected body" in problem
    body, problem = alone(client.read("/x"), clock)
    assert (body, problem) == (None, "GET /repos/o/r/x: 404 Gone, tried 1 time")


@pytest.mark.parametrize("before", [0, 50, 60, 100, 110, 270, 280])
@pytest.mark.parametrize("kind", ["message", "error", "header"])
def test_a_token_that_comes_back_is_not_told_not_even_a_part_of_it(perform, kind, before):
    """Texts are cut: a token that is cut in two is still not to be seen."""
    text = "x" * before + TOKEN
    answer = {
        "message": _answer({"message": text}, 500),
        "error": TransportError(text),
        "header": _answer({}, 500, X_GitHub_Request_Id=text),
    }[kind]
    for effect in (ReadRun(5), SENT):
        _, seen = perform(effect, answer)
        assert "s3cr" not in seen.failure.text
