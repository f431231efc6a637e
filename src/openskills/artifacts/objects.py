"""Object stores: bytes by name, in a directory or in an S3-compatible bucket (`OPENSKILL_STORAGE`).

For data that several machines share, such as saved workspaces and uploaded skills. An object appears whole or not at
all, and `create` never replaces one: that is what callers build locks, versions and fencing on.

DIRECTORY/objects/NAME       an object; files that are still being written are in DIRECTORY/arriving
PREFIX/objects/NAME          an object in a bucket, with PREFIX/arriving, too; PREFIX/storage-format is its version
"""

import os
import re
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, aclosing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar
from uuid import uuid4

from openskills.arguments import check_arguments
from openskills.artifacts.s3 import ONE_DAY, PART, ContentUpload, S3Bucket
from openskills.artifacts.store import PIECE_BYTES, Content, split_content
from openskills.concurrency import run_in_thread
from openskills.errors import InvalidArgument, LimitExceeded
from openskills.filesystem import (
    build_store_error,
    create_unnamed,
    flush_directory,
    make_private,
    remove_orphans,
    write_all,
)

MAX_OBJECT_NAME = 700
MAX_OBJECT_BYTES = 5 * 1024**3
"""The most that a bucket can copy in one request."""
READ_LIMIT = 64 * 1024 * 1024

_SEGMENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._=-]{0,199}")
_OBJECTS, _ARRIVING = "objects", "arriving"
_FORMAT_KEY = "storage-format"
_FORMAT = b"openskills storage 1 in a bucket\n"
_TRIES = 100

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """An object in a listing; `updated` is when it was written."""

    name: str
    size: int
    updated: datetime


class ObjectStore(Protocol):
    """Bytes by name. A name is one or more segments of letters, digits, `.`, `_`, `=` and `-`, joined with slashes.

    Every method raises `InvalidArgument` for another name, and `SkillError` if the storage cannot be used. A store may
    be used from many tasks, threads and event loops. No name may continue another one: `a` and `a/b`.
    """

    @property
    def place(self) -> str:
        """The name of the store in messages, without credentials."""
        ...

    async def put(self, name: str, data: Content) -> None:
        """Write an object atomically, replacing one of the same name. When it returns, the bytes are durable.

        Memory use does not depend on the size of streamed content; if that raises, nothing has changed.
        """
        ...

    async def create(self, name: str, data: bytes) -> bool:
        """Write an object atomically unless it exists; false, and nothing is changed, if it does.

        Of many calls at the same time, on all machines, one is true.
        """
        ...

    async def read(self, name: str, *, max_bytes: int = READ_LIMIT) -> bytes | None:
        """Read a small object; None if it does not exist. Raises `LimitExceeded` if it has more than `max_bytes`."""
        ...

    def stream(self, name: str) -> AsyncGenerator[bytes]:
        """Yield an object in pieces of at most 1 MiB. Raises `FileNotFoundError` if it does not exist."""
        ...

    async def list(self, prefix: str) -> Sequence[ObjectInfo]:
        """The objects below a prefix of whole segments (`skills` lists `skills/a`), sorted by name; all with `""`."""
        ...

    async def delete(self, names: Sequence[str]) -> None:
        """Remove objects; missing ones are ignored."""
        ...


def check_object_name(name: str, *, field: str = "name") -> str:
    """Return the name; raises `InvalidArgument` if it is not one of an object."""
    if len(name) > MAX_OBJECT_NAME or not all(_SEGMENT.fullmatch(part) for part in name.split("/")):
        raise InvalidArgument(
            field, f"invalid object name {name[:100]!r}; use segments of letters, digits and . _ = - such as skills/a1"
        )
    return name


async def read_object(store: ObjectStore, name: str, *, max_bytes: int) -> bytes | None:
    """Read an object with `ObjectStore.stream`; see `ObjectStore.read`."""
    data = bytearray()
    try:
        async with aclosing(store.stream(name)) as pieces:
            async for piece in pieces:
                data += piece
                if len(data) > max_bytes:
                    raise LimitExceeded(
                        f"{name} in {store.place} has more than {max_bytes:,} bytes; read it with stream()",
                        limit=max_bytes,
                    )
    except FileNotFoundError:
        return None
    return bytes(data)


