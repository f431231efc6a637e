"""What both models promise, each through its official client against a real server, with everything going wrong."""

import asyncio
import json
import logging
from collections.abc import Callable
from contextlib import aclosing
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from openskills.agent.models.http import ModelTimeouts, Retrier
from openskills.agent.models.model import Model, ModelRequest, ModelResponse, TextDelta, ToolCall, Usage
from openskills.errors import InvalidArgument, ModelUnavailable, SkillError, Unauthorized
from openskills.testing.model_server import (
    ErrorReply,
    ModelReply,
    ModelServer,
    ModelServerRequest,
    RawReply,
    ResetReply,
    anthropic_events,
    openai_events,
)
from tests.agent.asking import (
    HELLO,
    KEY,
    TOOL,
    AnyModel,
    Make,
    Waits,
    answer,
    heard,
    make_anthropic,
    make_openai,
    texts,
    using,
)

FOREVER = 60.0
IMPATIENT = ModelTimeouts(connect=5, first=0.2, between=0.2)
CALLS = (
    ToolCall("call_a", "skill_load", '{"skill": "csv-report"}'),
    ToolCall("call_b", "skill_load", '{"skill": "表格"}'),
)

both = pytest.mark.parametrize("make", [make_openai, make_anthropic], ids=["openai", "anthropic"])


@both
def test_it_is_a_model(make: Make) -> None:
    model: Model = make(_Nowhere())
    assert model.name in {"openai/gpt-test", "anthropic/claude-test"}


@both
async def test_text_comes_in_pieces_and_then_whole(make: Make) -> None:
    with ModelServer([ModelResponse("Hello, you there.", usage=Usage(120, 7, 100))]) as server:
        events = await heard(make(server))
    assert texts(events) == ["Hello, y", "ou there", "."]
    assert events[-1] == ModelResponse(
        "Hello, you there.", (), Usage(120, 7, 100), "stop", server.requests[0].body["model"]
    )


@both
async def test_several_calls_of_one_answer_keep_their_order(make: Make) -> None:
    with ModelServer([ModelResponse("Both.", CALLS)]) as server:
        found = await answer(make(server), ModelRequest(HELLO.messages, [TOOL]))
    assert (found.text, found.calls, found.stop) == ("Both.", CALLS, "tool_calls")


@both
async def test_a_server_that_does_not_stream_is_understood(make: Make) -> None:
    whole = ModelResponse("All at once.", CALLS, Usage(50, 5, 20))
    with ModelServer([ModelReply(whole, streams=False)]) as server:
        events = await heard(make(server))
    assert texts(events) == ["All at once."]
    assert isinstance(events[-1], ModelResponse)
    assert (events[-1].text, events[-1].calls, events[-1].usage) == (whole.text, whole.calls, whole.usage)


@both
@pytest.mark.parametrize("size", [1, 2, 3, 7])
async def test_characters_that_are_cut_on_the_way_arrive_whole(make: Make, size: int) -> None:
    text = "naïve 表格 🧑‍🚀 done"
    with ModelServer([ModelReply(ModelResponse(text, CALLS), split=size, piece=3)]) as server:
        found = await answer(make(server))
    assert (found.text, found.calls) == (text, CALLS)


@both
@hypothesis_settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(min_size=1).filter(str.strip), arguments=st.text(min_size=1), piece=st.integers(1, 9))
def test_any_text_and_any_arguments_survive_the_way(make: Make, text: str, arguments: str, piece: int) -> None:
    with ModelServer([ModelReply(ModelResponse(text, (ToolCall("a", "tool", arguments),)), piece=piece)]) as server:
        found = asyncio.run(answer(make(server)))
    assert (found.text, found.calls[0].arguments) == (text, arguments)


@both
async def test_arguments_that_are_not_json_arrive_as_they_were_written(make: Make) -> None:
    garbage = '{"skill": "csv-rep'
    with ModelServer([ModelResponse(calls=(ToolCall("a", "skill_load", garbage),))]) as server:
        assert (await answer(make(server))).calls == (ToolCall("a", "skill_load", garbage),)


@both
async def test_a_call_without_arguments_has_an_empty_object(make: Make) -> None:
    with ModelServer([ModelResponse(calls=(ToolCall("a", "list", ""),))]) as server:
        assert (await answer(make(server))).calls == (ToolCall("a", "list", "{}"),)


@both
async def test_an_answer_that_was_too_long_says_so(make: Make) -> None:
    with ModelServer([ModelResponse("Once upon a", stop="length")]) as server:
        assert (await answer(make(server))).stop == "length"


