"""HTTP downloads with limits on size and time, digest checks, and a cache with revalidation."""

import hashlib
import socket
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from weakref import WeakSet

from openskills.addresses import classify_address
from openskills.catalog.root import Progress, no_progress
from openskills.catalog.sources.cache import (
    CachedResponse,
    DownloadCache,
    check_pin,
    check_redirect,
    join_url,
    normalize_url,
    redact,
    split_url,
)
from openskills.errors import (
    DeadlineExceeded,
    ForbiddenPath,
    LimitExceeded,
    SourceUnavailable,
    UnsupportedMedia,
)
from openskills.skillmd.problem import Problem, Severity
from openskills.version import __version__

if TYPE_CHECKING:
    import httpx2


class DownloadDeadline:
    """A deadline for a whole download: shuts the client's connections down when it expires.

    The timeouts of an HTTP client apply to each chunk, so a slow server could hold us for ever. `watch` is for httpx2's
    `trace` extension; `sockets` are all sockets of the client, because connections are reused. After `follow`, a
    connection to an address of another class is refused before anything is sent, unless it is a public one.
    """

    def __init__(self, name: str, seconds: float, sockets: WeakSet[socket.socket]) -> None:
        self._name = name
        self.expired = False
        self._origin: str | None = None
        self._allowed: tuple[str | None, ...] | None = None
        self._sockets = sockets
        self._lock = threading.Lock()
        self._timer = threading.Timer(seconds, self._expire)
        self._timer.daemon = True

    def __enter__(self) -> None:
        self._timer.start()

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()

    def watch(self, event: str, info: Mapping[str, Any]) -> None:
        """Remember a new connection."""
        if event.endswith(("connect_tcp.complete", "start_tls.complete")):
            if self._allowed is not None:
                self.check_peer(_classify_peer(info["return_value"]))
            with self._lock:
                self._sockets.add(info["return_value"].get_extra_info("socket"))
                if self.expired:
                    self._shut_down_sockets()

    def check_peer(self, kind: str | None) -> None:
        """Raise `ForbiddenPath` if this class of an address is not allowed."""
        if self._allowed is not None and kind not in self._allowed:
            where = f"from a {self._origin or 'public'} address to a {kind} one"
            raise ForbiddenPath(f"redirect of {self._name}: leads {where}; use the final URL if you trust it")

    def follow(self, kind: str | None) -> None:
        """From now on, only allow the addresses to which a server with an address of this class may redirect.

        It must not make us call servers that it does not reach itself. This machine reaches its own network.
        """
        self._origin = kind
        self._allowed = (None, kind, "private") if kind == "loopback" else (None, kind)

    def _expire(self) -> None:
        with self._lock:
            self.expired = True
            self._shut_down_sockets()

    def _shut_down_sockets(self) -> None:
        for connection in list(self._sockets):
            # Not SSLSocket's own method, which would change its state under the thread that is reading.
            with suppress(OSError):
                socket.socket.shutdown(connection, socket.SHUT_RDWR)


def _classify_peer(stream: Any) -> str | None:
    """The class of the address at the other end of a connection; None if it is public."""
    found = None if stream is None else stream.get_extra_info("server_addr")
    return classify_address(ip_address(found[0].partition("%")[0])) if found else "unknown"


_MAX_REDIRECTS = 5
_TRANSIENT = (408, 425, 429)


@dataclass(frozen=True, slots=True)
class DownloadLimits:
    """Bytes of one body, and timeouts in seconds: to connect, between two chunks, and in total."""

    size: int = 64 << 20
    connect: float = 10.0
    read: float = 30.0
    total: float = 300.0


DEFAULT_LIMITS = DownloadLimits()


@dataclass(frozen=True, slots=True)
class SourceDownload:
    """A complete body in a file. `url` is the final address; it may contain credentials, so it is not shown.

    `problems` has a warning when the server could not be reached and this is the cached copy.
    """

    path: Path
    sha256: str
    content_type: str
    url: str = field(repr=False)
    problems: tuple[Problem, ...] = ()


