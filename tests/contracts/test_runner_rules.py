"""The table of the rules of the acquisition is true: every rule has its row, every test it names exists and no rule's
test is left out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TABLE = ROOT / "docs" / "reference" / "runner-rules.md"
RULES = range(1, 142)
_ROW = re.compile(r"^\| R(\d+) \| ([^|]+) \| (.+) \|$", re.MULTILINE)
_TEST = re.compile(r"^def (test_((?:r\d+_)+)\w*)", re.MULTILINE)


def rows() -> dict[int, str]:
    return {int(number): held for number, _, held in _ROW.findall(TABLE.read_text(encoding="utf-8"))}


def held_by() -> dict[int, dict[str, list[str]]]:
    """Give the tests of each rule by file, in the order of the file."""
    found: dict[int, dict[str, list[str]]] = {}
    for path in sorted((ROOT / "tests" / "runners").glob("test_*.py")):
        for name, rules in _TEST.findall(path.read_text(encoding="utf-8")):
            for rule in re.findall(r"\d+", rules):
                found.setdefault(int(rule), {}).setdefault(path.name, []).append(name)
    return found


def test_every_rule_has_a_row():
    assert list(rows()) == list(RULES)


@pytest.mark.parametrize("rule", RULES)
def test_a_row_names_the_tests_that_there_are(rule):
    held, files = rows()[rule], held_by().get(rule, {})
    if not files:
        assert held.startswith("documentation: "), "neither a test nor a page"
        return
    shown = []
    for file, names in files.items():
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        shown.append(f"`{file}`: `{names[0]}`{more}")
    assert held == "; ".join(shown)
