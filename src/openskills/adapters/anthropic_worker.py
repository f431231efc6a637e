"""The six tools of Anthropic's self-hosted environment worker, run in a sandboxed workspace.

The SDK's own `bash` tool runs commands as the user of the worker. These tools have the same names, arguments and
limits, but each session of the environment has a workspace of a `SkillRuntime`. Needs the extra `anthropic`.
"""

import asyncio
import base64
import logging
import posixpath
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path, PurePosixPath
from typing import Any, TypeAlias, cast
from uuid import uuid4

from openskills.arguments import check_arguments
from openskills.concurrency import shield_until_done
from openskills.errors import InvalidArgument, MissingExtra, SkillError
from openskills.executors.spec import WORK
from openskills.paths import to_printable
from openskills.runtime.options import SessionOptions
from openskills.runtime.runtime import SkillRuntime
from openskills.runtime.session import SkillSession
from openskills.runtime.shell import WorkspaceShell, format_output

try:
    from anthropic import APIError, NotFoundError
    from anthropic.lib.tools import BetaAsyncFunctionTool, ToolError, beta_async_tool
    from anthropic.lib.tools.agent_toolset import AgentToolContext
    from anthropic.types import beta
except ModuleNotFoundError as error:
    raise MissingExtra("anthropic", __name__) from error

__all__ = ["worker_tools"]

BASH_TIMEOUT = 120.0
"""Seconds that a command may run unless the call sets a timeout; the SDK ends every call after 150 s."""
MAX_READ_BYTES = 256 * 1024
MAX_MEDIA_BYTES = 20 * 1024 * 1024
MAX_IMAGE_BYTES = 5 * 1024 * 1024 // 4 * 3
"""The largest file that `read` returns as text, as a document and as an image, as in the SDK."""
MAX_MATCHES = 200

_LOG = logging.getLogger("openskills")
_WATCH_INTERVAL = 0.2

_MEDIA_TYPES = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".webp": "image/webp",
    ".pdf": "application/pdf",
}

WorkerTools: TypeAlias = list[BetaAsyncFunctionTool[Any]]


@check_arguments
def worker_tools(
    runtime: SkillRuntime,
    *,
    options: SessionOptions | None = None,
    user: str = "local",
    app: str = "anthropic",
    check_interval: float = 5.0,
) -> Callable[[AgentToolContext], WorkerTools]:
    """The `tools` of `client.beta.environments.work.worker`: bash, read, write, edit, glob and grep in a sandbox.

    Each session of the environment has its own workspace, which the tools open at the first call and close at the end
    of the session; its files stay until the workspace expires. Skills of the session's agent are in `skills/`. The
    policy, limits and approvals of `options` apply.

    The SDK lets a call that is running end by itself when the worker has lost its lease or the session was deleted;
    these tools end it, with all its processes, and send no result. While a call runs, the session is looked at every
    `check_interval` seconds. Memory stores are directories of the worker's machine, which the
    sandbox does not have: a session that has some fails, unless the worker has `memory_sync_interval=None`.
    """

    def build(context: AgentToolContext) -> WorkerTools:
        if context.allowed_roots:
            raise InvalidArgument(
                "memory_sync_interval",
                "memory stores cannot be used in a sandbox; pass memory_sync_interval=None to run without them",
            )
        found = context.session.id if context.session is not None else context.session_id
        name = found or f"session-{uuid4().hex}"
        opened = runtime.session(name, user=user, app=app, options=options, keep_commands=False)
        return _SessionTools(opened, context, check_interval).build()

    return build


