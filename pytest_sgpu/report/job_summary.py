"""As much of the report as a job summary can hold, cut where a section or a failed item begins."""

from __future__ import annotations

import re

from pytest_sgpu.core.text import counted
from pytest_sgpu.report.md_text import code

SUITES_HEAD = "## Suites"
FAILED_HEAD = "## Failed items"

_SECTION = re.compile(r"^(?=## )", re.MULTILINE)
_FENCE = re.compile(r"^(?=```)", re.MULTILINE)
_BLOCK = re.compile(r"^(?=### )", re.MULTILINE)


def summary(text: str, room: int, where: str = "report/schedule.md of the run directory") -> str:
    """Give as much of a report as ``room`` bytes of UTF-8 hold: whole blocks only, in their order.

    The head line always comes first; then the suites, as long as that leaves most of the room; then the
    failed items, at first with their last lines and then without; then whatever other section fits. What
    is missing is counted, with ``where`` all of it is. Room for not even the head line gives "".
    """
    if _size(text) <= room:
        return text
    head, *sections = _SECTION.split(text)
    left = room - _size(head) - _size(_cut_note(len(text), len(text), where))
    if left < 0:
        return ""
    kept = [""] * len(sections)
    missing = 0
    for at in sorted(range(len(sections)), key=lambda at: _urgency(sections[at], left)):
        if sections[at].startswith(FAILED_HEAD):
            kept[at], missing = _fitting_blocks(sections[at], left)
        elif _size(sections[at]) <= left:
            kept[at] = sections[at]
        left -= _size(kept[at])
    dropped = sum(
        not part and not section.startswith(FAILED_HEAD) for part, section in zip(kept, sections, strict=True)
    )
    return (head + "".join(kept)).rstrip("\n") + _cut_note(missing, dropped, where)


def _urgency(section: str, room: int) -> int:
    if section.startswith(SUITES_HEAD) and _size(section) * 4 <= room:
        return 0
    return 1 if section.startswith(FAILED_HEAD) else 2


def _fitting_blocks(section: str, room: int) -> tuple[str, int]:
    """Give the beginning of the section of failed items, and how many of its blocks are missing."""
    title, *blocks = _BLOCK.split(section)
    kept, left = [title], room - _size(title)
    for block in blocks:
        for form in (block, _FENCE.split(block, maxsplit=1)[0]):
            if _size(form) <= left:
                kept.append(form)
                left -= _size(form)
                break
        else:
            break
    return ("".join(kept) if len(kept) > 1 else ""), len(blocks) - len(kept) + 1


def _cut_note(blocks: int, sections: int, where: str) -> str:
    parts = [f"{counted(blocks, 'more failed item')}"] if blocks else []
    if sections:
        parts.append(f"{counted(sections, 'section')}")
    return f"\n\n**Not shown here: {' and '.join(parts)}, for want of room.** All of it is in {code(where)}.\n"


def _size(text: str) -> int:
    return len(text.encode())
