"""Artifact store in an S3-compatible bucket, shared by many machines. Needs the extra `s3`.

format                      the version of this layout
content/RANDOM              the bytes of one version
names/OWNER/NAME/NUMBER-r   the record of a version: its metadata and the key of its bytes
names/OWNER/NAME/NUMBER-d   a mark: this version and every older one were deleted

A key is written only once, so the first writer of a record gets the version number. OWNER and NAME are digests. NUMBER
counts down because buckets list keys in order: the latest version comes first, and a mark before all that it deletes.
"""

import asyncio
import hashlib
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import groupby, takewhile
from typing import Any
from uuid import uuid4

from openskills.arguments import check_arguments
from openskills.artifacts.files import MAX_BYTES, SweepResult, artifact_from_fields, artifact_to_fields, digest_key
from openskills.artifacts.store import (
    BINARY,
    PIECE_BYTES,
    Artifact,
    ArtifactReader,
    Content,
    Scope,
    build_unknown_error,
    check_mime_type,
    check_version,
    normalize_name,
    split_content,
)
from openskills.concurrency import run_in_thread as to_the_end
from openskills.errors import ArtifactsUnavailable, InvalidArgument, MissingExtra, SkillError

FORMAT_KEY = "format"
FORMAT = b"openskills artifacts 1 in a bucket\n"
CONTENT = "content/"
NAMES = "names/"

Owner = tuple[str, ...]

_LAST = 10**15 - 1
_RECORD, _MARK = "-r", "-d"


@dataclass(frozen=True, slots=True)
class S3Object:
    """An object in a listing; `at` is when it was written."""

    key: str
    at: datetime
    size: int = 0

    @property
    def version(self) -> int:
        """The version number in the key of a record or mark."""
        return _LAST - int(self.key.rpartition("/")[2].removesuffix(_RECORD).removesuffix(_MARK))

    @property
    def is_mark(self) -> bool:
        return self.key.endswith(_MARK)


@dataclass(frozen=True, slots=True)
class VersionRecord:
    """One version, and the key of its bytes."""

    artifact: Artifact
    content: str


def owner_prefix(owner: Owner) -> str:
    return f"{NAMES}{digest_key(owner)}/"


def name_prefix(owner: Owner, name: str) -> str:
    return f"{owner_prefix(owner)}{digest_key((*owner, name))}/"


def record_key(prefix: str, version: int) -> str:
    return f"{prefix}{_LAST - version:015}{_RECORD}"


def mark_key(prefix: str, version: int) -> str:
    """The key of the mark that deletes this version and all older ones."""
    return f"{prefix}{_LAST - version:015}{_MARK}"


def select_undeleted(found: Iterable[S3Object]) -> list[S3Object]:
    """The records of one name that were not deleted, latest first."""
    return list(takewhile(lambda one: not one.is_mark, found))


def group_by_name(found: Iterable[S3Object]) -> Iterator[list[S3Object]]:
    """Group sorted keys by name."""
    for _, group in groupby(found, key=lambda one: one.key.rpartition("/")[0]):
        yield list(group)


def format_record(record: VersionRecord, owner: Owner) -> bytes:
    return json.dumps({**artifact_to_fields(record.artifact, owner), "content": record.content}).encode()


def parse_record(text: bytes, key: str) -> VersionRecord:
    """Parse a record written by `format_record`; raises `SkillError` for anything else."""
    try:
        fields = json.loads(text)
        return VersionRecord(artifact_from_fields(fields), str(fields["content"]))
    except (ValueError, TypeError, KeyError) as error:
        raise SkillError(f"the artifact store record {key} is damaged; restore it") from error


PART = 8 * 1024 * 1024
"""The part size of a multipart upload; smaller content is uploaded in one request."""

_MAX_CONCURRENT_PARTS = 2
_MAX_CONCURRENT_READS = 16
_PAGE_SIZE = 1000
# A large object may take long as long as data keeps arriving.
_TIMEOUTS = {"connect_timeout": "10s", "read_timeout": "60s", "timeout": "3600s"}
_RETRIES = 3


