"""File names of any text: safe, short, and different."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_sgpu.core.names import LIMIT, file_name, item_stem, node_id
from pytest_sgpu.model import Key

TEXTS = (
    st.text(alphabet=st.characters())
    | st.text(alphabet="a.%/-2E")
    | st.text(alphabet="ab/", min_size=150, max_size=220)
)
LABELS = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,10}", fullmatch=True)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("test_numerics.ck.amax+triton", "test_numerics.ck.amax+triton"),
        ("nvfp4..ck", "nvfp4..ck"),
        ("", "%"),
        (".", "%2E"),
        ("..", "%2E."),
        ("../etc/passwd", "%2E.%2Fetc%2Fpasswd"),
        (".hidden", "%2Ehidden"),
        ("$(x);'*[a]", "%24%28x%29%3B%27%2A%5Ba%5D"),
        ("100%", "100%25"),
        ("é\ud800\0", "%C3%A9%ED%A0%80%00"),
        ("-rf", "-rf"),
    ],
)
def test_examples(text, name):
    assert file_name(text) == name


def test_long_names_are_cut_with_a_hash():
    assert file_name("x" * LIMIT) == "x" * LIMIT
    one, two = file_name("x" * 181), file_name("x" * 182)
    assert one != two
    assert len(one) == len(two) == LIMIT
    assert re.fullmatch(r"x{158}%-[0-9a-f]{20}", one)


def test_no_escape_is_cut_in_two():
    for shift in range(3):
        name = file_name("x" * shift + "é" * 100)
        assert re.fullmatch(r"x*(%C3|%A9)+%-[0-9a-f]{20}", name)


def test_item_stem():
    assert item_stem(Key("torch", "test_numerics.ck")) == "torch.test_numerics.ck"
    assert item_stem(Key("core")) == "core.whole"
    assert item_stem(Key("a.b", "c")) == "a%2Eb.c"
    assert item_stem(Key("a", "b.c")) == "a.b.c"
    assert item_stem(Key("a", "../x")) == "a...%2Fx"
    assert item_stem(Key("", "x")) == "%.x"
    assert len(item_stem(Key("a" * 180, "b" * 180))) == LIMIT


@given(TEXTS)
def test_names_are_safe(text):
    for name in (file_name(text), item_stem(Key("a", text))):
        assert re.fullmatch(r"[A-Za-z0-9._+=,@%-]+", name)
        assert 0 < len(name) <= LIMIT
        assert not name.startswith(".")


@given(TEXTS, TEXTS)
def test_names_differ(one, two):
    assert (file_name(one) == file_name(two)) == (one == two)


@given(TEXTS)
def test_a_name_is_not_the_name_of_something_else(text):
    again = file_name(file_name(text))
    assert again != file_name(text) or file_name(text) == text


@given(LABELS, LABELS, TEXTS, TEXTS)
def test_stems_differ(label, other, tag, another):
    one, two = Key(label, tag), Key(other, another)
    same = (label, tag or "whole") == (other, another or "whole")
    assert (item_stem(one) == item_stem(two)) == same


@pytest.mark.parametrize(
    ("conf", "key", "name"),
    [
        ("q.conf", Key("torch", "a.b"), "q.conf::torch::a.b"),
        ("conf/ci/q.conf", Key("torch", "x::y"), "q.conf::torch::x::y"),
        ("../q.conf", Key("whole"), "q.conf::whole"),
    ],
)
def test_a_node_id_does_not_depend_on_where_the_conf_is(conf, key, name):
    assert node_id(conf, key) == name
