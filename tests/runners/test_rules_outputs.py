"""The rules R120 to R129: outputs, log, summary; what comes from outside is harmless there, the token is nowhere."""

from __future__ import annotations

import html
import json
import re
import unicodedata
from itertools import pairwise
from pathlib import Path

import pytest

from pytest_sgpu.runners import coordinator
from pytest_sgpu.runners.ports import Result

OTHER = "b" * 40
GROUP = "nv-cpu-general"
TWO = json.dumps([{"group": GROUP, "labels": "linux-amd64-cpu16"}, {"group": GROUP, "labels": "linux-amd64-cpu8"}])
ONE = json.dumps([{"group": GROUP, "labels": "linux-amd64-cpu16"}])
NEVER = {"runner_after": None}
FOR_EVER = {"runs_for": None}
LINK = "View worker job logs here: https://github.com/o/r/actions/runs/"
NAMES = {"run-id", "run-url", "runner", "attempts"}


# -- R120, R129: the outputs ---------------------------------------------------------------------------------------

ENDS = {
    "success": ("", {}, lambda g: None, {}),
    "worker failed": ("worker_failed", {"conclusion": "failure"}, lambda g: None, {}),
    "exhausted": ("queue_exhausted", NEVER, lambda g: None, {}),
    "source moved": ("source_changed", NEVER, lambda g: g.move(g.source_ref, OTHER, at=100), {}),
    "parent cancelled": ("parent_cancelled", FOR_EVER, lambda g: g.parent_cancelled(100), {}),
    "api error": ("api_error", NEVER, lambda g: g.fail("jobs", times=None, since=60, status=500), {}),
    "race": ("race", {**NEVER, "runner_after_cancel": 1}, lambda g: None, {}),
    "unconfirmed": ("cancel_unconfirmed", {**NEVER, "cancel_after": None}, lambda g: None, {}),
    "too long": ("execution_timeout", FOR_EVER, lambda g: None, {"execution_timeout_minutes": "1"}),
    "identity": ("identity_mismatch", NEVER, lambda g: g.drift(None, 60, run={"head_sha": OTHER}), {}),
}
ends = pytest.mark.parametrize("case", ENDS.values(), ids=ENDS.keys())


def ended(case, job) -> Result:
    kind, plan, setup, changes = case
    job.github.plan_all(**plan)
    setup(job.github)
    result: Result = job.go(runners=TWO, **changes)
    assert result.kind == kind
    return result


@ends
def test_r120_the_outputs_describe_the_last_dispatch_however_it_ends(case, github, job):
    result = ended(case, job)
    last = github.children[-1]
    wanted = {
        "run-id": str(last.run_id),
        "run-url": f"https://github.com/o/r/actions/runs/{last.run_id}",
        "runner": last.inputs["runner"],
        "attempts": str(len(github.dispatches())),
    }
    assert result.outputs == wanted
    assert job.files.output() == wanted
    assert set(json.loads(result.outputs["runner"])) == {"group", "labels"}
    assert len(result.attempts) == len(github.dispatches())


@pytest.mark.parametrize("dispatches", [1, 2, 3])
def test_r129_attempts_counts_dispatches(dispatches, github, job):
    for _ in range(dispatches - 1):
        github.plan(**NEVER)
    result = job.go()
    assert result.outputs["attempts"] == str(dispatches) == str(len(github.dispatches()))
    assert [attempt.run_id for attempt in result.attempts] == [child.run_id for child in github.children]
    assert [attempt.outcome for attempt in result.attempts] == ["no_runner"] * (dispatches - 1) + ["success"]
    assert [attempt.request_id for attempt in result.attempts] == [child.request_id for child in github.children]


@pytest.mark.parametrize(
    "changes",
    [
        {"runner_type": ""},
        {"runner_type": "tpu"},
        {"runners": "[{"},
        {"queue_timeout_minutes": "0"},
        {"source_sha": "main"},
        {"workflow": "x.txt"},
        {"no_such_input": "1"},
        {"pools": "no/such/file.toml"},
    ],
    ids=str,
)
def test_r120_wrong_inputs_give_all_outputs_blank_and_make_no_request(changes, github, job):
    result = job.go(**changes)
    assert (result.ok, result.kind) == (False, "config")
    assert result.outputs == job.files.output() == {"run-id": "", "run-url": "", "runner": "", "attempts": "0"}
    assert job.lines == [], "who calls it tells what is wrong, once"
    assert "config" in job.files.summary(), "the primary error is in the summary too (R127)"
    assert not github.requests


