"""Inputs and environment: what beyond the rules is checked before the first request, and how it is told."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_sgpu.errors import OptionError
from pytest_sgpu.runners import pools_file
from pytest_sgpu.runners.settings import refs
from pytest_sgpu.runners.settings.inputs import (
    COORDINATOR_INPUTS,
    GUARD_INPUTS,
    GuardSettings,
    Parent,
    Settings,
    coordinator_settings,
    guard_settings,
    token,
)

ENV = {"GITHUB_REPOSITORY": "octo/repo", "GITHUB_RUN_ID": "1001", "GITHUB_RUN_ATTEMPT": "2"}
SHA = "0123456789abcdef0123456789abcdef01234567"
INPUTS = {
    "workflow": "runner-worker.yml",
    "workflow-ref": "main",
    "source-ref": "refs/pull/12/merge",
    "source-sha": SHA,
    "runner-type": "cpu",
}
GUARD = {
    "request-id": "sgpu-1001-2-1-abc",
    "parent-run-id": "1001",
    "parent-run-attempt": "2",
    "source-ref": "refs/heads/main",
    "source-sha": SHA,
}
POOLS = pools_file.load("")


def settings(env=None, **changes) -> Settings:
    given_ = {**INPUTS, **{name.replace("_", "-"): value for name, value in changes.items()}}
    return coordinator_settings(given_, {**ENV, **(env or {})}, POOLS)


def refused(env=None, **changes) -> OptionError:
    with pytest.raises(OptionError) as caught:
        settings(env, **changes)
    return caught.value


def refusal(call, *arguments) -> str:
    """The message of the OptionError, "" when there is none; any other error is raised on."""
    try:
        call(*arguments)
    except OptionError as error:
        return error.message
    return ""


def test_the_least_that_is_needed_and_what_the_rest_is_then():
    assert settings() == Settings(
        repository="octo/repo",
        server_url="https://github.com",
        parent=Parent(1001, 2),
        workflow="runner-worker.yml",
        workflow_ref="main",
        source_ref="refs/pull/12/merge",
        source_sha=SHA,
        runner_type="cpu-amd64",
        candidates=POOLS.candidates("cpu", "standard", None),
        execution_seconds=10_800.0,
        pinned=False,
        workloads=("{}",),
        max_parallel=1,
        history=False,
        conditional=False,
        adaptive=False,
        force_cancel=False,
        timeline="",
    )


def test_blank_inputs_are_left_out_ones():
    blank = {name: " \n" for name in COORDINATOR_INPUTS if name not in INPUTS}
    assert coordinator_settings(INPUTS | blank, ENV, POOLS) == settings()


def test_an_unknown_input_is_told_with_the_nearest_name():
    error = refused(runner_typ="gpu")
    assert error.message == 'unknown input "runner-typ"'
    assert error.hint == 'did you mean "runner-type"?'
    with pytest.raises(OptionError, match="unknown input"):
        guard_settings(GUARD | {"workloads": "[]"}, ENV)


def test_options_beyond_the_seed_are_off_and_can_be_turned_on():
    found = settings(
        history="true", conditional_requests="True", force_cancel=" true ", polling="adaptive", timeline=" out/t.json "
    )
    assert (found.history, found.conditional, found.force_cancel, found.adaptive) == (True, True, True, True)
    assert found.timeline == "out/t.json"
    for name in ("history", "conditional-requests", "force-cancel"):
        for wrong in ("yes", "1", "on"):
            assert refused(**{name: wrong}).message == f'{name}: found "{wrong}", expected true or false'
    assert refused(polling="dense").message == 'polling: found "dense", expected steady or adaptive'
    assert "control characters" in refused(timeline="a\x1b[31mb").message


def test_seconds_stand_in_for_minutes_and_never_beside_them():
    assert {one.queue_seconds for one in settings(queue_timeout_seconds="90").candidates} == {90.0}
    assert settings(execution_timeout_seconds="432000").execution_seconds == 5 * 24 * 3600
    for stem, most in (("queue-timeout", 3600), ("execution-timeout", 432_000)):
        both = {f"{stem}-minutes": "1", f"{stem}-seconds": "60"}
        assert refused(**both).message == f"{stem}-minutes and {stem}-seconds: both are given, expected one of them"
        for wrong in ("0", str(most + 1), "1.5"):
            assert f"a whole number from 1 to {most}" in refused(**{f"{stem}-seconds": wrong}).message


def test_a_candidate_may_have_seconds_too():
    entry = {"group": "g", "labels": "linux-amd64-cpu8", "queue-timeout-seconds": 90}
    (one,) = settings(runners=json.dumps([entry])).candidates
    assert (one.queue_seconds, one.own_deadline) == (90.0, True)
    assert "both queue-timeout-minutes" in refused(runners=json.dumps([entry | {"queue-timeout-minutes": 1}])).message
    for wrong in (0, 3601, 1.0, "90", False):
        assert "from 1 to 3600" in refused(runners=json.dumps([entry | {"queue-timeout-seconds": wrong}])).message


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"group": "g"}, "labels: missing"),
        ({"labels": "linux-amd64-cpu8"}, "group: missing"),
        ({"group": "", "labels": "linux-amd64-cpu8"}, "group: found a blank text"),
        ({"group": "g\n", "labels": "linux-amd64-cpu8"}, "without control characters"),
        ({"group": "g\u202e", "labels": "linux-amd64-cpu8"}, "without control characters"),
        ({"group": "\ud800", "labels": "linux-amd64-cpu8"}, "without control characters"),
        ({"group": "g" * 257, "labels": "linux-amd64-cpu8"}, "found 257 characters"),
        ({"group": "g", "labels": ["linux-amd64-cpu8"]}, "labels: found a list of 1"),
        ({"group": "g", "label": "linux-amd64-cpu8"}, 'unknown key "label"'),
    ],
)
def test_what_is_wrong_with_a_candidate_is_told(entry, message):
    error = refused(runners=json.dumps([entry]))
    assert error.message.startswith("runners: candidate 1: ")
    assert message in error.message
    assert error.message.isprintable()


def test_a_key_that_stands_twice_is_told_by_name_in_runners():
    text = '[{"group": "g", "labels": "linux-amd64-cpu8", "group": "h"}]'
    assert refused(runners=text).message == (
        'runners: a key stands twice in one object ("group"), expected a JSON list'
    )


def test_many_workloads_are_cut_out_of_the_list_as_they_stand_there():
    found = settings(workloads=' [ {"shard": 1.10},\n{"b":2, "a":[]} ] ')
    assert found.workloads == ('{"shard": 1.10}', '{"b":2, "a":[]}')
    assert found.max_parallel == 2
    assert settings(workloads="[{}, {}]", max_parallel="20").max_parallel == 20


def test_workloads_have_their_limits():
    assert "both are given" in refused(workload="{}", workloads="[{}]").message
    assert "without workloads" in refused(max_parallel="2").message
    for wrong in ("0", "21", "x"):
        assert "from 1 to 20" in refused(workloads="[{}]", max_parallel=wrong).message
    for wrong in ("{}", "[]", "[1]", "[{}, null]", "[{}", "null", json.dumps([{}] * 257)):
        assert refused(workloads=wrong).message.startswith("workloads: ")
    assert len(settings(workloads=json.dumps([{}] * 256)).workloads) == 256


def test_a_dispatch_has_at_most_65535_characters():
    fits = '{"a":"%s"}' % ("é" * 65_000)
    assert settings(workload=fits).workloads == (fits,)
    assert "expected at most 65535" in refused(workload='{"a":"%s"}' % ("x" * 65_536)).message
    assert "element 2" in refused(workloads='[{}, {"a":"%s"}]' % ("x" * 65_536)).message
    assert "at most 1000000" in refused(workload=" " * 1_000_000 + "{}").message


def test_no_error_shows_anything_of_a_workload():
    for text in (
        '{"hush": NaN}',
        '{"hush":1,"hush":2}',
        '["hush"]',
        '"hush"',
        '{"hush"',
        '{"a":"%s"}' % ("hush" * 20_000),
    ):
        assert "hush" not in f"{refused(workload=text)}"
        assert "hush" not in f"{refused(workloads=f'[{text}, 1]')}"


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("GITHUB_REPOSITORY", ["", "repo", "a/b/c", "a/..", "a/b c", "a/b?c", "../b", "a/\u00e9"]),
        ("GITHUB_RUN_ID", ["", "0", "-1", "1.0", "x", "9" * 20, "9" * 5000]),
        ("GITHUB_RUN_ATTEMPT", ["", "0", "one"]),
        ("GITHUB_SERVER_URL", ["github.com", "ftp://x", "https://", "https://a b", "https://u:p@host", "javascript:x"]),
    ],
)
def test_the_environment_of_a_job_is_checked(name, values):
    for value in values:
        assert refused({name: value}).message.startswith(f"{name}: ")


def test_the_server_has_no_slash_at_its_end_and_may_be_another_one():
    assert settings({"GITHUB_SERVER_URL": "https://git.example.com/x/"}).server_url == "https://git.example.com/x"
    assert settings({"GITHUB_SERVER_URL": "http://127.0.0.1:8080"}).server_url == "http://127.0.0.1:8080"


def test_what_is_no_text_or_no_utf8_is_refused():
    assert "expected a text" in refused(workload=3).message
    for name in ("workload", "runners", "workflow", "timeline"):
        assert "not UTF-8" in refused(**{name: "a\udce9"}).message
        assert "NUL" in refused(**{name: "a\0b"}).message
    assert "at most 4096" in refused(timeline="x" * 5000).message


# ---- the guard ----------------------------------------------------------------------------------------------------


def test_the_guard_takes_what_was_dispatched():
    assert guard_settings(GUARD | {"token": "x"}, ENV) == GuardSettings(
        repository="octo/repo",
        request_id="sgpu-1001-2-1-abc",
        parent=Parent(1001, 2),
        source_ref="refs/heads/main",
        source_sha=SHA,
        own_attempt=2,
    )


@pytest.mark.parametrize("name", [*GUARD, "GITHUB_REPOSITORY", "GITHUB_RUN_ATTEMPT"])
@pytest.mark.parametrize("value", ["", "  ", "\x07", "-1 "])
def test_the_guard_needs_all_of_it(name, value):
    if (name, value) == ("request-id", "-1 "):
        return
    with pytest.raises(OptionError, match=f"^{name}: "):
        guard_settings(
            {**GUARD, **({name: value} if name in GUARD else {})}, {**ENV, **({name: value} if name in ENV else {})}
        )


def test_a_guard_needs_no_reader_of_toml():
    code = (
        "import sys; before = set(sys.modules); import pytest_sgpu.runners.settings.inputs;"
        "sys.exit(bool({'tomllib', 'tomli'} & (set(sys.modules) - before)))"  # a measure of coverage reads TOML too
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# ---- the token ----------------------------------------------------------------------------------------------------


def test_the_token_of_the_environment_goes_first():
    assert token({"token": "input"}, {"GITHUB_TOKEN": "environment"}) == "environment"
    assert token({"token": " input\n"}, {"GITHUB_TOKEN": "  "}) == "input"
    with pytest.raises(OptionError, match="no token"):
        token({}, {"GITHUB_TOKEN": ""})


@pytest.mark.parametrize("text", ["se cret", "se\ncret", "se\x00cret", "secrét", "secret" * 2000, 5])
def test_an_odd_token_is_refused_and_not_shown(text):
    for inputs, env in (({"token": text}, {}), ({}, {"GITHUB_TOKEN": text})):
        with pytest.raises(OptionError) as caught:
            token(inputs, env)
        assert "cr" not in f"{caught.value}"


# ---- refs ---------------------------------------------------------------------------------------------------------

REF = st.text(alphabet="ab/.@{~^:?*[\\ -lock\x7f\t\né\u200b", min_size=1, max_size=20) | st.sampled_from(
    ["a.lock", "a.lock/b", ".a", "a/.b", "@", "@{", "a@{b", "a..b", "a.", "a/", "a//b", "-", "a{b", "a@b"]
)


@pytest.mark.skipif(shutil.which("git") is None, reason="compares with git itself")
@given(REF)
def test_a_source_ref_is_what_git_takes_for_one(name):
    ref = f"refs/heads/{name}"
    asked = subprocess.run(["git", "check-ref-format", os.fsencode(ref)], check=False, capture_output=True)
    try:
        ours = refs.source_ref("source-ref", ref) == ref
    except OptionError:
        ours = False
    assert ours is (asked.returncode == 0)


def test_a_ref_has_at_most_a_thousand_characters():
    assert refs.workflow_ref("workflow-ref", "x" * 1000)
    assert "at most 1000 characters" in refusal(refs.workflow_ref, "workflow-ref", "x" * 1001)


@pytest.mark.parametrize("check", [refs.source_ref, refs.workflow_ref, refs.source_sha, refs.workflow])
@given(text=st.text())
def test_any_ref_is_taken_as_it_is_or_refused(check, text):
    said = refusal(check, "name", text)
    assert said.startswith("name: ") if said else check("name", text) == text


# ---- anything at all ----------------------------------------------------------------------------------------------

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
ANY = (
    st.text()
    | st.text(alphabet=st.characters(codec=None))
    | JSON.map(json.dumps)
    | st.sampled_from(
        ["true", "1", "60", "[]", "{}", "[{}]", "extended", "gpu", "main", "refs/heads/main", "x.yml", SHA]
    )
)


@given(st.dictionaries(st.sampled_from(COORDINATOR_INPUTS), ANY, max_size=4), st.booleans())
def test_any_inputs_are_settings_or_an_option_error(changes, replace):
    given_ = changes if replace else INPUTS | changes
    said = refusal(coordinator_settings, given_, ENV, POOLS)
    assert said == "" or said.isprintable()
    assert len(said) < 1000
    if not said:
        found = coordinator_settings(given_, ENV, POOLS)
        assert 1 <= len(found.candidates) <= 7
        assert all(isinstance(json.loads(one), dict) for one in found.workloads)


@given(st.dictionaries(st.text(), st.text(), max_size=3), st.dictionaries(st.sampled_from(sorted(ENV)), ANY))
def test_any_names_and_any_environment_are_settings_or_an_option_error(names, env):
    assert refusal(coordinator_settings, INPUTS | names, ENV | env, POOLS).isprintable()
    assert refusal(guard_settings, GUARD | names, ENV | env).isprintable()


@given(st.dictionaries(st.sampled_from(GUARD_INPUTS), ANY))
def test_any_inputs_of_a_guard_are_settings_or_an_option_error(changes):
    assert refusal(guard_settings, GUARD | changes, ENV).isprintable()


@given(ANY, ANY)
def test_any_token_is_one_or_an_option_error(text, other):
    try:
        found = token({"token": text}, {"GITHUB_TOKEN": other})
    except OptionError:
        return
    assert found.isascii()
    assert found.isprintable()
    assert " " not in found
