"""Questions have their arguments beside the SQL, and rows become what they were written from."""

import sqlite3
from datetime import UTC, datetime
from pathlib import Path

from openskills.session import tables
from openskills.session.events import Event
from openskills.session.sqlite import SESSION_DATABASE
from openskills.session.store import SessionHead, SessionInfo, SessionKey
from openskills.sql import open_sqlite

KEY = SessionKey("'; DROP TABLE x; --", "$1", "?1 图")
AT = datetime(2026, 1, 31, 12, 0, 0, 5, UTC)
EVENT = Event("'; --", "a", "message", AT, {"text": "$9"}, {"k": "$2"}, seq=1)
HEAD = SessionHead(KEY, 1, AT, AT, {"k": "$2"})


def test_nothing_from_outside_is_in_the_sql() -> None:
    questions = [
        tables.build_head_query(KEY),
        tables.build_events_query(KEY, 3),
        tables.build_event_query(KEY, EVENT),
        tables.build_list_query(KEY.app, KEY.user),
        *tables.build_write_queries(HEAD, EVENT),
        *tables.build_delete_queries(KEY),
    ]
    for sql, arguments in questions:
        assert not any(text in sql for text in ("DROP", "--", "图", "$2'"))
        assert sql.count("$") == len(arguments)


def test_a_conversation_that_goes_on_keeps_its_beginning() -> None:
    begin, _ = tables.build_write_queries(HEAD, EVENT)
    go_on, _ = tables.build_write_queries(SessionHead(KEY, 2, AT, AT, {}), EVENT)
    assert "INSERT" in begin[0]
    assert "UPDATE" in go_on[0]
    assert "begun" not in go_on[0]


def test_rows_become_what_they_were_written_from() -> None:
    times = (AT.isoformat(), AT.isoformat())
    assert tables.head_from_row(KEY, (1, *times, '{"k": "$2"}')) == HEAD
    assert tables.info_from_row(KEY.app, KEY.user, (KEY.session, 1, *times)) == SessionInfo(KEY, 1, AT, AT)


def test_every_question_of_an_append_finds_its_rows_by_an_index(tmp_path: Path) -> None:
    asking = open_sqlite(tmp_path / "x.db", SESSION_DATABASE, timeout=1)
    try:
        for sql, arguments in (
            tables.build_head_query(KEY),
            tables.build_event_query(KEY, EVENT),
            tables.build_events_query(KEY, 5),
            tables.build_list_query("a", "b"),
            tables.build_write_queries(SessionHead(KEY, 2, AT, AT, {}), EVENT)[0],
        ):
            plan = asking.fetch_rows((f"EXPLAIN QUERY PLAN {sql}", arguments))
            assert all("SCAN" not in row[3] and "TEMP B-TREE" not in row[3] for row in plan), plan
    finally:
        asking.close()
    assert sqlite3.sqlite_version_info > (3, 24)
