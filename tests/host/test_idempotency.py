"""The same request twice is done once.

A request that comes again gets the answer of the first.
"""

import asyncio
import sqlite3
from collections.abc import AsyncGenerator
from contextlib import closing
from pathlib import Path

import orjson
import pytest

from openskills.errors import InvalidArgument, KeyReused, RequestInFlight, StoreUnavailable
from openskills.host.auth import Principal
from openskills.host.database import Database
from openskills.host.http import parse_trace
from openskills.host.idempotency import (
    IdempotencyClaim,
    IdempotencyStore,
    IdempotentResponse,
    build_replay,
)
from openskills.host.model import Failure
from openskills.host.service import Invocation, InvokeRequest
from openskills.host.workers import WorkerLock
from tests.host.results import succeeded

DAY = 24 * 60 * 60.0


@pytest.fixture
async def memory() -> AsyncGenerator[Database]:
    """A database in memory."""
    store = Database(None)
    yield store
    await store.close()


class Clock:
    """A time that the test moves."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


async def begin(
    of: IdempotencyStore, key: str = "k", who: str = "ci", skill: str = "echo", body: str = "d1", mode: str = "sync"
) -> IdempotentResponse | IdempotencyClaim:
    asked = InvokeRequest(skill, {}, "trace-1", Principal(who), 0.0, body.encode())
    return await of.begin(key, asked, skill_id=skill, mode=mode)


async def fresh(of: IdempotencyStore, key: str = "k") -> IdempotencyClaim:
    found = await begin(of, key)
    assert isinstance(found, IdempotencyClaim)
    return found


async def test_the_second_request_gets_the_answer_of_the_first(tmp_path: Path) -> None:
    store = Database(tmp_path / "host.db")
    of = IdempotencyStore(store)
    await of.finish(await fresh(of), 200, b'{"success": true}')
    assert await begin(of) == IdempotentResponse(200, b'{"success": true}')
    assert await begin(of) == IdempotentResponse(200, b'{"success": true}')
    await store.close()
    # Another worker, or the same host after a new start.
    again = Database(tmp_path / "host.db")
    assert await begin(IdempotencyStore(again)) == IdempotentResponse(200, b'{"success": true}')
    await again.close()


async def test_while_the_first_is_under_way_the_second_is_told_to_wait(memory: Database) -> None:
    of = IdempotencyStore(memory)
    first = await fresh(of)
    with pytest.raises(RequestInFlight) as caught:
        await begin(of)
    assert (caught.value.code, caught.value.details) == (409, {"retry_after": 1.0})
    await of.finish(first, 200, b"{}")
    assert await begin(of) == IdempotentResponse(200, b"{}")


async def test_of_many_at_once_exactly_one_is_done(tmp_path: Path) -> None:
    stores = [Database(tmp_path / "host.db", timeout=30) for _ in range(4)]
    attempts = [begin(IdempotencyStore(store)) for store in stores for _ in range(10)]
    found = await asyncio.gather(*attempts, return_exceptions=True)
    assert sum(isinstance(one, IdempotencyClaim) for one in found) == 1
    assert sum(isinstance(one, RequestInFlight) for one in found) == 39
    for store in stores:
        await store.close()


async def test_the_same_key_with_another_body_is_refused(memory: Database) -> None:
    of = IdempotencyStore(memory)
    first = await fresh(of)
    for _ in range(2):
        for change in ({"body": "d2"}, {"mode": "async"}):
            with pytest.raises(KeyReused, match="another body or mode") as caught:
                await begin(of, **change)
            assert caught.value.code == 422
        await of.finish(first, 200, b"{}")


@pytest.mark.parametrize("change", [{"key": "other"}, {"who": "other"}, {"skill": "sum"}, {"who": "c", "key": "ik"}])
async def test_another_key_caller_or_skill_is_another_request(memory: Database, change: dict[str, str]) -> None:
    of = IdempotencyStore(memory)
    await of.finish(await fresh(of), 200, b"{}")
    assert isinstance(await begin(of, **change), IdempotencyClaim)


async def test_an_answer_is_forgotten_after_a_day(memory: Database) -> None:
    clock = Clock()
    of = IdempotencyStore(memory, clock=clock)
    await of.finish(await fresh(of), 200, b"{}")
    clock.now += DAY - 1
    assert isinstance(await begin(of), IdempotentResponse)
    clock.now += 2
    assert isinstance(await begin(of), IdempotencyClaim)


async def test_when_the_worker_of_a_request_is_dead_its_answer_is_interrupted_for_good(tmp_path: Path) -> None:
    stores = [Database(tmp_path / "host.db") for _ in range(2)]
    first, second = map(IdempotencyStore, stores)
    await fresh(first)
    with pytest.raises(RequestInFlight):
        await begin(second)
    await first.close()
    for _ in range(2):
        answer = await begin(second)
        assert isinstance(answer, IdempotentResponse)
        result = orjson.loads(answer.body)
        assert (answer.status, result["trace_id"], result["skill_id"]) == (503, "trace-1", "echo")
        assert result["error"]["details"] == {"reason": "INTERRUPTED", "retryable": False}
    for of in (first, second):
        await of.close()
    for store in stores:
        await store.close()
    assert not list((tmp_path / "host.db.workers").iterdir())


@pytest.mark.parametrize("status", [400, 422, 429, 500, 502, 503, 504])
async def test_failures_are_answers_and_are_kept(memory: Database, status: int) -> None:
    of = IdempotencyStore(memory)
    await of.finish(await fresh(of), status, b"no")
    assert await begin(of) == IdempotentResponse(status, b"no")


async def test_a_key_that_was_not_used_can_be_used_again(memory: Database) -> None:
    of = IdempotencyStore(memory)
    await of.abandon(await fresh(of))
    assert isinstance(await begin(of), IdempotencyClaim)


@pytest.mark.parametrize("started", [True, False])
async def test_work_goes_on_without_its_caller_and_is_kept_if_its_skill_was_called(
    memory: Database, started: bool
) -> None:
    go_on = asyncio.Event()

    async def perform() -> Invocation:
        await go_on.wait()
        return Invocation(0.0, succeeded(), b"{}", "ci", started=started)

    of = IdempotencyStore(memory)
    caller = asyncio.ensure_future(asyncio.shield(of.start(await fresh(of), perform())))
    await asyncio.sleep(0)
    caller.cancel()
    go_on.set()
    await of.close()
    assert isinstance(await begin(of), IdempotentResponse if started else IdempotencyClaim)


async def test_an_answer_that_cannot_be_stored_yet_is_not_given_and_is_stored_later(tmp_path: Path) -> None:
    database = Database(tmp_path / "host.db", timeout=0.01)
    of = IdempotencyStore(database)
    claim = await fresh(of)
    with closing(sqlite3.connect(tmp_path / "host.db", timeout=1, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailable, match="timed out waiting for other writers") as caught:
            await of.finish(claim, 200, b"{}")
        failure = Failure.from_error(caught.value)
        assert "send the request again with the same Idempotency-Key to get the result" in failure.message
        assert (failure.details["executed"], failure.retry_after) == (True, 1.0)
        other.execute("ROLLBACK")
    await of.close()
    assert await begin(of) == IdempotentResponse(200, b"{}")
    await of.close()
    await database.close()


@pytest.mark.parametrize("key", ["", " ", "a\nb", "é", "x" * 256, " x", "x ", '""', "\ud800"])
async def test_an_invalid_key_is_refused(memory: Database, key: str) -> None:
    with pytest.raises(InvalidArgument, match="Idempotency-Key"):
        await begin(IdempotencyStore(memory), key)


async def test_a_key_may_stand_in_quotes_as_the_draft_has_it(memory: Database) -> None:
    of = IdempotencyStore(memory)
    await of.finish(await fresh(of, '"8e03978e-40d5"'), 200, b"{}")
    assert await begin(of, "8e03978e-40d5") == IdempotentResponse(200, b"{}")


async def test_what_is_over_is_removed_however_much_it_is(memory: Database) -> None:
    async def count(store: Database) -> int:
        ((number,),) = await store.read(lambda at: at.execute("SELECT count(*) FROM answers").fetchall())
        return number

    clock = Clock()
    store = memory
    of = IdempotencyStore(store, clock=clock)
    for number in range(1_200):
        await of.finish(await fresh(of, f"k{number}"), 200, b"{}")
    clock.now += 2 * DAY
    left = [await count(store)]
    for number in range(3):
        await fresh(of, f"new{number}")
        left.append(await count(store))
    assert left == [1_200, 701, 202, 3]


async def test_what_cannot_be_remembered_is_not_promised(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreUnavailable):
        await begin(IdempotencyStore(Database(tmp_path / "file" / "host.db")))


def test_the_right_to_finish_is_not_shown() -> None:
    assert "secret" not in repr(IdempotencyClaim("id", "secret"))


def test_a_run_that_was_begun_is_reported_with_its_place_again() -> None:
    body = orjson.dumps({"trace_id": "first", "data": {"id": "run_1"}})
    assert (
        dict(build_replay(IdempotentResponse(202, body), parse_trace(b"second", None)).headers)[b"location"]
        == b"/runs/run_1"
    )


def test_a_worker_is_alive_as_long_as_it_holds_its_lock(tmp_path: Path) -> None:
    mine, other = WorkerLock(tmp_path / "host.db"), WorkerLock(tmp_path / "host.db")
    other.hold()
    other.hold()
    assert mine.is_alive(mine.id)
    assert mine.is_alive(other.id)
    assert mine.is_alive(other.id)
    other.close()
    other.close()
    assert not mine.is_alive(other.id)
    assert not mine.is_alive("")
    assert not WorkerLock(None).is_alive(other.id)
