"""The history as rows."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pytest

from openskills.host.books.database_opening import opened, rows
from openskills.host.books.history_rows import find, find_one, forget, put
from tests.host.results import record, refused, succeeded


@pytest.fixture
def at() -> Iterator[sqlite3.Connection]:
    """An empty database."""
    with closing(opened(None, patience=1)) as connection:
        yield connection


def found(at: sqlite3.Connection, **wanted: object) -> list[float]:
    everything = {"skill": None, "failed": False, "since": None, "limit": 100, **wanted}
    return [one.began for one in find(at, **everything)]  # type: ignore[arg-type]


def test_rows_come_back_as_they_were_the_latest_first(at: sqlite3.Connection) -> None:
    records = [record(succeeded(), began=100.0), record(refused(), began=200.0)]
    put(at, records)
    assert find(at, skill=None, failed=False, since=None, limit=10) == records[::-1]


def test_rows_are_chosen_by_skill_failure_time_and_number(at: sqlite3.Connection) -> None:
    put(at, [record(succeeded("sum" if number % 2 else "echo"), began=float(number)) for number in range(10)])
    put(at, [record(refused("sum"), began=20.0)])
    assert found(at, skill="sum") == [20.0, 9.0, 7.0, 5.0, 3.0, 1.0]
    assert found(at, failed=True) == [20.0]
    assert found(at, since=8.0) == [20.0, 9.0, 8.0]
    assert found(at, limit=2) == [20.0, 9.0]
    assert found(at, skill="sum", since=5.0, limit=2) == [20.0, 9.0]
    assert found(at, skill="'; DROP TABLE history; --") == []


def test_one_row_is_found_by_its_id_or_how_it_begins_with_its_content(at: sqlite3.Connection) -> None:
    kept = replace(record(began=100.0), input=b"in", output=None)
    other = record(began=200.0)
    put(at, [kept, other])
    assert find_one(at, kept.id) == find_one(at, kept.id[:-4]) == [kept]
    assert find_one(at, "run_") == [kept, other]
    assert find_one(at, "nothing") == find_one(at, "%") == []


def test_the_same_row_twice_is_one_row(at: sqlite3.Connection) -> None:
    one = record()
    put(at, [one])
    put(at, [one, record()])
    assert len(found(at)) == 2


def test_half_characters_and_endless_numbers_are_kept_as_well_as_can_be(at: sqlite3.Connection) -> None:
    strange = replace(record(), message="half \ud800", code=10**30, trace_id="t\x00\u202e")
    put(at, [record(), strange, record()])
    (kept,) = find_one(at, strange.id)
    assert (kept.message, kept.code, kept.trace_id) == ("half ?", 2**63 - 1, "t\x00\u202e")
    assert len(found(at)) == 3


def test_what_is_old_goes_and_so_does_what_is_too_much(at: sqlite3.Connection) -> None:
    put(at, [replace(record(began=float(number)), input=b"x") for number in range(20)])
    assert forget(at, before=5.0, keep_rows=100) == 5
    assert min(found(at)) == 5.0
    assert forget(at, before=0.0, keep_rows=4) == 11
    assert found(at) == [19.0, 18.0, 17.0, 16.0]
    assert forget(at, before=0.0, keep_rows=4) == 0
    assert rows(at, "SELECT count(*) FROM history_content") == [(4,)]


def test_only_so_many_are_removed_at_once_that_nobody_waits_long(at: sqlite3.Connection) -> None:
    put(at, [record(began=float(number)) for number in range(3_000)])
    assert [forget(at, before=1e9, keep_rows=1) for _ in range(3)] == [2_000, 1_000, 0]
