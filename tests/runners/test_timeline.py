"""The timeline: one JSON document, whatever is put into it."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from pytest_sgpu.runners.report import timeline
from pytest_sgpu.runners.report.timeline import Timeline


def events(made: Timeline):
    document = json.loads(made.to_json())
    assert (document["version"], sorted(document)) == (1, ["events", "left_out", "version"])
    return document["events"]


def test_the_format():
    made = Timeline(zero=100.0)
    made.add(100.0, 1773144000.0, "parent", 0, 0, status="in_progress")
    made.add(112.34567, 1773144012.34567, "look", 1, 2, run="queued", runner=None, id=7, waited=12.34567)
    assert events(made) == [
        {
            "at": 0.0,
            "time": "2026-03-10T12:00:00.000Z",
            "event": "parent",
            "worker": 0,
            "attempt": 0,
            "status": "in_progress",
        },
        {
            "at": 12.346,
            "time": "2026-03-10T12:00:12.346Z",
            "event": "look",
            "worker": 1,
            "attempt": 2,
            "run": "queued",
            "runner": None,
            "id": 7,
            "waited": 12.346,
        },
    ]


def test_it_is_one_line():
    made = Timeline()
    made.add(1.0, 1.0, "error", 1, 1, text="a\nb\u2028c\x1b[0m", other=["x\n", {"a\n": (1, None)}])
    assert made.to_json().isprintable()
    assert events(made)[0]["text"] == "a b c [0m"
    assert events(made)[0]["other"] == ["x", {"a": [1, None]}]


def test_nothing_replaces_the_fixed_fields():
    made = Timeline()
    made.add(1.0, 0.0, "look", 1, 1, time="then", version=3)
    assert events(made)[0]["time"] == "1970-01-01T00:00:00.000Z"


def test_the_secret_is_taken_out():
    made = Timeline(secret="ghs_abc")
    made.add(1.0, 1.0, "error", 1, 1, text="token ghs_abc refused")
    assert "ghs_abc" not in made.to_json()


def test_looks_are_bounded_and_nothing_else_is():
    made = Timeline()
    for number in range(7000):
        made.add(number, number, "look", 1, 1, text="x" * 100)
    made.add(9e9, 9e9, "end", 1, 1)
    assert json.loads(made.to_json())["left_out"] == made.left_out > 0
    assert len(events(made)) == 7001 - made.left_out
    assert events(made)[-1]["event"] == "end"
    assert timeline.LOOKS * 0.9 < len(made.to_json()) < timeline.LOOKS * 1.1


values = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.lists(st.floats())


@given(st.lists(st.tuples(st.floats(), st.floats(), st.text(), st.dictionaries(st.sampled_from("abc"), values))))
def test_any_value_gives_a_document_in_order(added):
    made = Timeline()
    for at, epoch, name, fields in added:
        made.add(at, epoch, name, 1, 1, **fields)
    text = made.to_json()
    assert text.isascii()
    assert "NaN" not in text.replace('"', "") or any("NaN" in str(one) for one in added)
    assert len(events(made)) == len(added)