@pytest.mark.parametrize("variable", ["GITHUB_TOKEN", "GITHUB_REPOSITORY", "GITHUB_RUN_ID", "GITHUB_RUN_ATTEMPT"])
def test_r120_a_missing_variable_gives_blank_outputs_too(variable, github, job):
    del job.env[variable]
    result = job.go()
    assert result.kind == "config"
    assert variable in result.message
    assert result.outputs == job.files.output() == {"run-id": "", "run-url": "", "runner": "", "attempts": "0"}
    assert not github.requests


@pytest.mark.parametrize("setup", ["parent", "source"])
def test_r120_without_a_dispatch_the_outputs_are_blank(setup, github, job):
    if setup == "parent":
        github.parent(status="completed", conclusion="success")
    else:
        github.move(github.source_ref, OTHER)
    result = job.go()
    assert result.kind == ("parent_not_active" if setup == "parent" else "source_changed")
    assert result.outputs == job.files.output() == {"run-id": "", "run-url": "", "runner": "", "attempts": "0"}
    assert "No child was dispatched" in job.files.summary()
    assert not github.posts()


def test_r120_a_refused_second_dispatch_is_the_last_one(github, job):
    github.plan_all(**NEVER)
    github.fail("dispatch", skip=1, status=422, body={"message": "Workflow does not have 'workflow_dispatch' trigger"})
    result = job.go(runners=TWO)
    assert result.kind == "dispatch_failed"
    assert result.outputs["run-id"] == result.outputs["run-url"] == ""
    assert json.loads(result.outputs["runner"])["labels"] == "linux-amd64-cpu8"
    assert result.outputs["attempts"] == "2"
    assert "does not have" in result.message


@pytest.mark.parametrize("at", [10, 60, 700])
def test_r120_the_outputs_are_there_after_a_signal_too(at, github, clock, job):
    github.plan(**NEVER)
    github.plan(**FOR_EVER)
    clock.interrupt(at)
    result = job.go(runners=TWO)
    assert result.kind == "parent_cancelled"
    assert result.outputs == job.files.output()
    assert result.outputs["run-id"] == str(github.children[-1].run_id)
    assert result.outputs["attempts"] == str(len(github.children))


# -- R121 to R123: the log -----------------------------------------------------------------------------------------

ROUND = (
    r"^round (\d+), child 1001: run (\S+), job (\S+), runner (\S+); (\d+) s since its dispatch; "
    r"(?:next look in (\d+) s|its time is over|polling has finished)$"
)


@pytest.mark.parametrize("polling", ["steady", "adaptive"])
@pytest.mark.parametrize("conditional", ["true", "false"])
def test_r121_every_round_says_number_child_status_time_and_the_next_one(polling, conditional, github, job):
    github.plan_all(runner_after=400, runs_for=500)
    assert job.go(polling=polling, conditional_requests=conditional).ok
    rounds = job.logged(ROUND)
    assert len(rounds) == len(job.logged("^round ")), "no round in another form"
    assert [int(match[1]) for match in rounds] == list(range(len(rounds)))
    reads = [asked.at for asked in github.gets("jobs", 1001)]
    assert [float(match[5]) for match in rounds] == reads, "one line for each look, with its time"
    for (this, now), (_, then) in pairwise(zip(rounds, reads, strict=True)):
        assert float(this[6]) == then - now, "the next look comes when the line says"
    queued = [match for match, now in zip(rounds, reads, strict=True) if now < 400]
    assert {(match[3], match[4]) for match in queued} == {("queued", "none")}
    running = [match for match, now in zip(rounds, reads, strict=True) if 400 <= now < 900]
    assert {(match[3], match[4]) for match in running} == {("in_progress", "runner-1")}


def test_r121_rounds_are_numbered_for_each_child(github, job):
    github.plan(**NEVER)
    job.go(runners=TWO)
    for child in (1001, 1002):
        numbers = [int(match[1]) for match in job.logged(rf"^round (\d+), child {child}: ")]
        assert numbers == list(range(len(numbers)))
        assert len(numbers) > 1


