"""A chat model that says what it was told to say, and remembers what it was asked."""

from collections.abc import Callable, Sequence
from typing import Any, cast

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, ToolCall
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool
from pydantic import PrivateAttr

Line = AIMessage | str | Callable[[Sequence[BaseMessage]], AIMessage | str]
"""One answer, or a function that makes it of the messages."""


class Scripted(BaseChatModel):
    """Plays `script`, one line for each call; when it is through, it says "done".

    `requests` has the messages of every call, `offered` the names of the tools that were bound to it.
    """

    script: list[Any]
    label: str = "scripted"
    _requests: list[list[AnyMessage]] = PrivateAttr(default_factory=list[list[AnyMessage]])
    _offered: list[list[str]] = PrivateAttr(default_factory=list[list[str]])

    @property
    def requests(self) -> list[list[AnyMessage]]:
        """The messages of every call so far."""
        return self._requests

    @property
    def offered(self) -> list[list[str]]:
        """The names of the tools at each binding."""
        return self._offered

    def prompt(self, call: int = -1) -> str:
        """The system message of a call."""
        return self._requests[call][0].text

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool],
        *,
        tool_choice: str | None = None,  # noqa: ARG002
        **kwargs: Any,  # noqa: ARG002
    ) -> Runnable[Any, AIMessage]:
        """See `BaseChatModel`."""
        self._offered.append([tool.name for tool in tools if isinstance(tool, BaseTool)])
        return self.bind()

    @property
    def _llm_type(self) -> str:
        return self.label

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,  # noqa: ARG002
        run_manager: CallbackManagerForLLMRun | None = None,  # noqa: ARG002
        **kwargs: Any,  # noqa: ARG002
    ) -> ChatResult:
        self._requests.append([message.model_copy() for message in messages])  # type: ignore[misc]
        place = len(self._requests) - 1
        line = cast("Line", self.script[place]) if place < len(self.script) else "done"
        said = line if isinstance(line, AIMessage | str) else line(messages)
        message = AIMessage(said) if isinstance(said, str) else said.model_copy()
        return ChatResult(generations=[ChatGeneration(message=message)])


def call(tool: str, call_id: str, **args: Any) -> ToolCall:
    """One call of a tool."""
    return ToolCall(name=tool, args=args, id=call_id, type="tool_call")


def says(*calls: ToolCall, text: str = "") -> AIMessage:
    """A message that makes these calls."""
    return AIMessage(text, tool_calls=list(calls))


def load(skill: str, call_id: str | None = None) -> ToolCall:
    """A call of `load_skill`."""
    return call("load_skill", call_id or f"load-{skill}", skill_name=skill)


def unload(skill: str, call_id: str | None = None) -> ToolCall:
    """A call of `unload_skill`."""
    return call("unload_skill", call_id or f"unload-{skill}", skill_name=skill)
