"""Content arrives whole, or nothing of it does."""

import asyncio
import hashlib
from collections.abc import AsyncGenerator

import pytest

from openskills.artifacts.s3_bucket import PART
from openskills.artifacts.s3_upload import Upload
from openskills.errors import SkillError
from openskills.sync import run
from openskills.testing.contents import ContentFailed
from tests.artifacts.buckets import bucket_of, keys, uploads
from tests.servers.s3 import S3Server

PIECES = 40


async def content(size: int, *, fail: bool = False) -> AsyncGenerator[bytes]:
    data = bytes(range(256)) * (size // 256 + 1)
    step = max(size // PIECES, 1)
    for start in range(0, size, step):
        yield data[start : min(start + step, size)]
    if fail:
        raise ContentFailed


@pytest.mark.parametrize("size", [0, 1, PART - 1, PART, PART + 1, 3 * PART + 5])
def test_content_of_any_size_arrives_whole_with_its_digest(s3_server: S3Server, size: int) -> None:
    bucket = bucket_of(s3_server)
    upload = Upload(bucket, "x")
    run(upload.take(content(size)))
    data = run(bucket.read("x"))
    assert data is not None
    assert (upload.size, upload.sha256) == (size, hashlib.sha256(data).hexdigest())
    assert data == (bytes(range(256)) * (size // 256 + 1))[:size]


@pytest.mark.parametrize("size", [10, 2 * PART])
def test_content_that_fails_leaves_nothing(s3_server: S3Server, size: int) -> None:
    name = s3_server.new_bucket()
    with pytest.raises(ContentFailed):
        run(Upload(bucket_of(s3_server, name), "x").take(content(size, fail=True)))
    assert (keys(s3_server, name), uploads(s3_server, name)) == ([], 0)


@pytest.mark.parametrize("pieces", [PIECES // 10, PIECES - 1])
def test_an_upload_that_is_cancelled_leaves_nothing(s3_server: S3Server, pieces: int) -> None:
    name = s3_server.new_bucket()

    async def cancel() -> bool:
        reached = asyncio.Event()

        async def waiting() -> AsyncGenerator[bytes]:
            number = 0
            async for piece in content(4 * PART):
                number += 1
                if number > pieces:
                    reached.set()
                    await asyncio.Event().wait()
                yield piece

        task = asyncio.ensure_future(Upload(bucket_of(s3_server, name), "x").take(waiting()))
        await reached.wait()
        task.cancel()
        await asyncio.wait([task])
        return task.cancelled()

    assert run(cancel())
    assert (keys(s3_server, name), uploads(s3_server, name)) == ([], 0)


def test_a_server_that_fails_in_the_middle_ends_the_upload(s3_server: S3Server) -> None:
    asked: list[int] = []

    async def endless() -> AsyncGenerator[bytes]:
        while True:
            asked.append(1)
            yield b"x" * PART

    with pytest.raises(SkillError, match="no such bucket"):
        run(Upload(bucket_of(s3_server, "nowhere"), "x").take(endless()))
    assert len(asked) < 20
