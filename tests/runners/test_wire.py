"""HttpTransport over real sockets of this machine: what it sends, whom it trusts, when it gives up."""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import ssl
import subprocess
import threading
import time
import traceback
from collections.abc import Callable, Iterator

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pytest_sgpu.errors import OptionError
from pytest_sgpu.runners import connect, wire
from pytest_sgpu.runners.ports import Response, TransportError
from pytest_sgpu.runners.wire import HttpTransport, SystemClock

TOKEN = "ghs_SECRETsecretSECRET"
HEADERS = {"Authorization": f"Bearer {TOKEN}", "User-Agent": "test"}
OK = b'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nETag: "x"\r\n\r\n{}'
PATIENCE = 10.0  # seconds; only a failure ever waits so long

Script = Callable[[socket.socket, bytes], None]


class Server:
    """Answers each connection by the next script; the last one stays. Keeps what was asked, byte by byte."""

    def __init__(self, *scripts: Script | bytes, context: ssl.SSLContext | None = None) -> None:
        self.scripts = list(scripts)
        self.requests: list[bytes] = []
        self.stop = threading.Event()
        self._context = context
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def close(self) -> None:
        self.stop.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()

    def _serve(self) -> None:
        while not self.stop.is_set():
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            with client, contextlib.suppress(OSError):
                client.settimeout(PATIENCE)
                if self._context:
                    with self._context.wrap_socket(client, server_side=True) as secured:
                        self._talk(secured)
                else:
                    self._talk(client)

    def _talk(self, client: socket.socket) -> None:
        request = read_request(client)
        self.requests.append(request)
        script = self.scripts.pop(0) if len(self.scripts) > 1 else self.scripts[0]
        if isinstance(script, bytes):
            client.sendall(script)
        else:
            script(client, request)


