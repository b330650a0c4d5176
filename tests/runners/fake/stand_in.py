"""The fake behind a real socket on this machine, for tests that run real processes."""

from __future__ import annotations

import argparse
import json
import math
import threading
from collections.abc import Sequence
from dataclasses import asdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from pytest_sgpu.runners.ports import Response, TransportError

from .clock import RealClock
from .environment import github_env
from .github import FakeGitHub

_RECORDS = "/-/requests"
_MOST_BODY = 1 << 20


class _Server(ThreadingHTTPServer):
    # Threads of answers that are still to come must not keep a test from ending.
    daemon_threads = True
    block_on_close = False

    def __init__(self, github: FakeGitHub, port: int) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.github = github

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: clients of these tests may be killed in the middle of an answer."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    timeout = 60
    # Head and body leave together: a client that waits for the body must not wait for an acknowledgement too.
    wbufsize = -1
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        if self.path == _RECORDS:
            records = [asdict(asked) for asked in self.server.github.requests]
            self._send(Response(200, {"Content-Type": "application/json"}, json.dumps(records).encode()))
        else:
            self._answer()

    def do_POST(self) -> None:
        self._answer()

    def _answer(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        text = self.rfile.read(min(length, _MOST_BODY))
        try:
            body = json.loads(text) if text else None
        except ValueError:
            self._send(Response(400, {}, b'{"message": "Problems parsing JSON"}'))
            return
        headers = dict(self.headers.items())
        try:
            response = self.server.github.request(self.command, self.path, body=body, headers=headers, timeout=math.inf)
        except TransportError:
            # Closed without an answer: that is what no answer looks like from outside.
            self.close_connection = True
            return
        self._send(response)

    def _send(self, response: Response) -> None:
        self.send_response_only(response.status)
        for name, value in response.headers.items():
            self.send_header(name, value)
        if response.status not in (204, 304):
            self.send_header("Content-Length", str(len(response.body)))
        self.end_headers()
        if response.status not in (204, 304):
            self.wfile.write(response.body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Print nothing."""


class StandIn:
    """A context manager: a FakeGitHub at ``url``, on a real clock that runs ``speed`` times as fast."""

    def __init__(self, github: FakeGitHub | None = None, *, speed: float = 1.0, port: int = 0) -> None:
        self.github = github or FakeGitHub(RealClock(speed))
        self._server = _Server(self.github, port)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def start(self) -> StandIn:
        """Begin to answer; nothing where it already does."""
        if not self._thread.is_alive():
            self._thread.start()
        return self

    def close(self) -> None:
        """Answer no more; nothing where it already is closed."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()

    def __enter__(self) -> StandIn:  # noqa: PYI034 - Self is not in Python 3.10
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def env(self, directory: Path, run_id: int | None = None) -> dict[str, str]:
        """Give the variables of a job that talks to it."""
        return {**github_env(directory, self.github, run_id), "GITHUB_API_URL": self.url}


def _seconds(text: str) -> float | None:
    return None if text == "never" else float(text)


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until interrupted; the first line of the output is the URL, the second the token."""
    parser = argparse.ArgumentParser(prog="python tests/runners/fake", description=main.__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--speed", type=float, default=1.0, help="how many times as fast the server's time runs")
    parser.add_argument("--runner-after", type=_seconds, default=20.0, help="seconds, or never")
    parser.add_argument("--runs-for", type=_seconds, default=60.0, help="seconds, or never for without end")
    parser.add_argument("--conclusion", default="success")
    parser.add_argument("--latency", type=float, default=0.0, help="seconds of the server's time, for each request")
    options = parser.parse_args(argv)
    with StandIn(speed=options.speed, port=options.port) as server:
        server.github.latency = options.latency
        server.github.plan_all(
            runner_after=options.runner_after, runs_for=options.runs_for, conclusion=options.conclusion
        )
        print(server.url, server.github.token, sep="\n", flush=True)
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            return 0
    return 0
