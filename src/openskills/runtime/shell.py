"""Shell and editor calls of other vendors' tools, executed in a session's workspace.

`SkillSession.shell` takes OpenAI's `shell_call` (local environment) and Anthropic's `tool_use` of `bash` and of the
text editor. Commands pass the policy, the approval hook, the limits and the audit log of the session like those of
`skill_run`; paths are confined to the workspace. Relative paths and commands start in `work/`.
"""

import asyncio
import posixpath
import re
import secrets
import shlex
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from openskills.concurrency import shield_until_done
from openskills.errors import ForbiddenPath, InvalidArgument, LimitExceeded, SkillError
from openskills.executors.commands import ActiveCommand, CommandRunner
from openskills.executors.files.globs import escape_glob
from openskills.executors.process import HeadTailBuffer
from openskills.executors.protocol import Process, Workspace
from openskills.executors.requests import RunRequest, RunResult
from openskills.executors.spec import (
    WORK,
    CapturedOutput,
    EndReason,
    FileInfo,
    OutputStream,
    check_writable_path,
    expand_path,
)
from openskills.paths import to_printable
from openskills.prompt.blocks import split_lines
from openskills.tools.files import prepare_workspace
from openskills.tools.run import clip_stream, stage_skill
from openskills.tools.run_arguments import encode_text
from openskills.tools.search_files import MAX_MATCHES, SearchFilesArguments, search_files
from openskills.tools.tool import ToolContext

SHELL_LIFETIME = 24 * 3600.0
"""Seconds after which a persistent shell is killed."""
MAX_EDITED_BYTES = 4 * 1024 * 1024
"""The largest file that can be viewed or edited."""
BASH, EDITORS = "bash", ("str_replace_based_edit_tool", "str_replace_editor")
"""The names of Anthropic's tools; the last editor is the one with `undo_edit`."""

_CHUNK = 256 * 1024
_DENIED = 126
_MAX_UNDO_FILES, _MAX_UNDO = 32, 8
_VIEW_DEPTH = 2
_MAX_LISTED = 1_000
_MAX_FOUND = 10_000
_LOST = "the shell was killed; the next command gets a new one, without its variables, directory and background jobs"


@dataclass(frozen=True, slots=True)
class ShellOutput:
    """The output of one command. `exit_code` is None if it timed out; `note` says what else happened."""

    stdout: CapturedOutput
    stderr: CapturedOutput
    exit_code: int | None
    note: str = ""


