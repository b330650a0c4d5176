"""Seeded mutations of what the readers read, and the loop that makes a failure repeatable.

Every mutation has a random generator of its own, made from the seed of the run, the name of the reader and the
number of the mutation. A failure names the two: ``SGPU_FUZZ_SEED=7:123`` runs mutation 123 of the seed 7 alone,
``SGPU_FUZZ_SEED=7`` all of that seed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import Any, TypeVar

import pytest

from pytest_sgpu.core import journal

SEED = "20250807"
COUNTS = [pytest.param(500, id="500"), pytest.param(10_000, id="10000", marks=pytest.mark.slow)]
"""The quick set looks at 500 mutations per reader, the whole one at 10,000."""

T = TypeVar("T")

# What readers stumble over: ends of text in C, terminals, what is no UTF-8, what counts as a blank or a digit
# in some places and not in others, numbers that overflow, the marks of every format that is read here.
NASTY: tuple[bytes, ...] = (
    *(bytes([code]) for code in (0, 1, 7, 8, 9, 10, 11, 12, 13, 0x1B, 0x1C, 0x7F, 0x80, 0x85, 0xA0, 0xC0, 0xFE, 0xFF)),
    b"\r\n",
    b"\x1b[31m",
    b"\x1b]0;title\x07",
    b"\xed\xb2\x80",  # a surrogate, written as if it were a character
    b"\xf4\x90\x80\x80",  # beyond the last character
    b"\xef\xbb\xbf",
    *(text.encode() for text in ("\u2028", "\u202e", "\u200b", "\u3000", "\u00b2", "\u0663", "\u0130", "\U000e0041")),
    *(text.encode() for text in ("0", "-1", "-0.0", "nan", "inf", "1e308", "1e-400", "1e999", "999999", "1_0", "0x10")),
    b"9" * 400,
    b"A" * 12_000,
    *(
        text.encode()
        for text in ("'", '"', "\\", "#", "%", "/", "../", ".", " ", "  ", ",", ":", "=", "*", "$(x)", "`x`")
    ),
    *(
        text.encode()
        for text in ("null", "true", "[", "]", "{", "}", '{"event":"outcome"}', "[[[[", "TE_CI_ITEM ", "whole")
    ),
    *(
        text.encode()
        for text in ("<", ">", "&", "&amp;", "&#0;", "&#xD800;", "&x;", "]]>", "<![CDATA[", "<!--", "<?x?>")
    ),
    b"# pytest-sgpu weights 1\n",
    b"<a>" * 200,
    b"[" * 3000,
)

# One of each kind of JSON value, and the limits of some.
VALUES: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    1,
    2**31,
    2**63,
    10**400,
    -(10**400),
    0.5,
    -0.0,
    1e308,
    float("nan"),
    float("inf"),
    float("-inf"),
    "",
    "x",
    "torch/a",
    "FAILED",
    "9" * 400,
    "\x00",
    "\x1b[2J",
    "\udc80",
    "\ud83d",
    "../../x",
    "a\nb\tc",
    [],
    [None],
    [[]],
    [[None, None, None, None, None, None]],
    [["torch/a"]],
    ["x", 1],
    [1, 2, 3, 4, 5, 6, 7, 8],
    {},
    {"key": "torch/a"},
    {"x": {"x": {}}},
)


class Dice:
    """The choices of one mutation. ``told`` is what a failure shows of it."""

    def __init__(self, seed: str) -> None:
        self.random = Random(seed)
        self.told: object = ""

    def one(self, choices: Sequence[T]) -> T:
        return self.random.choice(choices)

    def chance(self, of: int) -> bool:
        return self.random.randrange(of) == 0

    def count(self) -> int:
        """Give how many changes to make: mostly one, so that the damage stands alone, sometimes many."""
        return self.one((1, 1, 1, 2, 3, 8))

    # -- bytes --------------------------------------------------------------------------------------

    def mutated(self, data: bytes, others: Sequence[bytes] = ()) -> bytes:
        """Change a text in one or a few places: bytes, pieces and lines."""
        for _ in range(self.count()):
            data = self.one(_BYTE_CHANGES)(self, data, others)
        return data

    def cut(self, data: bytes, longest: int = 40) -> tuple[int, int]:
        """Give the ends of a piece."""
        begin = self.random.randint(0, len(data))
        return begin, min(len(data), begin + self.random.randint(0, longest))

    # -- JSON ---------------------------------------------------------------------------------------

    def confused(self, value: Any) -> Any:
        """Replace, drop, add or wrap one thing somewhere in a JSON value. The value itself stays as it is."""
        if isinstance(value, dict) and value and not self.chance(8):
            name = self.one(sorted(value))
            changed = dict(value)
            if self.chance(8):
                del changed[name]
            elif self.chance(12):
                changed[self.one(("event", "at", "key", "x", "\udc80"))] = self.one(VALUES)
            else:
                changed[name] = self.confused(value[name])
            return changed
        if isinstance(value, list) and value and not self.chance(4):
            at = self.random.randrange(len(value))
            return self.one(
                (
                    [*value[:at], self.confused(value[at]), *value[at + 1 :]],
                    [*value[:at], *value[at + 1 :]],
                    [*value[:at], value[at], *value[at:]],
                    [*value[:at], self.one(VALUES), *value[at:]],
                    value[::-1],
                )
            )
        return self.one((self.one(VALUES), self.one(VALUES), [value], {"x": value}, str(value), nested(value)))


def nested(value: Any) -> Any:
    """Put a value deep into lists."""
    for _ in range(60):
        value = [value]
    return value


def _insert(dice: Dice, data: bytes, _: Sequence[bytes]) -> bytes:
    at = dice.random.randint(0, len(data))
    return data[:at] + dice.one(NASTY) + data[at:]


def _replace(dice: Dice, data: bytes, _: Sequence[bytes]) -> bytes:
    begin, end = dice.cut(data, 6)
    return data[:begin] + dice.one(NASTY) + data[end:]


def _flip(dice: Dice, data: bytes, _: Sequence[bytes]) -> bytes:
    if not data:
        return data
    at = dice.random.randrange(len(data))
    return data[:at] + bytes([data[at] ^ (1 << dice.random.randrange(8))]) + data[at + 1 :]


def _drop(dice: Dice, data: bytes, _: Sequence[bytes]) -> bytes:
    begin, end = dice.cut(data)
    return data[:begin] + data[end:]


def _double(dice: Dice, data: bytes, _: Sequence[bytes]) -> bytes:
    begin, end = dice.cut(data)
    return data[:end] + data[begin:end] * dice.one((1, 1, 3, 60)) + data[end:]


def _exchange(dice: Dice, data: bytes, _: Sequence[bytes]) -> bytes:
    a, b = dice.cut(data)
    c, d = dice.cut(data)
    return data[:a] + data[c:d] + data[b:c] + data[a:b] + data[d:] if b <= c else data


def _truncate(dice: Dice, data: bytes, _: Sequence[bytes]) -> bytes:
    return data[: dice.random.randint(0, len(data))]


def _splice(dice: Dice, data: bytes, others: Sequence[bytes]) -> bytes:
    other = dice.one((data, *others))
    return data[: dice.random.randint(0, len(data))] + other[dice.random.randint(0, len(other)) :]


def _lines(dice: Dice, data: bytes, others: Sequence[bytes]) -> bytes:
    lines = data.split(b"\n")
    at, to = dice.random.randrange(len(lines)), dice.random.randrange(len(lines))
    change = dice.random.randrange(6)
    if change == 0:
        lines.insert(to, lines[at])
    elif change == 1:
        lines[at], lines[to] = lines[to], lines[at]
    elif change == 2:
        del lines[at]
    elif change == 3:
        lines[at : at + 2] = [b"".join(lines[at : at + 2])]
    elif change == 4:
        lines.insert(to, dice.one(dice.one((data, *others)).split(b"\n")))
    else:
        lines[at:at] = [lines[at]] * 70
    return b"\n".join(lines)


_BYTE_CHANGES: tuple[Callable[[Dice, bytes, Sequence[bytes]], bytes], ...] = (
    _insert,
    _insert,
    _replace,
    _replace,
    _flip,
    _drop,
    _double,
    _exchange,
    _truncate,
    _splice,
    _lines,
    _lines,
    _lines,
)


def fuzz(reader: str, count: int, check: Callable[[Dice], None]) -> None:
    """Run ``check`` with ``count`` different generators. A failure says how to see it again, alone."""
    seed, _, only = os.environ.get("SGPU_FUZZ_SEED", SEED).partition(":")
    numbers: Iterable[int] = [int(only)] if only else range(count)
    for number in numbers:
        dice = Dice(f"{reader}/{seed}/{number}")
        try:
            check(dice)
        except Exception as error:
            told = repr(dice.told)
            shown = told if len(told) < 6000 else f"{told[:3000]} ... {told[-3000:]}"
            again = f"SGPU_FUZZ_SEED={seed}:{number}"
            raise AssertionError(f"{reader}: {again}: {type(error).__name__}: {error}\ninput: {shown}") from error


# ---------------------------------------------------------------- a journal with a record of every kind

FACTS = {"files": 1, "tests": [4, 1, 1, 1], "failing": [["m::t", "boom \udc80"]], "damage": "", "warnings": ["odd"]}


def _end(key: str, status: str, start: float | None, stop: float | None, **more: Any) -> dict[str, Any]:
    code = {"PASSED": 0, "FLAKY": 0, "FAILED": 1}.get(status)
    return {
        "event": "outcome",
        "key": key,
        "status": status,
        "exit_code": code,
        "start": start,
        "stop": stop,
        "worker": "gpu0",
        "devices": ["gpu0"],
        "attempt": 1,
        "complete": True,
        "reason": "",
        "proof": "junit",
        "estimate": [9.0, True],
        "junit": FACTS,
        "left": [],
        "late": 0.0,
        "flaky_fails": False,
        **more,
    }


def _entry(rank: int, key: str, seconds: float | None) -> list[Any]:
    return [key, ["./torch.sh", "-v"], 1, rank, seconds, seconds is not None]


KEYS = ("core", "torch/a", "torch/b", "torch/c", "torch/d", "torch/e", "torch/f", "torch/g")
RECORDS: tuple[dict[str, Any], ...] = (
    {
        "event": "run",
        "version": 1,
        "started": 1700000000.5,
        "arch": "gfx950",
        "level": "3",
        "devices": [
            ["gpu0", "GPU-5f", "HIP_VISIBLE_DEVICES", "gfx950"],
            ["gpu1", "1", "HIP_VISIBLE_DEVICES", "gfx950"],
        ],
        "suites": [
            ["torch", "torch.log", "list", ["./torch.sh", "-v"], "q.conf", 1],
            ["core", "core.log", "opaque", ["./core.sh"], "q.conf", 2],
        ],
        "labels": ["torch", "left-out", "core"],
        "digest": "5f1e",
        "commit": "0a1b2c",
        "weights": ["ci-weights", "ci-weights"],
        "rerun": "pytest",
        "root": ".",
    },
    {
        "event": "plan",
        "devices": 2,
        "predicted": 21.5,
        "entries": [_entry(rank, key, 9.0 - rank if rank else None) for rank, key in enumerate(KEYS)],
        "runnable": list(KEYS),
        "known": [*KEYS, "torch/z"],
        "listed": ["torch", "core"],
    },
    {"event": "notice", "text": "a broken line", "where": "w.txt:3"},
    {"event": "setup", "suite": "torch", "exit_code": 0, "signal": None, "start": 0.1, "stop": 0.4},
    {"event": "assign", "at": 1.0, "key": "core", "worker": "gpu0", "attempt": 1},
    {"event": "started", "at": 1.1, "key": "core"},
    {"event": "assign", "at": 1.0, "key": "torch/a", "worker": "gpu1", "attempt": 1},
    {"event": "slow", "at": 4.0, "key": "core", "seconds": 3.0, "limit": 6.0, "quiet": 1.0, "last_line": "wait"},
    _end("torch/a", "PASSED", 1.1, 5.5, worker="gpu1", devices=["gpu1"], left=[[4711, "python server.py"]], late=0.5),
    {"event": "assign", "at": 5.6, "key": "torch/b", "worker": "gpu1", "attempt": 1},
    {
        **_end("torch/b", "FAILED", 5.7, 6.0, worker="gpu1", devices=["gpu1"], reason="exit 1"),
        "event": "attempt",
        "why": "retry",
    },
    {"event": "held", "at": 6.0, "worker": "gpu1", "reason": "three in a row"},
    {"event": "released", "at": 6.5, "worker": "gpu1", "reason": "it was the test"},
    {"event": "quarantine", "at": 6.6, "worker": "gpu1", "devices": ["gpu1"], "reason": "two items"},
    _end("core", "FAILED", 1.1, 7.0, proof="opaque", reason="exit code 1"),
    {"event": "assign", "at": 7.1, "key": "torch/b", "worker": "gpu0", "attempt": 2},
    _end("torch/b", "FLAKY", 7.2, 8.0, attempt=2),
    {"event": "assign", "at": 8.1, "key": "torch/c", "worker": "gpu0", "attempt": 1},
    {"event": "lost", "at": 9.0, "worker": "gpu0", "reason": "it was silent for 10 s"},
    _end("torch/c", "LOST", 8.2, 9.0, exit_code=None, complete=False, proof=""),
    {"event": "assign", "at": 9.1, "key": "torch/d", "worker": "gpu0", "attempt": 1},
    {"event": "assign", "at": 9.1, "key": "torch/g", "worker": "gpu0", "attempt": 1},
    {"event": "paused", "at": 9.2},
    {"event": "resumed", "at": 9.3},
    {"event": "incomplete", "at": 9.5, "reason": "the budget is spent"},
    {"event": "stop", "at": 9.6, "reason": "stopped by SIGINT"},
    _end("torch/d", "STOPPED", 9.1, 9.9, exit_code=None, complete=False, proof=""),
    _end("torch/e", "NOT_RUN", None, None, exit_code=None, complete=False, proof=""),
    {"event": "end", "at": 10.0},
    {"event": "learned", "keys": ["torch/a", "torch/b"], "at": 10.0},
    {"event": "resume", "started": 1700000900.0, "commit": "0a1b2c+changes", "digest": "5f1e", "at": 10.0},
    {"event": "assign", "at": 11.0, "key": "torch/d", "worker": "gpu0", "attempt": 2},
    _end("torch/d", "PASSED", 11.0, 12.0, attempt=2),
    {"event": "assign", "at": 12.0, "key": "torch/e", "worker": "gpu0", "attempt": 1},
    {"event": "from the future", "data": [1]},
)
LINES = tuple(journal.line(record).encode() for record in RECORDS)
JOURNAL = b"".join(LINES)
WHOLE = frozenset(line.decode() for line in LINES)
OTHERS = (
    b'{"event":"outcome"}\n',
    b'{"event":1}\n',
    b"[]\n",
    b"1\n",
    b'{"event":"end"}{"event":"end"}\n',
    b"[" * 3000 + b"\n",
)
