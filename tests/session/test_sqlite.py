"""Conversations in a file: `test_durable_stores.py` has what all durable stores do; here is what only this one does."""

import sqlite3
import subprocess
import sys
from pathlib import Path

from openskills.session.events import new_event
from openskills.session.sqlite import SqliteSessionStore
from openskills.session.store import SessionKey
from openskills.sync import run
from tests.servers.started import own_directory

KEY = SessionKey("app", "erika", "s1")


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
            run(store._writing.use(lambda asking: asking.connection.set_progress_handler(handler, 1)))  # pyright: ignore[reportArgumentType, reportPrivateUsage, reportUnknownLambdaType]

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


def test_a_file_that_this_user_may_not_write_to_is_named() -> None:
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
        run(store.append(KEY, new_event("a", "message")))
        run(store.close())
        (place / "x.db").chmod(0o444)
        place.chmod(0o555)
        command = [sys.executable, "-c", program, place / "x.db"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        place.chmod(0o700)
    assert "check the owner and mode of the file and its directory" in done.stdout, done


def test_other_tables_in_the_same_file_are_left_alone(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "x.db")
    connection.execute("CREATE TABLE sessions (x TEXT)")
    connection.execute("INSERT INTO sessions VALUES ('of somebody else')")
    connection.commit()
    store = SqliteSessionStore(tmp_path / "x.db")
    run(store.append(KEY, new_event("a", "message")))
    run(store.close())
    assert connection.execute("SELECT x FROM sessions").fetchall() == [("of somebody else",)]
    connection.close()
