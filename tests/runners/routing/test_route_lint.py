"""``sgpu route lint``: what it finds, where it says it is, and what it passes over."""

from __future__ import annotations

import json
import re

import pytest

from pytest_sgpu.runners.route import command, sources
from pytest_sgpu.runners.routing.workflows import read_workflow

ROLLOUT = "experiments:\n  lf:\n    rollout_perc: 25\n  arc:\n    default: false\n---\n@alice,lf\n"
WORKFLOW = """\
name: pull
jobs:
  route:
    uses: ./.github/workflows/route.yml
    with:
      check_experiments: arc, lff
      opt_out_experiments: "lf,  acr"
  build:
    runs-on: ${{ needs.route.outputs.label-type }}linux.2xlage
    strategy:
      matrix:
        include:
          - runner: linux.4xlarge
          - {config: x, runner: linux.4xlrge}
    with:
      runner: linux.none
      test-matrix: |

        { include: [
          # a comment
          { config: "default", runner: "${{ needs.route.outputs.label-type }}linux.g5.4xlarge.nvidia.gp" },
          { config: "${{ inputs.x }}", runner: "linux.2xlarge" },
        ]}
  other:
    runs-on: ubuntu-latest
    steps:
      - run: |
          set -eu
          sgpu route prefix --check-experiments="arc,ark" --opt-out-experiments lf
"""

IDENTITY = "linux.rocm.gpu.2"


class Lint:
    def __init__(self, folder, capsys):
        self.folder, self.capsys = folder, capsys

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return self

    def __call__(self, *words, **env):
        code = command.main(["lint", *words], env)
        out, self.err = self.capsys.readouterr()
        assert "Traceback" not in out + self.err
        lines = [line for line in out.splitlines() if not line.startswith("  hint: ")]
        return code, lines[:-1], lines[-1] if lines else ""

    def full(self):
        return self("--config=rollout.txt", "--workflows=flows")


