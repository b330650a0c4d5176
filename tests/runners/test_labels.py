"""What a label says, JSON read strictly, and how a wrong value is told."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_sgpu.runners.grammar.labels import Form, classify, compiled
from pytest_sgpu.runners.strict_json import JsonError, elements, loads
from pytest_sgpu.runners.wording import found, nearest


def test_the_first_form_that_fits_counts_and_only_for_the_whole_label():
    general = Form("cpu", compiled("(?P<os>[a-z]+)-(?P<arch>[a-z0-9]+).*"))
    special = Form("cpu", compiled("linux-x64-big"), {"os": "linux", "arch": "x64", "cores": "64"})
    label = classify("linux-x64-big", (special, general))
    assert label is not None
    assert label.cores == 64
    label = classify("linux-x64-big", (general, special))
    assert label is not None
    assert label.cores == 0
    assert classify("linux-x64-big2", (special,)) is None
    assert classify("linux-x64-big\n", (special,)) is None


def test_a_part_that_took_no_part_is_no_match_without_a_constant():
    form = Form("gpu", compiled("(?P<os>l)?x(?P<arch>a)(?P<gpus>[0-9]+|many)"), {})
    assert form.read("lxa1") is not None
    assert form.read("xa1") is None
    assert form.read("lxamany") is None
    assert form.read("lxa0") is None
    assert Form("cpu", form.pattern).read("lxa1") is None


@pytest.mark.parametrize(
    ("pattern", "good"),
    [("(", False), ("*", False), ("(?P<a>x)(?P<a>y)", False), ("(" * 3000, False), ("a{1", True), ("[[a]", True)],
)
def test_a_pattern_compiles_or_is_refused(pattern, good):
    if good:
        assert compiled(pattern).pattern == pattern
        return
    with pytest.raises(ValueError, match=r"."):
        compiled(pattern)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(st.lists(JSON), st.sampled_from([None, 0, 3]), st.booleans())
def test_a_list_is_cut_into_its_elements_as_they_stand_there(values, indent, ascii_):
    text = "\r\n\t " + json.dumps(values, indent=indent, ensure_ascii=ascii_) + " \n"
    assert loads(text) == values
    cut = elements(text)
    assert [json.loads(one) for one in cut] == values
    assert all(one == one.strip() and one in text for one in cut)


@given(st.text(alphabet='[]{}",:0123456789eE.+-naulNIyt \\', max_size=60))
def test_any_text_is_json_or_an_error_that_quotes_nothing(text):
    said = ""
    try:
        json.dumps(loads(text))
    except JsonError as error:
        said = error.message
    assert len(said) < 120


def test_found_is_one_short_line_for_anything():
    for value in ("a\nb" * 100, 10**5000, -(10**400), 1e308, float("nan"), [1], {}, {"a": 1}, None, True, object(), ()):
        text = found(value)
        assert text
        assert len(text) < 100
        assert "\n" not in text
    assert nearest("h10", ["h100", "l4"]) == 'did you mean "h100"?'
    assert nearest("?", ["h100", "l4"]) == "known are: h100, l4"
