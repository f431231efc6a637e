"""The requests of one run, whoever makes them."""

from dataclasses import replace
from pathlib import Path

import pytest

from openskills.agent.agent import Agent, RunLimits
from openskills.agent.callbacks import Callbacks
from openskills.agent.model import Answer, ModelRequest
from openskills.agent.model_calls import ModelCalls
from openskills.errors import InvalidArgument, LimitExceeded
from openskills.sync import run
from openskills.testing import ScriptedModel
from tests.agent.agents import agent_in, calling, heard, skills_for_agents

LOOK = calling(("skill_list_docs", {"skill": "alpha"}))


def test_so_many_are_allowed_and_not_one_more() -> None:
    calls = ModelCalls(2)
    calls.one_more()
    calls.one_more()
    with pytest.raises(LimitExceeded, match="more than 2 model calls"):
        calls.one_more()
    with pytest.raises(InvalidArgument, match="model_calls"):
        RunLimits(model_calls=0)


def test_those_of_sub_agents_count_for_the_run_and_the_next_run_begins_anew(tmp_path: Path) -> None:
    skills_for_agents(tmp_path)
    chief, model = agent_in(tmp_path, [calling(("helper", {"task": "x"})), Answer("never"), Answer("again")])
    helper = Agent("helper", ScriptedModel([LOOK, LOOK, LOOK, Answer("deep")]), chief.runtime)
    chief = replace(chief, sub_agents=[helper], limits=RunLimits(model_calls=4))

    async def go() -> None:
        events = await heard(chief)
        assert [(event.author, event.payload["reason"]) for event in events if event.kind == "error"] == [
            ("helper", "LIMIT_EXCEEDED"),
            ("assistant", "LIMIT_EXCEEDED"),
        ]
        assert (await heard(chief, "two"))[-1].kind == "end"

    run(go())
    assert len(model.requests) == 2


def test_what_a_callback_answers_is_no_call(tmp_path: Path) -> None:
    async def cached(agent: str, request: ModelRequest) -> Answer | None:
        return LOOK if sum(message["role"] == "tool" for message in request.messages) < 3 else None

    skills_for_agents(tmp_path)
    agent, _ = agent_in(
        tmp_path,
        [Answer("done")],
        callbacks=Callbacks(before_model=cached),
        limits=RunLimits(model_calls=1),
    )
    assert run(heard(agent))[-1].payload["text"] == "done"
