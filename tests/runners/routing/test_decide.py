"""The determinator, case by case: config, request and draw to prefix, outputs, and the rule that decided."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from pytest_sgpu.runners.routing import chance, explain
from pytest_sgpu.runners.routing.decide import Decision, Request, decide, fallback
from pytest_sgpu.runners.routing.fleets import Fleets, KillSwitch, parse_fleets
from pytest_sgpu.runners.routing.rollout import Rollout, parse_rollout

ROOT = Path(__file__).parents[3]
SHIPPED = parse_fleets((ROOT / "conf" / "runner_routing.yaml").read_text(encoding="utf-8"), "conf/runner_routing.yaml")
KILL = "no-runner-experiments"
CANARY = "pytorch/pytorch-canary"
BOT = "pytorch-bot[bot]"
FLAGS = {"all": ("all_branches", True), "opt": ("default", False)}


def settings(**experiments: object) -> str:
    """Write settings: ``lf=25``, or ``arc="50 all opt workflows=pull,trunk"`` (``opt``: default is false)."""
    made: dict[str, dict[str, object]] = {}
    for name, given in experiments.items():
        percent, *more = f"{given}".split(" ")
        values: dict[str, object] = {"rollout_perc": float(percent)}
        for word in more:
            if word in FLAGS:
                values[FLAGS[word][0]] = FLAGS[word][1]
            else:
                values["workflows"] = word.removeprefix("workflows=").replace("_", " ")
        made[name.replace("amd_do", "amd-do")] = values
    return json.dumps({"experiments": made})


def config(text: str, *users: str) -> Rollout:
    return parse_rollout("\n---\n".join((text, "\n".join(users))), "rollout.txt")


@dataclass(frozen=True)
class Case:
    """``by``: for each experiment named there, the rule that decided and what it said."""

    settings: str
    users: tuple[str, ...]
    asked: Mapping[str, object]
    draw: float | Mapping[str, float]
    label: str
    arc: bool
    amd: str
    by: str
    fleets: Fleets = field(default=SHIPPED, compare=False)

    def decide(self) -> Decision:
        given: dict[str, object] = {"actor": "ann", "author": "ann", "branch": "topic", "ref_type": "branch"}
        request = Request(**{**given, "repository": "pytorch/pytorch", "workflow": "pull", **self.asked})  # type: ignore[arg-type]
        draw = self.draw
        source = chance.fixed(draw) if not isinstance(draw, Mapping) else lambda name: dict(draw)[name]
        return decide(config(self.settings, *self.users), self.fleets, request, source)


def case(
    text: str,
    users: str = "",
    /,
    *,
    label: str = "",
    arc: bool = False,
    amd: str = "",
    by: str = "",
    draw: float | Mapping[str, float] = 50.0,
    fleets: Fleets = SHIPPED,
    **asked: object,
) -> Case:
    return Case(text, tuple(users.split(" ; ")), asked, draw, label, arc, amd, by, fleets)


LF, ARC = settings(lf=100), settings(arc=100)
BOTH = settings(lf=100, arc=100)
OPT = settings(lf="100 opt", arc="100 opt")
ONLY_LF = replace(SHIPPED, kill_switch=KillSwitch(KILL, frozenset({"lf"})))
SEED = """\
experiments:
  lf:
    rollout_perc: 25
    all_branches: false
    default: true
  arc:
    rollout_perc: 50
    all_branches: true
    default: false
    workflows: pull,trunk
