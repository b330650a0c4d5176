"""The rules R105 to R111: what goes wrong with reads and with cancellation, how often it is tried again, what is told.

A child is dispatched at 0 and first looked at after 15 s, then every minute; without a runner it is cancelled at 615 s.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable
from datetime import datetime, timezone
from email.utils import formatdate
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from pytest_sgpu.runners.ports import Result

DUE = 615.0
ROOT = "/repos/o/r"


class Place(NamedTuple):
    """A request of a sequence that ends well: which one, and what has to happen for it to be made."""

    endpoint: str
    at: float
    path: str
    plan: dict[str, Any]
    method: str = "GET"

    def __str__(self) -> str:
        return f"{self.endpoint}@{self.at:g}"

    @property
    def dispatched(self) -> bool:
        return self.at > 0

    @property
    def what(self) -> str:
        return f"{self.method} {ROOT}{self.path}"


NEVER: dict[str, Any] = {"runner_after": None}
RUNS: dict[str, Any] = {"runner_after": 5, "runs_for": 200}
LATE: dict[str, Any] = {"runner_after": 300, "runs_for": 200}
RUN, JOBS = "/actions/runs/1001", "/actions/runs/1001/jobs?filter=latest&per_page=100"
PARENT, REF, COMMIT = "/actions/runs/1", "/git/ref/pull/7/merge", "/commits/main"
PLACES = [
    Place("parent", 0, PARENT, RUNS),
    Place("ref", 0, REF, RUNS),
    Place("commit", 0, COMMIT, RUNS),
    Place("run", 15, RUN, RUNS),
    Place("jobs", 15, JOBS, RUNS),
    Place("jobs", 75, JOBS, LATE),
    Place("run", 135, RUN, LATE),
    Place("parent", 75, PARENT, LATE),
    Place("ref", 75, REF, LATE),
    Place("run", 75, RUN, RUNS),
    Place("jobs", 75, JOBS, RUNS),
    Place("parent", 75, PARENT, RUNS),
    Place("ref", 75, REF, RUNS),
    Place("cancel", DUE, "/actions/runs/1001/cancel", NEVER, "POST"),
    Place("run", DUE + 5, RUN, NEVER),
    Place("jobs", DUE + 5, JOBS, NEVER),
    Place("parent", DUE + 5, PARENT, NEVER),
    Place("ref", DUE + 5, REF, NEVER),
    Place("commit", DUE + 5, COMMIT, NEVER),
]
SHAPES: dict[str, list[object]] = {
    "parent": [[], {}, {"id": "1"}, {"id": None}, "text", 7, None, True],
    "run": [[], {}, {"id": "1001"}, {"id": True}, "text", None],
    "jobs": [[], {}, {"jobs": {}}, {"jobs": ["text"]}, {"total_count": 1}, "text", None],
    "ref": [[], {}, {"object": {}}, {"object": {"sha": ""}}, {"object": {"sha": 5}}, "text", None],
    "commit": [[], {}, {"sha": ""}, {"sha": 5}, {"commit": {"sha": "c" * 40}}, "text", None],
}
NO_JSON = [b"", b"{oops", b"<html>Unicorn!</html>", b'{"id": 1', b"\xff\xfe", b"\x00", b"[" * 100_000]
OUTAGES: list[dict[str, Any]] = [
    {"error": "connection reset"},
    {"takes": 31},
    *({"status": status} for status in (408, 500, 502, 503, 599)),
    {"status": 500, "body": b"<html>"},
]
BAD: list[tuple[Place, dict[str, Any]]] = [
    (place, {"status": 200, "body": body})
    for place in PLACES[:3] + PLACES[9:11] + PLACES[14:16]
    for body in NO_JSON + [json.dumps(shape).encode() for shape in SHAPES[place.endpoint]]
]


def name(value: object) -> str | None:
    return str(value)[:60] if isinstance(value, dict | Place) else None


places = pytest.mark.parametrize("place", PLACES, ids=str)
outages = pytest.mark.parametrize("fault", OUTAGES, ids=str)


def tries(github, place: Place, count: int) -> list[float]:
    """When the request was made, counted from its first try; the pauses begin with the end of a try."""
    first = [asked for asked in github.requests if asked.endpoint == place.endpoint and asked.at >= place.at]
    if place.endpoint == "run" and place.at == DUE + 5:
        first = [asked for asked in first if asked.run_id == 1001]
    waits = [later.at - before.ended for before, later in itertools.pairwise(first[:count])]
    return [first[0].at - place.at, *waits]


def ended_well(github, place: Place, result: Result) -> None:
    assert result.ok
    assert not result.state
    github.assert_all_ended()
    assert len(github.dispatches()) == (2 if place.plan is NEVER else 1)


def ended_badly(github, place: Place, result: Result, kind: str) -> None:
    """It stopped, dispatched no more, and left nothing behind."""
    assert result.kind == kind
    assert len(github.dispatches()) == place.dispatched
    github.assert_all_ended()
    assert not result.state
    assert place.what in result.message


def recovers(github, go, place: Place, fault, times: int) -> None:
    """So many such answers are got over, after the pauses that are due."""
    github.plan(**place.plan)
    github.fail(place.endpoint, since=place.at, times=times, **fault)
    ended_well(github, place, go())
    assert tries(github, place, times + 1) == [0, 5, 10][: times + 1]


def fails(github, go, place: Place, fault) -> str:
    """The third such answer is the last; gives what is said of it."""
    github.plan(**place.plan)
    github.fail(place.endpoint, since=place.at, times=3, **fault)
    result = go()
    ended_badly(github, place, result, "api_error")
    assert tries(github, place, 3) == [0, 5, 10]
    assert "tried 3 times" in result.message
    return str(result.message)


# -- outages -------------------------------------------------------------------------------------------------


@places
@outages
@pytest.mark.parametrize("times", [1, 2])
def test_r105_one_or_two_bad_answers_are_tried_again(github, go, place, fault, times):
    recovers(github, go, place, fault, times)


@places
@outages
def test_r105_the_third_bad_answer_is_the_last(github, go, place, fault):
    fails(github, go, place, fault)


@pytest.mark.parametrize(("place", "fault"), BAD, ids=name)
@pytest.mark.parametrize("times", [1, 2])
def test_r105_an_answer_that_makes_no_sense_is_tried_again(github, go, place, fault, times):
    recovers(github, go, place, fault, times)


@pytest.mark.parametrize(("place", "fault"), BAD, ids=name)
def test_r105_three_answers_that_make_no_sense_are_an_error(github, go, place, fault):
    wrong = "a body that is no JSON" if fault["body"] in NO_JSON else "an unexpected body"
    assert f" with {wrong}, tried 3 times" in fails(github, go, place, fault)


def test_r105_different_bad_answers_share_the_retries(github, go):
    github.plan(**RUNS)
    for fault in OUTAGES[:1], OUTAGES[3:4], [{"status": 200, "body": b"{"}]:
        github.fail("run", since=75, **fault[0])
    result = go()
    assert result.kind == "api_error"
    assert tries(github, PLACES[9], 3) == [0, 5, 10]


def test_r105_each_request_has_retries_of_its_own(github, go):
    github.plan(**LATE)
    for endpoint in ("jobs", "parent", "ref"):
        github.fail(endpoint, since=75, status=500, times=2)
    github.fail("jobs", since=180, status=500, times=2)
    assert go().ok


@pytest.mark.parametrize("times", [1, 2, 3])
@outages
def test_r105_the_search_by_name_is_tried_again(github, go, fault, times):
    github.plan(**NEVER)
    github.fail("dispatch", status=500, done=True)
    github.fail("runs", times=times, **fault)
    result = go()
    assert result.kind == "dispatch_ambiguous"
    assert len(github.dispatches()) == 1
    assert tries(github, Place("runs", 0, "", NEVER), times + 1)[:3] == [0, 5, 10][: times + 1]
    github.assert_all_ended()
    assert not result.state


@pytest.mark.parametrize("times", [1, 2])
@outages
def test_r105_the_cancellation_of_a_cleanup_is_tried_again(github, go, fault, times):
    github.plan(runner_after=20, runs_for=None)
    github.fail("cancel", times=times, **fault)
    github.parent_cancelled(at=100)
    result = go()
    assert result.kind == "parent_cancelled"
    assert "cleanup of 1001: confirmed" in result.message
    assert tries(github, Place("cancel", 135, "", NEVER, "POST"), times + 1) == [0, 5, 10][: times + 1]


@places
def test_r105_no_request_waits_for_more_than_half_a_minute(github, go, place):
    github.plan(**place.plan)
    github.fail(place.endpoint, since=place.at, takes=3000)
    ended_well(github, place, go())
    assert all(0 < asked.timeout <= 30 for asked in github.requests)


@places
def test_r105_a_slow_answer_is_an_answer(github, go, place):
    github.plan(**place.plan)
    github.fail(place.endpoint, since=place.at, takes=29)
    ended_well(github, place, go())


# -- rate limits ---------------------------------------------------------------------------------------------

SECONDARY = {"message": "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."}


@places
@pytest.mark.parametrize("status", [403, 429])
@pytest.mark.parametrize("wait", [1, 7, 60])
def test_r106_retry_after_is_waited_for(github, go, place, status, wait):
    github.plan(**place.plan)
    github.fail(place.endpoint, since=place.at, status=status, headers={"Retry-After": str(wait)})
    ended_well(github, place, go())
    assert tries(github, place, 2) == [0, wait]


@pytest.mark.parametrize("header", ["Retry-After", "retry-after", "RETRY-AFTER"])
def test_r106_header_names_have_no_case(github, go, header):
    github.plan(**LATE)
    github.fail("jobs", since=75, status=403, headers={header: "9"})
    assert go().ok
    assert tries(github, PLACES[5], 2) == [0, 9]


@pytest.mark.parametrize("skew", [-1_000_000, -3600, -61, -5, 0, 5, 61, 3600, 1_000_000])
@pytest.mark.parametrize("reset_in", [1, 20, 50, 59, 60])
@pytest.mark.parametrize("status", [403, 429])
def test_r106_the_reset_is_waited_for_whatever_the_own_clock_says(github, go, skew, reset_in, status):
    github.plan(**LATE)
    github.clock.jump(skew)
    github.clock.at(75, lambda: github.rate(0, reset_in=reset_in, status=status))
    assert go().ok
    refused, again = [asked for asked in github.gets("jobs") if asked.at >= 75][:2]
    assert (refused.status, again.status) == (status, 200)
    assert again.at - refused.at == reset_in


@pytest.mark.parametrize("skew", [-3600, 0, 3600])
def test_r106_the_clock_may_jump_between(github, go, clock, skew):
    github.plan(**LATE)
    clock.jump(skew, at=80)
    clock.at(75, lambda: github.rate(0, reset_in=30))
    assert go().ok


@pytest.mark.parametrize("date", ["", "yesterday", "Mon, 99 Foo 2026 99:99:99 GMT"])
def test_r106_without_a_date_the_own_clock_is_taken(github, go, clock, date):
    github.plan(**LATE)
    headers = {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": str(int(clock.time()) + 75 + 20)}
    github.fail("jobs", since=75, status=403, headers={**headers, **({"Date": date} if date else {})})
    assert go().ok
    assert tries(github, PLACES[5], 2)[1] == 20


def test_r106_retry_after_comes_before_the_reset(github, go, clock):
    github.plan(**LATE)
    headers = {"Retry-After": "8", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": str(int(clock.time()) + 100)}
    github.fail("jobs", since=75, status=403, headers={**headers, "Date": formatdate(clock.time() + 75, usegmt=True)})
    assert go().ok
    assert tries(github, PLACES[5], 2) == [0, 8]


def test_r106_a_reset_in_the_past_is_not_waited_for_backwards(github, go, clock):
    github.plan(**LATE)
    headers = {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": str(int(clock.time()) - 1000)}
    github.fail("jobs", since=75, status=403, headers={**headers, "Date": formatdate(clock.time() + 75, usegmt=True)})
    assert go().ok
    assert 0 < tries(github, PLACES[5], 2)[1] <= 60


@places
@pytest.mark.parametrize(
    "fault", [{"status": 403, "body": SECONDARY}, {"status": 429}, {"status": 429, "body": SECONDARY}]
)
def test_r106_a_limit_that_does_not_say_how_long_is_worth_a_minute(github, go, place, fault):
    github.plan(**place.plan)
    github.fail(place.endpoint, since=place.at, **fault)
    ended_well(github, place, go())
    assert tries(github, place, 2) == [0, 60]


@pytest.mark.parametrize("text", ["soon", "-5", "1.5", "", " ", "Fri, 31 Dec 1999 23:59:59 GMT", "1e3", "٣"])
def test_r106_a_retry_after_that_is_no_number_of_seconds_is_a_minute(github, go, text):
    github.plan(**LATE)
    github.fail("jobs", since=75, status=429, headers={"Retry-After": text})
    assert go().ok
    assert tries(github, PLACES[5], 2) == [0, 60]


@pytest.mark.parametrize("text", ["0", "1", " 1 ", "00"])
def test_r106_some_time_is_always_waited(github, go, text):
    github.plan(**LATE)
    github.fail("jobs", since=75, status=429, headers={"Retry-After": text})
    assert go().ok
    assert 1 <= tries(github, PLACES[5], 2)[1] <= 2


@places
def test_r107_two_waits_at_most(github, go, place):
    github.plan(**place.plan)
    github.fail(place.endpoint, since=place.at, status=429, headers={"Retry-After": "10"}, times=2)
    ended_well(github, place, go())
    assert tries(github, place, 3) == [0, 10, 10]


@places
@pytest.mark.parametrize(
    "fault", [{"status": 429, "headers": {"Retry-After": "4"}}, {"status": 403, "headers": {"Retry-After": "4"}}]
)
def test_r107_the_third_refusal_is_the_last(github, go, place, fault):
    github.plan(**place.plan)
    github.fail(place.endpoint, since=place.at, times=3, **fault)
    result = go()
    ended_badly(github, place, result, "api_error")
    assert tries(github, place, 3) == [0, 4, 4]
    assert "tried 3 times" in result.message


@places
@pytest.mark.parametrize("wait", ["61", "3600"])
def test_r107_a_wait_of_more_than_a_minute_is_an_error_at_once(github, go, place, wait):
    github.plan(**place.plan)
    github.fail(place.endpoint, since=place.at, status=403, headers={"Retry-After": wait})
    result = go()
    ended_badly(github, place, result, "api_error")
    assert "tried 1 time" in result.message
    assert "tried 1 times" not in result.message
    assert f"{wait} s" in result.message


@pytest.mark.parametrize("digits", [8, 9, 10, 12, 30, 400])
@pytest.mark.parametrize("header", ["Retry-After", "X-RateLimit-Reset"])
def test_r107_no_number_is_too_long_to_be_a_wait(github, go, header, digits):
    github.plan(**LATE)
    number = "9" * max(digits, 8 if header == "Retry-After" else 11)
    github.fail("jobs", since=75, status=429, headers={"X-RateLimit-Remaining": "0", header: number})
    result = go()
    assert result.kind == "api_error"
    assert tries(github, PLACES[5], 1) == [0]
    assert "too long to wait" in result.message
    assert len(result.message) < 600


@pytest.mark.parametrize("skew", [-3600, 0, 3600])
@pytest.mark.parametrize("reset_in", [61, 62, 600, 3600])
def test_r107_a_reset_that_is_too_far_is_an_error_at_once(github, go, clock, skew, reset_in):
    github.plan(**LATE)
    clock.jump(skew)
    reset = datetime.fromtimestamp(github.server_time() + 75 + reset_in, timezone.utc)
    clock.at(75, lambda: github.rate(0, reset_in=reset_in))
    result = go()
    assert result.kind == "api_error"
    assert tries(github, PLACES[5], 1) == [0]
    told = re.search(r"lifted in (\d+) s, at (\S+)Z, which is too long to wait", result.message)
    assert told
    assert int(told[1]) == reset_in
    assert told[2] == reset.isoformat(timespec="milliseconds").removesuffix("+00:00"), "by the clock of the server"
    assert "tried 1 time;" in result.message


def test_r107_a_mix_of_both_kinds_is_bounded(github, go):
    github.plan(**LATE)
    for _ in range(10):
        github.fail("jobs", since=75, status=500)
        github.fail("jobs", since=75, status=429, headers={"Retry-After": "3"})
    result = go()
    assert result.kind == "api_error"
    assert len([asked for asked in github.gets("jobs") if asked.at >= 75]) <= 5


# -- refusals of the token -----------------------------------------------------------------------------------

FORBIDDEN = {"message": "Resource not accessible by integration"}


@places
@pytest.mark.parametrize(
    "fault",
    [{"status": 401, "body": {"message": "Bad credentials"}}, {"status": 403, "body": FORBIDDEN}, {"status": 403}],
)
def test_r108_a_refused_token_is_an_error_at_once(github, go, place, fault):
    github.plan(**place.plan)
    github.fail(place.endpoint, since=place.at, **fault)
    result = go()
    ended_badly(github, place, result, "auth")
    assert str(fault["status"]) in result.message
    assert "tried 1 time" in result.message


def test_r108_a_token_that_is_refused_for_good_leaves_a_child_that_is_reported(github, go, files, clock):
    github.plan(**LATE)
    github.fail("*", since=75, times=None, status=401)
    result = go()
    assert result.kind == "auth"
    assert "cleanup of 1001: unconfirmed" in result.message
    assert files.state()["run-id"] == "1001"
    assert clock.elapsed == 75
    assert len(github.cancels()) == 1


def test_r108_a_token_that_may_not_cancel_still_reads(github, go):
    github.plan(**NEVER)
    github.fail("cancel", times=None, status=403, body=FORBIDDEN)
    result = go()
    assert result.kind == "auth"
    assert result.state["run-id"] == "1001"
    assert len(github.cancels()) == 2  # the sequence, and the cleanup
    assert "Resource not accessible by integration" in result.message


# -- the report ----------------------------------------------------------------------------------------------


@places
@pytest.mark.parametrize("answer", [(408, 3), (500, 3), (503, 3), (422, 1), (400, 1), (401, 1), (403, 1)])
def test_r109_the_report_of_a_status(github, go, lines, place, answer):
    status, count = answer
    github.plan(**place.plan)
    github.fail(place.endpoint, since=place.at, times=count, status=status, body={"message": "the API's own words"})
    result = go()
    last = [a for a in github.requests if a.status == status and a.endpoint == place.endpoint][-1]
    told = f"{place.what}: {status} (request id FA7E:{last.number:04d}) the API's own words, tried {count} time"
    assert told in result.message
    assert any(line.startswith(f"{result.kind}: ") and told in line for line in lines)


@places
def test_r109_the_report_of_a_transport_error(github, go, lines, place):
    github.plan(**place.plan)
    github.fail(place.endpoint, since=place.at, times=3, error="name resolution failed")
    result = go()
    told = f"{place.what}: name resolution failed, tried 3 times"
    assert told in result.message
    assert any(told in line for line in lines)


@pytest.mark.parametrize("body", [b"{oops", b"[]"])
def test_r109_the_report_of_an_answer_that_makes_no_sense(github, go, body):
    github.plan(**LATE)
    github.fail("jobs", since=75, times=3, status=200, body=body)
    message = go().message
    assert f"GET {ROOT}{JOBS}: 200 (request id FA7E:" in message
    assert "body" in message
    assert "tried 3 times" in message


def test_r109_the_report_is_about_the_last_try(github, go):
    github.plan(**LATE)
    github.fail("jobs", since=75, status=500)
    github.fail("jobs", since=75, status=502)
    github.fail("jobs", since=75, error="no route to host")
    assert "no route to host, tried 3 times" in go().message


@pytest.fixture
def told(lines, env) -> Callable[[Result], str]:
    """Everything that anybody can read."""

    def texts(result: Result) -> str:
        names = ("GITHUB_OUTPUT", "GITHUB_STATE", "GITHUB_STEP_SUMMARY")
        return "\n".join([repr(result), *lines, *(Path(env[name]).read_text(encoding="utf-8") for name in names)])

    return texts


def test_r109_the_summary_has_the_report(github, go, files):
    github.plan(**LATE)
    github.fail("jobs", since=75, times=3, error="name resolution failed")
    go()
    assert "name resolution failed, tried 3 times" in files.summary()


@places
@pytest.mark.parametrize("form", ["error", "message", "request id", "reason", "page"])
def test_r109_the_token_is_never_told(github, go, told, place, form):
    echo = f"Authorization: Bearer {github.token}"
    faults: dict[str, dict[str, Any]] = {
        "error": {"error": f"bad header {echo}"},
        "message": {"status": 500, "body": {"message": f"bad header {echo}"}},
        "request id": {"status": 500, "headers": {"X-GitHub-Request-Id": echo}},
        "reason": {"status": 422, "body": {"message": echo, "errors": [echo]}},
        "page": {"status": 200 if place.method == "GET" else 500, "body": echo.encode()},
    }
    github.plan(**place.plan)
    github.fail(place.endpoint, since=place.at, times=3, **faults[form])
    result = go()
    assert not result.ok
    assert github.token not in told(result)


@pytest.mark.parametrize("before", [60, 75, 85, 90, 95, 105, 115, 250, 280, 295])
@pytest.mark.parametrize("form", ["error", "message", "request id"])
def test_r109_not_even_a_part_of_the_token_is_told(github, go, told, before, form):
    echo = "x" * before + github.token
    faults: dict[str, dict[str, Any]] = {
        "error": {"error": echo},
        "message": {"status": 500, "body": {"message": echo}},
        "request id": {"status": 500, "headers": {"X-GitHub-Request-Id": echo}},
    }
    github.plan(**LATE)
    github.fail("jobs", since=75, times=3, **faults[form])
    assert github.token[:10] not in told(go())


# -- longer outages ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("begin", [74, 75])
@pytest.mark.parametrize("seconds", [1, 4, 5.5, 14])
def test_r110_a_short_outage_is_survived(github, go, begin, seconds):
    github.plan(**LATE)
    github.outage(begin, seconds)
    assert go().ok


@pytest.mark.parametrize("plan", [LATE, {"runner_after": 5, "runs_for": 2000}, {"runner_after": 5, "runs_for": None}])
@pytest.mark.parametrize("seconds", [17, 60, 100])
def test_r110_a_longer_outage_stops_and_cleans_up_when_it_is_over(github, go, plan, seconds):
    github.plan(**plan)
    github.outage(74, seconds)
    result = go()
    assert result.kind == "api_error"
    assert "no route to host, tried 3 times" in result.message
    assert "cleanup of 1001: confirmed" in result.message
    github.assert_all_ended()
    assert len(github.dispatches()) == 1


@pytest.mark.parametrize("begin", [14, 74, 614, 617])
def test_r110_an_outage_for_good_ends_in_bounded_time_and_is_reported(github, go, clock, files, begin):
    github.plan(**NEVER)
    github.outage(begin, 100_000)
    result = go()
    assert result.kind in ("api_error", "cancel_unconfirmed")
    assert not result.ok
    assert "unconfirmed" in result.message
    assert "1001" in result.message
    assert files.state()["run-id"] == "1001"
    assert clock.elapsed <= begin + 1 + 15 + 120 + 15
    assert len(github.dispatches()) == 1


def test_r110_an_outage_from_the_start_dispatches_nothing(github, go):
    github.outage(0, 100_000)
    assert go().kind == "api_error"
    assert not github.children
    assert not github.posts()


@places
def test_r110_no_outage_leads_to_another_dispatch(github, go, place):
    github.plan(**place.plan)
    github.outage(place.at, 300)
    result = go()
    assert not result.ok
    assert len(github.dispatches()) == place.dispatched


def test_r111_a_quota_that_others_have_spent_is_told_and_nothing_is_dispatched(github, go):
    github.rate(0, reset_in=1800)
    result = go()
    assert result.kind == "api_error"
    assert "rate limit" in result.message
    assert not github.children


def test_r111_a_quota_that_is_spent_under_way_leaves_a_child_that_is_reported(github, go, clock, files):
    github.plan(**LATE)
    clock.at(74, lambda: github.rate(0, reset_in=1800))
    result = go()
    assert result.kind == "api_error"
    assert "cleanup of 1001: unconfirmed" in result.message
    assert files.state()["run-id"] == "1001"
    assert len([asked for asked in github.requests if asked.at > 74]) <= 40


def test_r111_four_coordinators_fit_into_the_quota_of_a_repository(github, go):
    github.plan_all(runner_after=None)
    go(queue_timeout_minutes="60")
    hours = [sum(begin <= asked.at < begin + 3600 for asked in github.requests) for begin in range(0, 7200, 60)]
    assert 4 * max(hours) <= github.rate_limit
