"""Conversations with an agent over HTTP: `/conversations`, its messages, events, approvals, files and requests.

A conversation is a session in the session store, so that `openskills sessions` and `openskills chat` can use it, too. A
turn is an asynchronous run (`runs.py`): it goes on without its caller, can be cancelled through any worker, and is
`interrupted` if its worker ends. The state of the session says which run is its last turn.
"""

import asyncio
import binascii
import logging
import os
import re
import secrets
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, NamedTuple, cast

import orjson

from openskills.agent.agent import (
    ARTIFACT,
    DELTA,
    END,
    ERROR,
    MAX_TITLE_CHARS,
    SUMMARY,
    TOOL_CALL,
    TURN,
    Agent,
    build_items,
    build_tokens,
    find_title,
)
from openskills.agent.models.open import open_model
from openskills.agent.runner import Attachment, Runner
from openskills.agent.turn import build_records_key
from openskills.artifacts.open import open_artifact_store
from openskills.artifacts.store import USER_PREFIX, ArtifactStore, Scope
from openskills.errors import (
    ExecutorUnavailable,
    Forbidden,
    InvalidArgument,
    LeaseLost,
    RequestInFlight,
    SessionConflict,
    SessionInUse,
    SkillError,
    Unauthorized,
    UnknownRun,
    UnknownSession,
)
from openskills.executors.open import open_executor
from openskills.executors.protocol import Executor
from openskills.host.auth import Principal
from openskills.host.commands import (
    CommandOptions,
    HostCaller,
    check_background_limit,
    select_grants,
    select_secrets,
)
from openskills.host.history import new_run_id
from openskills.host.http import HttpRefusal, unknown_part
from openskills.host.model import (
    InvokeResult,
    Listener,
    Outcome,
    SkillOutputEvent,
    failure_outcome,
    normalize_outcome,
    success_outcome,
)
from openskills.host.runs import EventPosition, Run, RunEvent, Runs
from openskills.host.service import Host
from openskills.project import SkillGrants
from openskills.prompt.usage import RecordedRequest, read_requests
from openskills.runtime.options import SessionOptions
from openskills.runtime.runtime import SkillRuntime
from openskills.session.events import MESSAGE, TOOL_RESPONSE, USER, Event, new_event
from openskills.session.keys import state_from_keys
from openskills.session.open import open_session_store
from openskills.session.store import Session, SessionInfo, SessionKey, SessionStore
from openskills.settings import Settings
from openskills.tools.approvals import ApprovalDecision, ApprovalQuestion
from openskills.tools.names import ToolProfile
from openskills.version import __version__

_log = logging.getLogger("openskills.host")

APP, AGENT, RULE = "host", "assistant", "rule"
CONVERSATION = "conversation"
APPROVAL, ANSWER, TEXT = "approval", "approval.answer", "delta"
"""Kinds of events of a run: a command waits for approval; the answer; more text of the model."""
APPROVAL_TIMEOUT = 10 * 60.0
_COMMAND_LINE, _FOREIGN = "cli", "cli~"
_MODEL, _TITLE, _RUN, _ASK = "conversation:model", "conversation:title", "conversation:run", "conversation:ask"
_SAFE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}", re.ASCII)
_AFTER_LAST_EVENT = 2**53
_END = 10**15 - 1
NO_RUN = "0"
"""In positions: before the first turn."""
_MAX_SHOWN_CHARS = 32 * 1024
_MAX_SEARCHED = 2_000
_FLUSH_SECONDS = 0.05
_POLL_SECONDS = 1.0
_STORED = frozenset({MESSAGE, TOOL_CALL, TOOL_RESPONSE, ARTIFACT, SUMMARY, ERROR, END})
_INSTRUCTIONS = (
    "You talk with a person in a web console, which renders Markdown. Answer in the person's language. When a skill "
    "fits the request, use it instead of guessing, and say which files you made."
)


class ConversationEvent(NamedTuple):
    """An event of a turn, with its position."""

    position: EventPosition
    kind: str
    data: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class NewMessage:
    """A message of a user; `model` replaces that of the conversation from now on."""

    text: str
    files: tuple[Attachment, ...] = ()
    model: str | None = None


