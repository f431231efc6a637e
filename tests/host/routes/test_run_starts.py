"""Whether a caller waits, and runs that begin without one who does."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from openskills.errors import InvalidArgument
from openskills.host.routes.run_starts import wants_to_wait
from tests.host.exchanges import Sent
from tests.host.hosting import echo, eventually, served


@pytest.mark.parametrize(
    ("query", "prefer", "waits"),
    [
        ("", None, True),
        ("mode=sync", None, True),
        ("other=1", None, True),
        ("mode=async", None, False),
        ("", "respond-async", False),
        ("", "wait=5, Respond-Async", False),
        ("", "return=minimal", True),
        ("mode=sync", "respond-async", False),
    ],
)
def test_a_caller_says_in_the_address_or_in_a_header_that_it_does_not_wait(
    query: str, prefer: str | None, waits: bool
) -> None:
    assert wants_to_wait(Sent(query=query, headers={"Prefer": prefer} if prefer else {}).exchange) is waits


def test_a_mode_that_is_not_known_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="mode: 'later' is not one of sync, async"):
        wants_to_wait(Sent(query="mode=later").exchange)


def test_the_row_in_the_history_has_the_id_of_the_run(tmp_path: Path) -> None:
    with served(tmp_path, {"echo": echo}) as host:
        answer = host.client.post("/skills/echo:invoke?mode=async", json={"input": {"text": "a"}})
        run = answer.json()["data"]["id"]
        eventually(lambda: host.client.get(f"/runs/{run}").json()["data"]["state"] == "succeeded")
        assert answer.headers["preference-applied"] == "respond-async"
    with closing(sqlite3.connect(tmp_path / ".local/state/openskills/host.db")) as database:
        assert database.execute("SELECT id FROM history").fetchall() == [(run,)]
