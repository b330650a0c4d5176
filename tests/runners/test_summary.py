"""The summary of a job, and the links to the logs of the worker."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_sgpu.runners.candidates import Candidate
from pytest_sgpu.runners.links import LOGS, Link, logs_line, worker_link
from pytest_sgpu.runners.ports import Attempt, Result
from pytest_sgpu.runners.report.summary import render
from pytest_sgpu.runners.text import duration

SERVER = "https://github.com"
RUN = f"{SERVER}/o/r/actions/runs/11"
JOB = f"{RUN}/job/22"
PLACE = {"repository": "o/r", "server_url": SERVER}

FIRST = Attempt(
    1,
    {"group": "g1", "labels": "linux-amd64-gpu-h100-latest-1"},
    "request-1",
    run_id=10,
    run_url=f"{SERVER}/o/r/actions/runs/10",
    job_id=20,
    job_url=f"{SERVER}/o/r/actions/runs/10/job/20",
    queued_seconds=601.0,
    outcome="no_runner",
)
SECOND = Attempt(
    2,
    {"group": "g2", "labels": "linux-amd64-gpu-l4-latest-1"},
    "request-2",
    run_id=11,
    run_url=RUN,
    job_id=22,
    job_url=JOB,
    queued_seconds=45.0,
    executed_seconds=725.0,
    outcome="success",
)
CANDIDATES = (
    Candidate("g1", "linux-amd64-gpu-h100-latest-1", 600.0),
    Candidate("g2", "linux-amd64-gpu-l4-latest-1", 600.0),
    Candidate("g1", "linux-amd64-gpu-h100-latest-1", 3600.0, own_deadline=True, rewait=True),
)


def shown(result: Result, cleanup: str = "", workers: int = 1, candidates=CANDIDATES) -> str:
    return render(result, candidates, cleanup=cleanup, workers=workers, **PLACE)


def test_r127_the_whole_summary():
    text = shown(Result(ok=True, message="the worker succeeded", attempts=(FIRST, SECOND)))
    assert (
        text
        == f"""\
### Runner: success

the worker succeeded

