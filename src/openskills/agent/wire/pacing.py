"""How long an answer may keep us waiting."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, fields

import httpx2

from openskills.errors import InvalidArgument

_LAST_WORD = b"[DONE]"
_TAIL = 64
MOST_BYTES = 256 * 1024 * 1024
"""Of one answer. The longest that models give today take a fifth of it, with everything around each word."""


@dataclass(frozen=True, slots=True)
class TimeLimits:
    """Seconds: to connect, until the first byte of the answer comes (from the beginning of the request on), and
    between one piece of it and the next. Signs of life that some servers send while a model thinks are pieces, too.
    """

    connect: float = 10.0
    first: float = 300.0
    between: float = 120.0

    def __post_init__(self) -> None:
        for field in fields(self):
            if not getattr(self, field.name) > 0:
                raise InvalidArgument(f"limits.{field.name}", "is not more than 0")

    def for_client(self) -> httpx2.Timeout:
        """What the HTTP client watches over. `Paced` bounds the waiting for the answer more exactly."""
        longest = max(self.first, self.between)
        return httpx2.Timeout(longest, connect=self.connect, pool=self.connect)


class Paced(httpx2.AsyncByteStream):
    """The bytes of an answer; raises `httpx2.ReadTimeout` when they keep us waiting, `ReadError` when they do not end.

    The first must have come by `deadline`, in the time of the event loop. `said_done` tells whether the last of them
    were the `[DONE]` with which some protocols end.
    """

    def __init__(
        self, source: httpx2.AsyncByteStream, limits: TimeLimits, deadline: float, most: int = MOST_BYTES
    ) -> None:
        self._source = source
        self._limits = limits
        self._first = deadline
        self._pieces: AsyncIterator[bytes] | None = None
        self._tail = b""
        self._left = most

    @property
    def said_done(self) -> bool:
        """Whether the server said that this was all."""
        return _LAST_WORD in self._tail

    def __aiter__(self) -> "Paced":
        return self

    async def __anext__(self) -> bytes:
        # A reader who takes his time is no silence of the server: it is counted from when he asks.
        deadline = self._first if self._pieces is None else asyncio.get_running_loop().time() + self._limits.between
        self._pieces = self._pieces or aiter(self._source)
        try:
            async with asyncio.timeout_at(deadline):
                piece = await anext(self._pieces)
        except TimeoutError:
            raise httpx2.ReadTimeout("nothing came for too long") from None
        self._tail = (self._tail + piece)[-_TAIL:]
        self._left -= len(piece)
        if self._left < 0:
            raise httpx2.ReadError("the answer does not end")
        return piece

    async def aclose(self) -> None:
        """Give up the rest."""
        await self._source.aclose()
