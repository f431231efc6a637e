"""Content for checks: in pieces, failing halfway, never ending."""

import asyncio
from collections.abc import AsyncGenerator, Sequence


class ContentFailed(Exception):
    """What content of ours raises."""


class Waiting:
    """Content that gives one piece and then waits for ever."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()

    async def __aiter__(self) -> AsyncGenerator[bytes]:
        yield b"half"
        self.begun.set()
        await asyncio.Event().wait()


async def failing() -> AsyncGenerator[bytes]:
    """Content that fails after its first piece."""
    yield b"half"
    raise ContentFailed


async def stream(chunks: Sequence[bytes | str]) -> AsyncGenerator[bytes]:
    """Content in these pieces. Text is no content; whoever takes it is to say so."""
    for chunk in chunks:
        await asyncio.sleep(0)
        yield chunk  # pyright: ignore[reportReturnType]
