"""What a lint reads in workflow files: expressions, matrices, missing blanks, and the place of each."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from pytest_sgpu.runners.routing import matrix_text
from pytest_sgpu.runners.routing.check import Texts, check
from pytest_sgpu.runners.routing.fleets import parse_fleets
from pytest_sgpu.runners.routing.mapping import parse_mapping
from pytest_sgpu.runners.routing.matrix import translate
from pytest_sgpu.runners.routing.rollout import parse_rollout
from pytest_sgpu.runners.routing.workflows import Workflow, read_workflow

ROOT = Path(__file__).parents[3]
CONF = ROOT / "conf"
FLEETS = parse_fleets((CONF / "runner_routing.yaml").read_text(encoding="utf-8"), "fleets.yaml")
ARC = parse_mapping((CONF / "arc.yaml").read_text(encoding="utf-8"), "arc.yaml", "meta_only_runners")
ROLLOUT = parse_rollout("experiments:\n  lf: {}\n  arc: {}\n---\n", "rollout.txt")

Found = list[tuple[str, str]]


def job(body: str) -> str:
    return "jobs:\n  a:\n" + "".join(f"    {line}\n" if line else "\n" for line in body.split("\n"))


def matrix(body: str, sign: str = "|") -> str:
    return job(f"uses: ./b.yml\nwith:\n  test-matrix: {sign}\n" + "\n".join(f"    {line}" for line in body.split("\n")))


def problems(text: str) -> Found:
    """Give what a lint says of a workflow: what stands at the place, and the message."""
    read = read_workflow(text, "w.yml")
    told = check(Texts(FLEETS, ARC, ROLLOUT, "rollout.txt", (read,)))
    lines = text.split("\n")
    return [
        (lines[one.line - 1][one.column - 1 :].strip(), one.message.partition(": not in")[0])
        for one in told
        if one.source == "w.yml"
    ]


def unknown(text: str) -> list[str]:
    """Give the unknown labels, each of which stands where it is told."""
    labels = []
    for there, message in problems(text):
        assert message.startswith("unknown label '")
        label = message.split("'")[1]
        assert there.lstrip("'\"\\").startswith(label)
        labels.append(label)
    return labels


@pytest.mark.parametrize("path", [*ROOT.glob(".github/workflows/*.yml"), *ROOT.glob("docs/examples/*.yml")], ids=str)
def test_q119_the_workflows_of_this_repository_are_clean(path):
    assert problems(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("entry", "at"),
    [
        ('{ config: "x", runner:linux.large }', "runner:linux.large"),
        ("{ config:x, runner: linux.large }", "config:x"),
        ("{ runner: linux.large, shard:1 }", "shard:1"),
        ('{ runner: linux.large, any:"x" }', 'any:"x"'),
        ("runner:linux.large", "runner:linux.large"),
    ],
)
@pytest.mark.parametrize("form", ["text", "matrix"])
def test_q118_a_missing_blank_in_a_matrix_is_an_error_there(entry, at, form):
    if form == "text":
        text = matrix(f"{{ include: [\n  {entry},\n]}}")
    else:
        text = job(f"runs-on: ${{{{ matrix.runner }}}}\nstrategy:\n  matrix:\n    include:\n      - {entry}")
    ((there, message),) = problems(text)
    assert there.startswith(at)
    assert message == f"there is no space after the colon of '{at}'"
    (problem,) = read_workflow(text, "w.yml").problems
    assert problem.hint == matrix_text.SPACE


@pytest.mark.parametrize(
    ("text", "at"),
    [
        (matrix("include:\n  - runner:linux.zzz"), "runner:linux.zzz"),
        (matrix("include:\n  - config: x\n    runner:linux.zzz"), "runner:linux.zzz"),
        (matrix('{include:[{config:"x",runner:"linux.large"}]}'), 'include:[{config:"x"'),
        ("jobs:\n  a: {runs-on:linux.large}\n", "runs-on:linux.large"),
        (job("uses: ./b.yml\nwith: {runner:linux.large}"), "runner:linux.large"),
        (job('uses: ./b.yml\nwith: {check_experiments:"arc,lf"}'), 'check_experiments:"arc'),
        (job("uses: ./b.yml\nwith:\n  runner:linux.large"), "runner:linux.large"),
        (job("uses: ./b.yml\nwith:\n  what:\n    is\n    runner:linux.large"), "runner:linux.large"),
        (job("uses: ./b.yml\nwith: {matrix: os:linux}"), "os:linux"),
        (job("runs-on: ${{ matrix.os }}\nstrategy:\n  matrix:\n    os:[ubuntu-latest,zzz]"), "os:[ubuntu-latest,zzz]"),
        (job("runs-on: linux.large\nstrategy: {matrix: {os: [a], exclude: [runner:x]}}"), "runner:x"),
        (job("runs-on: linux.large\nstrategy: {matrix: {os: [a], include: os:x}}"), "os:x"),
    ],
)
def test_q118_a_missing_blank_is_told_once_with_its_place(text, at):
    ((there, message),) = problems(text)
    assert there.startswith(at)
    assert "there is no space after the colon of '" in message


@pytest.mark.parametrize(
    "text",
    [
        job("uses: ./b.yml\nwith: {http://x: y, http://z}"),
        job("uses: ./b.yml\nwith: {other:thing, 'runner:x', \"runner\":linux.large}"),
        job("runs-on: linux.large\nstrategy: {matrix: {image: [ubuntu:22.04, runner:x], 'a:b': [c], http://x: [y]}}"),
        job("runs-on: linux.large\nsteps:\n  - name: runs-on:x\n      and runner:y\n    run: echo\n      runner:x"),
        matrix('{"include":[{"runner":"linux.large","http://x":1}]}'),
        matrix("# runner:x\ninclude:\n  - runner: linux.large\n    http://x: y"),
    ],
)
def test_q118_a_name_with_a_colon_in_it_is_no_missing_blank(text):
    assert problems(text) == []


REFUSED = ["runner: [linux.large]", 'runner: ""', "runner:", "runner: 12", "runner: {a: b}"]


@pytest.mark.parametrize(
    "text",
    [
        *(f"{{include: [{{{entry}}}]}}" for entry in REFUSED),
        "{include: [linux.large]}",
        "{include: linux.large}",
        "{include: [{runner: linux.large}], os: [a]}",
        "[linux.large]",
        "linux.large",
        "{include: [{runner: linux.large, runner: linux.large}]}",
        "{include: [{runner: linux.large}",
        "{include: [{runner: linux.zzz}]}",
    ],
)
def test_q118_what_would_be_refused_as_a_matrix_is_an_error(text):
    assert translate(text, "matrix", "mt-", ARC, FLEETS).text is None
    assert problems(matrix(text)), "route matrix refuses it"


@pytest.mark.parametrize("text", ["", "{}", "[]", "null", "{include: []}", "{include: [{config: x}]}"])
def test_q118_what_is_taken_as_a_matrix_is_fine(text):
    assert translate(text, "matrix", "mt-", ARC, FLEETS).text is not None
    assert problems(matrix(text)) == []


@pytest.mark.parametrize("text", ['["a", "b"]', "{os: [a, b], include: [{os: c}]}", "{include: [{os: [a, b]}]}"])
def test_q118_a_matrix_of_another_form_is_not_that_of_a_test(text):
    assert problems(job(f"uses: ./b.yml\nwith:\n  matrix: |\n    {text}")) == []


TEXT = "{ include: [\n  # one\n  { config: x, runner: linux.large },\n\n  { config: x, runner: LINUX.ZZZ }\n]}"


@pytest.mark.parametrize("sign", ["|", "|-", ">", ">-", ">+ # folded", "&anchor >-", "!!str >"])
def test_q118_a_place_in_a_block_text_is_that_in_the_file(sign):
    text = matrix(TEXT if "|" in sign else TEXT.replace("  # one\n", ""), sign)
    assert unknown(text) == ["LINUX.ZZZ"]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize(
    ("quote", "inside"),
    [
        ('"', TEXT.replace("# one", "")),
        ('"', '{ include: [ \\\n { config: \\"\\x61\\u0062\\n\\", runner: \\"LINUX.ZZZ\\" } \\\n ]}'),
        ("'", TEXT.replace("# one", "")),
        (
            "'",
            "{ include: [ { config: ''x'', runner: ''LINUX.ZZZ'' },\n\n { runner: 'LINUX.YYY' } ]}".replace(
                " 'L", " L"
            ),
        ),
    ],
)
def test_q118_a_place_in_a_quoted_text_is_that_in_the_file(quote, inside, end):
    inside = inside.replace("YYY'", "YYY").replace("\n", "\n    ")
    text = job(f"uses: ./b.yml\nwith:\n  test-matrix: {quote}{inside}{quote}").replace("\n", end)
    assert unknown(text) == ["LINUX.ZZZ", "LINUX.YYY"][: 1 + ("YYY" in inside)]


@pytest.mark.parametrize("sign", [">-", "|"])
def test_q118_the_place_of_each_experiment_in_a_text(sign):
    text = job(f"uses: ./b.yml\nwith:\n  check_experiments: {sign}\n    arc,\n    lff, acr")
    assert problems(text) == [("lff, acr", "unknown experiment 'lff'"), ("acr", "unknown experiment 'acr'")]
    text = job(
        f"runs-on: linux.large\nsteps:\n  - run: {sign}\n      sgpu route prefix\n      --check-experiments=arc,lff"
    )
    assert problems(text) == [("lff", "unknown experiment 'lff'")]


def test_q118_a_place_that_cannot_be_told_is_that_of_the_text():
    text = job("uses: ./b.yml\nwith:\n  test-matrix: &x\n    '{include: [\n    {runner: LINUX.ZZZ}]}'")
    read = read_workflow(text, "w.yml")
    (use,) = read.uses
    assert (use.line, use.note) == (5, " (somewhere in this text)")
    told = check(Texts(FLEETS, ARC, None, "", (read,)))
    assert any("(somewhere in this text)" in one.message for one in told)


@pytest.mark.parametrize(
    ("expression", "labels"),
    [
        ("inputs.r || 'linux.a'", ["linux.a"]),
        ("'linux.a'", ["linux.a"]),
        ("cond && 'linux.a' || 'linux.b'", ["linux.a", "linux.b"]),
        ("(cond == 'x' && ('linux.a')) || 'linux.large'", ["linux.a"]),
        ("inputs.r || ''", []),
        ("inputs.r || '[\"linux.a\"]'", []),
        ("inputs.r == 'linux.a'", []),
        ("inputs.r != 'linux.a' && inputs.r", []),
        ("('linux.a') == ('linux.b')", []),
        ("'linux.a' && inputs.r", []),
        ("!'linux.a'", []),
        ("format('linux.a', x || 'linux.b')", []),
        ("fromJSON('[\"linux.a\"]')", []),
        ("github['linux.a'] || contains(x, 'linux.b')", []),
        ("needs.x.outputs.label-type || 'lf.'", []),
        ("(((" * 20 + "'linux.a'" + ")))" * 20, []),
    ],
)
@pytest.mark.parametrize("form", ["runs-on: {}", "runs-on: [self-hosted, {}]", "uses: ./b.yml\nwith:\n  runner: '{}'"])
def test_q115_a_literal_that_an_expression_may_come_to_is_a_label(expression, labels, form):
    if form.endswith("'"):
        form = form.replace("'", '"')
        expression = expression.replace('"', '\\"')
    elif '"' in expression and "[" in form:
        form = "runs-on: ['self-hosted', {}]"
    assert unknown(job(form.format(f"${{{{ {expression} }}}}"))) == labels


def test_q115_a_part_of_a_label_that_comes_from_an_expression_is_no_label():
    assert problems(job("runs-on: linux.${{ inputs.size || 'zzz' }}")) == []
    assert unknown(job("runs-on: ${{ needs.x.outputs.label-type }}${{ inputs.r || 'linux.zzz' }}")) == ["linux.zzz"]
    assert unknown(job("runs-on: >-\n  ${{\n    inputs.r ||\n    'linux.zzz'\n  }}")) == ["linux.zzz"]
    assert unknown(matrix("{ include: [\n { runner: \"${{ inputs.r || 'linux.zzz' }}\" } ]}")) == ["linux.zzz"]


@pytest.mark.parametrize(
    ("axes", "name", "labels"),
    [
        ("os: [ubuntu-latest, linux.zzz, linux.large]", "os", ["linux.zzz"]),
        ("Label:\n      - linux.zzz", "label", ["linux.zzz"]),
        ("os: [[self-hosted, linux.zzz], {labels: linux.yyy}]", "os", ["linux.zzz", "linux.yyy"]),
        ("os: [a]\n    include:\n      - {os: linux.zzz, config: x}\n      - {config: y}", "os", ["a", "linux.zzz"]),
        ("cfg: [{on: linux.zzz, name: q}, {name: r}]", "cfg.on", ["linux.zzz"]),
        ("os: [linux.large, linux.zzz]\n    exclude: [{os: nothing}]", "os", ["linux.zzz"]),
        ("os: [\"${{ inputs.r || 'linux.zzz' }}\", '${{ matrix.os }}']", "os", ["linux.zzz"]),
        ("os: ${{ fromJSON(inputs.os) }}", "os", []),
        ("os: [linux.zzz]", "other", []),
        ("os: [linux.zzz]", "os || 'linux.large'", ["linux.zzz"]),
        ("os: [linux.zzz]", "os == 'linux.zzz' && 'linux.large'", []),
    ],
)
def test_q115_labels_of_an_axis_that_runs_on_names(axes, name, labels):
    strategy = f"strategy:\n  matrix:\n    {axes}\n"
    assert unknown(job(f"{strategy}runs-on: ${{{{ matrix.{name} }}}}")) == labels
    assert unknown(job(f'runs-on: ["${{{{ matrix.{name} }}}}"]\n{strategy}')) == labels
    assert problems(job(f"{strategy}runs-on: linux.large")) == []


def test_q115_an_axis_of_another_job_is_not_looked_at():
    text = job("runs-on: ${{ matrix.os }}") + "  b:\n    runs-on: linux.large\n    strategy: {matrix: {os: [zzz]}}\n"
    assert problems(text) == []
    named = job("runs-on: ${{ matrix['os'] }}\nstrategy: {matrix: {os: [linux.zzz]}}")
    assert unknown(named) == ["linux.zzz"]
    called = job("uses: ./b.yml\nwith: {runner: '${{ matrix.os }}'}\nstrategy: {matrix: {os: [linux.zzz]}}")
    assert unknown(called) == ["linux.zzz"]


def test_q116_an_axis_behind_a_prefix_is_asked_for_with_it():
    text = job("runs-on: ${{ x.label-type }}${{ matrix.os }}\nstrategy: {matrix: {os: [linux.aws.h100]}}")
    ((there, message),) = problems(text)
    assert there.startswith("linux.aws.h100")
    assert "lf.linux.aws.h100" in message


STEP = "runs-on: linux.large\nsteps:\n  - uses: owner/action@v1\n"


@pytest.mark.parametrize(
    ("body", "labels"),
    [
        (STEP + "    with: {runner: jest}", []),
        (STEP + "    env: {runner: jest}", []),
        ("runs-on: linux.large\nenv: {runner: jest}", []),
        ("runs-on: linux.large\nstrategy: {matrix: {include: [{runner: jest}]}}", []),
        ("runs-on: linux.large\nstrategy: {matrix: {runner: [jest, mocha]}}", []),
        ("runs-on: ${{ matrix.os }}\nstrategy: {matrix: {os: [linux.large], runner: [jest]}}", []),
        ("runs-on: ${{ matrix.runner }}\nstrategy: {matrix: {include: [{runner: jest}]}}", ["jest"]),
        ("runs-on: ['${{ matrix.cfg.runner }}']\nstrategy: {matrix: {cfg: [{runner: jest}]}}", ["jest"]),
        ("runs-on: ${{ format('{0}', matrix.runner) }}\nstrategy: {matrix: {runner: [jest]}}", ["jest"]),
        ("runs-on: ${{ matrix.runs-on }}\nstrategy: {matrix: {runs-on: [jest]}}", ["jest"]),
        ("uses: ./b.yml\nstrategy: {matrix: {include: [{runner: jest}]}}", ["jest"]),
        ("uses: ./b.yml\nwith: {runner: jest}", ["jest"]),
    ],
)
def test_q119_a_runner_that_is_no_label_is_passed_over(body, labels):
    assert unknown(job(body)) == labels


def test_q115_experiments_and_matrices_of_a_step_count_all_the_same():
    assert problems(job(STEP + "    with: {check_experiments: lff}")) == [("lff}", "unknown experiment 'lff'")]
    assert unknown(job(STEP + "    with: {test-matrix: '{include: [{runner: linux.zzz}]}'}")) == ["linux.zzz"]
    assert unknown(job(STEP + "    env: {MATRIX: '{include: [{runner: linux.zzz}]}'}")) == ["linux.zzz"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "found nothing, expected a workflow: a mapping with on: and jobs:"),
        ("# nothing\n", "found nothing, expected a workflow: a mapping with on: and jobs:"),
        ("- a\n", "found a list of 1, expected a workflow: a mapping with on: and jobs:"),
        ("words\n", 'found "words", expected a workflow: a mapping with on: and jobs:'),
        (job("runs-on:"), "runs-on: found nothing, expected a label"),
        (job("runs-on: ''"), "runs-on: found an empty text, expected a label"),
        (job("runs-on: []"), "runs-on: found an empty list, expected a label"),
        (job("runs-on: null"), "runs-on: found nothing, expected a label"),
        (job("runs-on: ['', ~]"), "runs-on: found a list with nothing in it, expected a label"),
        (job("runs-on: {}"), "runs-on: found an empty mapping, expected a label"),
        (job("runs-on: {labels: []}"), "runs-on: found a mapping with nothing in it, expected a label"),
    ],
)
def test_q118_what_github_refuses_is_an_error(text, message):
    (problem,) = read_workflow(text, "w.yml").problems
    assert (problem.severity, problem.message) == ("error", message)
    assert problem.line == 1 + text.count("\n", 0, max(0, text.find("runs-on")))


def test_q118_an_input_of_the_name_may_have_nothing():
    assert problems("on:\n  workflow_dispatch:\n    inputs:\n      runs-on:\n      runner:\n") == []


@pytest.mark.parametrize(
    ("text", "at"),
    [
        (job("name: x\nruns-on:linux.2xlarge\nsteps: []"), "runs-on:linux.2xlarge"),
        (job("name: x\nruns-on:linux.2xlarge\n# other:thing\n\nsteps: []"), "runs-on:linux.2xlarge"),
        (job("name: x\nruns-on:${{ x }}linux.2xlarge\nsteps: []"), "runs-on:${{ x }}linux.2xlarge"),
        (job("steps:\n  - run: |\n      runner:x\n    name:y\n  - run: z"), "name:y"),
        ("on:push\njobs:\n  a: {}\n", "on:push"),
        ("name: x\non:push\n", "on:push"),
        ("name: x\non:push", "on:push"),
        (job("strategy:\n  matrix:\n    python: [x]\n    os:[a]\nsteps: []"), "os:[a]"),
        (job("strategy:\n  matrix:{os: [a]}\nsteps: []"), "matrix:{os:"),
        (job("strategy: {matrix: {os:[a]}}"), "os:[a]"),
        (job("a: b\nruns-on:x\nname:y\nsteps: []"), "runs-on:x"),
    ],
)
def test_q118_a_missing_blank_that_makes_a_file_no_yaml_is_told_where_it_is(text, at):
    (problem,) = read_workflow(text, "w.yml").problems
    assert (problem.message, problem.hint) == (f"there is no space after the colon of '{at}'", matrix_text.SPACE)
    assert text.split("\n")[problem.line - 1][problem.column - 1 :].startswith(at)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("jobs: [\n", (1, 7)),
        ("jobs: [\n\n\n", (1, 7)),
        ("a: b\na: c:d\n", (2, 1)),
        (job("steps:\n  - run: |\n      runner:x\n      matrix:y\n  bad\n  - x"), (8, 7)),
        (job("steps: [{run: runner:x, with:y}\nname: a: b"), (4, 5)),
    ],
)
def test_q118_a_file_that_is_no_yaml_for_another_reason_says_so_within_it(text, place):
    (problem,) = read_workflow(text, "w.yml").problems
    assert (problem.line, problem.column) == place
    assert problem.hint == "correct the file first"


PROSE = [
    "description: Give the runner as\n  runner:label",
    "args: --foo\n  config:/etc/x",
    "args:\n  --foo\n  config:/etc/x",
    "query: is:open\n  with:label",
    "if: a &&\n  runner:b",
    "what: is\n  not\n  runner:x",
]


@pytest.mark.parametrize("body", PROSE)
def test_q118_prose_over_lines_is_no_missing_blank(body):
    assert problems(job(body)) == []


def test_q118_a_message_shows_an_expression():
    for text in (matrix("{include: [{runner:${{ x }}}]}"), job("uses: ./b.yml\nwith: {runner:${{ x }}}")):
        ((there, message),) = problems(text)
        assert there.startswith("runner:${{ x }}")
        assert message == "there is no space after the colon of 'runner:${{ x }}'"


JSON = '["self-hosted", "linux", "linux.zzz"]'


@pytest.mark.parametrize(
    "form",
    [
        "runs-on: ${{{{ fromJSON(matrix.runner) }}}}\nstrategy: {{matrix: {{runner: ['{}']}}}}",
        "runs-on: ${{{{ matrix.os }}}}\nstrategy: {{matrix: {{os: ['{}']}}}}",
        "runs-on: ${{{{ fromJSON(matrix.os) }}}}\nstrategy: {{matrix: {{os: ['{}']}}}}",
        "uses: ./b.yml\nwith: {{runner: '{}'}}",
        "uses: ./b.yml\nwith: {{runs-on: '{}'}}",
        "on:\n  workflow_call:\n    inputs: {{runner: {{default: '{}'}}}}",
    ],
)
def test_q115_a_list_of_labels_that_is_json_is_read(form):
    assert unknown(job(form.format(JSON))) == ["linux.zzz"]
    for text in ('["self-hosted","linux"]', '{"group": "x"}', "[1, {}, null]", "[]", '["", " "]', '"linux.large"'):
        assert problems(job(form.format(text))) == []


def test_q115_a_job_does_not_read_json_itself():
    (told,) = problems(job("runs-on: '[\"linux\"]'"))
    assert told[1] == "unknown label '[\"linux\"]'"


@pytest.mark.parametrize("name", ["runner", "runs-on"])
def test_q115_lists_of_an_axis_named_runner_are_read(name):
    strategy = f"strategy: {{matrix: {{{name}: [[self-hosted, linux.zzz], [[linux.yyy]], {{labels: [linux.xxx]}}]}}}}"
    assert unknown(job(f"runs-on: ${{{{ matrix.{name} }}}}\n{strategy}")) == ["linux.zzz", "linux.yyy", "linux.xxx"]
    assert problems(job(f"runs-on: linux.large\n{strategy}")) == []


@pytest.mark.parametrize(
    ("axes", "name", "labels"),
    [
        ("os: [{r: linux.zzz}]", "os['r']", ["linux.zzz"]),
        ("os: [{r: {s: linux.zzz}}]", "os['r'].s", ["linux.zzz"]),
        ("Runner: [linux.zzz, linux.large]", "Runner", ["linux.zzz"]),
        ("runner: [linux.zzz]", "Runner", ["linux.zzz"]),
        ("os: [linux.zzz]", "os['r']", []),
        ("os: [linux.zzz]", "os[x]", []),
    ],
)
def test_q115_an_axis_is_followed_however_it_is_named(axes, name, labels):
    assert unknown(job(f"runs-on: ${{{{ matrix.{name} }}}}\nstrategy: {{matrix: {{{axes}}}}}")) == labels
    both = f"runs-on: linux.large\nstrategy:\n  matrix: &m {{{axes}}}"
    other = f"  b:\n    runs-on: ${{{{ matrix.{name} }}}}\n    strategy: {{matrix: *m}}\n"
    assert unknown(job(both) + other) == labels


@pytest.mark.parametrize(
    ("expression", "labels"),
    [
        ("startsWith(github.ref, 'refs/heads/prefix') && 'linux.zzz' || 'linux.yyy'", ["linux.zzz", "linux.yyy"]),
        ("needs.x.outputs.label-type && 'linux.zzz' || 'linux.large'", ["linux.zzz"]),
        ("needs.x.outputs.label-type == '' && 'linux.zzz'", ["linux.zzz"]),
        ("cond && needs.x.outputs.label-type || 'linux.zzz'", []),
        ("needs.x.outputs['label-type'] || 'linux.zzz'", []),
    ],
)
def test_q115_only_a_result_that_is_the_output_is_a_prefix(expression, labels):
    assert unknown(job(f"runs-on: ${{{{ {expression} }}}}")) == labels


def test_q116_the_output_is_a_prefix_however_it_is_named():
    for name in ("x.label-type", "x['label-type']", "format('{0}', x.label-type)", "(c && x.label-type || '')"):
        ((_, message),) = problems(job(f"runs-on: ${{{{ {name} }}}}linux.rocm.gpu.2"))
        assert "which no runner has" in message


@pytest.mark.parametrize("condition", ["matrix.runner == 'x'", "contains(matrix.runner, 'x')", "!matrix.runner"])
def test_q119_a_runner_that_is_only_compared_is_no_label(condition):
    text = f"runs-on: ${{{{ {condition} && 'ubuntu-latest' || 'windows-latest' }}}}\n"
    assert problems(job(text + "strategy: {matrix: {runner: [mocha]}}")) == []


@pytest.mark.parametrize("text", ['"@matrix.json"', '"*"', "'*.py'", '"a: b: c"', "'{{ x }}'", "'{a: runner:x}'", "x"])
def test_q119_a_text_named_matrix_may_be_anything(text):
    assert problems(job(f"runs-on: linux.large\nenv: {{MATRIX: {text}, matrix: {text}, TEST_MATRIX: {text}}}")) == []
    assert problems(job(f"uses: ./b.yml\nwith:\n  matrix: {text}")) == []
    assert (text == "x") <= bool(problems(job(f"uses: ./b.yml\nwith:\n  test-matrix: {text}")))


@pytest.mark.parametrize(
    "body",
    [
        "runs-on: ${{ matrix.os }}\nstrategy: {matrix: {include: [{os: null}]}}",
        "runs-on: ${{ matrix.os || 'linux.large' }}\nstrategy: {matrix: {os: [ubuntu-latest, ~]}}",
        "uses: ./b.yml\nwith: {runner: null, check_experiments: ~}",
        "on: {workflow_call: {inputs: {runner: {default: null}}}}",
        "outputs: {runner: \"${{ steps.a.outputs.x || 'cuda' }}\"}\nruns-on: linux.large",
    ],
)
def test_q119_null_and_outputs_are_no_labels(body):
    assert problems(job(body)) == []


@pytest.mark.parametrize("name", ["matrix", "env", "outputs", "steps", "test-matrix", "runner"])
def test_q119_a_job_may_have_any_name(name):
    text = f"on: push\njobs:\n  {name}:\n    runs-on: LABEL\n    steps: [{{with: {{runner: jest, http:x: y}}}}]\n"
    assert problems(text.replace("LABEL", "linux.large")) == []
    assert unknown(text.replace("LABEL", "linux.zzz")) == ["linux.zzz"]


def test_q118_one_mistake_in_a_matrix_is_one_error():
    assert problems(matrix("{include: [{runner: null}]}")) == [("null}]}", 'runner: found "null", expected a label')]


def test_q115_the_default_of_a_test_matrix_counts():
    text = "on: {workflow_call: {inputs: {test-matrix: {default: '{include: [{runner: linux.zzz}]}'}}}}"
    assert unknown(text) == ["linux.zzz"]
    assert problems(text.replace("linux.zzz", "linux.large")) == []


@pytest.mark.parametrize(
    ("body", "count"),
    [
        (f"runs-on: ${{{{ {' == '.join(['matrix.a'] * 10_000)} }}}}\nstrategy: {{matrix: {{runner: [x]}}}}", 0),
        ("runs-on: [" + ", ".join(f"zz{number}" for number in range(6_000)) + "]", 6_000),
        ("uses: ./b.yml\nwith:\n  what:\n    " + "runner:b " * 60_000, 1),
        ("name: x\n" + "runs-on:b\n" * 60_000, 1),
    ],
    ids=["compared", "labels", "fields", "broken"],
)
def test_large_workflows_are_checked_in_time(body, count):
    started = time.monotonic()
    assert len(problems(job(body))) == count
    assert time.monotonic() - started < 15


def test_places_in_large_texts_are_found_in_time():
    entries = ",\n".join(f'      {{ config: \\"c{number}\\", runner: \\"LINUX.ZZZ\\" }}' for number in range(2000))
    started = time.monotonic()
    read: Workflow = read_workflow(job(f'test-matrix: "{{ include: [\n{entries} ]}}"'), "w.yml")
    read_workflow(job("x: " + "runner:a " * 20_000 + "\nrun: " + "--check-experiments=a " * 20_000), "w.yml")
    read_workflow(job("runs-on: " + "${{ a && " * 5_000 + "${{ ('a' || " * 5_000 + "}}" * 9), "w.yml")
    assert time.monotonic() - started < 20
    assert len(read.uses) == 2000
    assert len({use.line for use in read.uses}) == 2000
    assert json.dumps([use.note for use in read.uses]).count("somewhere") == 0
