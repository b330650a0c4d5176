from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_sgpu.core import timeline
from pytest_sgpu.model import UNKNOWN, Estimate, JUnitFacts, Key, Outcome, Status, Tests, Verdict
from pytest_sgpu.report import console, summary
from pytest_sgpu.report.pieces import line, plain, shorten

KEY = Key("torch", "test_numerics.ck.amax+triton")
HOSTILE = "\x1b]0;owned\x07\x9b2J\x00\r::error::x\u202e"


def outcome(status: Status = Status.PASSED, **more) -> Outcome:
    values = {
        "key": KEY,
        "status": status,
        "exit_code": 0 if status is Status.PASSED else 1,
        "start": 1204.4,
        "stop": 1464.5,
        "devices": ("gpu1",),
        "estimate": Estimate(245.0, known=True),
        "proof": "junit",
    }
    return Outcome(**{**values, **more})


def finished(one: Outcome, width: int = 120) -> str:
    return plain(console.finished_line(one, "12:03:04", 7, 80, width))


def test_the_line_of_a_pass():
    assert (
        finished(outcome()) == "[12:03:04]  7/80 gpu1 t+1204s 260.1s rc=0 est=245s torch/test_numerics.ck.amax+triton"
    )


def crashed(code: int | None, reason: str) -> Outcome:
    return outcome(Status.CRASHED, exit_code=code, reason=reason)


@pytest.mark.parametrize(
    ("one", "end"),
    [
        (outcome(Status.FAILED, reason="exit code 1"), "rc=1 est=245s FAILED KEY  exit code 1"),
        (outcome(Status.NO_TESTS, exit_code=5, reason="none selected"), "rc=5 est=245s NO TESTS KEY  none selected"),
        (crashed(None, "signal 11 (SIGSEGV)"), "rc=- est=245s CRASHED signal 11 KEY"),
        (crashed(134, "signal 6 (SIGABRT) inside"), "rc=134 est=245s CRASHED signal 6 KEY"),
        (crashed(None, "no exit code"), "rc=- est=245s CRASHED KEY  no exit code"),
        (outcome(Status.NOT_RUN, exit_code=None, start=None, devices=()), "- t+? 0.0s rc=- est=245s NOT RUN KEY"),
        (outcome(Status.FLAKY, reason="failed on gpu2"), "est=245s FLAKY KEY  failed on gpu2"),
        (outcome(Status.FLAKY, attempt=2), "est=245s FLAKY AT ATTEMPT 2 KEY"),
        (outcome(attempt=2), "rc=0 est=245s PASSED AT ATTEMPT 2 KEY"),
        (outcome(Status.FAILED, attempt=3, reason="r"), "rc=1 est=245s FAILED AT ATTEMPT 3 KEY  r"),
        (outcome(estimate=UNKNOWN), "est=? KEY"),
        (outcome(estimate=Estimate(73.0, known=False)), "est=~73.0s KEY"),
        (outcome(proof="allowed", reason="ran without proof"), "PASSED WITHOUT PROOF KEY  ran without proof"),
        (outcome(junit=JUnitFacts(1, Tests(9, 2, 1))), "PASSED, BUT 3 TESTS FAILED KEY"),
        (outcome(reason="every test was skipped (4)"), "est=245s KEY  every test was skipped (4)"),
    ],
)
def test_other_ends(one, end):
    assert end.replace("KEY", str(KEY)) in finished(one)


def test_keys_are_whole_and_reasons_are_cut():
    one = outcome(Status.FAILED, key=Key("s", "t" * 900), reason="r" * 900)
    text = finished(one, 80)
    assert "t" * 900 in text
    assert "characters cut" in text
    assert len(text) < 1100


@given(st.text(), st.text(), st.integers(0, 200), st.sampled_from(Status))
def test_a_line_is_one_printable_line(tag, reason, width, status):
    one = outcome(status, key=Key("s", tag + HOSTILE), reason=reason + HOSTILE)
    text = finished(one, width)
    assert not re.search(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u202e]", text)
    assert len(text) < 2000 + len(tag)


def test_start_and_setup():
    begun = console.started_line(KEY, "gpu1", 12.3, UNKNOWN, "12:03:04", 7, 80)
    assert plain(begun) == f"[12:03:04]  7/80 gpu1 t+12s start est=? {KEY}"
    assert plain(console.setup_line("torch", "gpu0", 3.21, 0, "12:03:04")) == "[12:03:04] gpu0 3.2s rc=0 setup of torch"
    assert "rc=3 SETUP FAILED setup of torch" in plain(console.setup_line("torch", "gpu0", 3.21, 3, "12:03:04"))
    assert "rc=- SETUP FAILED" in plain(console.setup_line("torch", "gpu0", 3.21, None, "12:03:04"))