def read_request(client: socket.socket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        part = client.recv(65536)
        if not part:
            return data
        data += part
        if data[:1] == b"\x16":  # a handshake of TLS has no lines
            return data
    head, _, body = data.partition(b"\r\n\r\n")
    length = next((int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0)
    while len(body) < length:
        body += client.recv(65536)
    return head + b"\r\n\r\n" + body


def hold(client: socket.socket, _request: bytes) -> None:
    """Say no more until the other side leaves."""
    while client.recv(4096):
        pass


@pytest.fixture
def serve() -> Iterator[Callable[..., Server]]:
    with contextlib.ExitStack() as stack:

        def start(*scripts: Script | bytes, context: ssl.SSLContext | None = None) -> Server:
            server = Server(*scripts, context=context)
            stack.callback(server.close)
            return server

        yield start


def transport_to(server: Server, path: str = "", env: dict[str, str] | None = None) -> HttpTransport:
    return HttpTransport(f"http://127.0.0.1:{server.port}{path}", env=env or {})


def get(transport: HttpTransport, path: str = "/repos/o/r", timeout: float = PATIENCE, method: str = "GET") -> Response:
    return transport.request(method, path, body=None, headers=HEADERS, timeout=timeout)


def failure(
    transport: HttpTransport,
    path: str = "/repos/o/r",
    *,
    headers: dict[str, str] | None = None,
    timeout: float = PATIENCE,
    method: str = "GET",
) -> str:
    """Give the text of the TransportError that a request ends in; it never holds the token, in any form."""
    with pytest.raises(TransportError) as caught:
        transport.request(method, path, body=None, headers=HEADERS if headers is None else headers, timeout=timeout)
    message = str(caught.value)
    chain = "".join(traceback.format_exception(caught.type, caught.value, caught.tb))
    assert TOKEN not in message + repr(caught.value) + chain
    assert caught.value.__context__ is None
    assert caught.value.__cause__ is None
    assert len(message.splitlines()) == 1
    return message


# -- what is sent and what comes back -------------------------------------------------------------


def test_a_request_and_its_answer(serve):
    server = serve(b'HTTP/1.1 201 Made\r\nContent-Length: 9\r\nX-A: 1\r\nx-a: 2\r\nLong: a\r\n b\r\n\r\n{"a": 1}\n')
    answer = transport_to(server).request("GET", "/repos/o/r?a=b%20c", body=None, headers=HEADERS, timeout=PATIENCE)
    assert (answer.status, answer.body) == (201, b'{"a": 1}\n')
    assert {name.lower(): value for name, value in answer.headers.items()}["content-length"] == "9"
    assert "\n" not in "".join(answer.headers.values())
    assert answer.headers["X-A"] == "1"
    head = server.requests[0].decode().split("\r\n")
    assert head[0] == "GET /repos/o/r?a=b%20c HTTP/1.1"
    assert set(head[1:]) - {""} == {
        f"Host: 127.0.0.1:{server.port}",
        "Accept-Encoding: identity",
        f"Authorization: Bearer {TOKEN}",
        "User-Agent: test",
        "Connection: close",
    }


def test_repeated_headers_are_joined(serve):
    answer = get(transport_to(serve(b"HTTP/1.1 200 OK\r\nLink: a\r\nLink: b\r\nContent-Length: 0\r\n\r\n")))
    assert answer.headers["Link"] == "a, b"


def test_a_body_is_sent_as_json(serve):
    server = serve(OK)
    body = {"ref": "main", "inputs": {"workload": '{"a":"\N{SNOWMAN}\ud800"}'}}
    transport_to(server).request("POST", "/x", body=body, headers=HEADERS, timeout=PATIENCE)
    head, _, sent = server.requests[0].partition(b"\r\n\r\n")
    assert json.loads(sent) == body
    assert b"Content-Type: application/json" in head.split(b"\r\n")


def test_a_post_without_a_body_says_so(serve):
    server = serve(b"HTTP/1.1 202 Accepted\r\nContent-Length: 2\r\n\r\n{}")
    assert get(transport_to(server), method="POST").status == 202
    assert b"Content-Length: 0" in server.requests[0].split(b"\r\n")


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\nabc",
        b"HTTP/1.0 200 OK\r\n\r\nabc",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcdefgh",
    ],
)
def test_every_framing_of_an_answer(serve, answer):
    assert get(transport_to(serve(answer))).body == b"abc"


@pytest.mark.parametrize("status", [204, 304, 400, 401, 403, 404, 409, 422, 429, 500, 502, 503])
def test_no_status_is_an_error_here_and_none_is_tried_again(serve, status):
    server = serve(f"HTTP/1.1 {status} X\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n".encode())
    assert get(transport_to(server)).status == status
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("url", "sent"), [("/api/v3", "/api/v3/repos/o"), ("/api/v3/", "/api/v3/repos/o"), ("/", "/repos/o")]
)
def test_the_path_of_the_api_goes_before(serve, url, sent):
    server = serve(OK)
    get(transport_to(server, url), "/repos/o")
    assert server.requests[0].startswith(f"GET {sent} HTTP/1.1\r\n".encode())


# -- what it refuses ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("http://api.github.com", "show the token"),
        ("http://10.0.0.1", "show the token"),
        ("http://localhost.evil.org", "show the token"),
        ("ftp://localhost", "form"),
        ("", "blanks"),
        ("api.github.com", "form"),
        ("https://", "form"),
        ("https://h:port", "makes no sense"),
        ("https://h:99999", "makes no sense"),
        ("https://[::1", "makes no sense"),
        ("https://h\r\nX: y", "blanks"),
        ("https://h/\tx", "blanks"),
        ("https://h\u2028/", "blanks"),
        ("https://user:PASSWORD@h", "only scheme"),
        ("https://h/?q=PASSWORD", "only scheme"),
        ("https://h/#PASSWORD", "only scheme"),
    ],
)
def test_a_bad_api_url_is_refused_at_once(url, said):
    with pytest.raises(OptionError, match=said) as caught:
        HttpTransport(url, env={})
    assert caught.value.message.startswith("GITHUB_API_URL: ")
    assert caught.value.hint
    assert "PASSWORD" not in str(caught.value)


