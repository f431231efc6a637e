"""Tools of a session for agents that take nothing but tools.

Messages of LangChain as mappings, and back.

Texts for agents that only have tools.
"""

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool

from openskills.adapters.langchain.runtime_tools import ResultTexts, system_text, to_mappings, to_messages, tools
from openskills.errors import InvalidArgument
from openskills.runtime.session import SkillSession
from openskills.sync import run
from openskills.tools.tool import ToolResult
from tests.adapters.langchain.runtime_agents import create_agent, hello, load, runtime_of
from tests.adapters.langchain.scripted import Scripted, call, says
from tests.skill_writer import WriteSkill


@pytest.fixture
def skills(tmp_path: Path, write_skill: WriteSkill) -> Path:
    """One skill with a document."""
    folder = write_skill("pdf", body="# How to work with pdf\n\nRun `hello --loud`.")
    (folder / "guide.md").write_text("The guide to forms.")
    return tmp_path / "skills"


def by_name(session: SkillSession) -> dict[str, BaseTool]:
    """The tools of a session."""
    return {tool.name: tool for tool in tools(session)}


async def test_a_model_is_told_about_them_what_the_session_tells(skills: Path) -> None:
    async with runtime_of(skills).session("s") as session:
        assert [convert_to_openai_tool(tool) for tool in tools(session)] == session.tools("openai")


async def test_a_load_shows_the_text_in_its_result(skills: Path) -> None:
    async with runtime_of(skills).session("s") as session:
        found = by_name(session)
        text = await found["skill_load"].ainvoke({"skill": "pdf"})
        wanted = {"skill": "pdf", "docs": ["guide.md"]}
        call = {"type": "tool_call", "id": "c", "name": "skill_select_docs", "args": wanted}
        loaded, selected = text, await found["skill_select_docs"].ainvoke(call)

    assert loaded.startswith("loaded: pdf\n\n[Loaded] pdf")
    assert "# How to work with pdf" in loaded
    assert "The guide to forms." in selected.text
    assert selected.artifact["selected_docs"] == ["guide.md"]


async def test_a_mistake_is_a_result(skills: Path) -> None:
    async with runtime_of(skills).session("s") as session:
        loading = by_name(session)["skill_load"]
        near, missing, text = [
            await loading.ainvoke({"skill": "pfd"}),
            await loading.ainvoke({}),
            await loading.ainvoke("pdf"),
        ]

    assert "did you mean 'pdf'" in near
    assert missing.startswith("error: skill: required")
    assert text.startswith("error:")


def test_blocking_code_may_use_a_session_that_it_opened_with_run(skills: Path) -> None:
    opened = runtime_of(skills).session("s")
    session = run(opened.__aenter__())
    found = by_name(session)
    assert "# How to work with pdf" in found["skill_load"].invoke({"skill": "pdf"})
    assert "hello from a command" in found["skill_run"].invoke({"skill": "pdf", "command": "hello"})
    assert "hello from a command" in asyncio.run(found["skill_run"].ainvoke({"skill": "pdf", "command": "hello"}))
    run(opened.__aexit__(None, None, None))


async def test_threads_may_use_a_session_of_a_running_loop(skills: Path) -> None:
    async with runtime_of(skills).session("s") as session:
        result = await asyncio.to_thread(by_name(session)["skill_load"].invoke, {"skill": "pdf"})

    assert "# How to work with pdf" in result


async def test_a_blocking_call_in_the_loop_of_the_session_is_refused_and_not_waited_for(skills: Path) -> None:
    async with runtime_of(skills).session("s") as session:
        with pytest.raises(InvalidArgument, match="ainvoke"):
            by_name(session)["skill_load"].invoke({"skill": "pdf"})


async def test_an_agent_without_middleware_works_with_them(skills: Path) -> None:
    model = Scripted(script=[says(load("pdf")), says(hello("pdf")), "done"])

    async with runtime_of(skills).session("s") as session:
        agent = create_agent(model, tools(session), system_prompt=system_text(session))
        messages = (await agent.ainvoke({"messages": [HumanMessage("hi")]}))["messages"]

    assert "- pdf: Merges things." in model.prompt()
    assert any("hello from a command" in message.text for message in messages)
    assert any("# How to work with pdf" in message.text for message in messages)


SYSTEM = SystemMessage("You are brief.")
MESSAGES: list[AnyMessage] = [
    HumanMessage("hi"),
    AIMessage("", tool_calls=[call("skill_load", "1", skill="pdf")]),
    ToolMessage("loaded: pdf", tool_call_id="1", name="skill_load"),
]


def test_what_a_session_does_not_change_is_the_same_object() -> None:
    system, messages = to_messages(to_mappings(SYSTEM, MESSAGES), SYSTEM, MESSAGES)
    assert system is SYSTEM
    assert all(one is other for one, other in zip(messages, MESSAGES, strict=True))


def test_calls_and_results_are_told_as_openai_tells_them() -> None:
    mappings = to_mappings(None, MESSAGES)
    assert [mapping["role"] for mapping in mappings] == ["user", "assistant", "tool"]
    assert mappings[1]["tool_calls"][0]["function"] == {"name": "skill_load", "arguments": {"skill": "pdf"}}
    assert (mappings[2]["tool_call_id"], mappings[2]["name"]) == ("1", "skill_load")


