"""What results of skill tools say, and what says nothing."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openskills.prompt.outcomes import Outcome, Verb, outcome
from openskills.session.changes import ALL
from tests.prompt.garbage import anything

LOAD, SELECT, UNLOAD = Verb.LOAD, Verb.SELECT, Verb.UNLOAD
PDF = '{"skill": "pdf"}'


def test_a_load_says_its_skill_and_what_had_to_go() -> None:
    assert outcome("skill_load", PDF, "loaded: pdf") == Outcome(LOAD, "pdf")
    assert outcome("skill_load", PDF, "loaded: pdf\nevicted: a\nevicted: b c") == Outcome(
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
    expected = Outcome(LOAD, "pdf", docs)
    assert outcome("skill_load", {"skill": "pdf", **arguments}, "loaded: pdf") == expected
    assert outcome("skill_load", json.dumps({"skill": " pdf ", **arguments}), "loaded: pdf") == expected


def test_arguments_that_cannot_be_read_leave_the_text_to_say_it() -> None:
    for arguments in (None, "{", "[]", 3):
        assert outcome("skill_load", arguments, "loaded: pdf") == Outcome(LOAD, "pdf")


@pytest.mark.parametrize(
    "text",
    ["", "loaded:", "loaded: ", "Loaded", "error: there is no skill named 'pdf'", "[cleared]", "loaded: pd",
     "loaded: pdf-tools", "loaded: pdf [truncated]", " loaded: pdf", "unloaded: pdf",
     '{"skill": "pdf", "selected_docs": []}'],
)  # fmt: skip
def test_a_result_that_failed_or_was_replaced_or_cut_is_no_load(text: str) -> None:
    assert outcome("skill_load", PDF, text) is None


def test_a_result_that_was_shown_and_came_back_with_a_cut_is_no_load() -> None:
    assert outcome("skill_load", PDF, "loaded: pdf\n\n[Loaded] pdf\n\nFirst li... (truncated)") is None


def test_what_others_wrote_below_a_load_does_not_matter() -> None:
    assert outcome("skill_load", PDF, "loaded: pdf\n\nTook 3 ms\nevicted: a") == Outcome(LOAD, "pdf")


def test_a_name_is_compared_in_its_one_spelling() -> None:
    assert outcome("skill_load", '{"skill": "ｐｄｆ数据"}', "loaded: pdf数据") == Outcome(LOAD, "pdf数据")


def test_a_selection_says_what_is_selected_after_it() -> None:
    some = '{"skill": "pdf", "mode": "add", "selected_docs": ["a.md", "b.md"]}'
    assert outcome("skill_select_docs", None, some) == Outcome(SELECT, "pdf", ("a.md", "b.md"))
    every = '{"skill": "pdf", "mode": "replace", "include_all_docs": true}\nevicted: docx'
    assert outcome("skill_select_docs", "{", every) == Outcome(SELECT, "pdf", (ALL,), ("docx",))
    nothing = '{"skill": "pdf", "mode": "clear", "selected_docs": []}'
    assert outcome("skill_select_docs", None, nothing) == Outcome(SELECT, "pdf", ())


@pytest.mark.parametrize(
    "text",
    ["", "{", "[cleared]", "[]", '"pdf"', '{"skill": "pdf"}', '{"skill": 3, "selected_docs": []}', "error: no",
     '{"selected_docs": []}', '{"skill": "pdf", "selected_docs": ["a.m', '{"skill": "pdf", "selected_docs": "a.md"}',
     '{"skill":' * 50_000],
)  # fmt: skip
def test_what_is_no_selection_says_nothing(text: str) -> None:
    assert outcome("skill_select_docs", PDF, text) is None


def test_an_unload_says_what_is_gone_unless_it_was_not_there() -> None:
    assert outcome("skill_unload", PDF, "unloaded: pdf") == Outcome(UNLOAD, "pdf")
    assert outcome("skill_unload", PDF, "pdf was not loaded; nothing has changed") is None
    assert outcome("skill_unload", PDF, "unloaded:") is None


def test_the_stub_speaks_for_itself_when_nobody_knows_the_tool() -> None:
    assert outcome("", None, "loaded: pdf\nevicted: a") == Outcome(LOAD, "pdf", None, ("a",))
    assert outcome("", None, "unloaded: pdf") == Outcome(UNLOAD, "pdf")
    assert outcome("", None, '{"skill": "pdf", "selected_docs": []}') is None


def test_results_of_other_tools_say_nothing_whatever_they_look_like() -> None:
    for text in ("loaded: pdf", "unloaded: pdf", '{"skill": "pdf", "selected_docs": []}'):
        assert outcome("skill_run", PDF, text) is None


@given(st.sampled_from(["", *Verb]), anything, st.text() | st.sampled_from(["loaded: ", '{"skill"']).flatmap(
    lambda start: st.text().map(lambda rest: start + rest)
))  # fmt: skip
def test_nothing_raises(tool: str, arguments: object, text: str) -> None:
    found = outcome(tool, arguments, text)
    assert found is None or found.skill
