"""What the measured times of sibling items say about an item that no weight table holds.

Tags look like ``dir.stem.backend[.label]`` (spec: queue, 1). Two tags of one suite that differ in the
backend only are *twins*: they run the same tests by another road, and in measured tables most of them take
the same time to a tenth. Tags of the same file under another label (``.ck`` and ``.ck.autotune``) run
something else: 0.1 to 9 times as long was seen, so a label alone gives no guess.

Two rules follow:

- An item has a guess when a twin was measured, and the guess is the longest time measured in its file. A
  long item that starts late costs everybody, a short one that starts early costs nothing.
- Among items without a guess, those of the file with the longest measured item come first, since where a
  long one was found the next one may be.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from pytest_sgpu.model import Key

File = tuple[str, str]  # suite, and the tag up to its stem


class Kin(NamedTuple):
    """Where a tag belongs. Equal ``file`` and ``label``: twins. Equal ``file`` only: the same tests' file."""

    file: File
    label: str


def kin(key: Key) -> Kin | None:
    """Give the kin of a key, None for an opaque suite, which has none.

    The file ends with the last part of the tag that begins with ``test``, else before the last part
    (``mxfp4..ck``), else it is the whole tag (``benchmark``). The part after it is the backend, the rest
    is the label.
    """
    tag = key.tag
    if not tag:
        return None
    stem = 0 if tag.startswith("test") else -1
    stem = max(stem, tag.rfind(".test") + 1 or -1)
    end = tag.rfind(".") if stem < 0 else tag.find(".", stem)
    if end < 0:
        return Kin((key.suite, tag), "")
    return Kin((key.suite, tag[:end]), tag[end + 1 :].partition(".")[2])


class Hints:
    """Measured times, indexed so that a new one and a question each cost O(1)."""

    def __init__(self, measured: Iterable[tuple[Key, float]] = ()) -> None:
        self._longest: dict[File, float] = {}
        self._measured: set[Kin] = set()
        for key, seconds in measured:
            self.learn(key, seconds)

    def learn(self, key: Key, seconds: float) -> None:
        """Take in a measured time. That of an opaque suite says nothing about others."""
        of = kin(key)
        if of is not None:
            self._longest[of.file] = max(seconds, self.longest(of))
            self._measured.add(of)

    def longest(self, of: Kin | None) -> float:
        """Give the longest time measured in a file, 0.0 when there is none."""
        return 0.0 if of is None else self._longest.get(of.file, 0.0)

    def guess(self, of: Kin | None) -> float | None:
        """Give the guess for an item of this kin in seconds, None when no twin was measured."""
        return self.longest(of) if of in self._measured else None


def guess(key: Key, measured: Mapping[Key, float]) -> float | None:
    """Give the guess for one key from measured times, in seconds. For many keys make ``Hints`` once."""
    return Hints(measured.items()).guess(kin(key))