@pytest.mark.parametrize(
    "url", ["http://localhost:1", "http://127.8.9.1", "http://[::1]:8", "HTTP://LOCALHOST", "https://x"]
)
def test_http_is_for_this_machine_alone(url):
    HttpTransport(url, env={})


@pytest.mark.parametrize(
    "path",
    [
        "",
        "repos",
        "//evil.org/x",
        "/a b",
        "/a\r\nX: y",
        "/a\nb",
        "/\x00",
        "/ä",
        "/a\u2028b",
        "/a#b",
        "http://evil.org/",
    ],
)
def test_a_path_cannot_leave_its_line(serve, path):
    server = serve(OK)
    assert "the path" in failure(transport_to(server), path)
    assert server.requests == []


@pytest.mark.parametrize("method", ["", "get", "GET /x HTTP/1.1\r\nX:", "G T"])
def test_a_method_is_one_word(serve, method):
    assert "the method" in failure(transport_to(serve(OK)), method=method)


@pytest.mark.parametrize(
    "value", [f"Bearer {TOKEN}\r\nX: y", f"Bearer {TOKEN}\n", f"{TOKEN}\x00", f"{TOKEN}\u2028", f"{TOKEN}ä"]
)
def test_a_header_cannot_bring_another(serve, value):
    server = serve(OK)
    message = failure(transport_to(server), headers={"Authorization": value})
    assert message.endswith("the header Authorization has a value that cannot be sent")
    message = failure(transport_to(server), headers={f"X{value}": "y"})
    assert message.endswith("a header has a name that cannot be sent")
    assert server.requests == []


def test_a_number_that_json_does_not_know_is_refused(serve):
    server = serve(OK)
    with pytest.raises(TransportError, match="JSON"):
        transport_to(server).request("POST", "/x", body={"a": float("nan")}, headers=HEADERS, timeout=PATIENCE)
    assert server.requests == []


# -- answers that are none ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTT",
        b"HTTP/1.1",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffffff\r\nabc\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\nabc\r\n",
        b"HTTP/1.1 abc OK\r\n\r\n",
        b"HTTP/9.9 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: " + b"y" * 70_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 200 + b"\r\n",
        b"SSH-2.0-OpenSSH\r\n",
        f"{TOKEN}\n\x1b[2J::error::Bearer {TOKEN}\r\n\r\n".encode(),
    ],
)
def test_a_broken_answer_is_a_transport_error(serve, answer):
    server = serve(answer)
    message = failure(transport_to(server))
    assert message.startswith(f"127.0.0.1:{server.port}: ")
    assert "\x1b" not in message
    assert len(server.requests) == 1


