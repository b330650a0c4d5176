"""The ini keys: anything but the text that is expected is a usage error that names the key, in every TOML table."""

from __future__ import annotations

import pytest

from pytest_sgpu.face import ini

TABLES = ["tool.pytest.ini_options"]
if pytest.version_tuple >= (9,):
    TABLES.append("tool.pytest")  # keeps the types of TOML
TEXTS = sorted(ini.EXAMPLES)


def test_every_key_of_the_plugin_is_known_here(pytester):
    config = pytester.parseconfig("-p", "sgpu")
    assert {name for name in config._parser._inidict if name.startswith("sgpu_")} == {*ini.EXAMPLES, *ini.LISTS}


def run(pytester, table, key, value):
    conf = "" if key == "sgpu_conf" else 'sgpu_conf = ["q.conf"]\n'
    pytester.makepyprojecttoml(f"[{table}]\n{conf}{key} = {value}\n")
    pytester.makefile(".conf", q="s s.log opaque true")
    return pytester.runpytest_subprocess("-p", "sgpu", "--sgpu-gpus=1", "--collect-only")


def refusal(done):
    assert done.ret == 4
    assert "INTERNALERROR" not in done.stdout.str() + done.stderr.str()
    return done.stderr.str()


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("key", [key for key in TEXTS if key != "sgpu_gpus"])
def test_a_list_for_a_text(pytester, table, key):
    said = refusal(run(pytester, table, key, "[1, 2]"))
    assert f"ERROR: {key} in the ini-file: " in said
    assert f'expected one text, such as "{ini.EXAMPLES[key]}"' in said


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("key", sorted(ini.LISTS))
def test_numbers_in_a_list_of_texts(pytester, table, key):
    said = refusal(run(pytester, table, key, "[1, 2]"))
    assert f"ERROR: {key} in the ini-file: " in said
    assert f'expected a list of texts, such as ["{ini.LISTS[key]}"]' in said


@pytest.mark.parametrize(("key", "value"), [("sgpu_retries", "1"), ("sgpu_allow_empty", '["s"]'), ("sgpu_stall", "5")])
def test_what_fits_is_taken(pytester, key, value):
    assert run(pytester, TABLES[0], key, value).ret == 0


def test_a_quote_that_does_not_close(pytester):
    pytester.makeini("[pytest]\nsgpu_conf = q.conf\nsgpu_allow_empty = 'x\n")
    said = refusal(pytester.runpytest_subprocess("-p", "sgpu"))
    assert "sgpu_allow_empty in the ini-file: expected a list of texts" in said
