"""What a run tells between the lines of its items: one plain line for each, printable whatever an item wrote.

Every ``clean`` takes the secrets out of what came from an item, before it is cut and made printable.
"""

from __future__ import annotations

from collections.abc import Sequence

from pytest_sgpu.core import text
from pytest_sgpu.core.messages import LOST, PROBE, QUARANTINE
from pytest_sgpu.core.redact import Clean, unchanged
from pytest_sgpu.engine.events import ItemSlow
from pytest_sgpu.model import Leftover, Outcome, Status
from pytest_sgpu.report.pieces import Line, key_text, line

_REASON = 300  # characters
_COMMAND = 160
_LEAKS_SHOWN = 10
_VERBS = {Status.NO_TESTS: "ran nothing", Status.LOST: "was lost", Status.STOPPED: "was ended"}


def attempt_line(outcome: Outcome, why: str, devices: int, clean: Clean = unchanged) -> Line:
    """Say how an attempt ended and when its item runs again. ``devices``: how many this run has."""
    elsewhere = ", on another device" if devices > 1 else ""
    word, again = {
        LOST: ("LOST", f"again at once{elsewhere}"),
        QUARANTINE: ("QUARANTINE", "again at the head of the queue, on another device"),
        PROBE: ("PROBE", f"again at once{elsewhere}, to tell its device from the test"),
    }.get(why, ("RETRY", f"again at the end{elsewhere}"))
    verb = _VERBS.get(outcome.status, outcome.status.value)
    place = text.printable(",".join(outcome.devices)) or "-"
    # Why a device is quarantined has just been said.
    reason = f" ({text.one_line(clean(outcome.reason), _REASON)})" if outcome.reason and why != QUARANTINE else ""
    return line((f"{word} ", "warn"), (key_text(outcome.key), "bold"), f" {verb} on {place}{reason}; {again}")


def slow_line(event: ItemSlow, clean: Clean = unchanged) -> Line:
    """Say that half of an item's time is over, and what it wrote last."""
    said = f'last output {event.quiet:.1f} s ago: "{text.one_line(clean(event.last_line), _COMMAND)}"'
    if not event.last_line.strip():
        said = "no output so far" if event.quiet >= event.seconds else f"last output {event.quiet:.1f} s ago"
    ran = f" runs for {event.seconds:.1f} s of {event.limit:.4g} s on {text.printable(event.worker.place)}; {said}"
    return line(("SLOW ", "warn"), (key_text(event.run_id), "bold"), ran)


def leak_lines(who: str, left: Sequence[Leftover], late: float, clean: Clean = unchanged) -> list[Line]:
    """Name what an item left behind, a process a line. ``who``: its key, or ``setup of SUITE``."""
    made = []
    for process in left[:_LEAKS_SHOWN]:
        command = text.one_line(clean(process.command), _COMMAND)
        what = f' left pid {process.pid} "{command}", {late:.1f} s after its end; killed'
        made.append(line(("LEAK ", "warn"), (key_text(who), "bold"), what))
    if len(left) > _LEAKS_SHOWN:
        made.append(line(("LEAK ", "warn"), (key_text(who), "bold"), f" left {len(left) - _LEAKS_SHOWN} more; killed"))
    return made


def stopping_line(reason: str, grace: float, running: int) -> Line:
    """Say that the run is being ended. ``grace``: seconds that the running items have, unless a signal comes."""
    said = f"sgpu: {text.one_line(reason, _REASON)}: no new items"
    if running:
        said += f", ending {running} running"
        again = "^C again" if reason.endswith("SIGINT") else "^C"
        said += f" (up to {grace:g} s; {again} ends them now)" if grace else " now"
    return line((said, "warn"))


def hurried_line(name: str, running: int) -> Line:
    """Say that a further signal has taken the grace away."""
    what = f"killing {running} running now" if running else "ending now"
    return line((f"sgpu: {text.one_line(name, _REASON)}: {what}, without grace", "warn"))


def device_line(said: str) -> Line:
    """Give a line about a device; its first word stands out."""
    word, _, rest = text.one_line(said, 2 * _REASON).partition(" ")
    return line((f"{word} ", "warn"), rest)
