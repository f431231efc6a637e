"""Sub-agents, declared loads.

Skills that the caller wants to have loaded before the model is asked.

Agents as tools of another: a task goes in, an answer comes out. They share the session, not what they loaded.
"""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from typing import Any

from openskills.agent.agent import END, ERROR, Agent, ExtraTool, Message
from openskills.agent.turn import (
    USAGE_KEY,
    CallIds,
    EventStream,
    Fork,
    ModelCallCounter,
    Turn,
    fork_agent,
    run_with_code_blocks,
)
from openskills.errors import InvalidArgument, SkillError
from openskills.runtime.runtime import SkillRuntime
from openskills.runtime.session import SkillSession
from openskills.session.events import MESSAGE
from openskills.tools.skills import resolve_docs
from openskills.tools.tool import ToolResult


@dataclass(frozen=True, slots=True)
class Load:
    """A skill to load, with documents or with all of them."""

    skill: str
    docs: tuple[str, ...] | None = None
    include_all_docs: bool = False


def check_loads(loads: Sequence[Load], limit: int) -> tuple[Load, ...]:
    """The same loads, each once. Raises `InvalidArgument` for what contradicts itself, before anything is done."""
    found: dict[str, Load] = {}
    for load in loads:
        if not load.skill.strip():
            raise InvalidArgument("loads", "a skill without a name cannot be loaded")
        if load.include_all_docs and load.docs:
            raise InvalidArgument("loads", f"{load.skill!r} has documents and all documents; give one of them")
        if found.setdefault(load.skill, load) != load:
            raise InvalidArgument("loads", f"{load.skill!r} is there twice, and not the same")
    if 0 < limit < len(found):
        raise InvalidArgument("loads", f"{len(found)} skills are more than the {limit} that may be loaded at once")
    return tuple(found.values())


async def load_skills(session: SkillSession, loads: Sequence[Load], limit: int = 0) -> None:
    """Load skills for the turn that begins. Raises what keeps one of them from being loaded; then none is."""
    wanted = check_loads(loads, limit)
    if not wanted:
        return
    for load in wanted:
        resolve_docs(session.skill(load.skill), _list_docs(load))
    before = session.loaded_skills()
    results = [await session.call("skill_load", {"skill": load.skill, "docs": _list_docs(load)}) for load in wanted]
    failed = [result.error for result in results if result.error is not None]
    if failed:
        for load in wanted:
            if load.skill not in before:
                await session.call("skill_unload", {"skill": load.skill})
        raise failed[0]


def _list_docs(load: Load) -> list[str] | None:
    if load.include_all_docs:
        return ["*"]
    return None if load.docs is None else list(load.docs)


_TASK = {
    "type": "object",
    "properties": {
        "task": {"type": "string", "description": "What to do, with everything that has to be known for it"}
    },
    "required": ["task"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True)
class AgentRunContext:
    """What the agents of one run share: the conversation, who hears of it, ids and numbers of calls.

    `heard` are the runtimes whose events the stream gets already.
    """

    runtimes: tuple[SkillRuntime, ...]
    session: SkillSession
    stream: EventStream
    ids: CallIds
    model_calls: ModelCallCounter


def build_agent_tools(agent: Agent, work: AgentRunContext) -> list[ExtraTool]:
    """The sub-agents of an agent as tools of it. One at a time works under one name."""
    return [_build_agent_tool(child, agent, work, asyncio.Lock()) for child in agent.sub_agents]


def _build_agent_tool(child: Agent, parent: Agent, work: AgentRunContext, alone: asyncio.Lock) -> ExtraTool:
    async def run(arguments: Mapping[str, Any]) -> ToolResult:
        task = arguments.get("task")
        if not isinstance(task, str) or not task.strip():
            raise InvalidArgument("task", "is missing; say what is to be done")
        async with alone:
            return await _run_task(child, parent.name, work, task)

    about = child.description or f"Give a task to the agent {child.name}. It does not see this conversation."
    return ExtraTool(child.name, about, run, _TASK)


def make_fork(agent: Agent, work: AgentRunContext, task: str) -> Fork:
    """What `Turn` does with a skill that wants a sub-agent of its own: it works on the task of the turn."""
    alone = asyncio.Lock()

    async def fork(skill: str) -> ToolResult:
        async with alone:
            return await _run_task(fork_agent(agent, skill), agent.name, work, task, loads=[Load(skill)])

    return fork


@asynccontextmanager
async def _open_session(child: Agent, work: AgentRunContext) -> AsyncGenerator[SkillSession]:
    """The session of a sub-agent at the beginning of its turn."""
    scope = work.session.scope
    async with child.runtime.session(
        scope.session, agent=child.name, user=scope.user, app=scope.app, options=child.options
    ) as own:
        own.records_calls = True
        own.begin_turn()
        # What happens in another runtime, nobody else tells the stream of this run.
        with nullcontext() if child.runtime in work.runtimes else own.listen(work.stream.put):
            yield own


async def _run_task(
    child: Agent, parent: str, work: AgentRunContext, task: str, *, loads: Sequence[Load] = ()
) -> ToolResult:
    """Let another agent work on a task in the same session. It begins with `loads` and nothing else.

    A fork has loads, and what it loads itself is its own: it is not forked again.
    """
    async with _open_session(child, work) as own:
        message: Message = {"role": "user", "content": task}
        await own.log(MESSAGE, {"to": child.name, "message": message}, author=parent)
        messages, below = [message], replace(work, heard=(*work.runtimes, child.runtime), session=own)
        turn = Turn(
            child,
            own,
            messages,
            stream=work.stream,
            ids=work.ids,
            asked=work.model_calls,
            extra=[*child.tools, *build_agent_tools(child, below)],
            fork=None if loads else make_fork(child, below, task),
        )
        try:
            await load_skills(own, loads)
            done = await run_with_code_blocks(child, own, turn, messages)
        except SkillError as error:
            await own.log(ERROR, {"reason": error.reason, "message": error.message})
            return replace(ToolResult.from_error(error), data={USAGE_KEY: asdict(turn.result.usage)})
        await own.log(END, {"text": done.text, "steps": done.steps})
        return ToolResult(done.text or "(no answer)", {"text": done.text, USAGE_KEY: asdict(done.usage)})
