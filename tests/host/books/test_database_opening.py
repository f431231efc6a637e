"""How the host's database is made, opened, brought up to date; and what cannot be opened."""

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from openskills.errors import SkillError, StoreUnavailable
from openskills.host.books.database_opening import opened, rows, transaction, translated
from openskills.host.books.database_tables import STEPS


def test_what_is_missing_is_made_for_the_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "state" / "host.db"
    with closing(opened(path, patience=5)) as connection:
        assert rows(connection, "PRAGMA journal_mode") == [("wal",)]
        assert rows(connection, "SELECT count(*) FROM history") == [(0,)]
        connection.execute("INSERT INTO workers VALUES ('w', 1, 1.0)")
        modes = {file.stat().st_mode & 0o777 for file in path.parent.iterdir()}
    assert modes == {0o600}
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_a_database_in_memory_has_the_same_tables() -> None:
    with closing(opened(None, patience=1)) as connection:
        assert rows(connection, "SELECT count(*) FROM runs") == [(0,)]


def test_an_older_file_is_brought_up_to_date_and_keeps_its_rows(tmp_path: Path) -> None:
    path = tmp_path / "host.db"
    with closing(opened(path, patience=5)) as connection:
        connection.execute("INSERT INTO workers VALUES ('w', 1, 1.0)")
    more = (*STEPS, ("ALTER TABLE workers ADD COLUMN note TEXT",))
    for _ in range(2):
        with closing(opened(path, patience=5, steps=more)) as connection:
            assert rows(connection, "SELECT id, note FROM workers") == [("w", None)]


def test_a_file_of_a_newer_version_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "host.db"
    opened(path, patience=5, steps=(*STEPS, ("CREATE TABLE later (x)",))).close()
    with pytest.raises(SkillError, match="newer OpenSkill"):
        opened(path, patience=5)


def test_many_who_open_it_at_once_all_get_it(tmp_path: Path) -> None:
    def use(number: int) -> None:
        with closing(opened(tmp_path / "host.db", patience=30)) as connection, transaction(connection):
            connection.execute("INSERT INTO workers VALUES (?, 1, 1.0)", (str(number),))

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(use, range(24)))
    with closing(opened(tmp_path / "host.db", patience=5)) as connection:
        assert rows(connection, "SELECT count(*) FROM workers") == [(24,)]


def test_what_is_no_database_is_named_with_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("dear diary, " * 100)
    with pytest.raises(StoreUnavailable, match=r"notes\.txt cannot be used: it is no SQLite database; move it away"):
        opened(path, patience=1)
    assert path.read_text() == "dear diary, " * 100


def test_a_place_that_cannot_be_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreUnavailable, match=r"cannot be used: .*file\)"):
        opened(tmp_path / "file" / "host.db", patience=1)
    with pytest.raises(StoreUnavailable, match="cannot be used"):
        opened(tmp_path, patience=1)


def test_a_transaction_is_all_or_nothing(tmp_path: Path) -> None:
    with closing(opened(tmp_path / "host.db", patience=5)) as connection:
        with pytest.raises(sqlite3.IntegrityError), transaction(connection):
            connection.executemany("INSERT INTO workers VALUES (?, 1, 1.0)", [("w",), ("w",)])
        assert rows(connection, "SELECT count(*) FROM workers") == [(0,)]


def test_one_who_waits_too_long_for_others_is_told_to_try_again(tmp_path: Path) -> None:
    path = tmp_path / "host.db"
    with closing(opened(path, patience=5)) as one, closing(opened(path, patience=0.01)) as other:
        with (
            transaction(one),
            pytest.raises(StoreUnavailable, match="try again") as caught,
            translated(path),
            transaction(other),
        ):
            pass
        assert caught.value.retryable


def test_errors_of_sqlite_keep_their_words(tmp_path: Path) -> None:
    with (
        closing(sqlite3.connect(":memory:")) as connection,
        pytest.raises(StoreUnavailable, match="no such table: absent"),
        translated(tmp_path / "x"),
    ):
        connection.execute("SELECT * FROM absent")
