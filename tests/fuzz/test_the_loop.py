"""The loop of the fuzz tests: repeatable, and it does change what it is given."""

from __future__ import annotations

import json

import pytest

from tests.fuzz.conftest import Dice, fuzz

SAMPLE = b"one 1\ntwo 2\nthree 3\n"
RECORD = {"event": "x", "at": 1.5, "rows": [["a", 1], ["b", 2]], "inner": {"text": "t"}}


def test_one_seed_gives_the_same_mutations():
    assert [Dice(f"a/{n}").mutated(SAMPLE) for n in range(50)] == [Dice(f"a/{n}").mutated(SAMPLE) for n in range(50)]
    assert [Dice(f"a/{n}").mutated(SAMPLE) for n in range(50)] != [Dice(f"b/{n}").mutated(SAMPLE) for n in range(50)]


def test_mutations_differ_and_change_something():
    made = {Dice(f"a/{n}").mutated(SAMPLE, [b"four 4\n"]) for n in range(1000)}
    assert len(made) > 700
    confused = {json.dumps(Dice(f"a/{n}").confused(RECORD)) for n in range(1000)}
    assert len(confused) > 200
    assert RECORD == {"event": "x", "at": 1.5, "rows": [["a", 1], ["b", 2]], "inner": {"text": "t"}}


def test_a_failure_says_how_to_see_it_again(monkeypatch):
    monkeypatch.delenv("SGPU_FUZZ_SEED", raising=False)
    seen: list[bytes] = []

    def check(dice: Dice) -> None:
        dice.told = dice.mutated(SAMPLE)
        seen.append(dice.told)
        if len(seen) == 8 or len(seen) > 500:
            raise ValueError("boom")

    with pytest.raises(AssertionError, match=r"here: SGPU_FUZZ_SEED=(\d+:7): ValueError: boom\ninput: b'") as failure:
        fuzz("here", 500, check)
    assert len(seen) == 8
    monkeypatch.setenv("SGPU_FUZZ_SEED", str(failure.value).split("=")[1].split(": ")[0])
    again: list[bytes] = []

    def look(dice: Dice) -> None:
        again.append(dice.mutated(SAMPLE))

    fuzz("here", 500, look)
    assert again == seen[-1:]
