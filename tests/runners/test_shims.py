"""The actions as GitHub's runner starts them: node, a clean environment, signals, files; a GitHub on this machine.

The program has the real clock here, and looks at a child for the first time 15 s after its dispatch. So everything
starts at once, beside each other, before the first of the slow tests; each of them then looks at how its own ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import IO, TYPE_CHECKING

import pytest

from pytest_sgpu.runners.settings.inputs import COORDINATOR_INPUTS, GUARD_INPUTS

if TYPE_CHECKING:
    from tests.runners.fake import Files, StandIn

ACTIONS = Path(__file__).parents[2] / "ci" / "actions"
MAIN, POST = ACTIONS / "runner-fallback" / "main.js", ACTIONS / "runner-fallback" / "post.js"
GUARD = ACTIONS / "runner-guard" / "main.js"
NODE = shutil.which("node") or ""
OTHER = "b" * 40
PATIENCE = 70.0  # seconds; only a failure waits so long
PROMPT = 5.0  # seconds that a coordinator may take to end: GitHub sends SIGTERM after 7.5, SIGKILL after 10
TWO = json.dumps(
    [{"group": "nv-cpu-general", "labels": "linux-amd64-cpu16"}, {"group": "g 2", "labels": "linux-amd64-cpu8"}]
)
QUICK = {"runner-type": "cpu", "runners": TWO, "queue-timeout-seconds": "1", "execution-timeout-seconds": "120"}
NO_OUTPUTS = {"run-id": "", "run-url": "", "runner": "", "attempts": "0"}
CLOSED = "import os, sys; os.close(0); os.execv(sys.argv[1], sys.argv[1:])"  # a shell would drop names with dashes
LINK = "View worker job logs here"

pytestmark = [
    pytest.mark.skipif(not NODE, reason="there is no node"),
    pytest.mark.skipif(sys.version_info < (3, 11), reason="the actions need Python 3.11"),
]


def until(condition: Callable[[], object], what: str, patience: float = PATIENCE) -> None:
    """Come back when it holds."""
    pause, end = threading.Event(), time.monotonic() + patience
    while not condition():
        assert time.monotonic() < end, f"not within {patience:g} s: {what}"
        pause.wait(0.02)


def processes(group: int) -> dict[int, str]:
    """Give the command lines of a process group by their ids; what is dead and not yet buried is not in it."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            state, _, its_group = (folder / "stat").read_text().rpartition(")")[2].split()[:3]
            if int(its_group) == group and state not in "ZX":
                found[int(folder.name)] = (folder / "cmdline").read_text().replace("\0", " ")
    return found


@dataclass
class Step:
    """One step of a job: a process group, and the files that it was given."""

    process: subprocess.Popen[str]
    stream: IO[str]
    files: Files
    folder: Path
    token: str
    code: int = 0
    output: str = ""

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to node, as GitHub's runner does: to that process alone."""
        self.process.send_signal(number)

    def kill_the_tree(self) -> None:
        """End everything at once, without a word."""
        os.killpg(self.process.pid, signal.SIGKILL)

    def processes(self) -> dict[int, str]:
        """Give what of it is running."""
        return processes(self.process.pid)

    def end(self) -> Step:
        """Wait for its end, and look at what must hold whatever it did."""
        try:
            self.output, _ = self.process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            self.kill_the_tree()
            raise
        self.code = self.process.returncode
        until(lambda: not self.processes(), "every process of the step has ended", 10)
        assert "Traceback" not in self.output, self.output
        assert self.token not in self.output
        for path in self.folder.rglob("*"):
            assert path.is_dir() or self.token.encode() not in path.read_bytes(), f"the token is in {path}"
        return self

    @property
    def annotations(self) -> list[str]:
        """Give the errors that it put onto the page of the run."""
        return [line for line in self.output.splitlines() if line.startswith("::error")]


