"""The history of a host: what is recorded is found again, whatever happens to the process or the disk."""

import asyncio
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from openskills.errors import InvalidArgument, UnknownRun
from openskills.host.books.database_opening import opened, rows
from openskills.host.books.history import History
from tests.host.results import record, refused, succeeded

KILLS = 20


def process(path: Path, number: int, mode: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.host.history_process", str(path), str(number), mode]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def test_what_was_recorded_is_listed_and_shown(tmp_path: Path) -> None:
    async def body() -> None:
        history = History(tmp_path / "host.db")
        records = [record(succeeded(), began=1e9), record(refused(), began=2e9)]
        for one in records:
            history.record(one)
        await history.close()
        later = History(tmp_path / "host.db", keep_days=100_000)
        assert [one.id for one in await later.list()] == [records[1].id]
        assert await later.list(failed=True, skill="echo", since=1.5e9, limit=5) == [records[1]]
        assert await later.show(records[1].id) == await later.show(records[1].id[:-2]) == records[1]
        assert later.lost == 0
        await later.close()

    asyncio.run(body())


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    async def body() -> None:
        history = History(tmp_path / "host.db")
        assert await history.list() == ()
        with pytest.raises(UnknownRun, match="there is no history"):
            await history.show("run_1")
        assert not (tmp_path / "host.db").exists()
        for _ in range(2):
            history.record(record())
        await history.close()
        with pytest.raises(UnknownRun, match="runs list"):
            await history.show("walk_1")
        with pytest.raises(InvalidArgument, match="several runs begin with"):
            await history.show("run_")
        await history.close()

    asyncio.run(body())


def test_a_history_that_is_off_keeps_nothing_and_costs_nothing() -> None:
    async def body() -> None:
        history = History(None)
        history.record(record())
        assert await history.list() == ()
        with pytest.raises(UnknownRun):
            await history.show("run_1")
        await history.close()
        assert history.lost == 0

    asyncio.run(body())


def test_a_full_disk_breaks_no_invocation_and_what_is_lost_is_counted(tmp_path: Path) -> None:
    child = process(tmp_path / "host.db", 0, "full")
    out, _ = child.communicate(timeout=100)
    lost, kept, quick = out.split()
    assert (child.returncode, quick) == (0, b"True")
    assert int(lost) > 0
    # Each of the 3,001 is either in the file or counted.
    assert int(lost) + int(kept) == 3_001


def test_processes_that_are_killed_leave_a_sound_file_without_holes(tmp_path: Path) -> None:
    path = tmp_path / "host.db"
    for first in range(0, KILLS, 2):
        # Two at a time: what is killed while it has the lock must not keep the other one out.
        children = [process(path, number, "endless") for number in (first, first + 1)]
        try:
            for child in children:
                assert child.stdout is not None
                assert child.stdout.readline() == b"begun\n"
            until_written(path, first, first + 1)
        finally:
            for child in children:
                child.kill()
                child.communicate(timeout=60)
        assert [child.returncode for child in children] == [-signal.SIGKILL] * 2
    with closing(opened(path, patience=30)) as connection:
        assert rows(connection, "PRAGMA integrity_check") == [("ok",)]
        question = "SELECT count(*), max(bytes_in), count(DISTINCT bytes_in) FROM history GROUP BY who"
        found = rows(connection, question)
    assert len(found) == KILLS
    # The rows of each are the first ones that it recorded: whole batches, in their order.
    assert all(number == highest + 1 == different for number, highest, different in found)


def until_written(path: Path, *numbers: int) -> None:
    """Wait for rows of each of these processes."""
    deadline = time.monotonic() + 60
    with closing(opened(path, patience=30)) as connection:
        question = "SELECT 1 FROM history WHERE who = ? LIMIT 1"
        while not all(rows(connection, question, (str(number),)) for number in numbers):
            assert time.monotonic() < deadline
            time.sleep(0.005)
