"""Anything as a pools file or as the input ``runners``: usable, or the right error, and nothing else."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_sgpu.errors import ConfError, OptionError
from pytest_sgpu.runners import pools_file
from pytest_sgpu.runners.pools import Pools, parse_pools

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)

VALUES = st.sampled_from(
    [
        "1",
        "-1",
        "1.5",
        "nan",
        "true",
        '""',
        '"x"',
        "[]",
        "{}",
        "[1]",
        '"\\u0000"',
        "1979-05-27",
        '{ a = "b" }',
        "9" * 30,
    ]
)
SHIPPED = pools_file.default().read_text(encoding="utf-8").splitlines()
LINES = [place for place, line in enumerate(SHIPPED) if line and not line.startswith("#")]


def read(text: str) -> Pools | None:
    """The pools, or None for a ConfError that names the file; anything else is raised on."""
    try:
        return parse_pools(text, "any.toml")
    except ConfError as error:
        message = error.message
    assert message.startswith("any.toml: ")
    return None


@given(st.text())
def test_any_text_is_no_pools_file(text):
    assert read(text) is None


@given(st.sampled_from(LINES), VALUES | st.none(), st.booleans())
def test_any_change_of_one_line_is_pools_or_a_conf_error(place, value, twice):
    lines = list(SHIPPED)
    key = lines[place].split("=")[0]
    lines[place] = "" if value is None else f"{key}= {value}" if "=" in lines[place] else value
    if twice:
        lines.insert(place, lines[place])
    pools = read("\n".join(lines))
    for runner_type in pools.runner_types if pools else ():
        assert pools is not None
        for policy in pools.policies:
            chosen = pools.candidates(runner_type, policy, None)
            assert 1 <= len(chosen) <= 7
            assert all(pools.classify(one.labels) for one in chosen)


ENTRY = st.fixed_dictionaries(
    {},
    optional={
        "group": st.sampled_from(["nv-cpu-general", "nv-cpu-memory", "g"]) | JSON,
        "labels": st.sampled_from(["linux-amd64-cpu16", "linux-amd64-cpu8", "linux-amd64-cpu16m"]) | JSON,
        "queue-timeout-minutes": st.sampled_from([1, 60, 61]) | JSON,
        "queue-timeout-seconds": JSON,
        "other": JSON,
    },
)


@given(st.text() | JSON.map(json.dumps) | st.lists(ENTRY, max_size=8).map(json.dumps), st.sampled_from(["cpu", "gpu"]))
def test_any_runners_are_candidates_of_the_type_or_an_option_error(text, runner_type):
    pools = pools_file.load("")
    profile = pools.profile(runner_type)
    try:
        chosen = pools.explicit(text, runner_type, "extended", None)
    except OptionError as error:
        said = error.message
    else:
        said = ""
    if said:
        assert said.startswith("runners: ")
        return
    assert 1 <= len(chosen) <= 7
    for one in chosen:
        label = pools.classify(one.labels)
        assert label is not None
        assert profile.differs(label) == ""
    names = [one.labels for one in chosen]
    assert len(set(names[:-1])) == len(names[:-1])


@given(st.text(), st.text())
def test_no_other_type_and_no_other_policy_is_known(runner_type, policy):
    pools = pools_file.load("")
    with pytest.raises(OptionError, match=r"^runner-type: "):
        pools.candidates(runner_type + "?", "", None)
    with pytest.raises(OptionError, match=r"^queue-policy: "):
        pools.candidates("cpu", policy + "?", None)
