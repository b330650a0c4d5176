"""Anything as a rollout text: values or a reason, never an exception; and written, it reads the same."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

pytest.importorskip("ruamel.yaml")

from pytest_sgpu.runners.routing.rollout import Experiment, Rollout, User, format_rollout, parse_rollout

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
LOGINS = st.from_regex(r"[A-Za-z0-9_-]{1,39}(\[bot\])?", fullmatch=True)


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


@given(LOGINS, st.lists(ITEM | st.text(max_size=8), max_size=5), st.sampled_from(["", " ", "- ", "* "]))
def test_q19_q20_a_line_that_opts_out_never_opts_in(login, items, before):
    items = [item.replace("\n", "").replace("\r", "") for item in items]
    (user,) = parse_rollout(f"---\n{before}#@{','.join([login, *items])}", "x").users.values()
    assert user.out_of_all
    assert not user.percent
    outs = [f"-{item}" for item in items]
    for user in parse_rollout(f"---\n{before}@{','.join([login, *outs])}", "x").users.values():
        assert not user.percent


@given(st.lists(ITEM, max_size=6))
def test_q23_an_opt_out_takes_the_opt_in_away_wherever_it_stands(items):
    (user,) = parse_rollout(f"---\n@{','.join(['u', *items])}", "x").users.values()
    assert user.out == {item.lstrip("- ").partition(":")[0] for item in items if item.startswith("-")}
    assert not user.out & user.percent.keys()


@given(st.lists(st.sampled_from(["  lf: {rollout_perc: 5}", "  1: {}", "  'a b':", "  bad: [1]", "  odd: {perc: 1}"])))
@settings(max_examples=50)
def test_q08_faults_elsewhere_never_change_a_good_experiment(lines):
    text = "\n".join(["experiments:", *dict.fromkeys(lines), "  good: {rollout_perc: 7}", "---"])
    rollout = parse_rollout(text, "x")
    assert rollout.usable
    assert rollout.experiments["good"] == Experiment("good", 7.0)
