"""The fleets file: what is shipped, how others state their own, and that every mistake has its line."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from pytest_sgpu.errors import ConfError
from pytest_sgpu.runners.lint.yaml_text import Mapping, Sequence, Text, Value, parse
from pytest_sgpu.runners.routing.fleets import LONGEST_FILE, Fleets, parse_fleets
from pytest_sgpu.runners.routing.scalars import resolve

ROOT = Path(__file__).parents[3]
SHIPPED = ROOT / "conf" / "runner_routing.yaml"
SCHEMA = ROOT / "docs" / "reference" / "runner-routing.schema.json"

OWN = """\
version: 1
outputs: {label: lane, translates: on-metal}
fleets:
  metal: {experiment: bare, prefix: bm/, translates: true}
""".replace("bm/", "bm-")

FULL = """\
version: 1
outputs:
  label: lane
  translates: on-metal
default-prefix: cloud-
fleets:
  metal:
    experiment: bare
    prefix: bm-
    canary-prefix: cbm-
    translates: true
    serves: [big-*]
    lacks: [big-9]
  spot:
    prefix: spot_
precedence: [spot, metal]
combinations:
  - fleets: [metal, spot]
    prefix: both-
    canary-prefix: cboth-
other-end: "_"
separate:
  arm:
    output: arm-lane
    prefix: arm-
exception-branches: [stable]
canary-repositories: [Acme/Bird]
kill-switch:
  label: plain please
  experiments: [bare]
excluded-configs:
  on: it hangs
pins:
  list: metal_only
  prefix: bm-
target-grammar: 'big-[0-9]+'
bots:
  - actor: robot
    ref-type: tag
    tag: 'run/(?P<number>[0-9]+)'
