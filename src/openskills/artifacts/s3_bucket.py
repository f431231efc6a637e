"""A bucket of an S3-compatible server: its objects, and what can go wrong. Needs the extra `s3`."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from openskills.artifacts.content import PIECE
from openskills.artifacts.s3_keys import Found
from openskills.artifacts.unavailable import ArtifactsUnavailable
from openskills.errors import InvalidArgument, MissingExtra, SkillError

PART = 8 * 1024 * 1024
"""What is larger than this goes in parts of this size."""

_PARTS_AT_ONCE = 2
_READS_AT_ONCE = 16
_LISTED_AT_ONCE = 1000
_TIMES = {"connect_timeout": "10s", "timeout": "300s"}
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
        with self._translated():
            try:
                await obstore.put_async(self._store(), key, data, mode="create")
            except obstore.exceptions.AlreadyExistsError:
                return False
        return True

    async def put(self, key: str, data: bytes) -> None:
        """Write an object in one request."""
        with self._translated():
            await _obstore().put_async(self._store(), key, data, use_multipart=False)

    async def put_in_parts(self, key: str, data: AsyncIterable[bytes]) -> None:
        """Write an object in parts. It is there as a whole; when `data` raises, nothing is left of it."""
        parts = {"use_multipart": True, "chunk_size": PART, "max_concurrency": _PARTS_AT_ONCE}
        with self._translated():
            await _obstore().put_async(self._store(), key, data, **parts)

    async def read(self, key: str) -> bytes | None:
        """A small object; None when it is not there."""
        try:
            with self._translated():
                found = await _obstore().get_async(self._store(), key)
                return bytes(await found.bytes_async())
        except FileNotFoundError:
            return None

    async def read_all(self, keys: Sequence[str]) -> list[bytes | None]:
        """Many small objects, some at a time."""
        some = asyncio.Semaphore(_READS_AT_ONCE)

        async def one(key: str) -> bytes | None:
            async with some:
                return await self.read(key)

        return list(await asyncio.gather(*(one(key) for key in keys)))

    async def stream(self, key: str) -> AsyncGenerator[bytes]:
        """The bytes of an object, in pieces of at most 1 MiB; raises `FileNotFoundError` when it is not there."""
        with self._translated():
            found = await _obstore().get_async(self._store(), key)
            chunks = found.stream(min_chunk_size=PIECE)
        while True:
            with self._translated():
                chunk = await anext(chunks, None)
            if chunk is None:
                return
            whole = bytes(chunk)
            for start in range(0, len(whole), PIECE):
                yield whole[start : start + PIECE]

    async def listed(self, prefix: str) -> AsyncGenerator[Found]:
        """The objects whose keys begin so, in the order of their keys, a page at a time."""
        with self._translated():
            pages = _obstore().list(self._store(), prefix=prefix, chunk_size=_LISTED_AT_ONCE)
        while True:
            with self._translated():
                page = await anext(pages, None)
            if page is None:
                return
            for entry in page:
                yield Found(entry["path"], entry["last_modified"], entry["size"])

    async def delete(self, keys: Sequence[str]) -> None:
        """Remove objects; those that are not there are no fault."""
        for start in range(0, len(keys), _LISTED_AT_ONCE):
            with self._translated():
                await _obstore().delete_async(self._store(), [*keys[start : start + _LISTED_AT_ONCE]])

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


def _said(error: BaseException) -> str:
    """What a server or the network said, without the pages that obstore adds for its own authors."""
    return " ".join(str(error).partition("\n\nDebug source:")[0].split())[:400]


def _obstore() -> Any:
    try:
        import obstore
    except ImportError:
        raise MissingExtra("s3", "an artifact store in a bucket") from None
    return obstore
