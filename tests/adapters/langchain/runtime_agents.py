"""Agents of LangChain with skills of a runtime of ours, for tests that run a whole graph."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import langchain.agents
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolCall, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver

from openskills.adapters.langchain.runtime import SkillRuntimeMiddleware
from openskills.adapters.langchain.runtime_state import loaded_skills
from openskills.artifacts.memory import MemoryArtifactStore
from openskills.catalog.catalog import Catalog
from openskills.runtime.options import SessionOptions
from openskills.runtime.runtime import SkillRuntime
from openskills.testing.fake_executor import FakeExecutor, FakeRun
from tests.adapters.langchain.scripted import Line, Scripted, call
from tests.skill_writer import skill_writer

# The annotations of this one have gaps that a strict reader does not accept.
create_agent = cast("Any", langchain.agents).create_agent

HELLO = {"hello": FakeRun(b"hello from a command\n")}


class SkillTalk:
    """A thread of one agent."""

    def __init__(self, agent: Any, model: Scripted, thread: str | None = "one") -> None:
        self.agent = agent
        self.model = model
        self.config: Any = {"configurable": {"thread_id": thread}} if thread else {}

    def say(self, text: str = "go on") -> list[AnyMessage]:
        """One turn of the user, and all messages after it."""
        return cast("list[AnyMessage]", self.agent.invoke({"messages": [HumanMessage(text)]}, self.config)["messages"])

    async def hear(self, text: str = "go on") -> list[AnyMessage]:
        """The same, awaited."""
        answer = await self.agent.ainvoke({"messages": [HumanMessage(text)]}, self.config)
        return cast("list[AnyMessage]", answer["messages"])

    def loaded(self, config: Any = None) -> tuple[str, ...]:
        """The loaded skills of the thread, or of one of its checkpoints."""
        return loaded_skills(self.agent.get_state(config or self.config).values)

    def results(self) -> dict[str, ToolMessage]:
        """All tool results of the thread, by the id of the call."""
        messages = cast("Sequence[AnyMessage]", self.agent.get_state(self.config).values["messages"])
        return {message.tool_call_id: message for message in messages if isinstance(message, ToolMessage)}

    def shown(self, request: int = -1) -> str:
        """Everything that the model was sent in one request."""
        return "\n".join(message.text for message in self.model.requests[request])


def runtime_of(skills: Path, executor: Any = None, **options: Any) -> SkillRuntime:
    """A runtime over a folder of skills; its commands are played unless there is another executor."""
    return SkillRuntime(
        Catalog.from_paths(skills),
        executor or FakeExecutor(HELLO),
        artifacts=MemoryArtifactStore(),
        options=SessionOptions(**options),
    )


def talk_of(
    runtime: SkillRuntime,
    script: Sequence[Line],
    *,
    saver: Any = None,
    thread: str | None = "one",
    before: Callable[[Scripted], Sequence[Any]] | Sequence[Any] = (),
    after: Sequence[Any] = (),
    agent: dict[str, Any] | None = None,
    **middleware: Any,
) -> SkillTalk:
    """A thread of `create_agent`, with middleware before and after ours."""
    model = Scripted(script=list(script))
    first = before(model) if callable(before) else before
    made = create_agent(
        model,
        middleware=[*first, SkillRuntimeMiddleware(runtime, **middleware), *after],
        checkpointer=(saver or InMemorySaver()) if thread else None,
        **(agent or {}),
    )
    return SkillTalk(made, model, thread)


def load(skill: str, call_id: str | None = None, **more: Any) -> ToolCall:
    """A call of `skill_load`."""
    return call("skill_load", call_id or f"load-{skill}", skill=skill, **more)


def unload(skill: str, call_id: str | None = None) -> ToolCall:
    """A call of `skill_unload`."""
    return call("skill_unload", call_id or f"unload-{skill}", skill=skill)


def hello(skill: str, call_id: str = "run") -> ToolCall:
    """A call of `skill_run` with a command that says hello."""
    return call("skill_run", call_id, skill=skill, command="hello")


def answers(messages: Sequence[AnyMessage]) -> list[str]:
    """What the model said."""
    return [message.text for message in messages if isinstance(message, AIMessage) and message.text]


def with_guides(base: Path, names: Sequence[str]) -> Path:
    """A folder of skills with a document each."""
    for name in names:
        folder = skill_writer(base, "skills")(name, body=f"# How to work with {name}")
        (folder / "guide.md").write_text(f"The guide to {name}.")
    return base / "skills"
