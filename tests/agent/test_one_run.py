"""What a caller may choose for one run: skills, executor, variables, what is kept, what is loaded."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from openskills.agent.agent import Agent
from openskills.agent.models.model import ModelResponse
from openskills.agent.runner import Runner
from openskills.agent.subagent import Load
from openskills.errors import UnknownSkill
from openskills.project import SkillGrants
from openskills.runtime.options import SessionOptions
from openskills.session.memory import MemorySessionStore
from openskills.testing.fake_executor import FakeExecutor, FakeRun
from openskills.testing.models import ScriptedModel
from tests.agent.agents import agent_in, calling, heard, skills_for_agents
from tests.runtime.talking import runtime_in
from tests.skill_writer import skill_writer

ALPHA = calling(("skill_load", {"skill": "alpha"}))


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return skills_for_agents(tmp_path)


def running(command: str, **more: Any) -> ModelResponse:
    return calling(("skill_run", {"skill": "alpha", "command": command, **more}))


def result(model: ScriptedModel) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(str(model.requests[-1].messages[-1]["content"]))
    return found


async def test_variables_of_one_run_are_for_the_commands_of_that_run(place: Path) -> None:
    answers = [ALPHA, running("echo hello $WHO"), ModelResponse("ok")]
    agent, model = agent_in(place, [*answers, *answers], executor="local")

    async with agent.runtime:
        said: list[str] = []
        for options in (SessionOptions(grants={"*": SkillGrants(environment={"WHO": "ada"})}), None):
            await heard(agent, options=options)
            said.append(result(model)["stdout"])
        found = said

    assert found == ["hello ada\n", "hello\n"]


async def test_artifacts_that_are_forced_are_kept_although_the_model_did_not_ask(place: Path) -> None:
    answers = [ALPHA, running("echo 1 > out/a.txt"), ModelResponse("ok")]
    agent, _ = agent_in(place, [*answers, *answers], executor="local")

    async with agent.runtime:
        kept: list[list[str]] = []
        for options in (None, SessionOptions(force_save=True)):
            events = await heard(agent, options=options)
            kept.append([event.payload["ref"] for event in events if event.kind == "artifact"])
        result = kept

    assert result == [[], ["artifact://out/a.txt@0"]]


async def test_another_executor_is_for_one_run_in_the_same_conversation(place: Path) -> None:
    store = MemorySessionStore()
    answers = [ALPHA, running("echo here"), ModelResponse("ok")]
    agent, model = agent_in(place, [*answers, *answers], executor="local", store=store)

    fake = FakeExecutor({"echo here": FakeRun(b"elsewhere\n")})

    async with agent.runtime, runtime_in(place, executor=fake, store=store) as other:
        where: list[str] = []
        for runtime in (None, other):
            await heard(agent, runtime=runtime)
            where.append(str(model.requests[-1].messages[-1]["content"]))
        first, second = where

    assert json.loads(first)["isolation"] == "none"
    assert json.loads(first)["stdout"] == "here\n"
    assert json.loads(second)["stdout"] == "elsewhere\n"
    said = [message["content"] for message in model.requests[-1].messages if message["role"] == "user"]
    assert said == ["hello", "hello"]


async def test_the_rules_choose_from_the_skills_of_the_run(
    place: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    skill_writer(elsewhere, "skills")("gamma", "Counts pebbles. Use when the user has pebbles.", body="BODY OF gamma")

    async with runtime_in(place) as mine, runtime_in(elsewhere) as other:
        agent = Agent("assistant", "rule", mine)
        chief = Agent("chief", ScriptedModel([calling(("assistant", {"task": "$gamma"})), ModelResponse("ok")]), mine)
        chief = Agent("chief", chief.model, mine, sub_agents=[agent])
        runs = [
            await heard(agent, "$gamma", runtime=None),
            await heard(agent, "$gamma", runtime=other),
            await heard(agent, "$alpha", runtime=other),
            await heard(agent, "$alpha", runtime=None),
            await heard(chief, "go", session="t", runtime=other),
        ]
        result = [
            [event.payload["content"].split("\n")[0] for event in events if event.payload.get("tool") == "skill_load"]
            for events in [[one for one in events if one.kind == "tool.response"] for events in runs]
        ]

    assert result == [[], ["loaded: gamma"], [], ["loaded: alpha"], ["loaded: gamma"]]


async def test_declared_loads_come_with_documents_and_do_not_stay(place: Path) -> None:
    agent, model = agent_in(place, [ModelResponse("ok")] * 3)

    await heard(agent, loads=[Load("alpha", include_all_docs=True), Load("beta", ("guide.md",))])
    with pytest.raises(UnknownSkill, match="did you mean"):
        await heard(agent, loads=[Load("alpha"), Load("betaa")])
    await heard(agent, "two")

    first, second = (str(request.messages) for request in model.requests)
    assert [text in first for text in ("BODY OF alpha", "GUIDE OF alpha", "GUIDE OF beta")] == [True] * 3
    assert "BODY OF" not in second


async def test_runs_of_one_runner_come_one_after_the_other_whatever_their_runtime(place: Path) -> None:
    store = MemorySessionStore()
    order: list[str] = []

    async def slow(_: object) -> ModelResponse:
        order.append("begins")
        await asyncio.sleep(0.01)
        order.append("ends")
        return ModelResponse("ok")

    async with runtime_in(place, store=store) as mine, runtime_in(place, store=store) as other:
        runner = Runner("app", Agent("assistant", ScriptedModel([slow, slow, slow]), mine))
        await asyncio.gather(
            *(runner.reply(user="u", session="s", message="x", runtime=runtime) for runtime in (None, other, mine))
        )

    assert order == ["begins", "ends"] * 3
