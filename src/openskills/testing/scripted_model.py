"""A model that says what it was told to say, for tests of what stands above a model."""

import copy
import inspect
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from openskills.agent.model import Answer, ModelEvent, ModelRequest, TextDelta, ToolCall
from openskills.agent.wire.calls import settled

Told: TypeAlias = Answer | str | BaseException
"""An answer, the text of one, or an error to raise."""

Line: TypeAlias = Told | Callable[[ModelRequest], Told | Awaitable[Told]]
"""One line of a script; a function sees the request, and may be async."""


class ScriptedModel:
    """Gives one line of its script to each request, in order; implements `Model`.

    Text streams in pieces of `piece` characters. Calls get ids that no other call of the conversation has; those that
    name one keep it. `requests` has what was asked, as it was then. A request for which nothing was written is an
    `AssertionError`.
    """

    def __init__(self, script: Iterable[Line], *, name: str = "scripted", piece: int = 8) -> None:
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
        """See `Model.stream`."""
        self.requests.append(copy.deepcopy(request))
        told = await self._told(request)
        if isinstance(told, BaseException):
            raise told
        answer = _answer(told, request, self._name)
        for start in range(0, len(answer.text), self._piece):
            yield TextDelta(answer.text[start : start + self._piece])
        yield answer

    async def close(self) -> None:
        """Remember that it was closed."""
        self.closed = True

    async def _told(self, request: ModelRequest) -> Told:
        try:
            line = next(self._script)
        except StopIteration:
            raise AssertionError(f"request {len(self.requests)} came, and the script has no answer to it") from None
        if isinstance(line, Answer | str | BaseException):
            return line
        told = line(request)
        return await told if inspect.isawaitable(told) else told


def calling(*calls: tuple[str, Mapping[str, Any]], text: str = "") -> Answer:
    """An answer that calls tools, each with its name and its arguments: `calling(("skill_load", {"skill": "pdf"}))`."""
    made = tuple(ToolCall("", name, json.dumps(arguments, ensure_ascii=False)) for name, arguments in calls)
    return Answer(text, made, stop="tool_calls")


def _answer(told: Answer | str, request: ModelRequest, name: str) -> Answer:
    answer = Answer(told) if isinstance(told, str) else told
    stop = "tool_calls" if answer.calls and answer.stop == "stop" else answer.stop
    return replace(answer, calls=settled(answer.calls, request), stop=stop, model=answer.model or name)
