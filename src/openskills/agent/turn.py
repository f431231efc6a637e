"""`Turn`: ask the model, make its tool calls, and ask again until it answers; call ids, event streams, code blocks."""

import asyncio
import hashlib
import inspect
import json
import logging
import re
import secrets
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any, cast

from openskills.agent.agent import (
    ARTIFACT,
    CODE_BLOCKS,
    DELTA,
    TOOL_CALL,
    Agent,
    ExtraTool,
    Message,
    check_schema,
    settle,
)
from openskills.agent.models.model import ModelRequest, ModelResponse, TextDelta, ToolCall, Usage
from openskills.artifacts.store import Scope
from openskills.errors import DeadlineExceeded, LimitExceeded, ModelUnavailable, SkillError, UnknownSkill
from openskills.executors.records.journal import result_to_json
from openskills.executors.requests import RunRequest
from openskills.prompt.history import get_field, get_items, get_tool_calls
from openskills.prompt.usage import REQUEST, RequestTokens, encode_json, list_references, pack_body
from openskills.runtime.session import SkillSession
from openskills.session.events import MESSAGE, TOOL_RESPONSE, Event, new_event
from openskills.session.store import SessionKey, SessionStore, digest_ids
from openskills.tools.names import LOAD
from openskills.tools.tool import ToolResult, find_skill_argument, parse_object

_MISTRAL_ID = re.compile(r"(?!\d+$)[A-Za-z0-9]{9}")
"""Ids of Mistral's models, whose servers reject all others."""

_RANDOM_ID = re.compile(
    r"(?=[A-Za-z0-9]*[0-9][A-Za-z])[A-Za-z0-9]{8}|(?=[A-Za-z0-9]*[a-z][A-Z]|[A-Za-z0-9]*[A-Z][a-z])[A-Za-z0-9]{16}"
)
"""Mixed letters and digits in a row, as in random ids, but not in counters."""


class CallIds:
    """Unique ids for tool calls. Some servers restart their counter with every answer, and caches repeat answers.

    Another process may work on the conversation at the same time, so ids that do not look random get the `tag`, which
    is random and the same for a whole run.
    """

    def __init__(self, events: Iterable[Event] = (), *, tag: str = "") -> None:
        self._taken = {identity for event in events for identity in _list_call_ids(event)}
        self._numbers: dict[str, int] = {}
        self._tag = tag or secrets.token_hex(5)

    def make_unique(self, calls: Sequence[ToolCall]) -> tuple[ToolCall, ...]:
        """Return the calls with ids that no other call has."""
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
    return [call.id for call in get_tool_calls(event.payload.get("message"))] if event.kind == MESSAGE else []


FORK = "fork"


def find_forked_skill(session: SkillSession, call: ToolCall) -> str | None:
    """The skill of a `skill_load` call if it has `context: fork`; None for every other call."""
    found = find_skill_argument(call.arguments) if call.name == LOAD else None
    if found is None:
        return None
    try:
        skill = session.skill(found)
    except UnknownSkill:
        return None
    return skill.name if skill.manifest.context == FORK else None


MAX_WAITING_EVENTS = 256
"""A run waits while this many events are unread."""
READER_TIMEOUT = 600.0
"""Seconds that a run waits for its reader."""


class EventStream:
    """Events from one run to one reader, with backpressure.

    Stored events are added at once (`put`), so that writing to the log never waits for the reader. The run itself waits
    in `wait_for_room` between its steps, which keeps the queue near `max_waiting`.
    """

    def __init__(self, max_waiting: int = MAX_WAITING_EVENTS, timeout: float = READER_TIMEOUT) -> None:
        self._max_waiting = max_waiting
        self._timeout = timeout
        self._events = asyncio.Queue[Event | None]()
        self._room = asyncio.Event()
        self._room.set()
        self._read = 0
        self._is_abandoned = False

    def put(self, event: Event) -> None:
        """Add an event without waiting."""
        self._events.put_nowait(event)
        if self._events.qsize() >= self._max_waiting:
            self._room.clear()

    async def emit(self, event: Event) -> None:
        """Add an event and wait for room for the next."""
        self.put(event)
        await self.wait_for_room()

    async def wait_for_room(self) -> None:
        """Wait until there is room. Raises `DeadlineExceeded`, then and ever after, if nothing is read for too long."""
        while not self._room.is_set():
            before = self._read
            try:
                async with asyncio.timeout(0 if self._is_abandoned else self._timeout):
                    await self._room.wait()
            except TimeoutError:
                if self._read == before:
                    self._is_abandoned = True
                    raise DeadlineExceeded(
                        f"the events of this run were not read for {self._timeout:g} seconds; it was stopped"
                    ) from None

    def close(self) -> None:
        """End the stream."""
        self._events.put_nowait(None)

    async def get(self) -> Event | None:
        """Return the next event, and None once after the last."""
        event = await self._events.get()
        self._read += 1
        if self._events.qsize() < self._max_waiting:
            self._room.set()
        return event


