"""What becomes of a response, and of a request on its way through upstream's hook."""

from typing import Any

from langchain.agents.middleware.types import ExtendedModelResponse, ModelRequest, ModelResponse
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.types import Command

from openskills.adapters.langchain.model_call import ModelCallContext, ReadFileView
from tests.adapters.langchain.scripted import Scripted


def call(**update: Any) -> ModelCallContext:
    request: ModelRequest[Any] = ModelRequest(
        model=Scripted(script=[]), messages=[HumanMessage("x")], state={"messages": []}
    )
    return ModelCallContext(request, ReadFileView(request.messages, []), request.state, update)


def test_a_response_is_passed_on_when_nothing_changes() -> None:
    response = ModelResponse[Any](result=[AIMessage("x")])
    assert call().build_response(response) is response


def test_our_changes_stand_beside_those_of_upstream() -> None:
    response = ModelResponse[Any](result=[AIMessage("x")])
    theirs: Any = Command(update={"_skill_tools_disclosed": {}})
    merged = call(skills_loaded={"unload": ["a"]}).build_response(ExtendedModelResponse(response, theirs))
    assert merged.model_response is response
    assert merged.command.update == {"_skill_tools_disclosed": {}, "skills_loaded": {"unload": ["a"]}}


def test_our_changes_go_with_a_plain_response() -> None:
    response = ModelResponse[Any](result=[AIMessage("x")])
    extended = call(skills_metadata=[]).build_response(response)
    assert (extended.model_response, extended.command.update) == (response, {"skills_metadata": []})


def test_the_state_of_the_thread_is_what_the_next_middleware_sees() -> None:
    made = call()
    changed: Any = {"messages": [], "openskills_rendered": True}
    assert made.restore_request(made.upstream_request.override(state=changed)).state is made.state
