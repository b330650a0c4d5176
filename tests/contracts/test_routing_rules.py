"""The table of the rules of the routing is true: every rule has its row, every row names the tests that there are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TABLE = ROOT / "docs" / "reference" / "routing-rules.md"
RULES = range(1, 120)
_ROW = re.compile(r"^\| Q(\d+) \| (.+?) \| (.+) \|$", re.MULTILINE)
_TEST = re.compile(r"^ *def (test_((?:q\d+_)+)\w*)", re.MULTILINE)


def rows() -> dict[int, str]:
    return {int(number): held for number, _, held in _ROW.findall(TABLE.read_text(encoding="utf-8"))}


def held_by() -> dict[int, dict[str, list[str]]]:
    """Give the tests of each rule by file, in the order of the file."""
    found: dict[int, dict[str, list[str]]] = {}
    for path in sorted((ROOT / "tests" / "runners" / "routing").glob("test_*.py")):
        for name, rules in _TEST.findall(path.read_text(encoding="utf-8")):
            for rule in re.findall(r"\d+", rules):
                found.setdefault(int(rule), {}).setdefault(path.name, []).append(name)
    return found


def test_every_rule_has_a_row_and_no_test_holds_another():
    assert list(rows()) == list(RULES)
    assert set(held_by()) == set(RULES)


@pytest.mark.parametrize("rule", RULES)
def test_a_row_names_the_tests_that_there_are(rule):
    shown = []
    for file, names in held_by()[rule].items():
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        shown.append(f"`{file}`: `{names[0]}`{more}")
    assert rows()[rule] == "; ".join(shown)
