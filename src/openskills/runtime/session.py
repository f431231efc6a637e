"""One agent in one conversation: what the model is shown, and the door that every action of a model comes through."""

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, TypeAlias, cast

from openskills.artifacts.store import Scope
from openskills.catalog.skill import Skill
from openskills.errors import InvalidArgument, SkillError
from openskills.executors.files.uploads import upload_name
from openskills.executors.workbench import Workbench
from openskills.prompt.ledger import Ledger
from openskills.prompt.memory import Memory
from openskills.prompt.placement import Placed, place
from openskills.prompt.shown import Placement, Shown
from openskills.runtime.opened import OpenedSession
from openskills.runtime.options import Messages, ModelCall, SessionOptions, WhenLost
from openskills.runtime.overviews import LayerOne, Overviews
from openskills.runtime.turns import Position, position
from openskills.session.changes import Change, Consumed, Loaded, LoadMode, Recorded, TurnBegan, Unloaded
from openskills.session.events import TOOL_RESPONSE, Event, new_event
from openskills.session.state import AgentView, Evict, apply, most_recent
from openskills.tools.decode import decode, named_skill
from openskills.tools.profiles import EXEC, RUN
from openskills.tools.result import ToolResult
from openskills.tools.schemas import ENUM_LIMIT, SchemaFormat, described
from openskills.tools.shown_arguments import shown_arguments
from openskills.tools.table import TOOLS
from openskills.tools.tool import AnyTool, ToolContext
from openskills.tools.unknown import unknown_tool
from openskills.tools.uploads import Upload, upload_of
from openskills.trace import bind, count, execute_tool

_LOG = logging.getLogger("openskills")

Revise: TypeAlias = Callable[[ToolResult], Awaitable[ToolResult | None]]
"""Sees what a tool answered; gives another answer, or None to leave it."""


