"""The aggregate: one suite per item, names that occur once, exact totals, and what an item says of itself."""

from __future__ import annotations

import io
import re
from collections import Counter
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_sgpu.core.verdict import Policy, judge
from pytest_sgpu.model import Ending, Estimate, JUnitFacts, Key, Leftover, Outcome, Part, Status, Tests
from pytest_sgpu.report.junit_past import CASES_KEPT
from pytest_sgpu.report.junit_read import facts
from pytest_sgpu.report.junit_write import Earlier, ItemXml, write

GOOD = (
    '<testsuite><testcase classname="m" name="a" time="0.1"/><testcase classname="m" name="b" time="0.2"/></testsuite>'
)
CUT = (
    '<testsuites><testsuite tests="9"><testcase classname="m" name="one"/>'
    '<testcase classname="m" name="two"><failure message="wrong">1 == 2</failure></testcase>'
    '<testcase classname="m" name="three"/><testcase classname="m" name="fo'
)


def item(key: str, *bodies: str, code: int | None = 0, signal: int | None = None, ran: bool = False, **more: object):
    """Judge an item as a run does, and give it for the aggregate."""
    ending = Ending(code, signal, 2.0, 3.5, ran=ran)
    found = facts([io.BytesIO(body.encode()) for body in bodies])
    opaque = "/" not in key
    outcome = judge(
        Key.parse(key), ending, found, Policy(), opaque=opaque, devices=("gpu0",), estimate=Estimate(2.0, True)
    )
    return ItemXml(outcome, [io.BytesIO(body.encode()) for body in bodies], **more)  # type: ignore[arg-type]


def written(*items: ItemXml, **more: float) -> ET.Element:
    out = io.BytesIO()
    total = write(out, items, **more)  # type: ignore[arg-type]
    root = ET.fromstring(out.getvalue())
    check(root, total)
    return root


def check(root: ET.Element, total: Tests) -> None:
    """What holds for every aggregate: totals equal counts, names once, no nesting, strict times."""
    assert root.tag == "testsuites"
    counts(root, total)
    assert {child.tag for child in root} <= {"testsuite"}
    for suite in root:
        counts(suite)
        assert not suite.findall(".//testsuite")
    names = Counter((case.get("classname"), case.get("name")) for case in root.iter("testcase"))
    assert not [name for name, number in names.items() if number > 1]
    assert len({suite.get("name") for suite in root}) == len(root)
    assert all(case.get("name") for case in root.iter("testcase"))
    for element in root.iter():
        assert re.fullmatch(r"\d+\.\d{3}", element.get("time", "0.000"))


def counts(element: ET.Element, total: Tests | None = None) -> None:
    cases = list(element.iter("testcase"))
    kinds = [[child.tag for child in case if child.tag in {"failure", "error", "skipped"}] for case in cases]
    assert all(len(found) <= 1 for found in kinds)
    kind = Counter(found[0] for found in kinds if found)
    counted = Tests(len(cases), kind["failure"], kind["error"], kind["skipped"])
    claimed = Tests(*(int(element.get(name, "")) for name in ("tests", "failures", "errors", "skipped")))
    assert claimed == counted
    assert total is None or total == counted


def only_case(root: ET.Element) -> tuple[str | None, str | None, str, str]:
    (case,) = root.iter("testcase")
    results = [child for child in case if child.tag != "system-out"]
    kind = results[0].tag if results else ""
    return case.get("classname"), case.get("name"), kind, results[0].get("message", "") if results else ""


def test_a_suite_per_item_with_names_that_tell_it():
    root = written(item("torch/x.ck", GOOD), item("jax/x.ck", GOOD), started=0.0)
    assert [suite.get("name") for suite in root] == ["torch/x.ck", "jax/x.ck"]
    assert [case.get("classname") for case in root.iter("testcase")] == ["torch/x.ck.m"] * 2 + ["jax/x.ck.m"] * 2
    assert root[0].get("time") == "1.500"
    assert root.get("time") == "3.000"
    assert root[0].get("timestamp") == "1970-01-01T00:00:02+00:00"
    properties = {p.get("name"): p.get("value") for p in root[0].iter("property")}
    assert properties == {"gpu": "gpu0", "estimate": "2.0", "exit_code": "0", "status": "passed", "attempt": "1"}


