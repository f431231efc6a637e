"""Conversations in a file: `test_durable_stores.py` has what all durable stores do; here is what only this one does.

Tables are made in steps that a database remembers.

Questions to SQLite happen in transactions, and what goes wrong is said about the file.

One connection in one thread, which nobody shares by accident.

A file is made, brought up to date, or refused with the reason.
"""

import asyncio
import gc
import os
import re
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path

import pytest

from openskills.errors import SessionsUnavailable, SkillError
from openskills.session import tables
from openskills.session.events import new_event
from openskills.session.sqlite import SESSION_DATABASE, SESSION_MIGRATIONS, SqliteSessionStore
from openskills.session.store import SessionKey, advance_head
from openskills.sql import (
    DatabaseThreads,
    MigrationStep,
    SqliteConnection,
    SqliteHandle,
    find_missing_steps,
    open_sqlite,
)
from openskills.sync import run
from tests.servers.started import own_directory

KEY = SessionKey("app", "erika", "s1")


def open_database(
    path: Path, *, timeout: float, steps: tuple[MigrationStep, ...] = SESSION_MIGRATIONS
) -> SqliteConnection:
    return open_sqlite(path, replace(SESSION_DATABASE, steps=steps), timeout=timeout)


def open_thread(path: Path, *, timeout: float) -> DatabaseThreads[SqliteConnection]:
    return DatabaseThreads(lambda: SqliteHandle(path, SESSION_DATABASE, timeout))


def test_making_one_touches_nothing(tmp_path: Path) -> None:
    SqliteSessionStore(tmp_path / "deep" / "x.db")
    assert list(tmp_path.iterdir()) == []


def test_the_work_of_an_append_does_not_grow_with_the_log(tmp_path: Path) -> None:
    def work() -> int:
        """The steps of SQLite's machine that one append takes."""
        count = 0

        def one() -> int:
            nonlocal count
            count += 1
            return 0

        def watch(handler: object) -> None:
            run(store._writing.use(lambda asking: asking.set_progress_handler(handler, 1)))  # pyright: ignore[reportArgumentType, reportPrivateUsage, reportUnknownLambdaType]

        watch(one)
        run(store.append(KEY, new_event("a", "message", {}, {"last": "x"})))
        watch(None)
        return count

    store = SqliteSessionStore(tmp_path / "x.db")
    run(store.append(KEY, new_event("a", "message")))
    short = work()
    for _ in range(2_000):
        run(store.append(KEY, new_event("a", "message")))
    assert 0 < work() <= short + 20
    run(store.close())


def test_a_disk_that_takes_no_more_is_reported_and_what_was_there_stays(tmp_path: Path) -> None:
    # A limit on the size of files stands for a full disk.
    program = """
import resource, sys
from openskills.errors import SkillError
from openskills.session.events import new_event
from openskills.session.sqlite import SqliteSessionStore
from openskills.session.store import SessionKey
from openskills.sync import run

key, store = SessionKey("app", "erika", "s1"), SqliteSessionStore(sys.argv[1])
run(store.append(key, new_event("a", "message", {"text": "first"})))
_, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, hard))
stored = 1
try:
    for _ in range(100):
        run(store.append(key, new_event("a", "message", {"text": "x" * 10_000})))
        stored += 1
except SkillError as error:
    print(error)
print(run(store.get(key)).revision == stored)
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
print(run(store.append(key, new_event("a", "message"))).revision == stored + 1)
"""
    path = tmp_path / "x.db"
    done = subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True, check=True, timeout=60)
    said, intact, goes_on = done.stdout.splitlines()
    assert said.startswith(f"the session store {path} cannot be used: ")
    assert (intact, goes_on) == ("True", "True")


