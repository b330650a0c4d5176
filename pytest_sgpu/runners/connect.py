"""A connection within one deadline: name resolution, TCP, the way through a proxy, TLS."""

from __future__ import annotations

import base64
import http.client
import io
import ipaddress
import queue
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import SplitResult, unquote, urlsplit

from pytest_sgpu.errors import OptionError
from pytest_sgpu.runners.ports import TransportError

Resolve = Callable[[str, int], "list[tuple[Any, ...]]"]

_PORTS = {"http": 80, "https": 443}
_URL = re.compile(r"[!-~]+")  # urlsplit would drop line ends and tabs without a word


@dataclass(frozen=True, slots=True)
class Origin:
    """Scheme, host and port: who gets the token."""

    scheme: str
    host: str
    port: int

    @property
    def address(self) -> str:
        """Give ``host:port`` as a request and a message write it."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def loopback(self) -> bool:
        """Whether what is sent there stays on this machine."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


def split(url: str) -> tuple[Origin, SplitResult]:
    """Give the origin and the parts of an http(s) URL. Raises ValueError, which never shows the URL."""
    if not _URL.fullmatch(url):
        raise ValueError("the URL has blanks or characters that are not ASCII")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ValueError("the URL has a host or port that makes no sense") from None
    if parts.scheme not in _PORTS or not parts.hostname:
        raise ValueError("the URL is not of the form https://HOST[:PORT]/...")
    return Origin(parts.scheme, parts.hostname, _PORTS[parts.scheme] if port is None else port), parts


@dataclass(frozen=True, slots=True)
class Proxy:
    """An HTTP proxy that is asked to CONNECT; ``authorization`` is the header's value, or ""."""

    origin: Origin
    authorization: str = field(default="", repr=False)


def proxy_for(origin: Origin, env: Mapping[str, str]) -> Proxy | None:
    """Give the proxy that ``https_proxy`` and ``no_proxy`` (or in capitals) name for ``origin``.

    None for loopback, whatever they say. Raises OptionError for a value that names no HTTP proxy; it never shows
    the value, which may hold a password.
    """
    name = "https_proxy" if env.get("https_proxy") else "HTTPS_PROXY"
    value = env.get(name, "").strip()
    excepted = env.get("no_proxy") or env.get("NO_PROXY") or ""
    if not value or origin.scheme != "https" or origin.loopback or _is_excepted(origin, excepted):
        return None
    try:
        where, parts = split(value if "://" in value else f"http://{value}")
    except ValueError as error:
        raise OptionError(f"{name}: {error}", "give it as http://HOST:PORT or http://USER:PASSWORD@HOST:PORT") from None
    if where.scheme != "http":
        raise OptionError(f"{name}: TLS to the proxy itself is not supported", "give it as http://HOST:PORT")
    if parts.username is None:
        return Proxy(where)
    login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return Proxy(where, "Basic " + base64.b64encode(login.encode()).decode("ascii"))


def _is_excepted(origin: Origin, no_proxy: str) -> bool:
    for entry in no_proxy.lower().replace(",", " ").split():
        name = entry.removeprefix("*").removeprefix(".")
        if entry == "*" or (name and any(f".{own}".endswith(f".{name}") for own in (origin.host, origin.address))):
            return True
    return False


LARGEST = 18 << 20  # bytes of one answer, headers and chunk sizes included


@dataclass(frozen=True, slots=True)
class Deadline:
    """When a whole request is to be over."""

    seconds: float
    at: float

    @classmethod
    def after(cls, seconds: float) -> Deadline:
        """Start now. The clock of the system, since sockets know no other."""
        return cls(seconds, time.monotonic() + seconds)

    def left(self) -> float:
        """Give the seconds that are left, more than 0. Raises TimeoutError when there are none."""
        left = self.at - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left


