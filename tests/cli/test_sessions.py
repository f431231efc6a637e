"""`sessions`: see conversations, read them, delete them."""

import hashlib
import json
from pathlib import Path

import pytest

from tests.cli.command import Command
from tests.skill_writer import WriteSkill

CHAT = ("chat", "--model", "rule", "--executor", "none", "--skills", "skills")


@pytest.fixture(autouse=True)
def skill(openskills: Command, write_skill: WriteSkill) -> Path:
    """There is a skill."""
    del openskills  # makes the directory in which the skill is written
    return write_skill("merge-files", "Merges text files. Use when the user has several files to merge.")


def test_without_conversations_there_is_nothing_to_see(openskills: Command) -> None:
    ran = openskills("sessions", "list")
    assert (ran.code, ran.out, ran.err) == (0, "", "no sessions; `openskills chat` starts one\n")
    assert openskills("sessions", "list", "--json").json == {"sessions": [], "more": 0}


def test_conversations_are_listed_shown_and_deleted(openskills: Command) -> None:
    assert openskills(*CHAT, "--session", "one", "merge these files").code == 0
    assert openskills(*CHAT, "--session", "two", "hello\x1b[2J").code == 0
    first, second = (line.split("\t") for line in openskills("sessions", "list").lines)
    assert (first[0], first[4]) == ("two", "hello\\x1b[2J")
    assert (second[0], second[4]) == ("one", "merge these files")
    assert second[2] <= second[3] <= first[2]
    shown = openskills("sessions", "show", "one")
    assert shown.lines[0] == "user: merge these files"
    assert "  * skill_load merge-files -> loaded: merge-files" in shown.lines
    ran = openskills("sessions", "delete", "two", "--yes")
    assert (ran.code, ran.out) == (0, "deleted two\n")
    assert [line.split("\t")[0] for line in openskills("sessions", "list").lines] == ["one"]


def test_for_programs_there_is_json(openskills: Command) -> None:
    openskills(*CHAT, "--session", "one", "merge these files")
    (listed,) = openskills("sessions", "list", "--json").json["sessions"]
    assert set(listed) == {"session", "user", "app", "events", "begun", "updated", "title"}
    shown = openskills("sessions", "show", "one", "--json").json
    assert (shown["session"], shown["app"], shown["revision"]) == ("one", "cli", listed["events"])
    raw = [json.loads(line) for line in openskills("sessions", "show", "one", "--events").out.splitlines()]
    assert raw == shown["events"]
    assert [event["seq"] for event in raw] == list(range(1, listed["events"] + 1))
    gone = openskills("sessions", "delete", "one", "--yes", "--artifacts", "--json").json
    assert gone == {"deleted": ["one"], "artifacts": 0}


def test_only_some_are_listed_when_there_are_many(openskills: Command) -> None:
    for name in ("one", "two"):
        openskills(*CHAT, "--session", name, "hello")
    ran = openskills("sessions", "list", "--limit", "1")
    assert (len(ran.lines), ran.err) == (1, "and 1 more; --limit shows them\n")


def test_those_of_other_users_applications_and_stores_are_found_when_they_are_named(openskills: Command) -> None:
    openskills(*CHAT, "--session", "one", "--store", "sqlite:///other.db", "hello")
    assert openskills("sessions", "list").out == ""
    assert openskills("sessions", "list", "--store", "sqlite:///other.db").lines[0].startswith("one\t")
    other = ("--store", "sqlite:///other.db", "--user", "somebody")
    assert openskills("sessions", "list", *other).out == ""
    ran = openskills("sessions", "show", "one", *other)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("error: unknown session 'one'; ")


@pytest.mark.parametrize("command", ["show", "delete"])
def test_an_unknown_name_is_one_sentence(openskills: Command, command: str) -> None:
    ran = openskills("sessions", command, "nothing", *(["--yes"] if command == "delete" else []))
    assert (ran.code, len(ran.err.splitlines())) == (1, 1)
    assert "unknown session 'nothing'" in ran.err


def test_a_bad_address_is_wrong_usage_and_its_password_is_not_repeated(openskills: Command) -> None:
    ran = openskills("sessions", "list", "--store", "mysql://me:hidden@host/db")
    assert ran.code == 2
    assert "hidden" not in ran.err


def test_nothing_is_deleted_without_an_agreement(openskills: Command) -> None:
    openskills(*CHAT, "--session", "one", "hello")
    ran = openskills("sessions", "delete", "one")
    assert (ran.code, ran.err) == (1, "nothing was deleted; confirm with --yes\n")
    question = "Delete 1 conversation for good (one)? [y/N]"
    assert openskills.on_terminal("sessions", "delete", "one", replies={question: "n\n"}).code == 1
    assert openskills("sessions", "show", "one").code == 0
    assert openskills.on_terminal("sessions", "delete", "one", replies={question: "y\n"}).code == 0
    assert openskills("sessions", "show", "one").code == 1


def test_on_a_terminal_there_is_a_table_for_people(openskills: Command) -> None:
    openskills(*CHAT, "--session", "one", "merge these files")
    lines = openskills.on_terminal("sessions", "list").lines
    assert lines[0].split() == ["session", "events", "last", "used", "title"]
    assert lines[1].startswith("one ")
    assert lines[1].endswith("merge these files")


def test_the_requests_of_a_conversation_are_shown_with_their_differences(openskills: Command) -> None:
    openskills(*CHAT, "--session", "one", "merge these files\x1b[2J")
    listed = openskills("sessions", "requests", "one", "--json").json["requests"]
    assert [one["number"] for one in listed] == [1, 2]
    assert [line.split("\t")[0] for line in openskills("sessions", "requests", "one").lines] == ["1", "2"]
    raw = openskills("sessions", "requests", "one", "--number", "2", "--raw").out
    assert hashlib.sha256(raw.encode()).hexdigest() == listed[1]["sha256"]
    shown = openskills("sessions", "requests", "one", "--number", "2")
    assert "same    messages system" in shown.lines
    assert "added   messages tool" in shown.lines
    assert "\x1b" not in shown.out
    changes = openskills("sessions", "requests", "one", "--number", "2", "--json").json["changes"]
    assert {one["state"] for one in changes} == {"same", "added"}
    openskills("sessions", "delete", "one", "--yes")
    openskills(*CHAT, "--session", "one", "hello")
    assert [one["number"] for one in openskills("sessions", "requests", "one", "--json").json["requests"]] == [1]


def test_wrong_requests_are_named(openskills: Command) -> None:
    openskills(*CHAT, "--session", "one", "hello")
    ran = openskills("sessions", "requests", "one", "--number", "9")
    assert (ran.code, ran.err) == (2, "error: --number: unknown request 9; recorded: 1\n")
    ran = openskills("sessions", "requests", "one", "--raw")
    assert (ran.code, ran.err) == (2, "error: --raw: needs --number N\n")
    assert openskills("sessions", "requests", "none").code == 1


def test_conversations_are_found_by_words_of_their_first_message(openskills: Command) -> None:
    openskills(*CHAT, "--session", "one", "merge these files")
    openskills(*CHAT, "--session", "two", "hello")
    found = openskills("sessions", "list", "--search", "MERGE", "--json").json
    assert ([one["session"] for one in found["sessions"]], found["more"]) == (["one"], 0)
