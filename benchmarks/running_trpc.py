"""trpc-agent-py's `skill_run`, one call for each request: `running_trpc.py SKILLS-DIRECTORY SKILL [ENGINE IMAGE]`.

Runs in the environment of the peers. A request says what to `do` (`warm`: the skill is loaded and staged; `unloaded`:
it is not loaded, but was run before, in the same workspace; `new`: a new session, in whose workspace nothing is;
`load`: a new session, and only the loading) and the `command`; the answer has the `seconds` that this took. With the
address of a container engine (empty: where `docker` looks) and an image, commands run in its container instead of
locally.
"""

import itertools
import sys
import time
from collections.abc import AsyncGenerator
from typing import Any

from trpc_process import sdk, serve


def _silent_model() -> Any:
    """An agent needs a model, though nobody asks it anything."""
    base: Any = sdk("models").LLMModel

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

    def __init__(self, skills: str, skill: str, *engine: str) -> None:
        self._skill = skill
        runtime = _containers(*engine) if engine else None
        repository = sdk("skills").FsSkillRepository(skills, workspace_runtime=runtime)
        self._tools: Any = sdk("skills").SkillToolSet(repository=repository)
        self._service: Any = sdk("sessions").InMemorySessionService()
        self._agent: Any = sdk("agents").LlmAgent(name="bench", model=_silent_model(), tools=[self._tools])
        self._numbers = itertools.count()
        self._kept: dict[str, tuple[Any, dict[str, Any]]] = {}

    async def answer(self, request: dict[str, str]) -> dict[str, float]:
        """Do what the request says; the seconds that it took."""
        do = request["do"]
        session = self._kept.get(do) or await self._session()
        if do == "load":
            return {"seconds": await self._load(session)}
        if do in ("warm", "unloaded") and do not in self._kept:
            self._kept[do] = session
            await (self._load(session) if do == "warm" else self._run(session, "true"))
        return {"seconds": await self._run(session, request["command"])}

    async def _session(self) -> tuple[Any, dict[str, Any]]:
        module = sdk("context")
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


def _containers(address: str, image: str) -> Any:
    module: Any = sdk("code_executors.container")
    config = module.ContainerConfig(base_url=address or None, image=image)
    return module.create_container_workspace_runtime(container_config=config)


if __name__ == "__main__":
    serve(lambda: Peer(*sys.argv[1:]).answer)
