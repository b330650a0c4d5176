"""``sgpu route ...``: what is printed and written, which exit code, what happens when something is wrong."""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_sgpu import cli
from pytest_sgpu.runners.route import arguments, command, default_fleet, printing, sources
from pytest_sgpu.runners.route.decision import Tools

ROOT = Path(__file__).resolve().parents[3]
TOKEN = "ghs_0123456789abcdef"
OUTPUTS = ["label-type", "use-arc", "amd-do-label-type", "decision-source"]
ROLLOUT = """\
experiments:
  lf:
    rollout_perc: 25
  arc:
    rollout_perc: 50
    default: false
  amd-do:
    default: false
---
@alice,lf
@bob,-lf,arc
@carol,amd-do
"""
HOSTILE = "x\n::error::forged\r\nlabel-type=evil\u2028%0A\x1b[31m##[error]\u0085"
WITHOUT_YAML = """
import sys
sys.modules["ruamel"] = sys.modules["ruamel.yaml"] = None
from pytest_sgpu.runners.route.command import main
raise SystemExit(main(sys.argv[1:]))
"""


class Shell:
    """Runs commands in this process, with a folder and outputs of their own."""

    def __init__(self, folder, capsys):
        self.folder, self.capsys = folder, capsys
        self.output = folder / "output"
        self.env = {"GITHUB_OUTPUT": str(self.output)}
        self.config = self.write("rollout.txt", ROLLOUT)
        self.random = 0.999

    def write(self, name, text):
        path = self.folder / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return str(path)

    def run(self, *words, **env):
        tools = Tools(random=lambda: self.random)
        code = command.main(words, self.env | env, tools)
        out, err = self.capsys.readouterr()
        assert "Traceback" not in out + err
        return code, out, err

    def prefix(self, *words, **env):
        return self.run("prefix", f"--config={self.config}", *words, **env)

    def written(self):
        """Read GITHUB_OUTPUT as GitHub does."""
        values, lines = {}, iter(self.output.read_bytes().decode().split("\n"))
        for line in lines:
            name, sign, delimiter = line.partition("<<")
            if sign and "=" not in name:
                rest = []
                while (inner := next(lines)) != delimiter:
                    rest.append(inner)
                values[name] = "\n".join(rest)
            elif line:
                values[line.partition("=")[0]] = line.partition("=")[2]
        return values


@pytest.fixture
def shell(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the checkout has a conf/ of its own
    return Shell(tmp_path, capsys)


def pairs(text):
    return dict(line.split("=", 1) for line in text.splitlines() if not line.startswith("# "))


# -- prefix ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "values"),
    [
        ([], ["", "false", "", "rollout"]),
        (["--actor=alice"], ["lf.", "false", "", "rollout"]),
        (["--author=ALICE"], ["lf.", "false", "", "rollout"]),
        (["--actor=bob", "--check-experiments=arc,lf"], ["mt-", "true", "", "rollout"]),
        (["--actor=carol", "--check-experiments= amd-do ,"], ["", "false", "amd-do-", "rollout"]),
        (["--actor=alice", "--opt-out-experiments=lf"], ["", "false", "", "rollout"]),
        (["--actor=alice", "--repo=pytorch/pytorch-canary"], ["lf.c.", "false", "", "rollout"]),
        (["--actor=alice", "--branch=refs/heads/release/2.9"], ["", "false", "", "rollout"]),
        (["--actor=alice", "--label=a", "--label=no-runner-experiments"], None),
        (["--draw=0", "--check-experiments=arc,lf"], ["lf-", "true", "", "rollout"]),
    ],
    ids=str,
)
def test_q100_every_output_is_printed_and_written(shell, words, values):
    code, out, err = shell.prefix(*words)
    values = values or ["", "false", "", "kill-switch: no-runner-experiments"]
    assert (code, err) == (0, "")
    assert out == "".join(f"{name}={text}\n" for name, text in zip(OUTPUTS, values, strict=True))
    assert shell.written() == dict(zip(OUTPUTS, values, strict=True))


def test_q100_without_github_output_they_are_printed(shell):
    code, out, _ = shell.prefix(GITHUB_OUTPUT="")
    assert (code, list(pairs(out))) == (0, OUTPUTS)
    assert not shell.output.exists()


def test_q100_names_come_from_the_fleets_file(shell):
    fleets = shell.write(
        "fleets.yaml", "version: 1\noutputs: {label: where, translates: other}\nfleets: {one: {prefix: one.}}\n"
    )
    _, out, _ = shell.run("prefix", f"--config={shell.write('r.txt', '@a,one')}", f"--fleets={fleets}")
    assert list(pairs(out)) == ["where", "other", "decision-source"]


@pytest.mark.parametrize("name", ["actor", "author", "branch", "ref-type", "repo", "workflow", "label"])
@pytest.mark.parametrize("more", [["--explain"], ["--json", "--explain"], []], ids=str)
def test_q101_hostile_texts_stay_in_their_line(shell, name, more):
    code, out, err = shell.prefix(f"--{name}={HOSTILE}", *more, GITHUB_ACTIONS="true")
    assert code == 0
    for line in (out + err).split("\n"):
        assert not line.lstrip().startswith(("::error", "label-type=evil"))
    assert "##[" not in out + err
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029]", out + err)
    assert list(shell.written()) == OUTPUTS
    assert shell.written()["label-type"] == ""


@pytest.mark.parametrize("name", ["config", "fleets", "check-experiments", "opt-out-experiments", "pr", "github-issue"])
def test_q101_hostile_texts_in_warnings_and_reasons(shell, name):
    words = ["prefix", f"--{name}={HOSTILE}", "--explain"]
    if name not in {"config", "github-issue"}:
        words.append(f"--config={shell.config}")
    code, out, err = shell.run(*words, GITHUB_ACTIONS="true")
    assert code == 0
    for line in (out + err).split("\n"):
        assert not line.lstrip().startswith(("::error", "label-type=evil"))
    assert "##[" not in out + err
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029]", out + err)
    assert list(shell.written()) == OUTPUTS


