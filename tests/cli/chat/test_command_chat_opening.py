"""A conversation is opened with everything it needs, or with one sentence about what is missing.

A conversation is closed however it ends, and nothing that it started goes on.
"""

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from openskills.catalog.catalog import Catalog
from openskills.cli.chat.command import ChatOptions
from openskills.cli.chat.conversation import new_session_name
from openskills.cli.chat.loop import open_chat
from openskills.errors import InvalidArgument
from openskills.executors.spec import Isolation
from openskills.settings import Settings
from openskills.sync import run
from openskills.testing.fake_executor import FakeExecutor, FakeRun
from openskills.testing.model_server import ModelServer
from openskills.testing.models import ScriptedModel, call_tools
from tests.agent.agents import skills_for_agents
from tests.cli.chatting import Chat
from tests.cli.command import Command
from tests.cli.ran import TIMEOUT
from tests.conftest import RequireProgram
from tests.skill_writer import WriteSkill

LOAD_AND_RUN = (
    call_tools(("skill_load", {"skill": "alpha"})),
    call_tools(("skill_run", {"skill": "alpha", "command": "ls"})),
    "Done.",
)


def scripted(settings: Settings) -> ScriptedModel:
    """A model by its dotted name."""
    del settings
    return ScriptedModel(LOAD_AND_RUN)


def isolated(settings: Settings) -> FakeExecutor:
    """An executor by its dotted name that promises isolation."""
    del settings
    return FakeExecutor({"ls": FakeRun(stdout=b"files\n")}, isolation=Isolation.CONTAINER)


def open_to_all(settings: Settings) -> FakeExecutor:
    """One that promises nothing."""
    del settings
    return FakeExecutor({"ls": FakeRun(stdout=b"files\n")})


def wishes(executor: str, *, ask: bool = False, yes: bool = False) -> ChatOptions:
    return ChatOptions("mine", f"{__name__}:scripted", f"{__name__}:{executor}", ask=ask, yes=yes)


def notes(directory: Path, wanted: ChatOptions, capsys: pytest.CaptureFixture[str], *, says: bool = True) -> list[str]:
    """What is written beside the answer."""
    settings = Settings.from_env({"HOME": str(directory / "home")})
    catalog = Catalog.from_paths(skills_for_agents(directory) / "skills", settings=settings)

    async def work() -> None:
        async with open_chat(wanted, catalog, settings) as talk:
            if says:
                assert await talk.send("hi")

    run(work())
    return capsys.readouterr().err.splitlines()


def test_isolated_commands_run_without_a_question(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = notes(tmp_path, wishes("isolated"), capsys)
    assert lines[0] == "session mine; 2 skills"
    assert lines[-1] == "  -> exit code 0; files"
    assert not any("wants to run" in line for line in lines)


@pytest.mark.parametrize("executor", ["isolated", "open_to_all"])
def test_with_ask_every_command_is_asked_about(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], executor: str
) -> None:
    lines = notes(tmp_path, wishes(executor, ask=True), capsys)
    assert "alpha wants to run, in skills/alpha:" in lines
    assert "was not approved" in lines[-1]


def test_commands_that_are_not_isolated_are_asked_about_unless_somebody_said_yes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = notes(tmp_path, wishes("open_to_all"), capsys)
    assert lines[0] == "warning: commands of skills are not isolated: they have all of your permissions"
    assert "was not approved" in lines[-1]
    lines = notes(tmp_path / "again", wishes("open_to_all", yes=True), capsys)
    assert lines[0].startswith("warning: ")
    assert lines[-1] == "  -> exit code 0; files; not isolated"


def test_without_an_executor_nothing_can_be_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wanted = replace(wishes("isolated"), executor="none")
    assert "skill_run is not available in this session" in notes(tmp_path, wanted, capsys)[-1]


async def test_without_skills_it_says_where_some_could_come_from(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = Settings.from_env({"HOME": str(tmp_path)})

    async with open_chat(wishes("isolated"), Catalog([], settings), settings):
        pass

    assert capsys.readouterr().err.splitlines()[1] == ("note: no skills found; choose a source with --skills PATH")


def test_what_means_nothing_is_refused_before_anything_is_opened(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for wanted in (ChatOptions(model="nothing"), ChatOptions(executor="nothing"), ChatOptions(store="nothing")):
        with pytest.raises(InvalidArgument, match=r"nothing|unknown URL"):
            notes(tmp_path, wanted, capsys, says=False)
    assert not list(tmp_path.rglob("sessions.db"))


def test_a_new_conversation_has_a_name_of_its_own() -> None:
    assert new_session_name() != new_session_name()
    assert new_session_name().startswith("chat-")


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
    deadline = time.monotonic() + TIMEOUT
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
            chat.expect("stopped; the conversation continues")
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


@pytest.mark.parametrize("model", ["openai/Qwen/Qwen3-8B", "openai/qwen3-8b", "ollama/qwen3:8b"])
def test_a_local_server_is_used_with_its_url_and_without_a_key(
    openskills: Command, write_skill: WriteSkill, model: str
) -> None:
    write_skill("alpha")
    with ModelServer(["Hello."]) as server:
        words = ("chat", "hi", "--model", model, "--base-url", server.openai_url, "--skills", "skills")
        ran = openskills(*words, "--executor", "none")
    assert (ran.code, ran.out) == (0, "Hello.\n")
    (request,) = server.requests
    assert (request.path, request.body["model"]) == ("/v1/chat/completions", model.partition("/")[2])


def test_a_source_that_does_not_exist_is_named(openskills: Command) -> None:
    ran = openskills("chat", "hi", "--model", "rule", "--skills", "nowhere", "--executor", "none")
    assert ran.code != 0
    assert "nowhere" in ran.err
