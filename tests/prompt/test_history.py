"""Where texts stand, by what was called and answered.

Messages are read as they come, from whoever they come.

What results of skill tools say, and what says nothing.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from types import MappingProxyType, SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openskills.prompt.history import (
    HistoryReplay,
    HistoryToolCall,
    SkillAction,
    SkillCallResult,
    TextHistory,
    TextLocations,
    can_append_text,
    count_system_messages,
    get_field,
    get_items,
    get_string,
    get_text,
    get_tool_calls,
    parse_json_object,
    parse_result,
)
from openskills.session.state import ALL, LoadMode
from tests.prompt.conversations import CLEARED, Ask, Conversation, Load, Messages, Other, Select, Unload
from tests.prompt.garbage import anything, garbage

TURN, ONCE, SESSION = LoadMode.TURN, LoadMode.ONCE, LoadMode.SESSION


def after(mode: LoadMode, *batches: str | Ask | Sequence[Ask], limit: int = 0, one_id: bool = False) -> Conversation:
    """A conversation in which these things are asked, each in an answer of its own; a text is said by the user."""
    conversation = Conversation(mode, limit=limit, one_id=one_id)
    for batch in batches:
        if isinstance(batch, str):
            conversation.user(batch)
        elif isinstance(batch, Sequence):
            conversation.ask(*batch)
        else:
            conversation.ask(batch)
    return conversation


def replay(messages: Sequence[Any], mode: LoadMode) -> TextHistory:
    return HistoryReplay(mode).continue_with(messages)


def held(conversation: Conversation, skill: str = "pdf") -> TextLocations:
    return replay(conversation.messages, conversation.mode).locations.get(skill, TextLocations())


def test_the_first_load_holds_the_body_and_the_documents_it_asked_for() -> None:
    assert held(after(TURN, "hi", Load("pdf", ("a.md",)), Load("pdf"))) == TextLocations(2, {"a.md": 2}, None, (2, 4))


def test_a_selection_holds_what_it_selected_again() -> None:
    found = held(after(TURN, Load("pdf", ("a.md",)), Select("pdf", ("docs/b.md",), "add")))
    assert found.docs == {"a.md": 1, "docs/b.md": 3}


def test_a_document_that_was_dropped_and_selected_again_stands_in_the_later_result() -> None:
    found = held(after(TURN, Load("pdf", ("a.md",)), Select("pdf", mode="clear"), Select("pdf", ("a.md",))))
    assert found.docs == {"a.md": 5}


def test_a_load_that_names_no_documents_leaves_the_selection_and_one_that_names_none_clears_it() -> None:
    assert held(after(TURN, Load("pdf", ("a.md",)), Load("pdf"))).docs == {"a.md": 1}
    assert held(after(TURN, Load("pdf", ("a.md",)), Load("pdf", ()))).docs == {}


def test_all_documents_stand_where_they_were_asked_for_but_for_those_that_stood_before() -> None:
    found = held(after(TURN, Load("pdf", ("a.md",)), Select("pdf", everything=True), Select("pdf", everything=True)))
    assert (found.find_doc("a.md"), found.find_doc("docs/b.md"), found.selection()) == (1, 3, (ALL,))


def test_documents_that_are_kept_of_all_stay_where_they_are() -> None:
    found = held(after(TURN, Load("pdf", everything=True), Select("pdf", ("a.md",))))
    assert (found.find_doc("a.md"), found.find_doc("docs/b.md")) == (1, None)


@pytest.mark.parametrize("gone", [Unload("pdf"), Load("pdf-tools")])
def test_what_was_unloaded_or_evicted_stands_in_the_next_load(gone: Unload | Load) -> None:
    conversation = after(SESSION, Load("pdf", ("a.md",)), gone, limit=1)
    history = replay(conversation.messages, SESSION)
    assert "pdf" not in history.locations
    assert history.find("pdf") == TextLocations()
    conversation.ask(Load("pdf"))
    assert held(conversation) == TextLocations(5, {}, None, (5,))


def test_a_selection_can_evict_too() -> None:
    conversation = after(SESSION, [Load("pdf"), Load("pdf-tools")])
    call = {"id": "x", "function": {"name": "skill_select_docs", "arguments": "{}"}}
    text = '{"skill": "pdf", "mode": "add", "selected_docs": []}\nevicted: pdf-tools'
    conversation.messages += [
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "x", "content": text},
    ]
    assert set(replay(conversation.messages, SESSION).locations) == {"pdf"}


def test_the_user_ends_a_turn_unless_the_mode_is_session() -> None:
    for mode in LoadMode:
        history = replay(after(mode, Load("pdf"), "next").messages, mode)
        assert ("pdf" in history.locations) is (mode is SESSION)
        # The session may know better: its state decides.
        assert history.find("pdf").body == 1


def test_once_a_text_was_seen_its_place_is_the_next_load_without_documents() -> None:
    conversation = after(ONCE, Load("pdf", ("a.md",)), Other())
    assert held(conversation) == TextLocations()
    conversation.ask(Load("pdf"))
    assert held(conversation) == TextLocations(5, {}, None, (5,))


def test_a_selection_after_a_text_was_seen_shows_the_instructions_again() -> None:
    conversation = after(ONCE, Load("pdf", ("a.md",)), Select("pdf", ("docs/b.md",), "add"))
    assert held(conversation) == TextLocations(3, {"docs/b.md": 3}, None, (3,))


def test_in_once_mode_the_user_ends_the_selection_too() -> None:
    assert held(after(ONCE, Load("pdf", ("a.md",)), Other(), "next", Load("pdf"))).docs == {}


def test_documents_whose_load_was_lost_stand_in_their_selection_until_the_next_load() -> None:
    conversation = after(SESSION, Load("pdf"), Select("pdf", ("a.md",)))
    conversation.messages[1] = {**conversation.messages[1], "content": CLEARED}
    assert held(conversation) == TextLocations(None, {"a.md": 3}, None, (3,))
    conversation.ask(Load("pdf"))
    assert held(conversation) == TextLocations(5, {"a.md": 5}, None, (5,))


def test_calls_of_one_message_that_ran_in_another_order_keep_a_place() -> None:
    conversation = after(SESSION, Load("pdf"), limit=1)
    conversation.ask(Load("pdf"), Load("pdf-tools"), order=[1, 0])
    assert [one.skill for one in conversation.shown()] == ["pdf"]
    assert replay(conversation.messages, SESSION).find("pdf").body == 3


def test_equal_ids_belong_to_the_nearest_call_before() -> None:
    conversation = after(SESSION, Load("pdf"), Other("loaded: pdf-tools"), Load("数据", ("a.md",)), one_id=True)
    history = replay(conversation.messages, SESSION)
    assert {skill: where.body for skill, where in history.locations.items()} == {"pdf": 1, "数据": 5}


def test_equal_ids_in_one_message_are_answered_in_its_order() -> None:
    conversation = after(
        SESSION, [Load("pdf", ("a.md",)), Load("数据"), Select("pdf", ("docs/b.md",), "add")], one_id=True
    )
    assert held(conversation).docs == {"a.md": 1, "docs/b.md": 3}
    assert held(conversation, "数据").body == 2


def without_calls(messages: Messages, **fields: str) -> Messages:
    return [{**message, **fields} for message in messages if message["role"] == "tool"]


def test_without_a_call_the_name_of_the_message_or_the_stub_says_what_it_is() -> None:
    conversation = after(SESSION, Load("pdf"))
    assert replay(without_calls(conversation.messages), SESSION).locations["pdf"].body == 0
    named = without_calls(conversation.messages, name="skill_load")
    assert replay(named, SESSION).locations["pdf"].body == 0
    foreign = without_calls(conversation.messages, name="load_dataset")
    assert replay(foreign, SESSION).locations == {}
    selection = after(SESSION, Load("pdf"), Select("pdf", ("a.md",))).messages[3]
    assert replay([{**selection, "name": "skill_select_docs"}], SESSION).locations["pdf"].docs == {"a.md": 0}
    assert replay([selection], SESSION).locations == {}


def test_legacy_function_messages_are_understood() -> None:
    call = {"name": "skill_load", "arguments": '{"skill": "pdf", "docs": ["a.md"]}'}
    messages: Messages = [
        {"role": "assistant", "content": None, "function_call": call},
        {"role": "function", "name": "skill_load", "content": "loaded: pdf"},
    ]
    assert replay(messages, SESSION).locations["pdf"] == TextLocations(1, {"a.md": 1}, None, (1,))


def test_the_objects_of_a_client_are_understood_as_answers() -> None:
    function = SimpleNamespace(name="skill_load", arguments='{"skill": "pdf", "docs": ["a.md"]}')
    answer: Any = SimpleNamespace(role="assistant", tool_calls=[SimpleNamespace(id="c", function=function)])
    result = {"role": "tool", "tool_call_id": "c", "content": "loaded: pdf"}
    assert replay([answer, result], SESSION).locations["pdf"].docs == {"a.md": 1}


def test_what_is_only_said_is_not_a_result() -> None:
    messages: Messages = [{"role": role, "content": "loaded: pdf"} for role in ("system", "user", "assistant")]
    assert replay(messages, SESSION).outcomes == {}


@dataclass
class Answer:
    """As the objects of OpenAI's client are."""

    role: str = "assistant"
    content: str | None = None


