"""Draws: one that is given, random ones, and those of a key, which are the same again and nested."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_sgpu.runners.routing import chance
from pytest_sgpu.runners.routing.decide import Request, decide
from pytest_sgpu.runners.routing.fleets import parse_fleets
from pytest_sgpu.runners.routing.rollout import Experiment, Rollout

FLEETS = parse_fleets("version: 1\noutputs: {label: a, translates: b}\n", "s")


def share(percent: float, source: chance.Chance, name: str = "lf") -> bool:
    rollout = Rollout({name: Experiment(name, percent)}, {})
    return decide(rollout, FLEETS, Request(), source).enabled == (name,)


@pytest.mark.parametrize("percent", [0.0, 12.5, 99.999, 100.0])
def test_q35_a_given_draw_is_that_of_every_experiment(percent):
    draw = chance.fixed(percent)
    assert (draw("lf"), draw("arc")) == (percent, percent)


def test_q35_random_draws_are_percentages_of_the_source():
    draw = chance.drawn(iter([0.0, 0.25, 0.999]).__next__)
    assert [draw("lf"), draw("lf"), draw("arc")] == [0.0, 25.0, pytest.approx(99.9)]


def test_q36_a_key_draws_the_same_on_every_machine_and_version():
    draw = chance.keyed("123")
    assert draw("lf") == chance.keyed("123")("lf")
    # Written down once: whoever changes how a key draws moves everybody.
    assert [round(draw(name), 6) for name in ("lf", "arc")] == KNOWN
    assert round(chance.keyed("h\u00f6he")("lf"), 6) == KNOWN_NON_ASCII


KNOWN = [96.460027, 43.653299]
KNOWN_NON_ASCII = 1.984565


def test_q36_experiment_and_key_do_not_run_into_each_other():
    assert chance.keyed("bc")("a") != chance.keyed("c")("ab")
    assert chance.keyed("1")("lf") != chance.keyed("1")("arc")
    assert chance.keyed("1")("lf") != chance.keyed("2")("lf")


@given(st.text(), st.text())
def test_q36_a_key_draws_at_least_0_and_less_than_100(name, key):
    assert 0.0 <= chance.keyed(key)(name) < 100.0


def test_q36_a_lone_surrogate_draws_too():
    assert 0.0 <= chance.keyed("\ud800")("\udfff") < 100.0


@given(st.text(), st.floats(0, 100), st.floats(0, 100))
def test_q36_raising_a_percentage_moves_nobody_back(key, one, other):
    low, high = sorted((one, other))
    assert share(high, chance.keyed(key)) or not share(low, chance.keyed(key))


@pytest.mark.parametrize("percent", [1.0, 25.0, 50.0, 97.0])
def test_q36_the_share_of_keys_is_the_percentage(percent):
    count = 20_000
    on = sum(chance.keyed(f"{number}")("lf") < percent for number in range(count))
    deviation = (count * percent / 100 * (1 - percent / 100)) ** 0.5
    assert abs(on - count * percent / 100) < 4 * deviation


def test_q36_two_experiments_of_one_key_are_independent():
    count = 20_000
    draws = [(chance.keyed(f"{number}")("lf") < 50, chance.keyed(f"{number}")("arc") < 50) for number in range(count)]
    assert abs(sum(one and other for one, other in draws) - count / 4) < 4 * (count * 3 / 16) ** 0.5


def test_q35_random_draws_with_a_seed_come_again():
    def run() -> list[bool]:
        source = chance.drawn(random.Random(5).random)
        return [share(50.0, source) for _ in range(50)]

    assert run() == run()
    assert len(set(run())) == 2


def test_q36_another_order_of_experiments_draws_the_same():
    one = Rollout({name: Experiment(name, 50.0) for name in "abcdefgh"}, {})
    other = replace(one, experiments=dict(reversed(list(one.experiments.items()))))
    for key in ("1", "2", "3"):
        first, second = (decide(each, FLEETS, Request(), chance.keyed(key)).enabled for each in (one, other))
        assert first == tuple(reversed(second))


def test_q36_chance_has_no_state_and_no_source_of_its_own():
    text = Path(chance.__file__).read_text(encoding="utf-8")
    for module in ("random", "time", "os", "secrets"):
        assert f"import {module}" not in text
