"""Content on its way into a bucket: counted, digested, in bounded memory, and gone when it does not arrive."""

import asyncio
import hashlib
from collections.abc import AsyncGenerator, AsyncIterator, Sequence

from openskills.artifacts.s3_bucket import PART, Bucket

_ENDS_WITHIN = 10.0


class Upload:
    """Content that becomes one object. `size` and `sha256` are those of what has arrived."""

    def __init__(self, bucket: Bucket, key: str) -> None:
        self.key = key
        self.size = 0
        self._bucket = bucket
        self._digest = hashlib.sha256()

    @property
    def sha256(self) -> str:
        """The digest of what has arrived."""
        return self._digest.hexdigest()

    async def take(self, content: AsyncIterator[bytes]) -> None:
        """Write the content; raises what it raises, and then there is no object, nor any part of one."""
        held: list[bytes] = []
        async for piece in content:
            self._count(piece)
            held.append(piece)
            if self.size > PART:
                await self._take_in_parts(held, content)
                return
        await self._bucket.put(self.key, b"".join(held))

    async def _take_in_parts(self, held: Sequence[bytes], content: AsyncIterator[bytes]) -> None:
        pipe = _Pipe()
        writing = asyncio.ensure_future(self._bucket.put_in_parts(self.key, pipe.pieces()))
        try:
            for piece in held:
                await pipe.give(piece, writing)
            del held
            async for piece in content:
                self._count(piece)
                await pipe.give(piece, writing)
            await pipe.give(None, writing)
            await asyncio.shield(writing)
        except BaseException:
            # Whoever writes sees its content fail, and takes back the parts that are there.
            pipe.break_off()
            writing.add_done_callback(_looked_at)
            await asyncio.wait([writing], timeout=_ENDS_WITHIN)
            writing.cancel()
            raise

    def _count(self, piece: bytes) -> None:
        self._digest.update(piece)
        self.size += len(piece)


class _BrokenOff(Exception):
    """There will be no more of this content."""


class _Pipe:
    """Pieces from one task to another, one at a time; None ends them."""

    def __init__(self) -> None:
        self._queue = asyncio.Queue[bytes | None | _BrokenOff](1)

    async def give(self, piece: bytes | None, taker: asyncio.Future[None]) -> None:
        """Hand a piece over; raises what made the taker end too early."""
        giving = asyncio.ensure_future(self._queue.put(piece))
        try:
            await asyncio.wait([giving, taker], return_when=asyncio.FIRST_COMPLETED)
        finally:
            giving.cancel()
        if taker.done():
            taker.result()

    def break_off(self) -> None:
        """Let the taker fail at its next piece."""
        while not self._queue.empty():
            self._queue.get_nowait()
        self._queue.put_nowait(_BrokenOff())

    async def pieces(self) -> AsyncGenerator[bytes]:
        """The pieces, for the taker."""
        while (piece := await self._queue.get()) is not None:
            if isinstance(piece, _BrokenOff):
                raise piece
            yield piece


def _looked_at(future: asyncio.Future[None]) -> None:
    # Nobody else asks how it ended, and asyncio would complain.
    if not future.cancelled():
        future.exception()