_LOG = logging.getLogger("openskills")

CallResult = tuple[ToolCall, ToolResult]
USAGE_KEY = "model_usage"
"""In the data of a result: the usage of a sub-agent's model."""
Fork = Callable[[str], Awaitable[ToolResult]]
"""Runs a sub-agent with a skill on the task of the turn."""


async def _call_function(tool: ExtraTool, arguments: str) -> ToolResult:
    try:
        given = parse_object(arguments)
        if not tool.checks_arguments:
            check_schema(given, tool.parameters)
        is_async = inspect.iscoroutinefunction(tool.run)
        result = tool.run(given) if is_async else await asyncio.to_thread(tool.run, given)
        result = await settle(result)
        if not isinstance(result, ToolResult | str):
            result = json.dumps(result, ensure_ascii=False)
    except SkillError as error:
        return ToolResult.from_error(error)
    except Exception as error:  # noqa: BLE001
        # A bug in the application's function must not end the run, and the model cannot fix it.
        _LOG.exception("a tool of the application failed")
        message = f"the tool failed with an internal error ({type(error).__name__}); try something else"
        return ToolResult.from_error(SkillError(message))
    return ToolResult(result) if isinstance(result, str) else result


class ModelCallCounter:
    """Counts the model calls of one run, including sub-agents. Answers from callbacks do not count."""

    def __init__(self, max_calls: int) -> None:
        self._max_calls = max_calls
        self._count = 0

    def count_call(self) -> None:
        """Count a model call. Raises `LimitExceeded` if it is one too many."""
        if self._count >= self._max_calls:
            raise LimitExceeded(
                f"the run was stopped: it needs more than {self._max_calls} model calls", limit="model_calls"
            )
        self._count += 1


MAX_REQUEST_BYTES = 8 * 1024 * 1024
"""Larger requests are recorded without their body."""
MAX_RECORDED_BYTES = 64 * 1024 * 1024
"""Of one conversation; later requests are recorded without their body."""
_RECORDS_APP = "openskills.requests"
_AFTER_LAST_EVENT = 2**53


def build_records_key(key: SessionKey | Scope) -> SessionKey:
    """The key of the log with the recorded requests of a conversation."""
    return SessionKey(_RECORDS_APP, key.user, digest_ids(key.app, key.user, key.session))


class RequestRecorder:
    """Records the requests of a conversation, in a log of their own in its store; every message and tool only once.

    A request that cannot be recorded is logged and does not end the run.
    """

    def __init__(self, store: SessionStore, scope: Scope) -> None:
        self._store = store
        self._key = build_records_key(scope)
        self._state: Mapping[str, str] | None = None
        self._writing = asyncio.Lock()

    async def write(self, agent: str, model: str, tokens: RequestTokens, body: bytes) -> int | None:
        """Record a request; returns its number, None if that failed."""
        try:
            async with self._writing:
                return await self._write(agent, model, tokens, body)
        except SkillError as error:
            _LOG.warning("cannot record a request: %s", error.message)
            return None

    async def _write(self, agent: str, model: str, tokens: RequestTokens, body: bytes) -> int:
        if self._state is None:
            # Only the state, without the events.
            found = await self._store.get(self._key, after=_AFTER_LAST_EVENT)
            self._state = found.state if found else {}
        # The parts of the previous request of this agent are in the log.
        last, used = f"last:{agent}", int(self._state.get("bytes", 0))
        parts, texts = pack_body(body, frozenset(self._state.get(last, "").split()))
        size = sum(map(len, texts.values()))
        described = _describe_tokens(tokens)
        delta = {f"tokens:{agent}": json.dumps(described)}
        if len(body) > MAX_REQUEST_BYTES or used + size > MAX_RECORDED_BYTES:
            parts, texts = [], {}
        else:
            delta |= {"bytes": str(used + size), last: " ".join(list_references(parts))}
        payload = {
            "model": model,
            "digest": hashlib.sha256(body).hexdigest(),
            "size": len(body),
            "parts": parts,
            "texts": texts,
            "tokens": described,
        }
        done = await self._store.append(self._key, new_event(agent, REQUEST, payload, delta))
        self._state = done.state
        return done.event.seq


