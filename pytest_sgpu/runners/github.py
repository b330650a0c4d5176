"""The REST calls, behind a Transport: paths, headers, retries, and answers decoded.

``Client.perform`` is a generator: it yields the times until which to wait between tries, so that one loop can serve
several workers, and returns one ``Observation``.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Final
from urllib.parse import quote

from pytest_sgpu import __version__
from pytest_sgpu.runners.machine.actions import (
    Answer,
    Cancel,
    Dispatch,
    Dispatched,
    Effect,
    Failure,
    FindRuns,
    Observation,
    ReadDefinition,
    ReadJobs,
    ReadRun,
    ReadSource,
    Trouble,
    Wait,
)
from pytest_sgpu.runners.machine.sightings import DISPATCHED, MOST_ID, jobs_seen, link, run_seen, runs_seen, sha_seen
from pytest_sgpu.runners.ports import Clock, Response, Transport, TransportError
from pytest_sgpu.runners.retry import Again, GiveUp, Tries, is_limited, trouble_of
from pytest_sgpu.runners.text import one_line, without

API_VERSION = "2026-03-10"  # R7: the first in which a dispatch answers with the run
REQUEST_TIMEOUT = 30.0  # seconds
_LEAST_TIMEOUT = 1.0
_LOOK_BACK = 86400.0  # seconds; the clocks of runner and API may differ by far, and the title decides anyway

_MOST_KEPT = 128  # answers; twenty workers at once have three each, and what ended long ago makes room
_EVENTS = (DISPATCHED, "")  # a list that was asked for by event need not repeat it

_OK, _NOT_MODIFIED, _BAD_REQUEST, _REQUEST_TIMEOUT, _SERVER_ERROR = 200, 304, 400, 408, 500

Pausing = Generator[float, None, Observation]
Shape = Callable[[object], Answer]


@dataclass(frozen=True, slots=True)
class _Kept:
    etag: str
    body: bytes


@dataclass(frozen=True, slots=True)
class _Got:
    """An answer with header names in lower case, or why there is none."""

    response: Response | None
    error: str = ""

    @property
    def status(self) -> int:
        """The status, 0 when there was no answer."""
        return self.response.status if self.response else 0

    @property
    def headers(self) -> Mapping[str, str]:
        return {str(k).lower(): str(v) for k, v in self.response.headers.items()} if self.response else {}

    @property
    def json(self) -> object:
        """The decoded body; an Exception object when it is not JSON."""
        try:
            return json.loads(self.response.body) if self.response else None
        except (ValueError, RecursionError) as error:
            return error

    @property
    def message(self) -> str:
        """What the API says about an error."""
        if self.status < 300:  # noqa: PLR2004 - a success says none, and its body is decoded once, for what it shows
            return ""
        body = self.json
        text = body.get("message") if isinstance(body, Mapping) else None
        return one_line(text, 120) if isinstance(text, str) else ""


class Client:
    """Carries out effects for one repository. With ``conditional``, what did not change costs no quota."""

    def __init__(
        self, transport: Transport, clock: Clock, token: str, repository: str, *, conditional: bool = False
    ) -> None:
        self._transport = transport
        self._clock = clock
        self._token: Final = token
        self._root = f"/repos/{repository}"
        self._conditional = conditional
        self._kept: dict[str, _Kept] = {}

    def perform(self, effect: Effect) -> Pausing:
        """Carry out one effect; yields monotonic times to wait for."""
        if isinstance(effect, Wait):
            now = self._clock.monotonic()
            if effect.until > now:
                yield effect.until
            woke = self._clock.monotonic()
            return Observation(woke, woke)
        if isinstance(effect, Dispatch):
            return self._dispatch(effect)
        if isinstance(effect, Cancel):
            verb = "force-cancel" if effect.force else "cancel"
            path = f"{self._root}/actions/runs/{effect.run_id}/{verb}"
            return (yield from self._ask("POST", path, None, effect.by))
        path, shape = self._read(effect)
        patient = isinstance(effect, ReadRun | ReadJobs) and effect.patient
        by = None if isinstance(effect, ReadDefinition) else effect.by
        return (yield from self._ask("GET", path, shape, by, patient=patient))

    def read(
        self, path: str, *, kind: type[dict[str, object] | list[object]] = dict, by: float | None = None
    ) -> Generator[float, None, tuple[object, str]]:
        """Read anything of the repository (``path`` from the repository on) with the same retries, until ``by``.

        Gives the decoded body, an object or whatever ``kind`` says, and why there is none ("": there is one); yields
        monotonic times to wait for.
        """
        bodies: list[object] = []

        def keep(body: object) -> Answer:
            bodies.append(body)
            return "" if isinstance(body, kind) else None

        seen = yield from self._ask("GET", self._root + path, keep, by)
        return (None, seen.failure.text) if seen.failure else (bodies[-1], "")

    def _read(self, effect: Effect) -> tuple[str, Shape]:
        if isinstance(effect, ReadRun):
            return f"{self._root}/actions/runs/{effect.run_id}", run_seen
        if isinstance(effect, ReadJobs):
            return f"{self._root}/actions/runs/{effect.run_id}/jobs?filter=latest&per_page=100", jobs_seen
        if isinstance(effect, ReadSource):
            # The ref of an annotated tag points at the tag, which is no commit; the other call looks through it.
            call = "commits" if effect.ref.startswith("refs/tags/") else "git/ref"
            return f"{self._root}/{call}/{_in_path(effect.ref)}", sha_seen
        if isinstance(effect, ReadDefinition):
            return f"{self._root}/commits/{_in_path(effect.ref)}", sha_seen
        assert isinstance(effect, FindRuns)
        # A whole hour, so that the searches of one hour ask for the same, which may have stayed the same.
        since = datetime.fromtimestamp(max(0.0, self._clock.time() - _LOOK_BACK) // 3600 * 3600, timezone.utc)
        created = quote(f">={since:%Y-%m-%dT%H:%M:%SZ}", safe="")
        path = f"{self._root}/actions/workflows/{effect.workflow}/runs"
        return f"{path}?event=workflow_dispatch&created={created}&per_page=100", _titled(effect.title)

    def _dispatch(self, effect: Dispatch) -> Observation:
        """Send one dispatch. Never again, whatever comes back: a second one could run the work twice (R56)."""
        path = f"{self._root}/actions/workflows/{effect.workflow}/dispatches"
        body = {"ref": effect.ref, "inputs": dict(effect.inputs)}
        began = self._clock.monotonic()
        got = self._once("POST", path, body, REQUEST_TIMEOUT)
        ended = self._clock.monotonic()
        answer, failure = self._dispatched(got, f"POST {path}")
        return Observation(began, ended, answer, failure)

    def _dispatched(self, got: _Got, what: str) -> tuple[Dispatched | None, Failure | None]:
        text = f"{what}: {self._said(got)}"
        if got.response is None:
            return None, Failure(Trouble.AMBIGUOUS, text)
        status = got.response.status
        if status == _OK:
            body = got.json
            run_id = body.get("workflow_run_id") if isinstance(body, Mapping) else None
            if isinstance(run_id, int) and not isinstance(run_id, bool) and 0 < run_id < MOST_ID:
                return Dispatched(run_id, link(body.get("html_url") if isinstance(body, Mapping) else "")), None
            return None, Failure(Trouble.AMBIGUOUS, f"{text}, without a run id")
        if status < 300 or status == _REQUEST_TIMEOUT or status >= _SERVER_ERROR:  # noqa: PLR2004 - any other success
            return None, Failure(Trouble.AMBIGUOUS, text)
        if is_limited(status, got.headers, got.message):
            return None, Failure(Trouble.LIMITED, text)
        return None, Failure(trouble_of(status), text)

    def _ask(self, method: str, path: str, shape: Shape | None, by: float | None, *, patient: bool = False) -> Pausing:
        tries = Tries()
        text = f"{method} {path}: not tried, its time was over"
        while True:
            began = self._clock.monotonic()
            if by is not None and began > by:
                return Observation(began, began, failure=Failure(Trouble.LATE, text, tried=tries.made > 0))
            timeout = REQUEST_TIMEOUT if by is None or patient else by - began
            got = self._once(method, path, None, max(_LEAST_TIMEOUT, min(REQUEST_TIMEOUT, timeout)))
            ended = self._clock.monotonic()
            tries.made += 1
            verdict, answer = self._judged(got, tries, shape, path)
            if verdict is None:
                return Observation(began, ended, answer)
            text = f"{method} {path}: {self._said(got)}, tried {tries.made} time{'s' if tries.made > 1 else ''}"
            if isinstance(verdict, GiveUp):
                text += f"; {verdict.why}" if verdict.why else ""
                return Observation(began, ended, failure=Failure(verdict.trouble, text, status=got.status))
            if by is not None and ended + verdict.seconds > by:
                return Observation(began, ended, failure=Failure(Trouble.LATE, text))
            yield ended + verdict.seconds

    def _judged(self, got: _Got, tries: Tries, shape: Shape | None, path: str) -> tuple[Again | GiveUp | None, Answer]:
        if got.response is None:
            return tries.outage(), None
        kept = self._kept.get(path)
        if got.response.status == _NOT_MODIFIED and kept:
            got = _Got(Response(_OK, {}, kept.body))
        assert got.response is not None
        verdict = tries.status(got.response.status, got.headers, got.message, self._clock.time())
        if verdict is not None or shape is None:
            return verdict, None
        answer = shape(got.json)
        if answer is None:
            return tries.outage(), None
        etag = got.headers.get("etag", "")
        if self._conditional and etag.isascii() and etag.isprintable() and etag:
            self._kept.pop(path, None)
            self._kept[path] = _Kept(etag, got.response.body)
            while len(self._kept) > _MOST_KEPT:
                del self._kept[next(iter(self._kept))]
        return None, answer

    def _once(self, method: str, path: str, body: Mapping[str, object] | None, timeout: float) -> _Got:
        headers = {
            "Accept": "application/vnd.github+json",
            "Authorization": f"Bearer {self._token}",
            "User-Agent": f"pytest-sgpu/{__version__}",
            "X-GitHub-Api-Version": API_VERSION,
        }
        kept = self._kept.get(path) if method == "GET" else None
        if kept:
            headers["If-None-Match"] = kept.etag
        try:
            return _Got(
                self._masked(self._transport.request(method, path, body=body, headers=headers, timeout=timeout))
            )
        except TransportError as error:
            return _Got(None, one_line(without(self._token, str(error))) or "no answer")

    def _masked(self, response: Response) -> Response:
        """Take the token out of an answer before anything cuts, escapes or tells it."""
        headers = {str(name): without(self._token, str(value)) for name, value in response.headers.items()}
        body = response.body
        if b"\\u" in body:  # the token may hide behind escapes
            with contextlib.suppress(ValueError, RecursionError):
                body = json.dumps(json.loads(body), ensure_ascii=False).encode("utf-8", "surrogatepass")
        if self._token.encode() in body:
            body = without(self._token, body.decode("utf-8", "replace")).encode()
        return Response(response.status, headers, body)

    def _said(self, got: _Got) -> str:
        """Say what came back, with the id under which GitHub's support finds it (R109)."""
        if got.response is None:
            return without(self._token, got.error)
        parts = [str(got.response.status)]
        request_id = one_line(got.headers.get("x-github-request-id", ""), 80)
        if request_id:
            parts.append(f"(request id {request_id})")
        if got.response.status < 300 and isinstance(got.json, Exception):  # noqa: PLR2004 - any success
            parts.append("with a body that is no JSON")
        elif got.response.status < 300:  # noqa: PLR2004 - as above
            parts.append("with an unexpected body")
        elif got.message:
            parts.append(got.message)
        return without(self._token, " ".join(parts))


def _titled(title: str) -> Shape:
    def shape(body: object) -> Answer:
        runs = runs_seen(body)
        if runs is None:
            return None
        return tuple(run for run in runs if run.title == title and run.event in _EVENTS)

    return shape


def _in_path(ref: str) -> str:
    """Give a ref as a path of the API wants it: without ``refs/``, slashes kept, all else quoted."""
    return quote(ref.removeprefix("refs/"), safe="/")
