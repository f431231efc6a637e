"""Skills that want a sub-agent of their own: `context: fork` in their front matter."""

import json
from dataclasses import replace

from openskills.agent.agent import Agent
from openskills.agent.model import ToolCall
from openskills.errors import UnknownSkill
from openskills.runtime.session import SkillSession
from openskills.tools.profiles import LOAD

FORK = "fork"


def wanted(session: SkillSession, call: ToolCall) -> str | None:
    """The skill of a call that loads one which wants to be worked on elsewhere; None for every other call."""
    if call.name != LOAD:
        return None
    try:
        found: object = json.loads(call.arguments)["skill"]
    except (ValueError, KeyError, TypeError, RecursionError):
        # What is wrong with it is for the tool to say.
        return None
    if not isinstance(found, str):
        return None
    try:
        skill = session.skill(found)
    except UnknownSkill:
        return None
    return skill.name if skill.manifest.context == FORK else None


def forked(agent: Agent, skill: str) -> Agent:
    """The agent that works on a task with this skill: the same model, nothing else loaded, no sub-agents."""
    return replace(agent, name=f"{agent.name}.{skill}", sub_agents=(), tools=())
