"""Questions to SQLite happen in transactions, and what goes wrong is said about the file."""

import sqlite3
from collections.abc import Generator
from pathlib import Path

import pytest

from openskills.errors import SessionsUnavailable, SkillError
from openskills.session.sqlite_asking import Asking


@pytest.fixture
def asking(tmp_path: Path) -> Generator[Asking]:
    path = tmp_path / "x.db"
    connection = sqlite3.connect(path, timeout=0, isolation_level=None)
    connection.execute("CREATE TABLE t (x TEXT)")
    yield Asking(path, connection)
    connection.close()


def test_arguments_are_values_and_nothing_else(asking: Asking) -> None:
    hostile = "'); DROP TABLE t; --"
    assert asking.change(("INSERT INTO t VALUES ($1)", (hostile,))) == 1
    assert asking.rows(("SELECT x FROM t WHERE x = $1", (hostile,))) == [(hostile,)]


def test_an_error_in_the_block_takes_everything_back(asking: Asking) -> None:
    def write_and_fail() -> None:
        with asking.transaction("IMMEDIATE"):
            asking.change(("INSERT INTO t VALUES ($1)", ("x",)))
            raise LookupError

    with pytest.raises(LookupError):
        write_and_fail()
    assert asking.rows(("SELECT x FROM t", ())) == []
    with asking.transaction("IMMEDIATE"):
        asking.change(("INSERT INTO t VALUES ($1)", ("y",)))
    assert asking.rows(("SELECT x FROM t", ())) == [("y",)]


def test_a_file_that_somebody_else_writes_to_for_too_long_is_busy_and_can_be_tried_again(asking: Asking) -> None:
    other = sqlite3.connect(asking.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(SessionsUnavailable, match=r"x\.db is busy: others write to it for too long; try") as raised:
        asking.change(("INSERT INTO t VALUES ('x')", ()))
    assert raised.value.retryable
    other.close()
    assert asking.change(("INSERT INTO t VALUES ('x')", ())) == 1


def test_what_else_sqlite_says_is_said_with_its_own_name(asking: Asking) -> None:
    with pytest.raises(SkillError, match="cannot be used: no such table: nowhere") as raised:
        asking.rows(("SELECT * FROM nowhere", ()))
    assert raised.value.details["sqlite"] == "SQLITE_ERROR"
    assert not raised.value.retryable
