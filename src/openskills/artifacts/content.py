"""Bytes on their way into a store, in pieces of a good size, counted."""

from collections.abc import AsyncGenerator, AsyncIterable
from typing import NoReturn

from openskills.artifacts.store import Content
from openskills.errors import InvalidArgument, LimitExceeded

PIECE = 1024 * 1024


async def pieces(data: Content, *, limit: int) -> AsyncGenerator[bytes]:
    """The content in pieces, none empty, small ones gathered to about 1 MiB.

    Raises `LimitExceeded` as soon as there are more than `limit` bytes, and `InvalidArgument` for what is not bytes.
    """
    gathered = bytearray()
    total = 0
    async for chunk in _chunks(data):
        total += len(chunk)
        if total > limit:
            _refuse(data, total, limit)
        # A large chunk goes on as it is: copying it would double what the caller holds.
        if not gathered and len(chunk) >= PIECE:
            yield chunk
            continue
        gathered += chunk
        if len(gathered) >= PIECE:
            yield bytes(gathered)
            gathered.clear()
    if gathered:
        yield bytes(gathered)


async def _chunks(data: Content) -> AsyncGenerator[bytes]:
    if isinstance(data, bytes):
        yield data
        return
    _expect(data, AsyncIterable, "bytes or an async iterable of bytes")
    async for chunk in data:
        _expect(chunk, bytes, "bytes in every piece")
        yield chunk


def _expect(value: object, kind: type, wanted: str) -> None:
    # Callers without a type checker pass text, open files and lists.
    if not isinstance(value, kind):
        raise InvalidArgument("data", f"is {type(value).__name__}; an artifact is made of {wanted}")


def _refuse(data: Content, total: int, limit: int) -> NoReturn:
    size = f"{total:,}" if isinstance(data, bytes) else f"{total:,} or more"
    raise LimitExceeded(
        f"an artifact of {size} bytes is too large: this store takes {limit:,} per artifact", limit=limit, size=total
    )