def test_more_properties_and_no_start():
    outcome = Outcome(Key("a", "b"), Status.NOT_RUN, reason="stopped")
    root = written(ItemXml(outcome, log="items/a.b.log", properties={"who": 'x"<y'}), started=5.0)
    assert root[0].get("timestamp") is None
    properties = {p.get("name"): p.get("value") for p in root[0].iter("property")}
    assert properties["log"] == "items/a.b.log"
    assert properties["who"] == 'x"<y'
    assert properties["exit_code"] == "none"
    assert properties["gpu"] == "none"
    assert properties["estimate"] == "unknown"


def test_files_that_are_empty_hollow_or_cut_off():
    """Six items: 2 whole cases, three that ran nothing, and one file cut off behind three cases, twice."""
    hollow = '<testsuites tests="25" failures="3"><testsuite tests="25" failures="3"/></testsuites>'
    root = written(
        item("h/good", GOOD),
        item("h/zero", ""),
        item("h/counts", hollow),
        item("h/bare", "<testsuites/>"),
        item("h/cut", CUT),
        item("h/cutcrash", CUT, code=None, signal=11),
    )
    assert [root.get(name) for name in ("tests", "failures", "errors", "skipped")] == ["13", "2", "5", "0"]
    told = {
        suite.get("name"): "".join(e.get("message", "") + (e.text or "") for e in suite.iter("error")) for suite in root
    }
    assert "empty file (0 bytes)" in told["h/zero"]
    assert "only counts in attributes" in told["h/counts"]
    assert "no test case in it" in told["h/bare"]
    assert "cut off after 3 whole cases" in told["h/cut"]
    assert "signal 11" in told["h/cutcrash"]
    assert "cut off after 3 whole cases" in told["h/cutcrash"]


@pytest.mark.parametrize(
    ("status", "proof", "kind"),
    [
        (Status.PASSED, "ran", ""),
        (Status.PASSED, "opaque", ""),
        (Status.PASSED, "allowed", "skipped"),
        (Status.FAILED, "", "failure"),
        (Status.FLAKY, "ran", ""),
        (Status.FLAKY, "allowed", "skipped"),
        *((status, "", "error") for status in Status if status not in {Status.PASSED, Status.FAILED, Status.FLAKY}),
    ],
)
def test_an_item_without_cases_is_one_case(status, proof, kind):
    outcome = Outcome(Key("a", "b"), status, reason="the reason", proof=proof)
    classname, name, found, message = only_case(written(ItemXml(outcome)))
    assert (classname, name, found) == ("a/b", "b", kind)
    assert ("the reason" in message) == bool(kind)


def test_an_opaque_item_is_named_by_its_suite():
    assert only_case(written(item("core")))[:3] == ("core", "core", "")


def test_a_passed_item_whose_file_is_gone_is_not_a_passed_case():
    outcome = Outcome(Key("a", "b"), Status.PASSED, 0, proof="junit", junit=JUnitFacts(1, Tests(7)))
    *_, kind, message = only_case(written(ItemXml(outcome, ["/nowhere/x.xml"])))
    assert (kind, message) == ("skipped", "passed, but its JUnit file is gone: 7 tests not shown")


def test_an_item_that_passed_with_failing_cases_says_so_in_a_property():
    bad = GOOD.replace('name="b" time="0.2"/>', 'name="b"><failure/></testcase>')
    root = written(item("a/b", bad))
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("2", "1", "0")
    assert "1 test of 2 failed" in {p.get("name"): p.get("value") or "" for p in root.iter("property")}["warning"]


@pytest.mark.parametrize(
    ("code", "signal", "extra"),
    [(0, None, False), (1, None, True), (139, None, True), (None, 9, True)],
)
def test_an_extra_case_says_what_no_case_shows(code, signal, extra):
    root = written(item("a/b", GOOD, code=code, signal=signal, tail="the end\n", log="x.log"))
    assert root.get("tests") == ("3" if extra else "2")
    assert len(list(root.iter("error"))) == extra
    for error in root.iter("error"):
        assert (error.text or "").endswith("log: x.log\nlast lines:\nthe end")


