"""Runs and their events as rows."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pytest

from openskills.host.books import run_rows
from openskills.host.books.database_opening import opened, rows
from openskills.host.books.run_output import Shown
from openskills.host.books.run_states import Run, RunState, ended
from tests.host.results import succeeded

RUN = Run("run_1", "ci", "echo", "t-1", "0.1.0", RunState.QUEUED, "worker-a", 1_000.0)


@pytest.fixture
def at() -> Iterator[sqlite3.Connection]:
    """A database with one run."""
    with closing(opened(None, patience=1)) as connection:
        run_rows.put(connection, RUN, 1_000.0)
        yield connection


def found(at: sqlite3.Connection, run_id: str = "run_1") -> Run:
    one = run_rows.get(at, run_id)
    assert one is not None
    return one[0]


def test_a_run_comes_back_as_it_was_with_the_time_of_its_worker(at: sqlite3.Connection) -> None:
    assert run_rows.get(at, "run_1") == (RUN, 1_000.0)
    run_rows.beat(at, "worker-a", 1_005.0)
    assert run_rows.get(at, "run_1") == (RUN, 1_005.0)
    assert run_rows.get(at, "run_2") is None


def test_events_are_numbered_from_one_and_make_the_run_running(at: sqlite3.Connection) -> None:
    run_rows.add_events(at, "run_1", [Shown("stdout", 1.0, b"1"), Shown("stdout", 2.0, b"2")], 1_001.0)
    run_rows.add_events(at, "run_1", [Shown("stderr", 3.0, b"3")], 1_002.0)
    run, _, events = run_rows.events_after(at, "run_1", 0, 100)
    assert (run.state, run.started) == (RunState.RUNNING, 1_001.0)
    assert [(one.id, one.kind, one.data) for one in events] == [
        (1, "stdout", b"1"),
        (2, "stdout", b"2"),
        (3, "stderr", b"3"),
    ]
    assert [one.id for one in run_rows.events_after(at, "run_1", 1, 100)[2]] == [2, 3]
    assert [one.id for one in run_rows.events_after(at, "run_1", 0, 1)[2]] == [1]
    with pytest.raises(LookupError):
        run_rows.events_after(at, "run_2", 0, 1)


def test_the_last_event_is_the_result_which_is_stored_once(at: sqlite3.Connection) -> None:
    done = ended(RUN, RunState.SUCCEEDED, succeeded(), 1_003.0, cut=5)
    run_rows.end(at, done, [Shown("stdout", 1.0, b"1")])
    assert found(at) == done
    *_, last = run_rows.events_after(at, "run_1", 0, 100)[2]
    assert (last.id, last.kind) == (2, "result")
    assert json.loads(last.data)["data"] == {"echoed": "hi"}
    assert rows(at, "SELECT sum(length(data)) FROM run_events WHERE kind = 'result'") == [(0,)]


def test_who_wants_to_cancel_is_heard_by_the_worker_of_the_run(at: sqlite3.Connection) -> None:
    assert run_rows.to_cancel(at, "worker-a") == []
    run_rows.request_cancel(at, "run_1")
    assert found(at).cancel
    assert run_rows.to_cancel(at, "worker-a") == ["run_1"]
    assert run_rows.to_cancel(at, "worker-b") == []
    run_rows.end(at, ended(RUN, RunState.CANCELLED, succeeded(), 1_003.0), ())
    assert run_rows.to_cancel(at, "worker-a") == []


def test_runs_of_a_worker_that_is_silent_become_interrupted(at: sqlite3.Connection) -> None:
    run_rows.put(at, replace(RUN, id="run_2", worker="worker-b"), 1_100.0)
    assert run_rows.interrupt(at, before=999.0, worker="me", now=1_101.0) == 0
    assert run_rows.interrupt(at, before=1_050.0, worker="worker-a", now=1_101.0) == 0
    assert run_rows.interrupt(at, before=1_050.0, worker="me", now=1_101.0) == 1
    assert found(at, "run_2").state is RunState.QUEUED
    run, _, events = run_rows.events_after(at, "run_1", 0, 10)
    assert (run.state, run.status, run.ended) == (RunState.INTERRUPTED, 503, 1_101.0)
    assert json.loads(events[-1].data)["error"]["details"]["reason"] == "INTERRUPTED"
    assert run_rows.interrupt(at, before=1_050.0, worker="me", now=1_102.0) == 0


def test_should_the_worker_live_after_all_its_result_counts(at: sqlite3.Connection) -> None:
    run_rows.interrupt(at, before=2_000.0, worker="me", now=1_500.0)
    run_rows.add_events(at, "run_1", [Shown("stdout", 1.0, b"1")], 1_501.0)
    run_rows.end(at, ended(RUN, RunState.SUCCEEDED, succeeded(), 1_502.0), ())
    assert found(at).state is RunState.SUCCEEDED
    assert [one.kind for one in run_rows.events_after(at, "run_1", 0, 10)[2]] == ["result", "stdout", "result"]


def test_what_ended_long_ago_is_removed_with_its_events(at: sqlite3.Connection) -> None:
    run_rows.put(at, replace(RUN, id="run_2"), 1_000.0)
    run_rows.end(at, ended(RUN, RunState.SUCCEEDED, succeeded(), 1_003.0), ())
    assert run_rows.forget(at, before=1_003.0, most=10)
    assert found(at)
    assert run_rows.forget(at, before=1_004.0, most=10)
    assert run_rows.get(at, "run_1") is None
    assert rows(at, "SELECT count(*) FROM run_events") == [(0,)]
    assert found(at, "run_2").state is RunState.QUEUED


def test_of_very_many_runs_only_the_latest_are_kept(at: sqlite3.Connection) -> None:
    for number in range(500):
        run = replace(RUN, id=f"run_{number:03}-x")
        run_rows.put(at, run, 1_000.0)
        run_rows.end(at, ended(run, RunState.SUCCEEDED, succeeded(), 2_000.0 + number), ())
    # Some at a time, so that nobody waits long.
    assert [run_rows.forget(at, before=0.0, most=100) for _ in range(4)] == [False, False, True, True]
    assert rows(at, "SELECT count(*), min(ended) FROM runs WHERE ended IS NOT NULL") == [(100, 2_400.0)]
    assert found(at).state is RunState.QUEUED
