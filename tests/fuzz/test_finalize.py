"""``sgpu finalize`` over damaged journals: everything is written and reads back, and twice gives the same."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from pytest_sgpu.core import journal, tables
from pytest_sgpu.finalize import finalize, screen
from pytest_sgpu.model import Scope
from tests.fuzz.conftest import JOURNAL, OTHERS, RECORDS, Dice, fuzz

# Each of these writes some twenty files twice, so they are fewer than the others.
SOME = [pytest.param(30, id="30"), pytest.param(300, id="300", marks=pytest.mark.slow)]


@pytest.mark.parametrize("count", SOME)
def test_finalize(count, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run, weights = tmp_path / "logs", tmp_path / "weights.txt"
    (run / "queue").mkdir(parents=True)
    fuzz("finalize", count, lambda dice: _check(dice, run, weights))
    assert {path.name for path in tmp_path.iterdir()} <= {"logs", "weights.txt", ".weights.txt.lock"}


def _journal(dice: Dice) -> bytes:
    if dice.chance(2):
        return dice.mutated(JOURNAL, OTHERS)
    records = list(RECORDS)
    at = dice.random.randrange(len(records))
    return b"".join(journal.line(dice.confused(one) if n == at else one).encode() for n, one in enumerate(records))


def _check(dice: Dice, run: Path, weights: Path) -> None:
    dice.told = data = _journal(dice)
    weights.write_text("torch/a 5.0\n", encoding="utf-8")
    place = run / "queue" / "journal.jsonl"
    place.write_bytes(data)
    finished, code = finalize(run, {}, weights)
    view = finished.view
    assert code in {0, 1, 2}
    assert code or not any(outcome.failed for outcome in view.outcomes)
    assert screen(finished, 80)
    learned = weights.read_bytes()
    assert not tables.parse_weights(learned, "w", Scope("", ""))[1]
    root = ET.fromstring((run / "report" / "junit.xml").read_bytes())
    assert int(root.attrib["tests"]) == sum(1 for _ in root.iter("testcase"))
    assert len({suite.get("name") for suite in root}) == len(root) == len(view.outcomes)
    for name in ("queue/timings.tsv", "report/schedule.md"):
        (run / name).read_text(encoding="utf-8")
    odd = tables.parse_timings((run / "queue/timings.tsv").read_text(encoding="utf-8"))[1]
    assert all(" is negative" in one.text or " is more seconds than " in one.text for one in odd)  # no clock says that
    torn = data.rpartition(b"\n")[2]
    assert place.read_bytes().startswith(data[: len(data) - len(torn)])  # nothing of it goes but a torn end
    again, same = finalize(run, {}, weights)
    assert (same, weights.read_bytes()) == (code, learned)
    assert again.view.outcomes == view.outcomes
