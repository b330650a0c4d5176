"""The fake behind a real socket."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from pathlib import Path

import pytest

import pytest_sgpu

FOLDER = Path(__file__).parent / "fake"
# No proxy of the machine may come between.
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def ask(url, token, path, body=None, method="GET"):
    """Make a request with Python's own client; gives the status, the headers and the body."""
    headers = {
        "Authorization": f"Bearer {token}",
        "Accept": "application/vnd.github+json",
        "X-GitHub-Api-Version": "2026-03-10",
        "User-Agent": "tests",
    }
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url + path, data=data, headers=headers, method=method)
    try:
        with OPENER.open(request, timeout=20) as response:
            return response.status, response.headers, response.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers, error.read()


def test_it_answers_as_the_fake_does(stand_in, fake):
    server = stand_in(speed=1000.0)
    github = server.github
    path = "/repos/o/r/actions/workflows/runner-worker.yml/dispatches"
    body = {"ref": "main", "inputs": fake.child_inputs(github)}
    status, _, answer = ask(server.url, github.token, path, body, "POST")
    assert (status, json.loads(answer)["workflow_run_id"]) == (200, 1001)
    # It is over after 80 of the server's seconds, less than a tenth of a real one.
    done = threading.Event()
    for _ in range(100):
        _, _, answer = ask(server.url, github.token, "/repos/o/r/actions/runs/1001")
        if json.loads(answer)["status"] == "completed":
            break
        done.wait(0.01)
    assert json.loads(answer)["conclusion"] == "success"
    status, headers, _ = ask(server.url, github.token, "/repos/o/r/actions/runs/7/cancel", method="POST")
    assert (status, headers["X-RateLimit-Limit"]) == (404, "1000")
    assert ask(server.url, "other", "/repos/o/r/actions/runs/1")[0] == 401
    assert github.odd == []
    records = json.loads(ask(server.url, "", "/-/requests")[2])
    assert [record["endpoint"] for record in records][:2] == ["dispatch", "run"]
    assert github.token not in json.dumps(records)


def test_no_answer_is_a_closed_connection(stand_in):
    server = stand_in()
    server.github.fail("parent", error="reset")
    with pytest.raises(OSError):
        ask(server.url, server.github.token, "/repos/o/r/actions/runs/1")
    assert ask(server.url, server.github.token, "/repos/o/r/actions/runs/1")[0] == 200


def test_answers_without_a_body_and_broken_ones(stand_in):
    server = stand_in()
    server.github.fail("parent", status=204, body=b"")
    server.github.fail("parent", status=200, body=b"{oops")
    answers = [ask(server.url, server.github.token, "/repos/o/r/actions/runs/1") for _ in range(3)]
    assert [(status, body[:5]) for status, _, body in answers] == [(204, b""), (200, b"{oops"), (200, b'{"id"')]


def test_a_late_answer_holds_up_no_other(stand_in):
    server = stand_in(speed=1.0)
    server.github.fail("parent", takes=60)
    with socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2]))) as late:
        late.sendall(b"GET /repos/o/r/actions/runs/1 HTTP/1.1\r\nHost: x\r\n\r\n")
        arrived = threading.Event()
        while not server.github.requests:
            arrived.wait(0.005)
        assert ask(server.url, server.github.token, "/repos/o/r/actions/runs/1")[0] == 200


def test_a_body_that_is_no_json(stand_in):
    server = stand_in()
    request = urllib.request.Request(server.url + "/repos/o/r/actions/runs/9/cancel", data=b"{", method="POST")
    with pytest.raises(urllib.error.HTTPError) as caught:
        OPENER.open(request, timeout=20)
    with caught.value as error:
        assert error.code == 400


def test_the_variables_name_it(stand_in, tmp_path):
    server = stand_in()
    env = server.env(tmp_path)
    assert env["GITHUB_API_URL"] == server.url
    assert Path(env["GITHUB_OUTPUT"]).read_text(encoding="utf-8") == ""


def test_it_can_be_closed_twice_and_before_it_began(fake):
    server = fake.StandIn()
    server.close()
    server.close()


def test_as_a_script():
    command = [sys.executable, str(FOLDER), "--runner-after", "never", "--speed", "50", "--runs-for", "5"]
    root = str(Path(pytest_sgpu.__file__).parents[1])
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={"PYTHONPATH": root}) as process:
        assert process.stdout
        url, token = process.stdout.readline().strip(), process.stdout.readline().strip()
        try:
            assert ask(url, token, "/repos/o/r/actions/runs/1")[0] == 200
        finally:
            process.terminate()  # SIGINT is ignored by what a shell starts with &
        assert process.wait(20) in (0, -signal.SIGTERM)
