"""The loop: ask, call, ask again.

Ids of tool calls that are each used once in a conversation, whatever models and callbacks write.

Skills that want a sub-agent of their own: `context: fork` in their front matter.

The events of a run on their way to its reader. A reader that is slow makes the run wait, and not the memory grow.

The calls of one answer: at the same time where they may be, with results in their order.

How often models may be asked in one run, by the agent and by all that work for it.

One turn: the model is asked, its calls are made, and it is asked again, until it has an answer.

Fenced code blocks in answers, run in the workspace. Only for agents that ask for it.
"""

import asyncio
import json
import logging
import re
import secrets
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, cast

from openskills.agent.agent import ARTIFACT, DELTA, TOOL_CALL, Agent, ExtraTool, Message
from openskills.agent.models.model import ModelRequest, ModelResponse, TextDelta, ToolCall, Usage
from openskills.errors import (
    DeadlineExceeded,
    InvalidArgument,
    LimitExceeded,
    ModelUnavailable,
    SkillError,
    UnknownSkill,
)
from openskills.executors.records.journal import result_to_json
from openskills.executors.requests import RunRequest
from openskills.prompt.history import get_field, get_items
from openskills.runtime.session import SkillSession
from openskills.session.events import MESSAGE, TOOL_RESPONSE, Event, new_event
from openskills.tools.names import LOAD
from openskills.tools.tool import ToolResult, find_skill_argument

_MISTRAL_ID = re.compile(r"(?!\d+$)[A-Za-z0-9]{9}")
"""The ids of Mistral's models, whose servers refuse every other."""

_RANDOM_ID = re.compile(
    r"(?=[A-Za-z0-9]*[0-9][A-Za-z])[A-Za-z0-9]{8}|(?=[A-Za-z0-9]*[a-z][A-Z]|[A-Za-z0-9]*[A-Z][a-z])[A-Za-z0-9]{16}"
)
"""Many letters and digits in a row, mixed: what providers draw by lot has that, what is counted has not."""


class CallIds:
    """The ids that are taken. Some servers begin to count anew with every answer, and caches repeat whole answers.

    Another process may work on the conversation at the same time, and what it takes is not known here. So an id that
    was not drawn by lot gets the `tag`, which is, and the same in a whole run.
    """

    def __init__(self, events: Iterable[Event] = (), *, tag: str = "") -> None:
        self._taken = {identity for event in events for identity in _list_call_ids(event)}
        self._numbers: dict[str, int] = {}
        self._tag = tag or secrets.token_hex(5)

    def make_unique(self, calls: Sequence[ToolCall]) -> tuple[ToolCall, ...]:
        """The calls with ids that no other call has; from now on these are taken, too."""
        found: list[ToolCall] = []
        for call in calls:
            base = identity = self._choose_id(call)
            while identity in self._taken:
                self._numbers[base] = self._numbers.get(base, 1) + 1
                identity = f"{base}-{self._numbers[base]}"
            self._taken.add(identity)
            found.append(replace(call, id=identity))
        return tuple(found)

    def _choose_id(self, call: ToolCall) -> str:
        wanted = call.id or "call"
        is_strict = _MISTRAL_ID.fullmatch(wanted) is not None
        is_drawn = is_strict or _RANDOM_ID.search(wanted.replace(call.name, "")) is not None
        if is_drawn and wanted not in self._taken:
            return wanted
        return secrets.token_hex(5)[:9] if is_strict else f"{wanted}-{self._tag}"


def _list_call_ids(event: Event) -> list[str]:
    if event.kind == TOOL_CALL:
        return [str(event.payload.get("call_id"))]
    message = event.payload.get("message") if event.kind == MESSAGE else None
    calls = cast("Mapping[str, Any]", message).get("tool_calls") if isinstance(message, Mapping) else None
    return [str(call["id"]) for call in cast("Sequence[Any]", calls or ())]


FORK = "fork"


def find_forked_skill(session: SkillSession, call: ToolCall) -> str | None:
    """The skill of a call that loads one which wants to be worked on elsewhere; None for every other call."""
    if call.name != LOAD:
        return None
    try:
        found: object = json.loads(call.arguments)["skill"]
    except (ValueError, KeyError, TypeError, RecursionError):
        # What is wrong with it is for the tool to say.
        return None
    if not isinstance(found, str):
        return None
    try:
        skill = session.skill(found)
    except UnknownSkill:
        return None
    return skill.name if skill.manifest.context == FORK else None


def fork_agent(agent: Agent, skill: str) -> Agent:
    """The agent that works on a task with this skill: the same model, nothing else loaded, no sub-agents."""
    return replace(agent, name=f"{agent.name}.{skill}", sub_agents=(), tools=())


