"""The same request twice is done once.

A request that comes again gets the answer of the first.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import orjson
import pytest

from openskills.errors import InvalidArgument, KeyReused, RequestInFlight, StoreUnavailable
from openskills.host.database import Database
from openskills.host.http import HttpResponse, build_document, parse_trace
from openskills.host.idempotency import (
    IdempotencyClaim,
    IdempotencyGuard,
    IdempotencyStore,
    IdempotentResponse,
    build_replay,
)
from tests.host.exchanges import Sent

DAY = 24 * 60 * 60.0
stores: list[Database] = []


def memory() -> Database:
    """A database that `closing_stores` closes."""
    stores.append(Database(None))
    return stores[-1]


def closing_stores(body: Coroutine[Any, Any, object]) -> None:
    """Run the body of a test."""

    async def whole() -> None:
        try:
            await body
        finally:
            while stores:
                await stores.pop().close()

    asyncio.run(whole())


class Clock:
    """A time that the test moves."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


async def begin(
    of: IdempotencyStore, key: str = "k", who: str = "ci", route: str = "/skills/echo:invoke", body: str = "d1"
) -> IdempotentResponse | IdempotencyClaim:
    return await of.begin(key, who, route, body, lease=60.0)


async def fresh(of: IdempotencyStore, key: str = "k") -> IdempotencyClaim:
    found = await begin(of, key)
    assert isinstance(found, IdempotencyClaim)
    return found


def test_the_second_request_gets_the_answer_of_the_first(tmp_path: Path) -> None:
    async def body() -> None:
        store = Database(tmp_path / "host.db")
        of = IdempotencyStore(store)
        assert await of.finish(await fresh(of), 200, b'{"success": true}')
        assert await begin(of) == IdempotentResponse(200, b'{"success": true}')
        assert await begin(of) == IdempotentResponse(200, b'{"success": true}')
        await store.close()
        # Another worker, or the same host after a new start.
        again = Database(tmp_path / "host.db")
        assert await begin(IdempotencyStore(again)) == IdempotentResponse(200, b'{"success": true}')
        await again.close()

    closing_stores(body())


def test_while_the_first_is_under_way_the_second_is_told_to_wait() -> None:
    async def body() -> None:
        of = IdempotencyStore(memory())
        first = await fresh(of)
        with pytest.raises(RequestInFlight) as caught:
            await begin(of)
        assert (caught.value.code, caught.value.details) == (409, {"retry_after": 1.0})
        await of.finish(first, 200, b"{}")
        assert await begin(of) == IdempotentResponse(200, b"{}")

    closing_stores(body())


def test_of_many_at_once_exactly_one_is_done(tmp_path: Path) -> None:
    async def body() -> None:
        stores = [Database(tmp_path / "host.db", timeout=30) for _ in range(4)]
        attempts = [begin(IdempotencyStore(store)) for store in stores for _ in range(10)]
        found = await asyncio.gather(*attempts, return_exceptions=True)
        assert sum(isinstance(one, IdempotencyClaim) for one in found) == 1
        assert sum(isinstance(one, RequestInFlight) for one in found) == 39
        for store in stores:
            await store.close()

    closing_stores(body())


def test_the_same_key_with_another_body_is_refused() -> None:
    async def body() -> None:
        of = IdempotencyStore(memory())
        first = await fresh(of)
        for _ in range(2):
            with pytest.raises(KeyReused, match="another body") as caught:
                await begin(of, body="d2")
            assert caught.value.code == 422
            await of.finish(first, 200, b"{}")

    closing_stores(body())


@pytest.mark.parametrize(
    "change", [{"key": "other"}, {"who": "other"}, {"route": "/skills/sum:invoke"}, {"who": "c", "key": "ik"}]
)
def test_another_key_caller_or_route_is_another_request(change: dict[str, str]) -> None:
    async def body() -> None:
        of = IdempotencyStore(memory())
        await of.finish(await fresh(of), 200, b"{}")
        assert isinstance(await begin(of, **change), IdempotencyClaim)

    closing_stores(body())


def test_an_answer_is_forgotten_after_a_day() -> None:
    async def body() -> None:
        clock = Clock()
        of = IdempotencyStore(memory(), clock=clock)
        await of.finish(await fresh(of), 200, b"{}")
        clock.now += DAY - 1
        assert isinstance(await begin(of), IdempotentResponse)
        clock.now += 2
        assert isinstance(await begin(of), IdempotencyClaim)

    closing_stores(body())


def test_a_worker_that_died_frees_its_key_when_the_lease_is_over() -> None:
    async def body() -> None:
        clock = Clock()
        of = IdempotencyStore(memory(), clock=clock)
        died = await fresh(of)
        clock.now += 59
        with pytest.raises(RequestInFlight):
            await begin(of)
        clock.now += 2
        second = await fresh(of)
        # Should it be alive after all, its answer comes too late.
        assert not await of.finish(died, 200, b"late")
        assert await of.finish(second, 200, b"{}")
        assert await begin(of) == IdempotentResponse(200, b"{}")

    closing_stores(body())


