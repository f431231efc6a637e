"""A request that comes again gets the answer of the first."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import orjson
import pytest

from openskills.errors import InvalidArgument, KeyReused
from openskills.host.books.database import Database
from openskills.host.books.idempotency import Idempotency, Replayed
from openskills.host.routes.replays import Replays, replayed
from openskills.host.wire.answers import Answer, document
from openskills.host.wire.trace_ids import trace_of
from tests.host.exchanges import Sent

T = TypeVar("T")
Once = Callable[[str, bytes, Callable[[], Awaitable[Answer]]], Awaitable[Answer]]


def with_replays(path: Path, use: Callable[[Once], Awaitable[T]]) -> T:
    async def go() -> T:
        database = Database(path / "host.db")
        replays = Replays(Idempotency(database))

        async def once(key: str, body: bytes, work: Callable[[], Awaitable[Answer]]) -> Answer:
            exchange = Sent(headers={"Idempotency-Key": key} if key else {}).exchange
            return await replays.once(exchange, work, principal="me", route="echo:invoke", body=body, lease=60)

        try:
            return await use(once)
        finally:
            await database.close()

    return asyncio.run(go())


class Work:
    def __init__(self, status: int = 200) -> None:
        self.done = 0
        self._status = status

    async def __call__(self) -> Answer:
        self.done += 1
        return document({"id": "run_1", "count": self.done}, trace_of(b"first", None), status=self._status)


def test_without_a_key_everything_is_done_every_time(tmp_path: Path) -> None:
    work = Work()

    async def use(once: Once) -> None:
        await once("", b"a", work)
        await once("", b"a", work)

    with_replays(tmp_path, use)
    assert work.done == 2


def test_with_a_key_it_is_done_once_and_answered_alike(tmp_path: Path) -> None:
    work = Work()

    async def use(once: Once) -> tuple[Answer, Answer]:
        first = await once("k", b"a", work)
        with pytest.raises(KeyReused):
            await once("k", b"b", work)
        return first, await once("k", b"a", work)

    first, second = with_replays(tmp_path, use)
    assert work.done == 1
    assert (second.status, second.body) == (first.status, first.body)
    assert dict(second.headers)[b"x-trace-id"] == b"first"
    assert dict(second.headers)[b"idempotent-replayed"] == b"true"


def test_an_answer_that_says_come_back_later_is_not_kept(tmp_path: Path) -> None:
    busy, free = Work(503), Work()

    async def use(once: Once) -> Answer:
        await once("k", b"a", busy)
        return await once("k", b"a", free)

    assert with_replays(tmp_path, use).status == 200


def test_work_that_came_to_no_answer_frees_its_key(tmp_path: Path) -> None:
    async def broken() -> Answer:
        raise InvalidArgument("x", "is wrong")

    async def use(once: Once) -> Answer:
        with pytest.raises(InvalidArgument):
            await once("k", b"a", broken)
        return await once("k", b"a", Work())

    assert with_replays(tmp_path, use).status == 200


def test_a_run_that_was_begun_is_told_with_its_place_again() -> None:
    body = orjson.dumps({"trace_id": "first", "data": {"id": "run_1"}})
    assert dict(replayed(Replayed(202, body), trace_of(b"second", None)).headers)[b"location"] == b"/runs/run_1"
