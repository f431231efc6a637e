"""deepagents plays conversations: `cache_deepagents.py SKILLS-DIRECTORY`. Runs in the environment of the peers.

An agent of LangChain with deepagents' middleware for skills and for files, as its documentation composes it, and a
model that writes requests down and answers from a script. A skill is loaded by reading its `SKILL.md` whole.
"""

import importlib
import sys
from collections.abc import Sequence
from typing import Any

# A benchmark may have the name of a library: looked for last, it is in nobody's way.
sys.path.append(sys.path.pop(0))

from context_talk import LOOK, LOOKED, SYSTEM, Step, of_data
from trpc_process import serve


def lookup(table: str) -> str:
    """Look something up."""
    del table
    return LOOKED


def recording() -> Any:
    models: Any = importlib.import_module("langchain_core.language_models")
    messages: Any = importlib.import_module("langchain_core.messages")
    outputs: Any = importlib.import_module("langchain_core.outputs")

    class Recording(models.BaseChatModel):
        script: list[Any] = []  # noqa: RUF012 - a field of a pydantic model
        requests: list[Any] = []  # noqa: RUF012

        @property
        def _llm_type(self) -> str:
            return "recording"

        def bind_tools(self, tools: object, **_: object) -> Any:
            del tools
            return self

        def _generate(self, given: Any, stop: object = None, run_manager: object = None, **_: object) -> Any:
            del stop, run_manager
            self.requests.append(messages.convert_to_openai_messages(given))
            answer = messages.AIMessage("Done.")
            if self.script:
                name, arguments = self.script.pop(0)
                call = {"name": name, "args": arguments, "id": f"call_{len(self.requests)}"}
                answer = messages.AIMessage("", tool_calls=[call])
            return outputs.ChatResult(generations=[outputs.ChatGeneration(message=answer)])

    return Recording()


def calls_of(skills: str, step: Step) -> list[tuple[str, dict[str, Any]]]:
    if step.kind == LOOK:
        return [("lookup", {"table": "figures"})]
    paths = step.docs or ["SKILL.md"]
    return [("read_file", {"file_path": f"{skills}/{step.skill}/{path}", "limit": 100_000}) for path in paths]


class Peer:
    """Everything about one directory of skills."""

    def __init__(self, skills: str) -> None:
        self._skills = skills.rstrip("/")

    async def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """The requests of a whole conversation."""
        return {"requests": await self._played(request["turns"])}

    async def _played(self, turns: Sequence[dict[str, Any]]) -> list[Any]:
        backends: Any = importlib.import_module("deepagents.backends")
        middleware: Any = importlib.import_module("deepagents.middleware")
        files: Any = importlib.import_module("deepagents.middleware.filesystem")
        model = recording()
        backend = backends.FilesystemBackend(root_dir=self._skills, virtual_mode=False)
        agent = importlib.import_module("langchain.agents").create_agent(
            model,
            tools=[lookup],
            system_prompt=SYSTEM,
            middleware=[
                files.FilesystemMiddleware(backend=backend),
                middleware.SkillsMiddleware(backend=backend, sources=[self._skills]),
            ],
            checkpointer=importlib.import_module("langgraph.checkpoint.memory").InMemorySaver(),
        )
        thread = {"configurable": {"thread_id": "bench"}, "recursion_limit": 10_000}
        for turn in of_data(turns):
            model.script.extend(call for step in turn.steps for call in calls_of(self._skills, step))
            await agent.ainvoke({"messages": [{"role": "user", "content": turn.user}]}, thread)
        return model.requests


if __name__ == "__main__":
    serve(lambda: Peer(sys.argv[1]).answer)
