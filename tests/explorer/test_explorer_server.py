"""The server of the explorer answers its own page and nobody else, and refuses in one line what it cannot answer."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from explorer_client import Client, request, serving

from howm.cli.main import main
from howm.explorer.server import FILES, MAX_BODY
from howm.explorer.sessions import MAX_SESSIONS
from howm.explorer.stage import open_stage

SHAPES = "howm-shapes-n10"
JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def server():
    with serving(open_stage(SHAPES)) as running:
        yield running


def refused(server, *arguments):
    """Status and the one line with which a request is refused."""
    status, headers, body = request(server, *arguments)
    assert headers["Content-Type"] == "application/json"
    text = json.loads(body)["error"]
    assert len(text.splitlines()) == 1
    assert "Traceback" not in text
    return status, text


def test_the_page_and_all_that_it_names_is_served(server):
    for path, (_, kind) in FILES.items():
        status, headers, body = request(server, "GET", path)
        assert (status, headers["Content-Type"]) == (200, kind)
        assert body
        policy = headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'; script-src 'self';")
        assert "unsafe" not in policy
        assert b"http://" not in body.replace(b"http://www.w3.org/2000/svg", b"")
        assert b"https://" not in body


def test_it_listens_on_the_loopback_alone(server):
    assert server.server_address[0] == "127.0.0.1"


@pytest.mark.parametrize(
    "path",
    [
        "/server.py",
        "/../explorer/server.py",
        "/..%2fserver.py",
        "/%2e%2e/%2e%2e/pyproject.toml",
        "//etc/passwd",
        "/page.html",
        "/api/nothing",
        "/api/step",
    ],
)
def test_no_path_leads_outside_its_own_files(server, path):
    assert refused(server, "GET", path)[0] == 404


@pytest.mark.parametrize(
    "host", ["elsewhere.example", "127.0.0.1.elsewhere.example", "", "[", "10.0.0.1:80", "localhost@x"]
)
def test_another_host_is_refused(server, host):
    """Whoever makes a name of their own point to this machine gets nothing."""
    assert refused(server, "GET", "/", None, {"Host": host})[0] == 403
    assert refused(server, "POST", "/api/new", "{}", {"Host": host, **JSON})[0] == 403


def test_localhost_and_a_forwarded_port_are_fine(server):
    for host in ("localhost", "localhost:9999", f"127.0.0.1:{server.server_address[1]}"):
        assert request(server, "GET", "/", None, {"Host": host})[0] == 200
        origin = {"Host": host, "Origin": f"http://{host}", **JSON}
        assert request(server, "POST", "/api/new", "{}", origin)[0] == 200


@pytest.mark.parametrize("origin", ["http://elsewhere.example", "null", "https://127.0.0.1", "http://127.0.0.1:1"])
def test_another_origin_is_refused(server, origin):
    before = len(server.api.sessions)
    assert refused(server, "POST", "/api/new", "{}", {"Origin": origin, **JSON})[0] == 403
    assert len(server.api.sessions) == before


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        ("{", JSON, 400),
        ("", JSON, 400),
        ("[" * 20_000, JSON, 400),
        (b"\xff\xfe{}", JSON, 400),
        ("[1]", JSON, 400),
        ('"new"', JSON, 400),
        ("{}", {"Content-Type": "text/plain"}, 415),
        ("{}", {}, 415),
        (" " * (MAX_BODY + 1), JSON, 413),
        ("{}", {**JSON, "Content-Length": "99999999999999999999"}, 413),
        ("{}", {**JSON, "Content-Length": "-1"}, 411),
        ("{}", {**JSON, "Content-Length": "two"}, 411),
        ("{}", {**JSON, "Transfer-Encoding": "chunked"}, 411),
    ],
)
def test_a_body_that_is_no_question(server, body, headers, status):
    assert refused(server, "POST", "/api/new", body, headers)[0] == status


def test_other_methods_and_no_http_at_all(server):
    assert refused(server, "DELETE", "/")[0] == 501
    with socket.create_connection(server.server_address) as connection:
        connection.sendall(b"\x16\x03\x01 nonsense\r\n\r\n")
        assert b'"error"' in connection.recv(2000)
    assert request(server, "GET", "/")[0] == 200


@pytest.mark.parametrize(
    ("question", "asked"),
    [
        *(("step", {"action": action}) for action in (-1, 40, 1.5, "1", None, True, [1], 10**30)),
        *(("rewind", {"time": time}) for time in (-1, 2, "0", None, True)),
        ("inspect", {"time": 99}),
        ("rank", {"time": -1}),
        *(("suggest", {"count": count}) for count in (0, 10**9, "3", None)),
        *(("new", {"size": size}) for size in (0, 11, -3, "5", None, 10**30)),
        *(("new", {"kind": kind}) for kind in ("eval", 3, None, [])),
        ("new", {"kind": "training", "size": 4}),
        *(("new", {"objects": objects}) for objects in ([], [1, 1, 2], [1, 99], [True, 2], "12", {"a": 1}, [1.0])),
        *(("new", {"found": key}) for key in ("0", 0, None)),
        ("search", {"size": "x"}),
        ("search", {"kind": "eval"}),
        ("goal/step", {"action": 1}),
        ("goal/plan", {}),
    ],
)
def test_a_question_that_makes_no_sense(server, question, asked):
    client = Client(server)
    client.new()
    client.ask("step", action=0)
    status, said = client.post(question, **asked)
    assert status == 400
    assert len(said["error"].splitlines()) == 1
    assert client.ask("rewind", time=1) == {"time": 1}  # nothing has changed


def test_a_session_that_there_is_not(server):
    for session in ("x", None, 3, ["x"]):
        for question in ("step", "search", "new"):
            body = json.dumps({"session": session, "action": 0})
            assert refused(server, "POST", f"/api/{question}", body, JSON)[0] == 410


def test_two_hundred_sessions_at_once_are_bounded(server):
    def play(number):
        client = Client(server)
        client.new()
        client.post("step", action=number % 40)
        return client

    with ThreadPoolExecutor(40) as pool:
        clients = list(pool.map(play, range(200)))
    assert len(server.api.sessions) == MAX_SESSIONS
    last = play(0)
    assert last.ask("rewind", time=0) == {"time": 0}
    status = [client.post("rewind", time=0)[0] for client in clients]
    assert set(status) == {200, 410}
    assert status.count(200) == MAX_SESSIONS - 1


def test_a_page_that_leaves_ends_its_search(server):
    client, ended, seen = Client(server), threading.Event(), []
    client.new()
    search = server.api.search

    def watched(asked):
        try:
            for line in search(asked):
                seen.append(line)
                yield line
        finally:
            ended.set()

    server.api.search = watched
    try:
        body = json.dumps({"session": client.session})
        with socket.create_connection(server.server_address) as connection:
            head = "POST /api/search HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode())
            assert b"200 OK" in connection.recv(4096)
        assert ended.wait(60)
    finally:
        server.api.search = search
    assert not any(b'"found"' in line for line in seen)


def test_a_failure_of_a_model_is_one_line_and_the_server_lives(server, capfd):
    client = Client(server)
    client.new()
    model = server.api.stage.subjects[0].model
    model.step = lambda state, action: 1 / 0
    try:
        status, said = client.post("step", action=0)
    finally:
        del model.step
    assert status == 500
    assert "ZeroDivisionError" in said["error"]
    assert "Traceback" in capfd.readouterr().err
    assert client.ask("rewind", time=0) == {"time": 0}
    assert client.ask("step", action=0)["time"] == 1


def test_a_port_in_use_is_one_line(server, capsys):
    port = server.server_address[1]
    for given in (port, 70_000):
        assert main(["explore", SHAPES, "--no-browser", "--port", str(given)]) == 2
        said = capsys.readouterr()
        assert said.out == ""
        assert f"port {given} cannot be used" in said.err
        assert len(said.err.splitlines()) == 1


@pytest.mark.parametrize(
    "arguments", [["nothing-like-it"], [SHAPES, "--against", "howm-rush_hour-n20"], [SHAPES, "--data", "no.h5"]]
)
def test_a_command_that_cannot_be_carried_out(arguments, capsys):
    assert main(["explore", *arguments, "--no-browser"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.skipif(sys.platform == "win32", reason="signals of Unix")
def test_ctrl_c_ends_it_at_once_whatever_pages_are_open():
    root = Path(__file__).parents[2]
    environment = os.environ | {"PYTHONPATH": str(root), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "howm.cli", "explore", SHAPES, "--no-browser"]
    process = subprocess.Popen(
        command, cwd=root, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        url = process.stdout.readline().split()[0]
        host, port = url.removeprefix("http://").rstrip("/").split(":")
        with socket.create_connection((host, int(port))) as open_page:
            open_page.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert b"200 OK" in open_page.recv(4096)
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=30)
    finally:
        process.kill()
    assert process.returncode == 130
    assert said == "howm: interrupted\n"