def test_a_truncated_answer_says_how_much_is_missing(serve):
    server = serve(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc")
    assert failure(transport_to(server)).endswith("the answer ends after 3 of 5 bytes")


@given(st.binary(max_size=300), st.booleans())
@example(b"HTTP/1.1 200\r\nContent-Length: -1\r\n\r\nx", False)
def test_any_bytes_are_an_answer_or_a_transport_error(data, with_head):
    server = Server((b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" if with_head else b"") + data)
    try:
        with contextlib.suppress(TransportError):
            assert isinstance(get(transport_to(server)), Response)
    finally:
        server.close()


def test_a_reset_is_a_transport_error(serve):
    def reset(client: socket.socket, _request: bytes) -> None:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        client.close()

    server = serve(reset)
    assert "ConnectionResetError" in failure(transport_to(server))
    assert len(server.requests) == 1


def test_a_refused_connection_is_a_transport_error(serve):
    server = serve(OK)
    transport = transport_to(server)
    server.close()
    assert "Connection refused" in failure(transport)


def test_an_answer_has_at_most_16_mib(serve):
    def chunks(client: socket.socket, _request: bytes) -> None:
        client.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            client.sendall(b"10000\r\n" + b"x" * 65536 + b"\r\n")

    def endless(client: socket.socket, _request: bytes) -> None:
        client.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            client.sendall(b"x" * 65536)

    declared = f"HTTP/1.1 200 OK\r\nContent-Length: {10**15}\r\n\r\n".encode()
    for script in (declared, chunks, endless):
        assert failure(transport_to(serve(script))).endswith("the answer is larger than 16 MiB")


def test_an_answer_of_exactly_16_mib_is_taken(serve):
    body = b"x" * wire.BODY_LIMIT
    head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    assert get(transport_to(serve(head + body))).body == body


# -- the whole request has one time-out -----------------------------------------------------------


def drip(text: bytes) -> Script:
    def script(client: socket.socket, _request: bytes) -> None:
        for number in range(len(text)):
            client.sendall(text[number : number + 1])
            # Each byte comes well before a time-out that would begin anew with it.
            client.settimeout(0.02)
            with contextlib.suppress(TimeoutError):
                if not client.recv(1):
                    return

    return script


@pytest.mark.parametrize(
    "script",
    [
        hold,
        drip(b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 10_000),
        drip(b"HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\n" + b"x" * 99_999),
        drip(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 9_999),
        drip(b"HTTP/1.1 100 Continue\r\n\r\n" * 9_999),
    ],
)
def test_an_answer_that_drips_ends_in_time(serve, script):
    transport = transport_to(serve(script))
    begin = time.monotonic()
    assert failure(transport, timeout=0.3).endswith("no whole answer within 0.3 s")
    assert 0.25 < time.monotonic() - begin < PATIENCE


def test_redirects_share_the_time(serve):
    server = serve(b"HTTP/1.1 302 Found\r\nLocation: /next\r\nContent-Length: 0\r\n\r\n", hold)
    begin = time.monotonic()
    assert failure(transport_to(server), timeout=0.3).endswith("no whole answer within 0.3 s")
    assert time.monotonic() - begin < PATIENCE
    assert len(server.requests) == 2


def test_a_resolver_that_waits_ends_in_time():
    over = threading.Event()

    def wait(_host: str, _port: int) -> list[tuple[object, ...]]:
        over.wait(PATIENCE)
        return []

    try:
        message = failure(HttpTransport("https://api.example.test", env={}, resolver=wait), timeout=0.1)
    finally:
        over.set()
    assert message == "api.example.test:443: no whole answer within 0.1 s"


def test_no_time_at_all_is_no_request(serve):
    server = serve(OK)
    for timeout in (0.0, -1.0):
        assert "no whole answer" in failure(transport_to(server), timeout=timeout)
    assert server.requests == []


def test_a_name_that_does_not_exist_is_a_transport_error():
    def unknown(_host: str, _port: int) -> list[tuple[object, ...]]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    assert "Name or service not known" in failure(HttpTransport("https://nowhere.test", env={}, resolver=unknown))
    message = failure(HttpTransport("https://nowhere.test", env={}, resolver=lambda _host, _port: []))
    assert "no address for nowhere.test" in message
    assert "no host name" in failure(HttpTransport(f"https://{'a' * 70}.test", env={}))


def test_the_second_address_is_tried(serve):
    server, closed = serve(OK), socket.create_server(("127.0.0.1", 0))
    port = closed.getsockname()[1]
    closed.close()

    def both(_host: str, _port: int) -> list[tuple[object, ...]]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", number)) for number in (port, server.port)]

    assert get(HttpTransport("http://localhost:1", env={}, resolver=both)).body == b"{}"


# -- redirects ------------------------------------------------------------------------------------


def moved(location: str, status: int = 302) -> bytes:
    return f"HTTP/1.1 {status} Moved\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n".encode("latin-1")


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize(
    "form", ["/next?page=2", "http://127.0.0.1:{port}/next?page=2", "next?page=2", "/next?page=2#part"]
)
def test_a_redirect_on_the_same_host_is_followed(serve, status, form):
    server = serve(OK)
    server.scripts.insert(0, moved(form.format(port=server.port), status))
    assert get(transport_to(server), "/here").body == b"{}"
    assert server.requests[1].startswith(b"GET /next?page=2 HTTP/1.1\r\n")
    assert TOKEN.encode() in server.requests[1]


def test_at_most_three_redirects_are_followed(serve):
    server = serve(moved("/again"))
    assert get(transport_to(server)).status == 302
    assert len(server.requests) == 4


def test_no_redirect_leads_the_token_elsewhere(serve):
    other = serve(OK)
    here = serve(OK)
    port = other.port
    targets = [
        f"http://127.0.0.1:{port}/x",
        f"http://localhost:{here.port}/x",
        f"//127.0.0.1:{port}/x",
        f"https://127.0.0.1:{here.port}/x",
        f"http://127.0.0.1:{here.port}@127.0.0.1:{port}/x",
        f"http://user@127.0.0.1:{here.port}/x",
        f"http://127.0.0.1:{port}\\@127.0.0.1:{here.port}/x",
        "file:///etc/passwd",
        "http://[/x",
        "/a b",
        "/\xe4",
        "",
    ]
    for number, target in enumerate(targets, start=1):
        here.scripts.insert(0, moved(target))
        answer = get(transport_to(here))
        assert answer.status == 302
        assert answer.headers["Location"] == target
        assert len(here.requests) == number
    assert other.requests == []


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "HEAD"])
def test_only_get_follows_a_redirect(serve, method):
    server = serve(moved("/next", 307))
    assert get(transport_to(server), method=method).status == 307
    assert len(server.requests) == 1


@pytest.mark.parametrize("status", [300, 304, 305, 399, 200, 404])
def test_other_answers_with_a_location_are_no_redirect(serve, status):
    server = serve(moved("/next", status))
    assert get(transport_to(server)).status == status
    assert len(server.requests) == 1


# -- TLS ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    if not shutil.which("openssl"):
        pytest.skip("there is no openssl command")
    folder = tmp_path_factory.mktemp("tls")
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=test"]
    command += [
        "-addext",
        "subjectAltName=DNS:localhost,DNS:api.example.test",
        "-keyout",
        "key.pem",
        "-out",
        "cert.pem",
    ]
    made = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    if made.returncode:
        pytest.skip(f"openssl made no certificate: {made.stderr}")
    return folder / "cert.pem"


@pytest.fixture
def tls(certificate):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, certificate.with_name("key.pem"))
    return context


