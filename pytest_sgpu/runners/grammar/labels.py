"""What the label of a runner says: operating system, architecture, CPU or GPU, how many GPUs.

How labels are built is data (``[[grammar]]`` in the pools file): forms that are tried in order.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

FAMILIES = ("cpu", "gpu")
PARTS = ("os", "arch", "model", "driver", "cores", "gpus")
"""The named groups that a pattern may have, and the constants that a form may have in their place."""

COUNTS = ("cores", "gpus")
MOST_GPUS = 64
_DIGITS = 6


@dataclass(frozen=True, slots=True)
class Label:
    """One label understood. ``gpus`` is 0 for a CPU label; parts that its form does not name are "" or 0.

    ``groups`` are the runner groups that alone hold labels of this form; none means that any may.
    """

    text: str
    family: str
    os: str
    arch: str
    gpus: int = 0
    model: str = ""
    driver: str = ""
    cores: int = 0
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Form:
    """One form of labels: a pattern for the whole label, and constants for what the pattern does not hold."""

    family: str
    pattern: re.Pattern[str]
    constants: Mapping[str, str] = field(default_factory=dict)
    groups: tuple[str, ...] = ()

    def read(self, label: str) -> Label | None:
        """Give what ``label`` says, or None when it has not this form (or names no number of GPUs)."""
        match = self.pattern.fullmatch(label)
        if match is None:
            return None
        parts = {**self.constants, **{name: part for name, part in match.groupdict().items() if part}}
        gpus, cores = (_count(parts.get(name, "0")) for name in ("gpus", "cores"))
        if not parts.get("os") or not parts.get("arch") or gpus is None or cores is None:
            return None
        if (self.family == "gpu") != (gpus > 0):
            return None
        text = {name: parts.get(name, "") for name in PARTS if name not in COUNTS}
        return Label(text=label, family=self.family, gpus=gpus, cores=cores, groups=self.groups, **text)


def classify(label: str, forms: Iterable[Form]) -> Label | None:
    """Read ``label`` with the first form that fits; None when none does."""
    return next((read for form in forms if (read := form.read(label)) is not None), None)


def compiled(pattern: str) -> re.Pattern[str]:
    """Compile a pattern of the pools file. Raises ValueError that says what is wrong with it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what a later Python may read in another way is the file's own matter
            return re.compile(pattern)
    except (re.error, OverflowError, RecursionError, ValueError) as error:
        raise ValueError(str(error) or "it is nested too deeply") from None


def _count(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _DIGITS else None
