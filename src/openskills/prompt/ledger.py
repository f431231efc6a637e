"""What the requests of a conversation cost, and how much of each was there before. No clock, no I/O."""

from collections import Counter, deque
from collections.abc import Iterable, Sequence

from openskills.prompt.accounting import Counts, Flat, RequestTokens, account, compared, flattened
from openskills.prompt.messages import Message
from openskills.prompt.shown import Layer, Part
from openskills.tokens import TokenCounter, estimate

__all__ = ["Ledger", "RequestTokens", "account"]


class Ledger:
    """The requests of one conversation: each of the last ones, and all of them together."""

    def __init__(self, most: int = 256) -> None:
        self._last: deque[RequestTokens] = deque(maxlen=most)
        self._sum = RequestTokens()
        self._requests = 0
        self._sent: list[Flat] = []
        self._had = 0
        self._counts = Counts(estimate)

    @property
    def requests(self) -> int:
        """How many there were."""
        return self._requests

    @property
    def last(self) -> Sequence[RequestTokens]:
        """The last requests, the newest at the end."""
        return tuple(self._last)

    @property
    def sum(self) -> RequestTokens:
        """All requests together."""
        return self._sum

    def record(self, now: Sequence[Message], parts: Iterable[Part], count: TokenCounter = estimate) -> RequestTokens:
        """Account for a request after the one that was recorded before it, and add it.

        Keeps its own note of what was sent, so the messages may change afterwards. No text is counted twice in a row.
        """
        if self._counts.count is not count:
            self._counts = Counts(count)
        flat = flattened(now)
        found = compared(self._sent, self._had, flat, parts, self._counts)
        self._sent, self._had = flat, found.total
        self._counts.forget()
        self.add(found)
        return found

    def add(self, request: RequestTokens) -> None:
        """Add a request that was accounted for elsewhere."""
        self._requests += 1
        self._last.append(request)
        self._sum = _together(self._sum, request)

    def table(self) -> str:
        """The last requests, the sum, and the skills with the most tokens first: text for a person."""
        first = self._requests - len(self._last) + 1
        rows = [["request", "tokens", *Layer, "unchanged"]]
        rows += [_row(str(number), request) for number, request in enumerate(self._last, first)]
        rows.append(_row("all", self._sum))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(map(str.rjust, row, widths)) for row in rows]
        skills = sorted(self._sum.by_skill.items(), key=lambda item: (-item[1], item[0]))
        lines += [f"{skill}: {tokens:,}" for skill, tokens in skills]
        return "\n".join([*lines, *(["All tokens are estimated."] if self._sum.estimated else [])])


def _together(one: RequestTokens, other: RequestTokens) -> RequestTokens:
    return RequestTokens(
        one.total + other.total,
        {layer: one.by_layer.get(layer, 0) + other.by_layer.get(layer, 0) for layer in Layer},
        dict(Counter(one.by_skill) + Counter(other.by_skill)),
        one.unchanged + other.unchanged,
        one.before + other.before,
        one.estimated or other.estimated,
    )


def _row(name: str, request: RequestTokens) -> list[str]:
    layers = [f"{request.by_layer.get(layer, 0):,}" for layer in Layer]
    return [name, f"{request.total:,}", *layers, f"{request.share:.1%}" if request.before else "-"]