class Recording:
    """The requests of one step, written while the model answers."""

    def __init__(self, recorder: RequestRecorder, agent: str, model: str, tokens: RequestTokens) -> None:
        self._write = partial(recorder.write, agent, model, tokens)
        self._model = model
        self._last: bytes | None = None
        self._task: asyncio.Task[int | None] | None = None

    def __deepcopy__(self, memo: dict[int, Any]) -> "Recording":
        # A model or callback may copy the request, whose `on_send` refers to this.
        return self

    def add(self, body: bytes) -> None:
        """Record a body, unless it is the same as before: a retry."""
        if body != self._last:
            self._last = body
            self._task = asyncio.get_running_loop().create_task(self._write(body))

    async def finish(self, request: ModelRequest | None) -> int | None:
        """Wait until everything is written; returns the number of the last request.

        What a model without HTTP has answered is recorded as JSON; `request` is None if there was no answer.
        """
        if self._task is None:
            if request is None:
                return None
            body = {"model": self._model, "messages": list(request.messages), "tools": list(request.tools)}
            self.add(encode_json(body).encode("utf-8", "surrogatepass"))
        assert self._task is not None  # noqa: S101 - created above
        return await self._task


def _describe_tokens(tokens: RequestTokens) -> dict[str, Any]:
    return {
        "total": tokens.total,
        "layers": {str(layer): count for layer, count in tokens.by_layer.items()},
        "skills": dict(tokens.by_skill),
        "unchanged": tokens.unchanged,
        "estimated": tokens.estimated,
    }


@dataclass(slots=True)
class TurnResult:
    """The result of a turn."""

    text: str = ""
    usage: Usage = field(default_factory=Usage)
    steps: int = 0
    tool_calls: int = 0


@dataclass(frozen=True, slots=True)
class AgentRunContext:
    """What the agents of one run share."""

    session: SkillSession
    stream: EventStream
    ids: CallIds
    model_calls: ModelCallCounter
    recorder: RequestRecorder | None = None


