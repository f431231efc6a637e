"""trpc-agent-py's `skill_run`, one call for each line of input: `running_trpc.py SKILLS-DIRECTORY SKILL`.

Runs in the environment of the peers. The first line of output says that it is ready; after that each line of input is
JSON with `do` (`warm`: the skill is loaded and staged; `new`: a new session, in whose workspace nothing is; `load`: a
new session, and only the loading) and `command`, and each line of output has the `seconds` that this took.
"""

import asyncio
import importlib
import itertools
import json
import logging
import sys
import time
from collections.abc import AsyncGenerator
from typing import Any


def _module(name: str) -> Any:
    return importlib.import_module(f"trpc_agent_sdk.{name}")


def _silent_model() -> Any:
    """An agent needs a model, though nobody asks it anything."""
    base: Any = _module("models").LLMModel

    class Silent(base):
        @classmethod
        def supported_models(cls) -> list[str]:
            return ["silent"]

        def validate_request(self, request: object) -> None:
            del request

        async def _generate_async_impl(self, *_: object, **__: object) -> AsyncGenerator[Any]:
            for nothing in ():
                yield nothing

    return Silent("silent")


class Peer:
    """Sessions of one agent with one directory of skills."""

    def __init__(self, skills: str, skill: str) -> None:
        self._skill = skill
        self._tools: Any = _module("skills").SkillToolSet(paths=[skills])
        self._service: Any = _module("sessions").InMemorySessionService()
        self._agent: Any = _module("agents").LlmAgent(name="bench", model=_silent_model(), tools=[self._tools])
        self._numbers = itertools.count()
        self._warm: Any = None

    async def answer(self, request: dict[str, str]) -> float:
        """Do what the request says; the seconds that it took."""
        if request["do"] == "warm":
            if self._warm is None:
                self._warm = await self._session()
                await self._load(self._warm)
            return await self._run(self._warm, request["command"])
        session = await self._session()
        return await self._load(session) if request["do"] == "load" else await self._run(session, request["command"])

    async def _session(self) -> tuple[Any, dict[str, Any]]:
        module = _module("context")
        name = f"s{next(self._numbers)}"
        session = await self._service.create_session(app_name="bench", user_id="user", session_id=name)
        context = module.InvocationContext(
            session_service=self._service,
            invocation_id=module.new_invocation_context_id(),
            agent=self._agent,
            agent_context=module.create_agent_context(),
            session=session,
        )
        return context, {tool.name: tool for tool in await self._tools.get_tools(context)}

    async def _load(self, session: tuple[Any, dict[str, Any]]) -> float:
        context, tools = session
        begin = time.perf_counter()
        await tools["skill_load"].run_async(tool_context=context, args={"skill_name": self._skill})
        return time.perf_counter() - begin

    async def _run(self, session: tuple[Any, dict[str, Any]], command: str) -> float:
        context, tools = session
        arguments = {"skill": self._skill, "command": command}
        begin = time.perf_counter()
        result = await tools["skill_run"].run_async(tool_context=context, args=arguments)
        seconds = time.perf_counter() - begin
        if result.get("exit_code") != 0:
            raise RuntimeError(f"{command} failed: {result}")
        return seconds


def main(skills: str, skill: str) -> None:
    """Answer until there is no more input."""
    logging.disable(logging.CRITICAL)
    # Libraries print what they like; answers go where standard output went.
    answers, sys.stdout = sys.stdout, sys.stderr
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    peer = Peer(skills, skill)
    print(json.dumps({"ready": True}), file=answers, flush=True)
    for line in sys.stdin:
        seconds = loop.run_until_complete(peer.answer(json.loads(line)))
        print(json.dumps({"seconds": seconds}), file=answers, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