def block(one: Outcome, tail: bytes | str = b"", log: str = "items/x.log", rerun: str = "pytest x", width: int = 80):
    return [plain(row) for row in console.failure_block(one, tail, log, rerun, width)]


def test_a_failure_says_what_a_person_needs():
    facts = JUnitFacts(1, Tests(30, 12), tuple((f"t.py::test_{n}", f"assert {n}\nmore") for n in range(12)))
    tail = b"".join(b"line %d\n" % n for n in range(100))
    rows = block(outcome(Status.FAILED, reason="exit code 1, 12 tests of 30 failed", junit=facts), tail)
    assert rows[:4] == [
        f"FAILED {KEY}",
        "  gpu1, rc=1, 260.1s, estimate 245s",
        "  exit code 1, 12 tests of 30 failed",
        "  t.py::test_0 - assert 0 more",
    ]
    assert "  ... and 2 more failing tests" in rows
    assert [row for row in rows if row.startswith("  | ")] == [f"  | line {n}" for n in range(88, 100)]
    assert rows[-2:] == ["  log: items/x.log", "  again: pytest x"]


@pytest.mark.parametrize(
    "tail",
    [
        b"::error::x\n##[group]\n  ::stop-commands::t\nabc\r::error::y\r\n",
        b"\xff\x9b2J\x00\x1b]0;owned\x07\n",
        "\u2028::error::\x85::error::\n".encode(),
        b"x" * 300_000,
        "text \x1b[31m",
    ],
)
def test_output_gives_no_orders(tail):
    rows = block(outcome(Status.FAILED, reason=HOSTILE, junit=JUnitFacts(1, Tests(1, 1), ((HOSTILE, HOSTILE),))), tail)
    text = "\n".join(rows)
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u202e]", text)
    assert not re.search(r"(?m)^\s*(::|##\[)", text)
    assert max(map(len, rows)) <= 2000


def test_an_item_without_output_and_one_that_never_ran():
    assert "  it printed nothing" in block(outcome(Status.FAILED), b" \n\n")
    never = outcome(Status.NOT_RUN, start=None, stop=None, exit_code=None, reason="stopped")
    rows = block(never, b"", log="", rerun="")
    assert rows == [f"NOT RUN {KEY}", "  stopped"]


def test_the_line_that_proves_a_run_is_not_shown():
    one = outcome(Status.FAILED, key=Key("s", "a.b"))
    tail = b"one\nTE_CI_RAN a.b\t\r\nxTE_CI_RAN a.b\nTE_CI_RAN a.bc\nTE_CI_RAN a.b\n"
    shown = [row for row in block(one, tail) if row.startswith("  | ")]
    assert shown == ["  | one", "  | xTE_CI_RAN a.b", "  | TE_CI_RAN a.bc"]
    assert "  it printed nothing" in block(one, "TE_CI_RAN a.b\n")


@pytest.mark.parametrize(("code", "word"), [(0, "te_ci_program"), (5, "-k")])
def test_a_hint_for_what_ran_nothing_fits_the_reason(code, word):
    (hint,) = [row for row in block(outcome(Status.NO_TESTS, exit_code=code)) if row.startswith("  hint: ")]
    assert word in hint
    assert ("sgpu_allow_empty" in hint, "TE_CI_RAN" in hint) == (code == 0, code == 0)


def test_the_closing_lines():
    some = [
        outcome(),
        outcome(proof="allowed"),
        outcome(junit=JUnitFacts(1, Tests(9, 2))),
        *(outcome(Status.NOT_RUN, key=Key("s", f"t{n}")) for n in range(12)),
    ]
    made = console.closing_lines(some, report="r.md", logs="l", junit="j.xml", weights="w.txt", interrupted="-x")
    rows = [plain(row) for row in made]
    assert rows[0] == "stopped early: -x"
    assert "1 item passed without proof that anything ran (sgpu_allow_empty):" in rows
    assert "12 items not run:" in rows
    assert "  ... and 2 more, in the report" in rows
    assert rows[-4:] == ["report:  r.md", "logs:    l", "junit:   j.xml", "weights: w.txt"]
    assert console.closing_lines([outcome()]) == []


