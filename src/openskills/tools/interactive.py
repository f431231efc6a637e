"""Tools for interactive commands: `skill_exec`, `skill_write_stdin`, `skill_poll_session`, `skill_kill_session`.

A command keeps running across calls and turns. Only the agent that started it, in the same conversation, can see it.
"""

import asyncio
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from pydantic import ConfigDict, Field
from pydantic.json_schema import SkipJsonSchema

from openskills.errors import InvalidArgument, SkillError
from openskills.executors.escape_codes import strip_escapes
from openskills.executors.interactive import FIRST_WAIT, WAIT, InteractiveCommands, ProcessPollResult
from openskills.executors.requests import RunResult
from openskills.executors.spec import CapturedOutput, TerminalSize
from openskills.executors.terminal import ScreenSnapshot, ScreenView
from openskills.tools import run_arguments
from openskills.tools.run import RUN_RESULT_SCHEMA, RunPlan, build_result_data, describe_result, prepare_run
from openskills.tools.run_arguments import RunArguments
from openskills.tools.tool import Arguments, Tool, ToolContext, ToolResult, build_result_schema
from openskills.tools.uploads import WorkspaceUpload

MAX_WAIT_SECONDS = 60.0
"""The longest time that one call waits for output."""

_MAX_WAIT_MS = int(MAX_WAIT_SECONDS * 1000)
_DEFAULT_TERMINAL = TerminalSize()


def _shorten_inherited(schema: dict[str, Any]) -> None:
    for name, known in schema["properties"].items():
        if name in RunArguments.model_fields and name != "skill":
            found = {"type": known.get("type", "string" if name == "editor_text" else "object")}
            if found["type"] == "array":
                found["items"] = {"type": known["items"].get("type", "object")}
            schema["properties"][name] = found


class ExecArguments(RunArguments):
    """Arguments of `skill_exec`: those of `skill_run`, and a terminal. `poll_lines` is accepted and ignored.

    The schema only has the types of the arguments that `skill_run` describes.
    """

    model_config = ConfigDict(json_schema_extra=_shorten_inherited)

    tty: bool = Field(default=False, description="For full-screen programs and shells")
    rows: int = Field(default=_DEFAULT_TERMINAL.rows, ge=1, le=100)
    columns: int = Field(default=_DEFAULT_TERMINAL.columns, ge=1, le=300)
    yield_ms: int | None = None
    poll_lines: SkipJsonSchema[int | None] = None

    @property
    def terminal(self) -> TerminalSize | None:
        """The requested terminal, if any."""
        return TerminalSize(self.rows, self.columns) if self.tty else None


class SessionArguments(Arguments):
    """Arguments of all calls for a running command."""

    session_id: str = Field(description="From skill_exec")


class WriteArguments(SessionArguments):
    """Arguments of `skill_write_stdin`. Without anything to write it is a poll."""

    chars: str = Field(default="", description="\\u0003 is Ctrl-C")
    submit: bool = Field(default=False, description="Press Enter")
    close_stdin: bool = False
    yield_ms: int | None = None
    poll_lines: SkipJsonSchema[int | None] = None

    def encode_chars(self) -> bytes:
        """The text as bytes. Raises `InvalidArgument` for a lone surrogate."""
        return run_arguments.encode_text("chars", self.chars)


class PollArguments(SessionArguments):
    yield_ms: int | None = None
    offset: int | None = Field(default=None, ge=0)
    poll_lines: SkipJsonSchema[int | None] = None


def clamp_wait(yield_ms: int | None, default: float) -> float:
    """Seconds to wait: at most `MAX_WAIT_SECONDS`; `default` for None and negative values."""
    return default if yield_ms is None or yield_ms < 0 else min(yield_ms, _MAX_WAIT_MS) / 1000


# From the switch to the alternate screen to the switch back, or to the end.
_OWN_SCREEN = re.compile(rb"\x1b\[\?(?:1049|1047|47)h.*?(?:\x1b\[\?(?:1049|1047|47)l|\Z)", re.DOTALL)
_SCREEN_OMITTED = "what the program drew on a screen of its own is not in stdout"


