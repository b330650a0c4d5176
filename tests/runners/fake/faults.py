"""What goes wrong between the client and the service: faults by endpoint, and the rate limit."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field

HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class Fault:
    """One wrong answer. Either ``status`` or ``error``, or neither: then the right answer is only late.

    ``done``: the request was carried out all the same. ``takes``: the answer comes that many seconds later, made from
    the state at the arrival of the request.
    """

    status: int = 0
    body: bytes | Mapping[str, object] = b'{"message": "scripted"}'
    headers: Mapping[str, str] = field(default_factory=dict)
    error: str = ""
    done: bool = False
    takes: float = 0.0

    @property
    def carried_out(self) -> bool:
        """Say whether the service did what it was asked for."""
        return self.done or not (self.status or self.error)

    @property
    def content(self) -> bytes:
        """The body of the answer."""
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


@dataclass(slots=True)
class Rule:
    """A fault and the requests that it is for."""

    endpoint: str
    fault: Fault
    left: float
    skip: int
    run_id: int | None
    since: float
    until: float

    def fits(self, method: str, endpoint: str, run_id: int, now: float) -> bool:
        """Say whether it is for this request."""
        return (
            self.left > 0
            and self.endpoint in ("*", method, endpoint)
            and self.run_id in (None, run_id)
            and self.since <= now < self.until
        )


class Faults:
    """The faults that are still to come, in the order in which they were asked for."""

    def __init__(self) -> None:
        self._rules: list[Rule] = []

    def add(self, endpoint: str, fault: Fault, *, times: int | None, skip: int, run_id: int | None) -> Rule:
        """Add one for the next ``times`` requests, None being all, after letting ``skip`` of them pass."""
        rule = Rule(endpoint, fault, math.inf if times is None else times, skip, run_id, 0.0, math.inf)
        self._rules.append(rule)
        return rule

    def take(self, method: str, endpoint: str, run_id: int, now: float) -> Fault:
        """Give the fault of this request; an empty one where there is none."""
        for rule in self._rules:
            if rule.fits(method, endpoint, run_id, now):
                if rule.skip:
                    rule.skip -= 1
                    continue
                rule.left -= 1
                return rule.fault
        return Fault()


class RateLimit:
    """The primary limit: so many requests in an hour. Times are those of the server, since the epoch."""

    def __init__(self, limit: int = 1000) -> None:
        self.limit = limit
        self.used = 0
        self.reset = 0.0
        self.status = 403

    def spend_all_but(self, remaining: int, until: float, status: int) -> None:
        """Leave ``remaining`` requests until then; further ones are answered with ``status``."""
        self.used, self.reset, self.status = self.limit - remaining, until, status

    def exhausted(self, now: float) -> bool:
        """Say whether no request is left; a new hour begins where the last is over."""
        if now >= self.reset:
            self.used, self.reset = 0, now + HOUR
        return self.used >= self.limit

    def headers(self) -> dict[str, str]:
        """What every answer says about it."""
        return {
            "X-RateLimit-Limit": str(self.limit),
            "X-RateLimit-Remaining": str(max(0, self.limit - self.used)),
            "X-RateLimit-Used": str(self.used),
            "X-RateLimit-Reset": str(math.ceil(self.reset)),
            "X-RateLimit-Resource": "core",
        }
