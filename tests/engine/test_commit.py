"""Which commit is checked out: asked of git where there is one, never a reason to fail."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from pytest_sgpu.engine import commit

ENV = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "tester",
    "GIT_AUTHOR_EMAIL": "tester@example.invalid",
    "GIT_COMMITTER_NAME": "tester",
    "GIT_COMMITTER_EMAIL": "tester@example.invalid",
}

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")


@pytest.fixture
def repository(tmp_path):
    (tmp_path / "tracked").write_text("1")
    for words in (["init", "-q"], ["add", "tracked"], ["commit", "-qm", "first"]):
        subprocess.run(["git", *words], cwd=tmp_path, env=ENV, check=True)
    return tmp_path


def whole(place):
    done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=place, env=ENV, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_the_commit_and_whether_tracked_files_differ(repository):
    assert commit.head(repository, ENV) == whole(repository)[:12]
    (repository / "untracked").write_text("x")
    (repository / "sub").mkdir()
    assert commit.head(repository / "sub", ENV) == whole(repository)[:12]
    (repository / "tracked").write_text("2")
    assert commit.head(repository, ENV) == whole(repository)[:12] + "+changes"


def test_looking_changes_nothing(repository):
    os.utime(repository / "tracked", (1, 1))  # the index is stale now, and git would like to write it again
    index = repository / ".git" / "index"
    before = (index.read_bytes(), index.stat().st_mtime_ns)
    assert commit.head(repository, ENV) == whole(repository)[:12]
    assert (index.read_bytes(), index.stat().st_mtime_ns) == before


def test_no_program_that_the_repository_names_is_run(repository):
    hook = repository / "hook"
    hook.write_text(f"#!/bin/sh\ntouch {repository}/hooked\n")
    hook.chmod(0o755)
    subprocess.run(["git", "config", "core.fsmonitor", str(hook)], cwd=repository, env=ENV, check=True)
    assert commit.head(repository, ENV) == whole(repository)[:12]
    assert not (repository / "hooked").exists()


def test_without_a_repository_a_commit_or_git_there_is_none(tmp_path, repository):
    env = {**ENV, "GIT_CEILING_DIRECTORIES": str(tmp_path.parent)}
    empty = tmp_path / "empty"
    empty.mkdir()
    subprocess.run(["git", "init", "-q"], cwd=empty, env=ENV, check=True)
    shutil.rmtree(tmp_path / ".git")
    assert commit.head(tmp_path, env) == ""
    assert commit.head(empty, env) == ""
    assert commit.head(tmp_path / "nowhere", env) == ""
    assert commit.head(tmp_path, {"PATH": str(empty)}) == ""


def test_git_that_hangs_is_not_waited_for(tmp_path, monkeypatch):
    (tmp_path / "git").write_text("#!/bin/sh\nexec sleep 60\n")
    (tmp_path / "git").chmod(0o755)
    monkeypatch.setattr(commit, "_PATIENCE", 0.2)
    assert commit.head(tmp_path, {"PATH": f"{tmp_path}:{ENV['PATH']}"}) == ""


def test_git_that_cannot_tell_of_changes_counts_as_changed(tmp_path):
    (tmp_path / "git").write_text('#!/bin/sh\ncase "$*" in *status*) exit 128 ;; esac\necho 0123456789ab\n')
    (tmp_path / "git").chmod(0o755)
    assert commit.head(tmp_path, {"PATH": f"{tmp_path}:{ENV['PATH']}"}) == "0123456789ab+changes"
