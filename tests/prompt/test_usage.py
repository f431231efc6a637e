"""What a request costs, and how much of it was there before.

The requests of a conversation, added up.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openskills.prompt.blocks import Placement, PromptLayer, PromptPart
from openskills.prompt.placement import place_texts
from openskills.prompt.usage import Ledger, RequestTokens, TokenCountCache, account, flatten_messages
from openskills.session.state import LoadMode
from openskills.tokens import load_exact_counter
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
        PromptPart(PromptLayer.OVERVIEW, "", "12345"),
        PromptPart(PromptLayer.GUIDANCE, "", "123"),
        PromptPart(PromptLayer.BODY, "pdf", "1234"),
        PromptPart(PromptLayer.DOCS, "pdf", "12"),
        PromptPart(PromptLayer.DOCS, "pdf", "1"),
        PromptPart(PromptLayer.FALLBACK, "docx", "1234567"),
    ]
    found = account(None, [user("x" * 100)], parts, characters)
    assert found.by_layer == {
        "tools": 0,
        "overview": 5,
        "guidance": 3,
        "body": 4,
        "docs": 3,
        "fallback": 7,
        "other": 78,
    }
    assert found.by_skill == {"pdf": 7, "docx": 7}
    assert list(found.by_layer) == list(PromptLayer)


def test_a_request_that_only_grew_is_unchanged_before_what_is_new() -> None:
    before = [user("one"), user("two")]
    found = account(before, [*before, user("three")], (), characters)
    assert (found.unchanged, found.before, found.total) == (6, 6, 11)
    assert (found.unchanged_share, found.cache_share) == (1.0, 6 / 11)


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
    assert (found.unchanged_share, found.cache_share, found.before) == (1.0, 0.0, 0)
    assert RequestTokens().cache_share == 0.0


def test_an_estimate_is_called_so() -> None:
    assert account(None, [user("one")], ()).estimated
    assert not account(None, [user("one")], (), characters).estimated
    assert not account(None, [user("one")], (), load_exact_counter()).estimated


def test_a_text_is_counted_once_for_two_requests_in_a_row() -> None:
    counted: list[str] = []

    def count(text: str) -> int:
        counted.append(text)
        return len(text)

    counts = TokenCountCache(count)
    for _ in range(3):
        assert counts("one") == counts("one") == 3
        counts.limit(0)
    assert counted == ["one"]
    counts("two")
    counts.limit(0)
    counts("three")
    counts.limit(0)
    counted.clear()
    counts("one")
    counts("three")
    assert counted == ["one"]


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
                place_texts(conversation.messages, shown, mode=LoadMode.SESSION, placement=placement, layer_one="List")
            )
        shares[placement] = account(requests[0].messages, requests[1].messages, requests[1].parts).unchanged_share
    assert shares[Placement.TOOL_RESULT] == 1.0
    assert shares[Placement.SYSTEM] < 0.2


@given(conversations(), st.sampled_from(Placement))
def test_the_layers_add_up_to_the_whole(conversation: Conversation, placement: Placement) -> None:
    placed = place_texts(
        conversation.messages, conversation.shown(), mode=conversation.mode, placement=placement, layer_one="List"
    )
    found = account(conversation.messages, placed.messages, placed.parts, characters)
    assert sum(found.by_layer.values()) == found.total
    assert sum(found.by_skill.values()) == sum(
        found.by_layer[layer] for layer in (PromptLayer.BODY, PromptLayer.DOCS, PromptLayer.FALLBACK)
    )
    assert 0 <= found.unchanged <= min(found.before, found.total)


@given(st.lists(garbage, max_size=4), st.lists(garbage, max_size=4))
def test_nothing_that_stands_in_messages_makes_it_fail(before: list[Any], now: list[Any]) -> None:
    account(before, now, ())
    assert account(now, now, ()).unchanged_share == 1.0


@pytest.mark.parametrize("change", ["role", "content"])
def test_what_was_flattened_does_not_follow_the_message(change: str) -> None:
    message = user("one")
    flat = flatten_messages([message])
    message[change] = "other"
    assert flat == flatten_messages([user("one")])


def user_ledger(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def test_each_request_is_compared_with_the_one_before() -> None:
    ledger = Ledger()
    messages = [user_ledger("one")]
    assert ledger.record(messages, (), characters).before == 0
    messages.append(user_ledger("three"))
    second = ledger.record(messages, (), characters)
    assert (second.before, second.unchanged, second.total) == (3, 3, 8)
    assert ledger.record(messages, (), characters).unchanged == 8
    assert ledger.requests == 3


def test_messages_that_are_changed_after_they_were_sent_do_not_change_what_was_sent() -> None:
    ledger = Ledger()
    messages = [user_ledger("one"), user_ledger("two")]
    ledger.record(messages, (), characters)
    messages[0]["content"] = "cleared"
    assert ledger.record(messages, (), characters).unchanged == 0


def test_a_request_may_be_accounted_for_elsewhere() -> None:
    ledger = Ledger()
    ledger.add(account(None, [user_ledger("one")], [PromptPart(PromptLayer.BODY, "pdf", "on")], characters))
    ledger.add(
        account([user_ledger("one")], [user_ledger("one")], [PromptPart(PromptLayer.BODY, "docx", "o")], characters)
    )
    assert ledger.sum.total == 6
    assert ledger.sum.by_layer == {**dict.fromkeys(PromptLayer, 0), PromptLayer.BODY: 3, PromptLayer.OTHER: 3}
    assert ledger.sum.by_skill == {"pdf": 2, "docx": 1}
    assert (ledger.sum.unchanged, ledger.sum.before, ledger.sum.unchanged_share) == (3, 3, 1.0)


def test_only_the_last_requests_are_kept_but_all_are_added_up() -> None:
    ledger = Ledger(max_requests=2)
    for _ in range(5):
        ledger.record([user_ledger("one")], (), characters)
    assert (ledger.requests, len(ledger.last), ledger.sum.total) == (5, 2, 15)
    assert [line.split()[0] for line in ledger.format_table().splitlines()] == ["request", "4", "5", "all"]


def test_another_counter_counts_again() -> None:
    ledger = Ledger()
    assert ledger.record([user_ledger("four")], ()).total == 1
    assert ledger.record([user_ledger("four")], (), characters).total == 4


def test_the_table_can_be_read() -> None:
    ledger = Ledger()
    parts = [
        PromptPart(PromptLayer.OVERVIEW, "", "x" * 4_000),
        PromptPart(PromptLayer.BODY, "pdf", "y" * 400),
        PromptPart(PromptLayer.DOCS, "docx", "z" * 800),
    ]
    messages = [user_ledger("x" * 4_000), user_ledger("y" * 400), user_ledger("z" * 800)]
    ledger.record(messages[:2], parts[:2], tools="t" * 40)
    ledger.record(messages, parts, tools="t" * 40)
    assert ledger.format_table() == (
        "request  tokens  tools  overview  guidance  body  docs  fallback  other  unchanged\n"
        "      1   1,110     10     1,000         0   100     0         0      0          -\n"
        "      2   1,310     10     1,000         0   100   200         0      0     100.0%\n"
        "    all   2,420     20     2,000         0   200   200         0      0     100.0%\n"
        "docx: 200\n"
        "pdf: 200\n"
        "All tokens are estimated."
    )


def test_an_empty_ledger_has_a_table_too() -> None:
    assert Ledger().format_table().splitlines()[1].split() == ["all", "0", "0", "0", "0", "0", "0", "0", "0", "-"]
