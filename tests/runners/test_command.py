"""The commands ``sgpu runner ...``: where values come from, what is printed, which exit code; nothing is started."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import pytest

from pytest_sgpu import cli
from pytest_sgpu.errors import ConfError, OptionError, SgpuError
from pytest_sgpu.runners import command, record
from pytest_sgpu.runners.face import options, signals, tools
from pytest_sgpu.runners.face.tools import Tools
from pytest_sgpu.runners.forecast.history import Past
from pytest_sgpu.runners.lint.findings import Finding
from pytest_sgpu.runners.ports import Kind, Result
from pytest_sgpu.runners.settings import inputs

ROOT = Path(__file__).resolve().parents[2]
TOKEN = "ghs_0123456789abcdef"
OK = Result(ok=True, message="the worker succeeded")
EXTENDED = ["plan", "--runner-type", "gpu", "--queue-policy", "extended"]


class Recorder:
    """Stands for coordinator and guard: keeps what it is given, gives what it is told to give."""

    def __init__(self, result=OK):
        self.result = result
        self.calls = []

    def __call__(self, first, env):
        self.calls.append((dict(first), dict(env)))
        if isinstance(self.result, BaseException):
            raise self.result
        return self.result() if callable(self.result) else self.result

    @property
    def tools(self):
        return Tools(acquire=self, guard=self, cleanup=self)


def run(argv, env=None, result=OK):
    recorder = Recorder(result)
    code = command.main(argv, env or {}, recorder.tools)
    return code, recorder.calls


class TestInputs:
    def test_every_input_of_the_coordinator_and_the_guard_is_in_the_table(self):
        assert {one.name for one in options.of(options.ACQUIRE)} == set(inputs.COORDINATOR_INPUTS)
        assert {one.name for one in options.of(options.GUARD)} == set(inputs.GUARD_INPUTS)
        assert len({one.name for one in options.INPUTS}) == len(options.INPUTS)

    @pytest.mark.parametrize("name", [options.ACQUIRE, options.GUARD])
    def test_every_input_is_an_option_and_a_variable_but_for_the_token(self, name):
        for one in options.of(name):
            variable = f"INPUT_{one.name.upper()}"
            for spelling in {variable, variable.replace("-", "_")}:
                assert run([name], {spelling: "x"})[1][0][0] == {one.name: "x"}
            if not one.secret:
                assert run([name, f"--{one.name}=x"])[1][0][0] == {one.name: "x"}

    def test_options_win_over_variables_and_dashes_over_underscores(self):
        env = {"INPUT_RUNNER-TYPE": "dash", "INPUT_RUNNER_TYPE": "under", "INPUT_WORKFLOW": "env.yml"}
        assert run(["acquire", "--workflow", "w.yml"], env)[1][0][0] == {"runner-type": "dash", "workflow": "w.yml"}
        assert run(["acquire", "--runner-type="], env)[1][0][0]["runner-type"] == ""

    def test_blank_variables_are_none(self):
        assert run(["acquire"], {"INPUT_WORKLOAD": "  ", "INPUT_RUNNERS": ""})[1][0][0] == {}

    def test_values_are_not_touched(self):
        value = ' {"a": "é\\n"}\n'
        assert run(["acquire"], {"INPUT_WORKLOAD": value})[1][0][0] == {"workload": value}

    def test_unknown_variables_reach_the_check_of_the_inputs(self):
        assert run(["acquire"], {"INPUT_RUNER-TYPE": "gpu"})[1][0][0] == {"runer-type": "gpu"}

    @pytest.mark.parametrize("flag", ["history", "conditional-requests", "force-cancel"])
    def test_flags(self, flag):
        assert run(["acquire", f"--{flag}"])[1][0][0] == {flag: "true"}
        assert run(["acquire", f"--{flag}=false"], {f"INPUT_{flag.upper()}": "true"})[1][0][0] == {flag: "false"}

    def test_the_environment_goes_along(self):
        env = {"GITHUB_REPOSITORY": "o/r", "INPUT_TOKEN": TOKEN}
        (given, around), *_ = run(["guard", "--parent-run-id", "7"], env)[1]
        assert given == {"parent-run-id": "7", "token": TOKEN}
        assert around == env


class TestCleanup:
    def test_the_state_keeps_its_names(self):
        env = {"STATE_run-id": "11", "STATE_request-id-2": "x", "STATE_isPost": "true", "GITHUB_TOKEN": TOKEN}
        (state, around), *_ = run(["cleanup"], env)[1]
        assert state == {"run-id": "11", "request-id-2": "x", "isPost": "true"}
        assert around == env

    def test_underscores_do_for_dashes_which_win(self):
        env = {"STATE_run-id": "11", "STATE_run_id": "12", "STATE_request_id_2": "x", "STATE_workflow_2": "w.yml"}
        assert run(["cleanup"], env)[1][0][0] == {"run-id": "11", "request-id-2": "x", "workflow-2": "w.yml"}

    def test_a_blank_name_with_dashes_hides_no_child(self):
        assert run(["cleanup"], {"STATE_run-id": " ", "STATE_run_id": "12"})[1][0][0] == {"run-id": "12"}

    @pytest.mark.parametrize(
        ("options_", "state"),
        [
            (["--run-id", "7"], {"run-id": "7"}),
            (["--request-id", " x ", "--workflow=w.yml"], {"request-id": "x", "workflow": "w.yml"}),
            (["--run-id=7", "--workflow=", "--force-cancel"], {"run-id": "7", "force-cancel": "true"}),
            (["--run-id="], {}),
            (["--run-id=", "--workflow=w.yml", "--force-cancel"], {}),
        ],
    )
    def test_options_make_a_state_in_place_of_the_variables(self, options_, state):
        assert run(["cleanup", *options_], {"STATE_run-id": "11", "STATE_force-cancel-2": "true"})[1][0][0] == state

    def test_a_forced_end_for_what_the_variables_name(self):
        env = {"STATE_run-id": "11", "STATE_request-id-2": "x", "STATE_workflow-2": "w.yml"}
        forced = {"force-cancel": "true", "force-cancel-2": "true"}
        assert run(["cleanup", "--force-cancel"], env)[1][0][0].items() >= forced.items()
        assert run(["cleanup", "--force-cancel"])[1][0][0] == {}

    @pytest.mark.parametrize(
        ("options_", "said"),
        [
            (["--workflow=w.yml"], "workflow: expected --run-id or --request-id too"),
            (["--request-id=x"], "request-id: expected --workflow too"),
            (["--request-id=x", "--workflow=.github/workflows/w.yml"], "leave .github/workflows/ out"),
            (["--run-id=7", "--force-cancel=maybe"], "force-cancel: expected true or false"),
        ],
    )
    def test_options_that_name_no_child(self, options_, said, capsys):
        assert run(["cleanup", *options_]) == (4, [])
        assert said in capsys.readouterr().err

    def test_the_token_of_the_action_is_used(self):
        assert run(["cleanup"], {"INPUT_TOKEN": TOKEN, "GITHUB_TOKEN": " "})[1][0][1]["GITHUB_TOKEN"] == TOKEN


LEFT = Result(ok=False, kind="worker_failed", message="why", state={"run-id": "11"})


class TestWithoutAPostStep:
    """What ``acquire`` leaves it ends by itself, unless somebody else will."""

    def acquire(self, left=LEFT, cleaned=OK, env=None):
        coordinator, post = Recorder(left), Recorder(cleaned)
        tools_ = Tools(acquire=coordinator, cleanup=post)
        return command.main(["acquire"], env or {}, tools_), post.calls

    @pytest.mark.parametrize("cleaned", [OK, Result(ok=False, kind="cancel_unconfirmed", message="run 11")])
    def test_r113_what_is_left_is_ended_at_once_and_the_error_stays(self, cleaned, capsys):
        env = {"GITHUB_STATE": "/some/file", "INPUT_TOKEN": TOKEN}
        code, calls = self.acquire(cleaned=cleaned, env=env)
        assert (code, calls) == (1, [({"run-id": "11"}, env | {"GITHUB_TOKEN": TOKEN})])
        first, last = capsys.readouterr().out.splitlines()
        assert first.startswith(f"sgpu runner cleanup: {'ok: ' if cleaned.ok else 'failed (cancel_unconfirmed): '}")
        assert last == "sgpu runner acquire: failed (worker_failed): why"

    @pytest.mark.parametrize("kind", ["parent_cancelled", "cancel_unconfirmed"])
    def test_r113_also_after_a_signal_and_after_a_cancellation_that_was_not_confirmed(self, kind):
        code, calls = self.acquire(Result(ok=False, kind=kind, message="why", state={"request-id": "x"}))
        assert (code, len(calls)) == (130 if kind == "parent_cancelled" else 1, 1)

    def test_r113_a_post_step_does_it_where_there_is_one(self):
        assert self.acquire(env={"SGPU_POST_STEP": "1"}) == (1, [])
        assert len(self.acquire(env={"SGPU_POST_STEP": ""})[1]) == 1

    def test_without_a_state_there_is_nothing_to_do(self):
        assert self.acquire(OK) == (0, [])

    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
    def test_r113_in_a_step_no_signal_stops_it(self, number):
        def work():
            signal.raise_signal(number)
            return OK

        assert self.acquire(cleaned=work, env={"GITHUB_ACTIONS": "true"})[0] == 1

    def test_at_a_prompt_a_second_signal_stops_it(self):
        def work():
            signal.raise_signal(signal.SIGINT)
            return OK

        before = signal.getsignal(signal.SIGINT)
        assert self.acquire(cleaned=work)[0] == 130
        assert signal.getsignal(signal.SIGINT) is before


class TestEnds:
    @pytest.mark.parametrize("name", ["acquire", "guard", "cleanup"])
    def test_success(self, name, capsys):
        assert run([name])[0] == 0
        assert capsys.readouterr().out == f"sgpu runner {name}: ok: the worker succeeded\n"

    @pytest.mark.parametrize(
        ("kind", "code"),
        [("worker_failed", 1), ("queue_exhausted", 1), ("", 1), ("config", 4), ("parent_cancelled", 130)],
    )
    def test_failures(self, kind, code, capsys):
        assert run(["acquire"], result=Result(ok=False, kind=kind, message="why\nmore"))[0] == code
        assert capsys.readouterr().out == f"sgpu runner acquire: failed ({kind or 'failed'}): why; more\n"

    @pytest.mark.parametrize("name", ["acquire", "guard", "cleanup"])
    def test_a_config_error_has_its_hint_on_a_line_of_its_own(self, name, capsys):
        result = Result(ok=False, kind="config", message=str(OptionError("no token", "pass one")))
        assert run([name], {"GITHUB_ACTIONS": "true"}, result)[0] == 4
        assert capsys.readouterr().out == (
            f"sgpu runner {name}: failed (config): no token\n  hint: pass one\n"
            f"::error title=sgpu runner {name}%3A config::no token; hint: pass one\n"
        )

    def test_an_annotation_in_a_step(self, capsys):
        result = Result(ok=False, kind="api_error", message="50% lost: a, b\n::error::forged")
        run(["acquire"], {"GITHUB_ACTIONS": "true"}, result)
        last = capsys.readouterr().out.splitlines()[-1]
        assert last == "::error title=sgpu runner acquire%3A api_error::50%25 lost: a, b; ::error::forged"

    @pytest.mark.parametrize(
        ("error", "code"),
        [
            (OptionError("no", "do"), 4),
            (ConfError("no", "do"), 4),
            (SgpuError("gone", "do"), 1),
            (BrokenPipeError(32, "Broken pipe"), 1),
            (KeyboardInterrupt(), 130),
        ],
    )
    def test_expected_errors_are_a_line(self, error, code, capsys):
        assert run(["acquire"], {"GITHUB_ACTIONS": "true"}, error)[0] == code
        out, err = capsys.readouterr()
        assert "Traceback" not in out + err
        if code != 130:
            assert err.startswith("sgpu runner: error: ")
            assert out.startswith("::error title=sgpu runner::")

    def test_the_token_is_never_shown(self, capsys):
        message = f"refused {TOKEN}\n\x1b[1m"
        for result in (Result(ok=False, kind="auth", message=message), Result(ok=True, message=message)):
            for name in ("GITHUB_TOKEN", "INPUT_TOKEN"):
                run(["acquire"], {name: TOKEN, "GITHUB_ACTIONS": "true"}, result)
        run(["guard"], {"GITHUB_TOKEN": TOKEN, "GITHUB_ACTIONS": "true"}, SgpuError(message))
        out, err = capsys.readouterr()
        assert TOKEN not in out + err
        assert "***" in out
        assert "***" in err


class TestUsage:
    @pytest.mark.parametrize(
        "argv",
        [
            ["acquire", "--token", TOKEN],
            ["acquire", f"--token={TOKEN}"],
            ["guard", f"--GITHUB-TOKEN={TOKEN}"],
            ["plan", f"-token={TOKEN}"],
            ["acquire", f"--tokne={TOKEN}"],
            ["acquire", "--tokne", TOKEN],
            ["acquire", TOKEN],
            ["acquire", "--workflow"],
            [],
        ],
    )
    def test_wrong_usage_shows_no_value(self, argv, capsys):
        assert run(argv) == (4, [])
        out, err = capsys.readouterr()
        assert out == ""
        assert err.startswith("sgpu runner: error: ")
        assert "hint: " in err
        assert TOKEN not in err

    @pytest.mark.parametrize("name", ["acquire", "guard", "cleanup", "plan", "lint"])
    def test_the_help_stands_alone(self, name, capsys, monkeypatch):
        monkeypatch.setenv("COLUMNS", "80")
        assert command.main([name, "--help"], {}) == 0
        text = capsys.readouterr().out
        assert "exit codes: 0 " in text
        assert "example" in text
        assert "--token" not in text
        assert max(map(len, text.splitlines())) <= 80
        assert re.findall(r"[a-z]-$", text, re.MULTILINE) == [], "a name is broken at a hyphen"
        for one in options.of(name):
            assert one.secret or f"--{one.name}" in text

    @pytest.mark.parametrize(
        ("name", "told"),
        [
            (
                "acquire",
                (
                    "INPUT_RUNNER_TYPE; options win "
                    "needed: workflow, workflow-ref, source-ref, source-sha, runner-type "
                    "environment: GITHUB_TOKEN (or INPUT_TOKEN); GITHUB_REPOSITORY, GITHUB_RUN_ID, GITHUB_RUN_ATTEMPT, "
                ),
            ),
            (
                "guard",
                (
                    "INPUT_REQUEST_ID; options win needed: all of them "
                    "environment: GITHUB_TOKEN (or INPUT_TOKEN); GITHUB_REPOSITORY, GITHUB_RUN_ATTEMPT, "
                ),
            ),
            ("cleanup", "environment: GITHUB_TOKEN (or INPUT_TOKEN); GITHUB_REPOSITORY "),
            (
                "plan",
                (
                    "INPUT_RUNNER_TYPE; options win needed: runner-type; with history workflow too "
                    "environment: nothing; with history GITHUB_TOKEN, GITHUB_REPOSITORY "
                ),
            ),
        ],
    )
    def test_the_help_says_what_is_needed(self, name, told, capsys):
        assert command.main([name, "--help"], {}) == 0
        assert told in " ".join(capsys.readouterr().out.split())

    @pytest.mark.parametrize("name", ["acquire", "guard", "cleanup", "plan"])
    def test_an_unknown_option_is_told_with_the_help_that_has_the_known_ones(self, name, capsys):
        assert run([name, "--tokne=x"]) == (4, [])
        assert capsys.readouterr().err == f"sgpu runner: error: unknown: --tokne\n  hint: sgpu runner {name} --help\n"

    def test_the_list_of_commands(self, capsys, monkeypatch):
        monkeypatch.setenv("COLUMNS", "80")
        assert command.main(["--help"], {}) == 0
        text = capsys.readouterr().out
        assert max(map(len, text.splitlines())) <= 80
        assert re.findall(r"^    (\w+)", text, re.MULTILINE) == [
            "acquire",
            "guard",
            "cleanup",
            "plan",
            "lint",
        ]

    def test_it_is_a_command_of_sgpu(self, capsys):
        assert cli.main(["runner", "plan", "--runner-type", "tpu"]) == 4
        assert "runner-type" in capsys.readouterr().err
        with pytest.raises(SystemExit) as end:
            cli.main(["--help"])
        assert end.value.code == 0
        assert re.search(r"^    runner  ", capsys.readouterr().out, re.MULTILINE)


class TestSignals:
    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
    @pytest.mark.parametrize("name", ["acquire", "guard"])
    def test_signals_interrupt_more_than_once(self, name, number, monkeypatch):
        monkeypatch.setattr(signals, "_TOGETHER", 0.0)  # as if they came a second after each other
        seen = []

        def work():
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(number)
            seen.append("first")
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(number)
            seen.append("second")
            return Result(ok=False, kind="parent_cancelled", message="cancelled")

        before = signal.getsignal(number)
        assert run([name], result=work)[0] == 130
        assert seen == ["first", "second"]
        assert signal.getsignal(number) is before

    def test_a_cleanup_in_a_step_is_not_interrupted(self):
        def work():
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.raise_signal(number)
            return OK

        assert run(["cleanup"], {"GITHUB_ACTIONS": "true"}, work)[0] == 0

    def test_signals_that_come_together_are_one(self, monkeypatch):
        """Ctrl-C reaches the group, and a parent passes it on."""
        monkeypatch.setattr(signals, "_TOGETHER", 3600.0)
        monkeypatch.setattr(signals._interrupt, "_last", -1e9)

        def work():
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.raise_signal(number)
            return Result(ok=False, kind="parent_cancelled", message="cancelled")

        assert run(["acquire"], result=work)[0] == 130

    def test_a_cleanup_at_a_prompt_is(self, monkeypatch):
        monkeypatch.setattr(signals, "_TOGETHER", 0.0)

        def work():
            signal.raise_signal(signal.SIGINT)
            return OK

        assert run(["cleanup"], {}, work)[0] == 130

    def test_handlers_come_back_after_an_error(self):
        before = signal.getsignal(signal.SIGTERM)
        with pytest.raises(OptionError), signals.interrupting():
            raise OptionError("x")
        assert signal.getsignal(signal.SIGTERM) is before


@dataclass
class Pasts:
    """Stands for the reader of past runs."""

    pasts: tuple[Past, ...] = ()
    error: OptionError | None = None

    def __post_init__(self):
        self.asked = []

    def __call__(self, settings, given, env):
        self.asked.append((settings.repository, settings.workflow))
        if self.error:
            raise self.error
        return self.pasts

    @property
    def tools(self):
        return Tools(past=self, now=lambda: 10_000.0)


class TestPlan:
    def test_the_table(self, capsys):
        assert command.main([*EXTENDED, "--execution-timeout-minutes", "15"], {}) == 0
        text = capsys.readouterr().out
        assert max(map(len, text.splitlines())) <= 80
        assert re.findall(r"^ \d  (\S+) +(\d+ \w+)  ", text, re.MULTILINE) == [
            *((f"amd64-{name}", "15 min") for name in ("rtxpro6000", "h100", "h200", "a100", "l40g", "l4")),
            ("amd64-rtxpro6000", "1 h"),
        ]
        assert "nv-gpu-amd64-h100-1gpu (unconfirmed)" in text
        assert "(re-wait)" in text
        assert re.search(r"^parent +195 min", text, re.MULTILINE)
        assert "\x1b" not in text

    def test_json(self, capsys):
        assert command.main([*EXTENDED, "--json", "--queue-timeout-minutes", "5"], {}) == 0
        plan = json.loads(capsys.readouterr().out)
        assert plan["version"] == 1
        assert [one["queue_seconds"] for one in plan["candidates"]] == [300] * 6 + [3600]
        assert {one["origin"] for one in plan["candidates"]} == {
            "input queue-timeout-minutes",
            "policy extended: re-wait",
        }
        assert plan["budget"]["parent_minutes"] == 30 + 60 + 180 + 30
        assert (plan["refused"], plan["warning"], plan["history"], plan["reasons"]) == (None, None, None, [])
        spent = plan["budget"]
        assert {type(spent[f"{name}_seconds"]) for name in ("queue", "execution", "overhead")} == {float}

    def test_a_refusal(self, capsys):
        assert command.main([*EXTENDED, "--execution-timeout-minutes", "181"], {}) == 1
        text = capsys.readouterr().out
        assert "refused: it may take 361 minutes, and a job on a hosted runner ends after 360" in text
        assert "hint: execution-timeout-minutes: at most 180" in text
        assert command.main([*EXTENDED, "--execution-timeout-minutes", "181", "--json"], {}) == 1
        refused = json.loads(capsys.readouterr().out)["refused"]
        assert "execution-timeout-minutes: at most 180" in refused["hints"]

    def test_a_refusal_in_a_step_is_an_annotation_beside_the_table(self, capsys):
        words = [*EXTENDED, "--execution-timeout-minutes", "181"]
        assert command.main(words, {"GITHUB_ACTIONS": "true"}) == 1
        last = capsys.readouterr().out.splitlines()[-1]
        assert last.startswith("::error title=sgpu runner plan::it may take 361 minutes")
        assert command.main([*words, "--json"], {"GITHUB_ACTIONS": "true"}) == 1
        assert json.loads(capsys.readouterr().out)["refused"]

    def test_little_that_is_left_is_told_and_is_no_failure(self, capsys):
        assert command.main(EXTENDED, {}) == 0
        text = capsys.readouterr().out
        assert "warning: 0 of the 360 minutes of a hosted job are left" in " ".join(text.split())
        assert max(map(len, text.splitlines())) <= 80
        assert command.main([*EXTENDED, "--json"], {}) == 0
        assert json.loads(capsys.readouterr().out)["warning"].startswith("0 of the 360")

    def test_no_hint_is_cut(self, capsys):
        many = json.dumps([{"a": n} for n in range(9)])
        argv = ["plan", "--runner-type", "cpu", "--queue-timeout-minutes", "60", "--workloads", many]
        assert command.main(argv, {}) == 1
        text = capsys.readouterr().out
        assert max(map(len, text.splitlines())) <= 80
        flat = " ".join(text.split())
        assert "or several coordinators (a matrix of the parent)" in flat
        assert "..." not in flat

    def test_explain(self, capsys):
        runners = json.dumps(
            [
                {"group": "nv-cpu-general", "labels": "linux-amd64-cpu16"},
                {"group": "nv-cpu-general", "labels": "linux-amd64-cpu32", "queue-timeout-minutes": 20},
            ]
        )
        argv = ["plan", "--runner-type", "cpu", "--explain", "--runners", runners]
        assert command.main(argv, {}) == 0
        text = capsys.readouterr().out
        assert re.search(r"^ 1  10 min +policy standard$", text, re.MULTILINE)
        assert re.search(r"^ 2  20 min +candidate: its own deadline$", text, re.MULTILINE)
        assert command.main([*argv, "--queue-timeout-seconds", "90"], {}) == 0
        assert re.search(r"^ 1  1 min 30 s +input queue-timeout-seconds$", capsys.readouterr().out, re.MULTILINE)

    def test_workers(self, capsys):
        argv = ["plan", "--runner-type", "cpu", "--workloads", '[{"a":1},{"a":2},{"a":3}]', "--json"]
        command.main(argv, {})
        plan = json.loads(capsys.readouterr().out)
        assert (plan["workers"], plan["max_parallel"], plan["budget"]["rounds"]) == (3, 2, 2)

    def test_it_takes_its_own_inputs_from_any_step(self, capsys):
        env = {"INPUT_RUNNER-TYPE": "cpu", "INPUT_SOURCE-SHA": "nonsense", "INPUT_OTHER": "x", "GITHUB_REPOSITORY": "?"}
        assert command.main(["plan"], env) == 0
        assert "runner-type cpu-amd64" in capsys.readouterr().out

    @pytest.mark.parametrize(
        ("argv", "where"),
        [
            (["plan"], "runner-type: missing"),
            (["plan", "--runner-type", "gpu", "--queue-policy", "slow"], "queue-policy"),
            (["plan", "--runner-type", "gpu", "--queue-timeout-minutes", "61"], "queue-timeout-minutes"),
            (["plan", "--runner-type", "gpu", "--runners", "[{]"], "runners"),
            (["plan", "--runner-type", "gpu", "--pools", "no-such.toml"], "no-such.toml"),
            (["plan", "--runner-type", "gpu", "--history", "--workflow", "w.yml"], "GITHUB_REPOSITORY"),
            (["plan", "--runner-type", "gpu", "--history=maybe"], "history"),
        ],
    )
    def test_what_is_wrong_is_told(self, argv, where, capsys):
        assert command.main(argv, {}, Pasts().tools) == 4
        out, err = capsys.readouterr()
        assert (out, where in err) == ("", True)

    def test_history_needs_the_workflow(self, capsys):
        argv = ["plan", "--runner-type", "cpu", "--history"]
        assert command.main(argv, {"GITHUB_REPOSITORY": "o/r"}, Pasts().tools) == 4
        assert "add --workflow FILE" in capsys.readouterr().err

    def test_history_at_a_prompt_says_what_to_set(self, capsys):
        argv = ["plan", "--runner-type", "cpu", "--history", "--workflow", "w.yml"]
        assert command.main(argv, {}, Pasts().tools) == 4
        assert "set the variables GITHUB_REPOSITORY and GITHUB_TOKEN" in capsys.readouterr().err

    def test_history_changes_order_and_deadline_and_says_why(self, capsys):
        past = Pasts(
            (
                Past("linux-amd64-cpu16", 8000.0, None, 9700.0, cancelled=True),
                Past("linux-amd64-cpu8", 8000.0, 8090.0, None, allocated=True),
            )
        )
        argv = ["plan", "--runner-type", "cpu", "--history", "--workflow", "w.yml", "--explain"]
        assert command.main(argv, {"GITHUB_REPOSITORY": "o/r"}, past.tools) == 0
        text = capsys.readouterr().out
        assert past.asked == [("o/r", "w.yml")]
        assert re.findall(r"^ \d  amd64-(\S+) +(\d+ min)", text, re.MULTILINE) == [
            ("cpu8", "10 min"),
            ("cpu32", "10 min"),
            ("cpu16", "5 min"),
        ]
        assert re.search(r"^ 3  5 min +policy standard, shortened by history$", text, re.MULTILINE)
        assert "1 wait, p50 1 min 30 s, p90 1 min 30 s" in text
        assert "exhausted 5 minutes ago" in " ".join(text.split())
        assert max(map(len, text.splitlines())) <= 80
        assert command.main([*argv, "--json"], {"GITHUB_REPOSITORY": "o/r"}, past.tools) == 0
        plan = json.loads(capsys.readouterr().out)
        assert plan["history"]["linux-amd64-cpu8"]["p90"] == 90
        assert len(plan["reasons"]) == 1

    def test_history_that_cannot_be_read(self, capsys):
        argv = ["plan", "--runner-type", "cpu", "--history", "--workflow", "w.yml"]
        assert command.main(argv, {"GITHUB_REPOSITORY": "o/r"}, Pasts(error=OptionError("GET /x: 500")).tools) == 4
        out, err = capsys.readouterr()
        assert (out, err) == ("", "sgpu runner: error: GET /x: 500\n")

    def test_no_history_yet(self, capsys):
        argv = ["plan", "--runner-type", "cpu", "--history", "--workflow", "w.yml"]
        assert command.main(argv, {"GITHUB_REPOSITORY": "o/r"}, Pasts().tools) == 0
        assert "nothing yet" in capsys.readouterr().out

    def test_long_names_stay_in_80_columns(self, capsys):
        runners = json.dumps([{"group": "g" * 200, "labels": "linux-amd64-cpu16"}])
        assert command.main(["plan", "--runner-type", "cpu", "--runners", runners], {}) == 0
        assert max(map(len, capsys.readouterr().out.splitlines())) <= 80


class TestLint:
    @pytest.fixture
    def child(self, tmp_path):
        path = tmp_path / "child.yml"
        path.write_text("jobs: {}\n", encoding="utf-8")
        return str(path)

    def lint(self, files, *found):
        return command.main(["lint", *files], {}, Tools(lint=lambda text, name: found))

    def test_nothing_found(self, child, capsys):
        assert self.lint([child]) == 0
        assert capsys.readouterr().out == "1 file checked: nothing found\n"

    def test_errors(self, child, capsys):
        found = (Finding(1, 7, "error", "no job worker", "add one"), Finding(2, 1, "warning", "odd\n::x", ""))
        assert self.lint([child, child], *found) == 1
        assert capsys.readouterr().out == (
            f"{child}:1:7: error: no job worker\n  hint: add one\n{child}:2:1: warning: odd ::x\n" * 2
            + "2 files checked: 2 errors, 2 warnings\n"
        )

    def test_in_a_step_findings_are_annotations_at_their_lines(self, child, capsys):
        found = (Finding(1, 7, "error", "no job worker", "add one"), Finding(2, 1, "warning", "odd\n::x", ""))
        tools_ = Tools(lint=lambda text, name: found)
        assert command.main(["lint", child], {"GITHUB_ACTIONS": "true"}, tools_) == 1
        lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("::")]
        assert lines == [
            f"::error file={child},line=1,col=7,title=sgpu runner lint::no job worker; hint: add one",
            f"::warning file={child},line=2,col=1,title=sgpu runner lint::odd ::x",
        ]

    def test_warnings_alone_are_no_failure(self, child):
        assert self.lint([child], Finding(1, 1, "warning", "odd", "")) == 0

    @pytest.mark.parametrize(
        ("content", "message"),
        [(b"\xff", "not UTF-8 at byte 0"), (b"x" * 1_000_001, "at most"), (None, "cannot be read")],
    )
    def test_a_file_that_cannot_be_used(self, tmp_path, content, message, capsys):
        path = tmp_path / "child.yml"
        if content is not None:
            path.write_bytes(content)
        assert self.lint([str(path)]) == 4
        assert message in capsys.readouterr().err

    def test_the_others_are_checked_all_the_same(self, child, tmp_path, capsys):
        missing = str(tmp_path / "none.yml")
        assert self.lint([missing, child, missing], Finding(1, 7, "error", "no job worker", "")) == 4
        out, err = capsys.readouterr()
        assert out == f"{child}:1:7: error: no job worker\n1 file checked: 1 error; 2 files not read\n"
        assert err.count("cannot be read") == 2

    def test_no_file(self, tmp_path, capsys):
        os.mkfifo(tmp_path / "pipe")
        for name in (tmp_path, tmp_path / "pipe", "a\0b"):
            assert self.lint([str(name)]) == 4
            assert "error: " in capsys.readouterr().err


class TestAsAProgram:
    def start(self, *argv, env=None, **more):
        words = [sys.executable, "-m", "pytest_sgpu.runners.command", *argv]
        return subprocess.run(words, cwd=ROOT, env=os.environ | (env or {}), timeout=60, check=False, text=True, **more)

    def test_the_entry_of_the_action(self):
        done = self.start("plan", env={"INPUT_RUNNER-TYPE": "cpu"}, capture_output=True)
        assert (done.returncode, done.stderr) == (0, "")
        assert "cpu-amd64" in done.stdout

    def test_an_output_that_takes_no_letter(self):
        env = {"PYTHONIOENCODING": "ascii", "INPUT_RUNNER-TYPE": "é"}
        done = self.start("plan", env=env, capture_output=True)
        assert done.returncode == 4
        assert "Traceback" not in done.stderr

    @pytest.mark.parametrize("argv", [("plan", "--runner-type", "cpu"), ("plan", "--help")])
    def test_a_reader_that_has_left(self, argv):
        read, write = os.pipe()
        os.close(read)
        with os.fdopen(write, "w") as stream:
            done = self.start(*argv, stdout=stream, stderr=subprocess.PIPE)
        assert "Traceback" not in done.stderr
        assert "Exception" not in done.stderr

    def test_sgpu_shell_lib_does_not_load_it(self):
        code = "import sys; from pytest_sgpu import cli; cli.main(['shell-lib']); print(sorted(sys.modules))"
        done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
        assert "pytest_sgpu.runners" not in done.stdout

    @pytest.mark.skipif("sys.version_info < (3, 11)", reason="3.10 reads no TOML by itself; the action needs 3.11")
    def test_what_holds_a_token_needs_nothing_that_is_installed(self):
        names = "command, coordinator, guard, wire"
        code = f"import sys; from pytest_sgpu.runners import {names}; print(sorted(sys.modules))"
        words = [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r}); {code}"]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


class TestScreen:
    def test_a_log_in_a_poor_encoding_loses_no_line(self, monkeypatch):
        raw = io.BytesIO()
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
        record.say("h\xe9llo \N{EM DASH} worker")
        assert raw.getvalue() == b"h\\xe9llo \\u2014 worker\n"

    @pytest.mark.parametrize("words", [["plan", "--runner-type", "cpu"], ["plan", "--runner-type=gpu", "--json"]])
    def test_an_output_that_is_lost_is_no_success(self, words, monkeypatch, capsys):
        with Path("/dev/full").open("w", encoding="utf-8") as full:
            monkeypatch.setattr(sys, "stdout", full)
            assert command.main([*words, "--execution-timeout-minutes=60"], {}) == 1
        assert capsys.readouterr().err == "output: cannot be written: No space left on device\n"

    @pytest.mark.parametrize("words", [["--help"], ["plan", "--help"]], ids=str)
    def test_a_help_that_is_lost_is_no_success(self, words, monkeypatch, capsys):
        with Path("/dev/full").open("w", encoding="utf-8") as full:
            monkeypatch.setattr(sys, "stdout", full)
            assert command.main(words, {}) == 1
        assert capsys.readouterr().err == "output: cannot be written: No space left on device\n"

    def test_a_help_that_nobody_takes_is_no_failure(self, monkeypatch, capsys):
        read, write = os.pipe()
        os.close(read)
        with os.fdopen(write, "w") as stream:
            monkeypatch.setattr(sys, "stdout", stream)
            assert command.main(["plan", "--help"], {}) == 0
        assert capsys.readouterr().err == ""
        monkeypatch.setattr(sys, "stdout", None)
        assert command.main(["plan", "--help"], {}) == 0
        assert "sgpu runner plan" in capsys.readouterr().err

    def test_closed_streams(self, monkeypatch):
        monkeypatch.setattr(sys, "stdout", None)
        monkeypatch.setattr(sys, "stderr", io.StringIO())
        assert run(["acquire"])[0] == 0
        sys.stderr.close()
        assert run(["acquire"], result=OptionError("x"))[0] == 4


@pytest.mark.parametrize(
    ("env", "url"),
    [
        ({}, "https://api.github.com"),
        ({"GITHUB_API_URL": " "}, "https://api.github.com"),
        ({"GITHUB_API_URL": "https://ghe.example/api/v3"}, "https://ghe.example/api/v3"),
    ],
)
def test_the_address_of_the_api(env, url):
    assert tools.api_url(env) == url


class TestPage:
    """docs/reference/runners.md has what the commands have."""

    @pytest.mark.parametrize("name", ["how-to/get-a-runner.md", "reference/runners.md"])
    def test_a_plan_is_shown_as_it_is_printed(self, name, capsys):
        page = (ROOT / "docs" / name).read_text(encoding="utf-8")
        sessions = re.findall(r"^```console\n\$ sgpu runner (plan .*)\n([^$]*?)^```", page, re.MULTILINE)
        assert sessions
        for words, shown in sessions:
            assert command.main(words.split(), {}) == 0
            assert capsys.readouterr().out == shown

    @pytest.fixture
    def rows(self):
        lines = (ROOT / "docs" / "reference" / "runners.md").read_text(encoding="utf-8").splitlines()
        return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines if line[:1] == "|"]

    def test_every_input_with_its_form_default_and_meaning(self, rows):
        for one in options.INPUTS:
            default = f"`{one.default}`" if one.default else "none"
            assert [f"`{one.name}`", one.form, default, one.meaning] in rows

    def test_the_action_says_the_same_of_policies(self):
        text = (ROOT / "ci" / "actions" / "runner-fallback" / "action.yml").read_text(encoding="utf-8")
        assert "or one of your own pools file" in text.partition("  queue-policy:\n")[2].partition("default:")[0]

    def test_every_kind(self, rows):
        kinds = [kind for kind in get_args(Kind) if kind]
        start = rows.index(["kind", "what happened", "what to do"])
        assert [row[0].strip("`") for row in rows[start + 2 : start + 2 + len(kinds)]] == kinds

    def test_every_command_and_exit_code(self, rows):
        firsts = [row[0] for row in rows]
        assert {f"`sgpu runner {name}`" for name in ("acquire", "guard", "cleanup", "plan")} <= set(firsts)
        assert {"0", "1", "4", "130"} <= set(firsts)

    def test_every_field_of_the_plan(self, rows, capsys):
        command.main([*EXTENDED, "--json"], {})
        plan = json.loads(capsys.readouterr().out)
        page = "\n".join(" | ".join(row) for row in rows)
        for part in (plan, plan["budget"], plan["candidates"][0]):
            assert {name for name in part if f"`{name}`" not in page} == set()