class Downloader:
    """An HTTP client with a cache in `directory`; use it as a context manager, from one thread."""

    def __init__(self, directory: Path, limits: DownloadLimits = DEFAULT_LIMITS) -> None:
        self._cache = DownloadCache(directory)
        self._limits = limits
        self._sockets: WeakSet[socket.socket] = WeakSet()
        self._client: httpx2.Client | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._client:
            self._client.close()

    def find_cached(self, url: str) -> SourceDownload | None:
        """The cached copy, without asking the server."""
        cached = self._cache.find(url)
        return self._build_download(url, cached) if cached else None

    def get(self, url: str, *, pin: str | None = None, progress: Progress = no_progress) -> SourceDownload:
        """The body at `url`. A cached body is revalidated, or used at once if its digest is `pin`.

        If the server cannot be reached, the cached copy is returned with a `source-stale` warning. Raises
        `SourceUnavailable` or `DeadlineExceeded` when there is none, `LimitExceeded` for too many bytes, and
        `InvalidSkill` for a digest other than `pin`.
        """
        cached = self._cache.find(url)
        if cached and cached.sha256 == pin:
            return self._build_download(url, cached)
        try:
            # With a pin that the cached copy does not have, the request must not be conditional.
            return self._build_download(url, self._fetch(url, None if pin else cached, pin, progress))
        except (SourceUnavailable, DeadlineExceeded) as error:
            if not cached or pin or error.details.get("final"):
                raise
            stale = Problem("source-stale", f"{error}; using the cached copy", Severity.WARNING)
            return self._build_download(url, cached, stale)

    def _build_download(self, url: str, cached: CachedResponse, *problems: Problem) -> SourceDownload:
        # The record has no credentials; those of the request are used on the same server.
        final = join_url(url, cached.url, field=redact(url))
        return SourceDownload(self._cache.body_path(url, cached), cached.sha256, cached.content_type, final, problems)

    def _fetch(self, url: str, cached: CachedResponse | None, pin: str | None, progress: Progress) -> CachedResponse:
        import httpx2

        deadline = DownloadDeadline(redact(url), self._limits.total, self._sockets)
        try:
            with deadline, self._open_response(url, cached, deadline) as response:
                if response.status_code == 304 and cached:
                    return cached
                return self._receive(url, response, pin, progress)
        except (httpx2.HTTPError, httpx2.InvalidURL, UnicodeError) as error:
            if deadline.expired:
                raise DeadlineExceeded(f"{redact(url)}: timed out after {self._limits.total:g} s") from None
            raise SourceUnavailable(f"{redact(url)}: {_describe_error(error, url)}") from None
        except OSError as error:
            raise SourceUnavailable(f"{redact(url)}: cannot be written to the cache: {error.strerror}") from None

    @contextmanager
    def _open_response(
        self, url: str, cached: CachedResponse | None, deadline: DownloadDeadline
    ) -> "Generator[httpx2.Response]":
        client = self._open_client()
        headers = {"If-None-Match": cached.etag, "If-Modified-Since": cached.last_modified} if cached else {}
        # A server may have sent other characters, but it is undefined how to send them back.
        headers = {name: value for name, value in headers.items() if value and value.isascii()}
        request = client.build_request("GET", url, headers=headers, extensions={"trace": deadline.watch})
        before = url
        for _ in range(_MAX_REDIRECTS + 1):
            check_redirect(before, str(request.url), field=f"redirect of {redact(url)}")
            response = client.send(request, stream=True)
            try:
                # A connection may have been open already.
                kind = _classify_peer(response.extensions.get("network_stream"))
                deadline.check_peer(kind)
                deadline.follow(kind)
                if response.next_request is None:
                    yield response
                    return
                before, request = str(request.url), response.next_request
            finally:
                response.close()
        raise SourceUnavailable(f"{redact(url)}: more than {_MAX_REDIRECTS} redirects")

    def _open_client(self) -> "httpx2.Client":
        import httpx2

        if self._client is None:
            limits = self._limits
            self._client = httpx2.Client(
                timeout=httpx2.Timeout(limits.read, connect=limits.connect),
                # No compression, so that the bytes that are counted and hashed are the bytes of the file.
                headers={"User-Agent": f"openskills/{__version__}", "Accept-Encoding": "identity"},
            )
        return self._client

    def _receive(self, url: str, response: "httpx2.Response", pin: str | None, progress: Progress) -> CachedResponse:
        total = _read_content_length(url, response, self._limits.size)
        digest, count = hashlib.sha256(), 0
        with self._cache.temporary_file(url) as path:
            with path.open("wb") as file:
                for chunk in response.iter_raw():
                    count += len(chunk)
                    _check_size(url, count, self._limits.size)
                    digest.update(chunk)
                    file.write(chunk)
                    progress(f"downloading {redact(url)}", count, total)
            header = response.headers.get
            cached = CachedResponse(
                sha256=digest.hexdigest(),
                size=count,
                url=normalize_url(str(response.url)),
                etag=header("ETag", ""),
                last_modified=header("Last-Modified", ""),
                content_type=header("Content-Type", ""),
            )
            check_pin(redact(url), cached.sha256, pin)
            self._cache.store(url, path, cached)
        return cached


def _read_content_length(url: str, response: "httpx2.Response", max_size: int) -> int | None:
    """The size that the server declares; raises for a response that cannot be used."""
    status = response.status_code
    if status != 200:
        # For a missing or forbidden file the cached copy is not used.
        final = 400 <= status < 500 and status not in _TRANSIENT
        message = f"the server responded {status} {response.reason_phrase}".rstrip()
        raise SourceUnavailable(f"{redact(url)}: {message}", status=status, final=final)
    encoding = response.headers.get("Content-Encoding", "identity").lower()
    # Some servers say gzip for a .tar.gz file; its bytes are right as they are.
    if encoding not in ("identity", "gzip", "x-gzip"):
        raise UnsupportedMedia(f"{redact(url)}: unexpected Content-Encoding {encoding!r}")
    length = response.headers.get("Content-Length", "")
    total = int(length) if length.isdigit() else None
    _check_size(url, total or 0, max_size)
    return total


def _check_size(url: str, count: int, max_size: int) -> None:
    if count > max_size:
        raise LimitExceeded(f"{redact(url)}: larger than {max_size:,} bytes")


def _describe_error(error: Exception, url: str) -> str:
    text = str(error) or type(error).__name__
    parts = split_url(url)
    for secret in (parts.password, parts.username):
        text = text.replace(secret, "...") if secret else text
    return redact(text)