@both
@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 504, 529])
async def test_what_may_pass_is_tried_again(make: Make, status: int) -> None:
    waits = Waits()
    with ModelServer([ErrorReply(status), ErrorReply(status), "Here I am."]) as server:
        found = await answer(make(server, retrying=waits.retrying(pause=2)))
    assert found.text == "Here I am."
    assert waits.seconds == [2, 4]
    assert len({str(asked.body) for asked in server.requests}) == 1


@both
@pytest.mark.parametrize(("said", "seconds"), [("3", 3.0), ("0.25", 0.25), ("Wed, 21 Oct 2020 07:28:00 GMT", 0.0)])
async def test_a_server_is_left_alone_for_as_long_as_it_asks(make: Make, said: str, seconds: float) -> None:
    waits = Waits()
    with ModelServer([ErrorReply(429, headers={"Retry-After": said}), "Here I am."]) as server:
        await answer(make(server, retrying=waits.retrying()))
    assert waits.seconds == [seconds]


@both
async def test_a_server_that_wants_to_be_left_alone_for_long_ends_it(make: Make) -> None:
    waits = Waits()
    with (
        ModelServer([ErrorReply(429, "come back tomorrow", headers={"Retry-After": "86400"})]) as server,
        pytest.raises(ModelUnavailable, match=r"come back tomorrow \(429\); it asks to wait 86400 seconds"),
    ):
        await answer(make(server, retrying=waits.retrying()))
    assert (waits.seconds, len(server.requests)) == ([], 1)


@both
async def test_a_server_that_says_not_to_try_again_is_believed(make: Make) -> None:
    with (
        ModelServer([ErrorReply(500, "broken for good", headers={"x-should-retry": "false"})]) as server,
        pytest.raises(ModelUnavailable, match="broken for good"),
    ):
        await answer(make(server))
    assert len(server.requests) == 1


@both
async def test_when_nothing_helps_the_last_refusal_is_reported(make: Make) -> None:
    with (
        ModelServer([ErrorReply(529, "Overloaded")] * 3) as server,
        pytest.raises(ModelUnavailable, match=r"Overloaded \(529\); tried 3 times") as caught,
    ):
        await answer(make(server, retrying=Waits().retrying(attempts=3)))
    assert caught.value.details == {"status": 529, "said": "Overloaded", "attempts": 3}


@both
@pytest.mark.parametrize(
    ("status", "error"),
    [
        (401, Unauthorized),
        (403, Unauthorized),
        (400, InvalidArgument),
        (404, InvalidArgument),
        (413, InvalidArgument),
        (422, InvalidArgument),
        (402, ModelUnavailable),
    ],
)
async def test_what_will_not_pass_is_reported_at_once_in_the_words_of_the_provider(
    make: Make, status: int, error: type[SkillError]
) -> None:
    waits = Waits()
    with (
        ModelServer([ErrorReply(status, "because I say so")]) as server,
        pytest.raises(error, match=rf"because I say so \(.*{status}\)$|because I say so \({status}\)$"),
    ):
        await answer(make(server, retrying=waits.retrying()))
    assert waits.seconds == []


@both
async def test_a_quota_that_is_used_up_is_not_waited_for(make: Make) -> None:
    with (
        ModelServer([ErrorReply(429, "You exceeded your current quota", kind="insufficient_quota")]) as server,
        pytest.raises(ModelUnavailable, match="exceeded your current quota"),
    ):
        await answer(make(server))
    assert len(server.requests) == 1


