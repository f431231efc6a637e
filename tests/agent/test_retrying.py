"""Asking again: how often, after how long, and never once something was said."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openskills.agent.model import Answer, ModelEvent, TextDelta
from openskills.agent.retrying import AttemptFailed, Retries, Retrying, retry_after
from openskills.errors import InvalidArgument, ModelUnavailable
from tests.agent.asking import Waits

DATE = "Wed, 21 Oct 2026 07:28:00 GMT"
THEN = 1792567680.0
BUSY = AttemptFailed(ModelUnavailable("busy", status=429), again=True)


class Attempts:
    """Attempts that go as scripted: each yields its events and then raises, if it ends in a failure."""

    def __init__(self, *scripts: Sequence[ModelEvent | AttemptFailed]) -> None:
        self.scripts = list(scripts)
        self.closed = 0

    async def __call__(self) -> AsyncGenerator[ModelEvent]:
        try:
            for step in self.scripts.pop(0):
                if isinstance(step, AttemptFailed):
                    raise step
                yield step
        finally:
            self.closed += 1


def streamed(attempts: Attempts, retrying: Retrying) -> list[ModelEvent]:
    async def all_of_it() -> list[ModelEvent]:
        return [event async for event in retrying.stream(attempts)]

    return asyncio.run(all_of_it())


def test_an_attempt_that_succeeds_is_the_only_one() -> None:
    waits = Waits()
    assert streamed(Attempts([TextDelta("a"), Answer("a")]), waits.retrying()) == [TextDelta("a"), Answer("a")]
    assert waits.seconds == []


def test_pauses_double_up_to_the_longest() -> None:
    waits = Waits()
    attempts = Attempts([BUSY], [BUSY], [BUSY], [BUSY], [Answer("done")])
    assert streamed(attempts, waits.retrying(attempts=5, pause=1, longest_pause=4)) == [Answer("done")]
    assert waits.seconds == [1, 2, 4, 4]


def test_chance_shortens_a_pause_by_up_to_a_half() -> None:
    policy = Retries(pause=8)
    assert [policy.before_next(1, chance) for chance in (0, 0.5, 1)] == [8, 6, 4]


@given(st.integers(1, 10**9), st.floats(0, 1))
def test_no_pause_is_longer_than_the_longest(tried: int, chance: float) -> None:
    assert 0 < Retries().before_next(tried, chance) <= Retries().longest_pause


def test_the_last_failure_is_told_with_the_number_of_attempts() -> None:
    with pytest.raises(ModelUnavailable, match="busy; tried 3 times") as caught:
        streamed(Attempts([BUSY], [BUSY], [BUSY]), Waits().retrying(attempts=3))
    assert caught.value.details == {"status": 429, "attempts": 3}


def test_one_attempt_is_no_retry() -> None:
    with pytest.raises(ModelUnavailable, match="busy; tried once"):
        streamed(Attempts([BUSY]), Waits().retrying(attempts=1))


def test_a_failure_that_no_attempt_can_mend_is_raised_at_once() -> None:
    refused = AttemptFailed(InvalidArgument("model", "no such model"))
    waits = Waits()
    with pytest.raises(InvalidArgument, match="no such model"):
        streamed(Attempts([refused]), waits.retrying())
    assert waits.seconds == []


def test_an_answer_that_broke_off_after_its_first_word_is_not_begun_anew() -> None:
    attempts = Attempts([TextDelta("Once upon"), BUSY], [Answer("never asked for")])
    with pytest.raises(ModelUnavailable, match="busy; the answer broke off in the middle"):
        streamed(attempts, Waits().retrying())
    assert len(attempts.scripts) == 1


def test_the_server_says_how_long_to_wait() -> None:
    waits = Waits()
    busy = AttemptFailed(ModelUnavailable("busy"), again=True, after=7.5)
    streamed(Attempts([busy], [Answer("done")]), waits.retrying())
    assert waits.seconds == [7.5]


def test_a_server_that_asks_for_more_than_we_wait_is_not_asked_again() -> None:
    waits = Waits()
    busy = AttemptFailed(ModelUnavailable("quota used up"), again=True, after=3600)
    with pytest.raises(ModelUnavailable, match="quota used up; it asks to wait for 3600 seconds") as caught:
        streamed(Attempts([busy]), waits.retrying())
    assert caught.value.details["retry_after"] == 3600
    assert waits.seconds == []


def test_closing_the_stream_closes_the_attempt() -> None:
    attempts = Attempts([TextDelta("a"), TextDelta("b")])

    async def leave_early() -> None:
        async with aclosing(Waits().retrying().stream(attempts)) as events:
            assert await anext(events) == TextDelta("a")

    asyncio.run(leave_early())
    assert attempts.closed == 1


def test_a_retry_is_a_line_of_the_log_without_what_the_provider_said(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "openskills"):
        streamed(Attempts([BUSY], [Answer("done")]), Waits().retrying())
    assert caplog.messages == ["the model: attempt 1 came to nothing (429); again in 1.0 seconds"]


def test_fewer_than_one_attempt_is_refused() -> None:
    with pytest.raises(InvalidArgument, match=r"retries\.attempts: is less than 1"):
        Retries(attempts=0)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "3"}, 3),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": "-4"}, 0),
        ({"retry-after-ms": "250", "retry-after": "3"}, 0.25),
        ({"retry-after-ms": "soon", "retry-after": "3"}, 3),
        ({"retry-after": DATE}, 30),
        ({"retry-after": DATE, "date": "Wed, 21 Oct 2026 07:27:50 GMT"}, 10),
        ({"retry-after": "Wed, 21 Oct 2020 07:28:00 GMT"}, 0),
        ({}, None),
        ({"retry-after": "later"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "Wed, 21 Oct 99999999999 07:28:00 GMT"}, None),
    ],
)
def test_what_a_server_says_about_coming_back_is_read_in_all_its_forms(
    headers: dict[str, str], seconds: float | None
) -> None:
    assert retry_after(headers, THEN - 30) == seconds


@given(st.text(), st.text())
def test_no_header_breaks_the_reading(said: str, date: str) -> None:
    found = retry_after({"retry-after": said, "date": date}, THEN)
    assert found is None or found >= 0
