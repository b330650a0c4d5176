"""Conf files that are damaged: suites or one error with a place, and never another meaning of a line that is whole."""

from __future__ import annotations

import re
import shlex

import pytest

from pytest_sgpu.core.conf import parse_all
from pytest_sgpu.core.text import is_plain
from pytest_sgpu.errors import ConfError
from tests.fuzz.conftest import COUNTS, Dice, fuzz

NAME = "ci/queue.conf"
SEED = rb"""# the suites of this repository
torch   torch.log     list    ci/pytorch.sh    # lists its items
jax     jax.log       list    ci/jax.sh --level "two words" 'x # y' a\ b

core    core.log      opaque  ci/core.sh -v#1
c++.x   cpp-1.log     list    "ci/c++ suite.sh" $HOME `id` ; echo
"""
OTHERS = (b"a\ta.log\tlist\tx.sh\n", b"torch torch.log.rc opaque ./x\r\n", b"x x.log lst y\n", b"'\n", b"\\\n")
WHOLE = {raw: parse_all([(NAME, raw)])[0] for raw in SEED.decode().split("\n") if raw and not raw.startswith("#")}


@pytest.mark.parametrize("count", COUNTS)
def test_conf(count):
    fuzz("conf", count, _check)


def _check_error(error: ConfError, text: str) -> None:
    assert re.match(rf"{NAME}:\d+: .|{NAME}: no suite at all$", error.message)
    assert is_plain(error.message)
    assert is_plain(error.hint)
    place = re.match(rf"{NAME}:(\d+): ", error.message)
    assert place is None or int(place[1]) <= text.count("\n") + 1


def _check(dice: Dice) -> None:
    data = dice.mutated(SEED, OTHERS)
    text = data.decode("utf-8", dice.one(("surrogateescape", "replace")))
    dice.told = text
    try:
        suites = parse_all([(NAME, text)])
    except ConfError as error:
        _check_error(error, text)
        return
    lines = text.removeprefix("\ufeff").split("\n")
    for number, line in enumerate(lines, start=1):
        found = [suite for suite in suites if suite.line == number]
        if line in WHOLE:
            expected = WHOLE[line]
            (suite,) = found
            assert (suite.label, suite.log_name, suite.mode, suite.command) == (
                expected.label,
                expected.log_name,
                expected.mode,
                expected.command,
            )
        else:
            assert len(found) == bool(line.strip(" \t\r") and not line.lstrip(" \t\r").startswith("#"))
    assert len({suite.label for suite in suites}) == len({suite.log_name for suite in suites}) == len(suites)
    assert all(re.fullmatch(r"[A-Za-z0-9][\w.+-]*", name, re.ASCII) for s in suites for name in (s.label, s.log_name))
    assert not any("\0" in word or "\n" in word for suite in suites for word in suite.command)
    again = "".join(shlex.join([s.label, s.log_name, s.mode.value, *s.command]) + "\n" for s in suites)
    assert [(s.label, s.log_name, s.mode, s.command) for s in parse_all([(NAME, again)])] == [
        (s.label, s.log_name, s.mode, s.command) for s in suites
    ]