@pytest.fixture
def trusted(certificate, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))


def test_a_certificate_that_nobody_signed_is_refused(serve, tls, monkeypatch):
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    server = serve(OK, context=tls)
    message = failure(HttpTransport(f"https://localhost:{server.port}", env={}))
    assert "the certificate is refused: self-signed certificate" in message.replace("self signed", "self-signed")
    assert "SSL_CERT_FILE" in message
    assert server.requests == []


def test_a_certificate_in_ssl_cert_file_is_trusted(serve, tls, trusted):
    server = serve(OK, context=tls)
    assert get(HttpTransport(f"https://localhost:{server.port}", env={})).body == b"{}"
    assert f"Host: localhost:{server.port}".encode() in server.requests[0]


def test_a_certificate_in_ssl_cert_dir_is_trusted(serve, tls, certificate, tmp_path, monkeypatch):
    command = ["openssl", "x509", "-hash", "-noout", "-in", str(certificate)]
    name = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout.strip()
    shutil.copy(certificate, tmp_path / f"{name}.0")
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))
    assert get(HttpTransport(f"https://localhost:{serve(OK, context=tls).port}", env={})).body == b"{}"


def test_a_certificate_for_another_name_is_refused(serve, tls, trusted):
    server = serve(OK, context=tls)
    message = failure(HttpTransport(f"https://127.0.0.1:{server.port}", env={}))
    assert "the certificate is refused" in message
    assert server.requests == []


