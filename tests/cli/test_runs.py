"""`runs`: what a host has done."""

import time
from dataclasses import replace
from pathlib import Path

import pytest

from openskills.host.books.history import History
from openskills.host.books.run_record import RunRecord
from openskills.sync import run
from tests.cli.command import Command
from tests.host.results import record, refused, succeeded


@pytest.fixture
def records(openskills: Command) -> list[RunRecord]:
    """Three invocations, the first more than an hour ago."""
    now = time.time()
    found = [
        record(succeeded("calculator"), began=now - 4_000),
        replace(record(refused("echo"), began=now - 100), message="bad\x1b[2J\ttext"),
        replace(record(succeeded("echo"), began=now - 10), input=b'{"input": {}}', output=b"{}"),
    ]

    async def write() -> None:
        history = History(openskills.home / ".local" / "state" / "openskills" / "host.db")
        for one in found:
            history.record(one)
        await history.close()

    run(write())
    return found


def ids(lines: list[str]) -> list[str]:
    return [line.split("\t")[0] for line in lines]


def test_the_latest_come_first(openskills: Command, records: list[RunRecord]) -> None:
    lines = openskills("runs", "list").lines
    assert ids(lines) == [one.id for one in records[::-1]]
    assert lines[1].split("\t")[2:] == [
        "echo",
        "cli:python",
        "ci",
        "400",
        "1.0",
        "trace-2",
        "bad\\x1b[2J text",
    ]


def test_some_can_be_chosen(openskills: Command, records: list[RunRecord]) -> None:
    old, failed, last = (one.id for one in records)
    assert ids(openskills("runs", "list", "--skill", "calculator").lines) == [old]
    assert ids(openskills("runs", "list", "--failed").lines) == [failed]
    assert ids(openskills("runs", "list", "--since", "1h").lines) == [last, failed]
    assert ids(openskills("runs", "list", "--limit", "1").lines) == [last]
    nothing = openskills("runs", "list", "--skill", "calculator", "--failed")
    assert (nothing.code, nothing.out, nothing.err) == (0, "", "there are no such runs\n")


def test_programs_get_json(openskills: Command, records: list[RunRecord]) -> None:
    listed = openskills("runs", "list", "--json", "--limit", "2").json["runs"]
    assert [one["id"] for one in listed] == [records[2].id, records[1].id]
    assert listed[1]["message"] == "bad\x1b[2J\ttext"
    assert "input" not in listed[0]
    shown = openskills("runs", "show", records[2].id, "--json").json
    assert shown == records[2].plain()
    assert (shown["input"], shown["output"]) == ('{"input": {}}', "{}")


def test_one_is_shown_by_how_its_id_begins(openskills: Command, records: list[RunRecord]) -> None:
    lines = openskills("runs", "show", records[1].id[:-3]).lines
    assert f"id: {records[1].id}" in lines
    assert "message: bad\\x1b[2J text" in lines
    several = openskills("runs", "show", "run_")
    assert (several.code, "several runs begin with" in several.err) == (2, True)
    missing = openskills("runs", "show", "run_x")
    assert (missing.code, "there is no run 'run_x'" in missing.err) == (1, True)


def test_a_person_sees_a_table(openskills: Command, records: list[RunRecord]) -> None:
    heading, *lines = openskills.on_terminal("runs", "list", columns=160).lines
    assert heading.split() == ["run", "began", "skill", "runner", "who", "code", "ms", "message"]
    assert len(lines) == len(records)


def test_a_history_that_is_off_is_said(openskills: Command, tmp_path: Path) -> None:
    ran = openskills("runs", "list", OPENSKILL_HOST_HISTORY="off")
    assert (ran.code, "OPENSKILL_HOST_HISTORY: is `off`" in ran.err) == (2, True)
    elsewhere = openskills("runs", "list", OPENSKILL_HOST_HISTORY=str(tmp_path / "none.db"))
    assert (elsewhere.code, elsewhere.out) == (0, "")
    assert not (tmp_path / "none.db").exists()


def test_wrong_times_are_named(openskills: Command) -> None:
    ran = openskills("runs", "list", "--since", "yesterday")
    assert (ran.code, "--since: 'yesterday' is no length of time" in ran.err) == (2, True)
