"""Q81 to Q92: a test matrix translated."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest

from pytest_sgpu.runners.routing.fleets import parse_fleets
from pytest_sgpu.runners.routing.mapping import parse_mapping
from pytest_sgpu.runners.routing.matrix import Translation, Unknown, translate
from pytest_sgpu.runners.routing.matrix_text import LIMIT

CONF = Path(__file__).parents[3] / "conf"
FLEETS = parse_fleets((CONF / "runner_routing.yaml").read_text(encoding="utf-8"), "fleets.yaml")
ARC = parse_mapping((CONF / "arc.yaml").read_text(encoding="utf-8"), "arc.yaml", "meta_only_runners")
LARGE = "l-x86iavx512-2-4"
H100 = "mt-l-x86iamx-22-225-h100"


def run(text: str, prefix: str = "mt-") -> Translation:
    return translate(text, "matrix", prefix, ARC, FLEETS)


def rows(text: str, prefix: str = "mt-") -> list[dict[str, object]]:
    """The entries that come out; nothing may be wrong."""
    found = run(text, prefix)
    assert found.text is not None, found.problems
    assert found.text.isprintable()
    value = json.loads(found.text)
    assert list(value) == ["include"]
    include: list[dict[str, object]] = value["include"]
    return include


def labels(text: str, prefix: str = "mt-") -> list[object]:
    return [row["runner"] for row in rows(text, prefix)]


def told(text: str, prefix: str = "mt-") -> list[str]:
    return [str(problem) for problem in run(text, prefix).problems]


def entry(fields: str) -> str:
    return f"{{ include: [ {{ {fields} }} ] }}"


def wrong(text: str, prefix: str = "mt-") -> str:
    """The one error of a text; nothing may be emitted."""
    found = run(text, prefix)
    assert found.text is None
    (problem,) = [problem for problem in found.problems if problem.severity == "error"]
    assert problem.message.isprintable()
    assert problem.hint.isprintable()
    return str(problem)


FLOW = """{ include: [
  { config: "default", shard: 1, num_shards: 2, runner: "linux.large" },
  { config: "default", shard: 2, num_shards: 2, runner: linux.aws.h100 }, # the last one
]}"""
BLOCK = """\
include:
  - config: default
    shard: 1
    num_shards: 2
    runner: linux.large

  # a comment
  - {config: default, shard: 2, num_shards: 2, runner: 'linux.aws.h100'}
"""
FLUSH = """\
include:
- config: default
  shard: 1
  num_shards: 2
  runner: linux.large
- config: "default"
  shard: 2
  num_shards: 2
  runner: linux.aws.h100
