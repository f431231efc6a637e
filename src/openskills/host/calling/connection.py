"""The HTTP below a client of the host: bounded in time and size, asking again only where that is safe."""

import asyncio
import os
import random
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from itertools import count
from typing import Generic, TypeVar

import httpx2

from openskills.agent.retrying import Retries
from openskills.errors import BadSkillOutput, DeadlineExceeded, HostUnavailable, LimitExceeded
from openskills.host.calling.request import Ask, is_local
from openskills.host.calling.retries import FEW, again_answered, again_unanswered, again_unsent
from openskills.session.per_loop import PerLoop
from openskills.version import __version__

T = TypeVar("T")

_MOST_REDIRECTS = 3
_UNSENT = (httpx2.ConnectError, httpx2.ConnectTimeout)


@dataclass(frozen=True, slots=True)
class ClientLimits:
    """What a client puts up with: bytes of one answer, seconds to connect, seconds of silence in a stream.

    The host sends a sign of life every 15 seconds.
    """

    answer_bytes: int = 32 * 1024 * 1024
    connect: float = 5.0
    silence: float = 60.0
    retries: Retries = FEW


async def _nothing() -> None:
    """There is nothing to close."""


@dataclass(frozen=True, slots=True)
class Answered(Generic[T]):
    """An answer with its bytes, or with the pieces that they come in. Names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: T
    close: Callable[[], Awaitable[None]] = _nothing


class Connection:
    """Connections to one host, for any number of event loops. Raises `SkillError`s, and nothing of the HTTP library.

    `named` is how a person sets the address.
    """

    def __init__(self, base: str, headers: Mapping[str, str], limits: ClientLimits, *, named: str) -> None:
        self.base = base
        self._headers = {"User-Agent": f"openskills/{__version__}", "Accept-Encoding": "identity", **headers}
        self.limits = limits
        self._named = named
        self._clients = PerLoop(self._connected)

    async def fetch(self, ask: Ask, deadline: float | None) -> Answered[bytes]:
        """Send a request, and read the whole answer by the deadline, in the time of the loop.

        Raises `HostUnavailable`, `DeadlineExceeded`, and `LimitExceeded` for an answer that is too large.
        """

        async def attempt() -> Answered[bytes]:
            answer = await self._send(ask)
            try:
                return Answered(answer.status, answer.headers, await self.whole(answer.body))
            finally:
                await answer.close()

        async with self._until(deadline):
            return await self._persist(attempt, ask, deadline)

    @asynccontextmanager
    async def opened(self, ask: Ask, deadline: float | None) -> AsyncGenerator[Answered[AsyncIterator[bytes]]]:
        """Send a request, and read the answer piece by piece in the block; its end closes it, wherever it is.

        The pieces raise `HostUnavailable` where the answer breaks off, and `DeadlineExceeded` after too long a silence.
        """
        async with self._until(deadline):
            answer = await self._persist(lambda: self._send(ask), ask, deadline)
        try:
            async with aclosing(self._pieces(answer.body, deadline)) as pieces:
                yield Answered(answer.status, answer.headers, pieces)
        finally:
            await answer.close()

    async def whole(self, pieces: AsyncIterator[bytes]) -> bytes:
        """All pieces of an answer. Raises `LimitExceeded`."""
        body, most = bytearray(), self.limits.answer_bytes
        async for piece in pieces:
            body += piece
            if len(body) > most:
                raise LimitExceeded(f"the answer of {self.base} is larger than {most:,} bytes", limit=most)
        return bytes(body)

    async def close(self) -> None:
        """Close the connections of the running loop."""
        client = await self._clients.take()
        if client is not None:
            await client.aclose()

    async def _connected(self) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(
            headers=self._headers,
            # Deadlines are ours: they bound a whole call, and these would bound only one step of it.
            timeout=httpx2.Timeout(None, connect=self.limits.connect),
            # Shorter than a server keeps an idle connection: a request should not meet one that is being closed.
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=32, keepalive_expiry=2.0),
            # A proxy that is set for the network has nothing to do with this machine.
            trust_env=not is_local(self.base),
        )

    async def _persist(
        self, attempt: Callable[[], Awaitable[Answered[T]]], ask: Ask, deadline: float | None
    ) -> Answered[T]:
        retries = self.limits.retries
        for tried in count(1):
            chance = random.random()  # noqa: S311 - it spreads load and guards nothing
            try:
                answer = await attempt()
            except _UNSENT as error:
                pause = again_unsent(retries, tried, chance)
                if pause is None or not _fits(pause, deadline):
                    raise self._unreachable(error, tried) from None
            except httpx2.TransportError as error:
                pause = again_unanswered(retries, tried, chance, repeatable=ask.repeatable)
                if pause is None or not _fits(pause, deadline):
                    raise self._lost(error) from None
            else:
                pause = again_answered(retries, tried, chance, answer.status, answer.headers, repeatable=ask.repeatable)
                if pause is None or not _fits(pause, deadline):
                    return answer
                await answer.close()
            await asyncio.sleep(pause)
        raise HostUnavailable(f"{self.base} was asked without end")

    async def _send(self, ask: Ask) -> Answered[AsyncIterator[bytes]]:
        """One attempt: the head of the answer. Redirects are followed within the host only."""
        client = await self._clients.get()
        request = client.build_request(ask.method, self.base + ask.path, headers=ask.headers, content=ask.content)
        for _ in range(_MOST_REDIRECTS + 1):
            response = await client.send(request, stream=True)
            following = response.next_request
            if following is None:
                headers = {name.lower(): value for name, value in response.headers.items()}
                if packed := _packed(headers):
                    await response.aclose()
                    raise BadSkillOutput(f"the answer is packed with {packed!r}, which was not asked for")
                return Answered(response.status_code, headers, response.aiter_raw(), response.aclose)
            await response.aclose()
            self._check_redirect(request, following)
            request = following
        raise HostUnavailable(f"{self.base} redirects more than {_MOST_REDIRECTS} times; is {self._named} right?")

    def _check_redirect(self, request: httpx2.Request, following: httpx2.Request) -> None:
        here, there = (_origin(one.url) for one in (request, following))
        if here != there:
            raise HostUnavailable(
                f"{self.base} redirects to {there}, which is not followed; set {self._named} to where the host is"
            )
        if request.method != following.method:
            raise HostUnavailable(
                f"{self.base} redirects an invocation to a page; set {self._named} to the host itself"
            )

    async def _pieces(self, pieces: AsyncIterator[bytes], deadline: float | None) -> AsyncGenerator[bytes]:
        loop = asyncio.get_running_loop()
        while True:
            silent = loop.time() + self.limits.silence
            try:
                async with self._until(silent if deadline is None else min(deadline, silent)):
                    piece = await anext(pieces, None)
            except httpx2.TransportError as error:
                raise self._lost(error) from None
            if piece is None:
                return
            yield piece

    @asynccontextmanager
    async def _until(self, deadline: float | None) -> AsyncGenerator[None]:
        try:
            async with asyncio.timeout_at(deadline):
                yield
        except TimeoutError:
            message = f"{self.base} did not answer in time; a longer timeout may help, or look at what the skill does"
            raise DeadlineExceeded(message) from None

    def _unreachable(self, error: httpx2.TransportError, tried: int) -> HostUnavailable:
        message = (
            f"no skill host answers at {self.base} ({_said(error)}); start one with `openskills serve`, "
            f"or set {self._named} to the address of another"
        )
        return HostUnavailable(message, url=self.base, attempts=tried)

    def _lost(self, error: httpx2.TransportError) -> HostUnavailable:
        message = f"{self.base} broke off before its answer was whole ({_said(error)}); the skill may have run"
        return HostUnavailable(message, url=self.base)


def _packed(headers: Mapping[str, str]) -> str:
    encoding = headers.get("content-encoding", "").strip().lower()
    return "" if encoding == "identity" else encoding[:50]


def _fits(pause: float, deadline: float | None) -> bool:
    return deadline is None or asyncio.get_running_loop().time() + pause < deadline


def _origin(url: httpx2.URL) -> str:
    return str(url.copy_with(raw_path=b"/", fragment=None)).rstrip("/")


def _said(error: httpx2.TransportError) -> str:
    """What the system said, where it did: that says more than the library below."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.errno:
            # Numbers of name resolution are below zero, and have texts of their own.
            return os.strerror(cause.errno) if cause.errno > 0 else str(cause.strerror)
        cause = cause.__cause__ or cause.__context__
    return str(error) or type(error).__name__
