"""A chat conversation: sending messages, token usage, and listing, printing and deleting stored conversations."""

import secrets
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import asdict, dataclass, field, replace
from difflib import get_close_matches
from typing import Any, cast

from openskills.agent.agent import ARTIFACT, END, ERROR, SUMMARY, TOOL_CALL, Agent
from openskills.agent.models.model import Usage
from openskills.agent.runner import Attachment, Runner
from openskills.agent.subagent import Load
from openskills.agent.turn import build_records_key
from openskills.artifacts.store import USER_PREFIX, ArtifactStore, Scope
from openskills.catalog.skill import Skill
from openskills.cli.chat.input import (
    attachment_name,
    describe_attachment,
    extract_files,
    find_skill_mentions,
    find_unknown_skill,
    has_unique_names,
    read_attachment,
    resolve_path,
)
from openskills.cli.chat.view import ChatView, format_call, format_result, format_usage, shorten
from openskills.cli.output import Part, escape_line, escape_text, pluralize
from openskills.errors import InvalidArgument, SkillError, UnknownSession, UnknownSkill
from openskills.prompt.usage import Ledger, RecordedRequest, read_requests
from openskills.runtime.options import ModelCall
from openskills.runtime.runtime import SkillRuntime
from openskills.runtime.session import SkillSession
from openskills.session.events import MESSAGE, TOOL_RESPONSE, USER, Event
from openskills.session.open import open_session_store
from openskills.session.store import Session, SessionInfo, SessionKey, SessionStore
from openskills.settings import Settings
from openskills.tokens import estimate_tokens


class TokenTracker:
    """Records every request before it is sent, to estimate its tokens."""

    def __init__(self) -> None:
        self._ledger = Ledger()
        self._loaded: tuple[str, ...] = ()

    def record_request(self, call: ModelCall) -> None:
        """A `before_model` hook for the session's options; does not change the request."""
        self._loaded = call.loaded_skills
        self._ledger.record(call.messages, ())

    def format_lines(self, events: Iterable[Event], skills: Iterable[Skill]) -> list[str]:
        """A summary for users: `events` is the log of the conversation, `skills` are all that the model may load."""
        sizes = {skill.name: _estimate_body(skill) for skill in skills}
        usage = sum_usage(events)
        reported = f"reported by the provider for this conversation: {format_usage(asdict(usage))}"
        found = [reported if usage != Usage() else "the model reports no usage; all numbers are estimates"]
        found.append(self._describe_requests())
        found.append(f"all {pluralize(len(sizes), 'skill')} in full: about {sum(sizes.values()):,} tokens")
        if self._loaded:
            names = ", ".join(f"{escape_line(name)} (about {sizes.get(name, 0):,})" for name in self._loaded)
            found.append(f"loaded in the last request: {names}")
        return found

    def _describe_requests(self) -> str:
        if not self._ledger.requests:
            return "no requests in this chat yet"
        last = self._ledger.last[-1]
        unchanged = f", {last.cache_share:.0%} of them unchanged since the previous request" if last.before else ""
        number = pluralize(self._ledger.requests, "request")
        return f"{number} in this chat; the last had about {last.total:,} tokens{unchanged}"


def sum_usage(events: Iterable[Event]) -> Usage:
    """The total usage that the provider reported in a log."""
    total: Counter[str] = Counter()
    for event in events:
        if event.kind == MESSAGE:
            total.update(cast("Mapping[str, Any]", event.payload.get("usage") or {}))
    return Usage(total["input"], total["output"], total["cached"])


def _estimate_body(skill: Skill) -> int:
    try:
        return estimate_tokens(skill.body())
    except SkillError:
        # Broken or removed since discovery.
        return 0


AGENT = "assistant"
_INSTRUCTIONS = (
    "You talk with a person at a terminal, which renders Markdown. Answer in the person's language. When a skill fits "
    "the request, use it instead of guessing, and say which files you made."
)
NO_SKILLS = "no skills found; choose a source with --skills PATH"


