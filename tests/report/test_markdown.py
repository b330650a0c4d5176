"""The report as Markdown: what it says, that no name can break it, and the part of it that fits a job summary."""

from __future__ import annotations

import html
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from pytest_sgpu.core import timeline
from pytest_sgpu.core.verdict import verdicts
from pytest_sgpu.model import Estimate, JUnitFacts, Key, Notice, Outcome, Scope, Status, Tests
from pytest_sgpu.report.markdown import schedule, summary
from pytest_sgpu.report.md_text import cell, code, fence
from pytest_sgpu.report.view import RunView

GOLDEN = Path(__file__).parent / "golden" / "schedule.md"
HOSTILE = [
    "<img/src=x/onerror=document.title='owned'>",
    "a|b|c",
    "a\\|b\\\\|c|",
    "`tick`",
    "``` three",
    "`",
    "</script><script>document.title='owned'</script>",
    "<!--",
    "{{7*7}}",
    "**bold**_it_[link](javascript:alert(1))",
    "https://example.org/x www.example.org @somebody #12 a@b.org",
    "$`x`$",
    "&lt;b&gt;",
    "\\",
    "# head",
    "|",
]


def view_of(*outcomes: Outcome, **more: object) -> RunView:
    lanes = timeline.build(outcomes, ("gpu0", "gpu1"))
    known = {
        "outcomes": outcomes,
        "verdicts": verdicts([], outcomes),
        "devices": ("gpu0", "gpu1"),
        "timeline": lanes,
        "scope": Scope("cpu", "1"),
        "wall": lanes.wall,
        "bound": lanes.bound,
        "predicted": 0.0,
    }
    return RunView(**{**known, **more})  # type: ignore[arg-type]


def outcome(key: str, status: Status = Status.PASSED, start: float | None = 0.0, seconds: float = 1.0, **more: object):
    known = {
        "exit_code": 0 if status is Status.PASSED else 1,
        "start": start,
        "stop": None if start is None else start + seconds,
        "devices": () if start is None else ("gpu0",),
        "complete": True,
        "proof": "junit",
        "estimate": Estimate(1.0, known=True),
        "junit": JUnitFacts(1, Tests(1)),
    }
    return Outcome(Key.parse(key), status, **{**known, **more})  # type: ignore[arg-type]


def small() -> RunView:
    """Give a run in which something of every kind happened."""
    two_bad = JUnitFacts(1, Tests(3, 2), (("tests.norms::test_a[x|y]", "tensors differ"), ("tests.norms::test_b", "")))
    odd = "1 time that cannot be read left out, first 'nan'"
    one_bad = JUnitFacts(1, Tests(2, 1), (("m::t", "x"),), warnings=(odd,))
    on_gpu1: dict[str, Any] = {"devices": ("gpu1",)}
    return view_of(
        outcome("torch/numerics", seconds=100.0, estimate=Estimate(90.0, known=True)),
        outcome("torch/norms", Status.FAILED, 100.0, 20.0, reason="exit code 1, 2 tests of 3 failed", junit=two_bad),
        outcome("torch/hang", Status.CRASHED, 0.0, 30.0, exit_code=None, reason="signal 11 (SIGSEGV)", **on_gpu1),
        outcome("torch/bench", start=30.0, proof="allowed", reason="ran without proof", junit=JUnitFacts(), **on_gpu1),
        outcome("jax/soft", start=31.0, reason="exit code 0, but 1 test of 2 failed", junit=one_bad, **on_gpu1),
        outcome("jax/late", Status.NOT_RUN, None, reason="stopped by -x"),
        predicted=118.0,
        interrupted="stopped by -x",
        notices=(Notice("dropped: no number", "weights.txt:3"),),
        log_of={"torch/norms": "items/torch.norms.log", "torch/hang": "items/torch.hang.log"},
        tail_of={"torch/norms": "one\n```\n::error::planted\ntwo\n", "torch/hang": b"\xff\x1b[31m"},
        rerun_of={"torch/norms": "pytest -p sgpu --sgpu-conf=ci.conf 'ci.conf::torch::norms'"},
    )


def test_the_whole_report_is_as_it_was():
    assert schedule(small()) == GOLDEN.read_text(encoding="utf-8")


def test_a_run_without_anything():
    text = schedule(view_of(verdicts=(), devices=(), timeline=timeline.build(())))
    assert text == "# pytest-sgpu\n\n**nothing ran** of 0 items in 0.0s: utilisation 0% of 0 devices, bound 0.0s.\n"


