"""GitHub as a ``ports.Transport``: the modelled repository, its faults, and a record of all that it was asked."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Mapping
from email.utils import formatdate
from urllib.parse import parse_qsl, urlsplit

from pytest_sgpu.runners.ports import Response, TransportError

from .clock import FakeClock
from .records import Recorded, Records
from .repository import Repository
from .rest import Answer, OddError, Request, Rest, check, find

TOKEN = "ghs_" + "T0ken" * 7
_MOST_REQUESTS = 20_000


class FakeGitHub(Repository, Records):
    """A ``Transport``. Requests are carried out when they arrive; the answer comes ``latency`` seconds later."""

    def __init__(self, clock: FakeClock, repository: str = "o/r", token: str = TOKEN) -> None:
        Repository.__init__(self, clock, repository)
        Records.__init__(self)
        self.token = token
        self.latency = 0.0
        self.allow_odd = False
        self._rest = Rest(self)
        self._lock = threading.Lock()

    @property
    def rate_limit(self) -> int:
        """Requests an hour."""
        return self.limit.limit

    @rate_limit.setter
    def rate_limit(self, limit: int) -> None:
        self.limit.limit = limit

    def request(
        self, method: str, path: str, *, body: Mapping[str, object] | None, headers: Mapping[str, str], timeout: float
    ) -> Response:
        """Answer, or raise TransportError where the script says so."""
        with self._lock:
            asked, result, takes = self._carry_out(method, path, body, headers, timeout)
        if takes >= timeout > 0:
            asked.status, result, takes = 0, TransportError(f"no answer within {timeout:g} s"), timeout
        try:
            self.clock.advance(takes)
        finally:
            asked.ended = self.clock.elapsed
        if isinstance(result, TransportError):
            raise result
        return result

    def _carry_out(
        self, method: str, path: str, body: Mapping[str, object] | None, headers: Mapping[str, str], timeout: float
    ) -> tuple[Recorded, Response | TransportError, float]:
        request = self._request(method, path, body, headers)
        asked = self._record(request, timeout)
        fault = self.faults.take(method, request.endpoint, request.run_id, asked.at)
        response: Response | None = None
        exhausted = self.limit.exhausted(self.server_time())
        if fault.carried_out:
            response = self._answer(request, asked, exhausted=exhausted)
        else:
            self.limit.used += 1
        takes = self.latency + fault.takes
        if fault.error:
            return asked, TransportError(fault.error), takes
        if fault.status:
            named = {"X-GitHub-Request-Id": f"FA7E:{asked.number:04d}", **self.limit.headers()}
            response = Response(fault.status, {**named, **fault.headers}, fault.content)
        assert response is not None
        asked.status = response.status
        return asked, response, takes

    def _request(
        self, method: str, path: str, body: Mapping[str, object] | None, headers: Mapping[str, str]
    ) -> Request:
        parts = urlsplit(path)
        endpoint, found, known = find(self, method, parts.path)
        lower = {name.lower(): value for name, value in headers.items()}
        # A copy, and only what JSON can carry.
        sent = None if body is None else json.loads(json.dumps(body))
        query = dict(parse_qsl(parts.query, keep_blank_values=True))
        return Request(method, parts.path, query, sent, lower, endpoint, found, known)

    def _record(self, request: Request, timeout: float) -> Recorded:
        if len(self.requests) >= _MOST_REQUESTS:
            raise RuntimeError(f"{_MOST_REQUESTS} requests: this looks like an endless loop")
        masked = {
            name: re.sub(r" .*", " ***", text) if name == "authorization" else text
            for name, text in request.headers.items()
        }
        now = self.clock.elapsed
        asked = Recorded(
            number=len(self.requests) + 1,
            at=now,
            ended=now,
            method=request.method,
            path=request.path,
            query=request.query,
            body=request.body,
            headers=masked,
            timeout=timeout,
            endpoint=request.endpoint,
            run_id=request.run_id,
        )
        self.requests.append(asked)
        return asked

    def _answer(self, request: Request, asked: Recorded, *, exhausted: bool) -> Response:
        if exhausted:
            asked.counted = False
            text = "API rate limit exceeded for installation."
            return self._response(asked, (self.limit.status, {"message": text}))
        try:
            check(request, asked.timeout)
            answer = self._allowed(request)
        except OddError as odd:
            self.odd.append(f"{asked.number}. {request.method} {request.path}: {odd}")
            answer = (400, {"message": f"odd: {odd}"})
        return self._response(asked, answer, request.headers.get("if-none-match"))

    def _allowed(self, request: Request) -> Answer:
        if request.headers["authorization"] not in (f"Bearer {self.token}", f"token {self.token}"):
            return 401, {"message": "Bad credentials"}
        return self._rest.answer(request)

    def _response(self, asked: Recorded, answer: Answer, known: str | None = None) -> Response:
        status, content = answer
        body = (content if isinstance(content, str) else json.dumps(content)).encode()
        headers = {"Content-Type": "application/json; charset=utf-8"}
        if asked.method == "GET" and status == 200:
            headers["ETag"] = f'W/"{hashlib.sha256(body).hexdigest()}"'
            if known in (headers["ETag"], headers["ETag"].removeprefix("W/")):
                status, body = 304, b""
                asked.counted = False
        self.limit.used += asked.counted
        headers |= {
            "Date": formatdate(self.server_time(), usegmt=True),
            "X-GitHub-Request-Id": f"FA7E:{asked.number:04d}",
            **self.limit.headers(),
        }
        return Response(status, headers, body)
