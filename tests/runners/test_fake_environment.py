"""What the fixtures give a job: inputs, variables, files; and the reader of these files."""

from __future__ import annotations

from pathlib import Path

import pytest


def test_the_variables_and_inputs_fit_the_repository(github, env, inputs, guard_env, guard_inputs):
    assert (env["GITHUB_REPOSITORY"], env["GITHUB_RUN_ID"], env["GITHUB_RUN_ATTEMPT"]) == ("o/r", "1", "1")
    assert env["GITHUB_TOKEN"] == github.token
    assert inputs["source-sha"] == github.sha(inputs["source-ref"])
    assert inputs["workflow"] == github.workflow
    assert guard_env["GITHUB_RUN_ID"] == "1001"
    assert guard_inputs["request-id"] == github.children[0].request_id
    assert set(guard_inputs) == {"request-id", "parent-run-id", "parent-run-attempt", "source-ref", "source-sha"}


def test_files_are_read_as_the_runner_reads_them(env, files):
    assert (files.output(), files.state(), files.summary()) == ({}, {}, "")
    Path(env["GITHUB_OUTPUT"]).write_bytes(b"a=1\nempty=\nb<<X-1\none\n\ntwo=2\nX-1\na=3=4<<5\n")
    Path(env["GITHUB_STATE"]).write_bytes(b"run-id=7\r\nnone<<E\nE\n")
    Path(env["GITHUB_STEP_SUMMARY"]).write_text("# done\n", encoding="utf-8")
    assert files.output() == {"a": "3=4<<5", "empty": "", "b": "one\n\ntwo=2"}
    assert files.state() == {"run-id": "7", "none": ""}
    assert files.summary() == "# done\n"


@pytest.mark.parametrize("text", ["nothing", "=1", "a<<", "a<<X\nb\n", "a<<X\nb\n X"])
def test_what_the_runner_would_refuse(fake, text):
    with pytest.raises(AssertionError):
        fake.entries(text)
