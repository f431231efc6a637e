"""Connections to MCP servers: to a command over pipes, or to a URL over HTTP, with limits on bytes and time.

Each connection has an event loop in a thread of its own, so that it can be used from blocking code and from any loop.
The official SDK speaks the protocol. Its transport for commands is not used: it does not limit the length of a line.
"""

import atexit
import logging
import math
import os
import re
import shlex
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast
from weakref import WeakSet

import anyio
import anyio.from_thread
import anyio.lowlevel
import httpx2

from openskills.addresses import is_loopback
from openskills.catalog.sources.cache import redact, split_url
from openskills.errors import (
    DeadlineExceeded,
    InvalidArgument,
    LimitExceeded,
    MissingExtra,
    SkillError,
    SourceUnavailable,
    Unauthorized,
    UnsupportedMedia,
)
from openskills.settings import Settings
from openskills.subprocesses import PipedProcess, start_piped
from openskills.version import __version__

if TYPE_CHECKING:
    from anyio.abc import TaskStatus
    from anyio.from_thread import BlockingPortal
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from mcp import Client
    from mcp.shared.message import SessionMessage

T = TypeVar("T")

MAX_MESSAGE_BYTES = 32 << 20
"""One message of a server: the largest file of a skill (16 MiB) in base64, and room."""

CONNECT_TIMEOUT = 30.0
"""Seconds to start the server and to agree on a version of the protocol."""

_SDK_LOG = logging.getLogger("mcp")
_CHUNK = 65536
_MAX_STRAY_LINES = 1000
_STDERR_BYTES = 2000
_GRACE = 1.0
_POLL_INTERVAL = 0.01
_WATCH_INTERVAL = 0.1
# What the SDK passes on as well; other variables may contain secrets.
_INHERITED = ("HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "USER")
_ASSIGNMENT = re.compile(r"(--?)?[\w-]*=", re.ASCII)
_SECRET_OPTION = re.compile(r"--?[\w-]*(key|token|secret|password)[\w-]*", re.ASCII | re.IGNORECASE)
_KEY = re.compile(r"[\x21-\x7e]+")


@dataclass(frozen=True, slots=True)
class McpAddress:
    """Where an MCP server is: a command with its environment, or a URL with its headers. `label` has no secrets."""

    label: str
    command: tuple[str, ...] = ()
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    environment: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)


def parse_mcp_address(
    text: str, settings: Settings, *, api_key: str | None = None, environment: Mapping[str, str] | None = None
) -> McpAddress:
    """The server of `mcp+https://HOST/PATH` or `mcp:COMMAND ARGUMENTS`.

    `api_key` defaults to the key of this host in `OPENSKILL_MCP_KEYS`. A command gets PATH, HOME and similar variables,
    those that `OPENSKILL_MCP_ENV` names, and `environment`. Raises `InvalidArgument`.
    """
    if text.startswith("mcp:"):
        try:
            command = shlex.split(text.removeprefix("mcp:"))
        except ValueError as error:
            raise InvalidArgument("source", f"invalid command after 'mcp:': {error}; quote it as in a shell") from None
        return command_address(command, settings, environment=environment)
    url = text.removeprefix("mcp+")
    parts = split_url(url)
    if not parts.hostname or parts.scheme not in ("http", "https"):
        raise InvalidArgument("source", f"{redact(text)!r}: write mcp+https://HOST/PATH or mcp:COMMAND")
    if "@" in parts.netloc:
        raise InvalidArgument("source", f"{redact(text)!r}: contains a user name; put the key into OPENSKILL_MCP_KEYS")
    if parts.scheme == "http" and not is_loopback(parts.hostname):
        raise InvalidArgument("source", f"{redact(text)!r}: http is for this machine only; use mcp+https://")
    key = api_key or settings.mcp_keys.get(parts.netloc.lower())
    if key and not _KEY.fullmatch(key):
        raise InvalidArgument("api_key", "contains invalid characters")
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    return McpAddress(f"mcp+{redact(url)}", url=parts._replace(fragment="").geturl(), headers=headers)


def command_address(
    command: Sequence[str], settings: Settings, *, environment: Mapping[str, str] | None = None
) -> McpAddress:
    """The server that this command is; see `parse_mcp_address`."""
    if not command or not command[0]:
        raise InvalidArgument("source", "'mcp:' names no command; write mcp:COMMAND ARGUMENTS")
    passed = (*_INHERITED, *settings.mcp_env)
    known = {name: settings.environment[name] for name in passed if name in settings.environment}
    label = f"mcp:{shlex.join(_hide_secrets(command))}"
    return McpAddress(label, command=tuple(command), environment={**known, **(environment or {})})


