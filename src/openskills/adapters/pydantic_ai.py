"""Skills and sandboxed workspaces for agents of Pydantic AI. Needs the extra `pydantic-ai`."""

import asyncio
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any
from uuid import uuid4

from pydantic_core import SchemaValidator, core_schema

from openskills.arguments import check_arguments
from openskills.artifacts.store import Scope
from openskills.concurrency import AsyncCloseable, shield_until_done
from openskills.errors import CommandDenied, ExecutorUnavailable, InvalidArgument, MissingExtra
from openskills.executors.commands import CommandRules, CommandRunner, open_command_runner
from openskills.executors.open import open_executor
from openskills.executors.protocol import Executor, Workspace
from openskills.executors.requests import RunRequest
from openskills.executors.spec import MIB, RUNS, WORK, Command, EndReason, Limits
from openskills.executors.spec import CommandResult as EndedCommand
from openskills.runtime.session import ResultTexts, SkillSession
from openskills.settings import Settings

try:
    from pydantic_ai import RunContext, ToolDefinition, ToolFailed
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.messages import InstructionPart
    from pydantic_ai.toolsets import AbstractToolset, ToolsetTool
    from pydantic_ai.workspaces import (
        CommandResult,
        FileEntry,
        SupportsCommands,
        SupportsFilesystem,
        SupportsRealpath,
        WorkspaceBackend,
        WorkspaceCommand,
        WorkspaceOutputLimitError,
        WorkspaceRef,
        WorkspaceTimeoutError,
        WorkspaceUnavailableError,
    )
    from pydantic_ai.workspaces import Workspace as PydanticWorkspace
except ModuleNotFoundError as error:
    raise MissingExtra("pydantic-ai", __name__) from error

__all__ = ["SandboxWorkspace", "SkillCapability", "SkillToolset"]

PROVIDER = "openskills"
"""The `provider` of references to our workspaces."""
MAX_OUTPUT_BYTES = 10 * MIB
"""The most that a command may print to stdout, and to stderr."""

_NO_TIMEOUT = 24 * 3600.0
_MARKER = f"{RUNS}/.pydantic-ai"
_MISSING, _DENIED = 127, 126
_LIMITS = Limits(timeout=_NO_TIMEOUT, output_bytes=2 * MAX_OUTPUT_BYTES)
# `SkillSession.call` validates arguments and reports errors to the model.
_ANYTHING = SchemaValidator(core_schema.any_schema())


@check_arguments
class SkillToolset(AbstractToolset[Any]):
    """The tools of a session for an agent of Pydantic AI; its instructions list the skills.

    Use it in the event loop in which the session was opened. Texts of loaded skills are in the results of the calls
    that load them. A failed call is a failed tool result; it does not end the run.
    """

    def __init__(self, session: SkillSession, *, id: str = "openskills") -> None:  # noqa: A002
        self._session = session
        self._texts = ResultTexts(session)
        self._id = id

    @property
    def id(self) -> str:
        """The id of the toolset."""
        return self._id

    async def get_instructions(self, ctx: RunContext[Any]) -> InstructionPart | None:  # noqa: ARG002
        """The list of skills; a change of the catalog is appended, so that the cached prefix stays."""
        text = self._session.instructions()
        return InstructionPart(text, dynamic=True, on_change="append", name="skills") if text else None

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        """The tools of the session for the current skills."""
        return {
            str(one["name"]): ToolsetTool(
                toolset=self,
                tool_def=ToolDefinition(
                    name=one["name"], description=one["description"], parameters_json_schema=one["inputSchema"]
                ),
                max_retries=ctx.max_retries,
                args_validator=_ANYTHING,
            )
            for one in self._session.tools("mcp")
        }

    async def call_tool(
        self,
        name: str,
        tool_args: dict[str, Any],
        ctx: RunContext[Any],
        tool: ToolsetTool[Any],  # noqa: ARG002
    ) -> str:
        """Call a tool. Raises `ToolFailed` with the message for the model."""
        result = await self._session.call(name, tool_args, call_id=ctx.tool_call_id or "")
        if result.error is not None:
            raise ToolFailed(result.text)
        return await self._texts.render(result)


