"""A model without a network and without a language model: rules choose a skill and run the command it documents."""

import json
import logging
from collections.abc import AsyncGenerator, Collection, Mapping
from typing import Any

from openskills.agent.model import Answer, ModelEvent, ModelRequest, TextDelta, ToolCall
from openskills.agent.rule_plan import Load, Plan, Run, Say
from openskills.agent.rule_turn import TurnSoFar, turn_of
from openskills.catalog.catalog import Catalog
from openskills.catalog.snapshot import Snapshot
from openskills.prompt.messages import get, items, string
from openskills.tools.profiles import LOAD, RUN

_LOG = logging.getLogger("openskills.agent.rules")


class RuleModel:
    """Chooses a skill by the name in a request, by the rules of the demo strategy, or by the catalog's search.

    It loads that skill, runs the command its text documents with the user's files in it, and says what came of it, in
    English or Chinese, and that no language model was asked. A turn has one load and two runs at most. It decides from
    the messages alone, so it may be used by any number of conversations.
    """

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def among(self, catalog: Catalog) -> "RuleModel":
        """The same rules for the skills of another catalog."""
        return RuleModel(catalog)

    @property
    def name(self) -> str:
        """How it is called in logs and results."""
        return "rule"

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        """The next step of the turn. Nothing is raised, whatever the messages are; no token is spent."""
        turn = turn_of(request.messages)
        tools = {name: tool for tool in request.tools if (name := string(_function(tool), "name"))}
        plan = Plan(turn, tools.keys(), _visible(self._catalog.snapshot, tools))
        if not turn.steps:
            _LOG.info(
                "routed by rules",
                extra={"selected_skill_id": plan.route.skill, "routing_reason": plan.route.why},
            )
        action = plan.next()
        if isinstance(action, Say):
            for line in action.text.splitlines(keepends=True):
                yield TextDelta(line)
            yield Answer(action.text, model=self.name)
        else:
            yield Answer(calls=(_call(action, turn),), stop="tool_calls", model=self.name)

    async def close(self) -> None:
        """There is nothing to give back."""


def _call(action: Load | Run, turn: TurnSoFar) -> ToolCall:
    number = f"rule-{len(turn.steps) + 1}"
    if isinstance(action, Load):
        return ToolCall(number, LOAD, json.dumps({"skill": action.skill}, ensure_ascii=False))
    arguments = {"skill": action.skill, "command": action.command, "save_as_artifacts": True}
    return ToolCall(number, RUN, json.dumps(arguments, ensure_ascii=False))


def _function(tool: object) -> object:
    """The part of a tool's description that has its name, in any format."""
    return get(tool, "function") or tool


def _visible(skills: Snapshot, tools: Mapping[str, Any]) -> Snapshot:
    """The skills that this conversation may load, as its tools name them."""
    properties = get(get(_function(tools.get(LOAD)), "parameters"), "properties")
    names: Collection[object] = items(get(get(properties, "skill"), "enum"))
    if not names or len(names) == len(skills.skills):
        return skills
    return skills.view(lambda skill: skill.name in names)
