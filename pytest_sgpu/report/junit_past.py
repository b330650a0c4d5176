"""What earlier attempts at an item said, as the elements that readers of JUnit know for it.

Maven's surefire defined them: ``flakyFailure`` and ``flakyError`` in a case that passed in the end,
``rerunFailure`` and ``rerunError`` in one that did not. No reader counts them as failures. They stand in the
case of the same name of the last attempt; what no case of it shows stands in the case of the item itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple
from xml.etree.ElementTree import Element, SubElement

from pytest_sgpu.core.redact import Clean
from pytest_sgpu.core.text import counted, one_line, printable
from pytest_sgpu.model import Status
from pytest_sgpu.report.junit_item import MESSAGE_LIMIT, Earlier, described
from pytest_sgpu.report.junit_read import Case, Cases, Opener, full_name
from pytest_sgpu.report.words import attempt_text

CASES_KEPT = 100
"""Failing cases of one attempt that are kept; further ones are counted."""

_TEXT_LIMIT = 1 << 16
_NAMES = {("failure", True): "flakyFailure", ("error", True): "flakyError", ("failure", False): "rerunFailure"}


class _Result(NamedTuple):
    kind: str
    message: str
    type: str
    text: str

    def element(self, *, passed: bool) -> Element:
        """Give the element for a case that passed in the end, or did not."""
        attributes = {"message": self.message} | ({"type": self.type} if self.type else {})
        made = Element(_NAMES.get((self.kind, passed), "rerunError"), attributes)
        if self.text:
            SubElement(made, "stackTrace").text = self.text
        return made


class Past:
    """The results of the attempts before the last one. Each is given once: to its case, or to the item's own.

    Memory: 100 failing cases of each attempt.
    """

    def __init__(self, earlier: Iterable[Earlier], open_xml: Opener, clean: Clean) -> None:
        self._of_case: dict[tuple[str, str], list[_Result]] = {}
        self._of_item: list[_Result] = []
        self._clean = clean
        for attempt in earlier:
            if attempt.outcome.status.failed and attempt.outcome.status is not Status.STOPPED:
                self._read(attempt, open_xml)

    def __bool__(self) -> bool:
        """Whether some case of the last attempt may have a past."""
        return bool(self._of_case)

    @property
    def waits(self) -> bool:
        """Whether there is something that no case has shown yet."""
        return bool(self._of_case or self._of_item)

    def told(self, case: Case) -> Case:
        """Give a case of the last attempt with its past."""
        results = self._of_case.pop((case.classname, case.name), None)
        return case if results is None else _with(case, results)

    def told_last(self, own: Case | None) -> Case | None:
        """Give the item's own case, which is made when it is needed, with all that no other case has shown."""
        rest = list(self._of_item)
        for (classname, name), results in self._of_case.items():
            where = full_name(Case(classname, name))
            rest += [one._replace(message=one_line(f"{where}: {one.message}", MESSAGE_LIMIT)) for one in results]
        self._of_case.clear()
        return _with(own or Case("", ""), rest) if rest else own

    def _read(self, attempt: Earlier, open_xml: Opener) -> None:
        outcome = attempt.outcome
        head = one_line(self._clean(attempt_text(outcome)), MESSAGE_LIMIT)
        cases = Cases(attempt.sources, open_xml, self._clean)
        for case in _bad(cases):
            message = one_line(f"attempt {outcome.attempt}: {case.message}", MESSAGE_LIMIT)
            text = printable(case.text[:_TEXT_LIMIT], multiline=True)
            result = _Result(case.kind, message, case.type, f"{head}\n{text}".rstrip("\n"))
            self._of_case.setdefault((case.classname, case.name), []).append(result)
        hidden = cases.tests.bad - CASES_KEPT
        if outcome.status is Status.FAILED and cases.tests.bad and not cases.damage and hidden <= 0:
            return
        said = head
        if cases.damage and cases.damage not in said:
            said += f"; JUnit file: {cases.damage}"
        if hidden > 0:
            said += f"; {counted(hidden, 'more failing test')} not shown here"
        text = described(said, outcome, self._clean, attempt.tail, attempt.log, cases.warnings)
        kind = "failure" if outcome.status is Status.FAILED else "error"
        self._of_item.append(_Result(kind, one_line(said, MESSAGE_LIMIT), outcome.status.name, text))


def _bad(cases: Cases) -> Iterator[Case]:
    """Give the first failing cases, and read the files to their end for the counts."""
    given = 0
    for case in cases:
        if case.bad and given < CASES_KEPT:
            given += 1
            yield case


def _with(case: Case, results: list[_Result]) -> Case:
    made = tuple(one.element(passed=not case.kind) for one in results)
    return case._replace(children=case.children + made)
