"""The channel between a driver and a node: multiplexed requests over one TCP connection, without pickle.

A frame is a head of 13 bytes (flags, message number, lengths), a JSON header and raw bytes. A message of more than one
frame sends its bytes first. Both sides prove with HMAC that they know the node's token before anything else is read.
Bytes are not encrypted: the network between driver and nodes has to be private.
"""

import asyncio
import errno
import hashlib
import hmac
import json
import secrets
import struct
from collections.abc import Awaitable, Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import Any, TypeAlias, cast

from openskills import errors
from openskills.errors import (
    ExecutorUnavailable,
    InvalidArgument,
    InvalidSkill,
    LimitExceeded,
    SkillError,
    TooManyRequests,
)
from openskills.executors.spec import CapturedOutput, CommandResult, build_reader, to_json

_HEAD = struct.Struct(">BIII")
_MORE = 1
PIECE_BYTES = 256 * 1024
"""The most bytes of one frame; larger messages are split, so that others are not held up."""
MAX_HEADER = 32 * 1024 * 1024
MAX_MESSAGE = 256 * 1024 * 1024
_MAX_PARTIAL = 64
_MAX_REQUESTS = 4096
_HANDSHAKE_BYTES = 32
HANDSHAKE_TIMEOUT = 10.0
_GREETING = b"openskills-node-2"
_CANCEL_TIMEOUT = 5.0

Reply: TypeAlias = tuple[Any, bytes]
"""A JSON value and bytes. It may contain dataclasses that consist of JSON values."""
Handler: TypeAlias = Callable[[str, dict[str, Any], bytes], Awaitable[Reply]]
"""Answers a request: its name, arguments and bytes."""


class ChannelClosed(ExecutorUnavailable):
    """The connection ended before the reply; whether the request was executed is unknown."""


class WorkspaceMoved(ExecutorUnavailable):
    """The node does not have this workspace any more, or has an older epoch of it; nothing was executed."""