"""

TABLE: dict[str, list[Case]] = {
    "q37": [
        case(settings(lf=0), draw=0.0, by="lf:rollout:off"),
        case(settings(lf=100), draw=99.99, label="lf.", by="lf:rollout:on"),
        case(settings(lf=25), draw=25.0, label="lf.", by="lf:rollout:on"),
        case(settings(lf=25), draw=25.001, by="lf:rollout:off"),
        case(settings(lf=0.5), draw=0.49, label="lf.", by="lf:rollout:on"),
        case(settings(lf=0), "@ann,lf:0", draw=0.0, by="lf:user-opt-in:off"),
        case(settings(lf=0), "@ann,lf:100", draw=99.99, label="lf.", by="lf:user-opt-in:on"),
        case(settings(lf=0), "@ann,lf:30", draw=29.0, label="lf.", by="lf:user-opt-in:on"),
        case(settings(lf=0), "@ann,lf:30", draw=30.0, label="lf.", by="lf:user-opt-in:on"),
        case(settings(lf=0), "@ann,lf:30", draw=30.1, by="lf:user-opt-in:off"),
        case(settings(lf=-5), draw=0.0, by="lf:rollout:off"),
        case(settings(lf=500), draw=99.0, label="lf.", by="lf:rollout:on"),
    ],
    "q39": [
        case(BOTH, labels=(KILL,), by="lf:kill-switch:off arc:kill-switch:off"),
        case(settings(amd_do=100, lf=100), labels=("ciflow/trunk", KILL), by="amd-do:kill-switch:off"),
        case(LF, "@ann,lf", labels=(KILL,), by="lf:kill-switch:off"),
        case(settings(lf="100 all"), labels=(KILL,), branch="main", by="lf:kill-switch:off"),
        case(LF, labels=(KILL,), check=("lf",), by="lf:kill-switch:off"),
        case(LF, labels=("ciflow/trunk",), label="lf.", by="lf:rollout:on"),
    ],
    "q40": [
        case(BOTH, labels=(KILL,), fleets=ONLY_LF, label="mt-", arc=True, by="lf:kill-switch:off arc:rollout:on"),
        case(LF, "@ann,lf", labels=(KILL,), fleets=ONLY_LF, by="lf:kill-switch:off"),
        case(LF, labels=("else",), fleets=ONLY_LF, label="lf.", by="lf:rollout:on"),
        case(settings(lf=100, amd_do=100), labels=(KILL,), fleets=ONLY_LF, amd="amd-do-", by="lf:kill-switch:off"),
        case(LF, labels=(KILL,), fleets=replace(SHIPPED, kill_switch=None), label="lf.", by="lf:rollout:on"),
    ],
    "q41": [
        case(LF, labels=("No-Runner-Experiments",), by="lf:kill-switch:off"),
        case(LF, labels=(f" {KILL} ",), by="lf:kill-switch:off"),
        case(LF, labels=(f"{KILL}-please",), label="lf.", by="lf:rollout:on"),
        case(LF, labels=("",), label="lf.", by="lf:rollout:on"),
    ],
    "q42": [
        case(LF, branch="main", by="lf:exception-branch:off"),
        case(LF, branch="nightly", by="lf:exception-branch:off"),
        case(LF, branch="release/2.9", by="lf:exception-branch:off"),
        case(LF, branch="landchecks/1/2", by="lf:exception-branch:off"),
        case(settings(lf=0), "@ann,lf", branch="main", by="lf:exception-branch:off"),
        case(OPT, branch="main", check=("lf", "arc"), by="lf:exception-branch:off arc:exception-branch:off"),
        case(BOTH, "@ann,-lf", branch="main", by="lf:exception-branch:off"),
        case(LF, branch="main", opt_out=("lf",), by="lf:exception-branch:off"),
    ],
    "q43": [
        case(LF, branch="main-foo", label="lf.", by="lf:rollout:on"),
        case(LF, branch="Main", label="lf.", by="lf:rollout:on"),
        case(LF, branch="topic/main", label="lf.", by="lf:rollout:on"),
        case(LF, branch="", label="lf.", by="lf:rollout:on"),
        case(LF, branch="refs/heads/main", by="lf:exception-branch:off"),
        case(LF, branch="refs/heads/release/2.9", by="lf:exception-branch:off"),
        case(LF, branch="refs/heads/topic", label="lf.", by="lf:rollout:on"),
        case(LF, branch="main/", by="lf:exception-branch:off"),
        case(LF, branch="release/v1", ref_type="tag", by="lf:exception-branch:off"),
        case(LF, branch="refs/tags/nightly", ref_type="tag", by="lf:exception-branch:off"),
        case(LF, branch="v2.9", ref_type="tag", label="lf.", by="lf:rollout:on"),
    ],
    "q44": [
        case(settings(lf="100 all"), branch="main", label="lf.", by="lf:rollout:on"),
        case(settings(lf="100 all"), "@ann,-lf", branch="main", by="lf:user-opt-out:off"),
        case(settings(lf="0 all"), "@ann,lf", branch="release/1", label="lf.", by="lf:user-opt-in:on"),
        case(
            settings(lf=100, arc="100 all"),
            branch="main",
            label="mt-",
            arc=True,
            by="lf:exception-branch:off arc:rollout:on",
        ),
    ],
    "q45": [
        case(LF, opt_out=("lf",), by="lf:opt-out:off"),
        case(LF, "@ann,lf", opt_out=("lf",), by="lf:opt-out:off"),
        case(OPT, check=("lf", "arc"), opt_out=("lf",), label="mt-", arc=True, by="lf:opt-out:off arc:rollout:on"),
        case(OPT, check=("arc",), opt_out=("lf",), label="mt-", arc=True, by="lf:opt-out:off"),
        case(BOTH, opt_out=(" lf ", ""), label="mt-", arc=True, by="lf:opt-out:off"),
        case(LF, opt_out=("LF",), label="lf.", by="lf:rollout:on"),
        case(settings(amd_do="100 opt"), check=("amd-do",), opt_out=("amd-do",), by="amd-do:opt-out:off"),
    ],
    "q46": [
        case(settings(lf=100, arc="100 opt"), check=("arc",), label="mt-", arc=True, by="lf:check:off arc:rollout:on"),
        case(OPT, check=("arc", "lf"), label="lf-", arc=True, by="lf:rollout:on arc:rollout:on"),
        case(LF, check=("arc",), by="lf:check:off"),
        case(LF, check=("typo",), by="lf:check:off"),
        case(LF, check=("LF",), by="lf:check:off"),
        case(LF, "@ann,lf", check=("arc",), by="lf:check:off"),
        case(LF, check=(" lf ",), label="lf.", by="lf:rollout:on"),
        case(LF, check=("", " "), label="lf.", by="lf:rollout:on"),
        case(settings(lf="0 opt"), check=("lf",), draw=0.0, by="lf:rollout:off"),
    ],
    "q47": [
        case(OPT, by="lf:default:off arc:default:off"),
        case(settings(lf="100 opt"), "@ann,lf", by="lf:default:off"),
        case(settings(lf=100, arc="100 opt"), label="lf.", by="lf:rollout:on arc:default:off"),
        case('{"experiments": {"lf": {}}}', draw=0.0, by="lf:rollout:off"),
        case('{"experiments": {"lf": {}}}', "@ann,lf", label="lf.", by="lf:user-opt-in:on"),
    ],
    "q48": [
        case(settings(lf=0), "@bob,lf", actor="bob", label="lf.", by="lf:user-opt-in:on"),
        case(settings(lf=0), "@bob,lf", author="bob", label="lf.", by="lf:user-opt-in:on"),
        case(settings(lf=0), "@bob,lf", by="lf:rollout:off"),
        case(settings(lf=0), "@ANN,lf", label="lf.", by="lf:user-opt-in:on"),
        case(settings(lf=0), "@ann,lf", actor=" Ann ", author="", label="lf.", by="lf:user-opt-in:on"),
        case(LF, actor="", author="", label="lf.", by="lf:rollout:on"),
        case(settings(lf=0), "@dependabot[bot],lf", actor="dependabot[bot]", label="lf.", by="lf:user-opt-in:on"),
        case(LF, "@bob,-lf", actor="bob", by="lf:user-opt-out:off"),
        case(LF, "@bob,-lf", author="Bob", by="lf:user-opt-out:off"),
    ],
    "q49": [
        case(
            LF,
            f"@{BOT},-lf",
            actor=BOT,
            ref_type="tag",
            branch="ciflow/trunk/12",
            label="lf.",
            by="lf:rollout:on",
        ),
        case(
            settings(lf=0),
            "@bob,lf",
            actor=BOT,
            author="bob",
            ref_type="tag",
            branch="ciflow/inductor/12",
            label="lf.",
            by="lf:user-opt-in:on",
        ),
        case(LF, f"@{BOT},-lf", actor=BOT, ref_type="branch", branch="ciflow/trunk/12", by="lf:user-opt-out:off"),
        case(LF, f"@{BOT},-lf", actor=BOT, ref_type="tag", branch="v2.9", by="lf:user-opt-out:off"),
        case(LF, f"@{BOT},-lf", actor=BOT, ref_type="tag", branch="ciflow/trunk/x", by="lf:user-opt-out:off"),
        case(LF, "@bob,-lf", actor="bob", ref_type="tag", branch="ciflow/trunk/12", by="lf:user-opt-out:off"),
        case(LF, actor=BOT, author="", ref_type="tag", branch="ciflow/trunk/12", label="lf.", by="lf:rollout:on"),
    ],
    "q50": [
        case(BOTH, "#@ann", by="lf:user-opt-out:off arc:user-opt-out:off"),
        case(BOTH, "#@ann,lf", by="lf:user-opt-out:off arc:user-opt-out:off"),
        case(settings(amd_do=100), "#@ann,lf", by="amd-do:user-opt-out:off"),
        case(BOTH, "#@Ann,lf:50", by="lf:user-opt-out:off"),
        case(BOTH, "#@bob ; @ann,lf", actor="bob", by="lf:user-opt-out:off arc:user-opt-out:off"),
        case(LF, "#@bob", label="lf.", by="lf:rollout:on"),
    ],
    "q51": [
        case(LF, "@ann,-lf", by="lf:user-opt-out:off"),
        case(BOTH, "@ann,-lf", label="mt-", arc=True, by="lf:user-opt-out:off arc:rollout:on"),
        case(LF, "@ann,lf,-lf", by="lf:user-opt-out:off"),
        case(LF, "@ann,-lf,lf", by="lf:user-opt-out:off"),
        case(LF, "@ann,lf ; @bob,-lf", actor="bob", by="lf:user-opt-out:off"),
        case(LF, "@ann,lf ; @bob,-lf", author="bob", by="lf:user-opt-out:off"),
        case(LF, "@ann,-lf:50", by="lf:user-opt-out:off"),
        case(LF, "@ann,-arc", label="lf.", by="lf:rollout:on"),
        case(settings(lf="100 opt"), "@ann,-lf", check=("lf",), by="lf:user-opt-out:off"),
    ],
    "q52": [
        case(LF, "@ann,lf:80 ; @bob,lf:20", actor="bob", draw=50.0, by="lf:user-opt-in:off"),
        case(LF, "@ann,lf:80 ; @bob,lf:20", actor="bob", draw=19.9, label="lf.", by="lf:user-opt-in:on"),
        case(LF, "@ann,lf ; @bob,lf:0", actor="bob", draw=0.0, by="lf:user-opt-in:off"),
        case(LF, "@ann,lf:60", actor="bob", draw=59.0, label="lf.", by="lf:user-opt-in:on"),
        case(settings(lf=0), "@ann,lf ; @bob,lf", actor="bob", draw=99.9, label="lf.", by="lf:user-opt-in:on"),
    ],
    "q53": [
        case(LF, "@ann,lf:10", draw=10.5, by="lf:user-opt-in:off"),
        case(LF, "@ann,lf:0", draw=0.0, by="lf:user-opt-in:off"),
        case(settings(lf="0 workflows=trunk"), "@ann,lf", label="lf.", by="lf:user-opt-in:on"),
        case(settings(lf="0 workflows=ALL,-pull"), "@ann,lf", label="lf.", by="lf:user-opt-in:on"),
        case(settings(lf="100 workflows=trunk"), "@ann,-lf", by="lf:user-opt-out:off"),
    ],
    "q54": [
        case(settings(lf="100 workflows=pull,trunk"), label="lf.", by="lf:rollout:on"),
        case(settings(lf="100 workflows=trunk"), by="lf:workflow:off"),
        case(settings(lf="100 workflows=ALL"), workflow="any", label="lf.", by="lf:rollout:on"),
        case(settings(lf="100 workflows=all"), workflow="any", by="lf:workflow:off"),
        case(settings(lf="100 workflows=All"), workflow="ALL", by="lf:workflow:off"),
        case(settings(lf="100 workflows=all"), workflow="all", label="lf.", by="lf:rollout:on"),
        case(settings(lf="100 workflows=trunk,ALL"), workflow="any", label="lf.", by="lf:rollout:on"),
        case(settings(lf="100 workflows="), workflow="any", label="lf.", by="lf:rollout:on"),
        case(settings(lf="100 workflows=linux_build,trunk"), workflow="linux build", label="lf.", by="lf:rollout:on"),
        case('{"experiments": {"lf": {"rollout_perc": 100, "workflows": ["pull"]}}}', label="lf.", by="lf:rollout:on"),
    ],
    "q55": [
        case(settings(lf="100 workflows=-pull"), by="lf:workflow:off"),
        case(settings(lf="100 workflows=-trunk"), label="lf.", by="lf:rollout:on"),
        case(settings(lf="100 workflows=ALL,-pull"), by="lf:workflow:off"),
        case(settings(lf="100 workflows=pull,-pull"), by="lf:workflow:off"),
        case(settings(lf="100 workflows=-pull,pull"), by="lf:workflow:off"),
        case(settings(lf="100 workflows=Pull"), by="lf:workflow:off"),
        case(settings(lf="100 workflows=pull"), workflow="pull-2", by="lf:workflow:off"),
        case(settings(lf="100 workflows=pull"), workflow="", by="lf:workflow:off"),
        case(settings(lf="100 workflows=-pull"), workflow="", label="lf.", by="lf:rollout:on"),
        case(settings(lf="100 workflows=ALL"), workflow="", label="lf.", by="lf:rollout:on"),
    ],
    "q56": [
        case(SEED, draw=24.0, label="lf.", by="lf:rollout:on arc:default:off"),
        case(SEED, draw=25.5, by="lf:rollout:off arc:default:off"),
        case(SEED, draw=49.0, check=("arc", "lf"), label="mt-", arc=True, by="lf:rollout:off arc:rollout:on"),
        case(SEED, draw=24.0, check=("arc", "lf"), label="lf-", arc=True, by="lf:rollout:on arc:rollout:on"),
        case(SEED, draw=24.0, check=("arc", "lf"), branch="main", label="mt-", arc=True, by="lf:exception-branch:off"),
        case(SEED, draw=24.0, check=("arc", "lf"), workflow="nightly", label="lf.", by="arc:workflow:off"),
        case(settings(lf=40), draw={"lf": 39.0}, label="lf.", by="lf:rollout:on"),
        case("experiments:\n  lf:\n    rollout_percent: 25\n", draw=0.0, by="lf:rollout:off"),
        case("", "@ann,lf"),
    ],
    "q57": [
        case(settings(lf=0, arc=0), by="lf:rollout:off arc:rollout:off"),
        case(settings(lf=100, arc=0), label="lf.", by="lf:rollout:on"),
        case(settings(lf=0, arc=100), label="mt-", arc=True, by="arc:rollout:on"),
        case(settings(lf=100, arc=100), label="lf-", arc=True, by="lf:rollout:on arc:rollout:on"),
    ],
    "q58": [
        case(settings(arc=100, lf=100), label="lf-", arc=True),
        case(settings(lf=60, arc=60), draw={"lf": 70.0, "arc": 50.0}, label="mt-", arc=True),
        case(settings(lf=60, arc=60), draw={"lf": 50.0, "arc": 70.0}, label="lf."),
        case(BOTH, fleets=replace(SHIPPED, combinations=()), label="mt-", arc=True),
    ],
    "q59": [
        case(LF, repository=CANARY, label="lf.c."),
        case(ARC, repository=CANARY, label="c-mt-", arc=True),
        case(BOTH, repository=CANARY, label="lf-", arc=True),
        case(settings(lf=0), repository=CANARY, label=""),
        case(LF, repository="PyTorch/PyTorch-Canary", label="lf.c."),
        case(LF, repository="else/pytorch-canary", label="lf."),
        case(LF, repository="", label="lf."),
        case(settings(lf=100, otherExp=100), repository=CANARY, label="lf.c.otherExp."),
        case(LF, repository=CANARY, labels=(KILL,), label=""),
    ],
    "q60": [
        case(settings(amd_do=100), amd="amd-do-", by="amd-do:rollout:on"),
        case(settings(amd_do=0), by="amd-do:rollout:off"),
        case(settings(amd_do=100, lf=100), label="lf.", amd="amd-do-"),
        case(settings(amd_do=100, lf=100, arc=100), label="lf-", arc=True, amd="amd-do-"),
        case(settings(amd_do=100, otherExp=100), label="otherExp.", amd="amd-do-"),
        case(settings(amd_do="100 opt", arc="100 opt"), check=("arc", "amd-do"), label="mt-", arc=True, amd="amd-do-"),
        case(settings(amd_do="100 opt", arc="100 opt"), check=("arc",), label="mt-", arc=True, by="amd-do:check:off"),
        case(settings(amd_do=100), repository=CANARY, amd="amd-do-"),
        case(settings(amd_do=0), "@ann,amd-do", amd="amd-do-", by="amd-do:user-opt-in:on"),
    ],
    "q61": [
        case(settings(otherExp=100, arc=100), label="mt-", arc=True, by="otherExp:rollout:on"),
        case(settings(otherExp=100, arc=100, lf=100), label="lf-", arc=True),
        case(settings(one=100, two=100, arc=100), label="mt-", arc=True),
    ],
    "q62": [
        case(settings(otherExp=100), label="otherExp."),
        case(settings(otherExp=100, lf=100), label="lf.otherExp."),
        case(settings(one=100, two=100), label="one."),
        case(settings(two=100, lf=100, one=100), label="lf.two."),
        case(settings(one=0, two=100, lf=100), label="lf.two."),
        case(settings(one=100, two=100, three=100, lf=100), label="lf.one."),
    ],
}


def check(one: Case) -> None:
    made = one.decide()
    assert (made.label_type, made.use_arc) == (one.label, one.arc)
    assert made.separate == {"amd-do-label-type": one.amd}
    for entry in one.by.split():
        experiment, rule, outcome = entry.split(":")
        step = explain.deciding(made, experiment)
        assert step is not None
        assert (step.rule, step.outcome) == (rule, outcome), explain.lines(made)


def table(rule: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("one", [pytest.param(each, id=f"{n}") for n, each in enumerate(TABLE[rule], 1)])


@table("q37")
def test_q37_a_percentage_is_never_at_0_always_from_100_on_else_by_the_draw(one):
    check(one)


@table("q39")
def test_q39_the_kill_switch_turns_everything_off(one):
    check(one)


@table("q40")
def test_q40_a_kill_switch_for_named_experiments_leaves_the_others(one):
    check(one)


@table("q41")
def test_q41_the_kill_switch_label_compares_without_case_as_a_whole(one):
    check(one)


@table("q42")
def test_q42_an_exception_branch_comes_before_opt_in_and_workflow(one):
    check(one)


@table("q43")
def test_q43_an_exception_branch_is_known_by_its_first_part(one):
    check(one)


@table("q44")
def test_q44_all_branches_reaches_exception_branches(one):
    check(one)


@table("q45")
def test_q45_opt_out_experiments_beats_check_experiments_and_users(one):
    check(one)


@table("q46")
def test_q46_check_experiments_is_exclusive(one):
    check(one)


@table("q47")
def test_q47_default_counts_when_nothing_is_asked_for_by_name(one):
    check(one)


@table("q48")
def test_q48_author_and_actor_both_count_in_any_case(one):
    check(one)


@table("q49")
def test_q49_a_bot_on_its_tags_stands_for_the_author(one):
    check(one)


@table("q50")
def test_q50_a_crossed_out_user_is_out_of_everything(one):
    check(one)


@table("q51")
def test_q51_opt_out_beats_opt_in_across_requestors(one):
    check(one)


@table("q52")
def test_q52_the_lowest_percentage_of_those_opted_in_counts(one):
    check(one)


@table("q53")
def test_q53_after_an_opt_in_neither_workflow_nor_rollout_is_asked(one):
    check(one)


@table("q54")
def test_q54_a_workflow_list_lets_in_what_it_names_or_all(one):
    check(one)


@table("q55")
def test_q55_an_excluded_workflow_stays_out_and_names_are_exact(one):
    check(one)


@table("q56")
def test_q56_all_others_are_subject_to_the_rollout(one):
    check(one)


@table("q57")
def test_q57_the_four_prefix_states(one):
    check(one)


@table("q58")
def test_q58_the_fleet_that_translates_comes_first_and_both_have_a_prefix_of_their_own(one):
    check(one)


@table("q59")
def test_q59_a_canary_repository_has_its_own_forms(one):
    check(one)


@table("q60")
def test_q60_an_experiment_apart_has_its_own_output_only(one):
    check(one)


@table("q61")
def test_q61_a_fleet_that_translates_drops_other_experiments(one):
    check(one)


@table("q62")
def test_q62_one_other_experiment_at_most_the_first_one(one):
    check(one)


# ---- what is said -------------------------------------------------------------------------------------------------


def told(made: Decision, experiment: str) -> list[tuple[str, str]]:
    return [(step.rule, step.outcome) for step in made.steps if step.experiment == experiment]


def test_q38_every_rule_in_its_order():
    passed = [
        ("kill-switch", "skip"),
        ("exception-branch", "skip"),
        ("opt-out", "skip"),
        ("default", "skip"),
        ("user-opt-out", "skip"),
        ("user-opt-in", "skip"),
        ("workflow", "skip"),
    ]
    assert told(case(settings(lf=60)).decide(), "lf") == [*passed, ("rollout", "on")]
    assert told(case(settings(lf="60 workflows=x")).decide(), "lf") == [*passed[:6], ("workflow", "off")]
    assert told(case(LF, "@ann,lf").decide(), "lf") == [*passed[:5], ("user-opt-in", "on")]
    assert told(case(LF, "@ann,-lf").decide(), "lf") == [*passed[:4], ("user-opt-out", "off")]
    assert told(case(settings(lf="9 opt")).decide(), "lf") == [*passed[:3], ("default", "off")]
    assert told(case(LF, check=("lf",)).decide(), "lf") == [
        *passed[:3],
        ("check", "skip"),
        *passed[4:],
        ("rollout", "on"),
    ]
    assert told(case(LF, check=("x",)).decide(), "lf") == [*passed[:3], ("check", "off")]
    assert told(case(LF, opt_out=("lf",)).decide(), "lf") == [*passed[:2], ("opt-out", "off")]
    assert told(case(LF, branch="main").decide(), "lf") == [passed[0], ("exception-branch", "off")]
    assert told(case(LF, labels=(KILL,)).decide(), "lf") == [("kill-switch", "off")]


def test_q39_a_kill_switch_says_so_in_the_source_and_writes_every_output():
    made = case(BOTH, labels=(KILL,)).decide()
    assert made.source == f"kill-switch: {KILL}"
    assert (made.enabled, made.separate, made.is_fallback) == ((), {"amd-do-label-type": ""}, False)


def test_q39_a_kill_switch_needs_no_rollout():
    broken = Rollout({}, {}, usable=False, why="no YAML")
    made = decide(broken, SHIPPED, Request(labels=(KILL,)), chance.fixed(0.0))
    assert made.source == f"kill-switch: {KILL}"


def test_q40_a_kill_switch_for_some_leaves_the_source_with_the_rollout():
    assert case(BOTH, labels=(KILL,), fleets=ONLY_LF).decide().source == "rollout"


def test_q34_one_draw_at_most_for_each_experiment_and_none_where_none_is_needed():
    asked: list[str] = []

    def counting(name: str) -> float:
        asked.append(name)
        return 50.0

    text = settings(a=0, b=100, c=30, d=70, e="50 opt", f="50 workflows=x", g=50, h=50)
    users = ("@ann,g:10,h:90,c:100", "@bob,g:20,h:95,d:0")
    request = Request(actor="bob", author="ann", branch="topic", workflow="pull")
    made = decide(config(text, *users), SHIPPED, request, counting)
    assert asked == ["g", "h"]
    assert made.enabled == ("b", "c", "h")


def test_q49_a_bot_for_an_unknown_author_is_warned_of():
    made = case(LF, actor=BOT, author="", ref_type="tag", branch="ciflow/trunk/12").decide()
    assert made.warnings == (
        f'"{BOT}" acts for the author of pull request 12, who is not known: no line of the user list counts',
    )


def test_q58_without_a_combination_the_loser_is_dropped_and_told():
    made = case(BOTH, fleets=replace(SHIPPED, combinations=())).decide()
    assert made.dropped == ("lf",)
    assert made.warnings == (
        'the experiment "lf" is on but has no effect: arc comes before lf, and no combination has both',
    )


def test_q61_what_a_translating_fleet_drops_is_told():
    made = case(settings(one=100, two=100, arc=100)).decide()
    assert (made.enabled, made.dropped) == (("one", "two", "arc"), ("one", "two"))
    assert [warning.split(":")[0] for warning in made.warnings] == [
        'the experiment "one" is on but has no effect',
        'the experiment "two" is on but has no effect',
    ]


def test_q62_what_comes_after_the_first_other_experiment_is_told():
    made = case(settings(one=100, two=100, lf=100)).decide()
    assert (made.enabled, made.dropped) == (("one", "two", "lf"), ("two",))
    why = 'one other experiment is the most, and "one" comes first in the rollout'
    assert made.warnings == (f'the experiment "two" is on but has no effect: {why}',)


@pytest.mark.parametrize(("option", "name"), [("check", "check_experiments"), ("opt_out", "opt_out_experiments")])
def test_q63_an_unknown_name_of_a_workflow_is_told_with_what_was_meant(option, name):
    asked: dict[str, Any] = {option: ("acr", "lf")}
    made = case(BOTH, **asked).decide()
    assert made.warnings == (f'{name} names "acr", which is no experiment of the rollout: did you mean "arc"?',)
    assert any("acr" in line and "did you mean" in line for line in explain.lines(made))


def test_q63_an_unknown_name_of_a_requestors_line_is_told():
    made = case(LF, "@ann,fl,-nowhere ; @bob,xx").decide()
    assert [step.detail for step in made.steps if step.rule == "user"] == [
        'the line of "ann" names "fl", which is no experiment of the rollout: did you mean "lf"?',
        'the line of "ann" names "nowhere", which is no experiment of the rollout: known are: lf',
    ]
    assert "xx" not in "\n".join(explain.lines(made))


def test_q63_an_experiment_of_the_fleets_file_that_the_rollout_lacks_is_told():
    made = case(LF).decide()
    assert told(made, "arc") == [("missing", "off")]


@pytest.mark.parametrize("text", ["", "\n", "experiments: {}", "experiments:"])
def test_q64_a_rollout_that_holds_nothing_turns_nothing_on(text):
    made = decide(config(text), SHIPPED, Request(), chance.fixed(0.0))
    assert (made.label_type, made.use_arc, made.separate) == ("", False, {"amd-do-label-type": ""})


@pytest.mark.parametrize(
    "text", ["experiments: [", "experiments:\n\tlf:\n", "experiments: 1", "{", "experiments:\n  lf: {}\n bad"]
)
def test_q64_a_rollout_that_cannot_be_understood_gives_the_default_fleet(text):
    made = decide(config(text, "@ann,lf"), SHIPPED, Request(actor="ann"), chance.fixed(0.0))
    assert made.is_fallback
    assert made.source.startswith("fallback: ")
    assert len(made.source) > len("fallback: ")
    assert (made.label_type, made.use_arc, made.separate) == ("", False, {"amd-do-label-type": ""})
    assert len(made.warnings) == 1


def test_q64_a_fallback_says_why_on_one_line():
    made = fallback(SHIPPED, "HTTP 500\n::error::x\x1b[31m")
    assert made.source == "fallback: HTTP 500 ::error::x [31m"
    assert fallback(SHIPPED, " ").source == "fallback: for a reason that is not known"


def test_q64_one_bad_experiment_costs_only_itself():
    text = "experiments:\n  lf: {rollout_perc: 'x'}\n  arc: {rollout_perc: 100}\n  7: {rollout_perc: 100}\n"
    made = decide(config(text), SHIPPED, Request(branch="t", workflow="w"), chance.fixed(0.0))
    assert "arc" in made.enabled
    assert "lf" not in made.enabled
    assert made.label_type == "mt-"


# ---- the explanation ----------------------------------------------------------------------------------------------


def test_q65_a_whole_explanation():
    text = settings(lf=25, arc="50 all opt workflows=pull,trunk", amd_do="100 opt")
    one = case(text, "@ann,arc:60 ; @bob,arc", check=("arc", "lf", "acr"), actor="bob", draw={"lf": 57.25, "arc": 12.5})
    assert explain.lines(one.decide()) == EXPLAINED.splitlines()


EXPLAINED = """\
all experiments
  kill-switch       -    the label "no-runner-experiments" is not set
  requestors        -    "ann" (author), "bob" (actor)
