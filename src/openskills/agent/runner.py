"""Runner, attachments.

Files that a user sends with a message: kept as artifacts, named to the model, found by its commands.

Runs an agent: one message of a user in, events out, everything in the session's log.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Any, cast

from openskills.agent.agent import (
    END,
    ERROR,
    INTERRUPTED,
    Agent,
    Message,
    build_transcript,
    find_last_turn,
    find_unanswered_calls,
)
from openskills.agent.attached_line import add_files_line
from openskills.agent.models.model import CatalogModel, Usage
from openskills.agent.subagent import AgentRunContext, Load, build_agent_tools, load_skills, make_fork
from openskills.agent.turn import (
    READER_TIMEOUT,
    CallIds,
    EventStream,
    ModelCallCounter,
    Turn,
    TurnResult,
    run_with_code_blocks,
)
from openskills.artifacts.store import BINARY, ArtifactStore, Scope
from openskills.errors import InvalidArgument, SkillError
from openskills.executors.spec import INPUTS
from openskills.runtime.options import SessionOptions
from openskills.runtime.runtime import SkillRuntime
from openskills.runtime.session import SkillSession
from openskills.session.events import MESSAGE, TOOL_RESPONSE, USER, Event
from openskills.telemetry.context import bind
from openskills.tools.names import KNOWLEDGE

UPLOAD_FOLDER = "uploads/"
_MAX_LISTED = 1_000


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file with a message: its bytes, or a `ref`: `artifact://name`, or an id for `SessionOptions.download`."""

    name: str
    data: bytes | None = field(default=None, repr=False)
    ref: str = ""
    mime_type: str = ""

    def __post_init__(self) -> None:
        if (self.data is None) == (not self.ref):
            raise InvalidArgument("files", f"{self.name[:80]!r} needs data or a ref, one of them")


async def store_attachments(
    session: SkillSession, store: ArtifactStore, files: Sequence[Attachment], events: Sequence[Event] = ()
) -> list[dict[str, Any]]:
    """Make artifacts of the files that came as bytes; gives what a message keeps of each.

    Its `path` is where commands will find it: a name that no other file of the conversation has, and that nothing has
    which commands have put there. `events` are the conversation so far.
    """
    kept: list[dict[str, Any]] = []
    taken = set(await _list_input_names(session)) if files and _has_tool_runs(events) else set[str]()
    for file in files:
        name = session.choose_file_name(file.name, taken)
        # One that is over the limits is not among the session's files, and has its name all the same.
        taken.add(name)
        ref = file.ref
        if file.data is not None:
            mime = file.mime_type or BINARY
            ref = (await store.put(session.scope, f"{UPLOAD_FOLDER}{name}", file.data, mime_type=mime)).ref
        one = {"name": file.name, "ref": ref, "mime_type": file.mime_type, "path": f"{INPUTS}/{name}"}
        add_attachments(session, [one])
        kept.append(one)
    return kept


def add_attachments(session: SkillSession, kept: Iterable[Mapping[str, Any]]) -> None:
    """Let the commands of a session have these files."""
    for file in kept:
        session.add_reference(get_file_name(file), str(file["ref"]), mime_type=str(file.get("mime_type") or ""))


def get_file_name(file: Mapping[str, Any]) -> str:
    """The name by which commands find a file that a message keeps."""
    return PurePosixPath(str(file.get("path") or "")).name or str(file["name"])


def list_attachments(events: Iterable[Event]) -> list[Mapping[str, Any]]:
    """The files of all messages so far."""
    return [
        cast("Mapping[str, Any]", file)
        for event in events
        if event.kind == MESSAGE
        for file in cast("Sequence[object]", event.payload.get("files") or ())
        if isinstance(file, Mapping)
    ]


def _has_tool_runs(events: Iterable[Event]) -> bool:
    """Whether anything may have been written into the workspace: otherwise it is not worth opening."""
    return any(event.kind == TOOL_RESPONSE and event.payload.get("tool") not in KNOWLEDGE for event in events)


