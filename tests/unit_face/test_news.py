"""The plain lines between those of the items: attempts, slow items, leaks, devices, the budget."""

from __future__ import annotations

import pytest

from pytest_sgpu.core.messages import LOST, PROBE, QUARANTINE, RETRY
from pytest_sgpu.core.redact import Redactor
from pytest_sgpu.engine.events import ItemSlow
from pytest_sgpu.face.news import attempt_line, device_line, hurried_line, leak_lines, slow_line, stopping_line
from pytest_sgpu.model import Estimate, Item, Key, Leftover, Outcome, Plan, PlanEntry, Status, Worker
from pytest_sgpu.report import budget_text
from pytest_sgpu.report.pieces import plain

KEY = Key("torch", "test_x")
FAILED = Outcome(KEY, Status.FAILED, 1, worker="gpu2", devices=("gpu2",), reason="exit code 1")


RETRIED = "again at the end, on another device"
PROBED = "again at once, on another device, to tell its device from the test"


@pytest.mark.parametrize(
    ("outcome", "why", "told"),
    [
        (FAILED, RETRY, "RETRY torch/test_x failed on gpu2 (exit code 1); again at the end, on another device"),
        (
            FAILED,
            PROBE,
            f"PROBE torch/test_x failed on gpu2 (exit code 1); {PROBED}",
        ),
        (
            Outcome(KEY, Status.LOST, worker="gpu2", devices=("gpu2",), reason="worker gpu2 was killed by SIGKILL"),
            LOST,
            "LOST torch/test_x was lost on gpu2 (worker gpu2 was killed by SIGKILL); again at once, on another device",
        ),
        (
            Outcome(KEY, Status.STOPPED, devices=("gpu2",), reason="gpu2 is quarantined: said already"),
            QUARANTINE,
            "QUARANTINE torch/test_x was ended on gpu2; again at the head of the queue, on another device",
        ),
        (
            Outcome(KEY, Status.NO_TESTS, 0, devices=("gpu0", "gpu1"), reason="ran nothing: no JUnit case"),
            RETRY,
            f"RETRY torch/test_x ran nothing on gpu0,gpu1 (ran nothing: no JUnit case); {RETRIED}",
        ),
        (
            Outcome(KEY, Status.TIMED_OUT),
            RETRY,
            "RETRY torch/test_x timed out on -; again at the end, on another device",
        ),
    ],
)
def test_an_attempt_that_is_over(outcome, why, told):
    assert plain(attempt_line(outcome, why, 2)) == told


def test_with_one_device_there_is_no_other():
    assert plain(attempt_line(FAILED, RETRY, 1)).endswith("; again at the end")
    assert plain(attempt_line(FAILED, LOST, 1)).endswith("; again at once")


def slow(line="waiting for the server", *, seconds=1.5, quiet=0.5):
    worker = Worker("gpu0", ())
    return plain(slow_line(ItemSlow(worker, "s/hang", seconds, 3.0, quiet, line, 7.0)))


def test_an_item_that_is_slow():
    assert slow() == 'SLOW s/hang runs for 1.5 s of 3 s on ; last output 0.5 s ago: "waiting for the server"'
    assert slow("", quiet=1.5).endswith("; no output so far")
    assert slow(" ", quiet=0.5).endswith("; last output 0.5 s ago")


def test_what_an_item_left():
    left = [Leftover(4711, "python server.py"), Leftover(4712, "[kworker]")]
    assert [plain(line) for line in leak_lines("torch/test_x", left, 0.52)] == [
        'LEAK torch/test_x left pid 4711 "python server.py", 0.5 s after its end; killed',
        'LEAK torch/test_x left pid 4712 "[kworker]", 0.5 s after its end; killed',
    ]
    assert leak_lines("torch/test_x", (), 0.0) == []
    many = leak_lines("torch/test_x", [Leftover(n, "x") for n in range(200)], 0.5)
    assert len(many) == 11
    assert plain(many[-1]) == "LEAK torch/test_x left 190 more; killed"


