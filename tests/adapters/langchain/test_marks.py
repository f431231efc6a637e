"""Marks on messages."""

from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from openskills.adapters.langchain.marks import (
    KEY,
    Change,
    Mark,
    digest_of,
    mark_of,
    restated,
    retold,
    text_of,
    whole_loads,
)


def message(text: str, mark: Mark | None) -> ToolMessage:
    return ToolMessage(text, tool_call_id="1", additional_kwargs=mark.kwargs() if mark else {})


def load(name: str, text: str = "text", change: Change = "load") -> ToolMessage:
    return message(text, Mark(name, change, ("x",), "d", len(text)))


def test_a_mark_is_read_as_it_was_written() -> None:
    mark = Mark("pdf", "load", ("a", "b"), "digest", 12)
    assert mark_of(message("t", mark)) == mark


@pytest.mark.parametrize(
    "raw", [None, "text", {}, {"skill": 3, "change": "load"}, {"skill": "a", "change": "other"}, {"change": "load"}]
)
def test_what_is_no_mark_is_none(raw: Any) -> None:
    assert mark_of(ToolMessage("t", tool_call_id="1", additional_kwargs={KEY: raw})) is None


def test_a_mark_of_another_version_is_never_whole() -> None:
    odd = ToolMessage("", tool_call_id="1", additional_kwargs={KEY: {"skill": "a", "change": "load", "before": 3}})
    assert mark_of(odd) == Mark("a", "load", (), "", -1)
    assert whole_loads([odd]) == {}


def test_the_text_of_blocks_is_their_text() -> None:
    blocks: Any = [{"type": "text", "text": "one "}, {"type": "text", "text": "two"}]
    assert text_of(AIMessage(blocks)) == "one two"
    assert text_of(HumanMessage("plain")) == "plain"


def test_a_loading_is_whole_until_its_text_changes_or_it_is_unloaded() -> None:
    first = load("a")
    assert list(whole_loads([HumanMessage("x"), first])) == ["a"]
    assert whole_loads([first.model_copy(update={"content": "te..."})]) == {}
    assert whole_loads([first, load("a", change="unload")]) == {}
    assert list(whole_loads([first, load("a", change="none")])) == ["a"]
    assert list(whole_loads([first, load("a", change="unload"), load("a", "new")])) == ["a"]


def test_the_last_loading_of_a_skill_counts() -> None:
    second = load("a", "new text")
    assert whole_loads([load("a"), second])["a"][1] is second


def test_a_retold_message_stays_whole_or_broken() -> None:
    told = retold(load("a"), "another text")
    assert list(whole_loads([told])) == ["a"]
    broken = retold(load("a").model_copy(update={"content": "te..."}), "te... and more")
    assert whole_loads([broken]) == {}
    plain = retold(message("t", None), "new")
    assert (plain.text, mark_of(plain)) == ("new", None)


def test_different_bytes_have_different_digests() -> None:
    assert digest_of(b"a") == digest_of(b"a") != digest_of(b"b")


def test_a_loading_stays_whole_when_others_put_words_around_it() -> None:
    marked = message("text", Mark("a", "load", (), "d").on("text"))
    for text in ("Note: edited.\ntext", "text\nand more"):
        assert list(whole_loads([marked.model_copy(update={"content": text})])) == ["a"]
    for text in ("Note: edited.\ntex", "before text behind", "other"):
        assert whole_loads([marked.model_copy(update={"content": text})]) == {}


def test_a_restated_message_keeps_the_words_before_it() -> None:
    marked = message("text", Mark("a", "load", (), "d").on("text")).model_copy(update={"content": "Note. text"})
    told = restated(marked, "other words", "none")
    assert told.text == "Note. other words"
    found = mark_of(told)
    assert found is not None
    assert found.change == "none"
    assert restated(message("text", None), "new").text == "new"
