"""`Runner`: run an agent on a user's message, with attachments, and stream the events."""

import asyncio
import base64
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import PurePosixPath
from typing import Any, TypeAlias

from openskills.agent.agent import (
    END,
    ERROR,
    INTERRUPTED,
    Agent,
    Message,
    build_transcript,
    find_last_turn,
    find_unanswered_calls,
    list_message_files,
    settle,
)
from openskills.agent.attached_line import add_files_line
from openskills.agent.models.model import Usage, find_file_provider
from openskills.agent.subagent import Load, build_agent_tools, load_skills, make_fork
from openskills.agent.turn import (
    READER_TIMEOUT,
    AgentRunContext,
    CallIds,
    EventStream,
    ModelCallCounter,
    RequestRecorder,
    Turn,
    TurnResult,
    run_with_code_blocks,
)
from openskills.arguments import check_arguments
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


@check_arguments
@dataclass(frozen=True, slots=True)
class Attachment:
    """A file of a message: its bytes, or a `ref` (`artifact://name`, or an id for `SessionOptions.download`)."""

    name: str
    data: bytes | None = field(default=None, repr=False)
    ref: str = ""
    mime_type: str = ""

    def __post_init__(self) -> None:
        if (self.data is None) == (not self.ref):
            raise InvalidArgument("files", f"{self.name[:80]!r} needs either data or a ref")


@check_arguments
@dataclass(frozen=True, slots=True)
class Image:
    """An image in a message: its bytes with their `mime_type`, or a `url`."""

    data: bytes | None = field(default=None, repr=False)
    url: str = ""
    mime_type: str = "image/png"

    def __post_init__(self) -> None:
        if (self.data is None) == (not self.url):
            raise InvalidArgument("message", "an image needs either data or a url")

    def to_part(self) -> dict[str, Any]:
        """The image as a content part in OpenAI's format."""
        url = self.url
        if self.data is not None:
            url = f"data:{self.mime_type};base64,{base64.b64encode(self.data).decode('ascii')}"
        return {"type": "image_url", "image_url": {"url": url}}


ContentPart: TypeAlias = str | Image | Attachment | Mapping[str, Any]
"""A part of a message: text, an image, a file, or a part in OpenAI's format (`{"type": "image_url", …}`)."""


def split_message(message: str | Sequence[ContentPart]) -> tuple[list[dict[str, Any]], list[Attachment]]:
    """The content parts of a message in OpenAI's format, and its files. Raises `InvalidArgument` for invalid parts."""
    parts: list[dict[str, Any]] = []
    files: list[Attachment] = []
    for index, part in enumerate([message] if isinstance(message, str) else message):
        if isinstance(part, Attachment):
            files.append(part)
        elif isinstance(part, Image):
            parts.append(part.to_part())
        elif isinstance(part, str):
            parts.append({"type": "text", "text": part})
        elif isinstance(part.get("text") if part.get("type") == "text" else part.get("type"), str):
            parts.append(dict(part))
        else:
            raise InvalidArgument(
                f"message[{index}]", 'expected text, Image, Attachment, or a part such as {"type": "text", "text": "…"}'
            )
    return parts, files


def _build_content(parts: Sequence[Mapping[str, Any]], text: str, told: str, files: Sequence[Mapping[str, Any]]) -> Any:
    """The content of a message: text, or parts if there are others. `told` is the text with a line about the files."""
    others = [
        {"type": "file", "file": {"file_id": file["ref"], "filename": get_file_name(file)}}
        for file in files
        if find_file_provider(str(file["ref"]))
    ]
    if not others and all(part["type"] == "text" for part in parts):
        return told
    if _join_texts(parts) != text:
        parts = [{"type": "text", "text": text}, *(part for part in parts if part["type"] != "text")]
    line = told.removeprefix(text).strip()
    return [*parts, *others, *([{"type": "text", "text": line}] if line else [])]


def _join_texts(parts: Sequence[Mapping[str, Any]]) -> str:
    return "\n\n".join(str(part.get("text", "")) for part in parts if part["type"] == "text")


