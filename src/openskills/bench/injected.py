"""Full injection: the texts of all skills stand in the system message of every request. Opens nothing."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from openskills.bench.library import Contents
from openskills.bench.talk import SYSTEM, Call, other_call, select_call
from openskills.bench.tasks import Step, StepKind
from openskills.errors import InvalidArgument
from openskills.prompt.accounting import RequestTokens
from openskills.prompt.fragments import lines_of, parse_fragment
from openskills.prompt.ledger import Ledger
from openskills.prompt.loaded import Block, rendered
from openskills.prompt.shown import Layer, Part, Piece
from openskills.session.changes import ALL
from openskills.tokens import TokenCounter


@dataclass(frozen=True, slots=True)
class Injected:
    """The text that stands in the system message, and what it consists of."""

    text: str
    parts: tuple[Part, ...]


def injected(skills: Iterable[Contents], *, docs: bool) -> Injected:
    """All bodies, with all documents if wanted, under the headings that ours have when they are loaded.

    There is neither a list of skills nor guidance: nobody needs them when everything is there.
    """
    blocks: list[Block] = []
    parts: list[Part] = []
    for skill in skills:
        pieces = tuple(_piece(path, text) for path, text in skill.docs.items()) if docs else ()
        blocks.append(Block(skill.name, _piece("SKILL.md", skill.body), pieces))
        parts.append(Part(Layer.BODY, skill.name, skill.body))
        parts += (Part(Layer.DOCS, skill.name, piece.text) for piece in pieces)
    return Injected(rendered(tuple(blocks)), tuple(parts))


class InjectedTalk:
    """A conversation in which nothing is loaded; a document that is not in the prompt is the answer of a tool."""

    def __init__(self, skills: Sequence[Contents], prompt: Injected, count: TokenCounter, *, docs: bool) -> None:
        self.messages: list[dict[str, Any]] = [{"role": "system", "content": f"{SYSTEM}\n\n{prompt.text}"}]
        self.tokens: list[RequestTokens] = []
        self._skills = {skill.name: skill for skill in skills}
        self._docs = docs
        self._count = count
        self._parts = list(prompt.parts)
        self._ledger = Ledger()

    def request(self) -> list[Any]:
        """What would be sent now: the messages as they are."""
        self.tokens.append(self._ledger.record(self.messages, self._parts, self._count))
        return list(self.messages)

    def calls_for(self, step: Step) -> Sequence[Call]:
        """Nothing is called for what is there already."""
        if step.kind is StepKind.OTHER:
            return [other_call()]
        return [select_call(step)] if step.kind is StepKind.DOCS and not self._docs else []

    async def answer(self, step: Step, call: Call, call_id: str) -> str:
        """The documents, as they would be shown in the result of a call."""
        del call, call_id
        if step.kind is StepKind.OTHER:
            return step.answer
        pieces = self._pieces(step)
        self._parts += (Part(Layer.DOCS, step.skill, piece.text) for piece in pieces)
        return Block(step.skill, None, pieces).text()

    def _pieces(self, step: Step) -> tuple[Piece, ...]:
        if step.skill not in self._skills:
            raise InvalidArgument("tasks", f"there is no skill {step.skill!r}")
        known = self._skills[step.skill].docs
        found: list[Piece] = []
        for name in known if step.docs == (ALL,) else step.docs:
            path, lines = parse_fragment(name)
            if path not in known:
                raise InvalidArgument("tasks", f"{step.skill!r} has no document {path!r}")
            found.append(_piece(name, known[path] if lines is None else lines_of(known[path], lines)))
        return tuple(found)


def _piece(path: str, text: str) -> Piece:
    return Piece(path, text, 0, 0)
