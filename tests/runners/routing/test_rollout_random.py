"""Anything as a rollout text: values or a reason, never an exception; and written, it reads the same."""

from __future__ import annotations

import re

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

pytest.importorskip("ruamel.yaml")

from pytest_sgpu.runners.routing import user_items
from pytest_sgpu.runners.routing.rollout import Experiment, Rollout, User, format_rollout, parse_rollout
from pytest_sgpu.runners.routing.users import MOST_PROBLEMS

PIECES = st.sampled_from(
    [
        "experiments:",
        "experiments: ",
        "\n",
        "\n---\n",
        "---",
        "\n  lf:",
        "\n  arc: ",
        "\n    rollout_perc: ",
        "\n    workflows: ",
        "{",
        "}",
        "[",
        "]",
        "&a ",
        "*a",
        "!!int ",
        "<<: ",
        "? ",
        "!foo ",
        "!!binary ",
        "ALL",
        "all",
        "Lf: ",
        "\ufeff",
        "> ",
        "1. ",
        "25",
        "true",
        '"',
        "'",
        "|\n",
        "\n```yaml\n",
        "\n~~~\n",
        "@alice",
        "\n@bob,lf",
        "\n#@bob",
        ",",
        ":",
        "-",
        "#",
        "lf",
        ":50%",
        "\t",
        "\n \t\n",
        "\n-----\n",
        "`",
        "* ",
        "[BOT]",
        "1e2",
        "\r",
        "\x00",
        "\ud800",
        "\x85",
    ]
)
TEXTS = st.text(st.characters(codec=None)) | st.lists(PIECES | st.text(max_size=3), max_size=30).map("".join)

NAMES = st.from_regex(r"[A-Za-z0-9]([A-Za-z0-9_-]{0,6}[A-Za-z0-9])?", fullmatch=True) | st.sampled_from(
    ["lf", "on", "1"]
)
PERCENT = st.floats(0, 100) | st.integers(0, 100).map(float)


def excluded(name: str) -> str:
    return f"-{name}"


def one_name(text: str) -> bool:
    """Tell whether it is a name as a reader leaves it: blanks off, and no sign in front that means something."""
    return bool(text) and text == text.strip() and not text.startswith("-")


WORKFLOW = st.text(st.characters(codec=None), max_size=10).filter(one_name)
EXPERIMENTS = st.builds(
    Experiment,
    name=NAMES,
    rollout_perc=PERCENT,
    all_branches=st.booleans(),
    default=st.booleans(),
    workflows=st.lists(WORKFLOW | WORKFLOW.map(excluded), max_size=4).map(tuple),
    line=st.just(0),
)
LOGINS = st.from_regex(r"[A-Za-z0-9_-]{1,39}(\[[Bb][Oo][Tt]\])?", fullmatch=True)


@st.composite
def user_lines(draw: st.DrawFn) -> User:
    login = draw(LOGINS)
    if draw(st.booleans()) and draw(st.booleans()):
        return User(login, {}, out_of_all=True)
    names = draw(st.lists(NAMES, unique=True, max_size=5))
    cut = draw(st.integers(0, len(names)))
    return User(login, {name: draw(PERCENT) for name in names[:cut]}, frozenset(names[cut:]))


@st.composite
def rollouts(draw: st.DrawFn) -> Rollout:
    experiments = draw(st.lists(EXPERIMENTS, unique_by=lambda one: one.name, max_size=4))
    users = draw(st.lists(user_lines(), unique_by=lambda one: one.login.casefold(), max_size=5))
    return Rollout({one.name: one for one in experiments}, {one.login.casefold(): one for one in users})


@given(TEXTS)
@example("experiments:\n  lf: {workflows: 'a\n---\n@x")
@example("[" * 5000 + "\n---\n")
@example("a: !!str\n---\n")
@example('experiments: {x: {workflows: "\\ud800"}}\n---\n')
def test_q07_any_text_is_values_or_a_reason(text):
    rollout = parse_rollout(text, "x")
    assert rollout.usable is not bool(rollout.why)
    assert rollout.usable or not rollout.experiments
    assert all(str(one).isprintable() for one in rollout.problems)
    for one in rollout.experiments.values():
        assert 0 <= one.rollout_perc <= 100
        assert isinstance(one.all_branches, bool)
        assert isinstance(one.default, bool)
    for key, user in rollout.users.items():
        assert key == user.login.casefold()
        assert all(0 <= value <= 100 for value in user.percent.values())
        assert not user.out & user.percent.keys()
        assert not user.out_of_all or not user.percent


@given(TEXTS)
def test_q28_what_was_read_is_written_and_read_the_same(text):
    rollout = parse_rollout(text, "x")
    written = format_rollout(rollout)
    again = parse_rollout(written, "x")
    assert again.experiments == rollout.experiments
    assert again.users == rollout.users
    assert format_rollout(again) == written