class SkillSession:
    """Made by `SkillRuntime.session`, used as `async with`. It belongs to the event loop that opened it.

    `context` may be called as often as a request is built; `call` from any number of tasks at once.
    """

    def __init__(
        self,
        shared: OpenedSession,
        overviews: Overviews,
        context: ToolContext,
        options: SessionOptions,
        *,
        trace_content: bool = False,
    ) -> None:
        self._shared = shared
        self._overviews = overviews
        self._context = context
        self._options = options
        self._evict: Evict = options.evict or most_recent(options.max_loaded_skills)
        self._trace_content = trace_content or None
        self._memory = Memory()
        self._ended = False
        self._before: Position | None = None
        self._last_request = shared.state.clock
        self._presented: dict[str, int] = {}
        # What was loaded before this object was made had its place in the history that it will be given.
        self._had_place = set(self._view().loaded())
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
        return self._view().loaded()

    def skill(self, name: str) -> Skill:
        """The skill of this name that this session may use. Raises `UnknownSkill`."""
        return self._overviews.now().skills.get(name)

    def docs_of(self, skill: str) -> tuple[str, ...]:
        """The documents of a skill that are selected, sorted; `("*",)` for every one."""
        return self._view().docs(skill)

    def state(self) -> dict[str, str]:
        """The state of the conversation, all agents', in the keys of the mission documents."""
        return self._shared.keys()

    def tools(self, format: SchemaFormat | str = SchemaFormat.OPENAI) -> list[Any]:  # noqa: A002
        """The tools that the model may call, for `openai`, `anthropic` or `mcp`."""
        layer = self._overviews.now()
        names = [skill.name for skill in layer.skills.skills] if len(layer.skills.skills) <= ENUM_LIMIT else []
        return [described(TOOLS[name], format, skills=names) for name in layer.tools]

    def add_file(self, name: str, data: bytes, *, mime_type: str = "") -> None:
        """A file of the user, for commands to find in `work/inputs/`."""
        self._shared.uploads.add(upload_of(name, data, mime_type))

    def add_reference(self, name: str, ref: str, *, mime_type: str = "") -> None:
        """The same for a file that is an artifact (`artifact://name`), or that `download` of the options gets."""
        self._shared.uploads.add(Upload(f"file_id/{ref}/name/{name.lower()}", name, None, ref, mime_type))

    def free_file_name(self, name: str, taken: Iterable[str] = ()) -> str:
        """The name by which commands will find a file that is added next under this one: no other file has it.

        `taken` are names that something else has.
        """
        names: set[str] = set()
        for upload in self._shared.uploads.all():
            names.add(upload_name(upload.name, names))
        return upload_name(name, {*names, *taken})

    async def bench(self) -> Workbench:
        """The workspace with the rules of this session, for programs that run commands of their own in it."""
        return await self._context.bench()

    @property
    def options(self) -> SessionOptions:
        """What was chosen for this session."""
        return self._options

    @property
    def runs_commands(self) -> bool:
        """Whether the model has a tool that runs commands."""
        return any(name in (RUN, EXEC) for name in self._overviews.now().tools)

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
        layer = self._overviews.now()
        given = [_plain(message) for message in messages]
        self._shared.uploads.note(given)
        self._follow(position(given))
        placed = self._placed(given, layer)
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

    def listening(self, listener: Callable[[Event], None]) -> AbstractContextManager[None]:
        """As long as the block lasts, `listener` is called with every event of the conversation once it is stored."""
        return self._shared.listening(listener)

    async def events(self) -> tuple[Event, ...]:
        """The log of the conversation, all agents'."""
        return await self._shared.events()

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any] | str | None = None,
        *,
        call_id: str = "",
        revise: Revise | None = None,
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
            self._bound(known),
            execute_tool(known, call_id=call_id or None, skill=self._skill_of(arguments)) as traced,
        ):
            result = await self._answer(name, arguments)
            if revise is not None:
                result = await revise(result) or result
            if result.error is not None:
                traced.failed(result.error)
            result = await self._recorded(result, at, {"tool": name, "call_id": call_id})
            if traced.shows:
                told = {
                    "gen_ai.tool.call.arguments": shown_arguments(arguments),
                    "gen_ai.tool.call.result": result.text,
                }
                traced.show(told)
            return result

    async def foresee(self, name: str, arguments: Mapping[str, Any] | str | None, *, at: int) -> None:
        """Let happen in a branch what a call changes that is made at the same time elsewhere, under the number `at`.

        Whoever makes it tells its answer and keeps its changes.
        """
        self._check_open()
        result = await self._answer(name, arguments)
        self._shared.fold(self._changes(result, at), self.agent, {})

    def _bound(self, tool: str) -> AbstractContextManager[object]:
        secrets = self._options.secrets
        return bind(
            content=self._trace_content, masked=secrets, session=self.scope.session, agent=self.agent, tool=tool
        )

    async def _answer(self, name: str, arguments: Mapping[str, Any] | str | None) -> ToolResult:
        try:
            tool = self._tool(name)
            wanted = decode(tool, arguments)
            self._shared.check_command(getattr(wanted, "session_id", ""))
            return await tool.run(replace(self._context, skills=self._overviews.now().skills), wanted)
        except SkillError as error:
            return ToolResult.failed(error)
        except Exception as error:  # noqa: BLE001
            # The door: a fault of ours must end neither the conversation nor the process. The log has the traceback.
            _LOG.exception("a tool failed", extra={"tool": name})
            return ToolResult.failed(SkillError(f"{name} failed inside ({type(error).__name__}); try something else"))

    def _tool(self, name: str) -> AnyTool:
        available = self._overviews.now().tools
        if name not in available:
            raise unknown_tool(name, available)
        return TOOLS[name]

    async def _recorded(self, result: ToolResult, at: int, about: Mapping[str, Any]) -> ToolResult:
        """Let the changes of a call happen and be written, and tell the model what had to go for them."""
        if not result.changes and not self.records_calls:
            return result
        changes = self._changes(result, at)
        wanted = [change.skill for change in result.changes if isinstance(change, Loaded)]
        view = apply(self._shared.state, changes[: len(result.changes)]).of(self.agent)
        before = dict.fromkeys((*view.loaded(), *wanted)) if changes else {}
        told = _with_evicted(result, before, apply(self._shared.state, changes).of(self.agent))
        content = {**about, "skill": result.data.get("skill"), "content": told.text, "failed": result.error is not None}
        self._shared.fold(changes, self.agent, content, kind=TOOL_RESPONSE)
        await self._shared.flush()
        told = _with_evicted(result, before, self._view())
        count("openskills.skill.loads", len(wanted))
        count("openskills.skill.evictions", len(told.data.get("evicted", ())))
        return told

    def _changes(self, result: ToolResult, at: int) -> list[Recorded]:
        """The changes of a call, and after them what has to go for them."""
        changes = [Recorded(at, self.agent, change) for change in result.changes]
        view = apply(self._shared.state, changes).of(self.agent)
        for skill in self._evict(view) if changes else ():
            if view.is_loaded(skill):
                # A call that came later may have loaded it already; a load that is still on its way is not meant.
                last = max(at, view.entries[skill].loaded)
                changes.append(Recorded(last, self.agent, Unloaded(skill, evicted=True)))
        return changes

    def _fold(self, changes: Iterable[Change], at: int, about: Mapping[str, Any] | None = None) -> None:
        recorded = [Recorded(at, self.agent, change) for change in changes]
        self._shared.fold(recorded, self.agent, about or {})

    def _follow(self, now: Position) -> None:
        """Let a turn begin, and take away what was to be seen once, when the messages say so."""
        if now.begins_turn_after(self._before):
            self._begin_turn(self._last_request)
        elif self._options.load_mode is LoadMode.ONCE and now.answered_after(self._before):
            view = self._view()
            for skill, at in self._presented.items():
                if view.is_loaded(skill) and view.entries[skill].loaded <= at:
                    self._fold([Consumed(skill)], at)
        self._before = now

    def _begin_turn(self, at: int) -> None:
        self._notices.clear()
        if self._options.load_mode is not LoadMode.SESSION:
            self._fold([TurnBegan()], at)

    def _placed(self, messages: Messages, layer: LayerOne) -> Placed:
        self._keep_to_the_limit()
        view = self._view()
        sight = self._context.shelf.sight(view, layer.skills)
        shown = sight.shown
        for skill in sight.gone:
            self._lose(skill, "it is not among the available skills any more")
        now = self._view()
        self._notices = {name: line for name, line in self._notices.items() if not now.is_loaded(name)}
        for skill, doc in sight.missing:
            self._notices[f"{skill}/{doc}"] = f"[Missing] {doc} of {skill} cannot be read any more"
        placed = self._place(messages, layer, shown)
        if self._options.when_lost is WhenLost.UNLOAD:
            lost = [skill for skill in placed.restored if skill in self._had_place]
            for skill in lost:
                self._lose(skill, "its text left the conversation; call skill_load to read it again")
            if lost:
                placed = self._place(messages, layer, [one for one in shown if one.skill not in lost])
        self._had_place = {one.skill for one in shown} - set(placed.restored)
        self._presented = {one.skill: view.entries[one.skill].loaded for one in shown}
        count("openskills.skill.fallbacks", len(placed.restored))
        return placed

    def _place(self, messages: Messages, layer: LayerOne, shown: Sequence[Shown]) -> Placed:
        return place(
            messages,
            shown,
            layer_one=layer.overview.text,
            guidance=layer.guidance,
            mode=LoadMode(self._options.load_mode),
            placement=Placement(self._options.placement),
            notices=list(self._notices.values()),
            memory=self._memory,
        )

    def _keep_to_the_limit(self) -> None:
        """What came otherwise than by a call, from a store or another agent, has to fit as well."""
        view = self._view()
        for skill in self._evict(view):
            if view.is_loaded(skill):
                self._fold([Unloaded(skill, evicted=True)], view.entries[skill].loaded)
                self._notices[skill] = (
                    f"[Unloaded] {skill}: too many skills were loaded; call skill_load to read it again"
                )

    def end(self) -> None:
        """Nobody may use it any more."""
        self._ended = True

    def _lose(self, skill: str, why: str) -> None:
        """A loaded skill that cannot be shown is not loaded, and the model is told."""
        self._fold([Unloaded(skill)], self._shared.tick())
        self._notices[skill] = f"[Unloaded] {skill}: {why}"

    def _check_open(self) -> None:
        if self._ended:
            raise InvalidArgument(
                "session", f"{self.scope.session!r} is closed; open it again with SkillRuntime.session"
            )

    def _skill_of(self, arguments: Mapping[str, Any] | str | None) -> str | None:
        """The skill that a call names, if there is one of that name: it stands in metrics, where nothing else may."""
        name = named_skill(arguments)
        known = self._overviews.now().skills
        return name if isinstance(name, str) and known.has(name) else None

    def _view(self) -> AgentView:
        return self._shared.state.of(self.agent)


def _with_evicted(result: ToolResult, before: Iterable[str], after: AgentView) -> ToolResult:
    """The result with a line for each skill that was loaded before, or was to be, and is not now."""
    evicted = [skill for skill in before if not after.is_loaded(skill)]
    if not evicted:
        return result
    lines = "\n".join(f"evicted: {skill}" for skill in evicted)
    return replace(result, text=f"{result.text}\n{lines}", data={**result.data, "evicted": evicted})


def _plain(message: Any) -> Mapping[str, Any]:
    """A message of a client, such as an answer of the OpenAI client, as what would be sent of it."""
    if isinstance(message, Mapping):
        return cast("Mapping[str, Any]", message)
    if not hasattr(message, "model_dump"):
        raise InvalidArgument(
            "messages", f"a {type(message).__name__} is no message; give mappings with role and content"
        )
    return cast("Mapping[str, Any]", message.model_dump(exclude_none=True))
