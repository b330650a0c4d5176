"""GitHub's annotations: at most ten, the most useful first, and nothing of an item can give an order."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from pytest_sgpu.core import timeline
from pytest_sgpu.model import JUnitFacts, Key, Leftover, Outcome, Quarantine, Scope, Status, Tests
from pytest_sgpu.report.annotations import command, lines
from pytest_sgpu.report.view import RunView

COMMAND = re.compile(r"::(error|warning) title=[^:,\n\r]*::[^\n\r]*")


def view_of(*outcomes: Outcome, **more: object) -> RunView:
    return RunView(outcomes, (), (), timeline.build(()), Scope("cpu", "1"), 0.0, 0.0, 0.0, **more)  # type: ignore[arg-type]


def bad(key: str, status: Status = Status.FAILED, reason: str = "exit code 1", *failing: tuple[str, str]) -> Outcome:
    return Outcome(
        Key.parse(key), status, 1, reason=reason, junit=JUnitFacts(1, Tests(len(failing), len(failing)), failing)
    )


def soft(key: str) -> Outcome:
    facts = JUnitFacts(1, Tests(2, 1), (("m::t", "x"),))
    return Outcome(Key.parse(key), Status.PASSED, 0, reason="exit code 0, but 1 test of 2 failed", junit=facts)


def test_a_green_run_says_nothing():
    assert lines(view_of(Outcome(Key("a"), Status.PASSED))) == []


def test_one_failing_item_with_all_that_is_known():
    one = bad("n/fails.1", Status.FAILED, "exit code 1, 1 test of 1 failed", ("m::test_100%[a,b:c]", "first line"))
    view = view_of(one, log_of={"n/fails.1": "items/n.fails.1.log"}, rerun_of={"n/fails.1": "pytest x::n::fails.1"})
    (line,) = lines(view)
    assert line == (
        "::error title=n/fails.1%3A m%3A%3Atest_100%25[a%2Cb%3Ac]::failed: exit code 1, 1 test of 1 failed%0A"
        "m::test_100%25[a,b:c]: first line%0Alog: items/n.fails.1.log%0Aagain: pytest x::n::fails.1"
    )


def test_failing_tests_beyond_three_are_counted():
    one = bad("a/b", Status.FAILED, "exit code 1", *((f"t{n}", "") for n in range(5)))
    assert lines(view_of(one))[0].endswith("%0At0%0At1%0At2%0Aand 2 more failing tests")


def test_the_most_useful_come_first():
    statuses = [Status.NOT_RUN, Status.STOPPED, Status.NO_TESTS, Status.FAILED, Status.LOST, Status.TIMED_OUT]
    some = [bad(f"s/{status.name}", status, "r") for status in statuses]
    named = bad("s/named", Status.FAILED, "r", ("m::t", ""))
    view = view_of(
        *some, named, soft("s/soft"), bad("s/crash", Status.CRASHED, "r"), bad("s/x", Status.SETUP_FAILED, "r")
    )
    titles = [line.split("::")[1] for line in lines(view)]
    assert titles == [
        "error title=s/crash%3A crashed",
        "error title=s/TIMED_OUT%3A timed out",
        "error title=s/LOST%3A lost",
        "error title=s/x%3A setup failed",
        "error title=s/named%3A m%3A%3At",
        "error title=s/FAILED%3A failed",
        "warning title=s/soft%3A m%3A%3At",
        "error title=s/NO_TESTS%3A no tests",
        "error title=s/STOPPED%3A stopped",
        "error title=s/NOT_RUN%3A not run",
    ]


def test_items_that_share_one_cause_share_one_annotation():
    setup = [bad(f"a/{n}", Status.SETUP_FAILED, "setup failed: exit code 3") for n in range(40)]
    other = [bad("b/0", Status.SETUP_FAILED, "setup failed: exit code 3")]
    late = [bad(f"c/{n}", Status.NOT_RUN, "stopped by -x") for n in range(5)]
    first, second, third = lines(view_of(*setup, *other, *late))
    assert first == (
        "::error title=a%2C 40 items%3A setup failed::setup failed: exit code 3%0Aa/0%0Aa/1%0Aa/2%0Aand 37 more items"
    )
    assert second == "::error title=b/0%3A setup failed::setup failed: exit code 3%0Ab/0"
    assert third.startswith("::error title=5 items%3A not run::stopped by -x%0Ac/0")


def test_the_tenth_says_how_many_are_missing():
    assert len(lines(view_of(*(bad(f"a/{n}") for n in range(10))))) == 10
    found = lines(view_of(*(bad(f"a/{n}") for n in range(12)), soft("a/s")))
    assert len(found) == 10
    assert found[-1] == (
        "::error title=3 more items did not pass::3 more items did not pass, "
        "1 more warning%0A"
        "all of them are in report/schedule.md and report/junit.xml of the run directory"
    )
    only = lines(view_of(*(soft(f"a/{n}") for n in range(11))))
    assert only[-1].startswith("::warning title=2 more warnings::2 more warnings%0A")


def test_what_happened_around_the_tests():
    before = Outcome(Key("a", "x"), Status.FAILED, 1, 0.0, 3.0, "w2", ("gpu2",), reason="exit code 1")
    flaky = Outcome(Key("a", "x"), Status.FLAKY, 0, attempt=2, reason="failed on gpu2 (exit code 1), passed on gpu0")
    left = Outcome(Key("a", "l"), Status.PASSED, 0, left=(Leftover(7, "sleep 9"),), late=0.5)
    lost = Outcome(Key("a", "z"), Status.LOST, worker="w1", devices=("gpu1",), attempt=2, reason="killed by signal 9")
    view = view_of(
        flaky,
        left,
        lost,
        attempts={"a/x": (before,)},
        attempt_log_of={("a/x", 1): "logs/attempts/1/items/a.x.log"},
        quarantines=(Quarantine("w2", ("gpu2",), 9.0, "two items failed there"),),
        infrastructure=True,
    )
    seen = "no final failure was seen on a device that is not quarantined"
    assert lines(view) == [
        f"::error title=infrastructure::{seen}: 1 item lost with its worker",
        "::warning title=gpu2%3A quarantined::two items failed there",
        "::error title=a/z%3A lost::lost: killed by signal 9%0Aon gpu1 (worker w1), attempt 2",
        (
            "::warning title=a/x%3A flaky::flaky: failed on gpu2 (exit code 1), passed on gpu0%0A"
            "attempt 1 failed on gpu2 after 3.0s: exit code 1, log logs/attempts/1/items/a.x.log"
        ),
        '::warning title=a/l%3A passed::passed%0Aleft 1 process behind: pid 7 "sleep 9"; killed 0.5 s after its end',
    ]


def test_a_flaky_item_that_fails_the_run_is_an_error():
    (line,) = lines(view_of(Outcome(Key("a"), Status.FLAKY, 0, reason="r", flaky_fails=True)))
    assert line == "::error title=a%3A flaky::flaky: r"


def test_secrets_are_taken_out():
    one = bad("a/b", Status.FAILED, "x s3cr3t-s3cr3t", ("t", "s3cr3t-s3cr3t"))
    text = "\n".join(
        lines(view_of(one, log_of={"a/b": "s3cr3t-s3cr3t"}), lambda said: said.replace("s3cr3t-s3cr3t", "***"))
    )
    assert "s3cr" not in text
    assert text.count("***") == 3


@given(st.text(st.characters(codec=None) | st.sampled_from("\r\n%:,\x1b\x9b\u2028")), st.sampled_from(Status))
def test_every_annotation_is_one_line_and_one_command(text, status):
    one = bad(f"a/{text}", status, text, (text, text))
    view = view_of(one, log_of={str(one.key): text}, rerun_of={str(one.key): text})
    for line in lines(view):
        assert COMMAND.fullmatch(line)
        assert line.isprintable() or "\t" in line or "\xa0" in line or not line.isascii()
        line.encode()


def test_a_command_escapes_what_it_is_given():
    assert command("notice", "a:b,c%\nd", "x\r\ny%0A:,") == "::notice title=a%3Ab%2Cc%25 d::x%0Ay%250A:,"
