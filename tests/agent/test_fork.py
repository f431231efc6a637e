"""Which loads want a sub-agent."""

from pathlib import Path

import pytest

from openskills.agent.fork import wanted
from openskills.agent.model import ToolCall
from openskills.sync import run
from tests.agent.agents import agent_in, skills_for_agents
from tests.tools.contexts import write_skill


@pytest.mark.parametrize(
    ("name", "arguments", "skill"),
    [
        ("skill_load", '{"skill": "forky"}', "forky"),
        ("skill_load", '{"skill": "alpha"}', None),
        ("skill_load", '{"skill": "none"}', None),
        ("skill_load", '{"skill": 3}', None),
        ("skill_load", "[]", None),
        ("skill_load", "{", None),
        ("skill_run", '{"skill": "forky"}', None),
    ],
)
def test_only_a_load_of_a_skill_that_says_so(tmp_path: Path, name: str, arguments: str, skill: str | None) -> None:
    skills_for_agents(tmp_path)
    folder = write_skill(tmp_path, "forky")
    (folder / "SKILL.md").write_text("---\nname: forky\ndescription: F.\ncontext: fork\n---\nX\n")
    agent, _ = agent_in(tmp_path, [])

    async def go() -> str | None:
        async with agent.runtime.session("s") as session:
            return wanted(session, ToolCall("c", name, arguments))

    assert run(go()) == skill
