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

_MAX_NOT_SUMMED = 256
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
    """Caches the token counts of texts, at least of those that were counted last."""

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

    def limit(self, size: int) -> None:
        """Drop texts that were not used for long if there are more than `size`."""
        if len(self._now) > size:
            self._before, self._now = self._now, {}


def account(
    before: Sequence[Message] | None,
    now: Sequence[Message],
    parts: Sequence[PromptPart],
    count: TokenCounter = estimate_tokens,
) -> RequestTokens:
    """Count a request that follows `before`; `parts` are the texts that were added to it.

    Texts, names of called tools and their arguments are counted. Images and other data are only compared.
    """
    ledger = Ledger()
    if before is not None:
        ledger.record(before, (), count)
    return ledger.record(now, parts, count)


def flatten_messages(messages: Iterable[Message]) -> list[FlatMessage]:
    """Copy messages into their texts and data."""
    return [_flatten_message(message) for message in messages]


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
        self._requests = 0
        self._sum = RequestTokens()
        self._not_summed: list[RequestTokens] = []
        self._sent: list[FlatMessage] = []
        self._each: list[int] = []
        self._parts: Sequence[PromptPart] | None = None
        self._by_part: tuple[Mapping[PromptLayer, int], Mapping[str, int]] = ({}, {})
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
        new, self._not_summed = [self._sum, *self._not_summed], []
        self._sum = RequestTokens(
            sum(one.total for one in new),
            {layer: sum(one.by_layer.get(layer, 0) for one in new) for layer in PromptLayer},
            dict(sum((Counter(one.by_skill) for one in new), Counter[str]())),
            sum(one.unchanged for one in new),
            sum(one.before for one in new),
            any(one.estimated for one in new),
        )
        return self._sum

    def record(
        self,
        now: Sequence[Message],
        parts: Sequence[PromptPart],
        count: TokenCounter = estimate_tokens,
        *,
        tools: str = "",
        unchanged: int = 0,
        after: RequestTokens | None = None,
    ) -> RequestTokens:
        """Count a request, comparing it with the previous one, and add it. The messages may change afterwards.

        `tools` are the descriptions of its tools as JSON, which providers put in front of the messages. The first
        `unchanged` messages are known to be those of the request `after`.
        """
        if self._counts.count is not count:
            self._counts = TokenCountCache(count)
            self._parts = after = None
        sent, each = self._sent, self._each
        described = sent[0].texts[0] if sent and sent[0].role == PromptLayer.TOOLS else ""
        is_next = unchanged and after is not None and after is self._last[-1] and described == tools
        same = unchanged + bool(tools) if is_next else 0
        flat = flatten_messages(now[unchanged if same else 0 :])
        if tools and not same:
            flat.insert(0, FlatMessage(PromptLayer.TOOLS, (tools,)))
        had = sum(each)
        self._sent = [*sent[:same], *flat]
        self._each = [*each[:same], *(sum(map(self._counts, message.texts)) for message in flat)]
        total = sum(self._each)
        layers, skills = self._count_parts(parts)
        layers = {**layers, PromptLayer.TOOLS: self._counts(tools) if tools else 0}
        layers[PromptLayer.OTHER] = max(0, total - sum(layers.values()))
        found = RequestTokens(
            total, layers, skills, self._count_unchanged(sent, same), had, self._counts.count is estimate_tokens
        )
        self._counts.limit(4 * len(self._sent) + 64)
        self.add(found)
        return found

    def _count_unchanged(self, before: Sequence[FlatMessage], same: int) -> int:
        """The tokens of the common beginning with the request before; the first `same` messages are equal."""
        for index, old in enumerate(before[same : len(self._sent)], same):
            if old != self._sent[index]:
                return sum(self._each[:index]) + _count_common(old, self._sent[index], self._counts)
        return sum(self._each[: len(before)])

    def _count_parts(self, parts: Sequence[PromptPart]) -> tuple[Mapping[PromptLayer, int], Mapping[str, int]]:
        """The tokens of added texts by layer and by skill."""
        if parts != self._parts:
            layers = dict.fromkeys(PromptLayer, 0)
            skills: dict[str, int] = {}
            for part in parts:
                tokens = self._counts(part.text)
                layers[part.layer] += tokens
                if part.skill:
                    skills[part.skill] = skills.get(part.skill, 0) + tokens
            self._parts, self._by_part = tuple(parts), (layers, skills)
        return self._by_part

    def add(self, request: RequestTokens) -> None:
        """Add a request that was counted elsewhere."""
        self._requests += 1
        self._last.append(request)
        self._not_summed.append(request)
        if len(self._not_summed) > _MAX_NOT_SUMMED:
            _ = self.sum

    def format_table(self) -> str:
        """A text table of the last requests and the sum, then the skills by tokens."""
        first = self._requests - len(self._last) + 1
        rows = [["request", "tokens", *PromptLayer, "unchanged"]]
        rows += [_format_row(str(number), request) for number, request in enumerate(self._last, first)]
        rows.append(_format_row("all", self.sum))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(map(str.rjust, row, widths)) for row in rows]
        skills = sorted(self.sum.by_skill.items(), key=lambda item: (-item[1], item[0]))
        lines += [f"{skill}: {tokens:,}" for skill, tokens in skills]
        return "\n".join([*lines, *(["All tokens are estimated."] if self.sum.estimated else [])])


def _format_row(name: str, request: RequestTokens) -> list[str]:
    layers = [f"{request.by_layer.get(layer, 0):,}" for layer in PromptLayer]
    return [name, f"{request.total:,}", *layers, f"{request.unchanged_share:.1%}" if request.before else "-"]
