"""A chat model of LangChain that says what it was told to say, so that the examples need no key.

With a model of your own, `init_chat_model("anthropic:claude-sonnet-4-5")` for one, nothing else changes.
"""

from collections.abc import Sequence
from itertools import count
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import PrivateAttr

_NUMBERS = count(1)


class ScriptedChatModel(BaseChatModel):
    """Says one line after the other; `requests` is what it was asked."""

    lines: list[Any]
    _requests: list[list[BaseMessage]] = PrivateAttr(default_factory=list[list[BaseMessage]])

    @property
    def requests(self) -> list[list[BaseMessage]]:
        """The messages of every request so far."""
        return self._requests

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Sequence[Any], **more: Any) -> Any:
        """Whatever tools there are, the script is the same."""
        del tools, more
        return self

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        self._requests.append(list(messages))
        line = self.lines[len(self._requests) - 1]
        said = AIMessage(line) if isinstance(line, str) else line
        return ChatResult(generations=[ChatGeneration(message=said)])


def calling(tool: str, **arguments: Any) -> AIMessage:
    """A message in which the model calls a tool."""
    call: Any = {"name": tool, "args": arguments, "id": f"call-{next(_NUMBERS)}", "type": "tool_call"}
    return AIMessage("", tool_calls=[call])