def test_a_green_run_has_no_section_of_failures():
    text = schedule(view_of(outcome("a/b")))
    assert "Failed" not in text
    assert "**1 passed** of 1 item" in text


def test_the_head_line_says_that_passes_are_only_skips():
    skips = JUnitFacts(1, Tests(3, skipped=3))
    text = schedule(view_of(outcome("a/b", junit=skips), outcome("a/c", junit=skips), outcome("c/d")))
    assert "**3 passed (2 with every test skipped)** of 3 items" in text
    assert "| suite | items | passed | failed | tests | skipped | work | verdict |" in text
    assert "| `a` | 2 | 2 | - | 6 | 6 | 2.0s | passed |" in text
    assert "| `c` | 1 | 1 | - | 1 | - | 1.0s | passed |" in text


def test_the_line_that_proves_a_run_is_no_last_line():
    bad = outcome("a/b", Status.FAILED)
    text = schedule(view_of(bad, tail_of={"a/b": b"TE_CI_RAN c\nboom\nTE_CI_RAN b \r\n"}))
    assert "```text\n  | TE_CI_RAN c\n  | boom\n```" in text


def test_guesses_shares_and_the_item_that_sets_the_bound():
    long = outcome("a/long", seconds=10.0, estimate=Estimate(0.0, known=True))
    short = outcome("a/short", devices=("gpu1",), estimate=Estimate(2.0, known=False))
    bad = outcome("a/bad", Status.FAILED, 1.0, devices=(), worker="gpu1", estimate=Estimate(2.0, known=False))
    none = outcome("a/none", Status.FAILED, 2.0, devices=("gpu1",), estimate=Estimate(None, known=False))
    text = schedule(view_of(long, short, bad, none))
    assert "sets the bound" in text
    assert "| guess 2.0s | 1.0s | -1.0s | 0.50 |" in text
    assert "| 0.0s | 10.0s | +10.0s | - |" in text
    assert "(estimate none, guess 2.0s)" in text
    assert "(estimate none)" in text


def test_a_failed_item_that_never_started_and_more_failing_tests_than_are_named():
    setup = outcome("a/b", Status.SETUP_FAILED, None, reason="the suite's setup failed: exit code 3")
    many = outcome("a/c", Status.FAILED, junit=JUnitFacts(1, Tests(30, 30), (("m::t", "x"),)))
    text = schedule(view_of(setup, many))
    assert "- **setup failed**\n- reason: `the suite's setup failed: exit code 3`" in text
    assert "- and 29 more failing tests" in text


def test_only_the_worst_estimates_and_last_lines_are_shown():
    many = [outcome(f"a/{n}", Status.FAILED, seconds=1.0 + n) for n in range(30)]
    text = schedule(view_of(*many, tail_of={"a/0": "\n".join(f"line {n}" for n in range(100))}))
    assert "(the worst 20 of 30)" in text
    assert "  | line 80\n" in text
    assert "line 79\n" not in text


@pytest.mark.parametrize("name", HOSTILE)
def test_names_are_text_wherever_they_stand(name):
    text = schedule(hostile_view(name))
    rendered = render(text)
    assert rendered.elements <= {
        "h1", "h2", "h3", "p", "strong", "ul", "li", "code", "pre", "table", "thead", "tbody", "tr", "th", "td",
    }  # fmt: skip
    assert rendered.rows == {7, 5}, "every row of a table has as many cells as its head"
    assert rendered.text.count(name) >= 9


def hostile_view(name: str) -> RunView:
    facts = JUnitFacts(1, Tests(1, 1), ((name, name),), warnings=(name,))
    bad = outcome(f"s/{name}", Status.FAILED, seconds=3.0, junit=facts, reason=name)
    return view_of(
        bad,
        outcome(f"t/{name}", proof="allowed", devices=(name,)),
        outcome(f"{name}", Status.NOT_RUN, None),
        verdicts=verdicts([name], [bad, outcome(name)]),
        title=name,
        interrupted=name,
        notices=(Notice(name, name),),
        log_of={f"s/{name}": name},
        tail_of={f"s/{name}": f"{name}\n```\n</pre></details>\n````\n{name}"},
        rerun_of={f"s/{name}": name},
    )


