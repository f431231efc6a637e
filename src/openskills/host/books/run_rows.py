"""Runs and their events as rows of the host's database. Blocking."""

import os
import sqlite3
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from openskills.errors import RunInterrupted
from openskills.host.books.database_opening import rows
from openskills.host.books.run_output import Shown
from openskills.host.books.run_states import Run, RunEvent, RunState, ended, without_result

RESULT = "result"
_COLUMNS = tuple(field.name for field in fields(Run))
_NAMES = ", ".join(f"runs.{name}" for name in _COLUMNS)
_STATE, _CANCEL = _COLUMNS.index("state"), _COLUMNS.index("cancel")
# The words below are our own; nothing from outside is ever in the SQL.
_PUT = f"INSERT INTO runs ({', '.join(_COLUMNS)}) VALUES ({', '.join('?' * len(_COLUMNS))})"  # noqa: S608
_GET = f"SELECT {_NAMES}, beat FROM runs LEFT JOIN workers ON workers.id = worker WHERE runs.id = ?"  # noqa: S608
_ORPHANS = f"""
    SELECT {_NAMES}, beat FROM runs LEFT JOIN workers ON workers.id = worker
    WHERE ended IS NULL AND coalesce(beat, 0) < ? AND worker != ? LIMIT 100
"""  # noqa: S608
_BEAT = "INSERT OR REPLACE INTO workers (id, pid, beat) VALUES (?, ?, ?)"
_END = "UPDATE runs SET state = ?, ended = ?, status = ?, result = ?, cut = ? WHERE id = ?"
_ADD = "INSERT INTO run_events (run, seq, kind, at, data) VALUES (?, ?, ?, ?, ?)"
_LAST = "SELECT coalesce(max(seq), 0) FROM run_events WHERE run = ?"
_EVENTS = "SELECT seq, kind, at, data FROM run_events WHERE run = ? AND seq > ? ORDER BY seq LIMIT ?"
_TO_CANCEL = "SELECT id FROM runs WHERE ended IS NULL AND worker = ? AND cancel = 1"
_OLD = "SELECT id FROM runs WHERE ended < ? ORDER BY ended LIMIT ?"
_OLDEST_KEPT = "SELECT ended FROM runs WHERE ended IS NOT NULL ORDER BY ended DESC LIMIT 1 OFFSET ?"
_AT_ONCE = 200


def put(at: sqlite3.Connection, run: Run, now: float) -> None:
    """A new run, whose worker is alive."""
    beat(at, run.worker, now)
    at.execute(_PUT, tuple(getattr(run, name) for name in _COLUMNS))


def beat(at: sqlite3.Connection, worker: str, now: float) -> None:
    """A worker says that it is alive."""
    at.execute(_BEAT, (worker, os.getpid(), now))


def get(at: sqlite3.Connection, run_id: str) -> tuple[Run, float] | None:
    """A run, and when its worker was last known to be alive."""
    return next((_run(row) for row in rows(at, _GET, (run_id,))), None)


def add_events(at: sqlite3.Connection, run_id: str, shown: Sequence[Shown], now: float) -> None:
    """Keep what a run has shown: it is running, then."""
    _add(at, run_id, shown)
    at.execute("UPDATE runs SET state = 'running', started = ? WHERE id = ? AND state = 'queued'", (now, run_id))


def events_after(at: sqlite3.Connection, run_id: str, after: int, limit: int) -> tuple[Run, float, list[RunEvent]]:
    """The run, when its worker was alive, and the next events: if it has ended, they are all there."""
    # Asked for first: the last event comes in the same transaction as the end.
    found = get(at, run_id)
    if found is None:
        raise LookupError(run_id)
    run, beaten = found
    events = [RunEvent(*row) for row in rows(at, _EVENTS, (run_id, after, limit))]
    return run, beaten, [_whole(event, run) for event in events]


def end(at: sqlite3.Connection, run: Run, shown: Sequence[Shown]) -> None:
    """A run has ended: `run` has the state, the time, the result. What waits of its events comes before the last."""
    # The result is in the row of the run, once.
    _add(at, run.id, [*shown, Shown(RESULT, run.ended or 0.0, b"")])
    at.execute(_END, (run.state, run.ended, run.status, run.result, run.cut, run.id))


def request_cancel(at: sqlite3.Connection, run_id: str) -> None:
    """Its worker will see it."""
    at.execute("UPDATE runs SET cancel = 1 WHERE id = ? AND ended IS NULL", (run_id,))


def to_cancel(at: sqlite3.Connection, worker: str) -> list[str]:
    """The runs of a worker that somebody wants to end."""
    return [run_id for (run_id,) in rows(at, _TO_CANCEL, (worker,))]


def interrupt(at: sqlite3.Connection, *, before: float, worker: str, now: float) -> int:
    """End the runs whose workers were last alive before that time; how many those were, at most 100.

    Not those of `worker`, who asks: it is alive, even if it was asleep.
    """
    found = [run for run, _ in map(_run, rows(at, _ORPHANS, (before, worker)))]
    for run in found:
        end(at, _interrupted(run, now), ())
    return len(found)


def forget(at: sqlite3.Connection, *, before: float, most: int) -> bool:
    """Remove runs that ended before that time, and all but the latest `most`; False when there are more to remove."""
    kept = rows(at, _OLDEST_KEPT, (max(most - 1, 0),))
    limit = max(before, kept[0][0]) if kept else before
    old = rows(at, _OLD, (limit, _AT_ONCE))
    at.executemany("DELETE FROM run_events WHERE run = ?", old)
    at.executemany("DELETE FROM runs WHERE id = ?", old)
    at.execute("DELETE FROM workers WHERE beat < ? AND id NOT IN (SELECT worker FROM runs)", (before,))
    return len(old) < _AT_ONCE


def _add(at: sqlite3.Connection, run_id: str, shown: Sequence[Shown]) -> None:
    ((last,),) = rows(at, _LAST, (run_id,))
    numbered = enumerate(shown, last + 1)
    at.executemany(_ADD, [(run_id, number, one.kind, one.at, one.data) for number, one in numbered])


def _run(row: Sequence[Any]) -> tuple[Run, float]:
    *values, beaten = row
    values[_STATE], values[_CANCEL] = RunState(values[_STATE]), bool(values[_CANCEL])
    return Run(*values), beaten or 0.0


def _whole(event: RunEvent, run: Run) -> RunEvent:
    return RunEvent(event.id, event.kind, event.at, run.result or b"null") if event.kind == RESULT else event


def _interrupted(run: Run, now: float) -> Run:
    error = RunInterrupted("the process of the host that ran this has ended; how far the skill got is not known")
    return ended(run, RunState.INTERRUPTED, without_result(run, error, now), now)
