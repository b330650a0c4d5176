"""What is said of a run that goes on, and why one may not."""

from __future__ import annotations

import time

import pytest

from pytest_sgpu.core.journal import RunState
from pytest_sgpu.engine.store import RunDirectory
from pytest_sgpu.face.resumed import Earlier, _refusal, kept_lines, left_of
from pytest_sgpu.model import UNKNOWN, Item, Key, Outcome, Part, Plan, PlanEntry, Status


def outcomes(count, part=1, suite="torch"):
    return tuple(Outcome(Key(suite, f"t{number}"), Status.PASSED, 0, part=part) for number in range(count))


def plan(count):
    return Plan(tuple(PlanEntry(n, Item(Key("s", f"n{n}"), ("x",), 1, n), UNKNOWN) for n in range(count)), 1)


def lines(kept, parts, todo=3, commit="bbb", width=80):
    return list(kept_lines(Earlier(RunState(parts=parts), 10.0, kept), plan(todo), commit, width))


def test_each_part_says_what_is_kept_of_it_and_of_which_commit():
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(1000.0))
    parts = (Part(1, 1000.0, 0.0, "aaa"), Part(2, 2000.0, 5.0, "bbb+changes"))
    told = lines(outcomes(2) + outcomes(1, 2, "jax"), parts)
    assert told[0] == "sgpu: part 3 of this run (commit bbb): 3 items kept, 3 items to run"
    assert told[1] == f"  from part 1 (commit aaa), {when}: torch/t0, torch/t1"
    assert told[2].startswith("  from part 2 (commit bbb+changes), ")
    assert told[2].endswith(": jax/t0")
    assert told[3] == "sgpu: warning: this run covers 3 commits: aaa, bbb+changes, bbb"


def test_one_commit_needs_no_warning_and_none_no_name():
    assert lines(outcomes(1), (Part(1, 0.0, 0.0, ""),), commit="") == [
        "sgpu: part 2 of this run: 1 item kept, 3 items to run",
        f"  from part 1, {time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(0))}: torch/t0",
    ]
    assert "commits" not in "".join(lines(outcomes(1), (Part(1, 0.0, 0.0, "bbb"),)))


def test_nothing_left_is_said():
    assert lines(outcomes(2), (Part(1, 0.0, 0.0, "bbb"),), todo=0)[0].endswith("2 items kept, nothing is left to run")


def test_many_keys_are_wrapped_and_capped():
    told = lines(outcomes(500), (Part(1, 0.0, 0.0, "bbb"),))
    assert all(len(line) <= 80 for line in told)
    assert told[-1].endswith("torch/t19 and 480 more")
    assert len(told) < 8


def test_a_key_is_never_broken_and_never_gives_orders():
    key = Key("s", "x" * 300 + "\x1b[31m y")
    told = lines((Outcome(key, Status.PASSED, 0),), (Part(1, 0.0, 0.0, "bbb"),))
    assert all(line.isprintable() for line in told)
    assert any("x" * 300 in line for line in told)


def test_an_outcome_knows_when_the_clock_of_its_part_began():
    earlier = Earlier(RunState(parts=(Part(1, 1000.0, 0.0), Part(2, 5000.0, 30.0))), 60.0, ())
    assert [earlier.zero(outcome) for outcome in outcomes(1) + outcomes(1, 2)] == [1000.0, 4970.0]
    assert Earlier(RunState(), 0.0, ()).zero(outcomes(1)[0]) == 0.0


def test_a_refusal_names_what_differs_and_how_to_go_on(tmp_path):
    told = _refusal(RunDirectory(tmp_path / "logs"), ["the commit: 'a' then, 'b' now", "x" * 9000])
    assert "the commit: 'a' then, 'b' now" in told
    assert "--sgpu-resume=force" in told
    assert max(map(len, told.splitlines())) <= 1100


def test_without_a_run_there_is_nothing_to_look_at(tmp_path):
    with pytest.raises(pytest.UsageError, match="no run has left its journal here"):
        left_of(tmp_path, plan(1))