@ends
def test_r122_the_log_says_that_polling_has_finished(case, job):
    result = ended(case, job)
    link = result.message[result.message.index("View worker job logs here: ") :]
    if result.ok:
        assert job.lines[-1] == f"success; polling has finished: {result.message}"
        return
    cleanup = re.search(r"; cleanup of 1001: (?:un)?confirmed", result.message)
    told = cleanup[0] if cleanup else ""
    assert bool(cleanup) == (result.kind not in ("worker_failed", "queue_exhausted"))
    assert job.lines[-1] == f"{result.kind}{told}; polling has finished. {link}"
    said = result.message.removesuffix(f"{told}. {link}")
    assert job.lines.count(f"{result.kind}: {said}") == 1, "what was wrong was told when it was met"
    assert said not in job.lines[-1]


def test_r122_the_last_round_of_a_child_says_that_polling_has_finished(job):
    assert job.go().ok
    assert job.logged("^round ")[-1].string.endswith("polling has finished")
    assert len(job.logged("^round .*polling has finished")) == 1


@pytest.mark.parametrize(
    "plan", [{}, {"cancel_after": 31}, {"cancel_after": None}, {"runner_after_cancel": 7, "cancel_after": 9}], ids=str
)
@pytest.mark.parametrize("lag", [{}, {"run_lag": 12}, {"conclusion_lag": 12}], ids=str)
def test_r123_every_look_of_a_confirmation_logs_both_states_and_the_runner(plan, lag, github, job):
    github.plan_all(**NEVER, **plan, **lag)
    job.go(runners=ONE)
    asked = github.cancels(1001)[0]
    # What a cleanup after it reads is no confirmation.
    looks = [read.at for read in github.gets("jobs", 1001) if read.number > asked.number]
    lines = job.logged(r"^cancelling child 1001, look (\d+): run (\S+), job (\S+), runner (\S+)$")
    assert [int(match[1]) for match in lines] == list(range(1, len(looks) + 1))
    assert len(lines) == len(job.logged("^cancelling child"))
    assert lines[0][2].startswith("queued")
    if "runner_after_cancel" in plan:
        assert lines[-1][4] == "runner-1"
    elif plan.get("cancel_after", 3):
        assert (lines[-1][2], lines[-1][3], lines[-1][4]) == ("completed/cancelled", "completed/cancelled", "none")
    else:
        assert (lines[-1][2], lines[-1][3], lines[-1][4]) == ("queued", "queued", "none")
    assert all(later - earlier == 5 for earlier, later in pairwise(looks))


# -- R124 to R126: the links ---------------------------------------------------------------------------------------


@ends
def test_r124_every_end_leads_to_the_logs_of_the_worker_job(case, github, job):
    result = ended(case, job)
    last = github.children[-1]
    link = f"{LINK}{last.run_id}/job/{last.job_id}"
    assert link in result.message
    assert link in job.lines[-1]
    assert f"[View worker job logs here](https://github.com/o/r/actions/runs/{last.run_id}/job/{last.job_id})" in (
        job.files.summary()
    )


@pytest.mark.parametrize("plan", [NEVER, FOR_EVER, {**NEVER, "cancel_after": None}], ids=str)
def test_r124_the_post_step_leads_to_the_logs_of_the_worker_job_too(plan, github, clock, job):
    github.plan_all(**plan)
    clock.interrupt(100)
    first = job.go()
    assert f"{LINK}1001/job/10010" in first.message, "the main step knew the job already"
    before = len(job.lines)
    result = job.post()
    assert f"{LINK}1001/job/10010" in result.message
    assert any(f"{LINK}1001/job/10010" in line for line in job.lines[before:])


@ends
def test_r125_the_summary_links_the_artifacts_of_the_run_separately(case, github, job):
    ended(case, job)
    run = f"https://github.com/o/r/actions/runs/{github.children[-1].run_id}"
    assert f"[Artifacts of the run]({run}#artifacts)" in job.files.summary()


@pytest.mark.parametrize("url", [None, "", 7, "https://evil.example/job", "javascript:alert(1)", ...], ids=str)
def test_r126_without_a_job_url_of_this_repository_the_link_is_built_from_the_job_id(url, github, job):
    github.drift(None, 0, job={"html_url": url})
    result = job.go()
    assert result.message.endswith(f"{LINK}1001/job/10010")
    assert "fallback" not in result.message
    for place in ("\n".join(job.lines), job.files.summary(), result.message):
        assert "evil" not in place
        assert "javascript" not in place


