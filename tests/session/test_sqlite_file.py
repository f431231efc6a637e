"""One connection in one thread, which nobody shares by accident."""

import asyncio
import gc
import os
import sqlite3
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from pathlib import Path

import pytest

from openskills.errors import SessionsUnavailable, SkillError
from openskills.session.events import new_event
from openskills.session.sqlite import SqliteSessionStore
from openskills.session.sqlite_asking import Asking
from openskills.session.sqlite_file import SqliteFile
from openskills.session.store import SessionKey
from openskills.sync import run

KEY = SessionKey("app", "erika", "s1")
asked_by: ContextVar[str] = ContextVar("asked_by")


def test_threads_and_loops_use_one_connection_in_one_thread(tmp_path: Path) -> None:
    file = SqliteFile(tmp_path / "x.db", patience=5)
    with ThreadPoolExecutor(8) as threads:
        asking = [threads.submit(asyncio.run, file.use(lambda a: (threading.get_ident(), id(a)))) for _ in range(32)]
        used = [one.result() for one in asking]
    assert len(set(used)) == 1
    assert used[0][0] != threading.get_ident()
    run(file.close())


def test_work_sees_the_context_of_its_caller(tmp_path: Path) -> None:
    async def ask() -> str:
        asked_by.set("erika")
        return await file.use(lambda _: asked_by.get())

    file = SqliteFile(tmp_path / "x.db", patience=1)
    assert run(ask()) == "erika"
    run(file.close())


def test_the_loop_goes_on_while_others_write_and_the_writer_waits_for_them(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    store = SqliteSessionStore(path)
    run(store.append(KEY, new_event("a", "message")))
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")

    async def append_beside_the_other() -> tuple[int, bool, int]:
        appending = asyncio.ensure_future(store.append(KEY, new_event("a", "message")))
        # The loop turns, and who reads is answered; the append cannot end as long as the other has not.
        for _ in range(100):
            await asyncio.sleep(0.001)
        read = await store.get(KEY)
        assert read is not None
        waited = not appending.done()
        other.execute("COMMIT")
        return read.revision, waited, (await appending).revision

    assert run(append_beside_the_other()) == (1, True, 2)
    other.close()
    run(store.close())


def test_reading_does_not_wait_for_a_writer(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    store = SqliteSessionStore(path, patience=0.05)
    run(store.append(KEY, new_event("a", "message")))
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    other.execute("DELETE FROM openskills_events")
    found = run(store.get(KEY))
    assert found is not None
    assert found.revision == 1
    with pytest.raises(SessionsUnavailable, match="is busy"):
        run(store.append(KEY, new_event("a", "message")))
    other.close()
    assert run(store.append(KEY, new_event("a", "message"))).revision == 2
    run(store.close())


def test_a_file_that_is_removed_while_it_is_open_is_an_error_and_takes_no_more_events(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    store = SqliteSessionStore(path)
    run(store.append(KEY, new_event("a", "message")))
    for beside in tmp_path.iterdir():
        beside.unlink()
    with pytest.raises(SkillError, match=rf"the session store {path} was removed or replaced while it was in use"):
        run(store.append(KEY, new_event("a", "message")))
    assert run(store.append(KEY, new_event("a", "message"))).revision == 1
    run(store.close())


def test_a_cancelled_call_leaves_the_file_usable(tmp_path: Path) -> None:
    file = SqliteFile(tmp_path / "x.db", patience=1)
    go_on = threading.Event()

    def hold(_: Asking) -> bool:
        return go_on.wait(30)

    async def cancel() -> str:
        holding = asyncio.ensure_future(file.use(hold))
        waiting = asyncio.ensure_future(file.use(lambda _: "never"))
        await asyncio.sleep(0)
        for task in (holding, waiting):
            task.cancel()
        await asyncio.wait([holding, waiting])
        assert holding.cancelled()
        assert waiting.cancelled()
        go_on.set()
        return await file.use(lambda _: "used")

    assert run(cancel()) == "used"
    run(file.close())


def test_closing_twice_and_before_the_first_use_is_no_fault(tmp_path: Path) -> None:
    file = SqliteFile(tmp_path / "x.db", patience=1)
    run(file.close())
    assert not (tmp_path / "x.db").exists()
    run(file.use(lambda _: None))
    run(file.close())
    run(file.close())
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
