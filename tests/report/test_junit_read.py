"""The one reader of the items' JUnit files: whole cases only, damage named, every result counted from its element."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st
from junitparser import JUnitXml

from pytest_sgpu.model import JUnitFacts, Tests
from pytest_sgpu.report.junit_read import Case, Cases, facts, seconds_of
from pytest_sgpu.report.junit_xml import MAX_TEXT, WholeCases

ONE = '<testcase classname="m" name="a" time="0.5"/>'
TWO = '<testcase classname="m" name="b"><failure message="no" type="T">text</failure></testcase>'


def of(*bodies: str | bytes) -> JUnitFacts:
    return facts([stream(body) for body in bodies])


def stream(body: str | bytes) -> io.BytesIO:
    return io.BytesIO(body.encode() if isinstance(body, str) else body)


def cases(body: str | bytes) -> list[Case]:
    return list(Cases([stream(body)]))


def suite(*cases_: str, attributes: str = "") -> str:
    return f"<testsuites><testsuite name='s'{attributes}>{''.join(cases_)}</testsuite></testsuites>"


def test_a_whole_file():
    skipped = '<testcase classname="m" name="c"><skipped message="why"/></testcase>'
    error = '<testcase classname="m" name="d"><error message="first&#10;second"/></testcase>'
    found = of(suite(ONE, TWO, skipped, error))
    assert found == JUnitFacts(1, Tests(4, 1, 1, 1), (("m::b", "no"), ("m::d", "first")))


@pytest.mark.parametrize(
    "body",
    [
        f"<testsuite>{ONE}{TWO}</testsuite>",
        f"<testsuites><testsuite>{ONE}</testsuite><testsuite>{TWO}</testsuite></testsuites>",
        f"<testsuites><testsuite><testsuite>{ONE}</testsuite>{TWO}</testsuite></testsuites>",
        f'<testsuites xmlns="http://example.org/junit"><testsuite>{ONE}{TWO}</testsuite></testsuites>',
        f'<j:testsuite xmlns:j="u">{(ONE + TWO).replace("<", "<j:").replace("<j:/", "</j:")}</j:testsuite>',
        f"<testsuites>{ONE}{TWO}</testsuites>",
    ],
    ids=["bare suite", "two suites", "nested", "default namespace", "prefix", "no suite"],
)
def test_every_form_of_a_document_gives_the_same(body):
    assert of(body) == JUnitFacts(1, Tests(2, 1), (("m::b", "no"),))
    assert [case.kind for case in cases(body)] == ["", "failure"]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "iso-8859-1"])
def test_encodings(encoding):
    named = encoding.removesuffix("-sig")
    body = f'<?xml version="1.0" encoding="{named}"?><testsuite><testcase name="caf\xe9"/></testsuite>'
    assert [case.name for case in cases(body.encode(encoding))] == ["caf\xe9"]


DAMAGED = {
    b"": (0, "empty file (0 bytes)"),
    b" \n ": (0, "empty file (only white space)"),
    b"Traceback: no XML": (0, "not XML: syntax error at line 1, column 1"),
    b"\x00\x01": (0, "not XML: control byte 0x00 at line 1, column 1"),
    b"<?xml versi": (0, "cut off before the first whole case"),
    b"<testsuites><testsuite>": (0, "cut off before the first whole case"),
    b"<testsuite><testcase name='a'/><testcase name='b'>": (1, "cut off after 1 whole case"),
    b"<testsuite><testcase name='a'/><testcase name='b'/><testcase na": (2, "cut off after 2 whole cases"),
    b"<testsuite><testcase name='a'/><testcase name='b'><failure><![CDATA[x": (1, "cut off after 1 whole case"),
    b"<testsuite><testcase name='a'/><testcase name='\xc3": (1, "cut off after 1 whole case"),
    b"<testsuite tests='25'/>": (0, "no test case in it, only counts in attributes"),
    b"<html><testcase/></html>": (0, "the root element is <html>, not <testsuites> or <testsuite>"),
    b"<testcase name='a'/>": (0, "the root element is <testcase>, not <testsuites> or <testsuite>"),
    b"<testsuite><testcase name='a'/></testsuite><testsuite/>": (
        1,
        "something follows the end of the document at line 1, column 44",
    ),
    b"<testsuite>\n<testcase name='a'/>\n<testcase name='b'><failure>\x12</failure></testcase></testsuite>": (
        1,
        "control byte 0x12 at line 3, column 29, after 1 whole case",
    ),
    b"<testsuite><testcase name='a'/><testcase name='\xff'/></testsuite>": (
        1,
        "byte 0xff, which is no UTF-8, at line 1, column 48, after 1 whole case",
    ),
    b"<testsuite><testcase name='a'/><testcase></testsuite>": (
        1,
        "not well-formed (mismatched tag) at line 1, column 44, after 1 whole case",
    ),
    b"<!DOCTYPE x [<!ENTITY e 'v'>]><testsuite><testcase name='&e;'/></testsuite>": (
        0,
        "declares entities, which are not read",
    ),
    b"<!DOCTYPE x SYSTEM 'file:///etc/passwd'><testsuite/>": (
        0,
        "refers to an external document type (DTD), which is not read",
    ),
    b"<testsuite>" * 200: (0, "elements are nested deeper than 100"),
    b"<testsuite><testcase name='a'>" + b"<a>" * 200: (0, "elements are nested deeper than 100"),
    b"<?xml version='1.0' encoding='x-unknown'?><testsuite/>": (
        0,
        "not XML: it names an encoding that cannot be read",
    ),
}


@pytest.mark.parametrize(("body", "right"), DAMAGED.items(), ids=range(len(DAMAGED)))
def test_damage_is_named_and_whole_cases_are_kept(body, right):
    found = of(body)
    assert (found.tests.cases, found.damage) == right
    assert found.tests.bad == 0
    assert all(case.name for case in cases(body))


def test_a_doctype_without_entities_costs_nothing():
    assert of(f"<!DOCTYPE testsuite><testsuite>{ONE}</testsuite>").damage == ""


@pytest.mark.parametrize("body", ["<testsuites/>", "<testsuite tests='0' failures='0'/>", "<testsuites tests='00'/>"])
def test_an_empty_file_that_promises_nothing_is_no_damage_but_told(body):
    assert of(body) == JUnitFacts(1, Tests(), (), "", ("no test case in it",))
    assert of(body, body).warnings == ("no test case in any file",)
    assert of(body, suite(ONE)).warnings == ()


def test_damage_beyond_the_first_chunk_is_still_placed():
    body = "<testsuite>\n" + ONE * 5000 + "<testcase name='x'><failure>" + "y" * 70_000 + "\x01"
    found = of(body)
    assert found.tests.cases == 5000
    assert "control byte 0x01 at line 2" in found.damage


@given(st.integers(0, 400))
def test_a_cut_at_any_byte_keeps_whole_cases_only(at):
    body = ("<?xml version='1.0'?>" + suite(ONE, TWO, '<testcase name="\u221e"/>')).encode()[:at]
    whole = body.count(b'time="0.5"/>') + body.count(b"</testcase>") + body.count('"\u221e"/>'.encode())
    found = of(body)
    assert found.tests.cases == whole
    assert bool(found.damage) == (b"</testsuites>" not in body)


@given(st.binary(max_size=300))
def test_no_bytes_raise(body):
    of(body)
    of(b"<testsuite><testcase name='" + body + b"'/></testsuite>")


def test_several_files_are_told_apart(tmp_path):
    good, bad, odd = tmp_path / "good.xml", tmp_path / "bad.xml", tmp_path / "odd.xml"
    good.write_text(suite(ONE))
    bad.write_text("<testsuite><testcase/>")
    odd.write_text(suite('<testcase name="z" time="soon"/>', '<testcase name="y" time="-1"/>'))
    found = facts([good, bad, odd, tmp_path / "none.xml"])
    assert found.files == 4
    assert found.tests.cases == 4
    assert found.damage == "bad.xml: cut off after 1 whole case; none.xml: cannot be read: No such file or directory"
    assert found.warnings == (
        "bad.xml: 1 case without a name, shown as (no name)",
        "odd.xml: 2 times that cannot be read left out, first 'soon'",
    )


def test_files_are_opened_by_what_is_handed_in():
    assert facts(["x"], lambda path: stream(suite(ONE) if path == "x" else "")).tests.cases == 1


def test_a_stream_that_breaks_is_damage():
    class Broken(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            raise OSError(5, "Input/output error")

    assert facts([Broken()]).damage == "cannot be read: Input/output error"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0.25", 0.25),
        (" 3 ", 3.0),
        ("1e-3", 0.001),
        (".5", 0.5),
        ("5.", 5.0),
        ("2,345.678", 2345.678),
        ("1,234,567", 1234567.0),
        ("1,234", None),
        ("0,250", None),
        ("-1.5", None),
        ("NaN", None),
        ("inf", None),
        ("", None),
        ("0:00:01.250000", None),
        ("2.5E8", None),
        ("1e999", None),
        ("1_0", None),
        ("12 s", None),
        ("0x10", None),
    ],
)
def test_times(text, seconds):
    assert seconds_of(text) == seconds


def test_odd_times_are_one_warning_and_a_missing_one_is_none():
    odd = [f'<testcase name="{n}" time="{time}"/>' for n, time in enumerate(("nan", "", "1.0"))]
    found = of(suite(*odd, '<testcase name="x"/>', attributes=" time='2,400.0'"))
    assert found.warnings == ("2 times that cannot be read left out, first 'nan'",)


def test_a_teardown_error_joins_its_test():
    fail = '<testcase classname="m" name="t" time="0.1"><failure message="assert 0">body</failure></testcase>'
    down = '<testcase classname="m" name="t"><error message="failed on teardown">boom</error></testcase>'
    between = "".join(f'<testcase classname="m" name="o{n}"/>' for n in range(200))
    merged = next(iter(cases(suite(fail, between, down))))
    assert (merged.kind, merged.message) == ("failure", "assert 0")
    assert merged.text == "body\n\nalso error: failed on teardown\nboom"
    assert of(suite(fail, down)).tests == Tests(1, 1)
    passed = '<testcase classname="m" name="t" time="0.1"/>'
    assert of(suite(passed, down)).tests == Tests(1, 0, 1)
    assert cases(suite(passed, down))[0].seconds == 0.1
    assert of(suite(passed, down, down)).tests == Tests(2, 0, 2)


def test_a_teardown_error_far_behind_its_test_is_kept_apart():
    fail = '<testcase classname="m" name="t"><failure message="assert 0"/></testcase>'
    down = '<testcase classname="m" name="t"><error message="failed on teardown"/></testcase>'
    between = [f'<testcase classname="m" name="o{n}"/>' for n in range(600)]
    found = cases(suite(fail, *between, down))
    assert (len(found), found[-1].name, found[-1].kind) == (602, "t [2]", "error")


def test_other_repetitions_are_numbered():
    again = '<testcase classname="m" name="a"/>'
    taken = '<testcase classname="m" name="a [2]"/>'
    assert [case.name for case in cases(suite(taken, again, again, again))] == ["a [2]", "a", "a [3]", "a [4]"]
    names = [case.name for case in Cases([stream(suite(again)), stream(suite(again))])]
    assert names == ["a", "a [2]"]


def test_names_that_look_the_same_once_printable_are_numbered():
    odd = '<testcase name="a&#x9b;"/><testcase name="a\\x9b"/><testcase/><testcase name=" "/>'
    assert [case.name for case in cases(suite(odd))] == ["a\\x9b", "a\\x9b [2]", "(no name)", "(no name) [2]"]


def test_one_result_per_case_the_worst():
    both = (
        '<testcase name="t"><skipped message="s"/><error message="e">E</error>'
        '<failure message="f" type="F">T</failure><system-out>out</system-out></testcase>'
    )
    (case,) = cases(suite(both))
    assert (case.kind, case.message, case.type) == ("failure", "f", "F")
    assert case.text == "T\n\nalso error: e\nE\n\nalso skipped: s"
    assert [child.tag for child in case.children] == ["system-out"]


def test_reruns_and_flaky_results_are_kept_as_they_are_and_not_counted():
    flaky = '<testcase name="t"><flakyFailure message="f"><stackTrace>at</stackTrace></flakyFailure></testcase>'
    rerun = '<testcase name="u"><failure message="f"/><rerunFailure message="r"/></testcase>'
    assert of(suite(flaky, rerun)).tests == Tests(2, 1)
    assert ET.tostring(cases(suite(flaky))[0].children[0]).decode() == (
        '<flakyFailure message="f"><stackTrace>at</stackTrace></flakyFailure>'
    )


def test_a_case_that_a_runner_did_not_run_has_not_passed():
    assert of(suite('<testcase name="t" status="notrun"/>')).tests == Tests(1, skipped=1)
    assert of(suite('<testcase name="t" status="run" file="f"/>')).tests == Tests(1)


def test_at_most_twenty_failing_cases_are_named():
    many = [f'<testcase name="t{n}"><error>\n\n body\nmore</error></testcase>' for n in range(30)]
    found = of(suite(*many))
    assert found.tests == Tests(30, errors=30)
    assert len(found.failing) == 20
    assert found.failing[0] == ("t0", "body")


def test_long_texts_are_cut_with_a_note():
    body = suite(f'<testcase name="t"><failure>{"x" * (MAX_TEXT + 10)}</failure><system-out>y</system-out></testcase>')
    (case,) = cases(body)
    assert case.text.endswith("x\n... [10 more characters of this case not read]")
    assert "1 more character of this case" in (case.children[0].text or "")


def test_mixed_content_keeps_its_order():
    (case,) = cases(suite('<testcase name="t"><system-out>a<b>c</b>d<e/>f</system-out></testcase>'))
    assert ET.tostring(case.children[0]).decode() == "<system-out>a<b>c</b>d<e />f</system-out>"


def test_prefixed_attributes_and_tags_lose_their_prefix_or_go():
    odd = '<testcase name="t" x:y="1" xmlns="d" line="3"><x:note x:z="2" k="v"/></testcase>'
    body = f'<testsuite xmlns:x="u">{odd}</testsuite>'
    (case,) = cases(body)
    assert case.attributes == (("line", "3"),)
    assert ET.tostring(case.children[0]).decode() == '<note k="v" />'


NAMES = st.text("ab.[]-&<\"' \u221e", max_size=6).map(lambda text: f"n{text}")
RESULTS = st.sampled_from(["", "failure", "error", "skipped"])


@given(
    st.lists(st.tuples(NAMES, NAMES, RESULTS, st.text("xyz <&", max_size=5)), max_size=30, unique_by=lambda t: t[:2])
)
def test_the_reader_agrees_with_junitparser_on_whole_files(rows):
    root = ET.Element("testsuites")
    parent = ET.SubElement(root, "testsuite", name="s")
    for classname, name, kind, text in rows:
        case = ET.SubElement(parent, "testcase", classname=classname, name=name, time="1.5")
        if kind:
            ET.SubElement(case, kind, message=text).text = text
    body = ET.tostring(root)
    theirs = [case for suite_ in JUnitXml.fromstring(body) for case in suite_]
    ours = cases(body)
    assert [(c.classname, c.name, c.seconds) for c in ours] == [(c.classname, c.name, c.time) for c in theirs]
    assert [c.kind for c in ours] == [c.result[0]._tag if c.result else "" for c in theirs]


def test_it_works_without_lxml(tmp_path):
    path = tmp_path / "x.xml"
    path.write_text(suite(ONE, TWO) + "<")
    script = (
        "import sys; sys.modules['lxml'] = None\n"
        "from pytest_sgpu.report.junit_read import facts\n"
        "found = facts([sys.argv[1]]); print(found.tests.cases, found.failing, found.damage)"
    )
    root = str(Path(__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=True, cwd=root
    )
    assert done.stdout.startswith("2 (('m::b', 'no'),) ")
    assert "after" in done.stdout or "follows" in done.stdout or "cut off" in done.stdout


def test_memory_does_not_grow_with_the_number_of_cases():
    class Endless(io.BytesIO):
        """A file of a million cases that never exists as a whole."""

        left = 200

        def read(self, _size: int | None = -1, /) -> bytes:
            self.left -= 1
            head = b"<testsuite>" if self.left == 199 else b""
            return head + ONE.encode() * 1000 if self.left else b""

    whole = WholeCases(Endless())
    most = 0
    for _ in whole:
        most = max(most, len(whole._done))
    assert whole.count == 199_000
    assert most <= 1000
    assert whole.damage == "cut off after 199000 whole cases"
