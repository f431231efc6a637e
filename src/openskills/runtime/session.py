"""`SkillSession`: one agent in one conversation. Builds the model's requests and runs its tool calls."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from openskills.arguments import check_arguments
from openskills.artifacts.store import Scope
from openskills.catalog.catalog import Catalog
from openskills.catalog.skill import Skill
from openskills.catalog.snapshot import CatalogSnapshot
from openskills.concurrency import shield_until_done
from openskills.errors import InvalidArgument, SkillError
from openskills.executors.commands import CommandRunner
from openskills.executors.files.tree import choose_upload_name
from openskills.prompt.blocks import LoadedSkill, Placement, SkillBlock, render_addition
from openskills.prompt.guidance import build_guidance
from openskills.prompt.history import TranscriptPosition
from openskills.prompt.overview import Overview, overview
from openskills.prompt.placement import GivenMessages, MessageMemory, PromptRequest, place_texts
from openskills.prompt.usage import Ledger, RequestTokens
from openskills.runtime.conversation import Conversation
from openskills.runtime.options import Messages, ModelCall, SessionOptions, WhenLost
from openskills.session.events import TOOL_RESPONSE, Event, new_event
from openskills.session.state import (
    AgentView,
    Change,
    Consumed,
    DocsChosen,
    EvictionPolicy,
    Loaded,
    LoadMode,
    RecordedChange,
    SkillState,
    TurnBegan,
    Unloaded,
    apply_changes,
    keep_most_recent,
)
from openskills.telemetry.context import bind
from openskills.telemetry.metrics import count
from openskills.telemetry.spans import execute_tool
from openskills.tools.loaded_texts import LoadedTexts, VisibleTexts
from openskills.tools.names import EXEC, INTERACTIVE, RUN, ToolProfile, build_continuation_hint
from openskills.tools.registry import TOOLS, build_unknown_tool_error, select_tools
from openskills.tools.run import RunPlan, prepare_run
from openskills.tools.run_arguments import RunArguments
from openskills.tools.tool import (
    ENUM_LIMIT,
    AnyTool,
    SchemaFormat,
    ToolContext,
    ToolResult,
    decode,
    describe_tool,
    find_skill_argument,
    format_tools,
    redact_arguments,
)
from openskills.tools.uploads import UserUpload, upload_from_bytes

if TYPE_CHECKING:
    from openskills.runtime.shell import WorkspaceShell


@dataclass(frozen=True, slots=True)
class SessionOverview:
    """The first layer of a prompt: the skills, their overview, the guidance and the tools.

    `offered` are the tools that the model is told about: without those for commands if no skill has anything to run.
    """

    skills: CatalogSnapshot
    overview: Overview
    guidance: str
    tools: tuple[str, ...]
    offered: tuple[str, ...]
    tools_text: str

    @property
    def text(self) -> str:
        """The overview and the guidance, as in the system message."""
        return "\n\n".join(part for part in (self.overview.text, self.guidance) if part)


class OverviewCache:
    """Builds the overview once per catalog snapshot. Thread-safe."""

    def __init__(self, catalog: Catalog, options: SessionOptions, *, executor: bool, policy_note: str = "") -> None:
        self._catalog = catalog
        self._options = options
        self.has_executor = executor
        self._policy_note = policy_note
        self._inspected: dict[str, tuple[Skill, bool]] = {}
        snapshot = catalog.snapshot
        # One value, so that a snapshot is never paired with the overview of another.
        self._cached = (snapshot, self._build(snapshot))

    def get(self) -> SessionOverview:
        """The overview for the current catalog."""
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
            ToolProfile(options.profile or (ToolProfile.FULL if self.has_executor else ToolProfile.KNOWLEDGE_ONLY)),
            options.tools,
            search=options.search or bool(listed.left_out or listed.names_only),
            executor=self.has_executor,
            require_loaded=options.require_loaded,
        )
        # Tools that were chosen one by one are always offered.
        is_running = options.tools is not None or self._has_commands(skills)
        offered = tuple(name for name in tools if is_running or name not in (RUN, EXEC, *INTERACTIVE))
        guidance = options.guidance
        guidance = build_guidance(offered, policy_note=self._policy_note) if guidance is None else guidance.strip()
        text = format_tools([describe_tool(TOOLS[name], skills=_list_enum(skills)) for name in offered])
        return SessionOverview(skills, listed, guidance if skills.skills else "", tools, offered, text)

    def _has_commands(self, skills: CatalogSnapshot) -> bool:
        """Whether a skill has anything to run; True if there are too many to look at."""
        if not self.has_executor:
            return False
        if len(skills.skills) > _MAX_INSPECTED:
            return True
        earlier, self._inspected = self._inspected, {}
        # The one that decided the last time comes first: usually it is enough.
        for skill in sorted(skills.skills, key=lambda skill: not earlier.get(skill.name, (skill, False))[1]):
            known = earlier.get(skill.name)
            found = known[1] if known is not None and known[0] is skill else skill.has_commands()
            self._inspected[skill.name] = (skill, found)
            if found:
                return True
        return False


_MAX_INSPECTED = 200
"""The number of skills whose texts are read to find out whether any has something to run."""


def _list_enum(skills: CatalogSnapshot) -> list[str]:
    return [skill.name for skill in skills.skills] if len(skills.skills) <= ENUM_LIMIT else []


_LOG = logging.getLogger("openskills")

ReviseResult: TypeAlias = Callable[[ToolResult], Awaitable[ToolResult | None]]
"""Called with a tool's result; returns another result, or None."""


