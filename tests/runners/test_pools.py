"""The pools file: what is shipped, how an organisation states its own, and that every mistake has its place."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import pytest

from pytest_sgpu.errors import ConfError, OptionError
from pytest_sgpu.runners import pools_file
from pytest_sgpu.runners.grammar.labels import Label
from pytest_sgpu.runners.pools import parse_pools

ROOT = Path(__file__).parents[2]
SHIPPED = ROOT / "conf" / "runner_pools.toml"
SCHEMA = ROOT / "docs" / "reference" / "runner-pools.schema.json"

OWN = """
version = 1

[[grammar]]
family = "gpu"
pattern = 'box-(?P<model>[a-z0-9]+)(-x(?P<gpus>[0-9]+))?'
os = "linux"
arch = "x64"
gpus = 1
groups = ["boxes", "more-boxes"]

[[grammar]]
family = "cpu"
pattern = '(?P<os>linux|mac)-(?P<arch>x64|arm)'

[pools.one]
group = "boxes"
labels = "box-mi300"

[pools.two]
group = "more-boxes"
labels = "box-mi250"
confirmed = false
description = "the old ones"

[pools.wide]
group = "boxes"
labels = "box-mi300-x2"

[pools.small]
group = "any"
labels = "linux-x64"

[pools.apple]
group = "any"
labels = "mac-x64"

[profiles.boxes]
family = "gpu"
arch = "x64"
gpus = 1
order = ["one", "two"]
rewait = "one"
aliases = ["gpu"]

[profiles.cpu]
family = "cpu"
arch = "x64"
order = ["small"]

[policies.standard]
cpu-minutes = 1
gpu-minutes = 2
rewait-minutes = 3

