"""Which versions a name has, in a bucket. A version exists from the moment that its record does."""

from collections.abc import Callable, Sequence
from contextlib import aclosing

from openskills.artifacts.s3_bucket import Bucket
from openskills.artifacts.s3_keys import (
    Found,
    Owner,
    Record,
    by_name,
    living,
    mark_key,
    name_prefix,
    owner_prefix,
    record_key,
    record_of,
    record_text,
)
from openskills.artifacts.store import unknown
from openskills.errors import ArtifactsUnavailable

TRIES = 1000


class Names:
    """The records and marks of all names. Everything that is written is written once: nobody waits for a lock."""

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket

    async def versions(self, owner: Owner, name: str) -> Sequence[Record]:
        """Every version of one name, oldest first."""
        return await self._records(living(await self._found(name_prefix(owner, name)))[::-1])

    async def latest_of_all(self, owner: Owner) -> Sequence[Record]:
        """The latest version of every name of an owner."""
        names = by_name(await self._found(owner_prefix(owner)))
        return await self._records([keys[0] for keys in names if not keys[0].is_mark])

    async def chosen(self, owner: Owner, name: str, version: int | None) -> Record:
        """One version, or the latest; raises `InvalidArgument` when there is none."""
        found = living(await self._found(name_prefix(owner, name)))
        records = await self._records([one for one in found if version in (None, one.version)][:1])
        if not records:
            raise unknown(name, version, [record.artifact for record in await self._records(found[::-1])])
        return records[0]

    async def add(self, owner: Owner, name: str, numbered: Callable[[int], Record]) -> Record:
        """Remember one more version; `numbered` makes its record from the number that it gets."""
        prefix = name_prefix(owner, name)
        for _ in range(TRIES):
            latest = await self._latest(prefix)
            record = numbered(latest.version + 1 if latest else 0)
            # Since it was chosen, others may have used the number, deleted it and swept: then it is free again, and
            # what is written there counts as deleted.
            if await self._claimed(prefix, record, owner) and not await self._is_deleted(prefix, record):
                return record
        raise ArtifactsUnavailable(f"{self._bucket.place}: too many put {name!r} at once; try again")

    async def forget(self, owner: Owner, name: str) -> bool:
        """Mark all versions as deleted; false when there were none."""
        prefix = name_prefix(owner, name)
        while (latest := await self._latest(prefix)) and not latest.is_mark:
            if await self._bucket.create(mark_key(prefix, latest.version), b""):
                return True
        return False

    async def _claimed(self, prefix: str, record: Record, owner: Owner) -> bool:
        key = record_key(prefix, record.artifact.version)
        if await self._bucket.create(key, record_text(record, owner)):
            return True
        # Perhaps by ourselves: an answer was lost, and the request was made again.
        text = await self._bucket.read(key)
        return text is not None and record_of(text, key).content == record.content

    async def _latest(self, prefix: str) -> Found | None:
        async with aclosing(self._bucket.listed(prefix)) as found:
            return await anext(found, None)

    async def _is_deleted(self, prefix: str, record: Record) -> bool:
        # Later versions come first, and a mark comes before everything that it covers.
        async with aclosing(self._bucket.listed(prefix)) as found:
            async for one in found:
                if one.is_mark or one.version <= record.artifact.version:
                    return one.is_mark and one.version >= record.artifact.version
        return False

    async def _found(self, prefix: str) -> Sequence[Found]:
        async with aclosing(self._bucket.listed(prefix)) as found:
            return [one async for one in found]

    async def _records(self, found: Sequence[Found]) -> Sequence[Record]:
        texts = await self._bucket.read_all([one.key for one in found])
        # What is not there any more was deleted and swept meanwhile.
        return [record_of(text, one.key) for one, text in zip(found, texts, strict=True) if text is not None]
