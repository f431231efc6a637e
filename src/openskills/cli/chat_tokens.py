"""What a conversation costs: estimated from the requests as they are sent, and as the provider counted."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, cast

from openskills.agent.model import Usage
from openskills.catalog.skill import Skill
from openskills.cli.chat_view import usage_words
from openskills.cli.output import counted, plain
from openskills.errors import SkillError
from openskills.prompt.ledger import Ledger
from openskills.runtime.options import ModelCall
from openskills.session.events import MESSAGE, Event
from openskills.tokens import estimate


class Tokens:
    """Sees every request before it is sent."""

    def __init__(self) -> None:
        self._ledger = Ledger()
        self._loaded: tuple[str, ...] = ()

    def seen(self, call: ModelCall) -> None:
        """A `before_model` of a session's options that leaves every request as it is."""
        self._loaded = call.loaded_skills
        self._ledger.record(call.messages, ())

    def lines(self, events: Iterable[Event], skills: Iterable[Skill]) -> list[str]:
        """What is known, for a person: `events` are the conversation's log, `skills` all that the model may load."""
        sizes = {skill.name: _size(skill) for skill in skills}
        found = [_counted(usage_of(events)), *self._requests()]
        found.append(f"all {counted(len(sizes), 'skill')} in full would be about {sum(sizes.values()):,} tokens")
        if self._loaded:
            names = ", ".join(f"{plain(name)} (about {sizes.get(name, 0):,})" for name in self._loaded)
            found.append(f"in the last request were loaded: {names}")
        return found

    def _requests(self) -> list[str]:
        if not self._ledger.requests:
            return ["no request was sent since this chat was opened"]
        last = self._ledger.last[-1]
        again = f", {last.reused:.0%} of them unchanged since the one before" if last.before else ""
        number = counted(self._ledger.requests, "request")
        return [f"{number} since this chat was opened; the last had about {last.total:,} tokens{again}"]


def usage_of(events: Iterable[Event]) -> Usage:
    """What the provider counted for all answers of a log."""
    total: Counter[str] = Counter()
    for event in events:
        if event.kind == MESSAGE:
            total.update(cast("Mapping[str, Any]", event.payload.get("usage") or {}))
    return Usage(total["input"], total["output"], total["cached"])


def _counted(usage: Usage) -> str:
    if usage == Usage():
        return "the model counts no tokens; all numbers here are estimates"
    shown = usage_words({"input": usage.input, "output": usage.output, "cached": usage.cached})
    return f"counted by the provider for this conversation: {shown}"


def _size(skill: Skill) -> int:
    try:
        return estimate(skill.body())
    except SkillError:
        # Broken or gone since it was found: it costs nothing.
        return 0
