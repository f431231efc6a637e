"""What the requests of a conversation cost, and what they would have cost with every skill in each prompt."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from openskills.agent.models.model import ModelRequest
from openskills.catalog.skill import Skill
from openskills.prompt.history import SYSTEM_ROLES, Message, get_string, get_tool_calls
from openskills.prompt.usage import Ledger
from openskills.tokens import estimate_tokens
from openskills.tools.names import KNOWLEDGE, LOAD, SEARCH
from openskills.tools.tool import format_tools


@dataclass(frozen=True, slots=True)
class Asked:
    """A request that was sent: when, what it cost, and how much of it a prompt cache has from the one before."""

    at: datetime
    total: int
    unchanged: int


@dataclass(slots=True)
class Requests:
    """Notes every request of an agent; give `note` to its callbacks."""

    asked: list[Asked] = field(default_factory=list[Asked])
    sent: list[Sequence[Message]] = field(default_factory=list[Sequence[Message]])
    tools: list[Sequence[Any]] = field(default_factory=list[Sequence[Any]])
    ledger: Ledger = field(default_factory=Ledger)

    async def note(self, _agent: str, request: ModelRequest) -> None:
        """A request is about to be sent."""
        cost = self.ledger.record(request.messages, (), tools=format_tools(request.tools))
        self.asked.append(Asked(datetime.now(UTC), cost.total, cost.unchanged))
        self.sent.append(request.messages)
        self.tools.append(request.tools)

    @property
    def total(self) -> int:
        """The tokens of all requests."""
        return sum(one.total for one in self.asked)

    def at_once(self, skills: Sequence[Skill]) -> int:
        """The same conversation with the whole text of all skills in the system message, and so without a load.

        The tools are the same, without those that load skills.
        """
        everything = {"role": "system", "content": "\n\n".join(map(whole_text, skills))}
        needed = [tool for tool in self.tools[-1] if tool["function"]["name"] not in (*KNOWLEDGE, SEARCH)]
        requests = [[everything, *_without_loads(sent)] for sent in self._without_load_requests()]
        return sum(Ledger().record(request, (), tools=format_tools(needed)).total for request in requests)

    def saved(self, skills: Sequence[Skill], count: int) -> float:
        """The share of the tokens that is saved with `count` skills, of which the others are like these on average."""
        listed, full = per_skill(skills)
        more = count - len(skills)
        ours = self.total + more * listed * len(self.sent)
        return 1 - ours / (self.at_once(skills) + more * full * len(self._without_load_requests()))

    def _without_load_requests(self) -> list[Sequence[Message]]:
        return [sent for sent in self.sent if not _asks_for_a_load(sent, self.sent)]


def whole_text(skill: Skill) -> str:
    """Name, description, instructions and documents of a skill."""
    docs = (f"{doc.path}\n\n{skill.read(doc.path).decode('utf-8', 'replace')}" for doc in skill.docs())
    return "\n\n".join((skill.name, skill.description, skill.body(), *docs))


def per_skill(skills: Sequence[Skill]) -> tuple[int, int]:
    """What a skill costs on average: as a line of the overview, and in full."""
    listed = sum(estimate_tokens(f"- {skill.name}: {skill.description}") for skill in skills)
    return listed // len(skills), sum(estimate_tokens(whole_text(skill)) for skill in skills) // len(skills)


def _loads(messages: Sequence[Message]) -> set[str]:
    return {call.id for message in messages for call in get_tool_calls(message) if call.name == LOAD}


def _without_loads(messages: Sequence[Message]) -> list[Any]:
    loads = _loads(messages)
    return [
        message
        for message in messages
        if get_string(message, "role") not in SYSTEM_ROLES
        and get_string(message, "tool_call_id") not in loads
        and not any(call.id in loads for call in get_tool_calls(message))
    ]


def _asks_for_a_load(sent: Sequence[Message], all_sent: Sequence[Sequence[Message]]) -> bool:
    """Whether the answer to a request was a load: the next request has one more."""
    position = next(index for index, one in enumerate(all_sent) if one is sent)
    following = all_sent[position + 1] if position + 1 < len(all_sent) else sent
    return len(_loads(following)) > len(_loads(sent))