class Job:
    """A job on a runner that has node, Python, and nothing else."""

    def __init__(self, fake: ModuleType, folder: Path) -> None:
        self.server: StandIn = fake.StandIn().start()
        self.github = self.server.github
        self.folder = folder
        self.steps: list[Step] = []
        self._fake = fake
        self._path = folder / "bin"
        self._path.mkdir(parents=True)
        # That of the system, not of a virtual environment: a checkout has to do without anything installed.
        (self._path / "python3").symlink_to(os.path.realpath(getattr(sys, "_base_executable", sys.executable)))

    @property
    def inputs(self) -> dict[str, str]:
        """The inputs of the coordinator, quick ones."""
        return {**self._fake.default_inputs(self.github), **QUICK}

    @property
    def guard_inputs(self) -> dict[str, str]:
        """The inputs of the guard in a child that is just there."""
        child = self.github.start_child(self._fake.child_inputs(self.github))
        return dict(self._fake.guard_inputs(child))

    def start(
        self,
        shim: Path,
        inputs: Mapping[str, str],
        *,
        env: Mapping[str, str] | None = None,
        path: str = "",
        before: Sequence[str] = (),
    ) -> Step:
        """Start a step with all its inputs, blank ones too, and with files of its own."""
        folder = self.folder / f"step{len(list(self.folder.iterdir()))}"
        (empty := folder / "empty").mkdir(parents=True)
        given = self.server.env(folder)
        token = given.pop("GITHUB_TOKEN")
        every = dict.fromkeys(GUARD_INPUTS if shim == GUARD else COORDINATOR_INPUTS, "") | dict(inputs)
        given |= {f"INPUT_{name.upper()}": value for name, value in {**every, "token": token}.items()}
        given |= {"CI": "true", "GITHUB_ACTIONS": "true", "HOME": str(empty), "PATH": path or str(self._path)}
        given |= env or {}
        process = subprocess.Popen(
            [*before, NODE, str(shim)],
            cwd=empty,
            env=given,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            start_new_session=True,
        )
        assert process.stdout
        self.steps.append(Step(process, process.stdout, self._fake.Files(given), folder, token))
        return self.steps[-1]

    def close(self) -> None:
        """End what is left after a failure, and the server."""
        for step in self.steps:
            if step.process.poll() is None:
                step.kill_the_tree()
                step.process.communicate()
        self.server.close()

    def main(self, **changes: str) -> Step:
        """Start the coordinator."""
        return self.start(MAIN, self.inputs | {name.replace("_", "-"): text for name, text in changes.items()})

    def post(self, main: Step) -> Step:
        """Start its post step, with the state that it saved."""
        state = {f"STATE_{name}": value for name, value in main.files.state().items()}
        return self.start(POST, self.inputs, env=state)

    def guard(self, inputs: Mapping[str, str], attempt: str = "1", before: Sequence[str] = ()) -> Step:
        """Start the guard in the newest child."""
        env = {"GITHUB_RUN_ID": str(self.github.children[-1].run_id), "GITHUB_RUN_ATTEMPT": attempt}
        return self.start(GUARD, inputs, env=env, before=before).end()

    def known(self, step: Step) -> None:
        """Wait until the state has the run id."""
        until(lambda: step.files.state().get("run-id"), "the run id is in the state")


@dataclass
class Seen:
    """How a scenario ended: its job, its main step, its post step, and the seconds that the signal took."""

    job: Job
    main: Step
    post: Step
    took: float = 0.0
    commands: str = ""


# -- the scenarios ---------------------------------------------------------------------------------------


def ended(job: Job, main: Step, took: float = 0.0, commands: str = "") -> Seen:
    """Wait for main, then run post, as GitHub does whatever main did."""
    return Seen(job, main, job.post(main.end()).end(), took, commands)


def success(job: Job) -> Seen:
    job.github.plan_all(runner_after=2, runs_for=4)
    return ended(job, job.main(timeline=str(job.folder / "timeline.json")))


def product_failure(job: Job) -> Seen:
    job.github.plan_all(runner_after=2, runs_for=4, conclusion="failure")
    return ended(job, job.main())


def fallback(job: Job) -> Seen:
    job.github.plan(runner_after=None, cancel_after=0.5)
    job.github.plan(runner_after=1, runs_for=3)
    return ended(job, job.main())


def exhaustion(job: Job) -> Seen:
    job.github.plan_all(runner_after=None, cancel_after=0)
    return ended(job, job.main())


