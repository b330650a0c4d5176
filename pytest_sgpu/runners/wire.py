"""The network and the time as they are: ``HttpTransport`` and ``SystemClock``."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import ssl
import time
from collections.abc import Mapping
from urllib.parse import urljoin

from pytest_sgpu.errors import OptionError
from pytest_sgpu.runners import connect
from pytest_sgpu.runners.connect import Deadline, Origin, Resolve, Wire
from pytest_sgpu.runners.ports import Response, TransportError
from pytest_sgpu.runners.text import one_line, without

BODY_LIMIT = 16 << 20  # bytes of an answer; the largest that the rules read is far smaller
REDIRECTS = 3

_CHUNK = 1 << 16
_METHOD = re.compile(r"[A-Z]+")
_TARGET = re.compile(r"/[!-~]*")
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[ -~]*")
_MOVED = frozenset((301, 302, 303, 307, 308))
_SECRETS = frozenset(("authorization", "proxy-authorization", "cookie"))


class HttpTransport:
    """Requests to one API over HTTPS, with the standard library alone.

    ``api_url`` is GITHUB_API_URL: its path, if any, goes before every path (GitHub Enterprise Server has
    ``/api/v3``). Plain http only to this machine. Certificates are verified (SSL_CERT_FILE and SSL_CERT_DIR as OpenSSL
    reads them); ``https_proxy`` and ``no_proxy`` come from ``env``, by default the environment.

    Nothing is sent twice (R56, R105: who retries is decided by the rules above). A redirect is followed for GET, at
    most 3 times, and only to the same scheme, host and port, so the token never goes elsewhere; any other one is
    given back as it is. Raises OptionError for an ``api_url`` or a proxy that cannot be.
    """

    def __init__(
        self, api_url: str, *, env: Mapping[str, str] | None = None, resolver: Resolve = connect.resolve
    ) -> None:
        try:
            self._origin, parts = connect.split(api_url)
        except ValueError as error:
            raise OptionError(f"GITHUB_API_URL: {error}", "for example https://api.github.com") from None
        if parts.username is not None or parts.query or parts.fragment:
            raise OptionError("GITHUB_API_URL: only scheme, host, port and path are expected", "leave out the rest")
        if self._origin.scheme == "http" and not self._origin.loopback:
            raise OptionError("GITHUB_API_URL: http would show the token to the network", "use https")
        self._prefix = parts.path.rstrip("/")
        self._proxy = connect.proxy_for(self._origin, os.environ if env is None else env)
        self._context = ssl.create_default_context() if self._origin.scheme == "https" else None
        self._resolver = resolver

    def request(
        self, method: str, path: str, *, body: Mapping[str, object] | None, headers: Mapping[str, str], timeout: float
    ) -> Response:
        """Send ``body`` as JSON to ``path`` and give the answer, whatever its status.

        ``timeout`` (seconds) is for everything together: name, connection, TLS, redirects, the last byte. Raises
        TransportError, of one line without the token, when there is no whole answer; an answer may have at most
        16 MiB.
        """
        try:
            sent = _checked(method, path, headers)
            data = None if body is None else json.dumps(body, allow_nan=False).encode("ascii")
            if data is not None:
                sent.setdefault("Content-Type", "application/json")
            return self._follow(method, self._prefix + path, data, sent, Deadline.after(timeout))
        except (TransportError, OSError, http.client.HTTPException, ValueError) as error:
            reason = _reason(error, timeout)
        # Raised out here, so that what was caught, which may quote the request, is not its context.
        raise TransportError(one_line(f"{self._origin.address}: {_masked(reason, headers)}"))

    def _follow(
        self, method: str, target: str, data: bytes | None, headers: Mapping[str, str], deadline: Deadline
    ) -> Response:
        for left in range(REDIRECTS, -1, -1):
            answer = self._exchange(method, target, data, headers, deadline)
            further = _further(self._origin, target, answer) if method == "GET" and left else ""
            if not further:
                break
            target = further
        return answer

    def _exchange(
        self, method: str, target: str, data: bytes | None, headers: Mapping[str, str], deadline: Deadline
    ) -> Response:
        sock = connect.dial(self._origin, self._proxy, self._context, deadline, self._resolver)
        with contextlib.closing(sock):
            # The socket is there already, so http.client does the framing and connects to nothing by itself.
            connection = http.client.HTTPConnection(self._origin.host, self._origin.port)
            connection.sock = Wire(sock, deadline).as_socket()
            connection.request(method, target, data, {"Host": _host(self._origin), **headers, "Connection": "close"})
            answer = connection.getresponse()
            return Response(answer.status, _headers(answer), _body(answer))


class SystemClock:
    """The clock of this machine."""

    def monotonic(self) -> float:
        """Give the seconds of a clock that never jumps."""
        return time.monotonic()

    def time(self) -> float:
        """Give the seconds since the epoch."""
        return time.time()

    def sleep(self, seconds: float) -> None:
        """Wait; a signal handler that raises ends it early."""
        time.sleep(max(0.0, seconds))


def _reason(error: Exception, timeout: float) -> str:
    if isinstance(error, TransportError):
        return str(error)
    if isinstance(error, TimeoutError):
        return f"no whole answer within {timeout:g} s"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate is refused: {error.verify_message} (SSL_CERT_FILE names further authorities)"
    said = getattr(error, "strerror", None) or str(error)
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


def _masked(text: str, headers: Mapping[str, str]) -> str:
    """Take out what the request must keep to itself: whole, and without its scheme, since a server may quote either."""
    for name, value in headers.items():
        if name.lower() in _SECRETS:
            text = without(value.rpartition(" ")[2], without(value, text))
    return text


def _checked(method: str, path: str, headers: Mapping[str, str]) -> dict[str, str]:
    """Refuse whatever could end a line of the request early. The values themselves are never shown."""
    if not _METHOD.fullmatch(method):
        raise TransportError("the method is no word of capitals")
    if not _TARGET.fullmatch(path) or path.startswith("//") or "#" in path:
        raise TransportError("the path does not start with one '/', or has blanks, '#' or characters beyond ASCII")
    for name, value in headers.items():
        if not _HEADER.fullmatch(name):
            raise TransportError("a header has a name that cannot be sent")
        if not _VALUE.fullmatch(value):
            raise TransportError(f"the header {name} has a value that cannot be sent")
    return dict(headers)


def _host(origin: Origin) -> str:
    default = {"http": 80, "https": 443}[origin.scheme]
    return origin.address.removesuffix(f":{default}") if origin.port == default else origin.address


def _further(origin: Origin, target: str, answer: Response) -> str:
    """Give where a redirect leads on the same origin, or "" for anything else."""
    location = next((value for name, value in answer.headers.items() if name.lower() == "location"), "")
    if answer.status not in _MOVED or not location:
        return ""
    base = f"{origin.scheme}://{origin.address}"
    try:
        where, parts = connect.split(urljoin(base + target, location))
    except ValueError:
        return ""
    if where != origin or parts.username is not None:
        return ""
    path = parts.path or "/"
    return f"{path}?{parts.query}" if parts.query else path


def _headers(answer: http.client.HTTPResponse) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in answer.getheaders():
        line = " ".join(value.splitlines())  # a folded header keeps its line ends
        found[name] = f"{found[name]}, {line}" if name in found else line
    return found


def _body(answer: http.client.HTTPResponse) -> bytes:
    expected = answer.length  # None: until the end of the connection, or in chunks
    parts: list[bytes] = []
    size = 0
    while (expected is None or expected <= BODY_LIMIT) and size <= BODY_LIMIT:
        part = answer.read(_CHUNK)
        if not part:
            if expected is not None and size < expected:
                raise TransportError(f"the answer ends after {size} of {expected} bytes")
            return b"".join(parts)
        parts.append(part)
        size += len(part)
    raise TransportError(f"the answer is larger than {BODY_LIMIT >> 20} MiB")
