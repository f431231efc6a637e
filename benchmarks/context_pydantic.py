"""pydantic-ai-skills builds requests: `context_pydantic.py SKILLS-DIRECTORY`. Runs in an environment of its own.

`hold` plays a conversation with an agent of Pydantic AI and its capability; `build` lets the agent go on from there,
and says how long it took until the model was asked: its skills are spread over the agent, so that is all of a request.
"""

import importlib
import sys
import time
from typing import Any

# A benchmark may have the name of a library: looked for last, it is in nobody's way.
sys.path.append(sys.path.pop(0))

from cache_pydantic import Provider, calls_of, lookup, model_over
from context_held import held
from context_talk import SYSTEM, of_data
from trpc_process import serve


def _noting(model: Any) -> Any:
    """The model, which notes when it is asked."""
    base: Any = importlib.import_module("pydantic_ai.models.wrapper").WrapperModel

    class Noting(base):
        asked: float = 0.0

        async def request(self, *given: Any, **more: Any) -> Any:
            self.asked = time.perf_counter()
            return await base.request(self, *given, **more)

    return Noting(model)


class Peer:
    """Everything about one directory of skills."""

    def __init__(self, skills: str) -> None:
        self._provider = Provider()
        self._model = _noting(model_over(self._provider))
        capability: Any = importlib.import_module("pydantic_ai_skills").SkillsCapability
        self._agent: Any = importlib.import_module("pydantic_ai").Agent(
            self._model, instructions=SYSTEM, tools=[lookup], capabilities=[capability(skills)]
        )
        self._limits: Any = importlib.import_module("pydantic_ai.usage").UsageLimits(request_limit=None)
        self._history: list[Any] = []

    async def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Do what the request says."""
        if request["do"] == "hold":
            return await self._hold(request["turns"])
        return {"seconds": await self._build()}

    async def _hold(self, turns: list[dict[str, Any]]) -> dict[str, Any]:
        (turn,) = of_data(turns)
        self._provider.script.extend(call for step in turn.steps for call in calls_of(step))
        played = await self._agent.run(turn.user, usage_limits=self._limits)
        # Without the answer at the end: the model has to be asked for it again.
        self._history = played.all_messages()[:-1]
        asked = self._provider.requests[-1]
        await self._build()
        if self._provider.requests[-1] != asked:
            raise RuntimeError("the request that is built again is another one")
        return held(asked, turns)

    async def _build(self) -> float:
        begin = time.perf_counter()
        await self._agent.run(message_history=list(self._history), usage_limits=self._limits)
        return self._model.asked - begin


if __name__ == "__main__":
    serve(lambda: Peer(sys.argv[1]).answer)
