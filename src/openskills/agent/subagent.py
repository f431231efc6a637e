"""Agents as tools of another: a task goes in, an answer comes out. They share the session, not what they loaded."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from typing import Any

from openskills.agent.agent import Agent
from openskills.agent.call_ids import CallIds
from openskills.agent.calls import COST, Fork
from openskills.agent.code_blocks import with_code_blocks
from openskills.agent.declared import Load, declare
from openskills.agent.extra_tool import ExtraTool
from openskills.agent.fork import forked
from openskills.agent.log import END, ERROR, Message
from openskills.agent.model_calls import ModelCalls
from openskills.agent.stream import Stream
from openskills.agent.turn import Turn
from openskills.errors import InvalidArgument, SkillError
from openskills.runtime.runtime import SkillRuntime
from openskills.runtime.session import SkillSession
from openskills.session.events import MESSAGE
from openskills.tools.result import ToolResult

_TASK = {
    "type": "object",
    "properties": {
        "task": {"type": "string", "description": "What to do, with everything that has to be known for it"}
    },
    "required": ["task"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True)
class Work:
    """What the agents of one run share: the conversation, who hears of it, ids and numbers of calls.

    `heard` are the runtimes whose events the stream gets already.
    """

    heard: tuple[SkillRuntime, ...]
    session: SkillSession
    stream: Stream
    ids: CallIds
    asked: ModelCalls


def as_tools(agent: Agent, work: Work) -> list[ExtraTool]:
    """The sub-agents of an agent as tools of it. One at a time works under one name."""
    return [_as_tool(child, agent, work, asyncio.Lock()) for child in agent.sub_agents]


def _as_tool(child: Agent, parent: Agent, work: Work, alone: asyncio.Lock) -> ExtraTool:
    async def run(arguments: Mapping[str, Any]) -> ToolResult:
        task = arguments.get("task")
        if not isinstance(task, str) or not task.strip():
            raise InvalidArgument("task", "is missing; say what is to be done")
        async with alone:
            return await _done(child, parent.name, work, task)

    about = child.description or f"Give a task to the agent {child.name}. It does not see this conversation."
    return ExtraTool(child.name, about, run, _TASK)


def forking(agent: Agent, work: Work, task: str) -> Fork:
    """What `Turn` does with a skill that wants a sub-agent of its own: it works on the task of the turn."""
    alone = asyncio.Lock()

    async def fork(skill: str) -> ToolResult:
        async with alone:
            return await _done(forked(agent, skill), agent.name, work, task, loads=[Load(skill)])

    return fork


@asynccontextmanager
async def _opened(child: Agent, work: Work) -> AsyncGenerator[SkillSession]:
    """The session of a sub-agent at the beginning of its turn."""
    scope = work.session.scope
    async with child.runtime.session(
        scope.session, agent=child.name, user=scope.user, app=scope.app, options=child.options
    ) as own:
        own.records_calls = True
        own.begin_turn()
        # What happens in another runtime, nobody else tells the stream of this run.
        with nullcontext() if child.runtime in work.heard else own.listening(work.stream.put):
            yield own


async def _done(child: Agent, parent: str, work: Work, task: str, *, loads: Sequence[Load] = ()) -> ToolResult:
    """Let another agent work on a task in the same session. It begins with `loads` and nothing else.

    A fork has loads, and what it loads itself is its own: it is not forked again.
    """
    async with _opened(child, work) as own:
        message: Message = {"role": "user", "content": task}
        await own.log(MESSAGE, {"to": child.name, "message": message}, author=parent)
        messages, below = [message], replace(work, heard=(*work.heard, child.runtime), session=own)
        turn = Turn(
            child,
            own,
            messages,
            stream=work.stream,
            ids=work.ids,
            asked=work.asked,
            extra=[*child.tools, *as_tools(child, below)],
            fork=None if loads else forking(child, below, task),
        )
        try:
            await declare(own, loads)
            done = await with_code_blocks(child, own, turn, messages)
        except SkillError as error:
            await own.log(ERROR, {"reason": error.reason, "message": error.message})
            return replace(ToolResult.failed(error), data={COST: asdict(turn.done.usage)})
        await own.log(END, {"text": done.text, "steps": done.steps})
        return ToolResult(done.text or "(no answer)", {"text": done.text, COST: asdict(done.usage)})
