"""The history of a host: what is recorded is found again, whatever happens to the process or the disk.

The history as rows.

The thread that writes: what it takes, what it loses, and that it says so.

One row of the history.
"""

import hashlib
import logging
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from openskills.errors import InvalidArgument, UnknownRun
from openskills.host.database import HOST_DATABASE
from openskills.host.history import (
    MAX_CONTENT_BYTES,
    History,
    RunFilter,
    RunRecord,
    delete_old_records,
    id_prefix,
    insert_records,
    mask_content,
    new_run_id,
    select_by_prefix,
    select_records,
)
from openskills.sql import SqliteConnection, open_sqlite, select_rows
from openskills.sync import run
from tests.host.results import record, refused, succeeded
from tests.long_form import LONG

KILLS = 20 if LONG else 8


def process(path: Path, number: int, mode: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.host.history_process", str(path), str(number), mode]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


async def test_what_was_recorded_is_listed_and_shown(tmp_path: Path) -> None:
    history = History(tmp_path / "host.db")
    records = [record(succeeded(), began=1e9), record(refused(), began=2e9)]
    for one in records:
        history.record(one)
    await history.close()
    later = History(tmp_path / "host.db", keep_days=100_000)
    assert [one.id for one in await later.list()] == [records[1].id]
    assert await later.list(RunFilter("echo", since=1.5e9, failed=True), limit=5) == [records[1]]
    assert await later.get(records[1].id) == await later.get(records[1].id[:-2]) == records[1]
    assert later.lost_count == 0
    await later.close()


async def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    history = History(tmp_path / "host.db")
    assert await history.list() == ()
    with pytest.raises(UnknownRun, match="no history has been recorded"):
        await history.get("run_1")
    assert not (tmp_path / "host.db").exists()
    for _ in range(2):
        history.record(record())
    await history.close()
    with pytest.raises(UnknownRun, match="runs list"):
        await history.get("walk_1")
    with pytest.raises(InvalidArgument, match="several runs start with"):
        await history.get("run_")
    await history.close()


async def test_a_run_is_found_by_its_trace_id(tmp_path: Path) -> None:
    history = History(tmp_path / "host.db")
    records = [record()._replace(trace_id=name) for name in ("one", "two", "two")]
    for one in records:
        history.record(one)
    await history.close()
    assert await history.get("one") == records[0]
    with pytest.raises(InvalidArgument, match="several runs have this trace id; use an id, such as run_"):
        await history.get("two")
    await history.close()


async def test_a_history_that_is_off_keeps_nothing_and_costs_nothing() -> None:
    history = History(None)
    history.record(record())
    assert await history.list() == ()
    with pytest.raises(UnknownRun):
        await history.get("run_1")
    await history.close()
    assert history.lost_count == 0


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
    with closing(open_sqlite(path, HOST_DATABASE, timeout=30)) as connection:
        assert select_rows(connection, "PRAGMA integrity_check") == [("ok",)]
        question = "SELECT count(*), max(bytes_in), count(DISTINCT bytes_in) FROM history GROUP BY who"
        found = select_rows(connection, question)
    assert len(found) == KILLS
    # The rows of each are the first ones that it recorded: whole batches, in their order.
    assert all(number == highest + 1 == different for number, highest, different in found)


def until_written(path: Path, *numbers: int) -> None:
    """Wait for rows of each of these processes."""
    deadline = time.monotonic() + 60
    with closing(open_sqlite(path, HOST_DATABASE, timeout=30)) as connection:
        question = "SELECT 1 FROM history WHERE who = ? LIMIT 1"
        while not all(select_rows(connection, question, (str(number),)) for number in numbers):
            assert time.monotonic() < deadline
            time.sleep(0.005)


@pytest.fixture
def at() -> Iterator[SqliteConnection]:
    """An empty database."""
    with closing(open_sqlite(None, HOST_DATABASE, timeout=1)) as connection:
        yield connection


def found(at: SqliteConnection, *, limit: int = 100, **wanted: Any) -> list[float]:
    return [one.began for one in select_records(at, RunFilter(**wanted), limit)]


def test_rows_come_back_as_they_were_the_latest_first(at: SqliteConnection) -> None:
    records = [record(succeeded(), began=100.0), record(refused(), began=200.0)]
    insert_records(at, records)
    assert select_records(at, RunFilter(), 10) == records[::-1]


def test_rows_are_chosen_by_skill_failure_time_and_number(at: SqliteConnection) -> None:
    insert_records(
        at, [record(succeeded("sum" if number % 2 else "echo"), began=float(number)) for number in range(10)]
    )
    insert_records(at, [record(refused("sum"), began=20.0)])
    assert found(at, skill="sum") == [20.0, 9.0, 7.0, 5.0, 3.0, 1.0]
    assert found(at, failed=True) == [20.0]
    assert found(at, since=8.0) == [20.0, 9.0, 8.0]
    assert found(at, limit=2) == [20.0, 9.0]
    assert found(at, skill="sum", since=5.0, limit=2) == [20.0, 9.0]
    assert found(at, skill="'; DROP TABLE history; --") == []


def test_one_row_is_found_by_its_id_or_how_it_begins_with_its_content(at: SqliteConnection) -> None:
    kept = record(began=100.0)._replace(input=b"in", output=None)
    other = record(began=200.0)
    insert_records(at, [kept, other])
    assert select_by_prefix(at, kept.id) == select_by_prefix(at, kept.id[:-4]) == [kept]
    assert select_by_prefix(at, "run_") == [kept, other]
    assert select_by_prefix(at, "nothing") == select_by_prefix(at, "%") == []


def test_the_same_row_twice_is_one_row(at: SqliteConnection) -> None:
    one = record()
    insert_records(at, [one])
    insert_records(at, [one, record()])
    assert len(found(at)) == 2


def test_half_characters_and_endless_numbers_are_kept_as_well_as_can_be(at: SqliteConnection) -> None:
    strange = record()._replace(message="half \ud800", code=10**30, trace_id="t\x00\u202e")
    insert_records(at, [record(), strange, record()])
    (kept,) = select_by_prefix(at, strange.id)
    assert (kept.message, kept.code, kept.trace_id) == ("half ?", 2**63 - 1, "t\x00\u202e")
    assert len(found(at)) == 3


def test_what_is_old_goes_and_so_does_what_is_too_much(at: SqliteConnection) -> None:
    insert_records(at, [record(began=float(number))._replace(input=b"x") for number in range(20)])
    assert delete_old_records(at, before=5.0, keep_rows=100) == 5
    assert min(found(at)) == 5.0
    assert delete_old_records(at, before=0.0, keep_rows=4) == 11
    assert found(at) == [19.0, 18.0, 17.0, 16.0]
    assert delete_old_records(at, before=0.0, keep_rows=4) == 0
    assert select_rows(at, "SELECT count(*) FROM history_content") == [(4,)]


def test_only_so_many_are_removed_at_once_that_nobody_waits_long(at: SqliteConnection) -> None:
    insert_records(at, [record(began=float(number)) for number in range(3_000)])
    assert [delete_old_records(at, before=1e9, keep_rows=1) for _ in range(3)] == [2_000, 1_000, 0]


DAY = 24 * 60 * 60.0


def writer(path: Path, *, max_pending: int = 100, keep_rows: int = 100_000, timeout: float = 30) -> History:
    return History(path, 30.0, keep_rows, max_pending=max_pending, timeout=timeout)


def stored(path: Path) -> int:
    with closing(open_sqlite(path, HOST_DATABASE, timeout=30)) as connection:
        return select_rows(connection, "SELECT count(*) FROM history")[0][0]


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_what_is_taken_is_written_without_being_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "host.db"
    one = writer(path)
    for _ in range(10):
        one.record(record())
    until(lambda: stored(path) == 10)
    one.record(record())
    until(lambda: stored(path) == 11)
    run(one.close())
    assert one.lost_count == 0


def test_the_end_writes_what_waits_and_ends_the_thread(tmp_path: Path) -> None:
    path = tmp_path / "host.db"
    one = writer(path, max_pending=10_000)
    for _ in range(2_500):
        one.record(record())
    run(one.close())
    assert (stored(path), one.lost_count) == (2_500, 0)
    assert not any(thread.name == "openskills-history" for thread in threading.enumerate())
    one.record(record())
    run(one.close())
    assert stored(path) == 2_501


def test_what_is_taken_while_the_thread_ends_is_written_too(tmp_path: Path) -> None:
    path = tmp_path / "host.db"
    one = writer(path, max_pending=100_000)
    taken = 0
    for _ in range(20):
        one.record(record())
        ending = threading.Thread(target=lambda: run(one.close()))
        ending.start()
        taken += 1
        while ending.is_alive():
            one.record(record())
            taken += 1
            time.sleep(0.0001)
        ending.join()
    run(one.close())
    assert (stored(path), one.lost_count) == (taken, 0)


def test_a_writer_that_was_given_nothing_touches_nothing(tmp_path: Path) -> None:
    run(writer(tmp_path / "host.db").close())
    assert list(tmp_path.iterdir()) == []


def test_more_than_may_wait_is_lost_and_counted_while_nobody_is_kept_waiting(tmp_path: Path) -> None:
    path = tmp_path / "host.db"
    one = writer(path, max_pending=20)
    with closing(open_sqlite(path, HOST_DATABASE, timeout=30)) as other, other.transaction():
        for _ in range(50):
            one.record(record())
        assert one.lost_count >= 1
    run(one.close())
    assert stored(path) + one.lost_count == 50
    assert stored(path) >= 20


def test_a_disk_that_comes_back_loses_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "place" / "host.db"
    (tmp_path / "place").write_text("in the way")
    one = writer(path)
    with caplog.at_level(logging.WARNING, "openskills.host"):
        one.record(record())
        until(lambda: bool(caplog.records))
        (tmp_path / "place").unlink()
        one.record(record())
        until(lambda: path.exists() and stored(path) == 2)
    run(one.close())
    assert one.lost_count == 0


def test_a_disk_that_stays_away_is_said_once_and_what_waited_is_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "place").write_text("in the way")
    one = writer(tmp_path / "place" / "host.db", max_pending=5)
    with caplog.at_level(logging.WARNING, "openskills.host"):
        for _ in range(8):
            one.record(record())
        until(lambda: bool(caplog.records))
        run(one.close())
    assert one.lost_count == 8
    (said,) = caplog.records
    assert "cannot write the history" in said.getMessage()
    assert "cannot be used" in said.getMessage()