class Channel:
    """One side of a connection. `handler` answers requests of the other side.

    The connection is closed if nothing arrives for `timeout` seconds; both sides send a ping three times as often.
    """

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        *,
        handler: Handler | None = None,
        timeout: float,
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._handler = handler
        self._timeout = timeout
        self._loop = asyncio.get_running_loop()
        self._last_id = 0
        self._waiting: dict[int, asyncio.Future[Reply]] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._partial: dict[int, bytearray] = {}
        self._draining = asyncio.Lock()
        self._heard_at = self._loop.time()
        self._is_closed = False
        self.reason = ""
        self._run_task = self._loop.create_task(self._run())
        self._ping_task = self._loop.create_task(self._ping())

    @property
    def is_closed(self) -> bool:
        """Whether nothing can be sent any more."""
        return self._is_closed or self._loop.is_closed()

    async def call(self, name: str, arguments: Mapping[str, Any], body: bytes = b"") -> Reply:
        """Send a request and wait for its reply; raises the error of the other side.

        A cancelled call is cancelled there, too, before this returns, unless it has been executed. Raises
        `ChannelClosed` if the connection ends.
        """
        if self._is_closed:
            raise ChannelClosed(f"the connection to the node is closed{self.reason and ': '}{self.reason}")
        self._last_id += 1
        number = self._last_id
        reply: asyncio.Future[Reply] = self._loop.create_future()
        self._waiting[number] = reply
        try:
            await self._send({"id": number, "call": name, "args": arguments}, body)
            try:
                await self._drain()
                return await asyncio.shield(reply)
            except asyncio.CancelledError:
                if not reply.done() and not self._is_closed:
                    self._write({"cancel": number}, b"")
                    # What was cancelled has ended when the caller continues, unless the node does not answer.
                    await asyncio.wait([reply], timeout=_CANCEL_TIMEOUT)
                raise
        finally:
            del self._waiting[number]
            if reply.done() and not reply.cancelled():
                reply.exception()

    def notify(self, name: str, arguments: Mapping[str, Any]) -> None:
        """Send a request without waiting for its reply."""
        if not self._is_closed:
            self._last_id += 1
            self._write({"id": self._last_id, "call": name, "args": arguments}, b"")

    async def send_event(self, name: str, value: Mapping[str, Any], body: bytes = b"") -> None:
        """Send an event; does nothing if the connection is closed."""
        if not self._is_closed:
            with suppress(ConnectionError):
                await self._send({"event": name, "value": value}, body)
                await self._drain()

    def post_event(self, name: str, value: Mapping[str, Any]) -> None:
        """Send a small event without waiting until it has left; does nothing if the connection is closed."""
        if not self._is_closed:
            self._write({"event": name, "value": value}, b"")

    async def wait_closed(self) -> None:
        """Wait until the connection has ended and no request of the other side is being answered."""
        await asyncio.wait([self._run_task])
        while self._tasks:
            await asyncio.wait(list(self._tasks.values()))

    def close(self, reason: str = "") -> None:
        """Close the connection. Requests that wait for a reply raise `ChannelClosed`."""
        if self._is_closed:
            return
        self._is_closed = True
        self.reason = self.reason or reason
        if self._loop.is_closed():
            return
        self._run_task.cancel()
        self._ping_task.cancel()
        self._writer.close()
        for task in self._tasks.values():
            task.cancel()
        message = f"the connection to the node ended{reason and ': '}{reason}; what it was executing is unknown"
        for reply in self._waiting.values():
            if not reply.done():
                reply.set_exception(ChannelClosed(message))
        self._on_close(reason)

    def _on_event(self, name: str, value: dict[str, Any], body: bytes) -> None:
        """Called with each event of the other side."""

    def _on_close(self, reason: str) -> None:
        """Called when the connection has ended."""

    async def _run(self) -> None:
        reason = "the other side closed it"
        try:
            while True:
                flags, number, header_size, body_size = _HEAD.unpack(await self._reader.readexactly(_HEAD.size))
                if header_size > MAX_HEADER or body_size > PIECE_BYTES:
                    raise LimitExceeded(f"a frame of {header_size + body_size:,} bytes is too large")
                header = await self._reader.readexactly(header_size) if header_size else b""
                body = await self._reader.readexactly(body_size) if body_size else b""
                self._heard_at = self._loop.time()
                self._on_frame(flags, number, header, body)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        except OSError as error:
            reason = error.strerror or str(error)
        except (SkillError, ValueError, KeyError, TypeError) as error:
            reason = f"invalid message: {error}"
        finally:
            self.close(reason)

    def _on_frame(self, flags: int, number: int, header: bytes, body: bytes) -> None:
        if flags & _MORE:
            if number not in self._partial and len(self._partial) >= _MAX_PARTIAL:
                raise LimitExceeded(f"more than {_MAX_PARTIAL} messages arrive at once")
            self._partial.setdefault(number, bytearray()).extend(body)
            if sum(map(len, self._partial.values())) > MAX_MESSAGE:
                raise LimitExceeded(f"messages of more than {MAX_MESSAGE:,} bytes")
            return
        if (before := self._partial.pop(number, None)) is not None:
            body = bytes(before + body)
        message = json.loads(header)
        if not isinstance(message, dict):
            raise TypeError("a header is not a JSON object")
        self._on_message(cast("dict[str, Any]", message), body)

    def _on_message(self, message: dict[str, Any], body: bytes) -> None:
        if "call" in message:
            self._on_request(int(message["id"]), str(message["call"]), dict(message["args"]), body)
        elif "cancel" in message:
            if (task := self._tasks.get(int(message["cancel"]))) is not None:
                task.cancel()
        elif "event" in message:
            self._on_event(str(message["event"]), dict(message["value"]), body)
        elif "ping" in message:
            self._write({"pong": message["ping"]}, b"")
        elif "id" in message:
            reply = self._waiting.get(int(message["id"]))
            if reply is None or reply.done():
                return
            if "error" in message:
                reply.set_exception(error_from_json(message["error"]))
            else:
                reply.set_result((message["value"], body))

    def _on_request(self, number: int, name: str, arguments: dict[str, Any], body: bytes) -> None:
        if self._handler is None or number in self._tasks:
            raise LimitExceeded("an unexpected request")
        if len(self._tasks) >= _MAX_REQUESTS:
            refusal = TooManyRequests(f"more than {_MAX_REQUESTS:,} requests at once; wait for some of them")
            self._write({"id": number, "error": error_to_json(refusal)}, b"")
            return
        task = self._loop.create_task(self._answer(self._handler, number, name, arguments, body))
        self._tasks[number] = task
        task.add_done_callback(lambda done: self._on_answered(number, done))

    async def _answer(self, handler: Handler, number: int, name: str, arguments: dict[str, Any], body: bytes) -> None:
        value, data = await handler(name, arguments, body)
        await self._send({"id": number, "value": value}, data)
        await self._drain()

    def _on_answered(self, number: int, task: asyncio.Task[None]) -> None:
        del self._tasks[number]
        error = ExecutorUnavailable("cancelled") if task.cancelled() else task.exception()
        if error is not None and not self._is_closed:
            self._write({"id": number, "error": error_to_json(error)}, b"")

    async def _send(self, header: Mapping[str, Any], body: bytes) -> None:
        """Write a message; if this raises, also because of a cancellation, the other side ignores what has left."""
        if len(body) > MAX_MESSAGE:
            raise LimitExceeded(f"{len(body):,} bytes at once; the maximum through Ray is {MAX_MESSAGE:,}")
        self._last_id += 1
        number, rest = self._last_id, memoryview(body)
        try:
            while len(rest) > PIECE_BYTES:
                self._writer.write(_HEAD.pack(_MORE, number, 0, PIECE_BYTES))
                self._writer.write(rest[:PIECE_BYTES])
                rest = rest[PIECE_BYTES:]
                await self._drain()
            self._write(header, rest, number)
        except BaseException:
            if len(rest) < len(body) and not self._is_closed:
                # It would keep the pieces until the connection ends.
                self._write({}, b"", number)
            raise

    def _write(self, header: Mapping[str, Any], body: bytes | memoryview, number: int = 0) -> None:
        text = json.dumps(header, separators=(",", ":"), default=to_json).encode("ascii")
        if len(text) > MAX_HEADER:
            raise LimitExceeded(f"{len(text):,} bytes of arguments; the maximum through Ray is {MAX_HEADER:,}")
        self._writer.write(b"".join((_HEAD.pack(0, number, len(text), len(body)), text, body)))

    async def _drain(self) -> None:
        if self._is_closed:
            raise ChannelClosed("the connection to the node is closed")
        async with self._draining:
            try:
                await self._writer.drain()
            except ConnectionError as error:
                raise ChannelClosed(f"the connection to the node ended: {error}") from None

    async def _ping(self) -> None:
        pings = 0
        while not self._is_closed:
            await asyncio.sleep(self._timeout / 3)
            if self._loop.time() - self._heard_at > self._timeout:
                self.close(f"nothing was received for {self._timeout:g} s")
                return
            pings += 1
            self._write({"ping": pings}, b"")


