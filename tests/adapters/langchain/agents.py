"""Deep agents and plain agents with our middleware, for tests that run a whole graph."""

from collections.abc import Callable, Sequence
from typing import Any, cast

import deepagents
import langchain.agents
from deepagents.middleware import summarization
from langchain_core.messages import AnyMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver

from openskills.adapters.langchain.middleware import SkillsMiddleware
from tests.adapters.langchain.scripted import Line, Scripted

SOURCES = ["/skills/"]

# The annotations of these two have gaps that a strict reader does not accept.
_deepagents, _langchain = cast("Any", deepagents), cast("Any", langchain.agents)


class Talk:
    """A thread of one agent."""

    def __init__(self, agent: Any, model: Scripted, thread: str = "one") -> None:
        self.agent = agent
        self.model = model
        self.config: Any = {"configurable": {"thread_id": thread}}

    def say(self, text: str = "go on", **more: Any) -> dict[str, Any]:
        """One turn of the user."""
        return cast("dict[str, Any]", self.agent.invoke({"messages": [HumanMessage(text)], **more}, self.config))

    async def hear(self, text: str = "go on", **more: Any) -> dict[str, Any]:
        """One turn of the user, awaited."""
        answer = await self.agent.ainvoke({"messages": [HumanMessage(text)], **more}, self.config)
        return cast("dict[str, Any]", answer)

    @property
    def state(self) -> dict[str, Any]:
        """What the thread remembers now."""
        return cast("dict[str, Any]", self.agent.get_state(self.config).values)

    @property
    def loaded(self) -> list[str]:
        """The names of the loaded skills."""
        return cast("list[str]", self.state["skills_loaded"])

    def results(self) -> dict[str, str]:
        """The texts of all tool results, by the id of the call."""
        messages = cast("Sequence[AnyMessage]", self.state["messages"])
        return {message.tool_call_id: message.text for message in messages if isinstance(message, ToolMessage)}


def deep(
    backend: Any,
    script: Sequence[Line],
    *,
    saver: Any = None,
    more: Callable[[Scripted], Sequence[Any]] | None = None,
    agent: dict[str, Any] | None = None,
    **options: Any,
) -> Talk:
    """A thread of `create_deep_agent` with our middleware, `more` of it, and `agent` as arguments of that function."""
    model = Scripted(script=list(script))
    middleware = [*(more(model) if more else ()), SkillsMiddleware(backend=backend, sources=SOURCES, **options)]
    made = _deepagents.create_deep_agent(
        model, backend=backend, checkpointer=saver or InMemorySaver(), middleware=middleware, **(agent or {})
    )
    return Talk(made, model)


def plain(
    backend: Any, script: Sequence[Line], *, more: Sequence[Any] = (), later: Sequence[Any] = (), **options: Any
) -> Talk:
    """A thread of `create_agent` with our middleware after `more` and before `later`."""
    model = Scripted(script=list(script))
    middleware = SkillsMiddleware(backend=backend, sources=SOURCES, **options)
    made = _langchain.create_agent(model, middleware=[*more, middleware, *later], checkpointer=InMemorySaver())
    return Talk(made, model)


def compacting(backend: Any, *, after: int, keep: int = 1) -> Callable[[Scripted], Sequence[Any]]:
    """More middleware for `deep`: history is summarised, by the model itself, when a request has so many messages."""

    def middleware(model: Scripted) -> Sequence[Any]:
        summary = cast("Any", summarization).SummarizationMiddleware
        return [summary(model=model, backend=backend, trigger=("messages", after), keep=("messages", keep))]

    return middleware