class S3Bucket:
    """One bucket, below a prefix; `place` names it in errors. It may be used from any event loop.

    `config` is the configuration of obstore: `region`, `endpoint`, `access_key_id`, `secret_access_key` and others.
    Missing options come from the same places as in AWS's own tools.
    """

    def __init__(self, bucket: str, prefix: str, config: Mapping[str, str], place: str) -> None:
        self.place = place
        self._bucket = bucket
        self._prefix = prefix
        self._config = dict(config)
        self._opened: Any = None

    async def create(self, key: str, data: bytes) -> bool:
        """Create an object atomically; false if it exists."""
        obstore = _import_obstore()

        def put() -> bool:
            try:
                obstore.put(self._get_store(), key, data, mode="create")
            except obstore.exceptions.AlreadyExistsError:
                return False
            return True

        return await self.run_in_thread(put)

    async def claim_layout(self, key: str, layout: bytes, danger: str) -> None:
        """Create the object with the version of a layout. Raises `SkillError` if it is there with another content.

        Also if the server ignores the condition of `create`; `danger` says what could happen then.
        """
        # If the server lets us create the same key twice, it ignores the condition.
        for _ in range(2):
            if not await self.create(key, layout):
                await self.check_layout(key, layout)
                return
        raise SkillError(f"{self.place} ignores 'If-None-Match: *', so {danger}; use a server with conditional writes")

    async def check_layout(self, key: str, layout: bytes) -> None:
        """Raise `SkillError` if the object with the version of a layout has another content; it may be missing."""
        if await self.read(key) not in (None, layout):
            raise SkillError(
                f"{self.place} was written by another version of OpenSkill: its object {key!r} does not"
                f" contain {layout.decode().strip()!r}; use another prefix or that version"
            )

    async def put(self, key: str, data: bytes) -> None:
        """Write an object in one request."""
        await self._call("put", key, data, use_multipart=False)

    async def copy(self, source: str, target: str) -> None:
        """Copy an object of at most 5 GiB on the server, atomically."""
        await self._call("copy", source, target)

    async def open_writer(self, key: str) -> Any:
        """A file of obstore that writes an object in parts; the object exists when the file is closed."""
        return await self._call("open_writer", key, buffer_size=PART, max_concurrency=_MAX_CONCURRENT_PARTS)

    async def read(self, key: str) -> bytes | None:
        """Read a small object; None if it does not exist."""
        try:
            return await self.run_in_thread(lambda: bytes(_import_obstore().get(self._get_store(), key).bytes()))
        except FileNotFoundError:
            return None

    async def read_all(self, keys: Sequence[str]) -> Sequence[bytes | None]:
        """Read many small objects concurrently."""
        slots = asyncio.Semaphore(_MAX_CONCURRENT_READS)

        async def one(key: str) -> bytes | None:
            async with slots:
                return await self.read(key)

        return await asyncio.gather(*(one(key) for key in keys))

    async def stream(self, key: str) -> AsyncGenerator[bytes]:
        """Yield the bytes of an object in pieces of at most 1 MiB; raises `FileNotFoundError`."""
        chunks = await self.run_in_thread(
            lambda: iter(_import_obstore().get(self._get_store(), key).stream(min_chunk_size=PIECE_BYTES))
        )
        while (chunk := await self.run_in_thread(lambda: next(chunks, None))) is not None:
            whole = bytes(chunk)
            for start in range(0, len(whole), PIECE_BYTES):
                yield whole[start : start + PIECE_BYTES]

    async def list_all(self, prefix: str) -> list[S3Object]:
        """The objects with this key prefix, sorted by key."""
        async with aclosing(self.list_objects(prefix)) as found:
            return [one async for one in found]

    async def list_objects(self, prefix: str) -> AsyncGenerator[S3Object]:
        """Yield the objects with this key prefix, sorted by key, one page at a time."""
        pages = iter(await self._call("list", prefix=prefix, chunk_size=_PAGE_SIZE))
        while (page := await self.run_in_thread(lambda: next(pages, None))) is not None:
            for entry in page:
                yield S3Object(entry["path"], entry["last_modified"], entry["size"])

    async def delete(self, keys: Sequence[str]) -> None:
        """Remove objects; missing ones are ignored."""
        for start in range(0, len(keys), _PAGE_SIZE):
            await self._call("delete", [*keys[start : start + _PAGE_SIZE]])

    async def run_in_thread(self, work: Callable[[], Any]) -> Any:
        """Run a request in a thread, and translate the errors of obstore.

        obstore's own awaitables are not used: a process that exits soon after one of them is sometimes aborted,
        because a Rust thread returns to an interpreter that has shut down.
        """
        errors = _import_obstore().exceptions
        try:
            return await to_the_end(work)
        except FileNotFoundError as error:
            if "NoSuchBucket" not in str(error):
                raise
            raise SkillError(f"{self.place}: the bucket does not exist; create it first", store=self.place) from None
        except (errors.PermissionDeniedError, errors.UnauthenticatedError) as error:
            message = f"{self.place}: access denied: {_describe_error(error)}; check the credentials and permissions"
            raise SkillError(message, store=self.place) from None
        except errors.NotSupportedError as error:
            message = f"{self.place} does not support a required operation: {_describe_error(error)}"
            raise SkillError(message, store=self.place) from None
        except errors.BaseError as error:
            message = f"{self.place} failed or cannot be reached: {_describe_error(error)}; try again"
            raise ArtifactsUnavailable(message, store=self.place) from None

    async def _call(self, function: str, *arguments: Any, **options: Any) -> Any:
        """Call a function of obstore with the store in a thread."""
        call = getattr(_import_obstore(), function)
        return await self.run_in_thread(lambda: call(self._get_store(), *arguments, **options))

    def _get_store(self) -> Any:
        if self._opened is None:
            obstore = _import_obstore()
            try:
                self._opened = obstore.store.S3Store(
                    self._bucket,
                    prefix=self._prefix or None,
                    config=self._config,
                    client_options={"allow_http": True, **_TIMEOUTS},
                    retry_config={"max_retries": _RETRIES},
                )
            except (obstore.exceptions.BaseError, ValueError):
                # Without the message of obstore, which repeats the configuration.
                raise InvalidArgument("url", f"{self.place}: invalid options in its URL") from None
        return self._opened


