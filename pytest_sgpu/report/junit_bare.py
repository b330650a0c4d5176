"""JUnit files without their words: which tests there were and how they ended, nothing that they said."""

from __future__ import annotations

import io
from collections.abc import Iterator
from os import PathLike
from typing import TYPE_CHECKING, BinaryIO
from xml.sax.saxutils import quoteattr

from pytest_sgpu.core.redact import Clean
from pytest_sgpu.report.junit_read import Cases, Opener

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


def opener(open_xml: Opener, clean: Clean) -> Opener:
    """Give an opener of bare files: names, times and results of the cases. Memory: as ``Cases``."""

    def bare(path: str | PathLike[str]) -> BinaryIO:
        with open_xml(path):
            pass  # what cannot be opened is told as ever
        return io.BufferedReader(_Stream(_pieces(Cases([path], open_xml, clean))))

    return bare


def _pieces(cases: Cases) -> Iterator[bytes]:
    yield b"<testsuite>"
    for case in cases:
        time = "" if case.seconds is None else f' time="{case.seconds}"'
        result = f"<{case.kind}/>" if case.kind else ""
        text = f"<testcase classname={quoteattr(case.classname)} name={quoteattr(case.name)}{time}>{result}</testcase>"
        yield text.encode("utf-8", "backslashreplace")
    if not cases.damage:  # else it has no end, so it is damaged still
        yield b"</testsuite>"


class _Stream(io.RawIOBase):
    """Reads what an iterator gives."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        view = memoryview(buffer)
        if not self._rest:
            self._rest = next(self._pieces, b"")
        piece, self._rest = self._rest[: len(view)], self._rest[len(view) :]
        view[: len(piece)] = piece
        return len(piece)