def test_no_extra_case_where_a_failing_case_explains_the_exit_code():
    bad = GOOD.replace('name="b" time="0.2"/>', 'name="b"><failure/></testcase>')
    assert written(item("a/b", bad, code=1)).get("tests") == "2"


def test_damage_of_a_passed_item_is_told_too():
    outcome = Outcome(Key("a", "b"), Status.PASSED, 0, proof="junit")
    root = written(ItemXml(outcome, [io.BytesIO(CUT.encode())]))
    assert [e.get("message") for e in root.iter("error")] == ["JUnit file: cut off after 3 whole cases"]


def test_the_end_of_the_log_is_asked_for_only_where_it_is_shown():
    def never() -> str:
        raise AssertionError

    written(item("a/b", GOOD, tail=never))
    root = written(item("a/b", code=1, tail=lambda: b"bytes \xff\x1b[31m \x00 ]]>"))
    assert "bytes \\xff\\x1b[31m \\x00 ]]>" in (next(root.iter("failure")).text or "")


def test_the_line_that_proves_a_run_is_no_last_line():
    one = item("a/b", code=3, ran=True, tail=b"TE_CI_RAN c\nboom\nTE_CI_RAN b\n")
    (failure,) = written(one).iter("failure")
    assert (failure.text or "").endswith("last lines:\nTE_CI_RAN c\nboom")


def test_class_names_of_two_items_that_would_meet_are_told_apart():
    here = '<testsuite><testcase classname="b" name="t"/><testcase classname="" name="u"/></testsuite>'
    there = '<testsuite><testcase name="t"/><testcase classname="" name="b"/></testsuite>'
    for keys in (("s/a", "s/a.b"), ("s/a.b", "s/a")):
        bodies = {"s/a": here, "s/a.b": there}
        root = written(*(item(key, bodies[key], code=1) for key in keys))
        assert root.get("tests") == "6"
    written(
        *(
            item(key, "<testsuite><testcase classname='b.c.d' name='t'/></testsuite>")
            for key in ("s/a", "s/a.b", "s/a.b.c")
        )
    )


def test_the_items_own_case_avoids_the_names_of_its_cases():
    body = '<testsuite><testcase name="b"/><testcase name="b (item)"/></testsuite>'
    names = [case.get("name") for case in written(item("a/b", body, code=1)).iter("testcase")]
    assert names == ["b", "b (item)", "b (item 2)"]


def test_items_that_look_the_same_are_told_apart():
    same = [ItemXml(Outcome(Key("a", tag), Status.PASSED, proof="ran")) for tag in ("x\x9b", "x\\x9b", "x\\x9b")]
    assert [suite.get("name") for suite in written(*same)] == ["a/x\\x9b", "a/x\\x9b [2]", "a/x\\x9b [3]"]


def test_what_a_case_holds_is_kept():
    body = (
        '<testsuite><testcase classname="m" name="t" file="f.py" line="3"><properties><property name="k" value="v"/>'
        '</properties><failure type="T" message="a&#10;b">x &lt; y ]]&gt;</failure>'
        '<rerunFailure message="r">once</rerunFailure>'
        "<system-out>out\nline\x9b<b>c</b>d</system-out><system-err/></testcase></testsuite>"
    )
    (case,) = written(item("a/b", body, code=1)).iter("testcase")
    assert (case.get("file"), case.get("line")) == ("f.py", "3")
    assert [child.tag for child in case] == ["failure", "properties", "rerunFailure", "system-out", "system-err"]
    assert case[0].attrib == {"message": "a\nb", "type": "T"}
    assert case[0].text == "x < y ]]>"
    assert "".join(case[3].itertext()) == "out\nline\\x9bcd"


