"""Commands of any skill in the workspaces of callers: `/workspaces/{name}/commands` and `/workspaces/{name}/files`.

A command is a run of the host: its output are events that can be read again, it can be cancelled, it counts against the
limits of its key, and it is recorded in the history. Workspaces have names and belong to the key that uses them.
"""

import asyncio
import codecs
import json
import re
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from openskills.errors import (
    ExecutorUnavailable,
    Forbidden,
    InvalidArgument,
    LimitExceeded,
    RequestInFlight,
    TooManyRequests,
    UnknownRun,
    UnknownSkill,
)
from openskills.executors.open import open_executor
from openskills.executors.protocol import Executor, Process, Workspace, WorkspaceFileReader
from openskills.executors.requests import RunResult
from openskills.executors.spec import INPUTS, OUT, SKILLS, WORK, EndReason, FileInfo, OutputStream, TerminalSize
from openskills.executors.staging.outputs import OutputSpec
from openskills.executors.terminal import ScreenViewer
from openskills.host import http
from openskills.host.auth import OWNER_MARK, Principal
from openskills.host.console.access import Console
from openskills.host.history import new_run_id
from openskills.host.http import HttpRefusal, Trace
from openskills.host.model import (
    Call,
    Failure,
    InvokeResult,
    Listener,
    Outcome,
    Registration,
    SkillOutputEvent,
    SkillRunner,
    failure_outcome,
    success_outcome,
)
from openskills.host.runs import Run, Runs
from openskills.host.service import Host, InvokeRequest
from openskills.paths import parse_relative
from openskills.project import SkillGrants, combine_grants
from openskills.settings import Settings

if TYPE_CHECKING:
    from openskills.catalog.catalog import Catalog
    from openskills.catalog.skill import Skill
    from openskills.executors.records.leases import WorkspaceInfo
    from openskills.runtime.runtime import SkillRuntime
    from openskills.runtime.session import SkillSession
    from openskills.runtime.session_pool import SessionPool
    from openskills.tools.interactive import ExecArguments

COMMAND_KIND = "command"
"""The kind of runs that are commands, beside the kinds of runners."""
_APP = "commands"
"""The application of workspaces with names; those of conversations are of another one."""
MAX_RUNTIMES = 32
"""Runtimes with private uploads that stay open while no command runs in them."""
MAX_COMMANDS = 16
"""Interactive commands that a key may have running at a time, unless its limit of concurrent calls is lower."""
MAX_INPUT_BYTES = 64 * 1024
"""Bytes that one request can send to the input of a command."""
MAX_UPLOAD_BYTES = 64 * 1024 * 1024
MAX_LISTED_FILES = 1_000
_FIELDS = ("skill", "command", "cwd", "env", "stdin", "timeout", "tty", "rows", "columns", "interactive")
_WORKSPACE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)
_LISTED = (f"{OUT}/**", f"{WORK}/**")
_CHUNK = 64 * 1024
_BATCH_SECONDS = 0.03
"""The pause between two events of one stream, so that a command that prints line by line does not make one for each."""
_INPUT_TIMEOUT = 5.0
_INPUT_PAUSE = 0.02
_PROCESS_TIMEOUT = 30.0
"""Seconds that input waits for the process of a run that is `running`: its sandbox is made first."""
_START_SECONDS = 600.0
"""Seconds that a command may wait for a slot, its packages and its sandbox, besides its own timeout."""


