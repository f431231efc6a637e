"""SkillSession.

The first layer of what a model sees: the list of skills and the guidance, the same bytes while nothing changes.

Where a conversation stands, read from its messages: whose turn it is, and what the model has answered. Pure.

One agent in one conversation: what the model is shown, and the door that every action of a model comes through.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, cast

from openskills.artifacts.store import Scope
from openskills.catalog.catalog import Catalog
from openskills.catalog.skill import Skill
from openskills.catalog.snapshot import CatalogSnapshot
from openskills.errors import InvalidArgument, SkillError
from openskills.executors.commands import CommandRunner
from openskills.executors.files.tree import choose_upload_name
from openskills.prompt.blocks import LoadedSkill, Placement
from openskills.prompt.guidance import build_guidance
from openskills.prompt.overview import Overview, overview
from openskills.prompt.placement import MessageMemory, PromptRequest, place_texts
from openskills.prompt.usage import Ledger
from openskills.runtime.conversation import Conversation
from openskills.runtime.options import Messages, ModelCall, SessionOptions, WhenLost
from openskills.session.events import TOOL_RESPONSE, Event, new_event
from openskills.session.state import (
    AgentView,
    Change,
    Consumed,
    EvictionPolicy,
    Loaded,
    LoadMode,
    RecordedChange,
    TurnBegan,
    Unloaded,
    apply_changes,
    keep_most_recent,
)
from openskills.telemetry.context import bind
from openskills.telemetry.metrics import count
from openskills.telemetry.spans import execute_tool
from openskills.tools.names import EXEC, RUN, ToolProfile, build_unknown_tool_error, select_tools
from openskills.tools.registry import TOOLS
from openskills.tools.tool import (
    ENUM_LIMIT,
    AnyTool,
    SchemaFormat,
    ToolContext,
    ToolResult,
    decode,
    describe_tool,
    find_skill_argument,
    redact_arguments,
)
from openskills.tools.uploads import UserUpload, upload_from_bytes


@dataclass(frozen=True, slots=True)
class SessionOverview:
    """What a session shows before anything is loaded, and what fits to it: the skills, the tools."""

    skills: CatalogSnapshot
    overview: Overview
    guidance: str
    tools: tuple[str, ...]

    @property
    def text(self) -> str:
        """The list and the guidance, as they stand in the system message."""
        return "\n\n".join(part for part in (self.overview.text, self.guidance) if part)


class OverviewCache:
    """Makes the first layer once for every state of the catalog. Threads may use it at the same time."""

    def __init__(self, catalog: Catalog, options: SessionOptions, *, executor: bool, policy_note: str = "") -> None:
        self._catalog = catalog
        self._options = options
        self._executor = executor
        self._policy_note = policy_note
        snapshot = catalog.snapshot
        # One value, so that nobody sees a new catalog with the layer of an old one.
        self._cached = (snapshot, self._build(snapshot))

    def get(self) -> SessionOverview:
        """The layer for the catalog as it is; nothing is rendered when it is the one from before."""
        snapshot = self._catalog.snapshot
        seen, layer = self._cached
        if snapshot is not seen:
            layer = self._build(snapshot)
            self._cached = (snapshot, layer)
        return layer

    def _build(self, snapshot: CatalogSnapshot) -> SessionOverview:
        options = self._options
        skills = snapshot.view(options.visible) if options.visible else snapshot
        listed = overview(
            skills.skills, options.overview_format, options.overview_tokens, pinned=options.pinned, count=options.count
        )
        tools = select_tools(
            ToolProfile(options.profile or (ToolProfile.FULL if self._executor else ToolProfile.KNOWLEDGE_ONLY)),
            options.tools,
            search=options.search or bool(listed.left_out or listed.names_only),
            executor=self._executor,
            require_loaded=options.require_loaded,
        )
        said = (
            build_guidance(tools, policy_note=self._policy_note)
            if options.guidance is None
            else options.guidance.strip()
        )
        return SessionOverview(skills, listed, said if skills.skills else "", tools)


_SYSTEM = ("system", "developer")


@dataclass(frozen=True, slots=True)
class TranscriptPosition:
    """How far a list of messages goes: the user's messages in it, the last of them, and the answers to that."""

    users: int = 0
    last_user: object = None
    answers: int = 0
    users_turn: bool = False

    def is_new_turn_after(self, before: "TranscriptPosition | None") -> bool:
        """Whether the user has spoken since `before`. A request that is sent again begins nothing."""
        if not self.users_turn:
            return False
        return before is None or (self.users, self.last_user) != (before.users, before.last_user) or before.answers > 0

    def has_answer_after(self, before: "TranscriptPosition | None") -> bool:
        """Whether the model has answered since `before`."""
        return before is not None and (
            (self.users, self.last_user) != (before.users, before.last_user) or self.answers > before.answers
        )


