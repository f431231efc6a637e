"""trpc-agent-py builds requests: `context_trpc.py SKILLS-DIRECTORY WATCHED`. Runs in the environment of the peers.

`WATCHED` has the same skills once more, for the repository that is told whenever anybody opens one of its files.

`talk` plays a conversation with its own runner and agent, and answers with the messages that its own OpenAI model would
send; `hold` does so and stays there, in the middle of a turn; then `build` builds the next request again and again, and
says how long that took, and `count` says how often the interpreter told of files meanwhile.
"""

import copy
import sys
import time
from collections.abc import AsyncGenerator, Sequence
from typing import Any

from context_talk import LOAD, LOOK, LOOKED, SYSTEM, Step, of_data
from context_trace import file_events
from trpc_process import sdk, serve

REPOSITORIES = ("plain", "cached", "watching")
_TOOLS = {LOAD: "skill_load", LOOK: "lookup"}


async def lookup(table: str) -> str:
    """Look something up."""
    del table
    return LOOKED


def _scripted() -> Any:
    """Its own model for OpenAI, which writes requests down instead of sending them, and answers from a script."""
    base: Any = sdk("models").OpenAIModel
    types: Any = sdk("types")

    class Scripted(base):
        script: list[Step]
        requests: list[list[dict[str, Any]]]
        context: Any

        async def _generate_async_impl(
            self, request: Any, stream: bool = False, ctx: Any = None
        ) -> AsyncGenerator[Any]:
            del stream
            self.context = ctx
            self.requests.append(self._format_messages(request))
            part: Any = types.Part(text="Done.")
            if self.script:
                step = self.script.pop(0)
                name = _TOOLS.get(step.kind, "skill_select_docs")
                identity = f"call_{len(self.requests)}"
                part = types.Part(function_call=types.FunctionCall(id=identity, name=name, args=_arguments(step)))
            yield sdk("models").LlmResponse(content=types.Content(role="model", parts=[part]))

    model: Any = Scripted(model_name="scripted", api_key="none")
    model.script, model.requests, model.context = [], [], None
    return model


def _arguments(step: Step) -> dict[str, Any]:
    if step.kind == LOOK:
        return {"table": "figures"}
    return {"skill_name": step.skill, **({"docs": step.docs, "mode": "add"} if step.docs else {})}


class Conversation:
    """One conversation of an agent with all skills, until the last of its requests."""

    def __init__(self, repository: Any, *, tool_result: bool, load_mode: str) -> None:
        config = copy.deepcopy(sdk("skills._skill_config").DEFAULT_SKILL_CONFIG)
        config["skill_processor"].update(tool_result_mode=tool_result, load_mode=load_mode)
        config["skills_tool_result_processor"]["tool_result_mode"] = tool_result
        self.config = config
        self.model = _scripted()
        tools = [
            sdk("skills").SkillToolSet(repository=repository, skill_config=config),
            sdk("tools").FunctionTool(lookup),
        ]
        self.agent: Any = sdk("agents").LlmAgent(
            name="bench", model=self.model, instruction=SYSTEM, tools=tools, skill_repository=repository
        )
        self._runner: Any = sdk("runners").Runner(
            app_name="bench", agent=self.agent, session_service=sdk("sessions").InMemorySessionService()
        )

    async def play(self, turns: Sequence[dict[str, Any]]) -> list[list[dict[str, Any]]]:
        """The requests of a whole conversation."""
        types: Any = sdk("types")
        for turn in of_data(turns):
            self.model.script = list(turn.steps)
            said = types.Content(role="user", parts=[types.Part(text=turn.user)])
            async for event in self._runner.run_async(user_id="user", session_id="s", new_message=said):
                if event.error_code:
                    raise RuntimeError(f"{event.error_code}: {event.error_message}")
        return self.model.requests


class Held:
    """A conversation in the middle of a turn, whose next request is built over and over."""

    def __init__(self, conversation: Conversation, repositories: dict[str, Any]) -> None:
        self._talk = conversation
        self._repositories = repositories
        self._history: list[Any] = []

    async def build(self, repository: str, *, whole: bool) -> float:
        """Seconds for the next request: of everything that it takes, or of the two steps that are about skills."""
        self._talk.agent.skill_repository = self._repositories[repository]
        if whole:
            begin = time.perf_counter()
            await self._request()
            return time.perf_counter() - begin
        return await self._skills_only(self._repositories[repository])

    async def _request(self) -> Any:
        request: Any = sdk("models").LlmRequest(model="scripted")
        processor: Any = sdk("agents.core._request_processor").default_request_processor
        failed = await processor.build_request(request, self._talk.agent, self._talk.model.context)
        if failed is not None:
            raise RuntimeError(failed.error_message)
        return request

    async def _skills_only(self, repository: Any) -> float:
        context, config = self._talk.model.context, self._talk.config
        overview: Any = sdk("agents.core._skill_processor").SkillsRequestProcessor
        results: Any = sdk("agents.core._skills_tool_result_processor").SkillsToolResultRequestProcessor
        history = self._history or await self._bare_history()
        request: Any = sdk("models").LlmRequest(model="scripted", contents=copy.deepcopy(history))
        begin = time.perf_counter()
        await overview(repository, **config["skill_processor"]).process_llm_request(context, request)
        await results(repository).process_llm_request(context, request)
        return time.perf_counter() - begin

    async def _bare_history(self) -> list[Any]:
        """The messages as they are before the texts of skills are put into them."""
        options = self._talk.config["skills_tool_result_processor"]
        options["tool_result_mode"] = False
        self._history = (await self._request()).contents
        options["tool_result_mode"] = True
        return self._history


class Peer:
    """Everything about one directory of skills."""

    def __init__(self, skills: str, watched: str) -> None:
        self._skills = skills
        self._watched = watched
        self._held: Held | None = None

    async def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Do what the request says."""
        match request:
            case {"do": "talk", "turns": turns, "tool_result": tool_result, "load_mode": mode}:
                talk = Conversation(self._repository("cached"), tool_result=tool_result, load_mode=mode)
                return {"requests": await talk.play(turns)}
            case {"do": "hold", "turns": turns}:
                return await self._hold(turns)
            case {"do": "build", "repository": name, "whole": whole} if self._held is not None:
                return {"seconds": await self._held.build(name, whole=whole)}
            case {"do": "count", "repository": name} if self._held is not None:
                with file_events() as events:
                    await self._held.build(name, whole=False)
                return {"events": len(events)}
            case _:
                raise ValueError(f"cannot do {request}")

    async def _hold(self, turns: Sequence[dict[str, Any]]) -> dict[str, Any]:
        repositories = {name: self._repository(name) for name in REPOSITORIES}
        talk = Conversation(repositories["cached"], tool_result=True, load_mode="turn")
        requests = await talk.play(turns)
        self._held = Held(talk, repositories)
        return {"messages": len(requests[-1]), "loaded": sum(_has_body(message) for message in requests[-1])}

    def _repository(self, name: str) -> Any:
        skills: Any = sdk("skills")
        if name == "plain":
            return skills.FsSkillRepository(self._skills)
        watching = name == "watching"
        return skills.create_default_skill_repository(
            self._watched if watching else self._skills, enable_hot_reload=watching
        )


def _has_body(message: dict[str, Any]) -> bool:
    return "[Loaded] " in str(message.get("content"))


if __name__ == "__main__":
    serve(lambda: Peer(sys.argv[1], sys.argv[2]).answer)
