"""The host's database, used from an event loop.

A connection whose file may be moved away.

How the host's database is made, opened, brought up to date; and what cannot be opened.
"""

import asyncio
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from openskills.errors import SkillError, StoreUnavailable
from openskills.host.database import HOST_DATABASE, Database, HostDatabaseConnection
from openskills.host.tables import STEPS
from openskills.sql import SqlConnection, open_sqlite, select_rows


def insert(connection: SqlConnection, name: str = "w") -> None:
    connection.execute("INSERT INTO history_content (id) VALUES (?)", (name,))


def names(connection: SqlConnection) -> list[str]:
    return [name for (name,) in select_rows(connection, "SELECT id FROM history_content ORDER BY id")]


@pytest.mark.parametrize("where", ["file", "memory"])
async def test_what_is_written_can_be_read(tmp_path: Path, where: str) -> None:
    store = Database(tmp_path / "host.db" if where == "file" else None)
    await store.write(insert)
    assert await store.read(names) == ["w"]
    await store.close()


async def test_a_write_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def fail(connection: SqlConnection) -> None:
        insert(connection)
        raise ZeroDivisionError

    store = Database(tmp_path / "host.db")
    with pytest.raises(ZeroDivisionError):
        await store.write(fail)
    assert await store.read(names) == []
    await store.close()


async def test_who_reads_does_not_wait_for_who_writes(tmp_path: Path) -> None:
    go_on = threading.Event()

    def slowly(connection: SqlConnection) -> None:
        insert(connection)
        assert go_on.wait(30)

    store = Database(tmp_path / "host.db")
    await store.write(lambda connection: insert(connection, "before"))
    writing = asyncio.create_task(store.write(slowly))
    await asyncio.sleep(0)
    assert await store.read(names) == ["before"]
    go_on.set()
    await writing
    assert await store.read(names) == ["before", "w"]
    await store.close()


async def test_it_can_be_used_again_after_it_was_closed(tmp_path: Path) -> None:
    store = Database(tmp_path / "host.db")
    await store.close()
    await store.write(insert)
    await store.close()
    assert await store.read(names) == ["w"]
    await store.close()


async def test_several_processes_of_a_host_lose_no_write(tmp_path: Path) -> None:
    stores = [Database(tmp_path / "host.db", timeout=30) for _ in range(4)]
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


def count(connected: HostDatabaseConnection) -> int:
    return connected.use(lambda connection: select_rows(connection, "SELECT count(*) FROM history_content"))[0][0]


def add(connected: HostDatabaseConnection, name: str) -> None:
    connected.use(lambda connection: connection.execute("INSERT INTO history_content (id) VALUES (?)", (name,)))


def test_nothing_is_opened_before_the_first_use(tmp_path: Path) -> None:
    connected = HostDatabaseConnection(tmp_path / "host.db", 5)
    connected.close()
    assert list(tmp_path.iterdir()) == []
    assert count(connected) == 0
    connected.close()
    assert count(connected) == 0
    connected.close()


def test_when_the_file_was_moved_away_there_is_a_new_one_and_the_old_keeps_its_rows(tmp_path: Path) -> None:
    path = tmp_path / "host.db"
    connected = HostDatabaseConnection(path, 5)
    add(connected, "before")
    for suffix in ("", "-wal", "-shm"):
        (tmp_path / f"host.db{suffix}").rename(tmp_path / f"old.db{suffix}")
    add(connected, "after")
    assert count(connected) == 1
    connected.close()
    old = HostDatabaseConnection(tmp_path / "old.db", 5)
    assert count(old) == 1
    old.close()


def test_a_file_that_is_gone_at_the_end_is_not_an_error(tmp_path: Path) -> None:
    connected = HostDatabaseConnection(tmp_path / "host.db", 5)
    add(connected, "one")
    for file in tmp_path.iterdir():
        file.unlink()
    connected.close()
    assert count(connected) == 0
    connected.close()


def test_what_sqlite_raises_names_the_file(tmp_path: Path) -> None:
    connected = HostDatabaseConnection(tmp_path / "host.db", 5)
    with pytest.raises(StoreUnavailable, match=r"host\.db.*no such table"):
        connected.use(lambda connection: connection.execute("SELECT * FROM absent"))
    connected.close()