"""
JSON = """{"include": [{"config": "default", "shard": 1, "num_shards": 2, "runner": "linux.large"},
{"config": "default", "shard": 2, "num_shards": 2, "runner": "linux.aws.h100"}]}"""
TWO = (
    '{"include": [{"config": "default", "shard": 1, "num_shards": 2, "runner": "mt-l-x86iavx512-2-4"}, '
    '{"config": "default", "shard": 2, "num_shards": 2, "runner": "mt-l-x86iamx-22-225-h100"}]}'
)


@pytest.mark.parametrize(
    "text",
    [
        FLOW,
        BLOCK,
        FLUSH,
        JSON,
        JSON.replace(" ", "\t"),
        JSON.replace(" ", ""),
        JSON.replace("}]", "},]"),
        json.dumps(json.loads(JSON), indent=1),
        FLOW.replace("\n", "\r\n"),
        f"---\n{BLOCK}...\n",
        f"\n\n# what comes first\n{FLOW}\n\n",
        "\ufeff" + FLOW,
    ],
    ids=["flow", "block", "flush", "json", "tabs", "tight", "comma", "indent", "crlf", "document", "comments", "bom"],
)
def test_q81_every_form_of_yaml_and_json_gives_the_same(text):
    assert run(text).text == TWO
    assert not run(text).problems


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("on", '"on"'),
        ("off", '"off"'),
        ("yes", '"yes"'),
        ("010", '"010"'),
        ("0x10", '"0x10"'),
        ("1:30", '"1:30"'),
        ("1_000", '"1_000"'),
        ("1e3", '"1e3"'),
        ("2026-11-30", '"2026-11-30"'),
        (".inf", '".inf"'),
        ("NaN", '"NaN"'),
        ("+1", '"+1"'),
        ("1.50", "1.50"),
        ("-12", "-12"),
        ("0", "0"),
        ("123456789012345678901234567890", "123456789012345678901234567890"),
        ("true", "true"),
        ("False", "false"),
        ("null", "null"),
        ("~", "null"),
        ('"1"', '"1"'),
        ("'true'", '"true"'),
        ("!!str 1", '"1"'),
        ("[1, on, {a: 2.0}]", '[1, "on", {"a": 2.0}]'),
    ],
)
def test_q82_a_value_stays_what_was_written(value, written):
    found = run(entry(f"config: {value}, runner: linux.large"))
    assert found.text == f'{{"include": [{{"config": {written}, "runner": "mt-{LARGE}"}}]}}'


@pytest.mark.parametrize("number", ["1e3", "1.50", "-0", "1E-2", "9" * 5000])
def test_q82_numbers_of_json_stay_as_written(number):
    text = f'{{"include": [{{"shard": {number}, "runner": "linux.large"}}]}}'
    assert run(text).text == text.replace("linux.large", f"mt-{LARGE}")


def test_q83_order_and_other_fields_are_kept():
    text = entry("zeta: [b, a], runner: linux.large, alpha: {y: 1, x: }, config: c")
    assert list(rows(text)[0].items()) == [
        ("zeta", ["b", "a"]),
        ("runner", f"mt-{LARGE}"),
        ("alpha", {"y": 1, "x": None}),
        ("config", "c"),
    ]


def test_q83_what_is_not_ascii_is_kept():
    found = run(entry('config: "größe 大 🚀", runner: linux.large'))
    assert found.text
    assert '"größe 大 🚀"' in found.text


@pytest.mark.parametrize(
    "value", [r"a\nb", r"\u2028", r"\u0085", r"\u200b", r"\u0000", r"\u007f", r"\ud800", r"\u00ad"]
)
def test_q83_what_does_not_print_is_escaped(value):
    text = f'{{"include": [{{"config": "{value}", "runner": "linux.large"}}]}}'
    found = run(text)
    assert found.text == text.replace("linux.large", f"mt-{LARGE}")
    assert found.text.encode()
    assert json.loads(found.text)["include"][0]["config"] == json.loads(f'"{value}"')


@pytest.mark.parametrize(
    ("text", "emitted"),
    [
        ("", ""),
        (" \n\t\n", ""),
        ("# nothing\n", ""),
        ("{}", "{}"),
        (" { }\n", "{}"),
        ("[]", "[]"),
        ("null", "null"),
        ("~", "null"),
        ("''", '""'),
        ('{"include": null}', '{"include": null}'),
        ("include:", '{"include": null}'),
        ("{include: }", '{"include": null}'),
        ("{include: []}", '{"include": []}'),
        ('{"include":[]}', '{"include": []}'),
        ('{"include": {}}', '{"include": {}}'),
        ("{include: { }}", '{"include": {}}'),
        ('{"include": ""}', '{"include": ""}'),
        ("include: ''", '{"include": ""}'),
    ],
)
def test_q84_nothing_is_passed_on_as_nothing(text, emitted):
    for prefix in ("", "mt-", "lf-"):
        found = run(text, prefix)
        assert (found.text, found.problems, found.changed) == (emitted, (), ())


@pytest.mark.parametrize(
    ("text", "emitted", "line", "named"),
    [
        ("{a: 1}", '{"a": 1}', 1, "'a'"),
        ('{"a": 1}', '{"a": 1}', 1, "'a'"),
        ('{"include": [], "a": 1}', '{"include": [], "a": 1}', 1, "'a'"),
        ('{"a": 1, "include": []}', '{"a": 1, "include": []}', 1, "'a'"),
        ('{"a": 1, "include": {}}', '{"a": 1, "include": {}}', 1, "'a'"),
        ('{include: "", a: 1}', '{"include": "", "a": 1}', 1, "'a'"),
        (
            "include:\npython: [3.10, on]\nos: [a]",
            '{"include": null, "python": [3.10, "on"], "os": ["a"]}',
            2,
            "'python', 'os'",
        ),
        ("\nrunner: [linux.large]", '{"runner": ["linux.large"]}', 2, "'runner'"),
        ("{b: 010}", '{"b": "010"}', 1, "'b'"),
    ],
)
def test_q84_without_entries_all_is_passed_on_and_told(text, emitted, line, named):
    for prefix in ("", "mt-", "lf-"):
        found = run(text, prefix)
        assert (found.text, found.changed) == (emitted, ())
        (problem,) = found.problems
        assert (problem.line, problem.severity) == (line, "warning")
        assert problem.message.startswith(f"no entries in include: nothing is translated, {named}")
        assert problem.hint == "write each combination as an entry of include"


@pytest.mark.parametrize("name", ["includes", "Include", "inlcude", "includ"])
def test_q84_a_misspelt_include_is_told(name):
    text = f"{{{name}: [{{runner: linux.large}}]}}"
    assert told(text) == [
        (
            f"matrix:1: warning: no entries in include: nothing is translated, '{name}' passed on as written "
            f"('{name}' is not include)"
        )
    ]
    assert run("{exclude: []}").problems[0].hint == "write each combination as an entry of include"


def test_q84_a_prefix_is_refused_without_entries_too():
    assert run("{a: 1}", "lf.").text is None


def test_q85_an_excluded_config_is_dropped_and_said():
    text = """{ include: [
      { config: "onnx", runner: "linux.nowhere" },
      { config: "default", runner: "linux.large" },
      { config: "Onnx", runner: "linux.large" },
      { config: onnx },
    ]}"""
    found = run(text)
    assert [row["config"] for row in rows(text)] == ["default", "Onnx"]
    assert [(one.line, one.config) for one in found.dropped] == [(2, "onnx"), (5, "onnx")]
    assert found.dropped[0].reason == FLEETS.excluded_configs["onnx"]
    assert not found.problems


def test_q85_a_matrix_of_which_nothing_is_left_is_told():
    found = run(entry("config: onnx, runner: linux.large"))
    assert found.text == '{"include": []}'
    assert told(entry("config: onnx, runner: linux.large")) == [
        "matrix:1: warning: no entry is left, and GitHub makes no matrix of none"
    ]


def test_q85_errors_leave_nothing_too_and_that_is_not_told():
    assert told("include: [word]") == ['matrix:1: error: found "word", expected an entry such as { runner: NAME }']


def test_q86_all_unknown_labels_are_in_one_error():
    text = """include:
      - {config: a, runner: linux.larg}
      - {config: b, runner: linux.large}
      - {config: c, runner: mt-linux.dgx.b200.8}
      - {config: d, runner: linux.larg}
      - {config: e, runner: zzzzzzzzzzzz}
    """
    assert wrong(text) == (
        "matrix:2: error: no translation for 3 labels: 'linux.larg' (lines 2, 5; did you mean \"linux.large\"?), "
        "'mt-linux.dgx.b200.8' (line 4; did you mean \"linux.dgx.b200\"?), 'zzzzzzzzzzzz' (line 6) (add to "
        "runner_mapping in arc.yaml; what is not to be translated maps to itself)"
    )
    assert run(text).unknown[0] == Unknown("linux.larg", (2, 5), 'did you mean "linux.large"?')


@pytest.mark.parametrize("label", ["on", "010", "1:30", "Linux.Large", "lf.l-x86iavx512-2-4", "linux.dgx.b200.8"])
def test_q86_there_is_no_passing_through_of_unknown_labels(label):
    assert wrong(entry(f"runner: {label}")).startswith(
        f"matrix:1: error: no translation for a label: '{label}' (line 1"
    )


def test_q86_an_expression_is_translated_afterwards():
    assert "(line 1; an expression: translate after" in wrong(entry('runner: "${{ inputs.runner }}"'))


def test_q86_lines_of_json_are_known():
    text = '{\n "include":\n [\n  {"config": "[{", "runner": "linux.large"},\n\n  {"runner":\n "x"}, {"runner": "y"}]}'
    assert [(one.label, one.lines) for one in run(text).unknown] == [("x", (6,)), ("y", (7,))]


def test_q86_a_line_is_named_once_for_a_label():
    text = "include: [{runner: x}, {runner: x},\n{runner: x}, {runner: y}, {runner: x}]"
    assert [(one.label, one.lines) for one in run(text).unknown] == [("x", (1, 2)), ("y", (2,))]
    assert "'x' (line 1) (add to" in wrong("include: [{runner: x}, {runner: x}]")


def test_q86_a_thousand_unknown_labels_are_one_error_of_some_length():
    text = json.dumps({"include": [{"runner": f"no.{number}"} for number in range(1000)]})
    assert "no translation for 1000 labels: 'no.0' (line 1), 'no.1' (line 1), " in wrong(text)
    named = wrong(text).count("(line 1")
    assert 150 < named < 250
    assert f" and {1000 - named} more (add to" in wrong(text)
    assert len(wrong(text)) < 4000
    assert len(run(text).unknown) == 1000


def test_q86_twenty_labels_of_some_length_are_in_one_line():
    text = "include:\n" + "".join(f"- {{runner: linux.g5.4xlarge.nvidia.gp{n}}}\n" for n in range(20))
    assert wrong(text).count("did you mean") == 20
    assert run(text).refused in run(text).problems
    assert run(FLOW).refused is None


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (
            '{include:[{config:"x",runner:"linux.aws.h100"}]}',
            "1: error: neither YAML nor JSON: there is no space after",
        ),
        (
            '{include: [{config:"x",runner:"linux.aws.h100"}]}',
            "1: error: there is no space after the colon of 'config:",
        ),
        ('{include: [{config: "x", runner:linux.large}]}', "1: error: there is no space after the colon of 'runner:"),
        ('{include: [\n{config: "x",\nshard:1, runner: linux.large}]}', "3: error: there is no space after the colon"),
        ("include:[{config: x}]", "1: error: there is no space after the colon"),
        ("include:\n- config:x", '2: error: found "config:x", expected an entry such as { runner: NAME }'),
        ("include:\n- config: x\n  runner:linux.large", "3: error: neither YAML nor JSON: there is no space after"),
        (
            "{include: [{config: x\n runner:linux.large}]}",
            "1: error: 'config' is 'x runner:linux.large': the runner is",
        ),
        ("include:x", '1: error: found "include:x", expected a mapping with include'),
    ],
)
def test_q87_a_missing_space_is_an_error(text, what):
    assert wrong(text).startswith(f"matrix:{what}")
    assert wrong(text).endswith("(write a space after each colon (runner: NAME))")


@pytest.mark.parametrize(
    "text", [entry('"a:b": , runner: linux.large'), '{"include":[{"a:b":null,"runner":"linux.large"}]}']
)
def test_q87_a_key_in_quotes_may_have_a_colon(text):
    assert rows(text) == [{"a:b": None, "runner": f"mt-{LARGE}"}]


@pytest.mark.parametrize("value", ["http://host/x", "a:b", "12:30:00", "C:/x"])
def test_q87_a_value_may_have_a_colon(value):
    assert rows(entry(f"url: {value}, runner: linux.large"))[0]["url"] == value


def test_q87_spaces_make_the_seeds_own_check_work():
    assert labels('{include: [{config: "x", runner: "linux.aws.h100"}]}', "lf-") == [H100]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("[{runner: linux.large}]", "1: error: found a list of 1, expected a mapping with include"),
        ('["a"]', "1: error: found a list of 1, expected a mapping with include"),
        ("words", '1: error: found "words", expected a mapping with include'),
        ("12", "1: error: found the number 12, expected a mapping with include"),
        ("0", "1: error: found the number 0, expected a mapping with include"),
        ("false", "1: error: found false, expected a mapping with include"),
        ("\n{include: x}", '2: error: include: found "x", expected a list'),
        ("include:\n  runner: linux.large", "1: error: include: found a mapping, expected a list"),
        ('{"include": {"a": 1}}', "1: error: include: found a mapping, expected a list"),
        ('{"include": false}', "1: error: include: found false, expected a list"),
        ("{include: 0}", "1: error: include: found the number 0, expected a list"),
        ("{include: ' '}", "1: error: include: found a blank text, expected a list"),
        ("{include: [\nlinux.large]}", '2: error: found "linux.large", expected an entry such as'),
        ("{include: [[]]}", "1: error: found an empty list, expected an entry such as"),
        ('{"include": [\n1]}', "2: error: found the number 1, expected an entry such as"),
        ("{include: [null]}", "1: error: found null, expected an entry such as"),
        (entry("runner: [self-hosted, linux.large]"), "1: error: runner: found a list of 2, expected a label"),
        ('{"include": [{"runner": ["linux.large"]}]}', "1: error: runner: found a list of 1, expected a label"),
        (entry("runner: {group: x}"), "1: error: runner: found a mapping, expected a label"),
        (entry("runner: 12"), "1: error: runner: found the number 12, expected a label"),
        (entry("runner: true"), "1: error: runner: found true, expected a label"),
        (entry("runner: "), "1: error: runner: found null, expected a label"),
        (entry('runner: " "'), "1: error: runner: found a blank text, expected a label"),
        ("include: [{}]\npython: [3]\nos: [a]", "2: error: found 'python', 'os' beside include, and only include is"),
        ('{"include": [1], "exclude": []}', "1: error: found 'exclude' beside include, and only include is"),
        ('{"a": 1, "include": {"b": 1}}', "1: error: found 'a' beside include, and only include is translated"),
        ('{"a": 1, "include": false}', "1: error: found 'a' beside include, and only include is translated"),
        ("include:\n\t- {}", "2: error: no valid YAML: "),
        ('{"include": [}', "1: error: no valid YAML: "),
        ("include: []\n---\ninclude: []", "2: error: no valid YAML: "),
        ("include: [*a]", "1: error: no valid YAML: found undefined alias"),
        ("include:\n- &a [*a]", "2: error: an alias contains itself"),
        ("include:\n- {[a]: b}", "2: error: a key is no text"),
        (entry("runner: linux.large,\n  runner: linux.2xlarge"), "2: error: the key 'runner' is there twice, first in"),
        ('{"include":[{"runner":"a","runner":"b"}]}', "1: error: the key 'runner' is there twice, first in line 1"),
        (
            '{"include":[{"a":[{"b":"c:{"}]},{"b":1,\n"x":{"b":2},"b":3}]}',
            "2: error: the key 'b' is there twice, first",
        ),
        ('{"include": [],\n"include": []}', "2: error: the key 'include' is there twice, first in line 1"),
    ],
)
def test_q88_what_is_no_matrix_is_an_error_in_its_line(text, what):
    assert wrong(text).startswith(f"matrix:{what}")


def test_q88_a_merge_key_is_an_error_in_its_line():
    assert re.match("matrix:2: error: .*merge keys", wrong("include:\n- {<<: {a: b}}"))


def test_q88_several_errors_are_told_at_once():
    text = "include:\n- {runner: [x]}\n- word\n- {runner: nowhere}\n- {runner: linux.large}"
    assert [line.split(": error: ")[0] for line in told(text)] == ["matrix:2", "matrix:3", "matrix:4"]
    assert run(text).text is None


@pytest.mark.parametrize("prefix", ["", "mt-", "lf-"])
def test_q89_an_entry_without_a_runner_is_passed_on_with_a_warning(prefix):
    text = "include:\n- {config: x}\n- {}"
    assert rows(text, prefix) == [{"config": "x"}, {}]
    assert told(text, prefix) == [
        f"matrix:{line}: warning: an entry without a runner, passed on as it is" for line in (2, 3)
    ]


@pytest.mark.parametrize("prefix", ["lf.", "lf.c.", "amd-do-", "mt", "MT-", "x\n::error::y"])
def test_q90_a_prefix_that_does_not_translate_is_refused(prefix):
    assert wrong(FLOW, prefix).startswith("matrix: error: the prefix '")
    assert wrong(FLOW, prefix).endswith("(translate for 'c-mt-', 'lf-', 'mt-', or leave the matrix as it is)")


@pytest.mark.parametrize(
    ("prefix", "expected"), [("mt-", f"mt-{LARGE}"), ("lf-", f"lf-{LARGE}"), ("c-mt-", f"c-mt-{LARGE}"), ("", LARGE)]
)
def test_q90_each_prefix_that_translates(prefix, expected):
    assert labels(FLOW, prefix) == [expected, H100]


def test_q90_an_empty_prefix_is_told():
    assert told(FLOW, "") == ["matrix: warning: without a prefix labels name no fleet, and perhaps no runner"]
    assert not told(entry("runner: linux.aws.h100"), "")
    assert not told(entry("runner: linux.idc.xpu"), "")


def test_q90_partner_labels_are_passed_through():
    text = "include:\n- {runner: linux.rocm.gpu.2}\n- {runner: linux.idc.xpu}\n- {runner: mt-linux.google.tpuv7x.1}"
    assert labels(text) == ["linux.rocm.gpu.2", "linux.idc.xpu", "linux.google.tpuv7x.1"]
    assert [one.resolution.rule for one in run(text).changed] == ["passed-through"] * 3


def test_q90_translated_labels_get_the_given_prefix_and_are_told():
    text = f"include:\n- {{runner: mt-{LARGE}}}\n- {{runner: lf-{LARGE}}}\n- {{runner: {LARGE}}}"
    assert labels(text) == [f"mt-{LARGE}"] * 3
    hint = "(write the label that the table translates)"
    moved = f"is translated already, but another prefix is given: it becomes 'mt-{LARGE}'"
    assert told(text) == [
        f"matrix:2: warning: 'mt-{LARGE}' is translated already, and stays {hint}",
        f"matrix:3: warning: 'lf-{LARGE}' {moved} {hint}",
        f"matrix:4: warning: '{LARGE}' {moved} {hint}",
    ]


@pytest.mark.parametrize("prefix", ["", "mt-", "lf-", "c-mt-"])
@pytest.mark.parametrize("other", ["", "lf-", "c-mt-"])
def test_q90_a_translated_label_that_is_pinned_gets_the_prefix_of_the_pin(prefix, other):
    target = H100.removeprefix("mt-")
    text = entry(f"runner: {other}{target}")
    assert labels(text, prefix) == [H100]
    assert told(text, prefix) == [
        (
            f"matrix:1: warning: '{other}{target}' is translated already, but is pinned: it becomes '{H100}' (write "
            "the label that the table translates)"
        )
    ]


def test_q90_a_label_that_its_fleet_cannot_serve_is_told():
    label_map = parse_mapping("runner_mapping: {big: l-x86i-2-4-h100, small: l-x86i-2-4}", "arc.yaml", "")
    text = "include:\n- {runner: small}\n- {runner: big}\n- {runner: lf-l-x86i-2-4-h100}"
    found = [str(one) for one in translate(text, "matrix", "lf-", label_map, FLEETS).problems]
    assert "matrix:3: warning: no runner can serve 'lf-l-x86i-2-4-h100': arc + lf has none" in found
    assert sum("no runner can serve" in one for one in found) == 2
    found = [str(one) for one in translate(text, "matrix", "mt-", label_map, FLEETS).problems]
    assert not any("no runner can serve" in one for one in found)


def test_q90_the_prefix_of_another_fleet_is_replaced_and_told_once_for_a_label():
    text = "include:\n- {runner: lf.linux.large}\n- {runner: lf.linux.large}\n- {runner: lf-linux.aws.h100}"
    assert labels(text) == [f"mt-{LARGE}", f"mt-{LARGE}", H100]
    assert told(text) == [
        (
            f"matrix:2: warning: 'lf.linux.large' came with the prefix 'lf.', and becomes 'mt-{LARGE}' (write the "
            "label without a prefix)"
        ),
        (
            f"matrix:4: warning: 'lf-linux.aws.h100' came with the prefix 'lf-', and becomes '{H100}' (write the "
            "label without a prefix)"
        ),
    ]


@pytest.mark.parametrize(
    "name",
    ["x\n::error::y", "x\r\nlabel-type=evil", "a::b", "\x1b[31m", "##[command]", "$(id)", "`id`", "';--", "\u2028x"],
)
def test_q91_hostile_names_stay_on_one_line(name):
    assert wrong(json.dumps({"include": [{"runner": name}]})).startswith(
        "matrix:1: error: no translation for a label: "
    )
    assert wrong(json.dumps({name: 1, "include": [{}]})).startswith("matrix:1: error: found '")
    assert told(json.dumps({name: 1}))[0].isprintable()
    text = json.dumps({"include": [{"runner": "linux.large", "config": name, name: name}]}, ensure_ascii=False)
    assert rows(text) == [{"runner": f"mt-{LARGE}", "config": name, name: name}]


def test_q92_anchors_are_followed_and_each_entry_translated():
    text = "include:\n- &one {runner: &label linux.large, tags: &tags [a]}\n- *one\n- {runner: *label, tags: *tags}"
    assert rows(text) == [{"runner": f"mt-{LARGE}", "tags": ["a"]}] * 3


def test_q92_anchors_that_grow_without_bound_are_refused():
    levels = [f"  - &a{level} [{', '.join([f'*a{level - 1}'] * 9)}]" for level in range(1, 12)]
    text = "\n".join(["include:", "- runner: linux.large", "  a:", "  - &a0 [lol]", *levels])
    assert wrong(text).startswith(f"matrix:1: error: the result has more than {LIMIT} characters")


@pytest.mark.parametrize("depth", [10, 100, 500, 800, 850, 900, 950, 100_000])
@pytest.mark.parametrize("form", ["{}", "{{include: [{{a: {} }}]}}", '{{"include": [{{"a": {}}}]}}'])
def test_q92_deep_nesting_is_an_error_or_a_result(depth, form):
    found = run(form.format("[" * depth + "]" * depth))
    assert (found.text is None) == any(problem.severity == "error" for problem in found.problems)


def test_q92_a_text_that_is_too_long_is_refused():
    assert wrong(" " * (LIMIT + 1)) == f"matrix:1: error: {LIMIT + 1} characters, expected at most {LIMIT}"


def test_q92_a_large_matrix_is_quick():
    entries = [{"config": "default", "shard": n, "num_shards": 9000, "runner": "linux.large"} for n in range(9000)]
    start = time.monotonic()
    found = run(json.dumps({"include": entries}))
    assert time.monotonic() - start < 5
    assert len(found.changed) == 9000
    assert [str(problem) for problem in found.problems] == [
        "matrix:1: warning: 9000 entries: GitHub makes at most 256 jobs of a matrix"
    ]


def test_a_mapping_that_is_not_usable_leaves_nothing_to_emit():
    found = translate(FLOW, "matrix", "mt-", parse_mapping("", "arc.yaml", ""), FLEETS)
    assert (found.text, found.unknown) == (None, ())
    assert str(found.problems[0]).startswith("arc.yaml:1: error: found nothing")


def test_the_lines_and_reasons_of_changes_are_there():
    (first, second) = run(FLOW, "lf-").changed
    assert (first.line, first.before, first.resolution.rule) == (2, "linux.large", "translated")
    assert first.resolution.text.startswith(f"'linux.large' is '{LARGE}', with the prefix 'lf-' in front; arc.yaml:")
    assert (second.line, second.resolution.rule) == (3, "pinned")
