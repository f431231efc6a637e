"""People who decide about commands while a graph waits for them."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from langgraph.types import Command

from openskills.adapters.langchain import ask_by_interrupt
from openskills.sync import run
from openskills.testing import FakeExecutor
from openskills.testing.fake_process import FakeRun
from tests.adapters.langchain.runtime_agents import SkillTalk, hello, load, runtime_of, talk_of
from tests.adapters.langchain.scripted import call, says
from tests.skill_writer import WriteSkill


@pytest.fixture
def talk(tmp_path: Path, write_skill: WriteSkill) -> SkillTalk:
    """A thread in which every command is asked about, and that has come to the first."""
    write_skill("pdf")
    script = [says(load("pdf")), says(hello("pdf")), says(hello("pdf", "again")), "done"]
    found = talk_of(runtime_of(tmp_path / "skills", ask=ask_by_interrupt), script)
    found.say()
    return found


def waiting(talk: SkillTalk) -> list[Any]:
    """What the thread waits for."""
    return [one.value for one in talk.agent.get_state(talk.config).interrupts]


def answer(talk: SkillTalk, what: object) -> None:
    """Say it, and let the thread go on."""
    talk.agent.invoke(Command(resume=what), talk.config)


def test_the_interrupt_says_what_is_to_be_run(talk: SkillTalk) -> None:
    (question,) = waiting(talk)
    assert (question["skill"], question["command"]) == ("pdf", "hello")
    assert "run" not in talk.results()
    assert [type(choice) for choice in question["choices"]] == [str, str, str]


def test_a_yes_runs_it_and_the_next_command_is_asked_about_again(talk: SkillTalk) -> None:
    answer(talk, True)
    assert "hello from a command" in talk.results()["run"].text
    assert len(waiting(talk)) == 1
    answer(talk, "allow_once")
    assert talk.results()["again"].status == "success"
    assert waiting(talk) == []


def test_a_yes_for_the_session_is_remembered(talk: SkillTalk) -> None:
    answer(talk, "allow_session")
    assert waiting(talk) == []
    assert talk.results()["again"].status == "success"


@pytest.mark.parametrize("no", [False, "deny", {"what": "is this"}, 7, None], ids=str)
def test_anything_but_a_yes_runs_nothing_and_the_model_is_told(talk: SkillTalk, no: object) -> None:
    answer(talk, no if no is not None else "no, not today")
    assert talk.results()["run"].status == "error"
    assert "hello from a command" not in talk.results()["run"].text


def test_the_reason_of_a_no_reaches_the_model(talk: SkillTalk) -> None:
    answer(talk, "not before Monday")
    assert "not before Monday" in talk.results()["run"].text


@pytest.mark.parametrize("commands", [("hello", "hello"), ("hello", "hello again")], ids=["the same", "two"])
@pytest.mark.parametrize("is_awaited", [False, True])
def test_commands_of_one_message_are_all_asked_about(
    tmp_path: Path, write_skill: WriteSkill, commands: tuple[str, str], is_awaited: bool
) -> None:
    write_skill("pdf")
    executor = FakeExecutor({"hello": FakeRun(b"hi"), "hello again": FakeRun(b"hi")})
    both = [call("skill_run", str(place), skill="pdf", command=command) for place, command in enumerate(commands)]
    talk = talk_of(
        runtime_of(tmp_path / "skills", executor, ask=ask_by_interrupt), [says(load("pdf")), says(*both), "done"]
    )
    asyncio.run(talk.hear()) if is_awaited else talk.say()
    interrupts = talk.agent.get_state(talk.config).interrupts
    assert [one.value["command"] for one in interrupts] == list(commands)
    answer(talk, {one.id: True for one in interrupts})
    assert [talk.results()[call_id].status for call_id in ("0", "1")] == ["success", "success"]


def test_an_awaited_graph_waits_too(tmp_path: Path, write_skill: WriteSkill) -> None:
    write_skill("pdf")
    script = [says(load("pdf")), says(hello("pdf")), "done"]
    talk = talk_of(runtime_of(tmp_path / "skills", ask=ask_by_interrupt), script)

    async def go() -> None:
        await talk.hear()
        assert len(waiting(talk)) == 1
        await talk.agent.ainvoke(Command(resume=True), talk.config)

    asyncio.run(go())
    assert talk.results()["run"].status == "success"


def test_outside_a_graph_nothing_runs(tmp_path: Path, write_skill: WriteSkill) -> None:
    write_skill("pdf")

    async def go() -> str:
        async with runtime_of(tmp_path / "skills", ask=ask_by_interrupt).session("s") as session:
            await session.call("skill_load", {"skill": "pdf"})
            return (await session.call("skill_run", {"skill": "pdf", "command": "hello"})).text

    assert run(go()).startswith("error:")
