"""Calls of one message and what they do to each other, in graphs and as values."""

from collections.abc import Callable
from typing import Any

import pytest
from langchain.agents.middleware import AgentMiddleware
from langchain.agents.middleware.types import ToolCallRequest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.types import Command, interrupt

from openskills.adapters.langchain.load import reconcile_calls
from openskills.adapters.langchain.messages import SkillMark, parse_mark
from tests.adapters.langchain.agents import Talk, deep
from tests.adapters.langchain.entries import entry
from tests.adapters.langchain.scripted import Scripted, load, says, unload
from tests.skill_writer import WriteSkill

Result = ToolMessage | Command[Any]


class Refusing(AgentMiddleware[Any, Any]):
    """Middleware of an application that lets some calls not happen."""

    def __init__(self, *refused: str) -> None:
        self.refused = refused

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Result]) -> Result:
        call_id = request.tool_call["id"]
        if call_id in self.refused:
            return ToolMessage("no", tool_call_id=call_id, status="error")
        return handler(request)


class Asking(AgentMiddleware[Any, Any]):
    """Middleware of an application that asks a person in the middle of a call."""

    def __init__(self, *asked: str) -> None:
        self.asked = asked

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Result]) -> Result:
        call_id = request.tool_call["id"]
        if call_id in self.asked and not interrupt("may it?"):
            return ToolMessage("rejected", tool_call_id=call_id, status="error")
        return handler(request)


def with_one(backend: Any, *messages: AIMessage, limit: int = 1, more: Any = None, **agent: Any) -> Talk:
    added: Callable[[Scripted], list[Any]] | None = (lambda _: [more]) if more else None
    return deep(backend, list(messages), max_loaded_skills=limit, more=added, agent=agent)


@pytest.fixture(autouse=True)
def skills(write_skill: WriteSkill) -> None:
    for name in ("a", "b", "c"):
        write_skill(name, body=f"Body of {name}.")


def test_two_loads_in_one_message_both_count(backend: Any) -> None:
    talk = with_one(backend, says(load("a"), load("b")), limit=2)
    talk.say()
    assert talk.loaded == ["a", "b"]
    assert "Body of a." in talk.results()["load-a"]
    assert "Body of b." in talk.results()["load-b"]


async def test_two_loads_in_one_message_both_count_when_awaited(backend: Any) -> None:
    talk = with_one(backend, says(load("a"), load("b")), limit=2)
    await talk.hear()
    assert talk.loaded == ["a", "b"]


def test_twelve_loads_in_one_message_stop_at_the_limit_in_the_order_of_the_calls(
    backend: Any, write_skill: WriteSkill
) -> None:
    names = [f"s-{number:02}" for number in range(12)]
    for name in names:
        write_skill(name)
    talk = with_one(backend, says(*map(load, reversed(names))), limit=10)
    talk.say()
    assert talk.loaded == names[:1:-1]
    assert "Maximum number" in talk.results()["load-s-00"]
    assert "Maximum number" in talk.results()["load-s-01"]
    assert set(talk.state["skill_resources"]) == set(talk.loaded)


def test_the_same_skill_twice_in_one_message_is_loaded_once(backend: Any) -> None:
    talk = with_one(backend, says(load("a", "1"), load("a", "2")), limit=2)
    talk.say()
    assert talk.loaded == ["a"]
    assert talk.results()["2"] == "Skill 'a' is already loaded. Its instructions are already active."


def test_a_second_load_beyond_the_limit_is_refused(backend: Any) -> None:
    talk = with_one(backend, says(load("a"), load("b")))
    talk.say()
    assert talk.loaded == ["a"]
    assert "Currently loaded: a." in talk.results()["load-b"]
    assert all("Body of b." not in message.text for message in talk.model.requests[-1])


def test_unload_and_load_in_one_message_swap_skills_at_the_limit(backend: Any) -> None:
    talk = with_one(backend, says(load("a")), says(unload("a"), load("b")))
    talk.say()
    assert talk.loaded == ["b"]
    assert "Body of b." in talk.results()["load-b"]


def test_load_before_unload_in_one_message_is_refused_at_the_limit(backend: Any) -> None:
    talk = with_one(backend, says(load("a")), says(load("b"), unload("a")))
    talk.say()
    assert talk.loaded == []
    assert "Maximum number" in talk.results()["load-b"]


