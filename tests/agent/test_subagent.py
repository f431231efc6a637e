"""Agents as tools.

Loads that a caller declares.
"""

from dataclasses import replace
from pathlib import Path

import pytest

from openskills.agent.agent import Agent
from openskills.agent.models.model import ModelResponse
from openskills.agent.subagent import Load, check_loads
from openskills.errors import ExecutorUnavailable, InvalidArgument, ModelUnavailable
from openskills.executors.open import open_executor
from openskills.executors.requests import RunRequest
from openskills.runtime.runtime import SkillRuntime
from openskills.session.memory import MemorySessionStore
from openskills.sync import run
from openskills.testing.models import ScriptedModel
from tests.agent.agents import agent_in, calling, heard, skills_for_agents
from tests.runtime.talking import runtime_in
from tests.tools.contexts import settings_in, write_skill


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return skills_for_agents(tmp_path)


def test_a_sub_agent_has_its_own_skills_and_gives_an_answer(place: Path) -> None:
    helper = ScriptedModel([calling(("skill_load", {"skill": "beta"})), ModelResponse("found it")])
    chief, model = agent_in(
        place,
        [
            calling(("skill_load", {"skill": "alpha"})),
            calling(("helper", {"task": "look it up"})),
            ModelResponse("done"),
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


async def test_a_task_is_needed_and_a_failure_is_a_result(place: Path) -> None:
    helper = ScriptedModel([ModelUnavailable("gone")])
    chief, model = agent_in(place, [calling(("helper", {})), calling(("helper", {"task": "x"})), ModelResponse("ok")])
    chief = Agent("chief", model, chief.runtime, sub_agents=[Agent("helper", helper, chief.runtime)])
    await heard(chief)
    results = [str(message["content"]) for message in model.requests[-1].messages if message["role"] == "tool"]
    assert "task: required" in results[0]
    assert results[1].startswith("error: ")


async def test_a_skill_that_wants_a_fork_is_worked_on_in_one(place: Path) -> None:
    folder = write_skill(place, "forky")
    (folder / "SKILL.md").write_text("---\nname: forky\ndescription: F.\ncontext: fork\n---\nBODY OF forky\n")
    agent, model = agent_in(
        place, [calling(("skill_load", {"skill": "forky"})), ModelResponse("the fork's answer"), ModelResponse("done")]
    )
    events = await heard(agent, "do the thing")
    assert events[-1].payload["text"] == "done"
    inner, outer = model.requests[1], model.requests[2]
    assert "BODY OF forky" in str(inner.messages)
    assert "do the thing" in str(inner.messages)
    assert "BODY OF forky" not in str(outer.messages)
    assert "the fork's answer" in str(outer.messages)


async def test_the_task_of_a_fork_is_what_the_user_wants_also_after_code_has_run(place: Path) -> None:
    folder = write_skill(place, "forky")
    (folder / "SKILL.md").write_text("---\nname: forky\ndescription: F.\ncontext: fork\n---\nBODY OF forky\n")
    answers = [
        ModelResponse("```sh\necho 42\n```"),
        calling(("skill_load", {"skill": "forky"})),
        ModelResponse("the fork's answer"),
        ModelResponse("done"),
    ]
    agent, model = agent_in(place, answers, executor="local", code_blocks=True)
    await heard(agent, "do the thing")
    await agent.runtime.close()
    inner = [message["content"] for message in model.requests[2].messages if message["role"] == "user"]
    assert inner == ["do the thing"]


async def test_a_skill_that_wants_a_fork_gets_one_from_a_sub_agent_too(place: Path) -> None:
    folder = write_skill(place, "forky")
    (folder / "SKILL.md").write_text("---\nname: forky\ndescription: F.\ncontext: fork\n---\nBODY OF forky\n")
    answers = [
        calling(("skill_load", {"skill": "forky"})),
        ModelResponse("from the fork"),
        ModelResponse("from the helper"),
    ]
    inner = ScriptedModel(answers)
    chief, outer = agent_in(place, [calling(("helper", {"task": "its task"})), ModelResponse("done")])
    helper = Agent("helper", inner, chief.runtime)
    events = await heard(replace(chief, sub_agents=[helper]))
    assert outer.requests[-1].messages[-1]["content"] == "from the helper"
    assert [one["content"] for one in inner.requests[1].messages if one["role"] == "user"] == ["its task"]
    assert "BODY OF forky" not in str(inner.requests[2].messages)
    assert {event.author for event in events} == {"user", "assistant", "helper", "helper.forky"}


async def test_what_a_sub_agent_with_a_runtime_of_its_own_does_is_heard_once(place: Path) -> None:
    other = runtime_in(place, store=MemorySessionStore())
    chief, _ = agent_in(place, [calling(("helper", {"task": "x"})), ModelResponse("done")])
    low = Agent("low", ScriptedModel([ModelResponse("deep")]), chief.runtime)
    helper = Agent(
        "helper", ScriptedModel([calling(("low", {"task": "y"})), ModelResponse("ok")]), other, sub_agents=[low]
    )
    events = await heard(replace(chief, sub_agents=[helper]))
    ends = [(event.author, event.payload["text"]) for event in events if event.kind == "end"]
    assert ends == [("low", "deep"), ("helper", "ok"), ("assistant", "done")]
    assert len({event.id for event in events}) == len(events)


@pytest.mark.parametrize("kind", ["own executor", "same executor", "with_catalog"])
async def test_a_sub_agent_with_other_skills_works_in_the_workspace_of_its_parent(place: Path, kind: str) -> None:
    def running(command: str) -> ModelResponse:
        return calling(("skill_run", {"skill": "alpha", "command": command}))

    load = calling(("skill_load", {"skill": "alpha"}))
    executor = open_executor("local", settings_in(place))
    script = [load, running("echo from chief > $WORK_DIR/a.txt"), calling(("helper", {"task": "x"}))]
    script += [running("cat $WORK_DIR/a.txt $WORK_DIR/b.txt"), ModelResponse("done")]
    runtime = runtime_in(place, executor=executor)
    others = {
        "own executor": lambda: SkillRuntime(runtime.catalog, "local", settings=runtime.settings),
        "same executor": lambda: SkillRuntime(runtime.catalog, executor, settings=runtime.settings),
        "with_catalog": lambda: runtime.with_catalog(runtime.catalog),
    }
    other = others[kind]()
    helper = Agent(
        "helper",
        ScriptedModel([load, running("cat $WORK_DIR/a.txt; echo from helper > $WORK_DIR/b.txt"), ModelResponse("ok")]),
        other,
    )
    events = await heard(Agent("chief", ScriptedModel(script), runtime, sub_agents=[helper]))
    await other.close()
    await runtime.close()
    await executor.close()
    ran = [
        str(one.payload["content"])
        for one in events
        if one.payload.get("tool") == "skill_run" and "content" in one.payload
    ]
    assert [event.payload for event in events if event.payload.get("failed")] == []
    assert "from chief" in ran[1]
    assert "from helper" in ran[2]


async def test_runtimes_that_share_an_executor_close_a_workspace_after_its_last_user(place: Path) -> None:
    executor = open_executor("local", settings_in(place))
    first, second = (runtime_in(place, executor=executor) for _ in range(2))
    command = RunRequest(("true",))
    async with first.session("s") as one:
        async with second.session("s") as two:
            assert (await (await two.open_runner()).run(command)).exit_code == 0
            assert (await (await one.open_runner()).run(command)).exit_code == 0
        assert (await (await one.open_runner()).run(command)).exit_code == 0
        workspace = (await one.open_runner()).workspace
    with pytest.raises(ExecutorUnavailable, match="closed"):
        await workspace.mark()
    await executor.close()


def test_the_same_load_counts_once() -> None:
    assert check_loads([Load("a"), Load("a"), Load("b")], 0) == (Load("a"), Load("b"))


@pytest.mark.parametrize(
    ("loads", "said"),
    [
        ([Load(" ")], "name of a skill is empty"),
        ([Load("a", ("x.md",), include_all_docs=True)], "either docs or include_all_docs"),
        ([Load("a"), Load("a", ("x.md",))], "twice"),
        ([Load("a"), Load("b"), Load("c")], "at most 2"),
    ],
)
def test_what_contradicts_itself_is_refused(loads: list[Load], said: str) -> None:
    with pytest.raises(InvalidArgument, match=said):
        check_loads(loads, 2)