acr: unknown
  check             -    check_experiments names "acr", which is no experiment of the rollout: did you mean "arc"?
lf: off, by rollout
  kill-switch       -    no label turns it off
  exception-branch  -    "topic" is no exception branch
  opt-out           -    the workflow does not opt out of it
  check             -    the workflow asks for arc, lf, acr
  user-opt-out      -    no requestor opted out
  user-opt-in       -    no requestor opted in
  workflow          -    the workflow "pull" is not excluded, and none is listed
  rollout           off  rolled out to 25%: the draw 57.25 is above it
arc: on, by user-opt-in
  kill-switch       -    no label turns it off
  exception-branch  -    "topic" is no exception branch
  opt-out           -    the workflow does not opt out of it
  check             -    the workflow asks for arc, lf, acr
  user-opt-out      -    no requestor opted out
  user-opt-in       on   opted in: "ann" at 60% (line 3), "bob" at 100% (line 4); \
the lower one, 60%, counts: the draw 12.5 is not above it
amd-do: off, by check
  kill-switch       -    no label turns it off
  exception-branch  -    "topic" is no exception branch
  opt-out           -    the workflow does not opt out of it
  check             off  the workflow asks for arc, lf, acr only
result
  prefix            on   arc: the prefix is "mt-", labels are translated
