"""Code in answers."""

from dataclasses import replace
from pathlib import Path

from openskills.agent.agent import Agent
from openskills.agent.code_blocks import blocks
from openskills.agent.model import Answer
from openskills.executors.spec import Limits
from openskills.runtime.options import SessionOptions
from openskills.sync import run
from openskills.testing import ScriptedModel
from tests.agent.agents import agent_in, calling, heard, skills_for_agents

CODE = "Let me see.\n\n```python\nprint(6 * 7)\n```\n"


def test_only_blocks_that_can_be_run_count() -> None:
    text = f"{CODE}\n```json\n{{}}\n```\n\n```sh title=x\nls\n```\n```\nplain\n```\n"
    assert blocks(text) == [("python3", "print(6 * 7)\n"), ("sh", "ls\n")]
    assert blocks("```python\nnot closed") == []
    assert blocks("```python\n" + "``` x\n" * 50_000) == []


def test_they_are_run_only_for_agents_that_ask_for_it(tmp_path: Path) -> None:
    skills_for_agents(tmp_path)
    agent, model = agent_in(tmp_path, [Answer(CODE)], executor="local")
    run(heard(agent))
    assert len(model.requests) == 1
    asking, model = agent_in(tmp_path, [Answer(CODE), Answer("It is 42.")], executor="local", code_blocks=True)
    events = run(heard(asking, session="other"))
    assert "exit code 0\n42" in str(model.requests[-1].messages[-1]["content"])
    assert events[-1].payload["text"] == "It is 42."


def test_where_the_model_may_not_run_commands_its_blocks_are_not_run_either(tmp_path: Path) -> None:
    skills_for_agents(tmp_path)
    asking, model = agent_in(
        tmp_path, [Answer(CODE)], executor="local", code_blocks=True, options=SessionOptions(profile="knowledge_only")
    )
    assert run(heard(asking))[-1].payload["text"] == CODE
    without, model = agent_in(tmp_path, [Answer(CODE)], code_blocks=True)
    assert run(heard(without))[-1].kind == "end"
    assert len(model.requests) == 1


def test_a_sub_agent_follows_its_own_setting(tmp_path: Path) -> None:
    skills_for_agents(tmp_path)
    asked = calling(("helper", {"task": "compute"}))
    chief, outer = agent_in(tmp_path, [asked, Answer(CODE), asked, Answer("x")], executor="local")
    inner = ScriptedModel([Answer(CODE), Answer("It is 42."), Answer(CODE)])
    for runs in (True, False):
        helper = Agent("helper", inner, chief.runtime, code_blocks=runs)
        run(heard(replace(chief, sub_agents=[helper]), session=f"s{runs}"))
    results = [request.messages[-1]["content"] for request in outer.requests if request.messages[-1]["role"] == "tool"]
    assert results == ["It is 42.", CODE]
    assert "exit code 0\n42" in str(inner.requests[1].messages[-1]["content"])
    assert len(outer.requests) == 4


def test_code_has_the_variables_and_the_limits_of_its_run(tmp_path: Path) -> None:
    skills_for_agents(tmp_path)
    code = "```sh\necho hello $WHO; head -c 99999 /dev/zero | tr '\\0' x > big.txt\n```"
    asking, model = agent_in(tmp_path, [Answer(code), Answer("ok")], executor="local", code_blocks=True)
    run(heard(asking, options=SessionOptions(environment={"WHO": "ada"}, limits=Limits(file_bytes=1000))))
    told = str(model.requests[-1].messages[-1]["content"])
    assert "hello ada" in told
    assert "exit code 0" not in told