def build_progress(session_id: str, poll: ProcessPollResult, view: ScreenView) -> dict[str, Any]:
    """The state of a running command. Offsets count the bytes that it has written, shown or not."""
    asked = poll.interaction
    optional: dict[str, Any] = {
        "missed": poll.missed,
        "more": poll.more,
        "interaction": asked and {"needs_input": asked.needs_input, "kind": asked.kind, "hint": asked.hint},
        "screen": view.screen and _screen_to_json(view.screen),
    }
    found = {
        "status": poll.status,
        "session_id": session_id,
        "output": view.text,
        "offset": poll.offset,
        "next_offset": poll.next_offset,
        **{name: value for name, value in optional.items() if value},
    }
    return found if poll.result is None else {**found, "exit_code": poll.result.exit_code}


def describe_progress(data: Mapping[str, Any]) -> str:
    """The same for a model: compact JSON without repeated content."""
    rest = {name: value for name, value in data.items() if name != "result"}
    text = json.dumps(rest, ensure_ascii=False, separators=(",", ":"))
    return f'{text[:-1]},"result":{describe_result(data["result"])}}}' if "result" in data else text


def strip_terminal_codes(result: RunResult) -> RunResult:
    """The result of a command with a terminal, with its output as plain text."""
    whole = result.ended.stdout.bytes()
    lines = _OWN_SCREEN.sub(b"", whole)
    ended = replace(result.ended, stdout=CapturedOutput(strip_escapes(lines).encode()))
    warnings = result.warnings if lines == whole else (*result.warnings, _SCREEN_OMITTED)
    return replace(result, ended=ended, warnings=warnings)


def describe_staged_inputs(files: Iterable[WorkspaceUpload]) -> list[dict[str, Any]]:
    """The user's files in the workspace, as JSON."""
    return [{"name": file.path, "original_name": file.original_name, "size_bytes": file.size} for file in files]


def _screen_to_json(picture: ScreenSnapshot) -> dict[str, Any]:
    """Lines up to the last that is not empty; the cursor position is counted from 1."""
    used = max((number for number, line in enumerate(picture.lines, 1) if line), default=0)
    found: dict[str, Any] = {
        "lines": list(picture.lines[:used]),
        "cursor": {"row": picture.row + 1, "column": picture.column + 1},
    }
    return {**found, "incomplete": True} if picture.has_gap else found


_MIN_OUTPUT_BYTES = 256
_MAX_ID_CHARS = 80


async def start(context: ToolContext, arguments: ExecArguments) -> ToolResult:
    """Start a command and return its first output.

    Raises what `skill_run` raises, and `TooManyRequests` when too many commands are running.
    """
    ready = await prepare_run(context, _set_default_timeout(arguments, context))
    talks = (await context.open_commands()).with_runner(ready.runner)
    request = replace(ready.request, terminal=arguments.terminal)
    identity = await talks.start(request, lambda result: _build_outcome(result, ready, is_terminal=arguments.tty))
    try:
        wait = clamp_wait(arguments.yield_ms, FIRST_WAIT)
        poll = await talks.poll(identity, wait=wait, limit=_get_output_limit(context))
        answer = await _build_result(talks, identity, poll, **_describe_uploads(ready, poll))
    except asyncio.CancelledError:
        # The caller never got its id, so it could not be killed later.
        await asyncio.shield(talks.kill(identity))
        raise
    ready.stager.mark_reported(ready.uploads)
    return answer


async def write(context: ToolContext, arguments: WriteArguments) -> ToolResult:
    """Write to a command's input and return what it prints; if it has ended, its result."""
    talks = await _find_commands(context, arguments.session_id)
    identity, data = arguments.session_id, arguments.encode_chars()
    wait, room = clamp_wait(arguments.yield_ms, WAIT), _get_output_limit(context)
    try:
        written = await talks.write(
            identity, data, submit=arguments.submit, close=arguments.close_stdin, wait=wait, limit=room
        )
    except InvalidArgument as error:
        if error.field == "input":
            raise InvalidArgument(
                "chars", "the input of this command is closed; start it again with skill_exec"
            ) from None
        poll = await talks.poll(identity, wait=wait, limit=room)
        return await _build_result(talks, identity, poll, warnings=["the command has ended; nothing was written"])
    if written.taken == written.offered:
        return await _build_result(talks, identity, written.poll)
    warning = f"the command has read only {written.taken:,} of {written.offered:,} bytes; write the rest again"
    return await _build_result(talks, identity, written.poll, warnings=[warning])


