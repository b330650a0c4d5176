"""The determinator under any rollout, request and draw: what no rule may break."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_sgpu.runners.routing import chance, explain
from pytest_sgpu.runners.routing.decide import Decision, Request, decide
from pytest_sgpu.runners.routing.fleets import Fleets, KillSwitch, parse_fleets
from pytest_sgpu.runners.routing.rollout import Experiment, Rollout, User

ROOT = Path(__file__).parents[3]
SHIPPED = parse_fleets((ROOT / "conf" / "runner_routing.yaml").read_text(encoding="utf-8"), "conf/runner_routing.yaml")
SOME = replace(SHIPPED, kill_switch=KillSwitch("off", frozenset({"lf", "other"})), combinations=())
OTHER = parse_fleets(
    """\
version: 1
outputs: {label: lane, translates: on-metal}
default-prefix: cloud-
fleets:
  metal: {experiment: other, prefix: bm-, translates: true}
  new: {prefix: n-}
  spot: {experiment: lf, prefix: s-}
combinations: [{fleets: [new, spot], prefix: ns-}]
separate: {arc: {output: arc-lane, prefix: arc-}}
exception-branches: [stable]
kill-switch: {label: "off"}
""",
    "other.yaml",
)

NAMES = ["lf", "arc", "amd-do", "other", "new"]
LOGINS = ["ann", "bob", "Cid"]
PERCENT = st.one_of(st.sampled_from([0.0, 1.0, 50.0, 99.0, 100.0]), st.floats(0, 100))
WORKFLOWS = st.lists(st.sampled_from(["pull", "trunk", "ALL", "-pull", "-trunk"]), max_size=3).map(tuple)


@st.composite
def experiments(draw: st.DrawFn) -> dict[str, Experiment]:
    names = draw(st.permutations(NAMES))[: draw(st.integers(0, len(NAMES)))]
    return {
        name: Experiment(name, draw(PERCENT), draw(st.booleans()), draw(st.booleans()), draw(WORKFLOWS))
        for name in names
    }


@st.composite
def users(draw: st.DrawFn) -> dict[str, User]:
    chosen = draw(st.lists(st.sampled_from(LOGINS), unique=True))
    percents = st.dictionaries(st.sampled_from(NAMES), PERCENT, max_size=3)
    outs = st.frozensets(st.sampled_from(NAMES), max_size=1)
    everything = st.sampled_from([False, False, False, True])
    return {login.casefold(): User(login, draw(percents), draw(outs), draw(everything)) for login in chosen}


ROLLOUTS = st.builds(Rollout, experiments(), users())
LISTS = st.lists(st.sampled_from([*NAMES, "typo"]), max_size=3, unique=True).map(tuple)
REQUESTS = st.builds(
    Request,
    actor=st.sampled_from([*LOGINS, "ANN", "", "pytorch-bot[bot]"]),
    author=st.sampled_from([*LOGINS, "dan", ""]),
    branch=st.sampled_from(["topic", "main", "release/1", "stable", "refs/heads/nightly", "ciflow/x/1", ""]),
    ref_type=st.sampled_from(["branch", "tag", ""]),
    repository=st.sampled_from(["a/b", "pytorch/pytorch-canary"]),
    workflow=st.sampled_from(["pull", "trunk", "x", ""]),
    check=st.one_of(st.just(()), LISTS),
    opt_out=st.one_of(st.just(()), LISTS),
    labels=st.sampled_from([(), (), (), ("x",), ("off",), ("no-runner-experiments",)]),
)
FILES = st.sampled_from([SHIPPED, SOME, OTHER])
KEYS = st.text(max_size=3)
CASES = st.tuples(ROLLOUTS, FILES, REQUESTS, KEYS)


def made(rollout: Rollout, fleets: Fleets, request: Request, key: str) -> Decision:
    return decide(rollout, fleets, request, chance.keyed(key))


@given(CASES, st.sampled_from(NAMES))
def test_q68_a_workflow_that_opts_out_never_enables(one_case, name):
    rollout, fleets, request, key = one_case
    before = set(made(rollout, fleets, request, key).enabled)
    after = made(rollout, fleets, replace(request, opt_out=(*request.opt_out, name)), key)
    assert set(after.enabled) == before - {name}


@given(CASES, st.sampled_from(NAMES), st.sampled_from(LOGINS))
def test_q68_a_user_who_opts_out_never_enables(one_case, name, login):
    rollout, fleets, request, key = one_case
    before = set(made(rollout, fleets, request, key).enabled)
    line = rollout.users.get(login.casefold(), User(login, {}))
    one = replace(line, out=line.out | {name})
    after = made(replace(rollout, users={**rollout.users, login.casefold(): one}), fleets, request, key)
    assert set(after.enabled) in (before, before - {name})
    everything = replace(line, out_of_all=True)
    after = made(replace(rollout, users={**rollout.users, login.casefold(): everything}), fleets, request, key)
    assert set(after.enabled) in (before, set())


@given(CASES)
def test_q68_the_kill_switch_never_enables(one_case):
    rollout, fleets, request, key = one_case
    before = set(made(rollout, fleets, request, key).enabled)
    label = fleets.kill_switch.label.upper()
    after = set(made(rollout, fleets, replace(request, labels=(*request.labels, label)), key).enabled)
    assert after <= before
    assert after == set() or fleets.kill_switch.experiments is not None


@given(CASES, st.floats(0, 100))
def test_q68_raising_the_rollout_with_a_key_never_disables(one_case, raised):
    rollout, fleets, request, key = one_case
    before = set(made(rollout, fleets, request, key).enabled)
    for name, one in rollout.experiments.items():
        higher = replace(one, rollout_perc=max(one.rollout_perc, raised))
        after = made(replace(rollout, experiments={**rollout.experiments, name: higher}), fleets, request, key)
        assert before <= set(after.enabled)


@given(CASES, st.floats(0, 100))
def test_q68_raising_a_users_percentage_with_a_key_never_disables(one_case, raised):
    rollout, fleets, request, key = one_case
    before = set(made(rollout, fleets, request, key).enabled)
    for login, line in rollout.users.items():
        for name, percent in line.percent.items():
            higher = replace(line, percent={**line.percent, name: max(percent, raised)})
            after = made(replace(rollout, users={**rollout.users, login: higher}), fleets, request, key)
            assert before <= set(after.enabled)


@given(CASES, st.sampled_from(["", "/x", "/1/2"]), st.booleans())
def test_q42_an_exception_branch_never_enables_without_all_branches(one_case, rest, full):
    rollout, fleets, request, key = one_case
    for first in fleets.exception_branches:
        branch = f"{'refs/heads/' if full else ''}{first}{rest}"
        enabled = made(rollout, fleets, replace(request, branch=branch), key).enabled
        assert all(rollout.experiments[name].all_branches for name in enabled)


@given(CASES)
def test_q52_the_lowest_percentage_of_the_requestors_is_the_threshold(one_case):
    rollout, fleets, request, key = one_case
    decision = made(rollout, fleets, request, key)
    for step in decision.steps:
        if step.rule == "user-opt-in" and step.outcome != "skip":
            people = {request.author.casefold(), request.actor.casefold()}
            lines = [line for login, line in rollout.users.items() if login in people]
            shares = [line.percent[step.experiment] for line in lines if step.experiment in line.percent]
            assert step.threshold == min(shares)
            assert (step.outcome == "on") == (chance.keyed(key)(step.experiment) < min(shares))


@given(CASES, st.randoms(use_true_random=False))
def test_q69_the_order_of_experiments_only_says_which_other_one_is_kept(one_case, random):
    rollout, fleets, request, key = one_case
    items = list(rollout.experiments.items())
    random.shuffle(items)
    one, other = (
        made(rollout, fleets, request, key),
        made(replace(rollout, experiments=dict(items)), fleets, request, key),
    )
    assert set(one.enabled) == set(other.enabled)
    assert (one.use_arc, one.separate, one.source) == (other.use_arc, other.separate, other.source)
    assert len(one.dropped) == len(other.dropped)
    apart = {separate.experiment for separate in fleets.separate}
    others = [name for name in one.enabled if name not in fleets.experiments and name not in apart]
    if len(others) < 2:
        assert (one.label_type, set(one.dropped)) == (other.label_type, set(other.dropped))


@given(CASES)
def test_q67_a_decision_fits_together(one_case):
    rollout, fleets, request, key = one_case
    decision = made(rollout, fleets, request, key)
    assert list(decision.enabled) == [name for name in rollout.experiments if name in decision.enabled]
    assert set(decision.dropped) <= set(decision.enabled)
    assert list(decision.separate) == [one.output for one in fleets.separate]
    for name in rollout.experiments:
        step = explain.deciding(decision, name)
        assert step is not None
        assert (step.outcome == "on") == (name in decision.enabled)
        looked = [one for one in decision.steps if one.experiment == name and one.rule not in ("dropped", "separate")]
        assert [one.outcome for one in looked[:-1]] == ["skip"] * (len(looked) - 1)
    place = fleets.place_of(decision.enabled)
    assert decision.use_arc == place.translates
    assert decision.label_type.startswith(place.prefix_for(canary=fleets.is_canary(request.repository)))
    assert decision == made(rollout, fleets, request, key)


TEXT = st.text(max_size=12)
ANY_FLOAT = st.floats(allow_nan=True, allow_infinity=True)
ANY_ROLLOUT = st.builds(
    Rollout,
    st.lists(
        st.builds(Experiment, TEXT, ANY_FLOAT, st.booleans(), st.booleans(), st.lists(TEXT, max_size=3).map(tuple)),
        max_size=4,
    ).map(lambda many: {one.name: one for one in many}),
    st.lists(
        st.builds(
            User, TEXT, st.dictionaries(TEXT, ANY_FLOAT, max_size=3), st.frozensets(TEXT, max_size=3), st.booleans()
        ),
        max_size=3,
    ).map(lambda many: {one.login.casefold(): one for one in many}),
    usable=st.booleans(),
    why=TEXT,
)
NAMED = st.lists(TEXT, max_size=3).map(tuple)
ANY_REQUEST = st.builds(Request, TEXT, TEXT, TEXT, TEXT, TEXT, TEXT, NAMED, NAMED, NAMED)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(ANY_ROLLOUT, FILES, ANY_REQUEST, ANY_FLOAT)
def test_q67_nothing_in_a_rollout_or_request_raises(rollout, fleets, request, draw):
    decision = decide(rollout, fleets, request, chance.fixed(draw))
    lines = explain.lines(decision)
    assert all(line.isprintable() for line in lines)
    assert decision.source.isprintable()
    assert all(warning.isprintable() for warning in decision.warnings)
    assert len(explain.values(decision)) == len(decision.steps)


def known(names: Mapping[str, object]) -> list[str]:
    return list(names)


@pytest.mark.parametrize("fleets", [SHIPPED, SOME, OTHER], ids=["shipped", "some", "other"])
@given(st.lists(st.sampled_from(["arc", "lf", "metal", "new", "spot", "nowhere"])))
def test_q58_every_set_of_fleets_has_one_place_that_one_of_them_is_in(fleets, names):
    place = fleets.place(names)
    on = [name for name in known(fleets.fleets) if name in names]
    assert set(place.fleets) <= set(on)
    assert (on[0] in place.fleets) if on else (place == fleets.default)