def test_q101_a_hostile_rollout_text(shell):
    shell.config = shell.write("r.txt", f"experiments:\n  {json.dumps(HOSTILE)}: {{}}\n---\n@{HOSTILE},lf\n@alice,lf\n")
    code, out, err = shell.prefix("--actor=alice", "--explain", GITHUB_ACTIONS="true")
    assert code == 0
    assert not [line for line in (out + err).split("\n") if line.lstrip().startswith("::error")]
    assert "##[" not in out + err
    assert list(shell.written()) == OUTPUTS


def test_q102_json(shell):
    code, out, _ = shell.prefix("--actor=bob", "--check-experiments=arc", "--json")
    document = json.loads(out)
    assert code == 0
    assert document == {
        "label-type": "mt-",
        "use-arc": True,
        "amd-do-label-type": "",
        "decision-source": "rollout",
        "enabled": ["arc"],
        "dropped": [],
        "warnings": [],
    }
    explained = json.loads(shell.prefix("--actor=bob", "--json", "--explain")[1])
    assert explained["request"] == {"actor": "bob"}
    assert {"experiment", "rule", "outcome", "detail", "draw", "threshold"} == set(explained["steps"][0])


def test_q103_the_explanation_leaves_the_answer_readable(shell):
    shell.random = 0.1
    code, out, _ = shell.prefix("--actor=dave", "--branch=feature", "--explain")
    assert code == 0
    assert out.startswith("label-type=lf.\nuse-arc=false\n")
    told = out.partition("decision-source=rollout\n")[2].splitlines()
    assert all(line.startswith("# ") for line in told)
    text = "\n".join(told)
    assert "# actor: dave" in text
    assert re.search(r"# lf: on, by rollout", text)
    assert re.search(r"rolled out to 25%: the draw 10 is not above it", text)


def test_q104_the_token_is_never_an_option_and_never_shown(shell):
    for word in (f"--token={TOKEN}", f"--github-token={TOKEN}"):
        code, out, err = shell.run("prefix", word)
        assert code == 4
        assert TOKEN not in out + err
    code, out, err = shell.prefix(f"--actor={TOKEN}", "--explain", GITHUB_TOKEN=TOKEN)
    assert code == 4
    assert TOKEN not in out + err
    config = shell.write("own.txt", f"experiments:\n  lf: {{rollout_perc: {TOKEN}}}\n---\n")
    code, out, err = shell.run("prefix", f"--config={config}", "--explain", GITHUB_TOKEN=TOKEN)
    assert code == 0
    assert "***" in err
    assert TOKEN not in out + err


def test_q109_a_given_draw_and_a_key_leave_nothing_to_chance(shell):
    assert pairs(shell.prefix("--draw=25")[1])["label-type"] == "lf."
    assert pairs(shell.prefix("--draw=25.1")[1])["label-type"] == ""
    for random in (0.0, 0.999):
        shell.random = random
        kept = {pairs(shell.prefix(f"--rollout-key={number}")[1])["label-type"] for number in range(40)}
        assert kept == {"", "lf."}
        assert len({shell.prefix("--rollout-key=7")[1] for _ in range(3)}) == 1


# -- failures --------------------------------------------------------------------------------------------

BAD = {
    "no file": "--config=nowhere.txt",
    "a folder": "--config=.",
    "no YAML": "--config=bad.txt",
    "not UTF-8": "--config=latin.txt",
    "fleets not there": "--fleets=nowhere.yaml",
    "fleets wrong": "--fleets=wrong.yaml",
    "no number": "--pr=abc",
    "no token": "--pr=12",
    "no issue": "--github-issue=here",
    "no token for the issue": "--github-issue=o/r#1",
}


@pytest.fixture
def broken(shell):
    shell.write("bad.txt", "experiments: [\n---\n@a,lf\n")
    shell.write("latin.txt", b"experiments: {}\n---\n@\xff\n")
    shell.write("wrong.yaml", "version: 1\nfleet: {}\n")
    return shell


def given(bad):
    return [bad] if bad.startswith(("--config", "--github-issue")) else ["--config=rollout.txt", bad]


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD.keys())
def test_q110_whatever_is_wrong_the_default_fleet_is_asked(broken, bad):
    code, out, err = broken.run("prefix", *given(bad), "--repo=o/r", "--actor=alice")
    assert code == 0
    values = pairs(out)
    assert list(values) == OUTPUTS
    assert [values[name] for name in OUTPUTS[:3]] == ["", "false", ""]
    assert re.fullmatch("fallback: .{5,}", values["decision-source"])
    assert broken.written() == values
    assert len(re.findall("^::warning title=sgpu route prefix::the default fleet is asked", err, re.MULTILINE)) == 1


@pytest.mark.parametrize(
    "env", [{"GITHUB_ACTIONS": "true", "GITHUB_OUTPUT": ""}, {}, {"GITHUB_ACTIONS": "true"}], ids=str
)
def test_q110_in_a_step_it_is_a_warning_of_the_run(broken, env):
    code, _, err = broken.run("prefix", "--config=nowhere.txt", **env)
    assert code == 0
    assert err.startswith("::warning title=sgpu route prefix::the default fleet is asked: fallback: nowhere.txt: ")
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD.keys())
def test_q110_elsewhere_it_is_a_line(broken, bad):
    code, _, err = broken.run("prefix", *given(bad), "--repo=o/r", GITHUB_OUTPUT="")
    assert code == 0
    assert len(re.findall("^warning: the default fleet is asked: fallback: ", err, re.MULTILINE)) == 1
    assert "::" not in err


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--config="], "--config is blank"),
        (["--config= "], "--config is blank"),
        (["--github-issue="], "--github-issue is blank"),
        (["--config=", "--github-issue="], "--config is blank and --github-issue is blank"),
    ],
    ids=str,
)
def test_q110_a_variable_that_is_not_set_stops_no_job(shell, words, why):
    code, out, err = shell.run("prefix", *words, "--actor=alice", "--label=x", "--draw=1")
    assert code == 0
    assert shell.written() == pairs(out) == dict(zip(OUTPUTS, ["", "false", "", f"fallback: {why}"], strict=True))
    assert f"the default fleet is asked: fallback: {why} (most likely a variable that is not set)" in err
    assert shell.run("prefix", *words, "--strict")[0] == 1
    assert pairs(shell.run("prefix", *words, f"--config={shell.config}", "--actor=alice")[1])["label-type"] == "lf."
    code, out, _ = shell.run("label", "linux.2xlarge", *words)
    assert (code, out.splitlines()[-1]) == (0, "  = linux.2xlarge")
    assert f"rollout     fallback: {why}" in out


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD.keys())
def test_q111_strict_is_exit_code_1_and_the_outputs_are_there(broken, bad):
    code, out, _ = broken.run("prefix", *given(bad), "--repo=o/r", "--strict")
    assert code == 1
    assert broken.written() == pairs(out)