class LiveCommand(SkillRunner):
    """One command of a skill, as the runner of its run. `screen` is that of a program with a terminal."""

    def __init__(
        self, session: AbstractAsyncContextManager["SkillSession"], arguments: "ExecArguments", *, interactive: bool
    ) -> None:
        self._session = session
        self._arguments = arguments
        self._interactive = interactive
        self._process: Process | None = None
        self._viewer: ScreenViewer | None = None
        self._settled = asyncio.Event()
        """Set when the process exists, and when the command has ended without one."""

    async def invoke(self, registration: Registration, call: Call) -> Outcome:  # noqa: ARG002 - of the protocol
        """Run the command; its output goes to the listener as it comes."""
        try:
            return await self._run(call)
        finally:
            self._settled.set()

    async def _run(self, call: Call) -> Outcome:
        from openskills.tools.run import RunResultOptions, build_result_data

        async with self._session as session:
            call.mark("start")
            plan = await session.prepare_command(self._arguments)
            skill, terminal = self._arguments.skill, self._arguments.terminal
            globs = (*_LISTED, f"{SKILLS}/{skill}/**")
            request = replace(
                plan.request,
                readable=True,
                input_open=self._interactive or terminal is not None,
                terminal=terminal,
                outputs=OutputSpec(globs, inline=False, max_files=MAX_LISTED_FILES),
            )
            call.mark("sandbox")
            started = await plan.runner.start(request)
            call.mark("script")
            self._process = started.process
            if terminal is not None:
                self._viewer = ScreenViewer(started.process, terminal)
            self._settled.set()
            try:
                await _follow(started.process, call.listener, has_terminal=terminal is not None)
                call.mark("collect")
                result = await plan.runner.finish(started)
            except asyncio.CancelledError:
                await asyncio.shield(plan.runner.kill(started))
                raise
            screen = await self.read_screen()
        options = RunResultOptions(inline=False, primary_content=False, advice="set a longer timeout")
        data = build_result_data(result, options, plan.uploads.files.values(), plan.uploads.warnings)
        data.pop("primary_output", None)
        return _build_outcome(result, {**data, "screen": screen} if screen else data)

    async def write(self, data: bytes, *, close: bool) -> int:
        """Write to the input of the command; returns how many bytes it has taken within a few seconds.

        Waits for the process of a command that is being started. Raises `InvalidArgument` if that takes too long, and
        if it has ended, or its input is closed.
        """
        process = await self._wait_for_process()
        taken = await process.write(data) if data else 0
        deadline = asyncio.get_running_loop().time() + _INPUT_TIMEOUT
        while taken < len(data) and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(_INPUT_PAUSE)
            taken += await process.write(data[taken:])
        if close and taken == len(data):
            await process.close_input()
        return taken

    async def resize(self, rows: int, columns: int) -> None:
        """Change the size of the terminal; raises `InvalidArgument` without one."""
        await (await self._wait_for_process()).resize(rows, columns)
        if self._viewer is not None:
            await self._viewer.resize(TerminalSize(rows, columns))

    async def read_screen(self) -> dict[str, Any] | None:
        """What the terminal shows; None without one, and for a program that only writes line by line."""
        found = None if self._viewer is None else await self._viewer.read_screen()
        if found is None:
            return None
        return {"lines": found.lines, "row": found.row, "column": found.column, "has_gap": found.has_gap}

    async def _wait_for_process(self) -> Process:
        try:
            async with asyncio.timeout(_PROCESS_TIMEOUT):
                await self._settled.wait()
        except TimeoutError:
            message = f"has not started within {_PROCESS_TIMEOUT:.0f} s; wait for its event `start` and send this again"
            raise InvalidArgument("run", message) from None
        if self._process is None:
            raise InvalidArgument("run", "has ended before its command was started; see its result")
        return self._process


async def _follow(process: Process, listener: Listener | None, *, has_terminal: bool) -> None:
    if listener is None:
        await process.wait()
    elif has_terminal:
        await _copy(process, OutputStream.BOTH, "stdout", listener)
    else:
        streams = ((OutputStream.STDOUT, "stdout"), (OutputStream.STDERR, "stderr"))
        await asyncio.gather(*(_copy(process, stream, name, listener) for stream, name in streams))


async def _copy(process: Process, stream: OutputStream, name: str, listener: Listener) -> None:
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    offset = 0
    while True:
        output = await process.read(offset, wait=60.0, limit=_CHUNK, stream=stream)
        offset = output.next_offset
        if output.missed:
            reason = f"{output.missed:,} bytes were dropped because the output was too fast"
            listener(SkillOutputEvent("cut", {"missed_bytes": output.missed, "reason": reason}))
        text = decoder.decode(output.data, final=output.ended)
        if text:
            listener(SkillOutputEvent(name, {"text": text, "raw": True}))
        if output.ended:
            return
        if len(output.data) < _CHUNK:
            await asyncio.sleep(_BATCH_SECONDS)


