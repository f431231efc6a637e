"""What the next event makes of a conversation, the same for every store."""

from datetime import UTC, datetime, timedelta

import pytest

from openskills.errors import SessionConflict, SkillError
from openskills.session.events import Event, new_event, to_json
from openskills.session.head import Head, advanced, digest, repeated, state_text
from openskills.session.store import SessionKey

KEY = SessionKey("app", "erika", "s1")
START = datetime(2026, 1, 1, tzinfo=UTC)
HEAD = Head(KEY, 2, START, START + timedelta(days=1), {"a": "1"})


def event(day: int, **delta: str | None) -> Event:
    return Event(f"e{day}", "main", "message", START + timedelta(days=day), {}, delta)


def test_the_first_event_begins_a_conversation() -> None:
    done, head = advanced(KEY, None, event(5, a="1"), expected=None, hook=None)
    assert (done.revision, done.event.seq) == (1, 1)
    assert head == Head(KEY, 1, START + timedelta(days=5), START + timedelta(days=5), {"a": "1"})


def test_a_later_event_keeps_the_beginning_and_changes_the_rest() -> None:
    done, head = advanced(KEY, HEAD, event(0, a=None, b="2"), expected=2, hook=None)
    assert done.event.seq == 3
    assert head == Head(KEY, 3, START, START, {"b": "2"})
    assert head.info.revision == 3


@pytest.mark.parametrize(("head", "expected"), [(None, 1), (HEAD, 0), (HEAD, 1), (HEAD, 3)])
def test_another_revision_than_expected_is_a_conflict(head: Head | None, expected: int) -> None:
    with pytest.raises(SessionConflict):
        advanced(KEY, head, event(0), expected=expected, hook=None)


def test_an_event_that_is_stored_already_is_answered_with_what_is_now() -> None:
    stored = new_event("a", "message")
    answer = repeated(HEAD, to_json(stored))
    assert (answer.event, answer.revision, answer.state) == (stored, 2, {"a": "1"})


@pytest.mark.parametrize("seqs", [(), (1,), (2,), (2, 1), (1, 2, 3)])
def test_a_log_with_events_missing_is_an_error_and_not_a_conversation(seqs: tuple[int, ...]) -> None:
    events = [Event(f"e{seq}", "a", "message", START, seq=seq) for seq in seqs]
    with pytest.raises(SkillError, match="the log of session 's1' is damaged: of 2 events"):
        HEAD.session(events)


@pytest.mark.parametrize(("after", "seqs"), [(0, (1, 2)), (-3, (1, 2)), (1, (2,)), (2, ()), (9, ())])
def test_events_behind_a_number_are_complete_without_those_before_it(after: int, seqs: tuple[int, ...]) -> None:
    events = [Event(f"e{seq}", "a", "message", START, seq=seq) for seq in seqs]
    assert HEAD.session(events, after=after).events == tuple(events)


def test_ids_that_could_be_run_together_have_other_digests() -> None:
    spellings = [("a", "b", "c"), ("ab", "", "c"), ("a", "bc"), ('a","b', "c"), ("A", "b", "c"), ("é",), ("e\u0301",)]
    assert len({digest(*parts) for parts in spellings}) == len(spellings)


def test_a_state_is_one_line_of_ascii() -> None:
    text = state_text({"图\n": "'; --"})
    assert text.isascii()
    assert "\n" not in text
