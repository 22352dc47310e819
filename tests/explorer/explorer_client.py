"""A server of the explorer on a free port, and a client that speaks plain HTTP with it."""

import base64
import http.client
import json
import threading
from contextlib import contextmanager

import numpy as np

from howm.explorer.api import Api
from howm.explorer.server import ExplorerServer
from howm.explorer.sessions import Sessions


@contextmanager
def serving(stage, seed=5):
    """A server whose sessions all draw the same random numbers."""
    with ExplorerServer(Api(stage, Sessions(seed=lambda: seed))) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def request(server, method, path, body=None, headers=None):
    """Status, headers and body of one request, exactly as given."""
    connection = http.client.HTTPConnection(*server.server_address, timeout=60)
    try:
        connection.request(method, path, body, headers or {})
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read()
    finally:
        connection.close()


class Client:
    """One page: it keeps its session."""

    def __init__(self, server):
        self.server, self.session = server, None

    def post(self, question, **asked):
        """Status and answer."""
        body = json.dumps(asked if self.session is None else {"session": self.session, **asked})
        status, _, said = request(self.server, "POST", f"/api/{question}", body, {"Content-Type": "application/json"})
        return status, json.loads(said)

    def ask(self, question, **asked):
        status, said = self.post(question, **asked)
        assert status == 200, said
        return said

    def new(self, **options):
        said = self.ask("new", **options)
        self.session = said["session"]
        return said


def describe(server):
    status, _, said = request(server, "GET", "/api/describe")
    assert status == 200
    return json.loads(said)


def picture(said):
    """The picture of an answer as an array."""
    shape = said["height"], said["width"], said["channels"]
    return np.frombuffer(base64.b64decode(said["data"]), dtype=np.uint8).reshape(shape)