class Rendered(HTMLParser):
    """What a page made of the Markdown holds: elements, text, and the cells per row."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.elements: set[str] = set()
        self.text = ""
        self.rows: set[int] = set()
        self._cells = 0
        self.feed(source)

    def handle_starttag(self, tag, attrs):
        self.elements.add(tag)
        self._cells = 0 if tag == "tr" else self._cells + (tag in {"td", "th"})

    def handle_endtag(self, tag):
        if tag == "tr":
            self.rows.add(self._cells)

    def handle_data(self, data):
        self.text += data


def render(text: str) -> Rendered:
    return Rendered(MarkdownIt("commonmark", {"html": True}).enable("table").render(text))


@given(st.text(st.sampled_from("a`|\\ <>[]*_&~#$-\n\t"), min_size=1, max_size=12))
@example("###a[##[#[")
def test_a_code_span_and_a_cell_give_back_their_text(text):
    shown = re.sub(r"##(?=a*\[)", r"#\\x23", text).replace("\n", "\\x0a")  # an order to a CI service is none any more
    inline = MarkdownIt("commonmark").renderInline(f"x {code(text)} x")
    (found,) = re.findall(r"<code>(.*?)</code>", inline, re.DOTALL)
    assert squeezed(html.unescape(found)) == squeezed(shown)
    page = render(f"| a | b |\n| --- | --- |\n| {cell(text)} | end |\n")
    assert page.rows == {2}
    assert page.elements <= {"table", "thead", "tbody", "tr", "th", "td", "code"}
    assert squeezed(page.text) == squeezed("a b " + shown + "end")


def squeezed(text: str) -> str:
    return re.sub(r"\s+", "", text)


def test_an_empty_text_is_no_code():
    assert code("") == cell("") == ""


@given(st.text(st.sampled_from("`~a \n|<"), max_size=40))
def test_nothing_closes_a_fence_from_inside(text):
    page = MarkdownIt("commonmark").parse(fence(text) + "\n\nafter\n")
    assert [token.type for token in page] == ["fence", "paragraph_open", "inline", "paragraph_close"]


def test_no_line_is_longer_than_two_thousand_characters():
    long = "x" * 200_000
    bad = outcome(f"s/{long}", Status.FAILED, reason=long, junit=JUnitFacts(1, Tests(1, 1), ((long, long),)))
    text = schedule(view_of(bad, tail_of={str(bad.key): f"{long}\nafter"}, log_of={str(bad.key): long}))
    assert max(map(len, text.splitlines())) <= 2000
    assert "characters cut]" in text
    assert "\n  | after\n" in text


def many(number: int, lines: int = 12) -> RunView:
    keys = [f"suite/test_a_rather_long_name.number_{n}" for n in range(number)]
    return view_of(
        *(outcome(key, Status.FAILED, reason="exit code 1") for key in keys),
        tail_of=dict.fromkeys(keys, ("\u221e" * 60 + "\n") * lines),
        rerun_of={key: f"pytest -p sgpu x::{key}" for key in keys},
    )


def test_a_summary_that_fits_is_the_report():
    text = schedule(small())
    assert summary(text, len(text.encode())) == text


def test_a_summary_keeps_the_head_and_the_first_failures_and_counts_the_rest():
    text = schedule(many(400))
    cut = summary(text, 100_000, "logs/report/`x`.md")
    assert len(cut.encode()) <= 100_000
    assert cut.startswith(text[: text.index("\n## ")])
    assert "pytest -p sgpu x::suite/test_a_rather_long_name.number_0`" in cut
    shown = cut.count("\n### ")
    assert f"**Not shown here: {400 - shown} more failed items" in cut
    assert "``logs/report/`x`.md``" in cut
    assert "## Suites" in cut
    assert cut.count("```") % 2 == 0


def test_a_summary_gives_up_last_lines_before_rerun_lines():
    text = schedule(many(3, lines=20))
    cut = summary(text, len(text.encode()) // 2)
    assert cut.count("- again: ") == 3
    assert cut.count("```text") < 3


@pytest.mark.parametrize("room", [-5, 0, 10, 200])
def test_no_room_no_summary(room):
    assert summary(schedule(many(50)), room) == ""


def test_a_summary_without_failures_drops_the_sections_that_do_not_fit():
    text = schedule(view_of(*(outcome(f"a/{n}", Status.NOT_RUN, None, reason="x" * 100) for n in range(500))))
    cut = summary(text, 2_000)
    assert "500 not run" in cut
    assert "**Not shown here: 1 section, for want of room.**" in cut


@given(st.integers(-10, 30_000))
def test_a_summary_never_exceeds_its_room(room):
    cut = summary(TEXT, room)
    assert len(cut.encode()) <= max(0, room)


TEXT = schedule(many(12))
