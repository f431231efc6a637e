"""A call and those before it in its message."""

from langchain_core.messages import HumanMessage, ToolMessage

from openskills.adapters.langchain.calls import SkillCall
from tests.adapters.langchain.scripted import call, load, says, unload


def test_only_earlier_calls_of_the_same_message_count() -> None:
    old = says(unload("x", "0"))
    message = says(load("a", "1"), unload("b", "2"), call("other", "3"), load("c", "4"), unload("d", "5"))
    state = {"messages": [old, ToolMessage("done", tool_call_id="0"), message], "skills_loaded": ["b"]}
    made = SkillCall.of("c", "4", state)
    assert (made.loads, made.unloads, made.loaded) == ({"a"}, {"b"}, ("b",))


def test_a_call_that_was_answered_did_not_happen() -> None:
    message = says(load("a", "1"), load("b", "2"), load("c", "3"))
    made = SkillCall.of("c", "3", {"messages": [message, ToolMessage("rejected", tool_call_id="1")]})
    assert made.loads == {"b"}


def test_a_call_outside_a_conversation_has_none_before_it() -> None:
    for messages in ([], [HumanMessage("x")], [says(load("a", "1"))]):
        made = SkillCall.of("c", "9", {"messages": messages})
        assert (made.loads, made.unloads, made.loaded) == (frozenset(), frozenset(), ())


def test_an_earlier_call_counts_as_the_person_left_it() -> None:
    message = says(load("a", "1"), load("b", "2"), load("c", "3"))
    edited = {
        "1": {"name": "load_skill", "args": {"skill_name": "x"}},
        "2": {"name": "unload_skill", "args": {"skill_name": "y"}},
    }
    made = SkillCall.of("c", "3", {"messages": [message], "hitl_edited_tool_calls": edited})
    assert (made.loads, made.unloads) == ({"x"}, {"y"})