def _describe_error(error: BaseException) -> str:
    """The message of a server or the network, without the debug output of obstore."""
    return " ".join(str(error).partition("\n\nDebug source:")[0].split())[:400]


def _import_obstore() -> Any:
    try:
        import obstore
    except ImportError:
        raise MissingExtra("s3", "an artifact store in a bucket") from None
    return obstore


TRIES = 1000


class VersionIndex:
    """The records and marks of all names. Every key is written once, so no lock is needed."""

    def __init__(self, bucket: S3Bucket) -> None:
        self._bucket = bucket

    async def versions(self, owner: Owner, name: str) -> Sequence[VersionRecord]:
        """Every version of one name, oldest first."""
        return await _read_records(
            self._bucket, select_undeleted(await self._bucket.list_all(name_prefix(owner, name)))[::-1]
        )

    async def list_latest(self, owner: Owner) -> Sequence[VersionRecord]:
        """The latest version of every name of an owner."""
        names = group_by_name(await self._bucket.list_all(owner_prefix(owner)))
        return await _read_records(self._bucket, [keys[0] for keys in names if not keys[0].is_mark])

    async def select_version(self, owner: Owner, name: str, version: int | None) -> VersionRecord:
        """One version, or the latest; raises `InvalidArgument` if it does not exist."""
        found = select_undeleted(await self._bucket.list_all(name_prefix(owner, name)))
        records = await _read_records(self._bucket, [one for one in found if version in (None, one.version)][:1])
        if not records:
            known = await _read_records(self._bucket, found[::-1])
            raise build_unknown_error(name, version, [record.artifact for record in known])
        return records[0]

    async def add(self, owner: Owner, name: str, build: Callable[[int], VersionRecord]) -> VersionRecord:
        """Add a version; `build` makes its record from its number."""
        prefix = name_prefix(owner, name)
        for _ in range(TRIES):
            latest = await self._find_latest(prefix)
            record = build(latest.version + 1 if latest else 0)
            # Meanwhile others may have used the number, deleted it and swept: then the key is free again, but a record
            # there counts as deleted.
            if await self._try_create(prefix, record, owner) and not await self._is_deleted(prefix, record):
                return record
        raise ArtifactsUnavailable(f"{self._bucket.place}: too many concurrent writes of {name!r}; try again")

    async def remove(self, owner: Owner, name: str) -> bool:
        """Mark all versions as deleted; false if there were none."""
        prefix = name_prefix(owner, name)
        while (latest := await self._find_latest(prefix)) and not latest.is_mark:
            if await self._bucket.create(mark_key(prefix, latest.version), b""):
                return True
        return False

    async def _try_create(self, prefix: str, record: VersionRecord, owner: Owner) -> bool:
        key = record_key(prefix, record.artifact.version)
        if await self._bucket.create(key, format_record(record, owner)):
            return True
        # Perhaps we wrote it: a response was lost, and the request was repeated.
        text = await self._bucket.read(key)
        return text is not None and parse_record(text, key).content == record.content

    async def _find_latest(self, prefix: str) -> S3Object | None:
        async with aclosing(self._bucket.list_objects(prefix)) as found:
            return await anext(found, None)

    async def _is_deleted(self, prefix: str, record: VersionRecord) -> bool:
        # Later versions come first, and a mark comes before everything that it deletes.
        async with aclosing(self._bucket.list_objects(prefix)) as found:
            async for one in found:
                if one.is_mark or one.version <= record.artifact.version:
                    return one.is_mark and one.version >= record.artifact.version
        return False