async def connect(
    host: str, port: int, token: bytes, *, timeout: float
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect to a node and prove that both sides know its token. Raises `ChannelClosed`."""
    with ExitStack() as on_failure:
        try:
            async with asyncio.timeout(timeout):
                reader, writer = await asyncio.open_connection(host, port)
                on_failure.callback(writer.close)
                await _greet(reader, writer, token, is_server=False)
        except (OSError, TimeoutError, asyncio.IncompleteReadError) as error:
            what = "timed out" if isinstance(error, TimeoutError) else str(error)
            raise ChannelClosed(f"cannot connect to the node at {host}:{port}: {what}") from None
        on_failure.pop_all()
        return reader, writer


async def check_driver(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, token: bytes) -> bool:
    """Whether a driver proves in time that it knows the token; if not, its connection is closed."""
    try:
        async with asyncio.timeout(HANDSHAKE_TIMEOUT):
            await _greet(reader, writer, token, is_server=True)
    except (OSError, TimeoutError, asyncio.IncompleteReadError, ChannelClosed):
        writer.close()
        return False
    return True


async def _greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, token: bytes, *, is_server: bool) -> None:
    """Exchange random challenges, then their HMAC. The driver proves itself first."""
    ours = secrets.token_bytes(_HANDSHAKE_BYTES)
    writer.write(_GREETING + ours)
    greeting = await reader.readexactly(len(_GREETING) + _HANDSHAKE_BYTES)
    if not greeting.startswith(_GREETING):
        raise ChannelClosed("the other side is not an OpenSkill node of this version")
    theirs = greeting[len(_GREETING) :]
    nonces = theirs + ours if is_server else ours + theirs
    client_proof = hmac.digest(token, b"driver" + nonces, hashlib.sha256)
    server_proof = hmac.digest(token, b"node" + nonces, hashlib.sha256)
    if not is_server:
        writer.write(client_proof)
    proof = await reader.readexactly(_HANDSHAKE_BYTES)
    if not hmac.compare_digest(proof, client_proof if is_server else server_proof):
        raise ChannelClosed("the other side does not know the token of this node")
    if is_server:
        writer.write(server_proof)


def error_to_json(error: BaseException) -> dict[str, Any]:
    """An error as a JSON value. What is not a `SkillError` or an `OSError` becomes its name and text."""
    if isinstance(error, InvalidArgument):
        return {"type": "InvalidArgument", "field": error.field, "message": error.message[len(error.field) + 2 :]}
    if isinstance(error, SkillError):
        return {"type": type(error).__name__, "message": error.message}
    if isinstance(error, OSError) and error.errno:
        return {"type": "OSError", "errno": error.errno, "message": error.strerror}
    return {"type": "ExecutorUnavailable", "message": f"the node failed: {type(error).__name__}: {error}"}


def error_from_json(value: Any) -> Exception:
    """The error of a JSON value; an unknown type is an `ExecutorUnavailable`."""
    name, message = str(value["type"]), str(value["message"])
    if name == "InvalidArgument":
        return InvalidArgument(str(value["field"]), message)
    if name == "OSError":
        number = int(value["errno"])
        return OSError(number if number in errno.errorcode else errno.EIO, message)
    found = WorkspaceMoved if name == WorkspaceMoved.__name__ else getattr(errors, name, None)
    # Others need more than a message.
    plain = (SkillError.__init__, InvalidSkill.__init__)
    if isinstance(found, type) and issubclass(found, SkillError) and found.__init__ in plain:
        return found(message)
    return ExecutorUnavailable(message)


def result_to_message(result: CommandResult) -> tuple[dict[str, Any], bytes]:
    """A result without its output, the lengths of that, and its bytes."""
    parts = (result.stdout.head, result.stdout.tail, result.stderr.head, result.stderr.tail)
    stdout, stderr = (CapturedOutput(cut=one.cut) for one in (result.stdout, result.stderr))
    return {"result": replace(result, stdout=stdout, stderr=stderr), "lengths": list(map(len, parts))}, b"".join(parts)


def result_from_message(value: Mapping[str, Any], body: bytes) -> CommandResult:
    """The result that `result_to_message` has written."""
    result: CommandResult = build_reader(CommandResult)(value["result"])
    parts = [body[begin:end] for begin, end in pairwise(accumulate(map(int, value["lengths"]), initial=0))]
    stdout = replace(result.stdout, head=parts[0], tail=parts[1])
    return replace(result, stdout=stdout, stderr=replace(result.stderr, head=parts[2], tail=parts[3]))
