"""What a request costs, and how much of it was there before."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openskills.prompt.accounting import Counts, RequestTokens, account, flattened
from openskills.prompt.placement import place
from openskills.prompt.shown import Layer, Part, Placement
from openskills.session.changes import LoadMode
from openskills.tokens import exact
from tests.prompt.conversations import Conversation, Load, Select, conversations
from tests.prompt.garbage import garbage


def characters(text: str) -> int:
    return len(text)


def user(text: object) -> dict[str, Any]:
    return {"role": "user", "content": text}


def unchanged(before: Sequence[Mapping[str, Any]], now: Sequence[Mapping[str, Any]]) -> int:
    return account(before, now, (), characters).unchanged


def test_texts_names_of_tools_and_arguments_are_counted() -> None:
    function = {"name": "skill_run", "arguments": '{"a": 1}'}
    messages = [
        user("hello"),
        user([{"type": "text", "text": "abc"}]),
        {"role": "assistant", "tool_calls": [{"function": function}]},
    ]
    assert account(None, messages, (), characters).total == 5 + 3 + 9 + 8


def test_images_are_not_counted_but_compared() -> None:
    def image(url: str) -> list[Mapping[str, Any]]:
        return [user([{"type": "text", "text": "abc"}, {"type": "image_url", "image_url": {"url": url}}]), user("x")]

    assert account(None, image("data:1"), (), characters).total == 4
    assert unchanged(image("data:1"), image("data:1")) == 4
    assert unchanged(image("data:1"), image("data:2")) == 3


def test_our_texts_are_told_apart_by_layer_and_by_skill() -> None:
    parts = [
        Part(Layer.OVERVIEW, "", "12345"),
        Part(Layer.GUIDANCE, "", "123"),
        Part(Layer.BODY, "pdf", "1234"),
        Part(Layer.DOCS, "pdf", "12"),
        Part(Layer.DOCS, "pdf", "1"),
        Part(Layer.FALLBACK, "docx", "1234567"),
    ]
    found = account(None, [user("x" * 100)], parts, characters)
    assert found.by_layer == {"overview": 5, "guidance": 3, "body": 4, "docs": 3, "fallback": 7, "other": 78}
    assert found.by_skill == {"pdf": 7, "docx": 7}
    assert list(found.by_layer) == list(Layer)


def test_a_request_that_only_grew_is_unchanged_before_what_is_new() -> None:
    before = [user("one"), user("two")]
    found = account(before, [*before, user("three")], (), characters)
    assert (found.unchanged, found.before, found.total) == (6, 6, 11)
    assert (found.share, found.reused) == (1.0, 6 / 11)


def test_within_the_first_message_that_differs_the_common_beginning_counts() -> None:
    assert unchanged([user("one"), user("two"), user("x")], [user("one"), user("twelve"), user("x")]) == 3 + 2
    assert unchanged([user("one")], [user("one and more")]) == 3
    assert unchanged([user("one and more")], [user("one")]) == 3
    assert unchanged([user("one")], [{"role": "assistant", "content": "one"}]) == 0
    parts = [user([{"text": "ab"}, {"text": "cd"}])]
    assert unchanged(parts, [user([{"text": "ab"}, {"text": "cx"}])]) == 3


def test_a_request_that_lost_messages_is_unchanged_up_to_there() -> None:
    found = account([user("one"), user("two")], [user("one")], (), characters)
    assert (found.unchanged, found.before) == (3, 6)


def test_the_first_request_has_lost_nothing() -> None:
    found = account(None, [user("one")], (), characters)
    assert (found.share, found.reused, found.before) == (1.0, 0.0, 0)
    assert RequestTokens().reused == 0.0


def test_an_estimate_is_called_so() -> None:
    assert account(None, [user("one")], ()).estimated
    assert not account(None, [user("one")], (), characters).estimated
    assert not account(None, [user("one")], (), exact()).estimated


def test_a_text_is_counted_once_for_two_requests_in_a_row() -> None:
    counted: list[str] = []

    def count(text: str) -> int:
        counted.append(text)
        return len(text)

    counts = Counts(count)
    for _ in range(3):
        assert counts("one") == counts("one") == 3
        counts.forget()
    assert counted == ["one"]
    counts.forget()
    counts("one")
    assert counted == ["one", "one"]


def test_in_tool_results_nothing_is_lost_and_in_the_system_message_almost_everything() -> None:
    shares: dict[Placement, float] = {}
    for placement in Placement:
        conversation = Conversation(LoadMode.SESSION)
        conversation.user("hello " * 100)
        requests: list[Any] = []
        for ask in (Load("pdf"), Select("pdf", ("a.md",))):
            conversation.ask(ask)
            shown = conversation.shown()
            requests.append(
                place(conversation.messages, shown, mode=LoadMode.SESSION, placement=placement, layer_one="List")
            )
        shares[placement] = account(requests[0].messages, requests[1].messages, requests[1].parts).share
    assert shares[Placement.TOOL_RESULT] == 1.0
    assert shares[Placement.SYSTEM] < 0.2


@given(conversations(), st.sampled_from(Placement))
def test_the_layers_add_up_to_the_whole(conversation: Conversation, placement: Placement) -> None:
    placed = place(
        conversation.messages, conversation.shown(), mode=conversation.mode, placement=placement, layer_one="List"
    )
    found = account(conversation.messages, placed.messages, placed.parts, characters)
    assert sum(found.by_layer.values()) == found.total
    assert sum(found.by_skill.values()) == sum(
        found.by_layer[layer] for layer in (Layer.BODY, Layer.DOCS, Layer.FALLBACK)
    )
    assert 0 <= found.unchanged <= min(found.before, found.total)


@given(st.lists(garbage, max_size=4), st.lists(garbage, max_size=4))
def test_nothing_that_stands_in_messages_makes_it_fail(before: list[Any], now: list[Any]) -> None:
    account(before, now, ())
    assert account(now, now, ()).share == 1.0


@pytest.mark.parametrize("change", ["role", "content"])
def test_what_was_flattened_does_not_follow_the_message(change: str) -> None:
    message = user("one")
    flat = flattened([message])
    message[change] = "other"
    assert flat == flattened([user("one")])
