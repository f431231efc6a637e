"""A file is made, brought up to date, or refused with the reason."""

import os
import sqlite3
from pathlib import Path

import pytest

from openskills.errors import SkillError
from openskills.session import tables
from openskills.session.events import new_event
from openskills.session.head import advanced
from openskills.session.schema import STEPS
from openskills.session.sqlite import SqliteSessionStore
from openskills.session.sqlite_opening import opened
from openskills.session.store import SessionKey
from openskills.sync import run

KEY = SessionKey("app", "erika", "s1")


def test_a_new_file_is_for_the_owner_only_and_survives_a_power_cut(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        asking = opened(tmp_path / "deep" / "x.db", patience=1)
    finally:
        os.umask(before)
    with asking.transaction("IMMEDIATE"):
        asking.change(("INSERT INTO openskills_schema VALUES (0)", ()))
    modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "deep").iterdir()}
    assert modes == {"x.db": 0o600, "x.db-wal": 0o600, "x.db-shm": 0o600}
    assert (tmp_path / "deep").stat().st_mode & 0o777 == 0o700
    # 2 is FULL: the log is flushed before a commit is acknowledged.
    assert asking.rows(("PRAGMA synchronous", ())) == [(2,)]
    assert asking.rows(("PRAGMA journal_mode", ())) == [("wal",)]
    asking.connection.close()


def test_a_file_of_an_older_version_is_brought_up_to_date_with_what_it_has(tmp_path: Path) -> None:
    path, event = tmp_path / "old.db", new_event("a", "message", {"n": 1}, {"k": "v"})
    old = opened(path, patience=1, steps=STEPS[:1])
    done, head = advanced(KEY, None, event, expected=None, hook=None)
    for question in tables.writing(head, done.event):
        old.change(question)
    assert old.rows(("SELECT version FROM openskills_schema", ())) == [(1,)]
    old.connection.close()
    store = SqliteSessionStore(path)
    assert run(store.append(KEY, new_event("a", "message"))).revision == 2
    found = run(store.get(KEY))
    run(store.close())
    assert found is not None
    assert found.events[0] == done.event
    new = opened(path, patience=1)
    assert new.rows(("SELECT version FROM openskills_schema ORDER BY version", ())) == [(1,), (2,)]
    assert new.rows(("SELECT 1 FROM sqlite_master WHERE name = 'openskills_sessions_of_owner'", ())) == [(1,)]
    new.connection.close()


def test_a_step_that_fails_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    opened(path, patience=1, steps=STEPS[:1]).connection.close()
    with pytest.raises(SkillError, match="no such table: nowhere"):
        opened(path, patience=1, steps=(STEPS[0], ("CREATE TABLE half (x TEXT)", "INSERT INTO nowhere VALUES (1)")))
    again = opened(path, patience=1)
    assert again.rows(("SELECT 1 FROM sqlite_master WHERE name = 'half'", ())) == []
    assert again.rows(("SELECT max(version) FROM openskills_schema", ())) == [(len(STEPS),)]
    again.connection.close()


def test_a_file_of_a_newer_version_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    newer = opened(path, patience=1, steps=(*STEPS, ("CREATE TABLE of_tomorrow (x TEXT)",)))
    newer.connection.close()
    for _ in range(2):
        with pytest.raises(SkillError, match=rf"{path} was written by a newer OpenSkill: .* version 3"):
            opened(path, patience=1)
    again = sqlite3.connect(path)
    assert again.execute("SELECT max(version) FROM openskills_schema").fetchone() == (3,)
    again.close()


@pytest.mark.parametrize("content", [b"x", b"not a database" * 100, b"SQLite format 3\0" + b"\xff" * 5000])
def test_a_file_that_is_no_database_is_named_and_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.db"
    path.write_bytes(content)
    with pytest.raises(SkillError, match=rf"the session store {path} is .*no SQLite database"):
        opened(path, patience=1)
    assert path.read_bytes() == content


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    store = SqliteSessionStore(path)
    for number in range(50):
        run(store.append(KEY, new_event("a", "message", {"n": number, "text": "x" * 2000})))
    run(store.close())
    with path.open("r+b") as file:
        for page in range(3, 30):
            file.seek(page * 4096)
            file.write(os.urandom(4096))
    with pytest.raises(SkillError, match=rf"the session store {path} is damaged.*restore it from a backup") as raised:
        run(store.get(KEY))
    assert not raised.value.retryable
    run(store.close())


def test_a_directory_in_the_place_of_the_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SkillError, match=rf"the session store {tmp_path} cannot be used: it cannot be opened"):
        opened(tmp_path, patience=1)


def test_a_place_where_no_file_can_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    with pytest.raises(SkillError, match=r"x\.db cannot be opened or made: .*file"):
        opened(tmp_path / "file" / "x.db", patience=1)
