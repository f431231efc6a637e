"""A scripted model server: a local HTTP server that speaks the protocols of OpenAI and Anthropic."""

import asyncio
import json
import socket
import struct
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.client import responses
from types import TracebackType
from typing import Any, Literal, TypeAlias, cast

from openskills.agent.models.model import ModelResponse, ToolCall, Usage
from openskills.arguments import check_arguments
from openskills.prompt.history import parse_json_object

ModelProtocol: TypeAlias = Literal["openai", "anthropic"]


@check_arguments
@dataclass(frozen=True, slots=True)
class ModelReply:
    """An answer, and how it travels.

    Text and arguments come in pieces of `piece` characters, one event each. `first_after` and `between` are seconds of
    silence, before the answer begins and between its events; a client that leaves ends them. After `cut_after` events
    the connection breaks. `split` sends so many bytes at a time, which cuts characters and lines anywhere. Without
    `streams` the answer comes whole, also to a client that asked for events.
    """

    answer: ModelResponse
    piece: int = 8
    first_after: float = 0.0
    between: float = 0.0
    cut_after: int | None = None
    split: int | None = None
    streams: bool = True


@check_arguments
@dataclass(frozen=True, slots=True)
class ErrorReply:
    """An error with a status, in the form of the protocol that was asked in. `kind` is its type and code."""

    status: int
    message: str = "refused by the script"
    kind: str = ""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


@check_arguments
@dataclass(frozen=True, slots=True)
class RawReply:
    """Bytes as they are, in chunks; with `cut` the connection breaks after them instead of ending well."""

    chunks: tuple[bytes, ...]
    content_type: str = "text/event-stream"
    status: int = 200
    between: float = 0.0
    cut: bool = False


@dataclass(frozen=True, slots=True)
class ResetReply:
    """Reset the connection before the answer."""


@dataclass(eq=False, slots=True)
class ModelServerRequest:
    """A request that came in. `left` is set when the client went away before the answer was over."""

    protocol: ModelProtocol
    path: str
    headers: Mapping[str, str]
    body: Mapping[str, Any]
    disconnected: threading.Event = field(default_factory=threading.Event)


ScriptedReply: TypeAlias = ModelReply | ErrorReply | RawReply | ResetReply | ModelResponse | str
"""One answer of a script; an `Answer` or a text stand for a `Reply` that gives them."""


def event(data: object, name: str = "") -> bytes:
    """A server-sent event; `data` is sent as JSON, unless it is text."""
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
    return (f"event: {name}\n" if name else "").encode() + f"data: {text}\n\n".encode()


def split_text(text: str, size: int) -> list[str]:
    """The text in pieces of so many characters."""
    return [text[start : start + size] for start in range(0, len(text), size)]


_STOPS = {"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens"}
_ANTHROPIC_KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}


def anthropic_events(answer: ModelResponse, asked: Mapping[str, Any], piece: int) -> Iterator[bytes]:
    """The events of a streamed answer."""
    message: dict[str, Any] = {
        **_message(answer, asked),
        "content": [],
        "stop_reason": None,
        "usage": _anthropic_usage(answer.usage, 1),
    }
    yield _event({"type": "message_start", "message": message})
    yield _event({"type": "ping"})
    blocks = ([_text(answer.text)] if answer.text else []) + [_anthropic_call(call, {}) for call in answer.calls]
    written = ([answer.text] if answer.text else []) + [call.arguments for call in answer.calls]
    for index, (block, text) in enumerate(zip(blocks, written, strict=True)):
        empty = _text("") if block["type"] == "text" else block
        yield _event({"type": "content_block_start", "index": index, "content_block": empty})
        for part in split_text(text, piece):
            yield _event({"type": "content_block_delta", "index": index, "delta": _delta(block["type"], part)})
        yield _event({"type": "content_block_stop", "index": index})
    ended = {"stop_reason": _stop(answer), "stop_sequence": None}
    yield _event({"type": "message_delta", "delta": ended, "usage": {"output_tokens": answer.usage.output}})
    yield _event({"type": "message_stop"})