def test_cases_inside_a_case_are_not_counted_by_anybody():
    body = (
        '<testsuite><testcase name="t" xmlns="u"><testcase name="u"><failure/></testcase>'
        "<properties><skipped/><testsuite/></properties></testcase></testsuite>"
    )
    root = written(item("a/b", body))
    assert root.get("tests") == "1"
    assert not list(root.iter("skipped"))


def test_text_and_binary_streams_get_the_same(tmp_path):
    def items() -> list[ItemXml]:
        return [item("a/\u221e", GOOD), item("a/b", CUT)]

    plain, text = io.BytesIO(), io.StringIO()
    write(plain, items())
    write(text, items())
    path = tmp_path / "j.xml"
    with path.open("w", encoding="utf-8") as stream:
        write(stream, items())
    assert plain.getvalue() == text.getvalue().encode() == path.read_bytes()


def test_more_cases_than_one_batch():
    body = (
        "<testsuite>" + "".join(f'<testcase classname="c{n % 3}" name="t{n}"/>' for n in range(2500)) + "</testsuite>"
    )
    assert written(item("a/b", body)).get("tests") == "2500"


# ---------------------------------------------------------------- attempts and parts

FAILING = GOOD.replace('name="b" time="0.2"/>', 'name="b"><failure message="off" type="E">by 3</failure></testcase>')


def attempt(status: Status, *bodies: str, number: int = 1, reason: str = "exit code 1", **more: object) -> Earlier:
    outcome = Outcome(
        Key("a", "b"), status, 1, 0.0, 3.0, f"w{number}", (f"gpu{number}",), attempt=number, reason=reason
    )
    return Earlier(outcome, [io.BytesIO(body.encode()) for body in bodies], **more)  # type: ignore[arg-type]


def last(status: Status, *bodies: str, earlier: tuple[Earlier, ...] = (), **more: object) -> ItemXml:
    outcome = Outcome(
        Key("a", "b"), status, 0, 4.0, 5.0, "w0", ("gpu0",), attempt=len(earlier) + 1, proof="ran", reason="said",
        **more,  # type: ignore[arg-type]
    )  # fmt: skip
    return ItemXml(outcome, [io.BytesIO(body.encode()) for body in bodies], earlier=earlier)


def past(root: ET.Element) -> list[tuple[str | None, str, str | None, str]]:
    tags = ("flakyFailure", "flakyError", "rerunFailure", "rerunError")
    return [
        (case.get("name"), child.tag, child.get("message"), child.findtext("stackTrace", ""))
        for case in root.iter("testcase")
        for child in case
        if child.tag in tags
    ]


def test_a_flaky_item_counts_as_passed_and_its_failure_stands_in_its_case():
    root = written(last(Status.FLAKY, GOOD, earlier=(attempt(Status.FAILED, FAILING, log="attempts/1/x.log"),)))
    assert [root.get(name) for name in ("tests", "failures", "errors")] == ["2", "0", "0"]
    (told,) = past(root)
    assert told == ("b", "flakyFailure", "attempt 1: off", "attempt 1 failed on gpu1 after 3.0s: exit code 1\nby 3")
    (element,) = root.iter("flakyFailure")
    assert element.get("type") == "E"
    properties = {p.get("name"): p.get("value") for p in root.iter("property")}
    assert properties["log_of_attempt_1"] == "attempts/1/x.log"
    assert (properties["status"], properties["attempt"], properties["warning"]) == ("flaky", "2", "said")
    assert facts([io.BytesIO(ET.tostring(root))]).tests == Tests(2)


def test_a_flaky_item_that_fails_the_run_is_one_failure():
    before = attempt(Status.FAILED, FAILING)
    root = written(last(Status.FLAKY, GOOD, earlier=(before,), flaky_fails=True))
    assert [root.get(name) for name in ("tests", "failures", "errors")] == ["3", "1", "0"]
    (failure,) = root.iter("failure")
    assert failure.get("message") == "flaky: said"
    assert [name for name, *_ in past(root)] == ["b"]