async def sweep_bucket(bucket: S3Bucket, *, before: datetime) -> SweepResult:
    """Remove versions deleted before that time, and older unreferenced content."""
    kept: list[S3Object] = []
    gone: list[S3Object] = []
    for keys in group_by_name(await bucket.list_all(NAMES)):
        here, there = partition_keys(keys, before=before)
        kept += here
        gone += there
    wanted = {record.content for record in await _read_records(bucket, kept)}
    # Listed last: content of a concurrent put is younger than `before`.
    contents = await bucket.list_all(CONTENT)
    unwanted = [one for one in contents if one.key not in wanted and one.at < before]
    await bucket.delete([one.key for one in unwanted])
    # Records after their content, so that an interrupted sweep leaves nothing that the next one cannot find.
    await bucket.delete([one.key for one in gone])
    return SweepResult(len(unwanted), sum(one.size for one in unwanted))


def partition_keys(keys: list[S3Object], *, before: datetime) -> tuple[list[S3Object], list[S3Object]]:
    """The records of one name whose content must be kept, and the keys to remove. The latest mark is always kept.

    Recently deleted versions are kept: they may still be open for reading.
    """
    here = select_undeleted(keys)
    if len(here) == len(keys):
        return here, []
    mark, rest = keys[len(here)], keys[len(here) + 1 :]
    if mark.at < before:
        return here, rest
    return here + [one for one in rest if not one.is_mark], []


async def _read_records(bucket: S3Bucket, found: Sequence[S3Object]) -> Sequence[VersionRecord]:
    texts = await bucket.read_all([one.key for one in found])
    # Missing records were deleted and swept meanwhile.
    return [parse_record(text, one.key) for one, text in zip(found, texts, strict=True) if text is not None]


class ContentUpload:
    """Uploads content as one object in bounded memory, and computes its size and digest."""

    def __init__(self, bucket: S3Bucket, key: str) -> None:
        self.key = key
        self.size = 0
        self._bucket = bucket
        self._digest = hashlib.sha256()

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()

    async def write(self, content: AsyncIterator[bytes]) -> None:
        """Upload the content. If it raises, the error is passed on and no object or part is left."""
        held: list[bytes] = []
        async for piece in content:
            self._count_piece(piece)
            held.append(piece)
            if self.size > PART:
                await self._write_in_parts(held, content)
                return
        await self._bucket.put(self.key, b"".join(held))

    async def _write_in_parts(self, held: list[bytes], content: AsyncIterator[bytes]) -> None:
        bucket = self._bucket
        file = await bucket.open_writer(self.key)
        try:
            while held:
                await bucket.run_in_thread(partial(file.write, held.pop(0)))
            async for piece in content:
                self._count_piece(piece)
                await bucket.run_in_thread(partial(file.write, piece))
            await bucket.run_in_thread(file.close)
        except BaseException:
            # Incomplete parts would stay in the bucket, hidden and paid for; a complete object can be deleted.
            # If the server is failing, this may fail, too.
            with suppress(SkillError):
                if not file.closed():
                    await bucket.run_in_thread(file.close)
                await bucket.delete([self.key])
            raise

    def _count_piece(self, piece: bytes) -> None:
        self._digest.update(piece)
        self.size += len(piece)


ONE_DAY = timedelta(days=1)