def test_a_changed_result_is_a_copy_with_everything_else_as_it_was() -> None:
    sent = to_mappings(SYSTEM, MESSAGES)
    sent[3] = {**sent[3], "content": "loaded: pdf\n\nthe text"}
    _, messages = to_messages(sent, SYSTEM, MESSAGES)
    changed = messages[2]
    assert isinstance(changed, ToolMessage)
    assert (changed.text, changed.tool_call_id) == ("loaded: pdf\n\nthe text", "1")
    assert MESSAGES[2].text == "loaded: pdf"


def test_what_is_inserted_before_the_conversation_joins_the_system_message() -> None:
    inserted = {"role": "system", "content": "Loaded skill context:"}
    first, *rest = to_mappings(SYSTEM, MESSAGES)
    system, messages = to_messages([first, inserted, *rest], SYSTEM, MESSAGES)
    assert system is not None
    assert system.text == "You are brief.\n\nLoaded skill context:"
    assert messages == MESSAGES


def test_without_a_system_message_there_is_one_for_what_is_inserted() -> None:
    inserted = {"role": "system", "content": "skills"}
    system, _ = to_messages([inserted, *to_mappings(None, MESSAGES)], None, MESSAGES)
    assert system is not None
    assert system.text == "skills"


def test_a_system_message_in_parts_gets_one_more_part() -> None:
    parts: list[Any] = [{"type": "text", "text": "brief"}]
    given = SystemMessage(parts)
    first, *rest = to_mappings(given, MESSAGES)
    system, _ = to_messages([first, {"role": "system", "content": "more"}, *rest], given, MESSAGES)
    assert system is not None
    assert system.content == [parts[0], {"type": "text", "text": "\n\nmore"}]


def test_system_messages_in_the_conversation_stay_where_they_are() -> None:
    messages: list[AnyMessage] = [SystemMessage("first"), *MESSAGES]
    sent = to_mappings(None, messages)
    sent.insert(1, {"role": "system", "content": "more"})
    system, found = to_messages(sent, None, messages)
    assert system is None
    assert [message.text for message in found[:2]] == ["first", "more"]


def test_what_middleware_says_for_the_user_is_not_the_user_speaking() -> None:
    summary = HumanMessage("In short: …", additional_kwargs={"lc_source": "summarization"})
    assert to_mappings(None, [summary])[0]["role"] == "context"


def test_names_of_files_are_where_sessions_look_and_the_message_is_not_changed() -> None:
    named = {"type": "file", "base64": "aGk=", "mime_type": "text/plain", "extras": {"filename": "a.txt"}}
    older = {"type": "file", "data": "aGk=", "source_type": "base64", "metadata": {"filename": "b.txt"}}
    message = HumanMessage(["text", named, older])
    sent = to_mappings(None, [message])
    assert [part["filename"] for part in sent[0]["content"][1:]] == ["a.txt", "b.txt"]
    assert to_messages(sent, None, [message])[1][0] is message


def test_a_message_that_somebody_added_becomes_one_of_langchain() -> None:
    sent = [*to_mappings(SYSTEM, MESSAGES), {"role": "user", "content": "one more thing"}]
    _, messages = to_messages(sent, SYSTEM, MESSAGES)
    assert isinstance(messages[-1], HumanMessage)


async def test_the_system_text_lists_the_skills_and_says_how_to_use_them(
    tmp_path: Path, write_skill: WriteSkill
) -> None:
    write_skill("pdf")

    async with runtime_of(tmp_path / "skills").session("s") as session:
        text = system_text(session)

    assert "- pdf: Merges things." in text
    assert "call skill_load before" in text


async def _loaded(session: SkillSession) -> tuple[ResultTexts, ToolResult]:
    return ResultTexts(session), await session.call("skill_load", {"skill": "pdf"})


async def test_a_second_load_shows_the_text_again(tmp_path: Path, write_skill: WriteSkill) -> None:
    write_skill("pdf", body="# How to")

    async with runtime_of(tmp_path / "skills").session("s") as session:
        texts, loaded = await _loaded(session)
        reloaded = await session.call("skill_load", {"skill": "pdf"})
        first, again = await texts.render(loaded), await texts.render(reloaded)
    assert "# How to" in first
    assert first == again


async def test_a_result_without_texts_is_as_it_was(tmp_path: Path, write_skill: WriteSkill) -> None:
    write_skill("pdf")

    async with runtime_of(tmp_path / "skills").session("s") as session:
        texts, _ = await _loaded(session)
        for name in ("skill_list_docs", "skill_unload", "skill_load"):
            result = await session.call(name, {"skill": "nothing" if name == "skill_load" else "pdf"})
            assert await texts.render(result) == result.text


async def test_a_skill_that_vanished_after_its_load_does_not_break_the_result(
    tmp_path: Path, write_skill: WriteSkill
) -> None:
    folder = write_skill("pdf")

    async with runtime_of(tmp_path / "skills").session("s") as session:
        texts, result = await _loaded(session)
        shutil.rmtree(folder)
        found = await texts.render(result)

    assert found == "loaded: pdf"
