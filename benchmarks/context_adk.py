"""google-adk builds requests: `context_adk.py SKILLS-DIRECTORY`. Runs in an environment of its own.

`hold` plays a conversation with its own runner, and keeps the last request as its toolset for skills gets it; `build`
lets the toolset make of a copy of it what the model would get, twice, and says how long the second time took.
"""

import importlib
import sys
import time
from pathlib import Path
from typing import Any

# A benchmark may have the name of a library: looked for last, it is in nobody's way.
sys.path.append(sys.path.pop(0))

from cache_adk import adk, calls_of, lookup, recording
from context_held import held
from context_talk import SYSTEM, WARM_UPS, of_data
from trpc_process import serve


def _keeping(skills: Path) -> Any:
    """Its toolset, which lists every skill in the instruction, and keeps what it was asked last."""
    module: Any = adk("tools.skill_toolset")
    base: Any = module.SkillToolset

    class Keeping(base):
        kept: tuple[Any, Any] | None = None

        async def process_llm_request(self, *, tool_context: Any, llm_request: Any) -> None:
            self.kept = (tool_context, llm_request.model_copy(deep=True))
            await base.process_llm_request(self, tool_context=tool_context, llm_request=llm_request)

        async def build(self) -> float:
            assert self.kept is not None
            context, request = self.kept[0], self.kept[1].model_copy(deep=True)
            begin = time.perf_counter()
            await base.process_llm_request(self, tool_context=context, llm_request=request)
            return time.perf_counter() - begin

    return Keeping(adk("skills").load_skills_from_dir(skills), discovery_mode=module.SkillDiscoveryMode.EAGER)


class Peer:
    """Everything about one directory of skills."""

    def __init__(self, skills: str) -> None:
        self._toolset = _keeping(Path(skills))

    async def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Do what the request says."""
        if request["do"] == "hold":
            return await self._hold(request["turns"])
        for _ in range(WARM_UPS):
            await self._toolset.build()
        return {"seconds": await self._toolset.build()}

    async def _hold(self, turns: list[dict[str, Any]]) -> dict[str, Any]:
        types: Any = importlib.import_module("google.genai.types")
        model = recording()
        agent = adk("agents").LlmAgent(name="bench", model=model, instruction=SYSTEM, tools=[self._toolset, lookup])
        runner = adk("runners").InMemoryRunner(agent=agent, app_name="bench")
        session = await runner.session_service.create_session(app_name="bench", user_id="user")
        (turn,) = of_data(turns)
        model.script.extend(call for step in turn.steps for call in calls_of(step))
        said = types.Content(role="user", parts=[types.Part(text=turn.user)])
        async for event in runner.run_async(user_id="user", session_id=session.id, new_message=said):
            if event.error_code:
                raise RuntimeError(f"{event.error_code}: {event.error_message}")
        return held(model.requests[-1], turns)


if __name__ == "__main__":
    serve(lambda: Peer(sys.argv[1]).answer)
