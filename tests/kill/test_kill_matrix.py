"""Who is killed, how, while what runs: nothing survives, nothing that had finished is lost, nobody else is touched.

A cell is a signal and a process of the run that gets it: the controller, the workers, the guardians, or the first
process of each item. One run has items of all five shapes at once: a plain one, one whose child ignores SIGTERM, one
whose child has a session of its own, a daemon (double fork, closed standard streams), and one with 200 children.
Later rounds strike while the 200 are still being started.
"""

from __future__ import annotations

import re
import signal

import pytest

LIMIT = 2.0  # seconds after which nothing may be left: the promise itself
ROUNDS = 10
TARGETS = ("controller", "worker", "guardian", "item")
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL)
QUICK = {("controller", signal.SIGTERM), *((target, signal.SIGKILL) for target in TARGETS)}

SHAPES = ("shape/plain", "shape/deaf", "shape/session", "shape/daemon", "shape/many")
EARLY = ("early/good", "early/bad", "early/said", "whole")  # had finished when it struck
LATE = ("late/one", "late/two")  # had not begun


def matrix():
    for number in range(1, ROUNDS + 1):
        for target in TARGETS:
            for what in SIGNALS:
                marks = [] if number == 1 and (target, what) in QUICK else [pytest.mark.slow]
                yield pytest.param((target, what, number), marks=marks, id=f"{what.name}-{target}-{number}")


@pytest.mark.parametrize("cell", list(matrix()))
def test_it(run, untouched, bystanders, cell):
    target, what, number = cell
    run.start("--sgpu-grace=0.5")
    many = 200 if number == 1 else number * 61 % 200
    run.until(lambda: run.up(many), lambda: f"the shapes are up\n{run.out}")
    bystanders.join(run.cookie())

    strike = run.strike(target, what)
    if goes_on(target, what):
        if what is signal.SIGKILL:
            run.until(
                lambda: len(run.targets(target) - strike.targets) == len(SHAPES), lambda: "there are new guardians"
            )
        else:
            assert run.targets(target) == strike.targets
        run.open_gates()
    elif target != "controller" or what is signal.SIGKILL:
        strike.nothing_left(strike.doomed, strike.at, LIMIT)

    code = run.wait()
    strike.nothing_left(run.carriers, max(strike.at, run.ended), LIMIT)
    assert bystanders.fallen(run.child) == []

    outcomes = run.outcomes()
    assert set(EARLY) <= set(outcomes), "an item that had finished is not in the journal"
    if (target, what) == ("controller", signal.SIGKILL):
        assert code == -signal.SIGKILL
        assert run.finalize() == 2, run.out
    else:
        assert code == (2 if target == "controller" else 1), run.out

    results = run.results()
    assert results.of(EARLY) == untouched.of(EARLY)
    assert results.statuses == expected(untouched.statuses, target, what)
    assert run.learned() == pytest.approx(taught(run.weights, outcomes), abs=0.051)
    if goes_on(target, what):
        assert results == untouched
    else:
        check_cases(results.cases, target, what)


def goes_on(target, what):
    """Whether the run goes on as if nothing had happened: these decide themselves when they end."""
    return target == "guardian" or (target == "worker" and what is signal.SIGINT)


def expected(statuses, target, what):
    """Give the status of each item in the end."""
    if target == "controller":
        how = "lost" if what is signal.SIGKILL else "stopped"
        return statuses | dict.fromkeys(SHAPES, how) | dict.fromkeys(LATE, "not-run")
    if target == "item":
        return statuses | dict.fromkeys(SHAPES, "crashed")
    return statuses  # an item that was lost with its worker was handed out once more, and passed


def taught(before, outcomes):
    """Give the table after these outcomes, by the documented rule: half the way up, a tenth of the way down."""
    table = dict(before)
    for key, outcome in outcomes.items():
        if outcome["status"] in ("PASSED", "FAILED"):
            seconds = outcome["stop"] - outcome["start"]
            table[key] += (0.5 if seconds > table[key] else 0.1) * (seconds - table[key])
    return table