def anthropic_body(answer: ModelResponse, asked: Mapping[str, Any]) -> dict[str, Any]:
    """The body of an answer that is not streamed."""
    text = [_text(answer.text)] if answer.text else []
    content = text + [_anthropic_call(call, json.loads(call.arguments)) for call in answer.calls]
    usage = _anthropic_usage(answer.usage, answer.usage.output)
    return {**_message(answer, asked), "content": content, "stop_reason": _stop(answer), "usage": usage}


def anthropic_error(refusal: ErrorReply) -> dict[str, Any]:
    """The body of an error."""
    kind = refusal.kind or _ANTHROPIC_KINDS.get(refusal.status, "api_error")
    return {"type": "error", "error": {"type": kind, "message": refusal.message}, "request_id": "req_scripted"}


def _event(data: Mapping[str, Any]) -> bytes:
    return event(data, data["type"])


def _message(answer: ModelResponse, asked: Mapping[str, Any]) -> dict[str, Any]:
    model = answer.model or asked.get("model", "")
    return {"id": "msg_scripted", "type": "message", "role": "assistant", "model": model, "stop_sequence": None}


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _anthropic_call(call: ToolCall, given: object) -> dict[str, Any]:
    return {"type": "tool_use", "id": call.id, "name": call.name, "input": given}


def _delta(kind: str, part: str) -> dict[str, Any]:
    if kind == "text":
        return {"type": "text_delta", "text": part}
    return {"type": "input_json_delta", "partial_json": part}


def _stop(answer: ModelResponse) -> str:
    return "tool_use" if answer.calls and answer.stop == "stop" else _STOPS.get(answer.stop, answer.stop)


def _anthropic_usage(usage: Usage, output: int) -> dict[str, Any]:
    return {
        "input_tokens": usage.input - usage.cached,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": usage.cached,
        "output_tokens": output,
    }


_POLL = 0.01


@dataclass(frozen=True, slots=True)
class RawRequest:
    """A request as it came in; the names of headers are in lower case."""

    path: str
    headers: Mapping[str, str]
    content: bytes


class ClientDisconnected(Exception):
    """The other side closed the connection before its answer was over."""


