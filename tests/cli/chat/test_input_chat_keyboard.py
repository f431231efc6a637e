"""Lines at a terminal can be edited, recalled, completed and continued; without readline's help they can be read."""

import subprocess
from pathlib import Path

import pytest

from openskills.cli.chat.input import complete_path
from tests.cli.chatting import PROMPT, Chat
from tests.cli.command import Command
from tests.skill_writer import WriteSkill

PLAIN = ("--model", "rule", "--executor", "none", "--skills", "skills")


@pytest.fixture(autouse=True)
def skill(openskills: Command, write_skill: WriteSkill) -> Path:
    """There is a skill."""
    del openskills  # makes the directory in which the skill is written
    return write_skill("alpha-one")


def test_words_are_completed_with_tab_and_lines_recalled_with_the_arrow(openskills: Command) -> None:
    with Chat(openskills, *PLAIN) as chat:
        chat.expect()
        chat.type("/sess\t\n")
        chat.expect("/session")
        first = chat.expect()
        chat.type("\x1b[A\n")
        assert chat.expect().endswith(first)
        chat.type("/load alpha\n")
        chat.expect("did you mean 'alpha-one'?")
        chat.expect()
        chat.type("/alph\t")
        chat.expect("/alpha-one")
        chat.say("\x15/session")
        assert chat.end().code == 0


def test_a_backslash_at_the_end_continues_a_line_and_pasted_lines_are_one_message(openskills: Command) -> None:
    with Chat(openskills, *PLAIN, "--session", "lines") as chat:
        chat.expect()
        chat.type("one \\\n")
        chat.expect("\n. ")
        chat.say("two")
        chat.type("\x1b[200~three\nfour\x1b[201~\n")
        chat.expect("four")
        chat.expect()
        chat.end()
    shown = openskills("sessions", "show", "lines").out
    assert "user: one \ntwo\n" in shown
    assert "user: three\nfour\n" in shown


def test_invalid_utf8_does_not_end_the_chat(openskills: Command) -> None:
    with Chat(openskills, *PLAIN) as chat:
        chat.expect()
        chat.type(b"caf\xe9 \xff\n")
        chat.expect()
        assert chat.end().code == 0


def test_with_its_answers_in_a_pipe_the_prompt_is_beside_them(openskills: Command) -> None:
    with Chat(openskills, *PLAIN, "--session", "mine", stdout=subprocess.PIPE) as chat:
        chat.expect()
        assert chat.say("/session") == f"/session{PROMPT}"
        chat.type("\x04")
        assert chat.output() == "mine\n"


def test_paths_are_completed_and_directories_can_be_gone_into(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "date.txt").write_text("")
    (tmp_path / "[x").write_text("")
    assert complete_path(f"@{tmp_path}/da") == [f"@{tmp_path}/data/", f"@{tmp_path}/date.txt"]
    assert complete_path(f"@{tmp_path}/[") == [f"@{tmp_path}/[x"]
    assert complete_path("@/nowhere/at/all") == []
