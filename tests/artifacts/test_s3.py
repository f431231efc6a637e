"""Artifacts in a bucket keep what every store promises, between processes too.

Objects of a bucket, and what goes wrong with it, said without a secret.

Keys are in the order in which they are needed, and records come back as they were.

Numbers are given once, whoever else gives, deletes and sweeps at the same time.

A sweep takes what nobody refers to, and nothing else.

Content arrives whole, or nothing of it does.
"""

import asyncio
import hashlib
import subprocess
import sys
import traceback
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from uuid import uuid4

import pytest

from openskills.artifacts.files import SweepResult
from openskills.artifacts.s3 import (
    PART,
    ContentUpload,
    S3ArtifactStore,
    S3Bucket,
    S3Object,
    VersionIndex,
    VersionRecord,
    format_record,
    group_by_name,
    mark_key,
    name_prefix,
    owner_prefix,
    parse_record,
    partition_keys,
    record_key,
    select_undeleted,
    sweep_bucket,
)
from openskills.artifacts.store import Artifact, Scope, read_artifact
from openskills.errors import ArtifactsUnavailable, InvalidArgument, LimitExceeded, SkillError
from openskills.sync import run
from openskills.testing.checks import ContentError
from openskills.testing.stores import check_artifact_store
from tests.artifacts.buckets import bucket_of, config_of, keys, store_of, uploads
from tests.servers.s3 import CREDENTIALS, S3Server
from tests.servers.started import free_port

SCOPE = Scope("app", "user", "session")
PROCESSES, PUTS = 3, 6

WRITER = f"""
import sys
from openskills.artifacts.open import open_artifact_store
from openskills.artifacts.store import Scope
from openskills.settings import Settings
from openskills.sync import run

store = open_artifact_store(sys.argv[1], Settings.from_env())
print("ready", flush=True)
sys.stdin.readline()
for turn in range({PUTS}):
    content = f"process {{sys.argv[2]}} turn {{turn}}"
    print(run(store.put(Scope("app", "user", "session"), "raced", content.encode())).version, content, flush=True)
"""


async def test_it_keeps_every_promise_of_a_store(s3_server: S3Server) -> None:
    name = s3_server.new_bucket()
    await check_artifact_store(lambda: store_of(s3_server, name))


async def test_one_store_that_everybody_shares_keeps_them_too(s3_server: S3Server) -> None:
    shared = store_of(s3_server)
    await check_artifact_store(lambda: shared)


async def test_threads_and_processes_get_consecutive_versions(s3_server: S3Server) -> None:
    name = s3_server.new_bucket()
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, s3_server.url(name, "pre/fix"), str(number)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=dict(s3_server.environment),
        )
        for number in range(PROCESSES)
    ]
    for process in processes:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        assert process.stdin
        process.stdin.write("go\n")
        process.stdin.flush()
    shared = store_of(s3_server, name)
    with ThreadPoolExecutor(4) as threads:
        contents = [f"thread turn {turn}" for turn in range(PUTS)]
        putting = [threads.submit(asyncio.run, shared.put(SCOPE, "raced", one.encode())) for one in contents]
    made = [(one.result().version, content) for one, content in zip(putting, contents, strict=True)]
    for process in processes:
        out, _ = process.communicate(timeout=120)
        assert process.returncode == 0
        made += [(int(line.partition(" ")[0]), line.partition(" ")[2]) for line in out.splitlines()]
    assert sorted(version for version, _ in made) == list(range((PROCESSES + 1) * PUTS))
    for version, content in made:
        assert await read_artifact(shared, SCOPE, "raced", version) == content.encode()