class PersistentShell:
    """A bash process whose directory, variables and background jobs last from one command to the next.

    Every command is checked and logged as if it were started on its own. A command that times out, or whose call is
    cancelled, ends with the whole shell; the next command starts a new one.
    """

    def __init__(self, request: RunRequest) -> None:
        self._request = request
        self._lock = asyncio.Lock()
        self._started: ActiveCommand | None = None
        self._finished: asyncio.Task[RunResult] | None = None
        self._offset = 0

    async def run(self, runner: CommandRunner, command: str, *, timeout: float, output_bytes: int) -> ShellOutput:
        """Run a command. Stdout and stderr are combined, and input is empty.

        Raises what `CommandRunner.check` raises.
        """
        async with self._lock:
            await runner.check(replace(self._request, command=command, input_open=False))
            process = await self._get_process(runner)
            nonce = secrets.token_hex(16)
            output = HeadTailBuffer(output_bytes)
            # The quoted text is one word for `eval`, so that a syntax error cannot affect what follows. The marker is
            # written in two parts: `set -v` prints this line.
            marker = f"{nonce[:8]}''{nonce[8:]}"
            line = f"eval {shlex.quote(command)} </dev/null 2>&1; printf '\\n%s %d\\n' {marker} $?\n"
            try:
                async with asyncio.timeout(timeout):
                    await _write_all(process, encode_text("command", line))
                    code = await self._read_result(process, f"\n{nonce} ".encode(), output)
            except TimeoutError:
                await self.close()
                note = f"the command timed out after {timeout:g} s; {_LOST}"
                return ShellOutput(output.to_captured(), CapturedOutput(), None, note)
            except asyncio.CancelledError:
                await shield_until_done(self.close())
                raise
            if code is not None:
                return ShellOutput(output.to_captured(), CapturedOutput(), code)
            await self.close()
            ended = await process.wait()
            detail = f" ({ended.detail})" if ended.detail else ""
            return ShellOutput(output.to_captured(), CapturedOutput(), ended.exit_code, f"the shell ended{detail}")

    async def close(self) -> None:
        """Kill the shell with everything that it started, also a command that is running."""
        # Without the lock, which a running command holds.
        started, self._started = self._started, None
        finished, self._finished = self._finished, None
        if started is not None:
            await started.process.kill()
        if finished is not None:
            await finished

    async def _get_process(self, runner: CommandRunner) -> Process:
        if self._finished is not None and self._finished.done():
            await self.close()
        if self._started is None:
            started = await runner.start(self._request, ask=False)
            self._started, self._offset = started, 0
            self._finished = asyncio.get_running_loop().create_task(runner.finish(started))
        return self._started.process

    async def _read_result(self, process: Process, marker: bytes, output: HeadTailBuffer) -> int | None:
        """Collect output up to the marker, and return the exit code behind it; None if the shell has ended."""
        pending = b""
        try:
            while True:
                read = await process.read(self._offset, wait=60.0, limit=_CHUNK, stream=OutputStream.STDOUT)
                self._offset = read.next_offset
                if read.missed:
                    output.add(pending)
                    output.total += read.missed
                    pending = b""
                pending += read.data
                place = pending.find(marker)
                end = pending.find(b"\n", place + len(marker)) if place >= 0 else -1
                if end >= 0:
                    code, pending = int(pending[place + len(marker) : end]), pending[:place]
                    return code
                if place < 0 and len(pending) > len(marker):
                    output.add(pending[: -len(marker)])
                    pending = pending[-len(marker) :]
                if read.ended:
                    return None
        finally:
            output.add(pending)


async def _write_all(process: Process, data: bytes) -> None:
    while data:
        try:
            data = data[await process.write(data) :]
        except InvalidArgument:
            # It has ended, which reading its output reports.
            return
        if data:
            await asyncio.sleep(0.005)


