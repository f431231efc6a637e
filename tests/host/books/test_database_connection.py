"""A connection whose file may be moved away."""

from pathlib import Path

import pytest

from openskills.errors import StoreUnavailable
from openskills.host.books.database_connection import Connected
from openskills.host.books.database_opening import rows


def count(connected: Connected) -> int:
    return connected.use(lambda connection: rows(connection, "SELECT count(*) FROM workers"))[0][0]


def add(connected: Connected, name: str) -> None:
    connected.use(lambda connection: connection.execute("INSERT INTO workers VALUES (?, 1, 1.0)", (name,)))


def test_nothing_is_opened_before_the_first_use(tmp_path: Path) -> None:
    connected = Connected(tmp_path / "host.db", 5)
    connected.close()
    assert list(tmp_path.iterdir()) == []
    assert count(connected) == 0
    connected.close()
    assert count(connected) == 0
    connected.close()


def test_when_the_file_was_moved_away_there_is_a_new_one_and_the_old_keeps_its_rows(tmp_path: Path) -> None:
    path = tmp_path / "host.db"
    connected = Connected(path, 5)
    add(connected, "before")
    for suffix in ("", "-wal", "-shm"):
        (tmp_path / f"host.db{suffix}").rename(tmp_path / f"old.db{suffix}")
    add(connected, "after")
    assert count(connected) == 1
    connected.close()
    old = Connected(tmp_path / "old.db", 5)
    assert count(old) == 1
    old.close()


def test_a_file_that_is_gone_at_the_end_is_no_trouble(tmp_path: Path) -> None:
    connected = Connected(tmp_path / "host.db", 5)
    add(connected, "one")
    for file in tmp_path.iterdir():
        file.unlink()
    connected.close()
    assert count(connected) == 0
    connected.close()


def test_what_sqlite_raises_names_the_file(tmp_path: Path) -> None:
    connected = Connected(tmp_path / "host.db", 5)
    with pytest.raises(StoreUnavailable, match=r"host\.db.*no such table"):
        connected.use(lambda connection: connection.execute("SELECT * FROM absent"))
    connected.close()
