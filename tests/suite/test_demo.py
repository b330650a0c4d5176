"""The demo script where something is missing. That it works whole is for the last stage, not for here."""

from __future__ import annotations

import shutil
import sys

import pytest


@pytest.fixture
def demo(run, root, tmp_path):
    """Give a function that runs a copy of the script in a repository with nothing else."""
    place = tmp_path / "copy of it"
    (place / "ci").mkdir(parents=True)
    shutil.copy(root / "ci" / "demo.sh", place / "ci")
    shutil.copy(root / "pyproject.toml", place)

    def start(*words, **env):
        return run([str(place / "ci" / "demo.sh"), *words], tmp_path, **env)

    return start


@pytest.fixture
def fake_python(tmp_path):
    """Give a function that makes an interpreter which acts on ``-m WORD`` and is the real one otherwise."""

    def make(name, action):
        path = tmp_path / name
        path.write_text(f'#!/bin/sh\nif [ "$1" = -m ]; then {action}; fi\nexec "{sys.executable}" "$@"\n')
        path.chmod(0o755)
        return str(path)

    return make


def test_an_interpreter_that_is_not_there(demo):
    done = demo(PYTHON="/no/such/python")
    assert done.code == 2
    assert "PYTHON=/no/such/python is not there, or older than Python 3.10" in done.err


def test_an_interpreter_that_is_too_old(demo, tmp_path):
    old = tmp_path / "old"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    done = demo(PYTHON=str(old))
    assert done.code == 2
    assert "older than Python 3.10" in done.err


def test_no_virtual_environments(demo, fake_python):
    done = demo(PYTHON=fake_python("no venv", "echo ensurepip is not available >&2; exit 1"))
    assert done.code == 2
    assert "apt install python3-venv" in done.err


def test_made_once_then_pytest_in_its_place(demo, fake_python, tmp_path):
    """The interpreter "makes" an environment whose python only tells what it was asked to run."""
    inner = tmp_path / "inner"
    inner.write_text('#!/bin/sh\nprintf "<%s>" "${TEST_LEVEL-}" "$@"\necho\n')
    inner.chmod(0o755)
    make = f'mkdir -p "$3/bin"; cp "{inner}" "$3/bin/python"; exit 0'
    python = fake_python("py", make)
    first = demo("-k", "a b", PYTHON=python)
    second = demo(PYTHON=python, TEST_LEVEL="3", SGPU_GPUS="8")
    assert (first.code, second.code) == (0, 0), first.err + second.err
    place = tmp_path / "copy of it" / ".venv-demo" / "{}.{}".format(*sys.version_info)
    assert f"demo: making {place} " in first.out
    assert "<--editable><.[demo]>" in first.out
    job = "<-m><pytest><-p><sgpu><--sgpu-conf=conf/ci_sgpu_queue.conf>"
    assert first.out.splitlines()[-1] == f"<1>{job}<--sgpu-gpus=4><-k><a b>"
    assert second.out.splitlines()[-1] == f"<3>{job}<--sgpu-gpus=8>"
    assert "making" not in second.out