async def _list_input_names(session: SkillSession) -> Sequence[str]:
    """The names in the folder of the user's files; none where there is no workspace."""
    if not session.can_run_commands:
        return ()
    try:
        found = await (await session.open_runner()).workspace.list([f"{INPUTS}/*"], limit=_MAX_LISTED)
    except SkillError:
        # What is wrong with it is told when a command is to be run.
        return ()
    return [PurePosixPath(file.path).name for file in found.files]


@dataclass(frozen=True, slots=True)
class AgentReply:
    """What a run came to: the answer, its events, what it cost; `error` when it did not get to an answer."""

    text: str
    events: tuple[Event, ...]
    usage: Usage
    error: Mapping[str, Any] | None = None


class Runner:
    """Runs one agent for the users of an application. Runs of one session come one after the other.

    `patience` is how many seconds a run waits for somebody who does not read on.
    """

    def __init__(self, app: str, agent: Agent, *, patience: float = READER_TIMEOUT) -> None:
        self._app = app
        self._agent = agent
        self._timeout = patience

    async def run(
        self,
        *,
        user: str,
        session: str,
        message: str,
        files: Sequence[Attachment] = (),
        loads: Sequence[Load] = (),
        options: SessionOptions | None = None,
        runtime: SkillRuntime | None = None,
        instructions: str = "",
    ) -> AsyncGenerator[Event]:
        """Let the agent answer a message of the user, and give every event as it happens.

        The last one is `end`, or `error` when there is no answer; neither is raised. `loads` are skills that are loaded
        before the model is asked; one that cannot be is raised before anything has happened. `options`, `runtime` and
        `instructions` take the place of the agent's for this run.

        Whoever reads slowly makes the run wait. Closing the generator ends the run and everything that it has started.
        Whoever keeps it and does not read on has it ended, with an `error`, when the runner's patience is at its end.
        """
        agent = _rebind_runtime(self._agent, runtime)
        agent = replace(agent, options=options or agent.options)
        stream = EventStream(patience=self._timeout)
        wishes = _RunInputs(user, session, message, tuple(files), tuple(loads), agent.options, instructions)
        task = asyncio.get_running_loop().create_task(self._run_agent(agent, wishes, stream))
        task.add_done_callback(lambda _: stream.close())
        try:
            while (event := await stream.get()) is not None:
                yield event
            await task
        finally:
            task.cancel()
            await asyncio.wait([task])

    async def reply(self, *, user: str, session: str, message: str, **more: Any) -> AgentReply:
        """The same to its end, as one value: `run(Runner("app", agent).reply(...)).text`."""
        events = [event async for event in self.run(user=user, session=session, message=message, **more)]
        last = next(
            event for event in reversed(events) if event.kind in (END, ERROR) and event.author == self._agent.name
        )
        usage = Usage(**last.payload.get("usage", {}))
        if last.kind == ERROR:
            return AgentReply("", tuple(events), usage, dict(last.payload))
        return AgentReply(last.payload["text"], tuple(events), usage)

    async def _run_agent(self, agent: Agent, wishes: "_RunInputs", stream: EventStream) -> None:
        # Held by the run and not by its reader: one that has stopped to read must not keep others out.
        alone = self._agent.runtime.get_run_lock(Scope(self._app, wishes.user, wishes.session))
        with bind(session=wishes.session, agent=agent.name):
            async with alone, self._open_session(agent, wishes) as session:
                session.records_calls = True
                with session.listen(stream.put):
                    await self._run_turn(agent, session, wishes, stream)

    def _open_session(self, agent: Agent, wishes: "_RunInputs") -> AbstractAsyncContextManager[SkillSession]:
        return agent.runtime.session(
            wishes.session, agent=agent.name, user=wishes.user, app=self._app, options=wishes.options
        )

    async def _run_turn(self, agent: Agent, session: SkillSession, wishes: "_RunInputs", stream: EventStream) -> None:
        await load_skills(session, wishes.loads, session.options.max_loaded_skills)
        done = TurnResult()
        try:
            done = await self._answer_message(agent, session, wishes, stream, done)
        except SkillError as error:
            await session.log(ERROR, {"reason": error.reason, "message": error.message, **_describe_cost(done)})
            return
        if agent.callbacks.after_run:
            await agent.callbacks.after_run(agent.name, done.text)
        await session.log(END, {"text": done.text, **_describe_cost(done)})

    async def _answer_message(
        self, agent: Agent, session: SkillSession, wishes: "_RunInputs", stream: EventStream, done: TurnResult
    ) -> TurnResult:
        """Let the model work on the message. What it has cost is in `done`, also when it gets nowhere."""
        text = wishes.message
        if agent.callbacks.before_run:
            changed = await agent.callbacks.before_run(agent.name, text)
            text = text if changed is None else changed
        events, messages = await self._load_history(agent, session)
        files = await store_attachments(session, agent.runtime.artifacts, wishes.files, events)
        told = add_files_line(text, [(get_file_name(file), str(file["name"])) for file in files])
        message = {"role": "user", "content": told}
        await session.log(MESSAGE, {"to": agent.name, "message": message, "files": files}, author=USER)
        messages.append(message)
        work = AgentRunContext(
            (agent.runtime,), session, stream, CallIds(events), ModelCallCounter(agent.limits.model_calls)
        )
        turn = Turn(
            agent,
            session,
            messages,
            stream=stream,
            ids=work.ids,
            asked=work.model_calls,
            extra=[*agent.tools, *build_agent_tools(agent, work)],
            instructions=wishes.instructions,
            fork=make_fork(agent, work, told),
            done=done,
        )
        return await run_with_code_blocks(agent, session, turn, messages)

    async def _load_history(self, agent: Agent, session: SkillSession) -> tuple[Sequence[Event], list[Message]]:
        """The log, and what of it the model is to see; calls that a crash left open are closed."""
        events = await session.events()
        authors = dict.fromkeys(event.author for event in events)
        left_open = [
            (author, *call) for author in authors for call in find_unanswered_calls(build_transcript(events, author))
        ]
        for author, identity, name in left_open:
            closed = {"call_id": identity, "tool": name, "content": INTERRUPTED, "failed": True}
            await session.log(TOOL_RESPONSE, closed, author=author)
        if agent.summary is not None:
            await agent.summary.compact(agent.name, session)
        if left_open or agent.summary is not None:
            # Only then is there more in it: a long log is not read twice for nothing.
            events = await session.events()
        add_attachments(session, list_attachments(events))
        if agent.history_turns == 1:
            return events, []
        first = 0 if agent.history_turns is None else find_last_turn(events, agent.name, agent.history_turns - 1)
        return events, build_transcript(events[first:], agent.name)


@dataclass(frozen=True, slots=True)
class _RunInputs:
    """What was asked for in one run."""

    user: str
    session: str
    message: str
    files: tuple[Attachment, ...]
    loads: tuple[Load, ...]
    options: SessionOptions | None
    instructions: str


def _rebind_runtime(agent: Agent, runtime: SkillRuntime | None) -> Agent:
    """The agent and all below it in another runtime."""
    if runtime is None:
        return agent
    model = agent.model.with_catalog(runtime.catalog) if isinstance(agent.model, CatalogModel) else agent.model
    children = [_rebind_runtime(child, runtime) for child in agent.sub_agents]
    return replace(agent, runtime=runtime, model=model, sub_agents=children)


def _describe_cost(done: TurnResult) -> dict[str, Any]:
    usage = {"input": done.usage.input, "output": done.usage.output, "cached": done.usage.cached}
    return {"usage": usage, "steps": done.steps, "tool_calls": done.tool_calls}