def test_q110_what_nobody_thought_of_is_a_fallback_too(shell, monkeypatch):
    def fail(path):
        raise ZeroDivisionError("oh\n::error::no")

    monkeypatch.setattr("pytest_sgpu.runners.route.decision.read_rollout", fail)
    code, out, _ = shell.prefix()
    assert code == 0
    assert pairs(out)["decision-source"] == "fallback: internal error: ZeroDivisionError: oh ::error::no"


def test_q110_outputs_that_cannot_be_written_stop_no_job(shell):
    code, out, err = shell.prefix("--actor=alice", GITHUB_OUTPUT=str(shell.folder / "no" / "file"))
    assert (code, pairs(out)["label-type"]) == (0, "lf.")
    assert "GITHUB_OUTPUT" in err
    assert shell.prefix("--actor=alice", "--strict", GITHUB_OUTPUT=str(shell.folder / "no" / "file"))[0] == 1


def test_q110_names_of_outputs_of_a_fleets_file_that_is_wrong(shell):
    text = "version: 1\noutputs:\n  label: where # x\n  translates: 'other'\nkill-switch:\n  label: no\nwrong: 1\n"
    text += "separate:\n  a:\n    output: mine\ndefault-prefix: ec2.\n"
    fleets = shell.write("fleets.yaml", text)
    _, out, _ = shell.prefix(f"--fleets={fleets}")
    values = pairs(out)
    assert values.pop("decision-source").startswith("fallback: ")
    assert values == {"where": "ec2.", "other": "false", "mine": ""}


TREES = {
    "flow": "outputs: {label: prefix-out, translates: uses-new}\nseparate: {zz: {output: zz-out, prefix: z}}\n",
    "flow over lines": (
        "outputs: {label: prefix-out, # {label: no}\n  'translates': \"uses-new\" }\n"
        "separate:\n  zz: {prefix: z,output: zz-out}\n"
    ),
    "lines": "separate:\n  zz:\n    output: zz-out # no\noutputs:\n  label: 'prefix-out'\n  translates: uses-new\n",
    "quoted": (
        '"outputs": {"label": "prefix-out", "translates": "uses-new"}\n"separate":\n  {"zz": {"output": "zz-out"}}\n'
    ),
    "twice": (
        "outputs: {label: prefix-out, translates: uses-new}\nseparate:\n  zz: {output: zz-out}\n"
        "  yy: {output: prefix-out}\n  xx: {output: decision-source}\n  ww: {output: 'a b'}\n"
    ),
}


OWN_NAMES = {"prefix-out": "ec2.", "uses-new": "false", "zz-out": ""}


@pytest.mark.parametrize("mistake", ["precedense: [one]", "fleets: [", "x: !own 1", "version: 2"])
@pytest.mark.parametrize("text", TREES.values(), ids=TREES.keys())
def test_q110_a_fleets_file_with_a_mistake_keeps_its_names(shell, text, mistake):
    fleets = shell.write("fleets.yaml", f"{text}default-prefix: 'ec2.'\n{mistake}\n")
    values = pairs(shell.prefix(f"--fleets={fleets}")[1])
    assert values.pop("decision-source").startswith("fallback: ")
    assert values == OWN_NAMES


@pytest.mark.parametrize("text", TREES.values(), ids=TREES.keys())
def test_q114_without_ruamel_yaml_the_names_are_those_of_the_lines(shell, text):
    shell.write("fleets.yaml", f"{text}default-prefix: 'ec2.' # no\n")
    values = pairs(without_yaml(shell, "prefix", "--config=rollout.txt", "--fleets=fleets.yaml").stdout)
    assert values.pop("decision-source") == "fallback: sgpu route needs ruamel.yaml, which is not installed"
    assert values == OWN_NAMES


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("outputs: {label: a, translates: b}\n", ["a", "b"]),
        ("outputs: {label: a}\n", ["a", "use-arc"]),
        ("outputs: {label: a, translates: a}\n", ["a", "use-arc"]),
        ("outputs: {label: use-arc}\n", ["use-arc"]),
        ("outputs: {label: [x], translates: b}\nseparate: [x]\n", ["label-type", "b"]),
        ("outputs: [label, translates]\nseparate: {a: {output: mine}}\n", ["label-type", "use-arc", "mine"]),
        ("- outputs: {label: a, translates: b}\n", OUTPUTS[:3]),
        ("", OUTPUTS[:3]),
        ("outputs: {label: a, translates: b}\n" + "#" * 300_000, ["a", "b"]),
    ],
)
def test_q110_what_a_fleets_file_does_not_show_is_that_of_the_package(shell, text, names):
    code, out, _ = shell.prefix(f"--fleets={shell.write('fleets.yaml', text)}")
    assert (code, list(pairs(out))) == (0, [*names, "decision-source"])


FLEETS = "version: 1\noutputs: {label: where, translates: other}\nfleets: {lf: {prefix: own.}}\n"


