"""Bounded downloads.

A bound on the time of a whole exchange with a server.

HTTP downloads: bounded in size and time, checked, kept, and re-validated instead of repeated.
"""

import hashlib
import socket
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from weakref import WeakSet

from openskills.catalog.root import Progress, no_progress
from openskills.catalog.sources.cache import (
    CachedResponse,
    DownloadCache,
    check_redirect,
    join_url,
    normalize_url,
    redact,
    split_url,
)
from openskills.errors import DeadlineExceeded, InvalidSkill, LimitExceeded, SourceUnavailable, UnsupportedMedia
from openskills.skillmd.problem import Problem, Severity
from openskills.version import __version__

if TYPE_CHECKING:
    import httpx2


class DownloadDeadline:
    """Cuts the connections when time is over.

    The timeouts of an HTTP client count from one piece to the next, so a server that drips bytes would hold us for
    ever. `watch` is for httpx2's `trace` extension; `sockets` are those of the client, old ones included, because a
    connection may be used again.
    """

    def __init__(self, seconds: float, sockets: WeakSet[socket.socket]) -> None:
        self.rang = False
        self._sockets = sockets
        self._lock = threading.Lock()
        self._timer = threading.Timer(seconds, self._expire)
        self._timer.daemon = True

    def __enter__(self) -> None:
        self._timer.start()

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()

    def watch(self, event: str, info: Mapping[str, Any]) -> None:
        """Remember a connection that was made."""
        if event.endswith(("connect_tcp.complete", "start_tls.complete")):
            with self._lock:
                self._sockets.add(info["return_value"].get_extra_info("socket"))
                if self.rang:
                    self._shut_down_sockets()

    def _expire(self) -> None:
        with self._lock:
            self.rang = True
            self._shut_down_sockets()

    def _shut_down_sockets(self) -> None:
        for connection in list(self._sockets):
            # Not SSLSocket's own method: that would take its state away from the thread that is reading.
            with suppress(OSError):
                socket.socket.shutdown(connection, socket.SHUT_RDWR)


_MAX_REDIRECTS = 5
_TRANSIENT = (408, 425, 429)


@dataclass(frozen=True, slots=True)
class DownloadLimits:
    """Bytes of one body, and seconds: to connect, between two pieces, and for everything."""

    size: int = 64 << 20
    connect: float = 10.0
    read: float = 30.0
    total: float = 300.0


DEFAULT_LIMITS = DownloadLimits()


@dataclass(frozen=True, slots=True)
class SourceDownload:
    """A complete body in a file. `url` is where it came from in the end; it may hold credentials, so it is not shown.

    `problems` has a warning when the server could not be asked and this is the copy from before.
    """

    path: Path
    sha256: str
    content_type: str
    url: str = field(repr=False)
    problems: tuple[Problem, ...] = ()


