"""`skill_exec` and its kin: a command that lives as long as it wants, through any number of calls and turns.

It belongs to the agent that started it, in the conversation in which it did; nobody else can see or end it.
"""

import asyncio
from dataclasses import replace
from typing import Any

from openskills.errors import InvalidArgument, SkillError
from openskills.executors.conversations import Conversations
from openskills.executors.processes.interactive import FIRST_WAIT, WAIT, Poll
from openskills.executors.requests import RunResult
from openskills.tools.interactive_arguments import (
    ExecArguments,
    KillArguments,
    PollArguments,
    WriteArguments,
    patience,
)
from openskills.tools.interactive_outcome import progress, readable, staged_inputs, told
from openskills.tools.result import ToolResult
from openskills.tools.run_outcome import outcome
from openskills.tools.run_request import Prepared, prepared
from openskills.tools.tool import Tool, ToolContext

_LEAST_BYTES = 256
_SHOWN = 80


async def start(context: ToolContext, arguments: ExecArguments) -> ToolResult:
    """Start a command, and say what it printed first.

    Raises what `skill_run` raises, and `TooManyRequests` when as many as allowed are running.
    """
    ready = await prepared(context, _with_time(arguments, context))
    talks = await context.talks()
    request = replace(ready.request, terminal=arguments.terminal)
    identity = await talks.start(request, lambda result: _outcome(result, ready, is_terminal=arguments.tty))
    try:
        wait = patience(arguments.yield_ms, FIRST_WAIT)
        poll = await talks.poll(identity, wait=wait, limit=_room(context))
        answer = await _answer(talks, identity, poll, **_arrived(ready, poll))
    except asyncio.CancelledError:
        # Nobody knows its id, so nobody could ever end it.
        await asyncio.shield(talks.kill(identity))
        raise
    ready.staging.told(ready.arrivals)
    return answer


async def write(context: ToolContext, arguments: WriteArguments) -> ToolResult:
    """Give input to a command, and say what it printed then. One that has ended is told as it ended."""
    talks = await _talks_of(context, arguments.session_id)
    identity, data = arguments.session_id, arguments.encoded()
    wait, room = patience(arguments.yield_ms, WAIT), _room(context)
    try:
        written = await talks.write(
            identity, data, submit=arguments.submit, close=arguments.close_stdin, wait=wait, limit=room
        )
    except InvalidArgument as error:
        if error.field == "input":
            raise InvalidArgument(
                "chars", "the input of this session is closed; start another with skill_exec"
            ) from None
        poll = await talks.poll(identity, wait=wait, limit=room)
        return await _answer(talks, identity, poll, warnings=["the command has ended; nothing was written"])
    if written.taken == written.offered:
        return await _answer(talks, identity, written.poll)
    warning = f"the command has read only {written.taken:,} of {written.offered:,} bytes; write the rest again"
    return await _answer(talks, identity, written.poll, warnings=[warning])


async def poll(context: ToolContext, arguments: PollArguments) -> ToolResult:
    """Say what a command printed since the last call, or from an offset on."""
    talks = await _talks_of(context, arguments.session_id)
    wait = patience(arguments.yield_ms, WAIT)
    found = await talks.poll(arguments.session_id, wait=wait, limit=_room(context), offset=arguments.offset)
    return await _answer(talks, arguments.session_id, found)


async def kill(context: ToolContext, arguments: KillArguments) -> ToolResult:
    """End a command with everything that it started; what it made until then is collected."""
    talks = await _talks_of(context, arguments.session_id)
    status = await talks.kill(arguments.session_id)
    return ToolResult.json({"ok": True, "session_id": arguments.session_id, "status": status})


async def _talks_of(context: ToolContext, identity: str) -> Conversations:
    talks = await context.talks()
    if talks.knows(identity):
        return talks
    running = talks.running()
    known = f"yours that are running: {', '.join(running)}" if running else "none of yours is running"
    raise InvalidArgument(
        "session_id",
        f"you have no session {identity[:_SHOWN]!r}: it was never started, or ended long ago; {known};"
        " start one with skill_exec",
    )


async def _answer(talks: Conversations, identity: str, poll: Poll, **about: list[Any]) -> ToolResult:
    data: dict[str, Any] = progress(identity, poll, await talks.view(identity, poll))
    if poll.status == "exited":
        try:
            data["result"] = dict(await talks.told(identity))
        except SkillError as error:
            # What it printed is read and gone with this call, so it is told in any case.
            failure = f"what the command made could not be collected: {error.message}"
            about["warnings"] = [*about.get("warnings", ()), failure]
    data.update({name: value for name, value in about.items() if value})
    return ToolResult(told(data), data)


def _arrived(ready: Prepared, poll: Poll) -> dict[str, list[Any]]:
    """What a model has to know about the user's files while the command runs; the result says it, too."""
    if poll.status == "exited":
        return {}
    return {"staged_inputs": staged_inputs(ready.arrivals.files.values()), "warnings": list(ready.arrivals.warnings)}


def _outcome(result: RunResult, ready: Prepared, *, is_terminal: bool) -> dict[str, Any]:
    shown = readable(result) if is_terminal else result
    return outcome(shown, ready.shape, ready.arrivals.files.values(), ready.arrivals.warnings)


def _with_time(arguments: ExecArguments, context: ToolContext) -> ExecArguments:
    """A command that waits for a person needs more time than one that only works: all there is, unless it says."""
    options = context.options
    if arguments.timeout is not None or options.max_timeout <= options.limits.timeout:
        return arguments
    return arguments.model_copy(update={"timeout": options.max_timeout})


def _room(context: ToolContext) -> int:
    return max(context.options.inline_bytes, _LEAST_BYTES)


SKILL_EXEC = Tool(
    "skill_exec",
    "Start a command of a loaded skill that asks questions, shows a menu, needs a terminal, or goes on while you do "
    "something else; for all others use skill_run, which takes the same. Returns a session_id with the first output: "
    "answer with skill_write_stdin, read on with skill_poll_session. When status is exited, result is what skill_run "
    "returns.",
    ExecArguments,
    start,
)

SKILL_WRITE_STDIN = Tool(
    "skill_write_stdin",
    "Type into a command that skill_exec started, with submit for Enter. Returns what it prints then; interaction says "
    "when it seems to wait for you, screen is what a full-screen program shows.",
    WriteArguments,
    write,
)

SKILL_POLL_SESSION = Tool(
    "skill_poll_session",
    "Read what a command that skill_exec started has printed since the last call (more: there is more to read), or its "
    "result once it has exited.",
    PollArguments,
    poll,
)

SKILL_KILL_SESSION = Tool(
    "skill_kill_session",
    "End a command that skill_exec started, with everything that it started itself.",
    KillArguments,
    kill,
)