@given(rollouts())
def test_q28_parse_of_format_is_the_same(rollout):
    written = format_rollout(rollout)
    again = parse_rollout(written, "x")
    assert again.experiments == rollout.experiments
    assert list(again.experiments) == list(rollout.experiments)
    assert again.users == rollout.users
    assert list(again.users) == list(rollout.users)
    assert format_rollout(again) == written
    assert not [one for one in again.problems if one.severity == "error"]


ITEM = st.builds("{}{}{}".format, st.sampled_from(["", "-", "- "]), NAMES, st.sampled_from(["", ":50", ":x", ": 0"]))


@given(LOGINS, st.lists(ITEM | st.text(max_size=8), max_size=5), st.sampled_from(["", " ", "- ", "-"]))
def test_q19_q20_a_line_that_opts_out_never_opts_in(login, items, before):
    items = [re.sub(r"[\n\r,]", "", item) for item in items]
    found = parse_rollout(f"---\n* #@{','.join([login, *items])}", "x").users
    assert not found
    (user,) = parse_rollout(f"---\n{before}#@{','.join([login, *items])}", "x").users.values()
    assert user.out_of_all
    assert not user.percent
    outs = [f"-{item.replace(',', '')}" for item in items]  # behind a comma another item begins
    for user in parse_rollout(f"---\n{before}@{','.join([login, *outs])}", "x").users.values():
        assert not user.percent


@given(st.lists(ITEM, max_size=6))
def test_q23_an_opt_out_takes_the_opt_in_away_wherever_it_stands(items):
    (user,) = parse_rollout(f"---\n@{','.join(['u', *items])}", "x").users.values()
    assert user.out == {item.lstrip("- ").partition(":")[0] for item in items if item.startswith("-")}
    assert not user.out & user.percent.keys()


TAGGED = ["  t: !foo {a: 1}", "  u: {rollout_perc: !foo 1}", "  ? [a]\n  : {}", "  !foo v: {}", "  w: !!binary aGk="]


@given(
    st.lists(
        st.sampled_from(["  lf: {rollout_perc: 5}", "  1: {}", "  'a b':", "  bad: [1]", "  odd: {perc: 1}", *TAGGED])
    )
)
@settings(max_examples=50)
def test_q08_faults_elsewhere_never_change_a_good_experiment(lines):
    text = "\n".join(["experiments:", *dict.fromkeys(lines), "  good: {rollout_perc: 7}", "---"])
    rollout = parse_rollout(text, "x")
    assert rollout.usable
    assert rollout.experiments["good"] == Experiment("good", 7.0)


LINES = st.builds("{}@{},{}".format, st.sampled_from(["", "", "#", "- ", "* "]), LOGINS, st.lists(ITEM).map(",".join))


@given(st.lists(LINES | st.text(max_size=12), max_size=8), st.sampled_from(["", "@one,lf\n"]))
def test_q27_what_is_not_told_any_more_is_counted_all_the_same(lines, first):
    text = "\n".join(line.replace("\n", " ").replace("\r", " ") for line in lines)
    start = f"experiments:\n  lf:\n---\n{first}"
    told = parse_rollout(f"{start}{text}", "x")
    assume(not text.startswith("---"))
    counted = parse_rollout("\n".join([start, *["@no login"] * MOST_PROBLEMS, text]), "x")
    assert counted.users == told.users
    assert all(counted.users[key].login == user.login for key, user in told.users.items())
    more = [one.message for one in counted.problems if one.line == 0]
    assert more == ([f"{len(told.problems)} more problems of user lines"] if told.problems else [])


KNOWN_ITEM = st.builds(
    "{}{}{}".format,
    st.sampled_from(["", "", "", "-", " ", "\u2013 "]),
    st.sampled_from(["lf", "arc", "lf", "arc", "other", "l f", ""]),
    st.sampled_from(["", ":50", ": 101", ":-0", ":x", ":", ":nan", ":-inf", ":1_0", " # x", "#"]),
)


@given(st.lists(KNOWN_ITEM, max_size=5).map(",".join) | st.text(max_size=12), st.booleans())
def test_q27_as_many_faults_are_counted_as_are_told(rest, is_named):
    rest = rest.replace("\n", " ").replace("\r", " ").rstrip()
    first = "@first,other\n" if is_named else ""
    rollout = parse_rollout(f"experiments:\n  lf:\n  arc:\n---\n{first}@u,{rest}", "x")
    told = [one.message for one in rollout.problems if "no experiment of the settings" not in one.message]
    assert told == [one.message for one in user_items.faults("u", rest)]
    assert user_items.read(rest, user_items.Amounts()).wrong == len(told)


@given(st.sampled_from(["", " ", "\t", " \t \n", "`", "``\n", "\n\n"]), st.lists(st.sampled_from(" \t`\n"), max_size=6))
def test_q05_blanks_and_backticks_around_the_settings_change_nothing(before, after):
    blank = before.replace("`", " ")
    settings = f"{before}experiments:\n  lf:\n    rollout_perc: 5\n{blank}\n  arc:{''.join(after)}"
    rollout = parse_rollout(f"{settings}\n---\n", "x")
    assert list(rollout.experiments.values()) == [Experiment("lf", 5.0), Experiment("arc")]
    assert not rollout.problems