class ModelServerConnection:
    """One connection from a client. Writing raises `ClientDisconnected` when the client is gone."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def read_request(self) -> RawRequest | None:
        """The next request; None when the client wants nothing more."""
        try:
            head = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            first, *lines = head.rstrip().split("\r\n")
            headers = {
                name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)
            }
            content = await self._reader.readexactly(int(headers.get("content-length", 0)))
        except (asyncio.IncompleteReadError, ConnectionError):
            return None
        return RawRequest(first.split(" ")[1], headers, content)

    async def send_json(self, status: int, body: object, headers: Mapping[str, str]) -> None:
        """Answer with JSON."""
        content = json.dumps(body, ensure_ascii=False).encode()
        more = {"content-type": "application/json", "content-length": str(len(content)), **headers}
        await self._write(_head(status, more) + content)

    async def start_chunks(self, status: int, content_type: str) -> None:
        """Begin an answer that comes in chunks."""
        await self._write(_head(status, {"content-type": content_type, "transfer-encoding": "chunked"}))

    async def send_chunk(self, content: bytes) -> None:
        """Send a chunk; an empty one ends the answer."""
        await self._write(b"%x\r\n%s\r\n" % (len(content), content))

    async def pause(self, seconds: float) -> None:
        """Send nothing for this long, or until the client disconnects."""
        until = asyncio.get_running_loop().time() + seconds
        while (left := until - asyncio.get_running_loop().time()) > 0:
            if self._reader.at_eof() or self._reader.exception() is not None:
                raise ClientDisconnected
            await asyncio.sleep(min(left, _POLL))

    def reset(self) -> None:
        """Reset the connection."""
        raw: Any = self._writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()

    async def close(self) -> None:
        """End it."""
        self._writer.close()
        try:
            await self._writer.wait_closed()
        except ConnectionError:
            return

    async def _write(self, content: bytes) -> None:
        if self._reader.at_eof() or self._reader.exception() is not None:
            raise ClientDisconnected
        try:
            self._writer.write(content)
            await self._writer.drain()
        except ConnectionError:
            raise ClientDisconnected from None


def _head(status: int, headers: Mapping[str, str]) -> bytes:
    lines: Sequence[str] = [
        f"HTTP/1.1 {status} {responses.get(status, 'Scripted')}",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


_OPENAI_KINDS = {401: "invalid_request_error", 429: "rate_limit_exceeded", 500: "server_error"}


def openai_events(answer: ModelResponse, asked: Mapping[str, Any], piece: int) -> Iterator[bytes]:
    """The events of a streamed answer. Usage is sent to those who ask for it."""
    options: Mapping[str, Any] = asked.get("stream_options") or {}
    counts = bool(options.get("include_usage"))
    base = _base(answer, asked, "chat.completion.chunk") | ({"usage": None} if counts else {})

    def chunk(delta: Mapping[str, Any], reason: str | None = None) -> bytes:
        return event({**base, "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}]})

    yield chunk({"role": "assistant", "content": ""})
    yield from (chunk({"content": text}) for text in split_text(answer.text, piece))
    for index, call in enumerate(answer.calls):
        yield chunk(
            {"tool_calls": [{"index": index, **_openai_call(call), "function": {"name": call.name, "arguments": ""}}]}
        )
        for text in split_text(call.arguments, piece):
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": text}}]})
    yield chunk({}, _reason(answer))
    if counts:
        yield event({**base, "choices": [], "usage": _openai_usage(answer.usage)})
    yield event("[DONE]")


def openai_body(answer: ModelResponse, asked: Mapping[str, Any]) -> dict[str, Any]:
    """The body of an answer that is not streamed."""
    message = {**answer.to_message(), "refusal": None}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _reason(answer)}
    return {**_base(answer, asked, "chat.completion"), "choices": [choice], "usage": _openai_usage(answer.usage)}


def openai_error(refusal: ErrorReply) -> dict[str, Any]:
    """The body of an error."""
    kind = refusal.kind or _OPENAI_KINDS.get(refusal.status, "invalid_request_error")
    return {"error": {"message": refusal.message, "type": kind, "param": None, "code": kind}}


def _base(answer: ModelResponse, asked: Mapping[str, Any], kind: str) -> dict[str, Any]:
    return {"id": "chatcmpl-scripted", "object": kind, "created": 0, "model": answer.model or asked.get("model", "")}


def _reason(answer: ModelResponse) -> str:
    return "tool_calls" if answer.calls and answer.stop == "stop" else answer.stop


def _openai_call(call: ToolCall) -> dict[str, Any]:
    return {"id": call.id, "type": "function"}


def _openai_usage(usage: Usage) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.input + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cached},
    }


Script: TypeAlias = Iterable[ScriptedReply] | Callable[[ModelServerRequest], ScriptedReply]
"""Answers in the order of requests, or a function that gives each request its answer."""

_HOST = "127.0.0.1"
_NO_MORE = ErrorReply(400, "the script has no more answers")


@check_arguments
class ModelServer:
    """Used as `with ModelServer([...]) as server`; it serves in a thread of its own, on a port that was free.

    Both protocols are served at once, streamed or not, as the client asks. `requests` has what was asked, in order,
    and `connections` is over how many of them. A request for which the script has no answer is refused. What a function
    of the script raises is raised by the `with`.
    """

    def __init__(self, script: Script) -> None:
        self._next = script if callable(script) else _iterate_script(iter(script))
        self._thread = threading.Thread(target=self._run, name="model-server", daemon=True)
        self._started = threading.Event()
        self._stop: Callable[[], object] = lambda: None
        self._connections: set[asyncio.Task[None]] = set()
        self._failure: BaseException | None = None
        self._port = 0
        self.requests: list[ModelServerRequest] = []
        self.connections = 0

    @property
    def openai_url(self) -> str:
        """The base URL for a client of OpenAI."""
        return f"http://{_HOST}:{self._port}/v1"

    @property
    def anthropic_url(self) -> str:
        """The base URL for a client of Anthropic."""
        return f"http://{_HOST}:{self._port}"

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables that point both kinds of models to this server."""
        keys = {"OPENAI_API_KEY": "test-key", "ANTHROPIC_API_KEY": "test-key"}
        return {**keys, "OPENAI_BASE_URL": self.openai_url, "ANTHROPIC_BASE_URL": self.anthropic_url}

    def __enter__(self) -> "ModelServer":
        self._thread.start()
        self._started.wait()
        assert self._port, "the server could not be started; its thread says why"  # noqa: S101
        return self

    def __exit__(self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None) -> None:
        self._stop()
        self._thread.join()
        if self._failure is not None:
            raise self._failure from error

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        finally:
            self._started.set()

    async def _serve(self) -> None:
        loop, stopped = asyncio.get_running_loop(), asyncio.Event()
        # What goes wrong is raised by the `with`, so nobody has to be told in a log.
        loop.set_exception_handler(lambda _, __: None)
        server = await asyncio.start_server(self._serve_connection, _HOST, 0, backlog=500)
        self._port = server.sockets[0].getsockname()[1]
        self._stop = lambda: loop.call_soon_threadsafe(stopped.set)
        self._started.set()
        await stopped.wait()
        server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _serve_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = cast("asyncio.Task[None]", asyncio.current_task())
        self._connections.add(task)
        self.connections += 1
        task.add_done_callback(self._on_task_end)
        connection = ModelServerConnection(reader, writer)
        try:
            while (request := await connection.read_request()) and await self._answer(connection, request):
                pass
        except asyncio.CancelledError:
            # The server ends; the streams of asyncio complain about tasks that are cancelled.
            return
        finally:
            await connection.close()

    def _on_task_end(self, task: "asyncio.Task[None]") -> None:
        self._connections.discard(task)
        failure = None if task.cancelled() else task.exception()
        self._failure = self._failure or failure

    async def _answer(self, connection: ModelServerConnection, request: RawRequest) -> bool:
        """Answer a request; gives whether the connection can take another."""
        asked = _parse_request(request)
        self.requests.append(asked)
        reply = self._next(asked)
        try:
            return await _send_scripted(connection, asked, reply)
        except ClientDisconnected:
            asked.disconnected.set()
            return False