@pytest.mark.parametrize("case", ["ambiguous", "never visible", "no jobs"])
def test_r126_with_neither_url_nor_id_the_link_of_the_run_is_labelled_as_a_fallback(case, github, job):
    if case == "ambiguous":
        github.fail("dispatch", error="reset", done=True)
    else:
        github.plan_all(**NEVER, **({"visible_after": 1e6} if case == "never visible" else {"jobs_after": 1e6}))
    result = job.go()
    label = "(link to the run: its job is not known)"
    assert f"{LINK}1001 {label}" in result.message
    assert f"[View worker job logs here](https://github.com/o/r/actions/runs/1001) {label}" in job.files.summary()


@pytest.mark.parametrize("server", ["https://ghe.example.com", "https://ghe.example.com/"])
def test_r124_links_lead_to_the_server_of_the_job(server, github, job):
    job.env["GITHUB_SERVER_URL"] = server
    result = job.go()  # what the API says leads elsewhere
    assert "https://ghe.example.com/o/r/actions/runs/1001/job/10010" in result.message
    assert "(https://ghe.example.com/o/r/actions/runs/1001#artifacts)" in job.files.summary()


@pytest.mark.parametrize(
    ("api", "server"),
    [
        ("https://ghe.example.com/api/v3", "https://ghe.example.com"),
        ("https://api.octo.ghe.com", "https://octo.ghe.com"),
        ("https://api.github.com", "https://github.com"),
        ("http://127.0.0.1:8080", "https://other.example"),  # it does not tell its server, so the API's links are taken
    ],
)
@pytest.mark.parametrize("without", ["nothing", "job url", "any url"])
def test_r126_without_the_server_links_lead_to_that_of_the_api(api, server, without, github, job):
    del job.env["GITHUB_SERVER_URL"]
    job.env["GITHUB_API_URL"] = api
    page = f"{server}/o/r/actions/runs/1001"
    job_page = f"{page}/job/10010" if without == "nothing" else None
    github.drift(None, 0, run={"html_url": None if without == "any url" else page}, job={"html_url": job_page})
    result = job.go()
    page = page.replace("other.example", "github.com") if without == "any url" else page
    assert f"View worker job logs here: {page}/job/10010" in result.message
    assert "/job/10010)" in job.files.summary()


# -- R127: the summary ---------------------------------------------------------------------------------------------


def rows(summary, heading) -> list[list[str]]:
    """Give the cells of the table whose head has this cell."""
    lines = summary.split("\n")
    start = next(number for number, line in enumerate(lines) if line.startswith("|") and f"| {heading} |" in line)
    body = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        body.append([cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]])
    assert all(len(row) == len(re.split(r"(?<!\\)\|", lines[start])[1:-1]) for row in body)
    return body


def test_r127_the_summary_has_candidates_waits_links_and_outcomes(github, job):
    github.plan(**NEVER)
    github.plan(runner_after=75, runs_for=300)
    assert job.go(queue_timeout_minutes="5").ok
    text = job.files.summary()
    assert "Runner: success" in text
    candidates = rows(text, "Candidate")
    assert [row[1] for row in candidates] == ["linux-amd64-cpu16", "linux-amd64-cpu8", "linux-amd64-cpu32"]
    assert [row[2] for row in candidates] == [GROUP] * 3
    assert [row[3] for row in candidates] == ["5 min"] * 3
    assert [row[4] for row in candidates] == ["", "", "not asked"]
    first, second = rows(text, "Outcome")
    assert first[1:5] == [
        "linux-amd64-cpu16",
        "5 min",
        "",
        "no runner in time, cancelled",
    ]  # until it was given up, not until that was certain
    assert second[1:5] == ["linux-amd64-cpu8", "1 min", "5 min", "success"]
    for row, run in ((first, 1001), (second, 1002)):
        assert row[5] == f"[{run}](https://github.com/o/r/actions/runs/{run})"
    assert "/actions/runs/1002/job/10020)" in text


