"""Artifacts in a bucket of an S3-compatible server: for many machines. Needs the extra `s3`."""

import hashlib
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from datetime import UTC, datetime, timedelta
from uuid import uuid4

from openskills.artifacts.content import pieces
from openskills.artifacts.files import MAX_BYTES, Swept
from openskills.artifacts.ref import checked_name, checked_version
from openskills.artifacts.s3_bucket import Bucket
from openskills.artifacts.s3_keys import CONTENT, FORMAT, FORMAT_KEY, Record
from openskills.artifacts.s3_names import Names
from openskills.artifacts.s3_sweep import sweep
from openskills.artifacts.s3_upload import Upload
from openskills.artifacts.store import BINARY, Artifact, Content, Reading, Scope, checked_mime_type
from openskills.errors import SkillError

ONE_DAY = timedelta(days=1)


class S3ArtifactStore:
    """An `ArtifactStore` in a bucket, below `prefix`. `max_bytes` bounds one artifact.

    `config` is what obstore calls so: `region`, `endpoint`, `access_key_id`, `secret_access_key` and others; what is
    missing there is found as AWS's own tools find it. The server has to honour `If-None-Match: *`, which keeps versions
    apart; one that does not is refused at the first put. Raises `ArtifactsUnavailable` when it cannot be reached.
    """

    def __init__(
        self, bucket: str, prefix: str = "", *, config: Mapping[str, str] | None = None, max_bytes: int = MAX_BYTES
    ) -> None:
        self._bucket = Bucket(bucket, prefix, config or {}, f"the artifact store s3://{bucket}/{prefix}")
        self._names = Names(self._bucket)
        self._max_bytes = max_bytes
        self._readable = False
        self._writable = False

    async def put(self, scope: Scope, name: str, data: Content, *, mime_type: str = BINARY) -> Artifact:
        """See `ArtifactStore.put`. Memory use does not depend on the size of what comes in pieces."""
        name, mime_type = checked_name(name), checked_mime_type(mime_type)
        await self._prepare_to_write()
        upload = Upload(self._bucket, f"{CONTENT}{uuid4().hex}")
        async with aclosing(pieces(data, limit=self._max_bytes)) as arriving:
            await upload.take(arriving)

        def numbered(version: int) -> Record:
            artifact = Artifact(name, version, upload.size, mime_type, upload.sha256, datetime.now(UTC))
            return Record(artifact, upload.key)

        return (await self._names.add(scope.owner(name), name, numbered)).artifact

    @asynccontextmanager
    async def open(self, scope: Scope, name: str, version: int | None = None) -> AsyncGenerator[Reading]:
        """See `ArtifactStore.open`. Bytes that are not those that were put raise `SkillError` at their end."""
        name, version = checked_name(name), checked_version(version)
        await self._prepare_to_read()
        record = await self._names.chosen(scope.owner(name), name, version)
        async with aclosing(self._checked(record)) as chunks:
            yield Reading(record.artifact, chunks)

    async def list(self, scope: Scope) -> Sequence[Artifact]:
        """See `ArtifactStore.list`."""
        await self._prepare_to_read()
        owners = (scope.session_owner, scope.user_owner)
        latest = [record.artifact for owner in owners for record in await self._names.latest_of_all(owner)]
        return tuple(sorted(latest, key=lambda artifact: artifact.name))

    async def versions(self, scope: Scope, name: str) -> Sequence[Artifact]:
        """See `ArtifactStore.versions`."""
        name = checked_name(name)
        await self._prepare_to_read()
        return tuple(record.artifact for record in await self._names.versions(scope.owner(name), name))

    async def delete(self, scope: Scope, name: str) -> bool:
        """See `ArtifactStore.delete`. The bytes stay in the bucket until the next `sweep`."""
        name = checked_name(name)
        await self._prepare_to_write()
        return await self._names.forget(scope.owner(name), name)

    async def sweep(self, *, older_than: timedelta = ONE_DAY) -> Swept:
        """Remove content that no version refers to: what was deleted that long ago, and what killed processes left.

        Safe beside any number of readers and writers, as long as no put and no reading takes longer than that.
        """
        await self._prepare_to_write()
        return await sweep(self._bucket, before=datetime.now(UTC) - older_than)

    async def _checked(self, record: Record) -> AsyncGenerator[bytes]:
        size, digest = 0, hashlib.sha256()
        try:
            async with aclosing(self._bucket.stream(record.content)) as chunks:
                async for chunk in chunks:
                    size += len(chunk)
                    digest.update(chunk)
                    yield chunk
        except FileNotFoundError:
            raise self._damaged(record) from None
        if (size, digest.hexdigest()) != (record.artifact.size, record.artifact.sha256):
            raise self._damaged(record)

    def _damaged(self, record: Record) -> SkillError:
        ref = record.artifact.ref
        what = f"{ref} is damaged: {record.content} in {self._bucket.place} is missing or has changed; restore it"
        return SkillError(what, ref=ref)

    async def _prepare_to_read(self) -> None:
        if not self._readable:
            self._expect_format(await self._bucket.read(FORMAT_KEY))
            self._readable = True

    async def _prepare_to_write(self) -> None:
        if self._writable:
            return
        # Whoever writes it first sees whether the server lets it be written a second time.
        for _ in range(2):
            if not await self._bucket.create(FORMAT_KEY, FORMAT):
                self._expect_format(await self._bucket.read(FORMAT_KEY))
                self._readable = self._writable = True
                return
        raise SkillError(
            f"{self._bucket.place} ignores 'If-None-Match: *', so that two versions could get one number;"
            " use a server, or a version of it, with conditional writes"
        )

    def _expect_format(self, found: bytes | None) -> None:
        if found not in (None, FORMAT):
            raise SkillError(
                f"{self._bucket.place} was written by another version of OpenSkill: its object {FORMAT_KEY!r} does not"
                f" say {FORMAT.decode().strip()!r}; choose another prefix, or that version"
            )