MAX_WAITING_EVENTS = 256
"""So many events may wait to be read before the run does."""
READER_TIMEOUT = 600.0
"""So many seconds a run waits for a reader that does not read."""


class EventStream:
    """Events in their order, from one run to one reader.

    What was stored is put in at once, whoever stored it: nobody who writes a log waits for a reader. The run itself
    waits in `room`, between two things that it does. So there are never many more events here than `most`.
    """

    def __init__(self, most: int = MAX_WAITING_EVENTS, patience: float = READER_TIMEOUT) -> None:
        self._max_waiting = most
        self._timeout = patience
        self._events: deque[Event] = deque()
        self._changed = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._read = 0
        self._ended = False
        self._is_abandoned = False

    def put(self, event: Event) -> None:
        """Add an event; it never waits."""
        self._events.append(event)
        self._changed.set()
        if len(self._events) >= self._max_waiting:
            self._room.clear()

    async def emit(self, event: Event) -> None:
        """Add an event, and wait for room for the next."""
        self.put(event)
        await self.wait_for_room()

    async def wait_for_room(self) -> None:
        """Wait until there is room. Raises `DeadlineExceeded` when nobody has read for too long, and ever after."""
        while not self._room.is_set():
            before = self._read
            try:
                async with asyncio.timeout(0 if self._is_abandoned else self._timeout):
                    await self._room.wait()
            except TimeoutError:
                if self._read == before:
                    self._is_abandoned = True
                    raise DeadlineExceeded(
                        f"nobody has read the events of this run for {self._timeout:g} seconds; it was ended"
                    ) from None

    def close(self) -> None:
        """Nothing more comes."""
        self._ended = True
        self._changed.set()

    async def get(self) -> Event | None:
        """The next event, None behind the last. For one reader."""
        while not self._events:
            if self._ended:
                return None
            self._changed.clear()
            await self._changed.wait()
        event = self._events.popleft()
        self._read += 1
        if len(self._events) < self._max_waiting:
            self._room.set()
        return event


_LOG = logging.getLogger("openskills")

CallResult = tuple[ToolCall, ToolResult]
USAGE_KEY = "model_usage"
"""In the data of a result: what another agent's model cost."""
Fork = Callable[[str], Awaitable[ToolResult]]
"""Lets a sub-agent work with a skill on the task of the turn."""


class ToolCaller:
    """Calls the tools of one agent in one session: those of the skills, and `extra` ones."""

    def __init__(
        self,
        agent: Agent,
        session: SkillSession,
        extra: Sequence[ExtraTool],
        stream: EventStream,
        fork: Fork | None = None,
    ) -> None:
        self._agent = agent
        self._stream = stream
        self._fork = fork
        self._session = session
        self._extra = {tool.name: tool for tool in extra}
        self._room = asyncio.Semaphore(agent.limits.parallel)

    def describe_tools(self) -> list[Any]:
        """All tools, as models want to be told about them."""
        return [*self._session.tools("openai"), *(tool.describe() for tool in self._extra.values())]

    async def call_all(self, calls: Sequence[ToolCall]) -> list[CallResult]:
        """Make every call, and give the results in the order of the calls. Cancelled, all of them end."""
        for call in calls:
            payload = {"call_id": call.id, "tool": call.name, "arguments": call.arguments}
            await self._session.log(TOOL_CALL, payload)
            await self._stream.wait_for_room()
        tasks: list[asyncio.Task[ToolResult]] = []
        loads: dict[object, asyncio.Task[ToolResult]] = {}
        # Begun in their order: the number that a call gets decides which of two changes is the later one.
        for call in calls:
            skill = _find_skill(call)
            tasks.append(asyncio.ensure_future(self._call_one(call, after=loads.get(skill))))
            if skill is not None and call.name == LOAD:
                # What else is wanted of this skill in the same answer may need that it is loaded.
                loads[skill] = tasks[-1]
        try:
            results = await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        return list(zip(calls, results, strict=True))

    async def refuse(self, calls: Sequence[ToolCall], why: str) -> None:
        """Answer calls that are not made, so that the log has no call without a result."""
        for call in calls:
            await self._log_result(call, ToolResult(f"error: {why}", error=LimitExceeded(why)))

    async def _call_one(self, call: ToolCall, *, after: asyncio.Task[ToolResult] | None) -> ToolResult:
        if after is not None:
            await asyncio.wait([after])
        async with self._room:
            await self._stream.wait_for_room()
            hooks = self._agent.callbacks
            result = await hooks.before_tool(self._agent.name, call) if hooks.before_tool else None
            skill = find_forked_skill(self._session, call) if self._fork else None
            if result is None and self._fork is not None and skill is not None:
                result = await self._fork(skill)
            if result is None and call.name not in self._extra:
                revise = partial(self._apply_after_tool, call)
                result = await self._session.call(call.name, call.arguments, call_id=call.id, revise=revise)
            else:
                result = result or await _call_function(self._extra[call.name].run, call.arguments)
                result = await self._apply_after_tool(call, result)
                await self._log_result(call, result)
            for artifact in get_items(result.data.get("artifact_files")):
                if isinstance(artifact, Mapping):
                    await self._session.log(ARTIFACT, {**cast("Mapping[str, Any]", artifact), "call_id": call.id})
            return result

    async def _apply_after_tool(self, call: ToolCall, result: ToolResult) -> ToolResult:
        after = self._agent.callbacks.after_tool
        return (await after(self._agent.name, call, result) if after else None) or result

    async def _log_result(self, call: ToolCall, result: ToolResult) -> None:
        payload = {
            "call_id": call.id,
            "tool": call.name,
            "content": result.text,
            "failed": result.error is not None,
        }
        await self._session.log(TOOL_RESPONSE, payload)