@dataclass(slots=True)
class ChatSession:
    """An open conversation. `loads` apply to every message, `files` to the next one. `sessions` closes `session`."""

    runner: Runner
    runtime: SkillRuntime
    session: SkillSession
    view: ChatView
    tokens: TokenTracker
    loads: dict[str, Load] = field(default_factory=dict[str, Load])
    files: list[Attachment] = field(default_factory=list[Attachment])
    agent: Agent | None = None
    sessions: AsyncExitStack = field(default_factory=AsyncExitStack)

    async def set_model(self, name: str) -> None:
        """Use another model from the next message on. Raises `SkillError`, and then keeps the current one."""
        agent = create_agent(name, self.runtime)
        await self.close_model()
        self.agent, self.runner = agent, create_runner(self.session.scope.app, agent)

    async def close_model(self) -> None:
        """Close the connections of the model."""
        if self.agent is not None:
            await self.agent.close()

    async def start_session(self, name: str) -> None:
        """Close the conversation and start another one; it stays stored."""
        scope = self.session.scope
        opened = self.runtime.session(name, agent=AGENT, user=scope.user, app=scope.app)
        await self.sessions.aclose()
        self.session = await self.sessions.enter_async_context(opened)
        self.loads.clear()
        self.files.clear()

    def find_skill(self, name: str) -> Skill:
        """The skill of this name, including skills that only users may invoke.

        Raises `UnknownSkill`, and `InvalidArgument` for one that is hidden for another reason or not user-invocable.
        """
        snapshot = self.runtime.catalog.snapshot
        skill = snapshot.find(name)
        if not skill.manifest.user_invocable:
            raise InvalidArgument(skill.name, "not user-invocable; only the model may load it")
        if skill.name in snapshot.hidden and not skill.manifest.disable_model_invocation:
            raise InvalidArgument(skill.name, f"hidden: {snapshot.hidden[skill.name].reason}")
        return skill

    def attach(self, path: str) -> None:
        """Attach a local file to the next message."""
        file = read_attachment(path, field="attach")
        self.files.append(file)
        self.view.note(f"  attached: {describe_attachment(file)}")

    async def send(self, text: str, skills: Sequence[str] = ()) -> bool:
        """Send a message with the skills and files named in it; return whether there was an answer.

        Raises `SkillError` when it could not be sent; attachments then stay for the next message.
        """
        if wrong := find_unknown_skill(text, self._find_visible):
            try:
                self.runtime.catalog.get(wrong)
            except UnknownSkill as error:
                # A misspelled name; `$5` and `$home` are ordinary text.
                if error.near:
                    raise
        mentioned = [self.find_skill(name).name for name in find_skill_mentions(text, self._find_visible)]
        sent = extract_files(text, attachment_name)
        if not has_unique_names(map(attachment_name, sent.files)):
            # Use paths, which are unique, instead of names.
            sent = extract_files(text, resolve_path)
        for path in sent.missing:
            self.view.note(("note", "yellow"), f": file not found: {escape_line(path)}; sent as text")
        files = [read_attachment(path, field="@") for path in sent.files]
        if not has_unique_names(file.name for file in files):
            files = [replace(file, name=path) for file, path in zip(files, sent.files, strict=True)]
        named = {name: Load(name) for name in (*skills, *mentioned)}
        loads = {**named, **self.loads}
        with self.runtime.catalog.reveal(tuple(loads)):
            return await self._run(sent.text, tuple(loads.values()), [*self.files, *files])

    async def _run(self, text: str, loads: Sequence[Load], files: Sequence[Attachment]) -> bool:
        scope = self.session.scope
        self.view.begin()
        run = self.runner.run(user=scope.user, session=scope.session, message=text, files=files, loads=loads)
        kind = ""
        try:
            async with aclosing(run) as events:
                async for event in events:
                    self.files.clear()
                    self.view.show(event)
                    kind = event.kind
        finally:
            self.view.finish()
        return kind == END

    def _find_visible(self, name: str) -> str | None:
        snapshot = self.runtime.catalog.snapshot
        return name if snapshot.has(name) or name in snapshot.hidden else None


def new_session_name() -> str:
    """A unique name with the current time."""
    return f"chat-{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}"


def create_agent(model: str, runtime: SkillRuntime) -> Agent:
    """The agent of the chat, with a model by name. Raises `SkillError` when the model is unknown or lacks a key."""
    return Agent(AGENT, model, runtime, instructions=_INSTRUCTIONS)


def create_runner(app: str, agent: Agent) -> Runner:
    """The runner of the chat; it records requests unless the settings say otherwise."""
    return Runner(app, agent, record_requests=agent.runtime.settings.record_requests)


def format_conversation(events: Sequence[Event]) -> Iterator[tuple[Part, ...]]:
    """The lines of a conversation: full messages, and one line for each tool call with its result."""
    results = {str(event.payload.get("call_id")): event for event in events if event.kind == TOOL_RESPONSE}
    return (line for event in events for line in _format_event(event, results))


def conversation_title(events: Iterable[Event]) -> str:
    """The first message of the user, on one line."""
    for event in events:
        if event.kind == MESSAGE and event.author == USER:
            return shorten(_message_text(event).partition("\n\n[attached: ")[0])
    return ""


