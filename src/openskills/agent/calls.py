"""The calls of one answer: at the same time where they may be, with results in their order."""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, cast

from openskills.agent.agent import Agent
from openskills.agent.extra_tool import ExtraTool
from openskills.agent.fork import wanted
from openskills.agent.log import ARTIFACT, TOOL_CALL
from openskills.agent.model import ToolCall
from openskills.agent.stream import Stream
from openskills.errors import InvalidArgument, LimitExceeded, SkillError
from openskills.prompt.messages import items
from openskills.runtime.session import SkillSession
from openskills.session.events import TOOL_RESPONSE
from openskills.tools.decode import named_skill
from openskills.tools.profiles import LOAD
from openskills.tools.result import ToolResult

_LOG = logging.getLogger("openskills")

Answered = tuple[ToolCall, ToolResult]
COST = "model_usage"
"""In the data of a result: what another agent's model cost."""
Fork = Callable[[str], Awaitable[ToolResult]]
"""Lets a sub-agent work with a skill on the task of the turn."""


class Calls:
    """Calls the tools of one agent in one session: those of the skills, and `extra` ones."""

    def __init__(
        self, agent: Agent, session: SkillSession, extra: Sequence[ExtraTool], stream: Stream, fork: Fork | None = None
    ) -> None:
        self._agent = agent
        self._stream = stream
        self._fork = fork
        self._session = session
        self._extra = {tool.name: tool for tool in extra}
        self._room = asyncio.Semaphore(agent.limits.parallel)

    def described(self) -> list[Any]:
        """All tools, as models want to be told about them."""
        return [*self._session.tools("openai"), *(tool.described() for tool in self._extra.values())]

    async def all(self, calls: Sequence[ToolCall]) -> list[Answered]:
        """Make every call, and give the results in the order of the calls. Cancelled, all of them end."""
        for call in calls:
            payload = {"call_id": call.id, "tool": call.name, "arguments": call.arguments}
            await self._session.log(TOOL_CALL, payload)
            await self._stream.room()
        tasks: list[asyncio.Task[ToolResult]] = []
        loads: dict[object, asyncio.Task[ToolResult]] = {}
        # Begun in their order: the number that a call gets decides which of two changes is the later one.
        for call in calls:
            skill = _skill_of(call)
            tasks.append(asyncio.ensure_future(self._one(call, after=loads.get(skill))))
            if skill is not None and call.name == LOAD:
                # What else is wanted of this skill in the same answer may need that it is loaded.
                loads[skill] = tasks[-1]
        try:
            results = await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        return list(zip(calls, results, strict=True))

    async def refuse(self, calls: Sequence[ToolCall], why: str) -> None:
        """Answer calls that are not made, so that the log has no call without a result."""
        for call in calls:
            await self._answered(call, ToolResult(f"error: {why}", error=LimitExceeded(why)))

    async def _one(self, call: ToolCall, *, after: asyncio.Task[ToolResult] | None) -> ToolResult:
        if after is not None:
            await asyncio.wait([after])
        async with self._room:
            await self._stream.room()
            hooks = self._agent.callbacks
            result = await hooks.before_tool(self._agent.name, call) if hooks.before_tool else None
            skill = wanted(self._session, call) if self._fork else None
            if result is None and self._fork is not None and skill is not None:
                result = await self._fork(skill)
            if result is None and call.name not in self._extra:
                revise = partial(self._revised, call)
                result = await self._session.call(call.name, call.arguments, call_id=call.id, revise=revise)
            else:
                result = result or await _called(self._extra[call.name].run, call.arguments)
                result = await self._revised(call, result)
                await self._answered(call, result)
            for artifact in items(result.data.get("artifact_files")):
                if isinstance(artifact, Mapping):
                    await self._session.log(ARTIFACT, {**cast("Mapping[str, Any]", artifact), "call_id": call.id})
            return result

    async def _revised(self, call: ToolCall, result: ToolResult) -> ToolResult:
        after = self._agent.callbacks.after_tool
        return (await after(self._agent.name, call, result) if after else None) or result

    async def _answered(self, call: ToolCall, result: ToolResult) -> None:
        payload = {
            "call_id": call.id,
            "tool": call.name,
            "content": result.text,
            "failed": result.error is not None,
        }
        await self._session.log(TOOL_RESPONSE, payload)


def _skill_of(call: ToolCall) -> str | None:
    skill = named_skill(call.arguments)
    return skill if isinstance(skill, str) else None


async def _called(run: Callable[[Mapping[str, Any]], Awaitable[ToolResult | str]], arguments: str) -> ToolResult:
    try:
        result = await run(_object(arguments))
    except SkillError as error:
        return ToolResult.failed(error)
    except Exception as error:  # noqa: BLE001
        # A door to somebody's function: its fault must not end the run, and the model cannot mend it. The log has it.
        _LOG.exception("a tool of the application failed")
        return ToolResult.failed(SkillError(f"the tool failed inside ({type(error).__name__}); try something else"))
    if isinstance(result, str):
        return ToolResult(result)
    if not isinstance(result, ToolResult):  # pyright: ignore[reportUnnecessaryIsInstance] - it is somebody's function
        return ToolResult.failed(SkillError(f"the tool gave a {type(result).__name__}; it has to give text"))
    return result


def _object(arguments: str) -> Mapping[str, Any]:
    try:
        found: object = json.loads(arguments or "{}")
    except (ValueError, RecursionError) as error:
        raise InvalidArgument("arguments", f"are no JSON ({str(error)[:200]}); send one JSON object") from None
    if not isinstance(found, dict):
        raise InvalidArgument("arguments", "are no JSON object; send one")
    return cast("dict[str, Any]", found)