class Turn:
    """One turn of an agent. It appends to `messages`; the stream of `work` gets text deltas, which are not stored."""

    def __init__(
        self,
        agent: Agent,
        work: AgentRunContext,
        messages: list[Message],
        *,
        extra: Sequence[ExtraTool] = (),
        instructions: str = "",
        fork: Fork | None = None,
        done: TurnResult | None = None,
    ) -> None:
        self._agent = agent
        self._work = work
        self._session = work.session
        self._recorded: int | None = None
        self._messages = messages
        self._extra = {tool.name: tool for tool in extra}
        self._fork = fork
        self._room = asyncio.Semaphore(agent.limits.parallel)
        # Never empty, so that the skill overview always follows a system message of our own.
        self._instructions = instructions or agent.instructions or f"You are {agent.name}."
        self.result = done or TurnResult()
        self._is_new = True
        self._asked = len(messages) - 1

    async def run(self) -> TurnResult:
        """Run until the model answers. Raises `LimitExceeded` if it takes too many steps or calls."""
        limits = self._agent.limits
        while True:
            if self.result.steps >= limits.steps:
                raise LimitExceeded(f"the run was stopped: it needs more than {limits.steps} steps", limit="steps")
            if self._agent.summary is not None and await self._agent.summary.compact_turn(
                self._agent.name, self._session, self._messages, self._asked
            ):
                self._asked = 1
            answer = await self._ask()
            self.result.steps += 1
            self.result.usage += answer.usage
            await self._log_response(answer)
            if not answer.calls:
                self.result.text = answer.text
                return self.result
            self.result.tool_calls += len(answer.calls)
            if self.result.tool_calls > limits.tool_calls:
                why = f"the run was stopped: it needs more than {limits.tool_calls} tool calls"
                # Every call in the log has a result.
                for call in answer.calls:
                    await self._log_result(call, ToolResult(f"error: {why}", error=LimitExceeded(why)))
                raise LimitExceeded(why, limit="tool_calls")
            for call, result in await self._call_all(answer.calls):
                self._messages.append({"role": "tool", "tool_call_id": call.id, "content": result.text})
                self.result.usage += _parse_usage(result)

    async def _ask(self) -> ModelResponse:
        hooks, name = self._agent.callbacks, self._agent.name
        request: ModelRequest | ModelResponse = self._build_request()
        if hooks.before_model:
            request = await settle(hooks.before_model(name, request)) or request
        answer = request if isinstance(request, ModelResponse) else await self._stream_response(request)
        if hooks.after_model:
            answer = await settle(hooks.after_model(name, answer)) or answer
        # Excess calls are refused anyway, and each costs a line in the log.
        calls = answer.calls[: self._agent.limits.tool_calls + 1]
        return replace(answer, calls=self._work.ids.make_unique(calls))

    def _build_request(self) -> ModelRequest:
        system = {"role": "system", "content": self._instructions}
        # Later user messages, such as the output of code blocks, belong to the same turn.
        tools = [*self._session.tools("openai", usable=True), *(tool.describe() for tool in self._extra.values())]
        sent = self._session.context([system, *self._messages], new_turn=self._is_new, tools=tools)
        self._is_new = False
        return ModelRequest(
            sent, tools, max_output_tokens=self._agent.max_output_tokens, loaded_skills=self._session.loaded_skills()
        )

    async def _stream_response(self, request: ModelRequest) -> ModelResponse:
        model = self._agent.model
        assert not isinstance(model, str)  # noqa: S101 - `Agent` opened it
        answer: ModelResponse | None = None
        self._work.model_calls.count_call()
        recording = None
        if self._work.recorder is not None:
            recording = Recording(self._work.recorder, self._agent.name, model.name, self._session.ledger.last[-1])
            request = replace(request, on_send=recording.add)
        try:
            async with aclosing(model.stream(request)) as stream:
                async for event in stream:
                    if isinstance(event, TextDelta):
                        await self._work.stream.emit(new_event(self._agent.name, DELTA, {"text": event.text}))
                    else:
                        answer = event
        finally:
            if recording is not None:
                self._recorded = await recording.finish(None if answer is None else request)
        if answer is None:
            raise ModelUnavailable(f"{model.name} returned no answer")
        return answer

    async def _log_response(self, answer: ModelResponse) -> None:
        message = answer.to_message()
        self._messages.append(message)
        usage = asdict(answer.usage)
        payload: dict[str, Any] = {"message": message, "model": answer.model, "usage": usage, "stop": answer.stop}
        if self._recorded is not None:
            payload["request"], self._recorded = self._recorded, None
        await self._session.log(MESSAGE, payload)

    async def _call_all(self, calls: Sequence[ToolCall]) -> list[CallResult]:
        """Make all calls in parallel; return the results in the order of the calls. Cancelling cancels all of them."""
        for call in calls:
            payload = {"call_id": call.id, "tool": call.name, "arguments": call.arguments}
            await self._session.log(TOOL_CALL, payload)
            await self._work.stream.wait_for_room()
        tasks: list[asyncio.Task[ToolResult]] = []
        loads: dict[str | None, asyncio.Task[ToolResult]] = {}
        # Started in order: the number of a call decides which of two changes is the later one.
        for call in calls:
            skill = find_skill_argument(call.arguments)
            tasks.append(asyncio.ensure_future(self._call_one(call, after=loads.get(skill))))
            if skill is not None and call.name == LOAD:
                # Other calls for this skill in the same answer may need it loaded.
                loads[skill] = tasks[-1]
        try:
            results = await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        return list(zip(calls, results, strict=True))

    async def _call_one(self, call: ToolCall, *, after: asyncio.Task[ToolResult] | None) -> ToolResult:
        if after is not None:
            await asyncio.wait([after])
        async with self._room:
            await self._work.stream.wait_for_room()
            hooks = self._agent.callbacks
            result = await settle(hooks.before_tool(self._agent.name, call)) if hooks.before_tool else None
            skill = find_forked_skill(self._session, call) if self._fork else None
            if result is None and self._fork is not None and skill is not None:
                result = await self._fork(skill)
            if result is None and call.name not in self._extra:
                revise = partial(self._apply_after_tool, call)
                result = await self._session.call(call.name, call.arguments, call_id=call.id, revise=revise)
            else:
                result = result or await _call_function(self._extra[call.name], call.arguments)
                result = await self._apply_after_tool(call, result)
                await self._log_result(call, result)
            for artifact in get_items(result.data.get("artifact_files")):
                if isinstance(artifact, Mapping):
                    await self._session.log(ARTIFACT, {**cast("Mapping[str, Any]", artifact), "call_id": call.id})
            return result

    async def _apply_after_tool(self, call: ToolCall, result: ToolResult) -> ToolResult:
        after = self._agent.callbacks.after_tool
        return (await settle(after(self._agent.name, call, result)) if after else None) or result

    async def _log_result(self, call: ToolCall, result: ToolResult) -> None:
        payload = {"call_id": call.id, "tool": call.name, "content": result.text, "failed": result.error is not None}
        await self._session.log(TOOL_RESPONSE, payload)


