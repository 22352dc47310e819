"""The server of a page for one person: on this machine only, for this page only, with files of its own only."""

import json
import socket
import sys
import threading
import traceback
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from howm.errors import HowmError, one_line, shorten
from howm.explorer.api import Api, encode
from howm.explorer.sessions import ForgottenError

HOST = "127.0.0.1"
MAX_BODY = 2**16  # bytes of a question
MAX_CONNECTIONS = 256
IDLE_SECONDS = 60.0  # after which a silent connection is closed
SCRIPTS = (  # in the order of the page
    *("backend.js", "pictures.js", "board.js", "panels.js", "inside.js"),
    *("finder.js", "goal.js", "page.js", "start.js"),
)
FILES = {
    "/": ("page.html", "text/html; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    **{f"/{name}": (name, "text/javascript; charset=utf-8") for name in SCRIPTS},
}
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class RefusedError(Exception):
    """A request that is answered with a status and one line."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class ExplorerServer(ThreadingHTTPServer):
    """Threads end with the process: nothing waits for a page that is still open."""

    daemon_threads = True
    request_queue_size = 128
    allow_reuse_address = sys.platform != "win32"  # there it would let two servers share a port

    def __init__(self, api: Api, port: int = 0) -> None:
        self.api = api
        self.files = {path: (_read(name), kind) for path, (name, kind) in FILES.items()}
        self._room = threading.BoundedSemaphore(MAX_CONNECTIONS)
        try:
            super().__init__((HOST, port), _Handler)
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or error
            raise HowmError(f"port {port} cannot be used: {reason}; choose another `port`, or leave it out") from None

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.server_address[1]}/"

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._room.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A page that was closed in the middle of an answer is no news."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


def _read(name: str) -> bytes:
    return (Path(__file__).parent / name).read_bytes()


class _Handler(BaseHTTPRequestHandler):
    server: ExplorerServer
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "howm", ""
    timeout = IDLE_SECONDS
    disable_nagle_algorithm = True
    wbufsize = -1  # an answer leaves in one piece

    def log_message(self, format: str, *arguments: Any) -> None:
        """Requests are not news, either."""

    def do_GET(self) -> None:
        self._respond(self._get)

    def do_POST(self) -> None:
        self._respond(self._post)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Also what the base class refuses, such as methods that it does not know, is one line of JSON."""
        self.close_connection = True
        self._send(code, encode({"error": shorten(message or explain or "the request cannot be understood")}))

    def _respond(self, answer: Any) -> None:
        try:
            self._check_host()
            answer()
        except RefusedError as error:
            self.close_connection = True  # its body may be unread
            self._send(error.status, encode({"error": str(error)}))
        except ForgottenError as error:
            self._send(410, encode({"error": str(error)}))
        except HowmError as error:
            self._send(400, encode({"error": shorten(error)}))
        except OSError:
            raise
        except Exception as error:
            traceback.print_exc()
            text = one_line(error) or f"{type(error).__name__}: {error}"
            self._send(500, encode({"error": f"The server failed ({shorten(text, 200)}); its terminal says more."}))

    def _check_host(self) -> None:
        """A page of another site, whose name is made to point here, still says its own name."""
        host = self.headers.get("Host", "")
        try:
            name = urlsplit(f"//{host}").hostname
        except ValueError:
            name = None
        if name not in (HOST, "localhost"):
            raise RefusedError(403, f"Host must be {HOST} or localhost, got {shorten(host, 60)!r}")
        origin = self.headers.get("Origin")
        if origin is not None and origin != f"http://{host}":
            raise RefusedError(403, f"Origin must be this page's own, got {shorten(origin, 60)!r}")

    def _get(self) -> None:
        path = urlsplit(self.path).path
        if path == "/api/describe":
            self._send(200, self.server.api.describe())
        elif path in self.server.files:
            body, kind = self.server.files[path]
            self._send(200, body, kind)
        else:
            raise RefusedError(404, f"there is no {shorten(path, 60)!r} here")

    def _post(self) -> None:
        path = urlsplit(self.path).path
        question = path.removeprefix("/api/")
        if path == question or not (question == "search" or self.server.api.knows(question)):
            raise RefusedError(404, f"there is no {shorten(path, 60)!r} here")
        asked = self._body()
        if question == "search":
            self._stream(self.server.api.search(asked))
        else:
            self._send(200, self.server.api.answer(question, asked))

    def _body(self) -> dict[str, Any]:
        """The JSON of a question: an object, and not a large one."""
        if self.headers.get_content_type() != "application/json":
            raise RefusedError(415, "Content-Type must be application/json")
        length = self.headers.get("Content-Length", "")
        if "Transfer-Encoding" in self.headers or not (length.isascii() and length.isdigit()):
            raise RefusedError(411, "Content-Length must say how long the body is")
        if len(length) > 9 or int(length) > MAX_BODY:
            raise RefusedError(413, f"the body must not be longer than {MAX_BODY} bytes, got {shorten(length, 20)}")
        try:
            asked = json.loads(self.rfile.read(int(length)))
        except (ValueError, RecursionError):
            raise RefusedError(400, "the body is not JSON") from None
        if not isinstance(asked, dict):
            raise RefusedError(400, f"the body must be a JSON object, got {type(asked).__name__}")
        return asked

    def _send(self, status: int, body: bytes, kind: str = "application/json") -> None:
        self._begin(status, kind, {"Content-Length": str(len(body))})
        self.wfile.write(body)
        self.wfile.flush()

    def _begin(self, status: int, kind: str, more: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": kind, **HEADERS, **more}.items():
            self.send_header(name, value)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()

    def _stream(self, lines: Iterator[bytes]) -> None:
        """One line at a time; a page that stops reading ends the work."""
        first = next(lines)  # an error is said before the answer begins
        self.close_connection = True  # the end of the answer is the end of the connection
        self._begin(200, "application/x-ndjson", {})
        try:
            self.wfile.write(first + b"\n")
            self.wfile.flush()
            for line in lines:
                if self._left():
                    return
                self.wfile.write(line + b"\n")
                self.wfile.flush()
        except HowmError as error:
            self.wfile.write(encode({"error": shorten(error)}) + b"\n")

    def _left(self) -> bool:
        """Whether the page has closed the connection."""
        self.connection.setblocking(False)
        try:
            return not self.connection.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        except OSError:
            return True
        finally:
            self.connection.settimeout(IDLE_SECONDS)