class _SessionTools:
    """The tools of one session of the environment."""

    def __init__(
        self, opened: AbstractAsyncContextManager[SkillSession], context: AgentToolContext, check_interval: float
    ) -> None:
        self._opened = opened
        self._context = context
        self._check_interval = check_interval
        # The task that serves the session; the SDK cancels it when the lease is lost.
        self._worker = asyncio.current_task()
        self._stack = AsyncExitStack()
        self._session: SkillSession | None = None

    def build(self) -> WorkerTools:
        return [
            self._build_tool("bash", beta.BetaManagedAgentsAgentToolset20260401BashInput, self._bash),
            self._build_tool("read", beta.BetaManagedAgentsAgentToolset20260401ReadInput, self._read),
            self._build_tool("write", beta.BetaManagedAgentsAgentToolset20260401WriteInput, self._write),
            self._build_tool("edit", beta.BetaManagedAgentsAgentToolset20260401EditInput, self._edit),
            self._build_tool("glob", beta.BetaManagedAgentsAgentToolset20260401GlobInput, self._glob),
            self._build_tool("grep", beta.BetaManagedAgentsAgentToolset20260401GrepInput, self._grep),
        ]

    def _build_tool(
        self, name: str, schema: type[Any], act: Callable[[WorkspaceShell, Any], Awaitable[Any]]
    ) -> BetaAsyncFunctionTool[Any]:
        """A tool whose cleanup, which the SDK runs at the end of the session, closes the workspace."""

        @asynccontextmanager
        async def open_call() -> AsyncGenerator[Callable[..., Awaitable[Any]]]:
            async def call(**values: Any) -> Any:
                try:
                    return await self._run_while_served(self._act(act, schema.model_validate(values)))
                except SkillError as error:
                    raise ToolError(f"{name}: {error.message}") from error

            try:
                yield call
            finally:
                await self._stack.aclose()

        description = act.__doc__ or name
        return beta_async_tool(name=name, description=description, input_schema=schema)(cast("Any", open_call))

    async def _act(self, act: Callable[[WorkspaceShell, Any], Awaitable[Any]], wanted: Any) -> Any:
        return await act((await self._open()).open_shell(), wanted)

    async def _run_while_served(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Await a call, or cancel it when nobody waits for its result any more."""
        running = asyncio.create_task(work)
        clock = asyncio.get_running_loop().time
        next_check = clock() + self._check_interval
        try:
            while not (await asyncio.wait({running}, timeout=_WATCH_INTERVAL))[0]:
                if self._worker is not None and (self._worker.done() or self._worker.cancelling()):
                    break
                if clock() >= next_check:
                    next_check = clock() + self._check_interval
                    if await self._is_session_over():
                        break
        finally:
            if not running.done():
                running.cancel()
                await shield_until_done(asyncio.wait({running}))
        # Raises `CancelledError` if it was cancelled: the SDK then sends no result.
        return running.result()

    async def _is_session_over(self) -> bool:
        client, session = self._context.client, self._context.session
        if client is None or session is None:
            return False
        try:
            return (await client.beta.sessions.retrieve(session.id)).status == "terminated"
        except NotFoundError:
            return True
        except APIError as error:
            # It is looked at again.
            _LOG.warning("cannot read the state of the session %s: %s", session.id, error)
            return False

    async def _open(self) -> SkillSession:
        if self._session is None:
            session = await self._stack.enter_async_context(self._opened)
            runner = await session.open_runner()
            for place in sorted(Path(self._context.workdir).glob("skills/*/SKILL.md")):
                await runner.stage(place.parent.name, place.parent)
            if not (await runner.workspace.list([f"{WORK}/skills/**"], limit=1)).files:
                # Where the SDK has them: relative to the working directory, unless the session has files there.
                await runner.workspace.remove(f"{WORK}/skills")
                await runner.workspace.link(f"{WORK}/skills", "skills")
            self._session = session
        return self._session

    async def _bash(self, shell: WorkspaceShell, wanted: beta.BetaManagedAgentsAgentToolset20260401BashInput) -> str:
        """Run a command in a persistent bash shell."""
        if wanted.restart:
            await shell.close()
            return "bash session restarted"
        if not wanted.command:
            raise InvalidArgument("command", "required")
        ended = await shell.run_bash(wanted.command, timeout=(wanted.timeout_ms or 0) / 1000 or BASH_TIMEOUT)
        text = format_output(ended)
        if ended.exit_code != 0:
            raise ToolError(text)
        return text

    async def _read(self, shell: WorkspaceShell, wanted: beta.BetaManagedAgentsAgentToolset20260401ReadInput) -> Any:
        """Read a file rooted at the working directory."""
        media_type = _MEDIA_TYPES.get(PurePosixPath(wanted.file_path).suffix.lower())
        lines = wanted.view_range
        if lines and len(lines) != 2:
            raise InvalidArgument("view_range", "expected [start_line, end_line]")
        if media_type is not None:
            if lines:
                raise InvalidArgument("view_range", "not supported for images and PDF files")
            return [await _read_media(shell, wanted.file_path, media_type)]
        if not lines:
            await shell.read_bytes(wanted.file_path, max_bytes=MAX_READ_BYTES)
            return await shell.read_text(wanted.file_path)
        found = (await shell.read_text(wanted.file_path)).split("\n")
        text = "\n".join(found[max(0, lines[0] - 1) : lines[1] if lines[1] > 0 else len(found)])
        if len(text.encode()) > MAX_READ_BYTES:
            raise InvalidArgument("view_range", f"these lines have more than {MAX_READ_BYTES:,} bytes; read fewer")
        return text

    async def _write(self, shell: WorkspaceShell, wanted: beta.BetaManagedAgentsAgentToolset20260401WriteInput) -> str:
        """Write a file, creating parent directories as needed."""
        await shell.write_text(wanted.file_path, wanted.content)
        return f"wrote {len(wanted.content.encode())} bytes to {wanted.file_path}"

    async def _edit(self, shell: WorkspaceShell, wanted: beta.BetaManagedAgentsAgentToolset20260401EditInput) -> str:
        """Replace text in a file by exact string match."""
        count = await shell.replace_text(
            wanted.file_path, wanted.old_string, wanted.new_string, replace_all=bool(wanted.replace_all)
        )
        return f"edited {wanted.file_path} ({count} replacement(s))"

    async def _glob(self, shell: WorkspaceShell, wanted: beta.BetaManagedAgentsAgentToolset20260401GlobInput) -> str:
        """List files matching a glob pattern, newest first."""
        if posixpath.isabs(wanted.pattern) or ".." in wanted.pattern.split("/"):
            raise InvalidArgument("pattern", "expected a relative pattern without '..'; use path for another directory")
        where = await shell.resolve_path(wanted.path or ".")
        found = await shell.find_files(where, wanted.pattern)
        newest = sorted(found, key=lambda info: info.stamp, reverse=True)[:MAX_MATCHES]
        root = await shell.get_root()
        return "\n".join(f"{root}/{to_printable(info.path)}" for info in newest) or "no matches"

    async def _grep(self, shell: WorkspaceShell, wanted: beta.BetaManagedAgentsAgentToolset20260401GrepInput) -> str:
        """Search file contents for a regular expression."""
        return await shell.search(wanted.pattern, await shell.resolve_path(wanted.path or "."))


async def _read_media(shell: WorkspaceShell, path: str, media_type: str) -> Mapping[str, Any]:
    is_pdf = media_type == "application/pdf"
    data = await shell.read_bytes(path, max_bytes=MAX_MEDIA_BYTES if is_pdf else MAX_IMAGE_BYTES)
    source = {"type": "base64", "media_type": media_type, "data": base64.standard_b64encode(data).decode("ascii")}
    return {"type": "document" if is_pdf else "image", "source": source}