def test_a_field_is_found_in_a_mapping_and_on_an_object() -> None:
    for message in ({"role": "user"}, MappingProxyType({"role": "user"}), Answer("user")):
        assert get_field(message, "role") == "user"
        assert get_field(message, "name") is None


def test_a_field_that_is_not_text_is_empty_as_text() -> None:
    assert get_string({"name": 3}, "name") == get_string({}, "name") == get_string(None, "name") == ""


@pytest.mark.parametrize(
    "content", ["one\ntwo", [{"type": "text", "text": "one"}, "two"], ({"text": "one"}, {"text": "two"})]
)
def test_the_text_of_a_message_may_come_in_parts(content: object) -> None:
    assert get_text({"content": content}) == "one\ntwo"


def test_what_is_not_text_adds_nothing_to_the_text() -> None:
    parts = [
        {"type": "image_url", "image_url": {"url": "data:"}},
        {"type": "text", "text": "one"},
        3,
        None,
        {"text": 4},
    ]
    assert get_text({"content": parts}) == "one"
    assert get_text({"content": None}) == get_text({}) == get_text({"content": 3}) == ""


def test_calls_are_read_from_dictionaries_objects_and_the_legacy_field() -> None:
    function = {"name": "skill_load", "arguments": "{}"}
    call = HistoryToolCall("call_1", "skill_load", "{}")
    assert get_tool_calls({"tool_calls": [{"id": "call_1", "type": "function", "function": function}]}) == [call]
    of_client = SimpleNamespace(id="call_1", function=SimpleNamespace(**function))
    assert get_tool_calls(SimpleNamespace(tool_calls=[of_client])) == [call]
    assert get_tool_calls({"function_call": function}) == [call._replace(id="")]


