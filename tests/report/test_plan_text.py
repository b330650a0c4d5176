from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_sgpu.core.redact import Redactor
from pytest_sgpu.model import UNKNOWN, Device, Estimate, Item, Key, Notice, Plan, PlanEntry, Scope
from pytest_sgpu.report import plan_text

SCHEMA = json.loads((Path(__file__).parents[2] / "docs/reference/plan.schema.json").read_text(encoding="utf-8"))
TYPES: dict[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "null": type(None),
}
GPU = Device("gpu0", "0", "HIP_VISIBLE_DEVICES", "amd", "gfx950")


def plan_of(*pairs: tuple[str, Estimate], devices: int = 2) -> Plan:
    return Plan(
        tuple(
            PlanEntry(rank, Item(Key.parse(key), ("./s.sh", "a b"), 1, rank - 1), estimate)
            for rank, (key, estimate) in enumerate(pairs, start=1)
        ),
        devices,
    )


def known(seconds: float) -> Estimate:
    return Estimate(seconds, known=True)


def guess(seconds: float) -> Estimate:
    return Estimate(seconds, known=False)


def check(value, schema, where="$") -> None:
    """Enough of JSON Schema for ours; a keyword that it does not know fails the test."""
    assert schema.keys() <= {
        "$schema", "title", "description", "type", "required", "properties", "items", "const", "minimum",
    }, where  # fmt: skip
    if "const" in schema:
        assert value == schema["const"], where
    if "type" in schema:
        names = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        assert any(isinstance(value, TYPES[name]) for name in names), where
        assert not isinstance(value, bool) or "boolean" in names, where
    if isinstance(value, dict):
        assert set(schema.get("required", ())) <= value.keys(), where
        assert value.keys() <= schema["properties"].keys(), f"{where}: a field that the schema does not tell of"
        for name, one in value.items():
            check(one, schema["properties"][name], f"{where}.{name}")
    if isinstance(value, list):
        for position, one in enumerate(value):
            check(one, schema["items"], f"{where}[{position}]")
    if isinstance(value, (int, float)) and "minimum" in schema:
        assert value >= schema["minimum"], where


def test_columns_and_totals():
    plan = plan_of(("core", UNKNOWN), ("torch/b", guess(73)), ("torch/a", known(100)), ("jax/x", known(20)))
    assert plan_text.text(plan, 173.04, 100) == [
        "rank  estimate  GPUs  key",
        "   1         ?     1  core",
        "   2     ~73.0     1  torch/b",
        "   3     100.0     1  torch/a",
        "   4      20.0     1  jax/x",
        "",
        "4 items, 2 of known duration, 2 unknown",
        "work 120.0s (2m00s), longest item 100.0s (1m40s): torch/a",
        "bound on 2 devices 100.0s (1m40s) = max(work / 2, longest)",
        "predicted wall on 2 devices at least 173.0s (2m53s)",
        "unknown items count as 0 s, or as their guess (~)",
    ]


def test_nothing_known_and_nothing_at_all():
    cold = plan_text.text(plan_of(("a", UNKNOWN)), 0.0, 80)
    assert "1 item, 0 of known duration, 1 unknown" in cold
    assert not [one for one in cold if one.startswith(("work", "bound"))]
    assert "predicted wall on 2 devices not known: every item is new" in cold
    assert plan_text.text(Plan((), 1), 0.0, 80)[-1] == "0 items, 0 of known duration, 0 unknown"


def test_the_middle_of_a_long_plan_is_left_out():
    plan = plan_of(*((f"s/t{n}", known(1000 - n)) for n in range(500)))
    lines = plan_text.text(plan, 1.0, 80, limit=200)
    assert lines[150].split()[-1] == "s/t149"
    assert lines[151] == "  ... 300 items not shown here, --sgpu-plan shows all of them"
    assert lines[152].split()[-1] == "s/t450"
    assert lines[201].split()[-1] == "s/t499"
    assert "500 items, 500 of known duration, 0 unknown" in lines
    assert not [one for one in plan_text.text(plan, 1.0, 80, limit=500) if "..." in one]


@given(st.integers(1, 200), st.integers(1, 30))
def test_totals_fit_any_width_that_is_sane(width, items):
    plan = plan_of(*((f"s/t{n}", known(n)) for n in range(items)))
    for one in plan_text.text(plan, 1.0, width)[items + 1 :]:
        assert len(one) <= max(width, 62)


def test_a_tag_cannot_drive_the_terminal():
    plan = plan_of(("s/\x1b]0;owned\x07\x9b2J", known(1)))
    assert all(one.isprintable() for one in plan_text.text(plan, 1.0, 80))


def test_json_is_as_the_schema_says():
    plan = plan_of(("core", UNKNOWN), ("torch/b", guess(73)), ("torch/\x1b\udc80é", known(100)))
    text = plan_text.json(
        plan, 1.23456, Scope("gfx950", "3"), [GPU], [Notice("no number", "w.txt:3")], [Key("torch", "c")]
    )
    assert text.isascii()
    assert text.endswith("}\n")
    document = json.loads(text)
    check(document, SCHEMA)
    assert document["schema"] == "pytest-sgpu/plan"
    assert document["entries"][0] == {
        "rank": 1,
        "key": "core",
        "suite": "core",
        "tag": "",
        "gpus": 1,
        "estimate": {"seconds": None, "known": False},
        "command": ["./s.sh", "a b"],
    }
    assert document["entries"][2]["key"] == "torch/\x1b\udc80é"
    assert document["totals"] == {
        "items": 3, "unknown": 2, "work": 100, "longest": 100, "bound": 100, "predicted": 1.235,
    }  # fmt: skip
    assert document["deselected"] == ["torch/c"]
    assert document["notices"] == [{"where": "w.txt:3", "text": "no number"}]


def test_every_field_that_the_schema_requires_is_described_in_it():
    def walk(schema):
        assert set(schema.get("required", ())) <= schema.get("properties", {}).keys()
        for one in schema.get("properties", {}).values():
            walk(one)
        if "items" in schema:
            walk(schema["items"])

    walk(SCHEMA)


def test_the_check_of_the_schema_finds_faults():
    good = json.loads(plan_text.json(plan_of(("a", known(1))), 1.0, Scope("cpu", "1"), [GPU]))
    for path, value in [(("version",), 2), (("totals", "work"), -1), (("entries", 0, "rank"), "1"), (("extra",), 1)]:
        document = json.loads(json.dumps(good))
        inner = document
        for step in path[:-1]:
            inner = inner[step]
        inner[path[-1]] = value
        with pytest.raises(AssertionError):
            check(document, SCHEMA)


def test_no_secret_is_in_the_commands_and_notices_of_the_document():
    plan = Plan((PlanEntry(1, Item(Key("a", "b"), ("./s.sh", "--t=conftok8899"), 1, 0), known(1)),), 1)
    clean = Redactor({"A_TOKEN": "conftok8899"}).text
    notices = [Notice("conftok8899 is odd", "https://u:pw@h")]
    document = json.loads(plan_text.json(plan, 1.0, Scope("cpu", "1"), [GPU], notices, clean=clean))
    check(document, SCHEMA)
    assert document["entries"][0]["command"] == ["./s.sh", "--t=***"]
    assert document["notices"] == [{"where": "https://***@h", "text": "*** is odd"}]