def test_q31_the_fleets_file_of_the_working_directory_goes_before_the_built_in_one(shell):
    assert sources.fleets("") == sources.default(sources.FLEETS)
    assert "# fleets file: runner_routing.yaml of this package\n" in shell.prefix("--explain")[1]
    (shell.folder / "conf").mkdir()
    shell.write("conf/runner_routing.yaml", FLEETS)
    _, out, _ = shell.prefix("--actor=alice", "--explain")
    assert out.startswith("where=own.\nother=false\ndecision-source=rollout\n# fleets file: conf/runner_routing.yaml\n")
    assert json.loads(shell.prefix("--explain", "--json")[1])["fleets"] == "conf/runner_routing.yaml"
    named = shell.write("mine.yaml", FLEETS.replace("where", "there"))
    assert shell.prefix("--actor=alice", f"--fleets={named}")[1].startswith("there=own.\n")
    _, out, _ = shell.run("matrix", "{include: []}", "--explain")
    assert out.splitlines()[1:] == ["# fleets file: conf/runner_routing.yaml", "# mapping: arc.yaml of this package"]
    assert (
        "checked with fleets file: conf/runner_routing.yaml, mapping: arc.yaml of this package" in shell.run("lint")[2]
    )
    assert [state["state"] for state in json.loads(shell.run("label", "linux.2xlarge", "--json")[1])] == [
        "the default fleet",
        "lf",
    ]
    assert shell.run("simulate", "--config=rollout.txt", "--users=9", "--days=1")[0] == 0


def test_q110_a_fleets_file_of_the_working_directory_that_is_wrong_keeps_its_names(shell):
    (shell.folder / "conf").mkdir()
    shell.write("conf/runner_routing.yaml", FLEETS + "flets: {}\n")
    code, out, _ = shell.prefix("--explain")
    values = pairs(out)
    assert code == 0
    assert values.pop("decision-source").startswith("fallback: conf/runner_routing.yaml:4: ")
    assert values == {"where": "", "other": "false"}
    assert "# fleets file: conf/runner_routing.yaml\n" in out
    (shell.folder / "conf" / "runner_routing.yaml").unlink()
    (shell.folder / "conf" / "runner_routing.yaml").mkdir()
    assert pairs(shell.prefix()[1])["decision-source"] == "fallback: conf/runner_routing.yaml: not a file"


def test_q110_a_folder_that_nobody_may_look_into_is_a_fallback(shell, monkeypatch):
    def refuse(path, **_):
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "exists", refuse)
        patch.setattr(Path, "is_file", refuse)
        assert sources.fleets("") == Path("conf") / "runner_routing.yaml"
    code, out, _ = shell.prefix("--fleets=rollout.txt/x")
    assert (code, list(pairs(out))) == (0, OUTPUTS)


def test_q110_lines_show_the_same_outputs_as_the_file(shell, monkeypatch):
    from pytest_sgpu.runners.route.decision import read_fleets

    expected = default_fleet.outputs_of(read_fleets(""))
    assert default_fleet.outputs_without("") == expected

    def fail(*_, **__):
        raise ZeroDivisionError

    monkeypatch.setattr("pytest_sgpu.runners.lint.yaml_text.parse", fail)
    assert default_fleet.outputs_without("") == expected


@pytest.mark.parametrize(
    "words",
    [
        ["prefix"],
        ["prefix", "--config=a", "--github-issue=o/r#1"],
        ["prefix", "--config=a", "--draw=x"],
        ["prefix", "--config=a", "--draw=100.1"],
        ["prefix", "--config=a", "--draw=nan"],
        ["prefix", "--config=a", "--draw=1", "--rollout-key=b"],
        ["prefix", "--config=a", "--pr=1", "--label=b"],
        ["prefix", "--config=a", "--unknown"],
        ["prefix", "--conf=a"],
        ["prefix", "--config"],
        ["matrix"],
        ["label"],
        ["label", "x", "--actor=a"],
        ["label", ""],
        ["label", "linux.2xlarge", " ", "--config=rollout.txt"],
        ["simulate"],
        ["simulate", "--config=a", "--users=0"],
        ["simulate", "--config=a", "--users=-1"],
        ["simulate", "--config=a", "--days=x"],
        ["nothing"],
        [],
    ],
    ids=str,
)
def test_q112_wrong_usage_is_exit_code_4_and_writes_nothing(shell, words):
    code, out, err = shell.run(*words)
    assert (code, out) == (4, "")
    assert err.startswith("sgpu route: error: ")
    assert not shell.output.exists()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["prefix", "--config=a", "--unknown=b"], "unknown: --unknown\n  hint: sgpu route prefix --help\n"),
        (["matrix", "{}", "b"], "an argument that is no option\n  hint: sgpu route matrix --help\n"),
        (["--unknown", "lint"], "unknown: --unknown\n  hint: sgpu route --help\n"),
        (["label"], "the following arguments are required: LABEL\n  hint: sgpu route label --help\n"),
        (
            ["label", ""],
            "LABEL: found a blank text, expected a label\n  hint: most likely a variable that is not set\n",
        ),
        (
            ["prefix"],
            (
                "no rollout text: neither --config nor --github-issue is given\n"
                "  hint: --config FILE, or --github-issue OWNER/REPO#N\n"
            ),
        ),
        *(
            (
                words,
                (
                    "nofile: no such file\n"
                    "  hint: expected a file that can be read; a relative name is looked for in the working directory\n"
                ),
            )
            for words in (["simulate", "--config=nofile"], ["lint", "--arc=nofile"], ["matrix", "@nofile"])
        ),
    ],
    ids=str,
)
def test_q112_wrong_usage_is_one_error_with_a_hint(shell, words, told):
    assert shell.run(*words, GITHUB_OUTPUT="") == (4, "", f"sgpu route: error: {told}")


# -- matrix ----------------------------------------------------------------------------------------------

MATRIX = '{include: [{config: on, shard: 1, runner: linux.2xlarge}, {config: "é", runner: linux.rocm.gpu.2}]}'
TRANSLATED = (
    '{"include": [{"config": "on", "shard": 1, "runner": "mt-l-x86iavx512-8-64"}, '
    '{"config": "é", "runner": "linux.rocm.gpu.2"}]}'
)