@pytest.fixture
def lint(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return Lint(tmp_path, capsys).write("rollout.txt", ROLLOUT)


def lines_of(found, name):
    return [int(match[1]) for line in found if (match := re.match(rf"{re.escape(name)}:(\d+):", line))]


def column(text, word, line):
    return text.split("\n")[line - 1].index(word) + 1


def test_q119_what_comes_with_the_package_is_clean(lint):
    assert lint() == (0, [], "2 texts checked: nothing found")
    assert lint("--config=rollout.txt") == (0, [], "3 texts checked: nothing found")


@pytest.mark.parametrize(
    "text",
    [
        "experiments:\n  lf:\n    rollout_percent: 25\n---\n",
        "experiments:\n  lf:\n    rollout_perc: '25'\n---\n",
        "experiments:\n  lf:\n    rollout_perc: 25%\n---\n",
        "experiments:\n  lf:\n    rollout_perc: 125\n---\n",
        "experiments:\n  lf:\n    rollout_perc: 5\n  # --- fleet ---\n---\n",
        "experiments:\n  lf:\n    rollout_perc: 5\n---\n@alice,lf\n@Alice,-lf\n",
        "experiments:\n  lf:\n    rollout_perc: 5\n---\n@alice,lff\n",
    ],
)
def test_q117_mistakes_of_a_rollout_text_are_found(lint, text):
    code, found, count = lint.write("rollout.txt", text)("--config=rollout.txt")
    there = [line for line in found if line.startswith("rollout.txt:")]
    assert there
    assert code == (1 if any(": error: " in line for line in found) else 0)
    assert count.startswith("3 texts checked: ")


def test_q118_every_finding_has_its_place(lint):
    lint.write("flows/pull.yml", WORKFLOW)
    code, found, _ = lint.full()
    assert code == 1
    name = "flows/pull.yml"
    unknown = {
        ("unknown experiment 'lff'", 6, "lff"),
        ("unknown experiment 'acr'", 7, "acr"),
        ("unknown label 'linux.2xlage'", 9, "${{"),
        ("unknown label 'linux.4xlrge'", 14, "linux.4xlrge"),
        ("unknown label 'linux.none'", 16, "linux.none"),
        ("unknown label 'linux.g5.4xlarge.nvidia.gp'", 21, '"${{'),
        ("unknown experiment 'ark'", 29, "ark"),
    }
    expected = {f"{name}:{line}:{column(WORKFLOW, word, line)}: error: {what}" for what, line, word in unknown}
    told = {line.partition(": not in")[0] for line in found if line.startswith(name)}
    assert told == expected


def test_q118_a_hint_says_what_was_meant(lint, capsys):
    lint.write("flows/pull.yml", WORKFLOW)
    command.main(["lint", "--config=rollout.txt", "--workflows=flows"], {})
    out = capsys.readouterr().out
    assert re.search(r"'linux.2xlage'.*\n  hint: did you mean \"linux.2xlarge\"\?", out)
    assert re.search(r"'acr'.*\n  hint: did you mean \"arc\"\?", out)


def test_q118_lines_of_a_matrix_with_other_line_ends(lint):
    lint.write("flows/pull.yml", WORKFLOW.replace("\n", "\r\n"))
    found = lint.full()[1]
    assert lines_of(found, "flows/pull.yml") == [6, 7, 9, 14, 16, 21, 29]


def test_q118_a_missing_blank_in_a_matrix_is_an_error(lint):
    text = 'jobs:\n  a:\n    with:\n      test-matrix: |\n        {include: [\n        {config:"x", runner:"y"}]}\n'
    code, found, _ = lint.write("flows/a.yml", text).full()
    assert code == 1
    assert [line.split(": ")[0] for line in found if "no space after the colon of" in line] == [
        "flows/a.yml:6:10",
        "flows/a.yml:6:22",
    ]


@pytest.mark.parametrize("text", ["jobs: [\n", "a: b\na: c\n", "jobs:\n  test-matrix: |\n    {include: [}\n"])
def test_q118_a_workflow_that_is_no_yaml_is_an_error(lint, text):
    code, found, _ = lint.write("flows/a.yml", text).full()
    assert code == 1
    assert any(line.startswith("flows/a.yml:") for line in found)


@pytest.mark.parametrize(
    "label",
    [
        "ubuntu-latest",
        "Windows-2022",
        "macos-15",
        "self-hosted",
        "${{ matrix.runner }}",
        "${{ inputs.a }}-${{ inputs.b }}",
        "${{ inputs.os }}-latest",
        '"${{ fromJSON(inputs.runner) }}"',
        "[self-hosted, linux, x64]",
        "{group: big, labels: [linux.2xlarge]}",
        "{group: big}",
        "linux.2xlarge",
        "lf.linux.2xlarge",
        "mt-l-x86iavx512-8-64",
    ],
)
def test_q119_what_is_known_hosted_or_an_expression_is_passed_over(lint, label):
    code, found, _ = lint.write("flows/a.yml", f"jobs:\n  a:\n    runs-on: {label}\n").full()
    assert (code, found) == (0, [])


@pytest.mark.parametrize("label", ["[self-hosted, linux.2xlage]", "{labels: linux.2xlage}", "linux.2xlage"])
def test_q115_an_unknown_label_is_an_error(lint, label):
    code, found, _ = lint.write("flows/a.yml", f"jobs:\n  a:\n    runs-on: {label}\n").full()
    assert code == 1
    assert "unknown label 'linux.2xlage'" in found[0]


def test_q115_labels_of_others_are_named_in_the_fleets_file(lint):
    text = sources.default(sources.FLEETS).read_text(encoding="utf-8")
    lint.write("fleets.yaml", text.replace("other-labels: []", "other-labels: [bigger-*]"))
    lint.write("flows/a.yml", "jobs:\n  a:\n    runs-on: bigger-1\n")
    assert lint("--fleets=fleets.yaml", "--workflows=flows")[:2] == (0, [])
    assert lint("--workflows=flows")[0] == 1


@pytest.mark.parametrize("label", ["mt-l-x86iavx512-8-64", "lf.linux.2xlarge", "mt-linux.2xlarge"])
def test_q115_a_label_that_is_translated_already_is_no_label_for_a_matrix(lint, label):
    code, found, _ = lint.write("flows/a.yml", f"jobs:\n  a:\n    with:\n      runner: {label}\n").full()
    assert code == 0
    assert "warning" in found[0]


def test_q115_the_default_of_an_input_counts(lint):
    text = "on:\n  workflow_call:\n    inputs:\n      runner:\n        type: string\n        default: linux.2xlage\n"
    code, found, _ = lint.write("flows/a.yml", text).full()
    assert code == 1
    assert found[0].startswith("flows/a.yml:6:18: error: unknown label 'linux.2xlage'")


def test_q116_a_fleet_that_cannot_serve_a_translated_label(lint):
    lint.write("arc.yaml", "runner_mapping:\n  linux.new: l-x86iamx-22-225-h100\nmeta_only_runners: []\n")
    code, found, _ = lint("--arc=arc.yaml")
    assert code == 1
    assert any(line.startswith("arc.yaml:2:") and "has no runner for 'l-x86iamx-22-225-h100'" in line for line in found)
    lint.write("arc.yaml", "runner_mapping:\n  linux.new: l-x86iamx-22-225-h100\nmeta_only_runners: [linux.new]\n")
    assert lint("--arc=arc.yaml")[0] == 0


def test_q116_a_fleet_that_cannot_serve_what_a_workflow_may_ask_for(lint):
    text = "jobs:\n  a:\n    with:\n      check_experiments: lf\n  b:\n    with:\n      runner: linux.aws.h100\n"
    code, found, _ = lint.write("flows/a.yml", text).full()
    assert code == 1
    (line,) = found
    assert line.startswith("flows/a.yml:7:15: error: lf has no runner for 'lf.linux.aws.h100'")
    assert lint.write("flows/a.yml", text.replace("check_experiments: lf", "check_experiments: arc")).full()[0] == 0
    out = text.replace("check_experiments: lf", "opt_out_experiments: lf")
    assert lint.write("flows/a.yml", out).full()[0] == 0


@pytest.mark.parametrize(
    ("prefix", "code"), [("mt-", 0), ("'lf-'", 0), ("lf.", 1), ("unknown.", 1), ("${{ x.label-type }}", 1)]
)
def test_q116_a_prefix_that_is_written_out_is_the_only_one_asked_for(lint, prefix, code):
    text = "jobs:\n  a:\n    with:\n      check_experiments: arc, lf\n  b:\n    with:\n"
    text += f"      runner_prefix: {prefix}\n      test-matrix: |\n        {{include: [{{runner: linux.aws.h100}}]}}\n"
    made, found, _ = lint.write("flows/a.yml", text).full()
    assert made == code
    assert ["lf has no runner for 'lf.linux.aws.h100'" in line for line in found] == [True] * code


@pytest.mark.parametrize(
    ("prefix", "label", "said"),
    [
        ("lf.", IDENTITY, f"ask for 'lf.{IDENTITY}', which no runner has"),
        ("mt-", IDENTITY, f"ask for 'mt-{IDENTITY}', which no runner has"),
        ("zz.", "linux.2xlarge", "no fleet has the prefix 'zz.'"),
        ("lf.", "linux.2xlarge", ""),
        ("mt-", "linux.2xlarge", ""),
    ],
)
def test_q116_a_label_beside_a_prefix_that_is_written_out(lint, prefix, label, said):
    text = f"jobs:\n  a:\n    with:\n      runner_prefix: {prefix}\n      runner: {label}\n"
    code, found, _ = lint.write("flows/a.yml", text).full()
    assert code == bool(said)
    assert [said in line and line.startswith("flows/a.yml:5:15: error: ") for line in found] == [True] * code
    other = text.replace("runner_prefix", "install-prefix")
    assert lint.write("flows/a.yml", other).full()[0] == 0, "of something else"


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (["lint", "--config="], "--config"),
        (["lint", "--config= "], "--config"),
        (["simulate", "--config= "], "--config"),
        (["lint", "--workflows="], "--workflows"),
        (["lint", "--config=rollout.txt", "--workflows= "], "--workflows"),
    ],
)
def test_q112_a_check_of_a_blank_name_does_not_pass(lint, words, option):
    assert command.main(words, {}) == 4
    out, err = lint.capsys.readouterr()
    assert (out, err.splitlines()) == (
        "",
        [f"sgpu route: error: {option} is blank", "  hint: most likely a variable that is not set"],
    )


