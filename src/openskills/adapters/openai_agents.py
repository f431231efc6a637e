"""Skills, a shell tool and sandboxes for the OpenAI Agents SDK. Needs the extra `openai-agents`."""

import asyncio
import io
import posixpath
import secrets
import tempfile
from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Literal, cast

from openskills.arguments import check_arguments
from openskills.artifacts.store import Scope
from openskills.concurrency import AsyncCloseable
from openskills.errors import (
    CommandDenied,
    ExecutorUnavailable,
    ForbiddenPath,
    InvalidArgument,
    MissingExtra,
    SkillError,
)
from openskills.executors.commands import CommandRules, CommandRunner, open_command_runner
from openskills.executors.files.globs import escape_glob
from openskills.executors.interactive import InteractiveCommands, ProcessOwner, ProcessTable
from openskills.executors.open import open_executor
from openskills.executors.protocol import Executor
from openskills.executors.requests import RunRequest
from openskills.executors.spec import MIB, RUNS, WORK, Limits, TerminalSize
from openskills.runtime.session import ResultTexts, SkillSession
from openskills.settings import Settings

try:
    from agents import FunctionTool, ShellTool
    from agents.sandbox import Manifest
    from agents.sandbox.errors import (
        ExecNonZeroError,
        ExecTimeoutError,
        ExecTransportError,
        InvalidManifestPathError,
        WorkspaceArchiveReadError,
        WorkspaceArchiveWriteError,
        WorkspaceReadNotFoundError,
    )
    from agents.sandbox.session import (
        BaseSandboxClient,
        BaseSandboxSession,
        SandboxSession,
        SandboxSessionState,
    )
    from agents.sandbox.session.pty_types import (
        PtyExecUpdate,
        allocate_pty_process_id,
        clamp_pty_yield_time_ms,
        resolve_pty_write_yield_time_ms,
        truncate_text_by_tokens,
    )
    from agents.sandbox.snapshot import SnapshotBase, SnapshotSpec, resolve_snapshot
    from agents.sandbox.types import ExecResult, User
    from agents.tool import ShellCallOutcome, ShellCommandOutput, ShellCommandRequest, ShellResult
    from agents.tool_context import ToolContext
except ModuleNotFoundError as error:
    raise MissingExtra("openai-agents", __name__) from error

__all__ = ["SkillSandboxClient", "shell_tool", "skill_tools"]

MAX_PTY_BYTES = MIB
"""The most that one update of a running command contains."""

_NO_TIMEOUT = 24 * 3600.0
_MARKER = f"{RUNS}/.openai-agents"
_DENIED, _MISSING = 126, 127
_START_WAIT, _WRITE_WAIT = 10.0, 0.25
_CHUNK = 256 * 1024
_IN_MEMORY = 16 * MIB


@check_arguments
def skill_tools(session: SkillSession) -> list[FunctionTool]:
    """The tools of a session for an `Agent`; pass `session.instructions()` as its instructions.

    Use them in the event loop in which the session was opened. Texts of loaded skills are in the results of the calls
    that load them; a failed call is a result with the reason.
    """
    texts = ResultTexts(session)

    def build(name: str, description: str, schema: dict[str, Any]) -> FunctionTool:
        async def call(context: ToolContext[Any], arguments: str) -> str:
            result = await session.call(name, arguments, call_id=context.tool_call_id)
            return await texts.render(result)

        return FunctionTool(name, description, schema, call, strict_json_schema=False)

    return [build(one["name"], one["description"], one["inputSchema"]) for one in session.tools("mcp")]


@check_arguments
async def shell_tool(session: SkillSession) -> ShellTool:
    """OpenAI's shell tool with the local environment: commands run in the session's workspace, which has its skills."""

    async def execute(request: ShellCommandRequest) -> ShellResult:
        action = request.data.action
        call = {"type": "shell_call", "call_id": request.data.call_id, "action": asdict(action)}
        answer = await session.shell(call)
        output = [
            ShellCommandOutput(
                stdout=one["stdout"],
                stderr=one["stderr"],
                outcome=ShellCallOutcome(one["outcome"]["type"], one["outcome"].get("exit_code")),
                command=command,
            )
            for command, one in zip(action.commands, answer["output"], strict=False)
        ]
        return ShellResult(output, max_output_length=action.max_output_length)

    return ShellTool(execute, environment={"type": "local", "skills": cast("Any", await session.local_skills())})