@ends
def test_r127_the_summary_has_the_primary_error_and_the_state_of_the_cleanup(case, job):
    result = ended(case, job)
    text = html.unescape(job.files.summary().replace("\\", ""))
    if result.ok:
        assert "Error" not in text
        assert "Cleanup" not in text
        return
    assert f"Runner: failed ({result.kind})" in text
    assert "**Error:** " + result.message[:60] in text
    if result.kind in ("worker_failed", "queue_exhausted"):
        assert "Cleanup" not in text
    else:
        state = "unconfirmed" if result.kind == "cancel_unconfirmed" else "confirmed"
        assert f"**Cleanup:** {state}" in text


def test_r127_a_rewait_is_marked(github, job):
    github.plan_all(**NEVER)
    job.go(queue_policy="extended", queue_timeout_minutes="1")
    assert rows(job.files.summary(), "Candidate")[-1][1:] == ["linux-amd64-cpu32", GROUP, "1 h", "re-wait"]


def test_r127_a_signal_is_reported_in_the_summary(github, clock, job):
    github.plan_all(**NEVER)
    clock.interrupt(100)
    job.go()
    assert "parent_cancelled" in job.files.summary().replace("\\", "")
    job.post()
    assert "Runner: cleanup" in job.files.summary()
    assert "confirmed" in job.files.summary()


# -- R128: nothing of what the worker says -------------------------------------------------------------------------


def test_r128_worker_output_is_not_read_and_not_copied(github, job):
    steps = [{"name": "SAID-BY-A-STEP", "number": 1, "status": "completed", "conclusion": "failure"}]
    github.plan_all(conclusion="failure")
    github.drift(None, 0, job={"steps": steps, "output": "SAID-BY-THE-JOB"}, run={"name": "SAID-BY-THE-RUN"})
    result = job.go()
    assert result.kind == "worker_failed"
    assert "SAID-BY" not in job.everything(result)
    assert {asked.endpoint for asked in github.requests} <= {"parent", "ref", "commit", "dispatch", "run", "jobs"}


# -- texts from outside --------------------------------------------------------------------------------------------

HOSTILE = {
    "command": "::error::boo",
    "lines": "a\n::error title=x::boo\r\n::set-output name=run-id::9\u2028::debug::x\x85::warning::y",
    "old command": "a ##[error]boo ##[add-mask]9 ##vso[x]",
    "colours": "\x1b[31mred\x1b]0;title\x07\x9b1m",
    "markdown": "**bold** [x](https://evil.example) ![i](https://evil.example/i.png) # h `c` ~~s~~ @team $x$",
    "html": "<script>alert(1)</script><img src=x onerror=y><!-- &lt;b&gt; -->",
    "table": "a | b | c |\n| --- | --- |",
    "backslash": "\\| \\[x](https://evil.example) \\\\<b>",
    "invisible": "a\u202eb\u200bc\ufeffd\ud800e\x00f",
    "long": "x" * 100_000,
    "long lines": "x\n" * 50_000,
    "heredoc": "a\nrun-id<<EOF\n9\nEOF\nrun-id=9",
}
hostile = pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())


def message(text) -> dict[str, object]:
    return {"status": 400, "body": {"message": text, "errors": [text]}}