def test_a_redirect_never_leaves_tls(serve, tls, trusted):
    server = serve(OK, context=tls)
    server.scripts.insert(0, moved(f"http://localhost:{server.port}/x"))
    assert get(HttpTransport(f"https://localhost:{server.port}", env={})).status == 302
    assert len(server.requests) == 1


def test_tls_that_ends_early_is_a_transport_error(serve, tls, trusted):
    server = serve(OK)  # speaks no TLS
    assert "SSLError" in failure(HttpTransport(f"https://localhost:{server.port}", env={}))

    def cut(client: socket.socket, _request: bytes) -> None:
        client.sendall(b"HTTP/1.1 200 OK\r\n\r\nabc")
        socket.socket(fileno=client.detach()).close()  # without the goodbye of TLS

    server = serve(cut, context=tls)
    assert "SSLEOFError" in failure(HttpTransport(f"https://localhost:{server.port}", env={}))


def test_a_handshake_that_waits_ends_in_time(serve):
    server = serve(hold)
    message = failure(HttpTransport(f"https://localhost:{server.port}", env={}), timeout=0.3)
    assert message.endswith("no whole answer within 0.3 s")


# -- proxies --------------------------------------------------------------------------------------


def relay(port: int, status: str = "200 Connection established") -> Script:
    """Be a proxy: connect to this port, whatever name was asked for."""

    def script(client: socket.socket, _request: bytes) -> None:
        with socket.create_connection(("127.0.0.1", port)) as upstream:
            client.sendall(f"HTTP/1.1 {status}\r\n\r\n".encode())

            def copy(source: socket.socket, sink: socket.socket) -> None:
                with contextlib.suppress(OSError):
                    while data := source.recv(65536):
                        sink.sendall(data)
                    sink.shutdown(socket.SHUT_WR)

            back = threading.Thread(target=copy, args=(upstream, client))
            back.start()
            copy(client, upstream)
            back.join(PATIENCE)

    return script


@pytest.mark.parametrize("variable", ["https_proxy", "HTTPS_PROXY"])
@pytest.mark.parametrize("form", ["http://127.0.0.1:{port}", "127.0.0.1:{port}", " http://127.0.0.1:{port}/ "])
def test_a_proxy_of_the_environment_is_used(serve, tls, trusted, variable, form):
    server = serve(OK, context=tls)
    proxy = serve(relay(server.port))
    transport = HttpTransport("https://api.example.test", env={variable: form.format(port=proxy.port)})
    assert get(transport).body == b"{}"
    assert proxy.requests == [b"CONNECT api.example.test:443 HTTP/1.1\r\nHost: api.example.test:443\r\n\r\n"]
    assert b"Host: api.example.test\r\n" in server.requests[0]


@pytest.mark.parametrize("status", ["201 Created", "204 No Content"])
def test_any_success_of_a_proxy_opens_the_tunnel(serve, tls, trusted, status):
    server = serve(OK, context=tls)
    proxy = serve(relay(server.port, status))
    env = {"https_proxy": f"http://127.0.0.1:{proxy.port}"}
    assert get(HttpTransport("https://api.example.test", env=env)).body == b"{}"