async def store_attachments(
    session: SkillSession, store: ArtifactStore, files: Sequence[Attachment], events: Sequence[Event] = ()
) -> list[dict[str, Any]]:
    """Save files that came as bytes as artifacts; return what the message records of each.

    `path` is where commands will find it; its name is unique among the user's files and what commands wrote there.
    `events` are the conversation so far.
    """
    kept: list[dict[str, Any]] = []
    # What ran may have written to the workspace.
    ran = any(event.kind == TOOL_RESPONSE and event.payload.get("tool") not in KNOWLEDGE for event in events)
    taken = set(await _list_input_names(session)) if files and ran else set[str]()
    for file in files:
        name = session.choose_file_name(file.name, taken)
        # Also for a file over the limits, which is not among the session's files.
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
    """Make these files available to the session's commands."""
    for file in kept:
        session.add_reference(get_file_name(file), str(file["ref"]), mime_type=str(file.get("mime_type") or ""))


def get_file_name(file: Mapping[str, Any]) -> str:
    """The name under which commands find a recorded file."""
    return PurePosixPath(str(file.get("path") or "")).name or str(file["name"])


async def _list_input_names(session: SkillSession) -> Sequence[str]:
    if not session.can_run_commands:
        return ()
    try:
        found = await (await session.open_runner()).workspace.list([f"{INPUTS}/*"], limit=_MAX_LISTED)
    except SkillError:
        return ()  # the next command will report it
    return [PurePosixPath(file.path).name for file in found.files]


@dataclass(frozen=True, slots=True)
class AgentReply:
    """The result of a run: the answer, its events, its usage; `error` without an answer."""

    text: str
    events: tuple[Event, ...]
    usage: Usage
    error: Mapping[str, Any] | None = None