def check_cases(cases, target, what):
    """Check that each item is among the tests, and that those that were hit say what hit them."""
    assert set(cases) == {*EARLY, *SHAPES, *LATE}
    if target == "worker":
        assert {how for key in (*SHAPES, *LATE) for _, _, how, *_ in cases[key]} == {"passed"}
        return
    name = what.name if target == "item" or what is not signal.SIGKILL else ""
    words = name or r"did not finish: controller killed at \+\d+ s on gpu\d"
    for key in SHAPES:
        told = [text for _, _, how, *text in cases[key] if how == "error"]
        assert len(told) == 1, cases[key]
        assert re.search(words, "\n".join(told[0])), told


@pytest.mark.parametrize(
    "target", ["worker+guardian", *(pytest.param(f"controller+{one}", marks=pytest.mark.slow) for one in TARGETS[1:3])]
)
def test_two_at_once(run, bystanders, target):
    """Any one of controller, worker and guardian is enough to clean up behind the other two. All three are too many."""
    run.start("--sgpu-grace=0.5")
    run.until(lambda: run.up(200), lambda: f"the shapes are up\n{run.out}")
    bystanders.join(run.cookie())
    strike = run.strike(target, signal.SIGKILL)
    strike.nothing_left(strike.doomed, strike.at, LIMIT)
    code = run.wait()
    strike.nothing_left(run.carriers, max(strike.at, run.ended), LIMIT)
    assert bystanders.fallen(run.child) == []
    if target == "worker+guardian":  # what was lost ran again, on clean devices
        assert code == 1, run.out
        assert {outcome["status"] for key, outcome in run.outcomes().items() if key not in EARLY} == {"PASSED"}


@pytest.mark.parametrize(
    "moment", [1, pytest.param(20, marks=pytest.mark.slow), pytest.param(45, marks=pytest.mark.slow)]
)
def test_the_controller_in_full_flight(run, moment):
    """Killed while short items end by the dozen: what the journal holds is kept, what it does not hold did not pass."""
    (run.path / "flight.conf").write_text("flight flight.log list ./items.sh flight\n")
    run.start(conf="flight.conf")
    run.until(lambda: len(run.outcomes()) >= moment, lambda: f"{moment} outcomes\n{run.out}")
    strike = run.strike("controller", signal.SIGKILL)
    assert run.wait() == -signal.SIGKILL
    strike.nothing_left(run.carriers, strike.at, LIMIT)
    outcomes = run.outcomes()

    assert run.finalize() == 2, run.out
    results = run.results()
    assert len(results.statuses) == len(results.cases) == 60
    assert {key for key, status in results.statuses.items() if status == "passed"} == set(outcomes)
    others = {status for key, status in results.statuses.items() if key not in outcomes}
    assert others <= {"lost", "not-run"}
    assert len([status for status in results.statuses.values() if status == "lost"]) <= len(SHAPES)
    learned = run.learned()
    assert learned.keys() == outcomes.keys()
    assert run.finalize() == 2
    assert run.learned() == learned, "the same run has taught twice"


@pytest.mark.parametrize("what", [signal.SIGTERM, signal.SIGKILL], ids=lambda what: what.name)
def test_the_controller_while_scripts_list(run, bystanders, what):
    """There is no worker yet. Each script is asked twice at the same time, and has five processes here."""
    (run.path / "listing.conf").write_text("listing listing.log list ./items.sh listing\n")
    run.start(conf="listing.conf")
    run.until(lambda: len(run.pids("listing")) == 10, lambda: f"both listings are up\n{run.out}")
    bystanders.join("0" * 32)
    strike = run.strike("controller", what)
    code = run.wait()
    assert code == (2 if what is signal.SIGTERM else -what), run.out
    strike.nothing_left(run.carriers, run.ended, LIMIT)
    assert bystanders.fallen(run.child) == []
    assert not run.logs.exists()
