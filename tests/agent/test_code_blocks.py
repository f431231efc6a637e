"""Code in answers."""

from pathlib import Path

from openskills.agent.code_blocks import blocks
from openskills.agent.model import Answer
from openskills.sync import run
from tests.agent.agents import agent_in, heard, skills_for_agents

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
