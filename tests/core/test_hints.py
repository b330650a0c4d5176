from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_sgpu.core import hints
from pytest_sgpu.model import Key

MEASURED = {
    Key("torch", "test_numerics.ck"): 209.0,
    Key("torch", "test_numerics.ck.triton"): 372.0,
    Key("torch", "triton_kernels.test_norms.ck"): 73.0,
    Key("jax", "test_layer.auto"): 239.0,
    Key("core"): 1251.0,
}


@pytest.mark.parametrize(
    ("tag", "file", "label"),
    [
        ("test_numerics.ck", "test_numerics", ""),
        ("test_numerics.ck.amax+triton", "test_numerics", "amax+triton"),
        ("triton_kernels.test_norms.ck.autotune", "triton_kernels.test_norms", "autotune"),
        ("a.testing.test_b.ck.two.labels", "a.testing.test_b", "two.labels"),
        ("nvfp4..ck", "nvfp4.", ""),
        ("gemm.fp16.ck", "gemm.fp16", ""),
        ("benchmark", "benchmark", ""),
        ("test_alone", "test_alone", ""),
        ("linalg.test_linalg", "linalg.test_linalg", ""),
        ("mytest.ck", "mytest", ""),
        (".x", "", ""),
        ("x.", "x", ""),
        ("$(x);'../*[a]", "$(x);'.", ""),
    ],
)
def test_kin(tag, file, label):
    assert hints.kin(Key("s", tag)) == (("s", file), label)


def test_an_opaque_suite_has_no_kin():
    assert hints.kin(Key("core")) is None
    assert hints.guess(Key("core"), MEASURED) is None
    assert hints.Hints(MEASURED.items()).longest(None) == 0.0


def test_a_twin_gives_the_longest_time_of_its_file():
    assert hints.guess(Key("torch", "test_numerics.flash"), MEASURED) == 372.0
    assert hints.guess(Key("torch", "test_numerics.flash.triton"), MEASURED) == 372.0
    assert hints.guess(Key("torch", "triton_kernels.test_norms.flash"), MEASURED) == 73.0


def test_another_label_gives_no_guess_but_its_file_is_known_to_be_long():
    key = Key("torch", "triton_kernels.test_norms.ck.autotune")
    assert hints.guess(key, MEASURED) is None
    assert hints.Hints(MEASURED.items()).longest(hints.kin(key)) == 73.0


@pytest.mark.parametrize("key", [Key("jax", "test_numerics.flash"), Key("torch", "test_layer.ck"), Key("torch", "x")])
def test_other_suites_and_files_say_nothing(key):
    assert hints.guess(key, MEASURED) is None


@given(st.text(max_size=30))
def test_any_tag_has_a_file_that_begins_it(tag):
    of = hints.kin(Key("s", tag))
    if of is None:
        assert not tag
    else:
        assert tag.startswith(of.file[1])
        assert tag.endswith(of.label)


@given(st.dictionaries(st.sampled_from(sorted(MEASURED)), st.floats(0, 1e6)), st.randoms(use_true_random=False))
def test_a_guess_does_not_depend_on_the_order_of_measurements(measured, random):
    pairs = list(measured.items())
    random.shuffle(pairs)
    for key in MEASURED:
        twin = Key(key.suite, key.tag.replace(".ck", ".flash"))
        assert hints.guess(twin, dict(pairs)) == hints.guess(twin, measured)
