"""What is loaded is visible: after summaries, clearing and clipping."""

from typing import Any

import pytest
from langchain.agents.middleware import ContextEditingMiddleware, SummarizationMiddleware
from langchain.agents.middleware.context_editing import ClearToolUsesEdit
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from openskills.adapters.langchain.messages import SkillMark
from openskills.adapters.langchain.model_call import (
    NOTHING_HIDDEN,
    build_skill_message,
    find_hidden_skills,
    restore_messages,
)
from tests.adapters.langchain.agents import Talk, compacting, deep, plain
from tests.adapters.langchain.scripted import Scripted, load, says, unload
from tests.skill_writer import WriteSkill

SUMMARY = "What was said so far."


def loads(name: str, text: str = "text") -> ToolMessage:
    mark = SkillMark(name, "load", (), "d", len(text))
    return ToolMessage(text, tool_call_id=name, additional_kwargs=mark.to_kwargs())


def seen(talk: Talk, text: str, call: int = -1) -> int:
    """How many messages of a request have this text."""
    return sum(text in message.text for message in talk.model.requests[call])


@pytest.fixture(autouse=True)
def skills(write_skill: WriteSkill) -> None:
    for name in ("a", "b"):
        write_skill(name, body=f"Body of {name}.")


def test_a_loaded_skill_is_given_back_after_a_summary(backend: Any) -> None:
    talk = deep(backend, [says(load("a")), "one", SUMMARY, "two", "three"], more=compacting(backend, after=5))
    talk.say()
    talk.say()
    assert talk.model.requests[-1][1].text.count(SUMMARY) == 1
    given = talk.model.requests[-1][2]
    assert "no longer in your context" in given.text
    assert "Body of a." in given.text
    assert talk.loaded == ["a"]


def test_what_is_given_back_stays_the_same_from_call_to_call(backend: Any) -> None:
    talk = deep(backend, [says(load("a")), "one", SUMMARY, "two", "three"], more=compacting(backend, after=5))
    talk.say()
    talk.say()
    first = [message.text for message in talk.model.requests[-1]]
    talk.say()
    assert [message.text for message in talk.model.requests[-1]][: len(first)] == first


async def test_a_skill_is_given_back_when_the_agent_is_awaited(backend: Any) -> None:
    talk = deep(backend, [says(load("a")), "one", SUMMARY, "two"], more=compacting(backend, after=5))

    await talk.hear()
    await talk.hear()

    assert seen(talk, "Body of a.") == 1


def test_a_skill_that_does_not_fit_is_no_longer_loaded_and_the_model_is_told(backend: Any) -> None:
    script = [says(load("a")), "one", SUMMARY, "two", says(load("a", "again"))]
    talk = deep(backend, script, more=compacting(backend, after=5), restored_characters=10)
    talk.say()
    talk.say()
    assert seen(talk, "These skills are no longer loaded") == 1
    assert "- **a**:" in talk.model.prompt()
    assert talk.loaded == []
    assert talk.state["skill_resources"] == {}
    talk.say()
    assert "Body of a." in talk.results()["again"]


def test_a_skill_that_is_loaded_in_the_call_that_forgets_it_is_loaded_again(backend: Any) -> None:
    script = [says(load("a")), "one", SUMMARY, says(load("a", "again"))]
    talk = deep(backend, script, more=compacting(backend, after=5), restored_characters=10)
    talk.say()
    talk.say()
    assert "Body of a." in talk.results()["again"]
    assert talk.loaded == ["a"]


def test_a_skill_whose_message_was_removed_from_the_thread_is_no_longer_loaded(backend: Any) -> None:
    summary: Any = SummarizationMiddleware(
        model=Scripted(script=[SUMMARY]), trigger=("messages", 5), keep=("messages", 1)
    )
    talk = plain(backend, [says(load("a")), "one", "two"], more=[summary])
    talk.say()
    talk.say()
    assert talk.loaded == []
    assert "- **a**:" in talk.model.prompt()


def test_a_skill_whose_result_was_cleared_is_given_back(backend: Any) -> None:
    edit = ClearToolUsesEdit(trigger=1, keep=0)
    talk = plain(backend, [says(load("a")), "one"], more=[ContextEditingMiddleware(edits=[edit])])
    talk.say()
    assert seen(talk, "[cleared]") == 1
    assert seen(talk, "Body of a.") == 1
    assert talk.loaded == ["a"]


def test_an_unloaded_skill_is_not_given_back(backend: Any) -> None:
    script = [says(load("a")), says(unload("a")), "one", SUMMARY, "two"]
    talk = deep(backend, script, more=compacting(backend, after=7))
    talk.say()
    talk.say()
    assert seen(talk, SUMMARY) == 1
    assert seen(talk, "Body of a.") == 0


def test_nothing_is_hidden_while_every_text_is_whole() -> None:
    messages = [loads("a"), loads("b")]
    assert find_hidden_skills(["a", "b"], messages, messages, 100) is NOTHING_HIDDEN
    assert find_hidden_skills([], [], [], 100) is NOTHING_HIDDEN


def test_a_clipped_text_is_hidden() -> None:
    clipped = loads("a").model_copy(update={"content": "te..."})
    assert find_hidden_skills(["a"], [clipped], [loads("a")], 100).restored == {"a": "text"}
    assert find_hidden_skills(["a"], [clipped], [clipped], 100).forgotten == ("a",)


def test_the_skills_that_were_loaded_last_are_given_back_first() -> None:
    history = [loads("a"), loads("b"), loads("c")]
    sight = find_hidden_skills(["a", "b", "c"], [], history, 8)
    assert list(sight.restored) == ["b", "c"]
    assert sight.forgotten == ("a",)


def test_what_is_given_back_never_stands_between_a_call_and_its_result() -> None:
    sight = find_hidden_skills(["a"], [], [loads("a")], 100)
    tail: list[AnyMessage] = [AIMessage("", tool_calls=[load("b")]), loads("b")]
    assert [message.type for message in restore_messages(tail, sight, {})] == ["human", "ai", "tool"]
    assert [message.type for message in restore_messages([HumanMessage("s"), *tail], sight, {})] == [
        *("human", "human", "ai", "tool")
    ]


def test_the_name_of_a_skill_cannot_break_out_of_its_message() -> None:
    message = build_skill_message('a"><b', "/p", "text")
    assert '<skill name="a&quot;&gt;&lt;b" path="/p">' in message.text