def test_the_environment_is_the_default(serve, tls, trusted, monkeypatch):
    server = serve(OK, context=tls)
    proxy = serve(relay(server.port))
    for name in ("no_proxy", "NO_PROXY", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{proxy.port}")
    assert get(HttpTransport("https://api.example.test")).body == b"{}"
    assert len(proxy.requests) == 1


def test_a_proxy_gets_its_own_password_and_never_the_token(serve, tls, trusted):
    server = serve(OK, context=tls)
    proxy = serve(relay(server.port))
    env = {"https_proxy": f"http://us%65r:p%40ss@127.0.0.1:{proxy.port}"}
    assert get(HttpTransport("https://api.example.test", env=env)).status == 200
    assert b"Proxy-Authorization: Basic dXNlcjpwQHNz\r\n" in proxy.requests[0]
    assert TOKEN.encode() not in proxy.requests[0]
    assert b"Proxy-Authorization" not in server.requests[0]


def test_a_proxy_that_refuses_is_a_transport_error(serve):
    proxy = serve(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
    env = {"https_proxy": f"http://user:PASSWORD@127.0.0.1:{proxy.port}"}
    message = failure(HttpTransport("https://api.example.test", env=env))
    assert message == f"api.example.test:443: the proxy 127.0.0.1:{proxy.port} refused the connection with status 407"
    for script in (b"", b"nonsense\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\nno TLS here"):
        proxy = serve(script)
        message = failure(HttpTransport("https://api.example.test", env={"https_proxy": f"127.0.0.1:{proxy.port}"}))
        assert message.startswith("api.example.test:443: ")


def test_a_proxy_that_drips_ends_in_time(serve):
    proxy = serve(drip(b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 10_000))
    transport = HttpTransport("https://api.example.test", env={"https_proxy": f"127.0.0.1:{proxy.port}"})
    assert failure(transport, timeout=0.3).endswith("no whole answer within 0.3 s")


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("https://USER:PASSWORD@proxy:1", "TLS to the proxy"),
        ("socks5://USER:PASSWORD@proxy:1", "form"),
        ("http://USER:PASSWORD@proxy:x", "makes no sense"),
        ("http://USER:PASSWORD@proxy:1\r\nX: y", "blanks"),
        ("http://", "form"),
    ],
)
def test_a_bad_proxy_is_refused_at_once(value, said):
    with pytest.raises(OptionError, match=said) as caught:
        HttpTransport("https://api.example.test", env={"HTTPS_PROXY": value})
    assert caught.value.message.startswith("HTTPS_PROXY: ")
    assert "USER:PASSWORD@proxy" not in str(caught.value)


@pytest.mark.parametrize(
    ("no_proxy", "direct"),
    [
        ("", False),
        ("*", True),
        ("api.example.test", True),
        ("API.EXAMPLE.TEST", True),
        ("example.test", True),
        (".example.test", True),
        ("*.example.test", True),
        ("other.org, example.test", True),
        ("other.org example.test", True),
        ("api.example.test:443", True),
        ("api.example.test:80", False),
        ("ample.test", False),
        ("i.example.test", False),
        ("x.api.example.test", False),
        (".", False),
        (",,", False),
    ],
)
def test_no_proxy_excepts_hosts_and_their_domains(no_proxy, direct):
    origin, _ = connect.split("https://api.example.test")
    for name in ("no_proxy", "NO_PROXY"):
        proxy = connect.proxy_for(origin, {"https_proxy": "proxy:8080", name: no_proxy})
        assert (proxy is None) == direct


def test_loopback_needs_no_proxy(serve):
    server = serve(OK)
    env = {"https_proxy": "proxy.test:1", "http_proxy": "proxy.test:1", "HTTP_PROXY": "proxy.test:1"}
    assert get(transport_to(server, env=env)).status == 200
    assert connect.proxy_for(connect.split("https://[::1]:5")[0], env) is None


def test_a_proxy_never_shows_its_password():
    origin, _ = connect.split("https://api.example.test")
    assert "cDpx" not in repr(connect.proxy_for(origin, {"https_proxy": "http://p:q@proxy"}))


# -- the clock ------------------------------------------------------------------------------------


def test_the_clock_of_the_system():
    clock = SystemClock()
    before, wall = clock.monotonic(), clock.time()
    clock.sleep(0.01)
    clock.sleep(0)
    clock.sleep(-5)
    assert 0.01 <= clock.monotonic() - before < PATIENCE
    assert abs(wall - time.time()) < PATIENCE
