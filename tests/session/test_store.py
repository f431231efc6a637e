"""What all stores share: keys, conflicts, what an append comes to, the order of a list."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from openskills.errors import InvalidArgument, SessionConflict, SkillError
from openskills.session.events import Event, new_event
from openskills.session.store import SessionInfo, SessionKey, appended, latest_first


@pytest.mark.parametrize("field", ["app", "user", "session"])
@pytest.mark.parametrize(
    "value", ["", "a\0b", "a\nb", "\ud800", "x" * 513], ids=["empty", "nul", "line", "half", "long"]
)
def test_a_key_of_what_is_no_id_is_refused_with_the_field(field: str, value: str) -> None:
    with pytest.raises(InvalidArgument) as raised:
        SessionKey(**{"app": "app", "user": "erika", "session": "s1", field: value})
    assert raised.value.field == field


def test_an_append_sets_the_place_and_applies_the_delta() -> None:
    event = new_event("a", "message", delta={"x": None, "y": "2"})
    done = appended(event, {"x": "1", "z": "3"}, 4)
    assert done.event == replace(event, seq=5)
    assert (done.revision, done.state) == (5, {"y": "2", "z": "3"})


def test_the_event_of_the_hook_takes_the_place_of_the_other() -> None:
    def hook(event: Event, state: Mapping[str, str]) -> Event:
        return replace(event, payload={"before": dict(state)}, delta={**event.delta, "old": None})

    done = appended(new_event("a", "message", delta={"new": "1"}), {"old": "1"}, 0, hook)
    assert done.event.payload == {"before": {"old": "1"}}
    assert done.state == {"new": "1"}


def test_a_hook_that_gives_another_id_is_told_so() -> None:
    with pytest.raises(InvalidArgument, match="hook: gave the event 'e1' another id, 'e2'"):
        appended(replace(new_event("a", "message"), id="e1"), {}, 0, lambda event, _: replace(event, id="e2"))


def test_a_hook_cannot_write_into_the_state_or_into_the_event_of_the_caller() -> None:
    def hook(event: Event, state: Mapping[str, str]) -> Event:
        assert isinstance(state, dict)
        state.clear()
        event.payload["list"].append("hooked")
        return event

    state, event = {"a": "1"}, new_event("a", "message", {"list": []})
    done = appended(event, state, 0, hook)
    assert (state, done.state) == ({"a": "1"}, {"a": "1"})
    assert (event.payload, done.event.payload) == ({"list": []}, {"list": ["hooked"]})


def test_a_conflict_can_be_tried_again_and_says_what_is_the_case() -> None:
    error = SessionConflict("s1", expected=3, revision=5)
    assert isinstance(error, SkillError)
    assert (error.code, error.retryable, error.revision) == (409, True, 5)
    assert str(error) == "session 's1' is at revision 5, not at 3; read it again and decide anew"
    assert error.details == {"expected": 3, "revision": 5}


def test_the_latest_conversation_comes_first_and_equal_times_go_by_name() -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    infos = [
        SessionInfo(SessionKey("app", "erika", name), 1, start, start + timedelta(days=day))
        for name, day in (("b", 1), ("c", 2), ("a", 1), ("d", 0))
    ]
    assert [info.key.session for info in latest_first(infos)] == ["c", "a", "b", "d"]
