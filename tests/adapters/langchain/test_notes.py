"""Words of hooks at the end of results."""

from typing import Any

from langchain_core.messages import HumanMessage, ToolMessage
from langgraph.types import Command

from openskills.adapters.langchain.marks import Mark, whole_loads
from openskills.adapters.langchain.notes import with_notes


def result(text: str = "result", call_id: str = "1") -> ToolMessage:
    return ToolMessage(text, tool_call_id=call_id)


def test_without_notes_a_result_is_what_it_was() -> None:
    message = result()
    assert with_notes(message, "1", [], []) is message


def test_notes_stand_below_a_result() -> None:
    noted = with_notes(result(), "1", ["one", "two"], [])
    assert isinstance(noted, ToolMessage)
    assert noted.text == "result\n\none\n\ntwo"


def test_hooks_that_ran_are_remembered() -> None:
    noted = with_notes(result(), "1", [], ["hook"])
    assert isinstance(noted, Command)
    assert noted.update == {"messages": [result()], "skill_hooks_done": ["hook"]}


def test_only_the_result_of_the_call_gets_them_and_other_changes_stay() -> None:
    mark = Mark("pdf", "load", (), "d", 6)
    ours = result().model_copy(update={"additional_kwargs": mark.kwargs()})
    others: list[Any] = [HumanMessage("x"), result(call_id="2")]
    command: Command[Any] = Command(update={"messages": [*others, ours], "files": 1}, goto="x")
    noted = with_notes(command, "1", ["note"], ["hook"])
    assert isinstance(noted, Command)
    update: Any = noted.update
    assert update["messages"][:2] == others
    assert update["messages"][2].text == "result\n\nnote"
    assert list(whole_loads(update["messages"])) == ["pdf"]
    assert (update["files"], update["skill_hooks_done"], noted.goto) == (1, ["hook"], "x")


def test_a_command_without_changes_is_passed_on() -> None:
    command: Command[Any] = Command(goto="x")
    assert with_notes(command, "1", ["note"], []) is command