@pytest.mark.slow
def test_64_mb_go_through_in_little_memory(s3_server: S3Server) -> None:
    program = """
import hashlib, resource, sys
from openskills.artifacts.open import open_artifact_store
from openskills.artifacts.store import Scope
from openskills.settings import Settings
from openskills.sync import run

scope = Scope("a", "u", "s")
store = open_artifact_store(sys.argv[1], Settings.from_env())

async def content(pieces):
    for number in range(pieces):
        yield number.to_bytes(4, "big") * 16384

async def there_and_back(pieces):
    made = await store.put(scope, "large", content(pieces))
    digest = hashlib.sha256()
    async with store.open(scope, "large") as reading:
        async for chunk in reading.chunks:
            digest.update(chunk)
    assert digest.hexdigest() == made.sha256
    return made.size

run(there_and_back(256))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
size = run(there_and_back(1024))
print(size, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""
    url = s3_server.url(s3_server.new_bucket())
    environment = dict(s3_server.environment)
    done = subprocess.run([sys.executable, "-c", program, url], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    size, megabytes = map(int, done.stdout.split())
    assert size == 64 * 1024 * 1024
    assert megabytes < 64


async def test_more_than_the_limit_is_refused_and_leaves_nothing(s3_server: S3Server) -> None:
    name = s3_server.new_bucket()
    store = S3ArtifactStore(name, config=config_of(s3_server), max_bytes=3_000_000)
    asked: list[int] = []

    async def endless() -> AsyncGenerator[bytes]:
        for number in count():
            asked.append(number)
            yield b"x" * 1_000_000

    with pytest.raises(LimitExceeded, match="the maximum is 3,000,000 per artifact"):
        await store.put(SCOPE, "a", endless())
    assert len(asked) == 4
    assert keys(s3_server, name) == ["format"]
    assert (await store.put(SCOPE, "a", b"x" * 3_000_000)).version == 0


async def test_content_that_somebody_changed_is_an_error_and_not_a_result(s3_server: S3Server) -> None:
    name = s3_server.new_bucket()
    store, bucket = store_of(s3_server, name), bucket_of(s3_server, name)
    await store.put(SCOPE, "a", b"hello")
    (content,) = [key.removeprefix("pre/fix/") for key in keys(s3_server, name) if "/content/" in key]
    await bucket.put(content, b"hellO")
    with pytest.raises(SkillError, match="artifact://a@0 is damaged: content/"):
        await read_artifact(store, SCOPE, "a")
    await bucket.delete([content])
    with pytest.raises(SkillError, match="is missing or was changed; restore it"):
        await read_artifact(store, SCOPE, "a")


async def test_a_server_that_ignores_conditions_is_refused_at_the_first_put(s3_server: S3Server) -> None:
    class Careless(S3Bucket):
        """What an old server does: it writes, whatever the condition says."""

        async def create(self, key: str, data: bytes) -> bool:
            await self.put(key, data)
            return True

    store = S3ArtifactStore("bucket")
    store._bucket = Careless(s3_server.new_bucket(), "", config_of(s3_server), "the place")  # pyright: ignore[reportPrivateUsage]
    with pytest.raises(SkillError, match=r"the place ignores 'If-None-Match: \*', so two versions could get the same"):
        await store.put(SCOPE, "a", b"x")


async def test_a_bucket_of_another_version_is_refused_and_left_alone(s3_server: S3Server) -> None:
    name = s3_server.new_bucket()
    await bucket_of(s3_server, name).put("format", b"openskills artifacts 2 in a bucket\n")
    store = store_of(s3_server, name)
    for call in (store.list(SCOPE), store.put(SCOPE, "a", b"x"), store.delete(SCOPE, "a"), store.sweep()):
        with pytest.raises(SkillError, match=r"was written by another version of OpenSkill: .*; use another prefix"):
            await call
    assert keys(s3_server, name) == ["pre/fix/format"]


async def test_two_prefixes_of_one_bucket_are_two_stores(s3_server: S3Server) -> None:
    name = s3_server.new_bucket()
    one, two = (S3ArtifactStore(name, prefix, config=config_of(s3_server)) for prefix in ("one", "one/two"))
    await one.put(SCOPE, "a", b"x")
    assert await two.list(SCOPE) == ()


CONFIG = {"access_key_id": "AKTESTKEY", "secret_access_key": "the secret of tests", "region": "eu-central-1"}


async def test_what_is_written_can_be_read_listed_and_removed(s3_server: S3Server) -> None:
    bucket = bucket_of(s3_server)

    await bucket.put("a/1", b"one")
    await bucket.put("a/2", b"two")
    await bucket.put("b/1", b"other")
    assert await bucket.read("a/1") == b"one"
    assert await bucket.read("a/3") is None
    assert await bucket.read_all(["a/2", "a/3", "b/1"]) == [b"two", None, b"other"]
    assert [(one.key, one.size) async for one in bucket.list_objects("a/")] == [("a/1", 3), ("a/2", 3)]
    await bucket.delete(["a/1", "a/3"])
    assert [one.key async for one in bucket.list_objects("")] == ["a/2", "b/1"]


async def test_of_many_who_create_a_key_at_once_one_does(s3_server: S3Server) -> None:
    bucket = bucket_of(s3_server)

    won = await asyncio.gather(*(bucket.create("key", b"%d" % number) for number in range(12)))
    assert won.count(True) == 1
    assert await bucket.read("key") == b"%d" % won.index(True)


@pytest.mark.slow
async def test_a_listing_of_more_than_a_page_is_whole_and_in_order(s3_server: S3Server) -> None:
    bucket = bucket_of(s3_server)

    for start in range(0, 1005, 15):
        await asyncio.gather(*(bucket.put(f"k/{start + number:04}", b"") for number in range(15)))

    assert [one.key async for one in bucket.list_objects("k/")] == [f"k/{number:04}" for number in range(1005)]


async def test_what_is_written_in_parts_is_whole_when_it_is_closed_and_nothing_when_it_is_withdrawn(
    s3_server: S3Server,
) -> None:
    name = s3_server.new_bucket()
    bucket = bucket_of(s3_server, name)

    async def write(*, withdraw: bool) -> None:
        async def pieces() -> AsyncGenerator[bytes]:
            for number in range(20):
                yield bytes([number]) * (PART // 10)
            if withdraw:
                raise EOFError

        await ContentUpload(bucket, "large").write(pieces())

    with pytest.raises(EOFError):
        await write(withdraw=True)
    assert (keys(s3_server, name), uploads(s3_server, name)) == ([], 0)
    await write(withdraw=False)
    pieces = [piece async for piece in bucket.stream("large")]
    assert b"".join(pieces) == b"".join(bytes([number]) * (PART // 10) for number in range(20))
    assert max(map(len, pieces)) <= 1024 * 1024


async def test_what_is_not_there_is_said_before_anything_is_read(s3_server: S3Server) -> None:
    async def read() -> list[bytes]:
        return [piece async for piece in bucket_of(s3_server).stream("nothing")]

    with pytest.raises(FileNotFoundError):
        await read()


@pytest.mark.parametrize(
    ("changes", "bucket", "kind", "said"),
    [
        ({}, "nowhere", SkillError, "the place: the bucket does not exist; create it first"),
        ({"endpoint": "http://127.0.0.1:{free}"}, None, ArtifactsUnavailable, "the place failed or cannot be reached"),
        ({"unknown": "x"}, None, InvalidArgument, "invalid options in its URL"),
    ],
)
async def test_what_goes_wrong_is_said_without_the_secret(
    s3_server: S3Server, changes: Mapping[str, str], bucket: str | None, kind: type[SkillError], said: str
) -> None:
    given = {name: value.format(free=free_port()) for name, value in changes.items()}
    broken = S3Bucket(bucket or s3_server.new_bucket(), "", {**config_of(s3_server), **given}, "the place")
    with pytest.raises(kind, match=said) as raised:
        await broken.create("x", b"")
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
        (403, b"AccessDenied", SkillError, "the place: access denied: .*check the credentials and permissions"),
        (401, b"Unauthorized", SkillError, "the place: access denied: .*check the credentials and permissions"),
        (400, b"ExpiredToken", ArtifactsUnavailable, "the place failed or cannot be reached: .*ExpiredToken"),
        (503, b"SlowDown", ArtifactsUnavailable, "the place failed or cannot be reached: .*; try again"),
    ],
)
async def test_what_the_server_refuses_is_told_from_what_passes(
    status: int, code: bytes, kind: type[SkillError], said: str
) -> None:
    with answering(status, b"<Error><Code>" + code + b"</Code></Error>") as endpoint:
        bucket = S3Bucket("bucket", "", {**CONFIG, "endpoint": endpoint}, "the place")
        with pytest.raises(kind, match=said) as raised:
            await bucket.read("x")
    assert raised.type is kind
    assert not any(secret in "".join(traceback.format_exception(raised.value)) for secret in CREDENTIALS.values())


AT = datetime(2026, 1, 31, tzinfo=UTC)
OWNER = ("app", "erika", "s1")
PREFIX = name_prefix(OWNER, "a/b")


def found(*keys: str) -> list[S3Object]:
    """What a bucket lists: keys in their order."""
    return [S3Object(key, AT) for key in sorted(keys)]


def test_the_latest_version_is_listed_first() -> None:
    listed = found(*(record_key(PREFIX, version) for version in (0, 1, 9, 10, 99, 100, 12345)))
    assert [one.version for one in listed] == [12345, 100, 99, 10, 9, 1, 0]


def test_a_mark_comes_before_what_it_covers_and_after_what_is_newer() -> None:
    listed = found(*(record_key(PREFIX, version) for version in range(5)), mark_key(PREFIX, 2))
    assert [(one.version, one.is_mark) for one in listed] == [
        (4, False),
        (3, False),
        (2, True),
        (2, False),
        (1, False),
        (0, False),
    ]
    assert [one.version for one in select_undeleted(listed)] == [4, 3]


def test_everything_before_the_latest_mark_is_deleted() -> None:
    listed = found(mark_key(PREFIX, 1), mark_key(PREFIX, 4), record_key(PREFIX, 3), record_key(PREFIX, 0))
    assert select_undeleted(listed) == []
    assert listed[0].version == 4


def test_the_keys_of_names_are_told_apart() -> None:
    other = name_prefix(OWNER, "a/c")
    listed = found(record_key(PREFIX, 0), record_key(other, 0), record_key(PREFIX, 1))
    assert sorted([one.version for one in keys] for keys in group_by_name(listed)) == [[0], [1, 0]]
    assert PREFIX.startswith(owner_prefix(OWNER))


def test_ids_and_names_are_never_part_of_a_key() -> None:
    key = record_key(name_prefix(("..", "a/b", "图"), "../../x"), 0)
    assert set(key) <= set("names/0123456789abcdef-r")
    assert len(key) < 200


def test_a_record_comes_back_as_it_was() -> None:
    record = VersionRecord(Artifact("图/a b", 3, 5, "image/png", "0" * 64, AT), "content/x")
    assert parse_record(format_record(record, OWNER), "key") == record


@pytest.mark.parametrize("text", [b"", b"x", b"[]", b"{}", b'{"name": 1}', b"\xff"])
def test_a_damaged_record_is_named(text: bytes) -> None:
    with pytest.raises(SkillError, match="the artifact store record names/x is damaged"):
        parse_record(text, "names/x")


S3_NAMES_PREFIX = name_prefix(OWNER, "a")
LATER = datetime.now(UTC) + timedelta(days=1)


def record(version: int, content: str | None = None) -> VersionRecord:
    """A record like those of puts: each has content of its own."""
    content = content or f"content/{uuid4().hex}"
    return VersionRecord(Artifact("a", version, 1, "text/plain", "0" * 64, datetime(2026, 1, 1, tzinfo=UTC)), content)


def numbers(names: VersionIndex) -> list[int]:
    return [one.artifact.version for one in run(names.versions(OWNER, "a"))]


async def test_numbers_go_on_after_everything_was_deleted_and_swept(s3_server: S3Server) -> None:
    bucket = bucket_of(s3_server)
    names = VersionIndex(bucket)
    for _ in range(3):
        await names.add(OWNER, "a", record)
    assert await names.remove(OWNER, "a")
    assert not await names.remove(OWNER, "a")
    await sweep_bucket(bucket, before=LATER)
    assert numbers(names) == []
    assert (await names.add(OWNER, "a", record)).artifact.version == 3
    assert numbers(names) == [3]
    with pytest.raises(InvalidArgument, match="'a' has no version 2; it has 3"):
        await names.select_version(OWNER, "a", 2)


async def test_who_was_late_gets_a_number_that_was_never_used(s3_server: S3Server) -> None:
    bucket = bucket_of(s3_server)
    names = VersionIndex(bucket)
    await names.add(OWNER, "a", record)
    given: list[int] = []

    def late(version: int) -> VersionRecord:
        given.append(version)
        if len(given) == 1:
            # Between the choice of a number and its record, others use it, delete it, sweep, and go on.
            in_another_loop(others)
        return record(version, "content/late")

    async def others() -> None:
        for _ in range(3):
            await names.add(OWNER, "a", record)
        await names.remove(OWNER, "a")
        await sweep_bucket(bucket, before=LATER)
        await names.add(OWNER, "a", record)

    assert (await names.add(OWNER, "a", late)).artifact.version == 5
    assert given == [1, 5]
    assert numbers(names) == [4, 5]


def in_another_loop(work: Callable[[], Awaitable[None]]) -> None:
    async def begun() -> None:
        await work()

    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, begun()).result()


async def test_a_record_that_arrived_although_its_answer_was_lost_is_not_written_twice(s3_server: S3Server) -> None:
    bucket = bucket_of(s3_server)
    names = VersionIndex(bucket)
    await bucket.create(record_key(S3_NAMES_PREFIX, 0), format_record(record(0, "content/mine"), OWNER))

    async def claim(mine: VersionRecord) -> bool:
        return await names._try_create(S3_NAMES_PREFIX, mine, OWNER)  # pyright: ignore[reportPrivateUsage]

    assert await claim(record(0, "content/mine"))
    assert not await claim(record(0, "content/of-another"))


async def test_of_many_who_delete_at_once_one_is_told_that_there_was_something(s3_server: S3Server) -> None:
    names = VersionIndex(bucket_of(s3_server))
    await names.add(OWNER, "a", record)

    assert (await asyncio.gather(*(names.remove(OWNER, "a") for _ in range(8)))).count(True) == 1


async def test_putting_and_deleting_at_once_never_uses_a_number_twice(s3_server: S3Server) -> None:
    bucket = bucket_of(s3_server)
    names = VersionIndex(bucket)

    async def put_and_delete(turn: int) -> list[int]:
        given = [(await names.add(OWNER, "a", record)).artifact.version for _ in range(4)]
        if turn % 2:
            await names.remove(OWNER, "a")
            await sweep_bucket(bucket, before=LATER)
        return given

    done = await asyncio.gather(*(put_and_delete(turn) for turn in range(6)))
    given = [version for one in done for version in one]
    assert len(set(given)) == 24
    # One that was deleted before its put had ended was put again.
    assert max(given) >= 23
    assert (await names.add(OWNER, "a", record)).artifact.version > max(given)


NOW = datetime(2026, 1, 31, tzinfo=UTC)
OLD, YOUNG = NOW - timedelta(days=2), NOW
BEFORE = NOW - timedelta(days=1)
NONE = timedelta(seconds=-5)
"""So that what was written in this second is old, too."""


def listed(*entries: tuple[str, datetime]) -> list[S3Object]:
    return sorted((S3Object(key, at) for key, at in entries), key=lambda one: one.key)


def test_what_was_never_deleted_stays() -> None:
    found = listed((record_key("p/", 0), OLD), (record_key("p/", 1), OLD))
    assert partition_keys(found, before=BEFORE) == (found, [])


def test_of_what_was_deleted_long_ago_only_the_latest_mark_stays() -> None:
    found = listed(
        (record_key("p/", 3), YOUNG),
        (mark_key("p/", 2), OLD),
        (record_key("p/", 2), OLD),
        (mark_key("p/", 1), OLD),
        (record_key("p/", 0), OLD),
    )
    kept, gone = partition_keys(found, before=BEFORE)
    assert [one.key for one in kept] == [record_key("p/", 3)]
    assert [one.key for one in gone] == [record_key("p/", 2), mark_key("p/", 1), record_key("p/", 0)]


def test_what_was_deleted_lately_stays_for_those_who_are_reading_it() -> None:
    found = listed((mark_key("p/", 1), YOUNG), (record_key("p/", 1), OLD), (record_key("p/", 0), OLD))
    kept, gone = partition_keys(found, before=BEFORE)
    assert [one.key for one in kept] == [record_key("p/", 1), record_key("p/", 0)]
    assert gone == []


async def test_sweeping_a_bucket_removes_deleted_and_orphaned_content(s3_server: S3Server) -> None:
    name, scope = s3_server.new_bucket(), Scope("app", "erika", "s1")
    store = store_of(s3_server, name)
    for artifact, content in (("a", b"first"), ("a", b"second"), ("b", b"kept")):
        await store.put(scope, artifact, content)
    await bucket_of(s3_server, name).put("content/orphan", b"of a killed process")
    await store.delete(scope, "a")
    assert await store.sweep() == SweepResult(0, 0), "something young was taken"
    assert await store.sweep(older_than=NONE) == SweepResult(
        3, len(b"first") + len(b"second") + len(b"of a killed process")
    )
    assert await store.sweep(older_than=NONE) == SweepResult(0, 0)
    assert await read_artifact(store, scope, "b") == b"kept"
    # The format, the content and the record of b, and the mark of a.
    assert len(keys(s3_server, name)) == 4
    assert (await store.put(scope, "a", b"third")).version == 2


PIECES = 40


async def content(size: int, *, fail: bool = False) -> AsyncGenerator[bytes]:
    data = bytes(range(256)) * (size // 256 + 1)
    step = max(size // PIECES, 1)
    for start in range(0, size, step):
        yield data[start : min(start + step, size)]
    if fail:
        raise ContentError


@pytest.mark.parametrize("size", [0, 1, PART - 1, PART, PART + 1, 3 * PART + 5])
async def test_content_of_any_size_arrives_whole_with_its_digest(s3_server: S3Server, size: int) -> None:
    bucket = bucket_of(s3_server)
    upload = ContentUpload(bucket, "x")
    await upload.write(content(size))
    data = await bucket.read("x")
    assert data is not None
    assert (upload.size, upload.sha256) == (size, hashlib.sha256(data).hexdigest())
    assert data == (bytes(range(256)) * (size // 256 + 1))[:size]


@pytest.mark.parametrize("size", [10, 2 * PART])
async def test_content_that_fails_leaves_nothing(s3_server: S3Server, size: int) -> None:
    name = s3_server.new_bucket()
    with pytest.raises(ContentError):
        await ContentUpload(bucket_of(s3_server, name), "x").write(content(size, fail=True))
    assert (keys(s3_server, name), uploads(s3_server, name)) == ([], 0)


@pytest.mark.parametrize("pieces", [PIECES // 10, PIECES - 1])
async def test_an_upload_that_is_cancelled_leaves_nothing(s3_server: S3Server, pieces: int) -> None:
    name = s3_server.new_bucket()

    reached = asyncio.Event()

    async def waiting() -> AsyncGenerator[bytes]:
        number = 0
        async for piece in content(4 * PART):
            number += 1
            if number > pieces:
                reached.set()
                await asyncio.Event().wait()
            yield piece

    task = asyncio.ensure_future(ContentUpload(bucket_of(s3_server, name), "x").write(waiting()))
    await reached.wait()
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    assert (keys(s3_server, name), uploads(s3_server, name)) == ([], 0)


async def test_a_server_that_fails_in_the_middle_ends_the_upload(s3_server: S3Server) -> None:
    asked: list[int] = []

    async def endless() -> AsyncGenerator[bytes]:
        while True:
            asked.append(1)
            yield b"x" * PART

    with pytest.raises(SkillError, match="the bucket does not exist"):
        await ContentUpload(bucket_of(s3_server, "nowhere"), "x").write(endless())
    assert len(asked) < 20
