"""The steps from nothing to the tables of the host."""

import sqlite3

from openskills.host.tables import STEPS


def test_the_steps_make_every_table_from_nothing() -> None:
    connection = sqlite3.connect(":memory:")
    for step in STEPS:
        for sql in step:
            connection.execute(sql)
    names = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    connection.close()
    console = {"console_links", "console_sessions"}
    assert names == {"history", "history_content", "answers", "runs", "run_events"} | console