def test_what_is_missing_is_made_for_the_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "state" / "host.db"
    with closing(open_sqlite(path, HOST_DATABASE, timeout=5)) as connection:
        assert select_rows(connection, "PRAGMA journal_mode") == [("wal",)]
        assert select_rows(connection, "SELECT count(*) FROM history") == [(0,)]
        connection.execute("INSERT INTO history_content (id) VALUES ('w')")
        modes = {file.stat().st_mode & 0o777 for file in path.parent.iterdir()}
    assert modes == {0o600}
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_a_database_in_memory_has_the_same_tables() -> None:
    with closing(open_sqlite(None, HOST_DATABASE, timeout=1)) as connection:
        assert select_rows(connection, "SELECT count(*) FROM runs") == [(0,)]


def test_an_older_file_is_brought_up_to_date_and_keeps_its_rows(tmp_path: Path) -> None:
    path = tmp_path / "host.db"
    with closing(open_sqlite(path, HOST_DATABASE, timeout=5)) as connection:
        connection.execute("INSERT INTO history_content (id) VALUES ('w')")
    more = (*STEPS, ("ALTER TABLE history_content ADD COLUMN note TEXT",))
    for _ in range(2):
        with closing(open_sqlite(path, replace(HOST_DATABASE, steps=more), timeout=5)) as connection:
            assert select_rows(connection, "SELECT id, note FROM history_content") == [("w", None)]


def test_a_file_of_a_newer_version_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "host.db"
    open_sqlite(path, replace(HOST_DATABASE, steps=(*STEPS, ("CREATE TABLE later (x)",))), timeout=5).close()
    with pytest.raises(SkillError, match="newer OpenSkill"):
        open_sqlite(path, HOST_DATABASE, timeout=5)


def test_many_who_open_it_at_once_all_get_it(tmp_path: Path) -> None:
    def use(number: int) -> None:
        with (
            closing(open_sqlite(tmp_path / "host.db", HOST_DATABASE, timeout=30)) as connection,
            connection.transaction(),
        ):
            connection.execute("INSERT INTO history_content (id) VALUES (?)", (str(number),))

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(use, range(24)))
    with closing(open_sqlite(tmp_path / "host.db", HOST_DATABASE, timeout=5)) as connection:
        assert select_rows(connection, "SELECT count(*) FROM history_content") == [(24,)]


def test_what_is_not_a_database_is_named_with_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("dear diary, " * 100)
    with pytest.raises(StoreUnavailable, match=r"notes\.txt cannot be used: not an SQLite database; move it away"):
        open_sqlite(path, HOST_DATABASE, timeout=1)
    assert path.read_text() == "dear diary, " * 100


def test_a_place_that_cannot_be_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreUnavailable, match=r"cannot be used: .*file\)"):
        open_sqlite(tmp_path / "file" / "host.db", HOST_DATABASE, timeout=1)
    with pytest.raises(StoreUnavailable, match="cannot be used"):
        open_sqlite(tmp_path, HOST_DATABASE, timeout=1)


def test_a_transaction_is_all_or_nothing(tmp_path: Path) -> None:
    with closing(open_sqlite(tmp_path / "host.db", HOST_DATABASE, timeout=5)) as connection:
        with pytest.raises(sqlite3.IntegrityError), connection.transaction():
            connection.executemany("INSERT INTO history_content (id) VALUES (?)", [("w",), ("w",)])
        assert select_rows(connection, "SELECT count(*) FROM history_content") == [(0,)]


def test_one_who_waits_too_long_for_others_is_told_to_try_again(tmp_path: Path) -> None:
    path = tmp_path / "host.db"
    with (
        closing(open_sqlite(path, HOST_DATABASE, timeout=5)) as one,
        closing(open_sqlite(path, HOST_DATABASE, timeout=0.01)) as other,
    ):
        with (
            one.transaction(),
            pytest.raises(StoreUnavailable, match="try again") as caught,
            HOST_DATABASE.translate_errors(path),
            other.transaction(),
        ):
            pass
        assert caught.value.retryable


def test_errors_of_sqlite_keep_their_words(tmp_path: Path) -> None:
    with (
        closing(sqlite3.connect(":memory:")) as connection,
        pytest.raises(StoreUnavailable, match="no such table: absent"),
        HOST_DATABASE.translate_errors(tmp_path / "x"),
    ):
        connection.execute("SELECT * FROM absent")
