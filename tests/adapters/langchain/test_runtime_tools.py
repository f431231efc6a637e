"""Tools of a session for agents that take nothing but tools."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool

from openskills import SkillSession
from openskills.adapters.langchain import system_text, tools
from openskills.errors import InvalidArgument
from openskills.sync import run
from tests.adapters.langchain.runtime_agents import create_agent, hello, load, runtime_of
from tests.adapters.langchain.scripted import Scripted, says
from tests.skill_writer import WriteSkill


@pytest.fixture
def skills(tmp_path: Path, write_skill: WriteSkill) -> Path:
    """One skill with a document."""
    folder = write_skill("pdf", body="# How to work with pdf")
    (folder / "guide.md").write_text("The guide to forms.")
    return tmp_path / "skills"


def by_name(session: SkillSession) -> dict[str, BaseTool]:
    """The tools of a session."""
    return {tool.name: tool for tool in tools(session)}


def test_a_model_is_told_about_them_what_the_session_tells(skills: Path) -> None:
    async def go() -> None:
        async with runtime_of(skills).session("s") as session:
            assert [convert_to_openai_tool(tool) for tool in tools(session)] == session.tools("openai")

    run(go())


def test_a_load_shows_the_text_in_its_result(skills: Path) -> None:
    async def go() -> tuple[str, ToolMessage]:
        async with runtime_of(skills).session("s") as session:
            found = by_name(session)
            text = await found["skill_load"].ainvoke({"skill": "pdf"})
            wanted = {"skill": "pdf", "docs": ["guide.md"]}
            call = {"type": "tool_call", "id": "c", "name": "skill_select_docs", "args": wanted}
            return text, await found["skill_select_docs"].ainvoke(call)

    loaded, selected = run(go())
    assert loaded.startswith("loaded: pdf\n\n[Loaded] pdf")
    assert "# How to work with pdf" in loaded
    assert "The guide to forms." in selected.text
    assert selected.artifact["selected_docs"] == ["guide.md"]


def test_a_mistake_is_a_result(skills: Path) -> None:
    async def go() -> list[str]:
        async with runtime_of(skills).session("s") as session:
            loading = by_name(session)["skill_load"]
            return [await loading.ainvoke({"skill": "pfd"}), await loading.ainvoke({}), await loading.ainvoke("pdf")]

    near, missing, text = run(go())
    assert "did you mean 'pdf'" in near
    assert missing.startswith("error: skill: is missing")
    assert text.startswith("error:")


def test_blocking_code_may_use_a_session_that_it_opened_with_run(skills: Path) -> None:
    opened = runtime_of(skills).session("s")
    session = run(opened.__aenter__())
    found = by_name(session)
    assert "# How to work with pdf" in found["skill_load"].invoke({"skill": "pdf"})
    assert "hello from a command" in found["skill_run"].invoke({"skill": "pdf", "command": "hello"})
    assert "hello from a command" in asyncio.run(found["skill_run"].ainvoke({"skill": "pdf", "command": "hello"}))
    run(opened.__aexit__(None, None, None))


def test_threads_may_use_a_session_of_a_running_loop(skills: Path) -> None:
    async def go() -> str:
        async with runtime_of(skills).session("s") as session:
            return await asyncio.to_thread(by_name(session)["skill_load"].invoke, {"skill": "pdf"})

    assert "# How to work with pdf" in asyncio.run(go())


def test_a_blocking_call_in_the_loop_of_the_session_is_refused_and_not_waited_for(skills: Path) -> None:
    async def go() -> None:
        async with runtime_of(skills).session("s") as session:
            with pytest.raises(InvalidArgument, match="ainvoke"):
                by_name(session)["skill_load"].invoke({"skill": "pdf"})

    asyncio.run(go())


def test_an_agent_without_middleware_works_with_them(skills: Path) -> None:
    model = Scripted(script=[says(load("pdf")), says(hello("pdf")), "done"])

    async def go() -> list[Any]:
        async with runtime_of(skills).session("s") as session:
            agent = create_agent(model, tools(session), system_prompt=system_text(session))
            return (await agent.ainvoke({"messages": [HumanMessage("hi")]}))["messages"]

    messages = asyncio.run(go())
    assert "- pdf: Merges things." in model.prompt()
    assert any("hello from a command" in message.text for message in messages)
    assert any("# How to work with pdf" in message.text for message in messages)