class WorkspaceShell:
    """Commands and text files of one session's workspace, for tools that other vendors have trained models on.

    It belongs to a `SkillSession`, which closes it. Files of the user and loaded skills are in the workspace before a
    command runs.
    """

    def __init__(self, get_context: Callable[[], ToolContext]) -> None:
        self._get_context = get_context
        grants = get_context().options.grants_for(None)
        self._request = RunRequest(
            "true", cwd="$WORK_DIR", env=grants.environment, secrets=grants.secrets, network=grants.network
        )
        limits = replace(get_context().options.limits, timeout=SHELL_LIFETIME)
        self._bash = PersistentShell(
            replace(
                self._request, command=("bash", "--noprofile", "--norc"), limits=limits, input_open=True, readable=True
            )
        )
        # What each file was before, and whether it was executable; None if there was none.
        self._undo: OrderedDict[str, list[tuple[bytes, bool] | None]] = OrderedDict()
        self._editing = asyncio.Lock()

    async def run(
        self, command: str | tuple[str, ...], *, timeout: float | None = None, output_bytes: int | None = None
    ) -> ShellOutput:
        """Run a command in its own process. A timeout above that of the session's options is reduced to it.

        Raises what `CommandRunner.run` raises.
        """
        runner = await self._open_runner()
        options = self._get_context().options
        limits = replace(options.limits, timeout=self._clamp_timeout(timeout))
        ended = (await runner.run(replace(self._request, command=command, limits=limits))).ended
        clip = options.inline_bytes if output_bytes is None else output_bytes
        code = None if ended.ending is EndReason.TIMED_OUT else ended.exit_code
        return ShellOutput(clip_stream(ended.stdout, clip), clip_stream(ended.stderr, clip), code, ended.detail)

    async def run_bash(self, command: str, *, timeout: float | None = None) -> ShellOutput:
        """Run a command in the session's persistent shell.

        With lists of allowed or denied commands there is no shell: each command runs in its own process.
        """
        runner = await self._open_runner()
        if not runner.allows_shell:
            return await self.run(command, timeout=timeout)
        seconds, size = self._clamp_timeout(timeout), self._get_context().options.inline_bytes
        return await self._bash.run(runner, command, timeout=seconds, output_bytes=size)

    async def close(self) -> None:
        """Kill the persistent shell; the next command starts a new one."""
        await self._bash.close()

    async def resolve_path(self, path: str) -> str:
        """The path relative to the workspace. Raises `ForbiddenPath` for one outside of it.

        Links are checked when a file is opened.
        """
        root = (await self._open_runner()).workspace.root
        expanded = expand_path(path)
        whole = f"{root}/{expanded}" if expanded != path else posixpath.join(root, WORK, path)
        found = posixpath.normpath(whole)
        if not path or "\0" in path:
            raise InvalidArgument("path", "expected the path of a file")
        if found != root and not found.startswith(f"{root}/"):
            raise ForbiddenPath(f"path: {to_printable(path)!r} is not in the workspace, {root}")
        return found.removeprefix(root).lstrip("/") or "."

    async def read_bytes(self, path: str, *, max_bytes: int = MAX_EDITED_BYTES) -> bytes:
        """The content of a file. Raises `LimitExceeded` if it is larger, and what `Workspace.open` raises."""
        workspace, where = await self._open_workspace(), await self.resolve_path(path)
        async with workspace.open(where) as file:
            if file.info.size > max_bytes:
                raise LimitExceeded(
                    f"{to_printable(path)} has {file.info.size:,} bytes, the maximum is {max_bytes:,}; use a command",
                    limit=max_bytes,
                    size=file.info.size,
                )
            return b"".join([chunk async for chunk in file.chunks])

    async def read_text(self, path: str) -> str:
        """The content of a text file. Raises `InvalidArgument` if it is not UTF-8."""
        data = await self.read_bytes(path)
        try:
            return data.decode()
        except UnicodeDecodeError:
            raise InvalidArgument("path", f"{to_printable(path)} is not UTF-8 text; use a command") from None

    async def write_text(self, path: str, text: str) -> None:
        """Write a file, creating missing directories. Its executable bit is kept. The change can be undone."""
        data = encode_text("text", text)
        if len(data) > MAX_EDITED_BYTES:
            raise LimitExceeded(f"text: {len(data):,} bytes, the maximum is {MAX_EDITED_BYTES:,}; use a command")
        workspace = await self._open_workspace()
        where = check_writable_path(await self.resolve_path(path))
        before, executable, can_undo = None, data.startswith(b"#!"), True
        if (await workspace.list([escape_glob(where)], limit=1)).files:
            async with workspace.open(where) as file:
                executable, can_undo = file.info.executable, file.info.size <= MAX_EDITED_BYTES
                if can_undo:
                    before = b"".join([chunk async for chunk in file.chunks]), executable
        await workspace.write(where, data, executable=executable)
        if can_undo:
            self._remember(where, before)
        else:
            self._undo.pop(where, None)

    async def replace_text(self, path: str, old: str, new: str, *, replace_all: bool = False) -> int:
        """Replace a text that occurs once, or every occurrence. Returns how many were replaced."""
        if not old:
            raise InvalidArgument("old_str", "is empty; write the text to replace")
        async with self._editing:
            text = await self.read_text(path)
            found = text.count(old)
            if not found:
                raise InvalidArgument("old_str", f"does not occur in {to_printable(path)}; it has to match exactly")
            if found > 1 and not replace_all:
                places = (match.start() for match in re.finditer(re.escape(old), text))
                lines = [str(text.count("\n", 0, place) + 1) for place in places]
                where = f"lines {', '.join(lines[:20])}"
                raise InvalidArgument(
                    "old_str",
                    f"occurs {found:,} times in {to_printable(path)} ({where}); add context to make it unique",
                )
            await self.write_text(path, text.replace(old, new))
        return found

    async def insert_text(self, path: str, after: int, text: str) -> None:
        """Insert text after a line; 0 means the beginning."""
        async with self._editing:
            lines = split_lines(await self.read_text(path))
            if not 0 <= after <= len(lines):
                raise InvalidArgument("insert_line", f"{after} is not in the file; use 0 to {len(lines)}")
            if after and not lines[after - 1].endswith("\n"):
                lines[after - 1] += "\n"
            ended = text if not text or text.endswith("\n") or after == len(lines) else f"{text}\n"
            await self.write_text(path, "".join([*lines[:after], ended, *lines[after:]]))

    async def undo_edit(self, path: str) -> None:
        """Undo the last change that this object made to a file. Raises `InvalidArgument` if there is none."""
        where = await self.resolve_path(path)
        earlier = self._undo.get(where)
        if not earlier:
            raise InvalidArgument("path", f"no edit of {to_printable(path)} to undo")
        before = earlier.pop()
        workspace = await self._open_workspace()
        if before is None:
            await workspace.remove(where)
        else:
            content, executable = before
            await workspace.write(where, content, executable=executable)

    async def view(self, path: str, view_range: Sequence[int] | None = None) -> str:
        """The numbered lines of a file, or the files of a directory up to two levels deep.

        `view_range` is the first and the last line; -1 means the last line of the file.
        """
        where = await self.resolve_path(path)
        workspace = await self._open_workspace()
        prefix = "" if where == "." else f"{where}/"
        # A directory has files, or cannot be opened as a file.
        listed = await workspace.list([f"{escape_glob(prefix)}**"], limit=_MAX_LISTED)
        if listed.files or where in (".", WORK):
            if view_range:
                raise InvalidArgument("view_range", f"{to_printable(path)} is a directory")
            return _format_directory(f"{workspace.root}/{where}", prefix, [info.path for info in listed.files])
        return _format_lines(await self.read_text(path), view_range, self._get_context().options.max_inline_bytes)

    async def get_root(self) -> str:
        """The workspace as commands see it."""
        return (await self._open_workspace()).root

    async def find_files(self, directory: str, pattern: str) -> Sequence[FileInfo]:
        """The files below a directory (relative to the workspace) that match a pattern; links are left out."""
        workspace = await self._open_workspace()
        prefix = "" if directory == "." else f"{escape_glob(directory)}/"
        return (await workspace.list([f"{prefix}{pattern}"], limit=_MAX_FOUND)).files

    async def search(self, pattern: str, path: str) -> str:
        """The lines of the files at a path (relative to the workspace) that match a regular expression."""
        glob = "**" if path == "." else escape_glob(path)
        wanted = SearchFilesArguments(pattern=pattern, regex=True, glob=glob, max_matches=MAX_MATCHES)
        return (await search_files(self._get_context(), wanted)).text

    async def stage_skills(self, names: Sequence[str]) -> dict[str, str]:
        """Put skills into the workspace, and return the directories in which commands find them."""
        context = self._get_context()
        runner = await context.open_runner()
        for name in names:
            await stage_skill(context, runner, context.skills.get(name))
        return {name: f"{runner.workspace.root}/skills/{name}" for name in names}

    async def _open_runner(self) -> CommandRunner:
        context = self._get_context()
        runner = await context.open_runner()
        for name in context.view().list_loaded():
            if context.skills.has(name):
                await stage_skill(context, runner, context.skills.get(name))
        await prepare_workspace(context)
        return runner

    async def _open_workspace(self) -> Workspace:
        return (await self._get_context().open_runner()).workspace

    def _clamp_timeout(self, timeout: float | None) -> float:
        options = self._get_context().options
        granted = options.grants_for(None).timeout
        most = options.max_timeout if granted is None else granted
        return min(options.limits.timeout if not timeout or timeout < 0 else timeout, most)

    def _remember(self, path: str, before: tuple[bytes, bool] | None) -> None:
        earlier = self._undo.setdefault(path, [])
        self._undo.move_to_end(path)
        earlier.append(before)
        del earlier[:-_MAX_UNDO]
        while len(self._undo) > _MAX_UNDO_FILES:
            self._undo.popitem(last=False)


