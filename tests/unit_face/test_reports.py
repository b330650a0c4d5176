"""One outcome as the three reports that every report-based plugin reads."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pytest_sgpu.face.reports import SHOWN_AS, Crash, Failure, WorkerNode, estimate_text, properties, reports
from pytest_sgpu.model import UNKNOWN, Estimate, Key, Outcome, Status, Worker

ITEM: Any = SimpleNamespace(nodeid="q.conf::one::a", location=("q.conf", 0, "one::a"), keywords={"a": object()})
PASSED = Outcome(Key("one", "a"), Status.PASSED, 0, 1.0, 3.5, "gpu0", ("gpu0",), estimate=Estimate(2.25, known=True))
FAILURE = Failure(["one/a failed", "  | boom"], Crash("q.conf", 1, "exit code 1"))


def made(outcome, *, node=None, failure=lambda: FAILURE):
    return reports(ITEM, outcome, node=node, epoch=1000.0, log="items/one.a.log", failure=failure)


def never():
    raise AssertionError


def test_a_pass_has_three_phases_and_all_of_its_time_is_the_call():
    setup, call, teardown = made(PASSED, failure=never)
    assert [report.when for report in (setup, call, teardown)] == ["setup", "call", "teardown"]
    assert {report.outcome for report in (setup, call, teardown)} == {"passed"}
    assert [report.duration for report in (setup, call, teardown)] == [0.0, 2.5, 0.0]
    assert (call.start, call.stop) == (1001.0, 1003.5)
    assert (call.nodeid, call.location, call.keywords) == (ITEM.nodeid, ITEM.location, {"a": 1})
    assert call.sgpu_outcome is PASSED
    assert not hasattr(call, "node")


@pytest.mark.parametrize(
    "status",
    [s for s in Status if s not in (Status.PASSED, Status.FLAKY, Status.SETUP_FAILED)],
    ids=lambda status: status.name,
)
def test_a_failure_is_one_of_the_call(status):
    setup, call, teardown = made(Outcome(Key("one", "a"), status, 1, 1.0, 2.0))
    assert (setup.outcome, call.outcome, teardown.outcome) == ("passed", "failed", "passed")
    assert call.longrepr is FAILURE
    assert setup.longrepr is teardown.longrepr is None


@pytest.mark.parametrize(("fails", "outcome"), [(False, "passed"), (True, "failed")])
def test_what_flaky_means_is_the_callers_choice(fails, outcome):
    setup, call, teardown = made(Outcome(Key("one", "a"), Status.FLAKY, 0, 1.0, 2.0, flaky_fails=fails))
    assert (setup.outcome, call.outcome, teardown.outcome) == ("passed", outcome, "passed")
    assert (call.longrepr is FAILURE) == fails
    assert SHOWN_AS[Status.FLAKY] == "flaky"


def test_an_attempt_is_named_where_there_was_more_than_one():
    again = Outcome(Key("one", "a"), Status.PASSED, 0, 1.0, 2.0, attempt=3)
    assert dict(properties(again, ""))["attempt"] == 3
    assert "attempt" not in dict(properties(PASSED, ""))


def test_a_setup_that_failed_is_an_error_and_nothing_was_called():
    setup, teardown = made(Outcome(Key("one", "a"), Status.SETUP_FAILED, 3))
    assert (setup.when, setup.outcome, setup.longrepr) == ("setup", "failed", FAILURE)
    assert (teardown.when, teardown.outcome) == ("teardown", "passed")
    assert (setup.start, setup.stop, setup.duration) == (1000.0, 1000.0, 0.0)


def test_an_item_that_started_and_has_no_end_is_no_traceback():
    _, call, _ = made(Outcome(Key("one", "a"), Status.LOST, start=4.0))
    assert (call.start, call.stop, call.duration) == (1004.0, 1004.0, 0.0)


def test_reports_name_their_worker_as_xdist_does():
    node = WorkerNode(Worker("gpu3", ()))
    for report in made(PASSED, node=node):
        assert report.node is node
    assert (node.gateway.id, node.workerinfo["id"], node.workerinfo["workerid"]) == ("gpu3", "gpu3", "gpu3")


def test_the_case_in_junitxml_has_its_properties():
    assert dict(properties(PASSED, "x.log")) == {
        "gpu": "gpu0",
        "estimate": "2.2",
        "exit_code": 0,
        "status": "passed",
        "log": "x.log",
    }
    lost = dict(properties(Outcome(Key("one", "a"), Status.LOST, devices=("gpu0", "gpu1")), ""))
    assert (lost["gpu"], lost["exit_code"], lost["estimate"]) == ("gpu0,gpu1", "none", "unknown")
    assert dict(made(PASSED)[1].user_properties)["log"] == "items/one.a.log"


@pytest.mark.parametrize("estimate", [UNKNOWN, Estimate(3.0, known=False), Estimate(None, known=True)])
def test_a_guess_is_no_estimate(estimate):
    assert estimate_text(estimate) == estimate_text(UNKNOWN)
    assert estimate_text(Estimate(0.04, known=True)) == "0.0"


def test_a_failure_is_a_block_whose_first_line_stands_out():
    written: list[object] = []
    writer: Any = SimpleNamespace(line=lambda text, **markup: written.append((text, markup)))
    FAILURE.toterminal(writer)
    assert written == [
        ("one/a failed", {"red": True, "bold": True}),
        ("  | boom", {"red": False, "bold": False}),
    ]
    assert str(FAILURE) == "one/a failed\n  | boom"
    assert FAILURE.reprcrash.message == "exit code 1"
