"""deepagents builds requests: `context_deepagents.py SKILLS-DIRECTORY`. Runs in the environment of the peers.

`hold` plays a conversation with its own agent, and keeps the last request as its middleware for skills gets it; `build`
lets that middleware make of it what the model would get, twice, and says how long the second time took.
"""

import importlib
import sys
import time
from typing import Any

# A benchmark may have the name of a library: looked for last, it is in nobody's way.
sys.path.append(sys.path.pop(0))

from cache_deepagents import calls_of, lookup, recording
from context_held import held
from context_talk import SYSTEM, WARM_UPS, of_data
from trpc_process import serve


def _keeping(kept: list[Any]) -> Any:
    """A middleware that keeps the last request, and changes nothing."""
    types: Any = importlib.import_module("langchain.agents.middleware.types")

    async def look(_: Any, request: Any, handler: Any) -> Any:
        kept[:] = [request]
        return await handler(request)

    return type("Keeping", (types.AgentMiddleware,), {"awrap_model_call": look})()


class Peer:
    """Everything about one directory of skills."""

    def __init__(self, skills: str) -> None:
        self._skills = skills.rstrip("/")
        backend: Any = importlib.import_module("deepagents.backends").FilesystemBackend(
            root_dir=self._skills, virtual_mode=False
        )
        files: Any = importlib.import_module("deepagents.middleware.filesystem")
        self._middleware: Any = importlib.import_module("deepagents.middleware").SkillsMiddleware(
            backend=backend, sources=[self._skills]
        )
        self._files: Any = files.FilesystemMiddleware(backend=backend)
        self._kept: list[Any] = []

    async def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Do what the request says."""
        if request["do"] == "hold":
            return await self._hold(request["turns"])
        for _ in range(WARM_UPS):
            await self._build()
        return {"seconds": await self._build()}

    async def _hold(self, turns: list[dict[str, Any]]) -> dict[str, Any]:
        model = recording()
        agent = importlib.import_module("langchain.agents").create_agent(
            model,
            tools=[lookup],
            system_prompt=SYSTEM,
            middleware=[self._files, _keeping(self._kept), self._middleware],
        )
        (turn,) = of_data(turns)
        model.script.extend(call for step in turn.steps for call in calls_of(self._skills, step))
        await agent.ainvoke({"messages": [{"role": "user", "content": turn.user}]}, {"recursion_limit": 10_000})
        return held(model.requests[-1], turns)

    async def _build(self) -> float:
        got: list[Any] = []

        async def model(request: Any) -> Any:
            got.append(request)

        begin = time.perf_counter()
        await self._middleware.awrap_model_call(self._kept[0], model)
        seconds = time.perf_counter() - begin
        if len(got) != 1:
            raise RuntimeError("no request was built")
        return seconds


if __name__ == "__main__":
    serve(lambda: Peer(sys.argv[1]).answer)