class SkillSandboxState(SandboxSessionState):
    """What is needed to attach to a sandbox again."""

    type: Literal["openskills"] = "openskills"  # pyright: ignore[reportIncompatibleVariableOverride] - as in the SDK


@check_arguments
class SkillSandboxClient(BaseSandboxClient[None], AsyncCloseable):
    """A sandbox client of the Agents SDK whose sandboxes are workspaces of our executors, by default bubblewrap.

    `executor` is a name or an open `Executor`; `limits` apply to every command; `network` lists the hosts that commands
    may reach, by default none. The root of a manifest is the directory
    `work/` of the workspace. `delete` removes a workspace; others stay until they expire. Close the client.
    """

    backend_id = "openskills"
    supports_default_options = True

    def __init__(
        self,
        executor: str | Executor = "sandbox",
        *,
        settings: Settings | None = None,
        limits: Limits | None = None,
        network: Sequence[str] = (),
    ) -> None:
        self._settings = settings or Settings.from_env()
        self._owned = open_executor(executor, self._settings) if isinstance(executor, str) else None
        self._executor: Executor = self._owned or cast("Executor", executor)
        self._limits = limits or Limits(timeout=_NO_TIMEOUT)
        self._network = tuple(network)

    async def create(
        self,
        *,
        snapshot: SnapshotSpec | SnapshotBase | None = None,
        manifest: Manifest | None = None,
        options: None = None,
    ) -> SandboxSession:
        """Create a sandbox. Raises `InvalidArgument` for a manifest with another root."""
        del options
        state = SkillSandboxState(
            snapshot=resolve_snapshot(snapshot, secrets.token_hex(16)),
            manifest=self._validate_manifest_for_create(manifest or Manifest()),
        )
        return await self._open(state)

    async def resume(self, state: SandboxSessionState) -> SandboxSession:
        """Attach to the sandbox of a state; if it is gone, a new one is filled from the state's snapshot."""
        if not isinstance(state, SkillSandboxState):
            raise InvalidArgument("state", f"expected a SkillSandboxState, got {type(state).__name__}")
        state.assert_path_grants_rebound()
        return await self._open(state)

    async def delete(self, session: SandboxSession) -> SandboxSession:
        """Kill what runs in a sandbox and remove its files."""
        inner = session._inner  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - as all clients of the SDK
        if not isinstance(inner, SkillSandboxSession):
            raise InvalidArgument("session", f"expected a sandbox of this client, got {type(inner).__name__}")
        await inner.runner.close()
        await self._executor.remove(inner.runner.key)
        return session

    def deserialize_session_state(self, payload: dict[str, object]) -> SandboxSessionState:
        """Read a state that `serialize_session_state` has written."""
        return self._deserialize_session_state_payload(payload, SkillSandboxState)

    async def close(self) -> None:
        """Kill everything that runs; the files of sandboxes stay."""
        if self._owned is not None:
            await self._owned.close()

    async def _open(self, state: SkillSandboxState) -> SandboxSession:
        scope = Scope("openai-agents", "local", state.session_id.hex)
        rules = CommandRules(network=self._network)
        runner = await open_command_runner(self._executor, self._settings, scope, rules=rules)
        root, wanted = f"{runner.workspace.root}/{WORK}", state.manifest.root
        if wanted not in (Manifest.model_fields["root"].default, root):
            await runner.close()
            raise InvalidArgument("manifest.root", f"{wanted!r} is not available; leave it out, or use {root!r}")
        state.manifest = state.manifest.model_copy(update={"root": root}, deep=True)
        session = SkillSandboxSession(state, runner, self._limits, self._network)
        await session.attach()
        return self._wrap_session(session)


