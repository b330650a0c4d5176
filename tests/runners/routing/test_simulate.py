"""Q97 to Q99: a rollout tried out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pytest_sgpu.errors import OptionError
from pytest_sgpu.runners.routing.decision import Request
from pytest_sgpu.runners.routing.fleets import parse_fleets
from pytest_sgpu.runners.routing.rollout import parse_rollout
from pytest_sgpu.runners.routing.simulate import MOST_RUNS, Report, Share, lines, simulate

CONF = Path(__file__).parents[3] / "conf"
FLEETS = parse_fleets((CONF / "runner_routing.yaml").read_text(encoding="utf-8"), "fleets.yaml")
TEXT = """\
experiments:
  lf: {rollout_perc: 25}
  arc: {rollout_perc: 50, default: false}
  amd-do: {rollout_perc: 100}
  other: {rollout_perc: 10, workflows: "-slow"}
---
@simulated-1,arc
"""
ROLLOUT = parse_rollout(TEXT, "rollout")
REQUEST = Request(branch="feature", workflow="pull", check=("arc", "lf", "amd-do", "other"))


def run(users: int = 300, days: int = 2, seed: int = 1, text: str = TEXT, request: Request = REQUEST, **more) -> Report:
    return simulate(parse_rollout(text, "rollout"), FLEETS, users, days, seed, request=request, **more)


def expected(report: Report) -> dict[str, float]:
    return {one.name: one.expected for one in report.experiments}


@pytest.mark.parametrize("key", ["user", "run", "none"])
def test_q97_shares_come_out_as_configured(key):
    report = run(key=key)
    assert expected(report) == {"lf": 25, "arc": 50, "amd-do": 100, "other": 10}
    assert {one.samples for one in report.experiments} == {300 if key == "user" else 600}
    assert all(one.is_as_expected for one in report.experiments)
    assert report.is_ok


def test_q97_the_shares_of_prefixes_are_those_of_independent_draws():
    report = run()
    assert {one.name: round(one.expected, 6) for one in report.prefixes} == {
        "": 33.75,
        "other.": 3.75,
        "lf.": 11.25,
        "lf.other.": 1.25,
        "mt-": 37.5,
        "lf-": 12.5,
    }
    assert sum(one.observed for one in report.prefixes) == pytest.approx(100)
    assert all(one.is_as_expected for one in report.prefixes)


@pytest.mark.parametrize(
    ("request_", "shares"),
    [
        (Request(branch="feature"), {"lf": 25, "arc": 0, "amd-do": 100, "other": 10}),
        (Request(branch="main"), {"lf": 0, "arc": 0, "amd-do": 0, "other": 0}),
        (replace(REQUEST, workflow="slow"), {"lf": 25, "arc": 50, "amd-do": 100, "other": 0}),
        (replace(REQUEST, opt_out=("lf",)), {"lf": 0, "arc": 50, "amd-do": 100, "other": 10}),
        (replace(REQUEST, labels=("no-runner-experiments",)), {"lf": 0, "arc": 0, "amd-do": 0, "other": 0}),
    ],
)
def test_q97_what_holds_an_experiment_back_has_no_share(request_, shares):
    report = run(100, 1, request=request_)
    assert expected(report) == shares
    assert report.is_ok


def test_q97_users_of_the_list_are_not_among_those_simulated():
    report = run(1, 1, text="experiments: {lf: {rollout_perc: 0}}\n---\n@simulated-1,lf\n@Simulated-2,lf\n")
    assert (expected(report), report.experiments[0].observed) == ({"lf": 0}, 0)


@pytest.mark.parametrize(
    ("expected_", "observed", "error", "is_right"),
    [
        (50, 50, 1, True),
        (50, 54, 1, True),
        (50, 46, 1, True),
        (50, 54.2, 1, False),
        (50, 45.8, 1, False),
        (0, 0, 0, True),
        (0, 0.1, 0, False),
        (100, 99.9, 0, False),
    ],
)
def test_q97_the_verdict_is_four_standard_errors_and_a_sample(expected_, observed, error, is_right):
    assert Share("x", expected_, observed, error, 1000).is_as_expected is is_right


def test_q97_the_standard_error_is_that_of_a_share():
    share = {one.name: one for one in run(400, 1).experiments}["arc"]
    assert share.standard_error == pytest.approx(100 * (0.5 * 0.5 / 400) ** 0.5)


def test_q97_a_share_that_is_wrong_makes_the_report_wrong():
    report = run(20, 1)
    assert report.is_ok
    bad = replace(report, experiments=(Share("lf", 25, 90, 1, 100),))
    assert not bad.is_ok
    assert lines(bad)[-1] == "NOT as configured"
    assert any(line.endswith("NOT as configured") and line.startswith("lf ") for line in lines(bad))


@pytest.mark.parametrize(("changed", "key", "is_ok"), [(1, "user", False), (1, "run", True), (1, "none", True)])
def test_q98_only_the_key_of_a_user_promises_the_same_on_every_day(changed, key, is_ok):
    assert replace(run(20, 1), changed=changed, key=key).is_ok is is_ok


def test_q98_the_key_of_a_user_decides_the_same_on_all_days_and_again():
    report = run(60, 5)
    assert (report.changed, report.rerun_changed) == (0, 0)
    assert run(60, 5) == report
    assert run(60, 5, seed=2) != report


def test_q98_the_key_of_a_run_decides_the_same_again_and_chance_does_not():
    of_run, chance = run(60, 3, key="run"), run(60, 3, key="none")
    assert of_run.changed > 30
    assert of_run.rerun_changed == 0
    assert chance.rerun_changed > 15
    assert run(60, 3, key="none") == chance


def test_q99_raising_percentages_moves_nobody_back_with_a_key():
    assert run(200, 1).moved_back == 0
    assert run(200, 1, key="run").moved_back == 0
    assert run(200, 1, key="none").moved_back > 20
    assert not replace(run(20, 1), moved_back=1).is_ok


def test_the_report_is_at_most_80_columns_wide():
    names = ("a" * 60, "b")
    text = f"experiments: {{{names[0]}: {{rollout_perc: 33.3333}}, {names[1]}: {{rollout_perc: 0.001}}}}\n---\n"
    shown = lines(run(99, 2, text=text, request=Request(branch="x"), key="run"))
    assert max(map(len, shown)) <= 80
    assert shown[0] == "99 users, 2 days, seed 1, key: run"
    assert shown[2] == "experiment                expected  observed std error  samples  verdict"
    assert all(len(line) <= 80 for line in lines(replace(run(20, 1), users=10**6, days=10**6, experiments=())))


def test_the_report_as_text():
    assert lines(run(200, 3, text="experiments: {lf: {rollout_perc: 100}}\n---\n", request=Request(branch="x"))) == [
        "200 users, 3 days, seed 1, key: user",
        "",
        "experiment                expected  observed std error  samples  verdict",
        "lf                        100.000%  100.000%    0.000%      200  as configured",
        "",
        "prefix                    expected  observed std error  samples  verdict",
        "lf.                       100.000%  100.000%    0.000%      200  as configured",
        "",
        "users decided in another way on another day: 0 of 200",
        "users decided in another way by a re-run: 0 of 200",
        "users who lose an experiment when percentages rise: 0 of 200",
        "",
        "as configured",
    ]


def test_many_experiments_have_no_prefix_shares():
    text = "experiments:\n" + "".join(f"  e{n}: {{rollout_perc: 50}}\n" for n in range(9)) + "---\n"
    report = run(50, 1, text=text, request=Request(branch="x"))
    assert (len(report.experiments), report.prefixes) == (9, ())
    assert report.is_ok


def test_a_rollout_that_is_not_usable_gives_the_default_fleet():
    report = run(10, 1, text="experiments: [\n---\n")
    assert report.is_ok
    assert [(one.name, one.observed) for one in report.prefixes] == [("", 100)]


@pytest.mark.parametrize(
    ("users", "days", "key", "what"),
    [
        (0, 1, "user", "users: found 0, expected at least 1"),
        (1, -3, "user", "days: found -3, expected at least 1"),
        (MOST_RUNS, 2, "user", "users times days: "),
        (1, 1, "day\n", "key: found 'day', expected one of user, run, none"),
    ],
)
def test_numbers_that_make_no_sense_are_refused(users, days, key, what):
    with pytest.raises(OptionError) as caught:
        run(users, days, key=key)
    assert caught.value.message.startswith(what)