def _hide_secrets(command: Sequence[str]) -> list[str]:
    """The words of a command without the values of variables and of options for keys."""
    shown: list[str] = []
    for number, word in enumerate(command):
        assigned = _ASSIGNMENT.match(word)
        if number and _SECRET_OPTION.fullmatch(command[number - 1]):
            shown.append("...")
        elif assigned and (not assigned[1] or _SECRET_OPTION.fullmatch(assigned[0][:-1])):
            shown.append(f"{assigned[0]}...")
        else:
            shown.append(redact(word))
    return shown


class McpConnection:
    """One connection to a server. Blocking; a context manager. Safe to use from several threads.

    `extensions` are the ids that the client declares. Everything raises a `SkillError` that names the server.
    """

    def __init__(self, address: McpAddress, *, extensions: Sequence[str] = ()) -> None:
        self.address = address
        self._extensions = tuple(extensions)
        self._stack = ExitStack()
        self._portal: BlockingPortal | None = None
        self._client: Client | None = None
        self._stop: Callable[[], None] = lambda: None
        self._process: PipedProcess | None = None
        self._stderr = bytearray()
        self._failure: SkillError | None = None
        self._status = 0
        self._has_ended = False
        self._closing = threading.Lock()
        self._pid = os.getpid()

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def is_open(self) -> bool:
        """Whether the server is connected; false after it ended or after a message broke a limit."""
        return self._client is not None

    def open(self, timeout: float = CONNECT_TIMEOUT) -> None:
        """Connect. Raises `SourceUnavailable`, `Unauthorized` or `DeadlineExceeded`; then nothing is left running."""
        try:
            import mcp as _  # pyright: ignore[reportUnusedImport]
        except ImportError:
            raise MissingExtra("mcp", "MCP servers") from None
        # Otherwise its warnings about what a server sends are printed to stderr.
        if not _SDK_LOG.handlers:
            _SDK_LOG.addHandler(logging.NullHandler())
        with ExitStack() as stack:
            self._portal = stack.enter_context(anyio.from_thread.start_blocking_portal(name="openskills-mcp"))
            serving, _ = self._portal.start_task(self._serve, timeout)
            self._stack = stack.pop_all()
            _OPEN.add(self)
            serving.add_done_callback(_retrieve)

    def submit(self, call: "Callable[[Client], Awaitable[T]]", timeout: float) -> "Future[T]":
        """Start a call in the thread of the connection. Cancelling the future cancels it, also on the server."""
        if self._portal is None:
            raise self._ended_error()
        return self._portal.start_task_soon(self._run, call, timeout)

    def call(self, call: "Callable[[Client], Awaitable[T]]", timeout: float) -> T:
        """Make a call and wait for its result. Ctrl-C cancels it."""
        waiting = self.submit(call, timeout)
        try:
            return waiting.result()
        except BaseException:
            waiting.cancel()
            raise

    def close(self) -> None:
        """Disconnect, and end the process of a command with all its descendants; safe to call twice."""
        with self._closing:
            portal, self._portal = self._portal, None
            # A forked process has the connection, but not its thread.
            if portal is None or self._pid != os.getpid():
                return
            _OPEN.discard(self)
            portal.call(self._stop)
            self._stack.close()

    async def _serve(self, timeout: float, *, task_status: "TaskStatus[None]") -> None:
        """Connect, report that, and disconnect when asked to or when the connection has failed."""
        from mcp import Client
        from mcp.client import advertise
        from mcp_types import Implementation

        stopped = anyio.Event()
        self._stop = stopped.set
        transport = self._open_pipes() if self.address.command else self._open_http()
        client = Client(
            transport,
            mode="auto",
            cache=None,
            client_info=Implementation(name="openskills", version=__version__),
            extensions=[advertise(name) for name in self._extensions],
        )
        is_connected = False
        try:
            with anyio.CancelScope(deadline=anyio.current_time() + timeout) as scope:
                async with client:
                    scope.deadline = math.inf
                    self._client = client
                    is_connected = True
                    task_status.started()
                    await stopped.wait()
                    self._client = None
        except _list_sdk_errors() as error:
            if is_connected:
                return
            raise self._translate(error) from error
        finally:
            self._client = None
        if scope.cancelled_caught and not is_connected:
            raise DeadlineExceeded(f"{self.address.label}: did not connect within {timeout:g} s{self._describe_end()}")

    async def _run(self, call: "Callable[[Client], Awaitable[T]]", timeout: float) -> T:
        if self._client is None:
            raise self._ended_error()
        try:
            with anyio.fail_after(timeout):
                return await call(self._client)
        except TimeoutError:
            raise DeadlineExceeded(f"{self.address.label}: no answer within {timeout:g} s") from None
        except _list_sdk_errors() as error:
            raise self._translate(error) from error

    def _translate(self, error: Exception) -> SkillError:
        """The `SkillError` for an error of the SDK, which may be a group."""
        while isinstance(error, ExceptionGroup):
            error = cast("ExceptionGroup[Exception]", error).exceptions[0]
        if isinstance(error, SkillError):
            return error
        if self._failure is not None:
            return self._failure
        if self._status in (401, 403):
            hint = "set the key of this host in OPENSKILL_MCP_KEYS"
            return Unauthorized(f"{self.address.label}: the server responded {self._status}; {hint}")
        if self._has_ended:
            return self._ended_error()
        if self._status == 404:
            # The server has forgotten the session, such as after a restart; the next call needs a new connection.
            self._stop()
        status = f" (HTTP status {self._status})" if self._status >= 400 else ""
        text = redact(" ".join(str(error).split())[:300]) or type(error).__name__
        return SourceUnavailable(f"{self.address.label}: {text}{status}")

    def _ended_error(self) -> SkillError:
        return self._failure or SourceUnavailable(f"{self.address.label}: the server has ended{self._describe_end()}")

    def _describe_end(self) -> str:
        """The exit status and the last line on stderr of a command that has ended."""
        status = self._process.poll() if self._process is not None else None
        lines = self._stderr.decode("utf-8", "replace").strip().splitlines()
        said = "".join(char if char.isprintable() else " " for char in lines[-1])[-300:] if lines else ""
        return (f" with exit status {status}" if status is not None else "") + (f": {said}" if said else "")

    def _fail(self, failure: SkillError) -> None:
        """Make this the error of all calls, and disconnect."""
        self._failure = self._failure or failure
        self._stop()

    @asynccontextmanager
    async def _open_http(self) -> "AsyncGenerator[Any]":
        from mcp.client.streamable_http import streamable_http_client

        # Without compression, so that the bytes that are counted are those that are kept in memory.
        own = {"User-Agent": f"openskills/{__version__}", "Accept-Encoding": "identity"}
        headers = {**own, **self.address.headers}
        # The deadline of each call counts; servers may be silent for long on the stream for notifications.
        timeout = httpx2.Timeout(CONNECT_TIMEOUT, read=None)
        hooks = {"response": [self._check_response]}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=timeout, event_hooks=hooks) as client,
            streamable_http_client(
                self.address.url, http_client=client, max_sse_event_size=MAX_MESSAGE_BYTES
            ) as streams,
        ):
            yield streams

    async def _check_response(self, response: httpx2.Response) -> None:
        self._status = response.status_code
        encoding = response.headers.get("Content-Encoding", "identity").lower()
        if encoding != "identity":
            self._fail(UnsupportedMedia(f"{self.address.label}: unexpected Content-Encoding {encoding[:40]!r}"))
            raise httpx2.DecodingError("unexpected encoding", request=response.request)
        # The stream for notifications is endless; each of its events is limited.
        if response.request.method == "POST" and isinstance(response.stream, httpx2.AsyncByteStream):
            response.stream = _LimitedStream(response.stream, self._refuse_length)

    def _refuse_length(self) -> LimitExceeded:
        failure = LimitExceeded(f"{self.address.label}: sent a message of more than {MAX_MESSAGE_BYTES:,} bytes")
        self._fail(failure)
        return failure

    @asynccontextmanager
    async def _open_pipes(self) -> "AsyncGenerator[Any]":
        from mcp.shared.message import SessionMessage

        process = start_piped(self.address.command, self.address.environment, Path.cwd())
        self._process = process
        try:
            into, messages = anyio.create_memory_object_stream[SessionMessage | Exception](0)
            replies, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
            async with into, messages, replies, outgoing, anyio.create_task_group() as tasks:
                tasks.start_soon(self._read_messages, process, into)
                tasks.start_soon(self._write_messages, process, outgoing)
                tasks.start_soon(self._read_errors, process)
                tasks.start_soon(self._watch_exit, process, into)
                try:
                    yield messages, replies
                finally:
                    tasks.cancel_scope.cancel()
        finally:
            with anyio.CancelScope(shield=True):
                await _end_process(process)

    async def _read_messages(
        self, process: PipedProcess, into: "MemoryObjectSendStream[SessionMessage | Exception]"
    ) -> None:
        from mcp.shared.message import SessionMessage
        from mcp_types import jsonrpc_message_adapter

        buffer, searched, stray = bytearray(), 0, 0
        while chunk := await _receive(process.stdout):
            buffer += chunk
            while stray <= _MAX_STRAY_LINES and (end := buffer.find(b"\n", searched)) >= 0:
                line = bytes(buffer[:end])
                del buffer[: end + 1]
                searched = 0
                try:
                    message = jsonrpc_message_adapter.validate_json(line, by_name=False)
                except ValueError:
                    # Some servers print a greeting.
                    stray += bool(line.strip())
                    continue
                try:
                    await into.send(SessionMessage(message))
                except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                    return
            searched = len(buffer)
            if searched > MAX_MESSAGE_BYTES:
                self._refuse_length()
                break
            if stray > _MAX_STRAY_LINES:
                what = f"wrote more than {_MAX_STRAY_LINES:,} lines to stdout that are not messages"
                self._fail(LimitExceeded(f"{self.address.label}: {what}; a server must log to stderr"))
                break
        else:
            # Its exit status belongs to the message.
            await _wait_for_exit(process)
        self._note_end(into)

    async def _watch_exit(
        self, process: PipedProcess, into: "MemoryObjectSendStream[SessionMessage | Exception]"
    ) -> None:
        """Disconnect when the server has ended, also if a descendant keeps its stdout open."""
        while process.poll() is None:
            await anyio.sleep(_WATCH_INTERVAL)
        # The last messages may still be in the pipe.
        await anyio.sleep(_WATCH_INTERVAL)
        self._note_end(into)

    def _note_end(self, into: "MemoryObjectSendStream[SessionMessage | Exception]") -> None:
        self._has_ended = True
        into.close()
        self._stop()

    async def _write_messages(
        self, process: PipedProcess, outgoing: "MemoryObjectReceiveStream[SessionMessage]"
    ) -> None:
        async with outgoing:
            async for message in outgoing:
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                rest = memoryview(f"{text}\n".encode())
                while rest:
                    try:
                        rest = rest[os.write(process.stdin, rest) :]
                    except BlockingIOError:
                        await anyio.wait_writable(process.stdin)
                    except BrokenPipeError:
                        # The reader notices the end of the server.
                        return

    async def _read_errors(self, process: PipedProcess) -> None:
        """Keep the end of what the server writes to stderr, for messages."""
        while chunk := await _receive(process.stderr):
            self._stderr += chunk
            del self._stderr[:-_STDERR_BYTES]