def cancelled(job: Job, main: Step) -> Seen:
    """Send SIGINT to main, look how long it goes on, and send signals to its post step too, which goes on as well."""
    commands = "\n".join(main.processes().values())
    began = time.monotonic()
    main.signal(signal.SIGINT)
    main.end()
    took = time.monotonic() - began
    post = job.post(main)
    until(lambda: len(post.processes()) > 1 or job.github.cancels(), "the post step is there")
    post.signal(signal.SIGINT)
    until(job.github.cancels, "the cancellation")
    post.signal(signal.SIGINT)
    post.signal(signal.SIGTERM)
    return Seen(job, main, post.end(), took, commands)


def cancelled_just_dispatched(job: Job) -> Seen:
    job.github.plan_all(runner_after=None, cancel_after=0.5)
    main = job.main(queue_timeout_seconds="600")
    job.known(main)
    return cancelled(job, main)


def cancelled_in_the_queue(job: Job) -> Seen:
    job.github.plan_all(runner_after=None, cancel_after=0.5)
    main = job.main(queue_timeout_seconds="600")
    until(lambda: job.github.gets("jobs"), "a look at the queue")
    return cancelled(job, main)


def cancelled_while_running(job: Job) -> Seen:
    job.github.plan_all(runner_after=1, runs_for=None, cancel_after=2)
    main = job.main()
    until(lambda: job.github.gets("jobs"), "a look at the runner")
    return cancelled(job, main)


def cancelled_in_the_dispatch(job: Job) -> Seen:
    """The dispatch was carried out, and its answer never comes."""
    job.github.plan_all(runner_after=None, cancel_after=0, listed_after=1)
    job.github.fail("dispatch", takes=3600)
    main = job.main()
    until(lambda: job.github.children, "the dispatch")
    return cancelled(job, main)


def several_workers(job: Job) -> Seen:
    job.github.plan_all(runner_after=None, cancel_after=0)
    job.github.max_live = 2
    main = job.main(workloads='[{"shard":1},{"shard":2},{"shard":3}]', max_parallel="2", queue_timeout_seconds="600")
    until(lambda: main.files.state().get("run-id-2"), "two run ids are in the state")
    return cancelled(job, main)


def killed_in_the_dispatch(job: Job) -> Seen:
    """The same, and everything is killed."""
    job.github.plan_all(runner_after=None, cancel_after=0, listed_after=2)
    job.github.fail("dispatch", takes=3600)
    main = job.main()
    until(lambda: job.github.children, "the dispatch")
    main.kill_the_tree()
    return ended(job, main)


def no_answer_to_the_dispatch(job: Job) -> Seen:
    """The connection is closed in place of the answer, and nobody cancels anything."""
    job.github.plan_all(runner_after=None, cancel_after=0)
    job.github.fail("dispatch", error="reset", done=True)
    return ended(job, job.main())


def source_moves_in_the_queue(job: Job) -> Seen:
    job.github.plan_all(runner_after=None, cancel_after=0)
    main = job.main(queue_timeout_seconds="600", polling="adaptive")
    job.known(main)
    job.github.move(job.github.source_ref, OTHER)
    return ended(job, main)


SCENARIOS: tuple[Callable[[Job], Seen], ...] = (
    fallback,
    exhaustion,
    success,
    product_failure,
    cancelled_in_the_queue,
    cancelled_while_running,
    source_moves_in_the_queue,
    cancelled_just_dispatched,
    several_workers,
    cancelled_in_the_dispatch,
    killed_in_the_dispatch,
    no_answer_to_the_dispatch,
)


@pytest.fixture(scope="module")
def outcomes(fake: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Future[Seen]]]:
    """Run all of them beside each other; give how each ended."""
    with contextlib.ExitStack() as stack, ThreadPoolExecutor(len(SCENARIOS)) as pool:

        def begin(scenario: Callable[[Job], Seen]) -> Future[Seen]:
            job = Job(fake, tmp_path_factory.mktemp(scenario.__name__))
            stack.callback(job.close)
            return pool.submit(scenario, job)

        found = {scenario.__name__: begin(scenario) for scenario in SCENARIOS}
        yield found
        for future in found.values():  # a server may not go away under a process that a failed test never waited for
            future.exception()


@pytest.fixture
def seen(request: pytest.FixtureRequest, outcomes: dict[str, Future[Seen]]) -> Seen:
    """Give the scenario that the test is named after, with what must hold in each of them."""
    found = outcomes[request.node.name.removeprefix("test_")].result()
    found.job.github.check()
    found.job.github.assert_all_ended()
    found.job.github.assert_no_dispatch_after_allocation()
    assert not found.main.processes()
    assert not found.post.processes()
    assert found.post.files.output() == {}
    return found


