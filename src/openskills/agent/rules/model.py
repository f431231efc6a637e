"""`RuleModel`: a model without an LLM. Rules choose a skill and run the command that it documents."""

import json
import logging
import re
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from openskills.agent.attached_line import split_files_line
from openskills.agent.models.model import ModelEvent, ModelRequest, ModelResponse, TextDelta, ToolCall
from openskills.agent.rules.commands import choose_command
from openskills.agent.rules.phrases import Phrasebook
from openskills.agent.rules.routing import Route, RouteReason, route, strip_file_names, strip_skill_name
from openskills.arguments import check_arguments
from openskills.catalog.catalog import Catalog
from openskills.catalog.snapshot import CatalogSnapshot
from openskills.prompt.blocks import find_bodies
from openskills.prompt.history import (
    SYSTEM_ROLES,
    TOOL_ROLES,
    get_field,
    get_items,
    get_string,
    get_text,
    get_tool_calls,
    parse_json_object,
)
from openskills.skillmd.markdown import find_commands
from openskills.tools.names import LOAD, RUN

_LOG = logging.getLogger("openskills.agent.rules")
_CHINESE = re.compile("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")


@dataclass(frozen=True, slots=True)
class TurnStep:
    """A tool call of this turn; `result` is None until it has one."""

    tool: str
    arguments: Mapping[str, object]
    result: str | None = None


@dataclass(frozen=True, slots=True)
class TurnProgress:
    """The current turn.

    `text` is the user's request without the line about its files; `files` came with it, `earlier` with the messages
    before, newest first. `bodies` are the loaded skill texts by name.
    """

    text: str = ""
    files: tuple[str, ...] = ()
    earlier: tuple[str, ...] = ()
    steps: tuple[TurnStep, ...] = ()
    bodies: Mapping[str, str] = field(default_factory=dict[str, str])

    def select_files(self) -> tuple[str, ...]:
        """The files that the request is about: those it names, else those that came with it, else the last one."""
        named = [name for name in (*self.files, *self.earlier) if name.casefold() in self.text.casefold()]
        if named or self.files:
            return tuple(named or self.files)
        # A request with numbers is about them, not about a file of an earlier turn.
        return () if re.search(r"\d", self.text) else self.earlier[:1]


def parse_turn(messages: Sequence[object]) -> TurnProgress:
    """Parse the turn that began with the last user message. Never raises."""
    asked = [index for index, message in enumerate(messages) if get_string(message, "role") == "user"]
    if not asked:
        return TurnProgress(bodies=_parse_bodies(messages))
    text, files = split_files_line(get_text(messages[asked[-1]]))
    before = [name for index in reversed(asked[:-1]) for name in split_files_line(get_text(messages[index]))[1]]
    earlier = tuple(name for name in dict.fromkeys(before) if name not in files)
    now = messages[asked[-1] + 1 :]
    results = {get_string(one, "tool_call_id"): get_text(one) for one in now if get_field(one, "role") in TOOL_ROLES}
    calls = [call for one in now if get_field(one, "role") == "assistant" for call in get_tool_calls(one)]
    steps = tuple(TurnStep(call.name, parse_json_object(call.arguments), results.get(call.id)) for call in calls)
    return TurnProgress(text, files, earlier, steps, _parse_bodies(messages))


def _parse_bodies(messages: Sequence[object]) -> dict[str, str]:
    """The texts of loaded skills, the latest last, from messages that we put them into."""
    loads = {call.id for message in messages for call in get_tool_calls(message) if call.name == LOAD and call.id}
    found: dict[str, str] = {}
    for message in messages:
        role = get_field(message, "role")
        if role not in SYSTEM_ROLES and not (role in TOOL_ROLES and get_string(message, "tool_call_id") in loads):
            continue
        for name, body in find_bodies(get_text(message)):
            found.pop(name, None)
            found[name] = body
    return found