def find_position(messages: Sequence[Mapping[str, Any]]) -> TranscriptPosition:
    """Where these messages stand; system messages say nothing about it."""
    users, last, answers, users_turn = 0, None, 0, False
    for message in messages:
        role = message.get("role")
        if role in _SYSTEM:
            continue
        users_turn = role == "user"
        if users_turn:
            users, last, answers = users + 1, message.get("content"), 0
        elif role == "assistant":
            answers += 1
    return TranscriptPosition(users, last, answers, users_turn)


_LOG = logging.getLogger("openskills")

ReviseResult: TypeAlias = Callable[[ToolResult], Awaitable[ToolResult | None]]
"""Sees what a tool answered; gives another answer, or None to leave it."""


class SkillSession:
    """Made by `SkillRuntime.session`, used as `async with`. It belongs to the event loop that opened it.

    `context` may be called as often as a request is built; `call` from any number of tasks at once.
    """

    def __init__(
        self,
        shared: Conversation,
        overviews: OverviewCache,
        context: ToolContext,
        options: SessionOptions,
        *,
        trace_content: bool = False,
    ) -> None:
        self._shared = shared
        self._overviews = overviews
        self._context = context
        self._options = options
        self._evict: EvictionPolicy = options.evict or keep_most_recent(options.max_loaded_skills)
        self._trace_content = trace_content or None
        self._memory = MessageMemory()
        self._ended = False
        self._before: TranscriptPosition | None = None
        self._last_request = shared.state.clock
        self._presented: dict[str, int] = {}
        # What was loaded before this object was made had its place in the history that it will be given.
        self._had_place = set(self._get_view().list_loaded())
        self._notices: dict[str, str] = {}
        self.ledger = Ledger()
        self.records_calls = False
        """Whether every call is an event of the log, or only those that change what is loaded."""

    @property
    def agent(self) -> str:
        """Whose session this is."""
        return self._context.agent

    @property
    def scope(self) -> Scope:
        """Which conversation: whose artifacts are its artifacts."""
        return self._shared.scope

    def loaded_skills(self) -> tuple[str, ...]:
        """The skills that the model sees, the one that was touched longest ago first."""
        return self._get_view().list_loaded()

    def skill(self, name: str) -> Skill:
        """The skill of this name that this session may use. Raises `UnknownSkill`."""
        return self._overviews.get().skills.get(name)

    def docs_of(self, skill: str) -> tuple[str, ...]:
        """The documents of a skill that are selected, sorted; `("*",)` for every one."""
        return self._get_view().docs(skill)

    def state(self) -> dict[str, str]:
        """The state of the conversation, all agents', in the keys of the mission documents."""
        return self._shared.keys()

    def tools(self, format: SchemaFormat | str = SchemaFormat.OPENAI) -> list[Any]:  # noqa: A002
        """The tools that the model may call, for `openai`, `anthropic` or `mcp`."""
        layer = self._overviews.get()
        names = [skill.name for skill in layer.skills.skills] if len(layer.skills.skills) <= ENUM_LIMIT else []
        return [describe_tool(TOOLS[name], format, skills=names) for name in layer.tools]

    def add_file(self, name: str, data: bytes, *, mime_type: str = "") -> None:
        """A file of the user, for commands to find in `work/inputs/`."""
        self._shared.uploads.add(upload_from_bytes(name, data, mime_type))

    def add_reference(self, name: str, ref: str, *, mime_type: str = "") -> None:
        """The same for a file that is an artifact (`artifact://name`), or that `download` of the options gets."""
        self._shared.uploads.add(UserUpload(f"file_id/{ref}/name/{name.lower()}", name, None, ref, mime_type))

    def choose_file_name(self, name: str, taken: Iterable[str] = ()) -> str:
        """The name by which commands will find a file that is added next under this one: no other file has it.

        `taken` are names that something else has.
        """
        names: set[str] = set()
        for upload in self._shared.uploads.all():
            names.add(choose_upload_name(upload.name, names))
        return choose_upload_name(name, {*names, *taken})

    async def open_runner(self) -> CommandRunner:
        """The workspace with the rules of this session, for programs that run commands of their own in it."""
        return await self._context.open_runner()

    @property
    def options(self) -> SessionOptions:
        """What was chosen for this session."""
        return self._options

    @property
    def can_run_commands(self) -> bool:
        """Whether the model has a tool that runs commands."""
        return any(name in (RUN, EXEC) for name in self._overviews.get().tools)

    def begin_turn(self) -> None:
        """The user has spoken: in the modes `turn` and `once`, everything that was loaded is gone.

        `context` sees this by itself when the last message is a new one of the user.
        """
        self._begin_turn(self._shared.tick())

    def context(self, messages: Messages) -> list[Any]:
        """What to send to the model for this conversation: a list of dicts. `messages` stay as they are.

        Loaded texts stand in the results of the calls that asked for them, or where the options say. Touches no file
        unless something was loaded that was not read yet.
        """
        self._check_open()
        layer = self._overviews.get()
        given = [_to_mapping(message) for message in messages]
        self._shared.uploads.add_from_messages(given)
        self._follow_messages(find_position(given))
        placed = self._build_request(given, layer)
        sent = [dict(message) for message in placed.messages]
        if self._options.before_model is not None:
            seen = ModelCall(self.scope.session, self.agent, self.loaded_skills(), sent)
            sent = self._options.before_model(seen) or sent
        self.ledger.record(sent, placed.parts, self._options.count)
        self._last_request = self._shared.tick()
        return sent

    async def log(self, kind: str, payload: Mapping[str, Any], *, author: str = "") -> None:
        """Write an event into the conversation's log, of this agent unless somebody else is its author."""
        await self._shared.log(new_event(author or self.agent, kind, payload))

    def listen(self, listener: Callable[[Event], None]) -> AbstractContextManager[None]:
        """As long as the block lasts, `listener` is called with every event of the conversation once it is stored."""
        return self._shared.listen(listener)

    async def events(self) -> tuple[Event, ...]:
        """The log of the conversation, all agents'."""
        return await self._shared.events()

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any] | str | None = None,
        *,
        call_id: str = "",
        revise: ReviseResult | None = None,
    ) -> ToolResult:
        """What the model wants done. Nothing that a model can write raises: the result has the `error`.

        `revise` may put another result in the place of the tool's before anything is written.
        Raises only what the session store raises when it cannot keep what has happened; the next call tries again.
        """
        self._check_open()
        at = self._shared.tick()
        name = str(name)
        known = name if name in TOOLS else "unknown"
        with (
            self._bind_telemetry(known),
            execute_tool(known, call_id=call_id or None, skill=self._find_skill_name(arguments)) as traced,
        ):
            result = await self._run_tool(name, arguments)
            if revise is not None:
                result = await revise(result) or result
            if result.error is not None:
                traced.record_error(result.error)
            result = await self._record_result(result, at, {"tool": name, "call_id": call_id})
            if traced.can_show:
                told = {
                    "gen_ai.tool.call.arguments": redact_arguments(arguments),
                    "gen_ai.tool.call.result": result.text,
                }
                traced.show(told)
            return result

    async def simulate_call(self, name: str, arguments: Mapping[str, Any] | str | None, *, at: int) -> None:
        """Let happen in a branch what a call changes that is made at the same time elsewhere, under the number `at`.

        Whoever makes it tells its answer and keeps its changes.
        """
        self._check_open()
        result = await self._run_tool(name, arguments)
        self._shared.fold(self._collect_changes(result, at), self.agent, {})

    def _bind_telemetry(self, tool: str) -> AbstractContextManager[object]:
        secrets = self._options.secrets
        return bind(
            content=self._trace_content, masked=secrets, session=self.scope.session, agent=self.agent, tool=tool
        )

    async def _run_tool(self, name: str, arguments: Mapping[str, Any] | str | None) -> ToolResult:
        try:
            tool = self._find_tool(name)
            wanted = decode(tool, arguments)
            self._shared.check_command(getattr(wanted, "session_id", ""))
            return await tool.run(replace(self._context, skills=self._overviews.get().skills), wanted)
        except SkillError as error:
            return ToolResult.from_error(error)
        except Exception as error:  # noqa: BLE001
            # The door: a fault of ours must end neither the conversation nor the process. The log has the traceback.
            _LOG.exception("a tool failed", extra={"tool": name})
            return ToolResult.from_error(
                SkillError(f"{name} failed inside ({type(error).__name__}); try something else")
            )

    def _find_tool(self, name: str) -> AnyTool:
        available = self._overviews.get().tools
        if name not in available:
            raise build_unknown_tool_error(name, available)
        return TOOLS[name]

    async def _record_result(self, result: ToolResult, at: int, about: Mapping[str, Any]) -> ToolResult:
        """Let the changes of a call happen and be written, and tell the model what had to go for them."""
        if not result.changes and not self.records_calls:
            return result
        changes = self._collect_changes(result, at)
        wanted = [change.skill for change in result.changes if isinstance(change, Loaded)]
        view = apply_changes(self._shared.state, changes[: len(result.changes)]).view_for(self.agent)
        before = dict.fromkeys((*view.list_loaded(), *wanted)) if changes else {}
        told = _add_evictions(result, before, apply_changes(self._shared.state, changes).view_for(self.agent))
        content = {**about, "skill": result.data.get("skill"), "content": told.text, "failed": result.error is not None}
        self._shared.fold(changes, self.agent, content, kind=TOOL_RESPONSE)
        await self._shared.flush()
        told = _add_evictions(result, before, self._get_view())
        count("openskills.skill.loads", len(wanted))
        count("openskills.skill.evictions", len(told.data.get("evicted", ())))
        return told

    def _collect_changes(self, result: ToolResult, at: int) -> list[RecordedChange]:
        """The changes of a call, and after them what has to go for them."""
        changes = [RecordedChange(at, self.agent, change) for change in result.changes]
        view = apply_changes(self._shared.state, changes).view_for(self.agent)
        for skill in self._evict(view) if changes else ():
            if view.is_loaded(skill):
                # A call that came later may have loaded it already; a load that is still on its way is not meant.
                last = max(at, view.entries[skill].loaded)
                changes.append(RecordedChange(last, self.agent, Unloaded(skill, evicted=True)))
        return changes

    def _fold(self, changes: Iterable[Change], at: int, about: Mapping[str, Any] | None = None) -> None:
        recorded = [RecordedChange(at, self.agent, change) for change in changes]
        self._shared.fold(recorded, self.agent, about or {})

    def _follow_messages(self, now: TranscriptPosition) -> None:
        """Let a turn begin, and take away what was to be seen once, when the messages say so."""
        if now.is_new_turn_after(self._before):
            self._begin_turn(self._last_request)
        elif self._options.load_mode is LoadMode.ONCE and now.has_answer_after(self._before):
            view = self._get_view()
            for skill, at in self._presented.items():
                if view.is_loaded(skill) and view.entries[skill].loaded <= at:
                    self._fold([Consumed(skill)], at)
        self._before = now

    def _begin_turn(self, at: int) -> None:
        self._notices.clear()
        if self._options.load_mode is not LoadMode.SESSION:
            self._fold([TurnBegan()], at)

    def _build_request(self, messages: Messages, layer: SessionOverview) -> PromptRequest:
        self._evict_excess()
        view = self._get_view()
        sight = self._context.loaded_texts.collect_visible(view, layer.skills)
        shown = sight.skills
        for skill in sight.gone:
            self._unload_missing(skill, "it is not among the available skills any more")
        now = self._get_view()
        self._notices = {name: line for name, line in self._notices.items() if not now.is_loaded(name)}
        for skill, doc in sight.missing:
            self._notices[f"{skill}/{doc}"] = f"[Missing] {doc} of {skill} cannot be read any more"
        placed = self._place(messages, layer, shown)
        if self._options.when_lost is WhenLost.UNLOAD:
            lost = [skill for skill in placed.restored if skill in self._had_place]
            for skill in lost:
                self._unload_missing(skill, "its text left the conversation; call skill_load to read it again")
            if lost:
                placed = self._place(messages, layer, [one for one in shown if one.skill not in lost])
        self._had_place = {one.skill for one in shown} - set(placed.restored)
        self._presented = {one.skill: view.entries[one.skill].loaded for one in shown}
        count("openskills.skill.fallbacks", len(placed.restored))
        return placed

    def _place(self, messages: Messages, layer: SessionOverview, shown: Sequence[LoadedSkill]) -> PromptRequest:
        return place_texts(
            messages,
            shown,
            layer_one=layer.overview.text,
            guidance=layer.guidance,
            mode=LoadMode(self._options.load_mode),
            placement=Placement(self._options.placement),
            notices=list(self._notices.values()),
            memory=self._memory,
        )

    def _evict_excess(self) -> None:
        """What came otherwise than by a call, from a store or another agent, has to fit as well."""
        view = self._get_view()
        for skill in self._evict(view):
            if view.is_loaded(skill):
                self._fold([Unloaded(skill, evicted=True)], view.entries[skill].loaded)
                self._notices[skill] = (
                    f"[Unloaded] {skill}: too many skills were loaded; call skill_load to read it again"
                )

    def close(self) -> None:
        """Nobody may use it any more."""
        self._ended = True

    def _unload_missing(self, skill: str, why: str) -> None:
        """A loaded skill that cannot be shown is not loaded, and the model is told."""
        self._fold([Unloaded(skill)], self._shared.tick())
        self._notices[skill] = f"[Unloaded] {skill}: {why}"

    def _check_open(self) -> None:
        if self._ended:
            raise InvalidArgument(
                "session", f"{self.scope.session!r} is closed; open it again with SkillRuntime.session"
            )

    def _find_skill_name(self, arguments: Mapping[str, Any] | str | None) -> str | None:
        """The skill that a call names, if there is one of that name: it stands in metrics, where nothing else may."""
        name = find_skill_argument(arguments)
        known = self._overviews.get().skills
        return name if isinstance(name, str) and known.has(name) else None

    def _get_view(self) -> AgentView:
        return self._shared.state.view_for(self.agent)


def _add_evictions(result: ToolResult, before: Iterable[str], after: AgentView) -> ToolResult:
    """The result with a line for each skill that was loaded before, or was to be, and is not now."""
    evicted = [skill for skill in before if not after.is_loaded(skill)]
    if not evicted:
        return result
    lines = "\n".join(f"evicted: {skill}" for skill in evicted)
    return replace(result, text=f"{result.text}\n{lines}", data={**result.data, "evicted": evicted})


def _to_mapping(message: Any) -> Mapping[str, Any]:
    """A message of a client, such as an answer of the OpenAI client, as what would be sent of it."""
    if isinstance(message, Mapping):
        return cast("Mapping[str, Any]", message)
    if not hasattr(message, "model_dump"):
        raise InvalidArgument(
            "messages", f"a {type(message).__name__} is no message; give mappings with role and content"
        )
    return cast("Mapping[str, Any]", message.model_dump(exclude_none=True))
