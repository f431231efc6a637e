"""The history as rows of the host's database: put, find, forget. Blocking."""

import sqlite3
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

from openskills.host.books.database_opening import rows, transaction
from openskills.host.books.run_record import RunRecord, id_prefix

_COLUMNS = tuple(field.name for field in fields(RunRecord) if field.name not in {"input", "output"})
_NAMES = ", ".join(_COLUMNS)
# An id that is there already is a call that was recorded already.
_PUT = f"INSERT OR IGNORE INTO history ({_NAMES}) VALUES ({', '.join('?' * len(_COLUMNS))})"  # noqa: S608 - our own names
_PUT_CONTENT = "INSERT OR IGNORE INTO history_content (id, input, output) VALUES (?, ?, ?)"
_OLD_IDS = "SELECT id FROM history WHERE id < ? ORDER BY id LIMIT ?"
_OLDEST_KEPT = "SELECT id FROM history ORDER BY id DESC LIMIT 1 OFFSET ?"
_SUCCESS = _COLUMNS.index("success")
_LARGEST = 2**63 - 1
_AT_ONCE = 2_000
"""Rows that are removed in one transaction, so that nobody waits long."""


def put(connection: sqlite3.Connection, records: Sequence[RunRecord]) -> None:
    """Keep these, all or none."""
    with transaction(connection):
        try:
            connection.executemany(_PUT, [_row(record) for record in records])
        except (UnicodeError, OverflowError):
            # Half a character or an endless number from a skill: rare, so nobody else pays for looking.
            connection.executemany(_PUT, [tuple(map(_cleaned, _row(record))) for record in records])
        contents = [
            (record.id, record.input, record.output)
            for record in records
            if record.input is not None or record.output is not None
        ]
        connection.executemany(_PUT_CONTENT, contents)


def find(
    connection: sqlite3.Connection, *, skill: str | None, failed: bool, since: float | None, limit: int
) -> list[RunRecord]:
    """The latest first, without contents."""
    wanted = ["1"]
    arguments: list[Any] = []
    if skill is not None:
        wanted.append("skill_id = ?")
        arguments.append(skill)
    if failed:
        wanted.append("success = 0")
    if since is not None:
        wanted.append("id >= ?")
        arguments.append(id_prefix(since))
    sql = f"SELECT {_NAMES} FROM history WHERE {' AND '.join(wanted)} ORDER BY id DESC LIMIT ?"  # noqa: S608 - our own words
    return [_record(row) for row in rows(connection, sql, (*arguments, limit))]


def find_one(connection: sqlite3.Connection, beginning: str) -> list[RunRecord]:
    """The record with this id, with its contents; else those whose ids begin so, at most two."""
    sql = f"SELECT {_NAMES} FROM history WHERE id >= ? AND id < ? ORDER BY id LIMIT 2"  # noqa: S608 - our own names
    found = [_record(row) for row in rows(connection, sql, (beginning, beginning + "\U0010ffff"))]
    exact = [record for record in found if record.id == beginning]
    return [_with_content(connection, record) for record in exact or found]


def forget(connection: sqlite3.Connection, *, before: float, keep_rows: int) -> int:
    """Remove what began before that time, and all but the latest rows; how many were removed, at most 2,000."""
    limit = id_prefix(before)
    kept = rows(connection, _OLDEST_KEPT, (max(keep_rows - 1, 0),))
    if kept:
        limit = max(limit, kept[0][0])
    with transaction(connection):
        old = rows(connection, _OLD_IDS, (limit, _AT_ONCE))
        connection.executemany("DELETE FROM history_content WHERE id = ?", old)
        connection.executemany("DELETE FROM history WHERE id = ?", old)
    return len(old)


def _row(record: RunRecord) -> tuple[Any, ...]:
    # Written out: this is on the way of every call, and `astuple` costs ten times as much.
    return (
        record.id,
        record.trace_id,
        record.who,
        record.skill_id,
        record.version,
        record.runner_type,
        record.began,
        record.latency_ms,
        record.success,
        record.code,
        record.message,
        record.bytes_in,
        record.bytes_out,
        record.input_digest,
    )


def _record(row: Sequence[Any]) -> RunRecord:
    values = list(row)
    values[_SUCCESS] = bool(values[_SUCCESS])
    return RunRecord(*values)


def _with_content(connection: sqlite3.Connection, record: RunRecord) -> RunRecord:
    kept = rows(connection, "SELECT input, output FROM history_content WHERE id = ?", (record.id,))
    return replace(record, input=kept[0][0], output=kept[0][1]) if kept else record


def _cleaned(value: Any) -> Any:
    """A value that SQLite takes: text of whole characters, numbers of 64 bits."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, int):
        return max(min(value, _LARGEST), -_LARGEST)
    return value
