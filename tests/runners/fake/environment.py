"""What a job finds: the inputs of the action, GitHub's variables, and the files that those name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from .children import Child
from .github import FakeGitHub

_FILES = ("GITHUB_OUTPUT", "GITHUB_STATE", "GITHUB_STEP_SUMMARY")


def default_inputs(github: FakeGitHub) -> dict[str, str]:
    """Give the inputs that the coordinator cannot do without."""
    return {
        "workflow": github.workflow,
        "workflow-ref": "main",
        "source-ref": github.source_ref,
        "source-sha": github.source_sha,
        "runner-type": "cpu",
    }


def child_inputs(github: FakeGitHub, **changes: str) -> dict[str, str]:
    """Give the seven inputs of a dispatch; names in ``changes`` with ``_`` for ``-``."""
    inputs = {
        "request-id": f"request-{len(github.children) + 1}",
        "parent-run-id": str(github.parent_id),
        "parent-run-attempt": "1",
        "source-ref": github.source_ref,
        "source-sha": github.source_sha,
        "runner": '{"group":"g","labels":"linux-amd64-cpu16"}',
        "workload": "{}",
    }
    return {**inputs, **{name.replace("_", "-"): value for name, value in changes.items()}}


def guard_inputs(child: Child) -> dict[str, str]:
    """Give the inputs of the guard in that child."""
    return {name: value for name, value in child.inputs.items() if name not in ("runner", "workload")}


def github_env(directory: Path, github: FakeGitHub, run_id: int | None = None) -> dict[str, str]:
    """Give the variables of a job of the parent, or of another run; makes the files in ``directory``."""
    paths = {name: directory / name.lower() for name in _FILES}
    for path in paths.values():
        path.touch()
    return {
        "GITHUB_TOKEN": github.token,
        "GITHUB_REPOSITORY": github.repository,
        "GITHUB_RUN_ID": str(github.parent_id if run_id is None else run_id),
        "GITHUB_RUN_ATTEMPT": "1",
        "GITHUB_SERVER_URL": "https://github.com",
        "GITHUB_API_URL": "https://api.github.com",
        **{name: str(path) for name, path in paths.items()},
    }


class Files:
    """Reads the files that the variables name, as strictly as the runner does."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = env

    def _text(self, name: str) -> str:
        return Path(self._env[name]).read_bytes().decode()

    def output(self) -> dict[str, str]:
        """Give the outputs of the step."""
        return entries(self._text("GITHUB_OUTPUT"))

    def state(self) -> dict[str, str]:
        """Give what was saved for the post step."""
        return entries(self._text("GITHUB_STATE"))

    def summary(self) -> str:
        """Give the job summary."""
        return self._text("GITHUB_STEP_SUMMARY")


def entries(text: str) -> dict[str, str]:
    """Read ``name=value`` lines and heredocs; a later entry wins. AssertionError for what the runner would refuse."""
    found: dict[str, str] = {}
    lines = iter(re.split(r"\r?\n", text))
    for line in lines:
        if not line:
            continue
        match = re.match(r"([^=]+?)(<<|=)(.*)", line, re.DOTALL)
        assert match, f"no entry: {line!r}"
        name, sign, value = match.groups()
        if sign == "<<":
            assert value, f"no delimiter: {line!r}"
            content = []
            for inner in lines:
                if inner == value:
                    break
                content.append(inner)
            else:
                raise AssertionError(f"{name}: the delimiter {value!r} does not come")
            value = "\n".join(content)
        found[name] = value
    return found