def test_a_call_without_a_function_is_none() -> None:
    assert get_tool_calls({"tool_calls": [{"id": "call_1"}, None, 3, "x"]}) == []
    assert get_tool_calls({"tool_calls": "call_1"}) == []


@pytest.mark.parametrize(
    "value", ["", "{", "[1]", '"x"', "[" * 100_000, '{"a": ' * 100_000, "1" * 5_000, None, 3, ["a"]]
)
def test_what_is_not_a_json_object_is_an_empty_one(value: object) -> None:
    assert parse_json_object(value) == {}


def test_an_object_may_be_text_or_there_already() -> None:
    assert parse_json_object('{"a": 1}') == parse_json_object({"a": 1}) == {"a": 1}


def test_only_lists_have_items() -> None:
    assert get_items("abc") == get_items({"a": 1}) == get_items(None) == ()
    assert list(get_items([1, 2])) == list(get_items((1, 2))) == [1, 2]


@pytest.mark.parametrize(
    ("message", "takes"),
    [('{"content": "a"}', True), ('{"content": []}', True), ('{"content": null}', True), ("{}", True),
     ('{"content": 3}', False), ('{"content": {"a": 1}}', False), ("null", False), ('["content"]', False)],
)  # fmt: skip
def test_text_can_be_added_to_text_to_parts_and_to_nothing(message: str, takes: bool) -> None:
    assert can_append_text(json.loads(message)) is takes