def test_q113_a_matrix_is_printed_and_written(shell):
    code, out, err = shell.run("matrix", "--prefix=mt-", MATRIX)
    assert (code, out, err) == (0, f"test-matrix={TRANSLATED}\n", "")
    assert shell.written() == {"test-matrix": TRANSLATED}
    assert shell.run("matrix", "--prefix=mt-", "--json", MATRIX)[1] == TRANSLATED + "\n"


def test_q113_from_a_file_and_from_standard_input(shell, monkeypatch):
    shell.write("m.yml", MATRIX)
    assert shell.run("matrix", "--prefix=mt-", "@m.yml")[1] == f"test-matrix={TRANSLATED}\n"
    with (shell.folder / "m.yml").open(encoding="utf-8") as stream:
        monkeypatch.setattr(sys, "stdin", stream)
        assert shell.run("matrix", "--prefix=mt-", "-")[1] == f"test-matrix={TRANSLATED}\n"


@pytest.mark.parametrize(
    "text",
    [
        "{include: [{runner: linux.2xlage}, {runner: other}]}",
        '{include:[{config:"x",runner:"linux.aws.h100"}]}',
        "[",
        "[1]",
    ],
)
def test_q113_an_error_leaves_nothing(shell, text):
    code, out, err = shell.run("matrix", "--prefix=mt-", text, GITHUB_ACTIONS="true")
    assert (code, out) == (1, "")
    assert err
    assert "::error title=sgpu route matrix::" in err
    assert not shell.output.exists()


def test_q113_all_unknown_labels_in_one_error(shell):
    labels = ("linux.2xlage", "linux.2xlarge", "no.such", "linux.2xlage")
    text = "include:\n" + "".join(f"- {{runner: {label}}}\n" for label in labels)
    code, _, err = shell.run("matrix", "--prefix=mt-", text)
    assert code == 1
    hint = "add to runner_mapping in arc.yaml; what is not to be translated maps to itself"
    named = """'linux.2xlage' (lines 2, 5; did you mean "linux.2xlarge"?)""", "'no.such' (line 4)"
    assert err == (
        f"the argument:2:1: error: no translation for 2 labels:\n    {named[0]}\n    {named[1]}\n  hint: {hint}\n"
        f"::error title=sgpu route matrix::no translation for 2 labels: {named[0]}, {named[1]} ({hint})\n"
    )


@pytest.mark.parametrize("count", [1, 2, 12, 20, 200, 1000])
@pytest.mark.parametrize("more", [[], ["--json"]], ids=str)
def test_q113_every_unknown_label_is_named(shell, count, more):
    labels = [f"linux.g5.4xlarge.nvidia.gpus.of.some.length.{number}" for number in range(count)]
    text = json.dumps({"include": [{"runner": label} for label in labels for _ in range(7)]}, indent=0)
    code, out, err = shell.run("matrix", "--prefix=mt-", text, *more)
    assert (code, out) == (1, "")
    told, _, noted = err.partition("::error title=sgpu route matrix::")
    assert all(f"'{label}' (line" in told for label in labels)
    assert told.count("linux.g5.4xlarge.nvidia.gpus.") == count
    assert "(lines 3, 6, 9, 12, 15, 18, 21" in told, "all of its lines"
    assert told.count('did you mean "linux.g5.4xlarge.nvidia.gpu"?') == min(count, 256)
    assert noted.count("\n") == 1
    assert len(noted) < 4096
    assert all(f"'{label}'" in noted for label in labels[:20])


def test_q113_outputs_that_cannot_be_written_are_an_error(shell):
    code, out, err = shell.run("matrix", "--prefix=mt-", MATRIX, GITHUB_OUTPUT=str(shell.folder / "no" / "x"))
    assert (code, out) == (4, "")
    assert "GITHUB_OUTPUT" in err


def test_q113_left_out_entries_are_told(shell):
    _, out, err = shell.run("matrix", "--prefix=mt-", "{include: [{config: onnx, runner: x}]}")
    assert out == 'test-matrix={"include": []}\n'
    assert "left out: config onnx: " in err
    _, out, _ = shell.run("matrix", "--prefix=mt-", MATRIX, "--explain")
    assert re.search("^# line 1: linux.2xlarge -> mt-l-x86iavx512-8-64 ", out, re.MULTILINE)


@pytest.mark.parametrize("text", ["", "{}", "[]"])
def test_q113_an_empty_matrix_stays_empty(shell, text):
    assert shell.run("matrix", "--prefix=mt-", text)[:2] == (0, f"test-matrix={text}\n")


@pytest.mark.parametrize("text", ['{"a": 1}', '{"include": [], "a": 1}', "{a: 1}"])
def test_q113_a_matrix_without_entries_is_passed_on_and_told(shell, text):
    code, out, err = shell.run("matrix", "--prefix=mt-", text)
    assert code == 0
    assert json.loads(out.removeprefix("test-matrix=")) == json.loads(text.replace("{a:", '{"a":'))
    assert shell.written() == {"test-matrix": out.removeprefix("test-matrix=").rstrip("\n")}
    assert "the argument:1:1: warning: no entries in include: nothing is translated" in err


@pytest.mark.parametrize("text", ["@", " @ "])
def test_q112_a_name_behind_the_sign_is_missed(shell, text):
    code, out, err = shell.run("matrix", text)
    assert (code, out) == (4, "")
    assert err.startswith(
        "sgpu route: error: MATRIX: a file name is missing behind the @\n  hint: such as @matrix.yml\n"
    )


def test_q101_a_hostile_matrix_keeps_its_values(shell):
    hostile = json.dumps({"include": [{"config": HOSTILE, "runner": "linux.2xlarge"}]})
    code, out, _ = shell.run("matrix", "--prefix=mt-", hostile)
    assert code == 0
    assert len(out.splitlines()) == 1
    assert "##[" not in out
    text = shell.written()["test-matrix"]
    assert out == f"test-matrix={text}\n"
    assert json.loads(text)["include"][0]["config"] == HOSTILE


