"""`Agent`, its callbacks, extra tools and summaries; and the transcript of a conversation, built from its log.

Events of a run:

    message          a message: `message`, and `to`, the agent it is for, unless an agent wrote it
    tool.call        a tool call: `call_id`, `tool`, `arguments`
    tool.response    its result: `call_id`, `tool`, `content`, `failed`; the delta is what it changed
    artifact         a saved file: `ref`, `name`, `version`
    summary          a summary of everything up to event `upto`, without the events in `keep`: `text`
    error, end       the end of a run: `reason` and `message`; `text`, `usage`, `steps`

The stream of a run also has `assistant.delta` events with more `text`, which are not stored.
"""

import hashlib
import inspect
import json
import logging
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from types import NoneType
from typing import Any, Protocol, TypeAlias, TypeVar, cast, get_type_hints, overload

from pydantic import create_model

from openskills.agent.attached_line import split_files_line
from openskills.agent.models.model import Model, ModelRequest, ModelResponse, ToolCall
from openskills.agent.models.open import open_model
from openskills.arguments import check_arguments
from openskills.errors import InvalidArgument, SkillError, shorten
from openskills.prompt.history import get_items, get_text, get_tool_calls
from openskills.prompt.usage import account
from openskills.runtime.options import SessionOptions
from openskills.runtime.runtime import SkillRuntime
from openskills.runtime.session import SkillSession
from openskills.session.events import MESSAGE, TOOL_RESPONSE, USER, Event, check_id
from openskills.tools.registry import TOOLS
from openskills.tools.tool import Arguments, Tool, ToolContext, ToolResult, build_parameters, decode

T = TypeVar("T")
Later: TypeAlias = Awaitable[T] | T
"""What a function of the application returns, which may be async."""
BeforeModel: TypeAlias = Callable[[str, ModelRequest], Later[ModelRequest | ModelResponse | None]]
AfterModel: TypeAlias = Callable[[str, ModelResponse], Later[ModelResponse | None]]
BeforeTool: TypeAlias = Callable[[str, ToolCall], Later[ToolResult | None]]
AfterTool: TypeAlias = Callable[[str, ToolCall, ToolResult], Later[ToolResult | None]]
BeforeRun: TypeAlias = Callable[[str, str], Later[str | None]]
AfterRun: TypeAlias = Callable[[str, str], Later[None]]


async def settle(value: Later[T]) -> T:
    """The result of a function that may be async."""
    return await cast("Awaitable[T]", value) if inspect.isawaitable(value) else cast("T", value)


@check_arguments
@dataclass(frozen=True, slots=True)
class Callbacks:
    """Functions, sync or async, that are called with the agent's name first; returning None changes nothing.

    `before_model` gets the request, with its `loaded_skills`, and may return another one, or an answer instead of
    calling the model; `after_model` another answer.
    `before_tool` may return a result instead of calling the tool; `after_tool` another result. `before_run` may return
    another user message; `after_run` gets the answer. An exception ends the run.
    """

    before_model: BeforeModel | None = None
    after_model: AfterModel | None = None
    before_tool: BeforeTool | None = None
    after_tool: AfterTool | None = None
    before_run: BeforeRun | None = None
    after_run: AfterRun | None = None


@check_arguments
@dataclass(frozen=True, slots=True)
class ExtraTool:
    """A tool of the application; the decorator `tool` makes one from a function. `parameters` is the JSON schema of an
    object, against which the model's arguments are checked: types, required and unknown fields, `enum`.

    `run` gets the arguments and returns a `ToolResult`, text, or other JSON data. It may be async; otherwise it runs in
    a thread. A `SkillError` becomes a failed result. With `checks_arguments`, it checks the arguments itself.
    """

    name: str
    description: str
    run: Callable[[Mapping[str, Any]], Any]
    parameters: Mapping[str, Any] = field(default_factory=lambda: {"type": "object", "properties": {}})
    checks_arguments: bool = field(default=False, repr=False)

    def __post_init__(self) -> None:
        """Raises `InvalidArgument` for a schema that is not that of an object."""
        kind = self.parameters.get("type", "object")
        if kind != "object" and not self.checks_arguments:
            wanted = 'expected the schema of an object, such as {"type": "object", "properties": {…}}'
            raise InvalidArgument("parameters", f"{self.name}: {wanted}, got type {kind!r}")

    def describe(self) -> dict[str, Any]:
        """The tool in OpenAI's format."""
        function = {"name": self.name, "description": self.description, "parameters": dict(self.parameters)}
        return {"type": "function", "function": function}