@both
async def test_a_key_is_in_no_error_and_in_no_line_of_the_log(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    echo = ErrorReply(401, f"Incorrect API key provided: {KEY}, or sk-other-987654.")
    with caplog.at_level(logging.DEBUG), ModelServer([ErrorReply(500, f"{KEY} broke it"), echo]) as server:
        model = make(server)
        with pytest.raises(Unauthorized, match=r"API key provided: \[secret key\], or \[secret key\]") as caught:
            await answer(model)
    shown = f"{caught.value!r} {caught.value.details} {caught.value.__cause__} {model!r}"
    assert KEY not in shown
    assert not [line for line in caplog.messages if KEY in line]
    assert KEY in server.requests[0].headers["authorization"]


@both
async def test_a_secret_in_a_header_of_the_caller_is_in_no_error(make: Make) -> None:
    with (
        ModelServer([ErrorReply(400, "bad token: hunter2-hunter2")]) as server,
        pytest.raises(InvalidArgument, match=r"bad token: \[secret key\]"),
    ):
        await answer(make(server, headers={"X-Gateway-Token": "hunter2-hunter2"}))


@both
@pytest.mark.parametrize(
    "fault",
    [
        ResetReply(),
        ModelReply(ModelResponse("never heard"), cut_after=0),
        ModelReply(ModelResponse("never heard"), cut_after=1),
        RawReply((b"data: {not json\n\nevent: message_start\ndata: {nor this\n\n",)),
        RawReply((b"data: \xff\xfe\n\n",)),
        RawReply((b"\n\n: only a comment\n\n",)),
        RawReply(()),
        RawReply((b'{"truncated": ',), content_type="application/json"),
    ],
    ids=["reset", "no event", "one event", "no json", "no utf-8", "no event at all", "nothing", "half a body"],
)
async def test_an_answer_that_broke_before_its_first_word_is_asked_for_again(make: Make, fault: Any) -> None:
    waits = Waits()
    with ModelServer([fault, "Here I am."]) as server:
        events = await heard(make(server, retrying=waits.retrying()))
    assert "".join(texts(events)) == "Here I am."
    assert waits.seconds == [1]


@both
async def test_an_answer_that_breaks_in_the_middle_is_never_begun_again(make: Make) -> None:
    async def read(model: AnyModel, into: list[str]) -> None:
        async with using(model), aclosing(model.stream(HELLO)) as events:
            async for event in events:
                assert isinstance(event, TextDelta)
                into.append(event.text)

    tale = "Once upon a time there was a king."
    read_so_far: list[str] = []
    with ModelServer([ModelReply(ModelResponse(tale), cut_after=4), "never asked for"]) as server:
        with pytest.raises(ModelUnavailable, match="the response was cut off"):
            await read(make(server), read_so_far)
        assert len(server.requests) == 1
    assert read_so_far
    assert tale.startswith("".join(read_so_far))


@both
async def test_half_a_call_is_not_an_answer_and_the_request_is_repeated(make: Make) -> None:
    with ModelServer([ModelReply(ModelResponse(calls=CALLS), cut_after=6), ModelResponse(calls=CALLS)]) as server:
        assert (await answer(make(server))).calls == CALLS
    assert len(server.requests) == 2


@both
async def test_a_connection_that_breaks_after_the_last_word_does_no_harm(make: Make) -> None:
    def all_but_the_end(asked: ModelServerRequest) -> RawReply:
        events = openai_events if asked.protocol == "openai" else anthropic_events
        sent = list(events(ModelResponse("Hello"), asked.body, 8))
        return RawReply(tuple(sent[:-1]), cut=True)

    with ModelServer(all_but_the_end) as server:
        assert (await answer(make(server))).text == "Hello"
    assert len(server.requests) == 1


@both
async def test_a_page_in_place_of_an_answer_asks_for_the_url(make: Make) -> None:
    page = RawReply((b"<html>Welcome to the guest network</html>",), content_type="text/html; charset=utf-8")
    with (
        ModelServer([page]) as server,
        pytest.raises(ModelUnavailable, match=r"responded with text/html, expected events; check the base URL"),
    ):
        await answer(make(server))
    assert len(server.requests) == 1


@both
async def test_nobody_at_the_address_is_tried_again_and_then_told(make: Make) -> None:
    with ModelServer([]) as server:
        pass
    waits = Waits()
    with pytest.raises(ModelUnavailable, match=r"cannot connect to 127\.0\.0\.1:\d+: .+; tried 2 times"):
        await answer(make(server, retrying=waits.retrying(attempts=2)))


@both
@pytest.mark.parametrize(
    "slow",
    [ModelReply(ModelResponse("late"), first_after=FOREVER), ModelReply(ModelResponse("late"), between=FOREVER)],
    ids=["first byte", "between events"],
)
async def test_silence_ends_an_attempt_and_the_server_sees_us_leave(make: Make, slow: ModelReply) -> None:
    def script(_: ModelServerRequest) -> ModelReply:
        return slow if len(server.requests) == 1 else ModelReply(ModelResponse("In time."))

    with ModelServer(script) as server:
        model = make(server, limits=IMPATIENT, retrying=Waits().retrying(attempts=50))
        assert (await answer(model)).text == "In time."
        assert server.requests[0].disconnected.wait(10)


@both
async def test_silence_in_the_middle_of_an_answer_is_reported(make: Make) -> None:
    def then_silence(asked: ModelServerRequest) -> RawReply:
        events = openai_events if asked.protocol == "openai" else anthropic_events
        sent = list(events(ModelResponse("Once upon a time"), asked.body, 4))
        return RawReply((b"".join(sent[:4]), b"".join(sent[4:])), between=FOREVER)

    with (
        ModelServer(then_silence) as server,
        pytest.raises(ModelUnavailable, match="reading timed out; the response was cut off"),
    ):
        await answer(make(server, limits=IMPATIENT, retrying=Waits().retrying(attempts=50)))


@both
async def test_closing_the_iterator_closes_the_connection(make: Make) -> None:
    async def leave_early(model: AnyModel, server: ModelServer) -> bool:
        async with using(model):
            async with aclosing(model.stream(HELLO)) as events:
                assert isinstance(await anext(events), TextDelta)
            return await asyncio.to_thread(server.requests[0].disconnected.wait, 10)

    with ModelServer([ModelReply(ModelResponse("Once upon a time"), between=0.01, piece=1)]) as server:
        assert await leave_early(make(server), server)


@both
async def test_cancelling_the_task_closes_the_connection(make: Make) -> None:
    async def cancel(model: AnyModel, server: ModelServer) -> bool:
        async with using(model):
            task = asyncio.create_task(_all(model))
            async with asyncio.timeout(10):
                while not server.requests:
                    await asyncio.sleep(0.001)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            return await asyncio.to_thread(server.requests[0].disconnected.wait, 10)

    with ModelServer([ModelReply(ModelResponse("late"), first_after=FOREVER)]) as server:
        assert await cancel(make(server), server)
        assert len(server.requests) == 1


@both
async def test_cancelling_while_it_waits_to_try_again_ends_it(make: Make) -> None:
    waiting = asyncio.Event()

    async def wait(_: float) -> None:
        waiting.set()
        await asyncio.Event().wait()

    async def cancel(model: AnyModel) -> None:
        async with using(model):
            task = asyncio.create_task(_all(model))
            await waiting.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    with ModelServer([ErrorReply(500)]) as server:
        await cancel(make(server, retrying=Retrier(wait=wait)))


@both
async def test_fifty_streams_at_once_do_not_mix(make: Make) -> None:
    def echo(asked: ModelServerRequest) -> ModelReply:
        number = _last_text(asked)
        call = ToolCall("c", "skill_load", json.dumps({"skill": number}))
        return ModelReply(ModelResponse(f"You said {number}. " * 20, (call,)), between=0.0005)

    async def ask(model: AnyModel, number: int) -> ModelResponse:
        request = ModelRequest([{"role": "user", "content": f"number {number}"}])
        last = [event async for event in model.stream(request)][-1]
        assert isinstance(last, ModelResponse)
        return last

    async def fifty(model: AnyModel) -> list[ModelResponse]:
        async with using(model):
            return await asyncio.gather(*(ask(model, number) for number in range(50)))

    with ModelServer(echo) as server:
        answers = await fifty(make(server))
    for number, found in enumerate(answers):
        assert found.text == f"You said number {number}. " * 20
        assert json.loads(found.calls[0].arguments) == {"skill": f"number {number}"}


@both
async def test_one_connection_serves_many_requests(make: Make) -> None:
    async def twice(model: AnyModel) -> None:
        async with using(model):
            for _ in range(3):
                await _all(model)

    with ModelServer(["one", "two", "three"]) as server:
        await twice(make(server))
        assert (len(server.requests), server.connections) == (3, 1)


@both
async def test_headers_and_fields_of_the_caller_are_sent(make: Make) -> None:
    with ModelServer(["Yes."]) as server:
        await answer(make(server, headers={"X-Team": "skills"}, extra={"service_tier": "auto"}))
    assert server.requests[0].headers["x-team"] == "skills"
    assert server.requests[0].body["service_tier"] == "auto"


@both
@pytest.mark.parametrize("url", ["localhost:8000", "ftp://models.example", "http://", "user:secret@host"])
def test_a_url_that_is_none_is_refused_without_what_is_secret_in_it(make: Make, url: str) -> None:
    kind: Callable[..., AnyModel] = type(make(_Nowhere()))
    with pytest.raises(InvalidArgument, match="base_url") as caught:
        kind("some-model", base_url=url, api_key=KEY)
    assert "secret" not in str(caught.value)


@both
@pytest.mark.parametrize("key", ["two words", "schlüssel", "line\nbreak"])
def test_a_key_that_cannot_be_one_is_refused_without_showing_it(make: Make, key: str) -> None:
    with pytest.raises(Unauthorized, match="copy it again") as caught:
        make(_Nowhere(), api_key=key)
    assert key not in str(caught.value)


@both
async def test_a_server_of_ones_own_needs_no_key(make: Make) -> None:
    with ModelServer(["Yes."]) as server:
        assert (await answer(make(server, api_key=None))).text == "Yes."


class _Nowhere(ModelServer):
    """A server that is not started, for models that ask nothing."""

    def __init__(self) -> None:
        super().__init__([])


async def _all(model: AnyModel) -> None:
    async for _ in model.stream(HELLO):
        pass


def _last_text(asked: ModelServerRequest) -> str:
    content = asked.body["messages"][-1]["content"]
    return content if isinstance(content, str) else content[-1]["text"]