def page(run_id: str) -> str:
    return f"https://github.com/o/r/actions/runs/{run_id}"


def outputs(run_id: str, attempts: str, number: int = 1) -> dict[str, str]:
    """Give the outputs of an acquisition whose last dispatch asked that candidate."""
    runner = json.dumps(json.loads(TWO)[number - 1], separators=(",", ":"))
    return {"run-id": run_id, "run-url": page(run_id), "runner": runner, "attempts": attempts}


def assert_nothing_is_left(seen: Seen) -> None:
    """The state is blank, and post asks nothing and says so."""
    assert not any(seen.main.files.state().values())
    assert seen.post.code == 0
    assert "nothing to clean up" in seen.post.output
    assert seen.post.files.summary() == ""


def assert_post_ended_it(seen: Seen, run_id: str) -> None:
    """Post has cancelled that child and has seen its end; main had not."""
    github = seen.job.github
    assert seen.post.code == 0, seen.post.output
    assert [asked.run_id for asked in github.cancels()] == [int(run_id)]
    assert f"cleanup of run {run_id}: confirmed" in seen.post.output
    assert f"cleanup of run {run_id}: confirmed" in seen.post.files.summary()
    assert f"{LINK}: {page(run_id)}/job/{run_id}0" in seen.post.output
    assert seen.post.annotations == []


# -- how they ended --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_success(seen):
    github, main = seen.job.github, seen.main
    assert main.code == 0, main.output
    assert len(github.dispatches()) == 1
    assert github.cancels() == []
    written = main.files.output()
    timeline = json.loads(written.pop("timeline"))
    assert json.loads((seen.job.folder / "timeline.json").read_text(encoding="utf-8")) == timeline
    assert written == outputs("1001", "1")
    events = [event["event"] for event in timeline["events"]]
    assert [name for name in events if name.startswith("dispatch")] == ["dispatch", "dispatched"]
    assert events[-1] == "end"
    assert f"[{LINK}]({page('1001')}/job/10010)" in main.files.summary()
    assert f"{page('1001')}#artifacts" in main.files.summary()
    assert f"{LINK}: {page('1001')}/job/10010" in main.output
    assert main.annotations == []
    assert_nothing_is_left(seen)


@pytest.mark.slow
def test_product_failure(seen):
    github, main = seen.job.github, seen.main
    assert main.code == 1
    assert len(github.dispatches()) == 1, "a failure of the work is no reason for a second try"
    assert github.cancels() == []
    assert main.files.output() == outputs("1001", "1")
    assert len(main.annotations) == 1
    assert "worker_failed" in main.annotations[0]
    assert "worker_failed" in main.files.summary().replace("\\", "")
    assert f"{LINK}: {page('1001')}/job/10010" in main.output
    assert_nothing_is_left(seen)


@pytest.mark.slow
def test_fallback(seen):
    github, main = seen.job.github, seen.main
    assert main.code == 0, main.output
    assert [child.labels for child in github.children] == ["linux-amd64-cpu16", "linux-amd64-cpu8"]
    first, second = github.children
    assert [asked.run_id for asked in github.cancels()] == [first.run_id]
    ended_at = first.ended()
    assert ended_at is not None
    assert ended_at <= second.created, "the second was dispatched while the first could still run"
    confirmed = [asked for asked in github.gets("jobs", first.run_id) if ended_at <= asked.at <= second.created]
    assert confirmed, "nobody looked whether the first had ended"
    assert main.files.output() == outputs("1002", "2", 2)
    assert page("1001") in main.files.summary()
    assert f"[{LINK}]({page('1002')}/job/10020)" in main.files.summary()
    assert main.annotations == []
    assert_nothing_is_left(seen)


@pytest.mark.slow
def test_exhaustion(seen):
    github, main = seen.job.github, seen.main
    assert main.code == 1
    assert len(github.dispatches()) == 2
    assert [asked.run_id for asked in github.cancels()] == [1001, 1002]
    assert main.files.output() == outputs("1002", "2", 2)
    assert len(main.annotations) == 1
    assert "queue_exhausted" in main.annotations[0]
    assert_nothing_is_left(seen)


