"""Agents that make sense."""

from pathlib import Path
from typing import Any, cast

import pytest

from openskills.agent.agent import Agent, RunLimits
from openskills.agent.extra_tool import ExtraTool
from openskills.errors import InvalidArgument
from openskills.testing import ScriptedModel
from tests.agent.agents import skills_for_agents
from tests.runtime.talking import runtime_in


async def nothing(_: object) -> str:
    return ""


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"name": ""}, "name"),
        ({"history_turns": 0}, "history_turns"),
        ({"tools": [ExtraTool("x", "", nothing), ExtraTool("x", "", nothing)]}, "two are named 'x'"),
        ({"tools": [ExtraTool("skill_load", "", nothing)]}, "two are named 'skill_load'"),
        ({"model": "nobody/knows"}, "model"),
    ],
)
def test_what_makes_no_sense_is_refused_with_the_field(tmp_path: Path, given: dict[str, Any], said: str) -> None:
    runtime = runtime_in(skills_for_agents(tmp_path))
    with pytest.raises(InvalidArgument, match=said):
        Agent(**cast("Any", {"name": "a", "model": ScriptedModel([]), "runtime": runtime, **given}))


def test_limits_are_at_least_one() -> None:
    with pytest.raises(InvalidArgument, match=r"limits\.steps"):
        RunLimits(steps=0)
