"""Ids of calls."""

from openskills.agent.call_ids import CallIds
from openskills.agent.model import Answer, ToolCall
from openskills.session.events import new_event


def unique(ids: CallIds, *given: str) -> list[str]:
    return [call.id for call in ids.unique([ToolCall(one, "t", "{}") for one in given])]


def test_an_id_is_used_once_whoever_wrote_it() -> None:
    said = Answer("", (ToolCall("m1", "t", "{}"),)).message()
    ids = CallIds([new_event("a", "message", {"message": said}), new_event("b", "tool.call", {"call_id": "c1"})])
    assert unique(ids, "c1", "m1", "c1", "", "") == ["c1-2", "m1-2", "c1-3", "call", "call-2"]
    assert unique(ids, "c1", "c1-2", "new") == ["c1-4", "c1-2-2", "new"]


def test_what_is_no_call_takes_no_id() -> None:
    events = [
        new_event("a", "message", {"message": {"role": "user", "content": "x"}}),
        new_event("a", "message", {"message": None}),
        new_event("a", "end", {"call_id": "c1"}),
    ]
    assert unique(CallIds(events), "c1") == ["c1"]