@pytest.mark.slow
def test_cancelled_just_dispatched(seen):
    assert_cancelled(seen)


@pytest.mark.slow
def test_cancelled_in_the_queue(seen):
    assert_cancelled(seen)
    assert "run.py acquire" in seen.commands
    assert seen.job.github.token not in seen.commands


@pytest.mark.slow
def test_cancelled_while_running(seen):
    assert_cancelled(seen)
    assert seen.job.github.children[0].allocated()


def assert_cancelled(seen: Seen) -> None:
    """Main ended at once and left the child to post."""
    github, main = seen.job.github, seen.main
    assert main.code == 130, main.output
    assert seen.took < PROMPT
    assert len(github.dispatches()) == 1
    assert main.files.output() == outputs("1001", "1")
    state = main.files.state()
    assert set(state) == {"run-id", "request-id", "workflow"}
    assert state["run-id"] == "1001"
    assert state["request-id"] == github.children[0].request_id
    assert "parent_cancelled" in main.files.summary().replace("\\", "")
    assert_post_ended_it(seen, "1001")


@pytest.mark.slow
def test_several_workers(seen):
    github, main, post = seen.job.github, seen.main, seen.post
    assert (main.code, post.code) == (130, 0)
    assert seen.took < PROMPT
    assert len(github.dispatches()) == 2, "the third waits for one of the first two"
    state = main.files.state()
    assert (state["run-id"], state["run-id-2"]) == ("1001", "1002")
    assert sorted(asked.run_id for asked in github.cancels()) == [1001, 1002]
    for run_id in ("1001", "1002"):
        assert f"cleanup of run {run_id}: confirmed" in post.files.summary()


@pytest.mark.slow
def test_cancelled_in_the_dispatch(seen):
    assert seen.main.code == 130
    assert seen.took < PROMPT
    assert seen.main.files.output()["attempts"] == "1"
    assert_post_found_it(seen)


@pytest.mark.slow
def test_killed_in_the_dispatch(seen):
    assert seen.main.code == -signal.SIGKILL
    assert seen.main.files.output() == {}
    assert_post_found_it(seen)


def assert_post_found_it(seen: Seen) -> None:
    """The state had no more than the name of the child."""
    github = seen.job.github
    assert len(github.dispatches()) == 1
    assert seen.main.files.state() == {
        "run-id": "",
        "request-id": github.children[0].request_id,
        "workflow": "runner-worker.yml",
    }
    assert "looking for the run named" in seen.post.output
    assert_post_ended_it(seen, "1001")


@pytest.mark.slow
def test_no_answer_to_the_dispatch(seen):
    github, main = seen.job.github, seen.main
    assert main.code == 1
    assert len(github.dispatches()) == 1
    assert [asked.run_id for asked in github.cancels()] == [1001]
    assert main.files.output() == outputs("1001", "1")
    assert "dispatch_ambiguous" in main.annotations[0]
    assert_nothing_is_left(seen)


@pytest.mark.slow
def test_source_moves_in_the_queue(seen):
    github, main = seen.job.github, seen.main
    assert main.code == 1
    assert len(github.dispatches()) == 1
    assert [asked.run_id for asked in github.cancels()] == [1001]
    assert "source_changed" in main.annotations[0]
    assert OTHER in main.annotations[0]
    assert "confirmed" in main.files.summary()
    assert_nothing_is_left(seen)


# -- what needs no waiting -------------------------------------------------------------------------------


@pytest.fixture
def job(fake: ModuleType, tmp_path: Path) -> Iterator[Job]:
    """A job whose server ends with the test."""
    made = Job(fake, tmp_path)
    try:
        yield made
        made.github.check()
    finally:
        made.close()


def test_the_guard_lets_a_current_child_run(job):
    step = job.guard(job.guard_inputs)
    assert step.code == 0, step.output
    assert step.annotations == []
    assert [asked.method for asked in job.github.requests] == ["GET", "GET"]
    assert (step.files.output(), step.files.state(), step.files.summary()) == ({}, {}, "")


def test_the_guard_needs_no_standard_input(job):
    step = job.guard(job.guard_inputs, before=[sys.executable, "-c", CLOSED])
    assert step.code == 0, step.output