def test_what_no_case_of_the_last_attempt_shows_stands_in_the_case_of_the_item():
    crash = attempt(Status.CRASHED, GOOD, reason="signal 11 (SIGSEGV)", tail=b"the \x1b end\n", log="attempts/1/x.log")
    gone = attempt(Status.FAILED, FAILING.replace('"b"', '"gone"'), number=2)
    lost = attempt(Status.LOST, number=3, reason="worker w3 was lost: killed")
    root = written(last(Status.FLAKY, GOOD, earlier=(crash, gone, lost)))
    assert [root.get(name) for name in ("tests", "failures", "errors")] == ["3", "0", "0"]
    first, second, third = past(root)
    assert first[:3] == ("b", "flakyError", "attempt 1 crashed on gpu1 after 3.0s: signal 11 (SIGSEGV)")
    assert first[3].endswith("on gpu1 (worker w1)\nlog: attempts/1/x.log\nlast lines:\nthe \\x1b end")
    assert second[:3] == (
        "b",
        "flakyError",
        "attempt 3 was lost on gpu3 (worker w3) after 3.0s: worker w3 was lost: killed",
    )
    assert third[:3] == ("b", "flakyFailure", "m::gone: attempt 2: off")


def test_an_item_that_fails_again_has_reruns_and_one_failure():
    root = written(last(Status.FAILED, FAILING, earlier=(attempt(Status.FAILED, FAILING),)))
    assert [root.get(name) for name in ("tests", "failures", "errors")] == ["2", "1", "0"]
    assert [told[1:3] for told in past(root)] == [("rerunFailure", "attempt 1: off")]


def test_an_item_that_fails_again_in_another_way_has_a_case_for_the_first():
    def before() -> tuple[Earlier, Earlier]:
        stall = attempt(Status.TIMED_OUT, number=2, reason="stall: no output for 3 s")
        return attempt(Status.FAILED, FAILING), stall

    root = written(last(Status.FAILED, FAILING, earlier=before()))
    assert [root.get(name) for name in ("tests", "failures", "errors")] == ["3", "2", "0"]
    assert [told[1] for told in past(root)] == ["rerunFailure", "rerunError"]
    assert [failure.get("message") for failure in root.iter("failure")] == ["off", "failed: said"]
    without = written(last(Status.CRASHED, earlier=before()))
    assert [without.get(name) for name in ("tests", "failures", "errors")] == ["1", "0", "1"]
    assert [told[1] for told in past(without)] == ["rerunError", "rerunFailure"]


def test_an_attempt_that_was_stopped_is_no_result():
    assert past(written(last(Status.PASSED, GOOD, earlier=(attempt(Status.STOPPED, FAILING),)))) == []


def test_only_some_failing_cases_of_an_attempt_are_kept_and_the_rest_is_counted():
    many = "".join(f'<testcase name="t{n}"><failure message="m"/></testcase>' for n in range(CASES_KEPT + 20))
    root = written(last(Status.FLAKY, GOOD, earlier=(attempt(Status.FAILED, f"<testsuite>{many}</testsuite>"),)))
    assert len(past(root)) == CASES_KEPT + 1
    assert past(root)[0][2] == "attempt 1 failed on gpu1 after 3.0s: exit code 1; 20 more failing tests not shown here"


def test_damage_of_an_earlier_attempt_is_told():
    root = written(last(Status.FLAKY, GOOD, earlier=(attempt(Status.FAILED, CUT),)))
    assert past(root)[0][2] == (
        "attempt 1 failed on gpu1 after 3.0s: exit code 1; JUnit file: cut off after 3 whole cases"
    )
    assert past(root)[1][2] == "m::two: attempt 1: wrong"


def test_a_killed_controller_a_lost_worker_and_a_leak_are_told_with_their_place():
    unfinished = "did not finish: controller killed at +1204 s on gpu1"
    left = (Leftover(4711, "python server.py"),)
    outcome = Outcome(
        Key("a", "b"), Status.LOST, None, 9.0, 12.0, "w1", ("gpu1",), 2, reason=unfinished, left=left, late=0.5
    )
    root = written(ItemXml(outcome, [io.BytesIO(GOOD.encode())]))
    (error,) = root.iter("error")
    assert error.get("message") == f"lost: {unfinished}"
    assert (error.text or "").split("\n")[1:] == [
        "on gpu1 (worker w1), attempt 2",
        'left 1 process behind: pid 4711 "python server.py"; killed 0.5 s after its end',
    ]
    properties = {p.get("name"): p.get("value") or "" for p in root.iter("property")}
    assert "pid 4711" in properties["left_processes"]