warning: check_experiments names "acr", which is no experiment of the rollout: did you mean "arc"?
decided by: rollout
"""


def test_q65_a_draw_that_failed_is_told_with_its_threshold():
    made = case(settings(lf=25), draw=25.5).decide()
    step = explain.deciding(made, "lf")
    assert step is not None
    assert (step.draw, step.threshold) == (25.5, 25.0)
    assert step.detail == "rolled out to 25%: the draw 25.5 is above it"


def test_q65_close_numbers_are_told_apart():
    step = explain.deciding(case(settings(lf=25), draw=25.0000000001).decide(), "lf")
    assert step is not None
    assert "25.0000000001 is above" in step.detail


def test_q65_no_draw_is_told_where_none_was_made():
    for one in (case(LF), case(settings(lf=0)), case(LF, "@ann,-lf")):
        step = explain.deciding(one.decide(), "lf")
        assert step is not None
        assert step.draw is None


def test_q65_values_have_all_keys_and_are_json():
    values = explain.values(case(settings(lf=25), draw=3.5).decide())
    assert {tuple(value) for value in values} == {("experiment", "rule", "outcome", "detail", "draw", "threshold")}
    assert json.loads(json.dumps(values)) == values
    decided = [value for value in values if value["experiment"] == "lf" and value["outcome"] == "on"]
    assert [(value["draw"], value["threshold"]) for value in decided] == [(3.5, 25.0)]


def test_q65_a_workflow_in_another_case_is_told():
    step = explain.deciding(case(settings(lf="100 workflows=Pull")).decide(), "lf")
    assert step is not None
    assert step.detail == 'the workflow "pull" is not listed, only "Pull", in another case'


def test_q65_deciding_knows_no_experiment_that_is_nowhere():
    assert explain.deciding(case(LF).decide(), "nowhere") is None


HOSTILE = "a\n::error::x\r\x1b[31m\u2028\x00\u202e$(id)`id`' \""


@pytest.mark.parametrize("name", ["actor", "author", "branch", "workflow", "repository", "ref_type"])
def test_q66_hostile_text_stays_on_its_line(name):
    asked: dict[str, Any] = {name: HOSTILE}
    lines = explain.lines(case(settings(lf=25), **asked).decide())
    lines += explain.lines(case(settings(lf="25 workflows=x"), branch=f"main/{HOSTILE}", workflow=HOSTILE).decide())
    assert all(line.isprintable() for line in lines)


@pytest.mark.parametrize("name", ["check", "opt_out", "labels"])
def test_q66_hostile_names_stay_on_their_line(name):
    asked: dict[str, Any] = {name: (HOSTILE, KILL + HOSTILE)}
    made = case(settings(lf=25), **asked).decide()
    assert all(line.isprintable() for line in (*explain.lines(made), *made.warnings, made.source))
    assert all(len(line) < 1100 for line in explain.lines(made))


# ---- the seed's table of failures ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "one",
    [
        case(OPT, "#@ann", check=("arc", "lf"), by="arc:user-opt-out:off lf:user-opt-out:off"),
        case(OPT, check=("arc", "lf"), labels=(KILL,), by="arc:kill-switch:off lf:kill-switch:off"),
        case(settings(lf="10 opt", arc="10 opt"), check=("arc", "lf"), by="arc:rollout:off lf:rollout:off"),
        case(
            settings(lf="10 opt", arc="10 opt"),
            "@ann,arc,lf",
            check=("arc", "lf"),
            label="lf-",
            arc=True,
            by="arc:user-opt-in:on lf:user-opt-in:on",
        ),
    ],
)
def test_q65_a_job_on_the_default_fleet_although_it_asked_says_why(one):
    check(one)


def test_q58_both_experiments_together_have_the_combined_prefix_unless_one_is_opted_out_of():
    check(case(OPT, check=("arc", "lf"), label="lf-", arc=True))
    check(case(OPT, check=("arc", "lf"), opt_out=("lf",), label="mt-", arc=True))


def test_q54_without_a_workflow_name_a_list_lets_nothing_in():
    check(case(SEED, check=("arc",), workflow="", draw=0.0, by="arc:workflow:off"))


# ---- another fleets file ------------------------------------------------------------------------------------------

OTHER = """\
version: 1
outputs: {label: lane, translates: on-metal}
default-prefix: cloud-
fleets:
  metal: {experiment: bare, prefix: bm-, canary-prefix: cbm-, translates: true}
  spot: {prefix: spot_}