class _Environment:
    """The command runner behind a backend: opened once, at the first operation."""

    def __init__(
        self,
        session: SkillSession | None,
        executor: Executor | None,
        settings: Settings,
        rules: CommandRules,
        ref: WorkspaceRef | None,
    ) -> None:
        self._session = session
        self._executor = executor
        self._settings = settings
        self._rules = rules
        self._is_attached = ref is not None
        self._opening = asyncio.Lock()
        self._runner: CommandRunner | None = None
        self.ref = ref

    async def open(self) -> CommandRunner:
        """The runner. Raises `ExecutorUnavailable` and `WorkspaceUnavailableError`."""
        async with self._opening:
            if self._runner is None:
                self._runner = await shield_until_done(self._open())
            return self._runner

    async def _open(self) -> CommandRunner:
        if self._session is not None:
            runner = await self._session.open_runner()
            self.ref = _build_ref(self._session)
            return runner
        assert self._executor is not None  # noqa: S101
        ref = self.ref or WorkspaceRef(provider=PROVIDER, id=uuid4().hex)
        scope = Scope("pydantic-ai", "local", ref.id)
        runner = await open_command_runner(self._executor, self._settings, scope, rules=self._rules)
        if self._is_attached and not (await runner.workspace.list([_MARKER], limit=1)).files:
            await runner.close()
            await self._executor.remove(runner.key)
            raise WorkspaceUnavailableError(f"the workspace {ref.id!r} does not exist any more")
        await runner.workspace.write(_MARKER, b"")
        self.ref = ref
        return runner

    async def close(self, *, remove: bool) -> None:
        async with self._opening:
            # It is kept: later operations find that it is closed, instead of creating another one.
            runner = self._runner
            if runner is None or self._session is not None:
                return
            await runner.close()
            if remove and self._executor is not None:
                await self._executor.remove(runner.key)


def _build_ref(session: SkillSession) -> WorkspaceRef:
    scope = session.scope
    return WorkspaceRef(provider=PROVIDER, id=f"{scope.app}/{scope.user}/{scope.session}")


