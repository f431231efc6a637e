"""Agents as tools."""

from pathlib import Path

import pytest

from openskills.agent.agent import Agent
from openskills.agent.model import Answer
from openskills.errors import ModelUnavailable
from openskills.sync import run
from openskills.testing import ScriptedModel
from tests.agent.agents import agent_in, calling, heard, skills_for_agents
from tests.tools.contexts import write_skill


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return skills_for_agents(tmp_path)


def test_a_sub_agent_has_its_own_skills_and_gives_an_answer(place: Path) -> None:
    helper = ScriptedModel([calling(("skill_load", {"skill": "beta"})), Answer("found it")])
    chief, model = agent_in(
        place,
        [
            calling(("skill_load", {"skill": "alpha"})),
            calling(("helper", {"task": "look it up"})),
            Answer("done"),
        ],
    )
    chief = Agent(
        "chief", model, chief.runtime, sub_agents=[Agent("helper", helper, chief.runtime, description="Looks up.")]
    )
    events = run(heard(chief))
    assert events[-1].payload["text"] == "done"
    last = str(model.requests[-1].messages)
    assert "found it" in last
    assert "BODY OF alpha" in last
    assert "BODY OF beta" not in last
    seen = str(helper.requests[-1].messages)
    assert "BODY OF beta" in seen
    assert "BODY OF alpha" not in seen
    assert "look it up" in seen
    assert "hello" not in seen


def test_a_task_is_needed_and_a_failure_is_a_result(place: Path) -> None:
    helper = ScriptedModel([ModelUnavailable("gone")])
    chief, model = agent_in(place, [calling(("helper", {})), calling(("helper", {"task": "x"})), Answer("ok")])
    chief = Agent("chief", model, chief.runtime, sub_agents=[Agent("helper", helper, chief.runtime)])
    run(heard(chief))
    results = [str(message["content"]) for message in model.requests[-1].messages if message["role"] == "tool"]
    assert "task: is missing" in results[0]
    assert results[1].startswith("error: ")


def test_a_skill_that_wants_a_fork_is_worked_on_in_one(place: Path) -> None:
    folder = write_skill(place, "forky")
    (folder / "SKILL.md").write_text("---\nname: forky\ndescription: F.\ncontext: fork\n---\nBODY OF forky\n")
    agent, model = agent_in(
        place, [calling(("skill_load", {"skill": "forky"})), Answer("the fork's answer"), Answer("done")]
    )
    events = run(heard(agent, "do the thing"))
    assert events[-1].payload["text"] == "done"
    inner, outer = model.requests[1], model.requests[2]
    assert "BODY OF forky" in str(inner.messages)
    assert "do the thing" in str(inner.messages)
    assert "BODY OF forky" not in str(outer.messages)
    assert "the fork's answer" in str(outer.messages)
