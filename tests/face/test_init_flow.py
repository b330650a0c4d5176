"""What ``sgpu init`` writes into an empty repository works at once, and its workflow keeps what was learned."""

from __future__ import annotations

import re
import sys

import pytest


@pytest.fixture
def made(repo):
    (repo.path / "pytest.ini").unlink()
    repo.file("bin/sgpu", f'#!/bin/sh\nexec {sys.executable} -m pytest_sgpu.cli "$@"\n', executable=True)
    done = repo.command("bin/sgpu", "init")
    assert done.code == 0, done.text
    return repo


def test_it_runs(made):
    env = {"PATH": f"{made.path}/bin:{made.env()['PATH']}"}
    done = made.run(conf="conf/ci_sgpu_queue.conf", env=env)
    assert done.code == 0, done.text
    assert set(made.status().values()) == {"PASSED"}
    assert made.learned()


class TestWorkflow:
    """A cache step that saves nothing is green for ever; so each part of it is looked for."""

    @pytest.fixture
    def flow(self, made):
        (path,) = (made.path / ".github" / "workflows").glob("*.yml")
        return path.read_text()

    def test_restore_and_save_are_two_steps(self, flow):
        assert "actions/cache/restore@" in flow
        assert "actions/cache/save@" in flow
        assert "restore-keys:" in flow

    def test_the_key_is_of_this_run_and_this_attempt(self, flow):
        keys = re.findall(r"^\s*key:(.*)$", flow, re.MULTILINE)
        assert keys
        for key in keys:
            assert "github.run_id" in key
            assert "github.run_attempt" in key

    def test_the_prefix_names_architecture_and_level_and_ends_there(self, flow):
        key = re.findall(r"^\s*key:\s*(.*)$", flow, re.MULTILINE)[0]
        prefix = re.search(r"restore-keys:\s*\|?\s*\n?\s*(\S.*)$", flow, re.MULTILINE)
        assert prefix
        assert key.startswith(prefix[1].strip())
        assert prefix[1].strip().endswith("-"), "gfx94 would match gfx942"

    def test_a_red_run_saves_too_and_stays_red(self, flow):
        assert re.search(r"if:.*(always\(\)|!\s*cancelled\(\))", flow)
        assert not re.search(r"continue-on-error:\s*true", flow)
        assert not re.search(r"\|\|\s*(true|echo)|\|\s*tee", flow)
        assert "actions/upload-artifact@" in flow
        assert not re.search(r"--sgpu-conf\s", flow)