def test_text_cannot_be_added_to_the_object_of_a_client() -> None:
    assert not can_append_text(Answer(content="a"))


def test_leading_are_the_system_messages_before_anybody_speaks() -> None:
    roles = ["system", "developer", "user", "system"]
    assert count_system_messages([{"role": role} for role in roles]) == 2
    assert count_system_messages([]) == 0


@given(anything, garbage)
def test_nothing_raises(value: Any, message: Any) -> None:
    for one in (value, message):
        get_text(one)
        get_tool_calls(one)
        parse_json_object(one)
        can_append_text(one)
        count_system_messages([one])


LOAD, SELECT, UNLOAD = SkillAction.LOAD, SkillAction.SELECT, SkillAction.UNLOAD
PDF = '{"skill": "pdf"}'


def test_a_load_says_its_skill_and_what_had_to_go() -> None:
    assert parse_result("skill_load", PDF, "loaded: pdf") == SkillCallResult(LOAD, "pdf")
    assert parse_result("skill_load", PDF, "loaded: pdf\nevicted: a\nevicted: b c") == SkillCallResult(
        LOAD, "pdf", None, ("a", "b c")
    )


@pytest.mark.parametrize(
    ("arguments", "docs"),
    [
        ({}, None),
        ({"docs": None, "include_all_docs": False}, None),
        ({"docs": []}, ()),
        ({"docs": ["a.md", "./b.md"]}, ("a.md", "b.md")),
        ({"docs": "a.md"}, ("a.md",)),
        ({"docs": ["a.md", ALL]}, (ALL,)),
        ({"docs": ["a.md"], "include_all_docs": True}, (ALL,)),
        ({"include_all_docs": "true"}, (ALL,)),
        ({"docs": [3, None, "a.md"]}, ("a.md",)),
        ({"docs": {"a.md": 1}}, None),
    ],
)
def test_the_documents_of_a_load_are_those_that_the_call_asked_for(
    arguments: dict[str, object], docs: tuple[str, ...] | None
) -> None:
    expected = SkillCallResult(LOAD, "pdf", docs)
    assert parse_result("skill_load", {"skill": "pdf", **arguments}, "loaded: pdf") == expected
    assert parse_result("skill_load", json.dumps({"skill": " pdf ", **arguments}), "loaded: pdf") == expected


def test_arguments_that_cannot_be_read_leave_the_text_to_say_it() -> None:
    for arguments in (None, "{", "[]", 3):
        assert parse_result("skill_load", arguments, "loaded: pdf") == SkillCallResult(LOAD, "pdf")


@pytest.mark.parametrize(
    "text",
    ["", "loaded:", "loaded: ", "Loaded", "error: unknown skill 'pdf'", "[cleared]", "loaded: pd",
     "loaded: pdf-tools", "loaded: pdf [truncated]", " loaded: pdf", "unloaded: pdf",
     '{"skill": "pdf", "selected_docs": []}'],
)  # fmt: skip
def test_a_result_that_failed_or_was_replaced_or_cut_is_not_a_load(text: str) -> None:
    assert parse_result("skill_load", PDF, text) is None