PLACES = {
    "title": lambda g, t: g.drift(None, 60, run={"display_title": t}),
    "title from the start": lambda g, t: g.drift(None, 0, run={"display_title": t}),
    "event": lambda g, t: g.drift(None, 60, run={"event": t, "path": t, "head_sha": t}),
    "run status": lambda g, t: g.drift(None, 30, run={"status": t, "conclusion": t}),
    "job status": lambda g, t: g.drift(None, 30, job={"status": t, "conclusion": t}),
    "conclusions": lambda g, t: g.drift(None, 81, run={"conclusion": t}, job={"conclusion": t}),
    "runner": lambda g, t: g.drift(None, 30, job={"runner_name": t, "runner_group_name": t}),
    "job name": lambda g, t: g.drift(None, 30, job={"name": t}),
    "job names": lambda g, t: (g.plan(jobs=3), g.drift(None, 30, job={"name": t})),
    "job url": lambda g, t: g.drift(None, 0, job={"html_url": f"https://github.com/{t}"}),
    "run url": lambda g, t: g.drift(None, 0, run={"html_url": f"https://github.com/{t}"}),
    "dispatch url": lambda g, t: g.fail(
        "dispatch", done=True, status=200, body={"workflow_run_id": 1001, "html_url": f"https://github.com/{t}"}
    ),
    "parent status": lambda g, t: g.parent(100, status=t),
    "parent conclusion": lambda g, t: g.parent(100, status="completed", conclusion=t),
    "parent from the start": lambda g, t: g.parent(0, status=t),
    "error of the jobs": lambda g, t: g.fail("jobs", skip=1, **message(t)),
    "error of the dispatch": lambda g, t: g.fail("dispatch", **{**message(t), "status": 422}),
    "lost dispatch": lambda g, t: g.fail("dispatch", done=True, error=t),
    "error of the source": lambda g, t: g.fail("ref", **message(t)),
    "source": lambda g, t: g.fail("ref", skip=1, status=200, body={"object": {"sha": t}}),
    "definition": lambda g, t: (g.never(), g.fail("commit", skip=1, status=200, body={"sha": t})),
    "first definition": lambda g, t: g.fail("commit", status=200, body={"sha": t}),
    "transport": lambda g, t: g.fail("jobs", times=3, skip=1, error=t),
    "request id": lambda g, t: g.fail("jobs", skip=1, status=400, headers={"X-GitHub-Request-Id": t}),
    "rate limit": lambda g, t: g.fail(
        "jobs", skip=1, times=3, status=429, headers={"Retry-After": t}, body={"message": t}
    ),
    "cancel": lambda g, t: (g.never(), g.fail("cancel", times=None, **{**message(t), "status": 409})),
    "not json": lambda g, t: g.fail("run", skip=1, times=3, status=200, body=t.encode("utf-8", "surrogatepass")),
}
places = pytest.mark.parametrize("place", PLACES.values(), ids=PLACES.keys())


def has_no_control_characters(text) -> None:
    assert not [c for c in text if unicodedata.category(c)[0] == "C" or c in "\u2028\u2029"], text[:500]
    assert len(text) < 5000


def is_harmless_in_a_log(lines) -> None:
    for line in lines:
        has_no_control_characters(line)
        assert not line.lstrip().startswith("::"), line
        assert "##[" not in line, f"the runner takes this for a command anywhere in a line: {line}"
        assert len(line) <= 2100


def is_harmless_in_a_summary(text) -> None:
    assert not [c for c in text if unicodedata.category(c)[0] == "C" and c != "\n"]
    assert "<" not in text
    assert "\u2028" not in text
    plain = re.sub(r"\\[\\`*_{}\[\]()#+!|~@$.-]", "", text)  # what is escaped is text
    for target in re.findall(r"\]\(([^)]*)\)?", plain):
        assert re.fullmatch(r"https://github\.com/[A-Za-z0-9._~:/?#=&%-]+", target), target
    assert "![" not in plain
    assert "`" not in plain
    assert "~~" not in plain
    assert "@" not in plain
    assert set(re.findall(r"\*\*(.*?)\*\*", plain)) <= {"Error:", "Cleanup:"}
    assert all(re.match(r"#{3,4} (Runner: |Candidates$)", line) for line in plain.split("\n") if line.startswith("#"))
    for heading in ("Candidate", "Outcome"):
        if f"| {heading} |" in text:
            rows(text, heading)  # each row has as many cells as the head
    assert len(text) < 20_000


@places
@hostile
def test_texts_from_the_api_are_harmless_in_log_summary_and_outputs(place, text, github, clock, job):
    github.allow_odd = True
    place(github, text)
    result = job.go(runners=TWO, queue_timeout_seconds="100", timeline="")
    is_harmless_in_a_log(job.lines)
    has_no_control_characters(result.message)
    is_harmless_in_a_summary(job.files.summary())
    outputs = job.files.output()
    assert outputs == dict(result.outputs)
    assert set(outputs) == NAMES
    assert outputs["run-id"] in ("", *(str(child.run_id) for child in github.children))
    assert re.fullmatch(r"(https://github\.com/[!-~]{1,2000})?", outputs["run-url"])
    assert outputs["attempts"] == str(len(github.dispatches()))
    has_no_control_characters("".join(outputs.values()))