@check_arguments
class S3ArtifactStore:
    """An `ArtifactStore` in a bucket, below `prefix`. `max_bytes` limits one artifact; for `config` see `S3Bucket`.

    The server has to support `If-None-Match: *`, which keeps version numbers unique; otherwise the first put raises
    `SkillError`. Raises `ArtifactsUnavailable` if the server cannot be reached.
    """

    def __init__(
        self, bucket: str, prefix: str = "", *, config: Mapping[str, str] | None = None, max_bytes: int = MAX_BYTES
    ) -> None:
        self._bucket = S3Bucket(bucket, prefix, config or {}, f"the artifact store s3://{bucket}/{prefix}")
        self._names = VersionIndex(self._bucket)
        self._max_bytes = max_bytes
        self._readable = False
        self._writable = False

    async def put(self, scope: Scope, name: str, data: Content, *, mime_type: str = BINARY) -> Artifact:
        """See `ArtifactStore.put`. Memory use does not depend on the size of streamed content."""
        name, mime_type = normalize_name(name), check_mime_type(mime_type)
        await self._prepare_to_write()
        upload = ContentUpload(self._bucket, f"{CONTENT}{uuid4().hex}")
        async with aclosing(split_content(data, limit=self._max_bytes)) as arriving:
            await upload.write(arriving)

        def build(version: int) -> VersionRecord:
            artifact = Artifact(name, version, upload.size, mime_type, upload.sha256, datetime.now(UTC))
            return VersionRecord(artifact, upload.key)

        return (await self._names.add(scope.owner(name), name, build)).artifact

    @asynccontextmanager
    async def open(self, scope: Scope, name: str, version: int | None = None) -> AsyncGenerator[ArtifactReader]:
        """See `ArtifactStore.open`. Content that was changed raises `SkillError` at its end."""
        name, version = normalize_name(name), check_version(version)
        await self._prepare_to_read()
        record = await self._names.select_version(scope.owner(name), name, version)
        async with aclosing(self._verify_chunks(record)) as chunks:
            yield ArtifactReader(record.artifact, chunks)

    async def list(self, scope: Scope) -> Sequence[Artifact]:
        await self._prepare_to_read()
        owners = (scope.session_owner, scope.user_owner)
        latest = [record.artifact for owner in owners for record in await self._names.list_latest(owner)]
        return tuple(sorted(latest, key=lambda artifact: artifact.name))

    async def versions(self, scope: Scope, name: str) -> Sequence[Artifact]:
        name = normalize_name(name)
        await self._prepare_to_read()
        return tuple(record.artifact for record in await self._names.versions(scope.owner(name), name))

    async def delete(self, scope: Scope, name: str) -> bool:
        """See `ArtifactStore.delete`. The bytes stay in the bucket until the next `sweep`."""
        name = normalize_name(name)
        await self._prepare_to_write()
        return await self._names.remove(scope.owner(name), name)

    async def sweep(self, *, older_than: timedelta = ONE_DAY) -> SweepResult:
        """Remove content that was deleted longer ago than `older_than`, or left by killed processes.

        Safe with any number of readers and writers, as long as no put or read takes longer than `older_than`.
        """
        await self._prepare_to_write()
        return await sweep_bucket(self._bucket, before=datetime.now(UTC) - older_than)

    async def _verify_chunks(self, record: VersionRecord) -> AsyncGenerator[bytes]:
        size, digest = 0, hashlib.sha256()
        try:
            async with aclosing(self._bucket.stream(record.content)) as chunks:
                async for chunk in chunks:
                    size += len(chunk)
                    digest.update(chunk)
                    yield chunk
        except FileNotFoundError:
            raise self._corruption_error(record) from None
        if (size, digest.hexdigest()) != (record.artifact.size, record.artifact.sha256):
            raise self._corruption_error(record)

    def _corruption_error(self, record: VersionRecord) -> SkillError:
        ref = record.artifact.ref
        message = f"{ref} is damaged: {record.content} in {self._bucket.place} is missing or was changed; restore it"
        return SkillError(message, ref=ref)

    async def _prepare_to_read(self) -> None:
        if not self._readable:
            await self._bucket.check_layout(FORMAT_KEY, FORMAT)
            self._readable = True

    async def _prepare_to_write(self) -> None:
        if not self._writable:
            await self._bucket.claim_layout(FORMAT_KEY, FORMAT, "two versions could get the same number")
            self._readable = self._writable = True