def _build_outcome(result: RunResult, data: Mapping[str, Any]) -> Outcome:
    ended = result.ended
    notes = {"isolation": str(result.isolation), "cpu_ms": ended.cpu_ms, "memory_bytes": ended.memory_bytes}
    if not ended.exit_code and ended.ending is EndReason.EXITED:
        return success_outcome(data, notes=notes)
    if ended.ending is EndReason.TIMED_OUT:
        code, reason, message = 504, "DEADLINE_EXCEEDED", f"the command {ended.detail or 'timed out'}"
    elif ended.ending is not EndReason.EXITED:
        code, reason, message = 502, "COMMAND_FAILED", f"the command was stopped: {ended.detail or ended.ending}"
    else:
        code, reason, message = 502, "COMMAND_FAILED", f"the command exited with status {ended.exit_code}"
    return failure_outcome(Failure(code, message, {"reason": reason, "retryable": False, **data}), notes=notes)


class HostCaller:
    """The caller of a request. Its key owns its sessions, and its scopes decide which skills exist for it."""

    def __init__(self, host: Host, principal: Principal, session: str = "") -> None:
        self._host = host
        self.principal = self.identity = principal
        self.user = principal.name
        self.session = session
        self.is_restricted = "*" not in principal.scopes
        self.is_admin = principal.has_role("admin")
        self.max_commands = min(principal.concurrency or MAX_COMMANDS, MAX_COMMANDS)

    def can_use(self, skill: str) -> bool:
        """Whether a scope has the skill, under its name or under the id that a host gives it."""
        return self.principal.can_invoke(skill) or self.principal.can_invoke(skill.replace("-", "_"))

    def count_request(self) -> None:
        self._host.count_request(self.principal)

    def admit(self) -> AbstractAsyncContextManager[object]:
        return self._host.admit(self.principal)


@dataclass(frozen=True, slots=True)
class CommandOptions:
    """Which commands a host runs: those of the skills of its catalogs, with what they are granted.

    Unless `is_served`, nobody has said that these skills are for callers, and only those with the role `admin` may use
    them. Private uploads are for their owners and for administrators, and are granted nothing.
    """

    catalogs: Console
    is_served: bool = True
    grants: Mapping[str, SkillGrants] = field(default_factory=dict[str, SkillGrants])
    install: str = "never"
    workers: int = 1
    uploads: Path | None = None


def select_grants(
    skills: "Iterable[Skill]", grants: Mapping[str, SkillGrants], uploads: Path | None
) -> dict[str, SkillGrants]:
    """What the operator grants to each of these skills; nothing to those below the directory `uploads`."""
    own = (skill for skill in skills if uploads is None or not skill.path.resolve().is_relative_to(uploads))
    return {skill.name: combine_grants(grants, skill.name) for skill in own} if grants else {}


def select_secrets(grants: Mapping[str, SkillGrants], settings: Settings) -> dict[str, str]:
    """The values of all secrets that are granted, of those that the host has."""
    names = {name for granted in grants.values() for name in granted.secrets}
    return {name: value for name, value in settings.environment.items() if name in names}


