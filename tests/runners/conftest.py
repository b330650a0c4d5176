"""What the tests of the runner tools share: a virtual clock, a GitHub on it, a job of the parent, and its steps."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from pytest_sgpu.runners import coordinator
from pytest_sgpu.runners.ports import Response, Result, Transport

if TYPE_CHECKING:
    from tests.runners.fake import FakeGitHub, Files, StandIn, VirtualClock

_NAME = "sgpu_fake_github"


def _load() -> ModuleType:
    """Load the package beside this file, under a name that nothing else has."""
    if _NAME not in sys.modules:
        path = Path(__file__).parent / "fake" / "__init__.py"
        spec = importlib.util.spec_from_file_location(_NAME, path, submodule_search_locations=[str(path.parent)])
        assert spec
        assert spec.loader
        module = importlib.util.module_from_spec(spec)
        sys.modules[_NAME] = module
        spec.loader.exec_module(module)
    return sys.modules[_NAME]


@pytest.fixture(scope="session")
def fake() -> ModuleType:
    """All of it, for tests that make clocks and repositories themselves."""
    return _load()


@pytest.fixture
def clock(fake: ModuleType) -> VirtualClock:
    """A clock that never waits."""
    made: VirtualClock = fake.VirtualClock()
    return made


@pytest.fixture
def github(fake: ModuleType, clock: VirtualClock) -> Iterator[FakeGitHub]:
    """Give a GitHub on the virtual clock; at the end, look at what must hold whatever the test."""
    made: FakeGitHub = fake.FakeGitHub(clock)
    yield made
    made.check()


@pytest.fixture
def inputs(fake: ModuleType, github: FakeGitHub) -> dict[str, str]:
    """The least that the coordinator is given."""
    return dict(fake.default_inputs(github))


@pytest.fixture
def env(fake: ModuleType, github: FakeGitHub, tmp_path: Path) -> dict[str, str]:
    """The variables of a job of the parent."""
    return dict(fake.github_env(tmp_path, github))


@pytest.fixture
def files(fake: ModuleType, env: dict[str, str]) -> Files:
    """Read what was written to the files of ``env``."""
    read: Files = fake.Files(env)
    return read


@pytest.fixture
def kept(files: Files) -> Callable[[], dict[str, str]]:
    """Tell what the post step would still find."""
    return lambda: {name: value for name, value in files.state().items() if value}


@pytest.fixture
def lines() -> list[str]:
    """What was logged."""
    return []


@pytest.fixture
def go(
    github: FakeGitHub, clock: VirtualClock, inputs: dict[str, str], env: dict[str, str], lines: list[str]
) -> Callable[..., Result]:
    """Run the coordinator, through another transport if one is given; keywords change its inputs (``_`` for ``-``)."""

    def run(transport: Transport = github, **changes: str) -> Result:
        given = {**inputs, **{name.replace("_", "-"): value for name, value in changes.items()}}
        return coordinator.run(given, env, transport, clock, lines.append)

    return run


@dataclass(frozen=True)
class Job:
    """A job with the action in it: its main step (``go``), its post step, and what they leave."""

    github: FakeGitHub
    clock: VirtualClock
    inputs: dict[str, str]
    env: dict[str, str]
    files: Files
    lines: list[str]
    go: Callable[..., Result]

    def post(self, state: dict[str, str] | None = None) -> Result:
        """Run the post step with what the main step saved."""
        given = self.files.state() if state is None else state
        return coordinator.cleanup(given, self.env, self.github, self.clock, self.lines.append)

    def logged(self, pattern: str) -> list[re.Match[str]]:
        """Give the lines of the log in which the pattern is found."""
        return [match for line in self.lines if (match := re.search(pattern, line))]

    def everything(self, *results: Result) -> str:
        """All that was given back, written and said."""
        names = ("GITHUB_OUTPUT", "GITHUB_STATE", "GITHUB_STEP_SUMMARY")
        texts = [Path(self.env[name]).read_text() for name in names if name in self.env]
        return "\n".join([*texts, *self.lines, *map(repr, results), *(result.message for result in results)])


@pytest.fixture
def job(
    github: FakeGitHub,
    clock: VirtualClock,
    inputs: dict[str, str],
    env: dict[str, str],
    *,
    files: Files,
    lines: list[str],
    go: Callable[..., Result],
) -> Job:
    """A job of the parent, with the same inputs, variables and log as the other fixtures."""
    return Job(github, clock, inputs, env, files=files, lines=lines, go=go)


@pytest.fixture
def guard_inputs(fake: ModuleType, github: FakeGitHub) -> dict[str, str]:
    """What the guard is given in a child that was dispatched before."""
    child = github.children[0] if github.children else github.start_child(fake.child_inputs(github))
    return dict(fake.guard_inputs(child))


@pytest.fixture
def guard_env(
    fake: ModuleType, github: FakeGitHub, guard_inputs: dict[str, str], env: dict[str, str]
) -> dict[str, str]:
    """The variables of a job of that child."""
    return {**env, "GITHUB_RUN_ID": str(github.children[0].run_id)}


@pytest.fixture
def ask(github: FakeGitHub, fake: ModuleType) -> Callable[..., Response]:
    """Make a request as a correct client does; headers by name with ``_`` for ``-``, None taking one out."""

    def request(
        method: str, path: str, body: dict[str, object] | None = None, timeout: float = 30.0, **headers: str | None
    ) -> Response:
        named = {
            "Authorization": f"Bearer {github.token}",
            "Accept": "application/vnd.github+json",
            "X-GitHub-Api-Version": fake.VERSION,
            "User-Agent": "tests",
            **{name.replace("_", "-"): text for name, text in headers.items()},
        }
        sent = {name: text for name, text in named.items() if text is not None}
        return github.request(method, path, body=body, headers=sent, timeout=timeout)

    return request


@pytest.fixture
def get(ask: Callable[..., Response]) -> Callable[..., tuple[int, Any]]:
    """Read as a correct client does; gives the status, and the decoded body."""

    def read(path: str, **headers: str | None) -> tuple[int, Any]:
        response = ask("GET", path, **headers)
        return response.status, json.loads(response.body) if response.body else None

    return read


@pytest.fixture
def dispatch(ask: Callable[..., Response], fake: ModuleType, github: FakeGitHub) -> Callable[..., int]:
    """Dispatch as a correct client does, with changed inputs; gives the run id."""

    def send(ref: str = "main", **inputs: str) -> int:
        path = f"/repos/{github.repository}/actions/workflows/{github.workflow}/dispatches"
        response = ask("POST", path, {"ref": ref, "inputs": fake.child_inputs(github, **inputs)})
        assert response.status == 200, response.body
        return int(json.loads(response.body)["workflow_run_id"])

    return send


@pytest.fixture
def stand_in(fake: ModuleType) -> Iterator[Callable[..., StandIn]]:
    """Make GitHubs on a real socket: ``with stand_in(speed=100.0) as server``, or just ``stand_in()``."""
    with ExitStack() as stack:

        def make(**options: float) -> StandIn:
            server: StandIn = fake.StandIn(**options)
            stack.callback(server.close)
            return server.start()

        yield make