def test_q116_pins_with_a_prefix_that_no_fleet_has(lint):
    text = sources.default(sources.FLEETS).read_text(encoding="utf-8")
    changed = re.sub(r"(?m)^  prefix: mt-$", "  prefix: zz-", text)
    assert changed != text
    lint.write("fleets.yaml", changed)
    code, found, _ = lint("--fleets=fleets.yaml")
    line = changed.split("\n").index("pins:") + 1
    assert code == 0
    assert found[0].startswith(f"fleets.yaml:{line}:1: warning: pins: no fleet has the prefix 'zz-'")


def test_q117_names_that_the_other_text_does_not_know(lint):
    lint.write("rollout.txt", "experiments:\n  lf:\n    workflows: pul, -trunk, ALL\n---\n")
    lint.write("flows/pull.yml", "name: pull\n").write("flows/trunk.yml", "name: trunk\n")
    code, found, _ = lint.full()
    assert code == 0
    assert any("'arc'" in line and "never on" in line for line in found)
    assert any(line.startswith("rollout.txt:2:") and "no workflow is named 'pul'" in line for line in found)
    assert not any("'trunk'" in line for line in found)


def test_q117_a_pinned_label_without_a_mapping_and_a_target_out_of_form(lint):
    lint.write("arc.yaml", "runner_mapping:\n  linux.a: X-1\n  linux.b: l-x86i-1-2\nmeta_only_runners:\n  - linux.c\n")
    code, found, _ = lint("--arc=arc.yaml")
    assert code == 1
    assert lines_of(found, "arc.yaml") == [2, 5]


