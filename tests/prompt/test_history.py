"""Where texts stand, by what was called and answered."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from openskills.prompt.history import Held, replay
from openskills.session.changes import ALL, LoadMode
from tests.prompt.conversations import CLEARED, Ask, Conversation, Load, Messages, Other, Select, Unload

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


def held(conversation: Conversation, skill: str = "pdf") -> Held:
    return replay(conversation.messages, conversation.mode).held.get(skill, Held())


def test_the_first_load_holds_the_body_and_the_documents_it_asked_for() -> None:
    assert held(after(TURN, "hi", Load("pdf", ("a.md",)), Load("pdf"))) == Held(2, {"a.md": 2}, None, (2, 4))


def test_a_selection_holds_what_it_selected_anew() -> None:
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
    assert (found.doc("a.md"), found.doc("docs/b.md"), found.selection()) == (1, 3, (ALL,))


def test_documents_that_are_kept_of_all_stay_where_they_are() -> None:
    found = held(after(TURN, Load("pdf", everything=True), Select("pdf", ("a.md",))))
    assert (found.doc("a.md"), found.doc("docs/b.md")) == (1, None)


@pytest.mark.parametrize("gone", [Unload("pdf"), Load("pdf-tools")])
def test_what_was_unloaded_or_evicted_stands_in_the_next_load(gone: Unload | Load) -> None:
    conversation = after(SESSION, Load("pdf", ("a.md",)), gone, limit=1)
    history = replay(conversation.messages, SESSION)
    assert "pdf" not in history.held
    assert history.of("pdf") == Held()
    conversation.ask(Load("pdf"))
    assert held(conversation) == Held(5, {}, None, (5,))


def test_a_selection_can_evict_too() -> None:
    conversation = after(SESSION, [Load("pdf"), Load("pdf-tools")])
    call = {"id": "x", "function": {"name": "skill_select_docs", "arguments": "{}"}}
    text = '{"skill": "pdf", "mode": "add", "selected_docs": []}\nevicted: pdf-tools'
    conversation.messages += [
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "x", "content": text},
    ]
    assert set(replay(conversation.messages, SESSION).held) == {"pdf"}


def test_the_user_ends_a_turn_unless_the_mode_is_session() -> None:
    for mode in LoadMode:
        history = replay(after(mode, Load("pdf"), "next").messages, mode)
        assert ("pdf" in history.held) is (mode is SESSION)
        # The session may know better: its state decides.
        assert history.of("pdf").body == 1


def test_once_a_text_was_seen_its_place_is_the_next_load_with_the_documents_that_are_still_selected() -> None:
    conversation = after(ONCE, Load("pdf", ("a.md",)), Other())
    assert held(conversation) == Held()
    conversation.ask(Load("pdf"))
    assert held(conversation) == Held(5, {"a.md": 5}, None, (5,))


def test_a_selection_after_a_text_was_seen_shows_everything_again() -> None:
    conversation = after(ONCE, Load("pdf", ("a.md",)), Select("pdf", ("docs/b.md",), "add"))
    assert held(conversation) == Held(3, {"a.md": 3, "docs/b.md": 3}, None, (3,))


def test_in_once_mode_the_user_ends_the_selection_too() -> None:
    assert held(after(ONCE, Load("pdf", ("a.md",)), Other(), "next", Load("pdf"))).docs == {}


def test_documents_whose_load_was_lost_stand_in_their_selection_until_the_next_load() -> None:
    conversation = after(SESSION, Load("pdf"), Select("pdf", ("a.md",)))
    conversation.messages[1] = {**conversation.messages[1], "content": CLEARED}
    assert held(conversation) == Held(None, {"a.md": 3}, None, (3,))
    conversation.ask(Load("pdf"))
    assert held(conversation) == Held(5, {"a.md": 5}, None, (5,))


def test_calls_of_one_message_that_ran_in_another_order_keep_a_place() -> None:
    conversation = after(SESSION, Load("pdf"), limit=1)
    conversation.ask(Load("pdf"), Load("pdf-tools"), order=[1, 0])
    assert [one.skill for one in conversation.shown()] == ["pdf"]
    assert replay(conversation.messages, SESSION).of("pdf").body == 3


def test_equal_ids_belong_to_the_nearest_call_before() -> None:
    conversation = after(SESSION, Load("pdf"), Other("loaded: pdf-tools"), Load("数据", ("a.md",)), one_id=True)
    history = replay(conversation.messages, SESSION)
    assert {skill: where.body for skill, where in history.held.items()} == {"pdf": 1, "数据": 5}


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
    assert replay(without_calls(conversation.messages), SESSION).held["pdf"].body == 0
    named = without_calls(conversation.messages, name="skill_load")
    assert replay(named, SESSION).held["pdf"].body == 0
    foreign = without_calls(conversation.messages, name="load_dataset")
    assert replay(foreign, SESSION).held == {}
    selection = after(SESSION, Load("pdf"), Select("pdf", ("a.md",))).messages[3]
    assert replay([{**selection, "name": "skill_select_docs"}], SESSION).held["pdf"].docs == {"a.md": 0}
    assert replay([selection], SESSION).held == {}


def test_legacy_function_messages_are_understood() -> None:
    call = {"name": "skill_load", "arguments": '{"skill": "pdf", "docs": ["a.md"]}'}
    messages: Messages = [
        {"role": "assistant", "content": None, "function_call": call},
        {"role": "function", "name": "skill_load", "content": "loaded: pdf"},
    ]
    assert replay(messages, SESSION).held["pdf"] == Held(1, {"a.md": 1}, None, (1,))


def test_the_objects_of_a_client_are_understood_as_answers() -> None:
    function = SimpleNamespace(name="skill_load", arguments='{"skill": "pdf", "docs": ["a.md"]}')
    answer: Any = SimpleNamespace(role="assistant", tool_calls=[SimpleNamespace(id="c", function=function)])
    result = {"role": "tool", "tool_call_id": "c", "content": "loaded: pdf"}
    assert replay([answer, result], SESSION).held["pdf"].docs == {"a.md": 1}


def test_what_is_only_said_is_no_result() -> None:
    messages: Messages = [{"role": role, "content": "loaded: pdf"} for role in ("system", "user", "assistant")]
    assert replay(messages, SESSION).outcomes == {}