- [View worker job logs here]({JOB}) · [Artifacts of the run]({RUN}#artifacts)

| # | Runner | Waited | Ran | Outcome | Child run |
| --- | --- | --- | --- | --- | --- |
| 1 | linux-amd64-gpu-h100-latest-1 | 10 min 1 s |  | no runner in time, cancelled | \
[10]({SERVER}/o/r/actions/runs/10) |
| 2 | linux-amd64-gpu-l4-latest-1 | 45 s | 12 min 5 s | success | [11]({RUN}) |

#### Candidates

| # | Candidate | Group | Deadline | Note |
| --- | --- | --- | --- | --- |
| 1 | linux-amd64-gpu-h100-latest-1 | g1 | 10 min |  |
| 2 | linux-amd64-gpu-l4-latest-1 | g2 | 10 min |  |
| 3 | linux-amd64-gpu-h100-latest-1 | g1 | 1 h | re-wait, not asked |
"""
    )


def test_r127_the_primary_error_is_there_beside_the_cleanup():
    last = replace(SECOND, outcome="startup_timeout")
    state = {"run-id": "11", "request-id": "r", "run-id-4": "17", "request-id-6": "lost", "workflow-6": "w.yml"}
    result = Result(ok=False, kind="startup_timeout", message="no job", state=state, attempts=(FIRST, last))
    text = shown(result, "unconfirmed")
    assert "### Runner: failed (startup\\_timeout)" in text
    assert "**Error:** no job" in text
    assert "look for it and cancel it: run 11; run 17; the run named lost." in text, "only what is left"


def test_r116_confirmed_cleanup_is_reported():
    text = shown(Result(ok=False, kind="source_changed", message="moved", attempts=(FIRST,)), "confirmed")
    assert "**Cleanup:** confirmed" in text


def test_nothing_was_dispatched():
    text = shown(Result(ok=False, kind="config", message="runner-type: missing"), candidates=())
    assert "No child was dispatched." in text
    assert "Cleanup" not in text
    assert LOGS not in text


def test_r125_artifacts_are_a_link_of_their_own():
    text = shown(Result(ok=True, attempts=(SECOND,)))
    assert f"[Artifacts of the run]({RUN}#artifacts)" in text


class TestLinks:
    def test_r124_the_link_leads_to_the_job(self):
        assert worker_link(SECOND, **PLACE) == Link(JOB)
        assert logs_line(SECOND, **PLACE) == f"View worker job logs here: {JOB}"

    def test_r126_the_link_is_built_from_the_id(self):
        assert worker_link(replace(SECOND, job_url=""), **PLACE) == Link(JOB)

    def test_r126_without_a_job_the_run_is_a_labelled_fallback(self):
        bare = replace(SECOND, job_url="", job_id=0)
        assert worker_link(bare, **PLACE) == Link(RUN, fallback=True)
        line = logs_line(bare, **PLACE)
        assert line == f"View worker job logs here: {RUN} (link to the run: its job is not known)"
        assert f"[View worker job logs here]({RUN}) (link to the run" in shown(Result(ok=True, attempts=(bare,)))

    def test_neither_run_nor_job(self):
        lost = Attempt(1, {}, "request-1", outcome="dispatch_ambiguous")
        assert worker_link(lost, **PLACE) is None
        assert logs_line(lost, **PLACE) == ""
        state = {"run-id": "", "request-id": "request-1"}
        result = Result(ok=False, kind="dispatch_ambiguous", message="m", state=state, attempts=(lost,))
        text = shown(result, "unconfirmed")
        assert "none, request id request-1" in text
        assert "cancel it: the run named request-1." in text

    @pytest.mark.parametrize(
        "url",
        [
            "https://github.com.evil.example/o/r/actions/runs/11/job/22",
            "javascript:alert(1)",
            f"{JOB})[x](https://evil.example",
            f"{JOB}\n::error::x",
            f"{JOB} y",
            "//evil.example",
        ],
    )
    def test_an_address_that_leads_elsewhere_is_not_taken(self, url):
        assert worker_link(replace(SECOND, job_url=url, run_url=url), **PLACE) == Link(JOB)
        only_url = replace(SECOND, job_url=url, run_url=url, run_id=0, job_id=0)
        assert worker_link(only_url, **PLACE) is None

    @pytest.mark.parametrize("job", [{}, {"job_url": "", "job_id": 0}], ids=str)
    def test_the_link_is_there_once(self, job):
        last = replace(SECOND, **job)
        line = logs_line(last, **PLACE)
        for message, left in ((f"did not end. {line}", "did not end"), (f"{line}; more", "; more")):
            result = Result(ok=False, kind="worker_failed", message=message, attempts=(FIRST, last))
            text = shown(result)
            assert text.count(LOGS) == 1
            assert f"**Error:** {left}\n" in text

    def test_each_worker_has_it_once(self):
        other = replace(SECOND, worker=2, run_id=31, job_id=32, job_url=f"{SERVER}/o/r/actions/runs/31/job/32")
        lines = [logs_line(one, **PLACE) for one in (SECOND, other)]
        for message, left in (
            (f"worker 1: x. {lines[0]}; worker 2: y. {lines[1]}", "worker 1: x; worker 2: y"),
            (f"x. {lines[0]}. {lines[1]}", "x"),
        ):
            text = shown(Result(ok=True, message=message, attempts=(SECOND, other)), workers=2)
            assert text.count(LOGS) == 2
            assert f"\n{left}\n" in text


@pytest.mark.parametrize("outcome", ["", "parent_cancelled"])
def test_an_interrupted_wait_is_shown_as_one(outcome):
    cut = replace(FIRST, outcome=outcome, queued_seconds=65.0)
    text = shown(Result(ok=False, kind="parent_cancelled", message="m", attempts=(cut,)))
    assert "| 1 min 5 s |  | interrupted |" in text
    assert "not known" not in text


class TestWorkers:
    def test_each_worker_has_its_links(self):
        attempts = (FIRST, SECOND, replace(SECOND, worker=2, number=1, run_id=31, job_url="", outcome="worker_failed"))
        text = shown(Result(ok=False, kind="worker_failed", message="worker 2", attempts=attempts), workers=2)
        assert "### Runner: failed (worker\\_failed), 2 workers" in text
        assert f"- Worker 1, success: [View worker job logs here]({JOB})" in text
        assert (
            "- Worker 2, worker failed: [View worker job logs here](https://github.com/o/r/actions/runs/31/job/22)"
            in text
        )
        assert "| Worker | # |" in text

    def test_a_summary_fits_into_what_github_takes(self):
        failed = replace(SECOND, outcome="worker_failed", request_id="x" * 100)
        attempts = [replace(FIRST, worker=n) for n in range(1, 1500)] + [
            replace(failed, worker=n) for n in range(1, 20)
        ]
        text = shown(Result(ok=False, kind="worker_failed", message="m" * 5000, attempts=tuple(attempts)), workers=1500)
        assert len(text.encode()) < 1 << 20
        assert text.count("| worker failed |") == 19
        assert "1118 more dispatches are not shown." in text


@given(st.text(), st.text(), st.text(), st.text())
def test_foreign_text_stays_text(message, label, outcome, group):
    attempt = replace(FIRST, runner={"group": group, "labels": label}, outcome=outcome, job_url=message, run_url=label)
    text = shown(
        Result(ok=False, kind=outcome, message=message, attempts=(attempt,)),
        "unconfirmed",
        candidates=(Candidate(group, label, 60.0),),
    )
    plain = re.sub(r"\\.", "", text)
    assert "<" not in plain
    assert "`" not in plain
    rows = [line for line in plain.splitlines() if line.startswith("| 1 |")]
    assert [row.count("|") for row in rows] == [7, 6]
    assert all(url.startswith(f"{SERVER}/o/r/actions/runs/10") for url in re.findall(r"\]\(([^)]*)\)", plain))


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (5.0, "5 s"), (59.4, "59 s"), (59.6, "1 min"), (61, "1 min 1 s"), (3600, "1 h"), (7500, "2 h 5 min")],
)
def test_durations(seconds, text):
    assert duration(seconds) == text
