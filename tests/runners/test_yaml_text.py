"""YAML texts to values: what cannot be read has its place, and plain words."""

from __future__ import annotations

import pytest

pytest.importorskip("ruamel.yaml")

from pytest_sgpu.runners.lint.yaml_text import Mapping, PlacedError, Text, parse


def refused(text):
    with pytest.raises(PlacedError) as caught:
        parse(text, "x")
    assert str(caught.value).isprintable()
    return caught.value


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("\ta: b", 1, 1),
        ("a:\n\t- b", 2, 1),
        ("a: |\n\tx\nb: 1", 2, 1),
        ("on:\tpush", 1, 4),
        ("a: 1\nb: c\t# d", 2, 5),
    ],
)
def test_a_tab_that_cannot_be_read_has_its_place(text, line, column):
    error = refused(text)
    assert (str(error), error.line, error.column) == ("no valid YAML: found a tab, expected spaces", line, column)


@pytest.mark.parametrize(
    ("character", "said", "hint"),
    [
        ("\x1b", "U+001B", 'or write it as "\\x1b" in double quotes'),
        ("\x7f", "U+007F", 'or write it as "\\x7f" in double quotes'),
        ("\x00", "U+0000", 'or write it as "\\x00" in double quotes'),
        ("\x80", "U+0080", 'or write it as "\\x80" in double quotes'),
        ("\ud800", "U+D800", "leave it out"),
        ("\ufffe", "U+FFFE", "leave it out"),
    ],
)
@pytest.mark.parametrize("before", ["a: 1\n", "a: 1\r\n", "a: 1\r", "# é\u2028\n"], ids=ascii)
def test_a_character_that_yaml_does_not_allow_has_its_place(before, character, said, hint):
    error = refused(f"{before * 5}é: x{character}y{character}\n")
    assert (error.line, error.column) == (6, 5)
    assert str(error).startswith(f"no valid YAML: a character that YAML does not allow, {said}; leave it out")
    assert str(error).endswith(hint)
    if "double quotes" in hint:
        root = parse(f'a: "\\x{ord(character):02x}"', "x")
        assert isinstance(root, Mapping)
        assert [value.text for _, value in root if isinstance(value, Text)] == [character]
