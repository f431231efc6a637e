"""A conversation with a script: the messages that a program around a model keeps, and the requests it would send."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from openskills.bench.tasks import Step, StepKind, Turn
from openskills.errors import InvalidArgument
from openskills.prompt.accounting import RequestTokens
from openskills.runtime.session import SkillSession

SYSTEM = "You help with office work. Be brief, and say which files you made."
"""What the application itself tells the model."""

OTHER_TOOL = "lookup"


Call: TypeAlias = tuple[str, Mapping[str, Any]]
"""The name of a tool, and its arguments."""


class Talk(Protocol):
    """Who can play a conversation. `tokens` has what each request cost that was asked for."""

    messages: list[dict[str, Any]]
    tokens: list[RequestTokens]

    def request(self) -> list[Any]:
        """What would be sent now."""
        ...

    def calls_for(self, step: Step) -> Sequence[Call]:
        """The calls that a step takes here; none when there is nothing to do."""
        ...

    async def answer(self, step: Step, call: Call, call_id: str) -> str:
        """What the tool answers to a call of a step."""
        ...


async def play(talk: Talk, turns: Sequence[Turn]) -> list[list[Any]]:
    """The requests of a whole conversation, one after what the user says and one after each call."""
    requests: list[list[Any]] = []
    for turn in turns:
        talk.messages.append({"role": "user", "content": turn.user})
        requests.append(talk.request())
        for step in turn.steps:
            for call in talk.calls_for(step):
                await _called(talk, step, call, f"call_{len(talk.messages)}")
                requests.append(talk.request())
        talk.messages.append({"role": "assistant", "content": "Done."})
    return requests


async def _called(talk: Talk, step: Step, call: Call, call_id: str) -> None:
    name, arguments = call
    function = {"name": name, "arguments": json.dumps(arguments, ensure_ascii=False)}
    written = {"id": call_id, "type": "function", "function": function}
    talk.messages.append({"role": "assistant", "content": None, "tool_calls": [written]})
    text = await talk.answer(step, call, call_id)
    talk.messages.append({"role": "tool", "tool_call_id": call_id, "content": text})


class SessionTalk:
    """Progressive disclosure: a session of ours, whose tools are really called.

    The skills of `searched` are looked for with these words before they are loaded, as a model would have to.
    """

    def __init__(self, session: SkillSession, searched: Mapping[str, str] | None = None) -> None:
        self.session = session
        self.messages: list[dict[str, Any]] = [{"role": "system", "content": SYSTEM}]
        self.tokens: list[RequestTokens] = []
        self._searched = searched or {}

    def request(self) -> list[Any]:
        """What would be sent now."""
        sent = self.session.context(self.messages)
        self.tokens.append(self.session.ledger.last[-1])
        return sent

    def calls_for(self, step: Step) -> Sequence[Call]:
        """As the model would call our tools."""
        if step.kind is StepKind.OTHER:
            return [other_call()]
        if step.kind is StepKind.DOCS:
            return [select_call(step)]
        words = self._searched.get(step.skill)
        search: list[Call] = [] if words is None else [("skill_search", {"query": words})]
        return [*search, ("skill_load", {"skill": step.skill})]

    async def answer(self, step: Step, call: Call, call_id: str) -> str:
        """What the tool answers. Raises `InvalidArgument` when it fails: the script does not fit the skills."""
        if step.kind is StepKind.OTHER:
            return step.answer
        result = await self.session.call(*call, call_id=call_id)
        if result.error is not None:
            raise InvalidArgument("tasks", f"{call[0]} of {step.skill!r} failed: {result.text}")
        return result.text


def other_call() -> Call:
    """The call of a tool that is not ours."""
    return OTHER_TOOL, {"table": "figures"}


def select_call(step: Step) -> Call:
    """The call that selects the documents of a step."""
    return "skill_select_docs", {"skill": step.skill, "docs": list(step.docs), "mode": "add"}
