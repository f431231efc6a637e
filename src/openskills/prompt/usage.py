"""Token usage of requests by layer and skill, and how much of each request is unchanged. No I/O."""

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import NamedTuple, cast

from openskills.prompt.blocks import PromptLayer, PromptPart
from openskills.prompt.history import (
    HistoryToolCall,
    Message,
    get_field,
    get_items,
    get_part_texts,
    get_string,
    get_tool_calls,
)
from openskills.tokens import TokenCounter, estimate_tokens

_MAX_DEPTH = 6  # of nested data in a message


@dataclass(frozen=True, slots=True)
class RequestTokens:
    """The tokens of one request, or of several.

    `before` is the number of tokens of the previous request, `unchanged` how many of them this one starts with.
    `by_layer` has every layer; its sum may differ from `total` by a few tokens. `estimated`: not counted exactly.
    """

    total: int = 0
    by_layer: Mapping[PromptLayer, int] = field(default_factory=lambda: dict.fromkeys(PromptLayer, 0))
    by_skill: Mapping[str, int] = field(default_factory=dict[str, int])
    unchanged: int = 0
    before: int = 0
    estimated: bool = False

    @property
    def unchanged_share(self) -> float:
        """The share of the previous request that this one starts with; 1 if there was none."""
        return self.unchanged / self.before if self.before else 1.0

    @property
    def cache_share(self) -> float:
        """The share of this request that a prompt cache may have."""
        return self.unchanged / self.total if self.total else 0.0


class FlatMessage(NamedTuple):
    """A message as texts, which are counted, and data, which is only compared."""

    role: str
    texts: tuple[str, ...]
    data: tuple[str, ...] = ()


class TokenCountCache:
    """Caches the token counts of the texts in the last request."""

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
        """Drop the texts that were not used since the last call."""
        self._before, self._now = self._now, {}


def account(
    before: Sequence[Message] | None,
    now: Sequence[Message],
    parts: Iterable[PromptPart],
    count: TokenCounter = estimate_tokens,
) -> RequestTokens:
    """Count a request that follows `before`; `parts` are the texts that were added to it.

    Texts, names of called tools and their arguments are counted. Images and other data are only compared.
    """
    counts = TokenCountCache(count)
    old = flatten_messages(before or ())
    return compare_requests(old, count_tokens(old, counts), flatten_messages(now), parts, counts)


def flatten_messages(messages: Iterable[Message]) -> list[FlatMessage]:
    """Copy messages into their texts and data."""
    return [_flatten_message(message) for message in messages]


def count_tokens(messages: Iterable[FlatMessage], count: TokenCounter) -> int:
    """The tokens of all texts."""
    return sum(count(text) for message in messages for text in message.texts)


def compare_requests(
    before: Sequence[FlatMessage],
    had: int,
    now: Sequence[FlatMessage],
    parts: Iterable[PromptPart],
    count: TokenCountCache,
) -> RequestTokens:
    """As `account`, for flat messages; `had` is the total of those before."""
    layers = dict.fromkeys(PromptLayer, 0)
    skills: dict[str, int] = {}
    for part in parts:
        tokens = count(part.text)
        layers[part.layer] += tokens
        if part.skill:
            skills[part.skill] = skills.get(part.skill, 0) + tokens
    each = [sum(map(count, message.texts)) for message in now]
    tokens = sum(each)
    layers[PromptLayer.OTHER] = max(0, tokens - sum(layers.values()))
    return RequestTokens(
        tokens, layers, skills, _count_unchanged(before, now, each, count), had, count.count is estimate_tokens
    )


def _count_unchanged(
    before: Sequence[FlatMessage], now: Sequence[FlatMessage], each: Sequence[int], count: TokenCounter
) -> int:
    unchanged = 0
    for old, new, tokens in zip(before, now, each, strict=False):
        if old != new:
            return unchanged + _count_common(old, new, count)
        unchanged += tokens
    return unchanged


def _count_common(old: FlatMessage, new: FlatMessage, count: TokenCounter) -> int:
    """The tokens of the common beginning of two messages."""
    tokens = 0
    if old.role == new.role:
        for one, other in zip_longest(old.texts, new.texts, fillvalue=""):
            if one != other:
                return tokens + count(one[: _find_common_length(one, other)])
            tokens += count(one)
    return tokens


def _find_common_length(one: str, other: str) -> int:
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one.startswith(other[low:middle], low):
            low = middle
        else:
            high = middle - 1
    return low


