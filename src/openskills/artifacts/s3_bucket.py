"""A bucket of an S3-compatible server: its objects, and what can go wrong. Needs the extra `s3`."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

from openskills.artifacts.content import PIECE
from openskills.artifacts.s3_keys import Found
from openskills.artifacts.unavailable import ArtifactsUnavailable
from openskills.errors import InvalidArgument, MissingExtra, SkillError

if TYPE_CHECKING:
    from obstore.store import ObjectStore

PART = 8 * 1024 * 1024
"""How much goes into one request: what is larger goes in parts of this size."""

_PARTS_AT_ONCE = 2
_REQUESTS_AT_ONCE = 16
_LISTED_AT_ONCE = 1000
_RETRIES = 3


class Bucket:
    """One bucket, below a prefix. `place` names it in errors. It may be used from any loop.

    `config` is what obstore calls so: `region`, `endpoint`, `access_key_id`, `secret_access_key` and others; what is
    not in it is found as AWS's own tools do.
    """

    def __init__(self, bucket: str, prefix: str, config: Mapping[str, str], place: str) -> None:
        self.place = place
        self._bucket = bucket
        self._prefix = prefix
        self._config = dict(config)
        self._opened: ObjectStore | None = None

    async def create(self, key: str, data: bytes) -> bool:
        """Write an object that is not there yet, in one step; false when it is."""
        with _translated(self.place):
            try:
                await _obstore().put_async(self._store(), key, data, mode="create")
            except _obstore().exceptions.AlreadyExistsError:
                return False
        return True

    async def put(self, key: str, data: bytes | AsyncIterable[bytes]) -> None:
        """Write an object. What comes in pieces goes in parts, and is there as a whole or not at all."""
        whole = isinstance(data, bytes)
        with _translated(self.place):
            await _obstore().put_async(
                self._store(), key, data, use_multipart=not whole, chunk_size=PART, max_concurrency=_PARTS_AT_ONCE
            )

    async def read(self, key: str) -> bytes | None:
        """A small object; None when it is not there."""
        with _translated(self.place):
            try:
                found = await _obstore().get_async(self._store(), key)
                return bytes(await found.bytes_async())
            except FileNotFoundError as error:
                _expect_bucket(error)
                return None

    async def read_all(self, keys: Sequence[str]) -> list[bytes | None]:
        """Many small objects, some at a time."""
        some = asyncio.Semaphore(_REQUESTS_AT_ONCE)

        async def one(key: str) -> bytes | None:
            async with some:
                return await self.read(key)

        return list(await asyncio.gather(*(one(key) for key in keys)))

    async def stream(self, key: str) -> AsyncGenerator[bytes]:
        """The bytes of an object, in pieces of at most 1 MiB. Raises `FileNotFoundError` when it is not there."""
        with _translated(self.place):
            try:
                found = await _obstore().get_async(self._store(), key)
            except FileNotFoundError as error:
                _expect_bucket(error)
                raise
        chunks = found.stream(min_chunk_size=PIECE)
        while True:
            with _translated(self.place):
                chunk = await anext(chunks, None)
            if chunk is None:
                return
            whole = bytes(chunk)
            for start in range(0, len(whole), PIECE):
                yield whole[start : start + PIECE]

    async def keys(self, prefix: str) -> AsyncGenerator[Found]:
        """The objects whose keys begin so, in the order of their keys."""
        with _translated(self.place):
            pages = _obstore().list(self._store(), prefix=prefix, chunk_size=_LISTED_AT_ONCE)
        while True:
            with _translated(self.place):
                page = await anext(pages, None)
            if page is None:
                return
            for entry in page:
                yield Found(entry["path"], entry["last_modified"], entry["size"])

    async def delete(self, keys: Sequence[str]) -> None:
        """Remove objects; those that are not there are no fault."""
        for start in range(0, len(keys), _LISTED_AT_ONCE):
            with _translated(self.place):
                await _obstore().delete_async(self._store(), list(keys[start : start + _LISTED_AT_ONCE]))

    def _store(self) -> "ObjectStore":
        if self._opened is None:
            store = _obstore().store
            try:
                self._opened = store.S3Store(
                    self._bucket,
                    prefix=self._prefix or None,
                    config=self._config,
                    client_options={"allow_http": True, "connect_timeout": "10s", "timeout": "300s"},
                    retry_config={"max_retries": _RETRIES},
                )
            except (_obstore().exceptions.BaseError, ValueError) as error:
                # Not what obstore says: it repeats what it was given, secrets too.
                raise InvalidArgument("url", f"{self.place} cannot be used: {type(error).__name__}") from None
        return cast("ObjectStore", self._opened)


def _obstore() -> Any:
    try:
        import obstore
        import obstore.exceptions
        import obstore.store
    except ImportError:
        raise MissingExtra("s3", "an artifact store in a bucket") from None
    return obstore


@contextmanager
def _translated(place: str) -> Generator[None]:
    """A block that raises `SkillError` for what the server says, or when it cannot be reached."""
    errors = _obstore().exceptions
    try:
        yield
    except (errors.PermissionDeniedError, errors.UnauthenticatedError) as error:
        message = f"{place} refuses: {_said(error)}; check the credentials and what they may do"
        raise SkillError(message, store=place) from None
    except _NoBucket as error:
        raise SkillError(f"{place} has no such bucket; make it first", store=place) from error
    except errors.NotSupportedError as error:
        raise SkillError(f"{place} cannot do what is needed: {_said(error)}", store=place) from None
    except errors.BaseError as error:
        message = f"{place} cannot be reached, or failed: {_said(error)}; try again"
        raise ArtifactsUnavailable(message, store=place) from None