def test_q117_a_fleets_file_that_is_wrong(lint):
    lint.write("fleets.yaml", "version: 1\nfleet: {}\n")
    code, found, count = lint("--fleets=fleets.yaml", "--config=rollout.txt")
    assert code == 1
    assert found[0].startswith("fleets.yaml:2:")
    assert count.startswith("2 texts checked: 1 error")


def test_q118_json_and_annotations(lint):
    lint.write("flows/a.yml", "jobs:\n  a:\n    runs-on: linux.2xlage\n")
    command.main(["lint", "--workflows=flows", "--json"], {"GITHUB_ACTIONS": "true"})
    out, err = lint.capsys.readouterr()
    (finding,) = json.loads(out)
    assert (finding["source"], finding["line"], finding["column"]) == ("flows/a.yml", 3, 14)
    assert err.startswith("::error file=flows/a.yml,line=3,col=14,title=sgpu route lint::unknown label")


@pytest.mark.parametrize(
    "name", ["a\n::error::x.yml", "b,line=9::x.yml", "##[error]x.yml", "::error::x.yml", " ::error::x.yml"]
)
def test_q101_hostile_names_of_files_and_labels_stay_in_their_line(lint, name):
    lint.write(f"flows/{name}", 'name: "\\n::error::t"\njobs:\n  a:\n    runs-on: "x\\n::error::y\\u2028##[z"\n')
    command.main(["lint", "--config=rollout.txt", "--workflows=flows"], {"GITHUB_ACTIONS": "true"})
    out, err = lint.capsys.readouterr()
    assert not [line for line in out.split("\n") if line.lstrip().startswith("::")]
    assert all(line.startswith("::error file=") for line in err.strip().split("\n") if line.startswith("::error"))
    assert "##[" not in out + err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--workflows=nowhere"], "nowhere: no folder of workflows: No such file or directory"),
        (["--workflows=rollout.txt"], "rollout.txt: no folder of workflows: Not a directory"),
        (["--workflows=empty"], "empty: no *.yml in it"),
        (["--config=nowhere"], "nowhere: no such file"),
    ],
)
def test_q112_what_is_not_there_is_wrong_usage(lint, words, told, tmp_path):
    (tmp_path / "empty").mkdir()
    assert lint(*words)[0] == 4
    assert lint.err.startswith(f"sgpu route: error: {told}\n")


def test_q117_a_file_of_other_bytes_is_a_finding_and_the_others_are_checked(lint, tmp_path):
    for name in ("rollout.txt", "flows/a.yml", "arc.yaml", "fleets.yaml"):
        lint.write(name, "")
        (tmp_path / name).write_bytes(b"\n\xff")
    lint.write("flows/b.yml", "jobs:\n  a:\n    runs-on: linux.2xlage\n")
    code, found, count = lint.full()
    assert code == 1
    assert [line.partition(" 'linux")[0] for line in found] == [
        "rollout.txt:1:1: error: not UTF-8 at byte 1",
        "flows/a.yml:1:1: error: not UTF-8 at byte 1",
        "flows/b.yml:3:14: error: unknown label",
    ]
    assert count == "5 texts checked: 3 errors"
    lint.write("rollout.txt", ROLLOUT)
    for option in ("arc", "fleets"):
        code, found, _ = lint(f"--{option}={option}.yaml", "--config=rollout.txt")
        assert (code, found) == (1, [f"{option}.yaml:1:1: error: not UTF-8 at byte 1"])


