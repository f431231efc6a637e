"""A real HTTP server on this machine: it speaks the protocols of OpenAI and Anthropic, and says what a script says."""

import asyncio
import threading
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import TypeAlias, cast

from openskills.agent.model import Answer
from openskills.prompt.messages import json_object
from openskills.testing.model_server_anthropic import anthropic_error, anthropic_events, anthropic_whole
from openskills.testing.model_server_http import ClientLeft, Connection, Request
from openskills.testing.model_server_openai import openai_error, openai_events, openai_whole
from openskills.testing.model_server_replies import Asked, Protocol, RawReply, Refusal, Reply, Reset, Scripted

Script: TypeAlias = Iterable[Scripted] | Callable[[Asked], Scripted]
"""Answers in the order of requests, or a function that gives each request its answer."""

_HOST = "127.0.0.1"
_NO_MORE = Refusal(400, "the script has no more answers")


class ModelServer:
    """Used as `with ModelServer([...]) as server`; it serves in a thread of its own, on a port that was free.

    Both protocols are served at once, streamed or not, as the client asks. `requests` has what was asked, in order,
    and `connections` is over how many of them. A request for which the script has no answer is refused. What a function
    of the script raises is raised by the `with`.
    """

    def __init__(self, script: Script) -> None:
        self._next = script if callable(script) else _in_order(iter(script))
        self._thread = threading.Thread(target=self._run, name="model-server", daemon=True)
        self._started = threading.Event()
        self._stop: Callable[[], object] = lambda: None
        self._connections: set[asyncio.Task[None]] = set()
        self._failure: BaseException | None = None
        self._port = 0
        self.requests: list[Asked] = []
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
        """Variables that lead models of both kinds here."""
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
        server = await asyncio.start_server(self._connected, _HOST, 0, backlog=500)
        self._port = server.sockets[0].getsockname()[1]
        self._stop = lambda: loop.call_soon_threadsafe(stopped.set)
        self._started.set()
        await stopped.wait()
        server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = cast("asyncio.Task[None]", asyncio.current_task())
        self._connections.add(task)
        self.connections += 1
        task.add_done_callback(self._ended)
        connection = Connection(reader, writer)
        try:
            while (request := await connection.request()) and await self._answered(connection, request):
                pass
        except asyncio.CancelledError:
            # The server ends; the streams of asyncio complain about tasks that are cancelled.
            return
        finally:
            await connection.close()

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._connections.discard(task)
        failure = None if task.cancelled() else task.exception()
        self._failure = self._failure or failure

    async def _answered(self, connection: Connection, request: Request) -> bool:
        """Answer a request; gives whether the connection can take another."""
        asked = _asked(request)
        self.requests.append(asked)
        reply = self._next(asked)
        try:
            return await _send(connection, asked, reply)
        except ClientLeft:
            asked.left.set()
            return False


async def _send(connection: Connection, asked: Asked, reply: Scripted) -> bool:
    if isinstance(reply, Refusal):
        error = openai_error if asked.protocol == "openai" else anthropic_error
        await connection.whole(reply.status, error(reply), reply.headers)
    elif isinstance(reply, RawReply):
        return await _chunks(connection, iter(reply.chunks), reply)
    elif isinstance(reply, Reset):
        connection.reset()
        return False
    else:
        return await _reply(connection, asked, _as_reply(reply))
    return True


async def _reply(connection: Connection, asked: Asked, reply: Reply) -> bool:
    await connection.silence(reply.first_after)
    if not (asked.body.get("stream") and reply.streams):
        whole = openai_whole if asked.protocol == "openai" else anthropic_whole
        await connection.whole(200, whole(reply.answer, asked.body), {})
        return True
    events = openai_events if asked.protocol == "openai" else anthropic_events
    sent = list(events(reply.answer, asked.body, reply.piece))[: reply.cut_after]
    raw = RawReply(tuple(_split(sent, reply.split)), between=reply.between, cut=reply.cut_after is not None)
    return await _chunks(connection, iter(raw.chunks), raw)


async def _chunks(connection: Connection, chunks: Iterator[bytes], how: RawReply) -> bool:
    await connection.begin(how.status, how.content_type)
    # An empty chunk would be the end.
    for number, chunk in enumerate(filter(None, chunks)):
        await connection.silence(how.between if number else 0)
        await connection.chunk(chunk)
    if not how.cut:
        await connection.chunk(b"")
    return not how.cut


def _split(events: list[bytes], size: int | None) -> list[bytes]:
    if size is None:
        return events
    content = b"".join(events)
    return [content[start : start + size] for start in range(0, len(content), size)]


def _as_reply(reply: Reply | Answer | str) -> Reply:
    if isinstance(reply, Reply):
        return reply
    return Reply(Answer(reply) if isinstance(reply, str) else reply)


def _asked(request: Request) -> Asked:
    protocol: Protocol = "anthropic" if request.path.partition("?")[0].endswith("/messages") else "openai"
    body = request.content.decode("utf-8", "replace")
    return Asked(protocol, request.path, request.headers, json_object(body))


def _in_order(replies: Iterator[Scripted]) -> Callable[[Asked], Scripted]:
    return lambda _: next(replies, _NO_MORE)
