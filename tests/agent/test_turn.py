"""One turn, seen from its runner."""

import json
from pathlib import Path

import pytest

from openskills.agent.agent import RunLimits
from openskills.agent.model import Answer, ToolCall, Usage
from openskills.sync import run
from tests.agent.agents import agent_in, calling, heard, kinds, skills_for_agents


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return skills_for_agents(tmp_path)


def test_the_model_is_asked_until_it_has_an_answer(place: Path) -> None:
    agent, model = agent_in(place, [calling(("skill_load", {"skill": "alpha"})), Answer("done", usage=Usage(5, 2, 1))])
    events = run(heard(agent))
    assert kinds(events)[-1] == "end"
    assert events[-1].payload["text"] == "done"
    assert events[-1].payload["usage"] == {"input": 5, "output": 2, "cached": 1}
    assert events[-1].payload["steps"] == 2
    last = model.requests[-1].messages
    assert "BODY OF alpha" in str(last[-1]["content"])
    assert model.requests[0].tools[0]["function"]["name"] == "skill_load"


def test_text_comes_as_it_is_made_and_is_stored_once(place: Path) -> None:
    agent, _ = agent_in(place, [Answer("a longer answer")])
    events = run(heard(agent))
    deltas = [event.payload["text"] for event in events if event.kind == "assistant.delta"]
    assert "".join(deltas) == "a longer answer"
    assert all(event.seq == 0 for event in events if event.kind == "assistant.delta")
    assert [event.seq for event in events if event.seq] == list(range(1, len([e for e in events if e.seq]) + 1))


def test_calls_of_one_answer_keep_their_order_and_their_deltas_merge(place: Path) -> None:
    both = calling(("skill_load", {"skill": "alpha"}), ("skill_load", {"skill": "beta"}))
    agent, model = agent_in(place, [both, Answer("ok")])
    events = run(heard(agent))
    results = [message for message in model.requests[-1].messages if message["role"] == "tool"]
    assert [str(result["content"]).split("\n")[0] for result in results] == ["loaded: alpha", "loaded: beta"]
    deltas = [dict(event.delta) for event in events if event.kind == "tool.response"]
    assert any("temp:skill:loaded_by_agent:assistant/alpha" in delta for delta in deltas)
    assert any("temp:skill:loaded_by_agent:assistant/beta" in delta for delta in deltas)


def test_what_the_model_gets_wrong_comes_back_to_it(place: Path) -> None:
    wrong = Answer("", (ToolCall("a", "no_such_tool", "{}"), ToolCall("b", "skill_load", "{not json")))
    agent, model = agent_in(place, [wrong, Answer("sorry")])
    events = run(heard(agent))
    assert kinds(events)[-1] == "end"
    results = [str(message["content"]) for message in model.requests[-1].messages if message["role"] == "tool"]
    assert all(text.startswith("error: ") for text in results)


def test_ids_that_a_server_uses_again_are_made_different(place: Path) -> None:
    same = calling(("skill_list_docs", {"skill": "alpha"}))
    agent, model = agent_in(place, [same, same, Answer("ok")])
    run(heard(agent))
    ids = [message["tool_call_id"] for message in model.requests[-1].messages if message["role"] == "tool"]
    assert len(set(ids)) == 2


@pytest.mark.parametrize(
    ("limits", "said"), [(RunLimits(steps=2), "2 steps"), (RunLimits(tool_calls=2), "2 tool calls")]
)
def test_a_model_that_never_ends_is_ended(place: Path, limits: RunLimits, said: str) -> None:
    again = calling(("skill_list_docs", {"skill": "alpha"}))
    agent, _ = agent_in(place, [again] * 5, limits=limits)
    events = run(heard(agent))
    assert events[-1].kind == "error"
    assert events[-1].payload["reason"] == "LIMIT_EXCEEDED"
    assert said in events[-1].payload["message"]


def test_the_instructions_come_first_and_are_not_stored(place: Path) -> None:
    agent, model = agent_in(place, [Answer("ok")], instructions="Be kind.")
    events = run(heard(agent))
    assert str(model.requests[0].messages[0]["content"]).startswith("Be kind.\n\nAvailable skills:")
    assert "Be kind" not in json.dumps([dict(event.payload) for event in events], default=str)
