"""HTTP downloads: bounded in size and time, checked, kept, and re-validated instead of repeated."""

import hashlib
import socket
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self
from weakref import WeakSet

from openskills.catalog.fetch.alarm import Alarm
from openskills.catalog.fetch.kept import Kept, Shelf
from openskills.catalog.fetch.urls import allow, join, plain, shown, split
from openskills.catalog.progress import Progress, silent
from openskills.errors import DeadlineExceeded, InvalidSkill, LimitExceeded, SourceUnavailable, UnsupportedMedia
from openskills.skillmd.problem import Problem, Severity
from openskills.version import __version__

if TYPE_CHECKING:
    import httpx2

_MAX_REDIRECTS = 5
_PASSING = (408, 425, 429)


@dataclass(frozen=True, slots=True)
class DownloadLimits:
    """Bytes of one body, and seconds: to connect, between two pieces, and for everything."""

    size: int = 64 << 20
    connect: float = 10.0
    read: float = 30.0
    total: float = 300.0


DEFAULT_LIMITS = DownloadLimits()


@dataclass(frozen=True, slots=True)
class Download:
    """A complete body in a file. `url` is where it came from in the end; it may hold credentials, so it is not shown.

    `problems` has a warning when the server could not be asked and this is the copy from before.
    """

    path: Path
    sha256: str
    content_type: str
    url: str = field(repr=False)
    problems: tuple[Problem, ...] = ()


class Downloads:
    """A client that keeps what it gets below `directory`; use it as a context, from one thread."""

    def __init__(self, directory: Path, limits: DownloadLimits = DEFAULT_LIMITS) -> None:
        self._shelf = Shelf(directory)
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

    def kept(self, url: str) -> Download | None:
        """The copy from before, without asking the server."""
        kept = self._shelf.find(url)
        return self._answer(url, kept) if kept else None

    def get(self, url: str, *, pin: str | None = None, progress: Progress = silent) -> Download:
        """The body at `url`; an unchanged one is not sent again, one with the digest `pin` is not even asked for.

        When the server cannot be reached, the copy from before is the answer, with a `source-stale` warning. Raises
        `SourceUnavailable` or `DeadlineExceeded` when there is none, `LimitExceeded` for too many bytes, and
        `InvalidSkill` for a digest other than `pin`.
        """
        kept = self._shelf.find(url)
        if kept and kept.sha256 == pin:
            return self._answer(url, kept)
        try:
            # "Not changed" is no answer to whoever wants other bytes than those that are kept.
            return self._answer(url, self._fetch(url, None if pin else kept, pin, progress))
        except (SourceUnavailable, DeadlineExceeded) as error:
            if not kept or pin or error.details.get("final"):
                raise
            stale = Problem("source-stale", f"{error}; the copy from before is used", Severity.WARNING)
            return self._answer(url, kept, stale)

    def _answer(self, url: str, kept: Kept, *problems: Problem) -> Download:
        # The record has no credentials; on the same server those of the request are good for what it points to.
        final = join(url, kept.url, field=shown(url))
        return Download(self._shelf.body(url, kept), kept.sha256, kept.content_type, final, problems)

    def _fetch(self, url: str, kept: Kept | None, pin: str | None, progress: Progress) -> Kept:
        import httpx2

        alarm = Alarm(self._limits.total, self._sockets)
        try:
            with alarm, self._response(url, kept, alarm) as response:
                if response.status_code == 304 and kept:
                    return kept
                return self._receive(url, response, pin, progress)
        except (httpx2.HTTPError, httpx2.InvalidURL, UnicodeError) as error:
            if alarm.rang:
                raise DeadlineExceeded(f"{shown(url)}: took longer than {self._limits.total:g} seconds") from None
            raise SourceUnavailable(f"{shown(url)}: {_reason(error, url)}") from None
        except OSError as error:
            raise SourceUnavailable(f"{shown(url)}: cannot be kept in the cache: {error.strerror}") from None

    @contextmanager
    def _response(self, url: str, kept: Kept | None, alarm: Alarm) -> "Generator[httpx2.Response]":
        client = self._connected()
        request = client.build_request("GET", url, headers=_conditions(kept), extensions={"trace": alarm.watch})
        before = url
        for _ in range(_MAX_REDIRECTS + 1):
            allow(before, str(request.url), field=f"redirect of {shown(url)}")
            response = client.send(request, stream=True)
            try:
                if response.next_request is None:
                    yield response
                    return
                before, request = str(request.url), response.next_request
            finally:
                response.close()
        raise SourceUnavailable(f"{shown(url)}: redirects more than {_MAX_REDIRECTS} times")

    def _connected(self) -> "httpx2.Client":
        import httpx2

        if self._client is None:
            limits = self._limits
            self._client = httpx2.Client(
                timeout=httpx2.Timeout(limits.read, connect=limits.connect),
                # Compression is refused so that the bytes that are counted and hashed are the bytes of the file.
                headers={"User-Agent": f"openskills/{__version__}", "Accept-Encoding": "identity"},
            )
        return self._client

    def _receive(self, url: str, response: "httpx2.Response", pin: str | None, progress: Progress) -> Kept:
        total = _expected(url, response, self._limits.size)
        digest, count = hashlib.sha256(), 0
        with self._shelf.arriving(url) as path:
            with path.open("wb") as file:
                for chunk in response.iter_raw():
                    count += len(chunk)
                    _check_size(url, count, self._limits.size)
                    digest.update(chunk)
                    file.write(chunk)
                    progress(f"downloading {shown(url)}", count, total)
            kept = _kept(response, digest.hexdigest(), count)
            if pin and kept.sha256 != pin:
                raise InvalidSkill(f"{shown(url)}: has sha256 {kept.sha256}, but {pin} was expected; it was not used")
            self._shelf.keep(url, path, kept)
        return kept