async def _send_scripted(connection: ModelServerConnection, asked: ModelServerRequest, reply: ScriptedReply) -> bool:
    if isinstance(reply, ErrorReply):
        error = openai_error if asked.protocol == "openai" else anthropic_error
        await connection.send_json(reply.status, error(reply), reply.headers)
    elif isinstance(reply, RawReply):
        return await _send_chunks(connection, iter(reply.chunks), reply)
    elif isinstance(reply, ResetReply):
        connection.reset()
        return False
    else:
        return await _send_reply(connection, asked, _to_reply(reply))
    return True


async def _send_reply(connection: ModelServerConnection, asked: ModelServerRequest, reply: ModelReply) -> bool:
    await connection.pause(reply.first_after)
    if not (asked.body.get("stream") and reply.streams):
        whole = openai_body if asked.protocol == "openai" else anthropic_body
        await connection.send_json(200, whole(reply.answer, asked.body), {})
        return True
    events = openai_events if asked.protocol == "openai" else anthropic_events
    sent = list(events(reply.answer, asked.body, reply.piece))[: reply.cut_after]
    raw = RawReply(tuple(_split_events(sent, reply.split)), between=reply.between, cut=reply.cut_after is not None)
    return await _send_chunks(connection, iter(raw.chunks), raw)


async def _send_chunks(connection: ModelServerConnection, chunks: Iterator[bytes], how: RawReply) -> bool:
    await connection.start_chunks(how.status, how.content_type)
    # An empty chunk would be the end.
    for number, chunk in enumerate(filter(None, chunks)):
        await connection.pause(how.between if number else 0)
        await connection.send_chunk(chunk)
    if not how.cut:
        await connection.send_chunk(b"")
    return not how.cut


def _split_events(events: list[bytes], size: int | None) -> list[bytes]:
    if size is None:
        return events
    content = b"".join(events)
    return [content[start : start + size] for start in range(0, len(content), size)]


def _to_reply(reply: ModelReply | ModelResponse | str) -> ModelReply:
    if isinstance(reply, ModelReply):
        return reply
    return ModelReply(ModelResponse(reply) if isinstance(reply, str) else reply)


def _parse_request(request: RawRequest) -> ModelServerRequest:
    protocol: ModelProtocol = "anthropic" if request.path.partition("?")[0].endswith("/messages") else "openai"
    body = request.content.decode("utf-8", "replace")
    return ModelServerRequest(protocol, request.path, request.headers, parse_json_object(body))


def _iterate_script(replies: Iterator[ScriptedReply]) -> Callable[[ModelServerRequest], ScriptedReply]:
    return lambda _: next(replies, _NO_MORE)
