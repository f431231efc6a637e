"""A scripted model for tests."""

import copy
import inspect
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from openskills.agent.models.model import ModelEvent, ModelRequest, ModelResponse, TextDelta, ToolCall, normalise_calls
from openskills.arguments import check_arguments

ScriptedAnswer: TypeAlias = ModelResponse | str | BaseException
"""An answer, the text of one, or an error to raise."""

ScriptLine: TypeAlias = ScriptedAnswer | Callable[[ModelRequest], ScriptedAnswer | Awaitable[ScriptedAnswer]]
"""One line of a script; a function sees the request, and may be async."""


@check_arguments
class ScriptedModel:
    """Gives one line of its script to each request, in order; implements `Model`.

    Text streams in pieces of `piece` characters. Calls get ids that no other call of the conversation has; those that
    name one keep it. `requests` has what was asked, as it was then. A request for which nothing was written is an
    `AssertionError`.
    """

    def __init__(self, script: Iterable[ScriptLine], *, name: str = "scripted", piece: int = 8) -> None:
        self._script = iter(script)
        self._name = name
        self._piece = piece
        self.requests: list[ModelRequest] = []
        self.closed = False

    @property
    def name(self) -> str:
        """How it is called in logs and results."""
        return self._name

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        self.requests.append(copy.deepcopy(request))
        told = await self._next_answer(request)
        if isinstance(told, BaseException):
            raise told
        answer = _build_answer(told, request, self._name)
        for start in range(0, len(answer.text), self._piece):
            yield TextDelta(answer.text[start : start + self._piece])
        yield answer

    async def close(self) -> None:
        """Remember that it was closed."""
        self.closed = True

    async def _next_answer(self, request: ModelRequest) -> ScriptedAnswer:
        try:
            line = next(self._script)
        except StopIteration:
            raise AssertionError(f"request {len(self.requests)} came, and the script has no answer to it") from None
        if isinstance(line, ModelResponse | str | BaseException):
            return line
        told = line(request)
        return await told if inspect.isawaitable(told) else told


@check_arguments
def call_tools(*calls: tuple[str, Mapping[str, Any]], text: str = "") -> ModelResponse:
    """An answer that calls tools, each with name and arguments: `call_tools(("skill_load", {"skill": "pdf"}))`."""
    made = tuple(ToolCall("", name, json.dumps(arguments, ensure_ascii=False)) for name, arguments in calls)
    return ModelResponse(text, made, stop="tool_calls")


def _build_answer(told: ModelResponse | str, request: ModelRequest, name: str) -> ModelResponse:
    answer = ModelResponse(told) if isinstance(told, str) else told
    stop = "tool_calls" if answer.calls and answer.stop == "stop" else answer.stop
    return replace(answer, calls=normalise_calls(answer.calls, request), stop=stop, model=answer.model or name)