class ToolSet(Protocol):
    """Tools that are found on first use, such as those of an MCP server."""

    async def open(self) -> Sequence[ExtraTool]:
        """The tools. Called at the start of every run, so it must be fast the second time."""
        ...

    async def close(self) -> None:
        """Release what the tools use; a later `open` may start again."""
        ...


@overload
def tool(function: Callable[..., Any]) -> ExtraTool: ...
@overload
def tool(*, name: str = "", description: str = "") -> Callable[[Callable[..., Any]], ExtraTool]: ...
@check_arguments
def tool(
    function: Callable[..., Any] | None = None, *, name: str = "", description: str = ""
) -> ExtraTool | Callable[[Callable[..., Any]], ExtraTool]:
    """Make a tool from a function, as `@tool` or `@tool(name=..., description=...)`.

    Name, description and schema come from its name, docstring and type hints; arguments are converted by pydantic.
    """
    if function is None:
        return partial(_build_tool, name=name, description=description)
    return _build_tool(function, name=name, description=description)


def _build_tool(function: Callable[..., Any], *, name: str, description: str) -> ExtraTool:
    name = name or function.__name__
    hints = get_type_hints(function, include_extras=True)
    fields: dict[str, Any] = {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise InvalidArgument("function", f"{name}: {parameter} cannot be an argument of a tool")
        default = ... if parameter.default is parameter.empty else parameter.default
        fields[parameter.name] = (hints.get(parameter.name, Any), default)
    arguments = create_model(f"{name}_arguments", __base__=Arguments, **fields)
    made = Tool(name, description or inspect.getdoc(function) or "", arguments, _refuse_context)

    def run(given: Mapping[str, Any]) -> Any:
        decoded = decode(made, given)
        return function(**{one: getattr(decoded, one) for one in fields})

    async def run_async(given: Mapping[str, Any]) -> Any:
        return await run(given)

    called = run_async if inspect.iscoroutinefunction(function) else run
    return ExtraTool(name, made.description, called, build_parameters(made), checks_arguments=True)


async def _refuse_context(context: ToolContext, arguments: Any) -> ToolResult:  # noqa: ARG001
    raise InvalidArgument("tool", "a tool of an application is called by its agent")


_JSON_TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "null": (NoneType,),
    "integer": (int,),
    "number": (int, float),
}


def check_schema(value: object, schema: Mapping[str, Any], path: str = "") -> None:
    """Check arguments against a JSON schema. Raises `InvalidArgument` with the first field that is wrong.

    Types, `enum`, `required`, `properties`, `additionalProperties: false` and `items` are checked.
    """
    wanted = schema.get("type")
    kinds = cast("list[str]", [wanted] if isinstance(wanted, str) else wanted or [])
    types = tuple(kind for name in kinds for kind in _JSON_TYPES.get(name, (object,)))
    if types and (not isinstance(value, types) or (isinstance(value, bool) and bool not in types)):
        raise InvalidArgument(path or "arguments", f"expected {' or '.join(kinds)}, got {json.dumps(value)[:200]}")
    if "enum" in schema and value not in schema["enum"]:
        raise InvalidArgument(path or "arguments", f"expected one of {json.dumps(schema['enum'])[:400]}")
    if isinstance(value, dict):
        given, known = cast("dict[str, Any]", value), cast("Mapping[str, Any]", schema.get("properties") or {})
        takes = f"it takes {', '.join(known) or 'no arguments'}"
        for name in schema.get("required") or ():
            if name not in given:
                raise InvalidArgument(f"{path}{name}", f"required; {takes}")
        for name, one in given.items():
            if isinstance(inner := known.get(name), Mapping):
                check_schema(one, cast("Mapping[str, Any]", inner), f"{path}{name}")
            elif schema.get("additionalProperties") is False and name not in known:
                raise InvalidArgument(f"{path}{name[:80]}", f"unknown argument; {takes}")
    if isinstance(value, list) and isinstance(items := schema.get("items"), Mapping):
        for index, one in enumerate(cast("list[Any]", value)):
            check_schema(one, cast("Mapping[str, Any]", items), f"{path}[{index}]")