class _InternalCommands(WorkspaceBackend, SupportsCommands):
    """Runs the scripts with which Pydantic AI reads and writes files in the sandbox, without policy and approvals."""

    def __init__(self, environment: _Environment) -> None:
        self._environment = environment

    @property
    def ref(self) -> WorkspaceRef | None:
        """The identity of the workspace; None until it is created."""
        return self._environment.ref

    async def working_dir(self) -> str:
        """The directory in which commands start."""
        with _translate_errors():
            workspace = (await self._environment.open()).workspace
            # Raises if it was closed or removed.
            await workspace.mark()
        return f"{workspace.root}/{WORK}"

    async def run(
        self,
        command: WorkspaceCommand,
        *,
        shell: bool = False,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> CommandResult:
        argv = ("sh", "-c", command) if isinstance(command, str) else tuple(command)
        del shell, env, timeout
        with _translate_errors():
            workspace = (await self._environment.open()).workspace
            process = await workspace.start(Command(argv, cwd=WORK, run_dir=f"{RUNS}/pydantic-ai", limits=_LIMITS))
            try:
                ended = await process.wait()
            except asyncio.CancelledError:
                await asyncio.shield(process.kill())
                raise
            return await _to_result(ended, workspace)


@contextmanager
def _translate_errors() -> Generator[None]:
    try:
        yield
    except ExecutorUnavailable as error:
        raise WorkspaceUnavailableError(error.message) from error


async def _to_result(ended: EndedCommand, workspace: Workspace) -> CommandResult:
    if ended.ending is not EndReason.EXITED:
        # Raises if the command was killed because its workspace is gone.
        await workspace.mark()
    stdout, stderr = ended.stdout.text(), ended.stderr.text()
    if ended.ending is EndReason.TIMED_OUT:
        raise WorkspaceTimeoutError(f"the command {ended.detail}", stdout=stdout, stderr=stderr)
    if max(ended.stdout.total, ended.stderr.total) > MAX_OUTPUT_BYTES:
        shown = {name: text[: 64 * 1024] for name, text in (("stdout", stdout), ("stderr", stderr))}
        message = f"the command printed more than {MAX_OUTPUT_BYTES:,} bytes; write its output to a file"
        raise WorkspaceOutputLimitError(message, limit=MAX_OUTPUT_BYTES, **shown)
    if ended.ending is EndReason.LIMIT:
        stderr = f"{stderr}{ended.detail}\n"
    return CommandResult(exit_code=ended.exit_code, stdout=stdout, stderr=stderr)


@check_arguments
class SandboxWorkspace(_InternalCommands, SupportsFilesystem, SupportsRealpath, AsyncCloseable):
    """A workspace backend of Pydantic AI whose commands and files are in a sandbox.

    With a `session`, it is the workspace of that session, with its files, policy and approvals. Otherwise it is one of
    `executor`, a name or an open `Executor`, and created at the first operation, or the one that `ref` names. `limits`
    apply to every command; `rules` are the policy and the approval hook. Background processes end with the command
    that started them. `close` releases the workspace, `remove` deletes it.
    """

    def __init__(
        self,
        session: SkillSession | None = None,
        *,
        executor: str | Executor = "sandbox",
        ref: WorkspaceRef | None = None,
        settings: Settings | None = None,
        limits: Limits | None = None,
        rules: CommandRules | None = None,
    ) -> None:
        if ref is not None and ref.provider != PROVIDER:
            raise InvalidArgument("ref", f"the workspace {ref.id!r} belongs to {ref.provider!r}, not to {PROVIDER!r}")
        chosen = settings or Settings.from_env()
        self._owned = open_executor(executor, chosen) if session is None and isinstance(executor, str) else None
        opened = self._owned if session is not None or isinstance(executor, str) else executor
        super().__init__(_Environment(session, opened, chosen, rules or CommandRules(), ref))
        self._limits = replace(limits or _LIMITS, output_bytes=2 * MAX_OUTPUT_BYTES)
        # With commands that no policy or approval is asked for.
        self._files = PydanticWorkspace(_InternalCommands(self._environment))

    async def run(
        self,
        command: WorkspaceCommand,
        *,
        shell: bool = False,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> CommandResult:
        """Run a command. A denied command exits with 126, a missing program with 127."""
        if isinstance(command, str) is not shell:
            raise TypeError("pass text with shell=True, or a sequence of words without it")
        if timeout is not None and not 0 < timeout < float("inf"):
            raise ValueError(f"timeout: expected a positive number of seconds, got {timeout!r}")
        limits = self._limits if timeout is None else replace(self._limits, timeout=timeout)
        words = command if isinstance(command, str) else tuple(command)
        with _translate_errors():
            runner = await self._environment.open()
            try:
                request = RunRequest(words, cwd="$WORK_DIR", env=dict(env or {}), limits=limits)
                ended = (await runner.run(request)).ended
                return await _to_result(ended, runner.workspace)
            except CommandDenied as error:
                return CommandResult(exit_code=_DENIED, stdout="", stderr=f"{error.message}\n")
            except InvalidArgument as error:
                if error.field != "command" or isinstance(words, str):
                    raise ValueError(error.message) from error
                return CommandResult(exit_code=_MISSING, stdout="", stderr=f"{error.message}\n")

    async def read_bytes(self, path: str) -> bytes:
        """Read a file."""
        return await self._files.read_bytes(path)

    async def write_bytes(self, path: str, data: bytes) -> None:
        """Write a file, creating missing directories."""
        await self._files.write_bytes(path, data)

    async def stat(self, path: str) -> FileEntry:
        """Describe a file or directory."""
        return await self._files.stat(path)

    async def list_dir(self, path: str) -> Sequence[FileEntry]:
        """List a directory."""
        return await self._files.list_dir(path)

    async def make_dir(self, path: str) -> None:
        """Create a directory and its parents."""
        await self._files.make_dir(path)

    async def remove(self, path: str) -> None:
        """Remove a file or directory."""
        await self._files.remove(path)

    async def exists(self, path: str) -> bool:
        """Whether a file or directory exists."""
        return await self._files.exists(path)

    async def realpath(self, path: str) -> str:
        """Resolve the links in a path."""
        return await self._files.realpath(path)

    async def destroy(self) -> None:
        """Kill what runs in the workspace and delete its files, unless it belongs to a session."""
        await self._environment.close(remove=True)

    async def close(self) -> None:
        """Kill what runs in the workspace and release it; its files stay until it expires."""
        await self._environment.close(remove=False)
        if self._owned is not None:
            await self._owned.close()


@check_arguments
@dataclass
class SkillCapability(AbstractCapability[Any]):
    """The skills of a session as a capability: their tools, their list, and the session's workspace.

    With `workspace=False`, runs get no workspace from it.
    """

    session: SkillSession
    _: KW_ONLY
    workspace: bool = True
    id: str | None = "openskills"

    def get_toolset(self) -> AbstractToolset[Any]:
        """The tools of the session."""
        return SkillToolset(self.session)

    def get_workspace(self, ctx: RunContext[Any], *, ref: WorkspaceRef | None) -> WorkspaceBackend | None:  # noqa: ARG002
        """The session's workspace; None for a reference to another one."""
        return SandboxWorkspace(self.session) if self.workspace and ref in (None, _build_ref(self.session)) else None