@pytest.mark.parametrize("text", ['{"a": "\u2028\u0085\u202e##[x"}', '"é\U0001f600\\n"', '"\\ud800\\u0000"'])
def test_q101_escaping_changes_no_value(text):
    armoured = printing.armoured(text)
    assert json.loads(armoured) == json.loads(text)
    assert len(armoured.splitlines()) == 1
    assert "##[" not in armoured


def test_a_mapping_of_the_repository_goes_before_the_built_in_one(shell):
    assert sources.mapping("") == sources.default(sources.MAPPING)
    (shell.folder / ".github").mkdir()
    shell.write(".github/arc.yaml", "runner_mapping:\n  mine: l-x86i-1-2\n")
    assert shell.run("matrix", "--prefix=mt-", "{include: [{runner: mine}]}")[0] == 0
    assert shell.run("lint")[2].endswith("runner_routing.yaml of this package, mapping: .github/arc.yaml\n")
    assert "mapping: .github/arc.yaml" in shell.run("matrix", "--prefix=mt-", "{include: []}", "--explain")[1]


# -- label, simulate -------------------------------------------------------------------------------------


def test_label_in_every_state(shell):
    code, out, _ = shell.run("label", "linux.2xlarge", "linux.aws.h100")
    assert code == 0
    for label in ("linux.2xlarge", "mt-l-x86iavx512-8-64", "lf.linux.2xlarge", "lf-l-x86iavx512-8-64"):
        assert re.search(rf" {re.escape(label)}$|^{re.escape(label)}$", out, re.MULTILINE)
    states = json.loads(shell.run("label", "linux.2xlarge", "--json")[1])
    assert [state["prefix"] for state in states] == ["", "mt-", "lf.", "lf-"]
    canary = json.loads(shell.run("label", "linux.2xlarge", "--json", "--repo=pytorch/pytorch-canary")[1])
    assert "c-mt-" in [state["prefix"] for state in canary]


def test_label_for_what_is_asked(shell):
    words = ["label", "linux.2xlarge", "--config=rollout.txt", "--actor=bob", "--check-experiments=arc"]
    code, out, _ = shell.run(*words)
    assert code == 0
    assert [int(number) for number in re.findall(r"^  (\d) ", out, re.MULTILINE)] == [1, 2, 3, 4, 5, 6]
    assert "mt-l-x86iavx512-8-64" in out
    (traced,) = json.loads(shell.run(*words, "--json")[1])
    assert traced["final"]["label"] == "mt-l-x86iavx512-8-64"
    assert not shell.output.exists(), "it only tells"


def test_label_when_the_rollout_cannot_be_read(shell):
    code, out, err = shell.run("label", "linux.2xlarge", "--config=nowhere.txt")
    assert code == 0
    assert "fallback" in err
    assert out.splitlines()[-1].endswith("linux.2xlarge")
    assert shell.run("label", "linux.2xlarge", "--config=nowhere.txt", "--strict")[0] == 1


def test_simulate(shell):
    words = ["simulate", "--config=rollout.txt", "--users=300", "--days=2", "--seed=3"]
    code, out, _ = shell.run(*words)
    assert code == 0
    assert "as configured" in out
    assert shell.run(*words)[1] == out
    report = json.loads(shell.run(*words, "--json")[1])
    assert (report["users"], report["days"], report["is_ok"]) == (300, 2, True)


@pytest.mark.parametrize(("text", "code"), [("experiments: [\n---\n", 1), (None, 4)])
def test_simulate_without_a_rollout(shell, text, code):
    if text:
        shell.write("other.txt", text)
    assert shell.run("simulate", "--config=other.txt")[0] == code


# -- the extra, the help, the command line ---------------------------------------------------------------


def without_yaml(shell, *words):
    made = subprocess.run(
        [sys.executable, "-c", WITHOUT_YAML, *words],
        cwd=shell.folder,
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(ROOT), "GITHUB_OUTPUT": str(shell.output)},
        timeout=60,
        check=False,
    )
    assert "Traceback" not in made.stderr
    return made


def test_q114_without_ruamel_yaml_prefix_falls_back_with_all_outputs(shell):
    made = without_yaml(shell, "prefix", "--config=rollout.txt", "--actor=alice")
    values = pairs(made.stdout)
    assert (made.returncode, list(values)) == (0, OUTPUTS)
    assert values["decision-source"] == "fallback: sgpu route needs ruamel.yaml, which is not installed"
    assert shell.written() == values
    assert "pytest-sgpu[runners]" in made.stderr


@pytest.mark.parametrize(
    "words",
    [
        ["matrix", MATRIX],
        ["matrix", MATRIX, "--fleets=fleets.yaml"],
        ["label", "x"],
        ["label", "x", "--config=rollout.txt"],
        ["lint"],
        ["lint", "--config=rollout.txt"],
        ["simulate", "--config=rollout.txt"],
    ],
    ids=str,
)
def test_q114_without_ruamel_yaml_the_others_say_so_in_a_line(shell, words):
    made = without_yaml(shell, *words)
    assert (made.returncode, made.stdout) == (4, "")
    first, hint, noted = made.stderr.splitlines()
    assert first == "sgpu route: error: sgpu route needs ruamel.yaml, which is not installed"
    assert hint == '  hint: pip install "pytest-sgpu[runners]"'
    assert noted.startswith("::error title=sgpu route::")