def _find_skill(call: ToolCall) -> str | None:
    skill = find_skill_argument(call.arguments)
    return skill if isinstance(skill, str) else None


async def _call_function(run: Callable[[Mapping[str, Any]], Awaitable[ToolResult | str]], arguments: str) -> ToolResult:
    try:
        result = await run(_parse_object(arguments))
    except SkillError as error:
        return ToolResult.from_error(error)
    except Exception as error:  # noqa: BLE001
        # A door to somebody's function: its fault must not end the run, and the model cannot mend it. The log has it.
        _LOG.exception("a tool of the application failed")
        return ToolResult.from_error(SkillError(f"the tool failed inside ({type(error).__name__}); try something else"))
    if isinstance(result, str):
        return ToolResult(result)
    if not isinstance(result, ToolResult):  # pyright: ignore[reportUnnecessaryIsInstance] - it is somebody's function
        return ToolResult.from_error(SkillError(f"the tool gave a {type(result).__name__}; it has to give text"))
    return result


def _parse_object(arguments: str) -> Mapping[str, Any]:
    try:
        found: object = json.loads(arguments or "{}")
    except (ValueError, RecursionError) as error:
        raise InvalidArgument("arguments", f"are no JSON ({str(error)[:200]}); send one JSON object") from None
    if not isinstance(found, dict):
        raise InvalidArgument("arguments", "are no JSON object; send one")
    return cast("dict[str, Any]", found)


class ModelCallCounter:
    """Counts the requests of one run. What a callback answers in the place of a model is none."""

    def __init__(self, most: int) -> None:
        self._max_calls = most
        self._count = 0

    def count_call(self) -> None:
        """A model is about to be asked. Raises `LimitExceeded` when that is one too many."""
        if self._count >= self._max_calls:
            raise LimitExceeded(
                f"more than {self._max_calls} model calls were wanted in this run; it was ended", limit="model_calls"
            )
        self._count += 1


@dataclass(slots=True)
class TurnResult:
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
        stream: EventStream,
        ids: CallIds,
        asked: ModelCallCounter,
        extra: Sequence[ExtraTool] = (),
        instructions: str = "",
        fork: Fork | None = None,
        done: TurnResult | None = None,
    ) -> None:
        self._agent = agent
        self._session = session
        self._messages = messages
        self._stream = stream
        self._ids = ids
        self._model_calls = asked
        self._calls = ToolCaller(agent, session, extra, stream, fork)
        # Always something: what a session shows first stands at the end of it, whatever comes to stand behind.
        self._instructions = instructions or agent.instructions or f"You are {agent.name}."
        self.result = done or TurnResult()

    async def run(self) -> TurnResult:
        """Work until the model has an answer. Raises `LimitExceeded` when it takes more than is allowed."""
        limits = self._agent.limits
        while True:
            if self.result.steps >= limits.steps:
                raise LimitExceeded(
                    f"the model wanted more than {limits.steps} steps; the run was ended", limit="steps"
                )
            answer = await self._ask()
            self.result.steps += 1
            self.result.usage += answer.usage
            await self._log_response(answer)
            if not answer.calls:
                self.result.text = answer.text
                return self.result
            self.result.tool_calls += len(answer.calls)
            if self.result.tool_calls > limits.tool_calls:
                why = f"the model wanted more than {limits.tool_calls} tool calls; the run was ended"
                await self._calls.refuse(answer.calls, why)
                raise LimitExceeded(why, limit="tool_calls")
            for call, result in await self._calls.call_all(answer.calls):
                self._messages.append(_build_message(call, result))
                self.result.usage += _parse_usage(result)

    async def _ask(self) -> ModelResponse:
        hooks, name = self._agent.callbacks, self._agent.name
        request: ModelRequest | ModelResponse = self._build_request()
        if hooks.before_model:
            request = await hooks.before_model(name, request) or request
        answer = request if isinstance(request, ModelResponse) else await self._stream_response(request)
        if hooks.after_model:
            answer = await hooks.after_model(name, answer) or answer
        # More are refused anyway, and each that is kept costs a line in the log.
        calls = answer.calls[: self._agent.limits.tool_calls + 1]
        return replace(answer, calls=self._ids.make_unique(calls))

    def _build_request(self) -> ModelRequest:
        system = {"role": "system", "content": self._instructions}
        sent = self._session.context([system, *self._messages])
        return ModelRequest(sent, self._calls.describe_tools(), max_output_tokens=self._agent.max_output_tokens)

    async def _stream_response(self, request: ModelRequest) -> ModelResponse:
        model = self._agent.model
        assert not isinstance(model, str)  # noqa: S101 - `Agent` has made one of its name
        answer: ModelResponse | None = None
        self._model_calls.count_call()
        async with aclosing(model.stream(request)) as stream:
            async for event in stream:
                if isinstance(event, TextDelta):
                    await self._stream.emit(new_event(self._agent.name, DELTA, {"text": event.text}))
                else:
                    answer = event
        if answer is None:
            raise ModelUnavailable(f"{model.name} ended without an answer")
        return answer

    async def _log_response(self, answer: ModelResponse) -> None:
        message = answer.to_message()
        self._messages.append(message)
        usage = {"input": answer.usage.input, "output": answer.usage.output, "cached": answer.usage.cached}
        payload = {"message": message, "model": answer.model, "usage": usage, "stop": answer.stop}
        await self._session.log(MESSAGE, payload)


