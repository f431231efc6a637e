"""Messages of LangChain as mappings, and back."""

from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage

from openskills.adapters.langchain.runtime_messages import as_mappings, as_messages
from tests.adapters.langchain.scripted import call

SYSTEM = SystemMessage("You are brief.")
MESSAGES: list[AnyMessage] = [
    HumanMessage("hi"),
    AIMessage("", tool_calls=[call("skill_load", "1", skill="pdf")]),
    ToolMessage("loaded: pdf", tool_call_id="1", name="skill_load"),
]


def test_what_a_session_does_not_change_is_the_same_object() -> None:
    system, messages = as_messages(as_mappings(SYSTEM, MESSAGES), SYSTEM, MESSAGES)
    assert system is SYSTEM
    assert all(one is other for one, other in zip(messages, MESSAGES, strict=True))


def test_calls_and_results_are_told_as_openai_tells_them() -> None:
    mappings = as_mappings(None, MESSAGES)
    assert [mapping["role"] for mapping in mappings] == ["user", "assistant", "tool"]
    assert mappings[1]["tool_calls"][0]["function"] == {"name": "skill_load", "arguments": {"skill": "pdf"}}
    assert (mappings[2]["tool_call_id"], mappings[2]["name"]) == ("1", "skill_load")


def test_a_changed_result_is_a_copy_with_everything_else_as_it_was() -> None:
    sent = as_mappings(SYSTEM, MESSAGES)
    sent[3] = {**sent[3], "content": "loaded: pdf\n\nthe text"}
    _, messages = as_messages(sent, SYSTEM, MESSAGES)
    changed = messages[2]
    assert isinstance(changed, ToolMessage)
    assert (changed.text, changed.tool_call_id) == ("loaded: pdf\n\nthe text", "1")
    assert MESSAGES[2].text == "loaded: pdf"


def test_what_is_inserted_before_the_conversation_joins_the_system_message() -> None:
    inserted = {"role": "system", "content": "Loaded skill context:"}
    first, *rest = as_mappings(SYSTEM, MESSAGES)
    system, messages = as_messages([first, inserted, *rest], SYSTEM, MESSAGES)
    assert system is not None
    assert system.text == "You are brief.\n\nLoaded skill context:"
    assert messages == MESSAGES


def test_without_a_system_message_there_is_one_for_what_is_inserted() -> None:
    inserted = {"role": "system", "content": "skills"}
    system, _ = as_messages([inserted, *as_mappings(None, MESSAGES)], None, MESSAGES)
    assert system is not None
    assert system.text == "skills"


def test_a_system_message_in_parts_gets_one_more_part() -> None:
    parts: list[Any] = [{"type": "text", "text": "brief"}]
    given = SystemMessage(parts)
    first, *rest = as_mappings(given, MESSAGES)
    system, _ = as_messages([first, {"role": "system", "content": "more"}, *rest], given, MESSAGES)
    assert system is not None
    assert system.content == [parts[0], {"type": "text", "text": "\n\nmore"}]


def test_system_messages_in_the_conversation_stay_where_they_are() -> None:
    messages: list[AnyMessage] = [SystemMessage("first"), *MESSAGES]
    sent = as_mappings(None, messages)
    sent.insert(1, {"role": "system", "content": "more"})
    system, found = as_messages(sent, None, messages)
    assert system is None
    assert [message.text for message in found[:2]] == ["first", "more"]


def test_what_middleware_says_for_the_user_is_not_the_user_speaking() -> None:
    summary = HumanMessage("In short: …", additional_kwargs={"lc_source": "summarization"})
    assert as_mappings(None, [summary])[0]["role"] == "context"


def test_names_of_files_are_where_sessions_look_and_the_message_is_not_changed() -> None:
    named = {"type": "file", "base64": "aGk=", "mime_type": "text/plain", "extras": {"filename": "a.txt"}}
    older = {"type": "file", "data": "aGk=", "source_type": "base64", "metadata": {"filename": "b.txt"}}
    message = HumanMessage(["text", named, older])
    sent = as_mappings(None, [message])
    assert [part["filename"] for part in sent[0]["content"][1:]] == ["a.txt", "b.txt"]
    assert as_messages(sent, None, [message])[1][0] is message


def test_a_message_that_somebody_added_becomes_one_of_langchain() -> None:
    sent = [*as_mappings(SYSTEM, MESSAGES), {"role": "user", "content": "one more thing"}]
    _, messages = as_messages(sent, SYSTEM, MESSAGES)
    assert isinstance(messages[-1], HumanMessage)