@pytest.mark.parametrize("name", arguments.COMMANDS)
def test_the_help_stands_alone(name, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert command.main([name, "--help"], {}) == 0
    text = capsys.readouterr().out
    assert "exit codes: 0 " in text
    assert "example" in text
    assert re.search(r"^needed: \S", text, re.MULTILINE)
    assert max(map(len, text.splitlines())) <= 80
    assert re.findall(r"[a-z]-$", text, re.MULTILINE) == [], "a name is broken at a hyphen"
    assert [one.name for one in arguments.of(name) if f"--{one.name}" not in text] == []


@pytest.mark.parametrize("name", ["prefix", "label"])
def test_the_help_says_what_excludes_each_other_and_what_is_read(name, capsys):
    assert command.main([name, "--help"], {}) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "--config and --github-issue, --draw and --rollout-key, --pr and --label" in text
    assert "environment: GITHUB_TOKEN for --github-issue and --pr; GITHUB_REPOSITORY for --pr without --repo" in text


def test_the_help_says_of_each_command_what_an_option_does_there():
    texts = {name: {one.name: one.meaning for one in arguments.of(name)} for name in arguments.COMMANDS}
    assert "outputs" not in texts["label"]["strict"]
    assert "outputs are written" in texts["prefix"]["strict"]
    assert "--pr" not in texts["simulate"]["repo"]
    assert "--pr GITHUB_REPOSITORY" in texts["prefix"]["repo"]


def test_the_list_of_commands(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert command.main(["--help"], {}) == 0
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 80
    assert tuple(re.findall(r"^    (\w+)", text, re.MULTILINE)) == arguments.COMMANDS


def test_it_is_a_command_of_sgpu(capsys):
    assert cli.main(["route", "label"]) == 4
    assert "LABEL" in capsys.readouterr().err
    with pytest.raises(SystemExit) as end:
        cli.main(["--help"])
    assert end.value.code == 0
    assert re.search(r"^    route  ", capsys.readouterr().out, re.MULTILINE)


def test_every_option_is_described_once():
    for name in arguments.COMMANDS:
        names = [one.name for one in arguments.of(name)]
        assert len(set(names)) == len(names)
    assert len({(one.name, one.meaning) for one in arguments.OPTIONS}) == len(arguments.OPTIONS)
    for name in arguments.COMMANDS:
        parser = argparse.ArgumentParser()
        arguments.add(parser, name)


class TestPage:
    """docs/reference/routing.md has what the commands have."""

    @pytest.fixture
    def page(self):
        return (ROOT / "docs" / "reference" / "routing.md").read_text(encoding="utf-8")

    def test_every_option(self, page):
        for one in arguments.OPTIONS:
            form = f" {one.form}" if one.form else ""
            takers = ", ".join(one.commands) if set(one.commands) != set(arguments.COMMANDS) else "all"
            assert f"| `--{one.name}{form}` | {takers} | {one.meaning}" in page

    def test_every_key_of_the_fleets_file(self, page):
        text = sources.default(sources.FLEETS).read_text(encoding="utf-8")
        keys = set(re.findall(r"^([a-z][a-z-]*):", text, re.MULTILINE))
        assert {key for key in keys if f"`{key}`" not in page} == set()


ARC_ON = ["--config=rollout.txt", "--actor=bob", "--check-experiments=arc"]


@pytest.mark.parametrize("words", [[], ["--json"], ARC_ON, [*ARC_ON, "--json"]], ids=str)
def test_q115_a_label_that_nobody_knows_fails_with_a_suggestion(shell, words):
    code, _, err = shell.run("label", "linux.2xlage", "linux.2xlarge", *words)
    assert code == 1
    assert err.startswith("sgpu route: error: no translation for a label: 'linux.2xlage' is not in runner_mapping")
    assert 'hint: did you mean "linux.2xlarge"?' in err
    assert shell.run("label", "linux.2xlarge", "lf.linux.2xlarge", "mt-l-x86iavx512-8-64", *words)[0] == 0


@pytest.mark.parametrize("actor", ["alice", "bob", "nobody"])
def test_q94_an_unknown_label_fails_only_where_it_is_translated(shell, actor):
    words = ["--config=rollout.txt", f"--actor={actor}", "--check-experiments=arc,lf", "--draw=99"]
    code, out, err = shell.run("label", "linux.2xlage", *words)
    note = (
        "  ! where labels are translated no runner would be there for it: 'linux.2xlage'\n"
        "    is not in runner_mapping of arc.yaml; did you mean "
    )
    if actor == "bob":
        assert code == 1
        assert "where labels are translated" not in out
        assert "did you mean" in err
    else:
        assert (code, err) == (0, "")
        assert f"  = {'lf.' if actor == 'alice' else ''}linux.2xlage\n{note}" in out
    (traced,) = json.loads(shell.run("label", "linux.2xlage", *words, "--json")[1])
    assert traced["final"]["is_served"] == (actor != "bob")


@pytest.mark.parametrize("more", [[], ["--json"]], ids=str)
def test_q94_a_label_that_the_decided_fleet_lacks_fails(shell, more):
    words = ["label", "linux.aws.h100", "--config=rollout.txt", *more]
    code, out, err = shell.run(*words, "--actor=alice")
    assert code == 1
    assert "lf.linux.aws.h100" in out
    assert err.startswith(
        "sgpu route: error: no runner can serve 'lf.linux.aws.h100', which 'linux.aws.h100' becomes there\n"
        "  hint: without a rollout text every state is shown\n::error title=sgpu route label::"
    )
    assert shell.run(*words, "--actor=bob", "--check-experiments=arc")[0] == 0
    assert shell.run(*words)[0] == 0
    assert shell.run("label", "linux.aws.h100", *more)[0] == 0, (
        "in the table it is told, and another state may be meant"
    )


def test_q115_what_is_far_is_not_suggested(shell):
    for words in ([], ARC_ON, ["--config=rollout.txt"]):
        code, out, err = shell.run("label", "linux.nosuch", *words)
        assert code == (0 if words == ["--config=rollout.txt"] else 1)
        assert "linux.nosuch" in out
        assert "did you mean" not in out + err


def test_q101_the_heading_of_a_label_is_no_command(shell):
    for label in ("::error::pwn", "##[error]pwn", " ::error::pwn"):
        for words in ([], ARC_ON, ["--config=rollout.txt"]):
            code, out, err = shell.run("label", label, *words, GITHUB_OUTPUT="")
            assert code == (0 if words == ["--config=rollout.txt"] else 1)
            assert not [line for line in (out + err).split("\n") if line.lstrip().startswith(("::", "##"))]
            assert "##[" not in out + err


def test_q97_too_many_runs_are_refused_at_once(shell):
    code, _, err = shell.run("simulate", "--config=rollout.txt", "--users=1000000", "--days=3")
    assert code == 4
    assert "found 3,000,000 runs, expected at most 2,000,000" in err


FULL = Path("/dev/full")
GONE = "output: cannot be written: No space left on device\n"
SAYING = [
    ["prefix", "--config=rollout.txt"],
    ["matrix", "--prefix=mt-", MATRIX],
    ["label", "linux.2xlarge"],
    ["label", "linux.2xlarge", *ARC_ON],
    ["lint", "--config=rollout.txt"],
    ["simulate", "--config=rollout.txt", "--users=20", "--days=1"],
]


def sent(shell, words, stdout, **env):
    """Run a command as a process with this file as its output; give its exit code and what it says beside that."""
    code = "import sys; from pytest_sgpu.runners.route.command import main; raise SystemExit(main(sys.argv[1:]))"
    with os.fdopen(stdout, "w") if isinstance(stdout, int) else stdout.open("w") as stream:
        made = subprocess.run(
            [sys.executable, "-c", code, *words],
            cwd=shell.folder,
            stdout=stream,
            stderr=subprocess.PIPE,
            text=True,
            env={"PYTHONPATH": str(ROOT), **env},
            timeout=60,
            check=False,
        )
    assert "Traceback" not in made.stderr
    assert "Exception" not in made.stderr
    return made.returncode, made.stderr


@pytest.mark.skipif(not FULL.exists(), reason="no device that is full")
@pytest.mark.parametrize("more", [[], ["--json"]], ids=str)
@pytest.mark.parametrize("words", SAYING, ids=str)
def test_q100_an_answer_that_is_lost_is_exit_code_1(shell, words, more):
    code, err = sent(shell, [*words, *more], FULL)
    assert code == 1
    assert err.endswith(GONE)
    assert err.count("cannot be written") == 1


@pytest.mark.skipif(not FULL.exists(), reason="no device that is full")
@pytest.mark.parametrize("more", [[], ["--json"], ["--strict"]], ids=str)
def test_q100_a_prefix_that_is_in_the_file_of_the_step_stops_no_job(shell, more):
    words = ["prefix", "--config=rollout.txt", "--actor=alice", *more]
    env = {"GITHUB_OUTPUT": str(shell.output)}
    assert sent(shell, words, FULL, **env) == (0, GONE)
    assert shell.written()["label-type"] == "lf."
    nowhere = {"GITHUB_OUTPUT": str(shell.folder / "no" / "file")}
    code, err = sent(shell, words, FULL, **nowhere)
    assert code == 1
    assert "GITHUB_OUTPUT" in err
    assert err.endswith(GONE)
    assert sent(shell, ["matrix", MATRIX], FULL, **env)[0] == 1


@pytest.mark.parametrize("words", SAYING, ids=str)
def test_q100_a_closed_output_is_a_lost_answer(shell, words, monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)
    code, _, err = shell.run(*words, GITHUB_OUTPUT="")
    assert code == 1
    assert err.endswith("output: cannot be written: it is closed\n")


@pytest.mark.parametrize("words", SAYING, ids=str)
def test_q100_a_reader_that_has_left_wants_no_answer(shell, words):
    read, write = os.pipe()
    os.close(read)
    code, err = sent(shell, words, write)
    assert code == 0
    assert "cannot be written" not in err


@pytest.mark.skipif(not FULL.exists(), reason="no device that is full")
@pytest.mark.parametrize("words", [["--help"], ["lint", "--help"]], ids=str)
def test_a_help_that_is_lost_is_exit_code_1(shell, words):
    assert sent(shell, words, FULL) == (1, GONE)


@pytest.mark.skipif(not FULL.exists(), reason="no device that is full")
def test_a_help_that_is_lost_at_once_is_exit_code_1(shell):
    error = "sgpu route: error: [Errno 28] No space left on device\n"
    assert sent(shell, ["lint", "--help"], FULL, PYTHONUNBUFFERED="1") == (1, error)


@pytest.mark.parametrize("env", [{}, {"PYTHONUNBUFFERED": "1"}], ids=str)
def test_a_reader_that_has_left_wants_no_help(shell, env):
    read, write = os.pipe()
    os.close(read)
    assert sent(shell, ["lint", "--help"], write, **env) == (0, "")


def test_a_file_that_is_too_long_costs_only_itself(shell, monkeypatch):
    monkeypatch.setattr(sources.read, "__defaults__", (20_000,))
    flows = shell.folder / "flows"
    flows.mkdir()
    shell.write("flows/a.yml", "# " + "x" * 20_000)
    shell.write("flows/b.yml", "on: push\njobs: {b: {runs-on: []}}\n")
    code, out, _ = shell.run("lint", "--config=rollout.txt", "--workflows=flows")
    assert code == 1
    assert "flows/a.yml:1:1: error: too long, expected at most 20000 bytes" in out
    assert "flows/b.yml:2:21: error: runs-on: found an empty list" in out
    shell.write("arc.yaml", "# " + "x" * 20_000)
    code, out, _ = shell.run("lint", "--arc=arc.yaml")
    assert (code, "arc.yaml:1:1: error: too long" in out) == (1, True)
    code, out, err = shell.run("label", "--arc=arc.yaml", "linux.2xlarge")
    assert (code, out) == (4, "")
    assert "arc.yaml: too long, expected at most 20000 bytes" in err


def test_a_rollout_text_that_is_too_long_is_a_finding(shell, monkeypatch):
    monkeypatch.setattr(sources, "LONGEST_CONFIG", 10)
    code, out, _ = shell.run("lint", "--config=rollout.txt")
    assert code == 1
    assert "rollout.txt:1:1: error: too long, expected at most 10 bytes" in out