@dataclass(frozen=True, slots=True)
class ConversationHead:
    """A conversation without its events. `title` is its first message, unless it has one of its own."""

    id: str
    key: SessionKey
    title: str
    model: str
    asks: bool
    run: str
    revision: int
    created: datetime | None = None
    updated: datetime | None = None

    def to_dict(self) -> dict[str, Any]:
        times = {name: at and at.isoformat() for name, at in (("created", self.created), ("updated", self.updated))}
        about = {"id": self.id, "title": self.title, "app": self.key.app, "session": self.key.session}
        return {**about, "model": self.model, "ask": self.asks, "events": self.revision, **times}


@dataclass(frozen=True, slots=True)
class ConversationView:
    """Everything that is shown of a conversation. `position` is up to where its events are included.

    `items` are messages, tool calls and errors in their order; `partial` is the text of an answer that is not complete.
    """

    head: ConversationHead
    status: str
    run: Run | None
    items: Sequence[Mapping[str, Any]]
    partial: str
    approvals: Sequence[Mapping[str, Any]]
    loaded: Sequence[str]
    tokens: Mapping[str, Any]
    requests: int
    files: Sequence[Mapping[str, Any]]
    position: EventPosition

    def to_dict(self) -> dict[str, Any]:
        names = ("status", "items", "partial", "approvals", "loaded", "tokens", "requests", "files")
        run = None if self.run is None else {"id": self.run.id, "state": self.run.state.value}
        shown = {name: getattr(self, name) for name in names}
        return {**self.head.to_dict(), **shown, "run": run, "last_event_id": str(self.position)}