class SkillSession:
    """One agent in one conversation, opened with `SkillRuntime.session`. It belongs to the event loop that opened it.

    Call `context` for every request; `call` may be used by any number of tasks at once. With `records_calls`, every
    call is logged, not only those that change what is loaded.
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
        self._mode, self._placement = LoadMode(options.load_mode), Placement(options.placement)
        self._view = AgentView("", {})
        self._state: SkillState | None = None
        self._tools: tuple[Sequence[Mapping[str, Any]], str] = ((), "")
        self._recorded: RequestTokens | None = None
        self._ended = False
        self._before: TranscriptPosition | None = None
        self._last_request = shared.state.clock
        self._presented: dict[str, int] = {}
        # Skills that are loaded already have their place in the history that will be passed to `context`.
        self._had_place = set(self._get_view().list_loaded())
        self._last_placed: tuple[VisibleTexts | None, tuple[str, ...]] = (None, ())
        self._notices: dict[str, str] = {}
        self._shell: WorkspaceShell | None = None
        self.ledger = Ledger()
        self.records_calls = False

    @property
    def agent(self) -> str:
        """The name of the agent."""
        return self._context.agent

    @property
    def scope(self) -> Scope:
        """App, user and session of the conversation."""
        return self._shared.scope

    def loaded_skills(self) -> tuple[str, ...]:
        """The loaded skills, least recently used first."""
        return self._get_view().list_loaded()

    def skill(self, name: str) -> Skill:
        """Return a visible skill by name. Raises `UnknownSkill`."""
        return self._overviews.get().skills.get(name)

    def docs_of(self, skill: str) -> tuple[str, ...]:
        """The selected documents of a skill, sorted; `("*",)` for all."""
        return self._get_view().docs(skill)

    def state(self) -> dict[str, str]:
        """The state of the conversation, for all agents, as `temp:skill:` keys."""
        return self._shared.keys()

    def tools(self, format: SchemaFormat | str = SchemaFormat.OPENAI, *, usable: bool = False) -> list[Any]:  # noqa: A002
        """The tools of the model, in the format of `openai`, `anthropic` or `mcp`.

        If no visible skill has anything to run, those that run commands are left out. With `usable`, the tools for
        running commands are left out until `skill_exec` has started one. They stay from then on, and all others are
        always there (a skill can be loaded and run in one answer), because every change of the tools costs the prompt
        cache. Calls are checked against all tools.
        """
        layer = self._overviews.get()
        has_started = self._shared.has_commands_of(self.agent)
        names, skills = layer.tools if has_started else layer.offered, _list_enum(layer.skills)
        if usable and not has_started:
            names = tuple(name for name in names if name not in INTERACTIVE)
        return [describe_tool(TOOLS[name], format, skills=skills) for name in names]

    def add_file(self, name: str, data: bytes, *, mime_type: str = "") -> None:
        """Add a file of the user; commands find it in `work/inputs/`."""
        self._shared.uploads.add(upload_from_bytes(name, data, mime_type))

    def add_reference(self, name: str, ref: str, *, mime_type: str = "") -> None:
        """Add a file that is an artifact (`artifact://name`), or an id that `SessionOptions.download` understands."""
        self._shared.uploads.add(UserUpload(f"file_id/{ref}/name/{name.lower()}", name, None, ref, mime_type))

    @check_arguments
    def choose_file_name(self, name: str, taken: Iterable[str] = ()) -> str:
        """The unique name under which commands will find a file that is added next; `taken` names are avoided, too."""
        names: set[str] = set()
        for upload in self._shared.uploads.all():
            names.add(choose_upload_name(upload.name, names))
        return choose_upload_name(name, {*names, *taken})

    def lend_workspace(self) -> Conversation | None:
        """The conversation whose workspace a session of another runtime may use; None without an executor."""
        return self._shared if self._overviews.has_executor else None

    async def open_runner(self) -> CommandRunner:
        """Return a runner for commands of the application in this session's workspace, with its rules."""
        return await self._context.open_runner()

    def instructions(self) -> str:
        """The list of skills and how to use them, for a program that writes the system message itself."""
        return self._overviews.get().text

    async def shell(self, call: Any) -> dict[str, Any]:
        """Execute a call of another vendor's shell or editor tool in this session's workspace.

        `call` is a mapping or an object of the vendor's SDK: OpenAI's `shell_call` with the local environment, or
        Anthropic's `tool_use` of `bash`, `str_replace_based_edit_tool` or `str_replace_editor`. Returns the
        `shell_call_output` or `tool_result` to send back. What the model does wrong is part of it. Raises
        `InvalidArgument` for another call.
        """
        from openskills.runtime.shell import run_call

        with self._bind_telemetry("shell"), execute_tool("shell"):
            return await run_call(self.open_shell(), call)

    def open_shell(self) -> "WorkspaceShell":
        """The commands and text files of this session's workspace, for tools like those that `shell` executes."""
        from openskills.runtime.shell import WorkspaceShell

        self._check_open()
        if self._shell is None:
            self._shell = WorkspaceShell(self._build_context)
        return self._shell

    async def local_skills(self) -> list[dict[str, str]]:
        """Put all skills into the workspace; returns them for `skills` of OpenAI's local shell environment."""
        skills = self._overviews.get().skills.skills
        places = await self.open_shell().stage_skills([skill.name for skill in skills])
        return [{"name": skill.name, "description": skill.description, "path": places[skill.name]} for skill in skills]

    async def close_shell(self) -> None:
        """Kill the persistent shell of `shell`, if there is one. Not interrupted by cancellation."""
        if self._shell is not None:
            await shield_until_done(self._shell.close())

    def _build_context(self) -> ToolContext:
        layer = self._overviews.get()
        return replace(self._context, skills=layer.skills, tools=layer.tools)

    async def prepare_command(self, arguments: RunArguments) -> RunPlan:
        """Check and stage what a command of a skill needs, for applications that run it themselves.

        Raises `SkillError`.
        """
        return await prepare_run(self._context, arguments)

    @property
    def options(self) -> SessionOptions:
        """The options of this session."""
        return self._options

    @property
    def can_run_commands(self) -> bool:
        """Whether the session has a tool that runs commands, offered or not."""
        return any(name in (RUN, EXEC) for name in self._overviews.get().tools)

    def begin_turn(self) -> None:
        """Start a turn: in the modes `turn` and `once`, everything is unloaded.

        `context` does this itself for a request with `new_turn`.
        """
        self._begin_turn(self._shared.tick())

    def context(
        self, messages: Messages, *, new_turn: bool | None = None, tools: Sequence[Mapping[str, Any]] | None = None
    ) -> list[Any]:
        """Return the messages to send to the model, as dicts; `messages` are not changed.

        `new_turn` says whether this is the first request for a message of the user. Without it, a turn begins with a
        new user message at the end that does not follow a tool call; pass False if your program writes such messages.
        `tools` are the definitions that are sent with the request, for the ledger; those of `tools()` unless given.
        Loaded texts are placed in the results of the calls that requested them, or as the options say. Files are only
        read for texts that were not read yet.
        """
        self._check_open()
        layer = self._overviews.get()
        plain: list[Any] = list(messages)
        # Almost always, all of them are dicts.
        if not {dict}.issuperset(map(type, plain)):
            plain = list(map(_to_dict, plain))
        given = self._memory.read(plain, self._mode)
        self._shared.uploads.add_from_messages(plain[given.same :])
        self._follow_messages(given.history.position, new_turn)
        placed = self._build_request(given, layer)
        sent = list(map(dict[str, Any].copy, cast("list[dict[str, Any]]", placed.messages)))
        unchanged = placed.unchanged
        if self._options.before_model is not None:
            seen = ModelCall(self.scope.session, self.agent, self.loaded_skills(), sent)
            sent, unchanged = self._options.before_model(seen) or sent, 0
        if tools is not None and tools != self._tools[0]:
            self._tools = (list(tools), format_tools(tools))
        self._recorded = self.ledger.record(
            sent,
            placed.parts,
            self._options.count,
            tools=layer.tools_text if tools is None else self._tools[1],
            unchanged=unchanged,
            after=self._recorded,
        )
        self._last_request = self._shared.tick()
        return sent

    async def log(self, kind: str, payload: Mapping[str, Any], *, author: str = "") -> None:
        """Write an event to the conversation's log, by default as this agent."""
        await self._shared.log(new_event(author or self.agent, kind, payload))

    def listen(self, listener: Callable[[Event], None]) -> AbstractContextManager[None]:
        """Call `listener` with every stored event of the conversation while the block runs."""
        return self._shared.listen(listener)

    async def events(self) -> tuple[Event, ...]:
        """The log of the conversation, of all agents."""
        return await self._shared.events()

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any] | str | None = None,
        *,
        call_id: str = "",
        revise: ReviseResult | None = None,
    ) -> ToolResult:
        """Run a tool call of the model. Errors of the model do not raise: the result has an `error`.

        A `call_id` must be unique in the conversation: `skill_run` answers a repeated call with its recorded result.
        `revise` may replace the result before anything is written. Raises only if the session store fails to write (the
        next call tries again), and `LeaseLost` if another process has continued the conversation.
        """
        self._check_open()
        at = self._shared.tick()
        name = str(name)
        known = name if name in TOOLS else "unknown"
        with (
            self._bind_telemetry(known),
            execute_tool(known, call_id=call_id or None, skill=self._find_skill_name(arguments)) as traced,
        ):
            await self._shared.check_lease()
            result = await self._run_tool(name, arguments, call_id)
            if revise is not None:
                result = await revise(result) or result
            if result.error is not None:
                traced.record_error(result.error)
            result = await self._record_result(result, at, {"tool": name, "call_id": call_id})
            if traced.can_show:
                shown = redact_arguments(arguments)
                traced.show({"gen_ai.tool.call.arguments": shown, "gen_ai.tool.call.result": result.text})
            return result

    async def simulate_call(self, name: str, arguments: Mapping[str, Any] | str | None, *, at: int) -> None:
        """Apply to a branch what a concurrent call, with the number `at`, changes; its result is returned elsewhere."""
        self._check_open()
        result = await self._run_tool(name, arguments)
        self._shared.fold(self._collect_changes(result, at), self.agent, {})

    def _bind_telemetry(self, tool: str) -> AbstractContextManager[object]:
        secrets = self._options.secrets
        return bind(
            content=self._trace_content, masked=secrets, session=self.scope.session, agent=self.agent, tool=tool
        )

    async def _run_tool(self, name: str, arguments: Mapping[str, Any] | str | None, call_id: str = "") -> ToolResult:
        try:
            tool = self._find_tool(name)
            wanted = decode(tool, arguments)
            self._shared.check_command(getattr(wanted, "session_id", ""))
            return await tool.run(replace(self._build_context(), call_id=call_id), wanted)
        except SkillError as error:
            return ToolResult.from_error(error)
        except Exception as error:  # noqa: BLE001
            # A bug must end neither the conversation nor the process.
            _LOG.exception("a tool failed", extra={"tool": name})
            message = f"{name} failed with an internal error ({type(error).__name__}); try something else"
            return ToolResult.from_error(SkillError(message))

    def _find_tool(self, name: str) -> AnyTool:
        available = self._overviews.get().tools
        if name not in available:
            raise build_unknown_tool_error(name, available)
        return TOOLS[name]

    async def _record_result(self, result: ToolResult, at: int, about: Mapping[str, Any]) -> ToolResult:
        """Apply and write the changes of a call; add evicted skills to its result."""
        if not result.changes and not self.records_calls:
            return result
        changes = self._collect_changes(result, at)
        wanted = [change.skill for change in result.changes if isinstance(change, Loaded)]
        view = apply_changes(self._shared.state, changes[: len(result.changes)]).view_for(self.agent)
        before = dict.fromkeys((*view.list_loaded(), *wanted)) if changes else {}
        shown = _add_evictions(result, before, apply_changes(self._shared.state, changes).view_for(self.agent))
        failed = result.error is not None
        content = {**about, "skill": result.data.get("skill"), "content": shown.text, "failed": failed}
        self._shared.fold(changes, self.agent, content, kind=TOOL_RESPONSE)
        await self._shared.flush()
        shown = _add_evictions(result, before, self._get_view())
        count("openskills.skill.loads", len(wanted))
        count("openskills.skill.evictions", len(shown.data.get("evicted", ())))
        return shown

    def _collect_changes(self, result: ToolResult, at: int) -> list[RecordedChange]:
        """The changes of a call, followed by the evictions that they cause."""
        changes = [RecordedChange(at, self.agent, change) for change in result.changes]
        view = apply_changes(self._shared.state, changes).view_for(self.agent)
        for skill in self._evict(view) if changes else ():
            if view.is_loaded(skill):
                # A later call may have loaded it already; loads that are still running are not affected.
                last = max(at, view.entries[skill].loaded)
                changes.append(RecordedChange(last, self.agent, Unloaded(skill, evicted=True)))
        return changes

    def _fold(self, change: Change, at: int) -> None:
        self._shared.fold([RecordedChange(at, self.agent, change)], self.agent, {})

    def _follow_messages(self, now: TranscriptPosition, new_turn: bool | None) -> None:
        """Begin a turn, or consume skills that were to be shown once, if the caller or the messages say so."""
        if now.is_new_turn_after(self._before) if new_turn is None else new_turn:
            self._begin_turn(self._last_request)
        elif self._options.load_mode is LoadMode.ONCE and now.has_answer_after(self._before):
            view = self._get_view()
            for skill, at in self._presented.items():
                if view.is_loaded(skill) and view.entries[skill].loaded <= at:
                    self._fold(Consumed(skill), at)
        self._before = now

    def _begin_turn(self, at: int) -> None:
        self._notices.clear()
        if self._options.load_mode is not LoadMode.SESSION:
            self._fold(TurnBegan(), at)

    def _build_request(self, given: GivenMessages, layer: SessionOverview) -> PromptRequest:
        self._evict_excess()
        view = self._get_view()
        sight = self._context.loaded_texts.collect_visible(view, layer.skills)
        shown = sight.skills
        for skill in sight.gone:
            self._unload_missing(skill, "it is not available any more")
        if self._notices:
            now = self._get_view()
            self._notices = {name: line for name, line in self._notices.items() if not now.is_loaded(name)}
        for skill, doc in sight.missing:
            self._notices[f"{skill}/{doc}"] = f"[Missing] {doc} of {skill} can no longer be read"
        placed = self._place(given, layer, shown)
        if self._options.when_lost is WhenLost.UNLOAD:
            lost = [skill for skill in placed.restored if skill in self._had_place]
            for skill in lost:
                self._unload_missing(skill, "its text left the conversation; call skill_load to read it again")
            if lost:
                placed = self._place(given, layer, [one for one in shown if one.skill not in lost])
        # Whatever is loaded or unloaded makes it another object.
        if sight is not self._last_placed[0] or placed.restored != self._last_placed[1]:
            self._last_placed = (sight, placed.restored)
            self._had_place = {one.skill for one in shown} - set(placed.restored)
            self._presented = {one.skill: view.entries[one.skill].loaded for one in shown}
        count("openskills.skill.fallbacks", len(placed.restored))
        return placed

    def _place(self, given: GivenMessages, layer: SessionOverview, shown: Sequence[LoadedSkill]) -> PromptRequest:
        return place_texts(
            given.messages,
            shown,
            layer_one=layer.overview.text,
            guidance=layer.guidance,
            mode=self._mode,
            placement=self._placement,
            notices=list(self._notices.values()),
            memory=self._memory,
            given=given,
        )

    def _evict_excess(self) -> None:
        """Evict skills that were not loaded by a call, but came from a store or another agent."""
        view = self._get_view()
        for skill in self._evict(view):
            if view.is_loaded(skill):
                self._fold(Unloaded(skill, evicted=True), view.entries[skill].loaded)
                self._notices[skill] = (
                    f"[Unloaded] {skill}: too many skills were loaded; call skill_load to read it again"
                )

    def close(self) -> None:
        """Close the session; it cannot be used any more."""
        self._ended = True

    def _unload_missing(self, skill: str, why: str) -> None:
        self._fold(Unloaded(skill), self._shared.tick())
        self._notices[skill] = f"[Unloaded] {skill}: {why}"

    def _check_open(self) -> None:
        if self._ended:
            raise InvalidArgument("session", f"{self.scope.session!r} is closed; open it with SkillRuntime.session")

    def _find_skill_name(self, arguments: Mapping[str, Any] | str | None) -> str | None:
        """The skill that a call names, if it exists: only known names may be used in metrics."""
        name = find_skill_argument(arguments)
        known = self._overviews.get().skills
        return name if name is not None and known.has(name) else None

    def _get_view(self) -> AgentView:
        state = self._shared.state
        if self._state is None or state.entries is not self._state.entries or state.turns is not self._state.turns:
            self._view = state.view_for(self.agent)
        self._state = state
        return self._view


