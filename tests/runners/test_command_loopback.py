"""``sgpu runner ...`` as processes of their own, with a GitHub on this machine in place of the real one."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import sysconfig
import threading
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

CLOSED = "import os, sys; os.close(1); os.execv(sys.argv[1], sys.argv[1:])"  # a shell would drop names with dashes
SGPU = [sys.executable, "-m", "pytest_sgpu.cli", "runner"]
OTHER = "b" * 40
PATIENCE = 60.0  # seconds; only a failure waits so long
STATE = {"STATE_request-id": "request-1", "STATE_workflow": "runner-worker.yml"}
HISTORY = ["plan", "--runner-type", "cpu", "--workflow", "runner-worker.yml", "--history", "--explain"]


class Shell:
    """Starts commands against one server."""

    def __init__(self, fake, server, folder):
        self.fake, self.server, self.github, self.folder = fake, server, server.github, folder
        self.env = server.env(folder)
        self.files = fake.Files(self.env)

    def start(self, *words, env=None, stdout=subprocess.PIPE, before=()):
        """Start one; blank values in ``env`` take variables out."""
        known = {name: text for name, text in (os.environ | self.env | (env or {})).items() if text}
        return subprocess.Popen(
            [*before, *SGPU, *words],
            cwd=self.folder,
            env=known,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *words, env=None, **more):
        """Start one and wait; gives the code, and both outputs."""
        process = self.start(*words, env=env, **more)
        try:
            output, errors = process.communicate(timeout=PATIENCE)
        finally:
            process.kill()
        output = output or ""
        assert "Traceback" not in output + errors, output + errors
        assert "Exception ignored" not in errors, errors
        assert self.github.token not in output + errors
        return process.returncode, output, errors

    def child(self, **plan):
        """Dispatch a child that nobody knows of but the server."""
        self.github.plan(**plan)
        return self.github.start_child(self.fake.child_inputs(self.github))

    def guard(self, child, **more):
        """Give the words of the guard in that child, and its environment."""
        inputs = self.fake.guard_inputs(child) | {name.replace("_", "-"): text for name, text in more.items()}
        words = [word for name, text in inputs.items() for word in (f"--{name}", text)]
        return ["guard", *words], {"GITHUB_RUN_ID": str(child.run_id)}

    def acquire(self, **more):
        """Give the words of the coordinator."""
        inputs = self.fake.default_inputs(self.github) | {name.replace("_", "-"): text for name, text in more.items()}
        return ["acquire", *(word for name, text in inputs.items() for word in (f"--{name}", text))]


@pytest.fixture
def shell(fake, stand_in, tmp_path):
    made = Shell(fake, stand_in(), tmp_path)
    yield made
    made.github.check()


def until(condition, what):
    """Come back when it holds."""
    pause, end = threading.Event(), time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, what
        pause.wait(0.01)


# -- guard -----------------------------------------------------------------------------------------------


def test_guard(shell):
    words, env = shell.guard(shell.child())
    code, output, errors = shell.run(*words, env=env)
    assert (code, errors) == (0, "")
    assert output.splitlines()[-1].startswith("sgpu runner guard: ok")
    assert [asked.method for asked in shell.github.requests] == ["GET", "GET"]


def test_guard_of_a_stale_source(shell):
    words, env = shell.guard(shell.child())
    shell.github.move(shell.github.source_ref, OTHER)
    code, output, _ = shell.run(*words, env=env)
    assert code == 1
    assert "sgpu runner guard: failed (source_changed)" in output
    assert "::error" not in output, "only in a step of GitHub"


def test_guard_in_a_step_annotates(shell):
    words, env = shell.guard(shell.child())
    shell.github.parent_cancelled()
    code, output, _ = shell.run(*words, env=env | {"GITHUB_ACTIONS": "true"})
    assert code == 1
    assert len(re.findall("^::error title=sgpu runner guard%3A parent_not_active::", output, re.MULTILINE)) == 1


def test_guard_with_a_token_that_is_refused(shell):
    words, env = shell.guard(shell.child())
    code, output, errors = shell.run(*words, env=env | {"GITHUB_TOKEN": "ghs_anotherToken"})
    assert code == 1
    assert "failed (auth)" in output
    assert "ghs_anotherToken" not in output + errors


# -- cleanup ---------------------------------------------------------------------------------------------


def test_cleanup_without_state_asks_nothing(shell):
    code, output, errors = shell.run("cleanup", env={"GITHUB_TOKEN": ""})
    assert (code, errors) == (0, "")
    assert "nothing to clean up" in output
    assert shell.github.requests == []


def test_cleanup_of_a_run(shell):
    child = shell.child(runner_after=None, cancel_after=0)
    code, output, errors = shell.run("cleanup", env=STATE | {"STATE_run-id": str(child.run_id)})
    assert (code, errors) == (0, "")
    assert f"cleanup of run {child.run_id}: confirmed" in output
    assert len(shell.github.cancels(child.run_id)) == 1
    assert "confirmed" in shell.files.summary()
    shell.github.assert_all_ended()


def test_cleanup_of_a_run_that_is_known_by_its_name_alone(shell):
    child = shell.child(runner_after=None, cancel_after=0)
    code, output, _ = shell.run("cleanup", env=STATE)
    assert code == 0
    assert f"cleanup of run {child.run_id}: confirmed" in output
    shell.github.assert_all_ended()


@pytest.mark.parametrize("known", ["run-id", "request-id", "underscores"])
def test_cleanup_of_what_options_or_a_shell_name(known, shell):
    child = shell.child(runner_after=None, cancel_after=0)
    words, env = ["--run-id", str(child.run_id)], {}
    if known == "request-id":
        words = ["--request-id", "request-1", "--workflow", "runner-worker.yml"]
    elif known == "underscores":
        words, env = [], {"STATE_run_id": str(child.run_id), "STATE_request_id": "request-1"}
    code, output, errors = shell.run("cleanup", *words, env=env)
    assert (code, errors) == (0, "")
    assert f"cleanup of run {child.run_id}: confirmed" in output
    shell.github.assert_all_ended()


def test_cleanup_of_a_run_that_has_ended(shell):
    child = shell.child(runner_after=0, runs_for=0)
    code, output, _ = shell.run("cleanup", env=STATE | {"STATE_run-id": str(child.run_id)})
    assert (code, child.conclusion()) == (0, "success")
    assert "confirmed" in output


def test_cleanup_with_a_token_that_is_refused_says_what_it_leaves(shell):
    child = shell.child(runner_after=None)
    more = {"STATE_run-id": str(child.run_id), "GITHUB_TOKEN": "ghs_anotherToken"}
    code, output, errors = shell.run("cleanup", env=STATE | more)
    assert code == 1
    assert f"cleanup of run {child.run_id}: unconfirmed" in output
    assert "ghs_anotherToken" not in output + errors


# -- plan ------------------------------------------------------------------------------------------------


def test_plan_with_history(shell):
    shell.github.past("linux-amd64-cpu8", 120.0)
    shell.github.past("linux-amd64-cpu8", 240.0, ago=7200)
    shell.github.past("linux-amd64-cpu16", None, ago=900)
    code, output, errors = shell.run(*HISTORY)
    assert (code, errors) == (0, "")
    assert re.search(r"linux-amd64-cpu8\n +2 waits, p50 2 min, p90 4 min", output)
    assert re.search(r"linux-amd64-cpu16\n +none got a runner", output)
    # The pool that nobody got a runner from lately is asked last.
    assert re.findall(r"^ +\d+  .*(linux-amd64-cpu\w+)$", output, re.MULTILINE)[0] != "linux-amd64-cpu16"
    assert all(asked.method == "GET" for asked in shell.github.requests)
    assert len(shell.github.requests) == 4


def test_plan_with_history_that_cannot_be_read(shell):
    shell.github.fail("runs", status=404, times=None)
    code, output, errors = shell.run(*HISTORY)
    assert (code, output) == (1, "")
    assert "past runs of runner-worker.yml cannot be read" in errors
    assert "actions: read" in errors


def test_plan_without_history_asks_nothing(shell):
    code, output, _ = shell.run(*HISTORY[:3], "--json", env={"GITHUB_TOKEN": "", "GITHUB_API_URL": ""})
    assert code == 0
    assert json.loads(output)["history"] is None
    assert shell.github.requests == []


# -- wrong usage and configuration -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "env", "text"),
    [
        (["acquire", "--runner-type", "tpu"], {}, "tpu"),
        (["acquire", "--token", "ghs_visible"], {}, "never an option"),
        (["cleanup"], {"GITHUB_TOKEN": "", "STATE_run-id": "7"}, "this child may still be active: 7"),
        (["guard"], {"GITHUB_API_URL": "http://api.example.org"}, "use https"),
        (["acquire"], {"GITHUB_API_URL": "https://user:pass@api.example.org"}, "GITHUB_API_URL"),
        (["acquire"], {"GITHUB_STATE": "/no/such/folder/state"}, "GITHUB_STATE"),
        (["acquire"], {"GITHUB_OUTPUT": "/no/such/folder/output"}, "GITHUB_OUTPUT"),
        (["plan", "--runner-type", "cpu", "--history"], {"GITHUB_TOKEN": ""}, "workflow"),
    ],
    ids=str,
)
def test_what_is_wrong_is_told_before_any_request(words, env, text, shell):
    more = shell.acquire()[1:] if words == ["acquire"] else []
    code, output, errors = shell.run(*words, *more, env=env)
    assert code == 4, output + errors
    assert text in output + errors
    assert "ghs_visible" not in output + errors
    assert "user:pass" not in output + errors
    assert shell.github.requests == []


# -- outputs that nobody takes ---------------------------------------------------------------------------


@pytest.fixture
def nobody():
    """Give the writing end of a pipe whose reader has left."""
    read, write = os.pipe()
    os.close(read)
    yield write
    os.close(write)


def test_a_reader_that_has_left_is_no_failure_of_the_guard(shell, nobody):
    words, env = shell.guard(shell.child())
    assert shell.run(*words, env=env, stdout=nobody) == (0, "", "")


def test_a_reader_that_has_left_keeps_no_cleanup_from_its_work(shell, nobody):
    child = shell.child(runner_after=None, cancel_after=0)
    assert shell.run("cleanup", env=STATE | {"STATE_run-id": str(child.run_id)}, stdout=nobody) == (0, "", "")
    shell.github.assert_all_ended()


def test_a_standard_output_that_is_closed_keeps_no_cleanup_from_its_work(shell):
    child = shell.child(runner_after=None, cancel_after=0)
    closed = [sys.executable, "-c", CLOSED]
    assert shell.run("cleanup", env=STATE | {"STATE_run-id": str(child.run_id)}, before=closed) == (0, "", "")
    shell.github.assert_all_ended()


# -- signals ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_r113_without_a_post_step_a_signal_ends_the_child_at_once(number, shell):
    shell.github.plan_all(runner_after=None, cancel_after=0)
    process = shell.start(*shell.acquire())  # GITHUB_STATE is set in a plain step too, where no post step comes
    until(lambda: shell.github.children, "a dispatch")
    process.send_signal(number)
    output, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130, output + errors
    assert errors == ""
    assert output.splitlines()[-2].startswith("sgpu runner cleanup: ok: cleanup of ")
    assert output.splitlines()[-1].startswith("sgpu runner acquire: failed (parent_cancelled)")
    assert shell.files.output()["attempts"] == "1"
    assert len(shell.github.dispatches()) == 1
    assert len(shell.github.cancels()) == 1
    assert "confirmed" in shell.files.summary()
    assert "its child is left to the cleanup" in output.splitlines()[-1]
    assert not any(shell.files.state().values()), "a later step would look for it again"
    shell.github.assert_all_ended()


def test_r116_a_cleanup_that_is_not_confirmed_keeps_the_state(shell):
    shell.github.plan_all(runner_after=None, cancel_after=0)
    shell.github.fail("cancel", status=403, times=None)
    process = shell.start(*shell.acquire())
    until(lambda: shell.files.state().get("run-id"), "a run id in the state")
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130, output + errors
    assert "unconfirmed" in output
    assert shell.files.state()["run-id"] == "1001"


def test_in_a_step_without_a_post_step_more_signals_change_nothing(shell):
    shell.github.plan_all(runner_after=None, cancel_after=0)
    shell.github.fail("cancel", takes=0.5)
    process = shell.start(*shell.acquire(), env={"GITHUB_ACTIONS": "true"})
    until(lambda: shell.files.state().get("run-id"), "a run id in the state")
    process.send_signal(signal.SIGINT)
    until(shell.github.cancels, "the cancellation")
    process.send_signal(signal.SIGTERM)
    output, errors = process.communicate(timeout=PATIENCE)
    assert (process.returncode, errors) == (130, ""), output
    assert "sgpu runner cleanup: ok: " in output
    shell.github.assert_all_ended()


def test_r113_with_a_post_step_a_signal_leaves_the_child_to_it(shell):
    shell.github.plan_all(runner_after=None, cancel_after=0)
    process = shell.start(*shell.acquire(), env={"SGPU_POST_STEP": "1"})
    until(lambda: shell.files.state().get("run-id"), "a run id in the state")
    process.send_signal(signal.SIGTERM)
    output, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130, output + errors
    assert shell.github.cancels() == []
    state = {f"STATE_{name}": text for name, text in shell.files.state().items()}
    code, output, _ = shell.run("cleanup", env=state)
    assert (code, "confirmed" in output) == (0, True)
    shell.github.assert_all_ended()


def test_the_step_of_the_how_to_ends_what_a_killed_step_left(shell):
    """The page's own script, in the shell of a step."""
    page = (ROOT / "docs" / "how-to" / "get-a-runner.md").read_text(encoding="utf-8")
    script = re.findall(r"^ +(test ! -s .* sgpu runner cleanup)$", page, re.MULTILINE)[0]
    shell.github.plan_all(runner_after=None, cancel_after=0)
    child = shell.folder / "child"
    env = shell.env | {"GITHUB_STATE": str(child), "RUNNER_TEMP": str(shell.folder), "GITHUB_ACTIONS": "true"}
    process = shell.start(*shell.acquire(), env=env)
    until(lambda: child.exists() and "run-id=1" in child.read_text(), "a run id in the state")
    process.kill()
    process.communicate(timeout=PATIENCE)
    assert shell.github.cancels() == []
    path = f"{sysconfig.get_path('scripts')}{os.pathsep}{os.environ['PATH']}"
    for _ in range(2):  # again, when there is nothing left, it does no harm
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
            env=os.environ | env | {"PATH": path},
            cwd=shell.folder,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, ""), done.stdout
        assert "sgpu runner cleanup: ok: " in done.stdout
        shell.github.assert_all_ended()
    child.unlink()
    assert subprocess.run(["bash", "-ec", script], env=os.environ | env, check=False).returncode == 0


def test_in_a_step_a_signal_does_not_stop_a_cleanup(shell):
    child = shell.child(runner_after=None, cancel_after=0)
    shell.github.fail("cancel", takes=0.5)
    env = STATE | {"STATE_run-id": str(child.run_id), "GITHUB_ACTIONS": "true"}
    process = shell.start("cleanup", env=env)
    until(lambda: shell.github.cancels(child.run_id), "the cancellation")
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGTERM)
    output, errors = process.communicate(timeout=PATIENCE)
    assert (process.returncode, errors) == (0, ""), output
    assert "confirmed" in output


def test_elsewhere_a_signal_stops_a_cleanup_which_says_what_it_leaves(shell):
    child = shell.child(runner_after=None, cancel_after=None)
    process = shell.start("cleanup", env=STATE | {"STATE_run-id": str(child.run_id)})
    until(lambda: shell.github.gets("run", child.run_id), "a look")
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=PATIENCE)
    assert (process.returncode, errors) == (1, ""), output
    assert f"cleanup of run {child.run_id}: unconfirmed" in output