DELTA = "assistant.delta"
TOOL_CALL = "tool.call"
ARTIFACT = "artifact"
SUMMARY = "summary"
ERROR = "error"
END = "end"
TURN = "turn"
"""The kind of an event of a host: it accepted the message `text`, which the run `run` answers."""
CODE_BLOCKS = "code blocks"
"""The `why` of a message that does not start a turn."""
MAX_TITLE_CHARS = 200

SUMMARY_HEADER = "Summary of the conversation so far:"
INTERRUPTED = "error: interrupted; the process ended during this call, and its outcome is unknown"

Message = dict[str, Any]


def build_transcript(events: Iterable[Event], agent: str) -> list[Message]:
    """The stored messages from and to an agent.

    Results follow in the order of their calls. Everything up to the last summary is one message.
    """
    return [message for _, message in _list_entries(events, agent)]


def _list_entries(events: Iterable[Event], agent: str) -> list[tuple[int, Message]]:
    """The transcript with the numbers of the events; that of a summary is the last event that it replaces."""
    entries: list[tuple[int, Message]] = []
    first: list[tuple[int, Message]] = []
    for event in events:
        if event.kind == SUMMARY and event.author == agent:
            upto, keep = int(event.payload.get("upto", 0)), event.payload.get("keep") or ()
            first = [(upto, _format_summary(str(event.payload.get("text", ""))))]
            entries = [entry for entry in entries if entry[0] > upto or entry[0] in keep]
        else:
            message = _event_to_message(event, agent)
            if message is not None:
                entries.append((event.seq, message))
    return [*first, *order_results(entries)]


def _format_summary(text: str) -> Message:
    return {"role": "system", "content": f"{SUMMARY_HEADER}\n{text}"}


def find_last_turn(events: Sequence[Event], agent: str, turns: int = 1) -> int:
    """The number of the event before the last `turns` turns of an agent; 0 if there is none before."""
    if turns == 0:
        return events[-1].seq if events else 0
    said = [event.seq for event in events if is_turn_start(event, agent)]
    return said[-turns] - 1 if len(said) > turns else 0


def is_turn_start(event: Event, agent: str) -> bool:
    """Whether an event is a message that begins a turn of an agent."""
    return event.kind == MESSAGE and event.payload.get("to") == agent and event.payload.get("why") != CODE_BLOCKS


