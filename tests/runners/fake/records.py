"""What was asked of the fake, in order, and what must hold of it whatever the test."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .children import Child


@dataclass(slots=True)
class Recorded:
    """One request; times in seconds since the clock's start, ``status`` 0 for a TransportError."""

    number: int
    at: float
    ended: float
    method: str
    path: str
    query: Mapping[str, str]
    body: Mapping[str, object] | None
    headers: Mapping[str, str]
    timeout: float
    endpoint: str
    run_id: int
    status: int = 0
    counted: bool = True

    @property
    def inputs(self) -> dict[str, str]:
        """The inputs of a dispatch."""
        inputs = (self.body or {}).get("inputs")
        return dict(inputs) if isinstance(inputs, dict) else {}


class Records:
    """Queries of the requests, and assertions."""

    token: str
    children: list[Child]
    max_live: int
    allow_odd: bool

    def __init__(self) -> None:
        self.requests: list[Recorded] = []
        self.odd: list[str] = []

    def _asked(self, method: str, endpoint: str | None, run_id: int | None) -> list[Recorded]:
        return [
            asked
            for asked in self.requests
            if asked.method == method and endpoint in (None, asked.endpoint) and run_id in (None, asked.run_id)
        ]

    def gets(self, endpoint: str | None = None, run_id: int | None = None) -> list[Recorded]:
        """Give the reads."""
        return self._asked("GET", endpoint, run_id)

    def posts(self) -> list[Recorded]:
        """Give the writes."""
        return self._asked("POST", None, None)

    def dispatches(self) -> list[Recorded]:
        """Give the dispatches, also those that failed."""
        return self._asked("POST", "dispatch", None)

    def cancels(self, run_id: int | None = None) -> list[Recorded]:
        """Give the cancellations that were asked for."""
        return self._asked("POST", "cancel", run_id)

    def force_cancels(self, run_id: int | None = None) -> list[Recorded]:
        """Give the forced cancellations that were asked for."""
        return self._asked("POST", "force-cancel", run_id)

    def foreign(self) -> list[Recorded]:
        """Give the cancellations of what was not dispatched here."""
        own = {child.run_id for child in self.children}
        return [asked for asked in self.cancels() + self.force_cancels() if asked.run_id not in own]

    def assert_never_two_live(self, limit: int | None = None) -> None:
        """No dispatch came while ``limit`` (``max_live``) earlier children were not over."""
        most = self.max_live if limit is None else limit
        for child in self.children:
            live = [other.run_id for other in self.children[: child.number] if not other.completed(child.created)]
            assert len(live) <= most, f"{child.created:g} s: the children {live} were live at once, {most} allowed"

    def assert_no_dispatch_after_allocation(self) -> None:
        """With one worker: nothing was dispatched after a child had got a runner."""
        for child in self.children[:-1]:
            assert not child.allocated(), f"child {child.run_id} got a runner, and there was another dispatch"

    def assert_all_ended(self, at: float | None = None) -> None:
        """No child is left running."""
        live = [child.run_id for child in self.live(at)]
        assert not live, f"children {live} are not over"

    def assert_only_own_cancelled(self) -> None:
        """Nothing else was cancelled than what was dispatched here."""
        assert not self.foreign(), self.foreign()

    def assert_request_ids_unique(self) -> None:
        """Every dispatch had a name of its own; so no dispatch was repeated."""
        names = [asked.inputs.get("request-id", "") for asked in self.dispatches()]
        assert all(names), "a dispatch without a request-id"
        assert len(set(names)) == len(names), f"a request-id came twice: {names}"

    def assert_no_token_anywhere(self) -> None:
        """The token went nowhere but into its header."""
        for asked in self.requests:
            text = repr((asked.path, asked.query, asked.body, asked.headers))
            assert self.token not in text, f"request {asked.number}: the token is in it"

    def check(self) -> None:
        """Everything that holds in every test."""
        assert self.allow_odd or not self.odd, self.odd
        self.assert_never_two_live()
        self.assert_only_own_cancelled()
        self.assert_request_ids_unique()
        self.assert_no_token_anywhere()

    def live(self, at: float | None = None) -> list[Child]:
        """Give the children that are dispatched and not over at that time."""
        raise NotImplementedError