def test_old_rows_are_removed_while_new_ones_come(tmp_path: Path) -> None:
    path = tmp_path / "host.db"
    one = writer(path, keep_rows=5)
    for age in (40 * DAY, 31 * DAY, 29 * DAY, *[0.0] * 8):
        one.record(record(began=time.time() - age))
    run(one.close())
    assert stored(path) == 5


def test_a_success_is_recorded_with_sizes_and_the_digest_of_the_input() -> None:
    body = b'{"input": {"text": "hi"}}'
    found = record(succeeded(), body=body, began=1_700_000_000.0)
    assert (found.success, found.code, found.message) == (True, 200, "")
    assert (found.bytes_in, found.bytes_out) == (len(body), 9)
    assert found.input_digest == hashlib.sha256(body).hexdigest()
    assert (found.input, found.output) == (None, None)


def test_a_failure_is_recorded_with_its_message_cut_where_it_is_long() -> None:
    found = record(refused(error=InvalidArgument("text", "x" * 5_000)))
    assert (found.success, found.code) == (False, 400)
    assert len(found.message) == 1_000


def test_for_programs_times_are_text_and_contents_are_there_only_when_kept() -> None:
    found = record(began=1_700_000_000.25).to_dict()
    assert found["began"] == "2023-11-14T22:13:20.250+00:00"
    assert "input" not in found
    kept = RunRecord("id", "t", "ci", "echo", "1", "inproc", 0.0, 1.0, True, 200, input=b"\xff{}", output=None)
    assert kept.to_dict()["input"] == "�{}"


