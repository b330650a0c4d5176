"""Where draws come from: one given number, a source of random numbers, or a hash that gives the same again."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

Chance = Callable[[str], float]
"""Experiment to draw: at least 0, less than 100 (percent)."""

_BITS = 53  # as many as a float holds: more could round up to 100
_STEPS = 1 << _BITS


def fixed(percent: float) -> Chance:
    """Give ``percent`` to every experiment (Q35)."""
    return lambda _experiment: percent


def drawn(source: Callable[[], float]) -> Chance:
    """Ask ``source`` (such as ``random.Random(1).random``: at least 0, less than 1) for every draw."""
    return lambda _experiment: 100.0 * source()


def keyed(key: str) -> Chance:
    """Draw from a hash of experiment and ``key``: the same pair draws the same, everywhere and always (Q36).

    Whoever is not above a percentage is not above any higher one either, so raising it moves nobody back.
    """

    def draw(experiment: str) -> float:
        digest = hashlib.sha256(f"{experiment}\0{key}".encode("utf-8", "surrogatepass")).digest()
        return 100.0 * ((int.from_bytes(digest[:8], "big") >> (64 - _BITS)) / _STEPS)

    return draw
