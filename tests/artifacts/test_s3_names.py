"""Numbers are given once, whoever else gives, deletes and sweeps at the same time."""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from openskills.artifacts.s3_keys import Record, name_prefix, record_key, record_text
from openskills.artifacts.s3_names import Names
from openskills.artifacts.s3_sweep import sweep
from openskills.artifacts.store import Artifact
from openskills.errors import InvalidArgument
from openskills.sync import run
from tests.artifacts.buckets import bucket_of
from tests.servers.s3 import S3Server

OWNER = ("app", "erika", "s1")
PREFIX = name_prefix(OWNER, "a")
LATER = datetime.now(UTC) + timedelta(days=1)


def record(version: int, content: str | None = None) -> Record:
    """A record like those of puts: each has content of its own."""
    content = content or f"content/{uuid4().hex}"
    return Record(Artifact("a", version, 1, "text/plain", "0" * 64, datetime(2026, 1, 1, tzinfo=UTC)), content)


def numbers(names: Names) -> list[int]:
    return [one.artifact.version for one in run(names.versions(OWNER, "a"))]


def test_numbers_go_on_after_everything_was_deleted_and_swept(s3_server: S3Server) -> None:
    bucket = bucket_of(s3_server)
    names = Names(bucket)
    for _ in range(3):
        run(names.add(OWNER, "a", record))
    assert run(names.forget(OWNER, "a"))
    assert not run(names.forget(OWNER, "a"))
    run(sweep(bucket, before=LATER))
    assert numbers(names) == []
    assert run(names.add(OWNER, "a", record)).artifact.version == 3
    assert numbers(names) == [3]
    with pytest.raises(InvalidArgument, match="'a' has no version 2; it has 3"):
        run(names.chosen(OWNER, "a", 2))


def test_who_was_late_gets_a_number_that_was_never_used(s3_server: S3Server) -> None:
    bucket = bucket_of(s3_server)
    names = Names(bucket)
    run(names.add(OWNER, "a", record))
    given: list[int] = []

    def late(version: int) -> Record:
        given.append(version)
        if len(given) == 1:
            # Between the choice of a number and its record, others use it, delete it, sweep, and go on.
            in_another_loop(others)
        return record(version, "content/late")

    async def others() -> None:
        for _ in range(3):
            await names.add(OWNER, "a", record)
        await names.forget(OWNER, "a")
        await sweep(bucket, before=LATER)
        await names.add(OWNER, "a", record)

    assert run(names.add(OWNER, "a", late)).artifact.version == 5
    assert given == [1, 5]
    assert numbers(names) == [4, 5]


def in_another_loop(work: Callable[[], Awaitable[None]]) -> None:
    async def begun() -> None:
        await work()

    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, begun()).result()


def test_a_record_that_arrived_although_its_answer_was_lost_is_not_written_twice(s3_server: S3Server) -> None:
    bucket = bucket_of(s3_server)
    names = Names(bucket)
    run(bucket.create(record_key(PREFIX, 0), record_text(record(0, "content/mine"), OWNER)))

    async def claim(mine: Record) -> bool:
        return await names._claimed(PREFIX, mine, OWNER)  # pyright: ignore[reportPrivateUsage]

    assert run(claim(record(0, "content/mine")))
    assert not run(claim(record(0, "content/of-another")))


def test_of_many_who_delete_at_once_one_is_told_that_there_was_something(s3_server: S3Server) -> None:
    names = Names(bucket_of(s3_server))
    run(names.add(OWNER, "a", record))

    async def forget() -> list[bool]:
        return await asyncio.gather(*(names.forget(OWNER, "a") for _ in range(8)))

    assert run(forget()).count(True) == 1


def test_putting_and_deleting_at_once_never_uses_a_number_twice(s3_server: S3Server) -> None:
    bucket = bucket_of(s3_server)
    names = Names(bucket)

    async def put_and_delete(turn: int) -> list[int]:
        given = [(await names.add(OWNER, "a", record)).artifact.version for _ in range(4)]
        if turn % 2:
            await names.forget(OWNER, "a")
            await sweep(bucket, before=LATER)
        return given

    async def together() -> list[int]:
        done = await asyncio.gather(*(put_and_delete(turn) for turn in range(6)))
        return [version for one in done for version in one]

    given = run(together())
    assert len(set(given)) == 24
    # One that was deleted before its put had ended was put again.
    assert max(given) >= 23
    assert run(names.add(OWNER, "a", record)).artifact.version > max(given)