@check_arguments
class DirectoryObjectStore:
    """An `ObjectStore` in a directory, created on first use. Several processes may use it; so may several machines if
    their file system has atomic links and renames, as NFS 4 does."""

    def __init__(self, root: Path | str) -> None:
        self._root = Path(root).absolute()
        self._objects = self._root / _OBJECTS
        self._arriving = self._root / _ARRIVING
        self._is_ready = False

    @property
    def place(self) -> str:
        return f"the storage {self._root}"

    async def put(self, name: str, data: Content) -> None:
        target = self._path(name)
        await self._run(self._prepare)
        async with aclosing(split_content(data, limit=MAX_OBJECT_BYTES)) as pieces:
            held = ExitStack()
            try:
                handle, path = await self._run(lambda: held.enter_context(create_unnamed(self._arriving)))
                async for piece in pieces:
                    await self._run(partial(write_all, handle, piece))
                await self._run(lambda: self._commit(handle, target, lambda: os.replace(path, target)))
            finally:
                await self._run(held.close)

    async def create(self, name: str, data: bytes) -> bool:
        target = self._path(name)

        def create() -> bool:
            self._prepare()
            with create_unnamed(self._arriving) as (handle, path):
                write_all(handle, data)
                try:
                    # A link fails if the name exists, and has all its bytes from the start.
                    self._commit(handle, target, lambda: os.link(path, target))
                except FileExistsError:
                    return False
            return True

        return await self._run(create)

    async def read(self, name: str, *, max_bytes: int = READ_LIMIT) -> bytes | None:
        return await read_object(self, name, max_bytes=max_bytes)

    async def stream(self, name: str) -> AsyncGenerator[bytes]:
        path = self._path(name)
        try:
            handle = await self._run(lambda: os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), undo=os.close)
        except NotADirectoryError:
            raise FileNotFoundError(name) from None
        try:
            while piece := await self._run(lambda: os.read(handle, PIECE_BYTES)):
                yield piece
        finally:
            os.close(handle)

    async def list(self, prefix: str) -> Sequence[ObjectInfo]:
        top = self._path(prefix.rstrip("/"), field="prefix") if prefix else self._objects

        def find() -> Iterator[ObjectInfo]:
            for directory, _, files in os.walk(top):
                for file in files:
                    path = Path(directory, file)
                    with suppress(FileNotFoundError):  # removed meanwhile
                        status = path.lstat()
                        updated = datetime.fromtimestamp(status.st_mtime, UTC)
                        yield ObjectInfo(path.relative_to(self._objects).as_posix(), status.st_size, updated)

        return tuple(await self._run(lambda: sorted(find(), key=lambda info: info.name)))

    @check_arguments
    async def delete(self, names: Sequence[str]) -> None:
        paths = [self._path(name) for name in names]

        def delete() -> None:
            for path in paths:
                with suppress(FileNotFoundError, NotADirectoryError):
                    path.unlink()
                    for parent in path.relative_to(self._objects).parents[:-1]:
                        # Not empty: then its parents are not, either.
                        try:
                            (self._objects / parent).rmdir()
                        except OSError:
                            break

        await self._run(delete)

    def _path(self, name: str, *, field: str = "name") -> Path:
        return self._objects / check_object_name(name, field=field)

    def _prepare(self) -> None:
        if not self._is_ready:
            make_private(self._objects, durable=True)
            remove_orphans(make_private(self._arriving, durable=True))
            self._is_ready = True

    def _commit(self, handle: int, target: Path, move: Callable[[], None]) -> None:
        os.fsync(handle)
        for attempt in range(_TRIES):
            make_private(target.parent, durable=True)
            try:
                move()
                flush_directory(target.parent)
            except FileNotFoundError:
                # `delete` removed the directory when it was empty.
                if attempt == _TRIES - 1:
                    raise
            else:
                return

    async def _run(self, work: Callable[[], T], *, undo: Callable[[T], object] | None = None) -> T:
        try:
            return await run_in_thread(work, undo=undo)
        except (FileNotFoundError, NotADirectoryError):
            raise
        except OSError as error:
            raise build_store_error(self._root, error, what="storage") from error


@check_arguments
class S3ObjectStore:
    """An `ObjectStore` in a bucket, below `prefix`; for `config` see `S3Bucket`. Needs the extra `s3`.

    The server has to support `If-None-Match: *`; otherwise the first write raises `SkillError`. Raises
    `ArtifactsUnavailable` if the server cannot be reached.
    """

    def __init__(self, bucket: str, prefix: str = "", *, config: Mapping[str, str] | None = None) -> None:
        self._bucket = S3Bucket(bucket, prefix, config or {}, f"the storage s3://{bucket}/{prefix}")
        self._is_writable = False

    @property
    def place(self) -> str:
        return self._bucket.place

    async def put(self, name: str, data: Content) -> None:
        key = _to_key(name)
        await self._prepare()
        if isinstance(data, bytes) and len(data) <= PART:
            await self._bucket.put(key, data)
            return
        # Under another key first: an upload in parts that fails would remove the object that is replaced.
        upload = ContentUpload(self._bucket, f"{_ARRIVING}/{uuid4().hex}")
        async with aclosing(split_content(data, limit=MAX_OBJECT_BYTES)) as pieces:
            await upload.write(pieces)
        await self._bucket.copy(upload.key, key)
        await self._bucket.delete([upload.key])

    async def create(self, name: str, data: bytes) -> bool:
        """See `ObjectStore.create`. After a lost response it may be false although this call created the object."""
        key = _to_key(name)
        await self._prepare()
        return await self._bucket.create(key, data)

    async def read(self, name: str, *, max_bytes: int = READ_LIMIT) -> bytes | None:
        return await read_object(self, name, max_bytes=max_bytes)

    async def stream(self, name: str) -> AsyncGenerator[bytes]:
        async with aclosing(self._bucket.stream(_to_key(name))) as pieces:
            async for piece in pieces:
                yield piece

    async def list(self, prefix: str) -> Sequence[ObjectInfo]:
        below = f"{_to_key(prefix.rstrip('/'))}/" if prefix else f"{_OBJECTS}/"
        found = await self._bucket.list_all(below)
        return tuple(ObjectInfo(one.key.removeprefix(f"{_OBJECTS}/"), one.size, one.at) for one in found)

    @check_arguments
    async def delete(self, names: Sequence[str]) -> None:
        await self._bucket.delete([_to_key(name) for name in names])

    async def _prepare(self) -> None:
        if self._is_writable:
            return
        # What processes that have died were uploading.
        before = datetime.now(UTC) - ONE_DAY
        arriving = await self._bucket.list_all(f"{_ARRIVING}/")
        await self._bucket.delete([one.key for one in arriving if one.at < before])
        await self._bucket.claim_layout(_FORMAT_KEY, _FORMAT, "two machines could both create an object")
        self._is_writable = True


def _to_key(name: str) -> str:
    return f"{_OBJECTS}/{check_object_name(name)}"
