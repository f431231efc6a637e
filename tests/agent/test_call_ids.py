"""Ids of calls."""

import re

import pytest

from openskills.agent.call_ids import CallIds
from openskills.agent.model import Answer, ToolCall
from openskills.session.events import new_event


def unique(ids: CallIds, *given: str, tool: str = "t") -> list[str]:
    return [call.id for call in ids.unique([ToolCall(one, tool, "{}") for one in given])]


def test_an_id_is_used_once_whoever_wrote_it() -> None:
    said = Answer("", (ToolCall("m1", "t", "{}"),)).message()
    events = [new_event("a", "message", {"message": said}), new_event("b", "tool.call", {"call_id": "c1-x"})]
    ids = CallIds(events, tag="x")
    assert unique(ids, "c1", "m1", "c1", "", "") == ["c1-x-2", "m1-x", "c1-x-3", "call-x", "call-x-2"]
    assert unique(ids, "c1", "c1-2", "new") == ["c1-x-4", "c1-2-x", "new-x"]


def test_what_is_no_call_takes_no_id() -> None:
    events = [
        new_event("a", "message", {"message": {"role": "user", "content": "x"}}),
        new_event("a", "message", {"message": None}),
        new_event("a", "end", {"call_id": "c1-x"}),
    ]
    assert unique(CallIds(events, tag="x"), "c1") == ["c1-x"]


@pytest.mark.parametrize("counted", ["", "call_0", "rule-1", "functions.search_files2go:0", "toolcallnumber12", "7"])
def test_runs_that_know_nothing_of_each_other_never_choose_the_same_id(counted: str) -> None:
    # Two processes read the same log, and then each its own model, which counts.
    runs = [unique(CallIds(), counted, counted, tool="search_files2go") for _ in range(50)]
    assert len({identity for one in runs for identity in one}) == 100


@pytest.mark.parametrize(
    "drawn",
    [
        "call_9xKqPz3LmNvB2TyRw8Qd4EfG",
        "toolu_01A09q90qw90lq917835lq9",
        f"chatcmpl-tool-{'3f2a9c' * 5}",
        "call_" + "aB" * 12,
    ],
)
def test_an_id_that_a_provider_has_drawn_stays_as_it_is_unless_it_is_used_again(drawn: str) -> None:
    assert unique(CallIds(tag="x"), drawn, drawn) == [drawn, f"{drawn}-x"]


@pytest.mark.parametrize("drawn", ["D681PevKs", "VvvODyKcB", "abcdefghi"])
def test_an_id_of_nine_letters_and_digits_stays_one_because_its_server_takes_no_other(drawn: str) -> None:
    first, second, third = unique(CallIds(), drawn, drawn, drawn)
    assert first == drawn
    assert len({first, second, third}) == 3
    assert all(re.fullmatch("[A-Za-z0-9]{9}", one) for one in (second, third))