def test_each_case_of_a_resumed_run_tells_its_part_and_commit():
    known = '<properties><property name="k" value="v"/><property name="part" value="9"/></properties>'
    own = f'<testcase name="c">{known}</testcase>'
    body = GOOD.replace("</testsuite>", own + "</testsuite>")
    outcome = Outcome(Key("a", "b"), Status.CRASHED, 134, 0.0, 1.0, part=2)
    root = written(ItemXml(outcome, [io.BytesIO(body.encode())], part=Part(2, 1e9, 50.0, "1a2b3c4+changes")))
    assert root.get("tests") == "4"
    for case in root.iter("testcase"):
        (properties,) = case.findall("properties")
        pairs = [(p.get("name"), p.get("value")) for p in properties]
        assert pairs == [("k", "v")] * (case.get("name") == "c") + [("part", "2"), ("commit", "1a2b3c4+changes")]
    suite = {p.get("name"): p.get("value") for p in root[0].findall("properties/property")}
    assert (suite["part"], suite["commit"]) == ("2", "1a2b3c4+changes")
    unknown = written(ItemXml(outcome, [io.BytesIO(GOOD.encode())], part=Part(1, 1e9, 0.0)))
    assert "commit" not in ET.tostring(unknown).decode()


def test_a_time_that_is_none_costs_its_stamp():
    for started in (1e300, float("nan"), float("inf"), -1e9):
        assert written(item("a/b", GOOD), started=started)[0].get("timestamp") is None


def test_long_attributes_are_cut_with_a_note():
    body = f'<testsuite><testcase name="t" k="{"x" * 100_000}"/></testsuite>'
    (case,) = written(item("a/b", body)).iter("testcase")
    assert (case.get("k") or "").endswith(" characters cut]")


ANY = st.text(st.characters(codec=None), max_size=12)
HOSTILE = (
    st.sampled_from(['"', "<", "&", "]]>", "\x00", "\x1b", "\x9b", "\ud800", "\ufffe", "\n", "\t", "|", "-->"]) | ANY
)


@st.composite
def any_item(draw: st.DrawFn) -> ItemXml:
    text = "".join(draw(st.lists(HOSTILE, max_size=4)))
    key = Key(draw(st.sampled_from(["s", "s.t"])), draw(st.sampled_from(["a", "a.b", "a.b.c", text])))
    rows = draw(st.lists(st.tuples(HOSTILE, HOSTILE, st.sampled_from(["", "failure", "error", "skipped"])), max_size=6))
    root = ET.Element("testsuite")
    for classname, name, kind in rows:
        case = ET.SubElement(root, "testcase", classname=xml_safe(classname), name=xml_safe(name))
        if kind:
            ET.SubElement(
                case, kind, message=xml_safe(text) + draw(st.sampled_from(["", " teardown"]))
            ).text = xml_safe(text)
    body = ET.tostring(root)[: draw(st.sampled_from([None, None, 60, 0]))]
    outcome = Outcome(key, draw(st.sampled_from(Status)), 1, 0.0, 1.0, reason=text, proof="ran")
    before = Outcome(key, draw(st.sampled_from(Status)), 1, 0.0, 1.0, reason=text, devices=(text,))
    return ItemXml(
        outcome,
        [io.BytesIO(body)] if draw(st.booleans()) else [],
        tail=text,
        log=text,
        properties={"p": text},
        earlier=[Earlier(before, [io.BytesIO(body)], text, text)] if draw(st.booleans()) else [],
        part=draw(st.sampled_from([None, None, Part(2, 0.0, 0.0, text)])),
    )


def xml_safe(text: str) -> str:
    return re.sub("[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "?", text)


@given(st.lists(any_item(), max_size=5))
def test_output_always_parses_and_adds_up(items):
    written(*items, started=1e9)