def _format_event(event: Event, results: Mapping[str, Event]) -> Iterator[tuple[Part, ...]]:
    payload = event.payload
    if event.kind == MESSAGE and (text := _message_text(event)):
        to = payload.get("to")
        others = f" to {escape_line(str(to))}" if to and event.author != USER else ""
        style = "bold green" if event.author == USER else "bold cyan"
        yield ((f"{escape_line(event.author)}{others}", style), ": ", escape_text(text))
    elif event.kind == TOOL_CALL:
        result = results.get(str(payload.get("call_id")))
        came = _format_result(result) if result else "no result"
        line = format_call(str(payload.get("tool")), str(payload.get("arguments") or ""))
        yield (("  * ", "dim"), line, (" -> ", "dim"), came)
    elif event.kind == TOOL_RESPONSE and not payload.get("call_id"):
        # Loaded by the user, not by the model.
        yield (("  * ", "dim"), _format_result(event))
    elif event.kind == ARTIFACT:
        yield (("  saved ", "dim"), escape_line(str(payload.get("ref"))))
    elif event.kind == SUMMARY:
        yield (("  summary of everything before", "dim"), ": ", escape_text(str(payload.get("text"))))
    elif event.kind == ERROR:
        yield (("  error", "red"), ": ", escape_line(str(payload.get("message"))))


def _format_result(event: Event) -> str:
    return format_result(str(event.payload.get("content") or ""), failed=bool(event.payload.get("failed")))


def _message_text(event: Event) -> str:
    message = event.payload.get("message")
    content = cast("Mapping[str, Any]", message).get("content") if isinstance(message, Mapping) else None
    return content.strip("\n") if isinstance(content, str) else ""


@asynccontextmanager
async def open_store(url: str | None, settings: Settings) -> AsyncGenerator[SessionStore]:
    """Open the session store at a URL, by default a file in the state directory, and close it at the end.

    Raises `InvalidArgument` for an invalid URL, and `MissingExtra`.
    """
    store = open_session_store(url, settings)
    # Not every store has connections to close.
    close: Callable[[], Awaitable[None]] | None = getattr(store, "close", None)
    try:
        yield store
    finally:
        if close is not None:
            await close()


async def list_conversations(
    url: str | None, settings: Settings, app: str, user: str, limit: int, search: str = ""
) -> tuple[list[tuple[SessionInfo, str]], int]:
    """The most recent conversations of a user, each with its title, and how many more there are.

    With `search`, only those with this text in their name or title.
    """
    async with open_store(url, settings) as store:
        infos = await store.list(app, user)
        found: list[tuple[SessionInfo, str]] = []
        skipped = 0
        for info in infos:
            if len(found) == limit:
                break
            session = await store.get(info.key)
            title = conversation_title(session.events) if session else ""
            if search.casefold() in f"{info.key.session}\n{title}".casefold():
                found.append((info, title))
            else:
                skipped += 1
        return found, len(infos) - len(found) - skipped


async def read_session_requests(url: str | None, settings: Settings, key: SessionKey) -> list[RecordedRequest]:
    """The recorded requests of a conversation; raises `UnknownSession`."""
    async with open_store(url, settings) as store:
        await _load_session(store, key)
        records = await store.get(build_records_key(key))
        return read_requests(records.events if records else ())


async def read_conversation(url: str | None, settings: Settings, key: SessionKey) -> Session:
    """Read a conversation; raises `UnknownSession` with similar names."""
    async with open_store(url, settings) as store:
        return await _load_session(store, key)


async def delete_conversations(
    url: str | None, settings: Settings, keys: Sequence[SessionKey], *, artifacts: ArtifactStore | None = None
) -> int:
    """Delete conversations, or none of them when one does not exist; with `artifacts` also their artifacts.

    Returns the number of deleted artifacts.
    """
    async with open_store(url, settings) as store:
        for key in keys:
            await _load_session(store, key)
        count = 0
        for key in keys:
            count += await _delete_artifacts(key, artifacts) if artifacts is not None else 0
            await store.delete(key)
            await store.delete(build_records_key(key))
        return count


async def _load_session(store: SessionStore, key: SessionKey) -> Session:
    session = await store.get(key)
    if session is None:
        others = [info.key.session for info in await store.list(key.app, key.user)]
        raise UnknownSession(key.session, get_close_matches(key.session, others, n=2, cutoff=0.7))
    return session


async def _delete_artifacts(key: SessionKey, store: ArtifactStore) -> int:
    scope = Scope(key.app, key.user, key.session)
    names = [one.name for one in await store.list(scope) if not one.name.startswith(USER_PREFIX)]
    for name in names:
        await store.delete(scope, name)
    # Some stores keep unreferenced data until it is swept.
    sweep: Callable[[], Awaitable[object]] | None = getattr(store, "sweep", None)
    if names and sweep is not None:
        await sweep()
    return len(names)
