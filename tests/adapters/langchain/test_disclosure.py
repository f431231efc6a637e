"""Tools that come with a skill are disclosed when it is loaded."""

import asyncio
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import BaseTool, tool

from openskills.adapters.langchain.disclosure import ReadsForLoads, with_tools
from openskills.adapters.langchain.marks import Mark
from tests.adapters.langchain.agents import compacting, deep
from tests.adapters.langchain.entries import entry
from tests.adapters.langchain.scripted import call, load, says
from tests.skill_writer import WriteSkill


@tool
def stamp(text: str) -> str:
    """Stamp a text."""
    return f"stamped {text}"


TOOLED = "metadata:\n  include_tools: stamp\n"


def test_a_tool_is_offered_and_callable_after_its_skill_was_loaded(write_skill: WriteSkill, backend: Any) -> None:
    write_skill("pdf", front=TOOLED)
    script = [says(call("stamp", "early", text="x")), says(load("pdf")), says(call("stamp", "late", text="x"))]
    talk = deep(backend, script, tools=[stamp])
    talk.say()
    assert ["stamp" in offered for offered in talk.model.offered] == [False, False, True, True]
    assert "not a valid tool" in talk.results()["early"]
    assert talk.results()["late"] == "stamped x"


def test_an_async_resolver_gives_the_tools_of_a_loaded_skill(write_skill: WriteSkill, backend: Any) -> None:
    write_skill("pdf", front=TOOLED)

    async def resolve(name: str, runtime: Any) -> list[BaseTool]:
        return [stamp] if name == "stamp" else []

    talk = deep(backend, [says(load("pdf")), says(call("stamp", "late", text="x"))], tools=resolve)
    asyncio.run(talk.hear())
    assert talk.results()["late"] == "stamped x"


def test_reading_and_pinning_disclose_as_upstream_does(write_skill: WriteSkill, backend: Any) -> None:
    write_skill("pdf", front=TOOLED)
    read = call("read_file", "read", file_path="/skills/pdf/SKILL.md")
    talk = deep(backend, [says(read)], tools=[stamp])
    talk.say()
    assert "stamp" in talk.model.offered[-1]
    pinned = deep(backend, [], tools=[stamp])
    pinned.say(pinned_skills=["pdf"])
    assert "stamp" in pinned.model.offered[-1]
    assert pinned.model.requests[-1][-1].additional_kwargs["lc_source"] == "pinned_skill"


def test_a_skill_that_is_given_back_after_a_summary_keeps_its_tools(write_skill: WriteSkill, backend: Any) -> None:
    write_skill("pdf", front=TOOLED)
    talk = deep(
        backend, [says(load("pdf")), "one", "A summary.", "two"], tools=[stamp], more=compacting(backend, after=5)
    )
    talk.say()
    talk.say()
    assert "stamp" in talk.model.offered[-1]


def test_the_model_gets_the_conversation_as_it_was(write_skill: WriteSkill, backend: Any) -> None:
    write_skill("pdf", front=TOOLED)
    talk = deep(backend, [says(load("pdf"))], tools=[stamp])
    talk.say()
    (made,) = (message for message in talk.model.requests[-1] if isinstance(message, AIMessage))
    assert made.tool_calls[0]["name"] == "load_skill"


def test_skills_without_tools_are_left_out() -> None:
    assert with_tools(
        [entry("a"), entry("b", metadata={"include_tools": "x"}), entry("c", metadata={"author": "y"})]
    ) == [entry("b", metadata={"include_tools": "x"})]


def test_a_load_looks_like_a_read_and_back() -> None:
    result = ToolMessage("t", tool_call_id="1", additional_kwargs=Mark("a", "load").kwargs())
    other = ToolMessage("t", tool_call_id="2", additional_kwargs=Mark("b", "load").kwargs())
    messages: list[AnyMessage] = [HumanMessage("go"), says(load("a", "1"), load("b", "2")), result, other]
    reads = ReadsForLoads(messages, [entry("a", metadata={"include_tools": "x"})])
    shown = reads.messages[1]
    assert isinstance(shown, AIMessage)
    assert [(made["name"], made["args"]) for made in shown.tool_calls] == [
        ("read_file", {"file_path": "/skills/a/SKILL.md"}),
        ("load_skill", {"skill_name": "b"}),
    ]
    inserted = SystemMessage("new tools")
    assert reads.real([*reads.messages, inserted]) == [*messages, inserted]