@check_arguments
class Runner:
    """Runs one agent for the users of an application. Runs of one session are serialized.

    If the consumer stops reading for `timeout` seconds, the run ends with an `error` event. With `record_requests`,
    every request to the model is stored, exactly as it was sent: `openskills sessions requests` shows them.
    """

    def __init__(
        self, app: str, agent: Agent, *, timeout: float = READER_TIMEOUT, record_requests: bool = False
    ) -> None:
        self._app = app
        self._agent = agent
        self._timeout = timeout
        self._records_requests = record_requests

    @check_arguments
    async def run(
        self,
        *,
        user: str,
        session: str,
        message: str | Sequence[ContentPart],
        files: Sequence[Attachment] = (),
        loads: Sequence[Load] = (),
        options: SessionOptions | None = None,
        runtime: SkillRuntime | None = None,
        instructions: str = "",
    ) -> AsyncGenerator[Event]:
        """Answer a message of the user, text or a list of parts; yields every event as it happens.

        The last event is `end`, or `error` without an answer; neither is raised. `loads` are skills to load first;
        if one cannot be loaded, that is raised before anything happens. `options`, `runtime` and `instructions` replace
        the agent's for this run. A slow consumer makes the run wait; closing the generator cancels the run.
        """
        agent = _rebind_runtime(self._agent, runtime)
        agent = replace(agent, options=options or agent.options)
        stream = EventStream(timeout=self._timeout)
        parts, attached = split_message(message)
        inputs = _AgentInputs(user, session, parts, (*attached, *files), tuple(loads), agent.options, instructions)
        task = asyncio.get_running_loop().create_task(self._run_agent(agent, inputs, stream))
        task.add_done_callback(lambda _: stream.close())
        try:
            while (event := await stream.get()) is not None:
                yield event
            await task
        finally:
            task.cancel()
            await asyncio.wait([task])

    async def reply(self, *, user: str, session: str, message: str | Sequence[ContentPart], **more: Any) -> AgentReply:
        """Run to the end and return the reply: `run(Runner("app", agent).reply(...)).text`."""
        events = [event async for event in self.run(user=user, session=session, message=message, **more)]
        last = next(
            event for event in reversed(events) if event.kind in (END, ERROR) and event.author == self._agent.name
        )
        usage = Usage(**last.payload.get("usage", {}))
        if last.kind == ERROR:
            return AgentReply("", tuple(events), usage, dict(last.payload))
        return AgentReply(last.payload["text"], tuple(events), usage)

    async def _run_agent(self, agent: Agent, inputs: "_AgentInputs", stream: EventStream) -> None:
        # Held by the run, not by its reader: a reader that stopped reading must not block others.
        lock = self._agent.runtime.get_run_lock(Scope(self._app, inputs.user, inputs.session))
        opening = agent.runtime.session(
            inputs.session, agent=agent.name, user=inputs.user, app=self._app, options=inputs.options
        )
        with bind(session=inputs.session, agent=agent.name):
            async with lock, opening as session:
                session.records_calls = True
                with session.listen(stream.put):
                    await self._run_turn(agent, session, inputs, stream)

    async def _run_turn(self, agent: Agent, session: SkillSession, inputs: "_AgentInputs", stream: EventStream) -> None:
        await load_skills(session, inputs.loads, session.options.max_loaded_skills)
        done = TurnResult()
        try:
            done = await self._answer_message(agent, session, inputs, stream, done)
        except SkillError as error:
            await session.log(ERROR, {"reason": error.reason, "message": error.message, **_describe_cost(done)})
            return
        if agent.callbacks.after_run:
            await settle(agent.callbacks.after_run(agent.name, done.text))
        await session.log(END, {"text": done.text, **_describe_cost(done)})

    async def _answer_message(
        self, agent: Agent, session: SkillSession, inputs: "_AgentInputs", stream: EventStream, done: TurnResult
    ) -> TurnResult:
        """Run the model on the message. Its usage is in `done`, even if this raises."""
        text = _join_texts(inputs.parts)
        if agent.callbacks.before_run:
            changed = await settle(agent.callbacks.before_run(agent.name, text))
            text = text if changed is None else changed
        events, messages = await self._load_history(agent, session)
        files = await store_attachments(session, agent.runtime.artifacts, inputs.files, events)
        told = add_files_line(text, [(get_file_name(file), str(file["name"])) for file in files])
        message = {"role": "user", "content": _build_content(inputs.parts, text, told, files)}
        await session.log(MESSAGE, {"to": agent.name, "message": message, "files": files}, author=USER)
        messages.append(message)
        recorder = RequestRecorder(agent.runtime.store, session.scope) if self._records_requests else None
        work = AgentRunContext(session, stream, CallIds(events), ModelCallCounter(agent.limits.model_calls), recorder)
        turn = Turn(
            agent,
            work,
            messages,
            extra=[*await agent.list_tools(), *build_agent_tools(agent, work)],
            instructions=inputs.instructions,
            fork=make_fork(agent, work, told),
            done=done,
        )
        return await run_with_code_blocks(agent, session, turn, messages)

    async def _load_history(self, agent: Agent, session: SkillSession) -> tuple[Sequence[Event], list[Message]]:
        """The log, and the messages that the model sees; calls that a crash left open get a result."""
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
            # Only read a long log twice if it changed.
            events = await session.events()
        for event in events:
            if event.kind == MESSAGE:
                add_attachments(session, list_message_files(event))
        if agent.history_turns == 1:
            return events, []
        first = 0 if agent.history_turns is None else find_last_turn(events, agent.name, agent.history_turns - 1)
        return events, build_transcript(events[first:], agent.name)


@dataclass(frozen=True, slots=True)
class _AgentInputs:
    user: str
    session: str
    parts: list[dict[str, Any]]
    files: tuple[Attachment, ...]
    loads: tuple[Load, ...]
    options: SessionOptions | None
    instructions: str


def _rebind_runtime(agent: Agent, runtime: SkillRuntime | None) -> Agent:
    """The agent and its sub-agents in another runtime."""
    if runtime is None:
        return agent
    # A model such as `rule` chooses skills from a catalog instead of from the prompt.
    with_catalog = getattr(agent.model, "with_catalog", None)
    model = agent.model if with_catalog is None else with_catalog(runtime.catalog)
    children = [_rebind_runtime(child, runtime) for child in agent.sub_agents]
    return replace(agent, runtime=runtime, model=model, sub_agents=children)


def _describe_cost(done: TurnResult) -> dict[str, Any]:
    return {"usage": asdict(done.usage), "steps": done.steps, "tool_calls": done.tool_calls}