def _list_sdk_errors() -> tuple[type[Exception], ...]:
    """What the SDK raises for a server that is not there, ends, or sends what it should not."""
    from mcp import MCPError

    streams = (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream)
    http = (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError)
    return (MCPError, ExceptionGroup, RuntimeError, OSError, ValueError, *http, *streams)


_OPEN: WeakSet[McpConnection] = WeakSet()


def close_connections() -> None:
    """Close all connections that are open; for the end of the process."""
    for connection in list(_OPEN):
        connection.close()


atexit.register(close_connections)


def _retrieve(serving: "Future[Any]") -> None:
    # Calls report why a connection has ended.
    if not serving.cancelled():
        serving.exception()


class _LimitedStream(httpx2.AsyncByteStream):
    """The body of a response, with at most `MAX_MESSAGE_BYTES`."""

    def __init__(self, stream: httpx2.AsyncByteStream, refuse: Callable[[], SkillError]) -> None:
        self._stream = stream
        self._refuse = refuse

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self._stream:
            size += len(chunk)
            if size > MAX_MESSAGE_BYTES:
                raise self._refuse()
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


async def _receive(descriptor: int) -> bytes:
    """The next bytes of a pipe; none at its end."""
    while True:
        try:
            # A server that writes without end must not stop everything else.
            await anyio.lowlevel.checkpoint()
            return os.read(descriptor, _CHUNK)
        except BlockingIOError:
            await anyio.wait_readable(descriptor)


async def _end_process(process: PipedProcess) -> None:
    """Close the input of a server and wait; then terminate and at last kill it with its descendants."""
    for step in (process.close_stdin, process.terminate):
        step()
        await _wait_for_exit(process)
    process.kill()


async def _wait_for_exit(process: PipedProcess) -> None:
    for _ in range(round(_GRACE / _POLL_INTERVAL)):
        if process.poll() is not None:
            return
        await anyio.sleep(_POLL_INTERVAL)
