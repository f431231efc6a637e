"""Long histories in fewer words: by a model, or by a rule."""

import logging
import re
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, TypeAlias

from openskills.agent.log import SUMMARISED, SUMMARY, Message, last_turn, transcript
from openskills.agent.model import Answer, Model, ModelRequest
from openskills.errors import SkillError
from openskills.runtime.session import SkillSession
from openskills.tokens import estimate

Summarise: TypeAlias = Callable[[Sequence[Message]], Awaitable[str]]
"""From messages to a text that says what matters in them."""

_ASKED = (
    "Summarise this conversation for the assistant that goes on with it: what the user wants, what was decided and "
    "found out, names and refs of files, what is still to be done. Facts only, at most 300 words."
)
_SHOWN = 400
_SHOWN_TO_MODEL = 4_000
_MOST = 12_000
"""Characters of a summary by the rule, however often it is summarised again."""
_LEFT_OUT = re.compile(r"\[(\d+) lines left out\]")
_LOG = logging.getLogger("openskills")


@dataclass(frozen=True, slots=True)
class Summary:
    """When a history has more than `tokens` (estimated), all but its last `keep_turns` turns become a summary.

    The texts of loaded skills are never summarised: they are not in the history, and stay in sight as the session's
    options say.
    """

    summarise: Summarise
    tokens: int = 16_000
    keep_turns: int = 1

    async def compact(self, agent: str, session: SkillSession) -> bool:
        """Write a summary into the log when it is time; says whether it was."""
        events = await session.events()
        said = transcript(events, agent)
        if sum(estimate(str(message)) for message in said) <= self.tokens:
            return False
        upto = last_turn(events, agent, self.keep_turns)
        before = [event for event in events if event.seq <= upto]
        old = transcript(before, agent)
        if not old:
            return False
        await session.log(SUMMARY, {"upto": upto, "text": await self._text(old)})
        return True

    async def _text(self, old: Sequence[Message]) -> str:
        """What was said, in fewer words; without the model that should find them, by the rule."""
        try:
            text = await self.summarise(old)
        except SkillError as error:
            _LOG.warning("a summary could not be written: %s", error.message)
            text = ""
        return text.strip() or await by_rule(old)


def by_model(model: Model) -> Summarise:
    """A summary that a model writes."""

    async def summarise(messages: Sequence[Message]) -> str:
        # As one text: calls of tools that this request does not have would be refused by some providers.
        said = "\n".join(line for message in messages for line in _lines(message, _SHOWN_TO_MODEL, results=True))
        asked = [{"role": "user", "content": f"{said}\n\n{_ASKED}"}]
        async with aclosing(model.stream(ModelRequest(asked, max_output_tokens=1_000))) as stream:
            async for event in stream:
                if isinstance(event, Answer):
                    return event.text
        return ""

    return summarise


async def by_rule(messages: Sequence[Message]) -> str:
    """A summary without a model: what the user and the assistant said, shortened, and which tools were called.

    What an earlier summary says is kept as it is. When it all gets too long, the beginning stays, which says what the
    conversation is about, and the end, which says where it stands; how much is missing between them is told.
    """
    return "\n".join(_within(_MOST, [line for message in messages for line in _lines(message, _SHOWN)]))


def _lines(message: Message, most: int, *, results: bool = False) -> list[str]:
    role, content = message.get("role"), message.get("content")
    if role == "system" and isinstance(content, str) and content.startswith(SUMMARISED):
        return content.removeprefix(SUMMARISED).strip("\n").split("\n")
    text = " ".join(str(content).split()) if isinstance(content, str) else ""
    calls: Sequence[Any] = message.get("tool_calls") or ()
    said = [f"{role}: {_cut(text, most)}"] if text and (results or role != "tool") else []
    return said + [f"called {call['function']['name']} {_cut(call['function']['arguments'], most)}" for call in calls]


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}…"


def _within(most: int, lines: Sequence[str]) -> list[str]:
    """The lines, without some of their middle when they are longer than that."""
    if sum(len(line) + 1 for line in lines) <= most:
        return list(lines)
    head = _fitting(lines, most // 4)
    tail = _fitting(lines[head:][::-1], most - most // 4)
    last = len(lines) - tail
    out = sum(int(found[1]) if (found := _LEFT_OUT.fullmatch(line)) else 1 for line in lines[head:last])
    return [*lines[:head], f"[{out} lines left out]", *lines[last:]]


def _fitting(lines: Sequence[str], room: int) -> int:
    """How many of the first lines fit."""
    for number, line in enumerate(lines):
        room -= len(line) + 1
        if room < 0:
            return number
    return len(lines)