def _parse_usage(result: ToolResult) -> Usage:
    """The usage in a sub-agent's result; anything else there counts as zero."""
    cost = result.data.get(USAGE_KEY)
    numbers = {name: get_field(cost, name) for name in ("input", "output", "cached")}
    return Usage(**{name: number for name, number in numbers.items() if isinstance(number, int)})


_FENCE = "```"
_OPENING = re.compile(r"```([\w+-]*)(?:\s.*)?")
_PROGRAMS = {"python": "python3", "py": "python3", "python3": "python3", "bash": "bash", "sh": "sh", "shell": "bash"}
_MAX_ROUNDS = 5
_MAX_OUTPUT_CHARS = 4_000


def find_code_blocks(text: str) -> list[tuple[str, str]]:
    """Program and code of every closed fenced block that can be run."""
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
    """Run a turn; with `code_blocks`, run the code blocks of its answer and continue with their output.

    Without a tool that runs commands, as with the profile `knowledge_only`, no block is run.
    """
    done = await turn.run()
    rounds = 0
    runs = agent.code_blocks and session.can_run_commands
    while runs and rounds < _MAX_ROUNDS and (found := find_code_blocks(done.text)):
        rounds += 1
        outputs = [await _run_code(session, program, code) for program, code in found]
        message: Message = {"role": "user", "content": "Output of your code:\n\n" + "\n\n".join(outputs)}
        await session.log(MESSAGE, {"to": agent.name, "message": message, "why": CODE_BLOCKS})
        messages.append(message)
        done = await turn.run()
    return done


async def _run_code(session: SkillSession, program: str, code: str) -> str:
    options = session.options
    grants = options.grants_for(None)
    limits = options.limits if grants.timeout is None else replace(options.limits, timeout=grants.timeout)
    request = RunRequest(
        (program, "-"),
        stdin=code.encode("utf-8", "replace"),
        cwd="$WORK_DIR",
        env=grants.environment,
        secrets=grants.secrets,
        limits=limits,
        network=grants.network,
    )
    try:
        ran = await (await session.open_runner()).run(request)
    except SkillError as error:
        return f"error: {error.message}"
    result = result_to_json(ran)
    parts = [part for part in (result["stdout"], result["stderr"]) if part]
    text = "\n".join(parts)[:_MAX_OUTPUT_CHARS] or "(no output)"
    return f"exit code {result['exit_code']}\n{text}"
