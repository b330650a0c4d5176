"""Get one runner: the pure state machine. Observations in, actions out; no clock, no network, no files.

Candidates are asked one after the other. Each gets one child, which is watched until a runner takes it or its
queue deadline passes. Only when its cancellation is proven to have come before any execution is the next candidate
asked. Once a runner was seen, whatever happens is the result: the work is never run twice (R92, R95).
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass

from pytest_sgpu.runners.links import logs_line, run_page, trusted
from pytest_sgpu.runners.machine.actions import (
    Action,
    Dispatch,
    Dispatched,
    Failure,
    Note,
    Observation,
    ReadDefinition,
    Save,
    Stopped,
    Trouble,
    stopped_by,
)
from pytest_sgpu.runners.machine.child import Child, Moment
from pytest_sgpu.runners.machine.cleaning import WINDOW, clean, find
from pytest_sgpu.runners.machine.parent import parent_start
from pytest_sgpu.runners.machine.watch import Steps, Watch, drift
from pytest_sgpu.runners.ports import Attempt, Kind
from pytest_sgpu.runners.settings.inputs import Settings

_UNKNOWN_REF = (404, 422)  # what the API answers for a commit that it does not know


@dataclass(frozen=True, slots=True)
class End:
    """How the sequence of one worker ended. ``cleanup`` is confirmed, unconfirmed, or "" when there was none."""

    kind: Kind
    message: str
    cleanup: str
    attempts: tuple[Attempt, ...]
    state: dict[str, str]


class Acquisition:
    """The machine of one worker. ``start`` and ``handle`` give remarks and then one effect; after the end, none.

    ``request_id`` gives a name for the n-th dispatch that nobody else has (R47). ``end`` is set at the end.
    """

    def __init__(self, settings: Settings, workload: str, request_id: Callable[[int], str], *, worker: int = 1) -> None:
        self._settings = settings
        self._workload = workload
        self._request_id = request_id
        self._worker = worker
        self._children: list[Child] = []
        self._definition = ""
        self._moment = Moment()
        self._steps: Generator[Action, Observation, End] | None = None
        self.end: End | None = None
        self.stop: Stopped | None = None

    def start(self, now: float) -> tuple[Action, ...]:
        """Begin at a monotonic time."""
        assert self._steps is None
        self._moment.now = now
        self._steps = self._sequence()
        return self._until_effect(None)

    def handle(self, seen: Observation) -> tuple[Action, ...]:
        """Take the answer to the last effect."""
        self._moment.now = max(self._moment.now, seen.ended)
        return self._until_effect(seen)

    def attempts(self) -> tuple[Attempt, ...]:
        """Give what was dispatched so far, in order."""
        return tuple(attempt for _, attempt in self.dispatches())

    def dispatches(self) -> tuple[tuple[float, Attempt], ...]:
        """Give the same, each with the monotonic time at which its dispatch was sent."""
        return tuple((child.sent_at, child.attempt(self._moment.now)) for child in self._children)

    def _until_effect(self, seen: Observation | None) -> tuple[Action, ...]:
        assert self._steps is not None
        actions: list[Action] = []
        try:
            while True:
                action = next(self._steps) if seen is None else self._steps.send(seen)
                seen = None
                actions.append(action)
                if not isinstance(action, Note | Save):
                    return tuple(actions)
        except StopIteration as stop:
            self.end = stop.value
            return tuple(actions)

    # -- the sequence --------------------------------------------------------------------------------------

    def _sequence(self) -> Generator[Action, Observation, End]:
        try:
            yield from self._acquired()
        except Stopped as stop:
            return (yield from self._stopped(stop))
        child = self._children[-1]
        message = self._with_link(f"child {child.run_id} succeeded on {child.candidate.labels}")
        yield Note("end", f"success; polling has finished: {message}")
        return End("", message, "", self.attempts(), {})

    def _acquired(self) -> Steps:
        """Come back when the work has succeeded; any other end raises ``Stopped``."""
        settings = self._settings
        yield from parent_start(settings.parent, self._moment.now)
        for number, candidate in enumerate(settings.candidates, 1):
            yield from self._preflight()
            child = Child(
                number=number,
                worker=self._worker,
                candidate=candidate,
                request_id=self._request_id(number),
                head_sha=self._definition,
                workflow=settings.workflow,
                server_url=settings.server_url,
            )
            yield from self._dispatch(child)
            watch = Watch(child, settings, self._moment)
            yield from watch.startup()
            if (yield from watch.watched()):
                return
        labels = ", ".join(candidate.labels for candidate in settings.candidates)
        raise Stopped(
            "queue_exhausted", f"no runner came in time from any of {len(settings.candidates)} candidates: {labels}"
        )

    def _preflight(self) -> Steps:
        """Check what the next dispatch stands on: parent, source, definition (R54, R98, R102)."""
        settings = self._settings
        yield from drift(settings, source=True)
        seen = yield ReadDefinition(settings.workflow_ref)
        if seen.failure and seen.failure.status not in _UNKNOWN_REF:
            raise stopped_by(seen.failure)
        if seen.failure and self._definition:
            raise Stopped("workflow_changed", f"{settings.workflow_ref} is gone: {seen.failure.text}")
        if seen.failure:
            text = f"workflow-ref: no branch or tag {settings.workflow_ref}, or the token cannot read it"
            raise Stopped("api_error", f"{text}: {seen.failure.text}")
        found = str(seen.answer)
        if self._definition and found.lower() != self._definition.lower():
            expected = f"expected {self._definition}, found {found[:80]}"
            raise Stopped("workflow_changed", f"{settings.workflow_ref} moved since the first dispatch: {expected}")
        self._definition = found
        yield Note("preflight", "", {"source": settings.source_sha, "definition": found[:80]})

    def _dispatch(self, child: Child) -> Steps:
        """Dispatch once. What a cleanup needs is saved before, so that even a lost answer leaves a trace (R114)."""
        settings = self._settings
        inputs = {
            "request-id": child.request_id,
            "parent-run-id": str(settings.parent.run_id),
            "parent-run-attempt": str(settings.parent.attempt),
            "source-ref": settings.source_ref,
            "source-sha": settings.source_sha,
            "runner": child.candidate.runner_json,
            "workload": self._workload,
        }
        self._children.append(child)
        child.dispatched_at = self._moment.now
        yield Save(self._state(child))
        place = f"{child.candidate.labels} (group {child.candidate.group})"
        text = f"dispatch {child.number} of {len(settings.candidates)}: {place}, {child.request_id}"
        yield Note("dispatch", text, {"runner": child.candidate.runner, "request_id": child.request_id})
        seen = yield Dispatch(settings.workflow, settings.workflow_ref, inputs)
        child.sent_at, child.dispatched_at = seen.began, seen.ended
        if seen.failure:
            yield from self._not_dispatched(child, seen.failure)
        assert isinstance(seen.answer, Dispatched)
        if seen.answer.run_id == settings.parent.run_id:  # to cancel that would be to cancel ourselves
            text = f"the answer to the dispatch names the parent, run {seen.answer.run_id}"
            yield from self._not_dispatched(child, Failure(Trouble.AMBIGUOUS, text))
        yield from self._known(child, seen.answer.run_id, seen.answer.url)

    def _known(self, child: Child, run_id: int, url: str) -> Steps:
        child.run_id = run_id
        settings = self._settings
        page = run_page(run_id, repository=settings.repository, server_url=settings.server_url)
        child.run_url = trusted(url, settings.server_url) or page
        yield Save(self._state(child))
        yield Note("dispatched", f"child {run_id}: {child.run_url}", {"run_id": run_id})

    def _not_dispatched(self, child: Child, failure: Failure) -> Steps:
        """Raise the end that a failed dispatch means; when it may have been carried out, find it first (R57)."""
        if failure.trouble is not Trouble.AMBIGUOUS:
            child.done = True
            yield Save({})
            kind: Kind = "auth" if failure.trouble is Trouble.AUTH else "dispatch_failed"
            raise Stopped(kind, f"the dispatch was refused: {failure.text}")
        yield Note("recover", f"the dispatch may have been carried out, looking for {child.request_id}: {failure.text}")
        raise Stopped("dispatch_ambiguous", f"{failure.text}; {(yield from self._found(child))}")

    def _found(self, child: Child) -> Generator[Action, Observation, str]:
        """Look for the run of a child by its name; say how that went. What else has the name is ended at once."""
        found, problem = yield from find(
            child.workflow, child.request_id, self._settings.parent.run_id, self._moment.now, WINDOW
        )
        if not found:
            return f"no run named {child.request_id} was found{problem}"
        yield from self._known(child, found[0].id, found[0].url)
        for twin in found[1:]:  # the name is unique, so something on the way has sent the dispatch twice
            ended = yield from clean(twin.id, self._moment.now, force=self._settings.force_cancel)
            child.twins += () if ended else (twin.id,)
        return f"found as run {child.run_id} by its name"

    # -- the end -------------------------------------------------------------------------------------------

    def _stopped(self, stop: Stopped) -> Generator[Action, Observation, End]:
        """Clean up after a sequence that stopped; the primary error stays the error (R112, R116, R118)."""
        child = self._children[-1] if self._children else None
        self.stop = stop
        if child:
            child.outcome = child.outcome or stop.kind
        yield Note("error", f"{stop.kind}: {stop.message}", {"kind": stop.kind})
        cleanup, state = "", {}
        if child and not child.done:
            # Its window was spent looking already; the post step tries again.
            child.done = stop.kind != "cancel_unconfirmed" and (yield from self._cleaned(child))
            cleanup = "confirmed" if child.done else "unconfirmed"
            state = {} if child.done else self._state(child)
            yield Save(state)
            yield Note("cleanup", "", {"cleanup": cleanup})
        elif child:
            yield Save({})
        if child:
            child.ended_at = self._moment.now if child.ended_at is None else child.ended_at
        told = f"; cleanup of {child.named}: {cleanup}" if child and cleanup else ""
        message = self._with_link(f"{stop.message}{told}")
        yield Note("end", self._with_link(f"{stop.kind}{told}; polling has finished"), {"kind": stop.kind})
        return End(stop.kind, message, cleanup, self.attempts(), state)

    def _cleaned(self, child: Child) -> Generator[Action, Observation, bool]:
        """End a child; give whether it was seen to end, and everything else that has its name."""
        if child.stranger:
            text = f"run {child.run_id} is left alone, it is {child.stranger}"
            child.run_id, child.run_url = 0, ""
            yield Note("recover", f"{text}; {(yield from self._found(child))}", {})
        if not child.run_id:
            return False
        force = self._settings.force_cancel
        ended = yield from clean(child.run_id, self._moment.now, force=force, accepted=child.cancelling)
        return ended and not child.twins

    def _state(self, child: Child) -> dict[str, str]:
        return child.state | ({"force-cancel": "true"} if self._settings.force_cancel else {})

    def _with_link(self, text: str) -> str:
        """Add the way to the logs of the worker's job (R124)."""
        if not self._children or not self._children[-1].run_id:
            return text
        attempt = self._children[-1].attempt(self._moment.now)
        settings = self._settings
        return f"{text}. {logs_line(attempt, repository=settings.repository, server_url=settings.server_url)}"