@pytest.mark.parametrize("status", [429, 503])
def test_an_answer_that_says_come_back_later_frees_the_key(status: int) -> None:
    async def body() -> None:
        of = IdempotencyStore(memory())
        await of.finish(await fresh(of), status, b"{}")
        assert isinstance(await begin(of), IdempotencyClaim)

    closing_stores(body())


@pytest.mark.parametrize("status", [400, 422, 500, 502, 504])
def test_other_failures_are_answers_and_are_kept(status: int) -> None:
    async def body() -> None:
        of = IdempotencyStore(memory())
        await of.finish(await fresh(of), status, b"no")
        assert await begin(of) == IdempotentResponse(status, b"no")

    closing_stores(body())


def test_a_client_that_went_away_can_come_again() -> None:
    async def body() -> None:
        of = IdempotencyStore(memory())
        first = await fresh(of)
        assert await of.abandon(first)
        assert not await of.abandon(first)
        assert isinstance(await begin(of), IdempotencyClaim)

    closing_stores(body())


@pytest.mark.parametrize("key", ["", " ", "a\nb", "é", "x" * 256, " x", "x ", '""', "\ud800"])
def test_what_is_no_key_is_refused(key: str) -> None:
    with pytest.raises(InvalidArgument, match="Idempotency-Key"):
        closing_stores(begin(IdempotencyStore(memory()), key))


def test_a_key_may_stand_in_quotes_as_the_draft_has_it() -> None:
    async def body() -> None:
        of = IdempotencyStore(memory())
        await of.finish(await fresh(of, '"8e03978e-40d5"'), 200, b"{}")
        assert await begin(of, "8e03978e-40d5") == IdempotentResponse(200, b"{}")

    closing_stores(body())


def test_what_is_over_is_removed_however_much_it_is() -> None:
    async def count(store: Database) -> int:
        ((number,),) = await store.read(lambda at: at.execute("SELECT count(*) FROM answers").fetchall())
        return number

    async def body() -> None:
        clock = Clock()
        store = memory()
        of = IdempotencyStore(store, clock=clock)
        for number in range(1_200):
            await of.finish(await fresh(of, f"k{number}"), 200, b"{}")
        clock.now += 2 * DAY
        left = [await count(store)]
        for number in range(3):
            await fresh(of, f"new{number}")
            left.append(await count(store))
        assert left == [1_200, 701, 202, 3]

    closing_stores(body())


async def test_what_cannot_be_remembered_is_not_promised(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreUnavailable):
        await begin(IdempotencyStore(Database(tmp_path / "file" / "host.db")))


def test_the_right_to_finish_is_not_shown() -> None:
    assert "secret" not in repr(IdempotencyClaim("id", "secret"))


T = TypeVar("T")
Once = Callable[[str, bytes, Callable[[], Awaitable[HttpResponse]]], Awaitable[HttpResponse]]


def with_replays(path: Path, use: Callable[[Once], Awaitable[T]]) -> T:
    async def go() -> T:
        database = Database(path / "host.db")
        replays = IdempotencyGuard(IdempotencyStore(database))

        async def once(key: str, body: bytes, work: Callable[[], Awaitable[HttpResponse]]) -> HttpResponse:
            exchange = Sent(headers={"Idempotency-Key": key} if key else {}).exchange
            return await replays.run_once(exchange, work, principal="me", route="echo:invoke", body=body, lease=60)

        try:
            return await use(once)
        finally:
            await database.close()

    return asyncio.run(go())


class Work:
    def __init__(self, status: int = 200) -> None:
        self.done = 0
        self._status = status

    async def __call__(self) -> HttpResponse:
        self.done += 1
        return build_document({"id": "run_1", "count": self.done}, parse_trace(b"first", None), status=self._status)


def test_without_a_key_everything_is_done_every_time(tmp_path: Path) -> None:
    work = Work()

    async def use(once: Once) -> None:
        await once("", b"a", work)
        await once("", b"a", work)

    with_replays(tmp_path, use)
    assert work.done == 2


def test_with_a_key_it_is_done_once_and_answered_alike(tmp_path: Path) -> None:
    work = Work()

    async def use(once: Once) -> tuple[HttpResponse, HttpResponse]:
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

    async def use(once: Once) -> HttpResponse:
        await once("k", b"a", busy)
        return await once("k", b"a", free)

    assert with_replays(tmp_path, use).status == 200


def test_work_that_came_to_no_answer_frees_its_key(tmp_path: Path) -> None:
    async def broken() -> HttpResponse:
        raise InvalidArgument("x", "is wrong")

    async def use(once: Once) -> HttpResponse:
        with pytest.raises(InvalidArgument):
            await once("k", b"a", broken)
        return await once("k", b"a", Work())

    assert with_replays(tmp_path, use).status == 200


def test_a_run_that_was_begun_is_told_with_its_place_again() -> None:
    body = orjson.dumps({"trace_id": "first", "data": {"id": "run_1"}})
    assert (
        dict(build_replay(IdempotentResponse(202, body), parse_trace(b"second", None)).headers)[b"location"]
        == b"/runs/run_1"
    )
