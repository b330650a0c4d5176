"""What the options of a queue come to, and what a slip in one says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pytest_sgpu.core.limits import Limits
from pytest_sgpu.face.options import read_options, rerun_command, rerun_head
from pytest_sgpu.prepare import GRACE


@pytest.fixture
def options(pytester):
    """Read the options of a command line, with an ini-file if a test wrote one."""

    def read(*words):
        return read_options(pytester.parseconfig("-p", "sgpu", "--sgpu-conf=q.conf", *words))

    return read


@pytest.fixture
def refusal(options):
    def read(*words):
        with pytest.raises(pytest.UsageError) as caught:
            options(*words)
        return str(caught.value)

    return read


def test_nothing_is_limited_retried_or_ended_unless_asked_for(options):
    made = options()
    assert (made.limits, made.grace, made.budget, made.retries) == (Limits(), GRACE, None, 0)
    assert (made.flaky_fails, made.quarantine, made.health_cmd, made.policy.leaks_fail) == (False, True, (), False)
    assert (made.resume, made.force) == (False, False)
    assert GRACE == 4.0


def test_each_option_is_read(options):
    made = options(
        "--sgpu-timeout=auto,10m", "--sgpu-stall=90", "--sgpu-grace=0", "--sgpu-budget=1h30m", "--sgpu-retries=2",
        "--sgpu-flaky=fail", "--sgpu-quarantine=off", "--sgpu-health-cmd=true 'a b'", "--sgpu-leaks=fail",
    )  # fmt: skip
    assert made.limits == Limits(auto=True, unknown=600.0, stall=90.0)
    assert (made.grace, made.budget, made.retries) == (0.0, 5400.0, 2)
    assert (made.flaky_fails, made.quarantine, made.policy.leaks_fail) == (True, False, True)
    assert Path(made.health_cmd[0]).name == "true"
    assert made.health_cmd[1:] == ("a b",)


INI = """[pytest]
sgpu_timeout = 60
sgpu_stall = 30
sgpu_grace = 2
sgpu_budget = 45m
sgpu_retries = 1
sgpu_flaky = fail
sgpu_quarantine = off
sgpu_health_cmd = true
sgpu_leaks = fail
"""


def test_each_option_has_an_ini_twin_and_the_command_line_wins(pytester, options):
    pytester.makeini(INI)
    made = options()
    assert made.limits == Limits(timeout=60.0, stall=30.0)
    assert (made.grace, made.budget, made.retries) == (2.0, 2700.0, 1)
    assert (made.flaky_fails, made.quarantine, made.policy.leaks_fail, len(made.health_cmd)) == (True, False, True, 1)
    made = options("--sgpu-timeout=5", "--sgpu-retries=0", "--sgpu-flaky=pass", "--sgpu-quarantine=auto")
    assert (made.limits.timeout, made.limits.stall, made.retries) == (5.0, 30.0, 0)
    assert (made.flaky_fails, made.quarantine) == (False, True)


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("--sgpu-timeout=soon", "'soon' is no duration; expected seconds (90 or 0.5), or 90s, 15m, 1h30m, or auto, or"),
        ("--sgpu-timeout=0", "expected more than 0 s"),
        ("--sgpu-timeout=", "'' is no duration"),
        ("--sgpu-timeout=auto,-1", "'-1' is no duration"),
        ("--sgpu-stall=0", "expected more than 0 s"),
        ("--sgpu-stall=auto", "'auto' is no duration"),
        ("--sgpu-grace=-1", "'-1' is no duration"),
        ("--sgpu-grace=nan", "'nan' is no duration"),
        ("--sgpu-budget=1d", "'1d' is no duration"),
        ("--sgpu-budget=0", "expected more than 0 s"),
        ("--sgpu-retries=-1", "'-1' is no such number; expected a whole number from 0 to 100"),
        ("--sgpu-retries=101", "expected a whole number from 0 to 100"),
        ("--sgpu-retries=1.5", "expected a whole number"),
        ("--sgpu-retries=\u00b2", "expected a whole number"),
        ("--sgpu-retries=" + "9" * 5000, "expected a whole number"),
        ("--sgpu-flaky=no", "'no' is neither; expected pass or fail"),
        ("--sgpu-flaky=", "'' is neither"),
        ("--sgpu-quarantine=on", "'on' is neither; expected auto or off"),
        ("--sgpu-leaks=ignore", "'ignore' is neither; expected report or fail"),
        ("--sgpu-health-cmd=", "no command"),
        ("--sgpu-health-cmd=''", "no command"),
        ("--sgpu-health-cmd='' -x", "no command"),
        ("--sgpu-log-dir=", "nothing is named; expected a path"),
        ("--sgpu-weights=", "nothing is named; expected a path"),
        (
            "--sgpu-health-cmd=no-such-program-here -x",
            "'no-such-program-here': not found, neither beside the tests nor",
        ),
        ("--sgpu-health-cmd=./q.conf", "'./q.conf': not found"),
        ("--sgpu-health-cmd=echo 'x", "is no command line: No closing quotation"),
    ],
)
def test_a_slip_names_the_option_what_was_given_and_what_is_expected(refusal, word, expected):
    told = refusal(word)
    assert told.startswith(word.partition("=")[0] + ": ")
    assert expected in told
    assert len(told) < 400


def test_a_slip_in_an_ini_file_names_its_key(pytester, refusal):
    pytester.makeini("[pytest]\nsgpu_retries = many\n")
    assert refusal().startswith("sgpu_retries in the ini-file: 'many' is no such number")


def test_what_is_shown_of_a_slip_gives_no_orders_to_a_terminal(refusal):
    assert "\x1b" not in refusal("--sgpu-flaky=\x1b[31m")


@pytest.mark.parametrize(
    ("words", "how", "folder"),
    [
        (["--sgpu-resume"], (True, False), "test-results/logs"),
        (["--sgpu-resume=force"], (True, True), "test-results/logs"),
        (["--sgpu-resume=there"], (True, False), "there"),
        (["--sgpu-resume=there", "--sgpu-resume=force"], (True, True), "there"),
        (["--sgpu-resume=force", "--sgpu-resume=there"], (True, True), "there"),
        (["--sgpu-resume", "--sgpu-log-dir=elsewhere"], (True, False), "elsewhere"),
        (["--sgpu-resume=there", "--sgpu-log-dir=elsewhere"], (True, False), "there"),
        (["--sgpu-resume=./force"], (True, False), "force"),
        (["--sgpu-log-dir=elsewhere"], (False, False), "elsewhere"),
    ],
)
def test_what_is_resumed_and_where(pytester, options, words, how, folder):
    made = options(*words)
    assert ((made.resume, made.force), made.log_dir) == (how, pytester.path / folder)


def test_one_run_can_be_resumed_and_no_other(refusal):
    assert refusal("--sgpu-resume=a", "--sgpu-resume=b").startswith("--sgpu-resume='a', --sgpu-resume='b': one run")
    assert refusal("--sgpu-resume=").startswith("--sgpu-resume=: nothing is named")


@pytest.mark.parametrize("word", ["--sgpu-retries=0", "--sgpu-resume", "--sgpu-timeout=", "--sgpu-health-cmd=true"])
def test_an_option_of_a_queue_without_a_conf_is_a_slip(pytester, word):
    with pytest.raises(
        pytest.UsageError, match=re.escape(word.partition("=")[0]) + " does nothing without --sgpu-conf"
    ):
        pytester.parseconfigure("-p", "sgpu", word)


def test_the_command_that_runs_an_item_again_is_quoted_up_to_its_node_id(pytester, options):
    config = pytester.parseconfig("-p", "sgpu", "--sgpu-conf=q.conf", "-o", "sgpu_allow_empty=a b")
    head = rerun_head(config, read_options(config))
    assert head.startswith("pytest -p sgpu --sgpu-conf=q.conf")
    assert head.endswith("-o 'sgpu_allow_empty=a b' --sgpu-log-dir=test-results/rerun")
    assert "--sgpu-timeout" not in head
    assert rerun_command(head, "q.conf::s::a[b c]") == head + " 'q.conf::s::a[b c]'"


def test_the_command_that_runs_an_item_again_has_its_limits(pytester):
    limits = ["--sgpu-timeout=auto,10m", "--sgpu-stall=90s", "--sgpu-grace=0", "--sgpu-leaks=fail"]
    config = pytester.parseconfig("-p", "sgpu", "--sgpu-conf=q.conf", *reversed(limits), "--sgpu-retries=2")
    head = rerun_head(config, read_options(config))
    assert head == " ".join(["pytest -p sgpu --sgpu-conf=q.conf", *limits, "--sgpu-log-dir=test-results/rerun"])
