"""A real HTTP server on the loopback interface that answers as it is told: well, or as badly as servers do."""

import json
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

JSON = "application/json"
EVENTS = "text/event-stream"


@dataclass(frozen=True)
class Request:
    """What came in. Names of headers are in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def input(self) -> Any:
        return json.loads(self.body)["input"]


@dataclass(frozen=True)
class Reply:
    """What goes out, piece by piece. With `cut` the connection ends there, although more was promised.

    With `hold` the server says nothing more after the last piece, until it is closed.
    """

    pieces: Sequence[bytes] = ()
    status: int = 200
    kind: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    cut: bool = False
    hold: bool = False


Answering = Callable[[Request], Reply]


@dataclass
class Scripted:
    """Replies by `METHOD path`, one after the other and the last one for ever, and the requests that came in."""

    url: str = ""
    replies: dict[str, list[Reply | Answering]] = field(default_factory=dict[str, list[Reply | Answering]])
    requests: list[Request] = field(default_factory=list[Request])
    closing: threading.Event = field(default_factory=threading.Event)
    gone: threading.Event = field(default_factory=threading.Event)
    """Set when a client went away from a reply that holds."""

    def on(self, what: str, *replies: Reply | Answering) -> None:
        self.replies[what] = list(replies)

    def on_invoke(self, *replies: Reply | Answering, skill: str = "echo", verb: str = "invoke") -> None:
        self.on(f"POST /skills/{skill}:{verb}", *replies)

    def answer(self, request: Request) -> Reply:
        self.requests.append(request)
        waiting = self.replies.get(f"{request.method} {request.path}")
        if not waiting:
            return failure(404, "nothing is there", reason="UNKNOWN_ADDRESS")
        reply = waiting.pop(0) if len(waiting) > 1 else waiting[0]
        return reply if isinstance(reply, Reply) else reply(request)


def normal(**changes: Any) -> dict[str, Any]:
    """A Normalized Skill Result, with some fields changed."""
    meta = {"latency_ms": 3, "version": "0.1.0"}
    plain = {"success": True, "skill_id": "echo", "trace_id": "t-1", "data": {"echoed": "hello"}, "error": None}
    return {**plain, "meta": meta, **changes}


def as_json(value: object, status: int = 200, **headers: str) -> Reply:
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    return Reply([json.dumps(value).encode()], status, headers=named)


def failure(code: int, message: str, *, reason: str = "INTERNAL", **headers: str) -> Reply:
    error = {"code": code, "message": message, "details": {"reason": reason}}
    return as_json(normal(success=False, data=None, error=error), code, **headers)


def event(kind: str, data: object, number: int | None = None) -> bytes:
    identified = f"id: {number}\n" if number is not None else ""
    return f"event: {kind}\n{identified}data: {json.dumps(data)}\n\n".encode()


def events(*pieces: bytes, cut: bool = False, hold: bool = False) -> Reply:
    return Reply(pieces, kind=EVENTS, cut=cut, hold=hold)


@contextmanager
def scripted(port: int = 0) -> Generator[Scripted]:
    """A server for the time of the block."""
    script = Scripted()
    server = _Server(("127.0.0.1", port), _Handler)
    server.script = script
    script.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield script
    finally:
        script.closing.set()
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: "_Server"  # pyright: ignore[reportIncompatibleVariableOverride]

    def do_GET(self) -> None:
        self._serve("GET")

    def do_POST(self) -> None:
        self._serve("POST")

    def _serve(self, method: str) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        headers = {name.lower(): value for name, value in self.headers.items()}
        reply = self.server.script.answer(Request(method, self.path, headers, self.rfile.read(length)))
        self.close_connection = True
        try:
            self._send(reply)
        except ConnectionError:
            # The client has gone away in the middle: that is what some tests are about.
            self.server.script.gone.set()

    def _send(self, reply: Reply) -> None:
        self.send_response(reply.status)
        for name, value in {"Content-Type": reply.kind, "Connection": "close", **reply.headers}.items():
            self.send_header(name, value)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for piece in reply.pieces:
            self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
        if reply.hold:
            self._hold()
        elif not reply.cut:
            self.wfile.write(b"0\r\n\r\n")

    def _hold(self) -> None:
        """Nothing more is said; a client that goes away is noticed."""
        self.connection.settimeout(0.01)
        while not self.server.script.closing.is_set():
            try:
                if not self.connection.recv(1):
                    self.server.script.gone.set()
                    return
            except TimeoutError:
                continue

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Silence."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    script: Scripted