class Conversations:
    """The conversations of a host. Belongs to one event loop; the stores are opened on first use."""

    def __init__(self, settings: Settings, allowed: CommandOptions, host: Host, runs: Runs) -> None:
        self._settings = settings
        self._allowed = allowed
        self._host = host
        self._runs = runs
        self.approval_timeout = APPROVAL_TIMEOUT
        self._opening = asyncio.Lock()
        self._runtime: SkillRuntime | None = None
        self._executor: Executor | None = None
        self._is_isolated = False
        self._agents: dict[str, Agent] = {}
        self._options: OrderedDict[tuple[object, ...], SessionOptions] = OrderedDict()
        self._titles: OrderedDict[tuple[SessionKey, datetime], str] = OrderedDict()
        self._turns: dict[tuple[str, str], str] = {}
        self._callers: dict[str, Principal] = {}
        self._granted: Mapping[str, SkillGrants] = {}
        self._changed = asyncio.Event()

    @cached_property
    def store(self) -> SessionStore:
        """The session store, which `openskills chat` uses, too."""
        return open_session_store(self._settings.host_database, self._settings)

    @cached_property
    def artifacts(self) -> ArtifactStore:
        """The artifact store, which `openskills chat` uses, too."""
        return open_artifact_store(None, self._settings)

    def list_models(self) -> list[str]:
        """The models that conversations may use; the first one is the default."""
        chosen = [name for name in (self._settings.model, *self._settings.host_models) if name]
        return list(dict.fromkeys([*chosen, RULE]))

    async def create(
        self, principal: Principal, *, title: str = "", model: str | None = None, asks: bool = False
    ) -> ConversationHead:
        """Create a conversation. With `asks`, every command needs approval. Raises `InvalidArgument`, `Forbidden`."""
        chosen = "" if model is None else self._check_model(model)
        title = _clean_title(title)
        await self._check_quota(principal)
        name = f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{secrets.token_hex(4)}"
        key = SessionKey(APP, principal.name, name)
        delta = {_MODEL: chosen or None, _TITLE: title or None, _ASK: "1" if asks else None}
        about = {"title": title, "model": chosen, "ask": asks}
        await self.store.append(key, new_event(USER, CONVERSATION, about, delta), expected=0)
        return await self.get(principal, key.session)

    async def list(
        self, principal: Principal, *, search: str = "", limit: int = 50, offset: int = 0
    ) -> tuple[list[ConversationHead], bool]:
        """The conversations of a caller, latest first, and whether there are more.

        An admin also sees those of `openskills chat` of the user that runs the host.
        """
        infos = [info for app, user in _list_owners(principal) for info in await self.store.list(app, user)]
        infos.sort(key=lambda info: info.updated, reverse=True)
        found: list[ConversationHead] = []
        word = search.casefold().strip()
        for info in infos[:_MAX_SEARCHED] if word else infos[offset : offset + limit + 1]:
            head = await self._read_head(info)
            if head is not None and word in f"{head.key.session}\n{head.title}".casefold():
                found.append(head)
        page = found[offset : offset + limit + 1] if word else found
        return page[:limit], len(page) > limit

    async def get(self, principal: Principal, conversation_id: str) -> ConversationHead:
        """A conversation without its events. Raises `UnknownSession`, also for those of others."""
        key = _parse_id(principal, conversation_id)
        found = await self.store.get(key, after=_AFTER_LAST_EVENT)
        if found is None:
            raise _unknown(conversation_id)
        return self._build_head(found, found.state.get(_TITLE) or await self._read_title(key))

    async def show(self, principal: Principal, conversation_id: str) -> ConversationView:
        """A conversation with everything in it. Raises `UnknownSession`."""
        head = await self.get(principal, conversation_id)
        run = await self._find_run(head.run)
        is_live = run is not None and run.ended is None
        # Read before the session: what happens in between is shown and then sent again, and never lost.
        events: Sequence[RunEvent] = await self._read_run(run.id) if run is not None and is_live else ()
        session = await self.store.get(head.key) or Session(head.key, {}, (), 0)
        records = await self.store.get(build_records_key(head.key), after=_AFTER_LAST_EVENT)
        items = build_items(session.events, AGENT)
        status = "running" if is_live else _find_status(run, session.events)
        return ConversationView(
            replace(head, title=head.title or find_title(session.events), revision=session.revision),
            status,
            run,
            items,
            collect_partial(events) if is_live else "",
            collect_approvals(events) if is_live else (),
            state_from_keys(session.state).view_for(AGENT).list_loaded(),
            build_tokens(session.events, records.state if records else {}, AGENT),
            records.revision if records else 0,
            await self.list_files(head),
            EventPosition(head.run or NO_RUN, (events[-1].id if events else 0) if is_live or not head.run else _END),
        )

    async def is_running(self, head: ConversationHead) -> bool:
        """Whether a turn of a conversation is running."""
        run = await self._find_run(head.run)
        return run is not None and run.ended is None

    async def read_turn(self, head: ConversationHead, upto: EventPosition) -> Sequence[ConversationEvent]:
        """The events of a turn up to a position. Raises `InvalidArgument` for one of another conversation."""
        if upto.run not in ("", NO_RUN, head.run):
            turns = {event.payload.get("run") for event in await self._read_events(head.key) if event.kind == TURN}
            if upto.run not in turns:
                raise InvalidArgument("Last-Event-ID", f"{str(upto)!r} is not an event of this conversation")
        events = await self._read_run(upto.run) if upto.run and upto.number < _END else ()
        return [_build_event(upto.run, event) for event in events if event.id <= upto.number]

    async def delete(self, principal: Principal, conversation_id: str) -> None:
        """Delete a conversation with its files. Raises `UnknownSession`, and `RequestInFlight` during a turn."""
        head = await self.get(principal, conversation_id)
        await self._check_idle(head)
        scope = Scope(head.key.app, head.key.user, head.key.session)
        for artifact in await self.artifacts.list(scope):
            if not artifact.name.startswith(USER_PREFIX):
                await self.artifacts.delete(scope, artifact.name)
        runtime = await self._open_runtime()
        await runtime.remove_workspace(head.key.session, user=head.key.user, app=head.key.app)
        await self.store.delete(build_records_key(head.key))
        await self.store.delete(head.key)

    async def list_files(self, head: ConversationHead) -> Sequence[Mapping[str, Any]]:
        """The latest versions of the artifacts and attachments of a conversation."""
        found = await self.artifacts.list(Scope(head.key.app, head.key.user, head.key.session))
        return [
            {"name": one.name, "version": one.version, "size": one.size, "mime_type": one.mime_type}
            for one in found
            if not one.name.startswith(USER_PREFIX)
        ]

    async def read_requests(self, principal: Principal, conversation_id: str) -> Sequence[RecordedRequest]:
        """The recorded requests of a conversation, oldest first. Raises `UnknownSession`."""
        head = await self.get(principal, conversation_id)
        return read_requests(await self._read_events(build_records_key(head.key)))

    async def send(self, principal: Principal, conversation_id: str, message: NewMessage, trace_id: str = "") -> Run:
        """Accept a message; the run that is returned answers it.

        Raises `UnknownSession`, `InvalidArgument`, and `RequestInFlight` while another turn is running.
        """
        if self._host.draining:
            raise ExecutorUnavailable("this host is shutting down; try again in a few seconds")
        head = await self.get(principal, conversation_id)
        await self._check_idle(head)
        own = sum(one.name == principal.name for one in self._callers.values())
        check_background_limit(self._host, principal, own)
        model = head.model if message.model is None else self._check_model(message.model)
        runtime = await self._open_runtime()
        agent = self._get_agent(model, runtime)
        options = self._get_options(principal, asks=head.asks)
        run_id = new_run_id()
        accepted: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        async def make(listener: Listener) -> InvokeResult:
            await accepted
            turn = _TurnInputs(head.key, agent, options, message, run_id, trace_id, principal)
            return await self._run_turn(turn, listener)

        who, kind = principal.name, CONVERSATION
        run = await self._runs.start(make, skill_id=kind, kind=kind, trace_id=trace_id, principal=who, run_id=run_id)
        delta = {_RUN: run_id, _MODEL: model}
        if not head.title:
            delta[_TITLE] = _clean_title(message.text)
        try:
            # Of two messages at once, one is refused.
            event = new_event(USER, TURN, {"run": run_id, "model": model, "text": message.text}, delta)
            await self.store.append(head.key, event, expected=head.revision)
        except BaseException as error:
            accepted.set_exception(error if isinstance(error, SkillError) else ExecutorUnavailable("not accepted"))
            if isinstance(error, SessionConflict):
                raise RequestInFlight("another message was sent to this conversation; read it again") from None
            raise
        accepted.set_result(None)
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
        return run

    async def end_invalid(self, is_over: Callable[[object], bool]) -> None:
        """Cancel the turns of callers who are no longer valid."""
        for run_id in [run_id for run_id, principal in self._callers.items() if is_over(principal)]:
            await self._runs.cancel(run_id)

    async def cancel(self, principal: Principal, conversation_id: str) -> Run | None:
        """Cancel the running turn; returns its run, None if there is none. Raises `UnknownSession`."""
        head = await self.get(principal, conversation_id)
        run = await self._find_run(head.run)
        return await self._runs.cancel(run.id) if run is not None else None

    async def answer(
        self, principal: Principal, conversation_id: str, approval: str, decision: str, reason: str = ""
    ) -> None:
        """Answer a command that waits for approval. Raises `SkillError` and `HttpRefusal`."""
        if decision not in tuple(ApprovalDecision):
            raise InvalidArgument("decision", f"{decision[:50]!r} is not one of {', '.join(ApprovalDecision)}")
        head = await self.get(principal, conversation_id)
        run = await self._find_run(head.run)
        events: Sequence[RunEvent] = await self._read_run(run.id) if run is not None and run.ended is None else ()
        if run is None or approval not in {str(one["id"]) for one in collect_approvals(events)}:
            raise HttpRefusal(unknown_part(f"the approval {approval[:80]!r} does not wait for an answer (any more)"))
        data = {"id": approval, "decision": decision, "reason": reason[:500], "by": principal.name}
        await self._runs.append_event(run.id, ANSWER, data)

    async def follow(
        self, principal: Principal, conversation_id: str, after: EventPosition
    ) -> AsyncGenerator[ConversationEvent]:
        """The events of the turns after a position, past and future; without one from the start of a running turn.

        Ends when the conversation is deleted. Raises `UnknownSession` and `InvalidArgument`.
        """
        head = await self.get(principal, conversation_id)
        await self.read_turn(head, after)
        run = await self._find_run(head.run)
        if not after.run and run is not None:
            # A turn that has ended is in the conversation already.
            after = EventPosition(run.id, 0 if run.ended is None else _END)
        while True:
            async with aclosing(self._follow_run(after)) as events:
                async for event in events:
                    yield event
            following = await self._wait_for_turn(head.key, after.run)
            if following is None:
                return
            after = EventPosition(following)

    async def _follow_run(self, after: EventPosition) -> AsyncGenerator[ConversationEvent]:
        if not after.run or after.number == _END:
            return
        try:
            async with aclosing(self._runs.events(after.run, after.number)) as events:
                async for event in events:
                    yield _build_event(after.run, event)
        except UnknownRun:
            return  # removed long after its end

    async def _wait_for_turn(self, key: SessionKey, last: str) -> str | None:
        """The run of the next turn after `last`; None if the conversation was deleted."""
        revision = 0
        while True:
            changed = self._changed
            found = await self.store.get(key, after=_AFTER_LAST_EVENT)
            if found is None:
                return None
            if found.revision != revision and found.state.get(_RUN, last) != last:
                runs = [str(one.payload.get("run")) for one in await self._read_events(key) if one.kind == TURN]
                # Not only the latest: several turns may have ended while a client was away.
                following = runs[runs.index(last) + 1 :] if last in runs else runs
                if following:
                    return following[0]
            revision = found.revision
            with suppress(TimeoutError):
                async with asyncio.timeout(_POLL_SECONDS):
                    await changed.wait()

    async def close(self) -> None:
        """Close the stores and all commands. The runs have ended."""
        for agent in self._agents.values():
            assert not isinstance(agent.model, str)  # noqa: S101 - opened below
            await agent.model.close()
        if self._runtime is not None:
            await self._runtime.close()
        if self._executor is not None:
            await self._executor.close()
        # It may not have been opened, and not every store has connections.
        close: Callable[[], Awaitable[None]] | None = getattr(self.__dict__.get("store"), "close", None)
        if close is not None:
            await close()

    async def _run_turn(self, turn: "_TurnInputs", listener: Listener) -> InvokeResult:
        """Answer a message; failures are in the result and in the log of the session."""
        began = time.perf_counter()
        listener(SkillOutputEvent("start", {"conversation": _format_id(turn.key), "text": turn.message.text}))
        stream = _TurnStream(listener)
        where = (turn.key.user, turn.key.session)
        self._turns[where] = turn.run_id
        self._callers[turn.run_id] = turn.principal
        try:
            async with self._host.admit(turn.principal):
                outcome = await self._answer_message(turn, stream)
        except SkillError as error:
            _log.info("turn %s failed: %s", turn.run_id, error.message)
            event = new_event(AGENT, ERROR, {"reason": error.reason, "message": error.message})
            # The log belongs to the process that runs the conversation now.
            is_ours = not isinstance(error, LeaseLost | SessionInUse)
            stream.add((await self.store.append(turn.key, event)).event if is_ours else event)
            outcome = failure_outcome(error)
        finally:
            stream.flush()
            self._callers.pop(turn.run_id, None)
            if self._turns.get(where) == turn.run_id:
                del self._turns[where]
        milliseconds = (time.perf_counter() - began) * 1000
        return normalize_outcome(
            outcome, skill_id=CONVERSATION, trace_id=turn.trace_id, latency_ms=milliseconds, version=__version__
        )

    async def _answer_message(self, turn: "_TurnInputs", stream: "_TurnStream") -> Outcome:
        runner = Runner(turn.key.app, turn.agent, record_requests=self._settings.record_requests)
        events = runner.run(
            user=turn.key.user,
            session=turn.key.session,
            message=turn.message.text,
            files=turn.message.files,
            options=turn.options,
        )
        last: Event | None = None
        async with aclosing(events):
            async for event in events:
                stream.add(event)
                last = event if event.kind in (END, ERROR) and event.author == AGENT else last
        if last is None or last.kind == ERROR:
            return failure_outcome(SkillError("no answer" if last is None else str(last.payload.get("message"))))
        return success_outcome({name: last.payload.get(name) for name in ("text", "usage", "steps", "tool_calls")})

    async def _ask(self, question: ApprovalQuestion) -> ApprovalDecision | str:
        """Ask through the events of the turn; the answer is another event, which any worker can write."""
        run_id = self._turns.get((question.user, question.session))
        if run_id is None:
            return "there is no turn in which it could be approved"
        identity, seconds = secrets.token_hex(8), self.approval_timeout
        data = _describe_question(question, identity, time.time() + seconds)
        asked = await self._runs.append_event(run_id, APPROVAL, data)
        try:
            async with asyncio.timeout(seconds):
                return await self._wait_for_answer(run_id, identity, asked)
        except TimeoutError:
            reason = f"no answer within {seconds:g} seconds"
            answer = {"id": identity, "decision": str(ApprovalDecision.DENY), "reason": reason, "by": ""}
            await self._runs.append_event(run_id, ANSWER, answer)
            return reason

    async def _wait_for_answer(self, run_id: str, identity: str, asked: int) -> ApprovalDecision | str:
        async with aclosing(self._runs.events(run_id, asked)) as events:
            async for event in events:
                if event.kind == ANSWER and (data := orjson.loads(event.data)).get("id") == identity:
                    decision = ApprovalDecision(data["decision"])
                    return (data.get("reason") or decision) if decision is ApprovalDecision.DENY else decision
        return "the turn has ended"

    async def _open_runtime(self) -> SkillRuntime:
        async with self._opening:
            if self._runtime is None:
                catalog, settings = await self._allowed.catalogs.open_catalog(), self._settings
                self._granted = select_grants(catalog.snapshot.skills, self._allowed.grants, self._allowed.uploads)
                executor = self._executor = open_executor(settings.executor, settings)
                try:
                    self._is_isolated = str(await executor.check()) != "none"
                except ExecutorUnavailable as error:
                    _log.warning("conversations cannot run commands: %s", error.message)
                self._runtime = SkillRuntime(
                    catalog, executor, store=self.store, artifacts=self.artifacts, settings=settings
                )
        return self._runtime

    def _get_agent(self, model: str, runtime: SkillRuntime) -> Agent:
        agent = self._agents.get(model)
        if agent is None:
            try:
                options = {"catalog": runtime.catalog} if model == RULE else {}
                opened = open_model(model, self._settings, **options)
            except Unauthorized as error:
                # 401 would say that the caller has no access to this host.
                raise InvalidArgument("model", error.message) from None
            agent = self._agents[model] = Agent(AGENT, opened, runtime, instructions=_INSTRUCTIONS)
        return agent

    def _get_options(self, principal: Principal, *, asks: bool) -> SessionOptions:
        """The options of a turn, cached because the overview of the skills is cached by them."""
        # Only the owner of the host may run commands that nothing isolates.
        is_admin = principal.has_role("admin")
        can_run = self._is_isolated or is_admin
        asks = asks or not self._is_isolated
        key = (principal.scopes, asks, can_run, is_admin)
        if key not in self._options:
            # Others could read what a skill is granted with a command, and install what they like.
            grants: Mapping[str, SkillGrants] = self._granted if is_admin else {}
            # Unless skills were named for callers, these are those of the operator.
            is_open, caller = self._allowed.is_served or is_admin, HostCaller(self._host, principal)
            sees_all, install = is_open and not caller.is_restricted, self._allowed.install
            self._options[key] = SessionOptions(
                profile=None if can_run else ToolProfile.KNOWLEDGE_ONLY,
                visible=None if sees_all else lambda skill: is_open and caller.can_use(skill.name),
                ask=self._ask if asks else None,
                ask_install=self._ask if is_admin else None,
                install="ask" if is_admin and install == "never" else install,
                force_save=True,
                grants=grants,
                secrets=select_secrets(grants, self._settings),
            )
            while len(self._options) > 8:
                self._options.popitem(last=False)
        self._options.move_to_end(key)
        return self._options[key]

    def _check_model(self, name: str) -> str:
        known = self.list_models()
        if name not in known:
            fix = "add it to OPENSKILL_HOST_MODELS in the environment of the host"
            raise InvalidArgument("model", f"{name[:100]!r} is not one of {', '.join(known)}; {fix}")
        return name

    async def _check_quota(self, principal: Principal) -> None:
        limit = self._settings.host_quota_conversations
        if not principal.has_role("admin") and (count := len(await self.store.list(APP, principal.name))) >= limit:
            used = f"{principal.name!r} has {count:,} of {limit:,} conversations"
            raise Forbidden(f"quota exceeded: {used}; delete some of them", quota="conversations")

    async def _check_idle(self, head: ConversationHead) -> None:
        if await self.is_running(head):
            message = "a turn of this conversation is running; wait for its end, or cancel it"
            raise RequestInFlight(message, run=head.run)

    async def _find_run(self, run_id: str) -> Run | None:
        """The run of a turn; None if there is none, or if it was removed long after its end."""
        try:
            return await self._runs.get(run_id) if run_id else None
        except UnknownRun:
            return None

    async def _read_run(self, run_id: str) -> Sequence[RunEvent]:
        found: list[RunEvent] = []
        while more := await self._runs.read_events(run_id, found[-1].id if found else 0):
            found += more
        return found

    async def _read_head(self, info: SessionInfo) -> ConversationHead | None:
        found = await self.store.get(info.key, after=_AFTER_LAST_EVENT)
        if found is None:
            return None
        title = found.state.get(_TITLE) or self._titles.get((info.key, info.begun), "")
        if not title:
            title = await self._read_title(info.key)
            if title:
                self._titles[info.key, info.begun] = title
            while len(self._titles) > _MAX_SEARCHED:
                self._titles.popitem(last=False)
        return replace(self._build_head(found, title), created=info.begun, updated=info.updated)

    async def _read_title(self, key: SessionKey) -> str:
        return find_title(await self._read_events(key))

    async def _read_events(self, key: SessionKey) -> Sequence[Event]:
        found = await self.store.get(key)
        return found.events if found else ()

    def _build_head(self, session: Session, title: str) -> ConversationHead:
        state = session.state
        model = state.get(_MODEL) or self.list_models()[0]
        asks, run = bool(state.get(_ASK)), state.get(_RUN, "")
        return ConversationHead(_format_id(session.key), session.key, title, model, asks, run, session.revision)


