"""Functions that see and change what happens."""

from dataclasses import replace
from pathlib import Path

import pytest

from openskills.agent.callbacks import Callbacks
from openskills.agent.log import transcript, unanswered
from openskills.agent.model import Answer, ModelRequest, ToolCall
from openskills.errors import CommandDenied
from openskills.sync import run
from openskills.tools.result import ToolResult
from tests.agent.agents import agent_in, calling, heard, skills_for_agents


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return skills_for_agents(tmp_path)


def test_each_is_called_at_its_time_and_may_change_what_happens(place: Path) -> None:
    seen: list[str] = []

    async def before_run(agent: str, message: str) -> str:
        seen.append(f"before run of {agent}")
        return message.upper()

    async def before_model(agent: str, request: ModelRequest) -> ModelRequest:
        seen.append("before model")
        return replace(request, temperature=0.0)

    async def after_model(agent: str, answer: Answer) -> Answer | None:
        seen.append("after model")
        return replace(answer, text="changed") if answer.text else None

    async def before_tool(agent: str, call: ToolCall) -> ToolResult | None:
        seen.append(f"before {call.name}")
        return ToolResult("not today") if call.name == "skill_list_docs" else None

    async def after_tool(agent: str, call: ToolCall, result: ToolResult) -> ToolResult:
        seen.append(f"after {call.name}")
        return replace(result, text=f"{result.text}!")

    async def after_run(agent: str, text: str) -> None:
        seen.append(f"after run: {text}")

    hooks = Callbacks(before_model, after_model, before_tool, after_tool, before_run, after_run)
    agent, model = agent_in(place, [calling(("skill_list_docs", {"skill": "alpha"})), Answer("x")], callbacks=hooks)
    events = run(heard(agent))
    assert seen == [
        "before run of assistant",
        "before model",
        "after model",
        "before skill_list_docs",
        "after skill_list_docs",
        "before model",
        "after model",
        "after run: changed",
    ]
    assert model.requests[0].temperature == 0.0
    assert model.requests[-1].messages[-1]["content"] == "not today!"
    assert events[0].payload["message"]["content"] == "HELLO"


def test_an_answer_can_be_given_without_a_model(place: Path) -> None:
    async def before_model(agent: str, request: ModelRequest) -> Answer:
        return Answer("from the cache")

    agent, model = agent_in(place, [], callbacks=Callbacks(before_model=before_model))
    assert run(heard(agent))[-1].payload["text"] == "from the cache"
    assert model.requests == []


def test_what_one_raises_ends_the_run(place: Path) -> None:
    async def before_tool(agent: str, call: ToolCall) -> ToolResult | None:
        raise CommandDenied("not here")

    agent, _ = agent_in(
        place, [calling(("skill_list_docs", {"skill": "alpha"}))], callbacks=Callbacks(before_tool=before_tool)
    )
    events = run(heard(agent))
    assert events[-1].payload["reason"] == "COMMAND_DENIED"


@pytest.mark.parametrize(("given", "sent"), [("", ""), (None, "hello")])
def test_an_empty_message_is_another_message_and_none_is_not(place: Path, given: str | None, sent: str) -> None:
    async def before_run(agent: str, message: str) -> str | None:
        return given

    agent, model = agent_in(place, [Answer("ok")], callbacks=Callbacks(before_run=before_run))
    run(heard(agent))
    assert model.requests[0].messages[-1]["content"] == sent


def test_an_answer_from_a_cache_with_ids_that_are_used_already_spoils_no_log(place: Path) -> None:
    cached = calling(("skill_list_docs", {"skill": "alpha"}), ("skill_list_docs", {"skill": "beta"}))
    twice = replace(cached, calls=(cached.calls[0], replace(cached.calls[1], id="c1")))
    given = [twice, twice]

    async def before_model(agent: str, request: ModelRequest) -> Answer | None:
        return given.pop(0) if given else None

    agent, model = agent_in(place, [Answer("done")], callbacks=Callbacks(before_model=before_model))
    events = run(heard(agent))
    ids = [event.payload["call_id"] for event in events if event.kind == "tool.call"]
    assert len(set(ids)) == 4
    assert unanswered(transcript(events, "assistant")) == []
    sent = [message for message in model.requests[0].messages if message["role"] != "system"]
    assert [message.get("tool_call_id") for message in sent] == [None, None, *ids[:2], None, *ids[2:]]
