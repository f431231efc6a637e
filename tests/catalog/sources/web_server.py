"""A real HTTP server on the loopback interface that can behave badly."""

import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(frozen=True)
class Page:
    """What to answer. `declared` lies about the length, `pause` drips the body (or the head) byte by byte."""

    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    declared: int | None = None
    pause: float = 0
    slow_head: bool = False


@dataclass
class Web:
    """Pages by path, and the requests that came in."""

    url: str
    pages: dict[str, Page] = field(default_factory=dict[str, Page])
    requests: list[tuple[str, Mapping[str, str]]] = field(default_factory=list[tuple[str, Mapping[str, str]]])
    closing: threading.Event = field(default_factory=threading.Event)

    @property
    def paths(self) -> list[str]:
        return [path for path, _ in self.requests]

    def put(self, files: Mapping[str, bytes], under: str = "/") -> None:
        for name, data in files.items():
            self.pages[under + name] = Page(data)


@contextmanager
def serving() -> Generator[Web]:
    """A server for the time of the block."""
    web = Web("")
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(web))
    server.daemon_threads = True
    web.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield web
    finally:
        web.closing.set()
        server.shutdown()
        thread.join()
        server.server_close()


def _handler(web: Web) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            web.requests.append((self.path, dict(self.headers.items())))
            page = web.pages.get(self.path, Page(b"not here", 404))
            etag = page.headers.get("ETag")
            modified = page.headers.get("Last-Modified")
            if (etag and self.headers.get("If-None-Match") == etag) or (
                modified and self.headers.get("If-Modified-Since") == modified
            ):
                page = Page(status=304, headers=page.headers)
            # The client may have gone away in the middle: that is what some tests are about.
            with suppress(ConnectionError):
                self._answer(page)

        def _answer(self, page: Page) -> None:
            self.send_response(page.status)
            for name, value in page.headers.items():
                self.send_header(name, value)
            if page.status != 304:
                self.send_header("Content-Length", str(len(page.body) if page.declared is None else page.declared))
            if page.slow_head:
                self._drip(b"X-Slow: " + b"x" * 10_000, page.pause)
                return
            self.end_headers()
            if page.pause:
                self._drip(page.body, page.pause)
            else:
                self.wfile.write(page.body)

        def _drip(self, data: bytes, pause: float) -> None:
            self.flush_headers()
            for byte in data:
                self.wfile.write(bytes([byte]))
                if web.closing.wait(pause):
                    return

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Silence."""

    return Handler