def test_the_guard_stops_a_child_whose_source_moved(job):
    inputs = job.guard_inputs
    job.github.move(job.github.source_ref, OTHER)
    assert_refused(job.guard(inputs), "source_changed", OTHER)


def test_the_guard_stops_a_child_whose_parent_has_ended(job):
    inputs = job.guard_inputs
    job.github.parent(status="completed", conclusion="success")
    assert_refused(job.guard(inputs), "parent_not_active", "completed")


def test_the_guard_stops_a_child_that_was_rerun(job):
    assert_refused(job.guard(job.guard_inputs, attempt="2"), "identity_mismatch", "rerun")
    assert job.github.requests == []


def assert_refused(step: Step, kind: str, text: str) -> None:
    """The step failed with one annotation, which says why."""
    assert step.code == 1, step.output
    assert len(step.annotations) == 1, step.output
    assert kind in step.annotations[0]
    assert text in step.annotations[0]


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"source-sha": "main"}, "source-sha"),
        ({"pools": "no/such/file.toml"}, "no/such/file.toml"),
        ({"runner-typ": "cpu"}, "runner-type"),
    ],
    ids=str,
)
def test_wrong_inputs_end_before_any_request(changes, text, job):
    step = job.start(MAIN, job.inputs | changes).end()
    assert step.code == 4, step.output
    assert len(step.annotations) == 1
    assert text in step.annotations[0]
    assert step.files.output() == NO_OUTPUTS
    assert not any(step.files.state().values())
    assert job.github.requests == []


def test_wrong_inputs_of_the_guard_end_before_any_request(job):
    inputs = job.guard_inputs
    step = job.guard(inputs | {"parent-run-id": "0"})
    assert step.code == 4, step.output
    assert "parent-run-id" in step.annotations[0]
    assert job.github.requests == []


def test_a_blank_token_ends_before_any_request(job):
    step = job.start(MAIN, job.inputs, env={"INPUT_TOKEN": ""}).end()
    assert step.code == 4, step.output
    assert "token" in step.annotations[0]
    assert job.github.requests == []


@pytest.mark.parametrize("shim", [MAIN, POST, GUARD], ids=["main", "post", "guard"])
def test_without_python_every_step_fails_and_says_so(shim, job):
    step = job.start(shim, {}, path=str(job.folder)).end()
    assert step.code == 1
    assert step.output == "".join(f"{line}\n" for line in step.annotations)
    assert len(step.annotations) == 1
    assert "no Python 3.11 or newer on PATH" in step.annotations[0]
    assert job.github.requests == []


def test_post_without_a_token_names_what_it_leaves(job):
    state = {"STATE_run-id": "1001", "STATE_request-id": "r-1", "STATE_workflow": "runner-worker.yml"}
    step = job.start(POST, {}, env={"INPUT_TOKEN": "", **state}).end()
    assert step.code == 4, step.output
    assert "1001" in step.annotations[0]
    assert job.github.requests == []


@pytest.mark.slow
@pytest.mark.parametrize("after", [0.0, 0.06, 0.12, 0.25])
def test_a_signal_that_comes_early_leaves_nothing(after, job):
    """Node, the search for a Python, its imports: whatever it meets, the step ends, and with it every process."""
    job.github.plan_all(runner_after=None, cancel_after=0)
    main = job.main()
    threading.Event().wait(after)
    began = time.monotonic()
    main.signal(signal.SIGINT)
    main.process.wait(PATIENCE)
    assert time.monotonic() - began < PROMPT
    until(lambda: not main.processes(), "every process of the step has ended", 10)
    main.process.communicate()
    assert main.process.returncode in (130, -signal.SIGINT, 1), "1 is what Python says when it could not even start"
    assert job.post(main).end().code == 0
    job.github.assert_all_ended()


def test_the_lines_of_a_log_come_at_once(job):
    """Standard output is a pipe, and a job log is read while the job waits."""
    job.github.plan_all(runner_after=None, cancel_after=0)
    main = job.main()
    lines = [main.stream.readline()]
    while not re.search(r"child 1001: https://", lines[-1]):
        assert lines[-1], lines
        lines.append(main.stream.readline())
    assert main.process.poll() is None
    main.signal(signal.SIGTERM)
    assert main.end().code == 130
    assert job.post(main).end().code == 0
    job.github.assert_all_ended()