def _format_directory(shown: str, prefix: str, files: Sequence[str]) -> str:
    found: set[str] = set()
    for path in files:
        parts = path.removeprefix(prefix).split("/")
        if any(part.startswith(".") for part in parts[:_VIEW_DEPTH]):
            continue
        found |= {f"{'/'.join(parts[:depth])}/" for depth in range(1, min(len(parts), _VIEW_DEPTH + 1))}
        if len(parts) <= _VIEW_DEPTH:
            found.add("/".join(parts))
    more = f"\n[only the first {_MAX_LISTED:,} files]" if len(files) >= _MAX_LISTED else ""
    lines = [f"{shown.removesuffix('/.')}/", *(to_printable(name) for name in sorted(found))]
    return "\n".join(lines) + more


def _format_lines(text: str, view_range: Sequence[int] | None, max_chars: int) -> str:
    lines = text.split("\n")
    if lines[-1] == "" and len(lines) > 1:
        lines.pop()
    first, last = 1, len(lines)
    if view_range is not None:
        if not isinstance(view_range, list | tuple) or list(map(type, view_range)) != [int, int]:
            raise InvalidArgument("view_range", "expected the first and the last line")
        first, last = view_range[0], len(lines) if view_range[1] == -1 else view_range[1]
        if not 1 <= first <= last or first > len(lines):
            raise InvalidArgument("view_range", f"[{view_range[0]}, {view_range[1]}] is not in 1 to {len(lines)}")
    shown = "\n".join(f"{number:6}\t{line}" for number, line in enumerate(lines[first - 1 : last], first))
    return _clip_text(shown, max_chars, "; use view_range")