def test_ids_cannot_be_guessed_and_are_in_the_order_of_time() -> None:
    ids = [new_run_id(at) for at in (0.0, 1.0, 1_700_000_000.0, 1_700_000_000.001, 4_000_000_000.0)]
    assert ids == sorted(ids)
    assert len({new_run_id(5.0) for _ in range(100)}) == 100
    assert id_prefix(1_700_000_000.0) <= ids[2] < id_prefix(1_700_000_000.001) <= ids[3]


def test_secrets_are_never_kept() -> None:
    content = b'{"echoed": "the word is hunter2!"}'
    assert mask_content(content, {"TOKEN": "hunter2!"}) == b'{"echoed": "the word is [secret TOKEN]"}'
    kept = record().with_content(b'{"input": "hunter2!"}', content, {"TOKEN": "hunter2!"})
    assert (kept.input, b"hunter2!" in (kept.output or b"")) == (b'{"input": "[secret TOKEN]"}', False)


def test_not_too_much_of_a_content_is_kept_and_the_rest_is_counted() -> None:
    found = mask_content(b"x" * (MAX_CONTENT_BYTES + 1_500), {})
    assert found.startswith(b"x" * MAX_CONTENT_BYTES)
    assert found.endswith(b"[... 1,500 more bytes]")


async def test_when_bodies_cannot_be_written_rows_wait_without_them(tmp_path: Path) -> None:
    history = History(tmp_path / "host.db", max_content=10)
    records = [record(succeeded())._replace(input=b"12345", output=b"6") for _ in range(3)]
    for one in records[:2]:
        history.record(one)
    await history.close()
    history.record(records[2])
    await history.close()
    try:
        assert [(await history.get(one.id)).input for one in records] == [b"12345", None, b"12345"]
    finally:
        await history.close()