"""


def shipped() -> Fleets:
    return parse_fleets(SHIPPED.read_text(encoding="utf-8"), "conf/runner_routing.yaml")


def own() -> Fleets:
    return parse_fleets(FULL, "own.yaml")


def test_q32_the_shipped_file_holds_what_the_facts_say():
    fleets = shipped()
    assert list(fleets.fleets) == ["arc", "lf"]
    states = [fleets.place(names) for names in ([], ["lf"], ["arc"], ["lf", "arc"])]
    assert [(one.prefix, one.canary_prefix, one.translates) for one in states] == [
        ("", "", False),
        ("lf.", "lf.c.", False),
        ("mt-", "c-mt-", True),
        ("lf-", "lf-", True),
    ]
    assert fleets.exception_branches == ("main", "nightly", "release", "landchecks")
    assert fleets.canary_repositories == ("pytorch/pytorch-canary",)
    assert fleets.kill_switch is not None
    assert fleets.kill_switch.label == "no-runner-experiments"
    assert fleets.kill_switch.experiments is None
    assert fleets.pins is not None
    assert (fleets.pins.key, fleets.pins.prefix) == ("meta_only_runners", "mt-")
    assert list(fleets.excluded_configs) == ["onnx"]
    assert [(one.experiment, one.output, one.prefix) for one in fleets.separate] == [
        ("amd-do", "amd-do-label-type", "amd-do-")
    ]
    assert (fleets.label_output, fleets.translates_output, fleets.other_end) == ("label-type", "use-arc", ".")


def test_q32_the_shipped_prefixes_are_known_longest_first():
    known = shipped().prefixes
    assert {prefix: place.translates for prefix, place in known.items()} == {
        "amd-do-": False,
        "c-mt-": True,
        "lf.c.": False,
        "mt-": True,
        "lf.": False,
        "lf-": True,
    }
    assert [len(prefix) for prefix in known] == sorted((len(prefix) for prefix in known), reverse=True)


@pytest.mark.parametrize(
    ("names", "label", "served"),
    [
        ([], "linux.aws.h100", True),
        (["arc"], "l-x86iamx-22-225-h100", True),
        (["arc", "lf"], "l-x86iamx-22-225-h100", False),
        (["arc", "lf"], "l-bx86iamx-176-1800-h100-8", False),
        (["arc", "lf"], "l-x86iamx-22-225-b200", False),
        (["arc", "lf"], "l-x86iavx512-8-64", True),
        (["lf"], "linux.aws.h100.4", False),
        (["lf"], "linux.dgx.b200", False),
        (["lf"], "linux.aws.a100", True),
    ],
)
def test_q32_the_shipped_file_says_which_fleet_has_no_such_machine(names, label, served):
    assert shipped().place(names).can_serve(label) is served


def test_q32_every_target_of_the_shipped_mapping_fits_the_grammar():
    grammar = shipped().target_grammar
    assert grammar is not None
    targets = re.findall(r": (l-\S+)", (ROOT / "conf" / "arc.yaml").read_text(encoding="utf-8"))
    assert len(targets) == 38
    assert [target for target in targets if not grammar.fullmatch(target)] == []


def test_q31_another_file_with_other_names_says_it_all():
    fleets = own()
    assert list(fleets.fleets) == ["spot", "metal"]
    assert fleets.experiments == {"bare": "metal", "spot": "spot"}
    assert fleets.place([]).prefix == "cloud-"
    assert fleets.place(["metal"]).prefix_for(canary=True) == "cbm-"
    assert fleets.place(["metal", "spot"]).prefix_for(canary=True) == "cboth-"
    assert fleets.place_of(["spot", "bare", "other"]).prefix == "both-"
    assert fleets.place(["metal"]).can_serve("big-1")
    assert not fleets.place(["metal"]).can_serve("big-9")
    assert not fleets.place(["metal"]).can_serve("small-1")
    assert fleets.kill_switch is not None
    assert fleets.kill_switch.experiments == frozenset({"bare"})
    assert fleets.excluded_configs == {"on": "it hangs"}


def test_q31_the_least_file_has_two_outputs_and_nothing_else():
    fleets = parse_fleets("version: 1\noutputs: {label: a, translates: b}\n", "s")
    assert fleets.places == (fleets.default,)
    assert fleets.prefixes == {}
    assert (fleets.kill_switch, fleets.pins, fleets.target_grammar, fleets.bots) == (None, None, None, ())
    assert fleets.pull_request("robot", "tag", "run/1") is None
    assert not fleets.is_canary("acme/bird")


def test_q31_no_name_of_the_shipped_file_is_in_the_code():
    fleets = shipped()
    assert fleets.kill_switch is not None
    assert fleets.pins is not None
    names = {*fleets.exception_branches, *fleets.canary_repositories, *fleets.excluded_configs, *fleets.experiments}
    names |= set(fleets.prefixes) | {one.output for one in fleets.separate}
    names |= {one.experiment for one in fleets.separate} | {bot.actor for bot in fleets.bots}
    names |= {fleets.kill_switch.label, fleets.pins.key, "pytorch", "ciflow", "onnxruntime", "linux.", "lf_"}
    names -= {"main", "release"}  # words of every project
    runners = ROOT / "pytest_sgpu" / "runners"
    code = {path: path.read_text(encoding="utf-8") for path in (runners / "routing").glob("*.py")}
    for path in (runners / "route").glob("*.py"):  # --arc and its file have that name; examples are examples
        text = re.sub(r'--arc\b|"arc"|\bargs\.arc\b|\barc\.yaml', "", path.read_text(encoding="utf-8"))
        code[path] = re.sub(r"(?m)^  sgpu route .*$", "", text)
    assert len(code) > 25
    hits = [
        f"{path.name}: {name}"
        for path, text in code.items()
        for name in names
        if re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w])", text, re.IGNORECASE)
    ]
    assert hits == []


def test_q58_the_first_fleet_in_precedence_wins_where_no_combination_is_stated():
    text = """\
