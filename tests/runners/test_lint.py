"""The check of a child workflow: every rule that a file can break, with its place, and never a traceback."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

pytest.importorskip("ruamel.yaml")

from pytest_sgpu.runners.lint import job
from pytest_sgpu.runners.lint.workflow import INPUTS, Finding, lint
from pytest_sgpu.runners.settings.inputs import GUARD_INPUTS

ROOT = Path(__file__).parents[2]
CHILD = ROOT / "docs" / "examples" / "runner-worker.yml"
EXAMPLE = CHILD.read_text(encoding="utf-8")
SHA = "0123456789abcdef" * 2 + "01234567"
GOOD = EXAMPLE.replace("OWNER/", "octo-org/").replace("<commit>\n", f"{SHA}\n")


def changed(old: str, new: str) -> str:
    """Give the example with one place changed; it has to be there."""
    assert old in GOOD, old
    return GOOD.replace(old, new, 1)


def check(text: str) -> tuple[Finding, ...]:
    findings = lint(text, "child.yml")
    count = len(text.splitlines()) + 1
    for finding in findings:
        assert finding.severity in {"error", "warning"}
        assert 1 <= finding.line <= count
        assert finding.column >= 1
        assert finding.message
        assert finding.message.isprintable()
        assert finding.hint.isprintable()
    assert list(findings) == sorted(findings)
    return findings


def errors(text: str) -> list[str]:
    return [one.message for one in check(text) if one.severity == "error"]


def only(text: str, severity: str = "error") -> Finding:
    """Give the one finding; there is no other."""
    findings = check(text)
    assert [one.severity for one in findings] == [severity], findings
    return findings[0]


def line_of(text: str, part: str) -> int:
    return text[: text.index(part)].count("\n") + 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (EXAMPLE, "OWNER and <commit> are still to be replaced"),
        (EXAMPLE.replace("OWNER/", "octo-org/"), "<commit> is still to be replaced"),
        (EXAMPLE.replace("<commit>\n", f"{SHA}\n"), "OWNER is still to be replaced"),
        (EXAMPLE.replace("<commit>\n", "main\n"), "OWNER is still to be replaced"),
    ],
)
def test_the_example_says_what_is_still_to_be_replaced_and_nothing_else(text, said):
    finding = only(text, "warning")
    assert finding.message == said
    assert finding.line == line_of(text, "- uses: ")


def test_a_filled_in_example_is_clean():
    assert lint(GOOD, "child.yml") == ()


def test_other_ways_to_write_the_same_are_clean():
    text = (
        GOOD.replace("${{ ", "${{").replace(" }}", "}}").replace("fromJSON(inputs.runner)", "fromJson( inputs.runner )")
    )
    text = text.replace("    name: worker\n", "").replace("on:\n", '"on":\n', 1).replace("\n", "\r\n")
    assert check(text) == ()


def test_anchors_are_followed():
    text = GOOD.replace(
        "      request-id:\n        required: true\n        type: string\n",
        "      request-id: &text\n        required: true\n        type: string\n",
        1,
    )
    for name in INPUTS[1:]:
        text = text.replace(
            f"      {name}:\n        required: true\n        type: string\n", f"      {name}: *text\n", 1
        )
    assert text.count("*text") == 6
    assert check(text) == ()


def test_guard_inputs_are_those_of_the_guard():
    assert (*job.GUARD_INPUTS, "token") == GUARD_INPUTS


# -- what is no workflow --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("", 1, "no workflow"),
        ("# nothing\n", 1, "no workflow"),
        ("\n\njust text\n", 3, "no workflow"),
        ("- a\n- b\n", 1, "no workflow"),
        ("a: [\n", 2, "no valid YAML"),
        ("a: b: c\n", 1, "no valid YAML"),
        ("a:\n\t- b\n", 2, "no valid YAML"),
        ("a: *x\n", 1, "no valid YAML"),
        ("a: 1\n---\nb: 2\n", 2, "no valid YAML"),
        ("a: \x00\n", 1, "no valid YAML"),
        ("%YAML 9.9\n---\na: 1\n", 1, "no valid YAML"),
        ('a: "\\UFFFFFFFF"\n', 1, "no valid YAML"),
        ("a: &x\n  b: *x\n", 1, "contains itself"),
        ("&x [*x]\n", 1, "contains itself"),
        ("a: 1\nb: 2\na: 3\n", 3, "'a' is there twice, first in line 1"),
        ("a:\n  b: 1\n  'b': 2\n", 3, "'b' is there twice"),
        ("? [a]\n: b\n", 1, "a key is no text"),
        ("a: &x {b: 1}\nc:\n  <<: *x\n", 3, "merge keys"),
        ("a: 1\nb: !!python/object/apply:os.system [ls]\n", 2, "python/object/apply:os.system is not read"),
        ("a: 1\nb: !own x\n", 2, "the tag !own is not read"),
        ("a: 1\n!own b: 2\n", 2, "the tag !own is not read"),
        ("a: !!binary aGk=\n", 1, "binary is not read"),
        ("[" * 5000, 1, "nested too deeply"),
        ("{a: " * 5000, 1, "nested too deeply"),
    ],
)
def test_what_is_no_workflow_is_one_finding(text, line, said):
    finding = only(text)
    assert (finding.line, said in finding.message) == (line, True), finding


@pytest.mark.parametrize("character", ["\x1b", "\x7f", "\x00"])
def test_a_character_that_yaml_does_not_allow_is_told_where_it_is(character):
    text = changed("permissions:", f"permissions:{character}")
    line = line_of(text, character)
    finding = only(text)
    assert (finding.line, finding.column) == (line, text.split("\n")[line - 1].index(character) + 1)
    assert f"does not allow, U+{ord(character):04X}; leave it out" in finding.message


def test_aliases_of_aliases_cost_nothing():
    bomb = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 60))
    assert check(bomb + GOOD) == ()


@given(st.text(alphabet=st.sampled_from("ab:-{}[]&*!?|>'\"%@`#,<~ \n\t\x00\x85\ufeff\ud800é"), max_size=60))
@example("!!int a: 1")
@example("!<x> {a: 1}")
@example('"\\x')
@example("%TAG ! x\n---\n!a b")
@example("0: &a !!set {x}\n")
def test_any_text_is_findings(text):
    assert check(text)


@given(st.data())
def test_any_cut_of_the_example_is_findings(data):
    start = data.draw(st.integers(0, len(GOOD)))
    end = data.draw(st.integers(start, len(GOOD)))
    insert = data.draw(st.text(max_size=5))
    check(GOOD[:start] + insert + GOOD[end:])


@pytest.mark.parametrize(
    "value", ["", "text", "1", "null", "true", "[]", "[a, {b: c}, [d]]", "{}", "{a: b}", "{a: [b]}"]
)
@pytest.mark.parametrize(
    "key",
    [
        "run-name",
        "on",
        "permissions",
        "jobs",
        "on.workflow_dispatch",
        "inputs",
        "request-id",
        "worker",
        "steps",
        "with",
    ],
)
def test_any_value_in_any_place_is_findings(key, value):
    flat = {"jobs": "worker: {steps: [{uses: x/runner-guard@v1}]}", "on": "workflow_dispatch: {}"}
    nested = {
        "on.workflow_dispatch": ("on", f"workflow_dispatch: {value}"),
        "inputs": ("on", f"workflow_dispatch: {{inputs: {value}}}"),
        "request-id": ("on", f"workflow_dispatch: {{inputs: {{request-id: {value}}}}}"),
        "worker": ("jobs", f"worker: {value}"),
        "steps": ("jobs", f"worker: {{steps: {value}}}"),
        "with": ("jobs", f"worker: {{steps: [{{uses: x/runner-guard@v1, with: {value}}}]}}"),
    }
    name, inner = nested.get(key, (key, value))
    flat = {one: f"{{{text}}}" for one, text in flat.items()}
    flat[name] = f"{{{inner}}}" if key in nested else inner
    assert errors("".join(f"{one}: {text}\n" for one, text in flat.items()))


# -- R47, R48, R51 --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["", "Worker ${{ inputs.request-id }}", "${{ inputs.request-id }} x", "${{ github.run_id }}", "request-id", "[a]"],
)
def test_r47_run_name_is_the_request_id(name):
    text = changed("run-name: ${{ inputs.request-id }}", f"run-name: {name}")
    finding = only(text)
    assert finding.line == (line_of(text, "run-name:"))
    assert "expected exactly the request id" in finding.message


def test_r47_run_name_is_there():
    assert "no run-name" in only(changed("run-name: ${{ inputs.request-id }}\n", "")).message


@pytest.mark.parametrize("name", INPUTS)
def test_r48_each_of_the_seven_inputs_is_there(name):
    text = changed(f"      {name}:\n        required: true\n        type: string\n", "")
    finding = only(text)
    assert finding.message == f"the input {name} is missing"
    assert finding.line == line_of(text, "workflow_dispatch")


@pytest.mark.parametrize("name", INPUTS)
@pytest.mark.parametrize("kind", ["boolean", "number", "choice", "environment", "[string]"])
def test_r48_each_input_is_a_string(name, kind):
    text = changed(
        f"      {name}:\n        required: true\n        type: string",
        f"      {name}:\n        required: true\n        type: {kind}",
    )
    finding = only(text)
    assert "expected string" in finding.message
    assert finding.line == line_of(text, f"type: {kind}")


@pytest.mark.parametrize("required", ["false", "", "no", "1"])
def test_r48_each_input_is_required(required):
    text = changed("source-sha:\n        required: true", f"source-sha:\n        required: {required}")
    finding = only(text)
    assert "'source-sha' is not required" in finding.message
    assert finding.line == line_of(text, "source-sha:") + 1


def test_r48_there_is_no_eighth_input():
    text = changed("      workload:\n", "      eighth: {required: true, type: string}\n      workload:\n")
    assert only(text).message == "unknown input 'eighth': the coordinator sends exactly seven"


def test_r48_advice_on_inputs():
    assert "has no type" in only(changed("        type: string\n", ""), "warning").message
    text = changed("        type: string\n", "        type: string\n        default: x\n")
    assert only(text, "warning").line == line_of(text, "default: x")


@pytest.mark.parametrize(
    "runs_on",
    [
        "ubuntu-latest",
        "[self-hosted, gpu]",
        "${{ inputs.runner }}",
        "${{ fromJSON(inputs.runner).labels }}",
        "{group: a, labels: b}",
        "",
    ],
)
def test_r51_runs_on_is_what_was_asked_for(runs_on):
    text = changed("runs-on: ${{ fromJSON(inputs.runner) }}", f"runs-on: {runs_on}")
    finding = only(text)
    assert "expected what was asked for" in finding.message
    assert finding.line == line_of(text, "runs-on:")


def test_r51_runs_on_is_there():
    text = changed("    runs-on: ${{ fromJSON(inputs.runner) }}\n", "")
    assert only(text).line == line_of(text, "  worker:\n")


# -- R52, R53 -------------------------------------------------------------------------------------


def test_r52_there_is_no_second_job():
    text = GOOD + "  report:\n    runs-on: ubuntu-latest\n    steps: [{run: 'true'}]\n"
    finding = only(text)
    assert "the job 'report'" in finding.message
    assert finding.line == line_of(text, "  report:")


def test_r52_the_job_is_worker():
    messages = errors(changed("  worker:\n", "  build:\n"))
    assert [message.partition(":")[0] for message in messages] == ["no job worker", "the job 'build'"]


@pytest.mark.parametrize("name", ["Worker", "worker ${{ inputs.request-id }}", "build", "[worker]"])
def test_r52_the_job_is_shown_as_worker(name):
    text = changed("    name: worker\n", f"    name: {name}\n")
    assert only(text).line == line_of(text, f"name: {name}")


@pytest.mark.parametrize("jobs", ["", "jobs:\n", "jobs: {}\n", "jobs: []\n", "jobs: worker\n"])
def test_r52_there_are_jobs(jobs):
    messages = errors(GOOD.partition("jobs:\n")[0] + jobs)
    assert messages == ["no jobs"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("strategy: {matrix: {a: [1, 2]}}", "strategy"),
        ("strategy: ${{ fromJSON(inputs.workload) }}", "strategy"),
        ("needs: build", "needs"),
        ("needs: []", "needs"),
        ("environment: production", "environment"),
        ("environment: {name: production}", "environment"),
        ("if: ${{ inputs.workload != '' }}", "if"),
        ("if: true", "if"),
        ("concurrency: one", "concurrency"),
        ("concurrency: {group: one}", "concurrency"),
        ("uses: ./.github/workflows/x.yml", "uses"),
        ("continue-on-error: true", "continue-on-error"),
        ("continue-on-error: ${{ true }}", "continue-on-error"),
    ],
)
def test_r53_nothing_holds_the_job_back_or_excuses_it(line, said):
    text = changed("    timeout-minutes: 15\n", f"    timeout-minutes: 15\n    {line}\n")
    finding = only(text)
    assert finding.message.startswith(f"{said} at the job: ")
    assert finding.line == line_of(text, line)


def test_r53_no_concurrency_of_the_workflow():
    text = changed("permissions:\n", "concurrency: {group: x}\npermissions:\n")
    finding = only(text)
    assert finding.message.startswith("concurrency: ")
    assert finding.line == line_of(text, "concurrency:")


@pytest.mark.parametrize("value", ["true", "${{ fromJSON(inputs.workload).optional }}"])
def test_r53_no_failure_of_a_step_is_excused(value):
    text = changed("      - name: Work\n", f"      - name: Work\n        continue-on-error: {value}\n")
    finding = only(text)
    assert "continue-on-error at a step" in finding.message
    assert finding.line == line_of(text, "continue-on-error:")


def test_r53_saying_no_is_no_error():
    assert check(changed("      - name: Work\n", "      - name: Work\n        continue-on-error: false\n")) == ()


@pytest.mark.parametrize(
    "trigger", ["push", "pull_request", "schedule", "workflow_call", "repository_dispatch", "pull_request_target"]
)
def test_r53_only_a_dispatch_starts_it(trigger):
    text = changed("on:\n", f"on:\n  {trigger}:\n")
    finding = only(text)
    assert f"'{trigger}' starts the child without a coordinator" in finding.message
    assert finding.line == line_of(text, f"  {trigger}:")


@pytest.mark.parametrize("on", ["on: push", "on: [push]", "on:", "on: {push: {}}"])
def test_r52_it_can_be_dispatched(on):
    head, _, rest = GOOD.partition("on:\n")
    text = head + on + "\n\npermissions:\n" + rest.partition("permissions:\n")[2]
    messages = errors(text)
    assert any("no workflow_dispatch" in message for message in messages)


@pytest.mark.parametrize(
    "on", ["on: workflow_dispatch", "on: [workflow_dispatch]", "on: {workflow_dispatch: {inputs: x}}"]
)
def test_r48_the_short_forms_have_no_inputs(on):
    head, _, rest = GOOD.partition("on:\n")
    assert len(errors(head + on + "\n\npermissions:\n" + rest.partition("permissions:\n")[2])) == 7


# -- R3, R117 -------------------------------------------------------------------------------------

PERMISSIONS = "permissions:\n  contents: read\n  actions: read\n"


@pytest.mark.parametrize(
    ("permissions", "said"),
    [
        ("", "no permissions"),
        ("permissions:\n", "expected exactly two"),
        ("permissions: read-all\n", "expected exactly two"),
        ("permissions: write-all\n", "expected exactly two"),
        ("permissions: {contents: read}\n", "actions: read is missing"),
        ("permissions: {actions: read}\n", "contents: read is missing"),
        ("permissions: {contents: write, actions: read}\n", "'contents' is 'write'"),
        ("permissions: {contents: read, actions: write}\n", "'actions' is 'write'"),
        ("permissions: {contents: read, actions: none}\n", "'actions' is 'none'"),
        ("permissions: {contents: read, actions: read, packages: read}\n", "'packages' is more"),
        ("permissions: {contents: read, actions: read, id-token: write}\n", "'id-token' is more"),
        ("permissions: {contents: read, actions: read, checks: [write]}\n", "'checks' is more"),
    ],
)
def test_r3_the_child_may_read_and_nothing_else(permissions, said):
    assert said in only(changed(PERMISSIONS, permissions)).message


def test_r3_what_the_job_says_counts():
    inner = "    permissions: {contents: read, actions: read}\n"
    at = "    timeout-minutes: 15\n"
    assert check(changed(at, at + inner).replace(PERMISSIONS, "permissions: {}\n")) == ()
    wide = changed(at, at + inner.replace("actions: read", "actions: write"))
    assert "'actions' is 'write'" in only(wide).message


def test_r3_none_is_nothing():
    assert check(changed(PERMISSIONS, PERMISSIONS + "  packages: none\n")) == ()


def test_r117_the_job_has_a_time_out():
    finding = only(changed("    timeout-minutes: 15\n", ""))
    assert "no timeout-minutes" in finding.message


@pytest.mark.parametrize("minutes", ["0", "-5", "", "soon", "1.5", "[15]"])
def test_r117_the_time_out_is_a_number(minutes):
    text = changed("timeout-minutes: 15", f"timeout-minutes: {minutes}")
    assert only(text).line == line_of(text, "timeout-minutes:")


def test_r117_the_time_out_may_be_computed():
    assert check(changed("timeout-minutes: 15", "timeout-minutes: ${{ fromJSON(inputs.workload).minutes }}")) == ()


# -- R130, R135: the guard ------------------------------------------------------------------------

GUARD = GOOD[GOOD.index("      - uses: octo-org/") : GOOD.index("      # The work may")]


@pytest.mark.parametrize("folder", ["guard", "our-guard", "a/b/runner-queue.guard/guard", "x.y-guard"])
def test_r130_a_guard_is_known_by_the_end_of_its_folder(folder):
    made = lint(GOOD.replace("/runner-guard@", f"/{folder}@"), "c.yml")
    assert [finding.message for finding in made if finding.severity == "error"] == []


@pytest.mark.parametrize("folder", ["safeguard", "guards", "guard/x", "runner-guard-x"])
def test_r130_another_action_is_no_guard(folder):
    made = lint(GOOD.replace("/runner-guard@", f"/{folder}@"), "c.yml")
    assert any(finding.message.startswith("no guard") for finding in made)


def test_r130_there_is_a_guard():
    finding = only(changed(GUARD, ""))
    assert finding.message.startswith("no guard")
    assert "docs/" not in finding.hint, "who installed the package has no docs"


@pytest.mark.parametrize("name", job.GUARD_INPUTS)
def test_r130_the_guard_gets_each_input(name):
    line = f"          {name}: ${{{{ inputs.{name} }}}}\n"
    assert only(changed(line, "")).message == f"the guard does not get {name}"
    for wrong in ("${{ inputs.workload }}", "${{ github.sha }}", "x", "", "[a]", f"${{{{ inputs.{name} }}}} "):
        text = changed(line, f"          {name}: '{wrong}'\n" if "$" in wrong else f"          {name}: {wrong}\n")
        assert f"as {name}, expected the input" in only(text).message


def test_r130_the_guard_gets_nothing_else_but_a_token():
    line = "          source-sha: ${{ inputs.source-sha }}\n"
    assert check(changed(line, line + "          token: ${{ github.token }}\n")) == ()
    assert check(changed(line, line + "          workload: ${{ inputs.workload }}\n")) == ()
    assert only(changed(line, line + "          workloads: x\n")).message == "the guard has no input 'workloads'"


@pytest.mark.parametrize("step", ["- run: make", "- uses: actions/setup-python@v5", "- 'text'"])
def test_r135_the_guard_is_first(step):
    text = changed(GUARD, f"      {step}\n{GUARD}")
    findings = [one for one in check(text) if one.message.startswith("the guard is not the first step")]
    assert [one.line for one in findings] == [line_of(text, "- uses: octo-org/")]


def test_r135_the_guard_always_runs():
    text = changed("        with:\n", "        if: ${{ inputs.workload }}\n        with:\n")
    assert only(text).line == line_of(text, "        if:")
    text = changed("        with:\n", "        continue-on-error: true\n        with:\n")
    assert only(text).line == line_of(text, "        continue-on-error:")


@pytest.mark.parametrize(
    ("uses", "told"),
    [
        ("./ci/actions/runner-guard", "nothing is checked out yet"),
        ("./ci/actions/runner-guard@main", "nothing is checked out yet"),
        ("octo-org/pytest-sgpu/ci/actions/runner-guard", "taken at no commit"),
        ("docker://octo-org/runner-guard", "a guard in an image"),
    ],
)
def test_r135_the_guard_comes_from_elsewhere(uses, told):
    assert told in only(changed(f"octo-org/pytest-sgpu/ci/actions/runner-guard@{SHA}", uses)).message


@pytest.mark.parametrize("token", ["${{ secrets.PAT }}", "${{ secrets.GITHUB_TOKEN || secrets.PAT }}", "ghp_x", "[a]"])
def test_r3_the_guard_needs_no_token_of_somebody_s_own(token):
    text = changed("          parent-run-id:", f"          token: {token}\n          parent-run-id:")
    assert "a token of somebody's own" in only(text, "warning").message


@pytest.mark.parametrize("token", ["${{ github.token }}", "${{secrets.GITHUB_TOKEN}}", '""'])
def test_r3_the_token_of_the_job_may_be_named(token):
    text = changed("          parent-run-id:", f"          token: {token}\n          parent-run-id:")
    assert check(text) == ()


@pytest.mark.parametrize("ref", ["main", "v1", "0123456", "refs/heads/main", "x\u0378"])
def test_r4_the_guard_is_pinned(ref):
    assert "which can move" in only(changed(f"@{SHA}\n", f"@{ref}\n"), "warning").message


# -- advice ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("line", ["", "          persist-credentials: true\n", "          persist-credentials:\n"])
def test_checkout_leaves_no_token(line):
    text = changed("          persist-credentials: false\n", line)
    assert only(text, "warning").hint == "persist-credentials: false"


def test_r9_checkout_takes_the_approved_commit():
    line = "          ref: ${{ inputs.source-sha }}\n"
    for other in ("", "          ref: ${{ inputs.source-ref }}\n", "          ref: main\n"):
        assert "another commit" in only(changed(line, other), "warning").message
    assert check(changed(line, "          repository: o/tools\n")) == ()
    assert (
        "another commit" in only(changed(line, "          repository: o/r\n          ref: main\n"), "warning").message
    )


@pytest.mark.parametrize(
    "run",
    ["echo ${{ inputs.workload }}", "${{ fromJSON(inputs.workload).command }}", "x ${{ github.event.inputs.runner }}"],
)
def test_r17_no_input_becomes_a_command(run):
    text = changed("          ./ci/test.sh\n", f"          {run}\n")
    finding = only(text, "warning")
    assert "could be a command" in finding.message
    assert check(changed("          ./ci/test.sh\n", "          echo ${{ github.run_id }} inputs\n")) == ()


def test_everything_wrong_at_once_is_told_in_order():
    text = "on: [push]\njobs:\n  build:\n    needs: x\n  worker:\n    if: true\n    steps:\n      - run: x\n"
    findings = check(text)
    assert len(findings) == 9
    assert len({one.line for one in findings}) >= 5


def test_without_ruamel_it_says_what_to_install():
    """In a Python that sees nothing that was installed."""
    program = "import sys; sys.path.insert(0, sys.argv[1])\nfrom pytest_sgpu.errors import SgpuError\n"
    program += "from pytest_sgpu.runners.lint import workflow\ntry:\n    workflow.lint('a: b', 'c.yml')\n"
    program += "except SgpuError as error:\n    print(error)\n"
    made = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program, str(ROOT)], capture_output=True, text=True, timeout=60, check=True
    )
    message, hint = made.stdout.splitlines()
    assert message == "c.yml: cannot be checked, since ruamel.yaml is not installed"
    assert hint == '  hint: pip install "pytest-sgpu[runners]"'