def _conditions(kept: Kept | None) -> dict[str, str]:
    headers = {"If-None-Match": kept.etag, "If-Modified-Since": kept.last_modified} if kept else {}
    # A server may have sent other characters, but nothing says how they would have to be sent back.
    return {name: value for name, value in headers.items() if value and value.isascii()}


def _expected(url: str, response: "httpx2.Response", most: int) -> int | None:
    """The size that the server declares; raises for an answer that cannot be used."""
    status = response.status_code
    if status != 200:
        # The server has spoken: what is gone or forbidden is not served from an old copy.
        final = 400 <= status < 500 and status not in _PASSING
        words = f"the server answered {status} {response.reason_phrase}".rstrip()
        raise SourceUnavailable(f"{shown(url)}: {words}", status=status, final=final)
    encoding = response.headers.get("Content-Encoding", "identity").lower()
    # Some servers say gzip for a file that is a .tar.gz; its bytes are right as they are.
    if encoding not in ("identity", "gzip", "x-gzip"):
        raise UnsupportedMedia(f"{shown(url)}: was sent compressed with {encoding!r}, which was not asked for")
    length = response.headers.get("Content-Length", "")
    total = int(length) if length.isdigit() else None
    _check_size(url, total or 0, most)
    return total


def _check_size(url: str, count: int, most: int) -> None:
    if count > most:
        raise LimitExceeded(f"{shown(url)}: is larger than {most:,} bytes")


def _kept(response: "httpx2.Response", sha256: str, size: int) -> Kept:
    header = response.headers.get
    return Kept(
        sha256=sha256,
        size=size,
        url=plain(str(response.url)),
        etag=header("ETag", ""),
        last_modified=header("Last-Modified", ""),
        content_type=header("Content-Type", ""),
    )


def _reason(error: Exception, url: str) -> str:
    text = str(error) or type(error).__name__
    parts = split(url)
    for secret in (parts.password, parts.username):
        text = text.replace(secret, "...") if secret else text
    return shown(text)