class SkillSandboxSession(BaseSandboxSession):
    """A sandbox of `SkillSandboxClient`, inside of the SDK's own `SandboxSession`."""

    def __init__(
        self, state: SkillSandboxState, runner: CommandRunner, limits: Limits, network: tuple[str, ...]
    ) -> None:
        self.state: SkillSandboxState = state  # pyright: ignore[reportIncompatibleVariableOverride] - as in the SDK
        self.runner = runner
        self._limits = limits
        self._network = network
        owner = ProcessOwner("openai-agents", "local", state.session_id.hex, "")
        self._commands = InteractiveCommands(runner, ProcessTable(), owner)
        self._pty: dict[int, str] = {}

    async def attach(self) -> None:
        """Find out whether the workspace existed before, and mark it."""
        known = (await self.runner.workspace.list([_MARKER], limit=1)).files
        self._set_start_state_preserved(bool(known), system=True)
        await self.runner.workspace.write(_MARKER, b"")

    def supports_pty(self) -> bool:
        """Commands can have a terminal."""
        return True

    async def running(self) -> bool:
        """Whether the workspace is open."""
        try:
            await self.runner.workspace.mark()
        except ExecutorUnavailable:
            return False
        return True

    async def _exec_internal(self, *command: str | Path, timeout: float | None = None) -> ExecResult:
        words = tuple(map(str, command))
        request = await self._build_request(words, timeout)
        try:
            result = await self.runner.run(request)
        except ExecutorUnavailable as error:
            raise ExecTransportError(command=words, cause=error, message=error.message) from error
        except (CommandDenied, InvalidArgument) as error:
            code = _DENIED if isinstance(error, CommandDenied) else _MISSING
            return ExecResult(stdout=b"", stderr=f"{error.message}\n".encode(), exit_code=code)
        if result.timed_out:
            raise ExecTimeoutError(command=words, timeout_s=timeout)
        ended = result.ended
        note = f"{ended.detail}\n".encode() if ended.detail else b""
        return ExecResult(stdout=ended.stdout.bytes(), stderr=ended.stderr.bytes() + note, exit_code=ended.exit_code)

    async def _build_request(self, words: tuple[str, ...], timeout: float | None) -> RunRequest:
        environment = await self.state.manifest.environment.resolve()
        limits = self._limits if timeout is None else replace(self._limits, timeout=max(timeout, 0.001))
        return RunRequest(words, cwd="$WORK_DIR", env=environment, limits=limits, network=self._network)

    def _prepare_exec_command(
        self, *command: str | Path, shell: bool | list[str], user: str | User | None
    ) -> list[str]:
        if user is not None:
            raise InvalidArgument("user", "a sandbox has one user; leave it out")
        return super()._prepare_exec_command(*command, shell=shell, user=None)

    async def read(self, path: Path, *, user: str | User | None = None) -> io.IOBase:
        """Read a file. Raises `WorkspaceReadNotFoundError` if it does not exist."""
        del user
        where = self._find_path(path)
        try:
            async with self.runner.workspace.open(where) as file:
                # The caller closes it. Callers in the SDK do not always, which matters only for a real file.
                found = io.BytesIO() if file.info.size <= _IN_MEMORY else tempfile.TemporaryFile()  # noqa: SIM115
                async for chunk in file.chunks:
                    found.write(chunk)
        except InvalidArgument as error:
            raise WorkspaceReadNotFoundError(path=path, cause=error) from error
        except SkillError as error:
            raise WorkspaceArchiveReadError(path=path, cause=error) from error
        found.seek(0)
        return cast("io.IOBase", found)

    async def write(self, path: Path, data: io.IOBase, *, user: str | User | None = None) -> None:
        """Write a file; its executable bit is kept."""
        del user
        where = self._find_path(path, for_write=True)
        workspace = self.runner.workspace
        try:
            known = (await workspace.list([escape_glob(where)], limit=1)).files
            await workspace.write(where, _read_chunks(data), executable=bool(known) and known[0].executable)
        except SkillError as error:
            raise WorkspaceArchiveWriteError(path=path, cause=error) from error

    async def persist_workspace(self) -> io.IOBase:
        """The files of the workspace as a tar archive."""
        archive = f"{RUNS}/{secrets.token_hex(8)}.tar"
        root, skipped = self.runner.workspace.root, sorted(self._persist_workspace_skip_relpaths())
        without = [f"--exclude=./{path.as_posix()}" for path in skipped]
        try:
            await self._run_tar("-cf", f"{root}/{archive}", *without, "-C", f"{root}/{WORK}", ".")
            return await self.read(Path(f"{root}/{archive}"))
        finally:
            await self.runner.workspace.remove(archive)

    async def hydrate_workspace(self, data: io.IOBase) -> None:
        """Unpack an archive of `persist_workspace`, in the sandbox."""
        archive = f"{RUNS}/{secrets.token_hex(8)}.tar"
        root = self.runner.workspace.root
        try:
            await self.runner.workspace.write(archive, _read_chunks(data))
            await self._run_tar("-xf", f"{root}/{archive}", "-C", f"{root}/{WORK}", "--no-same-owner")
        finally:
            await self.runner.workspace.remove(archive)

    async def pty_exec_start(
        self,
        *command: str | Path,
        timeout: float | None = None,
        shell: bool | list[str] = True,
        user: str | User | None = None,
        tty: bool = False,
        yield_time_s: float | None = None,
        max_output_tokens: int | None = None,
    ) -> PtyExecUpdate:
        """Start a command, with a terminal if `tty`, and return its first output."""
        words = tuple(self._prepare_exec_command(*command, shell=shell, user=user))
        request = await self._build_request(words, timeout)
        try:
            identity = await self._commands.start(replace(request, terminal=TerminalSize() if tty else None))
        except SkillError as error:
            raise ExecTransportError(command=words, cause=error, message=error.message) from error
        # What a quick command has printed by now.
        begun = b"" if tty else (await self._commands.write(identity, close=True, wait=0)).poll.data
        number = allocate_pty_process_id(set(self._pty))
        self._pty[number] = identity
        wait = clamp_pty_yield_time_ms(int((_START_WAIT if yield_time_s is None else yield_time_s) * 1000))
        try:
            return await self._update_pty(number, wait / 1000, max_output_tokens, begun)
        except asyncio.CancelledError:
            # The caller never got its number.
            self._pty.pop(number, None)
            await asyncio.shield(self._commands.kill(identity))
            raise

    async def pty_write_stdin(
        self,
        *,
        session_id: int,
        chars: str,
        yield_time_s: float | None = None,
        max_output_tokens: int | None = None,
    ) -> PtyExecUpdate:
        """Write to a command's terminal, and return its output."""
        identity = self._resolve_pty_session_entry(pty_processes=self._pty, session_id=session_id)
        begun = b""
        if chars:
            try:
                written = await self._commands.write(identity, chars.encode("utf-8", "replace"), wait=0)
                begun = written.poll.data
            except InvalidArgument as error:
                if error.field == "input":
                    raise InvalidArgument("chars", "this command has no terminal; start it with tty") from None
                # Otherwise it has ended, and the update below has its last output and exit code.
        wait = resolve_pty_write_yield_time_ms(
            yield_time_ms=int((_WRITE_WAIT if yield_time_s is None else yield_time_s) * 1000), input_empty=not chars
        )
        return await self._update_pty(session_id, wait / 1000, max_output_tokens, begun)

    async def pty_terminate_all(self) -> None:
        """Kill all commands that were started with `pty_exec_start`."""
        self._pty.clear()
        await self._commands.close()

    async def _update_pty(self, number: int, wait: float, max_tokens: int | None, begun: bytes) -> PtyExecUpdate:
        """The output `begun` and what follows it within `wait` seconds."""
        identity, clock = self._pty[number], asyncio.get_running_loop().time
        deadline, data, code = clock() + wait, bytearray(begun), None
        while len(data) < MAX_PTY_BYTES:
            poll = await self._commands.poll(identity, wait=max(deadline - clock(), 0.0))
            data += poll.data
            if poll.result is not None and not poll.more:
                code = poll.result.exit_code
                del self._pty[number]
                break
            if not poll.more:
                break
        text, tokens = truncate_text_by_tokens(bytes(data).decode("utf-8", "replace"), max_tokens)
        return PtyExecUpdate(None if code is not None else number, text.encode(), code, tokens)

    def _should_compute_snapshot_fingerprint_on_persist(self) -> bool:
        # The SDK's helper for it would have to stay in /tmp, which every command has for itself.
        return False

    async def _shutdown_backend(self) -> None:
        await self.runner.close()

    async def _run_tar(self, *arguments: str) -> None:
        result = await self._exec_internal("tar", *arguments)
        if not result.ok():
            raise ExecNonZeroError(result, command=("tar", *arguments))

    def _find_path(self, path: Path | str, *, for_write: bool = False) -> str:
        """A path relative to the workspace. Raises `InvalidManifestPathError` for one outside of it."""
        root = self.runner.workspace.root
        found = posixpath.normpath(posixpath.join(root, WORK, Path(path).as_posix()))
        inside = [f"{root}/{WORK}", f"{root}/{RUNS}"] if not for_write else [f"{root}/{WORK}"]
        if not any(found.startswith(f"{one}/") for one in inside):
            reason: Literal["absolute", "escape_root"] = "absolute" if Path(path).is_absolute() else "escape_root"
            raise InvalidManifestPathError(rel=Path(path).as_posix(), reason=reason) from ForbiddenPath(
                f"path: {str(path)!r} is not in the workspace, {root}/{WORK}"
            )
        return found.removeprefix(f"{root}/")


async def _read_chunks(data: io.IOBase) -> AsyncIterator[bytes]:
    while chunk := data.read(_CHUNK):
        yield chunk.encode() if isinstance(chunk, str) else bytes(chunk)
