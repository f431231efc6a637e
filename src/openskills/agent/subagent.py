"""Sub-agents as tools, forked skills, and skills that are loaded before a run."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any

from openskills.agent.agent import END, ERROR, Agent, ExtraTool, Message
from openskills.agent.turn import USAGE_KEY, AgentRunContext, Fork, Turn, run_with_code_blocks
from openskills.arguments import check_arguments
from openskills.errors import InvalidArgument, SkillError
from openskills.runtime.session import SkillSession
from openskills.session.events import MESSAGE
from openskills.tools.skills import resolve_docs
from openskills.tools.tool import ToolResult


@check_arguments
@dataclass(frozen=True, slots=True)
class Load:
    """A skill to load before a run, with some or all of its documents."""

    skill: str
    docs: tuple[str, ...] | None = None
    include_all_docs: bool = False


def check_loads(loads: Sequence[Load], limit: int) -> tuple[Load, ...]:
    """Deduplicate loads. Raises `InvalidArgument` for contradictions."""
    found: dict[str, Load] = {}
    for load in loads:
        if not load.skill.strip():
            raise InvalidArgument("loads", "the name of a skill is empty")
        if load.include_all_docs and load.docs:
            raise InvalidArgument("loads", f"{load.skill!r}: set either docs or include_all_docs")
        if found.setdefault(load.skill, load) != load:
            raise InvalidArgument("loads", f"{load.skill!r} is listed twice with different documents")
    if 0 < limit < len(found):
        raise InvalidArgument("loads", f"too many skills: {len(found)}, at most {limit} can be loaded")
    return tuple(found.values())


async def load_skills(session: SkillSession, loads: Sequence[Load], limit: int = 0) -> None:
    """Load skills at the start of a turn, all of them or none. Raises the error of the first that fails."""
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


def build_agent_tools(agent: Agent, work: AgentRunContext) -> list[ExtraTool]:
    """The sub-agents of an agent as tools. Each runs one task at a time."""
    return [_build_agent_tool(child, agent, work, asyncio.Lock()) for child in agent.sub_agents]


def _build_agent_tool(child: Agent, parent: Agent, work: AgentRunContext, alone: asyncio.Lock) -> ExtraTool:
    async def run(arguments: Mapping[str, Any]) -> ToolResult:
        task = arguments["task"]
        if not task.strip():
            raise InvalidArgument("task", "required; describe what to do")
        async with alone:
            return await _run_task(child, parent.name, work, task)

    about = child.description or f"Give a task to the agent {child.name}. It does not see this conversation."
    return ExtraTool(child.name, about, run, _TASK)


def make_fork(agent: Agent, work: AgentRunContext, task: str) -> Fork:
    """The function with which `Turn` runs a forked skill on the task of the turn."""
    alone = asyncio.Lock()

    async def fork(skill: str) -> ToolResult:
        child = replace(agent, name=f"{agent.name}.{skill}", sub_agents=(), tools=())
        async with alone:
            return await _run_task(child, agent.name, work, task, loads=[Load(skill)])

    return fork


@asynccontextmanager
async def _open_session(child: Agent, work: AgentRunContext) -> AsyncGenerator[SkillSession]:
    scope = work.session.scope
    async with child.runtime.session(
        scope.session, agent=child.name, user=scope.user, app=scope.app, options=child.options, parent=work.session
    ) as own:
        own.records_calls = True
        # Events of another runtime do not reach the stream of this run otherwise.
        with own.listen(work.stream.put):
            yield own


async def _run_task(
    child: Agent, parent: str, work: AgentRunContext, task: str, *, loads: Sequence[Load] = ()
) -> ToolResult:
    """Run another agent on a task in the same session. A fork starts with `loads` and does not fork again."""
    async with _open_session(child, work) as own:
        message: Message = {"role": "user", "content": task}
        await own.log(MESSAGE, {"to": child.name, "message": message}, author=parent)
        messages, below = [message], replace(work, session=own)
        extra = [*await child.list_tools(), *build_agent_tools(child, below)]
        turn = Turn(child, below, messages, extra=extra, fork=None if loads else make_fork(child, below, task))
        try:
            await load_skills(own, loads)
            done = await run_with_code_blocks(child, own, turn, messages)
        except SkillError as error:
            await own.log(ERROR, {"reason": error.reason, "message": error.message})
            return replace(ToolResult.from_error(error), data={USAGE_KEY: asdict(turn.result.usage)})
        await own.log(END, {"text": done.text, "steps": done.steps})
        return ToolResult(done.text or "(no answer)", {"text": done.text, USAGE_KEY: asdict(done.usage)})