def test_q117_every_workflow_in_another_case_is_a_warning(lint):
    lint.write("rollout.txt", ROLLOUT.replace("    rollout_perc: 25", "    rollout_perc: 25\n    workflows: all"))
    lint.write("flows/pull.yml", "name: pull\n")
    code, found, _ = lint.full()
    assert code == 0
    assert found == ["rollout.txt:4:16: warning: lf: 'all' names a workflow; every workflow is ALL"]


def test_a_workflow_gives_its_name_and_what_it_asks_for():
    made = read_workflow(WORKFLOW, "w.yml")
    assert made.name == "pull"
    assert [(use.kind, use.name) for use in made.uses if use.prefixed] == [
        ("runs-on", "linux.2xlage"),
        ("runner", "linux.g5.4xlarge.nvidia.gp"),
    ]
    assert read_workflow("", "w.yml").uses == ()
    (use,) = read_workflow("a: &x {runner: y}\nb: *x\n", "w.yml").uses
    assert (use.name, use.line) == ("y", 1), "an alias is told where it is written"


def test_expressions_of_any_form_are_read_in_time():
    text = "a: |\n  " + "${{ '" * 20_000 + "\nrunner: ${{ format('{0}}}', inputs.x) }}\n"
    made = read_workflow(text, "w.yml")
    assert (made.uses, made.problems) == ((), ())


@pytest.mark.parametrize("name", ["::error::x.yml", "##[error]x.yml", " ::error::x.yml"])
@pytest.mark.parametrize("words", [["lint"], ["prefix"], ["simulate", "--users=1", "--days=1"]])
def test_q101_a_line_that_begins_with_a_name_is_no_command(lint, name, words):
    lint.write(name, "experiments:\n  lf: {rollout_perc: 125}\n---\n")
    command.main([*words, f"--config={name}"], {"GITHUB_ACTIONS": "true"})
    out, err = lint.capsys.readouterr()
    told = [line for line in (out + err).split("\n") if "rollout_perc is outside" in line]
    assert told
    begun = [line for line in (out + err).split("\n") if line.lstrip().startswith(("::", "##"))]
    assert all(re.match("::(error|warning) (file=[^:]*,)?title=sgpu route", line) for line in begun)
    assert any(line.startswith("./") for line in told)


@pytest.mark.parametrize(
    ("label", "why"),
    [
        ("lf.linux.aws.h100", "lf has none for 'linux.aws.h100'"),
        ("lf-l-x86iamx-22-225-h100", "'linux.aws.h100' is pinned to 'mt-'"),
        ("c-mt-l-x86iamx-22-225-h100", "'linux.aws.h100' is pinned to 'mt-'"),
        ("l-x86iavx512-8-64", "the default fleet has no such labels"),
        ("lf.l-x86iavx512-8-64", "lf has no such labels"),
        ("lf.linux.rocm.gpu.2", "maps to itself, and has no prefix"),
    ],
)
@pytest.mark.parametrize("form", ["runs-on: {}", "test-matrix: |\n      {{include: [{{config: x, runner: {}}}]}}"])
def test_q116_a_label_with_its_prefix_that_nobody_serves(lint, label, why, form):
    code, found, _ = lint.write("flows/a.yml", f"jobs:\n  a:\n    {form.format(label)}\n").full()
    assert code == 1
    (line,) = found
    assert f": error: no runner for '{label}': " in line
    assert why in line


def test_q116_a_label_that_a_translating_fleet_does_not_translate_by_itself(lint):
    lint.write(
        "flows/a.yml", "jobs:\n  a:\n    runs-on: mt-linux.2xlarge\n  b:\n    runs-on: mt-l-x86iamx-22-225-h100\n"
    )
    code, found, _ = lint.full()
    assert code == 1
    (line,) = found
    assert "arc has translated labels only, here 'l-x86iavx512-8-64'" in line