def test_a_result_that_was_shown_and_came_back_with_a_cut_is_not_a_load() -> None:
    assert parse_result("skill_load", PDF, "loaded: pdf\n\n[Loaded] pdf\n\nFirst li... (truncated)") is None


def test_what_others_wrote_below_a_load_does_not_matter() -> None:
    assert parse_result("skill_load", PDF, "loaded: pdf\n\nTook 3 ms\nevicted: a") == SkillCallResult(LOAD, "pdf")
    told = "loaded: pdf\nrequires: programs ls\ncompatibility: any\ndocuments not shown: a\nevicted: a"
    assert parse_result("skill_load", PDF, told) == SkillCallResult(LOAD, "pdf", None, ("a",))


def test_a_name_is_compared_in_its_one_spelling() -> None:
    assert parse_result("skill_load", '{"skill": "ｐｄｆ数据"}', "loaded: pdf数据") == SkillCallResult(LOAD, "pdf数据")


def test_a_selection_says_what_is_selected_after_it() -> None:
    some = '{"skill": "pdf", "mode": "add", "selected_docs": ["a.md", "b.md"]}'
    assert parse_result("skill_select_docs", None, some) == SkillCallResult(SELECT, "pdf", ("a.md", "b.md"))
    every = '{"skill": "pdf", "mode": "replace", "include_all_docs": true}\nevicted: docx'
    assert parse_result("skill_select_docs", "{", every) == SkillCallResult(SELECT, "pdf", (ALL,), ("docx",))
    nothing = '{"skill": "pdf", "mode": "clear", "selected_docs": []}'
    assert parse_result("skill_select_docs", None, nothing) == SkillCallResult(SELECT, "pdf", ())


@pytest.mark.parametrize(
    "text",
    ["", "{", "[cleared]", "[]", '"pdf"', '{"skill": "pdf"}', '{"skill": 3, "selected_docs": []}', "error: no",
     '{"selected_docs": []}', '{"skill": "pdf", "selected_docs": ["a.m', '{"skill": "pdf", "selected_docs": "a.md"}',
     '{"skill":' * 50_000],
)  # fmt: skip
def test_what_is_not_a_selection_says_nothing(text: str) -> None:
    assert parse_result("skill_select_docs", PDF, text) is None


def test_an_unload_says_what_is_gone_unless_it_was_not_there() -> None:
    assert parse_result("skill_unload", PDF, "unloaded: pdf") == SkillCallResult(UNLOAD, "pdf")
    assert parse_result("skill_unload", PDF, "pdf was not loaded; nothing has changed") is None
    assert parse_result("skill_unload", PDF, "unloaded:") is None


def test_the_stub_speaks_for_itself_when_nobody_knows_the_tool() -> None:
    assert parse_result("", None, "loaded: pdf\nevicted: a") == SkillCallResult(LOAD, "pdf", None, ("a",))
    assert parse_result("", None, "unloaded: pdf") == SkillCallResult(UNLOAD, "pdf")
    assert parse_result("", None, '{"skill": "pdf", "selected_docs": []}') is None


def test_results_of_other_tools_say_nothing_whatever_they_look_like() -> None:
    for text in ("loaded: pdf", "unloaded: pdf", '{"skill": "pdf", "selected_docs": []}'):
        assert parse_result("skill_run", PDF, text) is None


@given(st.sampled_from(["", *SkillAction]), anything, st.text() | st.sampled_from(["loaded: ", '{"skill"']).flatmap(
    lambda start: st.text().map(lambda rest: start + rest)
))  # fmt: skip
def test_nothing_raises_in_outcomes(tool: str, arguments: object, text: str) -> None:
    found = parse_result(tool, arguments, text)
    assert found is None or found.skill
