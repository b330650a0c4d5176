"""Which scalars are more than their text, and what the reader of YAML says of each."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("ruamel.yaml")

from pytest_sgpu.runners.lint import yaml_text
from pytest_sgpu.runners.lint.yaml_text import Mapping, Text
from pytest_sgpu.runners.routing.problems import Problem, suggest
from pytest_sgpu.runners.routing.scalars import kind, number, resolve


def value_of(written: str) -> object:
    root = yaml_text.parse(f"a: {written}\nb: 1", "x")
    assert isinstance(root, Mapping)
    found = root.get("a")
    assert isinstance(found, Text)
    return resolve(found)


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("", None),
        ("~", None),
        ("null", None),
        ("Null", None),
        ("true", True),
        ("False", False),
        ("0", 0),
        ("-12", -12),
        ("7", 7),
        ("1.5", 1.5),
        ("-0.25", -0.25),
        ("3.10", 3.1),
        ("&a 10", 10),
        ("on", "on"),
        ("off", "off"),
        ("yes", "yes"),
        ("no", "no"),
        ("y", "y"),
        ("tRUE", "tRUE"),
        ("010", "010"),
        ("0o10", "0o10"),
        ("0x10", "0x10"),
        ("0b1", "0b1"),
        ("1_000", "1_000"),
        ("1:30", "1:30"),
        ("1e3", "1e3"),
        ("1.5e3", "1.5e3"),
        (".5", ".5"),
        ("5.", "5."),
        ("+5", "+5"),
        (".inf", ".inf"),
        (".nan", ".nan"),
        ("2026-06-01", "2026-06-01"),
        ("1.2.3", "1.2.3"),
        ("\u0661", "\u0661"),
        ("=", "="),
        ("9" * 301, "9" * 301),
        ('"10"', "10"),
        ("'true'", "true"),
        ('""', ""),
        ("''", ""),
        ("|\n  10", "10\n"),
        (">-\n  null", "null"),
        ("! 10", "10"),
        ("!!str 10", "10"),
        ("!!str", ""),
        ("&a !!str 10", "10"),
        ("&a\n  !!str 10", "10"),
        ("!!str &a 10", "10"),
        ('!!int "10"', "10"),
    ],
)
def test_q16_a_scalar_is_what_yaml_1_2_says_or_what_is_written(written, value):
    found = value_of(written)
    assert found == value
    assert type(found) is type(value)


def test_q16_quotes_are_known_in_every_place():
    root = yaml_text.parse('[1, "1", {"2": 2}]', "x")
    assert isinstance(root, yaml_text.Sequence)
    one, two, mapping = root.items
    assert isinstance(one, Text)
    assert isinstance(two, Text)
    assert isinstance(mapping, Mapping)
    assert (one.plain, two.plain, mapping.entries[0][0].plain) == (True, False, False)


@given(st.text(st.characters(codec="ascii"), max_size=12) | st.from_regex(r"[-+]?[0-9_.:exo]{1,12}", fullmatch=True))
def test_q16_what_is_a_number_is_that_number_in_json_too(text):
    found = resolve(Text(1, 1, text, plain=True))
    if isinstance(found, (int, float)) and not isinstance(found, bool):
        assert json.loads(text) == found
    assert resolve(Text(1, 1, text)) == text


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("0", 0.0),
        ("25", 25.0),
        ("+25", 25.0),
        ("-25", -25.0),
        (".5", 0.5),
        ("-.5", -0.5),
        ("5.", 5.0),
        ("1e2", 100.0),
        ("1E+2", 100.0),
        ("+1.5e-1", 0.15),
        ("1e999", math.inf),
        ("9" * 400, math.inf),
        ("", None),
        (".", None),
        ("+", None),
        ("e2", None),
        ("1e", None),
        ("1e2.5", None),
        ("010", None),
        ("00", None),
        ("0x10", None),
        ("1_0", None),
        ("1:30", None),
        (" 1", None),
        (".inf", None),
        (".nan", None),
        ("nan", None),
        ("\u0661", None),
        ("true", None),
    ],
)
def test_q16_where_only_a_number_makes_sense_it_is_one_of_yaml_1_2(written, value):
    assert number(Text(1, 1, written, plain=True)) == value
    assert number(Text(1, 1, written)) is None


@given(st.from_regex(r"[-+]?[0-9_.e+-]{1,8}", fullmatch=True))
def test_q16_what_is_a_number_everywhere_is_the_same_one_there(text):
    scalar = Text(1, 1, text, plain=True)
    found = resolve(scalar)
    if not isinstance(found, str):
        assert number(scalar) == found


@pytest.mark.parametrize(("value", "name"), [(None, "nothing"), (True, "a flag"), (1.5, "a number"), ("1", "a text")])
def test_q16_a_value_is_named_by_its_type(value, name):
    assert kind(value) == name


def test_q15_a_lenient_reader_keeps_the_last_of_equal_keys():
    root = yaml_text.parse("a: 1\nb: 2\na: 3\n<<: 4\na: 5", "x", lenient=True)
    assert isinstance(root, Mapping)
    assert [(key.text, str(value)) for key, value in root] == [("a", "'5'"), ("b", "'2'"), ("<<", "'4'")]
    assert [key.line for key in root.repeated] == [1, 3]
    with pytest.raises(yaml_text.PlacedError, match="twice"):
        yaml_text.parse("a: 1\na: 3", "x")


@pytest.mark.parametrize(
    ("name", "known", "hint"),
    [
        ("lff", ["arc", "lf"], 'did you mean "lf"?'),
        ("LF", ["arc", "lf"], 'did you mean "lf"?'),
        ("zzz", ["arc", "lf"], "known are: arc, lf"),
        ("zzz", [], ""),
        ("zzz", [f"a{n}" for n in range(13)], f"known are: {', '.join(f'a{n}' for n in range(12))}, ..."),
    ],
)
def test_q27_a_hint_names_what_was_meant_or_what_there_is(name, known, hint):
    assert suggest(name, known) == hint


def test_q27_a_problem_without_a_line_names_its_source_alone():
    assert str(Problem("a.txt", 0, "warning", "odd")) == "a.txt: warning: odd"
    assert str(Problem("a.txt", 3, "error", "bad", "mend it")) == "a.txt:3: error: bad (mend it)"


def test_q07_brackets_nest_as_deep_as_anybody_writes_them():
    deep = "\n[".join([""] * 33) + "]" * 32
    assert isinstance(yaml_text.parse(deep, "x"), yaml_text.Sequence)
    with pytest.raises(yaml_text.PlacedError, match="nested too deeply") as caught:
        yaml_text.parse("a: '[[['\nb: " + "[" * 100_000, "x")
    assert (caught.value.line, caught.value.column) == (2, 36)
    with pytest.raises(yaml_text.PlacedError, match="nested too deeply"):
        yaml_text.parse("- " * 100_000, "x")


@pytest.mark.parametrize("text", ["a: !foo 1", "a: !!binary aGk=", "? [a]\n: 1", "!foo a: 1"])
def test_what_cannot_be_read_costs_the_whole_text_unless_it_is_asked_for(text):
    for lenient in (False, True):
        with pytest.raises(yaml_text.PlacedError):
            yaml_text.parse(text, "x", lenient=lenient)
    root = yaml_text.parse(f"{text}\nb: 1", "x", local=True)
    assert isinstance(root, Mapping)
    assert [key.text for key, _ in root] == [text.partition(": ")[0].removeprefix("? ").removesuffix("\n"), "b"]
    assert isinstance(root.get("a"), yaml_text.Tagged) == text.startswith("a: ")
