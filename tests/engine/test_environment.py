from __future__ import annotations

import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_sgpu.core import masks
from pytest_sgpu.engine import environment
from pytest_sgpu.model import Device, Key

DEVICE = Device("gpu3", "3", masks.CUDA, "nvidia", "sm_90", also={"CUDA_DEVICE_ORDER": "PCI_BUS_ID"})
DIRTY = {
    "PATH": "/bin",
    "TEST_LEVEL": "3",
    "PYTEST_TIMEOUT": "60",
    "TEST_FILTER": "foo*",
    "TE_CI_LIST_ITEMS": "1",
    "TE_CI_SETUP_ONLY": "1",
    "TE_CI_SKIP_SETUP": "1",
    "TE_CI_SKIP_CHECK_SUPPORTED": "1",
    "TE_CI_GPUS": "1",
    "JUNITXML_PREFIX": "/x/",
    "JUNITXML_SUFFIX": ".y",
    "PYTEST_ADDOPTS": "-p sgpu --sgpu-conf=suite.conf",
    "PYTEST_CURRENT_TEST": "t",
    "PYTEST_VERSION": "9",
    "PYTEST_XDIST_WORKER": "gw0",
    **dict.fromkeys(masks.ALL, "0"),
}


def run_item(env, tag="a", *, opaque=False):
    key = Key("s", "" if opaque else tag)
    return environment.item(env, key, DEVICE, junit_prefix="/r/", junit_suffix=".xml", opaque=opaque)


def test_an_item_sees_what_the_protocol_says_and_nothing_of_the_queue():
    assert run_item(DIRTY) == {
        "PATH": "/bin",
        "TEST_LEVEL": "3",
        "PYTEST_TIMEOUT": "60",
        "TEST_SGPU": "1",
        "TEST_MGPU": "",
        "CUDA_VISIBLE_DEVICES": "3",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "JUNITXML_PREFIX": "/r/",
        "JUNITXML_SUFFIX": ".xml",
        "TE_CI_SKIP_SETUP": "1",
        "TEST_FILTER": "a",
        "PYTEST_SGPU_ITEM": "1",
    }


def test_an_opaque_item_gets_no_filter_and_does_its_own_setup():
    env = run_item(DIRTY, opaque=True)
    assert "TEST_FILTER" not in env
    assert not [name for name in env if name.startswith("TE_CI_")]
    assert env["CUDA_VISIBLE_DEVICES"] == "3"


def test_a_setup_runs_on_its_device_only():
    env = environment.setup(DIRTY, DEVICE)
    assert env["TE_CI_SETUP_ONLY"] == "1"
    assert "TEST_FILTER" not in env
    assert {name: env[name] for name in masks.ALL if name in env} == {"CUDA_VISIBLE_DEVICES": "3"}
    assert not [name for name in env if name.startswith("JUNITXML")]


def test_a_listing_keeps_the_masks_of_the_caller():
    first = environment.listing(DIRTY, known=False)
    assert {name: first[name] for name in masks.ALL} == dict.fromkeys(masks.ALL, "0")
    assert first["TE_CI_LIST_ITEMS"] == "1"
    assert not {"TEST_FILTER", "TE_CI_SKIP_CHECK_SUPPORTED", "TE_CI_SETUP_ONLY", "TE_CI_SKIP_SETUP"} & set(first)
    second = environment.listing(DIRTY, known=True)
    assert second == first | {"TE_CI_SKIP_CHECK_SUPPORTED": "1"}


@pytest.mark.parametrize("chosen", [{"TEST_SGPU": ""}, {"TEST_MGPU": "1"}, {"TEST_SGPU": "1", "TEST_MGPU": "1"}])
def test_a_family_that_the_caller_chose_is_left_alone(chosen):
    env = environment.base(chosen)
    assert {name: value for name, value in env.items() if name.startswith("TEST_")} == chosen


def test_items_have_addopts_of_their_own():
    env = environment.base(DIRTY | {"SGPU_ITEM_ADDOPTS": "-v"})
    assert env["PYTEST_ADDOPTS"] == "-v"
    assert "SGPU_ITEM_ADDOPTS" not in env


@pytest.mark.parametrize(
    ("plugins", "left"),
    [
        ("sgpu", None),
        ("pytest_sgpu.plugin, foo", "foo"),
        ("foo,sgpu,bar", "foo,bar"),
        ("sgpu_of_another", "sgpu_of_another"),
        ("", None),
    ],
)
def test_the_plugin_is_not_loaded_in_items_by_name(plugins, left):
    assert environment.base({"PYTEST_PLUGINS": plugins}).get("PYTEST_PLUGINS") == left


def test_the_environment_of_the_caller_is_not_touched():
    before = dict(DIRTY)
    run_item(DIRTY)
    environment.listing(DIRTY, known=True)
    assert before == DIRTY


TAGS = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=12)


@given(TAGS, st.text(st.sampled_from("*?[]\\!-^$`'\"ab"), min_size=1, max_size=6))
def test_the_filter_selects_the_tag_and_no_other(tag, other):
    text = run_item({}, tag)["TEST_FILTER"]
    script = "set -f; for glob in $TEST_FILTER; do case $1 in $glob) echo yes; exit ;; esac; done; echo no"
    for name in {tag, other}:
        done = subprocess.run(
            ["sh", "-c", script, "sh", name], env={"TEST_FILTER": text}, capture_output=True, text=True, check=True
        )
        assert done.stdout.strip() == ("yes" if name == tag else "no")


def test_what_a_suite_reads_beside_the_protocol_reaches_it():
    env = run_item({"PATH": "/bin", "TE_CI_PYTHON": "/venv/bin/python", "TE_CI_OF_A_SUITE": "1"}, opaque=False)
    assert env["TE_CI_PYTHON"] == "/venv/bin/python"
    assert env["TE_CI_OF_A_SUITE"] == "1"