def test_load_and_unload_of_one_skill_in_one_message_leave_nothing(backend: Any) -> None:
    talk = with_one(backend, says(load("a"), unload("a")))
    talk.say()
    assert talk.loaded == []
    assert talk.state["skill_resources"] == {}
    assert "Currently loaded: 0/1 (1 slot(s) available)" in talk.results()["unload-a"]


def test_unload_and_load_of_one_skill_in_one_message_load_it_again(backend: Any) -> None:
    talk = with_one(backend, says(load("a", "1")), says(unload("a"), load("a", "2")))
    talk.say()
    assert talk.loaded == ["a"]
    assert "Body of a." in talk.results()["2"]


def test_a_load_that_failed_takes_no_slot_from_the_next(backend: Any, tmp_path: Any) -> None:
    talk = with_one(backend, says(load("a"), load("b")))
    (tmp_path / "skills" / "a" / "SKILL.md").unlink()
    talk.say(skills_metadata=[entry("a"), entry("b")])
    assert talk.results()["load-a"].startswith("Error: Failed to read")
    assert talk.loaded == ["b"]


def test_a_load_that_other_middleware_refused_takes_no_slot_from_the_next(backend: Any) -> None:
    talk = with_one(backend, says(load("a"), load("b")), more=Refusing("load-a"))
    talk.say()
    assert talk.loaded == ["b"]


def test_an_unload_that_other_middleware_refused_frees_no_slot(backend: Any) -> None:
    talk = with_one(backend, says(load("a")), says(unload("a"), load("b")), more=Refusing("unload-a"))
    talk.say()
    assert talk.loaded == ["a"]
    assert "Maximum number" in talk.results()["load-b"]
    assert talk.state["skill_resources"].keys() == {"a"}
    assert all("Body of b." not in message.text for message in talk.model.requests[-1])


def test_a_load_that_a_person_rejected_takes_no_slot_from_the_next(backend: Any) -> None:
    talk = with_one(backend, says(load("a"), load("b")), interrupt_on={"load_skill": True})
    talk.say()
    decisions = [{"type": "reject", "message": "not this one"}, {"type": "approve"}]
    talk.agent.invoke(Command(resume={"decisions": decisions}), talk.config)
    assert talk.results()["load-a"].endswith("not this one")
    assert talk.loaded == ["b"]


@pytest.mark.parametrize(("allowed", "loaded"), [(True, ["a"]), (False, ["b"])])
def test_a_load_that_was_interrupted_counts_only_if_it_happens(backend: Any, allowed: bool, loaded: list[str]) -> None:
    talk = with_one(backend, says(load("a"), load("b")), more=Asking("load-a"))
    talk.say()
    assert talk.agent.get_state(talk.config).next == ("tools",)
    talk.agent.invoke(Command(resume=allowed), talk.config)
    assert talk.loaded == loaded
    refused = ({"a", "b"} - set(loaded)).pop()
    assert "Body of" not in talk.results()[f"load-{refused}"]


def test_an_unload_of_what_a_sibling_failed_to_load_says_so(backend: Any) -> None:
    talk = with_one(backend, says(load("a"), unload("a")), more=Refusing("load-a"))
    talk.say()
    assert talk.results()["unload-a"].startswith("Error: Skill 'a' is not currently loaded.")


def test_a_conversation_without_our_results_has_nothing_to_settle() -> None:
    assert reconcile_calls([], 1) == {}
    assert reconcile_calls([HumanMessage("hello"), says(load("a")), ToolMessage("x", tool_call_id="load-a")], 1) == {}


def test_settling_again_changes_nothing() -> None:
    def result(name: str) -> ToolMessage:
        mark = SkillMark(name, "load", (), "", 4)
        return ToolMessage("text", tool_call_id=name, id=name, additional_kwargs=mark.to_kwargs())

    messages: list[Any] = [says(load("a"), load("b")), result("a"), result("b")]
    update = reconcile_calls(messages, 1, tell_state=True)
    by_id = {message.id: message for message in update["messages"]}
    assert [mark and mark.change for mark in map(parse_mark, by_id.values())] == ["none"]
    assert by_id["b"].text.endswith("Loaded skills: a (1/1).")
    assert update["skill_resources"] == {"b": None}
    again = [messages[0], result("a"), by_id["b"]]
    assert reconcile_calls(again, 1, tell_state=True) == {}
