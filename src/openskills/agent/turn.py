"""One turn: the model is asked, its calls are made, and it is asked again, until it has an answer."""

from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace

from openskills.agent.agent import Agent
from openskills.agent.call_ids import CallIds
from openskills.agent.calls import COST, Calls, Fork
from openskills.agent.extra_tool import ExtraTool
from openskills.agent.log import DELTA, Message
from openskills.agent.model import Answer, ModelRequest, TextDelta, ToolCall, Usage
from openskills.agent.model_calls import ModelCalls
from openskills.agent.stream import Stream
from openskills.errors import LimitExceeded, ModelUnavailable
from openskills.prompt.messages import get
from openskills.runtime.session import SkillSession
from openskills.session.events import MESSAGE, new_event
from openskills.tools.result import ToolResult


@dataclass(slots=True)
class Done:
    """What a turn came to."""

    text: str = ""
    usage: Usage = field(default_factory=Usage)
    steps: int = 0
    tool_calls: int = 0


class Turn:
    """The turn of one agent. `messages` grows as the conversation does; `stream` gets what is not stored."""

    def __init__(
        self,
        agent: Agent,
        session: SkillSession,
        messages: list[Message],
        *,
        stream: Stream,
        ids: CallIds,
        asked: ModelCalls,
        extra: Sequence[ExtraTool] = (),
        instructions: str = "",
        fork: Fork | None = None,
        done: Done | None = None,
    ) -> None:
        self._agent = agent
        self._session = session
        self._messages = messages
        self._stream = stream
        self._ids = ids
        self._asked = asked
        self._calls = Calls(agent, session, extra, stream, fork)
        # Always something: what a session shows first stands at the end of it, whatever comes to stand behind.
        self._instructions = instructions or agent.instructions or f"You are {agent.name}."
        self.done = done or Done()

    async def run(self) -> Done:
        """Work until the model has an answer. Raises `LimitExceeded` when it takes more than is allowed."""
        limits = self._agent.limits
        while True:
            if self.done.steps >= limits.steps:
                raise LimitExceeded(
                    f"the model wanted more than {limits.steps} steps; the run was ended", limit="steps"
                )
            answer = await self._ask()
            self.done.steps += 1
            self.done.usage += answer.usage
            await self._said(answer)
            if not answer.calls:
                self.done.text = answer.text
                return self.done
            self.done.tool_calls += len(answer.calls)
            if self.done.tool_calls > limits.tool_calls:
                why = f"the model wanted more than {limits.tool_calls} tool calls; the run was ended"
                await self._calls.refuse(answer.calls, why)
                raise LimitExceeded(why, limit="tool_calls")
            for call, result in await self._calls.all(answer.calls):
                self._messages.append(_result(call, result))
                self.done.usage += _cost(result)

    async def _ask(self) -> Answer:
        hooks, name = self._agent.callbacks, self._agent.name
        request: ModelRequest | Answer = self._request()
        if hooks.before_model:
            request = await hooks.before_model(name, request) or request
        answer = request if isinstance(request, Answer) else await self._streamed(request)
        if hooks.after_model:
            answer = await hooks.after_model(name, answer) or answer
        # More are refused anyway, and each that is kept costs a line in the log.
        calls = answer.calls[: self._agent.limits.tool_calls + 1]
        return replace(answer, calls=self._ids.unique(calls))

    def _request(self) -> ModelRequest:
        system = {"role": "system", "content": self._instructions}
        sent = self._session.context([system, *self._messages])
        return ModelRequest(sent, self._calls.described(), max_output_tokens=self._agent.max_output_tokens)

    async def _streamed(self, request: ModelRequest) -> Answer:
        model = self._agent.model
        assert not isinstance(model, str)  # noqa: S101 - `Agent` has made one of its name
        answer: Answer | None = None
        self._asked.one_more()
        async with aclosing(model.stream(request)) as stream:
            async for event in stream:
                if isinstance(event, TextDelta):
                    await self._stream.emit(new_event(self._agent.name, DELTA, {"text": event.text}))
                else:
                    answer = event
        if answer is None:
            raise ModelUnavailable(f"{model.name} ended without an answer")
        return answer

    async def _said(self, answer: Answer) -> None:
        message = answer.message()
        self._messages.append(message)
        usage = {"input": answer.usage.input, "output": answer.usage.output, "cached": answer.usage.cached}
        payload = {"message": message, "model": answer.model, "usage": usage, "stop": answer.stop}
        await self._session.log(MESSAGE, payload)


def _cost(result: ToolResult) -> Usage:
    """What a result has cost; what a tool of the application put in its place costs nothing."""
    cost = result.data.get(COST)
    numbers = {name: get(cost, name) for name in ("input", "output", "cached")}
    return Usage(**{name: number for name, number in numbers.items() if isinstance(number, int)})


def _result(call: ToolCall, result: ToolResult) -> Message:
    return {"role": "tool", "tool_call_id": call.id, "content": result.text}