class Downloader:
    """A client that keeps what it gets below `directory`; use it as a context, from one thread."""

    def __init__(self, directory: Path, limits: DownloadLimits = DEFAULT_LIMITS) -> None:
        self._shelf = DownloadCache(directory)
        self._limits = limits
        self._sockets: WeakSet[socket.socket] = WeakSet()
        self._client: httpx2.Client | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._client:
            self._client.close()

    def find_cached(self, url: str) -> SourceDownload | None:
        """The copy from before, without asking the server."""
        kept = self._shelf.find(url)
        return self._build_download(url, kept) if kept else None

    def get(self, url: str, *, pin: str | None = None, progress: Progress = no_progress) -> SourceDownload:
        """The body at `url`; an unchanged one is not sent again, one with the digest `pin` is not even asked for.

        When the server cannot be reached, the copy from before is the answer, with a `source-stale` warning. Raises
        `SourceUnavailable` or `DeadlineExceeded` when there is none, `LimitExceeded` for too many bytes, and
        `InvalidSkill` for a digest other than `pin`.
        """
        kept = self._shelf.find(url)
        if kept and kept.sha256 == pin:
            return self._build_download(url, kept)
        try:
            # "Not changed" is no answer to whoever wants other bytes than those that are kept.
            return self._build_download(url, self._fetch(url, None if pin else kept, pin, progress))
        except (SourceUnavailable, DeadlineExceeded) as error:
            if not kept or pin or error.details.get("final"):
                raise
            stale = Problem("source-stale", f"{error}; the copy from before is used", Severity.WARNING)
            return self._build_download(url, kept, stale)

    def _build_download(self, url: str, kept: CachedResponse, *problems: Problem) -> SourceDownload:
        # The record has no credentials; on the same server those of the request are good for what it points to.
        final = join_url(url, kept.url, field=redact(url))
        return SourceDownload(self._shelf.body_path(url, kept), kept.sha256, kept.content_type, final, problems)

    def _fetch(self, url: str, kept: CachedResponse | None, pin: str | None, progress: Progress) -> CachedResponse:
        import httpx2

        alarm = DownloadDeadline(self._limits.total, self._sockets)
        try:
            with alarm, self._open_response(url, kept, alarm) as response:
                if response.status_code == 304 and kept:
                    return kept
                return self._receive(url, response, pin, progress)
        except (httpx2.HTTPError, httpx2.InvalidURL, UnicodeError) as error:
            if alarm.rang:
                raise DeadlineExceeded(f"{redact(url)}: took longer than {self._limits.total:g} seconds") from None
            raise SourceUnavailable(f"{redact(url)}: {_describe_error(error, url)}") from None
        except OSError as error:
            raise SourceUnavailable(f"{redact(url)}: cannot be kept in the cache: {error.strerror}") from None

    @contextmanager
    def _open_response(
        self, url: str, kept: CachedResponse | None, alarm: DownloadDeadline
    ) -> "Generator[httpx2.Response]":
        client = self._open_client()
        request = client.build_request(
            "GET", url, headers=_conditional_headers(kept), extensions={"trace": alarm.watch}
        )
        before = url
        for _ in range(_MAX_REDIRECTS + 1):
            check_redirect(before, str(request.url), field=f"redirect of {redact(url)}")
            response = client.send(request, stream=True)
            try:
                if response.next_request is None:
                    yield response
                    return
                before, request = str(request.url), response.next_request
            finally:
                response.close()
        raise SourceUnavailable(f"{redact(url)}: redirects more than {_MAX_REDIRECTS} times")

    def _open_client(self) -> "httpx2.Client":
        import httpx2

        if self._client is None:
            limits = self._limits
            self._client = httpx2.Client(
                timeout=httpx2.Timeout(limits.read, connect=limits.connect),
                # Compression is refused so that the bytes that are counted and hashed are the bytes of the file.
                headers={"User-Agent": f"openskills/{__version__}", "Accept-Encoding": "identity"},
            )
        return self._client

    def _receive(self, url: str, response: "httpx2.Response", pin: str | None, progress: Progress) -> CachedResponse:
        total = _read_content_length(url, response, self._limits.size)
        digest, count = hashlib.sha256(), 0
        with self._shelf.temporary_file(url) as path:
            with path.open("wb") as file:
                for chunk in response.iter_raw():
                    count += len(chunk)
                    _check_size(url, count, self._limits.size)
                    digest.update(chunk)
                    file.write(chunk)
                    progress(f"downloading {redact(url)}", count, total)
            kept = _to_cached_response(response, digest.hexdigest(), count)
            if pin and kept.sha256 != pin:
                raise InvalidSkill(f"{redact(url)}: has sha256 {kept.sha256}, but {pin} was expected; it was not used")
            self._shelf.store(url, path, kept)
        return kept


def _conditional_headers(kept: CachedResponse | None) -> dict[str, str]:
    headers = {"If-None-Match": kept.etag, "If-Modified-Since": kept.last_modified} if kept else {}
    # A server may have sent other characters, but nothing says how they would have to be sent back.
    return {name: value for name, value in headers.items() if value and value.isascii()}


def _read_content_length(url: str, response: "httpx2.Response", most: int) -> int | None:
    """The size that the server declares; raises for an answer that cannot be used."""
    status = response.status_code
    if status != 200:
        # The server has spoken: what is gone or forbidden is not served from an old copy.
        final = 400 <= status < 500 and status not in _TRANSIENT
        words = f"the server answered {status} {response.reason_phrase}".rstrip()
        raise SourceUnavailable(f"{redact(url)}: {words}", status=status, final=final)
    encoding = response.headers.get("Content-Encoding", "identity").lower()
    # Some servers say gzip for a file that is a .tar.gz; its bytes are right as they are.
    if encoding not in ("identity", "gzip", "x-gzip"):
        raise UnsupportedMedia(f"{redact(url)}: was sent compressed with {encoding!r}, which was not asked for")
    length = response.headers.get("Content-Length", "")
    total = int(length) if length.isdigit() else None
    _check_size(url, total or 0, most)
    return total


def _check_size(url: str, count: int, most: int) -> None:
    if count > most:
        raise LimitExceeded(f"{redact(url)}: is larger than {most:,} bytes")


def _to_cached_response(response: "httpx2.Response", sha256: str, size: int) -> CachedResponse:
    header = response.headers.get
    return CachedResponse(
        sha256=sha256,
        size=size,
        url=normalize_url(str(response.url)),
        etag=header("ETag", ""),
        last_modified=header("Last-Modified", ""),
        content_type=header("Content-Type", ""),
    )


def _describe_error(error: Exception, url: str) -> str:
    text = str(error) or type(error).__name__
    parts = split_url(url)
    for secret in (parts.password, parts.username):
        text = text.replace(secret, "...") if secret else text
    return redact(text)