def check_background_limit(host: Host, principal: Principal, running: int) -> None:
    """Raise `TooManyRequests` if a caller has as many commands, or turns, as it may have: half of the capacity."""
    limit = max(host.capacity // 2, 1)
    if running >= limit:
        message = f"{running} of {principal.name!r} are running or queued, which is the maximum; wait or cancel some"
        raise TooManyRequests(message, limit="concurrency", retry_after=1)


class CommandSkill(NamedTuple):
    """A skill whose commands a caller may run; `name` is `NAME~OWNER` for the private upload of another key."""

    name: str
    description: str


class HostCommands:
    """The workspaces of a host and the commands that run in them. Belongs to one event loop; opened on first use.

    Private uploads of each key have a runtime of their own, because names of skills are not unique between keys. A
    workspace is open in one runtime at a time.
    """

    def __init__(self, settings: Settings, options: CommandOptions, host: Host, runs: Runs) -> None:
        self._settings = settings
        self.options = options
        self._host = host
        self._runs = runs
        self._opening = asyncio.Lock()
        self._executor: Executor | None = None
        self._opened: OrderedDict[str, tuple[SkillRuntime, SessionPool]] = OrderedDict()
        self._live: dict[str, LiveCommand] = {}
        self._places: dict[str, _CommandPlace] = {}

    async def start(self, principal: Principal, workspace: str, asked: Mapping[str, Any], trace: Trace) -> Run:
        """Start a command in a workspace of the caller, and return its run. Raises `SkillError` and `HttpRefusal`.

        `asked` has the fields of `skill_exec`, and `interactive` to keep the input open. The values of its variables
        are not stored in the run.
        """
        self._check_workers()
        arguments = _parse_command(asked)
        caller = HostCaller(self._host, principal, check_name("workspace", workspace))
        own = sum(place.principal.name == principal.name for place in self._places.values())
        check_background_limit(self._host, principal, own)
        shown = arguments.skill
        skill, owner = await self._find_skill(principal, shown)
        arguments = arguments.model_copy(update={"skill": skill.name})
        if self._host.draining:
            raise HttpRefusal(http.host_draining())
        runtime, pool = await self._enter(principal, caller.session, owner)
        await self._check_quota(principal, caller.session)
        command = LiveCommand(pool.use(caller, caller.session), arguments, interactive=asked.get("interactive") is True)
        timeout = arguments.timeout or runtime.options.limits.timeout
        version = skill.manifest.metadata.get("version")
        registration = Registration(
            shown,
            COMMAND_KIND,
            "",
            version if isinstance(version, str) else "",
            timeout_ms=round((timeout + _START_SECONDS) * 1000),
        )
        given = {**{name: asked[name] for name in _FIELDS if name in asked}, "workspace": caller.session}
        if arguments.env:
            # Values may be secrets of the caller: only names are stored.
            given["env"] = sorted(arguments.env)
        body, run_id = orjson.dumps(given, default=str), new_run_id()

        async def make(listener: Listener) -> InvokeResult:
            asked = InvokeRequest(shown, given, trace.id, principal, time.perf_counter(), body, listener)
            asked = asked._replace(traceparent=trace.here, parent=trace.parent, run_id=run_id)
            self._live[run_id] = command
            try:
                return (await self._host.perform(asked._replace(registration=registration, runner=command))).result
            finally:
                del self._live[run_id]
                self._places.pop(run_id, None)

        self._places[run_id] = _CommandPlace(principal, caller.session, owner)
        try:
            return await self._runs.start(
                make,
                skill_id=shown,
                trace_id=trace.id,
                principal=principal.name,
                version=registration.version,
                run_id=run_id,
                kind=COMMAND_KIND,
                request=body,
            )
        except BaseException:
            # If this is cancelled, the run may have begun, and ended.
            self._places.pop(run_id, None)
            raise

    async def list_skills(self, principal: Principal) -> Sequence[CommandSkill]:
        """The skills whose commands a caller may run, by name."""
        if self.options.workers > 1:
            return ()
        caller, catalogs = HostCaller(self._host, principal), self.options.catalogs
        owner, is_open = catalogs.find_owner(principal), self.options.is_served or principal.has_role("admin")
        found = [
            CommandSkill(skill.name, skill.description)
            for skill in (await catalogs.open_catalog(owner)).snapshot.skills
            if caller.can_use(skill.name) and (is_open or catalogs.is_private(skill, owner))
        ]
        others = await catalogs.list_private(principal)
        found += [
            CommandSkill(f"{one.name}{OWNER_MARK}{one.owner}", one.description)
            for one in others
            if caller.can_use(one.name)
        ]
        return sorted(found)

    async def find_skill(self, principal: Principal, name: str) -> "Skill":
        """A skill whose commands a caller may run. Raises `UnknownSkill` and `Forbidden`."""
        return (await self._find_skill(principal, name))[0]

    async def _find_skill(self, principal: Principal, name: str) -> "tuple[Skill, str]":
        """A skill, and the owner if it is a private upload."""
        catalogs = self.options.catalogs
        found = await catalogs.find_private(principal, name)
        if found is None:
            owner = catalogs.find_owner(principal)
            try:
                skill = (await catalogs.open_catalog(owner)).snapshot.get(name)
            except UnknownSkill:
                if not self.options.is_served:
                    principal.require_role("admin")
                raise
            found = skill, owner if catalogs.is_private(skill, owner) else ""
        skill, owner = found
        if not owner and not self.options.is_served:
            principal.require_role("admin")
        if not HostCaller(self._host, principal).can_use(skill.name):
            raise Forbidden(f"the key {principal.name!r} has no scope for {skill.name!r}", scope=skill.name)
        return skill, owner

    def get(self, run: Run) -> LiveCommand:
        """The running command of a run. Raises `InvalidArgument`."""
        found = self._live.get(run.id)
        if found is None:
            state = f"it is {run.state.value}" if run.kind == COMMAND_KIND else "it is not a command"
            raise InvalidArgument("run", f"takes no input: {state}")
        return found

    async def read_screen(self, run: Run) -> dict[str, Any] | None:
        """What the terminal of a command shows, or showed at its end."""
        live = self._live.get(run.id)
        if live is not None:
            return await live.read_screen()
        if run.kind != COMMAND_KIND or run.result is None:
            return None
        result: dict[str, Any] = json.loads(run.result)
        return (result["data"] or result["error"]["details"]).get("screen")

    @asynccontextmanager
    async def use_workspace(self, principal: Principal, name: str) -> AsyncGenerator[Workspace]:
        """A workspace of the caller, for its files; it is created if missing. Raises `SkillError`."""
        caller = HostCaller(self._host, principal, check_name("workspace", name))
        _, pool = await self._enter(principal, name)
        await self._check_quota(principal, name)
        async with pool.use(caller, caller.session) as session:
            yield (await session.open_runner()).workspace

    async def list_files(self, principal: Principal, name: str) -> Sequence[FileInfo]:
        """The files of a workspace besides those of skills, at most `MAX_LISTED_FILES`."""
        if not await self._has_workspace(principal, name):
            return ()
        async with self.use_workspace(principal, name) as workspace:
            return (await workspace.list(_LISTED, limit=MAX_LISTED_FILES)).files

    @asynccontextmanager
    async def open_file(self, principal: Principal, name: str, path: str) -> AsyncGenerator[WorkspaceFileReader]:
        """A file of a workspace, to be read in pieces. Raises `InvalidArgument` and `ForbiddenPath`."""
        found = str(parse_relative(path))
        if not await self._has_workspace(principal, name):
            raise InvalidArgument("workspace", f"there is no workspace {name!r}; GET /workspaces lists yours")
        async with self.use_workspace(principal, name) as workspace, workspace.open(found) as reading:
            yield reading

    async def read_file(self, principal: Principal, name: str, path: str, *, limit: int) -> tuple[FileInfo, bytes]:
        """The beginning of a file of a workspace, at most `limit` bytes. Raises like `open_file`."""
        async with self.open_file(principal, name, path) as reading:
            data = bytearray()
            async for chunk in reading.chunks:
                data += chunk[: limit - len(data)]
                if len(data) >= limit:
                    break
            return reading.info, bytes(data)

    async def write_file(self, principal: Principal, name: str, path: str, data: AsyncIterable[bytes]) -> FileInfo:
        """Write a file below `work/`, piece by piece. Raises `SkillError`; the file is then as it was before."""
        found = parse_relative(path)
        if found.parts[0] != WORK or len(found.parts) < 2:
            raise InvalidArgument("path", f"{path[:200]!r} is not below {WORK}/; use a path such as {INPUTS}/data.csv")
        async with self.use_workspace(principal, name) as workspace:
            usage, limit = await workspace.usage(), self._settings.workspace_bytes

            async def check_size() -> AsyncGenerator[bytes]:
                size = usage.bytes
                async for chunk in data:
                    size += len(chunk)
                    if size > limit:
                        message = f"the workspace would have more than {limit:,} bytes; remove some files first"
                        raise LimitExceeded(message)
                    yield chunk

            return await workspace.write(str(found), check_size())

    async def remove_file(self, principal: Principal, name: str, path: str) -> bool:
        """Remove a file or folder below `work/` or `out/`; False if there is none. Raises `SkillError`."""
        found = parse_relative(path)
        if found.parts[0] not in (WORK, OUT) or len(found.parts) < 2:
            raise InvalidArgument("path", f"{path[:200]!r} is not below {WORK}/ or {OUT}/")
        if not await self._has_workspace(principal, name):
            return False
        async with self.use_workspace(principal, name) as workspace:
            return await workspace.remove(str(found))

    async def end_invalid(self, is_over: Callable[[object], bool]) -> None:
        """Cancel the commands, and close the workspaces, of callers who are no longer valid."""
        for run_id in [run_id for run_id, place in self._places.items() if is_over(place.principal)]:
            with suppress(UnknownRun):
                await self._runs.cancel(run_id)
        for _, pool in list(self._opened.values()):
            await pool.close_sessions(is_over)

    async def list_workspaces(self, principal: Principal) -> "Sequence[tuple[str, WorkspaceInfo]]":
        """The workspaces of a caller with their names, the most recently used first."""
        return await asyncio.to_thread(_list_workspaces, self._settings, principal.name, measure=True)

    async def remove_workspace(self, principal: Principal, name: str) -> bool:
        """Remove a workspace of the caller with its files; False if there is none.

        Raises `RequestInFlight` while a command runs in it.
        """
        self._check_idle(principal.name, check_name("workspace", name), "cancel it first")
        runtime, _ = await self._enter(principal, name)
        for _, pool in self._opened.values():
            await pool.close_session(principal.name, name)
        return await runtime.remove_workspace(name, user=principal.name, app=_APP)

    async def close(self) -> None:
        """Kill all commands and release the workspaces. Safe to call twice."""
        while self._opened:
            runtime, pool = self._opened.popitem()[1]
            await pool.close()
            await runtime.close()
        executor, self._executor = self._executor, None
        if executor is not None:
            await executor.close()

    def _check_idle(self, user: str, name: str, fix: str, *, besides: str | None = None) -> None:
        """Raise `RequestInFlight` if a command runs in a workspace, unless it is one of the runtime `besides`."""
        for place in self._places.values():
            if (place.principal.name, place.workspace) == (user, name) and place.owner != besides:
                raise RequestInFlight(f"a command is running in the workspace {name!r}; {fix}")

    def _find_open(self, user: str, name: str) -> str | None:
        """The owner of the runtime in which a workspace is open; None if it is in none."""
        return next((owner for owner, (_, pool) in self._opened.items() if pool.is_open(user, name)), None)

    async def _enter(
        self, principal: Principal, name: str, owner: str | None = None
    ) -> "tuple[SkillRuntime, SessionPool]":
        """The runtime for a workspace: that of `owner`, or, without one, where it is open.

        Raises `RequestInFlight` if commands of another runtime are running in it.
        """
        user = principal.name
        open_in = self._find_open(user, name)
        found = await self._open(principal, (open_in or "") if owner is None else owner)
        if owner is not None and open_in is not None and open_in != owner:
            fix = "it is of another owner's skill; wait for its end, or use another workspace"
            self._check_idle(user, name, fix, besides=owner)
            await self._opened[open_in][1].close_session(user, name)
        return found

    async def _has_workspace(self, principal: Principal, name: str) -> bool:
        """Whether a workspace exists. Raises like `use_workspace`, which would create it."""
        await self._enter(principal, check_name("workspace", name))
        if self._find_open(principal.name, name) is not None:
            return True
        found = await asyncio.to_thread(_list_workspaces, self._settings, principal.name)
        return any(known == name for known, _ in found)

    async def _check_quota(self, principal: Principal, name: str) -> None:
        """Raise `Forbidden` if a workspace is new and the caller has as many as it may have."""
        limit = self._settings.host_quota_workspaces
        if principal.has_role("admin") or self._find_open(principal.name, name) is not None:
            return
        found = await asyncio.to_thread(_list_workspaces, self._settings, principal.name)
        names = {known for known, info in found if not info.is_expired or known == name}
        if name not in names and len(names) >= limit:
            used = f"{principal.name!r} has {len(names):,} of {limit:,} workspaces"
            fix = "delete one on the page Try it, or with DELETE /workspaces/NAME"
            raise Forbidden(f"quota exceeded: {used}; {fix}", quota="workspaces")

    def _check_workers(self) -> None:
        if self.options.workers > 1:
            raise ExecutorUnavailable("commands need a host with --workers 1, because workers do not share workspaces")

    async def _open(self, principal: Principal, owner: str) -> "tuple[SkillRuntime, SessionPool]":
        self._check_workers()
        # Also if it is open: that looks for changes on disk.
        catalog = await self.options.catalogs.open_catalog(owner)
        async with self._opening:
            if self._executor is None:
                self._executor = await asyncio.to_thread(open_executor, self._settings.executor, self._settings)
            if owner not in self._opened:
                await self._make_room()
                # Importing the runtime takes a moment.
                self._opened[owner] = await asyncio.to_thread(
                    _open_runtime, self._settings, self.options, catalog, self._executor, has_grants=not owner
                )
            self._opened.move_to_end(owner)
            found = self._opened[owner]
        if not await found[0].is_isolated():
            # Whoever may run these can do everything that the host can.
            principal.require_role("admin")
        return found

    async def _make_room(self) -> None:
        """Close the runtime that was not used for the longest time, if there are too many."""
        busy = {place.owner for place in self._places.values()} | {""}
        for owner in [owner for owner in self._opened if owner not in busy]:
            if len(self._opened) < MAX_RUNTIMES:
                return
            runtime, pool = self._opened.pop(owner)
            await pool.close()
            await runtime.close()


class _CommandPlace(NamedTuple):
    """Where a command runs: the workspace of a caller, in the runtime of an owner of private uploads."""

    principal: Principal
    workspace: str
    owner: str


def _list_workspaces(settings: Settings, user: str, *, measure: bool = False) -> "list[tuple[str, WorkspaceInfo]]":
    from openskills.executors.records.leases import WorkspaceStore

    def parse(key: str) -> str | None:
        try:
            app, owner, session = json.loads(key)
        except ValueError:
            return None
        return session if (app, owner) == (_APP, user) else None

    store = WorkspaceStore(settings.state_dir / "workspaces")
    found = store.list(measure=(lambda key: parse(key) is not None) if measure else lambda _: False)
    return [(name, info) for info in found if (name := parse(info.key)) is not None]


def _open_runtime(
    settings: Settings, options: CommandOptions, catalog: "Catalog", executor: Executor, *, has_grants: bool
) -> "tuple[SkillRuntime, SessionPool]":
    from openskills.runtime.options import SessionOptions
    from openskills.runtime.runtime import SkillRuntime
    from openskills.runtime.session_pool import SessionPool
    from openskills.session.state import LoadMode

    grants = select_grants(catalog.snapshot.skills, options.grants, options.uploads) if has_grants else {}
    plain = SessionOptions(load_mode=LoadMode.SESSION, require_loaded=False, install=options.install)
    # The caller writes the command, so that it could read all that a skill is granted.
    granted = replace(plain, grants=grants, secrets=select_secrets(grants, settings))
    runtime = SkillRuntime(catalog, executor, settings=settings, options=plain)
    return runtime, SessionPool(runtime, plain, app=_APP, agent="host", admin_options=granted)


def check_name(field: str, name: str) -> str:
    """The name of a workspace. Raises `InvalidArgument`."""
    if _WORKSPACE_NAME.fullmatch(name) is None:
        raise InvalidArgument(field, f"invalid name {name[:100]!r}: use up to 64 letters, digits, ., - and _")
    return name


def _parse_command(asked: Mapping[str, Any]) -> "ExecArguments":
    from openskills.tools.interactive import SKILL_EXEC
    from openskills.tools.tool import decode

    for name in asked:
        if name not in _FIELDS:
            raise InvalidArgument(str(name)[:100], f"unknown field; a command has {', '.join(_FIELDS)}")
    if not isinstance(asked.get("interactive", False), bool):
        raise InvalidArgument("interactive", "expected true or false")
    return decode(SKILL_EXEC, {name: one for name, one in asked.items() if name != "interactive"})
