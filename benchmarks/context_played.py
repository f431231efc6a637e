"""What the requests of a conversation cost, in whatever way it was played. Nothing here depends on time."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from context_ours import talk_over
from context_talk import Turn

from openskills.errors import MissingExtra
from openskills.prompt.usage import Ledger, RequestTokens
from openskills.runtime.options import SessionOptions
from openskills.tokens import TokenCounter, estimate_tokens, load_exact_counter


@dataclass(frozen=True)
class Played:
    """A conversation in one way: what every request cost."""

    way: str
    requests: Sequence[RequestTokens]

    @property
    def least(self) -> float:
        """The smallest share of a request that the next one kept, in percent."""
        return min(request.unchanged_share for request in self.requests) * 100

    @property
    def sent(self) -> int:
        """The tokens of all requests."""
        return sum(request.total for request in self.requests)

    @property
    def cached(self) -> int:
        """Those of them that a prompt cache may have had."""
        return sum(request.unchanged for request in self.requests)

    @property
    def uncached(self) -> int:
        """Those that none had."""
        return self.sent - self.cached


def counter() -> TokenCounter:
    """The exact counter where it is installed."""
    try:
        return load_exact_counter()
    except MissingExtra:
        return estimate_tokens


def counted_as(count: TokenCounter) -> str:
    """How tokens are counted, for the page."""
    return "as estimated tokens" if count is estimate_tokens else "as tokens of o200k"


async def ours(
    way: str, turns: Sequence[Turn], skills: Path, home: Path, count: TokenCounter, *, placement: str, mode: str
) -> Played:
    """The conversation in a session of ours."""
    options = SessionOptions(placement=placement, load_mode=mode, count=count)
    async with talk_over(skills, home, options) as talk:
        await talk.play(turns)
        return Played(way, talk.session.ledger.last)


def theirs(way: str, requests: Sequence[Sequence[dict[str, Any]]], count: TokenCounter) -> Played:
    """The conversation that somebody else has played, counted in the same way."""
    ledger = Ledger()
    return Played(way, [ledger.record(request, (), count) for request in requests])
