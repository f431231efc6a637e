"""A long load result reaches the model whole."""

import asyncio
from typing import Any

from langchain_core.messages import ToolMessage
from langgraph.types import Command

from openskills.adapters.langchain.eviction import kept_whole
from openskills.adapters.langchain.marks import Mark
from tests.adapters.langchain.agents import deep
from tests.adapters.langchain.scripted import call, load, says
from tests.skill_writer import WriteSkill

LONG = "word " * 30_000 + "THE END"


def test_a_load_result_of_150000_characters_is_not_replaced_by_a_pointer(write_skill: WriteSkill, backend: Any) -> None:
    write_skill("long", body=LONG)
    talk = deep(backend, [says(load("long")), "one"])
    talk.say()
    shown = talk.model.requests[-1][-1]
    assert isinstance(shown, ToolMessage)
    assert shown.text.rstrip().endswith("THE END")
    assert shown.name == "load_skill"
    assert talk.loaded == ["long"]
    assert "large_tool_results" not in shown.text


def test_a_long_result_is_whole_when_the_agent_is_awaited(write_skill: WriteSkill, backend: Any) -> None:
    write_skill("long", body=LONG)
    talk = deep(backend, [says(load("long")), "one"])
    asyncio.run(talk.hear())
    assert talk.model.requests[-1][-1].text.rstrip().endswith("THE END")


def test_results_of_other_tools_are_evicted_as_before(backend: Any) -> None:
    def long_answer() -> str:
        """Say much."""
        return LONG

    talk = deep(backend, [says(call("long_answer", "1"))], agent={"tools": [long_answer]})
    talk.say()
    assert "large_tool_results" in talk.results()["1"]


def test_a_short_result_stays_a_message() -> None:
    message = ToolMessage("t", tool_call_id="1", additional_kwargs=Mark("a", "load").kwargs())
    command: Command[Any] = Command(update={"messages": [message], "x": 1})
    same = kept_whole(command, 10)
    assert isinstance(same, Command)
    assert same.update == {"messages": [message], "x": 1}


def test_what_is_no_load_is_left_alone() -> None:
    message = ToolMessage("t" * 20, tool_call_id="1")
    assert kept_whole(message, 10) is message
    kept = kept_whole(Command(update={"messages": [message]}), 10)
    assert isinstance(kept, Command)
    assert kept.update == {"messages": [message]}