def verdict(suite: str, *statuses: Status) -> Verdict:
    outcomes = tuple(outcome(status, key=Key(suite, str(n))) for n, status in enumerate(statuses))
    return Verdict(suite, 1 if any(s.failed for s in statuses) else 0, outcomes)


def test_the_table_of_suites():
    rows = [plain(row).rstrip() for row in summary.suites_table(
        [verdict("torch", Status.PASSED, Status.PASSED), verdict("jax", Status.FAILED, Status.CRASHED)], 80
    )]  # fmt: skip
    assert rows == [
        "suite  items  passed  failed  crashed    work  verdict",
        "torch      2       2       -        -   8m40s  passed",
        "jax        2       -       1        1   8m40s  exit 1",
        "all        4       2       1        1  17m20s  exit 1",
    ]


def test_one_suite_needs_no_sum_and_no_extra_columns():
    rows = [plain(row) for row in summary.suites_table([verdict("torch", Status.PASSED)], 80)]
    assert len(rows) == 2
    assert rows[0].split() == ["suite", "items", "passed", "failed", "work", "verdict"]


@pytest.mark.parametrize("width", [1, 20, 60, 79, 80, 120, 200])
def test_the_table_fits(width):
    verdicts = [verdict("a-very-long-label" * 4, *Status), verdict("jax", *Status, *Status)]
    rows = [plain(row) for row in summary.suites_table(verdicts, width)]
    assert max(map(len, rows)) <= max(width, 68)
    if width == 80:
        assert any(row.startswith("  other: 1 no tests, 1 timed out") for row in rows)
    if width == 200:
        assert "setup failed" in rows[0]


@given(st.text(), st.integers(-3, 60))
def test_shortened_texts_fit(words, width):
    cut = shorten(words, width)
    assert len(cut) <= max(0, width)
    assert cut == words or len(words) > width


def test_devices_that_never_idle_have_no_idle_line():
    rows = [plain(row) for row in console.utilisation_lines(timeline.build([ran("s/a", "gpu0", 0, 10)]))]
    assert rows == [
        "wall 10.0s, bound 10.0s, efficiency 100.0%, devices busy 100.0%",
        "device    busy  items  idle: first  between  last",
        "gpu0    100.0%      1            -        -     -",
    ]


@pytest.mark.parametrize("pieces", [("::error::x",), ("  ", ("::error::x", "")), (" ", "\u3000:", ":x"), ("\xa0::",)])
def test_no_line_begins_with_an_order(pieces):
    made = plain(line(*pieces))
    assert not made.lstrip().startswith("::")
    assert made.replace(r"\x3a", ":") == "".join(piece if isinstance(piece, str) else piece[0] for piece in pieces)


def test_a_line_with_colons_elsewhere_stays():
    assert line("  ", "a::b", "::c") == (("  ", ""), ("a::b", ""), ("::c", ""))
    assert line(":", "a") == ((":", ""), ("a", ""))


def test_a_line_drops_empty_pieces():
    assert line("a", ("", "fail"), ("b", "dim")) == (("a", ""), ("b", "dim"))


def ran(key: str, device: str, start: float, stop: float) -> Outcome:
    return outcome(key=Key.parse(key), devices=(device,), start=start, stop=stop)


def test_utilisation_names_idle_time_and_its_cause():
    drawn = timeline.build(
        [ran("s/a", "gpu0", 1, 10), ran("s/b", "gpu1", 1, 5), ran("s/c", "gpu1", 6, 8)], ["gpu0", "gpu1", "gpu2"]
    )
    assert [plain(row) for row in console.utilisation_lines(drawn)] == [
        "wall 10.0s, bound 9.0s, efficiency 90.0%, devices busy 50.0%",
        "idle 15.0s: 2.0s before the first item, 1.0s between items, 12.0s after the last",
        "device   busy  items  idle: first  between   last",
        "gpu0    90.0%      1         1.0s        -      -",
        "gpu1    60.0%      2         1.0s     1.0s   2.0s",
        "gpu2     0.0%      0            -        -  10.0s",
    ]
    assert all(len(plain(row)) <= 80 for row in console.utilisation_lines(drawn))


def test_utilisation_of_many_devices_and_of_none():
    many = timeline.build([ran("s/a", "gpu0", 0, 10)], [f"gpu{n}" for n in range(1000)])
    rows = [plain(row) for row in console.utilisation_lines(many)]
    assert len(rows) == 19
    assert rows[-1] == "  ... and 985 more devices, in the report"
    assert console.utilisation_lines(timeline.build([], ["gpu0"])) == []
