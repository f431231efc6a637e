"""Marks for the prompt cache."""

from typing import Any

from openskills.agent.wire.anthropic_caching import marked

MARK = {"type": "ephemeral"}


def turn(role: str, *texts: str) -> dict[str, Any]:
    return {"role": role, "content": [{"type": "text", "text": text} for text in texts]}


def places(body: dict[str, Any]) -> list[str]:
    blocks = [
        *body.get("tools", []),
        *body.get("system", []),
        *(block for said in body["messages"] for block in said["content"]),
    ]
    return [block.get("text", block.get("name")) for block in blocks if block.get("cache_control") == MARK]


def test_marks_are_at_the_ends_of_what_is_sent_again() -> None:
    body = {
        "tools": [{"name": "one"}, {"name": "two"}],
        "system": [{"type": "text", "text": "stable"}, {"type": "text", "text": "loaded"}],
        "messages": [turn("user", "a"), turn("assistant", "b"), turn("user", "c", "d"), turn("assistant", "e")],
    }
    assert places(marked(body, 1)) == ["two", "stable", "a", "d"]


def test_a_request_without_tools_and_system_has_marks_in_its_messages_alone() -> None:
    body = {"messages": [turn("user", "a"), turn("assistant", "b"), turn("user", "c"), turn("user", "d")]}
    assert places(marked(body, 0)) == ["c", "d"]


def test_the_request_itself_stays_without_marks() -> None:
    body: dict[str, Any] = {"tools": [{"name": "one"}], "messages": [turn("user", "a")]}
    marked(body, 0)
    assert places(body) == []


def test_a_system_of_which_nothing_is_stable_has_no_mark() -> None:
    body = {"system": [{"type": "text", "text": "loaded"}], "messages": [turn("user", "a")]}
    assert places(marked(body, 0)) == ["a"]