version: 1
outputs: {label: a, translates: b}
fleets: {one: {prefix: 1-}, two: {prefix: 2-}, three: {prefix: 3-}}
precedence: [three, one, two]
combinations:
  - {fleets: [one, two], prefix: 12-}
  - {fleets: [three, two], prefix: 32-}
  - {fleets: [one, two, three], prefix: 123-}
"""
    fleets = parse_fleets(text, "s")
    assert fleets.place(["one", "three"]).prefix == "3-"
    assert fleets.place(["one", "two"]).prefix == "12-"
    assert fleets.place(["two", "three"]).prefix == "32-"
    assert fleets.place(["one", "two", "three"]).prefix == "123-"
    less = parse_fleets(text.replace("  - {fleets: [one, two, three], prefix: 123-}\n", ""), "s")
    assert less.place(["one", "two", "three"]).prefix == "32-"


@pytest.mark.parametrize(
    ("actor", "ref_type", "ref", "number"),
    [
        ("robot", "tag", "run/12", 12),
        ("Robot", "tag", "refs/tags/run/12", 12),
        (" robot ", "tag", "run/12", 12),
        ("robot", "branch", "run/12", None),
        ("robot", "tag", "run/12/x", None),
        ("robot", "tag", "xrun/12", None),
        ("robot", "tag", "run/", None),
        ("robot", "tag", "run/" + "9" * 19, None),
        ("robot", "tag", "run/\u0663", None),
        ("human", "tag", "run/12", None),
        ("", "", "", None),
    ],
)
def test_q49_a_bot_acts_for_the_author_of_a_pull_request_only_on_its_tags(actor, ref_type, ref, number):
    assert own().pull_request(actor, ref_type, ref) == number


@pytest.mark.parametrize("name", ["Acme/Bird", "acme/bird", " ACME/BIRD "])
def test_q59_the_canary_repository_compares_without_case(name):
    assert own().is_canary(name)
    assert not own().is_canary(name.strip() + "s")


# What is broken, how, the line and what the error says. The last column: whether a schema can see it too.
BROKEN = [
    ("version: 1", "version: 2", 1, 'version: found "2", expected the number 1', True),
    ("version: 1", 'version: "1"', 1, 'version: found "1", expected the number 1', True),
    ("version: 1\n", "", 1, "version: missing", True),
    ("version: 1", "verison: 1", 1, 'verison: unknown key\n  hint: did you mean "version"?', True),
    ("  label: lane\n", "", 3, "outputs.label: missing", True),
    ("  label: lane", "  label: 9lane", 3, 'outputs.label: found "9lane"', True),
    ("  label: lane", "  label: decision-source", 3, "decision-source is always written", True),
    ("  label: lane", "  label: on-metal", 4, "is the name of two outputs", False),
    ("  label: lane", "  lable: lane", 3, 'did you mean "label"?', True),
    ("default-prefix: cloud-", "default-prefix:", 5, 'found nothing, expected a prefix, "" for none', True),
    ("default-prefix: cloud-", "default-prefix: 'a b'", 5, "expected letters, digits, '.', '-' and '_'", True),
    ("default-prefix: cloud-", 'default-prefix: "a\\nb"', 5, "default-prefix: found", True),
    ("    experiment: bare", "    experiment: spot", 15, '"spot" turns on two fleets: metal and spot', False),
    ("    experiment: bare", "    experiment: a b", 8, "which no experiment can be called", True),
    (
        "    prefix: bm-",
        "    prefixes: bm-",
        9,
        'fleets.metal.prefixes: unknown key\n  hint: did you mean "prefix"',
        True,
    ),
    ("    prefix: spot_", "    canary-prefix: spot_", 15, "fleets.spot.prefix: missing", True),
    ("    prefix: spot_", "    prefix: bm-", 6, "only one of them translates", False),
    ("    translates: true", "    translates: yes", 11, "expected true or false", True),
    ("    translates: true", '    translates: "true"', 11, "expected true or false, without quotes", True),
    ("    serves: [big-*]", "    serves: big-*", 12, 'fleets.metal.serves: found "big-*", expected a list', True),
    ("    lacks: [big-9]", "    lacks: [big-9, big-9]", 13, 'fleets.metal.lacks[2]: "big-9" is there twice', True),
    ("    lacks: [big-9]", "    lacks: [[a]]", 13, "fleets.metal.lacks[1]: found a list of 1", True),
    (
        "precedence: [spot, metal]",
        "precedence: [spot, mettal]",
        16,
        'no fleet "mettal"\n  hint: did you mean "metal"',
        False,
    ),
    ("precedence: [spot, metal]", "precedence: [spot]", 16, 'the fleet "metal" is not in it', False),
    ("precedence: [spot, metal]", "precedence: spot", 16, "expected a list of fleets", True),
    (
        "  - fleets: [metal, spot]",
        "  - fleets: [metal, spat]",
        18,
        'no fleet "spat"\n  hint: did you mean "spot"',
        False,
    ),
    ("  - fleets: [metal, spot]", "  - fleets: [metal]", 18, "expected two fleets or more", True),
    ("other-end:", "  - {fleets: [spot, metal], prefix: x-}\nother-end:", 21, "spot + metal is there twice", False),
    ("    prefix: both-", "    prefix: spot_", 17, "only one of them translates", False),
    ('other-end: "_"', 'other-end: ""', 21, "other-end: found an empty text", True),
    ("    output: arm-lane", "    output: lane", 24, '"lane" is the name of two outputs', False),
    ("    output: arm-lane", "    output: decision-source", 24, "decision-source is always written", True),
    ("    output: arm-lane\n", "", 24, "separate.arm.output: missing", True),
    ("  arm:\n", "  bare:\n", 22, '"bare" turns on a fleet already', False),
    ("  arm:\n", "  a rm:\n", 22, "a name that no experiment can have", True),
    ("exception-branches: [stable]", "exception-branches: [stable/1]", 26, "the part before the first slash", True),
    ("exception-branches: [stable]", "exception-branches: stable", 26, "expected a list of branches", True),
    ("canary-repositories: [Acme/Bird]", "canary-repositories: [Acme]", 27, 'found "Acme", expected OWNER/NAME', True),
    ("  label: plain please\n", "", 29, "kill-switch.label: missing", True),
    ("  experiments: [bare]", "  experiments: bare", 30, 'found "bare", expected all, or a list', True),
    ("  experiments: [bare]", "  experiments: []", 30, "found a list of 0, expected all, or a list", True),
    ("  on: it hangs", "  on:", 32, "excluded-configs.on: found nothing, expected the reason", True),
    ("  list: metal_only", "  lists: metal_only", 34, 'pins.lists: unknown key\n  hint: did you mean "list"', True),
    ("  list: metal_only\n  prefix: bm-", "  list: metal_only\n  prefix: spot_", 33, "which does not translate", False),
    ("target-grammar: 'big-[0-9]+'", "target-grammar: 'big-['", 36, "target-grammar: no regular expression", False),
    ("(?P<number>[0-9]+)", "[0-9]+", 40, "bots[1].tag: it has no group number", True),
    ("  - actor: robot", "  - bot: robot", 38, "bots[1].bot: unknown key", True),
    ("    ref-type: tag\n", "", 38, "bots[1].ref-type: missing", True),
    ("version: 1", "version: 1\nversion: 1", 2, "the key 'version' is there twice, first in line 1", False),
    ("  label: lane", "  label: [", 5, "no valid YAML", False),
]


@pytest.mark.parametrize(("old", "new", "line", "message", "by_schema"), BROKEN)
def test_q30_a_mistake_is_told_with_its_line_and_key(old, new, line, message, by_schema):
    assert FULL.count(old) >= 1
    with pytest.raises(ConfError) as caught:
        parse_fleets(FULL.replace(old, new, 1), "own.yaml")
    assert message in f"{caught.value}"
    assert caught.value.message.startswith(f"own.yaml:{line}: ")


@pytest.mark.parametrize(
    "text",
    ["", "version: 1", "x", "[", "- a", "\0", "a: b: c", "[" * 2000, "? [a]\n: b", "&a [*a]", "{<<: {a: b}}", "\t"],
)
def test_q30_a_text_that_is_no_fleets_file_is_refused(text):
    with pytest.raises(ConfError, match=r"^own\.yaml:\d+: "):
        parse_fleets(text, "own.yaml")


def test_q30_a_file_that_is_too_long_is_refused():
    with pytest.raises(ConfError, match=r"^own\.yaml: 262145 characters"):
        parse_fleets(" " * (LONGEST_FILE + 1), "own.yaml")


def test_q30_a_text_that_is_too_long_is_refused():
    with pytest.raises(ConfError, match=r"^own\.yaml:32: excluded-configs\.on: 1001 characters, expected at most 1000"):
        parse_fleets(FULL.replace("it hangs", "x" * 1001), "own.yaml")


@pytest.mark.parametrize("key", ["outputs", "fleets", "combinations", "separate", "kill-switch", "pins", "bots"])
@pytest.mark.parametrize("value", ["1", '"x"', "[1]", "null", "{a: [b]}"])
def test_q30_each_part_has_to_have_the_right_form(key, value):
    text = re.sub(rf"(?m)^{key}:\n( .*\n)+", f"{key}: {value}\n", FULL)
    assert f"{key}: {value}" in text
    with pytest.raises(ConfError, match=rf"^own\.yaml:\d+: {key}"):
        parse_fleets(text, "own.yaml")


def test_q33_a_hostile_text_in_an_error_stays_on_one_line():
    with pytest.raises(ConfError) as caught:
        parse_fleets('"a\\n::error::x\\e[31m": 1', "own.yaml")
    assert "\n" not in caught.value.message
    assert "\x1b" not in f"{caught.value}"


# ---- the schema ---------------------------------------------------------------------------------------------------


def values(value: Value | None) -> object:
    if isinstance(value, Mapping):
        return {key.text: values(inner) for key, inner in value}
    if isinstance(value, Sequence):
        return [values(inner) for inner in value.items]
    return resolve(value) if isinstance(value, Text) else None


def schema_errors(text: str) -> list[str]:
    jsonschema = pytest.importorskip("jsonschema")
    validator = jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text(encoding="utf-8")))
    return [error.message for error in validator.iter_errors(values(parse(text, "s")))]


def test_q32_the_schema_is_one_and_takes_the_shipped_file():
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.Draft202012Validator.check_schema(json.loads(SCHEMA.read_text(encoding="utf-8")))
    assert schema_errors(SHIPPED.read_text(encoding="utf-8")) == []
    assert schema_errors(FULL) == []


@pytest.mark.parametrize(("old", "new", "line", "message", "by_schema"), BROKEN)
def test_q33_the_schema_refuses_what_a_schema_can(old, new, line, message, by_schema):
    if "YAML" not in message and "twice, first" not in message:
        assert bool(schema_errors(FULL.replace(old, new, 1))) is by_schema


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("label: label-type", "label: USE-ARC"),
        ("label: label-type", "label: Decision-Source"),
        ("output: amd", "output: Use-Arc #"),
    ],
)
def test_q33_outputs_that_differ_only_in_case_are_one(old, new):
    """GitHub tells outputs apart without case."""
    text = (ROOT / "conf" / "runner_routing.yaml").read_text(encoding="utf-8")
    assert old in text
    with pytest.raises(ConfError, match=r"two outputs|expected the name of an output"):
        parse_fleets(text.replace(old, new, 1), "f.yaml")