def _clip_text(text: str, max_chars: int, advice: str = "") -> str:
    """The beginning and the end of a text, at most `max_chars` characters with the line that reports the cut."""
    if len(text) <= max_chars:
        return text
    note = f"\n[... {len(text):,} characters, not all shown{advice} ...]\n"
    room = max_chars - len(note)
    if room <= 0:
        return text[:max_chars]
    return text[: room - room // 2] + note + text[len(text) - room // 2 :]


async def run_call(shell: WorkspaceShell, call: Any) -> dict[str, Any]:
    """Execute a vendor's call, and return the item or block to send back. See `SkillSession.shell`."""
    given = _to_mapping(call)
    kind, name = given.get("type"), given.get("name")
    if kind == "shell_call":
        return await _run_shell_call(shell, given)
    if kind == "tool_use" and name in (BASH, *EDITORS):
        return await _run_tool_use(shell, given, str(name))
    what = f"a {kind} of {name!r}" if kind == "tool_use" else f"type {kind!r}"
    raise InvalidArgument(
        "call",
        f"{what} is not a shell call; expected a shell_call (OpenAI), or a tool_use of {BASH}, {' or '.join(EDITORS)}"
        " (Anthropic)",
    )


async def _run_shell_call(shell: WorkspaceShell, call: Mapping[str, Any]) -> dict[str, Any]:
    where = call.get("environment")
    if where is not None and (kind := _to_mapping(where).get("type")) != "local":
        raise InvalidArgument("call.environment", f"{kind!r} runs at OpenAI; only 'local' calls are executed here")
    action = _to_mapping(call.get("action"))
    commands = action.get("commands")
    if not isinstance(commands, list) or not all(isinstance(one, str) for one in cast("list[object]", commands)):
        raise InvalidArgument("call.action.commands", "expected a list of commands")
    timeout, length = (_read_number(action, name) for name in ("timeout_ms", "max_output_length"))
    output: list[dict[str, Any]] = []
    for command in cast("list[str]", commands):
        try:
            ended = await shell.run(command, timeout=timeout and timeout / 1000, output_bytes=length)
        except SkillError as error:
            ended = ShellOutput(CapturedOutput(), CapturedOutput(f"error: {error.message}\n".encode()), _DENIED)
        outcome = {"type": "timeout"} if ended.exit_code is None else {"type": "exit", "exit_code": ended.exit_code}
        streams = {"stdout": ended.stdout.text(), "stderr": ended.stderr.text()}
        if length is not None:
            streams = {name: _clip_text(text, length) for name, text in streams.items()}
        output.append({**streams, "outcome": outcome})
        if ended.exit_code is None:
            # The next commands may need what this one did not finish.
            break
    answer = {"type": "shell_call_output", "call_id": call.get("call_id"), "status": "completed", "output": output}
    return answer if length is None else {**answer, "max_output_length": length}


async def _run_tool_use(shell: WorkspaceShell, call: Mapping[str, Any], tool: str) -> dict[str, Any]:
    """The `tool_result` of a call. Errors of the model are results."""
    try:
        wanted = _to_mapping(call.get("input"))
        if tool != BASH:
            text, failed = await _run_editor_call(shell, wanted, tool), False
        elif wanted.get("restart"):
            await shell.close()
            text, failed = "the shell was restarted", False
        else:
            ended = await shell.run_bash(_read_text(wanted, "command"))
            text, failed = format_output(ended), ended.exit_code != 0
    except SkillError as error:
        text, failed = f"error: {error.message}", True
    answer = {"type": "tool_result", "tool_use_id": call.get("id"), "content": text}
    return {**answer, "is_error": True} if failed else answer


def format_output(ended: ShellOutput) -> str:
    """The output of a command as one text, with its exit code if it failed."""
    streams = [one.text().rstrip("\n") for one in (ended.stdout, ended.stderr)]
    failed = f"[exit code {ended.exit_code}]" if ended.exit_code else ""
    return "\n".join(part for part in (*streams, failed, f"[{ended.note}]" if ended.note else "") if part)


async def _run_editor_call(shell: WorkspaceShell, wanted: Mapping[str, Any], tool: str) -> str:
    command, path = _read_text(wanted, "command"), _read_text(wanted, "path")
    match command:
        case "view":
            return await shell.view(path, wanted.get("view_range"))
        case "create":
            await shell.write_text(path, _read_text(wanted, "file_text"))
            return f"created {path}"
        case "str_replace":
            await shell.replace_text(path, _read_text(wanted, "old_str"), _read_text(wanted, "new_str", ""))
        case "insert":
            # `new_str` is the name of this field in versions before 20250728.
            text = _read_text(wanted, "insert_text", wanted.get("new_str"))
            line = _read_number(wanted, "insert_line")
            if line is None:
                raise InvalidArgument("insert_line", "required; the line after which the text is inserted, or 0")
            await shell.insert_text(path, line, text)
        case "undo_edit" if tool == EDITORS[1]:
            await shell.undo_edit(path)
        case _:
            known = ("view", "create", "str_replace", "insert", *(["undo_edit"] if tool == EDITORS[1] else []))
            raise InvalidArgument("command", f"unknown command {command[:80]!r}; use one of {', '.join(known)}")
    return f"edited {path}"


def _to_mapping(value: Any) -> Mapping[str, Any]:
    """A mapping as it is; an object of an SDK as a mapping."""
    if isinstance(value, Mapping):
        return cast("Mapping[str, Any]", value)
    if hasattr(value, "model_dump"):
        return cast("Mapping[str, Any]", value.model_dump())
    raise InvalidArgument("call", f"expected a mapping or an object of the vendor's SDK, got {type(value).__name__}")


def _read_text(values: Mapping[str, Any], name: str, default: str | None = None) -> str:
    value = values.get(name)
    value = default if value is None else value
    if not isinstance(value, str):
        raise InvalidArgument(name, "required" if value is None else f"expected text, got {type(value).__name__}")
    return value


def _read_number(values: Mapping[str, Any], name: str) -> int | None:
    value = values.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise InvalidArgument(name, f"expected a number from 0 on, got {value!r}"[:200])
    return value