class Wire(io.RawIOBase):
    """A socket as ``http.client`` uses it, but every read and write has only what is left of the deadline.

    A time-out of the socket itself begins anew with every byte, so an answer that drips would never end.
    Closing it leaves the socket open. What is read counts here, since ``http.client`` believes any length that it
    is told, negative ones too.
    """

    def __init__(self, sock: socket.socket, deadline: Deadline) -> None:
        super().__init__()
        self._socket = sock
        self._deadline = deadline
        self._read = 0

    def readable(self) -> bool:
        """Say yes."""
        return True

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401 # the type Buffer is new in 3.12
        """Read what is there, at least one byte; 0 at the end."""
        self._socket.settimeout(self._deadline.left())
        count = self._socket.recv_into(buffer)
        self._read += count
        if self._read > LARGEST:
            raise TransportError(f"an answer of more than {LARGEST >> 20} MiB")
        return count

    def sendall(self, data: bytes) -> None:
        """Send everything."""
        rest = memoryview(data)
        while rest:
            self._socket.settimeout(self._deadline.left())
            rest = rest[self._socket.send(rest) :]

    def makefile(self, _mode: str) -> io.BufferedReader:
        """Give a reading end of its own: ``http.client`` closes this one as soon as the answer begins."""
        return io.BufferedReader(Wire(self._socket, self._deadline))

    def as_socket(self) -> socket.socket:
        """Give itself, as the type that ``http.client`` asks for."""
        return cast("socket.socket", self)


def resolve(host: str, port: int) -> list[tuple[Any, ...]]:
    """Give the addresses of a host, as ``socket.getaddrinfo`` does."""
    return list(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))


def dial(
    origin: Origin, proxy: Proxy | None, context: ssl.SSLContext | None, deadline: Deadline, resolver: Resolve
) -> socket.socket:
    """Connect to ``origin``; the caller closes what it gets. Raises OSError or TransportError."""
    sock = _connect(proxy.origin if proxy else origin, deadline, resolver)
    try:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if proxy:
            _tunnel(sock, origin, proxy, deadline)
        if context is None:
            return sock
        sock.settimeout(deadline.left())
        # An answer that is cut off is an error also where its length is unknown.
        return context.wrap_socket(sock, server_hostname=origin.host, suppress_ragged_eofs=False)
    except BaseException:
        sock.close()
        raise


def _connect(origin: Origin, deadline: Deadline, resolver: Resolve) -> socket.socket:
    addresses = _addresses(origin, deadline, resolver)
    failure: OSError = OSError(f"no address for {origin.host}")
    for position, (family, kind, protocol, _, address) in enumerate(addresses):
        sock = socket.socket(family, kind, protocol)
        try:
            # Equal shares: one address that swallows everything leaves time for the next.
            sock.settimeout(deadline.left() / (len(addresses) - position))
            sock.connect(address)
        except BaseException as error:
            sock.close()
            if not isinstance(error, OSError):
                raise
            failure = error
        else:
            return sock
    deadline.left()
    raise failure


def _addresses(origin: Origin, deadline: Deadline, resolver: Resolve) -> list[tuple[Any, ...]]:
    """Resolve in a thread: nothing else can end a resolver that waits."""
    answers: queue.SimpleQueue[list[tuple[Any, ...]] | OSError] = queue.SimpleQueue()

    def look() -> None:
        try:
            answers.put(resolver(origin.host, origin.port))
        except (OSError, ValueError) as error:  # ValueError: a label that is too long
            answers.put(error if isinstance(error, OSError) else OSError(f"{origin.host} is no host name"))

    threading.Thread(target=look, daemon=True, name="sgpu-resolve").start()
    try:
        answer = answers.get(timeout=deadline.left())
    except queue.Empty:
        raise TimeoutError from None
    if isinstance(answer, OSError):
        raise answer
    return answer


def _tunnel(sock: socket.socket, origin: Origin, proxy: Proxy, deadline: Deadline) -> None:
    lines = [f"CONNECT {origin.address} HTTP/1.1", f"Host: {origin.address}"]
    lines += [f"Proxy-Authorization: {proxy.authorization}"] if proxy.authorization else []
    wire = Wire(sock, deadline)
    wire.sendall("\r\n".join([*lines, "", ""]).encode("ascii"))
    answer = http.client.HTTPResponse(wire.as_socket(), method="CONNECT")
    answer.begin()
    if not 200 <= answer.status < 300:  # noqa: PLR2004 - any 2xx opens the tunnel (RFC 9110, 9.3.6)
        raise TransportError(f"the proxy {proxy.origin.address} refused the connection with status {answer.status}")
