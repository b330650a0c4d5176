"""Which answers are tried again, and after how long."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_sgpu.runners.machine.actions import Trouble
from pytest_sgpu.runners.retry import LIMIT_WAIT, Again, GiveUp, Tries, is_limited, limit_wait, trouble_of

NOW = 1_790_000_000.0
DATE = {"date": "Mon, 21 Sep 2026 14:13:20 GMT"}  # NOW


def _status(status, headers=None, message=""):
    return Tries().status(status, headers or {}, message, NOW)


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
def test_success_is_no_reason_to_try_again(status):
    assert _status(status) is None


@pytest.mark.parametrize("status", [408, 500, 502, 503, 504, 599])
def test_r105_server_errors_are_tried_three_times(status):
    tries = Tries()
    assert [tries.status(status, {}, "", NOW) for _ in range(3)] == [Again(5.0), Again(10.0), GiveUp(Trouble.OUTAGE)]


def test_r105_no_answer_and_a_damaged_one_share_the_retries_of_server_errors():
    tries = Tries()
    assert tries.outage() == Again(5.0)
    assert tries.status(502, {}, "", NOW) == Again(10.0)
    assert tries.outage() == GiveUp(Trouble.OUTAGE)
    assert tries.outage() == GiveUp(Trouble.OUTAGE)


@pytest.mark.parametrize(
    ("status", "trouble"),
    [
        (401, Trouble.AUTH),
        (403, Trouble.AUTH),
        (404, Trouble.MISSING),
        (409, Trouble.CONFLICT),
        (301, Trouble.REFUSED),
        (304, Trouble.REFUSED),
        (400, Trouble.REFUSED),
        (410, Trouble.REFUSED),
        (422, Trouble.REFUSED),
        (451, Trouble.REFUSED),
        (100, Trouble.REFUSED),
    ],
)
def test_r108_definite_refusals_are_not_tried_again(status, trouble):
    assert _status(status) == GiveUp(trouble)
    assert trouble_of(status) is trouble


def test_r107_rate_limits_have_two_retries_beside_those_of_outages():
    tries, limit = Tries(), {"retry-after": "7"}
    assert tries.status(429, limit, "", NOW) == Again(7.0)
    assert tries.outage() == Again(5.0)
    assert tries.status(403, limit, "", NOW) == Again(7.0)
    assert tries.outage() == Again(10.0)
    assert tries.status(429, limit, "", NOW) == GiveUp(Trouble.LIMITED)


@pytest.mark.parametrize(("seconds", "waits"), [(59, True), (60, True), (61, False), (86_400, False)])
def test_r107_no_wait_is_longer_than_a_minute(seconds, waits):
    verdict = _status(429, {"retry-after": str(seconds)})
    if waits:
        assert verdict == Again(float(seconds))
    else:
        assert isinstance(verdict, GiveUp)
        assert verdict.trouble is Trouble.LIMITED
        assert f"{seconds} s" in verdict.why


@pytest.mark.parametrize("off", [-7200.0, 0.0, 7200.0])
@pytest.mark.parametrize(("seconds", "waits"), [(1, True), (59, True), (60, True), (61, False), (3600, False)])
def test_r107_a_reset_is_waited_for_to_the_second_and_for_a_minute_at_most(off, seconds, waits):
    headers = {"x-ratelimit-remaining": "0", "x-ratelimit-reset": f"{NOW + seconds:.0f}", **DATE}
    verdict = Tries().status(403, headers, "", NOW + off)
    if waits:
        assert verdict == Again(float(seconds))
        return
    assert isinstance(verdict, GiveUp)
    assert verdict.trouble is Trouble.LIMITED
    minute = {61: "14:14:21", 3600: "15:13:20"}[seconds]
    assert f"in {seconds} s, at 2026-09-21T{minute}.000Z" in verdict.why, "when the limit ends by the server's clock"


@pytest.mark.parametrize(
    ("status", "headers", "message", "limited"),
    [
        (429, {}, "", True),
        (403, {}, "", False),
        (403, {}, "Resource not accessible by integration", False),
        (403, {}, "You have exceeded a secondary Rate Limit", True),
        (403, {"retry-after": "1"}, "", True),
        (403, {"x-ratelimit-remaining": "0"}, "", True),
        (403, {"x-ratelimit-remaining": " 0 "}, "", True),
        (403, {"x-ratelimit-remaining": "1"}, "", False),
        (404, {"x-ratelimit-remaining": "0"}, "rate limit", False),
        (500, {"retry-after": "1"}, "rate limit", False),
        (200, {"x-ratelimit-remaining": "0"}, "", False),
    ],
)
def test_what_is_a_rate_limit(status, headers, message, limited):
    assert is_limited(status, headers, message) is limited


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "30"}, 30.0),
        ({"retry-after": " 30 "}, 30.0),
        ({"retry-after": "0"}, 1.0),
        ({"retry-after": "30", "x-ratelimit-remaining": "0", "x-ratelimit-reset": f"{NOW + 5:.0f}"}, 30.0),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": f"{NOW + 20:.0f}"}, 20.0),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": f"{NOW - 20:.0f}"}, 1.0),
        ({"x-ratelimit-reset": f"{NOW + 20:.0f}"}, 20.0),
        # A secondary limit: the primary one has its own reset, which says nothing about it.
        ({"x-ratelimit-remaining": "17", "x-ratelimit-reset": f"{NOW + 2000:.0f}"}, LIMIT_WAIT),
        ({}, LIMIT_WAIT),
        ({"retry-after": "soon"}, LIMIT_WAIT),
        ({"retry-after": "-5"}, LIMIT_WAIT),
        ({"retry-after": "1.5"}, LIMIT_WAIT),
        ({"retry-after": "٣"}, LIMIT_WAIT),
        ({"x-ratelimit-reset": "inf"}, LIMIT_WAIT),
    ],
)
def test_r106_how_long_to_wait(headers, seconds):
    assert limit_wait(headers, NOW) == seconds


@pytest.mark.parametrize("name", ["retry-after", "x-ratelimit-reset"])
@pytest.mark.parametrize("digits", [12, 400, 5000])
def test_no_number_is_too_long_to_be_read(name, digits):
    verdict = _status(429, {name: "9" * digits})
    assert isinstance(verdict, GiveUp)
    assert verdict.trouble is Trouble.LIMITED


@pytest.mark.parametrize("off", [-7200.0, 7200.0])
def test_r106_the_reset_is_compared_with_the_clock_of_the_server(off):
    headers = {"x-ratelimit-remaining": "0", "x-ratelimit-reset": f"{NOW + 20:.0f}"}
    assert limit_wait({**headers, **DATE}, NOW + off) == 20.0


@pytest.mark.parametrize("date", ["", "yesterday", "Mon, 99 Sep 2026 14:13:20 GMT", "Mon, 21 Sep 99999 14:13:20 GMT"])
def test_without_a_date_the_own_clock_has_to_do(date):
    headers = {"x-ratelimit-remaining": "0", "x-ratelimit-reset": f"{NOW + 20:.0f}", "date": date}
    assert limit_wait(headers, NOW) == 20.0


TEXTS = st.one_of(st.text(max_size=12), st.integers(-5, 10**13).map(str))
NAMES = st.sampled_from(["retry-after", "x-ratelimit-reset", "x-ratelimit-remaining", "date", "other"])


@given(st.lists(st.tuples(st.integers(100, 599), st.dictionaries(NAMES, TEXTS), st.text(max_size=20)), max_size=9))
def test_no_answers_lead_to_more_than_five_tries_or_a_long_wait(answers):
    tries, pauses = Tries(), []
    for status, headers, message in answers:
        verdict = tries.status(status, headers, message, NOW)
        if not isinstance(verdict, Again):
            break
        assert 1.0 <= verdict.seconds <= LIMIT_WAIT
        pauses.append(verdict.seconds)
    assert len(pauses) <= 4
    assert sum(pauses) <= 5 + 10 + 2 * LIMIT_WAIT
