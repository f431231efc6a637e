"""A conversation is closed however it ends, and nothing that it started goes on."""

import os
import time
from pathlib import Path

import pytest

from tests.cli.chatting import Chat
from tests.cli.command import Command
from tests.cli.ran import PATIENCE
from tests.conftest import RequireProgram
from tests.skill_writer import WriteSkill

BODY = "# Wait\n\nRun the script:\n\n```\npython3 scripts/wait.py\n```"


def processes_with(word: str) -> list[str]:
    """The command lines of processes of this machine that have a word in them."""
    found: list[str] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
            except OSError:
                continue
            if word in line and entry.name != str(os.getpid()):
                found.append(line)
    return found


def comes_to(word: str, *, running: bool) -> bool:
    """Whether, after a while at most, a process has the word in it, or none."""
    deadline = time.monotonic() + PATIENCE
    while bool(processes_with(word)) is not running and time.monotonic() < deadline:
        time.sleep(0.05)
    return bool(processes_with(word)) is running


@pytest.mark.parametrize("how", ["interrupt and leave", "terminate"])
def test_a_command_that_runs_ends_with_its_run_or_with_the_chat(
    openskills: Command, write_skill: WriteSkill, require_program: RequireProgram, how: str
) -> None:
    require_program("bwrap")
    name = f"waiting-{os.getpid()}-{len(how)}"
    script = f"scripts/{name}.py"
    folder = write_skill(name, "Waits.", body=BODY.replace("scripts/wait.py", script))
    (folder / "scripts").mkdir()
    (folder / script).write_text("import time\nprint('begun', flush=True)\ntime.sleep(600)\n")
    with Chat(openskills, "--model", "rule", "--skills", "skills", "--executor", "sandbox") as chat:
        chat.expect()
        chat.type(f"/{name}\n")
        chat.expect(f"* skill_run {name}: python3 {script}")
        assert comes_to(script, running=True)
        if how == "terminate":
            chat.terminate()
            assert chat.finish().code == 143
        else:
            chat.type("\x03")
            chat.expect("stopped; the conversation goes on")
            chat.expect()
            assert comes_to(script, running=False)
            assert "/help" in chat.say("/help")
            assert chat.end().code == 0
    assert comes_to(script, running=False)
    assert openskills("workspaces", "list", "--json").json["workspaces"][0]["in_use"] is False


def test_files_are_read_before_the_first_message_and_go_with_it(openskills: Command, write_skill: WriteSkill) -> None:
    write_skill("alpha")
    (openskills.cwd / "a.txt").write_text("a")
    arguments = ("--model", "rule", "--executor", "none", "--skills", "skills", "--attach", "a.txt", "--session", "s")
    with Chat(openskills, *arguments) as chat:
        assert "attached: a.txt (1 byte)" in chat.expect()
        chat.say("hello")
        chat.say("hello again")
        chat.end()
    assert openskills("sessions", "show", "s").out.count("[attached: a.txt;") == 1
