"""What one request costs: tokens by layer and by skill, and how much of it was there before. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import NamedTuple, cast

from openskills.prompt.messages import Message, ToolCall, calls_of, get, items, string, texts_of
from openskills.prompt.shown import Layer, Part
from openskills.tokens import TokenCounter, estimate

_DEPTH = 6
"""No honest message is nested deeper."""


@dataclass(frozen=True, slots=True)
class RequestTokens:
    """The tokens of one request, or of several.

    `before` is how many the request before it had, `unchanged` how many of those are the beginning of this one.
    `by_layer` has every layer; the tokens of a text and those of its parts may differ by a few. `estimated` says that
    nobody counted exactly.
    """

    total: int = 0
    by_layer: Mapping[Layer, int] = field(default_factory=lambda: dict.fromkeys(Layer, 0))
    by_skill: Mapping[str, int] = field(default_factory=dict[str, int])
    unchanged: int = 0
    before: int = 0
    estimated: bool = False

    @property
    def share(self) -> float:
        """How much of the request before is unchanged at the beginning of this one; 1 when there was none."""
        return self.unchanged / self.before if self.before else 1.0

    @property
    def reused(self) -> float:
        """How much of this request a prompt cache may already have."""
        return self.unchanged / self.total if self.total else 0.0


class Flat(NamedTuple):
    """A message as what is counted, and what is only compared."""

    role: str
    texts: tuple[str, ...]
    data: tuple[str, ...] = ()


class Counts:
    """Counts each text once, and remembers those of the last request."""

    def __init__(self, count: TokenCounter) -> None:
        self.count = count
        self._now: dict[str, int] = {}
        self._before: dict[str, int] = {}

    def __call__(self, text: str) -> int:
        found = self._now.get(text)
        if found is None:
            found = self._before.get(text)
            self._now[text] = found = self.count(text) if found is None else found
        return found

    def forget(self) -> None:
        """Forget the texts that were not asked for since the last time this was called."""
        self._before, self._now = self._now, {}


def account(
    before: Sequence[Message] | None, now: Sequence[Message], parts: Iterable[Part], count: TokenCounter = estimate
) -> RequestTokens:
    """What a request costs, `parts` being our texts in it, after one that was sent `before`.

    Counted are texts, the names of called tools and their arguments. Images and other data are compared, not counted.
    """
    counts = Counts(count)
    old = flattened(before or ())
    return compared(old, total(old, counts), flattened(now), parts, counts)


def flattened(messages: Iterable[Message]) -> list[Flat]:
    """Messages as their texts; what happens to the messages later does not change them."""
    return [_flat(message) for message in messages]


def total(messages: Iterable[Flat], count: TokenCounter) -> int:
    """The tokens of all texts."""
    return sum(count(text) for message in messages for text in message.texts)


def compared(
    before: Sequence[Flat], had: int, now: Sequence[Flat], parts: Iterable[Part], count: Counts
) -> RequestTokens:
    """As `account`, for messages that are flat already; `had` is the total of those before."""
    layers = dict.fromkeys(Layer, 0)
    skills: dict[str, int] = {}
    for part in parts:
        tokens = count(part.text)
        layers[part.layer] += tokens
        if part.skill:
            skills[part.skill] = skills.get(part.skill, 0) + tokens
    each = [sum(map(count, message.texts)) for message in now]
    tokens = sum(each)
    layers[Layer.OTHER] = max(0, tokens - sum(layers.values()))
    return RequestTokens(tokens, layers, skills, _unchanged(before, now, each, count), had, count.count is estimate)


def _unchanged(before: Sequence[Flat], now: Sequence[Flat], each: Sequence[int], count: TokenCounter) -> int:
    unchanged = 0
    for old, new, tokens in zip(before, now, each, strict=False):
        if old != new:
            return unchanged + _common(old, new, count)
        unchanged += tokens
    return unchanged


def _common(old: Flat, new: Flat, count: TokenCounter) -> int:
    """The tokens at the beginning of two different messages that are the same."""
    tokens = 0
    if old.role == new.role:
        for one, other in zip_longest(old.texts, new.texts, fillvalue=""):
            if one != other:
                return tokens + count(one[: _common_length(one, other)])
            tokens += count(one)
    return tokens


def _common_length(one: str, other: str) -> int:
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one.startswith(other[low:middle], low):
            low = middle
        else:
            high = middle - 1
    return low


def _flat(message: Message) -> Flat:
    role, content = string(message, "role"), get(message, "content")
    calls = [text for call in calls_of(message) for text in _written(call)] if role == "assistant" else ()
    if isinstance(content, str):
        return Flat(role, (content, *calls))
    if content is None:
        return Flat(role, tuple(calls))
    data = tuple(text for part in items(content) if not texts_of((part,)) for text in _strings(part))
    return Flat(role, (*texts_of(content), *calls), data)


def _written(call: ToolCall) -> tuple[str, ...]:
    return (call.name, call.arguments) if isinstance(call.arguments, str) else (call.name, *_strings(call.arguments))


def _strings(value: object, depth: int = _DEPTH) -> Iterator[str]:
    """All text in a piece of data, however it is arranged."""
    if isinstance(value, str):
        yield value
    elif depth and isinstance(value, Mapping):
        for key, inner in cast("Mapping[object, object]", value).items():
            yield from _strings(key, 0)
            yield from _strings(inner, depth - 1)
    elif depth:
        for inner in items(value):
            yield from _strings(inner, depth - 1)
