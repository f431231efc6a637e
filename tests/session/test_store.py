"""What all stores share: keys, conflicts, what an append comes to, the order of a list.

Addresses are shown without what nobody may see.

What the next event makes of a conversation, the same for every store.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from openskills.errors import InvalidArgument, SessionConflict, SkillError
from openskills.session.events import Event, event_to_json, new_event
from openskills.session.store import (
    SessionHead,
    SessionInfo,
    SessionKey,
    advance_head,
    build_append_result,
    digest_ids,
    result_from_stored,
    sort_latest_first,
    state_to_json,
    strip_credentials,
)


@pytest.mark.parametrize("field", ["app", "user", "session"])
@pytest.mark.parametrize(
    "value", ["", "a\0b", "a\nb", "\ud800", "x" * 513], ids=["empty", "nul", "line", "half", "long"]
)
def test_a_key_of_what_is_not_an_id_is_refused_with_the_field(field: str, value: str) -> None:
    with pytest.raises(InvalidArgument) as raised:
        SessionKey(**{"app": "app", "user": "erika", "session": "s1", field: value})
    assert raised.value.field == field


def test_an_append_sets_the_place_and_applies_the_delta() -> None:
    event = new_event("a", "message", delta={"x": None, "y": "2"})
    done = build_append_result(event, {"x": "1", "z": "3"}, 4)
    assert done.event == replace(event, seq=5)
    assert (done.revision, done.state) == (5, {"y": "2", "z": "3"})


def test_the_event_of_the_hook_takes_the_place_of_the_other() -> None:
    def hook(event: Event, state: Mapping[str, str]) -> Event:
        return replace(event, payload={"before": dict(state)}, delta={**event.delta, "old": None})

    done = build_append_result(new_event("a", "message", delta={"new": "1"}), {"old": "1"}, 0, hook)
    assert done.event.payload == {"before": {"old": "1"}}
    assert done.state == {"new": "1"}


def test_a_hook_that_gives_another_id_is_told_so() -> None:
    with pytest.raises(InvalidArgument, match="hook: must not change the id of the event 'e1' to 'e2'"):
        build_append_result(
            replace(new_event("a", "message"), id="e1"), {}, 0, lambda event, _: replace(event, id="e2")
        )


def test_a_hook_cannot_write_into_the_state_or_into_the_event_of_the_caller() -> None:
    def hook(event: Event, state: Mapping[str, str]) -> Event:
        assert isinstance(state, dict)
        state.clear()
        event.payload["list"].append("hooked")
        return event

    state, event = {"a": "1"}, new_event("a", "message", {"list": []})
    done = build_append_result(event, state, 0, hook)
    assert (state, done.state) == ({"a": "1"}, {"a": "1"})
    assert (event.payload, done.event.payload) == ({"list": []}, {"list": ["hooked"]})


def test_a_conflict_can_be_tried_again_and_says_what_is_the_case() -> None:
    error = SessionConflict("s1", expected=3, revision=5)
    assert isinstance(error, SkillError)
    assert (error.code, error.retryable, error.revision) == (409, True, 5)
    assert str(error) == "session 's1' is at revision 5, not at 3; read it again and retry"
    assert error.details == {"expected": 3, "revision": 5}


def test_the_latest_conversation_comes_first_and_equal_times_go_by_name() -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    infos = [
        SessionInfo(SessionKey("app", "erika", name), 1, start, start + timedelta(days=day))
        for name, day in (("b", 1), ("c", 2), ("a", 1), ("d", 0))
    ]
    assert [info.key.session for info in sort_latest_first(infos)] == ["c", "a", "b", "d"]


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://erika:geheim@db.example:5432/app?sslmode=geheim", "postgresql://db.example:5432/app"),
        ("redis://:geheim@127.0.0.1/0", "redis://127.0.0.1/0"),
        ("redis://[::1]:6379/0", "redis://[::1]:6379/0"),
        ("postgresql:///app?host=/run/geheim", "postgresql:///app"),
        ("postgresql://erika:ge/heim@db/app", "postgresql://…"),
        ("postgresql://erika:ge@heim@db/app", "postgresql://…"),
        ("postgresql://erika:ge#heim@db/app", "postgresql://…"),
        ("postgresql://erika:ge?heim@db/app", "postgresql://…"),
        ("redis://erika:heim@[::1", "redis://…"),
        ("redis://erika:heim@db:port/0", "redis://…"),
        ("erika:geheim@db", "(invalid URL)"),
        ("erika:geheim@db://x", "(invalid URL)"),
    ],
)
def test_an_address_is_shown_without_user_password_and_options(url: str, shown: str) -> None:
    assert strip_credentials(url) == shown
    assert "heim" not in shown


KEY = SessionKey("app", "erika", "s1")
START = datetime(2026, 1, 1, tzinfo=UTC)
HEAD = SessionHead(KEY, 2, START, START + timedelta(days=1), {"a": "1"})


def event(day: int, **delta: str | None) -> Event:
    return Event(f"e{day}", "main", "message", START + timedelta(days=day), {}, delta)


def test_the_first_event_begins_a_conversation() -> None:
    done, head = advance_head(KEY, None, event(5, a="1"), expected=None, hook=None)
    assert (done.revision, done.event.seq) == (1, 1)
    assert head == SessionHead(KEY, 1, START + timedelta(days=5), START + timedelta(days=5), {"a": "1"})


def test_a_later_event_keeps_the_beginning_and_changes_the_rest() -> None:
    done, head = advance_head(KEY, HEAD, event(0, a=None, b="2"), expected=2, hook=None)
    assert done.event.seq == 3
    assert head == SessionHead(KEY, 3, START, START, {"b": "2"})
    assert head.revision == 3


@pytest.mark.parametrize(("head", "expected"), [(None, 1), (HEAD, 0), (HEAD, 1), (HEAD, 3)])
def test_another_revision_than_expected_is_a_conflict(head: SessionHead | None, expected: int) -> None:
    with pytest.raises(SessionConflict):
        advance_head(KEY, head, event(0), expected=expected, hook=None)


def test_an_event_that_is_stored_already_is_answered_with_what_is_now() -> None:
    stored = new_event("a", "message")
    answer = result_from_stored(HEAD, event_to_json(stored))
    assert (answer.event, answer.revision, answer.state) == (stored, 2, {"a": "1"})


@pytest.mark.parametrize("seqs", [(), (1,), (2,), (2, 1), (1, 2, 3)])
def test_a_log_with_events_missing_is_an_error_and_not_a_conversation(seqs: tuple[int, ...]) -> None:
    events = [Event(f"e{seq}", "a", "message", START, seq=seq) for seq in seqs]
    with pytest.raises(SkillError, match=r"the log of session 's1' is damaged: .* of 2 events"):
        HEAD.build_session(events)


@pytest.mark.parametrize(("after", "seqs"), [(0, (1, 2)), (-3, (1, 2)), (1, (2,)), (2, ()), (9, ())])
def test_events_behind_a_number_are_complete_without_those_before_it(after: int, seqs: tuple[int, ...]) -> None:
    events = [Event(f"e{seq}", "a", "message", START, seq=seq) for seq in seqs]
    assert HEAD.build_session(events, after=after).events == tuple(events)


def test_ids_that_could_be_run_together_have_other_digests() -> None:
    spellings = [("a", "b", "c"), ("ab", "", "c"), ("a", "bc"), ('a","b', "c"), ("A", "b", "c"), ("é",), ("e\u0301",)]
    assert len({digest_ids(*parts) for parts in spellings}) == len(spellings)


def test_a_state_is_one_line_of_ascii() -> None:
    text = state_to_json({"图\n": "'; --"})
    assert text.isascii()
    assert "\n" not in text
