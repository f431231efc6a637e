"""A scripted model server: a local HTTP server that speaks the protocols of OpenAI and Anthropic."""

import json
import select
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http.client import responses
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
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
    """A request: `content` are its bytes. `disconnected` is set if the client left before the answer was over."""

    protocol: ModelProtocol
    path: str
    headers: Mapping[str, str]
    body: Mapping[str, Any]
    content: bytes = field(default=b"", repr=False)
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
        function = {"name": call.name, "arguments": ""}
        yield chunk({"tool_calls": [{"index": index, "id": call.id, "type": "function", "function": function}]})
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
_POLL = 0.01
_NO_MORE = ErrorReply(400, "the script has no more answers")


@check_arguments
class ModelServer:
    """Used as `with ModelServer([...]) as server`; it serves in threads of its own, on a port that was free.

    Both protocols are served at once, streamed or not, as the client asks. `requests` has what was asked, in order,
    and `connections` is over how many of them. A request for which the script has no answer is refused. What a function
    of the script raises is raised by the `with`.
    """

    def __init__(self, script: Script) -> None:
        self._script = script if callable(script) else iter(script)
        self._server: _ThreadingServer | None = None
        self._thread: threading.Thread | None = None
        self.failure: BaseException | None = None
        self.requests: list[ModelServerRequest] = []
        self.connections = 0

    @property
    def openai_url(self) -> str:
        """The base URL for a client of OpenAI."""
        return f"{self.anthropic_url}/v1"

    @property
    def anthropic_url(self) -> str:
        """The base URL for a client of Anthropic."""
        return f"http://{_HOST}:{self._server.server_port if self._server else 0}"

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables that point both kinds of models to this server."""
        keys = {"OPENAI_API_KEY": "test-key", "ANTHROPIC_API_KEY": "test-key"}
        return {**keys, "OPENAI_BASE_URL": self.openai_url, "ANTHROPIC_BASE_URL": self.anthropic_url}

    def __enter__(self) -> "ModelServer":
        self._server = _ThreadingServer((_HOST, 0), _ModelServerHandler, self)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(_POLL,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None) -> None:
        if self._server and self._thread:
            self._server.shutdown()
            self._thread.join()
            self._server.close_connections()
            self._server.server_close()
        if self.failure is not None:
            raise self.failure from error

    def next_reply(self, asked: ModelServerRequest) -> ScriptedReply:
        """The next reply of the script."""
        return self._script(asked) if callable(self._script) else next(self._script, _NO_MORE)


class _ThreadingServer(ThreadingHTTPServer):
    request_queue_size = 500

    def __init__(self, address: tuple[str, int], handler: Any, owner: ModelServer) -> None:
        super().__init__(address, handler)
        self.owner = owner
        self._sockets: set[socket.socket] = set()
        self._is_closing = False

    def process_request(self, request: Any, client_address: Any) -> None:
        self._sockets.add(request)
        self.owner.connections += 1
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._sockets.discard(request)
        super().shutdown_request(request)

    def close_connections(self) -> None:
        """Wake the threads of clients that are still connected."""
        self._is_closing = True
        for connection in list(self._sockets):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002
        error = sys.exception()
        if not self._is_closing and not isinstance(error, OSError):
            self.owner.failure = self.owner.failure or error


class _ClientDisconnected(Exception):
    """The client closed the connection before its answer was over."""


class _ModelServerHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        length = int(self.headers.get("content-length", 0))
        content = self.rfile.read(length)
        if len(content) < length:
            self.close_connection = True
            return
        protocol: ModelProtocol = "anthropic" if self.path.partition("?")[0].endswith("/messages") else "openai"
        headers = {name.lower(): value.strip() for name, value in self.headers.items()}
        body = parse_json_object(content.decode("utf-8", "replace"))
        asked = ModelServerRequest(protocol, self.path, headers, body, content)
        owner = cast("_ThreadingServer", self.server).owner
        owner.requests.append(asked)
        reply = owner.next_reply(asked)
        try:
            self._send(asked, reply)
        except (_ClientDisconnected, ConnectionError):
            asked.disconnected.set()
            self.close_connection = True

    do_GET = do_POST  # noqa: N815

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Write no log."""

    def _send(self, asked: ModelServerRequest, reply: ScriptedReply) -> None:
        is_openai = asked.protocol == "openai"
        if isinstance(reply, ErrorReply):
            self._send_json(reply.status, (openai_error if is_openai else anthropic_error)(reply), reply.headers)
            return
        if isinstance(reply, RawReply):
            self._send_chunks(reply)
            return
        if isinstance(reply, ResetReply):
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
            self.close_connection = True
            return
        if not isinstance(reply, ModelReply):
            reply = ModelReply(ModelResponse(reply) if isinstance(reply, str) else reply)
        self._pause(reply.first_after)
        if not (asked.body.get("stream") and reply.streams):
            self._send_json(200, (openai_body if is_openai else anthropic_body)(reply.answer, asked.body), {})
            return
        events = (openai_events if is_openai else anthropic_events)(reply.answer, asked.body, reply.piece)
        sent = list(events)[: reply.cut_after]
        if reply.split is not None:
            whole = b"".join(sent)
            sent = [whole[start : start + reply.split] for start in range(0, len(whole), reply.split)]
        self._send_chunks(RawReply(tuple(sent), between=reply.between, cut=reply.cut_after is not None))

    def _send_json(self, status: int, body: object, headers: Mapping[str, str]) -> None:
        content = json.dumps(body, ensure_ascii=False).encode()
        self._send_head(status, {"content-type": "application/json", "content-length": str(len(content)), **headers})
        self.wfile.write(content)

    def _send_chunks(self, reply: RawReply) -> None:
        self._send_head(reply.status, {"content-type": reply.content_type, "transfer-encoding": "chunked"})
        # An empty chunk would be the end.
        for number, chunk in enumerate(filter(None, reply.chunks)):
            self._pause(reply.between if number else 0)
            self.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
        if not reply.cut:
            self.wfile.write(b"0\r\n\r\n")
        self.close_connection = self.close_connection or reply.cut

    def _send_head(self, status: int, headers: Mapping[str, str]) -> None:
        self.send_response_only(status, responses.get(status, "Scripted"))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def _pause(self, seconds: float) -> None:
        """Send nothing for this long; raises when the client disconnects."""
        until = time.monotonic() + seconds
        while True:
            left = max(until - time.monotonic(), 0)
            readable, _, _ = select.select([self.connection], [], [], left)
            if readable and not self.connection.recv(1, socket.MSG_PEEK):
                raise _ClientDisconnected
            if left == 0:
                return
            if readable:
                # The next request is waiting already.
                time.sleep(min(left, _POLL))
