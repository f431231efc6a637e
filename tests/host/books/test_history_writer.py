"""The thread that writes: what it takes, what it loses, and that it says so."""

import logging
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from openskills.host.books.database_opening import opened, rows, transaction
from openskills.host.books.history_writer import HistoryWriter
from tests.host.results import record

DAY = 24 * 60 * 60.0


def writer(path: Path, *, most: int = 100, keep_rows: int = 100_000, patience: float = 30) -> HistoryWriter:
    return HistoryWriter(path, keep_days=30, keep_rows=keep_rows, most=most, patience=patience)


def stored(path: Path) -> int:
    with closing(opened(path, patience=30)) as connection:
        return rows(connection, "SELECT count(*) FROM history")[0][0]


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_what_is_taken_is_written_without_being_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "host.db"
    one = writer(path)
    for _ in range(10):
        one.take(record())
    until(lambda: stored(path) == 10)
    one.take(record())
    until(lambda: stored(path) == 11)
    one.end()
    assert one.lost == 0


def test_the_end_writes_what_waits_and_ends_the_thread(tmp_path: Path) -> None:
    path = tmp_path / "host.db"
    one = writer(path, most=10_000)
    for _ in range(2_500):
        one.take(record())
    one.end()
    assert (stored(path), one.lost) == (2_500, 0)
    assert not any(thread.name == "openskills-history" for thread in threading.enumerate())
    one.take(record())
    one.end()
    assert stored(path) == 2_501


def test_what_is_taken_while_the_thread_ends_is_written_too(tmp_path: Path) -> None:
    path = tmp_path / "host.db"
    one = writer(path, most=100_000)
    taken = 0
    for _ in range(20):
        one.take(record())
        ending = threading.Thread(target=one.end)
        ending.start()
        taken += 1
        while ending.is_alive():
            one.take(record())
            taken += 1
            time.sleep(0.0001)
        ending.join()
    one.end()
    assert (stored(path), one.lost) == (taken, 0)


def test_a_writer_that_was_given_nothing_touches_nothing(tmp_path: Path) -> None:
    writer(tmp_path / "host.db").end()
    assert list(tmp_path.iterdir()) == []


def test_more_than_may_wait_is_lost_and_counted_while_nobody_is_kept_waiting(tmp_path: Path) -> None:
    path = tmp_path / "host.db"
    one = writer(path, most=20)
    with closing(opened(path, patience=30)) as other, transaction(other):
        for _ in range(50):
            one.take(record())
        assert one.lost >= 1
    one.end()
    assert stored(path) + one.lost == 50
    assert stored(path) >= 20


def test_a_disk_that_comes_back_loses_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "place" / "host.db"
    (tmp_path / "place").write_text("in the way")
    one = writer(path)
    with caplog.at_level(logging.WARNING, "openskills.host"):
        one.take(record())
        until(lambda: bool(caplog.records))
        (tmp_path / "place").unlink()
        one.take(record())
        until(lambda: path.exists() and stored(path) == 2)
    one.end()
    assert one.lost == 0


def test_a_disk_that_stays_away_is_said_once_and_what_waited_is_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "place").write_text("in the way")
    one = writer(tmp_path / "place" / "host.db", most=5)
    with caplog.at_level(logging.WARNING, "openskills.host"):
        for _ in range(8):
            one.take(record())
        until(lambda: bool(caplog.records))
        one.end()
    assert one.lost == 8
    (said,) = caplog.records
    assert "the history is not written" in said.getMessage()
    assert "cannot be used" in said.getMessage()


def test_old_rows_are_removed_while_new_ones_come(tmp_path: Path) -> None:
    path = tmp_path / "host.db"
    one = writer(path, keep_rows=5)
    for age in (40 * DAY, 31 * DAY, 29 * DAY, *[0.0] * 8):
        one.take(record(began=time.time() - age))
    one.end()
    assert stored(path) == 5
