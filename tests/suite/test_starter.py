"""Which files `sgpu init` writes, given what is there."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_sgpu.suite import starter

TARGETS = [file.target for file in starter.FILES]


def test_an_empty_repository_gets_everything():
    assert [step.target for step in starter.steps(set(), {}) if step.template] == [*TARGETS, "pytest.ini"]


@given(st.sets(st.sampled_from(TARGETS)))
def test_what_exists_is_left_alone(existing):
    steps = starter.steps(existing, {})
    assert {step.target for step in steps if step.note} == existing
    assert [step.target for step in steps] == [*TARGETS, "pytest.ini"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pytest.ini", ""),
        (".pytest.ini", ""),
        ("pytest.toml", ""),
        (".pytest.toml", ""),
        ("pyproject.toml", "[project]\n[tool.pytest.ini_options]\n"),
        ("pyproject.toml", "[tool.pytest]\n"),
        ("pyproject.toml", ' [ tool . "pytest" . ini_options ]\n'),
        ("tox.ini", "[tox]\n[pytest]\n"),
        ("setup.cfg", "[tool:pytest]\naddopts = -q\n"),
    ],
)
def test_settings_of_pytest_are_enough(name, text):
    last = starter.steps(set(), {name: text})[-1]
    assert (last.target, last.template) == ("pytest.ini", "")
    assert name in last.note or last.note.startswith("exists")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pyproject.toml", "[tool.pytester]\n# [tool.pytest.ini_options]\n"),
        ("tox.ini", "[tox]\n[testenv:pytest]\n"),
        ("setup.cfg", "[pytest]\n"),
    ],
)
def test_files_without_them_are_not(name, text):
    assert starter.steps(set(), {name: text})[-1].template == "pytest.ini"


def test_every_template_is_there_and_used(root):
    folder = root / "pytest_sgpu" / "suite" / "templates"
    used = {step.template for step in starter.steps(set(), {})}
    assert {path.name for path in folder.iterdir()} == used


class TestWorkflows:
    """The one that `sgpu init` writes and our own: same shape, same promises."""

    @pytest.fixture(params=["pytest_sgpu/suite/templates/gpu-tests.yml", ".github/workflows/gpu-tests.yml"])
    def flow(self, request, root):
        return (root / request.param).read_text()

    def test_restore_and_save_are_steps_of_their_own(self, flow):
        assert "uses: actions/cache/restore@" in flow
        assert "uses: actions/cache/save@" in flow
        assert "uses: actions/cache@" not in flow

    def test_the_key_is_new_for_every_attempt_and_the_prefix_fits_nothing_else(self, flow):
        prefix = "sgpu-weights-${{ env.SGPU_ARCH }}-l${{ env.TEST_LEVEL }}-"
        keys = re.findall(r"^ +key: (.+)$", flow, re.MULTILINE)
        assert keys == [prefix + "${{ github.run_id }}-${{ github.run_attempt }}"] * 2
        assert re.findall(r"restore-keys: \|\n +(.+)\n", flow) == [prefix]

    def test_a_red_run_saves_and_uploads(self, flow):
        for step in ("Save the weights", "Keep the run directory"):
            assert re.search(rf"- name: {step}\n +if: \$\{{\{{ always\(\)", flow)
        assert flow.index("Run the queue") < flow.index("Save the weights")

    def test_pytest_is_the_process_of_its_step(self, flow):
        (command,) = re.findall(r"run: (.*pytest -p .*)", flow)
        assert command.startswith("exec pytest -p sgpu --sgpu-conf=conf/ci_sgpu_queue.conf --sgpu-timeout=auto")
        assert not re.search(r"continue-on-error|\|\| |\| *tee", flow)

    def test_least_rights_and_limits(self, flow):
        assert "permissions:\n  contents: read\n" in flow
        assert "persist-credentials: false" in flow
        assert re.search(r"timeout-minutes: \d+", flow)
        assert "concurrency:" in flow

    def test_the_page_about_it_shows_it_to_the_letter(self, root):
        page = (root / "docs/how-to/ci-github-actions.md").read_text()
        first = page.partition("```yaml\n")[2].partition("```\n")[0]
        assert first == (root / "pytest_sgpu/suite/templates/gpu-tests.yml").read_text()

    def test_they_have_the_same_steps(self, root):
        def steps(name):
            return re.findall(r"- (?:name|uses): .+", (root / name).read_text())

        own, starter_flow = ".github/workflows/gpu-tests.yml", "pytest_sgpu/suite/templates/gpu-tests.yml"
        assert steps(own) == steps(starter_flow)