def _parse_usage(result: ToolResult) -> Usage:
    """What a result has cost; what a tool of the application put in its place costs nothing."""
    cost = result.data.get(USAGE_KEY)
    numbers = {name: get_field(cost, name) for name in ("input", "output", "cached")}
    return Usage(**{name: number for name, number in numbers.items() if isinstance(number, int)})


def _build_message(call: ToolCall, result: ToolResult) -> Message:
    return {"role": "tool", "tool_call_id": call.id, "content": result.text}


_FENCE = "```"
_OPENING = re.compile(r"```([\w+-]*)(?:\s.*)?")
_PROGRAMS = {"python": "python3", "py": "python3", "python3": "python3", "bash": "bash", "sh": "sh", "shell": "bash"}
_MAX_ROUNDS = 5
_MAX_OUTPUT_CHARS = 4_000


def find_code_blocks(text: str) -> list[tuple[str, str]]:
    """Program and code of every closed block that can be run."""
    found: list[tuple[str, str]] = []
    program: str | None = None
    code: list[str] | None = None
    for line in text.splitlines():
        if code is None:
            opening = _OPENING.fullmatch(line)
            if opening:
                program, code = _PROGRAMS.get(opening[1].lower()), []
        elif line.rstrip() == _FENCE:
            if program is not None:
                found.append((program, "".join(f"{one}\n" for one in code)))
            code = None
        else:
            code.append(line)
    return found


async def run_with_code_blocks(agent: Agent, session: SkillSession, turn: Turn, messages: list[Message]) -> TurnResult:
    """The turn to its end; with `code_blocks`, blocks of an answer are run, and the model goes on with their output.

    Where the session's model has no tool that runs commands, as with the profile `knowledge_only`, no block is run.
    """
    done = await turn.run()
    rounds = 0
    runs = agent.code_blocks and session.can_run_commands
    while runs and rounds < _MAX_ROUNDS and (found := find_code_blocks(done.text)):
        rounds += 1
        outputs = [await _run_code(session, program, code) for program, code in found]
        message: Message = {"role": "user", "content": "Output of your code:\n\n" + "\n\n".join(outputs)}
        await session.log(MESSAGE, {"to": agent.name, "message": message, "why": "code blocks"})
        messages.append(message)
        done = await turn.run()
    return done


async def _run_code(session: SkillSession, program: str, code: str) -> str:
    options = session.options
    request = RunRequest(
        (program, "-"),
        stdin=code.encode("utf-8", "replace"),
        cwd="$WORK_DIR",
        env=options.environment,
        limits=options.limits,
        network=options.network,
    )
    try:
        ran = await (await session.open_runner()).run(request)
    except SkillError as error:
        return f"error: {error.message}"
    result = result_to_json(ran)
    parts = [part for part in (result["stdout"], result["stderr"]) if part]
    text = "\n".join(parts)[:_MAX_OUTPUT_CHARS] or "(no output)"
    return f"exit code {result['exit_code']}\n{text}"