async def test_a_file_that_this_user_may_not_write_to_is_named() -> None:
    program = """
import os, sys
from openskills.errors import SkillError
from openskills.session.events import new_event
from openskills.session.sqlite import SqliteSessionStore
from openskills.session.store import SessionKey
from openskills.sync import run

if os.geteuid() == 0:
    os.setuid(65534)
try:
    run(SqliteSessionStore(sys.argv[1]).append(SessionKey("app", "erika", "s1"), new_event("a", "message")))
except SkillError as error:
    print(error)
"""
    with own_directory("readonly") as place:
        store = SqliteSessionStore(place / "x.db")
        await store.append(KEY, new_event("a", "message"))
        await store.close()
        (place / "x.db").chmod(0o444)
        place.chmod(0o555)
        command = [sys.executable, "-c", program, place / "x.db"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        place.chmod(0o700)
    assert "check the owner and mode of the file and its directory" in done.stdout, done


async def test_other_tables_in_the_same_file_are_left_alone(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "x.db")
    connection.execute("CREATE TABLE sessions (x TEXT)")
    connection.execute("INSERT INTO sessions VALUES ('of somebody else')")
    connection.commit()
    store = SqliteSessionStore(tmp_path / "x.db")
    await store.append(KEY, new_event("a", "message"))
    await store.close()
    assert connection.execute("SELECT x FROM sessions").fetchall() == [("of somebody else",)]
    connection.close()


def test_an_empty_database_has_every_step_before_it() -> None:
    assert [number for number, _ in find_missing_steps(0, place="here", steps=SESSION_MIGRATIONS)] == list(
        range(1, len(SESSION_MIGRATIONS) + 1)
    )


def test_a_database_of_today_has_none() -> None:
    assert find_missing_steps(len(SESSION_MIGRATIONS), place="here", steps=SESSION_MIGRATIONS) == []


def test_an_older_database_has_the_newer_steps_before_it() -> None:
    steps = (("one",), ("two", "and a half"), ("three",))
    assert find_missing_steps(1, place="here", steps=steps) == [(2, ("two", "and a half")), (3, ("three",))]


def test_a_database_of_a_newer_version_is_refused_with_what_to_do() -> None:
    expected = "the place was written by a newer OpenSkill: its schema version is 9, this one supports 1; upgrade"
    with pytest.raises(SkillError, match=re.escape(expected)):
        find_missing_steps(9, place="the place", steps=(("one",),))


@pytest.fixture
def asking(tmp_path: Path) -> Generator[SqliteConnection]:
    connection = open_database(tmp_path / "x.db", timeout=0)
    connection.execute("CREATE TABLE t (x TEXT)")
    yield connection
    connection.close()


def test_arguments_are_values_and_nothing_else(asking: SqliteConnection) -> None:
    hostile = "'); DROP TABLE t; --"
    assert asking.execute_update(("INSERT INTO t VALUES ($1)", (hostile,))) == 1
    assert asking.fetch_rows(("SELECT x FROM t WHERE x = $1", (hostile,))) == [(hostile,)]


def test_an_error_in_the_block_takes_everything_back(asking: SqliteConnection) -> None:
    def write_and_fail() -> None:
        with asking.transaction("IMMEDIATE"):
            asking.execute_update(("INSERT INTO t VALUES ($1)", ("x",)))
            raise LookupError

    with pytest.raises(LookupError):
        write_and_fail()
    assert asking.fetch_rows(("SELECT x FROM t", ())) == []
    with asking.transaction("IMMEDIATE"):
        asking.execute_update(("INSERT INTO t VALUES ($1)", ("y",)))
    assert asking.fetch_rows(("SELECT x FROM t", ())) == [("y",)]


def test_a_file_that_somebody_else_writes_to_for_too_long_is_busy_and_can_be_tried_again(
    asking: SqliteConnection,
) -> None:
    other = sqlite3.connect(str(asking.path), isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(SessionsUnavailable, match=r"x\.db is busy: timed out waiting for other writers; try") as raised:
        asking.execute_update(("INSERT INTO t VALUES ('x')", ()))
    assert raised.value.retryable
    other.close()
    assert asking.execute_update(("INSERT INTO t VALUES ('x')", ())) == 1


def test_what_else_sqlite_says_is_said_with_its_own_name(asking: SqliteConnection) -> None:
    with pytest.raises(SkillError, match="cannot be used: no such table: nowhere") as raised:
        asking.fetch_rows(("SELECT * FROM nowhere", ()))
    assert raised.value.details["sqlite"] == "SQLITE_ERROR"
    assert not raised.value.retryable


asked_by: ContextVar[str] = ContextVar("asked_by")


async def test_threads_and_loops_use_one_connection_in_one_thread(tmp_path: Path) -> None:
    file = open_thread(tmp_path / "x.db", timeout=5)
    with ThreadPoolExecutor(8) as threads:
        asking = [threads.submit(asyncio.run, file.use(lambda a: (threading.get_ident(), id(a)))) for _ in range(32)]
        used = [one.result() for one in asking]
    assert len(set(used)) == 1
    assert used[0][0] != threading.get_ident()
    await file.close()


async def test_work_sees_the_context_of_its_caller(tmp_path: Path) -> None:
    file = open_thread(tmp_path / "x.db", timeout=1)
    asked_by.set("erika")
    assert await file.use(lambda _: asked_by.get()) == "erika"
    await file.close()


async def test_the_loop_goes_on_while_others_write_and_the_writer_waits_for_them(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    store = SqliteSessionStore(path)
    await store.append(KEY, new_event("a", "message"))
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")

    appending = asyncio.ensure_future(store.append(KEY, new_event("a", "message")))
    # The loop turns, and who reads is answered; the append cannot end as long as the other has not.
    for _ in range(100):
        await asyncio.sleep(0.001)
    read = await store.get(KEY)
    assert read is not None
    waited = not appending.done()
    other.execute("COMMIT")
    assert (read.revision, waited, (await appending).revision) == (1, True, 2)
    other.close()
    await store.close()


async def test_reading_does_not_wait_for_a_writer(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    store = SqliteSessionStore(path, timeout=0.05)
    await store.append(KEY, new_event("a", "message"))
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    other.execute("DELETE FROM openskills_events")
    found = await store.get(KEY)
    assert found is not None
    assert found.revision == 1
    with pytest.raises(SessionsUnavailable, match="is busy"):
        await store.append(KEY, new_event("a", "message"))
    other.close()
    assert (await store.append(KEY, new_event("a", "message"))).revision == 2
    await store.close()


async def test_a_file_that_is_removed_while_it_is_open_is_an_error_and_takes_no_more_events(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    store = SqliteSessionStore(path)
    await store.append(KEY, new_event("a", "message"))
    for beside in tmp_path.iterdir():
        beside.unlink()
    with pytest.raises(SkillError, match=rf"the session store {path} was removed or replaced while it was in use"):
        await store.append(KEY, new_event("a", "message"))
    assert (await store.append(KEY, new_event("a", "message"))).revision == 1
    await store.close()


async def test_closing_leaves_the_log_of_a_database_that_took_the_place_of_the_file(tmp_path: Path) -> None:
    old, new = (SqliteSessionStore(tmp_path / "x.db") for _ in range(2))
    await old.append(KEY, new_event("a", "message"))
    for beside in tmp_path.iterdir():
        beside.unlink()
    await new.append(KEY, new_event("a", "message"))
    await old.close()
    assert (tmp_path / "x.db-wal").exists()
    await new.close()


async def test_a_cancelled_call_leaves_the_file_usable(tmp_path: Path) -> None:
    file = open_thread(tmp_path / "x.db", timeout=1)
    go_on = threading.Event()

    def hold(_: SqliteConnection) -> bool:
        return go_on.wait(30)

    holding = asyncio.ensure_future(file.use(hold))
    waiting = asyncio.ensure_future(file.use(lambda _: "never"))
    await asyncio.sleep(0)
    for task in (holding, waiting):
        task.cancel()
    await asyncio.wait([holding, waiting])
    assert holding.cancelled()
    assert waiting.cancelled()
    go_on.set()
    assert await file.use(lambda _: "used") == "used"
    await file.close()


async def test_closing_twice_and_before_the_first_use_is_not_a_fault(tmp_path: Path) -> None:
    file = open_thread(tmp_path / "x.db", timeout=1)
    await file.close()
    assert not (tmp_path / "x.db").exists()
    await file.use(lambda _: None)
    await file.close()
    await file.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.db"]


def test_a_store_that_everybody_has_forgotten_closes_its_file(tmp_path: Path) -> None:
    store = SqliteSessionStore(tmp_path / "x.db")
    run(store.append(KEY, new_event("a", "message")))
    before = open_files(tmp_path)
    del store
    gc.collect()
    deadline = threading.Event()
    for _ in range(1000):
        if not open_files(tmp_path) or deadline.wait(0.01):
            break
    assert before
    assert not open_files(tmp_path)


def open_files(directory: Path) -> list[str]:
    found: list[str] = []
    for number in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{number}")
        except FileNotFoundError:
            continue
        if target.startswith(str(directory)):
            found.append(target)
    return found


FORKS = """
import os, sys
from openskills.session.events import new_event
from openskills.session.sqlite import SqliteSessionStore
from openskills.session.store import SessionKey
from openskills.sync import run

key, store = SessionKey("app", "erika", "s1"), SqliteSessionStore(sys.argv[1])
for turn in range(5):
    run(store.append(key, new_event("a", "message", {"by": os.getpid()})))
    child = os.fork()
    if not child:
        for _ in range(3):
            run(store.append(key, new_event("a", "message", {"by": os.getpid()})))
        os._exit(0)
    run(store.append(key, new_event("a", "message", {"by": os.getpid()})))
    assert os.waitpid(child, 0)[1] == 0
print(run(store.get(key)).revision)
"""


def test_a_forked_child_gets_a_connection_of_its_own(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORKS, tmp_path / "x.db"], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "25\n"
    connection = sqlite3.connect(tmp_path / "x.db")
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()


def test_a_new_file_is_for_the_owner_only_and_survives_a_power_cut(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        asking = open_database(tmp_path / "deep" / "x.db", timeout=1)
    finally:
        os.umask(before)
    with asking.transaction("IMMEDIATE"):
        asking.execute_update(("INSERT INTO openskills_schema VALUES (0)", ()))
    modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "deep").iterdir()}
    assert modes == {"x.db": 0o600, "x.db-wal": 0o600, "x.db-shm": 0o600}
    assert (tmp_path / "deep").stat().st_mode & 0o777 == 0o700
    # 2 is FULL: the log is flushed before a commit is acknowledged.
    assert asking.fetch_rows(("PRAGMA synchronous", ())) == [(2,)]
    assert asking.fetch_rows(("PRAGMA journal_mode", ())) == [("wal",)]
    asking.close()


async def test_a_file_of_an_older_version_is_brought_up_to_date_with_what_it_has(tmp_path: Path) -> None:
    path, event = tmp_path / "old.db", new_event("a", "message", {"n": 1}, {"k": "v"})
    old = open_database(path, timeout=1, steps=SESSION_MIGRATIONS[:1])
    done, head = advance_head(KEY, None, event, expected=None, hook=None)
    for question in tables.build_write_queries(head, done.event):
        old.execute_update(question)
    assert old.fetch_rows(("SELECT version FROM openskills_schema", ())) == [(1,)]
    old.close()
    store = SqliteSessionStore(path)
    assert (await store.append(KEY, new_event("a", "message"))).revision == 2
    found = await store.get(KEY)
    await store.close()
    assert found is not None
    assert found.events[0] == done.event
    new = open_database(path, timeout=1)
    assert new.fetch_rows(("SELECT version FROM openskills_schema ORDER BY version", ())) == [(1,), (2,), (3,)]
    assert new.fetch_rows(("SELECT 1 FROM sqlite_master WHERE name = 'openskills_sessions_of_owner'", ())) == [(1,)]
    new.close()


def test_a_step_that_fails_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    open_database(path, timeout=1, steps=SESSION_MIGRATIONS[:1]).close()
    with pytest.raises(SkillError, match="no such table: nowhere"):
        open_database(
            path,
            timeout=1,
            steps=(SESSION_MIGRATIONS[0], ("CREATE TABLE half (x TEXT)", "INSERT INTO nowhere VALUES (1)")),
        )
    again = open_database(path, timeout=1)
    assert again.fetch_rows(("SELECT 1 FROM sqlite_master WHERE name = 'half'", ())) == []
    assert again.fetch_rows(("SELECT max(version) FROM openskills_schema", ())) == [(len(SESSION_MIGRATIONS),)]
    again.close()


def test_a_file_of_a_newer_version_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    newer = open_database(path, timeout=1, steps=(*SESSION_MIGRATIONS, ("CREATE TABLE of_tomorrow (x TEXT)",)))
    newer.close()
    for _ in range(2):
        with pytest.raises(SkillError, match=rf"{path} was written by a newer OpenSkill: .* version is 4"):
            open_database(path, timeout=1)
    again = sqlite3.connect(path)
    assert again.execute("SELECT max(version) FROM openskills_schema").fetchone() == (4,)
    again.close()


@pytest.mark.parametrize("content", [b"x", b"not a database" * 100, b"SQLite format 3\0" + b"\xff" * 5000])
def test_a_file_that_is_not_a_database_is_named_and_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.db"
    path.write_bytes(content)
    with pytest.raises(SkillError, match=rf"the session store {path} is .*not an SQLite database"):
        open_database(path, timeout=1)
    assert path.read_bytes() == content


async def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    store = SqliteSessionStore(path)
    for number in range(50):
        await store.append(KEY, new_event("a", "message", {"n": number, "text": "x" * 2000}))
    await store.close()
    with path.open("r+b") as file:
        for page in range(3, 30):
            file.seek(page * 4096)
            file.write(os.urandom(4096))
    with pytest.raises(SkillError, match=rf"the session store {path} is damaged.*restore it from a backup") as raised:
        await store.get(KEY)
    assert not raised.value.retryable
    await store.close()


def test_a_directory_in_the_place_of_the_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SkillError, match=rf"the session store {tmp_path} cannot be used: it cannot be opened"):
        open_database(tmp_path, timeout=1)


def test_a_place_where_no_file_can_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    with pytest.raises(SkillError, match=r"x\.db cannot be opened or created: .*file"):
        open_database(tmp_path / "file" / "x.db", timeout=1)