def _flatten_message(message: Message) -> FlatMessage:
    role, content = get_string(message, "role"), get_field(message, "content")
    calls = [text for call in get_tool_calls(message) for text in _list_call_texts(call)] if role == "assistant" else ()
    if isinstance(content, str):
        return FlatMessage(role, (content, *calls))
    if content is None:
        return FlatMessage(role, tuple(calls))
    data = tuple(text for part in get_items(content) if not get_part_texts((part,)) for text in _iter_strings(part))
    return FlatMessage(role, (*get_part_texts(content), *calls), data)


def _list_call_texts(call: HistoryToolCall) -> tuple[str, ...]:
    return (
        (call.name, call.arguments) if isinstance(call.arguments, str) else (call.name, *_iter_strings(call.arguments))
    )


def _iter_strings(value: object, depth: int = _MAX_DEPTH) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif depth and isinstance(value, Mapping):
        for key, inner in cast("Mapping[object, object]", value).items():
            yield from _iter_strings(key, 0)
            yield from _iter_strings(inner, depth - 1)
    elif depth:
        for inner in get_items(value):
            yield from _iter_strings(inner, depth - 1)


__all__ = ["Ledger", "RequestTokens", "account"]


class Ledger:
    """Token usage of one conversation: the last `max_requests` requests, and the sum of all."""

    def __init__(self, max_requests: int = 256) -> None:
        self._last: deque[RequestTokens] = deque(maxlen=max_requests)
        self._sum = RequestTokens()
        self._requests = 0
        self._sent: list[FlatMessage] = []
        self._had = 0
        self._counts = TokenCountCache(estimate_tokens)

    @property
    def requests(self) -> int:
        """How many requests there were."""
        return self._requests

    @property
    def last(self) -> Sequence[RequestTokens]:
        """The last requests, newest last."""
        return tuple(self._last)

    @property
    def sum(self) -> RequestTokens:
        """The sum of all requests."""
        return self._sum

    def record(
        self,
        now: Sequence[Message],
        parts: Iterable[PromptPart],
        count: TokenCounter = estimate_tokens,
        *,
        tools: str = "",
    ) -> RequestTokens:
        """Count a request, comparing it with the previous one, and add it. The messages may change afterwards.

        `tools` are the descriptions of its tools as JSON, which providers put in front of the messages.
        """
        if self._counts.count is not count:
            self._counts = TokenCountCache(count)
        flat = flatten_messages(now)
        if tools:
            flat.insert(0, FlatMessage(PromptLayer.TOOLS, (tools,)))
            parts = (PromptPart(PromptLayer.TOOLS, "", tools), *parts)
        found = compare_requests(self._sent, self._had, flat, parts, self._counts)
        self._sent, self._had = flat, found.total
        self._counts.forget()
        self.add(found)
        return found

    def add(self, request: RequestTokens) -> None:
        """Add a request that was counted elsewhere."""
        self._requests += 1
        self._last.append(request)
        self._sum = _merge(self._sum, request)

    def format_table(self) -> str:
        """A text table of the last requests and the sum, then the skills by tokens."""
        first = self._requests - len(self._last) + 1
        rows = [["request", "tokens", *PromptLayer, "unchanged"]]
        rows += [_format_row(str(number), request) for number, request in enumerate(self._last, first)]
        rows.append(_format_row("all", self._sum))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(map(str.rjust, row, widths)) for row in rows]
        skills = sorted(self._sum.by_skill.items(), key=lambda item: (-item[1], item[0]))
        lines += [f"{skill}: {tokens:,}" for skill, tokens in skills]
        return "\n".join([*lines, *(["All tokens are estimated."] if self._sum.estimated else [])])


def _merge(one: RequestTokens, other: RequestTokens) -> RequestTokens:
    return RequestTokens(
        one.total + other.total,
        {layer: one.by_layer.get(layer, 0) + other.by_layer.get(layer, 0) for layer in PromptLayer},
        dict(Counter(one.by_skill) + Counter(other.by_skill)),
        one.unchanged + other.unchanged,
        one.before + other.before,
        one.estimated or other.estimated,
    )


def _format_row(name: str, request: RequestTokens) -> list[str]:
    layers = [f"{request.by_layer.get(layer, 0):,}" for layer in PromptLayer]
    return [name, f"{request.total:,}", *layers, f"{request.unchanged_share:.1%}" if request.before else "-"]
