"""Points in time as GitHub writes them (``2026-03-10T12:00:00Z``) and as seconds since the epoch; reads no clock."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_FORM = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?(?:Z|([+-])(\d\d):(\d\d))", re.ASCII | re.IGNORECASE
)


def utc(epoch: float) -> str:
    """Give ``epoch`` as ``2026-03-10T12:00:00.000Z``; one that no calendar holds gives "" (it is only shown)."""
    try:
        moment = _EPOCH + timedelta(milliseconds=round(epoch * 1000))
    except (OverflowError, ValueError):
        return ""
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def epoch(value: object) -> float | None:
    """Give the seconds since the epoch of an API's time; None for what is no such text."""
    match = _FORM.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return None
    *parts, fraction, sign, hours, minutes = match.groups()
    try:
        moment = datetime(*(int(part) for part in parts[:6]), tzinfo=timezone.utc)  # type: ignore[misc,arg-type]
    except ValueError:
        return None
    offset = (int(hours) * 3600 + int(minutes) * 60) * (-1 if sign == "-" else 1) if sign else 0
    return (moment - _EPOCH).total_seconds() + float(f"0.{fraction or 0}") - offset
