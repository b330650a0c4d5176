"""Q70 to Q80: the mapping file, and what it makes of one label."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pytest_sgpu.runners.routing.check import Texts, check
from pytest_sgpu.runners.routing.fleets import parse_fleets
from pytest_sgpu.runners.routing.mapping import (
    LabelMap,
    Resolution,
    check_mapping,
    known_prefixes,
    parse_mapping,
    resolve,
)

CONF = Path(__file__).parents[3] / "conf"
PINS = "meta_only_runners"
FLEETS = parse_fleets((CONF / "runner_routing.yaml").read_text(encoding="utf-8"), "fleets.yaml")
ARC = parse_mapping((CONF / "arc.yaml").read_text(encoding="utf-8"), "arc.yaml", PINS)
SMALL = """\
runner_mapping:
  small: l-x86iavx512-2-4
  linux.small: l-x86iavx512-2-4
  big: l-x86iamx-8-64-h100
  partner: partner
meta_only_runners: [big]
"""


def small(text: str = SMALL) -> LabelMap:
    return parse_mapping(text, "arc.yaml", PINS)


def made(label: str, prefix: str, label_map: LabelMap | None = None) -> Resolution:
    found = resolve(label, prefix, label_map or small(), FLEETS)
    assert found is not None
    return found


def problems(text: str) -> list[str]:
    return [str(problem) for problem in small(text).problems]


def flaws(text: str) -> list[str]:
    read = small(text)
    assert not read.problems
    return [str(problem) for problem in check_mapping(read, FLEETS)]


def test_q70_the_shipped_file_has_48_labels_and_nothing_wrong():
    assert ARC.usable
    assert not ARC.problems
    assert not check_mapping(ARC, FLEETS)
    identities = [label for label, target in ARC.targets.items() if label == target]
    counts = (len(ARC.targets), len(identities), len(set(ARC.targets.values()) - set(identities)), len(ARC.pinned))
    assert counts == (48, 10, 30, 4)


def test_q70_many_labels_may_have_one_target():
    assert made("small", "mt-").label == made("linux.small", "mt-").label == "mt-l-x86iavx512-2-4"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "arc.yaml:1: error: found nothing, expected a mapping with runner_mapping:"),
        ("just words", "arc.yaml:1: error: found 'just words', expected a mapping with runner_mapping:"),
        ("a: [", "arc.yaml:1: error: no valid YAML: "),
        ("meta_only_runners: [a]", "arc.yaml:1: error: no runner_mapping: at the top"),
        ("runner_mapping: [a]", "arc.yaml:1: error: runner_mapping: found a list, expected a mapping of labels"),
        ("runner_mapping:\n", "arc.yaml:1: error: runner_mapping: found '', expected a mapping of labels"),
        ("runner_mapping:\n  a: b\n  a: c\n", "arc.yaml:3: error: the key 'a' is there twice, first in line 2"),
    ],
)
def test_q70_a_file_without_a_table_is_not_usable(text, what):
    read = small(text)
    assert not read.usable
    assert not read.targets
    assert str(read.problems[0]).startswith(what)


@pytest.mark.parametrize(
    ("entry", "what"),
    [
        ("bad: [x]", "the target of 'bad': found a list, expected a label"),
        ("bad: ", "the target of 'bad': found nothing, expected a label"),
        ("bad: 12", "the target of 'bad': found '12', expected a label"),
        ("12: x", "a label: found '12', expected a label"),
        ("true: x", "a label: found 'true', expected a label"),
        ('bad: "x\\ny"', "the target of 'bad': 'x y' is no label"),
        ('"bad ": x', "a label: 'bad' is no label"),
        ("bad: " + "x" * 300, "the target of 'bad': '"),
    ],
)
def test_q70_an_entry_that_is_wrong_costs_itself(entry, what):
    read = small(SMALL.replace("  partner: partner", f"  partner: partner\n  {entry}"))
    assert read.usable
    assert set(read.targets) == {"small", "linux.small", "big", "partner"}
    (problem,) = read.problems
    assert (problem.line, problem.severity) == (6, "error")
    assert problem.message.startswith(what)


def test_q70_a_key_that_is_there_twice_hides_nothing_from_a_check():
    text = SMALL.replace("  partner:", "  big: [x]\n  small: l-x86iavx512-8-64\n  late: X-1\n  partner:")
    text += "runner_mapping:\n  other: mt-l-x86iavx512-2-4\n"
    read = small(text)
    assert (read.usable, dict(read.targets)) == (False, {}), "nothing is routed by it"
    assert [str(problem) for problem in read.problems] == [
        "arc.yaml:5: error: the key 'big' is there twice, first in line 4 (write each key once)",
        "arc.yaml:6: error: the key 'small' is there twice, first in line 2 (write each key once)",
        "arc.yaml:10: error: the key 'runner_mapping' is there twice, first in line 1 (write each key once)",
    ]
    told = [str(problem) for problem in check(Texts(FLEETS, read)) if problem.source == "arc.yaml"]
    assert [line.partition(" (")[0] for line in told] == [
        "arc.yaml:5: error: the key 'big' is there twice, first in line 4",
        "arc.yaml:5: error: the target of 'big': found a list, expected a label",
        "arc.yaml:6: error: the key 'small' is there twice, first in line 2",
        "arc.yaml:7: error: the target 'X-1' of 'late' does not fit the grammar",
        "arc.yaml:10: error: the key 'runner_mapping' is there twice, first in line 1",
        "arc.yaml:11: error: the target 'mt-l-x86iavx512-2-4' has the prefix 'mt-'",
    ]
    rest = read.rest
    assert rest
    assert rest.targets["small"] == "l-x86iavx512-2-4", "the first counts"


def test_q70_a_key_twice_in_what_is_no_table_is_told_too():
    read = small(
        "runner_mapping: {a: {x: 1, x: 2}, b: l-x86iavx512-2-4}\nmeta_only_runners: [b]\nmeta_only_runners: [c]\n"
    )
    assert read.rest
    assert [problem.message for problem in read.rest.problems] == [
        "the target of 'a': found a mapping, expected a label",
        "the key 'x' is there twice, first in line 1",
        "meta_only_runners: 'c' has no mapping",
        "the key 'meta_only_runners' is there twice, first in line 2",
    ]
    assert not small("- {a: 1, a: 2}\n").usable


@pytest.mark.parametrize(
    ("entry", "hint"),
    [
        ("bad:", "a target is missing: bad: TARGET"),
        ("bad: 12", "put a label of digits, or of such a word, in quotes"),
        ("12: x", "put a label of digits, or of such a word, in quotes"),
        ("bad: null", "put a label of digits, or of such a word, in quotes"),
    ],
)
def test_q70_the_hint_is_that_of_what_is_wrong(entry, hint):
    (problem,) = small(f"runner_mapping:\n  {entry}\n").problems
    assert problem.hint == hint


def test_q70_keys_that_nobody_knows_are_told():
    assert problems(SMALL.replace("meta_only_runners", "meta_only_runner")) == [
        "arc.yaml:6: warning: unknown key 'meta_only_runner', not used (did you mean \"meta_only_runners\"?)"
    ]


def test_q70_labels_that_look_like_other_types_stay_text():
    read = small("runner_mapping:\n  on: 010\n  1:30: no\n")
    assert read.targets == {"on": "010", "1:30": "no"}
    assert not read.problems


@pytest.mark.parametrize("prefix", ["mt-", "lf-", "c-mt-"])
def test_q71_the_prefix_is_taken_off_and_put_back(prefix):
    assert made(f"{prefix}small", prefix).label == f"{prefix}l-x86iavx512-2-4"
    assert made("small", prefix).label == f"{prefix}l-x86iavx512-2-4"
    assert made(f" {prefix}small ", prefix) == made("small", prefix)


@pytest.mark.parametrize("prefix", ["", "mt-", "lf-", "c-mt-"])
def test_q72_a_label_that_maps_to_itself_is_passed_through_bare(prefix):
    assert (made("partner", prefix).label, made("partner", prefix).rule) == ("partner", "passed-through")
    assert made(f"{prefix}partner", prefix).label == "partner"


@pytest.mark.parametrize("prefix", ["", "mt-", "lf-", "c-mt-"])
def test_q73_a_pinned_label_has_the_prefix_of_its_fleet_whatever_is_asked_for(prefix):
    found = made("big", prefix)
    assert (found.label, found.rule) == ("mt-l-x86iamx-8-64-h100", "pinned")
    assert found.text == "'big' is pinned to 'mt-', whatever the prefix; arc.yaml:4"


def test_q73_a_pin_comes_before_passing_through():
    read = small("runner_mapping: {big: big}\nmeta_only_runners: [big]\n")
    assert made("big", "lf-", read).label == "mt-big"
    assert made("mt-big", "lf-", read).label == "mt-big"


def test_q73_without_pins_in_the_fleets_file_nothing_is_pinned():
    found = resolve("big", "lf-", small(), replace(FLEETS, pins=None))
    assert found
    assert found.label == "lf-l-x86iamx-8-64-h100"


def test_q74_an_empty_prefix_gives_the_bare_target():
    assert made("small", "").label == "l-x86iavx512-2-4"


@pytest.mark.parametrize("label", ["", "smal", "Small", "linux.dgx.b200.8", "lf.l-x86iavx512-2-4", "mt-", "mt-x"])
def test_q75_what_is_not_in_the_table_is_never_passed_through(label):
    assert resolve(label, "mt-", small(), FLEETS) is None


@pytest.mark.parametrize("prefix", ["", "mt-", "lf-", "c-mt-"])
def test_q76_a_translated_label_stays_as_it_is(prefix):
    found = made(f"{prefix}l-x86iavx512-2-4", prefix)
    assert (found.label, found.rule) == (f"{prefix}l-x86iavx512-2-4", "already-translated")
    assert made("mt-l-x86iamx-8-64-h100", prefix).rule == "already-translated"


@pytest.mark.parametrize("other", ["", "mt-", "lf-", "c-mt-"])
@pytest.mark.parametrize("prefix", ["", "mt-", "lf-", "c-mt-"])
def test_q76_a_label_translated_for_another_prefix_gets_the_given_one(other, prefix):
    found = made(f"{other}l-x86iavx512-2-4", prefix)
    assert found.label == f"{prefix}l-x86iavx512-2-4"
    assert found.is_moved == (other != prefix)
    assert found.replaced == (other if found.is_moved else "")


@pytest.mark.parametrize("other", ["", "lf-", "c-mt-"])
@pytest.mark.parametrize("prefix", ["", "mt-", "lf-", "c-mt-"])
def test_q76_a_target_that_is_pinned_gets_the_prefix_of_the_pin(other, prefix):
    found = made(f"{other}l-x86iamx-8-64-h100", prefix)
    assert (found.label, found.rule, found.bare) == ("mt-l-x86iamx-8-64-h100", "pinned", "big")
    assert found.is_moved


@pytest.mark.parametrize("label", ["l-x86i-2-4", "lf-l-x86i-2-4", "mt-l-x86i-2-4", "c-mt-l-x86i-2-4"])
def test_q76_a_target_of_which_only_some_labels_are_pinned_stays(label):
    read = small("runner_mapping: {a: l-x86i-2-4, b: l-x86i-2-4}\nmeta_only_runners: [a]\n")
    assert (made(label, "lf-", read).label, made(label, "lf-", read).rule) == (label, "already-translated")


def test_q76_a_target_that_two_prefixes_fit_stays():
    read = small("runner_mapping: {a: mt-l-x86i-2-4, b: l-x86i-2-4}")
    assert made("mt-l-x86i-2-4", "lf-", read).label == "mt-l-x86i-2-4"
    assert made("b", "mt-", read).label == made("mt-l-x86i-2-4", "mt-", read).label == "mt-l-x86i-2-4"


@pytest.mark.parametrize("other", ["lf.", "lf.c.", "lf-", "c-mt-"])
def test_q77_the_prefix_of_another_fleet_is_replaced_and_told(other):
    found = made(f"{other}small", "mt-")
    assert (found.label, found.replaced) == ("mt-l-x86iavx512-2-4", other)
    assert made(f"{other}big", "mt-").label == "mt-l-x86iamx-8-64-h100"
    assert made(f"{other}partner", "mt-").label == "partner"


def test_q77_known_prefixes_come_longest_first():
    assert known_prefixes(FLEETS) == ("c-mt-", "lf.c.", "lf-", "lf.", "mt-")
    assert known_prefixes(FLEETS, translating=True) == ("c-mt-", "lf-", "mt-")


def test_q77_what_stands_in_the_table_as_it_is_has_no_prefix():
    read = small("runner_mapping: {lf.small: lf.small, small: l-x86iavx512-2-4}")
    assert made("lf.small", "mt-", read).label == "lf.small"


def test_q78_a_pinned_label_needs_a_mapping():
    assert problems(SMALL.replace("[big]", "\n  - big\n  - smal\n  - odd.label\n")) == [
        (
            "arc.yaml:8: error: meta_only_runners: 'smal' has no mapping (add it to runner_mapping first; did you mean "
            '"small"?)'
        ),
        (
            "arc.yaml:9: error: meta_only_runners: 'odd.label' has no mapping (add it to runner_mapping first; known "
            "are: small, linux.small, big, partner)"
        ),
    ]


@pytest.mark.parametrize(
    ("pins", "told"),
    [
        ("big", "error: meta_only_runners: found 'big', expected a list of labels"),
        ("{big: 1}", "error: meta_only_runners: found a mapping, expected a list of labels"),
        ("[big, big]", "warning: meta_only_runners: 'big' is there twice, first in line 6"),
        ("[big, [x]]", "error: an entry of meta_only_runners: found a list, expected a label"),
        ("[]", ""),
        ("", ""),
        ("null", ""),
    ],
)
def test_q78_the_list_of_pins_is_read_strictly(pins, told):
    assert problems(SMALL.replace("[big]", pins)) == ([f"arc.yaml:6: {told}"] if told else [])


@pytest.mark.parametrize(
    "target",
    ["x86iavx512-2-4", "l-x86iavx512-2", "l-x86iavx512-2-4-", "l-x86iavx512-2-4-h100-8-1", "l-riscv-2-4", "L-x86i-2-4"],
)
def test_q79_a_target_fits_the_grammar(target):
    assert flaws(f"runner_mapping:\n  small: {target}\n") == [
        (
            f"arc.yaml:2: error: the target '{target}' of 'small' does not fit the grammar (the grammar is "
            "target-grammar in fleets.yaml)"
        )
    ]


def test_q79_neither_label_nor_target_carries_a_prefix():
    assert flaws("runner_mapping:\n  small: mt-l-x86i-2-4\n  lf.big: l-x86i-2-4\n") == [
        "arc.yaml:2: error: the target 'mt-l-x86i-2-4' has the prefix 'mt-' (the translation puts prefixes on)",
        "arc.yaml:3: error: the label 'lf.big' has the prefix 'lf.' (the translation puts prefixes on)",
    ]


def test_q79_pins_that_do_half_of_what_they_should_are_told():
    text = "runner_mapping:\n  a: l-x86i-2-4\n  b: l-x86i-2-4\n  c: c\nmeta_only_runners: [a, c]\n"
    assert flaws(text) == [
        (
            "arc.yaml:3: warning: 'b' has the target of 'a', which is pinned, but is not (pin it too, or give it "
            "another target)"
        ),
        "arc.yaml:4: warning: 'c' maps to itself, but is pinned: it becomes 'mt-c' (give it a target)",
    ]


def test_q80_a_target_that_is_a_label_itself_is_no_target():
    read = small("runner_mapping:\n  a: b\n  b: l-x86i-2-4\n  c: d\n  d: d\n")
    assert dict(read.targets) == {"b": "l-x86i-2-4", "d": "d"}
    assert [str(problem) for problem in read.problems] == [
        f"arc.yaml:{line}: error: the target '{target}' of '{label}' is a label of the table itself (map each label to "
        "where it ends)"
        for line, label, target in ((2, "a", "b"), (4, "c", "d"))
    ]
