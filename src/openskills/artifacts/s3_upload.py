"""Content on its way into a bucket: counted, digested, in bounded memory, and gone when it does not arrive."""

import hashlib
from collections.abc import AsyncIterator
from contextlib import suppress

from openskills.artifacts.s3_bucket import PART, Bucket
from openskills.errors import SkillError


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

    async def _take_in_parts(self, held: list[bytes], content: AsyncIterator[bytes]) -> None:
        writer = await self._bucket.writer(self.key)
        try:
            while held:
                await writer.write(held.pop(0))
            async for piece in content:
                self._count(piece)
                await writer.write(piece)
            await writer.close()
        except BaseException:
            # A server that fails may have no ear for this either.
            with suppress(SkillError):
                await writer.withdraw()
            raise

    def _count(self, piece: bytes) -> None:
        self._digest.update(piece)
        self.size += len(piece)
