"""What a run says of attempts, flaky items, lost workers, leftovers, bad devices, parts, and how to go on."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_sgpu.core import timeline
from pytest_sgpu.core.redact import MASK, Redactor
from pytest_sgpu.core.verdict import verdicts
from pytest_sgpu.model import (
    Estimate,
    JUnitFacts,
    Key,
    Leftover,
    Notice,
    Outcome,
    Part,
    Quarantine,
    Scope,
    Status,
    Tests,
)
from pytest_sgpu.report import console
from pytest_sgpu.report.annotations import lines as annotation_lines
from pytest_sgpu.report.clean import cleaned
from pytest_sgpu.report.markdown import schedule, summary
from pytest_sgpu.report.pieces import plain, style_of
from pytest_sgpu.report.view import RunView

GOLDEN = Path(__file__).parent / "golden" / "trouble.md"
HOSTILE = "\x1b]0;owned\x07\x9b2J\x00\r\n::error::x\n\u202e\u200b\U000e0041\ufe0f|`"
UNSEEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\ufe0f\U000e0000-\U000e007f]")
SECRET = "s3cr3t-s3cr3t-s3cr3t"
GOOD = JUnitFacts(1, Tests(1))


def ended(key: str, status: Status, device: str, start: float, seconds: float, **more: object) -> Outcome:
    known = {
        "exit_code": 0 if status in (Status.PASSED, Status.FLAKY) else 1,
        "worker": f"w{device[-1]}",
        "estimate": Estimate(2.0, known=True),
        "complete": True,
        "proof": "junit",
        "junit": GOOD,
    }
    return Outcome(Key.parse(key), status, start=start, stop=start + seconds, devices=(device,), **{**known, **more})  # type: ignore[arg-type]


def view_of(*outcomes: Outcome, **more: object) -> RunView:
    attempts = [one for some in more.get("attempts", {}).values() for one in some]  # type: ignore[attr-defined]
    lanes = timeline.build(outcomes, ("gpu0", "gpu1", "gpu2"), attempts=attempts)
    known = {"verdicts": verdicts([], outcomes), "devices": ("gpu0", "gpu1", "gpu2"), "timeline": lanes}
    known |= {"scope": Scope("cpu", "1"), "wall": lanes.wall, "bound": lanes.bound, "predicted": 0.0}
    return RunView(outcomes, **{**known, **more})  # type: ignore[arg-type]


def troubled() -> RunView:
    """Give a resumed run in which everything went wrong once."""
    left = (Leftover(4711, "python server.py"), Leftover(4712, "sleep 9"))
    first = ended("t/flaky", Status.FAILED, "gpu2", 0.0, 3.0, reason="exit code 1")
    again = ended("t/other", Status.CRASHED, "gpu2", 3.0, 1.0, exit_code=None, reason="signal 11 (SIGSEGV)")
    lost = ended("t/late", Status.LOST, "gpu1", 0.0, 5.0, exit_code=None, reason="its worker was killed by signal 9")
    before = ended("t/hang", Status.TIMED_OUT, "gpu0", 0.0, 3.0, exit_code=None, reason="stall: no output for 3 s")
    hang = 'deadline: 6 s passed; last output 5 s ago: "waiting for the server"'
    return view_of(
        ended(
            "t/flaky", Status.FLAKY, "gpu0", 5.0, 2.0, attempt=2, reason="failed on gpu2 (exit code 1), passed on gpu0"
        ),
        ended("t/other", Status.FLAKY, "gpu1", 7.0, 2.0, attempt=2, reason="failed on gpu2, passed on gpu1", part=2),
        ended("t/late", Status.PASSED, "gpu0", 8.0, 4.0, attempt=2, part=2),
        ended("t/hang", Status.TIMED_OUT, "gpu1", 9.0, 6.0, attempt=2, exit_code=None, reason=hang, part=2),
        ended("t/leaks", Status.PASSED, "gpu0", 12.0, 1.0, left=left, late=0.5, part=2),
        ended(
            "t/gone", Status.LOST, "gpu2", 9.0, 1.0, exit_code=None, reason="did not finish: controller killed", part=2
        ),
        Outcome(Key("t", "never"), Status.NOT_RUN, reason="the budget of 10s is spent", part=2),
        attempts={"t/flaky": (first,), "t/other": (again,), "t/late": (lost,), "t/hang": (before,)},
        attempt_log_of={("t/flaky", 1): "logs/attempts/1/items/t.flaky.log"},
        log_of={f"t/{tag}": f"logs/items/t.{tag}.log" for tag in ("flaky", "other", "late", "hang", "leaks")},
        tail_of={"t/hang": "waiting for the server\n"},
        rerun_of={"t/hang": "pytest x::t::hang"},
        quarantines=(Quarantine("w2", ("gpu2",), 9.5, "t/flaky and t/other failed there and passed elsewhere"),),
        parts=(Part(1, 1e9, 0.0, "1a2b3c4"), Part(2, 1e9 + 3600, 6.0, "5d6e7f8+changes")),
        interrupted="the budget of 10s is spent",
        notices=(Notice("a notice"),),
    )


def test_the_whole_report_is_as_it_was():
    assert schedule(troubled()) == GOLDEN.read_text(encoding="utf-8")


def closing(view: RunView, **more: object) -> list[str]:
    return [plain(row) for row in console.closing_lines(view.outcomes, view=view, **more)]  # type: ignore[arg-type]


def test_the_last_screen():
    assert closing(troubled(), interrupted="the budget of 10s is spent", report="r.md") == [
        "resumed: 2 parts, and the run covers 2 commits: 1a2b3c4, 5d6e7f8+changes",
        "  part 1, commit 1a2b3c4: 1 result",
        "    t/flaky flaky",
        "  part 2, commit 5d6e7f8+changes: 6 results",
        "    t/other flaky",
        "    t/late passed",
        "    t/hang timed out",
        "    t/leaks passed",
        "    t/gone lost",
        "    t/never not run",
        "stopped early: the budget of 10s is spent",
        "2 items flaky: failed first, passed later:",
        "  t/flaky  failed on gpu2 (exit code 1), passed on gpu0",
        "    attempt 1 failed on gpu2 after 3.0s: exit code 1, log logs/attempts/1/items/t.flaky.log",
        "    attempt 2, log logs/items/t.flaky.log",
        "  t/other  failed on gpu2, passed on gpu1",
        "    attempt 1 crashed on gpu2 after 1.0s: signal 11 (SIGSEGV), log attempts/1/items/t.other.log",
        "    attempt 2, log logs/items/t.other.log",
        "1 item passed after an attempt that was lost or cut off:",
        "  t/late",
        (
            "    attempt 1 was lost on gpu1 (worker w1) after 5.0s: its worker was killed by signal 9, "
            "log attempts/1/items/t.late.log"
        ),
        "    attempt 2, log logs/items/t.late.log",
        "1 item did not pass at any attempt:",
        '  t/hang  deadline: 6 s passed; last output 5 s ago: "waiting for the server"',
        "    attempt 1 timed out on gpu0 after 3.0s: stall: no output for 3 s, log attempts/1/items/t.hang.log",
        "    attempt 2, log logs/items/t.hang.log",
        "1 item left 2 processes behind:",
        (
            '  t/leaks  left 2 processes behind: pid 4711 "python server.py", pid 4712 "sleep 9"; '
            "killed 0.5 s after its end"
        ),
        "quarantined: gpu2 at t+10s: t/flaky and t/other failed there and passed elsewhere",
        "1 item not run:",
        "  t/never",
        "report:  r.md",
        "next:    the same command with --sgpu-resume runs the 2 items without a final outcome",
        "next:    the same command with --lf is a new run of what failed or was stopped",
    ]


def test_what_to_do_next():
    assert closing(replace(troubled(), remembered=False))[-1] == (
        "next:    the same command with --sgpu-resume runs the 2 items without a final outcome"
    )
    red = view_of(ended("t/a", Status.FAILED, "gpu0", 0.0, 1.0))
    assert closing(red) == ["next:    the same command with --lf runs only what did not pass"]
    assert closing(replace(red, remembered=False)) == []
    assert "finalize" not in schedule(troubled())


def test_the_log_of_the_health_command_stands_beside_the_quarantine():
    view = replace(troubled(), health_log_of={"w2": "logs/health/gpu2.log"})
    said = "t/flaky and t/other failed there and passed elsewhere"
    where = f"quarantined: gpu2 at t+10s: {said}, log of the health command logs/health/gpu2.log"
    assert where in closing(view)
    assert f"`gpu2`: `{said}`, log of the health command `logs/health/gpu2.log`\n" in schedule(view)


def test_a_plain_green_run_says_none_of_it():
    view = view_of(ended("t/a", Status.PASSED, "gpu0", 0.0, 1.0), parts=(Part(1, 1e9, 0.0, "1a2b3c4"),))
    assert closing(view) == []
    text = schedule(view)
    for word in ("Flaky", "Tried again", "Processes", "Suspect", "Parts", "Next", "commit", "nfrastructure"):
        assert word not in text
    assert annotation_lines(view) == []


def test_a_suspect_device_that_is_not_in_quarantine():
    view = replace(troubled(), quarantines=(), parts=())
    assert "suspect: gpu2: t/flaky failed there and passed on gpu0" in closing(view)
    assert "- suspect: `gpu2`: `t/other` failed there, passed on `gpu1`" in schedule(view)


@pytest.mark.parametrize(
    ("outcome", "quarantines", "said"),
    [
        (ended("t/a", Status.LOST, "gpu1", 0.0, 1.0), (), "1 item lost with its worker"),
        (Outcome(Key("t"), Status.NOT_RUN, reason="no worker is left"), (), "1 item not run for want of workers"),
        (
            ended("t/a", Status.FAILED, "gpu2", 0.0, 1.0),
            troubled().quarantines,
            "1 item failed only on quarantined devices (gpu2)",
        ),
    ],
)
def test_a_failure_of_infrastructure_is_named(outcome, quarantines, said):
    view = view_of(outcome, quarantines=quarantines, infrastructure=True)
    head = "no final failure was seen on a device that is not quarantined"
    assert closing(view)[0] == f"infrastructure: {head}: {said}"
    assert f"**Infrastructure**: `{head}: {said}`" in schedule(view)
    assert annotation_lines(view)[0].startswith(f"::error title=infrastructure::{head}: ")


def test_flaky_items_that_fail_the_run():
    view = view_of(ended("t/a", Status.FLAKY, "gpu0", 0.0, 1.0, reason="r", flaky_fails=True))
    assert closing(view)[0] == "1 item flaky: failed first, passed later (sgpu-flaky=fail: it fails the run):"
    assert "fails this run (`--sgpu-flaky=fail`)" in schedule(view)
    assert "## Failed items (1)" in schedule(view)


def test_a_resume_on_one_commit_and_one_without_any():
    one = [Part(n, 0.0, 0.0, "1a2b3c4") for n in (1, 2, 3)]
    view = replace(troubled(), parts=tuple(one))
    assert closing(view)[0] == "resumed: 3 parts, all of commit 1a2b3c4"
    assert "`resumed 2 times: 3 parts, all of commit 1a2b3c4`" in schedule(view)
    none = replace(troubled(), parts=(Part(1, 0.0, 0.0), Part(2, 1e300, 0.0)))
    assert closing(none)[0] == "resumed: 2 parts"
    assert "| 2 | - | 0.0s | - | 6 |" in schedule(none)


def test_many_results_of_a_part_are_counted():
    some = [ended(f"t/{n}", Status.PASSED, "gpu0", n, 1.0) for n in range(100)]
    rows = closing(view_of(*some, parts=troubled().parts))
    assert rows[1] == "  part 1, commit 1a2b3c4: 100 results"
    assert rows[42] == "    ... and 60 more, in the report"


def test_the_parts_that_a_job_summary_drops_are_counted():
    text = schedule(troubled())
    cut = summary(text, 1500)
    assert "the run covers 2 commits" in cut
    assert "for want of room" in cut


def test_a_failure_block_names_worker_and_leftovers():
    gone = next(one for one in troubled().outcomes if one.status is Status.LOST)
    left = tuple(Leftover(n, "" if n == 2 else f"python {'x' * 300} {n}") for n in range(1, 9))
    gone = replace(gone, left=(Leftover(4711, "python server.py"), *left), late=0.5)
    rows = [plain(row) for row in console.failure_block(gone, b"", "l.log", "")]
    assert rows[:5] == [
        "LOST t/gone",
        "  gpu2, worker w2, 1.0s, estimate 2.0s",
        "  did not finish: controller killed",
        "  it printed nothing",
        '  LEAK t/gone left pid 4711 "python server.py", 0.5 s after its end; killed',
    ]
    assert rows[5].endswith('...", 0.5 s after its end; killed')
    assert rows[6] == "  LEAK t/gone left pid 2, 0.5 s after its end; killed"
    assert rows[-2:] == ["  LEAK t/gone left 4 more, 0.5 s after its end; killed", "  log: l.log"]
    assert len(rows) == 11


def test_the_style_of_a_flaky_item():
    assert style_of(Status.FLAKY) == "warn"
    for fails, style in ((False, "warn"), (True, "fail")):
        one = ended("t/a", Status.FLAKY, "gpu0", 0, 1, flaky_fails=fails)
        assert style in [piece[1] for piece in console.finished_line(one, "", 1, 1, 80)]


# ---------------------------------------------------------------- text of strangers


def hostile(text: str) -> RunView:
    """Give the troubled run with a text in the place of every word that comes from elsewhere."""
    view = troubled()

    def outcome(one: Outcome) -> Outcome:
        facts = JUnitFacts(1, Tests(1, 1), ((text, text),), damage=text, warnings=(text,))
        left = (Leftover(7, text),)
        return replace(one, key=Key("t", f"{one.key.tag}{text}"), reason=text, junit=facts, left=left, worker=text)

    outcomes = tuple(map(outcome, view.outcomes))
    names = {str(one.key): str(outcome(one).key) for one in view.outcomes}
    return replace(
        view,
        outcomes=outcomes,
        verdicts=verdicts([text], [*outcomes, replace(outcomes[0], key=Key(text, text))]),
        attempts={names[key]: tuple(map(outcome, some)) for key, some in view.attempts.items()},
        attempt_log_of={(names[key], number): text for (key, number) in view.attempt_log_of},
        log_of={names[key]: text for key in view.log_of},
        tail_of={names[key]: f"{text}\n{text}".encode("utf-8", "surrogatepass") for key in view.tail_of},
        rerun_of={names[key]: text for key in view.rerun_of},
        quarantines=(Quarantine(text, (), 1.0, text),),
        health_log_of={text: text},
        parts=tuple(replace(part, commit=text) for part in view.parts),
        interrupted=text,
        notices=(Notice(text, text),),
        title=text,
    )


def everything(view: RunView, clean: Redactor | None = None) -> list[str]:
    """Give all lines that a run shows of a view."""
    take = {"clean": clean.text} if clean else {}
    rows = schedule(view, **take).split("\n") + annotation_lines(view, **take)
    rows += [plain(row) for row in console.closing_lines(view.outcomes, view=view, report="r", **take)]  # type: ignore[arg-type]
    for one in view.outcomes:
        tail = view.tail_of.get(str(one.key), "")
        block = console.failure_block(one, tail, "log", "again", **take)  # type: ignore[arg-type]
        rows += map(plain, block)
    return rows


@given(
    st.sampled_from([HOSTILE, "::error::x", "x ##[error]x", "##[", "\r::x"])
    | st.text(st.characters(codec=None), max_size=9)
)
def test_no_text_gives_orders_or_hides(text):
    rows = everything(hostile(text))
    for row in rows:
        assert not UNSEEN.search(row)
        assert "\n" not in row
        assert not row.lstrip().startswith("::") or row.startswith(("::error title=", "::warning title="))
        assert "##[" not in row
        row.encode()


def test_no_secret_is_left_anywhere():
    view = hostile(f"a {SECRET}{SECRET} https://u:{SECRET}@h/?token=x b")
    redactor = Redactor({"A_TOKEN": SECRET})
    text = "\n".join(everything(view, redactor))
    assert SECRET not in text
    assert "s3cr3t" not in text
    assert "?token=x" not in text
    assert text.count(MASK) > 60
    assert "".join(everything(cleaned(view, redactor.text))).count("s3cr3t") == 0


def test_a_secret_across_a_cut_is_taken_out_whole():
    view = view_of(
        ended("t/a", Status.FAILED, "gpu0", 0, 1, reason="x" * 490 + SECRET),
        tail_of={"t/a": b"y" * 1790 + SECRET.encode()},
    )
    assert "s3cr" not in schedule(view, Redactor({"A_TOKEN": SECRET}).text)
