from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_sgpu.core import plan
from pytest_sgpu.model import UNKNOWN, Estimate, Item, Key, Scope, WeightTable

SCOPE = Scope("cpu", "1")
KEYS = [
    Key(suite, tag)
    for suite in ("torch", "jax")
    for tag in ("a", "b.ck", "test_a.ck", "test_a.flash", "test_a.ck.long", "test_a.flash.long", "d.test_b.ck")
] + [Key("core"), Key("examples")]


def items_of(keys):
    return [Item(key, ("x",), 1, position) for position, key in enumerate(keys)]


def table_of(**seconds):
    return WeightTable(SCOPE, {Key.parse(name): value for name, value in seconds.items()})


def ordered(keys, table, devices=2):
    items = items_of([Key.parse(key) for key in keys])
    return [str(entry.item.key) for entry in plan.order(items, table, devices).entries]


items_lists = st.permutations(KEYS).flatmap(lambda keys: st.integers(0, len(keys)).map(lambda n: items_of(keys[:n])))
tables = st.dictionaries(st.sampled_from(KEYS), st.floats(0, 1e5)).map(lambda entries: WeightTable(SCOPE, entries))


def test_longest_first_and_ties_as_listed():
    table = WeightTable(SCOPE, {Key("t", "a"): 1.0, Key("t", "b"): 5.0, Key("t", "c"): 5.0, Key("t", "d"): 9.0})
    assert ordered(["t/a", "t/c", "t/b", "t/d"], table) == ["t/d", "t/c", "t/b", "t/a"]


def test_cold_means_opaque_suites_first_and_the_rest_as_listed():
    keys = ["torch/test_b.ck", "torch/test_a.ck", "jax/x", "core", "examples"]
    assert ordered(keys, table_of()) == ["core", "examples", "torch/test_b.ck", "torch/test_a.ck", "jax/x"]


def test_unknown_before_known_opaque_then_unguessed_then_longest_guess():
    table = WeightTable(
        SCOPE,
        {Key.parse(k): v for k, v in {"t/test_a.ck": 5.0, "t/test_b.ck": 50.0, "t/gone": 1.0, "o": 900.0}.items()},
    )
    keys = ["t/test_a.ck", "t/test_a.flash", "t/new", "t/test_b.flash", "t/test_b.ck.label", "o", "p"]
    assert ordered(keys, table) == [
        "p",
        "t/test_b.ck.label",
        "t/new",
        "t/test_b.flash",
        "t/test_a.flash",
        "o",
        "t/test_a.ck",
    ]


def test_guesses_stand_in_the_plan_and_count_apart():
    table = table_of(**{"t/test_a.ck": 5.0})
    made = plan.order(items_of([Key("t", "test_a.ck"), Key("t", "test_a.flash"), Key("t", "z")]), table, 2)
    assert [entry.estimate for entry in made.entries] == [
        UNKNOWN,
        Estimate(5.0, known=False),
        Estimate(5.0, known=True),
    ]
    assert (made.total, made.longest, made.unknown, made.lower_bound) == (5.0, 5.0, 2, 5.0)


def test_estimates_may_come_from_a_function():
    known = {Key("t", "test_a.ck"): Estimate(5.0, known=True), Key("t", "odd"): Estimate(None, known=True)}
    keys = [Key("t", "odd"), Key("t", "test_a.ck"), Key("t", "test_a.flash")]
    made = plan.order(items_of(keys), lambda key: known.get(key, UNKNOWN), 1)
    assert [str(entry.item.key) for entry in made.entries] == ["t/test_a.flash", "t/test_a.ck", "t/odd"]
    assert made.entries[0].estimate == Estimate(5.0, known=False)


def test_fixed_keeps_the_order():
    table = table_of(**{"t/test_a.ck": 5.0, "t/b": 9.0})
    items = items_of([Key("t", "test_a.ck"), Key("t", "test_a.flash"), Key("t", "b")])
    made = plan.fixed(items[::-1], table, 3)
    assert [entry.item for entry in made.entries] == items[::-1]
    assert [entry.rank for entry in made.entries] == [1, 2, 3]
    assert made.entries[1].estimate == Estimate(5.0, known=False)
    assert made.devices == 3


@pytest.mark.parametrize("make", [plan.order, plan.fixed])
def test_a_plan_needs_a_device(make):
    with pytest.raises(ValueError, match="0 devices"):
        make([], table_of(), 0)


@given(items_lists, tables, st.integers(1, 9))
def test_a_plan_is_a_permutation_with_ranks(items, table, devices):
    for made in (plan.order(items, table, devices), plan.fixed(items, table, devices)):
        assert sorted(e.item.position for e in made.entries) == [item.position for item in items]
        assert [e.rank for e in made.entries] == list(range(1, len(items) + 1))
        assert made.devices == devices


@given(items_lists, tables, st.randoms(use_true_random=False))
def test_equal_input_in_any_order_gives_an_equal_plan(items, table, random):
    shuffled = list(items)
    random.shuffle(shuffled)
    assert plan.order(shuffled, table, 2) == plan.order(items, table, 2)


@given(items_lists, tables)
def test_order_of_the_classes(items, table):
    entries = plan.order(items, table, 2).entries

    def rank(entry):
        known, seconds = entry.estimate.known, entry.estimate.seconds
        return (known, bool(entry.item.key.tag) and not known, seconds is not None, -(seconds or 0.0))

    assert [rank(entry) for entry in entries] == sorted(rank(entry) for entry in entries)
    assert all(entry.estimate.known == (entry.item.key in table.entries) for entry in entries)
