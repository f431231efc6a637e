"""Artifacts in a bucket keep what every store promises, between processes too."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import pytest

from openskills.artifacts.s3 import S3ArtifactStore
from openskills.artifacts.s3_bucket import Bucket
from openskills.artifacts.store import Scope, read
from openskills.errors import LimitExceeded, SkillError
from openskills.sync import run
from openskills.testing import check_artifact_store
from tests.artifacts.buckets import bucket_of, config_of, keys, store_of
from tests.servers.s3 import S3Server

SCOPE = Scope("app", "user", "session")
PROCESSES, PUTS = 3, 6

WRITER = f"""
import sys
from openskills.artifacts.choose import artifact_store
from openskills.artifacts.store import Scope
from openskills.settings import Settings
from openskills.sync import run

store = artifact_store(sys.argv[1], Settings.from_env())
print("ready", flush=True)
sys.stdin.readline()
for turn in range({PUTS}):
    content = f"process {{sys.argv[2]}} turn {{turn}}"
    print(run(store.put(Scope("app", "user", "session"), "raced", content.encode())).version, content, flush=True)
"""


def test_it_keeps_every_promise_of_a_store(s3_server: S3Server) -> None:
    name = s3_server.new_bucket()
    run(check_artifact_store(lambda: store_of(s3_server, name)))


def test_one_store_that_everybody_shares_keeps_them_too(s3_server: S3Server) -> None:
    shared = store_of(s3_server)
    run(check_artifact_store(lambda: shared))


def test_threads_and_processes_get_consecutive_versions(s3_server: S3Server) -> None:
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
        assert run(read(shared, SCOPE, "raced", version)) == content.encode()


@pytest.mark.slow
def test_64_mb_go_through_in_little_memory(s3_server: S3Server) -> None:
    program = """
import hashlib, resource, sys
from openskills.artifacts.choose import artifact_store
from openskills.artifacts.store import Scope
from openskills.settings import Settings
from openskills.sync import run

scope = Scope("a", "u", "s")
store = artifact_store(sys.argv[1], Settings.from_env())

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


def test_more_than_the_limit_is_refused_and_leaves_nothing(s3_server: S3Server) -> None:
    name = s3_server.new_bucket()
    store = S3ArtifactStore(name, config=config_of(s3_server), max_bytes=3_000_000)
    asked: list[int] = []

    async def endless() -> AsyncGenerator[bytes]:
        for number in count():
            asked.append(number)
            yield b"x" * 1_000_000

    with pytest.raises(LimitExceeded, match="this store takes 3,000,000 per artifact"):
        run(store.put(SCOPE, "a", endless()))
    assert len(asked) == 4
    assert keys(s3_server, name) == ["format"]
    assert run(store.put(SCOPE, "a", b"x" * 3_000_000)).version == 0


def test_content_that_somebody_changed_is_an_error_and_not_a_result(s3_server: S3Server) -> None:
    name = s3_server.new_bucket()
    store, bucket = store_of(s3_server, name), bucket_of(s3_server, name)
    run(store.put(SCOPE, "a", b"hello"))
    (content,) = [key.removeprefix("pre/fix/") for key in keys(s3_server, name) if "/content/" in key]
    run(bucket.put(content, b"hellO"))
    with pytest.raises(SkillError, match="artifact://a@0 is damaged: content/"):
        run(read(store, SCOPE, "a"))
    run(bucket.delete([content]))
    with pytest.raises(SkillError, match="is missing or has changed; restore it"):
        run(read(store, SCOPE, "a"))


def test_a_server_that_ignores_conditions_is_refused_at_the_first_put(s3_server: S3Server) -> None:
    class Careless(Bucket):
        """What an old server does: it writes, whatever the condition says."""

        async def create(self, key: str, data: bytes) -> bool:
            await self.put(key, data)
            return True

    store = S3ArtifactStore("bucket")
    store._bucket = Careless(s3_server.new_bucket(), "", config_of(s3_server), "the place")  # pyright: ignore[reportPrivateUsage]
    with pytest.raises(SkillError, match=r"the place ignores 'If-None-Match: \*', so that two versions could get one"):
        run(store.put(SCOPE, "a", b"x"))


def test_a_bucket_of_another_version_is_refused_and_left_alone(s3_server: S3Server) -> None:
    name = s3_server.new_bucket()
    run(bucket_of(s3_server, name).put("format", b"openskills artifacts 2 in a bucket\n"))
    store = store_of(s3_server, name)
    for call in (store.list(SCOPE), store.put(SCOPE, "a", b"x"), store.delete(SCOPE, "a"), store.sweep()):
        with pytest.raises(SkillError, match=r"was written by another version of OpenSkill: .*; choose another prefix"):
            run(call)
    assert keys(s3_server, name) == ["pre/fix/format"]


def test_two_prefixes_of_one_bucket_are_two_stores(s3_server: S3Server) -> None:
    name = s3_server.new_bucket()
    one, two = (S3ArtifactStore(name, prefix, config=config_of(s3_server)) for prefix in ("one", "one/two"))
    run(one.put(SCOPE, "a", b"x"))
    assert run(two.list(SCOPE)) == ()