@hostile
def test_texts_from_the_api_are_harmless_in_the_timeline(text, github, job, tmp_path):
    github.drift(None, 60, run={"display_title": text})
    github.drift(None, 30, job={"runner_name": text})
    path = tmp_path / "timeline.json"
    job.go(timeline=str(path))
    written = path.read_text()
    assert written.count("\n") == 1
    assert written.isascii()
    for event in json.loads(written)["events"]:
        for value in event.values():
            assert len(str(value)) < 2000
            has_no_control_characters(str(value))


INPUTS = [
    "workflow",
    "workflow-ref",
    "source-ref",
    "source-sha",
    "runner-type",
    "runners",
    "queue-policy",
    "queue-timeout-minutes",
    "queue-timeout-seconds",
    "execution-timeout-minutes",
    "source-policy",
    "workload",
    "workloads",
    "max-parallel",
    "pools",
    "history",
    "conditional-requests",
    "polling",
    "force-cancel",
]


@pytest.mark.parametrize("name", INPUTS)
@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_texts_of_inputs_are_harmless_where_they_are_refused(name, text, github, job):
    result = job.go(**{name: text})
    assert result.kind == "config"
    assert name in result.message
    is_harmless_in_a_log(job.lines)
    has_no_control_characters(result.message.replace("\n  hint: ", ""))
    is_harmless_in_a_summary(job.files.summary())
    assert not github.requests


# -- the token -----------------------------------------------------------------------------------------------------


def token_is_nowhere(job, *results) -> None:
    """Not whole, not with backslashes for Markdown, and no beginning of it that is longer than its kind."""
    everything = job.everything(*results).replace("\\", "")
    assert job.github.token not in everything
    assert job.github.token[:12] not in everything, everything[max(0, everything.find(job.github.token[:12]) - 80) :][
        :200
    ]


PADS = [0, 40, 55, 75, 90, 110, 250, 290, 1990]  # so that wherever a text is cut, the token stands across it


@places
def test_the_token_is_nowhere_even_when_the_api_says_it(place, github, clock, job):
    github.allow_odd = True
    place(github, f"x {github.token} y")
    result = job.go(runners=TWO, queue_timeout_seconds="100")
    token_is_nowhere(job, result)


@pytest.mark.parametrize("pad", PADS)
@pytest.mark.parametrize(
    "place", ["title", "run status", "job status", "runner", "job name", "error of the jobs", "request id", "transport"]
)
def test_the_token_is_nowhere_where_a_text_is_cut(pad, place, github, job):
    github.allow_odd = True
    PLACES[place](github, "x" * pad + github.token)
    token_is_nowhere(job, job.go(runners=TWO, queue_timeout_seconds="100"))


@pytest.mark.parametrize("name", INPUTS)
def test_the_token_is_nowhere_when_it_is_given_as_another_input(name, github, job):
    result = job.go(**{name: github.token})
    token_is_nowhere(job, result)
    assert result.kind == "config"
    assert f"{name}: the token is in it" in result.message
    assert not github.requests


@pytest.mark.parametrize("name", ["{}", "x-{}", "{}-x"])
def test_the_token_is_nowhere_when_it_is_given_as_the_name_of_an_input(name, github, job):
    result = job.go(**{name.format(github.token): "x"})
    token_is_nowhere(job, result)
    assert result.kind == "config"
    assert github.token.replace("_", "-") not in result.message
    assert "the name of an input holds the token" in result.message
    assert not github.requests


@pytest.mark.parametrize("given", ["token", "GITHUB_TOKEN"])
@pytest.mark.parametrize("wrong", ["a b", "a\nb", "töken", "a\x00b"])
def test_a_token_that_is_none_is_not_shown(given, wrong, github, job):
    secret = wrong + "SECRET"
    if given == "token":
        del job.env["GITHUB_TOKEN"]
        result = job.go(token=secret)
    else:
        job.env["GITHUB_TOKEN"] = secret
        result = job.go()
    assert result.kind == "config"
    assert given in result.message
    assert "SECRET" not in job.everything(result)
    assert not github.requests


def test_the_token_as_an_input_is_used_and_not_shown(github, clock, job):
    token = job.env.pop("GITHUB_TOKEN")
    github.plan_all(**NEVER)
    github.drift(None, 60, job={"runner_name": token})
    clock.interrupt(65)
    result = job.go(token=token)
    token_is_nowhere(job, result)
    assert result.kind == "parent_cancelled"


