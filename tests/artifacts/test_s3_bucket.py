"""Objects of a bucket, and what goes wrong with it, said without a secret."""

import asyncio
import traceback
from collections.abc import Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from openskills.artifacts.s3_bucket import PART, Bucket
from openskills.errors import ArtifactsUnavailable, InvalidArgument, SkillError
from openskills.sync import run
from tests.artifacts.buckets import bucket_of, config_of, keys, uploads
from tests.servers.s3 import CREDENTIALS, S3Server
from tests.servers.started import free_port

CONFIG = {"access_key_id": "AKTESTKEY", "secret_access_key": "the secret of tests", "region": "eu-central-1"}


def test_what_is_written_can_be_read_listed_and_removed(s3_server: S3Server) -> None:
    bucket = bucket_of(s3_server)

    async def use() -> None:
        await bucket.put("a/1", b"one")
        await bucket.put("a/2", b"two")
        await bucket.put("b/1", b"other")
        assert await bucket.read("a/1") == b"one"
        assert await bucket.read("a/3") is None
        assert await bucket.read_all(["a/2", "a/3", "b/1"]) == [b"two", None, b"other"]
        assert [(one.key, one.size) async for one in bucket.listed("a/")] == [("a/1", 3), ("a/2", 3)]
        await bucket.delete(["a/1", "a/3"])
        assert [one.key async for one in bucket.listed("")] == ["a/2", "b/1"]

    run(use())


def test_of_many_who_create_a_key_at_once_one_does(s3_server: S3Server) -> None:
    bucket = bucket_of(s3_server)

    async def create() -> list[bool]:
        return await asyncio.gather(*(bucket.create("key", b"%d" % number) for number in range(12)))

    won = run(create())
    assert won.count(True) == 1
    assert run(bucket.read("key")) == b"%d" % won.index(True)


@pytest.mark.slow
def test_a_listing_of_more_than_a_page_is_whole_and_in_order(s3_server: S3Server) -> None:
    bucket = bucket_of(s3_server)

    async def fill_and_list() -> list[str]:
        for start in range(0, 1005, 15):
            await asyncio.gather(*(bucket.put(f"k/{start + number:04}", b"") for number in range(15)))
        return [one.key async for one in bucket.listed("k/")]

    assert run(fill_and_list()) == [f"k/{number:04}" for number in range(1005)]


def test_what_is_written_in_parts_is_whole_when_it_is_closed_and_nothing_when_it_is_withdrawn(
    s3_server: S3Server,
) -> None:
    name = s3_server.new_bucket()
    bucket = bucket_of(s3_server, name)

    async def write(*, withdraw: bool) -> None:
        writer = await bucket.writer("large")
        for number in range(20):
            await writer.write(bytes([number]) * (PART // 10))
        await (writer.withdraw() if withdraw else writer.close())

    async def read() -> list[bytes]:
        return [piece async for piece in bucket.stream("large")]

    run(write(withdraw=True))
    assert (keys(s3_server, name), uploads(s3_server, name)) == ([], 0)
    run(write(withdraw=False))
    pieces = run(read())
    assert b"".join(pieces) == b"".join(bytes([number]) * (PART // 10) for number in range(20))
    assert max(map(len, pieces)) <= 1024 * 1024


def test_what_is_not_there_is_said_before_anything_is_read(s3_server: S3Server) -> None:
    async def read() -> list[bytes]:
        return [piece async for piece in bucket_of(s3_server).stream("nothing")]

    with pytest.raises(FileNotFoundError):
        run(read())


@pytest.mark.parametrize(
    ("changes", "bucket", "kind", "said"),
    [
        ({}, "nowhere", SkillError, "the place: there is no such bucket; make it first"),
        ({"endpoint": "http://127.0.0.1:{free}"}, None, ArtifactsUnavailable, "the place cannot be reached, or failed"),
        ({"unknown": "x"}, None, InvalidArgument, "the options in its address are not understood"),
    ],
)
def test_what_goes_wrong_is_said_without_the_secret(
    s3_server: S3Server, changes: Mapping[str, str], bucket: str | None, kind: type[SkillError], said: str
) -> None:
    given = {name: value.format(free=free_port()) for name, value in changes.items()}
    broken = Bucket(bucket or s3_server.new_bucket(), "", {**config_of(s3_server), **given}, "the place")
    with pytest.raises(kind, match=said) as raised:
        run(broken.create("x", b""))
    whole_story = "".join(traceback.format_exception(raised.value))
    assert not any(secret in whole_story for secret in CREDENTIALS.values())
    assert len(str(raised.value)) < 700


@contextmanager
def answering(status: int, body: bytes) -> Generator[str]:
    """A server that says the same to everybody."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the name that it has there
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    with server, ThreadPoolExecutor(1) as thread:
        serving = thread.submit(server.serve_forever)
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        serving.result()


@pytest.mark.parametrize(
    ("status", "code", "kind", "said"),
    [
        (403, b"AccessDenied", SkillError, "the place refuses: .*check the credentials, and what they allow"),
        (401, b"Unauthorized", SkillError, "the place refuses: .*check the credentials, and what they allow"),
        (400, b"ExpiredToken", ArtifactsUnavailable, "the place cannot be reached, or failed: .*ExpiredToken"),
        (503, b"SlowDown", ArtifactsUnavailable, "the place cannot be reached, or failed: .*; try again"),
    ],
)
def test_what_the_server_refuses_is_told_from_what_passes(
    status: int, code: bytes, kind: type[SkillError], said: str
) -> None:
    with answering(status, b"<Error><Code>" + code + b"</Code></Error>") as endpoint:
        bucket = Bucket("bucket", "", {**CONFIG, "endpoint": endpoint}, "the place")
        with pytest.raises(kind, match=said) as raised:
            run(bucket.read("x"))
    assert raised.type is kind
    assert not any(secret in "".join(traceback.format_exception(raised.value)) for secret in CREDENTIALS.values())