class RulePlan:
    """The next action of a turn: load one skill, run one command, and report. Deterministic."""

    def __init__(self, turn: TurnProgress, tools: Collection[str], skills: CatalogSnapshot) -> None:
        self._turn = turn
        self._tools = tools
        self._skills = skills
        self._phrases = Phrasebook(chinese=_CHINESE.search(turn.text) is not None)
        self._files = turn.select_files()
        asked = {get_string(step.arguments, "skill") for step in turn.steps if step.tool == LOAD}
        before = [name for name in turn.bodies if name not in asked]
        self.route = route(turn.text, self._files, skills, before) if turn.text else Route(None, RouteReason.NOTHING)

    def choose_action(self) -> ToolCall | str:
        """The next tool call, or the answer."""
        action = self._choose()
        if isinstance(action, ToolCall):
            return action
        return self._phrases.add_signature(action, self.route, ran=any(step.tool == RUN for step in self._turn.steps))

    def _choose(self) -> ToolCall | str:
        say, turn, skill = self._phrases.say, self._turn, self.route.skill
        steps = [step for step in turn.steps if step.tool in (LOAD, RUN)]
        if not steps:
            if not turn.text:
                return say("no_request")
            if skill is None:
                return self._phrases.describe_no_match(self.route, self._skills)
            if skill in turn.bodies:
                return self._run_skill(skill)
            return self._call(LOAD, skill=skill) if LOAD in self._tools else say("no_load", skill=skill)
        last = steps[-1]
        skill, result = get_string(last.arguments, "skill"), (last.result or "").strip()
        if any(step.result is None for step in steps):
            return say("interrupted")
        if last.tool == RUN:
            command = get_string(last.arguments, "command")
            unused = [name for name in self._files if name not in command]
            left = f"\n\n{say('unused', files=', '.join(unused))}" if unused else ""
            return self._phrases.describe_run(last.arguments, result) + left
        if result.startswith("error:"):
            return say("not_loaded", skill=skill, why=result.removeprefix("error:").strip())
        if skill in turn.bodies:
            return self._run_skill(skill)
        # A forked skill gives an answer instead of its text.
        return f"{say('says', skill=skill)}\n\n{result}"

    def _run_skill(self, skill: str) -> ToolCall | str:
        say, body = self._phrases.say, self._turn.bodies[skill]
        request = strip_skill_name(self._turn.text, skill)
        # The names of the skill and of files say nothing about what to do.
        words = strip_file_names(request, self._files)
        ready = choose_command(find_commands(body), request, words, self._files)
        if ready is None:
            return self._phrases.quote_skill(say("no_command", skill=skill), skill, body)
        if RUN not in self._tools:
            return self._phrases.quote_skill(say("no_runner"), skill, body, needs_model=False)
        if ready.missing:
            return self._phrases.quote_skill(self._phrases.describe_missing(ready, skill), skill, body)
        return self._call(RUN, skill=skill, command=ready.command, save_as_artifacts=True)

    def _call(self, tool: str, **arguments: object) -> ToolCall:
        return ToolCall(f"rule-{len(self._turn.steps) + 1}", tool, json.dumps(arguments, ensure_ascii=False))


@check_arguments
class RuleModel:
    """A `Model` that is not an LLM: it loads the skill that fits a request and runs the command that it documents.

    It runs commands that it can fill in from the request and otherwise says that this needs a language model, in
    English or Chinese. A turn has at most one load and one run. It is stateless.
    """

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def with_catalog(self, catalog: Catalog) -> "RuleModel":
        """The same rules for the skills of another catalog."""
        return RuleModel(catalog)

    @property
    def name(self) -> str:
        """The name in logs and results."""
        return "rule"

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        """The next step of the turn. Never raises."""
        turn = parse_turn(request.messages)
        tools = {name: tool for tool in request.tools if (name := get_string(_get_function(tool), "name"))}
        plan = RulePlan(turn, tools.keys(), _select_visible(self._catalog.snapshot, tools))
        if not turn.steps:
            fields = {"selected_skill_id": plan.route.skill, "routing_reason": plan.route.why}
            _LOG.info("routed by rules", extra=fields)
        action = plan.choose_action()
        if isinstance(action, ToolCall):
            yield ModelResponse(calls=(action,), stop="tool_calls", model=self.name)
            return
        for line in action.splitlines(keepends=True):
            yield TextDelta(line)
        yield ModelResponse(action, model=self.name)

    async def close(self) -> None:
        """Do nothing."""


def _get_function(tool: object) -> object:
    return get_field(tool, "function") or tool


def _select_visible(skills: CatalogSnapshot, tools: Mapping[str, Any]) -> CatalogSnapshot:
    """The skills that the schema of `skill_load` lists."""
    properties = get_field(get_field(_get_function(tools.get(LOAD)), "parameters"), "properties")
    names: Collection[object] = get_items(get_field(get_field(properties, "skill"), "enum"))
    if not names or len(names) == len(skills.skills):
        return skills
    return skills.view(lambda skill: skill.name in names)
