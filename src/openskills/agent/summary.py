"""Long histories in fewer words: by a model, or by a rule."""

import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, TypeAlias

from openskills.agent.log import SUMMARY, Message, last_turn, transcript
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
        asked = [*messages, {"role": "user", "content": _ASKED}]
        async with aclosing(model.stream(ModelRequest(asked, max_output_tokens=1_000))) as stream:
            async for event in stream:
                if isinstance(event, Answer):
                    return event.text
        return ""

    return summarise


async def by_rule(messages: Sequence[Message]) -> str:
    """A summary without a model: what the user and the assistant said, shortened, and which tools were called."""
    return "\n".join(line for message in messages for line in _lines(message))


def _lines(message: Message) -> list[str]:
    role, content = message.get("role"), message.get("content")
    text = " ".join(str(content).split()) if isinstance(content, str) else ""
    shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
    calls: Sequence[Any] = message.get("tool_calls") or ()
    said = [f"{role}: {shown}"] if shown and role != "tool" else []
    return said + [f"called {call['function']['name']} {call['function']['arguments'][:_SHOWN]}" for call in calls]