@dataclass(frozen=True, slots=True)
class _TurnInputs:
    key: SessionKey
    agent: Agent
    options: SessionOptions
    message: NewMessage
    run_id: str
    trace_id: str
    principal: Principal


class _TurnStream:
    """Passes on the events of a turn; text of the model is collected for a moment, because it comes in tiny pieces."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._text: list[str] = []
        self._timer: asyncio.TimerHandle | None = None

    def add(self, event: Event) -> None:
        if event.kind == DELTA:
            if event.author == AGENT:
                self._text.append(str(event.payload.get("text", "")))
                self._timer = self._timer or asyncio.get_running_loop().call_later(_FLUSH_SECONDS, self.flush)
            return
        self.flush()
        if event.kind in _STORED:
            self._listener(SkillOutputEvent(event.kind, describe_event(event)))

    def flush(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        text, self._text = "".join(self._text), []
        if text:
            self._listener(SkillOutputEvent(TEXT, {"text": text}))


def _build_event(run_id: str, event: RunEvent) -> ConversationEvent:
    return ConversationEvent(EventPosition(run_id, event.id), event.kind, orjson.loads(event.data))


def _clean_title(text: str) -> str:
    # Stores cannot keep NUL in the state.
    return " ".join(text.replace("\0", " ").split())[:MAX_TITLE_CHARS]


def _list_owners(principal: Principal) -> list[tuple[str, str]]:
    foreign = [(_COMMAND_LINE, f"user-{os.getuid()}")] if principal.has_role("admin") else []
    return [(APP, principal.name), *foreign]


def _format_id(key: SessionKey) -> str:
    """The id of a conversation in addresses."""
    name = key.session if _SAFE_NAME.fullmatch(key.session) and not key.session.startswith(_FOREIGN) else ""
    shown = name or f"={urlsafe_b64encode(key.session.encode()).decode().rstrip('=')}"
    return shown if key.app == APP else f"{_FOREIGN}{shown}"


def _parse_id(principal: Principal, conversation_id: str) -> SessionKey:
    """The session that an id means for a caller; raises `UnknownSession`."""
    is_foreign = conversation_id.startswith(_FOREIGN)
    owners = _list_owners(principal)
    if is_foreign and len(owners) < 2:
        raise _unknown(conversation_id)
    name = conversation_id.removeprefix(_FOREIGN)
    try:
        if name.startswith("="):
            encoded = name[1:]
            name = urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).decode()
        return SessionKey(*owners[is_foreign], name)
    except (ValueError, binascii.Error, InvalidArgument):
        raise _unknown(conversation_id) from None


def _unknown(conversation_id: str) -> UnknownSession:
    error = UnknownSession(conversation_id[:100])
    error.message = f"unknown conversation {conversation_id[:100]!r}; GET /conversations lists yours"
    return error


def _find_status(run: Run | None, events: Sequence[Event]) -> str:
    """`idle`, `interrupted` or `failed`, from the last turn."""
    if run is not None and run.state in ("interrupted", "cancelled", "failed"):
        return str(run.state)
    if run is not None:
        return "idle"
    last = next((event for event in reversed(events) if event.kind in (*_STORED, TURN)), None)
    if last is None or last.kind == END:
        return "idle"
    return "failed" if last.kind == ERROR else "interrupted"


def describe_event(event: Event) -> dict[str, Any]:
    """An event for clients; long texts are cut, and the conversation has them in full."""
    payload = _shorten(event.payload)
    return {"seq": event.seq, "author": event.author, "at": event.at.isoformat(), "payload": payload}


def _shorten(value: Any) -> Any:
    if isinstance(value, str) and len(value) > _MAX_SHOWN_CHARS:
        return f"{value[:_MAX_SHOWN_CHARS]}… [{len(value) - _MAX_SHOWN_CHARS:,} more characters]"
    if isinstance(value, Mapping):
        return {name: _shorten(one) for name, one in cast("Mapping[str, Any]", value).items()}
    return [_shorten(one) for one in cast("Sequence[Any]", value)] if isinstance(value, list | tuple) else value


def collect_partial(events: Sequence[RunEvent]) -> str:
    """The text of the answer that is not complete yet."""
    texts: list[str] = []
    for event in events:
        if event.kind == TEXT:
            texts.append(str(orjson.loads(event.data).get("text", "")))
        elif event.kind in _STORED:
            texts.clear()
    return "".join(texts)


def collect_approvals(events: Sequence[RunEvent]) -> list[Mapping[str, Any]]:
    """The commands that wait for approval."""
    waiting: dict[str, Mapping[str, Any]] = {}
    for event in events:
        if event.kind in (APPROVAL, ANSWER):
            data = orjson.loads(event.data)
            if event.kind == APPROVAL:
                waiting[data["id"]] = data
            else:
                waiting.pop(data.get("id"), None)
    return list(waiting.values())


def _describe_question(question: ApprovalQuestion, identity: str, deadline: float) -> dict[str, Any]:
    found = asdict(question)
    for name in ("user", "session", "who", "digest", "identity", "preapproved", "allowed_tools"):
        del found[name]
    stdin = question.stdin[: 4 * _MAX_SHOWN_CHARS].decode("utf-8", "replace")
    at = datetime.fromtimestamp(deadline, UTC).isoformat(timespec="seconds")
    return _shorten({**found, "stdin": stdin, "id": identity, "deadline": at})
