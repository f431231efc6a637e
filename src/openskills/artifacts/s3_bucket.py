"""A bucket of an S3-compatible server: its objects, and what can go wrong. Needs the extra `s3`."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from openskills.artifacts.content import PIECE
from openskills.artifacts.s3_keys import Found
from openskills.artifacts.threads import to_the_end
from openskills.errors import ArtifactsUnavailable, InvalidArgument, MissingExtra, SkillError

PART = 8 * 1024 * 1024
"""What is larger than this goes in parts of this size."""

_PARTS_AT_ONCE = 2
_READS_AT_ONCE = 16
_LISTED_AT_ONCE = 1000
# A large object may take long, as long as something of it arrives.
_TIMES = {"connect_timeout": "10s", "read_timeout": "60s", "timeout": "3600s"}
_RETRIES = 3


class Bucket:
    """One bucket, below a prefix. `place` names it in errors. It may be used from any loop.

    `config` is what obstore calls so: `region`, `endpoint`, `access_key_id`, `secret_access_key` and others; what is
    not in it is found as AWS's own tools find it.
    """

    def __init__(self, bucket: str, prefix: str, config: Mapping[str, str], place: str) -> None:
        self.place = place
        self._bucket = bucket
        self._prefix = prefix
        self._config = dict(config)
        self._opened: Any = None

    async def create(self, key: str, data: bytes) -> bool:
        """Write an object that is not there yet, in one step; false when it is there."""
        obstore = _obstore()

        def put() -> bool:
            try:
                obstore.put(self._store(), key, data, mode="create")
            except obstore.exceptions.AlreadyExistsError:
                return False
            return True

        return await self.do(put)

    async def put(self, key: str, data: bytes) -> None:
        """Write an object in one request."""
        await self.do(lambda: _obstore().put(self._store(), key, data, use_multipart=False))

    async def writer(self, key: str) -> "Writer":
        """Write an object in parts."""
        return Writer(self, key, await self.do(lambda: self._open_writer(key)))

    async def read(self, key: str) -> bytes | None:
        """A small object; None when it is not there."""
        try:
            return await self.do(lambda: bytes(_obstore().get(self._store(), key).bytes()))
        except FileNotFoundError:
            return None

    async def read_all(self, keys: Sequence[str]) -> Sequence[bytes | None]:
        """Many small objects, some at a time."""
        some = asyncio.Semaphore(_READS_AT_ONCE)

        async def one(key: str) -> bytes | None:
            async with some:
                return await self.read(key)

        return await asyncio.gather(*(one(key) for key in keys))

    async def stream(self, key: str) -> AsyncGenerator[bytes]:
        """The bytes of an object, in pieces of at most 1 MiB; raises `FileNotFoundError` when it is not there."""
        chunks = await self.do(lambda: iter(_obstore().get(self._store(), key).stream(min_chunk_size=PIECE)))
        while (chunk := await self.do(lambda: next(chunks, None))) is not None:
            whole = bytes(chunk)
            for start in range(0, len(whole), PIECE):
                yield whole[start : start + PIECE]

    async def listed(self, prefix: str) -> AsyncGenerator[Found]:
        """The objects whose keys begin so, in the order of their keys, a page at a time."""
        pages = await self.do(lambda: iter(_obstore().list(self._store(), prefix=prefix, chunk_size=_LISTED_AT_ONCE)))
        while (page := await self.do(lambda: next(pages, None))) is not None:
            for entry in page:
                yield Found(entry["path"], entry["last_modified"], entry["size"])

    async def delete(self, keys: Sequence[str]) -> None:
        """Remove objects; those that are not there are no fault."""
        for start in range(0, len(keys), _LISTED_AT_ONCE):
            some = [*keys[start : start + _LISTED_AT_ONCE]]
            await self.do(lambda some=some: _obstore().delete(self._store(), some))

    async def do(self, work: Callable[[], Any]) -> Any:
        """The one place where requests go to a thread, and where what obstore raises is translated.

        Not with obstore's own awaitables: a process that ends soon after one of them is sometimes aborted, because
        a thread of Rust comes back to an interpreter that is no more.
        """
        with self._translated():
            return await to_the_end(work)

    def _open_writer(self, key: str) -> Any:
        return _obstore().open_writer(self._store(), key, buffer_size=PART, max_concurrency=_PARTS_AT_ONCE)

    def _store(self) -> Any:
        if self._opened is None:
            obstore = _obstore()
            try:
                self._opened = obstore.store.S3Store(
                    self._bucket,
                    prefix=self._prefix or None,
                    config=self._config,
                    client_options={"allow_http": True, **_TIMES},
                    retry_config={"max_retries": _RETRIES},
                )
            except (obstore.exceptions.BaseError, ValueError):
                # Not with what obstore says: it repeats what it was given.
                raise InvalidArgument("url", f"{self.place}: the options in its address are not understood") from None
        return self._opened

    @contextmanager
    def _translated(self) -> Generator[None]:
        """A block that raises `SkillError` for what the server says, or when it cannot be reached."""
        errors = _obstore().exceptions
        try:
            yield
        except FileNotFoundError as error:
            if "NoSuchBucket" not in str(error):
                raise
            raise SkillError(f"{self.place}: there is no such bucket; make it first", store=self.place) from None
        except (errors.PermissionDeniedError, errors.UnauthenticatedError) as error:
            message = f"{self.place} refuses: {_said(error)}; check the credentials, and what they allow"
            raise SkillError(message, store=self.place) from None
        except errors.NotSupportedError as error:
            raise SkillError(f"{self.place} cannot do what is needed: {_said(error)}", store=self.place) from None
        except errors.BaseError as error:
            message = f"{self.place} cannot be reached, or failed: {_said(error)}; try again"
            raise ArtifactsUnavailable(message, store=self.place) from None


class Writer:
    """An object that is being written in parts; it is there when it was closed."""

    def __init__(self, bucket: Bucket, key: str, file: Any) -> None:
        self._bucket = bucket
        self._key = key
        self._file = file
        self._closed = False

    async def write(self, piece: bytes) -> None:
        """Add a piece; waits when the server is slower than who writes."""
        await self._bucket.do(lambda: self._file.write(piece))

    async def close(self) -> None:
        """Make the object of what was written."""
        await self._bucket.do(self._close)

    async def withdraw(self) -> None:
        """Leave nothing behind."""
        # Parts of which nothing becomes would stay, unseen and paid for. So they become an object, and that goes.
        await self._bucket.do(self._close)
        await self._bucket.delete([self._key])

    def _close(self) -> None:
        if not self._closed:
            self._file.close()
            self._closed = True


def _said(error: BaseException) -> str:
    """What a server or the network said, without the pages that obstore adds for its own authors."""
    return " ".join(str(error).partition("\n\nDebug source:")[0].split())[:400]


def _obstore() -> Any:
    try:
        import obstore
    except ImportError:
        raise MissingExtra("s3", "an artifact store in a bucket") from None
    return obstore
