"""One request through an official client, and the events of its answer as plain JSON values."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import anyio
import httpx2

from openskills.agent.wire.failures import GARBLED, Provider
from openskills.agent.wire.pacing import Paced, TimeLimits
from openskills.prompt.messages import get

_STREAMS = ("text/event-stream", "text/plain", "application/octet-stream", "")
_BROKEN = (httpx2.HTTPError, httpx2.StreamError, anyio.EndOfStream, OSError, *GARBLED)
"""What passes through the official clients as it is, in one of them or in both; a timeout is an `OSError`."""


@dataclass(frozen=True, slots=True)
class Heard:
    """An answer that is being read: its events, one for an answer that came whole, and the bytes that they are in."""

    events: AsyncIterator[object]
    source: Paced


@asynccontextmanager
async def asked(
    request: AbstractAsyncContextManager[Any],
    stream: type[Any],
    errors: type[Exception],
    limits: TimeLimits,
    provider: Provider,
    is_complete: Callable[[], bool],
) -> AsyncGenerator[Heard]:
    """Send a request that `with_streaming_response` of a client has made, and hear its answer.

    `stream` is the client's `AsyncStream[object]`: events are not made into its types, which trust the server. `errors`
    is the base of the client's errors. What goes wrong is `AttemptFailed`, also while the block reads; but what goes
    wrong after the answer `is_complete` only ends the block. Leaving it closes the connection, unless the answer was
    read to its end.
    """
    deadline = asyncio.get_running_loop().time() + limits.first
    try:
        async with AsyncExitStack() as opened:
            async with asyncio.timeout_at(deadline):
                response = await opened.enter_async_context(request)
            source = _paced(response.http_response, limits, deadline)
            kind = response.http_response.headers.get("content-type", "").partition(";")[0].strip().lower()
            if kind in _STREAMS:
                yield Heard(await response.parse(to=stream), source)
            elif kind == "application/json":
                yield Heard(_whole(await response.json(), provider), source)
            else:
                raise provider.no_stream(kind)
    except (errors, *_BROKEN) as error:
        if not is_complete():
            raise provider.failure(error) from None


def _paced(response: httpx2.Response, limits: TimeLimits, deadline: float) -> Paced:
    source = response.stream
    assert isinstance(source, httpx2.AsyncByteStream)  # noqa: S101 - the clients are asynchronous
    response.stream = paced = Paced(source, limits, deadline)
    return paced


async def _whole(body: object, provider: Provider) -> AsyncGenerator[object]:
    if get(body, "error"):
        raise provider.complaint(body)
    yield body