other-end: "_"
separate: {arm: {output: arm-lane, prefix: arm-}}
exception-branches: [stable]
canary-repositories: [acme/bird]
kill-switch: {label: plain}
"""


@pytest.mark.parametrize(
    ("text", "asked", "label", "translates", "arm"),
    [
        (settings(bare=100), {}, "bm-", True, ""),
        (settings(bare=100), {"repository": "acme/bird"}, "cbm-", True, ""),
        (settings(spot=100), {}, "spot_", False, ""),
        (settings(spot=100, new=100), {}, "spot_new_", False, ""),
        (settings(new=100), {}, "cloud-new_", False, ""),
        (settings(bare=100, spot=100), {}, "bm-", True, ""),
        (settings(arm=100), {}, "cloud-", False, "arm-"),
        (settings(lf=100), {}, "cloud-lf_", False, ""),
        (settings(spot=100), {"branch": "main"}, "spot_", False, ""),
        (settings(spot=100), {"branch": "stable/1"}, "cloud-", False, ""),
        (settings(spot=100), {"labels": (KILL,)}, "spot_", False, ""),
        (settings(spot=100), {"labels": ("Plain",)}, "cloud-", False, ""),
    ],
)
def test_q31_other_names_in_the_fleets_file_work_the_same(text, asked, label, translates, arm):
    made = case(text, fleets=parse_fleets(OTHER, "other.yaml"), **asked).decide()
    assert (made.label_type, made.use_arc, made.separate) == (label, translates, {"arm-lane": arm})


def test_q64_the_fallback_of_another_fleets_file_is_its_default():
    made = fallback(parse_fleets(OTHER, "other.yaml"), "why")
    assert (made.label_type, made.separate) == ("cloud-", {"arm-lane": ""})
