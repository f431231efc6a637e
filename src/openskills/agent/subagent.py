"""Agents as tools of another: a task goes in, an answer comes out. They share the session, not what they loaded."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from openskills.agent.agent import Agent
from openskills.agent.calls import COST, Fork
from openskills.agent.declared import Load, declare
from openskills.agent.extra_tool import ExtraTool
from openskills.agent.fork import forked
from openskills.agent.log import END, ERROR, Message
from openskills.agent.turn import Turn
from openskills.errors import InvalidArgument, SkillError
from openskills.runtime.session import SkillSession
from openskills.session.events import MESSAGE, Event
from openskills.tools.result import ToolResult

_TASK = {
    "type": "object",
    "properties": {
        "task": {"type": "string", "description": "What to do, with everything that has to be known for it"}
    },
    "required": ["task"],
    "additionalProperties": False,
}


def as_tools(agent: Agent, session: SkillSession, emit: Callable[[Event], None]) -> list[ExtraTool]:
    """The sub-agents of an agent as tools of it. One at a time works under one name."""
    return [_as_tool(child, agent, session, emit, asyncio.Lock()) for child in agent.sub_agents]


def _as_tool(
    child: Agent, parent: Agent, session: SkillSession, emit: Callable[[Event], None], alone: asyncio.Lock
) -> ExtraTool:
    async def run(arguments: Mapping[str, Any]) -> ToolResult:
        task = arguments.get("task")
        if not isinstance(task, str) or not task.strip():
            raise InvalidArgument("task", "is missing; say what is to be done")
        async with alone:
            return await work(child, parent.name, session, task, emit)

    about = child.description or f"Give a task to the agent {child.name}. It does not see this conversation."
    return ExtraTool(child.name, about, run, _TASK)


def forking(agent: Agent, session: SkillSession, emit: Callable[[Event], None]) -> Fork:
    """What `Turn` does with a skill that wants a sub-agent of its own."""
    alone = asyncio.Lock()

    async def fork(skill: str, task: str) -> ToolResult:
        async with alone:
            return await work(forked(agent, skill), agent.name, session, task, emit, loads=[Load(skill)])

    return fork


async def work(
    child: Agent,
    parent: str,
    session: SkillSession,
    task: str,
    emit: Callable[[Event], None],
    *,
    loads: Sequence[Load] = (),
) -> ToolResult:
    """Let another agent work on a task in the same session. It begins with `loads` and nothing else."""
    scope = session.scope
    async with child.runtime.session(
        scope.session, agent=child.name, user=scope.user, app=scope.app, options=child.options
    ) as own:
        own.records_calls = True
        own.begin_turn()
        message: Message = {"role": "user", "content": task}
        await own.log(MESSAGE, {"to": child.name, "message": message}, author=parent)
        extra = [*child.tools, *as_tools(child, own, emit)]
        turn = Turn(child, own, [message], emit=emit, extra=extra)
        try:
            await declare(own, loads)
            done = await turn.run()
        except SkillError as error:
            await own.log(ERROR, {"reason": error.reason, "message": error.message})
            return replace(ToolResult.failed(error), data={COST: asdict(turn.done.usage)})
        await own.log(END, {"text": done.text, "steps": done.steps})
        return ToolResult(done.text or "(no answer)", {"text": done.text, COST: asdict(done.usage)})
