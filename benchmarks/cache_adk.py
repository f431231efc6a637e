"""google-adk plays conversations: `cache_adk.py SKILLS-DIRECTORY`. Runs in an environment of its own.

Its own runner and agent with its own toolset for skills, and a model that writes requests down and answers from a
script. Skills are listed in the instruction (`EAGER`), so that everybody takes the same steps. `way` is how long a
skill stays: `persistent`, its default, or `ephemeral`.
"""

import importlib
import json
import sys
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any

# A benchmark may have the name of a library: looked for last, it is in nobody's way.
sys.path.append(sys.path.pop(0))

from context_talk import LOOK, LOOKED, SYSTEM, Step, of_data
from trpc_process import serve


def adk(name: str) -> Any:
    """A module of the peer."""
    return importlib.import_module(f"google.adk.{name}")


def lookup(table: str) -> str:
    """Look something up."""
    del table
    return LOOKED


def recording() -> Any:
    base: Any = adk("models.base_llm").BaseLlm
    response: Any = adk("models.llm_response").LlmResponse
    types: Any = importlib.import_module("google.genai.types")

    class Recording(base):
        script: list[Any] = []  # noqa: RUF012 - a field of a pydantic model
        requests: list[Any] = []  # noqa: RUF012

        async def generate_content_async(self, llm_request: Any, stream: bool = False) -> AsyncGenerator[Any]:
            del stream
            self.requests.append(messages_of(llm_request))
            part = types.Part(text="Done.")
            if self.script:
                name, arguments = self.script.pop(0)
                call = types.FunctionCall(id=f"call_{len(self.requests)}", name=name, args=arguments)
                part = types.Part(function_call=call)
            yield response(content=types.Content(role="model", parts=[part]))

    return Recording(model="recording")


def messages_of(request: Any) -> list[dict[str, Any]]:
    """What would be sent, in its order: the instruction, then the contents, each part as its text."""
    found: list[dict[str, Any]] = [{"role": "system", "content": str(request.config.system_instruction or "")}]
    for content in request.contents:
        texts = [text for part in content.parts for text in _texts(part)]
        role = {"model": "assistant"}.get(content.role, content.role)
        found.append({"role": role, "content": [{"type": "text", "text": text} for text in texts]})
    return found


def _texts(part: Any) -> list[str]:
    if part.function_call is not None:
        return [part.function_call.name, json.dumps(part.function_call.args, ensure_ascii=False)]
    if part.function_response is not None:
        # Without the quotes and the escapes that its protocol puts around it: nobody else pays for those.
        answer: dict[str, Any] = part.function_response.response or {}
        return [one if isinstance(one, str) else json.dumps(one, ensure_ascii=False) for one in answer.values()]
    return [part.text or ""]


def calls_of(step: Step) -> list[tuple[str, dict[str, Any]]]:
    if step.kind == LOOK:
        return [("lookup", {"table": "figures"})]
    if not step.docs:
        return [("load_skill", {"skill_name": step.skill})]
    return [("load_skill_resource", {"skill_name": step.skill, "file_path": path}) for path in step.docs]


async def _played(skills: Path, way: str, turns: Sequence[dict[str, Any]]) -> list[Any]:
    module: Any = adk("tools.skill_toolset")
    types: Any = importlib.import_module("google.genai.types")
    # Without it nothing is ever released; it is off unless somebody wants it.
    features: Any = adk("features")
    features.override_feature_enabled(features.FeatureName.SKILL_LIFECYCLE, way != "persistent")
    found = [adk("skills").load_skill_from_dir(folder) for folder in sorted(skills.iterdir())]
    toolset = module.SkillToolset(
        found,
        discovery_mode=module.SkillDiscoveryMode.EAGER,
        lifecycle_config=module.SkillLifecycleConfig(default_mode=module.SkillLifecycleMode(way)),
    )
    model = recording()
    agent = adk("agents").LlmAgent(name="bench", model=model, instruction=SYSTEM, tools=[toolset, lookup])
    runner = adk("runners").InMemoryRunner(agent=agent, app_name="bench")
    session = await runner.session_service.create_session(app_name="bench", user_id="user")
    for turn in of_data(turns):
        model.script.extend(call for step in turn.steps for call in calls_of(step))
        said = types.Content(role="user", parts=[types.Part(text=turn.user)])
        async for event in runner.run_async(user_id="user", session_id=session.id, new_message=said):
            if event.error_code:
                raise RuntimeError(f"{event.error_code}: {event.error_message}")
    return model.requests


async def _answer(request: dict[str, Any]) -> dict[str, Any]:
    return {"requests": await _played(Path(sys.argv[1]), request["way"], request["turns"])}


if __name__ == "__main__":
    serve(lambda: _answer)
