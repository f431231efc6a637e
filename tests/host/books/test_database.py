"""The host's database, used from an event loop."""

import asyncio
import sqlite3
import threading
from pathlib import Path

import pytest

from openskills.host.books.database import Database
from openskills.host.books.database_opening import rows


def insert(connection: sqlite3.Connection, name: str = "w") -> None:
    connection.execute("INSERT INTO workers VALUES (?, 1, 1.0)", (name,))


def names(connection: sqlite3.Connection) -> list[str]:
    return [name for (name,) in rows(connection, "SELECT id FROM workers ORDER BY id")]


@pytest.mark.parametrize("where", ["file", "memory"])
def test_what_is_written_can_be_read(tmp_path: Path, where: str) -> None:
    async def body() -> None:
        store = Database(tmp_path / "host.db" if where == "file" else None)
        await store.write(insert)
        assert await store.read(names) == ["w"]
        await store.close()

    asyncio.run(body())


def test_a_write_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def fail(connection: sqlite3.Connection) -> None:
        insert(connection)
        raise ZeroDivisionError

    async def body() -> None:
        store = Database(tmp_path / "host.db")
        with pytest.raises(ZeroDivisionError):
            await store.write(fail)
        assert await store.read(names) == []
        await store.close()

    asyncio.run(body())


def test_who_reads_does_not_wait_for_who_writes(tmp_path: Path) -> None:
    go_on = threading.Event()

    def slowly(connection: sqlite3.Connection) -> None:
        insert(connection)
        assert go_on.wait(30)

    async def body() -> None:
        store = Database(tmp_path / "host.db")
        await store.write(lambda connection: insert(connection, "before"))
        writing = asyncio.create_task(store.write(slowly))
        await asyncio.sleep(0)
        assert await store.read(names) == ["before"]
        go_on.set()
        await writing
        assert await store.read(names) == ["before", "w"]
        await store.close()

    asyncio.run(body())


def test_it_can_be_used_again_after_it_was_closed(tmp_path: Path) -> None:
    async def body() -> None:
        store = Database(tmp_path / "host.db")
        await store.close()
        await store.write(insert)
        await store.close()
        assert await store.read(names) == ["w"]
        await store.close()

    asyncio.run(body())


def test_several_processes_of_a_host_lose_no_write(tmp_path: Path) -> None:
    async def body() -> None:
        stores = [Database(tmp_path / "host.db", patience=30) for _ in range(4)]
        await asyncio.gather(
            *(
                store.write(lambda connection, name=f"{number}-{turn}": insert(connection, name))
                for turn in range(25)
                for number, store in enumerate(stores)
            )
        )
        assert len(await stores[0].read(names)) == 100
        for store in stores:
            await store.close()

    asyncio.run(body())
