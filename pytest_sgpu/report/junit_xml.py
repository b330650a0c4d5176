"""Cuts a JUnit XML stream into whole test cases, and names what is wrong with the file.

A JUnit file of an item is data of a stranger: it may be cut off, be no XML, hold a control byte, or be
larger than memory. So it is never parsed into a tree: expat reads it in chunks, and only an element
``testcase`` that was closed comes out. Everything before the damage is kept, nothing after it is guessed.
Memory: some megabytes, whatever the file holds: one chunk, the tag at hand (MAX_TAG) and one case, of which
MAX_TEXT characters are kept. Entities, attributes with a default and external document types are refused, so
nothing is opened, and nothing is larger than it was written. Namespace prefixes are dropped.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO
from xml.etree.ElementTree import Element, SubElement
from xml.parsers import expat

from pytest_sgpu.core.text import counted, one_line

CHUNK = 1 << 16
MAX_TEXT = 1 << 20  # characters of text in one case
MAX_TAG = 1 << 22  # bytes of a tag with its attributes, of a comment, of whatever has to be read as one
MAX_ELEMENTS = 10_000  # in one case
MAX_BYTES = 1 << 29
MAX_CASES = 2_000_000
MAX_DEPTH = 100
ROOTS = ("testsuites", "testsuite")

Raw = tuple[dict[str, str], "Element | None"]  # the attributes of a case; its element when it has children

_SPACE = 0x20
_ASCII_END = 0x80
_CUT = (
    expat.errors.XML_ERROR_NO_ELEMENTS,
    expat.errors.XML_ERROR_UNCLOSED_TOKEN,
    expat.errors.XML_ERROR_UNCLOSED_CDATA_SECTION,
    expat.errors.XML_ERROR_PARTIAL_CHAR,
)


class _Refused(Exception):  # noqa: N818 - no error of the program: the file is turned away
    """The file is XML, but not to be read: the text says why."""


class WholeCases:
    """Iterates over the whole cases of one stream, once; then ``damage`` is known ("" when there is none).

    ``count`` is the number of cases so far, ``claimed`` whether an attribute ``tests`` promised any. Never
    raises for what the stream holds, nor when it cannot be read.
    """

    def __init__(self, stream: BinaryIO, most: int = MAX_CASES) -> None:
        self.damage = ""
        self.count = 0
        self.claimed = False
        self._stream = stream
        self._most = most
        self._done: list[Raw] = []
        self._depth = 0
        self._root = False
        self._attrs: dict[str, str] | None = None  # of the case that is open
        self._stack: list[Element] = []  # open elements in that case, itself first; empty while it has no child
        self._parts: list[str] = []
        self._room = MAX_TEXT
        self._lost = 0
        self._elements = 0
        self._before = self._chunk = b""
        self._at = 0  # bytes fed before the chunk at hand
        self._waiting = 0  # bytes fed that expat keeps, since their tag has no end yet
        self._ended = False
        parser = expat.ParserCreate()
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.StartDoctypeDeclHandler = self._doctype
        parser.EntityDeclHandler = self._entity
        parser.AttlistDeclHandler = self._default
        self._parser = parser

    def __iter__(self) -> Iterator[Raw]:
        """Give the attributes of each whole case, and its element when it has children."""
        while not self._ended and not self.damage:
            self._feed()
            yield from self._done
            self._done.clear()
        if not self.damage and not self.count and self.claimed:
            self.damage = "no test case in it, only counts in attributes"

    def _feed(self) -> None:
        """Parse one more chunk. Cases that were whole before damage was met stay in ``_done``."""
        try:
            self._at += len(self._chunk)
            # Larger pieces of what is large: expat may begin a tag anew with each piece.
            self._before, self._chunk = self._chunk, self._stream.read(max(CHUNK, self._waiting))
            self._ended = not self._chunk
            if self._ended and not self._at:
                self.damage = "empty file (0 bytes)"
            else:
                self._parser.Parse(self._chunk, self._ended)
                self._check_limits()
        except _Refused as refused:
            self.damage = str(refused)
        except expat.ExpatError as error:
            self.damage = self._explain(error)
        except OSError as error:
            self.damage = f"cannot be read: {error.strerror or error}"
        except (LookupError, ValueError):
            self.damage = "not XML: it names an encoding that cannot be read"
        finally:
            self.count += len(self._done)

    def _check_limits(self) -> None:
        fed = self._at + len(self._chunk)
        self._waiting = fed - max(0, self._parser.CurrentByteIndex)
        if self._waiting > MAX_TAG and not self._ended:
            raise _Refused(f"a tag, comment or declaration is larger than {MAX_TAG >> 20} MiB, {self._kept()}")
        if fed > MAX_BYTES:
            raise _Refused(f"larger than {MAX_BYTES >> 20} MiB, what follows is not read, {self._kept()}")
        if self.count + len(self._done) > self._most:
            raise _Refused(f"more than {MAX_CASES} test cases, what follows is not read")

    # -- what the parser tells --------------------------------------------------------------------

    def _start(self, tag: str, attrs: dict[str, str]) -> None:
        if self._attrs is not None:
            self._child(tag, attrs)
        elif self._root and (tag == "testcase" or _local(tag) == "testcase"):
            self._attrs = attrs
        else:
            self._structure(tag, attrs)

    def _structure(self, tag: str, attrs: dict[str, str]) -> None:
        name = _local(tag)
        if not self._root and name not in ROOTS:
            raise _Refused(f"the root element is <{one_line(name, 60)}>, not <testsuites> or <testsuite>")
        self._root = True
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise _Refused(f"elements are nested deeper than {MAX_DEPTH}")
        if name in ROOTS and attrs.get("tests", "").strip(" 0"):
            self.claimed = True

    def _child(self, tag: str, attrs: dict[str, str]) -> None:
        if not self._stack:
            self._room = MAX_TEXT
            self._elements = 0
            self._stack.append(Element("testcase", self._attrs or {}))
            self._parser.CharacterDataHandler = self._text
        else:
            self._flush()
        if len(self._stack) > MAX_DEPTH:
            raise _Refused(f"elements are nested deeper than {MAX_DEPTH}")
        self._elements += 1
        if self._elements > MAX_ELEMENTS:
            raise _Refused(f"a test case has more than {MAX_ELEMENTS} elements, {self._kept()}")
        own = {name: value for name, value in attrs.items() if ":" not in name and name != "xmlns"}
        if sum(map(len, own.values())) > self._room:
            self._lost += sum(map(len, own.values())) - self._room
            own = _cut(own, self._room)
        self._room -= sum(map(len, own.values()))
        self._stack.append(SubElement(self._stack[-1], _local(tag), own))

    def _end(self, _tag: str) -> None:
        if self._attrs is None:
            self._depth -= 1
        elif not self._stack:
            self._done.append((self._attrs, None))
            self._attrs = None
        else:
            self._flush()
            element = self._stack.pop()
            if not self._stack:
                self._parser.CharacterDataHandler = None
                self._done.append((self._attrs, element))
                self._attrs = None

    def _text(self, data: str) -> None:
        if len(data) > self._room:
            self._lost += len(data) - self._room
            data = data[: self._room]
        self._room -= len(data)
        if data:
            self._parts.append(data)

    def _flush(self) -> None:
        """Give the text so far to the element that is open, or to the child of it that was closed last."""
        data = "".join(self._parts)
        self._parts.clear()
        if self._lost:
            data += f"\n... [{counted(self._lost, 'more character')} of this case not read]"
            self._lost = 0
        top = self._stack[-1]
        if len(top):
            top[-1].tail = (top[-1].tail or "") + data
        else:
            top.text = (top.text or "") + data

    def _doctype(self, _name: str, system: str | None, public: str | None, _subset: object) -> None:
        if system or public:
            raise _Refused("refers to an external document type (DTD), which is not read")

    def _entity(self, *_: object) -> None:
        raise _Refused("declares entities, which are not read")

    def _default(self, *_: object) -> None:
        raise _Refused("declares attributes, which are not read")

    # -- what went wrong --------------------------------------------------------------------------

    def _explain(self, error: expat.ExpatError) -> str:
        what = expat.errors.messages.get(error.code, "unknown error")
        where = f"line {error.lineno}, column {error.offset + 1}"
        kept = self._kept()
        if not self._root:
            if self._ended and not (self._before + self._chunk).strip():
                return "empty file (only white space)"
            if not (self._ended and what in _CUT):
                return f"not XML: {self._byte(error) or what} at {where}"
        if self._ended and what in _CUT:
            return f"cut off {kept}"
        if what == expat.errors.XML_ERROR_JUNK_AFTER_DOC_ELEMENT:
            return f"something follows the end of the document at {where}"
        return f"{self._byte(error) or f'not well-formed ({what})'} at {where}, {kept}"

    def _kept(self) -> str:
        whole = self.count + len(self._done)
        return f"after {counted(whole, 'whole case')}" if whole else "before the first whole case"

    def _byte(self, error: expat.ExpatError) -> str:
        """Name the byte at which expat stopped, when it is one that no XML file in UTF-8 may hold."""
        at = self._parser.ErrorByteIndex - self._at + len(self._before)
        near = self._before + self._chunk
        if error.code != expat.errors.codes[expat.errors.XML_ERROR_INVALID_TOKEN] or not 0 <= at < len(near):
            return ""
        if near[at] < _SPACE:
            return f"control byte 0x{near[at]:02x}"
        return f"byte 0x{near[at]:02x}, which is no UTF-8," if near[at] >= _ASCII_END else ""


def _cut(attrs: dict[str, str], room: int) -> dict[str, str]:
    """Keep as much of the values as there is room for."""
    kept = {}
    for name, value in attrs.items():
        kept[name] = value[:room]
        room -= len(kept[name])
    return kept


def _local(tag: str) -> str:
    """Drop the prefix of a name. What is left of ``x:1`` would be no name where it is written again."""
    _, colon, name = tag.rpartition(":")
    return f"_{name}" if colon and not (name[:1].isascii() and (name[:1].isalpha() or name[:1] == "_")) else name