def find_unanswered_calls(messages: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Id and tool of every call without a result."""
    results = Counter(str(message.get("tool_call_id")) for message in messages if message.get("role") == "tool")
    found: list[tuple[str, str]] = []
    for message in messages:
        for call in get_tool_calls(message):
            # An id may occur twice in an old log; each result is for one call, as in `order_results`.
            results[call.id] -= 1
            if results[call.id] < 0:
                found.append((call.id, call.name))
    return found


def order_results(entries: Sequence[tuple[int, Message]]) -> list[tuple[int, Message]]:
    """Move the results of each answer right after it, in the order of its calls."""
    results: dict[str, list[tuple[int, Message]]] = {}
    for entry in entries:
        if entry[1].get("role") == "tool":
            results.setdefault(str(entry[1].get("tool_call_id")), []).append(entry)
    ordered: list[tuple[int, Message]] = []
    for entry in entries:
        if entry[1].get("role") != "tool":
            ordered.append(entry)
            ordered += [results[call.id].pop(0) for call in get_tool_calls(entry[1]) if results.get(call.id)]
    return ordered


def _event_to_message(event: Event, agent: str) -> Message | None:
    payload = event.payload
    if event.kind == TOOL_RESPONSE and event.author == agent and payload.get("call_id"):
        return {"role": "tool", "tool_call_id": payload["call_id"], "content": payload.get("content", "")}
    if event.kind == MESSAGE and (payload.get("to") == agent or (event.author == agent and "to" not in payload)):
        message = payload.get("message")
        return dict(cast("Mapping[str, Any]", message)) if isinstance(message, Mapping) else None
    return None


def find_title(events: Iterable[Event]) -> str:
    """The first message of the user, on one line."""
    for event in events:
        if event.kind == MESSAGE and event.author == USER:
            return " ".join(_get_message_text(event)[0].split())[:MAX_TITLE_CHARS]
    return ""


def _get_message_text(event: Event) -> tuple[str, list[Mapping[str, Any]]]:
    """The text of a message without the line about its files, and its files."""
    files, text = list_message_files(event), get_text(event.payload.get("message"))
    return (split_files_line(text)[0] if files else text), files


def list_message_files(event: Event) -> list[Mapping[str, Any]]:
    """The files of a message."""
    return [cast("Mapping[str, Any]", one) for one in get_items(event.payload.get("files")) if isinstance(one, Mapping)]


def find_item_id(call_id: object) -> str:
    """The id of the item of a tool call; a call id can contain anything."""
    return f"t{hashlib.sha256(str(call_id).encode('utf-8', 'replace')).hexdigest()[:12]}"


def build_items(events: Iterable[Event], agent: str) -> list[dict[str, Any]]:
    """What happened in a conversation, for readers: messages, tool calls with their results, summaries and errors.

    `agent` is the one that the user talks to; items of others have its name in `agent`.
    """
    items: dict[str, dict[str, Any]] = {}
    turn: dict[str, Any] | None = None
    for event in events:
        if event.kind == TURN:
            # Shown only if the message itself was never written: the host ended before.
            run = event.payload.get("run")
            turn = {"id": f"turn-{run}", "kind": "message", "role": "user", "author": USER, "files": [], "agent": ""}
            turn |= {"text": str(event.payload.get("text") or ""), "at": event.at.isoformat()}
            items[turn["id"]] = turn
        elif event.kind == MESSAGE:
            if event.author == USER and turn is not None:
                del items[turn["id"]]
                turn = None
            _add_message(items, event, agent)
        elif event.kind in (TOOL_CALL, TOOL_RESPONSE):
            _add_call(items, event, agent)
        elif event.kind == ARTIFACT and (call := items.get(find_item_id(event.payload.get("call_id")))):
            call["artifacts"].append({name: event.payload.get(name) for name in ("ref", "name", "version")})
        elif event.kind in (SUMMARY, ERROR):
            text = str(event.payload.get("text" if event.kind == SUMMARY else "message") or "")
            items[f"m{event.seq}"] = {
                "id": f"m{event.seq}",
                "kind": event.kind,
                "text": text,
                **_describe_time(event, agent),
            }
    return list(items.values())


def _describe_time(event: Event, agent: str) -> dict[str, Any]:
    return {"author": event.author, "at": event.at.isoformat(), "agent": "" if event.author == agent else event.author}


def _add_message(items: dict[str, dict[str, Any]], event: Event, agent: str) -> None:
    payload = event.payload
    text, files = _get_message_text(event)
    is_asked = "to" in payload
    if not text and not files and not is_asked:
        return  # only tool calls, which follow
    item: dict[str, Any] = {"id": f"m{event.seq}", "kind": "message", **_describe_time(event, agent)}
    shown = [{name: str(one.get(name) or "") for name in ("name", "ref", "mime_type", "path")} for one in files]
    item |= {"role": "user" if is_asked else "assistant", "text": text, "files": shown}
    if event.author == USER:
        item["agent"] = ""
    elif is_asked:
        item["agent"] = "" if payload.get("why") == CODE_BLOCKS else str(payload.get("to"))
    for name in ("model", "usage", "request"):
        if payload.get(name):
            item[name] = payload[name]
    items[item["id"]] = item


def _add_call(items: dict[str, dict[str, Any]], event: Event, agent: str) -> None:
    payload = event.payload
    identity = find_item_id(payload.get("call_id") or f"loaded {event.seq}")
    item = items.get(identity)
    if item is None:
        item = items[identity] = {
            "id": identity,
            "kind": "tool",
            **_describe_time(event, agent),
            "call_id": str(payload.get("call_id") or ""),
            "tool": str(payload.get("tool") or ""),
            "arguments": str(payload.get("arguments") or ""),
            "result": None,
            "failed": False,
            "milliseconds": None,
            "artifacts": [],
        }
    if event.kind == TOOL_RESPONSE:
        begun = datetime.fromisoformat(item["at"])
        item["result"], item["failed"] = str(payload.get("content") or ""), bool(payload.get("failed"))
        item["milliseconds"] = (
            max(round((event.at - begun).total_seconds() * 1000), 0) if payload.get("call_id") else None
        )


_LAYER_GROUPS = {
    "overview": ("overview", "guidance"),
    "loaded": ("body", "docs", "fallback"),
    "tools": ("tools",),
    "history": ("other",),
}


def group_layers(by_layer: Mapping[str, int]) -> dict[str, int]:
    """Tokens by layer as `overview`, `loaded`, `tools` and `history`."""
    return {name: sum(by_layer.get(one, 0) for one in names) for name, names in _LAYER_GROUPS.items()}


def build_tokens(events: Iterable[Event], records: Mapping[str, str], agent: str) -> dict[str, Any]:
    """Tokens of the last request by layer, estimated, and what the provider reported for all requests.

    `records` is the state of the log of recorded requests.
    `cached_share` is the share of all reported input that came from the prompt cache; without a report it is the
    share of the last request that was unchanged, and `cached_estimated` is true.
    """
    usage = dict.fromkeys(("input", "output", "cached"), 0)
    calls = 0
    for event in events:
        calls += event.kind == TOOL_CALL
        reported = event.payload.get("usage") if event.kind == MESSAGE else None
        for name in usage if isinstance(reported, Mapping) else ():
            usage[name] += int(cast("Mapping[str, Any]", reported).get(name) or 0)
    last = cast("Mapping[str, Any]", json.loads(records.get(f"tokens:{agent}") or "{}"))
    by_layer = cast("Mapping[str, int]", last.get("layers") or {})
    layers = group_layers(by_layer)
    total = int(last.get("total") or 0)
    unchanged = int(last.get("unchanged") or 0)
    is_reported = usage["input"] > 0
    share = usage["cached"] / usage["input"] if is_reported else unchanged / total if total else 0.0
    return {
        "layers": layers,
        "total": total,
        "skills": dict(cast("Mapping[str, int]", last.get("skills") or {})),
        "usage": usage,
        "tool_calls": calls,
        "cached_share": round(share, 4),
        "cached_estimated": not is_reported,
    }


Summarise: TypeAlias = Callable[[Sequence[Message]], Later[str]]
"""Turns messages into a summary."""

_SUMMARY_PROMPT = (
    "Summarise this conversation for the assistant that goes on with it: what the user wants, what was decided and "
    "found out, names and refs of files, what is still to be done. Facts only, at most 300 words."
)
_MAX_LINE_CHARS = 400
_MAX_MODEL_LINE_CHARS = 4_000
_MAX_SUMMARY_CHARS = 12_000
_LEFT_OUT = re.compile(r"\[(\d+) lines left out\]")
_LOG = logging.getLogger("openskills")


@check_arguments
@dataclass(frozen=True, slots=True)
class Summary:
    """Replaces all but the last `keep_turns` turns by a summary when the history exceeds `tokens` (estimated).

    If a running turn alone is too long, all but its message and its last `keep_steps` steps (answers of the model with
    the results of their calls) are replaced. Loaded skill texts are not part of the history and are never summarised.
    """

    summarise: Summarise
    tokens: int = 16_000
    keep_turns: int = 1
    keep_steps: int = 4

    def is_needed(self, messages: Sequence[Message]) -> bool:
        """Whether these messages are too long."""
        return account(None, messages, ()).total > self.tokens

    async def compact(self, agent: str, session: SkillSession) -> bool:
        """Write a summary to the log if the history is too long; return whether it was."""
        events = await session.events()
        entries = _list_entries(events, agent)
        if not self.is_needed([message for _, message in entries]):
            return False
        upto = find_last_turn(events, agent, self.keep_turns)
        old = [message for number, message in entries if number <= upto]
        if not any(message.get("role") != "system" for message in old):
            return False
        await session.log(SUMMARY, {"upto": upto, "text": await self._write_summary(old)})
        return True

    async def compact_turn(self, agent: str, session: SkillSession, messages: list[Message], asked: int) -> bool:
        """Replace all but the message of a running turn, at index `asked`, and its last steps; return whether any were.

        Every call that is kept has its result. The summary is written to the log, too.
        """
        steps = [
            index for index, message in enumerate(messages) if index > asked and message.get("role") == "assistant"
        ]
        if len(steps) <= self.keep_steps or not self.is_needed(messages):
            return False
        cut = steps[-self.keep_steps]
        text = await self._write_summary([*messages[:asked], *messages[asked + 1 : cut]])
        said = [event for event in await session.events() if event.kind == MESSAGE]
        own = [event.seq for event in said if event.author == agent and "to" not in event.payload]
        task = [event.seq for event in said if is_turn_start(event, agent)][-1:]
        await session.log(SUMMARY, {"upto": own[-self.keep_steps] - 1, "keep": task, "text": text})
        messages[:] = [_format_summary(text), messages[asked], *messages[cut:]]
        return True

    async def _write_summary(self, old: Sequence[Message]) -> str:
        try:
            text = await settle(self.summarise(old))
        except SkillError as error:
            _LOG.warning("summary failed, falling back to the rule: %s", error.message)
            text = ""
        return text.strip() or await summarise_by_rule(old)


@check_arguments
def summarise_by_model(model: Model) -> Summarise:
    """Summarise with a model."""

    async def summarise(messages: Sequence[Message]) -> str:
        # As one text: some providers reject calls of tools that the request does not define.
        said = "\n".join(
            line for message in messages for line in _format_lines(message, _MAX_MODEL_LINE_CHARS, results=True)
        )
        asked = [{"role": "user", "content": f"{said}\n\n{_SUMMARY_PROMPT}"}]
        async with aclosing(model.stream(ModelRequest(asked, max_output_tokens=1_000))) as stream:
            async for event in stream:
                if isinstance(event, ModelResponse):
                    return event.text
        return ""

    return summarise


async def summarise_by_rule(messages: Sequence[Message]) -> str:
    """Summarise without a model: shortened messages, and which tools were called.

    An earlier summary is kept. If the result is too long, lines in the middle are left out and counted.
    """
    lines = [line for message in messages for line in _format_lines(message, _MAX_LINE_CHARS)]
    return "\n".join(_fit_lines(_MAX_SUMMARY_CHARS, lines))


def _format_lines(message: Message, max_chars: int, *, results: bool = False) -> list[str]:
    role, content = message.get("role"), message.get("content")
    if role == "system" and isinstance(content, str) and content.startswith(SUMMARY_HEADER):
        return content.removeprefix(SUMMARY_HEADER).strip("\n").split("\n")
    text = " ".join(get_text(message).split())
    said = [f"{role}: {shorten(text, max_chars)}"] if text and (results or role != "tool") else []
    calls = (f"called {call.name} {shorten(str(call.arguments), max_chars)}" for call in get_tool_calls(message))
    return [*said, *calls]


def _fit_lines(max_chars: int, lines: Sequence[str]) -> list[str]:
    """Leave out lines in the middle if there are too many."""
    if sum(len(line) + 1 for line in lines) <= max_chars:
        return list(lines)
    head = _count_fitting(lines, max_chars // 4)
    tail = _count_fitting(lines[head:][::-1], max_chars - max_chars // 4)
    last = len(lines) - tail
    out = sum(int(found[1]) if (found := _LEFT_OUT.fullmatch(line)) else 1 for line in lines[head:last])
    return [*lines[:head], f"[{out} lines left out]", *lines[last:]]


def _count_fitting(lines: Sequence[str], room: int) -> int:
    for number, line in enumerate(lines):
        room -= len(line) + 1
        if room < 0:
            return number
    return len(lines)


_TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)


@check_arguments
@dataclass(frozen=True, slots=True)
class AgentLimits:
    """Limits of one run. A step is an answer of the model with its tool calls; `model_calls` include sub-agents."""

    steps: int = 50
    model_calls: int = 200
    tool_calls: int = 200
    parallel: int = 8

    def __post_init__(self) -> None:
        for name in ("steps", "model_calls", "tool_calls", "parallel"):
            if getattr(self, name) < 1:
                raise InvalidArgument(f"limits.{name}", "must be at least 1")


@check_arguments
@dataclass(frozen=True, slots=True)
class Agent:
    """An agent: a name, a model, and the skills of a runtime. `Runner` runs it.

    `model` is a `Model` or the name of one (`openai/gpt-5`, `anthropic/claude-opus-5-5`, `rule`). `options` apply to
    its sessions. `tools` are tools of the application and sets of tools, such as those of `mcp_tools`.
    `sub_agents` are tools that work on tasks in the same workspace, with their own loaded skills.
    `history_turns` is how many turns the model sees, None for all. `code_blocks` runs fenced code in its answers.
    """

    name: str
    model: Model | str
    runtime: SkillRuntime
    instructions: str = ""
    description: str = ""
    options: SessionOptions | None = None
    tools: Sequence[ExtraTool | ToolSet] = ()
    sub_agents: Sequence["Agent"] = ()
    limits: AgentLimits = field(default_factory=AgentLimits)
    callbacks: Callbacks = field(default_factory=Callbacks)
    summary: Summary | None = None
    history_turns: int | None = None
    code_blocks: bool = False
    max_output_tokens: int | None = None
    _made_its_model: bool = field(default=False, init=False, repr=False)

    def __post_init__(self) -> None:
        check_id("name", self.name)
        if isinstance(self.model, str):
            options = {"catalog": self.runtime.catalog} if self.model == "rule" else {}
            object.__setattr__(self, "model", open_model(self.model, self.runtime.settings, **options))
            object.__setattr__(self, "_made_its_model", True)
        if self.history_turns is not None and self.history_turns < 1:
            raise InvalidArgument("history_turns", "must be at least 1, or None for all turns")
        self._check_names([tool for tool in self.tools if isinstance(tool, ExtraTool)])

    def _check_names(self, tools: Sequence[ExtraTool]) -> None:
        names = [tool.name for tool in tools] + [agent.name for agent in self.sub_agents]
        for name in names:
            if names.count(name) > 1 or name in (*TOOLS, self.name):
                raise InvalidArgument("tools", f"the name {name!r} is used twice")
            if not _TOOL_NAME.fullmatch(name):
                raise InvalidArgument(
                    "tools", f"invalid tool name {name[:80]!r}: use letters, digits, _ and -, at most 64"
                )

    async def list_tools(self) -> list[ExtraTool]:
        """All tools, with those of the sets. Raises `InvalidArgument` for a name that occurs twice."""
        found: list[ExtraTool] = []
        for one in self.tools:
            found.extend([one] if isinstance(one, ExtraTool) else await one.open())
        self._check_names(found)
        return found

    async def close(self) -> None:
        """Close the sets of tools, and the model if it was opened by name. The runtime is not closed."""
        try:
            for one in self.tools:
                if not isinstance(one, ExtraTool):
                    await one.close()
        finally:
            if self._made_its_model and not isinstance(self.model, str):
                await self.model.close()
