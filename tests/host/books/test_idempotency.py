"""The same request twice is done once."""

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from openskills.errors import InvalidArgument, KeyReused, RequestInFlight, StoreUnavailable
from openskills.host.books.database import Database
from openskills.host.books.idempotency import Fresh, Idempotency, Replayed

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
    of: Idempotency, key: str = "k", who: str = "ci", route: str = "/skills/echo:invoke", body: str = "d1"
) -> Replayed | Fresh:
    return await of.begin(key, who, route, body, lease=60.0)


async def fresh(of: Idempotency, key: str = "k") -> Fresh:
    found = await begin(of, key)
    assert isinstance(found, Fresh)
    return found


def test_the_second_request_gets_the_answer_of_the_first(tmp_path: Path) -> None:
    async def body() -> None:
        store = Database(tmp_path / "host.db")
        of = Idempotency(store)
        assert await of.finish(await fresh(of), 200, b'{"success": true}')
        assert await begin(of) == Replayed(200, b'{"success": true}')
        assert await begin(of) == Replayed(200, b'{"success": true}')
        await store.close()
        # Another worker, or the same host after a new start.
        again = Database(tmp_path / "host.db")
        assert await begin(Idempotency(again)) == Replayed(200, b'{"success": true}')
        await again.close()

    closing_stores(body())


def test_while_the_first_is_under_way_the_second_is_told_to_wait() -> None:
    async def body() -> None:
        of = Idempotency(memory())
        first = await fresh(of)
        with pytest.raises(RequestInFlight) as caught:
            await begin(of)
        assert (caught.value.code, caught.value.details) == (409, {"retry_after": 1.0})
        await of.finish(first, 200, b"{}")
        assert await begin(of) == Replayed(200, b"{}")

    closing_stores(body())


def test_of_many_at_once_exactly_one_is_done(tmp_path: Path) -> None:
    async def body() -> None:
        stores = [Database(tmp_path / "host.db", patience=30) for _ in range(4)]
        attempts = [begin(Idempotency(store)) for store in stores for _ in range(10)]
        found = await asyncio.gather(*attempts, return_exceptions=True)
        assert sum(isinstance(one, Fresh) for one in found) == 1
        assert sum(isinstance(one, RequestInFlight) for one in found) == 39
        for store in stores:
            await store.close()

    closing_stores(body())


def test_the_same_key_with_another_body_is_refused() -> None:
    async def body() -> None:
        of = Idempotency(memory())
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
        of = Idempotency(memory())
        await of.finish(await fresh(of), 200, b"{}")
        assert isinstance(await begin(of, **change), Fresh)

    closing_stores(body())


def test_an_answer_is_forgotten_after_a_day() -> None:
    async def body() -> None:
        clock = Clock()
        of = Idempotency(memory(), clock=clock)
        await of.finish(await fresh(of), 200, b"{}")
        clock.now += DAY - 1
        assert isinstance(await begin(of), Replayed)
        clock.now += 2
        assert isinstance(await begin(of), Fresh)

    closing_stores(body())


def test_a_worker_that_died_frees_its_key_when_the_lease_is_over() -> None:
    async def body() -> None:
        clock = Clock()
        of = Idempotency(memory(), clock=clock)
        died = await fresh(of)
        clock.now += 59
        with pytest.raises(RequestInFlight):
            await begin(of)
        clock.now += 2
        second = await fresh(of)
        # Should it be alive after all, its answer comes too late.
        assert not await of.finish(died, 200, b"late")
        assert await of.finish(second, 200, b"{}")
        assert await begin(of) == Replayed(200, b"{}")

    closing_stores(body())


@pytest.mark.parametrize("status", [429, 503])
def test_an_answer_that_says_come_back_later_frees_the_key(status: int) -> None:
    async def body() -> None:
        of = Idempotency(memory())
        await of.finish(await fresh(of), status, b"{}")
        assert isinstance(await begin(of), Fresh)

    closing_stores(body())


@pytest.mark.parametrize("status", [400, 422, 500, 502, 504])
def test_other_failures_are_answers_and_are_kept(status: int) -> None:
    async def body() -> None:
        of = Idempotency(memory())
        await of.finish(await fresh(of), status, b"no")
        assert await begin(of) == Replayed(status, b"no")

    closing_stores(body())


def test_a_client_that_went_away_can_come_again() -> None:
    async def body() -> None:
        of = Idempotency(memory())
        first = await fresh(of)
        assert await of.abandon(first)
        assert not await of.abandon(first)
        assert isinstance(await begin(of), Fresh)

    closing_stores(body())


@pytest.mark.parametrize("key", ["", " ", "a\nb", "é", "x" * 256, " x", "x ", '""', "\ud800"])
def test_what_is_no_key_is_refused(key: str) -> None:
    with pytest.raises(InvalidArgument, match="Idempotency-Key"):
        closing_stores(begin(Idempotency(memory()), key))


def test_a_key_may_stand_in_quotes_as_the_draft_has_it() -> None:
    async def body() -> None:
        of = Idempotency(memory())
        await of.finish(await fresh(of, '"8e03978e-40d5"'), 200, b"{}")
        assert await begin(of, "8e03978e-40d5") == Replayed(200, b"{}")

    closing_stores(body())


def test_what_is_over_is_removed_however_much_it_is() -> None:
    async def count(store: Database) -> int:
        ((number,),) = await store.read(lambda at: at.execute("SELECT count(*) FROM answers").fetchall())
        return number

    async def body() -> None:
        clock = Clock()
        store = memory()
        of = Idempotency(store, clock=clock)
        for number in range(1_200):
            await of.finish(await fresh(of, f"k{number}"), 200, b"{}")
        clock.now += 2 * DAY
        left = [await count(store)]
        for number in range(3):
            await fresh(of, f"new{number}")
            left.append(await count(store))
        assert left == [1_200, 701, 202, 3]

    closing_stores(body())


def test_what_cannot_be_remembered_is_not_promised(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreUnavailable):
        asyncio.run(begin(Idempotency(Database(tmp_path / "file" / "host.db"))))


def test_the_right_to_finish_is_not_shown() -> None:
    assert "secret" not in repr(Fresh("id", "secret"))