def _add_evictions(result: ToolResult, before: Iterable[str], after: AgentView) -> ToolResult:
    """Add a line for each skill of `before` that is not loaded any more."""
    evicted = [skill for skill in before if not after.is_loaded(skill)]
    if not evicted:
        return result
    lines = "\n".join(f"evicted: {skill}" for skill in evicted)
    return replace(result, text=f"{result.text}\n{lines}", data={**result.data, "evicted": evicted})


def _to_dict(message: Any) -> dict[str, Any]:
    if isinstance(message, Mapping):
        return dict(cast("Mapping[str, Any]", message))
    if not hasattr(message, "model_dump"):
        found = type(message).__name__
        raise InvalidArgument("messages", f"expected mappings with role and content, got {found}")
    return message.model_dump(exclude_none=True)


class ResultTexts:
    """Adds loaded texts to the results of calls, for clients that do not use `SkillSession.context`."""

    def __init__(self, session: SkillSession) -> None:
        names = [str(tool["name"]) for tool in session.tools("mcp")]
        self._session = session
        self._read_on = build_continuation_hint(names)

    async def render(self, result: ToolResult) -> str:
        """The text of a result, followed by what was loaded or selected."""
        return render_addition((result.text, *filter(None, [await self.load(result)])))

    async def load(self, result: ToolResult) -> str:
        """What a call has loaded or selected, or an empty text."""
        if result.error is not None or not result.changes:
            return ""
        return await asyncio.to_thread(self._render_blocks, result)

    def _render_blocks(self, result: ToolResult) -> str:
        # A new one each time: what the model still sees is unknown, so texts are shown again on request.
        texts = LoadedTexts(self._read_on, self._session.options.budget, self._session.options.count)
        found = (self._build_block(texts, change) for change in result.changes)
        return render_addition(tuple(block for block in found if block is not None))

    def _build_block(self, texts: LoadedTexts, change: Change) -> SkillBlock | None:
        if not isinstance(change, Loaded | DocsChosen):
            return None
        try:
            skill = self._session.skill(change.skill)
            body = texts.load(skill) if isinstance(change, Loaded) else None
            docs = texts.select(skill, change.docs or ())
        except SkillError:
            # Removed after the call has read it; the next call reports that.
            return None
        return SkillBlock(skill.name, body, docs) if body or docs else None
