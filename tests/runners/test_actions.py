"""The two actions: their inputs are those of the program, and their shims start it, signal it, and end as it ends."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_sgpu.runners import pools_file
from pytest_sgpu.runners.forecast.budget import budget
from pytest_sgpu.runners.settings.inputs import COORDINATOR_INPUTS, GUARD_INPUTS, coordinator_settings

ROOT = Path(__file__).parents[2]
ACTIONS = ROOT / "ci" / "actions"
EXAMPLES = ROOT / "docs" / "examples"
PARENTS = ("runner-check.yml", "runner-matrix.yml")
FALLBACK, GUARD = ACTIONS / "runner-fallback", ACTIONS / "runner-guard"
SHIMS = [FALLBACK / "main.js", FALLBACK / "post.js", GUARD / "main.js"]
TOKEN = "ghs_SECRETsecretSECRET"
PATIENCE = 60  # seconds; only a failure waits so long

needs_node = pytest.mark.skipif(not shutil.which("node"), reason="there is no node")


def load(path):
    yaml = pytest.importorskip("ruamel.yaml")
    return yaml.YAML(typ="safe", pure=True).load(path)


def definition(folder):
    return load(folder / "action.yml")


# -- action.yml -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("folder", "names"), [(FALLBACK, COORDINATOR_INPUTS), (GUARD, GUARD_INPUTS)])
def test_the_inputs_are_those_of_the_program(folder, names):
    inputs = definition(folder)["inputs"]
    assert sorted(inputs) == sorted(names)
    for name, one in inputs.items():
        assert one["description"], name
        assert set(one) <= {"description", "required", "default"}
        if name == "token":
            assert one["default"] == "${{ github.token }}"
        elif one.get("required"):
            assert "default" not in one
        else:
            assert one["default"] == "", "left out and blank are the same"


def test_what_is_required_is_so_for_the_program():
    required = {name for name, one in definition(FALLBACK)["inputs"].items() if one.get("required")}
    assert required == {"workflow", "workflow-ref", "source-ref", "source-sha", "runner-type"}
    required = {name for name, one in definition(GUARD)["inputs"].items() if one.get("required")}
    assert required == set(GUARD_INPUTS) - {"token"}


def test_r120_the_outputs_are_those_of_the_program():
    assert set(definition(FALLBACK)["outputs"]) == {"run-id", "run-url", "runner", "attempts", "workers", "timeline"}
    assert "outputs" not in definition(GUARD)


def test_r113_a_post_step_always_runs():
    assert definition(FALLBACK)["runs"] == {
        "using": "node24",
        "main": "main.js",
        "post": "post.js",
        "post-if": "always()",
    }


def test_r134_the_guard_has_no_post_step():
    assert definition(GUARD)["runs"] == {"using": "node24", "main": "main.js"}


# -- the examples of parents ----------------------------------------------------------------------


def coordinator(name):
    """Give the job of an example that uses the action, and what it gives to it."""
    found = [
        (job, step["with"])
        for job in load(EXAMPLES / name)["jobs"].values()
        for step in job["steps"]
        if "/ci/actions/runner-fallback@" in step.get("uses", "")
    ]
    assert len(found) == 1
    return found[0]


@pytest.mark.parametrize("name", PARENTS)
def test_r136_an_example_is_taken_and_has_the_time_that_it_needs(name):
    job, given = coordinator(name)
    inputs = given | {"source-ref": "refs/pull/123/merge", "source-sha": "a" * 40}
    env = {"GITHUB_REPOSITORY": "o/r", "GITHUB_RUN_ID": "1", "GITHUB_RUN_ATTEMPT": "1"}
    settings = coordinator_settings(inputs, env, pools_file.load(""))
    needed = budget(settings.candidates, settings.execution_seconds).parent_minutes
    assert needed <= job["timeout-minutes"]
    assert re.search(rf"plan.* asks for {needed}\.$", (EXAMPLES / name).read_text(encoding="utf-8"), re.MULTILINE)
    assert settings.workflow == "runner-worker.yml"
    worker = load(EXAMPLES / settings.workflow)["jobs"]["worker"]
    assert worker["timeout-minutes"] * 60 <= settings.execution_seconds


@pytest.mark.parametrize("name", PARENTS)
def test_r2_r3_an_example_may_dispatch_and_never_has_the_source(name):
    job, _ = coordinator(name)
    assert job["permissions"] == {"contents": "read", "actions": "write"}
    assert job["runs-on"] == "ubuntu-latest"
    assert load(EXAMPLES / name)["permissions"] == {"contents": "read"}
    assert load(EXAMPLES / name)["concurrency"]["cancel-in-progress"] is False
    assert "checkout" not in str(job)


def test_r138_the_matrix_is_in_the_parent():
    job, given = coordinator("runner-matrix.yml")
    assert job["strategy"]["max-parallel"] == 2
    assert job["strategy"]["fail-fast"] is False
    assert "matrix.shard" in given["workload"]


# -- the shims ------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [*SHIMS, ACTIONS / "run.js", ACTIONS / "run.py"], ids=lambda path: path.name)
def test_a_shim_is_small_and_needs_nothing(path):
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 60
    assert "token" not in text.replace("// The token", "").lower()
    if path.suffix == ".js":
        needed = {part.split('"')[1] for part in text.split("require(")[1:]}
        assert all(name.startswith("node:") or name == "../run.js" for name in needed)


def test_there_is_no_package_to_install():
    assert not list(ACTIONS.rglob("package*.json"))
    assert not list(ACTIONS.rglob("node_modules"))


# A Python that writes down how it was started, says that it is ready, and ends by what it is told: it stands for the
# whole program, so that a test of the shims is a test of the shims.
FAKE = """\
#!{python} -I
import os, signal, sys
if "-c" in sys.argv:
    sys.exit(int(os.environ.get("FAKE_OLD", "0")))
signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
if os.environ["FAKE_END"] == "wait":
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
print(*sys.argv[1:], flush=True)
print(os.environ.get("INPUT_RUNNER-TYPE"), os.environ.get("STATE_run-id"), "INPUT_TOKEN" in os.environ, flush=True)
print("post step:", os.environ.get("SGPU_POST_STEP"), flush=True)
print("ready", flush=True)
if os.environ["FAKE_END"] == "wait":
    number = signal.sigwait(signals)
    print("got", signal.Signals(number).name, flush=True)
    sys.exit(40 + number)
if os.environ["FAKE_END"].startswith("SIG"):
    number = signal.Signals[os.environ["FAKE_END"]]
    if number != signal.SIGKILL:
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    signal.pause()
sys.exit(int(os.environ["FAKE_END"]))
"""


@pytest.fixture
def fake(tmp_path):
    """Give a starter of shims, with a fake Python of some name as the only one on PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    node = shutil.which("node")
    assert node

    def start(shim: Path, end: str = "0", name: str = "python3", old: str = "0") -> subprocess.Popen[str]:
        path = folder / name
        path.write_text(FAKE.format(python=sys.executable))
        path.chmod(0o755)
        env = {"PATH": str(folder), "FAKE_END": end, "FAKE_OLD": old, "INPUT_TOKEN": TOKEN}
        env |= {"INPUT_RUNNER-TYPE": "cpu", "STATE_run-id": "7"}
        return subprocess.Popen(
            [node, str(shim)],
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    return start


@needs_node
@pytest.mark.parametrize(("shim", "command"), list(zip(SHIMS, ("acquire", "cleanup", "guard"), strict=True)))
def test_a_shim_starts_its_command_with_inputs_and_state_in_the_environment(fake, shim, command):
    output, _ = (process := fake(shim)).communicate(timeout=PATIENCE)
    assert process.returncode == 0
    words, variables, post, ready = output.splitlines()
    held = ["--held"] if command == "acquire" else []  # its standard input ends with the shim
    assert words.split() == ["-I", "-u", str(ACTIONS / "run.py"), command, *held]
    assert variables == "cpu 7 True"
    assert post == f"post step: {'1' if command == 'acquire' else ''}"
    assert ready == "ready"
    assert TOKEN not in output


@needs_node
@pytest.mark.parametrize("name", ["python", "python3.13", "python3.11"])
def test_another_name_of_python_is_found(fake, name):
    output, _ = (process := fake(FALLBACK / "main.js", name=name)).communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert "ready" in output


@needs_node
@pytest.mark.parametrize(("name", "old"), [("python3", "1"), ("perl", "0")])
def test_without_a_python_that_is_new_enough_it_says_so(fake, name, old):
    output, _ = (process := fake(FALLBACK / "main.js", name=name, old=old)).communicate(timeout=PATIENCE)
    assert process.returncode == 1
    assert output.startswith("::error::no Python 3.11 or newer on PATH")
    assert len(output.splitlines()) == 1


@needs_node
@pytest.mark.parametrize(
    ("end", "code"), [("0", 0), ("1", 1), ("4", 4), ("130", 130), ("SIGKILL", 137), ("SIGTERM", 143)]
)
def test_a_shim_ends_as_the_program_ends(fake, end, code):
    process = fake(FALLBACK / "main.js", end)
    process.communicate(timeout=PATIENCE)
    assert process.returncode == code


@needs_node
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_shim_passes_signals_on_and_waits(fake, number):
    process = fake(FALLBACK / "main.js", "wait")
    lines: list[str] = []
    while not lines or lines[-1] != "ready\n":
        lines.append(process.stdout.readline())
        assert lines[-1], "it ended before it was ready"
    process.send_signal(number)
    output, _ = process.communicate(timeout=PATIENCE)
    assert output == f"got {number.name}\n"
    assert process.returncode == 40 + number


@needs_node
@pytest.mark.skipif(sys.version_info < (3, 11), reason="the actions need Python 3.11")
@pytest.mark.parametrize(
    ("shim", "code", "said"),
    list(zip(SHIMS, (4, 0, 4), ("no token: ", "nothing to clean up", "no token: "), strict=True)),
)
def test_the_program_runs_where_nothing_is_installed(shim, code, said, tmp_path):
    """Without a token the coordinator and the guard refuse, and a cleanup without state has nothing to do."""
    base = getattr(sys, "_base_executable", sys.executable)
    (tmp_path / "python3").symlink_to(os.path.realpath(base))
    env = {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}", "GITHUB_ACTIONS": "true", "INPUT_RUNNERS": ""}
    # From a folder that would be imported from first, if Python were not isolated.
    (tmp_path / "pytest_sgpu").mkdir()
    env["PYTHONPATH"] = str(tmp_path)
    made = subprocess.run(
        [shutil.which("node") or "node", str(shim)],
        env=env,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    output = made.stdout + made.stderr
    assert made.returncode == code, output
    assert "Traceback" not in output
    assert said in output