@pytest.mark.parametrize("place", ["run status", "error of the cancellation", "transport", "search"])
@pytest.mark.parametrize("pad", PADS)
def test_the_token_is_nowhere_after_the_post_step(place, pad, github, clock, job):
    text = "x" * pad + github.token
    github.plan_all(**NEVER, cancel_after=None)
    clock.interrupt(50)
    first = job.go()
    if place == "run status":
        github.drift(1, 50, run={"status": text, "conclusion": text})
    elif place == "search":
        job.files.state()
        Path(job.env["GITHUB_STATE"]).write_text(f"run-id=\nrequest-id=lost\nworkflow={github.workflow}\n")
        github.fail("runs", times=None, status=400, body={"message": text})
    else:
        fault = {"error": text} if place == "transport" else message(text)
        github.fail("cancel", times=None, **fault)
    result = job.post()
    assert result.kind == "cancel_unconfirmed"
    token_is_nowhere(job, first, result)


def test_the_token_is_nowhere_in_the_timeline(github, job, tmp_path):
    path = tmp_path / "timeline.json"
    github.drift(None, 30, job={"runner_name": "x" * 280 + github.token})
    github.drift(None, 60, run={"display_title": github.token})
    token_is_nowhere(job, job.go(timeline=str(path)))
    assert github.token[:12] not in path.read_text()


# -- files that cannot be written ----------------------------------------------------------------------------------


def unwritable(kind, tmp_path) -> str:
    if kind == "a directory":
        return str(tmp_path)
    return str(tmp_path / "no" / "file")


KINDS = ["a directory", "missing"]


@pytest.mark.parametrize("kind", KINDS)
def test_r114_without_a_place_for_the_state_nothing_is_dispatched(kind, github, job, tmp_path):
    job.env["GITHUB_STATE"] = unwritable(kind, tmp_path)
    result = job.go()
    assert (result.ok, result.kind) == (False, "config")
    assert "GITHUB_STATE" in result.message
    assert not github.requests
    assert job.files.output()["attempts"] == "0"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("conclusion", ["success", "failure"])
def test_r120_a_summary_that_cannot_be_written_is_a_warning(kind, conclusion, github, job, tmp_path):
    job.env["GITHUB_STEP_SUMMARY"] = unwritable(kind, tmp_path)
    github.plan_all(conclusion=conclusion)
    result = job.go()
    assert result.kind == ("" if conclusion == "success" else "worker_failed")
    assert job.files.output() == dict(result.outputs)
    assert job.logged("^warning: GITHUB_STEP_SUMMARY: ")


@pytest.mark.parametrize("variable", ["GITHUB_OUTPUT", "GITHUB_STATE", "GITHUB_STEP_SUMMARY"])
def test_r120_a_file_that_goes_away_later_hides_no_result_and_leaves_no_child(variable, github, clock, job):
    def spoil() -> None:
        path = Path(job.env[variable])
        path.unlink()
        path.mkdir()

    clock.at(50, spoil)
    github.plan(**NEVER)
    result = job.go(runners=TWO)
    assert result.ok
    assert len(github.dispatches()) == 2
    assert job.logged(f"^warning: {variable}: ")
    github.assert_all_ended()


@pytest.mark.parametrize("kind", KINDS)
def test_a_timeline_that_cannot_be_written_is_a_warning_and_is_still_an_output(kind, job, tmp_path):
    result = job.go(timeline=unwritable(kind, tmp_path))
    assert result.ok
    assert job.logged("^warning: timeline: ")
    assert json.loads(job.files.output()["timeline"])["version"] == 1


@pytest.mark.parametrize("missing", ["GITHUB_OUTPUT", "GITHUB_STATE", "GITHUB_STEP_SUMMARY"])
def test_r120_without_a_variable_its_file_is_not_needed(missing, github, job):
    del job.env[missing]
    result = job.go()
    assert result.ok
    assert result.outputs["run-id"] == "1001"
    assert not job.logged("warning")


@pytest.mark.parametrize(
    "error", [BrokenPipeError(32, "Broken pipe"), OSError(28, "No space left"), ValueError("closed")]
)
def test_r112_a_log_that_cannot_be_written_leaves_no_child_behind(error, github, job, inputs, clock):
    def log(text) -> None:
        if clock.elapsed > 60:
            raise error

    result = coordinator.run(inputs, job.env, github, clock, log)
    assert result.ok
    github.assert_all_ended()
