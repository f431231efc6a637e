"""The model of tests says what it was told, and remembers what it was asked."""

from contextlib import aclosing

import pytest

from openskills.agent.models.model import Model, ModelEvent, ModelRequest, ModelResponse, TextDelta, ToolCall, Usage
from openskills.errors import ModelUnavailable
from openskills.testing.models import ScriptedModel, call_tools

HELLO = ModelRequest([{"role": "user", "content": "Hello"}])


async def heard(model: ScriptedModel, request: ModelRequest = HELLO) -> list[ModelEvent]:
    return [event async for event in model.stream(request)]


def test_it_is_a_model() -> None:
    model: Model = ScriptedModel([], name="mine")
    assert model.name == "mine"


async def test_lines_are_said_in_order_and_in_pieces() -> None:
    model = ScriptedModel(["Hello you", ModelResponse("Bye", usage=Usage(3, 1), model="other")], piece=4)
    assert await heard(model) == [
        TextDelta("Hell"),
        TextDelta("o yo"),
        TextDelta("u"),
        ModelResponse("Hello you", model="scripted"),
    ]
    assert await heard(model) == [TextDelta("Bye"), ModelResponse("Bye", usage=Usage(3, 1), model="other")]


async def test_a_function_sees_the_request_and_may_be_async() -> None:
    async def later(request: ModelRequest) -> str:
        return f"{len(request.messages)} messages"

    model = ScriptedModel([lambda request: ModelResponse(request.messages[0]["content"]), later])
    assert [(await heard(model))[-1], (await heard(model))[-1]] == [
        ModelResponse("Hello", model="scripted"),
        ModelResponse("1 messages", model="scripted"),
    ]


async def test_an_error_is_raised_in_its_turn() -> None:
    model = ScriptedModel([ModelUnavailable("busy"), lambda _: ModelUnavailable("still busy"), "Here I am."])
    for message in ("busy", "still busy"):
        with pytest.raises(ModelUnavailable, match=f"^{message}$"):
            await heard(model)
    assert (await heard(model))[-1] == ModelResponse("Here I am.", model="scripted")


async def test_calls_have_ids_of_their_own() -> None:
    (answer,) = await heard(
        ScriptedModel([call_tools(("skill_load", {"skill": "表"}), ("skill_load", {"skill": "b"}))])
    )
    assert answer == ModelResponse(
        "",
        (ToolCall("call", "skill_load", '{"skill": "表"}'), ToolCall("call-2", "skill_load", '{"skill": "b"}')),
        stop="tool_calls",
        model="scripted",
    )


async def test_calls_of_a_later_answer_have_other_ids() -> None:
    model = ScriptedModel([call_tools(("a", {})), ModelResponse(calls=(ToolCall("", "b", "{}"),))])
    first = (await heard(model))[-1]
    assert isinstance(first, ModelResponse)
    second = (await heard(model, ModelRequest([first.to_message()])))[-1]
    assert isinstance(second, ModelResponse)
    assert (second.calls[0].id, second.stop) == ("call-2", "tool_calls")


async def test_requests_are_remembered_as_they_were() -> None:
    messages = [{"role": "user", "content": "Hello"}]
    model = ScriptedModel(["a", "b"])
    await heard(model, ModelRequest(messages))
    messages.append({"role": "user", "content": "More"})
    await heard(model, ModelRequest(messages))
    assert [len(request.messages) for request in model.requests] == [1, 2]


async def test_a_request_that_was_not_expected_is_a_failed_test() -> None:
    with pytest.raises(AssertionError, match="request 1 came, and the script has no answer to it"):
        await heard(ScriptedModel([]))


async def test_a_stream_can_be_left_and_a_model_closed() -> None:
    model = ScriptedModel(["Hello you", "Next"])

    async with aclosing(model.stream(HELLO)) as events:
        assert await anext(events) == TextDelta("Hello yo")
    await model.close()

    assert model.closed
    assert (await heard(model))[-1] == ModelResponse("Next", model="scripted")