@pytest.mark.parametrize(
    ("reason", "grace", "running", "told"),
    [
        ("stopped by SIGINT", 4.0, 1, ", ending 1 running (up to 4 s; ^C again ends them now)"),
        ("stopped by SIGTERM", 0.5, 2, ", ending 2 running (up to 0.5 s; ^C ends them now)"),
        ("stopping after 1 failures", 4.0, 2, ", ending 2 running (up to 4 s; ^C ends them now)"),
        ("stopped by SIGINT", 0.0, 2, ", ending 2 running now"),
        ("stopped by SIGINT", 4.0, 0, ""),
    ],
)
def test_the_end_of_a_run_says_how_long_it_takes(reason, grace, running, told):
    assert plain(stopping_line(reason, grace, running)) == f"sgpu: {reason}: no new items{told}"


def test_a_second_signal_has_a_line_of_its_own():
    assert plain(hurried_line("SIGINT", 2)) == "sgpu: SIGINT: killing 2 running now, without grace"
    assert plain(hurried_line("SIGTERM", 0)) == "sgpu: SIGTERM: ending now, without grace"


def test_news_of_a_device():
    assert device_line("HELD gpu0: 3 items") == (("HELD ", "warn"), ("gpu0: 3 items", ""))


HOSTILE = "a\x1b[31m\r\n::error::\u202e" + "x" * 5000


@pytest.mark.parametrize(
    "lines",
    [
        [attempt_line(Outcome(Key("s", HOSTILE), Status.FAILED, devices=(HOSTILE,), reason=HOSTILE), RETRY, 2)],
        [slow_line(ItemSlow(Worker("gpu0", ()), HOSTILE, 1.0, 2.0, 0.5, HOSTILE, 1.0))],
        leak_lines(HOSTILE, [Leftover(1, HOSTILE)], 0.5),
        [device_line(HOSTILE)],
        [stopping_line(HOSTILE, 4.0, 1), hurried_line(HOSTILE, 1)],
    ],
)
def test_each_is_one_printable_line_whatever_an_item_wrote(lines):
    for line in lines:
        text = plain(line)
        assert text.isprintable()
        assert len(text) < 3500


# ---------------------------------------------------------------- the budget, before the run


def plan(*seconds, devices=1):
    entries = [
        PlanEntry(rank, Item(Key("s", f"t{rank}"), ("x",), 1, rank), Estimate(one, known=one is not None))
        for rank, one in enumerate(seconds, start=1)
    ]
    return Plan(tuple(entries), devices)


def test_a_plan_that_fits_needs_no_word():
    assert budget_text.lines(plan(30.0, 30.0), 60.0) == []
    assert budget_text.lines(plan(30.0, 30.0, devices=2), 30.0) == []
    assert budget_text.lines(plan(None, None), 1.0) == []


def test_a_plan_that_does_not_fit_is_told_with_what_will_not_run():
    assert budget_text.lines(plan(300.0, 200.0, 100.0), 400.0) == [
        "sgpu: the plan needs 10m00s, 3m20s more than the budget of 6m40s; 2 items will probably not run:",
        "  s/t2 (200s)",
        "  s/t3 (100s)",
    ]
    assert budget_text.lines(plan(300.0, None), 100.0)[0].startswith("sgpu: the plan needs at least 5m00s, 3m20s more")


def test_many_are_counted():
    told = budget_text.lines(plan(*[100.0] * 50), 100.0)
    assert len(told) == 12
    assert told[-1] == "  ... and 39 more"


SECRET = "tok  with\tblanks\x1b[1m \udcff end"


@pytest.mark.parametrize(
    "said", [SECRET, SECRET.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")]
)
def test_a_secret_is_masked_before_the_line_is_made_fit(said):
    clean = Redactor({"A_TOKEN": SECRET}).text
    said = f"x {said} y"
    lines = [
        attempt_line(Outcome(KEY, Status.FAILED, reason=said), RETRY, 2, clean),
        slow_line(ItemSlow(Worker("gpu0", ()), "s/a", 1.0, 2.0, 0.5, said, 1.0), clean),
        *leak_lines("s/a", [Leftover(1, said), Leftover(2, "y" * 150 + said)], 0.5, clean),
    ]
    for line in lines:
        assert "tok" not in plain(line)
    assert 'left pid 1 "x *** y"' in plain(lines[2])
