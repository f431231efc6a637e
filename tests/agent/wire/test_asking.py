"""One request through an official client: what is heard, and what of it is no answer."""

import asyncio
from typing import Any

import openai
import pytest

from openskills.agent.retrying import AttemptFailed
from openskills.agent.wire.asking import asked
from openskills.agent.wire.failures import Provider
from openskills.agent.wire.pacing import TimeLimits
from openskills.errors import InvalidArgument
from openskills.testing import ModelServer, RawReply, Refusal, event

PROVIDER = Provider("openai/gpt-test", "models.local", [])


def heard(reply: Any, *, complete_after: int | None = None) -> tuple[list[object], bool]:
    async def ask(url: str) -> tuple[list[object], bool]:
        async with openai.AsyncOpenAI(api_key="k", base_url=url, max_retries=0) as client:
            create: Any = client.chat.completions.with_streaming_response.create
            sent = create(model="gpt-test", messages=[], stream=True)
            found: list[object] = []
            async with asked(
                *(sent, openai.AsyncStream[object], openai.OpenAIError, TimeLimits(), PROVIDER),
                is_complete=lambda: len(found) == complete_after,
            ) as answer:
                async for sent_event in answer.events:
                    found.append(sent_event)  # noqa: PERF401 - what came before an error counts
                return found, answer.source.said_done
            return found, False

    with ModelServer([reply]) as server:
        return asyncio.run(ask(server.openai_url))


def test_events_are_the_plain_values_that_were_sent() -> None:
    events = (event({"a": [1]}), event(5), event("[DONE]"))
    assert heard(RawReply(events)) == ([{"a": [1]}, 5], True)


@pytest.mark.parametrize("kind", ["text/event-stream; charset=utf-8", "Text/Event-Stream", "text/plain", ""])
def test_events_are_heard_whatever_a_server_calls_them(kind: str) -> None:
    assert heard(RawReply((event({"a": 1}),), content_type=kind)) == ([{"a": 1}], False)


def test_a_whole_body_is_one_event() -> None:
    assert heard(RawReply((b'{"a": ', b"1}"), content_type="application/json")) == ([{"a": 1}], False)


def test_an_error_that_comes_as_if_all_were_well_is_one() -> None:
    body = event({"error": {"message": "no", "code": 400}}).removeprefix(b"data: ")
    with pytest.raises(AttemptFailed) as caught:
        heard(RawReply((body,), content_type="application/json"))
    assert isinstance(caught.value.error, InvalidArgument)


def test_an_error_among_the_events_is_one() -> None:
    with pytest.raises(AttemptFailed) as caught:
        heard(RawReply((event({"a": 1}), event({"error": {"message": "overloaded", "code": 503}}))))
    assert caught.value.error.message == "openai/gpt-test: overloaded (503)"
    assert caught.value.again


@pytest.mark.parametrize("kind", ["text/html", "application/x-ndjson", "image/png"])
def test_what_is_no_answer_of_a_model_is_told_with_its_type(kind: str) -> None:
    with pytest.raises(AttemptFailed, match=f"answered with {kind} and no events"):
        heard(RawReply((b"hello",), content_type=kind))


def test_a_refusal_is_told_with_its_whole_text() -> None:
    with pytest.raises(AttemptFailed) as caught:
        heard(Refusal(422, "unknown field stream_options"))
    assert "unknown field stream_options" in caught.value.said


def test_what_breaks_after_the_answer_is_complete_does_no_harm() -> None:
    events = (event({"a": 1}), event({"b": 2}))
    assert heard(RawReply(events, cut=True), complete_after=2) == ([{"a": 1}, {"b": 2}], False)
    with pytest.raises(AttemptFailed):
        heard(RawReply(events, cut=True), complete_after=3)
