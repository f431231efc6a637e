"""trpc-agent-py's `skill_exec` and `skill_write_stdin`: `running_trpc_typing.py SKILLS-DIRECTORY SKILL`.

Runs in the environment of the peers. A request has the `command` to talk to, whether it has a terminal (`tty`), the
line to `type`, and the `answer` that has to be in what the tool returns; the answer has the `seconds` that this took.
The command is started with the first request for it.
"""

import sys
import time
from typing import Any

from running_trpc import Peer
from trpc_process import sdk, serve


class Typing(Peer):
    """Commands of one session that are talked to."""

    def __init__(self, skills: str, skill: str) -> None:
        super().__init__(skills, skill)
        self._running: dict[tuple[str, bool], str] = {}
        self._opened: tuple[Any, Any, Any] | None = None

    async def answer(self, request: dict[str, Any]) -> dict[str, float]:
        """Type a line and take what comes back."""
        context, exec_tool, write_tool = await self._tools_of_session()
        known = (request["command"], request["tty"])
        if known not in self._running:
            wanted = {"skill": self._skill, "command": known[0], "tty": known[1], "timeout": 3600, "yield_time_ms": 1}
            self._running[known] = (await exec_tool.run_async(tool_context=context, args=wanted))["session_id"]
        arguments = {"session_id": self._running[known], "chars": request["type"], "submit": True}
        begin = time.perf_counter()
        result = await write_tool.run_async(tool_context=context, args=arguments)
        seconds = time.perf_counter() - begin
        if request["answer"] not in result["output"]:
            raise RuntimeError(f"it answered {result['output'][-100:]!r} and not {request['answer']!r}")
        return {"seconds": seconds}

    async def _tools_of_session(self) -> tuple[Any, Any, Any]:
        if self._opened is None:
            session = await self._session()
            await self._load(session)
            context, tools = session
            # Its set of tools has the first of them only; the others are made for it.
            write_tool: Any = sdk("skills.tools._skill_exec").WriteStdinTool(tools["skill_exec"])
            self._opened = context, tools["skill_exec"], write_tool
        return self._opened


if __name__ == "__main__":
    serve(lambda: Typing(*sys.argv[1:]).answer)