@pytest.mark.parametrize(
    ("checks", "asked"),
    [("lf", "lf."), ("arc, lf", "lf."), ("arc", ""), ("amd-do", ""), ("big", "big.")],
)
def test_q116_a_prefix_before_a_label_that_maps_to_itself(lint, checks, asked):
    lint.write("rollout.txt", "experiments:\n  lf: {}\n  arc: {}\n  amd-do: {}\n  big: {}\n---\n")
    text = f"jobs:\n  a:\n    with:\n      check_experiments: {checks}\n  b:\n"
    text += f"    runs-on: ${{{{ x.label-type }}}}{IDENTITY}\n"
    matrix = text.replace(IDENTITY, "${{ matrix.runner }}")
    matrix += f"    matrix:\n      include: [{{runner: {IDENTITY}}}]\n"
    for flow in (text, matrix):
        code, found, _ = lint.write("flows/a.yml", flow).full()
        assert code == bool(asked)
        assert [f"ask for '{asked}{IDENTITY}', which no runner has" in line for line in found] == [True] * code
    for put in ("", "${{ x.amd-do-label-type }}"):  # the output of one experiment is no prefix of a fleet
        plain = text.replace("${{ x.label-type }}", put)
        assert lint.write("flows/a.yml", plain).full()[0] == 0
    assert lint.write("flows/a.yml", plain.replace(IDENTITY, "linux.rocm.gp")).full()[0] == 1


@pytest.mark.parametrize("prefix", ["${{ needs.x.outputs.label-type }}", '"${{ inputs.runner_prefix }}"'])
def test_q116_a_prefix_that_a_reusable_workflow_puts_before_its_label(lint, prefix):
    lint.write("rollout.txt", "experiments:\n  lf: {}\n  arc: {}\n  amd-do: {}\n---\n")
    text = f"jobs:\n  a:\n    uses: ./.github/workflows/b.yml\n    with:\n      runner_prefix: {prefix}\n"
    text += f"      runner: {IDENTITY}\n"
    code, (line,), _ = lint.write("flows/a.yml", text).full()
    assert code == 1
    assert line.startswith("flows/a.yml:6:15: error: ")
    assert f"ask for 'lf.{IDENTITY}', which no runner has" in line
    for plain in (
        text.replace(prefix, "''"),
        text.replace(prefix, "a${{ inputs.b }}"),
        text.replace("rocm", "2xlarge"),
    ):
        assert "which no runner has" not in "".join(lint.write("flows/a.yml", plain).full()[1])
    matrix = text.replace(f"runner: {IDENTITY}", f"test-matrix: '{{include: [{{runner: {IDENTITY}}}]}}'")
    assert lint.write("flows/a.yml", matrix).full()[0] == 0, "what a matrix asks for has its own prefix, or none"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("experiments:\n  lf:\n    rollout_perc: 125\n---\n", 3),
        ("experiments:\n  lf:\n    rollout_perc: -1\n---\n", 3),
        ("experiments:\n  lf: {}\n---\n@alice,lf:101\n", 4),
        ("experiments:\n  lf: {}\n---\n@alice,lf\n@alice,-lf\n", 5),
        ("experiments:\n  lf: {}\n---\n@alice,lf\n@ALICE,lf\n", 5),
        ("experiments:\n  lf: {}\n---\n@a[bot],lf\n@a[bot],lf\n", 5),
        ("experiments:\n  lf: {}\n---\n@alice,lff\n", 4),
    ],
)
def test_q117_what_a_decision_only_warns_of_is_an_error_before(lint, text, line):
    code, found, _ = lint.write("rollout.txt", text)("--config=rollout.txt")
    assert code == 1
    assert [one for one in found if one.startswith(f"rollout.txt:{line}:") and ": error: " in one]
    assert command.main(["prefix", "--config=rollout.txt", "--strict"], {}) == 0
    assert "rollout.txt" in lint.capsys.readouterr().err


def test_q118_a_finding_of_the_fleets_file_is_at_its_fleet_and_names_no_installation(lint):
    lint.write("rollout.txt", "experiments:\n  lf: {}\n---\n")
    built_in = sources.default(sources.FLEETS).read_text(encoding="utf-8").split("\n")
    assert command.main(["lint", "--config=rollout.txt", "--json"], {"GITHUB_ACTIONS": "true"}) == 0
    out, err = lint.capsys.readouterr()
    (finding,) = json.loads(out)
    assert (finding["source"], finding["column"]) == ("runner_routing.yaml", 1)
    assert built_in[finding["line"] - 1] == "  arc:"
    assert err.startswith(f"::warning file=runner_routing.yaml,line={finding['line']},col=1,")
