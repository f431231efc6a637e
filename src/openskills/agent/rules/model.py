"""`RuleModel`: a model without an LLM. Rules choose a skill and run the command that it documents."""

import json
import logging
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, TypeAlias

from openskills.agent.models.model import ModelEvent, ModelRequest, ModelResponse, TextDelta, ToolCall
from openskills.agent.rules.commands import CommandExample, CommandInstance, choose_command, fill_command, find_commands
from openskills.agent.rules.phrases import (
    CHINESE,
    ENGLISH,
    add_signature,
    describe_missing,
    describe_no_match,
    describe_run,
    parse_outcome,
    quote_block,
)
from openskills.agent.rules.routing import Route, RouteReason, route, strip_skill_name
from openskills.agent.rules.turn import TurnProgress, is_chinese, parse_turn, select_files, strip_file_names
from openskills.arguments import check_arguments
from openskills.catalog.catalog import Catalog
from openskills.catalog.snapshot import CatalogSnapshot
from openskills.prompt.history import get_field, get_items, get_string
from openskills.tools.names import LOAD, RUN

MAX_RUNS = 2


@dataclass(frozen=True, slots=True)
class LoadAction:
    """Load a skill."""

    skill: str


@dataclass(frozen=True, slots=True)
class RunAction:
    """Run a command of a loaded skill."""

    skill: str
    command: str


@dataclass(frozen=True, slots=True)
class SayAction:
    """End the turn with this answer."""

    text: str


Action: TypeAlias = LoadAction | RunAction | SayAction


class RulePlan:
    """The next action of a turn: load one skill, run its command at most twice, and report. Deterministic."""

    def __init__(self, turn: TurnProgress, tools: Collection[str], skills: CatalogSnapshot) -> None:
        self._turn = turn
        self._tools = tools
        self._skills = skills
        self._say = CHINESE if is_chinese(turn.text) else ENGLISH
        self._files = select_files(turn.text, turn.files, turn.earlier)
        asked = {get_string(step.arguments, "skill") for step in turn.loads}
        before = [name for name in turn.bodies if name not in asked]
        self.route = route(turn.text, self._files, skills, before) if turn.text else Route(None, RouteReason.NOTHING)

    def choose_action(self) -> Action:
        """The next action."""
        if any(step.result is None for step in (*self._turn.loads, *self._turn.runs)):
            return self._build_answer(self._say.interrupted)
        if self._turn.runs:
            return self._after_run()
        if self._turn.loads:
            return self._after_load()
        return self._begin()

    def _begin(self) -> Action:
        skill = self.route.skill
        if not self._turn.text:
            return self._build_answer(self._say.no_request)
        if skill is None:
            return self._build_answer(describe_no_match(self.route, self._skills, self._say))
        if skill in self._turn.bodies:
            return self._run_skill(skill)
        if LOAD not in self._tools:
            return self._build_answer(self._say.no_load.format(skill=skill))
        return LoadAction(skill)

    def _after_load(self) -> Action:
        step = self._turn.loads[-1]
        skill, result = get_string(step.arguments, "skill"), (step.result or "").strip()
        if result.startswith("error:"):
            why = result.removeprefix("error:").strip()
            return self._build_answer(self._say.not_loaded.format(skill=skill, why=why))
        if skill in self._turn.bodies:
            return self._run_skill(skill)
        # A forked skill gives an answer instead of its text.
        return self._build_answer(f"{self._say.says.format(skill=skill)}\n\n{result}")

    def _run_skill(self, skill: str) -> Action:
        body = self._turn.bodies[skill]
        ready = self._prepare_command(skill)
        if RUN not in self._tools or ready is None:
            said = self._say.no_command if RUN in self._tools else self._say.no_runner
            return self._build_answer(f"{said.format(skill=skill)}\n\n{quote_block(body, self._say)}")
        if ready.missing:
            return self._build_answer(describe_missing(ready, skill, self._say))
        return RunAction(skill, ready.command)

    def _after_run(self) -> Action:
        runs = self._turn.runs
        skill = get_string(runs[-1].arguments, "skill")
        again = self._plan_retry(skill, well=parse_outcome(runs[-1]).is_success) if len(runs) < MAX_RUNS else None
        if again is not None and not again.missing:
            return RunAction(skill, again.command)
        said = [describe_run(run, self._say, self._turn.text) for run in runs]
        return self._build_answer("\n\n".join([*said, *self._describe_undone(skill)]))

    def _plan_retry(self, skill: str, *, well: bool) -> CommandInstance | None:
        """The same command for the next file; or, after a failure, the first command of the skill."""
        if well:
            repeat = self._is_repeatable(skill) and len(self._files) > 1
            return self._prepare_command(skill, number=1) if repeat else None
        commands = self._find_commands(skill)
        if not commands or self._choose_command(skill) == commands[0]:
            return None
        return self._fill_command(commands[0], skill, self._files)

    def _find_commands(self, skill: str) -> list[CommandExample]:
        return find_commands(self._turn.bodies.get(skill, ""))

    def _choose_command(self, skill: str) -> CommandExample | None:
        # The names of the skill and of files say nothing about what to do.
        request = strip_file_names(strip_skill_name(self._turn.text, skill), self._files)
        return choose_command(self._find_commands(skill), request, files=bool(self._files))

    def _prepare_command(self, skill: str, number: int = 0) -> CommandInstance | None:
        """The best command for the request; if it takes one file at a time, for the file with this number."""
        chosen = self._choose_command(skill)
        if chosen is None:
            return None
        ready = self._fill_command(chosen, skill, self._files)
        if not ready.repeats or len(self._files) == 1:
            return ready
        one = [*ready.used, *(name for name in self._files if name not in ready.used)][number]
        return self._fill_command(chosen, skill, (one,), label=PurePosixPath(one).stem)

    def _fill_command(
        self, chosen: CommandExample, skill: str, files: Sequence[str], *, label: str = ""
    ) -> CommandInstance:
        return fill_command(chosen.command, files, strip_skill_name(self._turn.text, skill), label=label)

    def _is_repeatable(self, skill: str) -> bool:
        ready = self._prepare_command(skill)
        return ready is not None and ready.repeats

    def _describe_undone(self, skill: str) -> list[str]:
        left = self._files[MAX_RUNS:] if self._is_repeatable(skill) else ()
        return [self._say.undone.format(files=", ".join(left))] if left else []

    def _build_answer(self, text: str) -> SayAction:
        return SayAction(add_signature(text, self._say, self.route, ran=bool(self._turn.runs)))


