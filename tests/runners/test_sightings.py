"""Answers decoded: what is hollow equals nothing, and what is evidence."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_sgpu.runners.machine.sightings import (
    Identity,
    JobSeen,
    JobsSeen,
    RunSeen,
    jobs_seen,
    run_seen,
    runs_seen,
    sha_seen,
)

RUN = {
    "id": 5,
    "run_attempt": 1,
    "event": "workflow_dispatch",
    "path": ".github/workflows/c.yml",
    "head_sha": "d" * 40,
    "display_title": "id-1",
    "status": "queued",
    "conclusion": None,
    "html_url": "https://github.com/o/r/actions/runs/5",
}
JOB = {
    "id": 50,
    "run_id": 5,
    "run_attempt": 1,
    "name": "worker",
    "status": "queued",
    "conclusion": None,
    "runner_id": 0,
    "runner_name": "",
    "runner_group_id": 0,
    "runner_group_name": "",
    "started_at": "2026-01-01T00:00:00Z",
    "steps": [],
    "html_url": "https://github.com/o/r/actions/runs/5/job/50",
}
IDENTITY = Identity(5, "id-1", "c.yml", "D" * 40)


def _job(**changes):
    seen = jobs_seen({"total_count": 1, "jobs": [{**JOB, **changes}]})
    assert seen is not None
    (job,) = seen.jobs
    return job


def _run(**changes):
    run = run_seen({**RUN, **changes})
    assert run is not None
    return run


def test_a_run_is_decoded():
    url = "https://github.com/o/r/actions/runs/5"
    wanted = RunSeen(5, 1, "workflow_dispatch", ".github/workflows/c.yml", "d" * 40, "id-1", "queued", "", url)
    assert _run() == wanted
    assert not wanted.ended
    assert wanted.shown == "queued"


@pytest.mark.parametrize("body", [None, [], "x", 5, True, {}, {"id": None}, {"id": "5"}, {"id": True}, {"id": 5.0}])
def test_what_is_no_run(body):
    assert run_seen(body) is None


@pytest.mark.parametrize("status", [None, 5, [], {}, True])
def test_a_field_of_another_type_is_hollow(status):
    run = _run(status=status, run_attempt=status, head_sha=status, display_title=status)
    assert run.status == run.head_sha == run.title == ""
    assert run.shown == "unknown"
    assert len(IDENTITY.differences(run)) >= 2


def test_r69_the_identity():
    assert IDENTITY.differences(_run()) == ()
    assert IDENTITY.differences(_run(path=".github/workflows/c.yml@refs/heads/main")) == ()


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"id": 6}, "id"),
        ({"run_attempt": 2}, "run_attempt"),
        ({"run_attempt": True}, "run_attempt"),
        ({"event": "push"}, "event"),
        ({"path": ".github/workflows/C.yml"}, "path"),
        ({"path": "@main"}, "path"),
        ({"head_sha": "e" * 40}, "head_sha"),
        ({"head_sha": ""}, "head_sha"),
        ({"display_title": "id-1 "}, "display_title"),
        ({"display_title": "id-10"}, "display_title"),
    ],
)
def test_r70_each_difference_is_told(changes, name):
    (told,) = IDENTITY.differences(_run(**changes))
    assert told.startswith(f"{name}: expected ")


def test_a_difference_cannot_speak_to_the_runner():
    (told,) = IDENTITY.differences(_run(display_title="x\n::error::y\x1b[31m"))
    assert told.isprintable()


@pytest.mark.parametrize(
    ("status", "conclusion", "ended"),
    [
        ("completed", "success", True),
        ("completed", None, False),
        ("completed", "", False),
        ("queued", "success", False),
    ],
)
def test_r85_a_conclusion_may_come_later_than_the_status(status, conclusion, ended):
    assert _run(status=status, conclusion=conclusion).ended is ended
    assert _job(status=status, conclusion=conclusion).ended is ended


def test_a_queued_job_is_no_evidence():
    job = _job()
    assert job == JobSeen(50, 5, 1, "worker", "queued", "", "", False, str(JOB["html_url"]))
    assert not job.evidence


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"runner_id": None, "runner_name": None, "steps": None},
        {"runner_group_id": 9, "runner_group_name": "GitHub Actions"},
        {"started_at": "2026-02-01T00:00:00Z"},
        {"status": "waiting"},
        {"status": "pending"},
        {"status": "completed", "conclusion": "cancelled"},
        {"status": "completed", "conclusion": "skipped"},
        {"steps": [{"status": "queued"}, {"status": "pending"}]},
        {"steps": [None, 5, "in_progress"]},
        {"steps": "in_progress"},
        {"runner_id": False},
    ],
)
def test_r75_what_is_no_evidence(changes):
    assert not _job(**changes).evidence


@pytest.mark.parametrize(
    "changes",
    [
        {"runner_id": 7},
        {"runner_id": -1},
        {"runner_name": "r1"},
        {"status": "in_progress"},
        {"steps": [{"status": "in_progress"}]},
        {"steps": [{"status": "queued"}, {"status": "completed", "conclusion": "success"}]},
        {"status": "completed", "conclusion": "success"},
        {"status": "completed", "conclusion": "cancelled", "runner_id": 7},
        {"status": "completed", "conclusion": "cancelled", "steps": [{"status": "completed"}]},
    ],
)
def test_r75_what_is_evidence(changes):
    assert _job(**changes).evidence


def test_a_runner_whose_name_is_blank_is_one_all_the_same():
    """Its number says so; and a name without a printable character is no name that could be shown."""
    assert _job(runner_name="\x1b\n", runner_id=7).runner == "7"


def test_the_name_of_a_runner_is_shown_and_so_made_harmless():
    assert _job(runner_name="a\n::add-mask::b").runner == "a ::add-mask::b"


@pytest.mark.parametrize(
    "body",
    [None, [], {}, {"jobs": None}, {"jobs": {}}, {"jobs": [None]}, {"jobs": [5, {}]}, {"jobs": "x"}, "jobs"],
)
def test_what_is_no_list_of_jobs(body):
    assert jobs_seen(body) is None


def test_p14_jobs_beyond_the_page_are_counted():
    assert jobs_seen({"total_count": 0, "jobs": []}) == JobsSeen(0, ())
    seen = jobs_seen({"total_count": 130, "jobs": [JOB]})
    assert seen
    assert seen.total == 130
    hollow = jobs_seen({"total_count": None, "jobs": [JOB, JOB]})
    assert hollow
    assert hollow.total == 2
    assert jobs_seen({"jobs": [JOB]}) == jobs_seen({"total_count": 1, "jobs": [JOB]})


def test_runs_are_listed_and_what_is_none_is_left_out():
    assert runs_seen({"workflow_runs": [RUN, None, {}, 5]}) == (_run(),)
    assert runs_seen({"workflow_runs": []}) == ()


@pytest.mark.parametrize("body", [None, [], {}, {"workflow_runs": None}, {"workflow_runs": {"id": 5}}, "x"])
def test_what_is_no_list_of_runs(body):
    assert runs_seen(body) is None


def test_the_sha_of_a_ref_and_of_a_commit():
    assert sha_seen({"ref": "refs/heads/x", "object": {"type": "commit", "sha": "a" * 40}}) == "a" * 40
    assert sha_seen({"sha": "b" * 40, "commit": {}}) == "b" * 40


@pytest.mark.parametrize(
    "body", [None, [], "a" * 40, {}, {"sha": None}, {"sha": ""}, {"object": {}}, {"object": {"sha": 5}}, {"sha": ["a"]}]
)
def test_what_is_no_sha(body):
    assert sha_seen(body) is None


@pytest.mark.parametrize(
    "url",
    [
        None,
        5,
        "",
        "javascript:alert(1)",
        "https://x y",
        "https://x\n::error::",
        "ftp://x",
        "//x",
        "https://" + "x" * 3000,
    ],
)
def test_a_link_that_cannot_be_clicked_is_none(url):
    assert _run(html_url=url).url == ""
    assert _job(html_url=url).url == ""


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from([*RUN, *JOB, "jobs", "workflow_runs", "object", "sha", "total_count"]), inner, max_size=6
        )
    ),
    max_leaves=12,
)


@given(JSON, JSON, JSON)
def test_nothing_that_json_can_hold_breaks_the_decoding(one, two, three):
    for body in (one, {"jobs": [one, two]}, {"workflow_runs": [one, two]}, {"id": 5, "status": one, "path": two}):
        run_seen(body)
        runs_seen(body)
        sha_seen(body)
        seen = jobs_seen(body)
        for job in seen.jobs if seen else ():
            assert isinstance(job.evidence, bool)
            assert job.shown
    run = run_seen({**RUN, "status": one, "head_sha": two, "run_attempt": three})
    assert run
    assert all(line.isprintable() for line in IDENTITY.differences(run))
    json.dumps([run.status, run.head_sha, run.shown])