async def poll(context: ToolContext, arguments: PollArguments) -> ToolResult:
    """Return what a command printed since the last call, or from an offset on."""
    talks = await _find_commands(context, arguments.session_id)
    wait = clamp_wait(arguments.yield_ms, WAIT)
    found = await talks.poll(arguments.session_id, wait=wait, limit=_get_output_limit(context), offset=arguments.offset)
    return await _build_result(talks, arguments.session_id, found)


async def kill(context: ToolContext, arguments: SessionArguments) -> ToolResult:
    """Kill a command with everything that it started; its output files are still collected."""
    talks = await _find_commands(context, arguments.session_id)
    status = await talks.kill(arguments.session_id)
    return ToolResult.from_data({"ok": True, "session_id": arguments.session_id, "status": status})


async def _find_commands(context: ToolContext, identity: str) -> InteractiveCommands:
    talks = await context.open_commands()
    if talks.has_command(identity):
        return talks
    running = talks.list_running()
    known = f"running: {', '.join(running)}" if running else "none is running"
    raise InvalidArgument(
        "session_id", f"unknown session {identity[:_MAX_ID_CHARS]!r}; {known}; start one with skill_exec"
    )


async def _build_result(
    talks: InteractiveCommands, identity: str, poll: ProcessPollResult, **about: list[Any]
) -> ToolResult:
    data: dict[str, Any] = build_progress(identity, poll, await talks.view(identity, poll))
    if poll.status == "exited":
        try:
            data["result"] = dict(await talks.describe(identity))
        except SkillError as error:
            # Its last output is consumed by this call, so it is returned in any case.
            failure = f"the command's output files could not be collected: {error.message}"
            about["warnings"] = [*about.get("warnings", ()), failure]
    data.update({name: value for name, value in about.items() if value})
    return ToolResult(describe_progress(data), data)


def _describe_uploads(ready: RunPlan, poll: ProcessPollResult) -> dict[str, list[Any]]:
    """The user's files while the command runs; once it has exited, the result has them."""
    if poll.status == "exited":
        return {}
    staged = describe_staged_inputs(ready.uploads.files.values())
    return {"staged_inputs": staged, "warnings": list(ready.uploads.warnings)}


def _build_outcome(result: RunResult, ready: RunPlan, *, is_terminal: bool) -> dict[str, Any]:
    shown = strip_terminal_codes(result) if is_terminal else result
    return build_result_data(shown, ready.result_options, ready.uploads.files.values(), ready.uploads.warnings)


def _set_default_timeout(arguments: ExecArguments, context: ToolContext) -> ExecArguments:
    """Interactive commands get the maximum timeout by default."""
    options = context.options
    # A granted timeout is the maximum and the default.
    if arguments.timeout is not None or options.grants_for(arguments.skill).timeout is not None:
        return arguments
    if options.max_timeout <= options.limits.timeout:
        return arguments
    return arguments.model_copy(update={"timeout": options.max_timeout})


def _get_output_limit(context: ToolContext) -> int:
    return max(context.options.inline_bytes, _MIN_OUTPUT_BYTES)


_PROGRESS_SCHEMA = build_result_schema(
    {
        "status": "string",
        "session_id": "string",
        "output": "string",
        "offset": "integer",
        "next_offset": "integer",
    },
    {
        "missed": "integer",
        "more": "boolean",
        "interaction": "object",
        "screen": "object",
        "exit_code": "integer",
        "result": RUN_RESULT_SCHEMA,
        "staged_inputs": "object[]",
        "warnings": "string[]",
    },
)

SKILL_EXEC = Tool(
    "skill_exec",
    "Like skill_run, for a command that asks questions, needs a terminal, or takes long. Returns a session_id for "
    "skill_write_stdin and skill_poll_session; when status is exited, result is what skill_run returns.",
    ExecArguments,
    start,
    _PROGRESS_SCHEMA,
)

SKILL_WRITE_STDIN = Tool(
    "skill_write_stdin",
    "Type into a command of skill_exec. Returns what it prints; interaction says when it seems to wait for you.",
    WriteArguments,
    write,
    _PROGRESS_SCHEMA,
)

SKILL_POLL_SESSION = Tool(
    "skill_poll_session",
    "Read what a command of skill_exec has printed since the last call, or its result once it has exited.",
    PollArguments,
    poll,
    _PROGRESS_SCHEMA,
)

SKILL_KILL_SESSION = Tool(
    "skill_kill_session",
    "Kill a command of skill_exec.",
    SessionArguments,
    kill,
    build_result_schema({"ok": "boolean", "session_id": "string", "status": "string"}),
)