_LOG = logging.getLogger("openskills.agent.rules")


@check_arguments
class RuleModel:
    """A `Model` that is not an LLM: it loads the skill that fits a request and runs the command that it documents.

    It runs commands that it can fill in from the request and otherwise says that this needs a language model, in
    English or Chinese. A turn has at most one load and two runs. It is stateless.
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
            _LOG.info(
                "routed by rules", extra={"selected_skill_id": plan.route.skill, "routing_reason": plan.route.why}
            )
        action = plan.choose_action()
        if isinstance(action, SayAction):
            for line in action.text.splitlines(keepends=True):
                yield TextDelta(line)
            yield ModelResponse(action.text, model=self.name)
        else:
            yield ModelResponse(calls=(_action_to_call(action, turn),), stop="tool_calls", model=self.name)

    async def close(self) -> None:
        """Do nothing."""


def _action_to_call(action: LoadAction | RunAction, turn: TurnProgress) -> ToolCall:
    number = f"rule-{len(turn.steps) + 1}"
    if isinstance(action, LoadAction):
        return ToolCall(number, LOAD, json.dumps({"skill": action.skill}, ensure_ascii=False))
    arguments = {"skill": action.skill, "command": action.command, "save_as_artifacts": True}
    return ToolCall(number, RUN, json.dumps(arguments, ensure_ascii=False))


def _get_function(tool: object) -> object:
    return get_field(tool, "function") or tool


def _select_visible(skills: CatalogSnapshot, tools: Mapping[str, Any]) -> CatalogSnapshot:
    """The skills that the schema of `skill_load` lists."""
    properties = get_field(get_field(_get_function(tools.get(LOAD)), "parameters"), "properties")
    names: Collection[object] = get_items(get_field(get_field(properties, "skill"), "enum"))
    if not names or len(names) == len(skills.skills):
        return skills
    return skills.view(lambda skill: skill.name in names)