[policies.patient]
cpu-minutes = 60
gpu-minutes = 60
"""


def toml(text: str) -> object:
    return importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli").loads(text)


def refused(old: str, new: str) -> ConfError:
    assert OWN.count(old) == 1, old
    with pytest.raises(ConfError) as caught:
        parse_pools(OWN.replace(old, new), "own.toml")
    return caught.value


def test_an_organisation_states_its_own_labels():
    own = parse_pools(OWN, "own.toml")
    assert own.runner_types == ("boxes", "cpu", "gpu")
    assert own.classify("box-mi300") == Label(
        "box-mi300", "gpu", "linux", "x64", 1, "mi300", groups=("boxes", "more-boxes")
    )
    wide = own.classify("box-mi300-x8")
    assert wide is not None
    assert wide.gpus == 8
    assert own.classify("box-mi300-x0") is None
    assert own.classify("box-mi300-x9999999") is None
    assert own.classify("linux-amd64-cpu16") is None
    asked = own.candidates("gpu", "", None)
    assert [(one.pool, one.queue_seconds, one.rewait) for one in asked] == [
        ("one", 120, False),
        ("two", 120, False),
        ("one", 180, True),
    ]
    assert [one.queue_seconds for one in own.candidates("boxes", "patient", 90.0)] == [90, 90]
    (explicit,) = own.explicit('[{"group": "boxes", "labels": "box-mi100"}]', "gpu", "patient", None)
    assert (explicit.queue_seconds, explicit.pool) == (3600, "")
    assert not own.pools["two"].confirmed
    assert own.pools["two"].description == "the old ones"


def test_the_shipped_file_has_what_its_profiles_name_and_nothing_more():
    read = pools_file.load("")
    used = {pool.name for profile in read.profiles.values() for pool in profile.order}
    assert used == set(read.pools)
    assert read.source.endswith("runner_pools.toml")
    assert set(read.policies) == {"standard", "extended"}


def test_every_guess_in_the_shipped_file_is_named_in_the_docs():
    guesses = {pool.labels for pool in pools_file.load("").pools.values() if not pool.confirmed}
    page = (ROOT / "docs" / "reference" / "runner-pools.md").read_text(encoding="utf-8")
    section = page.split("## What is not confirmed")[1].split("\n## ")[0]
    assert {line.split("`")[1] for line in section.splitlines() if line.startswith("| `")} == guesses


def test_what_the_docs_show_is_so():
    page = (ROOT / "docs" / "reference" / "runner-pools.md").read_text(encoding="utf-8")
    own = parse_pools(page.split("```toml\n")[1].split("```")[0], "page")
    assert [one.labels for one in own.candidates("gpu", "extended", None)] == ["box-mi300", "box-mi250", "box-mi300"]
    wide = own.classify("box-mi300-x8")
    assert wide is not None
    assert (wide.gpus, wide.groups) == (8, ("boxes",))
    shown = page.split("conf/pools.toml: ")[1].split("\n\n")[0].replace("    hint", "hint")
    with pytest.raises(ConfError) as caught:
        parse_pools(SHIPPED.read_text(encoding="utf-8").replace('"amd64-h100", ', '"amd64-h10", '), "conf/pools.toml")
    assert " ".join(f"{caught.value}".split()) == "conf/pools.toml: " + " ".join(shown.split())


# What is broken, how, and what the error says. The third column tells whether a schema can see it too.
BROKEN = [
    ("version = 1", "", "version: missing, expected 1", True),
    ("version = 1", "version = 2", "version: found the number 2, expected 1", True),
    ("version = 1", 'version = "1"', 'version: found "1", expected 1\n  hint: write version = 1', True),
    ("version = 1", "version = 0", "version: found the number 0, expected 1\n  hint: write version = 1", True),
    ("version = 1", "version = true", "version: found true", True),
    ("version = 1", "version = 1\nverison = 1", 'verison: unknown key\n  hint: did you mean "version"?', True),
    ("[policies.standard]", "[policies.usual]", "policies: no [policies.standard]", True),
    ("rewait-minutes = 3", "rewait-minutes = 61", "policies.standard.rewait-minutes: found the number 61", True),
    ("rewait-minutes = 3", "rewait_minutes = 3", 'did you mean "rewait-minutes"?', True),
    ("gpu-minutes = 2", "gpu-minutes = 2.5", "policies.standard.gpu-minutes: found the number 2.5", True),
    ("gpu-minutes = 2", "", "policies.standard.gpu-minutes: missing", True),
    ('order = ["one", "two"]', 'order = ["one", "tow"]', 'profiles.boxes.order[2]: no pool "tow"', False),
    ('order = ["one", "two"]', "order = []", "profiles.boxes.order: found an empty list", True),
    ('order = ["one", "two"]', 'order = "one"', 'profiles.boxes.order: found "one"', True),
    ('order = ["one", "two"]', 'order = ["one", 2]', "profiles.boxes.order[2]: found the number 2", True),
    ('order = ["one", "two"]', 'order = ["one", "one"]', "is there twice", True),
    ('order = ["one", "two"]', 'order = ["one", "wide"]', "expected 1 GPU", False),
    ('order = ["one", "two"]', 'order = ["one", "small"]', "expected a GPU label", False),
    ('order = ["small"]', 'order = ["small", "apple"]', '"apple" is mac, expected linux as before it', False),
    ('rewait = "one"', 'rewait = "wide"', "profiles.boxes.rewait", False),
    ('rewait = "one"', "rewait = true", "profiles.boxes.rewait: found true", True),
    ('aliases = ["gpu"]', 'aliases = ["cpu"]', 'profiles.boxes.aliases: "cpu" names two profiles', False),
    ('arch = "x64"\ngpus = 1\norder', 'arch = "arm"\ngpus = 1\norder', "expected the architecture arm", False),
    ("gpus = 1\norder", "order", "profiles.boxes.gpus: missing", True),
    ("gpus = 1\norder", "gpus = 0\norder", "profiles.boxes.gpus: found the number 0", True),
    ('arch = "x64"\norder', 'arch = "x64"\ngpus = 1\norder', "profiles.cpu.gpus: found the number 1", True),
    ('family = "cpu"\narch', 'family = "tpu"\narch', 'profiles.cpu.family: found "tpu"', True),
    ('labels = "box-mi250"', 'labels = "bax-mi250"', "pools.two.labels", False),
    ('labels = "box-mi250"', 'labels = ["box-mi250"]', "pools.two.labels: found a list of 1", True),
    ('labels = "box-mi250"', 'label = "box-mi250"', 'did you mean "labels"?', True),
    ('labels = "box-mi250"', 'labels = " box-mi250"', "expected no blanks around it", True),
    ('labels = "box-mi250"', 'labels = "box-\\u0007"', "without control characters", True),
    ('group = "more-boxes"', 'group = "any"', "expected boxes or more-boxes", False),
    ('group = "more-boxes"', f'group = "{"x" * 257}"', "257 characters, expected at most 256", True),
    ('group = "more-boxes"', 'group = " "', "pools.two.group: found a blank text", True),
    ("confirmed = false", 'confirmed = "no"', 'pools.two.confirmed: found "no"', True),
    ("[pools.two]", '[pools."a b"]\ngroup = 1\n[pools.two]', 'pools: "a b" is no name', True),
    ("[pools.two]", '[pools."::error::x"]\ngroup = 1\n[pools.two]', 'pools: "::error::x" is no name', True),
    ("[pools.one]", "[pools]\nodd = 1\n[pools.one]", "pools.odd: found the number 1", True),
    ('os = "linux"', "", "grammar[1].pattern: it does not say os", True),
    ('os = "linux"', "os = 1", "grammar[1].os: found the number 1", True),
    ("(?P<os>linux|mac)", "(?P<system>linux|mac)", 'grammar[2].pattern: unknown group "system"', True),
    ("(?P<os>linux|mac)", "(?P<os>linux|mac", "grammar[2].pattern: no regular expression", False),
    ("(?P<os>linux|mac)", "(?P<os>linux|mac)(?P<gpus>1)", "gpus in a CPU label", True),
    ("(?P<os>linux|mac)", "(?P<os>linux|mac)a{99999999999999999999}", "no regular expression", False),
    ("(?P<os>linux|mac)", "(?P<os>linux|mac)" + "x" * 1000, "characters, expected at most 1000", True),
    ('family = "cpu"\npattern', "pattern", "grammar[2].family: missing", True),
    ('groups = ["boxes", "more-boxes"]', "groups = []", "grammar[1].groups: found an empty list", True),
]


@pytest.mark.parametrize(("old", "new", "message", "by_schema"), BROKEN)
def test_a_mistake_is_told_with_its_file_and_key(old, new, message, by_schema):
    error = refused(old, new)
    assert error.message.startswith("own.toml: ")
    assert message in f"{error}"


@pytest.mark.parametrize("text", ["", "version = 1", "x", "[", "a=1\na=2", "\0", "a = " + "[" * 5000, "grammar = 1"])
def test_a_file_that_is_no_pools_file_is_refused(text):
    with pytest.raises(ConfError, match=r"^own\.toml: ") as caught:
        parse_pools(text, "own.toml")
    assert "docs/" not in caught.value.hint, "who installed the package has no docs"


@pytest.mark.parametrize("version", ["1.0", "true", "[1]"])
def test_a_version_is_a_whole_number(version):
    assert "version: found " in f"{refused('version = 1', f'version = {version}')}"


@pytest.mark.parametrize("text", ["[", "[1]", "[]", '[{"group": "boxes"}]', '[{"group": " ", "labels": "box-mi300"}]'])
def test_an_example_in_a_hint_is_of_the_pools_in_use(text):
    with pytest.raises(OptionError) as caught:
        parse_pools(OWN, "own.toml").explicit(text, "gpu", "", None)
    assert 'such as [{"group": "boxes", "labels": "box-mi300"}]' in caught.value.hint


@pytest.mark.parametrize("key", ["grammar", "pools", "profiles", "policies"])
@pytest.mark.parametrize("value", ["1", '"x"', "[]", "[1]", "{}", "1979-05-27", "{ a = 1 }"])
def test_each_part_has_to_be_there_with_the_right_form(key, value):
    given_ = {"grammar": '[{family="cpu",pattern="x",os="l",arch="a"}]', "pools": '{p={group="g",labels="x"}}'}
    given_ |= {"profiles": '{c={family="cpu",arch="a",order=["p"]}}'}
    given_ |= {"policies": "{standard={cpu-minutes=1,gpu-minutes=1}}"}

    def text(parts: dict[str, str]) -> str:
        return "version=1\n" + "\n".join(f"{name}={part}" for name, part in parts.items())

    assert parse_pools(text(given_), "s").runner_types == ("c",)
    with pytest.raises(ConfError, match=rf"^s: {key}"):
        parse_pools(text(given_ | {key: value}), "s")


def test_seven_candidates_are_the_most_the_rewait_included():
    pools = "\n".join(f'[pools.m{n}]\ngroup = "boxes"\nlabels = "box-m{n}"' for n in range(8))
    text = OWN.replace("[pools.one]", f"{pools}\n[pools.one]").replace('rewait = "one"', "REWAIT")
    order = [f"m{n}" for n in range(7)]
    full = text.replace('["one", "two"]', json.dumps(order))
    assert len(parse_pools(full.replace("REWAIT", ""), "s").candidates("gpu", "", None)) == 7
    with pytest.raises(ConfError, match="more than 7 candidates"):
        parse_pools(full.replace("REWAIT", 'rewait = "m0"'), "s")
    with pytest.raises(ConfError, match="more than 7 candidates"):
        parse_pools(full.replace("REWAIT", "").replace('"m6"]', '"m6", "m7"]'), "s")


# ---- the schema ---------------------------------------------------------------------------------------------------


def schema_errors(text: str) -> list[str]:
    jsonschema = pytest.importorskip("jsonschema")
    validator = jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text(encoding="utf-8")))
    return [error.message for error in validator.iter_errors(toml(text))]


def test_the_schema_is_one_and_takes_the_shipped_file():
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.Draft202012Validator.check_schema(json.loads(SCHEMA.read_text(encoding="utf-8")))
    assert schema_errors(SHIPPED.read_text(encoding="utf-8")) == []
    assert schema_errors(OWN) == []


@pytest.mark.parametrize(("old", "new", "message", "by_schema"), BROKEN)
def test_the_schema_refuses_what_it_can_see(old, new, message, by_schema):
    assert bool(schema_errors(OWN.replace(old, new))) is by_schema


# ---- the file -----------------------------------------------------------------------------------------------------


def test_a_named_file_replaces_the_default_as_a_whole(tmp_path):
    file = tmp_path / "own.toml"
    file.write_text("\ufeff" + OWN, encoding="utf-8")
    assert pools_file.load(f" {file} ").runner_types == ("boxes", "cpu", "gpu")
    assert pools_file.load("").runner_types == pools_file.load(str(SHIPPED)).runner_types


def test_an_error_inside_names_the_file(tmp_path):
    file = tmp_path / "own.toml"
    file.write_text("version = 3", encoding="utf-8")
    with pytest.raises(ConfError, match=r"own\.toml: version: "):
        pools_file.load(str(file))


def test_a_file_that_cannot_be_read_is_told_with_a_reason(tmp_path):
    (tmp_path / "latin.toml").write_bytes(b"# \xe9")
    (tmp_path / "long.toml").write_bytes(b"#" * 4_000_001)
    (tmp_path / "rather-long.toml").write_bytes(b"#" * 1_000_001)
    for path, reason in (
        (tmp_path / "none.toml", "no such file"),
        (tmp_path, "not a file"),
        (tmp_path / "latin.toml", "not UTF-8 at byte 2"),
        (tmp_path / "long.toml", "at most"),
        (tmp_path / "rather-long.toml", "at most"),
        ("x" * 5000, ""),
        ("a\0b", ""),
    ):
        with pytest.raises(ConfError) as caught:
            pools_file.load(str(path))
        assert reason in caught.value.message
        assert "\0" not in caught.value.message
