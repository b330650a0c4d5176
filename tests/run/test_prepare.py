"""Before anything runs: everything that can be wrong is found, with its place, and nothing is written."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_sgpu.core.verdict import Policy
from pytest_sgpu.errors import ConfError, ListingError, OptionError, StoreError
from pytest_sgpu.model import Key, Scope
from pytest_sgpu.prepare import make_plan, prepare


def prepared(kit, **changes):
    return prepare(replace(kit.options, **changes))


def tree(kit):
    return {path.relative_to(kit.folder).as_posix() for path in kit.folder.rglob("*")}


def test_everything_is_known_and_nothing_is_written(kit):
    kit.passing("one", "a", "b", elsewhere=["c"])
    kit.opaque("two", "true")
    kit.weights.write_text("one/a 5.0\n")
    before = tree(kit)
    found = prepared(kit)
    assert [str(item.key) for item in found.items] == ["one/a", "one/b", "two"]
    assert {str(key) for key in found.census.known} == {"one/a", "one/b", "one/c", "two"}
    assert (found.labels, [suite.label for suite in found.suites]) == (("one", "two"), ["one", "two"])
    assert found.argv["one"] == (str(kit.folder / "one.sh"),)
    assert found.table.entries == {Key("one", "a"): 5.0}
    assert len(found.devices) == 1
    assert found.place.read == found.place.write == kit.weights
    assert found.opaque(Key("two"))
    assert not found.opaque(Key("one", "a"))
    assert found.suite(Key("one", "b")).log_name == "one.log"
    assert tree(kit) == before


def test_some_suites_may_be_chosen_and_the_conf_knows_all(kit):
    kit.passing("one", "a")
    kit.passing("two", "b")
    found = prepared(kit, suites=("two",))
    assert [str(item.key) for item in found.items] == ["two/b"]
    assert found.labels == ("one", "two")  # so that the weights of the other are kept
    with pytest.raises(OptionError, match="twoo"):
        prepared(kit, suites=("twoo",))


def test_several_confs_make_one_queue(kit):
    kit.passing("one", "a")
    other = kit.folder / "other.conf"
    other.write_bytes(b"\xef\xbb\xbfagain again.log list ./one.sh\n")
    found = prepared(kit, confs=(*kit.options.confs, other), conf_names=("queue.conf", "other.conf"))
    assert [str(item.key) for item in found.items] == ["one/a", "again/a"]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (None, r"q\.conf: the conf file cannot be read: No such file"),
        (b"", r"q\.conf"),
        (b"# \xc3\xa4\none one.log list ./x\n# \xff\n", r"q\.conf:3: not UTF-8 text \(byte 0xff\)"),
        (b"one one.log lst ./x\n", r"q\.conf:1: .*lst"),
        (b"one one.log list ./not-there.sh\n", r"q\.conf:1: .*not-there\.sh"),
    ],
)
def test_a_conf_that_cannot_be_used_is_an_error_with_its_place(kit, data, message):
    path = kit.folder / "q.conf"
    if data is not None:
        path.write_bytes(data)
    before = tree(kit)
    with pytest.raises(ConfError, match=message):
        prepared(kit, confs=(path,), conf_names=("q.conf",))
    assert tree(kit) == before


@pytest.mark.parametrize(
    ("level", "expected"), [(None, "99"), ("", "99"), ("1", "1"), ("003", "3"), ("0", "0"), ("123456789", "123456789")]
)
def test_the_level_is_part_of_the_scope(kit, level, expected):
    kit.passing("one", "a")
    env = kit.env if level is None else {**kit.env, "TEST_LEVEL": level}
    assert prepared(kit, env=env).scope.level == expected


@pytest.mark.parametrize("level", ["three", "1.5", "-1", "1234567890", "1 2", "\u0661", "3\n"])
def test_a_level_that_is_none_is_an_error(kit, level):
    kit.passing("one", "a")
    with pytest.raises(OptionError, match=r"TEST_LEVEL=.* is no level") as caught:
        prepared(kit, env={**kit.env, "TEST_LEVEL": level})
    assert "99" in caught.value.hint


def test_a_log_directory_of_something_else_is_refused_unless_nothing_will_be_written(kit):
    kit.passing("one", "a")
    (kit.logs / "report").mkdir(parents=True)
    (kit.logs / "report" / "thesis.tex").touch()
    with pytest.raises(StoreError, match="report: no run of pytest-sgpu has left this"):
        prepared(kit)
    assert prepared(kit, writes=False).items


def test_a_number_of_devices_that_is_none_is_an_error(kit):
    kit.passing("one", "a")
    with pytest.raises(OptionError):
        prepared(kit, gpus="none")


def test_a_listing_that_fails_is_an_error_with_its_output(kit):
    kit.passing("one", "a")
    (kit.folder / "one.sh").write_text("#!/bin/sh\necho no module named torch >&2\nexit 3\n")
    with pytest.raises(ListingError, match="no module named torch"):
        prepared(kit)


def test_the_scope_names_the_table(kit):
    kit.passing("one", "a")
    folder = kit.folder / "ci-weights"
    folder.mkdir()
    (folder / "test_weights.gfx942.l3.txt").write_text("one/a 5.0\n")
    found = prepared(kit, weights=folder, env={**kit.env, "TEST_LEVEL": "1"})
    assert found.scope == Scope(found.scope.arch, "1")
    assert found.place.write == folder / f"test_weights.{found.scope.arch}.l1.txt"
    assert found.table.entries == {}
    assert any("not used: test_weights.gfx942.l3.txt" in notice.text for notice in found.notices)


def test_broken_lines_of_the_table_are_notices(kit):
    kit.passing("one", "a")
    kit.weights.write_text("one/a nan\n")
    (notice,) = (notice for notice in prepared(kit).notices if notice.where.startswith(str(kit.weights)))
    assert "nan" in notice.text


def test_an_excuse_for_nothing_is_told(kit):
    kit.passing("one", "a", elsewhere=["b"])
    policy = Policy(allow_empty=("one/b", "one/*", "a", "torch/benchmark"))
    told = [notice for notice in prepared(kit, policy=policy).notices if notice.where == "sgpu_allow_empty"]
    assert [notice.text.split(";")[0] for notice in told] == [
        "matches no key: 'a'",
        "matches no key: 'torch/benchmark'",
    ]
    # With a part of the suites it may be about one of the others.
    chosen = prepared(kit, policy=policy, suites=("one",))
    assert not [notice for notice in chosen.notices if notice.where == "sgpu_allow_empty"]


def test_the_callers_filter_chooses_as_the_scripts_do(kit):
    kit.passing("one", "test_a.ck", "test_b.ck")
    kit.opaque("two", "true")

    def wanted(text):
        found = prepared(kit, env={**kit.env, "TEST_FILTER": text})
        assert len(found.items) == 3  # it does not leak into the listing
        return [str(item.key) for item in found.items if found.wanted_by_filter(item)]

    assert wanted("test_a.*  nothing") == ["one/test_a.ck"]
    assert "one/test_b.ck" in wanted("")


def test_the_plan_is_longest_first_or_as_the_caller_ordered_it(kit):
    kit.passing("one", "a", "b", "c")
    kit.weights.write_text("one/a 1.0\none/b 5.0\none/c 3.0\n")
    found = kit.prepare(devices=3)

    def order(**how):
        plan = make_plan(found, found.items, **how)
        assert plan.devices == 3
        assert plan.total == 9.0
        return [entry.item.key.tag for entry in plan.entries]

    assert order(keep_order=False) == ["b", "c", "a"]
    assert order(keep_order=True) == ["a", "b", "c"]
