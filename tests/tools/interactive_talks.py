"""Somebody who talks to commands through the tools, as a model does."""

import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from openskills.artifacts.memory import MemoryArtifactStore
from openskills.errors import SkillError
from openskills.executors.interactive import InteractiveCommands, ProcessLimits, ProcessOwner, ProcessTable
from openskills.tools.interactive import SKILL_EXEC, SKILL_KILL_SESSION, SKILL_POLL_SESSION, SKILL_WRITE_STDIN
from openskills.tools.tool import AnyTool, ToolContext, ToolOptions, ToolResult, decode
from openskills.tools.uploads import UserUpload
from tests.tools.contexts import AGENT, SCOPE, tool_context, write_skill

TOOLS: Mapping[str, AnyTool] = {
    tool.name: tool for tool in (SKILL_EXEC, SKILL_WRITE_STDIN, SKILL_POLL_SESSION, SKILL_KILL_SESSION)
}
TIMEOUT = 30.0

Done = Callable[[str, Mapping[str, Any]], bool]


class Talker:
    """One agent. `seen` is all output of the session that it started last, in the order in which it came."""

    def __init__(self, context: ToolContext) -> None:
        self.context = context
        self.session_id = ""
        self.seen = ""
        self.next_offset: int = 0

    async def call(self, name: str, arguments: Mapping[str, Any]) -> ToolResult:
        """As `SkillSession.call` does it."""
        try:
            return await TOOLS[name].run(self.context, decode(TOOLS[name], arguments))
        except SkillError as error:
            return ToolResult.from_error(error)

    async def start(self, command: str, **arguments: object) -> Mapping[str, Any]:
        """Start a command of the skill `demo`."""
        result = await self.call("skill_exec", {"skill": "demo", "command": command, **arguments})
        assert result.error is None, result.text
        self.session_id, self.seen, self.next_offset = result.data["session_id"], "", 0
        return self._heard(result)

    async def type(self, chars: str = "", **arguments: object) -> Mapping[str, Any]:
        """Write something, with Enter unless told otherwise."""
        wanted = {"session_id": self.session_id, "chars": chars, "submit": True, **arguments}
        return self._heard(await self.call("skill_write_stdin", wanted))

    async def poll(self, **arguments: object) -> Mapping[str, Any]:
        """Read on."""
        return self._heard(await self.call("skill_poll_session", {"session_id": self.session_id, **arguments}))

    async def until(self, done: Done) -> Mapping[str, Any]:
        """Read on until it is enough, or until the command has ended and everything is read."""
        deadline = time.monotonic() + TIMEOUT
        while True:
            data = await self.poll(yield_ms=100)
            if done(self.seen, data) or (data["status"] == "exited" and not data.get("more")):
                return data
            assert time.monotonic() < deadline, self.seen[-2000:]

    async def ended(self) -> Mapping[str, Any]:
        """Read to the end."""
        return await self.until(lambda _, __: False)

    def _heard(self, result: ToolResult) -> Mapping[str, Any]:
        assert result.error is None, result.text
        data = result.data
        if "missed" not in data:
            assert data["offset"] == self.next_offset, "a byte was lost or repeated"
        self.seen += data["output"]
        self.next_offset = data["next_offset"]
        return data


@asynccontextmanager
async def talker(
    directory: Path,
    *,
    files: Mapping[str, str] | None = None,
    executor: str = "sandbox",
    limits: ProcessLimits | None = None,
    options: ToolOptions | None = None,
    uploads: tuple[UserUpload, ...] = (),
) -> AsyncGenerator[Talker]:
    """An agent that has loaded the skill `demo`, in a sandbox."""
    write_skill(directory, "demo", files)
    processes = ProcessTable(limits)
    async with tool_context(
        directory,
        executor=executor,
        artifacts=MemoryArtifactStore(),
        loaded=["demo"],
        options=options,
        uploads=uploads,
    ) as context:
        try:
            yield Talker(agent_of(context, processes, AGENT))
        finally:
            await processes.close()


def agent_of(context: ToolContext, processes: ProcessTable, agent: str) -> ToolContext:
    """The same conversation for an agent whose commands are in `processes`."""
    found: list[InteractiveCommands] = []

    async def talks() -> InteractiveCommands:
        bench = await context.open_runner()
        if not found:
            found.append(
                InteractiveCommands(bench, processes, ProcessOwner(SCOPE.app, SCOPE.user, SCOPE.session, agent))
            )
        return found[0]

    return replace(context, agent=agent, open_commands=talks)
